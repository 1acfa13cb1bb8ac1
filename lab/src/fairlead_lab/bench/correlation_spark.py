"""Detection on Spark against joins of the events with themselves, from Parquet to matches in Parquet.

    a job's speed counts    iff    its matches are those of the embedded detector

A match is the pattern and the ids of what it took: to have the whole composite takes longer than to find it, and
no join is asked for that. Where no query says the same as a fair subscription, there is none beside it.

Rounds go around, as in the other benchmarks on Spark; the first one is not counted.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import parquet as pq

from fairlead.correlation import fair
from fairlead.correlation.patterns import Detector, Occurrence, parse
from fairlead.filters import And, Constraint
from fairlead.matching.columnar import Columnar
from fairlead.model import Notification
from fairlead.model.order import END, OrderKey
from fairlead_lab.bench.cores import Round, timed
from fairlead_lab.bench.correlation_cell import FAIRLEAD, LEVELS, WINDOW_S, notifications, pattern_texts
from fairlead_lab.bench.peers.selfjoins import numbered, repeated, self_joins, three_steps, windows
from fairlead_lab.bench.runner import Spread, spread_of

__all__ = ["JOINS", "WINDOWS", "SparkJob", "measure_spark"]

JOINS, WINDOWS = "self-joins", "window functions"
QUERIES: Final = {JOINS: self_joins, WINDOWS: windows}
NUMBERED: Final = "C3-B"
"""The fair subscriptions that SQL can say: without a comparison, disposal is counting."""
TAKING: Final = ", taking one for each start"
"""The choice that SQL can express: whether a match starts behind the one before, it cannot."""
EVENTS, PATTERNS = "bench_events", "bench_patterns"
FILES: Final = 4
"""Files enough to keep the cores at work; Spark does not split small ones."""
COLUMNS: Final = {"C3": ("a", "b", "c")}
"""The columns of events beside their envelope and type, by the beginning of the shape; others have a sensor
and a level."""
Match: TypeAlias = tuple[str, tuple[str, ...]]
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
    cpu_s: tuple[float, ...] = ()
    """The time of cores that the driver, the JVM and the workers have used, once per round; none where unknown."""

    @property
    def cpu_us_each(self) -> float | None:
        """The time of cores that an event takes."""
        return spread_of(self.cpu_s).median / self.events * 1e6 if self.cpu_s else None

    @property
    def rate(self) -> Spread:
        """Events per second."""
        return spread_of([self.events / each for each in self.seconds])


@dataclass(slots=True)
class _Contender:
    shape: str
    n: int
    name: str
    frame: Callable[[], Any]
    rounds: list[Round] = field(default_factory=list)
    written: Path | None = None

    @property
    def title(self) -> str:
        return f"{self.shape}, n = {self.n:,}, {self.name}"


def measure_spark(
    spark: Any,
    directory: Path,
    tell: Callable[[str], None],
    *,
    patterns: Sequence[tuple[str, int]],
    events: int,
    sensors: int,
    rounds: int,
) -> tuple[list[SparkJob], list[str]]:
    """The jobs of every contender, for shapes with numbers of patterns; and what was not as it must be."""
    streams: dict[str, list[Notification]] = {}
    for kind in dict.fromkeys(shape[:2] for shape, _ in patterns):
        streams[kind] = list(islice(notifications(kind, sensors, Random(2)), events))
        _write(streams[kind], directory / kind, COLUMNS.get(kind, ("sensor", "level")))
        spark.read.parquet(str(directory / kind)).createOrReplaceTempView(f"{EVENTS}_{kind}")
    texts = {(shape, n): _texts(shape, n) for shape, n in patterns}
    contenders = [each for (shape, n), asked in texts.items() for each in _contenders(spark, shape, n, asked)]
    for number in range(rounds + 1):
        for each in contenders:
            taken = _timed(each, directory / f"{each.shape}-{each.n}-{each.name}-{number}")
            counted = "" if number else ", not counted"
            tell(f"{each.title}: {events / taken.seconds:,.0f} events/s{counted}")
            if number:
                each.rounds.append(taken)
    jobs, problems = [], []
    for each in contenders:
        rows = spark.read.parquet(str(each.written)).collect()
        found = [(row["pattern"], tuple(row["ids"])) for row in rows]
        seconds = tuple(taken.seconds for taken in each.rounds)
        cpu_s = tuple(taken.cpu_s for taken in each.rounds if taken.cpu_s is not None)
        jobs.append(SparkJob(each.shape, each.n, each.name, events, len(found), seconds, cpu_s))
        wanted = _detected(each.shape, texts[each.shape, each.n], streams[each.shape[:2]])
        if sorted(found) != sorted(wanted):
            missing, more = len(set(wanted) - set(found)), len(set(found) - set(wanted))
            problems.append(f"{each.title}: {missing} matches are missing, {more} too many")
    return jobs, problems


def _texts(shape: str, n: int) -> list[str]:
    texts = pattern_texts(shape, n, Random(1))
    return texts if _is_fair(shape) else [f"{text}{TAKING}" for text in texts]


def _is_fair(shape: str) -> bool:
    return shape.startswith("C3")


def _write(stream: list[Notification], directory: Path, names: Sequence[str]) -> None:
    """The events as files of Parquet; `at` is the time as a number, for those who calculate with it."""
    directory.mkdir(parents=True)
    columns = {
        name: [each.get(name) for each in stream] for name in ("id", "producer", "sequence", "type", *names)
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

    asked = [
        {"id": f"p{number}", "fair" if _is_fair(shape) else "pattern": text}
        for number, text in enumerate(texts)
    ]
    events = f"{EVENTS}_{shape[:2]}"

    def fairlead() -> Any:
        found = detect(spark.table(events).drop("at"), asked, payload=False)
        named = found.selectExpr("explode(patterns) as p", "constituents.id as ids")
        return named.selectExpr("p.id as pattern", "ids")

    def query(text: str) -> Callable[[], Any]:
        return lambda: spark.sql(text)

    queries = _queries(spark, shape, n, texts)
    frames = {FAIRLEAD: fairlead, **{name: query(text) for name, text in queries.items()}}
    return [_Contender(shape, n, name, frame) for name, frame in frames.items()]


def _queries(spark: Any, shape: str, n: int, texts: list[str]) -> dict[str, str]:
    """The same questions in SQL, as far as SQL can say them."""
    events, view = f"{EVENTS}_{shape[:2]}", f"{PATTERNS}_{shape.replace('-', '_')}_{n}"
    if _is_fair(shape):
        if shape != NUMBERED:
            return {}
        rows = [row for number, text in enumerate(texts) for row in _bounds(f"p{number}", text)]
        spark.createDataFrame(
            rows, "pattern string, type string, bound bigint, types int"
        ).createOrReplaceTempView(view)
        return {WINDOWS: numbered(events, view)}
    levels = [(f"p{number}", number % LEVELS if shape.endswith("apart") else None) for number in range(n)]
    spark.createDataFrame(levels, "pattern string, level bigint").createOrReplaceTempView(view)
    steps = repeated if shape.startswith("C2") else three_steps
    return {name: steps(query(events, view, WINDOW_S * 1_000_000), events) for name, query in QUERIES.items()}


def _bounds(pattern: str, text: str) -> list[tuple[str, str, int, int]]:
    """The bounds of a fair subscription that has nothing else: id, type, bound, and how many types it has."""
    [conjunction] = fair.parse(text).conjunctions
    found = []
    for instance, filter in conjunction.filters.items():
        assert isinstance(filter, And)
        bound = filter.parts[-1]
        assert isinstance(bound, Constraint)
        found.append((pattern, instance.type, bound.operand, len(conjunction.signature)))
    return found


def _timed(contender: _Contender, directory: Path) -> Round:
    if contender.written is not None:
        shutil.rmtree(contender.written)
    contender.written = directory
    return timed(lambda: contender.frame().write.parquet(str(directory)))


def _detected(shape: str, texts: list[str], stream: list[Notification]) -> list[Match]:
    """The matches of the embedded detector."""
    if _is_fair(shape):
        correlator: fair.Correlator[str] = fair.Correlator(Columnar())
        for number, text in enumerate(texts):
            correlator.add(f"p{number}", fair.parse(text))
        return [
            (id, tuple(str(each.id) for each in relation.events))
            for event in stream
            for id, relation in correlator.feed(event)
        ]
    detector = Detector(Columnar())
    for number, text in enumerate(texts):
        detector.add(f"p{number}", parse(text))
    for each in stream:
        detector.feed(Occurrence.of(each, OrderKey.of(each)))
    return [
        (id, tuple(str(occurrence.notification.id) for _, occurrence in found.composite.constituents))
        for found in detector.advance(END)
        for id in found.ids
    ]
