"""A mobile detector as a state machine: construction, control, moving, destruction."""

from __future__ import annotations

import json

import pytest

from fairlead.broker.messages import Leave, Publish, Subscribe, Tick, Wake
from fairlead.correlation.patterns import parse
from fairlead.model import Instant, Notification
from fairlead_lab.broker.detection import (
    Consume,
    DetectionPolicy,
    MobileDetector,
    Phase,
    Source,
    Specification,
)
from fairlead_lab.broker.detection.messages import (
    HEARTBEAT,
    PROBE,
    READY,
    STATE,
    heartbeat,
    is_control,
    probe,
    ready,
)
from fairlead_lab.broker.detection.mobile import Effect, Heard, Start, Stop
from fairlead_lab.correlation.patterns.decomposition import whole

PATTERN = parse("A followed by B")
SOURCES = (frozenset({"p"}), frozenset({"q"}))


def detector(host: str = "d@1", predecessor: str = "", **changes: object) -> MobileDetector:
    specification = Specification("d", PATTERN, sources=SOURCES, **changes)  # type: ignore[arg-type]
    return MobileDetector(specification, host, predecessor)


def event(type: str, producer: str, time: int) -> Notification:
    return Notification.of({"type": type, "producer": producer, "id": f"{type}{time}", "time": Instant(time)})


def phase(made: MobileDetector) -> Phase:
    return made.phase


def published(effects: list[Effect]) -> list[Notification]:
    return [each.notification for each in effects if isinstance(each, Publish)]


def kinds(effects: list[Effect]) -> list[object]:
    return [each.get("type") for each in published(effects)]


def constructed(made: MobileDetector, since: int = 10) -> MobileDetector:
    made.handle(Start(), 0)
    for source in ("p", "q"):
        made.handle(Heard(heartbeat(1, source, source, since, since, answers=made.host)), since)
    return made


def test_it_subscribes_before_it_asks_and_is_complete_when_all_have_answered() -> None:
    made = detector()
    effects = made.handle(Start(), 0)
    filters = [str(each.filter) for each in effects if isinstance(each, Subscribe)]
    assert filters[:2] == ['type = "A"', 'type = "B"']
    assert any(HEARTBEAT in each for each in filters)
    last = max(number for number, each in enumerate(effects) if isinstance(each, Subscribe))
    assert kinds(effects) == [PROBE]
    assert next(number for number, each in enumerate(effects) if isinstance(each, Publish)) > last
    made.handle(Heard(heartbeat(1, "p", "p", 10, 10, answers="d@1")), 11)
    made.handle(Heard(heartbeat(1, "q", "q", 12, 12, answers="somebody else")), 13)
    assert phase(made) is Phase.CONSTRUCTION
    assert kinds(made.handle(Tick(), 20)) == [PROBE]  # q may not have heard of it
    made.handle(Heard(heartbeat(2, "q", "q", 25, 25, answers="d@1")), 26)
    assert phase(made) is Phase.CONTROL
    assert made.since == 25


def test_what_happened_before_it_was_complete_is_not_its_concern() -> None:
    made = detector()
    made.handle(Start(), 0)
    made.handle(Heard(event("A", "p", 5)), 6)
    made = constructed(made)
    made.handle(Heard(event("B", "q", 20)), 20)
    assert kinds(made.handle(Heard(heartbeat(9, "p", "p", 30, 30)), 30)) == []
    assert made.handle(Heard(heartbeat(9, "q", "q", 30, 30)), 30) == []


def test_events_are_consumed_when_they_are_stable() -> None:
    made = constructed(detector())
    assert made.handle(Heard(event("B", "q", 20)), 20) == []
    assert made.handle(Heard(event("A", "p", 15)), 21) == []  # on the way longer than B was
    assert made.handle(Heard(heartbeat(2, "q", "q", 30, 30)), 31) == []
    assert kinds(made.handle(Heard(heartbeat(2, "p", "p", 30, 30)), 32)) == ["composite"]
    assert made.bound == 30


def test_best_effort_consumes_in_the_order_of_arrival() -> None:
    made = constructed(detector(policy=DetectionPolicy(Consume.BEST_EFFORT)))
    assert not made.specification.waits
    assert made.handle(Heard(event("A", "p", 25)), 26) == []
    found = made.handle(Heard(event("B", "q", 20)), 27)  # before A, in truth
    assert kinds(found) == ["composite"]
    assert made.late == 1


def test_nothing_is_taken_twice_and_own_composites_never() -> None:
    made = constructed(detector())
    for _ in range(2):
        made.handle(Heard(event("A", "p", 15)), 15)
    assert made.consumed == 1
    (found,) = published(
        [
            *made.handle(Heard(event("B", "q", 20)), 20),
            *made.handle(Heard(heartbeat(2, "p", "p", 30, 30)), 30),
            *made.handle(Heard(heartbeat(2, "q", "q", 30, 30)), 30),
        ]
    )
    made.handle(Heard(found), 31)
    assert made.consumed == 2


