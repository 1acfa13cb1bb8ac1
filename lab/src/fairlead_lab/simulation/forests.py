"""Checks every state of a run in which notifications go along several trees: in cycles, and by types on a ring.

The invariants of `checking` are about one tree: there T|H is a function of what H has said. Where each
subscription has a tree (book 4.6.6) it depends on who said it first, and where each type has one (book 4.6.3)
a step of a client is one in several tables. What can be said of every state then is

    forwarding        a notification goes to F_B(n) but where it came from, each once, and when it comes again
                      to nobody
    local invariant   what a client's entries match is what it subscribes to

and whenever all that was said of filters and links has been heard

    path validity     in cycles: from every broker the entries for an interest lead to its client, and where
                      nothing has to be advertised there is one at every broker
    remote validity   on a ring: all brokers on the way from a client to the root of a type know what it asks for
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from fairlead.audit.report import Finding, Report, Violation
from fairlead.broker import Broker
from fairlead.broker.messages import Batch, Call, Command, Deliver, Effect, Forward, InTree, Message, Send
from fairlead.filters.algebra import overlaps
from fairlead.filters.filter import And, Filter
from fairlead.model import Notification
from fairlead.model.order import Identity, identity_of
from fairlead.routing import Interest
from fairlead_lab.audit.routing import Breach, Judge, Part, part_of
from fairlead_lab.broker import AnyBroker, RendezvousBroker
from fairlead_lab.simulation.network import Observer, Simulation
from fairlead_lab.simulation.tracing import Declarations

__all__ = ["ForestChecker"]

_ForestBroker: TypeAlias = Broker | RendezvousBroker

RULES = ("forwarding", "local invariant", "path validity", "remote validity")


class ForestChecker(Observer):
    """Watches a simulation, from now on. It raises at the first breach, or with `collect` keeps them all."""

    def __init__(self, simulation: Simulation, *, collect: bool = False) -> None:
        self.steps = 0
        self.breaches: list[tuple[int, Breach]] = []
        """Each with the number of the step after which it was found."""
        self._simulation = simulation
        self._collect = collect
        self._judge = Judge()
        self._declarations = Declarations()
        self._handled: set[tuple[str, Identity]] = set()
        simulation.observers.append(self)

    def report(self) -> Report:
        """The findings, by rule; the places are numbers of steps. Open is what the algebra cannot decide."""
        return Report(
            tuple(
                Finding(
                    "routing",
                    rule,
                    tuple(
                        Violation(str(breach), (step,))
                        for step, breach in self.breaches
                        if breach.rule == rule
                    ),
                    self._judge.undecided[rule],
                )
                for rule in RULES
            )
        )

    def handled(
        self, now: int, broker: AnyBroker, message: Message | Call | Command, effects: list[Effect]
    ) -> None:
        self.steps += 1
        assert isinstance(broker, Broker | RendezvousBroker), "these rules are about trees"
        self._declarations.take(broker, message, effects)
        for breach in self._breaches(broker, message, effects, is_at_rest=self._simulation.is_settled):
            if not self._collect:
                raise AssertionError(f"step {self.steps}, {broker.name} took in {message}: {breach}")
            self.breaches.append((self.steps, breach))

    def _breaches(
        self,
        broker: _ForestBroker,
        message: Message | Call | Command,
        effects: list[Effect],
        *,
        is_at_rest: bool,
    ) -> Iterator[Breach]:
        yield from self._forwarding(broker, message, effects)
        if not isinstance(_inner(message), Forward):
            yield from self._local(broker)
            if is_at_rest:
                yield from self._at_rest()

    # -- a step --------------------------------------------------------------------------------------------

    def _forwarding(
        self, broker: _ForestBroker, message: Message | Call | Command, effects: list[Effect]
    ) -> Iterator[Breach]:
        if broker.settings.batch_us or isinstance(message, Batch):
            return  # what is sent waits, and tables change between two messages of one step
        arrived = _inner(message)
        source = arrived.source if isinstance(arrived, Forward) else None
        passed: dict[Identity, tuple[Notification, str]] = {}
        if isinstance(arrived, Forward) and _tree_of(broker, message).hears(arrived.source):
            passed[identity_of(arrived.notification)] = (arrived.notification, _tree_name(message))
        sent: dict[Identity, list[str]] = {}
        delivered: dict[Identity, list[str]] = {}
        for effect in effects:
            if isinstance(effect, Deliver):
                identity = identity_of(effect.notification)
                delivered.setdefault(identity, []).append(effect.client)
                passed.setdefault(identity, (effect.notification, _type_of(broker, effect.notification)))
            elif isinstance(effect, Send) and isinstance(forward := _inner(effect.message), Forward):
                identity = identity_of(forward.notification)
                sent.setdefault(identity, []).append(effect.to)
                passed.setdefault(identity, (forward.notification, _tree_name(effect.message)))
        for identity, (notification, tree) in passed.items():
            is_new = (broker.name, identity) not in self._handled
            self._handled.add((broker.name, identity))
            clients = self._clients_for(broker.name, notification) if is_new else []
            part = broker if isinstance(broker, Broker) else broker.tree(tree)
            onward = [each for each in _onward(part, notification) if each != source] if is_new else []
            yield from self._judge.forwarding(broker.name, notification, clients, delivered.get(identity, []))
            yield from self._judge.forwarding(broker.name, notification, onward, sent.get(identity, []))

    def _clients_for(self, broker: str, notification: Notification) -> list[str]:
        return [
            client
            for at, client, is_advertisement, held in self._declarations
            if at == broker
            and not is_advertisement
            and any(filter.matches(notification) for filter in held.values())
        ]

    # -- a state -------------------------------------------------------------------------------------------

    def _local(self, broker: _ForestBroker) -> Iterator[Breach]:
        for at, client, is_advertisement, held in self._declarations:
            if at != broker.name or is_advertisement:
                continue
            for part, needed_filters in _filter_text(broker, held.values()):
                yield from self._judge.local_invariant(
                    at, client, part_of(part.subscriptions, client), needed_filters
                )

    # -- at rest -------------------------------------------------------------------------------------------

    def _at_rest(self) -> Iterator[Breach]:
        brokers = self._simulation.brokers
        for home, client, is_advertisement, held in self._declarations:
            broker = brokers[home]
            if is_advertisement or not isinstance(broker, Broker | RendezvousBroker):
                continue
            if isinstance(broker, Broker):
                for interest in broker.subscriptions.of(client):
                    yield from self._leads_home(interest, broker, client)
            else:
                for name in broker.trees:
                    yield from self._is_known_above(broker, name, held)

    def _leads_home(self, interest: Interest, home: Broker, client: str) -> Iterator[Breach]:
        if home.settings.strategy.initial():
            return  # flooded: what is asked for is told to nobody
        is_everywhere = home.settings.advertisements is None
        for start in self._connected_to(home.name):
            seen: dict[str, None] = {}
            at = start
            while at != home.name:
                seen[at] = None
                onward = self._broker(at).subscriptions.holding(interest)
                if not onward and at == start and not is_everywhere:
                    break
                if len(onward) != 1 or not onward.isdisjoint(seen):
                    what = (
                        f"from {start} the entries for {interest} of {client} lead by {[*seen]} to {onward}"
                    )
                    yield Breach("path validity", what)
                    break
                (at,) = onward

    def _connected_to(self, home: str) -> list[str]:
        matching = [home]
        for broker in matching:
            matching += [each for each in self._broker(broker).neighbours if each not in matching]
        return matching

    def _broker(self, name: str) -> Broker:
        broker = self._simulation.brokers[name]
        assert isinstance(broker, Broker)
        return broker

    def _is_known_above(
        self, home: RendezvousBroker, tree: str, held: Mapping[str, Filter]
    ) -> Iterator[Breach]:
        of_type = home.settings.types[tree]
        for filter in held.values():
            if not overlaps(filter, of_type, home.settings.schema):
                continue
            below, needed_filters = home.tree(tree), And.of((filter, of_type))
            while below.parent is not None:
                above = self._simulation.brokers[below.parent]
                assert isinstance(above, RendezvousBroker)
                announced = (
                    part_of(above.tree(tree).subscriptions, below.name) if tree in above.trees else Part()
                )
                shown = self._judge.missing("remote validity", needed_filters, announced.filters)
                if shown is not None:
                    what = (
                        f"{below.name} needs {filter}, but {above.name} knows no more of it than {announced}"
                    )
                    yield Breach("remote validity", what, shown)
                    break
                below = above.tree(tree)


def _inner(message: Any) -> Any:
    return message.message if isinstance(message, InTree) else message


def _tree_name(message: Any) -> str:
    return message.tree if isinstance(message, InTree) else ""


def _tree_of(broker: _ForestBroker, message: Any) -> Broker:
    return broker if isinstance(broker, Broker) else broker.tree(_tree_name(message))


def _type_of(broker: _ForestBroker, notification: Notification) -> str:
    if isinstance(broker, Broker):
        return ""
    return next(name for name, of_type in broker.settings.types.items() if of_type.matches(notification))


def _onward(broker: Broker, notification: Notification) -> Iterator[str]:
    """The neighbours in F_B(n)."""
    for neighbour in broker.neighbours:
        climbs = neighbour == broker.parent and broker.settings.climbs
        if climbs or any(each.filter.matches(notification) for each in broker.subscriptions.of(neighbour)):
            yield neighbour


def _filter_text(broker: _ForestBroker, filters: Iterable[Filter]) -> Iterator[tuple[Broker, list[Filter]]]:
    """By tree, what of a client's filters belongs into it."""
    declared = list(filters)
    if isinstance(broker, Broker):
        yield broker, declared
        return
    for name in broker.trees:
        of_type = broker.settings.types[name]
        own = [each for each in declared if overlaps(each, of_type, broker.settings.schema)]
        yield broker.tree(name), ([of_type] if own else []) if broker.settings.topics else own
