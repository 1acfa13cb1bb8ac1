"""Requests and replies over brokers: whose reply is whose, and that nobody listens is told at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

import fairlead as fl
from fairlead.delivery.requesting import OpenRequests, reply_of, request_of
from fairlead.errors import NobodyListens, NoReply
from fairlead.model import Notification
from fairlead.network.server import Server
from fairlead.network.settings import Address, BrokerSettings
from fairlead_lab.testing.brokers import on_a_loop


@contextlib.asynccontextmanager
async def broker(name: str, *links: str) -> AsyncIterator[Server]:
    server = Server(BrokerSettings(name, Address("127.0.0.1", 0), None, links=links))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def ask(url: str, other: str) -> None:
    async with fl.connect(url, name="desk") as desk, fl.connect(url, name="board") as board:
        with pytest.raises(NobodyListens):
            await desk.request({"type": "price?"}, timeout="30s")
        async with fl.connect(other, name="pricing") as pricing:
            asked: list[str] = []

            async def price(request: Notification) -> dict[str, object] | None:
                asked.append(request.get("symbol"))
                return {"price": len(asked)} if request.get("symbol") != "none" else None

            async with pricing.responding('type = "price?"', price):
                # Both requests have one id: a correlation by the id alone would hand each reply to either.
                first, second = await asyncio.gather(
                    desk.request({"type": "price?", "symbol": "IBM", "id": "1"}, timeout="30s"),
                    board.request({"type": "price?", "symbol": "SAP", "id": "1"}, timeout="30s"),
                )
                assert {first.get("price"), second.get("price")} == {1, 2}
                assert first.get("re.producer") == "desk"
                assert second.get("re.producer") == "board"
                with pytest.raises(NoReply):
                    await desk.request({"type": "price?", "symbol": "none"}, timeout=0.2)
                assert not desk._requester._open, "a request that is over is still open"


async def two_answers(url: str) -> None:
    async with (
        fl.connect(url, name="desk") as desk,
        fl.connect(url, name="a") as a,
        fl.connect(url, name="b") as b,
        a.responding("exists ask", lambda request: {"by": "a"}),
        b.responding("exists ask", lambda request: {"by": "b"}),
    ):
        assert (await desk.request({"ask": 1}, timeout="30s")).get("by") in ("a", "b")
        both = [each.get("by") async for each in desk.requests({"ask": 2}, timeout="30s", enough=2)]
        assert sorted(both) == ["a", "b"]


@on_a_loop
async def test_a_reply_belongs_to_its_request_and_that_nobody_listens_is_told_at_once() -> None:
    """Case 20 of the corpus, and requests over two brokers."""
    async with broker("near") as near, broker("far", near.url) as far:
        async with fl.connect(near.url) as client:
            while not (await client.status())["links"].get("far", {}).get("connected"):
                await asyncio.sleep(0)
        await ask(near.url, far.url)
        assert near.node.counters.published == 3, "a request that nobody listens to was published"


@on_a_loop
async def test_several_replies_come_to_one_request() -> None:
    """Case 19 of the corpus."""
    async with broker("near") as near:
        await two_answers(near.url)


class ById(OpenRequests):
    """Takes a reply to another requester's request with the same id for its own."""

    def take(self, reply: Notification) -> bool:
        about = dict(reply.attributes["re"])
        for identity, tell in self._open.items():
            if identity.id == about["id"]:
                tell(reply)
                return True
        return False


def test_a_correlation_by_the_id_alone_is_found() -> None:
    """The mutant hands out what belongs to nobody here; the program does not."""
    request = request_of({"ask": 1, "id": "1", "producer": "desk"}, "token of another")
    reply = reply_of(request, {"price": 1}, "r")
    for kind, is_taken in ((OpenRequests, False), (ById, True)):
        got: list[Notification] = []
        requests = kind()
        requests.open(request_of({"ask": 1, "id": "1", "producer": "board"}, requests.token), got.append)
        assert requests.take(reply) is is_taken
