"""The correlation benchmark: all contenders find the same, figures say what they say, and the command."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Any

import pytest
from bench_reports import correlation_cell as cell
from bench_reports import correlation_sample as full
from hypothesis import given
from hypothesis import strategies as st

from fairlead.correlation.fair import parse as parse_fair
from fairlead.correlation.patterns import Occurrence, parse
from fairlead.model import Instant, Notification
from fairlead.model.order import OrderKey
from fairlead_lab.bench.correlation import Plan, Report, run, shapes_named
from fairlead_lab.bench.correlation_cell import (
    CHAINS,
    CONTENDERS,
    FAIRLEAD,
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
from fairlead_lab.bench.goals import Goal
from fairlead_lab.bench.harness import MEASURED, WRONG, UnknownShape, of_json
from fairlead_lab.bench.peers.chains import Chain
from fairlead_lab.bench.peers.selfjoins import self_joins, windows
from fairlead_lab.bench.runner import fresh
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


def goal(found: Report, what: str, shape: str = "C1") -> Goal:
    [wanted] = [each for each in found.goals() if each.what.startswith(what) and each.shape == shape]
    return wanted


def test_the_goals_stand_beside_what_was_measured() -> None:
    assert goal(full(), "one pattern") == Goal(
        "C1", "one pattern, one core, in batches", "≥ 200,000/s", "250,000/s (1.25×)", True
    )
    in_process = [each.met for each in full().goals() if "Spark" not in each.what]
    assert in_process == [True, True, None, True, None, None, True, None, None]
    on_spark = [each for each in full().goals() if "Spark" in each.what]
    assert [each.met for each in on_spark] == [None, False, None, None]
    assert on_spark[1].measured == "4.00× (0.8×)"
    slow = full()
    slow.cells[2] = cell("C1", 1_000, FAIRLEAD, 1_000.0)
    assert next(each for each in slow.goals() if each.what.startswith("alike")).met is False


def test_cost_may_grow_as_the_matches_do() -> None:
    found = full()
    assert goal(found, "unlike", "C1-apart").measured == "0.003 (0.003×)"
    found.cells[4] = cell("C1-apart", 1_000, FAIRLEAD, 100_000.0, matches=0.002)
    assert goal(found, "unlike", "C1-apart").met is False


def test_the_tables_show_ratios_latency_and_numbers_of_any_size() -> None:
    text = full().markdown()
    assert "| 1 | chains | 1,000 | – | 25.0k [25.0k, 25.0k] | 10.0 | 0.1 | – | 1.50, 2.50 | 12 |  |" in text
    assert "| 1 or more B | 100 | 150 | 10^24 | – | 5.00 |" in text
    row = "| C1 | 1 | self-joins | 1,000 | 62.5 [43.8, 81.2] | 15.0 [12.5, 17.5] | 2,000 | 4.00 | 7 |"
    assert row in text
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
    assert of_json(CorrelationCell, fresh(module, task, 120.0)).status == MEASURED
    assert [StateRow(**row).nodes for row in fresh(module, {"state": [10]}, 120.0)] == [15, 40]


@pytest.mark.parametrize("query", [self_joins, windows])
def test_a_query_names_its_tables_and_its_window(query: Any) -> None:
    text = query("events", "patterns", 10_000_000)
    assert "from events" in text
    assert "join patterns p" in text
    assert "<= a.at + 10000000" in text
