"""One cell of the table: one engine with n subscriptions of one shape, in a process of its own.

    an engine's speed counts    iff    its answers are those of the oracle

In order: warm up, fill (each filter is also put to the oracle, on a sample of notifications, while the clock
stands), compare the answers, then measure. `python -m fairlead_lab.bench.cell` reads a task and writes a cell.

Memory is what the process has resident after filling beyond what it had before, once the collector has run and
the allocator has returned what it can: the engine with all it holds, ids included, but not the filters it was
given if it does not keep them.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from fairlead.filters.filter import Filter
from fairlead.matching.brute import Brute
from fairlead.matching.engine import EngineUnknown
from fairlead.model import Notification
from fairlead.model.encoding import fields_to_json, format_json
from fairlead_lab.bench.harness import MEASURED, NOT_RUN, WRONG, as_json
from fairlead_lab.bench.mixture import MIXTURE
from fairlead_lab.bench.runner import Patience, Rounds, Spread, TooSlow, rates, spread_of
from fairlead_lab.matching import ENGINES
from fairlead_lab.matching.base import EngineBase
from fairlead_lab.matching.operators import OPERATORS
from fairlead_lab.matching.shapes import SHAPES, Shape

__all__ = [
    "BATCH",
    "CHANGES_PER_S",
    "KNOWN",
    "MODES",
    "Cell",
    "Task",
    "made",
    "measure",
    "oracle_sample",
]

KNOWN: Final[dict[str, str]] = {"columnar": "fairlead.matching.columnar:Columnar"} | ENGINES
MODES: Final = {
    "one": "one at a time",
    "batch": "in batches",
    "arrow": "Arrow batches",
    "json": "from JSON",
    "churn": "under churn",
}
BATCH: Final = 10_000
"""Notifications in a batch, and in the pool that is drawn from."""
CHUNK: Final = 1_000
CHANGES_PER_S: Final = 1_000
"""So many are added and so many removed each second (M8)."""
BETWEEN_CHANGES: Final = 16
"""After so many notifications the clock is read to see what changes are due."""
MEMORY_N_MIN: Final = 10_000
"""With fewer subscriptions, the pages of a process are too coarse a measure."""
ORACLE_TESTS: Final = 1_000_000
ALIKE: Final = 1_000
"""On so many notifications the ways of asking the production engine are compared with each other."""
WARM: Final = 1_100
"""Enough for the production engine to leave its dictionaries and load its kernels."""


@dataclass(frozen=True, slots=True)
class Task:
    """One measurement to make."""

    shape: str
    n: int
    engine: str
    rounds: int = 5
    slice_s: float = 0.2
    patience_s: float = 20.0
    pool: int = BATCH
    churn_s: float = 8.0
    from_json: bool = False
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement, or why there is none."""

    shape: str
    n: int
    engine: str
    status: str
    reason: str = ""
    rates: dict[str, Spread] = field(default_factory=dict)
    """Notifications per second, by mode."""
    fill_s: float | None = None
    """To add all subscriptions at once; their making is not counted."""
    bytes_each: float | None = None
    """Resident memory per subscription."""
    tests_each: float | None = None
    """Filters or constraints put to a test, per notification."""
    matches_each: float | None = None
    checked: int = 0
    """The number of notifications that were compared with the oracle."""
    changes_per_s: float | None = None
    """Subscriptions that were added, and as many removed, per second."""
    pause_ms_max: float | None = None
    """The longest that a change kept the matching waiting."""
    cpu_share: float | None = None
    """The share of the measured time for which the process had a core; well below 1, the machine was busy."""


class Disagreement(Exception):
    """An engine answered otherwise than the oracle."""


def made(engine: str) -> Any:
    """A new engine: one of those known, or a class given as module:Class."""
    path = KNOWN.get(engine, engine)
    if ":" not in path:
        raise EngineUnknown.named(engine, KNOWN)
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)()


