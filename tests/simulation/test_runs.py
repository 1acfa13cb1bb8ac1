"""A run is a function of its scenario and its seed, and delivers what the workload asks for."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import ScenarioError, SimulationFailed
from fairlead.overlay import Hierarchy
from fairlead.routing import Covering, Outcome
from fairlead_lab.simulation import Cell, Results, Row, Scenario, Simulation, cells_of, compare, run
from fairlead_lab.simulation.algorithms import ALGORITHMS

TREES = ("flooding", "simple", "identity", "covering", "merging", "imperfect")


def scenario(**changes: Any) -> Scenario:
    tables: dict[str, Any] = {
        "name": "tiny",
        "topology": {"shape": "balanced", "brokers": 7},
        "routing": {"algorithm": list(TREES)},
        "clients": {"publishers": 4},
        "workload": {
            "subscriptions": [5, 15],
            "publications": 20,
            "shape": "intervals",
            "attributes": 2,
            "values": 10,
            "width": 6,
            "unsubscribe": 0.2,
        },
    }
    for name, table in changes.items():
        tables[name] = {**tables.get(name, {}), **table} if isinstance(table, dict) else table
    return Scenario.of(tables, source="tiny.toml")


def test_two_runs_of_one_seed_are_the_same() -> None:
    first, second = compare(scenario()), compare(scenario())
    assert first == second
    assert first.json() == second.json()


def test_the_rows_are_the_golden_ones(golden: Callable[[str, str], None]) -> None:
    golden("simulation.csv", compare(scenario()).csv())


@settings(max_examples=8)
@given(
    shape=st.sampled_from(["line", "star", "balanced", "random"]),
    advertisements=st.sampled_from(["none", "simple", "identity", "covering", "merging"]),
    hierarchical=st.sampled_from([False, True, ["B2", "B3"]]),
    batch_ms=st.sampled_from([0, 3]),
    seed=st.integers(0, 2**32),
)
def test_all_algorithms_deliver_the_same_and_none_sends_more_than_flooding(
    shape: str, advertisements: str, hierarchical: bool | list[str], batch_ms: int, seed: int
) -> None:
    if isinstance(hierarchical, list) and shape not in ("star", "balanced"):
        hierarchical = ["B2"]
    chosen = scenario(
        seed=seed,
        topology={"shape": shape},
        routing={"advertisements": advertisements, "hierarchical": hierarchical, "batch_ms": batch_ms},
        workload={"subscriptions": [5, 10], "publications": 10, "offer": 0.5},
    )
    results = compare(chosen)  # which fails unless each delivers what is expected
    assert all(row.is_right for row in results.rows)
    flooded = {row.subscriptions: row.forwards for row in results.rows if row.algorithm == "flooding"}
    assert all(row.forwards <= flooded[row.subscriptions] for row in results.rows)


@pytest.mark.parametrize("shape", ["ring", "cyclic"])
def test_what_works_in_cycles_delivers_the_same(shape: str) -> None:
    extra = {"extra": 3} if shape == "cyclic" else {}
    results = compare(
        scenario(topology={"shape": shape, **extra}, routing={"algorithm": ["flooding", "simple"]})
    )
    assert all(row.is_right for row in results.rows)


def test_the_claims_of_the_book_hold_on_a_small_tree() -> None:
    chosen = scenario(
        routing={"algorithm": ["flooding", "simple", "identity", "covering", "hierarchical-covering"]},
        workload={"subscriptions": [30, 120], "attributes": 1, "values": 4, "width": 3, "unsubscribe": 0},
    )
    at = {(row.algorithm, row.subscriptions): row for row in compare(chosen).rows}
    # Simple routing knows each subscription everywhere; identity flattens, since there are few filters.
    assert at["simple", 120].entries_mean == 120
    assert at["identity", 120].remote_mean < 2 * at["identity", 30].remote_mean
    # Covering is lower, and in a hierarchy lower still; but then its root handles everything.
    assert at["covering", 120].remote_mean < at["identity", 120].remote_mean
    assert at["hierarchical-covering", 120].remote_mean < at["covering", 120].remote_mean
    assert at["hierarchical-covering", 30].load_max == 20
    # Whoever knows all that is asked for sends nothing in vain.
    assert [at[name, 30].spurious for name in ("simple", "identity", "covering")] == [0, 0, 0]
    assert at["flooding", 30].forwards == 20 * 6


def test_a_hybrid_has_hierarchies_among_peers() -> None:
    topology = scenario().topology()
    hierarchy = Hierarchy.of(topology, ("B2",))
    assert hierarchy.parents == {"B4": "B2", "B5": "B2"}
    assert hierarchy.children == {"B2": {"B4", "B5"}, "B4": frozenset(), "B5": frozenset()}


def test_every_algorithm_has_a_row_of_figures() -> None:
    chosen = scenario(routing={"algorithm": list(ALGORITHMS)}, workload={"subscriptions": [5]})
    assert [row.algorithm for row in compare(chosen).rows] == list(ALGORITHMS)


def test_cells_are_sizes_seeds_and_algorithms() -> None:
    chosen = scenario(routing={"algorithm": ["simple", "covering"]})
    cells = cells_of(chosen, brokers=[3, 5], seeds=[1, 2])
    assert len(cells) == 8
    assert cells[:3] == (Cell("simple", 3, 1), Cell("covering", 3, 1), Cell("simple", 3, 2))
    assert {row.brokers for row in compare(chosen, cells).rows} == {3, 5}


# -- failures ----------------------------------------------------------------------------------------------


def test_a_run_that_delivers_too_little_says_what_is_missing_and_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Covering, "administer", lambda *given: Outcome())
    with pytest.raises(SimulationFailed) as caught:
        run(scenario(), "covering", seed=3)
    told = str(caught.value)
    assert told.startswith("covering on 7 brokers with seed 3, at 5 subscriptions")
    assert "deliveries are missing, such as n" in told
    assert (
        "fairlead simulate tiny.toml --algorithm covering --seed 3 --brokers 7 --subscriptions 5 15" in told
    )


def test_whatever_a_broker_raises_says_how_to_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> Outcome:
        raise KeyError("B9")

    monkeypatch.setattr(Covering, "administer", fail)
    with pytest.raises(SimulationFailed, match=r"KeyError: 'B9'\n  hint: this repeats it: fairlead simulate"):
        run(scenario(), "covering")
    assert gc.isenabled()


def test_algorithms_that_do_not_agree_are_named() -> None:
    rows = compare(scenario(), [Cell("simple", 7, 0), Cell("covering", 7, 0)]).rows
    other = Row(**{**rows[-1].to_json(), "delivered": "something else"})
    with pytest.raises(SimulationFailed, match=r"covering .* it delivers otherwise than simple"):
        Results(scenario(), (*rows[:-1], other))


def test_faults_are_counted_and_do_not_fail() -> None:
    chosen = scenario(
        faults={"loss": 0.1, "crashes": [{"broker": "B2", "at_ms": 5, "back_ms": 30}], "rest_ms": 100}
    )
    rows = run(chosen, "simple")
    assert rows == run(chosen, "simple")
    assert sum(row.missing for row in rows) > 0


def test_a_run_can_be_watched() -> None:
    seen: list[Simulation] = []
    run(scenario(), "simple", watch=seen.append)
    assert len(seen[0].brokers) == 7


def test_results_are_json_and_a_table() -> None:
    results = compare(scenario(), [Cell("simple", 7, 0)])
    told = json.loads(results.json())
    assert told == json.loads(json.dumps(results.to_json()))
    assert [Row(**row) for row in told["rows"]] == list(results.rows)
    head, *lines = results.csv().splitlines()
    assert head.split(",")[:4] == ["algorithm", "topology", "brokers", "subscriptions"]
    assert len(lines) == len(results.rows)


@pytest.mark.parametrize("algorithm", ["simple", "covering", "merging"])
def test_a_run_that_is_looked_at_is_the_same_run(algorithm: str) -> None:
    """Who looks at tables and links makes them answer earlier than they would; that must change nothing."""
    watched = scenario(routing={"algorithm": [algorithm], "advertisements": "simple"})
    assert run(watched, algorithm, check=True) == run(watched, algorithm)


def test_ticks_of_brokers_that_batch_are_no_load() -> None:
    line = {"topology": {"shape": "line", "brokers": 3}, "workload": {"publications": 8}}
    plain, batched = (
        run(scenario(**line, routing={"algorithm": ["flooding"], "batch_ms": each}), "flooding")
        for each in (0, 3)
    )
    assert all(one.load_max <= other.load_max for one, other in zip(batched, plain, strict=True))


def test_algorithms_that_are_asked_for_stand_in_where_the_file_names_none(tmp_path: Path) -> None:
    """Covering, which it would be otherwise, needs a tree."""
    file = tmp_path / "ring.toml"
    file.write_text('[topology]\nshape = "ring"\nbrokers = 5\n[workload]\nsubscriptions = 4\n')
    with pytest.raises(ScenarioError, match="covering needs a tree"):
        Scenario.read(file)
    assert Scenario.read(file, ["flooding"]).routing.algorithms == ("flooding",)
