"""The embedded bus keeps the specification of a simple event system, whatever threads and callbacks do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl
from fairlead.bus import (
    Bus,
    BusClosed,
    Delivery,
    NotAdvertised,
    Subscription,
    SubscriptionEnded,
    SubscriptionRefused,
)
from fairlead.filters.language import parse
from fairlead.filters.schema import Schema
from fairlead.matching import EngineUnknown
from fairlead.model import Instant, Notification

DEADLINE_S = 30  # a test that would wait for ever fails instead


@pytest.fixture
def bus() -> Iterator[Bus]:
    with Bus() as bus:
        yield bus


def numbers(subscription: Subscription) -> list[int]:
    """What waits in the queue, by the attribute n."""
    return [subscription.get(timeout=0).get("n") for _ in range(len(subscription))]


def together(*works: Callable[[], object]) -> None:
    """Run all works at once, each in its thread, and wait for them."""
    barrier = threading.Barrier(len(works))
    problems: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            barrier.wait(DEADLINE_S)
            work()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "deadlock"
    assert problems == []


# -- receiving ---------------------------------------------------------------------------------------------


def test_a_subscriber_gets_what_matches_and_nothing_else(bus: Bus) -> None:
    with bus.subscribe("n > 2") as large:
        for n in (1, 3, 2, 4):
            bus.publish({"n": n})
        assert numbers(large) == [3, 4]


def test_a_subscriber_gets_nothing_from_before_and_nothing_from_after(bus: Bus) -> None:
    bus.publish({"n": 1})
    subscription = bus.subscribe("exists n")
    bus.publish({"n": 2})
    subscription.close()
    bus.publish({"n": 3})
    assert numbers(subscription) == [2]
    assert not subscription.active


def test_mappings_tuples_and_notifications_can_be_published(bus: Bus) -> None:
    with bus.subscribe('("StockQuote", *, 45) or n = 1') as everything:
        bus.publish(("StockQuote", "Foo Inc.", 45))
        bus.publish({"n": 1})
        bus.publish(Notification.of({"n": 1, "id": "a"}))
        assert [everything.get().get("n") for _ in range(3)][1:] == [1, 1]


def test_filters_can_be_given_as_filters(bus: Bus) -> None:
    with bus.subscribe(parse("n = 1") | parse("n = 2")) as some:
        for n in range(4):
            bus.publish({"n": n})
        assert numbers(some) == [1, 2]


def test_a_callback_has_been_called_when_publish_returns(bus: Bus) -> None:
    got: list[Notification] = []
    bus.subscribe("n = 1", got.append)
    published = bus.publish({"n": 1})
    assert got == [published]


def test_iteration_ends_when_the_subscription_is_closed_and_the_queue_is_read(bus: Bus) -> None:
    subscription = bus.subscribe("exists n")
    bus.publish({"n": 1})
    bus.publish({"n": 2})
    subscription.close()
    assert [notification.get("n") for notification in subscription] == [1, 2]
    with pytest.raises(SubscriptionEnded):
        subscription.get()


def test_a_reader_that_waits_is_woken_by_a_notification_and_by_the_end(bus: Bus) -> None:
    subscription = bus.subscribe("exists n")
    read: list[int] = []
    both_read = threading.Event()

    def reader() -> None:
        for notification in subscription:
            read.append(notification.get("n"))
            if len(read) == 2:
                both_read.set()

    def writer() -> None:
        bus.publish({"n": 1})
        bus.publish({"n": 2})
        assert both_read.wait(DEADLINE_S)
        bus.close()

    together(reader, writer)
    assert read == [1, 2]


def test_get_gives_up_after_its_timeout(bus: Bus) -> None:
    with bus.subscribe("n = 1") as subscription, pytest.raises(TimeoutError):
        subscription.get(timeout=0)


def test_a_subscription_with_a_callback_has_no_queue(bus: Bus) -> None:
    subscription = bus.subscribe("n = 1", print)
    with pytest.raises(SubscriptionRefused, match="there is no queue"):
        subscription.get()


def test_a_full_queue_pushes_out_the_oldest_and_counts_it(bus: Bus) -> None:
    with bus.subscribe("exists n", maxsize=2, overflow="drop_oldest") as latest:
        for n in range(5):
            bus.publish({"n": n})
        assert latest.dropped == bus.statistics().dropped == 3
        assert numbers(latest) == [3, 4]


def test_a_full_queue_holds_up_the_publisher_until_it_is_read(bus: Bus) -> None:
    subscription = bus.subscribe("exists n", maxsize=1)
    read: list[int] = []

    def reader() -> None:
        for _ in range(50):
            assert len(subscription) <= 1
            read.append(subscription.get(DEADLINE_S).get("n"))

    together(reader, lambda: [bus.publish({"n": n}) for n in range(50)])
    assert read == list(range(50))


def test_unsubscribing_frees_a_publisher_that_a_full_queue_holds_up(bus: Bus) -> None:
    subscription = bus.subscribe("exists n", maxsize=1)
    bus.publish({"n": 1})
    together(lambda: bus.publish({"n": 2}), subscription.close)
    assert numbers(subscription) == [1]


@pytest.mark.parametrize(
    "options", [{"maxsize": 0}, {"overflow": "explode"}, {"maxsize": 1, "callback": print}], ids=str
)
def test_a_queue_that_cannot_be_is_refused(bus: Bus, options: dict[str, Any]) -> None:
    with pytest.raises(SubscriptionRefused):
        bus.subscribe("n = 1", **options)
    assert bus.subscriptions == ()


# -- subscribers -------------------------------------------------------------------------------------------


def test_a_subscriber_is_notified_once_however_many_of_its_subscriptions_match(bus: Bus) -> None:
    with (
        bus.subscribe("n > 1", subscriber="ada", id="wide") as inbox,
        bus.subscribe("n = 2", subscriber="ada", id="narrow"),
    ):
        two = bus.publish({"n": 2})
        three = bus.publish({"n": 3})
        assert two is not None
        assert three is not None
        assert inbox.get_delivery() == Delivery("ada", two, ("narrow", "wide"))
        assert inbox.get_delivery() == Delivery("ada", three, ("wide",))
        assert len(inbox) == 0


def test_subscriptions_without_a_subscriber_are_each_their_own(bus: Bus) -> None:
    got: list[str] = []
    bus.subscribe("n = 1", lambda _: got.append("a"))
    bus.subscribe("n = 1", lambda _: got.append("b"))
    bus.publish({"n": 1})
    assert got == ["a", "b"]
    assert bus.statistics().subscribers == 2


def test_subscribing_twice_and_unsubscribing_once_leaves_the_filter_inactive(bus: Bus) -> None:
    first = bus.subscribe("n = 1", subscriber="ada")
    second = bus.subscribe("n = 1", subscriber="ada")
    assert second is first
    assert bus.unsubscribe(first)
    bus.publish({"n": 1})
    assert len(first) == 0
    assert not bus.unsubscribe(second)


def test_unsubscribing_what_has_ended_does_not_end_its_successor(bus: Bus) -> None:
    old = bus.subscribe("n = 1", id="a")
    old.close()
    new = bus.subscribe("n = 2", id="a")
    assert not bus.unsubscribe(old)
    assert new.active
    assert bus.unsubscribe("a")
    assert not bus.unsubscribe("a")


def test_the_other_subscriptions_of_a_subscriber_stay(bus: Bus) -> None:
    inbox = bus.subscribe("n = 1", subscriber="ada")
    other = bus.subscribe("n = 2", subscriber="ada")
    inbox.close()
    bus.publish({"n": 1})
    bus.publish({"n": 2})
    assert numbers(other) == [2]


def test_a_subscriber_has_one_receiver(bus: Bus) -> None:
    got: list[Notification] = []
    bus.subscribe("n = 1", got.append, subscriber="ada")
    bus.subscribe("n = 2", subscriber="ada")
    bus.publish({"n": 2})
    assert len(got) == 1
    with pytest.raises(SubscriptionRefused, match="another callback"):
        bus.subscribe("n = 3", print, subscriber="ada")


def test_an_id_belongs_to_one_subscription(bus: Bus) -> None:
    bus.subscribe("n = 1", id="a", subscriber="ada")
    with pytest.raises(SubscriptionRefused, match="the id 'a' is taken"):
        bus.subscribe("n = 2", id="a")


# -- order and re-entrance ---------------------------------------------------------------------------------


def test_what_a_callback_publishes_comes_after_the_current_one_for_everybody(bus: Bus) -> None:
    log: list[tuple[str, int]] = []

    def echo(notification: Notification) -> None:
        n = notification.get("n")
        log.append(("echo", n))
        if n < 3:
            bus.publish({"n": n + 1})

    bus.subscribe("exists n", echo)
    bus.subscribe("exists n", lambda notification: log.append(("other", notification.get("n"))))
    bus.publish({"n": 1})
    assert log == [("echo", 1), ("other", 1), ("echo", 2), ("other", 2), ("echo", 3), ("other", 3)]


def test_a_callback_can_unsubscribe_itself_and_others(bus: Bus) -> None:
    got: list[str] = []

    def first(_: Notification) -> None:
        got.append("first")
        bus.unsubscribe("first")
        bus.unsubscribe("second")

    bus.subscribe("n = 1", first, id="first")
    bus.subscribe("n = 1", lambda _: got.append("second"), id="second")
    bus.publish({"n": 1})
    bus.publish({"n": 1})
    assert got == ["first"]
    assert bus.statistics().withdrawn == 1


def test_a_callback_that_subscribes_does_not_get_the_current_notification(bus: Bus) -> None:
    late: list[Subscription] = []
    bus.subscribe("n = 1", lambda _: late.append(bus.subscribe("exists n")))
    bus.publish({"n": 1})
    bus.publish({"n": 2})
    assert numbers(late[0]) == [2]


def test_a_callback_can_close_the_bus(bus: Bus) -> None:
    got: list[int] = []
    bus.subscribe("n = 1", lambda _: bus.close())
    bus.subscribe("n = 1", lambda notification: got.append(notification.get("n")))
    bus.publish({"n": 1})
    assert got == [1]
    assert bus.subscriptions == ()


def test_several_threads_publish_in_one_order_that_all_subscribers_see(bus: Bus) -> None:
    seen: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
    for name, log in seen.items():
        bus.subscribe("exists n", lambda n, log=log: log.append((n.get("thread"), n.get("n"))), id=name)
    queue = bus.subscribe("exists n")

    def publisher(thread: int) -> Callable[[], object]:
        return lambda: [bus.publish({"thread": thread, "n": n}) for n in range(200)]

    together(*map(publisher, range(4)))
    assert bus.flush(DEADLINE_S)
    assert (
        seen["a"] == seen["b"] == [(n.get("thread"), n.get("n")) for n in [queue.get() for _ in range(800)]]
    )
    for thread in range(4):
        assert [n for each, n in seen["a"] if each == thread] == list(range(200))


def test_a_callback_may_wait_for_another_thread_that_uses_the_bus(bus: Bus) -> None:
    got: list[int] = []

    def wait_for_another(notification: Notification) -> None:
        got.append(notification.get("n"))
        if notification.get("n") == 1:
            other = threading.Thread(target=lambda: (bus.publish({"n": 2}), bus.subscribe("n = 9")))
            other.start()
            other.join(DEADLINE_S)
            assert not other.is_alive()

    subscription = bus.subscribe("exists n", wait_for_another)
    bus.publish({"n": 1})
    assert got == [1, 2]
    assert subscription.errors == ()


def test_subscribing_and_unsubscribing_while_others_publish_loses_nothing_for_those_who_stay(
    bus: Bus,
) -> None:
    steady = bus.subscribe("exists n")

    def come_and_go() -> None:
        for _ in range(100):
            bus.subscribe("exists n").close()

    together(come_and_go, come_and_go, lambda: [bus.publish({"n": n}) for n in range(200)])
    bus.flush(DEADLINE_S)
    assert numbers(steady) == list(range(200))
    assert bus.statistics().subscriptions == 1


def test_a_callback_cannot_wait_for_its_own_end(bus: Bus) -> None:
    answers: list[bool] = []
    bus.subscribe("n = 1", lambda _: answers.append(bus.flush()))
    bus.publish({"n": 1})
    assert answers == [False]
    assert bus.flush()


# -- failure -----------------------------------------------------------------------------------------------


def fail(_: Notification) -> None:
    raise ZeroDivisionError("a subscriber's own")


def test_a_subscriber_that_raises_does_not_hurt_the_others(
    bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    failing = bus.subscribe("exists n", fail)
    got: list[Notification] = []
    bus.subscribe("exists n", got.append)
    with caplog.at_level(logging.ERROR, logger="fairlead.bus"):
        bus.publish({"n": 1})
        bus.publish({"n": 2})
    assert len(got) == 2
    assert failing.error_count == len(failing.errors) == bus.statistics().errors == 2
    assert isinstance(failing.errors[0], ZeroDivisionError)
    assert f"subscriber '{failing.id}' failed" in caplog.text


def test_errors_go_to_the_hook_and_the_hook_may_fail_too(caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[str, str]] = []

    def hook(delivery: Delivery, error: Exception) -> None:
        told.append((delivery.subscriber, str(error)))
        if len(told) == 2:
            raise RuntimeError("the hook's own")

    bus = Bus(on_error=hook)
    bus.subscribe("exists n", fail, subscriber="ada")
    bus.publish({"n": 1})
    assert caplog.text == ""
    bus.publish({"n": 2})
    assert told == [("ada", "a subscriber's own")] * 2
    assert "the hook's own" in caplog.text


def test_what_an_interrupted_callback_leaves_behind_goes_out_with_the_next_call(bus: Bus) -> None:
    def interrupt(notification: Notification) -> None:
        if notification.get("n") == 1:
            raise KeyboardInterrupt

    bus.subscribe("exists n", interrupt)
    behind = bus.subscribe("exists n")
    with pytest.raises(KeyboardInterrupt):
        bus.publish({"n": 1})
    assert len(behind) == 0
    assert bus.flush()
    bus.publish({"n": 2})
    assert numbers(behind) == [1, 2]


class Broken(fl.Filter):
    """A filter object that fails instead of answering."""

    def matches(self, notification: Notification) -> bool:
        raise ZeroDivisionError("a filter's own")


def test_a_filter_that_raises_does_not_hurt_the_others(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    before = bus.subscribe("exists n")
    broken = bus.subscribe(Broken())
    behind = bus.subscribe("exists n")
    bus.publish({"n": 1})
    assert (numbers(before), numbers(broken), numbers(behind)) == ([1], [], [1])
    assert [str(error) for error in broken.errors] == ["a filter's own"]
    assert bus.statistics().errors == 1
    assert "a filter's own" in caplog.text


def test_an_advertisement_that_raises_is_its_producers_own_error(bus: Bus) -> None:
    with bus.advertise(Broken()), pytest.raises(ZeroDivisionError):
        bus.publish({"n": 1, "id": "a"})
    bus.advertise("exists n")
    assert bus.publish({"n": 1, "id": "a"}) is not None


# -- identity ----------------------------------------------------------------------------------------------


def test_the_same_producer_and_id_again_is_a_duplicate_and_dropped(bus: Bus) -> None:
    with bus.subscribe("exists n") as all_of_them:
        assert bus.publish({"id": 1, "producer": "p", "n": 1}) is not None
        assert bus.publish({"id": 1, "producer": "p", "n": 1}) is None
        assert bus.publish({"id": 1, "producer": "q", "n": 3}) is not None
        assert numbers(all_of_them) == [1, 3]
    assert bus.statistics().duplicates == 1


def test_a_duplicate_with_other_content_is_counted_as_a_conflict(bus: Bus) -> None:
    with bus.subscribe("exists v") as all_of_them:
        for fields in ({"v": 2}, {"v": 2.0}, {"v": 1}, {"v": 3}):
            bus.publish({"id": "1", "producer": "p", **fields})
        assert [each.get("v") for each in (all_of_them.get(0) for _ in range(len(all_of_them)))] == [2]
    assert (bus.statistics().duplicates, bus.statistics().conflicts) == (1, 2)


def test_equal_records_without_an_id_are_different_notifications(bus: Bus) -> None:
    first, second = bus.publish({"n": 1}), bus.publish({"n": 1})
    assert first is not None
    assert second is not None
    assert first.id != second.id
    assert Bus().publish({"n": 1}) == first  # and have the same ids on every run
    assert bus.publish(second) is None  # what was received and is published again is a duplicate


def test_records_with_objects_are_different_notifications(bus: Bus) -> None:
    holder = object()
    with bus.subscribe("exists thing") as things:
        for _ in range(2):
            bus.publish({"thing": holder})
        assert len(things) == 2


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30), st.integers(1, 8))
def test_a_duplicate_is_known_among_as_many_as_are_remembered(
    published: list[tuple[int, bool]], remembered: int
) -> None:
    bus = Bus(remembered=remembered)
    memory: list[object] = []
    for n, has_id in published:
        accepted = bus.publish({"n": n, **({"id": n} if has_id else {})})
        if has_id:
            assert (accepted is None) == (n in memory)
        else:
            assert accepted is not None  # never mistaken for a duplicate, however much was forgotten
        if accepted is not None:
            memory = [*memory, n if has_id else accepted.id][-remembered:]


def test_a_bus_with_a_clock_stamps_what_has_no_time(bus: Bus) -> None:
    ticking = Bus(clock=lambda: Instant.parse("2024-05-01T10:00:00Z"))
    with ticking.subscribe('time >= t"2024-05-01T10:00:00Z"') as timed:
        ticking.publish({"n": 1})
        ticking.publish({"n": 2, "time": "2023-05-01T10:00:00Z"})
        assert numbers(timed) == [1]
    unstamped = bus.publish({"n": 1})
    assert unstamped is not None
    assert unstamped.time is None


# -- advertisements and schema -----------------------------------------------------------------------------


def test_a_producer_that_has_advertised_can_publish_nothing_else(bus: Bus) -> None:
    with bus.subscribe("exists n") as everything:
        bus.advertise("n < 3", producer="p")
        bus.publish({"producer": "p", "n": 1})
        with pytest.raises(NotAdvertised, match=r"producer 'p'.*\n.*it advertises n < 3"):
            bus.publish({"producer": "p", "n": 5})
        bus.publish({"producer": "q", "n": 5})
        assert numbers(everything) == [1, 5]
    assert bus.statistics().not_advertised == 1


def test_a_producer_that_has_revoked_all_its_advertisements_can_publish_nothing(bus: Bus) -> None:
    with bus.advertise("n < 3", producer="p"):
        bus.publish({"producer": "p", "n": 1})
    with pytest.raises(NotAdvertised, match="it has revoked everything"):
        bus.publish({"producer": "p", "n": 1})


def test_several_advertisements_allow_what_any_of_them_matches(bus: Bus) -> None:
    low = bus.advertise("n < 3")
    high = bus.advertise("n > 7")
    assert bus.publish({"n": 1}) is not None
    assert bus.publish({"n": 8}) is not None
    assert bus.advertisements == (low, high)
    assert bus.unadvertise(low)
    assert not bus.unadvertise(low)
    with pytest.raises(NotAdvertised):
        bus.publish({"n": 1})


def test_advertising_twice_and_revoking_once_leaves_the_filter_inactive(bus: Bus) -> None:
    first = bus.advertise("n < 3", producer="p")
    assert bus.advertise("n < 3", producer="p") is first
    bus.unadvertise(first)
    assert bus.advertisements == ()


def test_the_schema_checks_what_is_published_and_reads_the_filters() -> None:
    bus = Bus(Schema.parse("type Quote\ntype StockQuote: Quote\nprice: int"))
    with bus.subscribe("type is Quote") as quotes:
        bus.publish({"type": "StockQuote", "price": 20})
        with pytest.raises(fl.ValueRefused):
            bus.publish({"type": "StockQuote", "price": 20.5})
        assert len(quotes) == 1
    with pytest.raises(fl.FilterError):
        bus.subscribe("type is Nonsense")


# -- the bus itself ----------------------------------------------------------------------------------------


def test_a_closed_bus_takes_nothing_more(bus: Bus) -> None:
    subscription = bus.subscribe("n = 1")
    bus.close()
    bus.close()
    assert not subscription.active
    for attempt in (
        lambda: bus.publish({"n": 1}),
        lambda: bus.subscribe("n = 1"),
        lambda: bus.advertise("n = 1"),
    ):
        with pytest.raises(BusClosed):
            attempt()


def test_an_engine_that_does_not_exist_is_an_error_that_lists_those_that_do() -> None:
    with pytest.raises(EngineUnknown, match="brute"):
        Bus(engine="telepathy")


FILTERS = ("n < 3", "n > 1", "n = 2")
NAMES = ("ada", "bruno")
STEPS = st.one_of(
    st.tuples(st.just("publish"), st.just(""), st.integers(0, 4)),
    st.tuples(st.sampled_from(("subscribe", "unsubscribe")), st.sampled_from(NAMES), st.integers(0, 2)),
)


@given(st.lists(STEPS, max_size=40))
def test_the_bus_does_what_the_specification_says(steps: list[tuple[str, str, int]]) -> None:
    bus = Bus()
    active: set[tuple[str, int]] = set()
    expected: dict[str, list[Notification]] = {name: [] for name in NAMES}
    got: dict[str, list[Notification]] = {name: [] for name in NAMES}
    handles: dict[tuple[str, int], Subscription] = {}
    for step, name, number in steps:
        match step:
            case "subscribe":
                callback = got[name].append
                handles[name, number] = bus.subscribe(FILTERS[number], callback, subscriber=name)
                active.add((name, number))
            case "unsubscribe" if (name, number) in handles:
                bus.unsubscribe(handles[name, number])
                active.discard((name, number))
            case "publish":
                notification = bus.publish({"n": number})
                assert notification is not None
                for each in NAMES:
                    if any(
                        who == each and parse(FILTERS[which]).matches(notification) for who, which in active
                    ):
                        expected[each].append(notification)
    assert got == expected
    assert {(each.subscriber, str(each.filter)) for each in bus.subscriptions} == {
        (name, FILTERS[number]) for name, number in active
    }


def test_the_same_filter_under_two_ids_is_two_subscriptions_and_one_delivery() -> None:
    bus = Bus()
    got: list[Notification] = []
    first = bus.subscribe("x > 1", got.append, subscriber="ada", id="s1")
    second = bus.subscribe("x > 1", got.append, subscriber="ada", id="s2")
    assert bus.subscribe("x > 1", got.append, subscriber="ada") is first
    assert bus.subscribe("x > 1", got.append, subscriber="ada", id="s2") is second
    bus.publish({"x": 2})
    assert len(got) == 1
    assert bus.unsubscribe(first)
    bus.publish({"x": 3})
    assert bus.unsubscribe(second)
    bus.publish({"x": 4})
    assert len(got) == 2
