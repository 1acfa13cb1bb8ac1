"""A standalone cluster of Spark on one machine: a master and workers, each a process with directories of its own.

Workers have no Python with Fairlead: `archive` makes the environment that a job ships to them, as a user would.
"""

from __future__ import annotations

import os
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import fairlead
from fairlead_lab.servers.processes import Missing, free_ports, listens, started

__all__ = ["INTERPRETER", "archive", "running"]

INTERPRETER: Final = "./env/bin/python"
"""The interpreter of a shipped environment, from a worker's working directory: for PYSPARK_PYTHON."""
SHIPPED: Final = (
    "numpy",
    "pyarrow",
    "pandas",
    "numba",
    "llvmlite",
    "msgspec",
    "python-dateutil",
    "pytz",
    "six",
)
LAUNCHER: Final = """#!/bin/sh
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)
PYTHONPATH="$here/lib:$PYTHONPATH" exec {python} "$@"
"""


@contextmanager
def running(directory: Path, workers: int = 2) -> Iterator[str]:
    """The address of a master with workers of one core each, which run while the block does."""
    program = _program()
    deploy = "org.apache.spark.deploy"
    [port] = free_ports(1)
    address = f"spark://127.0.0.1:{port}"
    variables = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    variables["SPARK_MASTER_OPTS"] = "-Dspark.master.rest.enabled=false"
    for name in ("PYTHONPATH", "PYSPARK_PYTHON", "VIRTUAL_ENV"):
        variables.pop(name, None)
    with ExitStack() as stack:
        master = [program, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port)]
        master += ["--webui-port", "0"]
        log = directory / "master.log"
        stack.enter_context(started(master, log, lambda: listens(port), env=variables))
        for number in range(workers):
            where = directory / f"worker{number}"
            where.mkdir()
            log = directory / f"worker{number}.log"
            worker = [program, f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
            worker += ["--cores", "1", "--memory", "1g", "--work-dir", str(where), address]
            own = {**variables, "SPARK_WORKER_DIR": str(where)}

            def is_registered(log: Path = log) -> bool:
                return "Successfully registered" in log.read_text(errors="replace")

            stack.enter_context(started(worker, log, is_registered, env=own))
        yield address


def archive(path: Path) -> Path:
    """An environment as an archive: Fairlead with what its workers need, and an interpreter that finds it.

    It is what `pip install --target env/lib 'fairlead[spark]'` makes, without PySpark, which workers have.
    """
    launcher = path.with_suffix(".sh")
    launcher.write_text(LAUNCHER.format(python=os.path.realpath(sys.executable)))
    launcher.chmod(0o755)
    with tarfile.open(path, "w:gz", compresslevel=0) as made:  # of a plain .tar, Spark drops the permissions
        made.add(launcher, "bin/python")
        made.add(Path(fairlead.__file__).parent, "lib/fairlead", filter=_needed)
        for name in SHIPPED:
            for file in distribution(name).files or ():
                if file.parts[0] != ".." and "tests" not in file.parts and "include" not in file.parts:
                    made.add(str(file.locate()), f"lib/{file}", recursive=False)
    return path


def _program() -> str:
    """The start script of the installed Spark."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise Missing("PySpark is not installed")
    return str(Path(found.origin).parent / "bin" / "spark-class")


def _needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in entry.name else entry
