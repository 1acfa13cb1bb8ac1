"""A cell: an engine's speed counts iff its answers are those of the oracle."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from types import ModuleType
from typing import Any

import pytest

from fairlead.filters.filter import Filter
from fairlead.matching import EngineUnknown
from fairlead.matching.brute import Brute
from fairlead.model import Notification
from fairlead_lab.bench.cell import KNOWN, Cell, Task, made, measure, oracle_sample
from fairlead_lab.bench.harness import MEASURED, NOT_RUN, WRONG, as_json, of_json
from fairlead_lab.bench.runner import fresh
from fairlead_lab.matching.shapes import SHAPES

TINY = {"rounds": 2, "slice_s": 0.001, "pool": 20, "patience_s": 60.0, "churn_s": 0.05}
QUICK_SHAPES = [shape for shape in SHAPES if shape != "M8"]


def tiny(shape: str, engine: str, n: int = 30, **given: Any) -> Task:
    return Task(shape, n, engine, **{**TINY, **given})


class Forgetful(Brute[int]):
    """Misses its first match."""

    def match(self, notification: Notification) -> list[int]:
        return super().match(notification)[1:]


class Eager(Brute[int]):
    """Finds, in batches, what does not match."""

    def match_batch(self, notifications: Any) -> list[list[int]]:
        return [[*super(Eager, self).match(notification), 0] for notification in notifications]


class Unsteady(Brute[int]):
    """Goes wrong after a removal."""

    def remove(self, id: int) -> None:
        pass


class Slow(Brute[int]):
    def add(self, id: int, filter: Filter) -> None:
        while True:
            pass


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("bench_test_engines")
    for engine in (Forgetful, Eager, Unsteady, Slow):
        setattr(module, engine.__name__, engine)
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize("shape", QUICK_SHAPES)
@pytest.mark.parametrize("engine", ["counting", "brute"])
def test_every_shape_is_measured_and_compared(shape: str, engine: str) -> None:
    cell = measure(tiny(shape, engine))
    assert (cell.status, cell.reason) == (MEASURED, "")
    assert cell.checked == 20
    assert cell.rates["one"].rounds == 2
    assert cell.fill_s is not None
    assert cell.tests_each is not None


def test_the_production_engine_is_measured_in_every_way() -> None:
    cell = measure(tiny("M5", "columnar", n=200, from_json=True))
    assert (cell.status, cell.reason) == (MEASURED, "")
    assert set(cell.rates) == {"one", "batch", "json", "arrow"}
    assert cell.matches_each == 99


def test_brute_tests_every_filter_and_m5_matches_all_but_one() -> None:
    cell = measure(tiny("M5", "brute", n=100))
    assert (cell.tests_each, cell.matches_each) == (100, 99)


@pytest.mark.parametrize("broken", ["Forgetful", "Eager"])
def test_an_engine_that_answers_otherwise_than_the_oracle_is_caught(broken: str) -> None:
    cell = measure(tiny("M5", f"bench_test_engines:{broken}"))
    assert cell.status == WRONG
    assert "notification 0 has" in cell.reason
    assert cell.rates == {}


def test_an_engine_that_goes_wrong_under_churn_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of M5's filters nearly all match, so one that was removed and is still found is seen.
    monkeypatch.setitem(SHAPES, "M8", replace(SHAPES["M5"], name="M8"))
    assert measure(tiny("M8", "brute", churn_s=0.2)).status == MEASURED
    cell = measure(tiny("M8", "bench_test_engines:Unsteady", churn_s=0.2))
    assert cell.status == WRONG
    assert "after churn" in cell.reason


def test_under_churn_as_many_come_as_go() -> None:
    cell = measure(tiny("M8", "counting", churn_s=0.2))
    assert cell.status == MEASURED, cell.reason
    assert cell.changes_per_s is not None
    assert cell.changes_per_s > 0
    assert cell.rates["churn"].median > 0
    assert cell.pause_ms_max is not None


def test_an_engine_that_is_too_slow_is_not_run_and_says_so() -> None:
    cell = measure(tiny("M1", "bench_test_engines:Slow", patience_s=0.05))
    assert (cell.status, cell.reason[:8]) == (NOT_RUN, "too slow")


def test_a_cell_survives_its_way_through_a_fresh_process() -> None:
    cell = of_json(Cell, fresh("fairlead_lab.bench.cell", asdict(tiny("M3", "tree")), 120))
    assert (cell.status, cell.engine, cell.matches_each) == (MEASURED, "tree", 10)
    assert of_json(Cell, json.loads(json.dumps(as_json(cell)))) == cell


def test_engines_are_known_by_name_or_by_their_class() -> None:
    assert isinstance(made("fairlead.matching.brute:Brute"), Brute)
    assert all(made(engine).statistics().filters == 0 for engine in KNOWN)
    with pytest.raises(EngineUnknown, match="no matching engine is named 'magic'"):
        made("magic")


def test_the_oracle_looks_at_fewer_notifications_where_there_are_more_filters() -> None:
    assert [oracle_sample(n, 10_000) for n in (1_000, 100_000, 1_000_000, 10**9)] == [100, 10, 2, 2]
    assert oracle_sample(10, 5) == 5