def measure(task: Task) -> Cell:
    """The cell of a task."""
    blank = Cell(task.shape, task.n, task.engine, NOT_RUN)
    try:
        return _Measuring(task).cell()
    except TooSlow:
        return _because(blank, NOT_RUN, f"too slow: more than {task.patience_s:,.0f} s")
    except Disagreement as wrong:
        return _because(blank, WRONG, str(wrong))


def _because(cell: Cell, status: str, reason: str) -> Cell:
    return Cell(cell.shape, cell.n, cell.engine, status, reason)


def oracle_sample(n: int, pool: int) -> int:
    """The number of notifications that the oracle can look at: with many subscriptions, few."""
    return max(2, min(100, pool, ORACLE_TESTS // n))


# -- filling -----------------------------------------------------------------------------------------------


class _Filling:
    """Subscriptions one after the other, with the clock stopped while they are made and put to the oracle."""

    def __init__(self, filters: Iterable[Filter], sample: Sequence[Notification], patience: Patience) -> None:
        self._filters = iter(filters)
        self._sample, self._patience = sample, patience
        self.expected: list[list[int]] = [[] for _ in sample]
        self.aside_s = 0.0

    def __iter__(self) -> Iterator[tuple[int, Filter]]:
        number = 0
        while chunk := self._next(number):
            yield from enumerate(chunk, start=number)
            number += len(chunk)

    def _next(self, number: int) -> list[Filter]:
        started = time.perf_counter()
        with self._patience.paused():
            chunk = list(islice(self._filters, CHUNK))
            for notification, expected in zip(self._sample, self.expected, strict=True):
                expected += [id for id, filter in enumerate(chunk, number) if filter.matches(notification)]
        self.aside_s += time.perf_counter() - started
        return chunk


def _resident_bytes() -> int:
    """The memory of the process, after it has returned what it does not need."""
    gc.collect()
    with suppress(AttributeError, OSError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# -- matching ----------------------------------------------------------------------------------------------


class _Variant(NamedTuple):
    """A way of asking about the first k notifications: the answers, and the work without a look at them."""

    mode: str
    answers: Callable[[int], Sequence[Iterable[int]]]
    work: Callable[[int], object]


class _Measuring:
    """The work on one cell."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._shape: Shape = (SHAPES | MIXTURE | OPERATORS)[task.shape]
        self._rounds = Rounds(task.rounds, task.slice_s)
        self._patience = Patience(task.patience_s)
        stream = self._shape.notifications(task.n, Random(task.seed + 1))
        self._pool = list(islice(stream, max(task.pool, 2)))
        self._sample = self._pool[: oracle_sample(task.n, len(self._pool))]

    def cell(self) -> Cell:
        task = self._task
        with self._patience.waiting():
            self._warm_up()
        before = _resident_bytes()
        engine = made(task.engine)
        filling = self._filling()
        with self._patience.waiting():
            started = time.perf_counter()
            engine.add_many(filling)
            fill_s = time.perf_counter() - started - filling.aside_s
        grown = _resident_bytes() - before
        gc.freeze()  # the collector need not walk what is there to stay
        with self._patience.waiting():
            clock, cpu = time.perf_counter(), time.process_time()
            measured, tests_each = self._measured(engine, filling.expected)
            share = (time.process_time() - cpu) / (time.perf_counter() - clock)
        churned = _Churning(self, engine).run() if task.shape == "M8" else {}
        return Cell(
            task.shape,
            task.n,
            task.engine,
            MEASURED,
            rates={mode: spread_of(each) for mode, each in measured.items()} | churned.pop("rates", {}),
            fill_s=fill_s,
            bytes_each=grown / task.n if task.n >= MEMORY_N_MIN else None,
            tests_each=tests_each,
            matches_each=sum(map(len, filling.expected)) / len(self._sample),
            checked=len(self._sample),
            cpu_share=share,
            **churned,
        )

    def _filling(self) -> _Filling:
        filters = self._shape.filters(self._task.n, Random(self._task.seed))
        return _Filling(filters, self._sample, self._patience)

    def _warm_up(self) -> None:
        """Load what the engine needs, compiled kernels included: that is paid once per machine, not here."""
        engine = made(self._task.engine)
        count = WARM if hasattr(engine, "match_arrow") else 10
        engine.add_many(enumerate(self._shape.filters(count, Random(0))))
        for way in self._variants(engine):
            way.answers(min(10, len(self._pool)))

    def _variants(self, engine: Any) -> Iterator[_Variant]:
        """One at a time first: a batch of Arrow may make the engine merge what is new, for good."""
        pool, size = self._pool, len(self._pool)

        def one(part: int) -> None:
            match = engine.match
            for notification in pool[:part] if part < size else pool:
                match(notification)

        def batch(part: int) -> list[list[int]]:
            found: list[list[int]] = engine.match_batch(pool[:part])
            return found

        yield _Variant("one", lambda part: [engine.match(each) for each in pool[:part]], one)
        yield _Variant("batch", batch, batch)
        if self._task.from_json:
            yield self._from_json(engine)
        if hasattr(engine, "match_arrow"):
            yield self._arrow(engine)

    def _from_json(self, engine: Any) -> _Variant:
        from fairlead.ingest.records import read

        lines = [format_json(fields_to_json(each.attributes)).encode() for each in self._pool]

        def answers(part: int) -> list[list[int]]:
            if hasattr(engine, "match_json"):
                return [engine.match_json(line, read) for line in lines[:part]]
            return [engine.match(read(line)) for line in lines[:part]]

        def work(part: int) -> None:
            match_json = getattr(engine, "match_json", None)
            for line in lines[:part] if part < len(lines) else lines:
                if match_json is not None:
                    match_json(line, read)
                else:
                    engine.match(read(line))

        return _Variant("json", answers, work)

    def _arrow(self, engine: Any) -> _Variant:
        rows = self._record_batch()

        def answers(part: int) -> list[list[int]]:
            found = engine.match_arrow(rows.slice(0, part))
            return [found[row] for row in range(part)]

        return _Variant("arrow", answers, lambda part: engine.match_arrow(rows.slice(0, part)))

    def _record_batch(self) -> Any:
        import pyarrow as pa  # type: ignore[import-untyped]

        records = [fields_to_json(each.attributes) for each in self._pool]
        names = list(dict.fromkeys(name for record in records for name in record))
        arrays = [pa.array([record.get(name) for record in records]) for name in names]
        return pa.RecordBatch.from_arrays(arrays, names)

    def _measured(self, engine: Any, expected: list[list[int]]) -> tuple[dict[str, list[float]], float]:
        """The rates of each way of asking that gives the oracle's answers; how many tests a notification takes."""
        found: dict[str, list[float]] = {}
        tests_each = 0.0
        reference: Sequence[Iterable[int]] | None = None
        for way in self._variants(engine):
            who = f"{self._task.engine}, {MODES[way.mode]}"
            before = engine.statistics().tests
            agree(who, way.answers(len(expected)), expected)
            if way.mode == "batch":
                tests_each = (engine.statistics().tests - before) / len(expected)
            if hasattr(engine, "match_arrow"):  # its ways differ, and are quick enough to be compared on more
                answers = way.answers(min(ALIKE, len(self._pool)))
                reference = reference or answers
                agree(f"{who} against one at a time", answers, reference)
            if way.mode != "batch" or not _loops(engine):
                found[way.mode] = rates(way.work, len(self._pool), self._rounds)
        return found, tests_each


def _loops(engine: Any) -> bool:
    """Whether a batch is but one notification after the other, and need not be measured once more."""
    return type(engine).match_batch in (EngineBase.match_batch, Brute.match_batch)


def agree(who: str, answers: Sequence[Iterable[int]], expected: Sequence[Iterable[int]]) -> None:
    """Nothing, if the answers are those expected; otherwise the first that is not is told."""
    if len(answers) != len(expected):
        raise Disagreement(f"{who}: {len(answers)} answers to {len(expected)} notifications")
    for number, (found, wanted) in enumerate(zip(answers, expected, strict=True)):
        got, want = sorted(found), sorted(wanted)
        if got != want:
            missing = len(set(want) - set(got))
            raise Disagreement(
                f"{who}: notification {number} has {len(got)} matches, not {len(want)}; {missing} are missing"
            )


class _Churning:
    """M8: changes that fall due by the clock, between notifications, on the same core."""

    def __init__(self, measuring: _Measuring, engine: Any) -> None:
        self._task, self._engine = measuring._task, engine
        self._measuring = measuring
        self._pool = measuring._pool
        self._coming = measuring._shape.filters(2**62, Random(self._task.seed + 2))
        ids = range(self._task.n)
        self._leaving = deque(Random(self._task.seed + 3).sample(ids, self._task.n))
        """Those that are there, in the order in which they go; who comes, goes last."""
        self._added: dict[int, Filter] = {}
        self._removed: set[int] = set()
        self._pause_s = 0.0

    def run(self) -> dict[str, Any]:
        task = self._task
        found: list[float] = []
        changes, elapsed = 0, 0.0
        for _ in range(task.rounds):
            done, matched, took = self._round(task.churn_s / task.rounds)
            changes, elapsed = changes + done, elapsed + took
            found.append(matched / took)
        self._compare()
        return {
            "rates": {"churn": spread_of(found)},
            "changes_per_s": changes / elapsed,
            "pause_ms_max": self._pause_s * 1e3,
        }

    def _round(self, length_s: float) -> tuple[int, int, float]:
        """Changes made, notifications matched and seconds taken in one round of about this length."""
        fresh = list(islice(self._coming, int(length_s * CHANGES_PER_S) + 1))
        match, pool = self._engine.match, self._pool
        changes = matched = 0
        started = time.perf_counter()
        while (now := time.perf_counter() - started) < length_s:
            while changes < min(len(fresh), now * CHANGES_PER_S):
                self._change(fresh[changes])
                changes += 1
                now = time.perf_counter() - started
                if now > length_s:
                    break
            at = matched % len(pool)
            part = pool[at : at + BETWEEN_CHANGES]
            for notification in part:
                match(notification)
            matched += len(part)
        return changes, matched, time.perf_counter() - started

    def _change(self, filter: Filter) -> None:
        """One comes, one goes."""
        came = self._task.n + len(self._added)
        goes = self._leaving.popleft()
        started = time.perf_counter()
        self._engine.add(came, filter)
        self._engine.remove(goes)
        self._pause_s = max(self._pause_s, time.perf_counter() - started)
        self._added[came] = filter
        self._removed.add(goes)
        self._leaving.append(came)

    def _compare(self) -> None:
        """After all that, the answers are still the oracle's, for those that are there now."""
        again = self._measuring._filling()
        for _ in again:
            pass
        expected = [[id for id in ids if id not in self._removed] for ids in again.expected]
        for notification, ids in zip(self._measuring._sample, expected, strict=True):
            ids += [id for id in self._added.keys() - self._removed if self._added[id].matches(notification)]
        for way in self._measuring._variants(self._engine):
            who = f"{self._task.engine}, {MODES[way.mode]}, after churn"
            agree(who, way.answers(len(expected)), expected)


# -- as a process ------------------------------------------------------------------------------------------


def first_answer_s() -> float:
    """Seconds from a new process to the first answer of the production engine with its kernels."""
    started = time.perf_counter()
    engine = made("columnar")
    shape = SHAPES["M1"]
    engine.add_many(enumerate(shape.filters(WARM, Random(0))))
    engine.match(next(shape.notifications(WARM, Random(1))))
    return time.perf_counter() - started


def main() -> None:
    """Read a task from standard input, write what came of it to standard output."""
    task = json.load(sys.stdin)
    answer = first_answer_s() if task == {"kernels": True} else as_json(measure(Task(**task)))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
