"""The bytes between brokers and clients: frames, each with a length and a kind.

    u32     length of what follows, from 1 to the limit that the receiver has set
    u8      kind
    ...     by kind

Integers are little-endian. The kinds that carry notifications have a layout of their own, so that a broker
can pass on the packed notification (`model.packed`) as it came:

    1  publish   u64 number (0: no answer is wanted), the notification
    2  deliver   u64 ordinal (0: best effort), u32 length, a MessagePack array of the subscriptions' ids, the
                 notification
    3  relay     u64 ordinal (0: best effort), the stamp, the notification
    4  stored    u64 number: all publications of this connection up to it are safe, but those refused before
    5  part      the beginning of a message that is too long for one frame; it goes on in the next one
    6  relays    a MessagePack array (of the longest form, however few they are) of notifications, best effort
    7  checked   u32 CRC-32 of what follows: a piece of the stream of frames, of any other kind
    8  skip      u64 ordinal: the ordinal of the next relay, where it does not follow the one before
    9  mark      u64 position, and the name of a broker: all that was published there up to this position and
                 concerns the receiver went before this (`fairlead.broker.progress`)
    10 transaction  u64 number, and a MessagePack array: the notifications, what is accepted with them (durable
                 subscribers with their ordinals), and whether those that were published before are left out.
                 All of it takes place, or nothing; it is answered as a publication with the number is

Brokers send one another nothing but frames of kind 7. A frame of the stream inside may begin in one of them and
end in another. A piece whose CRC is wrong ends the connection before any of its frames is read: a bit that flips
between brokers changes nothing. Clients may send such frames, and are not sent any.

A stamp (`fairlead.log.records`) says where a notification was published: u64 position in the log of its origin,
counted from 1 (0: best effort), u16 length, and the origin's name. On every way, positions of one origin rise.
In a redundant network (`fairlead.network.copies`) the name has the incarnation of the origin's log behind a tilde,
and what is best effort has the life of the origin's process there, and a count instead of the position; there are
no frames of the kinds 6 and 9.

An ordinal is the offset of the record in the sender's log, counted from 1. On each connection between brokers
ordinals begin at 1, and each relay has the ordinal after the one before, unless a frame of kind 8 says otherwise;
ordinals never go back. A relay with any other ordinal ends the connection, and changes nothing.

A packed notification is itself a MessagePack array, so that an array of several is those, one behind the other;
one that is JSON text goes alone.

Kind 0 is everything else: a MessagePack array with the name of a message first. Between brokers it may be longer
than a frame: then all frames but its last are of kind 5. A connection begins with Hello, which names the version
of the protocol, and is answered by Welcome or Bye; after that either side may send what is its to send.

What is not a frame of this version closes the connection, with a Bye that says why: `ProtocolError`.
"""

from __future__ import annotations

import struct
from itertools import takewhile
from typing import Final

import msgspec

from fairlead.broker.progress import Mark
from fairlead.errors import ProtocolError
from fairlead.log.records import STAMP_BYTES, parse_relayed, stamp
from fairlead.network.frames import (
    CHECKED,
    CONTROL,
    DELIVER,
    FRAME_MAX,
    FRAME_MIN,
    HEAD,
    MARK,
    PART,
    PUBLISH,
    RELAY,
    RELAYS,
    SKIP,
    STORED,
    TRANSACTION,
    Frames,
    Verified,
    checked,
    checked_pieces,
)
from fairlead.network.messages import (
    Accept,
    Advertise,
    Authenticate,
    Awake,
    Barrier,
    Bye,
    Control,
    Credit,
    Cut,
    DeclareType,
    Delegate,
    Discover,
    Discovered,
    Done,
    Dropped,
    Fetch,
    Follow,
    Forget,
    Forgotten,
    Gapped,
    Granted,
    Handing,
    Hello,
    HoldingText,
    InterestsChanged,
    InterestText,
    Leased,
    Link,
    Listen,
    Listening,
    Moved,
    Notice,
    Notices,
    NoticeText,
    Offered,
    Operate,
    Passed,
    Past,
    Ping,
    Pong,
    Probe,
    Quench,
    Recalled,
    Received,
    Redrive,
    Refused,
    Reject,
    Release,
    RemoveType,
    Renew,
    Repeated,
    Replay,
    ReplayRecord,
    ReportRequest,
    Request,
    Response,
    Subscribe,
    Table,
    Types,
    TypeText,
    Unadvertise,
    Undelegate,
    Unlink,
    Unsubscribe,
    Wake,
    Welcome,
)

