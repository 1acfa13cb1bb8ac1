"""Lines on Spark: patterns that are matched over columns (`correlation.patterns.lines`).

    LineGroup      patterns with the same `same` that are all lines; over a whole stream of typed columns, it looks
                   at no row by itself; elsewhere it does what any group of patterns does
    Gathered       the rows of such a group, as many whole keys at a time as fit
    types_taken    the types of events that lines look at, where they name them: Spark can leave out the others

Law: over columns, a group finds what it finds row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from fairlead.correlation.patterns import Composite, Occurrence, Pattern
from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.correlation.patterns.lines import (
    Ints,
    Line,
    Matches,
    Values,
    line_of,
    matches_of,
)
from fairlead.correlation.patterns.model import atoms
from fairlead.correlation.patterns.reporting import outputs_of
from fairlead.correlation.patterns.spelling import type_in
from fairlead.filters import Filter
from fairlead.matching.columnar import Columnar
from fairlead.model.order import END, OrderKey
from fairlead.spark.frames import ATTRIBUTES, RANK, notifications_in
from fairlead.spark.groups import PatternGroup, composed, is_plain
from fairlead.spark.patterns import Automaton, Patterns

__all__ = ["Columns", "Gathered", "LineGroup", "is_line", "numbered", "types_taken"]

ROWS: Final = 500_000
"""So many rows, of whole keys, are looked at together."""
LONG: Final = 8 * ROWS
"""A key with more rows than that is looked at row by row: all of its columns would have to be in memory."""


def is_line(automaton: Automaton, automata: Iterable[Automaton]) -> bool:
    """Whether an automaton is a line, and no other row has the same pattern from another time on."""
    twins = [each for each in automata if each.pattern == automaton.pattern]
    return len(twins) == 1 and line_of(automaton.pattern) is not None


def types_taken(automata: Iterable[Automaton]) -> frozenset[str] | None:
    """The types of all events in some patterns; None if an atom or a domain names none."""
    types: set[str] = set()
    for automaton in automata:
        for atom in atoms(automaton.pattern.body):
            for filter in (atom.filter, atom.domain):
                if filter is not None:
                    named = type_in(filter)
                    if named is None:
                        return None
                    types.add(named[0])
    return frozenset(types)


def numbered(batches: Iterable[pa.RecordBatch], same: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Record batches whose rows come by the values of some columns, with a number for each of these in `key`."""
    key, last = 0, None
    for batch in batches:
        if not batch.num_rows:
            continue
        columns = [batch.column(ATTRIBUTES).field(name) for name in same]
        changes = np.zeros(batch.num_rows, np.int64)
        for column in columns:
            changes[1:] |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
        first = [column[0].as_py() for column in columns]
        changes[0] = last is not None and first != last
        keys = key + np.cumsum(changes)
        key, last = int(keys[-1]), [column[-1].as_py() for column in columns]
        yield pa.RecordBatch.from_arrays([pa.array(keys), *batch.columns], ["key", *batch.schema.names])


class LineGroup(PatternGroup):
    """Patterns with the same `same` that are lines."""

    def __init__(
        self, number: int, same: tuple[str, ...], automata: Sequence[Automaton], patterns: Patterns
    ) -> None:
        super().__init__(number, same, automata, patterns)
        self._lines: list[tuple[Automaton, Line]] = [
            (each, line) for each in automata if (line := line_of(each.pattern)) is not None
        ]

    def accepts(self, batch: pa.RecordBatch) -> bool:
        """Whether rows can be matched as columns: typed, all points, with keys that Arrow can compare."""
        if ATTRIBUTES not in batch.schema.names:
            return False
        fields = {field.name: field.type for field in batch.schema.field(ATTRIBUTES).type}
        if any(name.partition(".")[0] == "interval" for name in fields):
            return False
        return all(name in fields and is_plain(fields[name]) for name in self.same)

    def composites_in(
        self, rows: pa.RecordBatch, engine: Columnar[int], numbers: dict[Filter, int], payload: bool
    ) -> Iterator[pa.RecordBatch | list[dict[str, Any]]]:
        """The composites in the rows of whole keys, up to the end of time. NotComparable if that takes objects."""
        stream = Columns(rows, self.same, engine, numbers)
        found = [(each, line, matches_of(line, stream, each.since)) for each, line in self._lines]
        bare: list[pa.RecordBatch] = []
        for automaton, line, matches in found:
            if not len(matches):
                continue
            for pattern, asking in self._asking(automaton).items():
                if payload or any(self._patterns.rows[number].until != END for number in asking):
                    yield list(self._written(pattern, asking, line, stream, matches=matches, payload=payload))
                else:
                    subscribers = self.subscribers(asking, BEFORE_END)
                    bare.append(_batch(pattern, subscribers, line, stream, matches))
        if bare:  # many patterns with few matches each go on together
            yield pa.concat_batches(bare)

    def _asking(self, automaton: Automaton) -> dict[Pattern, list[int]]:
        """The rows that ask for an automaton, by the pattern that each has."""
        found: dict[Pattern, list[int]] = {}
        for number in automaton.rows:
            found.setdefault(self._patterns.pattern(self._patterns.rows[number]), []).append(number)
        return found

    def _written(
        self,
        pattern: Pattern,
        asking: Sequence[int],
        line: Line,
        stream: Columns,
        *,
        matches: Matches,
        payload: bool,
    ) -> Iterator[dict[str, Any]]:
        """Composites as rows, with all that they carry."""
        used, positions = np.unique(matches.taken, return_inverse=True)
        occurrences = stream.occurrences(used)
        steps, taken = [line.steps[step].name for step in matches.steps.tolist()], positions.tolist()
        offsets = matches.offsets.tolist()
        for number, end in enumerate(matches.ends.tolist()):
            if subscribers := self.subscribers(asking, end):
                own = range(offsets[number], offsets[number + 1])
                constituents = tuple((steps[at], occurrences[taken[at]]) for at in own)
                composite = Composite(pattern, constituents, end, outputs_of(pattern, constituents))
                yield composed(composite, composite.id, subscribers, payload)


