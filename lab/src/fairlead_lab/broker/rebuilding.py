"""A broker that builds its routing tables anew, in turns, whatever the routing algorithm (book 8.2.3, "rebuild").

There are two generations of tables, and one of them is being built. Notifications go where either says. Calls of
clients change the one that is being built, and messages say which they are about. The root switches once in a
period: it empties the other generation, which is built from then on, and sends `Switch` to all. What is not
renewed is in neither after two periods.

    route = the union of the routes of both generations
    a generation is emptied by making it anew, so that what is derived in it is gone, too

The book discards redundant calls, and with them the unsubscription of a client that has not yet renewed: the older
generation would deliver for up to a period. Here an unsubscription ends what it is about in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from fairlead.broker.broker import Broker, Settings
from fairlead.broker.messages import (
    Advertise,
    Call,
    Command,
    Effect,
    Forward,
    InTree,
    Join,
    Leave,
    Message,
    Publish,
    Send,
    Subscribe,
    Unadvertise,
    Unsubscribe,
    Wake,
)
from fairlead.errors import ValueRefused
from fairlead.model import Notification
from fairlead.routing import Catalogue, RoutingTable
from fairlead.rules import Route
from fairlead_lab.broker.leased import Refresh
from fairlead_lab.broker.leases import Rebuilding

__all__ = ["RebuildingBroker", "Switch"]


class Switch(Struct, frozen=True):
    """From now on this generation is built: it is empty."""

    source: str
    generation: int


class _Front(Broker):
    """Passes notifications on, by the tables of both generations."""

    def __init__(self, whole: RebuildingBroker) -> None:
        self._whole = whole
        super().__init__(whole.name, whole.settings, whole.neighbours, whole.catalogue)

    def age(self) -> None:
        """Forget the identities of the period before the last one."""
        self.identities.sent._latest._age()
        self._delivered._age()

    def _destinations(self, notification: Notification, source: str) -> Route:
        routes = [each._destinations(notification, source) for each in self._whole.generations]
        neighbours = dict.fromkeys(to for route in routes for to in route.neighbours)
        clients: dict[str, set[str]] = {}
        for route in routes:
            for client, ids in route.clients:
                clients.setdefault(client, set()).update(ids)
        return Route(
            tuple(neighbours),
            tuple((client, tuple(sorted(ids))) for client, ids in sorted(clients.items()) if ids),
        )


class RebuildingBroker:
    """Two brokers over the same links, one of which is being built, and a third one that notifications pass."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        neighbours: Iterable[str],
        catalogue: Catalogue,
        rebuilding: Rebuilding,
    ) -> None:
        if settings.cyclic:
            raise ValueRefused("tables are built anew in overlays without cycles")
        self.name = name
        self.settings = settings
        self.neighbours = tuple(neighbours)
        self.catalogue = catalogue
        self.rebuilding = rebuilding
        self.generations = [self._new_generation(), self._new_generation()]
        self.built = 0
        """The generation that is being built."""
        self.front = _Front(self)
        self.switch_at: int | None = None
        """At the root, when it switches."""
        self._wakes_at: int | None = None

    @property
    def trees(self) -> tuple[str, ...]:
        """The names of the generations, as messages have them."""
        return ("0", "1")

    def tree(self, name: str) -> Broker:
        """A generation by its name."""
        return self.generations[int(name)]

    @property
    def tables(self) -> Iterator[RoutingTable]:
        """The routing tables of both generations."""
        for broker in self.generations:
            yield from broker.tables

    @property
    def waiting(self) -> dict[str, list[Message]]:
        """The messages that wait for others: none, as there are no batches."""
        return {}

    def _new_generation(self) -> Broker:
        return Broker(self.name, self.settings, self.neighbours, self.catalogue)

    def handle(self, message: Message | Call | Command | Refresh | Switch, now: int) -> list[Effect]:
        """Take one step, at a time by the caller's clock in microseconds; before it a switch, if one is due."""
        effects: list[Effect] = []
        if self.name == self.rebuilding.root:
            self._switch_in_time(now, effects)
        match message:
            case Switch(source, generation):
                self._switch(generation, source, effects)
            case Publish() | Forward():
                effects.extend(self.front.handle(message, now))
            case InTree(_, tree, inner):
                self._carry(int(tree), inner, now, effects)
            case Refresh(source, id, filter, advertisement):
                if not advertisement:
                    self._carry(self.built, Subscribe(source, id, filter), now, effects)
                elif self.settings.advertisements is not None:
                    self._carry(self.built, Advertise(source, id, filter), now, effects)
                    self._carry_to_front(Advertise(source, id, filter), now)
            case Advertise():
                self._carry(self.built, message, now, effects)
                self._carry_to_front(message, now)
            case Subscribe():
                self._carry(self.built, message, now, effects)
            case Unsubscribe(source, id) | Unadvertise(source, id):
                for number, each in enumerate(self.generations):
                    if source in each.clients and id in self._declared(each, message):
                        self._carry(number, message, now, effects)
                if isinstance(message, Unadvertise):
                    self._carry_to_front(message, now)
            case Join() | Leave():
                for number in (0, 1):
                    self._carry(number, message, now, effects)
            case _:
                pass  # links do not change, and a Tick lets the root look at its clock
        return effects

    @staticmethod
    def _declared(broker: Broker, message: Unsubscribe | Unadvertise) -> Iterable[str]:
        client = broker.clients[message.source]
        return (client.subscriptions if isinstance(message, Unsubscribe) else client.advertisements).by_id

    def _carry_to_front(self, message: Advertise | Unadvertise, now: int) -> None:
        """Publications are held to what their clients advertise; others learn it from the generations."""
        self.front.handle(message, now)

    def _carry(self, generation: int, message: Message | Call, now: int, effects: list[Effect]) -> None:
        for effect in self.generations[generation].handle(message, now):
            if isinstance(effect, Send):
                effects.append(Send(effect.to, InTree(self.name, str(generation), effect.message)))
            else:
                effects.append(effect)

    # -- switching -----------------------------------------------------------------------------------------

    def _switch_in_time(self, now: int, effects: list[Effect]) -> None:
        period = self.rebuilding.period
        if self.switch_at is None or self.switch_at > now + period:
            self.switch_at = now + period
        if self.switch_at <= now:
            self.switch_at = now + period
            self._switch(1 - self.built, "", effects)
        if self._wakes_at is None or self._wakes_at <= now:
            self._wakes_at = self.switch_at
            effects.append(Wake(self.switch_at))

    def _switch(self, generation: int, source: str, effects: list[Effect]) -> None:
        """Build another generation, from nothing, and pass it on."""
        self.built = generation
        self.generations[generation] = self._new_generation()
        self.front.age()
        for neighbour in self.neighbours:
            if neighbour != source:
                effects.append(Send(neighbour, Switch(self.name, generation)))  # type: ignore[arg-type]
