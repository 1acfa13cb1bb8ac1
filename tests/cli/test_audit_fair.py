"""`fairlead audit` of runs of fair correlation: recognised by their lines, judged by their properties."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from fairlead.audit.fair.judging import PROPERTIES
from fairlead.cli import main
from fairlead.cli.audit import PROPERTIES as NAMES

SUBSCRIBE = '{"v":1,"step":"subscribe","process":"%s","time":0,"subscription":"A"}'
EVENT = '{"id":"%s","producer":"p","attributes":{"type":"A"}}'
MULTICAST = f'{{"v":1,"step":"multicast","process":"p","time":1,"event":{EVENT}}}'
DELIVER = '{"v":1,"step":"deliver","process":"%s","time":2,"conjunction":"A","relation":[["p","%s"]]}'
END = '{"v":1,"step":"end"}'
FAIR = [SUBSCRIBE % "ada", SUBSCRIBE % "bob", "", MULTICAST % 1, MULTICAST % 2]
FAIR += [DELIVER % ("ada", 1), DELIVER % ("ada", 2), DELIVER % ("bob", 1), DELIVER % ("bob", 2), END]
UNFAIR = [*FAIR[:-3], FAIR[-2], FAIR[-3], END]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.jsonl"


def written(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def test_the_names_of_the_properties_are_those_of_the_auditor() -> None:
    assert [name.replace("-", " ") for name in NAMES] == list(PROPERTIES)


def test_a_fair_run_holds(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", written(path, FAIR)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "fair: no duplication          holds"
    assert len(shown) == len(PROPERTIES) + 1
    assert shown[-1] == "8 steps: holds"


def test_a_violation_is_told_with_the_lines_that_prove_it(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", written(path, UNFAIR), "--spec", "disjunction-total-order"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "fair: disjunction total order violated, 1",
        "  bob delivered [p/2] before [p/1], ada in the opposite order (lines 8, 9, 6, 7)",
        "8 steps: violated",
    ]


def test_standard_input_is_recognised_as_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = io.BytesIO("".join(f"{line}\n" for line in ["", *UNFAIR]).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(lines))
    assert main(["audit", "-", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    [found] = [each for each in report["findings"] if each["rule"] == "event total order"]
    assert found["violations"][0]["lines"] == [9, 10, 7, 8]


def test_what_is_missing_from_a_run_without_an_end_is_open(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", written(path, FAIR[:-2])]) == 0
    shown = capsys.readouterr().out
    assert "fair: covering agreement      open, 1 not delivered yet\n" in shown
    assert shown.endswith("7 steps: open\n")


def test_a_specification_of_the_other_kind_is_bad_input(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", written(path, FAIR), "--spec", "fifo"]) == 2
    assert "a run of fair correlation, to be judged by no-duplication" in capsys.readouterr().err
    assert main(["audit", written(path, ['{"v":1,"event":"end"}']), "--spec", "admission"]) == 2
    assert "a trace, to be judged by simple" in capsys.readouterr().err


def test_lines_that_are_no_steps_are_bad_input(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", written(path, [*FAIR[:4], '{"v":1,"event":"end"}'])]) == 2
    assert f"{path}:5: the step has no 'step'" in capsys.readouterr().err


def test_a_run_that_cannot_be_is_bad_input(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", written(path, [SUBSCRIBE % "ada"] * 2)]) == 2
    assert "has subscribed before" in capsys.readouterr().err
