"""The bytes between brokers and clients: frames, each with a length and a kind.

    u32     length of what follows, from 1 to the limit that the receiver has set
    u8      kind
    ...     by kind

Integers are little-endian. The kinds that carry notifications have a layout of their own, so that a broker
can pass on the packed notification (`model.packed`) as it came:

    1  publish   u64 number (0: no answer is wanted), the notification
    2  deliver   u64 place (0: best effort), u32 length, a MessagePack array of the subscriptions' ids, the
                 notification
    3  relay     u64 place (0: best effort), the notification
    4  stored    u64 number: all publications of this connection up to it are safe, but those refused before
    5  part      the beginning of a message that is too long for one frame; it goes on in the next one
    6  relays    a MessagePack array (of the longest form, however few they are) of notifications, best effort
    7  checked   u32 CRC-32 of what follows: a piece of the stream of frames, of any other kind

Brokers send one another nothing but frames of kind 7. A frame of the stream inside may begin in one of them and
end in another. A piece whose CRC is wrong ends the connection before any of its frames is read: a bit that flips
between brokers changes nothing. Clients may send such frames, and are not sent any.

A place is where the notification stands in the sender's log, counted from 1. A packed notification is itself
a MessagePack array, so that an array of several is those, one behind the other; one that is JSON text goes alone.

Kind 0 is everything else: a MessagePack array with the name of a message first. Between brokers it may be longer
than a frame: then all frames but its last are of kind 5. A connection begins with Hello, which names the version
of the protocol, and is answered by Welcome or Bye; after that either side may send what is its to send.

What is not a frame of this version closes the connection, with a Bye that says why: `ProtocolError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias
from zlib import crc32

import msgspec
from msgspec import Struct

from fairlead.errors import ProtocolError

__all__ = [
    "CHECKED",
    "CONTROL",
    "DELIVER",
    "DROPPED_MAX",
    "FRAME_MAX",
    "FRAME_MIN",
    "PART",
    "PUBLISH",
    "RELAY",
    "RELAYS",
    "STORED",
    "VERSION",
    "Accept",
    "Advertise",
    "Ask",
    "Barrier",
    "Bye",
    "Control",
    "Credit",
    "Done",
    "Dropped",
    "Frames",
    "Heard",
    "Hello",
    "Link",
    "Listen",
    "Listening",
    "Parts",
    "Passed",
    "Ping",
    "Pong",
    "Probe",
    "Received",
    "Refused",
    "Reject",
    "Release",
    "Repeated",
    "Subscribe",
    "Table",
    "Tell",
    "Told",
    "Unadvertise",
    "Unlink",
    "Unsubscribe",
    "Welcome",
    "checked",
    "checked_pieces",
    "control",
    "control_in_parts",
    "deliver",
    "deliver_before",
    "deliver_head",
    "parse_control",
    "parse_deliver",
    "parse_numbered",
    "parse_relays",
    "publish",
    "relay",
    "relay_before",
    "relay_room",
    "relays_array",
    "relays_before",
    "stored",
]

VERSION: Final = 5
FRAME_MAX: Final = 1 << 20
"""The longest frame that is taken if nothing else is said."""
FRAME_MIN: Final = 1 << 10
"""Whoever takes no frames of this length cannot be spoken to."""
MESSAGE_MAX: Final = 1 << 28
"""The longest message that is put together of parts: the table of millions of filters."""
DROPPED_MAX: Final = 1 << 40
"""More than this have not been left out at once."""

CONTROL, PUBLISH, DELIVER, RELAY, STORED, PART, RELAYS, CHECKED = range(8)
KINDS: Final = 8
CHECKED_BYTES: Final = (1 << 16) + (1 << 10)
"""A checked piece is this long at most: its reader waits for its end. A frame of several notifications fits in."""

_HEAD: Final = struct.Struct("<IB")
_NUMBERED: Final = struct.Struct("<IBQ")
_DELIVERED: Final = struct.Struct("<IBQI")
_number_in: Final = struct.Struct("<Q").unpack_from
_NUMBER_AND_LENGTH: Final = struct.Struct("<QI")
PARTS_MAX: Final = 64
"""A checksum of more parts than this takes longer than to join them first."""
_CHECKED: Final = struct.Struct("<IBI")
_CRC: Final = struct.Struct("<I")
_ARRAY: Final = struct.Struct(">BI")
_ARRAY_32: Final = 0xDD


class _Message(Struct, frozen=True, array_like=True, tag=True):
    pass


# -- either side -----------------------------------------------------------------------------------------------


class Hello(_Message, frozen=True):
    """Who opens the connection: a client or a broker, by its name.

    A broker also says which life of it this is, which log it keeps, how much it has of the other's, and how it
    routes."""

    version: int
    role: str
    name: str = ""
    policy: str = ""
    """What happens when this client is slow to take what is not durable: block, drop or disconnect."""
    life: str = ""
    log: str = ""
    others_log: str = ""
    received: int = 0
    url: str = ""
    """Where a broker can be called."""
    knows: bool = False
    """Whether a broker takes the other for its neighbour already."""
    frame_max: int = FRAME_MAX
    """The longest frame that is taken."""
    routing: str = ""
    """What neighbours have to agree on: see `Neighbourhood`."""
    lineage: list[tuple[str, int]] = []
    """The incarnations of a broker's log: see `fairlead.log.lineage`."""
    others_lineage: list[tuple[str, int]] = []
    """Those of the other's log, when something was received of it last."""
    end: int = 0
    """The end of a broker's log."""


