"""Brokers that spread notifications without routing tables on the way: by multicast, by link ids, by gossip.

    a client is notified of what it subscribes to and of nothing else, once, whatever reaches its broker

That holds for all of them, since the border broker filters what it gets. Whether everything reaches it:

    MulticastBroker   yes: every broker knows who wants what, and sends to groups that hold these (book 4.6.7)
    NeighbourBroker   yes: routing on a tree, with a group of neighbours in each step (book 4.6.7)
    LipsinBroker      yes: a rendezvous broker knows who wants what and writes the links of a tree into the packet;
                      false positives of the Bloom filter send it over further links, and leave out none
    GossipBroker      with a probability: each broker tells a number of others (book 4.7)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from fairlead.broker import Broker, Settings
from fairlead.broker.messages import (
    Admin,
    Deliver,
    Duplicate,
    Effect,
    Forward,
    Leave,
    Publish,
    Refuse,
    Send,
    Subscribe,
    Unsubscribe,
)
from fairlead.errors import ValueRefused
from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.model.order import Identity, LatestIdentities, identity_of
from fairlead.routing import Catalogue, Flooding, Interest, RoutingTable
from fairlead.rules import Refusal
from fairlead_lab.broker.packets import Hops, LinkSet, Packet, SendToGroup
from fairlead_lab.routing.epidemic import REMEMBERED, ROUNDS_MAX, chosen
from fairlead_lab.routing.lipsin import LinkIds, ZFilter
from fairlead_lab.routing.multicast import DirectGrouping, Ideal

__all__ = ["GossipBroker", "LipsinBroker", "MulticastBroker", "NeighbourBroker", "SpreadingBroker"]


class SpreadingBroker(ABC):
    """A broker with the clients of a broker without neighbours; the scheme brings notifications there."""

    def __init__(self, name: str, catalogue: Catalogue) -> None:
        self.name = name
        self.catalogue = catalogue
        self.local = Broker(name, Settings(Flooding()), (), catalogue)
        """The clients, and their filters."""
        self.remote = RoutingTable(catalogue)
        """The filters of other brokers, as far as the scheme needs them here."""
        self.settings = self.local.settings
        self._references: Counter[Filter] = Counter()
        self._seen = LatestIdentities(REMEMBERED)

    @property
    def waiting(self) -> dict[str, list[Any]]:
        """Nothing waits for other messages here."""
        return {}

    @property
    def tables(self) -> tuple[RoutingTable, ...]:
        """The tables of local and of remote filters."""
        return (*self.local.tables, self.remote)

    def handle(self, message: Any, now: int) -> list[Any]:
        """Take one step, at a time by the caller's clock in microseconds."""
        match message:
            case Packet() | Forward() | Admin():
                return self._receive(message)
            case Publish():
                return self._publish(message, now)
            case Subscribe() | Unsubscribe() | Leave():
                return self._declare(message, now)
            case _:
                return list(self.local.handle(message, now))

    def _publish(self, call: Publish, now: int) -> list[Any]:
        local = self.local
        local.clients.join(call.source)
        memory = local.identities.memory(call.number, call.notification.id)
        admitted = local.seam.take(call.source, call.notification, memory, now)
        if isinstance(admitted, Refusal):
            return [Refuse(call.source, admitted.reason, number=call.number)]
        if admitted is None:
            return [Duplicate(call.source, call.number)]
        return [*(self._deliver(admitted) or ()), *self._spread(admitted)]

    def _declare(self, call: Subscribe | Unsubscribe | Leave, now: int) -> list[Any]:
        """Let a client say what it wants, and others know what is new about it."""
        before = self._filters_of(call.source)
        effects: list[Any] = list(self.local.handle(call, now))
        after = self._filters_of(call.source)
        added = [filter for filter in after if filter not in before]
        removed = [filter for filter in before if filter not in after]
        news = [each for each in added if not self._references[each]]
        self._references.update(added)
        self._references.subtract(removed)
        ended = [each for each in removed if not self._references[each]]
        if news or ended:
            interest = self.catalogue.interest
            effects += self._announce(
                Admin(self.name, tuple(map(interest, news)), tuple(map(interest, ended)))
            )
        return effects

    def _filters_of(self, client: str) -> list[Filter]:
        clients = self.local.clients
        return list(clients[client].subscriptions.by_filter) if client in clients else []

    def _deliver(self, notification: Notification) -> list[Effect] | None:
        """Notify the clients; None where the notification has been here before."""
        if self._seen.take(notification) is None:
            return None
        route = self.local.seam.route(notification, "")
        return [Deliver(client, notification, ids) for client, ids in route.clients]

    def _learn(self, source: str, added: Iterable[Interest], removed: Iterable[Interest]) -> None:
        for interest in added:
            self.remote.add(interest, source)
        self.remote.remove_all(removed, source)

    @abstractmethod
    def _announce(self, news: Admin) -> list[Any]:
        """Let those know who have to what this broker's clients want."""

    @abstractmethod
    def _spread(self, notification: Notification) -> list[Any]:
        """Send a notification that was published here on its way."""

    @abstractmethod
    def _receive(self, message: Any) -> list[Any]:
        """Take in a message of another broker."""


class MulticastBroker(SpreadingBroker):
    """Knows what all others want, and sends a notification to groups that hold all who want it."""

    def __init__(
        self, name: str, members: Sequence[str], grouping: DirectGrouping, catalogue: Catalogue
    ) -> None:
        super().__init__(name, catalogue)
        self._others = tuple(each for each in members if each != name)
        self.grouping = grouping

    def _announce(self, news: Admin) -> list[Any]:
        return [SendToGroup(self._others, news)] if self._others else []

    def _spread(self, notification: Notification) -> list[Any]:
        receivers = self.remote.destinations(notification)
        sends = self.grouping.sends(self.name, receivers.keys())
        forward = Forward(self.name, notification)
        return [SendToGroup(tuple(sorted(each.reached)), forward) for each in sends]

    def _receive(self, message: Any) -> list[Any]:
        if isinstance(message, Admin):
            self._learn(message.source, message.added, message.removed)
            return []
        return list(self._deliver(message.notification) or ())


