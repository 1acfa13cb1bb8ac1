"""`POST /events`: what is answered with success is in the log, what is not has no effect."""

from __future__ import annotations

import contextlib
import http.client
import json
from typing import Any

import pytest

from fairlead.console import HttpLimits
from fairlead.console.desk import Desk
from fairlead.errors import LogFull
from fairlead.log.writer import ROOM_HINT
from fairlead.network import wire
from fairlead.network.settings import Limits

STRUCTURED = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"


def event(id: str, **others: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": id, "source": "/desk", "type": "quote", **others}


def test_a_structured_event_is_delivered_as_the_same_event(broker: Any) -> None:
    given = event(
        "s1",
        time="2026-05-01T10:00:00Z",
        subject="IBM",
        sequence="7",
        urgent=True,
        datacontenttype="application/json",
        data={"price": 101.5, "tags": ["a", "b"], "nested": {"x": [{"y": 1}]}, "none": None},
    )
    with broker.events('type = "quote" and data.price > 100 and id = "s1"') as events:
        answer = broker.publish(given, STRUCTURED)
        assert (answer.status, answer.json) == (
            202,
            {
                "accepted": 1,
                "duplicates": 0,
                "events": [{"id": "s1", "source": "/desk", "duplicate": False}],
            },
        )
        assert events.event() == given


def test_an_event_in_headers_is_the_event_that_the_structured_form_says(broker: Any) -> None:
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "b1",
        "ce-source": "/desk",
        "ce-type": "quote",
        "ce-subject": "%C3%A9t%C3%A9",
        "ce-note": '"a \\"b\\""',
        "Content-Type": "application/json",
    }
    with broker.events('id = "b1"') as events:
        assert broker.ask("POST", "/events", '{"price": 3}', headers).status == 202
        assert events.event() == event(
            "b1", subject="été", note='a "b"', datacontenttype="application/json", data={"price": 3}
        )


@pytest.mark.parametrize(
    ("id", "media", "body", "member"),
    [
        ("text", "text/plain; charset=latin-1", "é".encode("latin-1"), {"data": "é"}),
        ("xml", "application/xml", b"<a/>", {"data": "<a/>"}),
        ("bytes", "image/png", b"\x89PNG", {"data_base64": "iVBORw=="}),
        ("vendor", "application/vnd.acme+json", b"[1, 2]", {"data": [1, 2]}),
        ("empty", "image/png", b"", {}),
    ],
)
def test_the_body_is_the_data_in_the_form_that_its_type_has(
    broker: Any, id: str, media: str, body: bytes, member: dict[str, Any]
) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": f"m-{id}", "ce-source": "/desk", "ce-type": "t"}
    with broker.events(f'id = "m-{id}"') as events:
        assert broker.ask("POST", "/events", body, {**headers, "Content-Type": media}).status == 202
        assert events.event() == event(f"m-{id}", type="t", datacontenttype=media, **member)


def test_a_batch_is_published_in_its_order_and_repetitions_in_it_are_told(broker: Any) -> None:
    batch = [event("batch-1"), event("batch-2"), event("batch-1")]
    with broker.events('id prefix "batch-"') as events:
        answer = broker.publish(batch, BATCH)
        assert (answer.status, answer.json["accepted"], answer.json["duplicates"]) == (202, 2, 1)
        assert [each["duplicate"] for each in answer.json["events"]] == [False, False, True]
        assert [events.event()["id"] for _ in range(2)] == ["batch-1", "batch-2"]


def test_a_plain_record_goes_out_as_an_event_with_its_attributes_as_data(broker: Any) -> None:
    with broker.events('symbol = "SUN"') as events:
        answer = broker.publish({"symbol": "SUN", "price": 3, "time": "2026-05-01T10:00:00Z"})
        [told] = answer.json["events"]
        assert events.event() == {
            "specversion": "1.0",
            "id": told["id"],
            "source": "b/http",
            "type": "fairlead.notification",
            "time": "2026-05-01T10:00:00Z",
            "data": {"symbol": "SUN", "price": 3, "time": "2026-05-01T10:00:00Z"},
        }