class Welcome(_Message, frozen=True):
    """The answer to Hello: who is there, and how the other is called here."""

    version: int
    broker: str
    name: str
    life: str = ""
    log: str = ""
    others_log: str = ""
    received: int = 0
    frame_max: int = FRAME_MAX
    """The longest frame that is taken."""
    knows: bool = False
    routing: str = ""
    lineage: list[tuple[str, int]] = []
    others_lineage: list[tuple[str, int]] = []
    end: int = 0


class Bye(_Message, frozen=True):
    """The connection ends, and why; nothing follows. Whoever is not taken in learns who says so."""

    reason: str
    broker: str = ""
    is_final: bool = False
    """Whether a client that was there need not come back."""


class Ping(_Message, frozen=True):
    """Are you there? With a number of a client: it is `Done` when all that came before has been heard."""

    number: int = 0


class Pong(_Message, frozen=True):
    """Yes."""


# -- from clients ----------------------------------------------------------------------------------------------


class Subscribe(_Message, frozen=True):
    """Subscribe under an id; with `durable` for the subscriber of that name, who stays when the client leaves."""

    number: int
    id: str
    filter: str
    durable: str = ""
    since: int | None = None
    """Begin with what was published at this time, in microseconds, as far as the log goes back."""


class Unsubscribe(_Message, frozen=True):
    """Take a subscription back; without an id, the whole durable subscriber."""

    number: int
    id: str
    durable: str = ""


class Release(_Message, frozen=True):
    """Let go of a durable subscriber: what has not been accepted comes again to whoever subscribes next."""

    number: int
    durable: str


class Advertise(_Message, frozen=True):
    """Say what will be published."""

    number: int
    id: str
    filter: str


class Unadvertise(_Message, frozen=True):
    """Take an advertisement back."""

    number: int
    id: str


class Accept(_Message, frozen=True):
    """The deliveries of these places to a durable subscriber are dealt with."""

    durable: str
    places: list[int]


class Reject(_Message, frozen=True):
    """A delivery is not dealt with: it comes once more, or it is done with."""

    durable: str
    place: int
    again: bool = False


class Listen(_Message, frozen=True):
    """Tell me whether anyone listens to what this filter matches, and when that changes; no filter: no more."""

    number: int
    id: str
    filter: str = ""


