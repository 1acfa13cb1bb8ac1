"""The production engine: any number of filters, any filter of the language, changed while it runs.

    n matches F    iff    match(n) contains the id that F was added under

A version is an immutable base of arrays (see `index`), a small delta of dictionaries (see `delta`) and a stamp.
Adding appends to the delta, removing writes a stamp beside the filter; both then publish a new version. Readers
take the version once and see all of it and nothing newer, whatever writers do meanwhile. When the delta has grown
past a share of the base, or a share of the base is dead, a new base is made of the living.

With few filters there is no base, and neither numpy nor a compiler is loaded. Without the extra `fast` there is
never a base: the delta holds any number of filters, at the speed of Python.
"""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

from fairlead.errors import FairleadError, NotInstalled
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.filters.schema import Schema
from fairlead.kernels import LIBRARIES, is_fast
from fairlead.matching.columnar.compile import Program, program_of
from fairlead.matching.columnar.delta import Delta
from fairlead.matching.columnar.loading import Kernels
from fairlead.matching.columnar.meaning import score_of
from fairlead.matching.engine import Id, Statistics
from fairlead.model import Notification

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa  # type: ignore[import-untyped]
    from numpy.typing import NDArray

    from fairlead.matching.columnar.base import Base

__all__ = ["Account", "Columnar", "Matches"]

log: Final = logging.getLogger(__name__)

SMALL: Final = 1_000
"""Up to so many filters live in dictionaries alone, as long as few notifications come."""
FEW: Final = 64
"""So few filters stay there, whatever comes."""
WORTH: Final = 2_000_000
"""After so many tests of filters in dictionaries, a few seconds, loading the kernels has paid for itself."""
TEXTS: Final = 1_000
"""After so many texts that met filters in dictionaries, these are moved: only texts that meet none are scanned."""
DELTA_SHARE: Final = 32
"""A delta of more than the base's size divided by this is merged."""
DEAD_SHARE: Final = 8
FOREVER: Final = 2**62


@cache
def _advise() -> None:
    """Say, once, what would help."""
    log.warning(
        "filters are matched in pure Python: with many filters, pip install 'fairlead[fast]' (%s) speeds it up",
        ", ".join(LIBRARIES),
    )


class _Version(NamedTuple):
    """The version that a reader holds: it sees the first `size` filters of the delta, and what lived at
    `stamp`.
    """

    base: Base | None
    delta: _Delta
    size: int
    stamp: int


class _Delta:
    """The delta, with the ids and destinations of its filters and when they died."""

    __slots__ = ("destinations", "died", "ids", "index", "where")

    def __init__(self) -> None:
        self.index = Delta()
        self.ids: list[Any] = []
        self.destinations: list[Any] = []
        self.died: list[int] = []
        self.where: dict[Any, int] = {}


def _copied(delta: _Delta, numbers: Iterable[int]) -> _Delta:
    """A delta of some filters of another one."""
    fresh = _Delta()
    for number in numbers:
        fresh.where[delta.ids[number]] = fresh.index.add(
            delta.index.filters[number], delta.index.programs[number]
        )
        fresh.ids.append(delta.ids[number])
        fresh.destinations.append(delta.destinations[number])
        fresh.died.append(FOREVER)
    return fresh


@dataclass(frozen=True, slots=True)
class Matches(Generic[Id]):
    """The matches of a batch: those of row r are ordinals[starts[r] : starts[r + 1]], as indexes into `ids`."""

    starts: NDArray[np.int32]
    ordinals: NDArray[np.int32]
    ids: Sequence[Id]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> list[Id]:
        found = self.ordinals[self.starts[row] : self.starts[row + 1]].tolist()
        return [self.ids[ordinal] for ordinal in found]


