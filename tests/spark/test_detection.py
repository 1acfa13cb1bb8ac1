"""Detection on Spark finds what one detector finds: in its operators, and through the whole pipeline.

What Spark itself does between the operators, a shuffle and a sort, is done by hand here, so that many examples are
cheap; `test_detection_pipeline.py` has the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.correlation.fair import Choice, Subscription
from fairlead.correlation.patterns import Detector, Occurrence, Pattern, render
from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.correlation.queries import QuerySet
from fairlead.errors import FilterError, PipelineError
from fairlead.matching.brute import Brute
from fairlead.matching.columnar.arrow import notification_at
from fairlead.model import Instant, Notification
from fairlead.model.order import BEGINNING, END, OrderKey, order_keys
from fairlead.spark import groups
from fairlead.spark.asking import check_ids
from fairlead.spark.detection import PROGRESS, STREAM, AtOnce, Begun, Detecting, Level, Placer, Router
from fairlead.spark.frames import encode, notifications_in
from fairlead.spark.patterns import Correlation, PatternRow, Patterns
from fairlead.spark.subscriptions import Subscriptions, SubscriptionsInput
from fairlead_lab.testing import fair as fair_made
from fairlead_lab.testing import patterns as made

Row = dict[str, Any]
TOGETHER = {"group": "int", "key": "bigint", "follows": "boolean", **STREAM, **PROGRESS}
"""The columns of what comes together for a key."""
RICH = (
    "spike: A followed by B within 9 us, same k",
    "spike: [x > 2] as big, giving size = big.x",
    "2 or more C as c followed by D within 20 us, same k, taking all matches, with partial matches",
    "any order of A, B and C within 12 us, taking the first",
    "A then no B within 7 us, same k and y",
    'wave: [type = "spike"] as s followed by A within 9 us',
    '2 or more [type = "spike" or type = "wave"] as s followed by [x > 1] as b within 20 us, same k',
    '[type in {"wave", "B"}] as w then no [type = "spike"] within 5 us',
    "A as a among (A or B) followed by B as b, b.x >= prev(b.x), same k, giving older = prev(a.x, 2)",
    "steep: [x > 0] as up among [true], up.x > prev(up.x), prev(up.time) >= up.time - 5 us",
    "[true] as one followed by [true] as other, one is first, other.x != one.x, same k, giving n = prev(other.n)",
    "calm: (A unless C within 6 us before) followed by B as b, same k, leaving out b",
)
"""Patterns that find something in most streams, that look back, and patterns over the composites of others."""
FAIR = ("A.x <= B.x", "A[2].x != A[1].k or B and A.k = C.k", "spike and D", "C[2] and spike[1].size > B.x")
"""Fair subscriptions that find something in most streams, two of them in what patterns have found."""
NAMED = (
    "pair: A.x <= B.x",
    "pair: A.x <= B.x or C",
    "joint: A.x <= B.x",
    "joint: pair and D or spike[2]",
    "joint.number >= pair.number or wave",
    "wave: joint[2] or pair and spike",
)
"""Fair subscriptions with names, over one another's relations and what patterns have found."""
OVER = (
    "wave: pair followed by C within 9 us",
    '2 or more [type = "pair" or type = "joint"] as p followed by A within 20 us',
    "spike: joint then no B within 3 us",
)
"""Patterns over relations."""


