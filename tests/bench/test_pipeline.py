"""The pipeline benchmark: what its figures say, its oracle, the latency of files, and the command."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from bench_reports import pipeline_job as job
from bench_reports import pipeline_report as report
from bench_reports import pipeline_sample as full
from pyarrow import parquet

from fairlead.model import Notification
from fairlead_lab.bench.goals import Goal
from fairlead_lab.bench.jobs import (
    FAIRLEAD,
    HASHES,
    LOOP,
    Pace,
    Plan,
    Workload,
    expected_pairs,
    latencies,
    notifications,
    oracle_rows,
)
from fairlead_lab.bench.pipeline import Report
from fairlead_lab.matching.shapes import SHAPES


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
    assert goal(full(), "n = 10k, against the join") == Goal(
        "M1", "n = 10k, against the join at 10k", "≥ 300×", "222× (0.74×)", False
    )
    slow = report(job(LOOP, 10_000, 400.0), job(FAIRLEAD, 100_000, 20_000.0))
    assert goal(slow, "n = 100k, against the join").met is False


def test_hash_joins_are_those_of_the_same_number_of_subscriptions() -> None:
    found = report(
        job(FAIRLEAD, 10_000, 300.0, 200.0),
        job(HASHES, 10_000, 100.0, 200.0),
        job(FAIRLEAD, 100_000, 500.0, 500.0),
        job(HASHES, 100_000, 250.0, 250.0),
    )
    assert goal(found, "n = 10k, against a union").met is True
    assert goal(found, "n = 100k, against a union").measured == "2.00× (0.67×)"


def test_the_pipeline_is_held_against_the_floor_of_its_round_and_the_large_one_against_the_clock() -> None:
    goals = {each.what: each for each in full().goals()}
    assert goals["M1: with trace and audit, against the floor, warm"].measured == "3.00× (0.75×)"
    assert goals["M1, large: with trace and audit, against the floor, warm"].met
    assert goals["1,000 events, 100 subscriptions, audited, warm"].measured == "70.0 s (1.17×)"
    assert not goals["1,000 events, 100 subscriptions, audited, warm"].met


def test_the_goals_of_a_stream_are_about_its_rate_and_its_latency() -> None:
    measured = full()
    measured.paces = [Pace(10_000, 4.0, 3_000, 5, (0.5, 0.6, 2.5)), Pace(50_000, 4.0, 9_000, 5, (1.0, 1.0))]
    goals = {each.what: each.met for each in measured.goals() if each.shape == "stream"}
    assert goals == {
        "highest rate that the stream keeps up with": True,
        "latency at 10,000 rows/s, median": True,
        "latency at 10,000 rows/s, 99 in 100": False,
    }


def test_a_join_at_another_size_says_nothing_about_the_goals() -> None:
    found = full()
    found.settings["loop_n"] = 1_000
    assert {each.met for each in found.goals() if each.shape == "M1"} == {None}


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
