"""Every route ends at the responsible node and passes no node twice, whoever joins, leaves and fails."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import TopologyRefused
from fairlead_lab.overlay import NodeId, PastryNode, Ring, Space
from fairlead_lab.overlay.pastry import Ask, Failed, Goodbye, Hello, Seek, Tell, Welcome

SMALL = Space(digits=4, b=2)
IDS = st.integers(0, SMALL.size - 1)
B1 = "5b950e77941d01cdf246d00b1ece546b"
THOUSAND = [f"B{number}" for number in range(1, 1001)]


def small(leaves: int, spares: int = 1) -> Ring:
    """Short identifiers, so that many lie side by side; a broker is named by its own."""
    return Ring(SMALL, leaves=leaves, spares=spares, identify=int)


def closest(ids: Iterable[NodeId], key: NodeId, size: int = SMALL.size) -> NodeId:
    """The definition: the closest on the circle, of two the smaller."""
    return min(ids, key=lambda id: (min((id - key) % size, (key - id) % size), id))


def assert_every_route_ends_at_the_responsible_node(ring: Ring, keys: Iterable[NodeId]) -> None:
    live = [int(name) for name in ring.names]
    for key in keys:
        wanted = str(closest(live, key))
        assert ring.responsible(key) == wanted
        for name in ring.names:
            path = ring.route(name, key)
            assert path[-1] == wanted
            assert len(set(path)) == len(path)


def assert_leaf_sets_are_the_nearest(ring: Ring, leaves: int) -> None:
    live = sorted(int(name) for name in ring.names)
    for place, id in enumerate(live):
        others = live[place + 1 :] + live[:place]
        node = ring.node(str(id))
        assert node.larger == tuple(others[: leaves // 2])
        assert node.smaller == tuple(others[::-1][: leaves // 2])


def bounded(names: tuple[str, ...], wanted: set[int], most: int) -> list[str]:
    """Of the wanted places on the circle those that leave no gap of more than so many, and somebody alive."""
    taken: set[int] = set()
    for place in sorted(wanted):
        together = taken | {place}
        runs = [
            {(start + step) % len(names) for step in range(most + 1)} <= together
            for start in range(len(names))
        ]
        if not any(runs) and len(together) < len(names):
            taken = together
    return [names[place] for place in sorted(taken)]


steps = st.one_of(
    st.tuples(st.just("join"), IDS, st.integers(0, 99)),
    st.tuples(st.just("leave"), st.integers(0, 99), st.none()),
    st.tuples(st.just("fail"), st.sets(st.integers(0, 30), min_size=1, max_size=8), st.none()),
)


@given(
    members=st.sets(IDS, min_size=1, max_size=25),
    history=st.lists(steps, max_size=8),
    leaves=st.sampled_from([4, 6, 8]),
    spares=st.integers(0, 2),
    keys=st.lists(IDS, min_size=3, max_size=6),
)
def test_every_route_ends_at_the_responsible_node_after_any_history(
    members: set[int], history: list[tuple[str, object, object]], leaves: int, spares: int, keys: list[int]
) -> None:
    ring = Ring.filled(map(str, members), SMALL, leaves=leaves, spares=spares, identify=int)
    assert_every_route_ends_at_the_responsible_node(ring, keys)
    for step in history:
        match step:
            case "join", int(id), int(via):
                if str(id) not in ring:
                    ring.join(str(id), via=ring.names[via % len(ring)])
            case "leave", int(place), _:
                if len(ring) > 1:
                    ring.leave(ring.names[place % len(ring)])
            case "fail", set(places), _:
                places = {place % len(ring) for place in places}
                ring.fail(*bounded(ring.names, places, leaves // 2 - 1))
        assert_leaf_sets_are_the_nearest(ring, leaves)
        assert_every_route_ends_at_the_responsible_node(ring, keys)


@given(st.lists(IDS, min_size=2, max_size=30, unique=True), st.data())
def test_one_gap_of_any_size_is_closed(ids: list[int], data: st.DataObject) -> None:
    ring = small(leaves=4)
    for id in ids:
        ring.join(str(id))
    start = data.draw(st.integers(0, len(ids) - 1))
    gap = data.draw(st.integers(1, len(ids) - 1))
    ring.fail(*(ring.names[(start + step) % len(ids)] for step in range(gap)))
    assert_leaf_sets_are_the_nearest(ring, 4)
    assert_every_route_ends_at_the_responsible_node(ring, range(0, SMALL.size, 16))


@given(st.sets(IDS, min_size=4, max_size=16), st.integers(2, 6), st.integers(0, 1 << 32))
def test_nodes_may_join_at_the_same_time_in_any_order_of_messages(
    ids: set[int], at_once: int, seed: int
) -> None:
    rng = Random(seed)
    order = sorted(ids)
    rng.shuffle(order)
    newcomers, members = order[:at_once], order[at_once:] or order[:1]
    nodes = {id: PastryNode(id, SMALL, leaves=4, spares=1) for id in order}
    for id in members:
        nodes[id].fill(sorted(members))
    waiting = [
        effect for id in newcomers if id not in members for effect in nodes[id].join(rng.choice(members))
    ]
    while waiting:
        to, message = waiting.pop(rng.randrange(len(waiting)))
        waiting += nodes[to].handle(message)
    for place, id in enumerate(sorted(ids)):
        others = sorted(ids)[place + 1 :] + sorted(ids)[:place]
        assert nodes[id].larger == tuple(others[:2])
        assert nodes[id].smaller == tuple(others[::-1][:2])


@given(
    st.sets(IDS, min_size=1, max_size=40), st.integers(0, 2), st.booleans(), st.randoms(use_true_random=False)
)
def test_filling_a_table_is_being_told_of_everybody(
    ids: set[int], spares: int, has_proximity: bool, rng: Random
) -> None:
    proximity = (lambda id: id * 7 % 5) if has_proximity else None
    for own in sorted(ids)[:5]:
        filled, told = (
            PastryNode(own, SMALL, leaves=4, spares=spares, proximity=proximity) for _ in range(2)
        )
        filled.fill(sorted(ids))
        others = sorted(ids - {own})
        rng.shuffle(others)
        told.handle(Tell(own, tuple(others)))
        assert str(filled) == str(told)
        assert filled.known == told.known


def test_hops_grow_with_the_logarithm_of_the_nodes() -> None:
    """The mean over these routes is 2.4 hops; log of 1,000 to the base of 16 is 2.5."""
    ring, rng = Ring.filled(THOUSAND), Random(7)
    hops = []
    for _ in range(2_000):
        key = rng.getrandbits(128)
        path = ring.route(rng.choice(THOUSAND), key)
        assert path[-1] == ring.responsible(key)
        hops.append(len(path) - 1)
    assert sum(hops) / len(hops) < 2.5
    assert max(hops) <= 3 + 1  # 16^2 < 1,000 <= 16^3


def test_joining_one_by_one_gives_routing_that_is_as_good() -> None:
    names, rng = THOUSAND[:200], Random(3)
    joined = Ring(leaves=8)
    messages = [
        joined.join(name, via=rng.choice(names[:place]) if place else None)
        for place, name in enumerate(names)
    ]
    filled = Ring.filled(names, leaves=8)
    routes = [(rng.choice(names), rng.getrandbits(128)) for _ in range(1_000)]
    mean = {
        ring: sum(len(ring.route(start, key)) - 1 for start, key in routes) / len(routes)
        for ring in (joined, filled)
    }
    assert all(joined.route(*route)[-1] == filled.responsible(route[1]) for route in routes)
    assert mean[joined] <= mean[filled] + 0.1
    assert max(messages) < 150


def test_a_failure_concerns_the_neighbourhood_and_not_the_whole_ring() -> None:
    few, many = Ring.filled(THOUSAND[:100]), Ring.filled(THOUSAND)
    assert many.fail("B7") < 2 * few.fail("B7")


def test_node_123_sends_a_message_for_key_333_to_311_first() -> None:
    """Book 4.6.8, Fig. 4.36: b = 2, identifiers of three digits; 311 is the nearest of those that begin with 3."""
    space = Space(digits=3, b=2)
    members = ["012", "030", "102", "123", "130", "203", "220", "301", "311", "322", "331", "332"]
    ring = Ring.filled(
        members, space, leaves=2, identify=space.read, proximity=lambda a, b: int((a, b) != ("123", "311"))
    )
    assert ring.route("123", space.read("333")) == ("123", "311", "331", "332")


def test_a_node_shows_its_leaf_set_and_its_table_with_the_spares() -> None:
    space = Space(digits=3, b=2)
    node = PastryNode(space.read("123"), space, leaves=2)
    node.fill(sorted(map(space.read, ["012", "102", "123", "130", "203", "311", "331"])))
    assert str(node) == "102 | 123 | 130\nrow 0: 012  203  331 (311)\nrow 1: 102  130"
    assert node.candidates(0, 3) == (space.read("331"), space.read("311"))


def test_the_rare_case_takes_a_closer_node_with_a_prefix_as_long() -> None:
    space = Space(digits=3, b=2)
    node = PastryNode(space.read("100"), space, leaves=2, spares=0)
    node.fill(sorted(map(space.read, ["033", "100", "101", "111", "200"])))
    # Nobody begins with 13; of those that begin with 1, 111 is the closest.
    assert node.candidates(1, 3) == ()
    assert node.next_hop(space.read("130")) == space.read("111")
    # 200 would be closer still, but a shorter prefix might lead back.
    assert closest((space.read("111"), space.read("200")), space.read("130"), space.size) == space.read("200")


# -- the state machine, message by message ----------------------------------------------------------------------


def alone(id: int, *ids: int, spares: int = 0) -> PastryNode:
    node = PastryNode(id, SMALL, leaves=2, spares=spares)
    node.fill(sorted({id, *ids}))
    return node


def test_a_request_to_join_gathers_whom_it_meets_and_is_answered_by_the_closest() -> None:
    node = alone(100, 30, 99, 101, 200)
    [(to, seek)] = node.handle(Seek(201, (7,)))
    assert to == 200
    assert isinstance(seek, Seek)
    assert {7, 100} <= set(seek.met)
    last = alone(200, 100, 185, 190)
    assert 190 not in last.candidates(0, 2)  # it is a leaf only
    [(to, welcome)] = last.handle(seek)
    assert (to, welcome) == (201, Welcome(200, tuple(sorted({*seek.met, 100, 185, 190, 200}))))


def test_a_request_is_not_sent_to_the_newcomer_itself_by_those_who_knew_it_before() -> None:
    node = alone(100, 99, 101, 200, 210, spares=1)
    assert node.next_hop(210) == 210
    assert [to for to, message in node.handle(Seek(210)) if isinstance(message, Seek)] == [200]


def test_a_request_that_a_dead_node_did_not_get_takes_another_way() -> None:
    node = alone(100, 30, 99, 101, 200, 210, spares=1)
    [(first, seek)] = node.handle(Seek(201))
    effects = node.handle(Failed(first, seek))
    assert [to for to, message in effects if isinstance(message, Seek)] == [({200, 210} - {first}).pop()]


def test_those_beside_a_dead_leaf_are_asked_for_their_leaves() -> None:
    node = PastryNode(100, SMALL, leaves=6)
    node.fill([97, 98, 99, 100, 101, 102, 103])
    asked = [to for to, message in node.handle(Failed(102)) if message == Ask(100)]
    assert sorted(asked) == [101, 103]


def test_the_nearest_of_all_that_a_node_knows_takes_the_place_of_a_dead_leaf() -> None:
    node = alone(100, 50, 99, 101, 150)
    node.handle(Failed(101))
    assert (node.smaller, node.larger) == ((99,), (150,))


def test_a_spare_takes_the_place_of_a_dead_node_and_nobody_is_asked() -> None:
    node = alone(100, 99, 101, 200, 210, spares=1)
    dead, spare = node.candidates(0, 3)
    assert node.handle(Failed(dead)) == []
    assert node.candidates(0, 3) == (spare,)


def test_without_a_spare_those_in_the_same_row_are_asked() -> None:
    node = alone(100, 30, 99, 101, 200)
    asked = node.handle(Failed(200))
    assert set(asked) == {(id, Ask(100, (0, 3))) for id in (30, 99, 101)}
    [(to, answer)] = alone(30, 100, 210, 220, spares=1).handle(Ask(100, (0, 3)))
    assert (to, answer) == (100, Tell(30, (210, 220)))
    node.handle(answer)
    assert node.candidates(0, 3) == (220,)  # 3130 is more like 1210 than 3102 is


def test_who_was_reported_dead_is_believed_alive_only_when_it_speaks() -> None:
    node = alone(100, 99, 101)
    node.handle(Failed(101))
    node.handle(Tell(99, (101,)))
    assert 101 not in node.known
    assert node.handle(Hello(101)) == [(101, Ask(100))]
    assert node.larger == (101,)


def test_who_leaves_hands_over_its_leaves() -> None:
    node = alone(100, 99, 101)
    assert alone(101, 100, 102).leave() == [(id, Goodbye(101, (100, 102))) for id in (100, 102)]
    assert (102, Ask(100)) in node.handle(Goodbye(101, (100, 102)))
    assert node.larger == (102,)


def test_who_comes_back_under_its_old_name_is_not_asked_for_its_own_place() -> None:
    ring = small(leaves=4)
    for id in range(0, 250, 10):
        ring.join(str(id))
    ring.fail("100")
    ring.join("100", via="200")
    assert_leaf_sets_are_the_nearest(ring, 4)
    assert_every_route_ends_at_the_responsible_node(ring, range(0, 256, 8))


def test_a_newcomer_whose_first_contact_is_dead_knows_that_it_has_not_joined() -> None:
    node = PastryNode(1, SMALL, leaves=2)
    [(to, seek)] = node.join(via=2)
    assert node.handle(Failed(to, seek)) == []
    assert node.known == frozenset()


def test_the_same_history_takes_the_same_messages() -> None:
    def run() -> tuple[list[int], list[str]]:
        ring = Ring.filled(THOUSAND[:60], leaves=8)
        counts = [
            ring.join("X", via="B7"),
            ring.leave("B9"),
            ring.fail("B1", "B2"),
            ring.fail(*ring.names[4:7]),
        ]
        return counts, [str(ring.node(name)) for name in ring.names]

    assert run() == run()


def test_identifiers_are_hashes_that_do_not_depend_on_the_machine() -> None:
    space = Space()
    assert space.text(space.named("B1")) == B1
    assert space.read(B1) == space.named("B1")
    assert Space(digits=3, b=4).text(Space(digits=3, b=4).named("B1")) == B1[:3]


@given(IDS, IDS)
def test_digits_prefixes_and_distances_are_what_the_text_says(one: int, other: int) -> None:
    a, b = SMALL.text(one), SMALL.text(other)
    assert SMALL.read(a) == one
    assert SMALL.shared(one, other) == next((i for i in range(4) if a[i] != b[i]), 4)
    assert [SMALL.digit(one, place) for place in range(4)] == [int(digit) for digit in a]
    assert SMALL.distance(one, other) == min(SMALL.clockwise(one, other), SMALL.clockwise(other, one))


def test_what_a_ring_cannot_do_is_refused() -> None:
    ring = small(leaves=4)
    with pytest.raises(TopologyRefused, match="nobody is in the ring"):
        ring.responsible(1)
    ring.join("1")
    assert (len(ring), "1" in ring, "2" in ring, ring.route("1", 200)) == (1, True, False, ("1",))
    with pytest.raises(TopologyRefused, match="'1' has the place of '1' in the ring"):
        ring.join("1")
    with pytest.raises(TopologyRefused, match="'2' is not in the ring"):
        ring.route("2", 1)
    with pytest.raises(TopologyRefused, match="no two equal sides"):
        PastryNode(1, SMALL, leaves=3)
    with pytest.raises(TopologyRefused, match="make no identifiers"):
        Space(digits=3, b=9)
    with pytest.raises(TopologyRefused, match="does not have 4 digits"):
        SMALL.read("123")
