"""The packets of MQTT 5 and of MQTT 3.1.1 as bytes, and back.

The library `mqtt5` reads and writes packets of version 5. A packet of 3.1.1 is one of version 5 without properties
and reasons: on the way in, empty properties are inserted, and on the way out they are taken away. What the library
leaves open is checked here, before it sees a packet: that texts are UTF-8 without null characters, and that what
3.1.1 reserves is as it has to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, TypeAlias

import mqtt5

from fairlead.errors import ProtocolError

__all__ = ["FIVE", "THREE", "Kind", "Malformed", "Packet", "Reader", "TooLarge", "encode"]

THREE, FIVE = 4, 5
"""The protocol levels of MQTT 3.1.1 and of MQTT 5."""
Packet: TypeAlias = mqtt5.Packet
LENGTH_BYTES: Final = 4
"""The most bytes of a packet's length."""
FAILURE: Final = 0x80
"""The one reason of 3.1.1 for a subscription that is refused; reasons from here on are refusals."""


class Kind(IntEnum):
    """The kinds of packets."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class Malformed(ProtocolError):
    """Bytes that are no packet of the protocol."""


class TooLarge(ProtocolError):
    """A packet that is longer than is taken."""


class UnknownVersion(ProtocolError):
    """A connection of a version of the protocol that is not spoken."""


RETURN_CODES: Final = {
    0x84: 1,  # the version
    0x85: 2,  # the client id
    0x88: 3,  # unavailable
    0x89: 3,
    0x86: 4,  # user name or password
    0x8C: 4,
    0x87: 5,  # not authorized
    0x8A: 5,
}
"""The return codes of 3.1.1 for the reasons of version 5."""
FLAGS: Final = {Kind.PUBREL: 2, Kind.SUBSCRIBE: 2, Kind.UNSUBSCRIBE: 2}
"""The fixed flags of packets, where they are not 0."""
ACKNOWLEDGEMENTS: Final = (Kind.PUBACK, Kind.PUBREC, Kind.PUBREL, Kind.PUBCOMP)
FROM_CLIENTS: Final = (
    *(Kind.CONNECT, Kind.PUBLISH, *ACKNOWLEDGEMENTS, Kind.SUBSCRIBE, Kind.UNSUBSCRIBE, Kind.PINGREQ),
    *(Kind.DISCONNECT, Kind.AUTH),
)


class Reader:
    """Splits the bytes of a client into packets. The first one says which version the client speaks."""

    def __init__(self, bytes_max: int) -> None:
        self.version = 0
        """The version that the client speaks; 0: it has not said."""
        self._bytes_max = bytes_max
        self._buffer = bytearray()

    @property
    def waiting(self) -> int:
        """The number of bytes of packets that are not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[Packet]:
        """The packets that are whole now. Malformed or TooLarge."""
        buffer = self._buffer
        buffer += data
        while buffer:
            head = _length(buffer)
            if head is None:
                return
            begin, length = head
            if length > self._bytes_max:
                raise TooLarge(f"a packet of {length:,} bytes; {self._bytes_max:,} are taken")
            end = begin + length
            if len(buffer) < end:
                return
            first, body = buffer[0], bytes(buffer[begin:end])
            del buffer[:end]
            yield self._packet(first, body)

    def _packet(self, first: int, body: bytes) -> Packet:
        kind, flags = first >> 4, first & 15
        if kind not in FROM_CLIENTS:
            raise Malformed(f"clients do not send packets of the kind {kind}")
        if kind != Kind.PUBLISH and flags != FLAGS.get(Kind(kind), 0):
            raise Malformed("reserved flags are set")
        if not self.version and kind != Kind.CONNECT:
            raise Malformed("a connection begins with CONNECT")
        try:
            self.version = self.version or _version(body)
            if self.version == THREE:
                body = _as_five(Kind(kind), flags, body)
            if not body.isascii():
                _check_texts(Kind(kind), flags, body)
            packet, _ = mqtt5.read(memoryview(bytes((first,)) + _varint(len(body)) + body))
        except (IndexError, ValueError) as error:
            raise Malformed(f"a packet that cannot be read: {error}") from None
        _check(packet)
        return packet


