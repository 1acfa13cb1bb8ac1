"""Deliveries into a topic of Kafka, each once: a transaction for each bucket of a batch.

A bucket of a batch is a pure function of the batch, whatever the number of tasks. Its transaction has its rows,
and the number of the batch as its position (`fairlead.kafka.writing`): after a crash, or where a task is repeated,
buckets that are there are passed over. The key of a record is the subscriber, so all of its deliveries are in one
partition, in order; its value is the line that `json` files have, or the same by a schema of the registry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from fairlead.kafka.schemas import Encoding, Registry
from fairlead.kafka.writing import Sent, Writer, check_topic, client_settings
from fairlead.spark.delivery import Lines
from fairlead.spark.frames import ranked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from fairlead.spark.batch import Batch
    from fairlead.spark.config import Deliveries

__all__ = ["SINK", "check_kafka", "write", "write_rows"]

SINK: Final = "kafka"
NOTE: Final = "kafka"
COLUMNS: Final = ("bucket", "subscriber", "producer", "id")


def check_kafka(sink: Deliveries) -> None:
    """KafkaFailed where the topic cannot be written to, or the registry has no schema for it."""
    topic = sink.options["topic"]
    check_topic(client_settings(sink.options), topic)
    if sink.registry is not None:
        Registry(sink.registry).check(f"{topic}-value", sink.encoding)


def write(deliveries: DataFrame, batch: Batch) -> int:
    """Write the deliveries of a batch into a topic; their number."""
    from pyspark.sql import functions as F

    together = deliveries.repartition("bucket").sortWithinPartitions(
        "bucket", "subscriber", *ranked(deliveries)
    )
    counted = together.mapInArrow(_Writing.of(batch), "written bigint")
    return int(counted.agg(F.coalesce(F.sum("written"), F.lit(0))).collect()[0][0])


def write_rows(rows: pa.Table, batch: Batch) -> int:
    """Write the same from here, where they are few: rows by bucket, each subscriber's in order; their number."""
    return sum(
        sum(each.column("written").to_pylist()) for each in _Writing.of(batch)(iter(rows.to_batches()))
    )


@dataclass(frozen=True, slots=True)
class _Writing:
    """The work of a task: its buckets, one transaction each."""

    name: str
    batch: int
    topic: str
    settings: dict[str, str]
    encoding: Encoding
    registry: str | None

    @classmethod
    def of(cls, batch: Batch) -> _Writing:
        sink, settings = batch.config.deliveries, client_settings(batch.config.deliveries.options)
        topic = sink.options["topic"]
        return cls(batch.output.identity(NOTE), batch.number, topic, settings, sink.encoding, sink.registry)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in Lines(COLUMNS)(batches) for row in batch.to_pylist())
        written = sum(self._bucket(bucket, found) for bucket, found in groupby(rows, itemgetter("bucket")))
        yield pa.RecordBatch.from_pydict({"written": pa.array([written], pa.int64())})

    def _bucket(self, bucket: int, rows: Iterator[dict[str, Any]]) -> int:
        position = self.batch + 1
        with Writer(self.settings, f"{self.name}-{bucket}") as writer:
            if writer.position(self.topic) >= position:
                return sum(1 for _ in rows)
            return writer.write(map(self._record, rows), self.topic, position)

    def _record(self, row: dict[str, Any]) -> Sent:
        value = row["value"].encode()
        if self.registry is not None:
            value = Registry(self.registry).write(json.loads(value), f"{self.topic}-value", self.encoding)
        headers = (
            ("producer", row["producer"].encode()),
            ("id", row["id"].encode()),
            ("batch", str(self.batch).encode()),
        )
        return Sent(self.topic, value, row["subscriber"].encode(), headers)
