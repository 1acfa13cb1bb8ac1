"""Patterns from Python calls (book 7.4.2, programming language binding), and patterns written as such calls.

    quote = event("Quote", "price > 100", name="q")
    spike = quote.then(event("Trade")).within("5 minutes").same("symbol").where("Trade.price > q.price")
    spike.pattern

Every call gives a new expression; what it is called on stays as it is. What is about the whole pattern (`same`,
`where`, `giving`, `taking`, …) may be said at any time of the expression that grows to the left of the dots.

Law: `eval(render_python(P)).pattern == P` for every pattern P, with the names of this module.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from datetime import time as TimeOfDay
from keyword import iskeyword
from typing import TypeAlias

from fairlead.correlation.patterns.forms import with_atoms
from fairlead.correlation.patterns.language import parse_condition, parse_operand
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
    Output,
    Part,
    Pattern,
    Permutation,
    Resume,
    Sequence,
    Take,
    Timing,
    Unless,
    Within,
)
from fairlead.correlation.patterns.printer import render_condition, render_operand
from fairlead.correlation.patterns.spelling import (
    default_step,
    events_of_type,
    excluded,
    fresh,
    narrows,
    negation,
    type_in,
)
from fairlead.errors import FilterError
from fairlead.filters import EVERYTHING, Filter, Or, parse
from fairlead.filters import render as render_filter
from fairlead.model import Instant
from fairlead.model.durations import (
    Moment,
    duration_of,
    moment_of,
    render_duration,
    render_moment,
    scan_duration,
)

__all__ = [
    "Expression",
    "any_order",
    "either",
    "event",
    "other_than",
    "permutation",
    "render_python",
    "timeout",
]

Duration: TypeAlias = int | str | timedelta
"""Microseconds, `5 minutes`, or Python's own."""
Time: TypeAlias = Duration | Moment | datetime
"""The duration of a timer, or its end: also `19:00`, `2026-01-01T00:00:00Z`."""


