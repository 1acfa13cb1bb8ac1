"""Integrated routing with one defect each: a small network with everything in it finds every one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fairlead.broker import Broker, Settings
from fairlead.filters import Filter
from fairlead.model import Instant, Multi, Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.routing import STRATEGIES
from fairlead.rules import Depends, Form, Refusal, Route
from fairlead.rules.integrated import CHANGE, CHANGES, FOLLOWER, MARK, BrokerScoping
from fairlead.scopes import Scopes
from fairlead_lab.testing.nodes import End, Line

INTERFACES = """
DEFINE SCOPE T AS ALL FROM S, t
DEFINE SCOPE S AS ALL FROM a, b, late INTERFACES INPUT(0), OUTPUT(type = "order")
DEFINE SCOPE U AS ALL FROM u, v
DEFINE COMPONENT a AS SUPERSCOPE FROM S : { INTERFACES INPUT(0), OUTPUT(1) }
DEFINE COMPONENT late AS SUPERSCOPE FROM S : { INTERFACES INPUT(type = "note"), OUTPUT(1) }
"""
CHOOSING = f"""
{INTERFACES}
DEFINE SCOPE P AS ALL FROM p, w1, w2, Far INTERNAL POLICY ONE BY TURN WHEN (type = "job")
DEFINE SCOPE Far AS ALL FROM f INTERFACES INPUT(type = "order"), OUTPUT(0) MAP INWARD {{ DROP secret }}
"""


class World:
    """Brokers b0, b1, b2 in a line; the deliveries of each client, and what went over each link."""

    def __init__(self, rule: type[BrokerScoping], text: str) -> None:
        def broker(name: str) -> Broker:
            return Broker(name, Settings(STRATEGIES["covering"](0.1)), rules=[rule(Scopes.parse(text))])

        self.line, self.number = Line(3, make=broker), 0
        self.ends: dict[str, End] = {}
        for at in range(3):
            self.subscribe(at, f"{FOLLOWER}b{at}", f'type = "{CHANGE}"')

    def connect(self, at: int, name: str) -> End:
        self.ends[name] = self.line.client(at, name)
        return self.ends[name]

    def subscribe(self, at: int, name: str, filter: str = "exists type", durable: str = "") -> None:
        self.number += 1
        self.connect(at, name).hear(wire.control(wire.Subscribe(self.number, "s", filter, durable)))
        self.line.settle()

    def leave(self, name: str) -> None:
        self.ends.pop(name).hear(wire.control(wire.Bye("gone")))
        self.line.settle()

    def publish(self, at: int, name: str, kind: str, **more: Any) -> None:
        self.number += 1
        event = {"type": kind, "producer": name, "id": f"{kind}{self.number}", "time": Instant(self.number)}
        end = self.ends.get(name) or self.connect(at, name)
        end.hear(wire.publish(self.number, pack(Notification.of({**event, **more}))))
        self.line.settle()

    def change(self, text: str) -> None:
        self.publish(0, CHANGES, CHANGE, text=text)

    def got(self, name: str) -> list[str]:
        """The types of what a client was delivered; with what else it should not, or need not have seen."""
        found = [unpack(wire.parse_deliver(each)[2]) for each in self.ends[name].frames(wire.DELIVER)]
        return [
            " ".join(
                [str(each.get("type")), *(extra for extra in ("secret", MARK) if extra in each.attributes)]
            )
            for each in found
        ]

    @property
    def relayed(self) -> Counter[str]:
        ends = [end for pair in self.line.links for end in pair]
        return Counter(
            f"{end.node.name} to {end.session.name}" for end in ends for _ in end.frames(wire.RELAY)
        )


def interfaces(rule: type[BrokerScoping]) -> object:
    """Who gets what over three brokers, over which links, while the graph changes."""
    world = World(rule, INTERFACES)
    for at, name in ((2, "b"), (2, "t"), (1, "u"), (1, "v")):
        world.subscribe(at, name)
    world.subscribe(0, "late", "exists type", "late")
    world.subscribe(2, "a", "exists type", "a")  # `a` subscribes here, and publishes at another broker
    world.leave("a")
    for name, at, kind in (
        *(("a", 0, "order"), ("a", 0, "note"), ("x", 0, "note")),
        *(("u", 1, "order"), ("t", 2, "note")),
    ):
        world.publish(at, name, kind)
    before = world.relayed
    world.leave("late")
    world.publish(0, "a", "note")
    world.change("LEAVE late FROM S")
    world.change("JOIN u TO S")
    world.publish(0, "a", "note")
    world.subscribe(0, "late", "exists type", "late")
    world.subscribe(2, "a", "exists type", "a")
    return before, {name: world.got(name) for name in ("a", "b", "t", "u", "v", "late")}


def choosing(rule: type[BrokerScoping]) -> object:
    """A policy that chooses among members at two brokers, and a mapping at a border."""
    world = World(rule, CHOOSING)
    for at, name in ((0, "w1"), (2, "w2"), (2, "f"), (1, "u")):
        world.subscribe(at, name)
    for kind in ("job", "job", "order"):
        world.publish(1, "p", kind, secret=1)
    forged = '[[null, "u", "w1", "f"]]'
    world.publish(1, "p", "forged", **{MARK: forged})
    return {name: world.got(name) for name in ("w1", "w2", "f", "u")}, world.relayed


PLANS = (interfaces, choosing)


def test_the_network_delivers_what_is_visible_over_the_links_that_it_takes() -> None:
    relayed, got = interfaces(BrokerScoping)  # type: ignore[misc]
    assert got == {
        "a": ["order", "note", "note", "note"],
        "b": ["order", "note", "note", "note"],
        "t": ["order", "note"],
        "u": ["order", "note"],
        "v": ["order"],
        "late": ["note", "note"],
    }
    # Two of `a` to the far end; what `x`, `u` and `t` publish stays at their brokers.
    assert relayed == {"b0 to b1": 2, "b1 to b2": 2}
    got, relayed = choosing(BrokerScoping)  # type: ignore[misc]
    assert got == {
        "w1": ["job secret", "order secret"],
        "w2": ["job secret", "order secret"],
        "f": ["order"],
        "u": [],
    }
    assert relayed == {"b1 to b0": 2, "b1 to b2": 2}


# -- mutants ---------------------------------------------------------------------------------------------------


class HidesAtTheEdge(BrokerScoping):
    """Entries say nothing of scopes: brokers send notifications that nobody behind the link can see."""

    def declare(self, who: str, filter: Filter) -> Filter:
        return filter


class CoversAcrossScopes(BrokerScoping):
    """All entries are in the same scopes, so that one covers the others."""

    def _tokens_of(self, component: str) -> Any:
        return ("@", "*", ":S", ":T", ":U", ":default")


class ChoosesAtEveryBroker(BrokerScoping):
    """A policy is asked at each broker, for the clients there."""

    def mark(self, notification: Notification, now: int) -> Notification:
        return notification

    def forms(self, notification: Notification, source: str) -> Sequence[Form]:
        marked = super().mark(notification, 0)
        return super().forms(marked, source)


class ForgetsToDeclareAnew(BrokerScoping):
    """Neighbours do not learn what a change makes of subscriptions."""

    def learn(self, notification: Notification, offset: int) -> bool:
        super().learn(notification, offset)
        return False


class JudgesByTodaysGraph(BrokerScoping):
    """A durable subscriber that was away is judged by the graph of now."""

    def judge_at(self, offset: int | None) -> None:
        pass

    @property
    def changed_at(self) -> int:
        return 0


class DeliversTheMark(BrokerScoping):
    """Clients get a marked publication as it travels."""

    def forms(self, notification: Notification, source: str) -> Sequence[Form]:
        found = super().forms(notification, source)
        return [Form(form.matched, form.delivered and notification) for form in found]


class DoesNotSeeItself(BrokerScoping):
    """A component that is at two brokers does not see what it publishes."""

    def _tokens_of(self, component: str) -> Any:
        return (each for each in super()._tokens_of(component) if each != f"={component}")


class BelievesMarks(BrokerScoping):
    """A client may mark its publications."""

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        return None


class ForgetsTheLastEdge(BrokerScoping):
    """A member of a visible scope gets everything that is there."""

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        return route


class RemembersWithoutTheProducer(BrokerScoping):
    """Two producers share a route."""

    @property
    def depends(self) -> Depends:
        return replace(super().depends, producer=False, source=False)


class LetsIncomingGoUp(BrokerScoping):
    """A notification is visible in every scope above one in which it is."""

    def forms(self, notification: Notification, source: str) -> Sequence[Form]:
        return [
            Form(replace(each.matched, attributes=_with_all(each.matched)), each.delivered)
            for each in super().forms(notification, source)
        ]

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        return route


def _with_all(form: Notification) -> Any:
    tokens: Any = form.attributes.lookup(MARK)
    return type(form.attributes)(
        {**dict(form.attributes.items()), MARK: Multi([*tokens, ":S", ":T"] if ":S" in tokens else tokens)}
    )


MUTANTS = (
    HidesAtTheEdge,
    CoversAcrossScopes,
    ChoosesAtEveryBroker,
    ForgetsToDeclareAnew,
    JudgesByTodaysGraph,
    DeliversTheMark,
    DoesNotSeeItself,
    BelievesMarks,
    ForgetsTheLastEdge,
    RemembersWithoutTheProducer,
    LetsIncomingGoUp,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.__name__)
def test_every_mutant_is_found(mutant: type[BrokerScoping]) -> None:
    assert any(plan(mutant) != plan(BrokerScoping) for plan in PLANS)
