"""The stages of a pipeline are the columnar form of the seam: they admit, grant, route and hide as it answers.

The oracle is a `Seam` over the same rules, asked about one notification after the other, with a loop over all
subscriptions as its routing function: no engine, no bus.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.filters import Filter, parse
from fairlead.ingest.records import notification_of
from fairlead.model import Notification
from fairlead.model.order import LatestIdentities
from fairlead.rules import Advertisements, Refusal, Route, Rule, Seam
from fairlead.rules.access import Access
from fairlead.rules.scoping import Scoping
from fairlead.scopes import Scopes
from fairlead.security import AccessPolicy
from fairlead.spark import small
from fairlead.spark.admission import Admission
from fairlead.spark.advertising import Advertised
from fairlead.spark.config import Config
from fairlead.spark.running import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("ada", "bob", "cam", "eve", "zoe")
FILTERS = ("x >= {}", "x = {}", "y = 1 and x < {}", "drill = true", "exists y", 'producer = "ada" or x = {}')
COLUMNS = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "producer")),
        *((name, pa.int64()) for name in ("time", "x", "y")),
        ("drill", pa.bool_()),
    ]
)


class World(NamedTuple):
    """The rules of a run, as files have them, its subscriptions and its events."""

    scopes: str
    policy: str
    advertised: list[tuple[str, str]]
    asked: list[tuple[str, str, str]]
    events: list[dict[str, Any]]


def world(rng: Random) -> World:
    def filter() -> str:
        return rng.choice(FILTERS).format(rng.randrange(6))

    def visible() -> str:
        return f"x in [{rng.randrange(3)}, {rng.randrange(3, 7)}]"

    members = rng.sample(NAMES, len(NAMES))
    scopes = f"""
DEFINE SCOPE Market AS ALL FROM Desk, {members[0]}
DEFINE SCOPE Desk AS ALL FROM {members[1]}, {members[2]} INTERFACES INPUT({visible()}), OUTPUT({visible()})
"""
    readers = rng.sample(NAMES, 4)
    policy = f"""
