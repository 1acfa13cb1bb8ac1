"""A message goes through a notification as it was, and a topic filter asks for what the protocol says."""

from __future__ import annotations

from dataclasses import replace

import mqtt5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import FairleadError
from fairlead.filters.language import parse, render
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.mqtt.mapping import Mapping, Message

texts = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=12)
topics = texts.map(lambda text: text.replace("+", "").replace("#", "")).filter(bool)
names = texts | st.sampled_from(["a", "b", "a.b", "$set", ""])
payloads = (
    st.binary(max_size=20) | texts.map(str.encode) | st.sampled_from([b"21.5", b'{"x": {"$ref": 1}}', b"[1"])
)
messages = st.builds(
    Message,
    topics,
    payloads,
    content_type=st.none() | texts,
    response_topic=st.none() | topics,
    correlation_data=st.none() | st.binary(max_size=9),
    user_properties=st.lists(st.tuples(names, texts), max_size=4).map(tuple),
    expires=st.none() | st.integers(1, 1_000).map(lambda seconds: seconds * 1_000_000),
    retain=st.booleans(),
    qos=st.sampled_from([1, 2]),
)


@given(messages)
def test_a_message_goes_through_a_notification_as_it_was(message: Message) -> None:
    packet = mqtt5.PublishPacket(
        *(message.topic, message.payload),
        qos=mqtt5.QoS(message.qos),
        retain=message.retain,
        packet_id=1,
        content_type=message.content_type,
        response_topic=message.response_topic,
        correlation_data=message.correlation_data,
        user_properties=[*message.user_properties],
        message_expiry_interval=None if message.expires is None else message.expires // 1_000_000,
    )
    notification = Mapping().notification(packet, message.topic, producer="p", id="1", now=0)
    assert (notification.producer, notification.id) == ("p", "1")
    assert Mapping().message(unpack(pack(notification))) == message


def test_a_payload_of_json_is_data_and_text_is_text() -> None:
    def given(payload: bytes) -> Notification:
        return Mapping().notification(mqtt5.PublishPacket("t", payload), "t", producer="p", id="1", now=0)

    for filter, payload in {
        "data.celsius > 30": b'{"celsius": 31}',
        "data > 30": b"31.5",
        "data = true": b"true",
        'payload = "on" and absent data': b"on",
        'payload = "null" and absent data': b"null",
        'payload = "{" and absent data': b"{",
        'payload = ""': b"",
        "exists payload and absent data": b"\xff",
    }.items():
        assert parse(filter).matches(given(payload)), filter


@pytest.mark.parametrize(
    ("topic_filter", "content", "expected", "group"),
    [
        ("a/+/#", "", 'topic matches "a/*/**"', ""),
        ("$share/g/a/#", "", 'topic matches "a/**"', "g/a/#"),
        ("$share/g/a", "x > 1", 'topic = "a" and x > 1', "g/a?x > 1"),
        ("$filter/price%20%3E%201%20or%20x%3D%22%2F%22", "", 'price > 1 or x = "/"', ""),
        ("$filter/x%20%3E%201/a/+", "", 'x > 1 and topic matches "a/*"', ""),
        ("fairlead/quote", "", 'topic = "fairlead/quote"', ""),
        ("fairlead/quote/+", "", 'topic matches "fairlead/quote/*" or absent topic and type = "quote"', ""),
        ("fairlead/#", "", 'topic matches "fairlead/**" or absent topic', ""),
    ],
)
def test_a_topic_filter_asks_for(topic_filter: str, content: str, expected: str, group: str) -> None:
    wanted = Mapping().wanted(topic_filter, content)
    assert (render(wanted.filter), wanted.group) == (render(parse(expected)), group)


@pytest.mark.parametrize(
    "wrong", ["", "a/#/b", "a+", "$share/g", "$share/+/a", "$filter/", "$filter/x%20%3E", "$filter/%FF"]
)
def test_what_is_no_topic_filter_is_refused(wrong: str) -> None:
    with pytest.raises(FairleadError):
        Mapping().wanted(wrong)


def test_a_message_says_how_long_it_is_still_good() -> None:
    message = Message("t", b"", expires=10_000_000)
    assert [message.seconds_left(now) for now in (0, 9_000_001, 9_999_999, 10_000_000, 99_000_000)] == [
        10,
        1,
        1,
        0,
        0,
    ]
    assert replace(message, expires=None).seconds_left(0) is None
