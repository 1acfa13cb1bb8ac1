"""A bus that keeps a trace: whatever threads and callbacks do, the trace keeps every specification."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.audit import (
    Ended,
    Event,
    Unsubscribed,
    Verdict,
    audit,
    read,
)
from fairlead.bus import Bus, NotAdvertised, Subscription
from fairlead.errors import FairleadError, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.ingest import Rejection

DEADLINE_S = 30
FILTERS = ("n = 0", "n >= 1", "exists n")


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_a_bus_records_what_happens_in_the_order_in_which_it_happens() -> None:
    events: list[Event] = []
    with Bus(trace=events.append) as bus:
        subscription = bus.subscribe("n > 1", subscriber="ada")
        bus.subscribe("n > 1", subscriber="ada")
        bus.publish({"n": 1})
        bus.publish({"n": 2})
        subscription.close()
        announced = bus.advertise("exists n", producer="p")
        bus.advertise("exists n", producer="p")
        bus.unadvertise(announced)
    assert kinds(events) == [
        *("Subscribed", "Published", "Published", "Notified", "Unsubscribed"),
        *("Advertised", "Unadvertised", "Ended"),
    ]
    assert audit(events).verdict is Verdict.HOLDS


def test_subscriptions_that_live_as_long_as_the_bus_are_not_ended_by_it() -> None:
    events: list[Event] = []
    bus = Bus(trace=events.append)
    bus.subscribe("exists n")
    bus.publish({"n": 1})
    bus.close()
    assert Unsubscribed not in map(type, events)
    assert isinstance(events[-1], Ended)
    assert [finding.open for finding in audit(events[:2]) if finding.rule == "liveness"] == [1]


def test_a_publication_that_is_refused_is_not_in_the_trace() -> None:
    events: list[Event] = []
    with Bus(trace=events.append) as bus:
        bus.advertise("n = 1", producer="p")
        with pytest.raises(NotAdvertised):
            bus.publish({"n": 2, "producer": "p"})
        bus.publish({"n": 1, "producer": "p", "id": "x"})
        assert bus.publish({"n": 1, "producer": "p", "id": "x"}) is None
    assert kinds(events) == ["Advertised", "Published", "Ended"]


def test_what_has_no_text_form_is_refused_before_it_happens(tmp_path: Path) -> None:
    with Bus(trace=tmp_path / "trace.jsonl") as bus:
        with pytest.raises(ValueRefused):
            bus.publish({"thing": object(), "id": "1"})
        assert bus.publish({"thing": 1, "id": "1"}) is not None
    assert len((tmp_path / "trace.jsonl").read_text().splitlines()) == 2


def test_a_trace_that_cannot_be_written_stops_and_the_bus_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    events: list[Event] = []

    def record(event: Event) -> None:
        if len(events) == 2:
            raise OSError("no space left on device")
        events.append(event)

    with Bus(trace=record) as bus:
        subscription = bus.subscribe("exists n")
        for n in range(3):
            bus.publish({"n": n})
        assert len(subscription) == 3
    assert kinds(events) == ["Subscribed", "Published"]
    assert [each.message for each in caplog.records] == ["the trace stops: an event could not be recorded"]


def test_a_full_disk_leaves_the_bus_alone(caplog: pytest.LogCaptureFixture) -> None:
    with Bus(trace="/dev/full") as bus:
        subscription = bus.subscribe("exists n")
        bus.publish({"n": 1})
        assert len(subscription) == 1
    assert "the trace is not complete" in caplog.text


def test_an_advertisement_that_cannot_be_written_is_not_made(tmp_path: Path) -> None:
    class Odd(Filter):
        pass

    with Bus(trace=tmp_path / "trace.jsonl") as bus:
        with pytest.raises((FairleadError, TypeError, NotImplementedError)):
            bus.advertise(Odd(), producer="p")
        assert bus.publish({"n": 1, "producer": "p"}) is not None


def together(*works: Callable[[], object]) -> None:
    """Run all works at once, each in its thread, and wait for them."""
    problems: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "deadlock"
    assert problems == []


def worker(bus: Bus, name: str, seed: int) -> Callable[[], None]:
    """A component that publishes, subscribes, answers what it is told, and changes its mind."""
    random = Random(seed)

    def work() -> None:
        mine: list[Subscription] = []

        def answer(notification: object) -> None:
            if random.random() < 0.2:
                bus.publish({"n": random.randrange(3), "producer": name})

        for _ in range(40):
            action = random.random()
            if action < 0.25:
                mine.append(bus.subscribe(random.choice(FILTERS), answer, subscriber=name))
            elif action < 0.4 and mine:
                bus.unsubscribe(mine.pop(random.randrange(len(mine))))
            else:
                bus.publish({"n": random.randrange(3), "producer": name})

    return work


@given(st.integers(0, 2**32))
@settings(max_examples=max(3, settings.default.max_examples // 10))
def test_a_run_under_threads_keeps_every_specification(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    with Bus(trace=path, on_error=lambda *_: None) as bus:
        together(*(worker(bus, f"c{number}", seed + number) for number in range(4)))
    events = [event for _, event in read(path.read_bytes().splitlines())]
    assert not any(isinstance(event, Rejection) for event in events)
    told = [event for event in events if not isinstance(event, Rejection)]
    assert isinstance(told[-1], Ended)
    report = audit(told)
    assert report.verdict is Verdict.HOLDS, report.violated()
