"""A topology is connected, and every answer about it depends on its content only."""

from __future__ import annotations

import pickle
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import TopologyRefused
from fairlead.overlay import SHAPES, Topology, topology


@st.composite
def topologies(draw: st.DrawFn, most: int = 14) -> Topology:
    n = draw(st.integers(1, most))
    spare = n * (n - 1) // 2 - (n - 1)
    extra = draw(st.integers(0, spare))
    return Topology.cyclic(n, extra, Random(draw(st.integers(0, 1 << 32))))


def distances(of: Topology) -> dict[tuple[str, str], int]:
    """The dumb way: all pairs, via every third (Floyd and Warshall)."""
    far = len(of.brokers)
    found = {(a, b): 0 if a == b else far for a in of.brokers for b in of.brokers}
    for a, b in of.links:
        found[a, b] = found[b, a] = 1
    for via in of.brokers:
        for a in of.brokers:
            for b in of.brokers:
                found[a, b] = min(found[a, b], found[a, via] + found[via, b])
    return found


@given(topologies())
def test_the_diameter_is_the_longest_of_all_shortest_paths(of: Topology) -> None:
    assert of.diameter == max(distances(of).values())


@given(topologies(8))
def test_a_path_is_a_shortest_way_along_links(of: Topology) -> None:
    for (a, b), distance in distances(of).items():
        path = of.path(a, b)
        assert (path[0], path[-1], len(path) - 1) == (a, b, distance)
        assert all(there in of.neighbours(here) for here, there in pairwise(path))


@given(topologies())
def test_a_parent_is_the_first_of_the_neighbours_nearest_to_the_root(of: Topology) -> None:
    far = distances(of)
    for root in of.brokers:
        parents = of.spanning_tree(root)
        assert parents.pop(root) is None
        for broker, parent in parents.items():
            assert parent == min(of.neighbours(broker), key=lambda each: (far[each, root], rank(of, each)))


@given(topologies())
def test_a_hierarchy_has_every_broker_once_below_the_root(of: Topology) -> None:
    for root in of.brokers:
        children, parents = of.children(root), of.spanning_tree(root)
        assert {child: above for above, below in children.items() for child in below} | {
            root: None
        } == parents
        assert sorted(of.subtree(root, root)) == sorted(of.brokers)
        for broker in of.brokers:
            below = of.subtree(root, broker)
            assert below[0] == broker
            assert {each for each in of.brokers if broker in climb(parents, each)} == set(below)


@given(st.data())
def test_regions_are_connected_parts_that_hold_every_broker_once(data: st.DataObject) -> None:
    of = data.draw(topologies(20))
    k = data.draw(st.integers(1, len(of.brokers)))
    regions = of.regions(k)
    assert len(regions) == k
    assert sorted(broker for region in regions for broker in region) == sorted(of.brokers)
    assert [rank(of, region[0]) for region in regions] == sorted(rank(of, region[0]) for region in regions)
    for region in regions:
        inside = [link for link in of.links if set(link) <= set(region)]
        assert Topology(region, tuple(inside)).brokers == region  # in one piece, or it is refused


def test_a_line_and_a_ring_fall_into_equal_regions() -> None:
    for of in (Topology.line(100), Topology.ring(100)):
        assert [len(region) for region in of.regions(4)] == [25] * 4


@given(topologies())
def test_however_links_are_listed_the_topology_is_the_same(of: Topology) -> None:
    listed = [(b, a) for a, b in reversed(of.links)] + list(of.links)
    assert Topology(of.brokers, tuple(listed)) == of
    assert Topology.explicit(listed, of.brokers) == of
    assert pickle.loads(pickle.dumps(of)) == of
    if len(of.brokers) > 1:
        assert Topology.explicit(listed) == of  # B2 before B10


@given(topologies())
def test_links_and_brokers_come_and_go(of: Topology) -> None:
    grown = of.with_link(of.brokers[-1], "Z")
    assert grown.neighbours("Z") == (of.brokers[-1],)
    assert grown.without("Z") == of
    absent = [(a, b) for a in of.brokers for b in of.brokers if a < b and b not in of.neighbours(a)]
    for a, b in absent[:3]:
        assert of.with_link(a, b).without_link(b, a) == of


def test_a_broker_within_a_tree_goes_once_its_neighbours_are_linked() -> None:
    line = Topology.line(3)
    with pytest.raises(TopologyRefused, match="in pieces: no way leads from B1 to B3"):
        line.without("B2")
    assert line.with_link("B1", "B3").without("B2") == Topology.explicit([("B1", "B3")])


