"""A client that tries everything gets nothing that the policy does not allow; a broker with a hole is caught."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from fairlead.filters import Filter
from fairlead.model import Notification
from fairlead.network.guard import Guard
from fairlead.rules import Refusal, Seam
from fairlead.rules.access import Access
from fairlead.security import AccessPolicy, Rights
from fairlead_lab.testing.attacker import Attack

TRIES = 20 * settings.default.max_examples  # 2,000; in a soak 100,000
HAPPENS = {
    *(
        "connection",
        "refused credentials",
        "proof",
        "new credentials",
        "link",
        "delivery",
        "publication",
        "duplicate",
        "operation",
        "listening",
        "renewal",
        "stay",
    ),
    *("durable subscriber", "end of a durable subscriber"),
    *("declaration", "removal", "publication of a type"),
}


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_accepted_or_delivered_that_the_policy_does_not_allow(seed: int) -> None:
    books = Attack(seed).run(TRIES)
    assert books.wrong == []


def test_the_attack_reaches_everything_that_is_allowed() -> None:
    attack = Attack(7)
    assert attack.run(3_000).wrong == []
    assert attack.books.came.keys() == HAPPENS


# -- brokers with holes ------------------------------------------------------------------------------------------


class BelievesProducers(Access):
    """Does not look at the producer."""

    def disown(self, who: str, producer: str, now: int) -> Refusal | None:
        return None


class LetsIdsBeGuessed(Access):
    """Looks at the producer after duplicates."""

    def disown(self, who: str, producer: str, now: int) -> Refusal | None:
        return None

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        return super().disown(who, notification.producer, now) or super().admit(who, notification, now)


class BelievesContent(Access):
    """Looks at the producer only."""

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        return None


class GrantsAll(Access):
    """Grants what overlaps, all of it."""

    def grant(self, who: str, action: str, filter: Filter, now: int) -> Filter | Refusal:
        granted = super().grant(who, action, filter, now)
        return granted if isinstance(granted, Refusal) else filter


class ForgetsChanges(Access):
    """Takes a new policy for new clients only."""

    def decide_by(self, policy: AccessPolicy, now: int) -> None:
        self._policy = policy


@pytest.mark.parametrize(
    "make", [BelievesProducers, LetsIdsBeGuessed, BelievesContent, GrantsAll, ForgetsChanges]
)
def test_a_rule_with_a_hole_is_caught(make: type[Access]) -> None:
    assert any(Attack(seed, make).run(2_000).wrong for seed in range(3))


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _rebind(self: Guard, session: Any, principal: Any, now: int) -> None:
    self.bind(session.client, principal, now)


HOLES: list[tuple[str, Any, str, Callable[..., Any]]] = [
    ("durables belong to nobody", Guard, "check_durable", _nothing),
    ("types belong to nobody", Guard, "check_type", _nothing),
    ("owners of types have no say", AccessPolicy, "_owned", lambda self, principal, action, grants: grants),
    ("everybody may link", Guard, "check_link", _nothing),
    ("everybody may manage", Guard, "check", _nothing),
    ("names are believed", Guard, "name_for", lambda self, name, *_, **__: name),
    ("everybody may listen", Guard, "listened", lambda self, session, filter, now: filter),
    ("credentials of others renew", Guard, "renew", _rebind),
    ("clients stay", Guard, "_look_at", _nothing),
    ("the fast path does not ask", Seam, "admits_all", property(lambda self: True)),
    ("what is granted stays", Guard, "tick", _nothing),
    (
        "tokens that were revoked go on",
        AccessPolicy,
        "is_revoked",
        lambda self, principal: principal.name in self.revoked,
    ),
    ("tokens expire when somebody asks", Access, "expire", _nothing),
    ("roles end for nobody", Rights, "allows", lambda self, right: True),
]


@pytest.mark.parametrize(("target", "name", "hole"), [pytest.param(*each[1:], id=each[0]) for each in HOLES])
def test_a_broker_with_a_hole_is_caught(
    target: Any, name: str, hole: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, name, hole)
    assert any(Attack(seed).run(3_000).wrong for seed in range(3))
