"""A broker's log is a source of events, in batch and as a stream, and gives what was published, once, in order."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from fairlead.errors import PipelineError
from fairlead.log import Log
from fairlead.log.records import ARRIVAL, PUBLICATION, STATE, arrival_head, stamp
from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.spark.ingestion import notifications
from fairlead.spark.logs import LogSource
from fairlead.spark.sources import Input, ingest_input, read, read_stream


def packed(number: int) -> bytes:
    return pack(Notification.of({"price": number, "id": f"{number:03}", "producer": "desk"}))


def write(directory: Path, *numbers: int) -> None:
    with Log(directory) as log:
        for number in numbers:
            if number % 3:
                log.append(PUBLICATION, packed(number), number)
            else:
                relayed = number.to_bytes(8, "little") + stamp(b"west", number) + packed(number)
                log.append(ARRIVAL, arrival_head("north") + relayed, number)
            log.append(STATE, b"\x90", number)


def test_all_that_passed_the_broker_is_read(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "log", *range(10))
    for records, expected in (("all", range(10)), ("published", [1, 2, 4, 5, 7, 8])):
        input = Input(str(tmp_path / "log"), "log", options={"records": records})
        rows = notifications(ingest_input(read(spark, input), input)).select("producer", "id").collect()
        assert sorted(map(tuple, rows)) == [("desk", f"{number:03}") for number in expected]


def test_a_stream_goes_on_where_its_checkpoint_stands(spark: SparkSession, tmp_path: Path) -> None:
    input = Input(str(tmp_path / "log"), "log", options={"maxRecordsPerTrigger": "7"})
    for numbers in (range(10), range(10, 15), ()):
        write(tmp_path / "log", *numbers)
        rows = notifications(ingest_input(read_stream(spark, input), input))
        query = (
            rows.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out")).select("id").collect()
    assert sorted(row.id for row in found) == [f"{number:03}" for number in range(15)]


def test_a_stream_does_not_take_another_log_for_its_own(tmp_path: Path) -> None:
    write(tmp_path / "log", *range(3))
    stream = LogSource({"path": str(tmp_path / "log")}).streamReader(StructType())
    assert stream.latestOffset({"offset": 2}, ReadAllAvailable()) == {"offset": 6}
    with pytest.raises(PipelineError, match="another one"):
        stream.latestOffset({"offset": 1_000}, ReadAllAvailable())


def test_an_option_that_is_none_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "log", 1)
    input = Input(str(tmp_path / "log"), "log", options={"records": "some"})
    with pytest.raises(Exception, match="records"):
        read(spark, input).collect()
    with pytest.raises(PipelineError, match="no path"):
        Input(format="log")