__all__ = [
    "CHECKED",
    "CONTROL",
    "DELIVER",
    "DROPPED_MAX",
    "FRAME_MAX",
    "FRAME_MIN",
    "MARK",
    "NAME_MAX",
    "NO_STAMP",
    "OLDEST",
    "OLDEST_BETWEEN_BROKERS",
    "PART",
    "PUBLISH",
    "RELAY",
    "RELAYS",
    "RELAYS_ARRAY",
    "SKIP",
    "STORED",
    "TRANSACTION",
    "TRANSACTIONS_SINCE",
    "VERSION",
    "Accept",
    "Advertise",
    "Authenticate",
    "Awake",
    "Barrier",
    "Bye",
    "Control",
    "Credit",
    "Cut",
    "DeclareType",
    "Delegate",
    "Discover",
    "Discovered",
    "Done",
    "Dropped",
    "Fetch",
    "Follow",
    "Forget",
    "Forgotten",
    "Frames",
    "Gapped",
    "Granted",
    "Handing",
    "Hello",
    "HoldingText",
    "InterestText",
    "InterestsChanged",
    "Leased",
    "Link",
    "Listen",
    "Listening",
    "Moved",
    "Notice",
    "NoticeText",
    "Notices",
    "Offered",
    "Operate",
    "Parts",
    "Passed",
    "Past",
    "Ping",
    "Pong",
    "Probe",
    "Quench",
    "Recalled",
    "Received",
    "Redrive",
    "Refused",
    "Reject",
    "Release",
    "RemoveType",
    "Renew",
    "Repeated",
    "Replay",
    "ReplayRecord",
    "ReportRequest",
    "Request",
    "Response",
    "Subscribe",
    "Table",
    "Transaction",
    "TypeText",
    "Types",
    "Unadvertise",
    "Undelegate",
    "Unlink",
    "Unsubscribe",
    "Verified",
    "Wake",
    "Welcome",
    "agreed_version",
    "attempt_in",
    "checked",
    "checked_pieces",
    "control",
    "control_in_parts",
    "deliver",
    "deliver_again",
    "deliver_before",
    "deliver_head",
    "mark",
    "parse_all_numbered",
    "parse_control",
    "parse_deliver",
    "parse_mark",
    "parse_numbered",
    "parse_relay",
    "parse_relays",
    "parse_transaction",
    "parse_unnumbered",
    "publish",
    "relay",
    "relay_on",
    "relay_own",
    "relay_room",
    "relays_array",
    "relays_before",
    "skip",
    "stored",
    "subscriptions_in",
    "transaction",
]

VERSION: Final = 7
OLDEST: Final = 6
"""The versions from this one on are spoken with clients, the highest one that both sides speak. A release with
another version speaks the one before, too, where it can, so that clients and brokers are upgraded one after the
other. Version 5 is not: it does not announce offsets, without which a false one is believed."""
OLDEST_BETWEEN_BROKERS: Final = 7
"""Brokers speak none but these with one another: before, relays had no stamps."""
NO_STAMP: Final = stamp(b"", 0)
"""The stamp of what is in no log."""
NAME_MAX: Final = 500
"""The longest name of a client, a broker or a durable subscriber, in bytes: the log has a cursor under it, and
relays have the name of a broker."""
MESSAGE_MAX: Final = 1 << 28
"""The longest message that is put together of parts: the table of millions of filters."""
DROPPED_MAX: Final = 1 << 40
"""More than this have not been left out at once."""

