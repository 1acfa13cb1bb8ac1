"""What a broker says of its tables: searches find what the algebra says, and those who would get it get it."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.broker.messages import Publish
from fairlead.console.views.following import follow
from fairlead.console.views.network import Remote
from fairlead.errors import FairleadError, ValueRefused
from fairlead.filters import Filter, covers
from fairlead.filters.language import render
from fairlead.model import Notification
from fairlead.network import examining, sync
from fairlead.network.client import connect
from fairlead.testing import filters
from fairlead_lab.testing.brokers import PATIENCE_S, Brokers, wait_until
from fairlead_lab.testing.examined import Examined, broker_with

SCOPES = """
DEFINE SCOPE Market AS ALL FROM Desk, exchange
DEFINE SCOPE Desk AS ALL FROM ada, bob INTERFACES INPUT(0), OUTPUT(type = "order")
"""

# -- search ------------------------------------------------------------------------------------------------------


@given(filters(), st.lists(filters(), max_size=6))
def test_a_search_finds_what_the_algebra_says(asked: Filter, others: list[Filter]) -> None:
    network = Examined(broker_with((render(each), "c:ada") for each in others))
    texts = {render(each): each for each in others}
    for how, holds in (
        ("covering", lambda each: covers(each, asked)),
        ("covered", lambda each: covers(asked, each)),
    ):
        found = network.all(how=how, text=render(asked))
        assert sorted(found) == sorted((text, "c:ada") for text, each in texts.items() if holds(each))


def test_pieces_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [(f"x = {number}", f"c:ada{number % 7}") for number in range(3_000)]
    whole = Examined(broker_with(entries))
    assert sorted(whole.all(room=50)) == sorted(entries)
    assert sorted(whole.all(text="X = 11")) == sorted(each for each in entries if "x = 11" in each[0])
    monkeypatch.setattr(examining, "PIECE", 10)  # one or two entries at a time
    few = Examined(broker_with(entries[:40]))
    assert sorted(few.all()) == sorted(entries[:40])
    assert sorted(few.all(how="covered", text="x < 5")) == [
        (f"x = {each}", f"c:ada{each}") for each in range(5)
    ]


def test_entries_are_told_apart_by_where_they_lead() -> None:
    network = Examined(broker_with([("x > 1", "c:ada"), ("x > 2", "d:desk"), ("x > 3", "b")]))
    assert [to for _, to in network.all(whose="all")] == ["c:ada", "d:desk", "b"]
    assert network.all() == [("x > 1", "c:ada"), ("x > 2", "d:desk")]
    assert network.all(whose="all", to="b") == [("x > 3", "b")]
    assert network.all(whose="all", how="covered", text="x > 0", beside="b") == network.all()


def test_subscriptions_that_nothing_has_matched_are_found() -> None:
    broker = broker_with([("x > 1", "c:ada"), ("x > 5", "c:ada"), ("x > 1", "c:bob"), ("y = 1", "c:bob")])
    network = Examined(broker)
    everything = [("x > 1", "c:ada"), ("x > 5", "c:ada"), ("x > 1", "c:bob"), ("y = 1", "c:bob")]
    assert network.all(how="never") == everything
    broker.handle(Publish("c:cy", Notification.of({"x": 2})), 0)
    assert network.all(how="never") == [("x > 5", "c:ada"), ("y = 1", "c:bob")]
    assert network.all(how="never", text="bob") == [("y = 1", "c:bob")]


@pytest.mark.parametrize(
    "about", ["[1]", '{"how": "guess"}', '{"at": -1}', '{"how": "covered", "text": "x >"}']
)
def test_what_cannot_be_searched_is_refused(about: str) -> None:
    with pytest.raises(FairleadError):
        Examined(broker_with([("x > 1", "c:ada")])).examination.find(about)


def test_a_filter_beyond_the_limits_of_clients_is_refused() -> None:
    network = Examined(broker_with([("x > 1", "c:ada")]))
    wide = " or ".join(f"x = {number}" for number in range(1_000))
    with pytest.raises(ValueRefused, match="constraints"):
        network.all(how="covered", text=wide)


# -- where a notification goes -----------------------------------------------------------------------------------


def test_matching_entries_and_others_are_counted_and_have_their_reasons() -> None:
    entries = [("x = 1", "c:ada"), ("x = 2", "c:bob"), ("x > 0", "b"), ('y = "z"', "c:cy")]
    network = Examined(broker_with(entries))

    def asked(**about: Any) -> Any:
        event = {"id": "1", "producer": "p", "attributes": {"x": 1}}
        return network.examination.explain(json.dumps({"event": event, **about}))

    told = asked()
    assert (told["next"], told["receivers"]) == (["b"], ["c:ada"])
    assert sorted(to for _, to, _ in told["matching"]) == ["b", "c:ada"]
    assert told["rest"] == 2
    assert {to: why for _, to, why in told["others"]} == {"c:bob": "x is 1, not 2", "c:cy": "y is absent"}
    assert [to for _, to, _ in asked(who="cy")["others"]] == ["c:cy"]
    back = asked(**{"from": "b"})
    assert (back["next"], back["matches"], back["rest"]) == ([], 1, 2)
    with pytest.raises(ValueRefused, match="no neighbour"):
        asked(**{"from": "far"})


def _scoped(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "market.scopes"
    path.write_text(SCOPES)
    return {"scopes": str(path)}


@pytest.mark.parametrize("kind", ["line", "cyclic", "hierarchical", "scoped"])
def test_those_who_are_said_to_get_it_get_it(brokers: Brokers, tmp_path: Path, kind: str) -> None:
    """On a network whose tables are settled, those who get it here are those to whom the brokers deliver it."""
    more: dict[str, Any] = {
        "cyclic": {"cyclic": True},
        "hierarchical": {"hierarchical": True},
        "scoped": _scoped(tmp_path),
    }.get(kind, {})
    above = {"parent": "one"} if kind == "hierarchical" else {}
    one = brokers.start("one", tmp_path, **more)
    two = brokers.start("two", tmp_path, links=(one.url,), **more, **above)
    links = (one.url, two.url) if kind == "cyclic" else (one.url,)
    three = brokers.start("three", tmp_path, links=links, **more, **above)
    events = [
        {"type": "order", "x": 1},
        {"type": "note", "x": 2},
        {"type": "order", "x": 5},
        {"type": "none"},
    ]
    with ExitStack() as stack:
        at = {"ada": one, "bob": two, "exchange": three, "eve": three}
        clients = {name: stack.enter_context(sync.connect(at[name].url, name=name)) for name in at}
        queues = {
            name: clients[name].subscribe(text, timeout=PATIENCE_S)
            for name, text in (
                ("bob", "exists x"),
                ("exchange", "x < 3"),
                ("eve", 'type = "order" or x = 2'),
            )
        }
        got: dict[str, list[str]] = {name: [] for name in queues}
        expected: dict[str, list[str]] = {name: [] for name in queues}
        reasons = []
        for number, event in enumerate(events):
            made = Notification.of({"id": f"{kind}{number}", "producer": "ada", **event})
            trail = asyncio.run(_followed(one.url, made))
            assert not [step.problem for step in trail.steps if step.problem]
            rows = [
                row for step in trail.steps for what in ("others", "matching") for row in step.answer[what]
            ]
            reasons += [why for _, to, why in rows if to == "c:eve"]
            for _, who in trail.receivers:
                expected[who[2:]].append(made.id or "")
            clients["ada"].publish(made)
        for name, wanted in expected.items():
            got[name] = [str(queues[name].get(timeout=PATIENCE_S).id) for _ in wanted]
            with pytest.raises(TimeoutError):
                queues[name].get(timeout=0.3)
        assert got == expected
        assert any(expected.values())
        if kind == "scoped":
            assert not expected["eve"]
            assert any("keep it from there" in each for each in reasons)


async def _followed(url: str, event: Notification) -> Any:
    async with connect(url) as client:
        return await follow(Remote(client, [url], None, None), client.broker, event)


# -- scopes ------------------------------------------------------------------------------------------------------


def test_the_scope_graph_in_force_is_reported(brokers: Brokers, tmp_path: Path) -> None:
    one = brokers.start("one", tmp_path, **_scoped(tmp_path))
    with sync.connect(one.url, name="scopes") as admin:
        told = admin.examine("scopes")
        assert told["there"]
        assert told["changeable"]
        assert "DEFINE SCOPE Market" in told["statements"]
        for text in ("JOIN eve TO Market", "JOIN nobody TO Elsewhere"):
            admin.publish({"type": "scope change", "text": text})
        wait_until(lambda: len(admin.examine("scopes")["changes"]) == 2)
        changes = admin.examine("scopes")["changes"]
        assert [
            (each["text"], bool(each["void"])) for each in sorted(changes, key=lambda each: each["text"])
        ] == [
            ("JOIN eve TO Market", False),
            ("JOIN nobody TO Elsewhere", True),
        ]
        clients = admin.examine("clients")
        assert [each["name"] for each in clients["clients"]] == ["scopes", "scopes@one"]
        assert clients["limits"]["clients"] == 20_000


def test_a_broker_without_scopes_says_so(brokers: Brokers) -> None:
    with sync.connect(brokers.start("one").url) as client:
        assert not client.examine("scopes")["there"]
        with pytest.raises(FairleadError, match="no report 'nothing'"):
            client.examine("nothing")