def test_it_moves_with_its_state_and_says_who_goes_on() -> None:
    old = constructed(detector())
    old.handle(Heard(event("A", "p", 15)), 15)
    new = constructed(detector("d@2", "d@1"), since=40)
    assert phase(new) is Phase.CONSTRUCTION
    assert old.handle(Heard(ready(1, "d@2", "d@1", 40, 41)), 45) == []  # it has not come so far yet
    old.handle(Heard(heartbeat(2, "p", "p", 50, 50)), 50)
    effects = old.handle(Heard(heartbeat(2, "q", "q", 45, 50)), 50)
    state, last = published(effects)
    assert state.get("type") == STATE
    assert (last.get("type"), last.get("until"), last.get("successor")) == (HEARTBEAT, 45, "d@2")
    assert isinstance(effects[-1], Leave)
    assert phase(old) is Phase.DESTRUCTION
    assert old.handle(Tick(), 60) == []
    new.handle(Heard(event("B", "q", 47)), 48)
    new.handle(Heard(event("B", "q", 42)), 48)  # the old place has had that one
    new.handle(Heard(state), 51)
    assert phase(new) is Phase.CONTROL
    assert (new.bound, new.since) == (45, 10)
    new.handle(Heard(heartbeat(3, "p", "p", 60, 60)), 60)
    (found,) = published(new.handle(Heard(heartbeat(3, "q", "q", 60, 60)), 60))
    assert [each.get("id") for each in found.get("constituents")] == ["A15", "B47"]
    assert json.loads(str(state.get("state")))["since"] == 10


def test_a_new_place_tells_the_old_one_from_when_on_it_hears_everything() -> None:
    new = detector("d@2", "d@1")
    new.handle(Start(), 0)
    new.handle(Heard(heartbeat(1, "p", "p", 40, 40, answers="d@2")), 41)
    (told,) = published(new.handle(Heard(heartbeat(1, "q", "q", 43, 43, answers="d@2")), 44))
    assert (told.get("type"), told.get("to"), told.get("since")) == (READY, "d@1", 43)
    assert kinds(new.handle(Tick(), 60)) == []


def test_a_detector_that_others_use_says_up_to_where_it_has_come() -> None:
    cut = whole(PATTERN)
    assert cut is not None
    made = constructed(detector(split=cut, reports=True))
    made.handle(Heard(event("A", "p", 15)), 15)
    made.handle(Heard(event("B", "q", 20)), 20)
    made.handle(Heard(heartbeat(2, "p", "p", 30, 30)), 30)
    part, whole_one = published(made.handle(Heard(heartbeat(2, "q", "q", 30, 30)), 31))
    assert part.get("type") == cut.leaves[0].pattern.name
    assert (part.get("source"), part.get("host"), part.get("until")) == ("d", "d@1", 30)
    assert whole_one.get("type") == "composite"
    assert kinds(made.handle(Tick(), 40)) == []  # nothing new to say
    made.handle(Heard(heartbeat(3, "p", "p", 50, 50)), 50)
    made.handle(Heard(heartbeat(3, "q", "q", 50, 50)), 50)
    (beat,) = published(made.handle(Tick(), 60))
    assert (beat.get("type"), beat.get("until")) == (HEARTBEAT, 50)


def test_who_asks_a_detector_under_construction_is_answered_when_it_is_ready() -> None:
    made = detector(reports=True)
    made.handle(Start(), 0)
    assert made.handle(Heard(probe(1, "other", 1)), 1) == []
    made.handle(Heard(heartbeat(1, "p", "p", 10, 10, answers="d@1")), 11)
    (answer,) = published(made.handle(Heard(heartbeat(1, "q", "q", 12, 12, answers="d@1")), 13))
    assert (answer.get("to"), answer.get("until")) == ("other", 12)


def test_a_source_answers_and_beats() -> None:
    source = Source("p", heartbeat_us=100)
    assert [type(each) for each in source.handle(Start(), 0)] == [Subscribe, Wake]
    (answer,) = published(source.handle(Heard(probe(1, "d@1", 5)), 7))
    assert (answer.get("to"), answer.get("until")) == ("d@1", 7)
    beat, wake = source.handle(Tick(), 100)
    assert isinstance(beat, Publish)
    assert is_control(beat.notification)
    assert wake == Wake(200)
    assert source.handle(Heard(event("A", "q", 1)), 101) == []
    assert [type(each) for each in source.handle(Stop(), 102)] == [Leave]


@pytest.mark.parametrize("consume", list(Consume))
def test_whoever_stops_leaves(consume: Consume) -> None:
    made = constructed(detector(policy=DetectionPolicy(consume, timeout_us=10)))
    assert made.handle(Stop(), 20) == [Leave("d@1")]
    assert made.handle(Heard(event("A", "p", 30)), 31) == []
