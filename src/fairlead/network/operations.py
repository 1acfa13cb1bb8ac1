"""Operations on a running broker: end connections, drain the broker, inspect durable subscribers.

A broker that is drained ends the connections of its clients, which go to another address where they have one, and
takes only clients that are called `operator`. Its links stay, so that neighbours get what is in its log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fairlead.errors import NotThere, ProtocolError, ValueRefused
from fairlead.filters.language import render
from fairlead.log.records import NOTIFICATIONS
from fairlead.model import Instant
from fairlead.network.client_sessions import ClientSession
from fairlead.network.destinations import Durable
from fairlead.network.dispatch import Dispatch
from fairlead.network.ledger import Ledger
from fairlead.network.reports import Backlog, DetectionStatus

__all__ = ["OPERATOR", "Operations"]

OPERATOR: Final = "operator"
DRAINED: Final = "this broker is being drained: connect to another one"


class Operations:
    """The operator's actions, by name."""

    def __init__(
        self,
        ledger: Ledger | None,
        dispatch: Dispatch,
        *,
        clients: Mapping[str, ClientSession],
        durables: Mapping[str, Durable],
    ) -> None:
        self._ledger, self._dispatch = ledger, dispatch
        self._clients, self._durables = clients, durables
        self.is_draining = False
        self.reload: Callable[[], None] = lambda: None
        """Read certificates, keys and the policy anew; FairleadError where they are wrong. The driver's to do."""
        self.trace: Callable[[str], None] = lambda sample: None
        """Begins a trace of a sample, or ends it where that is "off". The driver's to do."""
        self.detections: Callable[[], dict[str, DetectionStatus]] = dict
        """The detectors that this broker hosts. The driver's to say."""

    def check(self, name: str) -> None:
        """ProtocolError, if a client of this name is not taken in now."""
        if self.is_draining and name != OPERATOR:
            raise ProtocolError(DRAINED)

    def carry_out(self, requester: ClientSession, action: str, name: str) -> int:
        """Carry out an action; how many connections it ended. ValueRefused, if there is no such action."""
        act = self._ACTIONS.get(action)
        if act is None:
            raise ValueRefused(f"no action {action!r}; there are {', '.join(self._ACTIONS)}")
        return act(self, requester, name)

    def _end(self, requester: ClientSession, name: str) -> int:
        session = self._clients.get(name)
        if session is None:
            raise NotThere(f"no client {name!r} is connected")
        session.end("an operator has ended this connection", is_final=True)
        return 1

    def _drain(self, requester: ClientSession, name: str) -> int:
        self.is_draining = True
        ended = [each for each in self._clients.values() if each is not requester]
        for session in ended:
            session.end(DRAINED)
        return len(ended)

    def _reload(self, requester: ClientSession, name: str) -> int:
        self.reload()
        return 0

    def _trace(self, requester: ClientSession, name: str) -> int:
        self.trace(name)
        return 0

    def _resume(self, requester: ClientSession, name: str) -> int:
        self.is_draining = False
        return 0

    _ACTIONS: Final[dict[str, Callable[[Operations, ClientSession, str], int]]] = {
        "end": _end,
        "drain": _drain,
        "resume": _resume,
        "reload": _reload,
        "trace": _trace,
    }

    def backlogs(self) -> list[Backlog]:
        """The durable subscribers, the one with the oldest notification that waits for it first."""
        reached = self._dispatch.reached
        found = [
            Backlog(
                name=name,
                connected=durable.session is not None,
                behind=max(0, reached - durable.cursor(reached)),
                oldest=self._oldest(durable.cursor(reached)),
                filters=sorted(render(filter) for filter, _ in durable.subscriptions.values()),
            )
            for name, durable in self._durables.items()
            if not durable.ends
        ]
        return sorted(found, key=lambda each: (not each["oldest"], each["oldest"], each["name"]))

    def _oldest(self, cursor: int) -> str:
        """When the record at a cursor was written; nothing where there is none."""
        if self._ledger is None or cursor >= self._dispatch.reached:
            return ""
        first = max(cursor, self._ledger.log.first)
        with self._ledger.reader(first, *NOTIFICATIONS, synced=False) as reader:
            records = reader.read_chunk(1)
        return str(Instant(records[0].time)) if records else ""
