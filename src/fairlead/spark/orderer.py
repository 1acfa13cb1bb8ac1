"""Order in a worker: the outcomes of notifications, where one task sees all that depend on one another.

Law: `became` gives what `model.order.Ordering` does that takes the rows that have arrived, by (producer, sequence,
id), and is asked for a release. Rows are columns. Order times are raised along sequence numbers and causes until
nothing moves; each round is a few operations on whole columns. Where causes lead back to themselves no round
would be the last, and where a number comes behind the bound the order of arrival matters: then `Ordering` itself
decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.model import Instant, Notification, Record
from fairlead.model.encoding import canonical_content, parse_json
from fairlead.model.order import BEGINNING, END, Identity, Ordering, OrderKey, identity_of
from fairlead.spark.frames import ATTRIBUTES, KEY, PUBLISHED, RECORD, notifications_in

__all__ = [
    "CONFLICT",
    "CONTENT",
    "DOUBTFUL",
    "DUPLICATE",
    "HELD",
    "KNOWN",
    "LATE",
    "LIGHT",
    "MEANING",
    "ORDER_TIMES",
    "RANK",
    "RELEASED",
    "OrderAtOnce",
    "OrderTogether",
    "RankCopies",
    "became",
    "identities",
]

RELEASED: Final = "released"
HELD: Final = "held"
LATE: Final = "late"
DUPLICATE: Final = "duplicate"
CONFLICT: Final = "conflict"
"""The outcome of a copy with other content than the one that stands."""
DOUBTFUL: Final = "doubtful"
"""The outcome of a copy with another text than the one that stands, while contents have not been compared."""
KNOWN: Final = "known"
"""The outcome of what came late in an earlier batch and is remembered: its copies are duplicates."""
MEANING: Final = "_meaning"
RANK: Final = (MEANING, "_written")
"""The columns with what copies of one time are compared by, as `model.order.copy_rank` has it."""
CONTENT: Final = "_content"
"""The column that typed contents are compared by, where one task sees all rows."""

LIGHT: Final = ("producer", "id", "event_time", "sequence", "causes", "time", "arrived")
"""The columns of a notification that the order needs. Of a last key `arrived` is null: it is no
notification."""
ORDER_TIMES: Final = "producer string, id string, time bigint, _refused boolean"
ROUNDS_MAX: Final = 100
"""So often order times are raised; causes that lead back to themselves would raise them for ever."""

Numbers: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]


# -- the order ---------------------------------------------------------------------------------------------


class Became(NamedTuple):
    """The outcome of each row, and the order time where it is fixed. Last keys have neither."""

    time: pa.Array
    outcome: pa.Array


def became(rows: pa.Table, bound_before: int, bound: int) -> Became:
    """The outcomes of notifications that have identities, with the last keys among them."""
    found = _Columns(rows, bound_before).became(bound) if rows.num_rows else None
    return _one_by_one(rows, bound_before, bound) if found is None else found


class _Columns:
    """Rows as columns, and what each follows."""

    def __init__(self, rows: pa.Table, bound_before: int) -> None:
        self._rows, self._bound_before = rows, bound_before
        self._arrived = _mask(rows.column("arrived"))
        self._is_last = np.asarray(rows.column("arrived").is_null())
        self._own = _numbers(rows.column("event_time"))
        self._numbered = np.asarray(rows.column("sequence").is_valid())
        self._is_fixed = np.asarray(rows.column("time").is_valid()) & ~self._is_last
        # By (producer, sequence, id), as order keys of one time are ranked; a missing number comes first.
        sequence = rows.column("sequence")
        keys = pa.table(
            {
                "producer": rows.column("producer"),
                "numbered": sequence.is_valid().cast(pa.int8()),
                "sequence": sequence.fill_null(0),
                "id": rows.column("id"),
            }
        )
        order = pc.sort_indices(keys, [(name, "ascending") for name in keys.column_names])
        self._order: Numbers = order.to_numpy().astype(np.int64)
        self._rank = np.empty(len(self._order), np.int64)
        self._rank[self._order] = np.cumsum(_differ(keys, order)) - 1
        producers = rows.column("producer").combine_chunks().dictionary_encode()
        self._producers, self._producer = len(producers.dictionary), producers.indices.to_numpy()

    def became(self, bound: int) -> Became | None:
        """The outcome of the rows; None where columns cannot tell."""
        names_causes = np.asarray(self._rows.column("causes").is_valid())
        early, overtaken = self._arrived & (self._own < self._bound_before), self._overtaken()
        # What has come behind the bound may still be raised beyond it by what it follows.
        if (early & ~overtaken & (self._numbered | names_causes)).any():
            return None
        late = early | overtaken
        loose = ~(late | self._is_fixed | self._is_last)
        raised = self._raised(loose)
        if raised is None:
            return None
        time, followed = raised
        due = loose & (True if bound == END else self._own < bound)
        fixed = self._is_fixed | self._with_followed(due, followed, loose)
        released = fixed & (True if bound == END else time < bound)
        outcome = np.where(late, 0, np.where(released, 1, 2))
        names = pa.array([LATE, RELEASED, HELD]).take(pa.array(outcome))
        return Became(pa.array(time, pa.int64(), mask=~fixed), names)

    def _overtaken(self) -> Mask:
        """The arrivals with a number below the last one of their producer that is fixed."""
        if not self._is_last.any():
            return np.zeros(len(self._own), np.bool_)
        return np.asarray(self._arrived & self._numbered & (self._rank < self._of_last(self._rank)))

    def _of_last(self, values: Numbers) -> Numbers:
        """For each row the value of its producer's last key; of others the least there is."""
        per_producer = np.full(self._producers, BEGINNING, np.int64)
        per_producer[self._producer[self._is_last]] = values[self._is_last]
        return np.asarray(per_producer[self._producer])

    def _raised(self, loose: Mask) -> tuple[Numbers, tuple[Numbers, Numbers]] | None:
        """The order times, and pairs of (what names a cause, the cause); None where they do not settle."""
        time = self._own.copy()
        given = _numbers(self._rows.column("time"))
        time[self._is_fixed] = given[self._is_fixed]
        if self._is_last.any():
            time[self._is_last] = given[self._is_last]
            floor = self._of_last(time)
            numbered = loose & self._numbered
            time[numbered] = np.maximum(time[numbered], floor[numbered])
        chain = self._order[(loose & self._numbered)[self._order]]
        starts = _starts(self._producer[chain])
        effects, causes = self._caused(loose)
        strict = self._rank[effects] < self._rank[causes]
        for _ in range(ROUNDS_MAX):
            before = time.copy()
            time[chain] = _running_maximum(time[chain], starts)
            if not len(effects):
                return time, (effects, causes)
            np.maximum.at(time, effects, time[causes] + strict)
            if (time == before).all():
                return time, (effects, causes)
        return None

    def _caused(self, loose: Mask) -> tuple[Numbers, Numbers]:
        """The pairs of loose rows and the rows, loose or fixed, that they name as their causes."""
        nothing = np.empty(0, np.int64)
        named = self._rows.column("causes").combine_chunks()
        owners = pc.list_parent_indices(named).to_numpy().astype(np.int64)
        if not len(owners):
            return nothing, nothing
        flat = named.flatten()
        wanted = identities(pc.struct_field(flat, "producer"), pc.struct_field(flat, "id"))
        known = np.flatnonzero(loose | self._is_fixed)
        there = self._rows.take(pa.array(known))
        found = pc.index_in(wanted, value_set=identities(there.column("producer"), there.column("id")))
        valid = np.asarray(found.is_valid()) & loose[owners]
        places = found.fill_null(0).to_numpy()
        return owners[valid], known[places[valid]]

    def _with_followed(self, due: Mask, pairs: tuple[Numbers, Numbers], loose: Mask) -> Mask:
        """The rows that are due, and all that they follow, as a mask."""
        fixed = due.copy()
        chain = self._order[(loose & self._numbered)[self._order]]
        # Along a chain what comes before what is fixed is fixed: the same maximum, from the other end.
        backwards = chain[::-1]
        starts = _starts(self._producer[backwards])
        effects, causes = pairs
        while True:
            before = int(fixed.sum())
            fixed[backwards] = _running_maximum(fixed[backwards].astype(np.int64), starts) > 0
            named = causes[fixed[effects]]
            fixed[named[loose[named]]] = True
            if int(fixed.sum()) == before:
                return fixed


