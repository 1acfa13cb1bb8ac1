"""Delivery once: a broker delivers a notification once, over however many paths copies of it arrive
(`fairlead.broker.delivered`).

A notification that is in the log is delivered at the offset where its identity stands first: also to a durable
subscriber that reads it there later. A broker without neighbours knows duplicates of what is in no log already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Final

from fairlead.broker.delivered import Delivered
from fairlead.broker.publications import NO_OFFSET, Logged
from fairlead.log.records import Stamp, parse_origin, parse_relayed, parse_stamp
from fairlead.model.packed import identity_bytes, identity_in
from fairlead.network import wire
from fairlead.network.relays import Relays

if TYPE_CHECKING:
    from fairlead.network.copies import Copies
    from fairlead.network.destinations import Link
    from fairlead.network.ledger import Ledger
    from fairlead.network.routed import RouteSpans
    from fairlead.network.router import Fanout
    from fairlead.network.sessions import Counters

__all__ = ["Once"]

NUMBER_BYTES: Final = 8
"""The length of a relay's number, before the stamp."""


class Once:
    """Between a broker and its own clients."""

    def __init__(
        self,
        ledger: Ledger | None,
        links: Mapping[str, Link],
        counters: Counters,
        copies: Copies | None = None,
        *,
        broker: str = "",
    ) -> None:
        self._links, self._counters, self._copies = links, counters, copies
        self._delivered = Delivered[tuple[str, str]]()
        self._firsts = None if ledger is None else ledger.firsts
        self.spans: RouteSpans | None = None
        """The spans of notifications that name a trace of OpenTelemetry's, where they are wanted."""
        self._broker = broker
        self.pass_on: Callable[[Fanout, bytes, Stamp | None], Fanout] | None = None
        """The recipients that a notification is handed to, where some may have been handed newer ones."""

    def send(
        self,
        fanout: Fanout,
        offset: int,
        content: bytes,
        identity: tuple[str, str] | None = None,
        *,
        is_relayed: bool = False,
    ) -> None:
        """Hand a notification to its destinations; to the neighbours only, if it has been delivered here.

        What a neighbour has relayed, and is in the log, is the relay as it came. The identity is read from the
        bytes of the notification where the caller does not have it.
        """
        if self.spans is not None:
            self.spans.sent(fanout, content, is_relayed=is_relayed)
        if offset == NO_OFFSET and self._copies is not None and not is_relayed:
            if fanout.links:
                fanout.relay(offset, self._copies.relay_of(content), is_relayed=True)
        else:
            fanout.relay(offset, content, is_relayed=is_relayed)
        if fanout.recipients:
            packed = wire.parse_relay(content)[1] if is_relayed else content
            if self._is_first(offset, packed, identity):
                if self.pass_on is not None:
                    fanout = self.pass_on(
                        fanout, packed, self._stamp_of(offset, content, is_relayed=is_relayed)
                    )
                fanout.deliver(offset, packed)
            else:
                self._counters.duplicates += 1

    def send_records(
        self, fanout: Fanout, records: Sequence[Logged[Fanout, bytes]], *, are_relayed: bool
    ) -> None:
        """The same of several that follow one another, most of them records of the log."""
        offsets = [offset for offset, _, _, _ in records]
        contents = [content for _, _, content, _ in records]
        if NO_OFFSET in offsets or len(records) == 1:
            for offset, content in zip(offsets, contents, strict=True):
                is_relay = are_relayed and (offset != NO_OFFSET or self._copies is not None)
                self.send(fanout, offset, content, is_relayed=is_relay)
            return
        if self.spans is not None:
            for content in contents:
                self.spans.sent(fanout, content, is_relayed=are_relayed)
        fanout.relay_records(offsets, contents, are_relayed=are_relayed)
        if not fanout.recipients:
            return
        if self.pass_on is not None:
            for offset, content in zip(offsets, contents, strict=True):
                self._deliver(fanout, offset, content, are_relayed=are_relayed)
            return
        packed = [wire.parse_relay(content)[1] for content in contents] if are_relayed else contents
        first = self._are_first(offsets, packed)
        if first is not None:
            self._counters.duplicates += first.count(False)
            offsets, packed = [*compress(offsets, first)], [*compress(packed, first)]
        if offsets:
            fanout.deliver_records(offsets, packed)

    def send_all(self, fanout: Fanout, relays: Relays) -> None:
        """The same of several that are in no log."""
        if self.pass_on is not None or (self._copies is not None and fanout.links):
            for packed in relays.each:
                self.send(fanout, NO_OFFSET, packed)
            return
        if self.spans is not None:
            for packed in relays.each:
                self.spans.sent(fanout, packed, is_relayed=False)
        if fanout.recipients and self._links:
            identities = relays.identities
            if self._firsts is not None and self._firsts.latest:
                logged = self._firsts.latest
                for identity, packed in zip(identities, relays.each, strict=True):
                    if identity_bytes(packed) in logged:
                        self._delivered.add(identity)
            new = self._delivered.take_all(identities)
            if new is not None:
                self._counters.duplicates += new.count(False)
                fanout.relay_all(relays)
                fanout.deliver_all(relays.only(new))
                return
        fanout.send_all(relays)

    def _deliver(self, fanout: Fanout, offset: int, content: bytes, *, are_relayed: bool) -> None:
        """Hand a record to the recipients alone."""
        assert self.pass_on is not None
        packed = wire.parse_relay(content)[1] if are_relayed else content
        if self._is_first(offset, packed, None):
            stamp = self._stamp_of(offset, content, is_relayed=are_relayed)
            self.pass_on(fanout, packed, stamp).deliver(offset, packed)
        else:
            self._counters.duplicates += 1

    def _stamp_of(self, offset: int, content: bytes, *, is_relayed: bool) -> Stamp | None:
        """The stamp of where a notification was published; None: here, and it is in no log."""
        if is_relayed:
            stamp = parse_stamp(content[NUMBER_BYTES : parse_relayed(content)[1]])
            origin, incarnation = parse_origin(stamp.origin.encode())
            return stamp if not incarnation else Stamp(origin.decode(), stamp.position)
        return None if offset == NO_OFFSET else Stamp(self._broker, offset + 1)

    def _is_first(self, offset: int, packed: bytes, identity: tuple[str, str] | None) -> bool:
        if offset != NO_OFFSET:
            assert self._firsts is not None
            return self._firsts.first(identity_bytes(packed), offset) == offset
        if not self._links:
            return True
        if self._firsts is not None and identity_bytes(packed) in self._firsts.latest:
            return False
        return self._delivered.take(identity or identity_in(packed))

    def _are_first(self, offsets: list[int], packed: list[bytes]) -> list[bool] | None:
        """The records of the log that are the first of their identities, as a mask; None: all of them."""
        assert self._firsts is not None
        return self._firsts.take_all([*map(identity_bytes, packed)], offsets)

    def is_first_in_log(self, offset: int, packed: bytes) -> bool:
        """Whether a record of the log is not a duplicate of an earlier one, as far as is remembered."""
        assert self._firsts is not None
        first = self._firsts.known(identity_bytes(packed))
        return first is None or first >= offset
