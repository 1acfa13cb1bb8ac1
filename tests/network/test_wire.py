"""However bytes are cut on their way, the same frames come out; what is no frame is refused with its reason."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.broker.progress import Mark
from fairlead.errors import ProtocolError
from fairlead.log.records import stamp
from fairlead.network import wire
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings
from fairlead_lab.testing.nodes import End

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(0, 2**64 - 1)


@st.composite
def frames(draw: st.DrawFn) -> tuple[int, bytes]:
    """A frame, and what it should be read as."""
    kind = draw(st.sampled_from([*range(5), wire.RELAYS, wire.SKIP, wire.MARK]))
    body = draw(st.binary(max_size=50))
    match kind:
        case wire.CONTROL:
            frame = wire.control(
                wire.Subscribe(draw(st.integers(0, 99)), draw(texts), draw(texts), draw(texts))
            )
        case wire.PUBLISH:
            frame = wire.publish(draw(numbers), body)
        case wire.DELIVER:
            frame = wire.deliver(
                draw(numbers), wire.deliver_head(tuple(draw(st.lists(texts, max_size=3)))), body
            )
        case wire.RELAY:
            frame = wire.relay(draw(numbers), stamp(draw(texts).encode(), draw(numbers)), body)
        case wire.RELAYS:
            frame = wire.relays_before(draw(st.integers(0, 2**32 - 1)), len(body)) + body
        case wire.MARK:
            frame = wire.mark(Mark(draw(texts), draw(numbers)))
        case wire.SKIP:
            frame = wire.skip(draw(numbers))
        case _:
            frame = wire.stored(draw(numbers))
    return kind, frame


@given(st.lists(frames(), max_size=8), st.lists(st.integers(0, 400), max_size=10))
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    sent: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    raw = b"".join(frame for _, frame in sent)
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    reader = wire.Frames()
    came = [frame for start, stop in pairwise(places) for frame in reader.feed(raw[start:stop])]
    assert came == [(kind, frame[5:]) for kind, frame in sent]
    assert reader.waiting == 0


@given(numbers, st.lists(texts, max_size=4), st.binary(max_size=50))
def test_a_delivery_is_read_as_it_was_written(place: int, ids: list[str], packed: bytes) -> None:
    head = wire.deliver_head(tuple(ids))
    [(kind, payload)] = wire.Frames().feed(wire.deliver(place, head, packed))
    assert (kind, *wire.parse_deliver(payload)) == (wire.DELIVER, place, ids, packed)
    assert wire.deliver_before(head, len(packed)) + packed == wire.deliver(0, head, packed)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=50))
def test_several_notifications_are_read_as_they_were_written(count: int, body: bytes) -> None:
    [(kind, payload)] = wire.Frames().feed(wire.relays_before(count, len(body)) + body)
    assert (kind, wire.parse_relays(payload), payload[wire.RELAYS_ARRAY :]) == (wire.RELAYS, count, body)


@pytest.mark.parametrize(
    "message",
    [
        wire.Hello(1, "broker", "b", life="x", log="l", others_log="m", received=7),
        wire.Table([("price > 1", "me")], []),
        wire.InterestsChanged([("a = 1", "")], [("b = 2", "x")], True),
        wire.Response(3, {"a": [1, 2.5, None]}),
        wire.Accept("d", [1, 2, 3]),
        wire.Subscribe(1, "s", "a = 1", "d", None),
        wire.Barrier("b/1", 4, False),
    ],
)
def test_a_message_is_read_as_it_was_written(message: wire.Control) -> None:
    [(kind, payload)] = wire.Frames().feed(wire.control(message))
    assert (kind, wire.parse_control(payload)) == (wire.CONTROL, message)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\0\0\0\0\0", "without content"),
        (b"\xff\xff\xff\x7f\0", "at most 1,048,576"),
        (b"GET / HTTP/1.1\r\n", "at most"),
        (b"\5\0\0\0\x63....", "unknown kind 99"),
    ],
)
def test_what_is_no_frame_is_refused_with_its_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        list(wire.Frames().feed(raw))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_protocol_error(raw: bytes) -> None:
    for read in (wire.parse_control, wire.parse_numbered, wire.parse_deliver, wire.parse_relays):
        with contextlib.suppress(ProtocolError):
            read(raw)


def test_a_message_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ProtocolError, match="not a message"):
        wire.parse_control(msgspec.msgpack.encode(["Shout", 1]))


@given(st.lists(st.tuples(texts, texts), max_size=30), st.integers(16, 200))
def test_a_message_that_is_longer_than_a_frame_travels_in_several(
    filters: list[tuple[str, str]], limit: int
) -> None:
    table = wire.Table(filters, filters[:3])
    sent = wire.control_in_parts(table, limit)
    *parts, (last, rest) = wire.Frames(limit).feed(b"".join(sent))
    begun = wire.Parts()
    for kind, payload in parts:
        assert kind == wire.PART
        begun.add(payload)
    assert (last, begun.finish(rest)) == (wire.CONTROL, table)
    assert (sent == [wire.control(table)]) == (len(wire.control(table)) <= limit + 4)


def test_a_message_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MESSAGE_MAX", 100)
    parts = wire.Parts()
    parts.add(b"x" * 100)
    with pytest.raises(ProtocolError, match="a message of more than 100 bytes"):
        parts.add(b"x")


@given(st.lists(st.binary(max_size=60), max_size=8), st.integers(1_100, 1_400), st.data())
def test_checked_frames_come_out_as_they_went_in_however_they_are_split(
    payloads: list[bytes], limit: int, data: st.DataObject
) -> None:
    frames = b"".join(wire.publish(number, payload * 40) for number, payload in enumerate(payloads))
    raw = wire.checked(frames, limit)
    reader = wire.Frames(limit * 3)
    reader.only_checked = True
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=4)))
    got = [
        wire.parse_numbered(payload)
        for start, stop in pairwise([0, *cuts, len(raw)])
        for _, payload in reader.feed(raw[start:stop])
    ]
    assert got == [(number, payload * 40) for number, payload in enumerate(payloads)]
    assert reader.waiting == 0


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=5), st.data())
def test_no_frame_comes_out_of_a_piece_in_which_a_bit_has_flipped(
    payloads: list[bytes], data: st.DataObject
) -> None:
    frames = b"".join(
        wire.relay(number + 1, wire.NO_STAMP, payload) for number, payload in enumerate(payloads)
    )
    raw = bytearray(wire.checked(frames))
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[bit // 8] ^= 1 << bit % 8
    reader = wire.Frames()
    reader.only_checked = True
    got: list[object] = []
    try:
        got += reader.feed(bytes(raw))
    except ProtocolError:
        return
    assert not got, "it waits for more: the length has become longer"


def test_a_frame_without_a_checksum_is_refused_where_all_have_one() -> None:
    reader = wire.Frames()
    reader.only_checked = True
    with pytest.raises(ProtocolError, match="without a checksum"):
        list(reader.feed(wire.control(wire.Ping())))
    inside = wire.checked(wire.checked(wire.control(wire.Ping())))
    with pytest.raises(ProtocolError, match="inside"):
        list(wire.Frames().feed(inside))


@given(st.integers(0, 2**32 - 1), st.binary(max_size=60), st.data())
def test_a_frame_that_fills_its_piece_is_sent_on_as_it_came(
    count: int, body: bytes, data: st.DataObject
) -> None:
    raw = wire.checked(wire.relays_before(count, len(body)) + body)
    reader = wire.Frames()
    reader.only_checked = True
    [(kind, payload)] = reader.feed(raw)
    assert (kind, wire.parse_relays(payload), payload[wire.RELAYS_ARRAY :]) == (wire.RELAYS, count, body)
    assert isinstance(payload, wire.Verified)
    assert payload.head + payload == raw
    assert payload.length == len(raw) - 4
    flipped = bytearray(raw)
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    flipped[bit // 8] ^= 1 << bit % 8
    got: list[object] = []
    with contextlib.suppress(ProtocolError):
        got += reader.feed(bytes(flipped))
    assert not got


@given(st.integers(1, 40), st.binary(max_size=60))
def test_a_frame_that_only_looks_as_if_it_filled_its_piece_is_read_as_what_it_is(
    cut: int, body: bytes
) -> None:
    """Behind the beginning of a frame, the bytes of a whole frame are a part of that one."""
    inside = wire.relays_before(1, len(body)) + body
    frame = wire.publish(1, bytes(cut) + inside)
    reader = wire.Frames()
    assert list(reader.feed(wire.checked(frame[: -len(inside)]))) == []
    [(kind, payload)] = reader.feed(wire.checked(inside))
    assert (kind, wire.parse_numbered(payload)) == (wire.PUBLISH, (1, bytes(cut) + inside))


# -- versions ----------------------------------------------------------------------------------------------------


def spoken(version: int, oldest: int) -> range:
    return range(oldest or version, version + 1)


@given(*[st.integers(1, 9)] * 3, st.integers(0, 9))
def test_both_sides_speak_the_highest_version_that_both_know(
    mine: int, my_oldest: int, theirs: int, their_oldest: int
) -> None:
    my_oldest, their_oldest = min(mine, my_oldest), min(theirs, their_oldest)
    common = {*spoken(mine, my_oldest)} & {*spoken(theirs, their_oldest)}
    with pytest.MonkeyPatch.context() as here:
        here.setattr(wire, "VERSION", mine)
        here.setattr(wire, "OLDEST", my_oldest)
        if common:
            assert wire.agreed_version(theirs, their_oldest) == max(common)
        else:
            with pytest.raises(ProtocolError, match=f"{theirs} of the protocol .* spoken here; .*{mine} of"):
                wire.agreed_version(theirs, their_oldest)


@pytest.mark.parametrize("role", ["client", "broker"])
def test_a_later_release_that_speaks_this_version_too_is_welcomed_in_this_one(role: str) -> None:
    node = Node(BrokerSettings("b").broker(), None, life="b")
    end = End(node)
    hello = wire.Hello(wire.VERSION + 1, role, "later", life="x", routing="filters", oldest=wire.VERSION)
    # What later versions say beside that is passed over.
    said = wire.parse_control(msgspec.msgpack.encode([*msgspec.msgpack.decode(_payload(hello)), "more"]))
    assert said == hello
    end.session = node.greet(end, hello)
    node.flush()
    welcome = wire.parse_control(end.frames(wire.CONTROL)[0])
    assert isinstance(welcome, wire.Welcome)
    assert welcome.version == wire.VERSION


def test_an_answer_in_a_version_that_is_not_spoken_here_ends_the_call() -> None:
    node = Node(BrokerSettings("b").broker(), None, life="b")
    end, url = End(node), "fairlead://a:7400"
    node.neighbourhood.call(url)
    with pytest.raises(ProtocolError, match="version 5 of the protocol is not spoken here"):
        node.welcomed(end, url, wire.Welcome(5, "a", "b", life="a"))


def _payload(message: wire.Control) -> bytes:
    [(_, payload)] = wire.Frames().feed(wire.control(message))
    return bytes(payload)
