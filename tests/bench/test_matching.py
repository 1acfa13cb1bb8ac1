"""The matching benchmark: the plan, what is left out and why, and what the figures say about the goals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from bench_reports import matching_cell as cell
from bench_reports import matching_report as report

from fairlead.cli import main
from fairlead.matching import EngineUnknown
from fairlead_lab.bench.cell import Cell, Task
from fairlead_lab.bench.harness import MEASURED, NOT_RUN, UnknownShape
from fairlead_lab.bench.matching import GOAL_SHAPES, Goal, Plan, Report, run, shapes_named
from fairlead_lab.bench.runner import spread_of
from fairlead_lab.matching.operators import OPERATORS
from fairlead_lab.matching.shapes import SHAPES


def measured_as(answer: Callable[[Task], Cell], plan: Plan) -> tuple[Report, list[Task]]:
    asked: list[Task] = []

    def measure(task: Task) -> Cell:
        asked.append(task)
        return answer(task)

    return run(plan, lambda _: None, measure), asked


# -- the plan ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["M1"], ["M1"]),
        (["m3"], ["M3", "M3-near"]),
        (["M5", "M4"], ["M4-prefix", "M4-suffix", "M4-substring", "M5"]),
        (["M4-suffix"], ["M4-suffix"]),
    ],
    ids=str,
)
def test_a_name_stands_for_its_shape_and_its_variants(given: list[str], found: list[str]) -> None:
    assert shapes_named(given) == found


def test_a_shape_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    with pytest.raises(UnknownShape, match="M4-prefix"):
        shapes_named(["M99"])


def test_without_sizes_every_shape_has_its_own_and_churn_one() -> None:
    plan = Plan()
    assert plan.sizes_for("M1") == (1_000, 10_000, 100_000, 1_000_000)
    assert plan.sizes_for("M7") == (1_000, 10_000, 100_000)
    assert plan.sizes_for("M8") == (100_000,)
    assert {n for shape in SHAPES for n in Plan.short().sizes_for(shape)} == {1_000, 10_000}


def test_every_engine_is_asked_for_every_shape_and_size() -> None:
    plan = Plan(shapes=("M1", "M5"), sizes=(10, 20), engines=("tree", "brute"), kernels=False)
    found, asked = measured_as(lambda task: cell(task.shape, task.n, task.engine), plan)
    assert [(task.shape, task.n, task.engine) for task in asked] == [
        (shape, n, engine) for shape in ("M1", "M5") for n in (10, 20) for engine in ("tree", "brute")
    ]
    assert len(found.cells) == 8


def test_an_engine_that_was_too_slow_is_not_asked_with_more_and_the_table_says_so() -> None:
    def answer(task: Task) -> Cell:
        if task.engine == "poset":
            return Cell(task.shape, task.n, task.engine, NOT_RUN, "too slow: more than 6 s")
        return cell(task.shape, task.n, task.engine)

    plan = Plan(shapes=("M1", "M8"), sizes=(10, 20), engines=("poset", "tree"), kernels=False)
    found, asked = measured_as(answer, plan)
    assert [(task.shape, task.n) for task in asked if task.engine == "poset"] == [("M1", 10)]
    assert [each.reason for each in found.cells if each.engine == "poset"][1:] == [
        "too slow at 10",
        "too slow at 10 on M1",
        "too slow at 10 on M1",
    ]
    assert all(each.status == MEASURED for each in found.cells if each.engine == "tree")


def test_an_engine_that_would_fill_for_too_long_is_not_asked() -> None:
    def answer(task: Task) -> Cell:
        return cell(task.shape, task.n, task.engine, fill_s=1.0)

    plan = Plan(shapes=("M1",), sizes=(10, 100), engines=("tree",), patience_s=5, kernels=False)
    found, asked = measured_as(answer, plan)
    assert len(asked) == 1
    assert found.cells[1].reason == "too slow: filling would take 10 s or more"


def test_an_engine_that_would_match_for_too_long_is_not_asked() -> None:
    def answer(task: Task) -> Cell:
        return cell(task.shape, task.n, task.engine, one=2.0)

    plan = Plan(shapes=("M1",), sizes=(10, 100), engines=("tree",), patience_s=5, kernels=False)
    found, asked = measured_as(answer, plan)
    assert len(asked) == 1
    assert found.cells[1].reason.startswith("too slow: 206 notifications would take about 1,030 s")


def test_an_unknown_engine_is_an_error_before_anything_runs() -> None:
    with pytest.raises(EngineUnknown):
        run(Plan(engines=("magic",), kernels=False), lambda _: None)


# -- what it says ------------------------------------------------------------------------------------------


def goal(found: Report, shape: str, what: str) -> Goal:
    [wanted] = [each for each in found.goals() if each.shape == shape and each.what.startswith(what)]
    return wanted


def test_operators_are_measured_for_the_production_engine_and_compared_with_an_equality() -> None:
    plan = Plan(shapes=tuple(shapes_named(["operators-equal", "operators-regex"])), kernels=False)
    rates = {"operators-equal": 1_000.0, "operators-regex": 80.0}

    def answer(task: Task) -> Cell:
        arrow = {"arrow": spread_of([rates.get(task.shape, 500.0)])}
        return replace(cell(task.shape, task.n, task.engine), rates=arrow)

    found, asked = measured_as(answer, plan)
    assert {(task.engine, task.n) for task in asked} == {("columnar", 10_000)}
    assert set(shapes_named(["operators"])) == set(OPERATORS)
    assert found.operator_costs()["operators-regex"] == pytest.approx(12.5)
    assert goal(found, "operators-regex", "the dearest").met is False
    assert any("× equality" in grid.heads for grid in found.grids())


def test_a_goal_is_met_or_missed_by_a_factor_that_is_told() -> None:
    rates = {"one": spread_of([60_000.0]), "batch": spread_of([100_000.0]), "arrow": spread_of([125_000.0])}
    found = report(replace(cell("M1", 100_000, "columnar"), rates=rates))
    assert goal(found, "M1", "one") == Goal(
        "M1", "one at a time, n = 100k", "≥ 50,000/s", "60,000/s (1.20×)", True
    )
    # The better of lists and Arrow's batches counts.
    assert goal(found, "M1", "in batches").measured == "125,000/s (0.5×)"
    assert goal(found, "M1", "in batches").met is False


def test_texts_are_held_against_event_ruler_wherever_both_were_measured() -> None:
    def texts(shape: str, engine: str, rate: float) -> Cell:
        return replace(cell(shape, 1_000, engine), rates={"json": spread_of([rate])})

    beside = [texts("M4-suffix", "columnar", 300.0), texts("M4-suffix", "ruler", 400.0)]
    found = report(*beside, texts("M1", "columnar", 300.0), texts("M4-prefix", "ruler", 400.0))
    assert goal(found, "M4-suffix", "from JSON").measured == "0.75× (0.75×)"
    assert goal(found, "M4-suffix", "from JSON").met is False
    assert not [
        each for each in found.goals() if each.what.startswith("from JSON") and each.shape != "M4-suffix"
    ]


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert {each.met for each in report().goals()} == {None}
    slow = Cell("M1", 100_000, "columnar", NOT_RUN, "too slow: more than 6 s")
    assert goal(report(slow), "M1", "one").measured == "not measured"


def test_memory_and_adding_are_judged_at_a_million_on_m1() -> None:
    found = report(cell("M1", 1_000_000, "columnar", bytes_each=250.0, fill_s=90.0))
    assert goal(found, "M1", "memory").met is True
    assert goal(found, "M1", "adding").met is False


def test_churn_is_sustained_if_nearly_all_changes_were_made_in_time() -> None:
    for achieved, met in ((999.0, True), (951.0, True), (800.0, False)):
        found = report(cell("M8", 100_000, "columnar", changes_per_s=achieved))
        assert goal(found, "M8", "changes").met is met


def test_growth_is_the_exponent_of_cost_which_is_the_inverse_of_the_rate() -> None:
    cells = [cell("M2", n, "brute", one=1e6 / n) for n in (10, 100, 1000)]
    [(shape, engine, mode, slope)] = report(*cells).growth()
    assert (shape, engine, mode) == ("M2", "brute", "one")
    assert slope == pytest.approx(1.0)


def test_a_row_has_the_ratio_to_brute_and_a_hole_its_reason() -> None:
    cells = [
        cell("M1", 1_000, "columnar", one=50_000.0),
        cell("M1", 1_000, "brute", one=500.0),
        Cell("M1", 1_000, "poset", NOT_RUN, "too slow: more than 6 s"),
    ]
    *_, grid = report(*cells).grids()
    assert grid.rows[0][:4] == ("1k", "columnar", "50.0k [47.5k, 52.5k]", "100")
    assert grid.rows[1][3] == "1.00"
    assert grid.rows[2][-1] == "not run: too slow: more than 6 s"
    assert len({len(row) for row in (grid.heads, *grid.rows)}) == 1
    assert "too slow" in grid.plain()
    assert grid.markdown().splitlines()[2].startswith("| n | engine |")


def test_the_goals_are_those_of_the_shapes_with_one() -> None:
    assert {each.shape for each in report().goals()} == {*GOAL_SHAPES, "M2", "M6", "M8", "M9"}


# -- the command -------------------------------------------------------------------------------------------


def test_the_command_measures_and_shows_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["bench", "matching", "--quick", "--shape", "M5", "--n", "20", "--engine", "tree", "--rounds", "1"]
    assert main(argv) == 0
    shown = capsys.readouterr()
    assert "M5: all regions but one, of one service" in shown.out
    assert "tree" in shown.err
