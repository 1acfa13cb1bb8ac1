"""The trace as a table: one row per event; reading gives back what was written.

    v               integer    the version of the format
    event           string     pub, sub, unsub, adv, unadv, ready, notify, topology, scope, fault, language, end
    component       string     the component that subscribes, advertises or is notified
    time            long       pub: the order time; with the next three it is the order key; notify: where moved
    producer        string     pub, notify
    sequence        long       pub
    id              string     pub, notify
    version         string     notify: the tag of the version; this column may be missing
    event_time      long       pub: the notification's own time
    record          string     pub: its attributes as JSON; in an array, where there is more, the whole of it
    subscription    string     sub, unsub, ready: which one
    advertisement   string     adv, unadv, ready: which one
    filter          string     sub, adv
    from, until     order key  sub, adv; until also with unsub, unadv
    ready           boolean    sub, adv
    subscriptions   strings    notify: those that matched
    change, about   string     topology, scope, fault; about, which is JSON, also language

Instants are microseconds. The index of an event is its number in the order of files by name and, within a file,
of rows: a directory of sorted files is a trace, whichever program wrote it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import fs

from fairlead.audit.trace import Event, Language, Published, Reading, event_from_json, event_to_json
from fairlead.errors import TraceRefused, ValueRefused
from fairlead.filters.schema import Schema
from fairlead.ingest import Rejection
from fairlead.model.encoding import format_json, parse_json
from fairlead.model.order import event_time

__all__ = [
    "SCHEMA",
    "File",
    "check_columns",
    "event_of",
    "files",
    "jsonable_of",
    "language_of",
    "read",
    "row_of",
    "table_of",
    "write",
]

_KEY: Final = pa.struct(
    [("time", pa.int64()), ("producer", pa.string()), ("sequence", pa.int64()), ("id", pa.string())]
)

SCHEMA: Final = pa.schema(
    [
        pa.field("v", pa.int32(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        ("component", pa.string()),
        *_KEY,
        ("event_time", pa.int64()),
        ("record", pa.string()),
        ("subscription", pa.string()),
        ("advertisement", pa.string()),
        ("filter", pa.string()),
        ("from", _KEY),
        ("until", _KEY),
        ("ready", pa.bool_()),
        ("subscriptions", pa.list_(pa.string())),
        ("change", pa.string()),
        ("about", pa.string()),
        ("version", pa.string()),
    ]
)
"""The columns of a trace."""
OPTIONAL: Final = frozenset({"version"})
"""Columns that traces of earlier versions lack."""

_ROWS: Final = 100_000
"""The number of rows in one row group."""


# -- events and rows ---------------------------------------------------------------------------------------


def row_of(event: Event) -> dict[str, Any]:
    """The row of an event; ValueRefused for a value without a text form, or an integer beyond 64 bits."""
    row = event_to_json(event)
    if isinstance(event, Published):
        row = _row_of_published(event, row)
    else:
        for name in row.keys() & {"from", "until"}:
            row[name] = dict(zip(_names(_KEY), row[name], strict=True))
        if "filter" in row:
            row.setdefault("ready", True)
        if "about" in row:
            row["about"] = format_json(row["about"])
        if "order" in row:
            row["time"] = row.pop("order")
    for key in (row, row.get("from") or {}, row.get("until") or {}):
        for name in ("time", "sequence", "event_time"):
            if not -(2**63) <= (key.get(name) or 0) < 2**63:
                raise ValueRefused(f"{name} {key[name]}: a table holds integers of 64 bits")
    return row


def _row_of_published(event: Published, row: dict[str, Any]) -> dict[str, Any]:
    content, key, notification = row["notification"], event.key, event.notification
    return {
        "v": row["v"],
        "event": row["event"],
        "time": key.time,
        "producer": key.producer,
        "sequence": key.sequence,
        "id": key.id,
        "event_time": None if notification.time is None else event_time(notification),
        "record": format_json([content] if content.keys() & _MORE else content["attributes"]),
    }


def event_of(row: dict[str, Any], schema: Schema | None = None) -> Event:
    """The event of a row; ValueRefused, or the filter's error, where it is none."""
    return event_from_json(jsonable_of(row), schema)


def jsonable_of(row: dict[str, Any]) -> dict[str, Any]:
    """The JSON object of a row's event."""
    given = {name: value for name, value in row.items() if value is not None}
    if given.get("event") == "pub":
        given = _published(given)
    if given.get("event") == "notify" and "time" in given:
        given["order"] = given.pop("time")
    for name in given.keys() & {"from", "until"}:
        given[name] = [given[name][part] for part in _names(_KEY)]
    if isinstance(about := given.get("about"), str):
        given["about"] = parse_json(about)
    return given


