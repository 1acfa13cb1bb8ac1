"""The example of Spark Declarative Pipelines runs: datasets that our stages make."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pyspark

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative"
SETTINGS = ("spark.ui.enabled=false", "spark.driver.bindAddress=127.0.0.1", "spark.driver.host=127.0.0.1")


def test_the_datasets_of_the_example_are_made(tmp_path: Path) -> None:
    copy = shutil.copytree(EXAMPLE, tmp_path / "example")
    specification = copy / "spark-pipeline.yml"
    text = specification.read_text()
    assert text.count("file:///tmp/market-pipeline") == 1
    specification.write_text(text.replace("file:///tmp/market-pipeline", f"file://{tmp_path}/storage"))
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"), "--remote", "local[2]"]
    command += [part for each in SETTINGS for part in ("--conf", each)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {**os.environ, "PATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run(
        [*command, "run"], cwd=copy, env=variables, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-6_000:]

    def rows(dataset: str) -> list[dict[str, object]]:
        files = (copy / "spark-warehouse" / dataset).glob("*.parquet")
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    alerts = {(row["subscriber"], row["id"], row["subscription"]) for row in rows("alerts")}
    assert alerts == {
        ("ada", "1", "dear"),
        ("ada", "3", "dear"),
        ("ada", "3", "sap"),
        ("bruno", "2", "cheap"),
    }
    counted = {row["subscription"]: row["alerts"] for row in rows("by_subscription")}
    assert counted == {"dear": 2, "sap": 1, "cheap": 1}
    [jump] = rows("jumps")
    assert [each["id"] for each in jump["constituents"]] == ["2", "3"]  # type: ignore[union-attr,attr-defined]
