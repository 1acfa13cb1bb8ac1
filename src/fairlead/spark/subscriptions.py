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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.delivery import Validity
from fairlead.errors import DamagedIndex, FairleadError, SchemaError, ValueRefused
from fairlead.filters import Schema, parse
from fairlead.filters.extensions import load
from fairlead.ingest import Rejection
from fairlead.model.order import BEGINNING, END, OrderKey
from fairlead.spark.collecting import Problems, distinct, rows_of
from fairlead.spark.entries import (
    SUBSCRIPTION,
    Ending,
    Entry,
    Location,
    Noun,
    SubscriptionsInput,
    entries,
    entry_of,
    read_entry,
    rejection_of,
    without_location,
)
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
from fairlead.spark.placement import ANYWHERE, Placement, assign_buckets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "SUBSCRIPTION",
    "Changed",
    "Ending",
    "Entry",
    "Location",
    "Noun",
    "Subscription",
    "Subscriptions",
    "SubscriptionsInput",
    "admitted",
    "entries",
    "entry_of",
    "load_extension",
    "read_entry",
    "rejection_of",
    "without_location",
]

PART_MAX: Final = 2_000_000
"""Beyond so many filters they are placed (see `placement`), so that no worker has to hold them all."""
_ENDINGS: Final = ".endings"


@dataclass(frozen=True, slots=True)
class Changed:
    """The result of changes: the subscriptions from now on, the changes that took effect, and the
    rejected ones."""

    subscriptions: Subscriptions
    taken: tuple[Subscription, ...] = ()
    """As they took effect; `requested` is the time that was requested, where it was moved."""
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
    keys: str | None = None
    """The file with the keys that workers decide about sealed predicates with. It is no part of the manifest."""

    @property
    def count(self) -> int:
        """The number of subscriptions that hold at any time."""
        return self.count_from(BEGINNING)

    def count_from(self, watermark: int) -> int:
        """The number of subscriptions that hold at a watermark or later. An id is one subscription, however often
        it changed."""
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
        """The memory that a worker maps to hold all of them, in bytes."""
        return sum(part.size for part in self.parts)

    # -- reading -------------------------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        given: SubscriptionsInput | DataFrame | Iterable[Entry | Mapping[str, Any]],
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
        content, locations = distinct(rows_of(entries(given, spark, ("id", "filter"))))
        home = str(directory)
        problems = Problems(content, locations)
        if len(content.ids) <= part_max:
            part = compiled(content, home, schema, check=problems.add)
            problems.report()
            return cls(home, (part,), schema, None, None, tuple(extensions))

        placement, buckets = assign_buckets(
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
        """All subscriptions, in batches: id, subscriber, filter, from, until and requested, as they are valid."""
        for part in self.parts:
            content = self._content(part)
            table = pa.table(
                {
                    "id": content.ids,
                    "subscriber": content.subscribers,
                    "filter": content.texts,
                    "from": pa.array(content.since, mask=content.since == BEGINNING),
                    "until": pa.array(content.until, mask=content.until == END),
                    "requested": content.requested,
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
        return Content(table.ids, table.subscribers, texts, table.since, self.until(part), table.requested)

    # -- changing ------------------------------------------------------------------------------------------

    def changed(self, changes: Iterable[Entry | Mapping[str, Any]], watermark: int) -> Changed:
        """These subscriptions after changes, in the order given, that are taken in at a watermark.

        A change that cannot be read, or that ends what is not there, is a rejection and changes nothing.
        """
        found = [entry_of(number, change) for number, change in enumerate(changes, start=1)]
        read: list[tuple[int, Subscription | Ending]] = []
        rejections: dict[int, Rejection] = {}
        for number, entry in enumerate(found):
            try:
                change = read_entry(entry)
                if isinstance(change, Subscription):
                    parse(change.filter, self.schema)
                read.append((number, change))
            except FairleadError as error:
                rejections[number] = rejection_of(entry, error)

        segments = self._segments({change.id for _, change in read})
        taken: list[Subscription] = []
        ended: list[tuple[str, int]] = []
        fresh: list[_Segment] = []
        for number, change in read:
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
                rejections[number] = rejection_of(found[number], problem)

        result = self._with_endings([each for mine in segments.values() for each in mine])
        rows = [each.row._replace(until=each.until) for each in fresh if each.since < each.until]
        if rows:
            part = compiled(Content.of(sorted(rows, key=_beginning)), self.directory, self.schema)
            result = result._with(part)._compacted(watermark)
        return Changed(
            result,
            tuple(taken),
            tuple(ended),
            tuple(rejections[number] for number in sorted(rejections)),
            tuple(row._replace(until=None if row.until == END else row.until) for row in rows),
            tuple(each.cut() for mine in segments.values() for each in mine if each.is_cut),
        )

    def among(self, ids: set[str]) -> list[str]:
        """The ids of subscriptions among some ids, in order."""
        return sorted(self._segments(ids))

    def _segments(self, ids: set[str]) -> dict[str, list[_Segment]]:
        """The segments of the parts under some ids."""
        found: dict[str, list[_Segment]] = {}
        if not ids:
            return found
        wanted = pa.array(sorted(ids), pa.string())
        for part in self.parts:
            table = table_of(part)
            until = self.until(part)
            matches = pc.index_in(table.ids, value_set=wanted)
            for ordinal in np.flatnonzero(matches.is_valid().to_numpy(zero_copy_only=False)).tolist():
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
        """The manifest's entry about them: the names of the files, without their directory."""
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
    def live_files(self) -> frozenset[str]:
        """The names of all files that belong to them: others in the directory may be removed."""
        return frozenset(self.files) | {table_of(part).texts for part in self.parts}


@dataclass(slots=True)
class _Segment:
    """The entry that is valid under an id from one time to another, while changes are being applied."""

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


def admitted(given: Subscription, watermark: int) -> Subscription:
    """A subscription as it takes effect at a watermark; `requested` is its time before it was moved to that."""
    since = None if given.since is None else OrderKey.first_at(given.since)
    validity = Validity(since).admitted_at(watermark)
    if not validity.moved:
        return given
    assert validity.since is not None
    assert validity.requested is not None
    return given._replace(since=validity.since.time, requested=validity.requested.time)


@cache
def load_extension(name: str) -> None:
    """Register an extension in this process, once."""
    load(name)
