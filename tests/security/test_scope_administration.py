"""Whoever administers some scopes changes these and no others, on a network with a policy."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import cli
from fairlead.errors import AccessRefused, FairleadError
from fairlead.model import Instant, Notification
from fairlead.rules import administration
from fairlead.rules.administration import refuse_change
from fairlead.rules.integrated import BrokerScoping
from fairlead.scopes import Scopes, parse_statements
from fairlead.scopes.touching import touched
from fairlead.security import AccessPolicy, Principal, Rights
from fairlead.security.rights import name_of_administrator
from fairlead_lab.testing.guarded import Guarded, token

POLICY = """
[roles.desks]
members = ["ada"]
administers = ["desk-*"]

[roles.operator]
members = ["root"]
allow = ["connect", "inspect", "scopes"]

[roles.guest]
members = ["eve"]
"""
GRAPH = """
DEFINE SCOPE market AS ALL FROM bank
DEFINE SCOPE desk-1 AS ALL FROM bob
DEPLOY SCOPE market
DEPLOY SCOPE desk-1
"""


def rights(name: str) -> Rights:
    return AccessPolicy.of(tomllib.loads(POLICY)).rights(Principal(name))


def change(text: str) -> Notification:
    return Notification.of({"id": "1", "producer": "scopes", "type": "scope change", "text": text})


ALLOWED = (
    "JOIN ada TO desk-1",
    "JOIN desk-ada TO desk-1",
    "LEAVE bob FROM desk-1",
    "DROP SCOPE desk-1",
    "DEFINE SCOPE desk-2 AS ALL FROM desk-1, ada INTERFACES INPUT(0)\nDEPLOY SCOPE desk-2",
    "ALTER SCOPE desk-1 ADD SET rank = 1",
)
BEYOND = (
    "JOIN ada TO market",
    "JOIN bank TO desk-1",
    "LEAVE bank FROM market",
    "DROP SCOPE market",
    "DEFINE SCOPE mine AS ALL FROM ada",
    "DEFINE SCOPE desk-2 AS ALL FROM bank",
    "DEFINE SCOPE desk-2 AS ALL FROM *",
    "DEFINE SCOPE desk-2 AS ALL FROM market.*",
    "DEFINE SCOPE desk-2 AS SUPERSCOPE FROM market",
    "DEFINE SCOPE desk-2 AS ALL FROM ada\nDEPLOY SCOPE desk-2 AS market-2",
    "DEFINE SCOPE desk-2 AS ALL FROM ada UPDATE ON pub(true) DO JOIN bank TO desk-2",
    "ALTER SCOPE market ADD SET rank = 1",
    "JOIN ada TO desk-1\nJOIN ada TO market",
    "JOIN ada TO",
)


@pytest.mark.parametrize("text", ALLOWED)
def test_who_administers_a_scope_changes_it(text: str) -> None:
    assert refuse_change(rights("ada"), change(text)) is None
    assert refuse_change(rights("root"), change(text)) is None
    assert refuse_change(rights("eve"), change(text)) is not None


@pytest.mark.parametrize("text", BEYOND)
def test_who_administers_a_scope_changes_no_other(text: str) -> None:
    assert refuse_change(rights("ada"), change(text)) is not None


def test_an_administrator_speaks_under_the_name_of_scopes_and_under_no_broker_s() -> None:
    for name, owned in (("ada", True), ("root", True), ("eve", False)):
        assert [rights(name).owns(kind, "scopes") for kind in ("clients", "producers")] == [owned, owned]
    for kind in ("clients", "producers", "durables"):
        assert not rights("ada").owns(kind, "scopes@hub")
    assert not rights("ada").owns("durables", "scopes")


def test_the_name_of_an_administrator_has_the_principal_s_and_is_nobody_else_s() -> None:
    assert name_of_administrator("scopes~1", Principal("ada")) == "scopes~ada~1"
    assert name_of_administrator("scopes~ada~1", Principal("ada")) == "scopes~ada~1"
    assert name_of_administrator("scopes~ada~1", Principal("bob")) == "scopes~bob~ada~1"
    assert rights("ada").owns("clients", "scopes~ada~1")
    assert not rights("ada").owns("clients", "scopes~root~1")
    assert not rights("eve").owns("clients", "scopes~eve~1")
    for kind in ("producers", "durables"):
        assert not rights("ada").owns(kind, "scopes~ada~1")


# -- law and mutants -------------------------------------------------------------------------------------------

MINE, OTHERS = ("desk-1", "desk-2", "desk-ada"), ("market", "floor", "bank", "shop")
NAMES = (*MINE, *OTHERS)
FEW = st.lists(st.sampled_from([*NAMES, "*"]), min_size=1, max_size=2, unique=True).map(", ".join)
SCOPE = st.sampled_from([each for each in NAMES if each not in ("desk-ada", "bank", "shop")])
STATEMENT = st.one_of(
    st.builds("JOIN {} TO {}".format, st.sampled_from(NAMES), SCOPE),
    st.builds("LEAVE {} FROM {}".format, st.sampled_from(NAMES), SCOPE),
    st.builds("DROP SCOPE {}".format, SCOPE),
    st.builds("ALTER SCOPE {} ADD ALL FROM {}".format, SCOPE, FEW),
    st.builds("ALTER SCOPE {} ADD SUPERSCOPE FROM {}".format, SCOPE, SCOPE),
)
WORLD = Scopes.parse(
    """
    DEFINE SCOPE market AS ALL FROM bank, desk-2
    DEFINE SCOPE floor AS ALL FROM shop
    DEFINE SCOPE desk-1 AS ALL FROM desk-ada
    DEFINE SCOPE desk-2 AS ALL FROM desk-ada
    DEPLOY SCOPE desk-1
    DEPLOY SCOPE desk-2
    DEPLOY SCOPE market
    DEPLOY SCOPE floor
    """
)


def changes_what_is_others(texts: list[str]) -> bool:
    """Whether what ada may do changes what others see of one another, who are in none of her scopes."""
    ada, before, after = rights("ada"), WORLD.system, WORLD.system
    for text in texts:
        if refuse_change(ada, change(text)) is None:
            try:
                for each in parse_statements(text):
                    after = after.apply(each)
            except FairleadError:
                continue
    return any(
        before.graph.visible(one, other) != after.graph.visible(one, other)
        for one in ("bank", "shop")
        for other in ("bank", "shop")
    )


@given(st.lists(STATEMENT, max_size=4))
def test_what_others_see_of_one_another_is_theirs(texts: list[str]) -> None:
    assert not changes_what_is_others(texts)


def only_scopes(statements: Any) -> list[str]:
    return [each.scope if hasattr(each, "scope") else each.name for each in statements]


def only_first(statements: Any) -> list[str]:
    return touched(statements)[:1]


@pytest.mark.parametrize("mutant", [only_scopes, only_first, lambda statements: []])
def test_a_mutant_is_caught(mutant: Callable[[Any], list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administration, "touched", mutant)
    assert any(refuse_change(rights("ada"), change(text)) is None for text in BEYOND)


# -- live ------------------------------------------------------------------------------------------------------


def graph_of(server: Any) -> Any:
    [rule] = [each for each in server.node.broker.seam.rules if isinstance(each, BrokerScoping)]
    return rule.system.graph


def test_at_a_broker_each_changes_what_is_theirs_and_it_is_in_the_log(
    guarded: Guarded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    guarded.write(POLICY)
    (tmp_path / "graph.scopes").write_text(GRAPH)
    server = guarded.start(scopes=str(tmp_path / "graph.scopes"))

    def apply(who: str, text: str) -> int:
        (tmp_path / "change.scopes").write_text(text)
        (tmp_path / "token").write_text(token(who))
        at = ("-b", server.url, "--token-file", str(tmp_path / "token"))
        return cli.main(["scope", "apply", str(tmp_path / "change.scopes"), *at])

    assert apply("ada", "JOIN ada TO desk-1") == 0
    assert graph_of(server).visible("ada", "bob")
    assert apply("ada", "JOIN ada TO market") != 0
    assert "ada does not administer 'market'" in capsys.readouterr().err
    assert apply("eve", "JOIN eve TO market") != 0
    assert apply("root", "JOIN ada TO market") == 0
    assert graph_of(server).visible("ada", "bank")
    with guarded.client(server, "ada", "scopes") as ada:
        for text in ("JOIN desk-2 TO desk-1", "LEAVE desk-2 FROM desk-1"):
            ada.publish({"type": "scope change", "text": text})
        with pytest.raises(AccessRefused, match="does not administer 'bank'"):
            ada.publish({"type": "scope change", "text": "JOIN bank TO desk-1"})
    assert not graph_of(server).visible("bank", "bob")
    with guarded.client(server, "ada", "scopes~1") as ada, guarded.client(server, "root", "scopes~1") as root:
        assert (ada.name, root.name) == ("scopes~ada~1", "scopes~root~1")
        for each, text in ((root, "LEAVE ada FROM market"), (ada, "LEAVE ada FROM desk-1")):
            now = Instant(time.time_ns() // 1_000)
            each.publish({"producer": "scopes", "type": "scope change", "text": text, "time": now})
        with pytest.raises(FairleadError):
            ada.publish({"type": "scope change", "text": "LEAVE ada FROM desk-1"})  # as itself
    assert not graph_of(server).visible("ada", "bob")
    server.node.guard.records.flush()
    refused = [each["reason"] for each in guarded.decisions() if each["outcome"] == "refused"]
    assert "ada does not administer 'market'" in refused
