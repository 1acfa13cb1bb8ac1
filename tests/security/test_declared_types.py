"""Types that principals declare by a call: theirs at all brokers, within the policy's file, and never wider."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from fairlead.broker import Broker, Settings
from fairlead.errors import AccessRefused, BrokerRefused, PolicyError
from fairlead.filters import parse
from fairlead.filters.schema import Schema
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.guard import Guard
from fairlead.network.node import Node
from fairlead.routing import STRATEGIES, Catalogue
from fairlead.rules.access import Access, nobody
from fairlead.rules.trust import Trust
from fairlead.security import AccessPolicy, Delegation, Principal
from fairlead.security.types import MOST, DeclaredType, DeclaredTypes
from fairlead_lab.testing.guarded import Guarded, token
from fairlead_lab.testing.nodes import End, Line, linked

POLICY = """
[roles.exchange]
members = ["nyse", "xetra"]
publish = ['type in {"Quote", "Trade", "Note"}']
types = ["Quote", "Trade", "{name}.*"]

[roles.reader]
members = ["ada", "nyse"]
subscribe = ["true"]

[roles.operator]
members = ["root"]
allow = ["connect", "inspect", "manage"]
types = ["Quote"]
clients = ["operator"]

[roles.brokers]
members = ["b", "east", "b0", "b1", "b2", "b3"]
allow = ["link"]

