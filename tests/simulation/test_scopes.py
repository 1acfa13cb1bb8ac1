"""`fairlead simulate` compares the architectures of scopes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.cli import main
from fairlead.errors import ScenarioError
from fairlead_lab.scopes.architectures import ARCHITECTURES
from fairlead_lab.simulation.scopes import ScopesScenario, compare_scopes

SMALL = """
kind = "scopes"
seed = 3

[scopes]
brokers = 7
depths = [1, 3]
components = 12
publications = 10
"""


def test_all_architectures_deliver_the_same_and_collapsed_filters_take_the_fewest_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "scopes.toml"
    path.write_text(SMALL)
    assert main(["simulate", str(path), "--json", "--out", str(tmp_path / "out")]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["architecture"] for row in rows} == set(ARCHITECTURES)
    for depth in (1, 3):
        own = {row["architecture"]: row for row in rows if row["depth"] == depth}
        assert len({row["deliveries"] for row in own.values()}) == 1
        least = own["collapsed"]["messages"]
        assert all(row["messages"] >= least for row in own.values())
        assert own["integrated, combined"]["messages"] <= own["integrated, first"]["messages"]
    assert (tmp_path / "out" / "scopes.png").stat().st_size > 0


def test_the_same_seed_is_the_same_run_and_bad_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "scopes.toml"
    path.write_text(SMALL)
    scenario = ScopesScenario.read(path)
    assert compare_scopes(scenario) == compare_scopes(scenario)
    path.write_text(SMALL + 'open = 2\ndepth = "x"\n')
    with pytest.raises(ScenarioError, match="open"):
        ScopesScenario.read(path)
