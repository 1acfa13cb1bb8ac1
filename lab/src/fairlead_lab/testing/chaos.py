"""Nodes under faults, in one process and in one order: the same plan gives the same run, to the last byte.

A `World` has brokers (`Node`s on disks in memory), clients, and connections that carry bytes. One seeded scheduler
decides what happens next: some bytes arrive, a log is synced, a client publishes; and, as the plan allows, a
connection breaks in the middle of a frame, a broker is killed or loses its power, is paused or cut off. After
that everything is mended, and when all is quiet the books are balanced (`fairlead_lab.chaos.accounts`).

No clock, no socket, no thread: what takes minutes with processes takes milliseconds here, so thousands of runs
are looked at, and a failure comes again with its plan.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Final

from fairlead.broker import Broker, Settings
from fairlead.errors import FairleadError, LogFull, ProtocolError, TopologyRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse, render
from fairlead.model import Notification
from fairlead.model.order import Identity, identity_of
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.ledger import Ledger
from fairlead.network.node import Node
from fairlead.network.sessions import Session
from fairlead.network.settings import Limits
from fairlead.overlay import Hierarchy, Topology
from fairlead.routing import STRATEGIES, Flooding
from fairlead_lab.chaos.accounts import Accounts
from fairlead_lab.testing.memory import MemoryDisk, PowerFailure

__all__ = ["FAULTS", "Plan", "World"]

FAULTS: Final = (
    "reset",
    "kill",
    "power",
    "pause",
    "partition",
    "slow disk",
    "crash a client",
    "full disk",
    "link",
)
"""A connection breaks; a broker is killed; the power fails; a broker stands still; two are cut off from each
other; syncs take long; a subscriber loses all it knew; a disk has no room; a broker is to be linked with another
one, which closes a cycle, or a guest leaves its place for another one, whoever is away."""
TREES: Final[tuple[tuple[tuple[int, int], ...], ...]] = (
    (),
    ((1, 0),),
    ((1, 0), (2, 1)),
    ((1, 0), (2, 1), (3, 1)),
    ((1, 0), (2, 1), (3, 1), (4, 3)),
)
"""By the number of brokers: who calls whom."""
FILTERS: Final = (
    "x >= 0",
    "x >= 5",
    "x < 5",
    "x = 3",
    'region = "north"',
    'x >= 5 and region = "south"',
    "x in {1, 2, 7}",
)
FILTERING: Final = sorted(STRATEGIES.keys() - {Flooding.name})
"""The algorithms by which filters travel: brokers may differ in them."""
LIMITS: Final = Limits(buffer_bytes=1_500, queue=20, window=8, link_window=16)
"""Small, so that everybody is too slow now and then."""
KERNEL_BYTES: Final = 500
"""So much has been written and not been read before anybody notices."""
SEGMENT_BYTES: Final = 4_000
SWEEPS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a run depends on."""

    seed: int = 0
    brokers: int = 3
    steps: int = 600
    faults: frozenset[str] = frozenset(FAULTS)
    strategy: str = "covering"
    producers: int = 2
    durables: int = 2
    listeners: int = 1
    often: float = 0.03
    """The share of steps that are faults."""
    both_call: bool = False
    """Whether both brokers of a link call each other."""
    advertisements: str | None = None
    """The algorithm of advertisements, if there are any."""
    hierarchical: bool = False
    """Whether the first broker is above all others; then links are not changed."""
    varies: bool = False
    """Whether each broker routes by an algorithm of its own, and by another one when it is started anew."""
    extra: int = 0
    """The number of links beyond a tree; where there are any, a link that closes a cycle is one more way."""
    dies: bool = False
    """Whether a broker without which the others are connected dies in the middle of the run, and never comes back;
    in the end the others are unlinked from it."""
    moves: float = 0
    """The share of a durable subscriber's actions that are moves to another broker, mostly without a goodbye."""
    producers_move: float = 0
    """The same of producers."""
    guests: int = 0
    """The number of further brokers, without clients, which are linked now with one and now with another."""


# -- connections ---------------------------------------------------------------------------------------------


