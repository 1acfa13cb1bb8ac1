"""Brokers with a scope graph: clients get only what their components may see, on several brokers."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.bus import Bus
from fairlead.cli import main
from fairlead.cli.connecting import now
from fairlead.errors import FairleadError, NetworkError
from fairlead.filters import Filter
from fairlead.model import Instant, Notification
from fairlead.network import sync
from fairlead.network.scoping import ANSWERS, ScopeChanges, taken_by
from fairlead.rules.integrated import BrokerScoping
from fairlead.scopes import ScopeGraph, Scopes, print_statements
from fairlead.scopes.describing import statements_of
from fairlead.scopes.sights import tag_of
from fairlead_lab.scopes.definition import deliveries
from fairlead_lab.testing.brokers import Brokers, wait_until
from fairlead_lab.testing.scopes import COMPONENTS, graphs, matched_by, publications, subscriptions

GRAPH = """
DEFINE SCOPE Market AS ALL FROM Desk, exchange
DEFINE SCOPE Desk AS ALL FROM ada, bob INTERFACES INPUT(0), OUTPUT(type = "order")
DEFINE COMPONENT spark AS SUPERSCOPE FROM Desk SET relays = true
"""


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "market.scopes"
    path.write_text(GRAPH)
    return str(path)


def taken(subscription: sync.Subscription) -> list[str]:
    found: list[str] = []
    with suppress(TimeoutError):
        while True:
            found.append(str(subscription.get(timeout=0.3).id))
    return found


def test_clients_of_two_brokers_get_what_their_components_may_see(
    brokers: Brokers, graph: str, tmp_path: Path
) -> None:
    one = brokers.start("one", tmp_path, scopes=graph)
    two = brokers.start("two", tmp_path, scopes=graph, links=(one.url,))
    with ExitStack() as stack:
        at = {"ada": one, "bob": two, "exchange": two, "eve": one}
        clients = {name: stack.enter_context(sync.connect(at[name].url, name=name)) for name in at}
        found = {
            name: clients[name].subscribe("exists type", durable="bob" if name == "bob" else "")
            for name in ("bob", "exchange", "eve")
        }
        for number, kind in enumerate(("order", "note")):
            clients["ada"].publish({"id": str(number), "type": kind})
        assert [found["bob"].get(timeout=20).id for _ in range(2)] == ["0", "1"]
        assert found["exchange"].get(timeout=20).id == "0"
        clients["exchange"].publish({"id": "2", "type": "end"})
        assert (
            found["exchange"].get(timeout=20).id == "2"
        )  # what was sent before it would have come before it
        assert taken(found["eve"]) == []


def test_a_client_publishes_under_its_own_name_unless_it_relays(brokers: Brokers, graph: str) -> None:
    server = brokers.start(scopes=graph)
    with sync.connect(server.url, name="eve") as eve, sync.connect(server.url, name="spark") as spark:
        with pytest.raises(FairleadError, match="cannot publish as ada"):
            eve.publish({"producer": "ada", "type": "order"})
        spark.publish({"producer": "ada", "type": "order"})


@pytest.mark.parametrize(
    ("text", "algorithm", "problem"),
    [
        ("DEFINE SCOPE S AS ALL FROM a INTERNAL POLICY RATE 2 PER 10s", "covering", "limit the rate"),
        ("DEFINE SCOPE S AS ALL FROM a INTERNAL POLICY DELAY 1s", "covering", "cannot delay"),
        ("DEFINE SCOPE S AS ALL FROM a INTERNAL POLICY HOLD UNTIL (x = 1)", "covering", "cannot delay, hold"),
        ("DEFINE SCOPE S AS ALL FROM a UPDATE ON join(x, S) DO LEAVE x FROM S", "covering", "UPDATE ON"),
        ("DEFINE SCOPE S AS ALL FROM a INTERNAL POLICY ONE", "merging", "do not say whose"),
    ],
)
def test_a_graph_that_brokers_cannot_evaluate_is_refused(
    brokers: Brokers, tmp_path: Path, text: str, algorithm: str, problem: str
) -> None:
    path = tmp_path / "choosing.scopes"
    path.write_text(text)
    with pytest.raises(NetworkError, match=problem):
        brokers.start(scopes=str(path), algorithm=algorithm)


def test_changes_reach_every_broker_and_are_there_after_a_restart(
    brokers: Brokers, graph: str, tmp_path: Path
) -> None:
    one = brokers.start("one", tmp_path, scopes=graph)
    two = brokers.start("two", tmp_path, scopes=graph, links=(one.url,))
    with ExitStack() as stack:
        at = {"scopes": one, "ada": one, "eve": two}
        clients = {name: stack.enter_context(sync.connect(at[name].url, name=name)) for name in at}
        seen = clients["eve"].subscribe("exists type")
        for number in range(
            200
        ):  # until the brokers follow changes, and the change has come to the other one
            change = {"type": "scope change", "text": "JOIN eve TO Desk", "time": Instant(number)}
            clients["scopes"].publish(change)
            clients["ada"].publish({"id": str(number), "type": "note"})
            with suppress(TimeoutError):
                assert seen.get(timeout=0.2).get("type") == "note"
                break
        else:
            pytest.fail("the change did not come")
    brokers.stop(two)
    two = brokers.start("two", tmp_path, scopes=graph, links=(one.url,))
    with (
        sync.connect(two.url, name="ada") as ada,
        sync.connect(two.url, name="eve") as eve,
        eve.subscribe("exists type") as seen,
    ):
        ada.publish({"id": "after", "type": "note"})
        assert seen.get(timeout=20).get("type") == "note"


def test_changes_have_one_outcome_in_whatever_order_they_come(tmp_path: Path) -> None:
    texts = [
        "JOIN eve TO Desk",
        "LEAVE eve FROM Desk",
        "DROP SCOPE Desk",
        "JOIN eve TO Desk",
        "JOIN zoe TO Market",
    ]
    made = [
        Notification.of({"producer": "scopes", "id": str(n), "time": Instant(n), "text": text})
        for n, text in enumerate(texts)
    ]
    graphs = []
    for number, order in enumerate((made, made[::-1], made[2:] + made[:2])):
        rule = BrokerScoping(Scopes.parse(GRAPH))
        changes = ScopeChanges(rule, tmp_path / str(number))
        for change in (*order, order[0]):
            changes.take(change)
        graphs.append(rule.system.graph)
        again = BrokerScoping(Scopes.parse(GRAPH))
        with open(tmp_path / str(number), "ab") as file:
            file.write(b'\n[1, "to')  # the broker was killed while it wrote
        ScopeChanges(again, tmp_path / str(number))
        assert again.system.graph == rule.system.graph
    assert graphs[0] == graphs[1] == graphs[2]
    assert not graphs[0].is_scope("Desk")
    assert graphs[0].visible("zoe", "exchange")


def test_the_command_line_applies_a_file_and_waits_for_every_broker(
    brokers: Brokers, graph: str, tmp_path: Path, until: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    server = brokers.start("one", tmp_path, scopes=graph)
    [rule] = [each for each in server.node.broker.seam.rules if isinstance(each, BrokerScoping)]
    path = tmp_path / "change.scopes"
    path.write_text("JOIN zoe TO Desk")
    assert main(["scope", "check", graph]) == 0
    until(lambda: "scopes@one" in server.node.clients)
    two = brokers.start("two", tmp_path, scopes=graph, links=(server.url,))
    [other] = [each for each in two.node.broker.seam.rules if isinstance(each, BrokerScoping)]
    until(lambda: "scopes@two" in two.node.clients)
    # Until both follow changes; then it has come to both when the command returns.
    until(lambda: main(["scope", "apply", str(path), "-b", server.url, "--wait", "2s"]) == 0)
    assert rule.system.graph.visible("zoe", "ada")
    assert other.system.graph.visible("zoe", "ada")
    path.write_text("LEAVE zoe FROM Nowhere")
    capsys.readouterr()
    assert main(["scope", "apply", str(path), "-b", server.url, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert sorted(said["brokers"]) == ["one", "two"]
    assert all("Nowhere" in each["void"] for each in said["brokers"].values())


def test_brokers_that_have_not_taken_a_change_are_named() -> None:
    answers = iter(
        Notification.of({"type": "scope change", "taken": id, "broker": broker, "void": void})
        for id, broker, void in (("1", "two", ""), ("2", "one", ""), ("2", "three", "no such scope"))
    )

    def answer() -> Notification:
        try:
            return next(answers)
        except StopIteration:
            raise TimeoutError from None

    taken, missing = taken_by(answer, "2", ["one", "two", "three"])
    assert taken == {"one": "", "three": "no such scope"}
    assert missing == {"two"}


def test_only_the_administrator_publishes_changes(brokers: Brokers, graph: str) -> None:
    with (
        sync.connect(brokers.start(scopes=graph).url, name="eve") as eve,
        pytest.raises(FairleadError, match="cannot publish as scopes"),
    ):
        eve.publish({"producer": "scopes", "type": "scope change", "text": "JOIN eve TO Desk"})


def rule_of(server: Any) -> BrokerScoping:
    [rule] = [each for each in server.node.broker.seam.rules if isinstance(each, BrokerScoping)]
    return rule


def test_a_broker_that_joins_later_learns_the_changes_before_it(
    brokers: Brokers, graph: str, tmp_path: Path, until: Any
) -> None:
    one = brokers.start("one", tmp_path, scopes=graph)
    until(lambda: "scopes@one" in one.node.clients)
    with sync.connect(one.url, name="scopes") as administrator:
        for number, text in enumerate(("JOIN eve TO Desk", "JOIN zoe TO Market", "LEAVE eve FROM Desk")):
            administrator.publish({"type": "scope change", "text": text, "time": Instant(number)})
    until(lambda: rule_of(one).system.graph.visible("zoe", "exchange"))
    two = brokers.start("two", tmp_path, scopes=graph, links=(one.url,))
    three = brokers.start("three", tmp_path, scopes=graph, links=(two.url,))
    for server in (two, three):
        until(lambda server=server: rule_of(server).system.graph == rule_of(one).system.graph)
    brokers.stop(three)
    three = brokers.start("three", tmp_path, scopes=graph)  # alone: it knows them by its file
    until(lambda: rule_of(three).system.graph == rule_of(one).system.graph)


def test_an_answer_of_a_broker_that_has_only_just_come_does_not_end_the_questions(tmp_path: Path) -> None:
    one, two, three = (
        ScopeChanges(BrokerScoping(Scopes.parse(GRAPH)), tmp_path / name) for name in ("one", "two", "three")
    )

    def ask(asking: ScopeChanges, asked: ScopeChanges) -> int:
        answers = asked.answers(Notification.of(asking.question()))
        for each in answers:
            asking.take(Notification.of({"producer": "scopes@asked", **each}))
        return len(answers)

    for number, text in enumerate(("JOIN eve TO Desk", "JOIN zoe TO Market", "LEAVE eve FROM Desk")):
        change = {"producer": "scopes", "id": str(number), "text": text, "time": Instant(number)}
        assert one.take(Notification.of(change))
    assert ask(three, two) == 0
    two.take(Notification.of({"producer": "scopes@one", "of": "2", "at": 2, "text": "LEAVE eve FROM Desk"}))
    assert ask(three, two) == 1
    assert ask(two, one) == 3
    assert ask(three, two) == 3
    assert ask(three, one) == 0
    assert three.known == two.known == one.known
    again = ScopeChanges(BrokerScoping(Scopes.parse(GRAPH)), tmp_path / "three")
    assert again.known == one.known
    assert again.rule.system.graph == one.rule.system.graph


def test_nobody_but_brokers_publishes_as_a_broker_that_follows_changes(brokers: Brokers, graph: str) -> None:
    with (
        sync.connect(brokers.start(scopes=graph).url, name="spark") as spark,
        pytest.raises(FairleadError, match="cannot publish as scopes@one"),
    ):
        spark.publish(
            {"producer": "scopes@one", "type": "scope change", "of": "1", "text": "JOIN eve TO Desk"}
        )


BROKER = """
name = "{name}"
listen = "127.0.0.1:{port}"
data = "{name}"
links = [{links}]

