"""The client without an event loop has the same names and promises the same; patterns are those of the bus."""

from __future__ import annotations

import inspect
import logging
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fairlead
from fairlead.bus import Bus
from fairlead.correlation import fair
from fairlead.correlation.patterns import Pattern
from fairlead.errors import (
    BrokerRefused,
    ConnectionEnded,
    FairleadError,
    SubscriptionEnded,
    SubscriptionRefused,
    TransactionRefused,
    ValueRefused,
)
from fairlead.model import Instant, Notification
from fairlead.network import client as asynchronous
from fairlead.network import detection, sync
from fairlead_lab.testing.patterns import patterns, streams

PATIENCE_S = 20.0


def public(of: type) -> set[str]:
    return {name for name in vars(of) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (asynchronous.Client, sync.Client),
        (asynchronous.Subscription, sync.Subscription),
        (asynchronous.Transaction, sync.Transaction),
        (detection.Detection, sync.Detection),
    ],
)
def test_the_names_are_the_same(one: type, other: type) -> None:
    only_asynchronous = {"installed", "take_waiting", "waiting", "held"}
    assert public(one) - only_asynchronous <= public(other)
    for name in public(one) & public(other):
        both = [inspect.getattr_static(each, name) for each in (one, other)]
        if not any(isinstance(each, property) for each in both):
            shared = [set(inspect.signature(each).parameters) - {"timeout"} for each in both]
            assert shared[0] == shared[1], name


def test_it_is_the_face_of_the_package() -> None:
    assert fairlead.sync is sync
    assert fairlead.connect is asynchronous.connect


def test_publishing_and_subscribing_over_two_brokers(brokers: Any, tmp_path: Path) -> None:
    near = brokers.start("near", tmp_path)
    far = brokers.start("far", tmp_path, links=(near.url,))
    with sync.connect(near.url, name="desk") as producer, sync.connect(far.url) as consumer:
        assert (producer.name, producer.broker, consumer.broker) == ("desk", "near", "far")
        with consumer.subscribe("x > 1") as live, consumer.subscribe("x > 0", durable="d") as durable:
            assert (str(live.filter), live.durable, durable.durable, live.dropped) == ("x > 1", "", "d", 0)
            begun = [producer.publishing({"x": x}) for x in range(4)]
            assert [each.result(PATIENCE_S).get("x") for each in begun] == [0, 1, 2, 3]
            assert [live.get(PATIENCE_S).get("x") for _ in range(2)] == [2, 3]
            assert durable.get(PATIENCE_S).get("x") == 1
            producer.send({"x": 9})
            assert live.get(PATIENCE_S).producer == "desk"
        with consumer.subscribe("x > 0", durable="d") as again:
            delivery = again.delivery(PATIENCE_S)
            assert (delivery.notification.get("x"), delivery.subscriptions) == (2, (again.id,))
            delivery.reject(again=True)
            assert [
                each.notification.get("x") for each in (next(again.deliveries()), next(again.deliveries()))
            ]
        consumer.forget("d")
        assert consumer.status()["durables"] == {}
        assert producer.tables()["subscriptions"] == []


def test_what_is_taken_in_a_transaction_is_accepted_with_it_or_comes_again(
    brokers: Any, tmp_path: Path
) -> None:
    url = brokers.start("hub", tmp_path).url
    with (
        sync.connect(url, name="desk") as client,
        client.subscribe("exists x", durable="d") as jobs,
        client.subscribe("exists y") as results,
    ):
        for x in range(3):
            client.publish({"x": x})
        with client.transaction(jobs) as both:
            assert [jobs.get(PATIENCE_S).get("x") for _ in range(2)] == [0, 1]
            assert both.publish({"y": 1}).id
        assert both.state == "committed"
        with pytest.raises(ZeroDivisionError), client.transaction(jobs) as failed:
            failed.publish({"y": 1 / jobs.get(PATIENCE_S).get("x") / 0})
        with client.transaction(jobs) as refused:
            delivery = jobs.delivery(PATIENCE_S)
            assert (delivery.notification.get("x"), delivery.attempt) == (2, 2)
            refused.publish({"y": 2})
            refused.publish({"y": 3, "producer": "desk", "id": "twice"})
            refused.publish({"y": 3, "producer": "desk", "id": "twice"})
            with pytest.raises(TransactionRefused, match=r"notification 2 of .* was published before"):
                refused.commit()
        with client.transaction(jobs) as last:
            assert jobs.get(PATIENCE_S).get("x") == 2
            last.publish({"y": 4})
        with pytest.raises(TransactionRefused, match="is committed"):
            last.publish({"y": 5})
        with pytest.raises(ValueRefused, match="durable"):
            client.transaction(results)
        assert [results.get(PATIENCE_S).get("y") for _ in range(2)] == [1, 4]
        assert client.status()["durables"]["d"]["in_flight"] == 0


