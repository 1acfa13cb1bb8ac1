"""The embedded bus: publish and subscribe within one process.

It keeps the specification of a simple event system (book 2.5). A subscriber is notified

    only about what matches one of its active subscriptions,
    only about what was published,
    about each notification at most once,
    and about every notification that was published while it was subscribed;

and, with advertisements (book 2.5.4), about nothing that its producer had not advertised.

**Order.** All publications stand in one order, whichever threads they come from, and every subscriber is
notified in that order. A publication is matched when it is published: a later subscription does not see it.
It is handed over by the publishing thread, unless some thread is handing over already: then that one does it.
So a callback may publish, subscribe and unsubscribe; what it publishes is delivered to everybody after what
is being delivered, and no thread waits for another. `flush` waits until all is handed over.

**Ordered.** With `order="ordered"`, notifications are held until the watermark has passed them, and then
delivered in the one total order of all runtimes (`fairlead.model.order`): the same input gives the same
deliveries, to the byte, in whatever order it was published, provided that the disorder stays within the
allowed lateness. What comes later goes to `on_late`. A subscription holds for order keys, from the watermark on.

**Patterns.** `detect` asks for several notifications together: for composite events in the total order of what is
published, or for the relations of a fair subscription (`fairlead.correlation`). Patterns wait for the watermark,
on a live bus too, where all else is delivered at once. Answers are notifications. Those of a pattern with a name
are published: behind what was published at the instant where they end.

**Subscribers.** Subscriptions made under one `subscriber` name are one subscriber's: they share a receiver
(a callback or a queue), and a notification that matches several of them is delivered once, with their ids.
A subscription without that name is a subscriber of its own.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

from fairlead.delivery import Arrival, Late, OrderedQueue, Validity
from fairlead.errors import (
    BusClosed,
    NotAdvertised,
    SubscriptionEnded,
    SubscriptionRefused,
    ValueRefused,
)
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.matching import Engine, Statistics, engine_named
from fairlead.model import Instant, Notification, Record
from fairlead.model.encoding import record_hash
from fairlead.model.order import BEGINNING, END, LatestIdentities, OrderKey

if TYPE_CHECKING:
    from fairlead.audit import Event
    from fairlead.audit.recorder import Recorder
    from fairlead.correlation import fair, patterns
    from fairlead.correlation.patterns.building import Expression
    from fairlead.correlation.standing import Answer, Question, Standing
    from fairlead.filters.schema import Schema

__all__ = [
    "Advertisement",
    "Bus",
    "BusClosed",
    "BusStatistics",
    "Delivery",
    "Detection",
    "NotAdvertised",
    "Subscription",
    "SubscriptionEnded",
    "SubscriptionRefused",
]

log: Final = logging.getLogger(__name__)

Callback: TypeAlias = Callable[[Notification], object]
Overflow: TypeAlias = Literal["block", "drop_oldest"]
Order: TypeAlias = Literal["live", "ordered"]

REMEMBERED: Final = 1_000_000
"""How many identities a bus remembers unless told otherwise: a duplicate is known among that many."""
COUNTED: Final = (
    *("published", "duplicates", "late", "not_advertised", "composites", "delivered", "withdrawn", "dropped"),
    "errors",
)
OBJECT: Final = "object"
ERRORS_KEPT: Final = 100
"""How many of its latest errors a subscriber keeps; all are counted."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """That a subscriber is notified, once, and which of its subscriptions matched, sorted by id."""

    subscriber: str
    notification: Notification
    subscriptions: tuple[str, ...]
    key: OrderKey | None = None
    """Its place in the total order, where delivery is ordered."""


@dataclass(frozen=True, slots=True)
class BusStatistics:
    """What a bus holds and what it has done."""

    published: int
    duplicates: int
    late: int
    """Came after the watermark had passed their place in the order. (On a live bus, patterns did not see them.)"""
    held: int
    """Wait for the watermark."""
    not_advertised: int
    composites: int
    """Composite events, and relations, that were found."""
    delivered: int
    """Handed over to a callback or a queue."""
    withdrawn: int
    """Not handed over, because the subscriber had unsubscribed in between."""
    dropped: int
    """Pushed out of a full queue by later ones."""
    errors: int
    """Callbacks and filters that raised."""
    subscribers: int
    subscriptions: int
    advertisements: int
    matching: Statistics


class Bus:
    """Publish and subscribe within one process. Thread-safe.

    `order` is "live" (at once, in the order of publishing) or "ordered" (by the one total order, once the
    newest event time is `lateness_us` microseconds ahead); `on_late` is called with what comes too late. On a live
    bus these two are about patterns, which see what is published in the total order in either case.
    `schema` checks what is published and is what filters are read with. `engine` names the matching engine.
    `clock` stamps notifications that come without a time; without a clock they have none. `on_error` is
    called with a delivery and what its callback raised; without it, the error is logged. A duplicate is
    recognised among the last `remembered` identities (producer, id): that bounds the memory they take.

    `trace` records what happens, for `fairlead audit`: in a file with that name, complete when the bus is
    closed, or by calling a function with every event, under locks, so that it must not use the bus. What has
    no text form, such as a Python object, cannot be published on a bus with a file.
    """

    def __init__(
        self,
        schema: Schema | None = None,
        engine: str | Engine[str] = "columnar",
        clock: Callable[[], Instant] | None = None,
        *,
        on_error: Callable[[Delivery, Exception], object] | None = None,
        remembered: int = REMEMBERED,
        order: Order = "live",
        lateness_us: int = 0,
        on_late: Callable[[Late], object] | None = None,
        trace: str | os.PathLike[str] | Callable[[Event], object] | None = None,
    ) -> None:
        self._schema = schema
        self._clock = clock
        self._on_error = on_error
        # Re-entrant: a filter asks embedded objects, and these may know the bus.
        self._lock = threading.RLock()
        self._engine: Engine[str] = engine_named(engine) if isinstance(engine, str) else engine
        self._subscriptions: dict[str, Subscription] = {}
        # Only subscribers that were named: the others cannot be joined.
        self._by_question: dict[tuple[str, Hashable], dict[str, Subscription]] = {}
        self._receivers: dict[str, _Receiver] = {}
        self._advertised: dict[str, dict[Filter, Advertisement]] = {}
        self._identities = LatestIdentities(remembered)
        self._is_ordered = _is_ordered(order)
        self._lateness_us = lateness_us
        # On a live bus only patterns look at it: everything else does not wait.
        self._queue = OrderedQueue(lateness_us)
        self._on_late = on_late
        self._validity: dict[str, Validity] = {}
        self._standing: Standing | None = None  # while there are patterns
        self._correlating = engine if isinstance(engine, str) else "columnar"
        self._objects = itertools.count(1)
        self._ids_made = 0
        self._pending: deque[_Handover | None] = deque()
        self._handing_over: int | None = None
        self._idle = threading.Condition(self._lock)
        self._closed = False
        self._counts = dict.fromkeys(COUNTED, 0)
        self._trace = None if trace is None else _recorder(trace)  # last: it opens a file

    # -- producers -----------------------------------------------------------------------------------------

    def publish(self, event: Mapping[str, Any] | tuple[Any, ...] | Notification) -> Notification | None:
        """Publish a notification, and return it with its identity; None where it is a duplicate.

        Everybody has it when the call returns, unless the call came from a callback or another thread was
        handing over: then they get it next.
        """
        notification = Notification.of(event)
        if self._schema is not None:
            notification = self._schema.admit(notification)
        digest = self._digest(notification) if notification.id is None else None
        notification = self._stamped(notification)
        if self._trace is not None:
            self._trace.check(notification)
        if self._is_ordered:
            return self._publish_ordered(notification, digest)
        with self._lock:
            self._check_open()
            self._check_advertised(notification)
            matched = self._matching(notification)
            identified = self._identities.take(notification, digest)
            if identified is None:
                self._counts["duplicates"] += 1
                return None
            self._counts["published"] += 1
            failures = self._enter(identified, matched)
            if self._standing is not None and self._standing.has_patterns:
                self._counts["late"] += self._queue.add(identified) is Arrival.LATE
                failures += self._release()
            late = self._queue.take_late()
        self._conclude(failures, late)
        return identified

    def _publish_ordered(self, notification: Notification, digest: str | None) -> Notification | None:
        if digest is not None and digest.startswith(OBJECT):
            notification = replace(notification, id=digest)
        with self._lock:
            self._check_open()
            self._check_advertised(notification)
            arrival, identified = self._queue.take(notification)
            self._counts[_COUNTED_AS[arrival]] += 1
            late = self._queue.take_late()
            failures = self._release()
        self._conclude(failures, late)
        return None if arrival is Arrival.DUPLICATE else identified

    def advance(self, to: Instant | None = None) -> None:
        """Let time pass: nothing that happened before `to` is still to come, and what comes all the same is late.

        Without `to`, up to what the bus's clock says, less the allowed lateness. That something is absent is known
        when its time has passed; where events are rare, somebody has to say so.
        """
        if to is None:
            if self._clock is None:
                raise ValueError("to when? the bus has no clock: advance(Instant(…)), or Bus(clock=…)")
            to = Instant(self._clock().microseconds - self._lateness_us)
        with self._lock:
            self._check_open()
            self._queue.punctuate(to.microseconds)
            failures = self._release()
        self._conclude(failures)

    def _release(self) -> list[_Failed]:
        """What the watermark has passed enters now, in the total order, and with it what patterns find there."""
        released = self._queue.release()
        if self._is_ordered:
            released = [each for each in released if self._was_advertised(each[1])]
        answers: deque[Answer] = deque()
        failed: list[_Failed] = []
        if self._standing is not None and self._standing.has_patterns:
            answers.extend(self._standing.advance(released, self._queue.watermark))
            failed += self._failed_filters(self._standing)
        if self._is_ordered:
            for key, notification in released:
                while answers and answers[0].key is not None and answers[0].key.time < key.time:
                    failed += self._answer(answers.popleft())
                failed += self._enter(notification, self._matching(notification), key)
        for answer in answers:
            failed += self._answer(answer)
        return failed

    def _answer(self, answer: Answer) -> list[_Failed]:
        """Those who asked get an answer and, where it is public, all whose subscriptions match it."""
        self._counts["composites"] += 1
        key = answer.key if self._is_ordered else None
        if answer.is_public:
            return self._enter(answer.notification, self._matching(answer.notification), key, answer.ids)
        self._pending.extend(self._handovers(answer.notification, [*answer.ids], key, is_public=False))
        return []

    def _enter(
        self,
        notification: Notification,
        matched: tuple[list[str], _Failures],
        key: OrderKey | None = None,
        asked_by: tuple[str, ...] = (),
    ) -> list[_Failed]:
        """Hand the next notification of the bus's one order, and what it completes, to those concerned."""
        matching, failures = matched
        if key is not None:
            matching = [id for id in matching if id not in self._validity or key in self._validity[id]]
        if self._trace is not None:
            self._trace.published(notification, key)
        self._pending.extend(self._handovers(notification, [*matching, *asked_by], key))
        failed: list[_Failed] = [(failures, notification)] if failures else []
        if self._standing is not None:
            for relation in self._standing.relations(notification, key):
                failed += self._answer(relation)
            failed += self._failed_filters(self._standing)
        return failed

    def _conclude(self, failures: list[_Failed], late: Iterable[Late] = ()) -> None:
        """Without the lock: report what went wrong, then hand over."""
        for subscriptions, notification in failures:
            self._report(subscriptions, notification)
        for each in late:
            self._tell_late(each)
        self._hand_over()

    def advertise(self, filter: str | Filter, producer: str = "") -> Advertisement:
        """Announce what a producer will publish; from now on it can publish nothing else (book 2.5.4).

        A producer that has never advertised may publish anything. One that has revoked all its
        advertisements may publish nothing. Advertising the same filter again changes nothing.
        """
        parsed = self._parsed(filter)
        with self._lock:
            self._check_open()
            if self._trace is not None:
                self._trace.check(parsed)
            active = self._advertised.setdefault(producer, {})
            if parsed not in active:
                active[parsed] = Advertisement(producer, parsed, self)
                if self._trace is not None:
                    self._trace.advertised(producer, parsed)
            return active[parsed]

    def unadvertise(self, advertisement: Advertisement) -> bool:
        """Revoke an advertisement; False where it was not active."""
        with self._lock:
            active = self._advertised.get(advertisement.producer, {})
            if active.pop(advertisement.filter, None) is None:
                return False
            if self._trace is not None:
                self._trace.unadvertised(advertisement.producer, advertisement.filter)
            return True

    @property
    def advertisements(self) -> tuple[Advertisement, ...]:
        """The active advertisements: what may come."""
        with self._lock:
            return tuple(each for active in self._advertised.values() for each in active.values())

    # -- consumers -----------------------------------------------------------------------------------------

    def subscribe(
        self,
        filter: str | Filter,
        callback: Callback | None = None,
        *,
        id: str | None = None,
        subscriber: str | None = None,
        maxsize: int | None = None,
        overflow: Overflow = "block",
        since: Instant | None = None,
        until: Instant | None = None,
    ) -> Subscription:
        """Subscribe to what matches a filter, with a callback, or with a queue that is read or iterated over.

        A subscriber that subscribes to the same filter again gets the same subscription, and one
        `unsubscribe` ends it (book 2.5.2); under another id it is another subscription. `maxsize` bounds the
        queue; when it is full, the handing over either waits (`block`) or pushes out the oldest one, which is
        counted (`drop_oldest`).

        On an ordered bus it holds for order times in [since, until); what the watermark has passed is gone.
        """
        _check_callable(callback)
        parsed = self._parsed(filter)
        if not self._is_ordered and (since is not None or until is not None):
            raise SubscriptionRefused(
                "`since` and `until` are places in the total order", hint='make the bus with order="ordered"'
            )
        with self._lock:
            existing = self._existing(parsed, callback, id, subscriber)
            if existing is not None:
                return existing
            identity, receiver = self._entrance(callback, id, subscriber, maxsize, overflow)
            if self._trace is not None:
                self._trace.check(parsed)
            self._engine.add(identity, parsed)
            validity = self._admitted(since, until) if self._is_ordered else Validity()
            if validity != Validity():
                self._validity[identity] = validity
            name = identity if subscriber is None else subscriber
            subscription = Subscription(self, identity, name, parsed, receiver)
            self._admit(subscription, is_joinable=subscriber is not None)
            if self._trace is not None:
                self._trace.subscribed(name, identity, parsed, validity)
            return subscription

    def detect(
        self,
        pattern: str | patterns.Pattern | Expression | fair.Subscription,
        callback: Callback | None = None,
        *,
        id: str | None = None,
        subscriber: str | None = None,
        maxsize: int | None = None,
        overflow: Overflow = "block",
        since: Instant | None = None,
        until: Instant | None = None,
        choice: fair.Choice | None = None,
    ) -> Detection:
        """Subscribe to the composite events of a pattern: text, a `Pattern`, or what Python calls have built.

        A pattern is about the total order: it sees what happens in [since, until), from the watermark on. On a
        live bus, what is published is held for patterns, though it is delivered at once; what comes too late for
        them is counted and told to `on_late`. The composites of a pattern with a name, `spike: A followed by B`,
        are published for all to see.

        A fair subscription (`fair.parse(…)`) gives the relations that it delivers, by the `choice` of which events
        to take. Its established order is that of the bus; on a live one, the order of publishing.

        All else is as in `subscribe`.
        """
        from fairlead.correlation.standing import Standing

        _check_callable(callback)
        question = self._question(pattern, choice)
        in_time = self._is_ordered or question.is_pattern
        if not in_time and (since is not None or until is not None):
            raise SubscriptionRefused(
                "`since` and `until` are places in the total order", hint='make the bus with order="ordered"'
            )
        with self._lock:
            existing = self._existing(question, callback, id, subscriber)
            if existing is not None:
                assert isinstance(existing, Detection), "a question is not a filter"
                return existing
            identity, receiver = self._entrance(callback, id, subscriber, maxsize, overflow)
            if self._trace is not None:
                self._trace.check(question.filter)
            validity = self._admitted(since, until) if in_time else Validity()
            standing = self._standing
            if standing is None:
                standing = Standing(lambda: engine_named(self._correlating))
            standing.add(identity, question, _time(validity.since, BEGINNING), _time(validity.until, END))
            self._standing = standing
            name = identity if subscriber is None else subscriber
            detection = Detection(self, identity, name, question, receiver)
            self._admit(detection, is_joinable=subscriber is not None)
            if self._trace is not None and question.is_public:
                self._trace.detecting(name, identity, question.filter, validity)
            return detection

    def _existing(
        self, asked: Hashable, callback: Callback | None, id: str | None, subscriber: str | None
    ) -> Subscription | None:
        """The subscription of a subscriber that asks the same already, under that id where there is one."""
        self._check_open()
        known = {} if subscriber is None else self._by_question.get((subscriber, asked), {})
        existing = next(iter(known.values()), None) if id is None else known.get(id)
        if existing is not None:
            existing._receiver.check_same(callback)
        return existing

    def _entrance(
        self,
        callback: Callback | None,
        id: str | None,
        subscriber: str | None,
        maxsize: int | None,
        overflow: Overflow,
    ) -> tuple[str, _Receiver]:
        """The id of a new subscription, and where its notifications go."""
        identity = self._fresh_id() if id is None else id
        if identity in self._subscriptions:
            raise SubscriptionRefused(f"the id {identity!r} is taken", hint="leave it out to get one")
        receiver = None if subscriber is None else self._receivers.get(subscriber)
        if receiver is None:
            return identity, _Receiver(callback, maxsize, overflow)
        receiver.check_same(callback)
        return identity, receiver

    def _admit(self, subscription: Subscription, *, is_joinable: bool) -> None:
        self._subscriptions[subscription.id] = subscription
        subscription._receiver.active.add(subscription.id)
        if is_joinable:
            key = subscription.subscriber, subscription._asked
            self._by_question.setdefault(key, {})[subscription.id] = subscription
            self._receivers[subscription.subscriber] = subscription._receiver

    def unsubscribe(self, subscription: Subscription | str) -> bool:
        """End a subscription, given itself or its id; False where it was not active.

        No delivery to it begins after that. What is in its queue can still be read.
        """
        identity = subscription if isinstance(subscription, str) else subscription.id
        with self._lock:
            found = self._subscriptions.get(identity)
            if found is None or (isinstance(subscription, Subscription) and found is not subscription):
                return False
            if isinstance(found, Detection):
                self._ask_no_more(found)
            else:
                self._engine.remove(identity)
            del self._subscriptions[identity]
            self._validity.pop(identity, None)
            last = found._receiver.leave(identity)
            if self._trace is not None and found._is_recorded:  # not before: a delivery may begin up to here
                self._trace.unsubscribed(found.subscriber, identity)
            if self._receivers.get(found.subscriber) is found._receiver:
                alike = self._by_question[found.subscriber, found._asked]
                del alike[identity]
                if not alike:
                    del self._by_question[found.subscriber, found._asked]
                if last:
                    del self._receivers[found.subscriber]
            return True

    def _ask_no_more(self, detection: Detection) -> None:
        assert self._standing is not None, "it holds what is asked"
        self._standing.remove(detection.id)
        if not len(self._standing):
            self._standing = None
            if not self._is_ordered:  # nobody looks at what is held
                self._queue = OrderedQueue(self._lateness_us)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """The active subscriptions, in the order in which they were made."""
        with self._lock:
            return tuple(self._subscriptions.values())

    # -- the bus itself ------------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that was published is handed over; False where that was not so in time.

        A callback cannot wait for its own end: called from one, it is False at once.
        """
        with self._lock:
            if self._handing_over == threading.get_ident():
                return False
            done = self._idle.wait_for(lambda: self._handing_over is None, timeout)
        if done:
            self._hand_over()  # what an interrupted callback has left behind
        return done

    def close(self) -> None:
        """Accept nothing more, hand over what was published, then end all subscriptions."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.close()  # the final punctuation
            failures = self._release()
            self._pending.append(None)  # stands for the end: behind all that was published
        self._conclude(failures)

    def statistics(self) -> BusStatistics:
        """What the bus holds and has done."""
        with self._lock:
            return BusStatistics(
                **self._counts,
                held=len(self._queue),
                subscribers=len({subscription._receiver for subscription in self._subscriptions.values()}),
                subscriptions=len(self._subscriptions),
                advertisements=sum(map(len, self._advertised.values())),
                matching=self._engine.statistics(),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- how -----------------------------------------------------------------------------------------------

    def _parsed(self, filter: str | Filter) -> Filter:
        if isinstance(filter, Filter):
            return filter
        return parse(filter, self._schema)

    def _question(
        self, given: str | patterns.Pattern | Expression | fair.Subscription, choice: fair.Choice | None
    ) -> Question:
        from fairlead.correlation import fair, patterns
        from fairlead.correlation.patterns.building import Expression
        from fairlead.correlation.standing import Question

        if isinstance(given, fair.Subscription):
            return Question(given, choice or fair.Choice.FIRST_RECEIVED)
        if choice is not None:
            raise SubscriptionRefused(
                "a pattern says itself what it takes", hint="`choice` goes with a fair subscription"
            )
        if isinstance(given, str):
            return Question(patterns.parse(given, self._schema))
        if not isinstance(given, patterns.Pattern | Expression):
            raise SubscriptionRefused(f"no pattern: {given!r}", hint="text, a Pattern, or event(…).then(…)")
        return Question(given.pattern if isinstance(given, Expression) else given)

    def _check_open(self) -> None:
        if self._closed:
            raise BusClosed("the bus is closed")

    def _fresh_id(self) -> str:
        while True:
            self._ids_made += 1
            if (identity := f"s{self._ids_made}") not in self._subscriptions:
                return identity

    def _digest(self, notification: Notification) -> str:
        """The same for equal records. One that holds a Python object, which has no encoding, has no equal."""
        try:
            return record_hash(notification.attributes, notification.document)
        except ValueRefused:
            return f"{OBJECT}{next(self._objects)}"

    def _stamped(self, notification: Notification) -> Notification:
        if self._clock is None or notification.time is not None:
            return notification
        now = self._clock()
        return replace(
            notification, time=now, attributes=Record({**dict(notification.attributes), "time": now})
        )

    def _is_advertised(self, notification: Notification) -> bool:
        active = self._advertised.get(notification.producer)
        return active is None or any(filter.matches(notification) for filter in active)

    def _was_advertised(self, notification: Notification) -> bool:
        """Whether what was held is advertised still: what held for larger order keys may be revoked."""
        is_advertised = self._is_advertised(notification)
        self._counts["not_advertised"] += not is_advertised
        return is_advertised

    def _check_advertised(self, notification: Notification) -> None:
        if self._is_advertised(notification):
            return
        active = self._advertised[notification.producer]
        self._counts["not_advertised"] += 1
        who = (
            f"producer {notification.producer!r}" if notification.producer else "the producer without a name"
        )
        raise NotAdvertised(
            f"{who} has advertised nothing that this matches: {dict(notification.attributes)!r}",
            hint=f"it advertises {', or '.join(map(str, active))}" if active else "it has revoked everything",
        )

    def _admitted(self, since: Instant | None, until: Instant | None) -> Validity:
        """For which order keys a subscription that is made now holds."""
        bounds = (None if each is None else OrderKey.first_at(each.microseconds) for each in (since, until))
        return Validity(*bounds).admitted_at(self._queue.watermark)

    def _tell_late(self, late: Late) -> None:
        if self._on_late is None:
            return
        try:
            self._on_late(late)
        except Exception:  # what became of it is not the publisher's concern
            with self._lock:
                self._counts["errors"] += 1
            log.exception("the on_late hook failed")

    def _report(self, failures: _Failures, notification: Notification) -> None:
        for subscription, error in failures:
            self._failed(subscription._receiver, Delivery(subscription.subscriber, notification, ()), error)

    def _matching(self, notification: Notification) -> tuple[list[str], _Failures]:
        """The ids of the subscriptions that match, and those whose filter failed instead of answering."""
        try:
            return self._engine.match(notification), []
        except Exception:  # a filter object's own: asked one by one, only its subscriber misses out
            matching, failures = [], []
            for identity, subscription in self._subscriptions.items():
                try:
                    if not isinstance(subscription, Detection) and subscription.filter.matches(notification):
                        matching.append(identity)
                except Exception as error:
                    failures.append((subscription, error))
            return matching, failures

    def _failed_filters(self, standing: Standing) -> list[_Failed]:
        return [
            ([(self._subscriptions[id], each.error) for id in each.ids], each.notification)
            for each in standing.take_failures()
        ]

    def _handovers(
        self,
        notification: Notification,
        matching: list[str],
        key: OrderKey | None = None,
        *,
        is_public: bool = True,
    ) -> list[_Handover]:
        """One delivery for each subscriber with a matching subscription."""
        concerned: dict[_Receiver, list[Subscription]] = {}
        for identity in matching:
            subscription = self._subscriptions[identity]
            concerned.setdefault(subscription._receiver, []).append(subscription)
        deliveries = [
            Delivery(found[0].subscriber, notification, tuple(sorted(each.id for each in found)), key)
            for found in concerned.values()
        ]
        handovers = [_Handover(*each, is_public) for each in zip(concerned, deliveries, strict=True)]
        return sorted(handovers, key=lambda each: each.delivery.subscriber) if key else handovers

    def _hand_over(self) -> None:
        """Hand over what is pending, unless a thread is at it already: it stays until all is done."""
        with self._lock:
            if self._handing_over is not None:
                return
            self._handing_over = threading.get_ident()
        try:
            while self._hand_over_next():
                pass
        except BaseException:  # a callback was interrupted: what is left goes out with the next call
            self._rest()
            raise

    def _hand_over_next(self) -> bool:
        with self._lock:
            if not self._pending:
                self._rest()  # under the same lock, or a publication could slip in between and be left lying
                return False
            handover = self._pending.popleft()
        if handover is None:
            if self._trace is not None:  # the subscriptions end with the bus, and were not given up before
                self._trace.ended()
            for subscription in self.subscriptions:
                self.unsubscribe(subscription)
        else:
            self._notify(handover)
        return True

    def _rest(self) -> None:
        with self._lock:
            self._handing_over = None
            self._idle.notify_all()

    def _notify(self, handover: _Handover) -> None:
        outcomes: tuple[str, ...]
        try:
            trace = self._trace if handover.is_public else None
            outcomes = handover.receiver.receive(handover.delivery, trace)
        except Exception as error:  # one subscriber's failure is not the others'
            outcomes = ("delivered",)
            self._failed(handover.receiver, handover.delivery, error)
        with self._lock:
            for outcome in outcomes:
                self._counts[outcome] += 1

    def _failed(self, receiver: _Receiver, delivery: Delivery, error: Exception) -> None:
        receiver.failed(error)
        with self._lock:
            self._counts["errors"] += 1
        try:
            if self._on_error is not None:
                self._on_error(delivery, error)
                return
        except Exception:
            log.exception("the on_error hook failed")
        log.error("subscriber %r failed on a notification", delivery.subscriber, exc_info=error)


@dataclass(frozen=True, slots=True)
class Advertisement:
    """That a producer will publish what matches a filter; as a context manager, until the block ends."""

    producer: str
    filter: Filter
    _bus: Bus = field(repr=False, compare=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bus.unadvertise(self)


class Subscription:
    """A subscription: a handle to end it, and, without a callback, the queue to read from.

    with bus.subscribe("price > 100") as quotes:
        quotes.get()                     the next notification
        for notification in quotes: ...  until the subscription is closed and the queue is read

    Leaving the block ends the subscription. A subscriber's subscriptions read from the same queue.
    """

    __slots__ = ("_bus", "_receiver", "filter", "id", "subscriber")

    def __init__(self, bus: Bus, id: str, subscriber: str, filter: Filter, receiver: _Receiver) -> None:
        self._bus = bus
        self._receiver = receiver
        self.id = id
        self.subscriber = subscriber
        self.filter = filter

    @property
    def _asked(self) -> Hashable:
        """What a subscriber asks for once."""
        return self.filter

    @property
    def _is_recorded(self) -> bool:
        """Whether a trace has it: what is delivered for it was published."""
        return True

    @property
    def active(self) -> bool:
        """Whether it still holds."""
        return self.id in self._receiver.active

    @property
    def errors(self) -> tuple[Exception, ...]:
        """What the subscriber's callback and filters have raised: the latest ones."""
        return tuple(self._receiver.errors)

    @property
    def error_count(self) -> int:
        """How often they have raised."""
        return self._receiver.error_count

    @property
    def dropped(self) -> int:
        """How many notifications later ones have pushed out of the full queue."""
        return self._receiver.dropped

    def get(self, timeout: float | None = None) -> Notification:
        """The next notification; waits for it, at most `timeout` seconds, then TimeoutError.

        SubscriptionEnded where the subscription is closed and the queue has been read.
        """
        return self.get_delivery(timeout).notification

    def get_delivery(self, timeout: float | None = None) -> Delivery:
        """Like `get`, and which of the subscriber's subscriptions matched."""
        return self._receiver.take(self.id, timeout)

    def close(self) -> None:
        """Unsubscribe."""
        self._bus.unsubscribe(self)

    def __len__(self) -> int:
        """How many notifications wait in the queue."""
        return len(self._receiver)

    def __bool__(self) -> bool:
        return True  # an empty queue is no missing subscription

    def __iter__(self) -> Iterator[Notification]:
        while True:
            try:
                yield self.get()
            except SubscriptionEnded:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self.active else ", closed"
        return f"<{type(self).__name__} {self.id!r} of {self.subscriber!r}: {self._asked}{state}>"


class Detection(Subscription):
    """A subscription to what a pattern, or a fair subscription, finds. Its filter is what the answers match."""

    __slots__ = ("_question",)

    def __init__(self, bus: Bus, id: str, subscriber: str, question: Question, receiver: _Receiver) -> None:
        super().__init__(bus, id, subscriber, question.filter, receiver)
        self._question = question

    @property
    def pattern(self) -> patterns.Pattern | fair.Subscription:
        """What is asked."""
        return self._question.about

    @property
    def _asked(self) -> Hashable:
        return self._question

    @property
    def _is_recorded(self) -> bool:
        return self._question.is_public


@dataclass(frozen=True, slots=True)
class _Handover:
    """A delivery on its way to the receiver that the subscriber had when it was published."""

    receiver: _Receiver
    delivery: Delivery
    is_public: bool
    """Whether the notification was published: an answer may be for those only who asked."""


class _Receiver:
    """Where a subscriber's notifications go: its callback, or its queue."""

    __slots__ = (
        *("_callback", "_changed", "_maxsize", "_overflow", "_waiting"),
        *("active", "dropped", "error_count", "errors"),
    )

    def __init__(self, callback: Callback | None, maxsize: int | None, overflow: Overflow) -> None:
        if maxsize is not None and maxsize < 1:
            raise SubscriptionRefused(f"a queue holds at least one notification, not {maxsize}")
        if overflow not in ("block", "drop_oldest"):
            raise SubscriptionRefused(f"overflow is 'block' or 'drop_oldest', not {overflow!r}")
        if callback is not None and maxsize is not None:
            raise SubscriptionRefused("a callback has no queue that could be bounded")
        self._callback = callback
        self._maxsize = maxsize
        self._overflow = overflow
        self._waiting: deque[Delivery] = deque()
        self._changed = threading.Condition()
        self.active: set[str] = set()
        self.errors: deque[Exception] = deque(maxlen=ERRORS_KEPT)
        self.error_count = 0
        self.dropped = 0

    def check_same(self, callback: Callback | None) -> None:
        """A subscriber has one receiver: a second callback is refused, none means the one it has."""
        if callback is not None and callback != self._callback:
            raise SubscriptionRefused(
                f"the subscriber has {'another callback' if self._callback else 'a queue'} already",
                hint="leave the callback out, or use another subscriber's name",
            )

    def receive(self, delivery: Delivery, trace: Recorder | None = None) -> tuple[str, ...]:
        """Take a delivery, unless all the subscriptions that matched have ended; what became of it."""
        with self._changed:
            if self._callback is None and self._overflow == "block":
                self._changed.wait_for(lambda: self._room() or self._ended(delivery))
            if self._ended(delivery):
                return ("withdrawn",)
            if trace is not None:  # under the lock that an unsubscription takes as well
                trace.notified(delivery.subscriber, delivery.notification, delivery.subscriptions)
            if self._callback is None:
                outcomes = ("delivered",) if self._room() else ("delivered", "dropped")
                if not self._room():
                    self._waiting.popleft()
                    self.dropped += 1
                self._waiting.append(delivery)
                self._changed.notify_all()
                return outcomes
        self._callback(delivery.notification)  # without the lock: it may unsubscribe
        return ("delivered",)

    def take(self, identity: str, timeout: float | None) -> Delivery:
        if self._callback is not None:
            raise SubscriptionRefused(
                "the subscriber has a callback: there is no queue to read",
                hint="subscribe without a callback",
            )
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting or identity not in self.active, timeout):
                raise TimeoutError(f"no notification within {timeout} s")
            if not self._waiting:
                raise SubscriptionEnded(f"subscription {identity!r} is closed")
            delivery = self._waiting.popleft()
            self._changed.notify_all()
            return delivery

    def leave(self, identity: str) -> bool:
        """End one of the subscriptions; whether it was the last one."""
        with self._changed:
            self.active.discard(identity)
            self._changed.notify_all()
            return not self.active

    def failed(self, error: Exception) -> None:
        self.errors.append(error)
        self.error_count += 1

    def _room(self) -> bool:
        return self._maxsize is None or len(self._waiting) < self._maxsize

    def _ended(self, delivery: Delivery) -> bool:
        return self.active.isdisjoint(delivery.subscriptions)

    def __len__(self) -> int:
        return len(self._waiting)


_Failures: TypeAlias = list[tuple[Subscription, Exception]]
_Failed: TypeAlias = tuple[_Failures, Notification]
_COUNTED_AS: Final = {
    Arrival.HELD: "published",
    Arrival.LATE: "late",
    Arrival.DUPLICATE: "duplicates",
}


def _is_ordered(order: Order) -> bool:
    if order not in ("live", "ordered"):
        raise ValueError(f"the order is 'live' or 'ordered', not {order!r}")
    return order == "ordered"


def _check_callable(callback: object) -> None:
    if callback is not None and not callable(callback):
        raise SubscriptionRefused(f"the callback cannot be called: {callback!r}")


def _time(key: OrderKey | None, default: int) -> int:
    return default if key is None else key.time


def _recorder(trace: str | os.PathLike[str] | Callable[[Event], object]) -> Recorder:
    from fairlead.audit.recorder import Recorder

    return Recorder(trace)
