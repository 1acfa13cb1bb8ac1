"""Publications in the log of a bus are handed over again: to durable subscribers, and where history is asked for.

A record is routed when it is read, by the seam, as what is published is. History comes before what follows, once:
it ends where the log ended when the subscription was made, and what is published later waits behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from fairlead.bus.durable import Durable
from fairlead.bus.handing_over import HandingOver, Handover
from fairlead.bus.handles import Subscription
from fairlead.bus.history import DurableStatus, History
from fairlead.bus.receivers import Receiver
from fairlead.bus.registry import Registry
from fairlead.bus.retaining import Retaining
from fairlead.errors import SubscriptionRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import render
from fairlead.model import Notification
from fairlead.model.instants import Since, microseconds_of

__all__ = ["Beginning", "Replaying"]

CHUNK: Final = 256
"""The number of publications that are read under the bus's lock."""


class Beginning(NamedTuple):
    """The beginning of a subscription in the log."""

    offset: int
    is_cut: bool = False
    """Whether some of what it asked for may have left the log."""
    is_new: bool = False
    """Whether it is a durable subscriber that did not exist before."""


class Replaying:
    """The reading of one bus's log. `routed` are the ids of all subscriptions that a notification goes to."""

    def __init__(
        self,
        lock: threading.RLock,
        history: History,
        registry: Registry,
        handing_over: HandingOver,
        routed: Callable[[Notification], tuple[list[str], object]],
    ) -> None:
        self._lock, self._registry, self._handing_over = lock, registry, handing_over
        self._routed = routed
        self.history: Final = history
        self._receivers: dict[str, Durable] = {}

    # -- durable subscribers ---------------------------------------------------------------------------------

    def begin(self, name: str, filter: Filter, since: Since | None) -> Beginning:
        """The beginning of what a durable subscriber gets; it is declared, if it is new.

        SubscriptionRefused where it has another filter.
        """
        text = render(filter)
        known = self.history.durables.get(name)
        if known is None:
            begins = Beginning(self.history.end) if since is None else self.find(since)
            self.history.declare(name, text, begins.offset)
            return begins._replace(is_new=True)
        if known.filter != text:
            raise SubscriptionRefused(
                f"the durable subscriber {name!r} has the filter {known.filter}",
                hint=f"bus.forget({name!r}) ends it; then it can begin with another one",
            )
        return Beginning(self.history.cursor(name))

    def find(self, since: Since) -> Beginning:
        """The beginning of history at a time."""
        return Beginning(*self.history.find(microseconds_of(since)))

    def check_joining(self, receiver: Receiver | None, durable: str, since: Since | None) -> None:
        """SubscriptionRefused where a subscriber's name is taken by one of the other kind."""
        if receiver is None:
            return
        if isinstance(receiver, Durable) != bool(durable):
            raise SubscriptionRefused(
                "the subscriber is durable" if not durable else "a subscriber of this name is not durable",
                hint="use another name",
            )
        if since is not None and not durable:
            raise SubscriptionRefused(
                "a subscriber that has a subscription gets no history for another one",
                hint="use another subscriber's name",
            )

    def joined(self, receiver: Durable) -> None:
        """Somebody is there for a durable subscriber."""
        self._receivers[receiver.name] = receiver

    def statuses(self) -> list[DurableStatus]:
        """All durable subscribers, by name."""
        return [
            DurableStatus(name, record.filter, self.history.end - self._cursor(name), self.is_active(name))
            for name, record in sorted(self.history.durables.items())
        ]

    def is_active(self, name: str) -> bool:
        """Whether somebody is there for a durable subscriber."""
        return name in self._receivers and bool(self._receivers[name].active)

    def _cursor(self, name: str) -> int:
        self._pass_over(name)
        return self.history.cursor(name)

    def _pass_over(self, name: str) -> None:
        if self.is_active(name) and self._handing_over.is_idle:
            self._receivers[name].pass_over(self.history.end)

    # -- reading ---------------------------------------------------------------------------------------------

    def read_on(self, receiver: Durable) -> None:
        """Read what follows for a durable subscriber that is behind, as far as it has room."""
        with self._lock:
            end = self.history.end
            if not receiver.is_behind:
                return
            records, offset = self.history.read(receiver.offset, end, min(CHUNK, max(1, receiver.room)))
            for handover in self._handovers(records, lambda id: id in receiver.active):
                self._handing_over.read(handover)
            receiver.read_to(offset, end)

    def catch_up(self, subscription: Subscription, offset: int) -> Callable[[], None]:
        """Hand over what is in the log from an offset on, before all that follows: to be called by whoever hands
        over."""
        end = self.history.end

        def run() -> None:
            at, receiver = offset, subscription._receiver
            while at < end and subscription.active:
                with self._lock:
                    subscription.is_cut |= at < self.history.first
                    records, at = self.history.read(max(at, self.history.first), end, CHUNK)
                    handovers = self._handovers(records, lambda id: id == subscription.id)
                for each in handovers:
                    self._handing_over.read(each)
                if isinstance(receiver, Durable):
                    receiver.read_to(at, end)

        return run

    def _handovers(
        self, records: list[tuple[int, Notification]], concerns: Callable[[str], bool]
    ) -> list[Handover]:
        handovers: list[Handover] = []
        for offset, notification in records:
            ids = [id for id in self._routed(notification)[0] if concerns(id)]
            handovers += self._registry.handovers(notification, ids, offset=offset)
        return handovers

    # -- what leaves the log ---------------------------------------------------------------------------------

    def shorten(self, now: int, retaining: Retaining | None) -> None:
        """Let go of what is too old or too much."""
        for name in self._receivers:
            self._pass_over(name)
        self.history.shorten(now, [] if retaining is None else retaining.numbered())
