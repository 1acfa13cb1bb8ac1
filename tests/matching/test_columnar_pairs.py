"""Comparisons of two attributes in the columnar engine: what `@compare` says, of events, arrays and files."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.filters import Filter, parse
from fairlead.matching.brute import Brute
from fairlead.matching.columnar import Columnar, derived
from fairlead.matching.columnar.compile import program_of
from fairlead.model import Instant, Multi, Notification

TEXTS = [
    *(f'@compare("a", "{op}", "b")' for op in ("<", "<=", ">", ">=", "=", "!=")),
    *(f'not @compare("b", "{op}", "c")' for op in ("<", "<=", "=", "!=")),
    'x = 1 and @compare("a", "<", "c")',
    '@compare("a", "=", "b") or @compare("b", "=", "c")',
    '@compare("a", "!=", "c.d") and not x = 1',
    "a < b",
]
FILTERS = [*map(parse, TEXTS)]
VALUES = st.sampled_from(
    [
        *(0, 1, 1.0, 2.5, Decimal("2.5"), 2**60, 2**60 + 1, float("nan"), -0.0),
        *("", "a", "b", "é", "z", True, False, None, b"a", b"b"),
        *(Instant(0), Instant(1), Multi(["a"]), Multi(["a", 1])),
    ]
)


def found(engine: Any, notification: Notification) -> list[int]:
    return sorted(engine.match(notification))


def filled(engine: Any, filters: list[Filter]) -> Any:
    for number, filter in enumerate(filters):
        engine.add(number, filter)
    return engine


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "c", "x"]), VALUES), max_size=6))
def test_two_attributes_compare_as_the_filter_object_does(given: list[dict[str, Any]]) -> None:
    notifications = [Notification.of(each) for each in given]
    brute, columnar = filled(Brute(), FILTERS), filled(Columnar(), FILTERS)
    settled = filled(Columnar(), FILTERS)
    settled.compact()
    expected = [found(brute, each) for each in notifications]
    assert [found(columnar, each) for each in notifications] == expected
    assert [found(settled, each) for each in notifications] == expected
    assert [sorted(each) for each in settled.match_batch(notifications)] == expected


COLUMNS = {
    pa.int64(): st.sampled_from([None, 0, 1, 2**53 + 1, -(2**60)]),
    pa.float64(): st.sampled_from([None, 0.0, -0.0, 1.0, 2.5, float("nan")]),
    pa.string(): st.sampled_from([None, "", "a", "b", "é", "z"]),
    pa.bool_(): st.sampled_from([None, True, False]),
    pa.timestamp("us", "UTC"): st.sampled_from([None, 0, 1]),
}


@given(st.data())
def test_columns_of_arrow_compare_as_their_rows_do(data: st.DataObject) -> None:
    size = data.draw(st.integers(0, 5))
    columns = {}
    for name in ("a", "b", "c"):
        kind = data.draw(st.sampled_from([*COLUMNS]))
        columns[name] = pa.array([data.draw(COLUMNS[kind]) for _ in range(size)], kind)
    batch = pa.RecordBatch.from_pydict(columns)
    brute, columnar = filled(Brute(), FILTERS), filled(Columnar(), FILTERS)
    rows = [
        Notification.of({name: value for name, value in row.items() if value is not None})
        for row in batch.to_pylist()
    ]
    matched = columnar.match_arrow(batch)
    assert [sorted(matched[row]) for row in range(size)] == [found(brute, each) for each in rows]


def test_an_index_in_a_file_has_them(tmp_path: Path) -> None:
    engine = filled(Columnar(), FILTERS)
    again = Columnar.open(engine.save(tmp_path))
    event = Notification.of({"a": "x", "b": "y", "c": {"d": "z"}, "x": 1})
    assert found(again, event) == found(filled(Brute(), FILTERS), event) != []


@pytest.mark.parametrize("text", TEXTS[:-1])
def test_the_kernel_decides_and_no_python_is_asked_of_candidates(text: str) -> None:
    assert not program_of(parse(text)).opaque


def test_an_engine_that_has_the_sides_exchanged_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    event = Notification.of({"a": 1, "b": 2})
    expected = found(filled(Brute(), FILTERS), event)
    assert found(filled(Columnar(), FILTERS), event) == expected
    other = {**derived._OUTCOMES, **{op: (1,) for op in derived._OUTCOMES if op.value == "<"}}
    monkeypatch.setattr(derived, "_OUTCOMES", other)
    assert found(filled(Columnar(), FILTERS), event) != expected