class End:
    """One end of a connection: a node's `Peer`, or a client's socket. `inbox` is what has not arrived here yet."""

    def __init__(self, owner: Host | SimClient, url: str = "") -> None:
        self.owner, self.url = owner, url
        self.other: End
        self.inbox = bytearray()
        self.closed = False
        self.gone = False
        self.paused = False
        self.held = False
        self.stuffed = False
        self.frames = wire.Frames((owner.limits if isinstance(owner, Host) else LIMITS).frame_bytes)
        self.session: Session | None = None

    def write(self, data: bytes) -> None:
        if not self.closed and not self.other.gone:
            self.other.inbox += data
            self.stuffed = self.stuffed or self.buffered() > LIMITS.buffer_bytes // 2

    def buffered(self) -> int:
        return max(0, len(self.other.inbox) - KERNEL_BYTES)

    def close(self) -> None:
        self.closed = True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    @property
    def is_readable(self) -> bool:
        return (
            not self.gone
            and not self.held
            and bool((self.inbox and not self.paused) or (self.other.closed and not self.inbox))
        )

    def read(self, rng: Random | None) -> None:
        """Some bytes arrive, all without `rng`; or the end of the connection does."""
        if self.inbox:
            size = len(self.inbox)
            if rng is not None and rng.random() < 0.5:
                size = rng.randint(1, size)
            chunk = bytes(self.inbox[:size])
            del self.inbox[:size]
            self.owner.received(self, chunk)
            if self.other.stuffed and self.other.buffered() <= LIMITS.buffer_bytes // 8:
                self.other.stuffed = False
                self.other.owner.drained(self.other)
        else:
            self.vanish()
            self.owner.lost(self)

    def vanish(self) -> None:
        """This side is no more; the other reads what has been sent, and then that it ended."""
        self.closed = self.gone = True
        self.inbox.clear()

    def cut(self, rng: Random) -> None:
        """The connection breaks: of what is under way in either direction a part arrives, perhaps half a frame."""
        for end in (self, self.other):
            end.closed = True
            end.held = False
            del end.inbox[rng.randint(0, len(end.inbox)) :]


# -- brokers -------------------------------------------------------------------------------------------------


