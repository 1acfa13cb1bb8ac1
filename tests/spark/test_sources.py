"""Whatever the format, the files of a directory give what the plain doors give on the same bytes."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairlead.errors import PipelineError
from fairlead.filters.schema import Schema
from fairlead.ingest import Fields, Rejection, csv, jsonlines, rows, text, xml
from fairlead.model import Instant, Notification
from fairlead.model.encoding import format_json, notification_to_json
from fairlead.spark.frames import notifications_in
from fairlead.spark.ingestion import notifications, rejected
from fairlead.spark.sources import Input, ingest_input, kafka_records, read, read_stream, refusal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Iterable[tuple[int | None, Notification | Rejection]]
Refused = tuple[str, int | None, str, bytes]


def shown(notification: Notification) -> str:
    """The envelope and what filters read; the published text is in a column of its own."""
    record = notification_to_json(notification)
    record.pop("content", None)
    return format_json(record, sort_names=True)


def held(frame: DataFrame) -> Counter[str]:
    """The notifications of rows, each with how often it is there."""
    table = notifications(frame).toArrow()
    return Counter(shown(each) for batch in table.to_batches() for each in notifications_in(batch))


def refused(frame: DataFrame) -> Counter[Refused]:
    """What was rejected: file, line, reason and raw."""
    return Counter(
        (unquote(Path(each.file).name), each.line, each.reason, bytes(each.raw))
        for each in rejected(frame).collect()
    )


def expected(files: dict[str, bytes], door: Callable[[bytes], Read]) -> tuple[Counter[str], Counter[Refused]]:
    """What a plain door reads in the files, and what it rejects there."""
    read, rejections = Counter[str](), Counter[Refused]()
    for name, content in files.items():
        for line, found in door(content):
            if isinstance(found, Notification):
                read[shown(found)] += 1
            else:
                raw = found.raw if isinstance(found.raw, bytes) else found.raw.encode()
                rejections[name, line, found.reason, raw] += 1
    return read, rejections


def put(directory: Path, files: dict[str, bytes]) -> str:
    directory.mkdir(exist_ok=True)
    for name, content in files.items():
        (directory / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(directory)


@contextmanager
def cut_small(spark: SparkSession) -> Iterator[None]:
    """Spark cuts files into blocks of a few hundred bytes."""
    name = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(name)
    spark.conf.set(name, "700")
    try:
        yield
    finally:
        assert before is not None
        spark.conf.set(name, before)


def lines_of(door: Callable[..., Read], **options: Any) -> Callable[[bytes], Read]:
    return lambda content: door(io.BytesIO(content), **options)


JSON_LINES = [
    b'{"id": "a", "producer": "p", "time": "2024-05-01T10:00:00Z", "sequence": 3, "x": 1.5, "cause": "p/0"}',
    b'{"id": 7, "tags": ["a"], "n": 123456789012345678901234567890}\r',
    b'{"x": {"$number": "nan"}}',
    b"",
    b'{"a": "\\ud800"}',
    b'{"a": "\xff"}',
    b"{\r",
    b'{"specversion": "1.0", "id": "1", "source": "s", "type": "T", "data": {"price": 5}}',
    b'{"x": {"$number": "nan"}}',
    b'{"a": 1, "a": 2}',
    b'{"a": "stray \\r"}',
    b"[1]",
]
JSON_FILES = {
    "a.jsonl": b"\xef\xbb\xbf" + b"\n".join(JSON_LINES * 8),  # without an end of its last line
    "b c.jsonl": b"\n".join(JSON_LINES * 3) + b"\n",
    "c.jsonl.gz": b"\n".join(JSON_LINES * 20),
    "d.jsonl": b"",
}


def test_json_lines_are_read_whole_wherever_spark_cuts_them(spark: SparkSession, tmp_path: Path) -> None:
    input = Input(put(tmp_path, JSON_FILES), name="quotes")
    with cut_small(spark):
        frame = ingest_input(read(spark, input), input).persist()
        assert frame.where("block > 0").count() > 30
        read_, rejections = expected(JSON_FILES, lines_of(jsonlines.read))
        assert held(frame) == read_
        assert refused(frame) == rejections
        assert {row.source for row in rejected(frame).select("source").distinct().collect()} == {"quotes"}
        blank = frame.where("reason = ''").count()
        in_all = sum(len(list(io.BytesIO(content))) for content in JSON_FILES.values())
        assert read_.total() + rejections.total() + blank == frame.count() == in_all
        frame.unpersist()


CSV_FILES = {
    "a.csv": b'id,x,note\r\n1,2.5,"a\nb"\r\n\r\n2,,\n3,1\n\xff,1,2\n"4",1,"x""y"\n5,1,5" pipe\n'
    b'"6"z,1,2\n7,a\rb,\n8,1,"open\n9,1,2',
    "b.csv": b"\xef\xbb\xbfnote,id\nx,1\n,\n",
    "c.csv": b"a,a\n1,2\n",
    "d.csv": b"",
    "e.csv.gz": b"id,x\n" + b"".join(b'%d,"%s"\n' % (n, b"z\n" * (n % 90)) for n in range(200)),
    "f.csv": b'only\n"no date"\nno date\n""\n2024-01-01\n\xc3\xa9\n',
    "g.csv": b"x,y\r\n1,2\r\n",
}


def test_csv_files_are_read_each_under_its_own_header(spark: SparkSession, tmp_path: Path) -> None:
    input = Input(put(tmp_path, CSV_FILES), "csv")
    with cut_small(spark):
        frame = ingest_input(read(spark, input), input).persist()
        read_, rejections = expected(CSV_FILES, lines_of(csv.read))
        assert held(frame) == read_
        without_lines = Counter[Refused]()
        for (file, _, reason, raw), count in rejections.items():
            without_lines[file, None, reason, raw] += count
        assert refused(frame) == without_lines
        frame.unpersist()


def test_csv_has_its_delimiter_and_its_schema(spark: SparkSession, tmp_path: Path) -> None:
    files = {"a.csv": 'no→zip→x\n1→01234→"a→b"\n2→5→x\n'.encode()}
    schema = Schema(attributes={"zip": "string"})
    input = Input(put(tmp_path, files), "csv", options={"delimiter": "→"}, fields=Fields(id="no"))
    found = ingest_input(read(spark, input), input, schema)
    door = lines_of(csv.read, delimiter="→", schema=schema, fields=Fields(id="no"))

    def attributes(shown: Counter[str]) -> list[object]:
        """Where `fields` names the envelope, rows of a table travel as what filters read."""
        return sorted((json.loads(each)["attributes"] for each in shown.elements()), key=repr)

    assert attributes(held(found)) == attributes(expected(files, door)[0])
    assert held(found).total() == 2


SELECTED_FILES = {
    "a.csv": b'no;when;price;note\n1;02.03.2026 09:00;1,50;"a;\nb"\n\n2;;2,5;\n3;1;2\n4;never;x;y\n"5',
    "b.csv": b"price;no\n7,25;6\n",
}
SELECT = (
    "no id",
    "try_to_timestamp(when, 'dd.MM.yyyy HH:mm') time",
    "try_cast(replace(price, ',', '.') as double) price",
    "note",
)


def test_what_is_selected_of_csv_becomes_typed_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Fields are strings, or null where they are empty; what is no record under its header is rejected as ever."""
    options = {"sep": ";"}
    input = Input(put(tmp_path / "in", SELECTED_FILES), "csv", options=options, select=SELECT, name="t")
    instant = Instant.parse("2026-03-02T09:00:00Z")
    read_ = Counter(
        shown(Notification.of(each))
        for each in (
            {"id": "1", "time": instant, "price": 1.5, "note": "a;\nb"},
            {"id": "2", "price": 2.5},
            {"id": "4", "note": "y"},
            {"id": "6", "price": 7.25},
        )
    )
    batch = ingest_input(read(spark, input), input)
    stream = ingest_input(read_stream(spark, input), input)
    query = (
        stream.writeStream.format("memory").queryName("selected_of_csv").trigger(availableNow=True).start()
    )
    query.awaitTermination()
    for frame in (batch, spark.table("selected_of_csv")):
        assert held(frame) == read_
        assert {(file, reason) for file, _, reason, _ in refused(frame)} == {
            ("a.csv", "3 fields under a header of 4"),
            ("a.csv", "a quote that nothing closes, at letter 1"),
        }
    wrong = Input(input.path, "csv", options=options, select=("nr id",))
    with pytest.raises(Exception, match="nr"):
        ingest_input(read(spark, wrong), wrong)


