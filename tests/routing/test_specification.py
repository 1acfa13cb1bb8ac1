"""The specification of routing sees what it should: every mutant is caught, and nobody else is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from routing_mutants import MUTANTS, ForgetsOneNeighbour, Mutant, TwoMessages
from routing_scenarios import Scenario, play, scenario

from fairlead.audit import Event, Notified, Published, Ready, Subscribed, Verdict, audit, read
from fairlead.broker import Broker, Settings
from fairlead.broker.messages import Advertise, Call, Publish, Subscribe, Unadvertise, Unsubscribe
from fairlead.errors import ValueRefused
from fairlead.filters import parse
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.routing import (
    Catalogue,
    Covering,
    Identity,
    ImperfectMerging,
    Interest,
    Merging,
    Simple,
    Strategy,
)
from fairlead_lab.audit.routing import RULES, Judge, Part, delta
from fairlead_lab.simulation.checking import Checker
from fairlead_lab.simulation.network import Simulation
from fairlead_lab.simulation.tracing import Tracer

SEEDS = range(150)


def drawn(mutant: Mutant, seed: int) -> Scenario:
    return scenario(Random(seed), advertises=mutant.advertisements is not None, **mutant.options)


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught_and_its_honest_twin_is_not(name: str) -> None:
    mutant = MUTANTS[name]
    advertisements = None if mutant.advertisements is None else mutant.advertisements()
    missing = set(mutant.caught_by)
    for seed in SEEDS:
        found = play(drawn(mutant, seed), mutant.strategy(), advertisements, broker=mutant.broker)
        if not found.violated & missing:
            continue
        missing -= found.violated
        honest = play(drawn(mutant, seed), (mutant.honest or mutant.strategy)(), advertisements)
        assert not honest.violated, [seed, *honest.explained()]
        if not missing:
            return
    pytest.fail(f"{missing} did not see it")


def test_there_are_enough_mutants_and_every_rule_sees_one() -> None:
    assert len(MUTANTS) >= 15
    seen = set().union(*(mutant.caught_by for mutant in MUTANTS.values()))
    assert seen >= {f"routing: {rule}" for rule in RULES}
    assert seen >= {f"simple: {rule}" for rule in ("liveness", "subscribed", "once")}
    assert seen >= {"advertisements: liveness", "fifo: order", "causal: order"}


# -- the judge -------------------------------------------------------------------------------------------------


def part(*texts: str) -> Part:
    return Part(tuple(Interest(parse(text)) for text in texts))


def test_a_breach_is_shown_by_a_notification_that_is_asked_for_and_not_served() -> None:
    asked = [parse("price > 3"), parse('topic = "a"')]
    (breach,) = Judge().remote_invariant("B1", "B2", asked, part("price > 5", 'topic in {"a", "b"}'))
    assert breach.shown_by is not None
    assert asked[0].matches(breach.shown_by)
    assert not parse("price > 5").matches(breach.shown_by)
    assert "B1 needs price > 3" in str(breach)


def test_filters_may_serve_together_what_none_of_them_serves_alone() -> None:
    asked = [parse("price in [0, 9]")]
    assert not [*Judge().remote_invariant("B1", "B2", asked, part("price in [0, 5]", "price in [4, 9]"))]
    assert [*Judge().remote_invariant("B1", "B2", asked, part("price in [0, 4]", "price in [5, 9]"))]


def test_what_the_algebra_cannot_decide_is_counted_and_no_breach() -> None:
    judge = Judge()
    assert not [*judge.remote_invariant("B1", "B2", [parse("x > 3 and y > 1")], part("x + y > 2"))]
    assert judge.undecided["remote invariant"] == 1


def test_with_advertisements_only_what_is_advertised_has_to_be_known() -> None:
    judge = Judge()
    asked, told, offers = [parse("price > 3")], part("price > 5"), [parse("price > 7")]
    assert [*judge.remote_validity("B1", "B2", asked, told)]
    assert not [*judge.remote_validity("B1", "B2", asked, told, offers)]
    assert not [*judge.remote_validity("B1", "B2", asked, told, [])]


def test_delta_is_administer_on_a_table_that_holds_this_destination_only() -> None:
    catalogue = Catalogue(engine_named("brute"))
    wide, narrow, other = (Interest(parse(text)) for text in ("price > 1", "price > 3", 'topic = "a"'))
    held = Part((narrow, other))
    after = delta(Covering(), catalogue, held, "B2", ((wide,), ()), is_neighbour=True)
    assert after.is_same(Part((other, wide)))
    assert delta(Covering(), catalogue, held, "ada", ((wide,), ()), is_neighbour=False).is_same(
        Part((narrow, other, wide))
    )
    assert delta(Covering(), catalogue, after, "B2", ((), (wide,)), is_neighbour=True).is_same(Part((other,)))


def test_delta_takes_mergers_apart_by_what_they_are_made_of() -> None:
    catalogue = Catalogue(engine_named("brute"))
    low, high = (Interest(parse(text)) for text in ("price in [0, 5]", "price in [4, 9]"))
    one = delta(Merging(), catalogue, Part(), "B2", ((low,), ()), is_neighbour=True)
    both = delta(Merging(), catalogue, one, "B2", ((high,), ()), is_neighbour=True)
    assert [str(each) for each in both.interests] == ["price in [0, 9]"]
    assert delta(Merging(), catalogue, both, "B2", ((), (low,)), is_neighbour=True).is_same(Part((high,)))


# -- the observers ---------------------------------------------------------------------------------------------


def line(
    strategy: Strategy, count: int = 2, *, broker: type[Broker] = Broker, seed: int = 0, **settings: object
) -> Simulation:
    """B0 - B1 - ..."""
    names = [f"B{i}" for i in range(count)]
    return Simulation(
        [
            broker(
                name,
                Settings(strategy, **settings),  # type: ignore[arg-type]
                [*names[max(0, i - 1) : i], *names[i + 1 : i + 2]],
            )
            for i, name in enumerate(names)
        ],
        seed=seed,
    )


def a_publication(id: str, producer: str = "p", **content: object) -> Publish:
    return Publish(producer, replace(Notification.of(content), id=id, producer=producer))


def brokers_of(simulation: Simulation) -> list[Broker]:
    return [broker for broker in simulation.brokers.values() if isinstance(broker, Broker)]


def say(simulation: Simulation, broker: str, *calls: Call) -> None:
    for call in calls:
        simulation.call(broker, call)


def test_the_checker_stops_at_the_first_breach_and_names_the_seed_and_the_step() -> None:
    simulation = line(ForgetsOneNeighbour())
    Checker(simulation, seed=42)
    simulation.call("B0", Subscribe("ada", "s1", parse("price > 3")))
    with pytest.raises(AssertionError, match=r"^seed 42, step 1, B0 took in Subscribe.*remote invariant"):
        simulation.run()


def test_the_checker_collects_breaches_by_rule_where_it_is_asked_to() -> None:
    simulation = line(ForgetsOneNeighbour())
    checker = Checker(simulation, collect=True)
    simulation.call("B0", Subscribe("ada", "s1", parse("price > 3")))
    simulation.run()
    assert {rule for _, rule in checker.report().violated()} == {
        "remote invariant",
        "remote validity",
        "path validity",
    }
    assert checker.report().verdict is Verdict.VIOLATED


def test_the_checker_refuses_what_is_not_routed_in_one_tree() -> None:
    with pytest.raises(ValueRefused, match="one tree"):
        Checker(line(Simple(), cyclic=True))


def test_a_filter_under_two_ids_is_asked_for_until_both_are_gone() -> None:
    simulation = line(Simple(), count=3)
    Checker(simulation)
    for id in ("s1", "s2"):
        say(simulation, "B0", Subscribe("ada", id, parse("price > 3")))
    say(simulation, "B0", Unsubscribe("ada", "s1"))
    simulation.run()
    assert [len(broker.subscriptions) for broker in brokers_of(simulation)] == [1, 1, 1]
    say(simulation, "B0", Unsubscribe("ada", "s2"))
    simulation.run()
    assert [len(broker.subscriptions) for broker in brokers_of(simulation)] == [0, 0, 0]


def test_what_cannot_be_served_is_dropped_before_the_rest_of_its_batch_is_merged() -> None:
    """A batch is heard message by message: what is dropped from it is no part of a merger."""
    simulation = line(ImperfectMerging(0.4), advertisements=Identity(), batch_us=1_500)
    Checker(simulation)
    offers = (Advertise("p", "all", parse("exists topic")), Advertise("q", "some", parse('topic = "t1"')))
    say(simulation, "B1", *offers)
    simulation.run()
    # These two go to B1 as one batch, and meet the end of what the first is for.
    say(simulation, "B1", Unadvertise("p", "all"))
    for id, text in (("s1", 'topic in {"t0", "t2"} and price < 8'), ("s2", 'topic = "t1"')):
        say(simulation, "B0", Subscribe("ada", id, parse(text)))
    simulation.run()
    assert [str(each) for each in brokers_of(simulation)[1].subscriptions.of("B0")] == ['topic = "t1"']


def test_watching_changes_nothing() -> None:
    for seed in range(20):
        given = scenario(Random(seed), relinks=True)
        watched = play(given, Merging())
        alone = play(given, Merging(), checked=False)
        assert watched.events == alone.events
        assert watched.forwards == alone.forwards


def test_the_same_seed_gives_the_same_run() -> None:
    given = scenario(Random(7), advertises=True)
    assert play(given, Covering(), Simple()).events == play(given, Covering(), Simple()).events


@pytest.mark.parametrize("broker", [Broker, TwoMessages])
def test_between_two_messages_a_notification_is_lost(broker: type[Broker]) -> None:
    """Book 4.5.4: what is uncovered comes with the unsubscription that uncovers it, or notifications are lost."""
    lost = 0
    for seed in range(20):
        simulation = line(Covering(), broker=broker, seed=seed)
        events: list[Event] = []
        tracer = Tracer(simulation, events.append)
        say(simulation, "B0", Subscribe("ada", "wide", parse("price > 1")))
        say(simulation, "B0", Subscribe("ada", "narrow", parse("price > 3")))
        simulation.run()
        say(simulation, "B0", Unsubscribe("ada", "wide"))
        for number in range(40):
            simulation.at(simulation.now + 100 * number, "B1", a_publication(f"n{number}", price=5))
        simulation.run()
        tracer.close()
        lost += audit(events, "simple").verdict is Verdict.VIOLATED
    assert bool(lost) is (broker is TwoMessages)


# -- the trace -------------------------------------------------------------------------------------------------


def test_a_subscription_is_ready_when_all_that_was_said_of_filters_has_been_heard() -> None:
    simulation = line(Simple(), count=3)
    events: list[Event] = []
    Tracer(simulation, events.append)
    say(simulation, "B0", Subscribe("ada", "s1", parse("price > 3")))
    simulation.run(until=1_500)
    say(simulation, "B2", a_publication("early", price=5))
    simulation.run()
    assert simulation.is_settled
    say(simulation, "B2", a_publication("late", price=5))
    simulation.run()
    kinds = [type(event) for event in events]
    assert kinds == [Subscribed, Published, Ready, Published, Notified]
    begun = events[0]
    assert isinstance(begun, Subscribed)
    assert not begun.ready
    assert audit(events, "simple").verdict is Verdict.HOLDS


def test_batches_that_wait_are_not_yet_heard() -> None:
    simulation = line(Simple(), batch_us=5_000)
    say(simulation, "B0", Subscribe("ada", "s1", parse("price > 3")))
    simulation.run(until=4_000)
    assert not simulation.is_settled
    simulation.run()
    assert simulation.is_settled


def test_what_is_refused_is_not_in_the_trace() -> None:
    simulation = line(Simple(), advertisements=Simple())
    events: list[Event] = []
    Tracer(simulation, events.append)
    say(simulation, "B0", Advertise("p", "a1", parse("price > 3")))
    say(simulation, "B0", Subscribe("p", "s1", parse("price > 1")), Subscribe("p", "s1", parse("price > 2")))
    say(simulation, "B0", Subscribe("p", "s1", parse("price > 1")), Unsubscribe("p", "s3"))
    say(simulation, "B0", a_publication("n1", price=2), a_publication("n2", price=4))
    say(simulation, "B0", a_publication("n2", price=5))
    simulation.run()
    assert [event.id for event in events if isinstance(event, Subscribed)] == ["s1"]
    assert [event.identity.id for event in events if isinstance(event, Published)] == ["n2"]


def test_a_trace_in_a_file_is_what_audit_reads(tmp_path: Path) -> None:
    simulation = line(Covering(), count=3)
    events: list[Event] = []
    Tracer(simulation, events.append)
    tracer = Tracer(simulation, tmp_path / "trace.jsonl")
    say(simulation, "B0", Subscribe("ada", "s1", parse("price > 3")))
    simulation.run()
    say(simulation, "B2", Publish("p", Notification.of({"price": 5})), Publish("p", Notification.of({})))
    simulation.run()
    tracer.close()
    with (tmp_path / "trace.jsonl").open() as lines:
        written = [event for _, event in read(lines)]
    assert written[:-1] == events
    assert audit(written).verdict is Verdict.HOLDS  # type: ignore[arg-type]
