"""Subscriptions: read once, compiled to files named by their content, changed without compiling them again.

A subscription is valid for order times in [from, until). A change takes effect at a point of the order, never of
the wall clock: a `from` below the watermark at which the change is taken in is moved to it. A subscription under
an id that exists replaces that one from its `from` on; an ending ends it. So of one id no two are ever valid at
the same time, and replaying the same changes at the same watermarks gives the same subscriptions.

A `Part` is immutable: the engine's file of filters, and beside it a table that says, by the filter's ordinal,
whose it is and when it is valid. `Subscriptions` are parts, large ones first, and a small table of the endings
that came later. A change builds a small part only; parts of like size are merged, so there are never many.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray
from pyarrow import fs

from fairlead.delivery import Validity
from fairlead.errors import DamagedIndex, FairleadError, PipelineError, SchemaError, ValueRefused
from fairlead.filters import Schema, parse
from fairlead.ingest import Rejection
from fairlead.model import Instant
from fairlead.model.encoding import parse_json
from fairlead.model.order import BEGINNING, END, OrderKey
from fairlead.spark.parts import (
    CHUNK,
    TABLE,
    VERSION,
    Content,
    Part,
    Subscription,
    compiled,
    keep,
    mapped,
    parsed,
    single,
    table_of,
    with_about,
)
from fairlead.spark.placement import ANYWHERE, Placement, placed
from fairlead.spark.storage import reached

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "Changed",
    "Ending",
    "Entry",
    "Noun",
    "Place",
    "Subscription",
    "Subscriptions",
    "SubscriptionsInput",
    "admitted",
    "behind_place",
    "entries",
    "entry_of",
    "load_extension",
    "read_entry",
    "rejection_of",
]

PART_MAX: Final = 2_000_000
"""Beyond so many filters they are placed (see `placement`), so that no worker has to hold them all."""
_ENDINGS: Final = ".endings"


# -- what is read ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubscriptionsInput:
    """Where subscriptions are read from: a path that pyarrow or Spark can open, and a format that Spark knows.

    `watch`: files that appear there later are changes.
    """

    path: str
    format: str = "json"
    options: Mapping[str, str] = field(default_factory=dict)
    watch: bool = False


class Place(NamedTuple):
    """Where something was read."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Entry(NamedTuple):
    """One row as it was given, with its place: fields by name, a line of JSON, or why there is neither."""

    place: Place
    content: Mapping[str, Any] | str | bytes | FairleadError

    @property
    def raw(self) -> str | bytes:
        """What was given, as it is kept where it is rejected."""
        match self.content:
            case str() | bytes() as line:
                return line
            case FairleadError():
                return ""
            case fields:
                return json.dumps(fields, default=str)


class Ending(NamedTuple):
    """That what stands under an id ends, then or as soon as it can."""

    id: str
    until: int | None


class Noun(NamedTuple):
    """What the rows of a table are, and which column has their text: patterns are read as subscriptions are."""

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


SUBSCRIPTION: Final = Noun("subscription", "filter")


def entries(
    given: SubscriptionsInput | DataFrame | Iterable[Mapping[str, Any]],
    spark: SparkSession | None = None,
    columns: Sequence[str] = ("id",),
    noun: Noun = SUBSCRIPTION,
) -> Iterator[Entry]:
    """The rows of an input, in order where it has one; these columns it must have.

    Lines of JSON and CSV are read here, wherever pyarrow can open them, for only so does each have a number;
    everything else is read by Spark.
    """
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
    return (Entry(Place(noun.many, number), row) for number, row in enumerate(given, start=1))


def _frame_entries(frame: DataFrame, name: str, columns: Sequence[str], noun: Noun) -> Iterator[Entry]:
    missing = [each for each in columns if each not in frame.columns]
    if missing:
        raise PipelineError(f"{name}: {_missing(missing, frame.columns, noun)}")
    if (misspelt := _misspelt(frame.columns, noun)) is not None:
        raise PipelineError(f"{name}: {misspelt}")
    place = Place(name)
    table = frame.select(*(each for each in noun.columns if each in frame.columns)).toArrow()
    for batch in table.to_batches(CHUNK):
        yield from (Entry(place, row) for row in batch.to_pylist())


