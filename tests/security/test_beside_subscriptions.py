"""The policy holds for what else subscribers get: shared subscriptions, retained values, dead letters, offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairlead import Bus
from fairlead.broker import Broker, Settings
from fairlead.channels import Channel, Channels, Retain
from fairlead.errors import FairleadError
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import clientele, wire
from fairlead.network.durability import Durability
from fairlead.network.node import Node
from fairlead.network.retaining import Retaining
from fairlead.routing import STRATEGIES
from fairlead.rules import Route
from fairlead.rules.access import Access, nobody
from fairlead.rules.channeling import Channeling
from fairlead.rules.trust import Trust
from fairlead.security import AccessPolicy
from fairlead_lab.testing.nodes import End, Line

HOW = Settings(STRATEGIES["covering"](0.1))
SHARED: dict[str, Any] = {
    "roles": {
        "ibm": {"members": ["ada"], "subscribe": ['symbol = "IBM"'], "durables": ["work"]},
        "both": {"members": ["bob", "eve"], "subscribe": ['symbol in {"IBM", "SAP"}'], "durables": ["work"]},
        "exchange": {"members": ["nyse"], "publish": ["true"]},
    }
}


class Ends(Line):
    """One broker with a policy, and clients of it without sockets."""

    def __init__(self, policy: dict[str, Any], how: Settings = HOW) -> None:
        self.policy = AccessPolicy.of(policy)
        self._number = 0
        super().__init__(1, make=lambda name: Broker(name, how, rules=[Access(self.policy, nobody)]))

    @property
    def node(self) -> Node:
        return self.nodes[0]

    def ask(self, end: End, make: Callable[[int], wire.Control]) -> wire.Control:
        """A client's request, and the answer to it."""
        self._number += 1
        end.hear(wire.control(make(self._number)))
        self.settle()
        told = map(wire.parse_control, end.frames(wire.CONTROL))
        answers = [each for each in told if getattr(each, "number", None) == self._number]
        assert answers
        return answers[-1]

    def publish(self, end: End, **content: Any) -> None:
        self._number += 1
        notification = Notification.of({"id": f"{self._number}", "producer": "nyse", **content})
        end.hear(wire.publish(self._number, pack(notification)))
        self.settle()

    def decide_by(self, policy: dict[str, Any]) -> None:
        self.node.guard.decide_by(AccessPolicy.of(policy), 0)
        self.settle()


def got(end: End) -> list[Notification]:
    return [unpack(wire.parse_deliver(payload)[2]) for payload in end.frames(wire.DELIVER)]


def work(number: int) -> wire.Subscribe:
    return wire.Subscribe(number, "s", "exists symbol", "work", None, True)


def lost(end: End) -> list[str]:
    told = map(wire.parse_control, end.frames(wire.CONTROL))
    return [each.durable for each in told if isinstance(each, wire.Refused) and each.number == 0]


# -- shared subscribers ----------------------------------------------------------------------------------------


def test_who_shares_a_subscriber_sees_the_same() -> None:
    ends = Ends(SHARED)
    ada, bob, eve = (ends.client(0, name) for name in ("ada", "bob", "eve"))
    nyse = ends.client(0, "nyse")
    assert isinstance(ends.ask(bob, work), wire.Done)
    assert isinstance(ends.ask(eve, work), wire.Done)  # another principal with the same rights
    refused = ends.ask(ada, work)
    assert isinstance(refused, wire.Refused)
    assert refused.is_forbidden
    for symbol in ("IBM", "SAP") * 10:
        ends.publish(nyse, symbol=symbol)
    assert got(ada) == []
    assert len(got(bob)) + len(got(eve)) == 20
    assert got(bob)
    assert got(eve)


def test_a_member_whose_rights_change_is_a_member_no_longer() -> None:
    ends = Ends(SHARED)
    bob, eve, nyse = (ends.client(0, name) for name in ("bob", "eve", "nyse"))
    ends.ask(eve, work)
    ends.ask(bob, work)  # the subscriber acts for whoever subscribed last
    roles = SHARED["roles"]
    ends.decide_by(
        {
            "roles": {
                **roles,
                "ibm": {**roles["ibm"], "members": ["eve"]},
                "both": {**roles["both"], "members": ["bob"]},
            }
        }
    )
    assert lost(eve) == ["work"]
    ends.publish(nyse, symbol="SAP")
    assert got(eve) == []
    assert len(got(bob)) == 1


