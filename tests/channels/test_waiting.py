"""What waits at one destination: the highest rank goes next; the channel of the newest says what is too much."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairlead as fl
from fairlead.channels import Channel, Channels, Priority
from fairlead.channels.waiting import DISCARDS, Standing, Waiting
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.client_sessions import ClientSession
from fairlead.network.ledger import Ledger
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings, Limits
from fairlead.rules import Seam
from fairlead.rules.channeling import Channeling
from fairlead.rules.rule import Route
from fairlead.security import Principal
from fairlead_lab.delivery.waiting import outcomes
from fairlead_lab.testing.brokers import PATIENCE_S, Brokers, wait_until
from fairlead_lab.testing.memory import MemoryDisk
from fairlead_lab.testing.nodes import End

# -- the program -------------------------------------------------------------------------------------------------

standings = st.builds(
    Standing, st.integers(0, 9), st.integers(0, 9), st.sampled_from(DISCARDS), st.sampled_from("ab")
)
steps = st.lists(st.tuples(st.sampled_from(["put", "put", "take", "discard"]), standings), max_size=30)


def gone(given: list[Any], make: Any = Waiting) -> list[int]:
    """The same as the specification, of the product's code."""
    of: dict[int, Standing] = {}
    waiting, found = make(lambda number: of[number]), []
    for what, standing in given:
        if what == "put":
            of[len(of)] = standing
            waiting.append(len(of) - 1)
        elif waiting:
            assert what != "take" or waiting.first is not None
            found.append(waiting.popleft() if what == "take" else waiting.discard())
    assert sorted([*found, *waiting]) == sorted(of)
    return found


@given(steps)
def test_what_goes_is_what_the_specification_says(steps: list[Any]) -> None:
    assert gone(steps) == outcomes(steps)


class FirstComeFirst(Waiting[int]):
    def _next(self) -> int:
        return next(iter(self._items))


class StarvesEqualOnes(Waiting[int]):
    def _next(self) -> int:
        return next(reversed(self._ranked[max(self._ranked)]))


class KeepsTheNewest(Waiting[int]):
    def discard(self) -> int:
        newest = next(reversed(self._items))
        return self.discard_oldest() if self._items[newest][1].discard == "newest" else super().discard()


class ForgetsKeys(Waiting[int]):
    def discard(self) -> int:
        newest = next(reversed(self._items))
        is_keyed = self._items[newest][1].discard == "latest per key"
        return self.discard_oldest() if is_keyed else super().discard()


@pytest.mark.parametrize("mutant", [FirstComeFirst, StarvesEqualOnes, KeepsTheNewest, ForgetsKeys])
def test_a_defect_is_found(mutant: Any) -> None:
    rng = Random(1)
    runs = [
        [
            (
                rng.choice(["put", "put", "take", "discard"]),
                Standing(rng.randrange(3), rng.randrange(3), rng.choice(DISCARDS), rng.choice("ab")),
            )
            for _ in range(20)
        ]
        for _ in range(50)
    ]
    assert any(gone(each, mutant) != outcomes(each) for each in runs)


# -- what channels say -----------------------------------------------------------------------------------------

URGENT = Channel("urgent", "exists urgency", priority=Priority("urgency", default=2), order="priority")
KEPT = Channel("kept", "exists keep", priority=Priority("keep"), discard="lowest priority")
KEYED = Channel("keyed", "exists k", per=("k",), discard="latest per key")
LAST = Channel("last", "exists last", discard="newest")
CHANNELS = (URGENT, KEPT, KEYED, LAST, Channel("constant", 'type = "C"', priority=9, order="priority"))


def standing_of(given: dict[str, Any]) -> Standing:
    seam = Seam(lambda notification, source: Route((), ()), [Channeling(Channels(CHANNELS))])
    notification = seam.mark(Notification.of(given), 1)
    assert unpack(pack(notification)) == notification
    return seam.standing(notification)


