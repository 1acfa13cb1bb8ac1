"""Rendezvous routing (book 4.6.3): for every type of notification a tree of its own.

The root of a type's tree is its rendezvous node, which all brokers agree on; a broker's parent in the tree is
its next hop towards it. Subscriptions climb, and leave their filter at every broker on the way. Notifications
climb, too, and wherever one meets a filter that it matches, it goes down there. So only brokers on a way to
the rendezvous node know of a subscription.

Within one tree this is hierarchical routing, so a rendezvous broker is made of brokers, one for each tree:

    rendezvous   filters in the trees, by any strategy
    Scribe       topics: a tree is told of the type alone, and the rest is left to the broker of the client
    Hermes       filters and advertisements: these climb, and subscriptions follow them down to the producers;
                 then notifications go where subscriptions are, and need not pass the rendezvous node

A subscription belongs to the trees of all types that it may match: the lattice of types is closed, so a
subscription to a type is in the trees of its subtypes (Hermes' type hierarchies).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from fairlead.broker.broker import Broker, Settings
from fairlead.broker.messages import (
    Advertise,
    Call,
    Climb,
    Command,
    Effect,
    InTree,
    Join,
    Leave,
    Link,
    Message,
    Publish,
    Refuse,
    Send,
    Subscribe,
    Tick,
    Unadvertise,
    Unlink,
    Unsubscribe,
)
from fairlead.broker.published import Published
from fairlead.errors import TopologyRefused, ValueRefused
from fairlead.filters.algebra import overlaps
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import Filter
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Attribute
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.routing import Catalogue, Covering, Identity, RoutingTable, Strategy

__all__ = ["RendezvousBroker", "RendezvousSettings", "hermes", "scribe", "types_named"]

TYPES_REMEMBERED: Final = 100_000
"""Of how many filters the types that they may match are remembered."""

Parent = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class RendezvousSettings:
    """The types that there are, the notifications of each, and the maintenance of a tree.

    No notification is of two types. A type may be any part of all notifications, such as a range of values:
    then the space of publications is divided among the brokers.
    """

    types: Mapping[str, Filter]
    strategy: Strategy = field(default_factory=Covering)
    advertisements: Strategy | None = None
    topics: bool = False
    """Whether trees are told of types alone."""
    batch_us: int = 0
    """The time that messages to a neighbour may wait for others, to go as one."""
    schema: Schema | None = None

    def __post_init__(self) -> None:
        if not self.types:
            raise ValueRefused("rendezvous routing needs the types that there are", hint="types = [...]")
        if self.topics and self.advertisements is not None:
            raise ValueRefused("topics are not advertised")


def types_named(names: Iterable[str], attribute: str = "type") -> dict[str, Filter]:
    """Types by their names, which notifications have in an attribute."""
    return {name: Constraint(Attribute(attribute), Op.EQ, name) for name in names}


def scribe(types: Mapping[str, Filter]) -> RendezvousSettings:
    """Trees for topics."""
    return RendezvousSettings(types, Identity(), topics=True)


def hermes(types: Mapping[str, Filter], schema: Schema | None = None) -> RendezvousSettings:
    """Trees for types, with filters and advertisements."""
    return RendezvousSettings(types, Covering(), Covering(), schema=schema)


class RendezvousBroker:
    """A broker that is in the trees of all types it has to do with. `parent` tells its next hop towards a type."""

    def __init__(
        self,
        name: str,
        settings: RendezvousSettings,
        parent: Parent,
        catalogue: Catalogue | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.catalogue = (
            Catalogue(engine_named("columnar"), settings.schema) if catalogue is None else catalogue
        )
        self._parent = parent
        self._identities = Published()
        self._trees: dict[str, Broker] = {}
        self._filters: dict[tuple[bool, str, str], Filter] = {}
        self._types: dict[Filter, tuple[str, ...]] = {}

    @property
    def trees(self) -> tuple[str, ...]:
        """The types whose trees this broker is in."""
        return tuple(self._trees)

    @property
    def tables(self) -> Iterator[RoutingTable]:
        """The routing tables of all trees."""
        for broker in self._trees.values():
            yield from broker.tables

    @property
    def waiting(self) -> dict[str, list[Message]]:
        """The messages to send to each, when their time has come."""
        found: dict[str, list[Message]] = {}
        for broker in self._trees.values():
            for to, messages in broker.waiting.items():
                found.setdefault(to, []).extend(messages)
        return found

    def tree(self, type_name: str) -> Broker:
        """This broker in the tree of a type; a KeyError, unless it is in it."""
        return self._trees[type_name]

    def _join_tree(self, type_name: str, now: int, effects: list[Effect]) -> Broker:
        """Come into the tree of a type, over a new link to the parent: who comes back after it has failed is not
        taken for the one whose link was cut."""
        settings = self.settings
        of_type = settings.types[type_name]
        parent = self._parent(type_name)
        broker = Broker(
            self.name,
            Settings(
                settings.strategy,
                settings.advertisements,
                parent=parent,
                grows=True,
                climbs=settings.advertisements is None,
                batch_us=settings.batch_us,
                widen=(lambda _: of_type) if settings.topics else None,
            ),
            (),
            self.catalogue,
            self._identities,
        )
        self._trees[type_name] = broker
        if parent is not None:
            self._carry(type_name, broker.handle(Link(parent), now), effects)
        return broker

    def handle(self, message: Message | Call | Command, now: int) -> list[Effect]:
        """Take one step, at a time by the caller's clock in microseconds."""
        effects: list[Effect] = []
        for tree, part in self._parts(message, effects):
            try:
                broker = self._trees.get(tree) or self._join_tree(tree, now, effects)
            except TopologyRefused as refused:  # it has left the ring, and what comes now is late
                if isinstance(message, Call):
                    effects.append(Refuse(message.source, str(refused)))
                continue
            self._carry(tree, broker.handle(part, now), effects)
        return effects

    def _carry(self, tree: str, made: list[Effect], effects: list[Effect]) -> None:
        """Send the effects of a tree, each marked with the tree that it is about."""
        effects.extend(
            Send(effect.to, InTree(self.name, tree, effect.message)) if isinstance(effect, Send) else effect
            for effect in made
        )

    def _parts(
        self, message: Message | Call | Command, effects: list[Effect]
    ) -> list[tuple[str, Message | Call | Command]]:
        """The parts of a message for each tree."""
        match message:
            case InTree(tree=tree, message=inner):
                return [(tree, inner)]
            case Climb(tree=tree):
                return [(tree, message)]
            case Publish(source=client, notification=notification):
                of_type = self._type_of(notification)
                if of_type is None:
                    effects.append(Refuse(client, "this notification is of no type that there is"))
                    return []
                return [(of_type, message)]
            case (
                Subscribe(source=client, id=id, filter=filter)
                | Advertise(source=client, id=id, filter=filter)
            ):
                return self._declared(message, client, id, filter, effects)
            case Unsubscribe(source=client, id=id) | Unadvertise(source=client, id=id):
                known = self._filters.pop((isinstance(message, Unadvertise), client, id), None)
                if known is None:
                    effects.append(Refuse(client, f"there is nothing under the id {id!r}", True))
                    return []
                return [(each, message) for each in self._types_of(known)]
            case Leave(source=client):
                for key in [key for key in self._filters if key[1] == client]:
                    del self._filters[key]
                return [(each, message) for each in self._trees]
            case Tick():
                return [(each, message) for each in self._trees]
            case Unlink(neighbour=neighbour):
                return [(each, message) for each, tree in self._trees.items() if neighbour in tree.links]
            case Join():
                return []
            case _:
                raise ValueRefused(f"a rendezvous broker does not take {type(message).__name__}")

    def _declared(
        self,
        message: Subscribe | Advertise,
        client: str,
        id: str,
        filter: Filter,
        effects: list[Effect],
    ) -> list[tuple[str, Message | Call | Command]]:
        types = self._types_of(filter)
        key = (isinstance(message, Advertise), client, id)
        if not types:
            effects.append(Refuse(client, "this filter matches nothing of any type that there is"))
            return []
        if self._filters.get(key, filter) != filter:
            effects.append(Refuse(client, f"the id {id!r} is taken"))
            return []
        self._filters[key] = filter
        return [(each, message) for each in types]

    def _types_of(self, filter: Filter) -> tuple[str, ...]:
        """The types of which a filter may match something."""
        if filter not in self._types:
            if len(self._types) >= TYPES_REMEMBERED:
                self._types.clear()
            self._types[filter] = tuple(
                each
                for each, of_type in self.settings.types.items()
                if overlaps(filter, of_type, self.settings.schema)
            )
        return self._types[filter]

    def _type_of(self, notification: Notification) -> str | None:
        for name, of_type in self.settings.types.items():
            if of_type.matches(notification):
                return name
        return None
