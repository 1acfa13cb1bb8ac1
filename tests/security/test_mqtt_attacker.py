"""Over MQTT, too, a client that tries everything gets what the policy allows; a listener with a hole is caught."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from fairlead.errors import Forbidden
from fairlead.mqtt.connection import Connection
from fairlead.network.guard import Guard
from fairlead.rules.access import Access
from fairlead_lab.testing.mqtt_attacker import MqttAttack

TRIES = 20 * settings.default.max_examples
HAPPENS = {
    *("connection", "refused connection", "record", "delivery", "publication", "durable subscriber"),
    *("stay", "end of a durable subscriber"),
}


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_accepted_or_delivered_that_the_policy_does_not_allow(tmp_path: Path, seed: int) -> None:
    assert MqttAttack(tmp_path, seed).run(TRIES).wrong == []


def test_the_attack_reaches_everything_that_is_allowed(tmp_path: Path) -> None:
    came: set[str] = set()
    for seed in range(10):
        books = MqttAttack(tmp_path / f"{seed}", seed).run(3_000)
        assert books.wrong == []
        came |= books.came.keys()
        if came >= HAPPENS:
            break
    assert came >= HAPPENS


def _nothing(*_: Any, **__: Any) -> None:
    return None


_name_for, _open = Guard.name_for, Connection._open


def _takes_over_first(self: Connection, principal: Any) -> None:
    """Ends the connection that there is before it is known who may have its session."""
    packet: Any = self._connect
    session = self._listener.sessions.get(f"{principal.name}~mqtt/{packet.client_id}")
    if session is not None and session.connection is not None:
        session.connection.taken_over()
    _open(self, principal)


def _is_called_as_it_likes(self: Guard, name: str, principal: Any, now: int, *, is_made_up: bool) -> str:
    try:
        return _name_for(self, name, principal, now, is_made_up=is_made_up)
    except Forbidden:
        return name


HOLES: list[tuple[str, Any, str, Callable[..., Any]]] = [
    ("a session is taken over by whoever asks", Connection, "_open", _takes_over_first),
    ("everybody connects", Guard, "name_for", _is_called_as_it_likes),
    ("durables belong to nobody", Guard, "check_durable", _nothing),
    ("what is published is believed", Access, "admit", _nothing),
    ("clients stay", Guard, "_look_at", _nothing),
    ("everything is granted", Access, "grant", lambda self, who, action, filter, now: filter),
]


@pytest.mark.parametrize(("target", "name", "hole"), [pytest.param(*each[1:], id=each[0]) for each in HOLES])
def test_a_listener_with_a_hole_is_caught(
    tmp_path: Path, target: Any, name: str, hole: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, name, hole)
    assert any(MqttAttack(tmp_path / f"{seed}", seed).run(3_000).wrong for seed in range(3))
