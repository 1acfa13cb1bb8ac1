"""A remembered answer is the answer: what is remembered has in its key all that the rules depend on.

A rule that depends on something and does not declare it is caught by the same law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from fairlead.bus import Bus
from fairlead.bus.bus import Order
from fairlead.delivery import Late
from fairlead.errors import NotAdvertised, ScopeError, ValueRefused
from fairlead.filters.language import parse
from fairlead.model import Instant, Notification
from fairlead.model.order import LatestIdentities
from fairlead.model.packed import pack, unpack_plain
from fairlead.rules import Advertisements, Depends, Memory, Refusal, Route, Rule, Seam, is_plain
from fairlead.rules.access import Access, client_name
from fairlead.rules.ahead import Ahead
from fairlead.rules.trust import Trust
from fairlead.scopes import Scopes
from fairlead.security import AccessPolicy, Principal
from fairlead_lab.testing.rules import (
    FORGETFUL,
    AtMost,
    ForgetsThatItCounts,
    NoDuck,
    NoEvil,
    NotFor,
    NotForOf,
    OneByOne,
    OnlyOf,
)

FILTERS = {"s0": parse("x >= 2"), "s1": parse("x < 3"), "s2": parse('kind = "a"')}
CLIENTS = ("c:p0", "c:p1")

Publication = tuple[str, Notification]

TRUSTING = AccessPolicy.of({"brokers": {"b": {"handles": ["x < 4", 'kind = "a"']}}})


def subscribers(notification: Notification, source: str) -> Route:
    matching = [(f"c:{id}", (id,)) for id, filter in FILTERS.items() if filter.matches(notification)]
    return Route((), tuple(matching))


def seam_of(*rules: Rule) -> Seam:
    seam = Seam(subscribers, rules)
    for filter in FILTERS.values():
        seam.look_at(filter)
    return seam


def answer(seam: Seam, who: str, notification: Notification, now: int) -> Route | Refusal:
    """Both questions, asked of the seam."""
    admitted = seam.admit(who, notification, now)
    return admitted if isinstance(admitted, Refusal) else seam.route(admitted, "")


publications = st.lists(
    st.tuples(
        st.sampled_from(CLIENTS),
        st.builds(
            lambda fields, producer, id: Notification.of({**fields, "producer": producer, "id": id}),
            st.fixed_dictionaries(
                {"x": st.integers(0, 4), "kind": st.sampled_from("ab")}, optional={"duck": st.booleans()}
            ),
            st.sampled_from(["p", "q", "evil"]),
            st.sampled_from("12345"),
        ),
    ),
    min_size=2,
    max_size=12,
)


def is_remembered_right(seam: Seam, given: list[Publication]) -> bool:
    """Whether every answer that a memory gives is the seam's own."""
    memories: dict[str, Memory[Route | Refusal]] = {}
    for now, (who, notification) in enumerate(given):
        right = answer(seam, who, notification, now)
        if seam.is_plain_enough(who):
            source = seam.remembered_as(who)
            if source not in memories:
                memories[source] = Memory()
                memories[source].forget(seam.keys(source))
            parts = unpack_plain(pack(notification))
            assert parts is not None
            assert is_plain(parts[2])
            if memories[source].of([parts], lambda _, right=right: right) != [right]:
                return False
        if not isinstance(right, Refusal):
            seam.count(who, notification, now)
    return True


def access(kind: type[Access] = Access) -> Access:
    roles = {
        "one": {"members": ["p0"], "publish": ["x in {1, 3}", 'kind = "b"'], "producers": ["p"]},
        "two": {"members": ["p1"], "publish": ["not exists duck"], "producers": ["q", "e*"]},
    }
    rule = kind(AccessPolicy.of({"roles": roles}), lambda client: Principal(client_name(client)))
    for client in CLIENTS:
        rule.rights(client, 0)
    return rule


class NoAttributes(Access):
    """Does not declare what its filters look at."""

    def depends_for(self, source: str) -> Depends:
        return self.depends


class NoProducer(Access):
    """Does not declare that producers belong to clients."""

    def depends_for(self, source: str) -> Depends:
        return replace(super().depends_for(source), producer=False)


