"""Rows of subscriptions and patterns as they are given, each with its location.

Subscriptions and patterns are read alike: from JSON lines and CSV here, wherever pyarrow can open them, so that
each row has a number; from everything else by Spark.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import fs

from fairlead import dialects
from fairlead.dialects import OWN
from fairlead.errors import FairleadError, PipelineError, ValueRefused
from fairlead.ingest import Rejection
from fairlead.model import Instant
from fairlead.model.encoding import parse_json
from fairlead.model.order import BEGINNING, END
from fairlead.spark.parts import CHUNK, Subscription
from fairlead.spark.storage import reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "SUBSCRIPTION",
    "Ending",
    "Entry",
    "Location",
    "Noun",
    "SubscriptionsInput",
    "entries",
    "entry_of",
    "frame_rows",
    "read_entry",
    "rejection_of",
    "without_location",
]

# -- what is read ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubscriptionsInput:
    """The source of subscriptions: a path that pyarrow or Spark can open, and a format that Spark knows.

    `watch`: files that appear there later are changes.
    """

    path: str
    format: str = "json"
    options: Mapping[str, str] = field(default_factory=dict)
    watch: bool = False
    dialect: str = OWN
    """The language of filters whose rows name none."""


class Location(NamedTuple):
    """The file and the line of a row."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Entry(NamedTuple):
    """One row as it was given, with its location: fields by name, a line of JSON, or the reason why there is
    neither."""

    location: Location
    content: Mapping[str, Any] | str | bytes | FairleadError
    dialect: str = OWN
    """The language of the filter, unless the row names another."""

    @property
    def raw(self) -> str | bytes:
        """The row as it was given, for its rejection."""
        match self.content:
            case str() | bytes() as line:
                return line
            case FairleadError():
                return ""
            case fields:
                return json.dumps(fields, default=str)


class Ending(NamedTuple):
    """The end of the subscription with this id, at a time or as soon as possible."""

    id: str
    until: int | None


class Noun(NamedTuple):
    """The kind of rows in a table, and the column with their text: patterns are read as subscriptions are."""

    one: str
    text: str
    others: tuple[str, ...] = ()
    """Columns that its rows may have beside those that all have."""

    @property
    def many(self) -> str:
        return f"{self.one}s"

    @property
    def columns(self) -> tuple[str, ...]:
        return ("id", "subscriber", self.text, *self.others, "from", "until")

    @property
    def known(self) -> frozenset[str]:
        return frozenset(self.columns)


SUBSCRIPTION: Final = Noun("subscription", "filter", ("dialect",))


def entries(
    given: SubscriptionsInput | DataFrame | Iterable[Entry | Mapping[str, Any]],
    spark: SparkSession | None = None,
    columns: Sequence[str] = ("id",),
    noun: Noun = SUBSCRIPTION,
) -> Iterator[Entry]:
    """The rows of an input, in order where it has one; these columns it must have.

    Lines of JSON and CSV are read here, wherever pyarrow can open them, for only so does each have a number;
    everything else is read by Spark.
    """
    if isinstance(given, SubscriptionsInput) and given.dialect != OWN:
        plain = entries(replace(given, dialect=OWN), spark, columns, noun)
        return (each._replace(dialect=given.dialect) for each in plain)
    if isinstance(given, SubscriptionsInput):
        reader = _LINES.get(given.format)
        if reader is not None and set(given.options) <= _OPTIONS[given.format]:
            files = _files(given.path)
            if files is not None:
                return chain.from_iterable(
                    reader(file, shown, given.options, columns, noun) for file, shown in files
                )
        if spark is None:
            raise PipelineError(f"{noun.many}: {given.path} cannot be read without Spark")
        frame = spark.read.format(given.format).options(**given.options).load(given.path)
        return _frame_entries(frame, given.path, columns, noun)
    if not isinstance(given, Iterable):
        return _frame_entries(given, noun.many, columns, noun)
    return (
        row if isinstance(row, Entry) else Entry(Location(noun.many, number), row)
        for number, row in enumerate(given, start=1)
    )


