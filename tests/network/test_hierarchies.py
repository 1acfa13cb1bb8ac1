"""Live brokers in a hierarchy: the parent gets every notification, and filters travel to the root only.

`test_one_seam` compares them with the simulator, effect by effect; here are faults, files and processes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.audit import Verdict, audit
from fairlead.broker import Broker
from fairlead.errors import NetworkError, ProtocolError
from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.network import wire
from fairlead.network.node import Node
from fairlead.network.overlay import overlay_from
from fairlead.network.settings import BrokerSettings, settings_from
from fairlead.network.sync import connect
from fairlead.rules import Route, Seam
from fairlead_lab.chaos import SPECIFICATIONS
from fairlead_lab.testing.brokers import wait_until
from fairlead_lab.testing.chaos import FAULTS, Plan, World
from fairlead_lab.testing.nodes import Line, linked

STEADY = frozenset(FAULTS) - {"link"}
"""All faults but other links: who is above whom stands in the settings."""
NETWORK: dict[str, Any] = {
    "brokers": {"hub": 0, "east": 0, "west": 0, "far": 0},
    "links": [["hub", "east"], ["hub", "west"], ["west", "far"]],
}


def broker(name: str, **more: Any) -> BrokerSettings:
    number = int(name[1:])
    return BrokerSettings(name, hierarchical=True, parent=f"b{number - 1}" if number else None, **more)


def test_filters_go_up_and_every_notification_does() -> None:
    line = Line(3, make=lambda name: broker(name).broker())
    reader, other, writer = line.client(2, "s"), line.client(0, "t"), line.client(1, "p")
    reader.hear(wire.control(wire.Subscribe(1, "s1", "x > 5")))
    other.hear(wire.control(wire.Subscribe(1, "s1", "x = 9")))
    line.settle()
    tables = [node.tables()["subscriptions"] for node in line.nodes]
    assert ["x > 5" in str(each) for each in tables] == [True, True, True]
    assert ["x = 9" in str(each) for each in tables] == [True, False, False], "those below are not told"
    publications = [Notification.of({"x": x, "producer": "p", "id": f"{x}"}) for x in (1, 7, 9)]
    writer.hear(b"".join(wire.publish(at, pack(each)) for at, each in enumerate(publications, start=1)))
    line.settle()
    assert [len(each.frames(wire.DELIVER)) for each in (reader, other)] == [2, 1]
    assert line.nodes[0].counters.received == 3


@settings(max_examples=settings.default.max_examples // 4)  # type: ignore[union-attr]
@given(
    plan=st.builds(
        Plan,
        seed=st.integers(0, 1 << 32),
        brokers=st.integers(2, 5),
        steps=st.integers(100, 500),
        faults=st.frozensets(st.sampled_from(sorted(STEADY))),
        strategy=st.sampled_from(["simple", "identity", "covering", "merging"]),
        advertisements=st.sampled_from([None, "covering"]),
        hierarchical=st.just(True),
    )
)
def test_what_was_acknowledged_arrives_once_and_in_order_in_a_hierarchy(plan: Plan) -> None:
    accounts = World(plan).run()
    tally = accounts.tally()
    assert tally.holds, f"{plan}\n{tally}"
    report = audit(accounts.trace(), *SPECIFICATIONS, engine="brute")
    assert report.verdict is Verdict.HOLDS, f"{plan}\n{report}"


def sending_nothing_up(broker: Broker, *rest: Any, **named: Any) -> Node:
    """A node with a defect: the parent gets what it asks for, which is nothing."""
    route = broker._destinations

    def below(notification: Notification, source: str) -> Route:
        found = route(notification, source)
        return Route(tuple(each for each in found.neighbours if each != broker.parent), found.clients)

    broker.seam = Seam(below, broker.seam.rules)
    return Node(broker, *rest, **named)


def test_a_broker_that_sends_nothing_up_is_found() -> None:
    plans = [Plan(seed, brokers=4, faults=frozenset(), hierarchical=True) for seed in range(12)]
    found = (each for each in plans if not World(each, make_node=sending_nothing_up).run().tally().holds)
    plan = next(found)
    assert World(plan).run().tally().holds


def test_neighbours_agree_on_who_is_above(caplog: pytest.LogCaptureFixture) -> None:
    one, below, peer = (
        Line(1, make=lambda name, each=each: each.broker()).nodes[0]
        for each in (broker("b0"), broker("b1"), BrokerSettings("b2"))
    )
    linked(one, below)
    with pytest.raises(ProtocolError, match="b0 expects b2 to be below it, but b2 has no broker above it"):
        linked(one, peer)
    with pytest.raises(
        ProtocolError, match="b0 expects no broker b1 below it, but b1 has b0 above it"
    ) as refused:
        Line(1, make=lambda name: BrokerSettings("b0").broker()).nodes[0].handshakes.check(
            "b1", below.hello("b0"), None, opened=False
        )
    assert refused


def test_a_whole_network_has_one_hierarchy_or_several_below_peers() -> None:
    whole = overlay_from({**NETWORK, "routing": {"hierarchical": True}}, "topology.toml")
    assert {each.name: each.parent for each in whole.brokers} == {
        "hub": None, "east": "hub", "west": "hub", "far": "west",
    }  # fmt: skip
    hybrid = overlay_from({**NETWORK, "routing": {"hierarchical": ["west"]}}, "topology.toml")
    assert {each.name: each.parent for each in hybrid.brokers if each.parent} == {"far": "west"}
    assert hybrid.settings("west").routing.children == {"far"}


@pytest.mark.parametrize(
    ("routing", "problem"),
    [
        ({"hierarchical": ["south"]}, "there is no broker 'south'"),
        ({"hierarchical": ["hub", "west"]}, "west is below hub already"),
        ({"hierarchical": True, "algorithm": "flooding"}, "with flooding no filter travels"),
    ],
)
def test_what_is_no_hierarchy_is_refused(routing: dict[str, Any], problem: str) -> None:
    with pytest.raises(NetworkError, match=problem):
        overlay_from({**NETWORK, "routing": routing}, "topology.toml")


def test_a_combination_that_would_break_a_promise_is_refused_with_the_promise(tmp_path: Path) -> None:
    (tmp_path / "graph").write_text("DEFINE SCOPE S AS ALL FROM a")
    given_ = {"routing": {"hierarchical": True}, "scopes": {"file": str(tmp_path / "graph")}}
    with pytest.raises(NetworkError, match="who sees a notification is decided at its publisher's broker"):
        settings_from(given_, "broker.toml")
    with pytest.raises(NetworkError, match="`parent` is for a hierarchy"):
        settings_from({"routing": {"parent": "hub"}}, "broker.toml")


def test_processes_in_a_hierarchy_survive_kill_9(tmp_path: Path) -> None:
    def started(
        name: str, parent: str, link: str, listen: str = "127.0.0.1:0"
    ) -> tuple[subprocess.Popen[str], str]:
        (tmp_path / f"{name}.toml").write_text(f"[routing]\nhierarchical = true\n{parent}")
        options = ["-c", f"{name}.toml", "--name", name, "--listen", listen, "--data", name, *link.split()]
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
        return process, url

    running: list[subprocess.Popen[str]] = []
    try:
        hub, at = started("hub", "", "")
        urls = [started(name, 'parent = "hub"', f"--link {at}")[1] for name in ("east", "west")]
        with connect(urls[0], name="desk") as desk, connect(urls[1], name="p") as producer:
            for client in (desk, producer):
                wait_until(lambda client=client: [*client.status()["links"]] == ["hub"])
            subscription = desk.subscribe("x >= 0", durable="desk", timeout=30)
            for x in range(5):
                producer.publish({"x": x})
            hub.kill()
            hub.wait()
            for x in range(5, 10):
                producer.publish({"x": x})
            started("hub", "", "", listen=at.removeprefix("fairlead://"))
            assert [subscription.get(timeout=30).get("x") for _ in range(10)] == [*range(10)]
    finally:
        for process in running:
            process.kill()
            process.communicate()