class Host:
    """A machine with a disk on which a broker runs, or does not."""

    def __init__(self, world: World, name: str, calls: tuple[str, ...]) -> None:
        self.world, self.name, self.calls = world, name, calls
        self.disk = MemoryDisk()
        self.limits = LIMITS
        self.node: Node | None = None
        self.paused = False
        self.slow = False
        self.lives = 0
        self.ends: list[End] = []
        self._synced: int | LogFull | None = None
        self.start()

    def start(self) -> None:
        """Run the broker."""
        world = self.world
        self.lives += 1
        strategy, advertised = world.plan.strategy, world.plan.advertisements
        if world.plan.varies:
            chance = Random(f"{world.plan.seed} {self.name} {self.lives}")
            strategy = chance.choice(FILTERING)
            advertised = None if advertised is None else chance.choice(FILTERING)
        advertisements = None if advertised is None else STRATEGIES[advertised](0.1)
        routing = Settings(
            STRATEGIES[strategy](0.1),
            advertisements,
            parent=world.parents.get(self.name),
            grows=world.plan.hierarchical,
            redundant=world.plan.extra > 0,
            lasting=True,
        )
        broker = Broker(self.name, routing)
        ledger = Ledger(f"/{self.name}", self.disk, segment_bytes=SEGMENT_BYTES)
        life = f"{self.name}.{self.lives}"
        self.node = world.make_node(broker, ledger, self.limits, life=life, now=world.now)
        for url in self.calls:
            self.node.neighbourhood.call(url)

    def kill(self, power: Random | None = None) -> None:
        """End the broker at once; with `power`, with what was not synced."""
        self.node, self._synced, self.paused, self.slow = None, None, False, False
        for end in self.ends:
            end.vanish()
        self.ends.clear()
        if power is None:
            self.disk.kill()
        else:
            self.disk.lose_power(power)

    def received(self, end: End, chunk: bytes) -> None:
        """Take what comes in, as the server does."""
        assert self.node is not None
        frames = end.frames.feed(chunk)
        if end.session is None:
            try:
                first = next(frames, None)
                if first is None:
                    return
                match wire.parse_control(first[1]):
                    case wire.Hello() as hello if not end.url:
                        end.session = self.node.greet(end, hello, self.world.now)
                    case wire.Welcome() as welcome if end.url:
                        end.session = self.node.welcomed(end, end.url, welcome, self.world.now)
                    case wire.Bye():
                        end.close()
                        return
                    case other:
                        raise ProtocolError(f"a connection does not begin with {other}")
            except FairleadError as error:
                end.write(wire.control(wire.Bye(str(error))))
                end.close()
                return
        self.node.receive(end.session, frames, self.world.now)

    def lost(self, end: End) -> None:
        """A connection has ended."""
        self.ends.remove(end)
        if self.node is not None and end.session is not None:
            self.node.lost(end.session)

    def drained(self, end: End) -> None:
        """Most of what was written has gone out."""
        if self.node is not None and end.session is not None and not end.session.ended:
            self.node.drained(end.session)

    @property
    def has_work(self) -> bool:
        """Whether something is to be sent or to be synced."""
        node = self.node
        return node is not None and bool(node.is_busy or self._synced is not None or node.wants_sync)

    def work(self, *, disk: bool = True) -> None:
        """Send what is to be sent; begin a sync, or end the one that is under way, if the disk does its work."""
        node = self.node
        assert node is not None
        assert node.ledger is not None
        try:
            node.flush()
        except PowerFailure:
            self.kill(self.world.rng)
            return
        if not disk:
            return
        if self._synced is not None:
            synced, self._synced = self._synced, None
            if isinstance(synced, LogFull):
                node.log_is_full(synced, self.world.now)
            else:
                node.synced(synced)
        elif node.wants_sync:
            self._sync(node.ledger)

    def _sync(self, ledger: Ledger) -> None:
        try:
            self._synced = ledger.log.sync()
        except LogFull as error:
            self._synced = error
        except PowerFailure:
            self.kill(self.world.rng)

    def keep_house(self, *, gather: bool = False) -> None:
        """Look after the node from time to time, as the server does."""
        node = self.node
        assert node is not None
        assert node.ledger is not None
        try:
            node.tick(self.world.now)
            node.save(self.world.now)
            if gather:
                node.ledger.gather(self.world.now)
                node.ledger.retain(self.world.now, max_bytes=SEGMENT_BYTES)
        except LogFull:
            return
        except PowerFailure:
            self.kill(self.world.rng)
            return
        if self._synced is None and node.ledger.log.cursors.changed and not node.wants_sync:
            self._sync(node.ledger)

    def dial(self) -> bool:
        """Call the neighbours that are not connected; whether there were any."""
        node = self.node
        assert node is not None
        dialled = False
        for url, name in list(node.calling.calls.items()):
            # Brokers are called by their names here.
            if node.neighbourhood.is_connected(name or url) or any(end.url == url for end in self.ends):
                continue
            if self.world.connect(self, url, url):
                self.ends[-1].write(wire.control(node.hello(name)))
                dialled = True
        return dialled


# -- clients -------------------------------------------------------------------------------------------------