def _differ(keys: pa.Table, order: pa.Array) -> Mask:
    """The keys that differ from the one before, taken in an order, as a mask."""
    found = np.zeros(len(order), np.bool_)
    found[:1] = True
    for column in keys.take(order).columns:
        found[1:] |= np.asarray(pc.not_equal(column[1:], column[:-1]))
    return found


def identities(producers: Any, ids: Any) -> pa.Array:
    """Producers and ids as one text each, the same for none but the same two."""
    length = pc.binary_length(producers).cast(pa.string())
    joined = pc.binary_join_element_wise(length, producers, ids, ":")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _starts(groups: NDArray[Any]) -> Mask:
    """The places in an array of groups that lie together where a new one begins."""
    return np.concatenate(([True], groups[1:] != groups[:-1])) if len(groups) else np.empty(0, np.bool_)


def _running_maximum(values: Numbers, starts: Mask) -> Numbers:
    """The largest value so far, within each group."""
    if not len(values):
        return values
    # Ranks keep the order of values and leave room to keep groups apart.
    distinct, ranks = np.unique(values, return_inverse=True)
    group = np.cumsum(starts) - 1
    lifted = np.maximum.accumulate(ranks + group * len(distinct))
    return np.asarray(distinct[lifted - group * len(distinct)])


