"""Copies of a log: consistent backups of a log that is being written, restores, examinations, salvage.

    back_up(log, target)      every synced record, while the log's writer goes on
    restore(copy, target)     a log again; its next writer begins a new incarnation, as every opening does
    examine(log)              what is there: segments, records, and the first damage of each segment
    salvage(log, target)      a new log of every whole record of a damaged one, in order

A backup is a log like any other: a reader, `examine` or a pipeline can open it in its place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairlead.errors import BadInput, DamagedLog
from fairlead.log.disk import Disk
from fairlead.log.format import CURSORS, FIRST_BYTES, MAX_OFFSET, head_length, name_of, offsets_in
from fairlead.log.segment import Segment
from fairlead.log.tail import check_tail, write_tail
from fairlead.log.writer import Log

__all__ = ["Examined", "back_up", "examine", "restore", "salvage"]

ATTEMPTS: Final = 10
CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Examined:
    """One segment of a log: its records, `first` to `end`, its size, and its first damage, if it has any."""

    path: str
    first: int
    end: int
    size_bytes: int
    damage: str = ""


def back_up(directory: str | os.PathLike[str], target: str | os.PathLike[str]) -> range:
    """Copy a log, also one that is being written; the offsets that the copy holds.

    The copy has every record that was synced when the backup began. Segments are copied in their order, and each
    head before its records: so the copy's marks promise nothing that it does not hold. Where retention removes a
    segment in between, the copy begins again.
    """
    source, copy = Path(directory), _empty(target)
    for _ in range(ATTEMPTS):
        bases = _bases(source)
        try:
            for base in bases:
                _copy_segment(source / name_of(base), copy / name_of(base))
        except FileNotFoundError:
            for path in copy.iterdir():
                path.unlink()
            continue
        write_tail(Disk(), str(copy), bases[-1])
        Disk().sync_directory(str(copy))
        with Segment(Disk(), str(copy), bases[-1]) as last:
            return range(bases[0], last.mark())
    raise DamagedLog(f"{source}: retention removed segments faster than they were copied", path=str(source))


def restore(copy: str | os.PathLike[str], target: str | os.PathLike[str]) -> range:
    """Make a log of a backup, in an empty directory; the offsets that it holds."""
    source = Path(copy)
    bases = _bases(source)
    check_tail(Disk(), str(source), bases)
    for each in examine(source):
        if each.damage:
            raise DamagedLog(
                f"{each.path}: {each.damage}", path=each.path, hint="salvage what is whole first"
            )
    return back_up(source, target)


def examine(directory: str | os.PathLike[str]) -> Iterator[Examined]:
    """Read a whole log; for each segment, what it holds and its first damage."""
    source, disk = Path(directory), Disk()
    bases = _bases(source)
    for base, following in zip(bases, [*bases[1:], None], strict=True):
        path = str(source / name_of(base))
        size = os.path.getsize(path)
        try:
            with Segment(disk, str(source), base) as segment:
                end = _whole_end(segment)
                stop = segment.mark() if following is None else following
                damage = (
                    "" if end >= stop else f"the record {end} is missing or damaged; the segment has {stop}"
                )
        except DamagedLog as error:
            end, damage = base, str(error)
        yield Examined(path, base, end, size, damage)


def salvage(directory: str | os.PathLike[str], target: str | os.PathLike[str]) -> tuple[int, int]:
    """Write every whole record of a log into a new one, with new offsets; how many are saved, and lost.

    Cursors are left out: their offsets mean nothing in the new log. Whoever had one begins at the first record.
    """
    source, saved, lost = Path(directory), 0, 0
    with Log(_empty(target)) as log:
        expected: int | None = None
        for base in _bases(source):
            lost += 0 if expected is None else max(0, base - expected)
            expected = base
            try:
                with Segment(Disk(), str(source), base) as segment:
                    position = segment.start
                    while (run := segment.run(position, expected, MAX_OFFSET)).records:
                        for record in run.records:
                            if record.kind != CURSORS:
                                log.append(record.kind, record.payload, record.time)
                                saved += 1
                        expected, position = run.records[-1].offset + 1, position + run.size
                    lost += max(0, segment.mark() - expected)
                    expected = max(expected, segment.mark())
            except DamagedLog:
                continue  # its head: the next segment's name says how many records are lost
    return saved, lost


def _whole_end(segment: Segment) -> int:
    offset, position = segment.base, segment.start
    while (run := segment.run(position, offset, MAX_OFFSET)).records:
        offset, position = offset + len(run.records), position + run.size
    return offset


def _copy_segment(path: Path, target: Path) -> None:
    """The head with its marks before the records: what is synced below a mark is in the file by then."""
    with path.open("rb") as source, target.open("wb") as copy:
        os.chmod(target, 0o600)
        opening = source.read(FIRST_BYTES)
        copy.write(opening + source.read(head_length(opening, str(path)) - FIRST_BYTES))
        shutil.copyfileobj(source, copy, CHUNK)
        copy.flush()
        os.fsync(copy.fileno())


def _bases(directory: Path) -> list[int]:
    bases = offsets_in(os.listdir(directory)) if directory.is_dir() else []
    if not bases:
        raise BadInput(f"{directory}: there is no log", hint="name the directory of a broker's log")
    return bases


def _empty(target: str | os.PathLike[str]) -> Path:
    directory = Path(target)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise BadInput(f"{directory}: it is there already, and not empty", hint="name a new directory")
    Disk().make_directory(str(directory))
    return directory
