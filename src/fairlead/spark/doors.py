"""Ingestion in the workers: record batches of raw records in, record batches of rows out.

A row holds a notification (its envelope and its content) or the reason why there is none, and where it stood.
`TextDoor` reads records that are text with the doors of `fairlead.ingest`; JSON it scans first, and only a record
that the scan is not sure of becomes a Python object. `ColumnDoor` reads typed columns: the envelope from whole
columns, and only a row that a column cannot speak for (it has no id, or a letter that is none) becomes a Python
object. Both give what `Notification.of` would make of the record.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from fairlead import kafka
from fairlead.errors import ValueRefused
from fairlead.filters.schema import Schema
from fairlead.ingest import csv, records, rows, text, xml
from fairlead.ingest.jsonlines import content_of
from fairlead.ingest.records import STANDARD, Fields
from fairlead.ingest.rejection import Rejection
from fairlead.model import Instant, Notification
from fairlead.model.encoding import content_hash, format_json
from fairlead.model.order import causes_of
from fairlead.model.packed import unpack
from fairlead.model.values import Record
from fairlead.spark.frames import ATTRIBUTES, ENVELOPE, ENVELOPE_TYPES, PUBLISHED, RECORD, encode
from fairlead.spark.scanning import Mask, scan

if TYPE_CHECKING:
    from fairlead.spark.admission import Admission

__all__ = ["BLANK", "ENVELOPE_ARROW", "ORIGIN", "OUTCOME_TYPES", "TEXT_FORMATS", "ColumnDoor", "TextDoor"]

ORIGIN: Final = "_fairlead_origin"
"""The column of a raw frame with the file, the block in it and the place in that, each null where it has none."""

_PLACE_TYPES: Final = {"file": "string", "block": "bigint", "ordinal": "bigint"}
OUTCOME_TYPES: Final = {"reason": "string", "raw": "binary", **_PLACE_TYPES}
"""The columns of a row besides the notification."""
BLANK: Final = ""
"""The reason of a line that holds nothing: neither a notification nor rejected."""


# -- rows as they leave the door -----------------------------------------------------------------------------

_CAUSES: Final = pa.list_(pa.struct([("producer", pa.string()), ("id", pa.string())]))
_ARROW: Final = {"string": pa.string(), "bigint": pa.int64(), "binary": pa.binary()}
ENVELOPE_ARROW: Final = {name: _ARROW.get(kind, _CAUSES) for name, kind in ENVELOPE_TYPES.items()}
_LONG: Final = range(-(2**63), 2**63)

Outcome: TypeAlias = Notification | Rejection
Envelope: TypeAlias = tuple[Any, ...]
"""The values of the envelope's columns but for the source and the published text."""

_NOTHING: Final[Envelope] = (None,) * (len(ENVELOPE) - 2)


def _envelope(notification: Notification) -> Envelope:
    """The envelope of a notification, or ValueRefused where a column cannot hold it."""
    time = None if notification.time is None else notification.time.microseconds
    if time is not None and time not in _LONG:
        raise ValueRefused(f"the time lies outside of 64 bits of microseconds: {_digits(time)}")
    if notification.sequence is not None and notification.sequence not in _LONG:
        raise ValueRefused(f"the sequence number lies outside of 64 bits: {_digits(notification.sequence)}")
    digest = None
    if notification.id is None:
        digest = content_hash(notification)
    return (
        notification.producer,
        notification.id,
        digest,
        time,
        notification.sequence,
        _causes(notification),
    )


def _causes(notification: Notification) -> list[dict[str, str]] | None:
    return [cause._asdict() for cause in causes_of(notification)] or None


def _digits(number: int) -> str:
    shown = str(number)
    return shown if len(shown) <= 30 else f"a number of {len(shown)} digits"