[scopes]
file = "market.scopes"
seat = "one"
"""


class Process:
    """A broker in a process of its own, which is killed without notice and started again at the same port."""

    def __init__(self, directory: Path, name: str, link: str = "") -> None:
        self._directory, self._name, self._link, self._port = directory, name, link, 0
        self.start()

    def start(self) -> None:
        links = f'"{self._link}"' if self._link else ""
        text = BROKER.format(name=self._name, port=self._port, links=links)
        (self._directory / f"{self._name}.toml").write_text(text)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fairlead", "broker", "run", "-c", f"{self._name}.toml"],
            cwd=self._directory,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        said = re.search(r"fairlead://127.0.0.1:(\d+)", self._process.stdout.readline())
        assert said is not None
        self.url, self._port = said[0], int(said[1])

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def changes(self) -> str:
        path = self._directory / self._name / "scopes.jsonl"
        return path.read_text() if path.exists() else ""


def test_changes_survive_kill_9_and_reach_a_broker_that_was_dead(
    graph: str, tmp_path: Path, until: Any
) -> None:
    one = Process(tmp_path, "one")
    two = Process(tmp_path, "two", one.url)
    try:
        change = tmp_path / "change.scopes"
        change.write_text("JOIN eve TO Desk")
        until(
            lambda: (
                main(["scope", "apply", str(change), "-b", one.url, "--wait", "0s"]) == 0
                and "eve" in two.changes()
            )
        )
        two.kill()
        change.write_text("JOIN zoe TO Desk")
        assert main(["scope", "apply", str(change), "-b", one.url, "--wait", "0s"]) == 0
        until(lambda: "zoe" in one.changes())
        one.kill()
        one.start()
        two.start()
        until(lambda: "zoe" in two.changes())
        with ExitStack() as stack:
            at = {"ada": one, "eve": two, "zoe": two, "kim": two}
            clients = {name: stack.enter_context(sync.connect(at[name].url, name=name)) for name in at}
            seen = {name: clients[name].subscribe("exists type") for name in ("eve", "zoe", "kim")}
            until(lambda: all(link["ready"] for link in clients["ada"].status()["links"].values()))
            clients["ada"].publish({"id": "after", "type": "note"})
            assert [seen[name].get(timeout=20).id for name in ("eve", "zoe")] == ["after", "after"]
            assert taken(seen["kim"]) == []
    finally:
        one.kill()
        two.kill()


VERSIONS = """
DEFINE SCOPE T AS ALL FROM x, A, B, Pool
DEFINE SCOPE A AS ALL FROM y INTERFACES INPUT(1), OUTPUT(0) MAP INWARD { via = "A", DROP secret }
DEFINE SCOPE B AS ALL FROM y INTERFACES INPUT(1), OUTPUT(0) MAP INWARD { via = "B", DROP secret }
DEFINE SCOPE Pool AS ALL FROM w1, w2 INTERFACES INPUT(1), OUTPUT(0) DELIVERY POLICY ONE BY TURN
"""


def test_a_durable_subscriber_gets_every_version_and_accepts_all_of_them(
    brokers: Brokers, tmp_path: Path
) -> None:
    path = tmp_path / "versions.scopes"
    path.write_text(VERSIONS)
    one = brokers.start("one", tmp_path, scopes=str(path))
    two = brokers.start("two", tmp_path, scopes=str(path), links=(one.url,))
    with sync.connect(two.url, name="y") as y:
        y.subscribe("exists n", durable="y").close()
    with sync.connect(one.url, name="x") as x:
        x.publish({"n": 1, "secret": "s"})
        x.publish({"n": 2, "secret": "s"})

    def versions(accepted: int) -> list[tuple[Any, Any]]:
        found = []
        with sync.connect(two.url, name="y") as y, y.subscribe("exists n", durable="y") as mine:
            for number in range(4):
                delivery = mine.delivery(timeout=20)
                assert "secret" not in delivery.notification.attributes
                assert "$scopes" not in delivery.notification.attributes
                found.append((delivery.notification.get("n"), delivery.notification.get("via")))
                if number < accepted:
                    delivery.accept()
        return sorted(found)

    every = [(1, "A"), (1, "B"), (2, "A"), (2, "B")]
    assert versions(1) == every  # one of two versions is not enough
    assert versions(4) == every
    with sync.connect(two.url, name="y") as y, y.subscribe("exists n", durable="y") as mine:
        with sync.connect(one.url, name="x") as x:
            x.publish({"n": 3})
        assert mine.get(timeout=20).get("n") == 3


def test_a_policy_chooses_once_for_all_brokers_and_members_take_turns(
    brokers: Brokers, tmp_path: Path
) -> None:
    path = tmp_path / "versions.scopes"
    path.write_text(VERSIONS)
    one = brokers.start("one", tmp_path, scopes=str(path))
    two = brokers.start("two", tmp_path, scopes=str(path), links=(one.url,))
    with (
        sync.connect(one.url, name="w1") as first,
        sync.connect(two.url, name="w2") as second,
        sync.connect(two.url, name="x") as x,
        first.subscribe("exists n") as ones,
        second.subscribe("exists n") as others,
    ):
        for number in range(6):
            x.publish({"n": number})
        assert [ones.get(timeout=20).get("n") for _ in range(3)] == [0, 2, 4]
        assert [others.get(timeout=20).get("n") for _ in range(3)] == [1, 3, 5]


def test_versions_survive_kill_9_each_once_and_in_order(tmp_path: Path, until: Any) -> None:
    (tmp_path / "market.scopes").write_text("""
