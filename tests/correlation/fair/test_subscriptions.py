"""Signatures and evaluation (FAIDECS 4.1 and 4.2), and the paper's own example."""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from fairlead.correlation.fair import (
    Choice,
    Comparison,
    Conjunction,
    Correlator,
    Instance,
    Matcher,
    Reference,
    Snapshot,
    Subscription,
    parse,
)
from fairlead.correlation.fair.network import Network
from fairlead.errors import FilterError, ValueRefused
from fairlead.filters import Op
from fairlead.model import Notification
from fairlead.model.encoding import notification_to_json
from fairlead_lab.correlation.fair.reference import deliveries, figure_1
from fairlead_lab.testing.fair import event, fed

# The paper counts the instances of this example from 0, and everything else from 1, as we do.
STOCK = parse("""
    StockQuote[1].time > EarningsReport[1].time and
    StockQuote[2].value > StockQuote[1].value and
    StockQuote[3].value > StockQuote[2].value
""")
DOLLAR = parse(f"{STOCK} and USDollar.value < 100")


def only(subscription: Subscription) -> Conjunction:
    [conjunction] = subscription.conjunctions
    return conjunction


# -- the paper's example -------------------------------------------------------------------------------------


CORPUS = json.loads((Path(__file__).parents[2] / "corpus" / "fair.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", CORPUS, ids=[row["name"] for row in CORPUS])
def test_every_row_of_the_corpus_has_its_relations(row: dict[str, Any]) -> None:
    subscription, stream = parse(row["subscription"]), [Notification.of(each) for each in row["events"]]
    assert subscription.signature == tuple(row["signature"])
    found = fed(Matcher(subscription, Choice(row["choice"])), stream)
    assert [[stream[at].id, [each.id for each in relation.events]] for at, relation in found] == row[
        "relations"
    ]
    most_recent = row["choice"] == Choice.MOST_RECENT.value
    by_definition = [
        (at, relation)
        for conjunction in subscription.conjunctions
        for at, relation in deliveries(conjunction, stream, most_recent=most_recent)
    ]
    assert sorted(by_definition, key=itemgetter(0)) == [(at, relation.events) for at, relation in found]


def test_the_dollar_is_a_component_of_its_own() -> None:
    assert only(DOLLAR).components == (only(STOCK), only(parse("USDollar.value < 100")))


# -- signatures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        ("A[3]", "AAA"),
        ("B and A", "AB"),
        ("A[2].x = B[3].y and C", "AABBBC"),
        ("A[2] and A[1]", "AA"),
        ("A[2] and B or A[3] and C", "AAABC"),
        ("true and A", "A"),
    ],
)
def test_a_signature_is_the_in_order_union_of_those_of_the_predicates(text: str, signature: str) -> None:
    assert parse(text).signature == tuple(signature)


@pytest.mark.parametrize(
    ("text", "components"),
    [
        ("A and B and C", ["A[1]", "B[1]", "C[1]"]),
        ("A.x = C.x and B.y < D.y", ["A[1].x = C[1].x", "B[1].y < D[1].y"]),
        ("A.x = C.x and B.y < C.y and D", ["A[1].x = C[1].x and B[1].y < C[1].y", "D[1]"]),
        ("A[1].x = B.x and A[2].x = C.x", ["A[1].x = B[1].x and A[2].x = C[1].x"]),
        ("A[2].x = 1", ["A[2].x = 1"]),
    ],
)
def test_types_belong_to_one_component_iff_comparisons_connect_them(text: str, components: list[str]) -> None:
    assert [str(each) for each in only(parse(text)).components] == components


def test_a_comparison_has_one_form() -> None:
    a, b = Reference(Instance("A"), "x"), Reference(Instance("B"), "y")
    assert Comparison(a, Op.LE, b) == Comparison(b, Op.GE, a)
    assert Comparison(a, Op.NE, b) == Comparison(b, Op.NE, a)
    with pytest.raises(FilterError, match="does not compare two attributes"):
        Comparison(a, Op.PREFIX, b)


def test_each_place_has_a_filter_that_any_engine_can_evaluate() -> None:
    filters = only(parse("A[2].x = 1 and B.y < A.x")).filters
    assert {f"{each.type}{each.index}": str(filter) for each, filter in filters.items()} == {
        "A1": 'type = "A"',
        "A2": 'type = "A" and x = 1',
        "B1": 'type = "B"',
    }


