"""Bad input harms nobody but who sent it: a clear reason for that one, and all others go on.

The node is fed with what no client or broker sends; the server meets those who say nothing, too much,
or do not listen.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.broker import Broker, Settings
from fairlead.errors import BrokerRefused, ConnectionEnded, FairleadError
from fairlead.filters.language import parse
from fairlead.log import Disk
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import client as client_module
from fairlead.network import connect, files, server, wire
from fairlead.network.ledger import Ledger
from fairlead.network.node import Node
from fairlead.network.server import Server
from fairlead.network.sessions import Session
from fairlead.network.settings import Address, BrokerSettings, Limits, Tls
from fairlead.routing import STRATEGIES
from fairlead_lab.chaos.processes import BrokerProcess
from fairlead_lab.testing.memory import MemoryDisk

# -- the node ------------------------------------------------------------------------------------------------


class Response:
    """A peer that keeps what it is sent."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def buffered(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True

    def pause(self) -> None:
        """It is not read from."""

    def resume(self) -> None:
        """It is."""

    def frames(self) -> list[tuple[int, bytes]]:
        return [*wire.Frames().feed(self.written)]

    def messages(self) -> list[wire.Control]:
        return [wire.parse_control(payload) for kind, payload in self.frames() if kind == wire.CONTROL]


def node_with_a_log() -> Node:
    broker = Broker("hub", Settings(STRATEGIES["covering"](0.1)))
    return Node(broker, Ledger("/log", MemoryDisk()), life="1")


def joined(node: Node, role: str, name: str) -> tuple[Response, Session]:
    peer = Response()
    return peer, node.greet(peer, wire.Hello(wire.VERSION, role, name, life="1", log="theirs"))


def work(node: Node) -> None:
    assert node.ledger is not None
    node.flush()
    while node.wants_sync:
        node.synced(node.ledger.log.sync())
        node.flush()


words = ["", "s", "x > 1", "x >", "hub", "other", "é", "x" * 300, "y" * 70_000]
texts = st.sampled_from(words) | st.text(max_size=5)
numbers = st.sampled_from([0, 1, -1, 7, 1 << 62, -(1 << 62)]) | st.integers(-5, 50)
heard = st.lists(st.lists(texts, max_size=3), max_size=3)
messages: st.SearchStrategy[wire.Control] = st.one_of(
    st.builds(wire.Hello, numbers, texts, texts, texts, texts, texts, texts, numbers),
    st.builds(wire.Welcome, numbers, texts, texts, texts, texts, texts, numbers),
    st.builds(wire.Bye, texts),
    st.just(wire.Ping()),
    st.just(wire.Pong()),
    st.builds(wire.Subscribe, numbers, texts, texts, texts, st.none() | numbers),
    st.builds(wire.Unsubscribe, numbers, texts, texts),
    st.builds(wire.Advertise, numbers, texts, texts),
    st.builds(wire.Unadvertise, numbers, texts),
    st.builds(wire.Accept, texts, st.lists(numbers, max_size=3)),
    st.builds(wire.Reject, texts, numbers, st.booleans()),
    st.builds(wire.Listen, numbers, texts, texts),
    st.builds(wire.ReportRequest, numbers, texts),
    st.builds(wire.Unlink, numbers, texts),
    st.builds(wire.Done, numbers),
    st.builds(wire.Refused, numbers, texts),
    st.builds(wire.Table, heard, heard),
    st.builds(wire.InterestsChanged, heard, heard, st.booleans()),
    st.builds(wire.Received, numbers),
    st.builds(wire.Barrier, texts, numbers, st.booleans()),
    st.builds(wire.Passed, texts, numbers),
)
packed = st.one_of(
    st.just(pack(Notification.of({"x": 3, "producer": "p", "id": "1"}))),
    st.binary(max_size=20),
    st.builds(lambda raw: b"{" + raw, st.binary(max_size=20)),
    st.just(pack(Notification.of({"x": 1 << 80}))),
)
frames = st.one_of(
    st.builds(wire.control, messages),
    st.builds(wire.publish, st.integers(0, 1 << 63), packed),
    st.builds(wire.relay, st.integers(0, 1 << 63), packed),
    st.builds(
        lambda kind, raw: struct.pack("<IB", len(raw) + 1, kind) + raw,
        st.integers(0, 4),
        st.binary(max_size=30),
    ),
    st.binary(min_size=1, max_size=30),
)


