"""Detection on Spark beside self-joins: the same matches, from the same files, as far as SQL can say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead_lab.bench.correlation import Plan, run
from fairlead_lab.bench.correlation_cell import FAIRLEAD
from fairlead_lab.bench.correlation_spark import JOINS, WINDOWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_self_joins_and_window_functions_find_what_detection_finds(spark: SparkSession) -> None:
    asked = (("C1", 2), ("C2-apart", 200), ("C3-A", 3), ("C3-B", 5))
    # Without rounds that count: what is found in the one before them is what matters here.
    plan = Plan(parts=("spark",), spark_patterns=asked, spark_events=400, sensors=4, spark_rounds=0)
    told: list[str] = []
    report = run(plan, told.append, spark=spark)
    assert report.problems == []
    contenders = ([FAIRLEAD, JOINS, WINDOWS],) * 2 + ([FAIRLEAD], [FAIRLEAD, WINDOWS])
    assert [job.contender for job in report.jobs] == [each for some in contenders for each in some]
    found = {shape: {job.matches for job in report.jobs if job.shape == shape} for shape, _ in asked}
    assert all(len(matches) == 1 for matches in found.values())
    assert [min(found[shape]) > least for (shape, _), least in zip(asked, (100, 5, 50, 50), strict=True)] == [
        True
    ] * 4
    assert len(told) == 9
    assert report.machine["versions"]["pyspark"] == spark.version
