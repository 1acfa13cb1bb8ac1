"""Every event becomes a row and comes back; files in the order of their names are one trace."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.audit import (
    Advertised,
    Ended,
    Event,
    Faulted,
    Notified,
    Published,
    Ready,
    ScopeChanged,
    Subscribed,
    TopologyChanged,
    TraceRefused,
    Unadvertised,
    Unsubscribed,
    parquet,
)
from fairlead.errors import ValueRefused
from fairlead.filters.language import parse, render
from fairlead.ingest import Rejection
from fairlead.model import Instant, Notification
from fairlead.model.order import Identity, OrderKey
from fairlead.testing import filters, notifications

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
longs = st.integers(-(2**63), 2**63 - 1)
keys = st.builds(OrderKey, longs, names, st.none() | longs, names)
bounds = st.none() | keys
# A filter about types is read back as it was under its schema only, in a table as in JSON lines.
untyped = filters().filter(lambda each: parse(render(each)) == each)
instants = st.builds(Instant, st.integers(-(10**15), 10**15))
changes = st.tuples(names, st.dictionaries(names, st.integers() | names, max_size=2))


@st.composite
def published(draw: st.DrawFn) -> Published:
    drawn = draw(notifications())
    notification = Notification(
        drawn.attributes,
        id=draw(names),
        producer=draw(names),
        time=draw(st.none() | instants),
        sequence=draw(st.none() | longs),
        document=drawn.document,
    )
    return Published(notification, OrderKey.of(notification, draw(longs)))


events: st.SearchStrategy[Event] = st.one_of(
    published(),
    st.builds(Subscribed, names, names, untyped, bounds, bounds, st.booleans()),
    st.builds(Advertised, names, names, untyped, bounds, bounds, st.booleans()),
    st.builds(Unsubscribed, names, names, bounds),
    st.builds(Unadvertised, names, names, bounds),
    st.builds(Ready, names, names, st.booleans()),
    st.builds(Notified, names, st.builds(Identity, names, names), st.lists(names, max_size=2).map(tuple)),
    changes.map(lambda each: TopologyChanged(*each)),
    changes.map(lambda each: ScopeChanged(*each)),
    changes.map(lambda each: Faulted(*each)),
    st.just(Ended()),
)

SUB = Subscribed("ada", "s1", parse("x > 0"))
N1, N2 = (
    Published(n, OrderKey.of(n))
    for n in (Notification.of({"id": id, "producer": "p", "x": 1}) for id in "12")
)


@given(st.lists(events, max_size=6))
def test_every_event_becomes_a_row_and_comes_back(trace: list[Event]) -> None:
    table = parquet.table_of(trace)
    assert [parquet.event_of(row) for row in table.to_pylist()] == trace


@pytest.mark.parametrize("time", [2**63, -(2**63) - 1])
def test_an_integer_that_no_table_holds_is_refused(time: int) -> None:
    with pytest.raises(ValueRefused, match="64 bits"):
        parquet.row_of(Unsubscribed("ada", "s1", OrderKey(time)))


def test_a_file_holds_a_trace(tmp_path: Path) -> None:
    path = str(tmp_path / "trace.parquet")
    parquet.write([SUB, N1, Ended()], path)
    assert list(parquet.read(path)) == [(1, SUB), (2, N1), (3, Ended())]


def test_files_are_read_by_name_and_rows_are_counted_through_them(tmp_path: Path) -> None:
    (tmp_path / "batch=00000001").mkdir()
    (tmp_path / "batch=00000000").mkdir()
    parquet.write([N2, Ended()], str(tmp_path / "batch=00000001" / "part-0.parquet"))
    parquet.write([N1], str(tmp_path / "batch=00000000" / "part-1.parquet"))
    parquet.write([SUB], str(tmp_path / "batch=00000000" / "part-0.parquet"))
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "batch=00000000" / ".part-0.parquet.crc").touch()
    assert list(parquet.read(str(tmp_path))) == [(1, SUB), (2, N1), (3, N2), (4, Ended())]
    assert list(parquet.read(f"file://{tmp_path}/batch=00000001")) == [(1, N2), (2, Ended())]


def test_a_row_that_is_no_event_is_rejected_with_its_number(tmp_path: Path) -> None:
    rows = [parquet.row_of(SUB), {"v": 1, "event": "gossip"}, {**parquet.row_of(SUB), "filter": "x >"}]
    rows += [{"v": 4, "event": "end"}, {"v": 1, "event": "pub", "producer": "p", "id": "1", "time": 0}]
    path = str(tmp_path / "trace.parquet")
    pq.write_table(pa.Table.from_pylist(rows, schema=parquet.SCHEMA), path)
    found = dict(parquet.read(path))
    assert found.pop(1) == SUB
    reasons = {number: event.reason for number, event in found.items() if isinstance(event, Rejection)}
    assert list(reasons) == [2, 3, 4, 5]
    assert "unknown kind" in reasons[2]
    assert "expected" in reasons[3]
    assert "version 4" in reasons[4]
    assert "'record'" in reasons[5]


def test_a_table_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "prices.parquet")
    pq.write_table(pa.table({"price": [1, 2]}), path)
    with pytest.raises(TraceRefused, match="no column about, advertisement"):
        list(parquet.read(path))


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    path.write_text("PAR1, or so it says")
    with pytest.raises(TraceRefused, match="not a Parquet file"):
        list(parquet.read(str(path)))


def test_a_path_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(parquet.read(str(tmp_path / "nothing")))
