"""Scenarios of detection: read whole, the same numbers for the same seed, shown as a table and as bars."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead.cli import main
from fairlead.errors import ScenarioError, SimulationFailed
from fairlead_lab.simulation.detection import (
    DetectionResults,
    DetectionRow,
    DetectionScenario,
    compare_detection,
    is_detection,
    plots,
    runs,
)
from fairlead_lab.simulation.network import Simulation

EXAMPLES = Path(__file__).parents[3] / "examples" / "simulation"
GIVEN: dict[str, Any] = {
    "kind": "detection",
    "topology": {"shape": "line", "brokers": 5},
    "detection": {
        "policies": ["centralised", "minimum bandwidth", "maximum reliability"],
        "consume": ["guaranteed", "best effort"],
        "duration_ms": 400,
        "heartbeat_ms": 20,
    },
    "publishers": [
        {"broker": "B1", "type": "A", "every_ms": 8, "keys": 2},
        {"broker": "B5", "type": "B", "every_ms": 8, "keys": 2},
    ],
    "subscriptions": [{"broker": "B3", "pattern": "A followed by B within 40 ms, same k"}],
}
SCENARIO = DetectionScenario.of(GIVEN)


def changed(**tables: Any) -> dict[str, Any]:
    return {**GIVEN, **{name: {**GIVEN[name], **table} for name, table in tables.items()}}


def test_the_same_seed_is_the_same_numbers_and_guaranteed_detection_is_right() -> None:
    results = compare_detection(SCENARIO)
    assert results == compare_detection(SCENARIO)
    guaranteed = [row for row in results.rows if row.consume == "guaranteed"]
    assert [row.policy for row in guaranteed] == list(SCENARIO.policies)
    assert all(row.expected == row.detected > 0 == row.missing == row.wrong for row in guaranteed)
    assert len({row.events for row in results.rows}) == 1
    assert guaranteed[2].detectors == 2
    assert guaranteed[2].repeated == 0  # brokers deliver once what both detectors publish
    assert json.loads(results.json())["rows"][0]["policy"] == "centralised"
    assert len(results.csv().splitlines()) == 1 + len(results.rows)
    other = compare_detection(SCENARIO.changed(policies=["centralised"], seed=7))
    assert other.rows[0].seed == 7
    assert other.rows[0].events != results.rows[0].events


def test_a_crash_is_survived_by_redundant_detectors() -> None:
    given = changed(
        topology={"shape": "star", "brokers": 7},
        detection={
            "policies": ["minimum impact", "maximum reliability"],
            "consume": "guaranteed",
            "hosts": ["B6", "B7"],
            "crash_ms": 200,
        },
    )
    impact, reliable = compare_detection(DetectionScenario.of(given)).rows
    assert impact.survived_least is not None
    assert impact.survived_least < 0.5
    assert (reliable.survived_mean, reliable.survived_least) == (1.0, 1.0)


def test_detectors_move_to_where_traffic_has_shifted_and_nothing_is_lost() -> None:
    given = changed(
        detection={
            "policies": "minimum bandwidth",
            "consume": "guaranteed",
            "duration_ms": 1500,
            "shift_ms": 200,
            "adapt_ms": 900,
        }
    )
    given["publishers"] = [
        {**GIVEN["publishers"][0], "every_ms": 5, "later_every_ms": 50},
        {**GIVEN["publishers"][1], "every_ms": 50, "later_every_ms": 5},
    ]
    (row,) = compare_detection(DetectionScenario.of(given)).rows
    assert row.moved == 1
    assert row.detected == row.expected


def test_what_is_found_wrongly_is_told_with_what_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "detect_in_order", lambda *_: {("s1", "none"): 1})
    with pytest.raises(SimulationFailed, match="centralised, guaranteed, seed 0: 1 composites are missing"):
        compare_detection(SCENARIO)


def test_all_that_is_wrong_with_a_file_is_told_at_once() -> None:
    with pytest.raises(ScenarioError) as told:
        DetectionScenario.of(
            {
                "kind": "detection",
                "topology": {"shape": "ring", "brokers": 3},
                "detection": {"policies": ["minimum fuss"], "threshold": 2},
                "publishers": [{"broker": "B1", "type": "A", "every_ms": 0}],
            }
        )
    text = str(told.value)
    for place in (
        "[topology] shape",
        "policies",
        "threshold",
        "[[publishers]] 1: every_ms",
        "[[subscriptions]]",
    ):
        assert place in text
    with pytest.raises(ScenarioError, match="no broker 'B9'"):
        DetectionScenario.of(changed(detection={"hosts": ["B9"]}))
    with pytest.raises(ScenarioError, match="pattern"):
        DetectionScenario.of({**GIVEN, "subscriptions": [{"broker": "B1", "pattern": "A then"}]})
    with pytest.raises(ScenarioError, match="minimum bandwith"):
        SCENARIO.changed(policies=["minimum bandwith"])


@pytest.mark.parametrize("name", ["detection_policies", "detection_stability", "detection_failure"])
def test_the_examples_are_read(name: str) -> None:
    path = EXAMPLES / f"{name}.toml"
    assert is_detection(path)
    assert DetectionScenario.read(path).subscriptions
    assert not is_detection(EXAMPLES / "small.toml")


def test_the_bars_are_the_same_file_for_the_same_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "FORMATS", ("svg",))
    row = DetectionRow(
        *("centralised", "guaranteed", 1, 100, 2, 1, 0, 150, 10, 20, 30, 40, 90, "B2", 9_000, 20_000),
        *(10, 10, 0, 0, 0, 0),
    )
    results = DetectionResults(SCENARIO, (row, replace(row, consume="best effort", survived_mean=0.5)))
    (written,) = plots.draw_detection(results, tmp_path)
    first = written.read_bytes()
    assert b"Reliability" in first
    plots.draw_detection(results, tmp_path)
    assert written.read_bytes() == first


def test_the_command_shows_a_table_for_each_detection_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.toml"
    path.write_text(
        """
kind = "detection"
topology = {shape = "line", brokers = 3}
detection = {duration_ms = 100, heartbeat_ms = 20}
publishers = [{broker = "B1", type = "A", every_ms = 5}, {broker = "B3", type = "B", every_ms = 5}]
subscriptions = [{broker = "B2", pattern = "A followed by B"}]
""",
        encoding="utf-8",
    )
    assert main(["simulate", str(path), "--algorithm", "centralised", "--out", str(tmp_path / "out")]) == 0
    assert "guaranteed; " in capsys.readouterr().out
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        "policies.png",
        "policies.svg",
        "results.csv",
        "results.json",
    ]
    assert main(["simulate", str(path), "--algorithm", "minimum load", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"] == "minimum load"
    assert main(["simulate", str(path), "--check"]) == 2
    assert "about detection" in capsys.readouterr().err


def test_the_simulation_says_when_the_next_thing_happens() -> None:
    assert Simulation([]).next_time is None
