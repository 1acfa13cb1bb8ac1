"""`fairlead audit` of Parquet: a file, a directory, the output of a pipeline; without Spark where that will do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.audit import Ended, Event, Notified, Published, Subscribed, parquet
from fairlead.cli import audit as command
from fairlead.cli import main
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead.model.order import OrderKey
from fairlead.spark.output import Manifest

NOTIFICATION = Notification.of({"id": "1", "producer": "p", "x": 1})
PUB = Published(NOTIFICATION, OrderKey.of(NOTIFICATION))
SUB = Subscribed("ada", "s1", parse("x > 0"))
NOTIFY = Notified("ada", PUB.identity, ("s1",))
RIGHT: list[Event] = [SUB, PUB, NOTIFY, Ended()]


def written(path: Path, events: list[Event]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write(events, str(path))
    return str(path)


def test_a_parquet_file_is_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", written(tmp_path / "trace", RIGHT)]) == 0
    assert capsys.readouterr().out.endswith("4 events: holds\n")


def test_a_violation_is_told_with_the_rows_that_prove_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "trace.parquet", [SUB, PUB, NOTIFY, NOTIFY, Ended()])
    assert main(["audit", path, "--spec", "simple"]) == 1
    assert "  ada was notified about p/1 again (rows 3, 4)\n" in capsys.readouterr().out
    assert main(["audit", path, "--spec", "simple", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    [once] = [each for each in report["findings"] if each["rule"] == "once"]
    assert once["count"] == 1
    assert once["violations"] == [{"what": "ada was notified about p/1 again", "rows": [3, 4]}]


def test_a_directory_of_files_is_one_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "part-1.parquet", RIGHT[2:])
    written(tmp_path / "part-0.parquet", RIGHT[:2])
    assert main(["audit", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("4 events: holds\n")


def test_of_a_pipelines_output_the_committed_batches_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifests = tmp_path / "_fairlead" / "manifests"
    manifests.mkdir(parents=True)
    (manifests / "00000000.json").write_bytes(Manifest(0, channels=["trace"]).dump())
    (manifests / "00000001.json").write_bytes(Manifest(1, channels=["deliveries"]).dump())
    written(tmp_path / "trace" / "batch=00000000" / "part-0.parquet", RIGHT)
    written(tmp_path / "trace" / "batch=00000002" / "part-0.parquet", RIGHT)
    assert main(["audit", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("4 events: holds\n")
    (manifests / "00000000.json").unlink()
    assert main(["audit", str(tmp_path)]) == 2
    assert "has written no trace" in capsys.readouterr().err


def test_what_is_no_trace_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1, or so it says")
    assert main(["audit", str(tmp_path / "broken.parquet")]) == 2
    assert "not a Parquet file" in capsys.readouterr().err


def test_a_repeated_identity_is_judged_and_not_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", written(tmp_path / "twice.parquet", [PUB, PUB])]) == 0
    assert capsys.readouterr().out.endswith("2 events: holds\n")


def test_spark_judges_what_is_large_or_what_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def on_spark(*_: object) -> None:
        asked.append("spark")
        raise command.BadInput("that is enough")

    monkeypatch.setattr(command, "_on_spark", on_spark)
    path = written(tmp_path / "trace.parquet", RIGHT)
    assert main(["audit", path]) == 0
    assert main(["audit", path, "--on", "spark"]) == 2
    assert main(["audit", path, "--master", "local[2]"]) == 2
    assert main(["audit", path, "--master", "local[2]", "--on", "python"]) == 0
    monkeypatch.setattr(command, "PYTHON_BYTES_MAX", 10)
    assert main(["audit", path]) == 2
    assert main(["audit", path, "--on", "python"]) == 0
    assert len(asked) == 3
