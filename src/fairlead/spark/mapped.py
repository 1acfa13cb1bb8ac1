"""Mappings of scopes as columns: the versions of a batch of notifications, and their receivers.

    records ─▶ flows: which rows come where, in which version ─▶ all versions as one batch ─▶ match, narrow
                 ▲             │
                 └── kernels ◀─┘   filters and mappings, each for all rows that come to it

A version's content is a column of JSON texts, made by kernels (`fairlead.scopes.texts`) from the column before it.
Python functions are called for the rows that come to them, and `mappings.apply` decides where a kernel is not
certain. Two ways to one content make one version: versions are told apart by their tags.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.filters import Filter
from fairlead.filters.naming import Attributes
from fairlead.matching.columnar import Columnar
from fairlead.model.encoding import canonical
from fairlead.scopes.flows import PUBLISHED, Flows, Rows
from fairlead.scopes.interfaces import Crossing, Gate
from fairlead.scopes.mappings import Block, MappingFailed, Steps, apply
from fairlead.scopes.sliced import Bits
from fairlead.scopes.texts import Rewriting, tag_texts
from fairlead.spark.frames import RECORD, encode, notifications_in
from fairlead.spark.matcher import RECEIVERS, components_of, receivers_in
from fairlead.spark.scanning import buffers_of, columns_in
from fairlead.spark.scoping import Components, Epoch, encoded
from fairlead.spark.subscriptions import Subscriptions

__all__ = ["RECEIVER", "MappedVersions", "Received", "received_of"]

log: Final = logging.getLogger(__name__)

RECEIVER: Final = pa.struct([("subscriber", pa.string()), ("subscriptions", pa.list_(pa.string()))])
_SLOT: Final = "slot"
"""The column with the slot of a version among all of a batch."""
_UNKNOWN, _STOPPED, _AS_PUBLISHED = -1, -2, -3
"""Rows without a slot in a version: nothing is known; it did not pass; nothing changed."""
_IDENTITY: Final = Rewriting.of(())

Marks: TypeAlias = NDArray[np.uint64]


class _Made:
    """Rows in a version, on their way through the steps of a mapping."""

    def __init__(self, rows: Rows, texts: pa.Array, plain: pa.Array) -> None:
        self.rows, self.texts, self.plain = rows, texts, plain
        self.marks: Marks = np.zeros(len(rows), np.uint64)
        self.is_marked: Bits = np.zeros(len(rows), np.bool_)

    def keep(self, those: Bits) -> None:
        """Go on with some of them."""
        if not those.all():
            mask = pa.array(those)
            self.rows, self.texts, self.plain = (
                self.rows[those],
                self.texts.filter(mask),
                self.plain.filter(mask),
            )
            self.marks, self.is_marked = self.marks[those], self.is_marked[those]


class _Version:
    """The rows of a version: where each is, their texts, and which filters they match."""

    def __init__(self, size: int) -> None:
        self.where = np.full(size, _UNKNOWN, np.int64)
        self.parts: list[_Made] = []
        self.count = 0
        self._passed: list[NDArray[np.bool_]] = []

    def add(self, made: _Made) -> None:
        self.where[made.rows] = self.count + np.arange(len(made.rows))
        self.count += len(made.rows)
        self.parts.append(made)

    def passed(self, contents: _Contents) -> NDArray[np.bool_]:
        """For each filter of the graph, which of the rows, by their slots, match it."""
        while len(self._passed) < len(self.parts):
            self._passed.append(contents.matching(self.parts[len(self._passed)]))
        if len(self._passed) > 1:
            self._passed = [np.concatenate(self._passed, axis=1)]
            self.parts = [_joined(self.parts)]
        return self._passed[0]


def _joined(parts: Sequence[_Made]) -> _Made:
    if len(parts) == 1:
        return parts[0]
    texts, plain = (pa.concat_arrays(each) for each in ([p.texts for p in parts], [p.plain for p in parts]))
    made = _Made(np.concatenate([each.rows for each in parts]), texts, plain)
    made.marks = np.concatenate([each.marks for each in parts])
    return made


class _Gates:
    """The filters of a graph's interfaces and mappings, in an engine."""

    def __init__(self, epoch: Epoch) -> None:
        found = dict.fromkeys(epoch.sliced.filters)
        for edge in epoch.graph.edges:
            steps = (*edge.mapping.outward, *edge.mapping.inward)
            found.update(dict.fromkeys(step.filter for step in steps if isinstance(step, Block)))
        self.filters = tuple(found)
        self.numbers = {filter: number for number, filter in enumerate(found)}
        self.by_id: dict[int, tuple[Filter, int]] = {}
        self.engine: Columnar[int] = Columnar()
        self.engine.add_many(enumerate(self.filters))
        attributes = Attributes()
        for filter in self.filters:
            attributes.add(filter)
        self.names = tuple(sorted(attributes.names))

    def number(self, filter: Filter) -> int:
        """The number of a filter; comparing filters costs more than the rest."""
        known = self.by_id.get(id(filter))
        if known is None:
            known = self.by_id[id(filter)] = (filter, self.numbers[filter])
        return known[1]


