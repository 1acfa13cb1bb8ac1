"""JSON lines: each line is one notification or one rejection, and no line hides another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from fairlead.filters.schema import Schema
from fairlead.ingest import records
from fairlead.ingest.records import STANDARD, Fields
from fairlead.ingest.rejection import Rejection
from fairlead.model import Notification

__all__ = ["content_of", "read"]

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def read(
    stream: Iterable[bytes],
    source: str = "input",
    schema: Schema | None = None,
    lift: bool = False,
    fields: Fields = STANDARD,
) -> Iterator[tuple[int, Notification | Rejection]]:
    """The content of each line, with the line's number, counted from 1; blank lines are skipped."""
    for number, line in enumerate(stream, start=1):
        if content := content_of(line, number):
            yield (
                number,
                records.read(content, source=source, line=number, schema=schema, lift=lift, fields=fields),
            )


def content_of(line: bytes, number: int) -> bytes:
    """The content of a line, without the white space around it and the mark that some editors put before
    the first."""
    return (line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line).strip()
