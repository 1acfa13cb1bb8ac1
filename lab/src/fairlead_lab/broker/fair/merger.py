"""Decentralised ordered merging (FAIDECS 5.2, Figures 4 and 6): a merger, alone or one of several replicas.

The merger of the types T1 … Tk puts in one order what comes from the merger of T1 … Tk-1, on the left, and from
that of Tk, on the right; those of a single type, what clients multicast. What it has ordered goes, in this
order, to the mergers and clients below that want it. So all who get events of some prefix of types get them in
one order. A merger of all types at once is a sequencer, and several replicas of it are a replicated sequencer.

**Replicas** (Figure 3). The first that lives leads: inputs stand in the order in which it receives them. Those
below are spread over the replicas, and each replica serves its own. When it crashes they attach to another, and
say which position they have come to; what they may lack is kept until all that are to have it have said that
they do. Replicas tell each other what they were told.

**Time.** For clients that merge the streams of several roles, every position has a time, given by the leader.
When nothing has been ordered for an interval, a pulse is: the paper's empty event. It is not enough to send it
then: a client whose events were all filtered out would wait although the merger is busy, so whoever was not
sent anything for an interval is told the time of the last position.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Set
from typing import ClassVar
from zlib import crc32

from fairlead_lab.broker.fair.directory import ALL, Directory, Role
from fairlead_lab.broker.fair.messages import (
    Agreed,
    Ask,
    Attach,
    Content,
    Effect,
    Fixed,
    From,
    Input,
    Install,
    Item,
    Order,
    Received,
    Recipient,
    Report,
    Settled,
    Slot,
    Wake,
)
from fairlead_lab.broker.fair.replica import PULSE, Replica

__all__ = ["Merger", "chosen"]


def chosen(process: str, alive: list[str]) -> str | None:
    """The living replica that a process attaches to: all alike often; None where none lives."""
    return alive[crc32(process.encode()) % len(alive)] if alive else None


class Merger(Replica):
    """A replica of a role where one gives the order."""

    def __init__(
        self, me: str, role: Role, directory: Directory, *, dead: Set[str], now: int, interval_us: int
    ) -> None:
        super().__init__(me, role, directory, dead=dead, now=now, interval_us=interval_us)
        self._parents: tuple[Role, ...] = directory.parents(role) or ()
        self._above: dict[Role, str | None] = {}
        self._got: dict[Role, int] = dict.fromkeys(self._parents, 0)
        self._agreed: dict[str, int] = {}
        self._attached: dict[Recipient, dict[str, None]] = {}
        self._sent: dict[str, int] = {}
        """Up to where those clients were told that have to hear of the time."""
        self._buffer: deque[tuple[int, int, dict[Recipient, tuple[Content, ...]]]] = deque()
        self._has: dict[tuple[str, Recipient], int] = {}
        """Up to where each process below has what it is to get, as it told this replica or another."""
        self._settled: dict[str, int] = {}
        self._news: dict[tuple[str, Recipient], int] = {}
        self._is_dirty = False
        self._ordered_at = now
        self._due: int | None = None

    @property
    def _is_replicated(self) -> bool:
        return len(self.members) > 1

    @property
    def retained(self) -> int:
        """The number of entries that are retained until nobody can ask for them any more, those sent
        included.
        """
        return super().retained + len(self._buffer)

    def begin(self) -> None:
        """Attach to the roles above."""
        for parent in self._parents:
            self._climb(parent)

    def _climb(self, parent: Role) -> None:
        alive = [each for each in self.directory.members(parent) if each not in self._dead]
        above = self._above[parent] = chosen(self.me, alive)
        if above is not None:
            self.send(above, Attach(parent, self.me, self.role, self._got[parent]))

    def lost(self, process: str) -> None:
        """Forget a replica that is gone: those attached to it need another, and nobody asks for what it was
        to get.
        """
        for parent, above in self._above.items():
            if above == process:
                self._climb(parent)
        for recipient in [each for each, attached in self._attached.items() if process in attached]:
            del self._attached[recipient][process]
        self._is_dirty = True

    # -- the order -----------------------------------------------------------------------------------------

    def item(self, message: Item) -> None:
        """A role above has put something in order. Two replicas of it may say so, around a crash."""
        if message.position > self._got[message.role]:
            self._got[message.role] = message.position
            self._is_dirty = True
            is_right = message.role == self._parents[1]
            self.take((message.role, message.position), From(is_right, message.contents))

    def taken(self) -> None:
        """The leader gives places in the order of arrival."""
        if self.normal and self.leads:
            key = next(reversed(self._contents))
            if key not in self._assigned:
                self._order(Slot(key, self.next_stamp()))

    def _order(self, slot: Slot) -> None:
        self.assign(slot)
        self._ordered_at = self.now
        for peer in self.peers:
            self.send(peer, Order(self.role, self.me, self.view, self.end, slot))
        self._count()

    def order(self, message: Order) -> None:
        """The leader has given a place."""
        if message.view == self.view:
            assert message.position == self.end + 1
            self.assign(message.slot)
            self._agree()

    def _agree(self) -> None:
        # With the leader, so many are a majority: the others need not say that they know, too.
        if self.me in self.alive[: self.majority]:
            self.send(self.alive[0], Agreed(self.role, self.me, self.view, self.end))
        if self.majority <= 2:  # The leader and this one are a majority.
            self.fixed = self.end
            self.carry_out()

    def agreed(self, message: Agreed) -> None:
        """A peer knows the order up to a position."""
        if message.view == self.view:
            self._agreed[message.source] = message.upto
            self._count()

    def _count(self) -> None:
        known = sorted((self.end, *(self._agreed.get(each, 0) for each in self.peers)), reverse=True)
        if len(known) >= self.majority and known[self.majority - 1] > self.fixed:
            self.fixed = known[self.majority - 1]
            if self.majority > 2:
                for peer in self.peers:
                    self.send(peer, Fixed(self.role, self.me, self.view, self.fixed))
            self.carry_out()

    def fix(self, message: Fixed) -> None:
        """A majority knows the order up to a position."""
        if message.view == self.view:
            self.fixed = max(self.fixed, message.upto)
            self.carry_out()

    def lead(self) -> None:
        """Take the lead: what the old leader left over is ordered now."""
        self._agreed = {}
        self._count()
        for key in self.waiting:
            self._order(Slot(key, self.next_stamp()))

    def follow(self) -> None:
        """The log of the view is known."""
        self._agree()

    # -- those below ---------------------------------------------------------------------------------------

    def tell(self, position: int, stamp: int, items: dict[Recipient, tuple[Content, ...]]) -> None:
        """Send to those that are attached here, and keep it for those that may come."""
        if self._is_replicated:
            self._is_dirty = True
            if items:
                self._buffer.append((position, stamp, items))
        item = Item(self.role, ALL, position, stamp, ())
        for recipient, contents in items.items():
            for process in self._attached.get(recipient, ()):
                if isinstance(recipient, str):
                    if item.contents is not contents:
                        item = Item(self.role, ALL, position, stamp, contents)
                    self.send(process, item)
                    if recipient in self.desk.timed:
                        self._sent[recipient] = position
                else:
                    self.send(process, Item(self.role, recipient, position, stamp, contents))

    def attach(self, message: Attach) -> None:
        """Somebody is to be served here, from a position on."""
        source, recipient = message.source, message.recipient
        self._attached.setdefault(recipient, {})[source] = None
        self._note(source, recipient, message.after)
        to = ALL if isinstance(recipient, str) else recipient
        for position, stamp, items in self._buffer:
            if position > message.after and recipient in items:
                self.send(source, Item(self.role, to, position, stamp, items[recipient]))

    def received(self, message: Received) -> None:
        """Somebody has what was sent to it."""
        self._note(message.source, message.recipient, message.upto)

    def _note(self, source: str, recipient: Recipient, upto: int) -> None:
        if self._is_replicated and upto > self._has.get((source, recipient), 0):
            self._has[source, recipient] = self._news[source, recipient] = upto
            self._is_dirty = True

    def settle(self, message: Settled) -> None:
        """Note the position of a peer, and of those that are attached to it."""
        self._settled[message.source] = message.upto
        for process, upto in message.received:
            self._has[process] = max(upto, self._has.get(process, 0))
        self._trim()

    def _trim(self) -> None:
        """Forget what nobody can ask for any more."""
        self.forget(min((self._settled.get(each, 0) for each in self.peers), default=self.applied))
        while self._buffer and not any(map(self._may_ask, self._buffer[0][2])):
            self._buffer.popleft()

    def _may_ask(self, recipient: Recipient) -> bool:
        position = self._buffer[0][0]
        processes = (recipient,) if isinstance(recipient, str) else self.directory.members(recipient)
        return any(
            self._has.get((each, recipient), 0) < position
            for each in processes
            if each not in self._dead and (not isinstance(recipient, str) or self.desk.knows(recipient))
        )

    # -- now and then --------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Come back later, if there is something to be told then."""
        if not self._is_replicated:
            self.forget(self.applied)
        if self._due is None and (self.desk.timed or (self._is_dirty and self._is_replicated)):
            self._due = self.now + self.interval_us
            self.effects.append(Wake(self._due))

    def tick(self, now: int) -> list[Effect]:
        """Tell peers and those above how far all is, and those below how late it is."""
        self.now, self.effects = now, []
        if self._due is not None and now >= self._due:
            self._due = None
            if self._is_dirty and self._is_replicated:
                self._is_dirty = False
                self._acknowledge()
            self._tell_time()
            self.rest()
        return self.effects

    def _acknowledge(self) -> None:
        for parent, above in self._above.items():
            if above is not None:
                self.send(above, Received(parent, self.me, self.role, self._got[parent]))
        news = tuple(self._news.items())
        self._news = {}
        for peer in self.peers:
            self.send(peer, Settled(self.role, self.me, self.applied, news))
        self._trim()

    def _tell_time(self) -> None:
        if not self.desk.timed:
            return
        if self.normal and self.leads and self.now - self._ordered_at >= self.interval_us:
            self._order(Slot((PULSE, self.end + 1), self.next_stamp()))
        for client in self.desk.timed:
            if self._sent.get(client, 0) < self.applied and client in self._attached.get(client, ()):
                self._sent[client] = self.applied
                self.send(client, Item(self.role, ALL, self.applied, self.applied_stamp, ()))

    handlers: ClassVar = {
        Input: Replica.input,
        Item: item,
        Attach: attach,
        Received: received,
        Order: order,
        Agreed: agreed,
        Fixed: fix,
        Settled: settle,
        Ask: Replica.ask,
        Report: Replica.report,
        Install: Replica.install,
    }
