"""The broker: a state machine without input, output, clock or chance (book 4.2, 4.6).

    handle(message, now) -> effects

The same messages in the same order give the same effects. Whoever drives it, the simulator or the sockets,
carries the effects out in their order, and keeps what is sent to one neighbour in order.

What it does is the framework of the book; how filters travel is the strategy's. With advertisements there is
a second table, for advertisements, kept by a strategy of its own, and subscriptions go only where something
is advertised that overlaps them. In a hierarchy the parent gets every notification, and filters go to it
alone.

Notifications pass the seam (`fairlead.rules`), which decides, and the program of `publications`, which logs what
has to be logged before it is sent on. The live node asks the same seam and drives the same program.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, get_args

import msgspec

from fairlead.broker.batches import Batches
from fairlead.broker.clients import Clients, Declared
from fairlead.broker.declarations import Declarations, Names
from fairlead.broker.delivered import Delivered
from fairlead.broker.disclosure import Disclosure
from fairlead.broker.history import History
from fairlead.broker.messages import (
    Acknowledge,
    Admin,
    Advertise,
    Append,
    Batch,
    Call,
    Change,
    Climb,
    Command,
    Connect,
    Deliver,
    Disconnect,
    Duplicate,
    Effect,
    Forward,
    Grant,
    Join,
    Leave,
    Link,
    LinkId,
    Message,
    Notice,
    Passed,
    Publish,
    Reconsider,
    Redeclare,
    Redisclose,
    Refuse,
    Renew,
    Send,
    Stamp,
    Subscribe,
    Synced,
    Tick,
    Unadvertise,
    Unlink,
    Unsubscribe,
)
from fairlead.broker.publications import AcknowledgeAll, AnswerDuplicates, Publications, SendOn
from fairlead.broker.publications import Effect as Released
from fairlead.broker.publications import Entry as Publication
from fairlead.broker.published import Published
from fairlead.broker.redundancy import ALL, Redundancy
from fairlead.broker.settings import Settings
from fairlead.errors import Forbidden, ValueRefused
from fairlead.filters.filter import NOTHING, Filter
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.model.order import Identity, identity_of
from fairlead.overlay import Topology
from fairlead.routing import Catalogue, Entry, Interest, Outcome, RoutingTable, Strategy
from fairlead.routing.advertisements import newly_servable, servable, unservable
from fairlead.rules import Advertisements, Refusal, Route, Rule, Seam

__all__ = ["Broker", "Settings"]

NO_ADVERTISEMENTS: Final = "this broker has no advertisements: set [routing] advertisements"
REPLACING: Final = "\0"
"""The id under which a filter is in effect while it replaces another one."""
RENEWED_MAX: Final = 10_000
"""The number of interests it remembers that somebody has asked to renew."""
_CALLS: Final = frozenset(get_args(Call))
"""The kinds of calls. Most messages are none, and to ask `isinstance` of each kind takes long."""


class _EffectLog:
    """A log that is an effect: what is appended is told to whoever drives the broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.end = 0

    def append(self, origin: str, records: list[tuple[Forward, int]], now: int) -> range:
        first, self.end = self.end, self.end + len(records)
        for offset, (came, _) in enumerate(records, first):
            self._broker._effects.append(
                Append(offset, origin, came.notification, came.origin, came.position)
            )
        return range(first, self.end)


