"""Detection on Spark: from notifications, at their places in the order, to the composite events of many patterns.

Law: run batch by batch, with its state handed on, `detected` finds what one `Detector` finds that is fed the same
notifications: the same composites, to the byte, however the order was cut into batches and partitions.

    stream ─▶ route ─▶ shuffle by (group, key) ─▶ detect ─▶ composites, and what is in progress
      ▲                       ▲                                  │              │
      │              what was in progress                        │              └─▶ the next batch
      └──────────── for the level above ◀────────────────────────┘

A **level** has the patterns that see no composites but those of the levels below. A **group** of it has patterns
with the same `same`: a notification goes to a group if an atom of it may take it, and there to the **key** that
its values give. Patterns without `same` see one stream; they are divided into several groups. Atoms are matched by
the columnar engine, in record batches; a `Detector` runs over the rows of each key, with what was in progress for
it, and stays compiled for as long as the worker lives. Typed columns are routed as columns: they become
notifications where these are detected, and only those that concern somebody. Where there are few rows, one task
does all of it, and nothing is sent anywhere.

State is a table: for each automaton and key what was seen of the matches in progress, and when time alone would
change that. What has neither new notifications nor an alarm is carried over as it is, without being read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from hashlib import blake2b
from itertools import chain, groupby, islice, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from fairlead.correlation.patterns import Composite, Detector, Found, Occurrence
from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.correlation.patterns.model import atoms
from fairlead.correlation.patterns.occurrences import Rank
from fairlead.correlation.standing import Question
from fairlead.filters import Filter
from fairlead.matching.columnar import Columnar
from fairlead.matching.columnar.arrow import notifications_of
from fairlead.model import ABSENT, Kind, Notification, key_of, kind_of
from fairlead.model.encoding import canonical, format_json, parse_json
from fairlead.model.order import BEGINNING, END, OrderKey
from fairlead.spark.frames import (
    ATTRIBUTES,
    KEY,
    PLACE,
    RECORD,
    encode,
    notifications_in,
    payload_of,
    to_records,
)
from fairlead.spark.matching import keyed, match
from fairlead.spark.patterns import Automaton, Patterns

if TYPE_CHECKING:
    from fairlead.filters import Schema
    from fairlead.spark.subscriptions import Subscriptions, SubscriptionsInput

__all__ = ["Detected", "Detecting", "Level", "Placer", "Router", "detect", "detected", "stream_of"]

PORTION: Final = 10_000
"""About so many rows are detected at a time, of as many keys as that takes; a longer key in pieces."""
ROWS: Final = 1_000
"""So many composites, or rows of state, make a record batch."""
KEYS_KEPT: Final = 1 << 16
"""For so many keys a group knows their numbers."""
LEVELS_KEPT: Final = 32
"""So many levels, of whichever patterns, stay compiled in a worker."""

STREAM: Final = {
    "time": "bigint",
    "start": "bigint",
    "producer": "string",
    "pattern": "string",
    "sequence": "bigint",
    "id": "string",
    "event_time": "bigint",
    "record": "string",
}
"""What patterns look at: notifications and, with the start of their interval and their pattern, composites."""
PROGRESS: Final = {"automaton": "string", "key": "bigint", "alarm": "bigint", "progress": "string"}
"""What is in progress, for each automaton and key, and when time alone changes that: never, where it is null."""
PLACED: Final = (T.StructField("group", T.IntegerType()), T.StructField("key", T.LongType()))
"""Where what comes together for a key goes."""
COMPOSITE: Final = {
    **{name: STREAM[name] for name in (*KEY, "event_time", RECORD)},
    "type": "string",
    "interval": "struct<start:bigint,end:bigint>",
    "constituents": "array<struct<step:string,producer:string,id:string,time:bigint>>",
    "pattern": "string",
    "patterns": "array<struct<id:string,subscriber:string>>",
    "is_public": "boolean",
}
"""Composites are notifications, and say beside their content what they are made of and who asked for them."""
FOUND: Final = {**COMPOSITE, **PROGRESS}


def _declared(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {type}" for name, type in columns.items())


# -- the stage ---------------------------------------------------------------------------------------------


def detect(
    notifications: DataFrame,
    patterns: Patterns | SubscriptionsInput | DataFrame | Iterable[Mapping[str, Any]],
    *,
    bound: int | None = None,
    schema: Schema | None = None,
    payload: bool = True,
) -> DataFrame:
    """The composite events that end before a bound, by default all of them: what is absent stays so.

    `notifications` are those of `ingest` or `order`, or any table with an `id`, as in `match`. The result has the
    order key, `type`, `interval`, `constituents`, the hash of the pattern, the ids of those who asked for it with
    their subscribers, and the whole composite as a `record`, unless `payload` is false: making that takes longer
    than finding it.
    """
    spark = notifications.sparkSession
    if not isinstance(patterns, Patterns):
        patterns = Patterns.read(patterns, schema=schema, spark=spark)
    found = detected(notifications, patterns, bound=END if bound is None else bound, payload=payload)
    composites = found.composites if found.levels else spark.createDataFrame([], _declared(COMPOSITE))
    return composites.drop("is_public", "event_time", *([] if payload else [RECORD]))


def detected(
    notifications: DataFrame,
    patterns: Patterns,
    state: DataFrame | None = None,
    bound: int = END,
    *,
    few: bool = False,
    payload: bool = True,
) -> Detected:
    """What patterns find in what came next in the order, up to a bound; `state` is what was in progress before.

    Where both are `few`, one task does it all. Without `payload`, composites that no pattern sees have no content.
    """
    if not patterns:
        return Detected(())
    spark = notifications.sparkSession
    buckets = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    stream = stream_of(notifications, several=len(patterns.levels) > 1)
    found: list[DataFrame] = []
    for number in range(len(patterns.levels)):
        level = Level(patterns, number, buckets)
        detecting = Detecting(level, bound, payload or number < len(patterns.levels) - 1)
        if few:
            together = stream if state is None else stream.unionByName(state, allowMissingColumns=True)
            found.append(together.coalesce(1).mapInArrow(AtOnce(detecting), _declared(FOUND)))
        else:
            routed = _placed(stream, Router(level))
            if state is not None:
                routed = routed.unionByName(_placed(state, Placer(level)), allowMissingColumns=True)
            ranked = routed.repartition("group", "key").sortWithinPartitions("group", "key", "time")
            found.append(ranked.mapInArrow(detecting, _declared(FOUND)))
        composites = found[-1].where(_is_composite()).withColumn("start", F.col("interval.start"))
        stream = stream.unionByName(composites.select(*STREAM)) if len(patterns.levels) > 1 else stream
    return Detected(tuple(found), few)


def _placed(frame: DataFrame, where: Router | Placer) -> DataFrame:
    """The rows of a frame, each where it goes."""
    columns = [each for each in PLACED if each.name not in frame.columns]
    return frame.mapInArrow(where, T.StructType([*columns, *frame.schema]))


@dataclass(frozen=True, slots=True)
class Detected:
    """What was found, and what is in progress. `persist` it where more than one frame is used."""

    levels: tuple[DataFrame, ...]
    """What was found by the patterns of each level; nothing, where there are none."""
    few: bool = False
    """Whether one task is enough for what is done with it."""

    def persist(self) -> Detected:
        """The same, computed once."""
        return replace(self, levels=tuple(each.persist() for each in self.levels))

    def unpersist(self) -> None:
        """Give back what `persist` took."""
        for each in self.levels:
            each.unpersist()

    @property
    def rows(self) -> DataFrame:
        """Composites and what is in progress, together."""
        together = reduce(DataFrame.unionByName, self.levels)
        return together.coalesce(1) if self.few else together

    @property
    def composites(self) -> DataFrame:
        """The composite events that were found, each once."""
        return self.rows.where(_is_composite()).select(*COMPOSITE)

    @property
    def state(self) -> DataFrame:
        """What the next batch begins with."""
        return self.rows.where(~_is_composite()).select(*PROGRESS)

    def joining(self, matches: DataFrame, subscriptions: Subscriptions, *, payload: bool) -> DataFrame:
        """The deliveries of notifications together with those of composites."""
        if not self.levels:
            return matches
        answers = self.answers(subscriptions, payload=payload)
        nowhere = F.lit(None).cast(answers.schema[PLACE].dataType)
        return matches.withColumn(PLACE, nowhere).unionByName(answers)

    def answers(self, subscriptions: Subscriptions, *, payload: bool = False) -> DataFrame:
        """The deliveries of composites: to those who asked and, where they are public, to whom they match.

        One for each subscriber, as of any notification, with the place that it has among those of an instant.
        """
        content = [RECORD] if payload else []
        found = self.composites
        asked = found.select(*KEY, *content, F.explode("patterns").alias("asked")).select(
            "asked.subscriber", *KEY, F.array("asked.id").alias("subscriptions"), *content
        )
        matched = match(found.where("is_public"), subscriptions, payload=payload)
        ids = F.sort_array(F.array_distinct(F.flatten(F.collect_list("subscriptions"))))
        told = asked.unionByName(matched)
        merged = (
            (told.coalesce(1) if self.few else told)
            .groupBy("subscriber", *KEY)
            .agg(ids.alias("subscriptions"), *(F.first(name).alias(name) for name in content))
        )
        place = F.struct(F.col("interval.start").alias("start"), "pattern").alias(PLACE)
        return merged.join(self.nearby(found.select("id", place)), "id")

    def nearby(self, composites: DataFrame) -> DataFrame:
        """Composites, to be joined with: where they are few, each task gets them all. (Spark cannot know.)"""
        return F.broadcast(composites) if self.few else composites


def _is_composite() -> Any:
    return F.col("automaton").isNull()


def stream_of(notifications: DataFrame, *, several: bool) -> DataFrame:
    """Notifications with what composites have beside them; as records, where they are to meet these."""
    columns = set(notifications.columns)
    if {"interval", "pattern", RECORD} <= columns:
        times = {"start": F.col("interval.start"), "event_time": F.col("time")}
        return notifications.withColumns(times).select(*STREAM)
    if "event_time" in columns:
        given = to_records(notifications) if several else notifications
        time = F.col("time") if "time" in columns else F.coalesce("event_time", F.lit(0))
    else:
        given, _ = keyed(notifications, None, payload=True)
        given = given.withColumn("event_time", F.col("time") if "time" in columns else F.lit(None))
        given = to_records(given) if several else given
        time = F.col("time")
    return given.select(
        time.cast("bigint").alias("time"),
        F.lit(None).cast("bigint").alias("start"),
        "producer",
        F.lit(None).cast("string").alias("pattern"),
        F.col("sequence").cast("bigint").alias("sequence"),
        "id",
        F.col("event_time").cast("bigint").alias("event_time"),
        payload_of(given),
    )


# -- in the worker: what goes where ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Level:
    """Patterns that are detected together, and over how many groups those are spread that see one stream."""

    patterns: Patterns
    number: int
    buckets: int


Ints: TypeAlias = NDArray[np.integer[Any]]
Routed: TypeAlias = tuple[Ints, Ints, Ints]
"""Rows, and for each its group and key; a row that concerns several groups comes once for each."""


@dataclass(frozen=True, slots=True)
class Router:
    """Record batches of the stream in; out goes what concerns a group, once for each, with its key there."""

    level: Level

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        compiled = _compiled(self.level)
        for batch in batches:
            yield _sent(batch, *compiled.route(batch))


@dataclass(frozen=True, slots=True)
class Placer:
    """Record batches of what is in progress in; out goes what is this level's, with its group."""

    level: Level

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        compiled = _compiled(self.level)
        for batch in batches:
            at, groups = compiled.place(batch)
            placed = batch.take(pa.array(at, pa.int64()))
            yield placed.add_column(0, "group", pa.array(groups, pa.int32()))