# -- evaluation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "relation", "holds"),
    [
        ("A.x < B.y", [event("A", x=1), event("B", y=2)], True),
        ("A.x < B.y", [event("A", x=2), event("B", y=2)], False),
        ("A.x < B.y", [event("A", x=2)], False),
        ("A[2].x = 1", [event("A", x=0), event("A", x=1)], True),
        ("A[2].x = 1", [event("A", x=1)], False),
        ("A[2].x = 1", [event("A", x=1), event("B", x=1)], False),
        ("A", [event("B")], True),
        ("A.x = 1 or B.y = 1", [event("A", x=0), event("B", y=1)], True),
        ("A.low < A.high", [event("A", low=1, high=2)], True),
        ("A.x = B.y", [event("A", x=0.1), event("B", y="0.1")], False),
        ("A.x = B.y", [event("A", x=20.0), event("B", y=20)], True),
        ("A.x = B.y", [event("A", x=None), event("B", y=None)], True),
        ("A.x = B.y", [event("A"), event("B")], False),
        ("A.x = B.y", [event("A", x=float("nan")), event("B", y=float("nan"))], False),
        ("A.x != B.y", [event("A", x=1), event("B", y="a")], False),
        ("A.x != B.y", [event("A", x=True), event("B", y=False)], True),
        ("A.x < B.y", [event("A", x=False), event("B", y=True)], False),
        ("A.x < B.y", [event("A", x="a"), event("B", y="b")], True),
        ("A.x = B.y", [event("A", x={1, 2}), event("B", y={2, 1})], True),
    ],
)
def test_evaluation_is_that_of_filters_on_each_event_and_between_them(
    text: str, relation: list[Notification], holds: bool
) -> None:
    subscription = parse(text)
    assert subscription.holds(relation) is holds
    conjunction = subscription.conjunctions[0]
    if conjunction.signature == tuple(each.get("type") for each in relation):
        assert bool(fed(Matcher(subscription), relation)) is holds
        assert bool(deliveries(conjunction, relation)) is holds


def test_a_relation_is_admitted_only_with_the_signature() -> None:
    conjunction = only(parse("A and B"))
    assert conjunction.admits([event("A"), event("B")])
    assert not conjunction.admits([event("B"), event("A")])
    assert not conjunction.admits([event("A"), event("B"), event("B")])


# -- matching ------------------------------------------------------------------------------------------------


def test_first_received_and_most_recent() -> None:
    first, second, partner = event("T1", id=1, k=0), event("T1", id=2, k=0), event("T2", id=1, k=0)

    def matched(choice: Choice) -> list[tuple[Notification, ...]]:
        found = fed(Matcher(parse("T1.k = T2.k"), choice), [first, second, partner])
        return [relation.events for _, relation in found]

    assert matched(Choice.FIRST_RECEIVED) == [(first, partner)]
    assert matched(Choice.MOST_RECENT) == [(second, partner)]


def test_most_recent_chooses_within_components_for_else_covering_agreement_would_break() -> None:
    a1, b1, a2, c, b2 = (event(name[0].upper(), id=name) for name in ("a1", "b1", "a2", "c", "b2"))
    stream = [a1, b1, a2, c, b2]
    narrow = fed(Matcher(parse("A and B"), Choice.MOST_RECENT), stream)
    wide = fed(Matcher(parse("A and B and C"), Choice.MOST_RECENT), stream)
    assert [relation.events for _, relation in narrow] == [(a1, b1), (a2, b2)]
    assert [relation.events for _, relation in wide] == [(a1, b1, c)]  # and not a2 with b1


def test_the_search_of_figure_1_breaks_covering_agreement_and_ours_holds_it() -> None:
    phi, wider = only(parse("A.x < B.y")), only(parse("A.x < B.y and C"))
    a10, a1, b5, b20, c = (
        event("A", x=10),
        event("A", x=1),
        event("B", y=5),
        event("B", y=20),
        event("C"),
    )
    stream = [a10, a1, b5, b20, c]
    assert figure_1(phi, stream) == [(2, (a1, b5))]
    assert figure_1(wider, stream) == [(4, (a10, b20, c))]  # which Φ never delivers
    assert deliveries(phi, stream) == [(2, (a1, b5))]
    assert deliveries(wider, stream) == [(4, (a1, b5, c))]
    assert [each.events for _, each in fed(Matcher(Subscription.of([wider])), stream)] == [(a1, b5, c)]


def test_the_choice_follows_the_signature_where_the_joins_have_another_order() -> None:
    conjunction = only(parse("A.k = C.k and B.y = C.y"))  # joined as A, C, B
    b1, b2 = event("B", y=2), event("B", y=1)
    c1, c2 = event("C", k=0, y=1), event("C", k=0, y=2)
    a = event("A", k=0)
    stream = [b1, b2, c1, c2, a]
    for choice, expected in ((Choice.FIRST_RECEIVED, (a, b1, c2)), (Choice.MOST_RECENT, (a, b2, c1))):
        [(_, relation)] = fed(Matcher(Subscription.of([conjunction]), choice), stream)
        assert relation.events == expected
        most_recent = choice is Choice.MOST_RECENT
        assert deliveries(conjunction, stream, most_recent=most_recent) == [(4, expected)]


