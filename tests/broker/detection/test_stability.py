"""An event is consumed when it is stable, or as the policy allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import ValueRefused
from fairlead.model.order import BEGINNING, END
from fairlead_lab.broker.detection import Consume, DetectionPolicy, Stability

A, B = frozenset({"a"}), frozenset({"b"})


def stability(policy: DetectionPolicy | None = None, *groups: frozenset[str]) -> Stability:
    return Stability(policy or DetectionPolicy(), groups or (A, B))


def test_nothing_is_stable_before_every_source_was_heard() -> None:
    known = stability()
    assert known.bound(now=0) == BEGINNING
    known.heard("a", "a", until=10, now=11)
    assert known.bound(now=1_000_000) == BEGINNING
    known.heard("b", "b", until=7, now=12)
    assert known.bound(now=12) == 7
    assert Stability(DetectionPolicy(), ()).bound(now=0) == END


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 50), st.integers(0, 20)), max_size=30))
def test_nothing_that_ends_before_a_guaranteed_bound_comes_later(told: list[tuple[str, int, int]]) -> None:
    # Each source sends events with rising times, which arrive in their order after some delay.
    sent: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
    for source, step, delay in told:
        time = (sent[source][-1][0] if sent[source] else 0) + step
        arrival = max(time + delay, sent[source][-1][1] if sent[source] else 0)
        sent[source].append((time, arrival))
    arrivals = sorted((arrival, time, source) for source in sent for time, arrival in sent[source])
    known = stability()
    bound = BEGINNING
    for now, time, source in arrivals:
        assert time >= bound
        known.heard(source, source, time, now)
        bound = known.bound(now)


def test_of_redundant_sources_one_is_enough() -> None:
    known = stability(None, A, frozenset({"b", "c"}))
    known.heard("a", "a", 10, 10)
    known.heard("c", "c", 8, 10)
    assert known.bound(10) == 8
    known.heard("b", "b", 9, 11)
    assert known.bound(11) == 9


def test_a_source_that_moves_is_taken_at_its_word_when_the_old_place_has_said_its_last() -> None:
    known = stability(None, A)
    known.heard("a", "a@1", 10, 10)
    known.heard("a", "a@2", 50, 12)  # overtakes what the old place has sent
    assert known.bound(12) == 10
    known.heard("a", "a@1", 20, 13)
    known.moved("a", "a@1", "a@2")
    assert known.bound(13) == 50
    known.moved("a", "a@1", "a@3")  # said before, and heard again
    assert known.bound(13) == 50


def test_a_timeout_waits_for_nobody_longer_than_that() -> None:
    known = stability(DetectionPolicy(Consume.TIMEOUT, timeout_us=100))
    known.heard("a", "a", 500, 500)
    assert known.bound(now=500) == 400
    known.heard("b", "b", 480, 510)
    assert known.bound(now=510) == 480
    with pytest.raises(ValueRefused, match="how long"):
        DetectionPolicy(Consume.TIMEOUT)


def test_what_is_probably_stable_is_consumed_by_the_delays_observed() -> None:
    known = stability(DetectionPolicy(Consume.PROBABLE, threshold_ppm=900_000), A)
    for number in range(1, 101):
        known.heard("a", "a", until=number * 1_000, now=number * 1_000 + number)  # delays of 1 to 100
    assert known.bound(now=200_000) == 200_000 - 90
    sure = stability(DetectionPolicy(Consume.PROBABLE, threshold_ppm=999_999), A)
    sure.heard("a", "a", 1_000, 1_001)
    assert sure.bound(now=200_000) == 1_000  # too little is known to estimate anything
    with pytest.raises(ValueRefused, match="between 0 and 1"):
        DetectionPolicy(Consume.PROBABLE, threshold_ppm=1_000_000)
