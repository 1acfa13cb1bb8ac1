"""The event loop is held up by no client: a turn is bounded, and what is too large is refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.filters.algebra import Algebra
from fairlead.filters.language import parse
from fairlead.filters.poset import Poset
from fairlead.matching.columnar.engine import Columnar
from fairlead.matching.columnar.loading import Kernels
from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.network import bounds, wire
from fairlead.network.node import Node
from fairlead.network.settings import BrokerSettings, Limits
from fairlead.network.turns import Turn
from fairlead.routing.catalogue import FEW
from fairlead_lab.testing.nodes import End, linked

STEPS = 20
"""So many steps take a turn: the clock goes on by one whenever it is looked at."""


def busy_node(limits: Limits | None = None) -> Node:
    ticks: Iterator[int] = count()
    turn = Turn(lambda: float(next(ticks)), seconds=float(STEPS))
    return Node(BrokerSettings("b").broker(), None, limits, life="b", turn=turn)


def client(node: Node, name: str) -> End:
    end = End(node)
    end.session = node.greet(end, wire.Hello(wire.VERSION, "client", name))
    return end


def link(node: Node, name: str) -> End:
    """The node's end of a link to a new neighbour, which has nothing to say after that."""
    neighbour = Node(BrokerSettings(name).broker(), None, life=name)
    mine, theirs = linked(node, neighbour)
    for _ in range(4):
        for end, other in ((mine, theirs), (theirs, mine)):
            end.node.flush()
            if chunk := end.take():
                other.hear(chunk)
    assert node.links[name].ready
    return mine


def subscriptions(number: int) -> bytes:
    return b"".join(wire.control(wire.Subscribe(n + 1, f"s{n}", f"x = {n}")) for n in range(number))


def entries(node: Node) -> int:
    return len(node.broker.subscriptions)


def test_thousands_of_subscriptions_are_taken_some_in_each_turn() -> None:
    node = busy_node()
    greedy, other = client(node, "greedy"), client(node, "other")
    greedy.hear(subscriptions(1_000))
    turns, before = 0, 0
    while entries(node) < 1_000:
        assert (
            0 <= entries(node) - before <= STEPS + 1
        )  # the first look starts the clock; none while the first ones are related to one another
        before = entries(node)
        other.hear(wire.control(wire.Ping(turns + 1)))  # others are heard in between
        node.flush()
        turns += 1
        assert wire.Done(turns) in map(wire.parse_control, other.frames(wire.CONTROL))
    assert 1_000 // STEPS - 1 <= turns <= 4 * 1_000 // STEPS