XML_FILES = {
    "a.xml": b'<?xml version="1.0"?>\n<notification id="1" producer="p" x="2.5"><a b="1"/></notification>\n',
    "b.xml": "<order no='é'/>".encode("utf-16"),
    "c.xml": b"<a>",
    "d.xml": b"",
}


def test_xml_is_a_document_for_each_file_or_for_each_line(spark: SparkSession, tmp_path: Path) -> None:
    input = Input(put(tmp_path / "files", XML_FILES), "xml")
    frame = ingest_input(read(spark, input), input)
    assert (held(frame), refused(frame)) == expected(XML_FILES, lambda content: [(None, xml.read(content))])

    lines = {"a.xml": b"\xef\xbb\xbf<a id='1'/>\r\n\n<b>\n  <c x='1'/>"}
    input = Input(put(tmp_path / "lines", lines), "xml", lines=True)
    frame = ingest_input(read(spark, input), input)
    documents = [(1, xml.read(b"<a id='1'/>")), (3, xml.read(b"<b>")), (4, xml.read(b"<c x='1'/>"))]
    assert (held(frame), refused(frame)) == expected({"a.xml": b""}, lambda _: documents)


def test_text_is_a_notification_for_each_line(spark: SparkSession, tmp_path: Path) -> None:
    files = {"a.txt": b"\xef\xbb\xbf a\r\n\nb\xff\nc", "b.log": b"{}\n{}\n"}
    input = Input(put(tmp_path, files), "text")
    frame = ingest_input(read(spark, input), input)
    assert (held(frame), refused(frame)) == expected(files, lines_of(text.read))