def test_a_match_disposes_of_what_came_before_it_and_between() -> None:
    matcher = Matcher(parse("A[1].x = A[2].x and A[1].x = B.x"))
    stream = [event("A", id=n, x=x) for n, x in enumerate((9, 1, 2, 1, 2, 2))]
    assert fed(matcher, stream) == []
    partner = event("B", x=1)
    [relation] = matcher.feed(partner)
    assert relation.events == (stream[1], stream[3], partner)
    [state] = matcher.snapshot().conjunctions
    assert state.components[0].held == tuple(stream[4:])  # the 2 between the ones is gone
    [relation] = matcher.feed(event("B", x=2))
    assert relation.events[:2] == (stream[4], stream[5])


def test_infix_disposal_defeats_event_validity_where_a_type_has_several_instances() -> None:
    stream = [event("T", id=0, x=0), event("T", id=1, x=0), event("T", id=2, x=1)]
    for found in (figure_1(only(parse("T[2].x = 1")), stream), deliveries(only(parse("T[2].x = 1")), stream)):
        assert found == [(2, (stream[0], stream[2]))]  # the second fits T[1], and is never delivered


def test_a_notification_may_complete_several_conjunctions_in_their_order() -> None:
    found = fed(Matcher(parse("B.x = A.x or B or A.y = B.y and C")), [event("A", x=1), event("B", x=1)])
    assert [(at, str(relation.conjunction)) for at, relation in found] == [
        (1, "A[1].x = B[1].x"),
        (1, "B[1]"),
    ]


def test_disposal_of_a_long_backlog_leaves_only_what_may_match() -> None:
    [component] = only(parse("A.x = B.x and B.y = C.y")).components
    network = Network(component)

    def take(each: Notification) -> tuple[Notification, ...] | None:
        return network.take(each, network.slots(each))

    for n in range(500):
        assert take(event("A", x=n)) is None
        assert take(event("B", x=n, y=n)) is None
    assert (len(network.held), network.partial_matches) == (1000, 500)
    for n in range(0, 500, 2):
        match = take(event("C", y=n))
        assert match is not None
        assert [each.get("x", None) for each in match] == [n, n, None]
        assert len(network.held) == 2 * (499 - n)
    assert take(event("C", y=499)) is not None
    assert network.held == ()
    assert network.partial_matches == 0


def test_what_disposal_took_is_swept_from_memory_even_under_keys_that_never_come_again() -> None:
    [component] = only(parse("A.x = B.x and B.y = C.y")).components
    network = Network(component)
    for n in range(2_000):
        for each in (event("A", x=n), event("B", x=n, y=n), event("A", x=-n), event("B", x=-n, y=-n)):
            assert network.take(each, network.slots(each)) is None
        done = event("C", y=n)
        assert network.take(done, network.slots(done)) is not None
        assert len(network.held) == 2
    assert network.partial_matches < 200


def network_of(text: str) -> Network:
    [component] = only(parse(text)).components
    return Network(component)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("A[1].x < A[2].x and A[2].x < A[3].x and A[3].x < A[4].x and A[4].x < B.x", 3),
        ("A[1].x < A[2].x and A[2].x < A[3].x and A[3].x = B.x", 300),  # what is equal, B has to tell
        ("A[1].x < A[2].x and A[1].x < A[3].x and A[2].x < B.x", 2),
        ("A[1].x != A[2].x and A[2].x != A[3].x and A[3].x != B.x", 2 * 2),
        ("A[1] and A[2] and A[3].x > B.x", 2),
        ("A[40].x > B.x", 39),
    ],
)
def test_of_partial_matches_only_those_are_kept_that_no_other_is_as_good_as(text: str, kept: int) -> None:
    network = network_of(text)
    for n in range(300):
        each = event("A", x=n)
        assert network.take(each, network.slots(each)) is None
    assert network.partial_matches <= kept


