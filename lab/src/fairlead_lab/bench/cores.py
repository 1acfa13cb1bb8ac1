"""The time of cores that this process and all that it has started have used.

    of two looks, the later one never tells of less

A process that has ended takes its account with it, unless its parent waits for it: Spark's workers end unawaited.
So what was seen of a process is remembered, and while work is timed a thread looks from time to time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["CoreTime", "Process", "Round", "ratios", "timed"]

PAUSE_S: Final = 0.5


class Process(NamedTuple):
    """A process as the system shows it: who started it and when, and the ticks that it has used itself."""

    parent: int
    started: int
    ticks: int


@dataclass(frozen=True, slots=True)
class Round:
    """One timed run."""

    seconds: float
    cpu_s: float | None
    """The processor time of this process, Spark and its workers; None where the system does not tell."""


def ratios(own: Sequence[Round], others: Sequence[Round], *, cpu: bool = False) -> list[float]:
    """The warm rounds as multiples of another's: in seconds, or in seconds of cores where these are known."""
    warm = list(zip(own, others, strict=True))[1:]
    if not cpu:
        return [each.seconds / other.seconds for each, other in warm]
    return [each.cpu_s / other.cpu_s for each, other in warm if each.cpu_s is not None and other.cpu_s]


def processes() -> dict[int, Process]:
    """All processes by number; none where the system does not tell."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        found[int(path.parent.name)] = Process(
            int(fields[1]), int(fields[19]), int(fields[11]) + int(fields[12])
        )
    return found


class CoreTime:
    """The ticks of a process and of all that descend from it, as far as they were seen."""

    def __init__(self, own: int, look: Callable[[], Mapping[int, Process]] = processes) -> None:
        self._own, self._look = own, look
        self._ours: dict[tuple[int, int], int] = {}
        self._lock = threading.Lock()

    def ticks(self) -> int | None:
        """The number of ticks used up to now."""
        with self._lock:
            found = self._look()
            for number, process in found.items():
                if self._is_ours(number, found):
                    self._ours[number, process.started] = process.ticks
            return sum(self._ours.values()) if found else None

    def _is_ours(self, number: int, found: Mapping[int, Process]) -> bool:
        if (number, found[number].started) in self._ours:  # also where its parent has ended
            return True
        for _ in found:  # numbers may be used again while one looks: so parents may form a cycle
            if number == self._own or number not in found:
                break
            number = found[number].parent
        return number == self._own


def timed(work: Callable[[], object]) -> Round:
    """A run, with the clock running."""
    cores, done = CoreTime(os.getpid()), threading.Event()

    def watch() -> None:
        while not done.wait(PAUSE_S):
            cores.ticks()

    before, started = cores.ticks(), time.perf_counter()
    watching = threading.Thread(target=watch, name="fairlead-bench-cores", daemon=True)
    watching.start()
    try:
        work()
    finally:
        seconds, after = time.perf_counter() - started, cores.ticks()
        done.set()
        watching.join()
    if before is None or after is None:
        return Round(seconds, None)
    return Round(seconds, (after - before) / os.sysconf("SC_CLK_TCK"))
