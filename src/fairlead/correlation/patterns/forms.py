"""The form of a pattern: the pattern without the filters and names of its steps.

    A[x > 1] as a followed by B within 1 hour, a.y < B.y     ┐ have the form
    C as old followed by D[x > 2] within 1 hour, old.y < D.y ┘ [·] [·] within 1 hour, 0.y < 1.y

Law: patterns of one form have the same automaton, but for which occurrences their atoms take. They share it, and
what their matches in progress have in common: patterns that begin alike are one there for as long as they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from fairlead.correlation.patterns.model import (
    Atom,
    Both,
    Concat,
    Condition,
    Either,
    Iterate,
    Operand,
    Part,
    Pattern,
    Permutation,
    Sequence,
    Timing,
    Unless,
    Within,
    atoms,
)
from fairlead.filters import EVERYTHING

__all__ = ["form_of", "with_atoms"]


def form_of(pattern: Pattern) -> Pattern:
    """The form of a pattern: its steps are numbered, and take everything."""
    steps = {atom.step: f"s{number}" for number, atom in enumerate(atoms(pattern.body))}

    def bare(atom: Atom) -> Atom:
        return replace(
            atom,
            step=steps[atom.step],
            filter=None if atom.filter is None else EVERYTHING,
            domain=None if atom.domain is None else EVERYTHING,
        )

    return replace(
        pattern,
        body=with_atoms(pattern.body, bare),
        conditions=tuple(_renamed(each, steps) for each in pattern.conditions),
        outputs=(),
        left_out=(),
        name="composite",
        resume=None if pattern.resume is None else replace(pattern.resume, step=steps[pattern.resume.step]),
    )


def with_atoms(part: Part, changed: Callable[[Atom], Atom]) -> Part:
    """A subpattern with other atoms at the same positions."""
    match part:
        case Atom():
            return changed(part)
        case Concat(first, second) | Sequence(first, second) | Timing(first, second, _, _):
            return replace(part, first=with_atoms(first, changed), second=with_atoms(second, changed))
        case Either(parts) | Both(parts) | Permutation(parts):
            return replace(part, parts=tuple(with_atoms(each, changed) for each in parts))
        case Iterate(inner, _, _, _, until):
            inner = with_atoms(inner, changed)
            return replace(part, part=inner, until=None if until is None else changed(until))
        case Within(inner, _):
            return replace(part, part=with_atoms(inner, changed))
        case Unless(inner, bar):
            inner = with_atoms(inner, changed)
            return replace(part, part=inner, bar=changed(bar))


def _renamed(condition: Condition, steps: Mapping[str, str]) -> Condition:
    def renamed(operand: Operand) -> Operand:
        return replace(operand, reference=replace(operand.reference, step=steps[operand.reference.step]))

    right = condition.right
    return Condition(
        renamed(condition.left), condition.op, renamed(right) if isinstance(right, Operand) else right
    )
