"""The tables of docs/network.md say what is so."""

from __future__ import annotations

import re
from pathlib import Path

from fairlead.network import sync
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
    assert named == public - {"name", "address", "broker", "duplicates", "open", "close"}


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