def _missing(missing: Sequence[str], present: Sequence[str], noun: Noun) -> ValueRefused:
    return ValueRefused(
        f"{noun.many} without a column {' and without '.join(map(repr, missing))}; there is "
        + ", ".join(present),
        hint=f"{noun.many} have the columns id, {noun.text} and, if wanted, subscriber, from and until",
    )


def _misspelt(present: Iterable[str], noun: Noun) -> ValueRefused | None:
    """What is wrong where a name is nearly one that is not there: what it says would have no effect.

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
                yield Entry(Place(shown, number), line)


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
                yield Entry(Place(shown, line), wrong)
                return
            line = reader.line_num + 1
            for row in reader:
                if row:
                    fields = {name: value or None for name, value in zip(names, row, strict=False)}
                    yield Entry(Place(shown, line), fields)
                line = reader.line_num + 1
        except (csv.Error, UnicodeDecodeError) as error:
            yield Entry(Place(shown, line), ValueRefused(f"not CSV in UTF-8: {error}"))


_LINES: Final[dict[str, Callable[..., Iterator[Entry]]]] = {"json": _json_lines, "csv": _csv_lines}
_OPTIONS: Final = {"json": frozenset[str](), "csv": frozenset({"delimiter", "header", "sep"})}


# -- one row -----------------------------------------------------------------------------------------------


def read_entry(entry: Entry, noun: Noun = SUBSCRIPTION) -> Subscription | Ending:
    """What a row says, or a FairleadError."""
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
    if not isinstance(text, str):
        raise ValueRefused(f"a {noun.text} is a text, not {text!r}")
    given = fields.get("subscriber")
    subscriber = id if given is None else _name("subscriber", given)
    since = _time("from", fields.get("from"))
    if since is not None and until is not None and until <= since:
        raise ValueRefused(f"a {noun.one} that ends ({Instant(until)}) before it begins ({Instant(since)})")
    return Subscription(id, subscriber, text, since, until)


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


# -- all of them -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Changed:
    """What came of changes: the subscriptions from now on, those that were taken in, and those that were not."""

    subscriptions: Subscriptions
    taken: tuple[Subscription, ...] = ()
    """As they took effect; `asked` says what was asked for where that was moved."""
    ended: tuple[tuple[str, int], ...] = ()
    """The ids that were ended, and when."""
    rejections: tuple[Rejection, ...] = ()
    begun: tuple[Subscription, ...] = ()
    """The periods of validity that are new, as they are after all changes."""
    cut: tuple[Subscription, ...] = ()
    """Those that were there before and end earlier now; without their filters."""


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Compiled subscriptions: a value that travels to workers and, as JSON, into a manifest."""

    directory: str
    parts: tuple[Part, ...] = ()
    schema: Schema | None = None
    endings: str | None = None
    """The file with the times at which subscriptions of the parts end earlier than these say."""
    placement: Placement | None = None
    extensions: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many there are that hold at any time."""
        return self.count_from(BEGINNING)

    def count_from(self, watermark: int) -> int:
        """How many hold at a watermark or later; an id is one subscription, however often it was changed."""
        if len(self.parts) == 1 and self.endings is None and watermark == BEGINNING:
            return self.parts[0].count  # as they were read: of different ids, and none ends before it begins
        ids = []
        for part in self.parts:
            table = table_of(part)
            holding = self.until(part) > np.maximum(table.since, watermark)
            ids.append(table.ids.filter(pa.array(holding)))
        return len(pa.chunked_array(ids, pa.string()).unique())

    @property
    def size(self) -> int:
        """How much a worker that holds them all maps into memory, in bytes."""
        return sum(part.size for part in self.parts)

    # -- reading -------------------------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        given: SubscriptionsInput | DataFrame | Iterable[Mapping[str, Any]],
        directory: str | Path,
        *,
        schema: Schema | None = None,
        spark: SparkSession | None = None,
        extensions: Sequence[str] = (),
        part_max: int = PART_MAX,
    ) -> Subscriptions:
        """Read and compile subscriptions into a directory; what is wrong with them is a PipelineError."""
        for name in extensions:
            load_extension(name)
        content, places = _distinct(_rows(entries(given, spark, ("id", "filter"))))
        home = str(directory)
        problems = _Problems(content, places)
        if len(content.ids) <= part_max:
            part = compiled(content, home, schema, check=problems.add)
            problems.report()
            return cls(home, (part,), schema, None, None, tuple(extensions))

        placement, buckets = placed(
            (filter for _, filter in parsed(content.texts, schema, problems.add)),
            -(-len(content.ids) // part_max),
        )
        problems.report()
        parts: list[Part] = []
        for bucket in range(ANYWHERE, placement.buckets):
            inside = np.flatnonzero(buckets == bucket)
            for start in range(0, len(inside), part_max):
                some = content.picked(inside[start : start + part_max])
                parts.append(replace(compiled(some, home, schema, bucket), number=len(parts)))
        return cls(home, tuple(parts), schema, None, placement, tuple(extensions))

    def tables(self) -> Iterator[pa.RecordBatch]:
        """All subscriptions, in batches: id, subscriber, filter, from, until and asked, as they are valid."""
        for part in self.parts:
            content = self._content(part)
            table = pa.table(
                {
                    "id": content.ids,
                    "subscriber": content.subscribers,
                    "filter": content.texts,
                    "from": pa.array(content.since, mask=content.since == BEGINNING),
                    "until": pa.array(content.until, mask=content.until == END),
                    "asked": content.asked,
                }
            )
            yield from table.to_batches(CHUNK)

    def until(self, part: Part) -> NDArray[np.int64]:
        """When the subscriptions of a part end, by ordinal."""
        until = table_of(part).until
        if self.endings is None:
            return until
        endings = mapped(self.directory, self.endings)
        own = endings.filter(pc.equal(endings.column("part"), part.number))
        ended = np.array(until)
        ended[own.column("ordinal").to_numpy()] = own.column("until").to_numpy()
        return ended

    def _content(self, part: Part) -> Content:
        table = table_of(part)
        texts = single(mapped(part.directory, table.texts).column("filter"))
        return Content(table.ids, table.subscribers, texts, table.since, self.until(part), table.asked)

    # -- changing ------------------------------------------------------------------------------------------

    def changed(self, changes: Iterable[Entry | Mapping[str, Any]], watermark: int) -> Changed:
        """These subscriptions after changes, in the order given, that are taken in at a watermark.

        A change that cannot be read, or that ends what is not there, is a rejection and changes nothing.
        """
        found = [entry_of(number, change) for number, change in enumerate(changes, start=1)]
        read: list[tuple[int, Subscription | Ending]] = []
        rejections: dict[int, Rejection] = {}
        for place, entry in enumerate(found):
            try:
                change = read_entry(entry)
                if isinstance(change, Subscription):
                    parse(change.filter, self.schema)
                read.append((place, change))
            except FairleadError as error:
                rejections[place] = rejection_of(entry, error)

        segments = self._segments({change.id for _, change in read})
        taken: list[Subscription] = []
        ended: list[tuple[str, int]] = []
        fresh: list[_Segment] = []
        for place, change in read:
            mine = segments.setdefault(change.id, [])
            if isinstance(change, Subscription):
                segment = _Segment.of(admitted(change, watermark))
                _end(mine, segment.since)
                mine.append(segment)
                fresh.append(segment)
                taken.append(segment.row)
            elif any(each.until > max(each.since, watermark) for each in mine):
                until = watermark if change.until is None else max(change.until, watermark)
                _end(mine, until)
                ended.append((change.id, until))
            else:
                problem = ValueRefused(f"there is no subscription {change.id!r} that could be ended")
                rejections[place] = rejection_of(found[place], problem)

        result = self._with_endings([each for mine in segments.values() for each in mine])
        rows = [each.row._replace(until=each.until) for each in fresh if each.since < each.until]
        if rows:
            part = compiled(Content.of(sorted(rows, key=_beginning)), self.directory, self.schema)
            result = result._with(part)._compacted(watermark)
        return Changed(
            result,
            tuple(taken),
            tuple(ended),
            tuple(rejections[place] for place in sorted(rejections)),
            tuple(row._replace(until=None if row.until == END else row.until) for row in rows),
            tuple(each.cut() for mine in segments.values() for each in mine if each.is_cut),
        )

    def among(self, ids: set[str]) -> list[str]:
        """Those of some ids that subscriptions have, in order."""
        return sorted(self._segments(ids))

    def _segments(self, ids: set[str]) -> dict[str, list[_Segment]]:
        """What the parts have under some ids."""
        found: dict[str, list[_Segment]] = {}
        if not ids:
            return found
        wanted = pa.array(sorted(ids), pa.string())
        for part in self.parts:
            table = table_of(part)
            until = self.until(part)
            places = pc.index_in(table.ids, value_set=wanted)
            for ordinal in np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False)).tolist():
                row = Subscription(table.ids[ordinal].as_py(), table.subscribers[ordinal].as_py(), "")
                segment = _Segment(int(table.since[ordinal]), int(until[ordinal]), row, part, ordinal)
                found.setdefault(row.id, []).append(segment)
        return found

    def _with_endings(self, segments: Iterable[_Segment]) -> Subscriptions:
        known = self._endings()
        for each in segments:
            if each.is_cut:
                assert each.part is not None
                known[each.part.number, each.ordinal] = each.until
        return self._keeping(known)

    def _endings(self) -> dict[tuple[int, int], int]:
        if self.endings is None:
            return {}
        rows = mapped(self.directory, self.endings).to_pylist()
        return {(row["part"], row["ordinal"]): row["until"] for row in rows}

    def _keeping(self, endings: Mapping[tuple[int, int], int]) -> Subscriptions:
        there = {part.number for part in self.parts}
        rows = sorted((*key, until) for key, until in endings.items() if key[0] in there)
        if not rows:
            return replace(self, endings=None)
        part, ordinal, until = zip(*rows, strict=True)
        table = pa.table(
            {
                "part": pa.array(part, pa.int32()),
                "ordinal": pa.array(ordinal, pa.int32()),
                "until": pa.array(until, pa.int64()),
            }
        )
        return replace(self, endings=keep(self.directory, _ENDINGS, with_about(table)))

    def _with(self, part: Part, number: int = 0) -> Subscriptions:
        numbered = replace(part, number=max(number, *(each.number + 1 for each in self.parts), 0))
        return replace(self, parts=(*self.parts, numbered))

    def _compacted(self, watermark: int) -> Subscriptions:
        """The same with fewer parts: each is more than twice as large as the one behind it.

        So a subscription is compiled again a number of times that grows with the logarithm of how many there
        are. Placed parts stay as they are.
        """
        result = self
        while len(result.parts) > 1:
            larger, smaller = result.parts[-2:]
            if larger.bucket != ANYWHERE or larger.count > 2 * smaller.count:
                break
            merged = result._merged(larger, smaller, watermark)
            endings = result._endings()
            result = replace(result, parts=result.parts[:-2])
            result = (result if merged is None else result._with(merged, smaller.number + 1))._keeping(
                endings
            )
        return result

    def _merged(self, larger: Part, smaller: Part, watermark: int) -> Part | None:
        """One part of two, without most of what has ended: nothing below the watermark is asked about again.

        While at least half of the larger one lives its filters are taken over as they are compiled.
        """
        contents = [self._content(larger), self._content(smaller)]
        living = [np.flatnonzero(each.until > np.maximum(each.since, watermark)) for each in contents]
        if 2 * len(living[0]) >= larger.count:
            joined = Content.joined([contents[0], contents[1].picked(living[1])])
            return compiled(joined, self.directory, self.schema, onto=larger)
        kept = [each.picked(alive) for each, alive in zip(contents, living, strict=True)]
        joined = Content.joined(kept)
        return compiled(joined, self.directory, self.schema) if len(joined.ids) else None

    # -- the manifest --------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """What a manifest says of them; the files are named, and where they are is said when it is read."""
        return {
            "version": VERSION,
            "schema": None if self.schema is None else self.schema.fingerprint,
            "parts": [[part.name, part.count, part.size, part.bucket, part.number] for part in self.parts],
            "endings": self.endings,
            "placement": self.placement and [list(self.placement.attributes), self.placement.buckets],
            "extensions": list(self.extensions),
        }

    @classmethod
    def from_json(
        cls, given: Mapping[str, Any], directory: str | Path, *, schema: Schema | None = None
    ) -> Subscriptions:
        """The subscriptions of a manifest, with their files in a directory."""
        if given.get("version") != VERSION:
            raise DamagedIndex(
                f"compiled subscriptions of version {given.get('version')}, this program reads {VERSION}",
                hint="begin a new output, or use the program that wrote this one",
            )
        if given["schema"] != (None if schema is None else schema.fingerprint):
            raise SchemaError(
                f"the subscriptions were compiled under {'another' if given['schema'] else 'no'} schema",
                hint="use the schema they were compiled with, or compile them anew",
            )
        placement = given["placement"]
        return cls(
            str(directory),
            tuple(Part(name, str(directory), *others) for name, *others in given["parts"]),
            schema,
            given["endings"],
            placement and Placement(tuple(placement[0]), placement[1]),
            tuple(given["extensions"]),
        )

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that matching needs."""
        names = [part.name + TABLE for part in self.parts]
        names += [table_of(part).filters for part in self.parts]
        return (*names, self.endings) if self.endings else tuple(names)

    @property
    def kept_files(self) -> frozenset[str]:
        """The names of all files that belong to them: others in the directory may be removed."""
        return frozenset(self.files) | {table_of(part).texts for part in self.parts}