def _sent(batch: pa.RecordBatch, at: Ints, groups: Ints, keys: Ints) -> pa.RecordBatch:
    sent = batch.take(pa.array(at, pa.int64()))
    placed = [pa.array(groups, pa.int32()), pa.array(keys, pa.int64())]
    return pa.RecordBatch.from_arrays([*placed, *sent.columns], ["group", "key", *sent.schema.names])


# -- in the worker: patterns, compiled ---------------------------------------------------------------------

_LEVELS: Final[OrderedDict[tuple[str, int, int], _Compiled]] = OrderedDict()
"""They outlive tasks: Spark keeps its Python workers."""


def _compiled(level: Level) -> _Compiled:
    key = level.patterns.fingerprint, level.number, level.buckets
    found = _LEVELS.get(key)
    if found is None:
        while len(_LEVELS) >= LEVELS_KEPT:
            _LEVELS.popitem(last=False)
        found = _LEVELS[key] = _Compiled(level)
    _LEVELS.move_to_end(key)
    return found


class _Compiled:
    """A level of patterns: its groups, and the engine that tells whom of them a notification may concern."""

    def __init__(self, level: Level) -> None:
        level.patterns.load()
        members: dict[tuple[tuple[str, ...], int], list[Automaton]] = {}
        for automaton in level.patterns.levels[level.number]:
            same = automaton.pattern.same
            # By what it looks for: from whichever place on, the same composite is found in one group.
            bucket = 0 if same else crc32(automaton.pattern.hash.encode()) % level.buckets
            members.setdefault((same, bucket), []).append(automaton)
        self.groups = tuple(
            _Group(number, names, members[names, bucket], level.patterns)
            for number, (names, bucket) in enumerate(sorted(members))
        )
        self.group_of = {each.name: group.number for group in self.groups for each in group.automata}
        self.engine: Columnar[int] = Columnar()
        self._interested: list[list[_Group]] = []
        numbers: dict[Filter, int] = {}
        for group in self.groups:
            for filter in group.filters():
                number = numbers.setdefault(filter, len(numbers))
                if number == len(self._interested):
                    self.engine.add(number, filter)
                    self._interested.append([])
                self._interested[number].append(group)
        self._plans: dict[tuple[int, ...], tuple[_Group, ...]] = {}
        self._concerns = np.zeros((len(self.groups), len(numbers)), np.bool_)
        for number, interested in enumerate(self._interested):
            for group in interested:
                self._concerns[group.number, number] = True

    # -- what goes where

    def route(self, batch: pa.RecordBatch, notifications: Sequence[Notification] | None = None) -> Routed:
        """Which rows of the stream concern which groups, and their keys there."""
        if ATTRIBUTES in batch.schema.names:
            return self._route_columns(pa.RecordBatch.from_struct_array(batch.column(ATTRIBUTES)))
        notifications = notifications_in(batch) if notifications is None else notifications
        composite = batch.column("start").is_valid().to_pylist()
        at, groups, keys = [], [], []
        for row, matched in enumerate(self.engine.match_batch(notifications)):
            if not matched:
                continue
            notification = notifications[row]
            for group in self._concerned(tuple(matched)):
                if composite[row] and notification.get("type") not in group.types:
                    continue
                key = group.key_of(notification)
                if key is not None:
                    at.append(row)
                    groups.append(group.number)
                    keys.append(key)
        return np.array(at, np.int64), np.array(groups, np.int32), np.array(keys, np.int64)

    def _route_columns(self, attributes: pa.RecordBatch) -> Routed:
        """The same for typed columns, without a look at any row; composites are never among them."""
        matches = self.engine.match_arrow(attributes)
        numbers = np.array(matches.ids, np.int64)[matches.ordinals]
        matching = np.repeat(np.arange(len(matches)), np.diff(matches.starts))
        routed = []
        for group in self.groups:
            rows = np.unique(matching[self._concerns[group.number][numbers]])
            at, keys = group.keys_in(attributes, rows)
            routed.append((at, np.full(len(at), group.number, np.int32), keys))
        at, groups, keys = (np.concatenate(each) for each in zip(*routed, strict=True))
        return at, groups, keys

    def place(self, state: pa.RecordBatch) -> tuple[list[int], list[int]]:
        """Which rows of what is in progress are this level's, and their groups."""
        numbers = [self.group_of.get(name) for name in state.column("automaton").to_pylist()]
        own = [(row, number) for row, number in enumerate(numbers) if number is not None]
        return [row for row, _ in own], [number for _, number in own]

    def _concerned(self, matched: tuple[int, ...]) -> tuple[_Group, ...]:
        """The groups that what matches these filters may concern."""
        plan = self._plans.get(matched)
        if plan is None:
            if len(self._plans) >= PORTION:
                self._plans.clear()
            found = dict.fromkeys(group for number in matched for group in self._interested[number])
            plan = self._plans[matched] = tuple(found)
        return plan


