"""Sources of a bus: they publish while somebody wants it, and what they are made of likewise."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl

FILTERS = ["x > 0", "x in [5, 7]", "x = 1", "exists y", "x > 3 and exists y"]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(FILTERS)), max_size=12))
def test_a_source_is_wanted_iff_a_subscription_overlaps_with_it(changes: list[tuple[bool, str]]) -> None:
    with fl.Bus() as bus:
        source = bus.source("x in [1, 4]")
        told: list[bool] = []
        source.on_change(told.append)
        for is_added, text in changes:
            if is_added:
                bus.subscribe(text, subscriber="s")
            else:
                for each in bus.subscriptions:
                    if each.filter == fl.parse(text):
                        each.close()
            wanted = any(fl.overlaps(each.filter, source.filter) for each in bus.subscriptions)
            assert source.is_wanted == wanted == told[-1]
            assert (source.publish({"x": 4, "y": 1}) is not None) == wanted
        assert all(one != other for one, other in pairwise(told))


def test_what_nobody_wants_is_not_read_and_what_is_delivered_is_what_is_wanted() -> None:
    with fl.Bus() as bus, bus.source("exists celsius", producer="roof") as source:
        read: list[int] = []

        def sensor() -> dict[str, int] | None:
            read.append(20 + len(read))
            return {"celsius": read[-1]} if read[-1] != 21 else None

        assert source.poll(sensor) is None
        assert read == []
        with bus.subscribe("celsius > 0") as inbox:
            source.poll(sensor)
            assert source.poll(sensor) is None  # nothing to publish
            source.poll(sensor)
            assert [(each.producer, each.get("celsius")) for each in (inbox.get(0), inbox.get(0))] == [
                ("roof", 20),
                ("roof", 22),
            ]
        assert source.publish({"celsius": 1}) is None
        assert source.discarded == 1


def test_chains_sleep_and_wake_as_a_whole_and_patterns_count() -> None:
    with fl.Bus() as bus:
        raw, mean, alarm = (bus.source(f'type = "{name}"') for name in ("Raw", "Mean", "Alarm"))
        mean.needs('type = "Raw"', lambda each: mean.publish({"type": "Mean", "x": each.get("x")}))
        alarm.needs(
            'type = "Mean" and x > 30', lambda each: alarm.publish({"type": "Alarm", "at": each.get("x")})
        )
        assert not raw.is_wanted
        alarms = bus.detect("Alarm as a")
        assert raw.is_wanted
        raw.publish({"type": "Raw", "x": 40})
        bus.advance(fl.Instant(1))
        assert len(alarms) == 1
        alarms.close()
        assert [each.is_wanted for each in (raw, mean, alarm)] == [False] * 3
        assert not bus.subscriptions


def test_a_source_that_is_closed_needs_nothing() -> None:
    with fl.Bus() as bus:
        bus.subscribe("exists mean")
        with bus.source("exists mean") as mean:
            mean.needs("exists raw", lambda _: None)
            assert len(bus.subscriptions) == 2
        assert len(bus.subscriptions) == 1
