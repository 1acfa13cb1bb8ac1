"""The sources of records: files, directories watched as streams, Kafka, or any source that Spark knows.

    json      a JSON object per line                     text      a line of text per notification
    csv       values under a header, one table per file  parquet,  typed columns
    xml       a document per file, or per line           orc
    kafka     the values are JSON objects                others    typed columns, as Spark reads them
    log       a broker's log: what passed the broker

`read` and `read_stream` give the raw DataFrame, `ingest_input` makes rows of it. Every record of a file keeps its
place, and a file's name that starts with a dot or an underscore is, as everywhere in Spark, not a file of events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from glob import iglob
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import fs

from fairlead.errors import PipelineError
from fairlead.filters.schema import Schema
from fairlead.ingest.records import STANDARD, Fields
from fairlead.kafka import PLAIN, Reading
from fairlead.spark.doors import TextDoor
from fairlead.spark.failures import connector, reason
from fairlead.spark.frames import RECORD, few_rows, payload_of
from fairlead.spark.ingestion import KAFKA, ORIGIN, ingest
from fairlead.spark.storage import is_at_hand, reached

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from fairlead.spark.admission import Admission

__all__ = [
    "Input",
    "check_watchable",
    "documents",
    "door_of",
    "ingest_input",
    "is_text_at_hand",
    "kafka_records",
    "read",
    "read_stream",
    "refusal",
]

LINES: Final = frozenset({"json", "text"})
FILES: Final = LINES | {"csv", "orc", "parquet", "xml"}
"""The formats of files whose records keep their place."""
TYPED_FILES: Final = frozenset({"orc", "parquet"})
AGE_MAX: Final = "36500d"
LOG: Final = "log"
"""A broker's log, read by the source of this name (see `logs`)."""
LOG_SOURCE: Final = "fairlead_log"
_PLACE: Final = pa.struct([("file", pa.string()), ("block", pa.int64()), ("ordinal", pa.int64())])
_DOCUMENT: Final = pa.schema([("value", pa.binary()), (ORIGIN, _PLACE)])


@dataclass(frozen=True, slots=True)
class Input:
    """One source of records, and how they are read.

    `options` are Spark's own for the format; `delimiter` is that of CSV, and `schema` gives the columns of a typed
    source in Spark's notation, where there is no file yet to take them from. `select` has SQL expressions that
    make the columns of a typed source, or of the fields of CSV: a way to cast what no attribute can hold.
    """

    path: str = ""
    format: str = "json"
    name: str = "input"
    options: Mapping[str, str] = field(default_factory=dict)
    fields: Fields = STANDARD
    lift: bool = False
    max_files: int | None = None
    """The number of files that a micro-batch takes at most."""
    lines: bool = False
    """XML: each line is a document, instead of each file."""
    select: tuple[str, ...] = ()
    kafka: Reading = PLAIN
    """The reading of values and of the rest of a record of Kafka."""

    def __post_init__(self) -> None:
        if self.format in FILES | {LOG} and not self.path:
            raise PipelineError(
                f"the input {self.name!r} has no path", hint=f"{self.format} is read from files"
            )
        if self.max_files is not None and self.max_files < 1:
            raise PipelineError(
                f"the input {self.name!r}: a batch takes at least one file, not {self.max_files}"
            )
        if self.lines and self.format != "xml":
            raise PipelineError(f"the input {self.name!r}: `lines` is for XML, not for {self.format}")
        if self.select and not self.is_typed:
            raise PipelineError(
                f"the input {self.name!r}: `select` is for typed columns and CSV, not for {self.format}"
            )
        owned = OWNED.get(self.format, frozenset()) & {name.lower() for name in self.options}
        if owned:
            raise PipelineError(
                f"the input {self.name!r}: the option {min(owned)!r} is not free, or rows would be lost or misread"
            )
        if self.format == "csv" and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise PipelineError(
                f"the input {self.name!r}: not a delimiter: {self.delimiter!r}", hint="one letter"
            )

    @property
    def is_typed(self) -> bool:
        """Whether records come as rows of typed columns; with `select`, columns are made of CSV."""
        if self.format == "csv":
            return bool(self.select)
        return self.format not in (FILES - TYPED_FILES) | {"kafka", LOG}

    @property
    def delimiter(self) -> str:
        """The separator of values in a CSV file."""
        return self.options.get("delimiter", self.options.get("sep", ","))


