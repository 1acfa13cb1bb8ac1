"""Reactions: what an occurrence does to the members of an automaton, by the filters that it matches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from fairlead.correlation.patterns.automaton import Automaton

__all__ = ["EVERYONE", "Course", "Move", "Reaction"]

EVERYONE: Final = -1
"""All members, however many there are: every bit is set."""


@dataclass(frozen=True, slots=True)
class Move:
    """A transition: the next state, the occurrence that is taken, and the changes of registers."""

    state: int
    took: tuple[int, ...]
    armed: tuple[int, ...] = ()
    marked: tuple[int, ...] = ()
    closed: tuple[tuple[int, int], ...] = ()
    """Windows that end here: (register, duration)."""
    opened: tuple[int, ...] = ()
    """Registers of windows that what is taken lies in."""
    bound: int | None = None
    """The shortest window at the head that ends here: its duration."""
    cleared: tuple[int, ...] = ()
    """Registers that mean nothing any more."""
    entered: tuple[int, ...] = ()
    """The scopes that it enters: what is taken there strongly follows what is taken here."""
    target: tuple[int, tuple[int, ...], int | None, *tuple[int, ...]] = field(init=False)
    """State, what is taken, bound and scopes: moves that agree lead matches without registers to one node."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", (self.state, self.took, self.bound, *self.entered))


Course: TypeAlias = tuple[int, int, int]
"""Members for which an occurrence does the same: the atoms that would take it, and those whose domain it is in."""
Together: TypeAlias = tuple[int, tuple[tuple[int, tuple[Move, ...]], ...], int | None]
"""The patterns concerned, where the matches of a state go, for whom, and the shortest window at the head
around it."""


class Reaction(dict[int, Together | None]):
    """The effect of an occurrence on the members, computed once for all occurrences that match the same
    filters.

    A member is a pattern of those that share the automaton, as a bit. By the number of a state: where matches in
    progress go that tell nothing but their state; None where it does not concern them. `EVERYONE` stands
    for all members there are, so that matches of all need not be sifted.
    """

    __slots__ = ("_automaton", "_courses", "_domain", "_everyone", "_taken", "concerned", "starts")

    def __init__(
        self, automaton: Automaton, everyone: int, taken: tuple[int, ...], domain: tuple[int, ...]
    ) -> None:
        """By the number of an atom: the members for which it would take the occurrence, and those with it in the
        domain."""
        self._automaton, self._everyone, self._taken, self._domain = automaton, everyone, taken, domain
        self._courses: dict[int, tuple[Course, ...]] = {}
        self.concerned = 0
        """The members some atom of which may take it, or has it in its domain."""
        for members in (*taken, *domain):
            self.concerned |= members
        starts: list[tuple[int, Move]] = []
        for number in automaton.initial:
            for members, takes, fails in self.courses(number):
                if takes:
                    starts += ((members, move) for move in automaton.moves(number, takes, fails & ~takes))
        self.starts = tuple(starts)
        """The moves with which matches start, and for whom."""

    def __missing__(self, number: int) -> Together | None:
        courses = self.courses(number)
        concerned = 0
        transitions = []
        for members, takes, fails in courses:
            concerned |= members
            moves = self._automaton.moves(number, takes, fails & ~takes)
            transitions.append((self._all(members), moves))
        window = self._automaton.state(number).window
        self[number] = (self._all(concerned), tuple(transitions), window) if courses else None
        return self[number]

    def _all(self, members: int) -> int:
        return EVERYONE if members == self._everyone else members

    def courses(self, number: int) -> tuple[Course, ...]:
        """The members that it concerns in a state, those together for which it does the same."""
        known = self._courses.get(number)
        if known is None:
            parts = [(self.concerned, 0, 0)]
            for atom in self._automaton.state(number).atoms:
                bit, taken, domain = 1 << atom, self._taken[atom], self._domain[atom]
                parts = [
                    (some, takes | (bit if is_taken else 0), fails | (bit if is_domain else 0))
                    for members, takes, fails in parts
                    for is_taken, split in ((True, members & taken), (False, members & ~taken))
                    for is_domain, some in ((True, split & domain), (False, split & ~domain))
                    if some
                ]
            known = tuple(each for each in parts if each[1] | each[2])
            self._courses[number] = known
        return known

    def is_sort_of(self, atom: int) -> bool:
        """Whether an atom may take it, or has it in its domain."""
        return bool(self._taken[atom] | self._domain[atom])

    def only(self, members: int) -> Reaction:
        """The same, as far as some members are concerned."""
        return Reaction(
            self._automaton,
            self._everyone,
            tuple(each & members for each in self._taken),
            tuple(each & members for each in self._domain),
        )

    def without(self, members: int) -> Reaction:
        """The same, but that it is not taken for some members; their domains and bars have it all the same."""
        taken = tuple(
            each if bars else each & ~members
            for each, bars in zip(self._taken, self._automaton.bars, strict=True)
        )
        return Reaction(self._automaton, self._everyone, taken, self._domain)
