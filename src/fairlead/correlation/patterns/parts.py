"""The parts of a pattern's body, and what is asked of them: the steps, what a match may begin with, what is empty.

Law: a part is checked when it is made, and what is about the whole of a body when a pattern is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import time as TimeOfDay
from typing import Final, TypeAlias

from fairlead.errors import FilterError
from fairlead.filters import Filter
from fairlead.model import Instant, check_name

__all__ = [
    "COUNT_MAX",
    "DURATION_MAX",
    "EVER",
    "PERMUTED_MAX",
    "Atom",
    "Both",
    "Concat",
    "Either",
    "Iterate",
    "Part",
    "Permutation",
    "Sequence",
    "Timing",
    "Unless",
    "Within",
    "atoms",
    "beginnings",
    "can_be_empty",
    "can_be_skipped",
    "check_bars",
    "check_duration",
    "check_greedy",
    "check_head",
    "check_timers",
    "is_choosing",
    "parallel",
    "parts_of",
    "preceded",
    "repeated",
]

PERMUTED_MAX: Final = 8
"""The number of parts a permutation may have: its states are their subsets."""
COUNT_MAX: Final = 100_000
"""The number of rounds an iteration may ask for."""
EVER: Final = 0
"""The `Unless.lead` of what may never have come before."""
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
            if next(parallel(self.part), None) is not None:
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
    element of the bar's own domain. With `lead`, if none has come before what C takes, up to that long before it.
    """

    part: Part
    bar: Atom
    is_next: bool = False
    lead: int | None = None
    """From the start of what is taken so many microseconds back, or EVER; None where it is about what comes first.
    It is of the stream, as what `prev` is about: what fails that is skipped, as what fails a condition."""

    def __post_init__(self) -> None:
        _check_bar(self.bar)
        if self.lead is not None:
            if self.lead != EVER:
                check_duration(self.lead)
            if self.is_next or self.bar.domain is not None:
                raise FilterError("what came before is not next, and has no domain")
            if not isinstance(self.part, Atom) or self.part.is_silent or self.part.timers:
                raise FilterError(
                    "what may not have come before is about one step, which takes events",
                    hint="write parentheses: 1 or more (A unless B before)",
                )
        elif self.is_next:
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
            check_duration(self.spec)
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
        check_duration(self.duration)


Part: TypeAlias = Atom | Concat | Sequence | Iterate | Either | Both | Permutation | Unless | Timing | Within


def preceded(body: Part) -> Iterator[tuple[str, Atom, int]]:
    """The steps that nothing of some sort may have come before: their names, the bars, and how far back."""
    for part in parts_of(body):
        match part:
            case Unless(Atom() as atom, bar, _, int() as lead):
                yield atom.step, bar, lead


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


def parts_of(part: Part) -> Iterator[Part]:
    """A part, and all that it is made of."""
    yield part
    match part:
        case Atom():
            return
        case Concat(first, second) | Sequence(first, second) | Timing(first, second, _, _):
            yield from parts_of(first)
            yield from parts_of(second)
        case Either(parts) | Both(parts) | Permutation(parts):
            for each in parts:
                yield from parts_of(each)
        case Iterate(inner, _, _) | Within(inner, _) | Unless(inner, _):
            yield from parts_of(inner)


def is_choosing(part: Part) -> bool:
    match part:
        case Atom(any=is_any):
            return is_any
        case Iterate(greedy=greedy, until=until):
            return greedy or until is not None
    return isinstance(part, Permutation | Unless)


def _check_bar(bar: Atom) -> None:
    if not bar.bars:
        raise FilterError(f"the step {bar.step!r} would be taken, and not barred")


def check_bars(body: Part) -> None:
    """Check that a bar is where something is barred, and nowhere else."""
    for part in parts_of(body):
        if isinstance(part, Atom) and part.bars:
            raise FilterError(f"the step {part.step!r} bars events, and is no part of a match")


def check_greedy(part: Part, following: Part | None) -> None:
    """Check that a step follows what is repeated greedily: there it is plain what has precedence over what."""
    match part:
        case Iterate(greedy=True):
            if following is None or not _begins_plainly(following):
                raise FilterError(
                    "what is repeated greedily is followed by a step",
                    hint="write greedily 1 or more A followed by B",
                )
        case Concat(first, second) | Sequence(first, second) | Timing(first, second, _, _):
            check_greedy(first, second)
            check_greedy(second, following)
        case Either(parts) | Both(parts) | Permutation(parts):
            for each in parts:
                check_greedy(each, None)
        case Iterate(inner, _, _) | Within(inner, _) | Unless(inner, _):
            check_greedy(inner, None)


def check_head(body: Part) -> None:
    """Check that a match starts with what it takes: nothing has precedence or is barred before that."""
    first = {atom.step for atom in beginnings(body)}
    for part in parts_of(body):
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
            return part.filter is not None  # a timer beside its events is taken by no round
        case Concat(first, _) | Sequence(first, _):
            return _begins_plainly(first)
        case Unless(inner, _):
            return _begins_plainly(inner)
        case Iterate(inner, least, _):
            return least > 0 and _begins_plainly(inner)
    return False


def repeated(part: Part, inside: bool) -> Iterator[str]:
    match part:
        case Atom():
            if inside:
                yield part.step
        case Concat(first, second) | Sequence(first, second) | Timing(first, second, _, _):
            yield from repeated(first, inside)
            yield from repeated(second, inside)
        case Either(parts) | Both(parts) | Permutation(parts):
            for each in parts:
                yield from repeated(each, inside)
        case Iterate(inner, _, most):
            yield from repeated(inner, inside or most != 1)
        case Within(inner, _) | Unless(inner, _):
            yield from repeated(inner, inside)


def parallel(part: Part) -> Iterator[Both | Permutation]:
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
        yield from parallel(each)


def check_duration(duration: int) -> None:
    if isinstance(duration, bool) or not 0 < duration <= DURATION_MAX:
        raise FilterError(f"not a duration: {duration} microseconds")


def check_timers(part: Part, known: frozenset[str]) -> None:
    """Timers are named where they run, and nowhere else; a name means one of them."""
    match part:
        case Atom():
            for timer in sorted((part.timers | part.domain_timers) - known):
                raise FilterError(f"no timer {timer!r} runs at the step {part.step!r}")
        case Timing(first, second, timer, _):
            if timer in known:
                raise FilterError(f"two timers are called {timer!r}")
            check_timers(first, known)
            check_timers(second, known | {timer})
        case Concat(first, second) | Sequence(first, second):
            check_timers(first, known)
            check_timers(second, known)
        case Either(parts) | Both(parts) | Permutation(parts):
            for each in parts:
                check_timers(each, known)
        case Iterate(inner, _, _) | Within(inner, _) | Unless(inner, _):
            check_timers(inner, known)
