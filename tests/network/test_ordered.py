"""Deliveries in the one total order over a network are those of an ordered bus, whatever comes when, and fails."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import Bus, sync
from fairlead.cli import main
from fairlead.correlation import fair, patterns
from fairlead.delivery import DeliveryRecord
from fairlead.errors import BrokerRefused, SubscriptionEnded, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse, render
from fairlead.model import Instant, Notification
from fairlead.model.order import END, Identity, OrderKey, event_time, identity_of
from fairlead.model.packed import pack, unpack
from fairlead.network import cuts, wire
from fairlead.network.destinations import Durable
from fairlead.network.ledger import Ledger
from fairlead.network.ordering import Arrangement, Order
from fairlead.network.subscriptions import Delivery
from fairlead_lab.testing.brokers import Brokers
from fairlead_lab.testing.chaos import Listener, Plan, Producer, World

LATENESS_US = 4_000
JITTER_US = 3_000
FAULTS = ["reset", "kill", "power", "pause", "partition", "slow disk", "crash a client"]
WANTED, EVERYTHING = parse("x >= 5"), parse("true")


# -- nodes under faults, against the bus -----------------------------------------------------------------------


class Timed(Producer):
    """Publishes events of about now, some of which follow others."""

    def act(self, rng: Random) -> None:
        if all(each.is_there for each in arranged(self.world)):
            super().act(rng)

    def _publish(self, rng: Random) -> None:
        self.left -= 1
        self.number += 1
        fields: dict[str, Any] = {"x": rng.randint(0, 9), "time": self.world.now + rng.randint(0, JITTER_US)}
        if rng.random() < 0.5:
            fields["sequence"] = self.number
        if rng.random() < 0.2 and (causes := self._causes()):
            cause = rng.choice(causes)
            fields["cause"] = f"{cause.producer}/{cause.id}"
        notification = Notification.of({**fields, "producer": self.name, "id": str(self.number)})
        self.world.accounts.publishing(notification)
        packed = pack(notification)
        self.unstored[self.number] = (packed, identity_of(notification))
        if self.may_publish:
            self.send(wire.publish(self.number, packed))

    def _causes(self) -> list[Identity]:
        """What this producer may have seen: a cause that comes after what it causes raises nothing any more."""
        published = self.world.accounts._publications.items()
        return [identity for identity, each in published if each.acknowledged]


class Arranged(Listener):
    """A durable subscriber that puts what it gets in order."""

    def __init__(self, world: World, name: str, broker: str) -> None:
        super().__init__(world, name, broker, filters=[], durable=True)
        self.order = Order(WANTED, EVERYTHING, LATENESS_US)
        self.delivered: list[list[tuple[OrderKey, str]]] = []
        self.late: set[Identity] = set()
        self.is_there = self.is_ending = self.is_over = False
        self._begin()

    def _begin(self) -> None:
        self.arrangement = Arrangement(self.order, lambda each: self.settled(each.ordinal))
        self.held: set[int] = set()
        self.delivered.append([])
        self.asking: tuple[int, int] | None = None

    def settled(self, place: int) -> None:
        self.held.discard(place)
        self.unaccepted.append(place)

    def crash(self) -> None:
        super().crash()
        self._begin()

    def welcomed(self) -> None:
        self.number += 1
        text = render(self.order.wanted)
        self.subscribing = self.number
        self.send(wire.control(wire.Subscribe(self.number, "s", text, self.name, ordered=True)))
        if self.asking is not None:
            self.ask(self.asking[1])

    def ask(self, bound: int) -> None:
        self.number += 1
        self.asking = self.number, bound
        self.send(wire.control(wire.Cut(self.number, self.name)))

    def on_message(self, message: wire.Control) -> None:
        if isinstance(message, wire.Done) and message.number == self.subscribing:
            self.is_there = True
        elif isinstance(message, wire.Refused) and message.number == self.subscribing:
            self.welcomed()  # until there is room
        elif isinstance(message, wire.Response) and self.asking and message.number == self.asking[0]:
            bound, self.asking = self.asking[1], None
            for each in self.arrangement.complete(bound):
                assert each.key is not None
                self.delivered[-1].append((each.key, each.notification.producer))
                self.settled(each.ordinal)
            self.is_over = bound == END
        else:
            super().on_message(message)

    def got(self, kind: int, payload: bytes) -> None:
        place, _, packed = wire.parse_deliver(payload)
        if place <= self.seen:
            if place not in self.held and place not in self.unaccepted:
                self.unaccepted.append(place)  # the broker has not heard that it is dealt with
            return
        self.held.add(place)
        self.seen = place
        notification = unpack(packed)
        late = self.arrangement.take(Delivery(notification, ("s",), self.name, place))
        if late is not None:
            self.late.add(identity_of(notification))
        bound = self.arrangement.bound()
        if self.asking is None and bound is not None:
            self.ask(bound)

    def settle(self) -> bool:
        is_all = self.is_ending and not any(
            isinstance(each, Timed) and each.unstored for each in self.world.clients
        )
        if self.asking is None and not self.is_over and is_all and self.welcome:
            self.ask(END)
            return True
        return super().settle()


class Mended(World):
    """A run at whose end the subscribers know that nothing more is published."""

    def heal(self) -> None:
        super().heal()
        for each in arranged(self):
            each.is_ending = True


def arranged(world: World) -> list[Arranged]:
    return [each for each in world.clients if isinstance(each, Arranged)]


def run(plan: Plan) -> World:
    """A run in which everything is published after the subscriptions are installed."""
    world = Mended(plan)
    rng = Random(plan.seed)
    logged: list[Identity] = []
    append = Ledger.publications_of

    def publications_of(self: Ledger, packed: list[bytes], now: int) -> range:
        offsets = append(self, packed, now)
        logged.extend(identity_of(unpack(each)) for each in packed)
        return offsets

    names = list(world.hosts)
    world.clients[:] = [Arranged(world, f"a{at}", rng.choice(names)) for at in range(2)] + [
        Timed(world, f"p{at}", rng.choice(names), total=rng.randint(20, 80), window=rng.choice((1, 4, 16)))
        for at in range(2)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "publications_of", publications_of)
        world.run()
    for each in arranged(world):
        check(world, each, logged)
    return world


def check(world: World, subscriber: Arranged, logged: list[Identity]) -> None:
    """Check that what came is what an ordered bus delivers of all but the late, and that late is late."""
    published = {
        identity_of(each.notification): each.notification for each in world.accounts._publications.values()
    }
    safe = {identity for identity, each in world.accounts._publications.items() if each.acknowledged}
    first, last = {}, {}
    for index, identity in enumerate(logged):
        first.setdefault(identity, index)
        last[identity] = index
    for identity in subscriber.late:
        time = event_time(published[identity])
        assert any(
            event_time(published[other]) - LATENESS_US > time and first[other] < last[identity]
            for other in logged
        ), f"{identity} is not late"
    for life in subscriber.delivered:
        keys = [key for key, _ in life]
        assert keys == sorted(set(keys)), "in the total order, each once"
    came = {key.identity for life in subscriber.delivered for key, _ in life}
    wanted = {identity for identity in safe if WANTED.matches(published[identity])}
    assert wanted <= came | subscriber.late, "nothing is lost"
    if len(subscriber.delivered) == 1:
        on_bus = bus_deliveries(
            [published[identity] for identity in dict.fromkeys(logged) if identity not in subscriber.late]
        )
        assert [key for key, _ in subscriber.delivered[0]] == on_bus, "the keys of the bus"


def bus_deliveries(
    notifications: list[Notification], filter: Filter = WANTED, **validity: Any
) -> list[OrderKey]:
    """The keys of what an ordered bus delivers."""
    keys: list[OrderKey] = []
    with Bus(order="ordered", lateness_us=END // 2) as bus:
        queue = bus.subscribe(filter, subscriber="s", **validity)
        for each in notifications:
            bus.publish(each)
        bus.close()
        with contextlib.suppress(SubscriptionEnded, TimeoutError):
            while (key := queue.get_delivery(0).key) is not None:
                keys.append(key)
    return keys


PLANS = st.builds(
    Plan,
    seed=st.integers(0, 10_000),
    brokers=st.integers(1, 4),
    steps=st.sampled_from([500, 1_500]),
    faults=st.sets(
        st.sampled_from(["reset", "kill", "power", "pause", "partition", "slow disk", "crash a client"])
    ).map(frozenset),
    producers=st.just(0),
    durables=st.just(0),
    listeners=st.just(0),
)


@settings(max_examples=settings.default.max_examples // 4)
@given(PLANS)
def test_deliveries_are_those_of_an_ordered_bus_whatever_fails(plan: Plan) -> None:
    run(plan)


# -- mutants ---------------------------------------------------------------------------------------------------


def unmarked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that do not wait for the marks of other brokers."""
    monkeypatch.setattr(cuts, "reached_in", lambda reached, ends: True)


