"""A report's values from the tables of a finished run.

Four jobs, one per table. What comes back is bounded by the number of intervals and of rows shown, never by the
data: the top rows of each interval are chosen by the aggregation itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from fairlead.audit import Finding
from fairlead.spark.report.data import Facts, Judged, Matched, Never, Reason, Received, ReportData
from fairlead.spark.summary import Batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["gather"]

SHOWN: Final = 20
TEXT_MAX: Final = 500

MATCHES: Final = (0, *(digit * 10**power for power in range(12) for digit in (1, 2, 5)))
"""Where the intervals of the histogram begin: never, once, 2 to 4, 5 to 9, 10 to 19, …"""
_SECOND: Final = 1_000_000
DELAYS: Final = tuple(
    seconds * _SECOND for seconds in (0, 1, 2, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400, 604_800)
)
"""Where the intervals of lateness begin, in microseconds."""

# Two rejections are of one sort where they differ only in what they quote and in numbers.
_PARTICULAR: Final = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[0-9][0-9.,]*"""


def gather(
    facts: Facts,
    batches: Sequence[Batch],
    *,
    deliveries: DataFrame,
    subscriptions: DataFrame,
    rejected: DataFrame | None = None,
    late: DataFrame | None = None,
    findings: Iterable[Finding | Judged | Mapping[str, Any]] = (),
    stages: Mapping[str, float] | None = None,
) -> ReportData:
    """What a run did, from its output.

    `late` has `event_time` and either `watermark`, the one that it came behind, or `batch`, the number of its
    batch: then it came behind the watermark of the batch before. Of an audit that counts more violations than
    it shows, pass `Judged.of(finding, violations=…)`.
    """
    histogram, top, never = _matches(deliveries, subscriptions)
    reached, subscribers = _subscribers(deliveries)
    return ReportData(
        facts=facts,
        batches=tuple(batches),
        stages=dict(stages or {}),
        reasons=() if rejected is None else _reasons(rejected),
        subscriptions=top,
        never=never,
        histogram=histogram,
        subscribers=subscribers,
        lateness=() if late is None else _lateness(late, batches),
        findings=tuple(each if isinstance(each, Judged) else Judged.of(each) for each in findings),
        reached=reached,
    )


def _matches(
    deliveries: DataFrame, subscriptions: DataFrame
) -> tuple[tuple[tuple[int, int | None, int], ...], tuple[Matched, ...], Never]:
    # An id may stand for several periods of validity: it is one subscription all the same.
    subscribed = subscriptions.groupBy("id").agg(
        F.min(F.coalesce("subscriber", "id")).alias("subscriber"), F.min("filter").alias("filter")
    )
    counted = (
        deliveries.select(F.explode("subscriptions").alias("id")).groupBy("id").agg(F.count("*").alias("n"))
    )
    n = F.coalesce("n", F.lit(0))
    shown = F.struct("id", "subscriber", F.substring("filter", 1, TEXT_MAX).alias("filter"), n.alias("count"))
    found = (
        subscribed.join(counted, "id", "left")
        .groupBy(_magnitude(n).alias("interval"))
        .agg(F.count("*").alias("size"), F.min_by(shown, F.struct(-n, "id"), SHOWN).alias("first"))
        .collect()
    )
    rows = {row.interval: row for row in found}
    best = [
        Matched(each.id, each.subscriber, each.filter, each["count"])
        for interval in sorted(rows, reverse=True)
        for each in rows[interval].first
    ]
    none = rows.get(0)
    return (
        _filled({interval: row.size for interval, row in rows.items()}, MATCHES),
        tuple(each for each in best if each.count)[:SHOWN],
        Never(none.size, tuple(each for each in best if not each.count)) if none else Never(),
    )


def _subscribers(deliveries: DataFrame) -> tuple[int, tuple[Received, ...]]:
    counted = deliveries.groupBy("subscriber").agg(F.count("*").alias("n"))
    [row] = counted.agg(
        F.count("*").alias("reached"),
        F.min_by(F.struct("subscriber", "n"), F.struct(-F.col("n"), "subscriber"), SHOWN).alias("first"),
    ).collect()
    return row.reached, tuple(Received(each.subscriber, each.n) for each in row.first or ())


def _reasons(rejected: DataFrame) -> tuple[Reason, ...]:
    first = F.struct(
        F.coalesce("file", "source").alias("file"), "line", F.substring("raw", 1, TEXT_MAX).alias("raw")
    )
    found = (
        rejected.where(F.col("reason") != "")
        .groupBy(F.regexp_replace("reason", _PARTICULAR, "…").alias("sort"))
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
    return f"{first.file or ''}{'' if first.line is None else f', line {first.line:,}'}"


def _lateness(late: DataFrame, batches: Sequence[Batch]) -> tuple[tuple[int, int | None, int], ...]:
    behind = late if "watermark" in late.columns else _with_watermark(late, batches)
    delay = F.greatest(F.col("watermark") - F.coalesce("event_time", F.lit(0)), F.lit(0))
    found = behind.groupBy(_interval(delay, DELAYS).alias("interval")).agg(F.count("*").alias("n")).collect()
    return _filled({row.interval: row.n for row in found}, DELAYS)


def _with_watermark(late: DataFrame, batches: Sequence[Batch]) -> DataFrame:
    before = [(batch.number + 1, batch.watermark) for batch in batches]
    watermarks = late.sparkSession.createDataFrame(before, "batch int, watermark bigint")
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


def _filled(sizes: Mapping[int, int], starts: Sequence[int]) -> tuple[tuple[int, int | None, int], ...]:
    """The intervals from the first to the last that hold anything, empty ones between them included."""
    if not sizes:
        return ()
    ends = [*(start - 1 for start in starts[1:]), None]
    return tuple((starts[each], ends[each], sizes.get(each, 0)) for each in range(min(sizes), max(sizes) + 1))
