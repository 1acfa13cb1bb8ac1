"""A client: it multicasts events, and correlates what the roles of its conjunctions have put in order.

Each conjunction is fed with the order of its own role, and with nothing else, so what it delivers does not
depend on which other conjunctions stand beside it. Where a subscription has several roles, what they complete
is delivered in the order of the times that the roles gave (FAIDECS, Figure 7), and in that of the conjunctions
where one event completes several.

What differs from Figure 7, and why:

- It keeps the last time S for each type; the same event comes from two mergers with two times, so it is queued
  twice or, if it comes late, not at all. Here S is kept for each role.
- It inserts events by time and drops those that have the same time; and an event that no conjunction takes
  stays in R for ever. Here times are compared together with the role, and R holds relations that are complete:
  a conjunction is matched as its events come, and only the delivery waits until all other roles have come to
  its time.
- So a state can be copied to one who joins without waiting for other roles. Otherwise two clients that join
  with the same two conjunctions could wait for each other.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from fairlead.correlation.fair import Choice, Conjunction, Matcher, Relation, Snapshot, Subscription
from fairlead.errors import ValueRefused
from fairlead.model import Notification
from fairlead.model.order import identity_of
from fairlead_lab.broker.fair.directory import Directory, Ordering, Role
from fairlead_lab.broker.fair.merger import chosen
from fairlead_lab.broker.fair.messages import (
    Attach,
    Began,
    Content,
    Copied,
    Copy,
    Deliver,
    Down,
    Effect,
    Input,
    Interested,
    Item,
    Left,
    Message,
    Multicast,
    Received,
    Refuse,
    RoleMessage,
    Send,
    Started,
    Subscribe,
    Tick,
    Unsubscribe,
    Wake,
)
from fairlead_lab.broker.fair.node import INTERVAL_US

__all__ = ["Client", "Matching"]


class Matching(Protocol):
    """The protocol of what correlates for a conjunction: a `Matcher`, or what does the same."""

    def feed(self, notification: Notification, /) -> list[Relation]:
        """The relations that the next notification completes."""
        ...

    def snapshot(self) -> Snapshot:
        """The state between what was fed and what comes next."""
        ...


@dataclass(slots=True)
class _Fed:
    """A conjunction at work: it takes what stands after `at`."""

    matcher: Matching
    origin: int
    at: int


@dataclass(slots=True)
class _Stream:
    """The stream from one role."""

    role: Role
    conjunctions: dict[Conjunction, int]
    """Those that are fed by it, and which of the subscription's they are."""
    server: str | None = None
    """The replica that serves it."""
    got: int = 0
    acknowledged: int = 0
    stamp: int = -1
    """Up to this time everything has come; nothing, before it has begun."""
    has_begun: bool = False
    fed: dict[Conjunction, _Fed] = field(default_factory=dict)
    backlog: list[Item] = field(default_factory=list)
    """Items that wait for states that are still to come."""
    early: dict[int, Item] = field(default_factory=dict)
    """Items that have overtaken the one at a position, where different stations send."""

    @property
    def is_ready(self) -> bool:
        return self.has_begun and len(self.fed) == len(self.conjunctions)


