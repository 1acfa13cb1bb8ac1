"""Messages of schemes that do not forward along routing tables: a message with a header of the scheme.

Packet        a message, with what the scheme has to know to pass it on
SendToGroup   one send to a multicast group: the network makes the copies
"""

from __future__ import annotations

from msgspec import Struct

from fairlead.broker.messages import Message

__all__ = ["Hops", "LinkSet", "Packet", "SendToGroup"]


class Hops(Struct, frozen=True):
    """The header of gossip: after so many hops the packet arrives."""

    count: int


class LinkSet(Struct, frozen=True):
    """The header of LIPSIN: links in a Bloom filter, and which packet it is: of whom, and of these which."""

    index: int
    """The index of the id, among those of each link, that the filter is made of."""
    bits: int
    origin: str
    number: int


class Packet(Struct, frozen=True):
    """A message with a header."""

    source: str
    header: Hops | LinkSet
    message: Message


class SendToGroup(Struct, frozen=True):
    """Send a message once to all members of a group."""

    group: tuple[str, ...]
    message: Message