@dataclass(frozen=True, slots=True)
class Account:
    """The access paths of filters, and how many of the candidates matched."""

    filters: int
    paths: dict[str, int]
    candidates: int
    matches: int
    worst: tuple[tuple[Any, int, int], ...]
    """Ids of the filters that were verified most often for nothing: candidates, and matches among them."""

    def __str__(self) -> str:
        lines = [f"{self.filters} filters, found by"]
        lines += [f"  {path:<24} {count:>9}" for path, count in self.paths.items()]
        lines.append(f"{self.candidates} candidates, {self.matches} matches")
        if self.worst:
            lines.append("most often verified for nothing")
            lines += [f"  {id!s:<24} {asked:>9} candidates {met:>9} matches" for id, asked, met in self.worst]
        return "\n".join(lines)


class Columnar(Generic[Id]):
    """Filters compiled to arrays, each indexed under its rarest predicate.

    `schema` is the one that the filters were read under: its fingerprint travels with a saved index. Nothing waits
    for `kernels`, if they are given: they are loaded beside, and a base is made beside, in another thread, while
    matching goes on with the base and the delta that there are.
    """

    def __init__(
        self, *, small: int = SMALL, schema: Schema | None = None, kernels: Kernels | None = None
    ) -> None:
        self._small, self._schema, self._kernels = small, schema, kernels
        self._writing = RLock()
        self._version = _Version(None, _Delta(), 0, 0)
        self._size = 0
        self._removed: list[Id] | None = None
        """The filters removed since another thread began to make a base; None while none does."""
        self._notifications = self._tested = self._matches = self._texts = 0

    def __len__(self) -> int:
        return self._size

    # -- writing -------------------------------------------------------------------------------------------

    def add(self, id: Id, filter: Filter, destination: Any = None) -> None:
        """Take in a filter; an id that is taken is a ValueError."""
        program = program_of(filter)
        with self._writing:
            if self._find(id) is not None:
                raise ValueError(f"the id {id!r} is taken")
            base, delta, count, stamp = self._version
            delta.index.add(filter, program)
            delta.ids.append(id)
            delta.destinations.append(destination)
            delta.died.append(FOREVER)
            delta.where[id] = count
            self._size += 1
            self._version = _Version(base, delta, count + 1, stamp)
            if self._is_due and self._may_build():
                self.compact()

    def add_many(self, subscriptions: Iterable[tuple[Id, Filter] | tuple[Id, Filter, Any]]) -> None:
        """Take in many filters at once, each with its id and, if it has one, its destination.

        Readers see all of them or none. An id that is taken or given twice is a ValueError, and nothing is
        added.
        """
        with self._writing:
            compiled = _Compiled(arrays=self._kernels is None)
            for subscription in subscriptions:
                compiled.add(*subscription)
            if self._size:
                for id in compiled.ids:
                    if self._find(id) is not None:
                        raise ValueError(f"the id {id!r} is taken")
            if len(set(compiled.ids)) < len(compiled.ids):
                raise ValueError("an id is given twice")
            self._take_in(compiled)

    def add_texts(
        self,
        texts: pa.Array,
        *,
        seen: Callable[[Filter], None] = lambda _: None,
        refused: Callable[[int, FairleadError], None] | None = None,
    ) -> None:
        """Take in the filters of many texts, under the numbers that follow from how many filters there are.

        Texts that differ in their literals only are read together: `seen` is called with the filter of one of
        them. A text that cannot be read is given to `refused`, and raised where there is none; then nothing is
        added.
        """
        with self._writing:
            compiled = _Compiled(arrays=len(texts) > self._small)
            compiled.add_texts(texts, self._schema, seen, refused, self._size)
            if len(compiled.ids) == len(texts):
                self._take_in(compiled)

    def _take_in(self, compiled: _Compiled) -> None:
        base, delta, count, stamp = self._version
        self._size += len(compiled.ids)
        if compiled.programs is not None and (
            count + len(compiled.ids) <= self._small or self._kernels is not None or not self._may_build()
        ):
            names = compiled.names() or repeat(None, len(compiled.ids))
            for id, filter, program, destination in zip(
                compiled.ids, compiled.filters, compiled.programs, names, strict=True
            ):
                delta.where[id] = delta.index.add(filter, program)
                delta.ids.append(id)
                delta.destinations.append(destination)
                delta.died.append(FOREVER)
            self._version = _Version(base, delta, count + len(compiled.ids), stamp)
            if self._is_due and self._may_build():
                self.compact()
            return
        if count:
            self._build([number for number in range(count) if delta.died[number] == FOREVER])
        base = self._version.base
        made = _joined(base, compiled.ledger(), compiled.ids, compiled.names())
        self._version = _Version(made, _Delta(), 0, stamp)

    def remove(self, id: Id) -> None:
        """Forget a filter; an id that is not there is a KeyError."""
        with self._writing:
            found = self._find(id)
            if found is None:
                raise KeyError(id)
            in_base, number = found
            base, delta, count, stamp = self._version
            stamp += 1
            if in_base:
                assert base is not None
                base.remove(number, stamp)
            else:
                delta.died[number] = stamp
                del delta.where[id]
            self._size -= 1
            self._version = _Version(base, delta, count, stamp)
            if self._removed is not None:
                self._removed.append(id)
            if (base is not None and base.dead > max(self._small, len(base) // DEAD_SHARE)) or (
                base is None and count > 2 * self._size + 64
            ):
                self.compact()

    def compact(self) -> None:
        """Make one base of all that lives, or no base where that is little: what is dead gives its memory back."""
        with self._writing:
            base, delta, count, stamp = self._version
            living = [number for number in range(count) if delta.died[number] == FOREVER]
            if base is None and (len(living) <= self._small or not self._may_build()):
                self._version = _Version(None, _copied(delta, living), len(living), stamp)
                return
            self._begin(living)

    @property
    def _is_due(self) -> bool:
        """Whether the delta is large enough to be merged into the base, and nobody is about it."""
        base, _, count, _ = self._version
        return self._removed is None and count > max(self._small, len(base) // DELTA_SHARE if base else 0)

    def _begin(self, living: list[int]) -> None:
        """Make a base: here, or in another thread, if none does."""
        if self._kernels is None:
            self._build(living)
        elif self._removed is None:
            self._removed = []
            base, delta, count, _ = self._version
            self._kernels.begin(lambda: self._build_beside(base, delta, count, living))

    def _build_beside(self, base: Base | None, delta: _Delta, count: int, living: list[int]) -> None:
        """Make a base of a version, in another thread, and let what has changed since follow."""
        try:
            made = self._made(base, delta, living)
        except Exception:
            log.exception("a base of filters could not be made: they are matched as they are")
            self._removed = None
            return
        with self._writing:
            now, removed = self._version, self._removed or []
            self._removed = None
            if now.base is not base or now.delta is not delta:
                return  # made in the meantime, by who could not wait
            for id in removed:
                if (number := made.find(id)) >= 0:
                    made.remove(number, now.stamp)
            since = [number for number in range(count, now.size) if delta.died[number] == FOREVER]
            self._version = _Version(made, _copied(delta, since), len(since), now.stamp)
            if self._is_due:
                self.compact()

    def _may_build(self) -> bool:
        """Whether a base can be made now; where it never can, all filters stay in the delta from now on."""
        if is_fast():
            return self._kernels is None or self._kernels.load()
        _advise()
        self._small = FOREVER
        return False

    def _build(self, living: list[int]) -> None:
        """Move the living filters of the delta into the base."""
        if not is_fast():
            raise NotInstalled.extra("an index of arrays", "fast")
        base, delta, _, stamp = self._version
        self._version = _Version(self._made(base, delta, living), _Delta(), 0, stamp)

    @staticmethod
    def _made(base: Base | None, delta: _Delta, living: list[int]) -> Base:
        names = [delta.destinations[number] for number in living]
        return _joined(
            base,
            _ledger(delta.index.programs[number] for number in living),
            [delta.ids[number] for number in living],
            names if any(name is not None for name in names) else None,
        )

    def _promote(self) -> None:
        """Move all filters into the base, because so many notifications come."""
        with self._writing:
            _, delta, count, _ = self._version
            if self._size > FEW and self._may_build():
                self._begin([number for number in range(count) if delta.died[number] == FOREVER])

    # -- files ---------------------------------------------------------------------------------------------

    def save(self, directory: str | Path) -> Path:
        """Write all filters into a file in a directory, named by its content; its path.

        Ids and destinations are strings or whole numbers.
        """
        with self._writing:
            base, delta, count, _ = self._version
            if base is None or count or base.dead:
                self._build([number for number in range(count) if delta.died[number] == FOREVER])
            base = self._version.base
        assert base is not None
        from fairlead.matching.columnar.storage import save

        return save(base, Path(directory), self._schema)

    @classmethod
    def open(
        cls,
        path: str | Path,
        schema: Schema | None = None,
        *,
        verify: bool = True,
        resolve: Callable[[Filter], Filter] | None = None,
    ) -> Columnar[Any]:
        """The engine whose filters are in a file, under the schema that it was saved with.

        The file is mapped into memory, so this takes no time, and processes that open the same one share it.
        A file that is none, or not whole, is a DamagedIndex; another schema is a SchemaError. Filter objects
        decide as `resolve` has them, which knows more than their text.
        """
        if not is_fast():
            raise NotInstalled.extra("an index of arrays", "fast")
        from fairlead.matching.columnar.storage import load

        engine: Columnar[Any] = cls(schema=schema)
        base = load(Path(path), schema, verify=verify, resolve=resolve)
        engine._version = _Version(base, _Delta(), 0, 0)
        engine._size = len(base)
        return engine

    def _find(self, id: Id) -> tuple[bool, int] | None:
        """The place of the living filter with this id: in the base or not, and its number there."""
        base, delta, _, _ = self._version
        number = delta.where.get(id, -1)
        if number >= 0:
            return False, number
        if base is not None:
            number = base.find(id)
            if number >= 0:
                return True, number
        return None

    # -- reading -------------------------------------------------------------------------------------------

    def match(self, notification: Notification) -> list[Id]:
        """The ids of all filters that the notification matches, in the order in which they were added."""
        version = self._version
        base = version.base
        found: list[Id] = []
        if base is not None:
            found = base.match(notification, version.stamp)
        if version.size:
            ids = version.delta.ids
            found += [ids[number] for number in self._match_delta(version, notification)]
        self._notifications += 1
        self._matches += len(found)
        if base is None and self._tested > WORTH:
            self._promote()
        return found

    def match_json(self, text: bytes, read: Callable[[bytes], Notification]) -> list[Id]:
        """`match` of the notification that a JSON text holds.

        No notification is made where it is plain what filters see of the text; elsewhere `read` reads it.
        """
        version = self._version
        if version.base is not None and not version.size:
            found = version.base.match_text(text, version.stamp)
            if found is not None:
                self._notifications += 1
                self._matches += len(found)
                return found
        else:
            self._texts += 1
            if self._texts % TEXTS == 0:
                self._promote()
        return self.match(read(text))

    def match_batch(self, notifications: Iterable[Notification]) -> list[list[Id]]:
        """`match` of each notification, in order; all of them are matched against the same version."""
        version = self._version
        batch = notifications if isinstance(notifications, Sequence) else list(notifications)
        base = version.base
        found: list[list[Id]]
        found = base.match_batch(batch, version.stamp) if base is not None else [[] for _ in batch]
        if version.size:
            ids = version.delta.ids
            for matching, notification in zip(found, batch, strict=True):
                matching += [ids[number] for number in self._match_delta(version, notification)]
        self._notifications += len(batch)
        self._matches += sum(map(len, found))
        if base is None and self._tested > WORTH:
            self._promote()
        return found

    def match_arrow(
        self, batch: pa.RecordBatch, notification_of: Callable[[int], Notification] | None = None
    ) -> Matches[Id]:
        """`match` of each row of a record batch of Arrow; null means absent.

        A batch may have the columns only that filters name, if `notification_of` gives the whole notification of a
        row: a filter that looks at more asks for it.

        What has not been merged yet is merged first, so that no row is looked at in Python.
        """
        if self._version.size or self._version.base is None:
            with self._writing:
                _, delta, count, _ = self._version
                self._build([number for number in range(count) if delta.died[number] == FOREVER])
        version = self._version
        assert version.base is not None
        starts, ordinals = version.base.match_arrow(batch, version.stamp, notification_of)
        self._notifications += batch.num_rows
        self._matches += len(ordinals)
        return Matches(starts, ordinals, version.base.ids)

    def match_destinations(self, notification: Notification) -> list[Any]:
        """The distinct destinations of matching filters; each is settled with its first match (book 3.2)."""
        version = self._version
        found: dict[Any, None] = {None: None}  # who gave no destination is not asked
        if version.base is not None:
            found.update(dict.fromkeys(version.base.match_destinations(notification, version.stamp)))
        if version.size:
            self._settle_delta(version, notification, found)
        del found[None]
        self._notifications += 1
        self._matches += len(found)
        if version.base is None and self._tested > WORTH:
            self._promote()
        return list(found)

    def match_scored(self, notification: Notification, least: float = 1.0) -> list[tuple[Id, float]]:
        """The ids of the filters that a notification matches at least so far, with their scores.

        The score of a conjunction is the share of its conditions that hold; other filters match or do not.
        With less than 1, every filter is looked at: one that misses by little may miss where it hangs.
        """
        if least >= 1.0:
            return [(id, 1.0) for id in self.match(notification)]
        version = self._version
        found: list[tuple[Id, float]] = []
        if version.base is not None:
            ids = version.base.ids
            found = [
                (ids[at], score) for at, score in version.base.scores(notification, least, version.stamp)
            ]
        delta = version.delta
        for number in range(version.size):
            if delta.died[number] > version.stamp:
                score = score_of(delta.index.programs[number], notification)
                if score >= least:
                    found.append((delta.ids[number], score))
        return found

    def explain(self, notifications: Sequence[Notification] = (), *, worst: int = 10) -> Account:
        """The access paths of the filters and, for some notifications, the number of candidates that did
        not match."""
        version = self._version
        paths: Counter[str] = Counter()
        asked: list[tuple[int, int, Any]] = []
        matched = Counter(id for matching in self.match_batch(notifications) for id in matching)
        if version.base is not None:
            paths.update(version.base.paths(version.stamp))
            tally = version.base.profile(notifications, version.stamp)
            ids = version.base.ids
            for ordinal in tally.nonzero()[0].tolist():
                asked.append((int(tally[ordinal]), matched[ids[ordinal]], ids[ordinal]))
        delta = version.delta
        living = [number for number in range(version.size) if delta.died[number] > version.stamp]
        paths.update(delta.index.paths[number] for number in living)
        tested: Counter[int] = Counter()
        for notification in notifications:
            found = delta.index.candidates(notification)
            tested.update({number for numbers in found for number in numbers})
        asked += [(tested[number], matched[delta.ids[number]], delta.ids[number]) for number in living]
        asked.sort(key=lambda each: each[1] - each[0])
        return Account(
            filters=self._size,
            paths=dict(paths.most_common()),
            candidates=sum(candidates for candidates, _, _ in asked),
            matches=sum(matched.values()),
            worst=tuple((id, candidates, matches) for candidates, matches, id in asked[:worst] if candidates),
        )

    def _match_delta(self, version: _Version, notification: Notification) -> list[int]:
        delta, count, stamp = version.delta, version.size, version.stamp
        checks, died = delta.index.checks, delta.died
        fields = notification.attributes._fields
        found: list[int] = []
        tested = 0
        for numbers in delta.index.candidates(notification):
            tested += len(numbers)
            for number in numbers:
                if number < count and died[number] > stamp and checks[number](fields, notification):
                    found.append(number)
        self._tested += tested
        return sorted(set(found)) if len(found) > 1 else found

    def _settle_delta(self, version: _Version, notification: Notification, found: dict[Any, None]) -> None:
        """Add the destinations of the delta's matching filters to those that are settled already."""
        delta, count, stamp = version.delta, version.size, version.stamp
        index, died, destinations = delta.index, delta.died, delta.destinations
        fields = notification.attributes._fields
        for numbers in index.candidates(notification):
            for number in numbers:
                if number < count and died[number] > stamp and destinations[number] not in found:
                    self._tested += 1
                    if index.checks[number](fields, notification):
                        found[destinations[number]] = None

    def statistics(self) -> Statistics:
        """The size and the counters of the engine; the tests of single notifications are sampled."""
        base = self._version.base
        tests = self._tested + (base.tested if base is not None else 0)
        return Statistics("columnar", self._size, self._notifications, tests, self._matches)


class _Compiled:
    """Many subscriptions, compiled as they come; beyond a few, only their arrays are kept."""

    def __init__(self, *, arrays: bool = True) -> None:
        self._arrays = arrays and is_fast()
        self.ids: Any = array("q")
        self.destinations: list[Any] = []
        self.filters: list[Filter] = []
        self.programs: list[Program] | None = []
        self._ledger: Any = None

    def add(self, id: Any, filter: Filter, destination: Any = None) -> None:
        program = program_of(filter)
        # Whole numbers as such: a million objects would lie between what the filters leave behind.
        if isinstance(self.ids, array) and not (type(id) is int and -(2**63) <= id < 2**63):
            self.ids = self.ids.tolist()
        self.ids.append(id)
        if destination is not None:
            self.destinations += [None] * (len(self.ids) - 1 - len(self.destinations))
            self.destinations.append(destination)
        if self.programs is None:
            self._ledger.add(program)
            return
        self.programs.append(program)
        self.filters.append(filter)
        if len(self.programs) > SMALL and self._arrays:
            self._ledger = _ledger(self.programs)
            self.programs, self.filters = None, []

    def add_texts(
        self,
        texts: pa.Array,
        schema: Schema | None,
        seen: Callable[[Filter], None],
        refused: Callable[[int, FairleadError], None] | None,
        first: int,
    ) -> None:
        """Take in texts under whole numbers from `first` on; of those that cannot be read, nothing."""

        def read(row: int) -> Filter | None:
            try:
                filter = parse(texts[row].as_py(), schema)
            except FairleadError as error:
                if refused is None:
                    raise
                refused(row, error)
                return None
            seen(filter)
            return filter

        if self._arrays:
            from fairlead.matching.columnar.forms import ledger_of

            self._ledger, self.programs = ledger_of(texts, schema, read), None
            self.ids = array("q", range(first, first + len(self._ledger)))
            return
        for row in range(len(texts)):
            if (filter := read(row)) is not None:
                self.add(first + row, filter)

    def names(self) -> list[Any] | None:
        """The destinations by ordinal, if there are any."""
        if not self.destinations:
            return None
        return self.destinations + [None] * (len(self.ids) - len(self.destinations))

    def ledger(self) -> Any:
        return self._ledger if self.programs is None else _ledger(self.programs)


def _ledger(programs: Iterable[Program]) -> Any:
    from fairlead.matching.columnar.table import Ledger

    ledger = Ledger()
    for program in programs:
        ledger.add(program)
    return ledger


def _joined(base: Base | None, ledger: Any, ids: Sequence[Any], destinations: list[Any] | None) -> Base:
    from fairlead.matching.columnar.base import Base as Made
    from fairlead.matching.columnar.base import trim
    from fairlead.matching.columnar.ids import ids_of
    from fairlead.matching.columnar.index import Index

    made = (
        Made(Index.build(ledger.table()), ids_of(ids), destinations)
        if base is None
        else base.joined(ledger, ids, destinations)
    )
    trim(len(made))
    return made