def encode(packet: Packet, version: int) -> bytes:
    """The bytes of a packet to a client."""
    if version == FIVE:
        return packet.write()
    match packet:
        case mqtt5.ConnAckPacket():
            code = int(packet.reason_code)
            is_present = packet.session_present and not code
            return bytes((Kind.CONNACK << 4, 2, is_present, RETURN_CODES.get(code, 5 if code else 0)))
        case mqtt5.SubAckPacket():
            codes = bytes(min(int(each), FAILURE) for each in packet.reason_codes)
            head = bytes((Kind.SUBACK << 4,)) + _varint(2 + len(codes))
            return head + packet.packet_id.to_bytes(2, "big") + codes
        case mqtt5.UnsubAckPacket():
            return bytes((Kind.UNSUBACK << 4, 2)) + packet.packet_id.to_bytes(2, "big")
        case mqtt5.PublishPacket():
            return _without_properties(packet)
        case mqtt5.PubAckPacket() | mqtt5.PubRecPacket() | mqtt5.PubRelPacket() | mqtt5.PubCompPacket():
            kind = _KIND_OF[type(packet)]
            return bytes((kind << 4 | FLAGS.get(kind, 0), 2)) + packet.packet_id.to_bytes(2, "big")
        case mqtt5.PingRespPacket():
            return packet.write()
    return b""  # nothing else is said to clients of 3.1.1


_KIND_OF: Final = {
    mqtt5.PubAckPacket: Kind.PUBACK,
    mqtt5.PubRecPacket: Kind.PUBREC,
    mqtt5.PubRelPacket: Kind.PUBREL,
    mqtt5.PubCompPacket: Kind.PUBCOMP,
}


def _without_properties(packet: mqtt5.PublishPacket) -> bytes:
    topic, qos = packet.topic.encode(), int(packet.qos)
    first = Kind.PUBLISH << 4 | packet.duplicate << 3 | qos << 1 | packet.retain
    id = packet.packet_id.to_bytes(2, "big") if qos and packet.packet_id is not None else b""
    size = 2 + len(topic) + len(id) + len(packet.payload)
    head = bytes((first,)) + _varint(size) + len(topic).to_bytes(2, "big")
    return b"".join((head, topic, id, packet.payload))


# -- lengths ---------------------------------------------------------------------------------------------------


def _length(buffer: bytearray) -> tuple[int, int] | None:
    """The place where the body of a packet begins, and its length; None: that has not come yet."""
    length = 0
    for index, byte in enumerate(buffer[1 : 1 + LENGTH_BYTES]):
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return index + 2, length
    if len(buffer) > LENGTH_BYTES:
        raise Malformed("a length of more than four bytes")
    return None


def _varint(number: int) -> bytes:
    parts = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        parts.append(low | (0x80 if number else 0))
        if not number:
            return bytes(parts)


# -- what both versions have in common -------------------------------------------------------------------------


def _version(body: bytes) -> int:
    """The version in the body of CONNECT."""
    fields = _Fields(body)
    name, version = fields.binary(), fields.byte()
    if name != b"MQTT" or version not in (THREE, FIVE):
        raise UnknownVersion("MQTT 3.1.1 and MQTT 5 are spoken here")
    return version


def _check(packet: Packet) -> None:
    """Refuse what the library takes, and the protocol does not allow. Malformed."""
    match packet:
        case mqtt5.PublishPacket():
            if "\0" in packet.topic:
                raise Malformed("a topic has no null characters")
            if int(packet.qos) and not packet.packet_id:  # the enumeration is true in any case
                raise Malformed("a packet id is not 0")
        case mqtt5.SubscribePacket():
            texts = [each.pattern for each in packet.topic_filters]
            if not texts or not packet.packet_id or packet.subscription_id == 0:
                raise Malformed("a subscription has topic filters, and ids that are not 0")
        case mqtt5.UnsubscribePacket():
            if not packet.patterns or not packet.packet_id:
                raise Malformed("an unsubscription has topic filters, and an id that is not 0")


