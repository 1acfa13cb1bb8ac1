"""Writes the trace of a run, for `fairlead audit`: what clients asked for, published and were notified about.

A subscription or an advertisement takes effect everywhere after a while. In the trace it is ready at the first
moment after it when all that brokers had to tell each other of filters and links has been heard: then every
broker that must know of it does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from fairlead.audit.recorder import Recorder
from fairlead.audit.trace import (
    Advertised,
    Event,
    Faulted,
    Notified,
    Published,
    Ready,
    Subscribed,
    TopologyChanged,
    Unadvertised,
    Unsubscribed,
)
from fairlead.broker.messages import (
    Advertise,
    Call,
    Command,
    Deliver,
    Effect,
    Join,
    Leave,
    Link,
    Message,
    Publish,
    Refuse,
    Subscribe,
    Unadvertise,
    Unlink,
    Unsubscribe,
)
from fairlead.broker.published import Published as Identities
from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.model.encoding import content_hash
from fairlead.model.order import OrderKey, identity_of
from fairlead_lab.broker import AnyBroker
from fairlead_lab.simulation.network import Observer, Simulation

__all__ = ["Declaration", "Declarations", "Tracer"]


@dataclass(frozen=True, slots=True)
class Declaration:
    """Something that a client declared, or has taken back."""

    client: str
    id: str
    filter: Filter
    is_advertisement: bool
    is_over: bool = False
    is_sole: bool = True
    """Whether the client has the filter under no other id."""


class Declarations:
    """The declarations of each broker's clients that were not taken back: S_Y and A_X, from the calls alone."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str, bool], dict[str, Filter]] = {}

    def of(self, broker: str, client: str, *, advertisements: bool = False) -> Mapping[str, Filter]:
        """The filters of a client, by their ids."""
        return self._held.get((broker, client, advertisements), {})

    def __iter__(self) -> Iterator[tuple[str, str, bool, Mapping[str, Filter]]]:
        """Broker, client, whether it is about advertisements, and the filters by their ids."""
        return ((*place, held) for place, held in self._held.items())

    def take(
        self, broker: AnyBroker, call: Message | Call | Command, effects: list[Effect]
    ) -> list[Declaration]:
        """The changes of a step; a refused call and one that says nothing new change nothing."""
        if any(isinstance(effect, Refuse) for effect in effects):
            return []
        match call:
            case Subscribe(client, id, filter):
                return self._begin(broker.name, client, id, filter, is_advertisement=False)
            case Advertise(client, id, filter) if broker.settings.advertisements is not None:
                return self._begin(broker.name, client, id, filter, is_advertisement=True)
            case Unsubscribe(client, id):
                return self._end(broker.name, client, [id], is_advertisement=False)
            case Unadvertise(client, id):
                return self._end(broker.name, client, [id], is_advertisement=True)
            case Leave(client):
                return [
                    over
                    for advertisements in (False, True)
                    for over in self._end(
                        broker.name,
                        client,
                        list(self.of(broker.name, client, advertisements=advertisements)),
                        is_advertisement=advertisements,
                    )
                ]
        return []

    def forget(self, broker: str) -> None:
        """A broker has lost its clients."""
        self._held = {place: held for place, held in self._held.items() if place[0] != broker}

    def _begin(
        self, broker: str, client: str, id: str, filter: Filter, *, is_advertisement: bool
    ) -> list[Declaration]:
        held = self._held.setdefault((broker, client, is_advertisement), {})
        if id in held:
            return []
        is_sole = filter not in held.values()
        held[id] = filter
        return [Declaration(client, id, filter, is_advertisement, is_sole=is_sole)]

    def _end(self, broker: str, client: str, ids: list[str], *, is_advertisement: bool) -> list[Declaration]:
        held = self._held.get((broker, client, is_advertisement), {})
        over = []
        for id in ids:
            if id in held:
                filter = held.pop(id)
                is_sole = filter not in held.values()
                over.append(Declaration(client, id, filter, is_advertisement, True, is_sole))
        return over


class Tracer(Observer):
    """Records a run, from now on: in a file, or by calling a function with every event."""

    def __init__(
        self, simulation: Simulation, target: str | os.PathLike[str] | Callable[[Event], object]
    ) -> None:
        self._simulation = simulation
        self._recorder = Recorder(target)
        self._declarations = Declarations()
        self._unready: dict[tuple[str, str, bool], None] = {}
        self._identities: dict[str, Identities] = {}
        simulation.observers.append(self)

    def close(self) -> None:
        """The trace has an end where nothing is under way any more; else it just stops."""
        if self._simulation.is_quiet:
            self._recorder.ended()
        self._recorder.stop()

    def handled(
        self, now: int, broker: AnyBroker, message: Message | Call | Command, effects: list[Effect]
    ) -> None:
        record = self._recorder.record
        for event in self._events(broker, message, effects):
            record(event)
        for effect in effects:
            if isinstance(effect, Deliver):
                record(Notified(effect.client, identity_of(effect.notification), effect.subscriptions))
        if self._unready and self._simulation.is_settled:
            for client, id, is_advertisement in self._unready:
                record(Ready(client, id, is_advertisement))
            self._unready.clear()

    def failed(self, now: int, change: str, about: Mapping[str, object]) -> None:
        self._recorder.record(Faulted(change, {"at": now, **about}))

    def _events(
        self, broker: AnyBroker, message: Message | Call | Command, effects: list[Effect]
    ) -> Iterator[Event]:
        match message:
            case Publish():
                notification = self._published(broker, message, effects)
                if notification is not None:
                    yield Published(notification, OrderKey.of(notification))
            case Join(client):
                yield TopologyChanged("join", {"broker": broker.name, "client": client})
            case Link(neighbour):
                yield TopologyChanged("link", {"broker": broker.name, "neighbour": neighbour})
            case Unlink(neighbour):
                yield TopologyChanged("unlink", {"broker": broker.name, "neighbour": neighbour})
            case _:
                for each in self._declarations.take(broker, message, effects):
                    yield self._declared(each)
                if isinstance(message, Leave):
                    yield TopologyChanged("leave", {"broker": broker.name, "client": message.source})

    def _declared(self, each: Declaration) -> Event:
        slot = (each.client, each.id, each.is_advertisement)
        if each.is_over:
            self._unready.pop(slot, None)
            return (Unadvertised if each.is_advertisement else Unsubscribed)(each.client, each.id)
        self._unready[slot] = None
        begun = Advertised if each.is_advertisement else Subscribed
        return begun(each.client, each.id, each.filter, ready=False)

    def _published(self, broker: AnyBroker, call: Publish, effects: list[Effect]) -> Notification | None:
        """The notification as the broker identified it, whether or not it went anywhere; None where refused."""
        notification = call.notification
        if not notification.producer:
            notification = replace(notification, producer=call.source)
        digest = None
        if notification.id is None:
            digest = content_hash(notification)
        identities = self._identities.setdefault(broker.name, Identities())
        identified = identities.memory(call.number, notification.id).take(notification, digest)
        is_refused = any(isinstance(effect, Refuse) for effect in effects)
        return None if is_refused else identified