def _numbers(column: Any) -> Numbers:
    return np.asarray(column.fill_null(0).to_numpy(), np.int64)


def _mask(column: Any) -> Mask:
    return np.asarray(column.fill_null(False).to_numpy(), np.bool_)


def _one_by_one(rows: pa.Table, bound_before: int, bound: int) -> Became:
    """The outcome of the rows, made by `Ordering`."""
    light = rows.select(LIGHT).to_pylist()
    held, arrived, last = [], [], []
    for row in light:
        if row["arrived"] is None:
            last.append(OrderKey(*(row[name] for name in KEY)))
        elif row["arrived"]:
            arrived.append(_light(row))
        else:
            held.append((_light(row), row["time"]))
    ordering = Ordering.restore(bound_before, held, last)
    arrived.sort(key=lambda one: OrderKey.of(one, 0).rank)
    found: dict[Identity, tuple[int | None, str]] = {
        identity_of(one): (None, LATE) for one in arrived if not ordering.add(one)
    }
    released = ordering.close() if bound == END else ordering.advance(bound)
    found |= {key.identity: (key.time, RELEASED) for key, _ in released}
    found |= {identity_of(one): (time, HELD) for one, time in ordering.held}
    none: tuple[int | None, str | None] = (None, None)
    told = [none if row["arrived"] is None else found[_identity(row)] for row in light]
    return Became(
        pa.array([time for time, _ in told], pa.int64()),
        pa.array([outcome for _, outcome in told], pa.string()),
    )


def _light(row: Mapping[str, Any]) -> Notification:
    """A notification that has of its content the causes only."""
    time = None if row["event_time"] is None else Instant(row["event_time"])
    attributes = Record({"cause": row["causes"]} if row["causes"] else {})
    return Notification(attributes, row["id"], row["producer"], time, row["sequence"])


def _identity(row: Mapping[str, Any]) -> Identity:
    return Identity(row["producer"], row["id"])


# -- producers with causes ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OrderTogether:
    """The outcomes of rows with identities: held ones, new ones, and the last keys."""

    bound_before: int
    bound: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if given := list(batches):
            rows = pa.Table.from_batches(given)
            found = became(rows, self.bound_before, self.bound)
            own = rows.column("arrived").is_valid()
            refused = pc.equal(found.outcome, LATE)
            placed = pa.table(
                [rows.column("producer"), rows.column("id"), found.time, refused],
                ["producer", "id", "time", "_refused"],
            )
            yield from placed.filter(own).combine_chunks().to_batches()


