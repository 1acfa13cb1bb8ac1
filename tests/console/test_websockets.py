"""`/events/ws`: a WebSocket on which the client accepts and rejects, and the protocol under it."""

from __future__ import annotations

import contextlib
import itertools
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from fairlead.console import HttpLimits
from fairlead.network.settings import Limits

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def publish(broker: Any, topic: str, *numbers: int) -> None:
    assert broker.publish([{"topic": topic, "n": n} for n in numbers]).json["accepted"] == len(numbers)


def number(message: Any) -> int:
    found: int = message["event"]["data"]["n"]
    return found


def code(frame: tuple[int, bytes]) -> int:
    assert frame[0] == CLOSE
    found: int
    [found] = struct.unpack(">H", frame[1][:2])
    return found


def test_the_handshake_proves_that_the_request_was_understood(broker: Any) -> None:
    with broker.socket("true", headers={"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}) as socket:
        assert socket.status == 101
        assert (
            socket.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        )  # the RFC's own example


@pytest.mark.parametrize("access", [False, True])
def test_who_connects_is_logged_where_there_is_an_access_log(
    access: bool, started: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    broker = started(access_log=access)
    with broker.socket("true") as socket:
        assert socket.status == 101
    broker.ask("GET", "/healthz")
    logged = [record.getMessage() for record in caplog.records]
    for what in ("WebSocket /events/ws", "GET /healthz"):
        assert any(what in message for message in logged) is access


def test_events_come_as_cloud_events_with_their_places(broker: Any) -> None:
    with broker.socket('topic = "ws"') as socket:
        publish(broker, "ws", 1, 2)
        first, second = socket.hear(), socket.hear()
        assert (number(first), number(second)) == (1, 2)
        assert first["event"]["specversion"] == "1.0"
    with broker.socket('topic = "ws"', after=first["id"]) as socket:
        assert number(socket.hear()) == 2


def test_what_was_accepted_does_not_come_again_and_what_was_not_does(broker: Any) -> None:
    query = {"filter": 'topic = "accept"', "durable": "ws-accept"}
    with broker.socket(**query) as socket:
        publish(broker, "accept", 1, 2, 3, 4)
        ids = [socket.hear()["id"] for _ in range(4)]
        socket.say({"accept": ids[0]})
        socket.say({"accept": [ids[1], ids[2]]})
        broker.until(lambda: len(broker.server.node.durables["ws-accept"].unconfirmed) == 1)
    with broker.socket(**query) as socket:
        assert number(socket.hear()) == 4


def test_what_was_rejected_comes_again_or_is_done_with(broker: Any) -> None:
    with broker.socket('topic = "reject"', durable="ws-reject") as socket:
        publish(broker, "reject", 1, 2)
        first, second = socket.hear(), socket.hear()
        socket.say({"reject": first["id"], "again": True})
        assert socket.hear() == {**first, "attempt": 2}
        socket.say({"reject": second["id"]})
        socket.say({"accept": first["id"]})
        broker.until(lambda: not broker.server.node.durables["ws-reject"].unconfirmed)


@pytest.mark.parametrize(
    "said",
    [
        [],
        {"accept": 3},
        {"accept": ["1-00000000"]},
        {"accept": "nonsense"},
        {"reject": "1-0", "again": True, "more": 1},
        "what",
    ],
)
def test_a_message_that_means_nothing_ends_the_conversation_with_the_reason(
    broker: Any, said: Any, masking: Callable[..., bytes]
) -> None:
    with broker.socket("true") as socket:
        socket.say(said)
        frame = socket.frame()
        assert code(frame) == 1008
        assert len(frame[1]) > 10
        socket.raw(masking(CLOSE, frame[1][:2]))
        assert socket.frame() == (0, b"")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"\x81\x00", 1002),  # not masked
        (b"\xc1\x80\0\0\0\0", 1002),  # a reserved bit
        (b"\x83\x80\0\0\0\0", 1002),  # an unknown opcode
        (b"\x80\x80\0\0\0\0", 1002),  # goes on without having begun
        (b"\x09\x80\0\0\0\0", 1002),  # a ping in pieces
        (b"\x01\x80\0\0\0\0\x81\x80\0\0\0\0", 1002),  # begins within another
        (b"\x88\x81\0\0\0\0\x03", 1002),  # half a code
        (b"\x88\x82\0\0\0\0\x03\xed", 1002),  # a code that nobody sends: 1005
        (b"\x81\x81\0\0\0\0\xff", 1007),  # not UTF-8
        (b"\x81\xff" + (1 << 40).to_bytes(8), 1009),  # too long
        (b"\x82\x80\0\0\0\0", 1008),  # bytes, which mean nothing here
        (b"\x88\x82\0\0\0\0\x03\xe9", 1001),
    ],
)
def test_bytes_that_are_no_message_close_the_connection_with_the_code_for_it(
    broker: Any, raw: bytes, expected: int, masking: Callable[..., bytes]
) -> None:
    with broker.socket("true") as socket:
        socket.raw(raw)
        frame = socket.frame()
        assert code(frame) == expected
        if expected == 1008:  # closed by the gateway, which waits for the goodbye of the client
            socket.raw(masking(CLOSE, frame[1][:2]))
        assert socket.frame() == (0, b"")