_NUMBERED: Final = struct.Struct("<IBQ")
_OWN: Final = struct.Struct("<IBQQH")
_DELIVERED: Final = struct.Struct("<IBQI")
_number_in: Final = struct.Struct("<Q").unpack_from
_NUMBER_BYTES: Final = 8
_NO_NUMBER: Final = bytes(_NUMBER_BYTES)
_NUMBER_AND_LENGTH: Final = struct.Struct("<QI")
_ARRAY: Final = struct.Struct(">BI")
_ARRAY_32: Final = 0xDD
RELAYS_ARRAY: Final = _ARRAY.size
"""The number of bytes before several notifications, in the payload of their frame."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Control)


class Transaction(msgspec.Struct, frozen=True, array_like=True):
    """Publications, and deliveries that are accepted with them: all of it, or nothing."""

    publications: list[bytes]
    accepted: list[tuple[str, list[int]]] = []
    """By durable subscriber, the ordinals."""
    new_only: bool = False
    """Whether publications that are known are left out. Otherwise they refuse the transaction, unless all are."""


_transaction_decoder: Final = msgspec.msgpack.Decoder(Transaction)


# -- frames ----------------------------------------------------------------------------------------------------


def control(message: Control) -> bytes:
    """The frame of a message."""
    payload = _encoder.encode(message)
    return HEAD.pack(len(payload) + 1, CONTROL) + payload


def control_in_parts(message: Control, frame_max: int) -> list[bytes]:
    """The frames of a message, none of which is longer than this."""
    payload = _encoder.encode(message)
    step = frame_max - 1
    last = max(0, len(payload) - 1) // step * step
    parts = [(PART, payload[start : start + step]) for start in range(0, last, step)]
    return [HEAD.pack(len(part) + 1, kind) + part for kind, part in [*parts, (CONTROL, payload[last:])]]


def publish(number: int, packed: bytes) -> bytes:
    """The frame of a publication."""
    return _NUMBERED.pack(len(packed) + 9, PUBLISH, number) + packed


def transaction(number: int, content: Transaction) -> bytes:
    """The frame of a transaction."""
    encoded = _encoder.encode(content)
    return _NUMBERED.pack(len(encoded) + 9, TRANSACTION, number) + encoded


def parse_transaction(payload: bytes) -> tuple[int, Transaction]:
    """Number and content of a transaction."""
    number, encoded = parse_numbered(payload)
    try:
        content = _transaction_decoder.decode(encoded)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"not a transaction: {error}") from None
    if not number:
        raise ProtocolError("a transaction without a number")
    return number, content


def relay_room(frame_max: int) -> int:
    """The size of the largest notification that fits into a relay frame of this length, whatever its origin."""
    return frame_max - 9 - STAMP_BYTES - NAME_MAX


def relay(ordinal: int, stamp: bytes, packed: bytes) -> bytes:
    """The frame of a notification from broker to broker, with the stamp of where it was published."""
    return _NUMBERED.pack(len(stamp) + len(packed) + 9, RELAY, ordinal) + stamp + packed


def relay_own(ordinal: int, origin: bytes, packed: bytes) -> bytes:
    """The same of a notification that was published at this origin, which sends it."""
    return _OWN.pack(len(origin) + len(packed) + 19, RELAY, ordinal, ordinal, len(origin)) + origin + packed


def relay_on(ordinal: int, relayed: bytes) -> bytes:
    """The frame of a relay that came with another ordinal."""
    return _NUMBERED.pack(len(relayed) + 1, RELAY, ordinal) + relayed[_NUMBER_BYTES:]


def parse_relay(payload: bytes) -> tuple[int, bytes]:
    """Ordinal of a relay, and its notification."""
    try:
        number, begin = parse_relayed(payload)
    except struct.error:
        raise ProtocolError("a relay that ends before its stamp does") from None
    return number, payload[begin:]


OFF: Final = "off"
"""The name with which an operator ends a trace."""
PART_OF: Final = "\0version "
"""The prefix of a version's number; no id of a subscription begins with it."""
ATTEMPT: Final = "\0attempt "
"""The prefix of an attempt's number; the first one is not told."""
RETAINED: Final = "\0retained"
"""Behind the ids of the delivery of a value that was retained; no id of a subscription is that."""
TRANSACTIONS_SINCE: Final = 7
"""The version from which on brokers know of transactions."""
ATTEMPTS_SINCE: Final = 7
"""The version from which on clients know of attempts."""
DISCOVERY_SINCE: Final = 7
"""The version from which on brokers say what others want."""
OFFERED_SINCE: Final = 7
"""The version from which on clients are told the channels of what they subscribe to."""
CUTS_SINCE: Final = 7
"""The version from which on brokers answer for cuts."""


def skip(ordinal: int) -> bytes:
    """The frame that announces the ordinal of the next relay."""
    return _NUMBERED.pack(9, SKIP, ordinal)


def mark(mark: Mark) -> bytes:
    """The frame of a mark."""
    origin = mark.origin.encode()
    return _NUMBERED.pack(9 + len(origin), MARK, mark.position) + origin


def parse_mark(payload: bytes) -> Mark:
    """The mark in a frame."""
    position, origin = parse_numbered(payload)
    try:
        return Mark(origin.decode(), position)
    except UnicodeDecodeError:
        raise ProtocolError("the name in a mark is not UTF-8") from None


def relays_array(count: int) -> bytes:
    """The head of a MessagePack array of so many packed notifications."""
    return _ARRAY.pack(_ARRAY_32, count)


def relays_before(count: int, size: int) -> bytes:
    """The bytes before so many notifications of this size in the frame of several relays."""
    return HEAD.pack(size + 1 + RELAYS_ARRAY, RELAYS) + relays_array(count)


def stored(number: int) -> bytes:
    """The frame that acknowledges publications."""
    return _NUMBERED.pack(9, STORED, number)


def deliver_head(subscriptions: tuple[str, ...], part: tuple[int, int] = (1, 1)) -> bytes:
    """The ids of subscriptions, as in the frame of a delivery; and behind them, where a subscriber gets several
    versions of a notification, which one this is, and of how many."""
    if part[1] > 1:
        subscriptions = (*subscriptions, f"{PART_OF}{part[0]}/{part[1]}")
    return _encoder.encode(subscriptions)