class SimClient:
    """A client without a clock: it does what the real one does, when it is told to."""

    def __init__(self, world: World, name: str, broker: str) -> None:
        self.world, self.name, self.broker = world, name, broker
        self.end: End | None = None
        self.welcome = False
        self.number = 0
        self.connections = 0

    def connect(self) -> bool:
        """Call the broker, if it can be reached; whether it was called."""
        if self.end is not None or not self.world.connect(self, self.broker, self.broker):
            return False
        assert self.end is not None
        self.connections += 1
        hello = wire.Hello(wire.VERSION, "client", self.name, connection=self.connections)
        self.end.write(wire.control(hello))
        return True

    def received(self, end: End, chunk: bytes) -> None:
        """Frames from the broker."""
        for kind, payload in end.frames.feed(chunk):
            if kind == wire.CONTROL:
                self.on_message(wire.parse_control(payload))
            else:
                self.got(kind, payload)

    def on_message(self, message: wire.Control) -> None:
        """A message from the broker."""
        if isinstance(message, wire.Welcome):
            self.welcome = True
            self.welcomed()

    def welcomed(self) -> None:
        """The connection is made."""

    def got(self, kind: int, payload: bytes) -> None:
        """Another frame from the broker."""
        raise AssertionError(f"{self.name} got a frame of the kind {kind}")

    def act(self, rng: Random) -> None:
        """Do something, if there is something to do."""

    def settle(self) -> bool:
        """Do what is left to be done, of all that was begun; whether there was anything."""
        return False

    def lost(self, end: End) -> None:
        """The connection has ended."""
        if self.end is end:
            self.end, self.welcome = None, False

    def drained(self, end: End) -> None:
        """Clients do not mind."""

    def send(self, frame: bytes) -> None:
        """Send, if it is connected."""
        if self.end is not None:
            self.end.write(frame)


class Producer(SimClient):
    """Publishes, several at a time, and again what was not acknowledged when the connection broke."""

    def __init__(self, world: World, name: str, broker: str, *, total: int, window: int) -> None:
        super().__init__(world, name, broker)
        self.left, self.window = total, window
        self.unstored: dict[int, tuple[bytes, Identity]] = {}
        self.rest = 0
        """The number of turns it does nothing before it comes back."""
        self.advertising = 0
        """The number under which it has said what it will publish; until the answer it publishes nothing."""
        self.following = 0
        """The number under which it has asked when all has come that it published elsewhere."""
        self.has_moved = False

    def connect(self) -> bool:
        if self.rest:
            self.rest -= 1
            return False
        return super().connect()

    @property
    def may_publish(self) -> bool:
        return self.welcome and not self.advertising and not self.following

    def move(self, rng: Random) -> None:
        """Go to another broker, without a goodbye."""
        if self.end is not None:
            self.end.vanish()
            self.lost(self.end)
        self.broker = rng.choice([name for name in self.world.hosts if not name.startswith("g")])
        self.has_moved = True
        self.world.moved += 1

    def act(self, rng: Random) -> None:
        if self.world.plan.producers_move and rng.random() < self.world.plan.producers_move:
            self.move(rng)
            return
        if self.end is not None and not self.unstored and rng.random() < 0.05:
            self.send(wire.control(wire.Bye("gone for a while")))
            self.end.vanish()
            self.lost(self.end)
            self.rest = rng.choice((0, 0, 5))
            return
        for _ in range(rng.choice((1, 1, 3))):
            if self.left and len(self.unstored) < self.window:
                self._publish(rng)

    def _publish(self, rng: Random) -> None:
        self.left -= 1
        self.number += 1
        fields: dict[str, object] = {"x": rng.randint(0, 9), "region": rng.choice(("north", "south"))}
        if rng.random() < 0.1:
            fields["tags"] = frozenset({"a"})  # not plain: it takes the longer way through the node
        notification = Notification.of({**fields, "producer": self.name, "id": f"{self.name}{self.number}"})
        self.world.accounts.publishing(notification)
        packed = pack(notification)
        self.unstored[self.number] = (packed, identity_of(notification))
        if self.may_publish:
            self.send(wire.publish(self.number, packed))

    def welcomed(self) -> None:
        self.advertising = self.following = 0
        if self.has_moved:
            self.number += 1
            self.following = self.number
            unsure = [(each.producer, each.id) for _, each in self.unstored.values()]
            self.send(wire.control(wire.Follow(self.number, unsure)))
        if self.world.plan.advertisements is not None:
            self.number += 1
            self.advertising = self.number
            self.send(wire.control(wire.Advertise(self.number, "all", "exists x")))
        if self.may_publish:
            self._begin()

    def _begin(self) -> None:
        # Numbers grow along a connection.
        again, self.unstored = list(self.unstored.values()), {}
        for packed, identity in again:
            self.number += 1
            self.unstored[self.number] = (packed, identity)
            self.send(wire.publish(self.number, packed))

    def on_message(self, message: wire.Control) -> None:
        super().on_message(message)
        if isinstance(message, wire.Done):
            self.advertising *= message.number != self.advertising
            self.following *= message.number != self.following
            if self.may_publish:
                self._begin()
        if isinstance(message, wire.Refused) and message.number in self.unstored:
            packed, identity = self.unstored.pop(message.number)
            self.world.accounts.refused(identity)
            if self.world.rng.random() < 0.5:
                # Whoever is refused may try again, with the same id.
                self.world.accounts.publishing(unpack(packed))
                self.number += 1
                self.unstored[self.number] = (packed, identity)
                self.send(wire.publish(self.number, packed))

    def got(self, kind: int, payload: bytes) -> None:
        assert kind == wire.STORED
        number, _ = wire.parse_numbered(payload)
        for each in [each for each in self.unstored if each <= number]:
            self.world.accounts.acknowledged(self.unstored.pop(each)[1])

    def settle(self) -> bool:
        return bool(self.unstored) or bool(self.advertising) or bool(self.following)


