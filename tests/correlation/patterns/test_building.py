"""Patterns from Python calls: they make what the text means, and every pattern can be written as calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from datetime import time as TimeOfDay

import pytest
from hypothesis import given

from fairlead.correlation.patterns import building
from fairlead.correlation.patterns.building import (
    Expression,
    any_order,
    either,
    event,
    other_than,
    render_python,
    timeout,
)
from fairlead.correlation.patterns.language import parse
from fairlead.correlation.patterns.model import Pattern, Take
from fairlead.errors import FilterError
from fairlead.filters import parse as parse_filter
from fairlead.model import Instant
from fairlead_lab.testing.patterns import patterns

a, b, c = event("A"), event("B"), event("C")


def evaluated(text: str) -> Pattern:
    made = eval(text, dict(vars(building)))  # the law is about evaluating what was written by render_python
    assert isinstance(made, Expression)
    return made.pattern


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (a, "A"),
        (event("Quote", "price > 100", name="q"), "Quote[price > 100] as q"),
        (event(filter="x > 1"), "[x > 1]"),
        (event("A", parse_filter("x > 1")), "A[x > 1]"),
        (a.then(b), "A followed by B"),
        (a.weakly_then(b), "A weakly followed by B"),
        (a.after(b.repeated(3)), "exactly 3 B followed by A"),
        (a.then(b).then(c), "A followed by B followed by C"),
        (a.then(b.then(c)), "A followed by (B followed by C)"),
        (a.repeated(3, None), "3 or more A"),
        (a.repeated(2, 4), "2 to 4 A"),
        (a.then(b.optional()), "A followed by optional B"),
        (a | b | c, "A or B or C"),
        (a & b & c, "any order of A, B and C"),
        (either(a, b), "A or B"),
        (either(a | b, c), "(A or B) or C"),
        (any_order(a, b, c), "any order of A, B and C"),
        (a.then(b).within("1h"), "A followed by B within 1 hour"),
        (a.within(timedelta(seconds=90)), "A within 90 s"),
        (a.within(3), "A within 3 us"),
        (a.without(b), "A without B"),
        (a.without(b, c), "A without (B or C)"),
        (a.without("x > 1"), "A without [x > 1]"),
        (event("A", "x > 1").among(a), "A[x > 1] among A"),
        (other_than(a, among=b), "not A among B"),
        (a.then_no(b, within="5 minutes"), "A then no B within 5 minutes"),
        (a.then_no(b, c, until="19:00", name="quiet"), "A then no (B or C) until 19:00 as quiet"),
        (a.then(b, before="19:00"), "A then B before 19:00"),
        (a.then(b, before=timedelta(minutes=5)), "A then B before 5 minutes pass"),
        (a.then(b, before=TimeOfDay(7)), "A then B before 07:00"),
        (a.then(b, before=datetime(2026, 1, 1, tzinfo=UTC)), "A then B before 2026-01-01T00:00:00Z"),
        (a.then(b, before=Instant(0)), "A then B before 1970-01-01T00:00:00Z"),
        (
            a.starting("T", "5 minutes", then=b.or_timer("T").then(c.before_timer("T"))),
            "A starting timer T for 5 minutes then (B else timer T followed by C before timer T)",
        ),
        (a.starting("T", "5 minutes", then=timeout("T")), "A starting timer T for 5 minutes then timer T"),
        (a.then(b).same("sensor", "room"), "A followed by B, same sensor and room"),
        (a.then(b).where("B.price > A.price"), "A followed by B, B.price > A.price"),
        (a.giving(total="sum(A.amount)", n="count(A)"), "A, giving total = sum(A.amount), n = count(A)"),
        (a.taking("all").limited(3), "A, taking all matches, limit 3"),
        (a.taking(Take.RECENT), "A, taking the most recent"),
        (a.within("1 s").with_partial().named("spike"), "spike: A within 1 s, with partial matches"),
    ],
)
def test_calls_make_the_pattern_that_the_text_means(made: Expression, text: str) -> None:
    assert made.pattern == parse(text)
    assert str(made) == text
    assert evaluated(render_python(made.pattern)) == made.pattern


@given(patterns(steps=5, depth=4))
def test_every_pattern_is_written_as_the_calls_that_make_it(pattern: Pattern) -> None:
    assert evaluated(render_python(pattern)) == pattern


def test_calls_read_like_the_book() -> None:
    text = "Quote[price > 100] as q followed by 3 or more Trade within 1 hour, same symbol, Trade.price > q.price"
    assert render_python(parse(text)) == (
        'event("Quote", "price > 100", name="q").then(event("Trade").repeated(3, None)).within("1 hour")'
        '.same("symbol").where("Trade.price > q.price")'
    )


@pytest.mark.parametrize(
    "text",
    [
        '"it\'s": A[s = "\'"] followed by `B "c"`',
        "A, giving a.b = A.x, class = A.y, é = A.z, self = A.w",
        't: A then no B until t"1000000000000000000us"',
        "not (A or B) among (C or D)",
        "A starting timer T for 1 s then not A else timer T among B",
        "A starting timer T9 for 1 s then B before timer T9",
        "A starting timer T1 for 1 s then (B then no C within 1 s)",
    ],
)
def test_names_and_values_of_any_kind_are_written(text: str) -> None:
    assert evaluated(render_python(parse(text))) == parse(text)


def test_a_second_step_of_a_type_is_told_apart_as_in_the_text() -> None:
    assert a.then(event("A")).where("A2.x > A.x").pattern == parse("A followed by A, A2.x > A.x")


def test_a_type_stands_for_an_event_of_it() -> None:
    assert a.then("B").pattern == (event("B").after("A")).pattern == parse("A followed by B")
    assert (a | "B").pattern == either("A", "B").pattern == parse("A or B")
    assert a.then("B", before="1 s").pattern == parse("A then B before 1 s")


def test_an_expression_stays_as_it_is_when_another_is_made_from_it() -> None:
    first = a.then(b)
    first.within("1 s").same("k").repeated(2)
    assert first.pattern == parse("A followed by B")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: a.then(b.same("k")), "about the whole pattern"),
        (lambda: (a | b).without(c), "only a single step"),
        (lambda: a.without(b | c), "no sort of events"),
        (lambda: a.then_no(b), "for how long"),
        (lambda: a.then_no(b, within="1 s", until="19:00"), "both `within` and `until`"),
        (lambda: a.within("soon"), "not a duration"),
        (lambda: a.then(b, before="soon"), "not a moment"),
        (lambda: a.taking("some"), "there is all, first, next, past, recent"),
        (lambda: a.then(event("B", name="A")).pattern, r'or event\("Quote", name="q1"\)'),
        (lambda: a.then(1), "no part of a pattern: 1"),
        (lambda: either(a, None), "no part of a pattern: None"),
        (lambda: a and b, "neither true nor false"),
        (lambda: a.then(b).limited(3).pattern, "a limit is about taking all matches"),
        (lambda: a.before_timer("T").pattern, "no timer 'T' runs"),
    ],
)
def test_what_means_nothing_is_refused(make: object, says: str) -> None:
    assert callable(make)
    with pytest.raises(FilterError, match=says):
        make()