def subscriptions_in(head: bytes) -> list[str]:
    """The ids of subscriptions in the head of a delivery."""
    ids: list[str] = msgspec.msgpack.decode(head)
    return part_in(ids)[0]


def deliver_again(head: bytes, attempt: int) -> bytes:
    """The head of a delivery that is not the first attempt."""
    return _encoder.encode([*msgspec.msgpack.decode(head), f"{ATTEMPT}{attempt}"])


def deliver_retained(subscription: str, part: tuple[int, int]) -> bytes:
    """The head of the delivery of a value that was retained."""
    head: list[str] = msgspec.msgpack.decode(deliver_head((subscription,), part))
    return _encoder.encode([*head, RETAINED])


def retained_in(subscriptions: list[str]) -> tuple[list[str], bool]:
    """The head of a delivery without the word that its value was retained, and whether it was."""
    is_retained = bool(subscriptions) and subscriptions[-1] == RETAINED
    return (subscriptions[:-1] if is_retained else subscriptions), is_retained


def attempt_in(subscriptions: list[str]) -> tuple[list[str], int]:
    """The head of a delivery without the number of the attempt, and that."""
    if not subscriptions or not subscriptions[-1].startswith(ATTEMPT):
        return subscriptions, 1
    try:
        return subscriptions[:-1], int(subscriptions[-1][len(ATTEMPT) :])
    except ValueError:
        raise ProtocolError("a delivery of an attempt without its number") from None


def part_in(subscriptions: list[str]) -> tuple[list[str], tuple[int, int]]:
    """The ids in the head of a delivery, and which version of how many it is."""
    if not subscriptions or not subscriptions[-1].startswith(PART_OF):
        return subscriptions, (1, 1)
    try:
        number, count = map(int, subscriptions[-1][len(PART_OF) :].split("/"))
    except ValueError:
        raise ProtocolError("a delivery of a version without its number") from None
    return subscriptions[:-1], (number, count)


def deliver_before(head: bytes, size: int) -> bytes:
    """The bytes before a notification of this size in the frame of a best-effort delivery."""
    return _DELIVERED.pack(len(head) + size + 13, DELIVER, 0, len(head)) + head


def deliver(ordinal: int, head: bytes, packed: bytes) -> bytes:
    """The frame of a delivery."""
    return b"".join(
        (_DELIVERED.pack(len(head) + len(packed) + 13, DELIVER, ordinal, len(head)), head, packed)
    )


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


def parse_unnumbered(payload: bytes) -> bytes | None:
    """The rest of a publication that asks for no answer; None: it asks for one, or is no publication."""
    return payload[_NUMBER_BYTES:] if payload.startswith(_NO_NUMBER) else None


def parse_all_numbered(payloads: list[bytes]) -> tuple[list[int], list[bytes]]:
    """Numbers and rests of several, up to the first that ends before its number does."""
    if min(map(len, payloads)) < _NUMBER_BYTES:
        payloads = [*takewhile(lambda each: len(each) >= _NUMBER_BYTES, payloads)]
    return [number for (number,) in map(_number_in, payloads)], [each[_NUMBER_BYTES:] for each in payloads]


def parse_relays(payload: bytes) -> int:
    """The number of notifications in a frame of several; they follow the first `RELAYS_ARRAY` bytes.

    That there are so many has to be seen from the notifications themselves: the payload is an array of them.
    """
    if len(payload) < RELAYS_ARRAY or payload[0] != _ARRAY_32:
        raise ProtocolError("a frame of several notifications without their number")
    count: int = _ARRAY.unpack_from(payload)[1]
    return count


def parse_deliver(payload: bytes) -> tuple[int, list[str], bytes]:
    """Place, subscriptions and notification of a delivery."""
    if len(payload) < 12:
        raise ProtocolError("a delivery that ends before its head does")
    ordinal, length = _NUMBER_AND_LENGTH.unpack_from(payload)
    try:
        subscriptions = msgspec.msgpack.decode(payload[12 : 12 + length], type=list[str])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a delivery without its subscriptions: {error}") from None
    return ordinal, subscriptions, payload[12 + length :]


def agreed_version(version: int, oldest: int, least: int = 0) -> int:
    """The highest version that both sides speak, where the other one speaks these; ProtocolError: there is none.

    An `oldest` of 0 says that it speaks one version. `least` is the oldest that is spoken here, by default that of
    clients.
    """
    least, agreed = least or OLDEST, min(version, VERSION)
    if agreed < max(oldest or version, least):
        raise ProtocolError(f"{_versions(version, oldest)} not spoken here; {_versions(VERSION, least)}")
    return agreed


def _versions(version: int, oldest: int) -> str:
    if oldest in (0, version):
        return f"version {version} of the protocol is"
    return f"versions {oldest} to {version} of the protocol are"


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