def table_of(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> pa.RecordBatch:
    types = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "boolean": pa.bool_()}
    arrays = [pa.array([row.get(name) for row in rows], types[columns[name]]) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


class Shuffling:
    """What Spark does with the operators of `detected`, batch by batch, in whatever number of partitions."""

    def __init__(self, partitions: int, rng: Random) -> None:
        self.partitions, self._rng = partitions, rng
        self.state: list[Row] = []

    def detected(self, patterns: Patterns, stream: list[Row], bound: int) -> list[Row]:
        composites: list[Row] = []
        left: list[Row] = []
        for number in range(len(patterns.levels)):
            level = Level(patterns, number, self.partitions)
            published = (row for row in composites if row["producer"] == PRODUCER or row["is_public"])
            seen = stream + [{**row, "start": row["rank"]["start"]} for row in published]
            if self._rng.random() < 0.3:
                found = list(self._at_once(Detecting(level, bound), seen))
                composites += [row for row in found if row["automaton"] is None]
                left += [row for row in found if row["automaton"] is not None]
                continue
            routed = [*self._through(Router(level), seen, STREAM)]
            routed += self._through(Placer(level), self.state, PROGRESS)
            found = []
            for partition in self._shuffled(routed):
                found += self._rows(Detecting(level, bound)(self._batches(partition, TOGETHER)))
            composites += [row for row in found if row["automaton"] is None]
            left += [row for row in found if row["automaton"] is not None]
        self.state = left
        return composites

    def _at_once(self, detecting: Detecting, seen: list[Row]) -> Iterator[Row]:
        """What is done with few rows."""
        rows = [{name: row.get(name) for name in STREAM} for row in seen] + self.state
        return self._through(AtOnce(detecting), rows, {**STREAM, **PROGRESS})

    def _through(self, operator: Any, rows: list[Row], columns: Mapping[str, str]) -> Iterator[Row]:
        return self._rows(operator(self._batches(self._rng.sample(rows, len(rows)), columns)))

    def _shuffled(self, rows: list[Row]) -> list[list[Row]]:
        partitions: list[list[Row]] = [[] for _ in range(self.partitions)]
        for row in rows:
            partitions[hash((row["group"], row["key"])) % self.partitions].append(row)
        return [sorted(each, key=_place) for each in partitions]

    def _batches(self, rows: list[Row], columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        step = self._rng.randint(1, 5)
        for start in range(0, len(rows), step):
            yield table_of(rows[start : start + step], columns)

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
        for batch in batches:
            yield from batch.to_pylist()


def _place(row: Row) -> tuple[int, int, bool, int, bool]:
    """As Spark sorts: what has no time comes first."""
    time = row.get("time")
    return row["group"], row["key"], time is not None, time or 0, bool(row["follows"])


def random_stream(rng: Random, most: int = 16) -> list[Notification]:
    """Events of the types and attributes that patterns are made of, in the order of their times."""
    values = (0, 1, 2, 3, 1.5, "a", None, float("nan"))
    times = sorted(rng.randint(0, made.TIME_MAX) for _ in range(rng.randint(5, most)))
    stream = []
    for number, time in enumerate(times):
        fields = {"type": rng.choice(made.TYPES), "k": rng.choice((0, 1, 1.0)), "x": rng.choice(values)}
        fields |= {"y": rng.choice(values)} if rng.random() < 0.8 else {}
        if rng.random() < 0.2:
            fields["interval"] = {"start": Instant(max(time - 5, 0)), "end": Instant(time)}
        named = {"id": str(number), "producer": rng.choice("pq"), "time": Instant(time)}
        stream.append(Notification.of({**fields, **named}))
    return stream


def asked_for(patterns: Sequence[Pattern | str], rng: Random) -> Patterns:
    """Patterns under ids, some from a time on, or up to one; those by which one would see itself are left out."""
    asked = Patterns()
    for number, pattern in enumerate(patterns):
        since = rng.choice((BEGINNING, BEGINNING, BEGINNING, rng.randint(0, 20)))
        until = rng.choice((END, END, END, max(since, 0) + rng.randint(1, 20)))
        text = pattern if isinstance(pattern, str) else render(pattern)
        more = replace(
            asked, rows=(*asked.rows, PatternRow(f"p{number}", f"u{number % 3}", text, since, until))
        )
        try:
            more.levels  # noqa: B018
            asked = more
        except FilterError:
            continue
    return asked


def by_one_detector(patterns: Patterns, stream: Sequence[tuple[OrderKey, Notification]]) -> list[Row]:
    """The definition: one detector for everything, and no pattern beyond its end."""
    detector = Detector(Brute())
    ending = sorted({row.until for row in patterns.rows})
    for number, row in enumerate(patterns.rows):
        detector.add(str(number), patterns.pattern(row), row.since)
    for key, notification in stream:
        detector.feed(Occurrence.of(notification, key))
    found: dict[str, Row] = {}
    for until in [*ending, END]:
        for each in detector.advance(until):
            row = found.setdefault(
                each.composite.id,
                {
                    "time": each.composite.end,
                    "record": encode(each.composite.notification()),
                    "start": each.composite.start,
                    "patterns": set(),
                },
            )
            row["patterns"] |= {patterns.rows[int(id)].id for id in each.ids}
        for number, asked in enumerate(patterns.rows):
            if asked.until == until != END:
                detector.remove(str(number))
    return told(found)


def told(found: Mapping[str, Row]) -> list[Row]:
    return [{**row, "id": id, "patterns": sorted(row["patterns"])} for id, row in sorted(found.items())]


def row_of(key: OrderKey, notification: Notification) -> Row:
    time = None if notification.time is None else notification.time.microseconds
    named = {"producer": key.producer, "sequence": key.sequence, "id": key.id}
    return {"time": key.time, **named, "event_time": time, "record": encode(notification)}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    patterns=st.lists(made.patterns(steps=3, depth=2), min_size=1, max_size=3),
    partitions=st.sampled_from((1, 2, 7)),
    seed=st.integers(0, 2**32),
)
def test_cut_into_batches_and_partitions_the_composites_are_those_of_one_detector(
    monkeypatch: pytest.MonkeyPatch,
    patterns: list[Pattern],
    partitions: int,
    seed: int,
) -> None:
    rng = Random(seed)
    stream = random_stream(rng)
    asked = asked_for([*patterns, *RICH, *rng.sample(RICH, 3)], rng)
    ordered = list(zip(order_keys(stream), stream, strict=True))
    expected = by_one_detector(asked, ordered)

    monkeypatch.setattr(groups, "PORTION", rng.choice((2, 3, 10_000)))
    shuffling = Shuffling(partitions, rng)
    bounds = [*sorted(rng.sample(range(1, made.TIME_MAX + 12), rng.randint(0, 4))), END]
    found: dict[str, Row] = {}
    before = BEGINNING
    for bound in bounds:
        rows = [row_of(key, one) for key, one in ordered if before <= key.time < bound]
        for each in shuffling.detected(asked, rows, bound):
            assert each["id"] not in found
            assert before <= each["time"] < bound
            found[each["id"]] = {
                "time": each["time"],
                "record": each["record"],
                "start": each["interval"]["start"],
                "patterns": {one["id"] for one in each["patterns"]},
            }
        before = bound
    assert told(found) == expected
    assert not shuffling.state, "behind the end nothing is in progress"


def asked_fairly(asked: Patterns, subscriptions: Sequence[Subscription], rng: Random) -> Patterns:
    """Beside patterns fair subscriptions, some of which ask alike, or for parts of the order."""
    for number in range(rng.randint(2, 8)):
        since, until = rng.choice((BEGINNING, BEGINNING, rng.randint(0, 12))), rng.choice((END, END, 20))
        text = str(rng.choice((*subscriptions, *FAIR, *NAMED, *NAMED)))
        choice = rng.choice([each.value for each in Choice])
        row = PatternRow(f"f{number}", f"u{number % 3}", text, since, until, choice)
        more = replace(asked, rows=(*asked.rows, row))
        try:
            more.levels  # noqa: B018
            asked = more
        except FilterError:
            continue
    return asked


def by_standing(patterns: Patterns, stream: Sequence[tuple[OrderKey, Notification]]) -> list[Row]:
    """The definition: all is asked of one order, and answered where it stands."""
    standing, subscribers = QuerySet(Brute), {row.id: row.subscriber for row in patterns.rows}
    for row in patterns.rows:
        standing.add(row.id, patterns.question(row), row.since, row.until)
    return [
        {
            **{name: getattr(each.key, name) for name in ("time", "producer", "sequence", "id")},
            "record": encode(each.notification),
            "patterns": [{"id": id, "subscriber": subscribers[id]} for id in each.ids],
            "is_public": each.is_public,
        }
        for each in standing.results(stream, END)
    ]


def _standing(row: Row) -> list[Any]:
    """Where a row stands, as Spark sorts it: what is null comes first."""
    place = [row["time"], *row["rank"].values(), row["id"]]
    return [(each is not None, each) for each in place]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    subscriptions=st.lists(
        fair_made.subscriptions(
            (*made.TYPES[:3], "spike", "pair"), st.sampled_from(("relation", "relation", "pair", "joint"))
        ),
        min_size=1,
        max_size=3,
    ),
    partitions=st.sampled_from((1, 2, 7)),
    seed=st.integers(0, 2**32),
)
def test_relations_and_composites_are_those_of_one_order_each_where_it_stands(
    subscriptions: list[Subscription], partitions: int, seed: int
) -> None:
    rng = Random(seed)
    stream = random_stream(rng, most=40)
    some = [*RICH[:2], *rng.sample(RICH, 2), *rng.sample(OVER, 2)] if rng.random() < 0.7 else []
    asked = asked_fairly(asked_for(some, rng), subscriptions, rng)
    ordered = sorted(zip(order_keys(stream), stream, strict=True), key=lambda each: each[0].rank)
    expected = by_standing(asked, ordered)

    shuffling, found, before = Shuffling(partitions, rng), [], BEGINNING
    for bound in [*sorted(rng.sample(range(1, made.TIME_MAX + 12), rng.randint(0, 4))), END]:
        rows = [row_of(key, one) for key, one in ordered if before <= key.time < bound]
        some = shuffling.detected(asked, rows, bound)
        found += sorted(some, key=_standing)
        before = bound
        correlations = [each for level in asked.levels for each in level if isinstance(each, Correlation)]
        ended = [
            each.name for each in correlations if all(asked.rows[row].until <= bound for row in each.rows)
        ]
        assert not {row["automaton"] for row in shuffling.state}.intersection(ended)
    assert [{name: row[name] for name in expected[0]} for row in found] == expected if expected else not found
    for row in found:
        content = json.loads(row["record"])
        start, end = (Instant.parse(content["interval"][name]["$time"]) for name in ("start", "end"))
        assert row["interval"] == {"start": start.microseconds, "end": end.microseconds}
        assert [each["id"] for each in content["constituents"]] == [
            each["id"] for each in row["constituents"]
        ]
    assert not shuffling.state, "behind the end nothing is in progress"