@pytest.mark.parametrize(
    ("given", "standing"),
    [
        ({"urgency": 9}, Standing(9, 9)),
        ({"urgency": 10}, Standing(2, 2)),
        ({"urgency": True}, Standing(2, 2)),
        ({"urgency": "high"}, Standing(2, 2)),
        ({"urgency": 9, "priority": 1}, Standing(1, 1)),  # what the publisher said stays
        ({"urgency": 9, "priority": "low"}, Standing(2, 2)),
        ({"keep": 9}, Standing(4, 9, "lowest priority")),  # a priority without its order decides what goes
        ({"k": 1}, Standing(4, 4, "latest per key", ("keyed", 1))),
        ({"last": 1, "priority": 9}, Standing(4, 4, "newest")),  # an attribute as any other
        ({"type": "C", "priority": 1}, Standing(9, 9)),  # a constant is prescribed
        ({"priority": 9}, Standing()),
    ],
)
def test_the_channel_says_the_priority_or_names_the_attribute_that_does(
    given: dict[str, Any], standing: Standing
) -> None:
    found = standing_of(given)
    assert found._replace(key=None) == standing._replace(key=None)
    assert (found.key is None) == (standing.key is None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Channel("a", "true", priority=10), "a priority is a whole number from 0 to 9"),
        (lambda: Priority("x", default=True), "a priority is a whole number"),
        (lambda: Channel("a", "true", order="total"), "is 'producer' or 'priority'"),  # type: ignore[arg-type]
        (lambda: Channel("a", "true", discard="all"), "a channel discards oldest"),  # type: ignore[arg-type]
        (lambda: Channel("a", "true", discard="latest per key"), "has no key"),
        (
            lambda: Channels([Channel("a", "priority > 3", priority=4)]),
            "is about 'priority', which channels mark",
        ),
    ],
)
def test_what_cannot_be_said_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(fl.ChannelError, match=message):
        make()


def test_channels_that_are_written_are_read_again() -> None:
    from fairlead.channels import channels_of

    tables = Channels(CHANNELS).to_json()
    assert channels_of(tables).to_json() == tables
    assert tables[1] == {
        "name": "kept",
        "filter": "exists keep",
        "priority": {"attribute": "keep", "default": 4},
        "discard": "lowest priority",
    }


# -- on the bus --------------------------------------------------------------------------------------------------

kinds = st.sampled_from(["urgency", "keep", "k", "last", "other"])
moves = st.lists(
    st.one_of(st.tuples(st.just("put"), kinds, st.integers(0, 9)), st.just(("take", "", 0))), max_size=25
)


def expected(moves: list[tuple[str, str, int]], most: int | None) -> list[int]:
    """The numbers of what a reader takes of a bounded queue, by the specification."""
    steps: list[Any] = []
    taken, waiting = [], 0
    for what, kind, value in moves:
        if what == "put":
            standing = standing_of({kind: value})
            steps.append(("put", standing))
            waiting += 1
            if most is not None and waiting > most:
                steps.append(("discard", standing))
                waiting -= 1
        elif waiting:
            steps.append(("take", Standing()))
            waiting -= 1
            taken.append(outcomes(steps)[-1])
    return taken


@given(moves, st.sampled_from([{}, {"maxsize": 2, "overflow": "drop"}, {"accept": "each"}]))
def test_a_reader_of_a_bus_takes_what_the_specification_says(
    moves: list[tuple[str, str, int]], options: dict[str, Any]
) -> None:
    bus = fl.Bus(channels=CHANNELS)
    made = bus.subscribe("true", **options)
    numbers, got = iter(range(99)), []
    for what, kind, value in moves:
        if what == "put":
            bus.publish({kind: value, "n": next(numbers)})
        elif len(made):
            delivery = made.get_delivery(timeout=1)
            delivery.accept()
            got.append(delivery.notification.get("n"))
    assert got == expected(moves, options.get("maxsize"))


def test_cases_of_the_corpus() -> None:
    """17 and 18: priorities 1, 9, 5."""

    def taken(channel: Channel, **options: Any) -> list[int]:
        bus = fl.Bus(channels=[channel])
        made = bus.subscribe("true", **options)
        for priority in (1, 9, 5):
            bus.publish({"p": priority})
        return [made.get(timeout=0).get("p") for _ in range(len(made))]

    assert taken(Channel("c", "true", priority=Priority("p"), order="priority")) == [9, 5, 1]
    assert taken(Channel("c", "true", priority=Priority("p"))) == [1, 9, 5]
    lowest = Channel("c", "true", priority=Priority("p"), discard="lowest priority")
    assert taken(lowest, maxsize=2, overflow="drop") == [9, 5]
    assert taken(lowest, maxsize=2, overflow="drop_oldest") == [9, 5]


def test_a_durable_subscriber_of_a_bus_takes_the_highest_first(tmp_path: Any) -> None:
    with fl.Bus(channels=CHANNELS, log=tmp_path) as bus:
        bus.subscribe("exists urgency", durable="desk").close()
        for urgency in (1, 9, 5):
            bus.publish({"urgency": urgency})
        made = bus.subscribe("exists urgency", durable="desk")
        assert made.get(1).get("urgency") == 9
    with fl.Bus(channels=CHANNELS, log=tmp_path) as bus:
        made = bus.subscribe("exists urgency", durable="desk")
        assert [made.get(1).get("urgency") for _ in range(2)] == [9, 5]
        made.get(1)
        made.close()