@dataclass(slots=True)
class ClientSubscription:
    """A subscription of a client."""

    filter: Filter
    durable: str
    number: int = 0
    sent: bool = False
    done: bool = False


class Listener(SimClient):
    """Subscribes, durably or not, and accepts late; it knows by the places what it has seen in this life."""

    def __init__(self, world: World, name: str, broker: str, *, filters: list[str], durable: bool) -> None:
        super().__init__(world, name, broker)
        self.durable = name if durable else ""
        self.planned = [ClientSubscription(parse(text), self.durable) for text in filters]
        self.subscriptions: dict[str, ClientSubscription] = {}
        self.life = 0
        self.seen = 0
        self.unaccepted: list[int] = []
        self.moves = 0

    def act(self, rng: Random) -> None:
        if self.durable and self.world.plan.moves and rng.random() < self.world.plan.moves:
            self.move(rng)
            return
        action = rng.random()
        if self.planned and action < 0.3:
            subscription = self.planned.pop()
            id = f"s{len(self.subscriptions)}"
            self.subscriptions[id] = subscription
            self.world.accounts.subscribing(self.name, id, subscription.filter, durable=bool(self.durable))
            if self.welcome:
                self._subscribe(id)
        elif self.unaccepted and self.welcome and action < 0.8:
            self._accept(rng.randint(1, len(self.unaccepted)))
        elif self.end is not None and action > 0.97:
            self.send(wire.control(wire.Bye("gone for a while")))
            self._leave()

    def crash(self) -> None:
        """Forget all that was seen; the next life goes on from what was accepted."""
        self._leave()
        self.life += 1
        self.seen = 0
        self.unaccepted.clear()

    def move(self, rng: Random) -> None:
        """Go to another broker, or come back to one."""
        self._leave()
        self.broker = rng.choice([name for name in self.world.hosts if not name.startswith("g")])
        self.moves += 1
        self.world.moved += 1
        self.unaccepted.clear()
        if rng.random() < 0.2:
            self.crash()

    def _leave(self) -> None:
        if self.end is not None:
            self.end.vanish()
            self.lost(self.end)

    def _subscribe(self, id: str) -> None:
        subscription = self.subscriptions[id]
        self.number += 1
        subscription.number, subscription.sent = self.number, True
        self.send(
            wire.control(
                wire.Subscribe(
                    self.number,
                    id,
                    self.world.text_of(subscription.filter),
                    subscription.durable,
                    moves=self.moves,
                )
            )
        )

    def _accept(self, count: int) -> None:
        places, self.unaccepted = self.unaccepted[:count], self.unaccepted[count:]
        self.send(wire.control(wire.Accept(self.durable, places)))

    def welcomed(self) -> None:
        for id in self.subscriptions:
            self._subscribe(id)

    def on_message(self, message: wire.Control) -> None:
        super().on_message(message)
        if isinstance(message, wire.Done | wire.Refused):
            for id, subscription in self.subscriptions.items():
                if subscription.number == message.number and isinstance(message, wire.Done):
                    subscription.done = True
                    self.world.accounts.subscribed(self.name, id)
                elif subscription.number == message.number or (
                    isinstance(message, wire.Refused) and message.durable
                ):
                    self._subscribe(id)  # refused: until there is room, or the place is free

    def got(self, kind: int, payload: bytes) -> None:
        assert kind == wire.DELIVER
        place, head, packed = wire.parse_deliver(payload)
        ids, _ = wire.attempt_in(head)
        if place:
            if place <= self.seen:
                if place not in self.unaccepted:
                    self.unaccepted.append(place)
                return
            self.seen = place
            self.unaccepted.append(place)
        self.world.accounts.delivered(self.name, unpack(packed), ids, self.life)

    def settle(self) -> bool:
        if self.unaccepted and self.welcome:
            self._accept(len(self.unaccepted))
            return True
        return any(
            subscription.sent and not subscription.done for subscription in self.subscriptions.values()
        )


