"""The engines: programs in Java and Go that read cases and print answers; Maven and Go get what they need."""

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

__all__ = ["ENGINES", "Engine", "GoEngine", "JavaEngine", "answers"]

_HERE: Final = Path(__file__).parent
_BUILD_S: Final = 600


@dataclass(frozen=True, slots=True)
class JavaEngine:
    """A class in Java, and the project file with the libraries that it needs."""

    program: str
    project: str
    tools = ("mvn", "javac", "java")

    def answer(self, home: Path) -> str:
        """Build the program in a directory, and answer the cases that lie there."""
        shutil.copy(_HERE / self.project, home / "pom.xml")
        shutil.copy(_HERE / f"{self.program}.java", home)
        _run(home, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib")
        _run(home, "javac", "-nowarn", "-cp", "lib/*", "-d", "classes", f"{self.program}.java")
        return _run(home, "java", "-cp", "lib/*:classes", self.program, "cases.jsonl")


@dataclass(frozen=True, slots=True)
class GoEngine:
    """A program in Go, and the packages that it needs, with their versions."""

    program: str
    packages: tuple[str, ...]
    tools = ("go",)

    def answer(self, home: Path) -> str:
        """Build the program in a directory, and answer the cases that lie there."""
        shutil.copy(_HERE / f"{self.program}.go", home / "main.go")
        _run(home, "go", "mod", "init", "answers")
        _run(home, "go", "get", *self.packages)
        _run(home, "go", "build", "-o", "answers", ".")
        return _run(home, "./answers", "cases.jsonl")


_SDK: Final = "github.com/cloudevents/sdk-go"
Engine = JavaEngine | GoEngine
ENGINES: Final[dict[str, Engine]] = {
    "cesql": GoEngine(
        "cesql", tuple(f"github.com/cloudevents/sdk-go/{each}@v2.16.2" for each in ("sql/v2/parser", "v2"))
    ),
    "eventbridge": JavaEngine("Ruler", "ruler.xml"),
    "jms": JavaEngine("ActiveMq", "activemq.xml"),
    "nats": GoEngine("nats", ("github.com/nats-io/nats-server/v2/server@v2.15.2",)),
}


def answers(engine: Engine, cases: Sequence[Case]) -> list[Any]:
    """For each case whether it matches, or "refused"."""
    for tool in engine.tools:
        if shutil.which(tool) is None:
            raise NotInstalled(
                f"{tool} is not installed", hint="the answers are made with Java 17 and Maven, or with Go"
            )
    with tempfile.TemporaryDirectory(prefix="fairlead-answers-") as scratch:
        home = Path(scratch)
        (home / "cases.jsonl").write_text(
            "".join(f"{json.dumps({'text': case.text, 'event': case.event})}\n" for case in cases), "utf-8"
        )
        output = engine.answer(home)
    return [json.loads(line) for line in output.splitlines()]


def _run(home: Path, *command: str) -> str:
    run = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=_BUILD_S, check=False)
    if run.returncode != 0:
        said = f"{run.stdout}\n{run.stderr}".strip().splitlines()
        raise RuntimeError(f"{command[0]} failed: {said[-1] if said else run.returncode}")
    return run.stdout
