"""The channels of a network: the first in their order that matches a notification is its channel."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import blake2b
from operator import or_
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from fairlead.channels.quality import (
    DEADLINE,
    DELAY,
    DISCARD,
    EXPIRES,
    FILTER,
    ORDER,
    PRIORITY,
    RETAIN,
    Delay,
    Expires,
    Priority,
    Retain,
    channel_duration,
)
from fairlead.channels.waiting import DISCARDS, PRIORITY_DEFAULT, UNMARKED, Discard, Standing
from fairlead.configuration import Key, Reading, file_of, made, text, texts, written
from fairlead.errors import ChannelError, FairleadError
from fairlead.filters.algebra import algebra_for
from fairlead.filters.filter import NOTHING, Filter, leaves
from fairlead.filters.language import parse, render
from fairlead.filters.schema import Schema
from fairlead.model import Instant, Notification, key_of

__all__ = ["EXPIRES_MARK", "PRIORITY_MARK", "Channel", "ChannelOrder", "Channels", "Overlap", "channels_of"]

EXPIRES_MARK: Final = "expires"
"""The attribute with the instant at which a notification expires."""
PRIORITY_MARK: Final = "priority"
"""The attribute with the priority of a notification."""
ChannelOrder: TypeAlias = Literal["producer", "priority"]
KEYED: Final = "latest per key"
PRODUCER: Final = "producer"


@dataclass(frozen=True, slots=True)
class Channel:
    """A name, a filter, and the quality of service of what the filter matches."""

    name: Annotated[str, Key("what the channel is called", text)]
    filter: Annotated[str | Filter, Key("the notifications that are in it, by their content", FILTER)]
    retain: Annotated[
        Retain | None,
        Key(
            'the last values of each key that are kept for later subscribers: `{ per = ["symbol"], count = 1,'
            " ends = 'state = \"gone\"' }`",
            RETAIN,
            shown="nothing is kept",
        ),
    ] = None
    expires: Annotated[
        Expires | str | None,
        Key(
            "from when on a notification is handed to nobody for the first time: a duration, or"
            ' `{ attribute = "ttl", default = "30s" }`, whose attribute has a duration or an instant',
            EXPIRES,
            shown="it does not expire",
        ),
    ] = None
    delay: Annotated[
        Delay | str | None,
        Key(
            "until when a notification is held where it was published: a duration, or"
            ' `{ attribute = "not_before" }`, whose attribute has a duration or an instant',
            DELAY,
            shown="it is not held",
        ),
    ] = None
    priority: Annotated[
        Priority | int | None,
        Key(
            "which priority notifications have, from 0 to 9: a number, or"
            ' `{ attribute = "urgency", default = 4 }`',
            PRIORITY,
            shown="4",
        ),
    ] = None
    order: Annotated[
        ChannelOrder,
        Key(
            "which of what waits for a subscriber goes first: `producer`, each producer's in the order of its"
            " publications, or `priority`, the highest",
            ORDER,
        ),
    ] = "producer"
    discard: Annotated[
        Discard,
        Key(
            "which goes where a notification is one too much in a bounded queue: `oldest`, `newest`,"
            " `lowest priority` or `latest per key`, an earlier one of its key",
            DISCARD,
        ),
    ] = "oldest"
    per: Annotated[
        tuple[str, ...],
        Key(
            "the attributes, or `producer`, whose values make the key of `discard` and `deadline`",
            texts,
            shown="those of retain",
        ),
    ] = ()
    deadline: Annotated[
        str | None,
        Key("a duration in which each key has a notification at least", DEADLINE, shown="none"),
    ] = None

    def __post_init__(self) -> None:
        if isinstance(self.expires, str):
            object.__setattr__(self, "expires", Expires(default=self.expires))
        if isinstance(self.delay, str):
            object.__setattr__(self, "delay", Delay(default=self.delay))
        if self.priority is not None and not isinstance(self.priority, Priority):
            object.__setattr__(self, "priority", Priority(default=self.priority))
        object.__setattr__(self, "per", tuple(self.per))
        if self.order not in get_args(ChannelOrder):
            raise ChannelError(f"the order of a channel is 'producer' or 'priority', not {self.order!r}")
        if self.discard not in DISCARDS:
            raise ChannelError(f"a channel discards {', '.join(DISCARDS)}, not {self.discard!r}")
        if self.discard == KEYED and not self.key:
            raise ChannelError(
                f"the channel {self.name!r} discards the latest per key, and has no key",
                hint='per=("symbol",)',
            )
        if self.deadline is not None and self.deadline_us <= 0:
            raise ChannelError(f"a deadline is a time longer than nothing, not {self.deadline!r}")

    @property
    def key(self) -> tuple[str, ...]:
        """The names whose values make a key."""
        return self.per or (() if self.retain is None else self.retain.per)

    def key_of(self, notification: Notification) -> tuple[Hashable, ...]:
        """The values of the key; that there is none is a value, too."""
        return tuple(
            notification.producer if name == PRODUCER else key_of(notification.get(name)) for name in self.key
        )

    @property
    def deadline_us(self) -> int:
        """The deadline in microseconds; 0: there is none."""
        return 0 if self.deadline is None else channel_duration(self.deadline)

    @property
    def prior(self) -> Priority | None:
        """The way its notifications get their priority, if they have any but the default."""
        assert not isinstance(self.priority, int)
        return self.priority

    @property
    def held(self) -> Delay | None:
        """The instants until which its notifications are held, if they are."""
        assert not isinstance(self.delay, str)
        return self.delay

    @property
    def expiry(self) -> Expires | None:
        """The instants at which its notifications expire, if they do."""
        assert not isinstance(self.expires, str)
        return self.expires

    def to_json(self) -> dict[str, Any]:
        """The channel as a file has it, without what is as by default."""
        return {key: value for key, value in written(self).items() if value != NEUTRAL_TABLE[key]}

    @property
    def is_neutral(self) -> bool:
        """Whether it prescribes nothing."""
        return replace(self, name="", filter="", per=()) == _NEUTRAL


_NEUTRAL: Final = Channel("", "")
NEUTRAL_TABLE: Final = written(_NEUTRAL)


class Overlap(NamedTuple):
    """Two channels that match a notification both: it is in the first one."""

    first: str
    second: str
    witness: Notification | None


class Channels:
    """The channels of a bus or of a network of brokers, in their order. Immutable."""

    def __init__(self, channels: Iterable[Channel] = (), schema: Schema | None = None) -> None:
        self.all = tuple(channels)
        self._schema = schema
        self.filters = tuple(self._read(each.name, each.filter) for each in self.all)
        """Their filters, as they are read."""
        self._ends = {
            each.name: self._read(each.name, each.retain.ends)
            for each in self.all
            if each.retain is not None and each.retain.ends is not None
        }
        self.arrange = any(each.order != "producer" or each.discard != "oldest" for each in self.all)
        """Whether what waits somewhere need not go in its order, or the oldest first where there is too much."""
        self.expect = any(each.deadline is not None for each in self.all)
        """Whether notifications of some channel are expected within a time."""
        self.hold = any(each.delay is not None for each in self.all)
        """Whether notifications of some channel are held where they are published."""
        marks = {EXPIRES_MARK: self.expire, PRIORITY_MARK: any(each.prior is not None for each in self.all)}
        self._marks = frozenset(mark for mark, is_used in marks.items() if is_used)
        """The attributes that channels mark, which their filters do not see."""
        self._check()

    def _read(self, name: str, given: str | Filter) -> Filter:
        if isinstance(given, Filter):
            return given
        try:
            return parse(given, self._schema)
        except FairleadError as error:
            raise ChannelError(f"the channel {name!r}: {error}") from error

    def _check(self) -> None:
        """ChannelError: a name is taken, or a channel is never used."""
        algebra = algebra_for(self._schema)
        for at, channel in enumerate(self.all):
            for leaf in leaves(self.filters[at]):
                name = getattr(getattr(leaf, "term", None), "name", "").partition(".")[0]
                if name in self._marks:
                    raise ChannelError(
                        f"the filter of the channel {channel.name!r} is about {name!r}, which channels mark",
                        hint="read it from another attribute",
                    )
            if not isinstance(channel.name, str) or not channel.name.strip():
                raise ChannelError(f"a channel has a name, not {channel.name!r}")
            if channel.name in (each.name for each in self.all[:at]):
                raise ChannelError(f"there are two channels {channel.name!r}")
            earlier = self.filters[:at]
            if algebra.covers(NOTHING, self.filters[at]):
                raise ChannelError(
                    f"the channel {channel.name!r} is never used: its filter matches nothing",
                    hint="leave it out",
                )
            if earlier and algebra.covers(reduce(or_, earlier), self.filters[at]):
                covering = [
                    each.name
                    for each, filter in zip(self.all, earlier, strict=False)
                    if algebra.overlaps(filter, self.filters[at])
                ]
                raise ChannelError(
                    f"the channel {channel.name!r} is never used: what it matches is in"
                    f" {' or '.join(map(repr, covering))} before it",
                    hint="the first channel that matches counts: put narrower filters first",
                )

    def of(self, notification: Notification) -> Channel | None:
        """The channel that a notification is in, if it is in any. It does not depend on what channels mark."""
        if self._marks:
            notification = notification.without(self._marks)
        for channel, filter in zip(self.all, self.filters, strict=True):
            if filter.matches(notification):
                return channel
        return None

    def ends(self, channel: Channel, notification: Notification) -> bool:
        """Whether a notification in a channel removes its key."""
        ends = self._ends.get(channel.name)
        return ends is not None and ends.matches(notification)

    def overlaps(self) -> Iterator[Overlap]:
        """The pairs of channels that some notification matches both of; it is in the first one."""
        algebra = algebra_for(self._schema)
        for at, (channel, filter) in enumerate(zip(self.all, self.filters, strict=True)):
            for other, earlier in zip(self.all[:at], self.filters[:at], strict=True):
                if algebra.overlaps(earlier, filter):
                    yield Overlap(other.name, channel.name, algebra.witness(earlier & filter))

    @property
    def are_neutral(self) -> bool:
        """Whether they prescribe nothing."""
        return all(each.is_neutral for each in self.all)

    @property
    def retain(self) -> bool:
        """Whether some channel retains values."""
        return any(each.retain is not None for each in self.all)

    @property
    def expire(self) -> bool:
        """Whether notifications of some channel expire."""
        return any(each.expires is not None for each in self.all)

    def expires(self, notification: Notification) -> int | None:
        """The instant at which a notification expires that has been marked, in microseconds, if it does."""
        until = notification.get(EXPIRES_MARK)
        if not isinstance(until, Instant):
            return None
        channel = self.of(notification)
        return None if channel is None or channel.expires is None else until.microseconds

    def within(self, filter: Filter) -> list[dict[str, Any]]:
        """The channels of what a filter matches, as a file has them."""
        algebra = algebra_for(self._schema)
        pairs = zip(self.to_json(), self.filters, strict=True)
        return [table for table, own in pairs if algebra.overlaps(filter, own)]

    def standing(self, notification: Notification) -> Standing:
        """The standing of a notification among all that waits with it, once it is marked."""
        channel = self.of(notification)
        if channel is None:
            return UNMARKED
        priority = PRIORITY_DEFAULT
        if channel.prior is not None:
            priority = replace(channel.prior, attribute=PRIORITY_MARK).of(notification)
        rank = priority if channel.order == "priority" else PRIORITY_DEFAULT
        key = (channel.name, *channel.key_of(notification)) if channel.discard == KEYED else None
        return Standing(rank, priority, channel.discard, key)

    def held_until(self, notification: Notification, now: int) -> int | None:
        """The instant until which what is published now is held, in microseconds, if it is."""
        channel = self.of(notification)
        if channel is None or channel.held is None:
            return None
        until = channel.held.of(notification, now)
        return None if until is None or until <= now else until

    @property
    def fingerprint(self) -> str:
        """A text that two brokers share iff they have the same channels in the same order; empty for none."""
        if not self.all:
            return ""
        given = json.dumps(self.to_json(), sort_keys=True)
        return blake2b(given.encode(), digest_size=8).hexdigest()

    def to_json(self) -> list[dict[str, Any]]:
        """The channels as a file has them, with their filters as they are printed."""
        return [
            {**each.to_json(), "filter": render(filter)}
            for each, filter in zip(self.all, self.filters, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.all)

    def __bool__(self) -> bool:
        return bool(self.all)

    def __iter__(self) -> Iterator[Channel]:
        return iter(self.all)


def channels_of(tables: Iterable[Mapping[str, Any]], schema: Schema | None = None) -> Channels:
    """The channels that are written like this; ChannelError where they cannot be read."""
    made_of: list[Channel] = []
    for table in tables:
        reading = Reading(file_of(Channel))
        row = reading.table("", table)
        if reading.problems:
            raise ChannelError("; ".join(reading.problems))
        made_of.append(Channel(**made(Channel, {"": row})))
    return Channels(made_of, schema)
