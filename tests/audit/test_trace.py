"""Every event is written and read back; what is no event is rejected, with the reason and the line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.audit import (
    Advertised,
    Ended,
    Event,
    Faulted,
    History,
    Language,
    Notified,
    Published,
    Ready,
    ScopeChanged,
    Subscribed,
    TopologyChanged,
    TraceRefused,
    Unadvertised,
    Unsubscribed,
    format_event,
    read,
)
from fairlead.errors import ValueRefused
from fairlead.filters.language import parse
from fairlead.filters.schema import Schema
from fairlead.ingest import Rejection
from fairlead.model import Notification
from fairlead.model.order import Identity, OrderKey
from fairlead.testing import filters, notifications

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
keys = st.builds(OrderKey, st.integers(-9, 9), names, st.none() | st.integers(-9, 9), names)
bounds = st.none() | keys
changes = st.tuples(names, st.dictionaries(names, st.integers() | names, max_size=2))


@st.composite
def published(draw: st.DrawFn) -> Published:
    drawn = draw(notifications())
    notification = Notification(
        drawn.attributes, id=draw(names), producer=draw(names), document=drawn.document
    )
    return Published(notification, OrderKey.of(notification, draw(st.integers(-9, 9))))


events: st.SearchStrategy[Event] = st.one_of(
    published(),
    st.builds(Subscribed, names, names, filters(), bounds, bounds, st.booleans()),
    st.builds(Advertised, names, names, filters(), bounds, bounds, st.booleans()),
    st.builds(Unsubscribed, names, names, bounds),
    st.builds(Unadvertised, names, names, bounds),
    st.builds(Ready, names, names, st.booleans()),
    st.builds(Notified, names, st.builds(Identity, names, names), st.lists(names, max_size=2).map(tuple)),
    changes.map(lambda each: TopologyChanged(*each)),
    changes.map(lambda each: ScopeChanged(*each)),
    changes.map(lambda each: Faulted(*each)),
    st.just(Ended()),
)


@given(st.lists(events, max_size=4))
def test_reading_what_was_written_gives_the_events(trace: list[Event]) -> None:
    lines = [f"{format_event(event)}\n".encode() for event in trace]
    assert [event for _, event in read(lines)] == trace


def test_every_line_begins_with_the_version_and_the_kind() -> None:
    line = format_event(Subscribed("ada", "s1", parse("price > 10"), since=OrderKey(5, "p", None, "7")))
    assert line == (
        '{"v":1,"event":"sub","component":"ada","subscription":"s1","filter":"price > 10",'
        '"from":[5,"p",null,"7"]}'
    )


def rejected(line: str) -> str:
    [(number, found)] = list(read([line], "trace.jsonl"))
    assert isinstance(found, Rejection)
    assert (found.source, found.line, number) == ("trace.jsonl", 1, 1)
    return found.reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "not JSON"),
        ("[]", "is a JSON object"),
        ('{"event": "end"}', "no 'v'"),
        ('{"v": 4, "event": "end"}', "version 4: versions 1 to 3 can be read"),
        ('{"v": 1, "event": "begin"}', "unknown kind: 'begin'"),
        ('{"v": 1, "event": "end", "x": 1}', "'x': not part of 'end'"),
        ('{"v": 1, "event": "notify", "component": "ada", "producer": "p"}', "no 'id'"),
        ('{"v": 1, "event": "notify", "component": 1, "producer": "p", "id": "1"}', "of 'component': 1"),
        ('{"v": 1, "event": "pub", "order": true, "notification": {}}', "of 'order'"),
        ('{"v": 1, "event": "pub", "order": 1, "notification": {"attributes": {}}}', "no identity"),
        ('{"v": 1, "event": "sub", "component": "a", "subscription": "s", "filter": "x >"}', "column"),
        (
            '{"v": 1, "event": "unsub", "component": "a", "subscription": "s", "until": [1, "p", "x", "i"]}',
            "of 'until'",
        ),
    ],
)
def test_what_is_no_event_is_rejected_with_the_reason(line: str, reason: str) -> None:
    assert reason in rejected(line)


def test_blank_lines_are_skipped_and_good_lines_survive_bad_ones() -> None:
    lines = ["\n", "{}\n", '{"v":1,"event":"end"}\n']
    found = list(read(lines))
    assert [number for number, _ in found] == [2, 3]
    assert found[1][1] == Ended()


def test_what_has_no_text_form_is_refused_when_it_is_written() -> None:
    notification = Notification.of({"id": "1", "thing": object()})
    with pytest.raises(ValueRefused, match="object"):
        format_event(Published(notification, OrderKey.of(notification)))


@pytest.mark.parametrize("schema", [None, str(Schema.parse("type Quote\nprice: int\n"))])
def test_the_language_of_a_trace_is_read_as_it_was_written(schema: str | None) -> None:
    language = Language(schema, {"near": "maps:Near"})
    filter = parse("price > 10", None if schema is None else Schema.parse(schema))
    events = [language, Subscribed("a", "s", filter)]
    assert [event for _, event in read(map(format_event, events))] == events


def test_a_schema_that_was_changed_is_no_language() -> None:
    line = format_event(Language("price: int\n", {})).replace("int", "string")
    assert "fingerprint" in rejected(line)


def pub(id: str, **fields: Any) -> Published:
    notification = Notification.of({"id": id, **fields})
    return Published(notification, OrderKey.of(notification))


@pytest.mark.parametrize(
    ("trace", "reason"),
    [
        ([Ended(), pub("1")], "after its end"),
        (
            [Subscribed("a", "s", parse("x = 1")), Subscribed("a", "s", parse("x = 2"))],
            "has another filter already",
        ),
    ],
)
def test_a_trace_that_no_run_can_have_is_refused(trace: list[Event], reason: str) -> None:
    with pytest.raises(TraceRefused, match=reason):
        History.of(trace)


def test_subscribing_twice_and_unsubscribing_once_leaves_nothing() -> None:
    f = parse("x = 1")
    history = History.of([Subscribed("a", "s", f), Subscribed("a", "s", f), Unsubscribed("a", "s")])
    [period] = history.subscriptions
    assert not period.holds(3, OrderKey(0))
    assert period.holds(2, OrderKey(0))


def test_events_are_plain_json() -> None:
    line = format_event(pub("7", producer="p", price=12, time=5))
    assert json.loads(line)["notification"]["attributes"]["price"] == 12
