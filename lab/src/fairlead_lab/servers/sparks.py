"""Spark in another version than the installed one: fetched once, and first on the path of a child process.

Only PySpark and its bridge to Java are of that version; everything else is what is installed. So a version costs
its own size on the disk, and no environment.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from fairlead_lab.servers.jars import CACHE
from fairlead_lab.servers.processes import Missing

__all__ = ["OLDEST", "environment"]

OLDEST: Final = "4.0.0"
"""The oldest Spark that Fairlead runs on."""
BRIDGES: Final = {OLDEST: "0.10.9.9"}
"""The version of py4j that a version of PySpark demands."""


def environment(version: str) -> dict[str, str]:
    """The variables of a process that is to find this version of PySpark, or Missing."""
    path = _installed(version)
    others = os.environ.get("PYTHONPATH")
    found = {**os.environ, "PYTHONPATH": str(path) if not others else f"{path}{os.pathsep}{others}"}
    found.pop("SPARK_HOME", None)
    return found


def _installed(version: str, into: Path = CACHE.parent / "sparks") -> Path:
    into.mkdir(parents=True, exist_ok=True)
    with (into / f"{version}.lock").open("w") as lock:  # two processes may want it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        there, part = into / version, into / f"{version}.part"
        if not there.exists():
            shutil.rmtree(part, ignore_errors=True)
            wanted = (f"pyspark=={version}", f"py4j=={BRIDGES[version]}")
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(part)]
            done = subprocess.run([*command, *wanted], check=False, capture_output=True, text=True)
            if done.returncode:
                raise Missing(f"PySpark {version} could not be installed: {done.stderr[-2_000:]}")
            part.rename(there)
        return there
