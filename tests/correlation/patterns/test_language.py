"""The readable text of patterns: it reads, prints and reads back, and what is wrong is said with its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import time as TimeOfDay
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.correlation import fair
from fairlead.correlation.patterns import building
from fairlead.correlation.patterns.building import render_python
from fairlead.correlation.patterns.core import parse_core, render_core
from fairlead.correlation.patterns.language import parse, parse_condition, parse_operand, render
from fairlead.correlation.patterns.model import (
    Aggregate,
    Atom,
    Both,
    Concat,
    Condition,
    Either,
    Iterate,
    Operand,
    Output,
    Pattern,
    Reference,
    Sequence,
    Take,
    Timing,
    Within,
)
from fairlead.correlation.patterns.spelling import events_of_type, negation
from fairlead.errors import FairleadError, FilterError, FilterSyntaxError
from fairlead.filters import EVERYTHING, Op, Schema
from fairlead.filters import parse as parse_filter
from fairlead.model import Instant, Multi, Point
from fairlead.model.durations import duration_of, moment_of, render_duration, render_moment
from fairlead_lab.testing.patterns import patterns

SECOND = 1_000_000
MINUTE, HOUR = 60 * SECOND, 3_600 * SECOND


def atom(type: str, step: str | None = None) -> Atom:
    return Atom(step or type, events_of_type(type))


A, B, C = map(atom, "ABC")
SILENCE = Atom("no_B", None, frozenset({"T1"}), events_of_type("B"))
IN_TIME = Atom("B", events_of_type("B"), domain_timers=frozenset({"T1"}))


@given(patterns(steps=5, depth=4))
def test_what_is_printed_reads_back_to_the_same_pattern(pattern: Pattern) -> None:
    text = render(pattern)
    assert parse(text) == pattern
    assert render(parse(text)) == text == str(pattern)


# -- the grammar ---------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[3] / "docs" / "patterns.md").read_text(encoding="utf-8")
RULES = {
    name: re.findall(r'"[^"]*"|\w+|[][(){}|]', right)
    for name, right in re.findall(
        r"^(\w+) += (.*(?:\n +.*)*)", PAGE.partition("```ebnf\n")[2].partition("```")[0], re.MULTILINE
    )
}
"""The grammar that users read, rule by rule, in tokens."""
FREE = {
    "duration": "5 minutes",
    "moment": "19:00",
    "filter": "x > 1",
    "condition": "count(A) > 1",
    "matches": "the first",
    "value": "count(A)",
    "n": "2",
    "m": "3",
    "timer": "T",
}
"""Nonterminals that the page explains elsewhere."""


class Deriving:
    """Sentences of the grammar, by what a strategy chooses. Deep down, the shortest way is taken."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.names = draw, 0

    def rule(self, name: str, depth: int) -> list[str]:
        if name in FREE:
            return [FREE[name]]
        if name not in RULES:  # a name of something: all are different
            self.names += 1
            return [f"{name}{self.names}"]
        said, rest = self.choice(RULES[name], depth, taken=True)
        assert not rest
        return said

    def choice(self, tokens: list[str], depth: int, *, taken: bool) -> tuple[list[str], list[str]]:
        """One of several ways, up to the bracket that closes them."""
        count, level = 1, 0
        for token in tokens:
            level += (token in "[({") - (token in "])}")
            if level < 0:
                break
            count += token == "|" and level == 0
        chosen = self.draw(st.integers(0, count - 1)) if depth > 0 else count - 1
        said: list[str] = []
        for way in range(count):
            found, tokens = self.sequence(tokens, depth, taken=taken and way == chosen)
            said += found
            tokens = tokens[1:] if way < count - 1 else tokens
        return said, tokens

    def sequence(self, tokens: list[str], depth: int, *, taken: bool) -> tuple[list[str], list[str]]:
        said: list[str] = []
        while tokens and tokens[0] not in "|])}":
            token, tokens = tokens[0], tokens[1:]
            if token in "[({":
                most = {"[": 1, "{": 2, "(": 1}[token]
                least = 1 if token == "(" else 0
                rounds = self.draw(st.integers(least, most)) if taken and depth > 0 else least
                if not rounds or not taken:
                    _, tokens_after = self.choice(tokens, depth, taken=False)
                for _ in range(rounds if taken else 0):
                    found, tokens_after = self.choice(tokens, depth, taken=True)
                    said += found
                tokens = tokens_after[1:]
            elif taken:
                said += [token[1:-1]] if token[0] == '"' else self.rule(token, depth - 1)
        return said, tokens


