"""Patterns beside scopes on Spark: each component's composites are those that the ordered bus finds for it.

What Spark does between the stages is left out where there are many examples; one graph goes through pipelines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.audit import Verdict, audit, parquet
from fairlead.bus import Bus
from fairlead.correlation import fair
from fairlead.errors import FilterError, PipelineError
from fairlead.filters import Filter
from fairlead.ingest import Rejection
from fairlead.model import Instant, Notification
from fairlead.model.order import BEGINNING, END
from fairlead.scopes import ScopeGraph, Scopes, parse_statements, print_statements
from fairlead.scopes.describing import statements_of
from fairlead.spark import beside as stages
from fairlead.spark import detection
from fairlead.spark.beside import Beside
from fairlead.spark.config import Config
from fairlead.spark.detection import PROGRESS, detected_here
from fairlead.spark.frames import encode
from fairlead.spark.patterns import PatternRow, Patterns
from fairlead.spark.scoping import ScopeText, check_patterns
from fairlead.spark.subscriptions import Subscriptions
from fairlead_lab.testing.scopes import COMPONENTS, graphs, publications, subscriptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[str, int, str, str, str, tuple[str, ...], str]
"""A delivery: subscriber, time, producer, id, version, subscriptions, content."""
PATTERNS = (
    "[exists x] as p followed by [exists x] as q within 4 us",
    "pair: [exists x] as p followed by [exists x] as q within 4 us, giving size = p.x",
    'pair: [type = "A"] followed by [type = "B"] within 6 us',
    "wave: [x > 0] then no [x = 0] within 3 us",
    '2 or more [type = "pair"] as s followed by [exists y] within 9 us',
    '[type = "pair" or type = "wave"] as s followed by [exists y] within 9 us, taking all matches',
    'wave: [type = "pair" and size > 1] followed by [x > 0] within 9 us',
)
FAIR = ("A.x <= B.x", "joint: A.x <= B.x", "joint[2]", "pair and A")
PROGRESS_SCHEMA = pa.schema(
    [(name, pa.int64() if kind == "bigint" else pa.string()) for name, kind in PROGRESS.items()]
)
CHANGES = (
    "JOIN p TO A SINCE 4",
    "LEAVE q FROM A SINCE 6",
    "ALTER SCOPE A INTERFACES INPUT(1), OUTPUT(1) SINCE 5",
    "DROP SCOPE B SINCE 7",
)


def accepted(text: str, changes: list[str], asked: list[PatternRow]) -> tuple[list[str], list[PatternRow]]:
    """The changes and the patterns that a bus takes."""
    bus = Bus(scopes=Scopes.parse(text), order="ordered")
    taken = [
        change
        for change in changes
        if _takes(lambda change=change: bus.scopes.apply(parse_statements(change)))
    ]
    rows = [row for row in asked if _takes(lambda row=row: _ask(bus, row))]
    bus.close()
    return taken, rows


def _takes(step: Callable[[], object]) -> bool:
    from fairlead.errors import ScopeError

    try:
        step()
    except (ScopeError, FilterError):
        return False
    return True


def _ask(bus: Bus, row: PatternRow) -> Any:
    about = fair.parse(row.text) if row.choice else row.text
    since = None if row.since == BEGINNING else Instant(row.since)
    return bus.detect(about, subscriber=row.subscriber, id=row.id, since=since)


def on_a_bus(
    text: str,
    changes: list[str],
    rows: list[PatternRow],
    wanted: list[dict[str, Any]],
    events: list[Notification],
) -> list[Row]:
    bus = Bus(scopes=Scopes.parse(text), order="ordered", lateness_us=10**9)
    for change in changes:
        bus.scopes.apply(parse_statements(change))
    handles = {row.subscriber: _ask(bus, row) for row in rows}
    handles |= {
        each["subscriber"]: bus.subscribe(each["filter"], subscriber=each["subscriber"], id=each["id"])
        for each in wanted
    }
    for event in events:
        bus.publish(event)
    bus.close()
    found = []
    for name, handle in handles.items():
        for _ in range(len(handle)):
            each = handle.get_delivery(0)
            key = (each.key.time, each.key.producer, each.key.id)
            found.append((name, *key, each.version, each.subscriptions, encode(each.notification)))
    return found


def composites_in(found: list[Row]) -> list[Row]:
    return sorted(row for row in found if row[2] in ("patterns", "fair"))


def stream_of(events: list[Notification]) -> pa.Table:
    rows = [
        {
            "time": (each.time or Instant(0)).microseconds,
            "producer": each.producer,
            "id": each.id,
            "event_time": None if each.time is None else each.time.microseconds,
            "record": encode(each),
        }
        for each in events
    ]
    return pa.Table.from_pylist(rows, schema=detection._STREAM)


def in_batches(
    scopes: ScopeText,
    rows: list[PatternRow],
    compiled: Subscriptions,
    events: list[Notification],
    cuts: list[int],
) -> list[Row]:
    patterns = Patterns(tuple(sorted(rows)), apart=True)
    state, since = PROGRESS_SCHEMA.empty_table(), BEGINNING
    found: list[Row] = []
    for bound in [*cuts, END]:
        part = [each for each in events if each.time and since <= each.time.microseconds < bound]
        beside = Beside(scopes, (compiled,), since)
        made = detected_here(stream_of(part), patterns, state, bound, 2, beside)
        for row in made.filter(made.column("automaton").is_null()).to_pylist():
            for each in row["receivers"]:
                key = (row["time"], row["producer"], row["id"])
                ids = tuple(each["subscriptions"])
                found.append((each["subscriber"], *key, row["version"], ids, row["record"]))
        state = made.filter(made.column("automaton").is_valid()).select(PROGRESS_SCHEMA.names)
        since = bound
    return sorted(found)


@given(graphs(mappings=True, abstract=False), st.data(), subscriptions())
@settings(max_examples=settings.default.max_examples // 5)
def test_composites_are_those_of_the_ordered_bus_for_each_component(
    graph: ScopeGraph, data: st.DataObject, asked: dict[str, dict[str, Filter]]
) -> None:
    events = [data.draw(publications(number)) for number in range(1, 9)]
    drawn = data.draw(
        st.lists(
            st.tuples(st.sampled_from(COMPONENTS[:4]), st.sampled_from([*PATTERNS, *PATTERNS, *FAIR])),
            min_size=1,
            max_size=5,
        )
    )
    rows = [
        PatternRow(
            f"p{number}",
            name,
            text,
            data.draw(st.sampled_from([BEGINNING, BEGINNING, 3])),
            choice=chosen(text),
        )
        for number, (name, text) in enumerate(drawn)
    ]
    text = print_statements(statements_of(graph))
    changes, rows = accepted(
        text, data.draw(st.lists(st.sampled_from(CHANGES), max_size=2, unique=True)), rows
    )
    wanted = [
        {"id": f"{name}/{id}", "subscriber": name, "filter": str(filter)}
        for name, filters in asked.items()
        for id, filter in filters.items()
    ]
    cuts = sorted(data.draw(st.sets(st.integers(2, 12), max_size=2)))
    scopes = ScopeText.of(Scopes.parse("\n".join([text, *changes])))
    with TemporaryDirectory() as directory:
        compiled = Subscriptions.read(wanted, directory)
        right = composites_in(on_a_bus(text, changes, rows, wanted, events))
        assert in_batches(scopes, rows, compiled, events, cuts) == right


def chosen(text: str) -> str:
    return "first received" if text in FAIR else ""


# -- one graph, and its mutants --------------------------------------------------------------------------------

GRAPH = """
DEFINE SCOPE Market AS ALL FROM Desk, Floor, watcher
DEFINE SCOPE Desk AS ALL FROM ada, bob INTERFACES INPUT(1), OUTPUT(x > 0 or type = "pair")
  MAP OUTWARD { usd = x * 1.25, DROP x, via = "desk" } MAP INWARD { BLOCK WHERE usd = 5 }
