"""A scenario's file: read whole, checked whole, and wrong in all its places at once."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from fairlead.errors import ScenarioError
from fairlead_lab.simulation import Crash, Delay, Partition, Scenario

ROOT = Path(__file__).parents[2]
# Those with a kind of their own are read by the tests of that kind.
EXAMPLES = [
    path
    for path in sorted((ROOT / "examples" / "simulation").glob("*.toml"))
    if not path.name.startswith(("detection_", "fair_", "scopes"))
]
LEAST = """
[topology]
shape = "line"
brokers = 5
[workload]
subscriptions = 10
"""


def read(text: str) -> Scenario:
    return Scenario.of(tomllib.loads(text), source="s.toml")


def complaint(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        read(text)
    return str(caught.value)


def changed(line: str, table: str = "workload") -> str:
    return LEAST.replace(f"[{table}]", f"[{table}]\n{line}")


def test_what_is_not_said_has_a_default() -> None:
    scenario = read(LEAST)
    assert scenario.name == "s"
    assert scenario.routing.algorithms == ("covering",)
    assert scenario.delay == Delay()
    assert scenario.workload.checkpoints == (10,)
    assert not scenario.faults


def test_every_table_is_read() -> None:
    scenario = read(
        """
        name = "all of it"
        seed = 7
        [topology]
        shape = "balanced"
        brokers = 13
        fanout = 3
        [routing]
        algorithm = ["simple", "imperfect"]
        advertisements = "covering"
        hierarchical = ["B2", "B3"]
        imperfection = 0.5
        batch_ms = 2.5
        [delay]
        shape = "exponential"
        least_ms = 0.1
        spread_ms = 3
        [clients]
        subscribers = 20
        publishers = 4
        places = "leaves"
        regions = 3
        [workload]
        subscriptions = [10, 20]
        publications = 5
        shape = "intervals"
        attributes = 2
        values = 50
        width = 9
        locality = 0.25
        unsubscribe = 0.1
        offer = 0.2
        every_ms = 0.5
        seed = 3
        [faults]
        loss = 0.000001
        crashes = [{ broker = "B4", at_ms = 10, back_ms = 20 }]
        partitions = [{ brokers = ["B5", "B6"], at_ms = 1, until_ms = 2 }]
        """
    )
    assert scenario.routing.roots == ("B2", "B3")
    assert scenario.routing.batch_us == 2_500
    assert scenario.delay == Delay(100, 3_000, "exponential")
    assert scenario.workload.locality_ppm == 250_000
    assert scenario.workload.every_us == 500
    assert scenario.faults.loss_ppm == 1
    assert scenario.faults.crashes == (Crash("B4", 10_000, 20_000),)
    assert scenario.faults.partitions == (Partition(frozenset({"B5", "B6"}), 1_000, 2_000),)
    assert len(scenario.topology().brokers) == 13


def test_an_explicit_topology_names_its_brokers() -> None:
    scenario = read(
        '[topology]\nshape = "explicit"\nlinks = [["A", "B"], ["B", "C"]]\n[workload]\nsubscriptions = 1'
    )
    assert scenario.topology().brokers == ("A", "B", "C")
    assert scenario.overlay.brokers == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[workload]\nsubscriptions = 1", "[topology]: the table is missing"),
        (LEAST.replace('shape = "line"', ""), "[topology] shape: missing: `line`, `star`"),
        (LEAST.replace("brokers = 5", ""), "[topology] brokers: missing: how many there are"),
        (LEAST.replace("brokers", "borkers"), "[topology] borkers: no such key; did you mean 'brokers'?"),
        (changed('algorithm = "simple"'), "[workload] algorithm: no such key; it belongs in [routing]"),
        (
            changed('shape = "zipff"'),
            "uniform, zipf or intervals was expected, not 'zipff'; did you mean 'zipf'?",
        ),
        (
            changed("fanout = 2", "topology").replace('"line"', "[]"),
            "[topology] shape: a string was expected",
        ),
        (changed("values = true"), "[workload] values: a whole number was expected, not a Boolean (true)"),
        (changed("values = 0"), "[workload] values: a whole number from 1 to 10,000,000 was expected, not 0"),
        (changed("locality = 1.5"), "[workload] locality: a share from 0 to 1 was expected, not 1.5"),
        (changed("locality = 0.5"), "[workload] locality: it needs [clients] regions = 2 or more"),
        (changed("every_ms = 0.0001"), "0.0001 ms is finer than a microsecond"),
        (changed("width = 3"), '[workload] width: it goes with shape = "intervals", not with "uniform"'),
        (
            changed("fanout = 3", "topology"),
            '[topology] fanout: it goes with shape = "balanced", not with "line"',
        ),
        (LEAST.replace("= 10", "= [10, 10]"), "numbers that rise were expected, such as [1, 2]"),
        (LEAST + "[clients]\nsubscribers = 1\n[workload.more]", "[workload] more: no such key"),
        (LEAST + '[clients]\nplaces = ["B9"]', "[clients] places: there is no broker 'B9'"),
        (LEAST + "[clients]\nregions = 6", "[clients] regions: 5 brokers do not make 6 regions"),
        (LEAST + '[routing]\nhierarchical = ["B2", "B4"]', "B4 is below B2 already: name one of the two"),
        (LEAST + '[routing]\nalgorithm = "cover"', "was expected, not 'cover'; did you mean 'covering'?"),
        (LEAST + "[routing]\nalgorithm = []", "[routing] algorithm: the list is empty"),
        (
            LEAST + '[faults]\ncrashes = [{ broker = "B1" }]',
            "1: at_ms: missing: when it stops (as in { broker",
        ),
        (LEAST + '[faults]\ncrashes = [{ broker = "B7", at_ms = 1 }]', "crashes: there is no broker 'B7'"),
        (LEAST + '[faults]\ncrashes = [{ broker = "B1", at_ms = 5, back_ms = 5 }]', "before it has gone"),
        (LEAST.replace("line", "ring"), "needs a tree, and this topology has cycles; there"),
        (
            LEAST.replace("line", "star") + "[routing]\nhierarchical = 3",
            'a list of brokers such as ["B1", "B2"]',
        ),
        (
            'workload = 3\n[topology]\nshape = "line"\nbrokers = 2',
            "[workload]: a table [workload] was expected",
        ),
        (
            changed("values = 2") + "[clients]\nsubscribers = 3",
            "3 clients with 2 values share at most 3 subscriptions, not 10",
        ),
        (
            '[topology]\nshape = "explicit"\nlinks = [["A", "B"], ["C", "D"]]\n[workload]\nsubscriptions = 1',
            "[topology]: the topology is in pieces: no way leads from A to C, D; add a link",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(text: str, said: str) -> None:
    assert said in complaint(text)


def test_all_that_is_wrong_is_said_at_once() -> None:
    told = complaint('sead = 1\n[topology]\nshape = "lines"\nbrokers = 0\n[workload]')
    assert told.splitlines()[0] == "s.toml: 4 problems"
    assert [line.split(":")[0].strip() for line in told.splitlines()[1:]] == [
        "sead",
        "[topology] shape",
        "[topology] brokers",
        "[workload] subscriptions",
    ]


def test_a_file_that_is_no_toml_or_not_there_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    with pytest.raises(ScenarioError, match="cannot be read"):
        Scenario.read(path)
    path.write_text("name = small", encoding="utf-8")
    with pytest.raises(ScenarioError, match="not TOML"):
        Scenario.read(path)
    path.write_bytes(b'name = "\xff"')
    with pytest.raises(ScenarioError, match="not UTF-8"):
        Scenario.read(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"algorithms": ["coverin"]}, "did you mean 'covering'"),
        ({"subscriptions": [0]}, "from 1 to"),
        ({"brokers": 2}, "there is no broker 'B5'"),
    ],
)
def test_what_is_changed_is_checked_like_the_file(change: dict[str, Any], said: str) -> None:
    scenario = read(LEAST + '[clients]\nplaces = ["B5"]')
    with pytest.raises(ScenarioError, match=said):
        scenario.changed(**change)


def test_changes_take_the_place_of_what_the_file_says() -> None:
    scenario = read(LEAST).changed(algorithms=["simple"], subscriptions=[20, 5], brokers=9, seed=4)
    assert scenario.routing.algorithms == ("simple",)
    assert scenario.workload.checkpoints == (5, 20)
    assert (scenario.overlay.brokers, scenario.seed) == (9, 4)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_can_be_read(path: Path) -> None:
    assert Scenario.read(path).routing.algorithms
