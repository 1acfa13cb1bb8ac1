"""The detector against the reference: the same composites, whatever the pattern and the stream."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.correlation.patterns.composites import Composite
from fairlead.correlation.patterns.detector import Detector, Found
from fairlead.correlation.patterns.language import parse
from fairlead.correlation.patterns.model import Pattern
from fairlead.correlation.patterns.occurrences import Occurrence
from fairlead.correlation.patterns.reference import detect
from fairlead.errors import FilterError
from fairlead.matching.brute import Brute
from fairlead.model import Notification
from fairlead.model.encoding import notification_to_json
from fairlead.model.order import END, order_keys
from fairlead.testing.patterns import patterns, streams


def occurrences(notifications: Iterable[Notification]) -> list[Occurrence]:
    """Notifications at their places."""
    given = list(notifications)
    return sorted(map(Occurrence.of, given, order_keys(given)))


def shown(composites: Iterable[Composite]) -> list[object]:
    """What is compared."""
    return [
        (
            each.end,
            each.partial,
            [(step, taken.notification.id) for step, taken in each.constituents],
            each.outputs,
        )
        for each in composites
    ]


def detector_of(several: Iterable[Pattern], *, remembers: bool = False) -> Detector:
    """A detector of several patterns."""
    detector = Detector(Brute(), remembers=remembers)
    for number, pattern in enumerate(several):
        detector.add(f"p{number}", replace(pattern, name=f"n{number}"))
    return detector


def as_json(found: Iterable[Found]) -> list[object]:
    """Composites to the byte."""
    return [(each.ids, notification_to_json(each.composite.notification())) for each in found]


def found(pattern: Pattern, stream: list[Occurrence], *, bounds: Iterable[int] = ()) -> list[Composite]:
    """What the detector finds, told of the time in steps."""
    detector = Detector(Brute())
    detector.add("p", pattern)
    for occurrence in stream:
        detector.feed(occurrence)
    return [each.composite for bound in (*bounds, END) for each in detector.advance(bound)]


@given(patterns(), streams())
@settings(max_examples=200)
def test_the_detector_finds_what_the_definition_says(pattern: Pattern, given: list[Notification]) -> None:
    stream = occurrences(given)
    assert shown(found(pattern, stream)) == shown(detect(pattern, stream)), str(pattern)


@given(patterns(), streams(), st.lists(st.integers(0, 40), max_size=4).map(sorted))
@settings(max_examples=50)
def test_it_does_not_matter_when_time_is_told(
    pattern: Pattern, given: list[Notification], bounds: list[int]
) -> None:
    stream = occurrences(given)
    assert shown(found(pattern, stream, bounds=bounds)) == shown(found(pattern, stream)), str(pattern)


@given(st.lists(patterns(), min_size=1, max_size=3), streams(), st.integers(0, 40))
@settings(max_examples=100)
def test_a_detector_goes_on_where_another_one_was_left(
    several: list[Pattern], given: list[Notification], bound: int
) -> None:
    stream = occurrences(given)
    whole, first, second = (detector_of(several, remembers=True) for _ in range(3))
    for occurrence in stream:
        whole.feed(occurrence)
        first.feed(occurrence)
    expected = as_json([*whole.advance(bound), *whole.advance(END)])
    found = first.advance(bound)
    second.resume(json.loads(json.dumps(first.kept())))
    assert as_json([*found, *second.advance(END)]) == expected


def test_a_condition_on_a_single_event_is_asked() -> None:
    given = [Notification.of({"type": "A", "x": x, "time": x, "id": str(x)}) for x in range(4)]
    pattern = parse("A, A.x > 1, taking all matches")
    assert [each.constituents[0][1].end for each in found(pattern, occurrences(given))] == [2, 3]


def test_a_circle_of_patterns_is_refused_and_leaves_nothing_behind() -> None:
    detector = Detector(Brute())
    detector.add("p", parse("a: b followed by X"))
    with pytest.raises(FilterError, match="see their own composites: a ◀ b"):
        detector.add("q", parse("b: a followed by X"))
    assert list(detector.patterns) == ["p"]
    assert detector.automata == 1
    detector.add("q", parse("b: Y followed by X"))
