"""The client: what it publishes is safe, what it is promised comes once, and what goes wrong is said."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead import connect
from fairlead.errors import BrokerRefused, ConnectionEnded, FilterSyntaxError, ValueRefused
from fairlead.model import Instant
from fairlead.network.client import Client, Subscription
from fairlead.network.server import Server
from fairlead.network.settings import Address, BrokerSettings, Limits
from fairlead_lab.testing.brokers import on_a_loop


@contextlib.asynccontextmanager
async def broker(path: Path | None, name: str = "b", port: int = 0, **settings: Any) -> AsyncIterator[Server]:
    server = Server(
        BrokerSettings(
            name, Address("127.0.0.1", port), None if path is None else str(path / name), **settings
        )
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():
        await asyncio.sleep(0)


async def taken(subscription: Subscription, count: int) -> list[Any]:
    return [(await subscription.get()).get("x") for _ in range(count)]


@on_a_loop
async def test_a_client_that_is_not_open_says_so() -> None:
    client = connect("127.0.0.1:1")
    with pytest.raises(ConnectionEnded, match="not open"):
        await client.publish({"x": 1})
    with pytest.raises(ConnectionEnded, match="not open"):
        await client.status()


@on_a_loop
async def test_without_a_broker_the_reason_is_told() -> None:
    with pytest.raises(ConnectionEnded, match="cannot be reached: Connection refused"):
        await connect("127.0.0.1:1", patience=0).open()


@on_a_loop
async def test_a_policy_that_there_is_not_is_refused_by_the_broker() -> None:
    async with broker(None) as server:
        with pytest.raises(BrokerRefused, match="no policy for slow clients: 'hurry'"):
            await connect(server.url, policy="hurry").open()


@on_a_loop
async def test_ids_of_subscriptions_are_never_used_again() -> None:
    async with broker(None) as server, connect(server.url) as client:
        first, second = client.subscribe("x = 1"), client.subscribe("x = 2")
        await first.close()
        third = client.subscribe("x = 3")
        assert len({first.id, second.id, third.id}) == 3


@on_a_loop
async def test_a_filter_that_does_not_parse_is_refused_at_once() -> None:
    async with broker(None) as server, connect(server.url) as client:
        with pytest.raises(FilterSyntaxError):
            client.subscribe("x >")


@on_a_loop
async def test_what_is_longer_than_the_broker_takes_is_refused_and_harms_nothing() -> None:
    async with broker(None, limits=Limits(frame_bytes=2_000)) as server, connect(server.url) as client:
        for publish in (client.publish, client.send):
            with pytest.raises(ValueRefused, match="the broker takes 2,000 at most"):
                await publish({"x": "y" * 3_000})
        with pytest.raises(ValueRefused, match="the broker takes 2,000 at most"):
            await client.subscribe(f'x = "{"y" * 3_000}"').installed()
        with pytest.raises(ValueRefused, match="the broker takes 2,000 at most"):
            await client.advertise(f'x = "{"y" * 3_000}"')
        async with client.subscribe("x = 1") as ones:
            await client.publish({"x": 1})
            assert await taken(ones, 1) == [1]


@on_a_loop
async def test_what_waited_for_a_broker_that_takes_less_is_refused_when_it_is_there(tmp_path: Path) -> None:
    async with broker(tmp_path) as server:
        client = connect(server.url)
        await client.open()
        port = server.port
    publishing = asyncio.ensure_future(client.publish({"x": "y" * 3_000}))
    async with broker(tmp_path, port=port, limits=Limits(frame_bytes=2_000)):
        with pytest.raises(BrokerRefused, match="the broker takes 2,000 at most"):
            await publishing
        await client.publish({"x": 1})
        await client.close()


@on_a_loop
async def test_a_durable_subscriber_that_lets_go_gets_the_rest_later_from_the_same_client(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as server, connect(server.url) as client:
        async with client.subscribe("exists x", durable="d") as first:
            for x in range(5):
                await client.publish({"x": x})
            assert await taken(first, 2) == [0, 1]
        async with client.subscribe("exists x", durable="d") as again:
            await client.publish({"x": 5})
            assert await taken(again, 4) == [2, 3, 4, 5]


@on_a_loop
async def test_who_fails_on_a_notification_gets_it_again(tmp_path: Path) -> None:
    async with broker(tmp_path) as server, connect(server.url) as client:

        async def fail() -> None:
            async with client.subscribe("exists x", durable="d") as first:
                await client.publish({"x": 0})
                async for notification in first:
                    1 / notification.get("x")

        with pytest.raises(ZeroDivisionError):
            await fail()
        async with client.subscribe("exists x", durable="d") as again:
            assert await taken(again, 1) == [0]


@on_a_loop
async def test_a_rejected_delivery_comes_again_after_others_and_a_refused_one_does_not(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as server, connect(server.url) as client:
        async with client.subscribe("exists x", durable="d") as subscription:
            for x in range(3):
                await client.publish({"x": x})
            seen = []
            async for delivery in subscription.deliveries():
                x = delivery.notification.get("x")
                seen.append(x)
                if seen == [0]:
                    await delivery.reject(again=True)
                elif x == 1:
                    await delivery.reject()
                else:
                    await delivery.accept()
                if len(seen) == 4:
                    break
            assert sorted(seen) == [0, 0, 1, 2]
            assert (await client.status())["counters"]["rejected"] == 2
        async with client.subscribe("exists x", durable="d") as again:
            await client.publish({"x": 3})
            assert await taken(again, 1) == [3]


@on_a_loop
async def test_whose_durable_subscription_is_taken_over_is_told(tmp_path: Path) -> None:
    async with (
        broker(tmp_path) as server,
        connect(server.url) as one,
        connect(server.url) as other,
        one.subscribe("exists x", durable="d") as first,
        one.subscribe("x = 9") as unharmed,
        other.subscribe("exists x", durable="d") as second,
    ):
        with pytest.raises(BrokerRefused, match="another client is the durable subscriber 'd'"):
            await first.get()
        await one.publish({"x": 9})
        assert await taken(second, 1) == await taken(unharmed, 1) == [9]


@on_a_loop
async def test_a_subscription_to_the_past_goes_on_after_a_lost_connection_without_repeating_it(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as server, connect(server.url) as client:
        for x in range(3):
            await client.publish({"x": x})
        async with client.subscribe("exists x", since=0) as all_of_it:
            assert await taken(all_of_it, 2) == [0, 1]
            assert client._uplink.channel is not None
            client._uplink.channel.abort()
            await client.publish({"x": 3})
            assert await taken(all_of_it, 2) == [2, 3]


@on_a_loop
async def test_publications_and_subscriptions_survive_a_restart_of_the_broker(tmp_path: Path) -> None:
    async with broker(tmp_path) as server:
        port = server.port
        client = connect(server.url)
        await client.open()
        durable = client.subscribe("exists x", durable="d")
        await durable.installed()
        await client.publish({"x": 0})
    publishing = [asyncio.ensure_future(client.publish({"x": x})) for x in range(1, 4)]
    async with broker(tmp_path, port=port):
        await asyncio.gather(*publishing)
        assert await taken(durable, 4) == [0, 1, 2, 3]
        await client.close()


@on_a_loop
async def test_closing_a_subscription_makes_room_for_the_others() -> None:
    async with broker(None) as server, connect(server.url) as client:
        unread = client.subscribe("exists x")
        await unread.installed()
        await client.publish({"x": 0})

        async def arrived() -> bool:
            return bool(unread.waiting)

        await until(arrived)
        assert client._intake.waiting == 1
        await unread.close()
        assert client._intake.waiting == 0


@on_a_loop
async def test_a_producer_is_told_whether_anyone_listens_and_when_that_changes(tmp_path: Path) -> None:
    async with (
        broker(tmp_path, "a") as near,
        broker(tmp_path, "b", links=(near.url,)) as far,
        connect(near.url) as producer,
        connect(far.url) as consumer,
    ):
        heard: list[bool] = []
        id = await producer.listening("price > 10", heard.append)
        assert heard == [False]
        assert not await producer.anyone_listens("price > 10")
        subscription = consumer.subscribe("price < 20")
        await subscription.installed()
        assert await producer.anyone_listens("price > 10")
        assert not await producer.anyone_listens("price > 30")

        async def told(times: int) -> bool:
            return len(heard) == times

        await until(lambda: told(2))
        await subscription.close()
        await until(lambda: told(3))
        assert heard == [False, True, False]
        await producer.unlisten(id)


@on_a_loop
async def test_a_listener_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def fails(anyone: bool) -> None:
        raise RuntimeError("no")

    async with broker(None) as server, connect(server.url) as client:
        await client.listening("x = 1", fails)
        await client.publish({"x": 1})
    assert "callback of a listener" in caplog.text


@on_a_loop
async def test_with_advertisements_what_was_not_advertised_is_refused(tmp_path: Path) -> None:
    async with broker(tmp_path, advertisements="simple") as server, connect(server.url) as client:
        id = await client.advertise("x > 0")
        await client.publish({"x": 1})
        with pytest.raises(BrokerRefused):
            await client.publish({"x": -1})
        await client.unadvertise(id)
        with pytest.raises(BrokerRefused):
            await client.publish({"x": 1})


@on_a_loop
async def test_a_clock_stamps_what_has_no_time() -> None:
    async with broker(None) as server, connect(server.url, clock=lambda: Instant(7), name="n") as client:
        async with client.subscribe('time = t"1970-01-01T00:00:00.000007Z"') as stamped:
            published = await client.publish({"x": 1})
            assert await stamped.get() == published
        assert (published.time, published.producer) == (Instant(7), "n")
        assert (await client.publish({"time": Instant(3)})).time == Instant(3)


@on_a_loop
async def test_brokers_are_linked_and_unlinked_while_they_run(tmp_path: Path) -> None:
    async with (
        broker(tmp_path, "a") as a,
        broker(tmp_path, "b") as b,
        connect(a.url) as near,
        connect(b.url) as far,
    ):
        await far.link(a.url)

        async def linked() -> bool:
            links = (await near.status())["links"]
            return bool(links) and links["b"]["ready"]

        await until(linked)
        # The side that was called knows where the other one listens, too.
        assert (await near.status())["links"]["b"]["url"] == b.url
        async with far.subscribe("x = 1") as ones:
            await near.publish({"x": 1})
            assert await taken(ones, 1) == [1]
        await far.unlink("a")
        assert (await far.status())["links"] == {}


@on_a_loop
async def test_a_durable_subscription_waits_for_neighbours_that_are_to_come(tmp_path: Path) -> None:
    """Where all links are known, as in a network's file: what is published behind them is not lost to it."""
    async with broker(tmp_path, "a", neighbours=("b",)) as a, connect(a.url) as near:
        durable = near.subscribe("exists x", durable="d")
        installed = asyncio.ensure_future(durable.installed())
        async with near.subscribe("exists y"):  # another one does not wait
            assert not installed.done()
        async with broker(tmp_path, "b", links=(a.url,), neighbours=("a",)) as b, connect(b.url) as far:
            await installed
            await far.publish({"x": 1})
            assert await taken(durable, 1) == [1]


