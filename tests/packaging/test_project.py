"""What describes the project agrees with itself: requirements and lock, versions, what CI and hooks call."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECTS = [ROOT / "pyproject.toml", ROOT / "lab" / "pyproject.toml"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
OWN = {"fairlead", "fairlead-lab"}
PYTHONS = ("3.11", "3.12", "3.13")


def project(path: Path) -> dict[str, Any]:
    described: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    return described


def requirements(path: Path) -> list[Requirement]:
    described = project(path)
    extras = described.get("optional-dependencies", {}).values()
    texts = [*described["dependencies"], *(each for extra in extras for each in extra)]
    return [each for each in map(Requirement, texts) if canonicalize_name(each.name) not in OWN]


REQUIRED = [requirement for path in PROJECTS for requirement in requirements(path)]


@pytest.mark.parametrize("required", REQUIRED, ids=str)
@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_has_one_allowed_version_of_what_is_required(required: Requirement, python: str) -> None:
    pinned = [
        pin
        for pin in map(Requirement, LOCK)
        if canonicalize_name(pin.name) == canonicalize_name(required.name)
        and (pin.marker is None or pin.marker.evaluate({"python_full_version": f"{python}.9"}))
    ]
    assert len(pinned) == 1
    [version] = [each.version for each in pinned[0].specifier]
    assert required.specifier.contains(version)


def test_the_lock_names_versions_and_nothing_else() -> None:
    assert [line for line in LOCK if not re.fullmatch(r"[\w.-]+==[\w.]+( ; .+)?", line)] == []


def test_product_and_laboratory_have_one_version_which_the_changelog_knows() -> None:
    [version] = {project(path)["version"] for path in PROJECTS}
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert sections[0] == "Unreleased"
    # Before the first release the version is that of the release to come.
    assert sections[1:2] in ([], [version])


def test_ci_and_make_call_the_same_on_every_python() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["make"]
    assert job["strategy"]["matrix"]["python"] == list(PYTHONS)
    assert job["steps"][-1]["run"] == "make ${{ matrix.target }}"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in job["strategy"]["matrix"]["target"]:
        assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE)
    assert {f"Programming Language :: Python :: {python}" for python in PYTHONS} <= set(
        project(PROJECTS[0])["classifiers"]
    )


def test_the_hooks_are_in_order() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-config", ROOT / ".pre-commit-config.yaml"]
    subprocess.run(command, check=True)
