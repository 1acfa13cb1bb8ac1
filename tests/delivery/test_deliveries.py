"""One delivery per subscriber and notification, with one byte form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.delivery import DeliveryRecord, Validity, deliveries_of
from fairlead.errors import ValueRefused
from fairlead.model.order import BEGINNING, Identity, OrderKey

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
keys = st.builds(OrderKey, st.integers(-5, 5), texts, st.none() | st.integers(), texts)
matching = st.lists(st.tuples(st.sampled_from(["ada", "bob"]), texts))


def test_a_subscriber_with_several_matching_subscriptions_gets_one_delivery() -> None:
    key = OrderKey(12, "p", 3, "7")
    found = deliveries_of(key, [("bob", "s2"), ("ada", "s4"), ("ada", "s1"), ("ada", "s4")])
    assert found == [DeliveryRecord("ada", key, ("s1", "s4")), DeliveryRecord("bob", key, ("s2",))]
    assert found[0].notification == Identity("p", "7")


def test_the_byte_form_is_the_documented_one() -> None:
    [delivery] = deliveries_of(OrderKey(12, "p", 3, "7"), [("ada", "s4"), ("ada", "s1")])
    assert delivery.line() == (
        b'{"subscriber":"ada","time":12,"producer":"p","sequence":3,"id":"7","subscriptions":["s1","s4"]}\n'
    )


@given(keys, matching)
def test_reading_the_byte_form_gives_the_delivery(key: OrderKey, matches: list[tuple[str, str]]) -> None:
    for delivery in deliveries_of(key, matches):
        assert DeliveryRecord.read(delivery.line()) == delivery


@given(keys, matching, st.randoms(use_true_random=False))
def test_the_bytes_do_not_depend_on_the_order_of_the_matches(
    key: OrderKey, matches: list[tuple[str, str]], random: object
) -> None:
    shuffled = random.sample(matches, len(matches))  # type: ignore[attr-defined]
    assert [d.line() for d in deliveries_of(key, matches)] == [d.line() for d in deliveries_of(key, shuffled)]


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "{}",
        '{"subscriber":"a","time":1,"producer":"p","sequence":true,"id":"7","subscriptions":[]}',
        '{"subscriber":"a","time":1,"producer":"p","sequence":1,"id":"7","subscriptions":["b","a"]}',
        '{"subscriber":"a","time":1,"producer":"p","sequence":1,"id":"7","subscriptions":[1]}',
        '{"time":1,"subscriber":"a","producer":"p","sequence":1,"id":"7","subscriptions":[]}',
    ],
)
def test_what_is_not_a_delivery_is_refused(line: str) -> None:
    with pytest.raises(ValueRefused):
        DeliveryRecord.read(line)


def test_deliveries_sort_by_key_then_subscriber() -> None:
    early, late = OrderKey(1, "z", None, "1"), OrderKey(2, "a", None, "1")
    found = [*deliveries_of(late, [("ada", "s")]), *deliveries_of(early, [("bob", "t"), ("ada", "s")])]
    assert [(d.key.time, d.subscriber) for d in sorted(found, key=lambda d: d.rank)] == [
        (1, "ada"),
        (1, "bob"),
        (2, "ada"),
    ]


# -- validity ----------------------------------------------------------------------------------------------


@given(keys, keys, keys)
def test_a_validity_contains_its_beginning_and_not_its_end(
    since: OrderKey, until: OrderKey, key: OrderKey
) -> None:
    validity = Validity(since, until)
    assert (key in validity) == (since <= key < until)
    assert (since in validity) == (not validity.empty)
    assert until not in validity
    assert key in Validity()


@given(st.none() | keys, st.integers(-5, 5), keys)
def test_a_beginning_below_the_watermark_is_moved_to_it_and_recorded(
    since: OrderKey | None, watermark: int, key: OrderKey
) -> None:
    asked = Validity(since)
    admitted = asked.admitted_at(watermark)
    assert (key in admitted) == (key in asked and key.time >= watermark)
    assert admitted.moved == (since is None or since.time < watermark)
    assert admitted.requested == ((since or OrderKey.first_at(BEGINNING)) if admitted.moved else None)
    assert admitted.admitted_at(watermark) == admitted


def test_nothing_is_moved_before_the_stream_has_begun() -> None:
    assert Validity().admitted_at(BEGINNING) == Validity()


@given(keys, keys)
def test_the_earlier_end_counts(first: OrderKey, second: OrderKey) -> None:
    assert Validity().ended_at(first).ended_at(second).until == min(first, second)