@given(
    places=st.lists(
        st.tuples(
            st.integers(0, 1), st.integers(0, 1), st.integers(0, 9), st.sampled_from((True, False, None))
        ),
        max_size=12,
    ),
    cuts=st.lists(st.integers(1, 4), min_size=12, max_size=12),
)
def test_what_lies_in_no_window_of_what_has_begun_is_left_out(
    places: list[tuple[int, int, int, bool | None]], cuts: list[int]
) -> None:
    windows = (3, groups.ALWAYS)
    names = ("group", "key", "time", "follows")
    rows = [dict(zip(names, each, strict=True)) for each in places]
    rows = [row if row["follows"] is not None else {**row, "time": None} for row in rows]
    rows = [{**row, "id": str(at)} for at, row in enumerate(sorted(rows, key=_place))]

    def concerns_somebody(row: Row) -> bool:
        others = [other for other in rows if (other["group"], other["key"]) == (row["group"], row["key"])]
        if any(other["follows"] is None for other in others):
            return True
        begun = (row["time"] - other["time"] for other in others if not other["follows"])
        return any(0 <= since <= windows[row["group"]] for since in begun)

    columns = {"group": "int", "key": "bigint", "time": "bigint", "follows": "boolean", "id": "string"}
    begun, left, at = Begun(np.array(windows)), [], 0
    for size in cuts:
        left += begun.sift(table_of(rows[at : at + size], columns)).to_pylist()
        at += size
    assert left == [row for row in rows if concerns_somebody(row)]


