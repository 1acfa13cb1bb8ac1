"""The specification of self-stabilising systems: only what is wrong after the recovery point counts."""

from __future__ import annotations

from dataclasses import replace

from fairlead.audit import Ended, Event, Faulted, Notified, Published, Subscribed, Verdict, audit
from fairlead.filters import parse
from fairlead.model import Notification
from fairlead.model.order import OrderKey, identity_of


def published(id: str) -> Published:
    notification = replace(Notification.of({"x": 1}), producer="p", id=id)
    return Published(notification, OrderKey.of(notification))


def notified(event: Published, who: str = "c") -> Notified:
    return Notified(who, identity_of(event.notification))


LOST, LATE, WELL = published("1"), published("2"), published("3")
BEGUN: list[Event] = [Subscribed("c", "s", parse("x = 1"))]
FAULT, RECOVERED = Faulted("corruption", {"at": 1}), Faulted("recovered", {"within": 9})


def verdicts(events: list[Event]) -> dict[str, Verdict]:
    return {finding.rule: finding.verdict for finding in audit(events, "stabilising").findings}


def test_what_is_wrong_before_the_recovery_point_does_not_count() -> None:
    events = [*BEGUN, FAULT, LOST, LATE, notified(LATE, "stranger"), RECOVERED, WELL, notified(WELL), Ended()]
    assert verdicts(events) == {"safety": Verdict.HOLDS, "liveness": Verdict.HOLDS}
    assert audit(events, "simple").verdict is Verdict.VIOLATED


def test_what_is_wrong_after_it_does() -> None:
    lost = [*BEGUN, FAULT, RECOVERED, LOST, WELL, notified(WELL), Ended()]
    assert verdicts(lost) == {"safety": Verdict.HOLDS, "liveness": Verdict.VIOLATED}
    twice = [*BEGUN, FAULT, WELL, notified(WELL), RECOVERED, notified(WELL), Ended()]
    assert verdicts(twice) == {"safety": Verdict.VIOLATED, "liveness": Verdict.HOLDS}


def test_a_fault_after_the_recovery_point_suspends_it_again() -> None:
    events = [*BEGUN, FAULT, RECOVERED, LOST, FAULT, Ended()]
    assert verdicts(events) == {"safety": Verdict.HOLDS, "liveness": Verdict.OPEN}


def test_without_a_fault_all_counts() -> None:
    assert verdicts([*BEGUN, LOST, Ended()])["liveness"] is Verdict.VIOLATED
