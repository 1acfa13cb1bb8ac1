"""The log of a bus: what was published, and how far each durable subscriber has come.

    Laws
    What `publish` has returned from is in the log, whatever fails; nobody is notified of anything that is not.
    What a durable subscriber has not accepted comes again, in this process or a later one; what it has accepted
    does not. (After a power failure, what was accepted since the last publication may come again.)
    A log that is opened again has the identities, retained values and transactions of the earlier process.

A durable subscriber is a cursor, what it has accepted beyond it, and the attempts that have failed. While nobody
is there for it, it costs nothing: the log has what it will get.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypeAlias

import msgspec

from fairlead.delivery.assigning import Count
from fairlead.errors import LogFull, ValueRefused
from fairlead.log import MAX_PAYLOAD, Log, Reader
from fairlead.log.records import PUBLICATION
from fairlead.log.writer import SEGMENT_BYTES
from fairlead.model import Notification
from fairlead.model.durations import seconds_of
from fairlead.model.packed import identity_in, pack, unpack

__all__ = ["DurableStatus", "History", "LogFile"]

BUS_STATE: Final = 40
"""The kind of records about durable subscribers and transactions."""
RETAINED: Final = 41
"""The kind of copies of retained values whose publications leave the log: u64 number, the notification."""
CURSOR: Final = "durable/"
NO_TIME: Final = 0
"""The time of records that are no publications."""
LOOK_AGAIN: Final = 1024
"""The number of records after which the log is looked at for what may leave it."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """The log of a bus, in a directory of its own, and what leaves it.

    Without `keep` and `bytes_max` nothing does. What is older than `keep` (seconds, or as "7d") leaves it, and as
    much more as `bytes_max` demands; but nothing that a durable subscriber has not accepted.
    """

    directory: str | os.PathLike[str]
    keep: float | str | timedelta | None = None
    bytes_max: int | None = None
    segment_bytes: int = SEGMENT_BYTES


@dataclass(frozen=True, slots=True)
class DurableStatus:
    """A durable subscriber of a bus."""

    name: str
    filter: str
    backlog: int
    """The number of records in the log that it has still to look at."""
    is_active: bool
    """Whether somebody is there for it."""


class Declared(msgspec.Struct, frozen=True, array_like=True, tag="durable"):
    name: str
    filter: str


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag="forgotten"):
    name: str


class Settled(msgspec.Struct, frozen=True, array_like=True, tag="settled"):
    deliveries: list[tuple[str, int]]
    """Names of durable subscribers, and offsets."""


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    name: str
    offset: int
    attempts: int
    failures: int


class Committed(msgspec.Struct, frozen=True, array_like=True, tag="transaction"):
    producer: str
    id: str


Change: TypeAlias = Declared | Forgotten | Settled | Failed | Committed
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Change)


@dataclass(slots=True)
class Record:
    """A durable subscriber, as the log has it."""

    name: str
    filter: str
    settled: set[int] = field(default_factory=set)
    """The offsets, not below the cursor, that it is done with."""
    counts: dict[int, Count] = field(default_factory=dict)
    """The attempts that have failed, by offset."""


class History:
    """The log of one bus. The bus's lock keeps it, but for what receivers settle: the log has locks of its own."""

    def __init__(self, settings: LogFile) -> None:
        self._settings = settings
        seconds = seconds_of(settings.keep, "a time to keep")
        self._keep_us = None if seconds is None else round(seconds * 1_000_000)
        self._log = Log(settings.directory, segment_bytes=settings.segment_bytes)
        self.durables: Final[dict[str, Record]] = {}
        """The durable subscribers by name."""
        self._copies: dict[int, int] = {}
        """The offsets of copies of retained values, by the number of the publication."""
        self._reader = self._new_reader(self._log.first)
        self._changing = threading.RLock()
        """The lock of `durables` and what is in them: receivers settle without the bus's lock."""
        self._looked_at = self._log.end

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self._log.end

    @property
    def is_bounded(self) -> bool:
        """Whether records leave the log."""
        return self._keep_us is not None or self._settings.bytes_max is not None

    # -- opening and closing ---------------------------------------------------------------------------------

    def recover(
        self,
        published: Callable[[tuple[str, str]], None],
        committed: Callable[[tuple[str, str]], None],
        retained: Callable[[Notification, int], None] | None,
    ) -> None:
        """Tell what is in the log: identities, transactions, and values for channels with their numbers."""
        if retained is not None:
            for number, packed in self._retained_copies():
                retained(unpack(packed), number)
        with self._new_reader(self._log.first, PUBLICATION, BUS_STATE) as reader:
            for record in reader:
                if record.kind == BUS_STATE:
                    self._apply(_decoder.decode(record.payload), committed)
                    continue
                published(identity_in(record.payload))
                if retained is not None:
                    retained(unpack(record.payload), record.offset + 1)
        for each in self.durables.values():
            self._prune(each)

    def _retained_copies(self) -> Iterator[tuple[int, bytes]]:
        """The copies of values whose publications have left the log, in the order of these."""
        copies: dict[int, bytes] = {}
        with self._new_reader(self._log.first, RETAINED) as reader:
            for record in reader:
                number = int.from_bytes(record.payload[:8], "little")
                self._copies[number] = record.offset
                if number <= self._log.first:
                    copies[number] = record.payload[8:]
        yield from sorted(copies.items())

    def _apply(self, change: Change, committed: Callable[[tuple[str, str]], None]) -> None:
        match change:
            case Declared():
                self.durables[change.name] = Record(change.name, change.filter)
            case Forgotten():
                self.durables.pop(change.name, None)
            case Settled():
                for name, offset in change.deliveries:
                    if name in self.durables:
                        self.durables[name].settled.add(offset)
            case Failed():
                if change.name in self.durables:
                    self.durables[change.name].counts[change.offset] = Count(change.attempts, change.failures)
            case Committed():
                committed((change.producer, change.id))

    def close(self) -> None:
        """Sync, and let go of the log."""
        self._reader.close()
        self._log.close()

    # -- publications ----------------------------------------------------------------------------------------

    def write(self, notification: Notification, now: int) -> int:
        """Write a publication, and return its offset when it is safe."""
        offset = self._log.append(PUBLICATION, _packed(notification), now)
        self._sync(offset)
        return offset

    def write_group(
        self,
        notifications: Iterable[Notification],
        now: int,
        transaction: tuple[str, str],
        settled: Iterable[tuple[str, int]] = (),
    ) -> list[int]:
        """Write a transaction, whole or not at all: its publications and the deliveries that it settles; the
        offsets of the publications, when all is safe."""
        records = [(PUBLICATION, _packed(each)) for each in notifications]
        states = [Committed(*transaction), Settled([*settled])]
        offsets = self._log.append_group(
            [*records, *((BUS_STATE, _encoder.encode(each)) for each in states)], now
        )
        self._sync(offsets[-1])
        return [*offsets][: len(records)]

    def _sync(self, last: int) -> None:
        try:
            self._log.sync()
        except LogFull:
            if self._log.synced > last:  # what was not written is less than this
                return
            self._log.take_back()
            raise

    def read(self, offset: int, until: int, limit: int) -> tuple[list[tuple[int, Notification]], int]:
        """The publications from an offset on, at most so many, and the offset to go on from; Gone: they have
        left the log."""
        if self._reader.offset != offset:
            self._reader.seek(offset)
        found: list[tuple[int, Notification]] = []
        while len(found) < limit and self._reader.offset < until:
            before = self._reader.offset
            records = self._reader.read_chunk(min(limit - len(found), until - before))
            found += [
                (each.offset, unpack(each.payload))
                for each in records
                if each.kind == PUBLICATION and each.offset < until
            ]
            if self._reader.offset == before:  # what follows is not written yet, so it is no publication
                return found, until
        return found, self._reader.offset

    def find(self, time: int) -> tuple[int, bool]:
        """The offset of the first record that is as late as a time, and whether earlier ones may have left."""
        offset = self._reader.find(time)
        return offset, offset == self._log.first > 0

    @property
    def first(self) -> int:
        """The first offset that is there."""
        return self._log.first

    def _new_reader(self, offset: int, *kinds: int) -> Reader:
        directory = os.fspath(self._settings.directory)
        return Reader(directory, offset, kinds=kinds or None, synced=False, index=self._log.index)

    # -- durable subscribers ---------------------------------------------------------------------------------

    def cursor(self, name: str) -> int:
        """The offset of the first record that a durable subscriber is not done with."""
        return max(self._log.cursors.get(CURSOR + name, 0), self._log.first)

    def declare(self, name: str, filter: str, offset: int) -> Record:
        """A new durable subscriber, from an offset on; it is safe when this returns."""
        with self._changing:
            self._log.cursors[CURSOR + name] = offset
            self._write_state(Declared(name, filter))
            record = self.durables[name] = Record(name, filter)
            return record

    def forget(self, name: str) -> None:
        """A durable subscriber ends."""
        with self._changing:
            self._write_state(Forgotten(name))
            del self.durables[name]
            del self._log.cursors[CURSOR + name]

    def _write_state(self, change: Change) -> None:
        self._sync(self._log.append(BUS_STATE, _encoder.encode(change), NO_TIME))

    def is_settled(self, name: str, offset: int) -> bool:
        """Whether a durable subscriber is done with a record."""
        with self._changing:
            record = self.durables.get(name)
            return record is None or offset in record.settled

    def settle(self, name: str, offset: int | None, cursor: int | None) -> None:
        """A durable subscriber is done with a record; it is done with all below a cursor, too."""
        with self._changing:
            record = self.durables.get(name)
            if record is None:
                return
            if cursor is not None and self._log.cursors.get(CURSOR + name) != cursor:
                self._log.cursors[CURSOR + name] = cursor
                self._prune(record)
            if offset is not None and (cursor is None or offset >= cursor):
                record.settled.add(offset)
                self._note(Settled([(name, offset)]))
            else:
                self._flush()

    def fail(self, name: str, offset: int, count: Count) -> None:
        """An attempt at a record has failed."""
        with self._changing:
            if (record := self.durables.get(name)) is not None:
                record.counts[offset] = count
                self._note(Failed(name, offset, *count))

    def _note(self, change: Change) -> None:
        """Write a change, and do not wait for the disk; a full one loses it, and it happens again."""
        try:
            self._log.append(BUS_STATE, _encoder.encode(change), NO_TIME)
        except LogFull:
            return
        self._flush()

    def _flush(self) -> None:
        try:
            self._log.flush()
        except LogFull:
            return  # the next sync writes it

    def _prune(self, record: Record) -> None:
        cursor = self.cursor(record.name)
        record.settled = {each for each in record.settled if each >= cursor}
        record.counts = {offset: each for offset, each in record.counts.items() if offset >= cursor}

    # -- what leaves the log ---------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether it is time to look for what may leave the log."""
        return self.is_bounded and self._log.end - self._looked_at >= LOOK_AGAIN

    def shorten(self, now: int, values: Iterable[tuple[int, Notification]]) -> None:
        """Let go of what is too old or too much; the state, and the retained values, are written anew before."""
        self._looked_at = self._log.end
        since = None if self._keep_us is None else now - self._keep_us
        retain_from = min((self.cursor(name) for name in self.durables), default=None)
        bounds = {"since": since, "max_bytes": self._settings.bytes_max, "retain_from": retain_from}
        target = self._log.retained(**bounds)
        if target <= self._log.first:
            return
        for number, value in values:
            if number <= target and self._copies.get(number, 0) < target:
                payload = number.to_bytes(8, "little") + pack(value)
                self._copies[number] = self._log.append(RETAINED, payload, NO_TIME)
        with self._changing:
            for change in [each for record in self.durables.values() for each in _changes_of(record)]:
                self._log.append(BUS_STATE, _encoder.encode(change), NO_TIME)
            self._sync(self._log.end - 1)
        self._log.retain(**bounds)
        self._copies = {number: at for number, at in self._copies.items() if at >= self._log.first}


def _packed(notification: Notification) -> bytes:
    packed = pack(notification)
    if len(packed) > MAX_PAYLOAD:
        raise ValueRefused(f"a log holds notifications of at most {MAX_PAYLOAD:,} bytes, not {len(packed):,}")
    return packed


def _changes_of(record: Record) -> list[Change]:
    """The changes that make a durable subscriber what it is."""
    return [
        Declared(record.name, record.filter),
        Settled([(record.name, offset) for offset in sorted(record.settled)]),
        *(Failed(record.name, offset, *count) for offset, count in record.counts.items()),
    ]