@given(role=st.sampled_from(["client", "broker"]), sent=st.lists(frames, max_size=8))
def test_whatever_is_sent_a_node_goes_on_and_says_why_it_ends_a_connection(
    role: str, sent: list[bytes]
) -> None:
    node = node_with_a_log()
    good, listener = joined(node, "client", "listener")
    node.receive(listener, wire.Frames().feed(wire.control(wire.Subscribe(1, "mine", "y = 1"))), 0)
    work(node)
    bad, session = joined(node, role, "bad")
    reading = wire.Frames()
    for chunk in sent:
        node.receive(session, reading.feed(chunk), 0)
        work(node)
        node.tick(0)
        node.save(0)
    assert session.ended == bad.closed
    if session.ended and not any(isinstance(each, wire.Bye) for each in said(sent)):
        assert any(isinstance(each, wire.Bye) and each.reason for each in bad.messages())
    if not session.ended:
        node.lost(session)
    assert not listener.ended
    notification = pack(Notification.of({"y": 1, "producer": "listener", "id": "last"}))
    node.receive(listener, wire.Frames().feed(wire.publish(9, notification)), 0)
    work(node)
    assert (wire.STORED, struct.pack("<Q", 9)) in good.frames()
    assert any(kind == wire.DELIVER for kind, _ in good.frames())


def said(sent: list[bytes]) -> list[wire.Control]:
    """The messages among what was sent, as far as it can be read."""
    found: list[wire.Control] = []
    with contextlib.suppress(FairleadError):
        for kind, payload in wire.Frames().feed(b"".join(sent)):
            if kind == wire.CONTROL:
                found.append(wire.parse_control(payload))
    return found


@given(hello=st.builds(wire.Hello, numbers, texts, texts, texts, texts, texts, texts, numbers))
def test_whoever_introduces_itself_is_taken_in_or_told_why_not(hello: wire.Hello) -> None:
    node = node_with_a_log()
    with contextlib.suppress(FairleadError):
        session = node.greet(Response(), hello)
        work(node)
        node.save(0)
        node.lost(session)


# -- the server ----------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def running(directory: Path | None = None, **limits: int) -> AsyncIterator[Server]:
    settings = BrokerSettings(
        "hub",
        Address("127.0.0.1", 0),
        None if directory is None else str(directory / "hub"),
        limits=Limits(**limits),
    )
    async with started(settings) as broker:
        yield broker


@contextlib.asynccontextmanager
async def started(settings: BrokerSettings) -> AsyncIterator[Server]:
    broker = Server(settings)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