@st.composite
def sentences(draw: st.DrawFn) -> str:
    return " ".join(Deriving(draw).rule("pattern", draw(st.integers(3, 9))))


@given(sentences())
@settings(max_examples=400)
def test_every_sentence_that_the_grammar_derives_is_read(text: str) -> None:
    with suppress(FilterError):  # it may mean nothing, such as a timer that does not run; but it can be read
        parse(text)


def test_a_list_goes_on_behind_its_window_only() -> None:
    assert parse("any order of A and B within 1 s followed by C").body == Sequence(
        Within(Both((A, B)), SECOND), C
    )
    for text in ("any order of A and B followed by C", "A or B followed by C", "A or B then no C within 1 s"):
        with pytest.raises(FilterSyntaxError, match="may be the list or its last part"):
            parse(text)


# -- times -----------------------------------------------------------------------------------------------------


def test_to_a_time_a_duration_is_added_and_never_a_number() -> None:
    (condition,) = parse_condition("B.time < A.time + 1h30m")
    assert condition.right == Operand(Reference("A", "time"), lapse=90 * MINUTE)
    assert parse_operand("A.seen - 5 s") == Operand(Reference("A", "seen"), lapse=-5 * SECOND)
    for text in ("B.time < A.time + 5", "B.time < 2 * A.time", "B.time - 5 > A.time", "sum(A.time) > 5"):
        with pytest.raises(FilterError, match="times have no arithmetic with numbers"):
            parse_condition(text)
    for text in (
        "A.time > 5",
        "A.time = true",
        "A.time + 5 s > B.x + 1",
        "count(A) = B.time",
        "2 * B.x < A.time",
    ):
        with pytest.raises(FilterError, match="that never holds"):
            parse_condition(text)


def test_what_is_not_to_happen_is_compared_with_earlier_steps_only() -> None:
    parse("A then no B within 1 s as n, n.x > A.x")
    for text in (
        "A then no B within 1 s as n, count(n) > 1",
        "A then no B within 1 s as n followed by C, C.x > n.x",
        "A starting timer T for 1 s then timer T as n, n.x > A.x",
        "any order of (A then no B within 1 s as n) and C, n.x > C.x",
        "A then no B within 1 s as n, giving x = n.x",
    ):
        with pytest.raises(FilterError, match="takes no event"):
            parse(text)


# -- names and values of any kind ----------------------------------------------------------------------------

ODD = (
    "A",
    "or",
    "within",
    "where",
    "not",
    "count",
    "true",
    "Order placed",
    "x`y",
    "é",
    "T1",
    "3",
    "any",
    "A2",
)
TYPES = st.sampled_from((*ODD, "com.acme.Order", "a..b", "", ".", "tab\t", "type"))
FILTERS = st.one_of(
    TYPES.map(events_of_type),
    st.builds(
        events_of_type, TYPES, st.sampled_from(["x = 1 or y = 2", 'x = "]"', "y in (1, 2]"]).map(parse_filter)
    ),
    st.builds(lambda one, other: one | other, TYPES.map(events_of_type), TYPES.map(events_of_type)),
    st.sampled_from(["true", "not x = 1", "x > 1 and not y = 2", "//item[@n = 1]", '("IBM", *)']).map(
        parse_filter
    ),
)
VALUES = st.sampled_from(
    (1, Decimal("-0.1"), 0.1, 2**70, "a, b", True, None, b"\x00", Instant(5), Multi((1, "a")), Point(1, 2))
)


