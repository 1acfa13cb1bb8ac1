"""Publication on demand: an acknowledged subscription finds its sources awake, whatever is late or lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl
from fairlead.network import wire
from fairlead.network.quenching import LEASE_US, Quenching
from fairlead.network.server import Server
from fairlead.network.settings import Address, BrokerSettings
from fairlead_lab.testing.brokers import on_a_loop

SOURCES = 2
STEP = LEASE_US // 8


class Network:
    """A broker with sources whose messages take their time, or never arrive. Time passes in steps."""

    def __init__(self, delays: list[int | None], quenching: type[Quenching] = Quenching) -> None:
        self.now = 0
        self.due: list[tuple[int, int, Callable[[], None]]] = []
        self.delays = delays
        """The steps that each message takes; None: it is lost."""
        self.sent = 0
        self.listening: set[int] = set()
        self.added: list[int] = []
        self.until = [0] * SOURCES
        self.wakes = [0] * SOURCES
        self.acknowledged: set[int] = set()
        self.sessions: list[Any] = [Session(self, number) for number in range(SOURCES)]
        self.quenching = quenching(self, self)  # type: ignore[arg-type]

    # -- the broker's routing entries

    def listen(self, client: str, filter: Any, among: list[int] | None = None) -> bool:
        return filter in (self.listening if among is None else among)

    def follow(self, is_followed: bool) -> None:
        self.added = []

    def take_added(self) -> list[int]:
        added, self.added = self.added, []
        return added

    # -- what happens

    def send(self, arrive: Callable[[], None], *, delay: int | None = -1) -> None:
        if delay == -1:
            delay = self.delays[self.sent % len(self.delays)] if self.delays else 0
            self.sent += 1
        if delay is not None:
            self.due.append((self.now + delay * STEP, self.sent, arrive))

    def ask(self, source: int) -> None:
        begun, wakes = self.now, self.wakes[source]

        def answered(is_quenched: bool) -> None:
            if is_quenched and self.wakes[source] == wakes:
                self.until[source] = begun + LEASE_US
                self.check()

        def heard() -> None:
            is_quenched = self.quenching.ask(self.sessions[source], "q", source, self.now)  # type: ignore[arg-type]
            self.send(lambda: answered(is_quenched))

        self.send(heard)

    def woken(self, source: int) -> None:
        self.wakes[source] += 1
        self.until[source] = 0
        self.send(lambda: self.quenching.awake(self.sessions[source], "q"))

    def subscribe(self, source: int) -> None:
        if source not in self.listening:
            self.added.append(source)
        self.listening.add(source)

        def acknowledged() -> None:
            if source in self.listening:
                self.acknowledged.add(source)
            self.check()

        self.wake(acknowledged)

    def unsubscribe(self, source: int) -> None:
        self.listening.discard(source)
        self.acknowledged.discard(source)

    def pass_step(self) -> None:
        self.now += STEP
        while self.due and min(self.due)[0] <= self.now:
            _, _, arrive = earliest = min(self.due, key=lambda each: each[:2])
            self.due.remove(earliest)
            arrive()
        self.quenching.tick(self.now)

    def check(self) -> None:
        for source in self.acknowledged:
            assert self.until[source] <= self.now, (
                "a subscription is acknowledged, and its source is quenched"
            )

    wake: Callable[[Callable[[], None]], None]


class Session:
    ended = False

    def __init__(self, network: Network, number: int) -> None:
        self.network, self.number, self.client = network, number, f"c:{number}"

    def tell(self, message: wire.Wake) -> None:
        self.network.send(lambda: self.network.woken(self.number))


ACTIONS = st.tuples(
    st.sampled_from(["ask", "subscribe", "unsubscribe", "pass_step"]), st.integers(0, SOURCES - 1)
)
DELAYS = st.lists(st.sampled_from([0, 0, 1, 2, 5, 20, None]), max_size=12)


def run(actions: list[tuple[str, int]], delays: list[int | None], quenching: type[Quenching]) -> Network:
    network = Network(delays, quenching)
    for name, source in actions:
        if name == "pass_step":
            network.pass_step()
        else:
            getattr(network, name)(source)
        network.check()
    return network


@given(st.lists(ACTIONS, max_size=40), DELAYS)
def test_when_a_subscription_is_acknowledged_its_sources_are_awake(
    actions: list[tuple[str, int]], delays: list[int | None]
) -> None:
    network = run(actions, delays, Quenching)
    for _ in range(10):  # longer than a lease: whatever hangs, everybody is acknowledged
        network.pass_step()
    assert network.acknowledged == network.listening


class DoesNotWait(Quenching):
    def wake(self, go: Callable[[], None]) -> None:
        super().wake(lambda: None)
        go()


class Forgets(Quenching):
    def ask(self, session: Any, id: str, filter: Any, now: int) -> bool:
        return super().ask(session, id, filter, now - LEASE_US)


class Overtakes(Quenching):
    def wake(self, go: Callable[[], None]) -> None:
        waiting = [each for each in self._quenched.values() if each.is_waking]
        for each in waiting:  # another barrier waits for these already
            each.is_waking = False
        super().wake(go)


@pytest.mark.parametrize("mutant", [DoesNotWait, Forgets, Overtakes])
def test_a_broker_that_does_not_wait_is_found(mutant: type[Quenching]) -> None:
    plan = [("ask", 0), *[("pass_step", 0)] * 4, ("subscribe", 0), ("subscribe", 0)]
    with pytest.raises(AssertionError, match="its source is quenched"):
        run([*plan, *[("pass_step", 0)] * 4], [0, 0, 1], mutant)
    run([*plan, *[("pass_step", 0)] * 4], [0, 0, 1], Quenching)


@contextlib.asynccontextmanager
async def two_brokers() -> Any:
    hub = Server(BrokerSettings("hub", Address("127.0.0.1", 0), None))
    await hub.start()
    east = Server(
        BrokerSettings("east", Address("127.0.0.1", 0), None, links=(f"fairlead://127.0.0.1:{hub.port}",))
    )
    await east.start()
    try:
        yield tuple(f"fairlead://127.0.0.1:{each.port}" for each in (hub, east))
    finally:
        await east.stop()
        await hub.stop()


async def asleep(source: Any) -> None:
    while source.is_wanted:
        await asyncio.sleep(0)


@on_a_loop
async def test_a_source_is_quenched_while_nobody_listens_and_awake_when_a_subscription_is_acknowledged() -> (
    None
):
    async with two_brokers() as (near, far), fl.connect(near, name="roof") as roof, fl.connect(far) as desk:
        changes: list[bool] = []
        async with (
            roof.subscribe("true"),
            roof.source("celsius > 0", linger=0) as source,
        ):  # its own do not count
            source.on_change(changes.append)
            for number in range(3):
                await asleep(source)
                assert await source.publish({"celsius": 1}) is None
                async with desk.subscribe("celsius > 10") as inbox:
                    assert source.is_wanted
                    await source.wanted()
                    assert [str(each) for each in (await source.wants()).filters] == ["celsius > 10"]
                    await source.publish({"celsius": 20 + number})
                    assert (await inbox.get()).get("celsius") == 20 + number
            await asleep(source)
        assert source.discarded == 3
        assert changes == [False, True] * 3 + [False]
        assert not roof._sources


@on_a_loop
async def test_what_nobody_wants_at_the_end_of_a_chain_is_published_nowhere_along_it() -> None:
    async with (
        two_brokers() as (near, far),
        fl.connect(near) as roof,
        fl.connect(far) as hall,
        roof.source("exists raw", linger=0) as raw,
        hall.source("exists mean", linger=0) as mean,
    ):
        mean.needs("exists raw", lambda reading: mean.publish({"mean": reading.get("raw")}))
        numbers = iter(range(1000))
        raw.poll(lambda: {"raw": next(numbers)}, every="1ms")
        await asleep(mean)
        await asleep(raw)
        so_far = next(numbers)
        async with roof.subscribe("mean > 0") as inbox:
            assert (await inbox.get()).get("mean") > so_far
        await asleep(mean)
        await asleep(raw)


@on_a_loop
async def test_a_source_whose_broker_is_lost_is_awake() -> None:
    hub = Server(BrokerSettings("hub", Address("127.0.0.1", 0), None))
    await hub.start()
    async with (
        fl.connect(f"fairlead://127.0.0.1:{hub.port}", patience=None) as roof,
        roof.source("true", linger=0) as source,
    ):
        await asleep(source)
        await hub.stop()
        await source.wanted()
        roof._abandon()
