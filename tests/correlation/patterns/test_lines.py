"""Lines against the detector: the same matches, whatever the line, the stream and how it was cut into keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.detector import Detector
from fairlead.correlation.patterns.language import parse
from fairlead.correlation.patterns.lines import Values, line_of, matches_of
from fairlead.correlation.patterns.model import Pattern, Take
from fairlead.filters import Filter
from fairlead.matching.brute import Brute
from fairlead.model import Notification
from fairlead.model.order import END, order_keys
from fairlead_lab.testing.patterns import streams

SORTS = ("A", "B", "C", "A[x > 1]", "B[x > 0]", "[x > 1]", "[true]", "(A or B)")
FIRSTS = SORTS[:-1]


@st.composite
def lines(draw: st.DrawFn) -> Pattern:
    """Patterns that are lines, of up to four steps."""
    text, names = "", []
    for number in range(draw(st.integers(1, 4))):
        name = f"s{number}"
        sort = draw(st.sampled_from(FIRSTS))
        rounds = draw(st.sampled_from(("", "", "", "1 or more ", "2 or more ", "exactly 2 ")))
        without = draw(st.sampled_from(("", "", "", " without C", " without [x > 2]"))) if not rounds else ""
        link = draw(st.sampled_from((" followed by ", " weakly followed by ", " then "))) if number else ""
        if link == " then ":
            text += f" then {sort} as {name}{without} before {draw(st.integers(1, 9))} us"
            rounds = ""
        else:
            text += (
                f"{link}{rounds}{sort} as {name}{without}"
                if not rounds
                else f"{link}{rounds}{sort} as {name}"
            )
        names += [] if rounds else [name]
    if draw(st.sampled_from((False, False, True))):
        text += f" then no {draw(st.sampled_from(SORTS))} within {draw(st.integers(1, 9))} us as quiet"
    if draw(st.booleans()):
        text += f" within {draw(st.integers(1, 15))} us"
    text += draw(st.sampled_from(("", ", same k")))
    for _ in range(draw(st.integers(0, 2)) if len(names) > 1 else 0):
        one, other = draw(st.permutations(names))[:2]
        text += f", {one}.x {draw(st.sampled_from(('<', '<=', '>', '>=', '=', '!=')))} {other}.x"
    pattern = replace(parse(text), take=draw(st.sampled_from((Take.PAST, Take.NEXT, Take.ALL))))
    if pattern.take is Take.ALL:
        pattern = replace(pattern, limit=draw(st.sampled_from((1000, 1, 2))))
    return pattern


class Columns:
    """A stream as columns, in the plainest way."""

    def __init__(self, pattern: Pattern, given: Sequence[Occurrence]) -> None:
        keyed = [
            each for each in given if all(each.notification.get(name) in (0, 1, 2) for name in pattern.same)
        ]
        self.rows = sorted(
            keyed, key=lambda each: (*(each.notification.get(name) for name in pattern.same), each.rank)
        )
        keys = [tuple(each.notification.get(name) for name in pattern.same) for each in self.rows]
        self.segments = np.array([sorted(set(keys)).index(key) for key in keys], np.int64)
        self.times = np.array([each.end for each in self.rows], np.int64)

    def positions(self, filter: Filter) -> Any:
        fitting = [at for at, each in enumerate(self.rows) if filter.matches(each.notification)]
        return np.array(fitting, np.int64)

    def values(self, attribute: str) -> Values:
        found = [each.notification.get(attribute) for each in self.rows]
        valid = [type(each) in (int, float) and not isnan(each) for each in found]
        numbers = [each if ok else 0 for each, ok in zip(found, valid, strict=True)]
        return Values(np.array(numbers, np.float64), np.array(valid, np.bool_), "number")


@given(lines(), streams(max_size=14, intervals=False, odd=False))
@settings(max_examples=400)
def test_a_line_has_the_matches_that_the_detector_takes(pattern: Pattern, given: list[Notification]) -> None:
    check(pattern, given)


@given(lines(), streams(max_size=14, intervals=False))
@settings(max_examples=100)
def test_what_cannot_be_compared_satisfies_nothing(pattern: Pattern, given: list[Notification]) -> None:
    values = [each.get("x") for each in given]
    if not any(type(each) is str or each is None for each in values):
        check(pattern, given)


def check(pattern: Pattern, given: list[Notification]) -> None:
    line = line_of(pattern)
    if line is None:
        return
    stream = sorted(map(Occurrence.of, given, order_keys(given)))
    detector = Detector(Brute())
    detector.add("p", pattern)
    for occurrence in stream:
        detector.feed(occurrence)
    wanted = [
        (each.composite.end, [(step, taken.notification.id) for step, taken in each.composite.constituents])
        for each in detector.advance(END)
    ]
    columns = Columns(pattern, stream)
    found = matches_of(line, columns)
    shown = [
        (
            int(found.ends[number]),
            [
                (line.steps[step].name, columns.rows[at].notification.id)
                for at, step in zip(
                    found.taken[found.offsets[number] : found.offsets[number + 1]],
                    found.steps[found.offsets[number] : found.offsets[number + 1]],
                    strict=True,
                )
            ],
        )
        for number in range(len(found))
    ]
    assert sorted(shown) == sorted(wanted), str(pattern)


@pytest.mark.parametrize(
    "text",
    [
        "A followed by B within 1 hour, same k",
        "A followed by 1 or more B followed by C, taking one for each start",
        "exactly 3 A within 10 s",
        "3 or more A",
        "A then no B within 5 s",
        "A then B before 5 s pass",
        "A followed by B without C, B.x > A.x",
        "A followed by B, taking all matches",
    ],
)
def test_what_is_a_line(text: str) -> None:
    assert line_of(parse(text)) is not None


@pytest.mark.parametrize(
    "text",
    [
        "A or B",
        "any order of A and B",
        "A followed by optional B followed by C",
        "A followed by 1 or more B followed by C, taking all matches",
        "A followed by 1 or more B followed by C without X",
        "3 or more A, taking all matches",
        "A followed by B, taking the first",
        "A followed by B within 1 s, with partial matches",
        "1 or more A as a followed by B, sum(a.x) > 5",
        "A followed by B, B.x > A.x + 1",
        "A then no B within 5 s as n, n.x > A.x",
        "A then no B within 5 s followed by C",
    ],
)
def test_what_is_none(text: str) -> None:
    assert line_of(parse(text)) is None
