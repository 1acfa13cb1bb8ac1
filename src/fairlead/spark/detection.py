"""Detection on Spark: the composites of many patterns in an ordered stream of notifications.

Law: run batch by batch, with its state handed on, `detected` finds what one `QuerySet` finds that is fed the same
notifications: the same composites, and relations of fair subscriptions, to the byte, however the order was cut
into batches and partitions.

    stream ─▶ route ─▶ shuffle by (group, key) ─▶ detect ─▶ composites, and what is in progress
      ▲                       ▲                                  │              │
      │              what was in progress                        │              └─▶ the next batch
      └──────────── for the level above ◀────────────────────────┘

A **level** has the patterns that see no composites but those of the levels below. A **group** of it has patterns
with the same `same`: a notification goes to a group if an atom of it may take it, and there to the **key** that
its values give. Patterns without `same` see one stream; they are divided into several groups. So are conjunctions
of fair subscriptions, whose relations are seen above where they are public. Atoms are matched by the columnar
engine, in record batches; the group (see `groups`) runs over the rows of each key, with what was in progress for
it, and stays compiled for as long as the worker lives. Typed columns are routed as columns: they become
notifications where these are detected, and only those that concern somebody. Where there are few rows, one task
does all of it, and nothing is sent anywhere.

State is a table: for each automaton and key what was seen of the matches in progress, and when time alone would
change that. What has neither new notifications nor an alarm is carried over as it is, without being read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, groupby, islice, repeat
from operator import and_, attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from fairlead.correlation.patterns import Occurrence
from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.correlation.patterns.lines import NotComparable
from fairlead.filters import Filter
from fairlead.matching.columnar import Columnar
from fairlead.model import Notification
from fairlead.model.order import END, OrderKey
from fairlead.model.versions import VERSION_MARK
from fairlead.spark.beside import ANSWERED, SEERS, Answering, Beside, Watching
from fairlead.spark.frames import (
    ATTRIBUTES,
    KEY,
    MOVED,
    PUBLISHED,
    RANK,
    RECORD,
    VERSION,
    few_rows,
    notifications_in,
    payload_of,
    to_records,
)
from fairlead.spark.groups import RANK_TYPES, Group, Ints, PatternGroup, Row
from fairlead.spark.lines import Gathered, LineGroup, is_line, numbered, types_taken
from fairlead.spark.matcher import RECEIVERS
from fairlead.spark.matching import keyed, match, narrowed
from fairlead.spark.patterns import Automaton, Correlation, Patterns
from fairlead.spark.scoping import Components

if TYPE_CHECKING:
    from fairlead.filters import Schema
    from fairlead.spark.scoping import ScopeText
    from fairlead.spark.subscriptions import Subscriptions, SubscriptionsInput

__all__ = [
    "Begun",
    "Detected",
    "Detecting",
    "Level",
    "Placer",
    "Router",
    "detect",
    "detected",
    "detected_here",
    "stream_of",
]

ROWS: Final = 1_000
"""So many composites, or rows of state, make a record batch."""
PLANS_MAX: Final = 10_000
"""For so many sets of matching filters it is known whom they concern."""
LEVELS_MAX: Final = 32
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
"""The input of patterns: notifications and, with the start of their interval and their pattern,
composites."""
PROGRESS: Final = {"automaton": "string", "key": "bigint", "alarm": "bigint", "progress": "string"}
"""The progress of each automaton and key, and when time alone changes that: never, where it is null."""
FOLLOWS: Final = "follows"
ROUTED: Final = (
    T.StructField("group", T.IntegerType()),
    T.StructField("key", T.LongType()),
    T.StructField(FOLLOWS, T.BooleanType()),
)
"""The destination of what comes together for a key, and whether something new begins nothing but may go on
with what has begun; of what is in progress that is null."""
RANK_TYPE: Final = f"struct<{','.join(map(':'.join, RANK_TYPES.items()))}>"
"""The position of something at its instant, in the order in which Spark sorts it: what is null comes
first."""
COMPOSITE: Final = {
    **{name: STREAM[name] for name in (*KEY, "event_time", RECORD)},
    "type": "string",
    "interval": "struct<start:bigint,end:bigint>",
    "constituents": "array<struct<step:string,producer:string,id:string,time:bigint>>",
    "pattern": "string",
    "patterns": "array<struct<id:string,subscriber:string>>",
    "is_public": "boolean",
    RANK: RANK_TYPE,
}
"""Composites are notifications, and say beside their content what they are made of and who asked for them."""
DETECTED: Final = {**COMPOSITE, **PROGRESS}
LINE_ROWS: Final = (*KEY, "event_time")
"""The columns that lines look at beside attributes: events alone, so nothing has a start or a pattern."""
LINE_COMPOSITE: Final = tuple(name for name in COMPOSITE if name != "sequence")
"""The columns of composites of lines: up to the end of time, nothing stays in progress."""


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
    beside: Beside | None = None,
) -> Detected:
    """The composites of patterns in the next rows of the order, up to a bound; `state` has the partial matches
    before.

    Where both are `few`, one task does it all. Without `payload`, composites that no pattern sees have no content.
    `beside` has scopes, if there are some, and those who subscribe.
    """
    if not patterns:
        return Detected(())
    spark = notifications.sparkSession
    buckets = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    several = len(patterns.levels) > 1 or beside is not None
    # What is kept for the next batch, or seen by the level above, is whole.
    attributes = None if payload or several or bound != END else patterns.attributes
    stream = stream_of(notifications, several=several, attributes=attributes)
    if beside is not None:
        stream = _watched(stream, patterns, beside, bound)
    found: list[DataFrame] = []
    for number in range(len(patterns.levels)):
        level = Level(patterns, number, buckets, None if beside is None else beside.scopes)
        detecting = Detecting(level, bound, payload or number < len(patterns.levels) - 1)
        if (
            state is None
            and bound == END
            and not (few or several)
            and (same := _same_of_lines(patterns, stream)) is not None
        ):
            found.append(_lines_in(stream, same, types_taken(level.automata), detecting))
        elif few:
            together = stream if state is None else stream.unionByName(state, allowMissingColumns=True)
            found.append(together.coalesce(1).mapInArrow(AtOnce(detecting), _declared(DETECTED)))
        else:
            routed = _routed(stream, Router(level))
            if state is not None:
                routed = routed.unionByName(_routed(state, Placer(level)), allowMissingColumns=True)
            # Of one instant, what begins something comes before what may go on with it.
            ranked = routed.repartition("group", "key").sortWithinPartitions("group", "key", "time", FOLLOWS)
            found.append(ranked.mapInArrow(detecting, _declared(DETECTED)))
        if beside is not None:
            found[-1] = _answered(found[-1], patterns, beside, few=few)
            seen = found[-1].where(_is_composite() & (F.size(SEERS) > 0))
            above = seen.withColumns({"start": F.col(f"{RANK}.start"), "id": _version_id()})
            stream = stream.unionByName(above.select(*STREAM, SEERS))
        elif several:
            # Nobody sees a relation without a name but who asked for it.
            seen = _is_composite() & ((F.col("producer") == PRODUCER) | F.col("is_public"))
            composites = found[-1].where(seen).withColumn("start", F.col(f"{RANK}.start"))
            stream = stream.unionByName(composites.select(*STREAM))
    return Detected(tuple(found), few, any(row.choice for row in patterns.rows), beside is not None)


def _watched(stream: DataFrame, patterns: Patterns, beside: Beside, bound: int) -> DataFrame:
    """The versions of notifications that patterns look at, and notices of scopes that go."""
    watching = Watching(beside.scopes, patterns)
    columns = {**STREAM, SEERS: ANSWERED[SEERS]}
    seen = stream.select(*STREAM).mapInArrow(watching, _declared(columns))
    notices = [[row.get(name) for name in columns] for row in watching.notices(beside.since, bound)]
    if not notices:
        return seen
    schema = pa.schema([(name, _ARROW[type]) for name, type in columns.items()])
    return seen.unionByName(few_rows(stream.sparkSession, notices, schema))


def _answered(found: DataFrame, patterns: Patterns, beside: Beside, *, few: bool) -> DataFrame:
    """The findings of a level, each composite once, with those who get it and those who see it."""
    together = found.coalesce(1) if few else found.repartition(F.coalesce("id", "automaton"))
    answering = Answering(beside, patterns, _ANSWERED)
    columns = _declared({**DETECTED, **ANSWERED})
    return together.sortWithinPartitions("id").mapInArrow(answering, columns)


def _version_id() -> Any:
    """The id under which patterns take a version (`as_version`)."""
    return F.when(F.col(VERSION) == "", F.col("id")).otherwise(
        F.concat("id", F.lit(VERSION_MARK), F.col(VERSION))
    )


def detected_here(  # noqa: PLR0917  # the parts of a batch
    stream: pa.Table,
    patterns: Patterns,
    state: pa.Table,
    bound: int,
    buckets: int,
    beside: Beside | None = None,
) -> pa.Table:
    """The rows of `detected`, computed in this process where there are few: `DETECTED` of a table with the
    columns of `STREAM`.

    `buckets` are the partitions of a shuffle: what is in progress must come to the same groups by either path.
    """
    scopes = None if beside is None else beside.scopes
    seers = [] if beside is None else [_SEERS]
    together = pa.schema([*_STREAM, *seers, *(field for field in _DETECTED if field.name in PROGRESS)])
    if beside is not None:
        stream = _watched_here(_aligned(stream, _STREAM), patterns, beside, bound)
    stream, state = _aligned(stream, together), _aligned(state, together)
    made = _DETECTED if beside is None else _ANSWERED
    found = [made.empty_table()]
    for number in range(len(patterns.levels)):
        detect = AtOnce(Detecting(Level(patterns, number, buckets, scopes), bound))
        rows = pa.Table.from_batches(detect(pa.concat_tables([stream, state]).to_batches()), schema=_DETECTED)
        if beside is None:
            seen = pc.or_(pc.equal(rows.column("producer"), PRODUCER), rows.column("is_public"))
        else:
            answering = Answering(beside, patterns, _ANSWERED)
            rows = pa.Table.from_batches(answering(rows.sort_by("id").to_batches()), schema=_ANSWERED)
            seen = pc.greater(pc.list_value_length(rows.column(SEERS)), 0)
        found.append(rows)
        composites = rows.filter(pc.and_(rows.column("automaton").is_null(), seen.fill_null(False)))
        start = pc.struct_field(composites.column(RANK), "start")
        named = composites.select(
            [name for name in together.names if name in composites.column_names and name != "start"]
        )
        named = named.append_column("start", start)
        if beside is not None:
            named = _with_version_ids(named, composites.column(VERSION))
        stream = pa.concat_tables([stream, _aligned(named, together)])
    return pa.concat_tables(found)


def _watched_here(stream: pa.Table, patterns: Patterns, beside: Beside, bound: int) -> pa.Table:
    """The versions of notifications that patterns look at, and notices of scopes that go, in this process."""
    watching = Watching(beside.scopes, patterns)
    schema = pa.schema([*_STREAM, _SEERS])
    seen = pa.Table.from_batches(watching(stream.combine_chunks().to_batches()), schema=schema)
    notices = pa.Table.from_pylist(list(watching.notices(beside.since, bound)), schema=schema)
    return pa.concat_tables([seen, notices])


def _with_version_ids(rows: pa.Table, tags: pa.ChunkedArray) -> pa.Table:
    """The same with the ids under which patterns take versions (`as_version`)."""
    ids = rows.column("id")
    marked = pc.binary_join_element_wise(ids, pc.binary_join_element_wise(VERSION_MARK, tags, ""), "")
    at = rows.schema.get_field_index("id")
    return rows.set_column(at, "id", pc.if_else(pc.equal(tags, ""), ids, marked))


def _aligned(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table with the columns of a schema; those that it has not are null."""
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _same_of_lines(patterns: Patterns, stream: DataFrame) -> tuple[str, ...] | None:
    """The columns by whose values rows come together, where lines with one `same` are all that is asked for."""
    (automata,) = patterns.levels
    lines = [each for each in automata if isinstance(each, Automaton)]
    distinct = {each.pattern.same for each in lines}
    if ATTRIBUTES not in stream.columns or len(lines) < len(automata) or len(distinct) != 1:
        return None
    (same,) = distinct
    fields = _fields(stream)
    plain = T.StringType | T.IntegralType | T.BooleanType
    if not same or any(name.partition(".")[0] == "interval" for name in fields):
        return None
    if not all(isinstance(fields.get(name), plain) for name in same):
        return None
    return same if all(is_line(each, lines) for each in lines) else None


