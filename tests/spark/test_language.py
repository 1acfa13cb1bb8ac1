"""A pipeline's trace names the schema and the extensions that it was made with: an audit needs no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

from fairlead.audit import parquet
from fairlead.cli import main
from fairlead.filters.extensions import unregister
from fairlead.filters.schema import Schema
from fairlead.spark import small
from fairlead.spark.config import Config
from fairlead.spark.running import Pipeline
from fairlead.spark.subscriptions import load_extension

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "abstract type Quote\ntype BondQuote: Quote\ntype StockQuote: Quote\nat: time\n"
TYPED = [
    {"id": str(number), "producer": "p", "time": number, "type": type, "at": "2026-03-02T10:00:00+01:00"}
    for number, type in enumerate(("BondQuote", "StockQuote", "BondQuote"))
]
NUMBERS = [{"id": str(number), "time": number, "x": number} for number in range(7)]
DIVIDES = '''
"""An extension that is given as a class."""

from fairlead.filters.extensions import ExtensionBase
from fairlead.model import Kind


class Divides(ExtensionBase):
    name = "divides_by"
    kinds = frozenset({Kind.NUMBER})

    def holds(self, value, literal, /):
        return value % int(literal) == 0
'''


@pytest.fixture(params=["driver", "jobs"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where batches are taken: both write a trace, each in its own way."""
    if request.param == "jobs":
        monkeypatch.setattr(small, "ROWS_MAX", 0)
    return str(request.param)


def pipeline(spark: SparkSession, place: Path, events: list[Any], filter: str, **tables: Any) -> Pipeline:
    (place / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    (place / "subscriptions.jsonl").write_text(json.dumps({"id": "s", "filter": filter}) + "\n")
    given: dict[str, Any] = {
        "output": str(place / "out"),
        "events": {"path": str(place / "events.jsonl")},
        "subscriptions": {"path": str(place / "subscriptions.jsonl")},
        "audit": {"specifications": ["simple", "ordered"]},
        "report": False,
        **tables,
    }
    return Pipeline(Config.of(given), spark)


def test_an_output_is_audited_with_the_schema_it_was_made_with(
    spark: SparkSession, tmp_path: Path, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the schema, `type is Quote` holds of no BondQuote, and `at` is text."""
    (tmp_path / "own.schema").write_text(SCHEMA)
    (tmp_path / "other.schema").write_text("type BondQuote\ntype StockQuote\n")
    wanted = 'type is Quote and at > t"2026-01-01T00:00:00Z"'
    run = pipeline(spark, tmp_path, TYPED, wanted, schema=str(tmp_path / "own.schema"))
    summary = run.run()
    assert (summary.deliveries, set(summary.verdicts.values())) == (3, {"holds"})
    out = str(tmp_path / "out")
    assert main(["audit", out, "--spec", "simple"]) == 0
    assert capsys.readouterr().out.endswith(": holds\n")
    language = parquet.language_of(*run.output.paths("trace"))
    assert language is not None
    assert language.schema_for(None) == Schema.read(tmp_path / "own.schema")
    assert main(["audit", out, "--spec", "simple", "--on", "spark"]) == 0
    assert main(["audit", out, "--spec", "simple", "--schema", str(tmp_path / "other.schema")]) == 2
    assert "the trace was made with the schema" in capsys.readouterr().err


@pytest.fixture
def divides(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The name of the class, which driver and workers can import; the first who loads it registers it."""
    place = tmp_path_factory.mktemp("extension")
    (place / "divisors_of_a_test.py").write_text(DIVIDES)
    monkeypatch.syspath_prepend(place)
    spark.sparkContext.addPyFile(str(place / "divisors_of_a_test.py"))
    yield "divisors_of_a_test:Divides"
    unregister("divides_by")
    load_extension.cache_clear()


def test_an_extension_that_is_a_class_is_loaded_once_for_the_run_and_its_audit(
    spark: SparkSession, tmp_path: Path, divides: str
) -> None:
    for where, most in (("driver", small.ROWS_MAX), ("jobs", 0)):
        with patch.object(small, "ROWS_MAX", most):
            output = str(tmp_path / where)
            run = pipeline(spark, tmp_path, NUMBERS, 'x divides_by "3"', extensions=[divides], output=output)
            summary = run.run()
        assert (summary.deliveries, summary.verdicts) == (3, {"simple": "holds", "ordered": "holds"})
        assert main(["audit", output, "--extension", divides]) == 0
        assert main(["audit", output, "--extension", divides, "--on", "spark"]) == 0
