"""The columnar engine answers as `brute` does, whatever the filters, however they came in, and in any form."""

from __future__ import annotations

from decimal import Decimal
from math import inf, isfinite, nan, nextafter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fairlead.errors import NotInstalled
from fairlead.filters.constraint import Constraint, Op, Range
from fairlead.filters.filter import EVERYTHING, NOTHING, And, Filter, Not, Or
from fairlead.filters.terms import Attribute
from fairlead.matching.brute import Brute
from fairlead.matching.columnar import Columnar, engine
from fairlead.matching.columnar.compile import program_of
from fairlead.matching.columnar.meaning import accepts
from fairlead.model import Instant, Interval, Multi, Notification, Rectangle
from fairlead.testing import strategies as fst

FILTERS = fst.filters(templates=True, paths=True, polynomials=True, methods=True, extensions=True)
NOTIFICATIONS = fst.notifications(templates=True, paths=True, methods=True)
X = Attribute("x")


def both(filters: list[Filter], **options: Any) -> tuple[Columnar[int], Brute[int]]:
    columnar, brute = Columnar[int](**options), Brute[int]()
    columnar.add_many(enumerate(filters))
    for number, filter in enumerate(filters):
        brute.add(number, filter)
    return columnar, brute


def agree(filters: list[Filter], notifications: list[Notification], **options: Any) -> None:
    columnar, brute = both(filters, **options)
    expected = brute.match_batch(notifications)
    assert [columnar.match(notification) for notification in notifications] == expected
    assert columnar.match_batch(notifications) == expected


@given(FILTERS, NOTIFICATIONS)
def test_the_program_of_a_filter_accepts_what_the_filter_matches(
    filter: Filter, notification: Notification
) -> None:
    assert accepts(program_of(filter), notification) == filter.matches(notification)


@given(st.lists(FILTERS, max_size=8), st.lists(NOTIFICATIONS, max_size=4))
def test_dictionaries_answer_as_brute_does(filters: list[Filter], notifications: list[Notification]) -> None:
    agree(filters, notifications)


@given(st.lists(FILTERS, min_size=1, max_size=12), st.lists(NOTIFICATIONS, max_size=5))
@settings(max_examples=150)
def test_arrays_answer_as_brute_does(filters: list[Filter], notifications: list[Notification]) -> None:
    agree(filters, notifications, small=0)


@given(st.lists(FILTERS, min_size=1, max_size=12), st.lists(NOTIFICATIONS, max_size=5))
def test_without_its_libraries_it_answers_as_brute_does_and_has_no_arrays(
    filters: list[Filter], notifications: list[Notification]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "is_fast", lambda: False)
        agree(filters, notifications, small=0)
        columnar, brute = both(filters, small=0)
        columnar.add(len(filters), filters[0])
        brute.add(len(filters), filters[0])
        columnar.remove(0)
        brute.remove(0)
        assert columnar.match_batch(notifications) == brute.match_batch(notifications)
        with pytest.raises(NotInstalled, match="pip install 'fairlead\\[fast\\]'"):
            columnar.save("nowhere")


NUMBERS = st.one_of(
    st.sampled_from(
        [0, 1, 0.1, Decimal("0.1"), 10**23, 1e23, 2**53, 2**53 + 1, float(2**53), -0.0, inf, -inf, nan]
    ),
    st.sampled_from(
        [
            10**300,
            -(10**300),
            10**22 + 1,
            Decimal("0.1000000000000000055"),
            nextafter(0.1, 1),
            99999999999999991611392,
        ]
    ),
    st.floats(allow_nan=True),
    st.integers(),
    st.integers(-(2**60), 2**60),
    st.decimals(-(10**20), 10**20, places=22),
)
FINITE = NUMBERS.filter(isfinite)


@st.composite
def comparisons(draw: st.DrawFn) -> Filter:
    op = draw(st.sampled_from([Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.IN_RANGE, Op.NOT_IN_RANGE]))
    if op not in (Op.IN_RANGE, Op.NOT_IN_RANGE):
        return Constraint(X, op, draw(FINITE))
    low, high = sorted(
        Decimal(repr(n)) if isinstance(n, float) else Decimal(n) for n in draw(st.tuples(FINITE, FINITE))
    )
    closed = low == high or draw(st.booleans())
    return Constraint(X, op, Range(low, high, closed, closed))


@given(
    st.lists(comparisons(), min_size=1, max_size=8), st.lists(NUMBERS, min_size=1, max_size=6), st.booleans()
)
@settings(max_examples=150)
def test_numbers_are_compared_exactly(filters: list[Filter], numbers: list[Any], arrays: bool) -> None:
    joined = [And.of(filters), Or.of(filters), Not(And.of(filters))]
    notifications = [Notification.of({"x": number}) for number in numbers]
    agree(filters + joined, notifications, small=0 if arrays else 100)


TEXTS = st.text("ab/\u00e9\U0001f600", max_size=20)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([Op.PREFIX, Op.SUFFIX, Op.SUBSTRING, Op.EQ]),
            TEXTS | st.binary(max_size=5),
            st.booleans(),
        ),
        min_size=1,
        max_size=20,
    ),
    st.lists(TEXTS | st.binary(max_size=8), max_size=5),
    st.booleans(),
)
def test_texts_are_found_by_prefix_suffix_and_substring(
    asked: list[tuple[Op, Any, bool]], texts: list[Any], arrays: bool
) -> None:
    filters = [
        Not(Constraint(X, op, text)) if negative else Constraint(X, op, text) for op, text, negative in asked
    ]
    agree(filters, [Notification.of({"x": text}) for text in texts], small=0 if arrays else 100)