def _fields(stream: DataFrame) -> dict[str, T.DataType]:
    """The types of the attributes that are columns."""
    content = stream.schema[ATTRIBUTES].dataType
    return {each.name: each.dataType for each in content.fields} if isinstance(content, T.StructType) else {}


def _lines_in(
    stream: DataFrame, same: tuple[str, ...], types: frozenset[str] | None, detecting: Detecting
) -> DataFrame:
    """The composites of lines: Spark alone brings rows together, and Python sees them once.

    What is null in every row, on the way there and on the way back, is added where it costs nothing.
    """
    fields = _fields(stream)
    content = {name: F.col(f"{ATTRIBUTES}.`{name}`") for name in fields}
    asked = reduce(and_, (content[name].isNotNull() for name in same))
    if types is not None and isinstance(fields.get("type"), T.StringType):
        asked &= content["type"].isin(*sorted(types))
    numbered = {name: f"attribute{number}" for number, name in enumerate(fields)}
    rows = stream.where(asked).select(
        *LINE_ROWS, *(content[name].alias(column) for name, column in numbered.items())
    )
    keys = [numbered[name] for name in same]
    together = rows.repartition(*keys).sortWithinPartitions(*keys, "time")
    found = together.mapInArrow(
        Lines(detecting, tuple(fields)), _declared({name: DETECTED[name] for name in LINE_COMPOSITE})
    )
    return found.select(
        *(
            F.col(name) if name in LINE_COMPOSITE else F.lit(None).cast(type).alias(name)
            for name, type in DETECTED.items()
        )
    )