@lru_cache(maxsize=8)
def _gates_of(epoch: Epoch) -> _Gates:
    return _Gates(epoch)


class _Contents:
    """The content of the rows of a batch, in all versions that are asked for."""

    def __init__(self, batch: pa.RecordBatch, epoch: Epoch) -> None:
        self._batch, self._plan, self._gates = batch, epoch.plan, _gates_of(epoch)
        published = _Version(batch.num_rows)
        texts = batch.column(RECORD)
        published.add(_Made(np.arange(batch.num_rows), texts, texts))
        self.versions = [published]
        self._children: dict[tuple[int, int], int] = {}
        self._marks: Marks | None = None

    # -- what flows ask for ------------------------------------------------------------------------------------

    def passing(self, version: int, gates: Sequence[Gate], rows: Rows) -> Rows:
        if not len(rows):
            return rows
        known = self.versions[version]
        passed, at = known.passed(self), known.where[rows]
        those = passed[self._gates.number(gates[0].filter), at]
        for gate in gates[1:]:
            those &= passed[self._gates.number(gate.filter), at]
        found: Rows = rows[those]
        return found

    def mapped(self, version: int, crossing: Crossing, rows: Rows) -> list[tuple[int, Rows]]:
        key = (version, self._plan.mapping_number(crossing))
        number = self._children.get(key)
        if number is None:
            number = self._children[key] = len(self.versions)
            self.versions.append(_Version(self._batch.num_rows))
        made = self.versions[number]
        new = rows[made.where[rows] == _UNKNOWN]
        if len(new):
            self._make(made, version, crossing.steps, new)
        where = made.where[rows]
        return [(number, rows[where >= 0]), (PUBLISHED, rows[where == _AS_PUBLISHED])]

    # -- mappings ----------------------------------------------------------------------------------------------

    def _make(self, child: _Version, version: int, steps: Steps, rows: Rows) -> None:
        """Let a mapping make versions of rows."""
        given = self.versions[version]
        part = given.parts[0] = _joined(given.parts)
        del given.parts[1:]
        made = self._changed(_taken(part, rows, given.where[rows]), steps)
        child.where[rows] = _STOPPED
        self._mark(made)
        same = made.marks == self.published_marks[made.rows]
        child.where[made.rows[same]] = _AS_PUBLISHED
        made.keep(~same)
        child.add(made)

    def _changed(self, made: _Made, steps: Steps) -> _Made:
        for rewriting, some in _segments(steps):
            if not len(made.rows):
                break
            if rewriting is None and isinstance(some[0], Block):
                number = self._gates.number(some[0].filter)
                made.keep(~self.matching(made, number)[0])
            elif rewriting is None:
                self._apply(made, some, np.ones(len(made.rows), np.bool_))
            else:
                starts, letters = buffers_of(made.texts)
                found = rewriting.on(letters, starts)
                made.texts = _strings(found.letters, found.starts)
                texts, made.plain = made.texts, _strings(found.plain_letters, found.plain_starts)
                made.marks, made.is_marked = found.marks, found.sure.copy()
                if not found.sure.all():
                    made.texts = pc.if_else(pa.array(found.sure), texts, _strings(letters, starts))
                    self._apply(made, some, ~found.sure)
        return made

    def _apply(self, made: _Made, steps: Steps, those: Bits) -> None:
        """Let `mappings.apply` decide about some rows."""
        at = np.flatnonzero(those)
        results: list[str | None] = []
        for each in notifications_in(self._rows(made.rows[at], made.texts.take(pa.array(at)))):
            try:
                mapped = apply(steps, each)
            except MappingFailed as error:
                log.error("a mapping failed, and let nothing pass: %s", error)
                mapped = None
            results.append(None if mapped is None else encode(mapped))
        retogether = pa.array(results, pa.string())
        mask = pa.array(those)
        made.texts = pc.replace_with_mask(made.texts, mask, retogether)
        made.plain = pc.replace_with_mask(made.plain, mask, retogether)
        made.is_marked = made.is_marked & ~those
        made.keep(made.texts.is_valid().to_numpy(zero_copy_only=False))

    def _rows(self, rows: Rows, texts: pa.Array) -> pa.RecordBatch:
        """Rows of the batch with other texts."""
        given = self._batch.take(pa.array(rows))
        at = given.schema.get_field_index(RECORD)
        return given.set_column(at, given.schema.field(at), texts)

    # -- tags and filters --------------------------------------------------------------------------------------

    def _mark(self, made: _Made) -> None:
        """Find the tags of contents that have none yet."""
        missing = np.flatnonzero(~made.is_marked)
        if not len(missing):
            return
        assert _IDENTITY is not None
        texts = made.texts.take(pa.array(missing))
        starts, letters = buffers_of(texts)
        found = _IDENTITY.on(letters, starts)
        unsure = np.flatnonzero(~found.sure)
        those = notifications_in(self._rows(made.rows[missing[unsure]], texts.take(pa.array(unsure))))
        for at, each in zip(unsure.tolist(), those, strict=True):
            digest = blake2b(canonical(each.attributes), digest_size=8).digest()
            found.marks[at] = int.from_bytes(digest, "little")
        made.marks = made.marks.copy()
        made.marks[missing] = found.marks
        made.is_marked = np.ones(len(made.rows), np.bool_)

    @property
    def published_marks(self) -> Marks:
        """The tags of what was published."""
        if self._marks is None:
            published = self.versions[PUBLISHED].parts[0]
            self._mark(published)
            self._marks = published.marks
        return self._marks

    def matching(self, made: _Made, number: int | None = None) -> NDArray[np.bool_]:
        """For each filter, or for one, which rows match it."""
        gates = self._gates
        found = np.zeros((len(gates.filters), len(made.rows)), np.bool_)
        if gates.filters and len(made.rows):
            columns, sure = columns_in(made.plain, gates.names)
            here, others = np.flatnonzero(sure), np.flatnonzero(~sure)
            if len(here):
                rows = self._rows(made.rows[here], made.texts.take(pa.array(here)))
                some = columns if len(here) == len(made.rows) else columns.take(pa.array(here))
                matches = gates.engine.match_arrow(some, lambda row: notifications_in(rows.slice(row, 1))[0])
                ids = np.asarray(matches.ids, np.int64)
                at = np.repeat(here, np.diff(matches.starts))
                found[ids[matches.ordinals], at] = True
            if len(others):
                rows = self._rows(made.rows[others], made.texts.take(pa.array(others)))
                for row, numbers in zip(
                    others.tolist(), gates.engine.match_batch(notifications_in(rows)), strict=True
                ):
                    found[list(numbers), row] = True
        return found if number is None else found[number : number + 1]


