"""Attempts, deadlines, dead letters and shared subscribers over nodes: who is handed what, and what counts."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import sync, wire
from fairlead.network.ledger import Ledger
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings
from fairlead.security import Principal
from fairlead_lab.testing.brokers import Brokers
from fairlead_lab.testing.memory import MemoryDisk
from fairlead_lab.testing.nodes import End

S = 1_000_000


class Got(NamedTuple):
    """A delivery as a client sees it."""

    x: int
    attempt: int
    ordinal: int


class Worker(End):
    """A client that subscribes under a durable name."""

    number = 0

    def got(self) -> list[Got]:
        found = []
        for payload in self.frames(wire.DELIVER):
            ordinal, head, packed = wire.parse_deliver(payload)
            found.append(Got(unpack(packed).get("x"), wire.attempt_in(head)[1], ordinal))
        return found

    def refusals(self) -> list[str]:
        told = map(wire.parse_control, self.frames(wire.CONTROL))
        return [each.reason for each in told if isinstance(each, wire.Refused)]


class Host:
    """One broker with a log in memory, which can be killed, and a clock that the test moves."""

    def __init__(self) -> None:
        self.disk, self.now, self.published = MemoryDisk(), 0, 0
        self.open()

    def open(self) -> None:
        ledger = Ledger("/log", self.disk, broker="hub", now=self.now)
        self.node = Node(BrokerSettings("hub").broker(), ledger, life="1", now=self.now)
        self.publisher = self.client("publisher")

    def client(self, name: str) -> Worker:
        end = Worker(self.node)
        hello = wire.Hello(wire.VERSION, "client", name)
        end.session = self.node.greet(end, hello, self.now, principal=Principal(name))
        return end

    def worker(self, name: str, filter: str = "exists x", durable: str = "work", **terms: object) -> Worker:
        end = self.client(name)
        self.say(end, wire.Subscribe(1, f"{durable}:{filter}", filter, durable, **terms))  # type: ignore[arg-type]
        return end

    def say(self, end: End, *messages: wire.Control) -> None:
        frames = [frame for each in messages for frame in wire.Frames().feed(wire.control(each))]
        self.node.receive(end.session, frames, self.now)
        self.settle()

    def publish(self, *each: int, **others: object) -> None:
        for x in each:
            self.published += 1
            notification = Notification.of({"x": x, "producer": "p", "id": str(self.published), **others})
            frames = wire.Frames().feed(wire.publish(self.published, pack(notification)))
            self.node.receive(self.publisher.session, frames, self.now)
        self.settle()

    def accept(self, end: Worker, *each: Got) -> None:
        self.say(end, wire.Accept("work", [got.ordinal for got in each]))

    def reject(self, end: Worker, got: Got, after: int = 0, reason: str = "") -> None:
        self.say(end, wire.Reject("work", got.ordinal, True, after, reason))

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * S)
        self.node.tick(self.now)
        self.settle()

    def lose(self, end: End) -> None:
        self.node.lost(end.session)
        self.settle()

    def restart(self, *, save: bool = True) -> None:
        """Kill the broker, and start another one over its log."""
        if save:
            self.node.save(self.now)
            self.settle()
            self.node.ledger.log.sync()  # type: ignore[union-attr]
        self.node.ledger.log.close()  # type: ignore[union-attr]
        self.open()

    def settle(self) -> None:
        for _ in range(1_000):
            self.node.flush()
            if self.node.wants_sync:
                assert self.node.ledger is not None
                self.node.synced(self.node.ledger.log.sync())
            elif not self.node.is_busy:
                return
        raise AssertionError("the node does not come to rest")


def test_what_is_rejected_comes_again_at_the_next_attempt() -> None:
    host = Host()
    worker = host.worker("w")
    host.publish(1, 2)
    host.reject(worker, worker.got()[0])
    assert [(each.x, each.attempt) for each in worker.got()] == [(1, 1), (2, 1), (1, 2)]


def test_what_is_rejected_with_a_delay_does_not_come_before_it() -> None:
    host = Host()
    worker = host.worker("w")
    host.publish(1)
    host.reject(worker, worker.got()[0], after=5 * S)
    host.wait(4.9)
    assert len(worker.got()) == 1
    host.wait(0.1)
    assert worker.got()[-1][:2] == (1, 2)


def test_a_client_that_crashed_gets_what_it_held_at_the_second_attempt_and_nothing_that_it_accepted() -> None:
    host = Host()
    worker = host.worker("w")
    host.publish(1, 2, 3)
    host.accept(worker, worker.got()[1])
    host.lose(worker)
    again = host.worker("w2")
    assert [each[:2] for each in again.got()] == [(1, 2), (3, 2)]
    host.publish(4)
    assert again.got()[-1][:2] == (4, 1)


def test_what_is_not_accepted_in_time_goes_to_another_member_and_a_late_accept_counts_for_nothing() -> None:
    """Case 14 of the corpus."""
    host = Host()
    first, second = (host.worker(name, shared=True, accept_within=S) for name in ("m1", "m2"))
    host.publish(1)
    assert ([each[:2] for each in first.got()], second.got()) == ([(1, 1)], [])
    host.wait(1)
    assert [each[:2] for each in second.got()] == [(1, 2)]
    host.accept(first, first.got()[0])
    assert host.node.durables["work"].unconfirmed, "the late accept counted"
    host.accept(second, second.got()[0])
    assert not host.node.durables["work"].unconfirmed


def test_a_member_at_work_renews_its_time() -> None:
    host = Host()
    first, second = (host.worker(name, shared=True, accept_within=S) for name in ("m1", "m2"))
    host.publish(1)
    host.wait(0.9)
    host.say(first, wire.Renew("work", first.got()[0].ordinal))
    host.wait(0.9)
    assert second.got() == []
    host.wait(0.2)
    assert [each[:2] for each in second.got()] == [(1, 2)]


def test_a_subscriber_that_always_fails_leaves_one_dead_letter_and_goes_on() -> None:
    """Case 15 of the corpus."""
    host = Host()
    letters = host.worker("undertaker", 'type = "dead"', "letters")
    worker = host.worker("w", attempts_max=3)
    host.publish(7, 8)
    for attempt in (1, 2, 3):
        got = next(each for each in worker.got() if (each.x, each.attempt) == (7, attempt))
        host.reject(worker, got, reason="it cannot be read")
    assert [each[:2] for each in worker.got()] == [(7, 1), (8, 1), (7, 2), (7, 3)]
    (payload,) = letters.frames(wire.DELIVER)
    letter = unpack(wire.parse_deliver(payload)[2])
    assert letter.producer == "dead/work"
    assert (letter.get("reason"), letter.get("attempts"), letter.get("notification.x")) == (
        "it cannot be read",
        3,
        7,
    )
    host.accept(worker, worker.got()[1])
    assert not host.node.durables["work"].unconfirmed


def test_dead_deliveries_are_handed_out_again_on_demand_and_only_once() -> None:
    host = Host()
    worker = host.worker("w", attempts_max=1)
    host.publish(7)
    host.reject(worker, worker.got()[0])
    host.restart()
    worker = host.worker("w", attempts_max=1)
    assert worker.got() == []
    host.say(worker, wire.Redrive(9, "work"))
    assert [each[:2] for each in worker.got()] == [(7, 1)]
    host.restart()  # it has not been accepted: it is still to be handed out
    worker = host.worker("w", attempts_max=1)
    assert [each.x for each in worker.got()] == [7]
    host.accept(worker, worker.got()[0])
    host.restart()
    worker = host.worker("w", attempts_max=1)
    host.say(worker, wire.Redrive(9, "work"))
    assert worker.got() == []


def test_attempts_and_accepted_places_beyond_the_cursor_outlive_the_broker() -> None:
    host = Host()
    first, second = (host.worker(name, shared=True, window=2, attempts_max=9) for name in ("m1", "m2"))
    host.publish(1, 2, 3, 4)
    host.reject(first, first.got()[0])
    host.accept(second, *second.got())
    host.restart()
    assert host.node.durables["work"].terms.is_shared
    worker = host.worker("m3", shared=True, window=9, attempts_max=9)
    worker_two = host.client("m4")
    host.say(
        worker_two,
        wire.Subscribe(1, "work:exists x", "exists x", "work", shared=True, window=9, attempts_max=9),
    )
    got = {each.x: each.attempt for each in (*worker.got(), *worker_two.got())}
    assert got.keys() == {1, 3}, "accepted ones come again, or others are lost"
    assert got[1] == 2, "the attempt under way when it was killed need not count, all before it do"


def test_each_notification_goes_to_one_member_the_one_with_the_fewest() -> None:
    host = Host()
    members = [host.worker(f"m{number}", shared=True, window=2) for number in range(3)]
    host.publish(*range(9))
    assert [len(each.got()) for each in members] == [2, 2, 2]
    host.accept(members[1], *members[1].got())
    assert [len(each.got()) for each in members] == [2, 4, 2]
    host.accept(members[1], *members[1].got())
    host.accept(members[0], *members[0].got())
    taken = sorted(each.x for member in members for each in member.got())
    assert taken == [*range(9)]


def test_the_deliveries_of_a_lost_member_go_to_the_others() -> None:
    host = Host()
    first, second = (host.worker(name, shared=True) for name in ("m1", "m2"))
    host.publish(1, 2)
    host.lose(first)
    assert [each[:2] for each in second.got()] == [(2, 1), (1, 2)]


def test_a_key_stays_with_a_member_while_it_has_any_of_it() -> None:
    host = Host()
    first, second = (host.worker(name, shared=True, per="order") for name in ("m1", "m2"))
    host.publish(1, order="a")
    host.publish(2, order="b")
    host.publish(3, 4, order="a")
    assert ([each.x for each in first.got()], [each.x for each in second.got()]) == ([1, 3, 4], [2])
    host.lose(first)
    assert [each.x for each in second.got()] == [2, 1, 3, 4]


def test_members_on_other_terms_or_with_another_filter_are_refused() -> None:
    host = Host()
    host.worker("m1", shared=True)
    assert "on other terms" in host.worker("m2", shared=True, window=7).refusals()[0]
    assert "is bound to" in host.worker("m3", "exists y", shared=True).refusals()[0]
    assert host.worker("m4", shared=True).refusals() == []


def test_a_subscriber_without_terms_takes_the_way_that_it_always_took() -> None:
    """The fast path: no assignments are kept, and none are asked."""
    host = Host()
    worker = host.worker("w")
    host.publish(*range(50))
    durable = host.node.durables["work"]
    assert durable.assignments is None
    host.accept(worker, *worker.got())
    assert durable.assignments is None
    host.publish(51)
    host.reject(worker, worker.got()[-1])
    assert durable.assignments is not None
    host.accept(worker, worker.got()[-1])
    host.node.save(host.now)
    assert durable.assignments is None, "it is neutral again, and costs nothing"


def test_a_client_that_says_what_it_has_seen_gets_the_rest_and_the_attempts_still_count() -> None:
    host = Host()
    worker = host.worker("w")
    host.publish(1, 2, 3)
    second = worker.got()[1].ordinal
    host.lose(worker)
    back = host.client("w2")
    subscribe = wire.control(wire.Subscribe(1, "work:exists x", "exists x", "work"))
    host.node.receive(back.session, wire.Frames().feed(subscribe), host.now)
    host.node.durables["work"].seek(second)  # as a stream over HTTP does: it has seen two of them
    host.settle()
    assert [each[:2] for each in back.got()] == [(3, 2)]
    host.accept(back, *back.got())
    assert not host.node.durables["work"].unconfirmed


def test_a_client_of_the_version_before_is_told_of_no_attempts() -> None:
    host = Host()
    end = Worker(host.node)
    end.session = host.node.greet(end, wire.Hello(6, "client", "old", oldest=6), host.now)
    host.say(end, wire.Subscribe(1, "work:exists x", "exists x", "work"))
    host.publish(1)
    host.reject(end, end.got()[0])
    assert [each[:2] for each in end.got()] == [(1, 1), (1, 1)]


def test_what_was_taken_up_to_a_delivery_is_accepted_over_the_network(
    brokers: Brokers, tmp_path: Path
) -> None:
    hub = brokers.start("hub", tmp_path)
    with sync.connect(hub.url, name="shop") as client:
        with client.subscribe("exists job", durable="work") as jobs:
            for job in range(5):
                client.publish({"job": job})
            taken = [jobs.delivery(30) for _ in range(4)]
            taken[0].accept()
            assert taken[2].accept_through() == 2
            assert taken[1].accept_through() == 0
        with client.subscribe("exists job", durable="work") as jobs:
            assert [jobs.get(30).get("job") for _ in range(2)] == [3, 4]
