"""The scope graph of a network in the console: drafted, compared, applied with the rights of whom is logged in."""

from __future__ import annotations

import html
import http.client
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from fairlead.network import sync
from fairlead_lab.testing.brokers import PATIENCE_S
from fairlead_lab.testing.guarded import token
from fairlead_lab.testing.web import Web

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
GRAPH = """
DEFINE SCOPE Market AS ALL FROM Desk, exchange
DEFINE SCOPE Desk AS ALL FROM ada, bob INTERFACES INPUT(0), OUTPUT(type = "order")
"""
POLICY = """
[roles.desks]
members = ["ada"]
allow = ["connect", "inspect"]
administers = ["Desk", "eve"]

[roles.operator]
members = ["root"]
allow = ["connect", "inspect", "scopes"]

[roles.guest]
members = ["eve"]
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("graph") / "market.scopes"
    path.write_text(GRAPH)
    return str(path)


def test_a_draft_is_compared_and_applied(started: Callable[..., Any], graph: str) -> None:
    running = started(None, name="solo", scopes=graph)

    def post(path: str, **fields: str) -> str:
        answer = running.ask("POST", f"/console/scopes/{path}", urlencode(fields), FORM)
        assert answer.status == 200
        return str(answer.body.decode())

    shown = running.ask("GET", "/console/scopes/live").body.decode()
    assert "The graph of the network" in shown
    assert "DEFINE SCOPE Desk" in shown
    assert "Nothing: the graph stays as it is" in post("draft", change="")
    assert "Not a change" in post("draft", change="JOIN")
    assert "Not a change" in post("draft", change="JOIN eve TO Nowhere")
    asked = {"change": "JOIN eve TO Desk", "one": "ada", "another": "eve"}
    draft = post("draft", **asked)
    assert "eve in Desk" in draft
    assert ">yes<" in draft
    assert ">no<" in post("draft", **{**asked, "change": ""})
    known = re.findall(r'name="known" value="([^"]*)"|value="([^"]*)"[^>]*name="known"', draft)[0]
    version = html.unescape(known[0] or known[1])
    before = running.ask("GET", "/console/scopes/live").body.decode()
    assert "JOIN eve" not in before  # a draft changes nothing
    applied = post("apply", change="JOIN eve TO Desk", known=version)
    assert "1 broker has taken the change" in applied
    assert "JOIN eve TO Desk" in running.ask("GET", "/console/scopes/live").body.decode()
    assert "has changed since" in post("apply", change="JOIN ann TO Desk", known=version)
    with (
        sync.connect(running.server.url, name="eve") as eve,
        sync.connect(running.server.url, name="ada") as ada,
        eve.subscribe("exists type", timeout=PATIENCE_S) as orders,
    ):
        ada.publish({"id": "1", "type": "note"})
        assert orders.get(PATIENCE_S).id == "1"


def test_a_network_without_scopes_says_so(town: Any) -> None:
    assert "no scopes" in town.running.ask("GET", "/console/scopes/live").body.decode()
    draft = town.running.ask("POST", "/console/scopes/draft", "change=x", FORM)
    assert "no scopes" in draft.body.decode()


@pytest.fixture
def web(tmp_path: Path, graph: str) -> Iterator[Web]:
    made = Web(tmp_path, POLICY, scopes=graph)
    yield made
    made.close()


def test_a_change_needs_the_rights_of_whom_is_logged_in(web: Web) -> None:
    def apply(who: str, text: str) -> tuple[int, str]:
        headers = {**FORM, "Authorization": f"Bearer {token(who)}"}
        connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=PATIENCE_S)
        body = urlencode({"change": text, "known": "0 "})
        connection.request("POST", "/console/scopes/apply", body, headers)
        answer = connection.getresponse()
        said = answer.read().decode()
        connection.close()
        return answer.status, said

    assert apply("eve", "JOIN eve TO Desk")[0] == 403  # she may not inspect
    status, said = apply("ada", "JOIN eve TO Market")
    assert status == 200
    assert "does not administer" in said
    assert "has taken the change" in apply("ada", "JOIN eve TO Desk")[1]
