"""The specification of retained values, as a program over what was published: what a later subscriber gets.

It looks at all publications again for every question, so that it has nothing in common with
`fairlead.channels.retained`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.channels import Channel, Channels
from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.model.values import ABSENT, key_of

__all__ = ["last_values", "retained_for"]


def last_values(channels: Channels, published: Sequence[Notification]) -> list[list[int]]:
    """By key, the places of the values that are retained, the oldest first; the key published last comes last."""
    by_key: dict[object, list[int]] = {}
    for place, notification in enumerate(published):
        channel = channels.of(notification)
        if channel is not None and channel.retain is not None:
            by_key.setdefault(_key(channel, notification), []).append(place)
    kept = [_of_key(channels, published, places) for places in by_key.values()]
    return sorted((each for each in kept if each), key=lambda each: each[-1])


def _of_key(channels: Channels, published: Sequence[Notification], places: list[int]) -> list[int]:
    channel = channels.of(published[places[0]])
    assert channel is not None
    assert channel.retain is not None
    in_order = sorted(places, key=lambda place: (*_rank(published, places, place), place))
    ends = [at for at, place in enumerate(in_order) if channels.ends(channel, published[place])]
    return in_order[ends[-1] + 1 if ends else 0 :][-channel.retain.count :]


def _rank(published: Sequence[Notification], places: list[int], place: int) -> tuple[int, str]:
    """Time and producer; the time is raised where a producer has published a later one before."""
    producer = published[place].producer
    times = [
        published[each].time for each in places if each <= place and published[each].producer == producer
    ]
    return max([0 if time is None else time.microseconds for time in times]), producer


def _key(channel: Channel, notification: Notification) -> object:
    assert channel.retain is not None
    values = [notification.get(name) for name in channel.retain.per]
    return channel.name, tuple(ABSENT if each is ABSENT else key_of(each) for each in values)


def retained_for(channels: Channels, published: Sequence[Notification], filter: Filter) -> list[Notification]:
    """The values that a subscriber to a filter gets at first, in their order."""
    values = [published[place] for places in last_values(channels, published) for place in places]
    return [each for each in values if filter.matches(each)]
