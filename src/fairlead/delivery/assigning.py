"""Assignments: the member that holds a delivery, for the how-manieth time, and until when.

The deliveries of a subscriber that accepts them have ordinals, in a log or a queue, which rise. An ordinal is held
by one member, or waits, or is settled. A subscriber that is not shared has one member.

    Laws
    An ordinal is held by at most one member at a time; what another member says about it counts for nothing.
    One that a member rejects, does not accept in time, or holds when it leaves comes again; the attempt rises.
    One is dead iff it was rejected or not accepted in time `attempts_max` times; what is dead is not accepted.
    With keys, unsettled ordinals of one key are held by one member, and are handed out in their order.

The embedded bus and brokers drive this program; it has no clock and no content, and returns what is to be done.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from fairlead.errors import ValueRefused

__all__ = ["NEUTRAL", "WINDOW", "Assignments", "Count", "Handout", "Terms"]

Member = TypeVar("Member", bound=Hashable)

WINDOW: Final = 100
"""The number of ordinals that a member of a shared subscriber holds at most, where it does not say."""
WINDOW_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms on which deliveries are handed out and accepted; those that say nothing are neutral."""

    is_shared: bool = False
    """Whether each delivery goes to one of several members."""
    per: str = ""
    """The attribute whose values are keys: deliveries of one key go to one member, in their order."""
    window: int = 0
    """The number of deliveries that a member holds at most; 0: the default."""
    attempts_max: int = 0
    """After so many failed attempts a delivery is dead; 0: never."""
    accept_within_us: int = 0
    """The time a member may hold a delivery without a word; 0: for ever."""

    def __post_init__(self) -> None:
        if not 0 <= self.window <= WINDOW_MAX:
            raise ValueRefused(f"a window is between 1 and {WINDOW_MAX:,}, not {self.window}")
        if self.attempts_max < 0:
            raise ValueRefused(f"at least one attempt, not {self.attempts_max}")
        if self.accept_within_us < 0:
            raise ValueRefused("a time for accepting is positive")
        if self.per and not self.is_shared:
            raise ValueRefused(
                "keys are for shared subscribers: one member gets everything in its order",
                hint="leave `per` out, or share the subscriber",
            )

    @property
    def is_neutral(self) -> bool:
        """Whether nothing is different from a subscriber without terms."""
        return self == NEUTRAL


NEUTRAL: Final = Terms()


class Count(NamedTuple):
    """The number of times that a delivery was handed out in vain, and of its holders that failed on it."""

    attempts: int = 0
    failures: int = 0


class Handout(NamedTuple, Generic[Member]):
    """An ordinal goes to a member, for the how-manieth time."""

    ordinal: int
    member: Member
    attempt: int


@dataclass(slots=True)
class _Held(Generic[Member]):
    member: Member
    attempt: int
    deadline: int


