"""Epidemic multicast: peers tell others, chosen by hashing, and nearly everybody or everybody is reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil, exp, log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import ValueRefused
from fairlead.filters import EVERYTHING, parse
from fairlead.model import Notification
from fairlead.model.order import Identity
from fairlead_lab.routing.epidemic import (
    Gossip,
    GossipEffect,
    Notify,
    Peer,
    Tell,
    chosen,
    coverage,
    fanout_for,
    fanout_for_all,
)

RUMOUR = Identity("peer0", "rumour")


def members_of(n: int) -> list[str]:
    return [f"peer{number}" for number in range(n)]


def rumour(**attributes: object) -> Notification:
    return Notification.of({"producer": RUMOUR.producer, "id": RUMOUR.id, **attributes})


def run(
    peers: dict[str, Peer], published: Sequence[Notification], order: Random | None = None
) -> tuple[Counter[str], int]:
    """Publish at the first peer and carry out all effects, in turn or in any order: deliveries, messages."""
    ahead: list[tuple[str, GossipEffect]] = []
    delivered: Counter[str] = Counter()
    messages = 0
    first = next(iter(peers))
    for notification in published:
        ahead += ((first, effect) for effect in peers[first].publish(notification))
    while ahead:
        name, effect = ahead.pop(order.randrange(len(ahead)) if order else 0)
        match effect:
            case Tell(peer, gossip):
                messages += 1
                ahead += ((peer, each) for each in peers[peer].handle(gossip))
            case Notify():
                delivered[name] += 1
    return delivered, messages


@given(st.integers(1, 12), st.integers(1, 14), st.integers(), st.text(max_size=3), st.integers(0, 11))
def test_a_peer_tells_so_many_others_and_never_itself(
    n: int, fanout: int, seed: int, id: str, at: int
) -> None:
    members = members_of(n)
    peer = members[at % n]
    told = chosen(members, fanout, seed, Identity("p", id), peer)
    assert len(told) == len(set(told)) == min(fanout, n - 1)
    assert set(told) <= set(members) - {peer}
    assert told == chosen(members, fanout, seed, Identity("p", id), peer)


def test_the_choice_is_the_same_on_any_machine() -> None:
    assert chosen(members_of(100), 3, 7, RUMOUR, "peer0") == ["peer17", "peer32", "peer10"]


def test_the_choice_depends_on_seed_notification_and_peer_and_is_spread_evenly() -> None:
    members = members_of(50)
    base = chosen(members, 3, 0, RUMOUR, "peer0")
    assert base != chosen(members, 3, 1, RUMOUR, "peer0")
    assert base != chosen(members, 3, 0, Identity("peer0", "other"), "peer0")
    assert base != chosen(members, 3, 0, RUMOUR, "peer1")
    # ("a", "bc") and ("ab", "c") are two identities: what is hashed keeps its parts apart.
    assert chosen(members, 3, 0, Identity("a", "bc"), "p") != chosen(members, 3, 0, Identity("ab", "c"), "p")
    told = Counter(each for seed in range(2_000) for each in chosen(members, 3, seed, RUMOUR, "peer0"))
    assert len(told) == 49
    assert all(80 < times < 170 for times in told.values())  # 122 each, deviation 11


@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 1_000), st.randoms(use_true_random=False))
def test_peers_reach_whom_the_simulation_in_rounds_reaches_in_any_order_of_arrival(
    n: int, fanout: int, seed: int, order: Random
) -> None:
    peers = {name: Peer(name, members_of(n), fanout, seed=seed) for name in members_of(n)}
    for peer in peers.values():
        peer.subscribe("all", EVERYTHING)
    delivered, messages = run(peers, [rumour()], order)
    counted = coverage(n, fanout, [seed])
    assert set(delivered.values()) == {1}  # once at most, however often it came
    assert len(delivered) == counted.reached.mean
    assert messages == counted.messages.mean


def test_every_peer_delivers_what_its_own_filters_match_and_passes_on_the_rest_too() -> None:
    members = members_of(3)
    peer = Peer("peer1", members, 2)
    peer.subscribe("cheap", parse("price < 10"))
    peer.subscribe("acme", parse('name = "acme"'))
    peer.subscribe("dear", parse("price > 10"))
    both = rumour(price=5, name="acme")
    first, *told = peer.handle(Gossip(both, 3))
    assert first == Notify(both, ("acme", "cheap"))
    assert told == [Tell("peer0", Gossip(both, 4)), Tell("peer2", Gossip(both, 4))]
    assert peer.handle(Gossip(both, 1)) == []
    peer.unsubscribe("dear")
    peer.unsubscribe("dear")
    other = Notification.of({"id": "2", "price": 50})
    assert peer.publish(other) == [Tell(each, Gossip(other, 1)) for each in ("peer0", "peer2")]


def test_memory_is_bounded_and_what_was_forgotten_is_news() -> None:
    peer = Peer("peer0", members_of(2), 1, remembered=2)
    one, two, three = (Notification.of({"id": str(number)}) for number in (1, 2, 3))
    assert [len(peer.publish(each)) for each in (one, two, one, three, two, one)] == [1, 1, 0, 1, 0, 1]


def test_gossip_ends_even_where_every_peer_forgets_at_once() -> None:
    peers = {name: Peer(name, members_of(4), 2, remembered=1, rounds_max=6) for name in members_of(4)}
    notifications = [Notification.of({"id": str(number)}) for number in range(3)]
    _, messages = run(peers, notifications)
    assert 3 * 2 * 4 <= messages <= 3 * sum(2**hop for hop in range(1, 7))


def test_a_notification_without_an_id_cannot_be_gossiped() -> None:
    with pytest.raises(ValueRefused, match="without an id"):
        Peer("peer0", members_of(2), 1).publish(Notification.of({"price": 1}))


def test_one_told_by_each_reaches_few_and_all_told_by_each_reaches_all_at_once() -> None:
    chain, complete = coverage(100, 1, range(20)), coverage(20, 19, range(3))
    assert chain.share < 0.3
    assert chain.messages.mean == chain.reached.mean == chain.rounds.mean + 1
    assert (complete.complete, complete.share) == (3, 1.0)
    assert (complete.messages.least, complete.messages.most, complete.rounds.most) == (20 * 19, 20 * 19, 1)


@pytest.mark.parametrize("fanout", [2, 3, 4])
def test_the_share_that_is_missed_is_the_final_size_of_an_epidemic(fanout: int) -> None:
    missed = 0.0
    for _ in range(100):
        missed = exp(-fanout * (1 - missed))
    counted = coverage(400, fanout, range(20))
    assert 1 - counted.share == pytest.approx(missed, rel=0.25)
    assert counted.messages.mean == pytest.approx(fanout * counted.reached.mean)


@pytest.mark.parametrize("miss", [0.3, 0.15, 0.1, 0.02, 0.005])
def test_the_fanout_for_a_probability_of_missing_one_is_the_least_that_keeps_it(miss: float) -> None:
    fanout = fanout_for(300, miss)
    assert 1 - coverage(300, fanout, range(30)).share <= miss * 1.2
    assert 1 - coverage(300, fanout - 1, range(30)).share > miss * 0.8


@pytest.mark.parametrize("miss", [0.5, 0.1])
def test_the_fanout_for_reaching_all_does_so_about_as_often_as_estimated(miss: float) -> None:
    fanout = fanout_for_all(150, miss)
    counted = coverage(150, fanout, range(60))
    assert counted.complete >= 60 * (1 - miss) - 6
    assert coverage(150, fanout - 3, range(60)).complete < 60 * (1 - miss)


@given(st.integers(1, 10**6), st.floats(0.0, 1.0, exclude_min=True, exclude_max=True))
def test_fanouts_rise_as_less_may_be_missed_and_stay_within_the_peers(n: int, miss: float) -> None:
    one, every = fanout_for(n, miss), fanout_for_all(n, miss)
    assert min(1, n - 1) <= one <= max(n - 1, 0)
    assert min(1, n - 1) <= every <= max(n - 1, 0)
    if miss / 2 > 0.0:
        assert fanout_for(n, miss / 2) >= one
        assert fanout_for_all(n, miss / 2) >= every
    if 1e-9 < miss < 0.99 and n > 1_000:  # where floats are good enough to compare with
        assert abs(one - ceil(-log(miss) / (1 - miss))) <= 1
        assert abs(every - max(1, ceil(log(n) - log(-log(1 - miss))))) <= 1


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Peer("a", ["a", "b"], 0), "ends at once"),
        (lambda: coverage(5, 1, []), "give a seed"),
        (lambda: coverage(0, 1, [1]), "somebody to start it"),
        (lambda: fanout_for(5, 0.0), "between 0 and 1"),
        (lambda: fanout_for_all(5, 1.0), "between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make()