@dataclass(slots=True)
class _Sheet:
    """Rows being written, a list for each column."""

    source: str
    envelopes: list[Envelope] = field(default_factory=list)
    published: list[str | None] = field(default_factory=list)
    payloads: list[Any] = field(default_factory=list)
    reasons: list[str | None] = field(default_factory=list)
    raws: list[bytes | None] = field(default_factory=list)

    def put(self, envelope: Envelope, payload: Any = None, published: str | None = None) -> None:
        """A notification; `published` is its text, where the payload is another one."""
        self._put(envelope, payload, None, None, published)

    def reject(self, reason: str, raw: bytes | str | None) -> None:
        """Set aside a record that could not be read; or, with the reason BLANK, one that holds nothing."""
        self._put(_NOTHING, None, reason, raw.encode() if isinstance(raw, str) else raw)

    def _put(
        self,
        envelope: Envelope,
        payload: Any,
        reason: str | None,
        raw: bytes | None,
        published: str | None = None,
    ) -> None:
        self.envelopes.append(envelope)
        self.published.append(published)
        self.payloads.append(payload)
        self.reasons.append(reason)
        self.raws.append(raw)

    def batch(self, payload: str, content: pa.Array | None, locations: Sequence[pa.Array]) -> pa.RecordBatch:
        """The rows with their payload, which is what was put unless it is given, and their places."""
        columns = zip(*self.envelopes, strict=True) if self.envelopes else [()] * len(_NOTHING)
        given = [[self.source] * len(self.reasons), *columns, self.published]
        arrays = [pa.array(values, kind) for values, kind in zip(given, ENVELOPE_ARROW.values(), strict=True)]
        return _rows_batch(
            arrays,
            payload,
            pa.array(self.payloads, pa.string()) if content is None else content,
            [pa.array(self.reasons, pa.string()), pa.array(self.raws, pa.binary())],
            locations,
        )


def _rows_batch(
    envelope: Sequence[pa.Array],
    payload: str,
    content: pa.Array,
    outcome: Sequence[pa.Array],
    locations: Sequence[pa.Array],
) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [*envelope, content, *outcome, *locations], [*ENVELOPE, payload, *OUTCOME_TYPES]
    )


