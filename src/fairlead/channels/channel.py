"""The channels of a network: the first in their order that matches a notification is its channel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from hashlib import blake2b
from operator import or_
from typing import Annotated, Any, Final, NamedTuple

from fairlead.channels.quality import EXPIRES, FILTER, RETAIN, Expires, Retain
from fairlead.configuration import Key, text, written
from fairlead.errors import ChannelError, FairleadError
from fairlead.filters.algebra import algebra_for
from fairlead.filters.filter import NOTHING, Filter, leaves
from fairlead.filters.language import parse, render
from fairlead.filters.schema import Schema
from fairlead.model import Instant, Notification

__all__ = ["EXPIRES_MARK", "Channel", "Channels", "Overlap"]

EXPIRES_MARK: Final = "expires"
"""The attribute with the instant at which a notification expires."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A name, a filter, and the quality of service of what the filter matches."""

    name: Annotated[str, Key("what the channel is called", text)]
    filter: Annotated[str | Filter, Key("the notifications that are in it, by their content", FILTER)]
    retain: Annotated[
        Retain | None,
        Key(
            'the last values of each key that are kept for later subscribers: `{ per = ["symbol"], count = 1,'
            " ends = 'state = \"gone\"' }`",
            RETAIN,
            shown="nothing is kept",
        ),
    ] = None
    expires: Annotated[
        Expires | str | None,
        Key(
            "from when on a notification is handed to nobody for the first time: a duration, or"
            ' `{ attribute = "ttl", default = "30s" }`, whose attribute has a duration or an instant',
            EXPIRES,
            shown="it does not expire",
        ),
    ] = None

    def __post_init__(self) -> None:
        if isinstance(self.expires, str):
            object.__setattr__(self, "expires", Expires(default=self.expires))

    @property
    def expiry(self) -> Expires | None:
        """The instants at which its notifications expire, if they do."""
        assert not isinstance(self.expires, str)
        return self.expires

    @property
    def is_neutral(self) -> bool:
        """Whether it prescribes nothing."""
        return self.retain is None and self.expires is None


class Overlap(NamedTuple):
    """Two channels that match a notification both: it is in the first one."""

    first: str
    second: str
    witness: Notification | None


class Channels:
    """The channels of a bus or of a network of brokers, in their order. Immutable."""

    def __init__(self, channels: Iterable[Channel] = (), schema: Schema | None = None) -> None:
        self.all = tuple(channels)
        self._schema = schema
        self._filters = tuple(self._read(each.name, each.filter) for each in self.all)
        self._ends = {
            each.name: self._read(each.name, each.retain.ends)
            for each in self.all
            if each.retain is not None and each.retain.ends is not None
        }
        self._marks = frozenset({EXPIRES_MARK} if self.expire else ())
        """The attributes that channels mark, which their filters do not see."""
        self._check()

    def _read(self, name: str, given: str | Filter) -> Filter:
        if isinstance(given, Filter):
            return given
        try:
            return parse(given, self._schema)
        except FairleadError as error:
            raise ChannelError(f"the channel {name!r}: {error}") from error

    def _check(self) -> None:
        """ChannelError: a name is taken, or a channel is never used."""
        algebra = algebra_for(self._schema)
        for at, channel in enumerate(self.all):
            for leaf in leaves(self._filters[at]):
                name = getattr(getattr(leaf, "term", None), "name", "").partition(".")[0]
                if name in self._marks:
                    raise ChannelError(
                        f"the filter of the channel {channel.name!r} is about {name!r}, which channels mark",
                        hint="read it from another attribute",
                    )
            if not isinstance(channel.name, str) or not channel.name.strip():
                raise ChannelError(f"a channel has a name, not {channel.name!r}")
            if channel.name in (each.name for each in self.all[:at]):
                raise ChannelError(f"there are two channels {channel.name!r}")
            earlier = self._filters[:at]
            if algebra.covers(NOTHING, self._filters[at]):
                raise ChannelError(
                    f"the channel {channel.name!r} is never used: its filter matches nothing",
                    hint="leave it out",
                )
            if earlier and algebra.covers(reduce(or_, earlier), self._filters[at]):
                covering = [
                    each.name
                    for each, filter in zip(self.all, earlier, strict=False)
                    if algebra.overlaps(filter, self._filters[at])
                ]
                raise ChannelError(
                    f"the channel {channel.name!r} is never used: what it matches is in"
                    f" {' or '.join(map(repr, covering))} before it",
                    hint="the first channel that matches counts: put narrower filters first",
                )

    def of(self, notification: Notification) -> Channel | None:
        """The channel that a notification is in, if it is in any. It does not depend on what channels mark."""
        if self._marks:
            notification = notification.without(self._marks)
        for channel, filter in zip(self.all, self._filters, strict=True):
            if filter.matches(notification):
                return channel
        return None

    def ends(self, channel: Channel, notification: Notification) -> bool:
        """Whether a notification in a channel removes its key."""
        ends = self._ends.get(channel.name)
        return ends is not None and ends.matches(notification)

    def overlaps(self) -> Iterator[Overlap]:
        """The pairs of channels that some notification matches both of; it is in the first one."""
        algebra = algebra_for(self._schema)
        for at, (channel, filter) in enumerate(zip(self.all, self._filters, strict=True)):
            for other, earlier in zip(self.all[:at], self._filters[:at], strict=True):
                if algebra.overlaps(earlier, filter):
                    yield Overlap(other.name, channel.name, algebra.witness(earlier & filter))

    @property
    def are_neutral(self) -> bool:
        """Whether they prescribe nothing."""
        return all(each.is_neutral for each in self.all)

    @property
    def retain(self) -> bool:
        """Whether some channel retains values."""
        return any(each.retain is not None for each in self.all)

    @property
    def expire(self) -> bool:
        """Whether notifications of some channel expire."""
        return any(each.expires is not None for each in self.all)

    def expires(self, notification: Notification) -> int | None:
        """The instant at which a notification expires that has been marked, in microseconds, if it does."""
        until = notification.get(EXPIRES_MARK)
        if not isinstance(until, Instant):
            return None
        channel = self.of(notification)
        return None if channel is None or channel.expires is None else until.microseconds

    @property
    def fingerprint(self) -> str:
        """A text that two brokers share iff they have the same channels in the same order; empty for none."""
        if not self.all:
            return ""
        given = json.dumps(self.to_json(), sort_keys=True)
        return blake2b(given.encode(), digest_size=8).hexdigest()

    def to_json(self) -> list[dict[str, Any]]:
        """The channels as a file has them, with their filters as they are printed."""
        tables = [
            {key: value for key, value in written(each).items() if value is not None} for each in self.all
        ]
        return [
            {**table, "filter": render(filter)} for table, filter in zip(tables, self._filters, strict=True)
        ]

    def __len__(self) -> int:
        return len(self.all)

    def __bool__(self) -> bool:
        return bool(self.all)

    def __iter__(self) -> Iterator[Channel]:
        return iter(self.all)