class Assignments(Generic[Member]):
    """The ordinals of one subscriber that are not settled. Whoever uses it from several threads holds a lock."""

    __slots__ = (
        *("_deadlines", "_delayed", "_due", "_held", "_keys", "_of_key", "_served", "_turn"),
        *("counts", "members", "terms", "window"),
    )

    def __init__(
        self, terms: Terms, counts: Mapping[int, Count] | None = None, window: int = WINDOW_MAX
    ) -> None:
        """`window` is how many ordinals a member holds at most where the terms say nothing of that."""
        self.terms = terms
        self.window = terms.window or (WINDOW if terms.is_shared else window)
        self.members: dict[Member, dict[int, None]] = {}
        """The ordinals that each member holds."""
        self.counts: dict[int, Count] = dict(counts or {})
        """Of ordinals that were handed out in vain. The others have never been."""
        self._held: dict[int, _Held[Member]] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._due: list[int] = []
        self._delayed: list[tuple[int, int]] = []
        self._keys: dict[int, Hashable] = {}
        self._of_key: dict[Hashable, dict[int, None]] = {}
        self._served: dict[Member, int] = {}
        self._turn = 0

    # -- members ---------------------------------------------------------------------------------------------

    def join(self, member: Member) -> None:
        """One more member."""
        self.members.setdefault(member, {})
        self._served.setdefault(member, 0)

    def leave(self, member: Member) -> None:
        """A member is gone: the ordinals that it holds come again, though nobody has failed."""
        for ordinal in [*self.members.pop(member, ())]:
            self._take_back(ordinal, has_failed=False)
            heapq.heappush(self._due, ordinal)
        self._served.pop(member, None)

    @property
    def room(self) -> int:
        """The number of ordinals more that the members may hold, beside those that wait."""
        if self._due and not self.terms.is_shared:
            return 0  # what waits comes first: one member gets everything in its order
        held = sum(map(len, self.members.values()))
        return len(self.members) * self.window - held - self.waiting

    @property
    def waiting(self) -> int:
        """The number of ordinals that no member holds."""
        return len(self._due) + len(self._delayed)

    def holds(self, member: Member, ordinal: int) -> bool:
        """Whether a member holds an ordinal."""
        held = self._held.get(ordinal)
        return held is not None and held.member == member

    def attempt(self, member: Member, ordinal: int) -> int | None:
        """For the how-manieth time a member holds an ordinal; None: it does not."""
        held = self._held.get(ordinal)
        return held.attempt if held is not None and held.member == member else None

    # -- handing out -----------------------------------------------------------------------------------------

    def offer(
        self,
        ordinal: int,
        now: int,
        key: Hashable = None,
        may: Callable[[Member], bool] = lambda member: True,
    ) -> Handout[Member] | None:
        """An ordinal is to be handed out, behind all that were offered before it; None: it waits.

        `may` says whether a member can be handed anything now.
        """
        if self.terms.per and ordinal not in self._keys:
            self._keys[ordinal] = key
            self._of_key.setdefault(key, {})[ordinal] = None
        handout = self._hand(ordinal, now, may)
        if handout is None:
            heapq.heappush(self._due, ordinal)
        return handout

    def assign(
        self, now: int, may: Callable[[Member], bool] = lambda member: True
    ) -> Iterator[Handout[Member]]:
        """Hand out what waits, in the order of ordinals, as far as there is room and the time has come."""
        while self._delayed and self._delayed[0][0] <= now:
            heapq.heappush(self._due, heapq.heappop(self._delayed)[1])
        kept: list[int] = []
        try:
            while self._due and any(self._has_room(member, may) for member in self.members):
                ordinal = heapq.heappop(self._due)
                handout = self._hand(ordinal, now, may)
                if handout is None:
                    kept.append(ordinal)
                else:
                    yield handout
        finally:
            for ordinal in kept:
                heapq.heappush(self._due, ordinal)

    def _hand(self, ordinal: int, now: int, may: Callable[[Member], bool]) -> Handout[Member] | None:
        member = self._choice(ordinal, may)
        if member is None:
            return None
        attempt = self.counts[ordinal].attempts + 1 if ordinal in self.counts else 1
        within = self.terms.accept_within_us
        self._held[ordinal] = _Held(member, attempt, now + within if within else 0)
        if within:
            heapq.heappush(self._deadlines, (now + within, ordinal))
        self.members[member][ordinal] = None
        self._turn += 1
        self._served[member] = self._turn
        return Handout(ordinal, member, attempt)

    def _choice(self, ordinal: int, may: Callable[[Member], bool]) -> Member | None:
        """The member that gets an ordinal: that of its key, or the one with the fewest; of equals, the one that
        was served longest ago."""
        if self.terms.per:
            of_key = self._of_key[self._keys[ordinal]]
            for other in of_key:
                if other in self._held:
                    member = self._held[other].member
                    return member if self._is_next(ordinal, of_key) and self._has_room(member, may) else None
            if not self._is_next(ordinal, of_key):
                return None
        return min(
            (member for member in self.members if self._has_room(member, may)),
            key=lambda member: (len(self.members[member]), self._served[member]),
            default=None,
        )

    def _is_next(self, ordinal: int, of_key: dict[int, None]) -> bool:
        """Whether no earlier ordinal of its key waits."""
        return all(other >= ordinal or other in self._held for other in of_key)

    def _has_room(self, member: Member, may: Callable[[Member], bool]) -> bool:
        return len(self.members[member]) < self.window and may(member)

    # -- what members say ------------------------------------------------------------------------------------

    def accept(self, member: Member, ordinal: int) -> bool:
        """A member has dealt with an ordinal; False: it does not hold it, and nothing has happened."""
        if not self.holds(member, ordinal):
            return False
        self._drop(ordinal)
        self._forget(ordinal)
        return True

    def reject(self, member: Member, ordinal: int, now: int, after_us: int = 0) -> bool | None:
        """A member has failed on an ordinal, which comes again, not before a delay; whether it is dead instead,
        and is to be settled. None: the member does not hold it."""
        if not self.holds(member, ordinal):
            return None
        return self._fail(ordinal, now + after_us if after_us else 0)

    def renew(self, member: Member, ordinal: int, now: int) -> bool:
        """A member is still at work: its time begins anew; False: it does not hold the ordinal."""
        if not self.holds(member, ordinal):
            return False
        if within := self.terms.accept_within_us:
            self._held[ordinal].deadline = now + within
            heapq.heappush(self._deadlines, (now + within, ordinal))
        return True

    def overdue(self, now: int) -> list[int]:
        """The ordinals that were not accepted in time come again; those that are dead instead, and are to be
        settled."""
        dead: list[int] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, ordinal = heapq.heappop(self._deadlines)
            held = self._held.get(ordinal)
            if held is not None and held.deadline == deadline and self._fail(ordinal, 0):
                dead.append(ordinal)
        return dead

    def next_time(self) -> int | None:
        """When something happens by itself: an ordinal is overdue, or its delay ends."""
        times = [heap[0][0] for heap in (self._deadlines, self._delayed) if heap]
        return min(times, default=None)

    def settle(self, ordinal: int) -> None:
        """An ordinal is done with: accepted, dead with its letter safe, or nobody's any longer."""
        self._drop(ordinal)
        self._forget(ordinal)
        if ordinal in self._due:
            self._due.remove(ordinal)
            heapq.heapify(self._due)
        if any(ordinal == other for _, other in self._delayed):
            self._delayed = [each for each in self._delayed if each[1] != ordinal]
            heapq.heapify(self._delayed)

    def _forget(self, ordinal: int) -> None:
        self.counts.pop(ordinal, None)
        if self.terms.per and ordinal in self._keys:
            key = self._keys.pop(ordinal)
            del self._of_key[key][ordinal]
            if not self._of_key[key]:
                del self._of_key[key]

    def withdraw(self, ordinal: int) -> None:
        """Take an ordinal back from whoever holds it: it is offered again, and its attempts still count."""
        if ordinal in self._held:
            self._take_back(ordinal, has_failed=False)
        count = self.counts.get(ordinal)
        self.settle(ordinal)
        if count is not None:
            self.counts[ordinal] = count

    def wait(self, ordinal: int, until: int, key: Hashable = None) -> None:
        """Have an ordinal wait until a time: one that is dead has no letter yet, or comes back from the dead."""
        if self.terms.per and ordinal not in self._keys:
            self._keys[ordinal] = key
            self._of_key.setdefault(key, {})[ordinal] = None
        heapq.heappush(self._delayed, (until, ordinal))

    def _fail(self, ordinal: int, not_before: int) -> bool:
        self._take_back(ordinal, has_failed=True)
        most = self.terms.attempts_max
        if most and self.counts[ordinal].failures >= most:
            return True
        if not_before:
            heapq.heappush(self._delayed, (not_before, ordinal))
        else:
            heapq.heappush(self._due, ordinal)
        return False

    def _take_back(self, ordinal: int, *, has_failed: bool) -> None:
        attempts, failures = self.counts.get(ordinal, Count())
        self.counts[ordinal] = Count(attempts + 1, failures + has_failed)
        self._drop(ordinal)

    def _drop(self, ordinal: int) -> None:
        held = self._held.pop(ordinal, None)
        if held is not None:
            self.members.get(held.member, {}).pop(ordinal, None)

    def __len__(self) -> int:
        """The number of ordinals that are not settled."""
        return len(self._held) + self.waiting