# -- where records stand -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Locations:
    """The places of records, batch after batch: in each block of a file they are counted from 0."""

    file: str | None = None
    block: int | None = None
    count: int = 0

    def of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The file, the block and the ordinal of every row."""
        size = batch.num_rows
        if ORIGIN not in batch.schema.names:
            return [pa.nulls(size, pa.string()), pa.nulls(size, pa.int64()), pa.nulls(size, pa.int64())]
        origin = batch.column(ORIGIN)
        file, block, ordinal = (pc.struct_field(origin, name) for name in _PLACE_TYPES)
        if size and ordinal.null_count == size and not block.null_count and not file.null_count:
            ordinal = self._counted(file, block)
        return [file.cast(pa.string()), block.cast(pa.int64()), ordinal.cast(pa.int64())]

    def _counted(self, file: pa.Array, block: pa.Array) -> pa.Array:
        size = len(file)
        codes = file.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        blocks = block.to_numpy(zero_copy_only=False)
        first = np.flatnonzero(np.diff(codes) | np.diff(blocks)) + 1
        starts = np.zeros(size, np.int64)
        starts[first] = first
        ordinals = np.arange(size) - np.maximum.accumulate(starts)
        if (self.file, self.block) == (file[0].as_py(), block[0].as_py()):
            ordinals[: first[0] if len(first) else size] += self.count
        self.file, self.block, self.count = file[-1].as_py(), block[-1].as_py(), int(ordinals[-1]) + 1
        return pa.array(ordinals)


# -- records as text -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextDoor:
    """Record batches of raw records in, record batches of rows out: it runs in the workers."""

    format: str
    source: str = "input"
    schema: Schema | None = None
    fields: Fields = STANDARD
    lift: bool = False
    delimiter: str = ","
    admission: Admission | None = None
    kafka: kafka.Reading | None = None
    """The reading of Kafka's records, where they are more than JSON."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        locations, read = _Locations(), _DOORS[self.format](self)
        for batch in batches:
            where, texts = locations.of(batch), batch.column("value")
            if self._scans:
                rows, sure = _scanned(texts, where, self)
                if rows.num_rows:
                    yield rows
                if sure.all():
                    continue
                rest = pa.array(~sure)
                where, texts = [column.filter(rest) for column in where], texts.filter(rest)
            yield self._read(read, texts, where)

    @property
    def _scans(self) -> bool:
        """Whether most records may be read by a scan: what they hold is then what their text says."""
        return self.format == "json" and self.keeps_text

    def _read(self, read: Read, texts: pa.Array, where: list[pa.Array]) -> pa.RecordBatch:
        """Records one by one, through the door."""
        sheet, kept = _Sheet(self.source), []
        files, blocks, ordinals = (column.to_pylist() for column in where)
        for row, raw in enumerate(texts.to_pylist()):
            number = ordinals[row] + 1 if blocks[row] == 0 else None
            if read(raw, files[row], number, sheet):
                kept.append(row)
        if len(kept) < len(texts):
            where = [column.take(pa.array(kept, pa.int64())) for column in where]
        return sheet.batch(RECORD, None, where)

    @property
    def keeps_text(self) -> bool:
        """Whether a flat record's own text has all that its notification has.

        A broker's log may hold the content beside the attributes, as a door before the broker read it.
        """
        return self.format not in ("packed", "kafka") and self.schema is None and self.fields == STANDARD

    def enter(self, outcome: Outcome, raw: bytes, sheet: _Sheet, published: str | None = None) -> None:
        """Put down what a door made of a record; `published` is its text, where that is JSON."""
        outcome = _admitted(outcome, self.admission, raw, self.source)
        if isinstance(outcome, Notification):
            try:
                # A CloudEvent reads as one at this door only; behind it, a record's text is read as it stands.
                plain = published is not None and self.keeps_text and "specversion" not in outcome.attributes
                record = published if plain else encode(outcome)
                sheet.put(_envelope(outcome), record, None if record == published else published)
            except ValueRefused as error:
                outcome = Rejection.of(error, raw, source=self.source)
        if isinstance(outcome, Rejection):
            sheet.reject(outcome.reason, outcome.raw)


_SCANNED: Final = ("id", "producer", "time", "sequence", "cause", "specversion", "tuple")


def _scanned(texts: pa.Array, where: Sequence[pa.Array], door: TextDoor) -> tuple[pa.RecordBatch, Mask]:
    """The rows of those records that a scan is sure of, and which these are."""
    contents = pc.ascii_trim_whitespace(texts.view(pa.string()))
    found = scan(contents, _SCANNED)
    # Who has no id gets one by its content; a CloudEvent and a tuple are read in ways of their own.
    found.sure &= found.has("id") & ~found.has("specversion") & ~found.has("tuple")
    id, producer = found.texts("id"), found.texts("producer").fill_null("")
    if door.admission is not None:
        found.sure &= ~door.admission.asks(producer, contents)
    time, sequence = found.instants("time"), found.wholes("sequence")
    cause = found.texts("cause")
    size, sure = len(texts), pa.array(found.sure)
    envelope = {
        "source": pa.array([door.source] * size, pa.string()),
        "producer": producer,
        "id": id,
        "digest": pa.nulls(size, pa.string()),
        "event_time": time,
        "sequence": sequence,
        "causes": _named_causes(cause, producer),
        PUBLISHED: pa.nulls(size, pa.string()),
    }
    outcome = [pa.nulls(size, pa.string()), pa.nulls(size, pa.binary())]
    rows = _rows_batch([envelope[name] for name in ENVELOPE], RECORD, contents, outcome, where)
    return (rows if found.sure.all() else rows.filter(sure)), found.sure


