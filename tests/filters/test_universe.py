"""What the algebra takes for granted about values is what the doors make sure of."""

from __future__ import annotations

import pytest

from fairlead.errors import FilterError, FilterSyntaxError, ValueRefused
from fairlead.filters import NOTHING, Schema, covers, identical, merge, parse, relate, simplify, witness
from fairlead.ingest import records
from fairlead.ingest.rejection import Rejection
from fairlead.model import Notification

LATTICE = Schema(types={"Quote": (), "StockQuote": ("Quote",), "BondQuote": ("Quote",)}, abstract=("Quote",))


def test_the_sequence_of_a_cloud_event_is_a_number_for_filters_too() -> None:
    event = records.read('{"specversion":"1.0","id":"1","source":"/s","type":"T","sequence":"0012"}')
    assert isinstance(event, Notification)
    assert parse("sequence = 12").matches(event)
    assert not parse('sequence = "12"').matches(event)
    assert simplify(parse('sequence = "12"')) == NOTHING


@pytest.mark.parametrize("extra", ['"producer":true', '"sequence":1.5', '"id":true'])
def test_an_envelope_that_the_algebra_excludes_is_rejected(extra: str) -> None:
    flat = records.read("{" + extra + "}")
    event = records.read('{"specversion":"1.0","id":"1","source":"/s","type":"T",' + extra + "}")
    assert isinstance(flat, Rejection)
    assert isinstance(event, Rejection)


def test_a_cloud_event_can_be_asked_for_its_producer_by_either_name() -> None:
    event = records.read('{"specversion":"1.0","id":"1","source":"/s","type":"T"}')
    assert isinstance(event, Notification)
    assert parse('producer = "/s" and source = "/s"').matches(event)


def test_where_types_are_declared_the_type_is_one_of_them() -> None:
    assert relate(parse("type is Quote", LATTICE), parse("exists type"), LATTICE).name == "identical"
    assert witness(parse("exists type"), but_not=parse("type is Quote", LATTICE), schema=LATTICE) is None
    with pytest.raises(ValueRefused, match="names a type"):
        LATTICE.admit(Notification.of({"type": 5}))


def test_all_subtypes_of_an_abstract_type_merge_into_it() -> None:
    merged = merge([parse("type is StockQuote", LATTICE), parse("type is BondQuote", LATTICE)], LATTICE)
    assert merged is not None
    assert merged.perfect
    assert identical(merged.filter, parse("type is Quote", LATTICE), LATTICE)


def test_an_element_has_no_envelope() -> None:
    assert not covers(parse("//seller[@id >= 2]"), parse("//seller[@id >= 1.5]"))


def test_a_path_that_leads_nowhere_matches_nothing() -> None:
    assert simplify(parse("//a/notification")) == NOTHING
    assert identical(parse("not //a/notification"), parse("true"))


def test_a_kind_in_backquotes_is_that_kind() -> None:
    assert parse("x is `number`") == parse("x is number")


@pytest.mark.parametrize("word", ["int", "bool", "nan", "timestamp"])
def test_a_word_that_is_nearly_a_kind_is_an_error_that_names_the_kind(word: str) -> None:
    with pytest.raises(FilterError, match="no kind of value"):
        parse(f"x is {word}")


def test_a_step_in_backquotes_has_no_dots() -> None:
    with pytest.raises(FilterSyntaxError, match="no dots"):
        parse("a.`b.c` = 1")


def test_dropping_what_filters_ask_for_is_estimated_as_letting_nearly_everything_in() -> None:
    dropped = merge([parse("a = 1"), parse("b = 2")], imperfection_max=1.0)
    assert dropped is not None
    assert dropped.imperfection > 0.99
    boxes = [parse("x in [0, 10] and y in [0, 10]"), parse("x in [5, 15] and y in [5, 15]")]
    both = merge(boxes, imperfection_max=1.0)
    assert both is not None
    assert both.imperfection == pytest.approx(1 - 175 / 225)


def test_an_estimate_survives_numbers_beyond_any_float() -> None:
    filters = [
        parse(f"x in [1{'0' * 400}, 1{'0' * 401}] and y = 1"),
        parse(f"x in [1{'0' * 402}, 1{'0' * 403}] and y = 2"),
    ]
    merged = merge(filters, imperfection_max=1.0)
    assert merged is not None
    assert 0 <= merged.imperfection <= 1
