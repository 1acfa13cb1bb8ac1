"""Detection on Spark against joins of the events with themselves: three steps, from Parquet to matches in Parquet.

    a job's speed counts    iff    its matches are those of the embedded detector

Rounds go around, as in the other benchmarks on Spark; the first one is not counted.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import parquet as pq

from fairlead.bench.correlation_cell import FAIRLEAD, LEVELS, WINDOW_S, notifications, pattern_texts
from fairlead.bench.peers.selfjoins import self_joins, windows
from fairlead.bench.runner import Spread, spread_of
from fairlead.correlation.patterns import Detector, Occurrence, parse
from fairlead.matching.columnar import Columnar
from fairlead.model import Notification
from fairlead.model.order import END, OrderKey

__all__ = ["JOINS", "WINDOWS", "SparkJob", "measure_spark"]

JOINS, WINDOWS = "self-joins", "window functions"
QUERIES: Final = {JOINS: self_joins, WINDOWS: windows}
TAKING: Final = ", taking one for each start"
"""What SQL can say: whether a match starts behind the one before, it cannot."""
EVENTS, PATTERNS = "bench_events", "bench_patterns"
FILES: Final = 4
"""Files enough to keep the cores at work; Spark does not split small ones."""
Match: TypeAlias = tuple[str, ...]
"""The id of a pattern, and those of what it took."""


@dataclass(frozen=True, slots=True)
class SparkJob:
    """One contender with n patterns of a shape."""

    shape: str
    n: int
    contender: str
    events: int
    matches: int
    seconds: tuple[float, ...]
    """Once per round."""

    @property
    def rate(self) -> Spread:
        """Events per second."""
        return spread_of([self.events / each for each in self.seconds])

    @classmethod
    def of_json(cls, given: dict[str, Any]) -> SparkJob:
        return cls(**{**given, "seconds": tuple(given["seconds"])})


@dataclass(slots=True)
class _Contender:
    shape: str
    n: int
    name: str
    frame: Callable[[], Any]
    seconds: list[float] = field(default_factory=list)
    written: Path | None = None

    @property
    def title(self) -> str:
        return f"{self.shape}, n = {self.n:,}, {self.name}"


def measure_spark(
    spark: Any,
    place: Path,
    tell: Callable[[str], None],
    *,
    patterns: Sequence[tuple[str, int]],
    events: int,
    sensors: int,
    rounds: int,
) -> tuple[list[SparkJob], list[str]]:
    """The jobs of every contender, for shapes with numbers of patterns; and what was not as it must be."""
    stream = list(islice(notifications("C1", sensors, Random(2)), events))
    _write(stream, place / "events")
    spark.read.parquet(str(place / "events")).createOrReplaceTempView(EVENTS)
    texts = {
        (shape, n): [f"{text}{TAKING}" for text in pattern_texts(shape, n, Random(1))]
        for shape, n in patterns
    }
    contenders = [each for (shape, n), asked in texts.items() for each in _contenders(spark, shape, n, asked)]
    for number in range(rounds + 1):
        for each in contenders:
            seconds = _timed(each, place / f"{each.shape}-{each.n}-{each.name}-{number}")
            counted = "" if number else ", not counted"
            tell(f"{each.title}: {events / seconds:,.0f} events/s{counted}")
            if number:
                each.seconds.append(seconds)
    jobs, problems = [], []
    for each in contenders:
        found = [tuple(row) for row in spark.read.parquet(str(each.written)).collect()]
        jobs.append(SparkJob(each.shape, each.n, each.name, events, len(found), tuple(each.seconds)))
        wanted = _detected(texts[each.shape, each.n], stream)
        if sorted(found) != sorted(wanted):
            missing, more = len(set(wanted) - set(found)), len(set(found) - set(wanted))
            problems.append(f"{each.title}: {missing} matches are missing, {more} too many")
    return jobs, problems


def _write(stream: list[Notification], directory: Path) -> None:
    """The events as files of Parquet; `at` is the time as a number, for those who calculate with it."""
    directory.mkdir(parents=True)
    columns = {
        name: [each.get(name) for each in stream]
        for name in ("id", "producer", "sequence", "type", "sensor", "level")
    }
    times = [each.time.microseconds if each.time is not None else 0 for each in stream]
    table = pa.table(
        {**columns, "time": pa.array(times, pa.timestamp("us", tz=str(UTC))), "at": pa.array(times)}
    )
    for number in range(FILES):
        first, last = (len(stream) * part // FILES for part in (number, number + 1))
        pq.write_table(table.slice(first, last - first), directory / f"{number}.parquet")


def _contenders(spark: Any, shape: str, n: int, texts: list[str]) -> list[_Contender]:
    from fairlead.spark.detection import detect

    asked = [{"id": f"p{number}", "pattern": text} for number, text in enumerate(texts)]
    view = f"{PATTERNS}_{shape.replace('-', '_')}_{n}"
    rows = [(f"p{number}", number % LEVELS if shape.endswith("apart") else None) for number in range(n)]
    spark.createDataFrame(rows, "pattern string, level bigint").createOrReplaceTempView(view)

    def fairlead() -> Any:
        found = detect(spark.table(EVENTS).drop("at"), asked)
        named = found.selectExpr("explode(patterns) as p", "constituents.id as ids")
        return named.selectExpr("p.id as pattern", "ids[0] as a_id", "ids[1] as b_id", "ids[2] as c_id")

    def query(name: str) -> Callable[[], Any]:
        return lambda: spark.sql(QUERIES[name](EVENTS, view, WINDOW_S * 1_000_000))

    frames = {FAIRLEAD: fairlead, **{name: query(name) for name in QUERIES}}
    return [_Contender(shape, n, name, frame) for name, frame in frames.items()]


def _timed(contender: _Contender, place: Path) -> float:
    if contender.written is not None:
        shutil.rmtree(contender.written)
    contender.written = place
    started = time.perf_counter()
    contender.frame().write.parquet(str(place))
    return time.perf_counter() - started


def _detected(texts: list[str], stream: list[Notification]) -> list[Match]:
    """The matches of the embedded detector."""
    detector = Detector(Columnar())
    for number, text in enumerate(texts):
        detector.add(f"p{number}", parse(text))
    for each in stream:
        detector.feed(Occurrence.of(each, OrderKey.of(each)))
    return [
        (id, *(str(occurrence.notification.id) for _, occurrence in found.composite.constituents))
        for found in detector.advance(END)
        for id in found.ids
    ]
