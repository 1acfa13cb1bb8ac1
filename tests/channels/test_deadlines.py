"""A deadline of a key is missed iff nothing of it has come for so long; that is told once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl
from fairlead.channels import Channel, Channels, Deadlines, Missed, deadlines
from fairlead.model import Instant, Notification
from fairlead_lab.delivery.deadlines import missed
from fairlead_lab.testing.brokers import PATIENCE_S, Brokers, wait_until

S = 1_000_000
CHANNELS = (Channel("beats", "exists beat", per=("beat",), deadline="3s"), Channel("rest", "true"))


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> Instant:
        return Instant(self.now)


steps = st.lists(st.one_of(st.sampled_from("ab"), st.integers(1, 4)), max_size=25)


def run(steps: list[str | int], make: Any = Deadlines) -> tuple[list[Any], list[Any]]:
    """What is told when time passes a second at a time, and what the specification says."""
    watching, came, told, now = make(Channels(CHANNELS)), [], [], 0
    for step in [*steps, 4]:
        if isinstance(step, str):
            watching.seen(Notification.of({"beat": step}), now)
            watching.seen(Notification.of({"other": step}), now)
            came.append((step, now))
            continue
        for _ in range(step):
            now += S
            due = watching.next_time()
            found = watching.missed(now)
            assert not found or (due is not None and due <= now)
            told += [(each.key["beat"], each.since.microseconds) for each in found]
    return sorted(told), sorted({*missed(came, 3 * S - 1, now)})


@given(steps)
def test_what_is_told_is_what_the_specification_says(steps: list[str | int]) -> None:
    told, expected = run(steps)
    assert told == expected


class CountsFromTheFirst(Deadlines):
    def seen(self, notification: Notification, now: int) -> None:
        if not any(each.last == notification for each in self._watched.values()):
            super().seen(notification, now)


class HasOneKey(Deadlines):
    def seen(self, notification: Notification, now: int) -> None:
        if "beat" in notification.attributes:
            super().seen(Notification.of({"beat": "a"}), now)


class TellsAgain(Deadlines):
    def missed(self, now: int) -> list[Missed]:
        before = dict(self._watched)
        found = super().missed(now)
        for key in before.keys() - self._watched.keys():
            self._watched[key] = before[key]
            self._expect(key, now + S)
        return found


@pytest.mark.parametrize("mutant", [CountsFromTheFirst, HasOneKey, TellsAgain])
def test_a_defect_is_found(mutant: Any) -> None:
    runs: list[list[str | int]] = [
        ["a", "b", 2, "a", 2, "b", 4],
        ["a", 4, "a", 1, "b", 3],
        ["b", 2, "b", 2, 4],
    ]
    assert any(told != expected for told, expected in (run(each, mutant) for each in runs))
    assert all(told == expected for told, expected in map(run, runs))


def test_the_number_of_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "KEYS_MAX", 2)
    watching = Deadlines(Channels(CHANNELS))
    for beat in "abc":
        watching.seen(Notification.of({"beat": beat}), 0)
    assert [each.key["beat"] for each in watching.missed(9 * S)] == ["b", "c"]


# -- who is told -------------------------------------------------------------------------------------------------


@given(steps)
def test_a_bus_tells_what_the_specification_says(steps: list[str | int]) -> None:
    clock, came, told = Clock(), [], []
    bus = fl.Bus(clock=clock, channels=CHANNELS)
    bus.subscribe("true", lambda notification: None, on_missed=told.append)
    ended = bus.subscribe("true", on_missed=_never)
    ended.close()
    for step in [*steps, 4]:
        if isinstance(step, str):
            bus.publish({"beat": step})
            came.append((step, clock.now))
            continue
        for _ in range(step):
            clock.now += S
            bus.advance()
    found = sorted((each.key["beat"], each.since.microseconds) for each in told)
    assert found == sorted({*missed(came, 3 * S - 1, clock.now)})


def _never(missed: Missed) -> None:
    raise AssertionError(missed)


def test_a_producer_may_be_the_key() -> None:
    clock, told = Clock(), list[Missed]()
    bus = fl.Bus(clock=clock, channels=[Channel("alive", "true", per=("producer",), deadline="1s")])
    bus.subscribe("true", on_missed=told.append)
    bus.publish({"producer": "roof"})
    clock.now = S
    bus.advance()
    assert [(each.channel, each.key) for each in told] == [("alive", {"producer": "roof"})]


def test_what_a_hook_raises_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    bus = fl.Bus(clock=clock, channels=CHANNELS)
    got = bus.subscribe("true", on_missed=_never)
    bus.publish({"beat": 1})
    clock.now = 4 * S
    bus.publish({"x": 1})
    assert len(got) == 2
    assert "the on_missed hook failed" in caplog.text


def test_a_client_is_told_when_nothing_comes(tmp_path: Any) -> None:
    brief = (Channel("beats", "exists beat", per=("beat",), deadline="50ms"),)
    told: list[Missed] = []
    tell: Callable[[Missed], object] = told.append
    with Brokers() as brokers:
        hub = brokers.start("hub", tmp_path, channels=brief)
        with fl.sync.connect(hub.url, name="p") as client:
            with client.subscribe("exists beat", on_missed=tell) as made:
                client.publish({"beat": 1})
                assert made.get(PATIENCE_S).get("beat") == 1
                wait_until(lambda: told)
                client.publish({"beat": 1})
                wait_until(lambda: len(told) == 2)
            assert [(each.channel, each.key) for each in told] == [("beats", {"beat": 1})] * 2
