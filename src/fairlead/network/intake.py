"""To a durable subscriber every notification comes exactly once within this process, however often it is sent.

The broker sends again what it has not heard to be dealt with: after a lost connection, that may be what this
side has seen. Places tell: along one log they grow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from fairlead.broker.handover import number_for
from fairlead.errors import BrokerRefused, TransactionRefused
from fairlead.model.packed import unpack
from fairlead.network import wire
from fairlead.network.subscriptions import Delivery, Subscription

__all__ = ["Intake"]

SETTLED_MAX: Final = 10_000
"""The number of settled offsets remembered of a shared subscriber."""


@dataclass(slots=True)
class _Durable:
    """The durable subscriber as this process knows it."""

    seen: int = 0
    """The last place that came."""
    counter: int = 0
    """That of the subscriber's place at the broker (`fairlead.broker.handover`)."""
    shared: bool = False
    """Whether places come in any order, because others get those in between."""
    settled: dict[int, None] = field(default_factory=dict)
    """Of a shared one, the latest places that were dealt with here."""
    attempts: dict[int, int] = field(default_factory=dict)
    """Of open places that have come again: the attempt that counts, here,"""
    heard: dict[int, int] = field(default_factory=dict)
    """and at the broker, where that is another one, because the connection was lost in between."""
    held_over: set[int] = field(default_factory=set)
    """Places that were open when the connection was lost: they come again, and are still worked on."""
    open: dict[int, int] = field(default_factory=dict)
    """Places that are not dealt with, and by how many subscriptions they still have to be."""
    parts: dict[int, set[int]] = field(default_factory=dict)
    """Of places with several versions, those versions that have come."""
    again: set[int] = field(default_factory=set)
    let_go: set[str] = field(default_factory=set)
    """Its subscriptions that were closed here, while others of it were not."""
    forgotten: set[str] = field(default_factory=set)
    """Those that have been ended: what is still under way for them is accepted."""
    untaken: str = ""
    """The first that was let go of for which something has come."""


