"""The engines: programs in Java that read cases and print answers, and the libraries that Maven gets for them."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairlead.errors import NotInstalled
from fairlead_lab.dialects.texts import Case

__all__ = ["ENGINES", "Engine", "answers"]

_HERE: Final = Path(__file__).parent
_BUILD_S: Final = 600


@dataclass(frozen=True, slots=True)
class Engine:
    """A class in Java, and the project file with the libraries that it needs."""

    program: str
    project: str


ENGINES: Final = {"eventbridge": Engine("Ruler", "ruler.xml"), "jms": Engine("ActiveMq", "activemq.xml")}


def answers(engine: Engine, cases: Sequence[Case]) -> list[Any]:
    """For each case whether it matches, or "refused"."""
    for tool in ("mvn", "javac", "java"):
        if shutil.which(tool) is None:
            raise NotInstalled(f"{tool} is not installed", hint="the answers are made with Java 17 and Maven")
    with tempfile.TemporaryDirectory(prefix="fairlead-answers-") as scratch:
        home = Path(scratch)
        shutil.copy(_HERE / engine.project, home / "pom.xml")
        shutil.copy(_HERE / f"{engine.program}.java", home)
        (home / "cases.jsonl").write_text(
            "".join(f"{json.dumps({'text': case.text, 'event': case.event})}\n" for case in cases), "utf-8"
        )
        _run(home, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib")
        _run(home, "javac", "-nowarn", "-cp", "lib/*", "-d", "classes", f"{engine.program}.java")
        output = _run(home, "java", "-cp", "lib/*:classes", engine.program, "cases.jsonl")
    return [json.loads(line) for line in output.splitlines()]


def _run(home: Path, *command: str) -> str:
    run = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=_BUILD_S, check=False)
    if run.returncode != 0:
        said = f"{run.stdout}\n{run.stderr}".strip().splitlines()
        raise RuntimeError(f"{command[0]} failed: {said[-1] if said else run.returncode}")
    return run.stdout
