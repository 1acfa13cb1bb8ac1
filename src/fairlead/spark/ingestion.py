"""Ingest: every record of a DataFrame becomes one row, with a notification in it or with the reason why not.

Records as text (JSON, XML, CSV, plain lines) go through the same doors as in plain Python, and what they hold
travels as JSON text. Typed columns stay what they are, and null means absent. What comes out means in either case
what `Notification.of` makes of the record, and nothing is dropped: each record is read, rejected or blank.

A raw DataFrame may say where its records come from, in the column that `ORIGIN` names; `sources` makes such ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from fairlead.errors import PipelineError, ValueRefused
from fairlead.filters.schema import Schema
from fairlead.ingest.records import STANDARD, Fields
from fairlead.ingest.times import UNITS
from fairlead.kafka import Reading
from fairlead.model import Kind, check_name
from fairlead.model.values import DEPTH_MAX
from fairlead.spark.config import format_duration
from fairlead.spark.doors import BLANK, ORIGIN, OUTCOME_TYPES, TEXT_FORMATS, ColumnDoor, TextDoor
from fairlead.spark.frames import ATTRIBUTES, ENVELOPE, ENVELOPE_TYPES, PUBLISHED, RECORD, payload_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

    from fairlead.spark.admission import Admission

__all__ = ["AHEAD", "KAFKA", "ORIGIN", "ingest", "not_ahead", "notifications", "rejected"]

AHEAD: Final = "the time lies ahead of the clock by more than "
"""The beginning of the reason for what lies too far ahead."""
KAFKA: Final = "kafka:"
"""The file of a record from Kafka is this and the topic, its block is the partition, its ordinal the offset."""


# -- the stage ---------------------------------------------------------------------------------------------


def ingest(
    raw: DataFrame,
    format: str = "rows",
    *,
    source: str = "input",
    schema: Schema | None = None,
    fields: Fields = STANDARD,
    lift: bool = False,
    delimiter: str = ",",
    admission: Admission | None = None,
    kafka: Reading | None = None,
) -> DataFrame:
    """Rows: one per record of a DataFrame, read or not. What the `admission` does not admit is rejected.

    With the format "rows" a record is a row of typed columns; with "json", "xml", "xml-lines", "csv" and "text"
    it stands in the column `value`, as a string or as bytes. The first record of a CSV file is its header, so
    such records come in order and with their file, as `sources.read` gives them.
    """
    from pyspark.sql import functions as F

    if format == "rows":
        return _ingest_columns(raw, source, schema, fields, admission)
    if format not in TEXT_FORMATS:
        raise PipelineError(
            f"no format of records is named {format!r}",
            hint=f"the formats are rows, {', '.join(TEXT_FORMATS)}",
        )
    if "value" not in raw.columns:
        raise PipelineError(
            f"records in the format {format!r} are in a column `value`, and the columns are "
            f"{', '.join(raw.columns)}",
            hint='typed columns are of the format "rows"',
        )
    if format == "csv" and ORIGIN not in raw.columns:
        raise PipelineError(
            "a CSV file's records follow its header, so they are read from files",
            hint="`sources.read` does, or read it with Spark and ingest the columns as rows",
        )
    content = raw.select(F.col("value").cast("binary"), *([ORIGIN] if ORIGIN in raw.columns else []))
    door = TextDoor(format, source, schema, fields, lift, delimiter, admission, kafka)
    return content.mapInArrow(door, _ddl({**ENVELOPE_TYPES, RECORD: "string", **OUTCOME_TYPES}))


def notifications(rows: DataFrame) -> DataFrame:
    """The rows that were read: the envelope of each notification, and its content."""
    return rows.where(rows["reason"].isNull()).select(*ENVELOPE, payload_of(rows))


def not_ahead(rows: DataFrame, now_us: int, ahead_us: int) -> DataFrame:
    """The rows, with those rejected that lie further ahead of the clock than is allowed."""
    from pyspark.sql import functions as F

    payload = payload_of(rows)
    limit = F.lit(min(now_us + ahead_us, 2**63 - 1)).cast("bigint")
    is_ahead = F.col("reason").isNull() & (F.col("event_time") > limit)
    content = F.to_json(payload) if payload == ATTRIBUTES else F.coalesce(PUBLISHED, payload)
    said = F.concat(
        F.lit(f"{AHEAD}{format_duration(ahead_us)}: "), F.timestamp_micros("event_time").cast("string")
    )
    return rows.withColumns(
        {
            "raw": F.when(is_ahead, F.encode(content, "UTF-8")).otherwise(F.col("raw")),
            "reason": F.when(is_ahead, said).otherwise(F.col("reason")),
        }
    )


def rejected(rows: DataFrame) -> DataFrame:
    """The records that could not be read, whole, with the reason and location: source, file, line,
    reason, raw.

    Spark cuts large files into blocks, so the number of a line is known once the lines of the blocks before are
    counted. A job finds out whether there is anything to number; only then are lines counted. Rows that are used
    elsewhere too are best persisted before.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    refused = rows.where(rows["reason"].isNotNull() & (rows["reason"] != BLANK))
    from_kafka = F.coalesce(F.col("file").startswith(KAFKA), F.lit(False))
    in_a_later_block = (F.col("block") > 0) & ~from_kafka
    file = F.when(from_kafka, F.concat_ws("/", "file", "block")).otherwise(F.col("file"))
    before: Column = F.lit(0)
    if not refused.where(in_a_later_block).isEmpty():
        files = refused.where(in_a_later_block).select("file").distinct()
        earlier = Window.partitionBy("file").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
        counted = rows.join(files, "file", "left_semi").groupBy("file", "block").count()
        blocks = counted.select("file", "block", F.sum("count").over(earlier).alias("before"))
        refused = refused.join(blocks, ["file", "block"], "left")
        before = F.coalesce("before", F.lit(0))
    line = F.when(from_kafka, F.col("ordinal")).when(
        F.col("block").isNotNull(), before + F.col("ordinal") + 1
    )
    return refused.select("source", file.alias("file"), line.cast("bigint").alias("line"), "reason", "raw")


