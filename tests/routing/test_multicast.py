"""Multicast groups: everybody who wants a notification gets it, and the groups are counted exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_lab.routing.multicast import (
    Clustered,
    Cost,
    DirectGrouping,
    Everyone,
    Grouping,
    Ideal,
    MulticastSend,
    NeighbourMatching,
    ThresholdClustered,
    Unicast,
    clusters_of,
    compare,
    depth_first,
)

Tree = dict[str, list[str]]


@st.composite
def trees(draw: st.DrawFn, most: int = 6) -> Tree:
    """A tree of brokers: each one but the first is linked to one before it."""
    names = "abcdefghijkl"[: draw(st.integers(1, most))]
    tree: Tree = {name: [] for name in names}
    for index, name in enumerate(names[1:], 1):
        other = names[draw(st.integers(0, index - 1))]
        tree[name].append(other)
        tree[other].append(name)
    return tree


def subsets(of: Sequence[str]) -> Iterator[frozenset[str]]:
    for size in range(len(of) + 1):
        yield from map(frozenset, combinations(of, size))


def threshold_among(neighbours: Sequence[str]) -> DirectGrouping:
    return ThresholdClustered(clusters_of(neighbours, min(2, len(neighbours)) or 1), 1)


def groupings_of(tree: Tree, clusters: int, threshold: int) -> list[Grouping]:
    order = depth_first(tree)
    parts = clusters_of(order, min(clusters, len(order)))
    return [
        Unicast(order),
        Everyone(order),
        Ideal(order),
        Clustered(parts),
        ThresholdClustered(parts, threshold),
        NeighbourMatching(tree),
        NeighbourMatching(tree, threshold_among),
    ]


many_groupings = st.builds(groupings_of, trees(), st.integers(1, 3), st.integers(0, 3))


def reached(sends: Sequence[MulticastSend]) -> list[str]:
    return [broker for send in sends for broker in send.reached]


@given(trees(most=12), st.integers(1, 4), st.integers(0, 4), st.data())
def test_whoever_wants_a_notification_gets_it(
    tree: Tree, clusters: int, threshold: int, data: st.DataObject
) -> None:
    source = data.draw(st.sampled_from(sorted(tree)))
    wanted = data.draw(st.frozensets(st.sampled_from(sorted(tree))))
    for grouping in groupings_of(tree, clusters, threshold):
        have = {source}
        for send in grouping.sends(source, wanted):
            assert send.sender in have  # nobody passes on what it has not got
            have |= send.reached
        assert wanted <= have


@given(trees(most=12), st.integers(1, 4), st.data())
def test_unicast_ideal_and_clustered_groups_reach_nobody_else(
    tree: Tree, clusters: int, data: st.DataObject
) -> None:
    unicast, _, ideal, clustered, *_ = groupings_of(tree, clusters, 0)
    source = data.draw(st.sampled_from(sorted(tree)))
    wanted = data.draw(st.frozensets(st.sampled_from(sorted(tree))))
    for grouping in (unicast, ideal, clustered):
        assert sorted(reached(grouping.sends(source, wanted))) == sorted(wanted - {source})
    assert len(ideal.sends(source, wanted)) == bool(wanted - {source})
    assert len(clustered.sends(source, wanted)) <= clusters


@given(many_groupings)
def test_the_number_of_groups_is_that_of_the_groups_that_are_used(groupings: list[Grouping]) -> None:
    # The dumb way: ask for every set of brokers what is used. In one step groups are anybody's.
    for grouping in groupings[2:5]:
        assert isinstance(grouping, Clustered)
        brokers = sorted(grouping._brokers)
        used = {group for some in subsets(brokers) for group in grouping.groups_for(some)}
        assert grouping.groups == len(used)


@given(trees())
def test_neighbour_matching_needs_the_groups_that_each_broker_sends_to(tree: Tree) -> None:
    for among in (Ideal, threshold_among):
        grouping = NeighbourMatching(tree, among)
        used = {
            send for source in tree for some in subsets(sorted(tree)) for send in grouping.sends(source, some)
        }
        assert grouping.groups == len(used)


@given(trees(most=12), st.data())
def test_neighbour_matching_walks_the_paths_to_those_who_want_it(tree: Tree, data: st.DataObject) -> None:
    def path(here: str, there: str, before: str = "") -> list[str] | None:
        if here == there:
            return [here]
        ways = (path(each, there, here) for each in tree[here] if each != before)
        return next(([here, *way] for way in ways if way), None)

    source = data.draw(st.sampled_from(sorted(tree)))
    wanted = data.draw(st.frozensets(st.sampled_from(sorted(tree))))
    paths = [path(source, each) or [] for each in wanted]
    sends = NeighbourMatching(tree).sends(source, wanted)
    assert sorted(reached(sends)) == sorted({broker for way in paths for broker in way} - {source})
    assert len({send.sender for send in sends}) == len(sends)


def test_ten_brokers_in_two_clusters_need_62_groups_and_32_with_a_threshold_of_two() -> None:
    brokers = [f"b{number}" for number in range(10)]
    halves = clusters_of(brokers, 2)
    ideal, clustered = Ideal(brokers), Clustered(halves)
    thresholded = ThresholdClustered(halves, 2)
    # The book counts two empty sets with the first, and forgets the two whole clusters with the second.
    assert (ideal.groups_in_the_book, ideal.groups) == (1024, 1023)
    assert (clustered.groups_in_the_book, clustered.groups) == (64, 62)
    assert (thresholded.groups_in_the_book, thresholded.groups) == (30, 32)


@pytest.mark.parametrize(("brokers", "clusters"), [(10, 1), (10, 2), (12, 3), (12, 4), (60, 6)])
def test_clusters_save_a_factor_of_2_to_the_n_less_n_over_c_by_c(brokers: int, clusters: int) -> None:
    names = [f"b{number}" for number in range(brokers)]
    ideal, clustered = Ideal(names), Clustered(clusters_of(names, clusters))
    factor = Fraction(2 ** (brokers - brokers // clusters), clusters)
    assert Fraction(ideal.groups_in_the_book, clustered.groups_in_the_book) == factor


def test_above_the_threshold_the_whole_cluster_gets_it_and_at_the_threshold_only_who_wants_it() -> None:
    grouping = ThresholdClustered(["abcd", "efgh"], 2)
    sends = grouping.sends("a", frozenset("bcdef"))
    assert [sorted(send.group) for send in sends] == [["a", "b", "c", "d"], ["e", "f"]]
    assert sorted(reached(sends)) == list("bcdef")  # the sender does not hear itself
    assert sorted(reached(grouping.sends("h", frozenset("abc")))) == list("abcd")


def test_a_threshold_of_a_cluster_s_size_is_as_good_as_none() -> None:
    assert ThresholdClustered(["abcd", "ef"], 4).groups == Clustered(["abcd", "ef"]).groups


@given(st.lists(st.text("ab", max_size=3), unique=True), st.integers(1, 8))
def test_clusters_are_runs_of_the_order_of_almost_equal_size(order: list[str], count: int) -> None:
    if count > max(1, len(order)):
        with pytest.raises(ValueError, match="do not form"):
            clusters_of(order, count)
        return
    clusters = clusters_of(order, count)
    assert [broker for cluster in clusters for broker in cluster] == order
    assert len(clusters) == count
    assert len(clusters[0]) - len(clusters[-1]) in (0, 1)


def test_depth_first_keeps_branches_together_and_takes_in_all_parts() -> None:
    overlay = {"a": ["c", "b"], "b": ["a", "d"], "c": ["a"], "d": ["b"], "x": ["y"], "y": ["x"]}
    assert depth_first(overlay) == ["a", "b", "d", "c", "x", "y"]
    assert depth_first(overlay, "d") == ["d", "b", "a", "c", "x", "y"]


def test_the_costs_of_one_notification_in_every_grouping() -> None:
    # a - b - c - d and b - e: published at a, wanted by a itself, d and e.
    tree = {"a": ["b"], "b": ["a", "c", "e"], "c": ["b", "d"], "d": ["c"], "e": ["b"]}
    audience = ("a", frozenset("ade"))
    groupings = [
        Unicast("abcde"),
        Everyone("abcde"),
        Ideal("abcde"),
        Clustered(["ab", "cde"]),
        ThresholdClustered(["ab", "cde"], 1),
        NeighbourMatching(tree),
    ]
    assert compare([audience], groupings) == [
        Cost("unicast", groups=0, notifications=1, sends=2, deliveries=2, spurious=0),
        Cost("flooding", groups=1, notifications=1, sends=1, deliveries=4, spurious=2),
        Cost("ideal", groups=31, notifications=1, sends=1, deliveries=2, spurious=0),
        Cost("clustered", groups=10, notifications=1, sends=1, deliveries=2, spurious=0),
        Cost("threshold clustered", groups=7, notifications=1, sends=1, deliveries=3, spurious=1),
        Cost("neighbour matching", groups=13, notifications=1, sends=3, deliveries=4, spurious=2),
    ]


@given(trees(most=8), st.data())
def test_the_costs_of_notifications_add_up(tree: Tree, data: st.DataObject) -> None:
    brokers = st.sampled_from(sorted(tree))
    audiences = data.draw(st.lists(st.tuples(brokers, st.frozensets(brokers)), max_size=4))
    groupings = groupings_of(tree, 2, 1)
    together = compare(audiences, groupings)
    apart = [compare([each], groupings) for each in audiences]
    for column, cost in enumerate(together):
        rows = [row[column] for row in apart]
        assert cost.notifications == len(audiences)
        assert cost.sends == sum(row.sends for row in rows)
        assert cost.spurious == sum(row.spurious for row in rows) >= 0
        assert cost.sends_per_notification * len(audiences) == pytest.approx(cost.sends)
        assert cost.spurious_per_notification * len(audiences) == pytest.approx(cost.spurious)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Clustered(["ab", "bc"]), "one cluster only"),
        (lambda: ThresholdClustered(["ab"], -1), "not negative"),
        (lambda: NeighbourMatching({"a": ["b"], "b": []}), "not neighbours of each other"),
        (lambda: NeighbourMatching({"a": ["a"]}), "not neighbours of each other"),
        (lambda: NeighbourMatching({"a": ["b"]}), "not neighbours of each other"),
        (lambda: NeighbourMatching({"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"]}), "as a tree"),
        (lambda: NeighbourMatching({"a": [], "b": []}), "as a tree"),
        (lambda: NeighbourMatching({"a": []}).sends("a", {"z"}), "not in the tree: z"),
        (lambda: Ideal("ab").sends("z", {"a"}), "not in any group: z"),
    ],
)
def test_groupings_that_make_no_sense_are_refused(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make()