def test_a_subscriber_acts_for_those_who_are_there() -> None:
    ends = Ends(SHARED)
    bob, eve, nyse = (ends.client(0, name) for name in ("bob", "eve", "nyse"))
    ends.ask(eve, work)
    ends.ask(bob, work)
    bob.hear(wire.control(wire.Bye("")))
    ends.settle()
    ends.decide_by({**SHARED, "revoked": ["bob"]})
    ends.publish(nyse, symbol="SAP")
    assert len(got(eve)) == 1
    assert lost(eve) == []


def test_members_of_different_rights_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Durability, "_see_the_same", lambda *_: True)
    with pytest.raises(AssertionError):
        test_who_shares_a_subscriber_sees_the_same()
    with pytest.raises(AssertionError):
        test_a_member_whose_rights_change_is_a_member_no_longer()


# -- retained values -------------------------------------------------------------------------------------------

CHANNELS = Channels([Channel("news", "exists what", Retain(per=("what",)))])
TRUST = {
    "untrusted": "cut",
    "roles": {
        "all": {"members": ["ada"], "subscribe": ["true"], "publish": ["true"]},
        "brokers": {"members": ["b0", "b1", "b2"], "allow": ["link"]},
    },
    "brokers": {
        "b0": {"handles": ["true"]},
        "b1": {"handles": ['type = "Parade"']},
        "b2": {"handles": ["true"]},
    },
}


def recalled_through_a_broker_without_trust() -> tuple[list[bytes], list[Any]]:
    """All that the broker in between was sent, and what the subscriber got."""
    policy = AccessPolicy.of(TRUST)

    def broker(name: str) -> Broker:
        return Broker(name, HOW, rules=[Channeling(CHANNELS), Access(policy, nobody), Trust(name, policy)])

    line = Line(3, make=broker)
    near, far = line.client(0, "ada"), line.client(2, "ada")
    for number, (type, what) in enumerate((("Fire", "hydrant"), ("Parade", "music"))):
        given = {"id": f"{number}", "producer": "ada", "type": type, "what": what}
        far.hear(wire.publish(number + 1, pack(Notification.of(given))))
    line.settle()
    asks = 'exists what and (type = "Parade" or secret = "Elm Street")'
    near.hear(wire.control(wire.Subscribe(1, "s", asks, "", None, retained=True)))
    line.settle()
    towards = [end for ends in line.links for end in ends if end.node.name != "b1"]
    return [payload for end in towards for _, payload in end.said], [each.get("what") for each in got(near)]


def keys_told(told: list[bytes]) -> list[object]:
    """The hashes of values in barriers."""
    found: list[object] = []
    for payload in told:
        try:
            message = wire.parse_control(payload)
        except FairleadError:
            continue
        if isinstance(message, wire.Barrier):
            found += message.keys
    return found


def test_a_neighbour_is_told_of_what_is_recalled_what_it_may_know() -> None:
    told, found = recalled_through_a_broker_without_trust()
    assert found == ["music"]  # which comes through the broker in between, so that it was asked
    assert any(b"Parade" in each for each in told)
    assert not any(b"hydrant" in each or b"Elm Street" in each for each in told)
    assert keys_told(told) == []


def test_a_recall_that_is_passed_on_as_it_is_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retaining, "disclosed", lambda self, barrier, neighbour: barrier)
    told, _ = recalled_through_a_broker_without_trust()
    assert any(b"Elm Street" in each for each in told)
    assert keys_told(told) != []


# -- dead letters ----------------------------------------------------------------------------------------------

LETTERS: dict[str, Any] = {
    "protected": ["patient"],
    "roles": {
        "work": {
            "members": ["worker"],
            "subscribe": ["true"],
            "reads": ["patient"],
            "durables": ["work"],
        },
        "press": {"members": ["herald"], "subscribe": ['not type = "Accident"']},
        "clerk": {"members": ["clerk"], "subscribe": ["true"]},
        "doctor": {"members": ["doctor"], "subscribe": ["true"], "reads": ["*"]},
        "city": {"members": ["nyse"], "publish": ["true"]},
    },
}
DIES = [
    ({"type": "Accident", "place": "Main Street"}, {"clerk", "doctor"}),
    ({"type": "Note", "patient": "Eve"}, {"doctor"}),
    ({"type": "Note", "place": "Main Street"}, {"herald", "clerk", "doctor"}),
]