def _routed(frame: DataFrame, where: Router | Placer) -> DataFrame:
    """The rows of a frame, each where it goes."""
    columns = [each for each in ROUTED if each.name not in frame.columns]
    return frame.mapInArrow(where, T.StructType([*columns, *frame.schema]))


@dataclass(frozen=True, slots=True)
class Detected:
    """Composites, and partial matches. `persist` it where more than one frame is used."""

    levels: tuple[DataFrame, ...]
    """The composites of the patterns of each level; nothing, where there are none."""
    few: bool = False
    """Whether one task is enough for what is done with it."""
    related: bool = False
    """Whether there may be relations: they stand between what else is delivered at an instant."""
    answered: bool = False
    """Whether composites have those who get them beside them, each version in a row: there are scopes."""

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
        """The composites, each once."""
        found = self.rows.where(_is_composite())
        return (found.where(F.col(VERSION) == "") if self.answered else found).select(*COMPOSITE)

    @property
    def counted(self) -> DataFrame:
        """Composites and what is in progress, each once."""
        return self.rows.where(~_is_composite() | (F.col(VERSION) == "")) if self.answered else self.rows

    @property
    def public(self) -> DataFrame:
        """The versions of public composites, where there are scopes, each with those who get it."""
        found = self.rows.where(_is_composite() & F.col("is_public"))
        return found.select(*KEY, "event_time", RECORD, VERSION, F.lit(False).alias(MOVED), RECEIVERS)

    @property
    def state(self) -> DataFrame:
        """The partial matches that the next batch begins with."""
        return self.rows.where(~_is_composite()).select(*PROGRESS)

    def joining(
        self,
        matches: DataFrame,
        subscriptions: Subscriptions,
        *,
        payload: bool,
        mask: Callable[[DataFrame], DataFrame] | None = None,
    ) -> DataFrame:
        """The deliveries of notifications together with those of composites, as a `mask` leaves them."""
        if not self.levels:
            return matches
        answers = self.answers(subscriptions, payload=payload)
        if self.answered and VERSION not in matches.columns:
            answers = answers.drop(VERSION)
        if mask is not None and payload:
            answers = mask(answers).drop(PUBLISHED)
        key = {name: F.col(name) for name in KEY[1:]} if self.related else {}
        rank = F.struct(*(key.get(name, F.lit(None)).alias(name) for name in RANK_TYPES)).cast(RANK_TYPE)
        return matches.withColumn(RANK, rank).unionByName(answers)

    def answers(self, subscriptions: Subscriptions, *, payload: bool = False) -> DataFrame:
        """The deliveries of composites: to the subscribers of their patterns and, if they are public, to matching
        subscriptions.

        One for each subscriber, as of any notification, with the place that it has among those of an instant.
        """
        content = [RECORD] if payload else []
        if self.answered:
            made = self.rows.where(_is_composite())
            told = made.select(*KEY, VERSION, *content, RANK, F.explode(RECEIVERS).alias("receiver"))
            return told.select("receiver.*", *KEY, VERSION, *content, RANK)
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
        return merged.join(self.nearby(found.select("id", RANK)), "id")

    def nearby(self, composites: DataFrame) -> DataFrame:
        """Composites, to be joined with: where they are few, each task gets them all. (Spark cannot know.)"""
        return F.broadcast(composites) if self.few else composites


