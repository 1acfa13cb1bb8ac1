"""A CloudEvent that was published goes out as the same; any other notification goes out as one that holds it."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.console.cloudevents import event_of, notifications_in, text_of
from fairlead.console.problems import Problem
from fairlead.ingest.records import notification_of
from fairlead.model import Notification
from fairlead.model.encoding import fields_from_json, format_json, parse_json
from fairlead.model.packed import pack, unpack
from fairlead.testing import notifications

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False, places=25)
    | TEXTS
)
NAMES = st.from_regex(r"[a-z0-9]{1,10}", fullmatch=True)
CONTENT = st.recursive(
    SCALARS,
    lambda inner: (
        st.sets(st.integers(), max_size=3).map(sorted)
        | st.lists(st.dictionaries(NAMES, inner, min_size=1, max_size=2), max_size=3)
        | st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=8,
)
TIMES = st.datetimes().map(lambda when: f"{when.isoformat()}Z")
RESERVED = {
    "specversion",
    "id",
    "source",
    "type",
    "time",
    "sequence",
    "data",
    "data_base64",
    "producer",
    "tuple",
}
EXTENSIONS = st.dictionaries(
    NAMES.filter(lambda name: name not in RESERVED), st.booleans() | st.integers() | TEXTS, max_size=3
)


@st.composite
def cloud_events(draw: st.DrawFn) -> dict[str, Any]:
    event: dict[str, Any] = {"specversion": "1.0", **{name: draw(TEXTS) for name in ("id", "source", "type")}}
    event |= draw(EXTENSIONS)
    if draw(st.booleans()):
        event["time"] = draw(TIMES)
    if draw(st.booleans()):
        event["sequence"] = str(draw(st.integers(0, 1 << 70)))
    match draw(st.sampled_from(["none", "data", "bytes"])):
        case "data":
            event["data"] = draw(CONTENT)
        case "bytes":
            event["data_base64"] = draw(st.sampled_from(["", "iVBORw==", "AAAA"]))
    return event


@given(cloud_events())
def test_a_cloud_event_goes_out_as_the_same_cloud_event(event: dict[str, Any]) -> None:
    came = notification_of(parse_json(format_json(event)))
    over_the_wire = unpack(pack(came))
    assert parse_json(text_of(over_the_wire)) == parse_json(format_json(event))
    assert notification_of(parse_json(text_of(over_the_wire))) == came


@given(notifications(), st.none() | TEXTS)
def test_any_other_notification_goes_out_with_all_its_attributes(
    made: Notification, kind: str | None
) -> None:
    record = dict(made.attributes) | {"id": "1", "producer": "p"} | ({} if kind is None else {"type": kind})
    notification = Notification.of(record)
    try:
        event = parse_json(text_of(notification))
    except ValueError:  # a Python object, which no broker takes
        return
    assert (event["specversion"], event["id"], event["source"]) == ("1.0", "1", "p")
    assert isinstance(event["type"], str)
    again = Notification.of(fields_from_json(event["data"]))
    assert again.attributes == notification.attributes


def test_an_event_goes_out_as_it_came_with_all_that_filters_read_otherwise() -> None:
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": "t",
        "time": "2026-05-01T12:00:00.500+02:00",
        "sequence": 7,
        "producer": "/s",
        "data": {"set": [2, 1, 1], "a.b": 2},
    }
    assert list(event_of(notification_of(event)).items()) == list(event.items())


def test_numbers_are_numbers_and_our_own_tags_stay_where_they_were_meant() -> None:
    exact = {"price": Decimal("0.10000000000000000000001"), "literal": {"$record": {"$decimal": "x"}}}
    event = event_of(
        Notification.of({"id": "1", "producer": "p", **fields_from_json(parse_json(format_json(exact)))})
    )
    assert event["data"]["price"] == Decimal("0.10000000000000000000001")
    assert event["data"]["literal"] == {"$record": {"$decimal": "x"}}


def test_a_record_that_only_looks_like_a_cloud_event_goes_out_as_data() -> None:
    lookalike = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "producer": "somebody else"}
    event = event_of(Notification.of(lookalike))
    assert (event["source"], event["data"]) == ("somebody else", lookalike)


@given(
    st.binary(max_size=60),
    st.sampled_from(["application/cloudevents+json", "application/json", "text/plain", ""]),
)
def test_whatever_comes_is_events_or_a_problem(body: bytes, media: str) -> None:
    headers = [("Content-Type", media), ("ce-id", "1"), ("ce-source", "/"), ("ce-type", "t")]
    for each in (headers[:1], [*headers, ("ce-specversion", "1.0")]):
        with contextlib.suppress(Problem):
            found = notifications_in(each, body, most=10)
            assert all(isinstance(one, Notification) for one in found)


@pytest.mark.parametrize(
    "media", ["application/cloudevents+json; charset=utf-8", "Application/CloudEvents+JSON"]
)
def test_the_type_of_the_content_may_have_parameters_and_capitals(media: str) -> None:
    body = b'{"specversion": "1.0", "id": "1", "source": "/", "type": "t"}'
    [found] = notifications_in([("Content-Type", media)], body, most=1)
    assert (found.id, found.producer) == ("1", "/")
