"""Bloom filters and LIPSIN: no false negatives, and as many false positives as the ones in a filter predict."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_lab.routing.lipsin import (
    BloomFilter,
    Link,
    LinkIds,
    Passage,
    ZFilter,
    deliver,
    measure,
)

Graph = dict[str, set[str]]


def linked(names: list[str], links: list[tuple[int, int]]) -> Graph:
    """The graph of these nodes and links, each in both directions; loops are left out."""
    graph: Graph = {name: set() for name in names}
    for a, b in links:
        if a != b:
            graph[names[a]].add(names[b])
            graph[names[b]].add(names[a])
    return graph


def random_graph(nodes: int, further: int, seed: int) -> Graph:
    rng = Random(seed)
    links = [(node, rng.randrange(node)) for node in range(1, nodes)]
    links += [(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(further)]
    return linked([f"n{node}" for node in range(nodes)], links)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes = draw(st.integers(1, 10))
    links = [(node, draw(st.integers(0, node - 1))) for node in range(1, nodes)]
    ends = st.integers(0, nodes - 1)
    return linked(list("abcdefghij"[:nodes]), links + draw(st.lists(st.tuples(ends, ends), max_size=8)))


# Few bits, so that false positives abound: links taken in vain, cycles, and filters that are full.
narrow = st.tuples(st.integers(4, 24), st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Graph, LinkIds, str, frozenset[str]]:
    graph = draw(graphs())
    m, k, d, seed = draw(narrow)
    nodes = st.sampled_from(sorted(graph))
    return graph, LinkIds(graph, m, k, d, seed), draw(nodes), draw(st.frozensets(nodes))


# -- Bloom filters -----------------------------------------------------------------------------------------


def filled(elements: set[str], m: int = 64, k: int = 3) -> BloomFilter:
    bloom = BloomFilter(m, k)
    for each in sorted(elements):
        bloom = bloom.insert(each)
    return bloom


@given(st.sets(st.text(max_size=4)), st.text(max_size=4), st.integers(1, 40), st.integers(1, 8))
def test_a_bloom_filter_finds_an_element_iff_all_its_bits_are_those_of_some_that_were_inserted(
    elements: set[str], asked: str, m: int, k: int
) -> None:
    m = max(m, k)
    bloom = filled(elements, m, k)

    def positions(element: str) -> set[int]:
        word = bloom.word(element)
        return {position for position in range(m) if word >> position & 1}

    assert all(bloom.contains(each) for each in elements)  # no false negatives
    together = {position for each in elements for position in positions(each)}
    assert bloom.contains(asked) == (positions(asked) <= together)
    assert len(positions(asked)) == k
    assert bloom.fill == len(together) / m


@given(st.sets(st.text(max_size=3)), st.sets(st.text(max_size=3)))
def test_the_union_of_two_filters_is_the_filter_of_all_their_elements(one: set[str], two: set[str]) -> None:
    assert filled(one).union(filled(two)) == filled(one | two)


def test_an_empty_filter_finds_nothing_and_a_full_one_everything() -> None:
    assert not BloomFilter().contains("id1")
    full = BloomFilter(8, 2, 0b1111_1111)
    assert full.contains("id1")
    assert (full.fill, full.false_positives) == (1.0, 1.0)
    assert BloomFilter().estimate(0) == BloomFilter().false_positives == 0.0


@pytest.mark.parametrize(("m", "k", "n"), [(256, 3, 40), (256, 5, 40), (1024, 4, 200)])
def test_false_positives_are_as_frequent_as_estimated(m: int, k: int, n: int) -> None:
    bloom = filled({f"in{number}" for number in range(n)}, m, k)
    found = sum(bloom.contains(f"out{number}") for number in range(4_000)) / 4_000
    assert found == pytest.approx(bloom.false_positives, abs=0.015)
    assert bloom.estimate(n) == pytest.approx(bloom.false_positives, rel=0.35)


# -- link ids ----------------------------------------------------------------------------------------------


def test_link_ids_have_k_ones_in_m_bits_and_each_direction_has_its_own() -> None:
    ids = LinkIds({"a": {"b"}, "b": {"a"}}, d=3)
    words = [ids.id(link, index) for link in (("a", "b"), ("b", "a")) for index in range(3)]
    assert len(set(words)) == 6
    assert {word.bit_count() for word in words} == {5}
    assert max(words) < 1 << 248
    assert ids.id(("a", "b")) != LinkIds({"a": {"b"}, "b": {"a"}}, seed=1).id(("a", "b"))


def test_link_ids_are_the_same_on_any_machine() -> None:
    ids = LinkIds({"a": {"b"}, "b": {"a"}}, m=16, k=3)
    assert (ids.id(("a", "b")), ids.id(("b", "a"))) == (0b0100_0110_0000_0000, 0b0100_0010_0100_0000)


@given(graphs(), narrow, st.data())
def test_of_several_filters_the_one_with_the_fewest_ones_is_sent_and_more_choice_never_fills_more(
    graph: Graph, shape: tuple[int, int, int, int], data: st.DataObject
) -> None:
    m, k, d, seed = shape
    every = sorted((node, each) for node, others in graph.items() for each in others)
    links: list[Link] = [link for link in every if data.draw(st.booleans())]
    ids = LinkIds(graph, m, k, d, seed)
    words = []
    for index in range(d):
        words.append(0)
        for link in links:
            words[index] |= ids.id(link, index)
    zfilter = ids.zfilter(links)
    assert zfilter.bits == words[zfilter.index]
    assert zfilter.bits.bit_count() == min(word.bit_count() for word in words)
    fills = [LinkIds(graph, m, k, fewer, seed) for fewer in range(1, d + 1)]
    shares = [each.fill(each.zfilter(links)) for each in fills]
    assert shares == sorted(shares, reverse=True)


# -- the way of a packet -----------------------------------------------------------------------------------


@given(cases())
def test_whoever_wants_a_packet_gets_it(case: tuple[Graph, LinkIds, str, frozenset[str]]) -> None:
    _, ids, source, receivers = case
    passage = deliver(ids, source, receivers)
    assert receivers | {node for link in passage.tree for node in link} <= passage.reached


@given(cases())
def test_the_tree_is_made_of_shortest_paths_and_ends_at_receivers(
    case: tuple[Graph, LinkIds, str, frozenset[str]],
) -> None:
    graph, ids, source, receivers = case
    distance, border = {source: 0}, {source}
    while border:
        border = {each for node in border for each in graph[node]} - distance.keys()
        distance |= dict.fromkeys(border, max(distance.values()) + 1)
    tree = ids.tree(source, receivers)
    ends = [end for _, end in tree]
    assert len(set(ends)) == len(ends)  # one way to each node
    assert receivers <= {source, *ends}
    assert all(distance[end] == distance[start] + 1 for start, end in tree)
    assert set(ends) - {start for start, _ in tree} <= receivers


@given(cases())
def test_a_packet_takes_the_links_in_the_filter_each_once_and_ends(
    case: tuple[Graph, LinkIds, str, frozenset[str]],
) -> None:
    graph, ids, source, receivers = case
    passage = deliver(ids, source, receivers)
    index, tree, taken = passage.zfilter.index, set(passage.tree), set(passage.links)
    assert len(taken) == len(passage.links)
    assert passage.reached == {source} | {end for _, end in taken}
    contained = {
        (node, each)
        for node in passage.reached
        for each in graph[node]
        if passage.zfilter.contains(ids.id((node, each), index))
    }
    # All that is in the filter, except for the way back to whom a node had it from first.
    first = dict(reversed([(end, start) for start, end in passage.links]))
    back = {(node, sender) for node, sender in first.items() if node != source}
    assert taken == contained - back
    assert set(passage.false_positives) == taken - tree
    asked = {(node, each) for node in passage.reached for each in graph[node]} - back - tree
    assert passage.tests == len(asked) >= len(passage.false_positives)


def test_a_wide_filter_takes_exactly_the_tree() -> None:
    graph = random_graph(40, 40, seed=3)
    ids = LinkIds(graph, m=4_096, k=8)
    receivers = frozenset(f"n{node}" for node in range(0, 40, 5))
    passage = deliver(ids, "n1", receivers)
    assert passage.false_positives == ()
    assert passage.links == passage.tree
    assert passage.reached == {"n1"} | {end for _, end in passage.tree}


def test_a_full_filter_floods_a_cycle_and_ends() -> None:
    ring = {"a": {"b", "d"}, "b": {"a", "c"}, "c": {"b", "d"}, "d": {"c", "a"}}
    passage = deliver(LinkIds(ring, m=1, k=1), "a", frozenset("b"))
    assert passage == Passage(
        zfilter=ZFilter(0, 1),
        tree=(("a", "b"),),
        links=(("a", "b"), ("a", "d"), ("b", "c"), ("d", "c"), ("c", "d")),
        reached=frozenset("abcd"),
        tests=4,
    )
    assert passage.false_positives == (("a", "d"), ("b", "c"), ("d", "c"), ("c", "d"))


def test_nobody_wants_it_so_it_goes_nowhere() -> None:
    passage = deliver(LinkIds({"a": {"b"}, "b": {"a"}}), "a", frozenset("a"))
    assert (passage.tree, passage.links, passage.reached) == ((), (), {"a"})


# -- measuring ---------------------------------------------------------------------------------------------


def test_false_positives_grow_with_the_tree_as_the_fill_predicts_and_choice_makes_them_fewer() -> None:
    graph = random_graph(100, 150, seed=1)
    sizes = (4, 12, 24, 40)
    single, choice = (measure(LinkIds(graph, d=d), sizes, packets=60) for d in (1, 8))
    for rows in (single, choice):
        assert [row.receivers for row in rows] == list(sizes)
        rates = [row.rate for row in rows]
        assert rates == sorted(rates)
        for row in rows:
            assert row.rate == pytest.approx(row.expected_rate, rel=0.25, abs=0.002)
            assert row.links == pytest.approx(row.links * row.efficiency + row.false_positives)
    for one, best in zip(single, choice, strict=True):
        assert one.tree_links == best.tree_links  # the same packets
        assert one.fill > best.fill
    assert single[-1].false_positives > choice[-1].false_positives
    assert single[0].rate < 0.005


def test_a_row_of_a_measurement_does_not_depend_on_the_others() -> None:
    ids = LinkIds(random_graph(30, 20, seed=2))
    assert measure(ids, [3, 9], packets=5, seed=4)[1:] == measure(ids, [9], packets=5, seed=4)
    assert measure(ids, [9], packets=5, seed=4) != measure(ids, [9], packets=5, seed=5)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: BloomFilter(4, 5), "between 1 and all of 4 bits"),
        (lambda: BloomFilter(4, 2).union(BloomFilter(4, 3)), "same m and k"),
        (lambda: LinkIds({"a": {"b"}}), "no nodes: b"),
        (lambda: LinkIds({}, m=4, k=5), "no ids of 4 bits with 5 ones"),
        (lambda: LinkIds({}, d=0), "0 per link"),
        (lambda: deliver(LinkIds({"a": set(), "b": set()}), "a", {"b"}), "no way from a to b"),
        (lambda: measure(LinkIds({"a": set()}), [1]), "no 1 receivers"),
        (lambda: measure(LinkIds({"a": set()}), [0], packets=0), "nothing to measure"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make()
