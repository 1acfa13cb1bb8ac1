"""The tables of docs/network.md say what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairlead.network import inflow, outflow, sync
from fairlead.network.overlay import read_overlay
from fairlead.network.settings import DROP, POLICIES, read_settings
from fairlead.routing import STRATEGIES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "network.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[str]:
    """The first cells of the table that begins with a heading."""
    lines = PAGE[PAGE.index(f"| {heading} |") :].split("\n\n")[0].splitlines()
    return [line.split("|")[1].strip() for line in lines[2:]]


def test_every_call_is_there_and_is_one() -> None:
    named = {name for row in rows("call") for name in re.findall(r"`(\w+)\(", row)}
    public = {name for name in vars(sync.Client) if not name.startswith("_")}
    assert named == public - {"name", "address", "broker", "duplicates", "lineage", "open", "close"}


def test_the_policies_are_those_that_brokers_have() -> None:
    named = [re.findall(r"`(\w+)`", row)[0] for row in rows("policy")]
    assert sorted(named) == sorted(POLICIES)
    assert rows("policy")[0] == f"`{DROP}` (default)"


def test_the_routing_algorithms_are_those_that_brokers_have() -> None:
    [line] = [line for line in PAGE.splitlines() if line.startswith("Both are one of")]
    assert re.findall(r"`(\w+)`", line) == list(STRATEGIES)


def test_the_files_among_the_examples_can_be_run() -> None:
    assert read_settings(ROOT / "examples" / "network" / "broker.toml").name == "east"
    assert len(read_overlay(ROOT / "examples" / "network" / "topology.toml").brokers) == 5


@pytest.mark.parametrize(
    "table",
    [module.rendered(kind) for module in (inflow, outflow) for kind in module.TABLES],
)
def test_every_table_of_transitions_is_there(table: str) -> None:
    assert f"```text\n{table}\n```" in PAGE


def test_every_state_of_flow_control_is_explained() -> None:
    explained = {
        name.strip("` ")
        for heading in ("state | notifications", "state in `fairlead top`", "state | the broker")
        for part in PAGE.split(f"| {heading} |")[1:]
        for row in part.split("\n\n")[0].splitlines()[2:]
        for name in row.split("|")[1].split("`, `")
    }
    to_explain = {each.value for each in outflow.To} | {
        text for each in inflow.State for text in each.value.split(", ") if text not in ("waiting", "ended")
    }
    assert to_explain <= explained
