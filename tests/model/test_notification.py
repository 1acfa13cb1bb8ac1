"""The envelope is read from the attributes of the same names, which stay attributes."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.errors import ValueRefused
from fairlead.model import ABSENT, Element, Instant, Multi, Notification, Record, Tuple, tree_of


def test_the_envelope_is_read_from_attributes_that_stay() -> None:
    moment = "2024-05-01T10:00:00Z"
    found = Notification.of({"id": 7, "producer": "p", "time": moment, "sequence": 3, "price": 1})
    assert (found.id, found.producer, found.time, found.sequence) == ("7", "p", Instant.parse(moment), 3)
    assert found.get("id") == 7
    assert found.get("time") == Instant.parse(moment)
    assert found.get("price") == 1


def test_an_empty_envelope_is_allowed() -> None:
    found = Notification.of({"id": None, "time": None})
    assert (found.id, found.producer, found.time, found.sequence) == (None, "", None, None)
    assert found.get("id") is None
    assert found.get("sequence") is ABSENT


@pytest.mark.parametrize(
    "fields",
    [
        {"id": 1.5},
        {"id": True},
        {"id": ["a"]},
        {"id.x": 1},
        {"producer": {}},
        {"time": "noon"},
        {"time": 1.5},
        {"time": True},
        {"time.zone": 1},
        {"sequence": "one"},
        {"sequence": 1.5},
        {"sequence": False},
        {"id": "\ud800"},
    ],
)
def test_an_envelope_of_another_kind_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueRefused):
        Notification.of(fields)


def test_whole_numbers_under_time_are_microseconds() -> None:
    assert Notification.of({"time": 5}).time == Instant(5)


def test_a_tuple_becomes_the_attribute_of_that_name() -> None:
    by_position = Tuple(("StockQuote", "Foo Inc.", 45, "Foo Inc."))
    for form in (by_position.items, {"tuple": list(by_position)}, {"tuple": by_position}):
        assert Notification.of(form).get("tuple") == by_position
    assert Notification.of({"tuple": 5}).get("tuple") == 5
    assert Notification.of({"x.tuple": [2, 1]}).get("x.tuple") == Multi([1, 2])


def test_a_notification_is_taken_as_it_is() -> None:
    notification = Notification.of({"a": 1})
    assert Notification.of(notification) is notification


def test_equal_notifications_are_equal_and_hash_alike() -> None:
    one, other = Notification.of({"a.b": 1, "c": 2}), Notification.of({"c": 2.0, "a": {"b": 1}})
    assert one == other
    assert hash(one) == hash(other)
    assert one != Notification.of({"a.b": True, "c": 2})


@pytest.mark.parametrize("levels", [5_000, 10_000])
def test_records_nested_too_deeply_are_refused(levels: int) -> None:
    records: Any = 1
    lists: Any = {}
    for _ in range(levels):
        records, lists = {"a": records}, [lists]
    for deep in (records, {"x": lists}, {".".join("a" * levels): 1}):
        with pytest.raises(ValueRefused, match="deep"):
            Notification.of(deep)


class Quote:
    def id(self) -> str:
        return "IBM"

    def broken(self) -> int:
        raise RuntimeError

    def _hidden(self) -> int:
        return 1


class Narrow(Quote):
    __inspectors__ = ("price",)

    def price(self) -> int:
        return 5


def test_objects_answer_to_their_public_inspectors_only() -> None:
    notification = Notification.of({"quote": Quote(), "narrow": Narrow(), "x": 1})
    assert notification.ask("quote", "id") == "IBM"
    assert notification.ask("narrow", "price") == 5
    for name, inspector in [
        ("quote", "broken"),
        ("quote", "_hidden"),
        ("quote", "missing"),
        ("narrow", "id"),
        ("x", "bit_length"),
        ("absent", "id"),
    ]:
        assert notification.ask(name, inspector) is ABSENT


def test_a_record_is_a_tree_of_elements() -> None:
    record = Record({"a": 1, "cpu": {"clock": 700}, "item": [{"x": 1}, 5, {"x": 2}], "tags": ["t"]})
    tree = tree_of(record)
    assert tree == Element(
        "notification",
        {"a": 1, "tags": Multi(["t"])},
        (Element("cpu", {"clock": 700}), Element("item", {"x": 1}), Element("item", {"x": 2})),
    )
    assert [path for path, _ in tree.walk()] == [
        ("notification",),
        ("notification", "cpu"),
        ("notification", "item"),
        ("notification", "item"),
    ]


def test_the_document_is_the_tree_where_there_is_one() -> None:
    document = Element("notification", {}, (Element("cpu"),))
    assert Notification(Record({"a": 1}), document=document).tree is document
    assert hash(Notification(Record({"a": 1}), document=document))
    assert Notification(Record({"a": 1})).tree == Element("notification", {"a": 1})
