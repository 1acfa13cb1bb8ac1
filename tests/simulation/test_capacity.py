"""Messages wait for brokers and links as queueing says, and keyed delays do not depend on what else is sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker import Broker, Settings
from fairlead.broker.messages import Deliver, Forward, Publish, Subscribe
from fairlead.errors import ScenarioError
from fairlead.filters import parse
from fairlead.model import Notification
from fairlead.routing import Covering
from fairlead_lab.simulation import Delay, Observer, Scenario, Simulation, compare, run
from fairlead_lab.simulation.capacity import Capacity, Lengths, Server
from fairlead_lab.simulation.checking import Checker

NO_DELAY = Delay(0, 0, "constant")


class Seen(Observer):
    """Notes when which message was handled where, what was sent when, and what was dropped."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, str, Any]] = []
        self.delivered: list[tuple[int, str | None]] = []
        self.dropped = 0

    def handled(self, now: int, broker: Any, message: Any, effects: Any) -> None:
        self.steps.append((now, broker.name, message))
        self.delivered += [(now, each.notification.id) for each in effects if isinstance(each, Deliver)]

    def failed(self, now: int, change: str, about: Any) -> None:
        self.dropped += change == "overflow"


def notification(id: int) -> Notification:
    return replace(Notification.of({"price": 1}), id=str(id), producer="p")


def pair(capacity: Capacity, delay: Delay = NO_DELAY) -> tuple[Simulation, Seen]:
    brokers = [Broker(name, Settings(Covering()), [other]) for name, other in ("ab", "ba")]
    simulation = Simulation(brokers, capacity=capacity, delay=delay)
    seen = Seen()
    simulation.observers.append(seen)
    return simulation, seen


def departures(arrivals: list[int], service: int) -> list[int]:
    """Lindley's recursion: when each of the arrivals, in order, has been served."""
    done, served = 0, []
    for arrival in arrivals:
        done = max(done, arrival) + service
        served.append(done)
    return served


