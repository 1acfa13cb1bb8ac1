"""Random scope graphs over brokers: clients are delivered what the definitions say, while the graph changes.

Nodes without sockets: a line of brokers, each with its own copy of the rule. A change is a publication, and takes
effect at each broker where it comes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker import Broker, Settings
from fairlead.filters import Filter
from fairlead.model import Instant, Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.node import Node
from fairlead.routing import STRATEGIES
from fairlead.rules.integrated import CHANGE, CHANGES, FOLLOWER, BrokerScoping
from fairlead.scopes import ScopeGraph, ScopePlan, Scopes, System
from fairlead.scopes.sights import tag_of
from fairlead_lab.scopes.definition import deliveries
from fairlead_lab.testing.chaos import FAULTS, Plan
from fairlead_lab.testing.chaos import World as Faulty
from fairlead_lab.testing.nodes import End, Line
from fairlead_lab.testing.scopes import COMPONENTS, graphs, matched_by, publications, subscriptions

BROKERS = 3
STATEMENTS = (
    "JOIN p TO A",
    "LEAVE p FROM A",
    "JOIN q TO A",
    "LEAVE q FROM B",
    "JOIN nobody TO A",
    "ALTER SCOPE A INTERFACES INPUT(1), OUTPUT(1)",
    "ALTER SCOPE A INTERFACES INPUT(x = 1), OUTPUT(0)",
    "DROP SCOPE A",
)
NAMES = (*COMPONENTS, "nobody")
Subscriptions = dict[str, dict[str, Filter]]


class World:
    """A line of brokers with a scope graph, its clients, and what the definition says that they get."""

    def __init__(self, graph: ScopeGraph, asked: Subscriptions, data: st.DataObject, *, logged: bool) -> None:
        self.rules: list[BrokerScoping] = []
        strategy = data.draw(st.sampled_from(sorted(STRATEGIES)))
        if graph.special:
            strategy = data.draw(st.sampled_from(["simple", "identity", "covering"]))
        self.data, self.asked, self.strategy = data, asked, strategy

        def broker(name: str) -> Broker:
            self.rules.append(BrokerScoping(System(graph)))
            return Broker(name, Settings(STRATEGIES[strategy](0.1)), rules=(self.rules[-1],))

        self.line = Line(BROKERS, make=broker, logged=logged)
        self.at = {name: data.draw(st.integers(0, BROKERS - 1)) for name in NAMES}
        self.ends = {name: self.line.client(self.at[name], name) for name in NAMES}
        for number in range(BROKERS):
            follower = self.line.client(number, f"{FOLLOWER}b{number}")
            follower.hear(wire.control(wire.Subscribe(1, "s", f'type = "{CHANGE}"')))
        self.administrator = self.line.client(0, CHANGES)
        for number, (name, filters) in enumerate(asked.items()):
            for id, filter in filters.items():
                self.ends[name].hear(wire.control(wire.Subscribe(number + 1, id, str(filter))))
        self.line.settle()
        self.wanted: dict[str, list[tuple[str, str]]] = {name: [] for name in NAMES}
        self.states: dict[int, Any] = {number: {} for number in range(BROKERS)}
        self.events: dict[str, Notification] = {}

    @property
    def graph(self) -> ScopeGraph:
        return self.rules[0].system.graph

    def change(self, number: int, text: str) -> None:
        change = {
            "type": CHANGE,
            "text": text,
            "id": f"c{number}",
            "producer": CHANGES,
            "time": Instant(number),
        }
        self.administrator.hear(wire.publish(number, pack(Notification.of(change))))
        self.line.settle()
        assert len({rule.system.graph for rule in self.rules}) == 1
        self.states = {number: {} for number in range(BROKERS)}

    def publish(self, number: int) -> None:
        event: Notification = self.data.draw(publications(number))
        self.events[str(number)] = event
        at = self.at[event.producer]
        seen, self.states[at] = deliveries(self.graph, event, matched_by(self.asked), state=self.states[at])
        for name, tag, _ in seen:
            self.wanted[name].append((event.id or "", tag))
        before = self.relayed()
        self.ends[event.producer].hear(wire.publish(number, pack(event)))
        self.line.settle()
        self.check_links(event, {name for name, _, _ in seen}, self.relayed() - before)

    def relayed(self) -> Counter[tuple[str, str]]:
        """How many notifications went over each link, in each direction."""
        return Counter(
            (end.node.name, end.session.name)
            for pair in self.line.links
            for end in pair
            for _ in range(len(end.frames(wire.RELAY)) + len(end.frames(wire.RELAYS)))
        )

    def check_links(self, event: Notification, seen: set[str], relayed: Counter[tuple[str, str]]) -> None:
        """A link carries a notification once where somebody behind it sees it, and not at all where nobody behind
        it, with a subscription to it, is in a scope with its publisher."""
        at = self.at[event.producer]
        graph = self.graph
        known = {*graph.names}
        may = {
            name
            for name, filters in self.asked.items()
            if any(each.matches(event) for each in filters.values())
            and (name == event.producer or graph.visible(event.producer, name) or not {name} & known)
        }
        needed, allowed = self.links_to(at, seen), self.links_to(at, may | seen)
        assert set(relayed) >= needed
        assert all(count == 1 for count in relayed.values())
        if self.strategy not in ("flooding", "imperfect"):
            assert set(relayed) <= (needed if ScopePlan(graph).relevant(event.producer) else allowed)

    def links_to(self, at: int, names: set[str]) -> set[tuple[str, str]]:
        return {
            (f"b{one}", f"b{one + step}")
            for name in names
            for step in ((1,) if self.at[name] > at else (-1,))
            for one in range(at, self.at[name], step)
        }

    def check(self) -> None:
        assert {name: sorted(self.delivered(end)) for name, end in self.ends.items()} == {
            name: sorted(each) for name, each in self.wanted.items()
        }

    def delivered(self, end: End) -> list[tuple[str, str]]:
        found = [unpack(wire.parse_deliver(payload)[2]) for payload in end.frames(wire.DELIVER)]
        return [(each.id or "", tag_of(each, self.events[each.id or ""])) for each in found]


def run(world: World, data: st.DataObject) -> None:
    for number in range(1, 6):
        if data.draw(st.booleans()):
            world.change(number, data.draw(st.sampled_from(STATEMENTS)))
        world.publish(number)
    world.check()


@given(graphs(), st.data(), subscriptions(), st.booleans())
@settings(max_examples=settings.default.max_examples // 2)
def test_brokers_deliver_what_the_definition_says_while_the_graph_changes(
    graph: ScopeGraph, data: st.DataObject, asked: Subscriptions, logged: bool
) -> None:
    run(World(graph, asked, data, logged=logged), data)


@given(graphs(mappings=True, policies=True, timed=False), st.data(), subscriptions(), st.booleans())
@settings(max_examples=settings.default.max_examples // 2)
def test_mappings_and_policies_are_decided_once_and_as_the_definition_says(
    graph: ScopeGraph, data: st.DataObject, asked: Subscriptions, logged: bool
) -> None:
    run(World(graph, asked, data, logged=logged), data)


# -- faults ----------------------------------------------------------------------------------------------------

EVERYBODY = ", ".join(f"{kind}{number}" for kind in "dl" for number in range(6))
GRAPHS = {
    "interfaces": f"""
