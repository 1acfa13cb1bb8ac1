"""Over HTTP, too, a client that tries everything gets what the policy allows; a gateway with a hole is caught."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import settings

from fairlead.console.sites import Sites
from fairlead.network.guard import Guard
from fairlead.rules.access import Access
from fairlead.security.credentials import Tokens
from fairlead.security.principals import Principal
from fairlead_lab.testing import http_attacker
from fairlead_lab.testing.http_attacker import POLICY_TEXT, HttpAttack
from fairlead_lab.testing.web import Web

SEEDS, TRIES = (4, 26_000) if settings.default.max_examples > 100 else (2, 300)  # in a soak more than 100,000
HAPPENS = {
    *("publication", "record", "delivery", "stream", "end of a stream", "forgetting", "inspection", "replay"),
    *("duplicate", "hidden request", "end of a durable subscriber", "discovery", "form"),
}


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    made = Web(tmp_path, POLICY_TEXT)
    yield made
    made.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_accepted_or_delivered_that_the_policy_does_not_allow(web: Web, seed: int) -> None:
    assert HttpAttack(web, seed).run(TRIES).wrong == []


def test_the_attack_reaches_everything_that_is_allowed(web: Web) -> None:
    attack = HttpAttack(web, 7)
    for _ in range(10):
        if attack.run(200).came.keys() == HAPPENS:
            break
    assert attack.books.wrong == []
    assert attack.books.came.keys() == HAPPENS


# -- gateways with holes -----------------------------------------------------------------------------------------


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _believes(self: Tokens, token: str, now: int) -> Principal:
    """Reads what a token says, and checks nothing."""
    claims = jwt.decode(token, options={"verify_signature": False})
    return Principal(claims["sub"], claims, "token", None, str(claims.get("jti", "")))


HOLES: list[tuple[str, Any, str, Callable[..., Any]]] = [
    ("tokens are believed", Tokens, "principal", _believes),
    ("every site is ours", Sites, "check_page", _nothing),
    ("everybody inspects", Guard, "check_principal", _nothing),
    ("durables belong to nobody", Guard, "check_durable", _nothing),
    ("producers are believed", Access, "disown", _nothing),
    ("clients stay", Guard, "_look_at", _nothing),
]


@pytest.mark.parametrize(("target", "name", "hole"), [pytest.param(*each[1:], id=each[0]) for each in HOLES])
def test_a_gateway_with_a_hole_is_caught(
    web: Web, target: Any, name: str, hole: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, name, hole)
    monkeypatch.setattr(http_attacker, "PATIENCE_S", 1.0)
    attack = HttpAttack(web, 3)
    for _ in range(20):
        if attack.run(100).wrong:
            return
    raise AssertionError("nothing was found")