@dataclass(frozen=True, slots=True)
class _Clauses:
    """The clauses of a pattern besides its body."""

    same: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    outputs: tuple[Output, ...] = ()
    take: Take = Take.PAST
    limit: int = LIMIT
    partial: bool = False
    name: str = UNNAMED
    resume: Resume | None = None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expression:
    """A part of a pattern, with what is about the whole; `event` and its like make one."""

    part: Part
    clauses: _Clauses = _Clauses()

    @property
    def pattern(self) -> Pattern:
        """The pattern that it is, checked."""
        given = {each.name: getattr(self.clauses, each.name) for each in fields(self.clauses)}
        return Pattern(_with_distinct_steps(self.part), **given)

    def __bool__(self) -> bool:
        raise FilterError(
            "an expression is neither true nor false", hint="a & b is any order of them, a | b one of them"
        )

    def __str__(self) -> str:
        return str(self.pattern)

    # -- several parts ---------------------------------------------------------------------------------------

    def then(self, other: Expression | str, *, before: Time | None = None, timer: str = "T1") -> Expression:
        """This, strongly followed by the other; with `before`, weakly, and by then: [B ⊆ {B, T1}].

        Wherever a part is asked for, the text of a type stands for an event of it.
        """
        if before is None:
            return self._grown(Sequence(self.part, _alone(other)))
        return self.starting(timer, before, then=_expression(other).before_timer(timer))

    def weakly_then(self, other: Expression | str) -> Expression:
        """This, and then the other, with which it may overlap."""
        return self._grown(Concat(self.part, _alone(other)))

    def after(self, other: Expression | str) -> Expression:
        """This, behind the other: `a.after(b)` is `b.then(a)`."""
        return _expression(other).then(self)

    def then_no(
        self,
        *others: Events,
        within: Duration | None = None,
        until: Time | None = None,
        name: str | None = None,
        timer: str = "T1",
    ) -> Expression:
        """This, and then none of the others for so long, or until a moment."""
        if within is None and until is None:
            raise FilterError("for how long?", hint='within="5 minutes" or until="19:00"')
        if within is not None and until is not None:
            raise FilterError("both `within` and `until` are given", hint="say one of them")
        spec = _spec(until) if within is None else duration_of(within)
        waiting = Atom("_", None, frozenset({timer}), _events(others))
        atom = replace(waiting, step=name or default_step(waiting))
        return self._grown(Timing(self.part, atom, timer, spec))

    def starting(self, timer: str, time: Time, *, then: Expression | str) -> Expression:
        """This, which starts a timer, and then what may speak of it: (C1, C2)T=time."""
        return self._grown(Timing(self.part, _alone(then), timer, _spec(time)))

    def __or__(self, other: Expression | str) -> Expression:
        parts = self.part.parts if isinstance(self.part, Either) else (self.part,)
        return self._grown(Either((*parts, _alone(other))))

    def __and__(self, other: Expression | str) -> Expression:
        parts = self.part.parts if isinstance(self.part, Both) else (self.part,)
        return self._grown(Both((*parts, _alone(other))))

    def repeated(self, least: int, most: int | None = -1, *, greedy: bool = False) -> Expression:
        """This so many times, one behind the other: `repeated(3)`, `repeated(3, 5)`, `repeated(3, None)`."""
        return self._grown(Iterate(self.part, least, least if most == -1 else most, greedy))

    def until(self, *others: Events, name: str | None = None) -> Expression:
        """These rounds, which the first of some others ends: `event("A").repeated(1, None).until(event("B"))`."""
        if not isinstance(self.part, Iterate):
            raise FilterError(
                "only rounds have an `until`", hint='event("A").repeated(1, None).until("x > 3")'
            )
        return self._grown(replace(self.part, until=_bar(others, name)))

    def unless_next(self, *others: Events, among: Events = EVERYTHING, name: str | None = None) -> Expression:
        """This, where the next event, or the next of some sort, is none of the others."""
        bar = replace(_bar(others, name), domain=_events((among,)))
        return self._grown(Unless(self.part, bar, is_next=True))

    def optional(self) -> Expression:
        """This or nothing: `repeated(0, 1)`."""
        return self.repeated(0, 1)

    def within(self, duration: Duration) -> Expression:
        """All of this within a window."""
        return self._grown(Within(self.part, duration_of(duration)))

    # -- one step --------------------------------------------------------------------------------------------

    def without(self, *others: Events) -> Expression:
        """This step, where none of the others comes first: [A ⊆ {A, …}]."""
        return self._grown(replace(self._atom, domain=_events(others)))

    def among(self, *others: Events) -> Expression:
        """The same as `without`, where the others are a wider sort of events: the first of them is to match."""
        return self.without(*others)

    def any(self) -> Expression:
        """This step, which may also pass over what it takes, and take a later one."""
        return self._grown(replace(self._atom, any=True))

    def unless_first(self, *others: Events, name: str) -> Expression:
        """This step, where none of the others comes first; conditions may speak of them by the name."""
        return self._grown(Unless(self._atom, _bar(others, name)))

    def unless_before(
        self, *others: Events, within: Duration | None = None, name: str | None = None
    ) -> Expression:
        """This step, where none of the others has come before it, ever or within a time."""
        lead = EVER if within is None else duration_of(within)
        return self._grown(Unless(self._atom, _bar(others, name), lead=lead))

    def or_timer(self, *timers: str) -> Expression:
        """This step, which takes the time events of some timers as well."""
        return self._grown(replace(self._atom, timers=self._atom.timers | {*timers}))

    def before_timer(self, *timers: str) -> Expression:
        """This step, before any of some timers goes off."""
        return self._grown(replace(self._atom, domain_timers=self._atom.domain_timers | {*timers}))

    # -- the whole -------------------------------------------------------------------------------------------

    def same(self, *attributes: str) -> Expression:
        """For each value of some attributes apart."""
        return self._given(same=(*self.clauses.same, *attributes))

    def where(self, *conditions: str | Condition) -> Expression:
        """With conditions between steps: "B.price > A.price", "sum(A.amount) > 100"."""
        found = [
            c for each in conditions for c in (parse_condition(each) if isinstance(each, str) else (each,))
        ]
        return self._given(conditions=(*self.clauses.conditions, *found))

    def giving(self, /, **outputs: str | Operand) -> Expression:
        """With attributes that composites carry: total="sum(A.amount)"."""
        found = [
            Output(name, parse_operand(each) if isinstance(each, str) else each)
            for name, each in outputs.items()
        ]
        return self._given(outputs=(*self.clauses.outputs, *found))

    def taking(self, take: str | Take) -> Expression:
        """Set the selection of matches: all, first, next, past or recent."""
        try:
            return self._given(take=Take(take))
        except ValueError:
            known = ", ".join(each.value for each in Take)
            raise FilterError(f"nothing that can be taken: {take!r}", hint=f"there is {known}") from None

    def resuming(self, step: str, *, last: bool = False) -> Expression:
        """The next match may start with the first event that a step took, or with the last."""
        return self._given(resume=Resume(step, last))

    def leaving_out(self, *steps: str) -> Expression:
        """The events of these steps belong to a match, and its composite does not show them."""
        return self._given(left_out=(*self.clauses.left_out, *steps))

    def limited(self, limit: int) -> Expression:
        """With at most so many matches for each end."""
        return self._given(limit=limit)

    def with_partial(self) -> Expression:
        """Reporting what ran out of time, too."""
        return self._given(partial=True)

    def named(self, name: str) -> Expression:
        """Under a name, which is the type of the composites."""
        return self._given(name=name)

    # -- what these are made of ------------------------------------------------------------------------------

    def _grown(self, part: Part) -> Expression:
        return replace(self, part=part)

    def _given(self, **clauses: object) -> Expression:
        return replace(self, clauses=replace(self.clauses, **clauses))  # type: ignore[arg-type]

    @property
    def _atom(self) -> Atom:
        if not isinstance(self.part, Atom):
            raise FilterError("only a single step has a domain", hint='a.then(b.without("x > 3"))')
        return self.part


