"""The properties of FAIDECS 4.3 and 4.4, and that the network computes the definition."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.correlation.fair import (
    Choice,
    Conjunction,
    Correlator,
    Matcher,
    Snapshot,
    Subscription,
    parse,
)
from fairlead.correlation.fair import memories as memories_module
from fairlead.correlation.fair.network import Network
from fairlead.correlation.fair.tree import Tree, component_of
from fairlead.model import Notification
from fairlead_lab.correlation.fair.reference import deliveries, figure_1, matches
from fairlead_lab.matching.counting import Counting
from fairlead_lab.testing.fair import conjunctions, event, events, fed, subscriptions

CHOICES = st.sampled_from(Choice)


def delivered(
    conjunction: Conjunction, fed_events: list[Notification], choice: Choice = Choice.FIRST_RECEIVED
) -> list[tuple[int, tuple[Notification, ...]]]:
    matcher = Matcher(Subscription.of([conjunction]), choice)
    return [(at, relation.events) for at, relation in fed(matcher, fed_events)]


# -- the network is the definition ---------------------------------------------------------------------------


@given(conjunctions(), events(), CHOICES)
def test_the_network_delivers_what_the_definition_says(
    conjunction: Conjunction, given_events: list[Notification], choice: Choice
) -> None:
    expected = deliveries(conjunction, given_events, most_recent=choice is Choice.MOST_RECENT)
    assert delivered(conjunction, given_events, choice) == expected


@given(conjunctions("AB", instances=3), events("AB", max_size=12), CHOICES)
def test_the_network_delivers_what_the_definition_says_where_a_type_has_many_instances(
    conjunction: Conjunction, given_events: list[Notification], choice: Choice
) -> None:
    expected = deliveries(conjunction, given_events, most_recent=choice is Choice.MOST_RECENT)
    assert delivered(conjunction, given_events, choice) == expected


@given(conjunctions("ABCD", instances=1), events("ABCD", max_size=20), CHOICES)
def test_the_network_delivers_what_the_definition_says_where_types_are_many(
    conjunction: Conjunction, given_events: list[Notification], choice: Choice
) -> None:
    expected = deliveries(conjunction, given_events, most_recent=choice is Choice.MOST_RECENT)
    assert delivered(conjunction, given_events, choice) == expected


@given(conjunctions("ABC"), events("AAABBBC", max_size=16), CHOICES)
def test_the_network_delivers_what_the_definition_says_when_its_memory_is_swept_all_the_time(
    conjunction: Conjunction, given_events: list[Notification], choice: Choice
) -> None:
    expected = deliveries(conjunction, given_events, most_recent=choice is Choice.MOST_RECENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memories_module, "_SPARE", 0)
        assert delivered(conjunction, given_events, choice) == expected


AMONG_INSTANCES = (
    "A[1].x < A[2].x",
    "A[2].x < A[3].x",
    "A[1].x <= A[3].y",
    "A[1].y != A[2].y",
    "A[2].y != A[3].y",
    "A[1].y > B.y",
    "A[2].x >= B.x",
    "A[3].x != B.x",
    "A[1].x != B.x",
    "A[2].y = B.y",
    "A[1].y = B[2].y",
    "B[1].x > B[2].x",
)


@given(
    st.lists(st.sampled_from(AMONG_INSTANCES), min_size=2, max_size=6, unique=True),
    st.lists(st.tuples(st.sampled_from("AAAB"), st.integers(0, 5), st.integers(0, 5)), max_size=13),
    CHOICES,
)
def test_what_the_network_leaves_out_changes_nothing_of_what_is_matched(
    compared: list[str], drawn: list[tuple[str, int, int]], choice: Choice
) -> None:
    [conjunction] = parse(" and ".join(compared)).conjunctions
    given_events = [event(type, x=x, y=y, id=n) for n, (type, x, y) in enumerate(drawn)]
    expected = deliveries(conjunction, given_events, most_recent=choice is Choice.MOST_RECENT)
    assert delivered(conjunction, given_events, choice) == expected


COMPARED = (
    "A.x < B.y",
    "A.x >= B.x",
    "B.y = C.y",
    "B.x > C.y",
    "C.x < D.x",
    "B.y != D.y",
    "C.y <= D.y",
    "A.y > D.x",
)


@given(
    st.lists(st.sampled_from(COMPARED), min_size=1, max_size=4, unique=True),
    st.lists(st.tuples(st.sampled_from("ABCD"), st.integers(0, 9), st.integers(0, 9)), max_size=60),
    CHOICES,
)
def test_a_tree_matches_what_a_network_matches_and_holds_the_same(
    compared: list[str], drawn: list[tuple[str, int, int]], choice: Choice
) -> None:
    [conjunction] = parse(" and ".join(compared)).conjunctions
    given_events = [event(type, x=x, y=y, id=str(n)) for n, (type, x, y) in enumerate(drawn)]
    for component in conjunction.components:
        is_tree = isinstance(component_of(component), Tree) or len(component.counts) < 3
        tree, network = (Tree if is_tree else Network)(component, choice), Network(component, choice)
        for each in given_events:
            places = network.slots(each)
            assert tree.take(each, places) == network.take(each, places)
        assert tree.held == network.held
        restored = component_of(component, choice, tree.held)
        assert restored.held == tree.held


def test_what_forms_a_tree_makes_no_partial_matches() -> None:
    [component] = parse("A.x < B.x and B.x < C.x and C.x < D.x").conjunctions[0].components
    tree, network = component_of(component), Network(component)
    assert isinstance(tree, Tree)
    for n in range(60):
        each = event("ABC"[n % 3], x=n, id=str(n))
        assert tree.take(each, tree.slots(each)) is network.take(each, network.slots(each)) is None
    assert 0 < network.partial_matches < 5
    assert (tree.partial_matches, len(tree.held)) == (0, 60)
    [circle] = parse("A.x < B.x and B.x < C.x and C.y < A.y").conjunctions[0].components
    assert isinstance(component_of(circle), Network)


@given(conjunctions(), events())
def test_on_one_component_the_search_of_figure_1_is_the_definition(
    conjunction: Conjunction, given_events: list[Notification]
) -> None:
    for component in conjunction.components:
        assert figure_1(component, given_events) == matches(component, given_events)


@given(conjunctions(), events(max_size=30))
def test_what_is_held_makes_no_match_and_passes_the_filter_of_some_place(
    conjunction: Conjunction, given_events: list[Notification]
) -> None:
    for component in conjunction.components:
        network = Network(component)
        for each in given_events:
            network.take(each, network.slots(each))
        assert matches(component, network.held) == []
        assert all(network.slots(each) for each in network.held)


# -- safety --------------------------------------------------------------------------------------------------


@given(subscriptions(), events(), CHOICES)
def test_no_duplication_no_creation_and_admission(
    subscription: Subscription, given_events: list[Notification], choice: Choice
) -> None:
    found = fed(Matcher(subscription, choice), given_events)
    for conjunction in subscription.conjunctions:
        own = [relation for _, relation in found if relation.conjunction == conjunction]
        taken = [each.id for relation in own for each in relation.events]
        assert len(taken) == len(set(taken)), "no event is delivered twice for a conjunction"
        assert [relation.number for relation in own] == list(range(1, len(own) + 1))
    for at, relation in found:
        assert all(each in given_events[: at + 1] for each in relation.events), "nothing is made up"
        assert relation.conjunction in subscription.conjunctions
        assert relation.conjunction.admits(relation.events)


# -- agreement and order -------------------------------------------------------------------------------------


@given(st.lists(st.integers(), max_size=6), conjunctions(), events(), CHOICES)
def test_identical_subscriptions_have_identical_outcomes_however_they_are_written(
    order: list[int], conjunction: Conjunction, given_events: list[Notification], choice: Choice
) -> None:
    predicates = list(conjunction.predicates)
    for number in order:
        predicates.append(predicates.pop(number % len(predicates)))
    rewritten = Subscription.of([Conjunction.of([*predicates, predicates[0]])])
    assert rewritten == Subscription.of([conjunction])
    assert fed(Matcher(rewritten, choice), given_events) == fed(
        Matcher(Subscription.of([conjunction]), choice), given_events
    )


@given(conjunctions("AB"), conjunctions("CD"), events("ABCD", max_size=24), CHOICES)
def test_covering_agreement_the_wider_joins_the_nth_matches_of_the_narrower(
    phi: Conjunction, psi: Conjunction, given_events: list[Notification], choice: Choice
) -> None:
    alone = [delivered(each, given_events, choice) for each in (phi, psi)]
    together = delivered(phi & psi, given_events, choice)
    joined = [(max(one[0], other[0]), (*one[1], *other[1])) for one, other in zip(*alone, strict=False)]
    assert together == joined


@given(conjunctions("AC"), conjunctions("BD"), conjunctions("BD"), events("ABCD", max_size=24))
def test_conjunction_total_order_what_two_extensions_share_comes_in_one_order(
    phi: Conjunction, psi: Conjunction, chi: Conjunction, given_events: list[Notification]
) -> None:
    shared = [
        [
            [each.id for each in relation if each.get("type") in "AC"]
            for _, relation in delivered(phi & other, given_events)
        ]
        for other in (psi, chi)
    ]
    shorter, longer = sorted(shared, key=len)
    assert longer[: len(shorter)] == shorter


@given(st.lists(conjunctions(), min_size=2, max_size=4), events())
def test_disjunction_total_order_what_two_subscriptions_share_comes_in_one_order(
    some: list[Conjunction], given_events: list[Notification]
) -> None:
    whole, part = Subscription.of(some), Subscription.of(some[:2])
    common = [each for each in fed(Matcher(whole), given_events) if each[1].conjunction in part.conjunctions]
    assert common == fed(Matcher(part), given_events)


@given(conjunctions(), conjunctions(), events())
def test_event_total_order_events_of_one_type_are_delivered_in_the_order_of_arrival(
    phi: Conjunction, psi: Conjunction, given_events: list[Notification]
) -> None:
    for conjunction in (phi, psi):
        for type in conjunction.signature:
            found = [
                int(str(each.id))
                for _, relation in delivered(conjunction, given_events)
                for each in relation
                if each.get("type") == type
            ]
            assert found == sorted(found)


@given(st.integers(1, 6))
def test_conjunction_validity_what_matches_for_ever_is_delivered_for_ever(rounds: int) -> None:
    subscription = parse("A[1].x < A[2].x and A[2].x = B.x and C")
    one_round = [event("A", x=0), event("A", x=1), event("A", x=0), event("C"), event("B", x=1)]
    assert len(fed(Matcher(subscription), one_round * rounds)) == rounds


@given(events("AB", max_size=30))
def test_event_validity_an_event_without_comparisons_is_delivered_if_its_type_has_one_instance(
    given_events: list[Notification],
) -> None:
    partners = [event("B", id=f"b{n}") for n in range(30)]
    found = fed(Matcher(parse("A.y >= 1 and B")), [*given_events, *partners])
    taken = {each.id for _, relation in found for each in relation.events}
    wanted = parse("A.y >= 1").conjunctions[0]
    assert {each.id for each in given_events if wanted.admits([each])} <= taken


# -- state ---------------------------------------------------------------------------------------------------


@given(subscriptions(), events(max_size=20), st.integers(0, 20), CHOICES)
def test_snapshot_and_restore_at_any_point_change_nothing(
    subscription: Subscription, given_events: list[Notification], cut: int, choice: Choice
) -> None:
    straight, first = Matcher(subscription, choice), Matcher(subscription, choice)
    before, after = given_events[:cut], given_events[cut:]
    fed(straight, before)
    fed(first, before)
    state = first.snapshot()
    assert Snapshot.from_json(json.loads(json.dumps(state.to_json()))) == state
    second = Matcher.restore(state)
    assert second.snapshot() == state
    assert fed(second, after) == fed(straight, after)
    assert second.snapshot() == straight.snapshot()
    assert first.snapshot() == state, "a snapshot is a value of its own"


def test_in_which_order_filters_came_does_not_matter() -> None:
    """The filter of the second place, which another has asked before, is found before that of the first."""
    later = parse("A[1].x != 1 and A[1].x != A[2].y")
    stream = [event("A", x=2), event("A", x=3, y=5)]
    correlator: Correlator[str] = Correlator()
    correlator.add("other", parse("A and B"))
    correlator.add("later", later)
    found = [(id, relation.events) for each in stream for id, relation in correlator.feed(each)]
    assert found == [("later", tuple(stream))]


@given(st.lists(subscriptions("AB"), min_size=2, max_size=4), st.data(), events("AB", max_size=20), CHOICES)
def test_a_correlator_gives_each_subscription_what_a_matcher_of_its_own_would_give(
    some: list[Subscription], data: st.DataObject, given_events: list[Notification], choice: Choice
) -> None:
    engine: Counting[int] | None = Counting() if data.draw(st.booleans()) else None
    correlator: Correlator[int] = Correlator(engine)
    alone: dict[int, Matcher] = {}
    for number, each in enumerate(given_events):
        if data.draw(st.integers(0, 3)) == 0:
            subscription = data.draw(st.sampled_from(some))
            of = data.draw(st.sampled_from([None, *(key for key in alone)]))
            state = None
            if of is not None and correlator.snapshot(of).subscription == subscription:
                state = correlator.snapshot(of)
            correlator.add(number, subscription, choice, state=state)
            alone[number] = Matcher(subscription, choice, state=state)
        if alone and data.draw(st.integers(0, 5)) == 0:
            gone = data.draw(st.sampled_from(sorted(alone)))
            correlator.remove(gone)
            del alone[gone]
        expected = [(id, relation) for id, matcher in alone.items() for relation in matcher.feed(each)]
        assert correlator.feed(each) == expected
        assert all(correlator.snapshot(id) == matcher.snapshot() for id, matcher in alone.items())
    for id in list(alone):
        correlator.remove(id)
    assert correlator.components == 0
    assert engine is None or engine.statistics().notifications == len(given_events)
