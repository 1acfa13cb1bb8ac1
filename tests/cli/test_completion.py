"""Completions: what a shell offers behind each command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.cli import COMMANDS, complete_parser, main
from fairlead.cli.completion import words


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "fairlead.bash"
    ran = subprocess.run(
        [sys.executable, "-m", "fairlead", "completion", "bash"], capture_output=True, text=True, check=True
    )
    path.write_text(ran.stdout)
    return path


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("bro", {"broker"}),
        ("broker ru", {"run"}),
        ("filter translate --fr", {"--from"}),
        ("completion ", {"bash", "zsh", "fish"}),
        ("--verbose simulate --o", {"--out", "--on"}),
    ],
)
def test_bash_completes(script: Path, line: str, offered: set[str]) -> None:
    given = ["fairlead", *line.split(" ")]
    program = f'source {script}; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _fairlead; echo "${{COMPREPLY[@]}}"'
    ran = subprocess.run(["bash", "-c", program, "-", *given], capture_output=True, text=True, check=True)
    assert offered <= set(ran.stdout.split())
    assert all(each.startswith(given[-1]) for each in ran.stdout.split())


def test_each_command_has_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    found = words(complete_parser())
    assert set(COMMANDS) | {"simulate", "bench"} <= set(found[""])
    assert "--help" in found[" filter check"]
    for shell in ("zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert "filter check" in capsys.readouterr().out
