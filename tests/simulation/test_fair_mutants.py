"""The properties of fair correlation see through processes that are broken on purpose, in the simulated network.

Each mutant breaks a process of `fairlead_lab.broker.fair`, in all else unchanged, and the audit of what the
clients delivered has to say so, by the property that the mutant breaks. The same runs with sound processes hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from fairlead.audit.fair.judging import audit_fair
from fairlead.correlation.fair import parse
from fairlead.model import Notification
from fairlead_lab.broker.fair import Directory, Ordering
from fairlead_lab.broker.fair.client import Client
from fairlead_lab.broker.fair.desk import Desk
from fairlead_lab.broker.fair.messages import Deliver, Item, Multicast, Subscribe, Unsubscribe
from fairlead_lab.simulation.fair import FairSimulation

NODES = ("n1", "n2", "n3", "n4", "n5")
CLIENTS = ("ada", "bob", "cid", "dan", "eve")
EITHER = "A.x < B.x or C.x > 1"
QUESTIONS = ("A.x < B.x", "A.x < B.x and C", "A and B", EITHER, "A.x > 3")
WAYS = ((Ordering.MERGING, 1), (Ordering.MERGING, 3), (Ordering.SEQUENCER, 1), (Ordering.SEQUENCER, 3))
LONG_US = 5_000_000
PLANS = 4


def violated(seed: int, ordering: Ordering, replicas: int) -> set[str]:
    """The properties that a run breaks: some join late, one leaves, and a replica crashes where there are some."""
    rng = Random(seed)
    simulation = FairSimulation(Directory(NODES, ordering, replicas), CLIENTS, seed=seed, detection_us=5_000)
    for number, client in enumerate(CLIENTS):
        begins = 0 if number < 3 else rng.randint(12_000, 20_000)
        asked = (EITHER, QUESTIONS[0], EITHER, QUESTIONS[0], rng.choice(QUESTIONS))[number]
        simulation.at(begins, client, Subscribe(parse(asked)))
    simulation.at(22_000, "cid", Unsubscribe())
    for number in range(80):
        content = {"id": str(number), "producer": "p", "type": rng.choice("ABC"), "x": rng.randint(0, 9)}
        simulation.at(
            10_000 + 200 * number + rng.randint(0, 300),
            rng.choice(CLIENTS),
            Multicast(Notification.of(content)),
        )
    if replicas > 1:
        simulation.crash(rng.randint(12_000, 24_000), rng.choice(NODES))
    record = simulation.run(LONG_US)
    return {finding.rule for finding in audit_fair(record.run).findings if finding.violations}


def found(ways: tuple[tuple[Ordering, int], ...] = WAYS) -> set[str]:
    return set().union(*(violated(seed, *way) for seed in range(PLANS) for way in ways))


def test_sound_processes_break_nothing() -> None:
    assert found() == set()


# -- the mutants -------------------------------------------------------------------------------------------


def joins_without_state(self: Desk, client: str, conjunction: object) -> None:
    """A merger that lets a client begin with empty queues."""


def drops(self: Desk, event: Notification, then: Callable[..., Any]) -> list[Any]:
    """A merger that now and then forgets one of those who are interested."""
    recipients = list(then(self, event))
    return recipients[1:] if int(event.id or 0) % 5 == 0 else recipients


def swaps(self: Client, stream: Any, item: Item, then: Callable[..., None]) -> None:
    """A client that takes events in the order in which they come off a network without one."""
    held = self.__dict__.setdefault("held", {})
    is_event = len(item.contents) == 1 and isinstance(item.contents[0], Notification)
    first = held.pop(stream.role, None)
    if self.name == "ada" and is_event and first is None:
        held[stream.role] = item
        stream.got = item.position
    elif first is not None and is_event:
        then(self, stream, replace(first, contents=item.contents))
        then(self, stream, replace(item, contents=first.contents))
    else:
        if first is not None:
            then(self, stream, first)
        then(self, stream, item)


def repeats(self: Client, then: Callable[..., None]) -> None:
    """A client that delivers again what it has delivered, as one that recovers without a state."""
    before = len(self._effects)
    then(self)
    if self.name == "ada":
        self._effects += self._effects[before : before + 1]


def invents(self: Client, stream: Any, item: Item, content: Any, then: Callable[..., None]) -> None:
    """A client that makes an event up."""
    if self.name == "bob" and isinstance(content, Notification) and int(content.id or 0) % 7 == 0:
        content = dataclasses.replace(content, id=f"{content.id}0000")
    then(self, stream, item, content)


def forgets_at_failover(self: Client, process: str, then: Callable[..., None]) -> None:
    """A client that asks the next replica for all that it has, and takes it for new."""
    for stream in self._streams.values():
        stream.got = 0
    then(self, process)


def falls_silent(self: Client, then: Callable[..., None]) -> None:
    """A client that is there and delivers nothing."""
    if self.name == "bob":
        self._complete.clear()
    then(self)


def does_not_wait(self: Client, then: Callable[..., None]) -> None:
    """A client that delivers what one merger has, before it knows what others have at that time."""
    self._effects += [Deliver(each[3]) for each in self._complete]
    self._complete.clear()


def delivers_what_nobody_asked(self: Client, then: Callable[..., None]) -> None:
    """A client that says of its deliveries that they answer another conjunction."""
    before = len(self._effects)
    then(self)
    if self.name == "ada":
        for at, effect in enumerate(self._effects[before:], before):
            if isinstance(effect, Deliver):
                other = parse(" and ".join("A" * len(effect.relation.events)))
                self._effects[at] = Deliver(effect.relation._replace(conjunction=other.conjunctions[0]))


@contextmanager
def mutated(kind: type, method: str, mutant: Callable[..., Any]) -> Iterator[None]:
    sound = getattr(kind, method)
    takes_it = "then" in mutant.__annotations__

    def broken(self: Any, *given: Any) -> Any:
        return mutant(self, *given, then=sound) if takes_it else mutant(self, *given)

    with patch.object(kind, method, broken):
        yield


MUTANTS: tuple[tuple[type, str, Callable[..., Any], str], ...] = (
    (Desk, "_source", joins_without_state, "covering agreement"),
    (Desk, "_interested", drops, "covering agreement"),
    (Client, "_next", swaps, "event total order"),
    (Client, "_deliver", repeats, "no duplication"),
    (Client, "_take", invents, "no creation"),
    (Client, "_down", forgets_at_failover, "no duplication"),
    (Client, "_deliver", falls_silent, "covering agreement"),
    (Client, "_deliver", does_not_wait, "disjunction total order"),
    (Client, "_deliver", delivers_what_nobody_asked, "admission"),
)


@pytest.mark.parametrize(
    ("kind", "method", "mutant", "rule"), MUTANTS, ids=[each[2].__name__ for each in MUTANTS]
)
def test_a_broken_process_is_found(kind: type, method: str, mutant: Callable[..., Any], rule: str) -> None:
    with mutated(kind, method, mutant):
        assert rule in found()
