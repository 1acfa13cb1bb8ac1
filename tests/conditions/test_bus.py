"""Conditions of subscriptions on the bus: the reference over what the filter lets through, in its order."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl
from fairlead import audit
from fairlead.audit import Event, Notified
from fairlead.bus import Bus, Subscription
from fairlead.conditions import changes, parse
from fairlead.errors import FilterSyntaxError, Forbidden
from fairlead.model import Notification
from fairlead.rules.access import Access
from fairlead.security import AccessPolicy
from fairlead_lab.testing.conditions import passed

TEXTS = [
    "x changes",
    "x changes by 2, per room",
    "every 2nd",
    "at most 1 per 3 us or after 5 us",
    "x mean changes by 1 over 2",
]


def taken(subscription: Subscription) -> list[Any]:
    return [subscription.get(timeout=0).get("x") for _ in range(len(subscription))]


def test_only_what_a_condition_lets_pass_is_delivered() -> None:
    with Bus() as bus:
        inbox = bus.subscribe("exists room", on="x changes by 1, per room")
        plain = bus.subscribe("exists room")
        for room, x in [("a", 20), ("b", 20), ("a", Decimal("20.5")), ("a", 21), ("b", 21), ("c", 5)]:
            bus.publish({"room": room, "x": x})
        bus.publish({"x": 99})
        assert taken(inbox) == [20, 20, 21, 21, 5]
        assert len(plain) == 6
        assert inbox.on == changes("x", by=1, per=("room",))


def test_a_condition_is_part_of_what_a_subscriber_asks_for() -> None:
    with Bus() as bus:
        first = bus.subscribe("x > 0", subscriber="ada", on="x changes")
        assert bus.subscribe("x > 0", subscriber="ada", on=parse("x changes")) is first
        assert bus.subscribe("x > 0", subscriber="ada", on="every 3rd") is not first
        assert bus.subscribe("x > 0", subscriber="ada") is not first


def test_one_delivery_names_the_subscriptions_whose_conditions_let_it_pass() -> None:
    with Bus() as bus:
        inbox = bus.subscribe("x > 0", subscriber="ada", id="changed", on="x changes")
        bus.subscribe("x > 0", subscriber="ada", id="every", on="every 2nd")
        for x in (1, 1, 1, 2):
            bus.publish({"x": x})
        got = [inbox.get_delivery(0) for _ in range(len(inbox))]
        assert [(each.notification.get("x"), each.subscriptions) for each in got] == [
            (1, ("changed", "every")),
            (1, ("every",)),
            (2, ("changed",)),
        ]


def test_a_text_that_is_no_condition_is_refused_and_nothing_is_subscribed() -> None:
    with Bus() as bus:
        with pytest.raises(FilterSyntaxError, match="changes"):
            bus.subscribe("x > 0", on="x moves")
        assert not bus.subscriptions


def test_a_subscription_that_is_made_anew_begins_anew() -> None:
    with Bus() as bus:
        with bus.subscribe("true", id="s", on="x changes") as first:
            bus.publish({"x": 1})
            assert taken(first) == [1]
        again = bus.subscribe("true", id="s", on="x changes")
        bus.publish({"x": 1})
        assert taken(again) == [1]


def test_a_trace_of_conditions_keeps_the_specification() -> None:
    trace: list[Event] = []
    with Bus(trace=trace.append) as bus:
        bus.subscribe("x > 0", on="x changes")
        for x in (1, 1, -1, 2):
            bus.publish({"x": x})
    assert not audit.audit(trace).violated()
    assert sum(isinstance(each, Notified) for each in trace) == 2


def test_a_condition_looks_at_nothing_that_is_hidden_from_its_subscriber() -> None:
    roles = {
        "doctor": {"members": ["doctor"], "reads": ["patient"], "subscribe": ["true"]},
        "news": {"members": ["news"], "subscribe": ["true"], "publish": ["true"], "producers": ["news"]},
    }
    policy = AccessPolicy.of({"protected": ["patient"], "roles": roles})
    with Bus(rules=[Access(policy)]) as bus:
        with pytest.raises(Forbidden, match=r"news may not read 'patient\.age'"):
            bus.subscribe("true", subscriber="news", on="patient.age changes")
        inbox = bus.subscribe("true", subscriber="doctor", on="patient.age changes")
        for age in (33, 33, 34):
            bus.publish({"producer": "news", "patient": {"age": age}})
        assert len(inbox) == 2


events = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 4)),
        st.sampled_from("ab"),
        st.sampled_from("pq"),
        st.integers(0, 9),
    ),
    max_size=12,
)


@given(
    events, st.sampled_from(TEXTS), st.sampled_from(["live", "ordered"]), st.randoms(use_true_random=False)
)
def test_a_bus_delivers_what_the_reference_passes(
    events: list[tuple[int | None, str, str, int]], on: str, order: Any, chance: Any
) -> None:
    published = []
    for number, (x, room, producer, time) in enumerate(events):
        event = {"id": str(number), "room": room, "producer": producer, "time": time}
        published.append(event if x is None else {**event, "x": x})
    got: list[Notification] = []
    without: list[Notification] = []
    with Bus(order=order) as bus:
        bus.subscribe('room = "a"', got.append, on=on)
        bus.subscribe('room = "a"', without.append)
        for event in chance.sample(published, len(published)):
            bus.publish(event)
    assert got == passed(parse(on), without)


def test_it_is_public() -> None:
    assert fl.changes("x", by=1) == parse("x changes by 1")
    assert fl.deviates("x", by=2, over=4) == parse("x deviates by 2 over 4")
