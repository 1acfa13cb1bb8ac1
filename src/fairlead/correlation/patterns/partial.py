"""Matches in progress, for whoever looks at a detector: what each has taken, and what it waits for.

Law: what a match in progress has taken is the beginning of a composite that could still be detected, as far as
steps and windows decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.automaton import Automaton
from fairlead.correlation.patterns.graph import Node, Path
from fairlead.correlation.patterns.moving import Moving

__all__ = ["Partial", "partials"]


class Partial(NamedTuple):
    """A match in progress."""

    constituents: tuple[tuple[str, Occurrence], ...]
    """The steps with what they took, in order."""
    awaited: tuple[str, ...]
    """The steps that may take something next."""
    until: int | None
    """When its window closes, in microseconds; None: it may wait for ever."""


def partials(
    automaton: Automaton, steps: Sequence[str], moving: Moving, now: int, limit: int
) -> Iterator[Partial]:
    """The matches in progress on one stream at a time, at most so many; those whose window has closed are none.

    The steps are called as one of the patterns that share the automaton calls them.
    """
    for number, edges in sorted(moving.waiting.items()):
        state = automaton.state(number)
        windows = [each for each in (state.window, automaton.window) if each is not None]
        window = min(windows) if windows else None
        awaited = [steps[atom] for atom in state.atoms if not automaton.steps[atom].atom.is_silent]
        for node, _ in edges:
            for path in _paths(node, limit):
                until = None if window is None else path[0][2].start + window
                if until is not None and until < now:
                    continue
                yield Partial(
                    tuple((steps[atom], occurrence) for _, atom, occurrence in path),
                    tuple(dict.fromkeys(each for each in awaited if each)),
                    until,
                )
                limit -= 1
                if limit <= 0:
                    return


def _paths(end: Node, limit: int) -> Iterator[Path]:
    """The matches that come to a node, each as the path of its constituents."""
    waiting: list[tuple[Node, Path]] = [(end, ())]
    while waiting and limit > 0:
        node, behind = waiting.pop()
        path = node.taken + behind
        if node.starts and path:
            limit -= 1
            yield path
        waiting += ((before, path) for before, _ in node.before)