@given(
    gaps=st.lists(st.integers(0, 300), min_size=1, max_size=30),
    service=st.integers(1, 200),
    rate=st.sampled_from([0, 5_000, 100_000]),
)
def test_a_message_is_served_when_lindleys_recursion_says(gaps: list[int], service: int, rate: int) -> None:
    simulation, seen = pair(Capacity(service_us=service, link_rate=rate))
    simulation.call("b", Subscribe("ada", "s", parse("price > 0")))
    simulation.run()
    start, arrivals = simulation.now, []
    for number, gap in enumerate(gaps):
        arrivals.append(gap + (arrivals[-1] if arrivals else start))
        simulation.at(arrivals[-1], "a", Publish("p", notification(number)))
    simulation.run()
    at_a = departures(arrivals, service)
    on_the_link = departures(at_a, -(-1_000_000 // rate)) if rate else at_a
    at_b = departures(on_the_link, service)
    assert seen.delivered == [(time, str(number)) for number, time in enumerate(at_b)]


@given(service=st.integers(1, 50), count=st.integers(2, 20), late=st.integers(0, 19))
def test_control_is_served_before_notifications_that_wait(service: int, count: int, late: int) -> None:
    simulation, seen = pair(Capacity(service_us=service))
    for number in range(count):
        simulation.at(0, "a", Publish("p", notification(number)))
    time = min(late, count - 1) * service
    simulation.at(time, "a", Subscribe("ada", "s", parse("price > 0")))
    simulation.run()
    # It waits for the one that is being served, and for no other.
    served = next(now for now, _, message in seen.steps if isinstance(message, Subscribe))
    assert served <= time + 2 * service
    order = [message.notification.id for _, _, message in seen.steps if isinstance(message, Publish)]
    assert order == sorted(order, key=int)


@given(count=st.integers(0, 40), queue=st.integers(1, 10))
def test_what_arrived_was_served_or_dropped_and_control_is_never_dropped(count: int, queue: int) -> None:
    simulation, seen = pair(Capacity(service_us=10, queue_max=queue))
    for number in range(count):
        simulation.at(0, "a", Publish("p", notification(number)))
        simulation.at(0, "a", Subscribe("ada", f"s{number}", parse("price > 0")))
    simulation.run()
    kinds = [type(message) for _, _, message in seen.steps]
    assert kinds.count(Subscribe) == count
    assert kinds.count(Publish) + seen.dropped == count
    assert kinds.count(Publish) == min(count, 1 + queue)


@settings(max_examples=settings.default.max_examples // 10 if settings.default else 10)
@given(seed=st.integers(0, 2**32), algorithm=st.sampled_from(["covering", "merging", "rendezvous", "simple"]))
def test_a_capacity_changes_when_notifications_are_delivered_and_not_which(seed: int, algorithm: str) -> None:
    plain, slow = (
        run(scenario(capacity=capacity), algorithm, seed=seed)
        for capacity in ({}, {"broker_ms": 0.2, "link_rate": 2_000})
    )
    assert [row.delivered for row in plain] == [row.delivered for row in slow]
    assert [row.forwards for row in plain] == [row.forwards for row in slow]
    assert all(mine.delay_us_median < its.delay_us_median for mine, its in zip(plain, slow, strict=True))
    assert all(row.queue_max == 0 for row in plain)


def test_a_broker_that_is_too_slow_builds_up_a_queue_and_drops_at_its_end() -> None:
    burst = scenario(capacity={"broker_ms": 2}, workload={"every_ms": 0.1, "publications": 60})
    last = run(burst, "covering")[-1]
    assert (last.queue_max > 15, last.dropped, last.missing) == (True, 0, 0)
    full = run(
        scenario(capacity={"broker_ms": 2, "queue_max": 5}, workload={"every_ms": 0.1, "publications": 60}),
        "covering",
    )[-1]
    assert full.dropped > 0
    assert full.missing > 0
    assert full.unasked == 0
    assert "dropped" in compare(burst).csv().splitlines()[0]


def test_every_state_keeps_the_specification_while_messages_wait() -> None:
    slow = scenario(capacity={"broker_ms": 1, "link_rate": 500})
    assert all(row.is_right for row in run(slow, "merging", check=True))
    simulation, _ = pair(Capacity(service_us=5))
    checker = Checker(simulation)
    simulation.call("a", Subscribe("ada", "s", parse("price > 0")))
    simulation.step()
    assert not simulation.is_quiet
    simulation.run()
    assert simulation.is_settled
    assert checker.steps == 2


def test_lengths_are_means_over_time() -> None:
    lengths = Lengths()
    for now, length in ((10, 1), (20, 3), (30, 0)):
        lengths.note(now, ("a",), length)
    lengths.note(5, ("a", "b"), 2)
    assert lengths.longest() == (("a",), 3)
    assert lengths.means(50) == {("a",): 1.0, ("a", "b"): 2.0}
    assert Lengths().longest() == ((), 0)


def test_a_server_begins_with_control() -> None:
    server: Server[str] = Server()
    for message in ("n1", "c1", "n2"):
        server.put(message, carries_notification=message.startswith("n"))
    assert server.begin()
    assert not server.begin()
    assert (list(server), len(server), server.end()) == (["c1", "n1", "n2"], 2, "c1")


# -- keyed chance ------------------------------------------------------------------------------------------


def scenario(**changes: Any) -> Scenario:
    tables: dict[str, Any] = {
        "name": "tiny",
        "topology": {"shape": "random", "brokers": 6},
        "routing": {"algorithm": ["flooding", "simple", "covering"]},
        "workload": {"subscriptions": [10], "publications": 20, "values": 6, "every_ms": 5},
    }
    for name, table in changes.items():
        tables[name] = {**tables.get(name, {}), **table}
    return Scenario.of(tables, source="tiny.toml")


class Times(Observer):
    """By link and notification, when it was sent and how long it took."""

    def __init__(self) -> None:
        self.begun: dict[tuple[str, str, str], int] = {}
        self.took: dict[tuple[str, str, str], int] = {}

    def sent(self, now: int, source: str, to: str, message: Any) -> None:
        if isinstance(message, Forward):
            self.begun[source, to, str(message.notification.id)] = now

    def handled(self, now: int, broker: Any, message: Any, effects: Any) -> None:
        if isinstance(message, Forward):
            passage = message.source, broker.name, str(message.notification.id)
            self.took[passage] = now - self.begun[passage]


def times(chosen: Scenario, algorithm: str) -> Times:
    seen = Times()
    run(chosen, algorithm, watch=lambda simulation: simulation.observers.append(seen))
    return seen


@pytest.mark.parametrize("shape", ["uniform", "exponential"])
def test_the_same_notification_takes_the_same_time_on_the_same_link_in_every_run(shape: str) -> None:
    delay = {"keyed": True, "least_ms": 0, "spread_ms": 0.5, "shape": shape}
    flooding, simple, covering = (
        times(scenario(delay=delay), name) for name in ("flooding", "simple", "covering")
    )
    assert simple.took == covering.took
    assert simple.took.items() <= flooding.took.items()
    assert len(set(flooding.took.values())) > 50
    drawn = [times(scenario(delay={**delay, "keyed": False}), name) for name in ("flooding", "simple")]
    assert not drawn[1].took.items() <= drawn[0].took.items()


def test_with_keyed_chance_the_same_notifications_are_lost_on_the_same_links() -> None:
    lossy = scenario(delay={"keyed": True}, faults={"loss": 0.3})
    flooding, simple = times(lossy, "flooding"), times(lossy, "simple")
    both = flooding.begun.keys() & simple.begun.keys()
    lost = [{each for each in both if each not in seen.took} for seen in (flooding, simple)]
    assert lost[0] == lost[1]
    assert len(lost[0]) >= 5


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32),
    identity=st.lists(st.one_of(st.integers(), st.text(max_size=5)), max_size=3),
    least=st.integers(0, 50),
    spread=st.integers(0, 50),
    shape=st.sampled_from(["constant", "uniform", "exponential"]),
)
def test_a_keyed_delay_is_a_function_within_the_bounds_of_its_shape(
    seed: int, identity: list[int | str], least: int, spread: int, shape: Any
) -> None:
    delay = Delay(least, spread, shape)
    took = delay.of(seed, ("a", "b"), *identity)
    assert took == delay.of(seed, ("a", "b"), *identity)
    assert took >= least
    assert shape != "constant" or took == least + spread
    assert shape != "uniform" or took <= least + 2 * spread


def test_a_limit_that_means_nothing_is_refused() -> None:
    with pytest.raises(ScenarioError, match="link_rate"):
        scenario(capacity={"link_rate": -1})
    assert not Capacity(queue_max=3).may_drop
