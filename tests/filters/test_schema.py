"""The lattice is closed, and a value outside its declared domain is refused at the door."""

from __future__ import annotations

import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import FilterError, SchemaError, ValueRefused
from fairlead.filters.schema import Declared, Schema
from fairlead.model import Array, Instant, Interval, Kind, Multi, Notification, Point, Rectangle, Tuple

TEXT = """\
# What the exchange publishes
type Quote: Instrument
type StockQuote: Quote, Timed        # several parents; order does not matter
type Timed

abstract type Instrument             # no notification is of this type itself
price: int
symbol: string
created: timestamp
note: string?                        # null allowed
position.x: float
type: string
`content-type`: any
"""


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.parse(TEXT)


def test_is_includes_subtypes_but_no_abstract_ones(schema: Schema) -> None:
    assert schema.type_members("Instrument") == {"Quote", "StockQuote"}
    assert schema.type_members("Timed") == {"Timed", "StockQuote"}
    assert schema.type_members("StockQuote") == {"StockQuote"}
    assert schema.is_subtype("StockQuote", "Instrument")
    assert schema.is_subtype("Quote", "Quote")
    assert not schema.is_subtype("Instrument", "Quote")
    assert schema.parents("StockQuote") == ("Quote", "Timed")
    assert schema.direct_subtypes("Quote") == ("StockQuote",)
    assert schema.has_types
    assert not Schema().has_types


def test_an_unknown_type_is_an_error_with_a_suggestion(schema: Schema) -> None:
    for ask in (schema.type_members, schema.parents, schema.direct_subtypes):
        with pytest.raises(FilterError, match=r"no type is named 'StokQuote'[\s\S]*StockQuote"):
            ask("StokQuote")
    with pytest.raises(FilterError):
        schema.is_subtype("Quote", "Nothing")


def test_domains_are_what_was_declared(schema: Schema) -> None:
    assert schema.domain("price") == Declared(Kind.NUMBER, integer=True, nullable=False)
    assert schema.domain("note") == Declared(Kind.STRING, nullable=True)
    assert schema.domain("created") == Declared(Kind.TIME)
    assert schema.domain("position.x") == Declared(Kind.NUMBER)
    assert schema.domain("position") is None
    assert schema.domain("content-type") is None
    assert schema.domain("other") is None


def test_python_and_file_declare_the_same(schema: Schema) -> None:
    same = Schema(
        types={"Timed": (), "Instrument": [], "StockQuote": {"Timed", "Quote"}, "Quote": ["Instrument"]},
        abstract=["Instrument"],
        attributes={
            "content-type": "any",
            "position.x": "number",
            "note": "string?",
            "created": "time",
            "symbol": "string",
            "price": "int",
            "type": "string",
        },
    )
    assert same == schema
    assert hash(same) == hash(schema)
    assert same.fingerprint == schema.fingerprint
    assert len({schema, same}) == 1
    assert Schema() != schema


@pytest.mark.parametrize(
    "change",
    [
        ("type Timed\n", "abstract type Timed\n"),
        ("Quote, Timed", "Quote"),
        ("price: int", "price: number"),
        ("string?", "string"),
        ("symbol", "symbols"),
    ],
)
def test_whatever_is_declared_otherwise_changes_the_fingerprint(
    schema: Schema, change: tuple[str, str]
) -> None:
    assert Schema.parse(TEXT.replace(*change)).fingerprint != schema.fingerprint


def test_a_schema_survives_as_text_and_between_processes(schema: Schema) -> None:
    assert Schema.parse(str(schema)) == schema
    copy = pickle.loads(pickle.dumps(schema))
    assert copy == schema
    assert copy.type_members("Quote") == schema.type_members("Quote")