class NoSource(Access):
    """Does not declare that it tells clients apart."""

    @property
    def depends(self) -> Depends:
        return Depends.on("x", "kind", "duck", producer=True)

    def depends_for(self, source: str) -> Depends:
        return self.depends


HONEST: list[Callable[[], list[Rule]]] = [
    list,
    lambda: [NoEvil()],
    lambda: [NotFor("p", "c:s0")],
    lambda: [NotForOf("p", "c:s0", "c:p1")],
    lambda: [OnlyOf("c:p0")],
    lambda: [NoDuck()],
    lambda: [AtMost(2)],
    lambda: [NoEvil(), NotFor("q", "c:s1"), OnlyOf("c:p1"), NoDuck()],
    lambda: [access()],
    lambda: [NoEvil(), access(), NotFor("q", "c:s1")],
    lambda: [Trust("b", TRUSTING)],
    lambda: [Advertisements(lambda who: [FILTERS["s0"]] if who == "c:p0" else None, _refused)],
]


def _refused(who: str, notification: Notification) -> Refusal:
    return Refusal("not advertised")


@pytest.mark.parametrize("rules", HONEST)
@given(given=publications)
def test_a_remembered_answer_is_the_answer(rules: Callable[[], list[Rule]], given: list[Publication]) -> None:
    made = rules()
    for rule in made:
        if isinstance(rule, Advertisements):
            rule.changed(FILTERS["s0"])
    assert is_remembered_right(seam_of(*made), given)


ACCESS_MUTANTS: list[Callable[[], Rule]] = [
    lambda: access(NoAttributes),
    lambda: access(NoProducer),
    lambda: access(NoSource),
]


@pytest.mark.parametrize("mutant", [*FORGETFUL, *ACCESS_MUTANTS])
def test_a_rule_that_does_not_declare_what_it_depends_on_is_caught(mutant: Callable[[], Rule]) -> None:
    wrong = find(
        publications,
        lambda given: not is_remembered_right(seam_of(mutant()), given),
        settings=settings(max_examples=5_000, deadline=None, derandomize=True, database=None),
    )
    assert len(wrong) >= 2, "one answer has to be remembered, and another one to differ"


def test_a_rule_that_counts_and_is_not_volatile_is_refused() -> None:
    with pytest.raises(TypeError, match="ForgetsThatItCounts counts publications, and is not volatile"):
        seam_of(ForgetsThatItCounts(2))


@given(given=publications)
def test_questions_change_nothing(given: list[Publication]) -> None:
    seam, identities = seam_of(NoEvil(), NotFor("p", "c:s0"), AtMost(2)), LatestIdentities(100)
    for who, notification in given:
        first = answer(seam, who, notification, 0)
        assert answer(seam, who, notification, 0) == first
        taken = seam.take(who, notification, identities, 0)
        assert isinstance(taken, Refusal) == (isinstance(first, Refusal) and taken is not None)


def test_what_is_refused_may_be_published_again_and_a_duplicate_is_one_whatever_the_rules_say() -> None:
    seam, identities = seam_of(OnlyOf("c:p0")), LatestIdentities(10)
    notification = Notification.of({"x": 1, "producer": "p", "id": "1"})
    refusal = Refusal("only c:p0 may publish")
    assert seam.take("c:p1", notification, identities, 0) == refusal
    assert seam.take("c:p0", notification, identities, 0) == notification
    assert seam.take("c:p0", notification, identities, 0) is None
    assert seam.take("c:p1", notification, identities, 0) is None


def test_who_may_not_publish_under_a_producer_gets_the_same_answer_for_known_and_unknown_identities() -> None:
    class Owned(Rule):
        def disown(self, who: str, producer: str, now: int) -> Refusal | None:
            return None if who == f"c:{producer}" else Refusal("not yours")

    seam, identities = seam_of(NoEvil(), OnlyOf("c:p0"), Owned()), LatestIdentities(10)
    notification = Notification.of({"x": 1, "producer": "p0", "id": "1"})
    assert seam.take("c:p0", notification, identities, 0) == notification
    assert seam.take("c:p0", notification, identities, 0) is None
    for id in "12":
        assert seam.take("c:p1", replace(notification, id=id), identities, 0) == Refusal("not yours")
    assert seam.objection("c:p1", notification, 0) == Refusal("not yours")
    assert not seam_of(Owned()).admits_all


