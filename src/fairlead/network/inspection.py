"""The status of a broker in figures, and its routing tables as text. Inspection changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from fairlead.broker import Broker
from fairlead.broker.progress import Progress
from fairlead.filters.language import render
from fairlead.network.backpressure import Backpressure
from fairlead.network.calling import Calling
from fairlead.network.client_sessions import ClientSession
from fairlead.network.copies import Copies
from fairlead.network.destinations import Durable, Link
from fairlead.network.dispatch import Dispatch
from fairlead.network.guard import Guard
from fairlead.network.handshakes import Handshakes
from fairlead.network.ledger import Ledger
from fairlead.network.memory import Memory
from fairlead.network.operations import Operations
from fairlead.network.reports import ChannelReport, LinkStatus, Status, Tables
from fairlead.network.sessions import Counters
from fairlead.routing import Entry

__all__ = ["Inspection"]

NAMED_MAX: Final = 100
"""The number of clients named that block others."""


class Inspection:
    """The reports of a broker about itself."""

    def __init__(
        self,
        broker: Broker,
        ledger: Ledger | None,
        counters: Counters,
        *,
        clients: Mapping[str, ClientSession],
        links: Mapping[str, Link],
        durables: Mapping[str, Durable],
        dispatch: Dispatch,
        progress: Progress,
        copies: Copies | None,
        backpressure: Backpressure,
        calling: Calling,
        handshakes: Handshakes,
        memory: Memory,
        operations: Operations,
        guard: Guard,
    ) -> None:
        self._broker, self._ledger, self._counters = broker, ledger, counters
        self._clients, self._links, self._durables = clients, links, durables
        self._dispatch, self._progress, self._backpressure = dispatch, progress, backpressure
        self._copies = copies
        self._calling, self._handshakes, self._memory = calling, handshakes, memory
        self._operations, self._guard = operations, guard

    def status(self) -> Status:
        """The status of the broker, in figures."""
        broker, counters, clients = self._broker, self._counters, self._clients
        ledger, dispatched = self._ledger, self._dispatch.reached
        log = None if ledger is None else ledger.log
        settings = broker.settings
        # A destination is not behind where only changes of cursors follow.
        reached = dispatched if ledger is None else min(dispatched, ledger.content)
        return {
            "broker": broker.name,
            "url": self._handshakes.url,
            "clients": len(clients),
            "queued": sum(len(session.backlog) for session in clients.values()),
            "queued_bytes": sum(session.held_bytes for session in clients.values()),
            "memory": {
                "budget": self._memory.budget,
                "used": self._memory.used,
                "peak": self._memory.peak,
                "ended": self._memory.ended,
            },
            "blocking": sorted(name for name, each in clients.items() if each.outflow.is_blocking)[
                :NAMED_MAX
            ],
            "blocked": self._backpressure.blocked,
            "outflow": Counter(str(session.outflow) for session in clients.values()),
            "inflow": Counter(str(session.inflow) for session in clients.values()),
            "subscriptions": sum(len(broker.clients[each].subscriptions.by_id) for each in broker.clients),
            "routing_entries": len(broker.subscriptions)
            if broker.redundancy is None
            else sum(1 for _ in broker.entries),
            "advertisements": broker.settings.advertisements is not None,
            "cyclic": broker.redundancy is not None,
            "hierarchical": bool(settings.parent or settings.children or settings.grows),
            "draining": self._operations.is_draining,
            "counters": {name: getattr(counters, name) for name in Counters.__slots__},
            "log": None
            if ledger is None or log is None
            else {
                "first": log.first,
                "end": log.end,
                "synced": log.synced,
                "bytes": log.size,
                "full": ledger.is_full,
            },
            "positions": self._progress.positions if self._copies is None else self._copies.positions,
            "links": {name: self._link(link, reached) for name, link in self._links.items()},
            "waiting": self._calling.waiting(),
            "durables": {
                name: {
                    "connected": durable.session is not None,
                    "outflow": str(durable.outflow),
                    "behind": max(0, reached - durable.cursor(dispatched)),
                    "in_flight": len(durable.unconfirmed),
                }
                for name, durable in self._durables.items()
                if not durable.ends
            },
            "detections": self._operations.detections(),
            "security": self._guard.status(),
        }

    def _link(self, link: Link, reached: int) -> LinkStatus:
        status: LinkStatus = {
            "connected": link.session is not None,
            "ready": link.ready,
            "full": link.outflow.is_blocking,
            "inflow": "" if link.session is None else str(link.session.inflow),
            "outflow": str(link.outflow),
            "behind": max(0, reached - link.cursor(self._dispatch.reached)),
            "in_flight": len(link.unconfirmed),
            "url": self._calling.url_of(link.name),
        }
        if not link.ready and (absence := self._calling.of_link(link.name)) is not None:
            status["reason"], status["since"] = absence["reason"], absence["since"]
        return status

    def channels(self) -> list[ChannelReport]:
        """The channels, the first that matches a notification being its own."""
        return self._broker.seam.channels.to_json()  # type: ignore[return-value]  # as a file has them

    def tables(self) -> Tables:
        """The routing tables, as text."""
        tables: list[Iterable[Entry]] = [self._broker.entries, self._broker.advertisements]
        subscriptions, advertisements = (
            [[render(interest.filter), destination] for interest, destination in table] for table in tables
        )
        return {
            "broker": self._broker.name,
            "neighbours": sorted(self._links),
            "subscriptions": subscriptions,
            "advertisements": advertisements,
        }