protected = ["drill"]
[roles.all]
members = ["*"]
publish = ["true"]
producers = ["*"]
[roles.some]
members = {readers[:2]}
subscribe = ["x > {rng.randrange(3)}", "y = 1"]
[roles.most]
members = {readers[2:]}
subscribe = ["true"]
reads = ["drill"]
"""
    asked = [(f"s{number}", rng.choice(NAMES), filter()) for number in range(25)]
    events: list[dict[str, Any]] = []
    for number in range(120):
        if events and rng.random() < 0.1:
            events.append(rng.choice(events))
            continue
        event: dict[str, Any] = {"id": str(number), "producer": rng.choice(NAMES), "time": 1_000 + number}
        event |= {name: rng.randrange(top) for name, top in (("x", 7), ("y", 2)) if rng.random() < 0.8}
        events.append(event | ({"drill": rng.random() < 0.5} if rng.random() < 0.5 else {}))
    advertised = [(name, f"x >= {rng.randrange(4)}") for name in rng.sample(NAMES, 2)]
    subscribed = {
        (who, text): (id, who, text) for id, who, text in asked
    }  # the same again is no subscription
    return World(scopes, policy, advertised, [*subscribed.values()], events)


class Outcome(NamedTuple):
    """The events that were refused, the subscriptions that were, and the deliveries with their contents."""

    rejected: list[str]
    refused: set[str]
    delivered: dict[tuple[str, str], tuple[list[str], dict[str, Any]]]


def by_the_seam(world: World) -> Outcome:
    advertised: dict[str, list[Filter]] = {}
    for producer, text in world.advertised:
        advertised.setdefault(producer, []).append(parse(text))
    subscriptions: dict[str, tuple[str, Filter]] = {}

    def route(notification: Notification, source: str) -> Route:
        clients: dict[str, list[str]] = {}
        for id, (who, filter) in sorted(subscriptions.items()):
            if filter.matches(notification):
                clients.setdefault(who, []).append(id)
        return Route((), tuple([(who, tuple(ids)) for who, ids in clients.items()]))

    rules: list[Rule] = [
        Scoping(Scopes.parse(world.scopes)),
        Advertisements(advertised.get, lambda producer, notification: Refusal("not advertised")),
        Access(AccessPolicy.of(tomllib.loads(world.policy))),
    ]
    seam = Seam(route, rules)
    found = Outcome([], set(), {})
    for id, who, text in world.asked:
        granted = seam.grant(who, "subscribe", parse(text), 0)
        if isinstance(granted, Refusal):
            found.refused.add(id)
        else:
            subscriptions[id] = who, granted
    identities = LatestIdentities(10_000)
    for event in world.events:
        taken = seam.take(event["producer"], notification_of(event), identities, 0)
        if isinstance(taken, Refusal):
            found.rejected.append(event["id"])
        if not isinstance(taken, Notification):
            continue
        for who, ids in seam.route(taken, "").clients:
            hidden = seam.hidden(who)
            shown = {name: value for name, value in event.items() if name not in hidden and name != "time"}
            found.delivered[who, event["id"]] = [*ids], shown
    found.rejected.sort()
    return found


def by_stages(spark: SparkSession, path: Path, world: World, form: str) -> Outcome:
    (path / "market.scopes").write_text(world.scopes)
    (path / "policy.toml").write_text(world.policy)
    (path / "events").mkdir()
    if form == "columns":
        pq.write_table(pa.Table.from_pylist(world.events, schema=COLUMNS), path / "events" / "0.parquet")
    else:
        write_lines(path / "events" / "0.jsonl", world.events)
    write_lines(
        path / "advertisements.jsonl",
        [{"producer": producer, "filter": text} for producer, text in world.advertised],
    )
    write_lines(
        path / "subscriptions.jsonl",
        [{"id": id, "subscriber": who, "filter": text} for id, who, text in world.asked],
    )
    config = Config.of(
        {
            "output": str(path / "out"),
            "events": {"path": str(path / "events")},
            "subscriptions": {"path": str(path / "subscriptions.jsonl")},
            "advertisements": {"path": str(path / "advertisements.jsonl")},
            "scopes": {"path": str(path / "market.scopes")},
            "security": {"policy": str(path / "policy.toml")},
            "deliveries": {"format": "json"},
            "report": False,
        }
    )
    made = Pipeline(config, spark)
    made.run()
    found = Outcome([], set(), {})
    rejected = made.output.read(spark, "rejected")
    for row in [] if rejected is None else rejected.collect():
        record = json.loads(row.raw)
        if "filter" in record:
            found.refused.add(record["id"])
        else:
            found.rejected.append(record["id"])
    for file in (path / "out" / "deliveries").rglob("*.jsonl"):
        for row in map(json.loads, file.read_text().splitlines()):
            content = {name: value for name, value in row["notification"].items() if name != "time"}
            found.delivered[row["subscriber"], row["id"]] = row["subscriptions"], content
    found.rejected.sort()
    return found


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


RUNS = [("lines", "driver", 0), ("columns", "jobs", 1)]
SOAK = [
    (form, where, seed)
    for seed in range(2, 8)
    for form in ("lines", "columns")
    for where in ("driver", "jobs")
]


@pytest.mark.parametrize(
    "run",
    [*RUNS, *(pytest.param(each, marks=pytest.mark.soak) for each in SOAK)],
    ids=lambda run: "-".join(map(str, run)),
)
def test_stages_admit_grant_route_and_hide_as_the_seam_answers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: tuple[str, str, int]
) -> None:
    form, where, seed = run
    if where == "jobs":
        monkeypatch.setattr(small, "ROWS_MAX", 0)
    made = world(Random(seed))
    expected = by_the_seam(made)
    assert len(expected.rejected) > 3
    assert expected.refused
    assert len(expected.delivered) > 30
    assert by_stages(spark, tmp_path, made, form) == expected


@given(seed=st.integers(0, 10**9))
def test_rows_that_pass_by_column_are_those_that_the_seam_admits(seed: int) -> None:
    """A row that is not asked about one by one is one that the rules admit: the fast path of the columns."""
    made = world(Random(seed))
    admission = Admission(Advertised(tuple(sorted(made.advertised))))
    producers = pa.array([each["producer"] for each in made.events], pa.string())
    asked = admission.asks(producers, pa.RecordBatch.from_pylist(made.events, schema=COLUMNS))
    advertised = {producer: [parse(text)] for producer, text in made.advertised}
    seam = Seam(
        lambda notification, source: Route((), ()),
        [Advertisements(advertised.get, lambda producer, notification: Refusal("not advertised"))],
    )
    for one, event in zip(asked, made.events, strict=True):
        notification = notification_of(event)
        is_refused = isinstance(seam.admit(notification.producer, notification, 0), Refusal)
        assert is_refused == (bool(one) and admission.objection(notification) is not None)