def _taken(part: _Made, rows: Rows, at: NDArray[np.int64]) -> _Made:
    those = pa.array(at)
    return _Made(rows, part.texts.take(those), part.plain.take(those))


@lru_cache(maxsize=1024)
def _segments(steps: Steps) -> tuple[tuple[Rewriting | None, Steps], ...]:
    """Steps in their order: those that a kernel runs together, and single other ones."""
    found: list[tuple[Rewriting | None, Steps]] = []
    for step in steps:
        if found and found[-1][0] is not None:
            longer = (*found[-1][1], step)
            rewriting = Rewriting.of(longer)
            if rewriting is not None:
                found[-1] = (rewriting, longer)
                continue
        found.append((Rewriting.of((step,)), (step,)))
    return tuple(found)


def _strings(letters: NDArray[np.uint8], starts: NDArray[np.int64]) -> pa.Array:
    buffers = [None, pa.py_buffer(starts.astype(np.int32)), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.string(), len(starts) - 1, buffers)


# -- versions ------------------------------------------------------------------------------------------------


class MappedVersions:
    """The versions of the rows of a batch: what was published, then one version behind the other.

    ScopeError where there are too many ways to follow.
    """

    def __init__(self, batch: pa.RecordBatch, epoch: Epoch) -> None:
        self._batch, self._epoch = batch, epoch
        self._contents = _Contents(batch, epoch)
        producers, codes = encoded(batch.column("producer"))
        sources = list(epoch.sliced.at_positions(epoch.sliced.positions(producers)[codes]))
        self._flows = Flows(epoch.plan, self._contents, [(np.sort(rows), each) for rows, each in sources])

    def seen_by(self, components: Sequence[Components]) -> _Together:
        """All that components may see of it."""
        arriving: dict[int, dict[int, Rows]] = {}
        for each in components:
            for position, name in each.samples(self._epoch).items():
                if position in arriving:
                    continue
                if self._epoch.graph.is_scope(name):
                    arriving[position] = self._flows.incoming(name)
                else:
                    arriving[position] = self._flows.arriving(self._epoch.sliced.ancestry_at(position))
        return _Together(self._batch, self._epoch, self._contents.versions, arriving)

    def visible(self) -> tuple[_Together, dict[str, dict[int, Rows]]]:
        """The versions, and those that are visible in each scope."""
        scopes = {each.name: self._flows.visible(each.name) for each in self._epoch.graph.scopes}
        return _Together(self._batch, self._epoch, self._contents.versions, {}), scopes


