"""Simulations on Spark give the figures that they give anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairlead.errors import FairleadError
from fairlead_lab.simulation import Cell, Scenario, cells_of, compare
from fairlead_lab.simulation.detection import DetectionScenario, compare_detection
from fairlead_lab.simulation.fair import FairScenario, evaluate
from fairlead_lab.spark.sweeps import sweep, sweep_detection, sweep_fair

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples" / "simulation"
SCENARIO = Scenario.of(
    {
        "topology": {"shape": "random", "brokers": 4},
        "routing": {"algorithm": ["simple", "covering"]},
        "workload": {"subscriptions": [3, 8], "publications": 5, "values": 6},
    }
)


def test_two_algorithms_two_sizes_and_two_seeds_are_the_same_rows_as_here(spark: SparkSession) -> None:
    cells = cells_of(SCENARIO, brokers=[3, 6], seeds=[1, 2])
    assert len(cells) == 8
    assert sweep(spark, SCENARIO, cells) == compare(SCENARIO, cells)


def test_a_run_that_fails_in_a_worker_says_what_it_says_here(spark: SparkSession) -> None:
    with pytest.raises(FairleadError, match="0 brokers make no topology"):
        sweep(spark, SCENARIO, [Cell("simple", 0, 1)])


def test_fair_and_detection_scenarios_are_the_same_rows_as_here(spark: SparkSession) -> None:
    fair = FairScenario.of(
        {"kind": "fair", "fair": {"setup": "B", "subscribers": [4], "types": [2], "effort": 100}}
    ).changed(systems=["faidecs", "sequencer"])
    assert sweep_fair(spark, fair) == evaluate(fair)
    detection = DetectionScenario.read(EXAMPLES / "detection_stability.toml")
    detection = detection.changed(policies=detection.policies[:2])
    assert sweep_detection(spark, detection) == compare_detection(detection)
