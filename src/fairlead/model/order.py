"""The one total order of notifications: it respects each producer's own order and declared causes.

    identity     (producer, id)
    order key    (order time, producer, sequence, id), compared from left to right; a missing sequence number
                 comes before every other, strings are compared by code point
    order time   the event's time in microseconds (0 where it has none), raised where needed so that
                 - it never goes back along the producer's sequence numbers (ids, where these are equal), and
                 - the key comes behind the key of everything that the notification names as its cause

**Causes** are named by the attribute `cause`: `{"producer": "p", "id": "7"}`, the same as a string "p/7"
(split at the last slash), a bare id for one of the same producer, or several of these. What is named and does
not exist changes nothing; neither do causes that lead back to themselves, for no order could respect them.

`order_keys` orders a finite set. `Ordering` orders a stream and gives the same keys in the same order, however
the arrivals were shuffled, as long as this holds: **when the bound passes the time of a notification, it has
arrived, and so has everything that it follows** (smaller sequence numbers of its producer, its causes, and
what those follow). What is established lies below the bound and cannot raise what does not, so a stream
remembers only what it holds and, per producer, the last number whose key is fixed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, Final, NamedTuple

from fairlead.errors import ValueRefused
from fairlead.model.encoding import canonical_content, content_hash
from fairlead.model.notification import Notification
from fairlead.model.values import ABSENT, Array, Multi, Record, Tuple

__all__ = [
    "BEGINNING",
    "END",
    "REMEMBERED",
    "REMEMBER_US",
    "Identities",
    "Identity",
    "LatestContents",
    "LatestIdentities",
    "OrderKey",
    "Ordering",
    "causes_of",
    "copy_rank",
    "event_time",
    "identity_of",
    "order_keys",
    "strong_components",
]

BEGINNING: Final = -(2**63)
"""Before every time: where a bound starts."""
END: Final = 2**63 - 1
"""Behind every time: where a bound stands when nothing more can come."""
REMEMBER_US: Final = 3_600_000_000
"""For how long identities are remembered, in microseconds of order time, where nothing else is said."""
REMEMBERED: Final = 1_000_000
"""The number of identities remembered where nothing else is said."""


class Identity(NamedTuple):
    """The identity of a notification: no two of one producer have the same id."""

    producer: str
    id: str


def identity_of(notification: Notification) -> Identity:
    """The identity of a notification that has an id; `Identities` gives one to those that have not."""
    if notification.id is None:
        raise ValueRefused("a notification without an id has no identity yet")
    return Identity(notification.producer, notification.id)


@dataclass(frozen=True, slots=True)
class OrderKey:
    """The order key of a notification: its position in the total order."""

    time: int
    producer: str = ""
    sequence: int | None = None
    id: str = ""

    @classmethod
    def of(cls, notification: Notification, time: int | None = None) -> OrderKey:
        """The key of a notification at an order time: its own time, unless another one is given."""
        producer, id = identity_of(notification)
        return cls(event_time(notification) if time is None else time, producer, notification.sequence, id)

    @classmethod
    def first_at(cls, time: int) -> OrderKey:
        """The least key of an order time: keys at least as large are those from that time on."""
        return cls(time)

    @property
    def identity(self) -> Identity:
        """The identity of the notification."""
        return Identity(self.producer, self.id)

    @property
    def rank(self) -> tuple[int, str, bool, int, str]:
        """The values that are compared."""
        return self.time, self.producer, self.sequence is not None, self.sequence or 0, self.id

    def __lt__(self, other: OrderKey) -> bool:
        return self.rank < other.rank

    def __le__(self, other: OrderKey) -> bool:
        return self.rank <= other.rank

    def __gt__(self, other: OrderKey) -> bool:
        return self.rank > other.rank

    def __ge__(self, other: OrderKey) -> bool:
        return self.rank >= other.rank


def event_time(notification: Notification) -> int:
    """The time of the event, in microseconds; 0 if it has none."""
    return 0 if notification.time is None else notification.time.microseconds


def copy_rank(notification: Notification) -> tuple[int, bytes, bytes]:
    """The rank of a copy among copies of one notification: the least is delivered. If the second part differs,
    the copies are in conflict.

    The earliest comes first. So a batch, which sees all copies at once, and a stream, which has released the
    earliest before it sees a much later one, choose the same. (The content alone would not do that.)
    """
    return event_time(notification), *canonical_content(notification)


def causes_of(notification: Notification) -> tuple[Identity, ...]:
    """The causes that a notification names, each once. Values that are no names are ignored."""
    given = notification.get("cause")
    each: Iterable[Any] = given if isinstance(given, Multi | Array | Tuple) else (given,)
    return tuple(dict.fromkeys(found for name in each if (found := _named(name, notification.producer))))


def _named(given: Any, producer: str) -> Identity | None:
    if isinstance(given, Record):
        id, named = given.lookup("id"), given.lookup("producer")
        if (own := _id(id)) is None:
            return None
        return Identity(producer if named is ABSENT else _id(named) or "", own)
    if (text := _id(given)) is None:
        return None
    before, slash, after = text.rpartition("/")
    return Identity(before if slash else producer, after)


def _id(given: Any) -> str | None:
    """Ids and producers are strings; a whole number stands for its digits, as in the envelope."""
    if isinstance(given, bool) or not isinstance(given, str | int):
        return None
    return str(given)


# -- a finite set ------------------------------------------------------------------------------------------


def order_keys(notifications: Sequence[Notification]) -> list[OrderKey]:
    """The order keys of notifications with distinct identities, in the order of the notifications."""
    return _keys(notifications, event_time)


def _keys(notifications: Sequence[Notification], floor: Callable[[Notification], int]) -> list[OrderKey]:
    """The keys, none below its floor. Causes within one component are circular, and do not count."""
    places = {identity_of(notification): place for place, notification in enumerate(notifications)}
    previous = _previous(notifications)
    causes = [[places[cause] for cause in causes_of(each) if cause in places] for each in notifications]
    follows = [named + before for named, before in zip(causes, previous, strict=True)]
    keys: dict[int, OrderKey] = {}
    for component in strong_components(follows):
        members = set(component)
        for place in sorted(component, key=lambda place: _number(notifications[place])):
            notification, times = notifications[place], [floor(notifications[place])]
            times += [keys[before].time for before in previous[place]]
            times += [_behind(keys[cause], notification) for cause in causes[place] if cause not in members]
            keys[place] = OrderKey.of(notification, max(times))
    return [keys[place] for place in range(len(notifications))]


def _behind(key: OrderKey, notification: Notification) -> int:
    """The least order time at which a notification comes behind a key."""
    return key.time if OrderKey.of(notification, key.time) > key else key.time + 1


def _number(numbered: Notification | OrderKey) -> tuple[int, str]:
    """The rank of a notification among those of its producer that have sequence numbers."""
    return numbered.sequence or 0, numbered.id or ""


def _previous(notifications: Sequence[Notification]) -> list[list[int]]:
    """For each notification the one before it along its producer's sequence numbers, where there is one."""
    numbered: dict[str, list[int]] = {}
    for place, notification in enumerate(notifications):
        if notification.sequence is not None:
            numbered.setdefault(notification.producer, []).append(place)
    found: list[list[int]] = [[] for _ in notifications]
    for places in numbered.values():
        places.sort(key=lambda place: _number(notifications[place]))
        for before, place in pairwise(places):
            found[place].append(before)
    return found


