"""Deliver: one row per subscriber and notification, per subscriber in the one total order.

All deliveries of a subscriber are in one bucket, and in order within a batch's files; batches follow one
another in the order. So whoever reads a bucket batch by batch reads every subscriber's deliveries in order.

| sink       | where                                    | after a crash                      |
| ---------- | ---------------------------------------- | ---------------------------------- |
| `parquet`  | files, by batch and bucket               | each once                          |
| `json`     | the same as JSON lines                   | each once                          |
| `table`    | a table of Spark's, by batch             | each once: a batch replaces itself |
| `delta`, `iceberg`, `postgres` | a table      | each once, in transactions         |
| `kafka`    | a topic, by subscriber                   | each once, in transactions         |
| `callback` | a Python function, with rows and batch   | at least once, the batch told      |
| any other  | `df.write.format(…)`, appended           | at least once, the batch told      |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import repeat
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import functions as F
from pyspark.sql import types as T

from fairlead.delivery import DeliveryRecord
from fairlead.errors import PipelineError
from fairlead.model.order import OrderKey
from fairlead.spark.failures import reason
from fairlead.spark.frames import (
    ATTRIBUTES,
    DELIVERY,
    RANK,
    RECORD,
    VERSION,
    bucket_of,
    ranked,
    records_in,
    to_tasks,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "FILES",
    "Callback",
    "Lines",
    "attributes_in",
    "callback_named",
    "check_format",
    "check_table",
    "deliver",
    "lines",
    "replace_partition",
    "send",
    "write_files",
]

UNKNOWN_FORMAT: Final = r"Failed to find (?:the )?data source"
FILES: Final = ("json", "parquet")
"""The sinks that are files below the output."""

Callback = Callable[["DataFrame", int], object]


def deliver(matches: DataFrame, buckets: int = 16, tasks: int | None = None) -> DataFrame:
    """The matches as they are delivered: in buckets by subscriber, each subscriber's in the total order.

    By default there are so many tasks that every core has one: a bucket is divided among several, by subscriber,
    where there are fewer buckets than cores. A bucket goes to its task by its number, for hashing would bring
    several buckets together and leave other tasks without one.
    """
    spark = matches.sparkSession
    over = tasks or max(buckets, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
    shares = -(-over // buckets)
    bucketed = matches.withColumn("bucket", bucket_of(F.col("subscriber"), buckets))
    share = F.pmod(F.xxhash64("subscriber"), F.lit(shares)).cast("int")
    task = F.col("bucket") * shares + share if shares > 1 else F.pmod("bucket", F.lit(over))
    sent = to_tasks(bucketed, buckets * shares if shares > 1 else over, task)
    return sent.sortWithinPartitions("bucket", "subscriber", *ranked(bucketed))


def write_files(deliveries: DataFrame, format: str, path: str) -> None:
    """Write deliveries into files, by bucket."""
    if format == "json":
        # Sorted as text once more: the writer sorts by bucket what comes from Python, and that may lose the order.
        order = ("bucket", "subscriber", *ranked(deliveries))
        texts = lines(deliveries, keep=order).sortWithinPartitions(*order)
        texts.select("bucket", "value").write.partitionBy("bucket").text(path)
    else:
        deliveries.drop(RANK).write.partitionBy("bucket").parquet(path)


def send(
    deliveries: DataFrame,
    batch: int,
    format: str,
    *,
    table: str | None = None,
    callback: str | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """Hand deliveries over to what is not ours: a table, a function, or any sink that Spark knows."""
    if format == "callback":
        assert callback is not None
        _call(callback, deliveries, batch)
    elif format == "table":
        assert table is not None
        replace_partition(deliveries, batch, table, options)
    else:
        numbered = deliveries.withColumn("batch", F.lit(batch))
        numbered.write.format(format).options(**(options or {})).mode("append").save()


def _call(name: str, deliveries: DataFrame, batch: int) -> None:
    """Call a function with a batch; what it raises is told with its name."""
    called = callback_named(name)
    try:
        called(deliveries, batch)
    except Exception as error:
        said = reason(error) or f"{type(error).__name__}: {error}"
        raise PipelineError(
            f"the callback {name} failed with batch {batch}: {said}",
            hint="the batch is not committed: the next run calls it with the same deliveries again",
        ) from error


def replace_partition(
    deliveries: DataFrame, batch: int, table: str, options: Mapping[str, str] | None = None
) -> None:
    """Make deliveries the partition of their batch, whatever an earlier attempt at it has left there.

    In SQL, with the partition named: `insertInto` would replace the whole table, and one that is found by its
    rows would keep what was there where there are none now. `options` are for making the table.
    """
    spark = deliveries.sparkSession
    if not spark.catalog.tableExists(table):
        empty = deliveries.limit(0).withColumn("batch", F.lit(batch))
        empty.write.options(**(options or {})).partitionBy("batch").saveAsTable(table)
    check_table(spark, table, deliveries.columns, attributes_in(deliveries))
    columns = [name for name in spark.table(table).columns if name != "batch"]
    view = f"fairlead_{uuid4().hex}"
    deliveries.select(*columns).createTempView(view)
    try:
        spark.sql(f"INSERT OVERWRITE TABLE {table} PARTITION (batch = {batch}) SELECT * FROM {view}")
    finally:
        spark.catalog.dropTempView(view)


def attributes_in(frame: DataFrame) -> str | None:
    """The type of typed content, in words; None where the content is text, or is not there."""
    return frame.schema[ATTRIBUTES].dataType.simpleString() if ATTRIBUTES in frame.columns else None


def check_table(
    spark: SparkSession, table: str, columns: Sequence[str], attributes: str | None = None
) -> None:
    """PipelineError where there is such a table and it cannot take deliveries with these columns.

    Of `attributes` the type counts, too: Spark would fit one struct into another by place, whatever the names.
    """
    if not spark.catalog.tableExists(table):
        return
    hint = f"name a table that does not exist yet, or one with {', '.join(columns)}, partitioned by batch"
    found = spark.catalog.listColumns(table)
    own = [each.name for each in found if each.name != "batch"]
    if sorted(own) != sorted(columns):
        raise PipelineError(
            f"the table {table} has other columns than deliveries: {', '.join(own)}", hint=hint
        )
    if not any(each.name == "batch" and each.isPartition for each in found):
        raise PipelineError(
            f"{table} is not a table that is partitioned by batch, and a batch could not replace itself",
            hint=hint,
        )
    if attributes is not None and (there := attributes_in(spark.table(table))) != attributes:
        raise PipelineError(
            f"the table {table} has other typed columns than deliveries: {there}, not {attributes}",
            hint="a table does not grow: select the columns that it has, or name a new table and a new output",
        )


def check_format(spark: SparkSession, format: str) -> None:
    """PipelineError where Spark knows no such format.

    It is asked to read, without a word about where: whatever else it has against that, it knows the format.
    """
    try:
        spark.read.format(format).load().schema  # noqa: B018
    except Exception as error:
        if re.search(UNKNOWN_FORMAT, str(error)):
            raise


def callback_named(name: str) -> Callback:
    """The function that `module:function` names."""
    module, colon, function = name.partition(":")
    try:
        found = getattr(import_module(module), function) if colon else None
    except (ImportError, AttributeError) as error:
        raise PipelineError(f"no function can be loaded as {name!r}: {error}") from error
    if not callable(found):
        raise PipelineError(f"{name!r} names no function", hint='write "module:function"')
    called: Callback = found
    return called


# -- as text -----------------------------------------------------------------------------------------------


def lines(deliveries: DataFrame, keep: Sequence[str] = ()) -> DataFrame:
    """Deliveries as JSON text in `value`, in the byte form of all runtimes; columns to `keep` stay beside it."""
    kept = [deliveries.schema[name] for name in keep]
    declared = T.StructType([*kept, T.StructField("value", T.StringType())])
    return deliveries.mapInArrow(Lines(tuple(keep)), declared)


@dataclass(frozen=True, slots=True)
class Lines:
    """Record batches of deliveries in; their JSON text out, in `value`, beside the columns to keep."""

    keep: tuple[str, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in DELIVERY]
            versions = batch.column(VERSION).to_pylist() if VERSION in batch.schema.names else repeat("")
            texts = [
                DeliveryRecord(subscriber, OrderKey(*key), tuple(ids), version).line().decode().rstrip("\n")
                for (subscriber, *key, ids), version in zip(
                    zip(*columns, strict=True), versions, strict=False
                )
            ]
            if RECORD in batch.schema.names or ATTRIBUTES in batch.schema.names:
                texts = [
                    f'{text[:-1]},"notification":{_on_one_line(record)}}}'
                    for text, record in zip(texts, records_in(batch), strict=True)
                ]
            kept = {name: batch.column(name) for name in self.keep}
            yield pa.RecordBatch.from_pydict({**kept, "value": pa.array(texts, pa.string())})


def _on_one_line(record: str) -> str:
    """The same JSON without line breaks, which can only stand between its parts."""
    return record.replace("\n", " ").replace("\r", " ") if "\n" in record or "\r" in record else record
