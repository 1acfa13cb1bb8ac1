"""Nobody waits for ever: where a broker is silent or away, or was asked amiss, the client is told."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairlead import connect
from fairlead.errors import BrokerRefused, ConnectionEnded, FilterError, LogFull, NetworkError, ValueRefused
from fairlead.model import Instant
from fairlead.network import channel, durability, server, sync, wire
from fairlead.network.addresses import Address, Tls
from fairlead.network.client import Client, Subscription
from fairlead.network.client_sessions import ClientSession
from fairlead.network.clientele import Clientele
from fairlead.network.contexts import Refusals
from fairlead.network.server import Server
from fairlead.network.settings import BrokerSettings, Limits, read_settings
from fairlead_lab.testing.brokers import PATIENCE_S, on_a_loop

HERE = "127.0.0.1"


@contextlib.asynccontextmanager
async def broker(path: Path | None, name: str = "b", **settings: Any) -> AsyncIterator[Server]:
    data = None if path is None else str(path / name)
    listen = settings.pop("listen", Address(HERE, 0))
    running = Server(BrokerSettings(name, listen, data, **settings))
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0)


async def taken(subscription: Subscription, count: int, of: str = "x") -> list[Any]:
    return [(await subscription.get()).get(of) for _ in range(count)]


# -- what a durable name asks for ----------------------------------------------------------------------------


async def leave_behind(url: str, *filters: str) -> None:
    """A durable subscriber that asks for all of these, and is away."""
    async with connect(url) as client:
        for each in filters:
            await client.subscribe(each, durable="desk").installed()


@on_a_loop
async def test_who_asks_for_something_else_under_a_durable_name_is_told_what_it_asks_for(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path, limits=Limits(window=3)) as b, connect(b.url) as client:
        await leave_behind(b.url, "exists x")
        with pytest.raises(
            BrokerRefused, match=r"'desk' is bound to 'exists x'\n.*hint: subscribe to that first"
        ):
            await client.subscribe("exists y", durable="desk").installed()
        xs, ys = client.subscribe("exists x", durable="desk"), client.subscribe("exists y", durable="desk")
        await xs.installed()
        await ys.installed()
        for x in range(5):
            await client.publish({"x": x})
        await client.publish({"y": 7})
        assert await taken(xs, 5) == [0, 1, 2, 3, 4]
        assert await taken(ys, 1, "y") == [7]


@on_a_loop
async def test_what_a_durable_subscriber_does_not_want_any_longer_it_takes_back_by_the_filter(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path, limits=Limits(window=3)) as b, connect(b.url) as client:
        await leave_behind(b.url, "exists x", "exists y")
        await client.forget("desk", "exists x")
        ys, zs = client.subscribe("exists y", durable="desk"), client.subscribe("exists z", durable="desk")
        await ys.installed()
        await zs.installed()
        for number in range(4):
            await client.publish({"z": number})
        await until(lambda: zs.waiting == 3)
        await client.forget("desk", "exists z")  # with all that is under way for it
        await client.publish({"y": 1})
        assert await taken(ys, 1, "y") == [1]
        with pytest.raises(BrokerRefused, match="'desk' has no subscription"):
            await client.forget("desk", "exists x")
        await client.forget("desk", "exists y")
        with pytest.raises(BrokerRefused, match="there is no durable subscriber 'desk'"):
            await client.forget("desk")
        with pytest.raises(ValueRefused, match="not empty"):
            await client.forget("")


@on_a_loop
async def test_who_leaves_out_what_it_asked_for_before_is_told_and_does_not_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker(tmp_path) as b, connect(b.url) as client:
        await leave_behind(b.url, "exists x", "exists y")
        monkeypatch.setattr(durability, "CLAIM_US", 0)
        with pytest.raises(BrokerRefused, match="'desk' is bound to 'exists y'"):
            await client.subscribe("exists x", durable="desk").get()


@on_a_loop
async def test_who_comes_back_for_one_after_the_other_misses_nothing_of_either(tmp_path: Path) -> None:
    async with broker(tmp_path) as b, connect(b.url) as client:
        await leave_behind(b.url, "exists x", "exists y")
        await client.publish({"y": 0})
        await client.publish({"x": 1})
        xs = client.subscribe("exists x", durable="desk")
        await xs.installed()
        await client.status()  # the broker has had the time to deliver what nobody would take
        ys = client.subscribe("exists y", durable="desk")
        assert await taken(ys, 1, "y") == [0]
        assert await taken(xs, 1) == [1]


@on_a_loop
async def test_who_closes_one_of_two_subscriptions_of_a_name_is_told_when_the_other_is_stuck(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as b, connect(b.url) as client:
        xs, ys = client.subscribe("exists x", durable="desk"), client.subscribe("exists y", durable="desk")
        await xs.installed()
        await ys.installed()
        await ys.close()
        reading = asyncio.ensure_future(xs.get())
        await client.publish({"y": 1})
        with pytest.raises(
            BrokerRefused, match=r"blocked by a delivery for 'desk:exists y'(.|\n)*close them all"
        ):
            await reading
        await xs.close()
        async with client.subscribe("exists x", durable="desk") as xs:
            assert await taken(client.subscribe("exists y", durable="desk"), 1, "y") == [1]


# -- brokers that are away -----------------------------------------------------------------------------------


@on_a_loop
async def test_what_has_come_is_given_out_though_some_broker_is_away(tmp_path: Path) -> None:
    async with broker(tmp_path, neighbours=("far",)) as b, connect(b.url) as client:
        subscription = client.subscribe("exists x", durable="desk")
        publishing = asyncio.ensure_future(client.publish({"x": 1}))
        assert await taken(subscription, 1) == [1]
        assert not subscription.is_installed
        await publishing


@on_a_loop
async def test_a_durable_subscription_that_was_acknowledged_does_not_wait_for_brokers_that_are_away(
    tmp_path: Path,
) -> None:
    async with broker(tmp_path) as b, connect(b.url) as client:
        await leave_behind(b.url, "exists x")
        b.node.keep_links(("far",), 0)
        again = client.subscribe("exists x", durable="desk")
        await again.installed()
        assert again.is_installed


def test_a_synchronous_client_waits_for_brokers_that_are_away_as_long_as_it_is_told(
    brokers: Any, tmp_path: Path
) -> None:
    url = brokers.start("b", tmp_path, neighbours=("far",)).url
    with sync.connect(url) as client, client.subscribe("exists x", durable="d", timeout=0.01) as xs:
        assert not xs.is_installed
        client.publish({"x": 1})
        assert xs.get(PATIENCE_S).get("x") == 1


@on_a_loop
async def test_after_a_lost_connection_publications_wait_until_what_was_advertised_is_known_again(
    tmp_path: Path,
) -> None:
    advertising = {"advertisements": "covering"}
    async with (
        broker(tmp_path, "a", **advertising) as a,
        broker(tmp_path, "b", links=(a.url,), **advertising) as b,
        connect(a.url) as publisher,
        connect(b.url) as client,
    ):
        await until(lambda: "b" in a.node.links and a.node.links["b"].ready)
        xs = client.subscribe("exists x", durable="desk")
        await xs.installed()
        await publisher.advertise("exists x")
        for x in range(5):
            await publisher.publish({"x": x})
            lost = publisher._uplink.channel
            assert lost is not None
            lost.abort()
            await lost.closed
        assert await taken(xs, 5) == [0, 1, 2, 3, 4]


class Forgetful:
    """A broker that ends the connection at the first question after each welcome but the last, as if killed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> None:
        self.asked: list[str] = []
        self._after, self._handle = after, Clientele.handle
        # A method would not be told which of the clienteles it is.
        monkeypatch.setattr(Clientele, "handle", lambda *given: self.handle(*given))  # noqa: PLW0108

    def handle(self, clientele: Clientele, session: ClientSession, message: wire.Control, now: int) -> None:
        kind = type(message).__name__
        is_first = kind not in (*self.asked, "Bye")
        self.asked.append(kind)
        if self._after or not is_first:
            self._handle(clientele, session, message, now)
        if is_first:
            session.take_out()
            session.lost()