def _is_composite() -> Any:
    return F.col("automaton").isNull()


def stream_of(
    notifications: DataFrame, *, several: bool, attributes: frozenset[str] | None = None
) -> DataFrame:
    """Notifications with what composites have beside them; as records, where they are to meet these.

    Of typed columns those come along that are asked about, where it is said which.
    """
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
        F.col(RECORD) if payload_of(given) == RECORD else narrowed(given, attributes),
    )


# -- in the worker: what goes where ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Level:
    """Patterns that are detected together, and over how many groups those are spread that see one stream."""

    patterns: Patterns
    number: int
    buckets: int
    scopes: ScopeText | None = None
    """The scopes that say what the components which ask see."""

    @property
    def automata(self) -> list[Automaton]:
        """Its patterns; fair subscriptions are none."""
        return [each for each in self.patterns.levels[self.number] if isinstance(each, Automaton)]


Routed: TypeAlias = tuple[Ints, Ints, Ints, NDArray[np.bool_]]
"""Rows, and for each its group and key, and whether it follows; one of several groups comes once for each."""


@dataclass(frozen=True, slots=True)
class Router:
    """Record batches of the stream in; out goes what concerns a group, once for each, with its key there."""

    level: Level

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        compiled = _compiled(self.level)
        for batch in batches:
            yield _sent(batch, *compiled.route(batch, scopes=self.level.scopes))


