"""A durable subscriber gets all that matches what it asks for, until it ends that: not when its connection does.

It is at most one client at a time: the latest one that came for it. What it has neither accepted nor rejected is
delivered again when it is back. Who subscribes to the past without a name is one that ends with its connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.broker import messages as calls
from fairlead.errors import ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import render
from fairlead.log.records import ARRIVAL, PUBLICATION, notification_in
from fairlead.model.packed import unpack
from fairlead.network import wire
from fairlead.network.ledger import Subscribed, Unsubscribed
from fairlead.network.sessions import ClientSession, Durable

if TYPE_CHECKING:
    from fairlead.network.node import Node

__all__ = ["Durability"]


class Durability:
    """The durable subscribers of a node: how they come, are away, are back, and end."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def recall(self, now: int) -> None:
        """Know the durable subscribers, what they ask for and where they are, as before."""
        node = self._node
        for name, subscriptions in node.state.durables.items():
            since = min((since for _, since in subscriptions.values()), default=node.dispatched)
            durable = self._new(name, node.place(f"sub:{name}", since))
            for id, (text, since) in subscriptions.items():
                filter = node.filter(text)
                durable.subscriptions[id] = (filter, since)
                node.broker.handle(calls.Subscribe(durable.client, id, filter), now)
                node.ways.look_at(filter)

    # -- subscriptions -----------------------------------------------------------------------------------------

    def subscribe(self, session: ClientSession, message: wire.Subscribe, filter: Filter, now: int) -> None:
        """The client is this durable subscriber from now on, and asks for this, too."""
        node = self._node
        if node.ledger is None:
            raise ValueRefused("this broker keeps no log, so nothing is durable and there is no past here")
        ends = not message.durable
        name = _passing(session, message.id) if ends else message.durable
        durable = node.durables.get(name)
        if durable is None:
            durable = self._new(name, self._first_since(message.since), ends=ends)
        known = durable.subscriptions.get(message.id)
        if known is not None and known[0] != filter:
            raise ValueRefused(f"the id {message.id!r} is taken")
        if known is None:
            since = durable.looked if not durable.subscriptions else node.dispatch.end
            node.call(calls.Subscribe(durable.client, message.id, filter), now)
            durable.subscriptions[message.id] = (filter, since)
            if not ends:
                node.note(Subscribed(name, message.id, render(filter), since), now)
        if durable.session is not session:
            if durable.session is not None:
                durable.session.tell(
                    wire.Refused(0, f"another client is the durable subscriber {name!r} now", name)
                )
                self.detach(durable)
            durable.session = session
            session.durables[name] = durable
        node.fences.answer(session, message.number, patient=not ends)
        # What it missed follows when those who asked before have been answered.
        node.dispatch.after_sync(lambda: node.dispatch.read_on(durable))

    def unsubscribe(self, name: str, id: str, now: int) -> None:
        """It does not ask for this any more; without an id, or with the last one, it ends."""
        node = self._node
        durable = node.durables.get(name)
        if durable is None or (id and id not in durable.subscriptions):
            raise ValueRefused(f"there is no durable subscription {name!r} {id!r}")
        if id:
            node.call(calls.Unsubscribe(durable.client, id), now)
            del durable.subscriptions[id]
        node.note(Unsubscribed(name, id), now)
        if not durable.subscriptions or not id:
            if id:
                node.note(Unsubscribed(name, ""), now)
            self.detach(durable)
            self._end(durable)

    def passing(self, session: ClientSession, id: str) -> Durable | None:
        """The subscriber without a name that a client's subscription to the past has."""
        return self._node.durables.get(_passing(session, id))

    def detach(self, durable: Durable) -> None:
        """Its client is away."""
        if durable.session is not None:
            durable.session.durables.pop(durable.name, None)
            durable.session = None
        durable.detach(self._node.dispatched)
        if durable.ends:
            self._end(durable)

    def _first_since(self, since: int | None) -> int:
        """The offset of the first record that has this time or a later one."""
        ledger, end = self._node.ledger, self._node.dispatch.end
        assert ledger is not None
        if since is None:
            return end
        with ledger.reader(ledger.log.first) as reader:
            return min(reader.find(since), end)

    def _new(self, name: str, cursor: int, *, ends: bool = False) -> Durable:
        node = self._node
        durable = node.durables[name] = Durable(node, name, cursor, ends=ends)
        node.ways.targets[durable.client] = durable
        return durable

    def _end(self, durable: Durable) -> None:
        self._node.leave(durable.client)
        self._node.durables.pop(durable.name, None)
        self._node.unplace(f"sub:{durable.name}")

    # -- deliveries --------------------------------------------------------------------------------------------

    def accept(self, session: ClientSession, name: str, places: list[int]) -> None:
        """It has dealt with these."""
        durable = session.durables.get(name)
        if durable is not None:
            for place in places:
                durable.confirm(place - 1)
            self._node.dispatch.read_on(durable)

    def reject(self, session: ClientSession, name: str, place: int, *, again: bool) -> None:
        """It has not dealt with this one: it gets it again, or never."""
        node = self._node
        durable = session.durables.get(name)
        if durable is None or place - 1 not in durable.unconfirmed:
            return
        node.counters.rejected += 1
        if not again:
            durable.confirm(place - 1)
            node.dispatch.read_on(durable)
            return
        assert node.ledger is not None
        with node.ledger.reader(place - 1, PUBLICATION, ARRIVAL) as reader:
            [record] = reader.read(1)
        packed = notification_in(record)
        head = durable.head_for(unpack(packed), record.offset)
        if head is None:  # the subscription it came for is gone
            durable.confirm(place - 1)
        else:
            session.send(wire.deliver(place, head, packed))


def _passing(session: ClientSession, id: str) -> str:
    return f"{session.client}#{id}"
