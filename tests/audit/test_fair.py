"""The properties of fair correlation: a fair system keeps them on every run, and each broken one is caught.

`System` is the plain reference: one sequencer in one process, and matchers that are fed what it ordered, each at
its own pace. Those that inherit from it are broken, each in one way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain, combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.audit import Finding, TraceRefused, Verdict
from fairlead.audit.fair.judging import PROPERTIES, audit_fair
from fairlead.audit.fair.run import (
    Crashed,
    Delivered,
    Established,
    FairRun,
    Multicast,
    Step,
    Subscribed,
    Unsubscribed,
)
from fairlead.audit.fair.validity import LONG_ENOUGH
from fairlead.correlation.fair import Choice, Conjunction, Matcher, Snapshot, Subscription, parse
from fairlead.correlation.fair.matcher import ConjunctionState
from fairlead.model import Notification
from fairlead.model.order import identity_of
from fairlead_lab.correlation.fair.reference import figure_1

# -- a fair system, in one process -----------------------------------------------------------------------------


def event(id: object, type: str, producer: str = "p", **more: Any) -> Notification:
    return Notification.of({"id": str(id), "producer": producer, "type": type, **more})


class Client:
    """A process with a subscription: how far it has read the order, and a matcher that was fed so far."""

    def __init__(self, process: str, state: Snapshot, at: int) -> None:
        self.process = process
        self.matcher = Matcher.restore(state)
        self.at = at

    def feed(self, each: Notification) -> list[tuple[Conjunction, tuple[Notification, ...]]]:
        return [(relation.conjunction, relation.events) for relation in self.matcher.feed(each)]


class System:
    """A sequencer that orders what it is told, and clients that read the order."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.pending: list[tuple[str, Notification]] = []
        self.order: list[Notification] = []
        self.clients: dict[str, Client] = {}

    def subscribe(self, process: str, subscription: Subscription | str) -> None:
        if isinstance(subscription, str):
            subscription = parse(subscription)
        self.steps.append(Subscribed(process, subscription, len(self.steps)))
        self.settle()
        state = self.state(subscription)
        self.clients[process] = Client(process, state, len(self.order))
        self.steps.append(Established(process, len(self.steps)))

    def state(self, subscription: Subscription) -> Snapshot:
        """For each conjunction what one holds who asks for it, and nothing where nobody does."""
        known: dict[Conjunction, ConjunctionState] = {}
        for client in self.clients.values():
            snapshot = client.matcher.snapshot()
            known.update(zip(snapshot.subscription.conjunctions, snapshot.conjunctions, strict=True))
        fresh = Snapshot.initial(subscription)
        states = zip(subscription.conjunctions, fresh.conjunctions, strict=True)
        return replace(fresh, conjunctions=tuple(known.get(each, empty) for each, empty in states))

    def multicast(self, process: str, each: Notification) -> None:
        self.steps.append(Multicast(process, each, len(self.steps)))
        self.pending.append((process, each))

    def sequence(self, number: int = 0) -> None:
        """Order the next event, or one that was told later."""
        if self.pending:
            self.order.append(self.pending.pop(number % len(self.pending))[1])

    def advance(self, process: str, count: int = 1) -> None:
        client = self.clients[process]
        for each in self.seen_by(process)[client.at : client.at + count]:
            client.at += 1
            for conjunction, relation in client.feed(each):
                self.deliver(process, conjunction, relation)

    def seen_by(self, process: str) -> Sequence[Notification]:
        return self.order

    def deliver(self, process: str, conjunction: Conjunction, relation: tuple[Notification, ...]) -> None:
        self.steps.append(Delivered(process, conjunction, relation, len(self.steps)))

    def leave(self, process: str, *, crash: bool) -> None:
        self.clients.pop(process, None)
        if crash:
            self.pending = [each for each in self.pending if each[0] != process]
        self.steps.append((Crashed if crash else Unsubscribed)(process, len(self.steps)))

    def settle(self) -> None:
        """All read the order to its end."""
        for process, client in list(self.clients.items()):
            self.advance(process, len(self.seen_by(process)) - client.at)

    def finish(self) -> FairRun:
        while self.pending:
            self.sequence()
        self.settle()
        return FairRun(tuple(self.steps), finished=True)


QUESTIONS = [
    parse(text)
    for text in (
        "A",
        "A and B",
        "A.x < B.y",
        "A.x < B.y and C",
        "A.x < B.y and C and D.x > 1",
        "C and D.x > 1",
        "A[2].x > A[1].x and C",
        "B[3]",
        "A or B",
        "A and B or C",
        "A.x < B.y or C and D.x > 1",
        "C and D.x > 1 or B[3]",
    )
]
PROCESSES = [f"q{number}" for number in range(8)]
PRODUCERS = ["p0", "p1", "q0"]


