"""Conditions over many matches at once: tallies, the hulls of their values, and the needs of beginnings.

    Tally        an aggregate that is folded from a match when it is written out, and not held while events come
    Claim        that a condition holds, or does not, of a tally and of the occurrence that was asked about
    Judging      all of this for a pattern: `answer` for matches together, `needed` for one that is begun

Matches that differ in an aggregate only are not told apart while events come. What is asked then is answered for
all of them together where the hull of their values lies on one side; where it does not, the claim is noted, and
matches are sifted when they are written out. There, whether a beginning can become a match is seen by what its
continuations *need*, a lower bound of a measure: at least so much of the sum by now, or something that large.

Law: an answer is that of every match; a beginning that does not meet what is needed satisfies nothing in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.conditions import Fold, Test, computed, exact, value_in
from fairlead.correlation.patterns.model import Aggregate, Condition, Operand, Reference
from fairlead.filters import Op
from fairlead.model import ABSENT, Kind, key_of, kind_of

__all__ = [
    "FREE",
    "Aim",
    "Bound",
    "Claim",
    "Hull",
    "Judging",
    "Question",
    "Source",
    "States",
    "Tally",
    "holds",
    "joined",
    "meets",
]

_UNBOUND: Final = object()
"""The value of what has taken nothing."""
States: TypeAlias = tuple[tuple[Any] | None, ...]
"""The values of tallies so far: the state of each fold, None where its step has taken nothing."""


@dataclass(frozen=True, slots=True)
class Tally:
    """An aggregate of the occurrences of a step, at the end or when a condition is evaluated."""

    step: int
    """The number of the atom."""
    reference: Reference
    fold: Fold
    is_repeated: bool
    """Whether the step may take several elements."""

    def of(self, occurrence: Occurrence) -> Any:
        """The contribution of an occurrence."""
        return value_in(occurrence, self.reference)

    @property
    def is_additive(self) -> bool:
        """Whether a number is added with all that is taken: sums and counts, and what is taken at most once."""
        return self.reference.aggregate in (Aggregate.COUNT, Aggregate.SUM) or not self.is_repeated


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a value: the next occurrence, a register or a tally."""

    register: int | None
    reference: Reference
    fold: Fold | None


@dataclass(frozen=True, slots=True)
class Question:
    """A condition, and where its values come from; where the right one is a constant, from nowhere."""

    condition: Condition
    holds: Test
    left: Source
    right: Source | None

    @property
    def tally(self) -> int:
        """The one tally that it compares with what is about to be taken."""
        other = self.left if self.left.register is not None else self.right
        assert other is not None
        assert other.register is not None
        return other.register

    def given(self, occurrence: Occurrence) -> Any:
        """The value of what is about to be taken that it is compared with."""
        own = self.left if self.left.register is None else self.right
        assert own is not None
        return value_in(occurrence, own.reference)


def holds(question: Question, registers: Sequence[Any], occurrence: Occurrence | None = None) -> bool:
    """Whether a condition holds, or is not evaluated because a step that it names is not bound."""
    left = _value(question.left, registers, occurrence)
    if left is _UNBOUND:
        return True
    right = None if question.right is None else _value(question.right, registers, occurrence)
    return right is _UNBOUND or question.holds(left, right)


def _value(source: Source, registers: Sequence[Any], occurrence: Occurrence | None) -> Any:
    if source.register is None or source.fold is None:
        return _UNBOUND if occurrence is None else value_in(occurrence, source.reference)
    state = registers[source.register]
    return _UNBOUND if state is None else source.fold.result(state[0])


class Claim(NamedTuple):
    """The claim that a condition holds, or does not, of a tally and the next occurrence."""

    question: Question
    occurrence: Occurrence
    is_true: bool

    def met(self, states: States) -> bool:
        """Whether it is so for a match."""
        return holds(self.question, states, self.occurrence) is self.is_true


_NUMBERS: Final = (Aggregate.COUNT, Aggregate.SUM, Aggregate.AVG)
"""The aggregates whose states are numbers, and not values as they came."""

# -- bounds ------------------------------------------------------------------------------------------------

