"""Discovery over live brokers: what others want and offer, also behind other brokers, and when it changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

import fairlead as fl
from fairlead.delivery.discovery import Discovered
from fairlead.filters import EVERYTHING, identical
from fairlead.network.server import Server
from fairlead.network.settings import Address, BrokerSettings
from fairlead.rules.integrated import BrokerScoping
from fairlead.scopes import Scopes
from fairlead_lab.testing.brokers import on_a_loop


@contextlib.asynccontextmanager
async def broker(name: str, *links: str, **settings: object) -> AsyncIterator[Server]:
    server = Server(BrokerSettings(name, Address("127.0.0.1", 0), None, links=links, **settings))  # type: ignore[arg-type]
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def told(found: Discovered) -> list[str]:
    return [str(each) for each in found.filters]


@on_a_loop
async def test_what_is_wanted_anywhere_is_known_when_its_subscription_is_acknowledged() -> None:
    async with broker("hub") as hub:
        url = f"fairlead://127.0.0.1:{hub.port}"
        async with broker("east", url) as east:
            other = f"fairlead://127.0.0.1:{east.port}"
            async with fl.connect(url, name="shop") as shop, fl.connect(other, name="desk") as desk:
                own = shop.subscribe("price < 0")
                await own.installed()
                assert not await shop.wants()
                near, far = shop.watch("wants", "price > 0"), desk.watch("wants")
                assert not await anext(near)
                assert told(await anext(far)) == ["price < 0"]
                async with (
                    desk.subscribe('price > 100 and symbol = "IBM"'),
                    desk.subscribe("price in [5, 7]"),
                    desk.subscribe("price = 6"),
                    desk.responding("exists ask and not exists price", lambda _: None),
                ):
                    wanted = ['price > 100 and symbol = "IBM"', "price in [5, 7]"]
                    assert told(await shop.wants("price > 0")) == wanted
                    while told(await anext(near)) != wanted:
                        pass  # what comes in between are the subscriptions, one by one
                    assert (await shop.wants("price = 6")).is_all
                    assert not await shop.wants("price = 8 and not exists ask and symbol = 1")
                while await anext(near):
                    pass
                await near.aclose()
                await far.aclose()
                assert not shop._watches


@on_a_loop
async def test_what_is_offered_is_known_where_brokers_route_by_advertisements() -> None:
    async with broker("hub", advertisements="covering") as hub:
        url = f"fairlead://127.0.0.1:{hub.port}"
        async with broker("east", url, advertisements="covering") as east:
            other = f"fairlead://127.0.0.1:{east.port}"
            async with fl.connect(url, name="shop") as shop, fl.connect(other, name="desk") as desk:
                await shop.advertise("price in [0, 10]")
                assert told(await desk.offers("price > 5")) == ["price in (5, 10]"]
                assert not await desk.offers("price > 50")
                assert not await shop.offers()  # its own is not counted


@on_a_loop
async def test_what_is_offered_is_not_known_without_advertisements_and_flooding_knows_of_no_neighbours() -> (
    None
):
    async with broker("hub", algorithm="flooding") as hub:
        url = f"fairlead://127.0.0.1:{hub.port}"
        async with fl.connect(url, name="shop") as shop:
            assert not (await shop.offers()).known
            assert not await shop.wants("price > 3")
            async with broker("east", url, algorithm="flooding"):
                while not (await shop.status())["links"].get("east", {}).get("ready"):
                    await asyncio.sleep(0)
                found = await shop.wants("price > 3")
                assert (found.is_all, found.exact) == (True, False)


@pytest.mark.parametrize("text", ["true", "price > 3", "a = 1 or b = 2"])
def test_what_scopes_add_to_routing_entries_is_not_told(text: str) -> None:
    rule = BrokerScoping(Scopes.parse("DEFINE SCOPE Desk AS ALL FROM ada, bob"))
    filter = fl.parse(text)
    entry = rule.declare("c:ada", filter)
    assert entry != filter
    assert identical(rule.undeclare(entry), filter)
    assert rule.undeclare(entry | rule.declare("c:bob", filter)) == EVERYTHING
