"""Clients that are not ours, of both versions: what one publishes, the others get."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import aiomqtt
import pytest
from paho.mqtt.properties import Properties

import fairlead as fl

VERSIONS = (4, 5)
PATIENCE_S = 30.0
versions = pytest.mark.parametrize("version", VERSIONS)


@versions
def test_messages_arrive_at_the_qos_of_both_sides(client: Callable[..., Any], version: int) -> None:
    sub, pub = client(f"q-sub-{version}", version), client(f"q-pub-{version}", version)
    for qos in (0, 1, 2):
        assert sub.subscribe(f"q{version}/{qos}/#", qos) == [qos]
    for asked in (0, 1, 2):
        for qos in (0, 1, 2):
            pub.publish(f"q{version}/{asked}/{qos}", f"{qos}", qos)
            message = sub.get()
            assert (message.topic, message.payload) == (f"q{version}/{asked}/{qos}", b"%d" % qos)
            assert message.qos == min(asked, qos)
            assert not message.retain


@versions
def test_topic_filters_match_what_the_protocol_says(client: Callable[..., Any], version: int) -> None:
    topics = ["", "/", "/x", "x/", "x", "x/y", "x/y/z", "$x", "$x/y", "x/*"]
    topics = [each for each in topics if each]
    cases = {
        "#": ["/", "/x", "x/", "x", "x/y", "x/y/z", "x/*"],
        "+": ["x"],
        "+/+": ["/", "/x", "x/", "x/y", "x/*"],
        "x/#": ["x/", "x", "x/y", "x/y/z", "x/*"],
        "x/*": ["x/*"],
        "$x/#": ["$x", "$x/y"],
        "/+": ["/", "/x"],
    }
    pub = client(f"t-pub-{version}", version)
    for number, (asked, expected) in enumerate(cases.items()):
        sub = client(f"t-sub-{version}-{number}", version)
        assert sub.subscribe(asked) == [1]
        for topic in topics:
            pub.publish(topic, f"t{version}-{number}")
        pub.publish(expected[-1], "end")
        got = []
        while (message := sub.get()).payload != b"end":
            if message.payload == f"t{version}-{number}".encode():
                got.append(message.topic)
        assert got == [each for each in topics if each in expected]
        sub.close()


def test_properties_go_through_and_are_attributes(client: Callable[..., Any], broker: Any) -> None:
    sub, pub = client("p-sub"), client("p-pub")
    sub.subscribe("p/#", number=7)
    with (
        fl.sync.connect(broker.url) as ours,
        ours.subscribe('topic = "p/1" and user.unit contains "C" and data > 30') as native,
    ):
        pairs = [("unit", "C"), ("a.b", "1"), ("unit", "D")]
        pub.publish(
            *("p/1", "31.5"),
            UserProperty=pairs,
            ContentType="application/json",
            ResponseTopic="p/answers",
            CorrelationData=b"\xff\0",
            MessageExpiryInterval=1_000,
            PayloadFormatIndicator=1,
        )
        message = sub.get()
        got = message.properties
        assert (got.UserProperty, got.ContentType, got.ResponseTopic) == (
            pairs,
            "application/json",
            "p/answers",
        )
        assert (got.CorrelationData, got.PayloadFormatIndicator) == (b"\xff\0", 1)
        assert got.SubscriptionIdentifier == [7]
        assert 990 <= got.MessageExpiryInterval <= 1_000
        notification = native.get(PATIENCE_S)
        assert (notification.get("payload"), notification.producer) == ("31.5", "p-pub")


def test_a_notification_of_any_client_is_json_on_a_topic_of_its_attributes(
    client: Callable[..., Any], broker: Any
) -> None:
    sub = client("n-sub", 4)
    sub.subscribe("fairlead/quote/+")
    sub.subscribe("n/on-topic")
    with fl.sync.connect(broker.url, name="nyse") as ours:
        ours.publish({"type": "trade", "price": 1, "id": "0"})
        ours.publish({"type": "quote", "price": 2, "id": "1"})
        ours.publish({"topic": "n/on-topic", "price": 3, "id": "2"})
        assert sub.got(2) == [
            ("fairlead/quote/nyse", b'{"type":"quote","price":2,"id":"1"}'),
            ("n/on-topic", b'{"topic":"n/on-topic","price":3,"id":"2"}'),
        ]
        sub.subscribe("fairlead/+/bank")
        ours.publish({"type": "trade", "price": 4})
        ours.publish({"type": "trade", "price": 5, "producer": "bank"})
        assert sub.got(1)[0][0] == "fairlead/trade/bank"


@versions
def test_content_filters_are_asked_of_what_devices_send(client: Callable[..., Any], version: int) -> None:
    sub, pub = client(f"c-sub-{version}", version), client(f"c-pub-{version}", version)
    topic = f"c{version}"
    if version == 5:
        assert sub.subscribe(f"{topic}/#", filter="data.celsius > 30 and data.celsius < 40") == [1]
        assert sub.subscribe(f"{topic}/bad", filter="data.celsius >") == [0x8F]
    assert sub.subscribe(f"$filter/data.celsius%20%3E%20{40}/{topic}/#") == [1]
    assert sub.subscribe("$filter/no%20filter%20at")[0] >= 0x80
    for celsius in (20, 35, 45):
        pub.publish(f"{topic}/a", f'{{"celsius": {celsius}}}')
    pub.publish(f"{topic}/a", "no JSON")
    pub.publish(f"{topic}/b", '{"celsius": 100}')
    expected = [45, 100] if version == 4 else [35, 45, 100]
    payloads = [b'{"celsius": %d}' % each for each in expected]
    assert [each for _, each in sub.got(len(expected))] == payloads
    assert sub.messages.empty()


@versions
def test_who_unsubscribes_gets_nothing_more(client: Callable[..., Any], version: int) -> None:
    sub, pub = client(f"u-sub-{version}", version), client(f"u-pub-{version}", version)
    sub.subscribe(f"u{version}/a")
    sub.subscribe(f"u{version}/b")
    sub.unsubscribe(f"u{version}/a")
    if version == 5:
        assert sub.unsubscribe(f"u{version}/a") == [17]
    pub.publish(f"u{version}/a")
    pub.publish(f"u{version}/b")
    assert sub.got(1) == [(f"u{version}/b", b"")]


def test_another_qos_takes_the_place_of_the_first(client: Callable[..., Any]) -> None:
    sub, pub = client("r-sub"), client("r-pub")
    assert sub.subscribe("r/+", 2) == [2]
    assert sub.subscribe("r/+", 1) == [1]
    pub.publish("r/1", "x", 2)
    pub.publish("r/2", "y", 2)
    assert [(each.topic, each.qos) for each in (sub.get(), sub.get())] == [("r/1", 1), ("r/2", 1)]


def test_no_local_and_retain_as_published_are_kept(client: Callable[..., Any]) -> None:
    one, other = client("l-one"), client("l-other")
    one.subscribe("l/#", noLocal=True, retainAsPublished=True)
    other.subscribe("l/#")
    one.publish("l/1", "mine")
    other.publish("l/2", "theirs", retain=True)
    message = one.get()
    assert (message.topic, message.retain) == ("l/2", True)
    assert [each.retain for each in (other.get(), other.get())] == [False, False]


@versions
def test_a_session_lasts_and_what_came_meanwhile_is_delivered(
    client: Callable[..., Any], version: int
) -> None:
    name = f"s-sub-{version}"
    lasting = {"clean": False} | ({"expiry": 1_000} if version == 5 else {})
    sub, pub = client(name, version, **lasting), client(f"s-pub-{version}", version)
    assert not sub.flags.session_present
    sub.subscribe(f"s{version}/#", 2)
    pub.publish(f"s{version}/1", "before", 2)
    assert sub.get().payload == b"before"
    sub.close()
    for qos in (1, 2):
        pub.publish(f"s{version}/{qos}", "meanwhile", qos)
    again = client(name, version, **lasting)
    assert again.flags.session_present
    assert again.got(2) == [(f"s{version}/1", b"meanwhile"), (f"s{version}/2", b"meanwhile")]
    again.close()
    pub.publish(f"s{version}/1", "for nobody")
    clean = client(name, version)
    assert not clean.flags.session_present
    pub.publish(f"s{version}/1", "for nobody")
    clean.subscribe(f"s{version}/#")
    pub.publish(f"s{version}/1", "after")
    assert clean.got(1) == [(f"s{version}/1", b"after")]


def test_a_session_without_subscriptions_lasts_and_one_that_is_over_does_not(
    client: Callable[..., Any], broker: Any
) -> None:
    client("e-1", expiry=1_000).close()
    again = client("e-1", clean=False, expiry=1_000)
    assert again.flags.session_present
    again.close()
    client("e-2", expiry=1).close()
    broker.until(lambda: "mqtt/e-2" not in broker.server.node.durables)
    assert not client("e-2", clean=False, expiry=1).flags.session_present


def test_a_client_id_is_one_connection_and_the_latest(client: Callable[..., Any]) -> None:
    first = client("o-1")
    first.client.reconnect_delay_set(1_000)
    second = client("o-1")
    assert first.disconnected.get(timeout=PATIENCE_S).value == 0x8E
    second.publish("o/1")
    first.client.loop_stop()


@versions
def test_a_will_is_published_when_the_connection_is_lost(client: Callable[..., Any], version: int) -> None:
    watch = client(f"w-watch-{version}", version)
    watch.subscribe(f"w{version}/#")
    will = {"topic": f"w{version}/will", "payload": "gone", "qos": 1}
    client(f"w-1-{version}", version, will=will).close()
    client(f"w-2-{version}", version, will=will | {"payload": "lost"}).cut()
    assert watch.got(1) == [(f"w{version}/will", b"lost")]
    taken = client(f"w-3-{version}", version, will=will | {"payload": "taken over"})
    taken.client.reconnect_delay_set(1_000)
    client(f"w-3-{version}", version)
    assert watch.got(1) == [(f"w{version}/will", b"taken over")]
    taken.client.loop_stop()


def test_the_receive_maximum_of_a_client_is_kept(client: Callable[..., Any], broker: Any) -> None:
    sub = client("m-sub", properties={"ReceiveMaximum": 2})
    sub.client.manual_ack_set(True)
    sub.subscribe("m/#", 1)
    pub = client("m-pub")
    for number in range(5):
        pub.publish(f"m/{number}")
    first, second = sub.get(), sub.get()
    session = broker.do(lambda: broker.serving.listener.sessions.get("mqtt/m-sub"))
    broker.until(lambda: len(session.flow._waiting) == 3)
    assert sub.messages.empty()
    sub.client.ack(first.mid, first.qos)
    assert sub.get().topic == "m/2"
    sub.client.ack(second.mid, second.qos)
    assert sub.get().topic == "m/3"


def test_a_message_that_has_expired_or_is_too_large_is_not_sent(
    client: Callable[..., Any], broker: Any
) -> None:
    lasting = {"clean": False, "expiry": 1_000, "properties": {"MaximumPacketSize": 200}}
    sub, pub = client("x-sub", **lasting), client("x-pub")
    sub.subscribe("x/#")
    sub.close()
    pub.publish("x/1", "short", MessageExpiryInterval=1)
    pub.publish("x/2", b"x" * 300)
    pub.publish("x/3", "last")
    long_ago = broker.do(broker.server.loop.time)
    broker.until(lambda: broker.server.loop.time() > long_ago + 1.1)
    again = client("x-sub", **lasting)
    assert again.got(1) == [("x/3", b"last")]


def test_who_shares_a_subscription_gets_a_part_and_all_of_them_the_whole(client: Callable[..., Any]) -> None:
    members, pub = [client(f"g-{number}") for number in range(2)], client("g-pub")
    for each in members:
        assert each.subscribe("$share/group/g/#") == [1]
    for number in range(20):
        pub.publish(f"g/{number}")
    got: list[str] = []
    counts = []
    for each in members:
        count = 10
        got += [topic for topic, _ in each.got(count)]
        counts.append(count)
    assert sorted(got) == sorted(f"g/{number}" for number in range(20))
    members[0].unsubscribe("$share/group/g/#")
    pub.publish("g/last")
    assert members[1].got(1) == [("g/last", b"")]


def test_a_client_that_is_silent_is_disconnected_and_one_that_pings_is_not(
    client: Callable[..., Any], broker: Any
) -> None:
    silent = client("k-silent", keepalive=1)
    silent.client.loop_stop()  # it says nothing more
    client("k-alive", keepalive=1)
    names = broker.server.node.clients
    broker.until(lambda: "mqtt/k-silent" not in names)
    assert "mqtt/k-alive" in names


def test_request_and_reply_work_as_the_protocol_has_them(client: Callable[..., Any]) -> None:
    asking, answering = client("a-1"), client("a-2")
    answering.subscribe("a/questions")
    asking.subscribe("a/answers/1")
    asking.publish("a/questions", "?", ResponseTopic="a/answers/1", CorrelationData=b"17")
    question = answering.get()
    properties: Properties = question.properties
    answering.publish(properties.ResponseTopic, "!", CorrelationData=properties.CorrelationData)
    answer = asking.get()
    assert (answer.payload, answer.properties.CorrelationData) == (b"!", b"17")


def test_aiomqtt_and_the_tools_of_mosquitto_are_clients(broker: Any) -> None:
    async def main() -> list[str]:
        async with aiomqtt.Client("127.0.0.1", broker.port, identifier="aio") as ours:
            await ours.subscribe("z/#", qos=2)
            for version in ("311", "5"):
                command = [found, "-h", "127.0.0.1", "-p", str(broker.port), "-V", version, "-q", "2"]
                subprocess.run(
                    [*command, "-t", f"z/{version}", "-m", "hello"], check=True, timeout=PATIENCE_S
                )
            got: list[str] = []
            async with asyncio.timeout(PATIENCE_S):
                async for message in ours.messages:
                    got.append(str(message.topic))
                    if len(got) == 2:
                        return got
        raise AssertionError

    found = shutil.which("mosquitto_pub")
    assert found is not None, "scripts/mosquitto installs it"
    assert asyncio.run(main()) == ["z/311", "z/5"]
