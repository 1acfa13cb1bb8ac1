"""The pipeline benchmark: what its figures say, its oracle, the latency of files, and the command."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyarrow import parquet

from fairlead.cli import main
from fairlead.model import Notification
from fairlead_lab.bench.goals import Goal
from fairlead_lab.bench.jobs import (
    FAIRLEAD,
    LOOP,
    Index,
    Job,
    Pace,
    Plan,
    Round,
    Sampled,
    Workload,
    expected_pairs,
    latencies,
    notifications,
    oracle_rows,
)
from fairlead_lab.bench.pipeline import Report
from fairlead_lab.matching.shapes import SHAPES

MACHINE = {
    "date": "2030-01-02T03:04:05+00:00",
    "cpu": "Abacus",
    "cores": 2,
    "memory_gb": 8.0,
    "load": [0.1, 0.2, 0.3],
    "system": "Linux",
    "python": "CPython 3.11",
    "versions": {"fairlead": "0.1.0", "pyspark": "4.3.0"},
    "master": "local[*]",
}
SETTINGS = {
    "loop_n": 10_000,
    "loop_rows": 1_000,
    "rounds": 3,
    "files_per_s": 4.0,
    "stream_s": 30.0,
    "stream_n": 10_000,
}


def job(contender: str, n: int, *rates: float, rows: int = 1_000, pairs: int = 100) -> Job:
    return Job(contender, n, rows, pairs, tuple(Round(rows / rate, 2 * rows / rate) for rate in rates))


def report(*jobs: Job) -> Report:
    return Report(
        dict(MACHINE), dict(SETTINGS), {"session": 5.0}, list(jobs), [Index(10_000, 1.5, 2_000_000)]
    )


def full() -> Report:
    found = report(
        job(LOOP, 10_000, 400.0, 500.0, 450.0),
        job(FAIRLEAD, 10_000, 100_000.0, 100_000.0, 100_000.0, rows=10_000, pairs=1_000),
        job(FAIRLEAD, 100_000, 90_000.0, 80_000.0, 85_000.0, rows=10_000, pairs=10_000),
    )
    found.sampled = Sampled(1_000, 100, 50, {"ingest": (1.0, 2.0), "match": (1.0, 1.0)}, 9.0)
    found.paces = [
        Pace(1_000, 4.0, 3_000, 5, (0.5, 0.6, 0.5)),
        Pace(5_000, 4.0, 15_000, 5, (1.0, 2.0, 3.0), unfinished=2),
    ]
    return found


def goal(found: Report, what: str) -> Goal:
    [wanted] = [each for each in found.goals() if each.what.startswith(what)]
    return wanted


# -- what the figures say ----------------------------------------------------------------------------------


def test_a_ratio_is_one_of_two_figures_of_the_same_round() -> None:
    found = report(job(LOOP, 10_000, 100.0, 200.0), job(FAIRLEAD, 10_000, 30_000.0, 40_000.0))
    times = found.times(found.jobs[1])
    assert times is not None
    assert (times.min, times.median, times.max) == pytest.approx((200.0, 250.0, 300.0))


def test_a_goal_is_met_or_missed_by_a_factor_that_is_told() -> None:
    assert goal(full(), "n = 10k") == Goal(
        "M1", "n = 10k, against the join at 10k", "≥ 200×", "222× (1.11×)", True
    )
    slow = report(job(LOOP, 10_000, 400.0), job(FAIRLEAD, 100_000, 20_000.0))
    assert goal(slow, "n = 100k").met is False


def test_a_join_at_another_size_says_nothing_about_the_goals() -> None:
    found = full()
    found.settings["loop_n"] = 1_000
    assert {each.met for each in found.goals()} == {None}


def test_a_million_completes_and_its_cost_grows_no_faster_than_its_matches() -> None:
    assert goal(full(), "n = 1M").met is None
    for rate, met in ((20_000.0, True), (5_000.0, False)):
        million = job(FAIRLEAD, 1_000_000, rate, rate, rate, rows=1_000, pairs=10_000)
        found = full()
        found.jobs.append(million)
        assert goal(found, "n = 1M").met is True
        assert goal(found, "growth of cost").met is met


def test_a_stream_keeps_up_while_its_latency_does_not_grow() -> None:
    steady = Pace(1_000, 4.0, 40_000, 40, tuple(0.5 + 0.1 * (each % 3) for each in range(40)))
    behind = replace(steady, latency_s=tuple(0.5 + 0.1 * each for each in range(40)))
    assert steady.keeps_up
    assert behind.growth == pytest.approx(0.4)
    assert not behind.keeps_up
    assert not replace(steady, unfinished=1).keeps_up


def test_the_99th_percentile_holds_for_99_files_in_100() -> None:
    pace = Pace(1_000, 4.0, 1_000, 10, tuple(float(each) for each in range(1, 201)))
    assert (pace.median_s, pace.p99_s) == (100.0, 198.0)
    nothing = Pace(1_000, 4.0, 1_000, 0, (), unfinished=4)
    assert (nothing.median_s, nothing.p99_s, nothing.keeps_up) == (None, None, False)


def test_the_highest_rate_that_is_kept_up_with_is_told() -> None:
    assert full().sustained == 1_000
    assert "keeps up is 1,000 rows/s" in " ".join(full().facts())


def test_the_stages_of_a_batch_add_up() -> None:
    sampled = full().sampled
    assert sampled is not None
    assert (sampled.seconds("ingest").median, sampled.seconds().median) == (1.5, 2.5)


# -- latency -----------------------------------------------------------------------------------------------


def test_a_file_is_committed_by_the_first_batch_that_has_its_rows_behind_it() -> None:
    dropped = [(10.0, 5), (11.0, 10), (12.0, 15), (13.0, 20)]
    committed = [(10.5, 5), (12.5, 15), (14.0, 18)]
    assert list(latencies(dropped, committed)) == [0.5, 1.5, 0.5, None]


def test_without_commits_no_file_has_a_latency() -> None:
    assert list(latencies([(1.0, 5)], [])) == [None]


# -- the workload ------------------------------------------------------------------------------------------


def test_the_oracle_finds_the_pairs_that_the_filters_match(tmp_path: Path) -> None:
    load = Workload(tmp_path, 60)
    rows = load.first(60)
    # Few values, so that there is something to find.
    for name in [f"c{each}" for each in range(5)]:
        rows = rows.set_column(
            rows.schema.get_field_index(name), name, pa.array([f"v{each % 7}" for each in range(60)])
        )
    filters = {f"s{n}": filter for n, filter in enumerate(SHAPES["M1"].filters(3_000, Random(1)))}
    found = expected_pairs(rows, parquet.read_table(load.conditions(3_000)))
    wanted = {
        (row["id"], id)
        for row in rows.to_pylist()
        for id, filter in filters.items()
        if filter.matches(Notification.of({name: row[name] for name in row if name != "id"}))
    }
    assert wanted
    assert found == wanted


def test_fewer_notifications_are_the_first_of_more(tmp_path: Path) -> None:
    load = Workload(tmp_path, 100)
    assert parquet.read_table(load.upto(30)).equals(parquet.read_table(load.upto(100)).slice(0, 30))
    assert notifications(10, 15).column("id").to_pylist() == ["10", "11", "12", "13", "14"]


def test_every_core_gets_a_file(tmp_path: Path) -> None:
    files = list(Path(Workload(tmp_path, 1_000).upto(1_000)).iterdir())
    assert len(files) >= (os.cpu_count() or 1)


def test_the_oracle_looks_at_fewer_notifications_where_there_are_more_filters() -> None:
    assert [oracle_rows(n) for n in (1_000, 10_000, 1_000_000, 10**9)] == [2_000, 2_000, 20, 2]


def test_a_million_is_asked_for_apart_and_gets_fewer_notifications() -> None:
    assert Plan().matched() == [(10_000, 2_000_000), (100_000, 2_000_000)]
    assert Plan(large=True).matched()[-1] == (1_000_000, 500_000)


# -- the command -------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / "kept.json"
    path.write_text(json.dumps(full().to_json()))
    return path


def test_a_report_is_the_same_after_it_was_written_and_read(kept: Path) -> None:
    after = Report.read(kept)
    assert after.to_json() == full().to_json()
    assert after.markdown() == full().markdown()


def test_results_that_differ_are_exit_code_one(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "pipeline", "--from", str(kept)]) == 0
    capsys.readouterr()
    given = json.loads(kept.read_text())
    given["problems"] = ["fairlead, n = 10,000: 3 pairs of the join are missing"]
    kept.write_text(json.dumps(given))
    assert main(["bench", "pipeline", "--from", str(kept)]) == 1
    assert "3 pairs of the join are missing" in capsys.readouterr().out


def test_as_json_everything_comes_with_what_follows_from_it(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "pipeline", "--from", str(kept), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["sustained"] == 1_000
    assert [each["met"] for each in shown["goals"]] == [True, True, None, None]


def test_the_tables_have_a_place_of_their_own_in_a_page(kept: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    others = "<!-- tables: begin -->\nold\n<!-- tables: end -->\n"
    page.write_text(f"{others}<!-- spark tables: begin -->\nold\n<!-- spark tables: end -->\nafter\n")
    assert main(["bench", "pipeline", "--from", str(kept), "--markdown", "--update", str(page)]) == 0
    text = page.read_text()
    assert text.startswith(f"{others}<!-- spark tables: begin -->\n- Abacus")
    assert text.endswith("<!-- spark tables: end -->\nafter\n")
    assert "### M1, from Parquet to pairs in Parquet" in text


def test_what_is_kept_can_be_shown_again_with_the_plot(kept: Path, tmp_path: Path) -> None:
    directory = tmp_path / "out"
    assert main(["bench", "pipeline", "--from", str(kept), "--out", str(directory)]) == 0
    assert (directory / "pipeline.png").read_bytes().startswith(b"\x89PNG")
    assert "### Goals" in (directory / "pipeline.md").read_text()
    assert json.loads((directory / "pipeline.json").read_text())["benchmark"] == "pipeline"


@pytest.mark.parametrize("argv", [["--n", "many"], ["--part", "all"], ["--from", "nothing.json"]], ids=str)
def test_bad_options_are_bad_input(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "pipeline", *argv]) == 2
    assert capsys.readouterr().err


def test_the_json_of_another_benchmark_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"benchmark": "matching", "machine": {}, "settings": {}, "cells": []}')
    assert main(["bench", "pipeline", "--from", str(other)]) == 2
    assert "not the JSON of this benchmark" in capsys.readouterr().err


def test_the_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "pipeline", "--help"]) == 0
    assert "Example: fairlead bench pipeline" in " ".join(capsys.readouterr().out.split())