def test_the_attributes_that_tell_what_is_found_are_those_asked_about() -> None:
    def attributes(*texts: str, **more: str) -> frozenset[str] | None:
        asked = [PatternRow(f"p{number}", "u", text) for number, text in enumerate(texts)]
        return Patterns(
            (*asked, *(PatternRow(id, "u", text, choice="first received") for id, text in more.items()))
        ).attributes

    text = "A[x > 1] as a then no B[n.y = 2] within 5 s, same k and room.id, a.z > 3"
    always = {"interval", "type"}
    assert attributes(text) == always | {"x", "n.y", "k", "room.id", "z"}
    assert attributes("A followed by B as b, giving size = sum(b.w)") == always | {"w"}
    assert attributes(text, fair="A.x < B.x") is None


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32))
def test_typed_columns_are_routed_and_read_as_their_rows_would_be(seed: int) -> None:
    rng = Random(seed)
    size = rng.randint(0, 12)

    def column(*values: Any, type: pa.DataType) -> pa.Array:
        return pa.array([rng.choice((*values, None)) for _ in range(size)], type)

    times = pa.array([rng.randint(0, 50) for _ in range(size)], pa.int64())
    columns = {
        "type": column(*made.TYPES, type=pa.string()),
        "k": column(0, 1, 7, type=pa.int64()),
        "x": column(0.5, 2.5, float("nan"), type=pa.float64()),
        "y": column("a", "b", type=pa.string()),
        "time": times.cast(pa.timestamp("us", tz="UTC")),
        **rng.choice(({}, {"n": column({"deep": 1}, type=pa.struct([("deep", pa.int64())]))})),
    }
    attributes = pa.RecordBatch.from_pydict(columns)
    envelope = {
        "time": times,
        "start": pa.nulls(size, pa.int64()),
        "producer": pa.array(["p"] * size, pa.string()),
        "pattern": pa.nulls(size, pa.string()),
        "sequence": pa.nulls(size, pa.int64()),
        "id": pa.array(map(str, range(size)), pa.string()),
        "event_time": times,
    }
    typed = pa.RecordBatch.from_pydict({**envelope, "attributes": attributes.to_struct_array()})
    rows = notifications_in(typed)
    assert [each.attributes for each in rows] == [
        notification_at(attributes, row).attributes for row in range(size)
    ]
    recorded = pa.RecordBatch.from_pydict({**envelope, "record": pa.array(map(encode, rows), pa.string())})
    texts = (
        "A followed by B, same k",
        "[x > 1] followed by A, same k and y",
        "A followed by [n.deep = 1], same n.deep",
        "A then no B within 5 us",
        "B followed by C, same x",
    )
    level = Level(Patterns.read([{"id": text, "pattern": text} for text in rng.sample(texts, 3)]), 0, 2)

    def routed(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
        found = pa.Table.from_batches(list(Router(level)([batch]))).select(["group", "key", "id"])
        return sorted(map(tuple, (row.values() for row in found.to_pylist())))

    assert routed(typed) == routed(recorded)


# -- the table of patterns -----------------------------------------------------------------------------------


def lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> SubscriptionsInput:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return SubscriptionsInput(str(path))


def test_what_is_wrong_with_patterns_is_one_message_with_the_first_line(tmp_path: Path) -> None:
    rows = [{"id": f"p{number}", "pattern": "A followed by B"} for number in range(7_020)]
    rows[7_011]["pattern"] = "A followed by"
    rows[7_015]["pattern"] = "A folowed by B"
    given = lines(tmp_path / "patterns.jsonl", rows)
    with pytest.raises(PipelineError) as raised:
        Patterns.read(given)
    told = str(raised.value).splitlines()
    assert told[0].startswith(f"{given.path}:7012: column 14: ")
    assert told[-1] == "  and 1 more that cannot be read"


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([{"pattern": "A"}], "patterns:1: a pattern without an id"),
        ([{"id": 1}], "patterns:1: the pattern '1' has no text"),
        ([{"id": 1, "pattern": 7}], "patterns:1: a pattern is a text, not 7"),
        (
            [{"id": 1, "fair": "A", "pattern": "A"}],
            "patterns:1: a row has a pattern or a fair subscription, not both",
        ),
        ([{"id": 1, "fair": 7}], "patterns:1: a fair subscription is a text, not 7"),
        ([{"id": 1, "fair": "A", "choice": []}], "patterns:1: no choice of events: []"),
        (
            [{"id": 1, "pattern": "A", "choice": "most recent"}],
            "patterns:1: a pattern states its selection itself",
        ),
        (
            [{"id": 1, "fair": "A[x]"}],
            "patterns:1: column 3: unexpected x; expected the number of an instance, such as 1",
        ),
        (
            [{"id": 1, "pattern": "A"}, {"id": 1, "fair": "A"}],
            "patterns:2: the id '1' is taken by another pattern, patterns:1",
        ),
        (
            [{"id": 1, "pattern": "A"}, {"id": 1, "pattern": "B"}],
            "patterns:2: the id '1' is taken by another pattern, patterns:1",
        ),
        (
            [{"id": 1, "pattern": 'a: [type = "b"]'}, {"id": 2, "pattern": 'b: [type = "a"]'}],
            "patterns: patterns see their own composites: a ◀ b",
        ),
        (
            [{"id": 1, "pattern": "a: b followed by A"}, {"id": 2, "fair": "b: C or a and B"}],
            "patterns: patterns see their own composites: a ◀ b",
        ),
        ([{"id": 1, "fair": "a: A or a[2]"}], "patterns: patterns see their own composites: a"),
        (
            [{"id": 1, "fair": "composite: A"}],
            "patterns:1: column 1: composite is the type of unnamed detections",
        ),
    ],
)
def test_what_cannot_be_a_pattern_is_refused(rows: list[Row], problem: str) -> None:
    with pytest.raises(PipelineError) as raised:
        Patterns.read(rows)
    assert str(raised.value).splitlines()[0] == problem