# -- all in one task ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OrderAtOnce:
    """All stages in one task, identities, copies and order; it answers what they do."""

    payload: str
    content: str
    """The column that contents are compared by: the payload itself where that is text."""
    bound_before: int
    bound: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not (given := list(batches)):
            return
        rows = self._identified(pa.Table.from_batches(given))
        own = np.asarray(rows.column("arrived").is_valid())
        copy, conflict = self._copies(rows, own)
        known = own & _mask(rows.column("late"))
        concerned = np.flatnonzero(~(copy | known))
        found = became(rows.select(LIGHT).take(pa.array(concerned)), self.bound_before, self.bound)
        place = np.zeros(len(own), np.int64)
        place[concerned] = np.arange(len(concerned))
        nothing = copy | known
        at = pa.array(place, mask=nothing)
        outcome = pc.coalesce(
            found.outcome.take(at),
            pc.if_else(
                pa.array(conflict),
                CONFLICT,
                pc.if_else(pa.array(copy), DUPLICATE, pc.if_else(pa.array(known), KNOWN, None)),
            ),
        )
        made = rows.set_column(rows.schema.get_field_index("time"), "time", found.time.take(at))
        inner = [name for name in ("arrived", "late", CONTENT) if name in rows.column_names]
        made = made.drop_columns(inner).append_column("outcome", outcome)
        # The last keys are no notifications: they come along, and stay.
        yield from (made if own.all() else made.filter(pa.array(own))).combine_chunks().to_batches()

    def _identified(self, rows: pa.Table) -> pa.Table:
        """Give an id to each record that has none: the digest, with its number among remembered equals."""
        nameless = np.flatnonzero(np.asarray(rows.column("id").is_null()))
        if not len(nameless):
            return rows
        numbers = self._remembered(rows)
        light = rows.select(["producer", "digest", self.content, "source"])
        fresh = light.take(pa.array(nameless)).to_pylist()
        # By content: records may be equal and yet be spelled differently.
        order = sorted(range(len(fresh)), key=lambda at: (fresh[at][self.content], fresh[at]["source"]))
        ids: list[str] = [""] * len(fresh)
        for at in order:
            equals = fresh[at]["producer"], fresh[at]["digest"]
            numbers[equals] += 1
            ids[at] = f"{fresh[at]['digest']}-{numbers[equals]}"
        place = np.zeros(rows.num_rows, np.int64)
        place[nameless] = np.arange(len(nameless))
        given = rows.column("id").combine_chunks()
        made = pa.array(ids, pa.string()).take(pa.array(place, mask=np.asarray(given.is_valid())))
        return rows.set_column(rows.schema.get_field_index("id"), "id", pc.coalesce(given, made))

    def _remembered(self, rows: pa.Table) -> Counter[tuple[str, str]]:
        """The number of equal records that are held, by producer and digest, and that the watermark has not
        passed.
        """
        held = np.asarray(rows.column("arrived").is_valid()) & ~_mask(rows.column("arrived"))
        held &= np.asarray(rows.column("digest").is_valid())
        held &= _numbers(rows.column("event_time")) >= self.bound_before
        found = rows.select(["producer", "digest"]).filter(pa.array(held))
        return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def _copies(self, rows: pa.Table, own: Mask) -> tuple[Mask, Mask]:
        """The rows that are copies of another one that stands, and those of them that are in conflict with
        it.
        """
        copy, conflict = np.zeros(len(own), np.bool_), np.zeros(len(own), np.bool_)
        names = identities(rows.column("producer"), rows.column("id")).dictionary_encode()
        codes = names.indices.fill_null(0).to_numpy()
        several = np.bincount(codes[own], minlength=len(names.dictionary)) > 1
        doubtful = np.flatnonzero(own & several[codes])
        if not len(doubtful):
            return copy, conflict
        concerned = rows.take(pa.array(doubtful))
        told = concerned.select(
            [*KEY, "event_time", "arrived", "late", "source", self.content, PUBLISHED]
        ).to_pylist()
        last = {
            row["producer"]: (row["sequence"], row["id"])
            for row in rows.filter(pa.array(~own)).select(KEY).to_pylist()
        }
        same: dict[int, list[int]] = {}
        for at, code in enumerate(codes[doubtful].tolist()):
            same.setdefault(code, []).append(at)
        for places in same.values():
            copies = [told[at] for at in places]
            there = {(row[self.content], row[PUBLISHED]) for row in copies if row[self.content] is not None}
            ranks = _ranks_in(concerned.take(pa.array(places))) if len(there) > 1 else [NO_RANK] * len(places)
            keys = [(*self._turn(row, last), rank) for row, rank in zip(copies, ranks, strict=True)]
            first, *others = sorted(range(len(places)), key=lambda at: (keys[at], copies[at]["source"] or ""))
            copy[doubtful[[places[at] for at in others]]] = True
            if copies[first][self.content] is not None:
                differ = [places[at] for at in others if ranks[at][0] != ranks[first][0]]
                conflict[doubtful[differ]] = True
        return copy, conflict

    def _turn(self, row: Mapping[str, Any], last: Mapping[str, tuple[int, str]]) -> tuple[int, int]:
        """First comes what is remembered or has its place, last what is late; others come by their time."""
        time = row["event_time"] or 0
        if not row["arrived"]:
            return (0 if row["late"] or row["time"] is not None else 1), time
        is_late = time < self.bound_before
        if row["sequence"] is not None and row["producer"] in last:
            is_late |= (row["sequence"], row["id"]) < last[row["producer"]]
        return (2 if is_late else 1), time


# -- copies ------------------------------------------------------------------------------------------------


NO_RANK: Final = (b"", b"")


def _ranks_in(rows: pa.Table) -> list[tuple[bytes, bytes]]:
    """The ranks that copies with one time are compared by; nothing of those that are remembered without their
    content.
    """
    found: list[tuple[bytes, bytes]] = []
    for batch in rows.to_batches():
        there = batch.column(RECORD if RECORD in batch.schema.names else ATTRIBUTES).is_valid()
        chosen = batch.filter(there)
        published = chosen.column(PUBLISHED).to_pylist()
        made = iter(
            each if text is None else each.published_as(parse_json(text))
            for each, text in zip(notifications_in(chosen), published, strict=True)
        )
        found += [canonical_content(next(made)) if each else NO_RANK for each in there.to_pylist()]
    return found


@dataclass(frozen=True, slots=True)
class RankCopies:
    """Record batches of rows in, the same with what copies are compared by out: it runs in the workers."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ranks = _ranks_in(pa.Table.from_batches([batch]))
            columns = [pa.array([rank[at] for rank in ranks], pa.binary()) for at in range(len(RANK))]
            yield pa.RecordBatch.from_arrays([*batch.columns, *columns], [*batch.schema.names, *RANK])
