"""The readable text of patterns: `parse` reads it, `render` writes it.

    pattern  = [ name ":" ] body { "," clause }
    body     = list | ( operand | list window ) { link } [ follows parallel ]
    list     = choice | parallel
    choice   = operand "or" operand { "or" operand }
    parallel = ( "permutation of" | "any order of" ) operand { "," operand } "and" operand
    follows  = [ "weakly" ] "followed by"
    window   = "within" duration
    link     = window | follows operand | follows parallel window
             | "then no" events ( "within" duration | "until" moment ) [ "as" step ]
             | "then" atom "before" ( duration [ "pass" ] | moment )
             | "starting timer" timer ( "for" duration | "until" moment ) "then" operand
    operand  = [ [ "greedily" ] rounds ] ( "(" body ")" | atom ) [ unless ] | rounds atom "until" barred [ unless ]
    unless   = "unless next" barred [ "among" events ] | "unless" barred [ "within" duration ] "before"
    rounds   = n "or more" | n "to" m | "exactly" n | n "times" | "at least" n | "at most" n
             | "any number of" | "optional"
    atom     = taken "as" step rest | taken rest [ "as" step ]
             | "not" events "as" step others | "not" events others [ "as" step ]
    taken    = [ "any" ] event | "timer" timer
    rest     = { "else timer" timer } [ ( "without" | "among" ) events ] ends
    others   = { "else timer" timer } "among" events ends
    ends     = [ "without" named ] { "before timer" timer }
    named    = "(" event { "or" event } "as" step ")"
    barred   = named | events
    events   = event | "(" event { "or" event } ")"
    event    = type [ "[" filter "]" ] | "[" filter "]"
    clause   = "same" name { "and" name } | condition { "and" condition } | "taking" matches | "limit" n
             | "taking from the" ( "last" | "first" ) step | step "is first" | "leaving out" step { "and" step }
             | "giving" name "=" operand { "," name "=" operand } | "with partial matches"

A chain is read from the left: a link has all that stands before it for its first part, so `within 1 hour` is
about the whole chain so far. What would have to be guessed, `A or B followed by C`, is refused; parentheses
say it. Types T stand for the events with `type = "T"`. Steps are called as their type unless `as` names them; a
second one is T2. Names, filters and values are those of the filter language, which also reads them.

Law: `parse(render(P)) == P` for every pattern P, so `render(parse(t))` is the one canonical spelling of t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from fairlead.correlation.patterns.model import (
    EVER,
    UNNAMED,
    Aggregate,
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
    Reference,
    Resume,
    Sequence,
    Timing,
    Unless,
    Within,
    first_of,
)
from fairlead.correlation.patterns.parts import COUNT_MAX
from fairlead.correlation.patterns.printer import render
from fairlead.correlation.patterns.spelling import (
    TAKING,
    TAKING_WORDS,
    THE_END,
    WORDS,
    default_step,
    events_of_type,
    fresh,
    fresh_timer,
    negation,
    negative,
)
from fairlead.correlation.reading import FilterReader
from fairlead.errors import FilterSyntaxError
from fairlead.filters import EVERYTHING, Filter, Op, Or
from fairlead.filters.language.lexer import END, NAME, NUMBER, STRING, TIME
from fairlead.filters.language.reader import A_DURATION, CONSTANTS, SHAPES
from fairlead.filters.terms import quote_name, quote_step
from fairlead.model import Number
from fairlead.model.durations import Moment, scan_duration, scan_moment

if TYPE_CHECKING:
    from fairlead.filters import Schema

__all__ = ["DEPTH_MAX", "PatternReader", "parse", "parse_condition", "parse_operand", "render"]

NONE: Final[frozenset[str]] = frozenset()
DEPTH_MAX: Final = 100
"""The depth to which parentheses may nest."""
_COMPARATORS: Final = {op.value: op for op in (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE)}
_AGGREGATES: Final = {each.value: each for each in Aggregate}
_BACK: Final = "prev"
_AN_EVENT: Final = ("an event such as Quote[price > 100]",)
_A_CLAUSE: Final = (
    "same",
    "a condition such as A.x < B.x",
    "taking",
    "limit",
    "giving",
    "leaving out",
    "with partial matches",
)
_A_MOMENT: Final = ("a time of day such as 19:00", "an instant such as 2026-01-01T00:00:00Z", "the end")

T = TypeVar("T")


def parse(text: str, schema: Schema | None = None) -> Pattern:
    """Parse a pattern. FilterSyntaxError or FilterError, with the location, if the text is none."""
    reader = PatternReader(text, schema)
    try:
        return reader.whole()
    except RecursionError:
        raise FilterSyntaxError.at(text, 0, "the pattern is nested too deeply") from None


def parse_condition(text: str) -> tuple[Condition, ...]:
    """The conditions in a text such as `B.price > A.price and count(A) >= 3`; their steps may be any."""
    return PatternReader(text).alone(PatternReader.conditions)


def parse_operand(text: str) -> Operand:
    """Parse an operand, such as `sum(A.amount)` or `1.1 * A.price + 5`."""
    return PatternReader(text).alone(PatternReader.operand)


# -- reading -------------------------------------------------------------------------------------------------


class PatternReader(FilterReader):
    """A reader that knows the grammar. `known` are the timers that run here, `names` the steps so far."""

    __slots__ = ("depth", "instead", "known", "names")
    WHOLE: ClassVar = "pattern"
    LINKS: ClassVar[tuple[str, ...]] = ("followed by", "then no", "within", "a comma", "the end")
    """The clauses that may stand behind a body."""
    INSTEAD: ClassVar[dict[str, str]] = {
        "&": "all of them, in whatever order: any order of A and B",
        "-": "write A followed by B",
        "and": "all of them, in whatever order: any order of A and B",
        "after": "write A followed by B",
        "if": "write conditions after a comma: A followed by B, B.x > A.x",
        "in": "write within 5 minutes; or any order of A and B",
        "not": "write B without C, or A then no B within 5 minutes",
        "of": "write any order of A, B and C",
        "times": "write the number in front: exactly 3 A",
        "until": "write A then no B until 19:00",
        "where": "write conditions after a comma: A followed by B, B.x > A.x",
        "|": "one of them: A or B",
        **{
            word: f"write it after a comma: A followed by B, {word} {rest}"
            for word, rest in {
                "giving": "total = sum(A.x)",
                "leaving": "out B",
                "limit": "10",
                "same": "x",
                "taking": "the first",
                "with": "partial matches",
            }.items()
        },
        **dict.fromkeys(
            _COMPARATORS,
            "write conditions after a comma: A followed by B, B.x > A.x; "
            "a fair subscription, A.x < B.x, is read by fair.parse, or given with --fair",
        ),
    }
    """Hints: the spelling to use instead of a word that cannot stand behind a part."""
    INSTEAD_IN_CLAUSES: ClassVar[dict[str, str]] = {
        "&": "write and",
        "|": "all conditions have to hold; one of several is a filter of a step: A[x > 1 or y > 2]",
        "or": "all conditions have to hold; one of several is a filter of a step: A[x > 1 or y > 2]",
        "within": "write the window before the first comma: A followed by B within 5 minutes, same x",
    }
    """Hints: the spelling to use instead of a word that cannot stand behind a clause."""
    LISTED: ClassVar[dict[type[Part], tuple[str, str]]] = {
        Either: ("(A or B) followed by C", "A or (B followed by C)"),
        Both: ("(any order of A and B) followed by C", "any order of A and (B followed by C)"),
        Permutation: ("(permutation of A and B) followed by C", "permutation of A and (B followed by C)"),
    }
    """Examples of parentheses that make clear what goes on behind a list."""

    def __init__(self, source: str, schema: Schema | None = None) -> None:
        super().__init__(source, schema)
        self.depth = 0
        self.instead = self.INSTEAD
        self.known: frozenset[str] = frozenset()
        self.names: list[str] | None = []

    def spelling(self) -> str | None:
        """The signs of the filters' `and` and `or` mean other words between steps."""
        word = self.texts[self.at]
        return self.instead.get(word) if word in ("&", "|") else super().spelling()

    def whole(self) -> Pattern:
        name = self.prefix()
        start = self.starts[self.at]
        body = self.body()
        given = self.clauses()
        return self.located(start, partial(Pattern, body, name=UNNAMED if name is None else name, **given))

    def alone(self, read: Callable[[PatternReader], T]) -> T:
        """Parse a text without a pattern around it, to its end."""
        self.names = None
        found = read(self)
        if self.kinds[self.at] != END:
            raise self.unexpected(("the end",))
        return found

    # -- the body --------------------------------------------------------------------------------------------

    def body(self) -> Part:
        """A chain, up to the first token that cannot belong to it."""
        part, is_list = self.first()
        while True:
            start, read = self.starts[self.at], self.link()
            if read is None:
                break
            if is_list and read != self.within:
                ways = self.LISTED[type(part.second if isinstance(part, Sequence | Concat) else part)]
                hint = f"use parentheses: {', or '.join(ways)}"
                raise self.problem("what goes on here may be the list or its last part", start, hint=hint)
            part, is_list = read(start, part)
        if is_list and not isinstance(part, Either) and self.texts[self.at] == "and":
            raise self.unexpected(self.LINKS, hint="commas between all but the last: any order of A, B and C")
        if self.texts[self.at] == "or":
            raise self.problem(
                "the alternatives may begin here or further to the left",
                self.starts[self.at],
                hint="use parentheses: A followed by (B or C), or (A followed by B) or C",
            )
        return part

    def first(self) -> tuple[Part, bool]:
        """The beginning of a chain, and whether it is a list without parentheses."""
        if (joined := self.order()) is not None:
            return self.parallel(joined), True
        parts = [self.operand_part()]
        while self.took("or"):
            parts.append(self.operand_part())
        return (Either(tuple(parts)), True) if len(parts) > 1 else (parts[0], False)

    def order(self) -> type[Both | Permutation] | None:
        """The list that begins here, if one does; its words are consumed."""
        if self.took("any", "order", "of"):
            return Both
        return Permutation if self.took("permutation", "of") else None

    def parallel(self, joined: type[Both | Permutation]) -> Part:
        start, parts = self.starts[self.at], [self.operand_part()]
        while self.kinds[self.at] == ",":
            self.at += 1
            parts.append(self.operand_part())
        if not self.took("and"):
            raise self.unexpected(("and", "a comma"), hint="write any order of A, B and C")
        together: Callable[[tuple[Part, ...]], Part] = joined
        return self.located(start, together, (*parts, self.operand_part()))

    def link(self) -> Callable[[int, Part], tuple[Part, bool]] | None:
        """The reader of the link at this token; its first words are consumed."""
        if self.took("within"):
            return self.within
        if self.took("followed", "by"):
            return partial(self.followed, Sequence)
        if self.took("weakly", "followed", "by"):
            return partial(self.followed, Concat)
        if self.took("then", "no"):
            return self.then_no
        if self.took("then"):
            return self.then_before
        if self.took("starting", "timer"):
            return self.starting
        if self.texts[self.at] in ("followed", "weakly", "starting"):
            self.at += 1
            wanted = {"followed": "by", "weakly": "followed by"}.get(self.texts[self.at - 1], "timer")
            raise self.unexpected((wanted,))
        return None

    def within(self, start: int, part: Part) -> tuple[Part, bool]:
        return self.located(start, Within, part, self.duration()), False

    def followed(self, join: Callable[[Part, Part], Part], start: int, part: Part) -> tuple[Part, bool]:
        if (joined := self.order()) is not None:
            return join(part, self.parallel(joined)), True
        return join(part, self.operand_part()), False

    def then_no(self, start: int, part: Part) -> tuple[Part, bool]:
        domain, timer = self.events(), fresh_timer(self.known)
        spec = self.spec("within", "until")
        atom = self.atom_of(self.step(), None, frozenset({timer}), domain, frozenset())
        return self.located(start, Timing, part, atom, timer, spec), False

    def then_before(self, start: int, part: Part) -> tuple[Part, bool]:
        timer, start_of_step, part_there = fresh_timer(self.known), self.starts[self.at], self.atom()
        if not isinstance(part_there, Atom):
            raise self.problem("what a time is set for has no bars with names", start_of_step)
        atom = part_there
        if not self.took("before"):
            hint = "without a time it is A followed by B, or A weakly followed by B"
            raise self.unexpected(("before",), hint=hint)
        moment = self.moment_here()
        spec = self.duration((*A_DURATION, *_A_MOMENT)) if moment is None else moment
        if moment is None:
            self.took("pass")
        atom = replace(atom, domain_timers=atom.domain_timers | {timer})
        return self.located(start, Timing, part, atom, timer, spec), False

    def starting(self, start: int, part: Part) -> tuple[Part, bool]:
        at, timer = self.starts[self.at], self.name()
        if timer in self.known:
            raise self.refused(f"two timers are called {timer!r}", at)
        spec = self.spec("for", "until")
        if not self.took("then"):
            raise self.unexpected(("then",))
        outside, self.known = self.known, self.known | {timer}
        second = self.operand_part()
        self.known = outside
        return self.located(start, Timing, part, second, timer, spec), False

    def operand_part(self) -> Part:
        start, greedy = self.starts[self.at], self.took("greedily")
        rounds = self.rounds()
        if greedy and rounds is None:
            raise self.unexpected(("1 or more",), hint="write greedily 1 or more A followed by B")
        if self.kinds[self.at] == "(":
            self.depth += 1
            if self.depth > DEPTH_MAX:
                raise self.problem(f"nested more than {DEPTH_MAX} levels deep", self.starts[self.at])
            self.at += 1
            part = self.body()
            self.expect(")", "followed by", "within")
            self.depth -= 1
        else:
            part = self.atom()
        if rounds is not None:
            until = self.bar() if self.took("until") else None
            part = self.located(start, Iterate, part, *rounds, greedy, until)
        if self.took("unless", "next"):
            bar = self.bar()
            domain = self.events() if self.took("among") else EVERYTHING
            part = self.located(start, Unless, part, replace(bar, domain=domain), True)
        elif self.took("unless"):
            bar = self.bar()
            lead = self.duration() if self.took("within") else EVER
            if not self.took("before"):
                hint = "write A unless B within 5 minutes before, or A unless next B"
                raise self.unexpected(("within", "before"), hint=hint)
            part = self.located(start, Unless, part, bar, False, lead)
        return part

    def bar(self) -> Atom:
        """The bar that stands here: some events, under a name or not."""
        start = self.starts[self.at]
        filter, step = self.named_events()
        return self.located(start, partial(self.atom_of, bars=True), step, filter, NONE, None, NONE)

    def named_events(self) -> tuple[Filter, tuple[str, int] | None]:
        """Some events; in parentheses they may have a name."""
        if self.kinds[self.at] != "(":
            return self.event(), None
        self.at += 1
        found = [self.event()]
        while self.took("or"):
            found.append(self.event())
        step = self.step()
        self.expect(")", "or", "as")
        return Or.of(found), step

    def rounds(self) -> tuple[int, int | None] | None:
        """The number of repetitions of what follows, if there is one."""
        if self.took("any", "number", "of"):
            return 0, None
        if self.took("optional"):
            return 0, 1
        if self.took("exactly"):
            count = self.count()
            return count, count
        if self.took("at", "most"):
            return 0, self.count()
        if self.took("at", "least"):
            return self.count(), None
        if self.kinds[self.at] != NUMBER:
            return None
        least = self.count()
        if self.took("or", "more"):
            return least, None
        if self.took("to"):
            return least, self.count()
        if self.took("times"):
            return least, least
        raise self.unexpected(("or more", "to", "times"), hint="write exactly 3 A, 3 or more A, or 3 to 5 A")

    def count(self) -> int:
        digits = self.texts[self.at]
        if self.kinds[self.at] != NUMBER or not digits.isdecimal() or len(digits) > 9:
            raise self.unexpected((f"a whole number up to {COUNT_MAX:,}",))
        self.at += 1
        return int(digits)

    # -- atoms -----------------------------------------------------------------------------------------------

    def atom(self) -> Atom | Unless:
        start = self.starts[self.at]
        is_any = self.took("any")
        filter: Filter | None = None
        without: Filter | None = None
        timers: set[str] = set()
        failing: set[str] = set()
        if self.took("not"):
            without = self.events()
        elif self.took("timer"):
            timers.add(self.timer())
        else:
            filter = self.event()
        step = self.step()
        while self.took("else", "timer"):
            timers.add(self.timer())
        if without is not None and self.texts[self.at] != "among":
            raise self.unexpected(("among",), hint="write not A among B; or B without A")
        domain, barred = None, None
        if self.took("among"):
            domain = self.events()
        while barred is None and self.took("without"):
            at = self.starts[self.at]
            found, name = self.named_events()
            if name is not None:
                barred = (found, name)
            elif domain is None:
                domain = found
            else:
                raise self.problem("what else ends it has a name", at, hint="write without (C as c)")
        while self.took("before", "timer"):
            failing.add(self.timer())
        if without is not None and domain is not None:
            filter = negation(without, domain)
        step = step or self.step()
        taking = partial(self.atom_of, any=is_any)
        atom = self.located(start, taking, step, filter, frozenset(timers), domain, frozenset(failing))
        if barred is None:
            return atom
        return Unless(atom, self.atom_of(barred[1], barred[0], NONE, None, NONE, bars=True))

    def atom_of(
        self,
        step: tuple[str, int] | None,
        filter: Filter | None,
        timers: frozenset[str],
        domain: Filter | None,
        failing: frozenset[str],
        *,
        any: bool = False,
        bars: bool = False,
    ) -> Atom:
        """The atom under its name, with the name's location, or under the default name."""
        names = self.names if self.names is not None else []
        atom = Atom("_", filter, timers, domain, failing, any, bars)
        if step is None:
            name = fresh(default_step(atom), names)
        else:
            name, start = step
            if name in names:
                raise self.refused(f"two steps are called {name!r}", start, hint="name it otherwise")
        names.append(name)
        return replace(atom, step=name)

    def step(self) -> tuple[str, int] | None:
        """The name after `as`, and its location."""
        if not self.took("as"):
            return None
        start, name = self.starts[self.at], self.name()
        if "." in name:
            raise self.problem("a step's name has no dots", start)
        return name, start

    def timer(self) -> str:
        start, name = self.starts[self.at], self.name()
        if name not in self.known:
            hint = (
                f"a timer is started first: A starting timer {name} for 5 minutes then B before timer {name}"
            )
            raise self.refused(f"no timer {name!r} runs here", start, hint=hint)
        return name

    def events(self) -> Filter:
        """The events that must not happen: one sort, or several in parentheses."""
        start = self.starts[self.at]
        found, step = self.named_events()
        if step is not None:
            raise self.problem("these events have no name here", start, hint="write without (C as c)")
        return found

    def event(self) -> Filter:
        kind, word, start = self.kinds[self.at], self.texts[self.at], self.starts[self.at]
        if kind == "[":
            return self.enclosed("]")
        if kind != NAME or word in WORDS:
            raise self.unexpected(_AN_EVENT, hint=self.no_event())
        type = self.name()
        filter = self.enclosed("]") if self.kinds[self.at] == "[" else EVERYTHING
        return self.located(start, events_of_type, type, filter)

    def no_event(self) -> str | None:
        word = self.texts[self.at]
        if self.kinds[self.at] == STRING:
            return "write types without quotes: Quote, `Order located`"
        if word == "no":
            return "write what must not happen after `then`: A then no B within 5 minutes"
        if word == "any":
            return "write any order of A and B, any number of A, or [true] as a"
        return f"a type of this name is written `{word}`" if word in WORDS else None

    # -- times -----------------------------------------------------------------------------------------------

    def spec(self, lasting: str, until: str) -> int | Moment:
        """A duration behind one word, or a moment behind another."""
        if self.took(lasting):
            return self.duration()
        if not self.took(until):
            raise self.unexpected((f"{lasting} 5 minutes", f"{until} 19:00"))
        moment = self.moment_here()
        if moment is None:
            raise self.unexpected(_A_MOMENT, hint=f"write a duration after `{lasting}`")
        return moment

    def moment_here(self) -> Moment | None:
        if self.took("the", "end"):
            return THE_END
        if self.kinds[self.at] == TIME:
            moment: Moment = self.value()
            return moment
        return self.scanned(scan_moment)

    # -- clauses ---------------------------------------------------------------------------------------------

    def clauses(self) -> dict[str, Any]:
        """All clauses after the body, up to the end, as arguments of a Pattern."""
        same: list[str] = []
        conditions: list[Condition] = []
        outputs: list[Output] = []
        given: dict[str, Any] = {}
        expected = self.LINKS
        while self.kinds[self.at] == ",":
            self.at += 1
            self.instead, expected = self.INSTEAD_IN_CLAUSES, self.LINKS[-2:]
            if self.took("same"):
                expected = ("and", *expected)
                same.append(self.name())
                while self.took("and"):
                    same.append(self.name())
            elif self.took("giving"):
                outputs.append(self.output())
                while self.kinds[self.at] == "," and self.is_output(self.at + 1):
                    self.at += 1
                    outputs.append(self.output())
            elif self.texts[self.at] in ("taking", "limit", "with", "leaving"):
                self.choice(given)
            else:
                conditions += self.conditions()
                expected = ("and", *expected)
        if self.kinds[self.at] != END:
            raise self.unexpected(expected, hint=self.instead.get(self.texts[self.at]) or self.misread())
        return {"same": tuple(same), "conditions": tuple(conditions), "outputs": tuple(outputs), **given}

    def misread(self) -> str | None:
        """A hint for a word that cannot occur where it does."""
        word, before = self.texts[self.at], self.texts[self.at - 1]
        if word not in WORDS and word.lower() in WORDS:
            return f"words are written small: {word.lower()}"
        if before == "every":
            return "a pattern detects all matches: leave out `every`"
        if self.texts[self.at + 1] == ":":
            return f'write a name of several words in quotes: "{before} {word}": A followed by B'
        return None

    def choice(self, given: dict[str, Any]) -> None:
        """A clause that may occur once."""
        start, word = self.starts[self.at], self.texts[self.at]
        self.at += 1
        field: str
        chosen: Any
        if word == "limit":
            field, chosen = "limit", self.count()
        elif word == "taking":
            if self.took("from", "the"):
                if "resume" in given:
                    raise self.refused("a second 'taking'", start)
                given["resume"] = self.resumed()
                return
            take = next((take for words, take in TAKING.items() if self.took(*words)), None)
            if take is None:
                raise self.unexpected(tuple(map(" ".join, TAKING_WORDS.values())))
            field, chosen = "take", take
        elif word == "leaving":
            field, chosen = "left_out", self.left_out()
        else:
            if not self.took("partial", "matches"):
                raise self.unexpected(("partial matches",))
            field, chosen = "partial", True
        if field in given:
            raise self.refused(f"a second {word!r}", start)
        given[field] = chosen

    def left_out(self) -> tuple[str, ...]:
        """The steps that a composite does not show."""
        if not self.took("out"):
            raise self.unexpected(("out",), hint="write leaving out B")
        found: list[str] = []
        while not found or self.took("and"):
            place = self.starts[self.at]
            found.append(self.name())
            self.check_step(found[-1], place)
        return tuple(found)

    def resumed(self) -> Resume:
        """The place where the next match may start."""
        is_last = self.texts[self.at] == "last"
        if not (self.took("first") or self.took("last")):
            raise self.unexpected(("first", "last"), hint="write taking from the first B")
        place, step = self.starts[self.at], self.name()
        if self.names is not None and step not in self.names:
            raise self.refused(f"no step is called {step!r}", place, hint=f"there is {', '.join(self.names)}")
        return Resume(step, is_last)

    def is_output(self, at: int) -> bool:
        """Whether `name = …` begins at a token, and the name is not that of a step."""
        first = self.texts[at].partition(".")[0]
        return self.kinds[at] == NAME and self.texts[at + 1] == "=" and first not in self.spelled_names()

    def spelled_names(self) -> set[str]:
        return {quote_name(name) for name in self.names or ()} | {
            quote_step(name) for name in self.names or ()
        }

    def output(self) -> Output:
        start, name = self.starts[self.at], self.name()
        self.expect("=")
        return self.located(start, Output, name, self.operand())

    def conditions(self) -> tuple[Condition, ...]:
        found = [self.condition()]
        while self.took("and"):
            found.append(self.condition())
        return tuple(found)

    def condition(self) -> Condition:
        start = self.starts[self.at]
        kind, word = self.kinds[self.at], self.texts[self.at]
        if kind == NAME and self.texts[self.at + 1 : self.at + 3] == ["is", "first"]:
            step = self.name()
            self.check_step(step, start)
            self.at += 2
            return self.located(start, first_of, step)
        is_word = kind == NAME and "." not in word and self.kinds[self.at + 1] != "("
        if is_word or kind not in (NAME, NUMBER, "-"):
            hint = f"an attribute of a step is {word}.name" if self.names and word in self.names else None
            raise self.unexpected(_A_CLAUSE, hint=hint)
        left = self.side()
        op = _COMPARATORS.get(self.texts[self.at])
        if op is None:
            raise self.unexpected(tuple(_COMPARATORS))
        if not isinstance(left, Operand):
            raise self.problem("a constant is compared", start, hint="write the step on the left: A.x > 10")
        self.at += 1
        return self.located(start, Condition, left, op, self.side())

    def operand(self) -> Operand:
        start, found = self.starts[self.at], self.side()
        if not isinstance(found, Operand):
            raise self.problem("no step is named here", start, expected=("an attribute of a step",))
        return found

    def side(self) -> Operand | Any:
        """factor * reference + offset, reference + duration, or a value."""
        start = self.starts[self.at]
        factor: Number = 1
        offset: Number = 0
        lapse = 0
        if self.kinds[self.at] in (NUMBER, "-"):
            factor = self.number()
            if self.kinds[self.at] != "*":
                if self.kinds[self.at] in ("+", "-", "/"):
                    raise self.unexpected(("*",), hint="write the step in front: 2 * A.x + 5")
                return factor
            self.at += 1
        elif not self.is_reference():
            return self.value(("a value", "an attribute of a step"))
        reference = self.reference()
        if self.kinds[self.at] == "*" and factor == 1:
            self.at += 1
            factor = self.number()
        if self.kinds[self.at] in ("+", "-"):
            is_less = self.kinds[self.at] == "-"
            self.at += 1
            if self.kinds[self.at] == NAME:
                hint = "one step on each side: A.x > B.x + 5"
                raise self.unexpected(("a number", "a duration"), hint=hint)
            found = self.scanned(scan_duration)
            if found is not None:
                lapse = -found if is_less else found
            else:
                offset = negative(self.number()) if is_less else self.number()
        return self.located(start, Operand, reference, factor, offset, lapse)

    def is_reference(self) -> bool:
        kind, word, following = self.kinds[self.at], self.texts[self.at], self.kinds[self.at + 1]
        return kind == NAME and word not in CONSTANTS and not (word in SHAPES and following == "(")

    def reference(self) -> Reference:
        start, word = self.starts[self.at], self.texts[self.at]
        if word == _BACK and self.kinds[self.at + 1] == "(":
            return self.preceding()
        aggregate = _AGGREGATES.get(word) if self.kinds[self.at + 1] == "(" else None
        if aggregate is not None:
            self.at += 2
        elif self.kinds[self.at + 1] == "(":
            raise self.problem(f"{word}(…) is no aggregate", start, expected=(*_AGGREGATES, _BACK))
        place, (step, _, attribute) = self.starts[self.at], self.name().partition(".")
        if aggregate is not None:
            self.expect(")")
        elif not attribute:
            self.at -= 1
            hint = f'an attribute of a step is {word}.name; write a string in quotes: "{word}"'
            raise self.unexpected(("a value", "an attribute of a step"), hint=hint)
        self.check_step(step, place)
        return self.located(start, Reference, step, attribute or None, aggregate)

    def preceding(self) -> Reference:
        """prev(step.attribute), prev(step.attribute, 2): of what comes before what the step takes."""
        start = self.starts[self.at]
        self.at += 2
        place, (step, _, attribute) = self.starts[self.at], self.name().partition(".")
        back = 1
        if self.kinds[self.at] == ",":
            self.at += 1
            back = self.count()
        self.expect(")")
        self.check_step(step, place)
        return self.located(start, Reference, step, attribute or None, None, back)

    def check_step(self, step: str, start: int) -> None:
        """Refuse a name that no step has."""
        if self.names is not None and step not in self.names:
            raise self.refused(f"no step is called {step!r}", start, hint=f"there is {', '.join(self.names)}")