def _admitted(found: Outcome, admission: Admission | None, raw: bytes | str, source: str) -> Outcome:
    """The outcome of a door, unless it is a notification that may not be published."""
    objection = None if admission is None or isinstance(found, Rejection) else admission.objection(found)
    if objection is None:
        return found
    return Rejection.of(objection.error, b"" if objection.is_secret else raw, source=source)


def _named_causes(cause: pa.Array, producer: pa.Array) -> pa.Array:
    """The causes that texts name, each at most one."""
    if cause.null_count == len(cause):
        return pa.nulls(len(cause), _CAUSES)
    there = cause.is_valid()
    named = [
        _causes(Notification(Record({"cause": text}), producer=own))
        for text, own in zip(cause.filter(there).to_pylist(), producer.filter(there).to_pylist(), strict=True)
    ]
    positions = np.cumsum(there.to_numpy(zero_copy_only=False)) - 1
    return pa.array(named, _CAUSES).take(pa.array(positions, mask=~there.to_numpy(zero_copy_only=False)))


Read: TypeAlias = Callable[[bytes | None, str | None, int | None, _Sheet], bool]
"""Read a record of a file, whose number is given where it is the line's number in the file, onto a sheet.

The answer is whether it has a row there: a header has none.
"""


def _json(door: TextDoor) -> Read:
    def read(raw: bytes, number: int | None, sheet: _Sheet) -> None:
        content = content_of(raw, number or 0)
        if not content:
            sheet.reject(BLANK, None)
            return
        found = records.read(content, schema=door.schema, lift=door.lift, fields=door.fields)
        door.enter(found, content, sheet, content.decode() if isinstance(found, Notification) else None)

    return _each(read)


def _xml(door: TextDoor) -> Read:
    def read(raw: bytes, _: int | None, sheet: _Sheet) -> None:
        door.enter(xml.read(raw, schema=door.schema, fields=door.fields), raw, sheet)

    return _each(read)


def _xml_lines(door: TextDoor) -> Read:
    def read(raw: bytes, number: int | None, sheet: _Sheet) -> None:
        content = content_of(raw, number or 0)
        if content:
            door.enter(xml.read(content, schema=door.schema, fields=door.fields), content, sheet)
        else:
            sheet.reject(BLANK, None)

    return _each(read)


def _text(door: TextDoor) -> Read:
    def read(raw: bytes, number: int | None, sheet: _Sheet) -> None:
        if not content_of(raw, number or 0):
            sheet.reject(BLANK, None)
            return
        found = text.read_line(raw, line=number, schema=door.schema, fields=door.fields)
        door.enter(found, raw, sheet)

    return _each(read)


def _csv(door: TextDoor) -> Read:
    def take(reader: csv.Reader, raw: bytes, sheet: _Sheet) -> bool:
        found = reader.read(raw)
        if found is not None:
            door.enter(found, raw, sheet)
        return found is not None

    return _below_headers(door, take)


def _csv_texts(door: TextDoor) -> Read:
    """The fields of a CSV record as they are written: `select` makes values of them."""

    def take(reader: csv.Reader, raw: bytes, sheet: _Sheet) -> bool:
        found = reader.texts(raw)
        if isinstance(found, Rejection):
            sheet.reject(found.reason, found.raw)
        elif found is not None:
            sheet.put(_NOTHING, format_json(found))
        return found is not None

    return _below_headers(door, take)


def _below_headers(door: TextDoor, take: Callable[[csv.Reader, bytes, _Sheet], bool]) -> Read:
    """Records of tables, file after file; `take` says whether it has put one down."""
    reader, reading = csv.Reader(), ""

    def read(raw: bytes | None, file: str | None, _: int | None, sheet: _Sheet) -> bool:
        nonlocal reader, reading
        if file is not None and file != reading:
            reader, reading = csv.Reader(door.source, door.schema, door.fields, door.delimiter), file
        named = reader.names is not None
        if take(reader, raw or b"", sheet):
            return True
        if named or reader.names is None:
            sheet.reject(BLANK, None)
            return True
        return False

    return read