Asking = Callable[[Client], Coroutine[Any, Any, Any]]


@pytest.mark.parametrize("after", [False, True], ids=["before it is done", "after it was done"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.status(),
        lambda client: client.tables(),
        lambda client: client.advertise("exists x"),
        lambda client: client.unadvertise("known"),
        lambda client: client.anyone_listens("exists x"),
        lambda client: client.forget("desk"),
        lambda client: client.unlink("127.0.0.1:1"),
    ],
    ids=["status", "tables", "advertise", "unadvertise", "anyone_listens", "forget", "unlink"],
)
@on_a_loop
async def test_what_was_asked_when_the_connection_broke_is_asked_again(
    ask: Asking, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker(tmp_path, advertisements="simple") as b:
        await leave_behind(b.url, "exists x")
        b.node.neighbourhood.call("fairlead://127.0.0.1:1")
        async with connect(b.url) as client:
            await client.advertise("exists y", id="known")
            forgetful = Forgetful(monkeypatch, after=after)
            await ask(client)
            assert len(forgetful.asked) >= 2
            assert (await client.status())["broker"] == "b"


@on_a_loop
async def test_what_is_not_there_is_refused_though_it_was_asked_twice_for_another_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker(tmp_path) as b, connect(b.url) as client:
        with pytest.raises(BrokerRefused, match="there is no durable subscriber 'desk'"):
            await client.forget("desk")
        Forgetful(monkeypatch, after=False)

        def full(*_: object) -> None:
            raise LogFull("no room")

        monkeypatch.setattr(b.node.durability, "unsubscribe", full)
        with pytest.raises(BrokerRefused, match="no room"):
            await client.forget("desk")


@on_a_loop
async def test_who_asks_again_does_so_as_long_as_its_patience_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(None) as b, connect(b.url, patience=0.2) as client:
        Forgetful(monkeypatch, after=False)
        b._listening.close()  # type: ignore[union-attr]
        with pytest.raises(ConnectionEnded, match="cannot be reached"):
            await client.status()


# -- brokers that say nothing --------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def silent(*said: wire.Control) -> AsyncIterator[tuple[str, list[wire.Control]]]:
    """Something that takes calls, says so much and nothing more; where it is, and what it has heard."""
    heard: list[wire.Control] = []

    class Silent(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.frames = wire.Frames()
            for each in said:
                transport.write(wire.control(each))

        def data_received(self, data: bytes) -> None:
            heard.extend(wire.parse_control(payload) for _, payload in self.frames.feed(data))

    listening = await asyncio.get_running_loop().create_server(Silent, HERE, 0)
    try:
        yield f"{HERE}:{listening.sockets[0].getsockname()[1]}", heard
    finally:
        listening.close()


@on_a_loop
async def test_a_broker_that_takes_calls_and_says_nothing_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel, "ATTEMPT_LEAST_S", 0.02)
    async with silent() as (url, _):
        with pytest.raises(
            ConnectionEnded, match="cannot be reached: it accepts connections, but sends nothing"
        ):
            await connect(url, patience=0.01).open()


@on_a_loop
async def test_a_client_that_only_waits_notices_that_the_broker_says_nothing_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel, "TICK_S", 0.01)
    async with silent(wire.Welcome(wire.VERSION, "b", "c")) as (url, heard), connect(url) as client:
        waiting = asyncio.ensure_future(client.subscribe("true").get())
        await until(lambda: sum(isinstance(each, wire.Hello) for each in heard) == 2)
        kinds = [type(each) for each in heard]
        assert kinds[: kinds.index(wire.Hello, 1)] == [wire.Hello, wire.Subscribe, wire.Ping]
        waiting.cancel()