def test_every_admitted_notification_has_a_producer_and_an_id() -> None:
    taken = seam_of().take("c:p0", Notification.of({"x": 1}), LatestIdentities(10), 0)
    assert isinstance(taken, Notification)
    assert taken.producer == "c:p0"
    assert taken.id


def test_what_is_remembered_is_forgotten_when_a_rule_changes() -> None:
    rule = Advertisements(lambda who: [], _refused)
    seam = seam_of(rule)
    before = seam.version
    rule.changed(parse("y = 1"))
    assert seam.version != before


def test_a_volatile_rule_is_not_asked_again_when_a_notification_is_released() -> None:
    rule = AtMost(1)
    seam = seam_of(rule)
    notification = Notification.of({"x": 1, "producer": "p", "id": "1"})
    seam.count("p", notification, 0)
    assert isinstance(seam.admit("p", notification, 0), Refusal)
    assert seam.objection("p", notification, 0) is None


def test_a_rule_that_concerns_one_client_leaves_the_others_their_fast_path() -> None:
    class OnlyOne(OneByOne):
        def concerns(self, source: str) -> bool:
            return source == "c:p0"

    seam = seam_of(OnlyOne())
    assert not seam.is_plain_enough("c:p0")
    assert seam.is_plain_enough("c:p1")
    assert seam.remembered_as("c:p1") == "c:p1"


# -- the bus asks the same object ----------------------------------------------------------------------------


ORDERS: list[Order] = ["live", "ordered"]
both_orders = pytest.mark.parametrize("order", ORDERS)


@both_orders
def test_a_bus_asks_its_rules(order: Order) -> None:
    got: list[Any] = []
    with Bus(rules=[NoEvil(), NotFor("p", "ada")], order=order) as bus:
        bus.subscribe("x > 0", got.append, subscriber="ada")
        bus.subscribe("x > 0", got.append, subscriber="bob")
        bus.publish({"x": 1, "producer": "p", "id": "1"})
        bus.publish({"x": 1, "producer": "q", "id": "1"})
        with pytest.raises(ValueRefused, match="evil may not publish"):
            bus.publish({"x": 1, "producer": "evil", "id": "1"})
        assert bus.statistics().refused == 1
    assert [each.producer for each in got] == ["p", "q", "q"]


@both_orders
def test_a_rate_limit_is_a_rule_on_a_bus_with_a_clock(order: Order) -> None:
    now = [0]
    with Bus(rules=[AtMost(2)], clock=lambda: Instant(now[0]), order=order) as bus:
        for number in range(2):
            bus.publish({"x": number, "producer": "p", "id": str(number)})
        with pytest.raises(ValueRefused, match="more than 2 a second"):
            bus.publish({"x": 2, "producer": "p", "id": "2"})
        assert bus.publish({"x": 1, "producer": "p", "id": "1"}) is None  # a duplicate all the same
        assert bus.publish({"x": 2, "producer": "q", "id": "2"}) is not None
        now[0] = 1_000_000
        assert bus.publish({"x": 2, "producer": "p", "id": "2"}) is not None
        counted = bus.statistics()
    assert (counted.published, counted.duplicates, counted.refused) == (4, 1, 1)


@both_orders
def test_one_notification_from_the_future_is_refused_and_makes_no_other_late(order: Order) -> None:
    now, late = Instant.parse("2026-03-02T10:00:00Z"), list[Late]()
    day_us = 86_400_000_000
    with Bus(rules=[Ahead(day_us)], clock=lambda: now, order=order, on_late=late.append) as bus:
        found = bus.detect("A followed by A")
        for number, time in enumerate((now, Instant(now.microseconds + day_us))):
            bus.publish({"type": "A", "id": number, "time": time})
        with pytest.raises(ValueRefused, match="the time lies too far ahead: 2062-01-01T00:00:00Z"):
            bus.publish({"type": "A", "id": "far", "time": Instant.parse("2062-01-01T00:00:00Z")})
        bus.publish({"type": "A", "id": "after", "time": Instant(now.microseconds + day_us)})
        counted = bus.statistics()
    assert (counted.published, counted.refused, counted.late) == (3, 1, 0)
    assert not late
    assert len(list(found)) == 1


