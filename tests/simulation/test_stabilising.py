"""From any state, brokers recover within the bound, and stay right; without a fault nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead.audit import Ended, Event, Verdict, audit
from fairlead.broker import Settings
from fairlead.broker.messages import Deliver, Publish, Send, Subscribe, Tick, Unsubscribe
from fairlead.errors import ScenarioError, ValueRefused
from fairlead.filters import parse
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.routing import STRATEGIES, Catalogue, Interest
from fairlead_lab.broker import LeasedBroker, RebuildingBroker
from fairlead_lab.broker.leased import Refresh
from fairlead_lab.broker.leases import Leases, Rebuilding
from fairlead_lab.broker.rebuilding import Switch
from fairlead_lab.routing.leased import Leased, LeasedTable
from fairlead_lab.simulation import Scenario
from fairlead_lab.simulation.lease_costs import LeaseCosts
from fairlead_lab.simulation.stabilising import stabilise
from fairlead_lab.simulation.tracing import Tracer

CASES = json.loads((Path(__file__).parents[1] / "corpus" / "faults.json").read_text(encoding="utf-8"))
ALGORITHMS = ("flooding", "simple", "identity", "covering", "merging", "imperfect", "hierarchical-covering")
MS = 1_000


def scenario(**changes: Any) -> Scenario:
    tables: dict[str, Any] = {
        "topology": {"shape": "line", "brokers": 5},
        "delay": {"least_ms": 2, "spread_ms": 4},
        "workload": {
            "subscriptions": [6],
            "publications": 40,
            "values": 32,
            "shape": "intervals",
            "width": 8,
        },
        "clients": {"subscribers": 4},
        "leases": {"refresh_ms": 200},
    }
    for name, table in changes.items():
        tables[name] = {**tables.get(name, {}), **table}
    return Scenario.of(tables, source="tiny.toml")


# -- bounds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES["leases"], ids=lambda case: case["name"])
def test_the_bounds_of_leases(case: dict[str, Any]) -> None:
    least, most = (each * MS for each in case["delay_ms"])
    if "within_ms" in case:
        leases = Leases.within(case["within_ms"] * MS, least, most, case["diameter"])
        assert leases.lease == case["lease_ms"] * MS
        assert leases.refresh == case["refresh_below_ms"] * MS - 1
        return
    leases = Leases(case["refresh_ms"] * MS, case["lease_ms"] * MS, least, most, case["diameter"])
    assert leases.bound(case["strategy"]) == case["bound_ms"] * MS
    if "printed_ms" in case:
        assert leases.printed_bound(case["strategy"]) == case["printed_ms"] * MS


@pytest.mark.parametrize("case", CASES["rebuilding"], ids=lambda case: case["name"])
def test_the_bounds_of_rebuilding(case: dict[str, Any]) -> None:
    delay = case["delay_max_ms"] * MS
    assert Rebuilding.least_period(case["refresh_ms"] * MS, delay, case["diameter"]) == case["period_ms"] * MS
    made = Rebuilding(case["refresh_ms"] * MS, case["period_ms"] * MS, delay, case["diameter"], "B1")
    assert (made.bound, made.printed_bound) == (case["bound_ms"] * MS, case["printed_ms"] * MS)


def test_a_leasing_period_that_loses_entries_is_refused() -> None:
    with pytest.raises(ValueRefused, match="too short"):
        Leases(200, 210, 2, 10, 6)
    with pytest.raises(ScenarioError, match=r'too short.*"auto"'):
        scenario(leases={"lease_ms": 210})
    with pytest.raises(ScenarioError, match="no bound"):
        scenario(delay={"shape": "exponential"})
    with pytest.raises(ScenarioError, match="no leases for gossip"):
        scenario(routing={"algorithm": ["gossip"]})


@pytest.mark.parametrize("case", CASES["crossings"], ids=str)
def test_the_crossings_of_leases_and_flooding(case: dict[str, Any]) -> None:
    """J-11: the formula, and what the book prints of it: 116,000 saved at none, 2,000 renewals at many."""
    costs = LeaseCosts(case["publications"], case["refresh"], case["lifetime"])
    assert costs.crossing() == pytest.approx(case["subscriptions"], rel=0.002)
    assert costs.saved(0) == 116 * case["publications"]
    assert costs.renewals(1e9) == pytest.approx(120_000 / case["refresh"])


# -- one broker --------------------------------------------------------------------------------------------


def broker(strategy: str = "identity", lease: int = 100, **given: Any) -> LeasedBroker:
    leases = Leases(lease - 1, lease, 1, 1, 1, **given)
    made = Settings(Leased(STRATEGIES[strategy](0.2)))
    found = LeasedBroker("B", made, ("H", "G"), Catalogue(engine_named("columnar")), leases)
    found.handle(Tick(), 0)
    return found


def sent(effects: list[Any]) -> list[str]:
    return sorted(effect.to for effect in effects if isinstance(effect, Send))


def test_an_entry_that_nobody_renews_is_gone_after_two_periods_and_one_that_is_renewed_stays() -> None:
    """J-3: overruns at 100, 200, 300."""
    b = broker()
    b.handle(Refresh("c", "1", parse("x = 1")), 30)
    b.handle(Refresh("c", "2", parse("x = 2")), 30)
    b.handle(Refresh("c", "2", parse("x = 2")), 120)
    b.handle(Tick(), 199)
    assert len(b.subscriptions) == 2
    b.handle(Tick(), 200)
    assert [str(interest) for interest in b.subscriptions.of("c")] == ["x = 2"]
    b.handle(Tick(), 300)
    assert not len(b.subscriptions)
    assert not b.clients["c"].subscriptions.by_id


def test_of_identical_filters_the_first_renewal_after_an_overrun_is_passed_on() -> None:
    """J-5, J-6."""
    b, x = broker(), parse("x = 1")
    for client in ("c1", "c2"):
        b.handle(Refresh(client, "1", x), 50)
    assert sent(b.handle(Refresh("c1", "1", x), 102)) == ["G", "H"]
    assert sent(b.handle(Refresh("c2", "1", x), 105)) == []


def test_every_renewal_of_the_representative_is_passed_on() -> None:
    """By the printed rule, c2 at 195 and c1 at 196 would be suppressed by each other: H waits from 102 to 295."""
    x = parse("x = 1")
    for covers, passed in (("fresh", ["G", "H"]), ("printed", [])):
        b = broker(covers=covers)
        b.handle(Refresh("c2", "1", x), 102)
        b.handle(Refresh("c1", "1", x), 103)
        assert sent(b.handle(Refresh("c2", "1", x), 195)) == passed
        assert sent(b.handle(Refresh("c1", "1", x), 196)) == []


def test_a_wrong_entry_under_an_id_is_replaced_by_the_next_renewal() -> None:
    """J-10."""
    b = broker("simple")
    b.handle(Refresh("c", "7", parse("x = 1")), 10)
    [genuine] = b.subscriptions.of("c")
    b.subscriptions.remove(genuine, "c")
    b.subscriptions.add(Interest(parse("x = 5"), genuine.owner), "c")
    b.subscriptions.add(genuine, "H")
    b.handle(Refresh("c", "7", parse("x = 1")), 60)
    assert [*b.subscriptions] == [(genuine, "c")]


def test_a_proper_cover_that_is_not_fresh_suppresses_only_as_printed() -> None:
    """J-7."""
    for covers, passed in (("fresh", ["G", "H"]), ("any", []), ("printed", [])):
        b = broker("covering", covers=covers)
        b.handle(Refresh("w", "1", parse("x > 0")), 10)
        b.handle(Refresh("f", "1", parse("x > 5")), 20)
        assert sent(b.handle(Refresh("f", "1", parse("x > 5")), 110)) == passed


def test_an_unsubscription_passes_the_filter_of_another_client_on() -> None:
    b, x = broker(), parse("x = 1")
    b.handle(Subscribe("c1", "1", x), 10)
    b.handle(Subscribe("c2", "1", x), 20)
    effects = b.handle(Unsubscribe("c1", "1"), 30)
    assert sent(effects) == ["G", "H"]
    assert all(not effect.message.removed for effect in effects if isinstance(effect, Send))
    assert {effect.to for effect in b.handle(Unsubscribe("c2", "1"), 40) if effect.message.removed} == {
        "G",
        "H",
    }


def test_an_index_that_is_damaged_is_derived_anew() -> None:
    b, n = broker(), Notification.of({"x": 1})
    b.handle(Refresh("c", "1", parse("x = 1")), 10)
    b.subscriptions._at.clear()
    assert not b.subscriptions.destinations(n)
    b.handle(Tick(), 100)
    assert [*b.subscriptions.destinations(n)] == ["c"]


# -- rebuilding --------------------------------------------------------------------------------------------


def rebuilder() -> RebuildingBroker:
    periods = Rebuilding(50, 100, 1, 1, "B")
    settings = Settings(STRATEGIES["covering"](0.0))
    found = RebuildingBroker("B", settings, ("H",), Catalogue(engine_named("columnar")), periods)
    found.handle(Tick(), 0)
    return found


def delivered(b: RebuildingBroker, id: str, now: int) -> bool:
    effects = b.handle(Publish("p", Notification.of({"x": 1})), now)
    assert id
    return any(isinstance(effect, Deliver) for effect in effects)


def test_the_root_switches_and_what_is_not_renewed_is_gone_after_two_periods() -> None:
    b = rebuilder()
    b.handle(Subscribe("c", "1", parse("x = 1")), 10)
    effects = b.handle(Tick(), 100)
    assert [each.message for each in effects if isinstance(each, Send)] == [Switch("B", 1)]
    assert delivered(b, "n1", 110)
    b.handle(Tick(), 200)
    assert not delivered(b, "n2", 210)


def test_an_unsubscription_ends_both_generations() -> None:
    """J-14: the book discards it, and the older generation would deliver for up to a period."""
    b = rebuilder()
    b.handle(Subscribe("c", "1", parse("x = 1")), 10)
    b.handle(Tick(), 100)
    b.handle(Unsubscribe("c", "1"), 110)
    assert not delivered(b, "n1", 120)


# -- whole overlays ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_from_any_state_brokers_recover_within_the_bound(algorithm: str) -> None:
    for seed in range(2):
        recovery = stabilise(scenario(), algorithm, seed)
        assert recovery.is_within_bound, recovery
        assert recovery.took
        assert not recovery.wrong_before


@pytest.mark.soak
@pytest.mark.parametrize("rebuild", [False, True], ids=["leased", "rebuilt"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_from_any_state_brokers_recover_within_the_bound_for_ten_thousand_seeds(
    algorithm: str, rebuild: bool
) -> None:
    how = scenario(topology={"shape": "random"}, leases={"refresh_ms": 200, "rebuild": rebuild})
    late = [seed for seed in range(10_000) if not stabilise(how, algorithm, seed).is_within_bound]
    assert not late


@pytest.mark.parametrize("rebuild", [False, True], ids=["leased", "rebuilt"])
def test_and_with_advertisements(rebuild: bool) -> None:
    how = scenario(routing={"advertisements": "covering"}, leases={"refresh_ms": 200, "rebuild": rebuild})
    recovery = stabilise(how, "covering", 1)
    assert recovery.is_within_bound, recovery


def test_and_where_tables_are_built_anew() -> None:
    for algorithm in ("simple", "merging"):
        recovery = stabilise(scenario(leases={"refresh_ms": 200, "rebuild": True}), algorithm, 3)
        assert recovery.is_within_bound, recovery
        assert recovery.took


def test_without_a_fault_nothing_is_lost() -> None:
    """Many clients have the same filters."""
    crowded = scenario(workload={"subscriptions": [12], "values": 4, "width": 1}, clients={"subscribers": 12})
    for algorithm in ("identity", "merging"):
        assert not stabilise(crowded, algorithm, 1, damage=False).wrong_before


@pytest.mark.parametrize(("covers", "lost"), [("fresh", 0), ("printed", 41)])
def test_by_the_printed_rule_two_clients_with_one_filter_lose_it_without_a_fault(
    covers: Any, lost: int
) -> None:
    """They renew every 95 of a leasing period of 100. Of [0, 100) the renewal at 1 is passed on, of [100, 200)
    that at 191: the neighbour, whose overruns are at 50 and 150, has forgotten the filter in between."""
    b, h, x = broker(covers=covers), broker(covers=covers), parse("x = 1")
    h.name, h.phase, h._overran_at = "H", 50, 0
    b.links, h.links = {"H": b.links["H"]}, {"B": b.links["H"]}
    h.subscriptions.add_neighbour("B")
    missing = 0
    for now in range(1, 480):
        for client, phase in (("c2", 1), ("c1", 2)):
            if now % 95 == phase:
                for effect in b.handle(Refresh(client, "1", x), now):
                    if isinstance(effect, Send) and effect.to == "H":
                        h.handle(effect.message, now)
        b.handle(Tick(), now)
        h.handle(Tick(), now)
        missing += not h.subscriptions.destinations(Notification.of({"x": 1}))
    assert (missing > 0) == (lost > 0)
    assert missing >= lost


def test_the_trace_of_a_recovery_is_right_from_the_recovery_point_on() -> None:
    events: list[Event] = []
    stabilise(scenario(), "covering", 1, watch=lambda simulation: Tracer(simulation, events.append))
    assert audit(events, "stabilising").verdict is Verdict.HOLDS
    assert audit([*events, Ended()], "simple").verdict is Verdict.VIOLATED


# -- mutants -----------------------------------------------------------------------------------------------


def no_flag_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    overrun = Leased.overrun

    def mutant(self: Leased, table: LeasedTable) -> Any:
        fresh, parts = {*table.fresh}, {*table.renewed_parts}
        expired = overrun(self, table)
        table.fresh, table.renewed_parts = fresh, parts
        return expired

    monkeypatch.setattr(Leased, "overrun", mutant)


def fresh_entries_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeasedTable, "is_fresh", lambda self, *entry: entry not in self.fresh)


def flags_are_cleared_first(monkeypatch: pytest.MonkeyPatch) -> None:
    overrun = Leased.overrun

    def mutant(self: Leased, table: LeasedTable) -> Any:
        table.fresh.clear()
        return overrun(self, table)

    monkeypatch.setattr(Leased, "overrun", mutant)


def the_index_is_not_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeasedTable, "rebuild_index", lambda self: None)


def renewals_stay_at_the_border(monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = Leased.administer

    def mutant(self: Leased, table: Any, source: str, subscriptions: Any, unsubscriptions: Any) -> Any:
        known = [each for each in subscriptions if (each, source) in table]
        outcome = renewed(self, table, source, subscriptions, unsubscriptions)
        for interests in outcome.subscriptions.values():
            for each in known:
                interests.pop(each, None)
        return outcome

    monkeypatch.setattr(Leased, "administer", mutant)


def identities_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeasedBroker, "_expire_identities", lambda self: None)


def the_switch_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(self: RebuildingBroker, generation: int, source: str, effects: list[Any]) -> None:
        self.built = generation
        self.generations[generation] = self._new_generation()

    monkeypatch.setattr(RebuildingBroker, "_switch", mutant)


MUTANTS: dict[Callable[[pytest.MonkeyPatch], None], bool] = {
    no_flag_is_cleared: False,
    fresh_entries_are_deleted: False,
    flags_are_cleared_first: False,
    the_index_is_not_rebuilt: False,
    renewals_stay_at_the_border: False,
    identities_last: False,
    the_switch_is_not_passed_on: True,
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutants_are_caught(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    how = scenario(leases={"refresh_ms": 200, "rebuild": MUTANTS[mutant]})

    def is_caught(seed: int) -> bool:
        try:
            recovery = stabilise(how, "covering", seed)
        except Exception:
            return True
        return bool(recovery.wrong_before) or not recovery.is_within_bound

    assert any(map(is_caught, range(3)))
