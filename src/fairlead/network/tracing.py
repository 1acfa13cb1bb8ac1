"""The trace of one broker: what happens at its interface, for `fairlead audit`, which puts those of all together.

    publications    of its own clients, when they are synced, and before they are sent on; those in no log are
    left out subscriptions   of its clients; a durable one is ready when a barrier has been passed deliveries
    to its clients, of what is in the log barriers        those that begin or come by: what was logged here
    before one is not owed to who it is for

The lines of an event are with the operating system before any frame that follows from it: a broker that is
killed has traced what it has sent. A run begins with all that is in the log, so that every delivery has its
publication. What is handed out again, because its client is back, is delivered again: a fault `again` stands
between.

With a sample below 1, so large a part of all identities is traced, the same at every broker.

Best-effort subscriptions may lose, and an access policy may narrow any: those are never ready, so that only
what they must not be delivered is judged. `fairlead.audit.merging` has the other half.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from fairlead.audit import (
    Event,
    Faulted,
    Notified,
    Published,
    Ready,
    Subscribed,
    TopologyChanged,
    Unsubscribed,
)
from fairlead.audit.merging import ACKNOWLEDGED, AGAIN, BARRIER, BEGUN, BROKER
from fairlead.audit.recorder import Recorder
from fairlead.errors import ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.schema import Schema
from fairlead.model.order import Identity, OrderKey
from fairlead.model.packed import identity_in, unpack

__all__ = ["DIRECTORY", "SWITCH", "Tracer", "Tracing", "run_after", "sample_of"]

DIRECTORY: Final = "traces"
"""The directory of a broker's traces, beside its log."""
SWITCH: Final = "on"
"""The file there that says, over restarts, that the broker traces, and which sample."""
SCALE: Final = 1 << 32


class Tracer:
    """One run of a broker, from the moment at which it begins to trace. A component is named after its broker."""

    def __init__(
        self,
        broker: str,
        run: int,
        target: Path | Callable[[Event], object],
        *,
        sample: float = 1.0,
        schema: Schema | None = None,
    ) -> None:
        self._broker, self._most = broker, round(sample * SCALE)
        self._recorder = Recorder(target, schema)
        self._active: dict[str, set[str]] = {}
        self._record(TopologyChanged(BROKER, {"broker": broker, "run": run, "sample": sample}))

    def begin(self, log: Iterable[bytes]) -> None:
        """Trace what is in the log already."""
        for packed in log:
            self.published(packed)
        self._record(TopologyChanged(BEGUN, {"broker": self._broker}))

    def published(self, packed: bytes) -> None:
        """Trace that a client has published this here, and that it is synced."""
        if self._is_chosen(packed):
            notification = unpack(packed)
            self._record(Published(notification, OrderKey.of(notification)))

    def notified(self, client: str, packed: bytes, subscriptions: Iterable[str]) -> None:
        """Trace that this is handed to a client."""
        if self._is_chosen(packed):
            ids = tuple(sorted(subscriptions))
            self._record(Notified(self._component(client), Identity(*identity_in(packed)), ids))

    def subscribed(self, client: str, id: str, filter: Filter) -> None:
        """Trace that a client has a subscription, which has not taken effect everywhere."""
        active = self._active.setdefault(client, set())
        if id not in active:
            active.add(id)
            self._record(Subscribed(self._component(client), id, filter, ready=False))

    def unsubscribed(self, client: str, id: str = "") -> None:
        """Trace that a subscription of a client has ended; without an id, all of them."""
        active = self._active.get(client, set())
        for each in sorted(active & {id} if id else active):
            active.discard(each)
            self._record(Unsubscribed(self._component(client), each))

    def again(self, client: str) -> None:
        """Trace that a client may be handed again what it has not accepted."""
        self._record(Faulted(AGAIN, {"component": self._component(client)}))

    def barrier(self, origin: str, number: int) -> None:
        """Trace that all that was logged here before is before this barrier."""
        self._record(TopologyChanged(BARRIER, {"barrier": [origin, number]}))

    def acknowledged(self, origin: str, number: int, ready: Iterable[tuple[str, str]]) -> None:
        """Trace that a barrier which began here has been passed, so that these subscriptions have taken effect."""
        self._record(TopologyChanged(ACKNOWLEDGED, {"barrier": [origin, number]}))
        for client, id in ready:
            if id in self._active.get(client, ()):
                self._record(Ready(self._component(client), id))

    def flush(self) -> None:
        """Hand all to the operating system."""
        self._recorder.flush()

    def end(self) -> None:
        """Trace nothing more: the subscriptions are judged no longer."""
        for client in sorted(self._active):
            self.unsubscribed(client)
        self._recorder.stop()

    def stop(self) -> None:
        """The broker stops; the next run goes on."""
        self._recorder.stop()

    def _component(self, client: str) -> str:
        return f"{self._broker}/{client}"

    def _is_chosen(self, packed: bytes) -> bool:
        if self._most >= SCALE:
            return True
        producer, id = identity_in(packed)
        return zlib.crc32(f"{producer}/{id}".encode()) < self._most

    def _record(self, event: Event) -> None:
        self._recorder.record(event)


class Tracing:
    """Whether a broker traces: its tracer, if it does. All that has something to trace looks here."""

    __slots__ = ("tracer",)

    def __init__(self) -> None:
        self.tracer: Tracer | None = None


def sample_of(text: str) -> float:
    """The sample that an operator asks for; ValueRefused where it is no part of all."""
    try:
        sample = float(text or 1)
    except ValueError:
        sample = 0.0
    if not 0 < sample <= 1:
        raise ValueRefused(f"a sample is more than 0 and at most 1, not {text!r}", hint="0.01")
    return sample


def run_after(directory: Path) -> tuple[int, Path]:
    """The number of the next run that is traced in a directory, and its file."""
    runs = [int(each.stem) for each in directory.glob("*.jsonl") if each.stem.isdecimal()]
    run = max(runs, default=0) + 1
    return run, directory / f"{run:06d}.jsonl"
