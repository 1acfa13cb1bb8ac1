"""The book's notation: its examples are written as in the book, and every pattern reads back from it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.core import parse_core, render_core, windows_as_timers
from fairlead.correlation.patterns.language import parse, render
from fairlead.correlation.patterns.model import Atom, Concat, Part, Pattern, Sequence, Take, Timing, Within
from fairlead.errors import FilterError, FilterSyntaxError
from fairlead.filters import parse as parse_filter
from fairlead.model import Notification
from fairlead.model.order import order_keys
from fairlead_lab.correlation.patterns.reference import detect
from fairlead_lab.testing.patterns import parts, patterns, streams

OFFICE = {
    "A": 'type = "Enters" and who = "Alice"',
    "Ā": 'type = "Leaves" and who = "Alice"',
    "B": 'type = "Enters" and who = "Bob"',
    "P": 'type = "Enters"',
}
"""Book 7.4.2: Alice is in the office, Alice has left it, Bob is in it, anyone is in it."""


@pytest.mark.parametrize(
    ("core", "text"),
    [
        ("[A] ; [B]", 'Enters[who = "Alice"] as A followed by Enters[who = "Bob"] as B'),
        ("[A ⊆ {A, B}]", 'Enters[who = "Alice"] as A without Enters[who = "Bob"]'),
        (
            "([A], [B ⊆ {B, T1}])_{T1 = 1 h}",
            'Enters[who = "Alice"] as A then Enters[who = "Bob"] as B before 1 hour pass',
        ),
        (
            "[Ā] [¬A ⊆ P] [A]",
            'Leaves[who = "Alice"] as Ā weakly followed by not Enters[who = "Alice"] among Enters '
            'weakly followed by Enters[who = "Alice"] as A',
        ),
    ],
)
def test_the_examples_of_the_book_are_written_as_in_the_book(core: str, text: str) -> None:
    pattern = parse_core(core, OFFICE)
    assert render(pattern) == text
    assert render_core(pattern, OFFICE).partition("\nwhere ")[0] == core
    assert parse_core(core.replace("⊆", "<=").replace("¬", "not "), OFFICE) == pattern


@pytest.mark.parametrize(
    ("core", "text"),
    [
        ("[A] [B] ; [C]", "A weakly followed by B followed by C"),
        ("[A] ; [B] [C]", "A followed by (B weakly followed by C)"),
        ("[A] | [B] || [C] ; [D]", "A or (any order of B and (C followed by D))"),
        ("([A] | [B]) || [C]", "any order of (A or B) and C"),
        ("[A]{2} ; [B]* ; [C]{2,} ; [D]{2,3}", "exactly 2 A followed by any number of B followed by 2 or more C "
         "followed by 2 to 3 D"),
        ("([A] ; [B])_{within 1 h}", "A followed by B within 1 hour"),
        ("([A], [T1 ⊆ {T1, B}])_{T1 = 19:00}", "A then no B until 19:00"),
        ("([A], [B, T ⊆ {B, T, C}])_{T = 5 s}", "A starting timer T for 5 s then B else timer T without C"),
        ("[A] ; [A]", "A followed by A"),
        ("[q: A] ; [B], same k, B.x > q.x", "A as q followed by B, same k, B.x > q.x"),
        ("[A] ; [B], taking all matches, limit 3", "A followed by B, taking all matches, limit 3"),
        ("[A] where A = [x > 1 and y in {1, 2}]", "[x > 1 and y in {1, 2}] as A"),
        ("[A, B ⊆ {A, B, C}]", '[type = "A" or type = "B"] as A without C'),
        ("[A ⊆ A]", "A"),
        ("spike: [A], same where", "spike: A, same where"),
    ],
)  # fmt: skip
def test_the_notation_means_what_the_text_means(core: str, text: str) -> None:
    assert parse_core(core) == parse(text)
    assert parse_core(render_core(parse(text))) == parse(text)


def test_what_names_stand_for_is_said_behind_the_pattern() -> None:
    text = render_core(parse("Quote[price > 100] as q followed by Trade without Halt, same symbol"))
    assert text == (
        "[q] ; [Trade ⊆ {Trade, Halt}], same symbol\n"
        'where q = [type = "Quote" and price > 100], Trade = [type = "Trade"], Halt = [type = "Halt"]'
    )


@given(patterns(steps=5, depth=4))
def test_every_pattern_reads_back_from_the_notation(pattern: Pattern) -> None:
    assert parse_core(render_core(pattern)) == pattern


def test_names_that_stand_for_two_things_are_told_apart() -> None:
    for text in (
        "T1 starting timer T1 for 1 s then T2 else timer T1",
        "A as `not` followed by B as `where` without A",
        "A without A",
        "A as B without B followed by B as A",
        "A as other followed by not A among B",
        "A starting timer T for 1 s then timer T before timer T",
        "A without ([x = 1] or B) followed by B",
    ):
        assert parse_core(render_core(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("core", "column", "says"),
    [
        ("", 1, "write an atom in brackets"),
        ("A", 1, "write an atom in brackets"),
        ("[A", 3, "expected ]"),
        ("[A] ;", 6, "ends too early"),
        ("([A], [B])", 5, "a timing names its timer"),
        ("([A])_{T = 3 s}", 5, "expected ,"),
        ("[A]_{within 3 s}", 4, "applies to what is in parentheses"),
        ("[A]{2", 6, "expected }"),
        ("[A] where A", 5, 'where A = [type = "A"]'),
        ("[A] followed by [B]", 5, "expected [, ;"),
        ("([A], [B])_{T = x}", 17, "1 h"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(core: str, column: int, says: str) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse_core(core)
    assert caught.value.column == column
    assert says in str(caught.value)


@pytest.mark.parametrize("core", ["[¬A]", "[A]{3,2}", "[A], B.x > 3", "[A]*", "[A: B] ; [A: C]"])
def test_what_means_nothing_is_refused(core: str) -> None:
    with pytest.raises(FilterError):
        parse_core(core)


# -- windows as timers ---------------------------------------------------------------------------------------


def test_a_window_over_points_is_a_timer_that_the_other_steps_fail_on() -> None:
    text = render_core(parse("A followed by B followed by 2 to 3 C within 1 hour"), points=True)
    assert text.partition("\n")[0] == "([A], [B ⊆ {B, T1}] ; [C ⊆ {C, T1}]{2,3})_{T1 = 1 h}"


def test_a_window_around_timers_or_lists_stays_a_window() -> None:
    for text in ("A then no B within 5 s within 9 s", "any order of A and B within 9 s", "A or B within 9 s"):
        assert isinstance(windows_as_timers(parse(text).body), Within)


@given(
    parts(steps=2, depth=2, nodes=("sequence", "concat", "iterate", "either", "both", "within")),
    st.sampled_from((Sequence, Concat)),
    st.integers(1, 12),
    st.sampled_from(Take),
    streams(types="AB", intervals=False, odd=False),
)
def test_windows_as_timers_find_the_same_in_streams_of_points(
    rest: Part, join: type[Sequence | Concat], duration: int, take: Take, stream: list[Notification]
) -> None:
    pattern = Pattern(Within(join(Atom("head", parse_filter("true")), rest), duration), take=take)
    timed = windows_as_timers(pattern.body)
    assert isinstance(timed, Timing)
    assert found(replace(pattern, body=timed), stream) == found(pattern, stream)


def found(pattern: Pattern, stream: list[Notification]) -> list[tuple[object, ...]]:
    """What is found, without the ids, which hold the pattern's text."""
    occurrences = [Occurrence.of(*each) for each in zip(stream, order_keys(stream), strict=True)]
    return sorted(
        (each.end, *((step, taken.notification.id) for step, taken in each.constituents))
        for each in detect(pattern, occurrences)
    )
