"""Transactions of a bus: several publications that take place together, or not at all.

    Laws
    All members of a transaction are published, or none is.
    They take adjacent places in the order of the bus, in the order in which they were given.
    Nobody is notified of one before the transaction is committed.

Refusing one refuses all; the error names its index. A transaction with an id that was committed before has no
effect. A transaction may be over subscriptions whose deliveries are accepted: what is taken of them in its block
is accepted with it, together in the log, or comes again.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from fairlead.bus.accepting import Attempt
from fairlead.bus.handing_over import Handover
from fairlead.bus.receivers import Group, Receiver
from fairlead.delivery.sessions import in_session
from fairlead.delivery.transacting import check_open
from fairlead.errors import TransactionRefused
from fairlead.model import Notification

if TYPE_CHECKING:
    from fairlead.bus.bus import Bus
    from fairlead.bus.handles import Subscription
    from fairlead.bus.space import Taken

__all__ = ["Transaction", "accepting_all", "grouped"]


class Transaction:
    """Publications that are held until the transaction is committed: when its block ends without an error."""

    __slots__ = ("_bus", "_from_spaces", "_members", "_subscriptions", "_taken", "id", "producer", "state")

    def __init__(
        self, bus: Bus, id: str | None, producer: str, subscriptions: tuple[Subscription, ...] = ()
    ) -> None:
        self._bus = bus
        self._subscriptions = subscriptions
        self._taken: list[Attempt] = []
        self._from_spaces: list[Taken] = []
        self.id = secrets.token_hex(16) if id is None else id
        self.producer = producer
        self.state = "open"
        """open, committed or aborted."""
        self._members: list[Notification] = []

    def publish(self, event: Mapping[str, Any] | tuple[Any, ...] | Notification) -> Notification:
        """Publish with the others, when the transaction is committed; the notification with its identity."""
        self._check_open()
        notification = in_session(Notification.of(event))
        if self.producer and not notification.producer:
            notification = replace(notification, producer=self.producer)
        if notification.id is None:
            notification = replace(notification, id=f"{self.id}-{len(self._members)}")
        self._members.append(notification)
        return notification

    def commit(self) -> bool:
        """Publish all; False where a transaction with this id was committed before, and nothing has happened.

        TransactionRefused where one of them is refused: then none is published.
        """
        self._check_open()
        self.state = "aborted"
        self._leave()
        try:
            is_new = self._bus._publish_group(self.id, self.producer, self._members, self._taken)
        except BaseException:
            self._give_back()
            raise
        if not is_new:
            self._give_back()
        self.state = "committed"
        return is_new

    def abort(self) -> None:
        """Publish nothing; what was taken comes again."""
        self._check_open()
        self.state = "aborted"
        self._leave()
        self._give_back()

    def _took(self, attempt: Attempt) -> None:
        """A delivery was taken in the block."""
        self._taken.append(attempt)

    def _took_from(self, taken: Taken) -> None:
        """Something was taken from a space."""
        self._check_open()
        self._from_spaces.append(taken)

    def _leave(self) -> None:
        for each in self._subscriptions:
            each._transaction = None

    def _give_back(self) -> None:
        for taken in self._from_spaces:
            taken.put_back()
        for each in self._taken:
            each.reject(None, "the transaction was aborted", again=True)

    def __len__(self) -> int:
        return len(self._members)

    def __enter__(self) -> Self:
        for each in self._subscriptions:
            each._transaction = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.state == "open":
            if kind is None:
                self.commit()
            else:
                self.abort()

    def _check_open(self) -> None:
        check_open(self.state)


@contextmanager
def accepting_all(taken: list[Attempt]) -> Iterator[list[tuple[str, int]]]:
    """Accept deliveries if the block ends without an error; those of durable subscribers, with their offsets.

    TransactionRefused where one of them is another's by now. Receivers are locked meanwhile, in one order.
    """
    receivers = sorted({each.receiver for each in taken}, key=id)
    with ExitStack() as locks:
        for each in receivers:
            locks.enter_context(each._changed)
        for attempt in taken:
            if not attempt.receiver._counts(attempt):
                raise TransactionRefused(
                    "a delivery that was taken is another's by now",
                    hint="accept_within says how long it may take, and delivery.renew() prolongs it",
                )
        yield [(each.receiver.durable, each.ordinal) for each in taken if each.receiver.durable]
        for attempt in taken:
            attempt.accept()


def grouped(id: str, handovers: list[Handover]) -> list[Handover]:
    """The deliveries of a group, each with its number among those that its subscriber gets."""
    all_of = Counter(each.receiver for each in handovers)
    so_far: Counter[Receiver] = Counter()
    numbered = []
    for each in handovers:
        group = Group(id, so_far[each.receiver], all_of[each.receiver])
        so_far[each.receiver] += 1
        numbered.append(replace(each, delivery=replace(each.delivery, group=group)))
    return numbered
