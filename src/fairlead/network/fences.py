"""A fence is answered when every broker that had to be asked has made safe what came before it.

It travels as a wave over all links, away from where it began, and the answers come back the same way. A patient
fence waits for neighbours that are away; another one is content with those who are there. A subscription and an
advertisement are acknowledged by a fence, and a new link that would close a circle is found by one: it comes back
to where it began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fairlead.network import wire
from fairlead.network.dispatch import Dispatch
from fairlead.network.sessions import ClientSession, Link

__all__ = ["FenceKey", "Fences"]

FenceKey: TypeAlias = tuple[str, int]
"""Where a fence began, in which life of that broker, and its number there."""


@dataclass(slots=True)
class Wave:
    """A fence on its way: who has not answered, and what happens when all have."""

    key: FenceKey
    patient: bool
    waiting: set[str]
    done: Callable[[], None]


class Fences:
    """The fences that one broker has begun or passes on. `origin` names the broker and its life."""

    def __init__(self, origin: str, links: Mapping[str, Link], dispatch: Dispatch) -> None:
        self.origin = origin
        self._links, self._dispatch = links, dispatch
        self._waves: dict[FenceKey, Wave] = {}
        self._begun = 0

    def next_key(self) -> FenceKey:
        """The name of one more fence that begins here."""
        self._begun += 1
        return self.origin, self._begun

    def answer(self, session: ClientSession, number: int, *, patient: bool) -> None:
        """Answer a client when all brokers that have to know have made it safe."""

        def done() -> None:
            if not session.ended:
                session.tell(wire.Done(number))

        self.begin(self.next_key(), "", done, patient=patient)

    def begin(self, key: FenceKey, asked_by: str, done: Callable[[], None], *, patient: bool) -> None:
        """Ask all neighbours, but not the one that asks, as soon as all is safe here."""

        def begin() -> None:
            waiting = {
                name for name, link in self._links.items() if name != asked_by and (patient or link.ready)
            }
            wave = self._waves[key] = Wave(key, patient, waiting, done)
            for name in waiting:
                self._pass(wave, name)
            self._finish(wave)

        self._dispatch.after_sync(begin)

    def probe(self, key: FenceKey, link: Link, done: Callable[[], None]) -> None:
        """Ask one neighbour, at once, though its link is not ready."""
        assert link.session is not None
        self._waves[key] = Wave(key, False, {link.name}, done)
        link.session.tell(wire.Fence(*key, False))

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

    def _pass(self, wave: Wave, name: str) -> None:
        link = self._links[name]
        if link.session is not None and link.ready:
            link.session.tell(wire.Fence(*wave.key, wave.patient))

    def _strike(self, wave: Wave, name: str) -> None:
        wave.waiting.discard(name)
        self._finish(wave)

    def _finish(self, wave: Wave) -> None:
        if not wave.waiting and self._waves.pop(wave.key, None) is not None:
            wave.done()
