"""Runs of fair correlation as JSON lines: what is written is read again, what is wrong is told with its line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.audit.fair.files import is_fair, read, run_of, write
from fairlead.audit.fair.run import (
    Crashed,
    Delivered,
    Established,
    FairRun,
    Multicast,
    Step,
    Subscribed,
    Unsubscribed,
)
from fairlead.audit.trace import Ended
from fairlead.correlation.fair import parse
from fairlead.errors import TraceRefused
from fairlead.ingest import Rejection
from fairlead.model import Notification

EVENTS = [
    Notification.of(
        {"id": str(number), "producer": producer, "type": type, "x": number / 4, "tags": ["ä", "b"]}
    )
    for number, (producer, type) in enumerate([("p", "A"), ("p", "B"), ("", "A"), ("q", "C")])
]
FORGED = Notification.of({**EVENTS[0].attributes, "x": 99})
QUESTIONS = [parse("A"), parse('A.x < B.x and C(x > 1) or B[2].tags contains "ä"'), parse("A and C or B")]

processes = st.sampled_from(["ada", "bob", "ä b", ""])
times = st.integers(0, 10**12) | st.floats(0, 1e9)
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(Subscribed, processes, st.sampled_from(QUESTIONS), times),
    st.builds(Established, processes, times),
    st.builds(Unsubscribed, processes, times),
    st.builds(Crashed, processes, times),
    st.builds(Multicast, processes, st.sampled_from(EVENTS), times),
    st.builds(
        Delivered,
        processes,
        st.sampled_from([each for question in QUESTIONS for each in question.conjunctions]),
        st.lists(st.sampled_from([*EVENTS, FORGED]), max_size=3).map(tuple),
        times,
    ),
)
runs = st.builds(FairRun, st.lists(steps, max_size=8).map(tuple), st.booleans())


def told(lines: list[str]) -> list[Any]:
    return [step for _, step in read(lines)]


@given(runs)
def test_reading_what_was_written_gives_the_same_run(run: FairRun) -> None:
    lines = list(write(run))
    assert all(map(is_fair, lines))
    assert run_of(told(lines)) == run
    assert run_of(told([line.encode() for line in lines])) == run  # type: ignore[misc]


def test_a_relation_names_what_a_line_above_has_and_holds_the_rest_in_full() -> None:
    [conjunction] = parse("A and B").conjunctions
    run = FairRun(
        (Multicast("p", EVENTS[0], 0), Delivered("ada", conjunction, (EVENTS[0], EVENTS[1]), 1)),
        finished=False,
    )
    [_, delivered] = write(run)
    assert '"relation":[["p","0"],{"id":"1",' in delivered


def test_equal_texts_become_one_subscription_and_a_name_the_event_above() -> None:
    [conjunction] = parse("A").conjunctions
    lines = write(
        FairRun(
            (Multicast("p", EVENTS[0], 0), *[Delivered("ada", conjunction, (EVENTS[0],), 1)] * 2),
            finished=True,
        )
    )
    multicast, one, two, end = told(list(lines))
    assert one.conjunction is two.conjunction
    assert one.relation[0] is multicast.event
    assert end == Ended()


MULTICAST = '{"v":1,"step":"multicast","process":"p","time":0,"event":{"id":"1","attributes":{"type":"A"}}}'
WRONG = {
    "[]": "a step of a run is a JSON object",
    '{"v":2,"step":"end"}': "a run of version 2: version 1 can be read",
    '{"v":1}': "the step has no 'step'",
    '{"v":1,"step":"jump"}': "a step of an unknown kind: 'jump'",
    '{"v":1,"step":"end","time":1}': "'time': not part of 'end'",
    '{"v":1,"step":"crash","process":7,"time":0}': "not a value of 'process': 7",
    '{"v":1,"step":"crash","process":"p","time":true}': "not a value of 'time': True",
    '{"v":1,"step":"subscribe","process":"p","time":0,"subscription":"A.x <"}': "line 1, column 6",
    '{"v":1,"step":"deliver","process":"p","time":0,"conjunction":"A or B","relation":[]}': "one conjunction",
    '{"v":1,"step":"deliver","process":"p","time":0,"conjunction":"A","relation":[["p","1"]]}': "no line above",
    '{"v":1,"step":"multicast","process":"p","time":0,"event":{"attributes":{}}}': "has no identity",
    "nonsense": "not JSON",
}


@pytest.mark.parametrize(("line", "reason"), WRONG.items())
def test_a_line_that_is_no_step_is_rejected_with_its_number_and_the_reason(line: str, reason: str) -> None:
    [(first, _), (number, rejected)] = read([MULTICAST, "  ", line])
    assert (first, number) == (1, 3)
    assert isinstance(rejected, Rejection)
    assert reason in str(rejected.reason)


def test_a_run_that_goes_on_behind_its_end_is_refused() -> None:
    with pytest.raises(TraceRefused, match="after its end"):
        run_of([Ended(), Crashed("ada", 0)])


def test_a_line_of_a_trace_is_not_one_of_a_run() -> None:
    assert not is_fair('{"v":1,"event":"end"}')
    assert not is_fair('["step"]')
    assert not is_fair("step")
