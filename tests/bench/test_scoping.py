"""The part of the pipeline benchmark about scopes: its graphs, its ratios, its goals."""

from __future__ import annotations

import pytest
from bench_reports import pipeline_sample

from fairlead_lab.bench.cores import Round
from fairlead_lab.bench.scoping import INTERFACES, MAPPED, MAPPINGS, OPEN, UNSCOPED, Scoped, measure_graph


def scoped() -> Scoped:
    rounds = {
        UNSCOPED: (Round(9.0, 9.0), Round(2.0, 4.0), Round(4.0, 4.0)),
        OPEN: (Round(99.0, 9.0), Round(2.0, 4.0), Round(4.0, 8.0)),
        INTERFACES: (Round(99.0, 9.0), Round(3.0, 4.0), Round(6.0, 4.0)),
        MAPPINGS: (Round(99.0, 9.0), Round(8.0, None), Round(4.0, None)),
        MAPPED: (Round(99.0, 9.0), Round(3.0, None), Round(6.0, None)),
    }
    return Scoped(1_000, 100, rounds, dict.fromkeys(rounds, 50))


def test_a_scoped_pipeline_is_held_against_that_without_scopes_of_its_round_unless_it_is_cold() -> None:
    times, cores = scoped().times(INTERFACES), scoped().times(OPEN, cpu=True)
    assert times is not None
    assert cores is not None
    assert (times.min, times.max) == (1.5, 1.5)
    assert cores.median == pytest.approx(1.5)
    assert scoped().times(MAPPINGS, cpu=True) is None
    report = pipeline_sample()
    report.scoped = scoped()
    assert [each.met for each in report.goals() if each.shape == "scopes"] == [True, True, False, True]
    [grid] = [each for each in report.tables() if each.title.startswith("A pipeline with scopes")]
    assert [row[0] for row in grid.rows] == [UNSCOPED, OPEN, INTERFACES, MAPPINGS, MAPPED]


def test_a_measured_graph_is_a_tree_with_ten_components_in_each_scope() -> None:
    cost = measure_graph(7, 2)
    assert (cost.scopes, cost.components, cost.levels) == (7, 70, 3)
    report = pipeline_sample()
    report.graphs = [cost]
    [grid] = [each for each in report.tables() if each.title.startswith("Scope graphs")]
    assert grid.rows[0][:3] == ("7", "70", "3")
