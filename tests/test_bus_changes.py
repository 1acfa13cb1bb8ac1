"""A filter is changed in one step: each notification is for the filter at its place in the order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import Bus, Notification
from fairlead.audit import Event, Notified, Verdict, audit
from fairlead.bus.changing import Changing
from fairlead.bus.registry import Registry
from fairlead.errors import SubscriptionRefused
from fairlead.filters import parse
from fairlead.filters.filter import Filter
from fairlead.model import Instant

FILTERS = ("x < 3", "x >= 2", "x in {1, 4}", "true", "x = 9")
SPECIFICATIONS = ("simple", "fifo")

steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 5)),
        st.tuples(st.just("change"), st.sampled_from(FILTERS)),
    ),
    max_size=12,
)


def delivered(trace: list[Event]) -> list[str]:
    return [event.identity.id for event in trace if isinstance(event, Notified)]


def check_that_a_change_has_its_place(plan: list[tuple[str, Any]]) -> None:
    trace: list[Event] = []
    expected, filter = [], parse(FILTERS[0])
    with Bus(trace=trace.append) as bus:
        subscription = bus.subscribe(FILTERS[0], subscriber="a")
        for number, (kind, value) in enumerate(plan):
            if kind == "change":
                filter = parse(value)
                subscription.change(value)
                assert subscription.filter == subscription.granted == filter
            else:
                bus.publish({"x": value, "id": f"n{number}"})
                expected += [f"n{number}"] * filter.matches(Notification.of({"x": value}))
        found = [subscription.get().id for _ in range(len(subscription))]
    assert found == delivered(trace) == expected
    assert audit(trace, *SPECIFICATIONS).verdict is Verdict.HOLDS


@given(steps)
def test_a_notification_is_for_the_filter_at_its_place(plan: list[tuple[str, Any]]) -> None:
    check_that_a_change_has_its_place(plan)


events = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), min_size=1, max_size=10)
changes = st.lists(st.tuples(st.integers(1, 40), st.sampled_from(FILTERS)), max_size=4)


def at_places(
    published: list[tuple[int, int]], changed: list[tuple[int, str]], order: random.Random
) -> list[str]:
    """The deliveries, where notifications and changes come in any order."""
    trace: list[Event] = []
    with Bus(order="ordered", lateness_us=100, trace=trace.append) as bus:
        subscription = bus.subscribe(FILTERS[0], subscriber="a")
        for at, filter in changed:  # two at one time: the later call counts
            subscription.change(filter, at=Instant(at))
        shuffled = list(enumerate(published))
        order.shuffle(shuffled)
        for number, (x, time) in shuffled:
            bus.publish({"x": x, "time": time, "id": f"n{number:02}"})
    assert audit(trace, "simple").verdict is Verdict.HOLDS
    return delivered(trace)


def by_definition(published: list[tuple[int, int]], changed: list[tuple[int, str]]) -> list[str]:
    def filter_at(time: int) -> Filter:
        due = [(at, number, filter) for number, (at, filter) in enumerate(changed) if at <= time]
        return parse(max(due)[2] if due else FILTERS[0])

    keyed = sorted((time, f"n{number:02}", x) for number, (x, time) in enumerate(published))
    return [id for time, id, x in keyed if filter_at(time).matches(Notification.of({"x": x}))]


@given(events, changes, st.integers(0, 5))
def test_on_an_ordered_bus_the_place_is_a_time_whatever_comes_when(
    published: list[tuple[int, int]], changed: list[tuple[int, str]], seed: int
) -> None:
    assert at_places(published, changed, random.Random(seed)) == by_definition(published, changed)


def test_without_a_time_the_place_is_the_watermark() -> None:
    with Bus(order="ordered", lateness_us=10) as bus:
        subscription = bus.subscribe("x = 1", subscriber="a")
        for number, x in enumerate((1, 2, 1)):
            bus.publish({"x": x, "time": number})
        bus.advance(Instant(1))
        subscription.change("x = 2")
        bus.advance(Instant(100))
        assert [(each.get("x"), each.order_time) for each in taken(subscription)] == [(1, 0), (2, 1)]


def taken(subscription: Any) -> list[Any]:
    return [_Seen(subscription.get_delivery()) for _ in range(len(subscription))]


class _Seen:
    def __init__(self, delivery: Any) -> None:
        self.get, self.order_time = delivery.notification.get, delivery.key.time


def test_a_subscriber_that_asks_for_the_changed_filter_has_that_subscription() -> None:
    bus = Bus()
    first = bus.subscribe("x = 1", subscriber="a")
    first.change("x = 2")
    assert bus.subscribe("x = 2", subscriber="a") is first
    assert bus.subscribe("x = 1", subscriber="a") is not first
    assert first.close() is None
    assert bus.statistics().subscriptions == 1


def test_what_cannot_be_changed_says_why() -> None:
    bus = Bus()
    detection = bus.detect("A followed by B")
    with pytest.raises(SubscriptionRefused, match="the question of a detection"):
        detection.change("true")
    subscription = bus.subscribe("true")
    with pytest.raises(SubscriptionRefused, match="`at` is a time in the total order"):
        subscription.change("x = 1", at=Instant(1))
    subscription.close()
    with pytest.raises(SubscriptionRefused, match="is closed"):
        subscription.change("x = 1")


# -- broken ones are found -------------------------------------------------------------------------------------


def _keeps_the_question(self: Registry, subscription: Any, filter: Filter, granted: Filter) -> None:
    subscription.filter, subscription.granted = filter, granted


def _ignores_the_time(self: Changing, time: int) -> list[Any]:
    return _due(self, 1 << 40)


def _one_late(self: Changing, time: int) -> list[Any]:
    return _due(self, time - 1)


_due = Changing.due


def the_law_of_places() -> None:
    rng = random.Random(7)
    for _ in range(60):
        published = [(rng.randrange(6), rng.randrange(41)) for _ in range(8)]
        changed = [(rng.randrange(1, 41), rng.choice(FILTERS)) for _ in range(2)]
        assert at_places(published, changed, rng) == by_definition(published, changed)


@pytest.mark.parametrize(
    ("where", "name", "broken", "law"),
    [
        (
            *(Registry, "change", _keeps_the_question),
            test_a_subscriber_that_asks_for_the_changed_filter_has_that_subscription,
        ),
        (Changing, "due", _ignores_the_time, the_law_of_places),
        (Changing, "due", _one_late, the_law_of_places),
    ],
)
def test_a_broken_bus_is_found(
    monkeypatch: pytest.MonkeyPatch, where: type, name: str, broken: object, law: Callable[[], None]
) -> None:
    the_law_of_places()
    monkeypatch.setattr(where, name, broken)
    with pytest.raises((AssertionError, KeyError)):
        law()
