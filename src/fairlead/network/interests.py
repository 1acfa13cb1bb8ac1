"""The filters that clients and neighbours have at a broker, and what each neighbour has to know of them.

When a link is connected, both sides announce all interests that the other one has to know (`Table`), and the
difference takes effect at once. From then on they send changes (`InterestsChanged`). A neighbour that is away is
sent nothing: it gets all of it when it reconnects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from fairlead.broker import Broker
from fairlead.broker import messages as calls
from fairlead.errors import FairleadError, Forbidden, NotThere, ProtocolError, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse, render
from fairlead.model import Notification
from fairlead.network import wire
from fairlead.network.destinations import Link
from fairlead.network.ledger import InterestsChanged, InterestText, Noticed
from fairlead.network.persistence import Persistence
from fairlead.network.router import Router
from fairlead.network.turns import Turn
from fairlead.routing import Interest

__all__ = ["Interests"]

TEXTS_SIZE_MAX: Final = 1 << 23
"""The number of characters of filters' texts that are remembered as they were read."""
RELATION_BYTES: Final = 150
"""The memory of the relation between two filters, as measured; a row of nested ones has none."""
NOTED_AT_ONCE: Final = 1 << 20
"""The number of characters of filters that go into one record of the log."""


class Interests:
    """Calls the broker for clients and neighbours, and sends the neighbours what follows."""

    def __init__(
        self,
        broker: Broker,
        router: Router,
        links: Mapping[str, Link],
        persistence: Persistence,
        *,
        texts_max: int,
        turn: Turn,
    ) -> None:
        self._broker, self._router, self._links, self._turn = broker, router, links, turn
        self._persistence, self._texts_max = persistence, texts_max
        self._texts: dict[str, Filter] = {}
        self._texts_size = 0
        self.end: Callable[[], int] = lambda: 0
        """The offset of the next record of the log."""
        self.granted: Callable[[calls.Grant], None] = lambda grant: None
        """Called with what is granted, where that is not what was requested, or another filter than before."""

    def filter(self, text: str) -> Filter:
        """The filter of a text; the same texts come often."""
        filter = self._texts.get(text)
        if filter is None:
            filter = self._broker.seam.resolve(parse(text, self._broker.catalogue.schema))
            self._texts_size += len(text)
            if len(self._texts) > self._texts_max or self._texts_size > TEXTS_SIZE_MAX:
                self._texts.clear()
                self._texts_size = len(text)
            self._texts[text] = filter
        return filter

    def prepare(self, filters: Iterable[Filter] = ()) -> bool:
        """Relate new filters to the others until the turn is over; whether a change takes few steps now.

        False: the change waits for the next turn. What others have begun is finished first.
        """
        broker = self._broker
        return not broker.settings.strategy.relates or broker.catalogue.prepare(
            filters, lambda: self._turn.is_over
        )

    def relations_bytes(self, filter: Filter) -> int:
        """About how much memory the relations of a filter to others take."""
        catalogue = self._broker.catalogue
        return RELATION_BYTES * catalogue.relations(catalogue.interest(filter))

    def prepare_for(self, message: wire.Table | wire.InterestsChanged | wire.Notice | wire.Notices) -> bool:
        """The same for what a neighbour announces; what cannot be read is refused when it is handled."""
        if isinstance(message, wire.Notices):
            named = [each for _, _, _, interests in message.notices for each in interests]
        else:
            named = message.subscriptions if isinstance(message, wire.Table) else message.added
        try:
            return self.prepare([self.filter(text) for text, _ in named])
        except FairleadError:
            return True

    # -- of clients ----------------------------------------------------------------------------------------------

    def call(self, call: calls.Call, now: int) -> None:
        """Perform a client's call at the broker, and send the neighbours the changes. FairleadError if the broker
        refuses."""
        effects = self._broker.handle(call, now)
        for effect in effects:
            if isinstance(effect, calls.Refuse):
                kind = Forbidden if effect.is_forbidden else NotThere if effect.is_missing else ValueRefused
                raise kind(effect.reason)
        self._grant(effects)
        self._send(effects)
        self._router.change()

    def regrant(self, client: str, now: int) -> None:
        """Grant what the rules say now of what a client has subscribed to and advertised."""
        effects = self._broker.handle(calls.Reconsider(client), now)
        if effects:
            self._grant(effects)
            self._send(effects)
            self._router.change()

    def redisclose(self, now: int) -> None:
        """Tell the neighbours what the rules let them know now."""
        self._send(self._broker.handle(calls.Redisclose(), now))
        self._router.change()

    def learn(self, notification: Notification, now: int) -> None:
        """Rules learn from a notification before it is routed; the neighbours are sent what follows."""
        if self._broker.seam.learn(notification, self.end()):
            self.redeclare(now)

    def redeclare(self, now: int) -> None:
        """The rules have changed: declare the subscriptions of all clients once more."""
        for client in list(self._broker.clients):
            for filter in self._broker.clients[client].subscriptions.by_filter:
                self._router.look_at(self._broker.seam.declare(client, filter))
        self._send(self._broker.handle(calls.Redeclare(), now))
        self._router.change()

    def recall_durable(self, client: str, id: str, filter: Filter, now: int) -> None:
        """A subscription of a durable subscriber, as the state has it."""
        self._router.look_at(filter)
        self._grant(self._broker.handle(calls.Subscribe(client, id, filter, lasting=True), now))

    def _grant(self, effects: Iterable[calls.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, calls.Grant):
                self._router.look_at(effect.filter)  # its limit looks at more than what was requested
                self.granted(effect)

    def leave(self, client: str) -> None:
        """A client has gone, with all its subscriptions and advertisements."""
        self._router.targets.pop(client, None)
        self._send(self._broker.handle(calls.Leave(client), 0))
        self._router.change()

    # -- of neighbours -------------------------------------------------------------------------------------------

    def recall(self, name: str, now: int) -> None:
        """A neighbour's interests, as the state has them."""
        neighbour = self._persistence.state.neighbours[name]
        for advertisements in (True, False):
            texts = neighbour.interests(advertisements=advertisements)
            added = tuple(self._interest(each) for each in texts)
            if added:
                self._broker.handle(calls.Admin(name, added, (), advertisements), now)

    def announcement(self, name: str) -> wire.Table:
        """All interests that a neighbour has to know."""
        return wire.Table(*map(_texts, self._broker.announcement(name)))

    def replace(self, name: str, table: wire.Table, now: int) -> None:
        """A neighbour has announced all its interests. They replace the earlier ones."""
        self._replace(name, table.advertisements, [], now, advertisements=True)
        self._replace(name, table.subscriptions, table.others, now, advertisements=False)

    def _replace(
        self,
        name: str,
        announced: list[InterestText],
        others: list[InterestText],
        now: int,
        *,
        advertisements: bool,
    ) -> None:
        """A subscription that nothing here is advertised for stays, if it was known: something may have been
        published for it by clients that have gone since."""
        broker = self._broker
        whole = dict.fromkeys([*announced, *others])
        # The table counts, not the state: where filters cover others, the table has dropped some.
        table = broker.advertisements if advertisements else broker.subscriptions
        initial = () if advertisements else broker.settings.strategy.initial()
        known = dict.fromkeys(_texts(each for each in table.of(name) if each not in initial))
        removed = [each for each in known if each not in whole]
        # One of the others may cover what is removed.
        added = [each for each in (whole if removed else announced) if each not in known]
        noted = self._persistence.state.neighbours[name].interests(advertisements=advertisements)
        dropped = [each for each in noted if each not in whole and each not in known]
        if added or removed or dropped:
            self._change(name, added, removed, now, advertisements=advertisements, dropped=dropped)

    def change(self, name: str, message: wire.InterestsChanged, now: int) -> None:
        """A neighbour has changed its interests; ProtocolError where they cannot be read."""
        self._change(name, message.added, message.removed, now, advertisements=message.advertisements)

    def _change(
        self,
        name: str,
        added: list[InterestText],
        removed: list[InterestText],
        now: int,
        *,
        advertisements: bool,
        dropped: Iterable[InterestText] = (),
    ) -> None:
        if advertisements and self._broker.settings.advertisements is None:
            raise ProtocolError("there are no advertisements in this network")
        try:
            more = tuple(self._interest(each) for each in added)
            less = tuple(self._interest(each) for each in removed)
        except FairleadError as error:
            raise ProtocolError(f"a filter that cannot be read here: {error}") from None
        for some in _in_records([*removed, *dropped]):
            self._persistence.note(InterestsChanged(name, [], some, advertisements), now)
        for some in _in_records(added):
            self._persistence.note(InterestsChanged(name, some, [], advertisements), now)
        self._send(self._broker.handle(calls.Admin(name, more, less, advertisements), now))
        self._router.change()

    # -- of the brokers of a redundant network -------------------------------------------------------------------

    def recall_notices(self, now: int) -> None:
        """The notices of other brokers, as the state has them."""
        for broker, known in self._persistence.state.notices.items():
            added = tuple(self._interest(each) for each in known.interests)
            notice = calls.Notice("", broker, known.number, known.neighbours, added, (), True)
            assert self._broker.redundancy is not None
            self._broker.redundancy.hear(notice, ())

    def notices(self) -> wire.Notices:
        """All that this broker knows, for a neighbour."""
        told = self._broker.notices()
        return wire.Notices(
            [(each.broker, each.number, list(each.neighbours), _texts(each.added)) for each in told]
        )

    def hear(self, name: str, heard: wire.Notice, now: int) -> None:
        """A neighbour has told something of a broker. ProtocolError: it cannot be read, or a notice is missing."""
        redundancy, broker = self._broker.redundancy, heard.broker
        if redundancy is None or not broker:
            raise ProtocolError("there are no notices in this network")
        try:
            more = tuple(self._interest(each) for each in heard.added)
            less = tuple(self._interest(each) for each in heard.removed)
        except FairleadError as error:
            raise ProtocolError(f"a filter that cannot be read here: {error}") from None
        is_new = broker != self._broker.name and heard.number > redundancy.notices.number_of(broker)
        before = dict.fromkeys(redundancy.others.of(broker)) if is_new else {}
        notice = calls.Notice(name, broker, heard.number, tuple(heard.neighbours), more, less, heard.whole)
        effects = self._broker.handle(notice, now)
        if is_new:
            after = redundancy.others.of(broker)
            self._note(heard, [*(after - before.keys())], [*(before.keys() - after)], now)
        self._send(effects)
        self._router.change()

    def _note(self, heard: wire.Notice, added: list[Interest], removed: list[Interest], now: int) -> None:
        """The notice, in records that are not too long."""
        head = (heard.broker, heard.number, heard.neighbours)
        some: list[tuple[list[InterestText], list[InterestText]]] = [
            *(([], each) for each in _in_records(_texts(removed))),
            *((each, []) for each in _in_records(_texts(added))),
        ]
        for more, less in some or [([], [])]:
            self._persistence.note(Noticed(*head, more, less), now)

    def add_neighbour(self, name: str) -> None:
        """A broker is a neighbour from now on."""
        self._send(self._broker.add_neighbour(name))
        self._router.change()

    def remove_neighbour(self, name: str, now: int) -> None:
        """A broker is no neighbour any longer: its interests end. Its link has been removed."""
        effects = self._broker.handle(calls.Unlink(name), now)
        self._router.forget(name)
        self._send(effects)

    def _interest(self, text_and_owner: Iterable[str]) -> Interest:
        text, owner = text_and_owner
        interest = self._broker.catalogue.interest(self.filter(text), owner)
        self._router.look_at(interest.filter)
        return interest

    def _send(self, effects: Iterable[calls.Effect]) -> None:
        """Send the neighbours that are connected what the broker sends them."""
        for effect in effects:
            match effect:
                case calls.Send(to, calls.Notice(_, broker, number, neighbours, added, removed, whole)):
                    link = self._links.get(to)
                    if link is not None and link.session is not None:
                        link.session.tell(
                            wire.Notice(
                                broker, number, list(neighbours), _texts(added), _texts(removed), whole
                            )
                        )
                case calls.Send(to, calls.Admin(_, added, removed, advertisements)):
                    link = self._links.get(to)
                    if link is not None and link.session is not None:
                        link.session.tell(
                            wire.InterestsChanged(_texts(added), _texts(removed), advertisements)
                        )
                case _:
                    pass


def _texts(interests: Iterable[Interest]) -> list[InterestText]:
    return [(render(interest.filter), interest.owner) for interest in interests]


def _in_records(interests: Iterable[InterestText]) -> Iterator[list[InterestText]]:
    """All of them, in pieces that fit into a record."""
    some: list[InterestText] = []
    size = 0
    for each in interests:
        length = len(each[0]) + len(each[1])
        if some and size + length > NOTED_AT_ONCE:
            yield some
            some, size = [], 0
        some.append(each)
        size += length
    if some:
        yield some
