"""Brokers with a scope graph: clients get only what their components may see, on several brokers."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from fairlead.errors import FairleadError, NetworkError
from fairlead.network import sync
from fairlead_lab.testing.brokers import Brokers

GRAPH = """
DEFINE SCOPE Market AS ALL FROM Desk, exchange
DEFINE SCOPE Desk AS ALL FROM ada, bob INTERFACES INPUT(0), OUTPUT(type = "order")
DEFINE COMPONENT spark AS SUPERSCOPE FROM Desk SET relays = true
"""


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "market.scopes"
    path.write_text(GRAPH)
    return str(path)


def taken(subscription: sync.Subscription) -> list[str]:
    found: list[str] = []
    with suppress(TimeoutError):
        while True:
            found.append(str(subscription.get(timeout=0.3).id))
    return found


def test_clients_of_two_brokers_get_what_their_components_may_see(
    brokers: Brokers, graph: str, tmp_path: Path
) -> None:
    one = brokers.start("one", tmp_path, scopes=graph)
    two = brokers.start("two", tmp_path, scopes=graph, links=(one.url,))
    with ExitStack() as stack:
        at = {"ada": one, "bob": two, "exchange": two, "eve": one}
        clients = {name: stack.enter_context(sync.connect(at[name].url, name=name)) for name in at}
        found = {
            name: clients[name].subscribe("exists type", durable="bob" if name == "bob" else "")
            for name in ("bob", "exchange", "eve")
        }
        for number, kind in enumerate(("order", "note")):
            clients["ada"].publish({"id": str(number), "type": kind})
        assert [found["bob"].get(timeout=20).id for _ in range(2)] == ["0", "1"]
        assert found["exchange"].get(timeout=20).id == "0"
        clients["exchange"].publish({"id": "2", "type": "end"})
        assert (
            found["exchange"].get(timeout=20).id == "2"
        )  # what was sent before it would have come before it
        assert taken(found["eve"]) == []


def test_a_client_publishes_under_its_own_name_unless_it_relays(brokers: Brokers, graph: str) -> None:
    server = brokers.start(scopes=graph)
    with sync.connect(server.url, name="eve") as eve, sync.connect(server.url, name="spark") as spark:
        with pytest.raises(FairleadError, match="cannot publish as ada"):
            eve.publish({"producer": "ada", "type": "order"})
        spark.publish({"producer": "ada", "type": "order"})


def test_a_graph_that_brokers_cannot_evaluate_is_refused(brokers: Brokers, tmp_path: Path) -> None:
    path = tmp_path / "choosing.scopes"
    path.write_text("DEFINE SCOPE S AS ALL FROM a, b INTERNAL POLICY ONE")
    with pytest.raises(NetworkError, match="neither mappings nor policies"):
        brokers.start(scopes=str(path))
