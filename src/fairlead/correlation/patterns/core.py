"""The book's notation of patterns (book 7.4.2): `parse_core` reads it, `render_core` writes it.

    [A] ; [B]                              Alice enters the office, followed by Bob
    [A ⊆ {A, B}]                           Alice enters before Bob
    ([A], [B ⊆ {B, T1}])_{T1 = 1 h}        Alice enters, and Bob follows within 1 h
    [L] [¬A ⊆ P] [A]                       someone else enters while Alice is away

    C*, C{2}, C{2,}, C{2,3}                iteration
    C1 | C2, C1 || C2                      alternation and parallelisation; `;` binds closer, juxtaposition closest
    (C)_{within 1 h}                       a window
    [any A]                                a step that may pass over what it takes
    C{1,}+, (C*)_{until [U]}               greedy iteration; one that ends with U
    ([A])_{without [b: B]}                 a step before which B ends the match; conditions may speak of b
    (C)_{unless [B ⊆ P]}                   the first event of P is no B
    perm(C1, C2)                           one behind the other, in whatever order
    [s: A]                                 a step that is not called after the events it takes

What the names stand for is said behind the pattern, `where A = [type = "A" and x > 1], B = …`, or given with it;
a name of which nothing is said is a type. `<=` and `not` may be written for ⊆ and ¬. `same`, conditions and the
other clauses stand behind the body as in the readable language.

Law: `parse_core(render_core(P)) == P` for every pattern P.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from fairlead.correlation.patterns.language import DEPTH_MAX, PatternReader
from fairlead.correlation.patterns.model import (
    EVER,
    Atom,
    Both,
    Concat,
    Either,
    Iterate,
    Part,
    Pattern,
    Permutation,
    Sequence,
    Timing,
    Unless,
    Within,
    atoms,
    can_be_empty,
)
from fairlead.correlation.patterns.printer import render_clauses, render_name
from fairlead.correlation.patterns.spelling import (
    default_step,
    events_of_type,
    excluded,
    fresh,
    fresh_timer,
    negation,
    type_in,
)
from fairlead.errors import FilterSyntaxError
from fairlead.filters import Filter, Or
from fairlead.filters import parse as parse_filter
from fairlead.filters import render as render_filter
from fairlead.filters.language.lexer import END, ENDS
from fairlead.filters.terms import quote_name, quote_step
from fairlead.model.durations import render_duration, render_moment

if TYPE_CHECKING:
    from fairlead.filters import Schema

__all__ = ["parse_core", "render_core", "windows_as_timers"]

_WORDS: Final = frozenset({"any", "not", "perm", "where"})
_PLAIN: Final = re.compile(r"[^\W\d]\w*")
_EITHER, _BOTH, _SEQUENCE, _CONCAT, _ITERATE = range(5)
"""The strength with which the context binds a part that is written in it."""


def parse_core(
    text: str, events: Mapping[str, Filter | str] | None = None, schema: Schema | None = None
) -> Pattern:
    """Parse a pattern in the book's notation; `events` maps names to filters."""
    reader = _CoreReader(text, _filters(events, schema), schema)
    try:
        return reader.whole()
    except RecursionError:
        raise FilterSyntaxError.at(text, 0, "the pattern is nested too deeply") from None


def render_core(
    pattern: Pattern, events: Mapping[str, Filter | str] | None = None, *, points: bool = False
) -> str:
    """A pattern in the book's notation; `events` are names to use, besides those of the steps.

    With `points`, windows are written as timers, where that means the same for streams of points.
    """
    body = pattern.body
    if points and not pattern.partial:
        body = windows_as_timers(body)
    writer = _CoreWriter(body, _filters(events))
    text = writer.text(body, _EITHER) + render_clauses(pattern)
    legend = ", ".join(f"{_name(name)} = [{render_filter(filter)}]" for name, filter in writer.used.items())
    return f"{render_name(pattern)}{text}" + (f"\nwhere {legend}" if legend else "")