def _ddl(types: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in types.items())


# -- typed columns ---------------------------------------------------------------------------------------------

_TAKEN: Final = ("id", "producer", "time", "sequence", "cause")
"""The attributes that the envelope is made of."""
_POSSIBLE: Final = frozenset(
    {
        *("string", "char", "varchar", "binary", "boolean", "timestamp"),
        *("byte", "short", "integer", "long", "float", "double", "decimal"),
    }
)
"""Spark's types whose values are values of notifications, besides structs and arrays of such."""
_WHOLE: Final = ("byte", "short", "integer", "long")
_WAYS_OUT: Final = {
    "date": "a notification has instants and strings: cast({0} as timestamp) or cast({0} as string)",
    "timestamp_ntz": "without a zone it is no instant: cast({0} as timestamp) takes that of the session",
    "map": "a struct has its names in its type, and to_json({0}) is a string",
}


def _ingest_columns(
    raw: DataFrame, source: str, schema: Schema | None, fields: Fields, admission: Admission | None
) -> DataFrame:
    table = _Table.of(raw, fields)
    payload = RECORD if schema is not None and table.is_altered_by(schema) else ATTRIBUTES
    door = ColumnDoor(source, schema, payload, schema is not None or table.must_go_by_row, admission)
    return table.frame.mapInArrow(door, _rows_type(table.struct if payload == ATTRIBUTES else None))


def _rows_type(attributes: StructType | None) -> StructType:
    """The type of rows, with the attributes' own types or as text."""
    from pyspark.sql import types as T

    cause = T.StructType([T.StructField("producer", T.StringType()), T.StructField("id", T.StringType())])
    kinds = {"string": T.StringType(), "bigint": T.LongType(), "binary": T.BinaryType()}
    rows = T.StructType()
    for name, kind in ENVELOPE_TYPES.items():
        rows.add(name, kinds.get(kind, T.ArrayType(cause)))
    rows.add(RECORD, T.StringType()) if attributes is None else rows.add(ATTRIBUTES, attributes)
    for name, kind in OUTCOME_TYPES.items():
        rows.add(name, kinds[kind])
    return rows


@dataclass(frozen=True, slots=True)
class _Table:
    """A DataFrame of typed columns, looked at once before anything runs."""

    frame: DataFrame
    struct: StructType
    must_go_by_row: bool

    @classmethod
    def of(cls, raw: DataFrame, fields: Fields) -> _Table:
        """The columns that can be attributes, with the envelope's under its own names; or PipelineError."""
        from pyspark.sql import functions as F
        from pyspark.sql import types as T

        given = raw.schema
        names = [each.name for each in given if each.name != ORIGIN and each.dataType.typeName() != "void"]
        if not names:
            raise PipelineError("a DataFrame without columns holds no notifications")
        doubtful = False
        for name in names:
            _check_step(name)
            doubtful |= _check_type(given[name].dataType, name)
        paths = dict(_paths(T.StructType([given[name] for name in names])))
        copies = {
            own: _steps(paths, theirs, own) for own, theirs in _mapping(fields).items() if theirs != own
        }
        _refuse_twins([*names, *copies], _is_case_sensitive(raw))
        origin = [F.col(ORIGIN)] if ORIGIN in raw.columns else []
        columns = {name: (name,) for name in names} | copies
        # In one struct: mapInArrow of PySpark takes a dot in a column's name for a way into the column.
        packed = {name: F.col(".".join(map(_quoted, steps))) for name, steps in columns.items()}
        types = {name: paths[".".join(steps)][1] for name, steps in columns.items()}
        if fields.times.form and "time" in packed and types["time"].typeName() != "timestamp":
            packed["time"] = _instants(packed["time"], types["time"], fields)
            types["time"] = T.TimestampType()
        frame = raw.select(
            F.struct(*(column.alias(name) for name, column in packed.items())).alias(ATTRIBUTES), *origin
        )
        struct = T.StructType([T.StructField(name, kind) for name, kind in types.items()])
        return cls(frame, struct, doubtful or _must_go_by_row(struct))

    def is_altered_by(self, schema: Schema) -> bool:
        """Whether a schema reads values of a column as others, so that the column does not say what they mean."""
        altered = {Kind.TIME: "string", Kind.ARRAY: "array", Kind.TUPLE: "array"}
        for path, (_, kind) in _paths(self.struct):
            declared = schema.domain(path)
            if declared is not None and path != "time" and altered.get(declared.kind) == kind.typeName():
                return True
        return False