def test_the_shapes_are_what_they_are_called() -> None:
    assert str(Topology.line(3)) == "B1: B2\nB2: B1 B3\nB3: B2"
    assert str(Topology.ring(4)) == "B1: B2 B4\nB2: B1 B3\nB3: B2 B4\nB4: B1 B3"
    assert str(Topology.star(4)) == "B1: B2 B3 B4\nB2: B1\nB3: B1\nB4: B1"
    assert Topology.balanced_tree(7).children("B1")["B2"] == ("B4", "B5")
    assert Topology.balanced_tree(13, 3).diameter == 4
    assert Topology.random_tree(50, Random(1)).is_acyclic
    cyclic = Topology.cyclic(50, 10, Random(1))
    assert len(cyclic.links) == 59
    assert not cyclic.is_acyclic
    assert len(Topology.cyclic(6, 10, Random(1)).links) == 15
    for make in (Topology.line, Topology.ring, Topology.star, Topology.balanced_tree):
        assert str(make(1)) == "B1:"
        assert make(2).links == (("B1", "B2"),)


def test_the_same_seed_gives_the_same_topology_on_any_machine() -> None:
    tree = topology("random tree", 8, seed=5)
    assert str(tree).splitlines() == [
        "B1: B2 B5",
        "B2: B1 B3 B7",
        "B3: B2 B4",
        "B4: B3 B6",
        "B5: B1",
        "B6: B4 B8",
        "B7: B2",
        "B8: B6",
    ]
    assert set(tree.links) <= set(topology("cyclic", 8, extra=3, seed=5).links)
    assert topology("cyclic", 60, extra=9, seed=1) == topology("cyclic", 60, extra=9, seed=1)
    assert topology("cyclic", 60, extra=9, seed=1) != topology("cyclic", 60, extra=9, seed=2)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "cyclic"])
def test_ten_thousand_brokers_are_no_burden(shape: str) -> None:
    of = topology(shape, 10_000, fanout=3, seed=1)
    assert of.diameter == {"line": 9_999, "star": 2, "balanced tree": 17, "ring": 5_000}.get(
        shape, of.diameter
    )
    assert len(of.regions(10)) == 10


def test_a_thousand_brokers_with_cycles_are_none_either() -> None:
    of = topology("cyclic", 1_000, extra=300, seed=1)
    assert of.diameter == max(max(of._distances(broker).values()) for broker in of.brokers)


@pytest.mark.parametrize("shape", ["balanced tree", "balanced-tree", "balanced_tree"])
def test_a_scenario_may_join_the_words_of_a_shape_as_it_likes(shape: str) -> None:
    assert topology(shape, 40, fanout=3) == Topology.balanced_tree(40, 3)


def test_a_scenario_lists_its_links() -> None:
    assert topology("explicit", 3, links=[["B3", "B1"], ["B1", "B2"]]) == Topology.star(3)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Topology.line(0), "0 brokers make no topology\n  hint: take 1 or more"),
        (lambda: Topology((), ()), "there are no brokers"),
        (lambda: Topology(("A", "A"), ()), "more than one broker is named A"),
        (lambda: Topology.explicit([("A", "A")]), "A is linked to itself"),
        (lambda: Topology.explicit([("A", "B", "C")]), r"\['A', 'B', 'C'\] is no link"),
        (
            lambda: Topology.explicit([("A", "B"), ("C", "D")]),
            "in pieces: no way leads from A to C, D\n  hint: add a link between the pieces",
        ),
        (
            lambda: topology("explicit", 5, links=[("B1", "B7")]),
            "the link B1 - B7 names B7, which is no broker\n  hint: there are B1 … B5",
        ),
        (lambda: topology("explicit", 5), "needs its links"),
        (lambda: topology("line", 2, links=[("B1", "B2")]), "do not go together"),
        (lambda: topology("torus", 5), "no shape is named 'torus'\n  hint: there is explicit, line, star"),
        (lambda: topology("cyclic", 4, extra=4), "4 links cannot be added .* 4 brokers\n  hint: take 0 to 3"),
        (lambda: Topology.balanced_tree(4, 0), "a fanout of 0"),
        (lambda: Topology.line(3).regions(4), "3 brokers do not make 4 regions"),
        (lambda: Topology.line(3).neighbours("B4"), "there is no broker 'B4'\n  hint: there are B1 … B3"),
        (lambda: Topology.line(3).path("B4", "B1"), "there is no broker 'B4'"),
        (lambda: Topology.line(3).spanning_tree("B4"), "there is no broker 'B4'"),
        (lambda: Topology.line(3).without_link("B1", "B3"), "B1 and B3 are not linked"),
        (lambda: Topology.line(3).without_link("B1", "B2"), "in pieces"),
    ],
)
def test_what_cannot_be_is_refused_with_a_hint(make: object, complaint: str) -> None:
    assert callable(make)
    with pytest.raises(TopologyRefused, match=complaint):
        make()


def rank(of: Topology, broker: str) -> int:
    return of.brokers.index(broker)


def climb(parents: dict[str, str | None], broker: str) -> list[str]:
    found, above = [broker], parents[broker]
    while above is not None:
        found.append(above)
        above = parents[above]
    return found