class Intake:
    """The subscriptions of one client, and what is delivered to them.

    `due` is called when there is something to accept, `moved` when more or less waits to be taken.
    """

    def __init__(
        self,
        client: str,
        tell: Callable[[wire.Control], None],
        due: Callable[[], None],
        moved: Callable[[], None],
    ) -> None:
        self._client, self._tell, self._due, self._moved = client, tell, due, moved
        self.subscriptions: dict[str, Subscription] = {}
        self.waiting = 0
        """The number of deliveries that have come and not been taken."""
        self._former: dict[str, str] = {}
        """By the id that a subscription had before it was changed, the id that it has now."""
        self._durables: dict[str, _Durable] = {}
        self._accepts: dict[str, list[int]] = {}

    # -- subscriptions -----------------------------------------------------------------------------------------

    def add(self, subscription: Subscription) -> None:
        """One more."""
        self.subscriptions[subscription.id] = subscription
        if subscription.durable:
            durable = self._durables.setdefault(subscription.durable, _Durable())
            durable.shared = subscription.terms.is_shared
            durable.let_go.discard(subscription.id)
            durable.forgotten.discard(subscription.id)

    def rename(self, subscription: Subscription, id: str) -> None:
        """A subscription has another id. What is under way under the one before is for it, too."""
        before, subscription.id = subscription.id, id
        del self.subscriptions[before]
        self.subscriptions[id] = subscription
        self._former.pop(id, None)
        self._former[before] = id
        durable = self._durables.get(subscription.durable)
        if durable is not None:
            durable.let_go.discard(id)
            durable.forgotten.discard(id)

    def _id_now(self, id: str) -> str:
        while id not in self.subscriptions and id in self._former:
            id = self._former[id]
        return id

    def drop(self, subscription: Subscription, *, forgotten: bool = False) -> None:
        """Have it no longer. What has come for it and was not taken is accepted only if it is ended for good."""
        self.subscriptions.pop(subscription.id, None)
        before = {id for id in self._former if self._id_now(id) == subscription.id}
        untaken = subscription._untaken()
        durable = self._durables.get(subscription.durable)
        if durable is not None and forgotten:
            durable.forgotten |= {subscription.id, *before}
            for each in untaken:
                self.settle(each)
        elif durable is not None:
            durable.let_go |= {subscription.id, *before}
            if untaken:
                durable.untaken = durable.untaken or subscription.id
        for id in before:
            del self._former[id]

    def of(self, durable: str) -> list[Subscription]:
        """The subscriptions of a durable subscriber."""
        return [each for each in self.subscriptions.values() if each.durable == durable]

    def leased(self, durable: str, seconds: float) -> None:
        """The broker keeps this durable subscriber for so many seconds while nobody is there."""
        for each in self.subscriptions.values():
            if each.durable == durable:
                each.lease = seconds

    def forget(self, durable: str) -> None:
        """This client is not that durable subscriber any longer."""
        self._durables.pop(durable, None)

    def go_back(self, end: int) -> None:
        """The connection is a new one, and the broker's log may have gone back: what it has at this offset and
        beyond has not been delivered yet."""
        for subscription in self.subscriptions.values():
            subscription._seen = min(subscription._seen, end)
        for durable in self._durables.values():
            self._go_back(durable, end)

    def _go_back(self, durable: _Durable, end: int) -> None:
        end = number_for(durable.counter, end - 1)
        durable.seen = min(durable.seen, end)
        for ordinal in [each for each in durable.open if each > end]:
            self._forget(durable, ordinal)
        durable.again = {each for each in durable.again if each <= end}
        durable.settled = {each: None for each in durable.settled if each <= end}
        durable.held_over = {*durable.open}

    def go_elsewhere(self) -> None:
        """The connection is with another broker: durable subscribers go on there, if it has found them."""
        for subscription in self.subscriptions.values():
            subscription._seen = 0
        for durable in self._durables.values():
            durable.held_over = {*durable.open}

    def moved(self, name: str, counter: int, *, is_new: bool) -> None:
        """A durable subscriber has come to this broker, from others or from nowhere."""
        durable = self._durables.get(name)
        if durable is None:
            return
        if is_new:
            durable.counter = 0
            self._go_back(durable, 0)
        durable.counter = counter

    def check_taken(self, subscription: Subscription) -> None:
        """BrokerRefused, where it would wait in vain: behind what nobody here takes any longer."""
        durable = self._durables.get(subscription.durable)
        if durable is not None and durable.untaken:
            raise BrokerRefused(
                f"the durable subscriber {subscription.durable!r} is blocked by a delivery for "
                f"{durable.untaken!r}, which has been closed here",
                hint="take from all subscriptions of a durable name, or close them all",
            )

    # -- deliveries --------------------------------------------------------------------------------------------

    def delivered(self, ordinal: int, ids: list[str], packed: bytes) -> None:
        """Something has come."""
        ids, is_retained = wire.retained_in(ids)
        ids, attempt = wire.attempt_in(ids)
        ids, part = wire.part_in(ids)
        if self._former:
            ids = sorted({*map(self._id_now, ids)})
        found = [self.subscriptions[id] for id in ids if id in self.subscriptions]
        if not is_retained and any(each._is_of_past for each in found):
            found = [each for each in found if not each._is_of_past]
            if not found and not ordinal:
                return
        if not found:
            self._not_wanted(ordinal, ids, part)
            return
        durable = found[0].durable
        if ordinal and not durable:
            # From the past, by a subscription that is not durable: nothing is to be accepted, but room is made.
            self._accept(f"c:{self._client}#{found[0].id}", ordinal)
            if ordinal < found[0]._seen or (ordinal == found[0]._seen and part[0] == 1):
                return  # the connection was lost in between, and the past comes again
            if found[0].since is not None and found[0]._has_come(packed, part[0]):
                return
            found[0]._seen, ordinal = ordinal, 0
        if ordinal and not self._is_new(
            self._durables[durable], durable, ordinal, len(found), part, attempt=attempt
        ):
            return
        notification = unpack(packed)
        for subscription in found:
            subscription._put(
                Delivery(
                    notification,
                    tuple(ids),
                    durable,
                    ordinal,
                    attempt,
                    retained=is_retained,
                    _of=subscription,
                )
            )
        self.waiting += len(found)
        self._moved()

    def _not_wanted(self, ordinal: int, ids: list[str], part: tuple[int, int]) -> None:
        """It is for subscriptions that are not here any longer."""
        for name, durable in self._durables.items():
            if durable.forgotten.issuperset(ids):
                if part[1] == 1:
                    self._accept(name, ordinal)
                else:
                    self._is_new(durable, name, ordinal, 0, part)
            elif not durable.untaken and (closed := durable.let_go.intersection(ids)):
                durable.untaken = min(closed)
                for each in self.of(name):
                    each._arrived.set()

    def _is_new(
        self,
        durable: _Durable,
        name: str,
        ordinal: int,
        subscriptions: int,
        part: tuple[int, int],
        *,
        attempt: int = 1,
    ) -> bool:
        number, parts = part
        if self._is_again(durable, ordinal, attempt):
            self._forget(durable, ordinal)
            durable.again.add(ordinal)
        if parts > 1 and ordinal in durable.parts:
            if number in durable.parts[ordinal]:
                return False
            durable.parts[ordinal].add(number)
            durable.open[ordinal] += subscriptions
            self._dealt_with(durable, name, ordinal)
            return True
        was_seen = (
            ordinal in durable.open or ordinal in durable.settled
            if durable.shared
            else ordinal <= durable.seen
        )
        if was_seen and ordinal not in durable.again:
            if ordinal not in durable.open:
                self._accept(name, ordinal)  # the broker has not heard that it is dealt with
            return False
        durable.again.discard(ordinal)
        durable.seen = max(durable.seen, ordinal)
        durable.open[ordinal] = subscriptions
        if attempt > 1:
            durable.attempts[ordinal] = attempt
        if parts > 1:
            durable.parts[ordinal] = {number}
            durable.open[ordinal] += parts - 1  # until the others have come
        return True

    @staticmethod
    def _is_again(durable: _Durable, ordinal: int, attempt: int) -> bool:
        """Whether an open place is handed out anew, because it was not dealt with in time.

        After a lost connection it is not: whoever is at work on it goes on, and the attempt is the new one.
        """
        known = durable.heard.get(ordinal) or durable.attempts.get(ordinal, 1)
        if ordinal not in durable.open or attempt <= known:
            return False
        if ordinal in durable.held_over:
            durable.held_over.discard(ordinal)
            durable.heard[ordinal] = attempt
            return False
        return True

    def renew(self, delivery: Delivery) -> None:
        """Somebody is still at work on a delivery."""
        durable = self._durables.get(delivery.durable)
        if durable is not None and delivery.ordinal in durable.open:
            self._tell(wire.Renew(delivery.durable, delivery.ordinal))

    def _dealt_with(self, durable: _Durable, name: str, ordinal: int) -> None:
        """One more of those that a notification is for, or a version of it, need not be waited for."""
        if durable.open[ordinal] > 1:
            durable.open[ordinal] -= 1
        else:
            self._close(durable, ordinal)
            self._accept(name, ordinal)

    @staticmethod
    def _forget(durable: _Durable, ordinal: int) -> None:
        del durable.open[ordinal]
        durable.parts.pop(ordinal, None)
        durable.attempts.pop(ordinal, None)
        durable.heard.pop(ordinal, None)
        durable.held_over.discard(ordinal)

    def taken(self, count: int = 1) -> None:
        """Deliveries have been taken from a subscription: so many wait no longer."""
        self.waiting -= count
        self._moved()

    def settle(
        self,
        delivery: Delivery,
        *,
        rejected: bool = False,
        again: bool = False,
        after_us: int = 0,
        reason: str = "",
    ) -> None:
        """One of those that it is for has dealt with it, or will not. An attempt that is over does not count."""
        durable = self._durables.get(delivery.durable)
        if durable is None or delivery.ordinal not in durable.open:
            return
        if delivery.attempt != durable.attempts.get(delivery.ordinal, 1):
            return
        if rejected and again:
            self._forget(durable, delivery.ordinal)
            durable.again.add(delivery.ordinal)
            self._tell(wire.Reject(delivery.durable, delivery.ordinal, True, after_us, reason))
            return
        if rejected and durable.open[delivery.ordinal] == 1:
            self._forget(durable, delivery.ordinal)
            self._tell(wire.Reject(delivery.durable, delivery.ordinal, False))
        else:
            self._dealt_with(durable, delivery.durable, delivery.ordinal)

    def claims(self, deliveries: Sequence[Delivery]) -> list[tuple[str, list[int]]]:
        """The ordinals that a transaction accepts at the broker: those that nobody else here has to deal with.

        TransactionRefused: one of them has come again, or was dealt with.
        """
        claims: dict[str, list[int]] = {}
        for (name, ordinal), count in Counter((each.durable, each.ordinal) for each in deliveries).items():
            durable = self._durables.get(name)
            if durable is None or ordinal not in durable.open:
                raise TransactionRefused(f"a delivery to {name!r} is not held by this client any longer")
            if durable.open[ordinal] == count:
                claims.setdefault(name, []).append(ordinal)
        for each in deliveries:
            if each.attempt != self._durables[each.durable].attempts.get(each.ordinal, 1):
                raise TransactionRefused(f"a delivery to {each.durable!r} has come again")
        return list(claims.items())

    def transacted(self, delivery: Delivery) -> None:
        """A transaction has accepted a delivery, at the broker, too."""
        durable = self._durables.get(delivery.durable)
        if durable is None or delivery.ordinal not in durable.open:
            return
        if durable.open[delivery.ordinal] > 1:
            durable.open[delivery.ordinal] -= 1
        else:
            self._close(durable, delivery.ordinal)

    def _close(self, durable: _Durable, ordinal: int) -> None:
        self._forget(durable, ordinal)
        if durable.shared:
            durable.settled[ordinal] = None
            if len(durable.settled) > SETTLED_MAX:
                del durable.settled[next(iter(durable.settled))]

    def _accept(self, durable: str, ordinal: int) -> None:
        self._accepts.setdefault(durable, []).append(ordinal)
        self._due()

    def take_accepts(self) -> list[wire.Control]:
        """The acknowledgements that are to be sent to the broker."""
        accepts, self._accepts = self._accepts, {}
        return [wire.Accept(durable, ordinals) for durable, ordinals in accepts.items()]
