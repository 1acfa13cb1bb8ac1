"""Members of a role publish in its form: with the attributes that it names, as the type that it names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import Bus
from fairlead.errors import Forbidden, PolicyError
from fairlead.log.records import PUBLICATION, notification_in
from fairlead.model import Instant, Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.rules.access import Access
from fairlead.security import AccessPolicy, Principal
from fairlead.security.forms import ENVELOPE, Form
from fairlead.security.rights import Rights
from fairlead.testing.strategies import notifications
from fairlead_lab.testing.attacker import Attack

ROLES: dict[str, Any] = {
    "ambulance": {
        "members": ["crew"],
        "publish": ['type = "Accident" and exists place'],
        "project": ["place"],
        "publish_as": "Accident",
    },
    "watch": {"members": ["crew", "guard"], "publish": ['type = "Note"']},
    "news": {"members": ["herald"], "subscribe": ["true"]},
}
POLICY = AccessPolicy.of({"roles": ROLES})
GIVEN = {"type": "CarAccident", "place": "Main St", "patient": "Eve", "id": "7", "producer": "crew"}
FORMED = {"id": "7", "producer": "crew", "place": "Main St", "type": "Accident"}
NAMES = st.frozensets(st.sampled_from(["a", "b", "c", "price", "symbol", "type"]), max_size=4)
FORMS = st.builds(Form, st.none() | NAMES, st.none() | st.sampled_from(["Accident", "Note"]))


@given(FORMS, notifications())
def test_a_form_of_a_form_is_that_form_and_has_nothing_else(form: Form, notification: Notification) -> None:
    formed = form.of(notification)
    assert form.of(formed) == formed
    assert (formed.id, formed.producer, formed.time) == (
        notification.id,
        notification.producer,
        notification.time,
    )
    if form.project is not None:
        kept = form.project | ENVELOPE
        assert {name.split(".")[0] for name in (*formed.attributes, *formed.content)} <= kept
        assert all(formed.get(name) == notification.get(name) for name in kept - {"type"})
    if form.publish_as is not None:
        assert formed.get("type") == form.publish_as


def test_on_a_bus_what_is_left_out_is_not_there() -> None:
    with Bus(rules=[Access(POLICY)]) as bus:
        news = bus.subscribe("true", subscriber="herald")
        bus.publish(GIVEN)
        assert news.get(0).content == FORMED
        bus.publish({"type": "Note", "producer": "crew", "by": "Tom", "id": "8"})
        assert news.get(0).get("by") == "Tom"  # another role lets publish it as it is
        with pytest.raises(Forbidden):
            bus.publish({"type": "CarAccident", "producer": "crew", "patient": "Eve"})
        with pytest.raises(Forbidden):
            bus.publish({**GIVEN, "producer": "guard"})


def test_on_an_ordered_bus_it_is_the_same() -> None:
    with Bus(rules=[Access(POLICY)], order="ordered") as bus:
        news = bus.subscribe("true", subscriber="herald")
        bus.publish({**GIVEN, "time": Instant(0)})
        bus.advance(Instant(1))
        assert {**news.get(0).attributes}.keys() == {*FORMED, "time"}


class Formed(Attack):
    """The node of the attack, with this policy."""

    POLICY = {"roles": ROLES}  # noqa: RUF012

    def said(self, *frames: bytes) -> list[Notification]:
        """What is in the log after a client of the crew has sent this."""
        hello = wire.Hello(wire.VERSION, "client", "crew", life="x", log="theirs", routing="filters")
        session: Any = self.node.greet(_Peer(), hello, 1, Principal("crew"))
        self.node.receive(session, [*wire.Frames().feed(b"".join(frames))], 1)
        self._work()
        assert self.node.ledger is not None
        with self.node.ledger.reader(0, PUBLICATION) as reader:
            return [unpack(notification_in(record)) for record in reader]


class _Peer:
    def write(self, data: bytes) -> None:
        """It is gone."""

    def buffered(self) -> int:
        return 0

    def close(self) -> None:
        """It has ended."""

    pause = resume = close


def packed(**more: Any) -> bytes:
    return pack(Notification.of({**GIVEN, **more}))


@pytest.mark.parametrize(
    "frames",
    [
        [wire.publish(1, packed())],
        [
            wire.publish(1, packed()),
            wire.publish(2, packed(id="8", price=1)),
            wire.publish(3, packed(id="9")),
        ],
        [wire.transaction(1, wire.Transaction([packed(), packed(id="8")]))],
    ],
    ids=["alone", "in a batch", "in a transaction"],
)
def test_at_a_broker_what_is_left_out_is_not_in_the_log(frames: list[bytes]) -> None:
    attack = Formed(1)
    found = attack.said(*frames)
    assert found
    assert all({**each.attributes} == {**FORMED, "id": each.id} for each in found)
    assert b"Eve" not in b"".join(map(pack, found))


def test_a_will_is_formed_too_and_a_delegation_gives_no_more() -> None:
    policy = AccessPolicy.of(
        {
            "roles": {**ROLES, "ambulance": {**ROLES["ambulance"], "delegate": True}},
            "delegations": [{"by": "crew", "to": "tom", "publish": ['type = "Accident"']}],
        }
    )
    rights = policy.rights(Principal("tom"))
    formed = rights.formed(Notification.of({**GIVEN, "producer": "tom"}))
    assert {**formed.attributes} == {**FORMED, "producer": "tom"}
    assert not rights.may_publish(Notification.of({**GIVEN, "type": "Accident", "producer": "tom"}))


@pytest.mark.parametrize(
    ("role", "problem"),
    [
        ({"publish": ["price > 1"], "project": ["symbol"]}, "reads 'price', which `project` leaves out"),
        ({"publish": ["true"], "project": ["a.b"]}, "'a.b' is a name with dots"),
        ({"publish": ["//a"], "project": ["a"]}, "reads whole notifications"),
    ],
)
def test_a_form_that_its_own_limit_looks_beyond_is_a_mistake(role: dict[str, Any], problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        AccessPolicy.of({"roles": {"r": {"members": ["ada"], **role}}})


def test_forms_are_in_the_fingerprint_and_policies_without_are_called_as_before() -> None:
    def fingerprint(**more: Any) -> str:
        return AccessPolicy.of(
            {"roles": {"r": {"members": ["ada"], "publish": ["true"], **more}}}
        ).fingerprint

    assert len({fingerprint(), fingerprint(project=["a"]), fingerprint(publish_as="A")}) == 3


MUTANTS: list[tuple[str, Any, str, Callable[..., Any]]] = [
    ("it goes as it is given", Access, "form", lambda self, who, notification, now: notification),
    ("the fast path does not ask", Access, "depends_for", lambda self, source: self.depends),
    ("the limit alone is looked at", Rights, "formed", lambda self, notification, now=0: notification),
]


@pytest.mark.parametrize(
    ("target", "name", "mutant"), [pytest.param(*each[1:], id=each[0]) for each in MUTANTS]
)
def test_a_mutant_is_caught(target: Any, name: str, mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, name, mutant)
    several = [wire.publish(each, packed(id=f"{each}")) for each in (1, 2, 3)]

    def law() -> None:
        for frames in ([wire.publish(1, packed())], several):
            test_at_a_broker_what_is_left_out_is_not_in_the_log(frames)

    with pytest.raises((AssertionError, Forbidden)):
        law()