class Comparisons:
    """A clock that goes on by one with every comparison of two filters: one step may take long."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        covers = Algebra.covers

        def counted(algebra: Algebra, one: Any, other: Any) -> bool:
            self.made += 1
            return covers(algebra, one, other)

        monkeypatch.setattr(Algebra, "covers", counted)

    def __call__(self) -> float:
        return float(self.made)


WIDE = [f"x > {-n} and y > {n - 1000}" for n in range(200)]
NARROW = [f"x > {n} and y > {1000 - n}" for n in range(1, 21)]
"""Every wide one covers every narrow one, and no two of either kind cover one another: nothing is implied."""


def test_a_subscription_that_relates_to_many_others_takes_several_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = Comparisons(monkeypatch)
    node = Node(BrokerSettings("b").broker(), None, life="b", turn=Turn(compared, seconds=float(STEPS)))
    linked = link(node, "n")
    greedy, other = client(node, "greedy"), client(node, "other")
    texts = [*WIDE, *NARROW]
    greedy.hear(b"".join(wire.control(wire.Subscribe(n + 1, f"s{n}", text)) for n, text in enumerate(texts)))
    turns, before = 0, compared.made
    while entries(node) < len(texts):
        other.hear(wire.control(wire.Ping(turns + 1)))
        node.flush()
        assert wire.Done(turns + 1) in map(wire.parse_control, other.frames(wire.CONTROL))
        assert compared.made - before <= STEPS + 2 * FEW  # few filters are compared pairwise
        before, turns = compared.made, turns + 1
    assert turns > len(WIDE) * len(NARROW) // STEPS
    told = [
        each
        for each in map(wire.parse_control, linked.frames(wire.CONTROL))
        if isinstance(each, wire.InterestsChanged)
    ]
    assert [text for each in told for text, _ in each.added] == WIDE


def test_filters_that_narrow_one_another_are_compared_with_the_nearest_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = Comparisons(monkeypatch)
    poset: Poset[int] = Poset()
    for n in range(200):
        above, below = poset.insert(n, parse(f"x > {n} and y < {5000 - n}"))
        assert (above, below) == (list(range(n)), [])
    assert compared.made < 2 * 200
    above, below = poset.insert(200, parse("x > 99.5 and y < 4900.5"))
    assert (above, below) == (list(range(100)), list(range(100, 200)))


def test_what_a_neighbour_announces_takes_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Comparisons(monkeypatch)
    node = Node(BrokerSettings("b").broker(), None, life="b", turn=Turn(compared, seconds=float(STEPS)))
    linked = link(node, "n")
    linked.hear(wire.control(wire.Table([(text, "") for text in [*NARROW, *WIDE]], [], [])))
    linked.hear(wire.control(wire.InterestsChanged([("z = 1", "")], [], False)) + wire.control(wire.Ping()))
    node.flush()
    assert wire.Pong() in map(wire.parse_control, linked.frames(wire.CONTROL))
    assert entries(node) == 0
    turns = 1
    while node.is_busy:
        node.flush()
        turns += 1
    assert turns > len(WIDE) * len(NARROW) // STEPS
    assert {str(interest.filter) for interest, _ in node.broker.subscriptions} == {*WIDE, "z = 1"}


def test_a_client_leaves_with_its_subscriptions_some_in_each_turn_and_may_come_back() -> None:
    node = busy_node()
    leaving = client(node, "one")
    leaving.hear(subscriptions(500))
    while entries(node) < 500:
        node.flush()
    node.lost(leaving.session)
    assert entries(node) == 500
    back = client(node, "one")
    back.hear(wire.control(wire.Subscribe(1, "mine", "x >= 0")))
    before = entries(node)
    while node.is_busy:
        node.flush()
        assert before - entries(node) <= STEPS
        before = entries(node)
    assert [str(interest.filter) for interest, _ in node.broker.subscriptions] == ["x >= 0"]
    back.hear(wire.publish(0, pack(Notification.of({"x": 1, "producer": "p", "id": "1"}))))
    node.flush()
    assert len(back.frames(wire.DELIVER)) == 1


def test_nothing_is_delivered_to_a_client_that_leaves() -> None:
    node = busy_node()
    leaving, other = client(node, "one"), client(node, "other")
    leaving.hear(subscriptions(200))
    while entries(node) < 200:
        node.flush()
    node.lost(leaving.session)
    other.hear(wire.publish(0, pack(Notification.of({"x": 199, "producer": "p", "id": "1"}))))
    node.flush()
    assert not leaving.frames(wire.DELIVER)


def refusals(end: End) -> list[str]:
    said = map(wire.parse_control, end.frames(wire.CONTROL))
    return [each.reason for each in said if isinstance(each, wire.Refused)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x in {" + ", ".join(map(str, range(20_000))) + "}", "a filter of 1"),
        (
            " and ".join(f"a{n} > 1" for n in range(501)),
            "a filter of 501 constraints; this broker takes at most 500",
        ),
        (
            " or ".join(f"not a{n} > 1" for n in range(501)),
            "a filter of 501 constraints; this broker takes at most 500",
        ),
    ],
)
def test_a_filter_that_is_too_large_is_refused(text: str, reason: str) -> None:
    node = busy_node()
    end = client(node, "one")
    end.hear(wire.control(wire.Subscribe(1, "s", text)) + wire.control(wire.Listen(2, "l", text)))
    while node.is_busy:
        node.flush()
    assert [each[: len(reason)] for each in refusals(end)] == [reason, reason]
    assert all("[limits]" in each for each in refusals(end))
    assert entries(node) == 0


def test_a_client_has_a_limit_of_subscriptions() -> None:
    node = busy_node(Limits(subscriptions=3))
    end = client(node, "one")
    end.hear(subscriptions(5))
    node.flush()
    assert entries(node) == 3
    assert len(refusals(end)) == 2
    assert "at most 3 subscriptions" in refusals(end)[0]


@pytest.mark.parametrize("value", [1, 1 << 80, [1, 2], {"y": 1}])
@pytest.mark.parametrize("number", [0, 7])
def test_a_notification_with_too_many_values_is_refused_and_others_are_not(
    value: object, number: int
) -> None:
    node = busy_node(Limits(attributes=100))
    end = client(node, "one")
    end.hear(wire.control(wire.Subscribe(1, "s", "x = 1")))
    small = pack(Notification.of({"x": 1, "long": "z" * 10_000, "producer": "p", "id": "1"}))
    large = pack(
        Notification.of({"x": 1, **{f"a{n}": value for n in range(101)}, "producer": "p", "id": "2"})
    )
    end.hear(wire.publish(number, large) + wire.publish(number and number + 1, small))
    node.flush()
    assert len(end.frames(wire.DELIVER)) == 1
    assert node.counters.refused == 1
    assert not number or "values; this broker takes at most 100" in refusals(end)[0]


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("number", [0, 7])
def test_a_notification_with_a_long_identity_is_refused_and_others_are_not(
    is_plain: bool, number: int
) -> None:
    node = busy_node(Limits(identity_bytes=200))
    end = client(node, "one")
    end.hear(wire.control(wire.Subscribe(1, "s", "x = 1")))
    content = {"x": 1, "y": 1 if is_plain else {"z": 1}, "text": "z" * 1_000}
    ids = ["1", "i" * 199, "é" * 199, "i" * 200, "4" * 60]
    packed = [pack(Notification.of({**content, "producer": "p", "id": id})) for id in ids]
    end.hear(b"".join(wire.publish(number and number + n, each) for n, each in enumerate(packed)))
    node.flush()
    assert len(end.frames(wire.DELIVER)) == 3
    assert node.counters.refused == 2
    if number:
        assert [each.split("\n")[0] for each in refusals(end)] == [
            "producer and id of 399 bytes; this broker takes at most 200",
            "producer and id of 201 bytes; this broker takes at most 200",
        ]


def test_constraints_are_counted_below_every_operator() -> None:
    assert bounds.constraints_in(parse("a = 1 and (b = 2 or not (c = 3 and d = 4))")) == 4


def test_the_thousandth_filter_waits_for_no_kernels() -> None:
    begun = list[object]()
    engine: Columnar[int] = Columnar(kernels=Kernels(begun.append))
    engine.add_many((n, parse(f"x = {n}")) for n in range(3_000))
    for n in range(3_000, 3_100):
        engine.add(n, parse(f"x = {n}"))
    for n in range(100):
        engine.remove(n)
    engine.compact()
    assert len(begun) == 1  # in another thread, once
    assert engine._version.base is None
    assert engine.match(Notification.of({"x": 2_500})) == [2_500]
    begun[0]()  # type: ignore[operator]
    engine.add(9_999, parse("x = 2500"))
    assert len(begun) == 2  # nor for arrays: another thread makes them
    assert engine._version.base is None
    begun[1]()  # type: ignore[operator]
    assert engine._version.base is not None
    assert engine.match(Notification.of({"x": 2_500})) == [2_500, 9_999]
    assert engine.match(Notification.of({"x": 50})) == []


@given(
    st.lists(st.tuples(st.sampled_from(["add", "many", "remove", "begin", "match"]), st.integers(0, 40))),
    st.randoms(use_true_random=False),
)
@settings(max_examples=settings.default.max_examples // 4)
def test_filters_that_come_and_go_while_arrays_are_made_are_matched(
    steps: list[tuple[str, int]], rng: random.Random
) -> None:
    """Another thread makes arrays of what there was; whatever has happened meanwhile holds when they are done."""
    begun = list[Callable[[], None]]()
    kernels = Kernels(begun.append)
    kernels.are_ready = True
    engine: Columnar[int] = Columnar(small=2, kernels=kernels)
    there: dict[int, int] = {}
    for step, number in steps:
        bound = rng.randrange(20)
        if step == "add" and number not in there:
            engine.add(number, parse(f"x > {bound}"))
            there[number] = bound
        elif step == "many":
            new = {number + 100 * n: bound for n in range(1, 4) if number + 100 * n not in there}
            engine.add_many((id, parse(f"x > {bound}")) for id in new)
            there |= new
        elif step == "remove" and number in there:
            engine.remove(number)
            del there[number]
        elif step == "begin" and begun:
            begun.pop(0)()
        wanted = [id for id, low in there.items() if number > low]
        assert sorted(engine.match(Notification.of({"x": number}))) == sorted(wanted)
    while begun:
        begun.pop(0)()
    assert sorted(engine.match(Notification.of({"x": 100}))) == sorted(there)
    assert len(engine) == len(there)
