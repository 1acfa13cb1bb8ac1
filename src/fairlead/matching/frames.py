"""Rows of any frame that speaks Arrow, matched at once: pyarrow, pandas, polars, relations of DuckDB.

A row is a notification, a column an attribute, and null means absent. Frames come in by Arrow's stream interface
(`__arrow_c_stream__`), batch after batch, and the answer is a table of Arrow, which they all take in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import types

from fairlead.errors import ValueRefused
from fairlead.filters import Filter, parse
from fairlead.matching import engine_named

__all__ = ["match_arrow"]

STREAM: Final = "__arrow_c_stream__"


def match_arrow(rows: Any, filters: Mapping[Any, Filter | str]) -> Any:
    """The matches of all rows: a table of Arrow with `row`, counted from 0, and `filter`, the filter's id.

    Rows are in order, and the filters of a row in the order of `filters`. A column whose type is no value of a
    notification, such as a date, is refused with ValueRefused, whatever the filters ask for.
    """
    if not hasattr(rows, STREAM):
        raise TypeError(f"{type(rows).__name__} does not offer Arrow's stream interface, {STREAM}")
    reader = pa.RecordBatchReader.from_stream(rows)
    for field in reader.schema:
        _check(field.name, field.type)
    engine: Any = engine_named("columnar")
    engine.add_many((id, parse(each) if isinstance(each, str) else each) for id, each in filters.items())
    ids, first = pa.array(list(filters)), 0
    numbers, ordinals = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for batch in reader:
        matches = engine.match_arrow(batch)  # its ordinals count the filters as they were added
        numbers.append(first + np.repeat(np.arange(len(matches)), np.diff(matches.starts)))
        ordinals.append(matches.ordinals)
        first += batch.num_rows
    return pa.table({"row": np.concatenate(numbers), "filter": ids.take(pa.array(np.concatenate(ordinals)))})


def _check(name: str, kind: Any) -> None:
    """ValueRefused where a column has a type that no attribute has."""
    if types.is_struct(kind):
        for field in kind:
            _check(f"{name}.{field.name}", field.type)
    elif types.is_dictionary(kind) or _is_list(kind):
        _check(name, kind.value_type)
    elif types.is_timestamp(kind) and kind.tz is None:
        raise ValueRefused(f"the column {name!r} has times without a zone", hint="give it one, such as UTC")
    elif types.is_date(kind) or types.is_time(kind) or types.is_duration(kind) or types.is_map(kind):
        raise ValueRefused(
            f"the column {name!r} is of the type {kind}, which no attribute has",
            hint="cast it to a string, a number or a timestamp with a zone",
        )


def _is_list(kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))
