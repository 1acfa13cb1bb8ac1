"""Rendezvous brokers whose ring is kept by messages: brokers join, leave and fail while notifications flow.

    once nothing has changed for a while, all brokers agree on the root of every type, and every notification
    reaches everybody who wants it
    nobody knows more of the ring than messages have told it

A broker is a node of the ring (`overlay.pastry`) and a rendezvous broker. Its parent in the tree of a type is its
node's next hop towards the type's key; when the node learns of others, or drops some, the broker climbs to its new
parents. A newcomer asks a broker that it knows. Who leaves says goodbye. Of a failure nobody is told: brokers beat
for all that their node knows and for their neighbours in trees, and drop those that have been silent for a few
beats. With leaves alone, the first notification of a new tree could go to a broker that failed long ago.

What is in flight while trees change may be lost, or delivered twice, as on every overlay whose links change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct

from fairlead.broker.messages import Call, Climb, Command, Effect, Message, Refuse, Send, Tick, Unlink, Wake
from fairlead.routing import Catalogue
from fairlead_lab.broker.rendezvous import RendezvousBroker, RendezvousSettings
from fairlead_lab.overlay import pastry
from fairlead_lab.overlay.pastry import LEAVES, NodeId, PastryNode, Space
from fairlead_lab.overlay.rendezvous import rendezvous_key

__all__ = ["Depart", "Enter", "OnRing", "RingBroker", "RingCommand"]

BEAT_US: Final = 200_000
PATIENCE: Final = 3
"""After so many beats without a sign of life a broker counts as failed."""


class Beat(Struct, frozen=True):
    """A question whether a broker is there; it answers, unless it has a question itself."""

    is_answer: bool = False


class OnRing(Struct, frozen=True):
    """A message between two nodes of the ring, with the names of all nodes that it mentions."""

    source: str
    message: pastry.Message | Beat
    names: tuple[str, ...] = ()


class Enter(Struct, frozen=True):
    """A command: join the ring through a broker that is in it, or be the first."""

    via: str | None = None


class Depart(Struct, frozen=True):
    """A command: say goodbye, and leave the ring."""


RingCommand: TypeAlias = Enter | Depart


class RingBroker(RendezvousBroker):
    """A rendezvous broker and its node; outside of the ring until it has entered."""

    def __init__(
        self,
        name: str,
        settings: RendezvousSettings,
        catalogue: Catalogue,
        *,
        leaves: int = LEAVES,
        beat_us: int = BEAT_US,
    ) -> None:
        super().__init__(name, settings, self._next_hop, catalogue)
        self._space = Space()
        self.node = PastryNode(self._space.named(name), self._space, leaves=leaves)
        self._keys: Mapping[str, NodeId] = {
            each: rendezvous_key(each, self._space) for each in settings.types
        }
        self._names = {self.node.id: name}
        """The names of nodes, as messages told them."""
        self._beat_us = beat_us
        self._next_beat = 0
        self._last_active: dict[str, int] = {}
        """By the name of a broker that is watched, when there was a sign of life."""
        self._via: str | None = None
        self.is_member = False

    def _next_hop(self, type_name: str) -> str | None:
        """The parent in the tree of a type; None at its root."""
        hop = self.node.next_hop(self._keys[type_name])
        return None if hop is None else self._names[hop]

    def handle(self, message: Message | Call | Command | OnRing | RingCommand, now: int) -> list[Any]:
        """Take one step, at a time by the caller's clock in microseconds."""
        match message:
            case Enter(via):
                return self._enter(via, now)
            case Depart():
                return self._depart(now)
            case OnRing():
                return self._on_ring(message, now)
            case Tick() if not self.is_member:
                return self._ask_again(now)
            case _ if not self.is_member:
                return self._outside(message)
            case Tick():
                return [*super().handle(message, now), *self._tick(now)]
            case _:
                return super().handle(message, now)

    def _outside(self, message: Any) -> list[Effect]:
        """Refuse calls of clients; messages of trees are late."""
        return (
            [Refuse(message.source, f"{self.name} is not in the ring")] if isinstance(message, Call) else []
        )

    # -- joining and leaving -------------------------------------------------------------------------------

    def _enter(self, via: str | None, now: int) -> list[Any]:
        self._next_beat = now + self._beat_us
        self._via = via
        if via is None:
            self.is_member = True
            return [Wake(self._next_beat)]
        return [Wake(self._next_beat), *self._seek(via)]

    def _seek(self, via: str) -> list[Any]:
        id = self._know([via])[0]
        return self._sends(self.node.join(id))

    def _ask_again(self, now: int) -> list[Any]:
        """Ask once more for a position in the ring, where no answer has come."""
        if self._via is None or now < self._next_beat:
            return []
        return self._enter(self._via, now)

    def _depart(self, now: int) -> list[Any]:
        """Say goodbye to all that the node knows and to the neighbours in trees, and cut the links to these."""
        farewell = pastry.Goodbye(self.node.id, tuple(sorted(self.node.leaves)))
        known = {self._names[id] for id in self.node.known}
        neighbours = self._tree_neighbours()
        effects = [
            effect
            for each in sorted(neighbours)
            for effect in super(RingBroker, self).handle(Unlink(each), now)
        ]
        self.is_member, self._via = False, None
        return [*effects, *(Send(to, self._wrapped(farewell)) for to in sorted(known | neighbours))]  # type: ignore[arg-type]

    # -- messages of the ring ------------------------------------------------------------------------------

    def _on_ring(self, envelope: OnRing, now: int) -> list[Any]:
        source, message = envelope.source, envelope.message
        sender, *_ = self._know([source, *envelope.names])
        if not self.is_member:
            if not isinstance(message, pastry.Welcome):
                return []
            self.is_member = True
        self._last_active[source] = now
        effects: list[Any] = []
        if isinstance(message, Beat):
            if not message.is_answer:
                effects.append(Send(source, OnRing(self.name, Beat(is_answer=True))))  # type: ignore[arg-type]
            if sender in self.node.known:
                return effects  # nothing new
            effects += self._sends(self.node.handle(pastry.Hello(sender)))
        else:
            effects += self._sends(self.node.handle(message))
            if isinstance(message, pastry.Goodbye):
                effects += self._cut(source, now)
        return [*effects, *self._climb_all(now)]

    def _know(self, names: Iterable[str]) -> list[NodeId]:
        """The identifiers of names, which are known from now on."""
        ids = [(self._space.named(name), name) for name in names]
        self._names.update(ids)
        return [id for id, _ in ids]

    def _sends(self, effects: pastry.Effects) -> list[Any]:
        return [Send(self._names[to], self._wrapped(message)) for to, message in effects]  # type: ignore[arg-type]

    def _wrapped(self, message: pastry.Message) -> OnRing:
        ids = (
            *getattr(message, "ids", ()),
            *getattr(message, "met", ()),
            getattr(message, "newcomer", self.node.id),
        )
        return OnRing(self.name, message, tuple(sorted({self._names[id] for id in ids})))

    # -- trees ---------------------------------------------------------------------------------------------

    def _tree_neighbours(self) -> set[str]:
        return {each for name in self.trees for each in self.tree(name).links}

    def _climb_all(self, now: int) -> list[Any]:
        """Climb to the parents that the node names now."""
        effects: list[Any] = []
        if not self.is_member:
            return effects
        for name in self.trees:
            parent, tree = self._next_hop(name), self.tree(name)
            if parent != tree.parent or (parent is not None and parent not in tree.links):
                effects += super().handle(Climb(parent, name), now)
        return effects

    def _cut(self, neighbour: str, now: int) -> list[Any]:
        return super().handle(Unlink(neighbour), now) if neighbour in self._tree_neighbours() else []

    # -- failures ------------------------------------------------------------------------------------------

    def _tick(self, now: int) -> list[Any]:
        """Beat, and drop those that have been silent for too long."""
        if now < self._next_beat:
            return []
        self._next_beat = now + self._beat_us
        effects: list[Any] = [Wake(self._next_beat)]
        watched = sorted({self._names[id] for id in self.node.known} | self._tree_neighbours())
        self._last_active = {name: self._last_active.get(name, now) for name in watched}
        for name in watched:
            if now - self._last_active[name] > PATIENCE * self._beat_us:
                effects += self._dropped(name, now)
            else:
                effects.append(Send(name, OnRing(self.name, Beat())))  # type: ignore[arg-type]
        # Two that joined at the same time may have missed each other: the nearest leaves know.
        for side in (self.node.larger[:1], self.node.smaller[:1]):
            effects += self._sends([(leaf, pastry.Ask(self.node.id)) for leaf in side])
        return [*effects, *self._climb_all(now)]

    def _dropped(self, name: str, now: int) -> list[Any]:
        """A broker has failed: forget it in the ring and in the trees, and repair what it leaves open."""
        del self._last_active[name]
        repairs = self._sends(self.node.handle(pastry.Failed(self._space.named(name))))
        return [*repairs, *self._cut(name, now)]
