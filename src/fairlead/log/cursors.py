"""A cursor is a durable position by name: after a crash it is what was last synced, or what was set later."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from threading import Lock

from fairlead.log.format import MAX_OFFSET, MAX_PAYLOAD, REMOVED, encode_cursors

__all__ = ["Cursors"]

MAX_NAME = 1024


class Cursors(MutableMapping[str, int]):
    """The cursors of a log, as a mapping; a change is synced with the log's next sync.

    However often a cursor is set between two syncs, one record in the log tells where it stands. Cursors may
    be set in one thread while another one syncs; the methods without a place in a mapping are the log's,
    which has the lock.
    """

    __slots__ = (
        "_changed",
        "_lock",
        "_offsets",
        "_size",
        "_writing",
        "_writing_version",
        "synced",
        "version",
    )

    def __init__(self, offsets: dict[str, int], lock: Lock) -> None:
        self._lock = lock
        self._offsets: dict[str, int] = {}
        self._size = 0
        self._changed: set[str] = set()
        self._writing: set[str] = set()
        self.version = self._writing_version = self.synced = 0
        """The number of changes so far; of those that are being written; of those that are synced."""
        for name, offset in offsets.items():
            self.replay(name, offset)

    def __getitem__(self, name: str) -> int:
        return self._offsets[name]

    def __setitem__(self, name: str, offset: int) -> None:
        if not 0 <= offset < MAX_OFFSET:
            raise ValueError(f"{offset} is not an offset")
        with self._lock:
            if self._offsets.get(name) != offset:
                self._put(name, offset)
                self._change(name)

    def __delitem__(self, name: str) -> None:
        with self._lock:
            del self._offsets[name]
            self._size -= _room_of(name)
            self._change(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def replay(self, name: str, offset: int) -> None:
        """Apply a change that is in the log."""
        if offset != REMOVED:
            self._put(name, offset)
        elif self._offsets.pop(name, None) is not None:
            self._size -= _room_of(name)

    def snapshot(self) -> dict[str, int]:
        return dict(self._offsets)

    @property
    def changed(self) -> bool:
        return bool(self._changed)

    def changes(self) -> list[bytes]:
        """The payloads of all changes, which count as written from now on."""
        self._writing |= self._changed
        self._writing_version = self.version
        names, self._changed = sorted(self._changed), set()
        # So many at a time that even names of the greatest length fit into a record.
        step = MAX_PAYLOAD // (MAX_NAME + 10)
        return [
            encode_cursors({name: self._offsets.get(name, REMOVED) for name in names[at : at + step]})
            for at in range(0, len(names), step)
        ]

    def written(self) -> None:
        """All that counted as being written is synced."""
        self._writing.clear()
        self.synced = self._writing_version

    def taken_back(self) -> None:
        """Nothing is known of what counted as being written: it is to be written again."""
        self._changed |= self._writing
        self._writing.clear()
        self._writing_version = self.synced

    def _change(self, name: str) -> None:
        self._changed.add(name)
        self.version += 1

    def _put(self, name: str, offset: int) -> None:
        if name not in self._offsets:
            room = _room_of(name)
            if self._size + room > MAX_PAYLOAD:
                raise ValueError(f"there is no room for the cursor {name!r} beside {len(self)} others")
            self._size += room
        self._offsets[name] = offset


def _room_of(name: str) -> int:
    length = len(name.encode())
    if not 0 < length <= MAX_NAME:
        raise ValueError(f"the name of a cursor has 1 to {MAX_NAME} bytes, not {length}")
    return length + 10
