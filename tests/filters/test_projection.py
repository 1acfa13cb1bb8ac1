"""A projection loses nothing that its filter matches, and reads nothing of what it leaves out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from fairlead.filters import And, Filter, Not, Or, parse
from fairlead.filters.filter import EVERYTHING, NOTHING
from fairlead.filters.naming import Attributes
from fairlead.filters.projection import projected, silent_about, with_leaves
from fairlead.model import Notification

KEPT = frozenset({"a", "b"})
LEAVES = ("a = 1", "b > 2", "exists a", "x = 1", "x > 2", "y.z = 1", "absent x", "a + x > 2", "//x", "true")
FILTERS = st.recursive(
    st.sampled_from(LEAVES).map(parse),
    lambda some: st.one_of(
        st.lists(some, min_size=2, max_size=3).map(And.of),
        st.lists(some, min_size=2, max_size=3).map(Or.of),
        some.map(Not),
    ),
    max_leaves=6,
)
VALUES = st.sampled_from([1, 2, 3])
NOTIFICATIONS = st.fixed_dictionaries(
    {}, optional={"a": VALUES, "b": VALUES, "x": VALUES, "y": st.fixed_dictionaries({"z": VALUES})}
).map(Notification.of)
Projection = Callable[[Filter, frozenset[str]], Filter]


def loses(project: Projection, filter: Filter, notification: Notification) -> bool:
    """Whether something that the filter matches is not matched, or the answer depends on what is left out."""
    found = project(filter, KEPT)
    in_clear = notification.only(KEPT)
    if not Attributes.of(found).names <= KEPT or found.matches(in_clear) != found.matches(notification):
        return True
    return filter.matches(notification) and not found.matches(in_clear)


@given(FILTERS, NOTIFICATIONS)
def test_a_projection_loses_nothing_and_does_not_look_at_what_is_left_out(
    filter: Filter, notification: Notification
) -> None:
    assert not loses(projected, filter, notification)


@given(FILTERS, NOTIFICATIONS)
def test_silence_about_attributes_loses_nothing(filter: Filter, notification: Notification) -> None:
    found = silent_about(filter, frozenset({"x"}))
    assert not Attributes.of(found).reading(frozenset({"x"}))
    assert found.matches(notification) or not filter.matches(notification)


def _reads(filter: Filter, names: frozenset[str]) -> bool:
    read = Attributes.of(filter)
    return read.is_whole or not read.names <= names


def drops_conjunctions(filter: Filter, names: frozenset[str]) -> Filter:
    """A mutant: a conjunction goes as a whole, and not the term."""
    if isinstance(filter, And):
        return NOTHING if any(_reads(each, names) for each in filter.parts) else filter
    if isinstance(filter, Or):
        return Or.of([drops_conjunctions(each, names) for each in filter.parts])
    return NOTHING if _reads(filter, names) else filter


def negates_the_projection(filter: Filter, names: frozenset[str]) -> Filter:
    """A mutant: the projection of `not F` is not the projection of F."""
    match filter:
        case Not(part):
            return Not(negates_the_projection(part, names))
        case And(parts):
            return And.of([negates_the_projection(each, names) for each in parts])
        case Or(parts):
            return Or.of([negates_the_projection(each, names) for each in parts])
    return EVERYTHING if _reads(filter, names) else filter


def looks_at_names_alone(filter: Filter, names: frozenset[str]) -> Filter:
    """A mutant: a leaf that reads something of both kinds stays."""
    return with_leaves(filter, lambda each: each if Attributes.of(each).names & names else EVERYTHING)


@pytest.mark.parametrize("mutant", [drops_conjunctions, negates_the_projection, looks_at_names_alone])
def test_a_mutant_is_caught(mutant: Projection) -> None:
    found = find(
        st.tuples(FILTERS, NOTIFICATIONS),
        lambda given: loses(mutant, *given),
        settings=settings(phases=[Phase.generate], max_examples=2_000, database=None),
    )
    assert loses(mutant, *found)
