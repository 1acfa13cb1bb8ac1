"""Conditions of subscriptions over the network: the reference over what comes without them, in its order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairlead as fl
from fairlead.conditions import Condition, Passing, parse
from fairlead.console.feeds import Wanted
from fairlead.console.problems import Problem
from fairlead.errors import FilterSyntaxError, ValueRefused
from fairlead.model import Notification
from fairlead_lab.testing.brokers import PATIENCE_S, Brokers
from fairlead_lab.testing.conditions import passed

TEXTS = [
    "x changes",
    "x changes by 2, per room",
    "every 2nd",
    "at most 1 per 3 us or after 5 us",
    "x mean changes by 1 over 2",
    "x deviates by 1 over 2, per room",
]
rounds = count()
events = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 4)), st.sampled_from("ab"), st.integers(0, 9)), max_size=12
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Brokers() as brokers:
        yield brokers.start(path=tmp_path_factory.mktemp("logs")).url


async def handed_over(url: str, on: str, published: list[dict[str, Any]], options: dict[str, Any]) -> Any:
    """The ids of what a subscriber gets with a condition, and without."""
    async with asyncio.timeout(PATIENCE_S), fl.connect(url, name="p") as p, fl.connect(url) as desk:
        round = f"r{next(rounds)}"
        wanted = f'round = "{round}" and exists room'
        everything = desk.subscribe(f'round = "{round}"')
        conditioned = desk.subscribe(wanted, on=on, **options)
        await everything.installed()
        await conditioned.installed()
        for each in published:
            await p.send({**each, "id": f"{round}-{each['id']}", "round": round})
        await p.send({"round": round, "is_last": True})
        without: list[Notification] = []
        while (got := await everything.get()).get("is_last") is not True:
            without.append(got)
        return [each.notification for each in conditioned.take_waiting()], without


@given(events, st.sampled_from(TEXTS))
@settings(max_examples=25, deadline=None)
def test_a_client_is_handed_what_the_reference_passes(
    url: str, events: list[tuple[int | None, str, int]], on: str
) -> None:
    published = [
        {"id": str(number), "room": room, "time": time, **({} if x is None else {"x": x})}
        for number, (x, room, time) in enumerate(events)
    ]
    got, without = asyncio.run(handed_over(url, on, published, {}))
    assert got == passed(parse(on), without)


# -- what comes again ------------------------------------------------------------------------------------------


def run(steps: list[tuple[int, bool]], make: Any = Passing) -> tuple[list[int], list[int]]:
    """Values are handed over and accepted, or come again at once: which passed for the first time, and which
    should have."""
    condition = parse("x changes by 2")
    passing, got = make(condition), []
    stream = [Notification.of({"x": x, "id": str(n)}) for n, (x, _) in enumerate(steps)]
    for ordinal, (each, (_, comes_again)) in enumerate(zip(stream, steps, strict=True), 1):
        if passing.passes(each, ordinal):
            got.append(ordinal - 1)
            if comes_again and not passing.passes(each, ordinal):
                got.append(-1)
            passing.settled(ordinal)
    return got, [int(each.id or "") for each in passed(condition, stream)]


steps = st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=12)


@given(steps)
def test_what_comes_again_is_not_judged_again(steps: list[tuple[int, bool]]) -> None:
    got, expected = run(steps)
    assert got == expected


class JudgesAgain(Passing):
    def passes(self, notification: Notification, ordinal: int = 0) -> bool:
        return self._suppression.passes(notification)


class LetsAllPassOnce(Passing):
    def passes(self, notification: Notification, ordinal: int = 0) -> bool:
        return super().passes(notification, ordinal) or not ordinal % 5


@pytest.mark.parametrize("mutant", [JudgesAgain, LetsAllPassOnce])
def test_a_defect_is_found(mutant: Any) -> None:
    runs = [[(x * k % 7, x % 2 == 0) for x in range(12)] for k in range(1, 7)]
    assert any(got != expected for got, expected in (run(each, mutant) for each in runs))
    assert all(got == expected for got, expected in map(run, runs))


def test_a_durable_subscriber_is_handed_again_what_it_did_not_accept(url: str) -> None:
    """Case 7 of the corpus: what was handed out and not accepted comes again, whoever asks."""
    with fl.sync.connect(url, name="desk") as client:

        def subscribe() -> Any:
            return client.subscribe('type = "scale"', durable="scale", on="x changes by 1")

        def value(reader: Any) -> tuple[float, int]:
            delivery = reader.delivery(PATIENCE_S)
            deliveries.append(delivery)
            return float(delivery.notification.get("x")), delivery.attempt

        deliveries: list[Any] = []
        with subscribe() as first:
            for n, x in enumerate((20, 20.4, 21.5, 22, 23.1, 19)):
                client.publish({"type": "scale", "x": x, "id": f"scale-{n}"})
            assert value(first) == (20, 1)
            deliveries[-1].accept()
            assert value(first) == (21.5, 1)
        with subscribe() as second:
            assert [value(second)[0] for _ in range(3)] == [21.5, 23.1, 19]
            attempt = deliveries[-1].attempt
            deliveries[-1].reject(again=True)
            assert value(second) == (19, attempt + 1)
            deliveries[-1].accept()
        client.forget("scale")


def test_what_makes_no_sense_is_refused(url: str) -> None:
    with fl.sync.connect(url) as client:
        with pytest.raises(FilterSyntaxError, match="moves"):
            client.subscribe("true", on="x moves")
        with pytest.raises(ValueRefused, match="a member of a shared subscriber gets a part"):
            client.subscribe("true", durable="work", shared=True, on="x changes")
        with client.subscribe("true", on="x changes") as made:
            assert isinstance(made.on, Condition)
    with pytest.raises(Problem, match="moves"):
        Wanted.of([("filter", "true"), ("on", "x moves")])
    with pytest.raises(Problem, match="gets a part"):
        Wanted.of([("filter", "true"), ("durable", "a"), ("shared", "1"), ("on", "x changes")])
    assert Wanted.of([("filter", "true"), ("on", "x changes by 1")]).on == fl.changes("x", by=1)