Bound: TypeAlias = tuple[Any, bool]
"""At least a number; true: more than that. Of two, the greater one asks for more."""
FREE: Final[Bound] = (-inf, False)
_NEVER: Final[Bound] = (inf, True)
_SIDES: Final[Mapping[Op, tuple[tuple[int, bool], ...]]] = MappingProxyType(
    {
        Op.GT: ((1, True),),
        Op.GE: ((1, False),),
        Op.LT: ((-1, True),),
        Op.LE: ((-1, False),),
        Op.EQ: ((1, False), (-1, False)),
        Op.NE: (),
    }
)
"""The sides to be bounded from below, the value or its negative, and whether strictly; nothing helps with
`!=`."""
_TURNED: Final = {Op.GT: Op.LT, Op.LT: Op.GT, Op.GE: Op.LE, Op.LE: Op.GE, Op.EQ: Op.EQ, Op.NE: Op.NE}
_NEGATED: Final = {Op.GT: Op.LE, Op.LE: Op.GT, Op.GE: Op.LT, Op.LT: Op.GE, Op.EQ: Op.NE, Op.NE: Op.EQ}


def meets(value: Any, bound: Bound) -> bool:
    """Whether a number is large enough."""
    least, strictly = bound
    return bool(value > least or (value == least and not strictly))


def _bounds(operand: Operand, op: Op, number: Any) -> list[tuple[int, Bound]]:
    """The bounds that `operand op number` sets to the reference of the operand, or to its negative (-1)."""
    factor = exact(operand.factor)
    if factor == 0:
        return []
    least = Fraction(number - exact(operand.offset)) / factor
    sides = _SIDES[op if factor > 0 else _TURNED[op]]
    return [(sign, (sign * least, strictly)) for sign, strictly in sides]


# -- hulls -------------------------------------------------------------------------------------------------

Hull: TypeAlias = tuple[Any, Any] | bool
"""The least and the greatest number that a tally has in some matches; False where nothing is bound in any of them,
True where that cannot be said in numbers."""


def joined(hull: Hull, other: Hull) -> Hull:
    """The hull of the matches of both."""
    if hull is other:
        return hull
    if isinstance(hull, bool) or isinstance(other, bool):
        return True
    return min(hull[0], other[0]), max(hull[1], other[1])


def _grown(aggregate: Aggregate | None, hull: Hull, value: Any) -> Hull:
    """The hull behind one more value."""
    number = 1 if aggregate is Aggregate.COUNT else exact(value)
    if hull is True or number is ABSENT:
        return True
    if isinstance(hull, bool):
        return number, number
    low, high = hull
    match aggregate:
        case Aggregate.COUNT | Aggregate.SUM:
            return low + number, high + number
        case Aggregate.MIN:
            return min(low, number), min(high, number)
        case Aggregate.MAX:
            return max(low, number), max(high, number)
        case Aggregate.AVG:
            return min(low, number), max(high, number)
        case Aggregate.FIRST:
            return hull
        case _:
            return number, number


# -- aims --------------------------------------------------------------------------------------------------


class Aim(Protocol):
    """A measure of beginnings of which continuations need a lower bound."""

    def value(self, states: States) -> Any | None:
        """The current value; None if it is not known."""

    def before(self, took: Iterable[int], occurrence: Occurrence, bound: Bound) -> Bound:
        """The needs of a beginning that continues with an occurrence, which atoms take, if then `bound` is."""


@dataclass(frozen=True, slots=True)
class _Weight:
    """The weight of a tally's numbers in a sum, and what each of them adds besides."""

    number: int
    tally: Tally
    times: Any
    each: Any

    def total(self, state: Any) -> Any | None:
        match self.tally.reference.aggregate:
            case Aggregate.COUNT:
                return self.each * state
            case Aggregate.SUM | Aggregate.AVG:
                total, count = state
                return None if total is ABSENT or not count else self.times * total + self.each * count
            case _:
                number = exact(self.tally.fold.result(state))
                return None if number is ABSENT else self.times * number + self.each


@dataclass(frozen=True, slots=True)
class _Sum:
    """A weighted sum: each continuation adds what it adds, so what is needed is exact."""

    weights: tuple[_Weight, ...]

    def value(self, states: States) -> Any | None:
        value = 0
        for weight in self.weights:
            state = states[weight.number]
            total = None if state is None else weight.total(state[0])
            if total is None:
                return None
            value += total
        return value

    def before(self, took: Iterable[int], occurrence: Occurrence, bound: Bound) -> Bound:
        if bound in (FREE, _NEVER):
            return bound
        least, strictly = bound
        for weight in self.weights:
            if weight.tally.step not in took:
                continue
            if weight.tally.reference.aggregate is Aggregate.COUNT:
                least -= weight.each
                continue
            value = weight.tally.of(occurrence)
            number = exact(value)
            if number is not ABSENT:
                least -= weight.times * number + weight.each
            elif kind_of(value) is Kind.NUMBER:  # infinity: nothing can be computed with it
                return FREE
        return least, strictly