def _packed(door: TextDoor) -> Read:
    """A notification as brokers log it: it has passed a door before, and only a schema can refuse it now."""

    def read(raw: bytes, _: int | None, sheet: _Sheet) -> None:
        try:
            notification = unpack(raw)
            found: Outcome = notification if door.schema is None else door.schema.admit(notification)
        except ValueRefused as error:
            found = Rejection.of(error, raw, source=door.source)
        content = found.written()[1] if isinstance(found, Notification) else None
        door.enter(found, raw, sheet, None if content is None else format_json(content))

    return _each(read)


def _kafka(door: TextDoor) -> Read:
    """A record of Kafka with all that it has, as `sources.whole_kafka_records` packs it."""
    assert door.kafka is not None
    reading = replace(door.kafka, fields=door.fields, lift=door.lift, schema=door.schema, source=door.source)

    def read(raw: bytes, _: int | None, sheet: _Sheet) -> None:
        taken = kafka.Taken.unpacked(raw)
        found = reading.read(taken)
        if found is None:
            sheet.reject(BLANK, None)
        else:
            door.enter(found, taken.value or b"", sheet)

    return _each(read)


def _each(read: Callable[[bytes, int | None, _Sheet], None]) -> Read:
    """Every record has a row, those too in which there is nothing at all."""

    def read_any(raw: bytes | None, _: str | None, number: int | None, sheet: _Sheet) -> bool:
        if raw is None:
            sheet.reject("null, where a record should be", b"")
        else:
            read(raw, number, sheet)
        return True

    return read_any


_DOORS: Final[dict[str, Callable[[TextDoor], Read]]] = {
    "json": _json,
    "xml": _xml,
    "xml-lines": _xml_lines,
    "csv": _csv,
    "csv-texts": _csv_texts,
    "text": _text,
    "packed": _packed,
    "kafka": _kafka,
}
TEXT_FORMATS: Final = tuple(_DOORS)


# -- typed columns ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnDoor:
    """Record batches of typed columns, in one struct, in; record batches of rows out: it runs in the workers."""

    source: str = "input"
    schema: Schema | None = None
    payload: str = ATTRIBUTES
    by_row: bool = False
    admission: Admission | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        locations = _Locations()
        for batch in batches:
            where = locations.of(batch)
            columns = pa.RecordBatch.from_struct_array(batch.column(ATTRIBUTES))
            slow = np.ones(len(batch), np.bool_) if self.by_row else _cannot_speak(columns)
            if self.admission is not None and not slow.all():
                rest = columns.filter(pa.array(~slow))
                slow[~slow] = self.admission.asks(pc.fill_null(_texts(rest, "producer"), ""), rest)
            if not slow.any():
                yield self._quick(columns, where)
                continue
            if not slow.all():
                quick = pa.array(~slow)
                yield self._quick(columns.filter(quick), [each.filter(quick) for each in where])
            chosen = pa.array(slow)
            yield self._slow(columns.filter(chosen), [each.filter(chosen) for each in where])

    def _quick(self, columns: pa.RecordBatch, where: Sequence[pa.Array]) -> pa.RecordBatch:
        """Rows of which every one is a notification with an id, by column."""
        size = columns.num_rows
        producer = pc.fill_null(_texts(columns, "producer"), "")
        times = _column(columns, "time")
        envelope = {
            "source": pa.array([self.source] * size, pa.string()),
            "producer": producer,
            "id": _texts(columns, "id"),
            "digest": pa.nulls(size, pa.string()),
            "event_time": pa.nulls(size, pa.int64()) if times is None else _microseconds(times),
            "sequence": _longs(columns, "sequence"),
            "causes": _causes_column(columns, producer),
            PUBLISHED: pa.nulls(size, pa.string()),
        }
        outcome = [pa.nulls(size, pa.string()), pa.nulls(size, pa.binary())]
        content = _struct(columns)
        return _rows_batch([envelope[name] for name in ENVELOPE], self.payload, content, outcome, where)

    def _slow(self, columns: pa.RecordBatch, where: Sequence[pa.Array]) -> pa.RecordBatch:
        """Rows one by one, through the door."""
        sheet = _Sheet(self.source)
        for row in _rows_of(columns):
            found: Outcome = row if isinstance(row, Rejection) else rows.read(row, schema=self.schema)
            if not isinstance(row, Rejection):
                found = _admitted(found, self.admission, rows.raw_of(row), self.source)
            if isinstance(found, Notification):
                try:
                    sheet.put(_envelope(found), encode(found) if self.payload == RECORD else None)
                except ValueRefused as error:
                    assert not isinstance(row, Rejection)
                    found = Rejection.of(error, rows.raw_of(row), source=self.source)
            if isinstance(found, Rejection):
                sheet.reject(found.reason, found.raw)
        if self.payload == RECORD:
            return sheet.batch(RECORD, None, where)
        refused = pa.array([reason is not None for reason in sheet.reasons])
        return sheet.batch(ATTRIBUTES, _struct(columns, refused), where)