# CSV: Spark finds where records end, minding quotes and line breaks, and does nothing else. No record fits the one
# column of dates that is asked for, so each comes whole, in the column for what is corrupt; Latin-1 gives every
# byte back.
_RECORD: Final = "_record"
_NO_DATE: Final = "no date"
_CSV: Final = {
    "columnNameOfCorruptRecord": _RECORD,
    "dateFormat": f"'{_NO_DATE}'",
    "encoding": "ISO-8859-1",
    "enforceSchema": "true",
    "escape": '"',
    "header": "false",
    "lineSep": "\n",
    "maxColumns": "1000000",
    "mode": "PERMISSIVE",
    "multiLine": "true",
    "quote": '"',
}
_LINE: Final = {"lineSep": "\n", "wholetext": "false"}
_BINARY_FILE: Final = "path string, modificationTime timestamp, length bigint, content binary"
OWNED: Final = {
    "csv": frozenset(map(str.lower, {*_CSV, "inferSchema", "charset", "comment", "nullValue", "emptyValue"})),
    "json": frozenset(map(str.lower, _LINE)),
    "text": frozenset(map(str.lower, _LINE)),
}
"""The options that the reading of records rests on, by format."""


# -- reading -------------------------------------------------------------------------------------------------


def read(spark: SparkSession, input: Input) -> DataFrame:
    """The raw records of an input, each with its origin, or PipelineError where there is nothing to read."""
    _register(spark, input)
    raw = _guarded(input, lambda: _raw(spark.read, input, _schema(spark, input)))
    # Spark plans nothing for an empty file; where every file is a document, that is one without content.
    empty = _empty_files(input.path) if input.format == "xml" and not input.lines else []
    return raw.unionByName(documents(spark, empty)) if empty else raw


def documents(spark: SparkSession, files: Iterable[str]) -> DataFrame:
    """The raw records of XML files that have no bytes."""
    rows = [(b"", {"file": file, "block": None, "ordinal": None}) for file in files]
    return few_rows(spark, rows, _DOCUMENT)


def _empty_files(path: str) -> list[str]:
    """The files below a path that have no bytes, as far as one can see them from here."""
    try:
        system, root = reached(path)
        infos = [system.get_file_info(root)]
        if infos[0].type == fs.FileType.Directory:
            infos = system.get_file_info(fs.FileSelector(root, recursive=True))
        elif infos[0].type == fs.FileType.NotFound and "://" not in path:
            infos = system.get_file_info(list(iglob(path)))
    except (OSError, ValueError, PipelineError):
        return []
    scheme = path.partition("://")[0] if "://" in path else "file"
    return sorted(
        f"{scheme}://{info.path}"
        for info in infos
        if info.type == fs.FileType.File and not info.size and not info.base_name.startswith(("_", "."))
    )


def read_stream(spark: SparkSession, input: Input) -> DataFrame:
    """The raw records of an input that grows."""

    def stream() -> DataFrame:
        check_watchable(input)
        _register(spark, input)
        reader = spark.readStream
        if input.format in FILES:
            # Spark would pass over, in silence, a file that is a week older than the newest one it has seen.
            reader = reader.option("maxFileAge", input.options.get("maxFileAge", AGE_MAX))
        if input.max_files is not None and input.format in FILES:
            reader = reader.option("maxFilesPerTrigger", str(input.max_files))
        schema = _schema(spark, input)
        if input.format in TYPED_FILES and schema is None:
            schema = _file_reader(spark.read, input).load(input.path).schema
        elif input.format in FILES:
            # A stream over Connect would tell of a missing path only once it runs.
            _raw(spark.read, input, schema).schema  # noqa: B018
        return _raw(reader, input, schema)

    return _guarded(input, stream)


def is_text_at_hand(input: Input) -> bool:
    """Whether an input is text in files of this machine: how it is read is known without Spark."""
    return input.format in FILES - TYPED_FILES and not input.select and is_at_hand(input.path)


def check_watchable(input: Input) -> None:
    """PipelineError where the path is that of one file, as far as one can see it from here."""
    if input.format not in FILES:
        return
    try:
        system, path = reached(input.path)
        is_file = system.get_file_info(path).type == fs.FileType.File
    except (OSError, ValueError, PipelineError):
        return
    if is_file:
        raise PipelineError(
            f"the input {input.name!r}: {input.path} is a file, and a stream watches a directory",
            hint='name the directory, or a pattern such as events/*.jsonl; a file alone is for mode = "batch"',
        )


