"""Deliveries into a table of PostgreSQL, each once: a transaction for each bucket of a batch.

A transaction has a bucket's rows and, in the table `fairlead_positions`, the number of the batch. Whoever
repeats the bucket waits for the other's transaction to end, finds the number there or not, and writes nothing or
everything. A bucket of a batch is a pure function of the batch, whatever the number of tasks.

Spark's own writer for JDBC has a transaction for each task, without the number: a repeated batch is there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from fairlead.errors import PipelineError
from fairlead.spark.delivery import Lines
from fairlead.spark.frames import ranked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from fairlead.spark.batch import Batch
    from fairlead.spark.config import Deliveries

__all__ = ["SINK", "check_postgres", "write"]

T = TypeVar("T")

SINK: Final = "postgres"
NOTE: Final = "transactions"
COLUMNS: Final = {
    "subscriber": "text not null",
    "time": "bigint not null",
    "producer": "text not null",
    "sequence": "bigint",
    "id": "text not null",
    "subscriptions": "text[] not null",
    "version": "text",
    "notification": "json",
    "bucket": "int not null",
    "batch": "bigint not null",
}
"""The columns of the table, as it is made where there is none; `json` keeps the published text."""
POSITIONS: Final = (
    "CREATE TABLE IF NOT EXISTS fairlead_positions "
    "(writer text, bucket int, batch bigint NOT NULL, PRIMARY KEY (writer, bucket))"
)
MOVE: Final = (
    "INSERT INTO fairlead_positions AS p VALUES (%s, %s, %s) ON CONFLICT (writer, bucket) "
    "DO UPDATE SET batch = excluded.batch WHERE p.batch < excluded.batch RETURNING 1"
)
"""One row iff the batch is not there yet. A second writer waits here until the first has ended."""


class _Line(msgspec.Struct):
    """A delivery, as its JSON line has it; the content stays the text that it is."""

    subscriber: str
    time: int
    producer: str
    id: str
    subscriptions: list[str]
    sequence: int | None = None
    version: str | None = None
    notification: msgspec.Raw = msgspec.Raw()

    def values(self, bucket: int, batch: int) -> tuple[Any, ...]:
        content = bytes(self.notification).decode() or None
        given = {**{name: getattr(self, name) for name in self.__struct_fields__}, "notification": content}
        return tuple((given | {"bucket": bucket, "batch": batch})[name] for name in COLUMNS)


def check_postgres(sink: Deliveries) -> None:
    """PipelineError where the database cannot be reached, or has a table that lacks a column."""

    def check(connection: Any) -> None:
        if connection.execute("SELECT to_regclass(%s)", (sink.table,)).fetchone()[0] is None:
            return
        found = connection.execute(f"SELECT * FROM {sink.table} LIMIT 0").description
        if missing := [name for name in COLUMNS if name not in {each.name for each in found}]:
            raise PipelineError(
                f"the table {sink.table} lacks the columns {', '.join(missing)}",
                hint="name a table that does not exist: it is made with the columns that deliveries need",
            )

    _connected(sink.options, check)


def _make_tables(sink: Deliveries) -> None:
    """Make the tables that are missing."""
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

    def make(connection: Any) -> None:
        connection.execute(POSITIONS)
        connection.execute(f"CREATE TABLE IF NOT EXISTS {sink.table} ({columns})")

    _connected(sink.options, make)


def write(deliveries: DataFrame, batch: Batch) -> int:
    """Write the deliveries of a batch into a table; their number."""
    from pyspark.sql import functions as F

    sink = batch.config.deliveries
    _make_tables(sink)
    assert sink.table is not None
    writing = _Writing(batch.output.identity(NOTE), batch.number, sink.table, dict(sink.options))
    together = deliveries.repartition("bucket").sortWithinPartitions(
        "bucket", "subscriber", *ranked(deliveries)
    )
    counted = together.mapInArrow(writing, "written bigint")
    return int(counted.agg(F.coalesce(F.sum("written"), F.lit(0))).collect()[0][0])


@dataclass(frozen=True, slots=True)
class _Writing:
    """The work of a task: its buckets, one transaction each."""

    name: str
    batch: int
    table: str
    options: dict[str, str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in Lines(("bucket",))(batches) for row in batch.to_pylist())
        written = sum(self.bucket(bucket, found) for bucket, found in groupby(rows, itemgetter("bucket")))
        yield pa.RecordBatch.from_pydict({"written": pa.array([written], pa.int64())})

    def bucket(self, bucket: int, rows: Iterator[Mapping[str, Any]]) -> int:
        """Write a bucket, unless it is there; how many rows it has."""
        lines = (msgspec.json.decode(row["value"], type=_Line).values(bucket, self.batch) for row in rows)

        def transaction(connection: Any) -> int:
            if connection.execute(MOVE, (self.name, bucket, self.batch)).fetchone() is None:
                return sum(1 for _ in lines)
            copied = f"COPY {self.table} ({', '.join(COLUMNS)}) FROM STDIN"
            with connection.cursor() as cursor:
                with cursor.copy(copied) as copy:
                    for values in lines:
                        copy.write_row(values)
                return int(cursor.rowcount)

        return _connected(self.options, transaction)


def _connected(options: Mapping[str, str], work: Callable[[Any], T]) -> T:
    """Do work in one transaction of a connection; PipelineError in the database's words where it fails."""
    import psycopg

    try:
        with psycopg.connect(**dict(options)) as connection:  # type: ignore[arg-type]  # all are texts
            return work(connection)
    except psycopg.Error as error:
        said = " ".join(str(error).split())
        raise PipelineError(
            f"PostgreSQL: {said}",
            hint="[deliveries] options are those of libpq, such as host, port, dbname and user",
        ) from error
