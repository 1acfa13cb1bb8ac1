"""Every script in examples/ runs, and prints what its docstring shows."""

from __future__ import annotations

import ast
import subprocess
import sys
from inspect import cleandoc
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_prints_what_it_says(script: Path) -> None:
    documentation = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8")), clean=False)
    assert documentation is not None
    _, _, shown = documentation.partition("\n\n")
    run = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == cleandoc(shown) + "\n"


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5