def test_a_schema_is_read_from_a_file(tmp_path: Path, schema: Schema) -> None:
    file = tmp_path / "exchange.schema"
    file.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    assert Schema.read(file) == schema
    file.write_text("price: integer\n")
    with pytest.raises(SchemaError, match=r"exchange\.schema, line 1: .*'integer'"):
        Schema.read(file)
    file.write_bytes(b"\xff")
    with pytest.raises(SchemaError, match="not UTF-8"):
        Schema.read(file)
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.read(tmp_path / "missing")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("type A\ntype B: C", r"line 2: 'B' has an unknown parent 'C'"),
        ("type Quote\ntype B: Qoute", r"line 2: [\s\S]*did you mean Quote"),
        ("type A: B\ntype B: C\ntype C: A", r"line \d: a type above itself: (A -> B -> C -> A|B.*B|C.*C)"),
        ("type A: A", r"line 1: a type above itself: A -> A"),
        ("type A\n\ntype A", r"line 3: 'A' is declared twice, first in line 1"),
        ("a: int\na: int", r"line 2: 'a' is declared twice"),
        ("type A\ntype B: A, A", r"line 2: 'B' names its parent 'A' twice"),
        ("a: nubmer", r"line 1: [\s\S]*did you mean number"),
        ("a: xyzzy", r"the kinds are int, number"),
        ("type string", r"line 1: a type cannot be named 'string'"),
        ("type bool", r"line 1: a type cannot be named 'bool'"),
        ("a: int string", r"line 1: cannot be read"),
        ("content-type: int", r"backquotes"),
        ("just words", r"line 1: cannot be read"),
        ("type", r"line 1: cannot be read"),
        ("a:", r"line 1: cannot be read"),
        ("`a.b`: int", r"line 1: a step of a name with a dot"),
        ("a: int\na.b: int", r"line 2: 'a.b' lies within 'a', which is declared as int"),
        ("time: string", r"line 1: 'time' is when"),
    ],
)
def test_an_error_names_the_line_and_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        Schema.parse(text, source="my.schema")


def test_errors_in_python_declarations() -> None:
    with pytest.raises(SchemaError, match="abstract but is no type"):
        Schema(types={"Quote": ()}, abstract=["Quot"])
    with pytest.raises(SchemaError, match="list of names"):
        Schema(types={"A": (), "B": "A"})
    for name in ("", "a..b", "a\nb"):
        with pytest.raises(SchemaError, match="name"):
            Schema(types={name: ()})


@pytest.mark.parametrize(
    ("kind", "inside", "outside"),
    [
        ("int", [20, 20.0, Decimal("20.00"), 10**40], [20.5, True, "20", float("inf"), float("nan"), [1]]),
        ("number", [1, 0.5, Decimal("0.1"), float("inf")], [float("nan"), False, "1"]),
        ("string", ["", "x"], [1, b"x"]),
        ("boolean", [True], [1, "true"]),
        ("time", [Instant(5), "2024-05-01T10:00:00Z"], ["noon", 5]),
        ("bytes", [b""], ["x"]),
        ("set", [[], [1, "a"], {1}, Multi(())], [[{}], 1, Array(())]),
        ("point", [Point(1, 2)], [[1, 2]]),
        ("interval", [Interval(1, 2)], [Point(1, 2)]),
        ("rectangle", [Rectangle(0, 0, 1, 1)], [Interval(1, 2)]),
        ("record", [{}, {"x": 1}], [[{}]]),
        ("array", [[{}], [], Array((1,))], [[1], {}]),
        ("tuple", [Tuple((1,)), []], [[1]]),
        ("any", [1, None, "x", float("nan"), object()], []),
    ],
)
def test_values_are_admitted_iff_they_lie_in_the_domain(
    kind: str, inside: list[Any], outside: list[Any]
) -> None:
    schema, nullable = Schema(attributes={"a.b": kind}), Schema(attributes={"a.b": f"{kind}?"})
    for value in inside:
        assert schema.admit(Notification.of({"a.b": value}))
    for value in outside:
        with pytest.raises(ValueRefused, match=rf"'a\.b' is declared as {kind}"):
            schema.admit(Notification.of({"a.b": value}))
    for absent in ({}, {"a": 1}, {"a": {}}):
        assert schema.admit(Notification.of(absent))
    assert nullable.admit(Notification.of({"a.b": None}))
    if kind != "any":
        with pytest.raises(ValueRefused, match="which None is not"):
            schema.admit(Notification.of({"a.b": None}))


def test_a_declared_time_is_read_from_its_string() -> None:
    schema = Schema(attributes={"order.placed": "time"})
    given_by_user = Notification.of({"id": "7", "order": {"placed": "2024-05-01T10:00:00Z", "x": 1}})
    admitted = schema.admit(given_by_user)
    assert admitted.get("order.placed") == Instant.parse("2024-05-01T10:00:00Z")
    assert admitted.get("order.x") == 1
    assert admitted.id == "7"
    assert given_by_user.get("order.placed") == "2024-05-01T10:00:00Z"


