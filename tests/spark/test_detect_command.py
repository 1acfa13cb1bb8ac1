"""`fairlead detect --on spark`: the same lines as here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairlead.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples" / "patterns"


def test_spark_finds_the_same_as_python_to_the_byte(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text((EXAMPLES / "machines.jsonl").read_text() * 2 + "{\n")
    command = ["detect", "--patterns", str(EXAMPLES / "patterns.txt"), "--events", str(events), "--json"]
    command += ["--fair", "Reading[1].celsius < Reading[2].celsius", "--fair", "Alarm and overheating"]
    shown = {}
    for where in ("python", "spark"):
        assert main([*command, "--on", where]) == 3
        shown[where] = capsys.readouterr()
    assert shown["python"].out.count("\n") == 3 + 3 + 1
    assert shown["spark"].out == shown["python"].out
    assert "10 events, 5 patterns, 7 composites, 10 duplicates dropped, 1 rejected" in shown["spark"].err
    assert "events.jsonl:21: rejected: " in shown["spark"].err
