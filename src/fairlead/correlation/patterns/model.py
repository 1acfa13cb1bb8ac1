"""The core language of composite events as values (book 7.4.2), with what a match has to satisfy and consume.

    Atom        [A ⊆ Σ]          a step: takes one element of A, and fails on others in Σ
    Concat      C1 C2            weak: later in the total order, overlap allowed
    Sequence    C1 ; C2          strong: wholly later
    Iterate     C{m,n}           from m to n times, one behind the other
    Either      C1 | C2          alternation
    Both        C1 || C2         parallelisation
    Permutation C1 ~ C2          one behind the other, in whatever order
    Unless      C unless C'      C, if what is barred does not come first, or did not come before
    Timing      (C1, C2)T=d      a timer that C2 may wait for, or has to be faster than
    Within      C within d       all of it inside a window

`Pattern` is the whole: a body, `same`, conditions, what is given with it, what a match consumes. Values are
frozen, checked when they are made, and compared by content; the text of a pattern is its identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

from fairlead.correlation.patterns.parts import (
    EVER,
    Atom,
    Both,
    Concat,
    Either,
    Iterate,
    Part,
    Permutation,
    Sequence,
    Timing,
    Unless,
    Within,
    atoms,
    beginnings,
    can_be_empty,
    can_be_skipped,
    check_bars,
    check_duration,
    check_greedy,
    check_head,
    check_timers,
    is_choosing,
    parallel,
    parts_of,
    preceded,
    repeated,
)
from fairlead.errors import FilterError
from fairlead.filters import Attribute, Constraint, Filter, Op
from fairlead.filters.filter import leaves
from fairlead.filters.printing import text_of
from fairlead.model import Key, Kind, Multi, Number, check_name, key_of, kind_of, number_of, value_of

__all__ = [
    "BACK_MAX",
    "EVER",
    "LIMIT",
    "PARTIAL",
    "TIME",
    "UNNAMED",
    "Aggregate",
    "Atom",
    "Both",
    "Concat",
    "Condition",
    "Either",
    "Iterate",
    "Operand",
    "Output",
    "Part",
    "Pattern",
    "Permutation",
    "Reference",
    "Resume",
    "Sequence",
    "Take",
    "Timing",
    "Unless",
    "Within",
    "atoms",
    "beginnings",
    "can_be_empty",
    "can_be_skipped",
    "first_of",
    "is_first",
    "none_before",
    "preceded",
]

TIME: Final = "time"
"""The attribute that is a time in every notification that has it."""
LIMIT: Final = 1_000
"""The number of matches with the same end that are enumerated, unless a pattern says otherwise."""
UNNAMED: Final = "composite"
"""The name of a pattern that has none of its own."""
PARTIAL: Final = ".partial"
"""The end of the type of a partial match."""
RESERVED: Final = frozenset(
    {"constituents", "id", "interval", "pattern", "producer", "sequence", "time", "type"}
)
"""The attributes of every composite: no step and no output is called so."""
STEPS_MAX: Final = 256
"""The number of atoms a pattern may have."""
BACK_MAX: Final = 100
"""The number of events that a pattern may look back."""


class Aggregate(Enum):
    """An aggregate over all occurrences of a step."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Reference:
    """`step.attribute` of what the step took last, an aggregate over all that it took, or `prev(step.attribute)`
    of what comes before it.
    """

    step: str
    attribute: str | None
    """None with COUNT, and for whether there is something before."""
    aggregate: Aggregate | None = None
    back: int = 0
    """The number of places before what the step took, among the events of its sort: those that it takes, and those
    of its domain. Without an attribute, the number of events there, up to that many."""
    bar: str | None = None
    """With `back`: the bar whose events are looked at, in place of those of the step's own sort."""
    lead: int = EVER
    """With `bar`: how far before the start of what was taken, in microseconds."""

    def __post_init__(self) -> None:
        if self.back and self.aggregate is not None:
            raise FilterError("what comes before is about one event, and is no aggregate")
        if type(self.back) is not int or not 0 <= self.back <= BACK_MAX:
            raise FilterError(f"a pattern looks back from 1 to {BACK_MAX} events")
        if (self.attribute is None) != (self.aggregate is Aggregate.COUNT) and not self.back:
            raise FilterError("count takes a step, all else an attribute of a step")
        if self.attribute is not None:
            check_name(self.attribute)


