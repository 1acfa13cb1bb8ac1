"""Packets of both versions are the same packets, and bytes that are none end the connection that they came on."""

from __future__ import annotations

import struct
from typing import Any

import mqtt5
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.errors import ProtocolError
from fairlead.mqtt.codec import FIVE, THREE, Kind, Malformed, Reader, TooLarge, encode

CONNECT_FIVE = mqtt5.ConnectPacket("c").write()
texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=20)
topics = texts.map(lambda text: text.replace("+", "").replace("#", "")).filter(bool)
binaries = st.binary(max_size=20)
ids = st.integers(1, 65_535)


def string(text: str | bytes) -> bytes:
    given = text.encode() if isinstance(text, str) else text
    return struct.pack(">H", len(given)) + given


def packet(first: int, body: bytes) -> bytes:
    assert len(body) < 16_384
    length = bytes([len(body)]) if len(body) < 128 else bytes([len(body) & 127 | 128, len(body) >> 7])
    return bytes([first]) + length + body


def three(client: str = "c", flags: int = 2, rest: bytes = b"") -> bytes:
    return packet(0x10, string("MQTT") + bytes([4, flags]) + struct.pack(">H", 60) + string(client) + rest)


def reader(connect: bytes, bytes_max: int = 1 << 16) -> Reader:
    made = Reader(bytes_max)
    assert len([*made.feed(connect)]) == 1
    return made


@given(st.tuples(texts, texts, binaries, texts, binaries), st.integers(0, 2), st.booleans())
def test_a_client_of_3_1_1_connects_as_one_of_5(fields: tuple[Any, ...], qos: int, retain: bool) -> None:
    client, topic, will, user, password = fields
    flags = 0xC6 | qos << 3 | retain << 5
    [read] = Reader(1 << 16).feed(
        three(client, flags, string(topic) + string(will) + string(user) + string(password))
    )
    assert isinstance(read, mqtt5.ConnectPacket)
    assert (read.client_id, read.username, read.password, read.keep_alive) == (client, user, password, 60)
    assert read.will is not None
    assert (read.will.topic, read.will.payload or b"", int(read.will.qos), read.will.retain) == (
        *(topic, will, qos, retain),
    )


@given(st.tuples(topics, binaries), st.integers(0, 2), ids, st.booleans(), st.booleans())
def test_a_message_is_the_same_in_either_version(
    fields: tuple[str, bytes], qos: int, id: int, retain: bool, again: bool
) -> None:
    topic, payload = fields
    made = mqtt5.PublishPacket(
        *(topic, payload),
        qos=mqtt5.QoS(qos),
        packet_id=id if qos else None,
        retain=retain,
        duplicate=again and bool(qos),
    )
    for connect, version in ((CONNECT_FIVE, FIVE), (three(), THREE)):
        [read] = reader(connect).feed(encode(made, version))
        assert isinstance(read, mqtt5.PublishPacket)
        for name in ("topic", "payload", "qos", "packet_id", "retain", "duplicate"):
            assert getattr(read, name) == getattr(made, name)


def test_what_the_broker_says_to_a_client_of_3_1_1_has_no_properties() -> None:
    cases: list[tuple[Any, bytes]] = [
        (mqtt5.ConnAckPacket(session_present=True, receive_max=7), b"\x20\x02\x01\x00"),
        (mqtt5.ConnAckPacket(reason_code=mqtt5.ConnAckReasonCode.NOT_AUTHORIZED), b"\x20\x02\x00\x05"),
        (mqtt5.PubAckPacket(258), b"\x40\x02\x01\x02"),
        (mqtt5.PubRelPacket(258), b"\x62\x02\x01\x02"),
        (
            mqtt5.SubAckPacket(1, [mqtt5.SubAckReasonCode(2), mqtt5.SubAckReasonCode(0x8F)]),
            b"\x90\x04\x00\x01\x02\x80",
        ),
        (mqtt5.UnsubAckPacket(1, [mqtt5.UnsubAckReasonCode.NO_SUBSCRIPTION_EXISTED]), b"\xb0\x02\x00\x01"),
        (mqtt5.PingRespPacket(), b"\xd0\x00"),
        (mqtt5.DisconnectPacket(), b""),
    ]
    for made, expected in cases:
        assert encode(made, THREE) == expected


@given(st.data(), st.binary(max_size=60))
@example(None, b"\x30\x05\x00\x02\xff\xfe\x00")
@example(None, b"\x30\x04\x00\x01a\x01")
@example(None, b"\x82\x08\x00\x01\x00\x00\x02\xff\xfe\x00")
@example(None, b"\x10\x0e\x00\x04MQTT\x05\xff\xff\xff\xff\xff\xff\xff")
@example(None, b"\xe0\x06\x00\x04\x1f\x00\x02\xff\xff")
def test_bytes_that_are_no_packet_are_a_protocol_error_and_nothing_else(data: Any, noise: bytes) -> None:
    for connect in (b"", CONNECT_FIVE, three()):
        whole = connect + noise
        if data is not None:
            cut = data.draw(st.integers(0, len(whole)))
            whole = whole[:cut] + data.draw(st.binary(max_size=3)) + whole[cut:]
        try:
            read = Reader(1 << 12)
            for index in range(len(whole)):
                [*read.feed(whole[index : index + 1])]
        except ProtocolError:
            pass


@pytest.mark.parametrize(
    "wrong",
    [
        packet(0x30, string("a")[:2]),
        packet(0x32, string("a") + b"\0\0"),  # a packet id of 0
        packet(0x36, string("a") + b"\0\1"),  # QoS 3
        packet(0x80, b"\0\1" + string("a") + b"\0"),  # without its fixed flags
        packet(0x82, b"\0\1" + string("a") + b"\3"),
        packet(0x82, b"\0\1"),
        packet(0x30, string("a\0b")),
        packet(0x30, string(b"\xff")),
        packet(0xC0, b"x"),
        packet(0x20, b"\0\0"),  # a packet of servers
    ],
    ids=lambda each: each.hex(),
)
def test_what_3_1_1_does_not_allow_is_malformed(wrong: bytes) -> None:
    with pytest.raises(Malformed):
        [*reader(three()).feed(wrong)]


def test_a_packet_beyond_the_maximum_is_refused_by_its_length_alone() -> None:
    with pytest.raises(TooLarge):
        [*reader(CONNECT_FIVE, 100).feed(bytes([Kind.PUBLISH << 4, 0xFF, 0x7F]))]


def test_packets_come_in_any_pieces() -> None:
    made = b"".join(mqtt5.PublishPacket(f"t/{each}", bytes(each)).write() for each in range(200))
    read = reader(CONNECT_FIVE)
    topics = [each.topic for index in range(0, len(made), 7) for each in read.feed(made[index : index + 7])]  # type: ignore[union-attr]
    assert topics == [f"t/{each}" for each in range(200)]
    assert read.waiting == 0
