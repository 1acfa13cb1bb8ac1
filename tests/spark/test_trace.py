"""The events of a micro-batch become sorted files; whoever reads them finds each event at its place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from fairlead.audit import (
    Ended,
    Event,
    Faulted,
    Notified,
    Published,
    Subscribed,
    TraceRefused,
    Unsubscribed,
    Verdict,
    audit,
    parquet,
)
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead.model.order import Identity, OrderKey
from fairlead.spark.frames import encode
from fairlead.testing import notifications

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENVELOPE = "time bigint, producer string, sequence bigint, id string, event_time bigint"
RECORDS = f"{ENVELOPE}, record string"
ATTRIBUTES = f"{ENVELOPE}, attributes struct<id:string,producer:string,x:bigint,y:string>"
DELIVERIES = (
    "subscriber string, time bigint, producer string, sequence bigint, id string, subscriptions array<string>"
)
SUBSCRIPTIONS = "id string, subscriber string, filter string, `from` bigint, until bigint"


def events_at(path: Path | str) -> list[Event]:
    return [event for _, event in parquet.read(str(path)) if not hasattr(event, "reason")]


@given(notifications())
def test_a_record_in_a_trace_is_what_it_is_between_the_stages(notification: Notification) -> None:
    published = Published(
        n := Notification(notification.attributes, id="1", document=notification.document), OrderKey.of(n)
    )
    row = parquet.row_of(published)
    told = Notification(notification.attributes, "1", document=notification.document)
    if told.document is None:
        assert row["record"] == encode(told)
    assert parquet.event_of({**row, "record": encode(told)}) == published


def test_the_table_has_the_same_columns_everywhere(spark: SparkSession) -> None:
    from fairlead.spark.trace import COLUMNS, frame_of

    assert dict(frame_of(spark, [Ended()]).dtypes) == {**COLUMNS, "index": "bigint"}
    assert list(COLUMNS) == parquet.SCHEMA.names


def micro_batch(spark: SparkSession, content: str) -> tuple[DataFrame, DataFrame]:
    """Some notifications in no order, and to whom they go."""
    keys: list[Any] = [(20, "q", None, "1"), (10, "p", 2, "b"), (10, "p", None, "c"), (10, "p", 1, "a")]
    released = []
    for number, (time, producer, sequence, id) in enumerate(keys):
        attributes: dict[str, Any] = {"id": id, "producer": producer, "x": number}
        if number % 2:
            attributes["y"] = "ü"
        given = encode(Notification.of(attributes)) if content == RECORDS else {"y": None, **attributes}
        released.append((time, producer, sequence, id, None if number else 5, given))
    deliveries = [
        (subscriber, *key, ["s1", "s2"] if subscriber == "ada" else ["s3"])
        for key in keys
        for subscriber in ("bob", "ada")
    ]
    return spark.createDataFrame(released, content), spark.createDataFrame(deliveries, DELIVERIES)


@pytest.mark.parametrize(("content", "files"), [(RECORDS, 3), (ATTRIBUTES, 1)], ids=["records", "columns"])
def test_a_micro_batch_is_told_in_the_total_order(
    spark: SparkSession, tmp_path: Path, content: str, files: int
) -> None:
    from fairlead.spark.matching import with_receivers
    from fairlead.spark.trace import trace_of, write

    released, deliveries = micro_batch(spark, content)
    begun = [
        ("s1", "ada", "exists x", None, None),
        ("s2", "ada", "x >= 0", 0, 30),
        ("s3", "bob", "x < 9", 0, None),
    ]
    trace = trace_of(
        with_receivers(released, deliveries),
        subscribed=spark.createDataFrame(begun, SUBSCRIPTIONS),
        unsubscribed=spark.createDataFrame([("s0", "eve", "exists z", None, 7)], SUBSCRIPTIONS),
        late=spark.createDataFrame(
            [("input", "p", "z", 3)], "source string, producer string, id string, event_time bigint"
        ),
        final=True,
    )
    write(trace, str(tmp_path / "trace"), files)

    events = events_at(tmp_path / "trace")
    assert events[:4] == [
        Unsubscribed("eve", "s0", OrderKey(7)),
        Subscribed("ada", "s1", parse("exists x")),
        Subscribed("ada", "s2@0", parse("x >= 0"), OrderKey(0), OrderKey(30)),
        Subscribed("bob", "s3@0", parse("x < 9"), OrderKey(0)),
    ]
    assert events[-2:] == [
        Faulted("late", {"source": "input", "producer": "p", "id": "z", "event_time": 3}),
        Ended(),
    ]
    told = events[4:-2]
    published = [each for each in told if isinstance(each, Published)]
    assert [each.key for each in published] == [
        OrderKey(10, "p", None, "c"),
        OrderKey(10, "p", 1, "a"),
        OrderKey(10, "p", 2, "b"),
        OrderKey(20, "q", None, "1"),
    ]
    assert [each.notification.get("x") for each in published] == [2, 3, 1, 0]
    assert published[1].notification.get("y") == "ü"
    assert published[3].notification.time is not None
    assert told[:3] == [
        published[0],
        Notified("ada", Identity("p", "c"), ("s1", "s2")),
        Notified("bob", Identity("p", "c"), ("s3",)),
    ]
    assert audit(events).verdict is Verdict.HOLDS
    assert len(parquet.files(str(tmp_path / "trace"))) == files


def test_places_run_through_the_files_of_all_batches(spark: SparkSession, tmp_path: Path) -> None:
    from fairlead.spark.matching import with_receivers
    from fairlead.spark.trace import COLUMNS, frame_of, read, trace_of, write

    expected: list[Event] = []
    for batch in range(2):
        released, deliveries = micro_batch(spark, RECORDS)
        path = tmp_path / f"batch={batch:08}"
        trace = trace_of(with_receivers(released, deliveries), final=batch == 1)
        write(trace, str(path), files=2)
        expected += events_at(path)
    assert events_at(tmp_path) == expected
    both = [str(tmp_path / f"batch={batch:08}") for batch in (1, 0)]
    for paths in ([str(tmp_path)], both):
        found = read(spark, *paths).orderBy("index").collect()
        assert [row["index"] for row in found] == list(range(len(expected)))
        rows = [row.asDict(recursive=True) for row in found]
        assert [parquet.event_of({name: row[name] for name in COLUMNS}) for row in rows] == expected
    frame = frame_of(spark, expected).orderBy("index").select(*COLUMNS).collect()
    assert [parquet.event_of(row.asDict(recursive=True)) for row in frame] == expected


def test_a_directory_that_is_no_trace_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    from fairlead.spark.trace import read

    spark.range(2).write.parquet(str(tmp_path / "numbers"))
    with pytest.raises(TraceRefused, match="no column about"):
        read(spark, str(tmp_path / "numbers"))
    with pytest.raises(TraceRefused, match="nowhere"):
        read(spark, str(tmp_path / "nowhere"))
