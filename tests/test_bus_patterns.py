"""Patterns on the bus: the composites of the definition, in their order, however the events were published."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead import audit
from fairlead.audit import Event, Notified, Published, Verdict
from fairlead.bus import Bus, Delivery, Detection, Subscription, SubscriptionRefused
from fairlead.correlation import fair, patterns
from fairlead.correlation.occurrences import Occurrence
from fairlead.correlation.patterns.building import event
from fairlead.delivery import Late
from fairlead.errors import FilterError, FilterSyntaxError
from fairlead.filters.extensions import Extension, register, unregister
from fairlead.model import Instant, Notification
from fairlead.model.encoding import format_json, notification_to_json
from fairlead.model.order import BEGINNING, END, OrderKey, order_keys
from fairlead_lab.correlation.patterns.reference import detect
from fairlead_lab.testing import patterns as drawn


def taken(inbox: Subscription) -> list[list[str]]:
    """The ids of the constituents of each composite that waits in the queue."""
    return [[each["id"] for each in inbox.get(0).get("constituents")] for _ in range(len(inbox))]


def types(inbox: Subscription) -> list[str]:
    """The types of what waits in the queue."""
    return [inbox.get(0).get("type") for _ in range(len(inbox))]


def publish(bus: Bus, *events: str, **attributes: Any) -> None:
    """Events by type and time in microseconds, `A1`, which is their id as well."""
    for each in events:
        bus.publish({"id": each, "type": each[0], "time": Instant(int(each[1:])), **attributes})


def lines(notifications: Iterable[Notification]) -> list[str]:
    """Notifications to the byte."""
    return [format_json(notification_to_json(each)) for each in notifications]


# -- the definition ----------------------------------------------------------------------------------------


def expected(pattern: patterns.Pattern, stream: list[Notification], since: int, until: int) -> list[str]:
    """What the definition finds among what stands in [since, until)."""
    placed = [Occurrence.of(each, key) for each, key in zip(stream, order_keys(stream), strict=True)]
    within = [each for each in placed if since <= each.end < until]
    found = detect(pattern, within, None if until == END else until)
    return lines(each.notification() for each in found if each.end < until)


def shuffled(stream: list[Notification], lateness_us: int, rng: Random) -> list[Notification]:
    """The stream as it may arrive: nothing comes when something newer by more than the lateness has come."""
    held = {id(each): rng.randint(0, lateness_us) for each in stream}
    return sorted(stream, key=lambda each: (each.time or Instant(0)).microseconds + held[id(each)])


@settings(max_examples=60)
@given(
    st.lists(st.tuples(drawn.patterns(), st.integers(-2, 12), st.integers(8, 40)), min_size=1, max_size=4),
    drawn.streams(),
    st.integers(0, 40),
    st.randoms(use_true_random=False),
)
def test_an_ordered_bus_finds_what_the_definition_says_to_the_byte(
    asked: list[tuple[patterns.Pattern, int, int]], stream: list[Notification], lateness: int, rng: Random
) -> None:
    bus = Bus(order="ordered", lateness_us=lateness)
    inboxes = []
    for number, (pattern, since, until) in enumerate(asked):
        named = replace(pattern, name=f"n{number}" if number else pattern.name)
        first, last = (since if since >= 0 else BEGINNING), (max(since, until) if until < 35 else END)
        validity = {"since": first, "until": last}
        bounds: dict[str, Any] = {
            name: Instant(at) for name, at in validity.items() if at not in (BEGINNING, END)
        }
        inboxes.append((bus.detect(named, **bounds), expected(named, stream, first, last)))
    for notification in shuffled(stream, lateness, rng):
        bus.publish(notification)
        if rng.random() < 0.2:
            bus.advance(Instant((notification.time or Instant(0)).microseconds - lateness))
    bus.close()
    for inbox, found in inboxes:
        assert lines(inbox) == found, str(inbox.pattern)
    assert bus.statistics().late == 0


@settings(max_examples=30)
@given(drawn.patterns(), drawn.streams(), st.integers(0, 40), st.randoms(use_true_random=False))
def test_a_live_bus_finds_the_same_within_the_lateness(
    pattern: patterns.Pattern, stream: list[Notification], lateness: int, rng: Random
) -> None:
    bus = Bus(lateness_us=lateness)
    inbox = bus.detect(pattern)
    for notification in shuffled(stream, lateness, rng):
        bus.publish(notification)
    bus.close()
    assert lines(inbox) == expected(pattern, stream, BEGINNING, END)


# -- asking ------------------------------------------------------------------------------------------------


def test_a_pattern_is_text_or_a_value_or_calls() -> None:
    with Bus(order="ordered") as bus:
        inboxes = [
            bus.detect(each)
            for each in ("A followed by B", patterns.parse("A followed by B"), event("A").then(event("B")))
        ]
        publish(bus, "A1", "B2", "C3")
        assert [taken(each) for each in inboxes] == [[["A1", "B2"]]] * 3
        assert inboxes[0].pattern == inboxes[1].pattern == inboxes[2].pattern


def test_what_is_no_pattern_is_refused_and_changes_nothing() -> None:
    bus = Bus()
    with pytest.raises(FilterSyntaxError, match="column 12"):
        bus.detect("A followed with B")
    with pytest.raises(SubscriptionRefused, match=r"no pattern: 7[^$]*fair\.parse"):
        bus.detect(7)  # type: ignore[arg-type]
    with pytest.raises(SubscriptionRefused, match="cannot be called"):
        bus.detect("A", "print")  # type: ignore[arg-type]
    with pytest.raises(SubscriptionRefused, match="states its selection itself"):
        bus.detect("A", choice=fair.Choice.MOST_RECENT)
    with pytest.raises(SubscriptionRefused, match=r"no choice: 'latest'[^$]*'most recent'"):
        bus.detect(fair.parse("A"), choice="latest")
    bus.detect("up: A followed by down")
    with pytest.raises(FilterError, match="their own composites"):
        bus.detect("down: B followed by up")
    assert len(bus.subscriptions) == 1


def test_a_callback_is_called_with_each_composite() -> None:
    got: list[Notification] = []
    with Bus(order="ordered") as bus:
        bus.detect("A followed by B", got.append)
        publish(bus, "A1", "B2", "A3", "B4")
    assert [str(each.time) for each in got] == [str(Instant(2)), str(Instant(4))]


def test_leaving_the_block_ends_it_and_what_is_in_the_queue_can_be_read() -> None:
    bus = Bus(order="ordered")
    with bus.detect("A followed by B") as pairs:
        publish(bus, "A1", "B2", "C3", "A4")
    publish(bus, "B5", "C6")
    assert taken(pairs) == [["A1", "B2"]]
    assert not pairs.active
    assert repr(pairs) == "<Detection 's1' of 's1': A followed by B, closed>"


def test_one_subscriber_asks_the_same_once_and_gets_a_composite_once() -> None:
    with Bus(order="ordered") as bus:
        ada = bus.detect("pair: A followed by B", subscriber="ada", id="p")
        assert bus.detect("pair: A followed by B", subscriber="ada") is ada
        bus.subscribe('type = "pair"', subscriber="ada", id="s")
        publish(bus, "A1", "B2", "C3")
        delivery = ada.get_delivery(0)
        assert delivery.subscriptions == ("p", "s")
        assert delivery.key == OrderKey(2, "patterns", None, delivery.notification.id or "")
        assert len(ada) == 0
        with pytest.raises(SubscriptionRefused, match="taken"):
            bus.detect("C", id="p")


def test_the_filter_of_a_detection_is_what_its_composites_match() -> None:
    with Bus(order="ordered") as bus:
        pairs, others = bus.detect("A followed by B"), bus.detect("B followed by A")
        publish(bus, "A1", "B2", "C3")
        composite = pairs.get(0)
        assert pairs.filter.matches(composite)
        assert not others.filter.matches(composite)


def test_statistics_count_what_was_found() -> None:
    with Bus(order="ordered") as bus:
        bus.detect("A followed by B")
        publish(bus, "A1", "B2", "C3")
        counts = bus.statistics()
        assert (counts.composites, counts.subscriptions, counts.published, counts.held) == (1, 1, 3, 1)


# -- order and time ----------------------------------------------------------------------------------------


def test_composites_come_behind_what_was_published_at_the_instant_where_they_end() -> None:
    with Bus(order="ordered") as bus:
        everything = bus.subscribe("true", subscriber="ada")
        bus.detect("pair: A followed by B")
        publish(bus, "A1", "B2", "Z2", "C3", "D4")
        assert types(everything) == ["A", "B", "Z", "pair", "C"]


def test_an_absence_is_known_when_time_has_passed() -> None:
    bus = Bus(order="ordered", lateness_us=5)
    silent = bus.detect("A then no B within 10 us")
    publish(bus, "A1", "C16")
    assert taken(silent) == []  # the watermark stands at 11, and B may still come there
    publish(bus, "C17")
    assert taken(silent) == [["A1"]]


def test_closing_the_bus_ends_all_waiting() -> None:
    for bus in (Bus(), Bus(order="ordered")):
        silent = bus.detect("A then no B within 1 day")
        publish(bus, "A1")
        assert len(silent) == 0
        bus.close()
        assert taken(silent) == [["A1"]]
        assert not silent.active


@pytest.mark.parametrize("order", ["live", "ordered"])
def test_time_can_be_told_by_a_clock(order: Any) -> None:
    now = Instant(100)
    bus = Bus(clock=lambda: now, order=order, lateness_us=3)
    silent = bus.detect("A then no B within 10 us")
    bus.publish({"id": "A1", "type": "A"})
    now = Instant(113)
    bus.advance()
    assert taken(silent) == []
    now = Instant(114)
    bus.advance()
    assert taken(silent) == [["A1"]]


def test_a_bus_without_a_clock_has_to_be_told_the_time() -> None:
    bus = Bus()
    with pytest.raises(ValueError, match="has no clock"):
        bus.advance()
    bus.advance(Instant(3))


def test_what_comes_after_its_time_was_told_to_have_passed_is_late() -> None:
    late: list[Late] = []
    bus = Bus(order="ordered", on_late=late.append)
    inbox = bus.subscribe("true")
    bus.advance(Instant(10))
    publish(bus, "A9", "A10", "A11")
    assert [each.notification.id for each in late] == ["A9"]
    assert [each.get("id") for each in (inbox.get(0),)] == ["A10"]


def test_a_live_bus_delivers_at_once_and_detects_when_time_moves_on() -> None:
    bus = Bus()
    everything, pairs = bus.subscribe("true"), bus.detect("A followed by B")
    publish(bus, "A1", "B2")
    assert (types(everything), taken(pairs)) == (["A", "B"], [])
    publish(bus, "C3")
    assert (types(everything), taken(pairs)) == (["C"], [["A1", "B2"]])


def test_a_live_bus_detects_in_the_total_order_within_the_lateness() -> None:
    bus = Bus(lateness_us=5)
    pairs = bus.detect("A followed by B")
    publish(bus, "B4", "A3", "B1", "C10")
    assert taken(pairs) == [["A3", "B4"]]


def test_on_a_live_bus_patterns_do_not_see_what_is_late_and_everybody_else_does() -> None:
    late: list[Late] = []
    bus = Bus(on_late=late.append)
    everything, pairs = bus.subscribe("true"), bus.detect("A followed by B")
    publish(bus, "B5", "A2", "B6", "C7")
    assert types(everything) == ["B", "A", "B", "C"]
    assert taken(pairs) == []
    assert [(each.notification.id, each.watermark) for each in late] == [("A2", 5)]
    assert bus.statistics().late == 1


def test_a_live_bus_holds_nothing_for_patterns_that_have_gone() -> None:
    bus = Bus(lateness_us=100)
    with bus.detect("A followed by B"):
        publish(bus, "A1")
        assert bus.statistics().held == 1
    publish(bus, "B2")
    assert bus.statistics().held == 0


# -- coming and going --------------------------------------------------------------------------------------


def test_a_pattern_sees_what_the_watermark_has_not_passed() -> None:
    bus = Bus(order="ordered", lateness_us=5)
    publish(bus, "A1", "A4", "B9")  # the watermark stands at 4
    pairs = bus.detect("A followed by B, taking all matches")
    publish(bus, "C20")
    assert taken(pairs) == [["A4", "B9"]]


def test_a_pattern_holds_from_an_instant_until_another() -> None:
    bus = Bus(order="ordered")
    some = bus.detect("A followed by B, taking all matches", since=Instant(3), until=Instant(6))
    none = bus.detect("A followed by B", since=Instant(6), until=Instant(6))
    with pytest.raises(SubscriptionRefused, match="end before it begins"):
        bus.detect("A followed by B", since=Instant(6), until=Instant(3))
    publish(bus, "A1", "A3", "B5", "B6", "C7")
    assert (taken(some), taken(none)) == ([["A3", "B5"]], [])
    assert some.active  # it has ended by itself, and can be ended all the same
    assert bus.unsubscribe(some)


def test_what_a_pattern_found_before_it_ended_is_seen_by_others_and_nothing_after() -> None:
    bus = Bus(order="ordered")
    bus.detect("pair: A followed by B", until=Instant(5))
    above = bus.detect("exactly 2 pair")
    publish(bus, "A1", "B2", "A3", "B4", "A5", "B6", "A7", "B8")
    bus.close()
    assert len(above) == 1


def test_patterns_come_and_go_while_events_flow() -> None:
    bus = Bus(order="ordered")
    first = bus.detect("pair: A followed by B, taking all matches")
    publish(bus, "A1", "C3")
    second = bus.detect("pair: A followed by B, taking all matches")
    everybody = bus.subscribe('type = "pair"')
    above = bus.detect("pair followed by pair")
    publish(bus, "A4", "B5", "C6")
    first.close()
    publish(bus, "A7", "B8", "C9")
    assert taken(first) == [["A1", "B5"], ["A4", "B5"]]
    assert taken(second) == [["A4", "B5"], ["A7", "B8"]]
    assert len(everybody) == 3  # the composite of A4 and B5 is one, though both have found it
    assert len(above) == 1


def test_a_callback_may_end_its_pattern_and_ask_for_another() -> None:
    bus = Bus(order="ordered")
    later: list[Detection] = []

    def once(composite: Notification) -> None:
        bus.unsubscribe("once")
        later.append(bus.detect("A followed by C"))

    bus.detect("A followed by B", once, id="once")
    publish(bus, "A1", "B2", "A3", "B4", "C5", "A6", "C7", "D8")
    assert len(later) == 1
    assert taken(later[0]) == [["A3", "C5"], ["A6", "C7"]]


# -- composites are notifications --------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["live", "ordered"])
def test_a_pattern_with_a_name_publishes_its_composites(order: Any) -> None:
    bus = Bus(order=order)
    spikes = bus.subscribe('type = "spike" and Trade.price > 10')
    everything = bus.subscribe("true")
    bus.detect("spike: Quote followed by Trade, same symbol")
    bus.detect("Quote followed by Trade")
    for time, (type, price) in enumerate((("Quote", 5), ("Trade", 7), ("Quote", 8), ("Trade", 12))):
        bus.publish({"type": type, "price": price, "symbol": "IBM", "time": Instant(time)})
    bus.close()
    assert [spike.get("Trade.price") for spike in spikes] == [12]
    assert sorted(types(everything)) == ["Quote", "Quote", "Trade", "Trade", "spike", "spike"]


def test_patterns_see_composites_of_others_once() -> None:
    bus = Bus(order="ordered")
    for subscriber in ("ada", "bob"):
        bus.detect("pair: A followed by B", subscriber=subscriber)
    above = bus.detect("pairs: pair followed by pair")
    top = bus.detect("pairs followed by C")
    publish(bus, "A1", "B2", "A3", "B4", "C5", "D6")
    assert len(above) == 1
    assert len(top) == 1
    assert bus.statistics().composites == 4


def test_partial_matches_are_published_under_their_own_type() -> None:
    bus = Bus(order="ordered")
    missed = bus.subscribe('type = "pair.partial"')
    bus.detect("pair: A followed by B within 5 us, with partial matches")
    publish(bus, "A1", "C9")
    assert taken(missed) == [["A1"]]


def test_a_trace_has_the_composites_that_were_published_and_the_specification_holds() -> None:
    trace: list[Event] = []
    with Bus(order="ordered", trace=trace.append) as bus:
        everything = bus.subscribe("true", subscriber="eve")
        bus.detect("pair: A followed by B", subscriber="ada", id="named")
        hidden = bus.detect("A followed by B", subscriber="bob", id="unnamed")
        publish(bus, "A1", "B2", "C3")
        bus.detect("pair: A followed by B", subscriber="cleo", id="later")
        publish(bus, "B4", "C5")
    assert len(everything) == 6
    assert len(hidden) == 1
    published = [each.notification.get("type") for each in trace if isinstance(each, Published)]
    assert published == ["A", "B", "pair", "C", "B", "C"]
    notified = [each for each in trace if isinstance(each, Notified) and each.identity.producer == "patterns"]
    assert [(each.component, each.subscriptions) for each in notified] == [
        ("ada", ("named",)),
        ("eve", ("s1",)),
    ]
    assert audit.audit(trace).verdict is Verdict.HOLDS


# -- failures ----------------------------------------------------------------------------------------------


def test_a_callback_that_fails_hurts_nobody_else() -> None:
    failures: list[tuple[Delivery, Exception]] = []
    bus = Bus(order="ordered", on_error=lambda delivery, error: failures.append((delivery, error)))
    broken = bus.detect("A followed by B", lambda composite: 1 / 0, subscriber="broken")
    healthy = bus.detect("A followed by B")
    publish(bus, "A1", "B2", "A3", "B4", "C5")
    assert len(healthy) == 2
    assert broken.error_count == 2
    assert [delivery.subscriber for delivery, _ in failures] == ["broken", "broken"]


class Newer:
    """A filter object that fails on what is no version."""

    def __init__(self, *arguments: int) -> None:
        self.arguments = arguments

    def matches(self, notification: Notification) -> bool:
        return int(notification.get("v")) > self.arguments[0]

    def covers(self, other: object) -> bool:
        return False


@pytest.fixture
def newer() -> Iterator[None]:
    register(Extension("versions", filters={"newer": Newer}))
    yield
    unregister("versions")


@pytest.mark.usefixtures("newer")
def test_a_filter_that_fails_does_not_match_and_its_subscriber_is_told() -> None:
    failures: list[Delivery] = []
    bus = Bus(order="ordered", on_error=lambda delivery, error: failures.append(delivery))
    picky = bus.detect("A[@newer(3)] followed by B", subscriber="picky")
    healthy = bus.detect("A followed by B")
    for a, b, version in (("A1", "B2", "4"), ("A3", "B4", "odd"), ("A5", "B6", "7"), ("C7", "C8", "1")):
        publish(bus, a, b, v=version)
    assert taken(healthy) == [["A1", "B2"], ["A3", "B4"], ["A5", "B6"]]
    assert taken(picky) == [["A1", "B2"], ["A5", "B6"]]
    assert [(each.subscriber, each.notification.id) for each in failures] == [("picky", "A3")]
    assert (picky.error_count, healthy.error_count, bus.statistics().errors) == (1, 0, 1)


# -- fair subscriptions ------------------------------------------------------------------------------------


def test_a_live_bus_correlates_in_the_order_of_publishing() -> None:
    bus = Bus()
    alarms = bus.detect(fair.parse("A.x < B.x"))
    for id, x in (("A9", 10), ("A1", 1), ("B5", 5), ("B2", 20)):
        publish(bus, id, x=x)
        assert len(alarms) == (id in ("B5", "B2"))
        if len(alarms):
            assert taken(alarms) == [["A1", "B5"]]
            break


def test_an_ordered_bus_correlates_in_the_total_order() -> None:
    bus = Bus(order="ordered", lateness_us=10)
    alarms = bus.detect(fair.parse("A.x < B.x"))
    for id, x in (("B8", 20), ("A3", 1), ("B5", 5), ("A1", 10)):
        publish(bus, id, x=x)
    bus.close()
    relation = alarms.get(0)
    assert [each["id"] for each in relation.get("constituents")] == ["A3", "B5"]
    assert [each["step"] for each in relation.get("constituents")] == ["A[1]", "B[1]"]
    assert [each["x"] for each in relation.get("events")] == [1, 5]
    assert (relation.get("type"), relation.get("number"), relation.time) == ("relation", 1, Instant(5))
    assert alarms.filter.matches(relation)


def test_the_relations_are_those_of_a_matcher_on_the_same_order() -> None:
    asked = fair.parse("A[1].x < A[2].x and B or C.x = 3")
    rng = Random(7)
    bus, matcher, found = Bus(), fair.Matcher(asked), []
    inbox = bus.detect(asked)
    for number in range(200):
        fields = {"type": rng.choice("ABC"), "x": rng.randint(0, 5), "id": f"{number}"}
        published = bus.publish(fields)
        assert published is not None
        found += [[each.id for each in relation.events] for relation in matcher.feed(published)]
    assert taken(inbox) == found
    assert len(found) > 20


def test_who_asks_the_same_gets_one_relation_and_who_chooses_otherwise_another() -> None:
    bus, asked = Bus(), fair.parse("A.x <= B.x")
    ada, bob = bus.detect(asked, subscriber="ada"), bus.detect(asked, subscriber="bob")
    recent = bus.detect(asked, choice="most recent")
    publish(bus, "A1", "A2", "B3", x=0)
    first, second = ada.get(0), bob.get(0)
    assert first is second
    assert [each["id"] for each in first.get("constituents")] == ["A1", "B3"]
    assert taken(recent) == [["A2", "B3"]]


def test_a_fair_subscription_holds_from_an_instant_until_another() -> None:
    bus, asked = Bus(order="ordered"), fair.parse("A and B")
    some = bus.detect(asked, since=Instant(2), until=Instant(6))
    publish(bus, "A1", "B3", "A4", "A5", "B6", "C7")
    assert taken(some) == [["A4", "B3"]]
    with pytest.raises(SubscriptionRefused, match="total order"):
        Bus().detect(asked, since=Instant(2))


def test_a_fair_subscription_sees_composites_that_are_published() -> None:
    bus = Bus(order="ordered")
    bus.detect("pair: A followed by B")
    joined = bus.detect(fair.parse("pair and C"))
    publish(bus, "A1", "B2", "C3", "D4")
    assert [each["step"] for each in joined.get(0).get("constituents")] == ["C[1]", "pair[1]"]
    assert len(joined) == 0


@pytest.mark.parametrize("order", ["live", "ordered"])
def test_a_fair_subscription_with_a_name_publishes_its_relations(order: Any) -> None:
    bus = Bus(order=order)
    asked = bus.detect(fair.parse("pair: A and B"))
    everybody = bus.subscribe('type = "pair" and producer = "fair"', subscriber="eve")
    pattern = bus.detect("pair followed by C")
    related = bus.detect(fair.parse("pair and C"))
    above = bus.detect(fair.parse("above: pair[2]"))
    publish(bus, "A1", "B2", "C3", "A4", "B5", "D6")
    assert taken(asked) == [["A1", "B2"], ["A4", "B5"]]
    assert len(everybody) == 2
    first, second = everybody.get(0), everybody.get(0)
    assert asked.filter.matches(first)
    assert not above.filter.matches(first)
    assert taken(pattern) == [[first.id, "C3"]]
    assert taken(related) == [["C3", first.id]]
    assert taken(above) == [[first.id, second.id]]
    assert bus.statistics().composites == 5


@settings(max_examples=40)
@given(
    st.lists(
        st.sampled_from(
            (
                "pair: A.x <= B.x",
                "both: A.x <= B.x or C",
                "A.x <= B.x",
                "pair[2] or pair and C",
                "above: pair and both",
                "top: above.number = pair.number or both[2]",
                "pair: C[2]",
                "top and A or above",
            )
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.sampled_from("ABC"), max_size=20),
)
def test_a_live_bus_takes_in_relations_right_behind_what_completes_them(
    asked: list[str], given_types: list[str]
) -> None:
    """Against a few lines: everybody is fed, then what that completes takes its place, one after the other."""
    matchers = [fair.Matcher(fair.parse(text)) for text in asked]
    expected: list[str] = []

    def enter(notification: Notification) -> None:
        completed = {each.id: each for matcher in matchers for each in matcher.feed(notification)}
        for relation in sorted(completed.values(), key=lambda each: each.rank):
            expected.append(relation.id)
            if relation.is_public:
                enter(relation.notification())

    bus, found = Bus(), dict.fromkeys(list[str]())
    for text in asked:
        bus.detect(fair.parse(text), lambda one: found.setdefault(one.id))
    for number, type in enumerate(given_types):
        published = bus.publish({"type": type, "id": f"{number}", "x": number % 3, "time": Instant(number)})
        assert published is not None
        enter(published)
    assert list(found) == expected


@pytest.mark.parametrize("order", ["live", "ordered"])
def test_a_question_that_would_see_its_own_answers_is_refused_and_changes_nothing(order: Any) -> None:
    bus = Bus(order=order)
    bus.detect("wave: pair followed by C")
    for text, circle in (("pair: wave and A", "pair ◀ wave"), ("self: self and A", "self")):
        with pytest.raises(FilterError, match=f"see their own composites: {circle}"):
            bus.detect(fair.parse(text), id="f")
    assert len(bus.subscriptions) == 1
    bus.detect(fair.parse("pair: A and B"), id="f")
    with pytest.raises(FilterError, match="see their own composites: pair ◀ wave"):
        bus.detect(fair.parse("pair: wave[2]"))
    bus.unsubscribe("f")
    bus.detect(fair.parse("above: wave and A"), id="f")


def test_on_a_live_bus_a_relation_is_there_at_once_right_behind_what_completes_it() -> None:
    bus, seen = Bus(), []
    for filter in ('type in {"A", "B", "C"}', 'producer = "fair"'):
        bus.subscribe(filter, lambda one: seen.append(one.get("type")))
    bus.detect(fair.parse("pair: A and B"))
    bus.detect(fair.parse("above: pair and A or pair and C"))
    publish(bus, "A1", "B2")
    assert seen == ["A", "B", "pair", "above"]
    assert bus.statistics().held == 0, "nobody asks for patterns"
    publish(bus, "C3")
    assert seen == ["A", "B", "pair", "above", "C", "above"]


def test_on_a_live_bus_a_relation_may_be_too_late_for_patterns_and_that_is_told() -> None:
    late: list[Late] = []
    bus = Bus(on_late=late.append)
    found = bus.detect("pair followed by C")
    bus.detect("spike: A")
    bus.detect(fair.parse("pair: spike"))  # known when time has passed the instant of A
    publish(bus, "A1", "C5", "C6")
    assert [each.notification.get("type") for each in late] == ["pair"]
    assert len(found) == 0
    assert bus.statistics().late == 1


def test_named_relations_are_in_a_trace_and_the_specification_holds() -> None:
    for order in ("live", "ordered"):
        events: list[Event] = []
        bus = Bus(order=order, trace=events.append)  # type: ignore[arg-type]
        bus.detect(fair.parse("pair: A and B"), subscriber="ada")
        bus.detect(fair.parse("A and B"), subscriber="bob")
        bus.detect(fair.parse("above: pair and C"), subscriber="ada")
        bus.subscribe('type = "pair" or type = "C"', subscriber="eve")
        publish(bus, "A1", "B2", "C3", "D4")
        bus.close()
        published = [each for each in events if isinstance(each, Published)]
        assert [each.notification.get("type") for each in published].count("pair") == 1
        assert [each.notification.get("type") for each in published].count("above") == 1
        assert audit.audit(events).verdict is Verdict.HOLDS


def test_a_fair_subscription_with_a_name_holds_from_an_instant_until_another() -> None:
    bus, asked = Bus(order="ordered"), fair.parse("pair: A and B")
    some = bus.detect(asked, since=Instant(2), until=Instant(6))
    others = bus.detect("pair followed by C")
    publish(bus, "A1", "B3", "A4", "A5", "B6", "C7", "D8")
    assert [[each["id"] for each in one.get("constituents")] for one in [some.get(0)]] == [["A4", "B3"]]
    assert len(some) == 0
    assert len(others) == 1


def test_a_fair_subscription_alone_holds_nothing_back() -> None:
    bus = Bus()
    bus.detect(fair.parse("A and B"))
    publish(bus, "A1", "A2")
    assert bus.statistics().held == 0


# -- threads -----------------------------------------------------------------------------------------------


def test_threads_that_publish_at_once_find_what_one_finds() -> None:
    bus = Bus(order="ordered", lateness_us=1_000)
    pairs = bus.detect("pair: A followed by B, taking all matches")
    above = bus.detect("exactly 2 pair", lambda composite: None)
    events = [f"{'AB'[number % 2]}{number}" for number in range(200)]
    threads = [threading.Thread(target=publish, args=(bus, *events[part::4])) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "deadlock"
    bus.close()
    assert taken(pairs) == [[f"A{number}", f"B{number + 1}"] for number in range(0, 200, 2)]
    assert above.error_count == 0
    assert bus.statistics().composites == 150


@pytest.mark.parametrize("order", ["live", "ordered"])
@pytest.mark.parametrize("producer", ["a", "p"])
def test_a_public_relation_stands_behind_the_events_of_its_instant_on_either_bus(
    order: Any, producer: str
) -> None:
    asked = {
        "A followed by m": 1,
        "m followed by A": 0,
        "A followed by B without [true]": 1,
        'A followed by [producer = "fair"] as f': 0,
    }
    found: dict[str, list[Notification]] = {text: [] for text in asked}
    with Bus(order=order) as bus:
        bus.detect(fair.parse("m: A"), lambda _: None)
        for text, seen in found.items():
            bus.detect(text, seen.append)
        for time, type in enumerate("AB", start=1):
            bus.publish({"type": type, "id": type, "producer": producer, "time": Instant(time)})
    assert {text: len(seen) for text, seen in found.items()} == asked


def test_a_pattern_that_names_its_own_type_is_refused() -> None:
    with Bus(order="ordered") as bus, pytest.raises(FilterError, match="its own composites: loop"):
        bus.detect("loop: loop followed by A")
