"""Rows of frames of other libraries match as the notifications that they stand for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairlead as fl

FILTERS = {
    "high": "x > 2",
    "low": "x <= 2 and y < 0.5",
    "named": 'name = "ä" or name ~ "b.*"',
    "flagged": "flag = true",
    "unnamed": "not exists name",
    "tagged": 'tags contains "b"',
    "deep": "at.n >= 1",
    "all": "true",
}
TYPES = pa.schema(
    {
        "x": pa.int64(),
        "y": pa.float64(),
        "name": pa.string(),
        "flag": pa.bool_(),
        "tags": pa.list_(pa.string()),
        "at": pa.struct({"n": pa.int64()}),
    }
)
NAMES = st.sampled_from(["", "a", "ä", "b", "bc"])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "x": st.none() | st.integers(-3, 5),
            "y": st.none() | st.floats(-1, 1),
            "name": st.none() | NAMES,
            "flag": st.none() | st.booleans(),
            "tags": st.none() | st.lists(NAMES, min_size=1, max_size=3),
            "at": st.none() | st.fixed_dictionaries({"n": st.integers(0, 2)}),
        }
    ),
    max_size=6,
)
FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda table: table,
    "batches": lambda table: pa.Table.from_batches(table.to_batches(max_chunksize=2), TYPES),
    "pandas": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "duckdb": lambda table: duckdb.connect().from_arrow(table),
}


def by_definition(rows: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Each filter asked about each row."""
    read = {id: fl.parse(text) for id, text in FILTERS.items()}
    present = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return [
        (number, id)
        for number, row in enumerate(present)
        for id, each in read.items()
        if each.matches(fl.Notification.of(row))
    ]


def matched(frame: Any, filters: Any = FILTERS) -> list[tuple[int, str]]:
    found = fl.match_arrow(frame, filters)
    assert found.column_names == ["row", "filter"]
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("library", FRAMES)
@settings(max_examples=25)
@given(rows=ROWS)
def test_rows_of_a_frame_match_as_notifications_do(library: str, rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, TYPES)
    assert matched(FRAMES[library](table)) == by_definition(rows)


def test_rows_are_counted_through_all_batches_and_missing_numbers_of_numpy_are_absent() -> None:
    frame = pd.DataFrame({"x": [1.0, None, 3.0]})
    assert matched(frame, {"any": "exists x"}) == [(0, "any"), (2, "any")]
    table = pa.concat_tables([pa.table({"x": [1, 5]}), pa.table({"x": [7]})])
    assert matched(table, {4: fl.parse("x > 4")}) == [(1, 4), (2, 4)]


@pytest.mark.parametrize(
    ("column", "named"),
    [
        (pa.array([dt.date(2026, 1, 1)]), "'at' is of the type date32"),
        (pa.array([dt.time(1)]), "'at' is of the type time64"),
        (pa.array([dt.timedelta(1)]), "'at' is of the type duration"),
        (pa.array([dt.datetime(2026, 1, 1)]), "'at' has times without a zone"),
        (pa.array([[{"day": dt.date(2026, 1, 1)}]]), "'at.day' is of the type date32"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), "'at' is of the type map"),
    ],
)
def test_a_column_that_is_no_attribute_is_refused_by_name(column: pa.Array, named: str) -> None:
    with pytest.raises(fl.ValueRefused, match=named):
        fl.match_arrow(pa.table({"at": column}), {"none": "exists x"})


def test_what_does_not_speak_arrow_is_refused() -> None:
    with pytest.raises(TypeError, match="list does not offer"):
        fl.match_arrow([{"x": 1}], {})
