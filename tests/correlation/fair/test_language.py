"""The text of subscriptions: it reads, prints and reads back, and what is wrong is said with its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.correlation.fair import Conjunction, Instance, Restriction, Subscription, parse, render
from fairlead.errors import FilterError, FilterSyntaxError
from fairlead.filters import parse as parse_filter
from fairlead_lab.testing.fair import subscriptions


@given(
    subscriptions(names=st.one_of(st.sampled_from(("relation", "spike", "a.b", "or")), st.text(min_size=1)))
)
def test_what_is_printed_reads_back_to_the_same_subscription(subscription: Subscription) -> None:
    assert parse(render(subscription)) == subscription
    assert render(parse(render(subscription))) == render(subscription)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("A", "A[1]"),
        ("A and A[3]", "A[3]"),
        ("A.x = 1", "A[1].x = 1"),
        ("B.y > A.x", "A[1].x < B[1].y"),
        ("B or A or B", "A[1] or B[1]"),
        ("true and A", "A[1]"),
        ("A.x < 3.0 and A.x < 3", "A[1].x < 3"),
        ('A.s prefix "a" and A.x in (1, 2]', 'A[1].s prefix "a" and A[1].x in (1, 2]'),
        ("A.x not in {1, 2}", "A[1].x not in {1, 2}"),
        ("A(x = 1 or y = 2)", "A[1](x = 1 or y = 2)"),
        ("A(x = 1 and exists y and z + y > 3)", "A[1].x = 1 and A[1](exists y and y + z > 3)"),
        ("A[2] and A(true)", "A[2]"),
        ("A[1].x <= A[2].x", "A[1].x <= A[2].x"),
        ("A.high > A.low", "A[1].high > A[1].low"),
        ("A.p.x = B.q.`r s`", "A[1].p.x = B[1].q.`r s`"),
        ("`com.example.order`.id = `not`.id", "`com.example.order`[1].id = `not`[1].id"),
        ("A[1].`count` > 3", "A[1].`count` > 3"),
        ("A.at = point(1, 2) and A.ok = true", "A[1].at = point(1, 2) and A[1].ok = true"),
        ("A\n  and B[2] .x=1", "A[1] and B[2].x = 1"),
        ("spike: B or A", "spike: A[1] or B[1]"),
        ('"spike" : A', "spike: A[1]"),
        ('"a..b": A.x = 1', '"a..b": A[1].x = 1'),
        ("`two words`.or: A", "`two words`.or: A[1]"),
    ],
)
def test_there_is_one_spelling(text: str, canonical: str) -> None:
    assert render(parse(text)) == canonical
    assert parse(canonical) == parse(text)
    assert str(parse(text)) == canonical


def test_filters_with_values_of_the_filter_language_read_back() -> None:
    for text in (
        'x = "a and b"',
        'x ~ "(a|b)*"',
        "not x = 1",
        "//item[@n = 1]",
        'x = t"2024-05-01T10:00:00Z"',
    ):
        conjunction = Conjunction.of([Restriction(Instance("T"), parse_filter(text))])
        assert parse(render(conjunction)) == Subscription.of([conjunction])


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("", 1, "the subscription ends too early"),
        ("A and", 6, "the subscription ends too early"),
        ("A B", 3, "unexpected B; expected and, or or the end"),
        ("A[1", 4, "expected ]"),
        ("A[x]", 3, "the number of an instance"),
        ("A[1.5].x = 1", 3, "the number of an instance"),
        ("A[1].", 6, "expected a name"),
        ("A.x == 3", 5, "hint: write ="),
        ("A.x = IBM", 7, 'write a string in quotes: "IBM"'),
        ("A.x = B", 7, "an attribute is B.name"),
        ("5 < A.x", 1, "write the attribute on the left"),
        ("not A", 1, "conjunctions are joined by or"),
        ("A and (B or C)", 7, "conjunctions are joined by or"),
        ("exists A.x", 1, "write T[1](exists a)"),
        ("count.x = 1", 1, None),
        ("A.x in {1,", 11, "expected a value"),
        ("A(x = 1", 2, "this parenthesis is not closed"),
        ("A(x = 1 and y >)", 16, "expected a value"),
        ("A.x like 3", 5, "unknown operator like"),
        ("A and B AND C", 9, "unexpected AND"),
        ("A.x = B.y + 1", 11, "hint: two events are compared by attributes as they are"),
        ("A.x + 1 < B.x", 11, "one may have any filter: A[1](x + 1 < y)"),
        ("A.x * (2 + B.x) < 3", 12, "unexpected B.x; expected a value"),
        ("A.x - y = 0", 7, "unexpected y; expected a value"),
        ("A.`b.c` = 1", 3, "a step of a name has no dots"),
        ("`b.c`: A", 1, "a step of a name has no dots"),
        ("spike:", 7, "the subscription ends too early"),
        ("A: B: C", 5, "unexpected :; expected and, or or the end"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(text: str, column: int, says: str | None) -> None:
    if says is None:
        assert parse(text).signature == ("count",)
        return
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (1, column)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A[0].x = 1", "the first instance is A[1]"),
        ("A[101]", "at most 100 events"),
        ("A[60] and B[60]", "at most 100 events"),
        ("true", "a conjunction without a type"),
        ("A or true", "line 1, column 6: a conjunction without a type"),
        ("A.x = A[1].x", "line 1, column 7: an attribute is compared with itself"),
        ("A.x prefix 3", "line 1, column 5: 'prefix' takes a string"),
        ("A\nand B(x != null)", "line 2, column 9: '!= null' would be false"),
        ('"": A', "line 1, column 1: an empty name"),
        ("relation: A", "line 1, column 1: relation is the type of unnamed detections"),
        ("composite: A", "line 1, column 1: composite is the type of unnamed detections"),
    ],
)
def test_what_means_nothing_is_refused_with_a_reason(text: str, says: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert says in str(caught.value)
    assert "^" in str(caught.value)


def test_a_complaint_about_a_filter_shows_the_whole_line() -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse("A.x = 1 and B(y <> 3) and C")
    assert str(caught.value).splitlines() == [
        "line 1, column 17: unexpected <>; expected a value",
        "  A.x = 1 and B(y <> 3) and C",
        "  " + " " * 16 + "^",
        "  hint: write !=",
    ]
