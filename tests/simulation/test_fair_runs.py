"""Fair correlation as a distributed system: whatever the network does, clients deliver what the order says.

Random subscriptions, joins, departures, multicasts and crashes, on every way to establish an order.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.audit.fair.judging import audit_fair
from fairlead.audit.fair.run import Crashed, Delivered, Unsubscribed
from fairlead.audit.fair.run import Multicast as Multicasted
from fairlead.correlation.fair import Conjunction, Subscription, parse
from fairlead.correlation.fair.subscriptions import TYPE
from fairlead.errors import ValueRefused
from fairlead.model import Notification
from fairlead_lab.broker.fair import Directory, Ordering, Role
from fairlead_lab.broker.fair.messages import Multicast, Subscribe, Unsubscribe
from fairlead_lab.simulation import Delay
from fairlead_lab.simulation.fair import FREE, Costs, FairRecord, FairSimulation
from fairlead_lab.simulation.fair.sharing import Sharing

NODES = ("n1", "n2", "n3", "n4", "n5")
CLIENTS = ("ada", "bob", "cid", "dan", "eve")
CONJUNCTIONS = tuple(
    parse(text).conjunctions[0]
    for text in (
        "A",
        "A.x < B.x",
        "A and B",
        "A.x > 5 and B",
        "A.x < B.x and C",
        "A[2].x > A[1].x and C",
        "A.x < C.x",
        "A.x < B.x and C.x > 3",
        "A and B and C",
    )
)
WAYS = (
    (Ordering.MERGING, 1),
    (Ordering.MERGING, 3),
    (Ordering.MERGING, 5),
    (Ordering.SEQUENCER, 1),
    (Ordering.SEQUENCER, 3),
    (Ordering.TOKEN, 3),
    (Ordering.TOKEN, 5),
)
SPAN_US = 60_000
LONG_US = 5_000_000


@dataclass(frozen=True)
class Plan:
    """What is to happen."""

    seed: int
    subscriptions: dict[str, tuple[int, Subscription, int | None]]
    """Of each client: when it subscribes, to what, and when it leaves."""
    events: tuple[tuple[int, str, Notification], ...]
    crashes: tuple[tuple[int, str], ...]
    costs: Costs
    detection_us: int

    def run(self, ordering: Ordering, replicas: int) -> FairRecord:
        return self.simulation(ordering, replicas).run(LONG_US)

    def simulation(self, ordering: Ordering, replicas: int) -> FairSimulation:
        simulation = FairSimulation(
            Directory(NODES, ordering, replicas),
            CLIENTS,
            seed=self.seed,
            costs=self.costs,
            detection_us=self.detection_us,
        )
        for client, (begins, subscription, leaves) in self.subscriptions.items():
            simulation.at(begins, client, Subscribe(subscription))
            if leaves is not None:
                simulation.at(begins + leaves, client, Unsubscribe())
        for time, client, event in self.events:
            simulation.at(time, client, Multicast(event))
        tolerated = (replicas - 1) // 2
        for time, process in self.crashes:
            tolerated -= process in NODES
            if process in CLIENTS or tolerated >= 0:
                simulation.crash(time, process)
        return simulation


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    times = st.one_of(st.just(0), st.integers(0, SPAN_US))
    offered = draw(st.lists(st.sampled_from(CONJUNCTIONS), min_size=2, max_size=4, unique=True))
    asked = st.lists(st.sampled_from(offered), min_size=1, max_size=3, unique=True).map(Subscription.of)
    subscribers = draw(st.lists(st.sampled_from(CLIENTS), min_size=2, unique=True))
    leaving = st.one_of(st.none(), st.none(), st.integers(1, SPAN_US))
    told = draw(
        st.lists(
            st.tuples(
                st.integers(0, SPAN_US), st.sampled_from(CLIENTS), st.sampled_from("ABC"), st.integers(0, 9)
            ),
            min_size=5,
            max_size=40,
        )
    )
    crashing = draw(st.lists(st.sampled_from([*NODES, *CLIENTS[:2]]), max_size=3, unique=True))
    return Plan(
        seed=draw(st.integers(0, 2**32)),
        subscriptions={client: (draw(times), draw(asked), draw(leaving)) for client in subscribers},
        events=tuple((time, client, event(n, type, x)) for n, (time, client, type, x) in enumerate(told)),
        crashes=tuple((draw(st.integers(0, SPAN_US)), process) for process in crashing),
        costs=draw(st.sampled_from([FREE, FREE, Costs(300, 100)])),
        detection_us=draw(st.sampled_from([500, 5_000, 20_000])),
    )


def event(number: int, type: str, x: int = 0) -> Notification:
    return Notification.of({"id": str(number), "producer": "p", "type": type, "x": x})


def leavers(record: FairRecord) -> set[str]:
    return {step.process for step in record.run.steps if isinstance(step, Crashed | Unsubscribed)}


# -- the laws ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ordering", "replicas"), WAYS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plan=plans())
def test_clients_deliver_what_replaying_the_established_order_gives(
    ordering: Ordering, replicas: int, plan: Plan
) -> None:
    record = plan.run(ordering, replicas)
    assert record.run.finished
    gone = leavers(record)
    for client in plan.subscriptions:
        delivered, replayed = record.delivered(client), record.replayed(client)
        assert delivered == (replayed[: len(delivered)] if client in gone else replayed)
    assert_nothing_is_missed_or_doubled(record)
    assert_alike_deliver_alike(record)
    report = audit_fair(record.run)
    assert [finding for finding in report.findings if finding.violations] == []


def assert_nothing_is_missed_or_doubled(record: FairRecord) -> None:
    """Each event stands once in its first order, and those that a client wants go on from there in that order."""
    steps = record.run.steps
    told = {step.event: step.process for step in steps if isinstance(step, Multicasted)}
    crashed = {step.process for step in steps if isinstance(step, Crashed)}
    entries = {role: order for role, order in record.orders.items() if len(role) <= 1}
    placed = Counter(each.event for order in entries.values() for each in order)
    assert set(placed.values()) <= {1}
    assert set(placed) <= set(told)
    assert {each for each, process in told.items() if process not in crashed} <= set(placed)
    for starts in (found for client, found in record.starts.items() if client not in leavers(record)):
        for start in starts:
            for type, _ in start.conjunction.counts if start.role else ():
                all_of_type = wanted(record, (type,), start.conjunction, type, 0)
                got = wanted(record, start.role, start.conjunction, type, start.origin)
                assert all_of_type[len(all_of_type) - len(got) :] == got


def wanted(
    record: FairRecord, role: Role, conjunction: Conjunction, type: str, after: int
) -> list[Notification]:
    filters = [filter for instance, filter in conjunction.filters.items() if instance.type == type]
    return [
        each.event
        for each in record.orders.get(role, ())
        if each.position > after
        and each.event.get(TYPE) == type
        and any(filter.matches(each.event) for filter in filters)
    ]


def assert_alike_deliver_alike(record: FairRecord) -> None:
    """Of clients with the same conjunction, the one who came later delivers the end of what the other delivers."""
    found: dict[Conjunction, list[list[tuple[Notification, ...]]]] = {}
    for client, starts in record.starts.items():
        if client not in leavers(record):
            for start in starts:
                relations = [
                    relation for each, relation in record.delivered(client) if each == start.conjunction
                ]
                found.setdefault(start.conjunction, []).append(relations)
    for sequences in found.values():
        longest = max(sequences, key=len)
        assert all(longest[len(longest) - len(each) :] == each for each in sequences)


@pytest.mark.parametrize(("ordering", "replicas"), WAYS)
def test_the_same_subscription_from_the_beginning_is_the_same_sequence(
    ordering: Ordering, replicas: int
) -> None:
    asked = parse("A.x < B.x or A[2].x > A[1].x and C")
    plan = Plan(
        seed=3,
        subscriptions=dict.fromkeys(CLIENTS, (0, asked, None)),
        events=tuple(
            (30_000 + 400 * n, CLIENTS[n % 5], event(n, "ABC"[n % 3], n * 7 % 10)) for n in range(60)
        ),
        crashes=((41_000, "n1"), (41_000, "n2")),
        costs=FREE,
        detection_us=5_000,
    )
    record = plan.run(ordering, replicas)
    assert record.run.finished
    [first, *others] = [record.delivered(client) for client in CLIENTS]
    assert first
    assert all(other == first for other in others)


# -- crashes, one by one -----------------------------------------------------------------------------------


def crashing(*processes: str, replicas: int = 3, ordering: Ordering = Ordering.MERGING) -> FairRecord:
    plan = Plan(
        seed=1,
        subscriptions={"ada": (0, parse("A.x < B.x"), None), "bob": (0, parse("A.x < B.x and C"), None)},
        events=tuple((20_000 + 500 * n, "eve", event(n, "ABC"[n % 3], n % 10)) for n in range(90)),
        crashes=tuple((40_000, process) for process in processes),
        costs=FREE,
        detection_us=5_000,
    )
    return plan.run(ordering, replicas)


def members(*role: str, replicas: int = 3) -> tuple[str, ...]:
    return Directory(NODES, Ordering.MERGING, replicas).members(role)


@pytest.mark.parametrize("place", [0, 1, 2], ids=["the leader", "a replica", "another replica"])
@pytest.mark.parametrize("role", ["A", "AB", "ABC"])
def test_the_crash_of_a_replica_changes_nothing(role: str, place: int) -> None:
    undisturbed, record = crashing(), crashing(members(*role)[place])
    assert record.run.finished
    for client in ("ada", "bob"):
        assert record.delivered(client) == record.replayed(client)
        assert len(record.delivered(client)) >= len(undisturbed.delivered(client)) - 2
    assert_nothing_is_missed_or_doubled(record)


@pytest.mark.parametrize("ordering", Ordering)
def test_any_minority_may_crash_at_once(ordering: Ordering) -> None:
    record = crashing(*members("A", replicas=5)[:2], replicas=5, ordering=ordering)
    assert record.run.finished
    assert [len(record.delivered(client)) for client in ("ada", "bob")] > [0, 0]
    assert all(record.delivered(client) == record.replayed(client) for client in ("ada", "bob"))
    assert_nothing_is_missed_or_doubled(record)


def test_without_a_majority_a_role_stands_still_and_never_errs() -> None:
    plan_free = FairSimulation(Directory(NODES, Ordering.MERGING, 3), CLIENTS, seed=1, detection_us=5_000)
    plan_free.at(0, "ada", Subscribe(parse("A.x < B.x")))
    for n in range(60):
        plan_free.at(20_000 + 500 * n, "eve", Multicast(event(n, "AB"[n % 2], n % 10)))
    for process in members("A")[:2]:
        plan_free.crash(35_000, process)
    record = plan_free.run(1_000_000)
    assert not record.run.finished
    delivered = record.delivered("ada")
    assert delivered
    assert delivered == record.replayed("ada")[: len(delivered)]


# -- what keeps a simulation honest ------------------------------------------------------------------------


def test_the_same_seed_is_the_same_run() -> None:
    assert crashing("n1") == crashing("n1")


def test_a_run_does_not_depend_on_how_python_hashes_strings() -> None:
    script = (
        "from test_fair_runs import crashing; from fairlead.audit.fair.run import Delivered;"
        "print([(s.process, s.time) for s in crashing('n2').run.steps if isinstance(s, Delivered)])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": os.path.dirname(__file__)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashing in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(runs[0]) > 100


def test_a_busy_process_lets_others_wait() -> None:
    def last_delivery(costs: Costs) -> float:
        directory = Directory(NODES, Ordering.SEQUENCER)
        simulation = FairSimulation(directory, CLIENTS, delay=Delay(100, 0), costs=costs)
        simulation.at(0, "ada", Subscribe(parse("A")))
        for n in range(10):
            simulation.at(10_000, "bob", Multicast(event(n, "A")))
        steps = simulation.run(LONG_US).run.steps
        return max(step.time for step in steps if isinstance(step, Delivered))

    assert last_delivery(FREE) == 10_200
    # Ten events, each received by the sequencer and sent once; the last is sent and received twice more.
    assert last_delivery(Costs(receive_us=50, send_us=5)) == 10_200 + 5 + 10 * 55 + 50


def test_shared_matchers_give_what_matchers_of_their_own_give() -> None:
    def run(**options: object) -> FairRecord:
        simulation = FairSimulation(Directory(NODES), CLIENTS, seed=5, **options)  # type: ignore[arg-type]
        for number, client in enumerate(CLIENTS):
            simulation.at(9_000 * number, client, Subscribe(parse("A.x < B.x")))
        for n in range(120):
            simulation.at(1_000 * n, "eve", Multicast(event(n, "AB"[n * n % 7 % 2], n * 7 % 10)))
        return simulation.run(LONG_US)

    assert run(matching=Sharing()) == run()


def test_what_cannot_be_is_refused() -> None:
    simulation = FairSimulation(Directory(NODES), CLIENTS)
    with pytest.raises(ValueRefused, match="no client"):
        simulation.at(0, "zoe", Unsubscribe())
    with pytest.raises(ValueRefused, match="no process"):
        simulation.crash(0, "zoe")
    with pytest.raises(ValueRefused, match="name of a client and of a node"):
        FairSimulation(Directory(NODES), ["n1"])
    simulation.advance(10)
    with pytest.raises(ValueRefused, match="it is 10 already"):
        simulation.at(9, "ada", Unsubscribe())
    with pytest.raises(ValueRefused, match="do not make"):
        Directory(NODES, replicas=6)
