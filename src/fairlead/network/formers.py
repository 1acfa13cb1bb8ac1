"""The filters that a subscription of a durable subscriber had before it was changed.

A record of the log is for a subscription by the filter that it had when the record came. So a filter that was
changed stays, for the records before the change, until the subscriber has dealt with them: at the broker under an
id of its own, to the client under the id that the subscription has now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Generic, NamedTuple, TypeVar

__all__ = ["Former", "end_former", "ids_at", "retire", "take_back"]

F = TypeVar("F")


class Former(NamedTuple, Generic[F]):
    """A filter, the records that it is about, and the id of the subscription now."""

    filter: F
    since: int
    until: int
    now: str


def retire(
    subscriptions: MutableMapping[str, Any], former: dict[str, Former[F]], id: str, now: str, at: int
) -> str:
    """Retire the filter under an id, which has another one from a record on, and perhaps another id.

    Returns the id under which the filter stays for the records before; empty where there are none.
    """
    for key, each in former.items():
        if each.now == id:
            former[key] = each._replace(now=now)
    known = subscriptions.pop(id, None)
    if known is None or known[1] >= at:
        return ""
    kept = f"{id} before {at}"
    former[kept] = Former(known[0], known[1], at, now)
    return kept


def end_former(former: dict[str, Former[F]], id: str) -> list[str]:
    """End a former filter by its id, or all those of a subscription; the ids of those that have ended."""
    ended = [key for key, each in former.items() if id in (key, each.now)]
    for key in ended:
        del former[key]
    return ended


def take_back(former: dict[str, Former[F]], end: int) -> None:
    """The log ends before what it was thought to: what comes next is for the present filters."""
    for key, each in former.items():
        former[key] = each._replace(since=min(each.since, end), until=min(each.until, end))


def ids_at(
    offset: int,
    ids: Iterable[str],
    subscriptions: Mapping[str, tuple[F, int]],
    former: Mapping[str, Former[F]],
) -> tuple[str, ...]:
    """The subscriptions, of those whose filters match a record, that the record is for."""
    found: dict[str, None] = {}
    for id in ids:
        past = former.get(id)
        if past is None:
            if offset >= subscriptions[id][1]:
                found[id] = None
        elif past.since <= offset < past.until:
            found[past.now] = None
    return tuple(sorted(found)) if former else tuple(found)
