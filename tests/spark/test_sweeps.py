"""Simulations on Spark give the figures that they give anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fairlead.errors import FairleadError
from fairlead_lab.simulation import Cell, Scenario, cells_of, compare
from fairlead_lab.spark.sweeps import sweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
