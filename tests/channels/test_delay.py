"""What a channel holds is published once, when its instant has come, whatever becomes of the broker's process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairlead as fl
from fairlead.channels import Channel, Delay
from fairlead.errors import TransactionRefused
from fairlead.model import Instant, Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.holding import HELD_MAX, Holding
from fairlead.network.ledger import Ledger
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings
from fairlead.security import Principal
from fairlead_lab.delivery.holding import Came, Published, violations
from fairlead_lab.testing.memory import MemoryDisk
from fairlead_lab.testing.nodes import End

S = 1_000_000
CHANNELS = (Channel("named", "exists after", delay=Delay("after")), Channel("rest", 'type = "C"', delay="2s"))


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> Instant:
        return Instant(self.now)


# -- on the bus --------------------------------------------------------------------------------------------------

events = st.lists(
    st.tuples(st.sampled_from(["publish", "publish", "again", "pass"]), st.integers(0, 4)), max_size=25
)


@given(events)
def test_a_bus_publishes_what_is_due_in_the_order_of_instants(events: list[tuple[str, int]]) -> None:
    clock = Clock()
    bus = fl.Bus(clock=clock, channels=CHANNELS)
    got: list[str] = []
    bus.subscribe("exists after", lambda notification: got.append(notification.id or ""))
    held: list[tuple[int, int, str]] = []
    expected: list[str] = []
    for number, (what, amount) in enumerate(events):
        if what == "pass":
            clock.now += amount * S
            bus.advance()
        elif what == "again" and held:
            assert bus.publish({"id": held[0][2], "after": 9}) is None  # a duplicate
        else:
            bus.publish({"id": f"{number}", "after": amount})
            if amount:
                held.append((clock.now + amount * S, number, f"{number}"))
            else:
                expected.append(f"{number}")
        due = sorted(each for each in held if each[0] <= clock.now)
        expected += [each[2] for each in due]
        held = [each for each in held if each not in due]
        assert got == expected
        assert bus.statistics().delayed == len(held)


def test_what_a_bus_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fl.ChannelError, match="without a clock"):
        fl.Bus(channels=CHANNELS)
    with pytest.raises(fl.ChannelError, match="an ordered bus holds nothing"):
        fl.Bus(clock=Clock(), channels=CHANNELS, order="ordered")
    with pytest.raises(fl.ChannelError, match="a bus with a log holds nothing"):
        fl.Bus(clock=Clock(), channels=CHANNELS, log=tmp_path)
    bus = fl.Bus(clock=Clock(), channels=CHANNELS)
    got = bus.subscribe("true")
    together = bus.transaction()
    together.publish({"x": 1, "id": "x"})
    together.publish({"type": "C"})
    with pytest.raises(TransactionRefused, match="holds it until it is due"):
        together.commit()
    assert len(got) == 0
    assert bus.publish({"x": 1, "id": "x"}) is not None  # it was not published
    bus.respond('type = "C"', lambda request: {"answer": 42})
    assert bus.request({"type": "C"}, timeout=None).get("answer") == 42


# -- at a broker -------------------------------------------------------------------------------------------------


class Client(End):
    def acknowledged(self) -> int:
        return max((wire.parse_numbered(each)[0] for each in self.frames(wire.STORED)), default=0)

    def refused(self) -> list[str]:
        controls = [wire.parse_control(each) for each in self.frames(wire.CONTROL)]
        return [each.reason for each in controls if isinstance(each, wire.Refused)]


class Host:
    """A broker with a clock, and a subscriber that is always there."""

    def __init__(self) -> None:
        self.disk, self.now, self.numbers = MemoryDisk(), 1_000 * S, 0
        self.came: list[Came] = []
        self.open()

    def open(self) -> None:
        ledger = Ledger("/log", self.disk, broker="hub", now=self.now)
        broker = BrokerSettings("hub", channels=CHANNELS).broker()
        self.node = Node(broker, ledger, life="1", now=self.now)
        self.publisher, self.ada = self.client("publisher"), self.client("ada")
        self.heard = 0
        self.say(self.ada, wire.control(wire.Subscribe(1, "s", "true")))

    def client(self, name: str) -> Client:
        end = Client(self.node)
        end.session = self.node.greet(
            end, wire.Hello(wire.VERSION, "client", name), self.now, Principal(name)
        )
        return end

    def say(self, end: End, frame: bytes) -> None:
        self.node.receive(end.session, wire.Frames().feed(frame), self.now)
        self.settle()

    def publish(self, id: str, after: int) -> bool:
        """Publish; whether it was acknowledged."""
        self.numbers += 1
        packed = pack(Notification.of({"after": after, "id": id, "producer": "p"}))
        self.say(self.publisher, wire.publish(self.numbers, packed))
        return self.publisher.acknowledged() >= self.numbers

    def wait(self, seconds: int) -> None:
        self.now += seconds * S
        self.node.tick(self.now)
        self.settle()

    def kill(self) -> None:
        self.disk.kill()
        self.open()
        self.wait(0)

    def settle(self) -> None:
        while self.node.is_busy or self.node.wants_sync:
            self.node.flush()
            if self.node.wants_sync:
                assert self.node.ledger is not None
                self.node.synced(self.node.ledger.log.sync())
        delivered = self.ada.frames(wire.DELIVER) if hasattr(self, "ada") else []
        for each in delivered[self.heard :]:
            self.came.append(Came(unpack(wire.parse_deliver(each)[2]).id or "", self.now))
        self.heard = len(delivered)


def run(seed: int) -> list[str]:
    """The violations in a random run of a broker that is killed now and then."""
    rng, host = Random(seed), Host()
    published: list[Published] = []
    for number in range(20):
        match rng.randrange(6):
            case 0 | 1 | 2:
                after, id = rng.randrange(4), f"{number}"
                published.append(Published(id, host.now + after * S, host.publish(id, after)))
            case 3 if published:
                host.publish(rng.choice(published).id, 0)  # again: a duplicate
            case 3 | 4:
                host.wait(rng.randrange(3))
            case 5:
                host.kill()
    host.wait(10)
    host.wait(10)
    return violations(published, host.came, host.now)


@given(st.integers(0, 1 << 30))
@settings(max_examples=40, deadline=None)
def test_what_is_acknowledged_is_published_once_and_not_before_its_instant(seed: int) -> None:
    assert run(seed) == []


def _forgets(self: Holding, now: int) -> None:
    """A process that was killed has held nothing."""


def _hurries(self: Holding, now: int) -> None:
    Holding._tick(self, now + S)  # type: ignore[attr-defined]


def _repeats(self: Holding, now: int) -> None:
    for held in self._persistence.state.held.values():
        self._wait(unpack(held.packed), held.until, is_logged=True)


MUTANTS: dict[str, tuple[str, Callable[..., None]]] = {
    "what was held is lost with the process": ("recall", _forgets),
    "it is published too early": ("tick", _hurries),
    "what was published is published again": ("recall", _repeats),
}


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Holding, "_tick", Holding.tick, raising=False)
    if name == "what was published is published again":
        monkeypatch.setattr(Holding, "_publish", _publish_and_forget_to_note)
    monkeypatch.setattr(Holding, *MUTANTS[name])
    assert any(run(seed) for seed in range(60))


def _publish_and_forget_to_note(self: Holding, notification: Notification, now: int) -> None:
    self._own.publish_admitted(notification, now)


def test_a_crash_between_publishing_and_noting_that_publishes_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Holding, "_publish", _publish_and_forget_to_note)
    host = Host()
    host.publish("a", 1)
    host.wait(2)
    host.kill()
    host.wait(2)
    assert [each.id for each in host.came] == ["a"]


def test_what_is_best_effort_is_held_in_memory() -> None:
    host = Host()
    packed = pack(Notification.of({"after": 2, "id": "a", "producer": "p"}))
    host.say(host.publisher, wire.publish(0, packed))
    host.wait(1)
    assert host.came == []
    host.wait(1)
    assert [each.id for each in host.came] == ["a"]


def test_what_a_broker_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    group = [pack(Notification.of({"after": after, "id": f"{after}", "producer": "p"})) for after in (0, 1)]
    host.say(host.publisher, wire.transaction(1, wire.Transaction(group)))
    assert "holds it until it is due" in host.publisher.refused()[0]
    assert HELD_MAX > 1
    monkeypatch.setattr("fairlead.network.holding.HELD_MAX", 1)
    assert host.publish("a", 5)
    assert not host.publish("b", 5)
    assert "holds 1 publications already" in host.publisher.refused()[1]
    host.wait(5)
    assert host.publish("b", 1)
    host.wait(1)
    assert [each.id for each in host.came] == ["a", "b"]


def test_what_is_published_behind_it_is_acknowledged_behind_it() -> None:
    host = Host()
    frames: list[Any] = []
    for number, after in enumerate((0, 3, 0), 1):
        packed = pack(Notification.of({"after": after, "id": f"{number}", "producer": "p"}))
        frames += wire.Frames().feed(wire.publish(number, packed))
    host.node.receive(host.publisher.session, frames, host.now)
    host.settle()
    numbers = [wire.parse_numbered(each)[0] for each in host.publisher.frames(wire.STORED)]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 3
    assert [each.id for each in host.came] == ["1", "3"]
