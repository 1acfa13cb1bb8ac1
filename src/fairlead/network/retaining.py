"""The values that channels retain, at the broker where they were published, and how later subscribers get them.

    Law
    After the acknowledgement of a subscription, for each key with a retained value that matches its filter, the
    subscriber has got the last one that was published before it asked, or a later one; never an older one after a
    newer one, and none twice.

A broker retains what was published at it. A subscription's barrier carries the filter to all brokers (`recall`).
Each answers with the values that match, before it answers the barrier: what was published before the barrier
came is among them, and what is published after it is on its way to the subscriber, since the subscription came
before the barrier. A value goes back where the notification itself would go now: that is the seam's answer at
each broker, so that who must not see it does not.

A key may have values at several brokers, and the newest one need not match the filter. So a second barrier asks
for the ranks of all that is known of the keys that were found; what is not among the last ones there is left
out. What the subscriber is handed meanwhile is noted, so that nothing older follows it; and what was on its way
when a broker answered, and comes when the subscriber has been handed its values, is not handed out: positions
tell (`pass_on`).

The table outlives the process: it is gathered into the log with the state (`Keeping`, `Retained`), and what was
published after that is read in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from fairlead.broker import Broker
from fairlead.channels import RetainedKey, RetainedValue, RetainedValues
from fairlead.channels.retained import Rank, retained_key
from fairlead.errors import FairleadError
from fairlead.filters.filter import NOTHING, Filter
from fairlead.filters.language import render
from fairlead.log.records import PUBLICATION, Stamp
from fairlead.model import Notification
from fairlead.model.order import Identity
from fairlead.model.packed import identity_in, unpack
from fairlead.network import ledger as changes
from fairlead.network import wire
from fairlead.network.barriers import BarrierKey, Barriers
from fairlead.network.client_sessions import ClientSession
from fairlead.network.destinations import Durable, Link, Recipient
from fairlead.network.dispatch import Dispatch
from fairlead.network.interests import Interests
from fairlead.network.once import Once
from fairlead.network.persistence import Persistence
from fairlead.network.router import Fanout, Router
from fairlead.network.sessions import Counters, Session

__all__ = ["Recall", "Retaining"]

AT_ONCE: Final = 256
"""The number of values looked at in one turn, for each recall."""
VALUES_AT_ONCE: Final = 256
"""The number of values in one message."""
KEYS_AT_ONCE: Final = 2_000
"""The number of keys that one barrier asks about."""


class _Value(NamedTuple):
    """A notification that was published here, and its position; 0: it is in no log."""

    packed: bytes
    position: int


class _Candidate(NamedTuple):
    """A value that matches a subscription."""

    packed: bytes
    key: RetainedKey
    rank: Rank
    stamp: Stamp
    source: str
    """The neighbour that it came from; empty: it is retained here."""


class _Job(NamedTuple):
    """Steps that are taken in turns, while there is room in a connection, if they need one."""

    session: Callable[[], Session | None]
    steps: Iterator[None]
    at_once: int = AT_ONCE


class Recall:
    """The values that one new subscription gets of those that are retained at all brokers."""

    def __init__(
        self,
        retaining: Retaining,
        target: ClientSession | Durable,
        id: str,
        text: str,
        before: frozenset[str],
        *,
        patient: bool,
    ) -> None:
        self._retaining, self._text = retaining, text
        self.target, self.id, self.patient = target, id, patient
        self.before = before
        """The subscriptions of this client that have brought it what they match."""
        self.is_incomplete = False
        """Whether some broker has not answered."""
        self.values: dict[Identity, _Candidate] = {}
        self.ranks: dict[RetainedKey, dict[Identity, tuple[Rank, bool]]] = {}
        """The ranks of all that brokers know of the keys of these values."""
        self.covered: dict[str, int] = {}
        """By broker, the position up to which all that it retains is among what was found."""
        self.is_handing_out = False
        self._handed: set[Identity] = set()
        """The identities of what the subscriber has been handed since it asked, or will be,"""
        self._newest: dict[RetainedKey, Rank] = {}
        """by key the rank of the newest of these,"""
        self._positions: dict[tuple[RetainedKey, str], int] = {}
        """and by key and broker the last position."""

    # -- for the barriers --

    ends: dict[str, int] | None = None

    def barrier(self, key: BarrierKey) -> wire.Barrier:
        """The barrier that gathers the values."""
        self._retaining.open[key] = self
        return wire.Barrier(*key, self.patient, recall=self._text)

    def gathered(self, then: Callable[[], None]) -> None:
        """The values have come: those that are the last ones of their keys go out, and then the answer."""
        self._retaining.gathered(self, then)

    # -- what comes --

    def lets_pass(self, packed: bytes, stamp: Stamp) -> bool:
        """Whether the subscriber is handed a notification that comes now; if so, that is noted."""
        last = self.covered.get(stamp.origin, 0) if self.is_handing_out else 0
        if not last and self.is_handing_out:
            return True
        notification = unpack(packed)
        key = self._retaining.key_of(notification)
        if self.is_handing_out:
            if stamp.position > last:
                del self.covered[stamp.origin]
                return True
            # It was on its way when the broker answered: what it retained of the key then has been handed out.
            return key is None or not stamp.position
        self._handed.add(Identity(*identity_in(packed)))
        if key is not None:
            self._newest[key] = max(_rank(notification), self._newest.get(key, (0, "")))
            at = key, stamp.origin
            self._positions[at] = max(stamp.position, self._positions.get(at, 0))
        return True

    def add(self, packed: bytes, time: int, stamp: Stamp, source: str) -> None:
        """A broker retains this."""
        notification = unpack(packed)
        key = self._retaining.key_of(notification)
        if key is not None and notification.id is not None:
            identity = Identity(notification.producer, notification.id)
            self.values.setdefault(
                identity, _Candidate(packed, key, (time, notification.producer), stamp, source)
            )

    def is_overtaken(self, identity: Identity, value: _Candidate) -> bool:
        """Whether the subscriber has it, or something newer."""
        if identity in self._handed:
            return True
        handed = self._positions.get((value.key, value.stamp.origin))
        if handed and value.stamp.position:
            return value.stamp.position < handed
        return value.rank < self._newest.get(value.key, (0, ""))

    @property
    def last(self) -> list[tuple[Identity, _Candidate]]:
        """The values that are the last ones of their keys, in the order of the newest ones of the keys."""
        by_key: dict[RetainedKey, list[tuple[Identity, _Candidate]]] = {}
        for identity, value in self.values.items():
            by_key.setdefault(value.key, []).append((identity, value))
        last = [self._last_of(key, values) for key, values in by_key.items()]
        return [each for values in sorted(filter(None, last), key=_newest) for each in values]

    def _last_of(
        self, key: RetainedKey, values: list[tuple[Identity, _Candidate]]
    ) -> list[tuple[Identity, _Candidate]]:
        values = sorted(values, key=lambda each: each[1].rank)
        if key not in self.ranks:
            return values
        known = sorted(self.ranks[key].items(), key=lambda each: each[1][0])
        ends = [at for at, (_, (_, is_end)) in enumerate(known) if is_end]
        last = known[ends[-1] + 1 if ends else 0 :][-self._retaining.count_of(key) :]
        identities = {identity for identity, _ in last}
        return [each for each in values if each[0] in identities]


class Retaining:
    """The retained values of one broker, and the recalls that come by or began here."""

    def __init__(
        self,
        broker: Broker,
        router: Router,
        barriers: Barriers,
        interests: Interests,
        persistence: Persistence,
        *,
        links: dict[str, Link],
        once: Once,
        counters: Counters,
        dispatch: Dispatch,
        passes: Callable[[bytes], bool] | None,
    ) -> None:
        self._dispatch, self._passes = dispatch, passes
        self._name, self._seam = broker.name, broker.seam
        self._broker, self._router, self._barriers, self._interests = broker, router, barriers, interests
        self._persistence, self._links, self._counters = persistence, links, counters
        self._channels = broker.seam.channels
        self.values = RetainedValues[_Value](self._channels)
        self.open: dict[BarrierKey, Recall] = {}
        """The recalls that began here, by the barrier that gathers for them now."""
        self._noting: dict[str, list[Recall]] = {}
        """By client, those that look at what is handed out."""
        self._pending: dict[tuple[str, str], Recall] = {}
        """By client and subscription, the recalls that have not ended."""
        self._without: dict[str, set[str]] = {}
        """By client, subscriptions that got no retained values."""
        self._jobs: list[_Job] = []
        barriers.recalled, barriers.disclosed = self.recalled, self.disclosed
        self._before = once.pass_on
        """Looks at what is handed out before this does."""
        if self.is_on:
            once.pass_on = self.pass_on
            dispatch.retain = self.take

    @property
    def is_on(self) -> bool:
        """Whether some channel retains values."""
        return self._channels.retain

    # -- what is retained --------------------------------------------------------------------------------------

    def take(self, packed: bytes, offset: int) -> None:
        """Retain what a client has published here, if a channel says so. It is as safe as it will be."""
        self.values.take(unpack(packed), _Value(packed, offset + 1))

    def key_of(self, notification: Notification) -> RetainedKey | None:
        """The key of a notification, if it is in a channel that retains values."""
        channel = self._seam.channel(notification)
        return None if channel is None or channel.retain is None else retained_key(channel, notification)

    def count_of(self, key: RetainedKey) -> int:
        """The number of values of a key that are retained."""
        return next(each.retain.count for each in self._channels if each.name == key[0] and each.retain)

    def recall_state(self) -> None:
        """Begin with what the log has."""
        ledger = self._persistence.ledger
        if ledger is None:
            return
        if not self.is_on:
            self._persistence.remove_cursor(changes.RETAINED_CURSOR)
            return
        state, begin = ledger.state, ledger.log.first
        if state.keeping is not None and state.keeping.channels == self._channels.fingerprint:
            begin = max(begin, state.keeping.reached)
            for some in state.retained:
                for channel, key, time, by, producer, packed, position, is_end in some.values:
                    value = _Value(packed, position)
                    self.values.restore(RetainedValue((channel, key), (time, by), producer, value, is_end))
        state.retained = []
        ledger.log.cursors.setdefault(changes.RETAINED_CURSOR, begin)
        with ledger.reader(begin, PUBLICATION, synced=False) as reader:
            for record in reader:
                self.take(record.payload, record.offset)
        ledger.retained = self._changes

    def _changes(self) -> list[changes.Change]:
        """The values, as changes of the state. All that has been sent on is among them."""
        rows = [
            (*each.key, *each.rank, each.producer, *each.content, each.is_end)
            for each in (*self.values.ended(), *self.values)
        ]
        some = [rows[at : at + VALUES_AT_ONCE] for at in range(0, len(rows), VALUES_AT_ONCE)]
        head = changes.Keeping(self._channels.fingerprint, self._dispatch.reached)
        return [head, *map(changes.Retained, some)]

    # -- a subscription begins ---------------------------------------------------------------------------------

    def begin(
        self,
        target: ClientSession | Durable,
        id: str,
        text: str,
        *,
        wanted: bool,
        is_new: bool = True,
        patient: bool = False,
    ) -> Recall | None:
        """The recall for a subscription that begins now; None: it gets nothing that is retained.

        A durable subscription that is not new goes on, unless its recall has not ended.
        """
        client = target.client
        known = self._pending.pop((client, id), None)
        if known is not None:
            self._forget(known)
        if not self.is_on or (known is None and not is_new):
            return None
        without = self._without.setdefault(client, set())
        if not wanted:
            without.add(id)
            return None
        without.discard(id)
        declared = self._broker.clients[client].subscriptions.by_id if client in self._broker.clients else {}
        recall = Recall(self, target, id, text, frozenset(declared) - {id} - without, patient=patient)
        self._pending[client, id] = recall
        self._noting.setdefault(client, []).append(recall)
        return recall

    def end(self, client: str, id: str = "") -> None:
        """A subscription of a client has ended; without an id, all of them."""
        if not self.is_on:
            return
        if id:
            self._without.get(client, set()).discard(id)
        else:
            self._without.pop(client, None)
        for at in [at for at in self._pending if at[0] == client and id in ("", at[1])]:
            del self._pending[at]
        for recall in [each for each in self._noting.get(client, ()) if id in ("", each.id)]:
            self._forget(recall)

    def _forget(self, recall: Recall) -> None:
        """It need not look at what is handed out any longer."""
        client = recall.target.client
        left = [each for each in self._noting.get(client, ()) if each is not recall]
        if left:
            self._noting[client] = left
        else:
            self._noting.pop(client, None)

    def pass_on(self, fanout: Fanout, packed: bytes, stamp: Stamp | None) -> Fanout:
        """The fan-out of a notification that is handed out, without those subscriptions that a recall has handed
        it, or something newer. The stamp says where it was published; None: here, and it is in no log."""
        if self._before is not None:
            fanout = self._before(fanout, packed, stamp)
        if not self._noting:
            return fanout
        stamp = Stamp(self._name, 0) if stamp is None else stamp
        recipients = [self._left(each, packed, stamp) for each in fanout.recipients]
        if all(new is old for new, old in zip(recipients, fanout.recipients, strict=True)):
            return fanout
        return Fanout(fanout.links, tuple(each for each in recipients if each is not None))

    def _left(self, recipient: Recipient, packed: bytes, stamp: Stamp) -> Recipient | None:
        recalls = self._noting.get(recipient.target.client)
        if not recalls:
            return recipient
        ids = set(recipient.subscriptions)
        for recall in [each for each in recalls if each.id in ids]:
            if not recall.lets_pass(packed, stamp):
                ids.discard(recall.id)
            elif recall.is_handing_out and not recall.covered:
                self._forget(recall)
        if len(ids) == len(recipient.subscriptions):
            return recipient
        if not ids:
            return None
        left = tuple(id for id in recipient.subscriptions if id in ids)
        return Recipient(recipient.target, left, recipient.content, recipient.part, recipient.hidden)

    # -- barriers ----------------------------------------------------------------------------------------------

    def disclosed(self, barrier: wire.Barrier, neighbour: str) -> wire.Barrier:
        """A barrier as a neighbour is told it: of the filter, what it may know. The keys of values are hashes of
        what is in them: of these, one that may not know everything is told none."""
        if self._seam.discloses_all(neighbour):
            return barrier
        text = ""
        if barrier.recall:
            with suppress(FairleadError):
                part = self._seam.disclose(neighbour, self._interests.filter(barrier.recall))
                text = "" if part == NOTHING else render(part)
        return msgspec.structs.replace(barrier, recall=text, keys=[])

    def recalled(self, barrier: wire.Barrier, source: str) -> bool:
        """A barrier recalls what is retained; whether it has to wait until this broker has answered."""
        if barrier.keys:
            self._tell_ranks(barrier, source)
        if not barrier.recall or not len(self.values):
            return False
        try:
            filter = self._interests.filter(barrier.recall)
        except FairleadError:
            return False  # a subscription to it was refused, too
        link = self._links.get(source)
        steps = self._answer(barrier, link, filter)
        self._jobs.append(_Job(lambda: None if link is None else link.session, steps))
        return True

    def _answer(self, barrier: wire.Barrier, link: Link | None, filter: Filter) -> Iterator[None]:
        """Answer with the values that match, and that would go this way now if they were published."""
        key, reached = (barrier.origin, barrier.number), self._dispatch.reached
        values: list[tuple[bytes, int, int]] = []
        for each in [*self.values]:
            yield
            packed, position = each.content
            if filter.matches(unpack(packed)) and (link is None or link in self._router.of(packed, "").links):
                values.append((packed, each.rank[0], position))
            if len(values) >= VALUES_AT_ONCE:
                self._tell(link, wire.Recalled(*key, self._name, reached, values))
                values = []
        self._tell(link, wire.Recalled(*key, self._name, reached, values))
        self._barriers.answered(key, self._name, {})

    def _tell_ranks(self, barrier: wire.Barrier, source: str) -> None:
        """Answer with the ranks of what is known of some keys."""
        ranks = [
            (
                *key,
                [
                    (each.rank[0], each.rank[1], identity_in(each.content.packed)[1], each.is_end)
                    for each in self.values.of(key)
                ],
            )
            for key in map(_key, barrier.keys)
        ]
        told = [each for each in ranks if each[2]]
        if told:
            link = self._links.get(source) if source else None
            self._tell(link, wire.Recalled(barrier.origin, barrier.number, ranks=told))

    def _tell(self, link: Link | None, message: wire.Recalled) -> None:
        """Send it back to where the barrier came from; without a link, it began here."""
        if link is None:
            self.arrived("", message)
        elif link.session is not None:
            link.session.tell(message)

    def arrived(self, name: str, message: wire.Recalled) -> None:
        """A neighbour has told what is retained behind it, or this broker itself."""
        key = message.origin, message.number
        recall = self.open.get(key)
        if recall is not None:
            for packed, time, position in message.values:
                recall.add(packed, time, Stamp(message.broker, position), name)
            for channel, digest, ranks in message.ranks:
                known = recall.ranks.setdefault((channel, digest), {})
                for time, producer, id, is_end in ranks:
                    known.setdefault(Identity(producer, id), ((time, producer), is_end))
            if name and message.reached:
                recall.covered[message.broker] = message.reached
            return
        for source in self._barriers.sources(key):
            link = self._links.get(source)
            if link is not None and source != name:
                values = [each for each in message.values if link in self._router.of(each[0], name).links]
                self._tell(link, msgspec.structs.replace(message, values=values))

    # -- what a subscriber gets --------------------------------------------------------------------------------

    def gathered(self, recall: Recall, then: Callable[[], None]) -> None:
        """The values for a subscription have come: ask about their keys, then hand out the last ones."""
        key = next((key for key, each in self.open.items() if each is recall), None)
        if key is not None:
            del self.open[key]
            recall.is_incomplete |= self._barriers.take_away(key)
        keys = list(dict.fromkeys(each.key for each in recall.values.values())) if self._links else []
        self._ask(recall, keys, then)

    def _ask(self, recall: Recall, keys: list[RetainedKey], then: Callable[[], None]) -> None:
        """Ask all brokers about these keys, some at once; when there are none left, hand out."""
        some, rest = keys[:KEYS_AT_ONCE], keys[KEYS_AT_ONCE:]
        if not some:
            steps = self._hand_out(recall, then)
            self._jobs.append(_Job(lambda: _session_of(recall.target), steps))
            return
        key = self._barriers.next_key()
        self.open[key] = recall

        def answered() -> None:
            del self.open[key]
            recall.is_incomplete |= self._barriers.take_away(key)
            self._ask(recall, rest, then)

        self._barriers.begin(wire.Barrier(*key, recall.patient, keys=list(some)), "", answered)

    def _hand_out(self, recall: Recall, then: Callable[[], None]) -> Iterator[None]:
        target = recall.target
        recall.is_handing_out = True
        for identity, found in recall.last:
            yield
            session = _session_of(target)
            if session is None or self._pending.get((target.client, recall.id)) is not recall:
                break  # it has gone, or asks again
            if recall.is_overtaken(identity, found) or not (
                self._passes is None or self._passes(found.packed)
            ):
                continue
            for recipient in self._router.of(found.packed, found.source).recipients:
                ids = recipient.subscriptions
                if recipient.target is target and recall.id in ids and recall.before.isdisjoint(ids):
                    head = wire.deliver_retained(recall.id, recipient.part)
                    session.send(wire.deliver(0, head, recipient.shown(found.packed)))
                    self._counters.delivered += 1
        if not recall.covered:
            self._forget(recall)
        if self._pending.get((target.client, recall.id)) is recall:
            del self._pending[target.client, recall.id]
        if recall.is_incomplete and isinstance(target, ClientSession) and not target.ended:
            target.missed(1)
        then()

    # -- turns -------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether there is something to do now."""
        return any(map(_may, self._jobs))

    def work(self, session: Callable[[], Session | None], steps: Iterator[None], at_once: int) -> None:
        """Take these steps, too, so many in one turn, while there is room in a connection."""
        self._jobs.append(_Job(session, steps, at_once))

    def go_on(self) -> None:
        """Take some steps of each recall that has room."""
        for job in [*self._jobs]:
            if _may(job) and not _advance(job.steps, job.at_once):
                self._jobs.remove(job)


def _advance(steps: Iterator[None], at_once: int) -> bool:
    """Take some steps; whether there are more."""
    for _ in range(at_once):
        try:
            next(steps)
        except StopIteration:
            return False
    return True


def _may(job: _Job) -> bool:
    session = job.session()
    return session is None or not session.is_full


def _session_of(target: ClientSession | Durable) -> ClientSession | None:
    if isinstance(target, ClientSession):
        return None if target.ended else target
    return target.session


def _rank(notification: Notification) -> Rank:
    time = notification.time
    return (0 if time is None else time.microseconds), notification.producer


def _newest(values: list[tuple[Identity, _Candidate]]) -> Rank:
    return values[-1][1].rank


def _key(given: Iterable[object]) -> RetainedKey:
    channel, digest = given
    assert isinstance(channel, str)
    assert isinstance(digest, bytes)
    return channel, digest
