"""All brokers agree on one dissemination tree for each type, and nobody had to tell them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import TopologyRefused
from fairlead_lab.overlay import Ring, Trees, parent, rendezvous_key

NAMES = [f"B{number}" for number in range(1, 61)]
TYPES = ["Quote", "Trade", "Temperature"]


@given(st.sets(st.sampled_from(NAMES), min_size=1), st.sampled_from(TYPES))
def test_all_ways_together_are_a_tree_with_the_rendezvous_node_at_its_root(
    names: set[str], kind: str
) -> None:
    ring = Ring.filled(sorted(names), leaves=4)
    trees = Trees.spanning(ring, [kind])
    root = ring.responsible(rendezvous_key(kind))
    assert trees.rendezvous(kind) == root
    assert parent(ring, root, kind) is None
    assert set(trees.parents[kind]) == names
    for name in names:
        assert trees.path(kind, name) == ring.route(name, rendezvous_key(kind))
    assert trees.depth(kind) == max(len(trees.path(kind, name)) - 1 for name in names)
    assert sum(trees.stress().values()) == len(names) - 1


@given(st.sets(st.sampled_from(NAMES)))
def test_a_tree_has_its_members_those_on_their_ways_and_nobody_else(members: set[str]) -> None:
    ring = Ring.filled(NAMES, leaves=4)
    trees = Trees.of(ring, {"Quote": sorted(members)})
    ways = {broker for name in members for broker in ring.route(name, rendezvous_key("Quote"))}
    assert set(trees.parents["Quote"]) == ways | {trees.rendezvous("Quote")}
    children = trees.children("Quote")
    assert all(broker in members for broker, below in children.items() if not below and len(ways) > 1)


def test_when_the_rendezvous_node_fails_all_agree_on_another_one() -> None:
    ring = Ring.filled(NAMES, leaves=4)
    before = Trees.spanning(ring, TYPES)
    for kind in TYPES:
        if before.rendezvous(kind) in ring:
            ring.fail(before.rendezvous(kind))
    after = Trees.spanning(ring, TYPES)
    for kind in TYPES:
        assert after.rendezvous(kind) not in {before.rendezvous(each) for each in TYPES}
        assert {after.path(kind, name)[-1] for name in ring.names} == {after.rendezvous(kind)}


def test_rendezvous_nodes_are_spread_over_the_brokers() -> None:
    ring = Ring.filled(NAMES)
    kinds = [f"Type{number}" for number in range(600)]
    roots = [ring.responsible(rendezvous_key(kind)) for kind in kinds]
    assert len(set(roots)) > 50
    assert max(roots.count(name) for name in NAMES) < 60


def test_what_is_not_in_a_tree_is_refused() -> None:
    trees = Trees.of(Ring.filled(NAMES), {"Quote": []})
    assert (trees.depth("Quote"), trees.stress()) == (0, {trees.rendezvous("Quote"): 0})
    with pytest.raises(TopologyRefused, match="there is no tree for 'Trade'"):
        trees.depth("Trade")
    outside = next(name for name in NAMES if name != trees.rendezvous("Quote"))
    with pytest.raises(TopologyRefused, match="is not in the tree of 'Quote'"):
        trees.path("Quote", outside)
