"""Formats without types: a text that reads exactly like a JSON number is a number, any other is a string.

What the schema declares as a string, a boolean or a time is read as such; `id` and `producer` are strings, and
`time` is an instant. XML and CSV share this rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fairlead.errors import ValueRefused
from fairlead.filters.schema import Declared, Schema
from fairlead.ingest.records import STANDARD, Fields
from fairlead.ingest.times import ANY
from fairlead.model import Instant, Kind
from fairlead.model.encoding import parse_number

__all__ = ["Literals"]

_BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Literals:
    """The values of texts, by the dotted path of their attribute."""

    schema: Schema | None = None
    fields: Fields = STANDARD

    def value(self, path: str, text: str) -> Any:
        """The value of a text, or ValueRefused if it is not of the declared kind."""
        declared = None if self.schema is None else self.schema.domain(path)
        value = self._read(path, text, declared)
        if declared is not None and not declared.admits(value):
            raise ValueRefused(f"{path!r} is declared as {declared}, which {text[:80]!r} is not")
        return value

    def _read(self, path: str, text: str, declared: Declared | None) -> Any:
        if path in (self.fields.id, self.fields.producer):
            return text
        if declared is not None and declared.kind is Kind.STRING:
            return text
        number = parse_number(text)
        if path == self.fields.time and self.fields.times != ANY:
            return text if number is None else number  # `Fields` reads it
        if path == "time" and isinstance(number, int):
            return Instant(number)
        if path == "time" or (declared is not None and declared.kind is Kind.TIME):
            return Instant.parse(text)
        if declared is not None and declared.kind is Kind.BOOLEAN:
            return _BOOLEANS.get(text, text)
        return text if number is None else number
