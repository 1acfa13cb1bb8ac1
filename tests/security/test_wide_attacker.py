"""By transactions, wills, requests, discovery, delegations and shared subscribers nobody gets more, either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from fairlead.filters import Filter
from fairlead.model.packed import unpack
from fairlead.network.admission import Admission
from fairlead.network.clientele import Clientele
from fairlead.network.durability import Durability
from fairlead.network.guard import Guard
from fairlead.network.wills import Wills
from fairlead.security import AccessPolicy
from fairlead_lab.testing.wide_attacker import WideAttack

TRIES = 20 * settings.default.max_examples  # in a soak 100,000
HAPPENS = {
    *("transaction", "request", "discovery", "quenching", "listening", "notice of a subscriber"),
    *("delegation", "end of a delegation", "touching a durable subscriber", "acceptance for another"),
}


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_accepted_delivered_or_told_that_the_policy_does_not_allow(seed: int) -> None:
    assert WideAttack(seed).run(TRIES).wrong == []


def test_the_attack_reaches_everything_that_is_allowed() -> None:
    attack = WideAttack(7)
    for _ in range(5):
        if attack.run(2_000).came.keys() >= HAPPENS:
            break
    assert attack.books.wrong == []
    assert attack.books.came.keys() >= HAPPENS


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _all_of_it(self: Guard, session: Any, filter: Filter, now: int, right: str = "publish") -> Filter:
    return filter


HOLES: list[tuple[str, Any, str, Callable[..., Any]]] = [
    ("what was asked before a change is answered as before", Clientele, "ask_anew", _nothing),
    ("everybody learns what is wanted", Guard, "listened", _all_of_it),
    ("durables belong to nobody", Guard, "check_durable", _nothing),
    ("members see what others see", Durability, "_see_the_same", lambda *_: True),
    (
        "transactions are not asked about",
        Admission,
        "_member",
        lambda self, session, packed, number, index, now: (unpack(packed), unpack(packed)),
    ),
    ("wills are not asked about", Wills, "_admitted", lambda self, will, now: unpack(will.packed)),
    (
        "a delegation gives whatever it says",
        AccessPolicy,
        "delegable",
        lambda self, delegation, action, given, now: iter([_grant(given)]),
    ),
]


def _grant(given: Filter) -> Any:
    from fairlead.security.rights import Grant

    return Grant("anyone", given)


@pytest.mark.parametrize(("target", "name", "hole"), [pytest.param(*each[1:], id=each[0]) for each in HOLES])
def test_a_broker_with_a_hole_is_caught(
    target: Any, name: str, hole: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, name, hole)
    assert any(WideAttack(seed).run(3_000).wrong for seed in range(4))
