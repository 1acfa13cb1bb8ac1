"""The container file: what it names is there, and where there is an engine the image runs a broker."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE = (ROOT / "Containerfile").read_text()
ENGINES = ("docker", "podman")


def test_what_the_container_file_names_is_there() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (.+)$", FILE, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists()
            assert f"!{source}" in ignored
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.findall(r"EXTRAS=([\w,]+)", FILE)
    assert len(named) == 2
    assert {each for some in named for each in some.split(",")} <= set(extras)


def engine() -> str:
    """An engine that answers; without one the test reports that there is none."""
    for name in ENGINES:
        if (
            shutil.which(name)
            and not subprocess.run([name, "info"], capture_output=True, check=False).returncode
        ):
            return name
    pytest.skip(f"no container engine answers here: neither {' nor '.join(ENGINES)}")


@pytest.mark.soak
def test_the_image_is_built_and_runs_a_broker() -> None:
    name = engine()
    subprocess.run([name, "build", "-f", "Containerfile", "-t", "fairlead-test", "."], cwd=ROOT, check=True)
    said = subprocess.run(
        [name, "run", "--rm", "fairlead-test", "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("fairlead ")
