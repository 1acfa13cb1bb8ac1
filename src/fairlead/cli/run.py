"""`fairlead run`: a pipeline from its file, in batch or until it is stopped.

The pipeline runs in a thread of its own and this one waits: so Ctrl-C takes effect at once, whatever Spark is
doing, and the first one stops the pipeline after the current batch.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from fairlead.cli.terminal import emit_json, note, paint, say
from fairlead.errors import FairleadError, NotInstalled

if TYPE_CHECKING:
    from fairlead.spark.config import Config
    from fairlead.spark.summary import Batch, Summary

__all__ = ["configure", "run_pipeline", "show_summary"]

REASONS_SHOWN: Final = 3
EVERY_S: Final = 0.2
COLOURS: Final = {"holds": "green", "open": "yellow", "violated": "red"}


class Pipeline(Protocol):
    """The interface of `fairlead.spark.running.Pipeline` that this command needs."""

    @property
    def at(self) -> str: ...

    def plan(self) -> list[str]: ...

    def run(self, on_batch: Callable[[Batch], None] | None = None) -> Summary: ...

    def stop(self) -> None: ...


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Run a pipeline on Spark: read events, match them against subscriptions, deliver in order and once. "
        "The same command continues a run that was stopped."
    )
    parser.epilog = (
        "Example: fairlead run pipeline.toml --dry-run. Exit code: 0 when all is done, 1 when an audit finds a "
        "violation, 2 when it cannot run, 3 when it is done and some rows were rejected, 130 when it was stopped."
    )
    parser.add_argument("pipeline", metavar="PIPELINE", help="the pipeline's file, in TOML")
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything and show the plan; run nothing"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--master", metavar="M", help="Spark's master, instead of the file's")
    where.add_argument("--remote", metavar="URL", help="a Spark Connect server, instead of the file's")
    parser.add_argument("--output", metavar="DIR", help="where to write, instead of the file's")
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="serve figures for Prometheus there, at /metrics, while it runs",
    )
    parser.add_argument("--spans", metavar="URL", help="the collector that gets OpenTelemetry spans")
    parser.add_argument(
        "--console",
        metavar="HOST:PORT",
        nargs="?",
        const="127.0.0.1:0",
        help="show the run in the browser while it goes on, at an address of this machine that is printed",
    )
    parser.add_argument(
        "--log", choices=("json",), help="tell of each batch on standard error, as a line of JSON"
    )
    parser.add_argument("--verbose", action="store_true", help="show Spark's messages, and tracebacks")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fairlead.spark.config import Config
    from fairlead.spark.sessions import check_installed

    config = Config.read(arguments.pipeline).overridden(
        output=arguments.output,
        master=arguments.master,
        remote=arguments.remote,
        quiet=False if arguments.verbose else None,
    )
    check_installed()
    _make_importable(Path(arguments.pipeline).parent)
    try:
        pipeline = _pipeline(config)
        if arguments.dry_run:
            return _show_plan(pipeline, config, arguments.json)
        with _observers(arguments, pipeline, config) as observers:
            summary, stopped = run_pipeline(pipeline, config, observers)
    except Exception as error:
        if arguments.verbose:
            traceback.print_exc()
        raise _shown(error, arguments.verbose) from error
    if arguments.json:
        emit_json({"name": config.name, **summary.to_json()})
    else:
        show_summary(summary, config)
    return _exit_code(summary, stopped)


def _pipeline(config: Config) -> Pipeline:
    from fairlead.spark.running import Pipeline

    return Pipeline(config)


def _make_importable(directory: Path) -> None:
    """Callbacks and extensions may be beside the pipeline's file; local workers import from there, too."""
    place = str(directory.resolve())
    if place not in sys.path:
        sys.path.insert(0, place)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if place not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([place, *filter(None, known)])


def _shown(error: Exception, verbose: bool) -> FairleadError:
    """The error as it is printed; an unexpected one has a hint for more details."""
    from fairlead.spark.failures import reason

    if (known := reason(error)) is not None:
        return known
    hint = None if verbose else "--verbose shows where"
    return FairleadError(f"unexpected {type(error).__name__}: {error}", hint=hint)


def _exit_code(summary: Summary, stopped: bool) -> int:
    if stopped and not summary.finished:
        note(
            f"stopped after {_counted(summary.batches, 'batch', 'batches')}; the same command continues from here"
        )
        return 130
    return summary.exit_code


# -- running -----------------------------------------------------------------------------------------------


