"""The tail of a log names its newest segment, so that a log without that segment is not taken for a shorter one.

The file `tail` holds the offset at which the newest segment begins, in 20 decimal digits. The writer replaces it
after the segment is synced: the tail may name an older segment than the newest, never one that was not there.
"""

from __future__ import annotations

import contextlib

from fairlead.errors import DamagedLog
from fairlead.log.disk import Disk, write_file
from fairlead.log.format import name_of

__all__ = ["NAME", "check_tail", "read_tail", "write_tail"]

NAME = "tail"
DIGITS = 20
HINT = "restore a backup (fairlead broker restore), or delete the file 'tail' to go on without these records"


def read_tail(disk: Disk, directory: str) -> int | None:
    """The first offset of the newest segment; None where the log has no tail, or one that was not finished."""
    try:
        file = disk.open(f"{directory}/{NAME}")
    except FileNotFoundError:
        return None
    try:
        raw = disk.read(file, DIGITS, 0)
    finally:
        disk.close(file)
    return int(raw) if len(raw) == DIGITS and raw.isdigit() else None


def write_tail(disk: Disk, directory: str, base: int) -> None:
    """Name the newest segment. On a full disk the older tail stays: it still finds most of what can be missing."""
    path = f"{directory}/{NAME}"
    with contextlib.suppress(OSError):
        write_file(disk, path, f"{base:0{DIGITS}d}".encode(), unfinished=f"{path}.new")


def check_tail(disk: Disk, directory: str, bases: list[int]) -> None:
    """Raise DamagedLog where the newest segment that the log ever had is not among those that begin at `bases`."""
    tail = read_tail(disk, directory)
    if tail is not None and tail not in bases and (not bases or tail > bases[-1]):
        path = f"{directory}/{name_of(tail)}"
        raise DamagedLog(
            f"{path}: this segment is missing: the records from {tail} on were synced, and are not there",
            path=path,
            offset=tail,
            hint=HINT,
        )
