"""Dialects at the command line, in tables of subscriptions, on the bus and over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fairlead as fl
from fairlead import dialects
from fairlead.cli import main
from fairlead.console.feeds import Wanted
from fairlead.console.problems import Problem
from fairlead.errors import PipelineError
from fairlead.network.server import Server
from fairlead.network.settings import Address, BrokerSettings
from fairlead.spark.config import Config
from fairlead.spark.subscriptions import Subscriptions, SubscriptionsInput
from fairlead_lab.testing.brokers import on_a_loop


def test_a_translation_is_printed_or_refused_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["filter", "translate", "--from", "cesql", "type = 'a'"]) == 0
    assert capsys.readouterr().out == 'type = "a"\n'
    assert main(["filter", "translate", "--from", "sql", "x > 5", "--to", "sql", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"filter": "x > 5", "text": "x > 5"}
    assert main(["filter", "translate", "--from", "jms", "UPPER(x) = 'A'"]) == 2
    assert "functions are no part of a selector" in capsys.readouterr().err
    assert main(["filter", "translate", "x contains 1", "--to", "sql"]) == 2
    assert "cannot say" in capsys.readouterr().err
    assert main(["filter", "translate", "--from", "nope", "x"]) == 2


def test_filters_of_two_dialects_are_related(capsys: pytest.CaptureFixture[str]) -> None:
    pattern = '{"source": [{"prefix": "aws."}]}'
    options = ["--from", "eventbridge", pattern, "--from", "cesql", "source = 'aws.ec2'"]
    assert main(["filter", "relate", *options]) == 0
    assert capsys.readouterr().out == "covers\n"
    assert main(["filter", "relate", "x > 5", "--from", "sql", "x > 5"]) == 0
    assert capsys.readouterr().out == "identical\n"


ROWS: list[dict[str, Any]] = [
    {"id": "a", "filter": "price > 10 AND symbol = 'IBM'"},
    {"id": "b", "filter": {"symbol": ["SAP"]}, "dialect": "eventbridge"},
    {"id": "c", "filter": "price < 5", "dialect": "fairlead"},
]


def test_subscriptions_of_a_file_are_matched_in_their_dialects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, events = tmp_path / "s.jsonl", tmp_path / "e.jsonl"
    table.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    events.write_text('{"id": 1, "symbol": "IBM", "price": 12}\n{"id": 2, "symbol": ["SAP"], "price": 4}\n')
    arguments = ["match", "--subscriptions", str(table), "--events", str(events)]
    assert main([*arguments, "--dialect", "jms"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["event"], each["subscription"]) for each in found] == [(1, "a"), (2, "b"), (2, "c")]
    table.write_text('{"symbol": ["IBM"]}\n{"price": [{"numeric": ["<", 5]}]}\n')
    assert main([*arguments, "--dialect", "eventbridge"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["event"], each["subscription"]) for each in found] == [(1, 1), (2, 2)]


def test_a_table_of_a_pipeline_names_dialects_for_all_rows_and_for_each(tmp_path: Path) -> None:
    table = tmp_path / "s.jsonl"
    table.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    read = Subscriptions.read(SubscriptionsInput(str(table), dialect="jms"), tmp_path / "out")
    texts = {row["id"]: row["filter"] for batch in read.tables() for row in batch.to_pylist()}
    assert texts == {
        "a": str(dialects.jms("price > 10 AND symbol = 'IBM'")),
        "b": str(dialects.eventbridge('{"symbol": ["SAP"]}')),
        "c": "price < 5",
    }
    changed = read.changed(
        [{"id": "d", "filter": "a/+", "dialect": "mqtt"}, {"id": "e", "filter": "a/+x", "dialect": "mqtt"}], 0
    )
    assert [each.filter for each in changed.begun] == ['topic matches "a/*"']
    assert [each.reason for each in changed.rejections] == [
        "column 3: the wildcard + stands for a whole level"
    ]
    table.write_text('{"id": "a", "filter": "price >"}\n')
    with pytest.raises(PipelineError, match=r"s\.jsonl:1: .*unexpected the end"):
        Subscriptions.read(SubscriptionsInput(str(table), dialect="jms"), tmp_path / "bad")


def test_a_pipeline_names_the_dialect_of_its_subscriptions(tmp_path: Path) -> None:
    tables: dict[str, Any] = {
        "events": {"path": str(tmp_path / "e.jsonl")},
        "subscriptions": {"path": str(tmp_path / "s.jsonl"), "dialect": "sql"},
        "output": str(tmp_path / "out"),
    }
    assert Config.of(tables).subscriptions.dialect == "sql"
    tables["subscriptions"]["dialect"] = "nope"
    with pytest.raises(PipelineError, match="dialect"):
        Config.of(tables)


def test_a_stream_over_http_names_its_dialect() -> None:
    assert Wanted.of([("filter", "a/+"), ("dialect", "mqtt")]).filter == 'topic matches "a/*"'
    assert Wanted.of([("filter", "x > 5")]).filter == "x > 5"
    with pytest.raises(Problem, match="whole level"):
        Wanted.of([("filter", "a/+x"), ("dialect", "mqtt")])
    with pytest.raises(Problem, match="no dialect is named"):
        Wanted.of([("filter", "a"), ("dialect", "nope")])


def test_the_bus_takes_what_a_dialect_gives() -> None:
    bus = fl.Bus()
    with bus.subscribe(fl.dialects.cesql("hop < ttl AND type LIKE 'a%'")) as subscription:
        bus.publish({"type": "abc", "hop": "5", "ttl": 10})
        bus.publish({"type": "abc", "hop": "50", "ttl": 10})
        bus.publish({"type": "abd", "hop": 1, "ttl": 10})
        assert [subscription.get().get("hop"), subscription.get().get("hop")] == ["5", 1]
    bus.close()


@on_a_loop
async def test_a_broker_reads_what_a_client_has_translated() -> None:
    server = Server(BrokerSettings("b", Address("127.0.0.1", 0), None))
    await server.start()
    try:
        async with fl.connect(f"127.0.0.1:{server.port}") as client:
            hops = client.subscribe(fl.dialects.cesql("hop < ttl"))
            tags = client.subscribe(fl.dialects.eventbridge('{"tags": [{"prefix": "a"}]}'))
            await hops.installed()
            await tags.installed()
            await client.publish({"x": 1, "hop": "50", "ttl": 10})
            await client.publish({"x": 2, "hop": "5", "ttl": 10})
            await client.publish({"x": 3, "tags": ["b", "ab"]})
            assert (await hops.get()).get("x") == 2
            assert (await tags.get()).get("x") == 3
    finally:
        await server.stop()
