"""Fair subscriptions over columns against those over objects: the same relations, to the byte."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from fairlead.correlation.fair import Choice
from fairlead.model.order import END
from fairlead.spark.detection import FOLLOWS, Detecting, Level, Router
from fairlead.spark.patterns import PatternRow, Patterns
from fairlead.spark.relations import RelationGroup

TEXTS = (
    "A.x < B.y",
    "A.x < B.y and B.x > C.x",
    "A.x < B.x and B.x < C.y and C.x > D.x",
    "A.s = B.s and B.x <= C.x",
    "A.x < 3 and D",
    "A.x < B.x or C.y > D.y",
    "A.s != D.s and A.x = D.x",
    "A.z < B.x",
)
UNLIKE = ("A[1].x < A[2].x", "named: A.x < B.x", "A.s < B.s", "A.x < A.y and B")
"""Subscriptions beyond trees of public types: objects are made, as for comparisons of strings or of one
event's attributes."""


def events(rng: Random, size: int) -> pa.RecordBatch:
    """Events in no order, several of them at one instant; now and then something is missing."""
    rows, time = [], 0
    for number in range(size):
        time += rng.choice((0, 0, 1, 2))
        fields: dict[str, Any] = {"type": rng.choice("AABBCD"), "x": rng.randrange(6), "y": rng.random() * 6}
        fields["s"] = rng.choice("ab")
        for name in ("x", "y", "s", "type"):
            if rng.random() < 0.05:
                fields[name] = None
        rows.append(
            {
                "time": time,
                "start": None,
                "producer": rng.choice("uv"),
                "pattern": None,
                "sequence": number if rng.random() < 0.5 else None,
                "id": f"{rng.randrange(10**6)}-{number}",
                "event_time": time if rng.random() < 0.9 else None,
                "attributes": fields,
            }
        )
    rng.shuffle(rows)
    attributes = pa.struct(
        [("type", pa.string()), ("x", pa.int64()), ("y", pa.float64()), ("s", pa.string())]
    )
    whole, text = pa.int64(), pa.string()
    types = (whole, whole, text, text, whole, text, whole, attributes)
    return pa.RecordBatch.from_pylist(rows, pa.schema(zip(rows[0], types, strict=True)))


def found(texts: list[str], stream: pa.RecordBatch, rng: Random, *, payload: bool) -> list[dict[str, Any]]:
    choices = [each.value for each in Choice]
    patterns = Patterns(
        tuple(
            PatternRow(f"f{at}", f"s{at % 2}", text, choice=choices[at % 2]) for at, text in enumerate(texts)
        )
    )
    level = Level(patterns, 0, rng.choice((1, 3)))
    routed = pa.Table.from_batches(list(Router(level)([stream])))
    placed = routed.sort_by([(name, "ascending") for name in ("group", "key", "time", FOLLOWS)])
    batches = placed.combine_chunks().to_batches(max_chunksize=rng.choice((3, 1000)))
    rows = [row for batch in Detecting(level, END, payload)(batches) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["pattern"], row["rank"]["number"] or 0, row["id"]))


@pytest.mark.parametrize("seed", range(12))
def test_relations_over_columns_are_those_over_objects(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    stream = events(rng, rng.choice((1, 40, 200)))
    texts = rng.sample(TEXTS, rng.randrange(1, 5)) + (rng.sample(UNLIKE, 1) if seed % 4 == 0 else [])
    over_columns = found(texts, stream, Random(seed), payload=False)
    with monkeypatch.context() as patch:
        patch.setattr(RelationGroup, "accepts", lambda self, batch: False)
        assert over_columns == found(texts, stream, Random(seed), payload=False)
        whole = found(texts, stream, Random(seed), payload=True)
    assert found(texts, stream, Random(seed), payload=True) == whole
    assert [row["id"] for row in whole] == [row["id"] for row in over_columns]


def test_plain_columns_become_no_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(*_: object) -> None:
        raise AssertionError("rows became objects")

    stream = events(Random(1), 3_000)
    monkeypatch.setattr("fairlead.spark.detection._rows_of", unwanted)
    assert len(found(list(TEXTS), stream, Random(1), payload=False)) > 1_000
