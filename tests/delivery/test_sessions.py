"""Sessions: what is published in one has its name, and callbacks go on in the session of what they handle."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import fairlead as fl
from fairlead.errors import ValueRefused


def names(subscription: fl.Subscription) -> list[Any]:
    return [subscription.get(0).get("session", None) for _ in range(len(subscription))]


def test_what_is_published_in_a_session_has_its_name_and_what_is_not_has_none() -> None:
    with fl.Bus() as bus:
        inbox = bus.subscribe("true")
        bus.publish({"n": 1})
        with fl.session("order-17") as outer:
            bus.publish({"n": 2})
            with fl.session("payment") as inner:
                bus.publish({"n": 3})
            bus.publish({"n": 4, "session": "its own"})
            with pytest.raises(ZeroDivisionError), fl.session("x"):
                bus.publish({"n": 1 / 0})
            bus.publish({"n": 5})
        bus.publish({"n": 6})
        assert names(inbox) == [None, "order-17", "order-17/payment", "its own", "order-17", None]
        assert [outer.name, inner.name] == ["order-17", "order-17/payment"]


def test_a_subscription_within_a_session_gets_that_of_the_sessions_within_it_and_of_no_other() -> None:
    with fl.Bus() as bus:
        with fl.session("order-1") as order:
            inbox = bus.subscribe(order.within("n > 1"))
            for n in (1, 2):
                bus.publish({"n": n})
            with fl.session("payment"):
                bus.publish({"n": 3})
        with fl.session("order-17"):
            bus.publish({"n": 4})
        assert [inbox.get(0).get("n") for _ in range(len(inbox))] == [2, 3]


@pytest.mark.parametrize("attempts", [0, 3])
def test_a_callback_runs_in_the_session_of_what_it_handles_whoever_hands_it_over(attempts: int) -> None:
    with fl.Bus() as bus:
        bus.subscribe(
            "exists job",
            lambda job: bus.publish({"done": job.get("job")}),
            subscriber="w",
            attempts_max=attempts,
        )
        results = bus.subscribe("exists done")
        with fl.session("a"):
            bus.publish({"job": 1})
        bus.publish({"job": 2})
        with fl.session("b"):  # the job of another session is handled while this one publishes
            bus.subscribe("n = 1", lambda _: bus.publish({"job": 3, "session": "c"}))
            bus.publish({"n": 1})
            bus.publish({"done": 4})
        assert names(results) == ["a", None, "c", "b"]


def test_threads_have_sessions_of_their_own() -> None:
    with fl.Bus() as bus:
        inbox = bus.subscribe("true")
        with fl.session("main"):
            other = threading.Thread(target=lambda: bus.publish({"n": 1}))
            other.start()
            other.join()
        assert names(inbox) == [None]


def test_transactions_requests_and_replies_are_in_the_session() -> None:
    with fl.Bus() as bus:
        everything = bus.subscribe("not exists reply and not exists re")
        replies = bus.subscribe("exists re")
        bus.respond('type = "price?"', lambda request: {"price": 81})
        with fl.session("chat"):
            with bus.transaction() as t:
                t.publish({"n": 1})
            bus.request({"type": "price?"})
        assert names(everything) == ["chat"]
        assert names(replies) == ["chat"]


def test_the_session_of_a_notification_is_entered_again() -> None:
    with fl.Bus() as bus:
        inbox = bus.subscribe("true")
        with fl.session("a"):
            bus.publish({"n": 1})
        bus.publish({"n": 2})
        in_a, outside = inbox.get(0), inbox.get(0)
        with fl.session("b"):
            with fl.session(in_a), fl.session("more"):
                bus.publish({"n": 3})
            with fl.session(outside) as none:
                bus.publish({"n": 4})
        assert names(inbox) == ["a/more", None]
        assert none.within("true").matches(outside)
        assert not none.within("true").matches(in_a)


def test_content_and_times_stay_as_they_were_given() -> None:
    with fl.Bus(clock=lambda: fl.Instant(5)) as bus:
        inbox = bus.subscribe("true")
        with fl.session("a"):
            bus.publish({"b.c": [3, 1, 3], "price": 1})
        assert inbox.get(0).to_json() == (
            '{"b.c":[3,1,3],"price":1,"session":"a","time":"1970-01-01T00:00:00.000005Z"}'
        )


@pytest.mark.parametrize("name", ["", "a//b", "a/*", "**", "/a", 7])
def test_names_that_are_no_sessions_are_refused(name: Any) -> None:
    with pytest.raises(ValueRefused, match="no name of a session"), fl.session(name):
        pass