def _instants(column: Column, kind: DataType, fields: Fields) -> Column:
    """A column of numbers as instants; what is no instant is one that the door refuses."""
    from pyspark.sql import functions as F

    unit = UNITS.get(fields.times.form)
    if unit is None or kind.typeName() not in _WHOLE:
        raise PipelineError(
            f"the column {fields.time!r} is of type {kind.simpleString()}, and times are in the form "
            f"{fields.times.form!r}",
            hint="whole numbers have a unit (s, ms, us, ns); of others `select` makes timestamps, as in "
            f"to_timestamp({fields.time}, 'dd.MM.yyyy HH:mm') {fields.time}",
        )
    exact = column.cast("decimal(20,0)") * F.lit(unit)
    inside = (exact == F.floor(exact)) & F.abs(exact).cast("decimal(38,0)").between(0, 2**62)
    microseconds = F.when(inside, exact).when(column.isNotNull(), F.lit(2**62)).cast("bigint")
    return F.timestamp_micros(microseconds)


def _mapping(fields: Fields) -> dict[str, str]:
    return {own: getattr(fields, own) for own in ("id", "producer", "time", "sequence")}


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


Path: TypeAlias = "tuple[str, tuple[tuple[str, ...], DataType]]"


def _paths(struct: StructType, above: tuple[str, ...] = ()) -> Iterator[Path]:
    """The dotted names under which values can be found, with the steps that lead there and the type."""
    for each in struct:
        steps = (*above, each.name)
        yield ".".join(steps), (steps, each.dataType)
        if each.dataType.typeName() == "struct":
            yield from _paths(each.dataType, steps)  # type: ignore[arg-type]


def _steps(paths: Mapping[str, tuple[tuple[str, ...], DataType]], theirs: str, own: str) -> tuple[str, ...]:
    if theirs not in paths:
        raise PipelineError(
            f"no column {theirs!r}, which is to be the {own!r} of the notifications",
            hint=f"the columns are {', '.join(paths)}",
        )
    return paths[theirs][0]


def _refuse_twins(names: Sequence[str], case_sensitive: bool) -> None:
    seen: dict[str, str] = {}
    for name in names:
        twin = seen.setdefault(name if case_sensitive else name.lower(), name)
        if twin is name:
            continue
        raise PipelineError(
            f"two columns are named {name!r}"
            if twin == name
            else f"the columns {twin!r} and {name!r} differ in case only",
            hint="rename one of them; a mapped field is copied to the envelope's own name"
            if twin == name
            else "rename one of them, or set spark.sql.caseSensitive to true",
        )


def _is_case_sensitive(frame: DataFrame) -> bool:
    return str(frame.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"


def _check_step(name: str) -> None:
    try:
        check_name(name)
    except ValueRefused as error:
        raise PipelineError(f"a column that cannot be an attribute: {error}") from None


def _check_type(kind: DataType, path: str, depth: int = 1) -> bool:
    """Refuse a type that no attribute can have; the answer is whether only the rows' door can judge its values."""
    name = kind.typeName()
    if name == "array":
        return _check_type(kind.elementType, path, depth + 1)  # type: ignore[attr-defined]
    if name == "struct":
        doubtful = depth > DEPTH_MAX // 2
        for each in kind:  # type: ignore[attr-defined]
            _check_step(each.name)
            doubtful |= _check_type(each.dataType, f"{path}.{each.name}", depth + 1) or "." in each.name
        return doubtful
    if name not in _POSSIBLE:
        way_out = _WAYS_OUT.get(name, "leave {0} out, or cast it")
        raise PipelineError(
            f"the column {path!r} is of type {kind.simpleString()}, which no attribute can have",
            hint=way_out.format(path),
        )
    return depth > DEPTH_MAX // 2


def _must_go_by_row(struct: StructType) -> bool:
    """Whether values of several columns can clash, or be too many, which no single column shows."""
    top = [each.name for each in struct]
    dotted = [name.split(".") for name in top if "." in name]
    if "tuple" in top or any(first in _TAKEN for first, *_ in dotted):
        return True
    paths = [path for path, _ in _paths(struct)]
    known = set(paths)
    return len(known) < len(paths) or any(
        ".".join(steps[:length]) in known for steps in dotted for length in range(1, len(steps))
    )