@pytest.mark.parametrize(("content", "readers"), DIES)
def test_a_dead_letter_goes_to_those_who_may_have_what_died(
    content: dict[str, Any], readers: set[str]
) -> None:
    ends = Ends(LETTERS)
    all_readers = {name: ends.client(0, name) for name in ("herald", "clerk", "doctor")}
    for end in all_readers.values():
        assert isinstance(
            ends.ask(end, lambda number: wire.Subscribe(number, "s", 'type = "dead"', "", None)), wire.Done
        )
    worker, nyse = ends.client(0, "worker"), ends.client(0, "nyse")
    ends.ask(worker, lambda number: wire.Subscribe(number, "s", "true", "work", None, attempts_max=1))
    ends.publish(nyse, **content)
    (payload,) = worker.frames(wire.DELIVER)
    ordinal, _, _ = wire.parse_deliver(payload)
    worker.hear(wire.control(wire.Reject("work", ordinal, True)))
    ends.settle()
    assert {name for name, end in all_readers.items() if got(end)} == readers


def fail(notification: Notification) -> None:
    raise ValueError("no")


def test_on_a_bus_letters_go_to_the_same() -> None:
    for content, readers in DIES:
        with Bus(rules=[Access(AccessPolicy.of(LETTERS))], on_error=lambda delivery, error: None) as bus:
            subscribed = {
                name: bus.subscribe('type = "dead"', subscriber=name)
                for name in ("herald", "clerk", "doctor")
            }
            bus.subscribe('not type = "dead"', fail, subscriber="worker", attempts_max=1)
            bus.publish({"producer": "nyse", **content})
            assert {name for name, each in subscribed.items() if len(each)} == readers


def test_letters_that_are_looked_at_from_outside_alone_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(self: Access, route: Route, notification: Notification, source: str) -> Route:
        return route

    monkeypatch.setattr(Access, "narrow", narrow)
    for content, readers in DIES[:2]:
        with pytest.raises(AssertionError):
            test_a_dead_letter_goes_to_those_who_may_have_what_died(content, readers)


def test_a_broker_that_may_not_have_what_died_is_sent_no_letter() -> None:
    policy = AccessPolicy.of(
        {"brokers": {"hub": {"handles": ['not type = "Fire"']}, "west": {"handles": ["true"]}}}
    )
    trust = Trust("west", policy)
    letter = {
        "type": "dead",
        "producer": "dead/work",
        "id": "1",
        "notification": {"type": "Fire", "id": "7", "producer": "p"},
    }
    route = Route(("hub",), ())
    assert trust.narrow(route, Notification.of(letter), "") == Route((), ())
    letter["notification"] = {"type": "Parade", "id": "7", "producer": "p"}
    assert trust.narrow(route, Notification.of(letter), "") == route


# -- what others offer -----------------------------------------------------------------------------------------

OFFERS: dict[str, Any] = {
    "protected": ["patient"],
    "roles": {
        "city": {"members": ["nyse"], "publish": ["true"]},
        "press": {"members": ["herald"], "subscribe": ["true"]},
        "doctor": {"members": ["doctor"], "subscribe": ["true"], "reads": ["patient"]},
    },
}


def offered_to(name: str) -> list[str]:
    ends = Ends(OFFERS, Settings(STRATEGIES["covering"](0.1), STRATEGIES["covering"](0.1)))
    nyse, reader = ends.client(0, "nyse"), ends.client(0, name)
    offer = 'type = "Accident" and patient = "Eve" or type = "Parade" and not patient = "Bob"'
    assert isinstance(ends.ask(nyse, lambda number: wire.Advertise(number, "a", offer)), wire.Done)
    answer = ends.ask(reader, lambda number: wire.Discover(number, "offers", "exists type"))
    assert isinstance(answer, wire.Response)
    return list(answer.answer["filters"])


def test_what_others_offer_says_nothing_of_attributes_that_one_may_not_read() -> None:
    assert offered_to("herald") == ['type = "Accident" or type = "Parade"']
    assert offered_to("doctor") != offered_to("herald")


def test_offers_that_are_told_whole_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clientele, "silent_about", lambda filter, names: filter)
    assert any("Eve" in each for each in offered_to("herald"))