TYPED = pa.table(
    {
        "id": ["1", "2", None, "4"],
        "time": ["2024-05-01T10:00:00Z", "noon", None, "2024-05-01T10:00:00.123+02:00"],
        "price": [1.5, float("nan"), 3.0, None],
        "in": [{"a": 1}, None, {"a": None}, {"a": 2}],
    }
)


def test_parquet_keeps_its_columns_and_those_that_only_some_files_have(
    spark: SparkSession, tmp_path: Path
) -> None:
    pq.write_table(TYPED, tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["5"], "extra": [True]}), tmp_path / "b.parquet")
    input = Input(str(tmp_path), "parquet")
    frame = ingest_input(read(spark, input), input)
    assert "attributes" in frame.columns
    given = [*TYPED.to_pylist(), {"id": "5", "extra": True}]
    found = [rows.read(each) for each in given]
    assert held(frame) == Counter(shown(each) for each in found if isinstance(each, Notification))
    [lost] = rejected(frame).collect()
    assert (lost.file.rsplit("/")[-1], lost.line) == ("a.parquet", None)
    assert lost.reason.startswith("not an instant: 'noon'")
    assert b'"noon"' in bytes(lost.raw)


def test_columns_can_be_cast_on_the_way(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("select '1' as id, date'2024-05-01' as day").write.parquet(str(tmp_path / "a"))
    input = Input(str(tmp_path / "a"), "parquet")
    with pytest.raises(PipelineError, match="'day' is of type date"):
        ingest_input(read(spark, input), input)
    input = Input(str(tmp_path / "a"), "parquet", select=("id", "cast(day as string) day"))
    assert held(ingest_input(read(spark, input), input)) == Counter(
        [shown(Notification.of({"id": "1", "day": "2024-05-01"}))]
    )


@pytest.mark.parametrize("format", ["json", "csv", "xml", "text", "parquet"])
def test_a_stream_gives_the_rows_of_the_batch(spark: SparkSession, tmp_path: Path, format: str) -> None:
    directory = tmp_path / "in"
    if format == "parquet":
        directory.mkdir()
        for number in range(2):
            pq.write_table(TYPED.slice(2 * number, 2), directory / f"{number}.parquet")
    else:
        whole = {
            name: raw for name, raw in XML_FILES.items() if raw
        }  # of an empty file a stream knows nothing
        put(directory, {"json": JSON_FILES, "csv": CSV_FILES, "xml": whole}.get(format, JSON_FILES))
    input = Input(str(directory), format, max_files=2)
    batch = ingest_input(read(spark, input), input)
    stream = ingest_input(read_stream(spark, input), input)
    assert stream.isStreaming
    query = stream.writeStream.queryName("rows").format("memory").trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
        streamed = spark.table("rows")
        assert streamed.schema == batch.schema
        assert held(streamed) == held(batch)
        assert refused(streamed) == refused(batch)
    finally:
        query.stop()
        spark.catalog.dropTempView("rows")


def test_any_source_of_spark_gives_typed_columns(spark: SparkSession) -> None:
    input = Input(format="rate", options={"rowsPerSecond": "1"}, select=("value as id", "timestamp as time"))
    stream = ingest_input(read_stream(spark, input), input)
    assert stream.schema["attributes"].dataType.simpleString() == "struct<id:bigint,time:timestamp>"


def test_records_from_kafka_keep_their_topic_partition_and_offset(spark: SparkSession) -> None:
    values = [b'{"id": 1}', None, b"[]"]
    frame = spark.createDataFrame(
        [(b"k", value, "quotes", 3, 40 + place) for place, value in enumerate(values)],
        "key binary, value binary, topic string, partition int, offset long",
    )
    input = Input(format="kafka", options={"subscribe": "quotes"})
    rows_ = ingest_input(kafka_records(frame), input)
    assert held(rows_) == Counter([shown(Notification.of({"id": 1}))])
    assert {(each.file, each.line, each.reason) for each in rejected(rows_).collect()} == {
        ("kafka:quotes/3", 41, "null, where a record should be"),
        ("kafka:quotes/3", 42, "a notification is a JSON object, not an array"),
    }


# -- what can go wrong -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["json", "csv", "xml", "parquet"])
def test_a_path_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path, format: str) -> None:
    input = Input(str(tmp_path / "nowhere"), format, name="quotes")
    for reading in (read, read_stream):
        with pytest.raises(PipelineError) as caught:
            reading(spark, input)
        assert str(caught.value).splitlines()[0] == f"the input 'quotes': there is no {tmp_path}/nowhere"


