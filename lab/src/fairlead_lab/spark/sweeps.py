"""Simulations side by side: each run of a comparison is a row, and workers run them.

    sweep(spark, scenario, cells) == compare(scenario, cells)

A run depends on its scenario and its seed alone, so it gives the same figures wherever it runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from fairlead.spark.failures import reason
from fairlead_lab.simulation.metrics import Row
from fairlead_lab.simulation.runs import Cell, Results
from fairlead_lab.simulation.scenario import Scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["sweep"]

CELLS: Final = "number long, algorithm string, brokers long, seed long"
ROWS: Final = "number long, place long, row string"


def sweep(spark: SparkSession, scenario: Scenario, cells: Iterable[Cell], *, check: bool = False) -> Results:
    """Run all cells on Spark, each as a task of its own; the rows are in the order of the cells."""
    given = [{"number": number, **asdict(cell)} for number, cell in enumerate(cells)]
    rows = (
        spark.createDataFrame(given, CELLS)
        .repartition(max(1, len(given)))
        .mapInArrow(_Runs(scenario, check), ROWS)
        .orderBy("number", "place")
    )
    try:
        found = rows.collect()
    except Exception as error:
        told = reason(error)
        if told is None:
            raise
        raise told from error
    return Results(scenario, tuple(Row(**json.loads(each["row"])) for each in found))


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs the cells of a partition, and gives their rows as JSON."""

    scenario: Scenario
    check: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for given in batch.to_pylist():
                yield pa.RecordBatch.from_pylist(
                    self._rows(given),
                    schema=pa.schema([("number", pa.int64()), ("place", pa.int64()), ("row", pa.string())]),
                )

    def _rows(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        number = given.pop("number")
        rows = Cell(**given).run(self.scenario, check=self.check)
        return [
            {"number": number, "place": place, "row": json.dumps(row.to_json())}
            for place, row in enumerate(rows)
        ]
