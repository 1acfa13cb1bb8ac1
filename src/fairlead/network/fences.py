"""A fence is answered when every broker that had to be asked has made safe what came before it.

It travels as a wave over all links, away from where it began, and the answers come back the same way. A patient
fence waits for neighbours that are away; another one is content with those who are there. A subscription and an
advertisement are acknowledged by a fence.

A probe travels in the same way, and waits for whoever is away, but asks for nothing to be safe: it looks for the
way back. It goes over new links as well, so that of two links that close a circle together one is found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fairlead.network import wire
from fairlead.network.destinations import Link
from fairlead.network.dispatch import Dispatch
from fairlead.network.sessions import ClientSession, LinkSession

__all__ = ["FenceKey", "Fences", "broker_in"]

FenceKey: TypeAlias = tuple[str, int]
"""Where a fence began, in which life of that broker, and its number there."""


@dataclass(slots=True)
class Wave:
    """A fence on its way: who has not answered, and what happens when all have."""

    message: wire.Fence | wire.Probe
    asked_by: str
    waiting: set[str]
    done: Callable[[], None]

    @property
    def key(self) -> FenceKey:
        return self.message.origin, self.message.number

    @property
    def patient(self) -> bool:
        return isinstance(self.message, wire.Probe) or self.message.patient


class Fences:
    """The fences that one broker has begun or passes on. `origin` names the broker and its life."""

    def __init__(self, origin: str, links: Mapping[str, Link], dispatch: Dispatch) -> None:
        self.origin = origin
        self._links, self._dispatch = links, dispatch
        self.new: dict[str, LinkSession] = {}
        """The connections of new links, over which nothing but probes goes; the earliest first."""
        self._waves: dict[FenceKey, Wave] = {}
        self._begun = 0

    def next_key(self) -> FenceKey:
        """The name of one more fence that begins here."""
        self._begun += 1
        return self.origin, self._begun

    def answer(
        self, session: ClientSession, number: int, *, patient: bool, then: Callable[[], None] = lambda: None
    ) -> None:
        """Answer a client when all brokers that have to know have made it safe, and do what is to be done then."""

        def done() -> None:
            then()
            if not session.ended:
                session.tell(wire.Done(number))

        self.begin(wire.Fence(*self.next_key(), patient), "", done)

    def begin(self, fence: wire.Fence, asked_by: str, done: Callable[[], None]) -> None:
        """Ask all neighbours, but not the one that asks, as soon as all is safe here."""

        def begin() -> None:
            ahead = {name for name, link in self._links.items() if fence.patient or link.ready}
            self._begin(Wave(fence, asked_by, ahead - {asked_by}, done))

        self._dispatch.after_sync(begin)

    def probe(self, probe: wire.Probe, asked_by: str, ahead: set[str], done: Callable[[], None]) -> None:
        """Ask these whether there is a way back to where the probe began."""
        # A broker that calls another one once more has given up what it asked before.
        link = (broker_in(probe.origin), probe.called)
        for wave in list(self._waves.values()):
            old = wave.message
            if isinstance(old, wire.Probe) and (broker_in(old.origin), old.called) == link:
                del self._waves[wave.key]
        self._begin(Wave(probe, asked_by, ahead, done))

    def meets(self, probe: wire.Probe, asked_by: str) -> bool:
        """Whether this probe is here already, by another way: then there is a circle without the new link."""
        wave = self._waves.get((probe.origin, probe.number))
        return wave is not None and wave.asked_by != asked_by

    def _begin(self, wave: Wave) -> None:
        self._waves[wave.key] = wave
        for name in list(wave.waiting):
            self._pass(wave, name)
        self._finish(wave)

    def forget(self, key: FenceKey) -> None:
        """Nobody waits for its answer any longer."""
        self._waves.pop(key, None)

    def answered(self, key: FenceKey, name: str) -> None:
        """A neighbour has answered."""
        if key in self._waves:
            self._strike(self._waves[key], name)

    def ready(self, name: str) -> None:
        """A neighbour is back: it is asked for all that it has not answered."""
        for wave in list(self._waves.values()):
            if name in wave.waiting:
                self._pass(wave, name)

    def lost(self, name: str) -> None:
        """A neighbour is away, and only the patient wait for it."""
        for wave in list(self._waves.values()):
            if not wave.patient:
                self._strike(wave, name)

    def gone(self, name: str) -> None:
        """It is no neighbour any more: nobody waits for it."""
        for wave in list(self._waves.values()):
            self._strike(wave, name)

    def away(self, probe: wire.Probe) -> list[str]:
        """The neighbours that a probe waits for because they are away."""
        wave = self._waves.get((probe.origin, probe.number))
        return [] if wave is None else sorted(each for each in wave.waiting if not self._session(wave, each))

    def away_for(self, caller: str, called: str) -> list[str]:
        """The same, of the probe for a new link that one broker has made with another."""
        probes = (wave.message for wave in self._waves.values() if isinstance(wave.message, wire.Probe))
        found = [each for each in probes if (broker_in(each.origin), each.called) == (caller, called)]
        return [name for each in found for name in self.away(each)]

    def _session(self, wave: Wave, name: str) -> LinkSession | None:
        if isinstance(wave.message, wire.Probe) and name in self.new:
            return self.new[name]
        link = self._links.get(name)
        return link.session if link is not None and link.ready else None

    def _pass(self, wave: Wave, name: str) -> None:
        session = self._session(wave, name)
        if session is not None:
            session.tell(wave.message)

    def _strike(self, wave: Wave, name: str) -> None:
        wave.waiting.discard(name)
        self._finish(wave)

    def _finish(self, wave: Wave) -> None:
        if not wave.waiting and self._waves.pop(wave.key, None) is not None:
            wave.done()


def broker_in(origin: str) -> str:
    """The broker where a fence began."""
    return origin.rpartition("/")[0]