def test_a_goodbye_without_a_code_is_answered_without_one(broker: Any) -> None:
    with broker.socket("true") as socket:
        socket.raw(b"\x88\x80\0\0\0\0")
        assert socket.frame() == (CLOSE, b"")
        assert socket.frame() == (0, b"")


def test_a_ping_is_answered(broker: Any, masking: Callable[..., bytes]) -> None:
    with broker.socket("true") as socket:
        socket.raw(masking(PING, b"there?"))
        assert socket.frame() == (PONG, b"there?")


def test_a_client_that_is_silent_is_asked_and_then_gone(started: Callable[..., Any]) -> None:
    broker = started(HttpLimits(ping_s=0.01))
    with broker.socket("true") as socket:
        opcode, payload = socket.frame()
        assert (opcode, len(payload)) == (PING, 4)
        while (frame := socket.frame())[0] == PING:
            pass
        assert code(frame) == 1011
        with contextlib.suppress(ConnectionResetError):
            assert socket.frame() == (0, b"")


def test_a_client_that_responds_stays(started: Callable[..., Any], masking: Callable[..., bytes]) -> None:
    broker = started(HttpLimits(ping_s=0.05))
    with broker.socket("true") as socket:
        for _ in range(5):
            opcode, payload = socket.frame()
            assert opcode == PING
            socket.raw(masking(PONG, payload))


def test_a_client_that_does_not_read_gets_no_pongs(
    broker: Any, masking: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pongs that nobody reads would pile up in the broker."""
    connections: list[Any] = []
    connect = WebSocketsSansIOProtocol.handle_connect
    monkeypatch.setattr(
        WebSocketsSansIOProtocol,
        "handle_connect",
        lambda self, event: (connections.append(self), connect(self, event)),
    )
    with broker.socket('topic = "unread"', durable="ws-unread") as socket:
        [connection] = connections
        publish(broker, "unread", 1, 2)
        first = socket.hear()
        assert number(socket.hear()) == 2
        broker.do(connection.pause_writing)
        socket.raw(masking(PING, b"first"))
        socket.say({"accept": first["id"]})
        broker.until(lambda: len(broker.server.node.durables["ws-unread"].unconfirmed) == 1)
        broker.do(connection.resume_writing)
        socket.raw(masking(PING, b"second"))
        assert socket.frame() == (PONG, b"second")


def test_a_large_event_comes_whole(broker: Any) -> None:
    with broker.socket('topic = "large"') as socket:
        for size in (200, 70_000):
            broker.publish({"topic": "large", "filling": "é" * size})
            assert len(socket.hear()["event"]["data"]["filling"]) == size


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Sec-WebSocket-Key": "short"}, 400),
        ({"Origin": "https://elsewhere.example"}, 403),
    ],
)
def test_a_request_that_is_not_for_us_gets_no_socket(
    broker: Any, headers: dict[str, str], status: int
) -> None:
    with broker.socket("true", headers=headers) as socket:
        assert socket.status == status


def test_a_page_of_this_very_host_gets_one(broker: Any) -> None:
    with broker.socket("true", headers={"Origin": f"http://127.0.0.1:{broker.port}"}) as socket:
        assert socket.status == 101


def test_a_durable_subscriber_has_no_place_to_go_back_to(broker: Any) -> None:
    with broker.socket("true", durable="d", after="1-00000000") as socket:
        assert (socket.status, json.loads(socket.body)["status"]) == (400, 400)


def test_there_is_no_socket_elsewhere(broker: Any) -> None:
    with broker.socket("true", headers={}) as socket:
        assert socket.status == 101
    assert broker.ask("GET", "/events/ws?filter=true").status == 426


# -- messages in pieces ----------------------------------------------------------------------------------------


@settings(max_examples=settings.default.max_examples // 4)
@given(data=st.data())
def test_a_message_is_understood_however_it_is_cut(
    data: st.DataObject, broker: Any, masking: Callable[..., bytes]
) -> None:
    """Fragments, control frames between them, and any chunks: the reply is the one to the whole message."""
    payload = json.dumps({"accept": "nönsense"}, ensure_ascii=False).encode()
    edges = [0, *sorted(data.draw(st.lists(st.integers(0, len(payload)), max_size=3))), len(payload)]
    raw, pings = b"", 0
    for index, (start, end) in enumerate(itertools.pairwise(edges)):
        mask = data.draw(st.sampled_from([b"\0\0\0\0", b"\x01\x02\x03\x04", b"\xff\x80\x7f\x00"]))
        final = index == len(edges) - 2
        raw += masking(0 if index else TEXT, payload[start:end], mask, final=final)
        if not final and data.draw(st.booleans()):
            raw += masking(PING, b"?", mask)
            pings += 1
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6))), len(raw)]
    with broker.socket("true") as socket:
        for start, end in itertools.pairwise(cuts):
            socket.raw(raw[start:end])
        assert [socket.frame() for _ in range(pings)] == [(PONG, b"?")] * pings
        frame = socket.frame()
        assert code(frame) == 1008
        assert "no event has the id 'nönsense'" in frame[1][2:].decode()


@settings(max_examples=settings.default.max_examples // 4)
@given(st.binary(max_size=200))
def test_garbage_ends_at_most_its_own_connection(broker: Any, raw: bytes) -> None:
    with broker.socket("true") as socket:
        socket.raw(raw)
    assert broker.ask("GET", "/healthz").status == 200


def test_a_message_in_pieces_may_not_grow_beyond_the_limit(
    started: Callable[..., Any], masking: Callable[..., bytes]
) -> None:
    broker = started(HttpLimits(message_bytes=100))
    with broker.socket("true") as socket:
        socket.raw(masking(TEXT, b"x" * 60, final=False))
        socket.raw(masking(0, b"x" * 60))
        assert code(socket.frame()) == 1009


def test_a_websocket_that_reads_nothing_is_ended_when_memory_is_used_up(started: Any) -> None:
    budget = 8 << 20
    broker = started(limits=Limits(memory_bytes=budget))
    sockets = [broker.socket("true", policy="drop") for _ in range(5)]  # and nobody reads
    for n in range(60):
        assert broker.publish({"n": n, "pad": "z" * 500_000}).status == 202
    broker.until(lambda: broker.server.node.memory.ended >= 2)
    assert broker.server.node.memory.peak <= 2 * budget
    assert broker.ask("GET", "/readyz").status == 200
    for each in sockets:
        each.close()
