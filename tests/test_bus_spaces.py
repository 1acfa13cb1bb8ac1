"""Spaces: what is written stays until one takes it; linearizable, in transactions, with leases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import Bus, Instant, ValueRefused
from fairlead.filters.language import parse
from fairlead.model import Notification

TEMPLATES = ("true", "x = 1", "x > 1", 'kind = "a"')


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 3), st.sampled_from("ab")),
            st.tuples(
                st.sampled_from(["read", "take", "commit", "abort"]), st.sampled_from(TEMPLATES), st.just("")
            ),
        ),
        max_size=20,
    )
)
def test_a_space_is_a_list_of_which_the_oldest_that_matches_is_taken(given: list[tuple[Any, ...]]) -> None:
    bus = Bus()
    space, model, ids = bus.space("jobs"), list[dict[str, Any]](), count()

    def oldest(template: str) -> dict[str, Any] | None:
        wanted = parse(template)
        return next((each for each in model if wanted.matches(Notification.of(each))), None)

    for what, first, second in given:
        if what == "write":
            event = {"x": first, "kind": second, "id": str(next(ids)), "producer": "p"}
            space.write(event)
            model.append(event)
            continue
        expected = oldest(first)
        if what == "read":
            shown = space.read_if_exists(first)
        elif what == "take":
            shown = space.take_if_exists(first)
        else:
            with bus.transaction() as t:
                shown = space.take_if_exists(first, transaction=t)
                written = {"x": 1, "kind": "b", "id": str(next(ids)), "producer": "p"}
                space.write(written, transaction=t)
                if shown is not None:
                    assert shown.id not in [each.id for each in space.held()], "it is away meanwhile"
                if what == "abort":
                    t.abort()
            if what == "commit":
                model.append(written)
        assert (None if shown is None else shown.id) == (None if expected is None else expected["id"])
        if expected is not None and what in ("take", "commit"):
            model.remove(expected)
    assert [each.id for each in space.held()] == [each["id"] for each in model]


def test_waiting_takers_are_served_in_their_order_and_readers_get_it_too() -> None:
    bus = Bus()
    space = bus.space("jobs")
    got: dict[str, int] = {}

    def start(name: str, call: Callable[..., Notification]) -> threading.Thread:
        def run() -> None:
            got[name] = int(call('("job", *)', timeout=30).get("tuple").items[1])

        before = len(space._waiting)
        thread = threading.Thread(target=run)
        thread.start()
        while len(space._waiting) == before:
            pass
        return thread

    threads = [
        start(name, call)
        for name, call in [("early", space.read), ("first", space.take), ("second", space.take)]
    ]
    space.write(("job", 1))
    space.write(("job", 2))
    for thread in threads:
        thread.join(30)
    assert got == {"early": 1, "first": 1, "second": 2}
    assert len(space) == 0


def test_each_is_taken_by_one_of_several_threads() -> None:
    space = Bus().space("jobs")
    taken: list[list[int]] = [[] for _ in range(4)]

    def worker(mine: list[int]) -> None:
        while (x := int(space.take("exists x", timeout=30).get("x"))) >= 0:
            mine.append(x)

    threads = [threading.Thread(target=worker, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for x in range(200):
        space.write({"x": x})
    for at in range(len(threads)):
        space.write({"x": -1, "end": at})
    for thread in threads:
        thread.join(30)
    assert sorted(x for mine in taken for x in mine) == [*range(200)]
    assert all(mine == sorted(mine) for mine in taken)


Op = tuple[int, int, str, int, int | None]
"""Begin, end, what, argument, outcome."""


def linearizable(operations: list[Op], held: tuple[int, ...] = ()) -> bool:
    """Whether some order of concurrent operations that keeps those apart in time gives these outcomes (Wing and
    Gong)."""
    if not operations:
        return True
    first_end = min(each[1] for each in operations)
    for each in operations:
        begin, _, what, argument, outcome = each
        if begin > first_end:
            continue
        rest = [other for other in operations if other is not each]
        if what == "write":
            if linearizable(rest, (*held, argument)):
                return True
            continue
        oldest = next((x for x in held if x % 2 == argument), None)
        left = tuple(x for x in held if x != oldest) if what == "take" else held
        if oldest == outcome and linearizable(rest, left):
            return True
    return False


def concurrently(seed: int) -> list[Op]:
    """Some operations of three threads."""
    rng, clock = Random(seed), count()
    space, operations = Bus().space("s"), list[Op]()
    plans = [
        [(rng.choice(["write", "write", "take", "read"]), rng.randrange(2)) for _ in range(4)]
        for _ in range(3)
    ]
    values, barrier = count(), threading.Barrier(3)

    def run(plan: list[tuple[str, int]]) -> None:
        barrier.wait(30)
        for what, parity in plan:
            argument, outcome = parity, None
            if what == "write":
                argument = 2 * next(values) + parity
                begin = next(clock)
                space.write({"x": argument, "parity": parity})
            else:
                begin = next(clock)
                call = space.take_if_exists if what == "take" else space.read_if_exists
                shown = call(f"parity = {parity}")
                outcome = None if shown is None else int(shown.get("x"))
            operations.append((begin, next(clock), what, argument, outcome))

    threads = [threading.Thread(target=run, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return operations


@pytest.mark.parametrize("seed", range(20))
def test_concurrent_operations_are_those_of_a_list_under_a_lock(seed: int) -> None:
    assert linearizable(concurrently(seed))


def test_one_that_is_taken_by_two_is_found() -> None:
    write: Op = (0, 1, "write", 2, None)
    take: Op = (2, 5, "take", 0, 2)
    assert linearizable([write, take])
    assert not linearizable([write, take, (3, 6, "take", 0, 2)])
    assert not linearizable([write, (2, 3, "take", 0, None)])


def test_what_a_block_does_not_finish_is_back_at_its_place() -> None:
    space = Bus().space("jobs")
    for x in (1, 2, 3):
        space.write({"x": x})

    def fail() -> None:
        with space.taking("x > 1") as job:
            raise KeyError(job.get("x"))

    with pytest.raises(KeyError, match="2"):
        fail()
    assert [each.get("x") for each in space.held()] == [1, 2, 3]
    with space.taking("x > 1"):
        pass
    assert [each.get("x") for each in space.held()] == [1, 3]


def test_a_lease_ends_and_needs_a_clock() -> None:
    now = Instant(1_000_000)
    bus = Bus(clock=lambda: now)
    space = bus.space("jobs")
    space.write({"x": 1}, lease="10s")
    space.write({"x": 2})
    now = Instant(10_999_999)
    assert [each.get("x") for each in space.held()] == [1, 2]
    now = Instant(11_000_000)
    assert space.take("true").get("x") == 2
    with pytest.raises(ValueRefused, match="by the clock of the bus"):
        Bus().space("jobs").write({"x": 1}, lease=1)


def test_others_see_what_is_written_and_time_runs_out() -> None:
    bus = Bus()
    seen: list[Any] = []
    space = bus.space("jobs")
    space.notify("x > 1", seen.append)
    everybody = bus.subscribe('space = "jobs"')
    for x in (1, 2):
        space.write({"x": x})
    assert ([each.get("x") for each in seen], len(everybody)) == ([2], 2)
    with pytest.raises(TimeoutError, match="the space 'jobs' in time"):
        space.take("x = 3", timeout=0)
    with pytest.raises(ValueRefused, match="says another one"):
        space.write({"space": "other"})
    with pytest.raises(ValueRefused, match="has a name"):
        bus.space("")
