"""A broker's log as a source of Spark, in batch and as a stream: the notifications that passed the broker.

    spark.dataSource.register(LogSource)
    spark.readStream.format("fairlead_log").load(directory)

A row is a packed notification with its offset in the log. A stream's offsets are the log's, so a restart goes
on where the checkpoint stands; what a broker has not synced is not there yet. Where retention has removed what a
stream has not read, it fails and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from fairlead.errors import PipelineError
from fairlead.log import Reader
from fairlead.log.records import NOTIFICATIONS, PUBLICATION, notification_in
from fairlead.spark.sources import LOG_SOURCE

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["LogSource"]

COLUMNS: Final = "value binary, file string, offset bigint"
SCHEMA: Final = pa.schema([("value", pa.binary()), ("file", pa.string()), ("offset", pa.int64())])
PER_PARTITION: Final = 100_000
ROWS: Final = 10_000
KINDS: Final = {"all": NOTIFICATIONS, "published": (PUBLICATION,)}
"""The records that are read: all, or those that began there, for where the logs of all brokers are read."""


class Stretch(InputPartition):
    """The records from one offset up to another."""

    def __init__(self, start: int, stop: int) -> None:
        super().__init__((start, stop))
        self.start, self.stop = start, stop


class _Reading:
    """The common part of batch and stream. It travels to the workers, so it holds names only."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._directory = options.get("path", "")
        self._records = options.get("records", "all")
        given = options.get("maxRecordsPerTrigger")
        self._per_trigger = None if given is None else int(given)
        if not self._directory:
            raise PipelineError("no path to a broker's log", hint='.load("DIRECTORY")')
        if self._records not in KINDS:
            raise PipelineError(
                f"the option `records` is {' or '.join(KINDS)}, not {self._records!r}",
                hint="`published` leaves out what came from other brokers",
            )

    def _bounds(self) -> range:
        with Reader(self._directory) as reader:
            return reader.bounds()

    def _stretches(self, start: int, stop: int) -> list[InputPartition]:
        return [Stretch(each, min(each + PER_PARTITION, stop)) for each in range(start, stop, PER_PARTITION)]

    def _rows(self, stretch: Stretch) -> Iterator[pa.RecordBatch]:
        kinds = KINDS[self._records]
        with Reader(self._directory, stretch.start, until=stretch.stop, kinds=kinds) as reader:
            while records := reader.read(ROWS):
                columns = (
                    [notification_in(record) for record in records],
                    [self._directory] * len(records),
                    [record.offset for record in records],
                )
                yield pa.record_batch(
                    [pa.array(values, kind.type) for values, kind in zip(columns, SCHEMA, strict=True)],
                    schema=SCHEMA,
                )


class _Batch(_Reading, DataSourceReader):
    """All that is in the log now."""

    def partitions(self) -> list[InputPartition]:
        bounds = self._bounds()
        return self._stretches(bounds.start, bounds.stop) or [Stretch(bounds.start, bounds.start)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Stretch)
        return self._rows(partition)


class _Stream(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The log as it grows."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:
        return {"offset": self._bounds().start}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._per_trigger is None else ReadMaxRows(self._per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._bounds().stop

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        bounds = self._bounds()
        if start["offset"] < bounds.start:
            missing = (
                f"the records {start['offset']} to {bounds.start - 1} have not been read, and were removed"
            )
            raise PipelineError(
                f"{self._directory}: {missing}", hint="let the broker retain them longer: [retention]"
            )
        if start["offset"] > bounds.stop:  # what is synced does not go away
            raise PipelineError(
                f"{self._directory}: the stream has read up to record {start['offset']}, and the log ends at "
                f"{bounds.stop}: it is another one",
                hint="begin a new output and checkpoint for it",
            )
        stop = bounds.stop if self._target is None else min(self._target, bounds.stop)
        if isinstance(limit, ReadMaxRows):
            stop = min(stop, start["offset"] + limit.max_rows)
        return {"offset": max(stop, start["offset"])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return self._stretches(start["offset"], end["offset"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Stretch)
        return self._rows(partition)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing is kept for a reader: how long records stay is the broker's to say."""


class LogSource(DataSource):
    """The source `fairlead_log`."""

    @classmethod
    def name(cls) -> str:
        return LOG_SOURCE

    def schema(self) -> str:
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Batch(dict(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Stream(dict(self.options))