Events: TypeAlias = Expression | Filter | str
"""Some events: a step that takes them, a filter, or the text of one."""


def event(
    type: str | None = None, filter: Filter | str = EVERYTHING, *, name: str | None = None
) -> Expression:
    """A step: the next event of a type that matches a filter; called as the type, unless named otherwise."""
    chosen = parse(filter) if isinstance(filter, str) else filter
    if type is not None:
        chosen = events_of_type(type, chosen)
    return _step(Atom("_", chosen), name)


def other_than(*others: Events, among: Events, name: str | None = None) -> Expression:
    """A step: the first event of some sort, which must not be of another: [¬A ⊆ P]."""
    domain = _events((among,))
    return _step(Atom("_", negation(_events(others), domain), domain=domain), name)


def timeout(*timers: str, name: str | None = None) -> Expression:
    """A step that takes no event but waits for a timer."""
    return _step(Atom("_", None, frozenset(timers)), name)


def either(*parts: Expression | str) -> Expression:
    """Any of the parts."""
    return Expression(Either(tuple(map(_alone, parts))))


def any_order(*parts: Expression | str) -> Expression:
    """Each of the parts, in any interleaving."""
    return Expression(Both(tuple(map(_alone, parts))))


def permutation(*parts: Expression | str) -> Expression:
    """Each of the parts, one behind the other, in whatever order."""
    return Expression(Permutation(tuple(map(_alone, parts))))


def _bar(others: tuple[Events, ...], name: str | None) -> Atom:
    bar = Atom("_", _events(others), bars=True)
    return replace(bar, step=default_step(bar) if name is None else name)


def _expression(given: Expression | str) -> Expression:
    match given:
        case Expression():
            return given
        case str():
            return event(given)
    raise FilterError(
        f"no part of a pattern: {given!r}", hint='an expression, event("B", "x > 3"), or a type, "B"'
    )


def _alone(given: Expression | str) -> Part:
    """A part, as one of several: nothing may have been said of it that is about the whole."""
    expression = _expression(given)
    if expression.clauses != _Clauses():
        raise FilterError(
            "`same`, `where` and the like are about the whole pattern",
            hint='say them last: a.then(b).same("sensor")',
        )
    return expression.part