def ingest_input(
    raw: DataFrame, input: Input, schema: Schema | None = None, admission: Admission | None = None
) -> DataFrame:
    """Rows of the raw records of an input."""
    if input.format == "csv" and input.select:
        return _selected(raw, input, schema, admission)
    return ingest(
        raw,
        _format_of(input),
        source=input.name,
        schema=schema,
        fields=input.fields,
        lift=input.lift,
        delimiter=input.delimiter,
        admission=admission,
        kafka=input.kafka,
    )


def _selected(raw: DataFrame, input: Input, schema: Schema | None, admission: Admission | None) -> DataFrame:
    """Rows of CSV whose values `select` makes of the fields, which are strings, or null where they are empty."""
    from pyspark.sql import functions as F

    read = ingest(raw, "csv-texts", source=input.name, delimiter=input.delimiter)
    fields = F.from_json(
        RECORD, ", ".join(f"`{name.replace('`', '``')}` string" for name in _names(raw, input))
    )
    origin = F.struct("file", "block", "ordinal").alias(ORIGIN)
    columns = read.where("reason is null").select(fields.alias("fields"), origin).select("fields.*", ORIGIN)
    made = columns.select(*map(F.expr, input.select), ORIGIN)
    rows = ingest(made, source=input.name, schema=schema, fields=input.fields, admission=admission)
    refused = read.where("reason is not null").drop(RECORD)
    payload = payload_of(rows)
    return rows.unionByName(refused.withColumn(payload, F.lit(None).cast(rows.schema[payload].dataType)))


def _names(raw: DataFrame, input: Input) -> list[str]:
    """The columns of CSV, by the first header that Spark finds."""
    reader = raw.sparkSession.read.option("header", "true").option("sep", input.delimiter)
    return _guarded(input, lambda: reader.format("csv").load(input.path)).columns


def door_of(input: Input, schema: Schema | None = None, admission: Admission | None = None) -> TextDoor:
    """The door that `ingest_input` runs in the workers, where records are text."""
    format = _format_of(input)
    return TextDoor(
        format, input.name, schema, input.fields, input.lift, input.delimiter, admission, input.kafka
    )


def _format_of(input: Input) -> str:
    """The format of records, as `ingest` names it."""
    if input.is_typed:
        return "rows"
    if input.lines:
        return "xml-lines"
    kafka = "json" if input.kafka.is_plain else "kafka"
    return {"kafka": kafka, LOG: "packed"}.get(input.format, input.format)


def kafka_records(frame: DataFrame) -> DataFrame:
    """The raw records of a DataFrame with the columns of Spark's Kafka source: `value`, and where it stood."""
    from pyspark.sql import functions as F

    return frame.select(
        F.col("value").cast("binary"),
        _origin(F.concat(F.lit(KAFKA), F.col("topic")), F.col("partition"), F.col("offset")),
    )


def whole_kafka_records(frame: DataFrame) -> DataFrame:
    """The raw records of the same columns, with all that they have, packed as `kafka.Taken.unpacked` reads it."""
    from pyspark.sql import functions as F

    headers = "headers" in frame.columns
    packed = F.struct(
        "topic",
        "partition",
        "offset",
        F.base64("value").alias("value"),
        F.base64("key").alias("key"),
        F.unix_micros("timestamp").alias("time"),
        *(
            [F.expr("transform(headers, h -> struct(h.key, base64(h.value) as value)) as headers")]
            if headers
            else []
        ),
    )
    whole = frame.withColumn("value", F.encode(F.to_json(packed), "UTF-8"))
    return kafka_records(whole)


def _register(spark: SparkSession, input: Input) -> None:
    """Tell a session of the source that a format needs."""
    if input.format == LOG:
        from fairlead.spark.logs import LogSource

        spark.dataSource.register(LogSource)


def _schema(spark: SparkSession, input: Input) -> StructType | None:
    """The columns that the options name, if they do."""
    given = input.options.get("schema") if input.is_typed else None
    return None if given is None else spark.createDataFrame([], given).schema


