"""Placement: a notification that matches a filter visits the filter's bucket."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.filters import parse
from fairlead.matching.columnar.arrow import notification_at
from fairlead.model import Notification
from fairlead.spark.placement import ANYWHERE, Placement, anchors_of, assign_buckets
from fairlead.testing import filters, notifications


@given(
    st.lists(filters(), min_size=1, max_size=20),
    st.lists(notifications(), min_size=1, max_size=5),
    st.integers(1, 5),
)
def test_what_matches_a_filter_visits_its_bucket_if_it_has_one(chosen, published, buckets):
    placement, found = assign_buckets(chosen, buckets)
    for notification in published:
        visited = placement.buckets_of(notification)
        for filter, bucket in zip(chosen, found.tolist(), strict=True):
            if filter.matches(notification):
                assert bucket == ANYWHERE or bucket in visited


_COLUMNS = {
    "a": st.integers(-3, 3),
    "b": st.sampled_from(("a", "b", "", "true", "1")),
    "c": st.sampled_from((0.0, -0.0, 1.0, 0.5, float("nan"))),
    "d": st.booleans(),
    "e": st.sampled_from((Decimal("0.50"), Decimal("1.00"), Decimal("3.00"))),
    "f": st.fixed_dictionaries({"g": st.none() | st.sampled_from(("a", "b"))}),
    "h": st.lists(st.sampled_from(("a", "b")), max_size=2),
}
_TYPES = pa.schema(
    {
        "a": pa.int32(),
        "b": pa.string(),
        "c": pa.float64(),
        "d": pa.bool_(),
        "e": pa.decimal128(10, 2),
        "f": pa.struct({"g": pa.string()}),
        "h": pa.list_(pa.string()),
    }
)


@given(
    st.lists(
        st.fixed_dictionaries({name: st.none() | column for name, column in _COLUMNS.items()}), max_size=8
    ),
    st.integers(1, 7),
)
def test_native_columns_visit_the_buckets_that_their_notifications_visit(records, buckets):
    placement = Placement(("a", "b", "c", "d", "e", "f", "f.g", "h", "i"), buckets)
    batch = pa.RecordBatch.from_pylist(records, schema=_TYPES)
    each = [notification_at(batch, row) for row in range(batch.num_rows)]
    assert (placement.visits(batch) == placement.visits_of(each)).all()


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ('a = "x"', ["a"]),
        ('a = "x" and b > 3 and (c = 1 and d = true)', ["a", "c", "d"]),
        ('a = "x" or b = 1', []),
        ('not a = "x"', []),
        ('a != "x" and a in {"x", "y"} and a prefix "x"', []),
        ('a = null and time = t"2024-05-01T10:00:00Z"', []),
    ],
)
def test_only_what_every_match_has_is_an_anchor(text, attributes):
    assert [anchor.attribute for anchor in anchors_of(parse(text))] == attributes


def test_of_several_equalities_the_one_that_fewest_filters_share_is_taken():
    texts = [f'type = "quote" and symbol = "s{number}"' for number in range(50)]
    placement, buckets = assign_buckets([*map(parse, texts), parse("price > 3")], 8)
    assert placement.attributes == ("symbol",)
    assert buckets[-1] == ANYWHERE
    assert len(set(buckets[:-1].tolist())) == 8  # the common type would have put them all into one
    visited = placement.buckets_of(Notification.of({"type": "quote", "symbol": "s7"}))
    assert visited == {buckets[7]}


def test_equal_numbers_of_different_types_have_one_bucket():
    placement, [bucket] = assign_buckets([parse("a = 5")], 1000)
    for five in (5, 5.0, Decimal("5.00")):
        assert placement.buckets_of(Notification.of({"a": five})) == {int(bucket)}
    assert not placement.buckets_of(Notification.of({"b": 5}))
    wide = pa.RecordBatch.from_pydict({"a": pa.array([5.0, 6.0, None])})
    assert np.flatnonzero(placement.visits(wide)[0]).tolist() == [bucket]
    assert placement.visits(wide)[2].sum() == 0