@st.composite
def odd_patterns(draw: st.DrawFn) -> Pattern:
    """Two steps and a timer, with names and values that the language has to put in quotes."""
    steps = draw(
        st.lists(st.sampled_from((*ODD, "event", "other", "no_A")), min_size=3, max_size=3, unique=True)
    )
    steps = [step for step in steps if step not in ("type", "time")]
    timer = draw(st.sampled_from((*ODD, "my.timer")))
    domain = draw(st.none() | FILTERS)
    taken = draw(FILTERS) if domain is None or draw(st.booleans()) else negation(draw(FILTERS), domain)
    waiting = draw(st.booleans())
    timers = frozenset({timer} if waiting else ())
    second = Atom(
        steps[1],
        None if waiting and draw(st.booleans()) else taken,
        timers,
        domain,
        frozenset({timer}) if draw(st.booleans()) else frozenset(),
    )
    spec = draw(
        st.integers(1, 2**55)
        | st.times()
        | st.sampled_from((Instant(0), Instant(-(10**18)), Instant(10**18 + 1), Instant(1)))
    )
    names = st.sampled_from((*ODD, "a.b"))
    return Pattern(
        Concat(Timing(Atom(steps[0], draw(FILTERS)), second, timer, spec), Atom(steps[2], draw(FILTERS))),
        same=tuple(draw(st.lists(names, max_size=2))),
        conditions=(Condition(Operand(Reference(steps[0], draw(names))), Op.EQ, draw(VALUES)),),
        outputs=(
            Output(draw(st.sampled_from(("out", "a.b", "class"))), Operand(Reference(steps[2], "x"), 2)),
        ),
        name=draw(st.sampled_from(("composite", "c.d", "", "two words", "..", "else"))),
    )


@given(odd_patterns())
def test_names_and_values_of_any_kind_read_back_in_all_three_forms(pattern: Pattern) -> None:
    assert parse(render(pattern)) == pattern
    assert parse_core(render_core(pattern)) == pattern
    assert eval(render_python(pattern), dict(vars(building))).pattern == pattern


# -- what texts mean -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("A", A),
        ("A followed by B", Sequence(A, B)),
        ("A weakly followed by B", Concat(A, B)),
        ("A followed by B followed by C", Sequence(Sequence(A, B), C)),
        ("A followed by (B followed by C)", Sequence(A, Sequence(B, C))),
        ("A followed by B within 1 hour", Within(Sequence(A, B), HOUR)),
        ("A followed by (B within 1 hour)", Sequence(A, Within(B, HOUR))),
        ("A within 1 s followed by B within 1 hour", Within(Sequence(Within(A, SECOND), B), HOUR)),
        ("A or B or C", Either((A, B, C))),
        ("A or B within 1 s", Within(Either((A, B)), SECOND)),
        ("any order of A, B and C", Both((A, B, C))),
        ("any order of A and B within 1 s", Within(Both((A, B)), SECOND)),
        ("A followed by any order of B and C within 1 s", Within(Sequence(A, Both((B, C))), SECOND)),
        ("3 or more A", Iterate(A, 3, None)),
        ("at least 3 A", Iterate(A, 3, None)),
        ("2 to 3 A", Iterate(A, 2, 3)),
        ("exactly 3 A", Iterate(A, 3, 3)),
        ("3 times A", Iterate(A, 3, 3)),
        ("A followed by any number of B", Sequence(A, Iterate(B))),
        ("A followed by at most 2 B", Sequence(A, Iterate(B, 0, 2))),
        ("A followed by optional B", Sequence(A, Iterate(B, 0, 1))),
        ("A then no B within 5 minutes", Timing(A, SILENCE, "T1", 5 * MINUTE)),
        ("A then no B until 19:00", Timing(A, SILENCE, "T1", TimeOfDay(19))),
        (
            "A then no B until 2026-01-01T00:00:00Z",
            Timing(A, SILENCE, "T1", Instant.parse("2026-01-01T00:00:00Z")),
        ),
        ("A then B before 19:00", Timing(A, IN_TIME, "T1", TimeOfDay(19))),
        ("A then B before 5 minutes pass", Timing(A, IN_TIME, "T1", 5 * MINUTE)),
        ("A starting timer T1 for 5 minutes then B before timer T1", Timing(A, IN_TIME, "T1", 5 * MINUTE)),
        (
            "A starting timer T for 3 us then (B else timer T followed by C)",
            Timing(A, Sequence(Atom("B", events_of_type("B"), frozenset("T")), C), "T", 3),
        ),
        ("B without C", Atom("B", events_of_type("B"), domain=events_of_type("C"))),
        (
            "B without (C or [x > 1])",
            Atom("B", events_of_type("B"), domain=events_of_type("C") | parse_filter("x > 1")),
        ),
        ("B among [x > 1]", Atom("B", events_of_type("B"), domain=parse_filter("x > 1"))),
        (
            "not A among P",
            Atom("other", parse_filter('type = "P" and not type = "A"'), domain=events_of_type("P")),
        ),
        ("A[x > 1]", Atom("A", parse_filter('type = "A" and x > 1'))),
        ("[x > 1] as s", Atom("s", parse_filter("x > 1"))),
        ("[x > 1]", Atom("event", parse_filter("x > 1"))),
        ('[type = "A"] as A', A),
    ],
)
def test_a_text_means_a_body(text: str, body: object) -> None:
    assert parse(text).body == body


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("A followed by A", "A followed by A"),
        ("A as A followed by A as A2", "A followed by A"),
        ("A within 1h30m", "A within 90 minutes"),
        ("A within 3600 s", "A within 1 hour"),
        ("A within 2 weeks", "A within 14 days"),
        ("3 times A", "exactly 3 A"),
        ("0 or more A followed by B", "any number of A followed by B"),
        ("B without C as b", "B as b without C"),
        ("Enter[who = 1] without Enter", "Enter[who = 1] among Enter"),
        ("(A) or ((B))", "A or B"),
        ("3 or more A without B", "3 or more (A without B)"),
        ("A without B or C", "(A without B) or C"),
        ("A followed by any order of B and C", "A followed by (any order of B and C)"),
        ("A, A.x>A.y*1.10-5.0 and A.z=1", "A, A.x > 1.1 * A.y - 5, A.z = 1"),
        ("A, same a, same b and c", "A, same a and b and c"),
        ("A, taking past the last, limit 1000", "A"),
        ("A, giving n = count(A), A.x > 1", "A, A.x > 1, giving n = count(A)"),
        ("A, taking to the next", "A, taking one for each start"),
        ("A\n  followed by\n  B", "A followed by B"),
        ("A then B before 5 minutes", "A then B before 5 minutes pass"),
    ],
)
def test_there_is_one_spelling(text: str, canonical: str) -> None:
    assert render(parse(text)) == canonical
    assert parse(canonical) == parse(text)
    assert parse(canonical).hash == parse(text).hash


