"""What a node has said to one it keeps, and nobody keeps others waiting: not the slow, not those who ask much."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import connect
from fairlead.broker.published import Published
from fairlead.errors import LogFull
from fairlead.log.records import PUBLICATION
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import ledger as ledgers
from fairlead.network import wire
from fairlead.network.client_sessions import ClientSession
from fairlead.network.ledger import Ledger
from fairlead.network.link_sessions import LinkSession
from fairlead.network.node import READ_AT_ONCE, Node
from fairlead.network.server import SILENT_S, Connection, Server
from fairlead.network.sessions import Session
from fairlead.network.settings import Address, BrokerSettings, Limits
from fairlead_lab.testing.memory import MemoryDisk

Frame = tuple[int, bytes]
NO_KIND = 99
"""Of records that mean nothing to a broker."""


@dataclass
class Peer:
    """The other end: what it was sent, and whether it is read from."""

    raw: bytes = b""
    full: int = 0
    paused: bool = False
    closed: bool = False
    frames: wire.Frames = field(default_factory=lambda: wire.Frames(1 << 24))

    def write(self, data: bytes) -> None:
        self.raw += data

    def buffered(self) -> int:
        return self.full

    def close(self) -> None:
        self.closed = True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def got(self) -> list[Any]:
        """What has come since: messages, (place, x) of deliveries, numbers that were acknowledged."""
        raw, self.raw = self.raw, b""
        return [_read(kind, payload) for kind, payload in self.frames.feed(raw)]

    def delivered(self) -> list[Any]:
        """The x of what was delivered since."""
        return [each[1] for each in self.got() if isinstance(each, tuple)]


def _read(kind: int, payload: bytes) -> Any:
    if kind == wire.CONTROL:
        return wire.parse_control(payload)
    if kind == wire.DELIVER:
        place, _, packed = wire.parse_deliver(payload)
        return place, unpack(packed).get("x")
    return wire.parse_numbered(payload)[0]


class Place:
    """A node on a disk, and whoever comes to it."""

    def __init__(self, disk: MemoryDisk | None = None, limits: Limits | None = None, **options: int) -> None:
        self.disk = disk or MemoryDisk()
        self.ledger = Ledger("/b", self.disk, **options)
        self.node = Node(BrokerSettings("b").broker(), self.ledger, limits, life="1", now=1)

    def client(self, name: str, policy: str = "") -> tuple[Peer, ClientSession]:
        peer = Peer()
        session = self.node.greet(peer, wire.Hello(wire.VERSION, "client", name, policy))
        assert isinstance(session, ClientSession)
        return peer, session

    def broker(self, name: str) -> tuple[Peer, LinkSession]:
        """A neighbour that asks for nothing."""
        peer = Peer()
        hello = wire.Hello(wire.VERSION, "broker", name, life="1", log="theirs", routing="filters")
        session = self.node.greet(peer, hello, 1)
        assert isinstance(session, LinkSession)
        return peer, session

    def say(self, session: Session, *said: wire.Control | Frame) -> None:
        frames = [each if isinstance(each, tuple) else frame(each) for each in said]
        self.node.receive(session, frames, 1)

    def step(self) -> None:
        """A turn of the loop, and a sync."""
        self.node.flush()
        if self.node.wants_sync:
            try:
                self.node.synced(self.ledger.log.sync())
            except LogFull as error:
                self.node.log_is_full(error, 1)
        self.node.flush()

    def settle(self) -> None:
        for _ in range(1_000):
            self.step()
            if not self.node.dirty and not self.node.wants_sync:
                return
        raise AssertionError("never quiet")

    def again(self, *, power: Random | None = None) -> Place:
        """The same after kill -9, or after a power failure."""
        disk = copy.deepcopy(self.disk)
        disk.room = None
        disk.lose_power(power) if power is not None else disk.kill()
        return Place(disk)


def frame(message: wire.Control) -> Frame:
    return wire.CONTROL, wire.control(message)[5:]


def publication(number: int, answer: bool = True, **fields: Any) -> Frame:
    packed = pack(Notification.of({"producer": "p", "id": f"i{number}", "x": number, **fields}))
    return wire.PUBLISH, wire.publish(number if answer else 0, packed)[5:]


def subscribed(
    number: int = 1, text: str = "x >= 0", *, durable: str = "", since: int | None = None
) -> wire.Control:
    return wire.Subscribe(number, "s", text, durable, since)


# -- what is acknowledged is safe ------------------------------------------------------------------------------


def room_while_the_disk_is_busy(place: Place, room: int, session: Session) -> None:
    """The log is full when a sync begins; while it waits for the disk there is room again, and more is written."""
    disk = place.disk
    disk.room, sync = disk.used() + room, disk.sync

    def busy(file: int) -> None:
        disk.sync = sync  # type: ignore[method-assign]
        sync(file)
        disk.room = None
        place.say(session, *(publication(number) for number in range(21, 51)))

    disk.sync = busy  # type: ignore[method-assign]
    with pytest.raises(LogFull) as raised:
        place.ledger.log.sync()
    place.node.log_is_full(raised.value, 1)
    place.node.flush()


def test_what_was_written_and_not_synced_when_the_disk_was_full_is_not_acknowledged() -> None:
    place = Place(buffer_bytes=2_000)
    peer, session = place.client("p")
    place.say(session, *(publication(number) for number in range(1, 21)))
    room_while_the_disk_is_busy(place, 300, session)
    assert place.ledger.log.synced < 20 <= place.ledger.log.end
    stored = [each for each in peer.got() if isinstance(each, int)]
    for seed in range(5):
        again = place.again(power=Random(seed))
        with again.ledger.reader(0, PUBLICATION) as reader:
            kept = {unpack(record.payload).get("x") for record in reader}
        assert set(range(1, max(stored, default=0) + 1)) <= kept


def test_a_durable_subscriber_misses_nothing_of_what_was_written_while_the_disk_was_full() -> None:
    place = Place(limits=Limits(window=3), buffer_bytes=2_000)
    _, publisher = place.client("p")
    listener, session = place.client("s")
    place.say(session, subscribed(durable="d"))
    place.settle()
    listener.got()
    place.say(publisher, *(publication(number) for number in range(1, 21)))
    room_while_the_disk_is_busy(place, 100, publisher)
    got: list[int] = []
    for _ in range(20):
        place.settle()
        new = [each for each in listener.got() if isinstance(each, tuple)]
        got += [x for _, x in new]
        place.say(session, wire.Accept("d", [at for at, _ in new]))
    assert got == list(range(1, 21))


def test_a_neighbour_is_told_that_something_is_safe_only_when_it_is() -> None:
    place = Place(buffer_bytes=2_000)
    _, session = place.broker("n")
    place.say(session, wire.Table([], []))
    place.settle()
    relayed = [pack(Notification.of({"producer": "q", "id": f"q{n}", "x": n})) for n in range(1, 21)]
    place.say(
        session,
        *((wire.RELAY, wire.relay(n, wire.NO_STAMP, packed)[5:]) for n, packed in enumerate(relayed, 1)),
    )
    _, publisher = place.client("p")
    room_while_the_disk_is_busy(place, 300, publisher)
    neighbour = place.node.persistence.state.neighbours["n"]
    assert neighbour.safe < neighbour.received == 20, "all have been written, not all are safe"
    place.settle()
    assert neighbour.safe == 20


# -- nothing is in memory that is not in the log ---------------------------------------------------------------


def fill(place: Place) -> None:
    """The disk has no room, and the log notices at once."""
    place.disk.room = place.disk.used()
    for size in (100, 0):
        with contextlib.suppress(LogFull):
            while True:
                place.ledger.log.append(NO_KIND, b"x" * size, 1)


def test_a_durable_subscription_that_was_refused_can_be_made_when_there_is_room() -> None:
    place = Place(buffer_bytes=2_000)
    peer, session = place.client("s")
    fill(place)
    place.say(session, subscribed(durable="d"))
    place.node.flush()
    assert isinstance(peer.got()[-1], wire.Refused)
    assert not place.node.durables
    place.disk.room = None
    place.settle()
    place.say(session, subscribed(2, durable="d"))
    place.settle()
    assert wire.Done(2) in peer.got()
    assert place.again().node.durables.keys() == {"d"}


@pytest.mark.parametrize("id", ["", "s"])
def test_a_durable_subscription_whose_end_was_refused_goes_on(id: str) -> None:
    place = Place(buffer_bytes=2_000)
    peer, session = place.client("s")
    place.say(session, subscribed(durable="d"))
    place.settle()
    fill(place)
    place.say(session, wire.Unsubscribe(2, id, "d"))
    place.node.flush()
    assert isinstance(peer.got()[-1], wire.Refused)
    place.disk.room = None
    place.settle()
    _, publisher = place.client("p")
    place.say(publisher, publication(1))
    place.settle()
    assert peer.delivered() == [1]
    place.say(session, wire.Unsubscribe(3, id, "d"))
    place.settle()
    assert wire.Done(3) in peer.got()
    assert not place.node.durables
    assert not place.again().node.durables


# -- what comes again ------------------------------------------------------------------------------------------


def test_what_was_sent_without_an_answer_is_logged_when_it_is_published() -> None:
    place = Place()
    listener, session = place.client("s")
    place.say(session, subscribed(durable="d"))
    place.settle()
    place.node.lost(session)
    peer, publisher = place.client("p")
    place.say(publisher, publication(1, answer=False), publication(1), publication(1, answer=False))
    place.say(
        publisher, publication(2, answer=False, tags=frozenset({"a"})), publication(2, tags=frozenset({"a"}))
    )
    place.settle()
    assert peer.got()[-1] == 2
    listener, session = place.client("s")
    place.say(session, subscribed(durable="d"))
    place.settle()
    assert listener.delivered() == [1, 2]


def test_what_others_send_without_an_answer_does_not_make_a_publication_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairlead.broker.published.SENT", 10)
    place = Place()
    listener, session = place.client("s")
    place.say(session, subscribed(durable="d"))
    _, publisher = place.client("p")
    _, other = place.client("o")
    place.say(publisher, publication(1))
    place.node.lost(publisher)
    place.say(other, *(publication(n, answer=False, producer="o") for n in range(100, 200)))
    peer, publisher = place.client("p")
    place.say(publisher, publication(1))
    place.settle()
    assert Counter(listener.delivered())[1] == 1
    assert peer.got()[-1] == 1


def test_a_publication_is_known_after_a_restart_however_much_was_relayed_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledgers, "REMEMBERED", 10)
    disk = MemoryDisk()
    ledger = Ledger("/b", disk)
    ledger.note(ledgers.Linked("n", ""), 0)
    published = [pack(Notification.of({"producer": "p", "id": str(n)})) for n in range(-1, 10)]
    ledger.publications_of(published, 0)
    for n in range(1, 36):
        ledger.arrivals("n", [(wire.relay(n, wire.NO_STAMP, b"x")[5:], n)], 0)
    ledger.close()
    again = Ledger("/b", disk)
    assert again.identities == [("p", str(n)) for n in range(10)]
    again.arrivals("n", [(wire.relay(n, wire.NO_STAMP, b"x")[5:], n) for n in range(36, 200)], 0)
    again.close()
    assert Ledger("/b", disk).identities == [], "not without end: starting must not take long"


identities = st.tuples(st.sampled_from("abcd"), st.integers(0, 12).map(str))


@given(st.lists(identities, max_size=120))
def test_the_latest_of_each_producer_are_known_as_long_as_there_is_room_for_all(
    given: list[tuple[str, str]],
) -> None:
    """Against a list: four producers with three each at least, and twelve in all, so none has to go."""
    memory = Published(each=8, fair=3, total=20)
    taken: list[tuple[str, str]] = []
    for identity in given:
        fair = [each for each in taken if each[0] == identity[0]][-3:]
        is_new = memory.take_identity(identity)
        assert not (is_new and identity in fair)
        assert is_new or identity in taken
        if is_new:
            taken = [each for each in taken if each != identity]
            taken.append(identity)
        assert identity in memory
        assert len(memory) <= 20


@given(
    st.lists(
        st.tuples(
            st.booleans(), st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from("1234567")), max_size=5)
        ),
        max_size=30,
    )
)
def test_several_identities_are_taken_as_each_of_them_is(
    batches: list[tuple[bool, list[tuple[str, str]]]],
) -> None:
    memory, other = Published(each=5, fair=3, total=8), Published(each=5, fair=3, total=8)
    for is_logged, batch in batches:
        if batch and is_logged:
            new = memory.take_all(batch)
            assert [other.take_identity(each) for each in batch] == (new or [True] * len(batch))
            assert len(memory) == len(other)
        elif batch:
            new = memory.sent.take_all(batch)
            assert [other.sent.take_identity(each) for each in batch] == (new or [True] * len(batch))
        identities = [(producer, id) for producer in "pq" for id in "1234567"]
        assert [each in memory for each in identities] == [each in other for each in identities]
        assert [each in memory.sent for each in identities] == [each in other.sent for each in identities]


def test_who_is_silent_for_longest_is_forgotten_when_there_are_too_many() -> None:
    memory = Published(each=8, fair=3, total=20)
    for number in range(30):
        memory.take_identity((f"p{number}", "1"))
    assert ("p0", "1") not in memory
    assert ("p29", "1") in memory
    memory.forget(("p29", "1"))
    assert memory.take_identity(("p29", "1"))


# -- retention, and who is overtaken by it ---------------------------------------------------------------------


def overtaken(limits: Limits) -> tuple[Place, Peer, ClientSession]:
    """A reader of the past, and retention that has removed much of what it has not read."""
    place = Place(segment_bytes=2_000, limits=limits)
    _, publisher = place.client("p")
    for number in range(1, 400):
        place.say(publisher, publication(number))
        place.step()
    peer, session = place.client("slow")
    return place, peer, session


def retain(place: Place) -> int:
    place.ledger.gather(1)
    place.node.save(1)
    return place.ledger.retain(10**15, max_bytes=100)


def test_a_reader_of_the_past_that_retention_overtakes_goes_on_and_learns_of_the_gap() -> None:
    place, peer, session = overtaken(Limits(window=4))
    place.say(session, subscribed(since=0))
    place.settle()
    first = retain(place)
    arrived: list[Any] = peer.got()
    for _ in range(200):
        places = [each[0] for each in arrived if isinstance(each, tuple)]
        place.say(session, wire.Accept("c:slow#s", places[-4:]))
        place.settle()
        arrived += (new := peer.got())
        if not new:
            break
    told: list[Any] = [each for each in arrived if isinstance(each, wire.Dropped | tuple)]
    [gap] = [at for at, each in enumerate(told) if isinstance(each, wire.Dropped)]
    before, after = told[gap - 1], told[gap + 1]
    assert after[0] == first + 1, "it goes on with the first record that is there"
    assert told[gap].count == after[0] - before[0] - 1 > 100
    assert [each[1] for each in told[gap + 1 :]] == list(range(after[1], 400))
    _, publisher = place.client("p")
    place.say(publisher, publication(1_000))
    place.settle()
    assert peer.delivered() == [1_000]


def test_a_full_reader_that_retention_overtakes_keeps_nobody_from_getting_answers() -> None:
    place, peer, session = overtaken(Limits(buffer_bytes=4_096, window=300))
    other, asking = place.client("other")
    place.say(session, subscribed(since=0))
    place.settle()
    [durable] = place.node.durables.values()
    assert 1 < durable.looked < retain(place), "it has begun to read, and what comes next is gone"
    peer.full = 1 << 20
    session.tell(wire.Pong())
    place.node.flush()
    place.say(session, wire.Accept(durable.name, [at for at, _ in filter(is_delivery, peer.got())]))
    place.node.flush()
    peer.full = 0
    session.tell(wire.Pong())
    place.say(asking, wire.ReportRequest(1, "status"))
    place.settle()
    assert isinstance(other.got()[-1], wire.Response)
    assert peer.delivered()[-1] == 399


def is_delivery(each: Any) -> bool:
    return isinstance(each, tuple)


def test_what_fails_for_one_connection_fails_for_no_other() -> None:
    place = Place()
    broken, failing = place.client("failing")
    listener, session = place.client("s")
    peer, publisher = place.client("p")
    place.say(failing, subscribed(durable="d"))
    place.say(session, subscribed())
    place.settle()

    def fail(*_: Any) -> None:
        raise RuntimeError("broken")

    place.node.dispatch.after_sync(fail)
    broken.write = fail  # type: ignore[method-assign, assignment]
    failing.tell(wire.Pong())
    place.say(publisher, publication(1))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fairlead.network.node.log.error", lambda *_, **__: None)
        patched.setattr("fairlead.network.dispatch.log.exception", lambda *_, **__: None)
        patched.setattr(Peer, "close", lambda self: None)
        place.settle()
    assert failing.ended
    assert (listener.delivered(), peer.got()[-1]) == ([1], 1)
    back, session = place.client("failing")
    place.say(session, subscribed(durable="d"))
    place.settle()
    assert back.delivered() == [1], "and it is not lost to the one, either"


# -- turns -----------------------------------------------------------------------------------------------------


def test_reading_the_past_takes_turns_with_what_others_ask() -> None:
    place = Place(limits=Limits(window=10_000))
    packed = [publication(number)[1][8:] for number in range(4 * READ_AT_ONCE)]
    place.ledger.publications_of(packed, 1)
    place.node.synced(place.ledger.log.sync())
    readers = [place.client(f"reader{number}") for number in range(3)]
    other, asking = place.client("other")
    for _, session in readers:
        place.say(session, subscribed(text="x < 0", since=0))
    place.step()
    turns = 0
    while place.node.dirty:
        turns += 1
        before = looked(place.node)
        place.say(asking, wire.ReportRequest(turns, "status"))
        place.node.flush()
        assert looked(place.node) - before <= READ_AT_ONCE
        assert isinstance(other.got()[-1], wire.Response)
    assert turns >= 3 * 4 - 1
    assert all(durable.live for durable in place.node.durables.values())


def looked(node: Node) -> int:
    return sum(durable.looked for durable in node.durables.values())


def test_those_who_read_the_past_come_by_turns() -> None:
    place = Place()
    packed = [publication(number)[1][8:] for number in range(8 * READ_AT_ONCE)]
    place.ledger.publications_of(packed, 1)
    place.node.synced(place.ledger.log.sync())
    for number in range(4):
        place.say(place.client(f"reader{number}")[1], subscribed(text="x < 0", since=0))
    place.step()
    for _ in range(8):
        place.node.flush()
    assert all(durable.looked > READ_AT_ONCE for durable in place.node.durables.values())


def test_questions_are_answered_a_few_at_a_time_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.network.node.ANSWERED_AT_ONCE", 100)
    place = Place()
    peer, session = place.client("c")
    other, asking = place.client("other")
    place.node.flush()
    place.say(
        session,
        *(wire.ReportRequest(number, "status") for number in range(1, 51)),
        subscribed(99),
        publication(7),
    )
    place.say(session, wire.ReportRequest(51, "nothing of the kind"))
    assert peer.paused
    turns = 0
    while session.inflow.frames:
        turns += 1
        place.node.flush()
        place.say(asking, wire.ReportRequest(turns, "tables"))
    place.settle()
    assert turns >= 50
    assert sum(isinstance(each, wire.Response) for each in other.got()) == turns
    answers = peer.got()[1:]
    told = [each.number for each in answers if isinstance(each, wire.Response | wire.Refused)]
    assert told == list(range(1, 52))
    assert [each for each in answers if isinstance(each, wire.Done | int)] == [wire.Done(99), 7]
    assert not peer.paused


def test_whoever_does_not_read_the_answers_is_heard_no_further() -> None:
    place = Place(limits=Limits(buffer_bytes=4_096))
    peer, session = place.client("c")
    place.say(session, *(subscribed(number, f"x = {number}") for number in range(1)))
    place.settle()
    peer.full = 1 << 20
    place.say(session, *(wire.ReportRequest(number, "status") for number in range(1, 1_001)))
    for _ in range(100):
        place.node.flush()
    waiting = sum(isinstance(each, wire.Response) for each in peer.got())
    assert waiting * 300 < 10 * 4_096
    assert peer.paused
    peer.full = 0
    place.node.drained(session)
    place.settle()
    assert waiting + sum(isinstance(each, wire.Response) for each in peer.got()) == 1_000
    assert not peer.paused


# -- somebody cannot keep up -----------------------------------------------------------------------------------


def blocked() -> tuple[Place, Peer, ClientSession]:
    place = Place(limits=Limits(buffer_bytes=4_096, queue=10))
    peer, slow = place.client("slow", "block")
    _, publisher = place.client("p")
    place.say(slow, subscribed())
    place.settle()
    peer.full = 1 << 20
    number = 0
    while not place.node.backpressure.blocking:
        number += 1
        place.say(publisher, publication(number, answer=False, text="y" * 500))
    return place, peer, slow


def test_whoever_connects_and_publishes_for_one_who_cannot_keep_up_waits() -> None:
    place, slow, session = blocked()
    waiting = len(session.backlog)
    neighbour, link = place.broker("n")
    peer, late = place.client("late")
    place.say(late, *(publication(number, producer="late") for number in range(100)))
    place.say(link, wire.Table([], []))
    place.say(link, frame(wire.Ping()))
    place.step()
    assert peer.paused
    assert not neighbour.paused
    assert any(isinstance(each, wire.Pong) for each in neighbour.got())
    assert len(session.backlog) == waiting
    assert not [each for each in peer.got() if isinstance(each, int)]
    slow.full = 0
    place.node.drained(session)
    place.settle()
    assert not peer.paused
    assert not neighbour.paused
    assert peer.got()[-1] == 99
    assert slow.delivered()[-100:] == list(range(100))


def test_a_link_that_is_not_read_from_is_not_silent_and_is_spoken_to() -> None:
    place, _, _ = blocked()
    neighbour, link = place.broker("n")
    place.step()
    neighbour.got()

    class Connected:
        session, last_read, last_ping, is_read, aborted = link, 0.0, 0.0, False, False

        def abort(self) -> None:
            self.aborted = True

    connection: Any = Connected()
    look_after: Callable[[Server, Connection, float], None] = Server._look_after
    server: Any = None
    pings = 0
    for now in range(1, int(4 * SILENT_S)):
        look_after(server, connection, float(now))
        place.step()
        pings += sum(isinstance(each, wire.Ping) for each in neighbour.got())
    assert not connection.aborted
    assert pings >= 4 * 2, "the other side hears from us in time"
    connection.is_read = True
    look_after(server, connection, 4 * SILENT_S)
    assert connection.aborted


# -- whether anyone listens ------------------------------------------------------------------------------------


def test_whether_anyone_listens_is_looked_at_when_something_has_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Place()
    peer, session = place.client("p")
    _, other = place.client("s")
    place.say(session, wire.Listen(1, "l", "x > 5"))
    place.node.tick(1)
    looks = 0
    tell = place.node.clientele._tell_listening

    def counting(session: ClientSession, id: str) -> None:
        nonlocal looks
        looks += 1
        tell(session, id)

    monkeypatch.setattr(place.node.clientele, "_tell_listening", counting)
    for _ in range(5):
        place.node.tick(1)
    assert looks == 0
    place.say(other, subscribed())
    for _ in range(5):
        place.node.tick(1)
    assert looks == 1
    place.settle()
    assert [each.anyone for each in peer.got() if isinstance(each, wire.Listening)] == [False, True]


def test_whether_anyone_listens_is_looked_at_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.network.clientele.COMPARED_AT_ONCE", 3)
    place = Place()
    peer, session = place.client("p")
    _, other = place.client("s")
    place.say(session, *(wire.Listen(number, f"l{number}", "x > 5") for number in range(1, 9)))
    place.settle()
    place.node.tick(1)
    place.say(other, subscribed())
    place.settle()
    peer.got()
    for expected in (2, 4, 6, 8):
        place.node.tick(1)
        place.settle()
        told = [each.id for each in peer.got() if isinstance(each, wire.Listening)]
        assert told == [f"l{expected - 1}", f"l{expected}"]


# -- what was accepted -----------------------------------------------------------------------------------------


def accepted() -> tuple[Place, Peer, ClientSession]:
    """A durable subscriber that has accepted all it got, and nothing is saved."""
    place = Place()
    peer, session = place.client("s")
    _, publisher = place.client("p")
    place.say(session, subscribed(durable="d"))
    place.settle()
    place.say(publisher, *(publication(number) for number in range(1, 6)))
    place.settle()
    places = [each[0] for each in peer.got() if isinstance(each, tuple)]
    assert len(places) == 5
    place.say(session, wire.Accept("d", places))
    return place, peer, session


def comes_again(place: Place) -> list[Any]:
    again = place.again()
    peer, session = again.client("s")
    again.say(session, subscribed(durable="d"))
    again.settle()
    return peer.delivered()


def test_what_was_accepted_is_safe_when_it_is_said_that_the_subscriber_is_let_go_of() -> None:
    place, peer, session = accepted()
    before = place.ledger.log.sync()
    place.say(session, wire.Release(9, "d"))
    place.node.synced(before)  # of a sync that was under way: it tells nothing of what came after it
    place.node.flush()
    assert wire.Done(9) not in peer.got()
    assert comes_again(place) == [1, 2, 3, 4, 5]
    place.settle()
    assert wire.Done(9) in peer.got()
    assert comes_again(place) == []


def test_what_was_accepted_is_safe_with_the_next_sync_when_the_connection_ends() -> None:
    place, _, session = accepted()
    place.say(session, wire.Bye("done"))
    assert place.node.wants_sync
    place.settle()
    assert comes_again(place) == []


def test_what_was_accepted_is_not_said_to_be_safe_while_the_disk_is_full() -> None:
    place, peer, session = accepted()
    place.disk.room = place.disk.used()
    place.say(session, wire.Release(9, "d"))
    place.step()
    place.step()
    assert wire.Done(9) not in peer.got()
    place.disk.room = None
    place.settle()
    assert wire.Done(9) in peer.got()
    assert comes_again(place) == []


def test_what_was_accepted_is_saved_though_the_log_is_always_being_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.network.server.SAVE_S", 0.0)
    monkeypatch.setattr("fairlead.network.server.HOUSEKEEPING_S", 0.001)

    async def main() -> None:
        server = Server(BrokerSettings("b", Address("127.0.0.1", 0), str(tmp_path)))
        await server.start()
        ledger = server.node.ledger
        assert ledger is not None
        async with connect(server.url) as client, client.subscribe("exists x", durable="d") as kept:
            await client.publish({"x": 1})
            await (await kept.delivery()).accept()
            server._syncing = syncing = server.loop.create_future()
            async with asyncio.timeout(10.0):
                while ledger.log.cursors.get("sub:d") != ledger.content:
                    await asyncio.sleep(0.001)
            server._syncing = None
            syncing.cancel()
        await server.stop()

    asyncio.run(main())


def test_nobody_is_behind_who_has_accepted_all() -> None:
    place, _, session = accepted()
    place.node.lost(session)
    place.settle()
    assert place.node.status()["durables"]["d"] == {
        "connected": False,
        "outflow": "away, idle",
        "behind": 0,
        "in_flight": 0,
    }
