"""The handshake of two brokers: what they declare, and whether they may be neighbours.

A broker is refused that has another frame size, another routing, another schema or other extensions, the name but
not the log of a neighbour, or a log that is a copy: one which another one has taken the place of, or of a
neighbour that is connected and answers.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Final

from fairlead.broker import Broker
from fairlead.errors import ProtocolError
from fairlead.filters.registry import fingerprints
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
        self._broker = broker
        self._name, self._life, self._frame_bytes = broker.name, life, frame_bytes
        self._persistence, self._dispatch = persistence, dispatch
        self._routing = agreed(broker.settings, in_scopes=broker.seam.declares, channels=broker.seam.channels)
        schema = broker.catalogue.schema
        self._schema = "" if schema is None else schema.fingerprint
        self._refused: set[tuple[str, str]] = set()
        """Brokers that have been refused, each with what was wrong about it: that is logged once."""
        self.authorization = ""
        """The credentials that this broker shows to those it calls."""
        self.ending: set[str] = set()
        """The brokers with which a link has ended that would be there again after a power failure."""
        self.url = ""
        """The address at which this broker can be called."""

    def hello(self, neighbour: str) -> wire.Hello:
        """The declaration of this broker when it calls another; `neighbour` is the other's name, if it is
        known."""
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
            knows=neighbour in state.neighbours or neighbour in self.ending,
            frame_max=self._frame_bytes,
            routing=self._routing,
            lineage=self._persistence.lineage,
            others_lineage=list(known.lineage),
            end=self._dispatch.reached,
            acknowledged=self._persistence.acknowledged(neighbour),
            oldest=wire.OLDEST_BETWEEN_BROKERS,
            authorization=str(self.authorization),
            schema=self._schema,
            extensions=fingerprints(),
            parent=self._broker.parent or "",
        )

    def welcome(self, neighbour: str, hello: wire.Hello) -> wire.Welcome:
        """The response to a broker that has called."""
        state = self._persistence.state
        known = state.neighbours.get(neighbour, Neighbour())
        return wire.Welcome(
            wire.agreed_version(hello.version, hello.oldest, wire.OLDEST_BETWEEN_BROKERS),
            self._name,
            neighbour,
            self._life,
            self._persistence.log_name,
            known.log,
            known.safe,
            self._frame_bytes,
            knows=neighbour in state.neighbours or neighbour in self.ending,
            routing=self._routing,
            lineage=self._persistence.lineage,
            others_lineage=list(known.lineage),
            end=self._dispatch.reached,
            acknowledged=self._persistence.acknowledged(neighbour),
            schema=self._schema,
            extensions=fingerprints(),
            parent=self._broker.parent or "",
        )

    def welcome_client(self, name: str, hello: wire.Hello) -> wire.Welcome:
        """The response to a client that has called, with the client's name.

        Clients only compare logs and incarnations, and get digests of their names: whoever knows the names could
        pass for this broker while it is away.
        """
        return wire.Welcome(
            wire.agreed_version(hello.version, hello.oldest),
            self._name,
            name,
            log=_digest(self._persistence.log_name),
            frame_max=self._frame_bytes,
            lineage=[(_digest(id), first) for id, first in self._persistence.lineage],
            end=self._dispatch.reached,
            schema=self._schema,
        )

    def linked(self, name: str, url: str, said: wire.Hello | wire.Welcome) -> Linked:
        """The record of a neighbour for the ledger."""
        known = self._persistence.state.neighbours.get(name, Neighbour())
        superseded = judge(known.lineage, known.superseded, lineage_of(said.lineage)).superseded
        return Linked(name, url, said.log, 0, said.lineage, sorted(superseded))

    def check(
        self, name: str, said: wire.Hello | wire.Welcome, current: LinkSession | None, *, opened: bool
    ) -> None:
        """Check a broker that wants to be a neighbour. ProtocolError if it cannot be one, or is connected
        already.

        `current` is the connection that there is with it, which ends if this one takes its place. That of another
        process stays as long as it answers.
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
        if self._broker.redundancy is not None and bool(said.log) != self._persistence.is_logged:
            with_log, without = (name, self._name) if said.log else (self._name, name)
            problem = (
                f"{with_log} has a log and {without} has none: with several ways, all have one or none has"
            )
            raise self._refusal(name, problem, problem)
        if self._broker.is_above(name) != (said.parent == self._name):
            # One would send everything up, or filters, and the other would wait for them.
            below = f"{name} to be below it" if said.parent != self._name else f"no broker {name} below it"
            above = f"has {said.parent} above it" if said.parent else "has no broker above it"
            problem = f"{self._name} expects {below}, but {name} {above}: all brokers have one hierarchy"
            raise self._refusal(name, problem, problem)
        if problem := self._other_language(name, said):
            raise self._refusal(name, problem, problem)
        known = self._persistence.state.neighbours.get(name)
        if known is not None:
            self._check_log(name, known, said)
        if current is None:
            return
        both_called = current.life == said.life and current.opened != opened
        if both_called and opened != (self._name < name):
            raise ProtocolError("linked already")  # both keep the call of the one whose name is smaller
        if known is not None and known.log and current.life != said.life:
            # One process has a log open: either the connection has broken unnoticed, or this is a copy.
            current.challenge()
            raise self._refusal(
                name,
                said.life,
                f"another process of {name} is connected with {self._name}: as long as that one answers, a process"
                " with a copy of its log is refused",
            )
        current.end("another connection under the same name replaces this one")

    def check_client(self, hello: wire.Hello) -> None:
        """Check a client that reads filters with a schema of its own: it is this broker's, or ProtocolError."""
        if hello.schema and hello.schema != self._schema:
            raise ProtocolError(_other_schema(self._name, self._schema, "this client", hello.schema))

    def _other_language(self, name: str, said: wire.Hello | wire.Welcome) -> str:
        """The difference in how the two brokers read filters, in words; empty where there is none.

        What one reads and the other cannot would end their link; what they read differently would be lost.
        """
        if said.schema != self._schema:
            return _other_schema(self._name, self._schema, name, said.schema)
        own = fingerprints()
        for extension in sorted({*own, *said.extensions}):
            mine, theirs = own.get(extension), said.extensions.get(extension)
            if mine != theirs:
                lacking = self._name if mine is None else name if theirs is None else ""
                what = f"{lacking} has not loaded it" if lacking else "the two have different operators in it"
                return (
                    f"{self._name} and {name} differ in the extension {extension!r}: {what};"
                    " extensions are the same in all of a network"
                )
        return ""

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
        if judgement.has_gone_back:
            log.warning(
                "%s: the log of %s has gone back to an older copy: what is acknowledged from now on is delivered,"
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


def _other_schema(one: str, has: str, other: str, others: str) -> str:
    words = [f"the schema {each[:8]}" if each else "no schema" for each in (has, others)]
    return f"{one} has {words[0]}, but {other} {words[1]}: the schema is the same in all of a network"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32] if name else ""