@dataclass(frozen=True, slots=True)
class _Best:
    """A value, or its negative, that is one of those that were taken, or lies between them."""

    number: int
    tally: Tally
    sign: int

    def value(self, states: States) -> Any | None:
        state = states[self.number]
        number: Any = ABSENT if state is None else exact(self.tally.fold.result(state[0]))
        return None if number is ABSENT else self.sign * number

    def before(self, took: Iterable[int], occurrence: Occurrence, bound: Bound) -> Bound:
        aggregate = self.tally.reference.aggregate
        if self.tally.step not in took or aggregate is Aggregate.FIRST:
            return bound
        number = exact(self.tally.of(occurrence))
        if number is ABSENT:
            return FREE
        met = meets(self.sign * number, bound)
        if aggregate is (Aggregate.MIN if self.sign > 0 else Aggregate.MAX):  # all have to meet it
            return bound if met else _NEVER
        if met:
            return FREE
        return _NEVER if aggregate in (None, Aggregate.LAST) else bound


# -- all of it ---------------------------------------------------------------------------------------------


class Judging:
    """The conditions over tallies, by the time of their evaluation: at complete matches, and at occurrences."""

    def __init__(
        self, tallies: Sequence[Tally], final: tuple[Question, ...], deferred: Iterable[Question]
    ) -> None:
        self._tallies = tuple(tallies)
        self.final = final
        """Questions about the complete match: about tallies only."""
        self.initial: States = (None,) * len(self._tallies)
        self.aims: list[Aim] = []
        """The measures of which something may be needed."""
        self._needed: list[Bound] = []
        self._known: dict[tuple[int, int], int] = {}
        self._hulled = frozenset(each.tally for each in deferred)
        self.hulls: tuple[Hull, ...] = (False,) * len(self._tallies) if self._hulled else ()
        """The hulls of a match that has taken nothing; none where nobody asks for them."""
        for number in self._hulled:
            for sign in (1, -1):
                self._aim(number, sign)
        for question in final:
            for number, bound in self._finally(question):
                self._needed[number] = max(self._needed[number], bound)
        self.needed: tuple[Bound, ...] = tuple(self._needed)
        """The bounds needed in the end."""
        self.single = self.aims[0] if len(self.aims) == len(final) == 1 and not self._hulled else None
        """The measure that decides alone, where there is one: of two beginnings at a node, the one with more of it
        satisfies the condition wherever the other does."""
        self.given_up = 0
        """The number of searches for matches that were given up."""

    # -- while events come

    def grown(self, hulls: tuple[Hull, ...], took: Iterable[int], occurrence: Occurrence) -> tuple[Hull, ...]:
        """The hulls behind an occurrence that atoms took."""
        if not any(self._tallies[number].step in took for number in self._hulled):
            return hulls
        return tuple(
            _grown(tally.reference.aggregate, hull, tally.of(occurrence))
            if number in self._hulled and tally.step in took
            else hull
            for number, (tally, hull) in enumerate(zip(self._tallies, hulls, strict=True))
        )

    def answer(self, question: Question, occurrence: Occurrence, hulls: tuple[Hull, ...]) -> bool | None:
        """The common answer of all matches with such hulls to a question about an occurrence; None if
        they differ."""
        hull, given = hulls[question.tally], question.given(occurrence)
        if isinstance(hull, bool):
            return None if hull else True
        operand, op, number = self._compared(question, given)
        if number is ABSENT:
            return None if kind_of(given) is Kind.NUMBER else False
        (low, high), is_equality = hull, op in (Op.EQ, Op.NE)
        bounds = _bounds(operand, Op.EQ if is_equality else op, number)
        if not bounds:
            return None
        ranges = {1: (low, high), -1: (-high, -low)}
        if not all(meets(ranges[sign][1], bound) for sign, bound in bounds):
            return op is Op.NE
        if all(meets(ranges[sign][0], bound) for sign, bound in bounds):
            return op is not Op.NE
        return None

    def narrowed(self, hulls: tuple[Hull, ...], claims: Iterable[Claim]) -> tuple[Hull, ...] | None:
        """The hulls of those matches that claims are true of; None where there are none."""
        narrower = list(hulls)
        for claim in claims:
            number = claim.question.tally
            for aim, (least, _) in self.claimed(claim):
                hull = narrower[number]
                if isinstance(hull, bool):
                    continue
                low, high = hull
                is_low = aim == self._known[number, 1]
                low, high = (max(low, least), high) if is_low else (low, min(high, -least))
                if low > high:
                    return None
                narrower[number] = low, high
        return tuple(narrower)

    def merged(self, claims: Iterable[Claim]) -> tuple[Claim, ...]:
        """Claims without those that follow from others."""
        strongest: dict[Any, tuple[list[tuple[int, Bound]], Claim]] = {}
        for claim in claims:
            bounds = self.claimed(claim)
            by = bounds[0][0] if len(bounds) == 1 else key_of(claim.question.given(claim.occurrence))
            about = (id(claim.question), claim.is_true, by)
            if about not in strongest or strongest[about][0] < bounds:
                strongest[about] = bounds, claim
        return tuple(claim for _, claim in strongest.values())

    # -- when matches are written out

    def added(self, states: States, took: Iterable[tuple[Any, int, Occurrence]]) -> States:
        """The states of the tallies behind some constituents."""
        changed = list(states)
        for _, step, occurrence in took:
            for number, tally in enumerate(self._tallies):
                if tally.step == step:
                    before, fold = changed[number], tally.fold
                    value = tally.of(occurrence)
                    changed[number] = (fold.add(fold.initial if before is None else before[0], value),)
        return tuple(changed)

    def telling(self, states: States) -> Any:
        """The values that distinguish states, by their keys: 1 and true are not the same."""
        return tuple(
            [
                state
                if state is None or tally.reference.aggregate in _NUMBERS
                else tuple(map(key_of, state[0] if type(state[0]) is tuple else state))
                for tally, state in zip(self._tallies, states, strict=True)
            ]
        )

    def satisfied(self, states: States) -> bool:
        """Whether a complete match satisfies the conditions."""
        return all(holds(question, states) for question in self.final)

    def claimed(self, claim: Claim) -> list[tuple[int, Bound]]:
        """The needs of a claim among the measures."""
        question = claim.question
        operand, op, number = self._compared(question, claim.question.given(claim.occurrence))
        if number is ABSENT:
            return []
        bounds = _bounds(operand, op if claim.is_true else _NEGATED[op], number)
        return [(self._aim(question.tally, sign), bound) for sign, bound in bounds]

    # -- what is needed

    def _compared(self, question: Question, given: Any) -> tuple[Operand, Op, Any]:
        """A question about a tally and a given value, as the tally's operand, an operator and a number."""
        condition = question.condition
        left, op, right = condition.left, condition.op, condition.right
        assert isinstance(right, Operand)
        if question.left.register is None:
            left, op, right = right, _TURNED[op], left
        return left, op, ABSENT if left.lapse else exact(computed(right, given))

    def _aim(self, number: int, sign: int) -> int:
        """The number of the aim for a tally (1), or for its negative (-1)."""
        known = self._known.get((number, sign))
        if known is None:
            known = self._known[number, sign] = len(self.aims)
            is_sum = self._tallies[number].is_additive
            self._set(
                _Sum((self._weight(number, sign),)) if is_sum else _Best(number, self._tallies[number], sign)
            )
        return known

    def _set(self, aim: Aim) -> int:
        self.aims.append(aim)
        self._needed.append(FREE)
        return len(self.aims) - 1

    def _weight(self, number: int, times: Any) -> _Weight:
        tally = self._tallies[number]
        is_count = tally.reference.aggregate is Aggregate.COUNT
        return _Weight(number, tally, 0 if is_count else times, times if is_count else 0)

    def _finally(self, question: Question) -> Iterator[tuple[int, Bound]]:
        """The aims of a condition that is asked in the end, and what it needs of them."""
        condition, number = question.condition, question.tally
        left, op, right = condition.left, condition.op, condition.right
        tally, factor, offset = self._tallies[number], exact(left.factor), exact(left.offset)
        if isinstance(right, Operand):
            other = question.right.register if question.right is not None else None
            assert other is not None
            if tally.is_additive and self._tallies[other].is_additive:
                for sign, strictly in _SIDES[op]:
                    weights = (
                        self._weight(number, sign * factor),
                        self._weight(other, -sign * exact(right.factor)),
                    )
                    yield self._set(_Sum(weights)), (sign * (exact(right.offset) - offset), strictly)
            return
        constant = exact(right)
        if constant is ABSENT:
            return
        if tally.reference.aggregate is Aggregate.AVG and tally.is_repeated:
            # An average is above a value iff the sum of the differences is above zero.
            for sign, strictly in _SIDES[op]:
                weight = _Weight(number, tally, sign * factor, sign * (offset - constant))
                yield self._set(_Sum((weight,))), (0, strictly)
            return
        for sign, bound in _bounds(left, op, constant):
            yield self._aim(number, sign), bound
