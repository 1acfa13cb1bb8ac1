"""Mappings, policies and changes of scopes on Spark: a pipeline delivers what an ordered bus does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.audit import Verdict, audit, parquet
from fairlead.bus import Bus
from fairlead.errors import PipelineError, ScopeError
from fairlead.filters import Filter
from fairlead.ingest import Rejection
from fairlead.model import Instant, Notification
from fairlead.model.encoding import parse_json
from fairlead.model.order import BEGINNING, END
from fairlead.scopes import ScopeGraph, Scopes, evaluation, parse_statements, print_statements
from fairlead.scopes.describing import statements_of
from fairlead.scopes.running import Running
from fairlead.scopes.timeline import Timeline
from fairlead.spark import scoping
from fairlead.spark.config import Config
from fairlead.spark.frames import encode
from fairlead.spark.matcher import subscribers_of
from fairlead.spark.scoping import Components, OpenedScopes, ScopeText, made_in
from fairlead.spark.subscriptions import Subscriptions
from fairlead.spark.versions import DECIDED, LATER, Deciding, Due
from fairlead_lab.testing.scopes import graphs, publications, subscriptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[str, int, str, str, str, tuple[str, ...], str]
"""Subscriber, time, producer, id, version, subscriptions, content."""

CHANGES = [
    "JOIN p TO A",
    "LEAVE p FROM A",
    "JOIN q TO B",
    "ALTER SCOPE A INTERFACES INPUT(1), OUTPUT(1)",
    "ALTER SCOPE A INTERNAL POLICY ONE BY TURN",
    "ALTER SCOPE A INTERNAL POLICY HOLD UNTIL (x = 1) DISCARD ON (x = 0)",
    "ALTER SCOPE A DELIVERY POLICY HOLD UNTIL (x = 1)",
    "ALTER SCOPE A INTERNAL POLICY RATE 1 PER 2us",
    "DROP SCOPE B",
]


def on_a_bus(
    text: str, changes: list[str], asked: list[dict[str, Any]], events: list[Notification]
) -> list[Row]:
    bus = Bus(scopes=Scopes.parse(text), order="ordered", lateness_us=10**9)
    for change in changes:
        bus.scopes.apply(parse_statements(change))
    queues = [
        bus.subscribe(each["filter"], subscriber=each["subscriber"], id=each["id"], since=_since(each))
        for each in asked
    ]
    for event in events:
        bus.publish(event)
    bus.close()
    found = []
    for name, queue in {each["subscriber"]: queue for each, queue in zip(asked, queues, strict=True)}.items():
        for _ in range(len(queue)):
            each = queue.get_delivery(0)
            assert each.key is not None
            key = (each.key.time, each.key.producer, each.key.id)
            found.append((name, *key, each.version, each.subscriptions, encode(each.notification)))
    return sorted(found)


def _since(asked: dict[str, Any]) -> Instant | None:
    return None if asked.get("from") is None else Instant(asked["from"])


def accepted(text: str, changes: list[str]) -> list[str]:
    """The changes that a bus takes, one after another."""
    bus, taken = Bus(scopes=Scopes.parse(text), order="ordered"), []
    for change in changes:
        try:
            bus.scopes.apply(parse_statements(change))
        except ScopeError:
            continue
        taken.append(change)
    bus.close()
    return taken


def batch_of(events: list[Notification]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "time": each.time.microseconds if each.time else 0,
                "producer": each.producer,
                "sequence": None,
                "id": each.id,
                "event_time": each.time.microseconds if each.time else None,
                "record": encode(each),
            }
            for each in events
        ],
        schema=pa.schema(
            [
                ("time", pa.int64()),
                ("producer", pa.string()),
                ("sequence", pa.int64()),
                ("id", pa.string()),
                ("event_time", pa.int64()),
                ("record", pa.string()),
            ]
        ),
    )


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    for row in batch.to_pylist():
        for each in row["receivers"] or ():
            key = (row["time"], row["producer"], row["id"])
            ids = tuple(each["subscriptions"])
            yield each["subscriber"], *key, row["version"], ids, row["record"]


def in_batches(
    scopes: ScopeText, compiled: Subscriptions, events: list[Notification], cuts: list[int], size: int = 2
) -> list[Row]:
    """What the stages deliver, where watermarks are at the cuts."""
    opened, targets = scopes.opened, (compiled,)
    ordered = sorted(
        events, key=lambda each: (each.time.microseconds if each.time else 0, each.producer, each.id)
    )
    states, waiting, since = "", LATER.empty_table(), BEGINNING
    found: list[Row] = []
    for bound in [*cuts, END]:
        part = [each for each in ordered if each.time and since <= each.time.microseconds < bound]
        batch = batch_of(part)
        special = opened.is_special(batch)
        in_order = (
            opened.has_policies or opened.is_ruled or bool(opened.notices)
        )  # else versions are matched together
        deciding = Deciding(scopes, targets, states, since, bound, in_order)
        given = [batch.filter(pa.array(special)).slice(n, size) for n in range(0, int(special.sum()), size)]
        made = pa.Table.from_batches(deciding(given), schema=DECIDED)
        rows = made.to_pylist()
        states = next((row["states"] for row in rows if row["states"] is not None), states)
        scopes = replace(scopes, made=made_in(states))  # what rules have changed holds for the others as well
        opened = scopes.opened
        plain = batch.filter(pa.array(~special))
        for number, notification in enumerate(each for each, s in zip(part, special, strict=True) if not s):
            time = plain.column("time")[number].as_py()
            [names] = subscribers_of(targets, [notification], [time])
            row = np.zeros(len(names), np.int64)
            components = Components(pa.array(list(names), pa.string()))
            view = opened.visibility(plain.slice(number, 1), None, [notification])
            seen = view.sees(row, components, np.arange(len(names)))
            for name, sees in zip(names, seen, strict=True):
                if sees:
                    content = encode(notification)
                    found.append(
                        (
                            name,
                            time,
                            notification.producer,
                            notification.id or "",
                            "",
                            tuple(names[name]),
                            content,
                        )
                    )
        now = [row for row in rows if row["states"] is None and row["only"] is None]
        found += rows_of(pa.RecordBatch.from_pylist(now, schema=made.schema))
        later = [{name: row[name] for name in LATER.names} for row in rows if row["only"] is not None]
        waiting = pa.concat_tables([waiting, pa.Table.from_pylist(later, schema=LATER)])
        due = pa.compute.less(waiting.column("time"), bound)
        for each in Due(targets)(waiting.filter(due).to_batches()):
            found += rows_of(each)
        waiting = waiting.filter(pa.compute.invert(due))
        since = bound
    return sorted(found)


@given(graphs(mappings=True, policies=True), st.data(), subscriptions())
@settings(max_examples=settings.default.max_examples // 2)
def test_random_graphs_changes_and_batches_deliver_as_the_ordered_bus_does(
    graph: ScopeGraph, data: st.DataObject, asked: dict[str, dict[str, Filter]]
) -> None:
    text = print_statements(statements_of(graph))
    events = [data.draw(publications(number)) for number in range(1, 7)]
    drawn = data.draw(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(CHANGES)), max_size=3))
    changes = accepted(text, [f"{change} SINCE {time}" for time, change in drawn])
    cuts = sorted(data.draw(st.sets(st.integers(2, 12), max_size=2)))
    wanted_by = [
        {
            "id": f"{name}/{id}",
            "subscriber": name,
            "filter": str(filter),
            "from": data.draw(st.sampled_from([None, 4])),
        }
        for name, filters in asked.items()
        for id, filter in filters.items()
    ]
    scopes = ScopeText.of(Scopes.parse("\n".join([text, *changes])))
    with TemporaryDirectory() as directory:
        compiled = Subscriptions.read(wanted_by, directory)
        assert in_batches(scopes, compiled, events, cuts) == on_a_bus(text, changes, wanted_by, events)


GRAPH = """
DEFINE SCOPE Market AS ALL FROM Desk, Floor, watcher
DEFINE SCOPE Desk AS ALL FROM ada, bob INTERFACES INPUT(1), OUTPUT(x > 1)
  MAP OUTWARD { usd = x * 1.25, DROP x, DROP secret } MAP INWARD { BLOCK WHERE x = 6 }
