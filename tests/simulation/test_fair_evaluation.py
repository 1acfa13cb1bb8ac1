"""The evaluation of fair correlation: its files, its figures, and what they have to show."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from fairlead.audit import Verdict
from fairlead.audit.fair import Delivered, Established, FairRun, Multicast, Subscribed, audit_fair
from fairlead.cli import main
from fairlead.errors import ScenarioError
from fairlead_lab.broker.fair.client import Client
from fairlead_lab.simulation.fair import SYSTEMS, FairCell, FairScenario, evaluate, plots

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "simulation").glob("fair_*.toml"))
FILE = """
kind = "fair"
[fair]
setup = "A"
systems = ["faidecs", "sequencer"]
subscribers = [4, 8]
types = [2, 3]
effort = 100
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


def test_there_is_an_example_for_each_setup() -> None:
    assert [FairScenario.read(path).setup for path in EXAMPLES] == ["A", "B", "C", "D", "B"]
    assert all(FairScenario.read(path).systems == tuple(SYSTEMS) for path in EXAMPLES)


def test_a_file_that_is_wrong_is_wrong_in_all_its_places_at_once() -> None:
    with pytest.raises(ScenarioError) as raised:
        FairScenario.of(
            {"kind": "unfair", "fair": {"setup": "E", "subscribers": [5, 5]}, "costs": {"recieve_us": 1}}
        )
    told = str(raised.value)
    assert "4 problems" in told
    assert all(each in told for each in ("kind", "setup", "that rise", "did you mean 'receive_us'"))


def test_a_file_without_its_table_is_told_so() -> None:
    with pytest.raises(ScenarioError, match="the table is missing"):
        FairScenario.of({"kind": "fair"})


def test_what_is_changed_is_checked() -> None:
    scenario = FairScenario.of({"kind": "fair", "fair": {"setup": "A"}})
    assert scenario.changed(systems=["token"], subscribers=[9, 3], seed=4).subscribers == (3, 9)
    with pytest.raises(ScenarioError, match="did you mean 'token'"):
        scenario.changed(systems=["tokens"])


def test_the_same_seed_gives_the_same_figures_and_another_seed_others() -> None:
    scenario = FairScenario.of({"kind": "fair", "fair": {"setup": "A", "effort": 100}})
    cell = FairCell("A", "faidecs-replicated", 3, 6)
    assert cell.run(scenario) == cell.run(scenario) != cell.run(scenario.changed(seed=1))


@pytest.mark.parametrize("setup", ["A", "B", "C", "D"])
def test_all_systems_deliver_in_all_setups(setup: str) -> None:
    scenario = FairScenario.of(
        {"kind": "fair", "fair": {"setup": setup, "subscribers": [6], "types": [3], "effort": 100}}
    )
    rows = evaluate(scenario).rows
    assert {row.system for row in rows} == set(SYSTEMS)
    assert {row.level for row in rows} == ({2} if setup == "C" else {2, 3})
    assert all(row.throughput > 0 and row.latency_ms > 0 for row in rows)


def test_with_many_subscribers_mergers_carry_more_than_who_orders_everything() -> None:
    """The claims of FAIDECS, section 6.2, where counting messages can show them."""
    scenario = FairScenario.of({"kind": "fair", "fair": {"setup": "C", "effort": 100}})

    def figures(system: str, subscribers: int) -> tuple[float, float]:
        [row] = FairCell("C", system, 4, subscribers).run(scenario)
        return row.throughput, row.latency_ms

    few = {system: figures(system, 6) for system in ("sequencer", "sequencer-replicated")}
    many = {system: figures(system, 60) for system in SYSTEMS}
    # Subscribers of other types do not disturb: four times as much as one process that sends everything to all.
    assert many["faidecs"][0] > 4 * many["sequencer"][0]
    assert many["faidecs-replicated"][0] > 2 * many["sequencer-replicated"][0]
    # Replicas share the load, at a cost that few subscribers do not make up for.
    assert many["sequencer-replicated"][0] > many["sequencer"][0]
    assert few["sequencer-replicated"][0] < few["sequencer"][0]
    # What any minority of machines may crash for, is paid for with time.
    assert many["token"][1] > many["sequencer"][1] > many["faidecs"][1]


