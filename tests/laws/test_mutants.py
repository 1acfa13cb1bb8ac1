"""The laws see what they should: each of these broken algebras breaks a law.

A mutant changes one thing of the algebra for the length of a test. The laws are tried on the same draws as
in their own tests, and on the intact algebra first, so that it is the mutant that fails.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import laws
from fairlead.filters import algebra, merging, normal
from fairlead.filters.extents import extent, strings
from fairlead.filters.extents.extent import Extent
from fairlead.filters.extents.numbers import NumberExtent
from fairlead.model import Notification
from fairlead.testing import conjunctions, constraints, filters, notifications
from fairlead.testing.strategies import NUMBERS, STRINGS

DEEP = ("a", "a.b", "a.b.c")
simplify = import_module("fairlead.filters.simplify")  # the package has a function of that name
Law = Callable[[], None]

POOL = [*NUMBERS, *STRINGS, True, None]
LINE = [Notification.of({"x": Decimal(n) / 4}) for n in range(-8, 30)]
numeric = conjunctions(("x",), ("number",))

# The same draws each time, no shrinking and nothing remembered: only whether a law fails is of interest.
quick = settings(
    max_examples=300,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@quick
@given(constraints(("x",), ("number", "string", "mixed")))
def extents(constraint: Any) -> None:
    laws.extents(constraint, POOL)


@quick
@given(filters(), filters(), st.lists(notifications(), max_size=8))
def soundness(one: Any, other: Any, seen: Any) -> None:
    laws.covering(one, other, seen)
    laws.covering(one, one & other, seen)
    laws.disjointness(one, other, seen)


@quick
@given(numeric, numeric)
def soundness_on_numbers(one: Any, other: Any) -> None:
    laws.covering(one, other, LINE)


@quick
@given(filters(("x", "y")), filters(("x", "y")))
def completeness_where_one_is_split(one: Any, other: Any) -> None:
    laws.completeness((one & other) | (one & ~other), one)


@quick
@given(numeric, numeric)
def completeness(one: Any, other: Any) -> None:
    laws.completeness(one, other)


@quick
@given(conjunctions(DEEP), conjunctions(DEEP))
def completeness_of_nested_names(one: Any, other: Any) -> None:
    laws.completeness(one, other)


@quick
@given(filters(("x", "y")), filters(("x", "y")))
def completeness_of_boolean_filters(one: Any, other: Any) -> None:
    laws.completeness(one, other)


@quick
@given(filters(), st.lists(notifications(), max_size=8))
def normalising(one: Any, seen: Any) -> None:
    laws.normalising(one, seen)


@quick
@given(filters(), st.lists(notifications(), max_size=8))
def simplifying(one: Any, seen: Any) -> None:
    laws.simplifying(one, seen)


@quick
@given(
    st.lists(conjunctions(("x", "y"), ("number",)), min_size=2, max_size=3),
    st.lists(notifications(("x", "y")), max_size=8),
)
def merging_perfectly(some: Any, seen: Any) -> None:
    laws.merging(some, seen)


# -- the mutants -----------------------------------------------------------------------------------------------


def open_ends_are_closed(patch: pytest.MonkeyPatch) -> None:
    """`x < 5` lets 5 in."""
    whole = NumberExtent.interval

    def closed(lo: Any, hi: Any, *_: Any, discrete: bool = False) -> NumberExtent:
        return whole(lo, hi, True, True, discrete=discrete)

    patch.setattr(NumberExtent, "interval", staticmethod(closed))


def covering_ignores_open_ends(patch: pytest.MonkeyPatch) -> None:
    """Two intervals with the same bounds cover one another."""
    ends = NumberExtent.covers

    def covers(one: NumberExtent, other: NumberExtent) -> bool:
        loose = NumberExtent(one.below, tuple((v, i % 2) for i, (v, _) in enumerate(one.cuts)), one.discrete)
        return ends(one, other) or (not one.below and ends(loose, other))

    patch.setattr(NumberExtent, "covers", covers)


def covering_looks_at_the_first_kind_only(patch: pytest.MonkeyPatch) -> None:
    """An extent covers another if it does on the first kind."""
    every = Extent.covers

    def covers(one: Extent, other: Extent) -> bool:
        first = dict(list(other.pieces.items())[:1])
        return every(one, Extent(first))

    patch.setattr(Extent, "covers", covers)


def not_equal_lets_in_other_kinds(patch: pytest.MonkeyPatch) -> None:
    """`x != 5` is taken for `exists x and not x = 5`."""
    patch.setattr(extent, "_rest_of_kinds", lambda given, _: ~given & extent.PRESENT)


def negation_forgets_absence(patch: pytest.MonkeyPatch) -> None:
    """`not x = 5` is taken for `exists x and not x = 5`."""
    invert = Extent.__invert__
    patch.setattr(Extent, "__invert__", lambda self: invert(self) & extent.PRESENT)


def names_know_nothing_of_what_holds_them(patch: pytest.MonkeyPatch) -> None:
    """`a.b = 1` says nothing about a."""
    patch.setattr(normal, "_holder", lambda _: None)


def names_know_only_what_holds_them_directly(patch: pytest.MonkeyPatch) -> None:
    """`a = 1` says something about a.b, and nothing about a.b.c."""
    patch.setattr(normal, "holders_of", lambda _: iter(()))


def conjunctions_unite_what_they_should_intersect(patch: pytest.MonkeyPatch) -> None:
    """`x > 3 and x < 5` folds to everything."""
    patch.setattr(Extent, "__and__", Extent.__or__)


def only_single_conjunctions_cover(patch: pytest.MonkeyPatch) -> None:
    """Nothing is subtracted: several conjunctions never cover one together."""

    def covered(self: Any, given: Any, covering: Any, _: Any) -> bool:
        return any(self.covers_one(one, given) for one in covering)

    patch.setattr(algebra.Algebra, "_covered", covered)


def the_first_constraint_decides_whether_all_overlap(patch: pytest.MonkeyPatch) -> None:
    """Two conjunctions overlap where they do on the first attribute."""

    def is_empty(self: Any, conjunction: Any) -> bool:
        first = next(iter(conjunction.extents.values()), extent.PRESENT)
        return bool(first.is_empty())

    patch.setattr(algebra.Algebra, "is_empty", is_empty)


def merging_takes_any_two_for_alike(patch: pytest.MonkeyPatch) -> None:
    """Conjunctions are joined in one attribute though they differ in others."""
    patch.setattr(merging, "all_but", lambda one, term: (term, frozenset(one.extents), frozenset()))


def hulls_are_taken_for_perfect(patch: pytest.MonkeyPatch) -> None:
    """Every merger is called perfect."""
    patch.setattr(merging, "merge_perfectly", lambda found, _: [merging._hull(list(found))])


def spelling_closes_open_ends(patch: pytest.MonkeyPatch) -> None:
    """`x < 5` is written as `x <= 5`."""
    spelled = simplify._span

    def span(term: Any, given: Any, op: Any, value: Any) -> Any:
        return spelled(term, given._replace(lo_closed=True, hi_closed=True), op, value)

    patch.setattr(simplify, "_span", span)


def words_end_where_prefixes_do(patch: pytest.MonkeyPatch) -> None:
    """`x prefix "a"` is taken for `x = "a"`."""
    patch.setattr(strings.StringExtent, "prefix", strings.StringExtent.words)


MUTANTS: list[tuple[Callable[[pytest.MonkeyPatch], None], Law]] = [
    (open_ends_are_closed, extents),
    (words_end_where_prefixes_do, extents),
    (not_equal_lets_in_other_kinds, extents),
    (covering_ignores_open_ends, soundness_on_numbers),
    (covering_looks_at_the_first_kind_only, soundness),
    (the_first_constraint_decides_whether_all_overlap, completeness_of_boolean_filters),
    (conjunctions_unite_what_they_should_intersect, completeness),
    (names_know_nothing_of_what_holds_them, completeness_of_nested_names),
    (names_know_only_what_holds_them_directly, completeness_of_nested_names),
    (only_single_conjunctions_cover, completeness_where_one_is_split),
    (negation_forgets_absence, normalising),
    (spelling_closes_open_ends, simplifying),
    (merging_takes_any_two_for_alike, merging_perfectly),
    (hulls_are_taken_for_perfect, merging_perfectly),
]


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Patches, with nothing remembered from before and nothing left over for later."""
    _forget()
    with monkeypatch.context() as patching:
        yield patching
    _forget()


def _forget() -> None:
    algebra.algebra_for.cache_clear()
    extent.extent_of.cache_clear()


@pytest.mark.parametrize("law", dict.fromkeys(law for _, law in MUTANTS), ids=lambda law: law.__name__)
def test_the_intact_algebra_keeps_the_law(law: Law) -> None:
    law()


@pytest.mark.parametrize(("mutant", "law"), MUTANTS, ids=[mutant.__name__ for mutant, _ in MUTANTS])
def test_a_law_kills_the_mutant(mutant: Callable[[Any], None], law: Law, patch: pytest.MonkeyPatch) -> None:
    mutant(patch)
    with pytest.raises(Exception):  # noqa: B017, PT011 - a broken algebra may fail in any way
        law()
