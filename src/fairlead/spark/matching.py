"""Matching on Spark: from a table of notifications to the deliveries they cause.

    a delivery (subscriber, n, ids)    iff    ids are those of the subscriber's subscriptions that n matches and
                                              whose validity contains n's order time, and there is at least one

The columnar engine runs inside an Arrow operator (see `matcher`). What leaves the worker is one row for each
notification that matches, with the list of those who get it: the content crosses the border once, and Spark makes
a row for each delivery. Subscriptions that are too large for one worker are spread by `placement`: each
notification then travels to those workers only whose subscriptions it can match.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import functions as F
from pyspark.sql import types as T

from fairlead.errors import PipelineError
from fairlead.spark.frames import ATTRIBUTES, DELIVERY, KEY, PUBLISHED, RECORD, VERSION, to_tasks
from fairlead.spark.matcher import MEMORY, PARTITION, RECEIVERS, TARGET, Matcher, Router
from fairlead.spark.parts import Part, located, table_of
from fairlead.spark.placement import ANYWHERE, Placement
from fairlead.spark.scoping import Plain, ScopeText
from fairlead.spark.sessions import is_remote
from fairlead.spark.subscriptions import Subscriptions, SubscriptionsInput

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from fairlead.filters import Schema

__all__ = [
    "deliveries_of",
    "evened",
    "keyed",
    "match",
    "matched",
    "narrowed",
    "pairs",
    "spread",
    "targets_of",
    "with_receivers",
]


# -- the stage ---------------------------------------------------------------------------------------------


def match(
    notifications: DataFrame,
    subscriptions: Subscriptions | SubscriptionsInput | DataFrame | Iterable[Mapping[str, Any]],
    *,
    schema: Schema | None = None,
    payload: bool = False,
    directory: str | Path | None = None,
    memory: int = MEMORY,
    ship: bool | None = None,
) -> DataFrame:
    """The deliveries of notifications: one row per subscriber and notification, with the ids that matched.

    `notifications` are those of `ingest` or `order`, or any table with an `id`: its columns are the attributes,
    null means absent, and `producer`, `time` and `sequence` are taken where they exist. With `payload` the
    content comes along. Subscriptions that are not compiled yet are compiled into `directory`. Compiled ones
    are shipped to workers that may not see the directory: by default to all but those of a local session.
    """
    compiled = subscriptions
    if not isinstance(compiled, Subscriptions):
        spark = notifications.sparkSession
        compiled = Subscriptions.read(compiled, directory or _temporary(), schema=schema, spark=spark)
    return _Plan.of(notifications, compiled, payload=payload, memory=memory, ship=ship).deliveries()


def matched(
    notifications: DataFrame, subscriptions: Subscriptions, *, payload: bool, scopes: ScopeText | None = None
) -> DataFrame:
    """All notifications of `order`, each with its receivers, of which there may be none.

    With `payload` their content comes along, and when they happened. `deliveries_of` makes the deliveries of it.
    With `scopes` those that filters alone decide about, each with the receivers that may see it.
    """
    plan = _Plan.of(notifications, subscriptions, payload=payload, memory=MEMORY, ship=None, scopes=scopes)
    if len(plan.targets) == 1:
        return plan.matched(every=True)
    rows = plan.rows
    if scopes is not None and not scopes.opened.is_filters_only:
        rows = rows.mapInArrow(Plain(scopes), rows.schema)
    return with_receivers(rows.select(*KEY, *plan.carried), plan.deliveries())


def targets_of(spark: SparkSession, subscriptions: Subscriptions) -> tuple[Subscriptions, ...]:
    """The subscriptions in portions that a worker can hold, for stages that match by themselves."""
    _ship(spark, subscriptions, None)
    return _targets(subscriptions, MEMORY)


def deliveries_of(
    matched: DataFrame, *, payload: bool, mask: Callable[[DataFrame], DataFrame] | None = None
) -> DataFrame:
    """A row for each subscriber of each notification; with `payload` the content as it was published, or as a
    `mask` leaves it."""
    content: list[str] = [name for name in (RECORD, ATTRIBUTES) if payload and name in matched.columns]
    if VERSION in matched.columns:
        content.insert(0, VERSION)
    texts = [PUBLISHED] if payload and PUBLISHED in matched.columns else []
    exploded = matched.select(*KEY, *content, *texts, F.explode(RECEIVERS).alias("receiver"))
    found = exploded.select("receiver.subscriber", *KEY, "receiver.subscriptions", *content, *texts)
    if mask is not None and payload:
        found = mask(found)
    if PUBLISHED in found.columns:
        found = found.withColumn(RECORD, F.coalesce(PUBLISHED, RECORD)).drop(PUBLISHED)
    return found


def with_receivers(notifications: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Notifications with identities, each with the receivers of its deliveries."""
    receivers = F.collect_list(F.struct("subscriber", "subscriptions")).alias(RECEIVERS)
    told = deliveries.groupBy("producer", "id").agg(receivers)
    nobody = F.array().cast(told.schema[RECEIVERS].dataType)
    joined = notifications.join(told, ["producer", "id"], "left")
    return joined.withColumn(RECEIVERS, F.coalesce(RECEIVERS, nobody))


