"""Figures, on runs small enough to be counted by hand."""

from __future__ import annotations

from typing import Any

from fairlead.broker import Broker, Settings
from fairlead.broker.messages import Publish, Subscribe
from fairlead.filters import parse
from fairlead.model import Notification
from fairlead.overlay.topology import Topology
from fairlead.routing import Flooding, Simple, Strategy
from fairlead_lab.simulation import Delay, Metrics, Row, Simulation


def measured(strategy: Strategy, topology: Topology, batch_us: int = 0) -> tuple[Metrics, Row]:
    """A client at the last broker asks for x = 1; one at B1 publishes x = 1 and x = 2."""
    cyclic = not topology.is_acyclic
    brokers = [
        Broker(name, Settings(strategy, cyclic=cyclic, batch_us=batch_us), topology.neighbours(name))
        for name in topology.brokers
    ]
    metrics = Metrics()
    simulation = Simulation(brokers, delay=Delay(1_000, 0, "constant"), observers=[metrics])
    simulation.call(topology.brokers[-1], Subscribe("s1", "q1", parse("x = 1")))
    simulation.run()
    metrics.begin()
    for number in (1, 2):
        content = {"id": f"n{number}", "producer": "p1", "x": number}
        simulation.call("B1", Publish("p1", Notification.of(content)))
    simulation.run()
    about: dict[str, Any] = {"algorithm": strategy.name, "topology": "line", "subscriptions": 1, "seed": 0}
    return metrics, metrics.row(brokers, frozenset({("s1", "n1", ("q1",))}), **about)


def test_on_a_line_simple_routing_sends_only_what_arrives() -> None:
    _, row = measured(Simple(), Topology.line(4))
    assert (row.publications, row.deliveries, row.missing, row.unasked) == (2, 1, 0, 0)
    assert (row.forwards, row.spurious) == (3, 0)
    assert (row.admin_messages, row.admin_filters) == (3, 3)
    assert (row.hops_median, row.delay_us_median, row.delay_us_p99) == (3, 3_000, 3_000)
    assert (row.entries_mean, row.local_mean, row.remote_mean, row.remote_max) == (1.0, 0.25, 0.75, 1)
    assert (row.busiest, row.load_max, row.messages_per_publication) == ("B1", 2, 1.5)
    assert row.is_right


def test_flooding_forwards_in_vain_what_nobody_behind_wants() -> None:
    _, row = measured(Flooding(), Topology.line(4))
    assert (row.forwards, row.spurious, row.admin_messages) == (6, 3, 0)


def test_beyond_the_subscriber_every_forward_is_spurious() -> None:
    # B1 is in the middle: of three ways one leads to the subscriber.
    _, row = measured(Flooding(), Topology.star(4))
    assert (row.forwards, row.spurious, row.hops_median) == (6, 5, 1)


def test_in_a_cycle_a_duplicate_is_spurious() -> None:
    _, row = measured(Flooding(), Topology.ring(3))
    # B1 sends to B2 and B3, who send to each other: of 4 forwards for n1 one is of use, for n2 none.
    assert (row.forwards, row.spurious, row.deliveries) == (8, 7, 1)
    assert row.messages_per_publication > row.forwards / 2


def test_a_batch_is_one_message_of_several_forwards() -> None:
    _, row = measured(Flooding(), Topology.line(3), batch_us=500)
    assert (row.forwards, row.spurious) == (4, 2)
    assert row.messages_per_publication == 1.0


def test_what_is_missing_and_what_was_not_asked_for_is_counted() -> None:
    metrics, _ = measured(Simple(), Topology.line(2))
    about: dict[str, Any] = {"algorithm": "simple", "topology": "line", "subscriptions": 1, "seed": 0}
    broker = Broker("B1", Settings(Simple()))
    row = metrics.row([broker], frozenset({("s1", "n2", ("q1",)), ("s2", "n1", ("q2",))}), **about)
    assert (row.missing, row.unasked, row.is_right) == (2, 1, False)