@dataclass(frozen=True, slots=True)
class Placer:
    """Record batches of what is in progress in; out goes what is this level's, with its group."""

    level: Level

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        compiled = _compiled(self.level)
        for batch in batches:
            at, groups = compiled.assign(batch)
            assigned = batch.take(pa.array(at, pa.int64()))
            added = [pa.array(groups, pa.int32()), pa.nulls(len(at), pa.bool_())]
            yield _widened(assigned, added, ("group", FOLLOWS))


def _sent(
    batch: pa.RecordBatch, at: Ints, groups: Ints, keys: Ints, follows: NDArray[np.bool_]
) -> pa.RecordBatch:
    sent = batch.take(pa.array(at, pa.int64()))
    added = [pa.array(groups, pa.int32()), pa.array(keys, pa.int64()), pa.array(follows, pa.bool_())]
    return _widened(sent, added, ("group", "key", FOLLOWS))


def _widened(batch: pa.RecordBatch, added: Sequence[pa.Array], names: Sequence[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*added, *batch.columns], [*names, *batch.schema.names])


# -- in the worker: patterns, compiled ---------------------------------------------------------------------

_LEVELS: Final[OrderedDict[tuple[str, int, int], _Compiled]] = OrderedDict()
"""They outlive tasks: Spark keeps its Python workers."""


def _compiled(level: Level) -> _Compiled:
    key = level.patterns.fingerprint, level.number, level.buckets
    found = _LEVELS.get(key)
    if found is None:
        while len(_LEVELS) >= LEVELS_MAX:
            _LEVELS.popitem(last=False)
        found = _LEVELS[key] = _Compiled(level)
    _LEVELS.move_to_end(key)
    return found