@pytest.mark.parametrize(
    ("text", "stream", "taken"),
    [
        pytest.param(
            "A[1].x < A[2].x and A[2].x < B.x and A[2].y = B.y",
            "A x1 y0, A x2 y0, A x3 y1, A x4 y0, A x5 y1, B x9 y0, B x9 y1",
            [(0, 1, 5), (2, 4, 6)],
            id="the better one is gone: the fifth event stood behind the first",
        ),
        pytest.param(
            "A.x = B.x and B.y < C.y and B.z = C.z",
            "A x2, A x3, A x5, B x3 y5 z0, B x5 y4 z1, B x2 y1 z1, C y9 z0, C y9 z1",
            [(1, 3, 6), (2, 4, 7)],
            id="a later one that was better is gone, and the earlier one is not",
        ),
        pytest.param(
            "A[1].y != A[2].y and A[2].x > B.x",
            "A y0 x0, A y1 x0, A y0 x9, B x5",
            [(1, 2, 3)],
            id="two of different values, for the one to come is like the first",
        ),
        pytest.param(
            "A[1].y != A[2].y and A[1].x != B.x and A[2].z = B.z",
            "A y0 x0, A y0 x1, A y0 x2, A y1 x3, A y0 x4 z1, B x9 z1",
            [(3, 4, 5)],
            id="three that differ in one respect are alike in the other",
        ),
    ],
)
def test_what_is_left_out_is_not_missed(text: str, stream: str, taken: list[tuple[int, ...]]) -> None:
    given = [
        event(type, id=n, **{each[0]: int(each[1:]) for each in attributes})
        for n, (type, *attributes) in enumerate(each.split() for each in stream.split(", "))
    ]
    network, conjunction = network_of(text), only(parse(text))
    found = [network.take(each, network.slots(each)) for each in given]
    expected = [tuple(given[place] for place in each) for each in taken]
    assert [each for each in found if each is not None] == expected
    assert [relation for _, relation in deliveries(conjunction, given)] == expected


def test_the_first_match_is_found_although_the_network_keeps_another_and_failures_are_not_tried_twice() -> (
    None
):
    network = network_of("A[1].x < A[2].x and A[2].x < A[3].x and A[3].x < B.x and A[3].y = B.y")
    quotes = [event("A", x=200 - n, y=n, id=n) for n in range(200)]
    quotes += [event("A", x=x, y=y, id=x) for x, y in ((1_000, 0), (500, 0), (900, 0), (1_001, 1))]
    for each in quotes:
        assert network.take(each, network.slots(each)) is None
    done = event("B", x=2_000, y=1)
    match = network.take(done, network.slots(done))
    assert match is not None
    assert [each.get("x") for each in match] == [200, 1_000, 1_001, 2_000]


# -- many ----------------------------------------------------------------------------------------------------


def test_subscriptions_alike_share_their_components() -> None:
    correlator: Correlator[str] = Correlator()
    correlator.add("narrow", parse("A.x = B.x"))
    correlator.add("wide", parse("A.x = B.x and C"))
    correlator.add("same", parse("B.x = A.x"))
    assert correlator.components == 2
    correlator.feed(event("A", x=1))
    correlator.add("late", parse("A.x = B.x"))
    assert correlator.components == 3  # it holds less
    correlator.add("joined", parse("A.x = B.x"), state=correlator.snapshot("narrow"))
    assert correlator.components == 3
    assert [id for id, _ in correlator.feed(event("B", x=1))] == ["narrow", "same", "joined"]
    assert [id for id, _ in correlator.feed(event("C"))] == ["wide"]


def test_a_state_is_that_of_the_same_subscription() -> None:
    state = Matcher(parse("A.x = B.x")).snapshot()
    with pytest.raises(ValueRefused, match="another subscription"):
        Matcher(parse("A.x = B.y"), state=state)
    with pytest.raises(ValueRefused, match="another subscription"):
        Matcher(parse("A.x = B.x"), Choice.MOST_RECENT, state=state)
    with pytest.raises(ValueRefused, match="without some component"):
        Matcher.restore(Snapshot(state.subscription, state.choice, ()))
    with pytest.raises(ValueRefused, match="not the state of a subscription"):
        Snapshot.from_json({"subscription": "A"})


def test_ids_are_distinct_and_known() -> None:
    correlator: Correlator[str] = Correlator()
    correlator.add("one", parse("A"))
    with pytest.raises(ValueError, match="'one' is taken"):
        correlator.add("one", parse("B"))
    with pytest.raises(KeyError):
        correlator.remove("two")
    assert len(correlator) == 1


def test_a_notification_without_a_type_concerns_nobody() -> None:
    matcher = Matcher(parse("A or B"))
    for given in ({"x": 1}, {"type": None}, {"type": ["A"]}, {"type": {"a": 1}}):
        assert matcher.feed(Notification.of(given)) == []


def test_a_state_in_which_what_is_held_makes_a_match_is_none() -> None:
    matcher = Matcher(parse("A.x < B.y and B.y < C.z"))
    for type, name in (("A", "x"), ("B", "y")):
        matcher.feed(Notification.of({"type": type, name: ord(type), "id": type}))
    state = matcher.snapshot().to_json()
    [component] = state["conjunctions"][0]["components"]
    third = Notification.of({"type": "C", "z": 100, "id": "C"})
    component["held"].append(notification_to_json(third))
    with pytest.raises(ValueRefused, match="make a match"):
        Matcher.restore(Snapshot.from_json(json.loads(json.dumps(state))))