@dataclass(slots=True)
class _Segment:
    """What is valid under an id from one time to another, while changes are being applied."""

    since: int
    until: int
    row: Subscription
    part: Part | None = None
    ordinal: int = -1
    was: int = field(init=False)

    def __post_init__(self) -> None:
        self.was = self.until

    @property
    def is_cut(self) -> bool:
        """Whether it was there before and ends earlier now."""
        return self.part is not None and self.until < self.was

    def cut(self) -> Subscription:
        return self.row._replace(since=None if self.since == BEGINNING else self.since, until=self.until)

    @classmethod
    def of(cls, row: Subscription) -> _Segment:
        since = BEGINNING if row.since is None else row.since
        return cls(since, END if row.until is None else row.until, row)


def _end(segments: Iterable[_Segment], until: int) -> None:
    for each in segments:
        each.until = min(each.until, until)


def _beginning(row: Subscription) -> tuple[str, int]:
    return row.id, BEGINNING if row.since is None else row.since


def entry_of(number: int, change: Entry | Mapping[str, Any]) -> Entry:
    """A change as an entry: one that is given without a place stands at its number."""
    return change if isinstance(change, Entry) else Entry(Place("changes", number), change)


def rejection_of(entry: Entry, error: FairleadError) -> Rejection:
    """What is kept of a row that cannot be taken in: the reason on one line, without the picture of the place."""
    said, _, hint = behind_place(error).partition("\n  hint: ")
    reason = said.partition("\n")[0] + (f"; {hint}" if hint else "")
    return Rejection(entry.place.file, entry.place.line, reason, entry.raw)


