"""Epidemic multicast, and publish/subscribe among peers without any broker (book 4.7, after Demers et al.).

    whoever gets a notification for the first time tells it to f peers, chosen at random
    a peer delivers a notification once at most, and only if one of its own filters matches it

Nobody keeps routing tables: every peer gets everything, with a probability that f sets, and filters what it
gets. **Chance is a function of (seed, notification, peer)**: the peers that one tells something to are
drawn from the hash of these three, so a replay tells the same peers, on any machine and in any order of
arrival.

How large has f to be? With π for the share of peers that are missed, each of the (1-π)n others tells a given
peer with probability f/n, so

    π = (1 - f/n)^((1-π)n) ≈ e^(-f(1-π))        about e^(-f) once f is not very small

(the final size of an epidemic, Kermack and McKendrick). That **nobody** is missed has a threshold at ln n:

    f = ln n + c   reaches all with probability e^(-e^(-c))

(Kermarrec, Massoulié, Ganesh: "Probabilistic reliable dissemination in large-scale systems", 2003, after Erdős
and Rényi). Both hold for many peers; `coverage` counts instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from statistics import fmean, pstdev
from typing import Final, TypeAlias

from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.model.order import Identity, LatestIdentities, identity_of
from fairlead_lab.routing.chance import seeded

__all__ = [
    "Coverage",
    "Gossip",
    "GossipEffect",
    "Notify",
    "Peer",
    "Spread",
    "Tell",
    "chosen",
    "coverage",
    "fanout_for",
    "fanout_for_all",
    "miss_probability",
]

REMEMBERED: Final = 65_536
"""So many notifications a peer remembers to have seen."""
ROUNDS_MAX: Final = 64
"""After so many hops a notification ends. With two or more told by each, a rumour is over long before."""

DIGITS: Final = 350
"""To compute with in decimals, whose logarithms are the same on any machine: 1 - p is not 1 for any float p."""


@dataclass(frozen=True, slots=True)
class Gossip:
    """A notification on its way, after so many hops."""

    notification: Notification
    hops: int = 0


@dataclass(frozen=True, slots=True)
class Tell:
    """Send this to a peer."""

    peer: str
    gossip: Gossip


@dataclass(frozen=True, slots=True)
class Notify:
    """notify(n) at this peer: deliver n, for those of the peer's subscriptions that match it; sorted."""

    notification: Notification
    subscriptions: tuple[str, ...]


GossipEffect: TypeAlias = Notify | Tell


class Peer:
    """Client and service in one: gossip in, effects out.

    `members` are all peers, this one included; peers in one process may share them. Of what a peer has seen it
    remembers the latest identities only. An older one that comes back is news again, so the memory
    has to be larger than the number of notifications under way; that gossip ends is ensured by `rounds_max`.
    """

    def __init__(
        self,
        name: str,
        members: Sequence[str],
        fanout: int,
        *,
        seed: int = 0,
        remembered: int = REMEMBERED,
        rounds_max: int = ROUNDS_MAX,
    ) -> None:
        if fanout < 1:
            raise ValueError(f"a rumour that nobody is told ends at once: the fanout is {fanout}")
        self.name = name
        self.members = members
        self.fanout = fanout
        self.seed = seed
        self.rounds_max = rounds_max
        self.subscriptions: dict[str, Filter] = {}
        self._seen = LatestIdentities(remembered)

    def subscribe(self, id: str, filter: Filter) -> None:
        """Deliver what a filter matches from now on. Nobody else is told."""
        self.subscriptions[id] = filter

    def unsubscribe(self, id: str) -> None:
        """Do not deliver for a subscription any more; one that is not there is no error."""
        self.subscriptions.pop(id, None)

    def publish(self, notification: Notification) -> list[GossipEffect]:
        """Start a rumour. The notification has an id; one that was seen already is published for nothing."""
        return self.handle(Gossip(notification))

    def handle(self, gossip: Gossip) -> list[GossipEffect]:
        """Deliver and pass on what is new; forget about what is not."""
        notification = gossip.notification
        if self._seen.take(notification) is None:
            return []
        effects: list[GossipEffect] = []
        if matching := sorted(id for id, each in self.subscriptions.items() if each.matches(notification)):
            effects.append(Notify(notification, tuple(matching)))
        if gossip.hops < self.rounds_max:
            told = chosen(self.members, self.fanout, self.seed, identity_of(notification), self.name)
            effects += (Tell(peer, Gossip(notification, gossip.hops + 1)) for peer in told)
        return effects