@dataclass(frozen=True, slots=True)
class Operand:
    """factor * reference + offset, for numbers; reference + lapse, for times; or the value itself, of any kind."""

    reference: Reference
    factor: Any = 1
    offset: Any = 0
    lapse: int = 0
    """A duration in microseconds, negative to go back."""

    def __post_init__(self) -> None:
        for name in ("factor", "offset"):
            object.__setattr__(self, name, _finite(getattr(self, name)))
        if self.lapse:
            check_duration(abs(self.lapse))
        is_number = self.factor != 1 or self.offset != 0 or self._is_counted
        if is_number and (self.lapse or self.reference.attribute == TIME):
            what = "a duration is added" if self.lapse else f"{self.reference.step}.{TIME} is a time"
            raise FilterError(
                f"{what}: times have no arithmetic with numbers",
                hint="to a time a duration is added: A.time + 5 s",
            )

    @property
    def is_plain(self) -> bool:
        """Whether it is the value itself, of whatever kind that is."""
        return bool(self.factor == 1 and self.offset == 0 and not self.lapse)

    @property
    def kind(self) -> Kind | None:
        """The kind of its values; None where any kind is possible."""
        if self.lapse or self.reference.attribute == TIME:
            return Kind.TIME
        return None if self.is_plain and not self._is_counted else Kind.NUMBER

    @property
    def _is_counted(self) -> bool:
        """Whether it is a number, whatever was taken."""
        return self.reference.aggregate in _COMPUTED or self.reference.attribute is None


_COMPUTED: Final = (Aggregate.COUNT, Aggregate.SUM, Aggregate.AVG)
"""The aggregates that are numbers, whatever was taken."""
_COMPARATORS: Final = (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)


@dataclass(frozen=True, slots=True)
class Condition:
    """Two operands compared, or an operand and a constant."""

    left: Operand
    op: Op
    right: Operand | Any = field(compare=False)
    key: Operand | Key = field(init=False, repr=False)
    """The key that the right side is compared by: true is not 1, and 1.0 is."""

    def __post_init__(self) -> None:
        if self.op not in _COMPARATORS:
            raise FilterError(f"{self.op.value!r} does not compare two values")
        if isinstance(self.right, Operand):
            object.__setattr__(self, "key", self.right)
        else:
            object.__setattr__(self, "right", value_of(self.right))
            object.__setattr__(self, "key", key_of(self.right))
        one, other = (
            self.left.kind,
            self.right.kind if isinstance(self.right, Operand) else kind_of(self.right),
        )
        if one and other and one is not other and Kind.TIME in (one, other):
            raise FilterError(
                f"a {one.value} is compared with a {other.value}: that never holds",
                hint='times are compared with times: B.time < A.time + 5 s, A.time > t"2026-01-01T00:00:00Z"',
            )

    @property
    def references(self) -> tuple[Reference, ...]:
        """The references of the condition."""
        return tuple(each.reference for each in (self.left, self.right) if isinstance(each, Operand))

    @property
    def steps(self) -> frozenset[str]:
        """The steps that it names."""
        return frozenset(each.step for each in self.references)

    @property
    def plain_steps(self) -> frozenset[str]:
        """The steps that it names outside of aggregates: it is evaluated when one of them takes an occurrence."""
        return frozenset(each.step for each in self.references if each.aggregate is None)


def none_before(step: str, bar: str, lead: int) -> Condition:
    """The condition that nothing that a bar would take comes before what a step takes."""
    return Condition(Operand(Reference(step, None, back=1, bar=bar, lead=lead)), Op.EQ, 0)


def is_first(condition: Condition) -> bool:
    """Whether a condition says that nothing comes before what a step takes."""
    return condition == first_of(condition.left.reference.step)


