"""Live brokers with several ways between them: notifications take all of them, and arrive once and in order.

`test_one_seam` compares such brokers with the simulator, effect by effect; here are faults, brokers that die,
files and processes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairlead.audit import Verdict, audit
from fairlead.broker import Broker
from fairlead.broker.notices import Notices
from fairlead.errors import NetworkError, ProtocolError
from fairlead.log.lineage import next_id
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.copies import Copies
from fairlead.network.drawing import text
from fairlead.network.node import Node
from fairlead.network.overlay import overlay_from
from fairlead.network.settings import BrokerSettings, settings_from
from fairlead.network.survey import Seen, Survey
from fairlead.network.sync import connect
from fairlead.overlay import Topology
from fairlead.routing import STRATEGIES
from fairlead_lab.chaos import SPECIFICATIONS
from fairlead_lab.testing.brokers import wait_until
from fairlead_lab.testing.chaos import FAULTS, Plan, World
from fairlead_lab.testing.nodes import End, Line, linked

STEADY = frozenset(FAULTS) - {"link"}
TRIANGLE: dict[str, Any] = {
    "brokers": {"hub": 0, "east": 0, "west": 0},
    "links": [["hub", "east"], ["hub", "west"], ["west", "east"]],
}
CYCLIC: dict[str, Any] = {"routing": {"cyclic": True}}

plans = st.builds(
    Plan,
    seed=st.integers(0, 1 << 32),
    brokers=st.integers(3, 5),
    steps=st.integers(100, 400),
    faults=st.frozensets(st.sampled_from(sorted(STEADY))),
    strategy=st.sampled_from(sorted(STRATEGIES)),
    extra=st.integers(1, 5),
    dies=st.booleans(),
    both_call=st.booleans(),
    varies=st.booleans(),
)


def ring(brokers: int, *, logged: bool = True) -> Line:
    """Nodes in a circle."""
    line = Line(brokers, make=lambda name: BrokerSettings(name, cyclic=True).broker(), logged=logged)
    line.links.append(linked(line.nodes[0], line.nodes[-1]))
    line.settle()
    return line


def publish(end: End, *xs: int, numbered: bool = True) -> None:
    """Publications of one producer, one by one."""
    for x in xs:
        packed = pack(Notification.of({"x": x, "producer": "p", "id": f"{x}"}))
        end.hear(wire.publish(x if numbered else 0, packed))


def delivered(end: End) -> list[int]:
    """What has come, in its order."""
    return [unpack(wire.parse_deliver(each)[2]).get("x") for each in end.frames(wire.DELIVER)]


# -- where notifications go ----------------------------------------------------------------------------------


def ways(topology: Topology, start: str, end: str, been: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """All ways that come to no broker twice, by trying them."""
    if start == end:
        yield (*been, end)
        return
    for each in topology.neighbours(start):
        if each not in (*been, start):
            yield from ways(topology, each, end, (*been, start))


@given(st.integers(2, 6), st.integers(0, 5), st.integers(0, 1 << 32))
def test_the_hops_to_a_broker_are_the_first_steps_of_all_ways_there(
    brokers: int, extra: int, seed: int
) -> None:
    most = brokers * (brokers - 1) // 2 - (brokers - 1)
    topology = Topology.cyclic(brokers, min(extra, most), Random(seed))
    notices = Notices("B1")
    for each in topology.brokers[1:]:
        notices.take(each, 1, topology.neighbours(each))
    links = topology.neighbours("B1")
    assert notices.hops(links) == {
        other: tuple(sorted({way[1] for way in ways(topology, "B1", other)}))
        for other in topology.brokers[1:]
    }
    assert notices.required(links) == {*topology.brokers[1:]}


def test_a_link_that_one_side_alone_knows_leads_nowhere_and_is_waited_for() -> None:
    notices = Notices("a")
    notices.take("b", 1, ("a", "c"))
    notices.take("c", 1, ())
    assert notices.hops(["b"]) == {"b": ("b",)}
    assert notices.required(["b"]) == {"b", "c"}
    notices.take("b", 2, ("a",))
    assert notices.required(["b"]) == {"b"}, "a broker that nobody names any more need not be there"


# -- under faults --------------------------------------------------------------------------------------------


@settings(max_examples=settings.default.max_examples // 4)  # type: ignore[union-attr]
@given(plan=plans)
@example(plan=Plan(181, 4, 300, STEADY, "identity", extra=2))  # an earlier incarnation comes late
def test_what_was_acknowledged_arrives_once_and_in_order_by_several_ways(plan: Plan) -> None:
    accounts = World(plan).run()
    tally = accounts.tally()
    assert tally.holds, f"{plan}\n{tally}"
    report = audit(accounts.trace(), *SPECIFICATIONS, engine="brute")
    assert report.verdict is Verdict.HOLDS, f"{plan}\n{report}"


def with_copies(change: Callable[[Copies], object]) -> Callable[..., Node]:
    """A maker of nodes with a defect in how they know copies."""

    def made(*rest: Any, **named: Any) -> Node:
        node = Node(*rest, **named)
        assert node.copies is not None
        change(node.copies)
        return node

    return made


def one_way_only(broker: Broker, *rest: Any, **named: Any) -> Node:
    """Of all neighbours that lead somewhere, the last one is taken: there is no redundancy."""
    assert broker.redundancy is not None
    compute = broker.redundancy.notices._computed

    def first(links: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
        return {each: hops[-1:] for each, hops in compute([*links]).items()}

    broker.redundancy.notices._computed = first  # type: ignore[assignment,method-assign]
    return Node(broker, *rest, **named)


def telling_nobody(broker: Broker, *rest: Any, **named: Any) -> Node:
    """What a neighbour has told of others is not told on."""
    assert broker.redundancy is not None
    hear = broker.redundancy.hear

    def keep(notice: Any, links: Any) -> Any:
        hear(notice, links)

    broker.redundancy.hear = keep  # type: ignore[method-assign]
    return Node(broker, *rest, **named)


def knowing_too_much(copies: Copies) -> None:
    """The next position counts as having arrived."""
    is_new = copies.is_new

    def new(neighbour: str, relay: bytes) -> bool:
        before = dict(copies._arrived)
        found = is_new(neighbour, relay)
        for broker, (incarnation, position) in copies._arrived.items():
            if before.get(broker) != (incarnation, position):
                copies._arrived[broker] = (incarnation, position + 1)
        return found

    copies.is_new = new  # type: ignore[method-assign]


def giving_nothing_back(copies: Copies) -> None:
    """What was taken and is not in the log counts as having arrived."""
    copies.give_back = lambda relay: None  # type: ignore[method-assign]


def believing_too_much(copies: Copies) -> None:
    """A neighbour that has sent anything is not sent anything."""
    copies.has = lambda neighbour, relay: bool(copies._had.get(neighbour))  # type: ignore[method-assign]


def forgetting_order(copies: Copies) -> None:
    """What was not seen is new, whatever has come behind it."""
    seen: set[bytes] = set()

    def new(neighbour: str, relay: bytes) -> bool:
        key = relay[8:]
        is_first = key not in seen and not key[10:].startswith(copies._own + b"~")
        seen.add(key)
        return is_first

    copies.is_new = new  # type: ignore[method-assign]


def impatient(broker: Broker, *rest: Any, **named: Any) -> Node:
    """A durable subscription counts as installed when those that can be reached now know of it."""
    assert broker.redundancy is not None
    broker.redundancy.notices.required = lambda links: set()  # type: ignore[method-assign]
    return Node(broker, *rest, **named)


BUSY = Plan(brokers=4, producers=4, durables=4, listeners=0, extra=1, steps=600, faults=frozenset())
MUTANTS: dict[str, tuple[Callable[..., Node], Plan]] = {
    "one way only": (one_way_only, replace(BUSY, extra=3, dies=True)),
    "telling nobody": (telling_nobody, replace(BUSY, brokers=5)),
    "knowing too much": (with_copies(knowing_too_much), BUSY),
    "giving nothing back": (
        with_copies(giving_nothing_back),
        replace(BUSY, brokers=3, faults=frozenset({"full disk"}), often=0.1),
    ),
    "believing too much": (with_copies(believing_too_much), BUSY),
    "forgetting order": (with_copies(forgetting_order), replace(BUSY, extra=3, faults=STEADY)),
    "impatient": (impatient, replace(BUSY, faults=frozenset({"kill", "partition"}), often=0.1)),
}


def holds(plan: Plan, make: Callable[..., Node]) -> bool:
    try:
        return World(plan, make_node=make).run().tally().holds
    except AssertionError:
        return False


@pytest.mark.parametrize("name", MUTANTS)
def test_a_defect_is_found(name: str) -> None:
    make, plan = MUTANTS[name]
    tried = (replace(plan, seed=seed) for seed in range(40))
    assert not all(holds(each, make) for each in tried)


# -- one by one ----------------------------------------------------------------------------------------------


def test_a_way_that_fails_is_no_loss_and_nobody_is_unlinked() -> None:
    line = ring(3)
    reader, writer = line.client(2, "s"), line.client(0, "p")
    reader.hear(wire.control(wire.Subscribe(1, "s1", "x >= 0", durable="d")))
    line.settle()
    publish(writer, 1)
    line.settle()
    # The direct way between the two ends.
    for one, other in [each for each in line.links if {end.node.name for end in each} == {"b0", "b2"}]:
        one.node.lost(one.session)
        other.node.lost(other.session)
        line.links.remove((one, other))
    publish(writer, 2, 3)
    line.settle()
    assert delivered(reader) == [1, 2, 3]
    assert len(writer.frames(wire.STORED)) == 2, "and acknowledged, all the same"


@pytest.mark.parametrize("logged", [True, False])
def test_what_is_in_no_log_comes_once_by_several_ways(logged: bool) -> None:
    line = ring(4, logged=logged)
    reader, writer = line.client(2, "s"), line.client(0, "p")
    reader.hear(wire.control(wire.Subscribe(1, "s1", "x >= 0")))
    line.settle()
    publish(writer, *range(1, 30), numbered=False)
    line.settle()
    assert delivered(reader) == [*range(1, 30)]
    assert sum(node.counters.duplicates for node in line.nodes) == 29, "each came by both ways"


def test_subscriptions_that_end_are_forgotten_everywhere() -> None:
    line = ring(4)
    reader = line.client(2, "s")
    for number, filter in enumerate(("x > 1", "x > 5", "x > 9"), start=1):
        reader.hear(wire.control(wire.Subscribe(number, f"s{number}", filter)))
    line.settle()
    told, own = [["x > 1", "b2"]], [[filter, "c:s"] for filter in ("x > 1", "x > 5", "x > 9")]
    assert [node.tables()["subscriptions"] for node in line.nodes] == [told, told, own, told]
    reader.hear(wire.control(wire.Unsubscribe(4, "s1")))
    line.settle()
    assert line.nodes[0].tables()["subscriptions"] == [["x > 5", "b2"]], "the covered ones are back"
    reader.hear(wire.control(wire.Bye("gone")))
    line.settle()
    assert [node.tables()["subscriptions"] for node in line.nodes] == [[]] * 4


def test_the_total_order_is_refused_where_nobody_knows_that_all_has_come() -> None:
    reader = ring(3).client(0, "s")
    reader.hear(wire.control(wire.Subscribe(1, "s1", "x >= 0", durable="d")))
    reader.hear(wire.control(wire.Cut(2, "d")))
    reader.node.flush()
    told = [wire.parse_control(each) for each in reader.frames(wire.CONTROL)]
    refused = [each for each in told if isinstance(each, wire.Refused)]
    assert [each.number for each in refused] == [2]
    assert "there is no total order" in refused[0].reason


def test_ids_of_incarnations_follow_one_another_though_the_clock_goes_back() -> None:
    known = ["0123456789abcdef"]  # as earlier releases made them
    for now in (5_000, 7_000, 3_000):
        known.append(next_id(known, now))
    assert sorted(known, key=lambda id: (len(id), id)) == known


# -- files ---------------------------------------------------------------------------------------------------


def test_links_that_close_cycles_are_taken_where_there_may_be_several_ways() -> None:
    with pytest.raises(NetworkError, match=r"they make a cycle: .* with `cyclic = true` in .routing. it is"):
        overlay_from(TRIANGLE, "topology.toml")
    overlay = overlay_from({**TRIANGLE, **CYCLIC}, "topology.toml")
    ports = {"hub": 1, "east": 2, "west": 3}
    calls = {each: overlay.broker(each, ports).links for each in ports}
    assert {name: len(links) for name, links in calls.items()} == {"hub": 0, "east": 1, "west": 2}
    assert overlay.settings("hub").routing.redundant
    twice = {**TRIANGLE, "links": [*TRIANGLE["links"], ["east", "west"]], **CYCLIC}
    with pytest.raises(NetworkError, match="east - west: these two are linked already"):
        overlay_from(twice, "topology.toml")


@pytest.mark.parametrize(
    ("more", "promise"),
    [
        ({"hierarchical": True}, "one way leads up, and where it fails, what is acknowledged waits"),
        ({"advertisements": "covering"}, "the way that is needed when another one fails"),
    ],
)
def test_a_combination_that_would_break_a_promise_is_refused_with_the_promise(
    more: dict[str, Any], promise: str
) -> None:
    with pytest.raises(NetworkError, match=promise):
        settings_from({"routing": {"cyclic": True, **more}}, "broker.toml")


def test_neighbours_agree_on_several_ways_and_on_having_logs() -> None:
    def node(name: str, *, cyclic: bool, logged: bool = True) -> Node:
        return Line(1, make=lambda _: BrokerSettings(name, cyclic=cyclic).broker(), logged=logged).nodes[0]

    with pytest.raises(ProtocolError, match="b0 routes by filters over several ways, but b1 by filters"):
        linked(node("b0", cyclic=True), node("b1", cyclic=False))
    with pytest.raises(ProtocolError, match="b0 has a log and b1 has none"):
        linked(node("b0", cyclic=True), node("b1", cyclic=True, logged=False))


def test_a_picture_of_the_network_has_further_ways_as_such() -> None:
    def seen(name: str) -> Seen:
        links = {other: {"connected": True, "behind": 0, "url": ""} for other in "abc" if other != name}
        return Seen(name, "", {"links": links, "cyclic": True, "clients": 1, "subscriptions": 0})

    survey = Survey({name: seen(name) for name in "abc"})
    assert survey.is_whole
    assert "b - c is one more way" in text(survey)


# -- processes -----------------------------------------------------------------------------------------------


def test_processes_that_are_killed_for_good_leave_no_gap_where_another_way_is(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("[routing]\ncyclic = true\n")
    running: list[subprocess.Popen[str]] = []

    def started(name: str, *links: str) -> str:
        options = ["-c", "broker.toml", "--name", name, "--listen", "127.0.0.1:0", "--data", name]
        options += [word for link in links for word in ("--link", link)]
        process = subprocess.Popen(
            [sys.executable, "-m", "fairlead", "broker", "run", *options],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stdout is not None
        url = process.stdout.readline().partition(" listens at ")[2].partition(",")[0]
        assert url, process.communicate()[1]
        return url

    try:
        north, south = started("north"), started("south")
        urls = [started(name, north, south) for name in ("east", "west")]
        with connect(urls[0], name="desk") as desk, connect(urls[1], name="p") as producer:
            for client in (desk, producer):
                wait_until(lambda client=client: len(client.status()["links"]) == 2)
            subscription = desk.subscribe("x >= 0", durable="desk", timeout=30)
            for x in range(20):
                if x == 7:
                    running[0].kill()  # and never comes back
                producer.publish({"x": x})
            assert [subscription.get(timeout=30).get("x") for _ in range(20)] == [*range(20)]
            assert not subscription.dropped
    finally:
        for process in running:
            process.kill()
            process.communicate()