class Ask(_Message, frozen=True):
    """A question about the broker itself: `status`, `tables` or `durables`."""

    number: int
    what: str


class Operate(_Message, frozen=True):
    """An operator's action: `end` the connection of the client of a name, `drain` the broker, or `resume`."""

    number: int
    action: str
    name: str = ""


class Link(_Message, frozen=True):
    """Connect to another broker, and stay connected."""

    number: int
    url: str


class Unlink(_Message, frozen=True):
    """End the link to a neighbour. A neighbour says so of itself, and is answered with the same: it has ended."""

    number: int
    neighbour: str


# -- to clients ------------------------------------------------------------------------------------------------


class Done(_Message, frozen=True):
    """What was asked under this number has been done."""

    number: int


class Refused(_Message, frozen=True):
    """What was asked, or published, under this number has no effect, and why.

    Without a number: this client is not the durable subscriber of that name any longer."""

    number: int
    reason: str
    durable: str = ""
    is_missing: bool = False
    """Whether it was to be ended, and is not there."""


class Repeated(_Message, frozen=True):
    """What was published under this number had been published before, and is as safe as it was then."""

    number: int


class Told(_Message, frozen=True):
    """The answer to a question."""

    number: int
    answer: Any


class Dropped(_Message, frozen=True):
    """So many notifications have been left out: because this client was slow, or a link on the way was.

    Between brokers: so many did not come over this link, and the receiver tells those they may have been for."""

    count: int


class Credit(_Message, frozen=True):
    """Of the notifications in no log that came over this connection, so many bytes have been dealt with."""

    dealt: int


class Listening(_Message, frozen=True):
    """Whether anyone listens, from now on."""

    id: str
    anyone: bool


# -- between brokers -------------------------------------------------------------------------------------------

Heard: TypeAlias = tuple[str, str]
"""An interest: the filter's text and its owner."""


class Table(_Message, frozen=True):
    """All that the sender asks of the receiver, in place of what it said before (book 4.6.4).

    From the one that opened a new link it also says that the link closes no cycle."""

    subscriptions: list[Heard]
    advertisements: list[Heard]
    others: list[Heard] = []
    """Further subscriptions, for which the receiver advertises nothing: who knows them keeps them."""


class Tell(_Message, frozen=True):
    """admin(S, U): what changes in what the sender asks."""

    added: list[Heard]
    removed: list[Heard]
    advertisements: bool = False


class Received(_Message, frozen=True):
    """All that was relayed up to this place of the receiver's log is safe in the sender's."""

    place: int


class Barrier(_Message, frozen=True, tag="Fence"):
    """Answer with Passed when every broker behind has synced all that came before this.

    `patient`: brokers that are away as well."""

    origin: str
    number: int
    patient: bool = True


class Probe(_Message, frozen=True):
    """A broker that gets its own probe back over another link has closed a cycle with the link to `called`.

    It goes over all links, new ones too, waits for brokers that are away, and is answered with Passed."""

    origin: str
    number: int
    called: str


class Passed(_Message, frozen=True, tag="Fenced"):
    """The answer to a barrier, or to a probe."""

    origin: str
    number: int


Control: TypeAlias = (
    Hello
    | Welcome
    | Bye
    | Ping
    | Pong
    | Subscribe
    | Unsubscribe
    | Release
    | Advertise
    | Unadvertise
    | Accept
    | Reject
    | Listen
    | Ask
    | Operate
    | Link
    | Unlink
    | Done
    | Refused
    | Repeated
    | Told
    | Dropped
    | Credit
    | Listening
    | Table
    | Tell
    | Received
    | Barrier
    | Probe
    | Passed
)

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Control)


# -- frames ----------------------------------------------------------------------------------------------------


def control(message: Control) -> bytes:
    """The frame of a message."""
    payload = _encoder.encode(message)
    return _HEAD.pack(len(payload) + 1, CONTROL) + payload


