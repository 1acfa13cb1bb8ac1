"""The trace of a pipeline: what happened, as a table whose rows become files in the order of events.

    read(spark, path)        a trace in Parquet, each event with its place
    trace_of(notifications)  what happened in a micro-batch, each with its sort key
    write(trace, path)       sorted files of events

`fairlead.audit.parquet` has the columns. Nobody numbers the events of a trace from front to back, for that takes
one machine. They are sorted, and an event's place is the number of rows in the files before its own, by name,
and of those before it in its own file. What is sorted are notifications with their receivers: each becomes its
events, the publication and the notifications about it, once it stands in its place.

Within a micro-batch come, in the first one, the advertisements, then the subscriptions that end, those that
begin, then in the total order each publication with its notifications, then what was late, then the end. Across
micro-batches the directories' names decide.

Public composites are publications; they come behind what else was published at the instant where they end. Who
asked for their pattern has a subscription that is never ready: it is notified about such composites only, but
which of them the pattern finds for it is no filter's matter. What is for those only who asked for it is not in the
trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fairlead.audit.parquet import OPTIONAL, check_columns, table_of
from fairlead.audit.trace import (
    LANGUAGE_VERSION,
    SCOPES_VERSION,
    VERSION,
    Event,
    Language,
    ScopeChanged,
    event_to_json,
)
from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.errors import TraceRefused
from fairlead.model.encoding import format_json
from fairlead.spark.failures import reason
from fairlead.spark.frames import (
    ATTRIBUTES,
    KEY,
    MOVED,
    RECORD,
    encode,
    few_rows,
    notifications_in,
    payload_of,
)
from fairlead.spark.frames import VERSION as TAG
from fairlead.spark.matcher import RECEIVERS

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

__all__ = ["COLUMNS", "ORDER_KEY", "frame_of", "read", "trace_of", "write"]

ORDER_KEY: Final = "struct<time:bigint,producer:string,sequence:bigint,id:string>"

COLUMNS: Final = {
    "v": "int",
    "event": "string",
    "component": "string",
    "time": "bigint",
    "producer": "string",
    "sequence": "bigint",
    "id": "string",
    "event_time": "bigint",
    "record": "string",
    "subscription": "string",
    "advertisement": "string",
    "filter": "string",
    "from": ORDER_KEY,
    "until": ORDER_KEY,
    "ready": "boolean",
    "subscriptions": "array<string>",
    "change": "string",
    "about": "string",
    "version": "string",
}
"""The columns of a trace and their types."""

STARTS: Final = pa.schema([("file", pa.string()), ("start", pa.int64())])
SORT_KEY: Final = "sort_key"
SEEN: Final = "seen"
"""A row that is no event itself: those who were notified about a version are."""
RECEIVER: Final = "struct<subscriber:string,subscriptions:array<string>>"
# The phases of a micro-batch, in their order.
SPEAKING, ADVERTISING, UNSUBSCRIBING, SUBSCRIBING, DELIVERING, LATE, ENDING = range(7)


# -- reading and writing -----------------------------------------------------------------------------------


def read(spark: SparkSession, *paths: str) -> DataFrame:
    """A trace, with the index of each event beside its columns."""
    try:
        found = spark.read.option("recursiveFileLookup", "true").parquet(*paths)
        check_columns(found.columns, ", ".join(paths))
        for name in OPTIONAL.difference(found.columns):
            found = found.withColumn(name, F.lit(None).cast(COLUMNS[name]))
    except AnalysisException as error:
        raise TraceRefused(str(reason(error)).partition("\n")[0]) from None
    file, row = F.col("_metadata.file_path").alias("file"), F.col("_metadata.row_index").alias("row")
    # As many as there are files: the driver knows these anyway, and the events stay where they are.
    sizes = found.groupBy(file).count().orderBy("file").collect()
    starts = accumulate((size["count"] for size in sizes), initial=0)
    known = [(size["file"], start) for size, start in zip(sizes, starts, strict=False)]
    first = F.broadcast(few_rows(spark, known, STARTS))
    placed = found.select(*COLUMNS, file, row).join(first, "file")
    return placed.select((F.col("start") + F.col("row")).alias("index"), *COLUMNS)


def frame_of(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    """The trace of events in memory, with their indexes."""
    table = table_of(events)
    return spark.createDataFrame(table.append_column("index", pa.array(range(len(table)), pa.int64())))


def write(trace: DataFrame, path: str, files: int | None = None) -> None:
    """Write the events of `trace_of` as sorted files: as many as named, or as Spark thinks fit.

    More than one file takes a sample first, so what costs much to make should be persisted.
    """
    if files == 1:
        spread = trace.coalesce(1)  # no range, and so no sample; nor a shuffle
    else:
        spread = trace.repartitionByRange(files, SORT_KEY) if files else trace.repartitionByRange(SORT_KEY)
    _events_of(spread.sortWithinPartitions(SORT_KEY)).write.parquet(path)


def _events_of(sorted_rows: DataFrame) -> DataFrame:
    """The events of rows, in the order in which the rows stand: what each says, then who was notified about it."""
    nobody = F.lit(None).cast(RECEIVER)
    none = F.array().cast(f"array<{RECEIVER}>")
    receivers = F.coalesce(F.array_sort(RECEIVERS), none)
    own = F.when(F.col("event") == SEEN, none).otherwise(F.array(nobody))
    told = sorted_rows.withColumn("receiver", F.explode(F.concat(own, receivers)))
    about, whom = F.col("receiver").isNotNull(), F.col("receiver.subscriber")
    of_notify = {
        "v": F.col("v"),
        "event": F.lit("notify"),
        "component": whom,
        "producer": F.col("producer"),
        "id": F.col("id"),
        "subscriptions": F.col("receiver.subscriptions"),
        "time": F.when(F.col("event") == SEEN, F.col("time")),
        "version": F.col("version"),
    }
    nothing = F.lit(None)
    columns = [
        F.when(about, of_notify.get(name, nothing)).otherwise(F.col(name)).cast(type).alias(name)
        for name, type in COLUMNS.items()
    ]
    return told.select(*columns)


# -- the events of a micro-batch ---------------------------------------------------------------------------


def trace_of(
    notifications: DataFrame,
    *,
    subscribed: DataFrame | None = None,
    detecting: DataFrame | None = None,
    unsubscribed: DataFrame | None = None,
    advertised: DataFrame | None = None,
    late: DataFrame | None = None,
    final: bool = False,
    language: Language | None = None,
    scopes: Iterable[ScopeChanged] = (),
) -> DataFrame:
    """The trace of a micro-batch, each row with its sort key.

    `notifications` are those that were released, with their receivers; `subscribed` and `unsubscribed` are
    subscriptions that begin and end with this micro-batch, `detecting` those to what patterns find; `late` are
    notifications that came too late, and `final` says that nothing is left to deliver and nothing more comes.
    `language` is that of the filters, `scopes` the scope graph and its changes, `advertised` are the
    advertisements (producer, id, filter); the first micro-batch has all three.
    """
    spark = notifications.sparkSession
    parts = [
        None if language is None else _spoken(notifications.sparkSession, language),
        *(_scoped(spark, number, each) for number, each in enumerate(scopes)),
        None if advertised is None else _advertised(advertised),
        None if unsubscribed is None else _unsubscribed(unsubscribed),
        None if subscribed is None else _subscribed(subscribed, ready=True),
        None if detecting is None else _subscribed(detecting, ready=False),
        _published(notifications),
        None if late is None else _late(late),
        _ended(notifications.sparkSession) if final else None,
    ]
    return reduce(DataFrame.unionByName, (part for part in parts if part is not None))


def _advertised(advertisements: DataFrame) -> DataFrame:
    return _events(
        advertisements,
        "adv",
        ADVERTISING,
        component=F.col("producer"),
        advertisement=F.col("id"),
        filter=F.col("filter"),
        ready=F.lit(True),
    )


def _subscribed(subscriptions: DataFrame, *, ready: bool) -> DataFrame:
    return _events(
        subscriptions,
        "sub",
        SUBSCRIBING,
        component=F.col("subscriber"),
        subscription=_period(),
        filter=F.col("filter"),
        **{"from": _first_at(F.col("from"))},
        until=_first_at(F.col("until")),
        ready=F.lit(ready),
    )


def _unsubscribed(subscriptions: DataFrame) -> DataFrame:
    return _events(
        subscriptions,
        "unsub",
        UNSUBSCRIBING,
        component=F.col("subscriber"),
        subscription=_period(),
        until=_first_at(F.col("until")),
    )


def _period() -> Column:
    """A subscription in the trace: an id may be used again, so its beginning is part of the name."""
    return F.when(F.col("from").isNull(), F.col("id")).otherwise(F.concat_ws("@", "id", "from"))


def _published(notifications: DataFrame) -> DataFrame:
    columns = {name: F.col(name) for name in (*KEY, "event_time", RECORD)}
    if TAG not in notifications.columns:
        return _events(_recorded(notifications), "pub", DELIVERING, True, **columns)
    is_published = (F.col(TAG) == "") & ~F.col(MOVED)
    published = _events(notifications.where(is_published), "pub", DELIVERING, True, **columns)
    return published.unionByName(_seen(notifications.where(~is_published)))


def _seen(versions: DataFrame) -> DataFrame:
    """The versions that were not published themselves: mappings made them, or policies moved them."""
    given = {
        "producer": F.col("producer"),
        "id": F.col("id"),
        "time": F.when(F.col(MOVED), F.col("time")),
        TAG: F.when(F.col(TAG) != "", F.col(TAG)),
        "v": F.lit(SCOPES_VERSION),
    }
    return _events(versions, SEEN, DELIVERING, True, **given)


def _late(notifications: DataFrame) -> DataFrame:
    told = [
        name
        for name in ("source", "producer", "id", "digest", "event_time", "sequence")
        if name in notifications.columns
    ]
    about = F.to_json(F.struct(*told))
    return _events(notifications, "fault", LATE, change=F.lit("late"), about=about)


def _spoken(spark: SparkSession, language: Language) -> DataFrame:
    about = F.lit(format_json(event_to_json(language)["about"]))
    return _events(spark.range(1), "language", SPEAKING, about=about, v=F.lit(LANGUAGE_VERSION))


def _scoped(spark: SparkSession, number: int, event: ScopeChanged) -> DataFrame:
    """The scope graph, then its changes, in their order, behind the language."""
    told = {"change": F.lit(event.change), "about": F.lit(format_json(dict(event.about)))}
    return _events(
        spark.range(1), "scope", SPEAKING, v=F.lit(SCOPES_VERSION), component=F.lit(f"{number:08d}"), **told
    ).withColumn("component", F.lit(None).cast("string"))


def _ended(spark: SparkSession) -> DataFrame:
    return _events(spark.range(1), "end", ENDING)


def _events(frame: DataFrame, kind: str, phase: int, in_order: bool = False, /, **given: Column) -> DataFrame:
    """One event per row: what is given, null in the other columns, and where it is to stand.

    What is `in_order` stands in the total order, and has receivers.
    """
    nothing = F.lit(None)
    time, *others = ((F.col(name) if in_order else nothing).cast(COLUMNS[name]).alias(name) for name in KEY)
    behind = (others[0] == PRODUCER).alias("behind")
    whose = [
        given.get(name, nothing).cast("string").alias(name)
        for name in ("component", "subscription", "advertisement", "about", TAG)
    ]
    levels = (F.lit(phase).alias("phase"), time, behind, *others)
    sort_key = F.struct(*levels, *whose)
    given = {"v": F.lit(VERSION), **given, "event": F.lit(kind)}
    columns = [given.get(name, nothing).cast(type).alias(name) for name, type in COLUMNS.items()]
    receivers = (F.col(RECEIVERS) if in_order else nothing).cast(f"array<{RECEIVER}>").alias(RECEIVERS)
    return frame.select(sort_key.alias(SORT_KEY), *columns, receivers)


def _first_at(time: Column) -> Column:
    """The least order key of an order time."""
    key = F.struct(
        time.cast("bigint").alias("time"),
        F.lit("").alias("producer"),
        F.lit(None).cast("bigint").alias("sequence"),
        F.lit("").alias("id"),
    )
    return F.when(time.isNotNull(), key)


def _recorded(notifications: DataFrame) -> DataFrame:
    """Publications with their content as a record."""
    columns = (*KEY, "event_time", RECEIVERS)
    if payload_of(notifications) == RECORD:
        return notifications.select(*columns, RECORD)
    types = {**COLUMNS, RECEIVERS: f"array<{RECEIVER}>"}
    declared = ", ".join(f"{name} {types[name]}" for name in (*columns, RECORD))
    return notifications.select(*columns, ATTRIBUTES).mapInArrow(_encoded, declared)


def _encoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        records = pa.array(map(encode, notifications_in(batch)), pa.string())
        rest = batch.drop_columns([ATTRIBUTES])
        yield rest.append_column(RECORD, records)
