"""Killed at any moment and started again, a stream's output is, row for row, that of an undisturbed run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest

from fairlead.spark import Pipeline
from fairlead.spark.failures import JVM_GONE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINE = """
name = "killed"
mode = "stream"
output = "{output}"
[events]
path = "events"
format = "json"
[subscriptions]
path = "subscriptions"
watch = true
[order]
lateness = "20ms"
final = true
[deliveries]
{deliveries}
[audit]
trace = true
[stream]
available = true
max_files = 1
[spark]
master = "local[2]"
[spark.settings]
"spark.sql.shuffle.partitions" = "2"
"spark.driver.extraJavaOptions" = "{java}"
{settings}
"""
# A catalog that outlives the session, and knows after a kill what is in the warehouse.
CATALOG = """
"spark.sql.catalogImplementation" = "hive"
"spark.sql.warehouse.dir" = "{place}/warehouse"
"spark.hadoop.javax.jdo.option.ConnectionURL" = "jdbc:derby:;databaseName={place}/metastore;create=true"
"""
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
FILES = 2
DEADLINE_S = 600
DELIVERED = 4
"""To so many subscribers goes what comes again with another time: once each."""


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a pipeline, and the output `whole` of a run that nobody disturbed."""
    directory = tmp_path_factory.mktemp("killed")
    rng = Random(5)
    (directory / "events").mkdir()
    for file in range(FILES):
        events = [
            {"id": number, "producer": f"p{number % 3}", "sequence": number, "time": 1_000 * number}
            | {"x": rng.randint(0, 5)}
            for number in range(100 * file, 100 * file + 100)
        ]
        rng.shuffle(events)
        events.append({"id": "again", "producer": "p", "time": 1_000 * 100 * file, "x": 5})
        if file:  # one that comes too late, and one that comes twice; `again` comes with another time
            events += [{"id": "late", "producer": "p", "time": 1_000, "x": 5}, events[0]]
        path = directory / "events" / f"{file}.jsonl"
        path.write_text("".join(f"{json.dumps(event)}\n" for event in events) + "broken\n")
        os.utime(path, (1_000_000 + file, 1_000_000 + file))  # Spark takes files by their times
    subscriptions = [
        {"id": f"s{number}", "subscriber": f"u{number % 4}", "filter": f"x >= {number % 5}"}
        for number in range(10)
    ]
    changes = [
        {"id": "s1", "subscriber": "u1", "filter": "x = 0", "from": 50_000},
        {"id": "s2", "until": 150_000},
    ]
    (directory / "subscriptions").mkdir()
    for file, asked in (("0.jsonl", subscriptions), ("1.jsonl", changes)):
        (directory / "subscriptions" / file).write_text("".join(f"{json.dumps(row)}\n" for row in asked))
    summary = Pipeline.read(written_down(directory, "whole"), spark).run()
    assert (summary.rejected, summary.late, summary.duplicates) == (FILES, 1, 2)
    return directory


def written_down(directory: Path, output: str, deliveries: str = "", settings: str = "") -> Path:
    path = directory / f"{output}.toml"
    path.write_text(PIPELINE.format(output=output, java=QUICK, deliveries=deliveries, settings=settings))
    return path


def start(directory: Path, output: str, deliveries: str = "", settings: str = "") -> subprocess.Popen[bytes]:
    path = written_down(directory, output, deliveries, settings)
    command = [sys.executable, "-m", "fairlead", "run", str(path)]
    # A group of its own: the Spark that it starts is in it, and dies with it.
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)


def finish(process: subprocess.Popen[bytes]) -> None:
    said, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 3, said.decode()  # done, with rows that were rejected


def written(output: Path) -> int:
    """How much a run has done so far, as its files tell."""
    return sum(len(files) + len(directories) for _, directories, files in os.walk(output))


