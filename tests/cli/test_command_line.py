"""The command line as a whole: help, version, the demo, pipes, interruption, and how quickly it answers."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

import fairlead
from fairlead.cli import demo, main, match

PYTHON = (sys.executable, "-W", "error", "-m", "fairlead")
COMMANDS = [
    (),
    ("filter",),
    *product(("filter",), ("check", "relate", "merge", "explain", "simplify")),
    ("match",),
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

    monkeypatch.setattr(demo, "_show_subscriptions", interrupted)
    assert main(["demo"]) == 130
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


# Processor time, and the best of a few runs: a busy machine is not a failing test.


def test_a_small_question_is_answered_within_half_a_second() -> None:
    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*PYTHON, "filter", "check", "a = 1"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    assert min(once() for _ in range(5)) < 0.5


def test_importing_fairlead_takes_next_to_no_time() -> None:
    program = "import time; t = time.process_time(); import fairlead; print(time.process_time() - t)"

    def once() -> float:
        run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        return float(run.stdout)

    assert min(once() for _ in range(5)) < 0.05


def test_every_public_name_can_be_had_and_others_cannot() -> None:
    assert set(fairlead.__all__) <= set(dir(fairlead))
    assert all(getattr(fairlead, name) is not None for name in fairlead.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        fairlead.nonsense  # noqa: B018


def test_progress_is_shown_where_somebody_watches_and_wiped_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(match.Progress, "PATIENCE_S", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    (tmp_path / "s").write_text("exists n\n")
    (tmp_path / "e").write_text('{"n": 1}\n' * 5)
    assert main(["match", "--subscriptions", str(tmp_path / "s"), "--events", str(tmp_path / "e")]) == 0
    assert "\r5 events, " in (shown := capsys.readouterr().err)
    assert "\r\x1b[K5 events, 1 subscriptions" in shown


# -- the demo ----------------------------------------------------------------------------------------------


def test_the_demo_shows_filters_matching_reasons_and_the_algebra(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    shown = capsys.readouterr().out
    for name, kind, text in demo.SUBSCRIPTIONS:
        assert f"{name:<6} {kind:<11} {text}" in shown
        assert f"→ {name}" in shown or f", {name}" in shown, f"nothing happens for {name}"
    assert "matches: symbol is" in shown
    assert "does not match: price is 120, not > 150" in shown
    for relation in ("covers", "overlaps", "disjoint", "identical"):
        assert f" {relation} " in shown
    assert "→ price in [20, 40]" in shown
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_the_demo_shows_the_same_for_the_same_seed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for seed in ("1", "1", "2"):
        assert main(["demo", "--seed", seed, "--events", "5"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != shown[2]


@pytest.mark.parametrize("count", range(3))
def test_the_demo_can_do_with_few_events(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--events", str(count)]) == 0
    assert f"{count} events" in capsys.readouterr().out


def test_the_demo_is_coloured_for_a_terminal_unless_colour_is_not_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "PAUSE_S", 0)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    main(["demo"])
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    main(["demo"])
    assert "\x1b[" not in capsys.readouterr().out


def test_the_demo_can_be_shown_where_only_ascii_is_spoken() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    run = subprocess.run([*PYTHON, "demo"], check=True, capture_output=True, env=environment)
    assert b" -> ada" in run.stdout
    assert run.stderr == b""
