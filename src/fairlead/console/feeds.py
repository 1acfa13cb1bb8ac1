"""The subscription of one stream, and its events: the same for server-sent events and for WebSockets.

A stream follows the broker's log by default, so every event has an offset, and a client that reconnects with the
last offset it received continues after it; a slow reader continues from its offset, and nothing is dropped.
Other brokers forward only what is subscribed to: so a client that was away from a broker with neighbours, and is
no durable subscriber, receives a `gap` event. With a `policy` the stream is best effort instead: its queue is
bounded, and the policy applies beyond that.

An offset is valid in its own log only, so it is sent with the log's name: `17-5f0c9a41`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from fairlead import dialects
from fairlead.channels import quality_of
from fairlead.conditions import Condition, Passing
from fairlead.conditions import parse as parse_condition
from fairlead.console.answers import RetainedParameters, StreamParameters
from fairlead.console.cloudevents import text_of
from fairlead.console.desk import Arrival, Desk, Gapped
from fairlead.console.problems import Problem
from fairlead.delivery.assigning import NEUTRAL, Terms
from fairlead.errors import AccessRefused, BrokerRefused, ConnectionEnded, FairleadError, ValueRefused
from fairlead.filters.language import parse, render
from fairlead.model import Instant
from fairlead.model.packed import unpack
from fairlead.network import wire
from fairlead.network.arguments import lease_of, terms_of
from fairlead.network.destinations import Durable
from fairlead.network.server import Server
from fairlead.network.settings import POLICIES

__all__ = ["CHUNK_BYTES", "ControlEvent", "Event", "Feed", "Wanted", "offset_in", "retained_filter"]

CHUNK_BYTES: Final = 1 << 16
"""The number of bytes sent at a time."""
INSTALL_S: Final = 5.0
"""The time that brokers that are away are waited for."""
SUBSCRIPTION: Final = "http"
PARAMETERS: Final = tuple(StreamParameters.__annotations__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parameters of a stream."""

    filter: str
    durable: str = ""
    since: int | None = None
    after: str = ""
    """The id of the last event that the client has seen."""
    policy: str = ""
    terms: Terms = NEUTRAL
    """On which terms a durable subscriber accepts."""
    retained: bool = True
    """Whether the values come first that channels retain."""
    lease_us: int = 0
    """For how long it is kept while nobody is there, in microseconds; 0: until it is ended."""
    on: Condition | None = None
    """The condition beside the filter."""
    want: str = ""
    """The quality of service that is required."""

    @classmethod
    def of(cls, query: Sequence[tuple[str, str]], last_event_id: str = "") -> Wanted:
        """The parameters of a query; Problem for an invalid one."""
        given = dict(query)
        for name, _ in query:
            if name not in PARAMETERS:
                raise Problem(400, f"no parameter {name!r}; there are {', '.join(PARAMETERS)}")
        if len(given) < len(query):
            raise Problem(
                400, "a parameter is given twice; to match either of two things, write one or the other"
            )
        if "filter" not in given:
            raise Problem(400, "a filter is needed; 'true' matches everything")
        try:
            filter = str(dialects.read(given.get("dialect", dialects.OWN), given["filter"]))
            since = _microseconds(given["since"]) if "since" in given else None
            terms = _terms(given)
            lease = lease_of(given.get("durable", ""), given.get("lease"))
            on = parse_condition(given["on"]) if "on" in given else None
            want = str(quality_of(given.get("want", "")))
        except FairleadError as error:
            raise Problem.of(400, error) from None
        policy, durable = given.get("policy", ""), given.get("durable", "")
        if "durable" in given and not durable.strip():
            raise Problem(400, "the name of a durable subscriber is not empty")
        if policy and policy not in POLICIES:
            raise Problem(400, f"no policy {policy!r}; there are {', '.join(POLICIES)}")
        if on is not None and terms.is_shared:
            raise Problem(400, "a member of a shared subscriber gets a part, which no condition is about")
        after = last_event_id or given.get("after", "")
        if policy and (durable or since is not None or after):
            raise Problem(
                400, "a policy is for best effort: leave out durable, since and after, or leave it out"
            )
        retained = given.get("retained", "send")
        if retained not in ("send", "no"):
            raise Problem(400, f"retained is 'send' or 'no', not {retained!r:.40}")
        is_new = since is None and not after and not terms.is_shared
        return cls(
            filter, durable, since, after, policy, terms, retained == "send" and is_new, lease, on, want
        )


