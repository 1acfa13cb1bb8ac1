"""A file that people write is read whole, checked whole, and wrong in all its places at once."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.configuration import (
    NEVER,
    PATH,
    SET,
    Key,
    Kind,
    Off,
    Reading,
    Wrong,
    all_of,
    count,
    file_of,
    flag,
    listed,
    made,
    number,
    one_of,
    parsed,
    quoted,
    read_toml,
    small_tables,
    some_of,
    suggestion,
    text,
    texts,
    written,
)
from fairlead.errors import BadInput, PipelineError, ScenarioError, ValueRefused


@dataclass(frozen=True)
class Order:
    lateness_ms: Annotated[int, Key("how long to wait", count(0, 1_000), at="lateness")] = 7
    final: Annotated[bool, Key("nothing is waited for any more")] = False
    path: Annotated[str | None, Key("where rows are held")] = None


@dataclass(frozen=True)
class Pipeline:
    name: Annotated[str, Key("what it is called")]
    mode: Annotated[Literal["batch", "stream"], Key("how it runs")] = "batch"
    order: Order = Order()
    specifications: Annotated[
        tuple[str, ...], Key("what to judge", some_of("fifo", "causal", "total"), at="audit.")
    ] = ()
    trace: Annotated[str | None, Key("where the trace is", at="audit.path")] = None
    started: int = 0


KEYS = file_of(Pipeline)
# For each reader a value that it takes, what it makes of it, and one that it refuses.
EXAMPLES: dict[str, tuple[Any, Any, Any]] = {
    "name": ("alerts", "alerts", " "),
    "mode": ("stream", "stream", "steram"),
    "lateness": (1_000, 1_000, 1_001),
    "final": (True, True, "yes"),
    "path": ("here", "here", 5),
    "specifications": (["fifo", "total", "fifo"], ("fifo", "total"), ["fifo", "none"]),
}
ALL = [(table, key) for table, keys in KEYS.items() for key in keys.rows]


def read(given: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], Reading]:
    reading = Reading(KEYS)
    return {name: {} for name in KEYS} | reading.tables(given), reading


def place(table: str, key: str) -> str:
    return f"[{table}] {key}" if table else key


# -- the whole ---------------------------------------------------------------------------------------------


@given(st.fixed_dictionaries({each: st.sampled_from(["absent", "right", "wrong"]) for each in ALL}))
def test_all_problems_are_told_at_once_and_all_else_is_read(fates: dict[tuple[str, str], str]) -> None:
    file: dict[str, Any] = {}
    for (table, key), fate in fates.items():  # in any order: problems come in the format's
        if fate != "absent":
            right, _, wrong = EXAMPLES[key]
            (file.setdefault(table, {}) if table else file)[key] = right if fate == "right" else wrong
    expected: dict[str, dict[str, Any]] = {name: {} for name in KEYS}
    problems = []
    for table, key in ALL:
        fate, row = fates[table, key], KEYS[table].rows[key]
        if fate == "right":
            expected[table][key] = EXAMPLES[key][1]
        if fate == "wrong" or (fate == "absent" and row.required):
            problems.append((table, place(table, key)))
    values, reading = read(file)
    assert values == expected
    assert [problem.partition(": ")[0] for problem in reading.problems] == [where for _, where in problems]
    assert reading.unsound == {table for table, _ in problems}


def test_an_empty_file_lacks_what_is_required() -> None:
    values, reading = read({})
    assert values == {name: {} for name in KEYS}
    assert reading.problems == ["name: missing: what it is called"]


def test_a_table_that_is_none_gives_nothing() -> None:
    values, reading = read({"name": "x", "order": 3})
    assert values["order"] == {}
    assert reading.problems == ["[order]: a table [order] was expected, not a whole number (3)"]


def test_one_table_of_several_is_named_as_it_is_told() -> None:
    reading = Reading(KEYS)
    reading.table("order", {"final": 1}, label="[[order]] 2:")
    reading.table("order", [], label="[[order]] 3:")
    assert reading.problems == [
        "[[order]] 2: final: true or false was expected, not a whole number (1)",
        "[[order]] 3: a table [[order]] 3 was expected, not a list ([])",
    ]


def test_one_problem_stands_beside_the_file_and_several_below_it() -> None:
    assert str(all_of(["a: wrong"], "x.toml", PipelineError)) == "x.toml: a: wrong"
    several = all_of(["a: wrong", "b: missing"], "x.toml", ScenarioError)
    assert isinstance(several, ScenarioError)
    assert str(several) == "x.toml: 2 problems\n  a: wrong\n  b: missing"


# -- what follows from a declaration -----------------------------------------------------------------------


@dataclass(frozen=True)
class Input:
    path: Annotated[str, Key("where it is", PATH)]
    name: Annotated[str, Key("its name")] = "input"


@dataclass(frozen=True)
class Sink:
    url: Annotated[str, Key("where it goes", public=lambda url: url.partition("?")[0])]
    retries: Annotated[int, Key("how often to try again", count(0, 9), counts=SET)] = 3


@dataclass(frozen=True)
class Whole:
    title: Annotated[str, Key("what it is called", shown="the file's name", counts=NEVER)]
    inputs: tuple[Input, ...]
    first: Annotated[Input, Key("the main one", at="main")]
    sink: Sink | None = None
    data: Annotated[str | None, Key("the directory", PATH), Off("memory", "there is no directory")] = "data"
    order: Annotated[Order, Key("how rows are ordered", counts=NEVER)] = Order(9, True)
    held: Annotated[dict[str, str], Key("options", Kind(dict))] = field(default_factory=dict)
    seen: int = 0


GIVEN: dict[str, Any] = {
    "inputs": [{"path": "a"}, {"path": "/b", "name": "other"}],
    "main": {"path": "c"},
    "sink": {"url": "here?token=1"},
    "order": {"final": False},
}


def whole(given: dict[str, Any]) -> Whole:
    reading = Reading(file_of(Whole), lambda path: path if path.startswith("/") else f"/base/{path}")
    values = made(Whole, reading.tables(given))
    reading.check("x.toml", PipelineError)
    return Whole(**values)


def test_fields_are_keys_and_tables_and_defaults_are_those_of_the_class_or_of_its_value() -> None:
    assert whole(GIVEN) == Whole(
        title=None,  # type: ignore[arg-type]
        inputs=(Input("/base/a"), Input("/b", "other")),
        first=Input("/base/c"),
        sink=Sink("here?token=1", 3),
        data="/base/data",
        order=Order(9, False),
    )
    rows = file_of(Whole)["order"].rows
    assert {name: row.default for name, row in rows.items()} == {"lateness": 9, "final": True, "path": None}
    assert Whole.__dataclass_fields__.keys() - {row.field for row in file_of(Whole)[""].rows.values()} == {
        "inputs",
        "first",
        "sink",
        "order",
        "seen",
    }


def test_one_table_stands_for_a_list_of_one_and_a_missing_one_is_named() -> None:
    assert whole({**GIVEN, "inputs": {"path": "a"}}).inputs == (Input("/base/a"),)
    with pytest.raises(PipelineError, match=r"^x.toml: \[\[inputs\]\]: there is none$"):
        whole({**GIVEN, "inputs": []})
    with pytest.raises(
        PipelineError, match=r"\[\[inputs\]\]: the table is missing\n  \[main\]: the table is missing"
    ):
        whole({})
    with pytest.raises(PipelineError, match=r"\[\[inputs\]\] 2: path: missing: where it is"):
        whole({**GIVEN, "inputs": [{"path": "a"}, {}]})


def test_a_flag_takes_the_value_of_another_key_away() -> None:
    assert whole({**GIVEN, "memory": True}).data is None
    assert whole({**GIVEN, "memory": False, "data": "d"}).data == "/base/d"
    with pytest.raises(PipelineError, match="data: with memory = true it means nothing"):
        whole({**GIVEN, "memory": True, "data": "d"})


def test_what_is_written_reads_as_the_same_value() -> None:
    for file in (GIVEN, {**GIVEN, "memory": True, "title": "t", "sink": {"url": "x", "retries": 0}}):
        value = whole(file)
        tables = {key: each for key, each in written(value).items() if each is not None}
        tables["order"] = {key: each for key, each in tables["order"].items() if each is not None}
        assert whole(tables) == value


def test_secrets_are_written_only_where_that_is_wanted() -> None:
    value = whole(GIVEN)
    assert written(value)["sink"]["url"] == "here?token=1"
    assert written(value, public=True)["sink"]["url"] == "here"


def test_the_fingerprint_has_the_keys_that_count_and_new_ones_where_they_are_set() -> None:
    value = whole(GIVEN)
    counting = written(value, counting=True)
    assert counting.keys() == {"inputs", "main", "sink", "data", "memory", "held"}
    assert counting["sink"] == {"url": "here?token=1"}
    changed = replace(value, sink=Sink("here", 4))
    assert written(changed, counting=True)["sink"] == {"url": "here", "retries": 4}


def test_the_documentation_of_a_default_is_the_value_as_the_file_has_it() -> None:
    rows = {name: row for table in file_of(Whole).values() for name, row in table.rows.items()}
    assert {name: row.default_text for name, row in rows.items()} == {
        "title": "the file's name",
        "data": "`data`",
        "memory": "`false`",
        "held": "none",
        "path": "none",
        "name": "`input`",
        "url": "required",
        "retries": "`3`",
        "lateness": "`9`",
        "final": "`true`",
    }


@dataclass(frozen=True)
class Crash:
    broker: Annotated[str, Key("who stops")]
    at: Annotated[int, Key("when", count(0, 9))] = 0

    def __post_init__(self) -> None:
        if self.broker == "none":
            raise ValueRefused("nobody stops")


def test_small_tables_are_the_value_of_one_key() -> None:
    reader = small_tables(Crash, '{ broker = "B1" }')
    assert reader([{"broker": "B1"}, {"broker": "B2", "at": 3}]) == (Crash("B1"), Crash("B2", 3))
    for value, said in (
        ({}, r'a list such as \[{ broker = "B1" }\] was expected'),
        (
            [{"borker": "B1"}],
            "1: borker: no such key; did you mean 'broker'.*; 1: broker: missing: who stops",
        ),
        ([{"broker": "B1"}, 3], "2: a table 2 was expected"),
        ([{"broker": "none"}], "nobody stops"),
    ):
        with pytest.raises(Wrong, match=said):
            reader(value)


# -- what was meant ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ({"nmae": "x"}, "nmae: no such key; did you mean 'name'?"),
        ({"ordr": {}}, "[ordr]: no such table; did you mean 'order'?"),
        ({"order": {"Final": True}}, "[order] Final: no such key; did you mean 'final'?"),
        ({"latenes": 1}, "latenes: no such key; 'lateness' belongs in [order]"),
        ({"path": "x"}, "path: no such key; it belongs in [order] or [audit]"),
        (
            {"order": {"mode": "batch"}},
            "[order] mode: no such key; it belongs at the top of the file, above the first table",
        ),
        ({"order": {"colour": "red"}}, "[order] colour: no such key"),
    ],
)
def test_a_key_that_is_none_is_told_with_what_was_meant(file: dict[str, Any], problem: str) -> None:
    assert read({"name": "x", **file})[1].problems == [problem]


@given(st.sampled_from([key for _, key in ALL]), st.data())
def test_a_letter_too_few_or_in_capitals_is_a_slip(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    names = {key for _, key in ALL}
    for slip in (name[:at] + name[at + 1 :], name.upper()):
        assert suggestion(slip, names) == f"; did you mean {name!r}?"


def test_names_in_capitals_are_suggested_as_well_and_strangers_bring_none() -> None:
    assert suggestion("BX17", ["B17", "B2"]) == "; did you mean 'B17'?"
    assert suggestion("colour", ["B17", "B2"]) == suggestion("colour", []) == ""


def test_names_are_listed_as_they_are_spoken() -> None:
    assert [listed("a"), listed("ab"), listed("abc")] == ["a", "a or b", "a, b or c"]
    assert quoted("ab") == "`a`, `b`"


# -- one value ---------------------------------------------------------------------------------------------


def refusing(given: str) -> str:
    raise ValueRefused(f"not {given}", hint="write y")


@pytest.mark.parametrize(
    ("reader", "given", "said"),
    [
        (text, 5, "a string was expected, not a whole number (5)"),
        (text, datetime.date(2025, 1, 2), 'a string was expected, not a date or time ("2025-01-02")'),
        (text, "\t", "it is empty"),
        (texts, "a", 'a list of strings was expected, not a string ("a")'),
        (texts, ["a", 1.5], "a string was expected, not a number (1.5)"),
        (flag, 0, "true or false was expected, not a whole number (0)"),
        (count(1, 5), True, "a whole number was expected, not a Boolean (true)"),
        (count(1, 5), 2.0, "a whole number was expected, not a number (2.0)"),
        (
            count(1_000, 5_000),
            70_000,
            "a whole number from 1,000 to 5,000 was expected, not 70,000",
        ),
        (
            one_of("batch", "stream"),
            "btach",
            "batch or stream was expected, not 'btach'; did you mean 'batch'?",
        ),
        (one_of("batch", "stream"), {"a": 1}, 'a string was expected, not a table ({"a": 1})'),
        (some_of("fifo", "total"), ["fifo", "x"], "fifo or total was expected, not 'x'"),
        (number(0, 1), "1", 'a number from 0 to 1 was expected, not a string ("1")'),
        (number(0, 1), 1.5, "a number from 0 to 1 was expected, not 1.5"),
        (parsed(refusing, "an address"), 5, "an address was expected, not a whole number (5)"),
        (parsed(refusing), "x", "not x; write y"),
    ],
)
def test_a_wrong_value_is_told_with_what_was_expected(
    reader: Callable[[Any], Any], given: Any, said: str
) -> None:
    with pytest.raises(Wrong) as wrong:
        reader(given)
    assert str(wrong.value) == said


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-12, 12))
def test_a_count_may_be_its_least_and_its_most(least: int, most: int, number: int) -> None:
    try:
        assert count(least, most)(number) == number
        assert number in range(least, most + 1)
    except Wrong:
        assert number not in range(least, most + 1)


# -- the file ----------------------------------------------------------------------------------------------


def test_a_file_is_read_with_or_without_a_mark_at_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text('name = "é"\n[order]\nfinal = true', encoding=encoding)
        assert read_toml(path, BadInput, hint="") == {"name": "é", "order": {"final": True}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name = alerts", "not TOML: Invalid value (at line 1, column 8)\n  hint: use quotes"),
        (b"name = '\xff'", "not UTF-8 (invalid start byte at byte 9)"),
        (None, "cannot be read (No such file or directory)"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_of_the_callers(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "x.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ScenarioError) as refused:
        read_toml(path, ScenarioError, hint="use quotes")
    assert str(refused.value) == f"{path}: {said}"