def test_files_that_do_not_agree_are_named_in_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "b.parquet")
    input = Input(str(tmp_path), "parquet")
    with pytest.raises(PipelineError, match="do not agree on their columns") as caught:
        read(spark, input)
    assert len(str(caught.value).splitlines()) == 2
    # Without a look at all of the files it shows as they are read.
    input = Input(str(tmp_path), "parquet", options={"mergeSchema": "false"})
    with pytest.raises(Exception, match="MISMATCH") as late:
        ingest_input(read(spark, input), input).collect()
    assert isinstance(late.value, Exception)
    explained = refusal(late.value, input)
    assert explained is not None
    assert "do not agree on their columns" in str(explained)


def test_what_spark_cannot_read_is_said_plainly(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    put(tmp_path / "damaged", {"a.parquet": b"no parquet at all"})
    pq.write_table(pa.table({"time": pa.array([1], pa.timestamp("ns"))}), tmp_path / "fine.parquet")
    for input, message in (
        (Input(str(tmp_path / "empty"), "parquet"), "has no parquet file yet"),
        (Input(str(tmp_path / "damaged"), "parquet"), r"damaged/a\.parquet: cannot be read: damaged"),
        (Input(str(tmp_path / "fine.parquet"), "parquet"), "has times in nanoseconds"),
        (Input("x", "nothing"), "Spark has no connector for 'nothing'"),
        (Input("x", "avro"), "Spark has no connector for 'avro'"),
    ):
        with pytest.raises(PipelineError, match=message) as caught:
            read(spark, input)
        assert len(str(caught.value).splitlines()) <= 2
    given = Input(str(tmp_path / "empty"), "parquet", options={"schema": "id string, price double"})
    assert read_stream(spark, given).columns[:2] == ["id", "price"]


def test_an_input_that_contradicts_itself_is_refused() -> None:
    for wrong, message in (
        ({"format": "csv"}, "has no path"),
        ({"path": "a", "max_files": 0}, "at least one file"),
        ({"path": "a", "lines": True}, "`lines` is for XML"),
        ({"path": "a", "select": ("x",)}, "`select` is for typed columns"),
        ({"path": "a", "format": "csv", "options": {"multiline": "false"}}, "'multiline' is not free"),
        ({"path": "a", "format": "csv", "options": {"delimiter": "::"}}, "not a delimiter"),
    ):
        with pytest.raises(PipelineError, match=message):
            Input(**wrong)  # type: ignore[arg-type]
