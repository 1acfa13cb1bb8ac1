"""Occurrences, the input of patterns: a notification with its interval and its order key.

    [1;3] and [2;4]    the second comes behind the first (its end is later), but does not strongly follow it

Law: for points the order is the one order of notifications (`OrderKey`); intervals are compared by their end, then
their start (book, definition 7.2), and only then by what tells points of one instant apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from fairlead.model import Instant, Notification
from fairlead.model.encoding import notification_from_json, notification_to_json
from fairlead.model.order import BEGINNING, OrderKey
from fairlead.model.versions import is_version

__all__ = ["Before", "Occurrence", "Rank", "TimeEvent", "first_rank", "rank_from_json"]

Rank: TypeAlias = tuple[int, int, int, str, bool, int, str]
"""The values compared: end, start, whether it is a composite, producer or pattern, sequence, id."""


@dataclass(frozen=True, slots=True, eq=False)
class Occurrence:
    """A notification with its order key. Two are equal iff they are the same object: a stream has each once."""

    notification: Notification
    start: int
    end: int
    rank: Rank = field(repr=False)
    before: Before = field(default=(), repr=False)
    """For steps of patterns that look back: the occurrences of the step's sort that come before it, the nearest
    first."""

    @classmethod
    def of(cls, notification: Notification, key: OrderKey) -> Occurrence:
        """A notification that came in, under its order key."""
        end = key.time
        start = _started(notification, end)
        id = notification.id if notification.id is not None and is_version(notification.id) else key.id
        return cls(
            notification,
            start,
            end,
            (end, start, 0, key.producer, key.sequence is not None, key.sequence or 0, id),
        )

    @classmethod
    def composite(cls, notification: Notification, start: int, end: int, pattern: str) -> Occurrence:
        """A composite event: among those with the same interval by the hash of its pattern, then by its id."""
        return cls(notification, start, end, (end, start, 1, pattern, False, 0, notification.id or ""))

    def to_json(self) -> list[Any]:
        """The occurrence as JSON; `from_json` gives it back."""
        return [self.rank, notification_to_json(self.notification)]

    @classmethod
    def from_json(cls, jsonable: Sequence[Any]) -> Occurrence:
        """The occurrence of which `to_json` gave this."""
        rank = rank_from_json(jsonable[0])
        return cls(notification_from_json(jsonable[1]), rank[1], rank[0], rank)

    @property
    def is_point(self) -> bool:
        """Whether it has no extent in time."""
        return self.start == self.end

    def behind(self, before: Before) -> Occurrence:
        """The occurrence with what comes before it."""
        return replace(self, before=before)

    def preceding(self, step: str) -> tuple[Occurrence, ...]:
        """The occurrences of a step's sort before this one, the nearest first, as many as are asked for."""
        return next((found for name, found in self.before if name == step), ())

    def __lt__(self, other: Occurrence) -> bool:
        return self.rank < other.rank


Before: TypeAlias = tuple[tuple[str, tuple[Occurrence, ...]], ...]
"""By the names of steps: the occurrences that come before one, the nearest first."""


@dataclass(frozen=True, slots=True)
class TimeEvent:
    """The timers of one name have gone off: a point in time, seen by the matches that started them."""

    end: int
    timer: str

    @property
    def start(self) -> int:
        """It has no extent in time."""
        return self.end

    @property
    def is_point(self) -> bool:
        """It has no extent in time."""
        return True


def first_rank(time: int) -> Rank:
    """The least rank of occurrences that end at a time or later."""
    return time, BEGINNING, 0, "", False, 0, ""


def rank_from_json(jsonable: Sequence[Any]) -> Rank:
    """A rank that was written as a JSON array."""
    end, start, composite, origin, has_sequence, sequence, id = jsonable
    return end, start, composite, origin, has_sequence, sequence, id


def _started(notification: Notification, end: int) -> int:
    """When it began, where it says so and that is not behind its end."""
    start = notification.get("interval.start")
    return start.microseconds if isinstance(start, Instant) and start.microseconds <= end else end