@on_a_loop
async def test_who_has_little_patience_bears_little_silence() -> None:
    def nothing(*_: object) -> None:
        """What is received does not matter."""

    ticks = [channel.Channel(nothing, nothing, patience)._tick_s for patience in (None, 30.0, 5.0, 0.0)]
    assert ticks == [2.5, 2.5, 1.25, 0.5]


@on_a_loop
async def test_silence_is_not_the_brokers_fault_while_nothing_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel, "TICK_S", 0.001)
    async with silent(wire.Welcome(wire.VERSION, "b", "c")) as (url, _), connect(url) as client:
        wired, ticks = client._uplink.channel, 0
        assert wired is not None
        wired.read(False)
        before = wired._ticking
        while ticks < 3 * channel.DEAD_TICKS:
            await asyncio.sleep(0)
            ticks, before = ticks + (wired._ticking is not before), wired._ticking
        assert client._uplink.channel is wired


@on_a_loop
async def test_a_broker_that_does_not_listen_for_now_says_that_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel, "TICK_S", 0.05)
    monkeypatch.setattr(server, "UNREAD_S", 0.02)
    monkeypatch.setattr(server, "HOUSEKEEPING_S", 0.01)
    async with broker(None) as b, connect(b.url) as client:
        [connection] = b.connections
        connection.pause()
        wired, asked, times = client._uplink.channel, connection.last_ping, 0
        while times < 15:
            await asyncio.sleep(0)
            times, asked = times + (connection.last_ping != asked), connection.last_ping
        assert client._uplink.channel is wired


