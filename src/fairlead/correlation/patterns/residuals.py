"""Residuals: what is left of a pattern's body after what was taken, with every choice made.

    Tree          the body of a pattern, its atoms, timers, windows and scopes numbered
    Residual      what a match in progress still waits for
    Transition    the residual behind an element, and what has to be noted with it

In a residual each branch waits for exactly one atom. Residuals are values: two states of an automaton are the
same iff their residuals are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

__all__ = [
    "Arm",
    "Bar",
    "Barred",
    "Behind",
    "Chain",
    "Choice",
    "Close",
    "Enter",
    "Framed",
    "Guarded",
    "Leaf",
    "Loop",
    "Mark",
    "Maybe",
    "Noted",
    "Parallel",
    "Prefer",
    "Residual",
    "Scope",
    "Shuffle",
    "Side",
    "Then",
    "Timed",
    "Timer",
    "Took",
    "Transition",
    "Tree",
    "Wait",
    "Window",
    "armed_timers",
    "atoms_ahead",
    "bits_of",
    "residuals_in",
    "scopes_of",
    "side_by_side",
    "waits_of",
    "windows_of",
]


# -- the body, numbered --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Leaf:
    atom: int


@dataclass(frozen=True, slots=True)
class Chain:
    first: Tree
    second: Tree
    strong: bool


@dataclass(frozen=True, slots=True)
class Loop:
    part: Tree
    least: int
    most: int | None
    greedy: bool = False
    bar: int | None = None
    """The atom that ends the rounds."""
    is_barred: bool = False
    """Whether it does: the first round is over."""


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Parallel:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Parts one behind the other, in whatever order."""

    parts: tuple[Tree, ...]


class Bar(Enum):
    """The effect of an element that a bar would take."""

    WITHOUT = "ends it, unless it is taken"
    UNTIL = "ends it"
    NEXT = "ends it, if it is the first one of the bar's domain"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A part with a bar."""

    part: Tree
    atom: int
    bar: Bar


@dataclass(frozen=True, slots=True)
class Timer:
    """The second part of a timing: starts the timer when it is reached."""

    part: Tree
    register: int


@dataclass(frozen=True, slots=True)
class Scope:
    """The second part of a strong chain, of which not only the first element could begin too early."""

    part: Tree
    number: int


@dataclass(frozen=True, slots=True)
class Window:
    part: Tree
    duration: int
    register: int | None
    """The register that has its start; None where it began with the match itself."""


Tree: TypeAlias = Leaf | Chain | Loop | Choice | Parallel | Shuffle | Guarded | Timer | Scope | Window


# -- residuals -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for an atom; `strong`: elements that do not strongly follow the last one are ignored."""

    atom: int
    strong: bool


@dataclass(frozen=True, slots=True)
class Then:
    head: Residual
    rest: Tree
    strong: bool


@dataclass(frozen=True, slots=True)
class Side:
    """Branches that have not ended, side by side."""

    branches: tuple[Residual, ...]


@dataclass(frozen=True, slots=True)
class Timed:
    head: Residual
    register: int


@dataclass(frozen=True, slots=True)
class Behind:
    """All that is taken has to strongly follow the element behind which the scope was entered."""

    head: Residual
    scope: int


@dataclass(frozen=True, slots=True)
class Framed:
    head: Residual
    window: Window


@dataclass(frozen=True, slots=True)
class Barred:
    """A part under way, and the bar that it waits beside."""

    head: Residual
    wait: Wait
    bar: Bar


@dataclass(frozen=True, slots=True)
class Maybe:
    """Greedy rounds that are complete, and go on with what is one more. What follows is not known yet."""

    head: Residual


@dataclass(frozen=True, slots=True)
class Prefer:
    """Greedy rounds beside what follows them, which gets what is no further round."""

    head: Residual
    rest: Residual


Residual: TypeAlias = Wait | Then | Side | Timed | Behind | Framed | Barred | Maybe | Prefer


@dataclass(frozen=True, slots=True)
class Took:
    atom: int


@dataclass(frozen=True, slots=True)
class Arm:
    register: int


@dataclass(frozen=True, slots=True)
class Mark:
    """The last element before a strong step of a parallel branch."""

    atom: int


@dataclass(frozen=True, slots=True)
class Enter:
    scope: int


@dataclass(frozen=True, slots=True)
class Close:
    window: Window


Noted: TypeAlias = Took | Arm | Mark | Enter | Close
Transition: TypeAlias = tuple[Residual | None, tuple[Noted, ...]]
"""The residual that is left (None: it has ended), and the notes to be taken with it."""


# -- what is in them ------------------------------------------------------------------------------------------


def side_by_side(transitions: Iterable[Transition]) -> Transition:
    """Branches beside one another: those that have ended are gone, and none is left when all have."""
    left: list[Residual] = []
    ops: tuple[Noted, ...] = ()
    for residual, more in transitions:
        ops += more
        if residual is not None:
            left.append(residual)
    return (left[0] if len(left) == 1 else Side(tuple(left)) if left else None), ops


def residuals_in(residual: Residual) -> Iterator[Residual]:
    """A residual and, one inside the other, all that a match is in the middle of."""
    yield residual
    match residual:
        case Then(head, _, _) | Timed(head, _) | Behind(head, _) | Framed(head, _) | Maybe(head):
            yield from residuals_in(head)
        case Barred(head, wait, _):
            yield wait
            yield from residuals_in(head)
        case Prefer(head, rest):
            yield from residuals_in(head)
            yield from residuals_in(rest)
        case Side(branches):
            for each in branches:
                yield from residuals_in(each)
        case Wait():
            pass


def waits_of(residual: Residual) -> Iterator[Wait]:
    return (each for each in residuals_in(residual) if isinstance(each, Wait))


def atoms_ahead(residual: Residual | Tree) -> Iterator[int]:
    """The atoms that may still be reached, those that are waited for included."""
    match residual:
        case Wait(atom, _) | Leaf(atom):
            yield atom
        case Then(head, rest, _) | Chain(head, rest, _):
            yield from atoms_ahead(head)
            yield from atoms_ahead(rest)
        case Side(parts) | Choice(parts) | Parallel(parts) | Shuffle(parts):
            for each in parts:
                yield from atoms_ahead(each)
        case Timed(part, _) | Framed(part, _) | Timer(part, _) | Window(part, _, _) | Maybe(part):
            yield from atoms_ahead(part)
        case Loop(part, _, _, _, bar):
            yield from atoms_ahead(part)
            if bar is not None:
                yield bar
        case Guarded(part, atom, _):
            yield atom
            yield from atoms_ahead(part)
        case Barred(part, wait, _):
            yield wait.atom
            yield from atoms_ahead(part)
        case Prefer(part, other):
            yield from atoms_ahead(part)
            yield from atoms_ahead(other)
        case Behind(part, _) | Scope(part, _):
            yield from atoms_ahead(part)


def armed_timers(residual: Residual) -> Iterator[int]:
    """The registers of the timers that a match is inside of."""
    return (each.register for each in residuals_in(residual) if isinstance(each, Timed))


def windows_of(residual: Residual) -> Iterator[Window]:
    """The windows that a match is inside of."""
    return (each.window for each in residuals_in(residual) if isinstance(each, Framed))


def scopes_of(residual: Residual) -> Iterator[tuple[int, int]]:
    """The scopes that a match is in, each with the atoms that are waited for there."""
    for each in residuals_in(residual):
        if isinstance(each, Behind):
            yield each.scope, bits_of(wait.atom for wait in waits_of(each.head))


def bits_of(numbers: Iterable[int]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask
