"""`/events/ws`: a WebSocket on which the client accepts and rejects, and the protocol under it."""

from __future__ import annotations

import contextlib
import itertools
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.console.websockets import Broken, Messages

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
        assert socket.hear() == first
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
def test_a_message_that_means_nothing_ends_the_conversation_with_the_reason(broker: Any, said: Any) -> None:
    with broker.socket("true") as socket:
        socket.say(said)
        frame = socket.frame()
        assert code(frame) == 1008
        assert len(frame[1]) > 10
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
        (b"\x88\x80\0\0\0\0", 1000),  # a goodbye is answered
        (b"\x88\x82\0\0\0\0\x03\xe9", 1001),
    ],
)
def test_bytes_that_are_no_message_close_the_connection_with_the_code_for_it(
    broker: Any, raw: bytes, expected: int
) -> None:
    with broker.socket("true") as socket:
        socket.raw(raw)
        assert code(socket.frame()) == expected
        assert socket.frame() == (0, b"")


def test_a_ping_is_answered(broker: Any, masking: Callable[..., bytes]) -> None:
    with broker.socket("true") as socket:
        socket.raw(masking(PING, b"there?"))
        assert socket.frame() == (PONG, b"there?")


def test_a_client_that_is_silent_is_asked_and_then_gone(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.console.websockets.BEAT_S", 0.01)
    with broker.socket("true") as socket:
        assert socket.frame() == (PING, b"")
        with contextlib.suppress(ConnectionResetError):
            assert socket.frame() == (0, b"")


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


# -- the protocol ----------------------------------------------------------------------------------------------


@given(
    messages=st.lists(st.tuples(st.sampled_from([TEXT, BINARY]), st.binary(max_size=200)), max_size=4),
    data=st.data(),
)
def test_messages_come_out_as_they_went_in_however_they_are_cut(
    messages: list[tuple[int, bytes]], data: st.DataObject, masking: Callable[..., bytes]
) -> None:
    raw, expected = b"", []
    for opcode, payload in messages:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(payload)), max_size=3)))
        edges = [0, *cuts, len(payload)]
        for index, (start, end) in enumerate(itertools.pairwise(edges)):
            mask = data.draw(st.sampled_from([b"\0\0\0\0", b"\x01\x02\x03\x04", b"\xff\x80\x7f\x00"]))
            final = index == len(edges) - 2
            raw += masking(opcode if not index else 0, payload[start:end], mask, final=final)
            if not final and data.draw(st.booleans()):  # a control frame may come between
                raw += masking(PING, b"?", mask)
                expected.append((PING, b"?"))
        expected.append((opcode, payload))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    reader = Messages()
    found = [
        each
        for start, end in itertools.pairwise([0, *cuts, len(raw)])
        for each in reader.feed(raw[start:end])
    ]
    assert found == expected


@given(st.binary(max_size=200))
def test_garbage_is_at_most_broken(raw: bytes) -> None:
    with contextlib.suppress(Broken):
        for opcode, payload in Messages(100).feed(raw):
            assert opcode in (TEXT, BINARY, CLOSE, PING, PONG)
            assert len(payload) <= 125


def test_a_message_in_pieces_may_not_grow_beyond_the_limit(masking: Callable[..., bytes]) -> None:
    reader = Messages(100)
    assert list(reader.feed(masking(TEXT, b"x" * 60, final=False))) == []
    with pytest.raises(Broken) as caught:
        list(reader.feed(masking(0, b"x" * 60)))
    assert caught.value.code == 1009