def _struct(columns: pa.RecordBatch, mask: pa.Array | None = None) -> pa.Array:
    """The columns as one. A row that is refused has none of them, so each may be null."""
    fields = [each.with_nullable(True) for each in columns.schema]
    return pa.StructArray.from_arrays(columns.columns, fields=fields, mask=mask)


def _column(columns: pa.RecordBatch, name: str) -> pa.Array | None:
    return columns.column(name) if name in columns.schema.names else None


def _texts(columns: pa.RecordBatch, name: str) -> pa.Array:
    found = _column(columns, name)
    return pa.nulls(columns.num_rows, pa.string()) if found is None else found.cast(pa.string())


def _longs(columns: pa.RecordBatch, name: str) -> pa.Array:
    found = _column(columns, name)
    return pa.nulls(columns.num_rows, pa.int64()) if found is None else found.cast(pa.int64())


def _causes_column(columns: pa.RecordBatch, producer: pa.Array) -> pa.Array:
    """The causes that rows name; most name none."""
    found = _column(columns, "cause")
    if found is None or found.null_count == len(found):
        return pa.nulls(columns.num_rows, _CAUSES)
    named = [
        None
        if cause is None
        else _causes(Notification(Record(rows.without_nulls({"cause": cause})), producer=own))
        for cause, own in zip(found.to_pylist(), producer.to_pylist(), strict=True)
    ]
    return pa.array(named, _CAUSES)


# -- what whole columns can say ---------------------------------------------------------------------------------

_YEARS: Final = tuple(
    Instant.of(dt.datetime(year, month, day, tzinfo=dt.UTC)).microseconds
    for year, month, day in ((1, 1, 3), (9999, 12, 29))
)
"""Within these, a timestamp is a datetime of Python's in every zone."""


