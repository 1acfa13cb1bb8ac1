"""Killed at any moment and started again, a stream's output is, row for row, that of an undisturbed run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow.dataset as ds
import pytest

PIPELINE = """
name = "killed"
mode = "stream"
output = "{output}"
[events]
path = "events"
format = "json"
[subscriptions]
path = "subscriptions.jsonl"
[order]
lateness = "20ms"
final = true
[audit]
trace = true
[stream]
available = true
max_files = 1
[spark]
master = "local[2]"
settings = {{ "spark.sql.shuffle.partitions" = "2", "spark.driver.extraJavaOptions" = "{java}" }}
"""
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
FILES = 2
DEADLINE_S = 600


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
        path = directory / "events" / f"{file}.jsonl"
        path.write_text("".join(f"{json.dumps(event)}\n" for event in events) + "broken\n")
        os.utime(path, (1_000_000 + file, 1_000_000 + file))  # Spark takes files by their times
    subscriptions = [
        {"id": f"s{number}", "subscriber": f"u{number % 4}", "filter": f"x >= {number % 5}"}
        for number in range(10)
    ]
    (directory / "subscriptions.jsonl").write_text("".join(f"{json.dumps(s)}\n" for s in subscriptions))
    finish(start(directory, "whole"))
    return directory


def start(directory: Path, output: str) -> subprocess.Popen[bytes]:
    path = directory / f"{output}.toml"
    path.write_text(PIPELINE.format(output=output, java=QUICK))
    command = [sys.executable, "-m", "fairlead", "run", str(path)]
    # A group of its own: the Spark that it starts is in it, and dies with it.
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)


def finish(process: subprocess.Popen[bytes]) -> None:
    said, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 3, said.decode()  # done, with rows that were rejected


def written(output: Path) -> int:
    """How much a run has done so far, as its files tell."""
    return sum(len(files) + len(directories) for _, directories, files in os.walk(output))


def kill_when(process: subprocess.Popen[bytes], output: Path, files: int) -> bool:
    """Kill the run, its Spark included, once it has written so many files; False where it ended before."""
    deadline = time.monotonic() + DEADLINE_S
    while written(output) < files and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=DEADLINE_S)
    return alive


def rows(output: Path, channel: str) -> Iterator[str]:
    """All committed rows of a channel, batch by batch, as text."""
    for manifest in sorted((output / "_fairlead" / "manifests").glob("*.json")):
        told = json.loads(manifest.read_text())
        if channel in told["channels"]:
            table = ds.dataset(output / channel / f"batch={told['batch']:08}", format="parquet").to_table()
            yield from sorted(map(str, table.to_pylist()))


CHANNELS = ("deliveries", "late", "rejected", "trace")
SEEDS = [pytest.param(seed, marks=() if seed < 2 else pytest.mark.soak) for seed in range(20)]


@pytest.mark.parametrize("seed", SEEDS)
def test_after_a_kill_at_any_moment_the_output_is_that_of_an_undisturbed_run(
    undisturbed: Path, seed: int
) -> None:
    rng = Random(seed)
    name, output = f"killed{seed}", undisturbed / f"killed{seed}"
    whole = undisturbed / "whole"
    killed = kill_when(start(undisturbed, name), output, rng.randint(1, written(whole) * 4 // 5))
    assert killed
    finish(start(undisturbed, name))
    for channel in CHANNELS:
        assert list(rows(output, channel)) == list(rows(whole, channel))
