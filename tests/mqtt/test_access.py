"""With an access policy, over MQTT: the limits of a principal are those of all its connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.mqtt.conftest import FIVE, PATIENCE_S, Client, Running, Start

from fairlead.network import sync
from fairlead.security.credentials import basic
from fairlead.security.passwords import write_entry
from fairlead.security.settings import Security

POLICY = """
[roles.few]
members = ["ada"]
subscribe = ['topic in {"a", "b"}']
publish = ['topic = "a"']
connections = 2
subscriptions = 2
filter_bytes = 60
publications_per_second = 3
backlog = 10

[roles.many]
members = ["bob"]
subscribe = ["true"]
publish = ["true"]
"""
SECRET = "a planted secret"
REFUSED = 0x87


@pytest.fixture(scope="module")
def guarded(started: Start, tmp_path_factory: pytest.TempPathFactory) -> tuple[Running, Path]:
    path = tmp_path_factory.mktemp("guarded")
    (path / "policy.toml").write_text(POLICY)
    for name in ("ada", "bob"):
        write_entry(path / "passwords", name, f"{SECRET} of {name}")
    security = Security(
        policy=str(path / "policy.toml"), passwords=str(path / "passwords"), log=str(path / "access.jsonl")
    )
    return started(security=security), path


Connect = Callable[..., Client]


@pytest.fixture
def connect(guarded: tuple[Running, Path]) -> Iterator[Connect]:
    made: list[Client] = []

    def connected(name: str, who: str, **options: object) -> Client:
        user = (who, f"{SECRET} of {who}")
        made.append(Client(guarded[0].port, name, FIVE, user=user, **options))
        return made[-1]

    yield connected
    for each in made:
        each.close()
    guarded[0].until(lambda: not guarded[0].server.node.clients)


def test_a_principal_has_so_many_connections_over_all_protocols(
    guarded: tuple[Running, Path], connect: Connect
) -> None:
    credentials = basic("ada", f"{SECRET} of ada")
    with sync.connect(guarded[0].url, name="ada", credentials=credentials, patience=PATIENCE_S):
        assert connect("one", "ada").reason == "Success"
        assert connect("two", "ada").reason == "Not authorized"
        assert connect("one", "bob").reason == "Success"  # others are unharmed


def test_a_principal_has_so_many_subscriptions_of_some_length(connect: Connect) -> None:
    ada = connect("one", "ada")
    assert ada.subscribe("a") == [1]
    assert ada.subscribe("a" * 100)[0] >= 0x80
    assert ada.subscribe("b") == [1]
    assert ada.subscribe("c")[0] >= 0x80
    assert connect("one", "bob").subscribe("a" * 100) == [1]


def test_a_principal_publishes_so_much_in_a_second(guarded: tuple[Running, Path], connect: Connect) -> None:
    ada, bob = connect("one", "ada"), connect("one", "bob")
    bob.subscribe("a")
    for number in range(60):
        ada.publish("a", f"{number}")
    bob.publish("a", "the end")
    came = 0
    while bob.get().payload != b"the end":
        came += 1
    assert 3 <= came < 60
    for number in range(20):
        bob.publish("b", f"{number}")


def test_what_is_not_allowed_is_refused_and_what_was_planted_is_nowhere(
    guarded: tuple[Running, Path], connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    ada, bob = connect("one", "ada"), connect("one", "bob")
    assert bob.subscribe("#") == [1]
    ada.publish("b", "not hers")
    bob.publish("c", SECRET.upper())
    assert bob.get().topic == "c"
    assert ada.subscribe("c")[0] == REFUSED
    assert connect("one", "eve").reason == "Bad user name or password"
    log = (guarded[1] / "access.jsonl").read_text()
    assert '"refused"' in log
    assert SECRET not in log + caplog.text
    assert SECRET.upper() not in log + caplog.text
    assert SECRET.encode() not in b"".join(
        each.read_bytes() for each in guarded[1].rglob("*") if each.is_file()
    )