def first_of(step: str) -> Condition:
    """The condition that nothing comes before what a step takes."""
    return Condition(Operand(Reference(step, None, back=1)), Op.EQ, 0)


@dataclass(frozen=True, slots=True)
class Output:
    """An attribute that the composite carries besides: a name, and what it is computed from."""

    name: str
    operand: Operand

    def __post_init__(self) -> None:
        check_name(self.name)


class Take(Enum):
    """The selection of matches, and what they consume."""

    ALL = "all"
    FIRST = "first"
    NEXT = "next"
    PAST = "past"
    RECENT = "recent"


@dataclass(frozen=True, slots=True)
class Resume:
    """The place where matches may start behind one that was taken: the first event of a step, or the last."""

    step: str
    is_last: bool = False


@dataclass(frozen=True)
class Pattern:
    """A body with all that belongs to it. Equal patterns find the same composites, ids included."""

    body: Part
    same: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    outputs: tuple[Output, ...] = ()
    take: Take = Take.PAST
    limit: int = LIMIT
    partial: bool = False
    name: str = UNNAMED
    """The `type` of its composites."""
    resume: Resume | None = None
    """The place from which the next match may start, never its own first event; None: behind the last one."""
    left_out: tuple[str, ...] = ()
    """The steps whose events belong to a match, and are not shown by its composite."""

    def __post_init__(self) -> None:
        found = list(atoms(self.body))
        check_greedy(self.body, None)
        check_bars(self.body)
        if len(found) > STEPS_MAX:
            raise FilterError(f"a pattern has at most {STEPS_MAX} steps")
        names = [atom.step for atom in found]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise FilterError(
                f"two steps are called {twice[0]!r}",
                hint='name them: Quote as q1, or event("Quote", name="q1")',
            )
        if can_be_empty(self.body):
            raise FilterError(
                "the pattern may match without taking an event", hint="write at least one: `1 or more`"
            )
        check_head(self.body)
        check_timers(self.body, frozenset())
        for name in self.same:
            check_name(name)
        for step in sorted(step for each in self.conditions for step in each.steps if step not in names):
            raise FilterError(f"no step is called {step!r}", hint=f"there are {', '.join(names)}")
        self._check_silent({atom.step: atom for atom in found if atom.is_silent})
        for taken in (*names, *(output.name for output in self.outputs)):
            if taken.split(".")[0] in RESERVED:
                raise FilterError(
                    f"{taken!r} is an attribute that every composite has", hint="name it otherwise"
                )
        given = sorted(output.name for output in self.outputs)
        for name, other in pairwise(given):
            if name == other or other.startswith(f"{name}."):
                raise FilterError(f"two outputs share a name: {name!r} and {other!r}")
        for output in self.outputs:
            if output.name.split(".")[0] in names:
                raise FilterError(f"{output.name!r} is the name of a step")
            if output.operand.reference.step not in names:
                raise FilterError(f"no step is called {output.operand.reference.step!r}")
        if own := sorted(self.types_made & self.types_named):
            raise FilterError(
                f"the pattern names the type of its own composites: {own[0]}",
                hint="no pattern sees its own composites: name it otherwise",
            )
        if self.partial and not isinstance(self.body, Within):
            raise FilterError("only what has a window runs out of time", hint="add `within 5 minutes`")
        if self.resume is not None:
            if self.take is not Take.PAST:
                raise FilterError("a match that starts from a step is about taking matches past the last")
            if not any(atom.step == self.resume.step and not atom.is_silent for atom in found):
                raise FilterError(f"no step that takes events is called {self.resume.step!r}")
        for step in self.left_out:
            if not any(atom.step == step and not atom.is_silent for atom in found):
                raise FilterError(f"no step that takes events is called {step!r}")
            if self.left_out.count(step) > 1:
                raise FilterError(f"the step {step!r} is left out twice")
        if self.limit < 1:
            raise FilterError(f"a limit of {self.limit} matches")
        if self.limit != LIMIT and self.take is not Take.ALL:
            raise FilterError("a limit is about taking all matches", hint="add `taking all matches`")

    def _check_silent(self, silent: dict[str, Atom]) -> None:
        """A step that waits for a timer takes no event: a condition on it is about the events of its domain."""
        before = {bar.step for _, bar, _ in preceded(self.body)}
        for condition in self.conditions:
            for reference in (each for each in condition.references if each.step in silent):
                step = reference.step
                if step in before:
                    raise FilterError(
                        f"what came before, {step!r}, has no conditions",
                        hint="say it in its filter: A unless B[x > 1] before; or compare with prev(A.x)",
                    )
                if silent[step].domain is None and not silent[step].bars:
                    raise FilterError(f"the step {step!r} waits for a timer, and takes no event to compare")
                if reference.aggregate is not None or self.deciding_step(condition) != step:
                    raise FilterError(
                        f"the step {step!r} takes no event: what is not to happen is compared with earlier steps",
                        hint=f"write {step}.x > A.x, where A is before it",
                    )
        for output in self.outputs:
            if output.operand.reference.step in silent:
                raise FilterError(f"the step {output.operand.reference.step!r} takes no event to give")

    def deciding_step(self, condition: Condition) -> str | None:
        """The last step that a condition names, from left to right, if it decides there.

        It does not where that step is named in aggregates only, for these are not complete; nor where steps of
        different branches of a parallelisation are named, for either may come last.
        """
        steps = [atom.step for atom in atoms(self.body)]
        last = max(condition.steps, key=steps.index)
        for both in parallel(self.body):
            branches = [frozenset(atom.step for atom in atoms(part)) for part in both.parts]
            if sum(not branch.isdisjoint(condition.steps) for branch in branches) > 1:
                return None
        return last if last in condition.plain_steps else None

    @property
    def is_settled_by_steps(self) -> bool:
        """Whether its steps and links alone decide: it bars nothing, passes nothing over, and does not look
        back."""
        return self.resume is None and not self.lookback and not any(map(is_choosing, parts_of(self.body)))

    @cached_property
    def lookback(self) -> Mapping[str, int]:
        """The steps of which it looks at what comes before, and how far; and the bars for what came before."""
        references = [each for condition in self.conditions for each in condition.references]
        references += [output.operand.reference for output in self.outputs]
        found: dict[str, int] = {bar.step: 1 for _, bar, _ in preceded(self.body)}
        for each in references:
            if each.back:
                found[each.step] = max(each.back, found.get(each.step, 0))
        return MappingProxyType(found)

    @property
    def is_public(self) -> bool:
        """Whether it has a name: then its composites are published, and other queries may refer to them."""
        return self.name != UNNAMED

    @cached_property
    def types_named(self) -> frozenset[str]:
        """The types that its atoms and domains name (`type = "spike"`, or in a list): it sees such composites."""
        filters = (
            each for atom in atoms(self.body) for each in (atom.filter, atom.domain) if each is not None
        )
        return frozenset(type for filter in filters for leaf in leaves(filter) for type in _types_in(leaf))

    @property
    def types_made(self) -> frozenset[str]:
        """The types of its composites."""
        return frozenset({self.name, self.name + PARTIAL} if self.partial else {self.name})

    @cached_property
    def repeated_steps(self) -> frozenset[str]:
        """The steps that may take several elements: those inside of iterations."""
        return frozenset(repeated(self.body, False))

    @cached_property
    def hash(self) -> str:
        """The hash of its text, which composites carry and their ids are made from."""
        return blake2b(str(self).encode(), digest_size=16).hexdigest()

    def __str__(self) -> str:
        return text_of(self)


def _types_in(leaf: Filter) -> Iterator[str]:
    match leaf:
        case Constraint(Attribute("type"), Op.EQ, str(type)):
            yield type
        case Constraint(Attribute("type"), Op.IN, Multi() as types):
            yield from (type for type in types if isinstance(type, str))


def _finite(given: Any) -> Number:
    """A number that conditions can compute with, in its one canonical form."""
    value = value_of(given)
    number = number_of(value) if kind_of(value) is Kind.NUMBER else None
    if number is None or (isinstance(number, Decimal) and not number.is_finite()):
        raise FilterError(f"not a finite number: {given!r}")
    return number
