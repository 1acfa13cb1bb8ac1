"""Deliveries that are accepted: what fails comes again, and is a dead letter in the end.

The ordinals of `fairlead.delivery.assigning` are those of a subscriber's notifications, in the order in which they
are handed over. A subscriber that is not shared has one member, whose name is empty; the members of a shared one
are its subscriptions. Nothing outlives the process.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fairlead.bus.receivers import Callback, Delivery, Receiver
from fairlead.channels.waiting import Standing, Waiting
from fairlead.delivery.assigning import Assignments, Handout, Terms
from fairlead.delivery.sessions import call
from fairlead.errors import SubscriptionEnded, SubscriptionRefused, ValueRefused
from fairlead.model import Notification
from fairlead.model.values import ABSENT, key_of

if TYPE_CHECKING:
    from fairlead.audit.recorder import Recorder

__all__ = ["Accepting", "Attempt", "Bury"]

Bury = Callable[[Delivery, int, str], None]
"""A function for dead deliveries: called with the delivery, its number of attempts, and the reason."""

ALONE = ""
"""The member of a subscriber that is not shared."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at an ordinal, by one member."""

    receiver: Accepting
    member: str
    ordinal: int
    number: int

    def accept(self) -> bool:
        return self.receiver._accept(self)

    def accept_through(self) -> int:
        return self.receiver._accept_through(self)

    def reject(self, after: float | None, reason: str, *, again: bool) -> None:
        self.receiver._reject(self, after, reason, again=again)

    def renew(self) -> bool:
        return self.receiver._renew(self)


