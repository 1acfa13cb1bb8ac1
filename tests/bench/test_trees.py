"""Two source trees side by side: the cost of a delivery in each, pair by pair."""

from __future__ import annotations

from pathlib import Path

from fairlead_lab.bench.trees import ROWS, Tree, measure

ROOT = Path(__file__).parents[2]


def test_brokers_of_two_trees_are_measured_in_turns() -> None:
    [pair] = measure([Tree(ROOT), Tree(ROOT)], ROWS["throughput"], rounds=1, messages=1_000)
    assert all(0 < cost_us < 1e6 for cost_us in pair)


def test_a_tree_without_a_laboratory_has_its_load_in_the_product(tmp_path: Path) -> None:
    (tmp_path / "src" / "fairlead" / "network").mkdir(parents=True)
    (tmp_path / "src" / "fairlead" / "network" / "load.py").touch()
    assert Tree(tmp_path).load == "fairlead.network.load"
    assert Tree(tmp_path).settings(tmp_path) == []
    assert Tree(ROOT).load == "fairlead_lab.bench.load"
    assert Tree(ROOT).settings(tmp_path) == ["-c", str(tmp_path / "broker.toml")]