def test_clauses_are_all_about_the_whole() -> None:
    pattern = parse(
        "spike: Quote[price > 100] as q followed by 3 or more Trade within 5 minutes, same symbol and venue, "
        "Trade.price > 1.1 * q.price + 5, sum(Trade.amount) > 100, count(Trade) >= 3, "
        "taking all matches, limit 100, with partial matches, giving total = sum(Trade.amount), n = count(Trade)"
    )
    total = Operand(Reference("Trade", "amount", Aggregate.SUM))
    count = Operand(Reference("Trade", None, Aggregate.COUNT))
    assert pattern.name == "spike"
    assert pattern.same == ("symbol", "venue")
    assert pattern.conditions == (
        Condition(
            Operand(Reference("Trade", "price")), Op.GT, Operand(Reference("q", "price"), Decimal("1.1"), 5)
        ),
        Condition(total, Op.GT, 100),
        Condition(count, Op.GE, 3),
    )
    assert pattern.outputs == (Output("total", total), Output("n", count))
    assert (pattern.take, pattern.limit, pattern.partial) == (Take.ALL, 100, True)


def test_a_constant_that_is_true_is_not_the_number_one() -> None:
    assert parse("A, A.x = true") != parse("A, A.x = 1")
    assert parse("A, A.x = 1.0") == parse("A, A.x = 1")


def test_conditions_and_operands_read_alone() -> None:
    assert parse_condition("A.x > 1 and B.y = A.x") == parse("A or B, A.x > 1, B.y = A.x").conditions
    assert parse_operand("A.x - 0.5") == Operand(Reference("A", "x"), 1, Decimal("-0.5"))
    with pytest.raises(FilterSyntaxError, match="expected the end"):
        parse_operand("A.x > 1")


def test_filters_are_read_with_the_schema() -> None:
    schema = Schema.parse("type Quote\ntype StockQuote: Quote")
    body = parse("[type is Quote] as q followed by Trade", schema).body
    assert isinstance(body, Sequence)
    assert body.first == Atom("q", parse_filter("type is Quote", schema))
    with pytest.raises(FilterError, match="line 1, column 10"):
        parse("[type is Rumour] as r", schema)