DEFINE SCOPE Floor AS ALL FROM dan, eve, fay INTERFACES INPUT(1), OUTPUT(1)
DEFINE SCOPE Inside AS ALL FROM ada, jo
DEFINE SCOPE Held AS ALL FROM eve, hal INTERFACES INPUT(1), OUTPUT(1)
"""
TIMED = ["JOIN zoe TO Desk SINCE 12", "LEAVE bob FROM Desk SINCE 25", "DROP SCOPE Held SINCE 20"]
ASKED = [
    ("bob", "pair: [exists x or exists usd] as p followed by [exists x or exists usd] as q within 9 us"),
    ("eve", "pair: [exists x or exists usd] as p followed by [exists x or exists usd] as q within 9 us"),
    ("dan", "pair: [exists x or exists usd] as p followed by [exists x or exists usd] as q within 9 us"),
    ("jo", "[exists x] as p followed by [exists x] as q within 9 us"),
    ("watcher", "[exists x or exists usd] as p followed by [exists usd] as q within 9 us"),
    ("fay", '2 or more [type = "pair"] as s followed by [exists y] within 20 us'),
    ("zoe", '[type = "pair"] as s followed by [exists x] as q within 20 us'),
    ("watcher", "A.x <= B.x"),
    ("fay", "joint: A.x <= B.x"),
    ("hal", '[change = "destroyed"] as s followed by [exists y] within 20 us'),
]


def fixed() -> tuple[list[PatternRow], list[dict[str, Any]], list[Notification]]:
    rows = [
        PatternRow(f"p{number}", name, text, choice=chosen(text)) for number, (name, text) in enumerate(ASKED)
    ]
    wanted = [
        {"id": f"s-{name}", "subscriber": name, "filter": 'type = "pair"'}
        for name in ("ada", "bob", "hal", "jo", "watcher", "zoe", "stranger")
    ]
    producers = ("ada", "eve", "hal", "bob", "jo", "stranger")
    events = [
        Notification.of(
            {
                "id": str(n),
                "producer": producers[n % 6],
                "time": Instant(n),
                "type": "AB"[n % 2],
                "x": n % 4,
                "y": n % 2,
            }
        )
        for n in range(1, 40)
    ]
    return rows, wanted, events


def in_fixed_batches() -> list[Row]:
    rows, wanted, events = fixed()
    with TemporaryDirectory() as directory:
        compiled = Subscriptions.read(wanted, directory)
        scopes = ScopeText.of(Scopes.parse("\n".join([GRAPH, *TIMED])))
        return in_batches(scopes, rows, compiled, events, [11, 22])


@pytest.fixture(scope="module")
def rightly() -> list[Row]:
    rows, wanted, events = fixed()
    return composites_in(on_a_bus(GRAPH, TIMED, rows, wanted, events))


def test_the_fixed_graph_has_composites_of_versions_for_many(rightly: list[Row]) -> None:
    assert {row[0] for row in rightly} >= {"ada", "bob", "jo", "watcher", "fay", "zoe", "hal"}
    assert any(row[4] for row in rightly)  # a composite is mapped at a border
    assert any('"version"' in row[6] for row in rightly)  # and made of what was mapped
    assert in_fixed_batches() == rightly


def patterns_see_everything(patch: pytest.MonkeyPatch) -> None:
    sees = detection._Compiled._sees
    patch.setattr(detection._Compiled, "_sees", lambda *a: sees(*a) | True)


def composites_go_to_everybody(patch: pytest.MonkeyPatch) -> None:
    def everywhere(plan: Any, version: Any, key: Any, origins: Any, matched: Any) -> Any:
        found = sights(plan, version, key, origins, matched)
        return [found[0]._replace(components=sorted(matched(version))), *found[1:]]

    sights = stages._sights
    patch.setattr(stages, "_sights", everywhere)


def versions_have_the_id_of_what_was_published(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stages, "as_version", lambda version, _: version)


def composites_come_from_the_first_who_asked(patch: pytest.MonkeyPatch) -> None:
    sights = stages._sights
    patch.setattr(stages, "_sights", lambda *given: sights(*given[:3], [*given[3]][:1], given[4]))


def notices_are_not_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stages.Watching, "notices", lambda *_: iter(()))


def matches_of_all_components_are_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Patterns, "_whose", lambda *_: "")


def composites_are_not_merged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stages, "_merged", iter)


def those_who_are_absent_now_are_judged_by_todays_graph(patch: pytest.MonkeyPatch) -> None:
    plan_at = stages.Running.plan_at
    patch.setattr(stages.Running, "plan_at", lambda self, _: plan_at(self, None))


MUTANTS = (
    patterns_see_everything,
    composites_go_to_everybody,
    versions_have_the_id_of_what_was_published,
    composites_come_from_the_first_who_asked,
    notices_are_not_seen,
    matches_of_all_components_are_one,
    composites_are_not_merged,
    those_who_are_absent_now_are_judged_by_todays_graph,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.__name__)
def test_a_mutant_finds_something_else(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, rightly: list[Row]
) -> None:
    detection._LEVELS.clear()
    mutant(monkeypatch)
    try:
        assert in_fixed_batches() != rightly
    finally:
        detection._LEVELS.clear()


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER SCOPE Floor DELIVERY POLICY ONE",
        "ALTER SCOPE Floor TRAVERSE TOP DOWN",
        "ALTER SCOPE Floor UPDATE ON pub(n : x = 1) DO JOIN zoe TO Floor",
    ],
)
def test_policies_and_rules_beside_patterns_are_refused_also_as_changes(statement: str) -> None:
    scopes = ScopeText.of(Scopes.parse(f"{GRAPH}\n{statement}"))
    with pytest.raises(PipelineError, match="policies and rules beside patterns are not for batches"):
        check_patterns(scopes.opened)
    changed = ScopeText.of(Scopes.parse(GRAPH)).changed("", [("file", statement)], 5, has_patterns=True)
    assert [each.reason for each in changed.rejections] == [
        "policies and rules beside patterns are not for batches; a bus has them"
    ]
    assert not changed.changes


# -- whole pipelines -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("files", [1, 3, 0])
def test_a_pipeline_delivers_composites_as_the_ordered_bus_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    """In one batch, in batches of a stream, a file each, and in one batch by jobs of Spark's (0)."""
    from fairlead.spark.batch import Batch
    from fairlead.spark.running import Pipeline

    if not files:
        monkeypatch.setattr("fairlead.spark.small.collected", lambda *_: None)
        monkeypatch.setattr(Batch, "has_few", lambda *_: False)
    rows, wanted, events = fixed()
    right = on_a_bus(GRAPH, TIMED, rows, wanted, events)
    (tmp_path / "events").mkdir()
    size = -(-len(events) // (files or 1))
    for number in range(files or 1):
        path = tmp_path / "events" / f"{number}.jsonl"
        part = events[number * size : (number + 1) * size]
        path.write_text("".join(f"{encode(each)}\n" for each in part))
        os.utime(path, (number, number))
    asked = [
        {"id": row.id, "subscriber": row.subscriber, "fair" if row.choice else "pattern": row.text}
        for row in rows
    ]
    for name, lines in (("subscriptions", wanted), ("patterns", asked)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    (tmp_path / "market.scopes").write_text("\n".join([GRAPH, *TIMED]))
    stream = {"mode": "stream", "order": {"final": True}, "stream": {"available": True, "max_files": 1}}
    config = Config.of(
        {
            "name": "test",
            **(stream if files > 1 else {}),
            "output": str(tmp_path / "out"),
            "events": {"path": str(tmp_path / "events"), "format": "json"},
            "subscriptions": {"path": str(tmp_path / "subscriptions.jsonl")},
            "patterns": {"path": str(tmp_path / "patterns.jsonl")},
            "scopes": {"path": str(tmp_path / "market.scopes")},
            "deliveries": {"payload": True},
            "audit": {"trace": True},
        }
    )
    summary = Pipeline(config, spark).run()
    found = spark.read.parquet(str(tmp_path / "out" / "deliveries")).collect()
    got = [
        (row.subscriber, row.time, row.producer, row.id, row.version, tuple(row.subscriptions), row.record)
        for row in found
    ]
    assert sorted(got) == sorted(right)
    assert summary.composites == len({row[3] for row in composites_in(right)})
    trace = [event for _, event in parquet.read(str(tmp_path / "out" / "trace"))]
    report = audit([each for each in trace if not isinstance(each, Rejection)])
    assert report.verdict is Verdict.HOLDS