@contextmanager
def _observers(
    arguments: argparse.Namespace, pipeline: Pipeline, config: Config
) -> Iterator[list[Callable[[Batch], None]]]:
    """Functions that hear of each batch, by the options; metrics are served meanwhile."""
    observers: list[Callable[[Batch], None]] = []
    if arguments.log is not None:
        observers.append(
            lambda batch: print(_line_of(config.name, batch, datetime.now(UTC)), file=sys.stderr)
        )
    with ExitStack() as stack:
        if arguments.spans is not None:
            from fairlead.spark.spans import BatchSpans
            from fairlead.telemetry import Spans

            spans = Spans.sent_to(arguments.spans, "fairlead-pipeline", config.name)
            stack.callback(spans.close)
            observers.append(BatchSpans(config, spans).took)
        if arguments.metrics is not None:
            from fairlead.console.pipelines import Figures, served
            from fairlead.network.addresses import Address

            figures = Figures(config.name, lambda: pipeline.at)
            stack.enter_context(served(figures, Address.parse(arguments.metrics)))
            observers.append(figures.took)
        if arguments.console is not None:
            note(f"console at {stack.enter_context(_console(arguments.console, pipeline, config))}")
        yield observers


def _console(listen: str, pipeline: Pipeline, config: Config) -> AbstractContextManager[str]:
    """The console with the view of the pipeline; the address to open."""
    from fairlead.network.addresses import Address

    try:
        from fairlead.console.views.pipeline import pipeline_part
        from fairlead.console.views.standalone import check_address, served
    except ModuleNotFoundError:
        raise NotInstalled.extra("The console", "console") from None
    address = Address.parse(listen)
    check_address(address)
    return served([pipeline_part(config.output, lambda: pipeline.at)], address)


def _line_of(name: str, batch: Batch, now: datetime) -> str:
    """A committed batch as a line of JSON, for logs that programs read."""
    when = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    head = {"time": when, "level": "info", "event": "batch", "pipeline": name, "batch": batch.number}
    told = {each.name: getattr(batch, each.name) for each in fields(batch) if each.name != "number"}
    return json.dumps(head | told, ensure_ascii=False)


def run_pipeline(
    pipeline: Pipeline, config: Config, observers: Sequence[Callable[[Batch], None]] = ()
) -> tuple[Summary, bool]:
    """Run a pipeline to its end or until it is stopped; the summary, and whether it was stopped."""
    outcome: list[Summary] = []
    failure: list[BaseException] = []
    progress = _Progress(config)
    ended = threading.Event()

    def took(batch: Batch) -> None:
        for tell in (progress.took, *observers):
            tell(batch)

    def work() -> None:
        try:
            outcome.append(pipeline.run(took))
        except BaseException as error:
            failure.append(error)
        finally:
            ended.set()

    # A daemon: the second Ctrl-C leaves it behind. What is not committed then was never there.
    worker = threading.Thread(target=work, name="fairlead-pipeline", daemon=True)
    reported = False
    with _interruptions() as interrupted:
        worker.start()
        try:
            while not ended.wait(EVERY_S):
                progress.show(pipeline.at)
                if interrupted.is_set() and not reported:
                    reported = True
                    progress.done()
                    note("stopping after the batch at hand; Ctrl-C again ends it at once")
                    pipeline.stop()
        finally:
            progress.done()
    if failure:
        raise failure[0]
    return outcome[0], interrupted.is_set()


@contextmanager
def _interruptions() -> Iterator[threading.Event]:
    """While it lasts, the first Ctrl-C sets the event, and the second ends all at once."""
    interrupted = threading.Event()

    def interrupt(*_: object) -> None:
        # Nothing else here: a signal may arrive in the middle of a write to standard error.
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    if threading.current_thread() is not threading.main_thread():  # signals are not for us
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    except KeyboardInterrupt:
        note("ended; the batch at hand is lost, and the same command does it again")
        raise
    finally:
        signal.signal(signal.SIGINT, before)


class _Progress:
    """A line on standard error, on a terminal: progress, rate, backlog."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._watched = sys.stderr.isatty()
        self._started = time.monotonic()
        self._read = self._deliveries = self._batches = 0
        self._batch: Batch | None = None
        self._shown = False

    def took(self, batch: Batch) -> None:
        """A batch is committed."""
        self._batches += 1
        self._read += batch.read
        self._deliveries += batch.deliveries
        self._batch = batch

    def show(self, at: str) -> None:
        if self._watched:
            self._shown = True
            line = self.line(at, time.monotonic() - self._started, time.time())
            width = shutil.get_terminal_size().columns - 1  # a line that wraps cannot be written over
            sys.stderr.write(f"\r{line[:width]}\x1b[K")
            sys.stderr.flush()

    def line(self, at: str, elapsed_s: float, now_s: float) -> str:
        """The line of progress after so many seconds; `now_s` is the time of day, which watermarks are
        compared with.
        """
        doing = f"{self._config.name}: {at or 'working'}"
        if self._batch is None:
            return f"{doing} · {elapsed_s:.0f} s"
        parts = [
            doing,
            f"{_counted(self._batches, 'batch', 'batches')} done",
            _counted(self._read, "row", "rows"),
            f"{_counted(self._deliveries, 'delivery', 'deliveries')}, {self._deliveries / elapsed_s:,.0f}/s",
            f"{self._batch.held:,} held",
        ]
        if self._config.mode == "stream" and self._batch.watermark is not None:
            parts.append(f"watermark {_ago(now_s - self._batch.watermark / 1e6)}")
        return " · ".join([*parts, f"{elapsed_s:.0f} s"])

    def done(self) -> None:
        """Wipe the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


