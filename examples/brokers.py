"""Two brokers and their clients in one program: a durable subscriber receives what it missed while it was away.

published q1: it is in the log of north
south has it: IBM 168.5
published q2, while nobody listens
south has it: SAP 140
"""

from __future__ import annotations

import asyncio
import tempfile

import fairlead as fl
from fairlead.network import Address, BrokerSettings
from fairlead.network.server import Server


async def main(directory: str) -> None:
    here = Address("127.0.0.1", 0)
    north = Server(BrokerSettings("north", here, f"{directory}/north"))
    await north.start()
    south = Server(BrokerSettings("south", here, f"{directory}/south", links=(north.url,)))
    await south.start()
    try:
        await trade(north.url, south.url)
    finally:
        await south.stop()
        await north.stop()


async def trade(north: str, south: str) -> None:
    async with fl.connect(north, name="exchange") as exchange:
        async with fl.connect(south) as desk, desk.subscribe("price > 100", durable="desk") as quotes:
            await exchange.publish({"id": "q1", "symbol": "IBM", "price": 168.5})
            print("published q1: it is in the log of north")
            show(await quotes.get())
        await exchange.publish({"id": "q2", "symbol": "SAP", "price": 140})
        print("published q2, while nobody listens")
        async with fl.connect(south) as desk, desk.subscribe("price > 100", durable="desk") as quotes:
            show(await quotes.get())


def show(quote: fl.Notification) -> None:
    print("south has it:", quote.get("symbol"), quote.get("price"))


with tempfile.TemporaryDirectory() as directory:
    asyncio.run(main(directory))