@pytest.mark.parametrize("join", [" followed by ", " weakly followed by "])
def test_a_chain_of_as_many_steps_as_a_pattern_may_have_reads_back(join: str) -> None:
    pattern = parse(join.join(["A"] * 256))
    assert parse(render(pattern)) == pattern
    with pytest.raises(FilterError, match="at most 256 steps"):
        parse(join.join(["A"] * 257))


@pytest.mark.parametrize("text", ["(" * 500 + "A" + ")" * 500, "A" + " within 1 s" * 5_000])
def test_what_is_nested_too_deeply_is_refused(text: str) -> None:
    with pytest.raises(FilterSyntaxError, match="nested"):
        parse(text)


# -- complaints ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("", 1, "the pattern ends too early"),
        ("A followed B", 12, "expected by"),
        ("A or B followed by C", 8, "(A or B) followed by C"),
        ("any order of A and B followed by C", 22, "(any order of A and B) followed by C, or any order of"),
        ("A followed by any order of A and B followed by C", 36, "(any order of A and B) followed by C"),
        ("any order of A and B and C", 22, "any order of A, B and C"),
        ("A & B", 3, "any order of A and B"),
        ("(A | B) followed by C", 4, "A or B"),
        ("A followed by no B within 1 s", 15, "A then no B within 5 minutes"),
        ("A, A.x > 1 or A.y > 1", 12, "expected and, a comma or the end"),
        ("A, A.x > 1 or A.y > 1", 12, "A[x > 1 or y > 2]"),
        ("A, A.x > 1 & A.y > 1", 12, "write and"),
        ("A.x < B.y", 5, "is read by fair.parse"),
        ("A followed by B or C", 17, "A followed by (B or C)"),
        ("any order of A", 15, "any order of A, B and C"),
        ("A and B", 3, "any order of A and B"),
        ("A then B", 9, "without a time it is A followed by B"),
        ("A then no B", 12, "within 5 minutes or until 19:00"),
        ("A then no B until 5 s", 19, "write a duration after `within`"),
        ("A within 5", 10, "units are days"),
        ("A within 5 parsecs", 10, "a duration such as 5 minutes"),
        ("3 A", 3, "exactly 3 A"),
        ("not A", 6, "B without A"),
        ('"A"', 1, "write types without quotes"),
        ("A followed by within", 15, "written `within`"),
        ("A[x >", 2, "not closed"),
        ("A[x ==3]", 5, "write ="),
        ("A followed by\n  B[x = IBM]", 9, 'write a string in quotes: "IBM"'),
        ("A until 19:00", 3, "A then no B until 19:00"),
        ("A where A.x > 1", 3, "write conditions after a comma"),
        ("A, foo", 4, "a condition such as"),
        ("A, A > 3", 4, "an attribute of a step is A.name"),
        ("A, A.x = B", 10, "write a string in quotes"),
        ("A, 3 < A.x", 4, "write the step on the left"),
        ("A, A.x - A.y > 3", 10, "one step on each side"),
        ("A, A.x > 3 + A.y", 12, "write the step in front"),
        ("A, foo(A.x) > 3", 4, "foo(…) is no aggregate"),
        ("A, taking some", 11, "the most recent"),
        ("A, giving x = 3", 15, "an attribute of a step"),
        ("A as a.b", 6, "a step's name has no dots"),
        ("((A)", 5, "expected )"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(text: str, column: int, says: str) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (text.count("\n") + 1, column)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A, B.x > 3", "column 4: no step is called 'B'"),
        ("A followed by B as A", "column 20: two steps are called 'A'"),
        ("A before timer T", "column 16: no timer 'T' runs here"),
        ("A starting timer T for 1 s then B followed by C before timer T", "no timer 'T' runs here"),
        ("A starting timer T for 1 s then (B starting timer T for 1 s then C)", "two timers are called 'T'"),
        ("A then B before 25:00", "column 17: no time of day"),
        ("A within 0.0001 us", "column 10: a duration is a whole number of microseconds"),
        ("A within 0 s", "not a duration"),
        ("optional A", "the pattern may match without taking an event"),
        ("A followed by 2 to 1 B", "column 15: an iteration of at least 2"),
        ("A, with partial matches", "only what has a window"),
        ("A, limit 1, limit 2", "column 13: a second 'limit'"),
        ("A followed by B, limit 3", "column 1: a limit is about taking all matches"),
        ("A, sum(A) > 1", "column 4: count takes a step"),
        ("A, giving A = A.x", "is the name of a step"),
        ("A, giving n = A.x, n.m = A.y", "two outputs share a name"),
        ("time", "is an attribute that every composite has"),
        ("composite: A", "column 1: composite is the type of unnamed detections"),
        ('"relation": A', "column 1: relation is the type of unnamed detections"),
    ],
)
def test_what_means_nothing_is_refused(text: str, says: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert says in str(caught.value)


SCRAPS = st.text(alphabet='AB[]().,:|;=<>3 \n"`', max_size=30)
WORDS = (
    *("A", "B", "A.x", "[", "]", "(", ")", ",", "x", ">", "1", "3", "5", "minutes", "19:00", "or", "more"),
    *("followed", "by", "within", "then", "no", "until", "any", "order", "of", "and", "as", "same", "timer"),
)


@given(SCRAPS | st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_any_text_is_a_pattern_or_is_refused(text: str) -> None:
    try:
        pattern = parse(text)
    except (FilterSyntaxError, FilterError):
        return
    assert parse(render(pattern)) == pattern


WHOLE = (
    "a: A[x > 1] as q followed by B without (C or D) within 5 minutes, same s and t, B.p > 1.1 * q.p + 5 and "
    "count(q) >= 2, giving t = sum(q.x), u = 2 * B.x - 1, taking all matches, limit 5, with partial matches",
    'any order of (A weakly followed by B), 3 or more C and exactly 2 D within 1 hour, max(A.x) != "s"',
    'A starting timer T for 5 minutes then (B before timer T else timer T as z), A.t = t"2026-01-01T00:00:00Z"',
    "A then no (B or C[x in {1,2}]) until 19:00 as q, sum(A.x) + 3 < avg(A.y) * 2",
    "optional A followed by `my type` among [true] followed by not A among B as n, B.x = -0.5, n.y = null",
)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *((parse, text) for text in WHOLE),
        (parse_core, '([A] ; [B ⊆ {B, C}])_{within 1 h}, same room where A = [type = "A"], B = [x > 1]'),
        (parse_core, "[¬A ⊆ P] [A]* | [B]{2,3} || [C]+ ; [D]?"),
        (fair.parse, "A[1].x > B.x and A[2].y > A[1].y or C.x < D.y and E[x in {1, 2}]"),
    ],
)
def test_a_text_that_ends_anywhere_is_refused_in_words(read: Callable[[str], object], text: str) -> None:
    for end in range(len(text)):
        for cut in (text[:end], text[:end] + text[end + 1 :], text[end:]):
            with suppress(FairleadError):
                read(cut)


