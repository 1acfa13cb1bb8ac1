"""Patterns as evaluators in Python commonly have them, OpenCEP among these: a chain of states for each pattern.

    [A] ─▶ [B] ─▶ [C]     every partial match is a list of events of its own; who goes on, is copied with one more

Patterns are evaluated one by one, and share nothing. An event is held against all partial matches that wait for
its type, and what the pattern compares is tested pair by pair. What has left the window is dropped when the next
event comes.

Its matches are those of the definition (`correlation.patterns`): each step takes the first event that it can; of
the matches that end together the first is taken, and the next one starts behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Chain", "Event", "Step"]

Event: TypeAlias = dict[str, Any]
Partial: TypeAlias = list[Event]


@dataclass(frozen=True, slots=True)
class Step:
    """A type, what else is asked of an event, and whether one or more of them are taken."""

    type: str
    test: Callable[[Event], bool] | None = None
    repeated: bool = False

    def takes(self, event: Event) -> bool:
        """Whether an event is one of its."""
        return bool(event["type"] == self.type and (self.test is None or self.test(event)))


class Chain:
    """One pattern: steps that follow one another within a window, all with the same value of an attribute."""

    def __init__(self, steps: Sequence[Step], window: int, same: str) -> None:
        self._steps, self._window, self._same = tuple(steps), window, same
        self._waiting: list[list[Partial]] = [[] for _ in steps]
        """The partial matches that wait for each step; none waits for the first."""

    @property
    def partial_matches(self) -> int:
        """The number of partial matches that it holds."""
        return sum(map(len, self._waiting))

    def feed(self, event: Event) -> Partial | None:
        """The match that ends with the next event and is taken, if there is one."""
        self._expire(event["time"] - self._window)
        complete: list[Partial] = []
        for number in reversed(range(len(self._steps))):
            if self._steps[number].takes(event):
                for partial in self._going_on(number, event):
                    self._go(number, partial, complete)
        if not complete:
            return None
        taken = min(complete, key=_order)
        value = event[self._same]
        self._waiting = [[each for each in lists if not self._agrees(each, value)] for lists in self._waiting]
        return taken

    def _expire(self, floor: int) -> None:
        for number, partials in enumerate(self._waiting):
            self._waiting[number] = [each for each in partials if each[0]["time"] >= floor]

    def _going_on(self, number: int, event: Event) -> Iterator[Partial]:
        """The partial matches that take an event, each a copy with it at the end."""
        if number == 0:
            yield [event]
            return
        value = event[self._same]
        staying: list[Partial] = []
        partials, self._waiting[number] = self._waiting[number], staying
        for partial in partials:
            if self._agrees(partial, value):
                yield [*partial, event]
            else:
                staying.append(partial)

    def _go(self, number: int, partial: Partial, complete: list[Partial]) -> None:
        """Let a partial match wait for what follows a step and, where it is repeated, for one more of it."""
        if number + 1 == len(self._steps):
            complete.append(partial)
        else:
            self._waiting[number + 1].append(partial)
        if self._steps[number].repeated:
            self._waiting[number].append(partial)

    def _agrees(self, partial: Partial, value: Any) -> bool:
        return bool(partial[0][self._same] == value)


def _order(match: Partial) -> tuple[float, ...]:
    """The first match has the first constituents; where one has no further one, the other is first."""
    return (*(event["number"] for event in match), float("inf"))
