"""From patterns to text, in the one canonical spelling.

Law: `parse(render(P)) == P`. Parentheses stand only where they are needed, or where a reader would stop; what
changes nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import time as TimeOfDay
from typing import Final

from fairlead.correlation.patterns.model import (
    EVER,
    LIMIT,
    UNNAMED,
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
    Take,
    Timing,
    Unless,
    Within,
    is_first,
)
from fairlead.correlation.patterns.spelling import (
    TAKING_WORDS,
    THE_END,
    WORDS,
    default_step,
    excluded,
    fresh,
    fresh_timer,
    narrows,
    negative,
    type_in,
)
from fairlead.correlation.reading import render_prefix, render_value
from fairlead.filters import EVERYTHING, Filter, Or
from fairlead.filters import render as render_filter
from fairlead.filters.printing import text_of
from fairlead.filters.terms import quote_name, quote_step
from fairlead.model import Instant
from fairlead.model.durations import render_duration, render_moment

__all__ = [
    "render",
    "render_clauses",
    "render_condition",
    "render_event",
    "render_events",
    "render_name",
    "render_operand",
]

_ROUNDS: Final[dict[tuple[int, int | None], str]] = {(0, None): "any number of", (0, 1): "optional"}


@text_of.register
def render(pattern: Pattern) -> str:
    """The text of a pattern."""
    return render_name(pattern) + _Writer().whole(pattern.body, frozenset()) + render_clauses(pattern)


def render_clauses(pattern: Pattern) -> str:
    """The clauses after the body, with their commas."""
    clauses = [f"same {' and '.join(map(quote_name, pattern.same))}"] if pattern.same else []
    clauses += map(render_condition, pattern.conditions)
    if pattern.take is not Take.PAST:
        clauses.append(f"taking {' '.join(TAKING_WORDS[pattern.take])}")
    if pattern.resume is not None:
        place = "last" if pattern.resume.is_last else "first"
        clauses.append(f"taking from the {place} {quote_name(pattern.resume.step)}")
    if pattern.left_out:
        clauses.append(f"leaving out {' and '.join(map(quote_name, pattern.left_out))}")
    if pattern.limit != LIMIT:
        clauses.append(f"limit {pattern.limit}")
    if pattern.partial:
        clauses.append("with partial matches")
    if pattern.outputs:
        outputs = (f"{quote_name(each.name)} = {render_operand(each.operand)}" for each in pattern.outputs)
        clauses.append(f"giving {', '.join(outputs)}")
    return "".join(f", {clause}" for clause in clauses)


def render_condition(condition: Condition) -> str:
    """The text of a condition."""
    right = condition.right
    if is_first(condition):
        return f"{quote_name(condition.left.reference.step)} is first"
    text = render_operand(right) if isinstance(right, Operand) else render_value(right)
    return f"{render_operand(condition.left)} {condition.op.value} {text}"


def render_operand(operand: Operand) -> str:
    """The text of factor * reference + offset, without what changes nothing."""
    reference = operand.reference
    names = [reference.step, *([reference.attribute] if reference.attribute else [])]
    text = quote_name(".".join(names))
    if reference.aggregate is not None:
        text = f"{reference.aggregate.value}({text})"
    if reference.back:
        text = f"prev({text}, {reference.back})" if reference.back > 1 else f"prev({text})"
    if operand.lapse:
        return f"{text} {'-' if operand.lapse < 0 else '+'} {render_duration(abs(operand.lapse))}"
    if operand.factor != 1:
        text = f"{render_value(operand.factor)} * {text}"
    if operand.offset < 0:
        return f"{text} - {render_value(negative(operand.offset))}"
    return f"{text} + {render_value(operand.offset)}" if operand.offset else text


def render_event(filter: Filter) -> str:
    """One sort of events: by their type where it has one, else by the filter."""
    typed = type_in(filter)
    if typed is None:
        return f"[{render_filter(filter)}]"
    type, rest = typed
    name = quote_step(type) if type in WORDS else quote_name(type)
    return name if rest == EVERYTHING else f"{name}[{render_filter(rest)}]"


def render_events(filter: Filter) -> str:
    """Sorts of events: several with types of their own are in parentheses."""
    if isinstance(filter, Or) and len(filter.parts) > 1 and all(map(type_in, filter.parts)):
        return f"({' or '.join(map(render_event, filter.parts))})"
    return render_event(filter)


def render_name(pattern: Pattern) -> str:
    """The name of a pattern and a colon; nothing where it has no name of its own."""
    return "" if pattern.name == UNNAMED else render_prefix(pattern.name)


class _Writer:
    """Writes one body from left to right; it knows which names were given so far."""

    __slots__ = ("names",)

    def __init__(self) -> None:
        self.names: list[str] = []

    def whole(self, part: Part, known: frozenset[str]) -> str:
        """A part where everything may stand without parentheses."""
        links: list[Sequence | Concat | Timing | Within] = []
        while isinstance(part, Sequence | Concat | Timing | Within):
            links.append(part)
            part = part.part if isinstance(part, Within) else part.first
        texts = [self.first(part, known, alone=not links or isinstance(links[-1], Within))]
        texts += [self.link(each, known) for each in reversed(links)]
        return " ".join(texts)

    def first(self, part: Part, known: frozenset[str], *, alone: bool) -> str:
        """The beginning of a chain; a list is `alone` where nothing could be taken for a part of it."""
        match part:
            case Atom():
                return self.atom(part)
            case Either(parts) if alone:
                return " or ".join([self.listed(each, known) for each in parts])
            case Both(parts) | Permutation(parts) if alone:
                *texts, last = [self.listed(each, known) for each in parts]
                word = "any order" if isinstance(part, Both) else "permutation"
                return f"{word} of {', '.join(texts)} and {last}"
            case Unless() if alone:
                return self.unless(part, known)
        return self.listed(part, known)

    def link(self, part: Sequence | Concat | Timing | Within, known: frozenset[str]) -> str:
        match part:
            case Within(_, duration):
                return f"within {render_duration(duration)}"
            case Sequence(_, second):
                return f"followed by {self.second(second, known)}"
            case Concat(_, second):
                return f"weakly followed by {self.second(second, known)}"
        second, timer, spec = part.second, part.timer, part.spec
        lasts = isinstance(spec, int)
        time = render_duration(spec) if isinstance(spec, int) else _moment(spec)
        if isinstance(second, Atom) and timer == fresh_timer(known):
            only = frozenset({timer})
            is_silent = (second.filter, second.timers, second.domain_timers) == (None, only, frozenset())
            if is_silent and second.domain is not None:
                said = f"then no {render_events(second.domain)} {'within' if lasts else 'until'} {time}"
                return f"{said}{self.step(second)}"
            if timer in second.domain_timers - second.timers:
                shown = self.atom(second, second.domain_timers - only)
                return f"then {shown} before {time}{' pass' if lasts else ''}"
        start = f"starting timer {quote_name(timer)} {'for' if lasts else 'until'} {time} then"
        return f"{start} {self.second(second, known | {timer})}"

    def second(self, part: Part, known: frozenset[str]) -> str:
        match part:
            case Atom():
                return self.atom(part)
            case Unless():
                return self.unless(part, known)
        return self.listed(part, known)

    def unless(self, part: Unless, known: frozenset[str]) -> str:
        """A part, and what is not to come before."""
        if part.is_next:
            text, bar = self.listed(part.part, known), part.bar
            domain = "" if bar.domain in (None, EVERYTHING) else f" among {render_events(bar.domain)}"
            return f"{text} unless next {self.bar(bar)}{domain}"
        if part.lead is not None:
            text, bar = self.listed(part.part, known), part.bar
            lead = "" if part.lead == EVER else f" within {render_duration(part.lead)}"
            return f"{text} unless {self.bar(bar)}{lead} before"
        assert isinstance(part.part, Atom)
        return self.atom(part.part, bar=part.bar)

    def bar(self, bar: Atom, *, is_named: bool = False) -> str:
        """The text of a bar, with its name where that is not the default one."""
        assert bar.filter is not None
        step = f" as {quote_name(bar.step)}" if is_named else ""
        if is_named:
            self.names.append(bar.step)
        step = step or self.step(bar)
        if not step:
            return render_events(bar.filter)
        several = isinstance(bar.filter, Or) and len(bar.filter.parts) > 1
        if several and isinstance(bar.filter, Or) and all(map(type_in, bar.filter.parts)):
            return f"{render_events(bar.filter)[:-1]}{step})"
        return f"({render_event(bar.filter)}{step})"

    def listed(self, part: Part, known: frozenset[str]) -> str:
        """A part among others, or one that is counted: an atom that says more than what it takes is enclosed."""
        match part:
            case Atom() if (
                part.domain is None and not part.domain_timers and not (part.filter and part.timers)
            ):
                return self.atom(part)
            case Iterate(inner, least, most, greedy, until):
                repeated = f"({self.whole(inner, known)})" if isinstance(inner, Iterate) else None
                text = f"{_rounds(least, most)} {repeated or self.listed(inner, known)}"
                return f"{'greedily ' if greedy else ''}{text}{f' until {self.bar(until)}' if until else ''}"
        return f"({self.whole(part, known)})"

    def atom(self, atom: Atom, failing: frozenset[str] | None = None, bar: Atom | None = None) -> str:
        """An atom; `failing` are those of its domain's timers that have to be named, `bar` what else ends it."""
        failing = atom.domain_timers if failing is None else failing
        taken = sorted(atom.timers)
        without = excluded(atom)
        if without is not None and atom.domain is not None:
            text = f"not {render_events(without)}{_timers('else', taken)} among {render_events(atom.domain)}"
            text, step = f"{'any ' * atom.any}{text}", self.step(atom)
            return f"{text}{self.barred(bar)}{_timers('before', failing)}{step}"
        text = f"timer {quote_name(taken.pop(0))}" if atom.filter is None else render_event(atom.filter)
        text = f"{'any ' * atom.any}{text}{self.step(atom)}{_timers('else', taken)}"
        if atom.domain is not None:
            word = "among" if narrows(atom.filter, atom.domain) else "without"
            text += f" {word} {render_events(atom.domain)}"
        return text + self.barred(bar) + _timers("before", failing)

    def barred(self, bar: Atom | None) -> str:
        """The bar of an atom."""
        return "" if bar is None else f" without {self.bar(bar, is_named=True)}"

    def step(self, atom: Atom) -> str:
        """The name of a step, where it is not the default one."""
        default = fresh(default_step(atom), self.names)
        self.names.append(atom.step)
        return "" if atom.step == default else f" as {quote_name(atom.step)}"


def _timers(word: str, timers: Iterable[str]) -> str:
    return "".join(f" {word} timer {quote_name(timer)}" for timer in sorted(timers))


def _moment(spec: Instant | TimeOfDay) -> str:
    return "the end" if spec == THE_END else render_moment(spec)


def _rounds(least: int, most: int | None) -> str:
    if (least, most) in _ROUNDS:
        return _ROUNDS[least, most]
    if most is None:
        return f"{least} or more"
    if least == most:
        return f"exactly {least}"
    return f"{least} to {most}" if least else f"at most {most}"
