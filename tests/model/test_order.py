"""The total order respects producers and causes, and a stream establishes the order of the whole set."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.errors import ValueRefused
from fairlead.model import Notification
from fairlead.model.order import (
    END,
    Identities,
    Identity,
    Ordering,
    OrderKey,
    causes_of,
    event_time,
    identity_of,
    order_keys,
)


def note(**fields: Any) -> Notification:
    return Notification.of(fields)


@st.composite
def sets(draw: st.DrawFn, size: int = 7) -> list[Notification]:
    """Notifications with distinct identities whose numbers, times and causes often meet and contradict."""
    made = []
    for id in range(draw(st.integers(0, size))):
        fields: dict[str, Any] = {"id": str(id), "producer": draw(st.sampled_from("abc"))}
        if draw(st.booleans()):
            fields["sequence"] = draw(st.integers(0, 4))
        if draw(st.integers(0, 9)):
            fields["time"] = draw(st.integers(0, 8))
        names = st.builds("{}/{}".format, st.sampled_from("abc"), st.integers(0, size))
        if causes := draw(st.lists(names, max_size=2)):
            fields["cause"] = causes
        made.append(note(**fields))
    return made


def followed(every: list[Notification], one: Notification) -> list[Notification]:
    """What a notification directly follows, by the definition."""
    causes = causes_of(one)
    return [
        other for other in every if identity_of(other) in causes or (other is not one and before(other, one))
    ]


def before(first: Notification, second: Notification) -> bool:
    if first.sequence is None or second.sequence is None or first.producer != second.producer:
        return False
    return (first.sequence, first.id or "") < (second.sequence, second.id or "")


def ancestors(every: list[Notification], one: Notification) -> list[Notification]:
    found: list[Notification] = []
    ahead = followed(every, one)
    while ahead:
        each = ahead.pop()
        if not any(each is other for other in found):
            found.append(each)
            ahead.extend(followed(every, each))
    return found


def keys_by_definition(every: list[Notification]) -> list[OrderKey]:
    """Raise order times until nothing has to be raised any more."""
    times = {identity_of(one): event_time(one) for one in every}
    edges = [
        (one, other)
        for one in every
        for other in followed(every, one)
        if before(other, one) or not any(one is each for each in [other, *ancestors(every, other)])
    ]
    changed = True
    while changed:
        changed = False
        for one, other in edges:
            mine, theirs = (OrderKey.of(each, times[identity_of(each)]) for each in (one, other))
            if mine <= theirs:
                times[identity_of(one)] += 1
                changed = True
    return [OrderKey.of(one, times[identity_of(one)]) for one in every]


@given(sets())
def test_order_times_are_raised_as_little_as_sequence_numbers_and_causes_ask_for(
    every: list[Notification],
) -> None:
    assert order_keys(every) == keys_by_definition(every)


@given(sets(), st.randoms(use_true_random=False))
def test_the_keys_do_not_depend_on_the_order_in_which_the_set_is_given(
    every: list[Notification], random: Random
) -> None:
    shuffled = random.sample(every, len(every))
    assert set(order_keys(every)) == set(order_keys(shuffled))


@given(sets())
def test_keys_are_distinct_and_follow_each_producers_numbers(every: list[Notification]) -> None:
    keys = order_keys(every)
    assert len(set(keys)) == len(every)
    for one, key in zip(every, keys, strict=True):
        assert key.time >= event_time(one)
        assert all(
            key > other_key
            for other, other_key in zip(every, keys, strict=True)
            if other is not one and before(other, one)
        )


def complete_below(every: list[Notification], arrived: list[Notification]) -> int:
    """How far a bound may move: all before it has arrived, with all that it follows."""
    ids = {identity_of(each) for each in arrived}
    missing = [
        event_time(one)
        for one in every
        if any(identity_of(each) not in ids for each in [one, *ancestors(every, one)])
    ]
    return min(missing, default=END - 1)


@given(sets(), st.randoms(use_true_random=False))
def test_a_stream_establishes_the_order_of_the_whole_set_for_any_arrival_within_the_lateness(
    every: list[Notification], random: Random
) -> None:
    ordering, released, arrived = Ordering(), [], []
    for one in random.sample(every, len(every)):
        assert ordering.add(one)
        arrived.append(one)
        if random.random() < 0.7:
            released += ordering.advance(complete_below(every, arrived) - random.choice((0, 0, 1, 3)))
    released += ordering.close()
    keys = order_keys(every)
    expected = sorted(zip(keys, every, strict=True), key=lambda each: each[0].rank)
    assert [key for key, _ in released] == [key for key, _ in expected]
    assert [one for _, one in released] == [one for _, one in expected]
    assert len(ordering) == 0


@given(sets(size=9), st.randoms(use_true_random=False))
def test_whatever_comes_in_what_comes_out_is_in_order_and_nothing_is_lost(
    every: list[Notification], random: Random
) -> None:
    ordering, released, late = Ordering(), [], []
    for one in random.sample(every, len(every)):
        if not ordering.add(one):
            late.append(one)
        released += ordering.advance(random.randrange(12))
    released += ordering.close()
    keys = [key for key, _ in released]
    assert keys == sorted(keys)
    numbers: dict[str, tuple[int, str]] = {}
    for key, _ in released:
        if key.sequence is not None:
            assert numbers.get(key.producer, (-1, "")) < (key.sequence, key.id)
            numbers[key.producer] = (key.sequence, key.id)
    assert {key.identity for key in keys} | set(map(identity_of, late)) == set(map(identity_of, every))
    assert len(released) + len(late) == len(every)


def test_an_effect_of_the_same_instant_comes_behind_its_cause() -> None:
    cause, effect = note(producer="z", id="1", time=5), note(producer="a", id="1", time=5, cause="z/1")
    keys = order_keys([effect, cause])
    assert [key.time for key in keys] == [6, 5]
    assert order_keys([note(producer="zz", id="1", time=5, cause="z/1"), cause])[0].time == 5


def test_a_producers_clock_that_is_set_back_does_not_set_its_order_back() -> None:
    keys = order_keys([note(id=str(n), sequence=n, time=time) for n, time in enumerate((10, 7, 12, 3))])
    assert [key.time for key in keys] == [10, 10, 12, 12]


def test_causes_that_lead_back_to_themselves_change_nothing() -> None:
    circle = [
        note(id="1", time=1, cause="2"),
        note(id="2", time=9, cause="1"),
        note(id="3", time=4, cause="3"),
    ]
    behind = note(id="4", time=0, cause="2")
    assert [key.time for key in order_keys([*circle, behind])] == [1, 9, 4, 9]


def test_a_circle_stays_one_when_its_first_members_have_been_released() -> None:
    circle = [
        note(id="1", producer="a", time=10, cause="c/1"),
        note(id="1", producer="b", time=100, cause="a/1"),
        note(id="1", producer="c", time=90, cause="b/1"),
    ]
    ordering = Ordering()
    assert all(map(ordering.add, circle))
    released = ordering.advance(50) + ordering.close()
    assert [key.time for key, _ in released] == [10, 90, 100]


def test_what_a_fixed_one_follows_is_fixed_with_it_and_not_raised_to_it() -> None:
    every = [
        note(id="6", producer="p", sequence=6, time=3),
        note(id="7", producer="p", sequence=7, time=1, cause="q/c"),
        note(id="c", producer="q", time=8),
    ]
    ordering = Ordering()
    assert all(map(ordering.add, every))
    released = ordering.advance(2) + ordering.advance(4) + ordering.close()
    assert [key for key, _ in released] == sorted(order_keys(every))
    assert [(key.id, key.time) for key, _ in released] == [("6", 3), ("c", 8), ("7", 9)]


def test_numbers_that_come_too_late_between_held_ones_do_not_overtake() -> None:
    ordering = Ordering()
    assert all(ordering.add(note(id=str(n), sequence=n, time=time)) for n, time in ((6, 60), (8, 100)))
    assert ordering.advance(50) == []
    assert all(ordering.add(note(id=str(n), sequence=n, time=time)) for n, time in ((7, 10), (9, 20)))
    released = ordering.advance(65) + ordering.close()
    assert [(key.sequence, key.time) for key, _ in released] == [(6, 60), (7, 60), (8, 100), (9, 100)]


def test_a_cause_that_comes_after_a_key_was_fixed_does_not_raise_it_over_its_followers() -> None:
    ordering = Ordering()
    assert ordering.add(note(id="6", sequence=6, time=60, cause="x"))
    assert ordering.add(note(id="7", sequence=7, time=10))
    assert ordering.advance(50) == []
    assert ordering.add(note(id="x", time=90))
    assert [key.id for key, _ in ordering.close()] == ["6", "7", "x"]


@given(sets(size=9), st.randoms(use_true_random=False))
def test_an_ordering_restored_from_what_it_holds_goes_on_as_if_nothing_had_happened(
    every: list[Notification], random: Random
) -> None:
    whole, restored = Ordering(), Ordering()
    for one in random.sample(every, len(every)):
        assert restored.add(one) is whole.add(one)
        bound = random.randrange(12)
        assert restored.advance(bound) == whole.advance(bound)
        held = list(restored.held)
        restored = Ordering.restore(
            restored.bound, random.sample(held, len(held)), random.sample(restored.last, len(restored.last))
        )
        assert len(restored) == len(whole)
    assert restored.close() == whole.close()
    assert {key.producer: key for key in restored.last} == {key.producer: key for key in whole.last}


@pytest.mark.parametrize(
    ("cause", "named"),
    [
        ("p/7", [("p", "7")]),
        ("https://here.example/x/7", [("https://here.example/x", "7")]),
        ("7", [("me", "7")]),
        (7, [("me", "7")]),
        ({"producer": "p/q", "id": "a/b"}, [("p/q", "a/b")]),
        ({"id": 7}, [("me", "7")]),
        (["p/7", "q/8"], [("p", "7"), ("q", "8")]),
        ([{"producer": "p", "id": "7"}, {"producer": "p", "id": "7"}], [("p", "7")]),
        (True, []),
        (None, []),
        (1.5, []),
        ({"reason": "fire"}, []),
    ],
)
def test_causes_are_named_by_a_string_a_record_or_several(cause: Any, named: list[tuple[str, str]]) -> None:
    found = causes_of(note(producer="me", id="1", cause=cause))
    assert sorted(found) == sorted(Identity(*each) for each in named)
    assert causes_of(note(producer="me", id="1")) == ()


def test_a_missing_sequence_number_comes_before_every_other() -> None:
    keys = [OrderKey(1, "p", None, "z"), OrderKey(1, "p", -3, "a"), OrderKey(1, "p", 2, "a")]
    assert sorted((keys[2], keys[0], keys[1])) == keys
    assert keys[0] <= keys[0] < keys[1]
    assert keys[2] >= keys[2] > keys[1]
    assert OrderKey.first_at(1) <= min(keys)


def test_a_notification_without_an_id_has_no_key() -> None:
    with pytest.raises(ValueRefused, match="no identity"):
        OrderKey.of(note(x=1))


def test_a_late_notification_is_refused_and_one_in_time_is_not() -> None:
    ordering = Ordering()
    assert ordering.add(note(id="1", time=10))
    assert [key.time for key, _ in ordering.advance(20)] == [10]
    assert ordering.advance(20) == ordering.advance(5) == []
    assert not ordering.add(note(id="2", time=19))
    assert ordering.add(note(id="3", time=20))
    assert len(ordering) == 1
    assert Identity("", "3") in ordering


def test_a_number_below_an_established_one_is_late_whatever_its_time() -> None:
    ordering = Ordering()
    ordering.add(note(id="2", sequence=2, time=10))
    ordering.advance(20)
    assert not ordering.add(note(id="1", sequence=1, time=30))
    assert ordering.add(note(id="3", sequence=3, time=30))


def test_one_whose_cause_is_held_is_not_late_though_its_own_time_has_passed() -> None:
    ordering = Ordering(bound=20)
    assert ordering.add(note(id="1", time=30))
    assert ordering.add(note(id="2", time=5, cause="1"))
    assert not ordering.add(note(id="3", time=5))
    assert [key.id for key, _ in ordering.advance(31)] == ["1", "2"]


# -- identities --------------------------------------------------------------------------------------------


@given(st.lists(st.fixed_dictionaries({"x": st.integers(0, 2)})), st.randoms(use_true_random=False))
@example([{"x": 0}, {"x": 0}], Random(0))
def test_equal_records_without_ids_are_so_many_notifications_in_any_order(
    records: list[dict[str, Any]], random: Random
) -> None:
    def made(given: list[dict[str, Any]]) -> set[Identity]:
        identities = Identities()
        return {identity_of(identities.identified(Notification.of(record))) for record in given}

    assert made(records) == made(random.sample(records, len(records)))
    assert len(made(records)) == len(records)


def test_an_identity_is_remembered_for_so_long_behind_its_order_time() -> None:
    identities = Identities(remember_us=5)
    for producer in "pq":
        identities.settle(note(id="1", producer=producer, time=10), 12)
    identities.forget(17)
    assert Identity("p", "1") in identities
    assert len(identities) == 2
    identities.settle(note(id="1", producer="q", time=10), 14)
    identities.forget(18)
    assert Identity("p", "1") not in identities
    assert Identity("q", "1") in identities


def test_no_more_identities_are_remembered_than_is_said() -> None:
    identities = Identities(remember_us=5, remembered=3)
    for number in range(10):
        identities.settle(note(id=str(number)), number)
    assert [number for number in range(10) if Identity("", str(number)) in identities] == [7, 8, 9]


def test_the_number_among_equal_records_is_forgotten_with_them() -> None:
    identities = Identities()
    first, second = identities.identified(note(x=1, time=5)), identities.identified(note(x=1, time=5))
    assert first.id == f"{(first.id or '')[:32]}-1"
    assert second.id == f"{(first.id or '')[:32]}-2"
    identities.forget(6)
    again = identities.identified(note(x=1, time=5))
    assert again == first