def test_patterns_are_read_from_csv_as_from_json(tmp_path: Path) -> None:
    rows = [{"id": "p", "subscriber": "ada", "pattern": "A followed by B, same k", "from": 5, "until": 9}]
    table = tmp_path / "patterns.csv"
    table.write_text('id,subscriber,pattern,from,until\np,ada,"A followed by B, same k",5,9\n')
    read = Patterns.read(SubscriptionsInput(str(table), "csv"))
    assert read == Patterns.read(lines(tmp_path / "patterns.jsonl", rows)) == Patterns.read(rows)
    assert read.rows == (PatternRow("p", "ada", "A followed by B, same k", 5, 9),)
    assert Patterns.restored(read.dump()) == read


def test_a_row_may_have_a_fair_subscription_in_place_of_a_pattern(tmp_path: Path) -> None:
    table = tmp_path / "patterns.csv"
    table.write_text("id,fair,choice,until\np,A.x < B.x,,\nq,A.x < B.x or C,most recent,9\n")
    read = Patterns.read(SubscriptionsInput(str(table), "csv"))
    assert read.rows == (
        PatternRow("p", "p", "A.x < B.x", choice="first received"),
        PatternRow("q", "q", "A.x < B.x or C", until=9, choice="most recent"),
    )
    assert Patterns.restored(read.dump()) == read
    assert [len(level) for level in read.levels] == [3], "each conjunction, by each choice"
    alike = Patterns.read(
        [{"id": n, "fair": text} for n, text in enumerate(("A and C", "C and A or B", "B"))]
    )
    assert [len(each.rows) for level in alike.levels for each in level] == [2, 2]
    named = Patterns.read(
        [
            {"id": n, "fair": text}
            for n, text in enumerate(("A and C", "one: A and C", "two: C and A", "one[2]"))
        ]
    )
    assert [[len(each.rows) for each in level] for level in named.levels] == [[3], [1]], (
        "whatever their names"
    )
    changed = read.changed([{"id": "p", "fair": "A.x < B.x", "choice": "most recent"}, {"id": "q"}], 5)
    assert changed.patterns.rows == (PatternRow("p", "p", "A.x < B.x", 5, choice="most recent"),)


