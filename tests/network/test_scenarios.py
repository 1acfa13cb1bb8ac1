"""The simulator's scenarios over real sockets: everybody gets what the simulator delivers, by every algorithm."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.broker.messages import Publish, Subscribe, Unsubscribe
from fairlead.network.client import Client, Subscription, connect
from fairlead.network.server import Server
from fairlead.network.settings import Address, BrokerSettings
from fairlead.routing import STRATEGIES
from fairlead_lab.simulation.runs import compare
from fairlead_lab.simulation.scenario import Scenario
from fairlead_lab.simulation.workload import ExpectedDelivery, workload_of

FILE = Path(__file__).parents[2] / "examples" / "simulation" / "small.toml"
PATIENCE_S = 30.0


class World:
    """A scenario's overlay as live brokers, and its clients."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self._urls: dict[str, str] = {}
        self._clients: dict[str, Client] = {}
        self._subscriptions: dict[tuple[str, str], Subscription] = {}

    async def start(self, scenario: Scenario, algorithm: str, path: Path | None) -> None:
        topology = scenario.topology(scenario.seed)
        for name in topology.brokers:
            called = tuple(self._urls[each] for each in topology.neighbours(name) if each in self._urls)
            data = None if path is None else str(path / name)
            cyclic, _, strategy = algorithm.rpartition("-")
            settings = BrokerSettings(
                *(name, Address("127.0.0.1", 0), data),
                links=called,
                algorithm=strategy,
                cyclic=cyclic == "redundant",
            )
            server = Server(settings)
            await server.start()
            self._stack.push_async_callback(server.stop)
            self._urls[name] = server.url
        for name, url in self._urls.items():
            client = await self._client(name, f"watch {name}")
            linked = len(topology.neighbours(name))
            async with asyncio.timeout(PATIENCE_S):
                while [each["ready"] for each in (await client.status())["links"].values()] != [
                    True
                ] * linked:
                    pass
            assert url

    async def _client(self, broker: str, name: str) -> Client:
        if name not in self._clients:
            self._clients[name] = await self._stack.enter_async_context(
                connect(self._urls[broker], name=name)
            )
        return self._clients[name]

    async def call(self, broker: str, call: object) -> None:
        match call:
            case Subscribe(client, id, filter):
                subscription = (await self._client(broker, client)).subscribe(filter, id=id)
                self._subscriptions[client, id] = subscription
                await subscription.installed()
            case Unsubscribe(client, id):
                await self._subscriptions.pop((client, id)).close()
            case Publish(client, notification):
                await (await self._client(broker, client)).publish(notification)
            case _:
                raise AssertionError(f"not a call of this scenario: {call}")

    async def delivered(self, expected: frozenset[ExpectedDelivery]) -> set[ExpectedDelivery]:
        """What has come when all that is expected has, and nothing else is under way."""
        found: set[ExpectedDelivery] = set()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for client in self._clients.values():
                    await client.status()  # what was sent before the answer has come before it
                for (name, _), subscription in self._subscriptions.items():
                    for each in subscription.take_waiting():
                        found.add((name, str(each.notification.id), each.subscriptions))
                if len(found) >= len(expected):
                    return found


async def play(scenario: Scenario, algorithm: str, path: Path | None) -> None:
    workload = workload_of(scenario, scenario.seed)
    async with AsyncExitStack() as stack:
        world = World(stack)
        await world.start(scenario, algorithm, path)
        for phase in workload.phases:
            for broker, call in (*phase.changes, *phase.publications):
                await world.call(broker, call)
            assert await world.delivered(phase.expected) == phase.expected


@pytest.mark.parametrize("algorithm", STRATEGIES)
def test_over_sockets_everybody_gets_what_the_simulator_delivers(algorithm: str, tmp_path: Path) -> None:
    scenario = Scenario.read(FILE).changed(algorithms=[algorithm], subscriptions=[8, 16], brokers=5)
    assert all(row.is_right for row in compare(scenario).rows)
    # Of one algorithm with logs: notifications go another way there, and are delivered all the same.
    asyncio.run(play(scenario, algorithm, tmp_path if algorithm == "covering" else None))


@pytest.mark.parametrize("algorithm", ["redundant-covering", "redundant-flooding"])
def test_by_several_ways_everybody_gets_what_the_simulator_delivers(algorithm: str, tmp_path: Path) -> None:
    small = Scenario.read(FILE).changed(algorithms=[algorithm], subscriptions=[8, 16])
    scenario = replace(small, overlay=replace(small.overlay, shape="cyclic", brokers=5, extra=3))
    assert not scenario.topology(scenario.seed).is_acyclic
    assert all(row.is_right for row in compare(scenario).rows)
    asyncio.run(play(scenario, algorithm, tmp_path if algorithm == "redundant-covering" else None))
