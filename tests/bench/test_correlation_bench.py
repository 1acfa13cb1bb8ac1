"""The correlation benchmark: all contenders find the same, figures say what they say, and the command."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cli import main
from fairlead.correlation.fair import parse as parse_fair
from fairlead.correlation.patterns import Occurrence, parse
from fairlead.model import Instant, Notification
from fairlead.model.order import OrderKey
from fairlead_lab.bench.cell import MEASURED, WRONG
from fairlead_lab.bench.correlation import Plan, Report, run, shapes_named
from fairlead_lab.bench.correlation_cell import (
    CHAINS,
    CONTENDERS,
    FAIRLEAD,
    SEARCH,
    SHAPES,
    CorrelationCell,
    CorrelationTask,
    StateRow,
    chain_of,
    measure,
    measure_state,
    notifications,
    pattern_texts,
)
from fairlead_lab.bench.correlation_spark import JOINS, SparkJob
from fairlead_lab.bench.goals import Goal
from fairlead_lab.bench.matching import UnknownShape
from fairlead_lab.bench.peers.chains import Chain
from fairlead_lab.bench.peers.selfjoins import self_joins, windows
from fairlead_lab.bench.runner import fresh, spread_of
from fairlead_lab.correlation.patterns import reference

TINY = {"events": 80, "rounds": 2, "batch": 40, "sensors": 4, "patience_s": 60.0}


def tiny(shape: str, contender: str, n: int = 3, **given: Any) -> CorrelationTask:
    return CorrelationTask(shape, n, contender, **{**TINY, **given})


# -- right first -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_every_contender_finds_what_the_definition_says(shape: str) -> None:
    few = 24 if shape.startswith("C3") else 80
    cells = [measure(tiny(shape, contender, events=few)) for contender in CONTENDERS[shape]]
    assert [(cell.status, cell.reason) for cell in cells] == [(MEASURED, "")] * len(cells)
    assert len({cell.matches_each for cell in cells}) == 1
    assert {cell.checked for cell in cells} == {few}
    own = cells[0]
    assert own.contender == FAIRLEAD
    assert set(own.rates) == ({"one"} if shape.startswith("C3") else {"batch", "one"})


def test_a_contender_that_misses_a_match_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chain, "feed", lambda *_: None)
    cell = measure(tiny("C1", CHAINS))
    assert cell.status == WRONG
    assert "are missing, 0 too many" in cell.reason
    assert measure(tiny("C1", FAIRLEAD)).status == WRONG  # whoever it is compared with


streams = st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from("xy"), st.integers(1, 4)), max_size=14)


@given(streams, st.booleans())
def test_a_chain_takes_the_matches_that_the_definition_takes(
    drawn: list[tuple[str, str, int]], repeated: bool
) -> None:
    shape = "C2" if repeated else "C1"
    events, time = [], 0
    for number, (type, sensor, pause_s) in enumerate(drawn):
        time += pause_s * 1_000_000
        events.append({"type": type, "sensor": sensor, "id": str(number), "number": number, "time": time})
    chain = chain_of(shape, 0)
    found = [[event["id"] for event in match] for each in events if (match := chain.feed(each))]
    given = [
        Notification.of(
            {**{name: each[name] for name in ("type", "sensor", "id")}, "time": Instant(each["time"])}
        )
        for each in events
    ]
    stream = [Occurrence.of(each, OrderKey.of(each)) for each in given]
    wanted = reference.detect(parse(pattern_texts(shape, 1, Random(0))[0]), stream)
    assert found == [[taken.notification.id for _, taken in each.constituents] for each in wanted]


# -- the workload ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_a_seed_draws_the_same_events_and_patterns(shape: str) -> None:
    def drawn() -> tuple[list[Notification], list[str]]:
        events = list(islice(notifications(shape, 5, Random(7)), 20))
        return events, pattern_texts(shape, 12, Random(7))

    events, texts = drawn()
    assert drawn() == (events, texts)
    read = parse_fair if shape.startswith("C3") else parse
    assert all(read(text) for text in texts)
    assert len({each.time for each in events}) == 20  # fed one by one, no event may come too late


def test_patterns_are_alike_or_apart() -> None:
    assert len(set(pattern_texts("C1", 10, Random(0)))) == 1
    assert len(set(pattern_texts("C2-apart", 10, Random(0)))) == 10
    assert [len(parse_fair(each).conjunctions) for each in pattern_texts("C3-D", 3, Random(0))] == [3, 2, 1]


def test_shapes_are_named_by_their_beginning() -> None:
    assert shapes_named(["c3", "C1"]) == ["C1", "C1-apart", "C1-half", "C3-A", "C3-B", "C3-C", "C3-D"]
    with pytest.raises(UnknownShape, match="C7"):
        shapes_named(["C7"])


def test_what_slow_contenders_cannot_do_they_leave_out() -> None:
    cell = measure(tiny("C1", "definition", events=2_000, patience_s=0.3))
    assert cell.status == MEASURED
    assert 50 <= cell.events < 2_000


# -- state -------------------------------------------------------------------------------------------------


def test_an_iteration_holds_nodes_for_events_not_for_matches() -> None:
    rows = measure_state((10, 20, 40))
    plain, doubled = rows[:3], rows[3:]
    assert [row.nodes / row.events for row in plain] == [1.5] * 3
    assert [row.nodes / row.events for row in doubled] == [4.0] * 3
    assert [row.written_out for row in plain] == [int(row.matches) for row in plain]
    assert int(doubled[-1].matches) > 2**20


# -- what the figures say ----------------------------------------------------------------------------------

MACHINE = {
    "date": "2030-01-02T03:04:05+00:00",
    "cpu": "Abacus",
    "cores": 2,
    "memory_gb": 8.0,
    "load": [0.1, 0.2, 0.3],
    "system": "Linux",
    "python": "CPython 3.11",
    "versions": {"fairlead": "0.1.0"},
}
SETTINGS = {
    "events": 1_000,
    "sensors": 10,
    "patience_s": 5.0,
    "fairlead_patience_s": 20.0,
    "rounds": 3,
    "batch": 100,
}


def cell(shape: str, n: int, contender: str, *rates: float, matches: float = 0.1) -> CorrelationCell:
    mode = "batch" if contender == FAIRLEAD else "one"
    return CorrelationCell(
        shape,
        n,
        contender,
        MEASURED,
        events=1_000,
        rates={mode: spread_of(rates)},
        latency_ms={mode: (1.5, 2.5)},
        matches_each=matches,
        found_each=matches,
        state_max=12,
        checked=100,
        cpu_share=0.9,
    )


def full() -> Report:
    return Report(
        dict(MACHINE),
        dict(SETTINGS),
        [
            cell("C1", 1, FAIRLEAD, 240_000.0, 250_000.0, 260_000.0),
            cell("C1", 1, CHAINS, 25_000.0),
            cell("C1", 1_000, FAIRLEAD, 250_000.0, matches=100.0),
            cell("C1-apart", 1, FAIRLEAD, 300_000.0, matches=0.001),
            cell("C1-apart", 1_000, FAIRLEAD, 100_000.0, matches=1.0),
            CorrelationCell("C3-A", 1, SEARCH, "not run", "too slow"),
        ],
        [
            StateRow("1 or more B", 10, 15, "20", 20, 0.5),
            StateRow("1 or more B", 100, 150, str(2**80), None, 5.0),
        ],
        [SparkJob("C1", 1, FAIRLEAD, 1_000, 7, (1.0, 2.0)), SparkJob("C1", 1, JOINS, 1_000, 7, (10.0, 40.0))],
    )


def goal(found: Report, what: str) -> Goal:
    [wanted] = [each for each in found.goals() if each.what.startswith(what)]
    return wanted


def test_the_goals_stand_beside_what_was_measured() -> None:
    assert goal(full(), "one pattern") == Goal(
        "C1", "one pattern, one core, in batches", "≥ 200,000/s", "250,000/s (1.25×)", True
    )
    assert [each.met for each in full().goals()] == [True, True, None, True, None, None, True]
    slow = full()
    slow.cells[2] = cell("C1", 1_000, FAIRLEAD, 1_000.0)
    assert next(each for each in slow.goals() if each.what.startswith("alike")).met is False


def test_cost_may_grow_as_the_matches_do() -> None:
    found = full()
    assert [each.measured for each in found.goals() if each.shape == "C1-apart"] == ["0.003 (0.003×)"]
    found.cells[4] = cell("C1-apart", 1_000, FAIRLEAD, 100_000.0, matches=0.002)
    assert [each.met for each in found.goals() if each.shape == "C1-apart"] == [False]


def test_the_tables_show_ratios_latency_and_numbers_of_any_size() -> None:
    text = full().markdown()
    assert "| 1 | chains | 1,000 | – | 25.0k [25.0k, 25.0k] | 10.0 | 0.1 | – | 1.50, 2.50 | 12 |  |" in text
    assert "| 1 or more B | 100 | 150 | 10^24 | – | 5.00 |" in text
    assert "| C1 | 1 | self-joins | 1,000 | 62.5 [43.8, 81.2] | 15.0 [12.5, 17.5] | 7 |" in text
    assert "not run: too slow" in text
    assert text.startswith("- Abacus, 2 cores")


def test_a_run_carries_out_its_plan_and_tells() -> None:
    told: list[str] = []
    plan = Plan(parts=("embedded",), shapes=("C1", "C3-B"), sizes=(2,), events=24, rounds=1, sensors=2)
    found = run(plan, told.append, measure)
    assert [(each.shape, each.contender) for each in found.cells] == [
        (shape, contender) for shape in ("C1", "C3-B") for contender in CONTENDERS[shape]
    ]
    assert len(told) == 6
    assert not found.wrong


def test_a_cell_and_the_state_come_out_of_a_fresh_process() -> None:
    module = "fairlead_lab.bench.correlation_cell"
    task = {"shape": "C1", "n": 1, "contender": FAIRLEAD, **TINY}
    assert CorrelationCell.of_json(fresh(module, task, 120.0)).status == MEASURED
    assert [StateRow(**row).nodes for row in fresh(module, {"state": [10]}, 120.0)] == [15, 40]


@pytest.mark.parametrize("query", [self_joins, windows])
def test_a_query_names_its_tables_and_its_window(query: Any) -> None:
    text = query("events", "patterns", 10_000_000)
    assert "from events" in text
    assert "join patterns p" in text
    assert "<= a.at + 10000000" in text


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


def test_matches_that_differ_are_exit_code_one(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "correlation", "--from", str(kept)]) == 0
    given = json.loads(kept.read_text())
    given["problems"] = ["self-joins, n = 1: 3 matches are missing, 0 too many"]
    kept.write_text(json.dumps(given))
    assert main(["bench", "correlation", "--from", str(kept)]) == 1
    assert "3 matches are missing" in capsys.readouterr().out


def test_the_tables_have_a_place_of_their_own_in_a_page(kept: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- correlation tables: begin -->\nold\n<!-- correlation tables: end -->\nafter\n"
    )
    assert main(["bench", "correlation", "--from", str(kept), "--markdown", "--update", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("before\n<!-- correlation tables: begin -->\n- Abacus")
    assert text.endswith("<!-- correlation tables: end -->\nafter\n")


def test_what_is_kept_can_be_shown_again_with_the_plot(kept: Path, tmp_path: Path) -> None:
    directory = tmp_path / "out"
    assert main(["bench", "correlation", "--from", str(kept), "--out", str(directory)]) == 0
    assert (directory / "correlation.png").read_bytes().startswith(b"\x89PNG")
    assert "### Goals" in (directory / "correlation.md").read_text()
    assert json.loads((directory / "correlation.json").read_text())["benchmark"] == "correlation"


@pytest.mark.parametrize("argv", [["--n", "many"], ["--part", "all"], ["--from", "nothing.json"]], ids=str)
def test_bad_options_are_bad_input(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "correlation", *argv]) == 2
    assert capsys.readouterr().err


def test_the_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "correlation", "--help"]) == 0
    assert "Example: fairlead bench correlation" in " ".join(capsys.readouterr().out.split())
