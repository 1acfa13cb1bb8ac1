"""The state of a detector as JSON, from which another one with the same patterns continues.

    encoded(bound, held, progress)    the JSON of a state; each occurrence is in it once
    decoded(state)                    the same as values

Law: decoded(encoded(…)) gives the same occurrences, at their places, and the same progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from fairlead.correlation.occurrences import Occurrence, Rank, rank_from_json
from fairlead.correlation.patterns.instance import MemberState

__all__ = ["VERSION", "Decoded", "Progress", "decoded", "encoded"]

VERSION: Final = 1
"""Of the state that is handed over."""


class Progress(NamedTuple):
    """The partial matches of a pattern for one key, from an order key on."""

    pattern: str
    """The hash of the pattern."""
    since: Rank
    state: MemberState
    alarm: int | None
    """When time alone changes it; None: never."""


class Decoded(NamedTuple):
    """A state that is gone on from."""

    bound: int
    occurrences: list[Occurrence]
    held: list[Occurrence]
    """Occurrences that wait for their time to pass."""
    progress: list[Progress]


def encoded(bound: int, held: Iterable[Occurrence], progress: Iterable[Progress]) -> dict[str, Any]:
    """A state as JSON."""
    numbers: dict[Rank, int] = {}
    occurrences: list[Any] = []

    def before(state: MemberState) -> dict[str, Any]:
        found = {step: [*map(number_of, each)] for step, each in state.before}
        return {"before": found} if found else {}

    def number_of(occurrence: Occurrence) -> int:
        number = numbers.setdefault(occurrence.rank, len(occurrences))
        if number == len(occurrences):
            occurrences.append(occurrence.to_json())
        return number

    written = [
        {
            "pattern": pattern,
            "since": since,
            "seen": [number_of(each) for each in state.seen],
            "after": state.after,
            "started": sorted(state.started),
            "consumed": sorted(state.consumed),
            "until": state.until,
            "alarm": alarm,
            **before(state),
        }
        for pattern, since, state, alarm in progress
    ]
    waiting = [number_of(occurrence) for occurrence in held]
    return {
        "version": VERSION,
        "bound": bound,
        "occurrences": occurrences,
        "held": waiting,
        "progress": written,
    }


def decoded(state: Mapping[str, Any]) -> Decoded:
    """The state of which `encoded` made this; ValueError where it is of another version."""
    if state["version"] != VERSION:
        raise ValueError(f"a state of version {state['version']}, where {VERSION} is read")
    occurrences = [Occurrence.from_json(each) for each in state["occurrences"]]
    progress = [
        Progress(
            each["pattern"],
            rank_from_json(each["since"]),
            MemberState(
                tuple(occurrences[at] for at in each["seen"]),
                rank_from_json(each["after"]),
                frozenset(map(rank_from_json, each["started"])),
                frozenset(map(rank_from_json, each["consumed"])),
                each["until"],
                tuple(
                    (step, tuple(occurrences[at] for at in found))
                    for step, found in each.get("before", {}).items()
                ),
            ),
            each["alarm"],
        )
        for each in state["progress"]
    ]
    return Decoded(state["bound"], occurrences, [occurrences[at] for at in state["held"]], progress)
