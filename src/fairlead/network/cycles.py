"""A new link that would close a cycle is detected, and ended: a probe over it must not come back.

The broker that called sends the probe, and opens the link when all brokers behind the new neighbour have answered.
The probe waits for all brokers that are away: they remember their links, too. It waits as well where it finds a
cycle of other links, until one of those has ended: a new link in it ends by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from fairlead.errors import FairleadError
from fairlead.network import wire
from fairlead.network.barriers import Barriers, broker_in
from fairlead.network.destinations import Link
from fairlead.network.dispatch import Dispatch
from fairlead.network.link_sessions import LinkSession
from fairlead.network.newcomers import Newcomer, Newcomers

__all__ = ["Cycles"]

log: Final = logging.getLogger(__name__)


class Cycles:
    """Probes of one broker. `open` opens a new link that closes no cycle, `give_up` ends one that does."""

    def __init__(
        self,
        broker: str,
        *,
        links: Mapping[str, Link],
        sessions: Mapping[str, LinkSession],
        newcomers: Newcomers,
        barriers: Barriers,
        dispatch: Dispatch,
        remember: Callable[[Newcomer, int], object],
        open: Callable[[Newcomer, int], None],
        give_up: Callable[[Newcomer, str, int], None],
        is_redundant: bool = False,
    ) -> None:
        self._is_redundant = is_redundant
        """Whether a link that closes a cycle is one more way."""
        self._broker, self._links, self._sessions = broker, links, sessions
        self._newcomers, self._barriers, self._dispatch = newcomers, barriers, dispatch
        self._remember, self._open, self._give_up = remember, open, give_up

    def probe(self, newcomer: Newcomer, now: int) -> None:
        """Search for a path back from a new neighbour; there can be none where this broker has no other one."""
        called = newcomer.session.name

        def done() -> None:
            if self._newcomers.get(called) is not newcomer:
                return
            try:
                self._remember(newcomer, now)
            except FairleadError as error:
                newcomer.session.end(str(error))
            else:
                # The caller knows where to call again: so it is the first that must not forget the link.
                self._dispatch.after_sync(proceed)

        def proceed() -> None:
            if self._newcomers.get(called) is newcomer:
                self._open(newcomer, now)

        if self._is_redundant or not {*self._links, *self._newcomers.sessions} - {called}:
            done()
            return
        log.info("%s: is there another path to %s?", self._broker, called)
        newcomer.probe = self._barriers.next_key()
        self._barriers.probe(wire.Probe(*newcomer.probe, called), "", {called}, done)

    def probed(self, session: LinkSession, probe: wire.Probe, now: int) -> None:
        """A probe has come from a neighbour."""
        name, barriers = session.name, self._barriers
        answer = wire.Passed(probe.origin, probe.number)
        if broker_in(probe.origin) == self._broker:
            if probe.origin == barriers.origin:
                self._end_one(probe, name, now)
            session.tell(answer)
            return
        if barriers.has_come_otherwise(probe, name):
            log.warning(
                "%s: the probe for the new link from %s to %s has come from several neighbours, now from %s:"
                " there is a cycle without that link",
                *(self._broker, broker_in(probe.origin), probe.called, name),
            )

        def done() -> None:
            # If the connection has been lost since, the probe comes again over the next one.
            current = self._sessions.get(name)
            if current is not None:
                current.tell(answer)

        barriers.probe(probe, name, {*self._links, *self._newcomers.sessions} - {name}, done)
        if away := barriers.away(probe):
            log.warning(
                "the new link from %s to %s waits for %s, over which it might close a cycle; if they do "
                "not come back, unlink them at %s",
                broker_in(probe.origin),
                probe.called,
                ", ".join(away),
                self._broker,
            )

    def _end_one(self, probe: wire.Probe, source: str, now: int) -> None:
        """A probe has come back: the link it was sent over ends, or the one it came over, if that is newer."""
        newcomer = self._newcomers.get(probe.called)
        if newcomer is None or newcomer.probe != (probe.origin, probe.number) or source == probe.called:
            return
        order = [each.session.name for each in self._newcomers if each.session.opened]
        if source in order and order.index(source) > order.index(probe.called):
            return  # that one's probe comes back as well
        log.error(
            "the link from %s to %s would close a cycle over %s, and is ended",
            self._broker,
            probe.called,
            source,
        )
        self._give_up(newcomer, f"the link would close a cycle over {source}", now)