class _Together:
    """All versions of a batch at slots, and who sees them."""

    def __init__(
        self,
        batch: pa.RecordBatch,
        epoch: Epoch,
        versions: Sequence[_Version],
        arriving: dict[int, dict[int, Rows]],
    ) -> None:
        self.batch, self._epoch, self._versions, self._arriving = batch, epoch, versions, arriving
        made = [_joined(version.parts) for version in versions if version.parts]
        self._starts = np.cumsum([0, *(version.count for version in versions)])
        self.rows = np.concatenate([each.rows for each in made])
        self.texts = pa.concat_arrays([each.texts for each in made])
        self.plain = pa.concat_arrays([each.plain for each in made])
        self.marks = np.concatenate([each.marks for each in made])
        self._visible: dict[int, Bits] = {}
        self._publishers: tuple[Components, NDArray[np.int64]] | None = None

    def slots(self, version: int, rows: Rows) -> NDArray[np.int64]:
        """The slots of rows in a version."""
        found: NDArray[np.int64] = self._starts[version] + self._versions[version].where[rows]
        return found

    @property
    def numbered(self) -> pa.RecordBatch:
        """All of them as rows of a batch, with their slots."""
        rows = self.batch.take(pa.array(self.rows))
        at = rows.schema.get_field_index(RECORD)
        rows = rows.set_column(at, rows.schema.field(at), self.plain)
        return rows.append_column(_SLOT, pa.array(np.arange(len(self.rows))))

    def sees(self, slots: NDArray[np.int64], components: Components, whose: NDArray[np.int64]) -> Bits:
        """Of each pair of a slot and the number of a component, whether this one may see it."""
        seen = np.zeros(len(slots), np.bool_)
        for pairs, position in _grouped(components.positions(self._epoch)[whose]):
            seen[pairs] = self._visible_at(position)[slots[pairs]]
        # Who has published something sees that, and no other version of it.
        own = self._published_by(components)[self.rows[slots]] == whose
        return np.where(own, slots < self.batch.num_rows, seen)

    def _visible_at(self, position: int) -> Bits:
        found = self._visible.get(position)
        if found is None:
            found = self._visible[position] = np.zeros(len(self.rows), np.bool_)
            for version, rows in self._arriving[position].items():
                found[self.slots(version, rows)] = True
        return found

    def _published_by(self, components: Components) -> NDArray[np.int64]:
        if self._publishers is None or self._publishers[0] is not components:
            producers = pc.fill_null(self.batch.column("producer"), "")
            self._publishers = (components, components.numbers_of(producers))
        return self._publishers[1]

    def groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Bits]:
        """The number of each slot's content, which slots of a row with one tag share; of each number the first
        slot; and the rows for which a tag has two spellings.
        """
        size = self.batch.num_rows
        later = np.lexsort((self.marks[size:], self.rows[size:])) + size
        rows, marks = self.rows[later], self.marks[later]
        is_first = np.ones(len(later), np.bool_)
        is_first[1:] = (rows[1:] != rows[:-1]) | (marks[1:] != marks[:-1])
        numbers = np.arange(len(self.rows))
        numbers[later] = size + np.cumsum(is_first) - 1
        firsts = np.concatenate((np.arange(size), later[is_first]))
        again = later[~is_first]
        spelled = self.texts.take(pa.array(again))
        first = self.texts.take(pa.array(firsts[numbers[again]]))
        doubtful = np.zeros(size, np.bool_)
        differs = pc.not_equal(spelled, first).to_numpy(zero_copy_only=False)
        doubtful[self.rows[again[differs.astype(np.bool_)]]] = True
        return numbers, firsts, doubtful


