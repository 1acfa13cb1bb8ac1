"""The arguments of a client's calls, brought into one form. An argument that no broker accepts is refused at
once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TypeAlias

from fairlead.delivery.assigning import Terms
from fairlead.errors import ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse, render
from fairlead.filters.schema import Schema
from fairlead.model.durations import seconds_of
from fairlead.model.instants import Since, microseconds_of
from fairlead.network.addresses import Address

__all__ = [
    "Patience",
    "Since",
    "addresses_of",
    "durable_id",
    "filter_of",
    "lease_of",
    "microseconds_of",
    "patience_seconds",
    "terms_of",
]

Patience: TypeAlias = float | str | timedelta | None


def addresses_of(urls: str | Sequence[str]) -> tuple[Address, ...]:
    """The addresses of brokers: one, or several."""
    found = tuple(dict.fromkeys(Address.parse(url) for url in ([urls] if isinstance(urls, str) else urls)))
    if not found:
        raise ValueRefused("no broker to connect to", hint="connect([url, …]) takes one address or more")
    return found


def filter_of(given: str | Filter, schema: Schema | None = None) -> Filter:
    """A filter, given as text, which is read with the schema, or as a value."""
    made = parse(given, schema) if isinstance(given, str) else given
    if not isinstance(made, Filter):
        raise ValueRefused(
            f"no filter: {given!r}", hint="a text such as 'price > 100', or what `parse` makes"
        )
    render(made)
    return made


def durable_id(durable: str, filter: Filter) -> str:
    """The id of a durable subscription that was given none: the same for every subscription to that filter."""
    return f"{durable}:{render(filter)}"


def patience_seconds(given: Patience) -> float | None:
    """A duration in seconds; None means without end."""
    return seconds_of(given, "patience")


def terms_of(
    durable: str, *, shared: bool, per: str, window: int, attempts_max: int, accept_within: Patience
) -> Terms:
    """The terms of a durable subscriber; ValueRefused where one that is not durable has any."""
    seconds = seconds_of(accept_within, "a time for accepting")
    within = 0 if seconds is None else round(seconds * 1_000_000)
    if seconds is not None and within < 1:
        raise ValueRefused("a time for accepting is longer than nothing", hint='accept_within="30s"')
    terms = Terms(shared, per, window, attempts_max, within)
    if not durable and not terms.is_neutral:
        raise ValueRefused(
            "terms of acceptance are for durable subscribers", hint='subscribe(…, durable="work", …)'
        )
    return terms


def lease_of(durable: str, given: Patience) -> int:
    """A lease in microseconds; 0: none. ValueRefused for a subscriber that is not durable."""
    seconds = seconds_of(given, "a lease")
    if seconds is None:
        return 0
    if not durable:
        raise ValueRefused("a lease is for durable subscribers", hint='subscribe(…, durable="work", …)')
    if seconds * 1e6 < 1:
        raise ValueRefused("a lease is longer than nothing", hint='lease="10min"')
    return round(seconds * 1e6)