DEFINE SCOPE T AS ALL FROM x, A INTERNAL POLICY ONE BY HASH
DEFINE SCOPE A AS ALL FROM y INTERFACES INPUT(1), OUTPUT(0) MAP INWARD { via = "A", DROP secret }
""")
    one = Process(tmp_path, "one")
    two = Process(tmp_path, "two", one.url)

    def publish(first: int, last: int) -> None:
        with sync.connect(one.url, name="x") as x:
            for number in range(first, last):
                x.publish({"id": str(number), "n": number, "secret": "s"})

    try:
        with sync.connect(two.url, name="y") as y:
            y.subscribe("exists n and absent secret", durable="y").close()
        publish(0, 5)
        two.kill()
        publish(5, 10)  # decided, and logged, while the subscriber's broker is dead
        one.kill()
        one.start()
        two.start()
        publish(10, 12)
        change = tmp_path / "change.scopes"
        change.write_text("LEAVE y FROM A")
        assert main(["scope", "apply", str(change), "-b", one.url, "--wait", "0s"]) == 0
        until(lambda: "LEAVE" in two.changes())
        publish(12, 14)
        with (
            sync.connect(two.url, name="y") as y,
            y.subscribe("exists n and absent secret", durable="y") as mine,
        ):
            found = [mine.get(timeout=20) for _ in range(12)]
            assert taken(mine) == []
        assert [each.get("n") for each in found] == list(range(12))
        assert {(each.get("via"), "secret" in each.attributes) for each in found} == {("A", False)}
    finally:
        one.kill()
        two.kill()


OVER_TIME = """
DEFINE SCOPE T AS ALL FROM x, Held, Rated, Late, Open
DEFINE SCOPE Held AS ALL FROM h INTERFACES INPUT(1), OUTPUT(0)
  DELIVERY POLICY HOLD UNTIL (type = "commit") DISCARD ON (type = "abort")