DEFINE SCOPE Floor AS ALL FROM eve, fay, gil INTERFACES INPUT(1), OUTPUT(1)
  DELIVERY POLICY ONE BY TURN WHEN (y = 1)
  DELIVERY POLICY DELAY 35us WHEN (y = 0)
DEFINE SCOPE Held AS ALL FROM hal, ida INTERFACES INPUT(1), OUTPUT(1)
  INTERNAL POLICY HOLD UNTIL (x = 5) DISCARD ON (x = 0)
DEFINE SCOPE Alone AS ALL FROM jo, kim
"""
TIMED = """
JOIN zoe TO Desk SINCE 300
LEAVE bob FROM Desk SINCE 600
ALTER SCOPE Floor DELIVERY POLICY RATE 2 PER 100us SINCE 500
DROP SCOPE Held SINCE 800
"""
NAMES = ("ada", "bob", "eve", "fay", "gil", "hal", "ida", "jo", "kim", "watcher", "zoe", "stranger")


def drawn_events() -> list[dict[str, Any]]:
    random = Random(7)
    return [
        {
            "id": str(number),
            "producer": random.choice(NAMES),
            "time": number * 10,
            "x": random.randrange(7),
            "secret": "s",
            **({"y": random.randrange(3)} if random.random() < 0.8 else {}),
        }
        for number in range(100)
    ]


@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_a_pipeline_with_mappings_policies_and_changes_delivers_as_the_ordered_bus_does(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    from fairlead.spark.running import Pipeline

    events = drawn_events()
    asked = [
        {
            "id": f"s-{name}",
            "subscriber": name,
            "filter": f"y >= {n % 2} or exists usd or x > 2 or exists scope",
        }
        for n, name in enumerate(NAMES)
    ]
    changes = [line for line in TIMED.strip().splitlines() if line]
    wanted = on_a_bus(GRAPH, changes, asked, [Notification.of(each) for each in events])
    assert {each[4] for each in wanted} > {""}  # versions
    assert any(each[1] % 10 for each in wanted)  # delayed
    (tmp_path / "events").mkdir()
    size = 100 if mode == "batch" else 25
    for number in range(0, 100, size):
        part = events[number : number + size]
        Random(number).shuffle(part)
        lines = "".join(f"{json.dumps(each)}\n" for each in part)
        (tmp_path / "events" / f"{number:03}.jsonl").write_text(lines)
    (tmp_path / "subscriptions.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in asked))
    (tmp_path / "market.scopes").write_text(GRAPH + TIMED)
    given: dict[str, Any] = {
        "name": "test",
        "output": str(tmp_path / "out"),
        "events": {"path": str(tmp_path / "events"), "format": "json"},
        "subscriptions": {"path": str(tmp_path / "subscriptions.jsonl")},
        "scopes": {"path": str(tmp_path / "market.scopes")},
        "deliveries": {"payload": True},
        "audit": {"trace": True},
    }
    if mode == "stream":
        given |= {"mode": "stream", "order": {"final": True}, "stream": {"available": True, "max_files": 1}}
    Pipeline(Config.of(given), spark).run()
    found = spark.read.parquet(str(tmp_path / "out" / "deliveries")).collect()
    got = sorted(
        (
            row["subscriber"],
            row["time"],
            row["producer"],
            row["id"],
            row["version"],
            tuple(row["subscriptions"]),
            row["record"],
        )
        for row in found
    )
    assert [each[:-1] for each in got] == [each[:-1] for each in wanted]
    assert [parse_json(each[-1]) for each in got] == [parse_json(each[-1]) for each in wanted]
    trace = [event for _, event in parquet.read(str(tmp_path / "out" / "trace"))]
    assert not any(isinstance(each, Rejection) for each in trace)
    report = audit([each for each in trace if not isinstance(each, Rejection)])
    assert ("scoped", "visible") in {(each.specification, each.rule) for each in report}
    assert report.verdict is Verdict.HOLDS


def test_changes_come_as_files_while_a_stream_runs(spark: SparkSession, tmp_path: Path) -> None:
    from fairlead.spark.running import Pipeline

    events = drawn_events()
    asked = [{"id": f"s-{name}", "subscriber": name, "filter": "true"} for name in NAMES]
    paths = {name: tmp_path / name for name in ("events", "changes")}
    for path in paths.values():
        path.mkdir()
    (tmp_path / "subscriptions.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in asked))
    (tmp_path / "market.scopes").write_text(GRAPH)
    given: dict[str, Any] = {
        "name": "test",
        "mode": "stream",
        "output": str(tmp_path / "out"),
        "events": {"path": str(paths["events"]), "format": "json"},
        "subscriptions": {"path": str(tmp_path / "subscriptions.jsonl")},
        "scopes": {"path": str(tmp_path / "market.scopes"), "changes": str(paths["changes"])},
        "stream": {"available": True},
        "audit": {"trace": True},
    }
    said = {
        "first": "JOIN zoe TO Floor SINCE 200",
        "second": "JOIN stranger TO Desk\nLEAVE eve FROM Floor SINCE 100\nLEAVE eve FROM Nowhere\n"
        "DROP SCOPE Held SINCE 700",
        "third": "ALTER SCOPE",
    }
    for number, names in enumerate((("first",), ("second", "third"))):
        part = events[50 * number : 50 * number + 50]
        lines = "".join(f"{json.dumps(each)}\n" for each in part)
        (paths["events"] / f"{number}.jsonl").write_text(lines)
        for name in names:
            (paths["changes"] / f"{name}.scopes").write_text(said[name])
        Pipeline(Config.of({**given, "order": {"final": number == 1}}), spark).run()
    changes = [  # the watermark was at 490 when the second file came
        "JOIN zoe TO Floor SINCE 200",
        "JOIN stranger TO Desk SINCE 490",
        "LEAVE eve FROM Floor SINCE 490",
        "DROP SCOPE Held SINCE 700",
    ]
    wanted = on_a_bus(GRAPH, changes, asked, [Notification.of(each) for each in events])
    found = spark.read.parquet(str(tmp_path / "out" / "deliveries")).collect()
    got = sorted(
        (row["subscriber"], row["time"], row["producer"], row["id"], row["version"]) for row in found
    )
    assert got == [each[:5] for each in wanted]
    rejected = spark.read.parquet(str(tmp_path / "out" / "rejected")).collect()
    assert [row["source"] for row in rejected] == ["scopes", "scopes"]
    assert any("Nowhere" in row["reason"] for row in rejected)
    trace = [event for _, event in parquet.read(str(tmp_path / "out" / "trace"))]
    report = audit([each for each in trace if not isinstance(each, Rejection)])
    assert report.verdict is Verdict.HOLDS


def test_scope_has_a_row_for_each_version(spark: SparkSession) -> None:
    from fairlead.spark import ingest, notifications, scope

    frame = spark.createDataFrame([("1", "ada", 5), ("2", "jo", 0)], "id string, producer string, x long")
    text = GRAPH.replace("DELIVERY POLICY ONE BY TURN WHEN (y = 1)", "")
    text = text.replace("DELIVERY POLICY DELAY 35us WHEN (y = 0)", "")
    text = text.replace("INTERNAL POLICY HOLD UNTIL (x = 5) DISCARD ON (x = 0)", "")
    found = scope(notifications(ingest(frame, "rows")), Scopes.parse(text)).collect()
    rows = {(row["id"], tuple(row["scopes"])): parse_json(row["record"]) for row in found}
    assert rows["1", ("Floor", "Market")] == {"id": "1", "producer": "ada", "usd": {"$decimal": "6.25"}}
    assert rows["1", ("Desk",)]["x"] == 5
    assert rows["2", ("Alone",)]["x"] == 0
    with pytest.raises(PipelineError, match="policies"):
        scope(notifications(ingest(frame, "rows")), Scopes.parse(GRAPH))


RULES = [
    "UPDATE ON pub(n : x = 1) DO JOIN COMPONENT TO A",
    "UPDATE ON pub(n : x > 1) IF n.y = 1 DO LEAVE COMPONENT FROM A, JOIN s TO A",
    "UPDATE ON con(n : exists y) DO JOIN t TO A",
    "UPDATE ON con(n : x = 0) DO LEAVE COMPONENT FROM A",
    "UPDATE ON join(*, A) DO LEAVE r FROM A",
    "UPDATE ON leave(p, *) DO JOIN u TO A",
]


@pytest.mark.parametrize("more", [{}, {"mappings": True}, {"policies": True, "timed": False}])
@given(st.data(), subscriptions(), st.lists(st.sampled_from(RULES), min_size=1, max_size=3, unique=True))
@settings(max_examples=settings.default.max_examples // 4)
def test_rules_change_the_graph_in_batches_as_on_the_ordered_bus(
    more: dict[str, bool], data: st.DataObject, asked: dict[str, dict[str, Filter]], rules: list[str]
) -> None:
    graph = data.draw(graphs(**more))
    text = print_statements(statements_of(graph)) + f"\nALTER SCOPE A {' '.join(rules)}"
    events = [data.draw(publications(number)) for number in range(1, 8)]
    drawn = data.draw(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(CHANGES[:3])), max_size=2))
    changes = accepted(text, [f"{change} SINCE {time}" for time, change in drawn])
    cuts = sorted(data.draw(st.sets(st.integers(2, 12), max_size=2)))
    wanted_by = [
        {"id": f"{name}/{id}", "subscriber": name, "filter": str(filter)}
        for name, filters in asked.items()
        for id, filter in filters.items()
    ]
    scopes = ScopeText.of(Scopes.parse("\n".join([text, *changes])))
    with TemporaryDirectory() as directory:
        compiled = Subscriptions.read(wanted_by, directory)
        assert in_batches(scopes, compiled, events, cuts) == on_a_bus(text, changes, wanted_by, events)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("UPDATE ON sub(x = 1) DO JOIN b TO S", "sub"),
        ("INTERNAL POLICY DELAY 5us UPDATE ON con(n: x = 1) DO JOIN b TO S", "DELAY"),
    ],
)
def test_rules_without_an_order_in_batches_are_refused(rule: str, why: str) -> None:
    with pytest.raises(PipelineError, match=why):
        ScopeText.of(Scopes.parse(f"DEFINE SCOPE S AS ALL FROM a {rule}"))


CUTS = [*range(90, 1_000, 90)]


def fixed() -> tuple[ScopeText, list[dict[str, Any]], list[Notification], list[Row]]:
    """The graph above with its changes, its events, and what an ordered bus delivers of them."""
    asked = [
        {
            "id": f"s-{name}",
            "subscriber": name,
            "filter": f"y >= {n % 2} or exists usd or x > 2 or exists scope",
        }
        for n, name in enumerate(NAMES)
    ]
    events = [Notification.of(each) for each in drawn_events()]
    changes = [line for line in TIMED.strip().splitlines() if line]
    scopes = ScopeText.of(Scopes.parse(GRAPH + TIMED))
    return scopes, asked, events, on_a_bus(GRAPH, changes, asked, events)


def states_are_not_in_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scoping, "restore_states", lambda running, text: None)


def what_is_delayed_has_the_time_of_its_publication(patch: pytest.MonkeyPatch) -> None:
    right = Running.due

    def due(self: Running, before: Any) -> list[Any]:
        return [each._replace(key=replace(each.key, time=each.key.time - 35)) for each in right(self, before)]

    patch.setattr(Running, "due", due)


def changes_hold_for_all_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Timeline, "at", lambda self, key: self.latest)


def versions_have_no_tag(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(evaluation, "tag_of", lambda version, published: "")


def members_of_a_dropped_scope_are_not_notified(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Deciding, "_notices", lambda self, opened: [])


MUTANTS = (
    states_are_not_in_the_checkpoint,
    what_is_delayed_has_the_time_of_its_publication,
    changes_hold_for_all_keys,
    versions_have_no_tag,
    members_of_a_dropped_scope_are_not_notified,
)


def test_the_fixed_graph_delivers_in_batches_as_on_the_bus(tmp_path: Path) -> None:
    scopes, asked, events, wanted = fixed()
    assert in_batches(scopes, Subscriptions.read(asked, str(tmp_path)), events, CUTS) == wanted


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.__name__)
def test_a_mutant_delivers_something_else(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scopes, asked, events, wanted = fixed()
    mutant(monkeypatch)
    assert in_batches(scopes, Subscriptions.read(asked, str(tmp_path)), events, CUTS) != wanted


# -- rules ---------------------------------------------------------------------------------------------------

RULED = """
DEFINE SCOPE Market AS ALL FROM Desk, Floor, watcher
DEFINE SCOPE Desk AS ALL FROM ada, bob INTERFACES INPUT(1), OUTPUT(x > 1)
  UPDATE ON pub(n : x = 5) DO JOIN zoe TO Desk
  UPDATE ON con(n : x = 6) DO LEAVE COMPONENT FROM Desk
