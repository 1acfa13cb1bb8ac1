"""A barrier is passed when every broker that it reaches has synced all records before it.

It travels as a wave over all links, away from its origin, and the answers return along the same links. A patient
barrier waits for neighbours that are away; any other waits for connected neighbours alone. Brokers acknowledge a
subscription or an advertisement when its barrier has been passed.

In a redundant network a wave comes to a broker by several ways. It goes on from there once, over the links
that there are, and the answers name the brokers that it has reached. A patient barrier is passed when it has
reached all brokers that may be there; until then its origin begins it again from time to time.

Where producers are quenched, a barrier wakes those that somebody listens to now, before it goes on (`quenching`).

A probe travels in the same way, and is always patient, but waits for no sync: it searches for a path back to its
origin. It goes over new links as well, so that of two links that close a cycle together one is detected.

Links come and go while a wave travels, so it may reach a broker along two paths in any network. Each path is
answered, when all neighbours but the one it came from have answered: whoever answered one of them at once would
answer for brokers that only the other one waits for, and that one may end with its link.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from fairlead.broker.redundancy import Redundancy
from fairlead.network import wire
from fairlead.network.client_sessions import ClientSession
from fairlead.network.destinations import Link
from fairlead.network.dispatch import Dispatch
from fairlead.network.link_sessions import LinkSession
from fairlead.network.messages import Barrier
from fairlead.network.tracing import Tracing

__all__ = ["NO_LOG", "BarrierKey", "Barriers", "Recalling", "broker_in"]

NO_LOG: Final = -1
"""The answer of a broker without a log, instead of the log's end."""

COME_MAX: Final = 10_000
"""So many barriers are known, so that one that comes by another way is passed on once."""
BarrierKey: TypeAlias = tuple[str, int]
"""The origin of a barrier, a broker and its life, and the barrier's number there."""


