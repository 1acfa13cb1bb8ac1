"""The tables that flow between the stages: their columns, and how a row becomes a notification again.

    rows            one per input record, read or not                     ingest
    notifications   those that were read                                  notifications
    ordered         each with an id, once, at its place in the order      order
    deliveries      one per subscriber and notification                   match, deliver

The order key is the same four columns everywhere, and Spark's ascending order of them is the total order:
strings compare by code point, and a missing sequence number comes first.

A notification's content is carried in one of two forms, told apart by the column's name. `attributes` is a
struct of the user's own typed columns, in which null means absent: it never becomes a Python object. `record` is
JSON text: an object with the attributes in typed form, or, where there is an XML document, an array with the
whole notification. The envelope stands beside it in columns of its own, and these win. Where a record was
published as JSON text that reads otherwise than its typed form (a CloudEvent, or a record under a schema or with
fields of other names), `published` has that text: it is what subscribers get.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from fairlead.errors import PipelineError
from fairlead.model import Instant, Notification, Record
from fairlead.model.encoding import (
    format_json,
    notification_from_json,
    notification_to_json,
    parse_json,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = [
    "ATTRIBUTES",
    "CAUSES",
    "DELIVERY",
    "ENVELOPE",
    "ENVELOPE_TYPES",
    "KEY",
    "MOVED",
    "PUBLISHED",
    "RANK",
    "RECORD",
    "VERSION",
    "bucket_of",
    "decode",
    "encode",
    "few_rows",
    "notifications_in",
    "payload_of",
    "ranked",
    "records_in",
    "table_of_rows",
    "to_records",
    "to_tasks",
]

KEY: Final = ("time", "producer", "sequence", "id")
"""The order key; `time` is the order time, `event_time` what the notification itself says."""
DELIVERY: Final = ("subscriber", *KEY, "subscriptions")
RANK: Final = "rank"
"""The place of a composite behind what else stands at the instant where it ends; only composites have one."""
VERSION: Final = "version"
"""The tag of the version that is delivered, empty for what was published; only where scopes have mappings."""
MOVED: Final = "moved"
"""Whether a policy has moved a delivery to a later order time; only where scopes have mappings or
policies."""
RECORD: Final = "record"
ATTRIBUTES: Final = "attributes"
PUBLISHED: Final = "published"
"""The JSON text as it was published, where the `record` is another one."""

CAUSES: Final = "array<struct<producer:string,id:string>>"
ENVELOPE_TYPES: Final = {
    "source": "string",
    "producer": "string",
    "id": "string",
    "digest": "string",
    "event_time": "bigint",
    "sequence": "bigint",
    "causes": CAUSES,
    PUBLISHED: "string",
}
ENVELOPE: Final = tuple(ENVELOPE_TYPES)
"""The columns of a notification beside its content. `digest` stands in for an id until equal records are
numbered."""


def payload_of(frame: DataFrame) -> str:
    """The column with the content, of the two that may have it."""
    for name in (RECORD, ATTRIBUTES):
        if name in frame.columns:
            return name
    raise PipelineError(
        f"no notifications: neither {RECORD!r} nor {ATTRIBUTES!r} is among the columns {', '.join(frame.columns)}",
        hint="`ingest` makes notifications of any DataFrame",
    )


def bucket_of(subscriber: Column, buckets: int) -> Column:
    """In which of the output's buckets a subscriber's deliveries are, for good."""
    from pyspark.sql import functions as F

    return F.pmod(F.crc32(F.encode(subscriber, "UTF-8")), F.lit(buckets)).cast("int")


def ranked(frame: DataFrame) -> tuple[str, ...]:
    """The columns that rows are sorted by in the total order: rows with a rank follow those without one."""
    key = ("time", RANK, *KEY[1:]) if RANK in frame.columns else KEY
    return (*key, VERSION) if VERSION in frame.columns else key


def to_tasks(frame: DataFrame, tasks: int, task: Column) -> DataFrame:
    """The rows, each in the task of its number; before Spark 4.1, rows of a number in one task, by a hash."""
    if hasattr(type(frame), "repartitionById"):
        return frame.repartitionById(tasks, task)
    return frame.repartition(tasks, task)


def few_rows(spark: SparkSession, rows: Sequence[Sequence[Any]], schema: pa.Schema) -> DataFrame:
    """A table of rows that are here.

    By way of Arrow: of a list Spark makes one in a Python worker of another sort than stages run in, and that
    takes a second or two to start.
    """
    return spark.createDataFrame(table_of_rows(rows, schema))


def table_of_rows(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """The Arrow table of some rows."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


