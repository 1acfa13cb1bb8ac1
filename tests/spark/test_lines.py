"""Lines over columns against one detector: the same composites to the byte, however rows are brought together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from fairlead.correlation.patterns import Detector, Occurrence
from fairlead.correlation.patterns.lines import line_of
from fairlead.matching.brute import Brute
from fairlead.model import Instant, Notification
from fairlead.model.order import BEGINNING, END, OrderKey, order_keys
from fairlead.spark import lines as module
from fairlead.spark.detection import LINE_ROWS, Detecting, Level, Lines, Router, _compiled
from fairlead.spark.frames import encode, notifications_in
from fairlead.spark.lines import LineGroup, types_taken
from fairlead.spark.patterns import PatternRow, Patterns

TEXTS = (
    "A followed by B within 9 us",
    "named: A followed by B without C, giving n = B.x",
    "A followed by 1 or more B followed by C within 20 us, taking one for each start",
    "A[x > 1] followed by B followed by C, taking all matches",
    "exactly 2 A followed by C, taking all matches, limit 1",
    "A then no B within 5 us",
    "quiet: A followed by B then no C within 7 us within 15 us",
    "A then B before 4 us pass",
    "A followed by B, B.x > A.x",
    "A followed by B followed by C, B.x >= A.x and C.y != A.y, taking one for each start",
    "A followed by B, A.s < B.s",
    "A followed by B, B.x > A.y",
)
Row = dict[str, Any]


def events(rng: Random, size: int) -> list[Notification]:
    """Points, several of them at one instant; now and then something is missing."""
    made, time = [], 0
    for number in range(size):
        time += rng.choice((0, 0, 1, 1, 2, 4))
        fields: Row = {"type": rng.choice("AABBCD"), "x": rng.randrange(4), "y": rng.random()}
        fields |= {"s": rng.choice("ab"), "k": rng.choice((0, 1, 2)), "r": rng.choice(("p", "q", "é"))}
        for name in ("x", "y", "s", "k", "type"):
            if rng.random() < 0.05:
                del fields[name]
        envelope = {
            "id": f"{rng.randrange(10**6)}-{number}",
            "producer": rng.choice("uv"),
            "time": Instant(time),
        }
        envelope |= {"sequence": number} if rng.random() < 0.5 else {}
        made.append(Notification.of({**fields, **envelope}))
    return made


def by_one_detector(patterns: Patterns, stream: pa.RecordBatch) -> list[Row]:
    detector = Detector(Brute())
    for number, row in enumerate(patterns.rows):
        detector.add(str(number), patterns.pattern(row), row.since)
    keys = map(
        OrderKey, *(stream.column(name).to_pylist() for name in ("time", "producer", "sequence", "id"))
    )
    for each in map(Occurrence.of, notifications_in(stream), keys):
        detector.feed(each)
    found = []
    for each in detector.advance(END):
        rows = [patterns.rows[int(id)] for id in each.ids]
        if asked := sorted(row.id for row in rows if row.until > each.composite.end):
            told = each.composite.notification()
            found.append(
                {"id": told.id, "record": encode(told), "patterns": asked, "end": each.composite.end}
            )
    return sorted(found, key=lambda row: (row["id"], row["patterns"]))


def columns(given: Sequence[Notification]) -> pa.RecordBatch:
    """Notifications as the rows of a stream, in any order, with typed columns."""
    keys = order_keys(given)
    names = {"type": pa.string(), "x": pa.int64(), "y": pa.float64(), "s": pa.string(), "k": pa.int64()}
    attributes = pa.RecordBatch.from_pylist(
        [{name: each.get(name, None) for name in (*names, "r")} for each in given],
        pa.schema([*names.items(), ("r", pa.string())]),
    )
    return pa.RecordBatch.from_pydict(
        {
            "time": pa.array([key.time for key in keys], pa.int64()),
            "start": pa.nulls(len(given), pa.int64()),
            "producer": [each.producer for each in given],
            "pattern": pa.nulls(len(given), pa.string()),
            "sequence": pa.array([key.sequence for key in keys], pa.int64()),
            "id": pa.array([key.id for key in keys], pa.string()),
            "event_time": pa.array([each.time and each.time.microseconds for each in given], pa.int64()),
            "attributes": attributes.to_struct_array(),
        }
    )


def cut(table: pa.Table, rng: Random) -> list[pa.RecordBatch]:
    return table.combine_chunks().to_batches(max_chunksize=rng.choice((3, 7, 1000)))


def told(batches: Iterable[pa.RecordBatch], *, payload: bool) -> list[Row]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    shown = [
        {"id": row["id"], "record": row["record"], "patterns": [each["id"] for each in row["patterns"]]}
        | {"end": row["time"]}
        for row in rows
    ]
    for row in rows:
        assert row["interval"] == {"start": row["rank"]["start"], "end": row["time"]}
        assert row["rank"]["id"] == row["id"]
        assert row["rank"]["pattern"] == row["pattern"]
        assert all(each["time"] <= row["time"] for each in row["constituents"])
    return sorted(shown, key=lambda row: (row["id"], row["patterns"]))


@pytest.mark.parametrize("seed", range(60))
def test_over_columns_the_composites_are_those_of_one_detector(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(seed)
    monkeypatch.setattr(module, "ROWS", rng.choice((5, 1000)))
    monkeypatch.setattr(module, "LONG", rng.choice((40, 8000)))
    same = rng.choice((", same k", ", same r", ", same k and r", ""))
    patterns = Patterns()
    for number, text in enumerate(rng.sample(TEXTS, rng.randint(1, 5))):
        body, *rest = text.split(", ", 1)
        whole = body + same + (", " + rest[0] if rest else "")
        since = rng.choice((BEGINNING, BEGINNING, 20))
        row = PatternRow(f"p{number}", "u", whole, since, rng.choice((END, END, END, 60)))
        patterns = Patterns((*patterns.rows, row))
        assert line_of(patterns.pattern(row)) is not None
    given = columns(events(rng, rng.choice((1, 30, 90))))
    wanted = by_one_detector(patterns, given)
    given = given.take(pa.array(rng.sample(range(given.num_rows), given.num_rows), pa.int64()))
    level, payload = Level(patterns, 0, 2), rng.choice((True, False))
    if not payload:
        wanted = [{**row, "record": None} for row in wanted]
    batches = cut(pa.Table.from_batches([given]), rng)
    routed = pa.Table.from_batches(list(Router(level)(batches)))
    by_key = routed.sort_by([(name, "ascending") for name in ("group", "key", "time", "follows")])
    found = list(Detecting(level, END, payload)(cut(by_key, rng)))
    assert [
        {**row, "record": row["record"] if payload else None} for row in told(found, payload=payload)
    ] == wanted
    if same and len(_compiled(level).groups) == 1:
        table = pa.Table.from_batches([given])
        names = [name.strip() for name in same.removeprefix(", same ").split(" and ")]
        for name in names:
            table = table.append_column(f"_{name}", table.column("attributes").combine_chunks().field(name))
            table = table.filter(table.column(f"_{name}").is_valid())
        types = types_taken(level.automata)
        assert types is not None
        assert types <= set("ABC")
        ordered = table.sort_by([*((f"_{name}", "ascending") for name in names), ("time", "ascending")])
        content = ordered.column("attributes").combine_chunks()
        attributes = [field.name for field in content.type]
        sent = ordered.select(LINE_ROWS)
        for number, name in enumerate(attributes):
            sent = sent.append_column(f"attribute{number}", content.field(name))
        directly = list(Lines(Detecting(level, END, payload), tuple(attributes))(cut(sent, rng)))
        assert [
            {**row, "record": row["record"] if payload else None} for row in told(directly, payload=payload)
        ] == wanted


def test_lines_are_a_group_of_their_own() -> None:
    rows = ("A followed by B, same k", "A or B, same k", "A followed by B followed by C, same k")
    patterns = Patterns(tuple(PatternRow(f"p{at}", "u", text) for at, text in enumerate(rows)))
    groups = _compiled(Level(patterns, 0, 2)).groups
    assert sorted((type(group) is LineGroup, len(group.names)) for group in groups) == [(False, 1), (True, 2)]
