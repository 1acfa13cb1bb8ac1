"""The command line as a whole: help, version, the tour, pipes, interruption, and how quickly it answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoints
from itertools import product
from pathlib import Path

import pytest

import fairlead
from fairlead.cli import COMMANDS as PRODUCT
from fairlead.cli import LABORATORY, main, tour

PYTHON = (sys.executable, "-W", "error", "-m", "fairlead")
COMMANDS = [
    (),
    ("filter",),
    *product(("filter",), ("check", "relate", "merge", "explain", "simplify")),
    ("match",),
    ("run",),
    ("tour",),
    ("demo",),
    ("audit",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    assert "Example: fairlead" in " ".join(capsys.readouterr().out.split())


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fairlead {fairlead.__version__}\n"


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["filter"], ["match"], ["demo", "--seed", "x"]], ids=str)
def test_a_command_that_does_not_exist_or_lacks_something_is_bad_input(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert "usage: fairlead" in capsys.readouterr().err


def test_an_interruption_ends_it_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> Iterator[None]:
        raise KeyboardInterrupt

    monkeypatch.setattr(tour, "_show_subscriptions", interrupted)
    assert main(["tour"]) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("exists n\n")
    (tmp_path / "e").write_text('{"n": 1}\n' * 20_000)
    command = [*PYTHON, "match", "--subscriptions", tmp_path / "s", "--events", tmp_path / "e"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_a_question_at_the_prompt_loads_nothing_heavy() -> None:
    program = (
        "import sys; from fairlead.cli import main; main(['filter', 'check', 'a = 1']); "
        "print(sorted({'numpy', 'numba', 'pyarrow', 'rich', 'asyncio', 'hypothesis'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert run.stdout == "a = 1\n[]\n"


def test_importing_fairlead_loads_none_of_its_parts() -> None:
    program = "import sys, fairlead; print([m for m in sys.modules if m.startswith('fairlead.')])"
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("command", LABORATORY)
def test_a_command_of_the_laboratory_says_what_to_install_where_it_is_absent(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: EntryPoints())
    assert main([command]) == 2
    said = f"fairlead: `fairlead {command}` is part of the laboratory: pip install fairlead-lab\n"
    assert capsys.readouterr().err == said


def test_the_help_lists_the_commands_of_the_product_and_of_the_laboratory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    listed = shown.split()
    assert [name for name in (*PRODUCT, *LABORATORY) if name not in listed] == []
