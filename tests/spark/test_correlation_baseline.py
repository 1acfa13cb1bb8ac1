"""Detection on Spark beside self-joins: the same matches, from the same files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.bench.correlation import Plan, run
from fairlead.bench.correlation_cell import FAIRLEAD
from fairlead.bench.correlation_spark import JOINS, WINDOWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_self_joins_and_window_functions_find_what_detection_finds(spark: SparkSession) -> None:
    asked = (("C1", 2), ("C1-apart", 200))
    plan = Plan(parts=("spark",), spark_patterns=asked, spark_events=400, sensors=4, spark_rounds=1)
    told: list[str] = []
    report = run(plan, told.append, spark=spark)
    assert report.problems == []
    assert [job.contender for job in report.jobs] == [FAIRLEAD, JOINS, WINDOWS] * 2
    alike, apart = ({job.matches for job in report.jobs if job.shape == shape} for shape, _ in asked)
    assert len(alike) == len(apart) == 1
    assert min(alike) > 100
    assert min(apart) > 10
    assert len(told) == 12
    assert report.machine["versions"]["pyspark"] == spark.version
