"""What has expired is handed to nobody for the first time; what was handed out before has been promised."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairlead as fl
from fairlead.channels import Channel, Channels, Expires, Retain
from fairlead.model import Instant, Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.destinations import Durable
from fairlead.network.expiring import Expiring
from fairlead.network.ledger import Ledger
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings, Limits
from fairlead.rules import Seam
from fairlead.rules.channeling import Channeling
from fairlead.rules.rule import Route
from fairlead.security import Principal
from fairlead_lab.testing.memory import MemoryDisk
from fairlead_lab.testing.nodes import End

S = 1_000_000
CHANNELS = (
    Channel("named", "exists ttl", expires=Expires("ttl", default="5s")),
    Channel("constant", 'type = "C"', expires="2s"),
    Channel("rest", "exists x"),
)


def marked(given: dict[str, object], now: int = 10 * S) -> object:
    seam = Seam(lambda notification, source: Route((), ()), [Channeling(Channels(CHANNELS))])
    notification = seam.mark(Notification.of(given), now)
    assert unpack(pack(notification)) == notification
    return seam.expires(notification)


@pytest.mark.parametrize(
    ("given", "until"),
    [
        ({"ttl": "3s"}, 13 * S),
        ({"ttl": 3}, 13 * S),
        ({"ttl": 0.5}, 10 * S + S // 2),
        ({"ttl": Instant(12 * S)}, 12 * S),
        ({"ttl": "soon"}, 15 * S),
        ({"ttl": True}, 15 * S),
        ({"ttl": -3}, 15 * S),
        ({"ttl": "3s", "expires": Instant(11 * S)}, 11 * S),  # what the publisher said stays
        ({"ttl": "3s", "expires": "late"}, None),
        ({"type": "C"}, 12 * S),
        ({"type": "C", "expires": Instant(99 * S)}, 12 * S),  # a constant is prescribed
        ({"x": 1, "expires": Instant(1)}, None),  # a channel without expiry lets nothing expire
        ({"type": "D", "expires": Instant(1)}, None),
    ],
)
def test_the_channel_says_when_or_names_the_attribute_that_does(
    given: dict[str, object], until: int | None
) -> None:
    assert marked(given) == until


def test_what_cannot_be_said_is_refused() -> None:
    with pytest.raises(fl.ChannelError, match="says when"):
        Expires()
    with pytest.raises(fl.ChannelError, match="not a duration"):
        Channel("a", "true", expires="soon")
    with pytest.raises(fl.ChannelError, match="is about 'expires', which channels mark"):
        Channels([Channel("a", "exists expires", expires="1s")])
    with pytest.raises(fl.ChannelError, match="without a clock"):
        fl.Bus(channels=[Channel("a", "true", expires="1s")])


# -- on the bus ----------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> Instant:
        return Instant(self.now)


events = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 4)),
        st.tuples(st.just("pass"), st.integers(0, 3)),
        st.tuples(st.just("read"), st.integers(1, 3)),
    ),
    max_size=25,
)


@given(events, st.sampled_from([{}, {"maxsize": 100}, {"accept": "each"}]))
def test_a_reader_gets_what_has_not_expired_when_it_asks(
    events: list[tuple[str, int]], options: dict[str, object]
) -> None:
    clock = Clock()
    bus = fl.Bus(clock=clock, channels=CHANNELS)
    made = bus.subscribe("exists ttl", **options)  # type: ignore[arg-type]
    waiting: list[tuple[str, int]] = []
    expired = 0
    for number, (what, amount) in enumerate(events):
        if what == "publish":
            bus.publish({"ttl": amount, "id": f"{number}"})
            waiting.append((f"{number}", clock.now + amount * S))
        elif what == "pass":
            clock.now += amount * S
        else:
            for _ in range(amount):
                while waiting and waiting[0][1] <= clock.now:
                    waiting.pop(0)
                    expired += 1
                if not waiting:
                    break
                delivery = made.get_delivery(timeout=1)
                assert delivery.notification.id == waiting.pop(0)[0]
                delivery.accept()
                assert bus.statistics().expired == expired


def test_what_was_handed_out_comes_again_though_it_has_expired() -> None:
    clock = Clock()
    bus = fl.Bus(clock=clock, channels=CHANNELS)
    made = bus.subscribe("exists ttl", accept="each")
    bus.publish({"ttl": 1})
    first = made.get_delivery(timeout=1)
    clock.now = 2 * S
    first.reject(again=True)
    assert made.get_delivery(timeout=1).attempt == 2


def test_a_retained_value_expires() -> None:
    clock = Clock()
    bus = fl.Bus(clock=clock, channels=[Channel("all", "true", Retain(per=("k",)), expires="1s")])
    bus.publish({"k": 1})
    assert len(bus.retained()) == len(bus.subscribe("true")) == 1
    clock.now = S
    assert bus.retained() == []
    assert bus.statistics().expired == 0
    with bus.subscribe("true") as none, pytest.raises(TimeoutError):
        none.get(timeout=0)


# -- at a broker -----------------------------------------------------------------------------------------------


class Client(End):
    def got(self) -> list[tuple[str, int]]:
        """Ids and attempts of what it was handed."""
        found = []
        for payload in self.frames(wire.DELIVER):
            _, ids, packed = wire.parse_deliver(payload)
            found.append((unpack(packed).id or "", wire.attempt_in(ids)[1]))
        return found


class Host:
    """A broker with a clock."""

    def __init__(self, **limits: int) -> None:
        self.disk, self.now, self.numbers, self.limits = MemoryDisk(), 1_000 * S, 0, Limits(**limits)
        self.open()

    def open(self) -> None:
        ledger = Ledger("/log", self.disk, broker="hub", now=self.now)
        broker = BrokerSettings("hub", channels=CHANNELS).broker()
        self.node = Node(broker, ledger, self.limits, life="1", now=self.now)
        self.publisher, self.numbers = self.client("publisher"), 0

    def client(self, name: str) -> Client:
        end = Client(self.node)
        end.session = self.node.greet(
            end, wire.Hello(wire.VERSION, "client", name), self.now, Principal(name)
        )
        return end

    def say(self, end: End, *messages: wire.Control) -> None:
        frames = [frame for each in messages for frame in wire.Frames().feed(wire.control(each))]
        self.node.receive(end.session, frames, self.now)
        self.settle()

    def subscribe(self, name: str, durable: str = "") -> Client:
        end = self.client(name)
        self.say(end, wire.Subscribe(1, "s", "exists ttl", durable))
        return end

    def publish(self, id: str, ttl: int) -> None:
        self.numbers += 1
        packed = pack(Notification.of({"ttl": ttl, "id": id, "producer": "p"}))
        self.node.receive(
            self.publisher.session, wire.Frames().feed(wire.publish(self.numbers, packed)), self.now
        )
        self.settle()

    def wait(self, seconds: int) -> None:
        self.now += seconds * S
        self.node.tick(self.now)
        self.settle()

    def settle(self) -> None:
        while self.node.is_busy or self.node.wants_sync:
            self.node.flush()
            if self.node.wants_sync:
                assert self.node.ledger is not None
                self.node.synced(self.node.ledger.log.sync())

    @property
    def expired(self) -> int:
        return self.node.counters.expired


def test_a_durable_subscriber_that_is_away_misses_what_has_expired() -> None:
    host = Host()
    host.node.lost(host.subscribe("ada", "desk").session)
    host.publish("short", 1)
    host.publish("long", 10)
    host.wait(2)
    assert host.subscribe("ada", "desk").got() == [("long", 1)]
    assert host.expired == 1


def test_what_was_delivered_before_comes_again_though_it_has_expired() -> None:
    host = Host()
    ada = host.subscribe("ada", "desk")
    host.publish("a", 1)
    host.wait(2)
    host.say(ada, wire.Reject("desk", wire.parse_deliver(ada.frames(wire.DELIVER)[0])[0], True))
    assert ada.got() == [("a", 1), ("a", 2)]
    host.node.lost(ada.session)
    host.wait(2)
    assert host.subscribe("ada", "desk").got() == [("a", 3)]
    assert host.expired == 0


def test_the_cursor_moves_on_so_that_the_log_need_not_keep_what_has_expired() -> None:
    host = Host()
    host.node.lost(host.subscribe("ada", "desk").session)
    host.publish("short", 1)
    host.node.lost(host.subscribe("bob", "other").session)
    host.wait(2)
    host.disk.kill()
    host.open()  # nobody knows yet what is for the subscribers
    for _ in range(3):
        host.wait(1)
    assert host.node.durables["desk"].cursor(host.node.dispatch.reached) == host.node.dispatch.reached


def test_what_waits_for_a_slow_client_expires_there() -> None:
    host = Host(buffer_bytes=1 << 12)
    ada = host.subscribe("ada")
    ada.stuck = 1 << 13
    host.node.flush()
    ada.session.waiting = 1 << 13
    host.publish("short", 1)
    host.publish("long", 10)
    host.wait(2)
    ada.let_go()
    host.settle()
    assert ada.got() == [("long", 1)]


def run(seed: int) -> list[str]:
    """What is wrong with a random run of a durable subscriber that comes and goes."""
    rng, host, wrong = Random(seed), Host(window=3), []
    until: dict[str, int] = {}
    handed: dict[str, int] = {}
    ada: Client | None = None
    for number in range(25):
        match rng.randrange(5):
            case 0 | 1:
                ttl = rng.randrange(1, 5)
                until[f"{number}"] = host.now + ttl * S
                host.publish(f"{number}", ttl)
            case 2:
                host.wait(rng.randrange(3))
            case 3 if ada is None:
                ada = host.subscribe("ada", "desk")
            case 3 | 4 if ada is not None:
                places = [wire.parse_deliver(each)[0] for each in ada.frames(wire.DELIVER)]
                if rng.random() < 0.5 and places:
                    host.say(ada, wire.Accept("desk", places))
                else:
                    host.node.lost(ada.session)
                    host.settle()
                    ada = None
        for id, _ in [] if ada is None else ada.got():
            if id not in handed and until[id] <= host.now:
                wrong.append(f"{id} has expired, and is handed out for the first time")
            handed.setdefault(id, host.now)
    return wrong


def _nothing_expires(self: Expiring, packed: bytes) -> bool:
    return False


def _not_when_read(self: Durable, record: object) -> bool:
    return True


MUTANTS: dict[str, tuple[type, str, Callable[..., bool]]] = {
    "nothing expires": (Expiring, "has_expired", _nothing_expires),
    "it is not looked at when the log is read": (Durable, "_may_begin", _not_when_read),
}


@given(st.integers(0, 1 << 30))
@settings(max_examples=40)
def test_no_run_hands_out_what_has_expired(seed: int) -> None:
    assert run(seed) == []


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[name])
    assert any(run(seed) for seed in range(100))
