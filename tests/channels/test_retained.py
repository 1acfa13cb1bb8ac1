"""Retained values against their specification, and mutants of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl
from fairlead.bus.retaining import Retaining
from fairlead.channels import Channel, Channels, Retain, RetainedValue, RetainedValues
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead_lab.delivery.retaining import last_values, retained_for

CHANNELS = (
    Channel("quotes", 'type = "Q"', Retain(per=("symbol",), ends='state = "gone"')),
    Channel("history", 'type = "H"', Retain(per=("symbol", "place"), count=2, ends='state = "gone"')),
    Channel("rest", 'type = "R"'),
)


def things(*, timed: bool) -> st.SearchStrategy[list[dict[str, object]]]:
    thing = st.fixed_dictionaries(
        {"type": st.sampled_from("QQQHHR"), "producer": st.sampled_from("pqr"), "x": st.integers(0, 3)}
        | ({"time": st.integers(0, 5)} if timed else {}),
        optional={
            "symbol": st.sampled_from(["a", "b", 1, 1.0]),
            "place": st.sampled_from("de"),
            "state": st.sampled_from(["gone", "here"]),
        },
    )
    return st.lists(thing, max_size=14)


def published(given: list[dict[str, object]]) -> list[Notification]:
    return [Notification.of({**each, "id": f"{at}"}) for at, each in enumerate(given)]


def right(given: list[Notification], kind: type[RetainedValues[int]] = RetainedValues) -> bool:
    """Whether the values are those that the specification names, after each publication."""
    channels = Channels(CHANNELS)
    values = kind(channels)
    for at, notification in enumerate(given):
        values.take(notification, at)
        expected = last_values(channels, given[: at + 1])
        if sorted(each.content for each in values) != sorted(place for kept in expected for place in kept):
            return False
    return True


@given(things(timed=True))
def test_the_values_are_the_last_of_each_key(given: list[dict[str, object]]) -> None:
    assert right(published(given))


class Arrival(RetainedValues[int]):
    """Compares by arrival alone."""

    def take(self, notification: Notification, content: int) -> RetainedValue[int] | None:
        return super().take(Notification.of({**notification.attributes, "producer": "p"}), content)


class Timely(RetainedValues[int]):
    """Compares by time, of one producer, too."""

    def take(self, notification: Notification, content: int) -> RetainedValue[int] | None:
        other = {**notification.attributes, "producer": f"{notification.producer}{content:04}"}
        return super().take(Notification.of(other), content)


class Endless(RetainedValues[int]):
    """Forgets that a key has ended."""

    def restore(self, kept: RetainedValue[int], count: int | None = None) -> RetainedValue[int] | None:
        done = super().restore(kept, count)
        self._ended.clear()
        return done


class Deep(RetainedValues[int]):
    """Keeps one value more."""

    def restore(self, kept: RetainedValue[int], count: int | None = None) -> RetainedValue[int] | None:
        return super().restore(kept, None if count is None else count + 1)


def scene(*each: tuple[str, int, str]) -> list[Notification]:
    return published(
        [
            {"type": "Q", "symbol": "a", "producer": producer, "time": time, "state": state}
            for producer, time, state in each
        ]
    )


@pytest.mark.parametrize(
    ("mutant", "given"),
    [
        (Arrival, scene(("p", 5, "here"), ("q", 4, "here"))),
        (Timely, scene(("p", 5, "here"), ("p", 4, "here"))),
        (Endless, scene(("p", 5, "gone"), ("q", 4, "here"))),
        (Deep, scene(("p", 5, "here"), ("p", 6, "here"))),
    ],
)
def test_mutants_are_found(mutant: type[RetainedValues[int]], given: list[Notification]) -> None:
    assert right(given)
    assert not right(given, mutant)


def test_keys_that_there_is_no_room_for_go_and_are_counted() -> None:
    values = RetainedValues[int](Channels([Channel("all", "true", Retain(per=("k",)))]), keys_max=2)
    for at, key in enumerate([1, 2, 1, 3]):
        values.take(Notification.of({"k": key, "producer": "p"}), at)
    assert [each.content for each in values] == [2, 3]
    assert values.dropped == 1


# -- on the bus ----------------------------------------------------------------------------------------------


@given(things(timed=True), st.integers(0, 14), st.sampled_from(["x > 0", 'symbol = "a"', "true"]))
def test_a_subscriber_of_a_bus_gets_the_last_values_and_then_all_that_follows(
    given: list[dict[str, object]], at: int, filter: str
) -> None:
    bus, every, wanted = fl.Bus(channels=CHANNELS), published(given), parse(filter)
    for each in every[:at]:
        bus.publish(each)
    made = bus.subscribe(filter)
    none = bus.subscribe(filter, retained="no")
    for each in every[at:]:
        bus.publish(each)
    before = [each.id for each in retained_for(Channels(CHANNELS), every[:at], wanted)]
    after = [each.id for each in every[at:] if wanted.matches(each)]
    got = [made.get_delivery() for _ in range(len(made))]
    assert sorted(each.notification.id or "" for each in got if each.retained) == sorted(before)
    assert [each.notification.id for each in got if not each.retained] == after
    assert [each.retained for each in got] == sorted((each.retained for each in got), reverse=True)
    assert [none.get().id for _ in range(len(none))] == after
    assert sorted(each.id or "" for each in bus.retained(filter)) == sorted(
        each.id or "" for each in retained_for(Channels(CHANNELS), every, wanted)
    )


@given(things(timed=False))
def test_neutral_channels_change_nothing(given: list[dict[str, object]]) -> None:
    traces = []
    for channels in ((), [Channel(each.name, each.filter) for each in CHANNELS]):
        seen: list[object] = []
        with fl.Bus(trace=seen.append, channels=channels) as bus:
            bus.subscribe("x > 0", seen.append)
            for each in published(given):
                bus.publish(each)
        traces.append(seen)
    assert traces[0] == traces[1]


def symbols(bus: fl.Bus, filter: str, **options: str) -> list[tuple[object, bool]]:
    made = bus.subscribe(filter, **options)  # type: ignore[arg-type]
    got = [made.get_delivery() for _ in range(len(made))]
    return [(each.notification.get("price"), each.retained) for each in got]


def quotes(**options: object) -> fl.Bus:
    bus = fl.Bus(
        channels=[Channel("quotes", "exists symbol", Retain(per=("symbol",), ends='state = "gone"'))]
    )
    for symbol, price in [("IBM", 1), ("SAP", 2), ("IBM", 3)]:
        bus.publish({"symbol": symbol, "price": price})
    return bus


def test_the_last_value_of_each_key_comes_in_the_order_of_their_last_publication() -> None:
    assert symbols(quotes(), "price > 0") == [(2, True), (3, True)]


def test_an_earlier_value_that_matched_is_history_and_not_retained() -> None:
    assert symbols(quotes(), "price < 3") == [(2, True)]


def test_a_notification_that_ends_its_key_removes_the_value() -> None:
    bus = quotes()
    bus.publish({"symbol": "IBM", "state": "gone"})
    assert symbols(bus, "price > 0") == [(2, True)]
    bus.publish({"symbol": "IBM", "price": 5})
    assert symbols(bus, "price > 0") == [(2, True), (5, True)]


def test_a_subscriber_gets_nothing_twice() -> None:
    bus = quotes()
    ada = bus.subscribe("price > 2", subscriber="ada")
    bus.subscribe("price > 0", subscriber="ada")
    assert [ada.get().get("price") for _ in range(len(ada))] == [3, 2]
    bob = bus.subscribe("price > 2", subscriber="bob", retained="no")
    bus.subscribe("price > 0", subscriber="bob")
    assert [bob.get().get("price") for _ in range(len(bob))] == [2, 3]


def test_a_retained_value_sets_the_reference_of_a_condition() -> None:
    bus = quotes()
    made = bus.subscribe('symbol = "IBM"', on="price changes by 2, per symbol")
    bus.publish({"symbol": "IBM", "price": 4})
    bus.publish({"symbol": "IBM", "price": 5})
    assert [made.get().get("price") for _ in range(len(made))] == [3, 5]


def test_an_ordered_bus_retains_what_it_has_released() -> None:
    with fl.Bus(
        order="ordered", lateness_us=10, channels=[Channel("all", "true", Retain(per=("k",)))]
    ) as bus:
        for id, time in (("a", 100), ("b", 95), ("c", 120)):
            bus.publish({"id": id, "k": 1, "time": time})
        made = bus.subscribe("true")
        assert [made.get_delivery().notification.id for _ in range(len(made))] == ["a"]
    assert made.get().id == "c"


def test_a_bus_with_scopes_retains_nothing_and_says_so() -> None:
    scopes = fl.Scopes.parse("DEFINE SCOPE A AS ALL FROM B; DEFINE SCOPE B AS ALL FROM c")
    with pytest.raises(fl.FairleadError, match="with scopes retains no values"):
        fl.Bus(channels=[Channel("all", "true", Retain())], scopes=scopes)


class Twice(Retaining):
    """Sends what another subscription has brought."""

    def _has(self, *arguments: object) -> bool:
        return False


def test_a_bus_that_sends_a_value_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairlead.bus.bus.Retaining", Twice)
    with pytest.raises(AssertionError):
        test_a_subscriber_gets_nothing_twice()
