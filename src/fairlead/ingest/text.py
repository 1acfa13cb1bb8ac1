"""Plain text: each line is one notification, with the line in its attribute `text`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fairlead.errors import ValueRefused
from fairlead.filters.schema import Schema
from fairlead.ingest.jsonlines import content_of
from fairlead.ingest.records import STANDARD, Fields
from fairlead.ingest.rejection import Rejection
from fairlead.model import Notification

__all__ = ["read", "read_line"]


def read(
    stream: Iterable[bytes],
    source: str = "input",
    schema: Schema | None = None,
    fields: Fields = STANDARD,
) -> Iterator[tuple[int, Notification | Rejection]]:
    """The content of each line, with the line's number, counted from 1; blank lines are skipped."""
    for number, line in enumerate(stream, start=1):
        if content_of(line, number):
            yield number, read_line(line, source=source, line=number, schema=schema, fields=fields)


def read_line(
    raw: bytes,
    *,
    source: str = "text",
    line: int | None = None,
    schema: Schema | None = None,
    fields: Fields = STANDARD,
) -> Notification | Rejection:
    """The notification of a line, with its spaces and without its end; or the reason why there is none."""
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    try:
        text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
        notification = fields.notification({"text": text})
        return notification if schema is None else schema.admit(notification)
    except UnicodeDecodeError as error:
        refused = ValueRefused(f"not UTF-8: {error.reason} at byte {error.start + 1}")
        return Rejection.of(refused, raw, source=source, line=line)
    except ValueRefused as error:
        return Rejection.of(error, raw, source=source, line=line)
