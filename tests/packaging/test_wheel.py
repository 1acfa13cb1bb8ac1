"""The wheel, installed bare in a fresh environment, runs README's first minute: bus, client and broker.

Nothing is downloaded: the environment gets copies of the distributions that the wheel itself requires, and pip is
told to use no index. A requirement too many fails the installation; a hidden one fails what runs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
LEAN = {"msgspec"}
"""All that `pip install fairlead` brings."""


def required(name: str) -> set[str]:
    """The distributions that one requires when it is installed without extras."""
    return {
        re.split(r"[^\w.-]", requirement)[0]
        for requirement in distribution(name).requires or ()
        if "extra ==" not in requirement
    }


class Environment:
    """A virtual environment with the wheel in it."""

    def __init__(self, directory: Path, wheel: Path, python: str | None = None) -> None:
        self.home = directory / "home"
        self.home.mkdir()
        shutil.copytree(ROOT / "examples", self.home / "examples")
        self.binaries = directory / "env" / "bin"
        subprocess.run([python or sys.executable, "-m", "venv", directory / "env"], check=True)
        if python is not None:
            self._install_from_a_registry(wheel)
            return
        packages = Path(
            self.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        )
        for name in required("fairlead"):
            for file in distribution(name).files or ():
                if ".." not in file.parts:
                    target = packages / file
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(file.locate(), target)
        self.run("python", "-m", "pip", "install", "--no-index", "--no-input", str(wheel))

    def _install_from_a_registry(self, wheel: Path) -> None:
        """Install the wheel with what it requires; a report, where no registry answers."""
        command = [self.binaries / "python", "-m", "pip", "install", "--quiet", "--no-input", str(wheel)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            pytest.skip(
                f"what the wheel requires cannot be installed: {ran.stderr.strip().splitlines()[-1:]}"
            )

    def run(self, *command: str, exit_code: int = 0) -> str:
        """What a command prints, on either stream."""
        ran = subprocess.run(
            [self.binaries / command[0], *command[1:]],
            cwd=self.home,
            env=self.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert ran.returncode == exit_code, ran.stdout
        return ran.stdout

    def variables(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.binaries), os.defpath])
        return {
            "PATH": path,
            "HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "100",
            "PYTHONUNBUFFERED": "1",
        }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", directory, ROOT], check=True)
    [wheel] = directory.glob("fairlead-*.whl")
    return wheel


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    return Environment(tmp_path_factory.mktemp("bare"), wheel)


def pages() -> ModuleType:
    """The machinery that runs the examples of the documentation."""
    spec = spec_from_file_location("fairlead_pages", ROOT / "tests" / "docs" / "test_examples.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def first_minute() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Language, text and shown output of README's examples, up to the first one that runs a pipeline."""
    machinery = pages()
    for block in machinery.blocks_of("README.md", (ROOT / "README.md").read_text(encoding="utf-8")):
        if block.language == "python":
            yield "python", block.text, ()
        elif block.language == "console":
            commands = list(machinery.commands_of(block))
            if any(command.script.startswith("fairlead run") for command in commands):
                return
            yield from (("console", command.script, command.shown) for command in commands)


def test_it_requires_little() -> None:
    assert required("fairlead") == LEAN


def test_the_first_minute_of_the_readme(bare: Environment) -> None:
    examples = list(first_minute())
    assert {language for language, _, _ in examples} == {"python", "console"}
    program = "\n".join(text for language, text, _ in examples if language == "python")
    assert bare.run("python", "-W", "error", "-c", program) == ""
    for language, script, shown in examples:
        if language == "console":
            ran = subprocess.run(
                ["bash", "-c", script],
                cwd=bare.home,
                env=bare.variables(),
                capture_output=True,
                text=True,
                check=True,
            )
            assert ran.stdout.splitlines() == list(shown)
    assert "subscriptions" in bare.run("fairlead", "tour")


