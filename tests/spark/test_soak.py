"""A million events against a hundred thousand subscriptions: all deliveries that there should be, and an audit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairlead.filters.filter import And
from fairlead.spark.config import Config
from fairlead.spark.running import Pipeline
from fairlead_lab.bench.jobs import notifications
from fairlead_lab.matching.shapes import SHAPES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 8
PRODUCERS = 50
PER_SUBSCRIBER = 10


def written_events(count: int, directory: Path) -> pa.Table:
    """M1's notifications from some numbered producers, one of which has half of them, in files out of order."""
    rng = np.random.default_rng(4)
    producer = np.where(rng.random(count) < 0.5, 0, rng.integers(0, PRODUCERS, count))
    sequence = np.empty(count, np.int64)
    for each in range(PRODUCERS):
        own = producer == each
        sequence[own] = np.arange(own.sum())
    names = pa.array([f"p{each}" for each in range(PRODUCERS)])
    table = notifications(0, count)
    table = table.append_column("producer", names.take(pa.array(producer)))
    table = table.append_column("sequence", pa.array(sequence))
    table = table.append_column("time", pa.array(1_000 * np.arange(count)))
    directory.mkdir()
    shuffled = table.take(pa.array(rng.permutation(count)))
    for file in range(FILES):
        low, high = count * file // FILES, count * (file + 1) // FILES
        pq.write_table(shuffled.slice(low, high - low), directory / f"{file}.parquet")
    return table


def written_subscriptions(filters: Sequence[Any], path: Path) -> None:
    with path.open("w") as lines:
        for number, filter in enumerate(filters):
            row = {"id": f"s{number}", "subscriber": f"u{number // PER_SUBSCRIBER}", "filter": str(filter)}
            lines.write(f"{json.dumps(row)}\n")


def expected_deliveries(events: pa.Table, filters: Sequence[Any]) -> int:
    """One for each subscriber and event, by comparing what each filter says with the columns it says it of.

    A filter has one equality, which few events satisfy: these are looked up, and nothing here is the engine's.
    """
    numbers = {name: events.column(name).to_numpy() for name in events.column_names if name[0] == "x"}
    holders: dict[tuple[str, str], np.ndarray[Any, Any]] = {}
    for name in (name for name in events.column_names if name[0] == "c"):
        values = events.column(name).to_numpy(zero_copy_only=False).astype(str)
        order = np.argsort(values, kind="stable")
        found, starts = np.unique(values[order], return_index=True)
        holders |= {
            (name, str(value)): rows for value, rows in zip(found, np.split(order, starts[1:]), strict=True)
        }
    pairs = [np.empty(0, np.int64)]
    for number, filter in enumerate(filters):
        assert isinstance(filter, And)
        category, *intervals = filter.parts
        rows = holders.get((category.term.name, category.operand), np.empty(0, np.int64))
        for each in intervals:
            value = numbers[each.term.name][rows]
            rows = rows[(each.operand.low <= value) & (value <= each.operand.high)]
        pairs.append(rows * len(filters) + number // PER_SUBSCRIBER)
    return len(np.unique(np.concatenate(pairs)))


@pytest.mark.soak
@pytest.mark.parametrize(("events", "subscriptions"), [(20_000, 2_000), (1_000_000, 100_000)])
def test_many_events_against_many_subscriptions_give_every_delivery_once(
    spark: SparkSession, tmp_path: Path, events: int, subscriptions: int
) -> None:
    filters = list(SHAPES["M1"].filters(subscriptions, Random(1)))
    table = written_events(events, tmp_path / "events")
    written_subscriptions(filters, tmp_path / "subscriptions.jsonl")
    config = Config.of(
        {
            "output": str(tmp_path / "out"),
            "events": {"path": str(tmp_path / "events"), "format": "parquet"},
            "subscriptions": {"path": str(tmp_path / "subscriptions.jsonl")},
            "audit": {"specifications": ["simple", "fifo", "causal", "total", "ordered"]},
        }
    )
    summary = Pipeline(config, spark).run()
    assert (summary.read, summary.rejected, summary.duplicates, summary.late) == (events, 0, 0, 0)
    assert summary.subscriptions == subscriptions
    assert summary.deliveries == expected_deliveries(table, filters) > 0
    assert set(summary.verdicts.values()) == {"holds"}
