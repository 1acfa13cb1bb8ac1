"""In a scenario with security nothing forbidden reaches a broker in any state, and what has a way arrives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import ScenarioError, SimulationFailed
from fairlead.routing import STRATEGIES
from fairlead.rules.rule import Rule
from fairlead.rules.sealing import Sealing
from fairlead.rules.trust import Trust
from fairlead.security.sealing import Sealer
from fairlead_lab.simulation import Row, Scenario, compare, run
from fairlead_lab.simulation.secured import Secured

BASE: dict[str, Any] = {
    "topology": {"shape": "random", "brokers": 8},
    "clients": {"publishers": 4},
    "workload": {
        "subscriptions": [8, 20],
        "publications": 20,
        "shape": "intervals",
        "attributes": 2,
        "values": 20,
        "width": 12,
        "unsubscribe": 0.2,
    },
}
KINDS: dict[str, dict[str, Any]] = {
    "cut": {"trusted": 0.5},
    "nothing": {"trusted": 0.6, "parts": 0},
    "parts": {"trusted": 0.1, "parts": 3},
    "seal": {"trusted": 0.4, "untrusted": "seal"},
    "keys": {"keys": 0.4},
    "no keys": {"keys": 0},
}


def scenario(seed: int, security: dict[str, Any], **more: Any) -> Scenario:
    routing = {"algorithm": list(STRATEGIES), **more.pop("routing", {})}
    return Scenario.of({**BASE, "seed": seed, "routing": routing, "security": security, **more})


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=max(2, settings.default.max_examples // 50))  # type: ignore[union-attr]
@given(seed=st.integers(0, 2**32))
def test_all_algorithms_deliver_what_has_a_way_and_nothing_else_is_seen(kind: str, seed: int) -> None:
    compare(scenario(seed, KINDS[kind]))


@settings(max_examples=max(3, settings.default.max_examples // 30))  # type: ignore[union-attr]
@given(seed=st.integers(0, 2**32))
def test_with_advertisements_and_faults_too(seed: int) -> None:
    faults = {"loss": 0.1, "duplication": 0.1, "crashes": [{"broker": "B2", "at_ms": 5, "back_ms": 9}]}
    compare(
        scenario(
            seed, KINDS["cut"], routing={"algorithm": ["covering", "merging"], "advertisements": "covering"}
        )
    )
    compare(scenario(seed, KINDS["parts"], faults=faults))


def rows(security: dict[str, Any], **workload: Any) -> list[Row]:
    given = {**BASE["workload"], "shape": "uniform", "values": 6, "subscriptions": [30], **workload}
    del given["width"]
    return list(run(scenario(3, security, workload=given), "covering"))


def test_the_more_brokers_have_keys_the_less_is_forwarded_in_vain_and_tokens_do_as_well_as_keys() -> None:
    spurious = [rows({"keys": share})[-1].spurious for share in (0, 0.5, 1)]
    assert spurious[0] > spurious[1] > spurious[2] == 0
    with_tokens = rows({"keys": 0, "tokens": True})[-1]
    assert with_tokens.spurious == 0
    assert with_tokens.deliveries == rows({"keys": 1})[-1].deliveries > 0


def test_a_run_can_be_repeated() -> None:
    for security in (KINDS["cut"], KINDS["keys"]):
        assert rows(security) == rows(security)


@pytest.mark.parametrize(
    ("security", "more", "problem"),
    [
        ({"trusted": 0.5, "keys": 0.5}, {}, "trusted or keys, not both"),
        ({"trusted": 0.5}, {"routing": {"algorithm": ["gossip"]}}, "there is no gossip with it"),
        (
            {"trusted": 0.5},
            {"routing": {"algorithm": ["simple"]}, "topology": {"shape": "cyclic", "brokers": 5, "extra": 2}},
            "has cycles",
        ),
        ({"trusted": 2}, {}, "a share from 0 to 1 was expected"),
        ({"untrusted": "refuse"}, {}, "untrusted"),
    ],
)
def test_what_cannot_be_is_said(security: dict[str, Any], more: dict[str, Any], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        scenario(0, security, **more)


def _in_clear(self: Sealer, notification: Any, under: Any = None) -> Any:
    return notification


MUTANTS: list[tuple[str, str, Any, str, Callable[..., Any]]] = [
    ("notifications go to everybody", "cut", Trust, "narrow", Rule.narrow),
    ("filters are told whole", "cut", Trust, "disclose", Rule.disclose),
    ("clients are granted all", "cut", Trust, "grant", Rule.grant),
    ("nothing is sealed for other brokers", "seal", Trust, "mark", Rule.mark),
    ("attributes stay in clear", "keys", Sealer, "seal", _in_clear),
    ("filters stay in clear", "keys", Sealer, "filter", lambda self, filter: filter),
    ("brokers look at sealed bytes alone", "keys", Sealing, "resolve", Rule.resolve),
    (
        "clients take what they get",
        "no keys",
        Secured,
        "_decided",
        lambda self, delivered: delivered.subscriptions,
    ),
]


@pytest.mark.parametrize(
    ("kind", "target", "name", "mutant"), [pytest.param(*each[1:], id=each[0]) for each in MUTANTS]
)
def test_a_mutant_is_caught(
    kind: str, target: Any, name: str, mutant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, name, mutant)
    if mutant is Rule.resolve:  # nothing is lost by that: more is forwarded
        assert rows({"keys": 1})[-1].spurious > 0
        return
    routing = {"algorithm": ["flooding", "covering"]}

    def runs() -> None:
        for seed in range(6):
            compare(scenario(seed, KINDS[kind], routing=routing))

    with pytest.raises(SimulationFailed):
        runs()