def test_what_lies_in_its_domain_is_not_copied() -> None:
    notification = Notification.of({"price": 20.0, "other": object})
    assert Schema(attributes={"price": "int"}).admit(notification) is notification


def test_an_unknown_or_abstract_type_is_refused(schema: Schema) -> None:
    assert schema.admit(Notification.of({"type": "StockQuote"}))
    assert schema.admit(Notification.of({"price": 1}))
    assert Schema(attributes={"x": "int"}).admit(Notification.of({"type": "Whatever"}))
    with pytest.raises(ValueRefused, match=r"no type 'Quot'[\s\S]*did you mean Quote"):
        schema.admit(Notification.of({"type": "Quot"}))
    with pytest.raises(ValueRefused, match=r"abstract type 'Instrument'[\s\S]*Quote, StockQuote"):
        schema.admit(Notification.of({"type": "Instrument"}))


def test_the_lattice_is_shown_as_a_tree() -> None:
    text = "type A\ntype B: A\nabstract type C: A\ntype D: B, C\ntype E: D\nprice: int\nnote: string?"
    assert Schema.parse(text).show() == "\n".join(
        [
            "A",
            "  B",
            "    D  (also below C)",
            "      E",
            "  C  (abstract)",
            "    D  (also below B; its subtypes stand above)",
            "note: string?",
            "price: int",
        ]
    )


def test_long_chains_of_types_are_no_trouble() -> None:
    chain = Schema(types={f"T{n}": [f"T{n - 1}"] if n else [] for n in range(5_000)})
    assert len(chain.type_members("T0")) == 5_000
    assert chain.is_subtype("T4999", "T0")
    assert Schema.parse(str(chain)) == chain


# -- against an oracle -------------------------------------------------------------------------------------

NAMES = [f"T{n}" for n in range(7)]


@st.composite
def lattices(draw: st.DrawFn) -> tuple[dict[str, list[str]], set[str]]:
    """Types whose parents come earlier in an order, declared in another one."""
    types = {
        name: draw(st.lists(st.sampled_from(NAMES[:index]), unique=True, max_size=3)) if index else []
        for index, name in enumerate(NAMES)
    }
    order = draw(st.permutations(NAMES))
    return {name: types[name] for name in order}, draw(st.sets(st.sampled_from(NAMES), max_size=3))


def below_or_equal(types: dict[str, list[str]], name: str, of: str) -> bool:
    return name == of or any(below_or_equal(types, parent, of) for parent in types[name])


@given(lattices())
@settings(max_examples=100)
def test_members_are_the_concrete_types_from_which_the_parents_lead_there(
    declared: tuple[dict[str, list[str]], set[str]],
) -> None:
    types, abstract = declared
    schema = Schema(types, abstract)
    for of in NAMES:
        below = {name for name in NAMES if below_or_equal(types, name, of)}
        assert schema.type_members(of) == below - abstract
        assert {name for name in NAMES if schema.is_subtype(name, of)} == below
    assert {line.split()[0] for line in schema.show().split("\n")} == set(NAMES)


names = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=".\r\n"), min_size=1), min_size=1
)
kinds = st.sampled_from(["int", "number?", "string", "any", "record", "float", "decimal?", "timestamp"])


@given(st.dictionaries(names.map(".".join), kinds, max_size=4), lattices())
@settings(max_examples=150)
def test_parsing_what_is_printed_gives_the_schema_back(
    attributes: dict[str, str], declared: tuple[dict[str, list[str]], set[str]]
) -> None:
    try:
        schema = Schema(*declared, attributes)
    except SchemaError:  # `a` declared as an int and `a.b` as well, or `time` as a string
        return
    assert Schema.parse(str(schema)) == schema
    assert Schema.parse(str(schema)).fingerprint == schema.fingerprint


@given(st.text("type abstract:AB,?#`.\\\n int", max_size=40))
@settings(max_examples=200)
def test_no_text_is_a_crash(text: str) -> None:
    try:
        schema = Schema.parse(text)
    except SchemaError:
        return
    assert Schema.parse(str(schema)) == schema
