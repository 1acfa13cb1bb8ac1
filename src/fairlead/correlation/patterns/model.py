"""The core language of composite events as values (book 7.4.2), with what a match has to satisfy and consume.

    Atom        [A ⊆ Σ]          a step: takes one element of A, and fails on others in Σ
    Concat      C1 C2            weak: later in the total order, overlap allowed
    Sequence    C1 ; C2          strong: wholly later
    Iterate     C{m,n}           from m to n times, one behind the other
    Either      C1 | C2          alternation
    Both        C1 || C2         parallelisation
    Permutation C1 ~ C2          one behind the other, in whatever order
    Unless      C unless C'      C, if what is barred does not come first
    Timing      (C1, C2)T=d      a timer that C2 may wait for, or has to be faster than
    Within      C within d       all of it inside a window

`Pattern` is the whole: a body, `same`, conditions, what is given with it, what a match consumes. Values are
frozen, checked when they are made, and compared by content; the text of a pattern is its identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import time as TimeOfDay
from decimal import Decimal
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from fairlead.errors import FilterError
from fairlead.filters import Attribute, Constraint, Filter, Op
from fairlead.filters.filter import leaves
from fairlead.filters.printing import text_of
from fairlead.model import Instant, Key, Kind, Multi, Number, check_name, key_of, kind_of, number_of, value_of

__all__ = [
    "BACK_MAX",
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
PERMUTED_MAX: Final = 8
"""The number of parts a permutation may have: its states are their subsets."""
COUNT_MAX: Final = 100_000
"""The number of rounds an iteration may ask for."""
BACK_MAX: Final = 100
"""The number of events that a pattern may look back."""
DURATION_MAX: Final = 2**55
"""The longest duration, in microseconds: about a thousand years."""


@dataclass(frozen=True, slots=True)
class Atom:
    """[A ⊆ Σ]: takes the first element in A; one in Σ that it does not take makes the match fail."""

    step: str
    filter: Filter | None
    """The occurrences of A; None where A has time events only."""
    timers: frozenset[str] = frozenset()
    """The time events of A."""
    domain: Filter | None = None
    """The occurrences of Σ, beyond A; None where there are none."""
    domain_timers: frozenset[str] = frozenset()
    """The time events of Σ."""
    any: bool = False
    """Whether a match may pass over what it takes, and take a later one."""
    bars: bool = False
    """Whether it takes nothing: what it would take ends a match (`Unless`, and `until` of an iteration)."""

    @property
    def is_silent(self) -> bool:
        """Whether it takes no occurrence: it waits for time events, or is a bar."""
        return self.filter is None or self.bars

    def __post_init__(self) -> None:
        check_name(self.step)
        if "." in self.step:
            raise FilterError(f"a step's name has no dots: {self.step!r}")
        if self.filter is None and not self.timers:
            raise FilterError(f"the step {self.step!r} takes nothing")
        if self.any and (self.filter is None or self.bars):
            raise FilterError(f"the step {self.step!r} takes no event to pass over")
        if self.bars and (self.filter is None or self.timers or self.domain_timers):
            raise FilterError(f"the step {self.step!r} bars events, and no timers")


@dataclass(frozen=True, slots=True)
class Concat:
    """C1 C2: the second from where the first ended."""

    first: Part
    second: Part


@dataclass(frozen=True, slots=True)
class Sequence:
    """C1 ; C2: all of the second is strongly behind the end of the first."""

    first: Part
    second: Part


@dataclass(frozen=True, slots=True)
class Iterate:
    """C{least,most}: one match of C behind the other; without `most`, any number."""

    part: Part
    least: int = 0
    most: int | None = None
    greedy: bool = False
    """Whether another round has precedence over what follows: an event that both could take is the round's."""
    until: Atom | None = None
    """A bar: what it would take ends the rounds, but for the first one."""

    def __post_init__(self) -> None:
        counts = (self.least, 0 if self.most is None else self.most)
        if not all(type(each) is int and 0 <= each <= COUNT_MAX for each in counts):
            raise FilterError(f"an iteration has from 0 to {COUNT_MAX:,} rounds")
        if self.most is not None and self.most < max(self.least, 1):
            raise FilterError(f"an iteration of at least {self.least} and at most {self.most} rounds")
        if can_be_empty(self.part):
            raise FilterError("what is repeated may match without taking anything")
        if self.greedy and not (
            isinstance(self.part, Atom) and not self.part.is_silent and not self.part.timers
        ):
            raise FilterError("one step is repeated greedily, and no timer")
        if self.until is not None:
            _check_bar(self.until)
            if next(_parallel(self.part), None) is not None:
                raise FilterError("what is repeated in whatever order has no `until`")