def _with_distinct_steps(part: Part) -> Part:
    """A part in which a second step that nobody named is called A2, as in the text."""
    names: list[str] = []

    def named(atom: Atom) -> Atom:
        default = default_step(atom)
        is_taken = atom.step in names and atom.step == default
        names.append(fresh(default, names) if is_taken else atom.step)
        return replace(atom, step=names[-1])

    return with_atoms(part, named)


def _step(atom: Atom, name: str | None) -> Expression:
    return Expression(replace(atom, step=default_step(atom) if name is None else name))


def _events(given: tuple[Events, ...]) -> Filter:
    return Or.of([_filter(each) for each in given])


def _filter(events: Events) -> Filter:
    match events:
        case str():
            return parse(events)
        case Filter():
            return events
        case Expression(Atom(_, Filter() as filter)):
            return filter
    raise FilterError("no sort of events", hint='event("B"), or a filter: "x > 3"')


def _spec(given: Time | None) -> int | Moment:
    match given:
        case str():
            scanned = scan_duration(given)
            return moment_of(given) if scanned is None else duration_of(given)
        case datetime():
            return Instant.of(given)
        case Instant() | TimeOfDay():
            return given
        case int() | timedelta():
            return duration_of(given)
    raise FilterError(f"no time: {given!r}", hint='"5 minutes", "19:00" or "2026-01-01T00:00:00Z"')


# -- writing -------------------------------------------------------------------------------------------------


def render_python(pattern: Pattern) -> str:
    """A pattern as the calls that make it."""
    return f"{_part(pattern.body)}{_clauses(pattern)}"


def _clauses(pattern: Pattern) -> str:
    calls: list[tuple[str, list[str]]] = []
    if pattern.same:
        calls.append(("same", [_quoted(each) for each in pattern.same]))
    if pattern.conditions:
        calls.append(("where", [_quoted(render_condition(each)) for each in pattern.conditions]))
    if pattern.take is not Take.PAST:
        calls.append(("taking", [_quoted(pattern.take.value)]))
    if pattern.resume is not None:
        last = ["last=True"] if pattern.resume.is_last else []
        calls.append(("resuming", [_quoted(pattern.resume.step), *last]))
    if pattern.left_out:
        calls.append(("leaving_out", [*map(_quoted, pattern.left_out)]))
    if pattern.limit != LIMIT:
        calls.append(("limited", [str(pattern.limit)]))
    if pattern.partial:
        calls.append(("with_partial", []))
    if pattern.outputs:
        calls.append(("giving", _keywords({each.name: each.operand for each in pattern.outputs})))
    if pattern.name != UNNAMED:
        calls.append(("named", [_quoted(pattern.name)]))
    return "".join(f".{method}({', '.join(arguments)})" for method, arguments in calls)


def _part(part: Part) -> str:
    match part:
        case Atom():
            return _atom(part)
        case Sequence(first, second):
            return f"{_part(first)}.then({_part(second)})"
        case Concat(first, second):
            return f"{_part(first)}.weakly_then({_part(second)})"
        case Either(parts):
            return f"either({', '.join(map(_part, parts))})"
        case Both(parts):
            return f"any_order({', '.join(map(_part, parts))})"
        case Permutation(parts):
            return f"permutation({', '.join(map(_part, parts))})"
        case Iterate(inner, least, most, greedy, until):
            rounds = f"{least if least == most else f'{least}, {most}'}{', greedy=True' * greedy}"
            text = f"{_part(inner)}.repeated({rounds})"
            return text if until is None else f"{text}.until({_barred(until)})"
        case Unless(inner, bar, True):
            is_narrow = bar.domain is not None and bar.domain != EVERYTHING
            among = f", among={_sort(bar.domain)}" if is_narrow and bar.domain is not None else ""
            return f"{_part(inner)}.unless_next({_barred(bar)}{among})"
        case Unless(inner, bar, _, int() as lead):
            within = f", within={_quoted(render_duration(lead))}" if lead != EVER else ""
            return f"{_part(inner)}.unless_before({_barred(bar)}{within})"
        case Unless(inner, bar):
            named = _quoted(bar.step)
            return f"{_part(inner)}.unless_first({_sorts(bar.filter or EVERYTHING)}, name={named})"
        case Within(inner, duration):
            return f"{_part(inner)}.within({_quoted(render_duration(duration))})"
        case Timing(first, second, timer, spec):
            return f"{_part(first)}{_timing(second, timer, spec)}"


