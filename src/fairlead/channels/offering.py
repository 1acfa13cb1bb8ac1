"""Offered against requested: what the channels of a filter promise its subscribers, and what those require.

Law
A subscription is refused iff some notification that its filter matches is in a channel, or in none, that offers
less than is requested. The refusal names the channel, the policy, both levels and such a notification.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import reduce
from operator import or_
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from fairlead.channels.channel import Channel, Channels
from fairlead.channels.quality import channel_duration
from fairlead.errors import QualityRefused
from fairlead.filters.algebra import algebra_for
from fairlead.filters.filter import Filter
from fairlead.filters.schema import Schema
from fairlead.model import Notification

__all__ = ["Quality", "Shortfall", "check_offer", "quality_of", "shortfalls"]

OfferedOrder: TypeAlias = Literal["any", "producer", "total"]
Durability: TypeAlias = Literal["none", "logged", "retained"]
ORDERS: Final[tuple[str, ...]] = get_args(OfferedOrder)
DURABILITIES: Final[tuple[str, ...]] = get_args(Durability)
"""Each offers what those before it do."""
FORM: Final = "order=producer, deadline=10s, durability=retained"


@dataclass(frozen=True, slots=True)
class Quality:
    """The least quality of service that a subscriber requires.

    order: `producer`, those of each producer in the order of their publication; `total`, all in the total order.
    deadline: a duration in which each key has a notification at least. durability: `logged`, what is published
    outlives the process that it is published at; `retained`, and the last values come first.
    """

    order: OfferedOrder = "any"
    deadline: str | None = None
    durability: Durability = "none"

    def __post_init__(self) -> None:
        if self.order not in ORDERS or self.durability not in DURABILITIES:
            raise QualityRefused(
                f"an order is one of {', '.join(ORDERS)}, and durability one of {', '.join(DURABILITIES)}",
                hint=FORM,
            )
        if self.deadline is not None and channel_duration(self.deadline) <= 0:
            raise QualityRefused(f"a deadline is a time longer than nothing, not {self.deadline!r}")

    def __str__(self) -> str:
        levels = ((each.name, getattr(self, each.name), each.default) for each in fields(self))
        return ", ".join(f"{name}={level}" for name, level, default in levels if level != default)


def quality_of(given: str | Quality) -> Quality:
    """A quality, or its text: `order=producer, deadline=10s, durability=retained`."""
    if isinstance(given, Quality):
        return given
    found: dict[str, str] = {}
    for part in given.split(",") if given.strip() else ():
        name, is_given, level = (each.strip() for each in part.partition("="))
        if not is_given or name in found or name not in {each.name for each in fields(Quality)}:
            raise QualityRefused(f"no quality of service: {given!r}", hint=FORM)
        found[name] = level
    return Quality(**found)  # type: ignore[arg-type]


class Shortfall(NamedTuple):
    """A policy of which a channel offers less than is requested."""

    channel: str
    """Its name; empty for what is in no channel."""
    policy: str
    offered: str
    requested: str
    witness: Notification | None

    def __str__(self) -> str:
        where = f"the channel {self.channel!r}" if self.channel else "what is in no channel"
        example = "" if self.witness is None else f", such as {self.witness.to_json()},"
        return f"{where}{example} offers {self.policy} {self.offered}, not {self.requested}"


def shortfalls(
    channels: Channels,
    filter: Filter,
    requested: Quality,
    schema: Schema | None = None,
    *,
    is_logged: bool,
    is_total: bool = False,
) -> Iterator[Shortfall]:
    """The policies of which some notification of a filter is offered less than requested, channel by channel.

    `is_logged`: what is published is logged; `is_total`: it is delivered in the total order.
    """
    algebra = algebra_for(schema)
    earlier: list[Filter] = []
    for channel, own in (*zip(channels, channels.filters, strict=True), (None, None)):
        region = filter if own is None else filter & own
        before = reduce(or_, earlier) if earlier else None
        if own is not None:
            earlier.append(own)
        if (own is not None and not algebra.overlaps(filter, own)) or (
            before is not None and algebra.covers(before, region)
        ):
            continue
        for policy, offered, wanted in _lacks(channel, requested, is_logged=is_logged, is_total=is_total):
            witness = algebra.witness(region, but_not=before)
            yield Shortfall("" if channel is None else channel.name, policy, offered, wanted, witness)


def _lacks(
    channel: Channel | None, requested: Quality, *, is_logged: bool, is_total: bool
) -> Iterator[tuple[str, str, str]]:
    """The policies that a channel offers too little of: each with what it offers, and what is requested."""
    order = "any" if channel is not None and channel.order == "priority" else "producer"
    offered = "total" if is_total else order
    if ORDERS.index(offered) < ORDERS.index(requested.order):
        yield "order", offered, requested.order
    if requested.deadline is not None:
        deadline = None if channel is None else channel.deadline
        if deadline is None or channel_duration(deadline) > channel_duration(requested.deadline):
            yield "deadline", deadline or "none", requested.deadline
    is_retained = channel is not None and channel.retain is not None
    durability = "retained" if is_retained else "logged" if is_logged else "none"
    if DURABILITIES.index(durability) < DURABILITIES.index(requested.durability):
        yield "durability", durability, requested.durability


def check_offer(
    channels: Channels,
    filter: Filter,
    requested: Quality,
    schema: Schema | None = None,
    *,
    is_logged: bool,
    is_total: bool = False,
) -> None:
    """QualityRefused where less is offered than requested; it names all of it."""
    found = [*shortfalls(channels, filter, requested, schema, is_logged=is_logged, is_total=is_total)]
    if found:
        raise QualityRefused("; ".join(map(str, found)), hint="request less, or narrow the filter")