def strong_components(follows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The strongly connected components, each behind those that it follows (Tarjan 1972).

    Without recursion: a producer's sequence numbers make long chains.
    """
    met, low, finished = [0] * len(follows), [0] * len(follows), [False] * len(follows)
    count = 0
    open_places: list[int] = []
    for root in range(len(follows)):
        if met[root]:
            continue
        path: list[tuple[int, Iterator[int]]] = [(root, iter(follows[root]))]
        while path:
            place, ahead = path[-1]
            if not met[place]:
                count += 1
                met[place] = low[place] = count
                open_places.append(place)
            for each in ahead:
                if not met[each]:
                    path.append((each, iter(follows[each])))
                    break
                if not finished[each]:
                    low[place] = min(low[place], met[each])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[place])
                if low[place] == met[place]:
                    component = []
                    while not finished[place]:
                        component.append(open_places.pop())
                        finished[component[-1]] = True
                    yield component


# -- a stream ----------------------------------------------------------------------------------------------


class Ordering:
    """Establishes the total order of a stream: what lies below the bound is released, the rest is held.

    The key of a notification is fixed when the bound passes its own time, together with the keys of all that it
    follows: by then they have arrived. So no key is fixed before one that it depends on, a circle of causes is
    fixed as a whole, and of each producer the fixed numbers lie below the others. It is released when the bound
    passes its order time. Where the condition at the top of this module is broken, a notification that would
    have to go in front of a fixed one is refused as late, so what comes out is in order whatever comes in.

    `held` and `last`, with the bound, are all that an ordering knows: `restore` makes its equal of them.
    """

    __slots__ = ("_bound", "_due", "_fixed", "_last", "_loose", "_numbered", "_ready")

    def __init__(self, bound: int = BEGINNING) -> None:
        self._bound = bound
        self._loose: dict[Identity, Notification] = {}
        self._due: list[tuple[int, Identity]] = []
        self._numbered: dict[str, list[tuple[int, str]]] = {}
        self._fixed: dict[Identity, tuple[OrderKey, Notification]] = {}
        self._ready: list[tuple[tuple[Any, ...], OrderKey, Notification]] = []
        self._last: dict[str, OrderKey] = {}

    @classmethod
    def restore(
        cls, bound: int, held: Iterable[tuple[Notification, int | None]], last: Iterable[OrderKey]
    ) -> Ordering:
        """The ordering that stood at a bound: what it held, with the order times that were fixed, and `last`."""
        ordering = cls(bound)
        ordering._last = {key.producer: key for key in last}
        for notification, time in held:
            ordering._hold(notification)
            if time is None:
                heappush(ordering._due, (event_time(notification), identity_of(notification)))
            else:
                ordering._fix(OrderKey.of(notification, time))
        return ordering

    @property
    def held(self) -> Iterator[tuple[Notification, int | None]]:
        """The held notifications, with the order times that are fixed; in no particular order."""
        yield from ((notification, key.time) for _, key, notification in self._ready)
        yield from ((notification, None) for notification in self._loose.values())

    @property
    def last(self) -> tuple[OrderKey, ...]:
        """Of each producer that counts, the key with the largest number that was ever fixed."""
        return tuple(self._last.values())

    @property
    def bound(self) -> int:
        """Everything below is established."""
        return self._bound

    def __len__(self) -> int:
        """The number of held notifications."""
        return len(self._loose) + len(self._fixed)

    def __contains__(self, identity: Identity) -> bool:
        return identity in self._loose or identity in self._fixed

    def add(self, notification: Notification) -> bool:
        """Hold a notification whose identity is not held; False where it is late."""
        identity = identity_of(notification)
        if notification.sequence is not None:
            last = self._last.get(identity.producer)
            if last is not None and _number(notification) < _number(last):
                return False
        self._hold(notification)
        if (time := event_time(notification)) >= self._bound:
            heappush(self._due, (time, identity))
            return True
        keys = self._keys_of((identity,))
        if keys[identity].time < self._bound:
            self._loosen(identity)
            return False
        for key in keys.values():
            self._fix(key)
        return True

    def copy_of(self, identity: Identity) -> Notification | None:
        """The notification of this identity, while it is held."""
        if identity in self._fixed:
            return self._fixed[identity][1]
        return self._loose.get(identity)

    def exchange(self, notification: Notification) -> bool:
        """Hold another copy of a notification; False where the order time is fixed, or this copy is late."""
        if identity_of(notification) in self._fixed:
            return False
        held = self._loosen(identity_of(notification))
        if event_time(notification) >= self._bound and self.add(notification):
            return True
        self.add(held)
        return False

    def advance(self, bound: int) -> list[tuple[OrderKey, Notification]]:
        """Move the bound; what is now established, in order. A bound that does not move gives nothing."""
        if bound <= self._bound:
            return []
        self._bound = bound
        due: list[Identity] = []
        while self._due and self._due[0][0] < bound:
            identity = heappop(self._due)[1]
            held = self._loose.get(identity)
            if (
                held is not None and event_time(held) < bound
            ):  # a copy with another time may stand there by now
                due.append(identity)
        return self._release(due, bound)

    def close(self) -> list[tuple[OrderKey, Notification]]:
        """Nothing more will come: all that is held, in order."""
        self._bound, self._due = END, []
        return self._release(list(self._loose), None)

    def _release(self, due: list[Identity], bound: int | None) -> list[tuple[OrderKey, Notification]]:
        for key in self._keys_of(due).values():
            self._fix(key)
        released: list[tuple[OrderKey, Notification]] = []
        while self._ready and (bound is None or self._ready[0][1].time < bound):
            _, key, notification = heappop(self._ready)
            del self._fixed[key.identity]
            released.append((key, notification))
        return released

    def _hold(self, notification: Notification) -> None:
        """Put a notification with those whose keys are not fixed."""
        self._loose[identity_of(notification)] = notification
        if notification.sequence is not None:
            insort(self._numbered.setdefault(notification.producer, []), _number(notification))

    def _fix(self, key: OrderKey) -> None:
        notification = self._loosen(key.identity)
        self._fixed[key.identity] = key, notification
        heappush(self._ready, (key.rank, key, notification))
        if key.sequence is not None and _number(self._last.get(key.producer, key)) <= _number(key):
            self._last[key.producer] = key

    def _loosen(self, identity: Identity) -> Notification:
        """Take a notification out of those whose keys are not fixed."""
        notification = self._loose.pop(identity)
        if notification.sequence is not None:
            chain = self._numbered[identity.producer]
            del chain[bisect_left(chain, _number(notification))]
            if not chain:
                del self._numbered[identity.producer]
        return notification

    def _keys_of(self, identities: Iterable[Identity]) -> dict[Identity, OrderKey]:
        """The keys of notifications, as things stand, and of what they follow."""
        concerned = [self._loose[identity] for identity in self._followed(identities)]
        return {key.identity: key for key in _keys(concerned, self._floor)}

    def _floor(self, notification: Notification) -> int:
        """No order time is below it, because of what is fixed."""
        times = [event_time(notification)]
        if notification.sequence is not None and notification.producer in self._last:
            times.append(self._last[notification.producer].time)
        for cause in causes_of(notification):
            if cause in self._fixed:
                times.append(_behind(self._fixed[cause][0], notification))
        return max(times)

    def _followed(self, identities: Iterable[Identity]) -> dict[Identity, None]:
        """The identities and all that they follow, as far as it is not fixed."""
        found = dict.fromkeys(identities)
        ahead = list(found)
        while ahead:
            notification = self._loose[ahead.pop()]
            for each in (*causes_of(notification), *self._before(notification)):
                if each in self._loose and each not in found:
                    found[each] = None
                    ahead.append(each)
        return found

    def _before(self, notification: Notification) -> tuple[Identity, ...]:
        if notification.sequence is None:
            return ()
        chain = self._numbered[notification.producer]
        place = bisect_left(chain, _number(notification))
        return (Identity(notification.producer, chain[place - 1][1]),) if place else ()


# -- identities --------------------------------------------------------------------------------------------


class Identities:
    """Gives ids to records that have none, and remembers the identities that are settled: released, or late.

    A record without an id gets the hash of its content and its number among its equals: equal
    records are interchangeable, so any order of arrival makes the same set of notifications. Their numbers, and
    the ids that were made of them, are forgotten once the watermark has passed the record's time: an equal that
    comes later is late by its own time. Other identities are remembered for `remember_us` microseconds behind
    the order time at which they were settled, the latest `remembered` of them.
    """

    __slots__ = (
        "_counts",
        "_counts_by_time",
        "_made",
        "_remember_us",
        "_remembered",
        "_settled",
        "_settled_by_time",
    )

    def __init__(self, remember_us: int = REMEMBER_US, remembered: int = REMEMBERED) -> None:
        if remember_us < 0 or remembered < 1:
            raise ValueError(f"not a memory of identities: {remembered} for {remember_us} microseconds")
        self._remember_us, self._remembered = remember_us, remembered
        self._settled: dict[Identity, int] = {}
        self._settled_by_time: list[tuple[int, Identity]] = []
        self._counts: dict[str, int] = {}
        self._counts_by_time: list[tuple[int, str]] = []
        self._made: set[Identity] = set()

    def identified(self, notification: Notification) -> Notification:
        """The notification with an id."""
        if notification.id is not None:
            return notification
        digest = content_hash(notification)
        number = self._counts[digest] = self._counts.get(digest, 0) + 1
        heappush(self._counts_by_time, (event_time(notification), digest))
        notification = replace(notification, id=f"{digest}-{number}")
        self._made.add(identity_of(notification))
        return notification

    def settle(self, notification: Notification, time: int) -> None:
        """Remember the identity of a notification that was settled at an order time."""
        identity, expiry = identity_of(notification), time + self._remember_us
        if identity in self._made:
            self._made.discard(identity)
            expiry = max(time, event_time(notification))
        if expiry > self._settled.get(identity, BEGINNING):
            self._settled[identity] = expiry
            heappush(self._settled_by_time, (expiry, identity))
        while len(self._settled) > self._remembered:
            self._forget_eldest()

    def forget(self, watermark: int) -> None:
        """Forget what the watermark has passed, and the time to remember it has, too."""
        while self._counts_by_time and self._counts_by_time[0][0] < watermark:
            self._counts.pop(heappop(self._counts_by_time)[1], None)
        while self._settled_by_time and self._settled_by_time[0][0] < watermark:
            self._forget_eldest()

    def _forget_eldest(self) -> None:
        expiry, identity = heappop(self._settled_by_time)
        if self._settled.get(identity) == expiry:
            del self._settled[identity]

    def __contains__(self, identity: Identity) -> bool:
        return identity in self._settled

    def __len__(self) -> int:
        """The number of remembered identities."""
        return len(self._settled)


class LatestIdentities:
    """`Identities` where there is no watermark: bounded by number, it remembers the latest ones.

    A record without an id gets the hash of its content and its number among its equals, so that
    publishing equal records twice makes two notifications, with the same two ids on every run. Both memories
    have the same size, so the count of a record is forgotten only after the ids that were made with it.
    """

    __slots__ = ("_counts", "_remembered", "_seen")

    def __init__(self, remembered: int) -> None:
        if remembered < 1:
            raise ValueError(f"at least one identity is remembered, not {remembered}")
        self._remembered = remembered
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._counts: OrderedDict[str, int] = OrderedDict()

    def take(self, notification: Notification, digest: str | None = None) -> Notification | None:
        """The notification with an id, which is now remembered; None where it was seen before."""
        if digest is not None:
            number = self._counts.get(digest, 0) + 1
            self._counts[digest] = number
            self._counts.move_to_end(digest)
            self._forget_eldest(self._counts)
            notification = replace(notification, id=f"{digest}-{number}")
        return notification if self.take_identity(identity_of(notification)) else None

    def take_identity(self, identity: tuple[str, str]) -> bool:
        """Whether producer and id were not seen before; now they were."""
        seen = self._seen
        if identity in seen:
            return False
        seen[identity] = None
        if len(seen) > self._remembered:
            seen.popitem(last=False)
        return True

    def recall(self, identity: tuple[str, str]) -> None:
        """An identity of an earlier life: it was seen, and so were the equals of a record that it numbers."""
        self.take_identity(identity)
        digest, _, number = identity[1].rpartition("-")
        if digest and number.isdecimal() and number.isascii() and len(number) < 19:
            self._counts[digest] = max(self._counts.get(digest, 0), int(number))
            self._counts.move_to_end(digest)
            self._forget_eldest(self._counts)

    def forget(self, identity: tuple[str, str]) -> None:
        """As if it had not been seen."""
        self._seen.pop(identity, None)

    def __contains__(self, identity: Identity) -> bool:
        return identity in self._seen

    def _forget_eldest(self, memory: OrderedDict[Any, Any]) -> None:
        if len(memory) > self._remembered:
            memory.popitem(last=False)


class LatestContents:
    """The attributes of the latest notifications, to distinguish a conflict from a plain duplicate.

    They are compared when a duplicate comes, and not before: publishing costs nothing.
    """

    __slots__ = ("_remembered", "_seen")

    def __init__(self, remembered: int = 10_000) -> None:
        self._remembered = remembered
        self._seen: OrderedDict[Identity, tuple[Record, Any]] = OrderedDict()

    def remember(self, notification: Notification) -> None:
        """Remember one more, with its id; the eldest is forgotten."""
        self._seen[identity_of(notification)] = notification.attributes, notification.document
        if len(self._seen) > self._remembered:
            self._seen.popitem(last=False)

    def differs(self, notification: Notification) -> bool:
        """Whether the notification with the same identity is remembered, and has other content."""
        seen = self._seen.get(identity_of(notification))
        return seen is not None and seen != (notification.attributes, notification.document)
