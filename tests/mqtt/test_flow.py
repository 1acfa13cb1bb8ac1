"""The packets under way in a session, over lost connections, against a client that does what the protocol says.

The reference is the outcome: what the client's application was handed, and what was published. Broken flows are
found by the same plans.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.mqtt.flow import Accept, Effect, Flow, Inward, Outward, Publish, Release

SEEDS = range(150)
DELIVERIES = 30


class Outgoing:
    """A log of deliveries, a flow, and a client at the other end of a connection that is lost now and then."""

    def __init__(self, seed: int, flow: Flow) -> None:
        self.rng, self.flow = random.Random(seed), flow
        self.receive_max = self.rng.choice([1, 2, 5, 65_535])
        self.qos = {key: self.rng.choice([1, 2]) for key in range(DELIVERIES)}
        self.next = 0
        self.accepted: Counter[int] = Counter()
        self.unaccepted: list[int] = []
        """What was handed to the flow over this connection, or before, and was not accepted."""
        self.to_client: list[tuple[str, int, Any]] = []
        self.to_broker: list[tuple[str, int]] = []
        self.handed: Counter[int] = Counter()
        """What the application was handed."""
        self.order: list[int] = []
        self.held: dict[int, int] = {}
        """By packet id, what the client has received at QoS 2 and that was not released."""
        self.under_way: set[int] = set()
        self.flow.resumed(self.receive_max)

    def follow(self, effects: list[Effect]) -> None:
        for each in effects:
            if isinstance(each, Publish):
                assert each.id not in self.under_way, "a packet id has two meanings"
                self.under_way.add(each.id)
                assert len(self.under_way) <= self.receive_max, "more than the receive maximum"
                self.to_client.append(("publish", each.id, each.content))
            elif isinstance(each, Release):
                self.to_client.append(("release", each.id, None))
            else:
                assert isinstance(each, Accept)
                self.accepted[each.key] += 1  # type: ignore[index]
                self.unaccepted.remove(each.key)  # type: ignore[arg-type]

    def deliver(self) -> None:
        if self.next < DELIVERIES:
            key, self.next = self.next, self.next + 1
            self.unaccepted.append(key)
            self.follow(self.flow.deliver(key, self.qos[key], key))

    def hear_client(self) -> None:
        """The client takes one packet."""
        if not self.to_client:
            return
        kind, id, key = self.to_client.pop(0)
        if kind == "release":
            self.held.pop(id, None)
            self.to_broker.append(("completed", id))
        elif self.qos[key] == 1:
            self.hand(key)
            self.to_broker.append(("acknowledged", id))
        else:
            if id not in self.held:
                self.held[id] = key
                self.hand(key)
            self.to_broker.append(("received", id))

    def hand(self, key: int) -> None:
        self.handed[key] += 1
        if self.handed[key] == 1:
            self.order.append(key)

    def hear_broker(self) -> None:
        if not self.to_broker:
            return
        kind, id = self.to_broker.pop(0)
        if kind != "received":
            self.under_way.discard(id)
        self.follow(getattr(self.flow, kind)(id) or [])

    def lose(self) -> None:
        self.to_client.clear()
        self.to_broker.clear()
        self.under_way = {id for id in self.under_way if self.flow._sending[id].state is Outward.RELEASED}
        self.flow.lost()
        self.follow(self.flow.resumed(self.receive_max))
        for key in [*self.unaccepted]:  # in their order, as the log has them
            self.follow(self.flow.deliver(key, self.qos[key], key, is_again=True))

    def run(self) -> None:
        steps = (self.deliver, self.hear_client, self.hear_broker)
        for _ in range(400):
            self.rng.choice([*steps, *steps, *steps, *steps, self.lose])()
        while self.next < DELIVERIES or self.to_client or self.to_broker:
            for step in steps:
                step()

    def judge(self) -> None:
        assert self.accepted == Counter(range(DELIVERIES)), "each is accepted once"
        for key, qos in self.qos.items():
            assert self.handed[key] == 1 if qos == 2 else self.handed[key] >= 1
        for qos in (1, 2):
            mine = [key for key in self.order if self.qos[key] == qos]
            assert mine == sorted(mine), "what was handed for the first time is in its order"
        assert self.flow.is_settled


def test_each_delivery_at_qos_2_is_handed_over_once_over_lost_connections() -> None:
    for seed in SEEDS:
        plan = Outgoing(seed, Flow())
        plan.run()
        plan.judge()


class Incoming:
    """A client that publishes at QoS 2 over connections that are lost now and then, and a log that takes time."""

    def __init__(self, seed: int, flow: Flow) -> None:
        self.rng, self.flow = random.Random(seed), flow
        self.todo = [*range(DELIVERIES)]
        self.sending: dict[int, tuple[int, str]] = {}
        """Of the client, by packet id: what, and whether it was received."""
        self.to_broker: list[tuple[str, int, int]] = []
        self.to_client: list[tuple[str, int]] = []
        self.log: dict[str, int] = {}
        """By name, what was published."""
        self.syncing: list[int] = []
        self.named = 0

    def publish(self) -> None:
        free = next(id for id in range(1, 9) if id not in self.sending) if len(self.sending) < 8 else 0
        if self.todo and free:
            self.sending[free] = (self.todo.pop(0), "sent")
            self.to_broker.append(("publish", free, self.sending[free][0]))

    def hear_broker(self) -> None:
        if not self.to_broker:
            return
        kind, id, content = self.to_broker.pop(0)
        if kind == "release":
            self.flow.released(id)
            self.to_client.append(("completed", id))
            return
        self.named += 1
        name = self.flow.take(id, str(self.named))
        if name is None:
            self.to_client.append(("received", id))
        else:
            self.log.setdefault(name, content)
            self.syncing.append(id)

    def sync(self) -> None:
        if self.syncing:
            id = self.syncing.pop(0)
            self.flow.made_safe(id)
            self.to_client.append(("received", id))

    def hear_client(self) -> None:
        if not self.to_client:
            return
        kind, id = self.to_client.pop(0)
        if kind == "completed":
            self.sending.pop(id, None)
        elif id in self.sending:
            self.sending[id] = (self.sending[id][0], "received")
            self.to_broker.append(("release", id, 0))

    def lose(self) -> None:
        self.to_broker.clear()
        self.to_client.clear()
        self.syncing.clear()  # it is synced, and nobody is told
        self.flow.lost()
        for id, (content, state) in self.sending.items():
            self.to_broker.append(("publish" if state == "sent" else "release", id, content))

    def run(self) -> None:
        steps = (self.publish, self.hear_broker, self.sync, self.hear_client)
        for _ in range(400):
            self.rng.choice([*steps, *steps, *steps, self.lose])()
        while self.todo or self.sending:
            for step in steps:
                step()

    def judge(self) -> None:
        assert Counter(self.log.values()) == Counter(range(DELIVERIES)), "each is published once"
        assert self.flow.is_settled


def test_each_publication_at_qos_2_is_published_once_over_lost_connections() -> None:
    for seed in SEEDS:
        plan = Incoming(seed, Flow())
        plan.run()
        plan.judge()


class ForgetsIds(Flow):
    """It gives what comes again another packet id."""

    def lost(self) -> None:
        super().lost()
        self._id_of.clear()


class ForgetsReleases(Flow):
    """It does not release once more what the client has received."""

    def resumed(self, receive_max: int) -> list[Effect]:
        super().resumed(receive_max)
        return []


class AcceptsWhenSent(Flow):
    """It takes PUBCOMP for what PUBREC is."""

    def received(self, id: int, *, is_refused: bool = False) -> list[Effect] | None:
        effects = super().received(id, is_refused=is_refused)
        return effects and [each for each in effects if not isinstance(each, Accept)]


class SendsAll(Flow):
    """It does not know the receive maximum."""

    def resumed(self, receive_max: int) -> list[Effect]:
        return super().resumed(65_535)


class ForgetsWhatIsSafe(Flow):
    """A packet id is free when the publication is safe."""

    def made_safe(self, id: int) -> None:
        self._taking.pop(id, None)


class NamesAnew(Flow):
    """What comes again while it is not safe yet has another name."""

    def take(self, id: int, name: str) -> str | None:
        known = super().take(id, name)
        return known and name


class NeverReleases(Flow):
    """A packet id names a publication for ever."""

    def released(self, id: int) -> bool:
        return id in self._taking


@pytest.mark.parametrize(
    ("mutant", "plan"),
    [
        *((each, Outgoing) for each in (ForgetsIds, ForgetsReleases, AcceptsWhenSent, SendsAll)),
        *((each, Incoming) for each in (ForgetsWhatIsSafe, NamesAnew, NeverReleases)),
    ],
    ids=lambda each: each.__name__,
)
def test_a_broken_flow_is_found(mutant: Callable[[], Flow], plan: type[Outgoing | Incoming]) -> None:
    def is_found(seed: int) -> bool:
        each = plan(seed, mutant())
        try:
            each.run()
            each.judge()
        except (AssertionError, KeyError, ValueError):
            return True
        return False

    assert any(map(is_found, SEEDS))


def test_a_packet_id_that_is_under_way_is_given_to_nobody_else() -> None:
    flow = Flow()
    for key in range(65_535):
        flow.deliver(key, 1, key)
    assert flow.deliver("one more", 1, "one more") == []
    assert flow.acknowledged(17) == [Accept(16), Publish(17, "one more")]
    assert Inward.TAKEN is not Inward.SAFE
