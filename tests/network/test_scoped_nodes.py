"""Random scope graphs over brokers: clients are delivered what the definitions say, while the graph changes.

Nodes without sockets: a line of brokers, each with its own copy of the rule.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker import Broker, Settings
from fairlead.errors import ScopeError
from fairlead.filters import Filter
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.routing import STRATEGIES
from fairlead.rules.scoping import BrokerScoping
from fairlead.scopes import ScopeGraph, Scopes, parse_statements, print_statements
from fairlead.scopes.describing import statements_of
from fairlead_lab.scopes.definition import deliveries
from fairlead_lab.testing.nodes import End, Line
from fairlead_lab.testing.scopes import COMPONENTS, graphs, matched_by, publications, subscriptions

CHANGES = (
    "JOIN p TO A",
    "LEAVE p FROM A",
    "JOIN q TO A",
    "ALTER SCOPE A INTERFACES INPUT(1), OUTPUT(1)",
    "ALTER SCOPE A INTERFACES INPUT(x = 1), OUTPUT(0)",
)
NAMES = (*COMPONENTS, "nobody")


def delivered(end: End) -> list[str]:
    found = [unpack(wire.parse_deliver(payload)[2]) for payload in end.frames(wire.DELIVER)]
    return [each.id or "" for each in found]


@given(graphs(), st.data(), subscriptions(), st.booleans())
@settings(max_examples=settings.default.max_examples // 2)
def test_brokers_deliver_what_the_definition_says_while_the_graph_changes(
    graph: ScopeGraph, data: st.DataObject, asked: dict[str, dict[str, Filter]], logged: bool
) -> None:
    rules: list[BrokerScoping] = []

    def broker(name: str) -> Broker:
        rules.append(BrokerScoping(Scopes.parse(print_statements(statements_of(graph)))))
        return Broker(name, Settings(STRATEGIES[strategy](0.1)), rules=(rules[-1],))

    strategy = data.draw(st.sampled_from(sorted(STRATEGIES)))
    line = Line(3, make=broker, logged=logged)
    ends = {name: line.client(data.draw(st.integers(0, 2)), name) for name in NAMES}
    for number, (name, filters) in enumerate(asked.items()):
        for id, filter in filters.items():
            ends[name].hear(wire.control(wire.Subscribe(number + 1, id, str(filter))))
    line.settle()
    wanted: dict[str, list[str]] = {name: [] for name in NAMES}
    for number in range(1, 6):
        if data.draw(st.booleans()):
            [statement] = parse_statements(data.draw(st.sampled_from(CHANGES)))
            try:
                system = rules[0].system.apply(statement)
            except ScopeError:
                continue
            for rule in rules:
                rule.decide_by(system)
        event: Notification = data.draw(publications(number))
        seen, _ = deliveries(rules[0].system.graph, event, matched_by(asked), state={})
        for name, _, _ in seen:
            wanted[name].append(event.id or "")
        ends[event.producer].hear(wire.publish(number, pack(event)))
        line.settle()
    assert {name: sorted(delivered(end)) for name, end in ends.items()} == wanted