def test_a_timeout_loses_nothing(brokers: Any) -> None:
    with sync.connect(brokers.start().url) as client, client.subscribe("exists x") as all_of_it:
        with pytest.raises(TimeoutError, match="no notification within 0 s"):
            all_of_it.get(0)
        for x in range(3):
            client.publish({"x": x})
        assert [all_of_it.get(PATIENCE_S).get("x") for _ in range(3)] == [0, 1, 2]


def test_iterating_ends_when_the_subscription_is_closed(brokers: Any) -> None:
    with sync.connect(brokers.start().url) as client:
        subscription = client.subscribe("exists x")
        client.publish({"x": 1})
        seen: list[Any] = []

        def read() -> None:
            for notification in subscription:
                seen.append(notification.get("x"))
                closing.start()

        closing = threading.Thread(target=subscription.close)
        reading = threading.Thread(target=read)
        reading.start()
        reading.join(PATIENCE_S)
        closing.join(PATIENCE_S)
        assert seen == [1]
        with pytest.raises(SubscriptionEnded):
            subscription.get(PATIENCE_S)


def test_errors_are_exceptions_with_the_broker_s_reason(brokers: Any) -> None:
    with sync.connect(brokers.start().url) as client:
        with pytest.raises(BrokerRefused, match="has no log"):
            client.subscribe("x = 1", durable="d")
        with pytest.raises(BrokerRefused, match="no link to 'nobody'"):
            client.unlink("nobody")
    with pytest.raises(ConnectionEnded, match="not open"):
        client.publish({"x": 1})
    with pytest.raises(ConnectionEnded, match="cannot be reached"):
        sync.connect("127.0.0.1:1", patience=0).open()


def test_whether_anyone_listens_is_told(brokers: Any, until: Any) -> None:
    url = brokers.start(advertisements="simple").url
    with sync.connect(url) as producer, sync.connect(url) as consumer:
        heard: list[bool] = []
        id = producer.listening("x > 1", heard.append)
        with consumer.subscribe("x = 2"):
            assert producer.anyone_listens("x > 1")
            until(lambda: heard == [False, True])
        producer.unlisten(id)
        assert producer.unadvertise(producer.advertise("x > 1")) is None


# -- patterns ------------------------------------------------------------------------------------------------


def on_the_bus(asked: Any, events: list[Notification], lateness_us: int) -> list[str]:
    with Bus(order="ordered", lateness_us=lateness_us) as bus:
        found = bus.detect(asked)
        for event in events:
            bus.publish(event)
    return [repr(each) for each in found]


def over_the_network(brokers: Any, asked: Any, events: list[Notification], lateness_us: int) -> list[str]:
    server = brokers.start()
    try:
        with sync.connect(server.url) as client, client.detect(asked, lateness=lateness_us) as found:
            for publishing in [client.publishing(event) for event in events]:
                publishing.result(PATIENCE_S)  # what a client hears of its own stands before the answer
            found.finish()
            assert found.late == 0
            return [repr(each) for each in found]
    finally:
        brokers.stop(server)


