"""Transactions at a broker: publications and accepted deliveries that are in its log together, or not at all.

    Laws
    All publications of a transaction are in the log, and what it accepts is accepted; or nothing of it happens.
    They take adjacent places in the log, and nobody is notified of one before all of it is safe.
    What it accepts was held by its client, and does not come again.

The log makes them one group (`Log.append_group`). What is accepted counts for this process when the log is synced:
until then no other transaction accepts it. A transaction that comes again, because its client did not hear of its
end, is known by its publications, all of which were published before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from fairlead.errors import FairleadError, TransactionRefused
from fairlead.network import wire
from fairlead.network.admission import Admission
from fairlead.network.client_sessions import ClientSession
from fairlead.network.destinations import Durable
from fairlead.network.dispatch import Dispatch
from fairlead.network.durability import Durability
from fairlead.network.ledger import Accepted, Ledger, Transacted

__all__ = ["Transactions"]

ACCEPTED_MAX: Final = 10_000
"""The most deliveries that a transaction accepts."""


class _Claim(NamedTuple):
    """The records that a transaction accepts of a durable subscriber."""

    durable: Durable
    offsets: list[int]


class Transactions:
    """The transactions of the clients of one broker."""

    def __init__(
        self, ledger: Ledger | None, admission: Admission, dispatch: Dispatch, durability: Durability
    ) -> None:
        self._ledger, self._admission = ledger, admission
        self._dispatch, self._durability = dispatch, durability

    def commit(self, session: ClientSession, payload: bytes, now: int) -> None:
        """Carry out the transaction in a frame, or refuse it."""
        number, content = wire.parse_transaction(payload)
        try:
            self._commit(session, number, content, now)
        except FairleadError as error:
            session.answer_error(number, error)

    def _commit(self, session: ClientSession, number: int, content: wire.Transaction, now: int) -> None:
        if not (content.publications or content.accepted):
            raise TransactionRefused(
                "a transaction without content", hint="publish or accept something in it"
            )
        claims, unclaimed = self._claims(session, content)
        taken = self._admission.take_group(
            session, content.publications, number, now, new_only=content.new_only
        )
        is_new = any(fanout is not None for fanout, _, _ in taken)
        if unclaimed and (is_new or not taken):
            session.forget(taken)
            raise unclaimed
        if claims and not is_new and taken:
            raise TransactionRefused(
                "all of its notifications were published before, and what it accepts was not accepted with them",
                hint="leave the ids out",
            )
        made: list[Transacted] = []

        def append(records: Iterable[tuple[bytes, int]]) -> range:
            assert self._ledger is not None
            accepted = [Accepted(each.durable.name, each.offsets) for each in claims]
            made.append(self._ledger.transaction([packed for packed, _ in records], accepted, now))
            return made[0].publications

        for each in claims:
            each.durable.taking.update(each.offsets)
        try:
            if taken:
                self._dispatch.commit(session, taken, now, append)
            else:
                append(())
        finally:
            if not made:
                self._let_go(claims)
        if claims and made:
            self._dispatch.after_sync(lambda: self._end(claims, made[0]))
        if not taken and not content.publications:
            self._dispatch.after_sync(lambda: self._answer(session, number, made[0]))

    def _claims(
        self, session: ClientSession, content: wire.Transaction
    ) -> tuple[list[_Claim], TransactionRefused | None]:
        """The records that a transaction accepts; and why it must not, where its client does not hold one."""
        if sum(len(ordinals) for _, ordinals in content.accepted) > ACCEPTED_MAX:
            raise TransactionRefused(f"a transaction accepts at most {ACCEPTED_MAX:,} deliveries")
        claims = []
        for name, ordinals in content.accepted:
            durable = session.durables.get(name)
            if durable is None or durable.ends:
                return [], TransactionRefused(
                    f"this client is not the durable subscriber {name!r} of this broker",
                    hint="a transaction accepts deliveries of the broker that it publishes at",
                )
            offsets = [durable.offset_of(ordinal) for ordinal in dict.fromkeys(ordinals)]
            if not all(durable.claims(session, offset) for offset in offsets):
                return [], TransactionRefused(
                    f"a delivery to {name!r} is not held by this client any longer: it comes again",
                    hint="nothing was published; begin another transaction with what is delivered then",
                )
            claims.append(_Claim(durable, offsets))
        return claims, None

    def _end(self, claims: list[_Claim], made: Transacted) -> None:
        self._let_go(claims)
        if made.is_lost:
            return
        for durable, offset in _each(claims):
            if offset not in durable.done:
                durable.settled(offset)
        for each in claims:
            self._durability.serve(each.durable)

    def _answer(self, session: ClientSession, number: int, made: Transacted) -> None:
        if made.is_lost:
            session.answer_error(number, TransactionRefused("the log has no room for it"))
        else:
            session.acknowledge(number)

    @staticmethod
    def _let_go(claims: list[_Claim]) -> None:
        for durable, offset in _each(claims):
            durable.taking.discard(offset)


def _each(claims: list[_Claim]) -> Iterator[tuple[Durable, int]]:
    return ((each.durable, offset) for each in claims for offset in each.offsets)
