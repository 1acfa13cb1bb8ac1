"""The curves are drawn for any results, the same file for the same results."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_lab.simulation import Scenario, cells_of, compare, plots

SCENARIO = Scenario.of(
    {
        "topology": {"shape": "line", "brokers": 4},
        "routing": {"algorithm": ["flooding", "simple", "hierarchical-covering"]},
        "workload": {"subscriptions": [1, 4, 40], "publications": 5, "values": 20},
    }
)


def test_the_curves_of_all_algorithms_are_drawn_in_both_formats(tmp_path: Path) -> None:
    written = plots.draw_curves(compare(SCENARIO), tmp_path)
    assert [path.name for path in written] == ["curves.png", "curves.svg"]
    text = written[1].read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in text for name in SCENARIO.routing.algorithms)
    assert all(f"<!-- {figure.title} -->" in text for figure in plots.FIGURES)
    assert {"Routing tables", "Hops", "Delay", "In vain"} <= {figure.title for figure in plots.FIGURES}


def test_the_same_results_are_the_same_file_and_each_size_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "FORMATS", ("svg",))
    monkeypatch.setattr(plots, "FIGURES", plots.FIGURES[:1])
    results = compare(SCENARIO, cells_of(SCENARIO, brokers=[3, 4], seeds=[1, 2]))
    written = plots.draw_curves(results, tmp_path)
    assert [path.name for path in written] == ["curves-3.svg", "curves-4.svg"]
    first = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in plots.draw_curves(results, tmp_path)] == first


def test_a_single_point_is_drawn_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario.of(
        {
            "topology": {"shape": "line", "brokers": 1},
            "workload": {"subscriptions": 1, "publications": 0},
        }
    )
    monkeypatch.setattr(plots, "FORMATS", ("svg",))
    assert len(plots.draw_curves(compare(scenario), tmp_path)) == 1