@dataclass(frozen=True, slots=True)
class Either:
    """C1 | C2 | …: a match of any of them."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise FilterError("an alternation has at least two parts")


@dataclass(frozen=True, slots=True)
class Both:
    """C1 || C2 || …: a match of each, in any interleaving."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if len(self.parts) < 2:
            raise FilterError("a parallelisation has at least two parts")


@dataclass(frozen=True, slots=True)
class Permutation:
    """C1 ~ C2 ~ …: a match of each, one behind the other, in whatever order. No event is of two of them."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if not 2 <= len(self.parts) <= PERMUTED_MAX:
            raise FilterError(f"a permutation has from 2 to {PERMUTED_MAX} parts")
        if any(map(can_be_skipped, self.parts)):
            raise FilterError("a part of a permutation may match without taking anything")


@dataclass(frozen=True, slots=True)
class Unless:
    """C, if no element that the bar would take comes first: before C takes one or, with `is_next`, as the first
    element of the bar's own domain.
    """

    part: Part
    bar: Atom
    is_next: bool = False

    def __post_init__(self) -> None:
        _check_bar(self.bar)
        if self.is_next:
            if self.bar.domain is None:
                raise FilterError("the next event of which?", hint="among [true], for example")
            if can_be_skipped(self.part):
                raise FilterError("what is not to come next is about a part that takes something")
        elif not isinstance(self.part, Atom) or self.bar.domain is not None:
            raise FilterError("what may not come before is about one step, and has no domain")


@dataclass(frozen=True, slots=True)
class Timing:
    """(C1, C2)T=spec: the timer is started at the end of C1; C2, from there, may name it."""

    first: Part
    second: Part
    timer: str
    spec: int | Instant | TimeOfDay
    """A duration in microseconds, an instant, or a time of day in UTC: the next one behind the end of C1."""

    def __post_init__(self) -> None:
        check_name(self.timer)
        if isinstance(self.spec, int):
            _check_duration(self.spec)
        if isinstance(self.spec, TimeOfDay) and self.spec.tzinfo is not None:
            raise FilterError("a time of day is in UTC and says no zone")
        if can_be_skipped(self.first):
            raise FilterError(f"what starts the timer {self.timer!r} may match without taking anything")


@dataclass(frozen=True, slots=True)
class Within:
    """C within d: from the least start to the end it takes at most d microseconds."""

    part: Part
    duration: int

    def __post_init__(self) -> None:
        _check_duration(self.duration)


Part: TypeAlias = Atom | Concat | Sequence | Iterate | Either | Both | Permutation | Unless | Timing | Within


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
            _check_duration(abs(self.lapse))
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

    def __post_init__(self) -> None:
        found = list(atoms(self.body))
        _check_greedy(self.body, None)
        _check_bars(self.body)
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
        _check_head(self.body)
        _check_timers(self.body, frozenset())
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
        if self.limit < 1:
            raise FilterError(f"a limit of {self.limit} matches")
        if self.limit != LIMIT and self.take is not Take.ALL:
            raise FilterError("a limit is about taking all matches", hint="add `taking all matches`")

    def _check_silent(self, silent: dict[str, Atom]) -> None:
        """A step that waits for a timer takes no event: a condition on it is about the events of its domain."""
        for condition in self.conditions:
            for reference in (each for each in condition.references if each.step in silent):
                step = reference.step
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
        for both in _parallel(self.body):
            branches = [frozenset(atom.step for atom in atoms(part)) for part in both.parts]
            if sum(not branch.isdisjoint(condition.steps) for branch in branches) > 1:
                return None
        return last if last in condition.plain_steps else None

    @property
    def is_settled_by_steps(self) -> bool:
        """Whether its steps and links alone decide: it bars nothing, passes nothing over, and does not look
        back."""
        return self.resume is None and not self.lookback and not any(map(_is_choosing, _parts(self.body)))

    @cached_property
    def lookback(self) -> Mapping[str, int]:
        """The steps of which it looks at what comes before, and how far."""
        references = [each for condition in self.conditions for each in condition.references]
        references += [output.operand.reference for output in self.outputs]
        found: dict[str, int] = {}
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
        return frozenset(_repeated(self.body, False))

    @cached_property
    def hash(self) -> str:
        """The hash of its text, which composites carry and their ids are made from."""
        return blake2b(str(self).encode(), digest_size=16).hexdigest()

    def __str__(self) -> str:
        return text_of(self)


def atoms(part: Part) -> Iterator[Atom]:
    """The steps of a part, from left to right."""
    match part:
        case Atom():
            yield part
        case Concat(first, second) | Sequence(first, second) | Timing(first, second, _, _):
            yield from atoms(first)
            yield from atoms(second)
        case Either(parts) | Both(parts) | Permutation(parts):
            for each in parts:
                yield from atoms(each)
        case Iterate(inner, _, _, _, until):
            yield from atoms(inner)
            if until is not None:
                yield until
        case Within(inner, _):
            yield from atoms(inner)
        case Unless(inner, bar):  # it is compared with what is before it
            yield bar
            yield from atoms(inner)


def beginnings(part: Part) -> Iterator[Atom]:
    """The steps that a match of a part may begin with."""
    match part:
        case Atom():
            yield part
        case Concat(first, second) | Sequence(first, second) | Timing(first, second, _, _):
            yield from beginnings(first)
            if can_be_empty(first):
                yield from beginnings(second)
        case Either(parts) | Both(parts) | Permutation(parts):
            for each in parts:
                yield from beginnings(each)
        case Iterate(inner, _, _) | Within(inner, _) | Unless(inner, _):
            yield from beginnings(inner)


def can_be_empty(part: Part) -> bool:
    """Whether a part may match without taking an occurrence; time events are none."""
    match part:
        case Atom():
            return part.filter is None
        case Concat(first, second) | Sequence(first, second) | Timing(first, second, _, _):
            return can_be_empty(first) and can_be_empty(second)
        case Either(parts):
            return any(map(can_be_empty, parts))
        case Both(parts) | Permutation(parts):
            return all(map(can_be_empty, parts))
        case Iterate(inner, least, _):
            return least == 0 or can_be_empty(inner)
        case Within(inner, _) | Unless(inner, _):
            return can_be_empty(inner)


def can_be_skipped(part: Part) -> bool:
    """Whether a part may match without taking any element, time events included."""
    match part:
        case Atom():
            return False
        case Concat(first, second) | Sequence(first, second) | Timing(first, second, _, _):
            return can_be_skipped(first) and can_be_skipped(second)
        case Either(parts):
            return any(map(can_be_skipped, parts))
        case Both(parts) | Permutation(parts):
            return all(map(can_be_skipped, parts))
        case Iterate(inner, least, _):
            return least == 0 or can_be_skipped(inner)
        case Within(inner, _) | Unless(inner, _):
            return can_be_skipped(inner)


def _parts(part: Part) -> Iterator[Part]:
    """A part, and all that it is made of."""
    yield part
    match part:
        case Atom():
            return
        case Concat(first, second) | Sequence(first, second) | Timing(first, second, _, _):
            yield from _parts(first)
            yield from _parts(second)
        case Either(parts) | Both(parts) | Permutation(parts):
            for each in parts:
                yield from _parts(each)
        case Iterate(inner, _, _) | Within(inner, _) | Unless(inner, _):
            yield from _parts(inner)


def _is_choosing(part: Part) -> bool:
    match part:
        case Atom(any=is_any):
            return is_any
        case Iterate(greedy=greedy, until=until):
            return greedy or until is not None
    return isinstance(part, Permutation | Unless)


def _check_bar(bar: Atom) -> None:
    if not bar.bars:
        raise FilterError(f"the step {bar.step!r} would be taken, and not barred")


def _check_bars(body: Part) -> None:
    """Check that a bar is where something is barred, and nowhere else."""
    for part in _parts(body):
        if isinstance(part, Atom) and part.bars:
            raise FilterError(f"the step {part.step!r} bars events, and is no part of a match")


def _check_greedy(part: Part, following: Part | None) -> None:
    """Check that a step follows what is repeated greedily: there it is plain what has precedence over what."""
    match part:
        case Iterate(greedy=True):
            if following is None or not _begins_plainly(following):
                raise FilterError(
                    "what is repeated greedily is followed by a step",
                    hint="write greedily 1 or more A followed by B",
                )
        case Concat(first, second) | Sequence(first, second):
            _check_greedy(first, second)
            _check_greedy(second, following)
        case Timing(first, second, _, _):
            _check_greedy(first, None)
            _check_greedy(second, None)
        case Either(parts) | Both(parts) | Permutation(parts):
            for each in parts:
                _check_greedy(each, None)
        case Iterate(inner, _, _) | Within(inner, _) | Unless(inner, _):
            _check_greedy(inner, None)


def _check_head(body: Part) -> None:
    """Check that a match starts with what it takes: nothing has precedence or is barred before that."""
    first = {atom.step for atom in beginnings(body)}
    for part in _parts(body):
        at_head = not first.isdisjoint(atom.step for atom in beginnings(part))
        match part:
            case Unless(is_next=True) if at_head:
                raise FilterError(
                    "a match starts with what it takes: nothing else is next",
                    hint="say what it is next to: A followed by B unless next C",
                )
            case Iterate(least=0, greedy=True) if at_head:
                raise FilterError(
                    "a match that may start with greedy rounds, or without", hint="write greedily 1 or more"
                )


def _begins_plainly(part: Part) -> bool:
    """Whether a part begins with one step, in one way."""
    match part:
        case Atom():
            return part.filter is not None and not part.timers
        case Concat(first, _) | Sequence(first, _):
            return _begins_plainly(first)
        case Unless(inner, _):
            return _begins_plainly(inner)
        case Iterate(inner, least, _):
            return least > 0 and _begins_plainly(inner)
    return False


def _repeated(part: Part, inside: bool) -> Iterator[str]:
    match part:
        case Atom():
            if inside:
                yield part.step
        case Concat(first, second) | Sequence(first, second) | Timing(first, second, _, _):
            yield from _repeated(first, inside)
            yield from _repeated(second, inside)
        case Either(parts) | Both(parts) | Permutation(parts):
            for each in parts:
                yield from _repeated(each, inside)
        case Iterate(inner, _, most):
            yield from _repeated(inner, inside or most != 1)
        case Within(inner, _) | Unless(inner, _):
            yield from _repeated(inner, inside)


def _parallel(part: Part) -> Iterator[Both | Permutation]:
    match part:
        case Atom():
            return
        case Concat(first, second) | Sequence(first, second) | Timing(first, second, _, _):
            inner: tuple[Part, ...] = (first, second)
        case Iterate(repeated, _, _):
            inner = (repeated,)
        case Within(bounded, _) | Unless(bounded, _):
            inner = (bounded,)
        case Either(parts):
            inner = parts
        case Both(parts) | Permutation(parts):
            yield part
            inner = parts
    for each in inner:
        yield from _parallel(each)


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


def _check_duration(duration: int) -> None:
    if isinstance(duration, bool) or not 0 < duration <= DURATION_MAX:
        raise FilterError(f"not a duration: {duration} microseconds")


def _check_timers(part: Part, known: frozenset[str]) -> None:
    """Timers are named where they run, and nowhere else; a name means one of them."""
    match part:
        case Atom():
            for timer in sorted((part.timers | part.domain_timers) - known):
                raise FilterError(f"no timer {timer!r} runs at the step {part.step!r}")
        case Timing(first, second, timer, _):
            if timer in known:
                raise FilterError(f"two timers are called {timer!r}")
            _check_timers(first, known)
            _check_timers(second, known | {timer})
        case Concat(first, second) | Sequence(first, second):
            _check_timers(first, known)
            _check_timers(second, known)
        case Either(parts) | Both(parts) | Permutation(parts):
            for each in parts:
                _check_timers(each, known)
        case Iterate(inner, _, _) | Within(inner, _) | Unless(inner, _):
            _check_timers(inner, known)