# Bounds that are values, that begin others, that part within a character of UTF-8; and values of other kinds.
ORDERED = st.text("ab\u00e9\uffff\U0001f600", max_size=3) | st.binary(max_size=2)
ANY_KIND = ORDERED | st.sampled_from([0, 1.5, 10**23, True, None, nan, ["a"], {"a": "b"}, Instant(0)])


@st.composite
def orderings(draw: st.DrawFn) -> Filter:
    op = draw(st.sampled_from([Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.IN_RANGE, Op.NOT_IN_RANGE]))
    bound = draw(ORDERED | st.integers(0, 2))
    if op not in (Op.IN_RANGE, Op.NOT_IN_RANGE):
        return Constraint(X, op, bound)
    other = draw(
        ORDERED.filter(lambda each: type(each) is type(bound)) if type(bound) is not int else st.just(9)
    )
    low, high = sorted((bound, other))
    closed = [low == high or draw(st.booleans()) for _ in range(2)]
    return Constraint(X, op, Range(low, high, *closed))


@given(
    st.lists(orderings(), min_size=1, max_size=10),
    st.lists(orderings(), max_size=4),
    st.lists(ANY_KIND, min_size=1, max_size=6),
    st.sampled_from([0, 2, 100]),
)
@settings(max_examples=200)
def test_strings_and_bytes_are_compared_with_their_own_kind_in_the_order_of_code_points(
    filters: list[Filter], later: list[Filter], values: list[Any], small: int
) -> None:
    joined = [And.of(filters), Or.of(filters), Not(And.of(filters)), And.of(filters[:2])]
    notifications = [Notification.of({"x": value}) for value in values]
    columnar, brute = both(filters + joined, small=small)
    for number, filter in enumerate(later, len(filters) + len(joined)):
        columnar.add(number, filter)
        brute.add(number, filter)
    columnar.remove(0)
    brute.remove(0)
    for _ in range(2):
        expected = brute.match_batch(notifications)
        assert [columnar.match(notification) for notification in notifications] == expected
        assert columnar.match_batch(notifications) == expected
        columnar.compact()


@pytest.mark.parametrize("small", [0, 1000])
@pytest.mark.parametrize(
    "value",
    [
        Interval(1, 9),
        Rectangle(0, 0, 1, 1),
        Instant(2**60 + 1),
        Instant(5),
        [1, 2, 5],
        [],
        5,
        "5",
        True,
        None,
        {"deep": 5},
    ],
)
def test_what_a_value_contains_depends_on_its_kind(value: Any, small: int) -> None:
    filters: list[Filter] = [
        Constraint(X, Op.CONTAINS, 5),
        Constraint(X, Op.LACKS, 5),
        Constraint(X, Op.SUPERSET, Multi([5])),
        Constraint(X, Op.SUPERSET, Multi()),
        Constraint(X, Op.SUBSET, Multi([1, 2, 5, 6])),
        Constraint(X, Op.OVERLAPS, Multi([5, 6])),
        Constraint(X, Op.DISJOINT, Multi([6])),
        Constraint(X, Op.GT, Instant(2**60)),
        Constraint(X, Op.LE, Instant(2**60)),
        Constraint(X, Op.EQ, Instant(2**60 + 1)),
        Constraint(Attribute("x.deep"), Op.EQ, 5),
        Constraint(Attribute("y"), Op.ABSENT),
        EVERYTHING,
        NOTHING,
    ]
    filters += [Not(filter) for filter in filters]
    agree(filters, [Notification.of({"x": value}), Notification.of({})], small=small)


class Changing(RuleBasedStateMachine):
    """Filters come and go; at any moment the engine answers as `brute` does."""

    @initialize(small=st.sampled_from([0, 3, 1000]))
    def begin(self, small: int) -> None:
        self.columnar, self.brute = Columnar[int](small=small), Brute[int]()
        self.living: list[int] = []
        self.number = 0

    @rule(filter=FILTERS)
    def add(self, filter: Filter) -> None:
        self.number += 1
        self.columnar.add(self.number, filter)
        self.brute.add(self.number, filter)
        self.living.append(self.number)

    @rule(filters=st.lists(FILTERS, max_size=4))
    def add_many(self, filters: list[Filter]) -> None:
        numbers = range(self.number + 1, self.number + 1 + len(filters))
        self.number += len(filters)
        self.columnar.add_many(zip(numbers, filters, strict=True))
        for number, filter in zip(numbers, filters, strict=True):
            self.brute.add(number, filter)
        self.living.extend(numbers)

    @rule(chance=st.randoms(use_true_random=False))
    def remove(self, chance: Any) -> None:
        if self.living:
            number = self.living.pop(chance.randrange(len(self.living)))
            self.columnar.remove(number)
            self.brute.remove(number)
            with pytest.raises(KeyError):
                self.columnar.remove(number)

    @rule()
    def compact(self) -> None:
        self.columnar.compact()

    @rule(notifications=st.lists(NOTIFICATIONS, max_size=3))
    def match(self, notifications: list[Notification]) -> None:
        expected = self.brute.match_batch(notifications)
        assert self.columnar.match_batch(notifications) == expected
        assert [self.columnar.match(notification) for notification in notifications] == expected

    @invariant()
    def sizes_agree(self) -> None:
        if hasattr(self, "columnar"):
            assert len(self.columnar) == self.columnar.statistics().filters == len(self.living)


Changing.TestCase.settings = settings(max_examples=60, stateful_step_count=15)
test_filters_come_and_go = Changing.TestCase