async def raw(broker: Server, *sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that sends these bytes, and is read from only by who wants to."""
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port, limit=1 << 12)
    writer.write(b"".join(sent))
    return reader, writer


async def goodbye(reader: asyncio.StreamReader) -> str:
    """The reason with which the broker ends a connection."""
    answer = await asyncio.wait_for(reader.read(), 10.0)
    found = [
        wire.parse_control(payload) for kind, payload in wire.Frames().feed(answer) if kind == wire.CONTROL
    ]
    assert isinstance(found[-1], wire.Bye)
    return found[-1].reason


async def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Return when it holds."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


async def serves(broker: Server) -> None:
    """Whoever behaves is served."""
    async with connect(broker.url, name="good") as good, good.subscribe("fine = true") as fine:
        await good.publish({"fine": True})
        notification = await asyncio.wait_for(fine.get(), 10.0)
        assert notification.attributes["fine"] is True


def hello(
    name: str = "bad", policy: str = "", version: int = wire.VERSION, role: str = "client", oldest: int = 0
) -> bytes:
    return wire.control(wire.Hello(version, role, name, policy, oldest=oldest))


def runs(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs on an event loop."""

    def run(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    run.__signature__ = __import__("inspect").signature(test)  # type: ignore[attr-defined]
    return run


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: hub\r\n\r\n", "a frame of 542,393,671 bytes; at most 1,048,576 are taken"),
        (struct.pack("<IB", 1 << 24, 0), "a frame of 16,777,216 bytes"),
        (struct.pack("<IB", 0, 0), "a frame without content"),
        (struct.pack("<IB", 1, 99), "unknown kind 99"),
        (wire.publish(1, b""), "begins with Hello"),
        (wire.control(wire.Ping()), "begins with Hello"),
        (hello(version=99), "version 99 of the protocol is not spoken here; version"),
        (hello(version=99, oldest=98), "versions 98 to 99 of the protocol are not spoken here"),
        (hello(version=5, role="broker"), "version 5 of the protocol is not spoken here"),
        (hello(role="poet"), "neither client nor broker, but 'poet'"),
        (hello(policy="shout"), "no policy for slow clients: 'shout'"),
        (hello("n" * 600), "a name has at most 500 bytes"),
        (hello() + struct.pack("<IB", 1 << 24, 0), "a frame of 16,777,216 bytes"),
        (hello() + wire.relay(1, wire.NO_STAMP, b""), "clients do not send frames of the kind 3"),
        (hello() + wire.control(wire.Table([], [])), "clients do not send Table"),
        (hello("hub", role="broker"), "that is its own name"),
        (
            wire.checked(hello(role="broker") + wire.control(wire.Table([("x >", "")], []))),
            "a filter that cannot be read here",
        ),
        (
            hello(role="broker") + wire.control(wire.Table([], [])),
            "a frame of the kind 0 without a checksum",
        ),
        (
            wire.checked(hello(role="broker")) + wire.checked(wire.control(wire.Table([], [])))[:-1] + b"!",
            "the checksum is wrong",
        ),
        (
            wire.checked(hello(role="broker") + wire.control(wire.Table([], [("x > 1", "")]))),
            "no advertisements in this network",
        ),
        (
            wire.checked(
                hello(role="broker")
                + wire.control(wire.Table([], []))
                + wire.relay(1, wire.NO_STAMP, b"\xc1")
            ),
            "not a packed notification",
        ),
    ],
)
@runs
async def test_what_is_no_frame_of_this_protocol_ends_that_connection_with_a_reason(
    sent: bytes, reason: str, tmp_path: Path
) -> None:
    async with running(tmp_path) as broker:
        reader, writer = await raw(broker, sent)
        assert reason in await goodbye(reader)
        writer.close()
        await serves(broker)


@runs
async def test_who_never_says_hello_is_sent_away() -> None:
    async with running(handshake_seconds=1) as broker:
        silent, slow = await raw(broker), await raw(broker, hello()[:7])
        assert await goodbye(silent[0]) == await goodbye(slow[0]) == "there was no handshake"
        await until(lambda: not broker.connections)
        for _, writer in (silent, slow):
            writer.close()


@runs
async def test_who_never_ends_its_tls_handshake_is_sent_away(certificate: Tls) -> None:
    limits = Limits(handshake_seconds=1)
    settings = BrokerSettings("hub", Address("127.0.0.1", 0, True), None, tls=certificate, limits=limits)
    async with started(settings) as broker:
        reader, writer = await raw(broker)
        assert await asyncio.wait_for(reader.read(), 20) == b""  # asyncio's own limit is a minute
        writer.close()


@runs
async def test_a_notification_that_cannot_be_read_is_refused_and_the_client_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        reader, writer = await raw(broker, hello(), wire.publish(1, b"\xc1"), wire.control(wire.Ping()))
        reading = wire.Frames()
        told: list[wire.Control] = []
        while wire.Pong() not in told:
            told += [wire.parse_control(payload) for _, payload in reading.feed(await reader.read(1_000))]
        assert any(isinstance(each, wire.Refused) and each.number == 1 for each in told)
        writer.close()


