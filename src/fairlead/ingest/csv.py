"""Separated values: the first record names the columns, each further one is one notification or one rejection.

As RFC 4180 has it: a field may stand in double quotes, and then hold delimiters, line breaks and, doubled,
quotes. A line feed ends a record, with or without carriage returns before it. An empty field is an absent
attribute; what other fields stand for, `literals` says. A record with more or fewer fields than the header
is rejected, whole; so is one with letters behind a closing quote or a carriage return outside of quotes, for
there only a guess could say what was meant. Blank lines are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from fairlead.errors import ValueRefused
from fairlead.filters.schema import Schema
from fairlead.ingest.literals import Literals
from fairlead.ingest.records import STANDARD, Fields
from fairlead.ingest.rejection import Rejection
from fairlead.model import Notification, check_name

__all__ = ["Reader", "read", "records"]


def read(
    stream: Iterable[bytes],
    source: str = "input",
    schema: Schema | None = None,
    fields: Fields = STANDARD,
    delimiter: str = ",",
) -> Iterator[tuple[int, Notification | Rejection]]:
    """The content of each record below the header, with the number of its first line, counted from 1."""
    reader = Reader(source, schema, fields, delimiter)
    for number, record in records(stream, delimiter):
        if (found := reader.read(record, number)) is not None:
            yield number, found


def records(stream: Iterable[bytes], delimiter: str = ",") -> Iterator[tuple[int, bytes]]:
    """The records of a stream of lines, without their ends, each with the number of its first line."""
    separator = delimiter.encode()
    open_lines: list[bytes] = []
    first, quoted = 1, False
    for number, line in enumerate(stream, start=1):
        if not open_lines:
            first = number
        open_lines.append(line)
        quoted = _is_open_after(line, quoted, separator)
        if not quoted:
            yield first, b"".join(open_lines).removesuffix(b"\n")
            open_lines.clear()
    if open_lines:  # a quote that nothing closes
        yield first, b"".join(open_lines).removesuffix(b"\n")


_INSIDE = re.compile(rb'[^"]*+(?:""[^"]*+)*+"')
"""From within quotes to the quote that closes them."""


def _is_open_after(line: bytes, quoted: bool, separator: bytes) -> bool:
    """Whether quotes are open at the end of a line at whose start they were, or were not, open."""
    if b'"' not in line:
        return quoted
    place = 0
    while True:
        if quoted:
            closed = _INSIDE.match(line, place)
            if closed is None:
                return True
            place = closed.end()
        elif line.startswith(b'"', place):
            quoted, place = True, place + 1
            continue
        ahead = line.find(separator, place)
        if ahead < 0:
            return False
        quoted, place = False, ahead + len(separator)


@dataclass(slots=True)
class Reader:
    """The records of one table, one after the other; the first that is not blank is the header."""

    source: str = "input"
    schema: Schema | None = None
    fields: Fields = STANDARD
    delimiter: str = ","
    names: tuple[str, ...] | None = None
    """The columns; empty where the header could not be read."""

    def read(self, raw: bytes, line: int | None = None) -> Notification | Rejection | None:
        """The content of a record; None for a blank line and for a header that was understood."""
        texts = self.texts(raw, line)
        if texts is None or isinstance(texts, Rejection):
            return texts
        try:
            return self._notification(texts)
        except ValueRefused as error:
            return self._rejection(error, raw, line)

    def texts(self, raw: bytes, line: int | None = None) -> dict[str, str] | Rejection | None:
        """The fields of a record that are not empty, by their columns; None as for `read`."""
        if not raw.strip(_BLANK):
            return None
        try:
            if self.names is None:
                self._read_header(raw)
                return None
            if not self.names:
                raise ValueRefused("no columns: the header cannot be read")
            found = _split(raw, self.delimiter)
            if len(found) != len(self.names):
                raise ValueRefused(f"{_count(len(found))} under a header of {len(self.names)}")
            return {name: text for name, text in zip(self.names, found, strict=True) if text}
        except ValueRefused as error:
            return self._rejection(error, raw, line)

    def _rejection(self, error: ValueRefused, raw: bytes, line: int | None) -> Rejection:
        return Rejection.of(error, raw.rstrip(b"\r"), source=self.source, line=line)

    def _read_header(self, raw: bytes) -> None:
        self.names = ()
        names = _split(raw.removeprefix(b"\xef\xbb\xbf"), self.delimiter)
        for place, name in enumerate(names, start=1):
            try:
                check_name(name)
            except ValueRefused as error:
                raise ValueRefused(f"column {place} of the header: {error}") from None
            if name in names[: place - 1]:
                raise ValueRefused(f"two columns of the header are named {name!r}")
        self.names = tuple(names)

    def _notification(self, texts: dict[str, str]) -> Notification:
        literals = Literals(self.schema, self.fields)
        attributes = {name: literals.value(name, text) for name, text in texts.items()}
        notification = self.fields.notification(attributes)
        return notification if self.schema is None else self.schema.admit(notification)


_BLANK = b" \t\r\n\v\f"


def _count(fields: int) -> str:
    return "1 field" if fields == 1 else f"{fields:,} fields"


def _split(raw: bytes, delimiter: str) -> list[str]:
    """The fields of a record, or ValueRefused."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise ValueRefused(f"not UTF-8: {error.reason} at byte {error.start + 1}") from None
    text = text.rstrip("\r")
    if '"' not in text:
        return _unbroken(text).split(delimiter)
    field, found, place = _field(delimiter), [], 0
    while True:
        match = field.match(text, place)
        if match is None:
            raise _misquoted(text, place)
        quoted, plain, end = match.groups()
        found.append(_unbroken(plain) if quoted is None else quoted.replace('""', '"'))
        if not end:
            return found
        place = match.end()


@lru_cache(maxsize=8)
def _field(delimiter: str) -> re.Pattern[str]:
    """One field and the delimiter behind it, or the record's end."""
    end = re.escape(delimiter)
    return re.compile(rf'(?:"([^"]*+(?:""[^"]*+)*+)"|((?!")[^{end}]*+))({end}|\Z)')


def _unbroken(text: str) -> str:
    if "\r" in text:
        raise ValueRefused("a carriage return outside of quotes", hint="lines end with a line feed")
    return text


def _misquoted(text: str, place: int) -> ValueRefused:
    closed = re.compile(r'"[^"]*+(?:""[^"]*+)*+"').match(text, place)
    if closed is None:
        swallowed = text.count("\n", place)
        rest = f"; it takes the {swallowed:,} lines behind it into this row" if swallowed else ""
        return ValueRefused(f"a quote that nothing closes, at letter {place + 1}{rest}")
    return ValueRefused(f"letters behind a closing quote, at letter {closed.end() + 1}")
