"""JSON lines: each line is one notification or one rejection, and no line hides another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from fairlead.filters.schema import Schema
from fairlead.ingest import records
from fairlead.ingest.records import STANDARD, Fields
from fairlead.ingest.rejection import Rejection
from fairlead.model import Notification

__all__ = ["read"]

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def read(
    stream: Iterable[bytes],
    source: str = "input",
    schema: Schema | None = None,
    lift: bool = False,
    fields: Fields = STANDARD,
) -> Iterator[tuple[int, Notification | Rejection]]:
    """What stands in each line, with the line's number, counted from 1; blank lines are skipped."""
    for number, line in enumerate(stream, start=1):
        content = (line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line).strip()
        if content:
            yield (
                number,
                records.read(content, source=source, line=number, schema=schema, lift=lift, fields=fields),
            )