@settings(
    max_examples=settings.default.max_examples // 4,  # type: ignore[attr-defined]
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(patterns(steps=3, depth=2), streams(max_size=7), st.randoms(use_true_random=False))
def test_composites_are_those_of_the_bus(
    brokers: Any, pattern: Pattern, events: list[Notification], rng: Random
) -> None:
    lateness = max((each.time.microseconds for each in events if each.time is not None), default=0)
    rng.shuffle(events)
    try:
        expected = on_the_bus(pattern, events, lateness)
    except FairleadError as error:
        with pytest.raises(type(error)):
            over_the_network(brokers, pattern, events, lateness)
    else:
        assert over_the_network(brokers, pattern, events, lateness) == expected


@pytest.mark.parametrize("choice", fair.Choice)
@pytest.mark.parametrize("text", ["A.x < B.y", "A.x < B.y and C", "pair: A[1].x < A[2].x or B.y > 1"])
def test_relations_of_fair_subscriptions_are_those_of_the_bus(
    brokers: Any, text: str, choice: fair.Choice
) -> None:
    rng = Random(text)
    events = [
        Notification.of(
            {"type": rng.choice("ABC"), "x": rng.randrange(4), "y": rng.randrange(4)}
            | {"id": str(at), "producer": "p", "time": Instant(at)}
        )
        for at in range(30)
    ]
    subscription = fair.parse(text)
    with Bus(order="ordered", lateness_us=30) as bus:
        found = bus.detect(subscription, choice=choice)
        for event in events:
            bus.publish(event)
    expected = list(found)
    rng.shuffle(events)
    with (
        sync.connect(brokers.start().url) as client,
        client.detect(subscription, choice=choice, lateness=30) as network,
    ):
        for event in events:
            client.publish(event)
        network.finish()
        assert list(network) == expected
        assert expected


def occurrence(name: str, time: int) -> dict[str, Any]:
    return {"type": name, "id": f"{name}{time}", "producer": "p", "time": Instant(time)}


def test_patterns_are_found_as_time_passes_with_events_or_by_hand(brokers: Any) -> None:
    with (
        sync.connect(brokers.start().url) as client,
        client.detect("A followed by B", lateness=10) as found,
    ):
        assert str(found.pattern) == "A followed by B"
        client.publish(occurrence("A", 1))
        client.publish(occurrence("B", 5))
        with pytest.raises(TimeoutError):
            found.get(0)
        client.publish(occurrence("A", 16))
        assert found.get(PATIENCE_S).time == Instant(5)
        client.publish(occurrence("B", 20))
        found.advance(Instant(21))
        assert found.get(PATIENCE_S).time == Instant(20)
        client.publish(occurrence("A", 2))
        found.advance(Instant(22))
        assert (found.late, found.dropped) == (1, 0)
        found.finish()
        with pytest.raises(SubscriptionEnded):
            found.get(PATIENCE_S)


def test_where_there_is_a_clock_what_is_absent_is_found_without_another_event(brokers: Any) -> None:
    now = [Instant(0)]
    with (
        sync.connect(brokers.start().url, clock=lambda: now[0]) as client,
        client.detect("A then no B within 1 second") as absent,
    ):
        client.publish({"type": "A", "id": "1"})
        now[0] = Instant(2_000_000)
        assert absent.get(PATIENCE_S).get("A.id") == "1"


@pytest.mark.parametrize("text", ["A.x < B.x", "pair: A.x < B.x"])
def test_where_there_is_a_clock_a_relation_is_found_without_another_event(brokers: Any, text: str) -> None:
    now = [Instant(0)]
    with (
        sync.connect(brokers.start().url, clock=lambda: now[0]) as client,
        client.detect(fair.parse(text)) as related,
    ):
        for x, type in enumerate("AB"):
            client.publish({"type": type, "id": type, "x": x})
        now[0] = Instant(2_000_000)
        assert related.get(PATIENCE_S).get("number") == 1


def test_composites_can_be_published_for_all_to_see(brokers: Any) -> None:
    url = brokers.start().url
    with (
        sync.connect(url) as detecting,
        sync.connect(url) as watching,
        watching.subscribe('type = "pair"') as pairs,
        detecting.detect("pair: A followed by B", publish=True) as found,
    ):
        for event in (occurrence("A", 1), occurrence("B", 2), occurrence("A", 3)):
            watching.publish(event)
        assert found.get(PATIENCE_S) == pairs.get(PATIENCE_S)


def test_a_client_warns_that_fair_subscriptions_are_not_fair_over_several_brokers(
    brokers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with sync.connect(brokers.start().url) as client:
        with client.detect("A followed by B"):
            assert "fair" not in caplog.text
        with client.detect(fair.parse("A.k = B.k")):
            [said] = [each for each in caplog.records if "fair subscription" in each.getMessage()]
    assert said.levelno == logging.WARNING
    assert "A[1].k = B[1].k" in said.getMessage()
    assert "late at one client need not be at another" in said.getMessage()


def test_a_detection_gets_its_state_back_from_the_past(brokers: Any, tmp_path: Path) -> None:
    with sync.connect(brokers.start("b", tmp_path).url) as client:
        client.publish(occurrence("A", 1))
        with client.detect("A followed by B", since=0) as found:
            client.publish(occurrence("B", 2))
            found.advance(Instant(3))
            assert found.get(PATIENCE_S).get("A.id") == "A1"


def test_what_is_no_pattern_is_refused(brokers: Any) -> None:
    with sync.connect(brokers.start().url) as client:
        with pytest.raises(SubscriptionRefused, match="no pattern"):
            client.detect(7)  # type: ignore[arg-type]
        with pytest.raises(SubscriptionRefused, match="states its selection itself"):
            client.detect("A followed by B", choice=fair.Choice.FIRST_RECEIVED)
        with client.detect("A followed by B") as found, pytest.raises(ValueError, match="to when"):
            found.advance()