def test_latency_grows_with_the_number_of_types() -> None:
    scenario = FairScenario.of({"kind": "fair", "fair": {"setup": "A", "effort": 2_000}})
    latencies = [row.latency_ms for row in FairCell("A", "faidecs", 4, 30).run(scenario)]
    assert latencies == sorted(latencies)


def test_the_first_point_of_setup_a_is_the_measure_of_all() -> None:
    scenario = FairScenario.of(
        {"kind": "fair", "fair": {"setup": "A", "systems": ["faidecs"], "subscribers": 10, "types": 2}}
    )
    [row] = evaluate(scenario).rows
    assert (row.throughput_relative, row.latency_relative) == (1, 1)


# -- the command line --------------------------------------------------------------------------------------


def test_the_command_shows_a_table_for_each_point(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(file), "--subscriptions", "4"]) == 0
    shown = capsys.readouterr().out
    assert "setup A, 2 types, 4 subscribers" in shown
    assert [line.split()[:2] for line in shown.splitlines() if line.startswith("  ")] == [
        *(["system", "level"], ["faidecs", "2"], ["sequencer", "2"]),
        *(["system", "level"], ["faidecs", "2"], ["faidecs", "3"], ["sequencer", "2"], ["sequencer", "3"]),
    ]


def test_rows_are_json_and_figures_and_curves_are_kept(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results"
    given = [
        "--algorithm",
        "faidecs",
        "--subscriptions",
        "4",
        "8",
        "--seed",
        "3",
        "--json",
        "--out",
        str(out),
    ]
    assert main(["simulate", str(file), *given]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["types"], row["subscribers"], row["level"]) for row in rows] == [
        *((2, 4, 2), (2, 8, 2)),
        *((3, 4, 2), (3, 4, 3), (3, 8, 2), (3, 8, 3)),
    ]
    assert {row["seed"] for row in rows} == {3}
    assert sorted(path.name for path in out.iterdir()) == [
        "curves.png",
        "curves.svg",
        "results.csv",
        "results.json",
    ]
    assert json.loads((out / "results.json").read_text())["rows"] == rows
    with (out / "results.csv").open(newline="") as written:
        assert len(list(csv.DictReader(written))) == len(rows)


def test_the_same_results_are_the_same_picture(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "FORMATS", ("svg",))
    results = evaluate(FairScenario.read(file).changed(subscribers=[4], systems=["faidecs"]))
    pictures = [plots.draw_fair(results, tmp_path)[0].read_bytes() for _ in range(2)]
    assert pictures[0] == pictures[1]


def test_options_that_are_for_routing_are_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(file), "--brokers", "5"]) == 2
    assert "--brokers is for routing" in capsys.readouterr().err