BEFORE_END: Final = END - 1


class Gathered:
    """The rows of a group as they come, by key: given out as whole keys."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._size = 0

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Take in the next rows; where there are many by now, all but those of the last key."""
        self._batches.append(batch)
        self._size += batch.num_rows
        if self._size < ROWS:
            return None
        rows = self._together()
        keys = rows.column("key").to_numpy()
        last = int(np.flatnonzero(keys != keys[-1])[-1]) + 1 if keys[0] != keys[-1] else 0
        self._batches, self._size = [rows.slice(last)], rows.num_rows - last
        return rows.slice(0, last) if last else None

    @property
    def is_long(self) -> bool:
        """Whether there is more of one key than is to be held in memory."""
        return self._size > LONG

    def rest(self) -> pa.RecordBatch | None:
        """The remaining rows."""
        rows = self._together() if self._batches else None
        self._batches, self._size = [], 0
        return rows

    def _together(self) -> pa.RecordBatch:
        [rows] = pa.Table.from_batches(self._batches).combine_chunks().to_batches()
        return rows


class Columns:
    """The rows of whole keys, in their total order, as a `Stream`."""

    def __init__(
        self, rows: pa.RecordBatch, same: tuple[str, ...], engine: Columnar[int], numbers: dict[Filter, int]
    ) -> None:
        self._numbers = numbers
        attributes = pa.RecordBatch.from_struct_array(rows.column(ATTRIBUTES))
        codes = np.zeros(rows.num_rows, np.int64)  # two keys may share a number: their values tell them apart
        for name in same:
            encoded = attributes.column(name).dictionary_encode("encode")
            _, codes = np.unique(
                codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy(zero_copy_only=False),
                return_inverse=True,
            )
        order = _order(rows, codes)
        self.rows = rows if order is None else rows.take(pa.array(order))
        codes = codes if order is None else codes[order]
        keys = self.rows.column("key").to_numpy()
        self.times: Ints = self.rows.column("time").to_numpy()
        changes = (keys[1:] != keys[:-1]) | (codes[1:] != codes[:-1])
        self.segments: Ints = np.concatenate((np.zeros(1, np.int64), np.cumsum(changes)))[: len(keys)]
        self.attributes = pa.RecordBatch.from_struct_array(self.rows.column(ATTRIBUTES))
        matches = engine.match_arrow(self.attributes)
        matched = np.array(matches.ids, np.int64)[matches.ordinals]
        self.starts, self.matched = matches.starts, matched
        """For each row, the numbers of the filters that it matches."""
        by_filter = np.argsort(matched, kind="stable")
        self._fitting: Ints = np.repeat(np.arange(len(matches)), np.diff(matches.starts))[by_filter]
        self._bounds = np.searchsorted(matched[by_filter], np.arange(len(numbers) + 1))

    def positions(self, filter: Filter) -> Ints:
        number = self._numbers[filter]
        return self._fitting[self._bounds[number] : self._bounds[number + 1]]

    def values(self, attribute: str) -> Values | None:
        if attribute not in self.attributes.schema.names:
            return None
        column = self.attributes.column(attribute)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        if pa.types.is_integer(column.type):
            return Values(column.fill_null(0).to_numpy(), valid, "whole")
        if pa.types.is_float64(column.type):
            numbers = column.fill_null(0.0).to_numpy()
            return Values(numbers, valid & ~np.isnan(numbers), "real")
        if pa.types.is_string(column.type):
            return Values(column.fill_null("").to_numpy(zero_copy_only=False), valid, "string")
        return None

    def occurrences(self, positions: Ints) -> list[Occurrence]:
        """The occurrences at some positions, as objects."""
        some = self.rows.take(pa.array(positions))
        keys = (some.column(name).to_pylist() for name in ("time", "producer", "sequence", "id"))
        return list(map(Occurrence.of, notifications_in(some), map(OrderKey, *keys)))

    @cached_property
    def named(self) -> pa.Array:
        """The producer and the id of each event, as the ids of composites are made of them."""
        parts = []
        for name in ("producer", "id"):
            column = self.rows.column(name).fill_null("")
            parts += [pc.binary_length(column).cast(pa.string()), ":", column]
        return pc.binary_join_element_wise(*parts, "").cast(pa.binary())


