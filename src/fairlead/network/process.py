"""Figures of the broker's process, from the operating system; a figure that it does not have is left out."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from pathlib import Path
from typing import Final

__all__ = ["free_bytes", "process_figures"]

_STARTED: Final = time.time()


def process_figures() -> dict[str, float]:
    """By the names that Prometheus' own clients use: processor time, memory, open files, start."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "process_cpu_seconds_total": used.ru_utime + used.ru_stime,
        "process_start_time_seconds": _STARTED,
        "process_max_fds": float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    }
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        figures["process_resident_memory_bytes"] = float(pages * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError):
        figures["process_open_fds"] = float(len(os.listdir("/proc/self/fd")))
    return figures


def free_bytes(directory: str) -> int | None:
    """The free bytes of a directory's disk for this user; None if they are not known."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
