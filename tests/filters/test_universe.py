"""What the algebra takes for granted about values is what the doors make sure of."""

from __future__ import annotations

import re

import pytest

from fairlead.errors import FilterError, FilterSyntaxError, ValueRefused
from fairlead.filters import (
    NOTHING,
    Schema,
    covers,
    identical,
    merge,
    overlaps,
    parse,
    relate,
    simplify,
    witness,
)
from fairlead.filters.extensions import ExtensionBase, register, unregister
from fairlead.ingest import records
from fairlead.ingest.rejection import Rejection
from fairlead.model import Kind, Notification

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


def test_whatever_lists_values_under_tuple_is_a_tuple() -> None:
    for given in ({"a"}, ["a"], ("a",), frozenset({"a"})):
        assert not parse('tuple contains "a"').matches(Notification.of({"tuple": given}))
        assert parse('("a",)').matches(Notification.of({"tuple": given}))


def test_tuples_have_an_end_so_lengths_do_too() -> None:
    assert identical(parse("tuple[#] = 100000000"), NOTHING)
    with pytest.raises(ValueRefused, match="10,000"):
        Notification.of({"tuple": [0] * 10_001})
    with pytest.raises(FilterSyntaxError, match="10,000"):
        parse("tuple[10000] = 1")


def test_a_relation_at_the_ends_of_what_numbers_can_be_is_answered() -> None:
    assert relate(parse("x > 0 and x < 1e-4299"), parse("y > 1")).name == "overlaps"
    assert relate(parse(f"x > {'9' * 4300}"), parse("y > 1")).name == "overlaps"


def test_many_dotted_siblings_are_no_burden() -> None:
    one = parse(" and ".join(f"data.b{i} > 1" for i in range(300)))
    other = parse(" and ".join(f"data.b{i} > 2" for i in range(300)))
    assert relate(one, other) == relate(parse("x > 1"), parse("x > 2"))


class Broken:
    """An embedded object that raises whenever it is asked."""

    @property
    def price(self) -> float:
        raise ValueError("no price today")

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


def test_an_object_that_raises_has_not_answered() -> None:
    n = Notification.of({"o": Broken()})
    assert not parse("o.price > 3").matches(n)
    assert not parse("o.volume() > 3").matches(n)
    assert parse("not o.price > 3").matches(n)


def test_an_extension_that_raises_is_unsure(caplog: pytest.LogCaptureFixture) -> None:
    class Raising(ExtensionBase):
        name = "boom"
        kinds = frozenset({Kind.STRING})

        def holds(self, value: object, literal: object) -> bool:
            return True

        def covers(self, one: object, other: object) -> bool:
            raise RuntimeError("boom")

    register(Raising())
    try:
        assert not covers(parse('x boom "a"'), parse('x boom "b"'))
        assert overlaps(parse('x boom "a"'), parse('x boom "b"'))
        assert "failed to compare" in caplog.text
    finally:
        unregister("boom")


def test_an_operator_that_is_registered_anew_is_asked_anew() -> None:
    class Near(ExtensionBase):
        name = "near"

        def __init__(self, kind: Kind) -> None:
            self.kinds = frozenset({kind})

        def holds(self, value: object, literal: object) -> bool:
            return True

        def covers(self, one: object, other: object) -> bool:
            return False

    for kind in (Kind.STRING, Kind.NUMBER):
        register(Near(kind))
        try:
            assert covers(parse(f"x is {kind.value}"), parse('x near "a"'))
            assert not covers(parse("x is boolean"), parse('x near "a"'))
        finally:
            unregister("near")


def test_a_name_with_a_line_break_is_printed_on_one_line() -> None:
    one = parse("`a\nb` = 1")
    assert "\n" not in str(one)
    assert parse(str(one)) == one


def test_whole_floats_are_whole_in_the_envelope_too() -> None:
    n = Notification.of({"id": 20.0, "sequence": 1.0})
    assert (n.id, n.sequence) == ("20", 1)
    assert parse("id = 20 and sequence = 1").matches(n)


@pytest.mark.parametrize("word", ["nubmer", "strng", "Set"])
def test_a_misspelled_kind_is_an_error_that_names_the_kind(word: str) -> None:
    with pytest.raises(FilterError, match="did you mean"):
        parse(f"x is {word}")
    assert parse(f"type is {word}").matches(Notification.of({"type": word}))


def test_an_operator_may_answer_with_anything_that_is_true_or_false() -> None:
    class Rx(ExtensionBase):
        name = "rx"
        kinds = frozenset({Kind.STRING})

        def holds(self, value: object, literal: object) -> object:
            return re.fullmatch(str(literal), str(value))

    register(Rx())
    try:
        assert relate(parse('x rx "a+"'), parse('x = "aa"')).name == "covers"
        assert parse('x rx "a+"').matches(Notification.of({"x": "aa"})) is True
        assert simplify(parse('x rx "a+" and x = "aa"')) != NOTHING
    finally:
        unregister("rx")


@pytest.mark.parametrize("given", [5, None, "abc", [1], [("a", 1)]])
def test_what_is_no_mapping_and_no_tuple_is_no_notification(given: object) -> None:
    with pytest.raises(ValueRefused, match="not a notification"):
        Notification.of(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "(a = 1 or b = 2) and (c = 3 or d = 4)",
        'x not in {1, "a"}',
        "not (x > 3 and y > 3)",
        'x < t"2024-05-01T10:00:00Z"',
    ],
)
def test_what_has_no_shorter_spelling_stays_as_written(text: str) -> None:
    one = parse(text)
    assert simplify(one) == one