def control_in_parts(message: Control, frame_max: int) -> list[bytes]:
    """The frames of a message, none of which is longer than this."""
    payload = _encoder.encode(message)
    step = frame_max - 1
    last = max(0, len(payload) - 1) // step * step
    parts = [(PART, payload[start : start + step]) for start in range(0, last, step)]
    return [_HEAD.pack(len(part) + 1, kind) + part for kind, part in [*parts, (CONTROL, payload[last:])]]


def checked(frames: bytes, frame_max: int = FRAME_MAX) -> bytes:
    """A stream of frames in checked pieces, none of which is longer than a frame may be."""
    return b"".join(checked_pieces([frames], frame_max)) if frames else b""


def checked_pieces(frames: Sequence[bytes], frame_max: int) -> list[bytes | memoryview]:
    """The same of a stream in parts, to be joined: one piece, where it is not too long."""
    step = min(CHECKED_BYTES, frame_max - 5)
    size = sum(map(len, frames))
    if len(frames) > PARTS_MAX or size > step:
        frames = [b"".join(frames)]
    if size <= step:
        crc = 0
        for each in frames:
            crc = crc32(each, crc)
        return [_CHECKED.pack(size + 5, CHECKED, crc), *frames]
    whole = memoryview(frames[0])
    pieces: list[bytes | memoryview] = []
    for start in range(0, size, step):
        piece = whole[start : start + step]
        pieces += (_CHECKED.pack(len(piece) + 5, CHECKED, crc32(piece)), piece)
    return pieces


def publish(number: int, packed: bytes) -> bytes:
    """The frame of a publication."""
    return _NUMBERED.pack(len(packed) + 9, PUBLISH, number) + packed


def relay_before(place: int, size: int) -> bytes:
    """What stands before the notification of this size in the frame of one from broker to broker."""
    return _NUMBERED.pack(size + 9, RELAY, place)


def relay_room(frame_max: int) -> int:
    """The size of the largest notification that can be relayed to who takes frames of this length."""
    return frame_max - 9


def relay(place: int, packed: bytes) -> bytes:
    """The frame of a notification from broker to broker."""
    return relay_before(place, len(packed)) + packed


def relays_array(count: int) -> bytes:
    """What makes one array of so many packed notifications that stand behind it."""
    return _ARRAY.pack(_ARRAY_32, count)


def relays_before(count: int, size: int) -> bytes:
    """What stands before so many notifications of this size in the frame of several from broker to broker."""
    return _HEAD.pack(size + 1 + _ARRAY.size, RELAYS) + relays_array(count)


def stored(number: int) -> bytes:
    """The frame that acknowledges publications."""
    return _NUMBERED.pack(9, STORED, number)


def deliver_head(subscriptions: tuple[str, ...]) -> bytes:
    """The subscriptions' ids as they stand in the frame of a delivery."""
    return _encoder.encode(subscriptions)


def deliver_before(head: bytes, size: int) -> bytes:
    """What stands before the notification of this size in the frame of a best-effort delivery."""
    return _DELIVERED.pack(len(head) + size + 13, DELIVER, 0, len(head)) + head


def deliver(place: int, head: bytes, packed: bytes) -> bytes:
    """The frame of a delivery."""
    return b"".join((_DELIVERED.pack(len(head) + len(packed) + 13, DELIVER, place, len(head)), head, packed))


def parse_control(payload: bytes) -> Control:
    """The message of a frame of kind 0."""
    try:
        message: Control = _decoder.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ProtocolError(f"not a message of this protocol: {error}") from None
    return message


def parse_numbered(payload: bytes) -> tuple[int, bytes]:
    """Number and rest of a publication, a relayed notification or an acknowledgement."""
    try:
        return _number_in(payload)[0], payload[8:]
    except struct.error:
        raise ProtocolError("a frame that ends before its number does") from None


