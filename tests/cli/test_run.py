"""`fairlead run`: what it tells, how it is stopped, and exit codes that scripts can rely on."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from urllib.request import urlopen

import pytest

from fairlead.cli import main
from fairlead.cli import run as command
from fairlead.errors import PipelineError
from fairlead.network.addresses import free_ports
from fairlead.spark.config import Config
from fairlead.spark.summary import Batch, Summary, Totals

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60

FILE = """
output = "out"
[events]
path = "events/"
[subscriptions]
path = "subscriptions.jsonl"
"""
SUMMARY = Summary(
    batches=1,
    read=200,
    rejected=0,
    reasons={},
    duplicates=0,
    late=0,
    deliveries=1_512,
    subscriptions=20,
    verdicts={},
    seconds=15.0,
    batch_seconds=12.5,
    output="/base/out",
    report=None,
    resumed=False,
    finished=True,
)
BATCH = Batch(
    number=0,
    read=200,
    rejected=4,
    duplicates=2,
    late=1,
    released=180,
    held=14,
    deliveries=1_512,
    watermark=1_700_000_000_000_000,
    seconds=2.0,
)


@dataclass
class FakePipeline:
    """A pipeline that does as it is told, in place of Spark's."""

    summary: Summary = SUMMARY
    plan_lines: tuple[str, ...] = ()
    error: Exception | None = None
    during: Callable[[FakePipeline], None] = lambda _: None
    stopped: threading.Event = field(default_factory=threading.Event)
    config: Config | None = None
    at: str = "batch 1, match"

    def __call__(self, config: Config) -> FakePipeline:
        self.config = config
        return self

    def plan(self) -> list[str]:
        if self.error is not None:
            raise self.error
        return list(self.plan_lines)

    def run(self, on_batch: Callable[[Batch], None] | None = None) -> Summary:
        assert on_batch is not None
        on_batch(BATCH)
        self.during(self)
        if self.error is not None:
            raise self.error
        return self.summary

    def stop(self) -> None:
        self.stopped.set()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    (tmp_path / "alerts.toml").write_text(FILE)
    return str(tmp_path / "alerts.toml")


@pytest.fixture
def using(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakePipeline], FakePipeline]:
    def use(pipeline: FakePipeline) -> FakePipeline:
        monkeypatch.setattr(command, "_pipeline", pipeline)
        return pipeline

    return use


Using = Callable[[FakePipeline], FakePipeline]
Captured = pytest.CaptureFixture[str]


# -- what it tells -----------------------------------------------------------------------------------------


