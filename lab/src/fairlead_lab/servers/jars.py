"""Jars of Maven Central, fetched once and checked; `python -m fairlead_lab.servers.jars NAME` prints paths."""

from __future__ import annotations

import hashlib
import os
import sys
import tomllib
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from fairlead_lab.servers.processes import Missing

__all__ = ["fetched"]

LISTED: Final = Path(__file__).with_name("jars.toml")
CENTRAL: Final = "https://repo.maven.apache.org/maven2"
CACHE: Final = Path(__file__).parents[4] / ".cache" / "jars"
PATIENCE_S: Final = 120


def fetched(name: str, into: Path = CACHE) -> list[Path]:
    """The jars of a section of the list, or Missing where one can neither be found nor fetched."""
    listed = tomllib.loads(LISTED.read_text("utf-8"))[name]
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda row: _jar(row[0], row[1], into), listed.items()))


def _jar(path: str, digest: str, into: Path) -> Path:
    there = into / path.rpartition("/")[2]
    if there.exists():
        return there
    url = f"{os.environ.get('MAVEN_REPOSITORY', CENTRAL)}/{path}"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            content = answer.read()
    except OSError as error:
        raise Missing(f"{url} could not be fetched: {error}") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise Missing(f"{url} is not the file that {LISTED.name} names: its SHA-256 differs")
    into.mkdir(parents=True, exist_ok=True)
    part = there.with_suffix(f".{os.getpid()}.part")  # two processes may fetch it at once
    part.write_bytes(content)
    part.replace(there)
    return there


if __name__ == "__main__":
    print(",".join(str(jar) for name in sys.argv[1:] for jar in fetched(name)))
