"""Hooks: interceptors around publishing, subscribing and delivering, on the bus and at brokers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import Bus, Hook, sync
from fairlead.errors import BrokerRefused, FairleadError, NetworkError, TransactionRefused, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead.network.settings import BrokerSettings
from fairlead.rules.hooks import Hooks, load_hook
from fairlead_lab.testing.brokers import Brokers


class Stamps(Hook):
    """Says on each publication who published it, withholds secrets and refuses negative ones."""

    def publishing(self, notification: Notification, who: str) -> Notification | None:
        if notification.get("secret") is True:
            return None
        if notification.get("x") == -1:
            raise ValueRefused("negative")
        return notification.marked("by", "hook")


class Narrows(Hook):
    """Shows 100 to nobody, nothing to mallory, and hides what is beyond 1,000."""

    def subscribing(self, filter: Filter, who: str) -> Filter:
        if who == "mallory":
            raise ValueRefused("not you")
        return filter & parse("x < 100")

    def delivering(self, notification: Notification, who: str) -> Notification | None:
        if notification.get("x") == 7:
            return None
        return notification.marked("x", 0) if notification.get("x") == 8 else notification


class Same(Hook):
    """Changes nothing, in all places."""

    def publishing(self, notification: Notification, who: str) -> Notification | None:
        return notification

    def subscribing(self, filter: Filter, who: str) -> Filter:
        return filter

    def delivering(self, notification: Notification, who: str) -> Notification | None:
        return notification


def got(queue: Any) -> list[Any]:
    return [queue.get(30).get("x") for _ in range(len(queue))]


def test_a_bus_publishes_what_hooks_make_of_it_and_delivers_what_they_show() -> None:
    bus = Bus(hooks=[Stamps(), Narrows()])
    queue = bus.subscribe("x > 0", subscriber="ada")
    marked = bus.subscribe('by = "hook"', subscriber="bob")
    for x in (1, 7, 8, 200):
        assert bus.publish({"x": x}) is not None
    assert bus.publish({"x": 5, "secret": True}) is None
    with pytest.raises(ValueRefused, match="negative"):
        bus.publish({"x": -1})
    with pytest.raises(FairleadError, match="not you"):
        bus.subscribe("true", subscriber="mallory")
    assert (got(queue), got(marked)) == ([1, 0], [1, 0])
    assert bus.statistics().withheld == 3


def test_a_transaction_is_refused_where_a_hook_withholds_or_refuses_a_member() -> None:
    for bad in ({"x": 1, "secret": True}, {"x": -1}):
        bus = Bus(hooks=[Stamps()])
        queue = bus.subscribe("true")
        together = bus.transaction()
        for each in ({"x": 1}, bad):
            together.publish(each)
        with pytest.raises((TransactionRefused, ValueRefused)):
            together.commit()
        assert len(queue) == 0


def test_hooks_are_called_in_their_order_and_on_the_way_out_in_the_opposite_one() -> None:
    class Named(Hook):
        def __init__(self, name: str) -> None:
            self.name = name

        def publishing(self, notification: Notification, who: str) -> Notification:
            return notification.marked("in", f"{notification.attributes.get('in', '')}{self.name}")

        def delivering(self, notification: Notification, who: str) -> Notification:
            return notification.marked("out", f"{notification.attributes.get('out', '')}{self.name}")

    bus = Bus(hooks=[Named("a"), Named("b")])
    queue = bus.subscribe("true")
    bus.publish({"x": 1})
    shown = queue.get()
    assert (shown.get("in"), shown.get("out")) == ("ab", "ba")


def test_a_hook_widens_nothing_and_keeps_the_identity() -> None:
    class Widens(Hook):
        def subscribing(self, filter: Filter, who: str) -> Filter:
            return parse("true")

    class Renames(Hook):
        def publishing(self, notification: Notification, who: str) -> Notification:
            return replace(notification, id="other")

    class Fails(Hook):
        def publishing(self, notification: Notification, who: str) -> Notification:
            raise KeyError("x")

    with pytest.raises(FairleadError, match="may narrow a subscription, and returned true"):
        Bus(hooks=[Widens()]).subscribe("x = 1")
    with pytest.raises(ValueRefused, match="changed producer or id"):
        Bus(hooks=[Renames()]).publish({"producer": "p", "id": "1"})
    with pytest.raises(ValueRefused, match="the hook Fails failed: KeyError"):
        Bus(hooks=[Fails()]).publish({"x": 1})


@pytest.mark.parametrize("strict", [False, True])
def test_an_error_on_the_way_out_is_counted_and_delivers_what_was_there_unless_it_is_strict(
    strict: bool,
) -> None:
    class Fails(Hook):
        def delivering(self, notification: Notification, who: str) -> Notification:
            raise KeyError("x")

    hook = Fails()
    hook.strict = strict
    hooks = Hooks([hook])
    notification = Notification.of({"x": 1})
    assert hooks.delivering(notification, "ada") == (None if strict else notification)
    assert hooks.failed == 1


@given(st.lists(st.integers(0, 9), max_size=8), st.booleans())
def test_hooks_that_change_nothing_leave_all_as_it_was(given: list[int], ordered: bool) -> None:
    def run(hooks: list[Hook]) -> tuple[list[Any], dict[str, Any]]:
        events: list[Any] = []
        bus = Bus(hooks=hooks, trace=events.append, order="ordered" if ordered else "live")
        queue = bus.subscribe("x > 2", subscriber="ada")
        for at, x in enumerate(given):
            bus.publish({"x": x, "producer": "p", "id": str(x), "time": at + 1})
        bus.flush()
        return [repr(each) for each in events], {"waiting": len(queue)}

    assert run([Same(), Same()]) == run([])


# -- at brokers ------------------------------------------------------------------------------------------------


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with Brokers() as made:
        yield made


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sys.modules, "hooks_of_tests", sys.modules[__name__])
    return "hooks_of_tests"


@pytest.mark.parametrize("logged", [False, True])
def test_a_broker_asks_its_hooks_about_its_clients(
    named: str, logged: bool, brokers: Brokers, tmp_path: Path
) -> None:
    hooks = (f"{named}:Stamps", f"{named}:Narrows")
    hub = brokers.start("hub", tmp_path if logged else None, hooks=hooks)
    east = brokers.start("east", tmp_path if logged else None, links=(hub.url,))
    durable = {"durable": "desk"} if logged else {}
    with (
        sync.connect(hub.url, name="ada") as ada,
        sync.connect(east.url, name="bob") as bob,
        ada.subscribe("exists x", **durable) as near,
        bob.subscribe("exists x") as far,
    ):
        for x in (1, 7, 8, 200):
            ada.publish({"x": x})
        ada.publish({"x": 5, "secret": True})
        if logged:
            with pytest.raises(BrokerRefused, match="negative"):
                ada.publish({"x": -1})
        ada.publish({"x": 9})
        shown = [far.get(30) for _ in range(5)]
        assert [each.get("x") for each in shown] == [1, 7, 8, 200, 9], "hub's hooks are for hub's clients"
        assert {each.get("by") for each in shown} == {"hook"}, "but what is published there has changed"
        assert [near.get(30).get("x") for _ in range(3)] == [1, 0, 9]
    with sync.connect(hub.url, name="mallory") as mallory, pytest.raises(BrokerRefused, match="not you"):
        mallory.subscribe("true").close()


def test_a_hook_that_cannot_be_loaded_is_named() -> None:
    for name, reason in [
        ("hooks", "is not written as module:Object"),
        ("no_such_module:Hook", "cannot be loaded: ModuleNotFoundError"),
        ("fairlead:NoSuchHook", "cannot be loaded: AttributeError"),
    ]:
        with pytest.raises(ValueRefused, match=reason):
            load_hook(name)
        with pytest.raises(NetworkError, match=reason):
            BrokerSettings("b", hooks=(name,)).broker()
