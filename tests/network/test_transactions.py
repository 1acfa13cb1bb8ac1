"""Transactions over nodes: all of one is in the log and accepted, or nothing of it, whatever fails.

Workers take jobs of a shared subscriber, and publish two results of each in the transaction that accepts it. The
power fails, the disk is full, connections are lost, frames come again: each job that was accepted has exactly its
two results, side by side; each job that was not comes again.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from fairlead.errors import LogFull
from fairlead.log import Log
from fairlead.log.records import PUBLICATION, notification_in
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import transacting, wire
from fairlead.network.destinations import Durable
from fairlead.network.ledger import Accepted, Accounts, Ledger
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings
from fairlead.security import Principal
from fairlead_lab.testing.memory import MemoryDisk
from fairlead_lab.testing.nodes import End

RESULTS = ("a", "b")
SEGMENT, RESERVE = 4_000, 3_000


def packed(**attributes: object) -> bytes:
    return pack(Notification.of({"producer": "p", **attributes}))


class Client(End):
    """A client of the broker."""

    def deliveries(self) -> dict[int, int]:
        """The ordinals of what it was handed, with the job in each."""
        found = {}
        for payload in self.frames(wire.DELIVER):
            ordinal, _, given = wire.parse_deliver(payload)
            found[ordinal] = int(unpack(given).get("job"))
        return found

    def answers(self) -> set[int]:
        """The numbers of what is acknowledged."""
        numbers = [wire.parse_numbered(each)[0] for each in self.frames(wire.STORED)]
        return set(range(1, max(numbers, default=0) + 1)) - self.refused().keys()

    def refused(self) -> dict[int, str]:
        told = map(wire.parse_control, self.frames(wire.CONTROL))
        return {each.number: each.reason for each in told if isinstance(each, wire.Refused)}


class Broker:
    """One broker over a disk that may fail."""

    def __init__(self, room: int | None = None) -> None:
        self.disk, self.now = MemoryDisk(room=room), 0
        self.open()

    def open(self) -> None:
        self.ledger = Ledger(
            "/log", self.disk, broker="hub", segment_bytes=SEGMENT, reserve_bytes=RESERVE, buffer_bytes=400
        )
        self.node = Node(BrokerSettings("hub").broker(), self.ledger, life="1", now=self.now)

    def client(self, name: str) -> Client:
        end = Client(self.node)
        end.session = self.node.greet(
            end, wire.Hello(wire.VERSION, "client", name), principal=Principal(name)
        )
        return end

    def worker(self, name: str, *, shared: bool = True) -> Client:
        end = self.client(name)
        end.hear(wire.control(wire.Subscribe(1, "jobs", "exists job", "work", shared=shared)))
        return end

    def settle(self) -> None:
        for _ in range(1_000):
            self.node.flush()
            if self.node.wants_sync:
                try:
                    self.node.synced(self.ledger.log.sync())
                except LogFull as error:
                    self.node.log_is_full(error, self.now)
                    if self.disk.room is not None:
                        return
            elif not self.node.is_busy:
                return
        raise AssertionError("the broker does not come to rest")

    def published(self) -> list[Notification]:
        with self.ledger.reader(0, PUBLICATION, synced=False) as reader:
            return [unpack(notification_in(record)) for record in reader]


def transaction(number: int, job: int, ordinal: int, attempt: str) -> bytes:
    members = [packed(result=each, of=job, id=f"{attempt}-{each}") for each in RESULTS]
    return wire.transaction(number, wire.Transaction(members, [("work", [ordinal])]))


class Work(RuleBasedStateMachine):
    """Jobs and results, in every order of failures."""

    @initialize()
    def begin(self) -> None:
        self.broker = Broker()
        self.numbers = self.jobs = 0
        self.safe: set[int] = set()
        """The jobs that are known to be published."""
        self.committed: set[str] = set()
        """The transactions that were acknowledged."""
        self.refused: set[str] = set()
        self.sent: dict[str, tuple[Client, int, bytes]] = {}
        self.workers: dict[str, Client] = {}
        self.publisher = self.broker.client("publisher")
        self.published: dict[int, int] = {}
        for name in ("ada", "bob"):
            self.join(name)
        self.broker.settle()

    def join(self, name: str) -> None:
        self.workers[name] = self.broker.worker(name)

    def look(self) -> None:
        """What was answered so far."""
        for attempt, (client, number, _) in list(self.sent.items()):
            if number in client.answers():
                self.committed.add(attempt)
            elif number in client.refused():
                self.refused.add(attempt)
            else:
                continue
            del self.sent[attempt]
        self.safe |= {self.published[each] for each in self.publisher.answers() if each in self.published}

    def settle(self) -> None:
        self.broker.settle()
        self.look()

    @rule(count=st.integers(1, 4))
    def publish(self, count: int) -> None:
        if self.publisher.session.ended:
            self.publisher, self.published = self.broker.client("publisher"), {}
        for _ in range(count):
            self.jobs += 1
            number = len(self.published) + 1
            self.published[number] = self.jobs
            self.publisher.hear(wire.publish(number, packed(job=self.jobs, id=f"job-{self.jobs}")))

    @rule(name=st.sampled_from(["ada", "bob"]), which=st.integers(0, 9), settles=st.booleans())
    def commit(self, name: str, which: int, settles: bool) -> None:
        worker = self.workers[name]
        self.broker.node.flush()
        deliveries = [*worker.deliveries().items()]
        if worker.session.ended or not deliveries:
            return
        ordinal, job = deliveries[-1 - which % min(len(deliveries), 5)]
        self.numbers += 1
        attempt = f"t{self.numbers}"
        frame = transaction(self.numbers, job, ordinal, attempt)
        self.sent[attempt] = worker, self.numbers, frame
        worker.hear(frame)
        if settles:
            self.settle()

    @rule(name=st.sampled_from(["ada", "bob"]))
    def commit_again(self, name: str) -> None:
        """The client did not hear the answer: over a new connection it sends the same."""
        worker = self.workers[name]
        mine = {attempt: frame for attempt, (client, _, frame) in self.sent.items() if client is worker}
        self.broker.node.lost(worker.session)
        self.join(name)
        for attempt, frame in mine.items():
            self.numbers += 1
            self.sent[attempt] = self.workers[name], self.numbers, frame
            _, content = wire.parse_transaction(frame[5:])
            self.workers[name].hear(wire.transaction(self.numbers, content))
        self.settle()

    @rule(name=st.sampled_from(["ada", "bob"]), which=st.integers(0, 9))
    def reject(self, name: str, which: int) -> None:
        worker = self.workers[name]
        ordinals = [*worker.deliveries()]
        if ordinals and not worker.session.ended:
            worker.hear(wire.control(wire.Reject("work", ordinals[-1 - which % len(ordinals)], True)))

    @rule(name=st.sampled_from(["ada", "bob"]))
    def leave_and_join(self, name: str) -> None:
        self.broker.node.lost(self.workers[name].session)
        self.join(name)

    @rule()
    def sync(self) -> None:
        self.settle()

    @rule()
    def save(self) -> None:
        self.broker.node.save(self.broker.now)

    @rule()
    def gather(self) -> None:
        with contextlib.suppress(LogFull):
            self.broker.ledger.gather(self.broker.now)

    @rule(room=st.integers(0, 900))
    def fill_the_disk(self, room: int) -> None:
        self.broker.disk.room = self.broker.disk.used() + room

    @precondition(lambda self: self.broker.disk.room is not None)
    @rule()
    def make_room(self) -> None:
        self.settle()
        self.broker.disk.room = None
        self.settle()

    @rule(rng=st.randoms(use_true_random=False), is_kill=st.booleans(), writes=st.booleans())
    def crash(self, rng: Random, is_kill: bool, writes: bool) -> None:
        self.broker.disk.room = None
        if writes:
            self.broker.settle()  # the answers are lost on the way
        else:
            self.look()
        if is_kill:
            self.broker.disk.kill()
        else:
            self.broker.disk.lose_power(rng)
        self.restart()

    def restart(self) -> None:
        self.sent.clear()
        self.broker.open()
        self.publisher, self.published = self.broker.client("publisher"), {}
        for name in ("ada", "bob"):
            self.join(name)
        self.broker.settle()

    def teardown(self) -> None:
        if not hasattr(self, "broker"):
            return
        self.broker.disk.room = None
        self.settle()
        for _ in range(self.jobs + 1):  # both work off what is left
            for name in ("ada", "bob"):
                if self.workers[name].session.ended:
                    self.join(name)
                self.broker.settle()
                for ordinal, job in self.workers[name].deliveries().items():
                    self.numbers += 1
                    self.workers[name].hear(transaction(self.numbers, job, ordinal, f"t{self.numbers}"))
                self.broker.settle()
        self.judge()

    def judge(self) -> None:
        published = self.broker.published()
        jobs = {each.get("job") for each in published if "job" in each.attributes}
        assert self.safe <= jobs, "an acknowledged job is lost"
        results = [each for each in published if "result" in each.attributes]
        assert Counter(each.get("of") for each in results) == dict.fromkeys(jobs, len(RESULTS))
        attempts = [str(each.id).rpartition("-")[0] for each in results]
        assert attempts[0::2] == attempts[1::2], "a transaction is in pieces"
        assert self.committed <= {*attempts}, "what was acknowledged is not there"
        assert not self.refused & {*attempts}, "what was refused is there"


TestWork = Work.TestCase
TestWork.settings = settings(stateful_step_count=30, max_examples=40)


def _forgets_what_is_accepted(apply: Any) -> Any:
    def mutant(self: Accounts, change: Any) -> None:
        if not isinstance(change, Accepted):
            apply(self, change)

    return mutant


def _many_records(append_group: Any) -> Any:
    return lambda self, records, time: self.append_many(records, time)


def _nothing(method: Any) -> Any:
    return lambda self, *arguments: None


def _whoever_holds_it(claims: Any) -> Any:
    def mutant(self: Durable, session: Any, offset: int) -> bool:
        return self.account().holds(session, offset)

    return mutant


def _anybody(claims: Any) -> Any:
    return lambda self, session, offset: offset not in self.taking


MUTANTS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "what is accepted is not in the log": (Accounts, "apply", _forgets_what_is_accepted),
    "several records are no group": (Log, "append_group", _many_records),
    "what found no room counts all the same": (Ledger, "_undo", _nothing),
    "two transactions accept one delivery": (Durable, "claims", _whoever_holds_it),
    "whoever does not hold it accepts it": (Durable, "claims", _anybody),
    "what is committed is not settled": (transacting.Transactions, "_end", _nothing),
}


def lives() -> Iterator[Callable[[Work], None]]:
    """Lives in which each of them would go wrong."""

    def killed(work: Work) -> None:
        work.commit("ada", 0, True)
        work.crash(Random(0), True, False)

    def lost(work: Work) -> None:
        work.commit("ada", 0, True)
        work.leave_and_join("ada")

    def twice(work: Work) -> None:
        work.commit("ada", 0, False)
        work.commit("ada", 0, True)

    def by_another(work: Work) -> None:
        work.workers["bob"].said += work.workers["ada"].said
        work.commit("bob", 0, True)
        work.commit("ada", 0, True)

    yield from (killed, lost, twice, by_another)
    for room in range(0, 600, 40):

        def full(work: Work, room: int = room) -> None:
            work.commit("ada", 0, False)
            work.fill_the_disk(room)
            work.make_room()

        yield full


def live(life: Callable[[Work], None]) -> None:
    work = Work()
    work.begin()
    work.publish(2)
    work.settle()
    life(work)
    work.teardown()


def test_each_life_is_as_it_should_be() -> None:
    for life in lives():
        live(life)


@pytest.mark.parametrize("name", MUTANTS)
def test_transactions_that_are_broken_on_purpose_are_found_out(name: str) -> None:
    where, method, make = MUTANTS[name]
    found = 0
    with patch.object(where, method, make(getattr(where, method))):
        for life in lives():
            try:
                live(life)
            except (AssertionError, KeyError):
                found += 1
    assert found
