"""The tables of docs/network.md say what is so."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fairlead.configuration import Key
from fairlead.network import sync
from fairlead.network.overlay import OVERLAY_FILE, read_overlay
from fairlead.network.settings import BROKER_FILE, COMMON, DROP, POLICIES, read_settings
from fairlead.routing import STRATEGIES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "network.md").read_text(encoding="utf-8")
OWN = {name: keys for name, keys in OVERLAY_FILE.items() if name not in COMMON}


def shown_default(default: Any) -> str:
    if default is None or default == ():
        return ""
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def documented(keys: Mapping[str, Key]) -> str:
    """A table of the documentation, made of the code."""
    rows = ["| key | default | means |", "| --- | --- | --- |"]
    rows += (
        f"| `{name}` | {key.shown or shown_default(key.default)} | {key.meaning} |"
        for name, key in keys.items()
    )
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    "keys", [*BROKER_FILE.values(), *OWN.values()], ids=[*BROKER_FILE, *(f"network {name}" for name in OWN)]
)
def test_every_key_is_there_with_its_default_and_meaning(keys: Mapping[str, Key]) -> None:
    assert documented(keys) in PAGE


def rows(heading: str) -> list[str]:
    """The first cells of the table that begins with a heading."""
    lines = PAGE[PAGE.index(f"| {heading} |") :].split("\n\n")[0].splitlines()
    return [line.split("|")[1].strip() for line in lines[2:]]


def test_every_call_is_there_and_is_one() -> None:
    named = {name for row in rows("call") for name in re.findall(r"`(\w+)\(", row)}
    public = {name for name in vars(sync.Client) if not name.startswith("_")}
    assert named == public - {"name", "broker", "duplicates", "open", "close"}


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