DEFINE SCOPE T AS ALL FROM S, {EVERYBODY}
DEFINE SCOPE S AS ALL FROM p0, p1, p2 INTERFACES INPUT(0), OUTPUT(exists x)
""",
    "mapped": f"""
DEFINE SCOPE T AS ALL FROM S, {EVERYBODY} INTERNAL POLICY ALL
DEFINE SCOPE S AS ALL FROM p0, p1, p2 INTERFACES INPUT(0), OUTPUT(exists x) MAP OUTWARD {{ via = 1 }}
""",
}


@settings(max_examples=settings.default.max_examples // 2)  # type: ignore[union-attr]
@given(
    plan=st.builds(
        Plan,
        seed=st.integers(0, 1 << 32),
        brokers=st.integers(1, 4),
        steps=st.integers(100, 500),
        faults=st.frozensets(st.sampled_from(FAULTS)),
        strategy=st.sampled_from(["simple", "identity", "covering"]),
        advertisements=st.sampled_from([None, "covering"]),
    ),
    graph=st.sampled_from(sorted(GRAPHS)),
)
def test_what_was_acknowledged_arrives_once_and_in_order_over_borders_whatever_breaks(
    plan: Plan, graph: str
) -> None:
    scopes = Scopes.parse(GRAPHS[graph])

    def make(broker: Broker, *rest: Any, **named: Any) -> Node:
        return Node(Broker(broker.name, broker.settings, rules=[BrokerScoping(scopes)]), *rest, **named)

    tally = Faulty(plan, make_node=make).run().tally()
    assert (tally.lost, tally.duplicated, tally.out_of_order) == (0, 0, 0), f"{plan}\n{tally}"
    # To the accounts, every version is another content than was published.
    assert tally.misdelivered == (tally.delivered if graph == "mapped" else 0), f"{plan}\n{tally}"