def behind_place(error: FairleadError) -> str:
    """An error as it is said behind a file and a line: the first line of a text need not be numbered, too."""
    return str(error).removeprefix("line 1, ")


def admitted(given: Subscription, watermark: int) -> Subscription:
    """As it takes effect when the watermark stands there; where it was moved, `asked` says what was asked for."""
    since = None if given.since is None else OrderKey.first_at(given.since)
    validity = Validity(since).admitted_at(watermark)
    if not validity.moved:
        return given
    assert validity.since is not None
    assert validity.requested is not None
    return given._replace(since=validity.since.time, asked=validity.requested.time)


@cache
def load_extension(name: str) -> None:
    """Register an extension in this process, once."""
    from fairlead.filters.extensions import load

    load(name)


# -- reading many ------------------------------------------------------------------------------------------


class _Places(NamedTuple):
    """Where the rows of a content were read, in two arrays: a million objects would be in the way."""

    files: list[str]
    file: NDArray[np.int32]
    line: NDArray[np.int64]

    def at(self, row: int, id: str) -> str:
        """How an error names a row."""
        file, line = self.files[int(self.file[row])], int(self.line[row])
        return f"{file}:{line}" if line else f"{file}, subscription {id!r}"


def _rows(found: Iterable[Entry]) -> Iterator[tuple[Place, Subscription]]:
    for entry in found:
        try:
            row = read_entry(entry)
            if not isinstance(row, Subscription):
                raise ValueRefused(f"the subscription {row.id!r} has no filter")
        except FairleadError as error:
            raise PipelineError(f"{entry.place}: {behind_place(error)}") from error
        yield entry.place, row


