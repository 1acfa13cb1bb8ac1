"""The past of all brokers: a subscriber that begins in it gets it once, in order; or is told what is missing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.cli import main
from fairlead.filters.language import parse
from fairlead.log.records import PUBLICATION
from fairlead.model import Notification
from fairlead.model.order import identity_of
from fairlead.model.packed import pack, unpack
from fairlead.network import history, sync, wire
from fairlead.network.history import Histories, History
from fairlead.network.ledger import Ledger
from fairlead.network.node import Node
from fairlead.security import Principal
from fairlead_lab.testing.brokers import Brokers
from fairlead_lab.testing.chaos import FILTERS as PLANNED
from fairlead_lab.testing.chaos import Listener, Plan, World
from fairlead_lab.testing.nodes import End, Line

NODES = 3
FILTERS = ("true", "x > 0", 'producer = "p0"', "x = 1 or x = 2")


class Reader(End):
    """A client that subscribes, accepts what comes, and tells what that was."""

    def __init__(self, node: Node, name: str) -> None:
        super().__init__(node)
        self.session = node.greet(self, wire.Hello(wire.VERSION, "client", name), principal=Principal(name))

    def subscribe(self, filter: str, *, durable: str = "", since: int = 0) -> None:
        self.hear(wire.control(wire.Subscribe(1, "s", filter, durable, since, history=True)))

    @property
    def got(self) -> list[tuple[int, Notification]]:
        """The deliveries, with their places."""
        return [
            (place, unpack(packed)) for place, _, packed in map(wire.parse_deliver, self.frames(wire.DELIVER))
        ]

    @property
    def gaps(self) -> list[tuple[str, int]]:
        told = map(wire.parse_control, self.frames(wire.CONTROL))
        return next((each.gaps for each in reversed([*told]) if isinstance(each, wire.Gapped)), [])


class Scene:
    """Publishers at each node of a line; each producer publishes at one."""

    def __init__(self) -> None:
        self.line = Line(NODES)
        self.publishers = [self.line.client(at, f"p{at}") for at in range(NODES)]
        self.count = 0
        self.line.settle()

    def publish(self, notification: Notification) -> None:
        self.count += 1
        at = int(notification.producer[1:])
        self.publishers[at].hear(wire.publish(self.count, pack(notification)))

    def move(self, rng: Random) -> None:
        """Carry on some of what there is to be carried on."""
        for node in rng.sample(self.line.nodes, NODES):
            if rng.random() < 0.5:
                node.flush()
            if rng.random() < 0.5 and node.wants_sync:
                node.synced(0 if node.ledger is None else node.ledger.log.sync())
        for one, other in rng.sample(self.line.links, len(self.line.links)):
            for end, far in ((one, other), (other, one)):
                if rng.random() < 0.5 and (written := end.take()):
                    far.hear(written)


def published(rng: Random, count: int) -> list[Notification]:
    return [
        Notification.of({"x": rng.randrange(3), "producer": f"p{rng.randrange(NODES)}", "id": f"{at}"})
        for at in range(count)
    ]


def broken(every: list[Notification], filter: str, got: list[tuple[int, Notification]]) -> list[str]:
    """The violations of the law."""
    wanted = parse(filter)
    ids = [each.id for _, each in got]
    wrong = [f"{id} twice" for id in {*ids} if ids.count(id) > 1]
    wrong += [f"{each.id} is missing" for each in every if wanted.matches(each) and each.id not in ids]
    wrong += [f"{each.id} does not match" for _, each in got if not wanted.matches(each)]
    wrong += [
        f"the place {place} after a later one" for (before, _), (place, _) in pairwise(got) if place <= before
    ]
    for producer in {each.producer for each in every}:
        mine = [int(each.id or 0) for _, each in got if each.producer == producer]
        wrong += [f"of {producer}, {mine}"] * (mine != sorted(mine))
    return wrong


def run(seed: int) -> list[str]:
    """What is wrong where publications, other subscriptions and one of the past take turns at random."""
    rng = Random(seed)
    scene, every = Scene(), published(rng, rng.randrange(4, 24))
    asked, at, filter = rng.randrange(1, len(every)), rng.randrange(NODES), rng.choice(FILTERS)
    other = rng.randrange(len(every)) if rng.random() < 0.7 else -1
    durable = rng.choice(["", "desk"])
    end: Reader | None = None
    for number, each in enumerate(every):
        if number == other:
            Reader(scene.line.nodes[rng.randrange(NODES)], "bob").hear(
                wire.control(wire.Subscribe(1, "o", rng.choice(FILTERS), rng.choice(["", "bob"])))
            )
        if number == asked:
            for _ in range(rng.randrange(6)):
                scene.move(rng)
            if rng.random() < 0.5:
                scene.line.settle()
            end = Reader(scene.line.nodes[at], "ada")
            end.subscribe(filter, durable=durable)
        scene.publish(each)
        for _ in range(rng.randrange(3)):
            scene.move(rng)
    scene.line.settle()
    assert end is not None
    return broken(every, filter, end.got) + [f"{gap} is told" for gap in end.gaps]


@pytest.mark.parametrize("seed", range(80))
def test_all_of_the_past_comes_once_and_in_the_order_of_each_producer(seed: int) -> None:
    assert run(seed) == []


@pytest.mark.parametrize("seed", range(20))
def test_it_comes_in_several_answers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "BARRIER_BYTES", 40)
    monkeypatch.setattr(history, "MESSAGE_BYTES", 40)
    monkeypatch.setattr(history, "READ_AT_ONCE", 2)
    assert run(seed) == []


# -- under faults ----------------------------------------------------------------------------------------------


class Historian(Listener):
    """A durable subscriber that begins at the beginning of all logs, in the middle of a run."""

    def __init__(self, world: World, name: str, broker: str, rng: Random) -> None:
        super().__init__(world, name, broker, filters=[rng.choice(PLANNED)], durable=True)
        self.rest = rng.randrange(40)
        self.got_all: list[tuple[int, Notification]] = []
        self.gaps: list[tuple[str, int]] = []

    def act(self, rng: Random) -> None:
        if self.rest:
            self.rest -= 1
        else:
            super().act(rng)

    def _subscribe(self, id: str) -> None:
        subscription = self.subscriptions[id]
        self.number += 1
        subscription.number, subscription.sent = self.number, True
        text = self.world.text_of(subscription.filter)
        self.send(
            wire.control(wire.Subscribe(self.number, id, text, subscription.durable, since=0, history=True))
        )

    def on_message(self, message: wire.Control) -> None:
        super().on_message(message)
        if isinstance(message, wire.Gapped):
            self.gaps = message.gaps

    def got(self, kind: int, payload: bytes) -> None:
        before = self.seen
        super().got(kind, payload)
        if self.seen != before:
            self.got_all.append((self.life, unpack(wire.parse_deliver(payload)[2])))


def run_world(plan: Plan, *, retains: bool = False) -> list[str]:
    """What is wrong with what comes from the past, whatever fails."""
    world, rng = World(plan), Random(plan.seed)
    world.clients += [Historian(world, f"h{at}", rng.choice([*world.hosts]), rng) for at in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        if not retains:
            patch.setattr(Ledger, "retain", lambda ledger, now, **limits: ledger.log.first)
        world.run()
    wrong: list[str] = []
    for each in world.clients:
        if isinstance(each, Historian) and each.subscriptions:
            wrong += _judge(world, each, retains=retains)
    tally = world.accounts.tally()
    return wrong if tally.holds or retains else [*wrong, str(tally)]


def _judge(world: World, each: Historian, *, retains: bool) -> list[str]:
    (subscription,) = each.subscriptions.values()
    came: dict[Any, int] = {}
    wrong = []
    for life, notification in each.got_all:
        identity = identity_of(notification)
        if came.get(identity) == life:
            wrong.append(f"{each.name} gets {identity} twice")
        came[identity] = life
    for identity, known in world.accounts._publications.items():
        is_wanted = known.acknowledged and subscription.filter.matches(known.notification)
        if is_wanted and identity not in came and not (retains and each.gaps):
            wrong.append(f"{each.name} does not get {identity}")
    return wrong


PLANS = st.builds(
    Plan,
    seed=st.integers(0, 10_000),
    brokers=st.integers(2, 4),
    steps=st.sampled_from([500, 1_500]),
    faults=st.sets(
        st.sampled_from(["reset", "kill", "power", "pause", "partition", "slow disk", "crash a client"])
    ).map(frozenset),
    durables=st.just(1),
    extra=st.sampled_from([0, 0, 1]),
    advertisements=st.sampled_from([None, None, "covering"]),
)


@settings(max_examples=settings.default.max_examples // 2)
@given(PLANS, st.booleans())
def test_all_of_the_past_comes_whatever_fails(plan: Plan, retains: bool) -> None:
    assert run_world(plan, retains=retains) == []


# -- what is missing is told -----------------------------------------------------------------------------------


def test_what_has_left_a_log_is_told_and_what_came_here_of_it_is_delivered_first() -> None:
    scene = Scene()
    Reader(scene.line.nodes[0], "bob").hear(wire.control(wire.Subscribe(1, "o", "true", "bob")))
    scene.line.settle()
    every = [Notification.of({"x": x, "producer": "p2", "id": f"{x}"}) for x in range(6)]
    for each in every:
        scene.publish(each)
        scene.line.settle()
    far = scene.line.nodes[2].ledger
    assert far is not None
    with far.reader(0, PUBLICATION) as reader:
        offsets = [record.offset for record in reader]
    far.log.cursors.clear()
    far.log._next_segment()
    scene.publish(Notification.of({"x": 6, "producer": "p2", "id": "6"}))
    scene.line.settle()
    assert far.log.retain(max_bytes=1) > offsets[-1]
    end = Reader(scene.line.nodes[0], "ada")
    end.subscribe("true", since=-1)
    scene.line.settle()
    assert [each.get("x") for _, each in end.got] == [*range(7)]
    assert [broker for broker, _ in end.gaps] == ["b2"]


def test_a_broker_without_a_log_and_one_that_is_away_are_told() -> None:
    line = Line(2)
    line.nodes[1].persistence.ledger = None
    end = Reader(line.nodes[0], "ada")
    end.subscribe("true")
    line.settle()
    assert end.gaps == [("b1", -1)]
    line = Line(2)
    line.nodes[0].lost(line.links[0][0].session)
    end = Reader(line.nodes[0], "ada")
    end.subscribe("true")
    line.links.clear()
    line.settle()
    assert end.gaps == [("", -1)]


def test_a_subscriber_at_one_broker_gets_what_was_published_at_another_one(
    brokers: Brokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = brokers.start("hub", tmp_path)
    east = brokers.start("east", tmp_path, links=(hub.url,))
    with sync.connect(hub.url) as producer, sync.connect(east.url) as consumer:
        for x in range(3):
            producer.publish({"x": x})
        for options in ({}, {"durable": "desk"}):
            with consumer.subscribe("x > 0", since=0, **options) as past:
                producer.publish({"x": 3})
                assert [past.get(30).get("x") for _ in range(3)] == [1, 2, 3]
                assert past.gaps == ()
    assert main(["sub", "-b", east.url, "x = 1", "--since", "1h", "-n", "1"]) == 0
    assert "x=1" in capsys.readouterr().out


def test_the_past_comes_again_and_is_handed_over_once_when_the_connection_was_lost(
    brokers: Brokers, tmp_path: Path
) -> None:
    hub = brokers.start("hub", tmp_path)
    east = brokers.start("east", tmp_path, links=(hub.url,))
    with sync.connect(hub.url) as producer, sync.connect(east.url) as consumer:
        producer.publish({"x": 0})
        with consumer.subscribe("exists x", since=0) as past:
            assert past.get(30).get("x") == 0
            port = east.port
            brokers.stop(east)
            producer.publish({"x": 1})
            brokers.start("east", tmp_path, port, links=(hub.url,))
            assert past.get(30).get("x") == 1
            producer.publish({"x": 2})
            assert past.get(30).get("x") == 2


# -- mutants ---------------------------------------------------------------------------------------------------


def _not_skipped(*arguments: object) -> bool:
    return False


def _nothing_again(*arguments: object, **named: object) -> Any:
    return iter(())


MUTANTS: dict[str, tuple[type, str, Callable[..., object]]] = {
    "what came before is delivered at both places": (History, "skips", _not_skipped),
    "what came before from others is not written again": (Histories, "_write_again", _nothing_again),
    "nothing is news": (Histories, "_is_news", _not_skipped),
    "the subscriber is sent the log at once": (History, "is_open", property(_not_skipped)),  # type: ignore[dict-item]
    "a broker answers nothing": (Histories, "questioned", _not_skipped),
}


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, method, mutant = MUTANTS[name]
    monkeypatch.setattr(kind, method, mutant)
    assert any(run(seed) for seed in range(200))