_MORE: Final = frozenset({"document", "content"})
"""The members that a notification may have beside its envelope and attributes."""
_ENVELOPE: Final = {"id": "id", "producer": "producer", "event_time": "time", "sequence": "sequence"}


def _published(row: dict[str, Any]) -> dict[str, Any]:
    """The JSON object of a publication: the envelope's columns take precedence over the record."""
    try:
        content, order = parse_json(row.pop("record")), row.pop("time")
    except KeyError as missing:
        raise ValueRefused(f"the event has no {missing}") from None
    whole = dict(content[0]) if isinstance(content, list) and content else {"attributes": content}
    notification = {name: whole[name] for name in ("attributes", *_MORE) if name in whole}
    notification |= {name: row.pop(column) for column, name in _ENVELOPE.items() if column in row}
    return {**row, "order": order, "notification": notification}


def _names(struct: Any) -> list[str]:
    return [each.name for each in struct]


# -- files -------------------------------------------------------------------------------------------------


def table_of(events: Iterable[Event]) -> pa.Table:
    """The table of a trace."""
    return pa.Table.from_pylist([row_of(event) for event in events], schema=SCHEMA)


def write(events: Iterable[Event], path: str) -> None:
    """Write a trace as one Parquet file, however long it is."""
    with pq.ParquetWriter(path, SCHEMA) as writer:
        rows: list[dict[str, Any]] = []
        for event in events:
            rows.append(row_of(event))
            if len(rows) == _ROWS:
                writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
                rows.clear()
        writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))


def read(*paths: str, schema: Schema | None = None) -> Iterator[tuple[int, Event | Rejection]]:
    """The event of each row, or why there is none, with the row's number, counted from 1 through all files."""
    number, reading = 0, Reading(schema)
    for file in files(*paths):
        opened = file.open()
        columns = [name for name in SCHEMA.names if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(batch_size=10_000, columns=columns):
            for row in batch.to_pylist():
                number += 1
                yield number, reading.event(partial(jsonable_of, row), repr(row), file.path, number)


def language_of(*paths: str) -> Language | None:
    """The schema and extensions that a trace declares; None if it declares none."""
    for file in files(*paths):
        for batch in file.open().iter_batches(batch_size=100_000, columns=["event", "about"]):
            said = batch.filter(pc.equal(batch.column("event"), "language")).column("about").to_pylist()
            if said:
                event = event_from_json({"v": 2, "event": "language", "about": parse_json(said[0])})
                assert isinstance(event, Language)
                return event
    return None


class File(NamedTuple):
    """One Parquet file of a trace."""

    path: str
    bytes: int
    system: Any

    def open(self) -> pq.ParquetFile:
        """The file, with all columns of a trace; TraceRefused where it is none."""
        try:
            opened = pq.ParquetFile(self.system.open_input_file(self.path))
        except pa.ArrowInvalid as error:
            raise TraceRefused(f"{self.path}: not a Parquet file: {error}") from None
        check_columns(opened.schema_arrow.names, self.path)
        return opened


def check_columns(names: Iterable[str], where: str) -> None:
    """TraceRefused where a table is no trace."""
    missing = set(SCHEMA.names) - set(names) - OPTIONAL
    if missing:
        raise TraceRefused(
            f"{where}: no trace, for it has no column {', '.join(sorted(missing))}",
            hint="docs/audit.md lists the columns of a trace",
        )


def files(*paths: str) -> list[File]:
    """The Parquet files of a trace, in their order.

    A path is a file or a directory, on this machine or as a URI. As for Spark, _this and .that do not count.
    """
    found: list[File] = []
    for path in paths:
        try:
            system, root = fs.FileSystem.from_uri(path) if "://" in path else (fs.LocalFileSystem(), path)
            below = [system.get_file_info(root)]
            if below[0].type is fs.FileType.NotFound:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            if below[0].type is fs.FileType.Directory:
                below = system.get_file_info(fs.FileSelector(root, recursive=True))
        except pa.ArrowInvalid as error:
            raise TraceRefused(f"{path}: {error}") from None
        found += [
            File(each.path, each.size, system)
            for each in below
            if each.type is fs.FileType.File and not _is_hidden(each.path.removeprefix(root))
        ]
    return sorted(found, key=lambda file: file.path)


def _is_hidden(below: str) -> bool:
    return any(step.startswith(("_", ".")) for step in below.split("/"))
