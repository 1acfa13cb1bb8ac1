"""Messages of schemes that do not forward along routing tables: a message with a header of the scheme.

Packet        a message, with what the scheme has to know to pass it on
SendToGroup   one send to a multicast group: the network makes the copies
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from fairlead.broker.messages import Message

__all__ = ["AnyMessage", "Hops", "Packet", "Route", "SendToGroup"]


class Hops(Struct, frozen=True):
    """Gossip: after so many hops the packet arrives."""

    count: int


class Route(Struct, frozen=True):
    """Links in a Bloom filter: which set of link ids it is made of, and the union of the ids."""

    index: int
    bits: int


class Packet(Struct, frozen=True):
    """A message with a header."""

    source: str
    header: Hops | Route
    message: Message


AnyMessage: TypeAlias = Message | Packet
"""All that goes over the links of a simulation."""


class SendToGroup(Struct, frozen=True):
    """Send a message once to all members of a group."""

    group: tuple[str, ...]
    message: Message