class Broker:
    """One broker, by its name. `rules` are those of its seam, besides the rule of advertisements."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        neighbours: Iterable[str] = (),
        catalogue: Catalogue | None = None,
        identities: Published | None = None,
        *,
        rules: Iterable[Rule] = (),
    ) -> None:
        self.name = name
        self.settings = settings
        self.catalogue = Catalogue(engine_named("columnar")) if catalogue is None else catalogue
        self.parent = settings.parent
        self.subscriptions = self._new_table()
        """T^S: where notifications go."""
        self.advertisements = self._new_table()
        """T^A: where subscriptions go."""
        self.clients = Clients(self.catalogue)
        self._names = Names()
        self.history = History(name) if settings.cyclic else None
        self.redundancy = Redundancy(name, settings.strategy, self.catalogue) if settings.redundant else None
        """Of a broker in a redundant network; then tables of its own have the entries of clients alone."""
        if self.redundancy is not None:
            self.subscriptions.add_neighbour(ALL)
        self.links: dict[str, LinkId] = {}
        """Over which link each neighbour is one."""
        self.severed: set[str] = set()
        """Neighbours from the start that are neighbours no more: messages that still come over those links
        are late."""
        self._awaited: set[str] = set()
        self._renewed: dict[Interest, None] = {}
        self.identities = Published() if identities is None else identities
        """The identities published here, as far as they are remembered."""
        self._delivered, self._logged = Delivered[Identity](), Delivered[Identity]()
        """The notifications delivered here, and those of them that were in the log."""
        self.may_have_unserved = False
        """Whether advertisements were withdrawn since that was looked at, where subscriptions last."""
        self._advertised = Advertisements(self._advertised_by, _not_advertised)
        """The rule that holds where there are advertisements."""
        own = () if settings.advertisements is None else (self._advertised,)
        self.seam = Seam(self._destinations, (*own, *rules))
        """Decides about every notification, whoever drives this broker."""
        self._disclosure = Disclosure(self.seam, self.catalogue, is_whole=settings.cyclic)
        for rule in self.seam.rules:
            rule.attach(self._matching_entries)
        self._declarations = Declarations(
            name, settings, self.catalogue, self.clients, names=self._names, seam=self.seam
        )
        self._publications: Publications[str, Route, Forward] = Publications(
            _EffectLog(self) if settings.durable else None
        )
        self._synced_below = 0
        """The first offset of the log that is not synced."""
        self._received: dict[str, int] = {}
        """By neighbour, the last number of what it has forwarded from its log."""
        self._effects: list[Effect] = []
        self._batches = Batches(name, settings.batch_us)
        self._queues: dict[str, deque[Notification]] = {}
        """By producer, what waits for its last publication; a producer of whom nothing is under way has none."""
        for neighbour in neighbours:
            self._add_neighbour(neighbour, LinkId())

    def _new_table(self) -> RoutingTable:
        """An empty routing table."""
        return RoutingTable(self.catalogue)

    @property
    def neighbours(self) -> list[str]:
        """The brokers next to this one."""
        return list(self.links)

    @property
    def tables(self) -> tuple[RoutingTable, ...]:
        """The routing tables: of subscriptions, and of advertisements where there are any."""
        if self.redundancy is not None:
            return (self.subscriptions, self.redundancy.others)
        if self.settings.advertisements is None:
            return (self.subscriptions,)
        return (self.subscriptions, self.advertisements)

    @property
    def entries(self) -> Iterator[Entry]:
        """The routing entries for notifications: of clients, and of neighbours or other brokers."""
        yield from self.subscriptions
        if self.redundancy is not None:
            yield from ((each, broker) for each, broker in self.redundancy.others if broker != self.name)

    @property
    def waiting(self) -> dict[str, list[Message]]:
        """By neighbour, the messages that wait for others to the same neighbour."""
        return self._batches.waiting

    def hears(self, neighbour: str) -> bool:
        """Whether what comes from a neighbour belongs to the link that there is, and not to an earlier one."""
        return neighbour in self.links and neighbour not in self._awaited

    def handle(self, message: Message | Call | Command, now: int) -> list[Effect]:
        """Take one step, at a time by the caller's clock in microseconds."""
        effects: list[Effect] = []
        self._effects = effects
        kind = type(message)
        if kind in _CALLS and message.source in self.links:  # type: ignore[union-attr]
            return [Refuse(message.source, "a neighbour of this broker has that name")]  # type: ignore[union-attr]
        self._HANDLERS[kind](self, message, now)
        if self.catalogue.idle:
            self.catalogue.tidy()
        return effects if not self.settings.batch_us else self._batches.gather(effects, now)

    # -- notifications -------------------------------------------------------------------------------------

    def _publish(self, call: Publish, now: int) -> None:
        source, number = call.source, call.number
        self.clients.join(source)
        memory = self.identities.memory(number, call.notification.id)
        admitted = self.seam.take(source, call.notification, memory, now)
        if isinstance(admitted, Refusal):
            self._effects.append(Refuse(source, admitted.reason, number=number))
        elif admitted is None:
            self._enter(source, (None, Forward(source, call.notification), number), now)
        else:
            marked = self.seam.mark(admitted, now)
            self._learn(marked, now)
            self._enter(source, (self.seam.route(marked, ""), Forward(source, marked), number), now)

    def _learn(self, notification: Notification, now: int) -> None:
        """Rules learn from a notification before it is routed; neighbours are sent what follows."""
        if self.seam.learns_from and self.seam.learn(notification, self._publications.end):
            self._redeclare(Redeclare(), now)

    def _enter(self, origin: str, publication: Publication[Route, Forward], now: int) -> None:
        """A notification is to be logged, or waits for what is; or is sent on at once."""
        route, came, number = publication
        if number or self._publications.pending:
            self._publications.commit(origin, [publication], now)
            # Without a log nothing waits; and a duplicate may wait for nothing but what is synced already.
            self._release(self._publications.synced(self._synced_below), now)
        elif route is None:
            self._effects.append(Duplicate(origin, number))
        else:
            self._begin(came, route, 0, now)

    def _synced(self, command: Synced, now: int) -> None:
        self._synced_below = max(self._synced_below, command.offset + 1)
        self._release(self._publications.synced(self._synced_below), now)

    def _release(self, released: Iterable[Released[str, Route, Forward]], now: int) -> None:
        """Carry out what the log has released."""
        for each in released:
            match each:
                case SendOn(_, entries):
                    for offset, route, came, _ in entries:
                        self._begin(came, route, offset + 1, now)
                case AnswerDuplicates(origin, entries) if origin not in self.links:
                    self._effects.extend(Duplicate(origin, number) for _, _, number in entries)
                case AcknowledgeAll(origin, number) if origin in self.clients:
                    self._effects.append(Acknowledge(origin, number))
                case _:
                    pass

    def is_new(self, identity: tuple[str, str]) -> bool:
        """Whether nothing of this identity was published here before, as far as is remembered; now it was."""
        return self.identities.take_identity(identity)

    def forget(self, notification: Notification) -> None:
        """Forget the identity of a publication that failed: publishing it again is no duplicate."""
        self.identities.forget(identity_of(notification))

    def knows(self, notification: Notification) -> bool:
        """Whether something of its identity was published here before."""
        return identity_of(notification) in self.identities

    def _advertised_by(self, client: str) -> list[Filter]:
        return [interest.filter for interest in self.advertisements.of(client)]

    def _begin(self, came: Forward, route: Route, number: int, now: int) -> None:
        """A notification is sent on; a local publication, where there are several trees, when it is its turn.

        Only what is in the log has a position: of a publication, its number here."""
        history, notification = self.history, came.notification
        if history is None:
            has_clients = route.clients or route.versions
            is_first = not has_clients or self._is_first(notification, is_logged=number > 0)
            if not is_first or self._has_expired(notification, now):
                route = route.without_clients()
            origin, position = (came.origin, came.position) if came.origin else (self.name, number)
            stamp = came.stamp
            if self.redundancy is not None and not number and not came.origin:
                stamp = self._names.next(now)
            is_known = number or self.redundancy is not None
            self._send_along(
                route, Forward(self.name, notification, origin if is_known else "", stamp, number, position)
            )
            return
        if not self._keeps_order:
            queue = self._queues.get(notification.producer)
            if queue is not None:
                queue.append(notification)
                return
            self._queues[notification.producer] = deque()
        self._set_out(history, notification, None if number else route, now)
        self._go_on(history, now)

    def _has_expired(self, notification: Notification, now: int) -> bool:
        until = self.seam.expires(notification)
        return until is not None and until <= now

    def _is_first(self, notification: Notification, *, is_logged: bool) -> bool:
        """Whether it was not delivered here before. Without neighbours, the memory of publications suffices."""
        if notification.id is None:
            return True  # from a broker that gives no ids
        identity = identity_of(notification)
        if not is_logged:
            return not self.links or self._delivered.take(identity)
        self._delivered.add(identity)
        return self._logged.take(identity)

    @property
    def _keeps_order(self) -> bool:
        """Whether all notifications of a producer go along the same links, or nobody minds their order. What is
        flooded does: each is sent over a link, in either direction or in both, before the next is."""
        settings = self.settings
        return not settings.in_order or bool(settings.strategy.initial())

    def _set_out(self, history: History, notification: Notification, route: Route | None, now: int) -> None:
        """`route` is None where it has waited since it was admitted: a tree may have lost a link."""
        forward = Forward(self.name, notification, self.name, history.stamp(now))
        passed_to = self._send_along(self.seam.route(notification, "") if route is None else route, forward)
        history.begin(identity_of(notification), self.name, forward.stamp, None, passed_to)
        self._tell_done()

    def _go_on(self, history: History, now: int) -> None:
        """Let the next publication of a client begin when one is over, as long as one waits."""
        while over := history.over():
            for identity in over:
                queue = self._queues.get(identity.producer)
                if queue:
                    self._set_out(history, queue.popleft(), None, now)
                elif queue is not None:
                    del self._queues[identity.producer]

    def _forward(self, message: Forward, now: int) -> None:
        if not self.hears(message.source):
            return  # sent over an earlier link: it may come again on another way
        if self.history is None:
            self._arrive(message, now)
            return
        identity = identity_of(message.notification)
        due: str | None = message.source
        if self.history.is_new(identity, message.origin, message.stamp):
            onward = Forward(self.name, message.notification, message.origin, message.stamp)
            passed_to = self._send_along(self.seam.route(message.notification, message.source), onward)
            due = self.history.begin(identity, message.origin, message.stamp, message.source, passed_to)
        if due is not None:
            self._send(due, Passed(self.name, identity))

    def _arrive(self, message: Forward, now: int) -> None:
        """A neighbour has forwarded a notification: it is logged here, too, if it was there."""
        source, notification, number = message.source, message.notification, message.number
        route: Route | None
        if number and number <= self._received.get(source, 0):
            route, number = None, self._received[source]
        elif self.redundancy is not None and self.redundancy.is_copy(message):
            if not number:
                return
            route, self._received[source] = None, number
        else:
            self._learn(notification, now)
            route = self.seam.route(notification, source)
            self._received[source] = number or self._received.get(source, 0)
        self._enter(source, (route, message, number), now)

    def _destinations(self, notification: Notification, source: str) -> Route:
        """The neighbours in F_B(n) but the source, and the clients: what the tables say."""
        destinations = self.subscriptions.destinations(notification)
        if self.redundancy is not None:
            destinations |= dict.fromkeys(self.redundancy.leading(notification, self.links))
        neighbours = self.links
        if self.parent in neighbours and self.settings.climbs:
            destinations[self.parent] = None
        clients = [each for each in destinations if each not in neighbours]
        matching = self.catalogue.matching(notification) if clients else frozenset[int]()
        wanted = [(client, self.clients.matching(client, matching)) for client in clients]
        for client, ids in wanted:
            if ids:
                self.clients.note(client, ids)
        return Route(
            tuple(each for each in destinations if each in neighbours and each != source),
            tuple((client, ids) for client, ids in wanted if ids or self.settings.widen is None),
        )

    def _send_along(self, route: Route, message: Forward) -> tuple[str, ...]:
        """Send a notification to the neighbours on its route, notify the clients."""
        for neighbour in route.neighbours:
            self._send(neighbour, message)
        for client, ids in route.clients:
            self._effects.append(Deliver(client, message.notification, ids))
        for client, ids, version in route.versions:
            self._effects.append(Deliver(client, version, ids))
        return route.neighbours

    def route_to(self, client: str, notification: Notification, source: str, offset: int) -> Route:
        """The part of the route of a record of the log that is about one client."""

        def matching(form: Notification) -> tuple[str, ...]:
            return self.clients.matching(client, self.catalogue.matching(form))

        return self.seam.delivered_to(client, notification, source, offset, matching)

    def _matching_entries(self, form: Notification) -> list[Filter]:
        """The routing entries that a form of a notification matches, with any destination."""
        found = self.subscriptions.matching(form)
        return found if self.redundancy is None else [*found, *self.redundancy.others.matching(form)]

    def _passed(self, message: Passed, now: int) -> None:
        assert self.history is not None, "only brokers with a history are answered"
        sender = self.history.answered(message.identity, message.source)
        if sender is not None:
            self._send(sender, Passed(self.name, message.identity))
        self._tell_done()
        self._go_on(self.history, now)

    def _tell_done(self) -> None:
        assert self.history is not None
        time = self.history.news()
        if time is not None:
            for neighbour in self.neighbours:
                self._send(neighbour, Stamp(self.name, self.name, time))

    def _stamp(self, message: Stamp, now: int) -> None:
        assert self.history is not None, "only brokers with a history expect Passed"
        if message.origin != self.name and self.history.forget(message.origin, message.time):
            for neighbour in self.neighbours:
                if neighbour != message.source:
                    self._send(neighbour, Stamp(self.name, message.origin, message.time))

    # -- clients -------------------------------------------------------------------------------------------

    def _join(self, call: Join, now: int) -> None:
        self.clients.join(call.source)

    def _leave(self, call: Leave, now: int) -> None:
        if call.source not in self.clients:
            return
        name, client = call.source, self.clients[call.source]
        subscribed = self._declarations.remove(name, client.subscriptions.by_filter, advertisements=False)
        if subscribed:
            self._administer(name, (), subscribed)
        advertised = self._declarations.remove(name, client.advertisements.by_filter, advertisements=True)
        if advertised and self.settings.advertisements is not None:
            self._administer_advertisements(name, (), advertised)
            self._advertised.changed()
        self.clients.leave(name)

    def _subscribe(self, call: Subscribe, now: int) -> None:
        if self.seam.resolves:
            call = msgspec.structs.replace(call, filter=self.seam.resolve(call.filter))
        declared = self.clients.join(call.source).subscriptions
        refusal = declared.refusal(call.id, call.filter)
        if refusal is not None:
            self._effects.append(Refuse(call.source, refusal))
        elif call.id not in declared.by_id:
            granted = self._granted(call, "subscribe", declared, now)
            if granted is not None:
                self._install(call.source, call.id, granted, now)

    def _granted(
        self, call: Subscribe | Advertise, action: str, declared: Declared, now: int
    ) -> Filter | None:
        """The rest of a request that the rules grant; None where they refuse it."""
        granted = self.seam.grant(call.source, action, call.filter, now)
        if isinstance(granted, Refusal) and isinstance(call, Subscribe) and call.lasting:
            granted = NOTHING
        if isinstance(granted, Refusal):
            forbidden = granted.error is Forbidden
            self._effects.append(Refuse(call.source, granted.reason, is_forbidden=forbidden))
            return None
        if granted != call.filter:
            declared.requested[call.id] = call.filter
            self._effects.append(Grant(call.source, call.id, granted, action == "advertise"))
        return granted

    def _install(self, client: str, id: str, filter: Filter, now: int) -> None:
        if self.clients.subscribe(client, id, filter):
            self._administer(client, self._declarations.add(client, filter, now, advertisements=False), ())

    def _reconsider(self, call: Reconsider, now: int) -> None:
        """Grant what the rules say now. A subscription of which nothing is left stays, and matches nothing."""
        if call.source not in self.clients:
            return
        client = self.clients[call.source]
        for action, declared in (("subscribe", client.subscriptions), ("advertise", client.advertisements)):
            for id, before in list(declared.by_id.items()):
                requested = declared.requested.get(id, before)
                granted = self.seam.grant(call.source, action, requested, now)
                filter = NOTHING if isinstance(granted, Refusal) else granted
                if filter != before:
                    self._replace(call.source, id, filter, now, advertisement=action == "advertise")
                    if filter != requested:
                        declared.requested[id] = requested
                    self._effects.append(Grant(call.source, id, filter, action == "advertise"))

    def _replace(self, client: str, id: str, filter: Filter, now: int, *, advertisement: bool) -> None:
        """Have another filter in effect under an id. The new one comes first: what both match is not missed."""
        install = self._install_advertisement if advertisement else self._install
        install(client, REPLACING, filter, now)
        for each in (id, REPLACING):
            if advertisement:
                self._unadvertise(Unadvertise(client, each), now)
            else:
                self._unsubscribe(Unsubscribe(client, each), now)
            if each == id:
                install(client, id, filter, now)

    def _change(self, call: Change, now: int) -> None:
        """Have another filter under an id. At no moment does this broker, or a neighbour, have neither."""
        if self.seam.resolves:
            call = msgspec.structs.replace(call, filter=self.seam.resolve(call.filter))
        declared = self.clients.join(call.source).subscriptions
        before = declared.by_id.get(call.id)
        if before is None:
            self._subscribe(Subscribe(call.source, call.id, call.filter), now)
        elif declared.requested.get(call.id, before) != call.filter:
            granted = self._granted(Subscribe(*msgspec.structs.astuple(call)), "subscribe", declared, now)
            if granted is None:
                return
            if granted != before:
                self._replace(call.source, call.id, granted, now, advertisement=False)
            declared.requested.pop(call.id, None)
            if granted != call.filter:
                declared.requested[call.id] = call.filter

    def _redeclare(self, command: Redeclare, now: int) -> None:
        """Send the neighbours what the rules make of clients' subscriptions now, each client's at once: at no time
        does a neighbour know less than before and than after."""
        for client in list(self.clients):
            added, removed = self._declarations.renew(client)
            self._administer(client, added, removed)

    def _unsubscribe(self, call: Unsubscribe, now: int) -> None:
        removed = self.clients.unsubscribe(call.source, call.id)
        if removed is None:
            self._effects.append(Refuse(call.source, f"there is no subscription {call.id!r}", True))
            return
        filter, is_last = removed
        if is_last:
            self._administer(
                call.source, (), self._declarations.remove(call.source, [filter], advertisements=False)
            )

    def _advertise(self, call: Advertise, now: int) -> None:
        if self.settings.advertisements is None:  # nobody would be held to it, nor helped by it
            self._effects.append(Refuse(call.source, NO_ADVERTISEMENTS))
            return
        if self.seam.resolves:
            call = msgspec.structs.replace(call, filter=self.seam.resolve(call.filter))
        declared = self.clients.join(call.source).advertisements
        refusal = declared.refusal(call.id, call.filter)
        if refusal is not None:
            self._effects.append(Refuse(call.source, refusal))
        elif call.id not in declared.by_id:
            granted = self._granted(call, "advertise", declared, now)
            if granted is not None:
                self._install_advertisement(call.source, call.id, granted, now)

    def _install_advertisement(self, client: str, id: str, filter: Filter, now: int) -> None:
        if self.clients[client].advertisements.add(id, filter):
            advertised = self._declarations.add(client, filter, now, advertisements=True)
            self._administer_advertisements(client, advertised, ())
            self._advertised.changed(filter)

    def _unadvertise(self, call: Unadvertise, now: int) -> None:
        removed = self.clients.join(call.source).advertisements.remove(call.id)
        if removed is None:
            self._effects.append(Refuse(call.source, f"there is no advertisement {call.id!r}", True))
            return
        filter, is_last = removed
        if is_last:
            advertised = self._declarations.remove(call.source, [filter], advertisements=True)
            if self.settings.advertisements is not None:
                self._administer_advertisements(call.source, (), advertised)
                self._advertised.changed()

    # -- filters -------------------------------------------------------------------------------------------

    def _admin(self, message: Admin, now: int) -> None:
        source = message.source
        if source not in self.links or source in self._awaited:
            return  # sent over an earlier link, which was cut
        if self.seam.resolves:
            added, removed = (
                tuple(self._resolved(each) for each in some) for some in (message.added, message.removed)
            )
            message = Admin(source, added, removed, message.advertisements)
        if message.advertisements:
            self._administer_advertisements(source, message.added, message.removed)
            return
        self._administer(source, message.added, message.removed)
        if self.settings.advertisements is not None and message.added:
            # What they are for may have been taken back while they were under way.
            self._drop_unservable((interest, source) for interest in message.added)

    def _resolved(self, interest: Interest) -> Interest:
        return self.catalogue.interest(self.seam.resolve(interest.filter), interest.owner)

    def _drop_unservable(self, entries: Iterable[Entry]) -> None:
        """Trees of their own (book 4.6.6) keep what cannot be served until it is unsubscribed: others may hang on
        it, and who has dropped a filter would take it up again from below, in a circle. And what is flooded goes
        everywhere, whoever advertises it."""
        if self.settings.lasting:
            self.may_have_unserved = (
                True  # whoever drives this broker removes them when nothing waits for them
            )
            return
        for interest, neighbour in list(self.unserved(entries)):
            self.subscriptions.remove(interest, neighbour)

    def unserved(self, entries: Iterable[Entry]) -> list[Entry]:
        """The entries of the subscription table that no advertisement serves and that need not stay."""
        if self.history is not None or self.settings.strategy.initial():
            return []
        known = [(interest, name) for interest, name in entries if name in self.links]
        return list(unservable(known, self.advertisements))

    def _administer(self, source: str, added: Sequence[Interest], removed: Sequence[Interest]) -> None:
        if not added and not removed:
            return
        settings = self.settings
        outcome = settings.strategy.administer(self.subscriptions, source, added, removed)
        if self.redundancy is not None:
            self._notify(self.redundancy.declare(outcome, self.links))
            return
        alike = outcome.alike
        if self._disclosure.limited:
            self._tell(source, outcome, advertisements=False)
            self._disclose(advertisements=False)
        elif alike is None or settings.advertisements is not None or outcome.stale:
            self._tell(source, outcome, advertisements=False)
        elif alike[0]:
            # Most messages there are end here, where every broker is told of every filter.
            message = Admin(self.name, alike[1])
            tell = self._effects.append
            for neighbour in alike[0]:
                tell(Send(neighbour, message))

    def _notify(self, notice: Notice | None, source: str = "") -> None:
        """Tell all neighbours but the source what is new of a broker."""
        if notice is not None:
            for neighbour in self.links:
                if neighbour != source:
                    self._send(neighbour, notice)

    def _notice(self, message: Notice, now: int) -> None:
        assert self.redundancy is not None, "there are notices in redundant networks only"
        if self.hears(message.source):
            answer = self.redundancy.hear(message, self.links)
            self._notify(answer, "" if message.broker == self.name else message.source)

    def _administer_advertisements(
        self, source: str, added: Iterable[Interest], removed: Iterable[Interest]
    ) -> None:
        strategy = self.settings.advertisements
        assert strategy is not None, "there are no advertisements here"
        added, removed = tuple(added), tuple(removed)
        is_limited = source in self._disclosure.limited
        if source in self.subscriptions.hearers and source != self.parent and not is_limited:
            served = newly_servable(
                self.settings.strategy, self.subscriptions, self.advertisements, source, added
            )
            for interest in served:
                self._send(source, Admin(self.name, (interest,)))
        outcome = strategy.administer(self.advertisements, source, added, removed)
        self._tell(source, outcome, advertisements=True)
        if removed:
            self._drop_unservable(self.subscriptions)
        if self._disclosure.limited:
            self._disclose(advertisements=True)
            self._disclose(advertisements=False)

    def _disclose(self, *, advertisements: bool) -> None:
        """Send each neighbour with a limit the change of what it may know of a table."""
        for neighbour in self._disclosure.limited:
            self._disclose_to(neighbour, advertisements=advertisements)

    def _disclose_to(self, neighbour: str, *, advertisements: bool) -> None:
        wanted = self._disclosed(neighbour, advertisements=advertisements)
        added, removed = self._disclosure.tell(neighbour, wanted, advertisements=advertisements)
        if added or removed:
            self._send(neighbour, Admin(self.name, added, removed, advertisements))

    def _disclosed(self, neighbour: str, *, advertisements: bool) -> list[Interest]:
        """The interests of a table that a neighbour has to know, as far as it may know them."""
        settings = self.settings
        table = self.advertisements if advertisements else self.subscriptions
        strategy = settings.advertisements if advertisements else settings.strategy
        if strategy is None or neighbour not in table.hearers:
            return []
        parts = self._disclosure.parts(strategy, table, table.but(neighbour), neighbour)
        if advertisements or settings.advertisements is None or neighbour == self.parent:
            return parts
        served = dict.fromkeys(servable(parts, self.advertisements, neighbour))
        # What lasts is taken back by name only.
        told = self._disclosure.disclosed(neighbour, advertisements=False) if settings.lasting else {}
        return [each for each in parts if each in served or each in told]

    def _redisclose(self, command: Redisclose, now: int) -> None:
        """Tell every neighbour what it may know now, instead of what it was told."""
        disclosure = self._disclosure
        for neighbour in self.neighbours:
            was_limited = neighbour in disclosure.limited
            known: dict[bool, Iterable[Interest]] = {
                each: disclosure.disclosed(neighbour, advertisements=each)
                if was_limited
                else self._disclosed(neighbour, advertisements=each)
                for each in (True, False)
            }
            disclosure.forget(neighbour)
            disclosure.add(neighbour)
            if was_limited or neighbour in disclosure.limited:
                for advertisements, before in known.items():
                    disclosure.tell(neighbour, before, advertisements=advertisements)
                    self._disclose_to(neighbour, advertisements=advertisements)

    def _tell(self, source: str, outcome: Outcome, *, advertisements: bool) -> None:
        if outcome.stale and source in self.links:
            self._send(source, Renew(self.name, tuple(outcome.stale), advertisements))
        restricted = self.settings.advertisements is not None and not advertisements
        for neighbour in outcome.neighbours:
            if neighbour == source or neighbour in self._disclosure.limited:
                continue
            added = tuple(outcome.subscriptions.get(neighbour, ()))
            removed = tuple(outcome.unsubscriptions.get(neighbour, ()))
            lasting = self.settings.lasting
            # What lasts is taken back by name, and what it stood for has to last in its place.
            if restricted and neighbour != self.parent and not (lasting and removed):
                added = tuple(servable(added, self.advertisements, neighbour))
                if self.history is None:
                    removed = tuple(servable(removed, self.advertisements, neighbour))
            if added or removed:
                self._send(neighbour, Admin(self.name, added, removed, advertisements))

    def _renew(self, message: Renew, now: int) -> None:
        """Let own clients' interests begin again; ask on for those of others, each only once."""
        new = [interest for interest in message.interests if interest not in self._renewed]
        self._renewed.update(dict.fromkeys(new))
        while len(self._renewed) > RENEWED_MAX:
            del self._renewed[next(iter(self._renewed))]
        own = self._declarations.own(advertisements=message.advertisements)
        for interest in new:
            if interest in own:
                client, filter = own[interest]
                administer = self._administer_advertisements if message.advertisements else self._administer
                administer(client, (), [interest])
                again = self._declarations.add(client, filter, now, advertisements=message.advertisements)
                administer(client, again, ())
        others = tuple(interest for interest in new if interest not in own)
        if others:
            for neighbour in self.neighbours:
                if neighbour != message.source:
                    self._ask_to_renew(neighbour, others, advertisements=message.advertisements)

    def _ask_to_renew(self, neighbour: str, interests: Iterable[Interest], *, advertisements: bool) -> None:
        known = self._disclosure.may_know(neighbour, interests)
        if known:
            self._send(neighbour, Renew(self.name, known, advertisements))

    # -- links ---------------------------------------------------------------------------------------------

    def _link(self, command: Link, now: int) -> None:
        if command.neighbour in self.clients:
            raise ValueRefused(f"a client of {self.name} is named {command.neighbour!r}")
        if command.neighbour not in self.links:
            self._welcome(command.neighbour, LinkId(self._names.next(now), self.name))
            self._awaited.add(command.neighbour)

    def _connect(self, message: Connect, now: int) -> None:
        """Both sides say it, and what a side has sent before belongs to an earlier link.

        Who opens a link names it. So an answer to a link that was cut in the meantime is known as late, and a
        neighbour that opens another link has parted from the one before, whether or not it said so. Where both
        have opened one and await the other's answer, both take the greater.
        """
        source, link = message.source, message.link
        current = self.links.get(source)
        if source in self.clients:
            self._send(source, Disconnect(self.name, link))  # the name is taken
        elif link == current:
            self._awaited.discard(source)
        elif link.opener == self.name or (link == LinkId() and source in self.severed):
            return
        elif current is None or source not in self._awaited or current < link:
            self._unlink(Unlink(source), now)
            self._welcome(source, link)

    def _welcome(self, neighbour: str, link: LinkId) -> None:
        """Tell a new neighbour what it has to know (book 4.6.4)."""
        self._send(neighbour, Connect(self.name, link))
        self._add_neighbour(neighbour, link)
        if self.redundancy is not None:
            for notice in self.redundancy.whole(self.links):
                self._send(neighbour, notice)
            return
        if self.settings.advertisements is not None:
            # Subscriptions follow, when the neighbour's advertisements have come.
            self._announce(self.settings.advertisements, self.advertisements, neighbour)
        if self.settings.advertisements is None or neighbour == self.parent:
            self._announce(self.settings.strategy, self.subscriptions, neighbour)

    def add_neighbour(self, neighbour: str) -> list[Effect]:
        """Add a neighbour to which the caller sends the `announcement`, or the notices."""
        self._effects = []
        if neighbour not in self.links:
            self._add_neighbour(neighbour, LinkId())
        return self._effects

    def know(self, topology: Topology) -> None:
        """Know the neighbours of all other brokers of a redundant network, as if each had told of its own."""
        assert self.redundancy is not None
        for other in topology.brokers:
            neighbours = topology.neighbours(other)
            if other != self.name:
                self.redundancy.notices.take(other, len(neighbours), neighbours)

    def notices(self) -> list[Notice]:
        """All that is known of the brokers of a redundant network, for a neighbour."""
        assert self.redundancy is not None
        return self.redundancy.whole(self.links)

    def announcement(self, neighbour: str) -> tuple[list[Interest], list[Interest], list[Interest]]:
        """The subscriptions and the advertisements that a neighbour has to know of, all of them (book 4.6.4).

        And the subscriptions that it need not know, but keeps where they last.
        """
        strategies = (self.settings.strategy, self.settings.advertisements)
        told = [
            list(self._disclosure.parts(strategy, table, table.but(neighbour), neighbour))
            if strategy is not None and neighbour in table.hearers
            else []
            for strategy, table in zip(strategies, (self.subscriptions, self.advertisements), strict=True)
        ]
        subscriptions, advertisements = told
        others: list[Interest] = []
        if self.settings.advertisements is not None and neighbour != self.parent:
            served = dict.fromkeys(servable(subscriptions, self.advertisements, neighbour))
            if self.settings.lasting:
                others = [each for each in subscriptions if each not in served]
            subscriptions = list(served)
        if neighbour in self._disclosure.limited:
            before = self._disclosure.disclosed(neighbour, advertisements=False)
            known = [*subscriptions, *(each for each in others if each in before)]
            self._disclosure.tell(neighbour, known, advertisements=False)
            self._disclosure.tell(neighbour, advertisements, advertisements=True)
        return subscriptions, advertisements, others

    def _announce(self, strategy: Strategy, table: RoutingTable, neighbour: str) -> None:
        if neighbour in self._disclosure.limited:
            self._disclose_to(neighbour, advertisements=table is self.advertisements)
        elif neighbour in table.hearers:
            for interest in strategy.prune(table, table.but(neighbour)):
                self._send(neighbour, Admin(self.name, (interest,), (), table is self.advertisements))

    def is_above(self, neighbour: str) -> bool:
        """Whether a neighbour is below this broker in a hierarchy."""
        return neighbour in self.settings.children or (self.settings.grows and neighbour != self.parent)

    def _add_neighbour(self, neighbour: str, link: LinkId) -> None:
        self.links[neighbour] = link
        if self.redundancy is not None:
            self._notify(self.redundancy.linked(self.links), neighbour)
            return
        self._disclosure.add(neighbour)
        below = self.is_above(neighbour)
        self.advertisements.add_neighbour(neighbour, deaf=below)
        self.subscriptions.add_neighbour(neighbour, deaf=below and self.settings.climbs)
        for interest in self.settings.strategy.initial():
            self.subscriptions.add(interest, neighbour)

    def _unlink(self, command: Unlink, now: int) -> None:
        link = self.links.get(command.neighbour)
        if link is not None:
            self._send(command.neighbour, Disconnect(self.name, link))
            self._remove_neighbour(command.neighbour)
            if self.history is not None:
                self._go_on(self.history, now)

    def _disconnect(self, message: Disconnect, now: int) -> None:
        if self.links.get(message.source) == message.link:
            self._remove_neighbour(message.source)
            if self.history is not None:
                self._go_on(self.history, now)

    def _remove_neighbour(self, neighbour: str) -> None:
        """As if the neighbour had taken back all it ever told."""
        if self.links.pop(neighbour) == LinkId():
            self.severed.add(neighbour)
        self._awaited.discard(neighbour)
        self._received.pop(neighbour, None)
        if self.redundancy is not None:
            self._notify(self.redundancy.linked(self.links))
            return
        self._disclosure.forget(neighbour)
        for table in (self.subscriptions, self.advertisements):
            table.remove_neighbour(neighbour)
            table.mergers.pop(neighbour, None)  # all entries go, so what they were made of does not matter
        for interest in self.settings.strategy.initial():
            self.subscriptions.remove(interest, neighbour)
        advertised = list(self.advertisements.of(neighbour))
        if advertised:
            self._administer_advertisements(neighbour, (), advertised)
        subscribed = list(self.subscriptions.of(neighbour))
        if subscribed:
            self._administer(neighbour, (), subscribed)
        if self.history is not None:
            for interests, advertisements in ((subscribed, False), (advertised, True)):
                if interests:
                    for other in self.neighbours:
                        self._ask_to_renew(other, interests, advertisements=advertisements)
            for identity, sender in self.history.lost(neighbour):
                self._send(sender, Passed(self.name, identity))

    def _climb(self, command: Climb, now: int) -> None:
        """Leave the parent for another one, or go back to the one that was lost."""
        if command.parent == self.parent and (command.parent is None or command.parent in self.links):
            return
        for other in (self.parent, command.parent):
            if other is not None and other in self.subscriptions.neighbours:
                self._unlink(Unlink(other), now)
        self.parent = command.parent
        if command.parent is not None:
            self._link(Link(command.parent), now)

    # -- sending -------------------------------------------------------------------------------------------

    def _send(self, to: str, message: Message) -> None:
        self._effects.append(Send(to, message))

    def _batch(self, message: Batch, now: int) -> None:
        for each in message.messages:
            self._HANDLERS[type(each)](self, each, now)

    def _tick(self, command: Tick, now: int) -> None:
        """Nothing by itself: what is due is looked at after every step."""

    _HANDLERS: ClassVar[dict[type, Any]] = {
        Forward: _forward,
        Admin: _admin,
        Notice: _notice,
        Renew: _renew,
        Connect: _connect,
        Disconnect: _disconnect,
        Passed: _passed,
        Stamp: _stamp,
        Batch: _batch,
        Join: _join,
        Reconsider: _reconsider,
        Redeclare: _redeclare,
        Leave: _leave,
        Publish: _publish,
        Subscribe: _subscribe,
        Change: _change,
        Unsubscribe: _unsubscribe,
        Advertise: _advertise,
        Unadvertise: _unadvertise,
        Link: _link,
        Redisclose: _redisclose,
        Unlink: _unlink,
        Climb: _climb,
        Tick: _tick,
        Synced: _synced,
    }


def _not_advertised(client: str, notification: Notification) -> Refusal:
    return Refusal("no advertisement of this client matches")
