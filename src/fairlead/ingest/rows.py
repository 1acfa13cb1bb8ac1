"""A row of typed columns is one notification: each column an attribute, and null means absent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fairlead.errors import ValueRefused
from fairlead.filters.schema import Schema
from fairlead.ingest.records import STANDARD, Fields
from fairlead.ingest.rejection import Rejection
from fairlead.model import Notification

__all__ = ["raw_of", "read", "without_nulls"]


def read(
    row: Mapping[str, Any],
    *,
    source: str = "rows",
    line: int | None = None,
    schema: Schema | None = None,
    fields: Fields = STANDARD,
) -> Notification | Rejection:
    """The notification of a row, or why there is none."""
    try:
        notification = fields.notification(without_nulls(row))
        return notification if schema is None else schema.admit(notification)
    except ValueRefused as error:
        return Rejection.of(error, raw_of(row), source=source, line=line)


def without_nulls(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with what is null left out, records within it too; a list keeps its nulls, which are its members."""
    return {
        name: without_nulls(value) if isinstance(value, Mapping) else value
        for name, value in row.items()
        if value is not None
    }


def raw_of(row: Mapping[str, Any]) -> bytes:
    """A row that had no text, as text, so that people can see what was rejected."""
    return json.dumps(row, ensure_ascii=False, default=str).encode(errors="backslashreplace")