def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that do not wait for the subscriber's own outbox."""
    monkeypatch.setattr(Durable, "handed_over", lambda durable, reached: END)


def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts that do not wait for brokers that are away."""

    class Wire:
        """The messages, as far as cuts know them."""

        def __getattr__(self, name: str) -> Any:
            return getattr(wire, name)

        def Barrier(self, origin: str, number: int, patient: bool, ends: Any) -> wire.Barrier:
            return wire.Barrier(origin, number, False, ends)

    monkeypatch.setattr(cuts, "wire", Wire())


def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watermark that follows the newest event that has come, as on the bus."""

    def ask(self: Arranged, bound: int) -> None:
        self.number += 1
        self.asking = self.number, bound
        self.on_message(wire.Response(self.number, None))

    monkeypatch.setattr(Arranged, "ask", ask)


def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """No context: what is not delivered raises nothing."""
    monkeypatch.setattr(Order, "wanted", property(lambda order: order.filter))


def windowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that what is held fills."""
    monkeypatch.setattr(Durable, "hold_any", lambda durable: None)


FAULTY = [
    Plan(seed, brokers, 1_500, frozenset(faults), producers=0, durables=0, listeners=0)
    for seed, brokers, faults in [
        (10, 3, ("kill", "pause")),
        (10, 1, ("reset", "crash a client")),
        (10, 3, ("pause", "slow disk")),
        (14, 3, ("kill", "pause")),
        (14, 3, ("pause", "slow disk")),
        (17, 1, ("reset", "crash a client")),
    ]
]


def run_all() -> None:
    for plan in FAULTY:
        run(plan)


def test_the_plans_that_find_mutants_find_nothing_without_one() -> None:
    run_all()


@pytest.mark.parametrize("mutant", [unmarked, hasty, impatient, unasked, narrow, windowed])
def test_an_order_that_is_established_too_early_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        run_all()


# -- over sockets ----------------------------------------------------------------------------------------------


def event(producer: str, number: int, time: int, **fields: Any) -> dict[str, Any]:
    return {"producer": producer, "id": str(number), "time": time, "x": number, **fields}


def lines(subscription: sync.Subscription, name: str = "s") -> list[bytes]:
    """The deliveries of a subscription as bytes."""
    found = []
    for delivery in subscription.deliveries():
        assert delivery.key is not None
        found.append(DeliveryRecord(name, delivery.key, delivery.subscriptions).line())
        delivery.accept()
    return found


EVENTS = [
    event(f"p{number % 2}", number, time, sequence=number, cause=f"p{(number + 1) % 2}/{number - 1}")
    for number, time in enumerate([50, 45, 70, 61, 61, 90, 82, 110, 101, 130])
]


@pytest.mark.parametrize(
    "validity", [{}, {"since": Instant(61)}, {"since": Instant(60), "until": Instant(110)}]
)
@pytest.mark.parametrize("durable", ["", "desk"])
def test_the_bytes_are_those_of_an_ordered_bus(
    validity: dict[str, Any], durable: str, brokers: Brokers, tmp_path: Path
) -> None:
    hub = brokers.start("hub", tmp_path)
    ends = [brokers.start(name, tmp_path, links=(hub.url,)) for name in ("east", "west")]
    with (
        sync.connect(hub.url) as client,
        sync.connect(ends[0].url) as east,
        sync.connect(ends[1].url) as west,
    ):
        subscription = client.subscribe(
            "x != 3", durable=durable, id="i", order="ordered", lateness=15, context="true", **validity
        )
        for number, each in enumerate(EVENTS):
            (east, west)[number % 2].publish(each)
        subscription.finish()
        found = lines(subscription)
        assert subscription.late == subscription.held == 0
    on_bus = bus_deliveries([Notification.of(each) for each in EVENTS], parse("x != 3"), **validity)
    assert found == [DeliveryRecord("s", key, ("i",)).line() for key in on_bus]
    assert found


def test_a_subscription_ends_where_its_validity_does(brokers: Brokers, tmp_path: Path) -> None:
    with sync.connect(brokers.start("hub", tmp_path).url) as client:
        subscription = client.subscribe("exists x", order="ordered", until=Instant(20))
        for number, time in enumerate([10, 20, 30]):
            client.publish(event("p", number, time))
        assert [delivery.notification.get("x") for delivery in subscription.deliveries()] == [0]


def test_time_may_be_declared_and_what_is_late_is_told(brokers: Brokers, tmp_path: Path) -> None:
    late = []
    with sync.connect(brokers.start("hub", tmp_path).url) as client:
        subscription = client.subscribe("exists x", order="ordered", lateness="1h", on_late=late.append)
        client.publish(event("p", 1, 10))
        subscription.advance(Instant(11))
        assert subscription.get(30).get("x") == 1
        client.publish(event("p", 2, 9))
        client.publish(event("p", 3, 12))
        subscription.finish()
        assert [each.get("x") for each in subscription] == [3]
    assert [(each.notification.get("x"), each.watermark) for each in late] == [(2, 11)]


def test_a_durable_one_goes_on_in_the_order_where_it_was(brokers: Brokers, tmp_path: Path) -> None:
    hub = brokers.start("hub", tmp_path)
    wanted: dict[str, Any] = {"durable": "desk", "order": "ordered", "lateness": 5}
    with sync.connect(hub.url) as producer:
        with sync.connect(hub.url) as client, client.subscribe("exists x", **wanted) as subscription:
            for number, time in enumerate([20, 10, 30, 25]):
                producer.publish(event("p", number, time))
            assert [subscription.get(30).get("x") for _ in range(2)] == [1, 0]
        port = hub.port
        brokers.stop(hub)
        hub = brokers.start("hub", tmp_path, port)
        with sync.connect(hub.url) as client:
            subscription = client.subscribe("exists x", **wanted)
            producer.publish(event("p", 4, 35))
            subscription.finish()
            assert [each.get("x") for each in subscription] == [3, 2, 4]


def test_what_is_in_the_log_is_delivered_where_history_asks_for_it(brokers: Brokers, tmp_path: Path) -> None:
    with sync.connect(brokers.start("hub", tmp_path).url) as client:
        client.publish(event("p", 1, 10))
        with (
            client.subscribe("exists x", order="ordered", backfill=0) as all_of_it,
            client.subscribe("exists x", order="ordered") as new,
        ):
            client.publish(event("p", 2, 5))
            all_of_it.finish()
            new.finish()
            assert [each.get("x") for each in all_of_it] == [2, 1]
            assert [each.get("x") for each in new] == [2]


def test_brokers_without_a_log_establish_no_order(brokers: Brokers, tmp_path: Path) -> None:
    hub = brokers.start("hub", tmp_path)
    brokers.start("east", links=(hub.url,))
    with sync.connect(hub.url) as client:
        subscription = client.subscribe("exists x", order="ordered")
        with pytest.raises(BrokerRefused, match="east has no log"):
            subscription.finish()


@pytest.mark.parametrize(
    "question",
    [
        fair.parse("A.x < B.x and B.x < C.x"),
        patterns.parse("r: A as low followed by B as high, high.x > low.x"),
        patterns.parse("n: A then no C within 1 second"),
    ],
    ids=str,
)
def test_clients_at_different_brokers_detect_what_the_bus_does(
    question: Any, brokers: Brokers, tmp_path: Path
) -> None:
    hub = brokers.start("hub", tmp_path)
    ends = [brokers.start(name, tmp_path, links=(hub.url,)) for name in ("east", "west")]
    rng = Random(7)
    events = [
        event("p", number, 400_000 * number + rng.randrange(900_000), type="ABC"[rng.randrange(3)])
        for number in range(40)
    ]
    with Bus(order="ordered", lateness_us=900_000) as bus:
        found = bus.detect(question)
        for each in events:
            bus.publish(each)
    expected = [repr(each) for each in found]
    with sync.connect(ends[0].url) as east, sync.connect(ends[1].url) as west:
        detections = [client.detect(question, lateness=900_000, order="ordered") for client in (east, west)]
        for number, each in enumerate(events):
            (east, west)[number % 2].publish(each)
        for detection in detections:
            detection.finish()
            assert [repr(each) for each in detection] == expected
            assert detection.late == 0
    assert expected


@pytest.mark.parametrize(
    "arguments",
    [
        {"order": "sorted"},
        {"lateness": "5s"},
        {"until": 5},
        {"context": "true"},
        {"order": "ordered", "since": 5, "until": 5},
        {"order": "ordered", "durable": "d", "shared": True},
        {"order": "ordered", "durable": "d", "attempts_max": 3},
    ],
    ids=str,
)
def test_arguments_that_contradict_are_refused(
    arguments: dict[str, Any], brokers: Brokers, tmp_path: Path
) -> None:
    with sync.connect(brokers.start("hub", tmp_path).url) as client:
        with pytest.raises(ValueRefused):
            client.subscribe("exists x", **arguments)
        live = client.subscribe("exists x")
        with pytest.raises(ValueRefused, match="no watermark"):
            live.finish()


def test_the_prompt_prints_them_in_order(
    brokers: Brokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = brokers.start("hub", tmp_path)
    with sync.connect(hub.url) as client:
        for number, time in enumerate([20, 10, 40]):
            client.publish(event("p", number, time))
        ordered = ["sub", "-b", hub.url, "--ordered", "--backfill", "1970-01-01T00:00:00Z", "--json"]
        assert main([*ordered, "exists x", "--lateness", "10us", "-n", "2"]) == 0
    assert [json.loads(line)["x"] for line in capsys.readouterr().out.splitlines()] == [1, 0]
    assert main(["sub", "-b", hub.url, "--until", "2026-01-01T00:00:00Z"]) == 2
    assert "--until goes with --ordered" in capsys.readouterr().err