@on_a_loop
async def test_the_system_looks_after_clients_whose_machine_is_gone() -> None:
    async with broker(None) as b, connect(b.url):
        [connection] = b.connections
        assert connection._transport is not None
        connected = connection._transport.get_extra_info("socket")
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@on_a_loop
async def test_sending_gives_others_a_turn_and_holds_little_in_memory() -> None:
    async with broker(None) as b, connect(b.url) as client:
        turns = most = 0

        async def other() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        task = asyncio.ensure_future(other())
        for x in range(2_000):
            await client.send({"x": x})
            most = max(most, sum(map(len, client._uplink._out)))
        task.cancel()
        assert turns >= 3
        assert most < 100_000


# -- TLS -----------------------------------------------------------------------------------------------------


def secure(tls: Tls, *, mutual: bool = False, names: bool = False) -> dict[str, Any]:
    return {
        "listen": Address("localhost", 0, True),
        "tls": Tls(tls.certificate, tls.key, tls.authority, mutual, names),
    }


@on_a_loop
async def test_who_calls_without_tls_where_it_is_spoken_is_told_at_once(certificate: Tls) -> None:
    async with broker(None, **secure(certificate)) as b:
        plain = b.url.replace("fairleads", "fairlead")
        with pytest.raises(ConnectionEnded, match=f"speaks TLS, and nothing else\n.*call it as {b.url}"):
            await connect(plain).open()


@on_a_loop
async def test_who_calls_with_tls_where_it_is_not_spoken_is_told_at_once(certificate: Tls) -> None:
    async with broker(None) as b:
        url = b.url.replace("fairlead", "fairleads")
        with pytest.raises(ConnectionEnded, match=f"does not speak TLS(.|\n)*call it as {b.url}"):
            await connect(url, tls=certificate).open()