class _Fields:
    """The fields of a body, one after the other. IndexError where it ends before."""

    def __init__(self, body: bytes, at: int = 0) -> None:
        self.body, self.at = body, at

    @property
    def is_over(self) -> bool:
        return self.at >= len(self.body)

    def byte(self) -> int:
        self.at += 1
        return self.body[self.at - 1]

    def skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self.body):
            raise IndexError("it ends too early")

    def binary(self) -> bytes:
        begin = self.at + 2
        self.skip(2)
        length = int.from_bytes(self.body[begin - 2 : begin], "big")
        self.skip(length)
        return self.body[begin : begin + length]

    def text(self) -> str:
        read = self.binary().decode()  # UnicodeDecodeError is a ValueError
        if "\0" in read:
            raise Malformed("a text has no null characters")
        return read

    def varint(self) -> int:
        number = 0
        for index in range(LENGTH_BYTES):
            byte = self.byte()
            number |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return number
        raise Malformed("a number of more than four bytes")

    def properties(self) -> None:
        """Read past properties, and check the texts among them."""
        end = self.varint() + self.at
        while self.at < end:
            name = self.varint()
            form = PROPERTIES.get(name)
            if form is None:
                raise Malformed(f"there is no property {name}")
            for each in form:
                if each == "t":
                    self.text()
                elif each == "b":
                    self.binary()
                elif each == "v":
                    self.varint()
                else:
                    self.skip(int(each))


PROPERTIES: Final = {
    **dict.fromkeys((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A), "1"),
    **dict.fromkeys((0x13, 0x21, 0x22, 0x23), "2"),
    **dict.fromkeys((0x02, 0x11, 0x18, 0x27), "4"),
    **dict.fromkeys((0x03, 0x08, 0x12, 0x15, 0x1A, 0x1C, 0x1F), "t"),
    **dict.fromkeys((0x09, 0x16), "b"),
    0x0B: "v",
    0x26: "tt",
}
"""The forms of properties (MQTT 5, 2.2.2.2): so many bytes, a text, bytes, or a number of variable length."""


def _check_texts(kind: Kind, flags: int, body: bytes) -> None:
    """Read past the texts of a packet. UnicodeDecodeError or Malformed where one is none: the library has no
    answer to that."""
    fields = _Fields(body)
    if kind == Kind.CONNECT:
        fields.binary()
        fields.skip(1)
        connect = fields.byte()
        fields.skip(2)
        fields.properties()
        fields.text()
        if connect & 4:
            fields.properties()
            fields.text()
            fields.binary()
        if connect & 0x80:
            fields.text()
    elif kind == Kind.PUBLISH:
        fields.text()
        if flags & 6:
            fields.skip(2)
        fields.properties()
    elif kind in (Kind.SUBSCRIBE, Kind.UNSUBSCRIBE):
        fields.skip(2)
        fields.properties()
        while not fields.is_over:
            fields.text()
            fields.skip(kind == Kind.SUBSCRIBE)
    else:
        fields.skip(1 + 2 * (kind in ACKNOWLEDGEMENTS))
        fields.properties()


# -- 3.1.1 -----------------------------------------------------------------------------------------------------


def _as_five(kind: Kind, flags: int, body: bytes) -> bytes:
    """The body of a packet of 3.1.1 as one of version 5: with empty properties."""
    if kind == Kind.CONNECT:
        return _connect_as_five(body)
    if kind == Kind.PUBLISH:
        fields = _Fields(body)
        fields.binary()
        fields.skip(2 if flags & 6 else 0)
        return b"".join((body[: fields.at], b"\0", body[fields.at :]))
    if kind in (Kind.SUBSCRIBE, Kind.UNSUBSCRIBE):
        if kind == Kind.SUBSCRIBE:
            _check_options(body)
        return b"".join((body[:2], b"\0", body[2:]))
    if kind in ACKNOWLEDGEMENTS and len(body) == 2:
        return body
    if kind in (Kind.PINGREQ, Kind.DISCONNECT) and not body:
        return body
    raise Malformed("a packet of MQTT 3.1.1 has no reasons and no properties")


def _connect_as_five(body: bytes) -> bytes:
    fields = _Fields(body)
    fields.binary()
    fields.skip(1)
    flags = fields.byte()
    fields.skip(2)
    head = fields.at
    fields.binary()
    if flags & 0x40 and not flags & 0x80:
        raise Malformed("a password without a user name")
    if flags & 4:
        will = fields.at
        parts = [body[:head], b"\0", body[head:will], b"\0", body[will:]]
    else:
        parts = [body[:head], b"\0", body[head:]]
    made = bytearray(b"".join(parts))
    made[6] = FIVE
    return bytes(made)


def _check_options(body: bytes) -> None:
    fields = _Fields(body, 2)
    while not fields.is_over:
        fields.binary()
        if fields.byte() > 2:
            raise Malformed("reserved bits of a subscription are set")
