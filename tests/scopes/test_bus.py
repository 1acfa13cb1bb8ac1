"""A bus with scopes delivers what the definitions say: live and in the total order, with changes between."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.bus import Bus
from fairlead.bus.scoping import Scoped
from fairlead.errors import NotAdvertised, ScopeError
from fairlead.filters import Filter
from fairlead.model import ABSENT, Instant, Notification
from fairlead.model.order import OrderKey
from fairlead.scopes import ScopeGraph, Scopes, System, parse_statements
from fairlead_lab.scopes.definition import deliveries
from fairlead_lab.testing.scopes import (
    COMPONENTS,
    SCOPES,
    event_of,
    graph_of,
    graphs,
    matched_by,
    publications,
    subscriptions,
)

CASES = json.loads((Path(__file__).parents[1] / "corpus" / "scopes.json").read_text())["cases"]
DELIVERIES = [pytest.param(case, id=case["name"]) for case in CASES if case["kind"] == "deliver"]

Subscriptions = dict[str, dict[str, Filter]]
Got = list[tuple[str, str, str, int]]


def listening(bus: Bus, asked: Subscriptions) -> dict[str, list[Any]]:
    """What each subscriber is delivered: id, tag, order time."""
    queues = {}
    for name, filters in asked.items():
        for id, filter in filters.items():
            queues[name] = bus.subscribe(filter, subscriber=name, id=f"{name}/{id}")
    return queues


def read(queues: Mapping[str, Any]) -> dict[str, list[tuple[str, str, int | None]]]:
    return {
        name: [
            (each.notification.id, each.version, each.key.time if each.key else None)
            for each in (queue.get_delivery(0) for _ in range(len(queue)))
        ]
        for name, queue in queues.items()
    }


def expected(
    graph: ScopeGraph, events: list[Notification], asked: Subscriptions
) -> dict[str, list[tuple[str, str, int]]]:
    """By the definition, one notification after another."""
    state: Any = {}
    found: list[tuple[OrderKey, str, str]] = []
    for event in events:
        seen, state = deliveries(graph, event, matched_by(asked), state=state)
        found += [
            (OrderKey(time, event.producer, None, event.id or ""), tag, name) for name, tag, time in seen
        ]
    found.sort(key=lambda each: (each[0].rank, *each[1:]))
    return {name: [(key.id, tag, key.time) for key, tag, who in found if who == name] for name in asked}


@given(graphs(mappings=True, policies=True), st.data(), subscriptions())
def test_an_ordered_bus_delivers_as_the_definition_does_in_whatever_order_it_is_published(
    graph: ScopeGraph, data: st.DataObject, asked: Subscriptions
) -> None:
    events = [data.draw(publications(number)) for number in range(1, 6)]
    bus = Bus(scopes=System(graph), order="ordered", lateness_us=100)
    queues = listening(bus, asked)
    for event in data.draw(st.permutations(events)):
        bus.publish(event)
    bus.close()
    assert read(queues) == expected(graph, events, asked)


@given(graphs(mappings=True, policies=True), st.data(), subscriptions())
def test_a_live_bus_delivers_the_same_to_each_as_the_definition_does(
    graph: ScopeGraph, data: st.DataObject, asked: Subscriptions
) -> None:
    events = [data.draw(publications(number)) for number in range(1, 6)]
    bus = Bus(scopes=System(graph))
    queues = listening(bus, asked)
    for event in events:
        bus.publish(event)
    bus.close()
    got = {name: sorted((id, tag) for id, tag, _ in rows) for name, rows in read(queues).items()}
    wanted = expected(graph, events, asked)
    assert got == {name: sorted((id, tag) for id, tag, _ in rows) for name, rows in wanted.items()}


CHANGES = [
    *(f"JOIN {component} TO {scope}" for component in COMPONENTS[:3] for scope in SCOPES[:2]),
    *(f"LEAVE {component} FROM {scope}" for component in COMPONENTS[:3] for scope in SCOPES[:2]),
    "ALTER SCOPE A INTERFACES INPUT(1), OUTPUT(1)",
    "ALTER SCOPE A INTERFACES INPUT(x = 1), OUTPUT(0)",
    "ALTER SCOPE A INTERNAL POLICY ONE BY TURN",
    "DROP SCOPE B",
]


@given(graphs(mappings=True), st.data(), subscriptions())
def test_a_notification_is_judged_by_the_graph_at_its_own_place(
    graph: ScopeGraph, data: st.DataObject, asked: Subscriptions
) -> None:
    events = [data.draw(publications(number)) for number in range(1, 6)]
    changes = data.draw(st.lists(st.tuples(st.integers(1, 5), st.sampled_from(CHANGES)), max_size=4))
    bus = Bus(scopes=System(graph), order="ordered", lateness_us=100)
    queues = listening(bus, asked)
    system, applied = System(graph), []
    for time, text in sorted(changes, key=lambda change: change[0]):
        [statement] = parse_statements(f"{text} SINCE {time}")
        try:
            bus.scopes.apply([statement])
        except ScopeError:
            continue
        applied.append((time, statement))
    for event in data.draw(st.permutations(events)):
        bus.publish(event)
    bus.close()
    wanted: dict[str, list[tuple[str, str, int]]] = {name: [] for name in asked}
    state: Any = {}
    for number, event in enumerate(events, 1):
        for _, statement in [each for each in applied if each[0] == number]:
            system = system.apply(statement)
            state = {}
        one, state = deliveries(system.graph, event, matched_by(asked), state=state)
        for name, tag, time in sorted(one, key=lambda each: each[1]):
            wanted[name].append((event.id or "", tag, time))
    got = {name: [row for row in rows if "destroyed" not in row[0]] for name, rows in read(queues).items()}
    assert got == wanted


@pytest.mark.parametrize("order", ["live", "ordered"])
@pytest.mark.parametrize("case", DELIVERIES)
def test_a_bus_delivers_as_the_case_says(case: Mapping[str, Any], order: Any) -> None:
    bus = Bus(scopes=System(graph_of(case["graph"])), order=order)
    queues = {}
    for name, filters in case["subscriptions"].items():
        for id, text in filters.items():
            queues[name] = bus.subscribe(text, subscriber=name, id=f"{name}/{id}")
    for name, texts in case.get("advertisements", {}).items():
        for text in texts:
            bus.advertise(text, name)
    refused = set()
    for event in map(event_of, case["publish"]):
        try:
            bus.publish(event)
        except NotAdvertised:
            refused.add(event.id)
    bus.close()
    got: dict[tuple[str, str], list[list[str]]] = {}
    for name, queue in queues.items():
        for _ in range(len(queue)):
            delivery = queue.get_delivery(0)
            ids = [id.partition("/")[2] for id in delivery.subscriptions]
            got.setdefault((str(delivery.notification.id), name), []).append(ids)
    for id, wanted in case["expect"].items():
        mine = {name: rows for (each, name), rows in got.items() if each == id}
        if id in refused:
            continue
        if "count" in wanted:
            assert len(mine) == wanted["count"]
            assert set(mine) <= set(wanted["among"])
            continue
        assert set(mine) == set(wanted), id
        for name, rows in wanted.items():
            whole = [row["ids"] for row in rows] if isinstance(rows[0], dict) else [rows]
            assert sorted(map(sorted, mine[name])) == sorted(map(sorted, whole))


MARKET = """
DEFINE SCOPE Market AS ALL FROM Desk INTERFACES INPUT(1), OUTPUT(1)
DEFINE SCOPE Desk AS ALL FROM ann, bob INTERFACES INPUT(1), OUTPUT(type = "quote")
  MAP OUTWARD { price = price * 2 } MAP INWARD { price = price / 2 }
