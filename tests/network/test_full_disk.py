"""A disk that backlogs have filled has room again after `forget` and retention, whatever else wants room on it."""

from __future__ import annotations

import pytest

from fairlead.errors import LogFull
from fairlead.log import identities
from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.network import wire
from fairlead.network.ledger import IDENTITIES_CURSOR, Ledger
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings
from fairlead_lab.testing.memory import MemoryDisk
from fairlead_lab.testing.nodes import End

ROOM, RESERVE, SEGMENT = 40_000, 2_000, 4_000


class Host:
    """A broker on a small disk, which is driven as the server drives one."""

    def __init__(self) -> None:
        self.disk = MemoryDisk(room=ROOM)
        self.now = self.number = 0
        self.start()

    def start(self) -> None:
        self.ledger = Ledger("/b", self.disk, segment_bytes=SEGMENT, reserve_bytes=RESERVE)
        self.node = Node(BrokerSettings("b").broker(), self.ledger, life="b")

    def client(self, name: str) -> End:
        end = End(self.node)
        end.session = self.node.greet(end, wire.Hello(wire.VERSION, "client", name))
        return end

    def settle(self) -> None:
        for _ in range(10):
            self.node.flush()
            if not (self.node.wants_sync or self.ledger.log.cursors.changed):
                return
            try:
                self.node.synced(self.ledger.log.sync())
            except LogFull as error:
                self.node.log_is_full(error, self.now)
        raise AssertionError("what waits for the disk waits for ever")

    def publish(self, text: str = "") -> bool:
        """Publish over a connection of its own; whether it was acknowledged."""
        self.number += 1
        source = self.client(f"p{self.number}")
        notification = Notification.of({"x": 1, "text": text, "producer": "p", "id": str(self.number)})
        source.hear(wire.publish(1, pack(notification)))
        self.settle()
        is_acknowledged = not source.session.ended
        self.node.lost(source.session)
        return is_acknowledged

    def fill(self) -> None:
        """Publish until the disk has no room, not even for the cursors; others take what is left of it."""
        while self.publish("x" * 300):
            pass
        while self.publish():
            pass
        self.disk.room = self.disk.used()

    def subscribe(self, name: str) -> None:
        desk = self.client(name)
        desk.hear(wire.control(wire.Subscribe(1, "s", "exists x", durable=name)))
        self.settle()
        self.node.lost(desk.session)

    def forget(self, name: str) -> None:
        operator = self.client("operator")
        operator.hear(wire.control(wire.Unsubscribe(1, "", durable=name)))
        self.settle()
        assert name not in self.ledger.state.durables
        assert not operator.session.ended
        self.node.lost(operator.session)

    def write_identities(self) -> None:
        """What the server does beside its loop."""
        if self.ledger.begin_writing_identities(self.node.dispatch.reached, self.now):
            try:
                self.ledger.identities_written(self.ledger.firsts.write(self.now))
            except OSError:
                self.ledger.firsts.abandon()

    def keep_house(self) -> None:
        """A second of the server's housekeeping."""
        self.now += 1_000_000
        self.node.tick(self.now)
        self.node.save(self.now)
        self.ledger.retain(self.now, max_bytes=2 * SEGMENT)
        self.write_identities()
        self.settle()

    def files(self) -> list[str]:
        return sorted(self.disk.names("/b/identities"))


def full() -> Host:
    """A broker whose disk is full of what a durable subscriber has not received."""
    host = Host()
    host.subscribe("dead")
    for _ in range(5):
        assert host.publish()
    host.now += identities.WRITE_US
    host.write_identities()
    assert host.ledger.log.cursors[IDENTITIES_CURSOR] > 0
    host.fill()
    return host


def test_a_full_disk_is_known_from_the_first_refusal_on() -> None:
    host = full()
    assert host.ledger.is_full
    log = host.node.status()["log"]
    assert log is not None
    assert log["full"]
    host.keep_house()
    assert host.ledger.is_full
    host.disk.room = None
    host.keep_house()
    assert not host.ledger.is_full
    assert host.publish("x" * 300)


def test_what_could_be_synced_ends_a_full_disk() -> None:
    host = full()
    host.disk.room = host.disk.used() + 500  # less than the reserve
    host.ledger.look_for_room()
    assert host.publish()
    assert not host.ledger.is_full


def test_forget_and_retention_make_room_on_a_full_disk() -> None:
    host = full()
    before = host.ledger.log.first
    for _ in range(3):
        host.keep_house()
    assert host.ledger.log.first == before  # it is all needed
    assert not host.publish()
    host.forget("dead")
    for _ in range(8):
        host.keep_house()
    assert host.ledger.log.first > before
    assert not host.ledger.is_full
    for _ in range(5):
        assert host.publish("x" * 300)
    assert host.ledger.log.reserve.is_held


def test_identities_that_cannot_be_written_leave_no_files_and_are_written_when_there_is_room() -> None:
    host = full()
    files = host.files()
    host.now += identities.RETRY_US
    for _ in range(30):
        host.keep_house()
        assert host.ledger.firsts.has_failed
        assert host.files() == files
    known = len(host.ledger.firsts)
    host.forget("dead")
    for _ in range(12):
        host.keep_house()
    assert not host.ledger.firsts.has_failed
    assert host.ledger.log.cursors[IDENTITIES_CURSOR] >= host.ledger.log.first
    assert len(host.ledger.firsts) == known
    host.node.close(host.now)
    host.start()
    assert len(host.ledger.firsts) == known


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_broker_starts_on_a_full_disk_and_recovers(is_forgotten: bool) -> None:
    host = full()
    host.keep_house()
    if is_forgotten:
        host.forget("dead")
    host.disk.kill()
    host.start()
    if not is_forgotten:
        assert not host.publish("x" * 300)
        host.forget("dead")
    for _ in range(8):
        host.keep_house()
    assert host.publish("x" * 300)
    assert not host.ledger.is_full


def test_identities_hold_retention_back_while_they_can_be_written() -> None:
    host = Host()
    host.publish()
    host.now += identities.WRITE_US
    host.write_identities()
    cursor = host.ledger.log.cursors[IDENTITIES_CURSOR]
    for _ in range(40):
        assert host.publish("x" * 300)
    assert host.ledger.retain(host.now, max_bytes=1) <= cursor
    host.now += identities.WRITE_US
    host.write_identities()
    assert host.ledger.retain(host.now, max_bytes=1) > cursor