def _raw(reader: Any, input: Input, schema: StructType | None) -> DataFrame:
    """The raw frame that a reader, of a batch or of a stream, gives."""
    from pyspark.sql import functions as F

    frame: DataFrame
    file, block = F.col("_metadata.file_path"), F.col("_metadata.file_block_start")
    options = dict(input.options)
    if input.format == "kafka":
        if input.kafka.is_plain:
            return kafka_records(reader.format("kafka").options(**options).load())
        return whole_kafka_records(
            reader.format("kafka").options(**{"includeHeaders": "true"} | options).load()
        )
    if input.format == LOG:
        frame = reader.format(LOG_SOURCE).options(**options).load(input.path)
        return frame.select("value", _origin(F.col("file"), None, F.col("offset")))
    if input.format in LINES or input.lines:
        frame = reader.format("text").options(**options, **_LINE).load(input.path)
        return frame.select(F.col("value").cast("binary"), _origin(file, block, None))
    if input.format == "xml":
        frame = reader.format("binaryFile").schema(_BINARY_FILE).options(**options).load(input.path)
        return frame.select(F.col("content").alias("value"), _origin(file, None, None))
    if input.format == "csv":
        options = {name: value for name, value in options.items() if name.lower() not in ("delimiter", "sep")}
        # As Spark sees Latin-1, so must the delimiter be seen.
        separator = input.delimiter.encode().decode("latin-1")
        records = reader.format("csv").schema(f"_date date, {_RECORD} string").options(**options, **_CSV)
        frame = records.option("sep", separator).load(input.path)
        # One empty field in quotes is null, which every type has: the only record that is not corrupt.
        empty = F.when(F.col("_date").isNull(), F.lit('""')).otherwise(F.lit(_NO_DATE))
        record = F.encode(F.coalesce(F.col(_RECORD), empty), "ISO-8859-1")
        return frame.select(record.alias("value"), _origin(file, None, None))
    reader = _file_reader(reader, input)
    if schema is not None:
        reader = reader.schema(schema)
    frame = reader.load(input.path) if input.path else reader.load()
    columns = [F.expr(each) for each in input.select] or [F.col("*")]
    if input.format in TYPED_FILES:
        return frame.select(*columns, _origin(file, None, None))
    return frame.select(*columns)


def _file_reader(reader: Any, input: Input) -> Any:
    """A reader of typed columns; those that only some files have are not left out."""
    options = {name: value for name, value in input.options.items() if name.lower() != "schema"}
    merge = {"mergeSchema": "true"} if input.format in TYPED_FILES else {}
    return reader.format(input.format).options(**{**merge, **options})


def _origin(file: Column, block: Column | None, ordinal: Column | None) -> Column:
    from pyspark.sql import functions as F

    nothing = F.lit(None)
    return F.struct(
        file.alias("file"),
        (nothing if block is None else block).cast("bigint").alias("block"),
        (nothing if ordinal is None else ordinal).cast("bigint").alias("ordinal"),
    ).alias(ORIGIN)


# -- what can go wrong -----------------------------------------------------------------------------------------

_SAID: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.+?)(?: SQLSTATE|\n\tat |\n\nJVM|\Z)", re.DOTALL)


def _guarded(input: Input, reading: Callable[[], DataFrame]) -> DataFrame:
    """The rows of a source, once Spark has looked at it: over Connect it would complain only when it runs."""
    try:
        frame = reading()
        frame.schema  # noqa: B018
        return frame
    except PipelineError:
        raise
    except Exception as error:
        explained = refusal(error, input) or reason(error)
        if explained is None:
            raise
        raise explained from error


def refusal(error: Exception, input: Input) -> PipelineError | None:
    """Spark's complaint about an input, in one sentence with its name; None where `failures` has a
    better one.

    Some of it shows only as a job runs: a file that came later with other types.
    """
    found = _SAID.search(str(error))
    if found is None:
        return None
    condition, said = found[1], " ".join(found[2].split())
    where = f"the input {input.name!r}"
    if condition == "PATH_NOT_FOUND":
        return PipelineError(
            f"{where}: there is no {input.path}",
            hint="a relative path begins where the pipeline's file is; on a cluster, workers must see it, too",
        )
    if condition == "UNABLE_TO_INFER_SCHEMA":
        return PipelineError(
            f"{where}: {input.path} has no {input.format} file yet to take the columns from",
            hint='the option `schema` gives them: schema = "id string, price double"',
        )
    if condition == "KAFKA_DATA_SOURCE_NOT_ENABLED":
        return connector("kafka", f"{where}: ")
    if condition == "DATA_SOURCE_NOT_FOUND":
        return connector(input.format, f"{where}: ")
    if (
        condition in ("CANNOT_MERGE_SCHEMAS", "CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE")
        or "MISMATCH" in condition
    ):
        return PipelineError(
            f"{where}: the files in {input.path} do not agree on their columns: {said}",
            hint="read them as separate inputs, or write them again with one type for each column",
        )
    if condition.startswith(("UNRESOLVED_COLUMN", "PARSE_SYNTAX_ERROR")):
        return PipelineError(f"{where}: {said}")
    return None
