"""Delegation by a call: never more than the giver may, at once, kept in a file, and ended as quickly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.errors import AccessRefused, PolicyError
from fairlead.filters import parse
from fairlead.network.guard import Guard
from fairlead.security import AccessPolicy, Delegation, Principal
from fairlead.security.delegations import MOST, Delegations
from fairlead_lab.testing.guarded import Guarded

POLICY = """
[roles.head]
members = ["ada"]
subscribe = ['symbol in {"IBM", "SAP"}']
delegate = true

[roles.desk]
members = ["cyn"]
subscribe = ['symbol = "SUN"']

[roles.staff]
members = ["bob", "dan"]

[roles.exchange]
members = ["nyse"]
publish = ["true"]

[roles.operator]
members = ["root"]
allow = ["connect", "manage"]
clients = ["operator"]
"""
IBM = 'symbol = "IBM"'


def test_a_delegation_by_a_call_takes_effect_at_once_and_so_does_its_end(guarded: Guarded) -> None:
    guarded.write(POLICY)
    server = guarded.start()
    with (
        guarded.client(server, "ada") as ada,
        guarded.client(server, "bob") as bob,
        guarded.client(server, "nyse") as nyse,
    ):
        with pytest.raises(AccessRefused, match="may not subscribe"):
            bob.subscribe("true")
        id = ada.delegate("bob", subscribe=[IBM, 'symbol = "SAP" and price > 100'])
        with bob.subscribe("true") as quotes:
            for symbol, price in (("IBM", 1), ("SAP", 1), ("SAP", 101), ("SUN", 1)):
                nyse.publish({"symbol": symbol, "price": price})
            got = [quotes.get(10), quotes.get(10)]
            assert [(each.get("symbol"), each.get("price")) for each in got] == [("IBM", 1), ("SAP", 101)]
            ada.undelegate(id)
            nyse.publish({"symbol": "IBM", "price": 2})
            # Rights that are given again are those of the next publication.
            ada.delegate("bob", subscribe=[IBM])
            nyse.publish({"symbol": "IBM", "price": 3})
            assert quotes.get(10).get("price") == 3


@pytest.mark.parametrize(
    ("giver", "to", "filters"),
    [
        pytest.param("cyn", "bob", {"subscribe": ['symbol = "SUN"']}, id="a role that does not let one"),
        pytest.param("bob", "dan", {"subscribe": [IBM]}, id="what was delegated"),
        pytest.param("ada", "bob", {"subscribe": ['symbol = "SUN"']}, id="what one may not do"),
        pytest.param("ada", "bob", {"subscribe": [IBM, 'symbol = "SUN"']}, id="some of which one may not do"),
        pytest.param("ada", "bob", {"publish": [IBM]}, id="another action"),
        pytest.param("ada", "ada", {"subscribe": [IBM]}, id="to oneself"),
        pytest.param("ada", "anonymous", {"subscribe": [IBM]}, id="to everybody"),
        pytest.param("ada", "bob", {}, id="nothing"),
        pytest.param("ada", "bob", {"subscribe": [IBM], "until": "1970-01-01T00:00:00Z"}, id="in the past"),
    ],
)
def test_what_may_not_be_delegated_is_refused(
    guarded: Guarded, giver: str, to: str, filters: dict[str, Any]
) -> None:
    guarded.write(POLICY)
    server = guarded.start()
    with guarded.client(server, "ada") as ada:
        ada.delegate("bob", subscribe=[IBM])
    with guarded.client(server, giver) as client, pytest.raises(AccessRefused, match="may not delegate that"):
        client.delegate(to, **filters)
    assert len(server.node.guard.delegations.all) == 1
    assert guarded.decisions()[-1]["action"] == "delegate"


def test_only_its_giver_and_operators_end_a_delegation_and_others_do_not_learn_of_it(
    guarded: Guarded,
) -> None:
    guarded.write(POLICY)
    server = guarded.start()
    with guarded.client(server, "ada") as ada, guarded.client(server, "bob") as bob:
        id = ada.delegate("bob", subscribe=[IBM])
        answers = []
        for name, by in ((id, "ada"), (id, ""), ("another", "ada")):
            with pytest.raises(AccessRefused) as error:
                bob.undelegate(name, by=by)
            answers.append(str(error.value).replace(name, "ID"))
        assert len({*answers}) == 1
        with guarded.client(server, "root", "operator") as root:
            root.undelegate(id, by="ada")
        with pytest.raises(AccessRefused):
            bob.subscribe("true")


def test_delegations_are_kept_over_a_restart_and_taken_up_by_brokers_that_share_the_file(
    guarded: Guarded, until: Callable[[Callable[[], object]], None]
) -> None:
    guarded.write(POLICY)
    keys = {"delegations": str(guarded.path / "delegations.json")}
    server, other = guarded.start(keys=keys), guarded.start("east", keys=keys)
    with guarded.client(server, "ada") as ada:
        id = ada.delegate("bob", subscribe=[IBM], until="2999-01-01T00:00:00Z")
    until(lambda: len(other.node.guard.delegations.all) == 1)
    with guarded.client(other, "bob") as bob, bob.subscribe("true") as quotes:
        assert str(quotes.granted) == IBM
    guarded.brokers.stop(server)
    server = guarded.start(keys=keys)
    with guarded.client(server, "bob") as bob, bob.subscribe("true") as quotes:
        assert str(quotes.granted) == IBM
        # What the file of the policy says stays, and what was delegated stays with another policy.
        guarded.reload(server, POLICY.replace("[roles.staff]", "[roles.personnel]"))
        assert str(quotes.granted) == IBM
        with guarded.client(server, "ada") as ada:
            ada.undelegate(id)
        until(lambda: str(quotes.granted) == "false")
    until(lambda: not other.node.guard.delegations.all)
    assert json.loads((guarded.path / "delegations.json").read_text())["delegations"] == []


def test_a_delegation_ends_with_its_giver(
    guarded: Guarded, until: Callable[[Callable[[], object]], None]
) -> None:
    guarded.write(POLICY)
    server = guarded.start()
    with guarded.client(server, "ada") as ada:
        ada.delegate("bob", subscribe=[IBM])
    with guarded.client(server, "bob") as bob, bob.subscribe("true") as quotes:
        guarded.reload(server, f'revoked = ["ada"]\n{POLICY}')
        until(lambda: str(quotes.granted) == "false")


# -- the file --------------------------------------------------------------------------------------------------


def one(id: str, by: str = "ada", until: int | None = None) -> Delegation:
    return Delegation(by, "bob", {"subscribe": (parse(IBM),), "publish": (), "advertise": ()}, until, id)


def test_the_file_is_its_owner_s_and_what_is_wrong_with_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "delegations.json"
    Delegations(str(path)).add(one("1"), 0)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Delegations(str(path)).all == (one("1"),)
    for text in (
        "x",
        "{}",
        '{"format": 2, "delegations": []}',
        '{"format": 1, "delegations": [{"by": "a"}]}',
    ):
        path.write_text(text)
        with pytest.raises(PolicyError, match=r"no file of delegations|not known here"):
            Delegations(str(path))


def test_a_giver_has_so_many_delegations_and_others_are_unharmed() -> None:
    kept = Delegations()
    kept.all = tuple(one(str(number)) for number in range(MOST))
    with pytest.raises(PolicyError, match="1,000 delegations already"):
        kept.add(one("more"), 0)
    kept.add(one("0", until=5), 0)  # in place of one that there is
    kept.add(one("1", by="cyn"), 0)
    kept.add(one("more"), 5)  # one of them has ended
    assert len(kept.all) == MOST + 1


def test_brokers_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "delegations.json")

    def write(name: str) -> None:
        kept = Delegations(path)
        for number in range(10):
            kept.add(one(f"{name}{number}"), 0)

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(Delegations(path).all) == 40


# -- law and mutants -------------------------------------------------------------------------------------------

FILTERS = ("x in [0, 9]", "x > 5", "x < 3", "y = 1", "x > 5 and y = 1", "true")


@settings(max_examples=60)
@given(
    limit=st.sampled_from(FILTERS),
    given_=st.lists(st.sampled_from(FILTERS), min_size=1, max_size=3),
    x=st.integers(-1, 11),
    y=st.integers(0, 2),
)
def test_what_is_delegated_is_within_what_is_given_and_within_the_giver_s_limit(
    limit: str, given_: list[str], x: int, y: int
) -> None:
    from fairlead.model import Notification

    roles = {"r": {"members": ["ada"], "publish": [limit], "delegate": True}}
    made = Delegation("ada", "bob", {"publish": tuple(map(parse, given_))}, None, "1")
    bob = AccessPolicy.of({"roles": roles}).delegating(made).rights(Principal("bob"))
    event = Notification.of({"x": x, "y": y})
    expected = parse(limit).matches(event) and any(parse(each).matches(event) for each in given_)
    assert bob.may_publish(event) == expected


def test_a_guard_that_does_not_look_is_caught(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "_delegating", lambda *_, **__: None)
    with pytest.raises(pytest.fail.Exception):
        test_what_may_not_be_delegated_is_refused(guarded, "cyn", "bob", {"subscribe": ['symbol = "SUN"']})