@on_a_loop
async def test_links_that_a_network_does_not_have_any_more_are_forgotten(tmp_path: Path) -> None:
    async with broker(tmp_path, "a") as a, broker(tmp_path, "b", links=(a.url,)), connect(a.url) as client:

        async def linked() -> bool:
            return "b" in (await client.status())["links"]

        await until(linked)
    async with broker(tmp_path, "a", neighbours=()) as a, connect(a.url) as client:
        assert (await client.status())["links"] == {}


@on_a_loop
async def test_closing_fails_what_waits_and_ends_iterations() -> None:
    async with broker(None) as server:
        client = connect(server.url)
        await client.open()
        subscription = client.subscribe("x = 1")
        await subscription.installed()

        async def read() -> list[Any]:
            return [each async for each in subscription]

        reading = asyncio.ensure_future(read())
        await client.close()
        assert await reading == []
        with pytest.raises(ConnectionEnded, match="closed"):
            await client.publish({"x": 1})


def test_a_client_is_made_outside_of_a_loop_too() -> None:
    assert isinstance(connect(), Client)


@on_a_loop
async def test_what_was_accepted_is_in_the_log_when_the_client_is_closed(tmp_path: Path) -> None:
    async with broker(tmp_path) as server:
        async with connect(server.url) as client:
            subscription = client.subscribe("exists x", durable="d")
            await subscription.installed()
            await asyncio.gather(*(client.publish({"x": n}) for n in range(5)))
            for _ in range(5):
                await (await subscription.delivery()).accept()
        ledger = server.node.ledger
        assert ledger is not None
        assert ledger.log.cursors["sub:d"] == ledger.content
        assert not ledger.log.cursors.changed
