"""The spans of a broker: for each notification that names a trace, one from its admission to its sending on.

In between lies the sync of the log. What does not wait for that is sent on where it is admitted, and its span has
no length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from fairlead.model.packed import unpack
from fairlead.network import wire
from fairlead.telemetry import TRACEPARENT, TRACESTATE, parent_of

if TYPE_CHECKING:
    from fairlead.broker.publications import Entry
    from fairlead.network.router import Fanout
    from fairlead.telemetry import Spans

__all__ = ["RouteSpans"]

MARK: Final = TRACEPARENT.encode()
WAITING_MAX: Final = 100_000
"""The notifications that may wait for the log with their time of admission."""


class RouteSpans:
    """The spans of the notifications that a broker commits and sends on."""

    def __init__(self, broker: str, spans: Spans, clock: Callable[[], int]) -> None:
        self._broker, self._spans, self._clock = broker, spans, clock
        self._since: dict[bytes, int] = {}

    def taken(self, entries: Iterable[Entry[Fanout, bytes]], now: int) -> None:
        """These have been admitted, and may have to wait for the log."""
        for fanout, content, _ in entries:
            if fanout is not None and MARK in content and len(self._since) < WAITING_MAX:
                self._since[content] = now

    def refused(self, entries: Iterable[Entry[Fanout, bytes]]) -> None:
        """The log has no room for these."""
        for _, content, _ in entries:
            self._since.pop(content, None)

    def sent(self, fanout: Fanout, content: bytes, *, is_relayed: bool) -> None:
        """This goes on to where it is routed: a notification, or a relay as it came."""
        if MARK in content:
            since = self._since.pop(content, None)
            self._record(fanout, wire.parse_relay(content)[1] if is_relayed else content, since)

    def _record(self, fanout: Fanout, packed: bytes, since: int | None) -> None:
        notification = unpack(packed)
        parent = parent_of({name: notification.get(name, None) for name in (TRACEPARENT, TRACESTATE)})
        if parent is None:
            return
        attributes = {
            "messaging.message.id": notification.id or "",
            "fairlead.producer": notification.producer,
            "fairlead.broker": self._broker,
            "fairlead.neighbours": [each.name for each in fanout.links],
            "fairlead.clients": [each.target.client.removeprefix("c:") for each in fanout.recipients],
        }
        now = self._clock()
        since = now if since is None else min(since, now)
        self._spans.record(f"route {self._broker}", since, now, parent=parent, attributes=attributes)