def test_a_run_ends_with_a_summary(path: str, using: Using, capsys: Captured) -> None:
    using(FakePipeline())
    assert main(["run", path]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out == (
        "alerts: 200 rows in 1 batch, 12.5 s, 16 rows/s; 15.0 s in all\n"
        "  deliveries  1,512 for 20 subscriptions\n"
        "  output      /base/out\n"
    )


def test_while_it_runs_figures_are_served_and_batches_are_lines_of_json(
    path: str, using: Using, capsys: Captured
) -> None:
    [port] = free_ports(["127.0.0.1"])
    answers: list[str] = []

    def ask(_: FakePipeline) -> None:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            answers.append(answer.read().decode())

    using(FakePipeline(during=ask))
    assert main(["run", path, "--metrics", f"127.0.0.1:{port}", "--log", "json"]) == 0
    assert 'fairlead_pipeline_deliveries_total{pipeline="alerts"} 1512\n' in answers[0]
    told = json.loads(capsys.readouterr().err)
    assert (told["event"], told["pipeline"], told["deliveries"], told["seconds"]) == (
        "batch",
        "alerts",
        1512,
        2.0,
    )


def test_the_summary_tells_what_was_rejected_and_judged(path: str, using: Using, capsys: Captured) -> None:
    summary = replace(
        SUMMARY,
        batches=3,
        rejected=1_007,
        reasons={"not JSON": 3, "no time": 1_000, "a list": 2},
        duplicates=2,
        conflicts=1,
        late=5,
        late_by_us=1_500_000,
        suspected_unit="ms",
        verdicts={"simple": "holds", "fifo": "open"},
        report="/base/out/report.html",
        resumed=True,
        in_all=Totals(batches=4, read=1_400, rejected=1_010, late=7, deliveries=2_000, batch_seconds=20.06),
    )
    using(FakePipeline(summary))
    assert main(["run", path]) == 3
    assert capsys.readouterr().out == (
        "alerts: this run, resumed: 200 rows in 3 batches, 12.5 s, 16 rows/s; 15.0 s in all\n"
        "  deliveries  1,512 for 20 subscriptions\n"
        "  rejected    1,007: no time (1,000); not JSON (3); a list (2); other reasons (2)\n"
        "  duplicates  2\n"
        "  conflicts   1 copy with other content than the one that was delivered\n"
        '  late        5 of 200 rows: newer rows came first; [order] lateness = "1500ms" would have waited\n'
        "  audit       simple holds, fifo open\n"
        '  times       they look like ms, and were read as microseconds, in 1970: fields = { times = "ms" }\n'
        "  all runs    1,400 rows in 4 batches, 20.1 s; 2,000 deliveries, 1,010 rejected, 7 late: the figures of "
        "the report\n"
        "  output      /base/out\n"
        "  report      /base/out/report.html\n"
    )


def test_a_run_that_is_complete_has_nothing_to_do(path: str, using: Using, capsys: Captured) -> None:
    before = Totals(batches=2, read=300, rejected=4, reasons={"no time": 4}, deliveries=1_512)
    done = replace(
        SUMMARY, batches=0, read=0, deliveries=0, resumed=True, ended=True, rejected_before=4, in_all=before
    )
    using(FakePipeline(done))
    assert main(["run", path]) == 3
    said = (
        "alerts: nothing to do: an earlier run has ended here, and newer events need a new output; "
        "all runs:\n"
        "  deliveries  1,512 for 20 subscriptions\n"
        "  rejected    4: no time (4)\n"
        "  output      /base/out\n"
    )
    assert capsys.readouterr().out.startswith(said)
    using(FakePipeline(replace(done, ended=False, held=3)))
    assert main(["run", path]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("alerts: nothing to do: there are no new events; all runs:\n")
    assert "  held        3, until newer events arrive\n" in shown


def test_what_patterns_found_is_told_where_there_are_any(path: str, using: Using, capsys: Captured) -> None:
    using(FakePipeline(replace(SUMMARY, composites=1_024, patterns=3)))
    assert main(["run", path]) == 0
    assert "  composites  1,024 of 3 patterns\n" in capsys.readouterr().out


def test_as_json_the_summary_is_one_object(path: str, using: Using, capsys: Captured) -> None:
    using(FakePipeline(replace(SUMMARY, rejected=1, reasons={"no time": 1}, verdicts={"fifo": "holds"})))
    assert main(["run", path, "--json"]) == 3
    out, err = capsys.readouterr()
    assert (err, out.count("\n")) == ("", 1)
    found = json.loads(out)
    assert found.pop("in_all") == asdict(Totals())
    assert found == {
        "name": "alerts",
        "batches": 1,
        "read": 200,
        "rejected": 1,
        "reasons": {"no time": 1},
        "duplicates": 0,
        "conflicts": 0,
        "late": 0,
        "late_by_us": 0,
        "suspected_unit": None,
        "held": 0,
        "deliveries": 1_512,
        "subscriptions": 20,
        "composites": 0,
        "patterns": 0,
        "published": 0,
        "own": 0,
        "verdicts": {"fifo": "holds"},
        "seconds": 15.0,
        "batch_seconds": 12.5,
        "rows_per_s": 16.0,
        "output": "/base/out",
        "report": None,
        "resumed": False,
        "finished": True,
        "ended": False,
    }


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"verdicts": {"fifo": "open"}}, 0),
        ({"rejected": 1, "reasons": {"x": 1}}, 3),
        ({"verdicts": {"fifo": "violated"}}, 1),
        ({"verdicts": {"fifo": "violated"}, "rejected": 1, "reasons": {"x": 1}}, 1),
    ],
    ids=str,
)
def test_the_exit_code_says_how_it_went(
    path: str, using: Using, capsys: Captured, changes: dict[str, object], code: int
) -> None:
    using(FakePipeline(replace(SUMMARY, **changes)))  # type: ignore[arg-type]
    assert main(["run", path]) == code


