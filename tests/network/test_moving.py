"""Whoever moves from broker to broker gets what one that stays gets: once, and in each producer's order.

Random networks of nodes, whose subscribers and producers move, mostly without a goodbye, while brokers are killed;
and nodes that are broken on purpose, one way each, which the same arithmetic must find.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.audit import Verdict, audit
from fairlead.broker import handover as places
from fairlead.broker.handover import HERE, Holding, Part, is_for, number_for, offset_in, parts_of, rank_of
from fairlead.errors import BrokerRefused, ValueRefused
from fairlead.network import connect, durability, sync
from fairlead.network import destinations as destinations_module
from fairlead.network import handover as handover_module
from fairlead.network.following import Following
from fairlead.network.handover import LEFT, Handover
from fairlead.network.roaming import MovedOut
from fairlead.routing import STRATEGIES
from fairlead_lab.chaos import SPECIFICATIONS
from fairlead_lab.testing.brokers import Brokers, on_a_loop
from fairlead_lab.testing.chaos import FAULTS, Plan, World

# -- what is for whom ------------------------------------------------------------------------------------------


def test_the_numbers_of_deliveries_grow_along_the_moves_of_a_subscriber() -> None:
    numbers = [number_for(counter, offset) for counter in (0, 1, 7) for offset in (0, 1, 10**9)]
    assert numbers == sorted(numbers)
    assert [(rank_of(each), offset_in(each)) for each in numbers] == [
        (counter, offset) for counter in (0, 1, 7) for offset in (0, 1, 10**9)
    ]
    assert number_for(0, 41) == 42  # of one that has never moved: as in its log


@given(
    cuts=st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 5)), min_size=1, max_size=4),
    origin=st.sampled_from("abc"),
    position=st.integers(1, 6),
)
def test_a_notification_is_for_one_place(cuts: list[dict[str, int]], origin: str, position: int) -> None:
    total: dict[str, int] = {"c": 1}
    growing = []
    for each in cuts:
        total = {name: max(total.get(name, 0), each.get(name, 0)) for name in "abc"} | {"c": 1}
        growing.append(total)
    bounds = [{}, *growing, {}]
    found = [is_for(origin, position, *pair) for pair in pairwise(bounds)]
    assert found.count(True) == 1


def test_the_parts_are_the_places_in_their_order_each_up_to_the_next_cut() -> None:
    cut = {"a": 9}
    assert parts_of([], cut) == (0, [])
    held = [Holding("b", 1, ("s",), {"a": 4}), Holding("x", HERE, (), {}), Holding("a", 0, ("s",), {})]
    assert parts_of(held, cut) == (2, [Part("a", 0, {"a": 4}), Part("b", 1, cut)])


# -- nodes -----------------------------------------------------------------------------------------------------

plans = st.builds(
    Plan,
    seed=st.integers(0, 1 << 32),
    brokers=st.integers(2, 5),
    steps=st.integers(100, 600),
    faults=st.one_of(st.just(frozenset()), st.frozensets(st.sampled_from(FAULTS))),
    strategy=st.sampled_from(sorted(STRATEGIES)),
    producers=st.integers(1, 3),
    durables=st.integers(1, 3),
    often=st.sampled_from([0.01, 0.03]),
    advertisements=st.sampled_from([None, None, *sorted(STRATEGIES.keys() - {"flooding"})]),
    hierarchical=st.sampled_from([False, False, False, True]),
    moves=st.sampled_from([0.05, 0.3]),
    producers_move=st.sampled_from([0.0, 0.1]),
)


def run(plan: Plan) -> World:
    """Run a plan; AssertionError where something was lost, came twice, out of order, or was left behind."""
    world = World(plan)
    tally = world.run().tally()
    assert tally.holds, f"{plan}\n{tally}"
    left = [name for host in world.hosts.values() if host.node is not None for name in host.node.durables]
    assert not [name for name in left if LEFT in name], f"{plan}\n{left}"
    assert len(left) == len(set(left)), f"{plan}\n{left}"
    return world


@settings(max_examples=max(200, settings.default.max_examples))  # type: ignore[union-attr]
@given(plan=plans)
def test_who_moves_gets_everything_once_and_in_order_and_leaves_nothing_behind(plan: Plan) -> None:
    report = audit(run(plan).accounts.trace(), *SPECIFICATIONS, engine="brute")
    assert report.verdict is Verdict.HOLDS, f"{plan}\n{report}"


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_with_every_algorithm_many_have_moved(strategy: str) -> None:
    moved = sum(
        run(Plan(seed, brokers=4, faults=frozenset(), strategy=strategy, moves=0.3, producers_move=0.1)).moved
        for seed in range(12)
    )
    assert moved > 100


# -- mutants ---------------------------------------------------------------------------------------------------


def unheld(patch: pytest.MonkeyPatch) -> None:
    """The new broker hands out its own before what comes from the one before."""
    patch.setattr(destinations_module.Durable, "ready", property(lambda self: self.is_claimed))


def long(patch: pytest.MonkeyPatch) -> None:
    """The place before ends some records before the cut: they are for nobody."""
    patch.setattr(
        destinations_module,
        "is_for",
        lambda origin, position, after, upto: is_for(
            origin, position, after, {name: each - 20 for name, each in upto.items()}
        ),
    )


def from_the_end(patch: pytest.MonkeyPatch) -> None:
    """The place before has nothing to give."""
    patch.setattr(Handover, "_portion", lambda self, durable, start, most, reached: ([], reached))


def without_the_last(patch: pytest.MonkeyPatch) -> None:
    """Of each answer, the last record is left out."""
    portion = Handover._portion

    def shorter(self: Handover, *given: Any) -> tuple[list[Any], int]:
        records, end = portion(self, *given)
        return records[:-1], end

    patch.setattr(Handover, "_portion", shorter)


def from_the_beginning(patch: pytest.MonkeyPatch) -> None:
    """Each place numbers its deliveries as if it were the first: who comes back takes them for known."""
    for module in (places, destinations_module, handover_module):
        patch.setattr(module, "number_for", lambda counter, offset: offset + 1)


def never_ended(patch: pytest.MonkeyPatch) -> None:
    """The place before does not end."""
    patch.setattr(Handover, "_forget", lambda self, message, now: None)


def forgetful(patch: pytest.MonkeyPatch) -> None:
    """The name is not sought: each broker has a subscriber of its own."""
    patch.setattr(Handover, "seeks", lambda self, *, patient: False)


def at_once(patch: pytest.MonkeyPatch) -> None:
    """A producer goes on at once."""
    patch.setattr(
        Following, "follow", lambda self, session, message: session.tell(durability.wire.Done(message.number))
    )


def unknown(patch: pytest.MonkeyPatch) -> None:
    """What a producer publishes again counts as new."""
    patch.setattr(Following, "_known", lambda self, unsure: [])


BROKEN = [
    *(
        Plan(
            seed,
            brokers=2 + seed % 4,
            faults=frozenset({"reset", "pause"}),
            often=0.02,
            moves=0.25,
            producers_move=0.15,
        )
        for seed in range(100)
    ),
]


@pytest.mark.parametrize(
    "mutant",
    [
        *(unheld, long, from_the_end, without_the_last, from_the_beginning, never_ended),
        *(forgetful, at_once, unknown),
    ],
)
def test_a_move_that_goes_wrong_is_found(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        run_all()


def run_all() -> None:
    for plan in BROKEN:
        run(plan)


def test_the_plans_that_find_mutants_find_nothing_without_one() -> None:
    run_all()


# -- over sockets ----------------------------------------------------------------------------------------------


def three(brokers: Brokers, path: Path) -> list[str]:
    """The addresses of three brokers in a line."""
    urls: list[str] = []
    for name in ("west", "middle", "east"):
        urls.append(brokers.start(name, path, links=urls[-1:]).url)
    return urls


def test_a_durable_name_is_one_name_in_the_whole_network(brokers: Brokers, tmp_path: Path) -> None:
    west, middle, east = three(brokers, tmp_path)
    with sync.connect(middle) as producer:
        with sync.connect(west) as first, first.subscribe("exists x", durable="desk") as desk:
            producer.publish({"x": 1})
            producer.publish({"x": 2})
            assert desk.get(30).get("x") == 1
        producer.publish({"x": 3})
        # Another process, which knows nothing of the first.
        with sync.connect(east) as second, second.subscribe("exists x", durable="desk") as desk:
            producer.publish({"x": 4})
            assert [desk.get(30).get("x") for _ in range(3)] == [2, 3, 4]
        with sync.connect(west) as third:
            desk = third.subscribe("exists x", durable="desk")
            producer.publish({"x": 5})
            assert desk.get(30).get("x") == 5


def test_a_client_moves_with_all_its_subscriptions(brokers: Brokers, tmp_path: Path) -> None:
    urls = three(brokers, tmp_path)
    with sync.connect(urls[1], name="producer") as producer, sync.connect(urls[0], roams="1h") as client:
        plain, desk = client.subscribe("x >= 0"), client.subscribe("x >= 0", durable="desk")
        expected = []
        for number in range(12):
            producer.publish({"x": number})
            expected.append(number)
            if number % 3 == 2:
                client.move(urls[number % len(urls) if number % 2 else 2])
        for subscription in (plain, desk):
            assert [subscription.get(30).get("x") for _ in expected] == expected
        plain.close()


def test_whoever_is_handed_the_place_goes_on_in_another_process(brokers: Brokers, tmp_path: Path) -> None:
    west, _, east = three(brokers, tmp_path)
    with sync.connect(east) as producer:
        client = sync.connect(west, name="car", roams="1h")
        client.open()
        cars = client.subscribe("exists x")
        for number in range(4):
            producer.publish({"x": number})
        first = cars.delivery(30)
        assert first.notification.get("x") == 0
        first.accept()
        left = client.move_out()
        producer.publish({"x": 4})
        assert MovedOut.of(str(left)) == left
        with sync.connect(east, roams="1h", moved_from=str(left)) as other:
            assert other.name == "car"
            found = other.subscribe("exists x")
            assert [found.get(30).get("x") for _ in range(4)] == [1, 2, 3, 4]
    with pytest.raises(ValueRefused, match="moved_from is what"):
        sync.connect(west, moved_from="elsewhere")


@on_a_loop
async def test_a_producer_that_moves_is_delivered_in_its_order(tmp_path: Path) -> None:
    with Brokers() as brokers:
        urls = await asyncio.to_thread(three, brokers, tmp_path)
        async with (
            connect(urls[1]) as consumer,
            connect(urls[0], name="p", roams="1h") as producer,
            consumer.subscribe("exists x") as found,
        ):
            for number in range(20):
                await producer.publish({"x": number})
                if number % 5 == 4:
                    await producer.move(urls[(number // 5) % 3])
            assert [(await found.get()).get("x") for _ in range(20)] == [*range(20)]


def test_what_is_shared_does_not_move(brokers: Brokers, tmp_path: Path) -> None:
    west, _, east = three(brokers, tmp_path)
    with sync.connect(west) as first, sync.connect(east) as second:
        first.subscribe("true", durable="work", shared=True)
        with pytest.raises(BrokerRefused, match="does not move"):
            second.subscribe("true", durable="work")
