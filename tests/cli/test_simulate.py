"""`fairlead simulate`: what it shows and keeps, and exit codes that scripts can rely on."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from fairlead.cli import main
from fairlead.routing import Covering, Outcome

FILE = """
[topology]
shape = "line"
brokers = 4
[routing]
algorithm = ["flooding", "covering"]
[workload]
subscriptions = [2, 10]
publications = 10
values = 5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_it_shows_a_table_for_each_checkpoint(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "4 brokers, line; 2 subscriptions" in shown
    assert "4 brokers, line; 10 subscriptions" in shown
    assert [line.split()[0] for line in shown.splitlines() if line.startswith("  ")] == [
        *("algorithm", "flooding", "covering"),
        *("algorithm", "flooding", "covering"),
    ]


def test_rows_are_json_where_asked(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(file), "--json", "--seeds", "2", "--brokers", "2", "3"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 2 * 2 * 2 * 2
    assert {(row["brokers"], row["seed"]) for row in rows} == {(2, 0), (2, 1), (3, 0), (3, 1)}


def test_options_take_the_place_of_the_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--algorithm", "simple", "--subscriptions", "3", "--seed", "9", "--json"]
    assert main(["simulate", str(file), *given]) == 0
    [row] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["algorithm"], row["subscriptions"], row["seed"]) == ("simple", 3, 9)


def test_figures_and_curves_are_kept(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    assert main(["simulate", str(file), "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == {
        "results.json",
        "results.csv",
        "curves.png",
        "curves.svg",
    }
    rows = json.loads((out / "results.json").read_text(encoding="utf-8"))["rows"]
    with (out / "results.csv").open(encoding="utf-8") as lines:
        assert [row["delivered"] for row in csv.DictReader(lines)] == [row["delivered"] for row in rows]


def test_a_trace_of_a_run_can_be_audited(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    assert main(["simulate", str(file), "--algorithm", "covering", "--trace", str(trace)]) == 0
    # One order for all is no promise of a network: links differ in their delays.
    for specification in ("simple", "fifo"):
        assert main(["audit", str(trace), "--spec", specification]) == 0
    capsys.readouterr()


CYCLE = FILE.replace('shape = "line"', 'shape = "cyclic"\nextra = 2').replace("covering", "simple")


@pytest.mark.parametrize(
    ("scenario", "algorithm", "promised"),
    [(FILE, "covering", True), (CYCLE, "simple", True), (CYCLE, "rendezvous", False)],
)
def test_a_trace_is_judged_by_what_was_promised(
    scenario: str, algorithm: str, promised: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, trace = tmp_path / "scenario.toml", tmp_path / "trace.jsonl"
    file.write_text(scenario, encoding="utf-8")
    assert main(["simulate", str(file), "--algorithm", algorithm, "--trace", str(trace)]) == 0
    told = capsys.readouterr().err
    assert (f"audit {trace} --spec fifo" in told) == promised
    assert ("fifo is no promise of rendezvous" in told) != promised
    for specification in ("simple", "fifo") if promised else ("simple",):
        assert main(["audit", str(trace), "--spec", specification]) == 0
    capsys.readouterr()


def test_a_trace_is_of_one_run(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(file), "--trace", str(tmp_path / "trace")]) == 2
    assert "a trace is of one run, and these are 2" in capsys.readouterr().err


def test_every_state_is_checked_where_asked(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(file), "--check"]) == 0
    capsys.readouterr()


def test_a_run_that_fails_is_a_no_with_the_command_that_repeats_it(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Covering, "administer", lambda *given: Outcome())
    assert main(["simulate", str(file), "--seed", "5"]) == 1
    told = capsys.readouterr().err
    assert "covering on 4 brokers with seed 5" in told
    assert f"fairlead simulate {file} --algorithm covering --seed 5" in told


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--algorithm", "coverin"], "did you mean 'covering'?"),
        (["--subscriptions", "none"], "not a whole number from 1 on: 'none'"),
        (["--master", "local[1]"], "--master and --remote say where Spark is"),
        (["--brokers", "0"], "not a whole number from 1 on"),
    ],
)
def test_bad_options_are_told(
    file: Path, given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(file), *given]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--out", "taken"], ["--trace", "nowhere/trace.jsonl"]])
def test_what_cannot_be_written_is_told_before_anything_runs(
    file: Path,
    given: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("", encoding="utf-8")
    monkeypatch.setattr("fairlead_lab.simulation.Cell.run", lambda *given, **options: pytest.fail("it runs"))
    assert main(["simulate", str(file), "--algorithm", "covering", *given]) == 2
    assert f"fairlead: {given[1]}: " in capsys.readouterr().err


def test_where_nothing_is_delivered_there_is_no_delay(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(FILE.replace("values = 5", "values = 100000"), encoding="utf-8")
    assert main(["simulate", str(file), "--algorithm", "covering", "--subscriptions", "2"]) == 0
    covering = next(line for line in capsys.readouterr().out.splitlines() if "covering" in line)
    assert covering.split()[-4:] == ["-", "-", "-", "0"]


def test_a_bad_scenario_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(FILE.replace("brokers", "borkers"), encoding="utf-8")
    assert main(["simulate", str(path)]) == 2
    assert "[topology] borkers: no such key; did you mean 'brokers'?" in capsys.readouterr().err


def test_faults_cannot_be_checked_and_are_refused_before_anything_runs(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(f"{FILE}[faults]\nloss = 0.1\n", encoding="utf-8")
    assert main(["simulate", str(file), "--check"]) == 2
    assert "without faults" in capsys.readouterr().err


@pytest.mark.parametrize("algorithm", ["flooding", "simple", "rendezvous", "scribe", "hermes"])
def test_every_state_is_checked_also_where_there_are_several_trees(
    file: Path, capsys: pytest.CaptureFixture[str], algorithm: str
) -> None:
    file.write_text(CYCLE, encoding="utf-8")
    assert main(["simulate", str(file), "--check", "--algorithm", algorithm]) == 0
    assert "every state kept the specification" in capsys.readouterr().err


@pytest.mark.parametrize("algorithm", ["simple", "flooding"])
def test_in_a_ring_advertisements_come_to_an_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], algorithm: str
) -> None:
    path = tmp_path / "ring.toml"
    path.write_text(
        f'[topology]\nshape = "ring"\nbrokers = 5\n[routing]\nalgorithm = "{algorithm}"\n'
        'advertisements = "simple"\n[workload]\nsubscriptions = 10\n'
    )
    assert main(["simulate", str(path)]) == 0
    capsys.readouterr()
    assert main(["simulate", str(path), "--algorithm", "covering"]) == 2


@pytest.mark.parametrize("name", ["small", "attributes", "literature"])
def test_the_examples_run(capsys: pytest.CaptureFixture[str], name: str) -> None:
    root = Path(__file__).parents[2]
    scenario = root / "examples" / "simulation" / f"{name}.toml"
    assert main(["simulate", str(scenario), "--subscriptions", "10", "40"]) == 0
    assert "deliveries" in capsys.readouterr().out


LEASED = """
[topology]
shape = "line"
brokers = 3
[routing]
algorithm = ["simple", "covering"]
[delay]
least_ms = 2
spread_ms = 4
[workload]
subscriptions = 3
publications = 8
values = 8
[leases]
refresh_ms = 100
"""


def test_recoveries_are_shown_with_their_bounds_and_traced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leased, trace = tmp_path / "leased.toml", tmp_path / "trace.jsonl"
    leased.write_text(LEASED, encoding="utf-8")
    assert main(["simulate", str(leased), "--stabilise", "--json", "--seeds", "2"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["algorithm"], row["seed"]) for row in rows] == [
        *(("simple", 0), ("covering", 0), ("simple", 1), ("covering", 1)),
    ]
    assert all(row["took"] <= row["bound"] for row in rows)
    one = ["simulate", str(leased), "--stabilise", "--algorithm", "simple", "--trace", str(trace)]
    assert main(one) == 0
    assert "above bound" in capsys.readouterr().out
    assert main(["audit", str(trace), "--spec", "stabilising"]) == 0


def test_leases_and_stabilise_go_together(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leased = tmp_path / "leased.toml"
    leased.write_text(LEASED, encoding="utf-8")
    assert main(["simulate", str(file), "--stabilise"]) == 2
    assert "[leases]" in capsys.readouterr().err
    assert main(["simulate", str(leased)]) == 2
    assert "--stabilise" in capsys.readouterr().err