def retained_filter(query: Sequence[tuple[str, str]]) -> str:
    """The filter of a question about retained values; Problem for an invalid one."""
    for name, _ in query:
        if name not in RetainedParameters.__annotations__:
            raise Problem(400, f"no parameter {name!r}; there are filter and dialect")
    return Wanted.of(query).filter


def _terms(given: Mapping[str, str]) -> Terms:
    """The terms in the parameters of a stream."""
    if given.get("shared", "1") != "1":
        raise ValueRefused("shared is 1, or is left out")
    attempts = given.get("attempts_max", "0")
    if not re.fullmatch(r"\d{1,9}", attempts):
        raise ValueRefused(f"attempts_max is a number, not {attempts!r:.40}")
    return terms_of(
        given.get("durable", ""),
        shared="shared" in given,
        per=given.get("per", ""),
        window=0,
        attempts_max=int(attempts),
        accept_within=given.get("accept_within"),
    )


def _microseconds(text: str) -> int:
    return int(text) if re.fullmatch(r"\d{1,18}", text) else Instant.parse(text).microseconds


@dataclass(frozen=True, slots=True)
class Event:
    """A CloudEvent to send, as JSON; `id` is empty and the offset 0 where it is in no log."""

    id: str
    offset: int
    text: str
    attempt: int = 1
    retained: bool = False
    """Whether it was published before the stream began, and retained by a channel."""


@dataclass(frozen=True, slots=True)
class ControlEvent:
    """A control event: `dropped`, `gap` or `bye`."""

    what: str
    content: dict[str, Any]


Outgoing: TypeAlias = Event | ControlEvent


