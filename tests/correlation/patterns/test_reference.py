"""The reference detector, rule by rule: each test is a sentence of the definition, on a stream of a few events.

A stream is written `A1 B2-4 C5{x=7}`: an event A at second 1, an event B from 2 to 4, an event C with x = 7. What
is found is written as the events that were taken: `A1 B2-4`, then `@9` where a timer ended it at 9, and `?` where
it is a partial match.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import time as TimeOfDay
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.composites import Composite
from fairlead.correlation.patterns.language import parse
from fairlead.correlation.patterns.model import (
    PARTIAL,
    Atom,
    Both,
    Concat,
    Either,
    Iterate,
    Part,
    Pattern,
    Sequence,
    Take,
    Timing,
    Within,
)
from fairlead.errors import FilterError
from fairlead.filters import parse as parse_filter
from fairlead.model import Instant, Notification
from fairlead.model.encoding import fields_from_json
from fairlead.model.order import order_keys
from fairlead_lab.correlation.patterns.reference import detect, detect_all, named_types

SECOND = 1_000_000
HOUR = 3_600 * SECOND
EVENT = re.compile(r"([A-Z])(\d+)[a-z]?(?:-(\d+))?(?:\{(.*)\})?")


def events(text: str) -> list[Occurrence]:
    notifications = []
    for token in text.split():
        found = EVENT.fullmatch(token)
        assert found is not None, token
        type, first, last, given = found.groups()
        attributes = dict(pair.split("=") for pair in (given or "").split(",") if pair)
        fields: dict[str, Any] = {name: json.loads(value) for name, value in attributes.items()}
        fields |= {"type": type, "id": token.split("{")[0], "time": int(last or first) * SECOND}
        if last:
            fields["interval"] = {"start": Instant(int(first) * SECOND)}
        notifications.append(Notification.of(fields))
    return occurrences(notifications)


def occurrences(notifications: list[Notification]) -> list[Occurrence]:
    return [Occurrence.of(*each) for each in zip(notifications, order_keys(notifications), strict=True)]


def shown(composite: Composite) -> str:
    text = " ".join(occurrence.notification.id or "" for _, occurrence in composite.constituents)
    if composite.end != max(occurrence.end for _, occurrence in composite.constituents):
        text += f" @{composite.end // SECOND}"
    return text + "?" * composite.partial


def found(pattern: Pattern | Part | str, stream: str, *, until: int | None = None, **given: Any) -> list[str]:
    if isinstance(pattern, str):
        pattern = parse(pattern)
    if not isinstance(pattern, Pattern):
        pattern = Pattern(pattern, **{"take": Take.ALL, **given})
    composites = detect(pattern, events(stream), None if until is None else until * SECOND)
    assert composites == sorted(composites, key=lambda each: each.rank)
    return sorted(map(shown, composites), key=lambda text: (composites_end(text), text))


def composites_end(text: str) -> int:
    return max(int(number) for number in re.findall(r"\d+", text))


def step(type: str, name: str = "", *, domain: str = "", **timers: set[str]) -> Atom:
    """[type ⊆ domain], where types are letters."""
    return Atom(
        name or type.lower(),
        parse_filter(_types(type)) if type else None,
        domain=parse_filter(_types(domain)) if domain else None,
        **{name: frozenset(names) for name, names in timers.items()},
    )


def _types(letters: str) -> str:
    return f"type in {{{', '.join(json.dumps(letter) for letter in letters)}}}"


A, B, C, D = map(step, "ABCD")


# -- the stream, elements and their order ------------------------------------------------------------------


def test_weakly_behind_may_overlap_and_strongly_behind_may_not() -> None:
    assert found(Concat(A, B), "A1-3 B2-4") == ["A1-3 B2-4"]
    assert found(Sequence(A, B), "A1-3 B2-4") == []
    assert found(Sequence(A, B), "A1-3 B3-4") == []
    assert found(Sequence(A, B), "A1-3 B4-5") == ["A1-3 B4-5"]


def test_points_of_one_instant_strongly_follow_one_another_in_their_order() -> None:
    assert found(Sequence(A, B), "A1 B1") == ["A1 B1"]
    assert found(Sequence(B, A), "A1 B1") == []


def test_a_point_at_the_end_of_an_interval_is_behind_it_and_does_not_strongly_follow() -> None:
    assert found(Concat(A, B), "A1-3 B3") == ["A1-3 B3"]
    assert found(Concat(B, A), "A1-3 B3") == []
    assert found(Sequence(A, B), "A1-3 B3") == []


def test_of_two_intervals_with_one_end_the_one_that_started_first_comes_first() -> None:
    assert found(Concat(A, B), "B2-3 A1-3") == ["A1-3 B2-3"]
    assert found(Concat(A, B), "B1-3 A2-3") == []


def test_strength_is_about_the_element_before_only() -> None:
    assert found(Concat(Sequence(A, B), C), "A1 B2-4 C3-5") == ["A1 B2-4 C3-5"]


# -- atoms -------------------------------------------------------------------------------------------------


def test_an_atom_takes_the_first_and_skips_what_it_does_not_ask_for() -> None:
    assert found(Concat(A, C), "A1 B2 C3 C4") == ["A1 C3"]


def test_what_is_in_the_domain_and_not_taken_fails() -> None:
    assert found(Concat(A, step("C", domain="B")), "A1 B2 C3") == []
    assert found(Concat(A, step("C", domain="B")), "A1 C2 B3") == ["A1 C2"]
    assert found(Concat(A, step("C", domain="BC")), "A1 D2 C3") == ["A1 C3"]


def test_what_no_condition_holds_of_is_skipped_unless_it_is_in_the_domain() -> None:
    stream = "A1 B2{x=1} B3{x=5}"
    assert found("A followed by B, B.x > 3, taking all", stream) == ["A1 B3"]
    assert found("A followed by B among B, B.x > 3, taking all", stream) == []


def test_a_domain_speaks_of_what_is_beyond_the_point_only() -> None:
    strong, weak = (joint(A, step("C", domain="B")) for joint in (Sequence, Concat))
    assert found(strong, "A1-3 B2-4 C5") == ["A1-3 C5"]
    assert found(weak, "A1-3 B2-4 C5") == []


def test_negation_takes_all_of_a_domain_but_something() -> None:
    nobody_else = Concat(
        Concat(step("L"), Atom("o", parse_filter('type = "B"'), domain=parse_filter(_types("AB")))), A
    )
    assert found(nobody_else, "L1 B2 A3") == ["L1 B2 A3"]
    assert found(nobody_else, "L1 A2 B3 A4") == []


def test_one_step_may_take_events_of_several_sets() -> None:
    assert found(step("AB", "any"), "A1 C2 B3") == ["A1", "B3"]


# -- concatenation, iteration, alternation, parallelisation ------------------------------------------------


def test_a_pattern_may_start_anywhere() -> None:
    assert found(Concat(A, B), "A1 A2 B3 B4") == ["A1 B3", "A2 B3"]


def test_an_iteration_has_from_the_least_to_the_most_rounds() -> None:
    stream = "A1 A2 A3 B4"
    assert found(Concat(Iterate(A, 2, 2), B), stream) == ["A1 A2 B4", "A2 A3 B4"]
    assert found(Concat(Iterate(A, 2, 3), B), stream) == ["A1 A2 A3 B4", "A1 A2 B4", "A2 A3 B4"]
    assert found(Concat(Iterate(A, 0, 1), B), stream) == ["A1 B4", "A2 B4", "A3 B4", "B4"]
    assert found(Iterate(A, 2), "A1 A2 A3") == ["A1 A2", "A1 A2 A3", "A2 A3"]


def test_rounds_of_an_iteration_follow_one_another_weakly() -> None:
    assert found(Iterate(Sequence(A, B), 2, 2), "A1 B2-5 A3-6 B7") == ["A1 B2-5 A3-6 B7"]


def test_what_an_iteration_repeats_may_fail() -> None:
    assert found(Concat(A, Iterate(step("B", domain="C"), 2, 2)), "A1 B2 C3 B4") == []


def test_where_the_first_part_took_nothing_the_second_is_matched_from_the_same_point() -> None:
    optional = Concat(Iterate(B, 0, 1), C)
    assert found(Sequence(A, optional), "A1-3 C2-4 C5") == ["A1-3 C5"]
    assert found(Sequence(Iterate(A, 0, 1), B), "B1") == ["B1"]
    assert found(Concat(A, Sequence(Iterate(B, 0, 1), C)), "A1-3 C2-4") == ["A1-3 C2-4"]


def test_an_alternation_is_a_match_of_either() -> None:
    assert found(Either((Concat(A, B), C)), "A1 C2 B3") == ["C2", "A1 B3"]


def test_a_parallelisation_takes_any_interleaving_and_ends_with_the_later_one() -> None:
    both = Both((Concat(A, B), Concat(C, D)))
    assert found(both, "A1 C2 D3 B4") == ["A1 C2 D3 B4"]
    assert found(both, "C1 A2 B3 D4") == ["C1 A2 B3 D4"]
    assert found(Concat(Both((A, B)), C), "B1 C2 A3 C4") == ["B1 A3 C4"]
    assert found(Both((A, B)), "A1 A2") == []


def test_branches_may_take_one_element_and_their_constituents_are_ordered_by_step() -> None:
    pattern = Pattern(Both((step("AB", "z"), step("AC", "y"))))
    (composite,) = detect(pattern, events("A1"))
    assert [name for name, _ in composite.constituents] == ["z", "y"]
    assert found(Both((A, step("A", "again"))), "A1 A2") == ["A1 A1", "A2 A2"]


def test_both_branches_begin_at_the_same_point() -> None:
    assert found(Concat(C, Both((A, step("B", domain="D")))), "C1 A2 D3 B4") == []
    assert found(Both((A, B)), "A1 B2 A3 B4") == ["A1 B2", "B2 A3", "A3 B4"]


# -- timing ------------------------------------------------------------------------------------------------


def in_time(spec: Any) -> Timing:
    return Timing(A, step("B", domain_timers={"T"}), "T", spec)


def absence(spec: Any) -> Timing:
    return Timing(A, step("", "none", domain="B", timers={"T"}), "T", spec)


def test_a_timer_goes_off_behind_all_that_ends_at_its_instant() -> None:
    assert found(in_time(5 * SECOND), "A1 B6") == ["A1 B6"]
    assert found(in_time(5 * SECOND), "A1 B7") == []
    assert found(absence(5 * SECOND), "A1 B6") == []
    assert found(absence(5 * SECOND), "A1 B7") == ["A1 @6"]


def test_a_timer_starts_at_the_end_of_an_interval() -> None:
    assert found(in_time(5 * SECOND), "A1-3 B8") == ["A1-3 B8"]


def test_a_timer_has_gone_off_when_time_is_known_to_have_passed_its_deadline() -> None:
    assert found(absence(5 * SECOND), "A1", until=6) == []
    assert found(absence(5 * SECOND), "A1", until=7) == ["A1 @6"]
    assert found(absence(5 * SECOND), "A1 C6", until=2) == []
    assert found(absence(5 * SECOND), "A1 C7", until=2) == ["A1 @6"]


def test_what_follows_a_time_event_is_behind_it() -> None:
    late = Concat(absence(5 * SECOND), C)
    assert found(late, "A1 C6 C7") == ["A1 C7"]
    assert found(Sequence(absence(5 * SECOND), C), "A1 C6-8 C7-9") == ["A1 C7-9"]


def test_a_timer_may_be_set_to_an_instant_and_goes_off_at_once_where_that_has_passed() -> None:
    assert found(absence(Instant(4 * SECOND)), "A1 A6") == ["A1 @4", "A6"]
    assert found(in_time(Instant(4 * SECOND)), "A1 B4") == ["A1 B4"]
    assert found(in_time(Instant(4 * SECOND)), "A1 B5") == []
    assert found(in_time(Instant(4 * SECOND)), "A6 B6 B7") == ["A6 B6"]
    assert found(in_time(Instant(4 * SECOND)), "A6 B7") == []


def test_a_timer_may_be_set_to_the_next_time_of_day() -> None:
    day = 24 * 3600
    assert found(absence(TimeOfDay(1, 0, 5)), "A1") == ["A1 @3605"]
    assert found(absence(TimeOfDay(0, 0, 1)), "A2") == [f"A2 @{day + 1}"]
    assert found(absence(TimeOfDay(0, 0, 1)), f"A{5 * day}") == [f"A{5 * day} @{5 * day + 1}"]
    assert found(absence(TimeOfDay(0, 0, 2)), "A2") == [f"A2 @{day + 2}"]


def test_of_timers_that_go_off_at_once_the_smaller_name_comes_first() -> None:
    def race(outer: str, inner: str) -> Part:
        awaited = step("", "none", timers={"b"}, domain_timers={"a"})
        return Timing(A, Timing(B, awaited, inner, 4 * SECOND), outer, 5 * SECOND)

    assert found(race("a", "b"), "A1 B2") == []
    assert found(race("b", "a"), "A1 B2") == []
    first = Timing(
        A, Timing(B, step("", "n", timers={"a"}, domain_timers={"b"}), "b", 4 * SECOND), "a", 5 * SECOND
    )
    assert found(first, "A1 B2") == ["A1 B2 @6"]


def test_a_timer_that_goes_off_at_once_is_behind_the_time_event_that_started_it() -> None:
    passed = Timing(absence(5 * SECOND), step("", "later", timers={"A"}), "A", Instant(0))
    assert found(passed, "A1") == ["A1 @6"]


def test_branches_see_one_time_event() -> None:
    ends = Both((step("", "one", timers={"T"}), step("BC", "other", domain_timers={"T"})))
    assert found(Timing(A, ends, "T", 5 * SECOND), "A1 B2") == ["A1 B2 @6"]
    assert found(Timing(A, ends, "T", 5 * SECOND), "A1 B7") == []


def test_a_step_may_take_an_event_or_a_time_event_which_no_condition_is_asked_of() -> None:
    text = "A starting timer T for 5 s then B else timer T, B.x > 3, taking all"
    assert found(text, "A1 B2{x=9}") == ["A1 B2"]
    assert found(text, "A1 B2{x=1}") == ["A1 @6"]


def test_a_timer_is_started_anew_in_each_round() -> None:
    rounds = Iterate(in_time(3 * SECOND), 2, 2)
    assert found(rounds, "A1 B2 A5 B8") == ["A1 B2 A5 B8"]
    assert found(rounds, "A1 B2 A5 B9") == []


# -- windows -----------------------------------------------------------------------------------------------


def test_a_window_includes_its_edge() -> None:
    assert found(Within(Concat(A, B), 5 * SECOND), "A1 B6") == ["A1 B6"]
    assert found(Within(Concat(A, B), 5 * SECOND), "A1 B7") == []


def test_a_window_begins_at_the_least_start() -> None:
    assert found(Within(Concat(A, B), 5 * SECOND), "A4 B2-7") == ["A4 B2-7"]
    assert found(Within(Concat(A, B), 5 * SECOND), "A4 B1-7") == []


def test_a_window_does_not_choose_what_is_taken() -> None:
    assert found(Concat(Within(Concat(A, B), 2 * SECOND), C), "A1 B4 B5 C6") == []


def test_a_window_ends_with_the_time_event_that_ends_the_match() -> None:
    assert found(Within(absence(5 * SECOND), 5 * SECOND), "A1") == ["A1 @6"]
    assert found(Within(absence(5 * SECOND), 4 * SECOND), "A1") == []


def test_windows_nest() -> None:
    nested = Within(Concat(Within(Concat(A, B), 2 * SECOND), Within(Concat(C, D), 2 * SECOND)), 9 * SECOND)
    assert found(nested, "A1 B3 C8 D10") == ["A1 B3 C8 D10"]
    assert found(nested, "A1 B3 C8 D11") == []
    assert found(nested, "A1 B4 C5 D6") == []
    assert found(nested, "A1 B3 C9 D11") == []


# -- same --------------------------------------------------------------------------------------------------


def test_same_looks_at_each_value_apart() -> None:
    text = "A followed by B, same x"
    assert found(text, 'A1{x=1} A2{x="a"} B3{x="a"} B4{x=1.0}') == ["A2 B3", "A1 B4"]
    assert found(text, "A1{x=true} B2{x=1}") == []
    assert found(text, "A1{x=null} B2{x=null}") == ["A1 B2"]


def test_what_has_no_value_or_none_that_equals_itself_takes_no_part() -> None:
    assert found("A followed by B, same x", "A1 B2") == []
    assert found("A followed by B, same x", "A1{x=NaN} B2{x=NaN}") == []
    assert found("A followed by B without C, same x", "A1{x=1} C2 C3{x=2} B4{x=1}") == ["A1 B4"]
    assert found("A followed by B without C, same x", "A1{x=1} C2{x=1} B4{x=1}") == []


def test_same_may_name_several_attributes_and_taking_is_for_each_apart() -> None:
    text = "A followed by B, same x and y"
    stream = "A1{x=1,y=1} A2{x=1,y=2} B3{x=1,y=1} B4{x=1,y=2} A5{x=1} B6{x=1}"
    assert found(text, stream) == ["A1 B3", "A2 B4"]


# -- conditions --------------------------------------------------------------------------------------------


def test_a_condition_chooses_what_a_step_takes() -> None:
    assert found("A followed by B, B.x > A.x", "A1{x=3} B2{x=2} B3{x=4}") == ["A1 B3"]
    assert found("A followed by B, A.x < B.x + 2 and A.x > 1", "A1{x=1} A2{x=3} B3{x=1} B4{x=2}") == ["A2 B4"]


def test_absent_values_and_values_of_different_kinds_satisfy_nothing() -> None:
    assert found("A followed by B, B.x != A.x", "A1{x=3} B2 B3{x=true} B4{x=4}") == ["A1 B4"]
    assert found("A followed by B, B.x != A.x", "A1 B2{x=1}") == []


def test_what_is_not_bound_is_not_asked_about() -> None:
    text = "optional A followed by B, B.x > A.x, taking all"
    assert found(text, "A1{x=3} B2{x=2}") == ["B2"]
    assert found("(A or C) followed by B, B.x > A.x, B.x > C.x", "C1{x=3} B2{x=4}") == ["C1 B2"]


def test_a_condition_within_an_iteration_is_asked_in_each_round() -> None:
    climbing = "exactly 2 (A followed by B), B.x > A.x, taking all"
    assert found(climbing, "A1{x=1} B2{x=5} A3{x=2} B4{x=3}") == ["A1 B2 A3 B4"]
    assert found(climbing, "A1{x=1} B2{x=5} A3{x=6} A4{x=2} B5{x=7}") == ["A1 B2 A3 B5"]
    assert found(climbing, "A1{x=1} B2{x=5} A3{x=6} A4{x=2} B5{x=4} B6{x=7}") == ["A1 B2 A3 B6"]


def test_a_step_is_compared_with_what_it_took_before() -> None:
    rising = "2 or more A, A.x > last(A.x), taking all"
    assert found(rising, "A1{x=1} A2{x=5} A3{x=3} A4{x=6}") == ["A1 A2", "A1 A2 A4", "A2 A4", "A3 A4"]
    above = "3 or more A, A.x >= avg(A.x), taking all"
    assert found(above, "A1{x=1} A2{x=4} A3{x=2} A4{x=3}") == ["A1 A2 A4"]


def test_aggregates_speak_of_all_that_was_taken() -> None:
    stream = "A1{x=5} A2{x=1} A3{x=3} B4{x=4}"
    rows = {
        "count(A) = B.x - 1": True,
        "sum(A.x) = 2 * B.x + 1": True,
        "min(A.x) < max(A.x)": True,
        "avg(A.x) = 3": True,
        "first(A.x) > B.x": True,
        "last(A.x) > B.x": False,
        "A.x < B.x": True,
        "max(A.x) < B.x": False,
    }
    for condition, holds in rows.items():
        assert found(f"exactly 3 A followed by B, {condition}", stream) == ["A1 A2 A3 B4"] * holds, condition


def test_what_names_no_step_plainly_is_asked_of_the_complete_match() -> None:
    text = "1 or more A followed by B, count(A) >= 2 and sum(A.x) < 9, taking all"
    assert found(text, "A1{x=5} A2{x=3} A3{x=2} B4") == ["A1 A2 B4", "A2 A3 B4"]


def test_sums_are_exact() -> None:
    assert found("exactly 3 A, sum(A.x) = 0.3", "A1{x=0.1} A2{x=0.1} A3{x=0.1}") == ["A1 A2 A3"]


def test_what_names_steps_of_different_branches_is_asked_of_the_complete_match() -> None:
    text = "any order of A and B, A.x < B.x, taking all"
    assert found(text, "A1{x=1} B2{x=2}") == ["A1 B2"]
    assert found(text, "A1{x=3} B2{x=2} B3{x=4}") == []
    within = "(any order of A and B) followed by C, C.x > A.x, taking all"
    assert found(within, "A1{x=3} B2 C3{x=2} C4{x=4}") == ["A1 B2 C4"]


def test_what_is_not_to_happen_is_compared_with_what_was_taken() -> None:
    text = "A then no B within 5 s as n, n.x > A.x, taking all"
    assert found(text, "A1{x=3} B2{x=3}") == ["A1 @6"]
    assert found(text, "A1{x=3} B2{x=3} B3{x=4}") == []
    assert found(text, "A1{x=3} B2{x=4} A3{x=9} B4{x=8}") == ["A3 @8"]
    assert found(text, "A1{x=3} B2") == ["A1 @6"]
    total = "1 or more A then no B within 5 s as n, n.x > sum(A.x), taking all"
    assert found(total, "A1{x=1} A2{x=2} B3{x=3}") == ["A1 A2 @7"]


def test_times_have_arithmetic_with_durations() -> None:
    text = "A followed by B, B.time >= A.time + 2 s and B.time - 4 s < A.time, taking all"
    assert found(text, "A1 B2 B3 B5") == ["A1 B3"]
    assert found("A followed by B, B.x > A.x + 2 s", "A1{x=1} B2{x=9000000}") == []
    (composite,) = detect(parse("A giving due = A.time + 5 s".replace(" giving", ", giving")), events("A1"))
    assert composite.outputs == (("due", Instant(6 * SECOND)),)


def test_which_match_is_first_does_not_depend_on_the_order_of_alternatives() -> None:
    one, other = "(B as s0 followed by B as s1 followed by C)", "(B as s2 followed by A followed by C as c2)"
    for take in ("past the last", "the first", "one for each start"):
        for alternatives in (f"{one} or {other}", f"{other} or {one}"):
            assert found(f"{alternatives}, taking {take}", "B1 A2 B3 C4")[0] == "B1 A2 C4"
    for alternatives in (f"{one} or {other}", f"{other} or {one}"):
        assert found(f"{alternatives}, taking all, limit 1", "B1 A2 B3 C4") == ["B1 A2 C4"]
        assert found(f"{alternatives}, taking the most recent", "B1 A2 B3 C4") == ["B1 B3 C4"]


# -- what is taken -----------------------------------------------------------------------------------------

EACH_WAY = {Take.PAST, Take.ALL, Take.NEXT, Take.FIRST, Take.RECENT}


def each_way(body: Part, stream: str, **expected: list[str]) -> None:
    for take in EACH_WAY:
        assert found(body, stream, take=take) == expected[take.value], take


def test_the_five_ways_to_take_a_pair() -> None:
    each_way(
        Concat(A, B),
        "A1 A2 B3 B4",
        all=["A1 B3", "A2 B3"],
        past=["A1 B3"],
        next=["A1 B3", "A2 B3"],
        first=["A1 B3", "A2 B4"],
        recent=["A2 B3"],
    )


def test_the_five_ways_to_take_an_iteration_that_something_ends() -> None:
    each_way(
        Concat(Iterate(A, 1), B),
        "A1 A2 B3 A4 B5",
        all=["A1 A2 B3", "A1 B3", "A2 B3", "A1 A2 A4 B5", "A2 A4 B5", "A4 B5"],
        past=["A1 A2 B3", "A4 B5"],
        next=["A1 A2 B3", "A2 B3", "A4 B5"],
        first=["A1 A2 B3", "A4 B5"],
        recent=["A2 B3", "A4 B5"],
    )


def test_the_five_ways_to_take_an_iteration_that_nothing_ends() -> None:
    each_way(
        Iterate(A, 2),
        "A1 A2 A3 A4",
        all=["A1 A2", "A1 A2 A3", "A2 A3", "A1 A2 A3 A4", "A2 A3 A4", "A3 A4"],
        past=["A1 A2", "A3 A4"],
        next=["A1 A2", "A2 A3", "A3 A4"],
        first=["A1 A2", "A3 A4"],
        recent=["A1 A2", "A3 A4"],
    )


def test_the_five_ways_to_take_what_ends_at_one_instant() -> None:
    each_way(
        Timing(Iterate(A, 1), step("", "quiet", timers={"T"}), "T", Instant(9 * SECOND)),
        "A1 A2",
        all=["A1 @9", "A1 A2 @9", "A2 @9"],
        past=["A1 A2 @9"],
        next=["A1 A2 @9", "A2 @9"],
        first=["A1 A2 @9"],
        recent=["A2 @9"],
    )
    each_way(
        absence(5 * SECOND),
        "A1 A1b",
        all=["A1 @6", "A1b @6"],
        past=["A1 @6", "A1b @6"],
        next=["A1 @6", "A1b @6"],
        first=["A1 @6", "A1b @6"],
        recent=["A1b @6"],
    )


def test_two_matches_with_the_same_constituents_and_end_are_one() -> None:
    ends = Either((step("", "one", timers={"T"}), step("", "two", timers={"T"})))
    assert found(Timing(A, ends, "T", 5 * SECOND), "A1") == ["A1 @6"]


def test_a_limit_keeps_the_first_ones_of_each_end() -> None:
    assert found(Concat(Iterate(A, 1), B), "A1 A2 A3 B4 A5 B6", limit=2) == [
        "A1 A2 A3 B4",
        "A1 A2 B4",
        "A1 A2 A3 A5 B6",
        "A2 A3 A5 B6",
    ]


def test_of_two_steps_that_take_one_event_the_one_that_is_written_first_comes_first() -> None:
    (composite,) = detect(Pattern(Either((step("A", "z"), step("A", "a")))), events("A1"))
    assert composite.constituents[0][0] == "z"


def test_consumed_events_are_skipped_by_steps_and_not_by_domains() -> None:
    pattern = "A followed by B without C, taking the first"
    assert found(pattern, "A1 A2 B3 B4") == ["A1 B3", "A2 B4"]
    consumed = Either((Sequence(A, step("C", "c1")), Sequence(step("B"), step("D", domain="C"))))
    assert found(consumed, "A1 B2 C3 D4", take=Take.FIRST) == ["A1 C3"]
    assert found(consumed, "A1 B2 D4", take=Take.FIRST) == ["B2 D4"]


def test_a_match_of_several_steps_starts_with_its_first_constituent() -> None:
    assert found(Both((A, B)), "B1 A2 A3 B4", take=Take.PAST) == ["B1 A2", "A3 B4"]
    assert found(Both((A, B)), "B1 A2 A3 B4", take=Take.NEXT) == ["B1 A2", "A2 B4", "A3 B4"]


# -- partial matches ---------------------------------------------------------------------------------------


def partly(body: Part, stream: str, take: Take = Take.PAST, until: int | None = None) -> list[str]:
    return found(Within(body, 5 * SECOND), stream, take=take, partial=True, until=until)


def test_what_waits_when_its_window_is_over_is_reported() -> None:
    assert partly(Concat(A, B), "A1") == ["A1 @6?"]
    assert partly(Concat(A, B), "A1 B6") == ["A1 B6"]
    assert partly(Concat(A, B), "A1 B7") == ["A1 @6?"]


def test_a_partial_match_is_reported_when_time_has_passed_its_deadline() -> None:
    assert partly(Concat(A, B), "A1", until=6) == []
    assert partly(Concat(A, B), "A1", until=7) == ["A1 @6?"]


def test_what_has_failed_does_not_wait() -> None:
    assert partly(Concat(A, step("B", domain="C")), "A1 C2") == []
    assert partly(Both((Concat(A, step("B", domain="C")), D)), "A1 C2") == []


def test_the_one_that_got_furthest_is_reported() -> None:
    assert partly(Concat(Iterate(A, 1), B), "A1 A2") == ["A1 A2 @6?", "A2 @7?"]
    assert partly(Both((Concat(A, B), C)), "A1 B2") == ["A1 B2 @6?"]


def test_what_may_no_longer_start_a_match_has_no_partial_match() -> None:
    stream = "A1 A2 B3"
    assert partly(Concat(A, B), stream, Take.PAST) == ["A1 B3"]
    assert partly(Concat(A, B), stream, Take.RECENT) == ["A2 B3"]
    assert partly(Concat(A, B), stream, Take.NEXT) == ["A1 B3", "A2 B3"]
    assert partly(Concat(A, B), stream, Take.ALL) == ["A1 B3", "A2 B3"]
    assert partly(Concat(A, B), stream, Take.FIRST) == ["A1 B3", "A2 @7?"]


def test_a_match_that_may_go_on_was_taken_and_is_not_reported() -> None:
    assert partly(Iterate(A, 2), "A1 A2") == ["A1 A2"]
    assert partly(Iterate(A, 2), "A1 A2", Take.NEXT) == ["A1 A2", "A2 @7?"]


def test_a_match_that_a_timer_completes_with_its_window_is_complete() -> None:
    assert partly(absence(5 * SECOND), "A1") == ["A1 @6"]
    assert partly(absence(6 * SECOND), "A1") == ["A1 @6?"]


def test_a_match_whose_inner_window_is_over_does_not_wait() -> None:
    nested = Concat(Within(Concat(A, B), 2 * SECOND), C)
    assert partly(nested, "A1") == []
    assert partly(nested, "A1 B3") == ["A1 B3 @6?"]
    assert partly(Concat(Concat(A, B), C), "A4 B2-6") == []


def test_partial_matches_are_for_each_value_apart() -> None:
    text = "A followed by B within 5 s, same x, with partial matches"
    assert found(text, "A1{x=1} A2{x=2} B3{x=2}") == ["A2 B3", "A1 @6?"]


def test_conditions_on_the_complete_match_are_not_asked_of_a_partial_one() -> None:
    text = "1 or more A followed by B within 5 s, count(A) > 5, with partial matches"
    assert found(text, "A1 B2") == ["A1 @6?"]
    assert found("A followed by B within 5 s, sum(A.x) > 5, with partial matches", "A1{x=1}") == ["A1 @6?"]
    assert found("A followed by B within 5 s, sum(A.x) > 5, with partial matches", "A1{x=1} B2") == []


# -- composites --------------------------------------------------------------------------------------------


def test_a_composite_spans_its_constituents_and_carries_what_is_asked_for() -> None:
    text = "rise: 1 or more A followed by B, giving n = count(A), total = sum(A.x), top = 2 * B.x, none = B.y"
    (composite,) = detect(parse(text), events("A1-3{x=0.1} A4{x=0.2} B5{x=7}"))
    assert (composite.start, composite.end) == (1 * SECOND, 5 * SECOND)
    assert composite.outputs == (("n", 2), ("total", 0.3), ("top", 14))
    assert composite.notification().get("type") == "rise"


def test_nothing_but_the_elements_of_the_stream_enters() -> None:
    pattern = parse("1 or more A followed by B, taking all")
    stream = events("A1 A2 A3 B4 A5 B6")
    ids = [composite.id for composite in detect(pattern, stream)]
    assert ids == [composite.id for composite in detect(pattern, reversed(stream))]
    assert len(set(ids)) == len(ids) == 10


def test_patterns_see_the_composites_whose_type_they_name() -> None:
    pair = parse("pair: A followed by B")
    over = parse("over: pair followed by C")
    deaf = parse("deaf: [exists id] as it followed by C, taking all")
    assert everything([over, deaf, pair], "A1 B2 C3") == {
        "pair": ["A1 B2"],
        "over": ["pair C3"],
        "deaf": ["A1 C3", "B2 C3"],
    }


def test_a_composite_stands_before_the_points_of_the_instant_at_which_it_ends() -> None:
    pair = parse("pair: A followed by B")
    assert everything([pair, parse("again: pair weakly followed by B")], "A1 B2 B3")["again"] == ["pair B2"]
    assert everything([pair, parse("again: pair followed by B")], "A1 B2 B3")["again"] == ["pair B3"]


def test_partial_matches_are_seen_under_their_own_type() -> None:
    pair = parse("pair: A followed by B within 5 s, with partial matches")
    alarm = parse("alarm: pair.partial as lost followed by C")
    whole = parse("whole: pair followed by C")
    seen = everything([alarm, whole, pair], "A1 B2 A3 C9")
    assert (seen["alarm"], seen["whole"]) == (["pair.partial C9"], ["pair C9"])


def test_no_pattern_sees_its_own_composites() -> None:
    for text in (
        "loop: loop followed by A",
        "pair: (A or pair) followed by B",
        "pair: A followed by B without pair",
        'pair: [type in {"A", "pair"}] as a followed by B',
        "pair: pair.partial as a followed by B within 1 s, with partial matches",
        "composite followed by A",
    ):
        with pytest.raises(FilterError, match="names the type of its own composites"):
            parse(text)
    parse("over: composite followed by A")
    with pytest.raises(FilterError, match="own composites"):
        detect_all([parse("one: A or two"), parse("two: B or one")], events("A1"))


def test_a_pattern_names_types_by_equality_and_by_lists() -> None:
    pattern = parse('[type in {"a", "b"}] as x followed by [type = "c" and type != "d"] as y without E')
    assert named_types(pattern) == {"a", "b", "c", "E"}


def everything(patterns: Iterable[Pattern], stream: str) -> dict[str, list[str]]:
    """What is found by the name of the pattern, with composites called by their type."""
    by_name: dict[str, list[str]] = {}
    for composite in detect_all(patterns, events(stream)):
        names = [
            str(occurrence.notification.get("type") if occurrence.rank[2] else occurrence.notification.id)
            for _, occurrence in composite.constituents
        ]
        by_name.setdefault(composite.pattern.name + PARTIAL * composite.partial, []).append(" ".join(names))
    return by_name


# -- worked examples ---------------------------------------------------------------------------------------

CORPUS = json.loads((Path(__file__).parents[2] / "corpus" / "patterns.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", CORPUS, ids=[row["name"] for row in CORPUS])
def test_every_row_of_the_corpus_has_its_composites(row: dict[str, Any]) -> None:
    notifications = [Notification.of(fields_from_json(event)) for event in row["events"]]
    until = Instant.parse(row["until"]).microseconds if "until" in row else None
    composites = detect_all(map(parse, row["patterns"]), occurrences(notifications), until)
    assert sorted(map(as_row, composites), key=str) == sorted(row["composites"], key=str)


def as_row(composite: Composite) -> dict[str, Any]:
    """As the corpus has it; composites among the constituents are called by their type and start."""
    return {
        "type": composite.notification().get("type"),
        "constituents": [[step, _called(occurrence)] for step, occurrence in composite.constituents],
        "start": str(Instant(composite.start)),
        "end": str(Instant(composite.end)),
    }


def _called(occurrence: Occurrence) -> Any:
    notification = occurrence.notification
    if occurrence.rank[2]:
        return f"{notification.get('type')} {Instant(occurrence.start).datetime():%H:%M}"
    return notification.id


@given(st.lists(st.sampled_from("BPMX"), max_size=8))
def test_two_cooperating_detectors_find_what_one_finds(types: list[str]) -> None:
    stream = events(" ".join(f"{type}{n}" for n, type in enumerate(types)))
    pair, over = parse("pair: B followed by P, taking all"), parse("either: pair or M, taking all")
    one = detect(parse("either: (B followed by P) or M, taking all"), stream)
    two = [each for each in detect_all([over, pair], stream) if each.pattern == over]
    assert [(each.start, each.end) for each in one] == [(each.start, each.end) for each in two]
