"""Deliveries of a bus that are accepted: attempts, deadlines, dead letters, one member of several."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import Bus, Instant, Notification
from fairlead.bus import Delivery
from fairlead.errors import SubscriptionEnded, SubscriptionRefused, ValueRefused


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> Instant:
        return Instant(self.now)

    def pass_seconds(self, seconds: float) -> None:
        self.now += int(seconds * 1_000_000)


def test_a_callback_that_always_fails_is_called_attempts_max_times_and_leaves_one_letter() -> None:
    """Case 15 of the corpus."""
    bus, calls, letters = Bus(on_error=lambda delivery, error: None), [], []

    def fail(notification: Notification) -> None:
        calls.append(notification.get("x"))
        if notification.get("x") == 7:
            raise ValueError("no sevens")

    bus.subscribe('type = "dead"', letters.append)
    subscription = bus.subscribe("exists x", fail, subscriber="work", attempts_max=3)
    bus.publish({"x": 7, "id": "a"})
    bus.publish({"x": 8, "id": "b"})
    assert calls == [7, 7, 7, 8]
    (letter,) = letters
    assert letter.producer == "dead/work"
    assert (letter.get("attempts"), letter.get("reason")) == (3, "ValueError: no sevens")
    assert (letter.get("notification.x"), letter.get("notification.id")) == (7, "a")
    assert subscription.error_count == 1


def test_a_callback_that_fails_once_is_called_again_and_leaves_no_letter() -> None:
    bus, calls, letters = Bus(), [], []

    def fail_first(notification: Notification) -> None:
        calls.append(notification)
        if len(calls) == 1:
            raise ValueError

    bus.subscribe('type = "dead"', letters.append)
    bus.subscribe("exists x", fail_first, attempts_max=3)
    bus.publish({"x": 1})
    assert (len(calls), letters) == (2, [])


def test_what_is_rejected_comes_again_and_what_is_accepted_does_not() -> None:
    bus = Bus()
    work = bus.subscribe("exists x", accept="each")
    bus.publish({"x": 1})
    bus.publish({"x": 2})
    first = work.get_delivery(0)
    first.reject(again=True)
    second, again = work.get_delivery(0), work.get_delivery(0)
    assert [(each.notification.get("x"), each.attempt) for each in (second, again)] == [(2, 1), (1, 2)]
    assert not first.accept(), "the first attempt is over"
    assert second.accept()
    assert again.accept()
    with pytest.raises(TimeoutError):
        work.get_delivery(0)


def test_get_accepts_the_one_before() -> None:
    bus = Bus()
    work = bus.subscribe("exists x", subscriber="w", shared=True)
    for x in (1, 2):
        bus.publish({"x": x})
    assert [work.get(0).get("x"), work.get(0).get("x")] == [1, 2]
    other = bus.subscribe("exists x", subscriber="w", shared=True)
    work.close()
    again = other.get_delivery(0)
    assert (again.notification.get("x"), again.attempt) == (2, 2), "the last one was not accepted"


def test_a_silent_member_loses_its_delivery_and_its_late_accept_counts_for_nothing() -> None:
    """Case 14 of the corpus."""
    clock = Clock()
    bus = Bus(clock=clock)
    first, second = (
        bus.subscribe("exists x", subscriber="work", shared=True, accept_within="1s") for _ in range(2)
    )
    bus.publish({"x": 1})
    silent = first.get_delivery(0)
    clock.pass_seconds(1)
    got = second.get_delivery(0)
    assert got.attempt == 2
    assert not silent.accept()
    assert got.renew()
    assert got.accept()


def test_a_delay_passes_before_a_rejected_delivery_comes_again() -> None:
    clock = Clock()
    bus = Bus(clock=clock)
    work = bus.subscribe("exists x", accept="each")
    bus.publish({"x": 1})
    work.get_delivery(0).reject(after="5s")
    with pytest.raises(TimeoutError):
        work.get_delivery(0)
    clock.pass_seconds(5)
    assert work.get_delivery(0).attempt == 2


def test_each_notification_goes_to_one_member_and_a_key_stays_with_its_member() -> None:
    bus = Bus()
    members = [bus.subscribe("exists x", subscriber="work", shared=True, per="order") for _ in range(2)]
    for x, order in enumerate("abaab"):
        bus.publish({"x": x, "order": order})
    taken = [
        [each.get_delivery(0).notification.get("x") for _ in range(len(queue))]
        for each, queue in zip(members, (range(3), range(2)), strict=True)
    ]
    assert taken == [[0, 2, 3], [1, 4]]


def test_members_in_threads_take_every_notification_once() -> None:
    bus = Bus()
    taken: list[int] = []
    lock, is_done = threading.Lock(), threading.Event()

    def work(member: object) -> None:
        try:
            while True:
                delivery = member.get_delivery(60)  # type: ignore[attr-defined]
                if delivery.attempt == 1 and delivery.notification.get("x") % 3 == 0:
                    delivery.reject(again=True)
                elif delivery.accept():
                    with lock:
                        taken.append(delivery.notification.get("x"))
                        if len(taken) >= 200:
                            is_done.set()
        except SubscriptionEnded:
            return

    members = [bus.subscribe("exists x", subscriber="work", shared=True, window=5) for _ in range(4)]
    threads = [threading.Thread(target=work, args=(each,)) for each in members]
    for thread in threads:
        thread.start()
    for x in range(200):
        bus.publish({"x": x})
    assert is_done.wait(60)
    bus.close()
    for thread in threads:
        thread.join(10)
    assert sorted(taken) == [*range(200)]


def test_what_has_no_meaning_is_refused() -> None:
    bus = Bus()
    with pytest.raises(SubscriptionRefused, match="without a clock"):
        bus.subscribe("true", accept_within="1s")
    with pytest.raises(SubscriptionRefused, match="read from queues"):
        bus.subscribe("true", print, subscriber="w", shared=True)
    with pytest.raises(SubscriptionRefused, match="has a window"):
        bus.subscribe("true", accept="each", maxsize=3)
    with pytest.raises(ValueRefused, match="keys are for shared"):
        bus.subscribe("true", per="order")
    with pytest.raises(SubscriptionRefused, match="ordered bus"):
        Bus(order="ordered").subscribe("true", accept="each")
    bus.subscribe("true", subscriber="w", shared=True)
    with pytest.raises(SubscriptionRefused, match="other terms"):
        bus.subscribe("true", subscriber="w", shared=True, window=3)
    bus.subscribe("true", subscriber="plain")
    with pytest.raises(SubscriptionRefused, match="not accepted"):
        bus.subscribe("exists x", subscriber="plain", accept="each")


def test_a_bus_whose_deliveries_are_not_accepted_keeps_no_assignments() -> None:
    bus = Bus()
    plain = bus.subscribe("exists x", subscriber="plain")
    bus.publish({"x": 1})
    assert type(plain._receiver).__name__ == "Receiver"
    assert not plain.get_delivery(0).accept(), "there is nothing to accept"


# -- all that came before ---------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.sampled_from(["publish", "take", "through", "accept", "again"]), st.integers(0, 5)))
)
def test_what_was_taken_up_to_a_delivery_is_accepted_and_nothing_else(given: list[tuple[str, int]]) -> None:
    bus = Bus()
    work = bus.subscribe("exists job", accept="each")
    taken: list[Delivery] = []
    accepted: set[int] = set()
    published = 0
    for what, number in given:
        if what == "publish":
            bus.publish({"job": published})
            published += 1
        elif what == "take" and len(work):
            taken.append(work.get_delivery(0))
        elif taken and what != "take":
            index = number % len(taken)
            chosen = taken[index]
            if what == "through":
                through, taken = taken[: index + 1], taken[index + 1 :]
                assert chosen.accept_through() == len(through)
                accepted |= {int(each.notification.get("job")) for each in through}
                assert chosen.accept_through() == 0
            else:
                del taken[index]
                if what == "accept":
                    assert chosen.accept()
                    accepted.add(int(chosen.notification.get("job")))
                else:
                    chosen.reject(again=True)
    left = {int(each.notification.get("job")) for each in taken}
    while len(work):
        left.add(int(work.get_delivery(0).notification.get("job")))
    assert left == {*range(published)} - accepted


def test_a_member_accepts_what_it_has_taken_and_nothing_of_others() -> None:
    bus = Bus()
    one, two = (bus.subscribe("exists job", subscriber="work", shared=True) for _ in range(2))
    for job in range(4):
        bus.publish({"job": job})
    mine, others = [[each.get_delivery() for _ in range(2)] for each in (one, two)]
    assert mine[1].accept_through() == 2
    assert [each.accept() for each in others] == [True, True]
