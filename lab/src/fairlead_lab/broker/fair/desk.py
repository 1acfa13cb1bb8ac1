"""The share of each client in a role's order: a function of that order alone, so all replicas of a role agree
on it.

What is put in order is applied here, one by one. An event goes to those with a unary predicate that it satisfies
(FAIDECS, Figure 4: `subs` and `kids`). All else changes who they are:

- **Subscribing.** What a client asks for is first asked of the roles that this one merges, as a disjunction of
  unary predicates. They confirm it at a place of their order, once those above them have done so. Only then
  does the client's stream begin: from its first position on nothing is missing in it. (The paper assumes that
  all are connected before events are multicast.)
- **Joining.** If another client has the same conjunction, the new one does not begin with nothing: the other is
  asked for its state as of this very position, and the new one keeps what follows until the state comes
  (FAIDECS 5.2, "Joining"). States go through the role's order. So when the source crashes, it is decided for
  all replicas alike whether its state came first; if not, the oldest subscriber is asked, or, without one, all
  begin anew here.
- **Leaving and crashing** withdraw what was asked for, here and further up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

from fairlead.correlation.fair import Choice, Conjunction
from fairlead.correlation.fair.subscriptions import TYPE
from fairlead.filters import Attribute, Constraint, Filter, Op
from fairlead.model import Notification
from fairlead_lab.broker.fair.directory import ALL, Role
from fairlead_lab.broker.fair.messages import (
    Applied,
    Began,
    Content,
    Copied,
    Copy,
    From,
    Gone,
    Interested,
    Left,
    Need,
    Pulse,
    Recipient,
    Wants,
)

__all__ = ["Desk", "condensed"]


class Desk:
    """The subscribers of a role, clients and mergers, as its order up to here has made them."""

    def __init__(self, role: Role, *, is_root: bool) -> None:
        self.role = role
        self.need: Wants = frozenset()
        """The events that the roles above are asked for."""
        self.number = 0
        """The number of its changes."""
        self.begun: dict[str, None] = {}
        """The clients whose streams have begun, in order."""
        self.timed: dict[str, None] = {}
        """Those of them that have to hear of the time."""
        self._confirmed = None if is_root else [0, 0]
        self._clients: dict[str, Interested] = {}
        self._wants: dict[Recipient, Wants] = {}
        self._interests: Counter[tuple[str, Filter]] = Counter()
        self._index: dict[str, dict[Filter, dict[Recipient, None]]] = {}
        self._waiting: list[tuple[int, Recipient, int]] = []
        self._alike: dict[tuple[Conjunction, Choice], dict[str, None]] = {}
        """The clients that have begun with a conjunction, the oldest first."""
        self._copies: dict[tuple[str, Conjunction], str] = {}
        self._items: dict[Recipient, tuple[Content, ...]] = {}

    def knows(self, client: str) -> bool:
        """Whether a client is a subscriber, or is about to be one."""
        return client in self._clients

    def apply(self, content: Content) -> dict[Recipient, tuple[Content, ...]]:
        """Take in what comes next in the order: what is to be sent to whom for it."""
        self._items = {}
        self._take(content)
        return self._items

    def _take(self, content: Content, *, is_right: bool = False) -> None:
        match content:
            case Notification():
                self._items.update(dict.fromkeys(self._interested(content), (content,)))
            case From(is_right=side, contents=contents):
                for each in contents:
                    self._take(each, is_right=side)
            case Applied(number=number):
                assert self._confirmed is not None
                self._confirmed[is_right] = number
                self._establish()
            case Interested(client=client, conjunctions=conjunctions):
                self._clients[client] = content
                self._ask(client, condensed(_wants(conjunctions)))
                self._await(client)
            case Need(role=role, number=number, wants=wants):
                self._drop(role)
                self._ask(role, wants)
                self._serve(role, wants)
                self._await(role, number)
            case Copied(source=source, client=client, state=state):
                [conjunction] = state.subscription.conjunctions
                if self._copies.get((client, conjunction)) == source:
                    del self._copies[client, conjunction]
                    self._put(client, content)
            case Left(client=client) | Gone(client=client):
                self._leave(client)
            case Pulse():
                for client in self.timed:
                    self._put(client)
            case _:
                raise AssertionError(f"nothing that is put in order: {content}")

    def _put(self, recipient: Recipient, *contents: Content) -> None:
        self._items[recipient] = (*self._items.get(recipient, ()), *contents)

    # -- who is interested ---------------------------------------------------------------------------------

    def _interested(self, event: Notification) -> Iterable[Recipient]:
        if self.role == ALL:  # a broadcast
            return self.begun
        found: dict[Recipient, None] = {}
        for filter, recipients in self._index.get(event.get(TYPE), {}).items():
            if filter.matches(event):
                found |= recipients
        return found

    def _serve(self, recipient: Recipient, wants: Wants) -> None:
        # In the order of names: what is sent first must not depend on how sets are laid out in memory.
        for type, filter in sorted(wants, key=str):
            self._index.setdefault(type, {}).setdefault(filter, {})[recipient] = None

    def _drop(self, recipient: Recipient) -> None:
        for type, filter in (dropped := self._wants.pop(recipient, frozenset())):
            filters = self._index.get(type, {})
            filters.get(filter, {}).pop(recipient, None)
            if not filters.get(filter):
                filters.pop(filter, None)
        self._interests.subtract(dropped)

    def _ask(self, recipient: Recipient, wants: Wants) -> None:
        """Note what a recipient asks for, and whether more or less is to be asked for above."""
        if wants:
            self._wants[recipient] = wants
            self._interests.update(wants)
        if self._confirmed is not None:
            self._interests = +self._interests
            need = condensed(frozenset(self._interests))
            if need != self.need:
                self.need = need
                self.number += 1

    # -- beginning -----------------------------------------------------------------------------------------

    def _await(self, recipient: Recipient, number: int = 0) -> None:
        """Give a client all that it asks for, once what is asked for above now has been confirmed."""
        self._waiting.append((self.number, recipient, number))
        self._establish()

    def _establish(self) -> None:
        while self._waiting:
            needed, recipient, number = self._waiting[0]
            if self._confirmed is not None and needed > min(self._confirmed):
                return
            del self._waiting[0]
            if isinstance(recipient, str):
                self._begin(recipient)
            elif recipient in self._wants:
                self._put(recipient, Applied(number))

    def _begin(self, client: str) -> None:
        asked = self._clients[client]
        sources = {each: self._source(client, each) for each in asked.conjunctions}
        fresh = tuple(each for each, source in sources.items() if source is None)
        self.begun[client] = None
        for conjunction in asked.conjunctions:
            self._alike.setdefault((conjunction, asked.choice), {})[client] = None
        if asked.timed:
            self.timed[client] = None
        self._serve(client, self._wants[client])
        self._put(client, Began(fresh, tuple(each for each in asked.conjunctions if each not in fresh)))
        for conjunction, source in sources.items():
            if source is not None:
                self._copy(client, conjunction, source)

    def _source(self, client: str, conjunction: Conjunction) -> str | None:
        """The client that began before and asks the same. As only the older are asked, nobody waits in a
        circle.
        """
        alike = self._alike.get((conjunction, self._clients[client].choice), {})
        oldest = next(iter(alike), client)
        return None if oldest == client else oldest

    def _copy(self, client: str, conjunction: Conjunction, source: str) -> None:
        self._copies[client, conjunction] = source
        self._put(source, Copy(conjunction, client))

    def _leave(self, client: str) -> None:
        asked = self._clients.pop(client, None)
        if asked is None:
            return
        if self.begun.pop(client, client) is None:
            for conjunction in asked.conjunctions:
                del self._alike[conjunction, asked.choice][client]
        self.timed.pop(client, None)
        self._waiting = [each for each in self._waiting if each[1] != client]
        self._drop(client)
        self._ask(client, frozenset())
        orphans = [each for each, source in self._copies.items() if source == client]
        self._copies = {
            each: source for each, source in self._copies.items() if client not in (each[0], source)
        }
        for joiner, conjunction in orphans:
            if joiner != client:
                other = self._source(joiner, conjunction)
                if other is None:
                    self._put(joiner, Began((conjunction,)))
                else:
                    self._copy(joiner, conjunction, other)


def _wants(conjunctions: Iterable[Conjunction]) -> Wants:
    return frozenset(
        (instance.type, filter) for each in conjunctions for instance, filter in each.filters.items()
    )


def condensed(wants: Wants) -> Wants:
    """The same disjunction, without what is asked for anyway because all events of its type are."""
    whole = {type for type, filter in wants if filter == _whole(type)}
    return frozenset(each for each in wants if each[0] not in whole or each[1] == _whole(each[0]))


@cache
def _whole(type: str) -> Filter:
    return Constraint(Attribute(TYPE), Op.EQ, type)