def test_a_change_takes_effect_at_the_watermark_or_later_and_a_bad_one_changes_nothing() -> None:
    before = Patterns.read([{"id": "p", "pattern": "a: A"}, {"id": "q", "pattern": "B", "until": 40}])
    changed = before.changed(
        [
            {"id": "p", "pattern": "a: C", "from": 30},
            {"id": "r", "pattern": "D", "from": 3},
            {"id": "r", "until": 50},
            {"id": "circle", "pattern": 'C: [type = "a"] as it followed by [type = "D"] as d'},
            {"id": "nobody"},
            {"id": "circle", "fair": "C: a and D"},
        ],
        watermark=20,
    )
    assert changed.patterns.rows == (
        PatternRow("p", "p", "a: A", BEGINNING, 30),
        PatternRow("q", "q", "B", BEGINNING, 40),
        PatternRow("p", "p", "a: C", 30),
        PatternRow("r", "r", "D", 20, 50),
    )
    assert [each.line for each in changed.rejections] == [4, 5, 6]
    assert [row.id for row in changed.begun] == ["p", "r"]
    assert changed.cut == (PatternRow("p", "p", "a: A", BEGINNING, 30),)
    assert len(changed.patterns.changed([], watermark=45).patterns) == 2, "what has ended is forgotten"


def test_a_subscription_and_a_pattern_with_one_id_are_refused(tmp_path: Path) -> None:
    subscriptions = Subscriptions.read(
        [{"id": each, "subscriber": "ada", "filter": "x > 1"} for each in ("a", "b", "c")], str(tmp_path)
    )

    def patterns(*ids: str) -> Patterns:
        return Patterns.read([{"id": id, "pattern": "A followed by B"} for id in ids])

    check_ids(subscriptions, patterns("d", "e"))
    with pytest.raises(
        PipelineError, match="the id 'b' and 1 more is that of a subscription and of a pattern"
    ):
        check_ids(subscriptions, patterns("d", "c", "b"))
