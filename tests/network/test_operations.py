"""An operator ends connections, drains a broker, and ends durable subscribers by age and backlog."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.cli import main
from fairlead.errors import BrokerRefused, NotThere
from fairlead.network import sync
from fairlead_lab.testing.brokers import Brokers

Until = Callable[[Callable[[], object]], None]


def test_the_connection_of_a_client_is_ended_for_good(brokers: Brokers, until: Until) -> None:
    server = brokers.start("b")
    with sync.connect(server.url, name="desk", patience=2) as desk, desk.subscribe("exists x") as heard:
        assert main(["broker", "end", "desk", "-b", server.url]) == 0
        with pytest.raises(BrokerRefused, match="an operator has ended this connection"):
            heard.get(timeout=15)
    with sync.connect(server.url) as other:
        with pytest.raises(NotThere, match="no client 'desk' is connected"):
            other.end_client("desk")
        other.publish({"x": 1})


def test_clients_of_a_drained_broker_go_to_another_one_and_come_back_when_that_is_undone(
    brokers: Brokers, tmp_path: Path, until: Until
) -> None:
    a = brokers.start("a", tmp_path)
    b = brokers.start("b", tmp_path, links=(a.url,))
    until(lambda: b.node.links and all(each.ready for each in list(b.node.links.values())))
    with (
        sync.connect([a.url, b.url], name="desk") as desk,
        desk.subscribe("exists x") as heard,
        sync.connect(b.url, name="source") as source,
    ):
        assert "desk" in a.node.clients
        assert main(["broker", "drain", "-b", a.url]) == 0
        until(lambda: "desk" in b.node.clients)
        until(lambda: b.node.broker.clients["c:desk"].subscriptions.by_id)
        source.publish({"x": 1})
        assert heard.get(timeout=15).get("x") == 1
        with pytest.raises(BrokerRefused, match="drained"), sync.connect(a.url, patience=1) as late:
            late.publish({"x": 2})
        with sync.connect([a.url, b.url]) as newcomer:
            assert newcomer.broker == "b"
        with sync.connect(a.url, name="operator") as operator:
            assert operator.status()["draining"]
    assert main(["broker", "drain", "--undo", "-b", a.url]) == 0
    with sync.connect(a.url) as client:
        client.publish({"x": 3})
        assert not client.status()["draining"]


def test_durable_subscribers_are_shown_by_age_and_backlog_and_ended(
    brokers: Brokers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = brokers.start("b", tmp_path)
    with sync.connect(server.url, name="source") as source:
        for name, text in (("late", "x >= 0"), ("fresh", "x >= 5"), ("idle", "x < 0")):
            with sync.connect(server.url) as client, client.subscribe(text, durable=name):
                pass
        for x in range(10):
            source.publish({"x": x})
        shown = source.durables()
        assert [(each["name"], each["behind"] > 0) for each in shown] == [
            ("late", True),
            ("fresh", True),
            ("idle", False),
        ]
        assert shown[0]["oldest"] < shown[1]["oldest"]
        assert shown[0]["filters"] == ["x >= 0"]
        least = str(shown[0]["behind"])
        assert (
            main(["broker", "durables", "-b", server.url, "--behind", least, "--older", "0s", "--json"]) == 0
        )
        assert [json.loads(line)["name"] for line in capsys.readouterr().out.splitlines()] == ["late"]
        assert main(["broker", "durables", "-b", server.url, "--older", "1h", "--forget"]) == 0
        assert len(source.durables()) == 3
        assert main(["broker", "durables", "-b", server.url, "--behind", least, "--forget"]) == 0
        assert "late  away" in capsys.readouterr().out
        assert [each["name"] for each in source.durables()] == ["fresh", "idle"]


def test_there_are_no_other_actions(brokers: Brokers) -> None:
    from fairlead.network import wire

    server = brokers.start("b")
    with sync.connect(server.url) as client, pytest.raises(BrokerRefused, match="no action 'explode'"):
        client._wait(client._client._request(lambda number: wire.Operate(number, "explode")))
