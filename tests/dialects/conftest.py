"""The standards' own cases, beside the project; a clone without them is told so, once, by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def suites() -> Path:
    """The directory `shared/suites` beside the project, or beside a directory that it lies in."""
    beside = [parent / "shared" / "suites" for parent in ROOT.parents]
    return next((each for each in beside if each.is_dir()), beside[0])


@pytest.fixture(scope="session")
def suite() -> Callable[[str], list[dict[str, Any]]]:
    """The cases of a standard, one dictionary each."""

    def cases(name: str) -> list[dict[str, Any]]:
        path = suites() / f"{name}.jsonl"
        if not path.is_file():
            pytest.skip(f"the conformance suite of {name} is absent: {path} is no part of the project")
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    return cases
