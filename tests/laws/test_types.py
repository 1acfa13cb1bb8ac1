"""`is` covers subtypes in a lattice with multiple inheritance (Table 3.1), and subtypes merge into their type."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import laws
from fairlead.filters import Filter, covers, identical, merge, overlaps, parse, relate
from fairlead.filters.schema import Schema
from fairlead.model import Notification

LATTICE = Schema.parse(
    """
    abstract type Instrument
    type Timed
    type Stock: Instrument
    type Bond: Instrument
    type Quote: Stock, Timed
    type Fund: Bond, Stock
    """
)
NAMES = sorted(LATTICE.types)
names = st.sampled_from(NAMES)


def of_type(name: str) -> Filter:
    return parse(f"type is {name}", LATTICE)


@pytest.mark.parametrize("one", NAMES)
@pytest.mark.parametrize("other", NAMES)
def test_a_type_covers_another_iff_it_is_the_same_or_above(one: str, other: str) -> None:
    above = LATTICE.is_subtype(other, of=one)
    assert not above or covers(of_type(one), of_type(other), LATTICE)
    assert covers(of_type(one), of_type(other), LATTICE) is (
        LATTICE.type_members(other) <= LATTICE.type_members(one)
    )
    common = LATTICE.type_members(one) & LATTICE.type_members(other)
    assert overlaps(of_type(one), of_type(other), LATTICE) is bool(common)


@given(names, names, st.lists(names.map(lambda name: Notification.of({"type": name})), max_size=6))
def test_relations_of_types_hold_for_every_notification(
    one: str, other: str, seen: list[Notification]
) -> None:
    laws.covering(of_type(one), of_type(other), seen, LATTICE)
    laws.disjointness(of_type(one), of_type(other), seen, LATTICE)
    laws.completeness(of_type(one), of_type(other), LATTICE)
    laws.exactness(of_type(one), of_type(other), LATTICE)


def test_a_type_below_two_is_where_they_overlap() -> None:
    assert identical(parse("type is Stock and type is Bond", LATTICE), of_type("Fund"), LATTICE)
    assert relate(of_type("Timed"), of_type("Bond"), LATTICE).name == "disjoint"


def test_all_direct_subtypes_of_an_abstract_type_merge_into_it() -> None:
    given = [parse(f"type is {name} and price > 10", LATTICE) for name in ("Stock", "Bond")]
    merger = merge(given, LATTICE)
    assert merger is not None
    assert merger.perfect
    assert merger.filter == parse("type is Instrument and price > 10", LATTICE)


def test_a_type_that_has_notifications_of_its_own_is_more_than_its_subtypes() -> None:
    merger = merge([of_type("Quote"), of_type("Fund")], LATTICE)
    assert merger is not None
    assert merger.perfect
    assert relate(of_type("Stock"), merger.filter, LATTICE).name == "covers"


class Animal:
    """Classes of embedded objects, for class filters."""


class Dog(Animal):
    pass


class Puppy(Dog):
    pass


class Cat(Animal):
    pass


def instance(*classes: type) -> Filter:
    named = ", ".join(f'"{each.__module__}.{each.__qualname__}"' for each in classes)
    return parse(f'@instance("pet", {named})')


def test_class_filters_cover_subclasses_and_merge() -> None:
    assert sys.modules[__name__].Dog is Dog  # type: ignore[attr-defined]
    assert relate(instance(Animal), instance(Dog)).name == "covers"
    assert not covers(instance(Dog), instance(Cat))
    assert covers(instance(Dog), instance(Puppy))
    merger = merge([instance(Dog), instance(Cat)])
    assert merger is not None
    assert merger.perfect
    assert identical(merger.filter, instance(Cat, Dog))
    for pet in (Animal(), Dog(), Puppy(), Cat()):
        n = Notification.of({"pet": pet})
        assert merger.filter.matches(n) is isinstance(pet, Dog | Cat)
