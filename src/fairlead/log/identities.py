"""The first offset of every identity in a log, for a while: so a duplicate is known long after the first one.

The latest identities are in memory, exactly. The others are in files, as sorted runs of keyed hashes, 18 bytes for
each, which are mapped into memory: the system may take that back at any time. Most identities are new, so what is
in memory for all of the files is a filter (of 16 bits for each) that says of most of these that they are in none.

    <directory>/<number>.identities     a run
        head      magic, version, key, count, the highest offset + 1, the time of the latest identity
        records   checksum (CRC-32 of the identity, 4 bytes), hash (8 bytes), offset (6 bytes); sorted

Writing takes a while, and is to be done beside the event loop: `begin` it, `write` in another thread, `finish`.
The latest runs are merged with what is written, as long as they are not longer than that, nor large; the oldest
goes when it has been remembered for long enough, or when there is too much. What is in memory is lost with the
process, and remembered again from the records of the log since `finish` said so.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
import sys
from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import accumulate, chain, islice
from operator import eq
from struct import Struct
from time import sleep
from typing import Final, NamedTuple
from zlib import crc32

from fairlead.errors import DamagedLog
from fairlead.log.disk import Disk, write_file

__all__ = ["FirstOffsets"]

MAGIC: Final = b"\x89FLID\r\n\x1a"
VERSION: Final = 1
SUFFIX: Final = ".identities"
UNFINISHED: Final = (".new", ".partial")
"""Suffixes of a run until it is synced: now, and in earlier versions."""
_HEAD: Final = Struct("<8sI16sIQq")
HEAD_BYTES: Final = 64
KEY_BYTES, OFFSET_BYTES = 12, 6
RECORD_BYTES: Final = KEY_BYTES + OFFSET_BYTES
_RECORD: Final = Struct(f"{RECORD_BYTES}s")
_KEY: Final = Struct(">I8s")
LATEST: Final = 100_000
"""So many in memory are worth being written."""
LATEST_MAX: Final = 8
"""So many times as many are in memory where nothing can be written; then the oldest are forgotten."""
WRITE_US: Final = 60_000_000
"""The time after which memory is written: so much of the log is read again after a crash."""
RETRY_US: Final = 5_000_000
"""After so long it is written on a full disk, and tried again where it could not be."""
AT_ONCE: Final = 256
"""So many records are worked on before other threads may run: the event loop should not wait for long."""
PAUSE_S: Final = 0.000_1
HURRY: Final = 2
"""From so many times as many in memory on, writing does not wait for a process that is busy."""
RUNS: Final = 8
"""A run grows by merging to such a part of all."""
MOST: Final = 5_000_000
TIME_US: Final = 86_400_000_000


class _Run:
    """Identities in one file, or in memory where there is no directory."""

    def __init__(self, content: bytes | mmap.mmap, path: str = "") -> None:
        """The run that some bytes are; DamagedLog if they are none."""
        if len(content) < HEAD_BYTES:
            raise DamagedLog(f"{path}: no identities", path=path)
        magic, version, self.key, self.count, self.end, self.latest = _HEAD.unpack_from(content)
        if (magic, version, len(content)) != (MAGIC, VERSION, HEAD_BYTES + self.count * RECORD_BYTES):
            raise DamagedLog(f"{path}: no identities", path=path)
        self._content, self.path = content, path
        self._index = array("I", accumulate(self._counts(), initial=0))
        """By the first two bytes of a record, where those begin that begin so."""

    def _counts(self) -> Iterator[int]:
        """The number of records that begin with each two bytes: counted in the columns of their first and
        second bytes.
        """
        first, second = (self._content[HEAD_BYTES + at :: RECORD_BYTES] for at in range(2))
        start = 0
        for each in range(256):
            stop = start + first.count(each)
            yield from map(second[start:stop].count, range(256))
            start = stop

    def beginning_with(self, first: int) -> Iterator[bytes]:
        """The records that begin with this byte."""
        start, stop = self._index[first << 8], self._index[(first + 1) << 8]
        content = self._content[HEAD_BYTES + start * RECORD_BYTES : HEAD_BYTES + stop * RECORD_BYTES]
        return chain.from_iterable(_RECORD.iter_unpack(content))

    def checksums(self) -> array[int]:
        """Those of all records: their bytes, column by column."""
        columns = bytearray(4 * self.count)
        for at in range(4):
            columns[at::4] = self._content[HEAD_BYTES + at :: RECORD_BYTES]
        checksums = array("I", columns)
        if sys.byteorder == "little":
            checksums.byteswap()
        return checksums

    def find(self, key: bytes) -> int | None:
        """The offset of an identity."""
        bucket = int.from_bytes(key[:2], "big")
        first, after = self._index[bucket], self._index[bucket + 1]
        records = self._content[HEAD_BYTES + first * RECORD_BYTES : HEAD_BYTES + after * RECORD_BYTES]
        at = records.find(key)
        while at >= 0 and at % RECORD_BYTES:
            at = records.find(key, at + 1)
        return None if at < 0 else int.from_bytes(records[at + KEY_BYTES : at + RECORD_BYTES], "little")

    def close(self) -> None:
        if isinstance(self._content, mmap.mmap):
            self._content.close()


class Written(NamedTuple):
    """The identities in files, from now on."""

    runs: list[_Run]
    filter: bytearray
    mask: int


class FirstOffsets:
    """The first offset of each identity, for `time_us` at least, unless there are more than `most` of them.

    `end` is that of the log: runs that know of offsets beyond it are of a log that has gone back, and count for
    nothing. Without a directory all is in memory. `has_failed` says whether the latest writing failed.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        end: int = 0,
        most: int = MOST,
        time_us: int = TIME_US,
        disk: Disk | None = None,
    ) -> None:
        self._directory, self._disk = None if directory is None else os.fspath(directory), disk or Disk()
        self._most, self._time_us = most, time_us
        self.latest: dict[bytes, int] = {}
        """Those that are in no file."""
        self._writing: dict[bytes, int] = {}
        """Those that are just being written."""
        self._since = self._written_at = 0
        self.has_failed = False
        self._runs: list[_Run] = []
        """The latest one first."""
        self._number = 0
        if self._directory is not None:
            self._disk.make_directory(self._directory)
            self._open(self._directory, end)
        self._work = 0
        """The number of records worked on since the last pause."""
        self._key = self._runs[0].key if self._runs else secrets.token_bytes(16)
        self._hash = blake2b(digest_size=8, key=self._key)
        self._filter, self._mask = bytearray(), 0
        if self._runs:
            self._filter, self._mask = self._filter_for(self._runs, [])

    def _open(self, directory: str, end: int) -> None:
        for name in sorted(self._disk.names(directory), reverse=True):
            path = f"{directory}/{name}"
            if name.endswith(UNFINISHED):
                self._disk.remove(path)
            if not name.endswith(SUFFIX):
                continue
            self._number = max(self._number, int(name.removesuffix(SUFFIX)))
            try:
                self._runs.append(_Run(self._disk.map(path), path))
            except (DamagedLog, ValueError):  # what is in no run is remembered from the log
                self._disk.remove(path)
        if any(run.end > end for run in self._runs) or len({run.key for run in self._runs}) > 1:
            self._remove(self._runs)
            self._runs = []

    def _remove(self, runs: list[_Run]) -> None:
        for run in runs:
            run.close()
            if run.path:
                with contextlib.suppress(FileNotFoundError):
                    self._disk.remove(run.path)

    def __len__(self) -> int:
        written: int = sum(run.count for run in self._runs)
        return len(self.latest) + len(self._writing) + written

    @property
    def is_new(self) -> bool:
        """Whether there is nothing in files."""
        return not self._runs

    # -- asked of every notification ---------------------------------------------------------------------------

    def first(self, identity: bytes, offset: int) -> int:
        """The offset of the first record of an identity; if none is known, it is this one from now on."""
        if self._runs:
            bit = crc32(identity) & self._mask
            if self._filter[bit >> 3] >> (bit & 7) & 1 and (known := self.known(identity)) is not None:
                return known
        if identity in self._writing:
            return self._writing[identity]
        return self.latest.setdefault(identity, offset)

    def take_all(self, identities: Sequence[bytes], offsets: list[int]) -> list[bool] | None:
        """Of records that follow one another, which are the first of their identities; None: all of them."""
        if (self._writing and not self._writing.keys().isdisjoint(identities)) or (
            self._runs and self._is_any_earlier(identities)
        ):
            return [*map(eq, map(self.first, identities, offsets), offsets)]
        first = [*map(self.latest.setdefault, identities, offsets)]
        return None if first == offsets else [*map(eq, first, offsets)]

    def _is_any_earlier(self, identities: Sequence[bytes]) -> bool:
        """Whether some are in files."""
        filter, mask = self._filter, self._mask
        bits = [crc32(each) & mask for each in identities]
        likely = [
            each for each, bit in zip(identities, bits, strict=True) if filter[bit >> 3] >> (bit & 7) & 1
        ]
        return any(self._earlier(each) is not None for each in likely)

    def known(self, identity: bytes) -> int | None:
        """The offset of the first record of an identity, if it is remembered."""
        known = self.latest.get(identity)
        return self._earlier(identity) if known is None else known

    def _earlier(self, identity: bytes) -> int | None:
        known = self._writing.get(identity)
        if known is not None or not self._runs:
            return known
        checksum = crc32(identity)
        bit = checksum & self._mask
        if not self._filter[bit >> 3] >> (bit & 7) & 1:
            return None
        key = self._hashed(identity, checksum)
        for run in self._runs:
            known = run.find(key)
            if known is not None:
                return known
        return None

    def _hashed(self, identity: bytes, checksum: int) -> bytes:
        # The hash has a key, so that nobody can make a notification vanish by another identity with its hash.
        hashed = self._hash.copy()
        hashed.update(identity)
        return _KEY.pack(checksum, hashed.digest())

    # -- writing -----------------------------------------------------------------------------------------------

    def is_due(self, now: int, *, hurry: bool = False, busy: bool = False) -> bool:
        """Whether what is in memory should be written: after a while, sooner if there is a `hurry`, later while
        the process is `busy`, if it is not too much."""
        if self._writing:
            return False
        if len(self.latest) >= LATEST * (LATEST_MAX if self.has_failed else HURRY if busy else 1):
            return True
        return now - self._written_at >= (RETRY_US if hurry or self.has_failed else WRITE_US)

    def begin(self, end: int, now: int) -> None:
        """From now on identities are remembered of records from the offset `end` on; the others are written."""
        self._writing, self.latest, self._written_at = self.latest, {}, now
        self._since = end

    def write(self, now: int) -> Written | None:
        """Write what has been begun. To be called in another thread."""
        if not self._writing:
            return None
        merged, count, end = 0, len(self._writing), max(self._writing.values()) + 1
        for run in self._runs:
            if not run.count <= count <= self._most // RUNS - run.count:
                break
            merged, count, end = merged + 1, count + run.count, max(end, run.end)
        checksums, parts = self._by_first_byte()
        content = [_HEAD.pack(MAGIC, VERSION, self._key, count, end, now).ljust(HEAD_BYTES, b"\0")]
        for first, records in enumerate(parts):
            records.extend(chain.from_iterable(run.beginning_with(first) for run in self._runs[:merged]))
            records.sort()
            content.append(b"".join(records))
            self._pause(len(records))
        runs = self._remembered([self._made(b"".join(content)), *self._runs[merged:]], now)
        return Written(runs, *self._filter_for(runs, checksums))

    def _by_first_byte(self) -> tuple[list[int], list[list[bytes]]]:
        """The checksums of what is written, and its records, in one list for each first byte."""
        checksums: list[int] = []
        parts: list[list[bytes]] = [[] for _ in range(256)]
        identities, fresh, bytes_of = iter(self._writing.items()), self._hash.copy, _KEY.pack
        while some := [*islice(identities, AT_ONCE)]:
            for identity, offset in some:
                checksum = crc32(identity)
                checksums.append(checksum)
                hashed = fresh()
                hashed.update(identity)
                parts[checksum >> 24].append(
                    bytes_of(checksum, hashed.digest()) + offset.to_bytes(OFFSET_BYTES, "little")
                )
            self._pause(len(some))
        return checksums, parts

    def _pause(self, records: int) -> None:
        """Let other threads run after some work, unless they are so busy that this has to get done."""
        self._work += records
        if self._work >= AT_ONCE and len(self.latest) < HURRY * LATEST:
            self._work = 0
            sleep(PAUSE_S)

    def _made(self, content: bytes) -> _Run:
        if self._directory is None:
            return _Run(content)
        self._number += 1
        stem = f"{self._directory}/{self._number:016}"
        path = stem + SUFFIX
        write_file(self._disk, path, content, unfinished=stem + UNFINISHED[0])
        self._disk.sync_directory(self._directory)  # before the cursor says that it is there
        return _Run(self._disk.map(path), path)

    def _remembered(self, runs: list[_Run], now: int) -> list[_Run]:
        """The runs that are neither too old nor too much."""
        total = sum(run.count for run in runs)
        while len(runs) > 1 and (now - runs[-1].latest > self._time_us or total > self._most):
            total -= runs[-1].count
            runs = runs[:-1]
        return runs

    def _filter_for(self, runs: list[_Run], added: list[int]) -> tuple[bytearray, int]:
        """The filter of these runs, to which identities with some checksums have been added."""
        bits = max(1 << 10, 1 << (16 * sum(run.count for run in runs)).bit_length())
        mask = bits - 1
        if mask == self._mask and runs[-1] in (*self._runs[-1:], runs[0]):
            filter, checksums = bytearray(self._filter), iter(added)
        else:
            filter, checksums = bytearray(bits >> 3), chain.from_iterable(run.checksums() for run in runs)
        while some := [*islice(checksums, AT_ONCE)]:
            for checksum in some:
                bit = checksum & mask
                filter[bit >> 3] |= 1 << (bit & 7)
            self._pause(len(some))
        return filter, mask

    def finish(self, written: Written | None) -> int:
        """Identities are remembered as they were written; below the offset returned, all records' are in files."""
        if written is not None:
            gone = [run for run in self._runs if run not in written.runs]
            self._runs, self._filter, self._mask = written
            self._writing = {}
            self._remove(gone)
        self.has_failed = False
        return self._since

    def abandon(self) -> None:
        """It could not be written: what was begun is in memory, as before, as far as there is room."""
        self.latest = {**self._writing, **self.latest}
        self._writing, self.has_failed = {}, True
        excess = len(self.latest) - (LATEST_MAX - 1) * LATEST
        for identity in list(islice(self.latest, max(0, excess))):
            del self.latest[identity]

    def close(self) -> None:
        """Let go of the files."""
        for run in self._runs:
            run.close()
        self._runs = []