class NeighbourBroker(Broker):
    """A broker of a tree that sends a notification to a group of its neighbours, in one send."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._among = Ideal(self.neighbours)

    def handle(self, message: Any, now: int) -> list[Any]:
        """Take one step; the forwards of one notification go to a group."""
        effects: list[Any] = []
        groups: dict[Identity, tuple[Forward, set[str]]] = {}
        for effect in super().handle(message, now):
            if isinstance(effect, Send) and isinstance(effect.message, Forward):
                forward = effect.message
                groups.setdefault(identity_of(forward.notification), (forward, set()))[1].add(effect.to)
            else:
                effects.append(effect)
        for forward, receivers in groups.values():
            effects += [
                SendToGroup(tuple(sorted(group)), forward) for group in self._among.groups_for(receivers)
            ]
        return effects


class LipsinBroker(SpreadingBroker):
    """Forwards a packet on those of its links that are in the packet's Bloom filter.

    Filters and notifications go to the rendezvous broker. It alone has a table; it finds out who wants a
    notification, and sends it along a tree of links. The way of a broker to the rendezvous broker is given to it,
    as the ids of its own links are, by who knows the topology.
    """

    def __init__(self, name: str, rendezvous: str, ids: LinkIds, catalogue: Catalogue) -> None:
        super().__init__(name, catalogue)
        self._rendezvous, self._ids = rendezvous, ids
        self._up = ids.zfilter(ids.tree(name, {rendezvous}))
        self._number = 0
        self._passed = LatestIdentities(REMEMBERED)

    @property
    def is_rendezvous(self) -> bool:
        """Whether this broker finds out who wants what."""
        return self.name == self._rendezvous

    def _announce(self, news: Admin) -> list[Any]:
        if self.is_rendezvous:
            self._learn(self.name, news.added, news.removed)
            return []
        return self._sent_up(news)

    def _spread(self, notification: Notification) -> list[Any]:
        if self.is_rendezvous:
            return self._disseminate(notification, self.name)
        return self._sent_up(Forward(self.name, notification, origin=self.name))

    def _sent_up(self, message: Admin | Forward) -> list[Any]:
        return self._sent(self._up.index, self._up.bits, message)

    def _sent(self, index: int, bits: int, message: Admin | Forward) -> list[Any]:
        self._number += 1
        header = LinkSet(index, bits, self.name, self._number)
        self._passed.take_identity((self.name, str(self._number)))
        return self._onward(header, message, None)

    def _onward(self, header: LinkSet, message: Any, came_from: str | None) -> list[Any]:
        """Send a packet over the links that are in it, and not back."""
        if isinstance(message, Forward):
            message = Forward(self.name, message.notification, message.origin)
        return [
            Send(to, Packet(self.name, header, message))  # type: ignore[arg-type]
            for to in self._ids.forward(ZFilter(header.index, header.bits), self.name, came_from)
        ]

    def _disseminate(self, notification: Notification, origin: str) -> list[Any]:
        """Send a notification from here along a tree to all who want it, but to whom it came from."""
        receivers = self.remote.destinations(notification).keys() - {self.name, origin}
        if not receivers:
            return []
        zfilter = self._ids.zfilter(self._ids.tree(self.name, receivers))
        return self._sent(zfilter.index, zfilter.bits, Forward(self.name, notification))

    def _receive(self, message: Any) -> list[Any]:
        header, inner = message.header, message.message
        if not self._passed.take_identity((header.origin, str(header.number))):
            return []  # by a cycle that false positives have closed
        effects: list[Any] = []
        if isinstance(inner, Forward):
            effects += self._deliver(inner.notification) or ()
            if self.is_rendezvous and inner.origin:
                effects += self._disseminate(inner.notification, inner.origin)
        elif self.is_rendezvous:
            self._learn(header.origin, inner.added, inner.removed)
        return [*effects, *self._onward(header, inner, message.source)]


class GossipBroker(SpreadingBroker):
    """Tells each notification that is new to it to a number of others; nobody knows what others want."""

    def __init__(
        self,
        name: str,
        members: Sequence[str],
        fanout: int,
        catalogue: Catalogue,
        *,
        seed: int = 0,
        rounds_max: int = ROUNDS_MAX,
    ) -> None:
        super().__init__(name, catalogue)
        if fanout < 1:
            raise ValueRefused(f"a rumour that nobody is told ends at once: the fan-out is {fanout}")
        self._members, self._fanout, self._seed = members, fanout, seed
        self._rounds_max: Final = rounds_max

    def _announce(self, news: Admin) -> list[Any]:
        return []

    def _spread(self, notification: Notification) -> list[Any]:
        return self._pass_on(notification, 0)

    def _pass_on(self, notification: Notification, hops: int) -> list[Any]:
        if hops >= self._rounds_max:
            return []
        peers = chosen(self._members, self._fanout, self._seed, identity_of(notification), self.name)
        packet = Packet(self.name, Hops(hops + 1), Forward(self.name, notification))
        return [Send(peer, packet) for peer in peers]  # type: ignore[arg-type]

    def _receive(self, message: Any) -> list[Any]:
        notification = message.message.notification
        effects = self._deliver(notification)
        if effects is None:
            return []
        return [*effects, *self._pass_on(notification, message.header.count)]
