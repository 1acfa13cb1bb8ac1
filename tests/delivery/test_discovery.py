"""Discovery: what is wanted covers all subscriptions, and nothing beyond what was asked about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl
from fairlead.delivery import discovery
from fairlead.delivery.discovery import Discovered, Discovery
from fairlead.filters import covers
from fairlead.testing import filters, notifications


def told(found: Discovered) -> list[str]:
    return [str(each) for each in found.filters]


@given(filters(), st.lists(filters(), max_size=5), st.lists(notifications(), max_size=5))
def test_the_answer_matches_what_the_question_and_some_filter_match(
    asked: fl.Filter, wanted: list[fl.Filter], published: list[fl.Notification]
) -> None:
    found = Discovery(asked)
    for each in wanted:
        found.add(each)
    answer = found.answer()
    for notification in published:
        is_wanted = any(each.matches(notification) for each in wanted)
        assert any(each.matches(notification) for each in answer.filters) == (
            asked.matches(notification) and is_wanted
        )
    assert not any(
        covers(one, other) for one in answer.filters for other in answer.filters if one is not other
    )
    assert Discovered.of(answer.to_json()).to_json() == answer.to_json()


def test_a_bus_says_what_is_wanted_of_a_filter_without_those_that_others_cover() -> None:
    with fl.Bus() as bus:
        assert not bus.wants()
        bus.subscribe('symbol = "IBM"')
        bus.subscribe('symbol = "IBM" and price > 100')
        ended = bus.subscribe("volume > 7")
        bus.detect("Low as low followed by High as high")
        assert told(bus.wants()) == ['symbol = "IBM"', 'type = "High"', 'type = "Low"', "volume > 7"]
        assert told(bus.wants("volume > 3 and not exists type")) == [
            'volume > 3 and absent type and symbol = "IBM"',
            "volume > 7 and absent type",
        ]
        assert bus.wants('symbol = "IBM" and price = 3').is_all
        ended.close()
        assert not bus.wants('volume > 3 and symbol = "SAP" and type = "None"')


def test_what_is_offered_is_not_known_where_nobody_advertises() -> None:
    with fl.Bus() as bus:
        assert (bus.offers().known, bus.offers().filters) == (False, ())
        with bus.advertise("price > 0", producer="shop"):
            assert told(bus.offers("price < 10")) == ["price in (0, 10)"]
            assert not bus.offers("price < 0").filters
        assert not bus.offers().known


def test_replies_that_are_waited_for_are_nobodys_concern() -> None:
    with fl.Bus() as bus:
        bus.respond('type = "price?"', lambda _: {"price": 1})
        bus.request({"type": "price?"})
        assert not any("re.to" in each for each in told(bus.wants()))


def test_too_many_filters_are_answered_by_what_was_asked_about() -> None:
    found = Discovery(fl.parse("x > 0"))
    for number in range(discovery.FILTERS_MAX + 2):
        found.add(fl.parse(f"x = {number} and y = {number}"))
    answer = found.answer()
    assert (told(answer), answer.exact, answer.is_all) == (["x > 0"], False, True)