[types.Trade]
owners = ["xetra"]
"""
DELAYED = "delay > 15"


def test_who_declares_a_type_owns_it_alters_it_and_removes_it(guarded: Guarded) -> None:
    guarded.write(POLICY)
    server = guarded.start()
    with (
        guarded.client(server, "nyse") as nyse,
        guarded.client(server, "xetra") as xetra,
        guarded.client(server, "ada") as ada,
        guarded.client(server, "root", "operator") as root,
        ada.subscribe("price > 0") as quotes,
    ):
        nyse.declare_type("Quote", subscribe=[DELAYED], form=["exists symbol"])
        with pytest.raises(BrokerRefused, match="may not publish"):
            xetra.publish({"type": "Quote", "symbol": "SAP", "price": 1, "delay": 20})
        with pytest.raises(BrokerRefused, match="may not publish"):
            nyse.publish({"type": "Quote", "price": 2, "delay": 20})  # it has not the form
        for price, delay in ((3, 0), (4, 20)):
            nyse.publish({"type": "Quote", "symbol": "SAP", "price": price, "delay": delay})
        xetra.publish({"type": "Note", "price": 5})
        assert [quotes.get(10).get("price") for _ in range(2)] == [4, 5]
        nyse.declare_type("Quote", publish=["price > 9"])
        nyse.publish({"type": "Quote", "price": 6})
        for price in (7, 10):
            with pytest.raises(BrokerRefused) if price < 9 else _fine():
                xetra.publish({"type": "Quote", "price": price})
        assert [quotes.get(10).get("price") for _ in range(2)] == [6, 10]
        assert root.types() == [
            {"name": "Quote", "owner": "nyse", "subscribe": [], "publish": ["price > 9"], "form": []}
        ]
        nyse.remove_type("Quote")
        xetra.publish({"type": "Quote", "price": 7})
        assert quotes.get(10).get("price") == 7
        xetra.declare_type("Quote")
        with pytest.raises(BrokerRefused):
            nyse.publish({"type": "Quote", "price": 8})
        root.remove_type("Quote")
        assert root.types() == []
    recorded = [each for each in guarded.decisions() if each["action"] in ("declare", "remove")]
    assert [(each["principal"], each["action"], each["outcome"]) for each in recorded] == [
        ("nyse", "declare", "granted"),
        ("nyse", "declare", "granted"),
        ("nyse", "remove", "granted"),
        ("xetra", "declare", "granted"),
        ("root", "remove", "granted"),
    ]
    assert {each["requested"] for each in recorded} == {'type = "Quote"'}


class _fine:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize(
    ("principal", "name"),
    [
        pytest.param("ada", "Quote", id="no role lets one"),
        pytest.param("xetra", "Note", id="another name than the role has"),
        pytest.param("xetra", "Quote", id="another has declared it"),
        pytest.param("nyse", "Trade", id="another owns it by the file"),
        pytest.param("root", "Quote", id="an operator does not take it over"),
        pytest.param("xetra", "nyse.Quote", id="under another's name"),
        pytest.param(None, "Quote", id="nobody"),
    ],
)
def test_a_type_that_is_not_one_s_own_is_refused_in_the_same_words(
    guarded: Guarded, principal: str | None, name: str
) -> None:
    guarded.write(POLICY.replace('"ada", "nyse"', '"ada", "nyse", "anonymous"'))
    server = guarded.start()
    with guarded.client(server, "nyse") as nyse:
        nyse.declare_type("Quote", subscribe=[DELAYED])
        nyse.declare_type("nyse.Quote")
    kept = server.node.guard.declared.all
    own = "operator" if principal == "root" else None
    with guarded.client(server, principal, own) as client:
        with pytest.raises(AccessRefused, match=f"may not declare the type '{name}'"):
            client.declare_type(name)
        if principal != "root":
            with pytest.raises(AccessRefused, match=f"there is no type '{name}' of yours"):
                client.remove_type(name)
            with pytest.raises(AccessRefused, match="may not inspect"):
                client.types()
    assert server.node.guard.declared.all == kept


def test_a_guard_that_does_not_look_is_caught(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "check_type", lambda *_, **__: None)
    with pytest.raises(pytest.fail.Exception):
        test_a_type_that_is_not_one_s_own_is_refused_in_the_same_words(guarded, "xetra", "Quote")


def test_all_brokers_know_a_type_when_the_call_returns_and_over_restarts(
    guarded: Guarded, until: Callable[[Callable[[], object]], None]
) -> None:
    guarded.write(POLICY)
    (guarded.path / "shown").write_text(token("east"))
    keys = {"b": {"types": str(guarded.path / "types.json")}}
    keys["east"] = {"credentials": str(guarded.path / "shown")}
    server = guarded.start(keys=keys["b"])
    other = guarded.start("east", keys=keys["east"], links=(server.url,))
    until(lambda: server.node.links and other.node.links)
    with (
        guarded.client(server, "nyse") as nyse,
        guarded.client(other, "ada") as ada,
        ada.subscribe("true") as quotes,
    ):
        nyse.declare_type("Quote", subscribe=[DELAYED])
        nyse.publish({"type": "Quote", "delay": 1})
        nyse.publish({"type": "Quote", "delay": 16})
        assert quotes.get(10).get("delay") == 16
    assert (guarded.path / "types.json").stat().st_mode & 0o777 == 0o600
    guarded.brokers.stop(other)  # it is told by its neighbour when it is back
    other = guarded.start("east", keys=keys["east"], links=(server.url,))
    until(lambda: [each.owner for each in other.node.guard.declared.all] == ["nyse"])
    guarded.brokers.stop(server)
    server = guarded.start(keys=keys["b"])
    assert [each.owner for each in server.node.guard.declared.all] == ["nyse"]


# -- over nodes ------------------------------------------------------------------------------------------------

SCHEMA = Schema.parse(
    "abstract type Instrument\ntype Quote: Instrument\ntype Trade: Instrument\ntype Block: Trade\ntype Note"
)


def broker(name: str, policy: str = POLICY, schema: Schema | None = None) -> Broker:
    import tomllib

    read = AccessPolicy.of(tomllib.loads(policy), schema)
    rules = [Access(read, nobody), Trust(name, read)]
    catalogue = Catalogue(engine_named("columnar"), schema)
    return Broker(name, Settings(STRATEGIES["covering"](0.1), lasting=True), catalogue=catalogue, rules=rules)


def say(line: Line, end: End, message: wire.Control) -> wire.Control:
    before = len(end.frames(wire.CONTROL))
    end.hear(wire.control(message))
    line.settle()
    said = [wire.parse_control(each) for each in end.frames(wire.CONTROL)[before:]]
    return next(each for each in said if isinstance(each, wire.Done | wire.Refused))


def known(node: Node) -> list[tuple[str, str]]:
    return [(each.name, each.owner) for each in node.guard.declared.all if not each.is_removed]


def test_a_declaration_is_in_effect_at_every_broker_behind_before_it_is_answered() -> None:
    line = Line(4, make=broker)
    nyse, ada = line.client(0, "nyse"), line.client(3, "ada")
    assert isinstance(say(line, ada, wire.Subscribe(1, "s", "true")), wire.Done)
    states = []

    def answered(data: bytes) -> None:
        End.write(nyse, data)
        states.append([known(each) for each in line.nodes])

    nyse.write = answered  # type: ignore[method-assign]
    assert isinstance(say(line, nyse, wire.DeclareType(1, "Quote", [DELAYED])), wire.Done)
    assert states == [[[("Quote", "nyse")]] * 4]
    for number, delay in enumerate((1, 20), start=2):
        given = {"id": str(number), "producer": "nyse", "type": "Quote", "delay": delay}
        nyse.hear(wire.publish(number, pack(Notification.of(given))))
    line.settle()
    assert [unpack(wire.parse_deliver(each)[2]).id for each in ada.frames(wire.DELIVER)] == ["3"]


def test_brokers_that_were_apart_agree_when_they_are_linked() -> None:
    one, other = Line(2, make=broker), Line(2, make=lambda name: broker({"b0": "b2", "b1": "b3"}[name]))
    for line, name in ((one, "nyse"), (other, "xetra")):
        end = line.client(0, name)
        assert isinstance(say(line, end, wire.DeclareType(1, "Quote")), wire.Done)
        assert isinstance(say(line, end, wire.DeclareType(2, f"{name}.Own")), wire.Done)
    say(one, one.client(1, "nyse"), wire.RemoveType(1, "nyse.Own"))
    one.links.append(linked(one.nodes[1], other.nodes[0]))
    one.links += other.links
    one.nodes += other.nodes
    one.settle()
    # Both have declared it at the same time: one of the two is its owner, everywhere the same.
    assert [known(each) for each in one.nodes] == [[("Quote", "xetra"), ("xetra.Own", "xetra")]] * 4


def test_with_a_schema_a_type_has_those_below_it_and_there_are_no_others() -> None:
    policy = POLICY.replace('types = ["Quote", "Trade", "{name}.*"]', 'types = ["*"]').replace(
        "[types.Trade]", "[types.Block]"
    )
    line = Line(2, make=lambda name: broker(name, policy, SCHEMA))
    nyse, ada = line.client(0, "nyse"), line.client(1, "ada")
    say(line, ada, wire.Subscribe(1, "s", "true"))
    # A type above or below another's has notifications in common with it.
    for name in ("Instrument", "Trade", "Block"):
        answer = say(line, nyse, wire.DeclareType(1, name))
        assert isinstance(answer, wire.Refused), name
        assert "may not declare" in answer.reason
    answer = say(line, nyse, wire.DeclareType(2, "Quot"))
    assert isinstance(answer, wire.Refused)
    assert "no type" in answer.reason
    answer = say(
        line, ada, wire.DeclareType(3, "Quot")
    )  # who may not declare any does not learn which there are
    assert isinstance(answer, wire.Refused)
    assert "may not declare" in answer.reason
    assert isinstance(say(line, nyse, wire.DeclareType(4, "Note", ["false"])), wire.Done)
    assert str(line.nodes[1].guard.policy.rights(Principal("ada")).grants["subscribe"][0].filter) == (
        "not type is Note"
    )


def test_a_broker_that_handles_nothing_of_a_type_is_not_told_of_it() -> None:
    trusted = '\n[brokers.b0]\nhandles = ["true"]\n[brokers.b1]\nhandles = [\'type = "Note"\']\n'
    line = Line(2, make=lambda name: broker(name, POLICY + trusted))
    nyse = line.client(0, "nyse")
    say(line, nyse, wire.DeclareType(1, "Quote", [DELAYED]))
    say(line, nyse, wire.DeclareType(2, "nyse.Other"))
    assert [known(each) for each in line.nodes] == [[("Quote", "nyse"), ("nyse.Other", "nyse")], []]


# -- laws ------------------------------------------------------------------------------------------------------

declarations = st.builds(
    DeclaredType,
    st.sampled_from("AB"),
    st.sampled_from(["nyse", "xetra"]),
    st.sampled_from([(), (DELAYED,)]),
    revision=st.integers(1, 3),
    is_removed=st.booleans(),
)


def disagree(case: tuple[list[DeclaredType], list[DeclaredType]]) -> bool:
    ends = []
    for order in case:
        kept = DeclaredTypes()
        for each in order:
            kept.take([each])
        ends.append(kept.all)
    return ends[0] != ends[1]


orders = st.lists(declarations, max_size=6).flatmap(
    lambda each: st.tuples(st.just(each), st.permutations(each))
)


@given(orders)
def test_declarations_come_to_the_same_in_any_order(case: tuple[list[DeclaredType], Any]) -> None:
    assert not disagree(case)


def test_an_order_that_leaves_two_declarations_equal_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        DeclaredType, "replaces", lambda self, other: other is None or self.revision >= other.revision
    )
    assert find(orders, disagree)


def test_an_owner_has_so_many_types_and_the_oldest_of_those_removed_make_room(tmp_path: Path) -> None:
    kept = DeclaredTypes(str(tmp_path / "types.json"))
    kept.take([DeclaredType(f"{n}", "nyse", revision=n, is_removed=n in (3, 5)) for n in range(MOST)])
    kept.take([DeclaredType("more", "nyse", revision=MOST)])
    kept.take([DeclaredType("other", "xetra", revision=1)])
    assert {"3", "5"} & {each.name for each in kept.all} == {"5"}
    kept.take([DeclaredType("more2", "nyse", revision=MOST)])
    with pytest.raises(PolicyError, match="1,000 types already"):
        kept.take([DeclaredType("more3", "nyse", revision=MOST)])
    assert DeclaredTypes(str(tmp_path / "types.json")).all == kept.all


FILTERS = ("x > 5", "x < 3", "true", "false")


cases = st.fixed_dictionaries(
    {
        **{name: st.lists(st.sampled_from(FILTERS), max_size=2) for name in ("subscribe", "publish", "form")},
        "role": st.sampled_from(FILTERS),
        "owner": st.sampled_from(["ada", "nyse"]),
        "delegates": st.booleans(),
        "event": st.builds(
            lambda x, type: Notification.of({"x": x, "type": type}),
            st.integers(0, 9),
            st.sampled_from(["Quote", "Note"]),
        ),
    }
)


@given(cases)
def test_a_declared_type_grants_nothing_and_takes_what_its_owner_says(case: dict[str, Any]) -> None:
    """Also where another principal delegates its rights: what its type's owner took from it, it cannot give."""
    role, event = case["role"], case["event"]
    roles = {
        "r": {"members": ["ada"], "subscribe": [role], "publish": [role], "delegate": True},
        "bob": {"members": ["bob"]},
    }
    limits = {name: tuple(case[name]) for name in ("subscribe", "publish", "form")}
    declared = DeclaredType("Quote", case["owner"], **limits)
    policy = AccessPolicy.of({"roles": roles}).declaring(declared.owned(None))
    if case["delegates"]:
        given_ = {"subscribe": (parse("true"),), "publish": (parse("true"),), "advertise": ()}
        policy = policy.delegating(Delegation("ada", "bob", given_, None, "1"))
    who = "bob" if case["delegates"] else "ada"
    is_owner = case["owner"] == "ada"

    def some(name: str) -> bool:
        return any(parse(each).matches(event) for each in limits[name])

    by_role, is_quote = parse(role).matches(event), event.get("type") == "Quote"
    has_form = not is_quote or not limits["form"] or some("form")
    # What ada gives of her own type is met with what she leaves to others.
    owns = is_owner and not case["delegates"]
    may_publish = by_role and has_form and (not is_quote or owns or some("publish"))
    may_get = by_role and (not is_quote or owns or not limits["subscribe"] or some("subscribe"))
    rights = policy.rights(Principal(who))
    assert rights.may_publish(event) == may_publish
    assert any(each.filter.matches(event) for each in rights.grants["subscribe"]) == may_get


def test_the_owner_of_a_type_gets_by_delegation_what_its_giver_may_do_and_not_more() -> None:
    roles = {"r": {"members": ["ada"], "publish": ["true"], "delegate": True}, "bob": {"members": ["bob"]}}
    given_ = {"publish": (parse("true"),)}
    policy = AccessPolicy.of({"roles": roles, "types": {"Quote": {"owners": ["bob"]}}})
    rights = policy.delegating(Delegation("ada", "bob", given_, None, "1")).rights(Principal("bob"))
    assert rights.may_publish(Notification.of({"type": "Note"}))
    assert not rights.may_publish(Notification.of({"type": "Quote"}))
