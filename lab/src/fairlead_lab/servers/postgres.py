"""A server of PostgreSQL, from the distribution's package, with its data in a directory that goes with it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fairlead_lab.servers.processes import Missing, free_ports, started

__all__ = ["running"]

INSTALLED: Final = Path("/usr/lib/postgresql")
USER: Final = "fairlead"
# Nothing has to outlive the tests.
QUICK: Final = ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")


@contextmanager
def running() -> Iterator[dict[str, str]]:
    """Options of libpq for clients of a server, which runs while the block does."""
    programs, [port] = _programs(), free_ports(1)
    # The server refuses to run as root: the package brings a user for it.
    owner = "postgres" if os.geteuid() == 0 else None
    with TemporaryDirectory(prefix="fairlead-postgres-") as directory:
        if owner is not None:
            shutil.chown(directory, owner)
        data = f"{directory}/data"
        make = [
            str(programs / "initdb"),
            "-D",
            data,
            "-U",
            USER,
            "-A",
            "trust",
            "-N",
            "--locale=C",
            "-E",
            "UTF8",
        ]
        subprocess.run(make, check=True, capture_output=True, user=owner, cwd=directory)
        serve = [str(programs / "postgres"), "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", ""]
        ask = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]

        def answers() -> bool:
            return subprocess.run(ask, check=False).returncode == 0

        with started([*serve, *QUICK], Path(directory, "log"), answers, end=signal.SIGINT, user=owner):
            yield {"host": "127.0.0.1", "port": str(port), "user": USER, "dbname": "postgres"}


def _programs() -> Path:
    if (found := shutil.which("postgres")) is not None:
        return Path(found).resolve().parent
    versions = sorted(INSTALLED.glob("*/bin/postgres"), key=lambda each: int(each.parts[-3]))
    if not versions:
        raise Missing("PostgreSQL is not installed (on Debian: sudo apt-get install postgresql)")
    return versions[-1].parent