@runs
async def test_a_filter_that_does_not_parse_is_refused_with_the_place(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        frames = [wire.control(wire.Subscribe(7, "s", "price >")), wire.control(wire.Bye(""))]
        reader, writer = await raw(broker, hello(), *frames)
        answer = await asyncio.wait_for(reader.read(), 10.0)
        told = [wire.parse_control(payload) for _, payload in wire.Frames().feed(answer)]
        [refused] = [each for each in told if isinstance(each, wire.Refused)]
        assert refused.number == 7
        assert "column 8: the filter ends too early" in refused.reason
        writer.close()
        await serves(broker)


@pytest.mark.parametrize("filter", ["x > 1e400", "x in {1e400, 7}", "x = -1e400"])
def test_a_number_that_no_float_can_hold_is_one_like_any_other(filter: str) -> None:
    node = node_with_a_log()
    peer, session = joined(node, "client", "c")
    matching = parse(filter).matches(Notification.of({"x": 10**400}))
    sent = [
        wire.control(wire.Subscribe(1, "s", filter)),
        wire.publish(2, pack(Notification.of({"x": 10**400, "producer": "p", "id": "1"}))),
    ]
    node.receive(session, wire.Frames().feed(b"".join(sent)), 0)
    work(node)
    assert wire.Done(1) in peer.messages()
    assert [kind for kind, _ in peer.frames()].count(wire.DELIVER) == matching


def test_what_a_broker_fails_to_do_is_refused_and_the_connection_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = node_with_a_log()
    peer, session = joined(node, "client", "c")

    def fails(*_: object) -> None:
        raise OverflowError("too much")

    last = wire.publish(2, pack(Notification.of({"x": 1, "producer": "p", "id": "1"})))
    with monkeypatch.context() as patch:
        patch.setattr(node.router, "look_at", fails)
        patch.setattr(node.router, "fanout", fails)
        sent = wire.control(wire.Subscribe(1, "s", "x = 1")) + last
        node.receive(session, wire.Frames().feed(sent), 0)
        work(node)
    refused = [each for each in peer.messages() if isinstance(each, wire.Refused)]
    assert [each.number for each in refused] == [1, 2]
    assert {each.reason for each in refused} == {"the broker has failed to do this: OverflowError: too much"}
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 2
    node.receive(session, wire.Frames().feed(last), 0)  # it was not published before
    work(node)
    assert (wire.STORED, struct.pack("<Q", 2)) in peer.frames()
    assert wire.Repeated(2) not in peer.messages()
    assert not session.ended


@runs
async def test_who_takes_a_name_over_is_served_and_who_had_it_is_told() -> None:
    async with running() as broker:
        first = connect(broker.url, name="twin")
        await first.open()
        waiting = asyncio.ensure_future(first.subscribe("x = 1").get())
        async with connect(broker.url, name="twin") as second, second.subscribe("x = 1") as mine:
            with pytest.raises(BrokerRefused, match="another connection has taken over the name 'twin'"):
                await waiting
            await second.publish({"x": 1})
            assert (await asyncio.wait_for(mine.get(), 10.0)).attributes["x"] == 1
        await first.close()


@runs
async def test_a_durable_subscriber_has_a_name_of_a_length_that_can_be_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as broker, connect(broker.url) as client:
        with pytest.raises(BrokerRefused, match="at most 500 bytes"):
            await client.subscribe("x = 1", durable="d" * 501).installed()
        async with client.subscribe("x = 1", durable="d" * 500) as kept:
            await client.publish({"x": 1})
            assert (await asyncio.wait_for(kept.get(), 10.0)).attributes["x"] == 1
            broker.node.save(0)


@runs
async def test_a_client_may_have_many_subscriptions_that_match_at_once() -> None:
    async with running() as broker, connect(broker.url) as client:
        many = [client.subscribe("x = 1", id=f"{number:0100}") for number in range(1_000)]
        await asyncio.gather(*(each.installed() for each in many))
        await client.publish({"x": 1})
        for each in many:
            await asyncio.wait_for(each.get(), 10.0)


# -- who does not read ---------------------------------------------------------------------------------------


BIG = "x" * 20_000
SMALL_LIMITS = {"buffer_bytes": 50_000, "queue": 20}


async def deaf(broker: Server, policy: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that subscribes to everything and reads nothing."""
    client = await raw(broker, hello("deaf", policy), wire.control(wire.Subscribe(1, "all", "exists x")))
    await until(lambda: any(c == "c:deaf" for _, c in broker.node.broker.subscriptions))
    return client


def most_waiting(broker: Server) -> int:
    return max((each.buffered() for each in broker.connections), default=0)


@runs
async def test_who_never_reads_and_lets_drop_is_told_how_many_and_holds_up_nobody() -> None:
    async with running(**SMALL_LIMITS) as broker:
        reader, writer = await deaf(broker, "drop")
        async with connect(broker.url) as client, client.subscribe("exists x") as heard:
            for number in range(1_000):
                await client.publish({"x": number, "pad": BIG})
                assert (await asyncio.wait_for(heard.get(), 10.0)).attributes["x"] == number
                assert most_waiting(broker) < 2_000_000
        assert broker.node.counters.dropped > 500
        dropped, reading = 0, wire.Frames()
        while not dropped:
            for kind, payload in reading.feed(await asyncio.wait_for(reader.read(1 << 20), 10.0)):
                if kind == wire.CONTROL:
                    message = wire.parse_control(payload)
                    dropped += message.count if isinstance(message, wire.Dropped) else 0
        assert dropped > 500
        writer.close()


@runs
async def test_who_never_reads_and_is_to_be_disconnected_is_told_so_and_does_not_linger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "LINGER_S", 0.2)
    async with running(**SMALL_LIMITS) as broker:
        _, writer = await deaf(broker, "disconnect")
        async with connect(broker.url) as client:
            for number in range(1_000):
                await client.publish({"x": number, "pad": BIG})
                if "deaf" not in broker.node.clients:
                    break
            assert "deaf" not in broker.node.clients
            await until(lambda: len(broker.connections) == 1)
        writer.close()


@runs
async def test_who_never_reads_and_blocks_holds_up_publishers_until_it_reads_or_goes() -> None:
    async with running(**SMALL_LIMITS) as broker:
        _, writer = await deaf(broker, "block")
        async with connect(broker.url) as client:
            publishing = asyncio.gather(*(client.publish({"x": n, "pad": BIG}) for n in range(1_000)))
            await until(lambda: bool(broker.node.backpressure.blocking))
            assert most_waiting(broker) < 2_000_000
            writer.transport.abort()
            await asyncio.wait_for(publishing, 20.0)
        assert broker.node.counters.dropped == 0


@runs
async def test_who_blocks_holds_up_those_who_send_at_other_brokers_and_gets_all_of_it() -> None:
    async with contextlib.AsyncExitStack() as stack:
        hub = await stack.enter_async_context(running(**SMALL_LIMITS))
        beyond = replace(hub.settings, name="far", links=(hub.url,))
        far = await stack.enter_async_context(started(beyond))
        await until(lambda: "far" in hub.node.links and hub.node.links["far"].ready)
        reader, writer = await deaf(far, "block")
        await until(lambda: len(hub.node.broker.subscriptions) == 1)

        async def send() -> None:
            async with connect(hub.url, patience=None) as client:
                for number in range(2_000):
                    await client.send({"x": number, "pad": BIG})

        sending = asyncio.create_task(send())
        await until(lambda: hub.node.backpressure.blocked == 1)
        assert max(map(most_waiting, (hub, far))) < 2_000_000
        assert not sending.done()
        came: list[int] = []
        frames = wire.Frames()
        while len(came) < 2_000:
            for kind, payload in frames.feed(await asyncio.wait_for(reader.read(1 << 20), 10.0)):
                if kind == wire.DELIVER:
                    came.append(unpack(wire.parse_deliver(payload)[2]).attributes["x"])
        await asyncio.wait_for(sending, 10.0)
        assert came == list(range(2_000))
        assert not hub.node.counters.dropped + far.node.counters.dropped
        writer.close()


@runs
async def test_who_asks_and_never_reads_the_answers_takes_no_memory() -> None:
    async with running(**SMALL_LIMITS) as broker:
        _, writer = await raw(broker, hello("curious"))
        question = wire.control(wire.ReportRequest(1, "status")) * 500
        await until(lambda: "curious" in broker.node.clients)
        session = broker.node.clients["curious"]
        while not session.inflow.is_choked:
            writer.write(question)
            await asyncio.sleep(0)
        for _ in range(100):
            writer.write(question)
        await serves(broker)
        assert most_waiting(broker) < 5_000_000
        writer.transport.abort()


@runs
async def test_a_durable_subscriber_that_never_reads_takes_no_memory_and_loses_nothing(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, **SMALL_LIMITS) as broker:
        subscribe = wire.control(wire.Subscribe(1, "all", "exists x", "kept"))
        _, writer = await raw(broker, hello("deaf"), subscribe)
        await until(lambda: "kept" in broker.node.durables)
        async with connect(broker.url) as client:
            await asyncio.gather(*(client.publish({"x": n, "pad": BIG}) for n in range(500)))
        assert most_waiting(broker) < 2_000_000
        writer.transport.abort()
        async with (
            connect(broker.url) as client,
            client.subscribe("exists x", durable="kept", id="all") as kept,
        ):
            for number in range(500):
                assert (await asyncio.wait_for(kept.get(), 10.0)).attributes["x"] == number


@runs
async def test_a_subscriber_that_publishes_for_each_delivery_does_not_wait_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "QUEUE", 50)
    async with (
        running() as broker,
        connect(broker.url) as source,
        connect(broker.url) as relay,
        relay.subscribe("exists x") as heard,
    ):
        for number in range(500):
            await source.publish({"x": number})
        await until(lambda: relay._intake.waiting > 50)
        for number in range(500):
            assert (await asyncio.wait_for(heard.get(), 10.0)).attributes["x"] == number
            await asyncio.wait_for(relay.publish({"y": number}), 10.0)


# -- many who are idle ---------------------------------------------------------------------------------------


@pytest.fixture
def many_files() -> Iterator[int]:
    """As many open files as are allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def idle(count: int, directory: Path) -> None:
    """The broker is a process of its own: each end of a connection is an open file."""
    broker = BrokerProcess("hub", directory, [])
    await broker.start()
    writers = []
    try:
        async with connect(broker.url, name="observer", patience=None) as observer:
            for number in range(count):
                _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
                writer.write(hello(f"idle{number}"))
                writers.append(writer)
            async with asyncio.timeout(120.0):
                while (await observer.status())["clients"] <= count:
                    await asyncio.sleep(0.05)
            async with observer.subscribe("fine = true") as fine:
                await observer.publish({"fine": True})
                assert (await asyncio.wait_for(fine.get(), 10.0)).attributes["fine"] is True
    finally:
        for writer in writers:
            writer.transport.abort()
        await broker.stop()


def test_a_thousand_idle_connections_hold_up_nobody(many_files: int, tmp_path: Path) -> None:
    asyncio.run(idle(1_000, tmp_path))


@pytest.mark.soak
def test_ten_thousand_idle_connections_hold_up_nobody(many_files: int, tmp_path: Path) -> None:
    assert many_files >= 10_100, "raise the hard limit of open files: ulimit -Hn"
    asyncio.run(idle(10_000, tmp_path))


@runs
async def test_one_client_too_many_is_told_so() -> None:
    async with running(clients=2) as broker:
        async with connect(broker.url), connect(broker.url):
            with pytest.raises(BrokerRefused, match="there are 2 clients already"):
                await connect(broker.url).open()
        await serves(broker)


@runs
async def test_who_comes_back_under_its_name_is_not_one_too_many() -> None:
    async with (
        running(clients=1) as broker,
        connect(broker.url, name="one"),
        connect(broker.url, name="one") as again,
    ):
        assert (await again.status())["clients"] == 1


@runs
async def test_connections_do_not_take_the_last_open_files_and_who_is_refused_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(files, "file_limits", lambda: (4, 4))
    async with running() as broker:
        async with connect(broker.url), connect(broker.url), connect(broker.url):
            for _ in range(2):
                with pytest.raises(
                    BrokerRefused, match="there are 3 connections already, as many as the system"
                ):
                    await connect(broker.url).open()
        await until(lambda: not broker.connections)
        await serves(broker)
    assert caplog.text.count("no more connections are taken") == 1


# -- clocks and disks ----------------------------------------------------------------------------------------


@runs
async def test_a_clock_that_goes_back_loses_nothing_and_changes_no_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10**15, 0, -(10**9)))
    monkeypatch.setattr(server, "micros", lambda: next(clock))
    async with running(tmp_path) as broker, connect(broker.url) as client:
        async with client.subscribe("exists x", durable="kept") as kept:
            for number in range(20):
                await client.publish({"x": number})
                assert (await asyncio.wait_for(kept.get(), 10.0)).attributes["x"] == number
        for number in range(20, 40):
            await client.publish({"x": number})
        async with client.subscribe("exists x", durable="kept") as kept:
            got = [(await asyncio.wait_for(kept.get(), 10.0)).attributes["x"] for _ in range(20)]
        assert got == list(range(20, 40))
        async with client.subscribe("x >= 39", since=0) as past:
            assert (await asyncio.wait_for(past.get(), 10.0)).attributes["x"] == 39


