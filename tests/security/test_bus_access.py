"""A bus with the rule of an access policy: publications are refused, subscriptions and advertisements narrowed."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.bus import Bus
from fairlead.errors import Forbidden
from fairlead.filters import NOTHING
from fairlead.model import Instant
from fairlead.rules.access import Access
from fairlead.security import AccessPolicy, Principal

ROLES: dict[str, Any] = {
    "reader": {"members": ["ada"], "subscribe": ['symbol = "IBM"']},
    "writer": {"members": ["nyse"], "publish": ['symbol in {"IBM", "SAP"}'], "producers": ["nyse-2"]},
}
POLICY = AccessPolicy.of({"roles": ROLES})
IBM, SAP = {"symbol": "IBM", "price": 120}, {"symbol": "SAP", "price": 120}


def publish(bus: Bus, *events: dict[str, Any], producer: str = "nyse") -> None:
    for each in events:
        bus.publish({**each, "producer": producer})


@pytest.mark.parametrize("order", ["live", "ordered"])
def test_a_subscription_is_narrowed_and_knows_to_what(order: Any) -> None:
    got: list[Any] = []
    with Bus(rules=[Access(POLICY)], order=order) as bus:
        quotes = bus.subscribe("price > 100", got.append, subscriber="ada")
        assert (str(quotes.granted), quotes.narrowed) == ('price > 100 and symbol = "IBM"', True)
        assert bus.subscribe("price > 100", got.append, subscriber="ada") is quotes
        publish(bus, IBM, SAP, {"symbol": "IBM", "price": 50})
    assert [(each.get("symbol"), each.get("price")) for each in got] == [("IBM", 120)]


def test_a_subscription_of_which_nothing_can_match_is_refused() -> None:
    with Bus(rules=[Access(POLICY)]) as bus:
        with pytest.raises(Forbidden, match="ada may not subscribe to that as reader"):
            bus.subscribe('symbol = "SAP"', subscriber="ada")
        with pytest.raises(Forbidden, match="without a role"):
            bus.subscribe("price > 100")
        assert bus.subscriptions == ()
        assert bus.statistics().refused == 2


def test_where_the_policy_tells_nobody_a_refused_subscription_is_one_that_matches_nothing() -> None:
    silent = AccessPolicy.of({"roles": ROLES, "tell": False})
    with Bus(rules=[Access(silent)]) as bus:
        quotes = bus.subscribe('symbol = "SAP"', subscriber="ada")
        publish(bus, SAP)
        assert (len(quotes), quotes.granted) == (0, NOTHING)


def test_a_publication_outside_of_the_limits_is_refused_and_not_remembered() -> None:
    with Bus(rules=[Access(POLICY)]) as bus:
        with pytest.raises(Forbidden, match="nyse may not publish that"):
            bus.publish({"symbol": "SUN", "producer": "nyse", "id": "7"})
        assert bus.publish({**IBM, "producer": "nyse", "id": "7"}) is not None
        with pytest.raises(Forbidden, match="xetra may not publish that"):
            bus.publish({**IBM, "producer": "xetra", "id": "7"})


def test_an_advertisement_is_narrowed() -> None:
    with Bus(rules=[Access(POLICY)]) as bus:
        advertised = bus.advertise("price > 0", "nyse")
        assert str(advertised.filter) == 'price > 0 and symbol in {"IBM", "SAP"}'


@pytest.mark.parametrize("order", ["live", "ordered"])
def test_a_change_of_the_policy_holds_for_the_next_publication_on_subscriptions_that_there_are(
    order: Any,
) -> None:
    access = Access(POLICY)
    with Bus(rules=[access], order=order, trace=[].append) as bus:
        quotes = bus.subscribe("price > 100", subscriber="ada")
        publish(bus, {**IBM, "time": Instant(1)})
        bus.advance(Instant(2))
        access.decide_by(POLICY.revoking("ada"), 0)
        publish(bus, {**IBM, "time": Instant(3)})
        bus.advance(Instant(4))
        assert (quotes.granted, quotes.active) == (NOTHING, True)
        access.decide_by(
            AccessPolicy.of({"roles": {**ROLES, "all": {"members": ["ada"], "subscribe": ["true"]}}}), 0
        )
        publish(bus, {**SAP, "time": Instant(5)})
        bus.advance(Instant(6))
        assert [quotes.get(0).get("symbol"), quotes.get(0).get("symbol")] == ["IBM", "SAP"]
        assert (len(quotes), quotes.narrowed) == (0, False)


def test_a_pattern_over_events_that_its_subscriber_may_see_in_part_only_is_refused() -> None:
    access = Access(POLICY)
    with Bus(rules=[access]) as bus:
        with pytest.raises(Forbidden, match="ada may subscribe to a part of"):
            bus.detect("[price > 1] followed by [price > 2]", subscriber="ada")
        spike = bus.detect(
            '[symbol = "IBM" and price > 1] followed by [symbol = "IBM" and price > 2]', subscriber="ada"
        )
        access.decide_by(POLICY.revoking("ada"), 0)
        publish(bus, IBM)
        assert not spike.active


def test_a_component_can_act_for_a_principal_with_claims() -> None:
    policy = AccessPolicy.of(
        {"roles": {"r": {"members": ["*"], "when": 'claims.desk = "fx"', "subscribe": ["true"]}}}
    )
    access = Access(policy)
    with Bus(rules=[access]) as bus:
        with pytest.raises(Forbidden):
            bus.subscribe("true", subscriber="screen")
        access.bind("screen", Principal("ada", {"desk": "fx"}), 0)
        assert not bus.subscribe("true", subscriber="screen").narrowed


def test_rights_end_at_their_time_by_the_clock_of_the_bus() -> None:
    now = [0]
    access = Access(AccessPolicy.of({"roles": {"r": {"members": ["*"], "publish": ["true"]}}}))
    access.bind("p", Principal("ada", until=1_000_000), 0)
    with Bus(rules=[access], clock=lambda: Instant(now[0])) as bus:
        bus.publish({"producer": "p", "x": 1})
        now[0] = 1_000_000
        with pytest.raises(Forbidden):
            bus.publish({"producer": "p", "x": 2})