def test_a_dry_run_shows_the_plan_and_runs_nothing(path: str, using: Using, capsys: Captured) -> None:
    pipeline = using(
        FakePipeline(plan_lines=("read events", "deliver"), during=lambda _: pytest.fail("it ran"))
    )
    assert main(["run", path, "--dry-run"]) == 0
    assert capsys.readouterr().out == "read events\ndeliver\n"
    assert main(["run", path, "--dry-run", "--json"]) == 0
    assert pipeline.config is not None
    assert json.loads(capsys.readouterr().out) == {
        "name": "alerts",
        "fingerprint": pipeline.config.fingerprint,
        "plan": ["read events", "deliver"],
    }


# -- options -----------------------------------------------------------------------------------------------


def test_options_win_over_the_file(
    path: str, using: Using, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pipeline = using(FakePipeline())
    monkeypatch.chdir(tmp_path)
    assert main(["run", path, "--master", "local[1]", "--output", "new", "--verbose"]) == 0
    assert pipeline.config is not None
    assert pipeline.config.output == f"{tmp_path}/new"
    assert (pipeline.config.spark.master, pipeline.config.spark.quiet) == ("local[1]", False)
    assert main(["run", path, "--remote", "sc://h"]) == 0
    assert (pipeline.config.spark.remote, pipeline.config.spark.quiet) == ("sc://h", True)
    assert main(["run", path, "--remote", "sc://h", "--master", "local"]) == 2


def test_modules_beside_the_file_can_be_imported_here_and_by_workers(
    path: str, using: Using, capsys: Captured
) -> None:
    using(FakePipeline())
    assert main(["run", path]) == 0
    beside = str(Path(path).parent)
    assert sys.path[0] == beside
    assert os.environ["PYTHONPATH"] == f"{beside}{os.pathsep}/elsewhere"


# -- what goes wrong ---------------------------------------------------------------------------------------


def test_a_wrong_file_is_told_without_starting_spark(path: str) -> None:
    Path(path).write_text(FILE + "[order]\nlatenes = '1s'\n")
    program = (
        "import sys; from fairlead.cli import main; code = main(['run', sys.argv[1]]); "
        "print(code, sorted({'pyspark', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True, text=True)
    assert ran.stdout == "2 []\n"
    assert ran.stderr == f"fairlead: {path}:8: [order] latenes: no such key; did you mean 'lateness'?\n"


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_what_stops_it_is_one_message(
    path: str, using: Using, capsys: Captured, options: tuple[str, ...]
) -> None:
    using(FakePipeline(error=PipelineError("/nowhere: no such file or directory", hint="look again")))
    assert main(["run", path, *options]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "fairlead: /nowhere: no such file or directory\n  hint: look again\n")


def test_an_error_of_the_system_is_one_message_as_well(path: str, using: Using, capsys: Captured) -> None:
    using(FakePipeline(error=OSError(28, "No space left on device")))
    assert main(["run", path]) == 2
    assert capsys.readouterr().err.startswith("fairlead: the disk is full\n")


def test_an_error_that_nobody_expected_is_no_verdict(path: str, using: Using, capsys: Captured) -> None:
    using(FakePipeline(error=KeyError("symbol")))
    assert main(["run", path]) == 2
    assert (
        capsys.readouterr().err == "fairlead: unexpected KeyError: 'symbol'\n  hint: --verbose shows where\n"
    )
    assert main(["run", path, "--verbose"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert err.endswith("fairlead: unexpected KeyError: 'symbol'\n")


# -- stopping it -------------------------------------------------------------------------------------------


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interruption_stops_the_pipeline_at_a_batch_boundary(
    path: str, using: Using, capsys: Captured
) -> None:
    def during(pipeline: FakePipeline) -> None:
        interrupt()
        assert pipeline.stopped.wait(PATIENCE_S)

    before = signal.getsignal(signal.SIGINT)
    using(FakePipeline(replace(SUMMARY, finished=False), during=during))
    assert main(["run", path]) == 130
    assert signal.getsignal(signal.SIGINT) is before
    out, err = capsys.readouterr()
    assert out.startswith("alerts: 200 rows in 1 batch")
    assert err == (
        "stopping after the batch at hand; Ctrl-C again ends it at once\n"
        "stopped after 1 batch; the same command continues from here\n"
    )


def test_an_interruption_that_comes_too_late_changes_nothing(
    path: str, using: Using, capsys: Captured
) -> None:
    using(FakePipeline(during=lambda _: interrupt()))
    assert main(["run", path]) == 0
    assert capsys.readouterr().out.startswith("alerts: 200 rows")


def test_the_second_interruption_ends_it_at_once(path: str, using: Using, capsys: Captured) -> None:
    released = threading.Event()

    def during(pipeline: FakePipeline) -> None:
        interrupt()
        assert pipeline.stopped.wait(PATIENCE_S)
        interrupt()
        released.wait(PATIENCE_S)  # it would go on, but nobody waits for it

    using(FakePipeline(during=during))
    try:
        assert main(["run", path]) == 130
    finally:
        released.set()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("ended; the batch at hand is lost, and the same command does it again\n")


# -- watching it -------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_person_who_watches_sees_how_far_it_is(
    path: str, using: Using, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, shown = Terminal(), threading.Event()
    show = command._Progress.show

    def showing(progress: command._Progress, at: str) -> None:
        show(progress, at)
        shown.set()

    monkeypatch.setattr(command._Progress, "show", showing)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    using(FakePipeline(during=lambda _: (shown.wait(PATIENCE_S), None)[1]))
    assert main(["run", path]) == 0
    assert re.search(
        r"\ralerts: batch 1, match · 1 batch done · 200 rows · 1,512 deliveries, [\d,]+/s · 14 held · \d+ s",
        terminal.getvalue(),
    )
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_the_line_of_progress(path: str) -> None:
    config = Config.read(path)
    progress = command._Progress(config)
    assert progress.line("", 3.2, 0) == "alerts: working · 3 s"
    assert progress.line("starting Spark", 4, 0) == "alerts: starting Spark · 4 s"
    progress.took(BATCH)
    progress.took(replace(BATCH, number=1, held=1_000))
    assert progress.line("batch 2, order", 10.0, 0) == (
        "alerts: batch 2, order · 2 batches done · 400 rows · 3,024 deliveries, 302/s · 1,000 held · 10 s"
    )
    streaming = command._Progress(replace(config, mode="stream"))
    for behind_s, told in (
        (1.25, "1.2 s behind"),
        (150, "2 min behind"),
        (10_000, "3 h behind"),
        (-1, "ahead"),
    ):
        streaming.took(BATCH)
        assert f" · watermark {told} · " in streaming.line("waiting", 1.0, 1_700_000_000 + behind_s)


def test_the_help_has_an_example(capsys: Captured) -> None:
    assert main(["run", "--help"]) == 0
    assert "Example: fairlead run" in " ".join(capsys.readouterr().out.split())


def test_the_example_in_the_documentation_can_be_read() -> None:
    config = Config.read(ROOT / "examples" / "pipeline" / "pipeline.toml")
    assert Path(config.subscriptions.path).is_file()
    assert config.events[0].path is not None
    assert len(list(Path(config.events[0].path).iterdir())) == 2
    assert len(config.fingerprint) == 32


@pytest.mark.parametrize("command", ["run pipeline.toml", "demo --out out", "audit trace.jsonl --on spark"])
def test_without_pyspark_that_is_what_is_said_and_nothing_is_written(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pipeline.toml").write_text(FILE)
    (tmp_path / "trace.jsonl").write_text('{"v":1,"event":"end"}\n')
    monkeypatch.chdir(tmp_path)
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    assert main(command.split()) == 2
    said = capsys.readouterr().err
    assert "PySpark is not installed here" in said
    assert "hint: pip install 'fairlead[spark]'" in said
    assert sorted(os.listdir(tmp_path)) == ["pipeline.toml", "trace.jsonl"]
