"""A file that people write is read whole, checked whole, and wrong in all its places at once."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.configuration import (
    Format,
    Key,
    Reading,
    Wrong,
    all_of,
    count,
    flag,
    listed,
    one_of,
    read_toml,
    some_of,
    suggestion,
    text,
    texts,
)
from fairlead.errors import BadInput, PipelineError, ScenarioError

KEYS: Format = {
    "": {
        "name": Key(text, "what it is called", required=True),
        "mode": Key(one_of("batch", "stream"), "how it runs", "batch"),
    },
    "order": {
        "lateness": Key(count(0, 1_000), "how long to wait", 7),
        "final": Key(flag, "nothing is waited for any more", False),
        "path": Key(text, "where rows are held"),
    },
    "audit": {
        "specifications": Key(some_of("fifo", "causal", "total"), "what to judge", ()),
        "path": Key(text, "where the trace is"),
    },
}
# For each reader a value that it takes, what it makes of it, and one that it refuses.
EXAMPLES: dict[str, tuple[Any, Any, Any]] = {
    "name": ("alerts", "alerts", " "),
    "mode": ("stream", "stream", "steram"),
    "lateness": (1_000, 1_000, 1_001),
    "final": (True, True, "yes"),
    "path": ("here", "here", 5),
    "specifications": (["fifo", "total", "fifo"], ("fifo", "total"), ["fifo", "none"]),
}
ALL = [(table, key) for table, keys in KEYS.items() for key in keys]


def read(given: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], Reading]:
    reading = Reading(KEYS)
    top = reading.top(given)
    return {"": top} | {name: reading.table(name, given.get(name, {})) for name in KEYS if name}, reading


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
        fate, row = fates[table, key], KEYS[table][key]
        expected[table][key] = EXAMPLES[key][1] if fate == "right" else row.default
        if fate == "wrong" or (fate == "absent" and row.required):
            problems.append((table, place(table, key)))
    values, reading = read(file)
    assert values == expected
    assert [problem.partition(": ")[0] for problem in reading.problems] == [where for _, where in problems]
    assert reading.unsound == {table for table, _ in problems}


def test_an_empty_file_has_the_defaults_and_lacks_what_is_required() -> None:
    values, reading = read({})
    assert values == {name: {key: row.default for key, row in keys.items()} for name, keys in KEYS.items()}
    assert reading.problems == ["name: missing: what it is called"]


def test_a_table_that_is_none_has_the_defaults_too() -> None:
    values, reading = read({"name": "x", "order": 3})
    assert values["order"] == {"lateness": 7, "final": False, "path": None}
    assert reading.problems == ["[order]: a table [order] was expected, not a whole number (3)"]


def test_a_table_that_has_to_be_there_is_missed() -> None:
    reading = Reading(KEYS)
    assert reading.required("order", {"order": {"final": True}})["final"] is True
    assert reading.required("order", {"audit": {}})["lateness"] == 7
    assert reading.problems == ["[order]: the table is missing"]
    assert reading.unsound == {"order"}


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
            "[order] mode: no such key; it stands at the top of the file, above the first table",
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


# -- one value ---------------------------------------------------------------------------------------------


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