DEFINE COMPONENT pub AS SUPERSCOPE FROM Market
DEFINE COMPONENT sub AS SUPERSCOPE FROM Market
"""


def test_a_component_publishes_and_subscribes_under_its_name() -> None:
    bus = Bus(scopes=Scopes.parse(MARKET))
    outside = bus.component("sub").subscribe("exists price")
    inside = bus.component("bob").subscribe("exists price")
    bus.component("ann").publish({"type": "quote", "price": 10})
    bus.component("ann").publish({"type": "order", "price": 11})
    assert [inside.get(0).get("price"), inside.get(0).get("price")] == [10, 11]
    assert outside.get(0).get("price") == 20
    assert len(outside) == 0
    with pytest.raises(ScopeError, match="cannot publish as bob"):
        bus.component("ann").publish({"producer": "bob", "type": "quote"})


def test_what_was_mapped_keeps_its_identity_and_says_which_version_it_is() -> None:
    bus = Bus(scopes=Scopes.parse(MARKET), order="ordered")
    outside = bus.component("sub").subscribe("exists price")
    bus.component("ann").publish({"type": "quote", "price": 10, "id": "7", "time": Instant(5)})
    bus.close()
    delivery = outside.get_delivery(0)
    assert (delivery.notification.producer, delivery.notification.id) == ("ann", "7")
    assert delivery.key == OrderKey(5, "ann", None, "7")
    assert len(delivery.version) == 16


def test_changes_hold_for_what_is_published_after_them() -> None:
    bus = Bus(scopes=Scopes.parse(MARKET))
    zoe = bus.component("zoe").subscribe("true")
    bus.component("ann").publish({"type": "order", "id": "1"})
    bus.scopes.join("zoe", "Desk")
    bus.component("ann").publish({"type": "order", "id": "2"})
    bus.scopes.leave("zoe", "Desk")
    bus.component("ann").publish({"type": "order", "id": "3"})
    assert [each.id for each in (zoe.get(0) for _ in range(len(zoe)))] == ["2"]


def test_members_are_notified_before_their_scope_goes() -> None:
    bus = Bus(scopes=Scopes.parse(MARKET))
    bob, out = bus.component("bob").subscribe('type = "scope"'), bus.component("sub").subscribe("true")
    bus.scopes.drop("Desk")
    assert bob.get(0).get("scope") == "Desk"
    bus.component("ann").publish({"type": "quote", "price": 1})
    assert len(bob) == len(out) == 0


def test_several_changes_are_made_or_none() -> None:
    bus = Bus(scopes=Scopes.parse(MARKET))
    with pytest.raises(ScopeError):
        bus.scopes.alter("JOIN zoe TO Desk; JOIN zoe TO Nowhere")
    assert not bus.scopes.visible("zoe", "ann")


def test_components_that_are_not_named_can_be_refused() -> None:
    bus = Bus(scopes=Scopes.parse(MARKET, outsiders="refused"))
    for refused in (lambda: bus.component("eve"), lambda: bus.publish({"producer": "eve"})):
        with pytest.raises(ScopeError, match="eve"):
            refused()
    with pytest.raises(ScopeError, match="eve"):
        bus.subscribe("true", subscriber="eve")


def test_a_pattern_sees_what_its_component_sees_and_its_composites_go_into_its_scopes() -> None:
    text = """
    DEFINE SCOPE One AS ALL FROM a, b
    DEFINE SCOPE Two AS ALL FROM c, d
    """
    for order in ("live", "ordered"):
        bus = Bus(scopes=Scopes.parse(text), order=order)  # type: ignore[arg-type]
        found = {name: bus.component(name).detect("pair: [x = 1] followed by [x = 2]") for name in ("b", "d")}
        near, far = (bus.component(name).subscribe('type = "pair"') for name in ("a", "c"))
        bus.publish({"producer": "a", "x": 1, "id": "1", "time": Instant(1)})
        bus.publish({"producer": "c", "x": 2, "id": "2", "time": Instant(2)})
        bus.publish({"producer": "a", "x": 2, "id": "3", "time": Instant(3)})
        bus.close()
        assert (len(found["b"]), len(found["d"]), len(near), len(far)) == (1, 0, 1, 0), order


def test_a_pattern_over_the_public_composites_of_another_component_sees_those_it_may_see() -> None:
    text = "DEFINE SCOPE One AS ALL FROM a, b, c\nDEFINE SCOPE Two AS ALL FROM d"
    for order in ("live", "ordered"):
        bus = Bus(scopes=Scopes.parse(text), order=order)  # type: ignore[arg-type]
        bus.component("b").detect("pair: [x = 1] followed by [x = 2]")
        twice = {
            name: bus.component(name).detect('[type = "pair"] followed by [x = 3]') for name in ("c", "d")
        }
        for number, x in enumerate((1, 2, 3), 1):
            bus.publish({"producer": "a", "x": x, "id": str(number), "time": Instant(number)})
        bus.publish({"producer": "d", "x": 3, "id": "9", "time": Instant(9)})
        bus.close()
        assert (len(twice["c"]), len(twice["d"])) == (1, 0), order


def to_every_subscription(self: Scoped, answer: Any) -> list[Any]:
    """A bus whose public composites go to all who match them."""
    ids, _ = self._match(answer.notification)
    key = answer.key if self._ordered else None
    self._handing_over.pending.extend(self._registry.handovers(answer.notification, [*answer.ids, *ids], key))
    return []


def to_every_pattern(self: Scoped, answer: Any, asked: Any) -> None:
    """A bus whose public composites are seen by the patterns of all components."""
    right(self, answer, asked)
    for where, queries in self._questions.in_order():
        if where != asked:
            queries.see(answer.notification, answer.key)


right = Scoped._publish_answer


@pytest.mark.parametrize(
    ("name", "mutant"), [("_deliver_answer", to_every_subscription), ("_publish_answer", to_every_pattern)]
)
def test_composites_that_everybody_gets_are_found(
    name: str, mutant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scoped, name, mutant)
    found = []
    for test in (
        test_a_pattern_sees_what_its_component_sees_and_its_composites_go_into_its_scopes,
        test_a_pattern_over_the_public_composites_of_another_component_sees_those_it_may_see,
    ):
        with contextlib.suppress(AssertionError):
            test()
            continue
        found.append(test)
    assert found


def _answers(handle: Any) -> list[Any]:
    return [handle.get_delivery(0).notification for _ in range(len(handle))]


BORDER = """
DEFINE SCOPE Outside AS ALL FROM Desk, bob
DEFINE SCOPE Desk AS ALL FROM ada INTERFACES OUTPUT(1), INPUT(0) MAP OUTWARD { usd = eur * 1.25, DROP eur }
DEFINE SCOPE Inside AS ALL FROM ada, cyd
"""


@pytest.mark.parametrize("order", ["live", "ordered"])
@pytest.mark.parametrize("name", ["", "pub: "])
def test_two_components_get_composites_of_the_versions_that_each_of_them_sees(name: str, order: Any) -> None:
    """Also where they ask for the same: a composite says by its id which versions it is made of."""
    bus = Bus(scopes=Scopes.parse(BORDER), order=order)
    pattern = f'{name}[type = "o"] as p followed by [type = "o"] as q'
    found = {each: bus.component(each).detect(pattern) for each in ("bob", "cyd")}
    for number in (1, 2):
        time = Instant(number)
        bus.publish({"producer": "ada", "id": str(number), "type": "o", "eur": number, "time": time})
    bus.close()
    [dollars], [euros] = _answers(found["bob"]), _answers(found["cyd"])
    assert (dollars.get("p.usd"), dollars.get("p.eur")) == (Decimal("1.25"), ABSENT)
    assert (euros.get("p.usd"), euros.get("p.eur")) == (ABSENT, 1)
    assert dollars.id != euros.id
    made_of = [[dict(each.items()) for each in one.get("constituents")] for one in (dollars, euros)]
    assert [[each["id"] for each in one] for one in made_of] == [["1", "2"], ["1", "2"]]
    assert [["version" in each for each in one] for one in made_of] == [[True, True], [False, False]]


def test_two_components_get_relations_of_the_versions_that_each_of_them_sees() -> None:
    from fairlead.correlation import fair

    for order in ("live", "ordered"):
        bus = Bus(scopes=Scopes.parse(BORDER), order=order)  # type: ignore[arg-type]
        found = {each: bus.component(each).detect(fair.parse("o[2]")) for each in ("bob", "cyd")}
        for number in (1, 2):
            bus.publish({"producer": "ada", "id": str(number), "type": "o", "eur": number})
        bus.close()
        [dollars], [euros] = _answers(found["bob"]), _answers(found["cyd"])
        assert dollars.id != euros.id
        assert dollars.get("events").items[0].get("usd") == Decimal("1.25")
        assert euros.get("events").items[0].get("eur") == 1


@pytest.mark.parametrize("order", ["live", "ordered"])
@pytest.mark.parametrize("names", [("x", "y"), ("y", "x")])
def test_components_that_make_the_same_see_each_composite_once_whoever_makes_it(
    names: tuple[str, str], order: Any
) -> None:
    """`y` alone sees the second pair come about, and `x` sees that it has."""
    bus = Bus(
        scopes=Scopes.parse("""
    DEFINE SCOPE Both AS ALL FROM a, x, y
    DEFINE SCOPE Near AS ALL FROM b, y
    """),
        order=order,
    )
    for each in names:
        bus.component(each).detect("pair: [k = 1] followed by [k = 2], same n")
    twice = {
        name: bus.component(name).detect('[type = "pair"] followed by [type = "pair"]') for name in names
    }
    for number, (producer, n, k) in enumerate([("a", 1, 1), ("a", 1, 2), ("b", 2, 1), ("b", 2, 2)], 1):
        bus.publish({"producer": producer, "id": str(number), "n": n, "k": k, "time": Instant(number)})
    bus.close()
    made = {name: [each.get("type") for each in _answers(handle)] for name, handle in twice.items()}
    assert {name: types.count("composite") for name, types in made.items()} == {"x": 1, "y": 1}


def test_fair_subscriptions_see_what_their_component_sees() -> None:
    from fairlead.correlation import fair

    text = "DEFINE SCOPE One AS ALL FROM a, b\nDEFINE SCOPE Two AS ALL FROM c, d"
    bus = Bus(scopes=Scopes.parse(text))
    found = {name: bus.component(name).detect(fair.parse("A.x < B.y")) for name in ("b", "d")}
    bus.publish({"producer": "a", "type": "A", "x": 1})
    bus.publish({"producer": "c", "type": "B", "y": 2})
    assert [len(each) for each in found.values()] == [0, 0]
    bus.publish({"producer": "a", "type": "B", "y": 2})
    assert [len(each) for each in found.values()] == [1, 0]


def test_one_scope_for_all_is_no_scopes() -> None:
    names = ("a", "b", "c")
    whole = Scopes.parse(f"DEFINE SCOPE Whole AS ALL FROM {', '.join(names)}")
    outcomes = []
    for scopes in (None, whole):
        bus = Bus(scopes=scopes, order="ordered")
        queues = [bus.subscribe(f"x > {n}", subscriber=name, id=name) for n, name in enumerate(names)]
        queues.append(bus.detect("up: [x = 1] followed by [x = 3]", subscriber="b", id="p"))
        queues.append(bus.detect('[type = "up"] followed by [x = 2]', subscriber="c", id="q"))
        for number, x in enumerate((1, 3, 2, 3, 1, 2)):
            bus.publish({"producer": names[x - 1], "x": x, "id": str(number), "time": Instant(number)})
        bus.close()
        outcomes.append([[queue.get_delivery(0) for _ in range(len(queue))] for queue in queues[:3]])
    assert outcomes[0] == outcomes[1]


def test_a_mapping_that_raises_lets_nothing_pass_and_is_counted() -> None:
    text = """
    DEFINE SCOPE Outer AS ALL FROM Inner, out
    DEFINE SCOPE Inner AS ALL FROM a INTERFACES INPUT(0), OUTPUT(1) MAP OUTWARD json:loads
    """
    bus = Bus(scopes=Scopes.parse(text))
    inside, outside = bus.component("a").subscribe("true"), bus.component("out").subscribe("true")
    bus.component("a").publish({"x": 1})
    assert (len(inside), len(outside), bus.statistics().errors) == (1, 0, 1)


def test_what_a_policy_holds_is_released_where_the_policy_goes() -> None:
    text = 'DEFINE SCOPE S AS ALL FROM a, b INTERNAL POLICY HOLD UNTIL (type = "go") WHEN (type = "x")'
    bus = Bus(scopes=Scopes.parse(text))
    b = bus.component("b").subscribe("true")
    bus.component("a").publish({"type": "x", "id": "1"})
    assert len(b) == 0
    bus.scopes.alter('ALTER SCOPE S DEL INTERNAL POLICY HOLD UNTIL (type = "go") WHEN (type = "x")')
    bus.component("a").publish({"type": "y", "id": "2"})
    assert sorted(str(b.get(0).id) for _ in range(len(b))) == ["1", "2"]


def test_delayed_versions_are_delivered_when_time_has_come() -> None:
    text = "DEFINE SCOPE S AS ALL FROM a, b INTERNAL POLICY DELAY 10 us"
    bus = Bus(scopes=Scopes.parse(text))
    b = bus.component("b").subscribe("true")
    bus.component("a").publish({"id": "1", "time": Instant(1)})
    assert len(b) == 0
    bus.advance(Instant(11))
    assert b.get(0).id == "1"


def test_a_change_with_a_time_holds_from_there_on_where_rules_stand_beside_it() -> None:
    text = """
    DEFINE SCOPE S AS ALL FROM a, b UPDATE ON join(c, S) DO JOIN d TO S
    """
    bus = Bus(scopes=Scopes.parse(text), order="ordered", lateness_us=10**9)
    bus.scopes.apply(parse_statements("JOIN c TO S SINCE 300"))
    seen: list[tuple[str, str | None]] = []
    for name in "cd":
        bus.subscribe("true", lambda n, name=name: seen.append((name, n.id)), subscriber=name)
    for time in (100, 300, 400):
        bus.publish({"id": str(time), "producer": "a", "time": time})
    bus.close()
    assert sorted(seen) == [("c", "300"), ("c", "400"), ("d", "300"), ("d", "400")]