# -- durations and moments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "microseconds", "canonical", "short"),
    [
        ("90 s", 90 * SECOND, "90 s", "90 s"),
        ("5 minutes", 5 * MINUTE, "5 minutes", "5 min"),
        ("60min", HOUR, "1 hour", "1 h"),
        ("1h30m", 90 * MINUTE, "90 minutes", "90 min"),
        ("1 hour 30 minutes", 90 * MINUTE, "90 minutes", "90 min"),
        ("1.5 h", 90 * MINUTE, "90 minutes", "90 min"),
        ("250 ms", 250_000, "250 ms", "250 ms"),
        ("3 us", 3, "3 us", "3 us"),
        ("3µs", 3, "3 us", "3 us"),
        ("48 hours", 48 * HOUR, "2 days", "2 d"),
    ],
)
def test_durations_are_written_in_the_largest_unit_that_is_exact(
    text: str, microseconds: int, canonical: str, short: str
) -> None:
    assert duration_of(text) == microseconds
    assert render_duration(microseconds) == canonical
    assert render_duration(microseconds, short=True) == short


@given(st.integers(1, 2**55), st.times())
def test_durations_and_times_of_day_read_back(duration: int, moment: TimeOfDay) -> None:
    assert duration_of(render_duration(duration)) == duration
    assert duration_of(render_duration(duration, short=True)) == duration
    assert moment_of(render_moment(moment)) == moment


@pytest.mark.parametrize("text", ["", "5", "minutes", "5 parsecs", "5 s x", "-5 s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        duration_of(text)


def test_a_bare_filter_takes_everything_that_matches() -> None:
    assert parse("[true]").body == Atom("event", EVERYTHING)