# -- one notification --------------------------------------------------------------------------------------


def encode(notification: Notification) -> str:
    """The content of a notification as a `record`."""
    if notification.document is None:
        return format_json(notification.written()[0])
    return format_json([notification_to_json(notification)])


def decode(
    record: str, producer: str, id: str | None, event_time: int | None, sequence: int | None
) -> Notification:
    """The notification of a `record` and the envelope beside it."""
    content = parse_json(record)
    read = notification_from_json(content[0]) if isinstance(content, list) else Notification.read(content)
    time = None if event_time is None else Instant(event_time)
    return replace(read, id=id, producer=producer, time=time, sequence=sequence)


# -- either form -------------------------------------------------------------------------------------------


def to_records(frame: DataFrame) -> DataFrame:
    """The same with the content as `record`, so that tables with different columns can be one."""
    if payload_of(frame) == RECORD:
        return frame
    from pyspark.sql.types import StringType, StructField, StructType

    fields = [StructField(RECORD, StringType()) if f.name == ATTRIBUTES else f for f in frame.schema]
    return frame.mapInArrow(_to_records, StructType(fields))


def _to_records(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        at = batch.schema.get_field_index(ATTRIBUTES)
        # What was rejected has no content.
        there = batch.column(at).is_valid()
        content = iter(records_in(batch.filter(there)))
        records = pa.array([next(content) if each else None for each in there.to_pylist()], pa.string())
        yield batch.set_column(at, RECORD, records)


# -- record batches ----------------------------------------------------------------------------------------


def notifications_in(batch: pa.RecordBatch) -> list[Notification]:
    """The notifications in the rows of a batch that has the envelope and a content, in either form."""
    envelope = [batch.column(name).to_pylist() for name in ("producer", "id", "event_time", "sequence")]
    if RECORD in batch.schema.names:
        records: Sequence[str] = batch.column(RECORD).to_pylist()
        return [decode(*row) for row in zip(records, *envelope, strict=True)]
    attributes = _attributes_in(pa.RecordBatch.from_struct_array(batch.column(ATTRIBUTES)))
    return [
        Notification(record, id, producer, None if time is None else Instant(time), sequence)
        for record, producer, id, time, sequence in zip(attributes, *envelope, strict=True)
    ]


def _attributes_in(batch: pa.RecordBatch) -> Iterable[Record]:
    """The attributes in the rows of typed columns; column by column, where they are of the usual types."""
    columns = [_values_in(field, column) for field, column in zip(batch.schema, batch.columns, strict=True)]
    if any(values is None for values in columns):
        from fairlead.matching.columnar.arrow import notifications_of

        return (each.attributes for each in notifications_of(batch))
    names = batch.schema.names
    return (
        Record({name: value for name, value in zip(names, row, strict=True) if value is not None})
        for row in zip(*columns, strict=True)
    )


def _values_in(field: pa.Field, column: pa.Array) -> list[Any] | None:
    """The values of a column as those of attributes; None where that takes a look at what is around them."""
    if field.name == "tuple" or "." in field.name:
        return None
    if field.type == _INSTANTS:
        return [None if each is None else Instant(each) for each in column.cast(pa.int64()).to_pylist()]
    values: list[Any] = column.to_pylist()
    return values if field.name != "time" and field.type in _USUAL else None


_INSTANTS: Final = pa.timestamp("us", tz="UTC")
_USUAL: Final = frozenset({pa.string(), pa.bool_(), pa.int32(), pa.int64(), pa.float64()})


def records_in(batch: pa.RecordBatch) -> list[str]:
    """The content of each row of a batch as a `record`, whichever form it has."""
    if RECORD in batch.schema.names:
        records: list[str] = batch.column(RECORD).to_pylist()
        return records
    from fairlead.matching.columnar.arrow import notifications_of

    attributes = pa.RecordBatch.from_struct_array(batch.column(ATTRIBUTES))
    return list(map(encode, notifications_of(attributes)))