def test_records_come_one_or_many_at_a_time_and_none_at_all_is_nothing(broker: Any) -> None:
    records = [{"id": f"reading{n}", "producer": "p", "type": "reading"} for n in range(2)]
    with broker.events('producer = "p"') as events:
        assert broker.publish(records).json["accepted"] == 2
        assert [(each["id"], each["type"]) for each in (events.event(), events.event())] == [
            ("reading0", "reading"),
            ("reading1", "reading"),
        ]
    assert (broker.publish([]).status, broker.publish([]).json["events"]) == (202, [])


def test_what_was_published_before_is_told_and_not_delivered_again(broker: Any) -> None:
    with broker.events('id prefix "again"') as events:
        assert broker.publish(event("again"), STRUCTURED).status == 202
        answer = broker.publish(event("again"), STRUCTURED)
        assert (answer.status, answer.json["duplicates"]) == (200, 1)
        broker.publish(event("again-not"), STRUCTURED)
        assert [events.event()["id"] for _ in range(2)] == ["again", "again-not"]


@pytest.mark.parametrize(
    ("content", "media", "status", "detail"),
    [
        ('{"specversion": "1.0"', STRUCTURED, 400, "not JSON"),
        ("[]", STRUCTURED, 400, "is a JSON object"),
        (json.dumps({**event("x"), "specversion": "0.3"}), STRUCTURED, 400, "specversion 1.0, not '0.3'"),
        ('{"specversion": "1.0", "id": "x", "source": "s"}', STRUCTURED, 400, "has an attribute 'type'"),
        (json.dumps(event("")), STRUCTURED, 400, "'id' of a CloudEvent"),
        (json.dumps(event("x", time="yesterday")), STRUCTURED, 400, "not an instant: 'yesterday'; write it"),
        ("{}", BATCH, 400, "a batch is a JSON array"),
        ("3", "application/json", 400, "is a JSON object, not"),
        ('{"a": "\\ud800"}', "application/json", 400, "surrogate"),
        ("a=1", "application/x-www-form-urlencoded", 415, "not as application/x-www-form-urlencoded"),
        ("{}", "", 415, "events come as"),
        (b'{"a": "\xff"}', "application/json", 400, "not UTF-8"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(
    broker: Any, content: str, media: str, status: int, detail: str
) -> None:
    before = broker.ask("GET", "/status").json["counters"]["published"]
    answer = broker.ask("POST", "/events", content, {"Content-Type": media})
    assert (answer.status, answer.media) == (status, "application/problem+json")
    assert detail in answer.json["detail"]
    assert answer.json["status"] == status
    assert broker.ask("GET", "/status").json["counters"]["published"] == before


def test_one_bad_event_of_a_batch_keeps_all_of_it_out_and_is_named(broker: Any) -> None:
    answer = broker.publish([event("whole-1"), {"specversion": "1.0"}], BATCH)
    assert (answer.status, answer.json["index"]) == (400, 1)
    assert broker.publish(event("whole-1"), STRUCTURED).status == 202


@pytest.mark.parametrize(
    ("name", "value", "detail"),
    [("ce-specversion", "0.3", "specversion 1.0"), ("ce-subject", "%FF", "percent-encoded")],
)
def test_headers_that_say_no_event_are_refused(broker: Any, name: str, value: str, detail: str) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": "h", "ce-source": "/s", "ce-type": "t"} | {name: value}
    answer = broker.ask("POST", "/events", b"", headers)
    assert answer.status == 400
    assert detail in answer.json["detail"]


def test_too_large_a_request_batch_or_event_is_refused(broker: Any) -> None:
    def chunks() -> Any:
        yield from [b'{"a": "', b"x" * (1 << 20), b'"}']

    media = {"Content-Type": "application/json"}
    assert broker.ask("POST", "/events", b"", {**media, "Content-Length": str(1 << 30)}).status == 413
    assert broker.ask("POST", "/events", chunks(), media).status == 413
    assert "at most 1,000" in broker.publish([{}] * 1_001).json["detail"]
    limit = broker.server.node.limits.frame_bytes
    body = json.dumps([{"a": 1}, {"a": "x" * (limit - 20)}], separators=(",", ":"))
    answer = broker.ask("POST", "/events", body, media)
    assert (answer.status, answer.json["index"]) == (413, 1)


def test_a_full_disk_is_told_and_nothing_is_taken(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> range:
        raise LogFull("there is no room for the log", hint=ROOM_HINT)

    with monkeypatch.context() as patch:
        patch.setattr(broker.server.node.ledger, "publications_of", full)
        answer = broker.publish(event("full"), STRUCTURED)
        assert (answer.status, answer.json["title"]) == (507, "Insufficient Storage")
        assert "no room" in answer.json["detail"]
    answer = broker.publish(event("full"), STRUCTURED)
    assert (answer.status, answer.json["accepted"]) == (202, 1)


def test_all_requests_together_hold_no_more_than_allowed(started: Any) -> None:

    running = started(HttpLimits(receiving_bytes=40), data=None)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", running.port)) as slow:
        slow.putrequest("POST", "/events")
        slow.putheader("Content-Type", "application/json")
        slow.putheader("Content-Length", "60")
        slow.endheaders(b'{"a": "xxxxxxxxxxxxxxxxxx')
        running.until(lambda: running.serving.gateway._receiving == 25)
        assert running.publish({"a": "x" * 20}).status == 503
        assert running.publish({"a": 1}).status == 202
    running.until(lambda: running.serving.gateway._receiving == 0)  # who has gone holds nothing
    assert running.publish({"a": "x" * 20}).status == 202


def test_publishing_waits_while_the_broker_lets_nobody_publish(started: Any) -> None:

    running = started(HttpLimits(patience_s=0.05), data=None)
    assert running.publish({"a": 1}).status == 202
    [agent] = running.serving.gateway._agents.values()
    running.do(agent.pause)
    answer = running.publish({"a": 2})
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    running.do(agent.resume)
    assert running.publish({"a": 2}).status == 202


def test_who_publishes_something_else_does_not_wait_for_a_slow_consumer(started: Any) -> None:
    running = started(HttpLimits(patience_s=0.05), data=None, limits=Limits(buffer_bytes=1 << 12, queue=1))
    node = running.server.node
    frames = [(wire.CONTROL, wire.control(wire.Subscribe(1, "s", "slow = 1"))[5:])]

    def come() -> Desk:
        desk = Desk(running.server, "block")
        node.receive(desk.session, frames, 0)
        return desk

    slow = running.do(come)
    while running.publish({"slow": 1, "text": "x" * 1_000}).status == 202:
        pass
    assert running.do(lambda: slow.session in node.backpressure.blocking)
    before = running.do(lambda: len(node.clients))
    for _ in range(3):
        assert running.publish({"slow": 0}).status == 202
        assert running.publish({"slow": 1}).status == 503
    assert running.do(lambda: len(node.clients)) == before
    running.do(slow.leave)
    assert running.publish({"slow": 1}).status == 202


def test_the_next_request_gets_a_new_session_when_the_broker_has_ended_the_last(broker: Any) -> None:
    broker.publish({"a": 1})
    for agent in list(broker.serving.gateway._agents.values()):
        broker.do(lambda agent=agent: agent.session.end("no reason"))
    assert broker.publish({"a": 1}).status == 202


def test_where_publishers_have_to_advertise_http_has(started: Any) -> None:
    running = started(advertisements="simple")
    with running.events("a = 1") as events:
        assert running.publish({"a": 1}).status == 202
        assert events.event()["data"] == {"a": 1}