DEFINE SCOPE Rated AS ALL FROM r INTERFACES INPUT(1), OUTPUT(0) DELIVERY POLICY RATE 2 PER 10us
DEFINE SCOPE Late AS ALL FROM l INTERFACES INPUT(1), OUTPUT(0) DELIVERY POLICY DELAY 1h
DEFINE SCOPE Open AS SUPERSCOPE ALL FROM T INTERFACES INPUT(1), OUTPUT(1)
  UPDATE ON pub(n : type = "open") DO JOIN o TO Open
"""


def test_policies_over_time_and_rules_hold_over_brokers_as_on_a_bus(brokers: Brokers, tmp_path: Path) -> None:
    path = tmp_path / "over_time.scopes"
    path.write_text(OVER_TIME)
    one = brokers.start("one", tmp_path, scopes=str(path), seat="one")
    two = brokers.start("two", tmp_path, scopes=str(path), seat="one", links=(one.url,))
    events = [
        {"id": str(number), "type": kind, "time": Instant(number)}
        for number, kind in enumerate(("a", "a", "a", "abort", "b", "open", "b", "commit", "end"))
    ]
    bus = Bus(scopes=Scopes.parse(OVER_TIME))
    names = ("h", "r", "l", "o")
    expected = {name: bus.component(name).subscribe("exists type") for name in names}
    for event in events:
        bus.component("x").publish(event)
    bus.advance(now())
    with ExitStack() as stack:
        at = {"x": two, "h": one, "r": two, "l": two, "o": one}
        clients = {name: stack.enter_context(sync.connect(at[name].url, name=name)) for name in at}
        found = {name: clients[name].subscribe("exists type") for name in names}
        for event in events:
            clients["x"].publish(event)
        for name in names:
            wanted = [str(expected[name].get(0).id) for _ in range(len(expected[name]))]
            assert wanted
            assert [str(found[name].get(timeout=20).id) for _ in wanted] == wanted
        assert [each for name in names for each in taken(found[name])] == []


def test_what_a_policy_holds_survives_kill_9_of_the_seat_and_comes_once(tmp_path: Path, until: Any) -> None:
    (tmp_path / "market.scopes").write_text(OVER_TIME)
    one = Process(tmp_path, "one")
    two = Process(tmp_path, "two", one.url)

    def publish(*kinds: str) -> None:
        with sync.connect(two.url, name="x") as x:
            for kind in kinds:
                x.publish({"id": kind, "type": kind})

    def entries() -> str:
        path = tmp_path / "one" / "seat.jsonl"
        return path.read_text() if path.exists() else ""

    try:
        with sync.connect(two.url, name="h") as h:
            h.subscribe("exists type", durable="h").close()
        publish("a", "b")
        until(lambda: '"id": "b"' in entries())
        one.kill()
        publish("c")  # while there is no seat
        one.start()
        publish("commit")
        until(lambda: '"id": "commit"' in entries())
        one.kill()
        one.start()
        with sync.connect(two.url, name="h") as h, h.subscribe("exists type", durable="h") as mine:
            assert [mine.get(timeout=40).id for _ in range(4)] == ["commit", "a", "b", "c"]
            assert taken(mine) == []
    finally:
        one.kill()
        two.kill()


@given(graphs(mappings=True, policies=True, timed=False), st.data(), subscriptions())
@settings(max_examples=max(2, settings.default.max_examples // 40))
def test_random_graphs_deliver_over_sockets_what_the_definition_says_while_they_change(
    graph: ScopeGraph, data: st.DataObject, asked: dict[str, dict[str, Filter]]
) -> None:
    names = (*COMPONENTS, "nobody")
    with TemporaryDirectory() as directory, Brokers() as brokers, ExitStack() as stack:
        path = Path(directory) / "random.scopes"
        path.write_text(print_statements(statements_of(graph)))
        one = brokers.start("one", Path(directory), scopes=str(path))
        two = brokers.start("two", Path(directory), scopes=str(path), links=(one.url,))
        [rule] = [each for each in one.node.broker.seam.rules if isinstance(each, BrokerScoping)]
        at = {name: data.draw(st.sampled_from([one, two])) for name in names}
        clients = {name: stack.enter_context(sync.connect(at[name].url, name=name)) for name in names}
        admin = stack.enter_context(sync.connect(one.url, name="scopes"))
        answers = admin.subscribe(ANSWERS)
        seen = {
            name: [clients[name].subscribe(filter) for filter in filters.values()]
            for name, filters in asked.items()
        }

        def change(number: int, text: str) -> bool:
            """Whether both brokers have taken a change; the entries of each have come to the other then."""
            made = {"type": "scope change", "text": text, "id": f"c{number}", "time": Instant(number)}
            admin.publish(made)
            return not taken_by(lambda: answers.get(timeout=3), f"c{number}", ["one", "two"])[1]

        wait_until(lambda: all(f"scopes@{each.node.name}" in each.node.clients for each in (one, two)))
        assert any(change(number, "JOIN nobody TO Elsewhere") for number in range(10))  # void at both
        wanted: dict[str, list[tuple[str, str]]] = {name: [] for name in asked}
        states: dict[str, Any] = {}
        events: dict[str, Notification] = {}
        for number in range(20, 25):
            if data.draw(st.booleans()):
                text = data.draw(st.sampled_from(["JOIN p TO A", "LEAVE q FROM A", "JOIN nobody TO A"]))
                assert change(number, text)
                states = {}
            event = data.draw(publications(number))
            events[event.id or ""] = event
            where = at[event.producer].node.name
            found, states[where] = deliveries(
                rule.system.graph, event, matched_by(asked), state=states.get(where)
            )
            for name, tag, _ in found:
                wanted[name].append((event.id or "", tag))
            clients[event.producer].publish(event)
        for name, subscribed in seen.items():
            got = []
            for each in subscribed:
                got += [each.get(timeout=20) for _ in wanted[name]]
                with pytest.raises(TimeoutError):
                    each.get(timeout=0.1)
            tags = [(each.id or "", tag_of(each, events[each.id or ""])) for each in got]
            assert sorted(tags) == sorted(wanted[name])
