"""What else may not be: leeway that is none, refusals that leave a trace, limits that see less than they say."""

from __future__ import annotations

import hmac
import time
from typing import Any

import jwt
import pytest
from tests.security import test_protected

from fairlead import Bus
from fairlead.errors import Forbidden, NotAuthenticated
from fairlead.filters import EVERYTHING, Filter
from fairlead.filters.naming import Attributes
from fairlead.filters.projection import with_leaves
from fairlead.model import Notification
from fairlead.network import wire
from fairlead.rules.access import Access
from fairlead.rules.seam import Seam
from fairlead.security import AccessPolicy, Decision, Principal
from fairlead.security.credentials import Authenticator, Tokens, bearer
from fairlead.security.rights import Rights
from fairlead_lab.testing.attacker import Attack
from fairlead_lab.testing.guarded import KEY, token

SECOND = 1_000_000


# -- I-8: leeway -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leeway", "ago", "taken"), [(0, 1, False), (30, 1, True), (30, 29, True), (30, 31, False)]
)
def test_a_token_that_has_expired_is_taken_within_the_leeway_and_ends_with_it(
    leeway: int, ago: int, taken: bool
) -> None:
    now = 1_700_000_000
    key: Any = jwt.PyJWK(
        {"kty": "oct", "k": jwt.utils.base64url_encode(KEY).decode(), "alg": "HS256"}, "HS256"
    )
    tokens = Tokens({"one": key}, audience="fairlead", leeway_s=leeway)
    shown = token("ada", exp=now - ago)
    if not taken:
        with pytest.raises(NotAuthenticated):
            tokens.principal(shown, now * SECOND)
        return
    principal = tokens.principal(shown, now * SECOND)
    assert principal.until == (now - ago + leeway) * SECOND
    policy = AccessPolicy.of({"roles": {"all": {"members": ["ada"], "subscribe": ["true"]}}})
    assert policy.rights(principal, now * SECOND).allows("connect")
    assert not policy.rights(principal, (now + leeway) * SECOND).allows("connect")


# -- I-4: a policy that tells nothing ---------------------------------------------------------------------------


class Silent(Attack):
    """The node of the attack, whose policy tells clients nothing."""

    POLICY = {**Attack.POLICY, "tell": False}  # noqa: RUF012

    def frames(self, text: str) -> list[tuple[int, bytes]]:
        """All that ada is sent for a subscription to this, and while things are published."""
        self._connect_as("ada")
        client = self._clients[-1]
        self._send(client, wire.control(wire.Subscribe(1, "s", text)))
        self._work()
        return client.peer.got[1:]  # without the greeting, which has the names of the log

    def _connect_as(self, name: str) -> None:
        while not (self._clients and self._clients[-1].principal.name == name):
            self._connect()


def test_where_nothing_is_told_what_is_refused_looks_like_what_matches_nothing() -> None:
    refused, empty = Silent(5).frames('symbol = "SUN"'), Silent(5).frames('symbol = "IBM" and symbol = "XYZ"')
    assert refused == empty


# -- mutants -----------------------------------------------------------------------------------------------------


def test_a_limit_that_is_evaluated_on_what_is_shown_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Any = Rights.may

    def on_the_masked_view(self: Rights, action: str, requested: Filter, now: int = 0) -> Decision:
        decision: Decision = whole(self, action, requested, now)
        if decision.granted is None:
            return decision
        granted = with_leaves(
            decision.granted, lambda leaf: EVERYTHING if Attributes.of(leaf).reading(self.hidden) else leaf
        )
        return Decision(action, "narrowed", requested, granted, decision.roles)

    monkeypatch.setattr(Rights, "may", on_the_masked_view)
    with pytest.raises(AssertionError):
        test_protected.test_a_limit_may_read_them_and_the_subscriber_learns_no_more_than_the_limit_says()


def refused_then_allowed() -> int:
    """How many come of a publication that is refused, and comes again when it is allowed."""
    access = Access(AccessPolicy.of({"roles": {"r": {"members": ["ada"], "subscribe": ["true"]}}}))
    with Bus(rules=[access]) as bus:
        got = bus.subscribe("true", subscriber="ada")
        event = {"id": "1", "producer": "ada", "x": 1}
        with pytest.raises(Forbidden):
            bus.publish(event)
        access.decide_by(
            AccessPolicy.of(
                {"roles": {"r": {"members": ["ada"], "publish": ["true"], "subscribe": ["true"]}}}
            ),
            0,
        )
        bus.publish(event)
        return len(got)


def test_a_refused_publication_is_not_remembered_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused_then_allowed() == 1
    take: Any = Seam.take

    def remembers(
        self: Seam, who: str, notification: Notification, identities: Any, now: int, *more: Any
    ) -> Any:
        taken = take(self, who, notification, identities, now, *more)
        if not isinstance(taken, Notification) and taken is not None:
            identities.take(notification, None)
        return taken

    monkeypatch.setattr(Seam, "take", remembers)
    assert refused_then_allowed() == 0


def test_credentials_of_a_broker_with_itself_are_compared_in_constant_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[int] = []
    compare: Any = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda *each: (compared.append(1), compare(*each))[1])
    authenticator = Authenticator()
    assert authenticator.principal(authenticator.own, None, 0, "hub") == Principal("hub", via="broker")
    with pytest.raises(NotAuthenticated):
        authenticator.principal("Internal guess", None, 0, "hub")
    assert len(compared) == 2
    with pytest.raises(NotAuthenticated):
        authenticator.principal(bearer("internal"), None, time.time_ns() // 1_000)
