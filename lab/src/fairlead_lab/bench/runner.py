"""The common part of all benchmarks: rounds, medians and spread, growth, fresh processes, the machine.

    the exponent of y = a·n^b is b: the slope of the least-squares line through the points (log n, log y)

A round repeats the work until about `slice_s` seconds are full; several rounds give a median and show how far
apart they lie. On a shared machine the spread is part of the result.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from math import log
from pathlib import Path
from types import FrameType
from typing import Any, Final

__all__ = [
    "Patience",
    "Rounds",
    "Spread",
    "Stopped",
    "TooSlow",
    "described",
    "exponent",
    "fresh",
    "machine",
    "rates",
    "spread_of",
]

LIBRARIES: Final = ("fairlead", "numba", "numpy", "pyarrow")


# -- figures -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """Several measurements of one thing: the middle one, the middle half, the extremes."""

    median: float
    low: float
    """The lower quartile."""
    high: float
    """The upper quartile."""
    min: float
    max: float
    rounds: int


def spread_of(samples: Sequence[float]) -> Spread:
    """The spread of at least one sample; quartiles lie between samples as needed."""
    ordered = sorted(samples)
    if len(ordered) == 1:
        low = high = ordered[0]
    else:
        low, _, high = statistics.quantiles(ordered, n=4, method="inclusive")
    return Spread(statistics.median(ordered), low, high, ordered[0], ordered[-1], len(ordered))


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """b of y = a·n^b by least squares on logarithms; None where fewer than two sizes were measured."""
    if len({n for n, _ in points}) < 2 or any(n <= 0 or y <= 0 for n, y in points):
        return None
    xs, ys = [log(n) for n, _ in points], [log(y) for _, y in points]
    return statistics.linear_regression(xs, ys).slope


# -- rounds ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rounds:
    """The number of rounds, and about how long each takes."""

    count: int
    slice_s: float


def rates(
    work: Callable[[int], object],
    size: int,
    rounds: Rounds,
) -> list[float]:
    """Items per second of a core, once per round, however many others ask for the core; `work(k)` deals with the
    first k of `size` items.

    First a part is looked for that takes half a slice, or all items; it is repeated to fill a slice.
    """
    part, took = 1, _timed(work, 1)
    while took < rounds.slice_s / 2 and part < size:
        part = min(size, part * 2)
        took = _timed(work, part)
    repeats = max(1, round(rounds.slice_s / max(took, 1e-9)))
    found = []
    for _ in range(rounds.count):
        started = time.process_time()
        for _ in range(repeats):
            work(part)
        found.append(part * repeats / max(time.process_time() - started, 1e-9))
    return found


def _timed(work: Callable[[int], object], part: int) -> float:
    started = time.process_time()
    work(part)
    return time.process_time() - started


class TooSlow(Exception):
    """The time allowed is over."""


class Patience:
    """An alarm: within `waiting`, TooSlow is raised once `limit_s` seconds have passed, pauses not counted."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._running = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        before = signal.signal(signal.SIGALRM, _ring)
        signal.setitimer(signal.ITIMER_REAL, self.limit_s)
        self._running = True
        try:
            yield
        finally:
            self._running = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    @contextmanager
    def paused(self) -> Iterator[None]:
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            yield
        finally:
            if self._running:
                signal.setitimer(signal.ITIMER_REAL, max(left, 1e-6))


def _ring(number: int, frame: FrameType | None) -> None:
    raise TooSlow


# -- processes ---------------------------------------------------------------------------------------------


class Stopped(Exception):
    """A process that measures did not come to an end of its own, or ended badly; the message says which."""


def fresh(
    module: str, task: Mapping[str, Any], limit_s: float, environment: Mapping[str, str] | None = None
) -> Any:
    """The answer of `python -m module` to a task, both in JSON: nothing of one cell is left over for the
    next.
    """
    try:
        run = subprocess.run(
            [sys.executable, "-m", module],
            input=json.dumps(task),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=limit_s,
            env={**os.environ, **(environment or {})},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Stopped(f"too slow: stopped after {limit_s:,.0f} s") from None
    if run.returncode != 0:
        lines = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        raise Stopped(f"failed: {lines[-1]}")
    return json.loads(run.stdout.strip().splitlines()[-1])


# -- the machine -------------------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """On what, and when; the load tells whether others were at work."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load": [round(load, 2) for load in os.getloadavg()],
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": {name: found for name in LIBRARIES if (found := _version(name)) is not None},
    }


def described(machine: Mapping[str, Any]) -> str:
    """A machine in one line."""
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}; "
        f"{machine['python']}; {versions}"
    )


def _cpu_model() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
