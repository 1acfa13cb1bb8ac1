"""Rows that come through files are those that the door makes here, or none where there are too many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from fairlead.spark import nearby, sources
from fairlead.spark.doors import TextDoor
from fairlead.spark.nearby import Leaving, Limits, is_nearby, memory_of_machine, rows_nearby

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = ("broken", "", '{"id": 1, "id": 2, "time": 10}', '{"id": "é", "time": 3}')
DOOR = TextDoor("json")


def records(directory: Path) -> list[str]:
    """Files of JSON lines, among them some that no scan is sure of; all of their lines."""
    directory.mkdir()
    lines = [json.dumps({"id": f"e{at}", "time": at, "x": at % 3}) for at in range(90)]
    lines[20:20] = lines[50:50] = ODD
    for number in range(3):
        some = lines[number * 33 : number * 33 + 33]
        (directory / f"{number}.jsonl").write_text("\n".join(some), encoding="utf-8")
    return lines


def test_rows_through_files_are_those_of_the_door(spark: SparkSession, tmp_path: Path) -> None:
    lines = records(tmp_path / "events")
    raw = sources.read(spark, sources.Input(path=str(tmp_path / "events"), format="json"))
    content = raw.selectExpr("cast(value as binary) as value", "* except (value)")
    found = rows_nearby(content, DOOR, Limits(1_000, 1 << 20))
    assert found is not None
    here = list(DOOR(content.toArrow().to_batches()))
    rows, wanted = (sorted(map(repr, pa.Table.from_batches(each).to_pylist())) for each in (found, here))
    assert rows == wanted
    assert len(rows) == len(lines)


@pytest.mark.parametrize("limits", [Limits(97, 1 << 20), Limits(1_000, 3_000)], ids=["rows", "bytes"])
def test_too_many_rows_or_bytes_do_not_come(spark: SparkSession, tmp_path: Path, limits: Limits) -> None:
    records(tmp_path / "events")
    raw = sources.read(spark, sources.Input(path=str(tmp_path / "events"), format="json"))
    content = raw.selectExpr("cast(value as binary) as value", "* except (value)")
    assert rows_nearby(content, DOOR, limits) is None
    assert rows_nearby(content, DOOR, Limits(98, 1 << 20)) is not None


def test_a_task_stops_beyond_the_limit(tmp_path: Path) -> None:
    taken = []

    def batches() -> object:
        for number in range(9):
            taken.append(number)
            texts = [json.dumps({"id": f"{number}-{at}", "time": at}).encode() for at in range(10)]
            yield pa.record_batch({"value": pa.array(texts, pa.binary())})

    [left] = Leaving(DOOR, str(tmp_path), Limits(25, 1 << 20))(batches())  # type: ignore[arg-type]
    assert left.column("rows").to_pylist() == [30]
    assert len(taken) < 9


@pytest.mark.parametrize(("said", "most"), [("4096\n", 4096), ("max\n", None), (None, None)])
def test_a_container_has_the_memory_that_its_group_says(
    tmp_path: Path, said: str | None, most: int | None
) -> None:
    group = tmp_path / "memory.max"
    whole = memory_of_machine(group)
    if said is not None:
        group.write_text(said)
    assert memory_of_machine(group) == (whole if most is None else most)


def test_rows_come_through_files_only_with_room_for_them(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for memory, expected in ((nearby.MEMORY_MIN, True), (nearby.MEMORY_MIN - 1, False)):
        monkeypatch.setattr(nearby, "memory_of_machine", lambda memory=memory: memory)
        assert is_nearby(spark) is expected
