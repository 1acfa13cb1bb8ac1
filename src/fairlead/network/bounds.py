"""Bounds on the requests of one client. A larger request is refused with the limit that it exceeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fairlead.broker import Broker
from fairlead.errors import ValueRefused
from fairlead.filters.filter import And, Filter, Not, Or
from fairlead.model import Multi

if TYPE_CHECKING:
    from fairlead.network.client_sessions import ClientSession
    from fairlead.network.settings import Limits

__all__ = [
    "check_filter",
    "check_identity",
    "check_notification",
    "check_subscriptions",
    "check_text",
    "constraints_in",
    "size_of",
]

FILTER_BYTES, TEXT_BYTES, CONSTRAINT_BYTES, VALUE_BYTES = 4_000, 2, 2_500, 1_200
"""The memory that a filter, a character of its text, a constraint and an element of a set take, as measured."""


def check_text(text: str, limits: Limits) -> None:
    """ValueRefused, if the text of a filter is longer than a broker reads."""
    size = len(text.encode())
    if size > limits.filter_bytes:
        raise _too_large(f"a filter of {size:,} bytes", "filter_bytes", limits.filter_bytes)


def check_filter(filter: Filter, limits: Limits) -> None:
    """ValueRefused, if a filter has more constraints than a broker takes."""
    count = constraints_in(filter)
    if count > limits.constraints:
        raise _too_large(f"a filter of {count:,} constraints", "constraints", limits.constraints)


def constraints_in(filter: Filter) -> int:
    """The number of constraints of a filter."""
    return sum(1 for _ in _constraints(filter))


def size_of(text: str, filter: Filter) -> int:
    """About how many bytes of memory a filter takes, with its entry in the routing table."""
    values = sum(
        len(operand) for each in _constraints(filter) if isinstance(operand := _operand(each), Multi)
    )
    constraints = constraints_in(filter)
    return FILTER_BYTES + TEXT_BYTES * len(text) + CONSTRAINT_BYTES * constraints + VALUE_BYTES * values


def _operand(constraint: Filter) -> object:
    return getattr(constraint, "operand", None)


def _constraints(filter: Filter) -> Iterator[Filter]:
    left = [filter]
    while left:
        each = left.pop()
        if isinstance(each, And | Or):
            left += each.parts
        elif isinstance(each, Not):
            left.append(each.part)
        else:
            yield each


def check_subscriptions(session: ClientSession, broker: Broker, limits: Limits) -> None:
    """ValueRefused, if a client has as many subscriptions and advertisements as it may have."""
    mine = broker.clients[session.client]
    count = len(mine.subscriptions.by_id) + len(mine.advertisements.by_id)
    count += sum(len(durable.subscriptions) for durable in session.durables.values())
    if count >= limits.subscriptions:
        raise ValueRefused(
            f"a client has at most {limits.subscriptions:,} subscriptions here",
            hint="join filters with `or`, or let the operator raise [limits] subscriptions",
        )


def check_notification(packed: bytes, limits: Limits) -> None:
    """ValueRefused, if a notification has more attributes and elements of lists than a broker takes.

    Before it is unpacked, which takes long then. One that is not well-formed is refused when it is.
    """
    if len(packed) <= 2 * limits.attributes:  # each takes a byte at least, and a name or a head one more
        return
    try:
        read = msgspec.json.decode(packed) if packed[:1] == b"{" else msgspec.msgpack.decode(packed)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    count = _values_in(read)
    if count > limits.attributes:
        raise _too_large(f"a notification of {count:,} values", "attributes", limits.attributes)


def check_identity(producer: str, id: str, limits: Limits) -> None:
    """ValueRefused, if producer and id are longer than a broker remembers."""
    size = len(producer.encode()) + len(id.encode())
    if size > limits.identity_bytes:
        raise _too_large(f"producer and id of {size:,} bytes", "identity_bytes", limits.identity_bytes)


def _values_in(read: Any) -> int:
    count, left = 0, [read]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            left += each.values()
        elif isinstance(each, list):
            left += each
        else:
            count += 1
    return count


def _too_large(what: str, key: str, limit: int) -> ValueRefused:
    return ValueRefused(
        f"{what}; this broker takes at most {limit:,}", hint=f"the operator may raise [limits] {key}"
    )
