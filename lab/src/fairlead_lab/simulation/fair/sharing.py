"""Matchers that work once for all who are fed the same.

Law: a shared matcher gives what a matcher of its own would give. Hundreds of simulated clients with one
conjunction are fed the same events in the same order; the first of them computes, the others look up what came
of it.
"""

from __future__ import annotations

from fairlead.correlation.fair import Matcher, Relation, Snapshot
from fairlead.model import Notification

__all__ = ["Sharing"]


class Sharing:
    """Makes matchers that share their work: one of these for all clients of a simulation."""

    def __init__(self) -> None:
        self._begun: dict[Snapshot, _State] = {}

    def __call__(self, state: Snapshot) -> _Shared:
        """A matcher that goes on from a state."""
        if state not in self._begun:
            self._begun[state] = _State(Matcher.restore(state), state)
        return _Shared(self._begun[state])


class _Shared:
    """A matcher, as far as its client can see."""

    __slots__ = ("_state",)

    def __init__(self, state: _State) -> None:
        self._state = state

    def feed(self, notification: Notification) -> list[Relation]:
        self._state, relations = self._state.after(notification)
        return relations

    def snapshot(self) -> Snapshot:
        return self._state.snapshot()


class _State:
    """The state of a matcher after what it was fed. The matcher itself is with the last of these."""

    __slots__ = ("_before", "_event", "_matcher", "_next", "_start")

    def __init__(
        self,
        matcher: Matcher,
        start: Snapshot,
        before: _State | None = None,
        event: Notification | None = None,
    ) -> None:
        self._matcher: Matcher | None = matcher
        self._start = start
        self._before = before
        self._event = event
        self._next: dict[int, tuple[_State, list[Relation]]] = {}

    def after(self, event: Notification) -> tuple[_State, list[Relation]]:
        """The state after an event, and the relations that the event completes."""
        known = self._next.get(id(event))  # the state after it keeps the event, so no other has its id
        if known is None:
            matcher, self._matcher = self._matcher or self._repeated(), None
            relations = matcher.feed(event)
            known = self._next[id(event)] = (_State(matcher, self._start, self, event), relations)
        return known

    def snapshot(self) -> Snapshot:
        return (self._matcher or self._repeated()).snapshot()

    def _repeated(self) -> Matcher:
        fed: list[Notification] = []
        state = self
        while state._before is not None and state._event is not None:
            fed.append(state._event)
            state = state._before
        matcher = Matcher.restore(self._start)
        for event in reversed(fed):
            matcher.feed(event)
        return matcher
