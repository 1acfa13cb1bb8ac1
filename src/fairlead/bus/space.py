"""A tuple space on the bus: what is written stays until somebody takes it, by content.

    Laws
    A notification that was written is taken by one, and by nobody else; until then it can be read.
    Of those that match, the oldest one is taken. Takers that wait are served in the order in which they came.
    What is taken in a transaction is away while that is open; it is back at its place if that is aborted.

A space holds what is published with the attribute `space` and its name, from the moment at which it takes its
place on the bus: so what is written in a transaction is there when that is committed. It is in memory, as the bus
is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fairlead.errors import ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead.model.durations import seconds_of

if TYPE_CHECKING:
    from datetime import timedelta

    from fairlead.bus.bus import Bus
    from fairlead.bus.handles import Subscription
    from fairlead.bus.transacting import Transaction

__all__ = ["SPACE", "Space", "Spaces", "Taken"]

Patience: TypeAlias = "float | str | timedelta | None"

SPACE: Final = "space"
"""The attribute with the name of the space."""
LEASE: Final = "lease"


@dataclass(eq=False, slots=True)
class _Waiting:
    """Somebody who waits for a notification, to take it or to read it."""

    template: Filter
    takes: bool
    found: threading.Event = field(default_factory=threading.Event)
    entry: tuple[int, Notification] | None = None


@dataclass(eq=False, slots=True)
class Taken:
    """A notification that was taken, and may be put back."""

    space: Space
    number: int
    notification: Notification

    def put_back(self) -> None:
        """It was not dealt with: it is in the space again, at its place."""
        self.space._put_back(self.number, self.notification)


class Space:
    """One space of a bus."""

    def __init__(self, bus: Bus, name: str, now: Callable[[], int]) -> None:
        self._bus, self.name, self._now = bus, name, now
        self._lock = threading.Lock()
        self._held: dict[int, Notification] = {}
        """In the order of their numbers."""
        self._until: dict[int, int] = {}
        """When leases end, in microseconds."""
        self._waiting: list[_Waiting] = []
        self._written = 0

    # -- writing -----------------------------------------------------------------------------------------------

    def write(
        self,
        event: Mapping[str, Any] | tuple[Any, ...] | Notification,
        *,
        lease: Patience = None,
        transaction: Transaction | None = None,
    ) -> Notification | None:
        """Write a notification: it is published, and stays. None: it is a duplicate.

        After its `lease`, in seconds or as "5s", it is there no longer. In a transaction it is written when that
        is committed.
        """
        notification = Notification.of(event)
        if SPACE in notification.attributes and notification.get(SPACE) != self.name:
            raise ValueRefused(f"it is written to the space {self.name!r}, and says another one")
        attributes: dict[str, Any] = {**notification.attributes, SPACE: self.name}
        seconds = seconds_of(lease, "a lease")
        if seconds is not None:
            if not self._now():
                raise ValueRefused("a lease ends by the clock of the bus", hint="Bus(clock=…)")
            attributes[LEASE] = str(round(seconds * 1e6)) + " us"
        written = Notification.of(
            {
                **attributes,
                **({"producer": notification.producer} if notification.producer else {}),
                **({"id": notification.id} if notification.id is not None else {}),
                **({"time": notification.time} if notification.time is not None else {}),
            }
        )
        return self._bus.publish(written) if transaction is None else transaction.publish(written)

    def _enter(self, notification: Notification) -> None:
        """It has taken its place on the bus, whose lock is held."""
        with self._lock:
            self._written += 1
            number = self._written
            lease = notification.get(LEASE)
            if isinstance(lease, str) and lease.endswith(" us"):
                self._until[number] = self._now() + int(lease[:-3])
            self._offer(number, notification)

    def _offer(self, number: int, notification: Notification) -> None:
        """Give it to all who wait to read it, and to the first who waits to take it; else hold it."""
        for waiting in [each for each in self._waiting if each.template.matches(notification)]:
            waiting.entry = (number, notification)
            self._waiting.remove(waiting)
            waiting.found.set()
            if waiting.takes:
                return
        if self._held and number < next(reversed(self._held)):
            self._held = dict(sorted({**self._held, number: notification}.items()))
        else:
            self._held[number] = notification

    def _put_back(self, number: int, notification: Notification) -> None:
        with self._lock:
            self._offer(number, notification)

    # -- reading and taking ------------------------------------------------------------------------------------

    def read(self, template: str | Filter, timeout: Patience = None) -> Notification:
        """The oldest notification that matches; waits for one, and stays there. TimeoutError: none has come."""
        return self._wait(template, timeout, takes=False)[1]

    def read_if_exists(self, template: str | Filter) -> Notification | None:
        """The oldest notification that matches, if there is one now."""
        found = self._find(self._filter(template), takes=False)
        return None if found is None else found[1]

    def take(
        self, template: str | Filter, timeout: Patience = None, *, transaction: Transaction | None = None
    ) -> Notification:
        """Take the oldest notification that matches; waits for one. TimeoutError: none has come.

        In a transaction it is back if that is aborted.
        """
        number, notification = self._wait(template, timeout, takes=True)
        self._join(transaction, number, notification)
        return notification

    def take_if_exists(
        self, template: str | Filter, *, transaction: Transaction | None = None
    ) -> Notification | None:
        """Take the oldest notification that matches, if there is one now."""
        found = self._find(self._filter(template), takes=True)
        if found is None:
            return None
        self._join(transaction, *found)
        return found[1]

    @contextmanager
    def taking(self, template: str | Filter, timeout: Patience = None) -> Iterator[Notification]:
        """Take one for the block: it is back if the block raises."""
        number, notification = self._wait(template, timeout, takes=True)
        try:
            yield notification
        except BaseException:
            self._put_back(number, notification)
            raise

    def notify(self, template: str | Filter, callback: Callable[[Notification], object]) -> Subscription:
        """Call a callback with each notification that is written from now on and matches."""
        return self._bus.subscribe(parse(f'{SPACE} = "{self.name}"') & self._filter(template), callback)

    def held(self, template: str | Filter = "true") -> list[Notification]:
        """All that is there and matches, the oldest first."""
        wanted = self._filter(template)
        with self._lock:
            self._end_leases()
            return [each for each in self._held.values() if wanted.matches(each)]

    def __len__(self) -> int:
        return len(self.held())

    def _wait(self, template: str | Filter, timeout: Patience, *, takes: bool) -> tuple[int, Notification]:
        seconds, wanted = seconds_of(timeout, "a timeout"), self._filter(template)
        with self._lock:
            found = self._first_of(wanted, takes=takes)
            if found is not None:
                return found
            waiting = _Waiting(wanted, takes)
            self._waiting.append(waiting)
        try:
            is_there = waiting.found.wait(seconds)
        except BaseException:
            self._give_up(waiting)
            raise
        if not is_there:
            with self._lock:
                if waiting in self._waiting:
                    self._waiting.remove(waiting)
                    raise TimeoutError(f"nothing that matches was written to the space {self.name!r} in time")
        assert waiting.entry is not None
        return waiting.entry

    def _give_up(self, waiting: _Waiting) -> None:
        """One that waits was interrupted: another one gets what came for it."""
        with self._lock:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            elif waiting.entry is not None and waiting.takes:
                self._offer(*waiting.entry)

    def _find(self, wanted: Filter, *, takes: bool) -> tuple[int, Notification] | None:
        with self._lock:
            return self._first_of(wanted, takes=takes)

    def _first_of(self, wanted: Filter, *, takes: bool) -> tuple[int, Notification] | None:
        self._end_leases()
        for number, notification in self._held.items():
            if wanted.matches(notification):
                if takes:
                    del self._held[number]
                return number, notification
        return None

    def _end_leases(self) -> None:
        if self._until:
            now = self._now()
            for number in [number for number, until in self._until.items() if until <= now]:
                del self._until[number]
                self._held.pop(number, None)

    def _join(self, transaction: Transaction | None, number: int, notification: Notification) -> None:
        if transaction is not None:
            try:
                transaction._took_from(Taken(self, number, notification))
            except BaseException:
                self._put_back(number, notification)
                raise

    def _filter(self, template: str | Filter) -> Filter:
        return self._bus._parsed(template)


class Spaces:
    """The spaces of one bus, by name."""

    def __init__(self, bus: Bus, now: Callable[[], int]) -> None:
        self._bus, self._now = bus, now
        self._by_name: dict[str, Space] = {}

    def of(self, name: str) -> Space:
        """The space of this name; it is made if there is none."""
        if not name or '"' in name:
            raise ValueRefused("a space has a name, without quotation marks")
        return self._by_name.setdefault(name, Space(self._bus, name, self._now))

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def enter(self, notification: Notification) -> None:
        """A notification has taken its place on the bus."""
        space = self._by_name.get(str(notification.get(SPACE)))
        if space is not None and isinstance(notification.get(SPACE), str):
            space._enter(notification)