def scramble(system: System, rng: random.Random, steps: int = 100, crashes: float = 0.02) -> FairRun:
    """A run of chance: processes join, leave and crash, and read at their own pace."""
    fresh = list(PROCESSES)
    gone: set[str] = set()
    for process in [fresh.pop(0) for _ in range(rng.randint(1, 4))]:
        system.subscribe(process, rng.choice(QUESTIONS))
    producers = list(PRODUCERS)
    for number in range(steps):
        match rng.random():
            case chance if chance < 0.4 and producers:
                producer = rng.choice(producers)
                attributes = {"x": rng.randint(0, 4), "y": rng.randint(0, 4)}
                system.multicast(producer, event(number, rng.choice("ABCD"), producer, **attributes))
            case chance if chance < 0.65:
                system.sequence(rng.choice([0, 0, rng.randint(0, 5)]))
            case chance if chance < 0.95 - crashes and system.clients:
                system.advance(rng.choice(list(system.clients)), rng.randint(1, 3))
            case chance if chance < 0.97 - crashes and fresh:
                system.subscribe(fresh.pop(0), rng.choice(QUESTIONS))
            case chance if chance > 0.99 - crashes:
                who = rng.choice([each for each in (*system.clients, *producers) if each not in gone] or [""])
                if who:
                    gone.add(who)
                    producers = [each for each in producers if each != who]
                    system.leave(who, crash=who in PRODUCERS or rng.random() < 0.7)
            case _:
                system.sequence()
    return system.finish()


def findings(run: FairRun) -> dict[str, Finding]:
    return {each.rule: each for each in audit_fair(run)}


def violated(run: FairRun) -> set[str]:
    return {rule for rule, finding in findings(run).items() if finding.verdict is Verdict.VIOLATED}


@given(st.integers(0, 2**32).map(random.Random))
@settings(max_examples=3 * settings.default.max_examples)
def test_a_fair_system_keeps_every_property_on_every_run_with_joins_and_crashes(rng: random.Random) -> None:
    run = scramble(System(), rng)
    assert violated(run) == set()
    assert violated(FairRun(run.steps[: rng.randint(0, len(run.steps))], finished=False)) == set()


def test_random_runs_deliver_something_that_can_be_wrong() -> None:
    runs = [scramble(System(), random.Random(seed)) for seed in range(50)]
    delivered = [each for run in runs for each in run.steps if isinstance(each, Delivered)]
    crashed = [each for run in runs for each in run.steps if isinstance(each, Crashed)]
    assert len(delivered) > 800
    assert len(crashed) > 20
    assert {each.conjunction for each in delivered} == {
        each for question in QUESTIONS for each in question.conjunctions
    }


# -- broken systems --------------------------------------------------------------------------------------------


def talk(system: System, *types: str, of: int = 0, by: str = "p") -> None:
    """Multicast events of these types one by one, each ordered and read by all before the next."""
    for type in types:
        number = len(system.steps)
        system.multicast(by, event(number, type, by, x=number % 5, y=number % 7, of=of))
        system.sequence()
        system.settle()