class _Compiled:
    """A level of patterns: its groups, and the engine that tells whom of them a notification may concern."""

    def __init__(self, level: Level) -> None:
        level.patterns.load()
        members: dict[tuple[str, tuple[str, ...], int, bool], list[Automaton]] = {}
        automata = level.automata
        related: dict[tuple[str, int], list[Correlation]] = {}
        for each in level.patterns.levels[level.number]:
            # By what it looks for: from whichever place on, the same composite is found in one group.
            if isinstance(each, Correlation):
                bucket = crc32(each.conjunction.text.encode()) % level.buckets
                related.setdefault((each.component, bucket), []).append(each)
            else:
                same = each.pattern.same
                bucket = 0 if same else crc32(each.pattern.hash.encode()) % level.buckets
                place = each.component, same, bucket, is_line(each, automata)
                members.setdefault(place, []).append(each)
        fair: list[Group] = []
        if related:
            from fairlead.spark.relations import RelationGroup

            fair += [
                RelationGroup(number, related[place], level.patterns)
                for number, place in enumerate(sorted(related), len(members))
            ]
        self.groups: tuple[Group, ...] = (
            *(
                (LineGroup if place[-1] else PatternGroup)(number, place[1], members[place], level.patterns)
                for number, place in enumerate(sorted(members))
            ),
            *fair,
        )
        self.group_of = {name: group.number for group in self.groups for name in group.names}
        self.engine: Columnar[int] = Columnar()
        self._interested: list[list[Group]] = []
        self.numbers: dict[Filter, int] = {}
        numbers = self.numbers
        for group in self.groups:
            for filter in group.filters():
                number = numbers.setdefault(filter, len(numbers))
                if number == len(self._interested):
                    self.engine.add(number, filter)
                    self._interested.append([])
                self._interested[number].append(group)
        self._plans: dict[tuple[int, ...], tuple[tuple[Group, bool], ...]] = {}
        self._concerns = np.zeros((len(self.groups), len(numbers)), np.bool_)
        self._begins = np.zeros((len(self.groups), len(numbers)), np.bool_)
        for group in self.groups:
            self._concerns[group.number, [numbers[filter] for filter in group.filters()]] = True
            self._begins[group.number, [numbers[filter] for filter in group.beginnings()]] = True
        self.windows = np.array([group.window for group in self.groups], np.int64)
        names = sorted({group.component for group in self.groups})
        self._components = Components(pa.array(names, pa.string()))
        self._names = names
        self._whose = np.array([names.index(group.component) for group in self.groups], np.int64)

    # -- what goes where

    def route(
        self,
        batch: pa.RecordBatch,
        notifications: Sequence[Notification] | None = None,
        scopes: ScopeText | None = None,
    ) -> Routed:
        """The rows of the stream that concern each group, and their keys there.

        With scopes, of rows that say who sees them these groups' components alone; of others those who may.
        """
        if ATTRIBUTES in batch.schema.names:
            return self._route_columns(pa.RecordBatch.from_struct_array(batch.column(ATTRIBUTES)))
        notifications = notifications_in(batch) if notifications is None else notifications
        composite = batch.column("start").is_valid().to_pylist()
        at, groups, keys, follows = [], [], [], []
        for row, matched in enumerate(self.engine.match_batch(notifications)):
            if not matched:
                continue
            notification = notifications[row]
            for group, behind in self._concerned(tuple(matched)):
                if composite[row] and notification.get("type") not in group.types:
                    continue
                key = group.key_of(notification)
                if key is not None:
                    at.append(row)
                    groups.append(group.number)
                    keys.append(key)
                    follows.append(behind)
        ints = np.array(at, np.int64), np.array(groups, np.int32), np.array(keys, np.int64)
        behinds = np.array(follows, np.bool_)
        if scopes is None:
            return *ints, behinds
        seen = self._sees(batch, notifications, scopes, ints[0], self._whose[ints[1]])
        return ints[0][seen], ints[1][seen], ints[2][seen], behinds[seen]

    def _sees(
        self,
        batch: pa.RecordBatch,
        notifications: Sequence[Notification],
        scopes: ScopeText,
        rows: Ints,
        whose: Ints,
    ) -> NDArray[np.bool_]:
        """Of each pair of a row and a component, whether this one sees it."""
        seen = np.zeros(len(rows), np.bool_)
        column = batch.column(SEERS)
        told = np.array(column.is_valid().to_pylist(), np.bool_)
        named = [None if each is None else {*each} for each in column.to_pylist()]
        for pair in np.flatnonzero(told[rows]).tolist():
            seers = named[rows[pair]]
            seen[pair] = seers is not None and self._names[whose[pair]] in seers
        open = np.flatnonzero(~told)
        pairs = np.flatnonzero(~told[rows])
        if len(pairs):
            own = [notifications[row] for row in open.tolist()]
            view = scopes.opened.visibility(batch.take(pa.array(open)), None, own)
            at = np.searchsorted(open, rows[pairs]).astype(np.int64)
            seen[pairs] = view.sees(at, self._components, whose[pairs].astype(np.int64))
        return seen

    def _route_columns(self, attributes: pa.RecordBatch) -> Routed:
        """The same for typed columns, without a look at any row; composites are never among them."""
        matches = self.engine.match_arrow(attributes)
        numbers = np.array(matches.ids, np.int64)[matches.ordinals]
        matching = np.repeat(np.arange(len(matches)), np.diff(matches.starts))
        routed = []
        for group in self.groups:
            rows = np.unique(matching[self._concerns[group.number][numbers]])
            at, keys = group.keys_in(attributes, rows)
            follows = np.ones(len(matches), np.bool_)
            follows[matching[self._begins[group.number][numbers]]] = False
            routed.append((at, np.full(len(at), group.number, np.int32), keys, follows[at]))
        at, groups, keys, behind = (np.concatenate(each) for each in zip(*routed, strict=True))
        return at, groups, keys, behind

    def assign(self, state: pa.RecordBatch) -> tuple[list[int], list[int]]:
        """The rows in progress that are this level's, and their groups."""
        numbers = [self.group_of.get(name) for name in state.column("automaton").to_pylist()]
        own = [(row, number) for row, number in enumerate(numbers) if number is not None]
        return [row for row, _ in own], [number for _, number in own]

    def _concerned(self, matched: tuple[int, ...]) -> tuple[tuple[Group, bool], ...]:
        """The groups that what matches these filters may concern, and whether it begins nothing there."""
        plan = self._plans.get(matched)
        if plan is None:
            if len(self._plans) >= PLANS_MAX:
                self._plans.clear()
            found = dict.fromkeys(group for number in matched for group in self._interested[number])
            some = list(matched)
            plan = tuple((group, not self._begins[group.number, some].any()) for group in found)
            self._plans[matched] = plan
        return plan


def _occurrences(batch: pa.RecordBatch, notifications: Iterable[Notification]) -> Iterator[Occurrence]:
    """The occurrences in the rows of the stream, at their places."""
    names = ("time", "start", "producer", "pattern", "sequence", "id")
    columns = (batch.column(name).to_pylist() for name in names)
    for notification, time, start, producer, pattern, sequence, id in zip(
        notifications, *columns, strict=True
    ):
        if start is None:
            yield Occurrence.of(notification, OrderKey(time, producer, sequence, id))
        else:
            yield Occurrence.composite(notification, start, time, pattern)


def _new_rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """Rows that come from the stream."""
    columns = (batch.column(name).to_pylist() for name in ("group", "key"))
    return map(Row, *columns, _occurrences(batch, notifications_in(batch)))


def _old_rows(batch: pa.RecordBatch, groups: Iterable[int]) -> Iterator[Row]:
    """Rows that were in progress, and their groups."""
    key, automaton, alarm, progress = (
        batch.column(name).to_pylist() for name in ("key", "automaton", "alarm", "progress")
    )
    return map(Row, groups, key, repeat(None), automaton, alarm, progress)