class _Row(NamedTuple):
    """A row for a key: something new or, under the name of an automaton, what that has in progress."""

    group: int
    key: int
    occurrence: Occurrence | None
    automaton: str | None = None
    alarm: int | None = None
    progress: str = ""

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands: what is in progress before all that is new."""
        return self.group, self.key, BEGINNING if self.occurrence is None else self.occurrence.end


def _occurrences(batch: pa.RecordBatch, notifications: Iterable[Notification]) -> Iterator[Occurrence]:
    """What is in the rows of the stream, at its places."""
    names = ("time", "start", "producer", "pattern", "sequence", "id")
    columns = (batch.column(name).to_pylist() for name in names)
    for notification, time, start, producer, pattern, sequence, id in zip(
        notifications, *columns, strict=True
    ):
        if start is None:
            yield Occurrence.of(notification, OrderKey(time, producer, sequence, id))
        else:
            yield Occurrence.composite(notification, start, time, pattern)


def _new_rows(batch: pa.RecordBatch) -> Iterator[_Row]:
    """Rows that come from the stream."""
    placed = (batch.column(name).to_pylist() for name in ("group", "key"))
    return map(_Row, *placed, _occurrences(batch, notifications_in(batch)))


def _old_rows(batch: pa.RecordBatch, groups: Iterable[int]) -> Iterator[_Row]:
    """Rows that were in progress, and their groups."""
    key, automaton, alarm, progress = (
        batch.column(name).to_pylist() for name in ("key", "automaton", "alarm", "progress")
    )
    return map(_Row, groups, key, repeat(None), automaton, alarm, progress)


def _told_apart(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The rows of the stream, and what is in progress."""
    if "automaton" not in batch.schema.names:
        return batch, None
    is_old = batch.column("automaton").is_valid()
    return batch.filter(pc.invert(is_old)), batch.filter(is_old)


