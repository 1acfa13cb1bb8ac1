"""A line of brokers delivers what its subscribers ask for, in its order, however much of it travels in one frame.

Nodes without sockets: what was written is carried on by the test.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.link_sessions import RELAYS_BYTES
from fairlead.network.relays import Relays
from fairlead_lab.testing.nodes import End, Line


def subscribed(line: Line, at: int, name: str, *filters: str) -> End:
    end = line.client(at, name)
    for number, text in enumerate(filters, 1):
        end.hear(wire.control(wire.Subscribe(number, f"s{number}", text)))
    line.settle()
    return end


def delivered(end: End) -> list[Notification]:
    return [unpack(wire.parse_deliver(payload)[2]) for payload in end.frames(wire.DELIVER)]


def notification(number: int, **fields: object) -> Notification:
    return Notification.of({**fields, "producer": "p", "id": f"{number}"})


def published(notifications: Iterable[Notification], number: int = 0) -> bytes:
    return b"".join(wire.publish(number, pack(each)) for each in notifications)


FILTERS = ("x >= 0", "x > 3", "x < 3", 'y = "a"', "x = 2 or z = 1", "z.w = 1", "exists z")
VALUES = st.one_of(
    st.fixed_dictionaries({"x": st.integers(0, 5), "y": st.sampled_from("ab")}),
    st.just({"x": 1 << 80}),  # JSON text
    st.just({"z": {"w": 1}}),  # not plain
    st.just({"x": float("nan")}),
)
ASK = "ask"


@given(
    asked=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(FILTERS)), min_size=1, max_size=4),
    steps=st.lists(st.tuples(st.booleans(), VALUES) | st.just(ASK), max_size=25),
    cuts=st.lists(st.integers(1, 3_000), max_size=4),
)
def test_everybody_gets_what_matches_in_the_order_of_publishing(
    asked: list[tuple[int, str]], steps: list[tuple[bool, dict[str, object]] | str], cuts: list[int]
) -> None:
    line = Line(frame_bytes=wire.FRAME_MIN)
    subscribers = [(subscribed(line, at, f"s{n}", text), text) for n, (at, text) in enumerate(asked)]
    publisher = line.client(0, "p")
    notifications, raw = [], b""
    for number, step in enumerate(steps, 1):
        if isinstance(step, str):  # what brokers tell each other comes in between, over the same links
            raw += wire.control(wire.Subscribe(number, f"s{number}", f"q = {number}"))
        else:
            is_logged, fields = step
            notifications.append(notification(number, **fields))
            raw += wire.publish(number * is_logged, pack(notifications[-1]))
    for start, stop in pairwise(sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})):
        publisher.hear(raw[start:stop])
        if stop % 2:
            line.settle()
    line.settle()
    for end, text in subscribers:
        filter = parse(text)
        assert [each.id for each in delivered(end)] == [n.id for n in notifications if filter.matches(n)]


def test_what_goes_one_way_travels_in_one_frame_as_it_came() -> None:
    line = Line(4)
    end = subscribed(line, 3, "s", "x > 0", "x > 50")
    sent = [notification(number, x=number, text="t" * (number % 7)) for number in range(1, 101)]
    line.client(0, "p").hear(published(sent))
    line.settle()
    frames = [left.frames(wire.RELAYS, wire.RELAY) for left, _ in line.links]
    assert frames == [frames[0]] * 3
    [payload] = frames[0]
    assert [unpack(each) for each in Relays.read(payload).each] == sent == delivered(end)


def test_a_long_frame_goes_on_with_the_checksum_that_it_came_with(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line(5)
    end = subscribed(line, 4, "s", "x > 0")
    sent = [notification(number, x=number, text="t" * 900) for number in range(1, 101)]
    checked = list[int]()
    pieces = wire.checked_pieces
    monkeypatch.setattr(
        wire,
        "checked_pieces",
        lambda parts, limit: checked.append(sum(map(len, parts))) or pieces(parts, limit),
    )
    line.client(0, "p").hear(published(sent))
    line.settle()
    assert delivered(end) == sent
    large = [size for size in checked if size > 10_000]
    assert len(large) == 2
    assert sum(large) > 100 * 900  # by the first broker: the others send on what they have verified


def test_those_who_part_are_cut_and_nobody_gets_what_is_for_others() -> None:
    line = Line(3)
    near, far = subscribed(line, 1, "near", "x < 3"), subscribed(line, 2, "far", "x >= 2")
    sent = [notification(number, x=number % 5) for number in range(20)]
    line.client(0, "p").hear(published(sent))
    line.settle()
    assert [len(left.frames(wire.RELAYS)) for left, _ in line.links] == [1, 1]
    [payload] = line.links[1][0].frames(wire.RELAYS)
    assert Relays.read(payload).count == 12
    assert delivered(near) == [each for each in sent if each.attributes["x"] < 3]
    assert delivered(far) == [each for each in sent if each.attributes["x"] >= 2]


def test_no_frame_is_longer_than_its_receiver_takes() -> None:
    line = Line(3, frame_bytes=wire.FRAME_MIN)
    end = subscribed(line, 2, "s", "exists x")
    sent = [notification(number, x=number, text="t" * 300) for number in range(20)]
    sent.append(notification(99, x=0, text="t" * 2_000))
    line.client(0, "p").hear(published(sent))
    line.settle()
    assert delivered(end) == sent[:-1]
    assert max(map(len, line.links[1][0].frames(wire.RELAYS))) < wire.FRAME_MIN
    assert line.nodes[0].counters.dropped == 1


def test_frames_of_several_end_before_they_are_long() -> None:
    line = Line(2)
    end = subscribed(line, 1, "s", "exists x")
    sent = [notification(number, x=number, text="t" * 900) for number in range(100)]
    publisher = line.client(0, "p")
    for some in (sent[:1], sent[1:40], sent[40:]):
        publisher.hear(published(some))
    line.settle()
    assert len(line.links[0][0].frames(wire.RELAYS)) == 2
    publisher.hear(published(notification(number + 100, x=number, text="t" * 900) for number in range(500)))
    line.settle()
    assert [each.id for each in delivered(end)] == [f"{number}" for number in range(600)]
    lengths = [len(payload) for payload in line.links[0][0].frames(wire.RELAYS)]
    assert len(lengths) == 10
    assert max(lengths) <= RELAYS_BYTES


def test_what_is_published_again_goes_no_further() -> None:
    line = Line(2)
    end = subscribed(line, 1, "s", "exists x")
    sent = [notification(number, x=number) for number in range(10)]
    publisher = line.client(0, "p")
    publisher.hear(published(sent[:5]))
    publisher.hear(published([*sent, *sent[7:]]))
    publisher.hear(
        published(sent[9:], number=1)
    )  # in no log yet, so it is new to those that ask for an answer
    publisher.hear(published(sent))
    line.settle()
    assert delivered(end) == [*sent, sent[9]]


def test_a_notification_does_not_go_on_in_the_next_frame() -> None:
    line = Line(2)
    ends = [subscribed(line, at, f"s{at}", "exists x") for at in (0, 1)]
    raw = published([notification(1, x=1), notification(2, x=2)])
    [(_, one), (_, other)] = ((kind, payload[8:]) for kind, payload in wire.Frames().feed(raw))
    publisher = line.client(0, "p")
    for cut in (1, len(other) - 1):
        publisher.hear(wire.publish(0, one + other[:cut]) + wire.publish(0, other[cut:]))
    publisher.hear(published([notification(3, x=3)]))
    line.settle()
    assert [[each.id for each in delivered(end)] for end in ends] == [["3"], ["3"]]
    assert line.nodes[0].counters.refused == 4


def test_a_connection_that_ends_has_sent_whole_frames() -> None:
    line = Line(2)
    subscribed(line, 1, "s", "exists x")
    sent = [notification(number, x=number) for number in range(3)]
    line.client(0, "p").hear(published(sent))
    left, right = line.links[0]
    left.session.end("enough")
    assert left.closed
    reader = wire.Frames()
    kinds = [kind for kind, _ in reader.feed(left.take())]
    assert (kinds, reader.waiting) == ([wire.RELAYS, wire.CONTROL], 0)
    assert not right.closed


PLAIN = pack(notification(1, x=1))


def frame_of(raw: bytes) -> bytes:
    return struct.pack("<IB", len(raw) + 1, wire.RELAYS) + raw


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "without their number"),
        (b"\xdd\0\0\0", "without their number"),
        (b"\x91" + PLAIN, "without their number"),
        (wire.relays_array(2) + PLAIN, "not an array of packed notifications"),
        (wire.relays_array(1) + PLAIN + PLAIN, "not an array of packed notifications"),
        (wire.relays_array(2**32 - 1) + PLAIN, "not an array of packed notifications"),
        (wire.relays_array(2) + PLAIN + b"\xc1", "not an array of packed notifications"),
        (wire.relays_array(2) + PLAIN + b"\x07", "not a packed notification"),
        (wire.relays_array(1) + b"{", "JSON"),
        (wire.relays_array(1) + b"\x91" * 5_000 + b"\x07", "not an array of packed notifications"),
        (wire.relays_array(1) + msgspec.msgpack.encode(["p", "1", {"time": "soon"}]), "not an instant"),
    ],
)
def test_a_frame_of_several_that_is_none_ends_its_connection_only(raw: bytes, reason: str) -> None:
    line = Line(3)
    end = subscribed(line, 2, "s", "exists x")
    line.links[0][1].hear(frame_of(raw))
    assert line.links[0][1].closed
    *_, last = line.links[0][1].frames(wire.CONTROL)
    bye = wire.parse_control(last)
    assert isinstance(bye, wire.Bye)
    assert reason in bye.reason
    line.client(1, "p").hear(published([notification(7, x=7)]))
    line.settle()
    assert [each.id for each in delivered(end)] == ["7"]


@given(st.lists(st.binary(max_size=30) | st.just(PLAIN), max_size=5), st.integers(-1, 1))
def test_whatever_comes_in_a_frame_of_several_others_go_on(bodies: list[bytes], more: int) -> None:
    line = Line(2)
    end = subscribed(line, 1, "s", "exists x")
    count = max(0, len(bodies) + more)
    line.links[0][1].hear(frame_of(wire.relays_array(count) + b"".join(bodies)))
    line.client(1, "p").hear(published([notification(7, x=7)]))
    line.settle()
    assert delivered(end)[-1].id == "7"


def test_none_in_a_frame_is_nothing() -> None:
    line = Line(2)
    line.links[0][1].hear(frame_of(wire.relays_array(0)))
    line.settle()
    assert not line.links[0][1].closed
