"""Brokers in a picture: equal networks have equal pictures, and no two brokers stand on one another."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from fairlead.console.views.layout import RING, WIDTH, points

Network = tuple[list[str], list[tuple[str, str]]]


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Trees, a link too many, and networks in pieces."""
    names = [f"b{number}" for number in range(draw(st.integers(1, 24)))]
    links = []
    for at in range(1, len(names)):
        parent = draw(st.integers(-1 if at % 7 == 0 else 0, at - 1))
        if parent >= 0:
            links.append((names[parent], names[at]))
    if len(names) > 2 and draw(st.booleans()):
        links.append((names[0], names[-1]))
    return names, list(dict.fromkeys(links))


@given(networks(), st.randoms(use_true_random=False))
def test_equal_networks_have_equal_pictures_whoever_is_asked_first(network: Network, chance: object) -> None:
    names, links = network
    turned = [link if chance.random() < 0.5 else link[::-1] for link in links]  # type: ignore[attr-defined]
    shuffled = chance.sample(names, len(names))  # type: ignore[attr-defined]
    assert points(shuffled, reversed(turned)) == points(names, links)


@given(networks())
def test_no_two_brokers_are_nearer_than_one_is_wide(network: Network) -> None:
    names, links = network
    found = points(names, links)
    assert found.keys() == set(names)
    least = min(RING, WIDTH) - 1
    assert all(math.dist(found[one], found[other]) >= least for one, other in combinations(names, 2))


def test_a_thousand_brokers_around_one_have_room() -> None:
    links = [("hub", f"b{number}") for number in range(999)]
    found = points(["hub", *(name for _, name in links)], links)
    ring = sorted(math.atan2(y, x) for name, (x, y) in found.items() if name != "hub")
    radius = math.hypot(*found["b0"])
    assert min(b - a for a, b in pairwise(ring)) * radius >= WIDTH - 1