class _Group:
    """The patterns of a level that are detected together, for one key after the other."""

    def __init__(
        self, number: int, same: tuple[str, ...], automata: Sequence[Automaton], patterns: Patterns
    ) -> None:
        self.number = number
        self.same = same
        self.automata = tuple(automata)
        self.types = frozenset(type for each in automata for type in each.types)
        self._patterns = patterns
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._detectors: dict[bool, Detector] = {}

    def filters(self) -> set[Filter]:
        """All that its atoms ask, and their domains."""
        return {
            filter
            for automaton in self.automata
            for atom in atoms(automaton.pattern.body)
            for filter in (atom.filter, atom.domain)
            if filter is not None
        }

    def key_of(self, notification: Notification) -> int | None:
        """A number that equal values share; None where the notification is in no stream of the group."""
        if not self.same:
            return 0
        values = [notification.get(name) for name in self.same]
        if any(value is ABSENT or kind_of(value) is Kind.NAN for value in values):
            return None
        key = tuple(map(key_of, values))
        number = self._numbers.get(key)
        if number is None:
            if len(self._numbers) >= KEYS_KEPT:
                self._numbers.clear()
            # The detector tells keys apart itself: two may well share a number.
            encoded = canonical({str(at): value for at, value in enumerate(values)})
            number = int.from_bytes(blake2b(encoded, digest_size=8).digest(), signed=True)
            self._numbers[key] = number
        return number

    def keys_in(self, attributes: pa.RecordBatch, rows: Ints) -> tuple[Ints, Ints]:
        """Those of some rows that are in a stream of the group, and their keys: `key_of` of each, by column."""
        if not self.same:
            return rows, np.zeros(len(rows), np.int64)
        some = attributes.take(pa.array(rows))
        if not all(
            name in some.schema.names and _is_plain(some.schema.field(name).type) for name in self.same
        ):
            firsts = every = np.arange(len(rows))
        else:
            codes = np.zeros(len(rows), np.int64)
            for name in self.same:
                encoded = some.column(name).dictionary_encode("encode")
                codes = codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy()
                _, codes = np.unique(codes, return_inverse=True)
            _, firsts, every = np.unique(codes, return_index=True, return_inverse=True)
        found = [self.key_of(each) for each in notifications_of(some.take(pa.array(firsts, pa.int64())))]
        there = np.array([key is not None for key in found], np.bool_)[every]
        keys = np.array([key or 0 for key in found], np.int64)[every]
        return rows[there], keys[there]

    def _detector(self, *, remembers: bool) -> Detector:
        """The detector, made once, without anything in progress."""
        detector = self._detectors.get(remembers)
        if detector is None:
            detector = self._detectors[remembers] = Detector(Columnar[int](), remembers=remembers)
            for automaton in self.automata:
                since: Rank = (automaton.since, BEGINNING, 0, "", False, 0, "")
                for number in automaton.asked:
                    detector.add(str(number), self._patterns.pattern(self._patterns.rows[number]), since)
        detector.clear()
        return detector

    def detect(self, rows: Iterable[_Row], bound: int, payload: bool) -> Iterator[dict[str, Any]]:
        """What is found in the rows of keys, which come one after the other, and what is left in progress."""
        detector = self._detector(remembers=bound != END)
        keys: dict[Rank, int] = {}
        for portion in _portions(rows):
            new = [(row.key, row.occurrence) for row in portion.rows if row.occurrence is not None]
            waking = {row.key for row in portion.rows if row.automaton is None or _rings(row, bound)}
            resumed = []
            for row in portion.rows:
                if row.automaton is None:
                    continue
                if portion.is_long or row.key in waking:
                    resumed.append(row)
                elif bound != END:
                    yield _in_progress(row.automaton, row.key, row.alarm, row.progress)
            if resumed:
                detector.resume(_joined(resumed, keys))
            for key, occurrence in new:
                keys[occurrence.rank] = key
                detector.feed(occurrence)
            if portion.goes_on:
                yield from self._composites(detector.advance(new[-1][1].end) if new else (), payload)
                continue
            yield from self._composites(detector.advance(bound), payload)
            if bound != END:
                yield from _left(detector.kept(), keys)
            detector.clear()
            keys.clear()

    def _composites(self, found: Iterable[Found], payload: bool) -> Iterator[dict[str, Any]]:
        """Composites that somebody asks for when they end, each once."""
        for rank, same in groupby(found, key=lambda each: each.composite.rank):
            several = list(same)
            composite = several[0].composite
            rows = [self._patterns.rows[int(id)] for each in several for id in each.ids]
            asked = sorted({(row.id, row.subscriber) for row in rows if composite.end < row.until})
            if asked:
                yield _told(composite, rank[-1], asked, payload)


