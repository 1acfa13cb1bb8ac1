"""The base for readers: an index with its ids, and the stamps of removed filters.

A filter that is removed stays in the arrays, with the number of the version that removed it; a reader of an older
version still finds it, a reader of a newer one does not. The next merge leaves it out.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.matching.columnar import kernels
from fairlead.matching.columnar.access import Observed
from fairlead.matching.columnar.columns import Desk, Reader, Rows
from fairlead.matching.columnar.compile import ANY, EQ, KIND, MEMBER, RANGE, SYMBOL
from fairlead.matching.columnar.ids import Ids, ids_of
from fairlead.matching.columnar.index import Index
from fairlead.matching.columnar.meaning import accepts, score_of
from fairlead.matching.columnar.table import Ledger
from fairlead.model import Notification

if TYPE_CHECKING:
    from fairlead.matching.columnar.scanning import Scanner

__all__ = ["Base", "trim"]

FOREVER: Final = 2**62
_NO_DESTINATIONS: Final = np.empty(0, np.int32)
PATHS: Final = {
    KIND: "kind",
    EQ: "value",
    MEMBER: "value",
    RANGE: "range",
    SYMBOL: "symbol",
    ANY: "symbol",
    -1: "always",
    -2: "never",
    -3: "one of several",
}
CELLS_MAX: Final = 1 << 22
"""The number of values of notifications that are laid out at a time."""
TEXT_MAX: Final = 1 << 30
"""The longest text that the kernel is given: it takes the length as a C int."""


class Base:
    """An index, the ids of its filters by ordinal, their destinations, and when they died."""

    def __init__(self, index: Index, ids: Ids, destinations: Sequence[Any] | None) -> None:
        self.index, self.ids = index, ids
        self.destinations = destinations
        self.died = np.empty(0, np.int64)  # as long as the ids once one has died
        self.dead = 0
        self.tally = np.empty(0, np.int64)
        self.tested = 0
        self.observed = Observed(0, np.zeros(len(index.section("symbol_sort")), np.int64))
        self._reader: Reader | None = None
        self._desks: list[Desk] = []
        self._scanners: list[Scanner] | None = []
        """None where JSON texts are not scanned."""
        self._turn = 0
        self._asking: dict[int, frozenset[int]] = {}
        self._names, self._by_ordinal = _numbered(destinations)

    def __len__(self) -> int:
        return len(self.index)

    # -- ids -----------------------------------------------------------------------------------------------

    def find(self, id: Hashable) -> int:
        """The ordinal of the living filter with this id, or -1."""
        return next(filter(self.lives, self.ids.find(id)), -1)

    def lives(self, ordinal: int, stamp: int = FOREVER - 1) -> bool:
        """Whether a filter lived in the version of a stamp, or lives still."""
        return not len(self.died) or bool(self.died[ordinal] > stamp)

    def remove(self, ordinal: int, stamp: int) -> None:
        """Let a filter die with the version of this stamp."""
        if not len(self.died):
            died = np.full(len(self.ids), FOREVER, np.int64)
            died[ordinal] = stamp
            self.died = died
        self.died[ordinal] = stamp
        self.dead += 1

    def joined(self, ledger: Ledger, ids: Sequence[Any], destinations: Sequence[Any] | None) -> Base:
        """A base of the living filters and of further ones behind them."""
        alive = np.flatnonzero(self.died == FOREVER) if self.dead else np.arange(len(self.ids))
        old = self.ids.subset(alive) if self.dead else self.ids
        names: list[Any] | None = None
        if self.destinations is not None or destinations is not None:
            mine = self.destinations or [None] * len(self.ids)
            names = [mine[ordinal] for ordinal in alive.tolist()]
            names.extend(destinations or [None] * len(ids))
        return Base(self.index.merged(alive, ledger.table(), self.observed), ids_of(ids, old), names)

    # -- matching ------------------------------------------------------------------------------------------

    @property
    def reader(self) -> Reader:
        if self._reader is None:
            self._reader = Reader(self.index)
        return self._reader

    def match(self, notification: Notification, stamp: int) -> list[Any]:
        """The ids of the filters that match, of those living in the version of this stamp."""
        try:
            desk = self._desks.pop()
        except IndexError:
            desk = Desk(self.reader, len(self._names))
        settled = self._reader.read(notification, desk)  # type: ignore[union-attr]
        count = self._run(desk, desk.rows, stamp, _NO_DESTINATIONS)
        found: list[Any] = []
        if not settled or desk.counters[1]:
            ordinals = self._settle(desk.out[:count].tolist(), notification, stamp, settled, desk.exotic)
            found = list(map(self.ids.one, ordinals))
        elif count:
            found = self.ids.picked(desk.out[:count])
        self._turn += 1
        if self._turn & 63 == 0:
            self._observe(desk.rows)
            self.tested += int(desk.counters[0])
            desk.counters[0] = 0
        self._desks.append(desk)
        return found

    def match_text(self, text: bytes, stamp: int) -> list[Any] | None:
        """`match` of the notification in a JSON text; None if only a reader can decide."""
        scanners = self._scanners
        scanner = scanners.pop() if scanners else self._scanner()
        if scanner is None or len(text) > TEXT_MAX:
            return None
        if scanner.died is not self.died or scanner.stamp != stamp:
            scanner.look_at(self.died, stamp)
        count = self._scan(scanner.context, text, len(text))
        found: list[Any] | None
        if count == 1:
            found = [self.ids.one(scanner.out.item(0))]
        else:
            found = [] if count == 0 else None if count < 0 else self.ids.picked(scanner.out[:count])
        scanners.append(scanner)  # type: ignore[union-attr]  # there is a scanner
        return found

    def _scanner(self) -> Scanner | None:
        """A scanner of JSON texts; None where filters ask about more than is scanned."""
        from fairlead.matching.columnar.scanning import Scanner, call

        if self._scanners is not None and not Scanner.reads(self.reader):
            self._scanners = None
        self._scan = call
        return None if self._scanners is None else Scanner(self.reader)

    def _run(self, desk: Desk, rows: Rows, stamp: int, destinations: NDArray[np.int32]) -> int:
        """Run the kernel over rows; the matches are in desk.out, from desk.out_start on for each row."""
        index, size = self.index, len(rows.states)
        desk.counters[1] = 0
        row = 0
        while True:
            row = kernels.match_rows(
                index.directory,
                index.ints,
                index.reals,
                index.pool,
                rows.states,
                rows.coordinates,
                rows.extra_start,
                rows.extras,
                rows.text_start,
                rows.text,
                self.died,
                stamp,
                destinations,
                row,
                desk.stamps,
                desk.scratch,
                desk.out_start,
                desk.out,
                desk.counters,
                self.tally,
            )
            if row == size:
                return int(desk.out_start[size])
            # Room for all filters besides: a row whose matches do not fit is begun again.
            desk.out = np.concatenate((desk.out, np.empty(len(desk.out) + len(index), np.int32)))

    def match_rows(self, rows: Rows, stamp: int) -> tuple[NDArray[np.int32], NDArray[np.int32], bool]:
        """The starts and the ordinals of the matches of each row, and whether any is in doubt."""
        desk = Desk(self.reader, len(self._names))
        desk.out_start = np.zeros(len(rows.states) + 1, np.int32)
        desk.out = np.empty(1024 + 4 * len(rows.states) + 2 * len(self), np.int32)
        count = self._run(desk, rows, stamp, _NO_DESTINATIONS)
        self.tested += int(desk.counters[0])
        self._observe(rows)
        return desk.out_start, desk.out[:count], bool(desk.counters[1] or rows.inexact or rows.exotic)

    def match_batch(self, notifications: Sequence[Notification], stamp: int) -> list[list[Any]]:
        """The ids of the filters that match each notification."""
        step = max(1, CELLS_MAX // self.reader.width)
        found: list[list[Any]] = []
        for first in range(0, len(notifications), step):
            part = notifications[first : first + step]
            rows = self.reader.read_all(part)
            starts, ordinals, doubtful = self.match_rows(rows, stamp)
            at = starts.tolist()
            if doubtful:
                listed = ordinals.tolist()
                lists = [listed[begin:end] for begin, end in pairwise(at)]
                self.settle_rows(lists, rows, stamp, part.__getitem__)
                found += [list(map(self.ids.one, matching)) for matching in lists]
            else:
                with _uncollected():
                    listed = self.ids.picked(ordinals)
                    found += [listed[begin:end] for begin, end in pairwise(at)]
        return found

    def match_arrow(
        self, batch: Any, stamp: int, notification_of: Callable[[int], Notification] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The starts and the ordinals of the matches of each row of a record batch.

        `notification_of` gives the notification of a row whose batch has fewer columns than it has attributes.
        """
        from fairlead.matching.columnar.arrow import notification_at, read_batch

        rows = read_batch(self.reader, batch)
        starts, ordinals, doubtful = self.match_rows(rows, stamp)
        if doubtful:
            listed = ordinals.tolist()
            lists = [listed[begin:end] for begin, end in pairwise(starts.tolist())]
            self.settle_rows(lists, rows, stamp, notification_of or (lambda row: notification_at(batch, row)))
            starts = np.zeros(len(lists) + 1, np.int32)
            np.cumsum([len(matching) for matching in lists], out=starts[1:])
            ordinals = np.array([each for matching in lists for each in matching], np.int32)
        return starts, ordinals

    def settle_rows(
        self,
        lists: list[list[int]],
        rows: Rows,
        stamp: int,
        notification_of: Callable[[int], Notification],
    ) -> None:
        """Decide in Python what the kernel could not, row by row."""
        inexact = set(rows.inexact)
        exotic: dict[int, list[tuple[int, int]]] = {}
        for row, column in rows.exotic:
            exotic.setdefault(row, []).append((row, column))
        opaque = self.index.opaque if self.index.has_opaque else None
        for row, ordinals in enumerate(lists):
            clear = row not in inexact and row not in exotic
            if clear and (opaque is None or not ordinals or not opaque[ordinals].any()):
                continue
            lists[row] = self._settle(ordinals, notification_of(row), stamp, clear, exotic.get(row, []))

    def _settle(
        self,
        ordinals: list[int],
        notification: Notification,
        stamp: int,
        settled: bool,
        exotic: list[tuple[int, int]],
    ) -> list[int]:
        """The candidates that match after all; where a value is exotic, all who ask about it are asked."""
        index = self.index
        return [
            ordinal
            for ordinal in self._candidates(ordinals, exotic)
            if self.lives(ordinal, stamp)
            and ((settled and not index.opaque[ordinal]) or accepts(index.program(ordinal), notification))
        ]

    def _candidates(self, ordinals: list[int], exotic: list[tuple[int, int]]) -> list[int]:
        """The candidates found, and all filters that ask about an exotic value."""
        asked = set(ordinals)
        for _, column in exotic:
            if column not in self._asking:
                self._asking[column] = frozenset(self.index.asking(column))
            asked.update(self._asking[column])
        return sorted(asked)

    # -- destinations and scores ---------------------------------------------------------------------------

    def match_destinations(self, notification: Notification, stamp: int) -> list[Any]:
        """The destinations of matching filters; filters of a destination that is settled are not evaluated."""
        if self.destinations is None:
            return []
        desk = self._desks.pop() if self._desks else Desk(self.reader, len(self._names))
        settled = self.reader.read(notification, desk)
        # Where the kernel is in doubt, it must not take a destination for settled.
        count = self._run(desk, desk.rows, stamp, self._by_ordinal if settled else _NO_DESTINATIONS)
        ordinals = desk.out[:count].tolist()
        if not settled:
            ordinals = self._candidates(ordinals, desk.exotic)
        doubtful = settled and desk.counters[1] > 0
        self._desks.append(desk)
        if settled and not doubtful:
            return [self.destinations[ordinal] for ordinal in ordinals]
        opaque, destinations = self.index.opaque, self.destinations
        found = {None: None}  # who gave no destination is not asked
        if settled:
            found.update((destinations[ordinal], None) for ordinal in ordinals if not opaque[ordinal])
        for ordinal in sorted(ordinals, key=opaque.__getitem__):  # what is opaque costs most, and comes last
            if (
                destinations[ordinal] not in found
                and self.lives(ordinal, stamp)
                and accepts(self.index.program(ordinal), notification)
            ):
                found[destinations[ordinal]] = None
        return list(found)

    def scores(self, notification: Notification, least: float, stamp: int) -> list[tuple[int, float]]:
        """The ordinals of the filters that reach a score, and the scores they reach.

        All filters are looked at, for one that misses what it hangs on may still come close.
        """
        desk = self._desks.pop() if self._desks else Desk(self.reader, len(self._names))
        settled = self.reader.read(notification, desk)
        count = self._run(desk, desk.rows, stamp, _NO_DESTINATIONS)
        listed = desk.out[:count].tolist()
        matching = set(self._settle(listed, notification, stamp, settled, desk.exotic))
        index, rows = self.index, desk.rows
        scores = np.empty(len(index))
        kernels.score_slots(
            index.directory,
            index.ints,
            *index.range_ends,
            rows.states,
            rows.coordinates,
            rows.extras,
            int(rows.extra_start[1]),
            desk.stamps,
            np.empty(len(index.section("predicate_head")), np.bool_),
            scores,
        )
        self._desks.append(desk)
        scores = scores[index.slot_of]
        asked = index.opaque | index.patterned | (not settled)
        found = []
        for ordinal in np.flatnonzero((scores >= least) | (scores < 0) | asked).tolist():
            score = float(scores[ordinal])
            if score < 0.0:
                score = float(ordinal in matching)
            elif asked[ordinal]:
                score = score_of(index.program(ordinal), notification)
            if score >= least and self.lives(ordinal, stamp):
                found.append((ordinal, score))
        return found

    def paths(self, stamp: int) -> list[str]:
        """The access paths of the filters that lived in the version of this stamp."""
        slots = zip(
            self.index.section("filter_ordinal").tolist(),
            self.index.section("filter_flags").tolist(),
            strict=True,
        )
        return [PATHS[(flags >> 8) - 3] for ordinal, flags in slots if self.lives(ordinal, stamp)]

    def profile(self, notifications: Sequence[Notification], stamp: int) -> NDArray[np.int64]:
        """The number of verifications of each filter for these notifications, by ordinal."""
        probe = copy(self)
        probe.tally = np.zeros(len(self), np.int64)
        probe._desks = []
        for (
            notification
        ) in notifications:  # alone, each has room enough: nothing is begun again, and counted twice
            probe.match_batch([notification], stamp)
        return probe.tally

    def _observe(self, rows: Rows) -> None:
        """Count the symbols of some notifications: what is frequent makes a poor access."""
        some = rows.states[:1024, rows.states.shape[1] // 2 :]
        found = some[some >= 0]
        extras = rows.extras[: rows.extra_start[len(some)], 1]
        found = np.concatenate((found, extras[extras >= 0]))
        np.add.at(self.observed.hits, found, 1)
        self.observed.rows += len(some)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Many lists are made at once and none is garbage: the collector would walk through them for nothing."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


TRIMMED_MIN: Final = 50_000


def trim(size: int) -> None:
    """After a large build, give the system back what it took for a while: more than the index itself."""
    if size >= TRIMMED_MIN:
        with suppress(AttributeError, OSError):  # only glibc has it
            ctypes.CDLL(None).malloc_trim(0)


def _numbered(destinations: Sequence[Any] | None) -> tuple[dict[Any, int], NDArray[np.int32]]:
    """The destinations by number, and the number of each ordinal's; -1 for none."""
    if destinations is None:
        return {}, _NO_DESTINATIONS
    names: dict[Any, int] = {}
    numbers = np.fromiter(
        (-1 if name is None else names.setdefault(name, len(names)) for name in destinations),
        np.int32,
        len(destinations),
    )
    return names, numbers