@on_a_loop
async def test_who_has_no_certificate_where_one_is_demanded_is_told_at_once(
    certificate: Tls, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker(None, **secure(certificate, mutual=True)) as b:
        async with connect(b.url, tls=certificate) as client:
            await client.publish({"x": 1})
        with pytest.raises(ConnectionEnded, match="may want a certificate"):
            await connect(b.url, tls=Tls(authority=certificate.authority)).open()
    assert [record.message for record in caplog.records] == [
        "a connection is refused: it shows no certificate"
    ]


@on_a_loop
async def test_where_names_count_a_broker_is_who_its_certificate_says_whoever_calls(
    certificate: Tls, caplog: pytest.LogCaptureFixture
) -> None:
    strict = secure(certificate, mutual=True, names=True)
    lenient = secure(certificate, mutual=True)
    async with (
        broker(None, "hub", **strict) as hub,
        broker(None, "east", **strict) as east,
        broker(None, "west", **lenient) as west,
        connect(hub.url, tls=certificate, name="west") as client,  # a client is called as it likes
        connect(west.url, tls=certificate) as other,
    ):
        assert await client.link(east.url) == ("east", "")
        refused = "a broker 'west' with a certificate for east, hub, localhost is not taken in"
        with pytest.raises(BrokerRefused, match=refused):
            await client.link(west.url)
        caplog.clear()
        with pytest.raises(BrokerRefused, match=refused):
            await other.link(hub.url)
        assert f"a connection is refused: {refused} (from " in caplog.text
        assert not (await client.status())["waiting"]
        async with broker(None, "plain") as plain:
            with pytest.raises(BrokerRefused, match="a broker 'plain' with a certificate for nobody"):
                await client.link(plain.url)


def test_a_refused_certificate_is_told_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    refusals = Refusals(iter([0.0, 59.0, 60.0, 61.0, 61.0]).__next__)
    for told in (1, 1, 2, 2):
        refusals.tell("it shows no certificate")
        assert len(caplog.records) == told
    refusals.tell("its certificate is not trusted: it has expired")
    assert len(caplog.records) == 3


def test_names_count_only_where_certificates_are_shown(certificate: Tls, tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(
        f'[tls]\ncertificate = "{certificate.certificate}"\nkey = "{certificate.key}"\nnames = true\n',
        encoding="utf-8",
    )
    with pytest.raises(NetworkError, match=r"\[tls\] names: .* set `mutual = true`"):
        read_settings(tmp_path / "broker.toml")


def test_a_broker_that_would_believe_nobodys_certificate_is_not_run(certificate: Tls, tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(
        f'[tls]\ncertificate = "{certificate.certificate}"\nkey = "{certificate.key}"\nmutual = true\n',
        encoding="utf-8",
    )
    with pytest.raises(NetworkError, match=r"\[tls\] mutual: whose certificates are believed\?"):
        read_settings(tmp_path / "broker.toml")
    nobody = BrokerSettings(
        "b", Address(HERE, 0, True), None, tls=Tls(*secure_files(certificate), mutual=True)
    )
    with pytest.raises(NetworkError, match="nobody's certificate would be believed"):
        asyncio.run(Server(nobody).start())


def secure_files(tls: Tls) -> tuple[str | None, str | None]:
    return tls.certificate, tls.key


# -- what is asked amiss -------------------------------------------------------------------------------------


def test_patience_is_a_duration_as_everywhere_or_a_number_of_seconds() -> None:
    given = ["60s", "1 min", timedelta(minutes=1), 60, 60.0]
    assert [connect(patience=each)._uplink.patience_s for each in given] == [60.0] * 5
    assert connect(patience=None)._uplink.patience_s is None
    with pytest.raises(FilterError, match="not a duration: 'soon'"):
        connect(patience="soon")
    for wrong in (-1, float("nan"), True, [1]):
        with pytest.raises(ValueRefused, match="patience is a number of seconds"):
            connect(patience=wrong)  # type: ignore[arg-type]


@on_a_loop
async def test_a_client_that_cannot_go_on_says_so_to_whoever_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def call(*_: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr("fairlead.network.uplink.call", call)
    with pytest.raises(ConnectionEnded, match="cannot go on: ZeroDivisionError"):
        await connect(HERE).open()


@on_a_loop
async def test_who_publishes_again_what_was_published_before_can_tell(tmp_path: Path) -> None:
    async with broker(tmp_path) as b, connect(b.url) as client, connect(b.url) as other:
        for each in (client, client, other):
            await each.publish({"id": "1", "producer": "p"})
        assert (client.duplicates, other.duplicates) == (1, 1)


@on_a_loop
async def test_what_a_client_had_to_send_again_is_no_duplicate(tmp_path: Path) -> None:
    async with broker(tmp_path) as b, connect(b.url) as client:
        await lose_an_answer(b, client)
        assert b.node.counters.duplicates == 1
        assert client.duplicates == 0


async def lose_an_answer(b: Server, client: Client) -> None:
    """Publish, and lose the connection when the broker has it, and before it says so."""
    publishing = asyncio.ensure_future(client.publish({"x": 1}))
    await until(lambda: b.node.counters.published)
    assert client._uplink.channel is not None
    client._uplink.channel.abort()
    await publishing


@on_a_loop
async def test_a_subscription_of_a_client_that_is_not_open_does_not_wait() -> None:
    with pytest.raises(ConnectionEnded, match="not open"):
        await connect(HERE).subscribe("true").get()


@on_a_loop
async def test_an_id_is_not_empty() -> None:
    async with broker(None) as b, connect(b.url) as client:
        with pytest.raises(ValueRefused, match="an id is not empty"):
            await client.publish({"id": "", "x": 1})


@on_a_loop
async def test_what_cannot_be_said_to_a_broker_is_refused_at_once_and_harms_nothing(tmp_path: Path) -> None:
    async with broker(tmp_path) as b, connect(b.url) as client:
        for wrong in ({"filter": None}, {"filter": "true", "durable": 5}, {"filter": "true", "id": 5}):
            with pytest.raises(ValueRefused):
                client.subscribe(**wrong)  # type: ignore[arg-type]
        for since in (1.5, True, "soon", datetime(2026, 1, 1)):
            with pytest.raises(ValueRefused):
                client.subscribe("true", since=since)  # type: ignore[arg-type]
        await client.publish({"x": 1})
        lost = client._uplink.channel
        assert lost is not None
        lost.abort()
        await lost.closed
        moments = (datetime(2026, 1, 1, tzinfo=UTC), Instant(0), "2026-01-01T00:00:00Z", 0)
        for moment in moments:
            assert await taken(client.subscribe("exists x", since=moment), 1) == [1]


@on_a_loop
async def test_whose_durable_subscriber_is_ended_by_another_client_is_told(tmp_path: Path) -> None:
    async with broker(tmp_path) as b, connect(b.url) as client, connect(b.url) as other:
        xs = client.subscribe("exists x", durable="desk")
        await xs.installed()
        await other.forget("desk")
        with pytest.raises(BrokerRefused, match="another client has ended 'desk'"):
            await xs.get()


@on_a_loop
async def test_a_client_that_was_welcome_before_is_not_put_off_by_a_broker_that_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = Limits(clients=1)
    async with broker(None, limits=limits) as b, connect(b.url) as client:
        b.node.clients[client.name].end("a mistake")
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(connect(b.url))
            publishing = asyncio.ensure_future(client.publish({"x": 1}))
            await until(lambda: client._uplink.channel is None)
        await publishing
        with pytest.raises(BrokerRefused, match="there are 1 clients already"):
            await connect(b.url).open()


@on_a_loop
async def test_what_is_no_broker_is_called_so() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    other = await asyncio.start_server(answer, HERE, 0)
    async with other:
        port = other.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionEnded, match=f"fairlead://{HERE}:{port} is no broker"):
            await connect(f"{HERE}:{port}").open()


# -- what a broker tells -------------------------------------------------------------------------------------


@on_a_loop
async def test_a_broker_tells_more_where_that_is_wanted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fairlead")
    async with broker(None, "a") as a, broker(None, "b", links=(a.url,)) as b:
        await until(lambda: "a" in b.node.links and b.node.links["a"].ready)
        async with connect(a.url, name="desk") as client:
            with pytest.raises(BrokerRefused):
                await client.subscribe("true", durable="d").installed()
        with pytest.raises(BrokerRefused):
            await connect(a.url, policy="hurry").open()
        await until(lambda: "the client 'desk' has disconnected" in caplog.text)
    for told in (
        "the broker 'b' is connected",
        "the client 'desk' is connected",
        "the client 'desk' is refused: this broker has no log",
        "a connection is refused: no policy for slow clients",
        "the broker 'a' has disconnected",
    ):
        assert told in caplog.text


@on_a_loop
async def test_a_neighbour_that_cannot_be_reached_is_named_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "UNREACHED_S", 0.0)
    monkeypatch.setattr(server, "BACKOFF_S", (0.001, 0.001))
    tried = 0

    async def connection(*_: object, **__: object) -> None:
        nonlocal tried
        tried += 1
        raise ConnectionRefusedError(111, "Connection refused")

    async with broker(None, "b") as b:
        monkeypatch.setattr(b.loop, "create_connection", connection)
        b.node.calling.calls["fairlead://127.0.0.1:1"] = ""
        b.node.calling.on_change()
        await until(lambda: tried > 4)
    assert caplog.text.count("fairlead://127.0.0.1:1: it cannot be reached") == 1