class Accepting(Receiver):
    """The receiver of a subscriber whose deliveries are accepted, each by one member.

    `_changed`, the receiver's lock, keeps all state. A dead letter is published without it.
    """

    __slots__ = (
        "_assignments",
        "_bury",
        "_clock",
        "_deliveries",
        "_handed",
        "_ordinals",
        "_queues",
        "_standing",
        "terms",
    )

    def __init__(
        self,
        callback: Callback | None,
        terms: Terms,
        clock: Callable[[], int] | None,
        bury: Bury,
    ) -> None:
        super().__init__(callback, None, "block")
        if clock is None and terms.accept_within_us:
            raise SubscriptionRefused(
                "a bus without a clock knows no deadline",
                hint="Bus(clock=lambda: Instant.of(datetime.now(UTC)))",
            )
        if callback is not None and terms.is_shared:
            raise SubscriptionRefused(
                "the members of a shared subscriber read from queues", hint="leave the callback out"
            )
        if callback is not None and not terms.attempts_max:
            raise SubscriptionRefused(
                "a callback that fails is called again at once", hint="say how often: attempts_max=3"
            )
        self.terms = terms
        self._clock, self._bury = clock, bury
        self._assignments: Assignments[str] = Assignments(terms)
        self._deliveries: dict[int, Delivery] = {}
        self._handed: dict[str, dict[int, Attempt]] = {}
        """By member, the attempts that were taken and are not settled by it, in their order."""
        self._queues: dict[str, deque[Handout[str]] | Waiting[Handout[str]]] = {}
        self._standing: Callable[[Notification], Standing] | None = None
        self._ordinals = 0
        if not terms.is_shared:
            self._assignments.join(ALONE)
            self._queues[ALONE] = deque()

    @property
    def durable(self) -> str:
        """The name of a durable subscriber; empty where it is none."""
        return ""

    def arrange(self, standing: Callable[[Notification], Standing]) -> None:
        self._standing = standing
        if not self.terms.is_shared:
            self._queues[ALONE] = self._new_queue()

    def _new_queue(self) -> deque[Handout[str]] | Waiting[Handout[str]]:
        if (standing := self._standing) is None:
            return deque()
        return Waiting(lambda handout: standing(self._deliveries[handout.ordinal].notification))

    def check_terms(self, terms: Terms | None) -> None:
        if terms != self.terms:
            raise SubscriptionRefused(
                "the subscriber has other terms of acceptance",
                hint="give the same shared, per, window, attempts_max and accept_within",
            )

    def join(self, identity: str) -> None:
        with self._changed:
            super().join(identity)
            if self.terms.is_shared:
                self._queues[identity] = self._new_queue()
                self._assignments.join(identity)
                self._assign()

    def leave(self, identity: str) -> bool:
        with self._changed:
            if self.terms.is_shared:
                self._assignments.leave(identity)
                self._queues.pop(identity, None)
                self._assign()
            return super().leave(identity)

    # -- deliveries ------------------------------------------------------------------------------------------

    def receive(self, delivery: Delivery, trace: Recorder | None = None) -> tuple[str, ...]:
        with self._changed:
            if self._ended(delivery):
                return ("withdrawn",)
            if self.has_expired(delivery):
                return ()
            if trace is not None:
                trace.notified(
                    delivery.subscriber,
                    delivery.notification,
                    delivery.subscriptions,
                    delivery.version,
                    delivery.moved_to,
                )
            ordinal = self._ordinal_of(delivery)
            self._deliveries[ordinal] = delivery
            handout = self._assignments.offer(ordinal, self._now(), self._key(delivery))
            if self._callback is None:
                if handout is not None:
                    self._queues[handout.member].append(handout)
                    self._changed.notify_all()
                return ("delivered",)
        assert handout is not None
        self._call(handout, delivery)
        return ("delivered",)

    def _ordinal_of(self, delivery: Delivery) -> int:
        """The ordinal of the next delivery."""
        self._ordinals += 1
        return self._ordinals - 1

    def _settled(self, ordinal: int) -> None:
        """An ordinal is settled: its delivery is no longer needed."""
        del self._deliveries[ordinal]

    def _handed_again(self, ordinal: int) -> None:
        """An ordinal is handed out once more; `_assignments` counts its attempts."""

    def _fill(self) -> None:
        """Get more deliveries, where they come from elsewhere. Called without the lock."""

    def _is_starved(self) -> bool:
        """Whether `_fill` would bring more."""
        return False

    def _call(self, handout: Handout[str], delivery: Delivery) -> None:
        """Call the callback until it does not fail, or the delivery is dead; what it raised last is raised."""
        assert self._callback is not None
        while True:
            try:
                call(self._callback, delivery.notification)
            except Exception as error:
                with self._changed:
                    is_dead = self._assignments.reject(ALONE, handout.ordinal, 0)
                    again = None if is_dead else next(self._assignments.assign(0), None)
                if again is None:
                    self._close([(handout.ordinal, f"{type(error).__name__}: {error}")])
                    raise
                handout = again
                with self._changed:
                    self._handed_again(handout.ordinal)
            else:
                with self._changed:
                    self._assignments.accept(ALONE, handout.ordinal)
                    self._settled(handout.ordinal)
                return

    def take(self, identity: str, timeout: float | None) -> Delivery:
        if self._callback is not None:
            return super().take(identity, timeout)  # which refuses it
        member = identity if self.terms.is_shared else ALONE
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            self._fill()
            with self._changed:
                dead = [
                    (ordinal, "not accepted in time") for ordinal in self._assignments.overdue(self._now())
                ]
                self._assign()
                found = None if dead else self._next(member)
                if found is None and not dead and not self._is_starved():
                    if identity not in self.active:
                        raise SubscriptionEnded(f"subscription {identity!r} is closed")
                    if not self._changed.wait(self._step(until)) and self._is_over(until):
                        raise TimeoutError(f"no notification within {timeout} s")
            self._close(dead)
            if found is not None:
                return found

    def _next(self, member: str) -> Delivery | None:
        """The next delivery of a member; what has become another's meanwhile is not."""
        queue = self._queues.get(member)
        while queue:
            handout = queue.popleft()
            attempt = Attempt(self, member, handout.ordinal, handout.attempt)
            if self._counts(attempt):
                delivery = self._deliveries[handout.ordinal]
                if handout.attempt == 1 and self.has_expired(delivery):
                    self._assignments.accept(member, handout.ordinal)
                    self._settled(handout.ordinal)
                    self._assign()
                    continue
                handed = self._handed.setdefault(member, {})
                handed.pop(handout.ordinal, None)
                handed[handout.ordinal] = attempt
                return replace(self._deliveries[handout.ordinal], attempt=handout.attempt, _settling=attempt)
        return None

    def _step(self, until: float | None) -> float | None:
        """The time to wait, in seconds, before something may happen by itself."""
        due = self._assignments.next_time()
        steps = [] if until is None else [max(0.0, until - time.monotonic())]
        if due is not None:
            steps.append(max(0.001, (due - self._now()) / 1_000_000))
        return min(steps, default=None)

    @staticmethod
    def _is_over(until: float | None) -> bool:
        return until is not None and time.monotonic() >= until

    def _assign(self) -> None:
        for handout in self._assignments.assign(self._now()):
            if handout.attempt > 1:
                self._handed_again(handout.ordinal)
            self._queues[handout.member].append(handout)
            self._changed.notify_all()

    # -- what members say ------------------------------------------------------------------------------------

    def _counts(self, attempt: Attempt) -> bool:
        """Whether an attempt is the one under way."""
        return self._assignments.attempt(attempt.member, attempt.ordinal) == attempt.number

    def _accept(self, attempt: Attempt) -> bool:
        with self._changed:
            if not self._counts(attempt):
                return False
            self._assignments.accept(attempt.member, attempt.ordinal)
            self._handed.get(attempt.member, {}).pop(attempt.ordinal, None)
            self._settled(attempt.ordinal)
            self._assign()
            return True

    def _accept_through(self, attempt: Attempt) -> int:
        """Accept what this member was handed up to this attempt, and holds; how many that are."""
        with self._changed:
            handed = self._handed.get(attempt.member, {})
            if not self._counts(attempt):
                return 0
            through: list[Attempt] = []
            for each in handed.values():
                through.append(each)
                if each == attempt:
                    break
        return sum(self._accept(each) for each in through)

    def _reject(self, attempt: Attempt, after: float | None, reason: str, *, again: bool) -> None:
        if after is not None and self._clock is None:
            raise ValueRefused(
                "a bus without a clock knows no delay",
                hint="Bus(clock=lambda: Instant.of(datetime.now(UTC)))",
            )
        if not again:
            self._accept(attempt)
            return
        with self._changed:
            if not self._counts(attempt):
                return
            after_us = 0 if after is None else round(after * 1_000_000)
            is_dead = self._assignments.reject(attempt.member, attempt.ordinal, self._now(), after_us)
            self._assign()
        if is_dead:
            self._close([(attempt.ordinal, reason or "rejected")])

    def _renew(self, attempt: Attempt) -> bool:
        with self._changed:
            return self._counts(attempt) and self._assignments.renew(
                attempt.member, attempt.ordinal, self._now()
            )

    def _close(self, dead: list[tuple[int, str]]) -> None:
        """Publish the letters of dead deliveries, then settle those."""
        for ordinal, reason in dead:
            with self._changed:
                delivery, count = self._deliveries.get(ordinal), self._assignments.counts.get(ordinal)
            if delivery is None or count is None:  # a durable subscriber has ended, and it comes again
                continue
            self._bury(delivery, count.attempts, reason)
            with self._changed:
                self._assignments.settle(ordinal)
                self._settled(ordinal)
                self._assign()

    def _key(self, delivery: Delivery) -> Hashable:
        if not self.terms.per:
            return None
        value = delivery.notification.get(self.terms.per)
        return None if value is ABSENT else key_of(value)

    def _now(self) -> int:
        return 0 if self._clock is None else self._clock()

    def __len__(self) -> int:
        return sum(map(len, self._queues.values())) + self._assignments.waiting
