"""A report's values from the tables of a finished run.

One job per table: what is counted of deliveries, by subscription, by pattern and by subscriber, is counted in one
look at them. What comes back is bounded by the number of intervals and of rows shown, never by the data: the top
rows of each interval are chosen by the aggregation itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import groupby
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Window
from pyspark.sql import functions as F

from fairlead.audit import Finding
from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.spark.frames import RECORD, decode, few_rows
from fairlead.spark.report.data import Facts, Judged, Matched, Never, Reason, Received, ReportData
from fairlead.spark.report.examples import CompositeExample
from fairlead.spark.report.intervals import DELAYS, MATCHES, PARTICULAR, filled
from fairlead.spark.storage import as_path
from fairlead.spark.summary import Batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["gather"]

SHOWN: Final = 20
DRAWN: Final = 3
"""Of so many patterns a composite is shown."""
TEXT_MAX: Final = 500

WATERMARKS: Final = pa.schema([("batch", pa.int32()), ("watermark", pa.int64())])


def gather(
    facts: Facts,
    batches: Sequence[Batch],
    *,
    deliveries: DataFrame | None,
    subscriptions: DataFrame,
    patterns: DataFrame | None = None,
    rejected: DataFrame | None = None,
    late: DataFrame | None = None,
    findings: Iterable[Finding | Judged | Mapping[str, Any]] = (),
    stages: Mapping[str, float] | None = None,
) -> ReportData:
    """The data of a report, from the output of a run.

    `deliveries` is None where they cannot be read back. `subscriptions` has `id`, `subscriber` and `filter`, and
    so have `patterns`, with their texts. `late` has
    `event_time` and either `watermark`, the one that it came behind, or `batch`, the number of its
    batch: then it came behind the watermark of the batch before. Of an audit that counts more violations than
    it shows, pass `Judged.of(finding, violations=…)`.
    """
    counted = {} if deliveries is None else _counted(deliveries, subscriptions, patterns)
    best = [
        each
        for interval in sorted(counted, reverse=True)
        if interval >= 0
        for each in counted[interval].first
    ]
    never, received, counts = (counted.get(each, NOTHING) for each in (0, SUBSCRIBERS, PATTERNS))
    return ReportData(
        facts=facts,
        batches=tuple(batches),
        stages=dict(stages or {}),
        reasons=() if rejected is None else _reasons(rejected),
        subscriptions=tuple(each for each in best if each.count)[:SHOWN],
        never=Never(never.size, never.first),
        histogram=filled(
            {interval: each.size for interval, each in counted.items() if interval >= 0}, MATCHES
        ),
        subscribers=tuple(Received(each.id, each.count) for each in received.first),
        lateness=() if late is None else _lateness(late, batches),
        findings=tuple(each if isinstance(each, Judged) else Judged.of(each) for each in findings),
        reached=received.size,
        patterns=counts.first,
        patterns_total=None
        if patterns is None
        else counts.size
        if deliveries is not None
        else patterns.count(),
        examples=() if patterns is None or deliveries is None else _examples(deliveries, patterns),
        read_back=deliveries is not None,
    )


def _named(id: Column) -> Column:
    return F.struct(F.lit(True).alias("is_asked"), id.alias("name"))


class _Alike(NamedTuple):
    """The count of one interval: how many rows are alike, and the first of them, best first."""

    size: int
    first: tuple[Matched, ...]


NOTHING: Final = _Alike(0, ())
PATTERNS, SUBSCRIBERS = -2, -1
"""Subjects that have intervals of their own: all patterns, and all subscribers."""


def _counted(
    deliveries: DataFrame, subscriptions: DataFrame, patterns: DataFrame | None
) -> dict[int, _Alike]:
    """Subscriptions by the interval of their number of matches; and all patterns, and all subscribers."""
    columns = ("id", "subscriber", "filter")
    rows = subscriptions.select(*columns, F.lit(False).alias("is_pattern"))
    if patterns is not None:
        rows = rows.unionByName(patterns.select(*columns, F.lit(True).alias("is_pattern")))
    # An id may stand for several periods of validity: it is one subscription all the same.
    known = rows.groupBy(F.lit(True).alias("is_asked"), F.col("id").alias("name")).agg(
        F.min(F.coalesce("subscriber", "id")).alias("subscriber"),
        F.min("filter").alias("filter"),
        F.max("is_pattern").alias("is_pattern"),
    )
    whose = F.struct(F.lit(False).alias("is_asked"), F.col("subscriber").alias("name"))
    of = F.explode(F.concat(F.array(whose), F.transform("subscriptions", _named))).alias("of")
    counted = (
        deliveries.select("subscriber", of)
        .groupBy("of.is_asked", "of.name")
        .agg(F.count("*").alias("n"), F.min("subscriber").alias("told"))
    )
    n = F.coalesce("n", F.lit(0))
    shown = F.struct(
        "name",
        F.coalesce("subscriber", "told").alias("subscriber"),
        F.substring("filter", 1, TEXT_MAX).alias("filter"),
        n.alias("count"),
    )
    # Those that ended have no row among the known ones, and those that nothing matched none among the counted.
    interval = (
        F.when(~F.col("is_asked"), SUBSCRIBERS).when(F.col("is_pattern"), PATTERNS).otherwise(_magnitude(n))
    )
    # `min_by` with a number of values would be shorter; Spark has it since 4.2 only.
    alike = Window.partitionBy("interval")
    found = (
        known.join(counted, ["is_asked", "name"], "full")
        .select(interval.alias("interval"), shown.alias("shown"))
        .withColumn("size", F.count("*").over(alike))
        .withColumn("rank", F.row_number().over(alike.orderBy(F.desc("shown.count"), "shown.name")))
        .where(F.col("rank") <= SHOWN)
        .orderBy("interval", "rank")
        .collect()
    )
    return {
        key: _Alike(rows[0].size, tuple(Matched(*row.shown) for row in rows))
        for key, rows in ((key, list(group)) for key, group in groupby(found, attrgetter("interval")))
    }


def _examples(deliveries: DataFrame, patterns: DataFrame) -> tuple[CompositeExample, ...]:
    """The first composite of each of the first patterns, where deliveries have their content."""
    if RECORD not in deliveries.columns:
        return ()
    told = F.struct("time", "id", RECORD)
    found = (
        deliveries.where(F.col("producer") == PRODUCER)
        .select(F.explode("subscriptions").alias("pattern"), told.alias("told"))
        .join(F.broadcast(patterns.select(F.col("id").alias("pattern"))), "pattern", "left_semi")
        .groupBy("pattern")
        .agg(F.min("told").alias("first"))
        .orderBy("pattern")
        .limit(DRAWN)
        .collect()
    )
    return tuple(
        CompositeExample.of(decode(first.record, PRODUCER, first.id, first.time, None), pattern)
        for pattern, first in found
    )


def _reasons(rejected: DataFrame) -> tuple[Reason, ...]:
    first = F.struct(
        F.coalesce("file", "source").alias("file"), "line", F.substring("raw", 1, TEXT_MAX).alias("raw")
    )
    found = (
        rejected.where(F.col("reason") != "")
        .groupBy(F.regexp_replace("reason", PARTICULAR, "…").alias("sort"))
        .agg(F.count("*").alias("n"), F.min("reason").alias("reason"), F.min(first).alias("first"))
        .orderBy(F.desc("n"), "sort")
        .limit(SHOWN)
        .collect()
    )
    # Where all of a sort say the same in every detail there is nothing to leave out.
    return tuple(
        Reason(row.sort if row.n > 1 else row.reason, row.n, _readable(row.first.raw), _origin(row.first))
        for row in found
    )


def _readable(raw: bytes | str | None) -> str:
    if isinstance(raw, str):
        return raw
    return bytes(raw or b"").decode(errors="backslashreplace")


def _origin(first: Any) -> str:
    return f"{as_path(first.file or '')}{'' if first.line is None else f', line {first.line:,}'}"


def _lateness(late: DataFrame, batches: Sequence[Batch]) -> tuple[tuple[int, int | None, int], ...]:
    behind = late if "watermark" in late.columns else _with_watermark(late, batches)
    delay = F.greatest(F.col("watermark") - F.coalesce("event_time", F.lit(0)), F.lit(0))
    found = behind.groupBy(_interval(delay, DELAYS).alias("interval")).agg(F.count("*").alias("n")).collect()
    return filled({row.interval: row.n for row in found}, DELAYS)


def _with_watermark(late: DataFrame, batches: Sequence[Batch]) -> DataFrame:
    before = [(batch.number + 1, batch.watermark) for batch in batches]
    watermarks = few_rows(late.sparkSession, before, WATERMARKS)
    return late.withColumn("batch", F.col("batch").cast("int")).join(F.broadcast(watermarks), "batch")


def _magnitude(count: Column) -> Column:
    """The number of the interval of MATCHES that a count lies in, read off its digits: how many, and the first."""
    digits = count.cast("string")
    first = F.substring(digits, 1, 1)
    within = (first >= "2").cast("int") + (first >= "5").cast("int")
    return F.when(count == 0, 0).otherwise(3 * F.length(digits) - 2 + within)


def _interval(value: Column, starts: Sequence[int]) -> Column:
    """The number of the interval that a value lies in: how many begin at or below it, less one."""
    return reduce(add, ((value >= start).cast("int") for start in starts[1:]), F.lit(0))