class SwapsNeighbours(System):
    """A merger that reorders for one client."""

    def seen_by(self, process: str) -> Sequence[Notification]:
        if process != "bad":
            return self.order
        seen = list(self.order)
        for at in range(0, len(seen) - 1, 2):
            seen[at : at + 2] = reversed(seen[at : at + 2])
        return seen[: len(seen) // 2 * 2]


def swaps_events_of_a_type() -> FairRun:
    system = SwapsNeighbours()
    for process in ("good", "bad"):
        system.subscribe(process, "A")
    talk(system, *"AAAA")
    return system.finish()


def swaps_matches_of_a_shared_part() -> FairRun:
    system = SwapsNeighbours()
    system.subscribe("good", "A and B")
    system.subscribe("bad", "A and C")
    talk(system, *"AABBCC")
    return system.finish()


def two_orders_of_two_types() -> FairRun:
    system = SwapsNeighbours()
    for process in ("good", "bad"):
        system.subscribe(process, "A or B")
    talk(system, *"ABAB")
    return system.finish()


class JoinsWithoutState(System):
    def state(self, subscription: Subscription) -> Snapshot:
        return Snapshot.initial(subscription)


def joins_without_state() -> FairRun:
    system = JoinsWithoutState()
    system.subscribe("first", "A and B")
    talk(system, *"AA")
    system.subscribe("second", "A and B")
    talk(system, *"BAB")
    return system.finish()


class MissesWhatIsUnderWay(System):
    def subscribe(self, process: str, subscription: Subscription | str) -> None:
        super().subscribe(process, subscription)
        self.clients[process].at += process == "late"


def joins_one_event_too_late() -> FairRun:
    system = MissesWhatIsUnderWay()
    system.subscribe("first", "A.of = B.of")
    talk(system, "A")
    system.subscribe("late", "A.of = B.of")
    talk(system, *"BABAB")
    return system.finish()


class MostRecent(System):
    """A client that chooses, and so disposes, in its own way."""

    def subscribe(self, process: str, subscription: Subscription | str) -> None:
        super().subscribe(process, subscription)
        if process == "bad":
            state = replace(self.clients[process].matcher.snapshot(), choice=Choice.MOST_RECENT)
            self.clients[process] = Client(process, state, len(self.order))


def disposes_differently() -> FairRun:
    system = MostRecent()
    for process in ("good", "bad"):
        system.subscribe(process, "A[2] and B[2] and A[2].x != B[2].x")
    talk(system, *"AAABBBABAB")
    return system.finish()


class FigureOne(System):
    """Clients that search for all types together, as the paper's Figure 1 does."""

    def advance(self, process: str, count: int = 1) -> None:
        client = self.clients[process]
        for _ in range(min(count, len(self.order) - client.at)):
            client.at += 1
            for conjunction in client.matcher.snapshot().subscription.conjunctions:
                for number, relation in figure_1(conjunction, self.order[: client.at]):
                    if number == client.at - 1:
                        self.deliver(process, conjunction, relation)


def searches_to_the_letter() -> FairRun:
    system = FigureOne()
    system.subscribe("alarm", "A.x < B.y")
    system.subscribe("action", "A.x < B.y and C")
    for each in (event(1, "A", x=10), event(2, "A", x=1), event(3, "B", y=5), event(4, "B", y=20)):
        system.multicast("p", each)
    system.multicast("p", event(5, "C"))
    return system.finish()


class Drops(System):
    """A merger that does not forward some events to one subscriber."""

    def __init__(self, dropped: Callable[[Notification], bool]) -> None:
        super().__init__()
        self.dropped = dropped

    def seen_by(self, process: str) -> Sequence[Notification]:
        return [each for each in self.order if process != "bad" or not self.dropped(each)]


def drops_a_type() -> FairRun:
    system = Drops(lambda each: each.get("type") == "B")
    system.subscribe("bad", "A and B")
    talk(system, *"AABBAB")
    return system.finish()


def drops_a_type_that_is_compared_after_a_while() -> FairRun:
    system = Drops(lambda each: each.get("of") == 1 and each.get("type") == "B")
    system.subscribe("bad", "A.x <= B.y")
    talk(system, *"ABABAB")
    talk(system, *"ABABABABABAB", of=1)
    return system.finish()


def drops_an_increasing_pair_for_long() -> FairRun:
    """Nothing proves the order of events that nobody delivered; but so many cannot all have been reversed."""
    system = Drops(lambda each: True)
    system.subscribe("bad", "A[2].x > A[1].x")
    for number in range(2 * LONG_ENOUGH):
        system.multicast("p", event(number, "A", x=number))
    return system.finish()


def drops_one_event() -> FairRun:
    system = Drops(lambda each: each.get("of") == 1)
    for process in ("good", "bad"):
        system.subscribe(process, "A and B")
    talk(system, *"AB")
    talk(system, "A", of=1)
    talk(system, *"BABAB")
    return system.finish()


def drops_one_event_of_a_lonely_subscriber() -> FairRun:
    system = Drops(lambda each: each.get("of") == 1)
    system.subscribe("bad", "A or C")
    talk(system, "A")
    talk(system, "A", of=1)
    talk(system, "A")
    return system.finish()


class Repeats(System):
    """A failover to a replica that does not know what its predecessor has forwarded."""

    def seen_by(self, process: str) -> Sequence[Notification]:
        return [*self.order[:3], *self.order[1:]]


def fails_over_and_repeats() -> FairRun:
    system = Repeats()
    system.subscribe("ada", "A")
    talk(system, *"AAAAA")
    return system.finish()


class Inventive(System):
    """A merger that changes what it forwards."""

    def __init__(self, **change: Any) -> None:
        super().__init__()
        self.change = change

    def seen_by(self, process: str) -> Sequence[Notification]:
        return [Notification.of({**each.attributes, **self.change}) for each in self.order]


def corrupts_a_value() -> FairRun:
    system = Inventive(x=99)
    system.subscribe("ada", "A")
    talk(system, "A")
    return system.finish()


def makes_up_an_event() -> FairRun:
    system = Inventive(id="new")
    system.subscribe("ada", "A")
    talk(system, "A")
    return system.finish()


class Careless(System):
    """A client that does not look at the conditions."""

    def deliver(self, process: str, conjunction: Conjunction, relation: tuple[Notification, ...]) -> None:
        [asked] = parse("A.x < B.y and B.x > 3").conjunctions
        super().deliver(process, asked, relation)


def ignores_the_conditions() -> FairRun:
    system = Careless()
    system.subscribe("ada", "A and B")
    talk(system, *"ABABAB")
    steps = [
        replace(each, subscription=parse("A.x < B.y and B.x > 3")) if isinstance(each, Subscribed) else each
        for each in system.finish().steps
    ]
    return FairRun(tuple(steps), finished=True)


class Undead(System):
    """A process that goes on after it has gone."""

    def leave(self, process: str, *, crash: bool) -> None:
        client = self.clients[process]
        super().leave(process, crash=crash)
        self.clients[process] = client


def delivers_after_a_crash() -> FairRun:
    system = Undead()
    system.subscribe("ada", "A")
    talk(system, "A")
    system.leave("ada", crash=True)
    talk(system, "A")
    return system.finish()


def delivers_after_unsubscribing() -> FairRun:
    system = Undead()
    system.subscribe("ada", "A")
    system.leave("ada", crash=False)
    talk(system, "A")
    return system.finish()


class OverlooksTheRest(System):
    """A leader that crashes with what it had forwarded to one client only."""

    def seen_by(self, process: str) -> Sequence[Notification]:
        return self.order if process == "lucky" else self.order[:4]


def loses_what_one_client_has() -> FairRun:
    system = OverlooksTheRest()
    system.subscribe("lucky", "A and B")
    system.subscribe("unlucky", "A and B")
    talk(system, *"ABAB", "A", "B")
    system.leave("lucky", crash=True)
    return system.finish()


class ThreeOrders(System):
    """A ring of mergers, of which each puts its own first: no two clients contradict each other."""

    def seen_by(self, process: str) -> Sequence[Notification]:
        at = "abc".index(process)
        return [each for each in (*self.order[at:], *self.order[:at]) if each.get("of") != (at + 2) % 3]


def three_orders_in_a_circle() -> FairRun:
    system = ThreeOrders()
    for process in "abc":
        system.subscribe(process, "A(of in {0, 1, 2})")
    for number in range(3):
        system.multicast("p", event(number, "A", of=number))
    return system.finish()


BROKEN: dict[Callable[[], FairRun], str] = {
    swaps_events_of_a_type: "event total order",
    swaps_matches_of_a_shared_part: "conjunction total order",
    two_orders_of_two_types: "disjunction total order",
    three_orders_in_a_circle: "event total order",
    joins_without_state: "covering agreement",
    joins_one_event_too_late: "covering agreement",
    disposes_differently: "covering agreement",
    searches_to_the_letter: "covering agreement",
    loses_what_one_client_has: "covering agreement",
    drops_a_type: "conjunction validity",
    drops_a_type_that_is_compared_after_a_while: "conjunction validity",
    drops_an_increasing_pair_for_long: "conjunction validity",
    drops_one_event: "event validity",
    drops_one_event_of_a_lonely_subscriber: "event validity",
    fails_over_and_repeats: "no duplication",
    corrupts_a_value: "no creation",
    makes_up_an_event: "no creation",
    ignores_the_conditions: "admission",
    delivers_after_a_crash: "admission",
    delivers_after_unsubscribing: "admission",
}
# What a fault breaks besides; elsewhere it is caught by one property alone.
BESIDES = {
    swaps_events_of_a_type: {"conjunction total order", "disjunction total order"},
    swaps_matches_of_a_shared_part: {"event total order"},
    three_orders_in_a_circle: {
        "conjunction total order",
        "covering agreement",
        "disjunction total order",
        "event validity",
        "conjunction validity",
    },
    loses_what_one_client_has: {"conjunction validity", "event validity"},
    drops_a_type: {"event validity"},
    drops_one_event: {"covering agreement"},
    makes_up_an_event: {"conjunction validity", "event validity"},
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda each: each.__name__)
def test_a_broken_system_is_caught_by_the_property_that_it_breaks(broken: Callable[[], FairRun]) -> None:
    run = broken()
    assert any(isinstance(step, Delivered) for step in run.steps) or "drops" in broken.__name__
    found = violated(run)
    assert BROKEN[broken] in found
    assert found <= {BROKEN[broken], *BESIDES.get(broken, set())}


@given(st.integers(0, 2**32).map(random.Random))
def test_a_client_that_joins_without_state_breaks_agreement_or_nothing(rng: random.Random) -> None:
    assert violated(scramble(JoinsWithoutState(), rng)) <= {"covering agreement"}


# -- mutated runs ----------------------------------------------------------------------------------------------


def fair_run(seed: int) -> FairRun:
    """Two processes for each question, and events that all read at once or after a while."""
    rng, system = random.Random(seed), System()
    for number, question in enumerate((*QUESTIONS, *QUESTIONS)):
        system.subscribe(f"q{number}", question)
    for number in range(80):
        attributes = {"x": rng.randint(0, 4), "y": rng.randint(0, 4)}
        system.multicast("p", event(number, rng.choice("ABCD"), **attributes))
        system.sequence()
        for process in system.clients:
            system.advance(process, rng.choice([0, 2, 9]))
    system.settle()
    system.leave("q0", crash=True)
    return system.finish()


Steps = list[Step]


def deliveries(steps: Steps, **wanted: Any) -> list[int]:
    return [
        place
        for place, each in enumerate(steps)
        if isinstance(each, Delivered)
        and each.process != "q0"
        and all(getattr(each, name) == value for name, value in wanted.items())
    ]


def some_delivery(steps: Steps, rng: random.Random) -> tuple[int, Delivered]:
    place = rng.choice(deliveries(steps))
    found = steps[place]
    assert isinstance(found, Delivered)
    return place, found


def repeated(steps: Steps, rng: random.Random) -> None:
    place, each = some_delivery(steps, rng)
    steps.insert(rng.randint(place + 1, len(steps)), each)


def repeated_in_part(steps: Steps, rng: random.Random) -> None:
    """An event that was delivered before, in place of the one that is to be delivered."""
    place = rng.choice(deliveries(steps, conjunction=parse("A and B").conjunctions[0])[2:])
    each = steps[place]
    assert isinstance(each, Delivered)
    earlier = next(
        before
        for before in steps[:place]
        if isinstance(before, Delivered)
        and (before.process, before.conjunction) == (each.process, each.conjunction)
    )
    steps[place] = replace(each, relation=(earlier.relation[0], each.relation[1]))


def forged(steps: Steps, rng: random.Random) -> None:
    place, each = some_delivery(steps, rng)
    made_up = Notification.of({**each.relation[0].attributes, "id": "made up"})
    steps[place] = replace(each, relation=(made_up, *each.relation[1:]))


def changed(steps: Steps, rng: random.Random) -> None:
    place, each = some_delivery(steps, rng)
    other = Notification.of({**each.relation[-1].attributes, "z": 1})
    steps[place] = replace(each, relation=(*each.relation[:-1], other))


def foreseen(steps: Steps, rng: random.Random) -> None:
    place, each = some_delivery(steps, rng)
    event = rng.choice(each.relation)
    told = next(at for at, step in enumerate(steps) if isinstance(step, Multicast) and step.event == event)
    steps.insert(told, steps.pop(place))


def by_a_stranger(steps: Steps, rng: random.Random) -> None:
    place, each = some_delivery(steps, rng)
    steps[place] = replace(each, process="stranger")


def for_another_conjunction(steps: Steps, rng: random.Random) -> None:
    place, each = some_delivery(steps, rng)
    others = {one for question in QUESTIONS for one in question.conjunctions if one != each.conjunction}
    steps[place] = replace(each, conjunction=rng.choice(sorted(others, key=str)))


def turned_round(steps: Steps, rng: random.Random) -> None:
    place = rng.choice(deliveries(steps, conjunction=parse("A.x < B.y").conjunctions[0]))
    each = steps[place]
    assert isinstance(each, Delivered)
    steps[place] = replace(each, relation=each.relation[::-1])


def dropped(steps: Steps, rng: random.Random) -> None:
    del steps[some_delivery(steps, rng)[0]]


def dropped_though_it_fits_alone(steps: Steps, rng: random.Random) -> None:
    del steps[rng.choice(deliveries(steps, conjunction=parse("A").conjunctions[0])[:-1])]


def cut_off(steps: Steps, rng: random.Random) -> None:
    """One process delivers nothing more, though it could."""
    _, each = some_delivery(steps, rng)
    own = deliveries(steps, process=each.process, conjunction=each.conjunction)
    for place in reversed(own[len(own) // 3 :]):
        del steps[place]


def swapped(steps: Steps, rng: random.Random) -> None:
    _, each = some_delivery(steps, rng)
    swap(
        steps,
        rng.choice(list(pairwise(deliveries(steps, process=each.process, conjunction=each.conjunction)))),
    )


def swapped_between_conjunctions(steps: Steps, rng: random.Random) -> None:
    """Two deliveries, for different conjunctions, behind all that was multicast."""
    places = deliveries(steps, process=f"q{QUESTIONS.index(parse('A or B'))}")
    swap(steps, rng.choice([pair for pair in pairwise(places) if conjunction_at(steps, *pair) == 2]))


def conjunction_at(steps: Steps, *places: int) -> int:
    return len(
        {step.conjunction for step in (steps[place] for place in places) if isinstance(step, Delivered)}
    )


def swap(steps: Steps, places: tuple[int, int]) -> None:
    one, two = places
    steps[one], steps[two] = steps[two], steps[one]


MUTATIONS: dict[Callable[[Steps, random.Random], None], set[str]] = {
    repeated: {"no duplication"},
    repeated_in_part: {"no duplication", "covering agreement"},
    forged: {"no creation"},
    changed: {"no creation"},
    foreseen: {"no creation"},
    by_a_stranger: {"admission"},
    for_another_conjunction: {"admission"},
    turned_round: {"admission"},
    dropped: {"covering agreement"},
    dropped_though_it_fits_alone: {"covering agreement", "event validity"},
    cut_off: {"covering agreement", "conjunction validity"},
    swapped: {"event total order", "conjunction total order", "disjunction total order"},
    swapped_between_conjunctions: {"disjunction total order"},
}


def mutated(run: FairRun, mutation: Callable[[Steps, random.Random], None], rng: random.Random) -> FairRun:
    steps = list(run.steps)
    mutation(steps, rng)
    return replace(run, steps=tuple(steps))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.__name__)
def test_a_mutated_run_is_caught_by_the_properties_that_it_breaks(
    mutation: Callable[[Steps, random.Random], None],
) -> None:
    for seed in range(8):
        run = FAIR_RUNS[seed % len(FAIR_RUNS)]
        assert violated(mutated(run, mutation, random.Random(seed))) >= MUTATIONS[mutation], seed


FAIR_RUNS = [fair_run(seed) for seed in range(2)]


def test_the_runs_that_are_mutated_are_fair() -> None:
    assert [violated(run) for run in FAIR_RUNS] == [set(), set()]


# -- the formulas, word for word -------------------------------------------------------------------------------


def first_only(rows: dict[Any, list[Any]]) -> list[list[Any]]:
    return [list(dict.fromkeys(row)) for row in rows.values()]


def no_one_order(chains: list[list[Any]]) -> bool:
    """Two chains have two things in different orders, or more of them go round in a circle."""
    graph: dict[Any, set[Any]] = {}
    for row in chains:
        for one, two in combinations(row, 2):
            graph.setdefault(two, set()).add(one)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return True
    return False


def names(relation: Sequence[Notification]) -> tuple[Any, ...]:
    return tuple(identity_of(each) for each in relation)


def part_of(conjunction: Conjunction, types: set[str]) -> Conjunction | None:
    """Φ, where the conjunction is Φ ∧ Ψ, Φ's types are these, and Ψ has none of them."""

    def mentioned(predicate: Any) -> set[str]:
        if hasattr(predicate, "left"):
            return {predicate.left.instance.type, predicate.right.instance.type}
        return {getattr(predicate, "instance", predicate).type}

    inside = [each for each in conjunction.predicates if mentioned(each) <= types]
    outside = [each for each in conjunction.predicates if not mentioned(each) & types]
    whole = len(inside) + len(outside) == len(conjunction.predicates)
    return Conjunction.of(inside) if whole and inside else None


def literally_violated(run: FairRun) -> set[str]:
    """Each formula over all steps, pairs and subsets that it speaks of; all subscribe before all else."""
    delivered = [(place, each) for place, each in enumerate(run.steps) if isinstance(each, Delivered)]
    told = {
        identity_of(each.event): (place, each.event)
        for place, each in enumerate(run.steps)
        if isinstance(each, Multicast)
    }
    asked = {each.process: each.subscription for each in run.steps if isinstance(each, Subscribed)}
    gone = {
        each.process: place
        for place, each in enumerate(run.steps)
        if isinstance(each, Crashed | Unsubscribed)
    }
    found = set()
    seen: set[Any] = set()
    by_type: dict[Any, list[Any]] = {}
    by_part: dict[Any, list[Any]] = {}
    by_process: dict[str, list[Any]] = {}
    for place, each in delivered:
        for one in each.relation:
            identity = identity_of(one)
            if (each.process, each.conjunction, identity) in seen:
                found.add("no duplication")
            seen.add((each.process, each.conjunction, identity))
            if identity not in told or told[identity][0] > place or told[identity][1] != one:
                found.add("no creation")
            by_type.setdefault((each.process, each.conjunction, one.get("type")), []).append(identity)
        if (
            each.process not in asked
            or each.conjunction not in asked[each.process].conjunctions
            or gone.get(each.process, place) < place
            or not each.conjunction.admits(each.relation)
        ):
            found.add("admission")
        by_process.setdefault(each.process, []).append((each.conjunction, names(each.relation)))
        if len(each.relation) != len(each.conjunction.signature):
            continue
        types = set(each.conjunction.signature)
        for some in chain.from_iterable(
            combinations(sorted(types), size) for size in range(1, len(types) + 1)
        ):
            part = part_of(each.conjunction, set(some))
            if part is None:
                continue
            relation = names(
                [
                    one
                    for one, type in zip(each.relation, each.conjunction.signature, strict=True)
                    if type in some
                ]
            )
            by_part.setdefault((each.process, each.conjunction, part), []).append((part, relation))
            extends_to_the_right = some == tuple(sorted(types))[: len(some)]
            if not extends_to_the_right or not all(identity in told for identity in relation):
                continue
            for process, subscription in asked.items():
                if process in gone or part not in subscription.conjunctions or each.process not in asked:
                    continue
                if each.conjunction not in asked[each.process].conjunctions:
                    continue
                if not any(
                    (other.process, other.conjunction, names(other.relation)) == (process, part, relation)
                    for _, other in delivered
                ):
                    found.add("covering agreement")
    for rule, rows in (
        ("event total order", by_type),
        ("conjunction total order", by_part),
        ("disjunction total order", by_process),
    ):
        if no_one_order(first_only(rows)):
            found.add(rule)
    return found


def disturb(steps: Steps, rng: random.Random) -> None:
    """Any step but those of the beginning goes, comes again, moves, or changes its process or its events."""
    free = [place for place, each in enumerate(steps) if isinstance(each, Delivered)]
    if not free:
        return
    place = rng.choice(free)
    each = steps[place]
    assert isinstance(each, Delivered)
    other = steps[rng.choice(free)]
    assert isinstance(other, Delivered)
    match rng.randrange(6):
        case 0:
            del steps[place]
        case 1:
            steps.insert(rng.randint(place, len(steps)), each)
        case 2:
            swap(steps, (place, rng.choice(free)))
        case 3:
            steps[place] = replace(each, process=other.process)
        case 4:
            steps[place] = replace(each, relation=other.relation)
        case _:
            steps[place] = replace(each, relation=(*other.relation[:1], *each.relation[1:]))


JUDGED_TO_THE_LETTER = PROPERTIES.keys() - {"event validity", "conjunction validity"}


@given(st.integers(0, 2**32).map(random.Random))
@settings(max_examples=3 * settings.default.max_examples)
def test_the_programs_find_what_the_formulas_find(rng: random.Random) -> None:
    system = System()
    for process in PROCESSES[: rng.randint(2, 5)]:
        system.subscribe(process, rng.choice(QUESTIONS))
    for number in range(16):
        system.multicast("p", event(number, rng.choice("AABBCD"), x=rng.randint(0, 2), y=rng.randint(1, 3)))
        system.sequence(rng.randint(0, 1))
        for process in rng.sample(sorted(system.clients), len(system.clients) // 2):
            system.advance(process, 3)
        if number == 12 and rng.random() < 0.3:
            system.leave(rng.choice(list(system.clients)), crash=rng.random() < 0.5)
    steps = list(system.finish().steps)
    for _ in range(rng.randint(0, 3)):
        disturb(steps, rng)
    run = FairRun(tuple(steps), finished=True)
    assert violated(run) & JUDGED_TO_THE_LETTER == literally_violated(run)


# -- the small print -------------------------------------------------------------------------------------------


def test_what_is_missing_from_a_run_that_is_not_finished_is_open() -> None:
    run = drops_a_type()
    open_run = findings(replace(run, finished=False))
    assert open_run["conjunction validity"].verdict is Verdict.OPEN
    assert open_run["event validity"].verdict is Verdict.OPEN
    agreement = findings(replace(loses_what_one_client_has(), finished=False))["covering agreement"]
    assert (agreement.verdict, agreement.open) == (Verdict.OPEN, 1)


def test_an_event_that_a_later_one_overtook_is_lost_though_the_run_goes_on() -> None:
    run = replace(drops_one_event(), finished=False)
    assert "event validity" in violated(run)


def test_where_the_order_of_the_instances_is_not_proved_validity_is_open() -> None:
    system = Drops(lambda each: True)
    system.subscribe("bad", "A[2].x > A[1].x")
    for number in range(3):
        system.multicast("p", event(number, "A", x=number))
    finding = findings(system.finish())["conjunction validity"]
    assert (finding.verdict, finding.open) == (Verdict.OPEN, 1)


def test_where_the_order_of_the_instances_does_not_matter_validity_is_judged() -> None:
    system = Drops(lambda each: True)
    system.subscribe("bad", "A[3]")
    for number in range(3):
        system.multicast("p", event(number, "A", x=number))
    assert violated(system.finish()) == {"conjunction validity"}


def test_where_others_delivered_the_instances_their_order_is_proved() -> None:
    system = Drops(lambda each: True)
    system.subscribe("bad", "A[2].x > A[1].x")
    system.subscribe("good", "A")
    for number in range(2):
        system.multicast("p", event(number, "A", x=number))
    assert violated(system.finish()) == {"conjunction validity"}


def test_events_of_a_crashed_process_are_owed_only_where_somebody_delivered_them() -> None:
    system = Drops(lambda each: each.producer == "p")
    system.subscribe("bad", "A")
    system.multicast("p", event(1, "A"))
    system.leave("p", crash=True)
    assert violated(system.finish()) == set()
    shared = Drops(lambda each: each.producer == "p")
    for process in ("good", "bad"):
        shared.subscribe(process, "A")
    talk(shared, "A")
    shared.leave("p", crash=True)
    assert violated(shared.finish()) == {"covering agreement", "conjunction validity", "event validity"}


def test_event_validity_is_not_promised_where_a_type_has_several_instances() -> None:
    system = System()
    system.subscribe("ada", "T[1] and T[2].x = 1")
    for number, x in enumerate((0, 0, 1)):
        system.multicast("p", event(number, "T", x=x))
    run = system.finish()
    [delivered] = [each for each in run.steps if isinstance(each, Delivered)]
    assert [each.id for each in delivered.relation] == ["0", "2"]
    assert violated(run) == set()


def test_who_begins_alone_amid_the_run_agrees_with_those_who_take_over_from_it() -> None:
    """Its queues were empty where those of the other were not: only what follows from its own is owed."""
    for broken, expected in ((System, set()), (JoinsWithoutState, {"covering agreement"})):
        system = broken()
        system.subscribe("old", "A and B and C")
        talk(system, *"AA")
        system.subscribe("new", "A and B")
        talk(system, *"A")
        system.subscribe("heir", "A and B")
        talk(system, *"BCBCBC")
        assert violated(system.finish()) == expected


def test_covering_agreement_extends_to_the_right() -> None:
    """Mergers keep the order of the first types in whatever they merge into it, but not that of others."""
    for first, extended, expected in (("A.x < B.x", "C", {"covering agreement"}), ("B.x < C.x", "A", set())):
        system = Drops(lambda each: each.get("of") == 1)
        system.subscribe("good", f"{first} and {extended}")
        system.subscribe("bad", first)
        for number, (type, of) in enumerate([("A", 0), ("A", 1), ("B", 1), ("B", 0), ("C", 0)]):
            system.multicast("p", event(number, type, x=number, of=of))
        run = system.finish()
        assert violated(run) & {"covering agreement"} == expected


def test_two_of_one_type_in_one_relation_count_in_its_order() -> None:
    system = System()
    system.subscribe("pairs", "A[2]")
    system.subscribe("each", "A")
    talk(system, *"AAAA")
    run = system.finish()
    assert violated(run) == set()
    steps = [
        replace(each, relation=each.relation[::-1])
        if isinstance(each, Delivered) and each.process == "pairs"
        else each
        for each in run.steps
    ]
    assert violated(replace(run, steps=tuple(steps))) == {"event total order"}


def test_violations_come_with_the_steps_that_prove_them() -> None:
    run = searches_to_the_letter()
    [violation] = findings(run)["covering agreement"].violations
    told, delivered = (run.steps[place] for place in violation.indexes)
    assert isinstance(told, Subscribed)
    assert told.process == "alarm"
    assert isinstance(delivered, Delivered)
    assert delivered.process == "action"
    assert "alarm never delivered [p/1, p/4]" in violation.what


@pytest.mark.parametrize(
    "steps",
    [
        [Multicast("p", event(1, "A"), 0), Multicast("p", event(1, "A"), 1)],
        [Subscribed("ada", parse("A"), 0), Subscribed("ada", parse("B"), 1)],
        [Multicast("p", Notification.of({"type": "A"}), 0)],
        [Established("ada", 0)],
        [Unsubscribed("ada", 0)],
    ],
    ids=["multicast twice", "subscribed twice", "no id", "established unasked", "unsubscribed unasked"],
)
def test_a_run_that_cannot_be_is_refused(steps: Steps) -> None:
    with pytest.raises(TraceRefused):
        audit_fair(FairRun(tuple(steps), finished=False))


def test_an_unknown_property_is_refused() -> None:
    with pytest.raises(ValueError, match="no such property: kindness"):
        audit_fair(FairRun((), finished=True), "kindness")


def test_the_empty_run_is_fair() -> None:
    assert [finding.rule for finding in audit_fair(FairRun((), finished=True))] == list(PROPERTIES)
    assert audit_fair(FairRun((), finished=True)).verdict is Verdict.HOLDS