DEFINE SCOPE Floor AS ALL FROM eve, fay INTERFACES INPUT(1), OUTPUT(1)
  UPDATE ON pub(n : x = 4) DO LEAVE zoe FROM Desk, JOIN bob TO Desk, JOIN ada TO Desk
"""


def ruled() -> tuple[ScopeText, list[dict[str, Any]], list[Notification], list[Row]]:
    """A graph with rules, its events, two at an instant, and what an ordered bus delivers of them."""
    asked = [{"id": f"s-{name}", "subscriber": name, "filter": "exists x"} for name in NAMES]
    events = [Notification.of({**each, "time": int(each["id"]) // 2 * 10}) for each in drawn_events()]
    wanted = on_a_bus(RULED, [], asked, events)
    return ScopeText.of(Scopes.parse(RULED)), asked, events, wanted


def changes_of_rules_are_not_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("fairlead.spark.versions.with_made", lambda states, made: states)


def deliveries_trigger_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Deciding, "_consumed", lambda *_: None)


def a_change_holds_for_its_trigger(patch: pytest.MonkeyPatch) -> None:
    right = Timeline.changed
    patch.setattr(
        Timeline, "changed", lambda self, statement, key=None, **_: right(self, statement, key, behind=False)
    )


def an_instant_has_one_graph(patch: pytest.MonkeyPatch) -> None:
    right = OpenedScopes.__init__

    def open_scopes(self: OpenedScopes, *given: Any) -> None:
        right(self, *given)
        self._behind = frozenset()

    patch.setattr(OpenedScopes, "__init__", open_scopes)


RULED_MUTANTS = (
    changes_of_rules_are_not_committed,
    deliveries_trigger_nothing,
    a_change_holds_for_its_trigger,
    an_instant_has_one_graph,
)


@pytest.mark.parametrize("mutant", [None, *RULED_MUTANTS])
def test_rules_in_batches_deliver_as_on_the_bus_and_their_mutants_do_not(
    mutant: Callable[[pytest.MonkeyPatch], None] | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scopes, asked, events, wanted = ruled()
    scoping._OPENED.clear()
    if mutant is not None:
        mutant(monkeypatch)
    found = in_batches(scopes, Subscriptions.read(asked, str(tmp_path)), events, CUTS[:5])
    scoping._OPENED.clear()
    assert (found == wanted) is (mutant is None)


# -- mappings as columns -------------------------------------------------------------------------------------

ODD = [
    {"price": 1.5, "y": 2},
    {"price": 20.0, "x": 1},
    {"x": 0.125, "labels": ["b", "a"]},
    {"x": 1, "inner": {"y": 2.5}},
    {"x": "2", "y": "text"},
    {"x": 2, "when": Instant(1_700_000_000_000_000)},
    {"x": 10**30, "y": 1},
]


@given(graphs(mappings=True), st.data(), subscriptions())
def test_random_mapped_graphs_deliver_as_the_ordered_bus_does(
    graph: ScopeGraph, data: st.DataObject, asked: dict[str, dict[str, Filter]]
) -> None:
    text = print_statements(statements_of(graph))
    events = []
    for number in range(1, 9):
        drawn = data.draw(publications(number))
        more = data.draw(st.sampled_from([{}, {}, *ODD]))
        events.append(Notification.of({**drawn.attributes, **more}))
    moved = data.draw(st.lists(st.tuples(st.integers(0, 8), st.sampled_from(CHANGES[:4])), max_size=2))
    changes = accepted(text, [f"{change} SINCE {time}" for time, change in moved])
    wanted_by = [
        {"id": f"{name}/{id}{extra}", "subscriber": name, "filter": str(filter)}
        for name, filters in asked.items()
        for id, filter in filters.items()
        for extra in ("", "-again")
    ]
    scopes = ScopeText.of(Scopes.parse("\n".join([text, *changes])))
    with TemporaryDirectory() as directory:
        compiled = Subscriptions.read(wanted_by, directory)
        assert in_batches(scopes, compiled, events, [], 5) == on_a_bus(text, changes, wanted_by, events)