def _timing(second: Part, timer: str, spec: int | Moment) -> str:
    time, named = _time(spec), "" if timer == "T1" else f", timer={_quoted(timer)}"
    if isinstance(second, Atom):
        only = frozenset({timer})
        is_silent = (second.filter, second.timers, second.domain_timers) == (None, only, frozenset())
        if is_silent and second.domain is not None:
            step = "" if second.step == default_step(second) else f", name={_quoted(second.step)}"
            word = "within" if isinstance(spec, int) else "until"
            return f".then_no({_sorts(second.domain)}, {word}={time}{step}{named})"
        if timer in second.domain_timers:
            rest = replace(second, domain_timers=second.domain_timers - only)
            return f".then({_atom(rest)}, before={time}{named})"
    return f".starting({_quoted(timer)}, {time}, then={_part(second)})"


def _atom(atom: Atom) -> str:
    without = excluded(atom)
    timers = sorted(atom.timers)
    if without is not None and atom.domain is not None:
        default, domain = "other", None
        arguments = [_sorts(without), f"among={_sort(atom.domain)}"]
        call = "other_than"
    elif atom.filter is None:
        default, domain, call, arguments = "timeout", atom.domain, "timeout", [_quoted(timers.pop(0))]
    else:
        default, domain, call = default_step(Atom("_", atom.filter)), atom.domain, "event"
        arguments = _event(atom.filter)
    if atom.step != default:
        arguments.append(f"name={_quoted(atom.step)}")
    text = f"{call}({', '.join(arguments)}){'.any()' * atom.any}"
    if timers:
        text += f".or_timer({', '.join(map(_quoted, timers))})"
    if domain is not None:
        text += f".{'among' if narrows(atom.filter, domain) else 'without'}({_sorts(domain)})"
    if atom.domain_timers:
        text += f".before_timer({', '.join(map(_quoted, sorted(atom.domain_timers)))})"
    return text


def _barred(bar: Atom) -> str:
    name = "" if bar.step == default_step(bar) else f", name={_quoted(bar.step)}"
    return f"{_sorts(bar.filter or EVERYTHING)}{name}"


def _event(filter: Filter) -> list[str]:
    """The arguments of `event`."""
    typed = type_in(filter)
    if typed is None:
        return [f"filter={_quoted(render_filter(filter))}"]
    type, rest = typed
    return [_quoted(type), *([] if rest == EVERYTHING else [_quoted(render_filter(rest))])]


def _sorts(filter: Filter) -> str:
    """Some events: several with types of their own are several arguments."""
    if isinstance(filter, Or) and len(filter.parts) > 1 and all(map(type_in, filter.parts)):
        return ", ".join(map(_sort, filter.parts))
    return _sort(filter)


def _sort(filter: Filter) -> str:
    return f"event({', '.join(_event(filter))})" if type_in(filter) else _quoted(render_filter(filter))


def _time(spec: int | Moment) -> str:
    if isinstance(spec, int):
        return _quoted(render_duration(spec))
    text = render_moment(spec)
    return repr(spec) if text.startswith("t") else _quoted(text)


def _keywords(outputs: dict[str, Operand]) -> list[str]:
    texts = {name: _quoted(render_operand(operand)) for name, operand in outputs.items()}
    if all(name.isascii() and name.isidentifier() and not iskeyword(name) for name in texts):
        return [f"{name}={text}" for name, text in texts.items()]
    return [f"**{{{', '.join(f'{_quoted(name)}: {text}' for name, text in texts.items())}}}"]


def _quoted(text: str) -> str:
    """A string literal, in double quotes where it holds none."""
    literal = repr(text)
    return f'"{literal[1:-1]}"' if '"' not in text else literal