class _View:
    """The visibility of some slots."""

    def __init__(self, together: _Together, rows: pa.RecordBatch) -> None:
        self._together, self._slots = together, rows.column(_SLOT).to_numpy()

    def sees(self, rows: NDArray[np.int64], components: Components, whose: NDArray[np.int64]) -> Bits:
        return self._together.sees(self._slots[rows], components, whose)


def _grouped(positions: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], int]]:
    """The indexes of each position."""
    if not len(positions):
        return []
    order = np.argsort(positions, kind="stable")
    ranked = positions[order]
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    ends = [*starts[1:].tolist(), len(ranked)]
    return [(order[a:b], int(ranked[a])) for a, b in zip(starts.tolist(), ends, strict=True)]


class Received(NamedTuple):
    """Versions with their receivers."""

    rows: NDArray[np.int64]
    """Of each the row in the batch; first every row as it was published, then versions that somebody receives."""
    texts: pa.Array
    tags: pa.Array
    receivers: pa.Array
    doubtful: Bits
    """The rows of the batch that have to be evaluated one by one."""


def received_of(batch: pa.RecordBatch, epoch: Epoch, targets: Sequence[Subscriptions]) -> Received:
    """The versions of rows that somebody receives. No policy decides about these rows.

    ScopeError where there are too many ways to follow.
    """
    components = components_of(targets)
    together = MappedVersions(batch, epoch).seen_by(components)
    numbers, firsts, doubtful = together.groups()
    found = list(receivers_in(targets, together.numbered, (_SLOT,), lambda rows: _View(together, rows)))
    receivers, counts = _united(found, numbers, len(firsts), several=len(targets) > 1)
    size = batch.num_rows
    kept = np.concatenate((np.arange(size), size + np.flatnonzero(counts[size:])))
    starts = np.concatenate(([0], np.cumsum(counts[kept]))).astype(np.int32)
    at = firsts[kept]
    tags = ["" for _ in range(size)] + tag_texts(together.marks[at[size:]])
    return Received(
        together.rows[at],
        together.texts.take(pa.array(at)),
        pa.array(tags, pa.string()),
        pa.ListArray.from_arrays(pa.array(starts), receivers),
        doubtful,
    )


def _united(
    found: Sequence[pa.RecordBatch], numbers: NDArray[np.int64], size: int, *, several: bool
) -> tuple[pa.Array, NDArray[np.int64]]:
    """The receivers of contents, by their numbers and the names, and how many each has."""
    if not found:
        return pa.array([], RECEIVER), np.zeros(size, np.int64)
    lists = pa.chunked_array([each.column(RECEIVERS) for each in found]).combine_chunks()
    slots = np.concatenate([each.column(_SLOT).to_numpy() for each in found])
    counts = np.diff(lists.offsets.to_numpy())
    owners = np.repeat(numbers[slots], counts)
    given = lists.flatten()
    names = pc.dictionary_encode(pc.struct_field(given, "subscriber"))
    ranks = np.empty(len(names.dictionary), np.int64)
    ranks[pc.sort_indices(names.dictionary).to_numpy()] = np.arange(len(names.dictionary))
    keys = owners * max(1, len(ranks)) + ranks[names.indices.to_numpy()]
    keys, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    made = given.take(pa.array(first))
    if several and len(first) < len(given):
        made = _with_all_ids(given, made, inverse)
    return made, np.bincount(owners[first], minlength=size)


def _with_all_ids(given: pa.Array, made: pa.Array, inverse: NDArray[np.int64]) -> pa.Array:
    """Receivers with the subscriptions of all targets: one of a name may be at one, another at another."""
    ids: list[set[str]] = [set() for _ in range(len(made))]
    for at, some in zip(inverse.tolist(), pc.struct_field(given, "subscriptions").to_pylist(), strict=True):
        ids[at].update(some)
    united = pa.array([sorted(each) for each in ids], pa.list_(pa.string()))
    names = pc.struct_field(made, "subscriber")
    return pa.StructArray.from_arrays([names, united], ["subscriber", "subscriptions"])
