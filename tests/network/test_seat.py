"""The seat: policies with a state or a time, and rules, have the outcome of a bus over several brokers."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.broker import Broker, Settings
from fairlead.bus import Bus
from fairlead.errors import ScopeError
from fairlead.filters import Filter
from fairlead.model import Instant, Notification
from fairlead.model.encoding import notification_to_json
from fairlead.model.order import END, OrderKey
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.routing import STRATEGIES
from fairlead.rules.integrated import CHANGE, CHANGES, FOLLOWER, MARK, SEAT, BrokerScoping, marked_versions
from fairlead.rules.seat import Seat
from fairlead.scopes import Scopes, System, parse_statements
from fairlead.scopes.sights import tag_of
from fairlead_lab.scopes.definition import deliveries
from fairlead_lab.testing.nodes import End, Line
from fairlead_lab.testing.scopes import COMPONENTS, graphs, matched_by, publications, subscriptions

NAMES = (*COMPONENTS, "nobody")
Subscriptions = dict[str, dict[str, Filter]]
Delivered = dict[str, list[tuple[str, str]]]
MANY: int = settings().max_examples


class World:
    """Three brokers, one of which has the seat, and its clients."""

    def __init__(self, system: System, asked: Subscriptions, data: st.DataObject) -> None:
        self.rules: list[BrokerScoping] = []
        strategy = data.draw(st.sampled_from(["simple", "identity", "covering"]))

        def broker(name: str) -> Broker:
            self.rules.append(BrokerScoping(system, seat=True))
            return Broker(name, Settings(STRATEGIES[strategy](0.1)), rules=(self.rules[-1],))

        self.line = Line(3, make=broker, logged=data.draw(st.booleans()))
        places = st.integers(0, 2)
        self.ends = {name: self.line.client(data.draw(places), name) for name in NAMES}
        self.system, self.asked, self.at = system, asked, data.draw(places)
        for number in range(3):
            follower = self.line.client(number, f"{FOLLOWER}b{number}")
            follower.hear(wire.control(wire.Subscribe(1, "s", f'type = "{CHANGE}"')))
        self.administrator = self.line.client(data.draw(places), CHANGES)
        self.seat_end = self.line.client(self.at, SEAT)
        self.seat_end.hear(wire.control(wire.Subscribe(1, "s", "true")))
        for number, (name, filters) in enumerate(asked.items()):
            for id, filter in filters.items():
                self.ends[name].hear(wire.control(wire.Subscribe(number + 1, id, str(filter))))
        self.line.settle()
        self.entries: list[str] = []
        self.taken = self.published = 0
        self.seat = self.new_seat()
        self.events: dict[str, Notification] = {}

    def new_seat(self) -> Seat:
        node = self.line.nodes[self.at]
        seat = Seat(self.rules[self.at])
        seat.journal = lambda entry: self.entries.append(json.dumps(entry))
        seat.end = lambda: node.dispatch.end
        seat.changed = lambda: node.interests.redeclare(0)
        return seat

    def kill(self, *, compact: bool = False) -> None:
        """The seat dies, and goes on from what it has written."""
        if compact:
            self.entries = [json.dumps(self.seat.snapshot())]
        entries, self.entries = self.entries, []
        seat = self.new_seat()
        for entry in entries:
            seat.replay(json.loads(entry))
        self.entries, self.seat = entries, seat

    def publish(self, event: Notification) -> None:
        self.events[event.id or ""] = event
        self.ends[event.producer].hear(wire.publish(int(event.id or ""), pack(event)))
        self.decide(int(event.id or ""))

    def decide(self, now: int) -> None:
        self.line.settle()
        arrived = self.seat_end.frames(wire.DELIVER)[self.taken :]
        self.taken += len(arrived)
        outcomes = self.seat.follow(now)
        for payload in arrived:
            event = unpack(wire.parse_deliver(payload)[2])
            outcomes += self.seat.take(event, now)
            assert not self.seat.take(event, now), "it is decided about once"
        outcomes += self.seat.advance(now)
        for outcome in outcomes:
            self.published += 1
            self.seat_end.hear(wire.publish(self.published, pack(outcome)))
        self.line.settle()
        assert len({rule.system.graph for rule in self.rules}) == 1

    def change(self, number: int, text: str) -> None:
        about = {
            "type": CHANGE,
            "text": text,
            "id": f"c{number}",
            "producer": CHANGES,
            "time": Instant(number),
        }
        self.administrator.hear(wire.publish(number, pack(Notification.of(about))))
        self.decide(number)

    def delivered(self) -> Delivered:
        return {name: sorted(map(self.named, self.found(end))) for name, end in self.ends.items()}

    def found(self, end: End) -> list[Notification]:
        return [unpack(wire.parse_deliver(payload)[2]) for payload in end.frames(wire.DELIVER)]

    def named(self, each: Notification) -> tuple[str, str]:
        return each.id or "", tag_of(each, self.events[each.id or ""])


class OnTheBus:
    """The same on a live bus."""

    def __init__(self, system: System, asked: Subscriptions) -> None:
        self.bus = Bus(scopes=system)
        self.seen: dict[str, list[Any]] = {name: [] for name in NAMES}
        self.events: dict[str, Notification] = {}
        for name, filters in asked.items():
            for id, filter in filters.items():
                self.bus.subscribe(filter, self.seen[name].append, subscriber=name, id=f"{name}/{id}")

    def publish(self, event: Notification) -> None:
        self.events[event.id or ""] = event
        self.bus.publish(event)

    def change(self, text: str) -> None:
        with suppress(ScopeError):
            self.bus.scopes.alter(text)

    def delivered(self) -> Delivered:
        self.bus.advance(Instant(END - 1))
        self.bus.close()
        return {
            name: sorted(
                (each.id or "", tag_of(each, self.events[each.id or ""]))
                for each in found
                if each.producer != "scopes"
            )
            for name, found in self.seen.items()
        }


STATEMENTS = (
    "JOIN p TO A",
    "LEAVE p FROM A",
    "LEAVE q FROM B",
    "ALTER SCOPE A INTERFACES INPUT(1), OUTPUT(1)",
    "ALTER SCOPE A INTERNAL POLICY DELAY 3us",
    "ALTER SCOPE A INTERNAL POLICY HOLD UNTIL (x = 1)",
    "ALTER SCOPE A DEL INTERNAL POLICY HOLD UNTIL (x = 1)",
)


def run(system: System, asked: Subscriptions, data: st.DataObject, *, killed: bool = True) -> World:
    """Random publications and changes, on brokers and on a bus; the seat is killed in between."""
    world, bus = World(system, asked, data), OnTheBus(system, asked)
    for number in range(1, 7):
        if data.draw(st.booleans()):
            text = data.draw(st.sampled_from(STATEMENTS))
            world.change(number, text)
            bus.change(text)
        event = data.draw(publications(number))
        world.publish(event)
        bus.publish(event)
        if killed and data.draw(st.booleans()):
            world.kill(compact=data.draw(st.booleans()))
    world.decide(END - 1)
    assert world.delivered() == bus.delivered()
    return world


@given(graphs(mappings=True, policies=True, held=True), st.data(), subscriptions())
@settings(max_examples=MANY // 4)
def test_graphs_over_time_are_decided_as_on_a_bus_whenever_the_seat_is_killed(
    graph: Any, data: st.DataObject, asked: Subscriptions
) -> None:
    run(System(graph), asked, data)


@given(graphs(mappings=True, policies=True), st.data(), subscriptions())
@settings(max_examples=MANY // 8)
def test_graphs_over_time_are_decided_as_the_definition_says(
    graph: Any, data: st.DataObject, asked: Subscriptions
) -> None:
    world = World(System(graph), asked, data)
    wanted: Delivered = {name: [] for name in NAMES}
    state: Any = {}
    for number in range(1, 6):
        event = data.draw(publications(number))
        seen, state = deliveries(graph, event, matched_by(asked), state=state)
        for name, tag, _ in seen:
            wanted[name].append((str(number), tag))
        world.publish(event)
    world.decide(END - 1)
    assert world.delivered() == {name: sorted(each) for name, each in wanted.items()}


RULED = (
    """
    DEFINE SCOPE A AS ALL FROM p, q UPDATE ON pub(n : x = 1) DO JOIN COMPONENT TO B
    DEFINE SCOPE B AS ALL FROM r UPDATE ON pub(n : x = 2) DO LEAVE COMPONENT FROM B
    """,
    """
    DEFINE SCOPE A AS ALL FROM p, q, r, s
    DEFINE SCOPE Session AS SUPERSCOPE ALL FROM A UPDATE ON pub(n : x = 1) DO CREATE NOW INCLUDE COMPONENT
    DEPLOY A
    """,
    """
    DEFINE SCOPE A AS ALL FROM p, q UPDATE ON con(n : exists y) DO LEAVE COMPONENT FROM A
    DEFINE SCOPE B AS ALL FROM r, s UPDATE ON leave(*, A) DO JOIN COMPONENT TO B
    """,
    """
    DEFINE SCOPE A AS ALL FROM p, q INTERNAL POLICY DELAY 2us UPDATE ON join(p, A) DO JOIN q TO B
    DEFINE SCOPE B AS ALL FROM r, s UPDATE ON con(n : x = 1) DO JOIN COMPONENT TO A
    """,
)


@given(st.sampled_from(RULED), st.data(), subscriptions())
@settings(max_examples=MANY // 4)
def test_rules_change_the_graph_of_every_broker_as_on_a_bus(
    text: str, data: st.DataObject, asked: Subscriptions
) -> None:
    run(System.of(parse_statements(text)), asked, data)


# -- mutants ---------------------------------------------------------------------------------------------------

OVER_TIME = """
DEFINE SCOPE T AS ALL FROM x, Held, Rated, Late, Open
DEFINE SCOPE Held AS ALL FROM h INTERFACES INPUT(1), OUTPUT(0) DELIVERY POLICY HOLD UNTIL (type = "commit")
DEFINE SCOPE Rated AS ALL FROM r INTERFACES INPUT(1), OUTPUT(0) DELIVERY POLICY RATE 2 PER 10us
DEFINE SCOPE Late AS ALL FROM l INTERFACES INPUT(1), OUTPUT(0) DELIVERY POLICY DELAY 5us
DEFINE SCOPE Open AS SUPERSCOPE ALL FROM T INTERFACES INPUT(1), OUTPUT(1)
  UPDATE ON pub(n : type = "open") DO JOIN o TO Open