class Client:
    """A state machine: `handle(message, now)` gives effects."""

    def __init__(
        self,
        name: str,
        directory: Directory,
        choice: Choice = Choice.FIRST_RECEIVED,
        *,
        interval_us: int = INTERVAL_US,
        matching: Callable[[Snapshot], Matching] = Matcher.restore,
    ) -> None:
        self.name = name
        self.directory = directory
        self.choice = choice
        self.interval_us = interval_us
        self._matching = matching
        self.subscription: Subscription | None = None
        self._streams: dict[Role, _Stream] = {}
        self._complete: list[tuple[int, Role, int, Relation]] = []
        """R: what is complete, and waits until no other role can have anything earlier."""
        self._dead: set[str] = set()
        self._due: int | None = None
        self._effects: list[Effect] = []

    @property
    def is_established(self) -> bool:
        """Whether nothing that is multicast from now on can be missed."""
        return bool(self._streams) and all(each.is_ready for each in self._streams.values())

    @property
    def is_waiting(self) -> bool:
        """Whether something is still to come: a beginning, a state, or the time to deliver what is complete."""
        return bool(self._complete) or not all(each.is_ready for each in self._streams.values())

    def handle(self, message: Message, now: int) -> list[Effect]:
        """Take one step, at a time by the caller's clock in microseconds."""
        self._effects = []
        match message:
            case Item():
                self._item(message)
            case Multicast(event=event):
                self._multicast(event)
            case Subscribe(subscription=subscription):
                self._subscribe(subscription)
            case Unsubscribe():
                self._unsubscribe()
            case Down(process=process):
                self._down(process)
            case Tick():
                self._acknowledge(now)
            case _:
                raise AssertionError(f"not for a client: {message}")
        if self._is_acknowledging and self._due is None:
            self._due = now + self.interval_us
            self._effects.append(Wake(self._due))
        return self._effects

    # -- calls ---------------------------------------------------------------------------------------------

    def _multicast(self, event: Notification) -> None:
        try:
            role, identity = self.directory.entry(event), identity_of(event)
        except ValueRefused as refused:
            self._effects.append(Refuse(str(refused)))
            return
        self._input(Input(role, ("event", *identity), event))

    def _subscribe(self, subscription: Subscription) -> None:
        if self.subscription is not None:
            self._effects.append(Refuse("a process subscribes once; several conjunctions are a disjunction"))
            return
        self.subscription = subscription
        for number, conjunction in enumerate(subscription.conjunctions):
            role = self.directory.serving(conjunction)
            self._streams.setdefault(role, _Stream(role, {})).conjunctions[conjunction] = number
        for stream in self._streams.values():
            self._attach(stream)
            asked = Interested(
                self.name, tuple(stream.conjunctions), self.choice, timed=len(self._streams) > 1
            )
            self._input(Input(stream.role, ("sub", self.name), asked))

    def _unsubscribe(self) -> None:
        for role in self._streams:
            self._input(Input(role, ("unsub", self.name), Left(self.name)))
        self._streams = {}
        self._complete = []

    def _input(self, message: Input) -> None:
        for member in self.directory.members(message.role):
            self._send(member, message)

    def _send(self, to: str, message: RoleMessage) -> None:
        self._effects.append(Send(to, message))

    # -- who serves ----------------------------------------------------------------------------------------

    def _attach(self, stream: _Stream) -> None:
        if self._is_token:  # All stations send to all clients.
            return
        members = self.directory.members(stream.role)
        stream.server = chosen(self.name, [each for each in members if each not in self._dead])
        if stream.server is not None:
            self._send(stream.server, Attach(stream.role, self.name, self.name, stream.got))

    def _down(self, process: str) -> None:
        self._dead.add(process)
        for stream in self._streams.values():
            if stream.server == process:
                self._attach(stream)

    def _acknowledge(self, now: int) -> None:
        if self._due is None or now < self._due:
            return
        self._due = None
        for stream in self._streams.values():
            if stream.got > stream.acknowledged and stream.server is not None:
                stream.acknowledged = stream.got
                self._send(stream.server, Received(stream.role, self.name, self.name, stream.got))

    @property
    def _is_acknowledging(self) -> bool:
        """Whether something that has come is kept elsewhere until that is said."""
        return (
            self.directory.replicas > 1
            and not self._is_token
            and any(each.got > each.acknowledged for each in self._streams.values())
        )

    @property
    def _is_token(self) -> bool:
        return self.directory.ordering is Ordering.TOKEN

    # -- what comes ----------------------------------------------------------------------------------------

    def _item(self, item: Item) -> None:
        stream = self._streams.get(item.role)
        if stream is None or item.position <= stream.got:
            return  # left already, or sent again by another replica after a crash
        if self._is_token:
            stream.early[item.after] = item
            while (following := stream.early.pop(stream.got, None)) is not None:
                self._next(stream, following)
        else:
            self._next(stream, item)
        self._deliver()

    def _next(self, stream: _Stream, item: Item) -> None:
        stream.got = item.position
        for content in item.contents:
            match content:
                case Began(fresh=fresh):
                    stream.has_begun = True
                    for conjunction in fresh:
                        state = Snapshot.initial(Subscription.of([conjunction]), self.choice)
                        self._start(stream, state, item.position, item.position)
                case Copied(state=state, origin=origin, at=at):
                    self._start(stream, state, origin, at)
        stream.backlog.append(item)
        if stream.is_ready:
            for each in stream.backlog:
                for content in each.contents:
                    self._take(stream, each, content)
                stream.stamp = each.stamp
            stream.backlog.clear()

    def _start(self, stream: _Stream, state: Snapshot, origin: int, at: int) -> None:
        [conjunction] = state.subscription.conjunctions
        stream.fed[conjunction] = _Fed(self._matching(state), origin, at)
        self._effects.append(Started(stream.role, conjunction, origin, at))

    def _take(self, stream: _Stream, item: Item, content: Content) -> None:
        match content:
            case Notification():
                for conjunction, fed in stream.fed.items():
                    if item.position > fed.at:
                        number = stream.conjunctions[conjunction]
                        for relation in fed.matcher.feed(content):
                            insort(
                                self._complete,
                                (item.stamp, stream.role, number, relation),
                                key=lambda each: each[:3],
                            )
            case Copy(conjunction=conjunction, client=client):
                fed = stream.fed[conjunction]
                copied = Copied(self.name, client, fed.matcher.snapshot(), fed.origin, item.position)
                self._input(Input(stream.role, ("state", client, str(conjunction), item.position), copied))

    def _deliver(self) -> None:
        """Deliver what no role can have anything earlier than."""
        if self._complete:
            reached = min(stream.stamp for stream in self._streams.values())
            ready = 0
            while ready < len(self._complete) and self._complete[ready][0] <= reached:
                ready += 1
            self._effects += [Deliver(each[3]) for each in self._complete[:ready]]
            del self._complete[:ready]