def test_without_channels_that_arrange_nothing_is_arranged() -> None:
    bus = fl.Bus(channels=[Channel("c", "true", priority=Priority("p"))])
    made = bus.subscribe("true", maxsize=1, overflow="drop")
    for priority in (9, 1):
        bus.publish({"p": priority})
    assert made.get(timeout=0).get("p") == 1
    assert made.dropped == 1


# -- at a broker -------------------------------------------------------------------------------------------------


class Slow(End):
    """A client that does not read."""

    def got(self) -> list[int]:
        return [unpack(wire.parse_deliver(each)[2]).get("n") for each in self.frames(wire.DELIVER)]


def backlog(kinds: list[tuple[str, int]], most: int) -> list[int]:
    """The numbers of what a slow client gets, once it reads, of a backlog with room for so many."""
    ledger = Ledger("/log", MemoryDisk(), broker="hub", now=1)
    limits = Limits(buffer_bytes=1 << 12, queue=most)
    node = Node(BrokerSettings("hub", channels=CHANNELS).broker(), ledger, limits, life="1", now=1)

    def client(name: str) -> Slow:
        end = Slow(node)
        end.session = node.greet(end, wire.Hello(wire.VERSION, "client", name), 1, Principal(name))
        return end

    def settle() -> None:
        while node.is_busy or node.wants_sync:
            node.flush()
            if node.wants_sync:
                node.synced(ledger.log.sync())

    ada, publisher = client("ada"), client("publisher")
    subscribe = wire.control(wire.Subscribe(1, "s", "exists n"))
    node.receive(ada.session, wire.Frames().feed(subscribe), 1)
    settle()
    ada.stuck = ada.session.waiting = 1 << 13
    for number, (kind, value) in enumerate(kinds, 1):
        packed = pack(Notification.of({kind: value, "n": number - 1, "id": str(number), "producer": "p"}))
        node.receive(publisher.session, wire.Frames().feed(wire.publish(number, packed)), 1)
        settle()
    ada.let_go()
    settle()
    return ada.got()


def wanted(kinds: list[tuple[str, int]], most: int) -> list[int]:
    steps: list[Any] = []
    for at, (kind, value) in enumerate(kinds):
        steps.append(("put", standing_of({kind: value})))
        if at >= most:
            steps.append(("discard", Standing()))
    before = len(outcomes(steps))
    return outcomes([*steps, *[("take", Standing())] * min(most, len(kinds))])[before:]


@given(st.lists(st.tuples(kinds, st.integers(0, 9)), max_size=8))
@settings(max_examples=40, deadline=None)
def test_a_slow_client_gets_what_the_specification_says(kinds: list[tuple[str, int]]) -> None:
    assert backlog(kinds, 3) == wanted(kinds, 3)


def test_a_broker_that_does_not_ask_channels_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClientSession, "_discard", ClientSession._next)
    runs = [[(kind, (n * 7) % 10) for n in range(6)] for kind in ("keep", "last", "urgency")]
    assert any(backlog(each, 3) != wanted(each, 3) for each in runs)


def test_what_waits_in_a_client_goes_by_priority(tmp_path: Any) -> None:
    """Over two brokers, live and durable."""
    with Brokers() as brokers:
        hub = brokers.start("hub", tmp_path, channels=CHANNELS)
        east = brokers.start("east", tmp_path, channels=CHANNELS, links=(hub.url,))
        with (
            fl.sync.connect(hub.url, name="p") as p,
            fl.sync.connect(east.url) as desk,
            desk.subscribe("exists urgency") as live,
            desk.subscribe("exists urgency", durable="desk") as durable,
        ):
            for urgency in (1, 9, 5, 9):
                p.publish({"urgency": urgency, "n": urgency})
            for made in (live, durable):
                wait_until(lambda made=made: made.waiting == 4)  # type: ignore[misc]
                assert [made.get(PATIENCE_S).get("urgency") for _ in range(4)] == [9, 9, 5, 1]


def test_a_subscription_that_is_changed_has_other_channels(tmp_path: Any) -> None:
    with Brokers() as brokers:
        hub = brokers.start("hub", tmp_path, channels=CHANNELS)
        with fl.sync.connect(hub.url, name="p") as client, client.subscribe("exists plain") as made:
            for plain in (1, 2):
                client.publish({"plain": plain})
            wait_until(lambda: made.waiting == 2)
            made.change("exists urgency")
            for urgency in (1, 9):
                client.publish({"urgency": urgency})
            wait_until(lambda: made.waiting == 4)
            got = [made.get(PATIENCE_S) for _ in range(4)]
            assert [each.get("urgency") or -each.get("plain") for each in got] == [9, -1, -2, 1]