def chosen(members: Sequence[str], fanout: int, seed: int, identity: Identity, peer: str) -> list[str]:
    """The peers that a peer tells a notification: so many others (all, if they are fewer), by the hash of the
    rest.
    """
    if fanout >= len(members) - 1:
        return [each for each in members if each != peer]
    rng = seeded(seed, *identity, peer)
    # Drawn again until they differ. `Random.sample` computes with floats on the way.
    told: dict[str, None] = {}
    while len(told) < fanout:
        each = members[rng.randrange(len(members))]
        if each != peer:
            told[each] = None
    return list(told)


@dataclass(frozen=True, slots=True)
class Spread:
    """Some counts: their mean, their standard deviation, the least and the greatest."""

    mean: float
    deviation: float
    least: int
    most: int

    @classmethod
    def of(cls, counts: Sequence[int]) -> Spread:
        """Of at least one count."""
        return cls(fmean(counts), pstdev(counts), min(counts), max(counts))


@dataclass(frozen=True, slots=True)
class Coverage:
    """The reach of rumours, each started by one of n peers."""

    peers: int
    fanout: int
    runs: int
    complete: int
    """In how many runs all peers were reached."""
    reached: Spread
    messages: Spread
    rounds: Spread
    """The number of rounds until the last peer that was reached had it."""

    @property
    def share(self) -> float:
        """The share of the peers that a rumour reached, on average."""
        return self.reached.mean / self.peers


def coverage(n: int, fanout: int, seeds: Iterable[int]) -> Coverage:
    """Spread a rumour among n peers, once per seed, in rounds: what is told in one is passed on in the next."""
    if n < 1:
        raise ValueError(f"a rumour needs somebody to start it: {n} peers")
    members = [f"peer{number}" for number in range(n)]
    runs = [_rumour(members, fanout, seed) for seed in seeds]
    if not runs:
        raise ValueError("there is no mean of no runs: give a seed")
    reached, messages, rounds = zip(*runs, strict=True)
    return Coverage(
        peers=n,
        fanout=fanout,
        runs=len(runs),
        complete=reached.count(n),
        reached=Spread.of(reached),
        messages=Spread.of(messages),
        rounds=Spread.of(rounds),
    )


def _rumour(members: Sequence[str], fanout: int, seed: int) -> tuple[int, int, int]:
    """Peers reached, messages and rounds of one rumour, started by the first member."""
    identity = Identity(members[0], "rumour")
    reached, newly = {members[0]}, [members[0]]
    messages = rounds = 0
    while newly:
        told = [each for peer in newly for each in chosen(members, fanout, seed, identity, peer)]
        messages += len(told)
        newly = [each for each in dict.fromkeys(told) if each not in reached]
        reached.update(newly)
        rounds += bool(newly)
    return len(reached), messages, rounds


def miss_probability(n: int, fanout: int) -> float:
    """The probability that one of n peers misses a rumour: the least π with π = (1 - f/n)^((1-π)n)."""
    if fanout >= n - 1:
        return 0.0
    missed = 0.0
    for _ in range(10_000):
        missed, before = (1 - fanout / n) ** ((1 - missed) * n), missed
        if abs(missed - before) < 1e-12:
            break
    return missed


def fanout_for(n: int, miss_probability: float) -> int:
    """The least fanout with which one of n peers is missed with at most this probability, as estimated.

    That is the least f with e^(-f(1-p)) <= p, so f = ln(1/p) / (1-p). The simpler e^(-f) <= p is about the same
    where p is small, but promises too much elsewhere: with f = 2 a fifth of the peers is missed, not e^(-2).
    """
    p = _probability(miss_probability)
    with localcontext(prec=DIGITS):
        return _whole(-p.ln() / (1 - p), n)


def fanout_for_all(n: int, miss_probability: float) -> int:
    """The least fanout with which any of n peers is missed with at most this probability, as estimated.

    f = ln n + c, where e^(-e^(-c)) is the probability that all are reached.
    """
    p = _probability(miss_probability)
    with localcontext(prec=DIGITS):
        return _whole(Decimal(max(n, 1)).ln() - (-(1 - p).ln()).ln(), n)


def _probability(given: float) -> Decimal:
    if not 0 < given < 1:
        raise ValueError(f"a probability of missing lies between 0 and 1: {given}")
    return Decimal(given)


def _whole(fanout: Decimal, n: int) -> int:
    """The next whole fanout: at least one, at most all others, who are then reached for certain."""
    return min(max(int(fanout.to_integral_value(ROUND_CEILING)), 1), max(n - 1, 0))