def _split(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The rows of the stream, and what is in progress."""
    if "automaton" not in batch.schema.names:
        return batch, None
    is_old = batch.column("automaton").is_valid()
    return batch.filter(pc.invert(is_old)), batch.filter(is_old)


_WHOLE: Final = pa.int64()
_TEXT: Final = pa.string()
_ARROW_PLAIN: Final = {"bigint": _WHOLE, "string": _TEXT, "boolean": pa.bool_()}
_ARROW: Final[dict[str, Any]] = {
    **_ARROW_PLAIN,
    COMPOSITE["interval"]: pa.struct([("start", _WHOLE), ("end", _WHOLE)]),
    COMPOSITE["constituents"]: pa.list_(
        pa.struct([("step", _TEXT), ("producer", _TEXT), ("id", _TEXT), ("time", _WHOLE)])
    ),
    ANSWERED[SEERS]: pa.list_(_TEXT),
    ANSWERED[RECEIVERS]: pa.list_(pa.struct([("subscriber", _TEXT), ("subscriptions", pa.list_(_TEXT))])),
    COMPOSITE["patterns"]: pa.list_(pa.struct([("id", _TEXT), ("subscriber", _TEXT)])),
    RANK_TYPE: pa.struct([(name, _ARROW_PLAIN[type]) for name, type in RANK_TYPES.items()]),
}
_STREAM: Final = pa.schema([(name, _ARROW[type]) for name, type in STREAM.items()])
_DETECTED: Final = pa.schema([(name, _ARROW[type]) for name, type in DETECTED.items()])
_ANSWERED: Final = pa.schema([(name, _ARROW[type]) for name, type in {**DETECTED, **ANSWERED}.items()])
_SEERS: Final = _ANSWERED.field(SEERS)


@dataclass(frozen=True, slots=True)
class Detecting:
    """Record batches of rows, by group and key, in; composites and what is in progress out."""

    level: Level
    bound: int
    payload: bool = True

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun = Begun(_compiled(self.level).windows)
        sifted = map(begun.sift, batches)
        if self.bound != END:
            yield from self.composites(chain.from_iterable(map(_rows_of, sifted)))
            return
        for group, several in _by_group(sifted):
            yield from self.composites_in(group, several)

    def composites_in(self, number: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The composites in the rows of a group up to the end of time: over columns, if that is possible."""
        group = _compiled(self.level).groups[number]
        batches = iter(batches)
        first = next(batches, None)
        if first is None:
            return
        batches = chain((first,), batches)
        is_old = "automaton" in first.schema.names
        if is_old or not group.accepts(first):
            yield from self.composites(chain.from_iterable(map(_rows_of, batches)))
            return
        gathered = Gathered()
        for batch in batches:
            if (rows := gathered.add(batch)) is not None:
                yield from self._over_columns(group, rows)
            if gathered.is_long:
                rest = chain((gathered.rest(),), batches)
                yield from self.composites(
                    chain.from_iterable(_rows_of(each) for each in rest if each is not None)
                )
                return
        if (rows := gathered.rest()) is not None:
            yield from self._over_columns(group, rows)

    def _over_columns(self, group: Group, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        compiled = _compiled(self.level)
        try:
            for composites in group.composites_in(rows, compiled.engine, compiled.numbers, self.payload):
                if isinstance(composites, list):
                    yield pa.RecordBatch.from_pylist(composites, _DETECTED)
                else:
                    yield _filled(composites)
        except NotComparable:
            yield from self.composites(_rows_of(rows))

    def composites(self, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
        """The composites in rows that are sorted by group, key and time."""
        compiled = _compiled(self.level)
        composites = chain.from_iterable(
            compiled.groups[number].detect(own, self.bound, self.payload)
            for number, own in groupby(rows, key=attrgetter("group"))
        )
        while some := list(islice(composites, ROWS)):
            yield pa.RecordBatch.from_pylist(some, _DETECTED)


@dataclass(frozen=True, slots=True)
class Lines:
    """Record batches of the stream, by the values of `same` and by time, in; the composites of lines out."""

    detecting: Detecting
    attributes: tuple[str, ...]
    """The names of the columns behind `LINE_ROWS`."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        (group,) = _compiled(self.detecting.level).groups
        rows = numbered(map(self._whole, batches), group.same)
        found = self.detecting.composites_in(group.number, (_grouped(each, group.number) for each in rows))
        return (each.select(LINE_COMPOSITE) for each in found)

    def _whole(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of the stream, of rows that Spark has sent without what is null in all of them."""
        given = [batch.column(name) for name in LINE_ROWS]
        content = pa.StructArray.from_arrays(batch.columns[len(given) :], names=self.attributes)
        absent = pa.nulls(batch.num_rows, _WHOLE), pa.nulls(batch.num_rows, _TEXT)
        return pa.RecordBatch.from_arrays(
            [*given, *absent, content], names=[*LINE_ROWS, "start", "pattern", ATTRIBUTES]
        )


def _grouped(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    return _widened(batch, [pa.repeat(pa.scalar(number, pa.int32()), batch.num_rows)], ["group"])


def _by_group(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """Record batches that come by group, cut where the group changes, those of each group together."""

    def cut() -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in batches:
            groups = batch.column("group").to_numpy()
            begins = [0, *(np.flatnonzero(groups[1:] != groups[:-1]) + 1).tolist()] if len(groups) else []
            for begin, end in zip(begins, [*begins[1:], len(groups)], strict=False):
                yield int(groups[begin]), batch.slice(begin, end - begin)

    for group, several in groupby(cut(), key=itemgetter(0)):
        yield group, (batch for _, batch in several)


def _filled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A record batch with all columns of what is found; those that it has not are null."""
    return pa.RecordBatch.from_arrays([_column(batch, field) for field in _DETECTED], schema=_DETECTED)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(field.name)
    if not pa.types.is_struct(field.type):
        return column.cast(field.type)
    own = {each.name: column.field(each.name) for each in column.type}
    parts = [own.get(each.name, pa.nulls(batch.num_rows, each.type)) for each in field.type]
    return pa.StructArray.from_arrays(parts, fields=list(field.type))


class Begun:
    """The windows that are open, along rows that are sorted by group, key and time. Rows outside of all of them
    can be dropped.

    A match begins with something, and all that it takes or fails on comes within its window behind that (or, where
    a key has something in progress, at any time). To leave the others out is cheap while they are columns.
    """

    def __init__(self, windows: Ints) -> None:
        self._windows = windows
        self._last = (-1, 0, 0)
        """The group, key and time of the last that began something."""
        self._held = (-1, 0)
        """The last group and key with something in progress."""

    def sift(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that may concern somebody."""
        if not batch.num_rows:
            return batch
        columns = (batch.column(name).fill_null(0) for name in ("group", "key", "time"))
        group, key, time = (
            np.concatenate(([before], column)) for before, column in zip(self._last, columns, strict=True)
        )
        follows = batch.column(FOLLOWS)
        begins = np.concatenate(([True], pc.invert(follows.fill_null(True))))
        held = np.concatenate(([True], follows.is_null()))
        positions = np.arange(len(group))
        last = np.maximum.accumulate(np.where(begins, positions, 0))
        is_within = (group == group[last]) & (key == key[last]) & (time - time[last] <= self._windows[group])
        last_held = np.maximum.accumulate(np.where(held, positions, 0))
        whose, of = (
            np.concatenate(([before], column[1:]))[last_held]
            for before, column in zip(self._held, (group, key), strict=True)
        )
        is_held = (group == whose) & (key == of)
        self._last = group[last[-1]], key[last[-1]], time[last[-1]]
        self._held = whose[-1], of[-1]
        return batch.filter(pa.array((is_within | is_held)[1:]))


def _rows_of(batch: pa.RecordBatch) -> Iterable[Row]:
    """The rows of a batch in which all has a group and a key, in the same order."""
    new, old = _split(batch)
    if not old:
        return _new_rows(new)
    rows = [*_old_rows(old, old.column("group").to_pylist()), *_new_rows(new)]
    return sorted(rows, key=attrgetter("sort_key"))  # of one key what is new comes by its time, and stays so


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Record batches of the stream, and of what is in progress, in; all is routed and detected here."""

    detecting: Detecting

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        compiled = _compiled(self.detecting.level)
        rows: list[Row] = []
        for new, old in map(_split, batches):
            rows += self._routed(compiled, new)
            if old:
                at, groups = compiled.assign(old)
                rows += _old_rows(old.take(pa.array(at, pa.int64())), groups)
        return self.detecting.composites(sorted(rows, key=attrgetter("sort_key")))

    def _routed(self, compiled: _Compiled, batch: pa.RecordBatch) -> Iterator[Row]:
        """The rows that concern somebody; a notification is made of a row once, however many groups it
        concerns.
        """
        notifications = None if ATTRIBUTES in batch.schema.names else notifications_in(batch)
        at, groups, keys, _ = compiled.route(batch, notifications, self.detecting.level.scopes)
        own, inverse = np.unique(at, return_inverse=True)
        sent = batch.take(pa.array(own))
        taken = notifications_in(sent) if notifications is None else [notifications[row] for row in own]
        occurrences = list(_occurrences(sent, taken))
        return map(Row, groups.tolist(), keys.tolist(), (occurrences[each] for each in inverse.tolist()))
