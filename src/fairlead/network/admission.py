"""A client's publication is admitted once, in its order, or refused with a reason.

Every publication passes the seam of the broker. Most have plain fields and no number: where the seam says that
plain is enough for a client, publications that follow one another are decided about together, by remembered
answers, and sent on together as far as their routes are the same. All others are admitted one by one
(`Seam.take`). The law: both give the same verdicts and the same effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, groupby
from typing import Any, Final

from fairlead.broker import Broker
from fairlead.broker.publications import NO_OFFSET
from fairlead.delivery.transacting import refused_member
from fairlead.errors import Forbidden, ProtocolError, ValueRefused
from fairlead.model import Notification
from fairlead.model.order import identity_of
from fairlead.model.packed import PlainColumns, PlainParts, columns_of, pack, unpack, unpack_plain
from fairlead.network import wire
from fairlead.network.bounds import check_identity, check_notification
from fairlead.network.client_sessions import ClientSession
from fairlead.network.dispatch import Dispatch, Taken
from fairlead.network.guard import Guard
from fairlead.network.holding import Holding
from fairlead.network.interests import Interests
from fairlead.network.once import Once
from fairlead.network.relays import Relays
from fairlead.network.router import Fanout, Router, Verdict, together
from fairlead.network.sessions import Counters
from fairlead.network.settings import Limits
from fairlead.rules import Memory, Refusal, is_plain

__all__ = ["Admission"]

_ADMITTED: Final = {Fanout}
HELD: Final = Fanout((), ())
"""A publication that goes nowhere yet."""


class Admission:
    """The publications of a broker's clients."""

    def __init__(
        self,
        broker: Broker,
        router: Router,
        dispatch: Dispatch,
        once: Once,
        *,
        counters: Counters,
        limits: Limits,
        guard: Guard,
        interests: Interests,
        holding: Holding,
    ) -> None:
        self._interests, self.holding = interests, holding
        holding.send = self._send_held
        self._broker, self._router, self._dispatch, self._once = broker, router, dispatch, once
        self._counters, self._limits, self._identities = counters, limits, broker.identities
        self._guard = guard
        self._room = wire.relay_room(limits.frame_bytes)
        """The size of the largest notification that neighbours take."""
        self._small = min(limits.attributes, limits.identity_bytes)
        """Publications of so many bytes in all have neither too many values nor too long an identity."""

    def take(self, session: ClientSession, payloads: list[bytes], taken: list[Taken], now: int) -> None:
        """Take the publications of some frames, which are none after; what is to be logged is `taken`.

        So is all that comes behind it: nothing overtakes what waits for the log. ProtocolError: one has no number,
        and those before it have been taken.
        """
        if not payloads:
            return
        if len(payloads) == 1 and not taken and self._take_lone(session, payloads[0], now):
            session.admitted += 1
            payloads.clear()
            return
        numbers, packed = wire.parse_all_numbered(payloads)
        is_whole = len(packed) == len(payloads)
        payloads.clear()
        if packed:
            refused = self._counters.refused
            self._take(session, numbers, packed, taken, now)
            session.admitted += len(packed) - (self._counters.refused - refused)
        if not is_whole:
            raise ProtocolError("a publication that ends before its number does")

    def request(self, session: ClientSession, packed: bytes, now: int) -> bool:
        """Send a request on, best effort; False: nobody is on its route, and it has not been published."""
        fanout, content = self._admitted(session, packed, 0, now)
        if isinstance(fanout, Refusal):
            raise fanout.exception()
        if fanout is None:
            raise ValueRefused("a request with this id was published before", hint="leave the id out")
        session.admitted += 1
        if not (fanout.links or fanout.recipients):
            self._identities.sent.forget(identity_of(unpack(packed)))
            return False
        self._dispatch.commit(session, [(fanout, content, 0)], now)
        return True

    def take_group(
        self, session: ClientSession, packed: list[bytes], number: int, now: int, *, new_only: bool
    ) -> list[Taken]:
        """Admit the publications of a transaction, all of them; TransactionRefused names the one that is not.

        What was published before has no fan-out. All of them may be known, or, with `new_only`, some.
        """
        admitted: list[tuple[Notification, Notification | None]] = []
        try:
            for index, each in enumerate(packed):
                admitted.append(self._member(session, each, number, index, now))
            known = [index for index, (_, taken_as) in enumerate(admitted) if taken_as is None]
            if known and not new_only and len(known) < len(admitted):
                raise refused_member(known[0], "its id was published before")
            taken: list[Taken] = []
            for index, (given, notification) in enumerate(admitted):
                fanout, content = None, packed[index]
                if notification is not None:
                    is_as_given = notification is given
                    fanout, content = self._routed(notification, content, now, is_as_given=is_as_given)
                if fanout is not None and fanout.links and len(content) > self._room:
                    raise refused_member(index, self._too_large(content))
                taken.append((fanout, content, number))
        except BaseException:
            for _, notification in admitted:
                if notification is not None:
                    self._identities.forget(identity_of(notification))
            raise
        session.admitted += len(taken)
        return taken

    def _member(
        self, session: ClientSession, packed: bytes, number: int, index: int, now: int
    ) -> tuple[Notification, Notification | None]:
        """A publication of a transaction, as it was given and as it is admitted; None: it was published before."""
        try:
            given, admitted = self._taken(session, packed, number, now)
        except ValueRefused as refused:
            raise refused_member(index, str(refused)) from None
        if not isinstance(admitted, Refusal):
            if admitted is not None and self._broker.seam.held_until(admitted, now) is not None:
                self._identities.forget(identity_of(admitted))
                raise refused_member(index, "its channel holds it until it is due, and not the others")
            return given, admitted
        if admitted.error is Forbidden:
            self._guard.refused(session.client, admitted.reason)
            raise admitted.exception()
        raise refused_member(index, str(admitted.exception()))

    def _take_lone(self, session: ClientSession, payload: bytes, now: int) -> bool:
        """Take a plain publication that comes alone and goes on at once, without lists of one. False, and nothing
        is done: it is not plain, has a number, is refused, or waits for the log."""
        packed = wire.parse_unnumbered(payload)
        if packed is None or len(packed) > self._small or self._dispatch.pending:
            return False
        memory = self._router.remembered_verdicts(session.client)
        parts = None if memory is None else unpack_plain(packed)
        if memory is None or parts is None:
            return False
        producer, id, fields = parts
        if not (producer and id and is_plain(fields)):
            return False
        try:
            fanout = self._router.verdict(session.client, memory, packed, parts, now)
        except Exception:  # is raised again, where it is seen what becomes of it
            return False
        if isinstance(fanout, Refusal):
            return False
        identity = (producer, id)
        if self._identities.sent.take_identity(identity):
            self._counters.published += 1
            self._once.send(fanout, NO_OFFSET, packed, identity=identity)
        else:
            self._counters.duplicates += 1
        return True

    def _take(
        self, session: ClientSession, numbers: list[int], packed: list[bytes], taken: list[Taken], now: int
    ) -> None:
        memory = self._router.remembered_verdicts(session.client)
        if memory is None:
            self._take_any(session, zip(numbers, packed, strict=True), taken, now)
            return
        relays = Relays(packed)
        parts = relays.plain
        if relays.size > self._small and self._is_some_too_large(relays, parts):
            self._take_any(session, zip(numbers, packed, strict=True), taken, now)
        elif parts is None or not _are_plain(relays.columns):
            for is_plain, run in groupby(zip(numbers, packed, strict=True), _is_plain):
                if is_plain:
                    some = [*run]
                    self._take(session, [each[0] for each in some], [each[1] for each in some], taken, now)
                else:
                    self._take_any(session, run, taken, now)
        else:
            self._take_plain(session, numbers, relays, parts, taken, memory=memory, now=now)

    def _is_some_too_large(self, relays: Relays, parts: list[PlainParts] | None) -> bool:
        """Whether a publication may have too many values, or too long a producer and id: a character has up to
        four bytes."""
        limits = self._limits
        longest = max(map(len, relays.each))
        if longest > limits.identity_bytes and any(
            4 * (len(each[0]) + len(each[1])) > limits.identity_bytes for each in parts or ()
        ):
            return True
        if longest <= limits.attributes:  # each attribute takes a byte, at least
            return False
        try:
            for packed in relays.each:
                check_notification(packed, limits)
        except ValueRefused:
            return True
        return False

    def _take_plain(
        self,
        session: ClientSession,
        numbers: list[int],
        relays: Relays,
        parts: list[PlainParts],
        taken: list[Taken],
        *,
        memory: Memory[Verdict],
        now: int,
    ) -> None:
        """Plain publications: all together, or one by one, where some wait for the log, or are refused."""
        identities = self._identities
        try:
            verdicts = self._router.verdicts(session.client, memory, relays, parts, now)
        except Exception:  # of one of them: which one that is, is seen one by one
            self._take_any(session, zip(numbers, relays.each, strict=True), taken, now)
            return
        if self._broker.seam.admits_all or _are_admitted(verdicts):
            fanouts: Sequence[Any] = verdicts  # `cast` would be called with every publication
            if not (taken or self._dispatch.pending or any(numbers)):
                self._send(
                    relays, fanouts, identities.sent.take_all([*zip(*relays.columns[:2], strict=True)])
                )
                return
            if all(numbers) and max(map(len, relays.each)) <= self._room:
                new = identities.take_all([*zip(*relays.columns[:2], strict=True)])
                of_new = fanouts if new is None else [*map(_only_if, fanouts, new)]
                taken += zip(of_new, relays.each, numbers, strict=True)
                return
        for number, packed, each, verdict in zip(numbers, relays.each, parts, verdicts, strict=True):
            known = identities if number else identities.sent
            if isinstance(verdict, Fanout):
                self._go_on(
                    session, verdict if known.take_identity(each[:2]) else None, packed, number, taken
                )
            elif each[:2] in known and self._broker.seam.disown(session.client, each[0], now) is None:
                self._go_on(session, None, packed, number, taken)
            else:
                self._refuse(session, number, verdict)

    def _send(self, relays: Relays, fanouts: Sequence[Fanout], new: list[bool] | None) -> None:
        """Publications that are in no log go on at once, as far as they are new."""
        if new is not None:
            self._counters.duplicates += new.count(False)
            relays, fanouts = relays.only(new), [*compress(fanouts, new)]
        self._counters.published += relays.count
        for fanout, some in together(fanouts, relays):
            self._once.send_all(fanout, some)

    def _take_any(
        self, session: ClientSession, publications: Iterable[tuple[int, bytes]], taken: list[Taken], now: int
    ) -> None:
        """Publications of any kind."""
        for number, given in publications:
            try:
                fanout, packed = self._admitted(session, given, number, now, behind=taken)
            except ValueRefused as error:
                self._refuse(session, number, Refusal(str(error)))
            except Exception as error:
                if not number:
                    raise  # nobody waits for an answer, and nobody sends it again
                session.answer_error(number, error)
            else:
                if isinstance(fanout, Refusal):
                    self._refuse(session, number, fanout)
                elif fanout is not HELD:
                    self._go_on(session, fanout, packed, number, taken)

    def _admitted(
        self,
        session: ClientSession,
        packed: bytes,
        number: int,
        now: int,
        *,
        behind: list[Taken] | None = None,
    ) -> tuple[Fanout | Refusal | None, bytes]:
        """The fanout of a publication, and its bytes as they go there; or a refusal; None: it is a duplicate. It
        is HELD behind what has been taken, where that is given and a channel says so."""
        given, admitted = self._taken(session, packed, number, now)
        if admitted is None or isinstance(admitted, Refusal):
            return admitted, packed
        try:
            if behind is not None and self._is_held(session, admitted, number, behind, now):
                return HELD, packed
            return self._routed(admitted, packed, now, is_as_given=admitted is given)
        except Exception:
            # It is not here, and may come again.
            self._identities.memory(number, admitted.id).forget(identity_of(admitted))
            raise

    def _is_held(
        self, session: ClientSession, admitted: Notification, number: int, behind: list[Taken], now: int
    ) -> bool:
        """Hold a publication, if its channel says so; it is acknowledged behind what has been taken."""
        until = self._broker.seam.held_until(admitted, now)
        if until is None:
            return False
        if not number or self._dispatch.commit(session, behind, now):
            self.holding.hold(
                admitted, until, now, is_logged=number > 0, then=lambda: session.acknowledge(number)
            )
        else:
            self._identities.forget(identity_of(admitted))  # the log is full, and the session ends
        return True

    def _send_held(self, admitted: Notification, now: int) -> None:
        """Send on what was held, and is in no log."""
        fanout, packed = self._routed(admitted, b"", now, is_as_given=False)
        self._counters.published += 1
        if self._dispatch.retain is not None:
            self._dispatch.retain(packed, NO_OFFSET)
        self._once.send(fanout, NO_OFFSET, packed)

    def _taken(
        self, session: ClientSession, packed: bytes, number: int, now: int
    ) -> tuple[Notification, Notification | Refusal | None]:
        """A publication as it was given, and as the seam admits it; or a refusal; None: it is a duplicate."""
        check_notification(packed, self._limits)
        notification = unpack(packed)
        check_identity(notification.producer, notification.id or "", self._limits)
        seam = self._broker.seam
        intercepted = seam.intercept(session.client, notification)
        if intercepted is None or isinstance(intercepted, Refusal):
            return notification, intercepted
        memory = self._identities.memory(number, intercepted.id)
        return notification, seam.take(session.client, intercepted, memory, now)

    def _routed(
        self, admitted: Notification, packed: bytes, now: int, *, is_as_given: bool
    ) -> tuple[Fanout, bytes]:
        """The fan-out of an admitted publication, and its bytes as they go there."""
        marked = self._broker.seam.mark(admitted, now)
        if self._broker.seam.learns_from:
            self._interests.learn(marked, now)
        fanout = self._router.fanout(marked, "")
        return fanout, packed if marked is admitted and is_as_given else pack(marked)

    def _too_large(self, packed: bytes) -> str:
        return f"a notification of {len(packed):,} bytes; neighbours take at most {self._room:,}"

    def _go_on(
        self, session: ClientSession, fanout: Fanout | None, packed: bytes, number: int, taken: list[Taken]
    ) -> None:
        if number and len(packed) > self._room and fanout is not None and fanout.links:
            # No rule, but what the links can carry: it would be acknowledged, and get nowhere.
            self._broker.forget(unpack(packed))
            self._refuse(session, number, Refusal(self._too_large(packed)))
        elif number or ((taken or self._dispatch.pending) and fanout is not None):
            taken.append((fanout, packed, number))
        elif fanout is not None:
            self._counters.published += 1
            if self._dispatch.retain is not None:
                self._dispatch.retain(packed, NO_OFFSET)
            self._once.send(fanout, NO_OFFSET, packed)
        else:
            self._counters.duplicates += 1

    def _refuse(self, session: ClientSession, number: int, refusal: Refusal) -> None:
        self._counters.refused += 1
        is_forbidden = refusal.error is Forbidden
        if is_forbidden:
            self._guard.refused(session.client, refusal.reason)
        if number:
            session.tell(wire.Refused(number, str(refusal.exception()), is_forbidden=is_forbidden))


def _is_plain(publication: tuple[int, bytes]) -> bool:
    parts = unpack_plain(publication[1])
    return parts is not None and _are_plain(columns_of([parts]))


def _are_admitted(verdicts: Sequence[Verdict]) -> bool:
    first = verdicts[0]  # of most batches, of all
    return (type(first) is Fanout and verdicts.count(first) == len(verdicts)) or (
        {*map(type, verdicts)} == _ADMITTED
    )


def _only_if(fanout: Fanout, is_new: bool) -> Fanout | None:
    return fanout if is_new else None


def _are_plain(columns: PlainColumns) -> bool:
    producers, ids, fields = columns
    return all(producers) and all(ids) and is_plain(*fields)