def _filters(events: Mapping[str, Filter | str] | None, schema: Schema | None = None) -> dict[str, Filter]:
    return {
        name: parse_filter(filter, schema) if isinstance(filter, str) else filter
        for name, filter in (events or {}).items()
    }


def windows_as_timers(part: Part, known: frozenset[str] = frozenset()) -> Part:
    """The part with `A … within d` as (A, …)T=d, where … fails on T: the same, if all occurrences are points.

    Events with an extent tell them apart: a window begins with the start of A, a timer at its end. Windows that
    do not begin with one atom stay, and those around timers of their own, which could go off at the same instant.
    """
    match part:
        case Within(inner, duration):
            split = _head(inner)
            has_bars = any(atom.bars or atom.any for atom in atoms(inner))
            if (
                split is None
                or has_bars
                or not _is_plain(inner)
                or any(atom.timers or atom.domain_timers for atom in atoms(inner))
            ):
                return Within(windows_as_timers(inner, known), duration)
            first, rest = split
            timer = fresh_timer(known)
            return Timing(first, _failing(windows_as_timers(rest, known | {timer}), timer), timer, duration)
        case Sequence(first, second) | Concat(first, second):
            return replace(
                part, first=windows_as_timers(first, known), second=windows_as_timers(second, known)
            )
        case Timing(first, second, timer, _):
            inside = windows_as_timers(second, known | {timer})
            return replace(part, first=windows_as_timers(first, known), second=inside)
        case Either(parts) | Both(parts):
            return type(part)(tuple(windows_as_timers(each, known) for each in parts))
        case Iterate(inner, _, _):
            return replace(part, part=windows_as_timers(inner, known))
    return part  # atoms; bars and permutations stay as they are


def _head(part: Part) -> tuple[Atom, Part] | None:
    """The atom that a chain begins with, and the rest of the chain."""
    match part:
        case Sequence(Atom() as first, second) | Concat(Atom() as first, second):
            return first, second
        case Sequence(first, second) | Concat(first, second):
            split = _head(first)
            return split and (split[0], type(part)(split[1], second))
    return None


def _failing(part: Part, timer: str) -> Part:
    """The part with a timer in the domain of each of its atoms."""
    match part:
        case Atom():
            return replace(part, domain_timers=part.domain_timers | {timer})
        case Sequence(first, second) | Concat(first, second) | Timing(first, second, _, _):
            return replace(part, first=_failing(first, timer), second=_failing(second, timer))
        case Either(parts) | Both(parts) | Permutation(parts):
            return type(part)(tuple(_failing(each, timer) for each in parts))
        case Iterate(inner, _, _) | Within(inner, _) | Unless(inner, _):
            return replace(part, part=_failing(inner, timer))


def _is_plain(part: Part) -> bool:
    """Whether nothing in it has precedence, and no order is free."""
    return Pattern(part).is_settled_by_steps if not can_be_empty(part) else False


# -- reading -------------------------------------------------------------------------------------------------


