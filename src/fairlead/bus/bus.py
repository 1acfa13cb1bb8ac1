"""The bus: publish and subscribe within one process. All publications are in one order, and every subscriber is
notified in that order.

A publication is matched under the bus's lock, at the moment at which it takes its place: when it is published, or,
on an ordered bus, when the watermark passes it. What it completes takes its place next. Then all is handed over.
Whether it is admitted and whom it concerns is decided by the seam (`fairlead.rules`), as in brokers.

    registry      who asks for what
    receivers     where a subscriber's notifications go: a callback, or a queue
    accepting     that what fails there comes again, and is a dead letter in the end
    handing_over  that they get there, in order, by one thread at a time
    advertising   who may publish what
    arriving      the identities of an ordered bus
    transacting   several publications that take place together, or not at all
    source        publication on demand
    scoping       who may see what, where the bus has scopes
    retaining     the last values of channels, for who subscribes later
    history       the log of a bus that has one
    durable       subscribers that go on where they were
    replaying     that what is in the log is handed over again
    holding       what channels hold until an instant
    expecting     what channels expect by a deadline
    space         what stays until somebody takes it
    handles       what users hold: subscriptions, detections, advertisements
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, TypeVar

from fairlead.bus.accepting import Accepting, Attempt
from fairlead.bus.advertising import Advertised
from fairlead.bus.arriving import Arriving
from fairlead.bus.changing import Changing
from fairlead.bus.durable import Durable
from fairlead.bus.expecting import Expecting, OnMissed
from fairlead.bus.expiring import Expiring
from fairlead.bus.handing_over import ErrorHook, HandingOver, Handover
from fairlead.bus.handles import Advertisement, Detection, Subscription
from fairlead.bus.history import DurableStatus, History, LogFile
from fairlead.bus.holding import Holding
from fairlead.bus.receivers import Callback, Delivery, Overflow, Receiver, check_callable
from fairlead.bus.registry import Registry
from fairlead.bus.replaying import Beginning, Replaying
from fairlead.bus.requesting import Answer, Replies, Requester, Timeout, responding
from fairlead.bus.retaining import Retaining
from fairlead.bus.source import Source
from fairlead.bus.space import Space, Spaces
from fairlead.bus.statistics import COUNTED, BusStatistics
from fairlead.bus.transacting import Transaction, accepting_all, grouped
from fairlead.channels import Channel, Channels, Quality, check_offer, quality_of
from fairlead.conditions import Condition, condition_of
from fairlead.delivery import Arrival, Late, OrderedQueue, Validity
from fairlead.delivery.assigning import Terms
from fairlead.delivery.dead_letters import letter_of
from fairlead.delivery.discovery import Discovered, Discovery
from fairlead.delivery.requesting import Event as Published
from fairlead.delivery.sessions import in_session
from fairlead.delivery.transacting import refused_member
from fairlead.errors import (
    BusClosed,
    ChannelError,
    FairleadError,
    NobodyListens,
    NotAdvertised,
    RequestRefused,
    ScopeError,
    SubscriptionRefused,
    TransactionRefused,
    ValueRefused,
)
from fairlead.filters.filter import EVERYTHING, NOTHING, Filter
from fairlead.filters.language import parse
from fairlead.matching import Engine, engine_named
from fairlead.model import Instant, Notification
from fairlead.model.durations import seconds_of
from fairlead.model.encoding import content_hash
from fairlead.model.instants import Since, microseconds_of
from fairlead.model.order import (
    BEGINNING,
    END,
    REMEMBERED,
    Identity,
    LatestContents,
    LatestIdentities,
    OrderKey,
    identity_of,
)
from fairlead.rules import Refusal, Route, Rule, Seam
from fairlead.rules.channeling import Channeling
from fairlead.rules.hooks import Hooks

if TYPE_CHECKING:
    from fairlead.audit import Event
    from fairlead.audit.recorder import Recorder
    from fairlead.bus.components import BusComponent, BusScopes
    from fairlead.bus.scoping import Scoped
    from fairlead.correlation import fair
    from fairlead.correlation.queries import QueryLike, QuerySet, Result
    from fairlead.filters.schema import Schema
    from fairlead.scopes import Scopes, System
    from fairlead.scopes.language.statements import Statement
    from fairlead.typed import Typed

__all__ = ["Bus"]

log: Final = logging.getLogger(__name__)

Order: TypeAlias = Literal["live", "ordered"]
Failures: TypeAlias = list[tuple[Subscription, Exception]]
Failed: TypeAlias = tuple[Failures, Notification]

T = TypeVar("T")

OBJECT: Final = "object"
COUNTED_AS: Final = {
    Arrival.HELD: "published",
    Arrival.LATE: "late",
    Arrival.DUPLICATE: "duplicates",
    Arrival.CONFLICT: "conflicts",
}


class Bus:
    """Publish and subscribe within one process. Thread-safe.

    `order` is "live" (at once, in the order of publishing) or "ordered" (by the one total order, once the
    newest event time is `lateness_us` microseconds ahead); `on_late` is called with what comes too late. On a live
    bus these two are about patterns, which see what is published in the total order in either case.
    `schema` checks what is published and is what filters are read with. `engine` names the matching engine.
    `clock` stamps notifications that come without a time; without a clock they have none. `on_error` is
    called with a delivery and what its callback raised; without it, the error is logged. A duplicate is
    recognised among the last `remembered` identities (producer, id): that bounds the memory they take. An ordered
    bus remembers them for `remember_us` microseconds behind the watermark, by default an hour or the lateness.
    `rules` refuse publications and narrow whom they go to (`fairlead.rules`), besides advertisements.
    `scopes` say which component may see what (`fairlead.scopes`): producers and subscribers are components.
    `channels` say which quality of service notifications have, by their content (`fairlead.channels`).
    `log` is a directory with what was published: it has history, and durable subscribers, also of later processes.
    `hooks` look at what is published, subscribed to and delivered (`fairlead.rules.hooks`).

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
        on_error: ErrorHook | None = None,
        remembered: int = REMEMBERED,
        order: Order = "live",
        lateness_us: int = 0,
        remember_us: int | None = None,
        on_late: Callable[[Late], object] | None = None,
        trace: str | os.PathLike[str] | Callable[[Event], object] | None = None,
        rules: Iterable[Rule] = (),
        scopes: Scopes | System | None = None,
        channels: Iterable[Channel] = (),
        log: str | os.PathLike[str] | LogFile | None = None,
        hooks: Iterable[Any] = (),
    ) -> None:
        self._schema = schema
        self._clock = clock
        # Re-entrant: a filter asks embedded objects, and these may know the bus.
        self._lock = threading.RLock()
        self._engine: Engine[str] = engine_named(engine) if isinstance(engine, str) else engine
        self._registry = Registry()
        self._advertised = Advertised()
        self._identities = LatestIdentities(remembered)
        self._contents = LatestContents()
        self._groups = LatestIdentities(remembered)
        self._is_ordered = _is_ordered(order)
        self._lateness_us, self._remember_us, self._remembered = lateness_us, remember_us, remembered
        self._queue = self._new_queue()
        self._on_late = on_late
        self._validity: dict[str, Validity] = {}
        self._changing = Changing()
        self._standing: QuerySet | None = None  # while there are patterns
        self._correlating = engine if isinstance(engine, str) else "columnar"
        self._objects = itertools.count(1)
        self._requesters: dict[str | None, Requester] = {}
        self._responders = itertools.count(1)
        self._sources, self._closed = list[Source](), False
        self._counts = dict.fromkeys(COUNTED, 0)
        self._failures: Failures = []  # of filters, while the seam is asked for a route
        self._trace = None if trace is None else _recorder(trace, schema)  # late: it opens a file
        self._handing_over = HandingOver(self._lock, self._counts, trace=self._trace, on_error=on_error)
        self._scoped = None if scopes is None else self._with_scopes(scopes)
        of_scopes = () if self._scoped is None else (self._scoped.rule,)
        self.channels: Final = Channels(channels, schema)
        """The channels: the first that matches a notification is its channel."""
        of_channels = (Channeling(self.channels),) if self.channels else ()
        self._hooks, self._spaces = Hooks(hooks), Spaces(self, self._now)
        of_hooks = (*of_channels, *of_scopes, *self._hooks.rules)
        self._seam = Seam(self._route, (*of_hooks, self._advertised.rule, *rules))
        self._expiring = Expiring(self._seam, self._now)
        self._holding, self._expecting = Holding(), Expecting(self.channels)
        if (self.channels.expire or self.channels.hold or self.channels.expect) and clock is None:
            raise ChannelError(
                "a bus without a clock knows no expiry, delay or deadline",
                hint="Bus(clock=lambda: Instant.of(datetime.now(UTC)))",
            )
        if self.channels.hold and self._is_ordered:
            raise ChannelError(
                "an ordered bus holds nothing until a time of its clock: the time of an event is its place",
                hint='leave delay out of the channels, or order="ordered"',
            )
        if self.channels.hold and log is not None:
            raise ChannelError(
                "a bus with a log holds nothing: what it holds would be lost with the process, and look safe",
                hint="leave delay out of the channels, or publish at a broker",
            )
        self._retaining = Retaining(self._seam, self._registry) if self.channels.retain else None
        if (self._retaining is not None or self.channels.expect) and self._scoped is not None:
            raise ChannelError(
                "a bus with scopes retains no values, and expects none: who may see them is decided when they are"
                " published",
                hint="leave retain and deadline out of the channels",
            )
        self._handing_over.hidden = self._registry.hidden = self._seam.hidden
        self._handing_over.delivering = self._hooks.delivering if self._hooks.delivers else None
        self._replaying = None if log is None else self._with_log(log)
        self._granted_by = self._seam.grant_version
        """The version of the rules that subscriptions were granted by."""

    # -- producers -----------------------------------------------------------------------------------------

    def publish(self, event: Mapping[str, Any] | tuple[Any, ...] | Notification) -> Notification | None:
        """Publish a notification, and return it with its identity; None where it is a duplicate.

        Everybody has it when the call returns, unless the call came from a callback or another thread was
        handing over: then they get it next.
        """
        return self._publish(in_session(Notification.of(event)))

    def _publish(self, given: Notification, *, is_request: bool = False) -> Notification | None:
        notification = self._intercepted(given)
        if notification is None:
            return None
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
            identified = self._seam.take(
                notification.producer, notification, self._identities, self._now(), digest
            )
            if isinstance(identified, Refusal):
                raise self._refused(identified)
            if identified is None:
                self._counts["conflicts" if self._contents.differs(notification) else "duplicates"] += 1
                return None
            given, until = identified, None if is_request else self._held_until(identified)
            if until is not None:
                self._holding.hold(identified, until)
                self._contents.remember(identified)
                return identified
            failures = self._publish_due()
            try:
                identified = self._seam.mark(identified, self._now())
                matched = self._matching(identified)
                if is_request and self._scoped is None and not self._anybody(identified, matched):
                    raise _nobody()
                offset = self._write(identified)
            except BaseException:
                self._identities.forget(identity_of(identified))  # it is not here, and may come again
                raise
            self._contents.remember(given)
            self._counts["published"] += 1
            before = self._pending()
            failures += self._enter(identified, matched, offset=offset)
            is_heard = self._pending() > before
            if self._hold(identified):
                failures += self._release()
            late = self._queue.take_late()
        self._conclude(failures, late)
        if is_request and self._scoped is not None and not is_heard:
            raise _nobody()  # who may see it is known when it is published
        return identified

    def _intercepted(self, given: Notification) -> Notification | None:
        """A publication as hooks want it; None: they withhold it."""
        notification = self._seam.intercept(given.producer, given)
        if isinstance(notification, Refusal):
            raise self._refused(notification)
        if notification is None:
            with self._lock:
                self._counts["withheld"] += 1
        return notification

    def _held_until(self, notification: Notification) -> int | None:
        """The instant until which a channel holds a notification, if one does."""
        return self._seam.held_until(notification, self._now()) if self.channels.hold else None

    def _publish_due(self) -> list[Failed]:
        """Publish what was held until now, and have told what was expected until now."""
        failures: list[Failed] = []
        if self.channels.hold:
            for held in self._holding.take_due(self._now()):
                marked = self._seam.mark(held, self._now())
                self._counts["published"] += 1
                failures += self._enter(marked, self._matching(marked))
                if self._hold(marked):
                    failures += self._release()
        if self.channels.expect:
            self._handing_over.pending.extend(self._expecting.take_missed(self._now()))
        return failures

    def _publish_ordered(self, notification: Notification, digest: str | None) -> Notification | None:
        if digest is not None and digest.startswith(OBJECT):
            notification = replace(notification, id=digest)
        with self._lock:
            self._check_open()
            arriving = Arriving(self._queue)
            identified = self._seam.take(notification.producer, notification, arriving, self._now(), digest)
            if isinstance(identified, Refusal):
                raise self._refused(identified)
            arrival = self._copied(notification) if arriving.arrival is None else arriving.arrival
            self._counts[COUNTED_AS[arrival]] += 1
            late = self._queue.take_late()
            failures = [*self._publish_due(), *self._release()]
        self._conclude(failures, late)
        return identified

    def _copied(self, copy: Notification) -> Arrival:
        """Take a duplicate: it may be released instead of the copy that is buffered, unless a rule refuses it."""
        if self._seam.objection(copy.producer, copy, self._now()) is None:
            return self._queue.take(copy)[0]
        return self._queue.compare(copy)

    def of(self, cls: type[T]) -> Typed[T]:
        """The bus for instances of a class: a dataclass, a Struct of msgspec, or a model of pydantic.

        Its `publish` takes instances, its subscriptions deliver them (`fairlead.typed`).
        """
        from fairlead.typed import Typed

        return Typed(self, cls, self._schema)

    def transaction(
        self, *subscriptions: Subscription, id: str | None = None, producer: str = ""
    ) -> Transaction:
        """A transaction: what is published with it takes place when its block ends without an error, or never.

        Its notifications are adjacent in the order of the bus; nobody is notified of one before. One that is
        refused refuses all. A transaction of the same producer and id is committed once. `producer` is that of
        its notifications that have none. What its block takes from `subscriptions` is accepted with it, or comes
        again; with a durable subscriber and a log, also when the process is killed.
        """
        if self._is_ordered:
            raise TransactionRefused(
                "on an ordered bus the time of each notification is its place",
                hint='begin a transaction on a bus with order="live"',
            )
        for each in subscriptions:
            if not isinstance(each._receiver, Accepting):
                raise TransactionRefused(
                    f"deliveries to {each.subscriber!r} are not accepted",
                    hint='subscribe(…, accept="each"), or durable="work"',
                )
        return Transaction(self, id, producer, subscriptions)

    def _publish_group(
        self, id: str, producer: str, given: list[Notification], accepted: list[Attempt]
    ) -> bool:
        """Publish all, and accept the deliveries, or nothing; False where a group of this producer and id was
        published before."""
        members = []
        for index, each in enumerate(given):
            member = self._intercepted(each)
            if member is None:
                raise refused_member(index, "a hook withholds it")
            members.append(self._stamped(member if self._schema is None else self._schema.admit(member)))
        if self._trace is not None:
            for each in members:
                self._trace.check(each)
        with self._lock:
            self._check_open()
            if Identity(producer, id) in self._groups:
                return False
            given = self._take_group(members)
            for index, each in enumerate(given):
                if self._held_until(each) is not None:
                    self._forget_group(given)
                    raise refused_member(index, "its channel holds it until it is due, and not the others")
            failures = self._publish_due()
            try:
                taken = [self._seam.mark(each, self._now()) for each in given]
                matched = [self._matching(each) for each in taken]
                with accepting_all(accepted) as settled:
                    offsets = self._write_group(taken, Identity(producer, id), settled)
            except BaseException:
                self._forget_group(given)
                raise
            self._groups.take_identity((producer, id))
            self._counts["published"] += len(taken)
            pending = self._handing_over.pending
            before = len(pending)
            for each in given:
                self._contents.remember(each)
            for each, found, offset in zip(taken, matched, offsets, strict=True):
                failures += self._enter(each, found, offset=offset)
            added = [pending.pop() for _ in range(len(pending) - before)][::-1]
            handovers = [each for each in added if isinstance(each, Handover)]
            pending.extend(grouped(id, handovers) if len(handovers) == len(added) else added)
            held = [self._hold(each) for each in taken]
            if any(held):
                failures += self._release()
            late = self._queue.take_late()
        self._conclude(failures, late)
        return True

    def _take_group(self, members: list[Notification]) -> list[Notification]:
        """The members of a transaction as they are admitted; TransactionRefused: none of them is."""
        taken: list[Notification] = []
        for index, each in enumerate(members):
            identified = self._seam.take(each.producer, each, self._identities, self._now())
            if identified is None or isinstance(identified, Refusal):
                self._forget_group(taken)
                if identified is None:
                    raise refused_member(index, f"the id {each.id!r} was published before")
                raise refused_member(index, str(self._refused(identified)))
            taken.append(identified)
        return taken

    def _forget_group(self, taken: list[Notification]) -> None:
        for each in taken:
            self._identities.forget(identity_of(each))

    def request(
        self, event: Published, *, timeout: Timeout = 5.0, producer: str = "", subscriber: str | None = None
    ) -> Notification:
        """Publish a request, and return the first reply. The arguments are those of `requests`.

        NoReply where none comes in time.
        """
        with self.requests(
            event, timeout=timeout, enough=1, producer=producer, subscriber=subscriber
        ) as replies:
            return replies.get()

    def requests(
        self,
        event: Published,
        *,
        timeout: Timeout = 5.0,
        enough: int | None = None,
        producer: str = "",
        subscriber: str | None = None,
    ) -> Replies:
        """Publish a request, and iterate over the replies that come within `timeout`, at most `enough` of them.

        Requester and responders do not name each other. `timeout` is in seconds, or a string such as "2s"; None
        waits for ever. `subscriber` is the name under which replies are delivered, by default one of its own.
        NobodyListens, at once, where no subscription matches the request; it is then not published.
        """
        if self._is_ordered:
            raise RequestRefused(
                "on an ordered bus a request waits for the watermark",
                hint='request on a bus with order="live"',
            )
        if self._handing_over.is_by_this_thread:
            raise RequestRefused(
                "a callback cannot wait for a reply: the bus hands over what comes next when it has returned",
                hint="request in another thread, or publish and subscribe to what follows",
            )
        request = in_session(Notification.of(event))
        if producer and not request.producer:
            request = replace(request, producer=producer)
        with self._lock:
            self._check_open()
            requester = self._requesters.get(subscriber)
            if requester is None or not requester.subscription.active:
                requester = self._requesters[subscriber] = Requester(self, subscriber)
        return requester.request(request, timeout, enough)

    def respond(
        self, filter: str | Filter, answer: Answer, *, id: str | None = None, subscriber: str | None = None
    ) -> Subscription:
        """Reply to the requests that match a filter with what `answer(request)` returns; None is no reply.

        What is published without a wish for replies is not given to `answer`. Closing the subscription ends it.
        """
        check_callable(answer)
        parsed, callback = responding(self, self._parsed(filter), answer, subscriber, id)
        return self.subscribe(parsed, callback, id=id, subscriber=subscriber)

    def _subscribe_to_replies(
        self, filter: str, take: Callable[[Notification], object], subscriber: str | None
    ) -> Subscription:
        """A subscription whose deliveries go to `take`, and not to the subscriber's callback or queue."""
        subscription = self.subscribe(filter, subscriber=subscriber)
        subscription._receiver.taps[subscription.id] = take
        return subscription

    def _anybody(self, request: Notification, matched: tuple[list[str], Failures]) -> bool:
        """Whether a subscription or a detection looks at a request."""
        return any(matched) or any(
            filter.matches(request)
            for each in self._registry.by_id.values()
            if isinstance(each, Detection)
            for filter in each._question.filters
        )

    def _pending(self) -> int:
        delayed = 0 if self._scoped is None else self._scoped.running.delayed()
        return len(self._handing_over.pending) + delayed

    def advance(self, to: Instant | None = None) -> None:
        """Let time pass: nothing that happened before `to` is still to come, and what comes all the same is late.

        Without `to`, up to what the bus's clock says, less the allowed lateness. What channels hold is published
        when the clock has passed its instant, and what they expect by then is missed. That something is absent is
        known when its time has passed; where events are rare, somebody has to say so.
        """
        if to is None:
            if self._clock is None:
                raise ValueError("to when? the bus has no clock: advance(Instant(…)), or Bus(clock=…)")
            to = Instant(self._clock().microseconds - self._lateness_us)
        with self._lock:
            self._check_open()
            failures = self._publish_due()
            self._queue.punctuate(to.microseconds)
            failures += self._release()
            if self._scoped is not None and not self._is_ordered:
                failures += self._scoped.pass_time(to.microseconds)
            late = self._queue.take_late()
        self._conclude(failures, late)

    def _hold(self, notification: Notification) -> bool:
        """Hold a notification for what looks at the total order; False where, on a live bus, nothing does."""
        standing = self._standing if self._scoped is None else self._scoped
        if standing is None or not standing.is_timed:
            return False
        arrival = self._queue.add(notification)
        self._counts["late"] += arrival is Arrival.LATE
        if arrival is not Arrival.HELD:
            standing.overlook(notification)
        return True

    def _release(self) -> list[Failed]:
        """Let enter what the watermark has passed, in the total order, and with it what patterns find there."""
        released = self._queue.release()
        if self._is_ordered:
            released = [each for each in released if self._is_still_admitted(each[1])]
        if self._scoped is not None:
            look_at = self._scoped.release if self._is_ordered else self._scoped.look_at
            return [*look_at(released, self._queue.watermark), *self._scoped.failed_filters()]
        answers: deque[Result] = deque()
        failed: list[Failed] = []
        if self._standing is not None and self._standing.is_timed:
            answers.extend(self._standing.advance(released, self._queue.watermark))
            failed += self._failed_filters(self._standing)
        if self._is_ordered:
            for key, notification in released:
                while answers and answers[0].key is not None and answers[0].key.time < key.time:
                    failed += self._answer(answers.popleft())
                self._change_due(key.time)
                failed += self._enter(notification, self._matching(notification), key)
        for answer in answers:
            failed += self._answer(answer)
        return failed

    def _answer(self, answer: Result) -> list[Failed]:
        """Those who asked get an answer and, where it is public, all whose subscriptions match it."""
        self._counts["composites"] += 1
        key = answer.key if self._is_ordered else None
        if key is not None:
            self._change_due(key.time)
        if answer.is_public:
            matched, offset = self._matching(answer.notification), self._write(answer.notification)
            return self._enter(answer.notification, matched, key, answer.ids, offset=offset)
        self._handing_over.pending.extend(
            self._registry.handovers(answer.notification, [*answer.ids], key, is_public=False)
        )
        return []

    def _enter(
        self,
        notification: Notification,
        matched: tuple[list[str], Failures],
        key: OrderKey | None = None,
        query_ids: tuple[str, ...] = (),
        *,
        offset: int | None = None,
    ) -> list[Failed]:
        """Hand the next notification of the bus's one order, and what it completes, to those concerned."""
        if self._scoped is not None:
            return [*self._scoped.enter(notification, key), *self._scoped.failed_filters()]
        matching, failures = matched
        if key is not None:
            matching = [id for id in matching if id not in self._validity or key in self._validity[id]]
        if self._trace is not None:
            self._trace.published(notification, key)
        if self._retaining is not None:
            self._retaining.take(notification, key, None if offset is None else offset + 1)
        if self.channels.expect:
            self._expecting.seen(matching, notification, self._now())
        if self._spaces:
            self._spaces.enter(notification)
        self._handing_over.pending.extend(
            self._registry.handovers(notification, [*matching, *query_ids], key, offset=offset)
        )
        failed: list[Failed] = [(failures, notification)] if failures else []
        if self._standing is not None:
            for relation in self._standing.relations(notification, key):
                failed += self._answer(relation)
                if relation.is_public:  # it is published by itself: so it is on a live bus only
                    self._hold(relation.notification)
            failed += self._failed_filters(self._standing)
        return failed

    def _conclude(self, failures: list[Failed], late: Iterable[Late] = ()) -> None:
        """Without the lock: report what went wrong, then hand over."""
        for subscriptions, notification in failures:
            self._report(subscriptions, notification)
        for each in late:
            self._tell_late(each)
        self._handing_over.run()

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
            parsed = self._granted(producer, "advertise", parsed)
            existing = self._advertised.get(producer, parsed)
            if existing is not None:
                return existing
            advertisement = Advertisement(producer, parsed, self)
            self._advertised.add(advertisement)
            if self._trace is not None:
                self._trace.advertised(producer, parsed)
            self._happened("adv", producer, parsed)
            return advertisement

    def unadvertise(self, advertisement: Advertisement) -> bool:
        """Revoke an advertisement; False where it was not active."""
        with self._lock:
            if not self._advertised.remove(advertisement):
                return False
            if self._trace is not None:
                self._trace.unadvertised(advertisement.producer, advertisement.filter)
            self._happened("unadv", advertisement.producer, advertisement.filter)
            return True

    def space(self, name: str) -> Space:
        """The space of this name: what is written to it stays until somebody takes it, by content."""
        if self._scoped is not None:
            raise ScopeError(
                "a bus with scopes has no spaces: who may see a notification depends on who asks"
            )
        return self._spaces.of(name)

    def source(self, filter: str | Filter, producer: str = "") -> Source:
        """A source of what a filter matches: it publishes only while somebody listens. Use it as a context."""
        source = Source(self, self._parsed(filter), producer)
        self._sources.append(source)
        return source

    def _tell_sources(self) -> None:
        """Subscriptions have come or gone: sources may be wanted now, or no longer."""
        for source in tuple(self._sources):
            source.look()

    def wants(self, filter: str | Filter = "true") -> Discovered:
        """The part of a filter that is subscribed to, without the names of subscribers."""
        with self._lock:
            discovery = Discovery(self._parsed(filter), self._schema)
            for each in self._registry.by_id.values():
                for wanted in each._question.filters if isinstance(each, Detection) else (each.granted,):
                    discovery.add(wanted)
            return discovery.answer()

    def offers(self, filter: str | Filter = "true") -> Discovered:
        """The part of a filter that is advertised, without the names of producers; not known where nothing is."""
        with self._lock:
            discovery = Discovery(self._parsed(filter), self._schema)
            for each in self._advertised.all:
                discovery.add(each.filter)
            return discovery.answer(known=len(self._advertised) > 0)

    @property
    def advertisements(self) -> tuple[Advertisement, ...]:
        """The active advertisements: what may come."""
        with self._lock:
            return self._advertised.all

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
        since: Since | None = None,
        until: Instant | None = None,
        durable: str = "",
        on: str | Condition | None = None,
        accept: Literal["none", "each"] = "none",
        shared: bool = False,
        per: str = "",
        window: int = 0,
        attempts_max: int = 0,
        accept_within: Timeout = None,
        retained: Literal["send", "no"] = "send",
        want: str | Quality | None = None,
        on_missed: OnMissed | None = None,
    ) -> Subscription:
        """Subscribe to what matches a filter, with a callback, or with a queue that is read or iterated over.

        A subscriber that subscribes to the same filter again gets the same subscription, and one
        `unsubscribe` ends it (book 2.5.2); under another id it is another subscription. `maxsize` bounds the
        queue; when it is full, the handing over either waits (`block`) or pushes out the oldest one, which is
        counted (`drop_oldest`), or the one that the channel of the newest discards (`drop`).

        On an ordered bus it holds for order times in [since, until); what the watermark has passed is gone.

        On a bus with a log, `since` begins in the past: what was published from then on comes first. `durable` is
        the name of a subscriber that outlives the process: its deliveries are accepted, and who subscribes under
        the name again, to the same filter, goes on where it was; `since` counts when it begins.

        `on` is a condition beside the filter, such as "celsius changes by 1, per room" (`fairlead.conditions`):
        of what matches, only what the condition lets pass is delivered.

        With `accept="each"`, or any of what follows, deliveries are accepted: a callback by returning, a queue by
        `Delivery.accept`, or by `get`, which accepts the one before. What is rejected, or not accepted within
        `accept_within` (seconds, or as "30s"), comes again; what fails `attempts_max` times is published as a dead
        letter, of the type "dead". A subscriber that is `shared` has several members, each with a queue: a
        notification goes to one of them, the one with the fewest that are not accepted, at most `window`; with
        `per`, an attribute, those with one value of it go to one member while it has any of them.

        What channels retain and the filter matches comes first, and says that it is `retained`; not what the
        subscriber has already, and with `retained="no"` nothing of it.

        `want` is the least quality of service that the channels of the filter have to offer, such as
        "order=producer, deadline=10s": otherwise QualityRefused names the channel. `on_missed` is called where a
        channel has a deadline, and nothing of a key has come in time.
        """
        if retained not in ("send", "no"):
            raise SubscriptionRefused(f"retained values are asked for by 'send' or 'no', not {retained!r}")
        terms = Terms(shared, per, window, attempts_max, _microseconds(accept_within))
        check_callable(callback)
        parsed = self._parsed(filter)
        wanted = self._check_offer(parsed, None if want is None else quality_of(want))
        condition = None if on is None else condition_of(on)
        if durable or (since is not None and not self._is_ordered):
            self._check_history(durable, subscriber, condition)
            retained = "no"
        if durable:
            subscriber, accept = durable, "each"
        accepting = self._accepting(callback, terms, accept, maxsize, durable)
        if not self._is_ordered and until is not None:
            raise SubscriptionRefused(
                "`until` is a time in the total order", hint='make the bus with order="ordered"'
            )
        with self._lock:
            self._check_open()
            existing = self._registry.existing(
                parsed if condition is None else (parsed, condition), callback, id, subscriber
            )
            if existing is not None and not shared:
                return existing
            begins = self._begin_history(durable, subscriber, parsed, since)
            try:
                identity, receiver = self._registry.entrance(
                    callback, id, subscriber, maxsize, overflow, accepting=accepting
                )
                granted = self._granted(subscriber or identity, "subscribe", parsed)
            except BaseException:
                if begins is not None and begins.is_new and self._replaying is not None:
                    self._replaying.history.forget(durable)
                raise
            self._prepare(receiver)
            validity = self._validity_of(since, until)
            name = identity if subscriber is None else subscriber
            if self._scoped is not None:
                self._scoped.running.check_component(name)
            if condition is not None and (refusal := self._seam.refuse_reading(name, condition.attributes)):
                raise self._refused(refusal)
            if self._trace is not None:
                self._trace.check(granted)
            subscription = Subscription(self, identity, name, parsed, receiver, granted=granted, on=condition)
            self._install(subscription, validity, is_joinable=subscriber is not None)
            self._require(subscription, wanted, on_missed)
            if self._retaining is not None:
                if retained == "send":
                    self._handing_over.pending.extend(self._retaining.handovers(subscription, self._routed))
                else:
                    self._retaining.skip(subscription)
            self._replay(subscription, begins)
        if self._retaining is not None or begins is not None:
            self._conclude([])
        self._tell_sources()
        return subscription

    def _install(self, subscription: Subscription, validity: Validity, *, is_joinable: bool) -> None:
        """A subscription is in effect from now on."""
        self._engine.add(subscription.id, subscription.granted)
        if validity != Validity():
            self._validity[subscription.id] = validity
        self._registry.add(subscription, is_joinable=is_joinable)
        self._record_subscribed(subscription)
        self._happened("sub", subscription.subscriber, subscription.granted)

    def retained(self, filter: str | Filter = EVERYTHING) -> list[Notification]:
        """The values that channels retain and a filter matches, in the order of their publication."""
        parsed = self._parsed(filter)
        with self._lock:
            if self._retaining is None:
                return []
            return [each for each in self._retaining if parsed.matches(each) and not self._is_over(each)]

    def _is_over(self, notification: Notification) -> bool:
        """Whether a notification has expired."""
        until = self._seam.expires(notification)
        return until is not None and not self._is_ordered and until <= self._now()

    def _prepare(self, receiver: Receiver) -> None:
        """Have a receiver look at the channels, before anything comes."""
        if self.channels.expire and not self._is_ordered:
            receiver.has_expired = self._expiring.has_expired
        if self.channels.arrange and not self._is_ordered and not receiver.active:
            receiver.arrange(self._seam.standing)

    def _require(
        self, subscription: Subscription, wanted: Quality | None, on_missed: OnMissed | None
    ) -> None:
        """Remember the quality that a subscription requires, and whom to tell what is missing."""
        subscription._want = wanted
        self._expecting.add(subscription.id, on_missed)

    def _check_offer(self, filter: Filter, wanted: Quality | None) -> Quality | None:
        """The quality that is wanted; QualityRefused where the channels of a filter offer less."""
        if wanted is not None:
            check_offer(
                self.channels,
                filter,
                wanted,
                self._schema,
                is_logged=self._replaying is not None,
                is_total=self._is_ordered,
            )
        return wanted

    def _accepting(
        self, callback: Callback | None, terms: Terms, accept: str, maxsize: int | None, durable: str
    ) -> Callable[[], Accepting] | None:
        """The maker of a receiver whose deliveries are accepted; None: they are not."""
        if accept not in ("none", "each"):
            raise SubscriptionRefused(f"deliveries are accepted 'none' or 'each', not {accept!r}")
        if accept == "none" and terms.is_neutral:
            return None
        if self._is_ordered:
            raise SubscriptionRefused(
                "on an ordered bus deliveries are not accepted: what comes again would be out of order",
                hint='accept them on a bus with order="live"',
            )
        if maxsize is not None:
            raise SubscriptionRefused(
                "a queue whose deliveries are accepted has a window, not a size", hint="window=100"
            )
        clock = None if self._clock is None else self._now

        def bury(delivery: Delivery, attempts: int, reason: str) -> None:
            self._publish_own(letter_of(delivery.subscriber, delivery.notification, attempts, reason))

        replaying = self._replaying
        if not durable or replaying is None:
            return lambda: Accepting(callback, terms, clock, bury)
        history, read_on = replaying.history, replaying.read_on
        return lambda: Durable(callback, terms, clock, bury, name=durable, history=history, read_on=read_on)

    # -- the log -------------------------------------------------------------------------------------------

    def _with_log(self, log: str | os.PathLike[str] | LogFile) -> Replaying:
        settings = log if isinstance(log, LogFile) else LogFile(log)
        if self._is_ordered or self._scoped is not None:
            what = "an ordered bus" if self._is_ordered else "a bus with scopes"
            raise SubscriptionRefused(
                f"{what} has no log: what is in one was published in the order of a live bus, to all",
                hint="leave the log out, or record a trace",
            )
        if settings.keep is not None and self._clock is None:
            raise SubscriptionRefused("a bus without a clock knows no age", hint="Bus(clock=Instant.now)")
        history = History(settings)
        retaining = self._retaining
        history.recover(
            self._identities.recall,
            self._groups.recall,
            None if retaining is None else lambda value, number: retaining.take(value, None, number),
        )
        return Replaying(self._lock, history, self._registry, self._handing_over, self._routed)

    def _write(self, notification: Notification) -> int | None:
        """Write a publication into the log, if there is one, and return its offset when it is safe."""
        if self._replaying is None:
            return None
        self._shorten()
        return self._replaying.history.write(notification, self._now())

    def _write_group(
        self, members: list[Notification], transaction: Identity, settled: list[tuple[str, int]]
    ) -> list[int] | list[None]:
        """Write a transaction into the log, if there is one, with the deliveries that it settles."""
        if self._replaying is None:
            return [None] * len(members)
        self._shorten()
        return self._replaying.history.write_group(members, self._now(), transaction, settled)

    def _shorten(self) -> None:
        """Let records leave the log when it is time."""
        if self._replaying is not None and self._replaying.history.is_due:
            self._replaying.shorten(self._now(), self._retaining)

    def _check_history(self, durable: str, subscriber: str | None, condition: Condition | None) -> None:
        """SubscriptionRefused where a subscription asks for history that there is not."""
        if self._replaying is None:
            raise SubscriptionRefused(
                "the bus has no log: it knows no history, and no durable subscriber",
                hint='Bus(log="directory")',
            )
        if durable and subscriber is not None:
            raise SubscriptionRefused(
                "the name of a durable subscriber is `durable`", hint="leave `subscriber` out"
            )
        if condition is not None:
            raise SubscriptionRefused(
                "a condition looks at what follows: it has no history", hint="leave `on` or the history out"
            )

    def _begin_history(
        self, durable: str, subscriber: str | None, filter: Filter, since: Since | None
    ) -> Beginning | None:
        """The beginning of a new subscription in the log; None: it begins now."""
        replaying = self._replaying
        if replaying is None or self._is_ordered:
            return None
        receiver = None if subscriber is None else self._registry.receiver(subscriber)
        replaying.check_joining(receiver, durable, since)
        if durable:
            begins = replaying.begin(durable, filter, since)
            return begins if receiver is None else None
        return None if since is None else replaying.find(since)

    def _replay(self, subscription: Subscription, begins: Beginning | None) -> None:
        """Hand over what was published before a subscription."""
        replaying, receiver = self._replaying, subscription._receiver
        if replaying is None or begins is None:
            return
        subscription.is_cut = begins.is_cut
        if isinstance(receiver, Durable):
            replaying.joined(receiver)
        if not isinstance(receiver, Durable) or receiver.is_called:
            self._handing_over.pending.append(replaying.catch_up(subscription, begins.offset))

    def durables(self) -> list[DurableStatus]:
        """The durable subscribers, by name, with what each has still to look at."""
        with self._lock:
            return [] if self._replaying is None else self._replaying.statuses()

    def forget(self, durable: str) -> bool:
        """End a durable subscriber, whoever is there for it; False where there is none of this name."""
        with self._lock:
            self._check_open()
            if self._replaying is None or durable not in self._replaying.history.durables:
                return False
            for each in self.subscriptions:
                if isinstance(each._receiver, Durable) and each.subscriber == durable:
                    self.unsubscribe(each)
            self._replaying.history.forget(durable)
            return True

    def _publish_own(self, notification: Notification) -> None:
        """Publish what is the bus's own, such as a dead letter: no producer's, so that no rule refuses it."""
        with self._lock:
            notification = self._stamped(notification)
            if self._identities.take(notification) is None:
                return
            offset = self._write(notification)
            self._counts["published"] += 1
            failures = self._enter(notification, self._matching(notification), offset=offset)
        self._conclude(failures)

    def detect(
        self,
        pattern: QueryLike,
        callback: Callback | None = None,
        *,
        id: str | None = None,
        subscriber: str | None = None,
        maxsize: int | None = None,
        overflow: Overflow = "block",
        since: Instant | None = None,
        until: Instant | None = None,
        choice: fair.Choice | str | None = None,
    ) -> Detection:
        """Subscribe to the composite events of a pattern: text, a `Pattern`, or what Python calls have built.

        A pattern is about the total order: it sees what happens in [since, until), from the watermark on. On a
        live bus, what is published is held for patterns, though it is delivered at once; what comes too late for
        them is counted and told to `on_late`. The composites of a pattern with a name, `spike: A followed by B`,
        are published for all to see.

        A fair subscription (`fair.parse(…)`) gives the relations that it delivers, by the `choice` of which events
        to take. Its established order is that of the bus; on a live one, the order of publishing. With a name,
        `pair: A.x < B.y`, its relations are published, too.

        All else is as in `subscribe`.
        """
        from fairlead.correlation.queries import Query, QuerySet

        check_callable(callback)
        question = Query.of(pattern, choice, self._schema)
        in_time = self._is_ordered or question.is_pattern
        if not in_time and (since is not None or until is not None):
            raise SubscriptionRefused(
                "`since` and `until` are times in the total order", hint='make the bus with order="ordered"'
            )
        with self._lock:
            self._check_open()
            existing = self._registry.existing(question, callback, id, subscriber)
            if existing is not None:
                assert isinstance(existing, Detection), "a question is not a filter"
                return existing
            identity, receiver = self._registry.entrance(callback, id, subscriber, maxsize, overflow)
            if self._trace is not None:
                self._trace.check(question.filter)
            validity = self._admitted(since, until) if in_time else Validity()
            name = identity if subscriber is None else subscriber
            self._check_granted(name, question.filters)
            times = _time(validity.since, BEGINNING), _time(validity.until, END)
            if self._scoped is not None:
                self._scoped.running.check_component(name)
                self._scoped.ask(name, identity, question, *times)
            else:
                standing = self._standing
                if standing is None:
                    standing = QuerySet(lambda: engine_named(self._correlating), live=not self._is_ordered)
                standing.add(identity, question, *times)
                self._standing = standing
            detection = Detection(self, identity, name, question, receiver)
            self._registry.add(detection, is_joinable=subscriber is not None)
            if self._trace is not None and question.is_public:
                self._trace.answering(name, identity, question.filter, validity)
        self._tell_sources()
        return detection

    def _change(self, subscription: Subscription, filter: str | Filter, at: Instant | None) -> None:
        """Have another filter in the place of a subscription's."""
        parsed = self._parsed(filter)
        if isinstance(subscription, Detection):
            raise SubscriptionRefused(
                "the question of a detection is not changed", hint="detect the other pattern beside it"
            )
        if isinstance(subscription._receiver, Durable):
            raise SubscriptionRefused(
                "a durable subscriber of a bus has one filter: the log knows no other",
                hint=f"bus.forget({subscription.subscriber!r}) ends it; then it can begin with another one",
            )
        if at is not None and not self._is_ordered:
            raise SubscriptionRefused(
                "`at` is a time in the total order", hint='make the bus with order="ordered"'
            )
        with self._lock:
            self._check_open()
            if not subscription.active:
                raise SubscriptionRefused("the subscription is closed")
            self._check_offer(parsed, subscription._want)
            granted = self._granted(subscription.subscriber, "subscribe", parsed)
            if self._trace is not None:
                self._trace.check(granted)
            self._change_due(self._queue.watermark)
            if at is None or at.microseconds <= self._queue.watermark:
                self._change_now(subscription, parsed, self._queue.watermark)
            elif self._scoped is not None:
                raise ScopeError(
                    "with scopes a filter is changed at the watermark", hint="call it when its time has come"
                )
            else:
                self._changing.add(subscription, parsed, at.microseconds)
        self._conclude([])
        self._tell_sources()

    def _change_due(self, time: int) -> None:
        """Change the filters whose place in the order is at this time, or before."""
        for subscription, filter, at in self._changing.due(time):
            self._change_now(subscription, filter, at)

    def _change_now(self, subscription: Subscription, filter: Filter, at: int) -> None:
        name, id, before = subscription.subscriber, subscription.id, subscription.granted
        granted = self._seam.grant(name, "subscribe", filter, self._now())
        if isinstance(granted, Refusal):
            granted = NOTHING  # it was granted before the change's time had come
        self._engine.remove(id)
        self._engine.add(id, granted)
        self._registry.change(subscription, filter, granted)
        if granted == before:
            return
        if self._trace is not None:
            self._record_changed(subscription, at)
        self._happened("unsub", name, before)
        self._happened("sub", name, granted)

    def _record_changed(self, subscription: Subscription, at: int) -> None:
        """Record that a subscription has another filter. What is handed over still is for the one before."""
        assert self._trace is not None
        name, id, trace = subscription.subscriber, subscription._recorded_id, self._trace
        subscription._changes += 1
        if self._is_ordered:
            place = OrderKey.first_at(at)
            trace.unsubscribed(name, id, place)
            until = self._validity.get(subscription.id, Validity()).until
            self._record_subscribed(subscription, Validity(place, until))
            return
        self._record_subscribed(subscription)
        if self._handing_over.pending:
            self._handing_over.pending.append(lambda: trace.unsubscribed(name, id))
        else:
            trace.unsubscribed(name, id)

    def unsubscribe(self, subscription: Subscription | str) -> bool:
        """End a subscription, given itself or its id; False where it was not active.

        No delivery to it begins after that. What is in its queue can still be read.
        """
        identity = subscription if isinstance(subscription, str) else subscription.id
        with self._lock:
            found = self._registry.by_id.get(identity)
            if found is None or (isinstance(subscription, Subscription) and found is not subscription):
                return False
            if isinstance(found, Detection):
                self._ask_no_more(found)
            else:
                self._engine.remove(identity)
            self._registry.remove(found)
            self._validity.pop(identity, None)
            self._expecting.remove(identity)
            if self._trace is not None and found._is_recorded:  # not before: a delivery may begin up to here
                self._trace.unsubscribed(found.subscriber, found._recorded_id)
            self._happened("unsub", found.subscriber, found.granted)
        self._tell_sources()
        return True

    def _ask_no_more(self, detection: Detection) -> None:
        if self._scoped is not None:
            self._scoped.ask_no_more(detection.subscriber, detection.id)
            return
        assert self._standing is not None, "the subscription holds no state"
        self._standing.remove(detection.id)
        if not len(self._standing):
            self._standing = None
            if not self._is_ordered:  # nobody looks at what is held
                self._queue = self._new_queue()

    def _new_queue(self) -> OrderedQueue:
        """The queue that puts notifications in order; on a live bus for patterns only, and copies do not get
        there.
        """
        if self._is_ordered:
            return OrderedQueue(self._lateness_us, remember_us=self._remember_us, remembered=self._remembered)
        return OrderedQueue(self._lateness_us, remember_us=0)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """The active subscriptions, in the order in which they were made."""
        with self._lock:
            return tuple(self._registry.by_id.values())

    # -- what the rules grant ------------------------------------------------------------------------------

    def _granted(self, who: str, action: str, filter: Filter) -> Filter:
        """The rest of a subscription or an advertisement that the rules grant; the refusal is raised."""
        granted = self._seam.grant(who, action, filter, self._now())
        if isinstance(granted, Refusal):
            raise self._refused(granted)
        return granted

    def _check_granted(self, subscriber: str, filters: Iterable[Filter]) -> None:
        """A pattern sees what its subscriber may subscribe to: all of it, or it is refused."""
        if (refusal := self._seam.refuse_part(subscriber, filters, self._now())) is not None:
            raise self._refused(refusal)

    def _grant_again(self) -> None:
        """The rules have changed: subscriptions are narrowed by what they are now, detections may end."""
        self._granted_by = self._seam.grant_version
        for subscription in list(self._registry.by_id.values()):
            name, id = subscription.subscriber, subscription.id
            if isinstance(subscription, Detection):
                try:
                    self._check_granted(name, subscription._question.filters)
                except FairleadError:
                    self.unsubscribe(subscription)
                continue
            granted = self._seam.grant(name, "subscribe", subscription.filter, self._now())
            filter = NOTHING if isinstance(granted, Refusal) else granted
            if filter != subscription.granted:
                self._engine.remove(id)
                self._engine.add(id, filter)
                subscription.granted = filter
                if self._trace is not None:
                    self._trace.unsubscribed(name, subscription._recorded_id)
                    self._record_subscribed(subscription)

    def _record_subscribed(self, subscription: Subscription, validity: Validity | None = None) -> None:
        if self._trace is not None:
            record = self._trace.subscribed if subscription.on is None else self._trace.answering
            name, id = subscription.subscriber, subscription._recorded_id
            record(
                name, id, subscription.granted, validity or self._validity.get(subscription.id, Validity())
            )

    # -- the bus itself ------------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all that was published is handed over; False where that was not so in time.

        A callback cannot wait for its own end: called from one, it is False at once.
        """
        return self._handing_over.wait(timeout)

    def close(self) -> None:
        """Accept nothing more, hand over what was published, then end all subscriptions."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.close()  # the final punctuation
            failures = self._release()
            if self._scoped is not None and not self._is_ordered:
                failures += self._scoped.pass_time(END)
            self._handing_over.pending.append(self._end)  # behind all that was published
        self._conclude(failures)
        if self._replaying is not None:
            self._handing_over.wait(None)  # another process may open the log then

    def _end(self) -> None:
        """All that was published is handed over: end the subscriptions."""
        if self._trace is not None:  # they end with the bus, and were not given up before
            self._trace.ended()
        for subscription in self.subscriptions:
            self.unsubscribe(subscription)
        if self._replaying is not None:
            self._replaying.history.close()

    # -- scopes --------------------------------------------------------------------------------------------

    def component(self, name: str) -> BusComponent:
        """A component: it publishes and subscribes under its name."""
        from fairlead.bus.components import BusComponent

        if self._scoped is not None:
            self._scoped.running.check_component(name)
        return BusComponent(self, name)

    @property
    def scopes(self) -> BusScopes:
        """The scope graph, and its changes."""
        from fairlead.bus.components import BusScopes

        return BusScopes(self)

    def _with_scopes(self, scopes: Scopes | System) -> Scoped:
        from fairlead.bus.scoping import Scoped

        if self._trace is not None:
            self._trace.scoped(scopes, ordered=self._is_ordered)

        def published(notification: Notification, key: OrderKey | None) -> None:
            if self._trace is not None:
                self._trace.published(notification, key)

        return Scoped(
            scopes,
            ordered=self._is_ordered,
            match=self._routed,
            registry=self._registry,
            validity=self._validity,
            handing_over=self._handing_over,
            counts=self._counts,
            engine=self._correlating,
            published=published,
            hold=self._hold,
            changed=None if self._trace is None else self._trace.scope_changed,
        )

    def _change_scopes(self, statements: tuple[Statement, ...]) -> None:
        with self._lock:
            self._check_open()
            if self._scoped is None:
                raise ScopeError("the bus has no scopes", hint="Bus(scopes=Scopes.read(…))")
            notices = self._scoped.running.change(statements, watermark=self._queue.watermark)
            failures = self._scoped.noticed(notices)
        self._conclude(failures)

    def _happened(self, kind: str, component: str, filter: Filter) -> None:
        """Let the rules of scopes act on a subscription or advertisement."""
        if self._scoped is not None and self._scoped.running.ruled:
            from fairlead.scopes.rules import Trigger

            key = OrderKey.first_at(self._queue.watermark) if self._is_ordered else None
            self._scoped.running.happened(Trigger(kind, component, filter=filter), key)

    def statistics(self) -> BusStatistics:
        """The state of the bus in figures, and its counters."""
        with self._lock:
            return BusStatistics(
                **self._counts,
                expired=self._expiring.count,
                delayed=len(self._holding),
                held=len(self._queue) + (0 if self._scoped is None else self._scoped.running.delayed()),
                subscribers=self._registry.subscribers,
                subscriptions=len(self._registry),
                advertisements=len(self._advertised),
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
        parsed = filter if isinstance(filter, Filter) else parse(filter, self._schema)
        return self._seam.resolve(parsed)

    def _check_open(self) -> None:
        if self._closed:
            raise BusClosed("the bus is closed")

    def _digest(self, notification: Notification) -> str:
        """The same for equal records. One that holds a Python object, which has no encoding, has no equal."""
        try:
            return content_hash(notification)
        except ValueRefused:
            return f"{OBJECT}{next(self._objects)}"

    def _stamped(self, notification: Notification) -> Notification:
        if self._clock is None or notification.time is not None:
            return notification
        now = self._clock()
        return notification.stamped(now)

    def _now(self) -> int:
        """The time that rules are told: 0 on a bus without a clock."""
        return 0 if self._clock is None else self._clock().microseconds

    def _is_still_admitted(self, notification: Notification) -> bool:
        """Whether what was held is admitted still: what was advertised may have been revoked."""
        refusal = self._seam.objection(notification.producer, notification, self._now())
        if refusal is not None:
            self._refused(refusal)
        return refusal is None

    def _refused(self, refusal: Refusal) -> Exception:
        """The refusal as an exception; it is counted."""
        self._counts["not_advertised" if refusal.error is NotAdvertised else "refused"] += 1
        return refusal.exception()

    def _validity_of(self, since: Since | None, until: Instant | None) -> Validity:
        """For which order keys a subscription that is made now holds; on a live bus, for all."""
        if not self._is_ordered:
            return Validity()
        return self._admitted(None if since is None else Instant(microseconds_of(since)), until)

    def _admitted(self, since: Instant | None, until: Instant | None) -> Validity:
        """For which order keys a subscription that is made now holds."""
        if since is not None and until is not None and since > until:
            raise SubscriptionRefused(f"it would end before it begins: since {since}, until {until}")
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

    def _report(self, failures: Failures, notification: Notification) -> None:
        for subscription, error in failures:
            delivery = Delivery(subscription.subscriber, notification, ())
            self._handing_over.failed(subscription._receiver, delivery, error)

    def _matching(self, notification: Notification) -> tuple[list[str], Failures]:
        """The ids of the subscriptions that a notification goes to, and those whose filter failed instead."""
        if self._scoped is not None:
            return [], []  # each version is matched where it is entered
        return self._routed(notification)

    def _routed(self, notification: Notification) -> tuple[list[str], Failures]:
        """The same, as the seam answers it."""
        outer, self._failures = self._failures, []  # a filter object may publish
        try:
            route = self._seam.route(notification, "")
            return [id for _, ids in route.clients for id in ids], self._failures
        finally:
            self._failures = outer

    def _route(self, notification: Notification, source: str) -> Route:
        """The route before rules narrow it. Each subscription is there by itself: two may be of subscribers of the
        same name."""
        matching, failures = self._matched(notification)
        self._failures += failures
        by_id = self._registry.by_id
        return Route((), tuple([(by_id[id].subscriber, (id,)) for id in matching]))

    def _matched(self, notification: Notification) -> tuple[list[str], Failures]:
        """The subscriptions that match, and those whose filter failed instead of answering."""
        if self._seam.grants and self._granted_by != self._seam.grant_version:
            self._grant_again()
        try:
            return self._engine.match(notification), []
        except Exception:  # a filter object's own: asked one by one, only its subscriber misses out
            matching, failures = [], []
            for identity, subscription in self._registry.by_id.items():
                try:
                    if not isinstance(subscription, Detection) and subscription.granted.matches(notification):
                        matching.append(identity)
                except Exception as error:
                    failures.append((subscription, error))
            return matching, failures

    def _failed_filters(self, standing: QuerySet) -> list[Failed]:
        return [
            ([(self._registry.by_id[id], each.error) for id in each.ids], each.notification)
            for each in standing.take_failures()
        ]


def _microseconds(accept_within: Timeout) -> int:
    """A time for accepting in microseconds; 0: there is none."""
    seconds = seconds_of(accept_within, "a time for accepting")
    return 0 if seconds is None else round(seconds * 1_000_000)


def _nobody() -> NobodyListens:
    return NobodyListens(
        "nobody listens: no subscription matches the request",
        hint="bus.respond(filter, answer) replies to requests",
    )


def _is_ordered(order: Order) -> bool:
    if order not in ("live", "ordered"):
        raise ValueError(f"the order is 'live' or 'ordered', not {order!r}")
    return order == "ordered"


def _time(key: OrderKey | None, default: int) -> int:
    return default if key is None else key.time


def _recorder(trace: str | os.PathLike[str] | Callable[[Event], object], schema: Schema | None) -> Recorder:
    from fairlead.audit.recorder import Recorder

    return Recorder(trace, schema)