class _Portion(NamedTuple):
    rows: list[_Row]
    is_long: bool = False
    """Whether all of it is of one key, of which there are more rows than are taken at a time."""
    goes_on: bool = False
    """Whether there is more of that key."""


def _portions(rows: Iterable[_Row]) -> Iterator[_Portion]:
    """Rows, of which those of a key come together, in portions: whole keys, or pieces of a long one."""
    whole: list[_Row] = []
    for _, run in groupby(rows, key=attrgetter("key")):
        take = partial(islice, run, PORTION)
        piece = list(take())
        if whole and len(whole) + len(piece) > PORTION:
            yield _Portion(whole)
            whole = []
        if len(piece) < PORTION:
            whole += piece
            continue
        while len(piece) == PORTION:
            yield _Portion(piece, is_long=True, goes_on=True)
            piece = list(take())
        yield _Portion(piece, is_long=True)
    if whole:
        yield _Portion(whole)


def _rings(row: _Row, bound: int) -> bool:
    return row.alarm is not None and row.alarm < bound


# -- in the worker: what is in progress --------------------------------------------------------------------


def _joined(rows: Iterable[_Row], keys: dict[Rank, int]) -> dict[str, Any]:
    """What rows have in progress as the state of one detector; the keys of what was seen are noted."""
    numbers: dict[Rank, int] = {}
    occurrences: list[Any] = []
    progress = []
    kept: dict[str, Any] = {}
    bound = BEGINNING
    for row in rows:
        kept = parse_json(row.progress)
        bound = max(bound, kept["bound"])
        own = []
        for each in kept["occurrences"]:
            rank: Any = tuple(each[0])
            keys[rank] = row.key
            number = numbers.setdefault(rank, len(occurrences))
            if number == len(occurrences):
                occurrences.append(each)
            own.append(number)
        progress += [{**each, "seen": [own[number] for number in each["seen"]]} for each in kept["progress"]]
    return {**kept, "bound": bound, "occurrences": occurrences, "progress": progress}