class _CoreReader(PatternReader):
    """A reader of the book's notation; `sets` is what names stand for."""

    __slots__ = ("sets",)
    LINKS: ClassVar = ("[", ";", "|", "||", "a comma", "the end")
    INSTEAD: ClassVar = {
        "*": "write the iteration after what is repeated: [A]*",
        "_": "a window applies to what is in parentheses: ([A] ; [B])_{within 1 h}",
        "where": 'write where A = [type = "A"], B = [x > 1]',
    }

    def __init__(self, source: str, sets: dict[str, Filter], schema: Schema | None) -> None:
        super().__init__(source, schema)
        self.sets = sets | self.legend()

    def legend(self) -> dict[str, Filter]:
        """The filters named behind `where`, which is cut off."""
        found: dict[str, Filter] = {}
        where = next((at for at in range(len(self.kinds)) if self.is_legend(at)), None)
        if where is None:
            return found
        self.at = where
        while not found or self.kinds[self.at] == ",":
            self.at += 1
            name = self.name()
            self.expect("=")
            if self.kinds[self.at] != "[":
                raise self.unexpected(("[",), hint='write where A = [type = "A"], B = [x > 1]')
            found[name] = self.enclosed("]")
        if self.kinds[self.at] != END:
            raise self.unexpected(("a comma", "the end"))
        end = self.starts[where]
        self.kinds[where:], self.texts[where:], self.starts[where:] = [END] * ENDS, [""] * ENDS, [end] * ENDS
        self.at = 0
        return found

    def is_legend(self, at: int) -> bool:
        return self.texts[at] == "where" and self.texts[at + 2 : at + 4] == ["=", "["]

    def body(self) -> Part:
        return self.alternation()

    def alternation(self) -> Part:
        parts = [self.parallelisation()]
        while self.texts[self.at] == "|" and not self.is_parallel():
            self.at += 1
            parts.append(self.parallelisation())
        return Either(tuple(parts)) if len(parts) > 1 else parts[0]

    def parallelisation(self) -> Part:
        parts = [self.sequence()]
        while self.is_parallel():
            self.at += 2
            parts.append(self.sequence())
        return Both(tuple(parts)) if len(parts) > 1 else parts[0]

    def is_parallel(self) -> bool:
        return self.source.startswith("||", self.starts[self.at])

    def sequence(self) -> Part:
        part = self.concatenation()
        while self.took(";"):
            part = Sequence(part, self.concatenation())
        return part

    def concatenation(self) -> Part:
        part = self.iteration()
        while self.kinds[self.at] in ("[", "("):
            part = Concat(part, self.iteration())
        return part

    def iteration(self) -> Part:
        part = self.primary()
        while self.kinds[self.at] in ("*", "{"):
            start = self.starts[self.at]
            bounds = self.bounds()
            part = self.located(start, Iterate, part, *bounds, self.took("+"))
        return part

    def bounds(self) -> tuple[int, int | None]:
        if self.took("*"):
            return 0, None
        self.expect("{")
        least = self.count()
        most: int | None = least
        if self.took(","):
            most = None if self.kinds[self.at] == "}" else self.count()
        self.expect("}", ",")
        return least, most

    def primary(self) -> Part:
        if self.kinds[self.at] == "[":
            return self.atom()
        if self.took("perm"):
            start = self.starts[self.at]
            self.expect("(")
            parts = [self.alternation()]
            while self.took(","):
                parts.append(self.alternation())
            self.expect(")", ",")
            return self.located(start, Permutation, tuple(parts))
        if self.kinds[self.at] != "(":
            raise self.unexpected(("[", "("), hint="write an atom in brackets: [A], [A ⊆ {A, B}]")
        start, timer = self.starts[self.at], self.timer_of(self.closing(self.at))
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.problem(f"nested more than {DEPTH_MAX} levels deep", start)
        self.at += 1
        part = self.alternation()
        if timer is not None:
            part = self.timing(start, part, timer)
        else:
            self.expect(")", hint="a timing names its timer: ([A], [B ⊆ {B, T1}])_{T1 = 1 h}")
            if self.took("_", "{"):
                if self.took("without"):
                    part = self.located(start, Unless, part, self.atom(bars=True))
                elif self.took("unless"):
                    part = self.located(start, Unless, part, self.atom(bars=True), True)
                elif self.took("no"):
                    bar = self.atom(bars=True)
                    lead = self.duration() if self.took("for") else EVER
                    part = self.located(start, Unless, part, bar, False, lead)
                elif isinstance(part, Iterate) and self.took("until"):
                    ended = partial(replace, part, until=self.atom(bars=True))
                    part = self.located(start, ended)
                elif not self.took("within"):
                    raise self.unexpected(("within 1 h", "T1 = 1 h"))
                else:
                    part = self.located(start, Within, part, self.duration())
                self.expect("}")
        self.depth -= 1
        return part

    def timer_of(self, closing: int) -> str | None:
        """The timer that is named behind a parenthesis: what stands in it may speak of it."""
        if self.texts[closing + 1 : closing + 3] != ["_", "{"] or self.texts[closing + 4 : closing + 5] != [
            "="
        ]:
            return None
        here, self.at = self.at, closing + 3
        name = self.name()
        self.at = here
        return name

    def timing(self, start: int, first: Part, timer: str) -> Timing:
        self.expect(",")
        if timer in self.known:
            raise self.refused(f"two timers are called {timer!r}", start)
        outside, self.known = self.known, self.known | {timer}
        second = self.alternation()
        self.known = outside
        self.expect(")")
        self.at += 4  # _ { timer =
        moment = self.moment_here()
        spec = self.duration(("1 h", "19:00", "2026-01-01T00:00:00Z")) if moment is None else moment
        self.expect("}")
        return self.located(start, Timing, first, second, timer, spec)

    def atom(self, *, bars: bool = False) -> Atom:
        self.expect("[")
        step = None
        if self.texts[self.at + 1] == ":":
            step = (self.name(), self.starts[self.at - 1])
            self.at += 1
        is_any = self.took("any")
        without = self.name() if self.took("¬") or self.took("not") else None
        taken = [self.name()] if without is None else []
        while self.took(","):
            taken.append(self.name())
        domain = self.domain() if self.took("⊆") or self.took("<=") else []
        self.expect("]", ",", "⊆")
        for name in taken:  # one that is named twice is also in the domain by itself
            if name in domain:
                domain.remove(name)
        filter, timers = self.split(taken)
        failing_on, failing = self.split(domain)
        if without is not None:
            if failing_on is None:
                hint = "say of which events: [¬A ⊆ P]"
                raise self.refused("a negation without a domain", self.starts[self.at - 1], hint=hint)
            filter = negation(self.set(without), failing_on)
        named = next((name for name in taken if name not in self.known), None)
        if step is None and named is not None:
            step = (fresh(named.rpartition(".")[2], self.names or ()), self.starts[self.at])
        return self.located(
            self.starts[self.at - 1],
            partial(self.atom_of, any=is_any, bars=bars),
            step,
            filter,
            timers,
            failing_on,
            failing,
        )

    def domain(self) -> list[str]:
        return self.listed("{", "}", self.name) if self.kinds[self.at] == "{" else [self.name()]

    def split(self, names: Iterable[str]) -> tuple[Filter | None, frozenset[str]]:
        """The events and the timers among some names."""
        events = [self.set(name) for name in names if name not in self.known]
        return Or.of(events) if events else None, self.known.intersection(names)

    def set(self, name: str) -> Filter:
        return self.sets.get(name) or events_of_type(name)


