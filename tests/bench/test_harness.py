"""The harness: every benchmark's report is written, read, shown, put into a page and drawn by the same code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench_reports import SAMPLES

from fairlead.cli import main
from fairlead_lab.bench.harness import WRONG, Report
from fairlead_lab.cli.bench import BENCHMARKS


@pytest.fixture(params=SAMPLES)
def sample(request: pytest.FixtureRequest) -> Report:
    report: Report = SAMPLES[request.param]()
    return report


@pytest.fixture
def written(sample: Report, tmp_path: Path) -> Path:
    path = tmp_path / "written.json"
    path.write_text(json.dumps(sample.to_json()))
    return path


def show(sample: Report, *argv: object) -> int:
    return main(["bench", sample.NAME, *map(str, argv)])


def test_every_benchmark_has_a_sample() -> None:
    assert set(SAMPLES) == set(BENCHMARKS)


def test_a_report_that_was_written_and_read_again_has_the_same_figures(sample: Report, written: Path) -> None:
    after = type(sample).read(written)
    assert after == sample
    assert after.to_json() == sample.to_json()
    assert after.markdown() == sample.markdown()
    assert list(after.panels()) == list(sample.panels())


def test_as_json_a_report_comes_with_its_goals_and_what_follows(
    sample: Report, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(sample, "--from", written, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["benchmark"], shown["machine"]["cpu"]) == (sample.NAME, "Abacus")
    assert len(shown["goals"]) == len(list(sample.goals()))
    assert sample.derived().keys() <= shown.keys()


def test_problems_are_shown_and_are_exit_code_one(
    sample: Report, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(sample, "--from", written) == 0
    report: dict[str, Any] = json.loads(written.read_text())
    written.write_text(json.dumps({**report, "problems": ["3 matches are missing, 0 too many"]}))
    capsys.readouterr()
    assert show(sample, "--from", written) == 1
    assert "3 matches are missing" in capsys.readouterr().out


def test_a_cell_that_differs_from_the_oracle_is_exit_code_one(tmp_path: Path) -> None:
    report = SAMPLES["matching"]().to_json()
    report["cells"][0] |= {"status": WRONG, "reason": "notification 0 has 1 matches, not 2", "rates": {}}
    (tmp_path / "wrong.json").write_text(json.dumps(report))
    assert main(["bench", "matching", "--from", str(tmp_path / "wrong.json")]) == 1


def test_the_tables_between_the_marks_of_a_page_are_replaced_and_the_rest_is_left_alone(
    sample: Report, written: Path, tmp_path: Path
) -> None:
    page, pages = tmp_path / "page.md", {}
    for name, each in BENCHMARKS.items():
        begin, end = each.marks
        pages[name] = f"{begin}\nold {name}\n{end}\n"
    page.write_text("before\n" + "".join(pages.values()) + "after\n")
    assert show(sample, "--from", written, "--markdown", "--update", page) == 0
    first = page.read_text()
    begin, end = BENCHMARKS[sample.NAME].marks
    assert f"{begin}\n- Abacus" in first
    assert f"old {sample.NAME}" not in first
    assert first.startswith("before\n")
    assert first.endswith("after\n")
    assert all(text in first for name, text in pages.items() if name != sample.NAME)
    assert show(sample, "--from", written, "--update", page) == 0
    assert page.read_text() == first


def test_a_page_without_marks_is_bad_input(
    sample: Report, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.md").write_text("no marks\n")
    assert show(sample, "--from", written, "--update", tmp_path / "page.md") == 2
    assert "no place for tables" in capsys.readouterr().err


def test_a_report_is_written_as_json_tables_and_a_plot_with_a_panel_for_each_part(
    sample: Report, written: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "out"
    assert show(sample, "--from", written, "--out", directory) == 0
    assert (directory / f"{sample.NAME}.png").read_bytes().startswith(b"\x89PNG")
    assert "### Goals" in (directory / f"{sample.NAME}.md").read_text()
    assert json.loads((directory / f"{sample.NAME}.json").read_text())["benchmark"] == sample.NAME
    assert all(panel.lines or panel.bars for panel in sample.panels())


@pytest.mark.parametrize(
    "other",
    ['{"benchmark": "other", "machine": {}, "settings": {}}', '{"machine": {}}', "[]", "no JSON"],
)
def test_something_else_than_a_report_of_this_benchmark_is_bad_input(
    sample: Report, other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.json").write_text(other)
    assert show(sample, "--from", tmp_path / "other.json") == 2
    assert "not the JSON of this benchmark" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv", [["--rounds", "many"], ["--rounds", "0"], ["--from", "nothing.json"]], ids=str
)
def test_bad_options_are_bad_input(
    sample: Report, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(sample, *argv) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize("argv", [["matching", "--shape", "M99"], ["pipeline", "--part", "all"]], ids=str)
def test_a_shape_or_part_that_is_not_there_is_bad_input(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *argv]) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize("name", [*BENCHMARKS, None])
def test_the_help_has_an_example(name: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *([name] if name else []), "--help"]) == 0
    example = f"Example: fairlead bench {name or 'matching'}"
    assert example in " ".join(capsys.readouterr().out.split())
