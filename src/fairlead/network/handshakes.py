"""What two brokers declare when they connect, and whether they may be neighbours.

A broker is refused that has another frame size, another routing, the name but not the log of a neighbour, or a log
that is a copy which another one has taken the place of.
"""

from __future__ import annotations

import logging
from typing import Final

from fairlead.broker import Broker
from fairlead.errors import ProtocolError
from fairlead.network import wire
from fairlead.network.dispatch import Dispatch
from fairlead.network.incarnations import judge, lineage_of
from fairlead.network.ledger import Linked, Neighbour
from fairlead.network.link_sessions import LinkSession
from fairlead.network.persistence import Persistence
from fairlead.network.settings import agreed

__all__ = ["Handshakes"]

log: Final = logging.getLogger(__name__)


class Handshakes:
    """The handshakes of one broker, in one of its lives."""

    def __init__(
        self, broker: Broker, life: str, frame_bytes: int, persistence: Persistence, dispatch: Dispatch
    ) -> None:
        self._name, self._life, self._frame_bytes = broker.name, life, frame_bytes
        self._persistence, self._dispatch = persistence, dispatch
        self._routing = agreed(broker.settings)
        self._refused: set[tuple[str, str]] = set()
        """Brokers that have been refused, each with what was wrong about it: that is logged once."""
        self.url = ""
        """Where this broker can be called."""

    def hello(self, neighbour: str) -> wire.Hello:
        """What this side declares when it calls a broker; `neighbour` is its name, if that is known."""
        state = self._persistence.state
        known = state.neighbours.get(neighbour, Neighbour())
        return wire.Hello(
            wire.VERSION,
            "broker",
            self._name,
            life=self._life,
            log=self._persistence.log_name,
            others_log=known.log,
            received=known.safe,
            url=self.url,
            knows=neighbour in state.neighbours,
            frame_max=self._frame_bytes,
            routing=self._routing,
            lineage=self._persistence.lineage,
            others_lineage=list(known.lineage),
            end=self._dispatch.reached,
        )

    def welcome(self, neighbour: str) -> wire.Welcome:
        """What this side answers a broker that has called."""
        state = self._persistence.state
        known = state.neighbours.get(neighbour, Neighbour())
        return wire.Welcome(
            wire.VERSION,
            self._name,
            neighbour,
            self._life,
            self._persistence.log_name,
            known.log,
            known.safe,
            self._frame_bytes,
            knows=neighbour in state.neighbours,
            routing=self._routing,
            lineage=self._persistence.lineage,
            others_lineage=list(known.lineage),
            end=self._dispatch.reached,
        )

    def welcome_client(self, name: str) -> wire.Welcome:
        """What this side answers a client that has called, and gets this name."""
        return wire.Welcome(
            wire.VERSION,
            self._name,
            name,
            log=self._persistence.log_name,
            frame_max=self._frame_bytes,
            lineage=self._persistence.lineage,
            end=self._dispatch.reached,
        )

    def linked(self, name: str, url: str, said: wire.Hello | wire.Welcome) -> Linked:
        """What is remembered of a neighbour from now on."""
        known = self._persistence.state.neighbours.get(name, Neighbour())
        superseded = judge(known.lineage, known.superseded, lineage_of(said.lineage)).superseded
        return Linked(name, url, said.log, 0, said.lineage, sorted(superseded))

    def check(
        self, name: str, said: wire.Hello | wire.Welcome, current: LinkSession | None, *, opened: bool
    ) -> None:
        """ProtocolError says why this broker cannot be a neighbour, or needs no second connection.

        `current` is the connection that there is with it, which ends if this one takes its place.
        """
        if name == self._name or not name:
            raise ProtocolError(f"a broker cannot be linked to {name!r}: that is its own name")
        if said.frame_max != self._frame_bytes:
            # What one takes and the other does not would be acknowledged, and lost between them.
            raise self._refusal(
                name,
                f"{said.frame_max}",
                f"{self._name} takes frames of up to {self._frame_bytes:,} bytes, but {name} of up to"
                f" {said.frame_max:,}: frame_bytes is the same in all of a network",
            )
        if said.routing and said.routing != self._routing:
            raise self._refusal(
                name, said.routing, f"{self._name} routes by {self._routing}, but {name} by {said.routing}"
            )
        known = self._persistence.state.neighbours.get(name)
        if known is not None:
            self._check_log(name, known, said)
        if current is None:
            return
        both_called = current.life == said.life and current.opened != opened
        if both_called and opened != (self._name < name):
            raise ProtocolError("linked already")  # both keep the call of the one whose name is smaller
        current.end("another connection takes the place of this one")

    def _check_log(self, name: str, known: Neighbour, said: wire.Hello | wire.Welcome) -> None:
        """ProtocolError where a neighbour has another log, or a copy that must not be used."""
        if known.log and known.log != said.log:
            raise self._refusal(
                name,
                said.log,
                f"this broker {name!r} is not the one that {self._name!r} is linked with: it has another log;"
                f" names are unique, and if {name!r} has lost its log, unlink it first",
            )
        judgement = judge(known.lineage, known.superseded, lineage_of(said.lineage))
        if judgement.refusal:
            raise self._refusal(
                name, said.lineage[-1][0], f"{self._name} does not take {name}: {judgement.refusal}"
            )
        if judgement.has_gone_back or said.end < known.received:
            log.warning(
                "%s: the log of %s has gone back, to an older copy: what is acknowledged from now on is delivered,"
                " what it had acknowledged since that copy was made may be lost",
                self._name,
                name,
            )

    def _refusal(self, name: str, wrong: str, reason: str) -> ProtocolError:
        """The error, which is logged the first time."""
        if (name, wrong) not in self._refused:
            self._refused.add((name, wrong))
            log.warning("%s refuses %s: %s", self._name, name, reason)
        return ProtocolError(reason)
