"""The architectures of scopes (book 6.7) over one tree of brokers: what each delivers, and at what cost.

    collapsed    one flat service; a subscription is a filter and what is visible to its component (4822)
    hub          one broker has the whole graph (4830)
    addresses    a notification has one scope's address; a relay for each scope publishes it again (4836)
    brokers      a scope is a broker of its own, and the graph is the overlay (4927)
    integrated   routing tables for each scope in every broker of its overlay (4969); a notification crosses from
                 one scope into another at the first broker that has both, at a gateway, or in one message for all
    bridged      integrated routing in scopes without subscopes, addresses above; each edge between the two has a
                 gateway, with a local broker on either side (5254)
    live         the brokers of the product themselves (`fairlead.rules.integrated`)

Law: every architecture delivers what the scope graph says (`fairlead.scopes.plan`), whatever the tree, for graphs
of interfaces and mappings. They differ in messages over links, in accesses to the medium and in table sizes.

The overlay of a scope is the least part of the tree that connects the brokers of its simple members and touches
the overlay of each subscope; its brokers are the scope brokers (4979). Two overlays have a connected part in
common, so a notification that crosses where it first meets that part crosses once (E16).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from fairlead.broker import Broker, Settings
from fairlead.broker.messages import Call, Deliver, Effect, Forward, Message, Publish, Send, Subscribe
from fairlead.filters import Filter
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.overlay import Topology
from fairlead.routing import Catalogue
from fairlead.routing.covering import Covering
from fairlead.rules.integrated import BrokerScoping
from fairlead.scopes import ScopeGraph, ScopePlan, System
from fairlead.scopes.sights import tag_of

__all__ = ["ARCHITECTURES", "LiveNetwork", "Overlay", "Run", "Table", "entries"]

Subscriptions = Mapping[str, Iterable[Filter]]


@dataclass(slots=True)
class Run:
    """The outcome of one notification."""

    delivered: set[tuple[str, str]] = field(default_factory=set)
    """Components, each with the tag of the version that it got."""
    links: list[tuple[str, str]] = field(default_factory=list)
    """The links over which a message went, each time it did."""
    accesses: int = 0
    """The number of uses of the communication medium (book Fig. 6.18)."""

    @property
    def messages(self) -> int:
        """Messages between brokers."""
        return len(self.links)


class Table(NamedTuple):
    """The routing table of one scope at one broker: links and local clients, and tables of other scopes there."""

    remote: tuple[str, ...]
    subscopes: tuple[str, ...]
    superscopes: tuple[str, ...]

    def __len__(self) -> int:
        return sum(map(len, self))


class _Copy(NamedTuple):
    """A notification in a scope at a broker, with its annotations (5057)."""

    broker: str
    link: str | None
    scope: str
    version: Notification
    downward: bool
    left: frozenset[str]
    """The components that it has left upwards: it does not come back into them (E18)."""


@dataclass(frozen=True)
class Overlay:
    """A scope graph over a tree of brokers: `at` says at which broker each simple component is."""

    graph: ScopeGraph
    topology: Topology
    at: Mapping[str, str]

    @cached_property
    def plan(self) -> ScopePlan:
        return ScopePlan(self.graph)

    # -- the tree --------------------------------------------------------------------------------------------

    @cached_property
    def _parents(self) -> dict[str, dict[str, str | None]]:
        return {broker: dict(self.topology.spanning_tree(broker)) for broker in self.topology.brokers}

    def path(self, source: str, target: str) -> list[str]:
        """The brokers from one to another, both included."""
        towards = self._parents[target]
        path = [source]
        while path[-1] != target:
            above = towards[path[-1]]
            assert above is not None, "a tree is connected"
            path.append(above)
        return path

    def _multicast(self, source: str, targets: Iterable[str]) -> list[tuple[str, str]]:
        """The links of the tree from a broker to some others, each once."""
        links: dict[tuple[str, str], None] = {}
        for target in targets:
            path = self.path(source, target)
            links.update(dict.fromkeys(pairwise(path)))
        return list(links)

    # -- overlays of scopes, tables, look-up -----------------------------------------------------------------

    @cached_property
    def brokers(self) -> dict[str, frozenset[str]]:
        """The scope brokers of each scope that carries."""
        scopes = [scope.name for scope in self.graph.scopes if not scope.abstract]
        found: dict[str, frozenset[str]] = {}
        for scope in self.graph.above(*scopes):  # members first
            members = self.graph.members(scope)
            homes = sorted({self.at[name] for name in members if name in self.at})
            below = [found[name] for name in sorted(members) if found.get(name)]
            overlay: set[str] = set(homes[:1]) or ({min(below[0])} if below else set())
            for home in homes:
                overlay.update(self.path(homes[0], home))
            for other in below:
                if overlay.isdisjoint(other):
                    paths = [self.path(one, another) for one in overlay for another in other]
                    nearest: list[str] = min(paths, key=_short)
                    overlay.update(nearest)
            found[scope] = frozenset(overlay)
        return found

    def _scopes_around(self, scope: str) -> tuple[list[str], list[str]]:
        """The subscopes and superscopes of a scope that carry."""
        below = [name for name in sorted(self.graph.members(scope)) if self.brokers.get(name)]
        return below, [parent.scope for parent in self.plan.parents(scope)]

    def table(self, broker: str, scope: str) -> Table:
        """RT of a broker and a scope (5003): where what is in the scope goes from there."""
        overlay = self.brokers[scope]
        links = [name for name in self.topology.neighbours(broker) if name in overlay]
        clients = [name for name in self.graph.members(scope) if self.at.get(name) == broker]
        below, above = self._scopes_around(scope)
        return Table(
            tuple(sorted([*links, *clients])),
            tuple(name for name in below if broker in self.brokers[name]),
            tuple(sorted(name for name in above if broker in self.brokers[name])),
        )

    def lookup(self, broker: str, scope: str) -> str:
        """ST: the broker itself, or the neighbour that leads to the nearest scope broker (5011)."""
        path = min((self.path(broker, each) for each in self.brokers[scope]), key=_short)
        return path[0] if len(path) == 1 else path[1]

    def seat(self, scope: str) -> str:
        """The one broker of a scope, where an architecture gives it one: the first of its overlay."""
        return min(self.brokers[scope])

    @property
    def table_size(self) -> int:
        """Entries of all tables of integrated routing."""
        return sum(len(self.table(broker, scope)) for scope, all in self.brokers.items() for broker in all)

    # -- integrated routing (Figs. 6.25 to 6.27) -------------------------------------------------------------

    def integrated(
        self,
        notification: Notification,
        subscriptions: Subscriptions,
        gateway: Callable[[str, str], str] | None = None,
    ) -> Run:
        """Integrated routing; crossing at the first broker with both scopes, or at the gateway of the edge."""
        return _Routing(self, notification, subscriptions, gateway).run()

    def combined(self, notification: Notification, subscriptions: Subscriptions) -> Run:
        """Integrated routing with one message for all scopes that a link is used for (5196)."""
        run = self.integrated(notification, subscriptions)
        run.links = list(dict.fromkeys(run.links))
        run.accesses = max(1, run.messages)
        return run

    # -- the others ------------------------------------------------------------------------------------------

    def _seen(self, notification: Notification, subscriptions: Subscriptions) -> set[tuple[str, str]]:
        def matched(version: Notification) -> list[str]:
            return [name for name, each in subscriptions.items() if any(f.matches(version) for f in each)]

        return {(sight.component, sight.tag) for sight in self.plan.reach(notification, matched).sights}

    def _home(self, component: str) -> str:
        return self.at.get(component, self.topology.brokers[0])

    def collapsed(self, notification: Notification, subscriptions: Subscriptions) -> Run:
        """A flat service whose subscriptions say what is visible: the links to those who get it, each once."""
        seen = self._seen(notification, subscriptions)
        homes = sorted({self._home(name) for name, _ in seen})
        return Run(seen, self._multicast(self._home(notification.producer), homes), 1)

    def hub(self, notification: Notification, subscriptions: Subscriptions) -> Run:
        """All go to the broker that has the graph, the first one, and from there to those who get it."""
        seen, hub = self._seen(notification, subscriptions), self.topology.brokers[0]
        homes = sorted({self._home(name) for name, _ in seen if name != notification.producer})
        up = self._multicast(self._home(notification.producer), [hub])
        return Run(seen, [*up, *self._multicast(hub, homes)], 2)

    def addresses(self, notification: Notification, subscriptions: Subscriptions) -> Run:
        """A relay for each scope, at its seat, publishes what is published to its address to other addresses."""
        return _Relaying(self, notification, subscriptions, multicast=True).run()

    def bridged(self, notification: Notification, subscriptions: Subscriptions) -> Run:
        """Integrated routing in scopes without subscopes, relays in the others, and gateways at the edges
        between."""
        return _Bridging(self, notification, subscriptions).run()

    def live(self, notification: Notification, subscriptions: Subscriptions) -> Run:
        """The live brokers, without their sockets."""
        return self.network(subscriptions).publish(notification)

    def network(self, subscriptions: Subscriptions) -> LiveNetwork:
        """The live brokers with these subscriptions."""
        known = self._networks.get(id(subscriptions))
        if known is None:
            known = self._networks[id(subscriptions)] = (subscriptions, LiveNetwork(self, subscriptions))
        return known[1]

    @cached_property
    def _networks(self) -> dict[int, tuple[Subscriptions, LiveNetwork]]:
        return {}

    @cached_property
    def relayed(self) -> frozenset[str]:
        """The scopes that have a relay where two architectures are bridged: those with subscopes."""
        return frozenset(scope for scope in self.brokers if self._scopes_around(scope)[0])

    def gate(self, member: str, scope: str) -> str:
        """The local broker of a gateway on the integrated side: the nearest one to the seat of the subscope."""
        side = scope if member in self.relayed else member
        return min((self.path(self.seat(member), each) for each in self.brokers[side]), key=_short)[-1]

    def scope_brokers(self, notification: Notification, subscriptions: Subscriptions) -> Run:
        """Each scope is one broker, at its seat: every edge of the graph on a delivery path is a message."""
        return _Relaying(self, notification, subscriptions, multicast=False).run()


def _short(path: list[str]) -> tuple[int, list[str]]:
    return len(path), path


class _Interest:
    """The interests beyond an edge; what nobody wants is not sent."""

    def __init__(self, overlay: Overlay, published: Notification, subscriptions: Subscriptions) -> None:
        self.overlay, self.published, self.subscriptions = overlay, published, subscriptions
        self.graph, self.plan = overlay.graph, overlay.plan

    def wants(self, component: str, version: Notification) -> bool:
        """Whether a simple component has a subscription that matches."""
        return any(each.matches(version) for each in self.subscriptions.get(component, ()))

    def local(self, scope: str, version: Notification) -> Iterator[tuple[str, Notification]]:
        """The simple members of a scope that get a version, with what arrives there."""
        for name in self.graph.members(scope):
            if name == self.published.producer or self.graph.is_scope(name):
                continue
            crossed = self.down(name, scope, version)
            if crossed is not None and self.wants(name, crossed):
                yield name, crossed

    def down(self, member: str, scope: str, version: Notification) -> Notification | None:
        """The version that arrives at a member of a scope."""
        parent = next(each for each in self.plan.parents(member) if each.scope == scope)
        return parent.inward.pass_on(version)

    def inside(self, scope: str, version: Notification, left: frozenset[str]) -> bool:
        """Whether somebody in a scope, at any depth, gets a version."""
        if any(True for _ in self.local(scope, version)):
            return True
        below, _ = self.overlay._scopes_around(scope)
        return any(
            (crossed := self.down(name, scope, version)) is not None and self.inside(name, crossed, left)
            for name in below
            if name not in left
        )

    def outside(
        self, scope: str, superscope: str, version: Notification, left: frozenset[str]
    ) -> Notification | None:
        """The version that arrives in a superscope, where somebody there or above gets it."""
        parent = next(each for each in self.plan.parents(scope) if each.scope == superscope)
        crossed = parent.outward.pass_on(version)
        if crossed is None:
            return None
        gone = left | {scope}
        if self.inside(superscope, crossed, gone):
            return crossed
        _, above = self.overlay._scopes_around(superscope)
        wanted = any(self.outside(superscope, each, crossed, gone) is not None for each in above)
        return crossed if wanted else None


class _Routing(_Interest):
    """One notification under integrated routing."""

    def __init__(
        self,
        overlay: Overlay,
        published: Notification,
        subscriptions: Subscriptions,
        gateway: Callable[[str, str], str] | None,
    ) -> None:
        super().__init__(overlay, published, subscriptions)
        self.gateway = gateway
        self.result = Run()

    def run(self) -> Run:
        producer, published = self.published.producer, self.published
        if self.wants(producer, published):
            self.result.delivered.add((producer, ""))
        copies: deque[_Copy] = deque()
        for parent in self.plan.parents(producer):
            crossed = parent.outward.pass_on(published)
            if crossed is not None and self.overlay.brokers.get(parent.scope):
                home = self.overlay._home(producer)
                copies.append(_Copy(home, None, parent.scope, crossed, False, frozenset((producer,))))
        while copies:
            copies.extend(self._take(copies.popleft()))
        self.result.accesses = max(1, self.result.messages)
        return self.result

    def _take(self, copy: _Copy) -> Iterator[_Copy]:
        at = self.overlay.at
        for name, arrived in self.local(copy.scope, copy.version):
            if at.get(name) == copy.broker:
                self.result.delivered.add((name, tag_of(arrived, self.published)))
        overlay = self.overlay.brokers[copy.scope]
        sites = self._sites(copy)
        for link in self.overlay.topology.neighbours(copy.broker):
            if link == copy.link or link not in overlay:
                continue
            if any(self.overlay.path(copy.broker, site)[1:2] == [link] for site in sites):
                self.result.links.append((copy.broker, link))
                yield copy._replace(broker=link, link=copy.broker)
        yield from self._crossing(copy)

    def _sites(self, copy: _Copy) -> set[str]:
        """The brokers where a copy is wanted in its scope: by clients, and by tables of other scopes."""
        sites = {
            self.overlay.at[name]
            for name, _ in self.local(copy.scope, copy.version)
            if name in self.overlay.at
        }
        for member, superscope, other in self._others(copy):
            sites |= self._borders(member, superscope, other.scope)
        return sites

    def _borders(self, member: str, superscope: str, into: str) -> set[str]:
        """The brokers at which an edge can be crossed into one of its scopes."""
        if self.gateway is not None:
            return {self.gateway(member, superscope)}
        return {*(self.overlay.brokers[member] & self.overlay.brokers[superscope])}

    def _others(self, copy: _Copy) -> Iterator[tuple[str, str, _Copy]]:
        """The scopes that a copy crosses into, by edge, with what is in them then."""
        below, above = self.overlay._scopes_around(copy.scope)
        for name in below:
            crossed = self.down(name, copy.scope, copy.version)
            if name not in copy.left and crossed is not None and self.inside(name, crossed, copy.left):
                yield name, copy.scope, copy._replace(link=None, scope=name, version=crossed, downward=True)
        for name in above if not copy.downward else ():
            crossed = self.outside(copy.scope, name, copy.version, copy.left)
            if crossed is not None:
                left = copy.left | {copy.scope}
                yield copy.scope, name, copy._replace(link=None, scope=name, version=crossed, left=left)

    def _crossing(self, copy: _Copy) -> Iterator[_Copy]:
        for member, superscope, other in self._others(copy):
            if self._crosses(copy, self._borders(member, superscope, other.scope), other.scope):
                yield from self._entered(member, superscope, other)

    def _crosses(self, copy: _Copy, borders: set[str], into: str) -> bool:
        if self.gateway is not None:
            return copy.broker in borders
        # Here, unless the broker before had both scopes.
        overlay = self.overlay.brokers[into]
        return copy.broker in overlay and (copy.link is None or copy.link not in overlay)

    def _entered(self, member: str, superscope: str, copy: _Copy) -> Iterator[_Copy]:
        """The copies that there are when one has crossed an edge."""
        yield copy


class _Relaying(_Interest):
    """One notification that is taken from scope to scope by what sits at the seat of each."""

    def __init__(
        self, overlay: Overlay, published: Notification, subscriptions: Subscriptions, *, multicast: bool
    ) -> None:
        super().__init__(overlay, published, subscriptions)
        self.multicast = multicast
        self.result = Run()

    def run(self) -> Run:
        producer = self.published.producer
        if self.wants(producer, self.published):
            self.result.delivered.add((producer, ""))
        for parent in self.plan.parents(producer):
            crossed = parent.outward.pass_on(self.published)
            if crossed is not None and self.overlay.brokers.get(parent.scope):
                home = self.overlay._home(producer)
                self._enter(parent.scope, crossed, home, downward=False, left=frozenset((producer,)))
        return self.result

    def _enter(
        self, scope: str, version: Notification, source: str, *, downward: bool, left: frozenset[str]
    ) -> None:
        seat = self.overlay.seat(scope)
        local = list(self.local(scope, version))
        below, above = self.overlay._scopes_around(scope)
        down = [
            (name, crossed)
            for name in below
            if name not in left
            and (crossed := self.down(name, scope, version)) is not None
            and self.inside(name, crossed, left)
        ]
        up = [
            (name, crossed)
            for name in (above if not downward else ())
            if (crossed := self.outside(scope, name, version, left)) is not None
        ]
        if not (local or down or up):
            return
        homes = sorted({self.overlay._home(name) for name, _ in local})
        if self.multicast:
            targets = [*homes, seat] if down or up else homes
            self.result.accesses += 1
            self.result.links += self.overlay._multicast(source, targets)
        else:
            self.result.accesses += 1 + len(local)
            self.result.links += self.overlay._multicast(source, [seat])
            for home in homes:
                self.result.links += self.overlay._multicast(seat, [home])
        for name, crossed in local:
            self.result.delivered.add((name, tag_of(crossed, self.published)))
        for name, crossed in down:
            self._cross(name, scope, _Copy(seat, None, name, crossed, downward=True, left=left))
        for name, crossed in up:
            gone = left | {scope}
            self._cross(scope, name, _Copy(seat, None, name, crossed, downward=False, left=gone))

    def _cross(self, member: str, superscope: str, copy: _Copy) -> None:
        """A relay, at its seat, publishes a copy to the address of the next scope."""
        self._enter(copy.scope, copy.version, copy.broker, downward=copy.downward, left=copy.left)


class _Bridging(_Routing):
    """One notification where some scopes have relays, and the others integrated routing."""

    def __init__(self, overlay: Overlay, published: Notification, subscriptions: Subscriptions) -> None:
        super().__init__(overlay, published, subscriptions, None)
        self.relays = _BridgedRelaying(self)
        self.copies: deque[_Copy] = deque()

    def run(self) -> Run:
        producer, home = self.published.producer, self.overlay._home(self.published.producer)
        if self.wants(producer, self.published):
            self.result.delivered.add((producer, ""))
        for parent in self.plan.parents(producer):
            crossed = parent.outward.pass_on(self.published)
            if crossed is None or not self.overlay.brokers.get(parent.scope):
                continue
            first = _Copy(home, None, parent.scope, crossed, downward=False, left=frozenset((producer,)))
            if parent.scope in self.overlay.relayed:
                _Relaying._cross(self.relays, producer, parent.scope, first)
            else:
                self.copies.append(first)
        while self.copies:
            self.copies.extend(self._take(self.copies.popleft()))
        relayed = self.relays.result
        self.result.delivered |= relayed.delivered
        self.result.accesses = max(1, self.result.messages + relayed.accesses)
        self.result.links += relayed.links
        return self.result

    def connect(self, source: str, target: str) -> None:
        """A copy goes from one local broker of a gateway to the other."""
        self.result.links += pairwise(self.overlay.path(source, target))

    def _borders(self, member: str, superscope: str, into: str) -> set[str]:
        if into in self.overlay.relayed:
            return {self.overlay.gate(member, superscope)}
        return super()._borders(member, superscope, into)

    def _crosses(self, copy: _Copy, borders: set[str], into: str) -> bool:
        return (
            copy.broker in borders if into in self.overlay.relayed else super()._crosses(copy, borders, into)
        )

    def _entered(self, member: str, superscope: str, copy: _Copy) -> Iterator[_Copy]:
        if copy.scope not in self.overlay.relayed:
            yield copy
            return
        seat = self.overlay.seat(member)
        self.connect(copy.broker, seat)
        _Relaying._cross(self.relays, member, superscope, copy._replace(broker=seat))


class _BridgedRelaying(_Relaying):
    """The relays of some scopes; the others are reached through gateways."""

    def __init__(self, bridging: _Bridging) -> None:
        super().__init__(bridging.overlay, bridging.published, bridging.subscriptions, multicast=True)
        self.bridging = bridging

    def _cross(self, member: str, superscope: str, copy: _Copy) -> None:
        if copy.scope in self.overlay.relayed:
            super()._cross(member, superscope, copy)
            return
        gate = self.overlay.gate(member, superscope)
        self.bridging.connect(copy.broker, gate)
        self.bridging.copies.append(copy._replace(broker=gate))


class LiveNetwork:
    """The live brokers of an overlay, and their clients. Messages arrive in the order in which they are sent."""

    def __init__(self, overlay: Overlay, subscriptions: Subscriptions) -> None:
        self._home = overlay._home
        catalogue = Catalogue(engine_named("columnar"), keep=True)
        self._brokers = {
            name: Broker(
                name,
                Settings(Covering()),
                overlay.topology.neighbours(name),
                catalogue,
                rules=[BrokerScoping(System(overlay.graph))],
            )
            for name in overlay.topology.brokers
        }
        for name, filters in subscriptions.items():
            for number, filter in enumerate(filters):
                self._run(self._home(name), Subscribe(f"c:{name}", str(number), filter))

    @property
    def entries(self) -> int:
        """The routing entries of all brokers."""
        return sum(len(each.subscriptions) for each in self._brokers.values())

    def publish(self, notification: Notification) -> Run:
        """The outcome of a publication."""
        run = Run()
        at = self._home(notification.producer)
        for broker, effect in self._run(at, Publish(f"c:{notification.producer}", notification)):
            match effect:
                case Send(to, Forward()):
                    run.links.append((broker, to))
                case Deliver(client, version, _):
                    run.delivered.add((client[2:], tag_of(version, notification)))
                case _:
                    pass
        run.accesses = max(1, run.messages)
        return run

    def _run(self, at: str, call: Call) -> list[tuple[str, Effect]]:
        effects: list[tuple[str, Effect]] = []
        waiting: deque[tuple[str, Message | Call]] = deque([(at, call)])
        while waiting:
            name, message = waiting.popleft()
            for effect in self._brokers[name].handle(message, 0):
                effects.append((name, effect))
                if isinstance(effect, Send):
                    waiting.append((effect.to, effect.message))
        return effects


def _gateways(overlay: Overlay) -> Callable[[str, str], str]:
    """The first broker that both scopes of an edge have is its gateway."""
    return lambda member, scope: min(overlay.brokers[member] & overlay.brokers[scope])


ARCHITECTURES: Final[Mapping[str, Callable[[Overlay, Notification, Subscriptions], Run]]] = {
    "collapsed": Overlay.collapsed,
    "hub": Overlay.hub,
    "addresses": Overlay.addresses,
    "brokers": Overlay.scope_brokers,
    "integrated, gateway": lambda overlay, n, asked: overlay.integrated(n, asked, _gateways(overlay)),
    "integrated, first": Overlay.integrated,
    "integrated, combined": Overlay.combined,
    "bridged": Overlay.bridged,
    "live": Overlay.live,
}
"""The architectures by name."""


def entries(overlay: Overlay, subscriptions: Subscriptions) -> dict[str, int]:
    """The number of entries in the tables of each architecture, over all brokers."""
    members = sum(len(overlay.graph.members(scope)) for scope in overlay.brokers)
    # A flat service knows every subscription at every broker; with scopes each is a filter of its own.
    flat = sum(len(list(each)) for each in subscriptions.values()) * len(overlay.topology.brokers)
    leaves = overlay.brokers.keys() - overlay.relayed
    inside = sum(len(overlay.table(broker, scope)) for scope in leaves for broker in overlay.brokers[scope])
    above = sum(len(overlay.graph.members(scope)) for scope in overlay.relayed)
    homes = {name for scope in overlay.relayed for name in overlay.graph.members(scope)}
    addressed = sum(len(list(each)) for name, each in subscriptions.items() if name in homes)
    return {
        "live": overlay.network(subscriptions).entries,
        "bridged": inside + above + addressed * len(overlay.topology.brokers),
        "collapsed": flat,
        "hub": members,
        "addresses": flat + members,
        "brokers": members,
        **dict.fromkeys(
            (name for name in ARCHITECTURES if name.startswith("integrated")), overlay.table_size
        ),
    }
