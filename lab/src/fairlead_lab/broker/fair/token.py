"""Total order broadcast with a token: whoever holds it gives the order, and passes it on.

Stations stand in a ring, and all inputs go to all of them. The holder gives places to what has none yet and
tells the others; with the token goes what each of them knew of the order when it was there. What a majority
knew is fixed, and the holder sends it to all clients. So an event goes out half a round after it was ordered:
that is what it costs that any minority of the stations may crash, with the token or without. When it has gone
round once with nothing left to be told, and so all know that, the token stays where it is until an input comes.

A crash ends the view. The new leader makes a new token, and tells again what the lost one may not have told;
clients see by the positions what they have already.
"""

from __future__ import annotations

from collections.abc import Set
from typing import ClassVar

from fairlead_lab.broker.fair.directory import ALL, Directory, Role
from fairlead_lab.broker.fair.messages import (
    Ask,
    Content,
    Input,
    Install,
    Item,
    Order,
    Recipient,
    Report,
    Slot,
    Token,
)
from fairlead_lab.broker.fair.replica import Replica

__all__ = ["WINDOW", "Station"]

WINDOW = 64
"""The number of inputs that a station orders before it passes the token on."""


class Station(Replica):
    """A replica of a role where the order is given by whoever holds the token."""

    def __init__(
        self, me: str, role: Role, directory: Directory, *, dead: Set[str], now: int, interval_us: int
    ) -> None:
        super().__init__(me, role, directory, dead=dead, now=now, interval_us=interval_us)
        self._token: Token | None = None
        self._delivered_upto = 0
        self._early: dict[int, Slot] = {}
        self._last: dict[str, int] = {}
        """The position of the last item of each client, whoever sent it."""

    def begin(self) -> None:
        """The first station of the first view makes the token."""
        if self.normal and self.leads:
            self._token = Token(self.role, self.view, 0, 0, 0, ())

    @property
    def delivered_upto(self) -> int:
        """Up to where clients had been told when the token was here last."""
        return self._delivered_upto

    def lost(self, process: str) -> None:
        """A token of an earlier view is none."""
        if not self.normal:
            self._token = None
            self._early = {}

    def lead(self) -> None:
        """A view begins with a new token."""
        self._token = Token(self.role, self.view, self.end, self.stamp, self.reported_delivered_upto(), ())
        self._use()

    def taken(self) -> None:
        """A token that rests here is used."""
        self._use()

    def token(self, message: Token) -> None:
        """The token has come."""
        if message.view == self.view:
            self._token = message
            self._use()

    def order(self, message: Order) -> None:
        """Another station has given a place. What two holders said may come in any order."""
        if message.view != self.view:
            return
        self._early[message.position] = message.slot
        while (slot := self._early.pop(self.end + 1, None)) is not None:
            self.assign(slot)
        self._use()

    def _use(self) -> None:
        token = self._token
        if token is None or not self.normal or self.end < token.upto:
            return
        self._token = None
        self.stamp = max(self.stamp, token.stamp)
        marks = {station: upto for station, upto in token.marks if station in self.alive}
        self._delivered_upto = token.delivered
        self._fix(marks)
        for key in self.waiting[:WINDOW]:
            self.assign(slot := Slot(key, self.next_stamp()))
            for peer in self.peers:
                self.send(peer, Order(self.role, self.me, self.view, self.end, slot))
        self._fix(marks)
        self._delivered_upto = max(self._delivered_upto, self.applied)
        self.forget(min(marks.get(each, 0) for each in self.alive))
        # After a crash clients may have been told what a station has yet to learn that all know.
        is_done = token.delivered == token.upto == self.end == self.applied
        idle = token.idle + 1 if is_done else 0
        known = tuple(sorted(marks.items()))
        passed = Token(self.role, self.view, self.end, self.stamp, self._delivered_upto, known, idle)
        if idle >= len(self.alive):
            self._token = passed
        else:
            self.send(self.alive[(self.alive.index(self.me) + 1) % len(self.alive)], passed)

    def _fix(self, marks: dict[str, int]) -> None:
        marks[self.me] = self.end
        known = sorted(marks.values(), reverse=True)
        if len(known) >= self.majority:
            self.fixed = max(self.fixed, known[self.majority - 1])
        self.carry_out()

    def tell(self, position: int, stamp: int, items: dict[Recipient, tuple[Content, ...]]) -> None:
        """Send to all clients what nobody has sent them before."""
        item = Item(self.role, ALL, position, stamp, ())
        for client, contents in items.items():
            assert isinstance(client, str)
            after, self._last[client] = self._last.get(client, 0), position
            if position > self._delivered_upto:
                if item.contents is not contents or item.after != after:
                    item = Item(self.role, ALL, position, stamp, contents, after)
                self.send(client, item)

    handlers: ClassVar = {
        Input: Replica.input,
        Order: order,
        Token: token,
        Ask: Replica.ask,
        Report: Replica.report,
        Install: Replica.install,
    }