def _left(kept: Mapping[str, Any], keys: Mapping[Rank, int]) -> Iterator[dict[str, Any]]:
    """The state of a detector in rows: one for each automaton and key, with what that has seen."""
    occurrences = kept["occurrences"]
    for each in kept["progress"]:
        own = {number: place for place, number in enumerate(dict.fromkeys(each["seen"]))}
        alone = {
            **kept,
            "occurrences": [occurrences[number] for number in own],
            "progress": [{**each, "seen": [own[number] for number in each["seen"]]}],
        }
        automaton = f"{each['pattern']}@{each['since'][0]}"
        key = keys[tuple(occurrences[each["seen"][0]][0])]
        yield _in_progress(automaton, key, each["alarm"], format_json(alone))


def _in_progress(automaton: str, key: int, alarm: int | None, progress: str) -> dict[str, Any]:
    return {"automaton": automaton, "key": key, "alarm": alarm, "progress": progress}


# -- in the worker: what was found -------------------------------------------------------------------------


def _told(composite: Composite, id: str, asked: Iterable[tuple[str, str]], payload: bool) -> dict[str, Any]:
    """A composite as a row."""
    return {
        "time": composite.end,
        "producer": PRODUCER,
        "id": id,
        "event_time": composite.end,
        RECORD: encode(composite.notification()) if payload else None,
        "type": composite.type,
        "interval": {"start": composite.start, "end": composite.end},
        "constituents": [_named(*each) for each in composite.constituents],
        "pattern": composite.pattern.hash,
        "patterns": [{"id": name, "subscriber": subscriber} for name, subscriber in asked],
        "is_public": Question(composite.pattern).is_public,
    }