def test_a_broker_serves_clients(bare: Environment) -> None:
    program = """
import subprocess, sys
import fairlead as fl

command = [sys.executable, "-m", "fairlead", "broker", "run", "--listen", "127.0.0.1:0", "--data", "hub"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
    address = broker.stdout.readline().split()[3].rstrip(",")
    with fl.sync.connect(address, name="ada") as ada:
        quotes = ada.subscribe("price > 100", durable="desk")
        ada.publish({"symbol": "IBM", "price": 168.5})
        print(quotes.get(timeout=60).get("symbol"))
    broker.terminate()
"""
    assert bare.run("python", "-W", "error", "-c", program) == "IBM\n"


@pytest.mark.soak
def test_the_demo_runs_without_the_clone(bare: Environment) -> None:
    """With Spark from this environment, which the wheel's own extras name."""
    packages = sysconfig.get_path("purelib")
    program = f"import sys; sys.path.append({packages!r}); from fairlead.cli import main; sys.exit(main())"
    java = os.environ.get("JAVA_HOME")
    if java is None:
        pytest.skip("there is no JAVA_HOME for Spark")
    ran = subprocess.run(
        [bare.binaries / "python", "-c", program, "demo", "--events", "500", "--subscriptions", "100"],
        cwd=bare.home,
        env=bare.variables() | {"JAVA_HOME": java, "PYTHONPATH": packages},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (bare.home / "fairlead-demo" / "out").is_dir()


OTHERS = ("3.11", "3.12", "3.13")
"""The versions of Python that the project is for."""


def interpreter(version: str) -> str:
    """An interpreter of a version that is found here: on the path, or among those of pyenv."""
    found = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    for each in filter(None, found):
        asked = subprocess.run(
            [each, "-c", "import sys, venv, ensurepip; print(sys.version)"], capture_output=True, check=False
        )
        if asked.returncode == 0 and asked.stdout.decode().startswith(f"{version}."):
            return str(each)
    pytest.skip(f"there is no Python {version} here")


@pytest.mark.parametrize("version", [each for each in OTHERS if each != VERSION])
def test_the_first_minute_on_other_versions_of_python(version: str, wheel: Path, tmp_path: Path) -> None:
    """The one library that the wheel requires is compiled for a version, so a registry is asked for it."""
    python = interpreter(version)
    environment = Environment(tmp_path, wheel, python)
    examples = [text for language, text, _ in first_minute() if language == "python"]
    assert environment.run("python", "-W", "error", "-c", "\n".join(examples)) == ""
    assert "subscriptions" in environment.run("fairlead", "tour")
    program = """
import fairlead as fl
from fairlead import dialects

bus = fl.Bus(order="ordered")
spikes = bus.detect("A followed by B unless next C, B.x > A.x")
both = bus.subscribe(dialects.cesql("type IN ('A', 'B') AND x > 1"))
for at, (type, x) in enumerate([("A", 1), ("B", 2)]):
    bus.publish({"type": type, "x": x, "time": fl.Instant(at)})
bus.close()
print(len(list(spikes)), len(list(both)))
"""
    assert environment.run("python", "-W", "error", "-c", program) == "1 1\n"


def test_many_filters_are_matched_in_pure_python_and_it_says_once_what_would_help(bare: Environment) -> None:
    program = """
import fairlead as fl

for _ in range(2):
    bus = fl.Bus()
    got = []
    for n in range(1_500):
        bus.subscribe(f"number = {n}", lambda _, n=n: got.append(n))
    bus.publish({"number": 1_234})
    assert got == [1_234]
"""
    said = bare.run("python", "-W", "error", "-c", program)
    assert said.count("\n") == said.count("pip install 'fairlead[fast]'") == 1


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (("simulate", "x.toml"), "pip install fairlead-lab"),
        (("run", "examples/pipeline/pipeline.toml"), "pip install 'fairlead[spark]'"),
        (
            ("broker", "run", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"),
            "pip install 'fairlead[console]'",
        ),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_a_command_that_needs_more_says_what_to_install(
    bare: Environment, command: tuple[str, ...], hint: str
) -> None:
    assert hint in bare.run("fairlead", *command, exit_code=2)
