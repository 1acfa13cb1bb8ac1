"""Channels: what quality of service notifications get, by the administrator of a network (book 5.1).

    channel    (name, filter, quality); it selects by content, and nobody publishes *to* it

A publisher describes its notifications, and a channel prescribes what becomes of them: which of them are retained
for those who subscribe later. `publish` has no parameter of quality; a channel may name the attribute that a value
is read from.

Laws:

    The first channel in the order of the file whose filter matches a notification is its channel, wholly: fields
    of several channels are never mixed.
    Channels whose qualities are all neutral change nothing.
    A channel that earlier ones cover is never used, and refused.

    quality    what a channel may prescribe
    channel    the channels of a network, and which one a notification is in
    retained   the last values of each key
"""

from __future__ import annotations

from fairlead.channels.channel import Channel, Channels
from fairlead.channels.quality import Expires, Retain
from fairlead.channels.retained import RetainedKey, RetainedValue, RetainedValues

__all__ = ["Channel", "Channels", "Expires", "Retain", "RetainedKey", "RetainedValue", "RetainedValues"]
