"""Whatever happens, on any tree, with any strategy: the specification holds in every state, in the end everybody
gets what the embedded bus would deliver, and no notification takes more hops than flooding would.

`make soak` plays thousands of scenarios.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from routing_scenarios import PAIRS, STRATEGIES, play, scenario

from fairlead.routing import Flooding
from fairlead_lab.routing import checked

FEW = settings.default.max_examples // 12  # of each kind: there are a hundred kinds
chance = st.randoms(use_true_random=False)
PAIRED = pytest.mark.parametrize(("strategy", "advertisements"), PAIRS)
seeds = st.integers(0, 2**32 - 1)


def judged(random: Random, strategy: str, advertisements: str | None, **options: Any) -> None:
    drawn = scenario(random, advertises=advertisements is not None, **options)
    offers = None if advertisements is None else checked(STRATEGIES[advertisements]())
    # With advertisements filters may stay behind that nobody can serve, so of these the invariants hold alone.
    routed = STRATEGIES[strategy]() if advertisements is not None else checked(STRATEGIES[strategy]())
    played = play(drawn, routed, offers)
    assert not played.violated, "\n".join((*played.explained(), repr(drawn)))
    assert not played.routing.open


@PAIRED
@settings(max_examples=FEW)
@given(seeds)
@example(146414092)  # a batch of which some is dropped, the rest merged imperfectly
def test_among_peers_the_specification_holds_in_every_state(
    strategy: str, advertisements: str | None, seed: int
) -> None:
    judged(Random(f"{strategy} {advertisements} {seed}"), strategy, advertisements)


@PAIRED
@settings(max_examples=FEW)
@given(seeds)
def test_while_links_change_the_specification_holds_in_every_state(
    strategy: str, advertisements: str | None, seed: int
) -> None:
    judged(Random(f"{strategy} {advertisements} {seed}"), strategy, advertisements, relinks=True)


@PAIRED
@settings(max_examples=FEW)
@given(seeds, st.sampled_from(("hierarchy", "hybrid")), st.booleans())
def test_in_hierarchies_and_hybrids_the_specification_holds_in_every_state(
    strategy: str, advertisements: str | None, seed: int, shape: str, relinks: bool
) -> None:
    random = Random(f"{strategy} {advertisements} {seed}")
    judged(random, strategy, advertisements, shape=shape, relinks=relinks)


@pytest.mark.soak
@PAIRED
@settings(max_examples=FEW // 4)
@given(seeds)
@example(108725152)  # the same, long
def test_in_long_runs_the_specification_holds_in_every_state(
    strategy: str, advertisements: str | None, seed: int
) -> None:
    random = Random(f"{strategy} {advertisements} {seed}")
    judged(random, strategy, advertisements, relinks=True, steps_max=120, brokers_max=12)


@settings(max_examples=10 * FEW)
@given(chance, st.sampled_from(PAIRS), st.booleans())
def test_the_smallest_scenario_that_fails_is_looked_for(
    random: Random, pair: tuple[str, str | None], relinks: bool
) -> None:
    """Here Hypothesis draws every choice, so that what fails is made small."""
    judged(random, *pair, relinks=relinks)


@settings(max_examples=5 * FEW)
@given(seeds, st.sampled_from([name for name in STRATEGIES if name != "flooding"]))
def test_every_strategy_delivers_what_flooding_delivers_with_no_more_hops(seed: int, name: str) -> None:
    drawn = scenario(Random(seed))
    flooded = play(drawn, Flooding(), checked=False)
    links = len(drawn.parents)
    assert all(hops == links for hops in flooded.forwards.values())
    played = play(drawn, STRATEGIES[name](), checked=False)
    assert sorted(played.delivered) == sorted(flooded.delivered)
    assert all(hops <= flooded.forwards[id] for id, hops in played.forwards.items())
