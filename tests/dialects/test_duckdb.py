"""WHERE clauses, compared with DuckDB: a row passes here iff it passes there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.dialects import sql
from fairlead.filters import Filter
from fairlead.filters.language import parse
from fairlead.model import Notification

NUMBERS = (None, -1, 0, 0.5, 1, 2)
TEXTS = (None, "", "a", "ab", "B", "a%", "_b")
BOOLEANS = (None, True, False)
ROWS: list[dict[str, Any]] = [
    {"n": n, "m": m, "s": s, "t": t, "b": b}
    for n, m, (s, t), b in product(NUMBERS, (None, 0.5, 1), [*product(TEXTS, (None, "a", "B"))], BOOLEANS)
]


@pytest.fixture(scope="module")
def peer() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE events (place INTEGER, n DOUBLE, m DOUBLE, s VARCHAR, t VARCHAR, b BOOLEAN)"
        )
        values = ", ".join(
            f"({at}, {', '.join('NULL' if value is None else _literal(value) for value in row.values())})"
            for at, row in enumerate(ROWS)
        )
        connection.execute(f"INSERT INTO events VALUES {values}")
        yield connection


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).upper()


NUMBER = st.sampled_from([str(each) for each in NUMBERS[1:]])
TEXT = st.sampled_from([_literal(each) for each in TEXTS[1:]])
BOOLEAN = st.sampled_from(["TRUE", "FALSE"])
PLAIN = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
ORDERS = PLAIN | st.sampled_from(["IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
NOT = st.sampled_from(["", "NOT "])
KINDS = ((st.sampled_from(["n", "m"]), NUMBER), (st.sampled_from(["s", "t"]), TEXT))
LOGICAL = ("b", "b IS TRUE", "b IS NOT FALSE", "b = TRUE", "b IS DISTINCT FROM FALSE")
PATTERN = st.text("aAbB%_!", max_size=4)


@st.composite
def predicates(draw: st.DrawFn) -> str:
    column, literal = draw(st.sampled_from(KINDS))
    name = draw(column)
    match draw(st.sampled_from(["order", "columns", "between", "in", "null", "like", "boolean"])):
        case "order":
            return f"{name} {draw(ORDERS)} {draw(literal)}"
        case "columns":
            return f"{name} {draw(PLAIN)} {draw(column)}"
        case "between":
            return f"{name} {draw(NOT)}BETWEEN {draw(literal)} AND {draw(literal)}"
        case "in":
            return f"{name} {draw(NOT)}IN ({', '.join(draw(st.lists(literal, min_size=1, max_size=3)))})"
        case "null":
            return f"{draw(st.sampled_from(['n', 's', 'b']))} IS {draw(NOT)}NULL"
        case "like":
            pattern = draw(PATTERN).replace("!", "!!" if draw(st.booleans()) else "!%")
            return f"s {draw(NOT)}{draw(st.sampled_from(['LIKE', 'ILIKE']))} '{pattern}' ESCAPE '!'"
        case _:
            return draw(
                st.sampled_from(["b", "b IS TRUE", "b IS NOT FALSE", "b = TRUE", "b IS DISTINCT FROM FALSE"])
            )


CONDITIONS = st.recursive(
    predicates(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda each: f"({' '.join(each)})"),
        inner.map(lambda each: f"NOT ({each})"),
    ),
    max_leaves=5,
)


ABSENT = [Notification.of({name: value for name, value in row.items() if value is not None}) for row in ROWS]
NULLS = [Notification.of(row) for row in ROWS]


def passing(filter: Filter, rows: list[Notification]) -> list[int]:
    return [at for at, row in enumerate(rows) if filter.matches(row)]


def passing_there(peer: duckdb.DuckDBPyConnection, condition: str) -> list[int]:
    return [
        at for (at,) in peer.execute(f"SELECT place FROM events WHERE {condition} ORDER BY place").fetchall()
    ]


@given(CONDITIONS)
@settings(max_examples=settings.default.max_examples // 2)
def test_a_row_passes_iff_it_passes_in_duckdb(peer: duckdb.DuckDBPyConnection, condition: str) -> None:
    """NULL is an attribute that is absent, or null."""
    filter, wanted = sql(condition), passing_there(peer, condition)
    assert passing(filter, ABSENT) == wanted
    assert passing(filter, NULLS) == wanted


FILTERS = st.sampled_from(
    [
        "n > 0",
        "n in [0, 1]",
        't = "B"',
        's in {"a", "ab"}',
        "b = true",
        's prefix "a"',
        's suffix "b"',
        "m < 1",
        "n != 0.5",
    ]
)


@given(FILTERS, FILTERS, st.booleans())
def test_what_is_written_passes_the_same_rows_in_duckdb(
    peer: duckdb.DuckDBPyConnection, left: str, right: str, both: bool
) -> None:
    filter = parse(f"({left}) {'and' if both else 'or'} ({right})")
    assert passing_there(peer, sql.write(filter)) == passing(filter, ABSENT)