def _distinct(rows: Iterator[tuple[Place, Subscription]]) -> tuple[Content, _Places]:
    """The columns of rows, sorted by id; identical rows count once, different ones under one id are refused."""
    files: dict[str, int] = {}
    file: list[NDArray[np.int32]] = []
    line: list[NDArray[np.int64]] = []
    contents: list[Content] = []
    chunk: list[tuple[Place, Subscription]] = []

    def close() -> None:
        if chunk or not contents:
            contents.append(Content.of([row for _, row in chunk]))
            numbers = [files.setdefault(place.file, len(files)) for place, _ in chunk]
            file.append(np.array(numbers, np.int32))
            line.append(np.array([place.line or 0 for place, _ in chunk], np.int64))
            chunk.clear()

    for each in rows:
        chunk.append(each)
        if len(chunk) == CHUNK:
            close()
    close()
    content = Content.joined(contents)
    places = _Places(list(files), np.concatenate(file), np.concatenate(line))
    order = pc.sort_indices(content.ids).to_numpy()
    content = content.picked(order)
    places = places._replace(file=places.file[order], line=places.line[order])
    if len(content.ids) < 2:
        return content, places

    again = _same(content.ids)
    same = again & _same(content.subscribers) & _same(content.texts)
    same &= (content.since[1:] == content.since[:-1]) & (content.until[1:] == content.until[:-1])
    clashes = np.flatnonzero(again & ~same) + 1
    if len(clashes):
        row = int(clashes[np.lexsort((places.line[clashes], places.file[clashes]))[0]])
        id = content.ids[row].as_py()
        raise PipelineError(
            f"{places.at(row, id)}: the id {id!r} is taken by another subscription, {places.at(row - 1, id)}",
            hint="ids are unique; a subscription that changes is a change, read while the stream runs",
        )
    if again.any():
        first = np.flatnonzero(np.concatenate(([True], ~again)))
        content = content.picked(first)
        places = places._replace(file=places.file[first], line=places.line[first])
    return content, places


def _same(names: pa.Array) -> NDArray[np.bool_]:
    """Which names are the same as the one before."""
    found: NDArray[np.bool_] = pc.equal(names[1:], names[:-1]).to_numpy(zero_copy_only=False)
    return found


class _Problems:
    """The filters that cannot be read: the first one in the order of the input is reported, and how many."""

    def __init__(self, content: Content, places: _Places) -> None:
        self._content, self._places = content, places
        self._count = 0
        self._first: tuple[tuple[int, int], int, FairleadError] | None = None

    def add(self, row: int, error: FairleadError) -> None:
        self._count += 1
        place = int(self._places.file[row]), int(self._places.line[row])
        if self._first is None or place < self._first[0]:
            self._first = place, row, error

    def report(self) -> None:
        if self._first is None:
            return
        _, row, error = self._first
        id = self._content.ids[row].as_py()
        more = f"\n  and {self._count - 1} more that cannot be read" if self._count > 1 else ""
        raise PipelineError(f"{self._places.at(row, id)}: {behind_place(error)}{more}") from error