class SmallDisk(Disk):
    """A disk that has no room while it is `full`; what is there can be written over."""

    full = False

    def write(self, file: int, raw: bytes | memoryview, position: int) -> int:
        if self.full and position + len(raw) > self.size(file):
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().write(file, raw, position)


@runs
async def test_a_full_disk_refuses_publications_with_the_reason_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SmallDisk()
    monkeypatch.setattr(server, "Ledger", partial(Ledger, disk=disk))
    async with (
        running(tmp_path) as broker,
        connect(broker.url, name="p") as client,
        connect(broker.url, name="s") as other,
        other.subscribe("exists x", durable="kept") as kept,
        other.subscribe("exists y") as live,
    ):
        await client.publish({"x": 1})
        disk.full = True
        twice = Notification.of({"x": 2, "producer": "p", "id": "twice"})
        for _ in range(3):
            with pytest.raises(BrokerRefused, match="no room for the log: no space left on device"):
                await client.publish(twice)
        await other.send({"y": 1})  # what is not logged goes on
        assert (await asyncio.wait_for(live.get(), 10.0)).attributes["y"] == 1
        late = asyncio.ensure_future(other.subscribe("x = 3", durable="late").installed())
        disk.full = False
        await client.publish(twice)
        await asyncio.wait_for(late, 10.0)
        await client.publish({"x": 3})
        got = [(await asyncio.wait_for(kept.get(), 10.0)).attributes["x"] for _ in range(3)]
        assert got == [1, 2, 3]
    assert "there is no room for the log" in caplog.text


class FewFiles(Disk):
    """A disk on which nothing can be made while there are too `many` open files."""

    many = False

    def create(self, path: str) -> int:
        if self.many:
            raise OSError(errno.EMFILE, "too many open files")
        return super().create(path)


@runs
async def test_a_broker_that_may_open_no_more_files_goes_on_with_those_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FewFiles()
    monkeypatch.setattr(server, "Ledger", partial(Ledger, disk=disk, segment_bytes=1_000))
    async with running(tmp_path) as broker, connect(broker.url, name="p") as client:
        async with client.subscribe("exists x", durable="kept") as kept:
            for many in (False, True, False):
                before, disk.many = len([*tmp_path.rglob("*.log")]), many
                for number in range(20):
                    await client.publish({"x": number, "blob": "z" * 200})
                    assert (await asyncio.wait_for(kept.get(), 10.0)).attributes["x"] == number
                assert (len([*tmp_path.rglob("*.log")]) == before) is many
        assert not broker.failure.done()


@runs
async def test_a_broker_that_cannot_be_reached_is_an_error_after_a_while() -> None:
    with pytest.raises(ConnectionEnded, match="cannot be reached"):
        await connect("fairlead://127.0.0.1:9", patience=0.1).open()
