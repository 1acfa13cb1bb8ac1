"""Every engine answers as brute force does: on the corpus, on random filters, and while filters come and go."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fairlead import testing
from fairlead.filters.filter import And, Filter, Not, Or
from fairlead.filters.language import parse
from fairlead.filters.schema import Schema
from fairlead.matching import Engine, engine_named
from fairlead.matching.brute import Brute
from fairlead.model import Notification
from fairlead.model.encoding import fields_from_json
from fairlead_lab.matching import ENGINES
from fairlead_lab.matching.automaton import Automaton
from fairlead_lab.matching.counting import Counting
from fairlead_lab.matching.diagram import Diagram
from fairlead_lab.matching.tree import Tree

CORPUS = [
    row
    for path in sorted((Path(__file__).parents[1] / "corpus").glob("*.json"))
    for row in json.loads(path.read_text(encoding="utf-8"))
    if isinstance(row, dict) and {"filter", "matches"} <= row.keys()
]

MAKERS: dict[str, Callable[[], Engine[Any]]] = {
    **{name: partial(engine_named, name) for name in ENGINES},
    "counting, the most selective constraint": lambda: Counting(counted_max=1),
    "counting, few values": lambda: Counting(few=("x", "a.b")),
    "tree, order given": lambda: Tree(order=("y", "x", "a.b", "a")),
    "diagram, bottom up": lambda: Diagram(evaluation="up"),
    "diagram, order given": lambda: Diagram(order=(parse("x = 1"), parse("exists a.b"), parse("x = 0"))),
    "automaton, early": lambda: Automaton(predicates="early"),
}
DESTINED = {name: make for name, make in MAKERS.items() if hasattr(make(), "match_destinations")}

every_engine = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
destined_engines = pytest.mark.parametrize("make", DESTINED.values(), ids=DESTINED.keys())

# Half of what is drawn is about few names and few values, so that all combinations of hit and miss come up.
DENSE = st.recursive(
    st.builds(
        lambda name, op, bound: parse(f"{name} {op} {bound}"),
        st.sampled_from(("x", "y", "a.b")),
        st.sampled_from(("=", "=", "!=", "<", ">=")),
        st.integers(0, 3),
    ),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(And.of),
        st.lists(inner, min_size=2, max_size=3).map(Or.of),
        st.builds(Not, inner),
    ),
    max_leaves=4,
)
FILTERS = st.one_of(
    DENSE,
    DENSE,
    testing.conjunctions(),
    testing.filters(
        templates=True, paths=True, polynomials=True, methods=True, extensions=True, leaves_max=5
    ),
)
NOTIFICATIONS = st.one_of(
    st.dictionaries(st.sampled_from(("x", "y", "a.b")), st.integers(0, 3)).map(Notification.of),
    testing.notifications(templates=True, paths=True, methods=True),
)


@every_engine
def test_every_row_of_the_corpus_has_its_answer(make: Callable[[], Engine[int]]) -> None:
    engine = make()
    for number, row in enumerate(CORPUS):
        schema = Schema(attributes=row["schema"]) if "schema" in row else None
        engine.add(number, parse(row["filter"], schema))
    for number, row in enumerate(CORPUS):
        notification = Notification.of(fields_from_json(row["notification"]))
        assert (number in engine.match(notification)) is row["matches"], row["name"]


class BesideBrute(RuleBasedStateMachine):
    """Filters come and go; in between, and at the end, the engine is asked what brute force is asked."""

    make: Callable[[], Engine[int]]

    @initialize()
    def start(self) -> None:
        self.engine, self.brute = self.make(), Brute[int]()
        self.filters: dict[int, Filter] = {}
        self.next = 0

    @rule(filters=st.lists(FILTERS, min_size=1, max_size=4))
    def add(self, filters: list[Filter]) -> None:
        for filter in filters:
            self.engine.add(self.next, filter)
            self.brute.add(self.next, filter)
            self.filters[self.next] = filter
            self.next += 1

    @precondition(lambda self: self.filters)
    @rule(choice=st.randoms(use_true_random=False))
    def add_one_again(self, choice: Any) -> None:
        self.add([choice.choice(list(self.filters.values()))])

    @precondition(lambda self: self.filters)
    @rule(choice=st.randoms(use_true_random=False))
    def remove(self, choice: Any) -> None:
        id = choice.choice(list(self.filters))
        del self.filters[id]
        self.engine.remove(id)
        self.brute.remove(id)

    @rule(notification=NOTIFICATIONS)
    def match(self, notification: Notification) -> None:
        assert self.engine.match(notification) == self.brute.match(notification)

    @rule(notifications=st.lists(NOTIFICATIONS, max_size=3))
    def match_batch(self, notifications: list[Notification]) -> None:
        assert self.engine.match_batch(notifications) == self.brute.match_batch(notifications)

    @invariant()
    def as_many_filters_and_matches(self) -> None:
        if hasattr(self, "engine"):
            mine, oracle = self.engine.statistics(), self.brute.statistics()
            assert (mine.filters, mine.notifications, mine.matches) == (
                oracle.filters,
                oracle.notifications,
                oracle.matches,
            )


@every_engine
def test_filters_come_and_go_and_the_engine_answers_as_brute_force_does(
    make: Callable[[], Engine[int]],
) -> None:
    machine = type("BesideBruteWith", (BesideBrute,), {"make": staticmethod(make)})
    few = max(1, settings.default.max_examples // 4)
    case = machine.TestCase
    case.settings = settings(settings.default, max_examples=few, stateful_step_count=15)
    case().runTest()


@destined_engines
@settings(max_examples=settings.default.max_examples // 4)
@given(
    st.lists(st.tuples(FILTERS, st.sampled_from((None, "north", "south"))), max_size=8),
    st.lists(NOTIFICATIONS, min_size=1, max_size=4),
    st.integers(0, 7),
)
def test_a_destination_is_in_the_answer_iff_a_filter_added_with_it_matches(
    make: Callable[[], Engine[int]],
    added: list[tuple[Filter, str | None]],
    notifications: list[Notification],
    removed: int,
) -> None:
    engine = make()
    for number, (filter, destination) in enumerate(added):
        engine.add(number, filter, destination)
    if removed < len(added):
        engine.remove(removed)
        del added[removed]
    for notification in notifications:
        found = engine.match_destinations(notification)
        assert len(found) == len(set(found))
        assert set(found) == {to for filter, to in added if to and filter.matches(notification)}


@destined_engines
def test_a_destination_is_settled_by_its_first_match(make: Callable[[], Engine[int]]) -> None:
    engine, other = make(), make()
    for number in range(20):
        for each in (engine, other):
            each.add(number, parse(f'x > {number} and y unifies "f(_X)"'), "hop")
    notification = Notification.of({"x": 100, "y": "f(a)"})
    assert len(engine.match(notification)) == 20
    assert other.match_destinations(notification) == ["hop"]
    if make is not MAKERS["diagram, bottom up"]:  # that one evaluates all nodes before it answers anything
        assert other.statistics().tests < engine.statistics().tests


@every_engine
def test_an_id_that_is_taken_and_one_that_is_not_there_are_errors(make: Callable[[], Engine[str]]) -> None:
    engine = make()
    engine.add("a", parse("n = 1"))
    with pytest.raises(ValueError, match="'a' is taken"):
        engine.add("a", parse("n = 2"))
    with pytest.raises(KeyError):
        engine.remove("b")
    assert engine.match(Notification.of({"n": 1})) == ["a"]
    assert engine.match(Notification.of({"n": 2})) == []


@every_engine
def test_a_filter_that_was_removed_and_added_again_comes_last(make: Callable[[], Engine[str]]) -> None:
    engine = make()
    for id in ("a", "b", "c"):
        engine.add(id, parse("x > 1 or absent x"))
    engine.remove("a")
    engine.add("a", parse("x > 2"))
    assert engine.match(Notification.of({"x": 3})) == ["b", "c", "a"]


@every_engine
def test_an_engine_without_filters_finds_nothing(make: Callable[[], Engine[str]]) -> None:
    engine = make()
    engine.add("a", parse("x > 1 and //cpu"))
    engine.remove("a")
    assert engine.match(Notification.of({"x": 3, "cpu": {"clock": 1}})) == []
    assert engine.statistics().filters == 0


@every_engine
def test_filters_that_would_break_up_into_too_many_conjunctions_are_matched_all_the_same(
    make: Callable[[], Engine[int]],
) -> None:
    engine = make()
    pairs = " and ".join(f"(a{n} = 1 or b{n} = 1)" for n in range(14))
    engine.add(1, parse(pairs))
    engine.add(2, parse(f"not ({pairs})"))
    engine.add(3, parse(f"({pairs}) or //cpu"))
    assert engine.match(Notification.of({f"a{n}": 1 for n in range(14)})) == [1, 3]
    assert engine.match(Notification.of({f"a{n}": 1 for n in range(13)})) == [2]
    assert engine.match(Notification.of({"cpu": {"clock": 1}})) == [2, 3]
    for id in (1, 2, 3):
        engine.remove(id)
    assert engine.match(Notification.of({})) == []


@pytest.mark.parametrize("name", sorted(set(ENGINES) - {"brute"}))
def test_an_engine_that_indexes_makes_fewer_tests_than_brute_force(name: str) -> None:
    engine, brute = engine_named(name), engine_named("brute")
    for each in (engine, brute):
        for number in range(100):
            path = f" and //cpu{number}[@clock > 3]" if name == "automaton" else ""
            each.add(number, parse(f'symbol = "{number % 10}" and price > {number}{path}'))
    notification = Notification.of({"symbol": "7", "price": 50, "cpu7": {"clock": 5}})
    assert engine.match(notification) == brute.match(notification)
    if name != "poset":  # nothing here covers anything
        assert engine.statistics().tests < brute.statistics().tests