@dataclass(frozen=True, slots=True)
class _Plan:
    """The plan of a match: the rows, the subscriptions, and the columns that are carried along."""

    rows: DataFrame
    names: tuple[str, ...]
    carried: tuple[str, ...]
    targets: tuple[Subscriptions, ...]
    placement: Placement
    memory: int
    scopes: ScopeText | None = None

    @classmethod
    def of(
        cls,
        notifications: DataFrame,
        subscriptions: Subscriptions,
        *,
        payload: bool,
        memory: int,
        ship: bool | None,
        scopes: ScopeText | None = None,
    ) -> _Plan:
        _ship(notifications.sparkSession, subscriptions, ship)
        named, is_whole = _attributes(subscriptions)
        whole = payload or scopes is not None  # interfaces look at other attributes
        rows, names = keyed(notifications, None if is_whole else named, whole)
        content = ("event_time", RECORD, PUBLISHED, ATTRIBUTES)
        carried = tuple(name for name in content if payload and name in rows.columns)
        targets = _targets(subscriptions, memory)
        placement = subscriptions.placement or Placement((), 1)
        return cls(rows, names, carried, targets, placement, memory, scopes)

    def deliveries(self) -> DataFrame:
        """A row for each subscriber of each notification that matches."""
        if len(self.targets) == 1:
            return deliveries_of(self.matched(), payload=True)
        partitions = int(self.rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
        copies = max(1, partitions // len(self.targets))
        buckets = tuple(frozenset(_buckets(target)) for target in self.targets)
        routed = T.StructType([*self.rows.schema.fields, _integer(TARGET), _integer(PARTITION)])
        sent = self.rows.mapInArrow(Router(self.placement, buckets, self.names, copies), routed)
        together = to_tasks(sent, len(self.targets) * copies, F.col(PARTITION))
        found = deliveries_of(replace(self, rows=together).matched(), payload=True)
        # A subscriber may have subscriptions in several parts; a notification is delivered to it once.
        ids = F.sort_array(F.array_distinct(F.flatten(F.collect_list("subscriptions"))))
        content = [name for name in found.columns if name not in DELIVERY]
        merged = found.groupBy(*DELIVERY[:-1]).agg(
            ids.alias("subscriptions"), *(F.first(name).alias(name) for name in content)
        )
        return merged.select(*DELIVERY, *content)

    def matched(self, *, every: bool = False) -> DataFrame:
        """The rows that match, or every one, with their receivers."""
        whole = ("time", "sequence")
        key = [T.StructField(name, T.LongType() if name in whole else T.StringType()) for name in KEY]
        ids = T.StructField("subscriptions", T.ArrayType(T.StringType()))
        receiver = T.StructType([T.StructField("subscriber", T.StringType()), ids])
        receivers = T.StructField(RECEIVERS, T.ArrayType(receiver))
        declared = T.StructType([*key, *(self.rows.schema[name] for name in self.carried), receivers])
        matcher = Matcher(self.targets, self.names, self.carried, self.memory, every, self.scopes)
        return self.rows.mapInArrow(matcher, declared)


def pairs(deliveries: DataFrame) -> DataFrame:
    """One row per matching subscription, in `subscription`."""
    others = [name for name in deliveries.columns if name != "subscriptions"]
    return deliveries.select(*others, F.explode("subscriptions").alias("subscription"))


def spread(frame: DataFrame, over: int) -> DataFrame:
    """The same rows over so many partitions, if now some partition has much more than its share.

    Looking costs a pass over the input, so this is for what is cheap to read: files, and what is persisted.
    """
    sizes = [row["count"] for row in frame.groupBy(F.spark_partition_id().alias("p")).count().collect()]
    return evened(frame, sizes, over)


def evened(frame: DataFrame, sizes: Sequence[int], over: int) -> DataFrame:
    """The same as `spread`, where it is known already how many rows each partition has."""
    lopsided = bool(sizes) and 2 * max(sizes) * over > 3 * sum(sizes)
    if not lopsided:
        return frame
    # By identity: Spark sorts all rows before it deals them out in turns.
    return frame.repartition(over, *(name for name in ("producer", "id") if name in frame.columns))


def _integer(name: str) -> T.StructField:
    return T.StructField(name, T.IntegerType())


# -- any table as notifications ----------------------------------------------------------------------------


def _attributes(subscriptions: Subscriptions) -> tuple[frozenset[str], bool]:
    """The attributes that filters name, and whether some filter looks at more than those."""
    tables = [table_of(part) for part in subscriptions.parts]
    names = frozenset(name for table in tables for name in table.attributes)
    return names, any(table.is_whole for table in tables)


def keyed(
    frame: DataFrame, attributes: frozenset[str] | None, payload: bool = False
) -> tuple[DataFrame, tuple[str, ...]]:
    """The order key and the content: the whole content, or a column for each attribute that filters
    name.

    These columns are numbered, for Spark takes a dot in a name for a path; the names are the second result.
    One struct would do, but a sixth of the way to the worker would be spent on making it.
    """
    columns = set(frame.columns)
    if {"producer", "id", "event_time"} <= columns and columns & {RECORD, ATTRIBUTES}:
        time = F.col("time") if "time" in columns else F.coalesce(F.col("event_time"), F.lit(0))
        key = [time.cast("bigint").alias("time"), F.col("producer"), F.col("sequence"), F.col("id")]
        if RECORD in columns:
            published = [F.col(PUBLISHED)] if payload and PUBLISHED in columns else []
            return frame.select(*key, F.col("event_time"), F.col(RECORD), *published), ()
        content = F.col(ATTRIBUTES)
        fields = {
            name: content.getField(name)
            for name in frame.schema[ATTRIBUTES].dataType.fieldNames()  # type: ignore[attr-defined]
        }
    else:
        key = _native_key(frame)
        fields = {name: _quoted(name) for name in frame.columns}
        content = F.struct(*fields.values()).alias(ATTRIBUTES)
    if payload:
        happened = [F.col("event_time")] if "event_time" in columns and ATTRIBUTES in columns else []
        return frame.select(*key, *happened, content), ()
    names = _projected(list(fields), attributes)
    numbered = (fields[name].alias(f"attribute{number}") for number, name in enumerate(names))
    return frame.select(*key, *numbered), tuple(names)


def narrowed(frame: DataFrame, attributes: frozenset[str] | None) -> Column:
    """The typed content of notifications: the columns with these attributes."""
    content = F.col(ATTRIBUTES)
    names = frame.schema[ATTRIBUTES].dataType.fieldNames()  # type: ignore[attr-defined]
    kept = _projected(names, attributes)
    if len(kept) == len(names):
        return content
    return F.struct(*(content.getField(name).alias(name) for name in kept)).alias(ATTRIBUTES)


def _projected(names: Sequence[str], attributes: frozenset[str] | None) -> list[str]:
    """The columns that the asked attributes are in; one at least, for rows without columns cannot be counted."""
    if attributes is None:
        return list(names)
    kept = [
        name
        for name in names
        if any(f"{each}.".startswith(f"{name}.") or name.startswith(f"{each}.") for each in attributes)
    ]
    return kept or list(names[:1])


def _quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _native_key(frame: DataFrame) -> list[Column]:
    """The order key of a user's own table: what is not there is empty, and no time is time 0."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    if "id" not in types:
        raise PipelineError(
            f"notifications without an id: the columns are {', '.join(types)}",
            hint="add one, or let `ingest` give one to each row",
        )

    def named(name: str) -> Column:
        _demand(name, types[name], (T.StringType, T.IntegralType), "a string or a whole number")
        return F.col(name).cast("string")

    time, producer, sequence = F.lit(0).cast("bigint"), F.lit(""), F.lit(None).cast("bigint")
    if "time" in types:
        _demand("time", types["time"], (T.TimestampType, T.IntegralType), "a timestamp or whole microseconds")
        given = F.col("time")
        micros = F.unix_micros(given) if isinstance(types["time"], T.TimestampType) else given.cast("bigint")
        time = F.coalesce(micros, time)
    if "producer" in types:
        producer = F.coalesce(named("producer"), producer)
    if "sequence" in types:
        _demand("sequence", types["sequence"], (T.IntegralType,), "a whole number")
        sequence = F.col("sequence").cast("bigint")
    return [
        time.alias("time"),
        producer.alias("producer"),
        sequence.alias("sequence"),
        named("id").alias("id"),
    ]


def _demand(name: str, given: T.DataType, wanted: tuple[type, ...], meaning: str) -> None:
    if not isinstance(given, wanted):
        raise PipelineError(
            f"the column {name!r} is {meaning}, not {given.simpleString()}",
            hint="cast it, or let `ingest` read the table",
        )


# -- shipping ----------------------------------------------------------------------------------------------

_SHIPPED: Final[WeakKeyDictionary[Any, set[str]]] = WeakKeyDictionary()


def _ship(spark: SparkSession, subscriptions: Subscriptions, ship: bool | None) -> None:
    """Give the files to workers that may not see them; names say the content, so nothing is sent twice."""
    if ship is None:
        ship = not (spark.conf.get("spark.master", "") or "").startswith("local") or is_remote(spark)
    if not ship:
        return
    sent = _SHIPPED.setdefault(spark, set())
    for name in subscriptions.files:
        if name not in sent:
            spark.addArtifacts(str(located(subscriptions.directory, name)), file=True)
            sent.add(name)


@cache
def _temporary() -> str:
    """The directory for subscriptions that were given without one: it goes with this process."""
    directory = tempfile.mkdtemp(prefix="fairlead-subscriptions-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


# -- targets -----------------------------------------------------------------------------------------------


def _targets(subscriptions: Subscriptions, memory: int) -> tuple[Subscriptions, ...]:
    """The subscriptions in portions that a worker can hold, placed ones apart from those that all must visit."""
    if subscriptions.size <= memory or len(subscriptions.parts) <= 1:
        return (subscriptions,)
    portions: list[list[Part]] = []
    for part in sorted(subscriptions.parts, key=lambda part: part.bucket):
        last = portions[-1] if portions else []
        fits = sum(each.size for each in last) + part.size <= memory
        if last and fits and (last[0].bucket == ANYWHERE) == (part.bucket == ANYWHERE):
            last.append(part)
        else:
            portions.append([part])
    return tuple(replace(subscriptions, parts=tuple(portion)) for portion in portions)


def _buckets(target: Subscriptions) -> Iterator[int]:
    return (part.bucket for part in target.parts)
