"""`import fairlead` and the command line import no heavy library: those are imported where they are used."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

HEAVY = {
    *(
        "asyncio",
        "cryptography",
        "hypothesis",
        "jwt",
        "lark",
        "llvmlite",
        "lxml",
        "numba",
        "numpy",
        "pandas",
        "pyarrow",
        "pyspark",
    ),
    *("rich", "starlette", "uvicorn", "uvloop"),
}
LIGHT = [
    name for name in ("fairlead", "fairlead.cli", "fairlead.filters", "fairlead.model") if find_spec(name)
]


@pytest.mark.parametrize("module", LIGHT)
def test_importing_it_imports_no_heavy_library(module: str) -> None:
    program = f"import sys, {module}, json; json.dump(sorted(sys.modules), sys.stdout)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY & set(json.loads(run.stdout)) == set()