def _named(step: str, occurrence: Occurrence) -> dict[str, Any]:
    one = occurrence.notification
    time = None if one.time is None else one.time.microseconds
    return {"step": step, "producer": one.producer, "id": one.id, "time": time}


def _is_plain(type: pa.DataType) -> bool:
    """Whether equal values of a type are equal for Arrow, too."""
    return bool(pa.types.is_string(type) or pa.types.is_integer(type) or pa.types.is_boolean(type))


_WHOLE: Final = pa.int64()
_TEXT: Final = pa.string()
_ARROW: Final[dict[str, Any]] = {
    "bigint": _WHOLE,
    "string": _TEXT,
    "boolean": pa.bool_(),
    COMPOSITE["interval"]: pa.struct([("start", _WHOLE), ("end", _WHOLE)]),
    COMPOSITE["constituents"]: pa.list_(
        pa.struct([("step", _TEXT), ("producer", _TEXT), ("id", _TEXT), ("time", _WHOLE)])
    ),
    COMPOSITE["patterns"]: pa.list_(pa.struct([("id", _TEXT), ("subscriber", _TEXT)])),
}
_FOUND: Final = pa.schema([(name, _ARROW[type]) for name, type in FOUND.items()])


@dataclass(frozen=True, slots=True)
class Detecting:
    """Record batches of rows, by group and key, in; composites and what is in progress out."""

    level: Level
    bound: int
    payload: bool = True

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.found(chain.from_iterable(map(_rows_of, batches)))

    def found(self, rows: Iterable[_Row]) -> Iterator[pa.RecordBatch]:
        """What is found in rows that come by group, key and time."""
        compiled = _compiled(self.level)
        found = chain.from_iterable(
            compiled.groups[number].detect(own, self.bound, self.payload)
            for number, own in groupby(rows, key=attrgetter("group"))
        )
        while some := list(islice(found, ROWS)):
            yield pa.RecordBatch.from_pylist(some, _FOUND)


def _rows_of(batch: pa.RecordBatch) -> Iterable[_Row]:
    """The rows of a batch in which all has a group and a key, in the same order."""
    new, old = _told_apart(batch)
    if not old:
        return _new_rows(new)
    rows = [*_old_rows(old, old.column("group").to_pylist()), *_new_rows(new)]
    return sorted(rows, key=attrgetter("place"))  # of one key what is new comes by its time, and stays so


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Record batches of the stream, and of what is in progress, in; all is routed and detected here."""

    detecting: Detecting

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        compiled = _compiled(self.detecting.level)
        rows: list[_Row] = []
        for new, old in map(_told_apart, batches):
            rows += self._routed(compiled, new)
            if old:
                at, groups = compiled.place(old)
                rows += _old_rows(old.take(pa.array(at, pa.int64())), groups)
        return self.detecting.found(sorted(rows, key=attrgetter("place")))

    def _routed(self, compiled: _Compiled, batch: pa.RecordBatch) -> Iterator[_Row]:
        """What concerns somebody; a notification is made of a row once, however many groups it concerns."""
        notifications = None if ATTRIBUTES in batch.schema.names else notifications_in(batch)
        at, groups, keys = compiled.route(batch, notifications)
        own, place = np.unique(at, return_inverse=True)
        sent = batch.take(pa.array(own))
        taken = notifications_in(sent) if notifications is None else [notifications[row] for row in own]
        occurrences = list(_occurrences(sent, taken))
        return map(_Row, groups.tolist(), keys.tolist(), (occurrences[each] for each in place.tolist()))