def test_without_a_clock_nothing_lies_ahead() -> None:
    with Bus(rules=[Ahead(0)]) as bus:
        assert bus.publish({"x": 1, "time": Instant.parse("2062-01-01T00:00:00Z")}) is not None


@both_orders
def test_what_was_published_is_a_duplicate_after_its_advertisement_was_revoked(order: Order) -> None:
    with Bus(order=order) as bus:
        advertisement = bus.advertise("x > 0", "p")
        bus.publish({"x": 1, "producer": "p", "id": "1"})
        bus.unadvertise(advertisement)
        assert bus.publish({"x": 1, "producer": "p", "id": "1"}) is None
        assert bus.publish({"x": 2, "producer": "p", "id": "1"}) is None
        with pytest.raises(NotAdvertised):
            bus.publish({"x": 1, "producer": "p", "id": "2"})
        counted = bus.statistics()
    assert (counted.duplicates, counted.conflicts, counted.not_advertised) == (1, 1, 1)


@pytest.mark.parametrize("first", ["admitted", "refused"])
def test_a_refused_copy_never_replaces_the_one_that_an_ordered_bus_holds(first: str) -> None:
    admitted = {"x": 2, "producer": "p", "id": "1", "time": Instant(10)}
    refused = {"x": 1, "duck": True, "producer": "p", "id": "1", "time": Instant(5)}
    got: list[Notification] = []
    with Bus(rules=[NoDuck()], order="ordered", lateness_us=100) as bus:
        bus.subscribe("x > 0", got.append)
        if first == "admitted":
            assert bus.publish(admitted) is not None
            assert bus.publish(refused) is None
        else:
            with pytest.raises(ValueRefused, match="no ducks"):
                bus.publish(refused)
            assert bus.publish(admitted) is not None
    assert [each.get("x") for each in got] == [2]


@st.composite
def attempts(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Publications of few identities, in the order of their times, some of which rules refuse."""
    fields = st.fixed_dictionaries(
        {
            "producer": st.sampled_from(["p", "q", "evil"]),
            "id": st.sampled_from("123"),
            "x": st.integers(0, 1),
        },
        optional={"duck": st.booleans()},
    )
    return [{**each, "time": Instant(at)} for at, each in enumerate(draw(st.lists(fields, max_size=12)))]


@given(attempts=attempts())
def test_both_orders_give_the_same_verdicts(attempts: list[dict[str, Any]]) -> None:
    verdicts: dict[str, list[str]] = {}
    for order in ORDERS:
        now = [0]
        rules = [NoEvil(), NoDuck(), AtMost(2)]
        verdicts[order] = []
        with Bus(rules=rules, clock=lambda now=now: Instant(now[0]), order=order, lateness_us=1_000) as bus:
            for number, each in enumerate(attempts):
                now[0] = number * 300_000
                try:
                    verdicts[order].append("duplicate" if bus.publish(each) is None else "published")
                except ValueRefused as error:
                    verdicts[order].append(str(error))
    assert verdicts["live"] == verdicts["ordered"]


@both_orders
def test_a_component_that_the_graph_does_not_name_is_refused_by_a_rule(order: Order) -> None:
    scopes = Scopes.parse(
        "DEFINE COMPONENT desk AS\nDEFINE SCOPE floor AS ALL FROM desk", outsiders="refused"
    )
    with Bus(scopes=scopes, order=order) as bus:
        bus.publish({"x": 1, "producer": "desk", "id": "1"})
        for _ in range(2):  # it is not remembered
            with pytest.raises(ScopeError, match="no component is named stranger"):
                bus.publish({"x": 1, "producer": "stranger", "id": "1"})
        bus.scopes.alter("DEFINE COMPONENT stranger AS")
        assert bus.publish({"x": 1, "producer": "stranger", "id": "1"}) is not None
        counted = bus.statistics()
    assert (counted.published, counted.refused) == (2, 2)


def test_depends_names_what_filters_tell_apart() -> None:
    depends = Depends.on("x", filters=[parse("y > 3")])
    keys = depends.cells.keys()
    assert keys is not None
    parts = [("p", "1", {"x": x, "y": y}) for x in (1, 2) for y in (1, 2, 4)]
    assert len(set(keys.of(parts))) == len(set(map(keys.one, parts))) == 4
    assert Depends.on("a.b").cells.keys() is None
