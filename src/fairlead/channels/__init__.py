"""Channels: what quality of service notifications get, by the administrator of a network (book 5.1).

    channel    (name, filter, quality); it selects by content, and nobody publishes *to* it

A publisher describes its notifications, and a channel prescribes what becomes of them: which of them are retained
for those who subscribe later, when they expire, until when they are held, which of what waits goes first.
`publish` has no parameter of quality; a channel may name the attribute that a value is read from.

Laws:

    The first channel in the order of the file whose filter matches a notification is its channel, wholly: fields
    of several channels are never mixed.
    Channels whose qualities are all neutral change nothing.
    A channel that earlier ones cover is never used, and refused.

    quality    what a channel may prescribe
    channel    the channels of a network, and which one a notification is in
    retained   the last values of each key
    offering   what channels offer, against what subscribers require
    deadlines  what was expected of a key, and has not come in time
"""

from __future__ import annotations

from fairlead.channels.channel import Channel, Channels, channels_of
from fairlead.channels.deadlines import Deadlines, Missed
from fairlead.channels.offering import Quality, check_offer, quality_of, shortfalls
from fairlead.channels.quality import Delay, Expires, Priority, Retain
from fairlead.channels.retained import RetainedKey, RetainedValue, RetainedValues

__all__ = [
    "Channel",
    "Channels",
    "Deadlines",
    "Delay",
    "Expires",
    "Missed",
    "Priority",
    "Quality",
    "Retain",
    "RetainedKey",
    "RetainedValue",
    "RetainedValues",
    "channels_of",
    "check_offer",
    "quality_of",
    "shortfalls",
]
