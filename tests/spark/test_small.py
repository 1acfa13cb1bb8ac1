"""A small batch is taken in the driver, and what it writes is what jobs of Spark's write, row by row."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from fairlead.spark import small
from fairlead.spark.config import Config
from fairlead.spark.output import CHANNELS
from fairlead.spark.running import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 4
TIMES = ("seconds", "stages", "finished_at")
FILTERS = (
    "x = {}",
    "x > {}",
    'name prefix "n{}"',
    "not exists x or y < {}",
    'tags contains "t{}"',
    "x * y > {}",
)
PATTERNS = (
    {"pattern": "spike: A followed by B within 90 us, same k"},
    {"pattern": "2 or more C as c followed by B within 200 us, same k, taking all matches"},
    {"pattern": "A then no B within 30 us, same k and y"},
    {"pattern": 'wave: [type = "spike"] as s followed by A within 300 us'},
    {"fair": "A.x < B.x"},
    {"fair": "pair: A.x < B.x or C", "choice": "most recent"},
    {"pattern": '[type = "pair"] as p followed by C within 100 us'},
)
FILTERED = """
DEFINE SCOPE World AS ALL FROM Low, High, p2
DEFINE SCOPE Low AS ALL FROM p0, `u0é`, `u1é`, `u2é` INTERFACES INPUT(y < 5), OUTPUT(exists x)
DEFINE SCOPE High AS ALL FROM p1, `u3é`, `u4é`, `u5é`, `u6é` INTERFACES INPUT(1), OUTPUT(name prefix "n")
LEAVE `u1é` FROM Low SINCE 1500
JOIN `u7é` TO High SINCE 1700
"""
SCOPED = (
    FILTERED.replace(
        "OUTPUT(exists x)", "OUTPUT(exists x) MAP OUTWARD { z = y * 2, DROP name } MAP INWARD { DROP k }"
    )
    + """
