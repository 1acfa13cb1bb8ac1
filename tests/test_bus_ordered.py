"""The ordered bus: the same input gives the same deliveries, in whatever order it was published."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import audit
from fairlead.audit import Event, Verdict
from fairlead.bus import Bus, SubscriptionRefused
from fairlead.delivery import DeliveryRecord, Late
from fairlead.model import Instant, Notification
from fairlead.model.order import END, order_keys

FILTERS = {"a1": "exists id", "a2": "x > 1", "b1": "x <= 1", "c1": 'producer = "p"'}


def lines(bus: Bus, events: list[dict[str, Any]]) -> list[bytes]:
    """What is delivered to everybody, in the byte form, in the order of handing over."""
    inboxes = {id: bus.subscribe(text, id=id, subscriber=id[0]) for id, text in FILTERS.items()}
    for event in events:
        bus.publish(event)
    bus.close()
    found = []
    for id in ("a1", "b1", "c1"):
        while len(inboxes[id]):
            each = inboxes[id].get_delivery()
            assert each.key is not None
            found.append(DeliveryRecord(each.subscriber, each.key, each.subscriptions))
    return [each.line() for each in sorted(found, key=lambda each: each.rank)]


@st.composite
def published(draw: st.DrawFn) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, 12))):
        event: dict[str, Any] = {"x": draw(st.integers(0, 3)), "time": draw(st.integers(0, 50))}
        event["producer"] = draw(st.sampled_from("pq"))
        if draw(st.booleans()):
            event["id"] = number
        if draw(st.booleans()):
            event["sequence"] = draw(st.integers(0, 5))
        if number and draw(st.booleans()):
            event["cause"] = f"{draw(st.sampled_from('pq'))}/{draw(st.integers(0, number))}"
        events.append(event)
    return events


@given(published(), st.randoms(use_true_random=False))
def test_publishing_in_another_order_gives_the_same_bytes(events: list[dict[str, Any]], rng: Any) -> None:
    lateness = 1_000  # more than all of them are apart
    shuffled = rng.sample(events, len(events))
    first = lines(Bus(order="ordered", lateness_us=lateness), events)
    assert lines(Bus(order="ordered", lateness_us=lateness), shuffled) == first


@given(published())
def test_deliveries_are_those_of_the_finite_set_in_its_order(events: list[dict[str, Any]]) -> None:
    identified = [{**event, "id": f"e{number}"} for number, event in enumerate(events)]
    notifications = [Notification.of(event) for event in identified]
    keys = order_keys(notifications)
    expected = sorted(key.rank for key in keys)
    bus = Bus(order="ordered", lateness_us=1_000)
    inbox = bus.subscribe("exists id", subscriber="a")
    for event in identified:
        bus.publish(event)
    bus.close()
    found = []
    while len(inbox):
        key = inbox.get_delivery().key
        assert key is not None
        found.append(key.rank)
    assert found == expected


@given(published())
def test_what_an_ordered_bus_does_keeps_every_specification(events: list[dict[str, Any]]) -> None:
    trace: list[Event] = []
    lines(Bus(order="ordered", lateness_us=1_000, trace=trace.append), events)
    assert audit.audit(trace, *audit.SPECIFICATIONS).verdict is Verdict.HOLDS


def test_a_notification_is_held_until_the_watermark_has_passed_it() -> None:
    bus = Bus(order="ordered", lateness_us=10)
    inbox = bus.subscribe("exists id")
    bus.publish({"id": 1, "time": 100})
    bus.publish({"id": 2, "time": 110})
    assert (len(inbox), bus.statistics().held) == (0, 2)
    bus.publish({"id": 3, "time": 111})
    assert inbox.get().id == "1"
    bus.close()
    assert [each.id for each in inbox] == ["2", "3"]


def test_what_comes_too_late_goes_to_the_late_channel_and_to_nobody_else() -> None:
    late: list[Late] = []
    bus = Bus(order="ordered", on_late=late.append)
    inbox = bus.subscribe("exists id")
    for time in (100, 200, 150):
        bus.publish({"id": time, "time": time})
    bus.close()
    assert [each.id for each in inbox] == ["100", "200"]
    assert [(each.notification.id, each.watermark) for each in late] == [("150", 200)]
    assert bus.statistics().late == 1


def test_a_late_hook_that_raises_is_counted_and_stops_nobody() -> None:
    def fails(_: Late) -> None:
        raise ZeroDivisionError

    bus = Bus(order="ordered", on_late=fails)
    bus.publish({"id": 1, "time": 100})
    assert bus.publish({"id": 2, "time": 50}) is not None
    assert (bus.statistics().late, bus.statistics().errors) == (1, 1)


def test_a_duplicate_is_known_while_its_time_has_not_passed() -> None:
    bus = Bus(order="ordered", lateness_us=1_000)
    assert bus.publish({"id": 1, "time": 5}) is not None
    assert bus.publish({"id": 1, "time": 5}) is None
    assert bus.statistics().duplicates == 1


def test_a_subscription_holds_for_the_order_keys_it_asks_for() -> None:
    bus = Bus(order="ordered", lateness_us=1_000)
    inbox = bus.subscribe("exists id", since=Instant(20), until=Instant(40))
    for time in (40, 30, 20, 10):
        bus.publish({"id": time, "time": time})
    bus.close()
    assert [each.id for each in inbox] == ["20", "30"]


def test_a_subscription_sees_what_is_held_back_when_it_is_made() -> None:
    bus = Bus(order="ordered", lateness_us=10)
    for time in (10, 20, 30):
        bus.publish({"id": time, "time": time})
    inbox = bus.subscribe("exists id", since=Instant(0))
    bus.close()
    assert [each.id for each in inbox] == ["20", "30"]  # 10 had been released


def test_what_is_no_longer_advertised_when_its_place_comes_is_not_delivered() -> None:
    trace: list[Event] = []
    bus = Bus(order="ordered", lateness_us=10, trace=trace.append)
    inbox = bus.subscribe("exists id")
    advertised = bus.advertise("exists id")
    bus.publish({"id": 1, "time": 10})
    bus.unadvertise(advertised)
    bus.close()
    assert list(inbox) == []
    assert bus.statistics().not_advertised == 1
    assert audit.audit(trace, "advertisements").verdict is Verdict.HOLDS


def test_an_object_without_an_encoding_can_be_published_in_order_too() -> None:
    bus = Bus(order="ordered")
    inbox = bus.subscribe("exists thing")
    bus.publish({"thing": object(), "time": 2})
    bus.publish({"thing": object(), "time": 1})
    bus.close()
    assert len(list(inbox)) == 1
    assert bus.statistics().late == 1


@pytest.mark.parametrize("bounds", [{"since": Instant(0)}, {"until": Instant(END)}])
def test_a_live_bus_has_no_places_in_the_order(bounds: dict[str, Instant]) -> None:
    with pytest.raises(SubscriptionRefused, match=r"total order|has no log"):
        Bus().subscribe("exists id", **bounds)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'live' or 'ordered'"):
        Bus(order="alive")  # type: ignore[arg-type]


def test_a_subscription_that_is_refused_leaves_nothing_behind() -> None:
    bus = Bus(order="ordered")
    with pytest.raises(SubscriptionRefused, match="end before it begins"):
        bus.subscribe("x > 0", id="s", since=Instant(6), until=Instant(3))
    again = bus.subscribe("x > 1", id="s")
    bus.publish({"x": 1, "time": Instant(7)})
    bus.publish({"x": 2, "time": Instant(8)})
    bus.close()
    assert [each.get("x") for each in again] == [2]


def test_of_conflicting_copies_the_smallest_is_delivered_and_the_conflict_counted() -> None:
    for values in ((2, 1, 3, 1.0), (3, 1, 2, 1), (1, 2, 1, 3)):
        taken: list[Notification] = []
        bus = Bus(order="ordered")
        bus.subscribe("exists v", taken.append)
        for value in values:
            bus.publish({"id": "1", "producer": "p", "time": 5, "v": value})
        bus.close()
        assert [each.get("v") for each in taken] == [1]
        assert bus.statistics().conflicts + bus.statistics().duplicates == 3
        assert bus.statistics().conflicts >= 2
