"""The corpus of worked examples: what the sources state, what follows from them, and where they are wrong.

A row says which notification matches (`matches`), how two filters relate (`relation`), what filters merge to
(`merged`), or what folding gives (`simple`). `schema` declares attributes; without it anything goes.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairlead.filters import Or, covers, identical, merge, overlaps, parse, relate, simplify
from fairlead.filters.schema import Schema
from fairlead.model import Notification
from fairlead.model.encoding import fields_from_json

ROWS = json.loads((Path(__file__).parents[1] / "corpus" / "cases.json").read_text(encoding="utf-8"))


def rows(column: str) -> list[Any]:
    return [pytest.param(row, id=row["name"]) for row in ROWS if column in row]


def schema_of(row: dict[str, Any]) -> Schema | None:
    return Schema(attributes=row["schema"]) if "schema" in row else None


def test_each_row_has_a_name_of_its_own_and_one_claim() -> None:
    assert [name for name, count in Counter(row["name"] for row in ROWS).items() if count > 1] == []
    assert all(
        sum(claim in row for claim in ("matches", "relation", "merged", "simple")) == 1 for row in ROWS
    )


@pytest.mark.parametrize("row", rows("matches"))
def test_a_notification_matches_or_does_not(row: dict[str, Any]) -> None:
    filter = parse(row["filter"], schema_of(row))
    assert filter.matches(Notification.of(fields_from_json(row["notification"]))) is row["matches"]


CONVERSE = {"covers": "covered", "covered": "covers"}


@pytest.mark.parametrize("row", rows("relation"))
def test_two_filters_relate(row: dict[str, Any]) -> None:
    schema = schema_of(row)
    one, other = parse(row["filter"], schema), parse(row["other"], schema)
    relation = relate(one, other, schema)
    assert (relation.name, relation.exact) == (row["relation"], row["exact"])
    back = relate(other, one, schema)
    assert (back.name, back.exact) == (CONVERSE.get(row["relation"], row["relation"]), row["exact"])


@pytest.mark.parametrize("row", rows("merged"))
def test_filters_merge(row: dict[str, Any]) -> None:
    schema = schema_of(row)
    given = [parse(text, schema) for text in row["merge"]]
    expected = parse(row["merged"], schema)
    for order in (given, given[::-1]):
        merger = merge(order, schema)
        assert merger is not None
        assert merger.perfect is row["perfect"]
        assert identical(merger.filter, expected, schema), str(merger.filter)
        assert identical(merger.filter, Or.of(given), schema) is row["perfect"]


@pytest.mark.parametrize("row", rows("simple"))
def test_a_filter_folds(row: dict[str, Any]) -> None:
    schema = schema_of(row)
    assert simplify(parse(row["filter"], schema), schema) == parse(row["simple"], schema)


# -- what JSON cannot hold -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class StockQuote:
    """An object that is embedded in a notification (book 3.1.4)."""

    symbol: str
    price: float
    quantity: int

    def id(self) -> str:
        return self.symbol

    def volume(self) -> float:
        return self.price * self.quantity


def quoting(*given: Any) -> Notification:
    return Notification.of({"quote": StockQuote(*given)})


def test_method_filters_merge_into_the_set_of_answers() -> None:
    merger = merge([parse('quote.id() = "IBM"'), parse('quote.id() = "MSFT"')])
    assert merger is not None
    assert merger.filter == parse('quote.id() in {"IBM", "MSFT"}')
    assert merger.filter.matches(quoting("IBM", 1.0, 1))
    assert not merger.filter.matches(quoting("SAP", 1.0, 1))


def test_a_covering_that_only_the_methods_know_is_not_seen_and_does_no_harm() -> None:
    one, other = parse("quote.volume() > 10000"), parse("quote.price > 100 and quote.quantity > 100")
    n = quoting("IBM", 101.0, 101)
    assert one.matches(n)
    assert other.matches(n)
    assert not covers(one, other)
    assert overlaps(one, other)
    assert not relate(one, other).exact