# -- writing -------------------------------------------------------------------------------------------------


class _CoreWriter:
    """Writes one body. Steps give their names to what they take, so that few have to be named besides."""

    __slots__ = ("own", "reserved", "sets", "steps", "used")

    def __init__(self, body: Part, events: Mapping[str, Filter]) -> None:
        self.reserved = set(_timers(body))
        self.steps: list[str] = []
        self.own: dict[str, str] = {}
        self.sets: dict[str, Filter] = {}
        self.used: dict[str, Filter] = {}
        for atom in atoms(body):
            if atom.filter is not None and excluded(atom) is None:
                self.own[atom.step] = self.named(atom.step, atom.filter)
        for name, filter in events.items():
            if name not in self.reserved:
                self.named(name, filter)

    def named(self, base: str, filter: Filter) -> str:
        """A new name for some events."""
        name = fresh(base, self.reserved)
        self.reserved.add(name)
        self.sets[name] = filter
        return name

    def name_of(self, filter: Filter, apart_from: str | None = None) -> str:
        """A name of some events; the one that is excepted stands for something else at this place."""
        found = next(
            (name for name, each in self.sets.items() if each == filter and name != apart_from), None
        )
        typed = type_in(filter)
        name = found or self.named(typed[0].rpartition(".")[2] if typed else "E", filter)
        self.used[name] = filter
        return _name(name)

    def text(self, part: Part, binding: int) -> str:
        match part:
            case Atom():
                return self.atom(part)
            case Iterate(inner, least, most, greedy, until):
                repeated = f"{self.text(inner, _ITERATE)}{_bounds(least, most)}{'+' * greedy}"
                return repeated if until is None else f"({repeated})_{{until {self.atom(until)}}}"
            case Permutation(parts):
                return f"perm({', '.join([self.text(each, _EITHER) for each in parts])})"
            case Unless(inner, bar, is_next, lead):
                text = self.text(inner, _EITHER)
                if lead is not None:
                    lasts = f" for {render_duration(lead, short=True)}" if lead != EVER else ""
                    return f"({text})_{{no {self.atom(bar)}{lasts}}}"
                return f"({text})_{{{'unless' if is_next else 'without'} {self.atom(bar)}}}"
            case Within(inner, duration):
                return f"({self.text(inner, _EITHER)})_{{within {render_duration(duration, short=True)}}}"
            case Timing(first, second, timer, spec):
                both = f"({self.text(first, _EITHER)}, {self.text(second, _EITHER)})"
                time = render_duration(spec, short=True) if isinstance(spec, int) else render_moment(spec)
                return f"{both}_{{{quote_name(timer)} = {time}}}"
            case Concat(first, second):
                level, text = _CONCAT, f"{self.text(first, _CONCAT)} {self.text(second, _ITERATE)}"
            case Sequence(first, second):
                level, text = _SEQUENCE, f"{self.text(first, _SEQUENCE)} ; {self.text(second, _CONCAT)}"
            case Both(parts):
                level, text = _BOTH, " || ".join([self.text(each, _SEQUENCE) for each in parts])
            case Either(parts):
                level, text = _EITHER, " | ".join([self.text(each, _BOTH) for each in parts])
        return f"({text})" if level < binding else text

    def atom(self, atom: Atom) -> str:
        own = self.own.get(atom.step)
        default = fresh(default_step(atom) if own is None else own, self.steps)
        label = "" if atom.step == default else f"{_name(atom.step)}: "
        self.steps.append(atom.step)
        taken, without = [quote_name(timer) for timer in sorted(atom.timers)], excluded(atom)
        shown = list(taken)
        if without is not None:
            shown.insert(0, f"¬{self.name_of(without)}")
        elif own is not None and atom.filter is not None:
            self.used[own] = atom.filter
            taken.insert(0, _name(own))
            shown = taken
        outside = [*self.domain(atom.domain, own), *map(quote_name, sorted(atom.domain_timers))]
        text = f"{label}{'any ' * atom.any}{', '.join(shown)}"
        if not outside:
            return f"[{text}]"
        within = [*taken, *outside]
        return f"[{text} ⊆ {within[0] if len(within) == 1 else '{' + ', '.join(within) + '}'}]"

    def domain(self, domain: Filter | None, own: str | None) -> list[str]:
        """The events that make an atom fail: those of several steps are named by these."""
        if domain is None:
            return []
        known = [each for name, each in self.sets.items() if name != own]
        if isinstance(domain, Or) and domain.parts and all(part in known for part in domain.parts):
            return [self.name_of(part, own) for part in domain.parts]
        return [self.name_of(domain, own)]


def _timers(part: Part) -> Iterator[str]:
    match part:
        case Timing(first, second, timer, _):
            yield timer
            yield from _timers(first)
            yield from _timers(second)
        case Sequence(first, second) | Concat(first, second):
            yield from _timers(first)
            yield from _timers(second)
        case Either(parts) | Both(parts) | Permutation(parts):
            for each in parts:
                yield from _timers(each)
        case Iterate(inner, _, _) | Within(inner, _) | Unless(inner, _):
            yield from _timers(inner)


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and name not in _WORDS else quote_step(name)


def _bounds(least: int, most: int | None) -> str:
    if most is None:
        return f"{{{least},}}" if least else "*"
    return f"{{{least}}}" if least == most else f"{{{least},{most}}}"