def test_what_is_delivered_can_be_checked_and_traced_crashes_included(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(FILE.replace("effort = 100", "effort = 100\ncrashes = 1"), encoding="utf-8")
    assert main(["simulate", str(file), "--check", "--algorithm", "faidecs-replicated", "token"]) == 0
    assert "all properties of fair correlation hold, in 8 runs" in capsys.readouterr().err
    trace = tmp_path / "trace.jsonl"
    assert main(["simulate", str(file), "--trace", str(trace)]) == 2
    assert "a trace is of one run, and these are 8" in capsys.readouterr().err
    file.write_text(file.read_text("utf-8").replace("types = [2, 3]", "types = [3]"), encoding="utf-8")
    one = ["--algorithm", "faidecs-replicated", "--subscriptions", "6"]
    assert main(["simulate", str(file), "--trace", str(trace), *one]) == 0
    assert '"step":"crash' in trace.read_text("utf-8")
    assert main(["audit", str(trace)]) == 0


def test_a_run_that_is_not_fair_is_found(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound = Client._deliver

    def falls_silent(self: Client) -> None:
        if self.name == "subscriber 1":
            self._complete.clear()
        sound(self)

    with patch.object(Client, "_deliver", falls_silent):
        assert main(["simulate", str(file), "--check"]) == 1
    assert "conjunction validity: subscriber 1 delivered no relation" in capsys.readouterr().err


# -- few subscribers ---------------------------------------------------------------------------------------------


def recorded(**fair: Any) -> FairRun:
    """A run of ordered merging with few subscribers."""
    given = {"setup": "B", "subscribers": [4], "types": [3], "effort": 100, **fair}
    scenario = FairScenario.of({"kind": "fair", "fair": given})
    [subscribers], [types] = scenario.subscribers, scenario.types
    runs: list[FairRun] = []
    FairCell(scenario.setup, "faidecs", types, subscribers).run(scenario, lambda _, run: runs.append(run))
    return runs[0]


def losses_noticed(run: FairRun) -> tuple[int, int]:
    """Of the deliveries, each left out alone, how many covering agreement misses; and how many there are."""
    delivered = [index for index, step in enumerate(run.steps) if isinstance(step, Delivered)]
    some = delivered[:: max(1, len(delivered) // 20)]
    missed = [FairRun((*run.steps[:each], *run.steps[each + 1 :]), run.finished) for each in some]
    found = [audit_fair(each, "covering agreement").verdict is Verdict.VIOLATED for each in missed]
    return sum(found), len(found)


def test_covering_agreement_bites_with_few_subscribers_that_share_subscriptions() -> None:
    for joins in (0, 2):
        run = recorded(variants=1, joins=joins)
        assert audit_fair(run).verdict is Verdict.HOLDS
        noticed, losses = losses_noticed(run)
        assert noticed >= losses / 3
    noticed, losses = losses_noticed(recorded())
    assert (noticed, losses > 10) == (0, True), "subscriptions of their own say nothing about one another"


def test_levels_of_a_variant_extend_one_another() -> None:
    asked = {str(step.subscription) for step in recorded(variants=1).steps if isinstance(step, Subscribed)}
    shorter, longer = sorted(asked, key=len)
    assert longer.startswith(f"{shorter} and ")


def test_subscribers_join_while_events_come() -> None:
    run = recorded(variants=1, joins=2, subscribers=[5])
    multicasts = [index for index, step in enumerate(run.steps) if isinstance(step, Multicast)]
    subscribed = {step.process: index for index, step in enumerate(run.steps) if isinstance(step, Subscribed)}
    late = {process for process, index in subscribed.items() if multicasts[0] < index < multicasts[-1]}
    assert late == {"subscriber 3", "subscriber 4"}
    assert late <= {step.process for step in run.steps if isinstance(step, Established)}
    assert late <= {step.process for step in run.steps if isinstance(step, Delivered)}
    assert audit_fair(run).verdict is Verdict.HOLDS


def test_a_newcomer_without_the_state_of_the_others_is_caught_in_a_scenario() -> None:
    run = recorded(variants=1, joins=2, subscribers=[5])
    own = [step for step in run.steps if isinstance(step, Delivered) and step.process == "subscriber 4"]
    verdicts = {
        audit_fair(
            FairRun(tuple(step for step in run.steps if step is not each), run.finished), "covering agreement"
        ).verdict
        for each in own
    }
    assert Verdict.VIOLATED in verdicts


def test_at_least_one_subscriber_is_there_from_the_beginning() -> None:
    run = recorded(variants=1, joins=9)
    multicast = next(index for index, step in enumerate(run.steps) if isinstance(step, Multicast))
    assert sum(isinstance(step, Subscribed) for step in run.steps[:multicast]) == 1
