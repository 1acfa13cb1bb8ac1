"""A simulation that is played: the same run up to a fault, whole deliveries before it and after it has healed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import ValueRefused
from fairlead_lab.console.playing import Broken, Damaged, Play
from fairlead_lab.console.simulator import faults_of, played
from fairlead_lab.simulation import Scenario
from fairlead_lab.testing.sources import ROOT

SCENARIOS = ROOT / "examples" / "simulation"


def play(name: str, algorithm: str, seed: int | None = None) -> Play:
    return Play(Scenario.read(Path(SCENARIOS / f"{name}.toml"), None), algorithm, seed)


@pytest.mark.parametrize("name", ["small", "stabilising"])
def test_without_a_fault_everything_arrives(name: str) -> None:
    scenario = Scenario.read(SCENARIOS / f"{name}.toml", None)
    for algorithm in scenario.routing.algorithms:
        recording = Play(scenario, algorithm).recorded()
        assert recording.missing == 0
        assert sum(len(each.wanted) for each in recording.publications) > 10
        assert all(each.arrived is not None for each in recording.messages)


@settings(max_examples=8)
@given(
    algorithm=st.sampled_from(("flooding", "simple", "identity", "covering", "merging", "imperfect")),
    seed=st.integers(0, 50),
    link=st.integers(0, 18),
    share=st.floats(0, 0.5),
)
def test_a_broken_link_changes_nothing_before_and_heals_afterwards(
    algorithm: str, seed: int, link: int, share: float
) -> None:
    scene = play("small", algorithm, seed)
    whole = scene.recorded()
    at = whole.begins + int((whole.end - whole.begins) * share)
    until = at + (whole.end - whole.begins) // 4
    broken = scene.recorded((Broken(*scene.links[link], at, until),))
    for one, other in zip(whole.messages, broken.messages, strict=False):
        if max(one.at, one.arrived or 0, other.arrived or 0) >= at:
            break
        assert one == other
    healed = until + 12 * (scene.scenario.delay.least + 2 * scene.scenario.delay.spread)
    assert not [each for each in broken.publications if each.missing and each.at > healed]
    assert all(set(each.notified) <= each.wanted for each in broken.publications)


@pytest.mark.parametrize("fault", [Broken("B3", "B4", 1_200_000, 1_900_000), Damaged("B3", 1_245_997)])
def test_what_is_leased_recovers(fault: Broken | Damaged) -> None:
    scene = play("stabilising", "covering")
    recording = scene.recorded((fault,))
    assert recording.missing > 0, "a fault that nobody feels shows nothing"
    assert not [each for each in recording.publications if each.missing and each.at > 2_800_000]


def test_the_table_of_a_broker_is_that_of_its_time() -> None:
    scene = play("small", "covering")
    recording = scene.recorded()
    for broker in ("B1", "B13"):
        for at in (0, 9_000, recording.begins, recording.end):
            counted = [count for time, count in recording.entries[broker] if time <= at][-1]
            assert len(scene.tables(broker, at)) == counted


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueRefused, match="no link between"):
        play("small", "covering").recorded((Broken("B1", "B20", 1, 2),))
    with pytest.raises(ValueRefused, match="leased"):
        play("small", "covering").recorded((Damaged("B1", 1),))
    with pytest.raises(ValueRefused, match="does not use the links"):
        play("attributes", "rendezvous")
    for text in ("{}", '[{"at": 1}]', '[{"one": "B1", "other": "B2", "at": "x", "until": 2}]'):
        with pytest.raises(ValueRefused):
            faults_of(text)


def test_a_page_gets_each_message_once() -> None:
    scene = play("small", "covering")
    recording, faults = scene.recorded(), faults_of("")
    shown = played(scene, recording, faults)
    assert len(shown["messages"]) == len(recording.messages)
    assert {each["name"] for each in shown["brokers"]} == set(scene.overlay.brokers)
    assert len(shown["links"]) == 19