def _cannot_speak(columns: pa.RecordBatch) -> Mask:
    """The rows that need the door: without an id, perhaps without a meaning, or with an envelope of odd types."""
    unsure = np.zeros(columns.num_rows, np.bool_)
    for column in columns.columns:
        unsure |= _unsure(column)
    for name in ("id", "producer"):
        found = _column(columns, name)
        if found is not None and not (_is_string(found.type) or pa.types.is_integer(found.type)):
            unsure |= _valid(found)
    id, time, sequence = (_column(columns, name) for name in ("id", "time", "sequence"))
    unsure |= True if id is None else ~_valid(id)
    if time is not None and _is_string(time.type):
        # Only these can be read as times; what is not UTF-8 has been found above.
        unsure |= _are_no_times(time, unsure)
    elif time is not None and not (pa.types.is_timestamp(time.type) or pa.types.is_integer(time.type)):
        unsure |= _valid(time)
    if sequence is not None and not pa.types.is_integer(sequence.type):
        unsure |= _valid(sequence)
    return unsure


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _valid(array: pa.Array) -> Mask:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def _unsure(array: pa.Array) -> Mask:
    """The rows whose value in a column, at any depth, may be one that no notification has."""
    nothing = np.zeros(len(array), np.bool_)
    kind = array.type
    if _is_string(kind):
        return (
            nothing if _is_utf8(array) else np.array([not _decodes(each) for each in array.cast(pa.binary())])
        )
    if pa.types.is_timestamp(kind):
        whole = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return np.asarray((whole < _YEARS[0]) | (whole > _YEARS[1]))
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            nothing |= _unsure(pc.struct_field(array, [number]))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        within = _unsure(array.flatten())
        if within.any():
            owners = pc.list_parent_indices(array).to_numpy(zero_copy_only=False)
            nothing[owners[within]] = True
    return nothing


def _is_utf8(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _decodes(scalar: pa.Scalar) -> bool:
    try:
        (scalar.as_py() or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


_COMMON_TIME: Final = r"\A[12]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z\z"
"""The form that Arrow and `Instant.parse` read alike."""


def _microseconds(times: pa.Array) -> pa.Array:
    """The instants of a column, of which all are such."""
    if not _is_string(times.type):
        return times.cast(pa.int64())
    if (quick := _quick_times(times)) is not None:
        return quick
    parsed = [None if each is None else Instant.parse(each).microseconds for each in times.to_pylist()]
    return pa.array(parsed, pa.int64())


def _quick_times(times: pa.Array) -> pa.Array | None:
    """The instants of strings, where all have the common form and are dates of the calendar."""
    if not pc.all(pc.match_substring_regex(times, _COMMON_TIME), min_count=0).as_py():
        return None
    try:
        return times.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def _are_no_times(times: pa.Array, unsure: Mask) -> Mask:
    if not unsure.any() and _quick_times(times) is not None:
        return np.zeros(len(times), np.bool_)
    return np.array(
        [not doubt and _is_no_time(each.as_py()) for each, doubt in zip(times, unsure.tolist(), strict=True)],
        np.bool_,
    )


def _is_no_time(text: str | None) -> bool:
    try:
        return text is not None and Instant.parse(text).microseconds not in _LONG
    except ValueRefused:
        return True


def _rows_of(columns: pa.RecordBatch) -> list[dict[str, Any] | Rejection]:
    """The rows of a batch as Python has them; a value that Python cannot have is a rejection of its row."""
    try:
        return list(columns.to_pylist())
    except (ValueError, OverflowError):
        return [_row_at(columns, row) for row in range(columns.num_rows)]


def _row_at(columns: pa.RecordBatch, at: int) -> dict[str, Any] | Rejection:
    row: dict[str, Any] = {}
    problems = []
    for name, column in zip(columns.schema.names, columns.columns, strict=True):
        try:
            row[name] = column[at].as_py()
        except (ValueError, OverflowError) as error:
            problems.append(f"{_problem(error)} under {name!r}")
            row[name] = column.slice(at, 1).cast(_bare(column.type))[0].as_py()
    if not problems:
        return row
    return Rejection.of(ValueRefused("; ".join(problems)), rows.raw_of(row), source="rows")


def _problem(error: ValueError | OverflowError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 ({error.reason} at byte {error.start + 1})"
    return "an instant outside of the years 1 to 9999"


def _bare(kind: pa.DataType) -> pa.DataType:
    """The type with what Python refuses as what it is made of: strings as bytes, timestamps as numbers."""
    if _is_string(kind):
        return pa.binary()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(_bare(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _bare(each.type)) for each in kind])
    return kind