DEFINE SCOPE Turns AS ALL FROM p2, `u8é`, `u9é` INTERNAL POLICY ONE BY TURN WHEN (y > 2) INTERNAL POLICY DELAY 70us
DROP SCOPE Turns SINCE 1900
"""
)
ODD = (
    "broken",
    "",
    '{"id": 1, "id": 2, "time": 10}',
    '{"producer": "none"',
    '{"id": "huge", "time": 1000000000000000000000}',
    '{"specversion": "1.0", "id": "c1", "source": "/s", "type": "t", "x": 4}',
)


def random_line(rng: Random, at: int) -> str:
    if rng.random() < 0.06:
        return rng.choice(ODD)
    event: dict[str, Any] = {
        "producer": f"p{rng.randint(0, 2)}",
        "time": 1_000 + 5 * at - rng.choice((0, 40, 400)),
    }
    if rng.random() < 0.8:
        event["id"] = rng.choice((f"e{at}", f"e{at - rng.randint(0, 5)}", f'q"\\\t\x1f{at}é'))
    if rng.random() < 0.3:
        event["sequence"] = max(0, at - rng.randint(0, 12))
    if rng.random() < 0.1:
        event["cause"] = f"e{at - rng.randint(1, 9)}"
    some = (
        ("x", rng.choice((1, 2, 3.5, "4"))),
        ("y", at % 7),
        ("k", at % 3),
        ("type", rng.choice("ABC")),
        ("name", f"n{at % 5}"),
        ("tags", ["t1", "t0", "t1"]),
    )
    event |= {name: value for name, value in some if rng.random() < 0.7}
    return json.dumps(event, ensure_ascii=rng.random() < 0.5)


def written_down(directory: Path, rng: Random) -> None:
    (directory / "events").mkdir()
    for file in range(FILES):
        lines = [random_line(rng, at) for at in range(60 * file, 60 * file + 60)]
        path = directory / "events" / f"{file}.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        os.utime(path, (1_000_000 + file, 1_000_000 + file))  # Spark takes files by their times
    rows: list[dict[str, Any]] = []
    for number in range(30):
        filter = rng.choice(FILTERS).format(rng.randint(0, 4))
        rows.append({"id": f"s{number}", "subscriber": f"u{rng.randint(0, 9)}é", "filter": filter})
        if rng.random() < 0.3:
            rows[-1]["from"] = 1_000 + rng.randint(0, 500)
    changes = [
        {"id": "s3", "subscriber": "u1", "filter": "y = 3", "from": 1_200},
        {"id": "s4", "until": 1_300},
        {"id": "s5", "filter": "y ="},
    ]
    (directory / "asked").mkdir()
    write_lines(directory / "asked" / "0.jsonl", rows)
    write_lines(directory / "changes.jsonl", changes)
    patterns = [{"id": f"p{at}", "subscriber": f"u{at % 3}é", **each} for at, each in enumerate(PATTERNS)]
    write_lines(directory / "patterns.jsonl", patterns)


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def run(
    spark: SparkSession,
    directory: Path,
    name: str,
    sink: dict[str, Any],
    may: Callable[[Any], bool],
    *,
    with_patterns: bool = False,
    taken: list[bool] | None = None,
    scopes: str = "",
) -> Path:
    """A stream in batches of one file each, of which those that `may` names may be taken in the driver."""
    output = directory / name
    patterns = {"path": str(directory / "patterns.jsonl")}
    config = Config.of(
        {
            **({"patterns": patterns} if with_patterns else {}),
            **({"scopes": {"path": str(directory / "all.scopes")}} if scopes else {}),
            "name": "small",
            "mode": "stream",
            "output": str(output),
            "events": {"path": str(directory / "events"), "format": "json"},
            "subscriptions": {"path": str(directory / "asked"), "watch": True},
            "order": {"lateness": "60us", "final": True},
            "deliveries": sink,
            "audit": {"trace": True},
            "stream": {"available": True, "max_files": 1},
            "report": False,
        }
    )
    (directory / "asked" / "1.jsonl").unlink(missing_ok=True)
    (directory / "all.scopes").write_text(scopes, encoding="utf-8")

    def change(_: object) -> None:  # what changes behind the first batch is taken in by the second
        (directory / "asked" / "1.jsonl").write_bytes((directory / "changes.jsonl").read_bytes())

    collected = small.collected

    def looked(batch: Any, *given: Any) -> Any:
        found = collected(batch, *given) if may(batch) else None
        if taken is not None:
            taken.append(found is not None)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small, "collected", looked)
        patch.setattr(small, "FILE_ROWS", 40)  # so that buckets have several files
        patch.setattr("fairlead.spark.running.Step.__call__", stepping(change))
        Pipeline(config, spark).run()
    return output


def stepping(behind_first: Callable[[object], None]) -> Callable[..., None]:
    from fairlead.spark.pipeline import Step

    taken = Step.__call__

    def step(self: Step, rows: Any, number: int) -> None:
        taken(self, rows, number)
        if number == 0:
            behind_first(None)

    return step


def table(path: Path) -> list[str]:
    if not path.exists():
        return []
    return list(map(str, ds.dataset(path, format="parquet").to_table().to_pylist()))


def told(output: Path) -> dict[str, Any]:
    """All that a run has left, batch by batch, in the order of the files; states are sets of rows."""
    found: dict[str, Any] = {}
    manifests = sorted((output / "_fairlead" / "manifests").glob("*.json"))
    for manifest in manifests:
        given = json.loads(manifest.read_text())
        found[manifest.name] = {name: value for name, value in given.items() if name not in TIMES}
        for channel in CHANNELS:
            place = output / channel / f"batch={given['batch']:08}"
            if place.exists() and any(place.rglob("*.jsonl")):
                files = sorted(place.rglob("*.jsonl"))
                found[f"{channel} {given['batch']}"] = [
                    (file.parent.name, line) for file in files for line in file.read_text().splitlines()
                ]
            else:
                found[f"{channel} {given['batch']}"] = table(place)
    for state in sorted((output / "_fairlead" / "state").glob("*/*")):
        found[f"{state.parent.name} {state.name}"] = sorted(table(state))
    return {name: rows for name, rows in found.items() if rows}


SEEDS = [pytest.param(seed, marks=() if seed < 1 else pytest.mark.soak) for seed in range(8)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_batch_in_the_driver_writes_what_jobs_write_and_either_may_follow_the_other(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    rng = Random(seed)
    written_down(tmp_path, rng)
    sink = {"format": "json" if seed % 2 else "parquet", "buckets": 3, "payload": seed % 3 != 2}
    asked: list[bool] = []
    patterns = seed % 4 < 2
    driven = told(run(spark, tmp_path, "driver", sink, lambda _: True, with_patterns=patterns, taken=asked))
    assert asked == [True] * (FILES + 1)
    assert {"deliveries 1", "late 1", "rejected 1", "trace 1"} <= driven.keys()
    by_jobs = told(run(spark, tmp_path, "jobs", sink, lambda _: False, with_patterns=patterns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small, "FEW_ROWS", 30)  # jobs detect and read, and the driver does the rest
        halved = told(run(spark, tmp_path, "halved", sink, lambda _: True, with_patterns=patterns))
    mixed = told(run(spark, tmp_path, "mixed", sink, lambda _: rng.random() < 0.5, with_patterns=patterns))
    for name in by_jobs.keys() | driven.keys() | halved.keys() | mixed.keys():
        assert halved.get(name) == by_jobs.get(name), name
        assert driven.get(name) == by_jobs.get(name), name
        assert mixed.get(name) == by_jobs.get(name), name


@pytest.mark.parametrize("scopes", [FILTERED, SCOPED], ids=["filters", "mappings and policies"])
def test_a_scoped_batch_in_the_driver_writes_what_jobs_write(
    spark: SparkSession, tmp_path: Path, scopes: str
) -> None:
    written_down(tmp_path, Random(5))
    sink = {"format": "json" if scopes is FILTERED else "parquet", "buckets": 3}
    asked: list[bool] = []
    driven = told(run(spark, tmp_path, "driver", sink, lambda _: True, taken=asked, scopes=scopes))
    assert asked == [True] * (FILES + 1)
    mixed = told(run(spark, tmp_path, "mixed", sink, lambda batch: batch.number % 2 == 1, scopes=scopes))
    for name in driven.keys() | mixed.keys():
        assert driven.get(name) == mixed.get(name), name
    has_versions = any(
        "'version': '" in row for name, rows in driven.items() for row in rows if "trace" in name
    )
    assert has_versions == (scopes is SCOPED)


def test_what_is_large_or_long_goes_to_jobs(spark: SparkSession, tmp_path: Path) -> None:
    written_down(tmp_path, Random(3))
    limits = [(50, 1 << 28), (50_000, 5_000), (50_000, 1 << 28)]
    taken: list[bool] = []
    with pytest.MonkeyPatch.context() as patch:

        def limit(batch: Any) -> bool:
            rows, size = limits[min(batch.number, 2)]
            patch.setattr(small, "ROWS_MAX", rows)
            patch.setattr(small, "BYTES_MAX", size)
            return True

        run(spark, tmp_path, "large", {"buckets": 1}, limit, taken=taken)
    assert taken[:3] == [False, False, True]
