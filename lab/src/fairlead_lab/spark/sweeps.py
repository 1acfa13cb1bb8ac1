"""Simulations side by side: each run of a comparison is a row, and workers run them.

    sweep(spark, scenario, cells) == compare(scenario, cells)
    sweep_fair(spark, scenario) == evaluate(scenario)
    sweep_detection(spark, scenario) == compare_detection(scenario)

A run depends on its scenario and its seed alone, so it gives the same figures wherever it runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]

from fairlead.spark.failures import reason
from fairlead_lab.simulation.detection.runs import (
    DetectionResults,
    DetectionRow,
    detection_cells,
    detection_row,
)
from fairlead_lab.simulation.detection.scenario import DetectionScenario
from fairlead_lab.simulation.fair.evaluation import BASE, FairResults, FairRow, fair_cells, relative
from fairlead_lab.simulation.fair.scenario import FairScenario
from fairlead_lab.simulation.metrics import Row
from fairlead_lab.simulation.runs import Cell, Results
from fairlead_lab.simulation.scenario import Scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["sweep", "sweep_detection", "sweep_fair"]

NUMBERS: Final = "number long"
ROWS: Final = "number long, line long, row string"
_SCHEMA: Final = pa.schema([("number", pa.int64()), ("line", pa.int64()), ("row", pa.string())])

Runs: TypeAlias = Callable[[int], Iterable[Mapping[str, Any]]]
"""The rows of the run of a number, as JSON objects."""


def sweep(spark: SparkSession, scenario: Scenario, cells: Iterable[Cell], *, check: bool = False) -> Results:
    """Run all cells on Spark, each as a task of its own; the rows are in the order of the cells."""
    chosen = tuple(cells)

    def run(number: int) -> list[dict[str, Any]]:
        return [row.to_json() for row in chosen[number].run(scenario, check=check)]

    rows = _rows(spark, run, len(chosen))
    return Results(scenario, tuple(Row(**row) for _, row in rows))


def sweep_fair(spark: SparkSession, scenario: FairScenario) -> FairResults:
    """Run all systems of a comparison of fair correlation on Spark, and the one that all are relative to."""
    cells = (BASE, *fair_cells(scenario))

    def run(number: int) -> list[dict[str, Any]]:
        return [row.to_json() for row in cells[number].run(scenario)]

    rows = [(number, FairRow(**row)) for number, row in _rows(spark, run, len(cells))]
    base = next(row for number, row in rows if number == 0)
    return FairResults(scenario, tuple(relative(row, base) for number, row in rows if number))


def sweep_detection(spark: SparkSession, scenario: DetectionScenario) -> DetectionResults:
    """Run all policies of a comparison of detection on Spark."""
    cells = detection_cells(scenario)

    def run(number: int) -> list[dict[str, Any]]:
        return [detection_row(scenario, *cells[number]).to_json()]

    rows = _rows(spark, run, len(cells))
    return DetectionResults(scenario, tuple(DetectionRow(**row) for _, row in rows))


def _rows(spark: SparkSession, run: Runs, count: int) -> list[tuple[int, dict[str, Any]]]:
    """The rows of so many runs, each with the number of its run, in their order."""
    numbers = [{"number": number} for number in range(count)]
    rows = (
        spark.createDataFrame(numbers, NUMBERS)
        .repartition(max(1, count))
        .mapInArrow(_Task(run), ROWS)
        .orderBy("number", "line")
    )
    try:
        collected = rows.collect()
    except Exception as error:
        refused = reason(error)
        if refused is None:
            raise
        raise refused from error
    return [(each["number"], json.loads(each["row"])) for each in collected]


@dataclass(frozen=True, slots=True)
class _Task:
    """Runs the numbers of a partition, and gives their rows as JSON."""

    run: Runs

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("number").to_pylist():
                rows = [
                    {"number": number, "line": line, "row": json.dumps(row)}
                    for line, row in enumerate(self.run(number))
                ]
                yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
