"""The join that matching is compared with, and the benchmark that does so, on Spark."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from fairlead.errors import PipelineError
from fairlead.filters import parse
from fairlead.spark import matching
from fairlead_lab.bench import pipeline
from fairlead_lab.bench.floor import FLOOR, Floor, measure_floor
from fairlead_lab.bench.harness import of_json
from fairlead_lab.bench.jobs import FAIRLEAD, HASHES, LOOP, NUMBERS, TEXTS, Plan, Workload, measure_m1
from fairlead_lab.bench.pipeline import run
from fairlead_lab.matching.shapes import SHAPES
from fairlead_lab.spark.baseline import conditions_of, conditions_schema, hash_joins, nested_loop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = conditions_schema(TEXTS, NUMBERS)
TINY = Plan(
    parts=("match", "batch", "stream"),
    sizes=(300,),
    rows=2_000,
    loop_n=300,
    loop_rows=200,
    rounds=1,
    events=200,
    subscriptions=60,
    sample_rounds=1,
    stream_n=300,
    stream_rates=(40,),
    stream_s=0.5,
)


def test_the_join_finds_what_each_filter_matches(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    filters = {
        "one": 'c0 = "a"',
        "two": 'c0 = "a" and x0 in [0.25, 0.5]',
        "none": 'c1 = "a" and x1 in [0, 1]',
        "range": "x0 in [0.5, 1]",
    }
    conditions = conditions_of(((id, parse(text)) for id, text in filters.items()), SCHEMA)
    rows = [("n1", "a", "b", 0.5), ("n2", "b", None, 0.75), ("n3", "a", "a", None)]
    frame = spark.createDataFrame(rows, "id string, c0 string, c1 string, x0 double")
    for name in {*TEXTS, *NUMBERS} - {"c0", "c1", "x0"}:
        frame = frame.selectExpr("*", f"cast(null as {'string' if name in TEXTS else 'double'}) as {name}")
    found = nested_loop(frame, spark.createDataFrame(conditions))
    assert {tuple(row) for row in found.collect()} == {
        ("n1", "one"),
        ("n1", "two"),
        ("n1", "range"),
        ("n2", "range"),
        ("n3", "one"),
    }
    found.explain()
    assert "BroadcastNestedLoopJoin" in capsys.readouterr().out
    hashed = hash_joins(frame, spark.createDataFrame(conditions))
    assert {tuple(row) for row in hashed.collect()} == {("n1", "one"), ("n1", "two"), ("n3", "one")}
    hashed.explain()
    assert "BroadcastNestedLoopJoin" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    ['c0 != "a"', "c0 = 3", "x0 in (0, 1]", 'c0 = "a" and c0 = "b"', 'other = "a"', 'c0 = "a" or c1 = "b"'],
)
def test_what_the_table_has_no_columns_for_is_refused(text: str) -> None:
    with pytest.raises(PipelineError, match="no columns for"):
        conditions_of([("s", parse(text))], SCHEMA)


def test_every_filter_of_m1_has_its_conditions() -> None:
    subscriptions = [(f"s{n}", filter) for n, filter in enumerate(SHAPES["M1"].filters(50, Random(1)))]
    for row in conditions_of(subscriptions, SCHEMA).to_pylist():
        given = [name.rpartition("_")[2] for name, value in row.items() if value is not None]
        assert sorted(given) == ["from", "from", "is", "subscription", "to", "to"]


def test_a_small_benchmark_finds_the_same_pairs_everywhere(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        pipeline, "_kernels", lambda: 0.5
    )  # two processes that say how long they take to start
    told: list[str] = []
    report = run(TINY, told.append, spark)
    assert report.problems == []
    assert [(job.contender, job.n, job.rows) for job in report.jobs] == [
        (LOOP, 300, 200),
        (FAIRLEAD, 300, 2_000),
        (HASHES, 300, 2_000),
    ]
    assert {len(job.rounds) for job in report.jobs} == {1}
    assert report.jobs[1].pairs > 0
    assert set(report.startup) >= {"first query", "first match, in fresh workers"}
    assert report.sampled is not None
    assert {"ingest", "order", "match", "audit, report"} <= set(report.sampled.stages)
    assert [pace.rows_per_s for pace in report.paces] == [40]
    assert report.machine["versions"]["pyspark"] == spark.version
    assert any("streaming 40 rows/s" in each for each in told)


def test_the_pipeline_is_held_against_the_floor_on_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    plan = replace(TINY, parts=("floor",), sample_rounds=0)
    found, problems = measure_floor(spark, plan, tmp_path, print)
    assert problems == []
    assert [each.workload for each in found] == ["the demo's sample", "M1"]
    for each in found:
        assert each.rows >= 200
        assert {FLOOR, "pipeline", "with trace and audit"} <= set(each.rounds)
        assert each.times("pipeline") is None  # the one round is the cold one
        assert each.cold(FLOOR) == 1
        assert of_json(Floor, json.loads(json.dumps(asdict(each)))) == each


def test_pairs_that_are_missing_or_come_twice_are_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = matching.pairs

    def careless(deliveries: DataFrame) -> DataFrame:
        some = whole(deliveries).where("cast(id as bigint) % 2 = 0")
        return some.union(some)

    monkeypatch.setattr(matching, "pairs", careless)
    found = measure_m1(spark, replace(TINY, loop_rows=2_000), Workload(tmp_path, 2_000), lambda _: None)
    assert len(found.problems) == 2
    for problem, whose in zip(found.problems, ("the oracle", "the join"), strict=True):
        assert problem.startswith("fairlead, n = 300: ")
        assert f"of {whose} are missing" in problem
        assert " 0 " in problem  # nothing that is not there was found
        assert "0 pairs" not in problem
        assert not problem.endswith(" 0 come twice")
