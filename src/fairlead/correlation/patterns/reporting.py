"""The composites of selected matches, one for each pattern with other outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial as partial_of
from itertools import groupby
from typing import Any

from fairlead.correlation.kernel import Detected
from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.composites import Composite
from fairlead.correlation.patterns.conditions import fold_of, outputs, value_in
from fairlead.correlation.patterns.graph import Shared
from fairlead.correlation.patterns.model import Pattern, Reference
from fairlead.correlation.patterns.sharing import Entry
from fairlead.model import ABSENT

__all__ = ["in_order", "outputs_of", "report"]


def report(
    entry: Entry, taken: list[Shared], end: int, detected: list[Detected[Composite]], *, partial: bool = False
) -> None:
    """Make the composites of matches that were taken: one for each pattern that differs in what it carries."""
    for members, path in taken:
        named: dict[tuple[str, ...], tuple[tuple[str, Occurrence], ...]] = {}
        for shared in entry.of(members):
            steps = shared.steps
            constituents = named.get(steps)
            if constituents is None:
                constituents = named[steps] = tuple([(steps[number], each) for _, number, each in path])
            for pattern, ids in shared.carried:
                given = outputs_of(pattern, constituents)
                detected.append(Detected(Composite(pattern, constituents, end, given, partial), ids))


def outputs_of(
    pattern: Pattern, constituents: tuple[tuple[str, Occurrence], ...]
) -> tuple[tuple[str, Any], ...]:
    """The outputs of a pattern for a match."""
    return outputs(pattern, partial_of(_value, constituents)) if pattern.outputs else ()


def _value(constituents: Iterable[tuple[str, Occurrence]], reference: Reference) -> Any:
    """The value of a reference in a complete match."""
    fold = fold_of(reference)
    state, bound = fold.start(), False
    for step, occurrence in constituents:
        if step == reference.step:
            state = fold.add(state, value_in(occurrence, reference))
            bound = True
    return fold.result(state) if bound else ABSENT


def in_order(detected: Iterable[Detected[Composite]]) -> Iterator[Detected[Composite]]:
    """Composites in their total order; ids are computed only where nothing else distinguishes them."""
    for _, same_end in groupby(sorted(detected, key=_end), key=_end):
        several = list(same_end)
        if len(several) == 1:
            yield several[0]
            continue
        by_start: dict[tuple[int, str], list[Detected[Composite]]] = {}
        for each in several:
            start_and_pattern = each.composite.start, each.composite.pattern.hash
            by_start.setdefault(start_and_pattern, []).append(each)
        for _, alike in sorted(by_start.items()):
            yield from alike if len(alike) == 1 else sorted(alike, key=lambda each: each.composite.id)


def _end(detected: Detected[Composite]) -> int:
    return detected.composite.end
