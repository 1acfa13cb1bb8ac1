"""CloudEvents SQL, message selectors of JMS and WHERE clauses: conditions with a third outcome."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairlead as fl
from fairlead import dialects
from fairlead.dialects.cesql import evaluator as cesql_evaluator
from fairlead.dialects.jms import evaluator as jms_evaluator
from fairlead.dialects.numerals import whole_number
from fairlead.errors import TranslationRefused

CORPUS = Path(__file__).parents[1] / "corpus"
VALUES = st.sampled_from(
    (1, 5, -3, 0, 2.5, "1", "+05", "-3", "a", "ab", "TRUE", "false", "", "5x", True, False, None, ["a"])
)
EVENTS = st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3)


# -- CloudEvents SQL -------------------------------------------------------------------------------------


def test_every_case_of_cesql_is_answered_as_its_suite_does(
    suite: Callable[[str], list[dict[str, Any]]],
) -> None:
    wrong = []
    for case in suite("cesql"):
        try:
            filter = dialects.cesql(case["expression"])
            matches: Any = filter.matches(fl.Notification.of(case["event"]))
            assert fl.parse(str(filter)) == filter
        except TranslationRefused:
            matches = "refused"
        if matches != case["matches"] and not (case["matches"] == "never" and matches is not True):
            wrong.append((case["name"], matches))
    assert wrong == []


_NAMES = st.sampled_from("xyz")
_CESQL_LITERALS = st.sampled_from(
    ("1", "5", "-3", "0", "'a'", "'ab'", "'5'", "'true'", "TRUE", "false", "''")
)
_CESQL_LEAVES = st.one_of(
    st.builds(
        "{} {} {}".format,
        _NAMES | st.builds("INT({})".format, _NAMES),
        st.sampled_from(("=", "!=", "<", "<=", ">", ">=")),
        _CESQL_LITERALS | _NAMES,
    ),
    st.builds("{} {} {}".format, _CESQL_LITERALS, st.sampled_from(("=", "<", ">=")), _NAMES),
    st.builds(
        "{} {} '{}'".format,
        _NAMES,
        st.sampled_from(("LIKE", "NOT LIKE")),
        st.sampled_from(("a%", "_", "%5", "t%")),
    ),
    st.builds(
        "{} {} ({}, {})".format, _NAMES, st.sampled_from(("IN", "NOT IN")), _CESQL_LITERALS, _CESQL_LITERALS
    ),
    st.builds("EXISTS {}".format, _NAMES),
    st.builds("(LENGTH({}) > {} / 2)".format, _NAMES, _NAMES),
    _NAMES,
    _CESQL_LITERALS,
)
CESQL = st.recursive(
    _CESQL_LEAVES,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(("AND", "OR", "XOR")), inner)
        | st.builds("NOT ({})".format, inner)
    ),
    max_leaves=5,
)


@given(CESQL, EVENTS)
def test_the_filter_of_an_expression_is_its_evaluation(text: str, event: dict[str, Any]) -> None:
    notification = fl.Notification.of(event)
    filter = dialects.cesql(text)
    assert filter.matches(notification) == cesql_evaluator(text)(notification)
    assert fl.parse(str(filter)) == filter


def test_a_missing_attribute_is_an_error_that_a_decided_left_side_hides() -> None:
    empty = fl.Notification.of({})
    assert not dialects.cesql("x = 'a' OR TRUE").matches(empty)
    assert dialects.cesql("TRUE OR x = 'a'").matches(empty)
    assert not dialects.cesql("NOT (x = 'a')").matches(empty)
    assert dialects.cesql("NOT (FALSE AND x = 'a')").matches(empty)


def test_an_instant_is_a_string_as_it_was_published() -> None:
    event = fl.Notification.of({"time": "2018-04-26T14:48:09+02:00"})
    assert dialects.cesql("time LIKE '2018-04-26T14%+02:00'").matches(event)
    assert not dialects.cesql("time LIKE '%Z'").matches(event)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**31), st.integers(-(2**32), 2**32), st.booleans())
def test_the_texts_of_whole_numbers_are_a_regular_expression(
    low: int, size: int, number: int, near: bool
) -> None:
    high = low + size
    number = low + number % (size + 1) if near else number
    expression = whole_number(low, high)
    for text in (f"{number}", f"{number:+d}", f"{number:012d}"):
        assert bool(re.fullmatch(expression, text)) == (low <= number <= high)


# -- JMS -------------------------------------------------------------------------------------------------


def test_every_selector_matches_as_in_activemq() -> None:
    """Not among the cases is the equality of two properties: to ActiveMQ, two missing ones are equal."""
    cases = [json.loads(line) for line in (CORPUS / "jms.jsonl").read_text("utf-8").splitlines()]
    assert {case["matches"] for case in cases} == {True, False}
    assert [
        case
        for case in cases
        if dialects.jms(case["text"]).matches(fl.Notification.of(case["event"])) != case["matches"]
    ] == []


_NUMBERS = st.sampled_from(("x", "y", "1", "2.5", "-3", "(x + 1)", "x * y", "y / 2", "9007199254740993"))
_JMS_LEAVES = st.one_of(
    st.builds("{} {} {}".format, _NUMBERS, st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), _NUMBERS),
    st.builds(
        "{} {} {}".format,
        _NAMES,
        st.sampled_from(("=", "<>")),
        st.sampled_from(("'a'", "TRUE", "FALSE", "'1'")),
    ),
    st.builds("{} {}IN ('a', 'ab')".format, _NAMES, st.sampled_from(("", "NOT "))),
    st.builds(
        "{} {}LIKE '{}'".format, _NAMES, st.sampled_from(("", "NOT ")), st.sampled_from(("a%", "_", "%5"))
    ),
    st.builds("{} {}BETWEEN {} AND 5".format, _NAMES, st.sampled_from(("", "NOT ")), _NUMBERS),
    st.builds("{} IS {}NULL".format, _NAMES, st.sampled_from(("", "NOT "))),
    _NAMES,
)
JMS = st.recursive(
    _JMS_LEAVES,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(("AND", "OR")), inner)
        | st.builds("NOT ({})".format, inner)
    ),
    max_leaves=5,
)


@given(JMS, EVENTS)
def test_the_filter_of_a_selector_is_its_evaluation(text: str, event: dict[str, Any]) -> None:
    notification = fl.Notification.of(event)
    filter = dialects.jms(text)
    assert filter.matches(notification) == jms_evaluator(text)(notification)
    assert fl.parse(str(filter)) == filter


# -- SQL -------------------------------------------------------------------------------------------------


def sql(node: Any, event: dict[str, Any]) -> bool | None:
    """The definition: three-valued logic over a tree of tuples, with NULL for what is of another kind."""
    match node:
        case ("not", part):
            inner = sql(part, event)
            return None if inner is None else not inner
        case ("and" | "or" as word, left, right):
            pair = (sql(left, event), sql(right, event))
            return (word == "or") if (word == "or") in pair else None if None in pair else word == "and"
        case ("null", name):
            return event.get(name) is None
        case ("same", name, literal):
            return kind(event.get(name)) == kind(literal) and event.get(name) == literal
        case ("in", name, *literals):
            found = [compared("=", event.get(name), literal) for literal in literals]
            return True if True in found else None if None in found else False
        case (sign, name, literal):
            return compared(sign, event.get(name), literal)
    raise AssertionError(node)


def kind(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def compared(sign: str, value: Any, literal: Any) -> bool | None:
    if value is None or literal is None or kind(value) != kind(literal):
        return None
    return bool({"=": value == literal, "<>": value != literal}.get(sign, value < literal))


def written(node: Any) -> str:
    def literal(value: Any) -> str:
        if isinstance(value, bool):
            return str(value).upper()
        return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else f"{value}"

    match node:
        case ("not", part):
            return f"NOT ({written(part)})"
        case ("and" | "or" as word, left, right):
            return f"({written(left)} {word.upper()} {written(right)})"
        case ("null", name):
            return f"{name} IS NULL"
        case ("same", name, value):
            return f"{name} IS NOT DISTINCT FROM {literal(value)}"
        case ("in", name, *values):
            return f"{name} IN ({', '.join(map(literal, values))})"
        case (sign, name, value):
            return f"{name} {sign} {literal(value)}"
    raise AssertionError(node)


_SIMPLE = st.sampled_from((1, 2.5, -3, "a", "ab", None))
SQL: Any = st.recursive(
    st.one_of(
        st.tuples(
            st.sampled_from(("=", "<>", "<", "same")), _NAMES, _SIMPLE.filter(lambda each: each is not None)
        ),
        st.tuples(st.just("="), _NAMES, st.booleans() | st.none()),
        st.tuples(st.just("in"), _NAMES, st.sampled_from(("a", None)), st.just("ab")),
        st.tuples(st.just("null"), _NAMES),
    ),
    lambda inner: st.tuples(st.sampled_from(("and", "or")), inner, inner) | st.tuples(st.just("not"), inner),
    max_leaves=6,
)


@given(SQL, EVENTS)
def test_a_row_passes_iff_the_condition_is_true_in_three_valued_logic(
    node: Any, event: dict[str, Any]
) -> None:
    filter = dialects.sql(written(node))
    assert filter.matches(fl.Notification.of(event)) == (sql(node, event) is True)
    assert fl.parse(str(filter)) == filter


@pytest.mark.parametrize(
    "text",
    [
        'price > 10 and symbol in {"IBM", "SAP"}',
        'x in [1, 5) or s prefix "a_%!" and not exists y',
        's suffix "it\'s" or s substring "%"',
        "a.`b c` != 2.5 and halted = true",
        "true",
        "x not in {1, 2}",
    ],
)
def test_a_condition_that_is_written_reads_as_the_same_filter(text: str) -> None:
    filter = fl.parse(text)
    try:
        condition = dialects.sql.write(filter)
    except TranslationRefused:
        assert "exists" in text  # null is NULL as well, so SQL cannot say that an attribute is absent
        return
    assert fl.identical(dialects.sql(condition), filter)


# -- all of them -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "text", "column", "construct"),
    [
        ("cesql", "ABC(1) = 2", 1, "the function ABC"),
        ("cesql", "x = LENGTH(1, 2)", 5, "LENGTH of 2 arguments"),
        ("cesql", "x LIKE 5", 8, "unexpected 5"),
        ("cesql", "data = 'x'", 1, "data is no context attribute"),
        ("cesql", "x = 99999999999", 5, "32 bits"),
        ("jms", "a = 1 AND s < 'a'", 11, "compared with <"),
        ("jms", "s IN (1)", 7, "IN lists strings"),
        ("jms", "UPPER(s) = 'A'", 1, "functions"),
        ("jms", "x = 1.5f", 5, "single precision"),
        ("sql", "a = 1 AND x + 1 = 2", 11, "arithmetic"),
        ("sql", "abs(x) = 2", 1, "the function ABS"),
        ("sql", "CASE WHEN x THEN y END", 1, "CASE"),
        ("sql", '"x" = 1', 1, "begins nothing"),
        ("sql", "x IN ('a', 1)", 12, "one type"),
    ],
)
def test_a_refusal_names_the_construct_and_the_column(
    dialect: str, text: str, column: int, construct: str
) -> None:
    with pytest.raises(TranslationRefused, match=construct) as refused:
        dialects.read(dialect, text)
    assert refused.value.column == column


def test_relations_hold_across_dialects() -> None:
    assert fl.identical(dialects.sql("x > 5 AND s IN ('a', 'b')"), dialects.jms("x > 5 AND s IN ('a', 'b')"))
    assert fl.covers(dialects.cesql("type LIKE 'com.%'"), dialects.sql("type = 'com.example'"))
    assert fl.covers(
        dialects.jms("NOT (x = 'a')"), dialects.sql("NOT (x = 'a')")
    )  # which 5 is not unequal to
    assert not fl.covers(dialects.sql("NOT (x = 'a')"), dialects.jms("NOT (x = 'a')"))


def test_an_expression_that_no_constraint_states_is_a_filter_object_that_travels_as_text() -> None:
    assert str(dialects.sql("NOT (a < b)")) == '@compare("b", "<=", "a")'
    filter = dialects.jms("a + 1 > b")
    assert str(filter) == '@jms("a + 1 > b")'
    assert fl.parse(str(filter)).matches(fl.Notification.of({"a": 1, "b": 1.5}))
    assert fl.covers(filter, fl.parse(str(filter)))
    assert not fl.covers(filter, dialects.jms("a + 2 > b"))
