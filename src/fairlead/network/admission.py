"""What clients publish is taken once, in its order, and refused with a reason where it cannot be.

Most publications are plain fields that want no answer. Those that follow one another are looked at together, and
go on together as far as they go one way; those that are not plain are taken one by one.
"""

from __future__ import annotations

from itertools import compress, groupby
from typing import TYPE_CHECKING

from fairlead.errors import ValueRefused
from fairlead.model.order import Identity
from fairlead.model.packed import PlainParts, pack, unpack, unpack_plain
from fairlead.network import wire
from fairlead.network.dispatch import Taken
from fairlead.network.relays import Relays
from fairlead.network.routes import is_plain
from fairlead.network.sessions import NO_OFFSET, ClientSession
from fairlead.network.ways import Way, together

if TYPE_CHECKING:
    from fairlead.network.node import Node

__all__ = ["Admission"]


class Admission:
    """What a node takes of its clients."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def take(self, session: ClientSession, publications: list[tuple[int, bytes]], taken: list[Taken]) -> None:
        """Take publications with their numbers, which are none after; what is to be logged is `taken`.

        So is all that comes behind it: nothing overtakes what waits for the log.
        """
        if not publications:
            return
        node, some = self._node, publications[:]
        publications.clear()
        relays = Relays([packed for _, packed in some])
        parts = relays.plain
        if node.broker.settings.advertisements is not None:
            self._take_any(session, some, taken)
        elif parts is None or not _are_plain(parts):
            for is_plain, run in groupby(some, _is_plain):
                (self.take if is_plain else self._take_any)(session, [*run], taken)
        elif taken or node.dispatch.pending or any(number for number, _ in some):
            self._take_plain(session, some, relays, parts, taken)
        else:
            self._send(relays, parts)

    def _send(self, relays: Relays, parts: list[PlainParts]) -> None:
        """Plain publications that are in no log go on their way at once."""
        node, published = self._node, self._node.published
        is_sent = published.take_sent if published else published.sent.take_identity
        new = [is_sent(each[:2]) for each in parts]
        if not all(new):
            relays, parts = Relays([*compress(relays.each, new)]), [*compress(parts, new)]
        node.counters.published += relays.count
        ways = node.ways.of_plain(relays, [fields for _, _, fields in parts], "")
        for way, some in together(ways, relays):
            way.dispatch_all(some)

    def _take_plain(
        self,
        session: ClientSession,
        publications: list[tuple[int, bytes]],
        relays: Relays,
        parts: list[PlainParts],
        taken: list[Taken],
    ) -> None:
        """Plain publications, some of which wait for the log."""
        published = self._node.published
        try:
            ways = self._node.ways.of_plain(relays, [fields for _, _, fields in parts], "")
        except Exception:  # of one of them: which one that is, is seen one by one
            self._take_any(session, publications, taken)
            return
        for (number, packed), each, way in zip(publications, parts, ways, strict=True):
            is_new = published.take_identity if number else published.take_sent
            self._go_on(session, way if is_new(each[:2]) else None, packed, number, taken)

    def _take_any(
        self, session: ClientSession, publications: list[tuple[int, bytes]], taken: list[Taken]
    ) -> None:
        """Publications of any kind."""
        for number, given in publications:
            try:
                way, packed = self._admitted(session, given, number)
            except ValueRefused as error:
                self._node.counters.refused += 1
                if number:
                    session.tell(wire.Refused(number, str(error)))
            except Exception as error:
                if not number:
                    raise  # nobody waits for an answer, and nobody sends it again
                self._node.clientele.refuse(session, number, error)
            else:
                self._go_on(session, way, packed, number, taken)

    def _go_on(
        self, session: ClientSession, way: Way | None, packed: bytes, number: int, taken: list[Taken]
    ) -> None:
        node = self._node
        if (
            number
            and len(packed) > node.neighbourhood.room
            and self._is_too_large(session, way, packed, number)
        ):
            return
        if number or taken or node.dispatch.pending:
            taken.append((way, packed, number))
        elif way is not None:
            node.counters.published += 1
            way.dispatch(NO_OFFSET, packed)

    def _admitted(self, session: ClientSession, packed: bytes, number: int) -> tuple[Way | None, bytes]:
        """Where a publication goes that is not plain, and its bytes as they go there.

        Nowhere, if it was published before; ValueRefused says why it cannot be.
        """
        node, notification = self._node, unpack(packed)
        published = node.published
        identities = published if number or notification.id is None else published.sent
        identity = Identity(notification.producer or session.client, notification.id or "")
        if not number and identity in published:
            return None, packed
        admitted = node.broker.admit(session.client, notification, identities)
        if isinstance(admitted, str):
            if notification.id is not None and identity in identities:
                return None, packed
            raise ValueRefused(admitted)
        try:
            way = node.ways.way(admitted, "")
        except Exception:
            node.broker.forget(admitted)  # it is not here, and may come again
            raise
        return way, packed if admitted is notification else pack(admitted)

    def _is_too_large(self, session: ClientSession, way: Way | None, packed: bytes, number: int) -> bool:
        """Refuse a publication that is too large for a neighbour on its way."""
        node = self._node
        reason = "" if way is None else node.neighbourhood.too_large(way, packed)
        if reason:
            node.broker.forget(unpack(packed))
            node.counters.refused += 1
            session.tell(wire.Refused(number, reason))
        return bool(reason)


def _is_plain(publication: tuple[int, bytes]) -> bool:
    parts = unpack_plain(publication[1])
    return parts is not None and _are_plain([parts])


def _are_plain(parts: list[PlainParts]) -> bool:
    producers, ids, fields = zip(*parts, strict=True)
    return all(producers) and all(ids) and is_plain(*fields)
