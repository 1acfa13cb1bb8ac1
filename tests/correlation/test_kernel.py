"""The laws of kernels, for both engines: order of feeding, steps of time, snapshots, late occurrences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.correlation import fair, patterns
from fairlead.correlation.kernel import Detected, Kernel
from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns import Detector
from fairlead.correlation.relating import FairQuery, RelationDetector
from fairlead.matching.brute import Brute
from fairlead.model import Notification
from fairlead.model.order import BEGINNING, END, order_keys
from fairlead_lab.testing.patterns import TIME_MAX, streams

Made = Callable[[], Kernel[Any, Any]]

PATTERNS = (
    "A followed by B within 9 us",
    "wave: 2 or more A as a followed by C within 12 us, same x",
    "B then no C within 5 us",
    "A followed by B within 12 us, A.x <= B.x, taking all matches",
)
FAIR = ("A.x <= B.x", "pair: A.x <= B.x and C", "A[2] or D", "C.x > B.x and B.x > A.x")


def detector() -> Kernel[Any, Any]:
    kernel = Detector(Brute(), remembers=True)
    for number, text in enumerate(PATTERNS):
        kernel.add(f"p{number}", patterns.parse(text), since=(BEGINNING, 4)[number % 2])
    return kernel


def relation_detector() -> Kernel[Any, Any]:
    kernel = RelationDetector(Brute())
    for number, text in enumerate(FAIR):
        for choice in fair.Choice:
            kernel.add(f"f{number}{choice.value}", FairQuery(fair.parse(text), choice), since=number * 3)
    return kernel


KERNELS = pytest.mark.parametrize("made", [detector, relation_detector])
BOUNDS = st.lists(st.integers(0, TIME_MAX + 5), max_size=4).map(sorted)


def occurrences(events: Sequence[Notification]) -> list[Occurrence]:
    return [Occurrence.of(one, key) for one, key in zip(events, order_keys(events), strict=True)]


def shown(detected: Iterable[Detected[Any]]) -> list[tuple[Any, ...]]:
    return sorted((*each.composite.rank, each.ids) for each in detected)


def whole(made: Made, stream: Iterable[Occurrence]) -> list[tuple[Any, ...]]:
    kernel = made()
    for occurrence in stream:
        kernel.feed(occurrence)
    return shown(kernel.advance(END))


@KERNELS
@given(data=st.data(), events=streams(), bounds=BOUNDS)
@settings(max_examples=settings.default.max_examples // 2)
def test_composites_depend_neither_on_the_order_of_feeding_nor_on_the_steps_of_time(
    made: Made, data: st.DataObject, events: list[Notification], bounds: list[int]
) -> None:
    stream = occurrences(events)
    kernel, detected = made(), []
    waiting = data.draw(st.permutations(stream))
    for bound in (*bounds, END):
        for occurrence in [each for each in waiting if each.end < bound]:
            kernel.feed(occurrence)
        waiting = [each for each in waiting if each.end >= bound]
        detected += kernel.advance(bound)
        assert kernel.bound == bound
        assert all(each.composite.end < bound for each in detected)
    assert shown(detected) == whole(made, stream)
    assert (kernel.late, kernel.buffered, kernel.given_up) == (0, 0, 0)


@KERNELS
@given(events=streams(), bounds=BOUNDS)
@settings(max_examples=settings.default.max_examples // 2)
def test_a_kernel_that_resumes_detects_what_the_other_one_would_have_detected(
    made: Made, events: list[Notification], bounds: list[int]
) -> None:
    stream = occurrences(events)
    kernel, detected = made(), []
    for occurrence in stream:
        kernel.feed(occurrence)
    for bound in bounds:
        detected += kernel.advance(bound)
        state = json.loads(json.dumps(kernel.snapshot()))
        kernel = made()
        kernel.resume(state)
    detected += kernel.advance(END)
    assert shown(detected) == whole(made, stream)


@KERNELS
@given(events=streams(), bound=st.integers(0, TIME_MAX))
@settings(max_examples=settings.default.max_examples // 2)
def test_a_late_occurrence_is_counted_and_changes_nothing_else(
    made: Made, events: list[Notification], bound: int
) -> None:
    stream = occurrences(events)
    kernel = made()
    kernel.advance(bound)
    for occurrence in stream:
        kernel.feed(occurrence)
    on_time = [each for each in stream if each.end >= bound]
    assert (kernel.late, kernel.buffered) == (len(stream) - len(on_time), len(on_time))
    assert shown(kernel.advance(END)) == whole(made, on_time)


@KERNELS
@given(events=streams())
@settings(max_examples=settings.default.max_examples // 4)
def test_a_cleared_kernel_has_its_queries_and_no_state(made: Made, events: list[Notification]) -> None:
    stream = occurrences(events)
    kernel = made()
    for occurrence in stream:
        kernel.feed(occurrence)
    kernel.advance(TIME_MAX // 2)
    kernel.clear()
    assert (kernel.bound, kernel.buffered, kernel.snapshot()["progress"]) == (BEGINNING, 0, [])
    for occurrence in stream:
        kernel.feed(occurrence)
    assert shown(kernel.advance(END)) == whole(made, stream)


@KERNELS
def test_an_id_in_use_and_an_unknown_id_are_refused(made: Made) -> None:
    kernel = made()
    query = patterns.parse("A") if isinstance(kernel, Detector) else FairQuery(fair.parse("A"))
    kernel.add("new", query)
    with pytest.raises(ValueError, match="the id 'new' is in use"):
        kernel.add("new", query)
    kernel.remove("new")
    with pytest.raises(KeyError):
        kernel.remove("new")