def _frame_entries(frame: DataFrame, name: str, columns: Sequence[str], noun: Noun) -> Iterator[Entry]:
    return (Entry(Location(name), row) for row in frame_rows(frame, name, columns, noun))


def frame_rows(
    frame: DataFrame, name: str, columns: Sequence[str], noun: Noun, extra: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """The rows of a DataFrame, with the columns of a kind of rows and some extra ones; these it must have."""
    missing = [each for each in columns if each not in frame.columns]
    if missing:
        raise PipelineError(f"{name}: {_missing(missing, frame.columns, noun)}")
    if (misspelt := _misspelt(frame.columns, noun)) is not None:
        raise PipelineError(f"{name}: {misspelt}")
    table = frame.select(*(each for each in (*noun.columns, *extra) if each in frame.columns)).toArrow()
    for batch in table.to_batches(CHUNK):
        yield from batch.to_pylist()


def _missing(missing: Sequence[str], present: Sequence[str], noun: Noun) -> ValueRefused:
    return ValueRefused(
        f"{noun.many} without a column {' and without '.join(map(repr, missing))}; there is "
        + ", ".join(present),
        hint=f"{noun.many} have the columns id, {noun.text} and, if wanted, subscriber, from and until",
    )


def _misspelt(present: Iterable[str], noun: Noun) -> ValueRefused | None:
    """The error about a name that is nearly one that is not there: what it says would have no effect.

    Other names are nobody's business: a table may have notes.
    """
    names = set(present)
    absent = sorted(set(noun.columns) - names)
    for name in sorted(names - set(noun.columns)):
        if close := get_close_matches(name.lower(), absent, n=1, cutoff=0.75):
            return ValueRefused(f"a {noun.one} has no {name!r}; did you mean {close[0]!r}?")
    return None


class _File(NamedTuple):
    system: Any
    path: str

    def opened(self) -> Any:
        return self.system.open_input_stream(self.path)


def _files(path: str) -> list[tuple[_File, str]] | None:
    """The plain files under a path, with the names that the user knows them by; None where we cannot look."""
    try:
        system, inner = reached(path)
        info = system.get_file_info(inner)
        if info.type == fs.FileType.File:
            return [(_File(system, inner), path)]
        if info.type != fs.FileType.Directory:
            return None
        found = sorted(
            each.path
            for each in system.get_file_info(fs.FileSelector(inner))
            if each.type == fs.FileType.File and not each.base_name.startswith((".", "_"))
        )
    except (OSError, pa.ArrowException):
        return None
    return [(_File(system, each), f"{path.rstrip('/')}/{each.rpartition('/')[2]}") for each in found]


def _json_lines(
    file: _File, shown: str, options: Mapping[str, str], columns: Sequence[str], noun: Noun
) -> Iterator[Entry]:
    with file.opened() as stream:
        for number, line in enumerate(io.BufferedReader(stream), start=1):
            if line.strip():
                yield Entry(Location(shown, number), line)


def _csv_lines(
    file: _File, shown: str, options: Mapping[str, str], columns: Sequence[str], noun: Noun
) -> Iterator[Entry]:
    with file.opened() as stream:
        text = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", newline="")
        reader = csv.reader(text, delimiter=options.get("sep", options.get("delimiter", ",")), strict=True)
        line = 1
        try:
            names = next(reader, [])
            missing = [each for each in columns if each not in names]
            wrong = _missing(missing, names, noun) if missing else _misspelt(names, noun)
            if wrong is not None:
                yield Entry(Location(shown, line), wrong)
                return
            line = reader.line_num + 1
            for row in reader:
                if row:
                    fields = {name: value or None for name, value in zip(names, row, strict=False)}
                    yield Entry(Location(shown, line), fields)
                line = reader.line_num + 1
        except (csv.Error, UnicodeDecodeError) as error:
            yield Entry(Location(shown, line), ValueRefused(f"not CSV in UTF-8: {error}"))


_LINES: Final[dict[str, Callable[..., Iterator[Entry]]]] = {"json": _json_lines, "csv": _csv_lines}
_OPTIONS: Final = {"json": frozenset[str](), "csv": frozenset({"delimiter", "header", "sep"})}


# -- one row -----------------------------------------------------------------------------------------------


def read_entry(entry: Entry, noun: Noun = SUBSCRIPTION) -> Subscription | Ending:
    """The subscription or ending of a row. FairleadError if it has neither."""
    content = entry.content
    if isinstance(content, FairleadError):
        raise content
    fields = parse_json(content) if isinstance(content, str | bytes) else content
    if not isinstance(fields, Mapping):
        raise ValueRefused(f"a {noun.one} is a JSON object")
    if not fields.keys() <= noun.known and (misspelt := _misspelt(fields, noun)) is not None:
        raise misspelt
    if fields.get("id") is None:
        raise ValueRefused(f"a {noun.one} without an id")
    id = _name("id", fields["id"])
    until = _time("until", fields.get("until"))
    text = fields.get(noun.text)
    if text is None:
        return Ending(id, until)
    dialect = fields.get("dialect") or entry.dialect if "dialect" in noun.others else OWN
    if dialect != OWN:
        text = _translated(dialect, text)
    if not isinstance(text, str):
        raise ValueRefused(f"a {noun.text} is a text, not {text!r}")
    given = fields.get("subscriber")
    subscriber = id if given is None else _name("subscriber", given)
    since = _time("from", fields.get("from"))
    if since is not None and until is not None and until <= since:
        raise ValueRefused(f"a {noun.one} that ends ({Instant(until)}) before it begins ({Instant(since)})")
    return Subscription(id, subscriber, text, since, until)


def _translated(dialect: Any, given: Any) -> str:
    """The filter of ours for one in a dialect; documents of dialects in JSON may be objects in the row."""
    if not isinstance(dialect, str) or not isinstance(given, str | Mapping):
        raise ValueRefused(f"a filter in a dialect is a text or an object, not {given!r}")
    return str(dialects.read(dialect, given))


def _name(what: str, given: Any) -> str:
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise ValueRefused(f"the {what} is a string or a whole number, not {given!r}")
    name = str(given)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueRefused(f"the {what} {name!r} has half a character") from None
    return name


def _time(what: str, given: Any) -> int | None:
    """Microseconds, from what may stand for an instant; CSV has digits in place of a number."""
    if given is None:
        return None
    if isinstance(given, str):
        digits = given.strip()
        given = int(digits) if digits.lstrip("-").isdecimal() else Instant.parse(digits).microseconds
    elif isinstance(given, dt.datetime):
        given = Instant.of(given).microseconds
    if isinstance(given, bool) or not isinstance(given, int) or not BEGINNING < given < END:
        raise ValueRefused(
            f"not a time: {what} = {given!r}",
            hint="write it as 2024-05-01T10:00:00Z, or in whole microseconds",
        )
    return given


def entry_of(number: int, change: Entry | Mapping[str, Any]) -> Entry:
    """A change as an entry. Without a location, its location is its number."""
    return change if isinstance(change, Entry) else Entry(Location("changes", number), change)


def rejection_of(entry: Entry, error: FairleadError) -> Rejection:
    """The rejection of a row: the reason on one line, without the picture of the location."""
    said, _, hint = without_location(error).partition("\n  hint: ")
    reason = said.partition("\n")[0] + (f"; {hint}" if hint else "")
    return Rejection(entry.location.file, entry.location.line, reason, entry.raw)


def without_location(error: FairleadError) -> str:
    """The text of an error that follows a file and a line: line 1 of a text is not named again."""
    return str(error).removeprefix("line 1, ")