# -- the world -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class World:
    """A network of brokers and clients, and what becomes of it."""

    plan: Plan
    make_node: Callable[..., Node] = Node
    now: int = 1_000_000
    rng: Random = field(init=False)
    accounts: Accounts = field(default_factory=Accounts)
    hosts: dict[str, Host] = field(default_factory=dict)
    clients: list[SimClient] = field(default_factory=list)
    happened: dict[str, int] = field(default_factory=dict)
    moved: int = 0
    parents: Mapping[str, str] = field(default_factory=dict)
    """In a hierarchy, the broker above each."""
    dead: str = ""
    """The broker that dies."""
    _is_half_over: bool = False
    _parted: set[frozenset[str]] = field(default_factory=set)
    _texts: dict[Filter, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = self.plan
        self.rng = rng = Random(plan.seed)
        names = [f"b{number}" for number in range(plan.brokers)]
        calls: dict[str, list[str]] = {name: [] for name in names}
        for caller, called in TREES[plan.brokers - 1]:
            calls[names[caller]].append(names[called])
            if plan.both_call:
                calls[names[called]].append(names[caller])
        links = [(names[one], names[other]) for one, other in TREES[plan.brokers - 1]]
        further = [pair for pair in combinations(names, 2) if pair not in links and pair[::-1] not in links]
        if plan.extra:
            chosen = rng.sample(further, min(plan.extra, len(further)))
            links += chosen
            for above, below in chosen:
                calls[below].append(above)
        if plan.dies:
            self.dead = _spare(links, names)
        if plan.hierarchical:
            self.parents = Hierarchy.of(Topology.explicit(links, names), (names[0],)).parents
        for name in names:
            self.hosts[name] = Host(self, name, tuple(calls[name]))
        for number in range(plan.guests):
            self.hosts[f"g{number}"] = Host(self, f"g{number}", ())
        living = [name for name in names if name != self.dead]
        for number in range(plan.producers):
            total, window = rng.randint(5, 30 + plan.steps // 20), rng.choice((1, 4, 16))
            self.clients.append(Producer(self, f"p{number}", rng.choice(living), total=total, window=window))
        for number in range(plan.durables + plan.listeners):
            durable = number < plan.durables
            filters = rng.sample(FILTERS, rng.choice((1, 1, 2)))
            name = f"{'d' if durable else 'l'}{number}"
            self.clients.append(Listener(self, name, rng.choice(living), filters=filters, durable=durable))

    def text_of(self, filter: Filter) -> str:
        """A filter as it is sent."""
        return self._texts.setdefault(filter, render(filter))

    def connect(self, owner: Host | SimClient, to: str, url: str) -> bool:
        """Open a connection to a broker, if it can be reached."""
        host = self.hosts.get(to)
        if host is None or host.node is None or frozenset((owner.name, to)) in self._parted:
            return False
        near, far = End(owner, url), End(host)
        near.other, far.other = far, near
        host.ends.append(far)
        if isinstance(owner, Host):
            owner.ends.append(near)
        else:
            owner.end = near
        return True

    # -- a run -------------------------------------------------------------------------------------------------

    def run(self) -> Accounts:
        """Brokers are linked; steps with faults; then mending, then quiet."""
        self.settle()
        for number in range(self.plan.steps):
            if number == self.plan.steps // 2 and self.dead:
                self._is_half_over = True
                self.hosts[self.dead].kill()
            self._step()
        self.heal()
        self.settle()
        assert not self.restless(), f"quiet, but not done: {self.restless()}"
        return self.accounts

    def settle(self) -> None:
        """Everything goes on until nothing is under way; a disk that is slow does nothing."""
        for _ in range(SWEEPS_MAX):
            if not self._sweep():
                return
        raise AssertionError(f"never quiet: {self.restless()}")

    def _step(self) -> None:
        rng = self.rng
        self.now += rng.randint(1, 1_000)
        if rng.random() < self.plan.often:
            self._break()
            return
        action = rng.random()
        if action < 0.55:
            self._read()
        elif action < 0.75:
            host = rng.choice(list(self.hosts.values()))
            if host.has_work and not host.paused:
                host.work(disk=not host.slow or rng.random() < 0.05)
        elif action < 0.92:
            client = rng.choice(self.clients)
            if client.end is None:
                client.connect()
            else:
                client.act(rng)
        else:
            host = rng.choice(list(self.hosts.values()))
            if host.node is None and not self._is_gone(host):
                host.start()
            elif host.node is not None and not host.paused:
                host.dial()
                if rng.random() < 0.3:
                    host.keep_house(gather=rng.random() < 0.2)

    def _is_gone(self, host: Host) -> bool:
        return host.name == self.dead and self._is_half_over

    def _read(self) -> None:
        ends = [end for end in self._awake() if end.is_readable]
        if ends:
            # Whatever arrives, much of it arrives in a row.
            end = self.rng.choice(ends)
            end.read(self.rng)

    def _ends(self) -> Iterator[End]:
        for host in self.hosts.values():
            yield from host.ends
        for client in self.clients:
            if client.end is not None:
                yield client.end

    def _awake(self) -> Iterator[End]:
        return (end for end in self._ends() if not (isinstance(end.owner, Host) and end.owner.paused))

    def _break(self) -> None:
        """One fault, or the end of one."""
        rng = self.rng
        if not self.plan.faults:
            return
        fault = rng.choice(sorted(self.plan.faults))
        host = rng.choice(list(self.hosts.values()))
        if fault == "reset":
            ends = list(self._ends())
            if not ends:
                return
            rng.choice(ends).cut(rng)
        elif fault == "kill":
            if host.node is None:
                return
            host.kill()
        elif fault == "power":
            if host.node is None:
                return
            if rng.random() < 0.5:
                host.disk.fuse = rng.randint(0, 5)  # in the middle of one of the next operations
            else:
                host.kill(rng)
        elif fault == "pause":
            host.paused = not host.paused
        elif fault == "partition":
            self._partition(rng)
        elif fault == "slow disk":
            host.slow = not host.slow
        elif fault == "full disk":
            if host.disk.room is None and host.node is not None:
                host.disk.room = host.disk.used() + rng.randint(0, 600)
            else:
                host.disk.room = None
        elif fault == "link":
            self._link(rng)
        else:
            client = rng.choice(self.clients)
            if not isinstance(client, Listener):
                return
            client.crash()
        self.happened[fault] = self.happened.get(fault, 0) + 1
        self.accounts.fault(fault, broker=host.name)

    def _link(self, rng: Random) -> None:
        """A guest is linked with another broker than before, or any two brokers are to be linked."""
        named = rng.choice(list(self.hosts))
        others = [host for name, host in self.hosts.items() if name != named and not name.startswith("g")]
        node = self.hosts[named].node
        if not others:
            return
        if named.startswith("g"):
            for host in [self.hosts[named], *others]:
                if host.node is not None and rng.random() < 0.5:
                    known = [*host.node.links] if host.name == named else [named] * (named in host.node.links)
                    for each in known:
                        with contextlib.suppress(LogFull):
                            host.node.neighbourhood.unlink(each, self.now)
        if node is not None:
            node.neighbourhood.call(rng.choice(others).name)

    def _partition(self, rng: Random) -> None:
        if self._parted and rng.random() < 0.5:
            self._mend(rng.choice(sorted(self._parted, key=sorted)))
            return
        one, other = rng.choice(list(self.hosts)), rng.choice([*self.hosts, *(c.name for c in self.clients)])
        if one == other:
            return
        self._parted.add(frozenset((one, other)))
        for end in self._ends():
            if {end.owner.name, end.other.owner.name} == {one, other}:
                end.held = end.other.held = True

    def _mend(self, pair: frozenset[str]) -> None:
        self._parted.discard(pair)
        for end in self._ends():
            if {end.owner.name, end.other.owner.name} == pair:
                end.held = end.other.held = False

    def heal(self) -> None:
        """Mend all that is broken."""
        for host in self.hosts.values():
            host.paused = host.slow = False
            host.disk.fuse = host.disk.room = None
            if host.node is None and not self._is_gone(host):
                host.start()
        for host in [*self.hosts.values()] if self.dead else []:
            if host.node is not None and self.dead in host.node.links:
                host.node.neighbourhood.unlink(self.dead, self.now)
        self.hosts.pop(self.dead, None)
        for pair in list(self._parted):
            self._mend(pair)

    def _sweep(self) -> bool:
        """Everything once; whether anything happened."""
        busy = False
        self.now += 1_000
        for end in list(self._ends()):
            if end.is_readable:
                end.read(None)
                busy = True
        running = [host for host in self.hosts.values() if host.node is not None]
        for host in running:
            if host.has_work:
                host.work(disk=not host.slow)
                busy = busy or not host.slow
            busy = (host.node is not None and host.dial()) or busy
        waits = False
        for client in self.clients:
            busy = client.connect() or busy
            waits = client.settle() or waits
        if not busy and (self.plan.extra or self.plan.moves or self.plan.producers_move or not waits):
            for host in running:
                if not host.slow and host.node is not None:
                    host.keep_house()
                    busy = busy or host.has_work
        return busy or waits

    def restless(self) -> list[str]:
        """The work that is not done."""
        found = [f"{identity} is not acknowledged" for identity in self.accounts.open[:5]]
        for host in self.hosts.values():
            assert host.node is not None
            for name, link in host.node.links.items():
                if not (link.session is not None and link.ready and link.live and not link.unconfirmed):
                    found.append(f"{host.name} is not through with {name}")
            for name, durable in host.node.durables.items():
                if durable.session is None or not durable.live or durable.unconfirmed or durable.after:
                    found.append(f"{host.name} is not through with the subscriber {name}")
        links = {frozenset((name, each)) for name, host in self.hosts.items() for each in _node(host).links}
        for one, other in map(sorted, links):
            if not (one in _node(self.hosts[other]).links and other in _node(self.hosts[one]).links):
                found.append(f"only one of {one} and {other} is linked with the other")
        if not self.plan.extra and _is_circular(links):
            found.append(f"there is a cycle in {sorted(map(sorted, links))}")
        for client in self.clients:
            if isinstance(client, Listener):
                found += [
                    f"{client.name} is not subscribed to {subscription.filter}"
                    for subscription in client.subscriptions.values()
                    if not subscription.done
                ]
        return found


def _node(host: Host) -> Node:
    assert host.node is not None
    return host.node


def _spare(links: list[tuple[str, str]], names: list[str]) -> str:
    """The last broker without which all others are still connected."""
    for name in reversed(names):
        with contextlib.suppress(TopologyRefused):
            Topology.explicit(links, names).without(name)
            return name
    return ""


def _is_circular(links: set[frozenset[str]]) -> bool:
    """Whether somewhere there is more than one way between two brokers."""
    pieces: dict[str, set[str]] = {}
    for one, other in map(sorted, links):
        if other in pieces.setdefault(one, {one}):
            return True
        joined = pieces[one] | pieces.setdefault(other, {other})
        pieces |= dict.fromkeys(joined, joined)
    return False