"""


def outcomes_of(kind: type[Seat], *, compact: bool) -> list[Any]:
    """What a seat publishes that dies after each step; the subscribers change, and publications come twice."""
    rule = BrokerScoping(Scopes.parse(OVER_TIME), seat=True)
    entries: list[str] = []
    names = {"h", "l", "o"}
    rule.subscribers = lambda version: set(names)  # type: ignore[method-assign]
    found: list[Any] = []

    def born() -> Seat:
        seat = kind(rule)
        for entry in entries:
            seat.replay(json.loads(entry))
        seat.journal = lambda entry: entries.append(json.dumps(entry))
        return seat

    for time, type in enumerate(("a", "a", "open", "b", "b", "commit", "end"), start=1):
        seat = born()
        if compact:
            entries[:] = [json.dumps(seat.snapshot())]
        about = {"id": str(time), "producer": "x", "type": type, "time": Instant(time)}
        for _ in range(2):
            found += seat.take(Notification.of(about), time)
        if time == 2:
            names.add("r")
        found += seat.advance(time)
        found.append(seat.next_due)
    found += born().advance(100)
    return found


class DecidesAgain(Seat):
    """A publication that comes twice counts twice."""

    def take(self, notification: Notification, now: int) -> list[Notification]:
        return self._step({"now": now, "take": notification_to_json(notification)})


class LetsNoTimePass(Seat):
    """What is delayed waits for the next publication."""

    def advance(self, now: int) -> list[Notification]:
        return []


class ForgetsWhatItHeld(Seat):
    """A snapshot is without the states of policies."""

    def snapshot(self) -> Any:
        return {**super().snapshot(), "state": Seat(self._rule).snapshot()["state"]}


class ForgetsWhatIsDelayed(Seat):
    """A snapshot is without what waits for its time."""

    def snapshot(self) -> Any:
        return {**super().snapshot(), "delayed": []}


class AsksAnew(Seat):
    """Entries are applied once more with the subscribers of today."""

    def _matched(self, version: Notification) -> Any:
        return sorted(self._rule.subscribers(version))


class KeepsRulesToItself(Seat):
    """Changes that rules make are for no other broker."""

    def _change(self, now: int) -> list[Notification]:
        super()._change(now)
        return []


class CountsFromTheStart(Seat):
    """After a restart, outcomes have the ids of earlier ones."""

    def replay(self, entry: Any) -> list[Notification]:
        found = super().replay(entry)
        self.number = 0
        return found


class ReleasesFirst(Seat):
    """What is released comes before its release."""

    def _outcome(self, seen: Any) -> list[Notification]:
        return super()._outcome([each._replace(key=OrderKey(0, id=str(-n))) for n, each in enumerate(seen)])


MUTANTS = (
    DecidesAgain,
    LetsNoTimePass,
    ForgetsWhatItHeld,
    ForgetsWhatIsDelayed,
    AsksAnew,
    KeepsRulesToItself,
    CountsFromTheStart,
    ReleasesFirst,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.__name__)
def test_every_mutant_of_the_seat_is_found(mutant: type[Seat]) -> None:
    assert any(
        outcomes_of(mutant, compact=compact) != outcomes_of(Seat, compact=compact)
        for compact in (True, False)
    )


def test_a_seat_that_dies_after_each_step_decides_the_same_from_one_entry_as_from_many() -> None:
    one, many = (
        [
            (version.id, name)
            for outcome in outcomes_of(Seat, compact=compact)
            if isinstance(outcome, Notification) and MARK in outcome.attributes
            for version, names in marked_versions(outcome)
            for name in names
        ]
        for compact in (True, False)
    )
    assert one == many