def _order(rows: pa.RecordBatch, codes: Ints) -> Ints | None:
    """The permutation that brings rows from the order of key and time into the total order; None: they stand
    in it.
    """
    keys, times = rows.column("key").to_numpy(), rows.column("time").to_numpy()
    is_same = (keys[1:] == keys[:-1]) & (codes[1:] == codes[:-1])
    is_sorted = (
        (keys[1:] > keys[:-1])
        | ((keys[1:] == keys[:-1]) & (codes[1:] > codes[:-1]))
        | (is_same & (times[1:] > times[:-1]))
    )
    if is_sorted.all():
        return None
    order = np.lexsort((times, codes, keys))
    keys, codes, times = keys[order], codes[order], times[order]
    if not ((keys[1:] == keys[:-1]) & (codes[1:] == codes[:-1]) & (times[1:] == times[:-1])).any():
        return order
    sequence = rows.column("sequence")
    table = pa.table(
        {
            "key": rows.column("key"),
            "code": pa.array(codes[np.argsort(order)]),
            "time": rows.column("time"),
            "producer": rows.column("producer"),
            "numbered": sequence.is_valid(),
            "sequence": sequence.fill_null(0),
            "id": rows.column("id"),
        }
    )
    ranked: Ints = pc.sort_indices(table, [(name, "ascending") for name in table.column_names]).to_numpy()
    return ranked.astype(np.int64)


def _batch(
    pattern: Pattern, subscribers: Sequence[tuple[str, str]], line: Line, stream: Columns, matches: Matches
) -> pa.RecordBatch:
    """Composites without their content, as a record batch."""
    count = len(matches)
    taken = pa.array(matches.taken)
    steps = pa.DictionaryArray.from_arrays(
        pa.array(matches.steps), pa.array([step.name for step in line.steps])
    ).cast(pa.string())
    constituents = pa.ListArray.from_arrays(
        pa.array(matches.offsets, pa.int32()),
        pa.StructArray.from_arrays(
            [steps, *(stream.rows.column(name).take(taken) for name in ("producer", "id", "event_time"))],
            ["step", "producer", "id", "time"],
        ),
    )
    starts, ends = pa.array(stream.times[matches.taken[matches.offsets[:-1]]]), pa.array(matches.ends)
    ids = pa.array(_ids(pattern, line, stream, matches))
    producer, hash = (pa.repeat(pa.scalar(each), count) for each in (PRODUCER, pattern.hash))
    asking = pa.array([[{"id": id, "subscriber": subscriber} for id, subscriber in subscribers]])
    columns = {
        "time": ends,
        "producer": producer,
        "id": ids,
        "event_time": ends,
        "type": pa.repeat(pa.scalar(pattern.name), count),
        "interval": pa.StructArray.from_arrays([starts, ends], ["start", "end"]),
        "constituents": constituents,
        "pattern": hash,
        "patterns": asking.take(pa.array(np.zeros(count, np.int64))),
        "is_public": pa.repeat(pa.scalar(pattern.is_public), count),
        RANK: pa.StructArray.from_arrays(
            [starts, hash, producer, ids], ["start", "pattern", "producer", "id"]
        ),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _ids(pattern: Pattern, line: Line, stream: Columns, matches: Matches) -> list[str]:
    """The ids of composites: `composite_id` of each."""
    steps = [b"%d:%b" % (len(name), name) for name in (step.name.encode() for step in line.steps)]
    named = stream.named.take(pa.array(matches.taken)).to_pylist()
    parts = [steps[step] + each for step, each in zip(matches.steps.tolist(), named, strict=True)]
    begun, offsets = blake2b(pattern.hash.encode(), digest_size=16), matches.offsets.tolist()
    ids = []
    for number, end in enumerate(matches.ends.tolist()):
        digest = begun.copy()
        if line.silence is not None:
            digest.update(b"\0%d" % end)
        digest.update(b"".join(parts[offsets[number] : offsets[number + 1]]))
        ids.append(digest.hexdigest())
    return ids