class Recalling(Protocol):
    """Notifications that were published before: a client waits for some of them, besides the barrier."""

    ends: dict[str, int] | None
    """The brokers that have passed it are noted here, if they are."""

    def barrier(self, key: BarrierKey) -> wire.Barrier:
        """The barrier with this key, which gathers them."""
        ...

    def gathered(self, then: Callable[[], None]) -> None:
        """The barrier has been passed: hand them out, then do this."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """A neighbour that a barrier or a probe came from: what happens when all others have answered."""

    done: Callable[[], None]
    ends: dict[str, int] | None = None
    """Of a barrier that asks for them: the ends of the logs of all brokers that have answered, and of this one."""
    held: list[Any] | None = None
    """Of one that seeks something: what all these brokers have of it (`answers`)."""


@dataclass(slots=True)
class Wave:
    """A barrier or a probe in flight: which neighbours have not answered, and who waits for them."""

    message: wire.Barrier | wire.Probe
    patient: bool = True
    reached: set[str] = field(default_factory=set)
    """In a redundant network: the brokers that are known to have passed it."""
    called: str = ""
    """Of a probe: the broker at the other end of the new link; empty for a barrier."""
    sources: dict[str, Source] = field(default_factory=dict)
    """The neighbours that it came from and that are not answered; an empty name where it began here."""
    passed: set[str] = field(default_factory=set)
    """The neighbours that it goes to."""
    waiting: set[str] = field(default_factory=set)
    """The neighbours among those that have not answered."""

    @property
    def key(self) -> BarrierKey:
        return self.message.origin, self.message.number

    @property
    def new_link(self) -> tuple[str, str]:
        """Of a probe: between which brokers the new link is."""
        return broker_in(self.message.origin), self.called


class Barriers:
    """The barriers and probes that one broker has begun or passes on. `origin` names the broker and its life."""

    def __init__(
        self,
        origin: str,
        links: Mapping[str, Link],
        dispatch: Dispatch,
        tracing: Tracing,
        *,
        is_logged: bool,
        redundancy: Redundancy | None = None,
    ) -> None:
        self.origin, self._is_logged, self._tracing = origin, is_logged, tracing
        self._redundancy = redundancy
        self._come: OrderedDict[BarrierKey, None] = OrderedDict()
        """In a redundant network, the barriers that have come, the latest ones."""
        self._unreached: list[Callable[[], None]] = []
        """The requests that wait until a barrier that begins here has reached all brokers."""
        self.recalled: Callable[[wire.Barrier, str], bool] = lambda barrier, source: False
        """Called with a barrier that recalls retained values, and where it came from, when all before it is
        synced; whether it is to wait until this broker itself has answered."""
        self.disclosed: Callable[[wire.Barrier, str], wire.Barrier] = lambda barrier, neighbour: barrier
        """The part of a barrier for retained values that a neighbour is told. Theirs to say."""
        self.questioned: Callable[[wire.Barrier, str], bool] = lambda barrier, source: False
        self.narrowed_past: Callable[[wire.Barrier, str], wire.Barrier] = lambda barrier, neighbour: barrier
        """The same two for a barrier that asks what was published before."""
        self._unheard: set[BarrierKey] = set()
        """Those that recall retained values, and that some broker has not answered."""
        self._passed: BarrierKey = (origin, 0)
        """In a redundant network, the barrier that has reached all brokers last."""
        self._links, self._dispatch = links, dispatch
        self.new: dict[str, LinkSession] = {}
        """The connections of new links, over which nothing but probes goes; the earliest first."""
        self.known: Callable[[Iterable[tuple[str, str]]], Iterable[tuple[str, str]]] = lambda unsure: ()
        """Those of these identities that were published here. Theirs to say who follow producers."""
        self.expel: Callable[[str, int], None] = lambda client, connection: None
        """End the connection of a client that has gone to another broker. Theirs to do who follow producers."""
        self.hold: Callable[[Mapping[str, int], Callable[[], None]], None] = lambda upto, go: go()
        """Go on when all up to some positions has come. Theirs, too."""
        self.holdings: Callable[[wire.Barrier], list[wire.HoldingText]] = lambda barrier: []
        """The places of a durable subscriber here that a barrier seeks. The handover's to say."""
        self.wake: Callable[[Callable[[], None]], None] = lambda go: go()
        """Go on when the quenched sources of this broker are awake that somebody listens to. Theirs to do."""
        self._waves: dict[BarrierKey, Wave] = {}
        self._begun = 0

    def next_key(self) -> BarrierKey:
        """The key of the next barrier that begins here."""
        self._begun += 1
        return self.origin, self._begun

    def answer(
        self,
        session: ClientSession,
        number: int,
        *,
        patient: bool,
        then: Callable[[], None] = lambda: None,
        ready: Sequence[tuple[str, str]] = (),
        recall: Recalling | None = None,
    ) -> None:
        """Answer a client when a barrier that begins now has been passed, after doing `then`.

        `ready` are the subscriptions, by client and id, that a trace calls ready then. What is recalled is
        gathered first.
        """
        key = self.next_key()
        barrier = wire.Barrier(*key, patient) if recall is None else recall.barrier(key)

        def done() -> None:
            then()
            if self._tracing.tracer is not None:
                passed = key if self._redundancy is None else self._passed
                self._tracing.tracer.acknowledged(*passed, ready)
            if not session.ended:
                session.tell(wire.Done(number))

        if recall is None:
            self.begin(barrier, "", done)
        else:
            self.begin(barrier, "", lambda: recall.gathered(done), recall.ends)

    def begin(
        self,
        barrier: wire.Barrier,
        source: str,
        done: Callable[[], None],
        ends: dict[str, int] | None = None,
        held: list[Any] | None = None,
    ) -> None:
        """Pass a barrier on to all neighbours but its source, when all records before it are synced here.

        `ends` then gets the end of this broker's log, and those that others answer, and `held` what they
        have of what is sought; not in a redundant network.
        """
        redundancy = self._redundancy
        if redundancy is not None:

            def reached(found: Collection[str]) -> None:
                if barrier.patient and not redundancy.notices.required(self._links) <= {*found}:
                    self._unreached.append(done)
                else:
                    self._passed = (barrier.origin, barrier.number)
                    done()

            self.pass_on(barrier, source, reached)
            return

        def begin() -> None:
            if self._tracing.tracer is not None:
                self._tracing.tracer.barrier(barrier.origin, barrier.number)
            if ends is not None:
                ends[broker_in(self.origin)] = self._dispatch.reached if self._is_logged else NO_LOG
            if held is not None and barrier.seek:
                held.extend(self.holdings(barrier))
            elif held is not None and barrier.unsure:
                held.extend(self.known(barrier.unsure))
            if source and source not in self._links:
                return  # the link has ended meanwhile: nobody waits there
            ahead = {name for name, link in self._links.items() if barrier.patient or link.ready}
            ahead |= self._recall(barrier, source, ahead)
            wave = self._waves.setdefault((barrier.origin, barrier.number), Wave(barrier, barrier.patient))
            # One that comes again, or along another path, may have more records before it.
            wave.passed.clear()
            self._extend(wave, source, ahead - {source}, Source(done, ends, held))

        if barrier.expel and source:
            self.expel(barrier.expel, barrier.connection)
        self._dispatch.after_sync(lambda: self.hold(barrier.upto, lambda: self.wake(begin)))

    def pass_on(
        self,
        barrier: wire.Barrier,
        source: str,
        done: Callable[[Collection[str]], None],
        ends: dict[str, int] | None = None,
        held: list[Any] | None = None,
    ) -> None:
        """The same of one that comes from a neighbour; `done` is given the brokers it has reached this way, where
        that matters."""
        if self._redundancy is None:
            self.begin(barrier, source, lambda: done(()), ends, held)
            return
        self._come[barrier.origin, barrier.number] = None
        while len(self._come) > COME_MAX:
            self._come.popitem(last=False)

        def begin() -> None:
            if self._tracing.tracer is not None:
                self._tracing.tracer.barrier(barrier.origin, barrier.number)
            ahead = {name for name, link in self._links.items() if link.ready}
            ahead |= self._recall(barrier, source, ahead)
            wave = self._waves[barrier.origin, barrier.number] = Wave(barrier, patient=False)
            wave.reached.add(broker_in(self.origin))
            self._extend(wave, source, ahead - {source}, Source(lambda: done(wave.reached)))

        self._dispatch.after_sync(lambda: self.wake(begin))

    def _recall(self, barrier: wire.Barrier, source: str, ahead: set[str]) -> set[str]:
        """Have this broker answer a barrier that recalls what is retained: it is then waited for, too."""
        if not barrier.recall and not barrier.keys and not barrier.history:
            return set()
        key, own = (barrier.origin, barrier.number), broker_in(self.origin)
        if ahead | {source} < self._links.keys() | {source}:
            self._unheard.add(key)
        if not (self.questioned if barrier.history else self.recalled)(barrier, source):
            return set()
        return {own}

    def sources(self, key: BarrierKey) -> list[str]:
        """The neighbours that a barrier came from, and that have not been answered."""
        wave = self._waves.get(key)
        return [] if wave is None else [name for name in wave.sources if name]

    def take_away(self, key: BarrierKey) -> bool:
        """Whether some broker has not answered a barrier that has been passed."""
        is_away = key in self._unheard
        self._unheard.discard(key)
        return is_away

    @property
    def are_answered_with_ends(self) -> bool:
        """Whether the answers have the ends of logs, where that is asked for."""
        return self._redundancy is None

    def has_come(self, barrier: wire.Barrier) -> bool:
        """Whether a barrier has come by another way already."""
        return (barrier.origin, barrier.number) in self._come

    def tick(self) -> None:
        """From time to time: begin again what has not reached all brokers."""
        if self._unreached:
            waiting, self._unreached = self._unreached, []

            def done() -> None:
                for each in waiting:
                    each()

            self.begin(wire.Barrier(*self.next_key(), True), "", done)

    def probe(self, probe: wire.Probe, source: str, ahead: set[str], done: Callable[[], None]) -> None:
        """Pass a probe on to these neighbours: is there a path back to its origin?"""
        key = probe.origin, probe.number
        # A broker that calls another one once more has given up its earlier probe.
        for old in self._probes_for(broker_in(probe.origin), probe.called):
            if old.key != key:
                del self._waves[old.key]
        wave = self._waves.setdefault(key, Wave(probe, called=probe.called))
        self._extend(wave, source, ahead, Source(done))

    def has_come_otherwise(self, probe: wire.Probe, source: str) -> bool:
        """Whether this probe has come from other neighbours alone: then there is a cycle without the new link."""
        wave = self._waves.get((probe.origin, probe.number))
        return wave is not None and source not in wave.sources

    def _extend(self, wave: Wave, name: str, ahead: set[str], source: Source) -> None:
        """A wave has come from a neighbour: pass it on to those to which it does not go yet."""
        wave.sources[name] = source
        new = ahead - wave.passed
        wave.passed |= new
        wave.waiting |= new
        for each in sorted(new):
            self._pass(wave, each)
        self._finish(wave)

    def forget(self, key: BarrierKey) -> None:
        """Nobody waits for this one any longer."""
        self._waves.pop(key, None)

    def answered(
        self,
        key: BarrierKey,
        name: str,
        ends: Mapping[str, int],
        reached: Iterable[str] = (),
        *,
        away: bool = False,
        held: Iterable[Any] = (),
    ) -> None:
        """A neighbour has answered, with the ends of logs if the barrier asks for them, and in a redundant network
        with the brokers that it has reached; or this broker itself, with what it retains."""
        wave = self._waves.get(key)
        if wave is not None:
            if away:
                self._unheard.add(key)
            if name in wave.waiting:
                for source in wave.sources.values():
                    if source.ends is not None:
                        source.ends.update(ends)
                    if source.held is not None:
                        source.held.extend(held)
            wave.reached.update(reached)
            self._strike(wave, name)

    def ready(self, name: str) -> None:
        """A neighbour is connected: it gets all barriers that it has not answered."""
        for wave in list(self._waves.values()):
            if name in wave.waiting:
                self._pass(wave, name)

    def lost(self, name: str) -> None:
        """A neighbour is away: only patient barriers wait for it."""
        for wave in list(self._waves.values()):
            if not wave.patient:
                if name in wave.waiting and _asks(wave.message):
                    self._unheard.add(wave.key)
                self._strike(wave, name)

    def remove_neighbour(self, name: str) -> None:
        """The link has ended: no barrier waits for this broker, and it waits for none that came from it."""
        for wave in list(self._waves.values()):
            wave.sources.pop(name, None)
            self._strike(wave, name)

    def away(self, probe: wire.Probe) -> list[str]:
        """The neighbours that a probe waits for because they are away."""
        wave = self._waves.get((probe.origin, probe.number))
        return [] if wave is None else self._away(wave)

    def away_for(self, caller: str, called: str) -> list[str]:
        """The same, of the probe for a new link that one broker has made with another."""
        return [name for wave in self._probes_for(caller, called) for name in self._away(wave)]

    def _probes_for(self, caller: str, called: str) -> list[Wave]:
        return [each for each in self._waves.values() if each.called and each.new_link == (caller, called)]

    def _away(self, wave: Wave) -> list[str]:
        return sorted(each for each in wave.waiting if not self._session(wave, each))

    def _session(self, wave: Wave, name: str) -> LinkSession | None:
        if wave.called and name in self.new:
            return self.new[name]
        link = self._links.get(name)
        return link.session if link is not None and link.ready else None

    def _pass(self, wave: Wave, name: str) -> None:
        session, message = self._session(wave, name), wave.message
        if session is None:
            return
        if isinstance(message, Barrier) and (message.recall or message.keys):
            message = self.disclosed(message, name)
        if isinstance(message, Barrier) and message.history:
            message = self.narrowed_past(message, name)
        session.tell(message)

    def _strike(self, wave: Wave, name: str) -> None:
        wave.waiting.discard(name)
        self._finish(wave)

    def _finish(self, wave: Wave) -> None:
        """Answer where all others have answered."""
        if self._waves.get(wave.key) is not wave:
            return
        names = [name for name in wave.sources if wave.waiting <= {name}]
        answered = [wave.sources.pop(name) for name in names]
        if not wave.sources:
            del self._waves[wave.key]
        for source in answered:
            source.done()


def _asks(message: wire.Barrier | wire.Probe) -> bool:
    """Whether brokers answer it with notifications, which may be missing."""
    return isinstance(message, Barrier) and bool(message.recall or message.history)


def broker_in(origin: str) -> str:
    """The broker where a barrier or a probe began."""
    return origin.rpartition("/")[0]