# -- output ------------------------------------------------------------------------------------------------


def _show_plan(pipeline: Pipeline, config: Config, as_json: bool) -> int:
    lines = pipeline.plan()
    if as_json:
        emit_json({"name": config.name, "fingerprint": config.fingerprint, "plan": lines})
    else:
        for line in lines:
            say(line)
    return 0


def show_summary(summary: Summary, config: Config) -> None:
    """The summary for a person: of this run, or of all runs where this one had nothing to do."""
    is_idle = summary.resumed and summary.finished and summary.batches == 0
    if is_idle:
        why = (
            "an earlier run has ended here, and newer events need a new output"
            if summary.ended
            else "there are no new events"
        )
        say(f"{paint(config.name, 'bold')}: nothing to do: {why}; all runs:")
        summary = summary.of_all_runs
    else:
        again = "this run, resumed: " if summary.resumed else ""
        say(
            f"{paint(config.name, 'bold')}: {again}{_counted(summary.read, 'row', 'rows')} in "
            f"{_counted(summary.batches, 'batch', 'batches')}, {summary.batch_seconds:.1f} s, "
            f"{summary.rows_per_s:,.0f} rows/s; {summary.seconds:.1f} s in all"
        )
    rows: list[tuple[str, str]] = [
        (
            "deliveries",
            f"{summary.deliveries:,} for {_counted(summary.subscriptions, 'subscription', 'subscriptions')}",
        )
    ]
    if summary.patterns or summary.composites:
        found = _counted(summary.patterns, "pattern", "patterns")
        rows.append(("composites", f"{summary.composites:,} of {found}"))
    if config.publish is not None:
        left_out = f"; {summary.own:,} of its own left out of the input" if summary.own else ""
        rows.append(("published", f"{summary.published:,} at {config.publish.url}{left_out}"))
    if summary.rejected:
        rows.append(("rejected", f"{summary.rejected:,}: {_top(summary.reasons, summary.rejected)}"))
    if summary.duplicates:
        rows.append(("duplicates", f"{summary.duplicates:,}"))
    if summary.conflicts:
        copies = _counted(summary.conflicts, "copy", "copies")
        rows.append(("conflicts", f"{copies} with other content than the one that was delivered"))
    if summary.late:
        rows.append(("late", _late(summary, config)))
    if summary.held:
        rows.append(("held", f"{summary.held:,}, until newer events arrive"))
    if summary.verdicts:
        judged = (
            f"{name} {paint(verdict, COLOURS.get(verdict, 'dim'))}"
            for name, verdict in summary.verdicts.items()
        )
        rows.append(("audit", ", ".join(judged)))
    if summary.suspected_unit is not None:
        rows.append(
            (
                "times",
                f"they look like {summary.suspected_unit}, and were read as microseconds, in 1970: "
                f'fields = {{ times = "{summary.suspected_unit}" }}',
            )
        )
    if summary.resumed and not is_idle:
        whole = summary.in_all
        rows.append(
            (
                "all runs",
                f"{_counted(whole.read, 'row', 'rows')} in {_counted(whole.batches, 'batch', 'batches')}, "
                f"{whole.batch_seconds:.1f} s; {_counted(whole.deliveries, 'delivery', 'deliveries')}, "
                f"{whole.rejected:,} rejected, {whole.late:,} late: the figures of the report",
            )
        )
    rows.append(("output", summary.output))
    if summary.report is not None:
        rows.append(("report", summary.report))
    for name, text in rows:
        say(f"  {name:<10}  {text}")


def _late(summary: Summary, config: Config) -> str:
    """The number of late rows, and the lateness that would have waited for them."""
    from fairlead.spark.config import format_duration

    share = f"{summary.late:,} of {_counted(summary.read, 'row', 'rows')}"
    if not summary.late_by_us:
        return f"{share}: a later sequence number of the same producer had been released"
    wanted = format_duration(config.order.lateness_us + summary.late_by_us)
    return f'{share}: newer rows came first; [order] lateness = "{wanted}" would have waited'


def _top(reasons: Mapping[str, int], rejected: int) -> str:
    """The commonest reasons of so many rows; with the others they add up."""
    ranked = sorted(reasons.items(), key=lambda each: (-each[1], each[0]))
    shown = [f"{reason} ({count:,})" for reason, count in ranked[:REASONS_SHOWN]]
    more = rejected - sum(count for _, count in ranked[:REASONS_SHOWN])
    return "; ".join(shown + ([f"other reasons ({more:,})"] if more else []))


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _ago(seconds: float) -> str:
    """The distance of a watermark from the time of day, roughly."""
    if seconds < 0:
        return "ahead"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit} behind"
    return f"{seconds:.1f} s behind"
