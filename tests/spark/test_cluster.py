"""A standalone cluster of two workers, each a process without Fairlead: a pipeline ships its code to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from fairlead_lab.servers import cluster

EVENTS = 400
SUBSCRIPTIONS = [{"id": f"s{n}", "subscriber": f"u{n}", "filter": f"x >= {n}"} for n in range(5)]
PIPELINE = """
name = "shipped"
output = "{output}"
report = false

[events]
path = "{events}"

[subscriptions]
path = "{subscriptions}"

[order]
lateness = "1s"

[deliveries]
format = "json"
buckets = 2

[spark.settings]
"spark.archives" = "{archive}#env"
"spark.executor.memory" = "512m"
"spark.driver.host" = "127.0.0.1"
"spark.sql.shuffle.partitions" = "2"
"spark.ui.enabled" = "false"
"""
PROGRAM = """
import json, sys
from fairlead.spark import Config, Pipeline, session

config = Config.read(sys.argv[1])
spark = session(master=sys.argv[2], settings=dict(config.spark.settings))
summary = Pipeline(config, spark).run()

def where(batches):
    import time
    import fairlead, pyarrow
    for batch in batches:
        time.sleep(0.5)  # so that both workers get one of the tasks
        yield pyarrow.RecordBatch.from_pydict({"file": [fairlead.__file__] * len(batch)})

files = {row.file for row in spark.range(0, 4, 1, 4).mapInArrow(where, "file string").collect()}
print(json.dumps({"exit": summary.exit_code, "files": sorted(files)}))
"""


def test_a_pipeline_runs_where_workers_have_nothing_but_what_is_shipped(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(
        "".join(
            json.dumps({"id": f"{n}", "producer": "p", "time": n * 1000, "x": n % 5}) + "\n"
            for n in range(EVENTS)
        )
    )
    (tmp_path / "subscriptions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in SUBSCRIPTIONS))
    paths = {name: tmp_path / f"{name}.jsonl" for name in ("events", "subscriptions")}
    shipped = cluster.archive(tmp_path / "environment.tar.gz")
    text = PIPELINE.format(output=tmp_path / "out", archive=shipped, **paths)
    (tmp_path / "pipeline.toml").write_text(text)
    variables = {**os.environ, "PYSPARK_PYTHON": cluster.INTERPRETER, "SPARK_LOCAL_IP": "127.0.0.1"}
    with cluster.running(tmp_path) as address:
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / "pipeline.toml"), address]
        ran = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-4_000:]
    said = json.loads(ran.stdout.splitlines()[-1])
    assert said["exit"] == 0
    assert len(said["files"]) == 2, "both workers took part"
    for number in range(2):
        assert any(f"/worker{number}/" in file for file in said["files"])
    delivered = Counter(
        json.loads(line)["subscriber"]
        for file in (tmp_path / "out" / "deliveries").rglob("*.json*")
        for line in file.read_text().splitlines()
    )
    assert delivered == {f"u{n}": EVENTS // 5 * (5 - n) for n in range(5)}