def kill_when(
    process: subprocess.Popen[bytes], has_come: Callable[[], bool], *, driver_only: bool = False
) -> None:
    """Kill the run at a moment, its Spark included, or its Python alone: then Spark lives on for a while."""
    deadline = time.monotonic() + DEADLINE_S
    while not has_come():
        assert process.poll() is None, (process.communicate()[0] or b"").decode()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    if driver_only:
        os.kill(process.pid, signal.SIGKILL)
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=DEADLINE_S)


def rows(output: Path, channel: str) -> Iterator[str]:
    """All committed rows of a channel as text, in the order of the batches, the buckets and the files."""
    for manifest in sorted((output / "_fairlead" / "manifests").glob("*.json")):
        told = json.loads(manifest.read_text())
        if channel in told["channels"]:
            table = ds.dataset(output / channel / f"batch={told['batch']:08}", format="parquet").to_table()
            yield from map(str, table.to_pylist())


CHANNELS = ("deliveries", "late", "rejected", "trace")
SEEDS = [pytest.param(seed, marks=() if seed < 2 else pytest.mark.soak) for seed in range(20)]


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_kill_at_any_moment_the_output_is_that_of_an_undisturbed_run(
    spark: SparkSession, undisturbed: Path, seed: int
) -> None:
    rng = Random(seed)
    name, output = f"killed{seed}", undisturbed / f"killed{seed}"
    whole = undisturbed / "whole"
    files = rng.randint(1, written(whole) * 4 // 5)
    first = start(undisturbed, name)
    kill_when(first, lambda: written(output) >= files, driver_only=seed % 2 == 1)
    if seed < 2:  # what a run goes on from is all on disk, so the session that is there will do
        Pipeline.read(written_down(undisturbed, name), spark).run()
    else:
        finish(start(undisturbed, name))
    first.communicate(timeout=DEADLINE_S)  # by now its Spark has noticed
    for channel in CHANNELS:
        assert list(rows(output, channel)) == list(rows(whole, channel))
    assert sum("'id': 'again'" in row for row in rows(output, "deliveries")) == DELIVERED


def java_of(process: subprocess.Popen[bytes]) -> int:
    """The process in which Spark runs."""
    children = [path.read_text().split() for path in Path(f"/proc/{process.pid}/task").glob("*/children")]
    [java] = [
        int(child)
        for some in children
        for child in some
        if Path(f"/proc/{child}/comm").read_text().strip() == "java"
    ]
    return java


def test_a_killed_java_is_told_in_one_message_without_a_traceback(undisturbed: Path) -> None:
    process = start(undisturbed, "bereft")
    deadline = time.monotonic() + DEADLINE_S
    while not any((undisturbed / "bereft" / "_fairlead" / "manifests").glob("*.json")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(java_of(process), signal.SIGKILL)
    said = process.communicate(timeout=DEADLINE_S)[0].decode()
    assert process.returncode == 2
    [message, hint] = said.splitlines()
    assert message.startswith(f"fairlead: {JVM_GONE}")
    assert "run it again" in hint


@pytest.mark.soak
def test_after_a_kill_between_a_table_and_its_manifest_the_table_has_each_batch_once(
    undisturbed: Path,
) -> None:
    output, place = undisturbed / "tabled", undisturbed / "tables"
    table = place / "warehouse" / "killed_deliveries"
    sink = 'format = "table"\ntable = "killed_deliveries"'
    settings = CATALOG.format(place=place)

    def has_come() -> bool:
        manifest = output / "_fairlead" / "manifests" / "00000001.json"
        return any((table / "batch=1").glob("part-*")) and not manifest.exists()

    first = start(undisturbed, "tabled", sink, settings)
    kill_when(first, has_come)
    first.communicate(timeout=DEADLINE_S)
    finish(start(undisturbed, "tabled", sink, settings))
    found = []
    for number in range(FILES + 1):  # the last one is the end of the input
        batch = table / f"batch={number}"
        if batch.exists():
            rows_there = ds.dataset(batch, format="parquet").to_table().drop(["bucket"]).to_pylist()
            found += map(str, rows_there)
    assert sorted(found) == sorted(rows(undisturbed / "whole", "deliveries"))