class Feed:
    """One stream of a desk."""

    def __init__(self, server: Server, desk: Desk, wanted: Wanted) -> None:
        self._node, self._desk, self._wanted = server.node, desk, wanted
        self._ledger = server.node.ledger
        self._follows_log = bool(wanted.durable or wanted.since is not None) or (
            self._ledger is not None and not wanted.policy
        )
        session = desk.session.name
        self._name = wanted.durable or f"c:{session}#{SUBSCRIPTION}"
        """The name of this stream's cursor."""
        self._passing = None if wanted.on is None else Passing(wanted.on)
        self._gap: ControlEvent | None = None
        self.is_installed = False
        """Whether every broker that has to know of it does."""

    @property
    def is_durable(self) -> bool:
        """Whether the broker stores what was accepted."""
        return bool(self._wanted.durable)

    async def open(self) -> None:
        """Return when the subscription is in effect; Problem if the broker does not take it.

        It is in effect at this broker at once. Those that are away are waited for, but not for long.
        """
        wanted = self._wanted
        since = wanted.since
        if self._follows_log and not wanted.durable and (since is None or wanted.after):
            since = 0  # the whole log; the offset is set below
        # As for clients of the network: the same durable subscriber, over any protocol.
        id = f"{wanted.durable}:{render(parse(wanted.filter))}" if wanted.durable else SUBSCRIPTION
        answer = self._desk.begin(
            lambda number: wire.Subscribe(
                number,
                id,
                wanted.filter,
                wanted.durable,
                since,
                wanted.terms.is_shared,
                wanted.terms.per,
                wanted.terms.window,
                wanted.terms.attempts_max,
                wanted.terms.accept_within_us,
                retained=wanted.retained,
                lease=wanted.lease_us,
                want=wanted.want,
                history=wanted.since is not None and not wanted.after,
            )
        )
        # Nothing is sent before the log has been synced, so until then the offset can be set.
        self._seek()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INSTALL_S):
                    await asyncio.shield(answer)
            self.is_installed = answer.done()
        except BrokerRefused as error:
            raise Problem.of(403 if isinstance(error, AccessRefused) else 409, error) from None
        except ConnectionEnded as error:
            raise Problem.of(503, error) from None

    def _seek(self) -> None:
        outbox = self._desk.durable(self._name) if self._follows_log else None
        if outbox is None or self._ledger is None:
            return
        wanted, log = self._wanted, self._ledger.log
        if wanted.after:
            offset = offset_in(wanted.after, self._ledger.identity)
            if offset is None:
                self._report_gap("that is no offset in this broker's log")
            else:
                self._check_gap(offset, outbox)
                # Accepted events are sent again if the client resumes before them.
                outbox.seek(min(max(offset, log.first), log.end))
                return
        if not wanted.durable and (wanted.since is None or wanted.after):
            outbox.seek(log.end)

    def _check_gap(self, offset: int, outbox: Durable) -> None:
        """Report a gap between this offset and now."""
        node, ledger = self._node, self._ledger
        assert ledger is not None
        since = min((since for _, since in outbox.subscriptions.values()), default=0)
        if offset < ledger.log.first:
            self._report_gap(f"the log begins with the offset {ledger.log.first + 1} now")
        elif self.is_durable and offset < since:
            self._report_gap(f"{outbox.name} is a durable subscriber since the offset {since + 1}")
        elif not self.is_durable and (node.links or offset < ledger.parted):
            self._report_gap("notifications of other brokers came here only for subscriptions of that time")

    def _report_gap(self, reason: str) -> None:
        self._gap = ControlEvent("gap", {"after": self._wanted.after, "reason": reason})

    async def next(self) -> list[Outgoing]:
        """The items to send next, at least one. ConnectionEnded when none will follow."""
        if self._gap is not None:
            gap, self._gap = self._gap, None
            return [gap]
        while True:
            arrived = await self._desk.arrivals(CHUNK_BYTES)
            passed = [each for each in arrived if self._passes(each)]
            if passed:
                return [self._outgoing(each) for each in passed]

    def _passes(self, arrived: Any) -> bool:
        """Whether the condition lets an arrival pass; one that it does not is dealt with."""
        if self._passing is None or not isinstance(arrived, Arrival):
            return True
        if self._passing.passes(unpack(arrived.packed), arrived.offset):
            return True
        self.accept([arrived.offset])
        return False

    def _outgoing(self, arrived: Any) -> Outgoing:
        if isinstance(arrived, Gapped):
            return ControlEvent(
                "gap", {"since": str(Instant(self._wanted.since or 0)), "reason": ", ".join(arrived.reasons)}
            )
        if not isinstance(arrived, Arrival):
            return ControlEvent("dropped", {"dropped": arrived.count})
        id = ""
        if arrived.offset and self._ledger is not None:
            id = f"{arrived.offset}-{self._ledger.identity[:8]}"
        return Event(id, arrived.offset, text_of(unpack(arrived.packed)), arrived.attempt, arrived.retained)

    def accept(self, offsets: Iterable[int]) -> None:
        """These are dealt with."""
        found = [offset for offset in offsets if offset]
        if found:
            if self._passing is not None:
                for offset in found:
                    self._passing.settled(offset)
            self._desk.send(wire.Accept(self._name, found))

    def reject(self, offset: int, *, again: bool, after_us: int = 0, reason: str = "") -> None:
        """Reject a delivery: it is delivered again, not before a delay, or discarded."""
        if self._passing is not None and not again:
            self._passing.settled(offset)
        self._desk.send(wire.Reject(self._name, offset, again, after_us, reason))

    def renew(self, offset: int) -> None:
        """A client is still at work on a delivery."""
        self._desk.send(wire.Renew(self._name, offset))

    def offset_of(self, id: str) -> int | None:
        """The offset of an event that was sent."""
        return None if self._ledger is None else offset_in(id, self._ledger.identity)


_ID: Final = re.compile(r"(\d{1,18})-([0-9a-f]{8})")


def offset_in(id: str, log: str) -> int | None:
    """The offset in an event's id; None if it is of another log."""
    found = _ID.fullmatch(id)
    return int(found[1]) if found is not None and log.startswith(found[2]) else None
