"""Filters that list numbers, as bits: they relate, merge and match as the filters do that they stand for."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.filters import Filter, covers, identical, parse
from fairlead.filters.merging import merge
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.routing import Catalogue, Interest, listing
from fairlead.routing.catalogue import IDLE_MAX
from fairlead.routing.listing import Numbering, listed

FEW = settings(max_examples=20)

numbers = st.sampled_from((0, 1, 2, 3, 10**23))
attributes = st.sampled_from(("x", "y"))
lists = st.builds(
    lambda name, given: f"{name} in {{{', '.join(map(str, given))}}}",
    attributes,
    st.lists(numbers, min_size=1, max_size=4),
)
filters = (lists | st.builds("{} = {}".format, attributes, numbers) | st.just("x < 2")).map(parse)


def catalogue() -> Catalogue:
    return Catalogue(engine_named("brute"))


def made(known: Catalogue, given: list[Filter]) -> list[Interest]:
    """The filters, and all that merging two of them makes."""
    found = dict.fromkeys(map(Interest, given))
    for one in given:
        for other in given:
            merged = known.merged(known.number(Interest(one)), known.number(Interest(other)))
            if merged is not None:
                found[merged] = None
    return list(found)


@FEW
@given(st.lists(filters, min_size=1, max_size=4))
def test_what_is_made_of_lists_is_what_merging_the_filters_makes(given: list[Filter]) -> None:
    known = catalogue()
    for one in given:
        for other in given:
            merged = known.merged(known.number(Interest(one)), known.number(Interest(other)))
            merger = merge((one, other))
            assert (merged is None) == (merger is None)
            if merged is not None and merger is not None:
                assert identical(merged.filter, merger.filter)


@FEW
@given(st.lists(filters, min_size=1, max_size=4))
def test_lists_relate_as_the_filters_that_they_stand_for(given: list[Filter]) -> None:
    known = catalogue()
    held = {known.number(interest): interest.filter for interest in made(known, given)}
    for number, filter in held.items():
        covering = {other for other, wide in held.items() if covers(wide, filter)}
        covered = {other for other, narrow in held.items() if covers(filter, narrow)}
        assert known.covering(number, held.keys()) == covering
        assert known.covered_by(number, held.keys()) == covered
        assert known.identical(number, held.keys()) == covering & covered
    assert known.widest(held.keys()) == [
        number
        for number, filter in held.items()
        if all(
            number <= other and covers(filter, wide) for other, wide in held.items() if covers(wide, filter)
        )
    ]


@FEW
@given(st.lists(filters, min_size=1, max_size=3), st.sampled_from((0, 1.0, Decimal(2), 1e23, True, "1", 0.5)))
def test_a_list_that_was_made_matches_what_its_filter_matches(given: list[Filter], value: Any) -> None:
    known = catalogue()
    held = {known.number(interest): interest.filter for interest in made(known, given)}
    for content in ({"x": value}, {"y": value}, {"x": value, "y": 1}, {}):
        notification = Notification.of(content)
        found = known.matching(notification) & held.keys()
        assert found == {number for number, filter in held.items() if filter.matches(notification)}


@FEW
@given(lists.map(parse), lists.map(parse))
def test_an_interest_is_the_same_whether_or_not_its_list_is_spelled(one: Filter, other: Filter) -> None:
    numbering = Numbering()
    mine, theirs = (numbering.listing(*found) for found in map(listed, (one, other)) if found is not None)
    assert mine is not None
    assert theirs is not None
    for filter, bits in ((one, mine), (other, theirs)):
        assert Interest.of(bits) == Interest(filter)
        assert hash(Interest.of(bits)) == hash(Interest(filter))
    assert (Interest.of(mine) == Interest.of(theirs)) == (one == other)
    if mine.term == theirs.term:
        united = mine.united(theirs)
        assert hash(Interest.of(united)) == hash(Interest(united.spelled()))
        assert {*numbering.numbers(united.mask)} == {*numbering.numbers(mine.mask | theirs.mask)}


def test_where_bits_run_out_filters_relate_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "BITS_MAX", 4)
    known = catalogue()
    wide, narrow = Interest(parse("x in {1, 2, 3, 4, 5, 6}")), Interest(parse("x in {2, 6}"))
    assert known.covers(known.number(wide), known.number(narrow))
    merged = known.merged(known.number(narrow), known.number(Interest(parse("x = 7"))))
    assert merged is not None
    assert identical(merged.filter, parse("x in {2, 6, 7}"))
    assert known.is_merger(wide, [wide, narrow])


def test_bits_of_numbers_that_nobody_lists_any_more_are_given_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "BITS_MAX", 100)
    known = catalogue()
    one, other = Interest(parse("x = 1")), Interest(parse("x = 2"))
    merged = known.merged(known.number(one), known.number(other))
    assert merged is not None
    known.retain(merged)
    notification = Notification.of({"x": 2})
    assert known.number(merged) in known.matching(notification)
    for number in range(IDLE_MAX + 10):
        known.number(Interest(parse(f"x = {number}")))
    known.tidy()
    assert known.number(merged) in known.matching(Notification.of({"x": 2}))
    again = known.merged(known.number(merged), known.number(Interest(parse("x = 7"))))
    assert again is not None
    assert again.listing is not None
    assert again.filter == parse("x in {1, 2, 7}")