def parse_relays(payload: bytes) -> tuple[int, bytes]:
    """How many notifications there are in a frame of several, and those, one behind the other.

    That there are so many has to be seen from the notifications themselves: the payload is an array of them.
    """
    if len(payload) < _ARRAY.size or payload[0] != _ARRAY_32:
        raise ProtocolError("a frame of several notifications that does not say how many")
    return _ARRAY.unpack_from(payload)[1], payload[_ARRAY.size :]


def parse_deliver(payload: bytes) -> tuple[int, list[str], bytes]:
    """Place, subscriptions and notification of a delivery."""
    if len(payload) < 12:
        raise ProtocolError("a delivery that ends before its head does")
    place, length = _NUMBER_AND_LENGTH.unpack_from(payload)
    try:
        subscriptions = msgspec.msgpack.decode(payload[12 : 12 + length], type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a delivery without its subscriptions: {error}") from None
    return place, subscriptions, payload[12 + length :]


class Parts:
    """Puts messages together that came in parts."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def add(self, payload: bytes) -> None:
        """The beginning of a message, or more of it."""
        if len(self._begun) + len(payload) > MESSAGE_MAX:
            raise ProtocolError(f"a message of more than {MESSAGE_MAX:,} bytes")
        self._begun += payload

    def finish(self, payload: bytes) -> Control:
        """The message that ends with this."""
        if self._begun:
            self._begun += payload
            payload, self._begun = bytes(self._begun), bytearray()
        return parse_control(payload)


class Frames:
    """Cuts the bytes of a connection, however they were split, into frames (kind, payload).

    The frames inside checked pieces come out as all others do; `only_checked` refuses those outside.
    """

    def __init__(self, limit: int = FRAME_MAX, *, is_inside: bool = False) -> None:
        self._limit, self._is_inside = limit, is_inside
        self._rest = b""
        self._inner: Frames | None = None
        self.only_checked = False

    @property
    def waiting(self) -> int:
        """How many bytes of an unfinished frame are held."""
        return len(self._rest) + (0 if self._inner is None else self._inner.waiting)

    def _unchecked(self, payload: memoryview) -> Iterator[tuple[int, bytes]]:
        """The frames that a checked piece completes; ProtocolError if it is not what was sent."""
        if self._is_inside:
            raise ProtocolError("a checked piece inside a checked piece")
        content = payload[_CRC.size :]
        if len(payload) < _CRC.size or crc32(content) != _CRC.unpack_from(payload)[0]:
            raise ProtocolError("bytes were changed on the way: the checksum is wrong")
        if self._inner is None:
            self._inner = Frames(self._limit, is_inside=True)
        return self._inner.feed(content)

    def feed(self, chunk: bytes | memoryview) -> Iterator[tuple[int, bytes]]:
        """The frames that this chunk completes; ProtocolError at the first that is none."""
        raw = self._rest + chunk if self._rest else chunk
        position, end, limit = 0, len(raw), self._limit
        is_view = (
            type(raw) is memoryview
        )  # of a checked piece: its frames are copied once, into their payloads
        unpack = _HEAD.unpack_from
        try:
            while end - position >= 5:
                length, kind = unpack(raw, position)
                if not 0 < length <= limit or kind >= KINDS:
                    raise ProtocolError(_why_not(length, kind, limit))
                stop = position + 4 + length
                if stop > end:
                    break
                start, position = position + 5, stop
                if kind == CHECKED:
                    yield from self._unchecked(memoryview(raw)[start:stop])
                elif self.only_checked:
                    raise ProtocolError(f"a frame of the kind {kind} without a checksum")
                else:
                    payload = raw[start:stop]
                    yield kind, (bytes(payload) if is_view else payload)  # type: ignore[misc]  # bytes otherwise
        finally:
            self._rest = bytes(raw[position:])


def _why_not(length: int, kind: int, limit: int) -> str:
    if not length:
        return "a frame without content"
    if length > limit:
        return f"a frame of {length:,} bytes; at most {limit:,} are taken"
    return f"a frame of the unknown kind {kind}"
