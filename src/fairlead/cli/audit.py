"""`fairlead audit`: does a trace satisfy the specification? Each violation has the lines that prove it."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeAlias, TypeVar

from fairlead.cli.inputs import add_language_options, language, opened
from fairlead.cli.terminal import emit_json, note, paint, say
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.audit import Ended, Event, Finding, Report
    from fairlead.audit.fair.run import Step
    from fairlead.filters import Schema
    from fairlead.ingest import Rejection

__all__ = ["configure"]

SPECIFICATIONS = ("simple", "fifo", "causal", "total", "ordered", "advertisements", "scoped", "stabilising")
PROPERTIES = (
    "no-duplication",
    "no-creation",
    "admission",
    "event-validity",
    "conjunction-validity",
    "covering-agreement",
    "event-total-order",
    "conjunction-total-order",
    "disjunction-total-order",
)
"""Of runs of fair correlation."""
ALL = "all"
LIVE = ("simple", "fifo")
"""The promises of live brokers together."""
REJECTED_SHOWN = 5
VIOLATIONS_SHOWN = 10
VIOLATIONS_FROM_SPARK = 1_000
"""So many of each rule are brought together from Spark, to be printed as JSON."""
PYTHON_BYTES_MAX: Final = 64 * 2**20
"""A table of up to so many bytes is judged here; Spark, which takes seconds to start, judges larger ones."""
AnyEvent = TypeVar("AnyEvent")
COLOURS = {"holds": "green", "open": "yellow", "violated": "red"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Judge a trace, which the bus, the simulator, the network and the pipeline can write, by the "
        "specification of event systems; or a run of fair correlation, by the properties of that. A violation is "
        "reported with the lines that prove it. What is missing from a trace without an end is open: it may still "
        "come."
    )
    parser.epilog = (
        "Example: fairlead audit trace.jsonl --spec fifo. "
        "Exit code: 0 when nothing is violated, 1 when something is, 2 when the trace cannot be read."
    )
    parser.add_argument(
        "trace",
        metavar="TRACE",
        nargs="+",
        help="JSON lines (- is standard input), a Parquet file or a directory of them, or a pipeline's output; or"
        " the files or directories of all brokers of a network, which are judged together",
    )
    parser.add_argument(
        "--at-rest",
        action="store_true",
        help="the network is at rest: what is missing from the traces of its brokers will not come",
    )
    parser.add_argument(
        "--merged", metavar="FILE", help="write the traces of all brokers there, as the one that is judged"
    )
    parser.add_argument(
        "--spec",
        metavar="NAME",
        choices=(*SPECIFICATIONS, *PROPERTIES, ALL),
        default=ALL,
        help=f"{', '.join(SPECIFICATIONS)}, or all (default); all takes advertisements instead of simple "
        "where somebody advertises, and not ordered, which live runs do not promise. "
        f"Of a run of fair correlation: {', '.join(PROPERTIES)}, or all",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--on",
        choices=("python", "spark"),
        help="where to judge it (default: here, and on Spark where Parquet is larger than "
        f"{PYTHON_BYTES_MAX // 2**20} MB)",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--master", metavar="M", help="Spark's master; it is judged on Spark then")
    where.add_argument("--remote", metavar="URL", help="a Spark Connect server; likewise")
    add_language_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fairlead.audit import TraceRefused, Verdict

    schema = language(arguments)
    trace = _network_at(arguments) if _is_network(arguments.trace) else _trace_at(arguments.trace[0])
    if (arguments.at_rest or arguments.merged) and not trace.runs:
        raise BadInput("--at-rest and --merged are for the traces of a network's brokers")
    try:
        judged = _judge_of(arguments, trace)(arguments, trace, schema)
    except TraceRefused as error:
        raise BadInput(f"{trace.name}: {error}") from None
    if not judged.events:
        note("the trace is empty: nothing was judged")
    if judged.report.repeated:
        note(f"{judged.report.repeated:,} publications repeat an identity; the first of each was judged")
    if arguments.json:
        emit_json(judged.jsonable())
    else:
        _show(judged)
    return 1 if judged.report.verdict is Verdict.VIOLATED else 0


# -- where a trace is ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Trace:
    """A trace: a file of JSON lines, or the Parquet files at and below some paths."""

    name: str
    tables: tuple[str, ...] = ()
    is_fair: bool = False
    """Whether it is a run of fair correlation, and not a trace."""
    head: tuple[bytes, ...] = ()
    """The lines of standard input that were read to recognise its format."""
    runs: tuple[str, ...] = ()
    """The files of the runs of a network's brokers."""
    is_at_rest: bool = False
    merged: str = ""
    """The file in which they are written as one."""

    def events(self, schema: Schema | None) -> Iterator[tuple[int, Event | Rejection]]:
        """Each event, or why there is none, with the number of its line or row."""
        if self.runs:
            yield from self._merged(schema)
            return
        if self.tables:
            from fairlead.audit import parquet

            yield from parquet.read(*self.tables, schema=schema)
            return
        from fairlead.audit import read

        with opened(self.name) as stream:
            yield from read(chain(self.head, stream), self.name, schema)

    def _merged(self, schema: Schema | None) -> Iterator[tuple[int, Event]]:
        from fairlead.audit import format_event, read
        from fairlead.audit.merging import merged

        runs: list[list[Event]] = []
        for name in self.runs:
            with opened(name) as stream:
                # A broker that was killed has not ended its last line.
                lines = [line for line in stream if line.endswith(b"\n")]
            events: list[Event]
            _, events = _read(_Trace(name), read(lines, name, schema))
            runs.append(events)
        with contextlib.ExitStack() as files:
            out = files.enter_context(open(self.merged, "w", encoding="utf-8")) if self.merged else None
            for number, event in enumerate(merged(runs, at_rest=self.is_at_rest), 1):
                if out is not None:
                    out.write(f"{format_event(event)}\n")
                yield number, event

    def steps(self, schema: Schema | None) -> Iterator[tuple[int, Step | Ended | Rejection]]:
        """Each step of a run of fair correlation, or why there is none, with the number of its line."""
        from fairlead.audit.fair.files import read

        with opened(self.name) as stream:
            yield from read(chain(self.head, stream), self.name, schema)


def _is_network(paths: list[str]) -> bool:
    """Whether these are runs of brokers: several, or one that says so, or a directory of some."""
    if len(paths) > 1:
        return True
    path = Path(paths[0])
    if paths[0] == "-" or "://" in paths[0] or not path.exists():
        return False
    if path.is_dir():
        return bool(_runs_below(path))
    with opened(paths[0]) as stream:
        return any(b'"change":"broker"' in line for line in _head(stream))


def _network_at(arguments: argparse.Namespace) -> _Trace:
    runs: list[str] = []
    for path in arguments.trace:
        runs += _runs_below(Path(path)) if Path(path).is_dir() else [path]
    if not runs:
        raise BadInput(f"no traces of brokers at {', '.join(arguments.trace)}", hint="fairlead broker trace")
    return _Trace(
        ", ".join(arguments.trace),
        runs=tuple(runs),
        is_at_rest=arguments.at_rest,
        merged=arguments.merged or "",
    )


def _runs_below(directory: Path) -> list[str]:
    """The files of runs in a directory, or below it: that of a broker's log, or of several."""
    return sorted(str(each) for each in directory.rglob("traces/*.jsonl")) or sorted(
        str(each) for each in directory.glob("*.jsonl")
    )


def _trace_at(path: str) -> _Trace:
    if path != "-" and ("://" in path or Path(path).is_dir()):
        return _Trace(path, _tables_below(path))
    with opened(path) as stream:
        if path == "-":
            head = _head(stream)
            return _Trace(path, is_fair=_is_fair(head), head=head)
        if stream.read(4) == b"PAR1":
            return _Trace(path, (path,))
        stream.seek(0)
        return _Trace(path, is_fair=_is_fair(_head(stream)))


def _head(stream: BinaryIO) -> tuple[bytes, ...]:
    """The lines up to the first that is not blank."""
    head = []
    for line in stream:
        head.append(line)
        if line.strip():
            break
    return tuple(head)


def _is_fair(head: tuple[bytes, ...]) -> bool:
    if not head or b'"step"' not in head[-1]:  # spares a plain trace the import
        return False
    from fairlead.audit.fair.files import is_fair

    return is_fair(head[-1])


def _tables_below(path: str) -> tuple[str, ...]:
    """The directory itself; of a pipeline's output, the traces of the batches that are committed."""
    from fairlead.spark.output import Output

    output = Output(path)
    if not output.batches():
        return (path,)
    if not (found := output.paths("trace")):
        raise BadInput(f"{path}: the pipeline has written no trace", hint="[audit] trace = true lets it")
    return tuple(found)


def _judge_of(arguments: argparse.Namespace, trace: _Trace) -> Judge:
    """The checker for it; BadInput where it does not fit the arguments."""
    fitting = PROPERTIES if trace.is_fair else SPECIFICATIONS
    if arguments.spec not in (*fitting, ALL):
        what = "a run of fair correlation" if trace.is_fair else "a trace"
        raise BadInput(f"{trace.name}: {what}, to be judged by {', '.join(fitting)}, or {ALL}")
    wants_spark = _wants_spark(arguments, trace)
    if trace.is_fair:
        return _fair_on_spark if wants_spark else _fair
    return _on_spark if wants_spark else _here


def _wants_spark(arguments: argparse.Namespace, trace: _Trace) -> bool:
    if arguments.on is not None:
        return bool(arguments.on == "spark")
    if arguments.master or arguments.remote:
        return True
    if not trace.tables:
        return False
    from fairlead.audit import parquet

    return sum(file.bytes for file in parquet.files(*trace.tables)) > PYTHON_BYTES_MAX


# -- judging -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Judged:
    """A report about a trace, and the lines of its events in the file."""

    report: Report
    counts: Mapping[tuple[str, str], int]
    events: int
    lines: list[int] | None
    """The line of each event; None where the events are rows, counted from 1."""
    events_noun: str = "events"

    @property
    def noun(self) -> str:
        return "rows" if self.lines is None else "lines"

    def where(self, places: tuple[int, ...]) -> list[int]:
        return [place + 1 if self.lines is None else self.lines[place] for place in places]

    def count(self, finding: Finding) -> int:
        """The number of violations, shown or not."""
        return self.counts[finding.specification, finding.rule]

    def jsonable(self) -> dict[str, Any]:
        """The report, with lines of the file or rows of the table in place of the indexes in the trace."""
        jsonable = self.report.jsonable()
        for finding, written in zip(self.report, jsonable["findings"], strict=True):
            written["count"] = self.count(finding)
            for violation in written["violations"]:
                violation[self.noun] = self.where(violation.pop("indexes"))
        return jsonable


Judge: TypeAlias = Callable[[argparse.Namespace, _Trace, "Schema | None"], _Judged]


def _here(arguments: argparse.Namespace, trace: _Trace, schema: Schema | None) -> _Judged:
    from fairlead.audit import audit

    events: list[Event]
    lines, events = _read(trace, trace.events(schema))
    report = audit(events, *(_named(arguments) or (LIVE if trace.runs else ())))
    return _Judged(report, _counts(report), len(events), None if trace.tables else lines)


def _fair(arguments: argparse.Namespace, trace: _Trace, schema: Schema | None) -> _Judged:
    from fairlead.audit.fair.judging import audit_fair

    return _judged_fair(arguments, trace, schema, audit_fair)


def _fair_on_spark(arguments: argparse.Namespace, trace: _Trace, schema: Schema | None) -> _Judged:
    from fairlead.spark.sessions import check_installed, session

    check_installed()
    from fairlead.spark.fair_auditing import audit_fair

    spark = session(master=arguments.master, remote=arguments.remote)
    judge = partial(audit_fair, spark, schema=schema, extensions=arguments.extension)
    return _judged_fair(arguments, trace, schema, judge)


def _judged_fair(
    arguments: argparse.Namespace, trace: _Trace, schema: Schema | None, judge: Callable[..., Report]
) -> _Judged:
    from fairlead.audit.fair.files import run_of

    steps: list[Step | Ended]
    lines, steps = _read(trace, trace.steps(schema))
    run = run_of(steps)
    report = judge(run, *(name.replace("-", " ") for name in _named(arguments)))
    return _Judged(report, _counts(report), len(run.steps), lines, "steps")


def _counts(report: Report) -> dict[tuple[str, str], int]:
    return {(each.specification, each.rule): len(each.violations) for each in report}


def _on_spark(arguments: argparse.Namespace, trace: _Trace, schema: Schema | None) -> _Judged:
    from fairlead.spark.sessions import check_installed, session

    check_installed()
    from fairlead.audit import Language
    from fairlead.spark.auditing import audit
    from fairlead.spark.trace import frame_of, read

    spark = session(master=arguments.master, remote=arguments.remote)
    lines = None
    if trace.tables:
        from fairlead.audit import parquet

        if (language := parquet.language_of(*trace.tables)) is not None:
            schema = language.schema_for(schema)
        frame = read(spark, *trace.tables)
    else:
        events: list[Event]
        lines, events = _read(trace, trace.events(schema))
        for event in events:
            if isinstance(event, Language):
                schema = event.schema_for(schema)
        frame = frame_of(spark, events)
    shown = VIOLATIONS_FROM_SPARK if arguments.json else VIOLATIONS_SHOWN
    found = audit(frame, *_named(arguments), schema=schema, extensions=arguments.extension, shown=shown)
    return _Judged(found.report, found.counts, found.events, lines)


def _named(arguments: argparse.Namespace) -> tuple[str, ...]:
    return () if arguments.spec == ALL else (arguments.spec,)


def _read(
    trace: _Trace, numbered: Iterator[tuple[int, AnyEvent | Rejection]]
) -> tuple[list[int], list[AnyEvent]]:
    """The events of a trace and their lines; BadInput for a line that is no event."""
    from fairlead.ingest import Rejection

    lines: list[int] = []
    events: list[AnyEvent] = []
    rejected: list[str] = []
    for number, event in numbered:
        if isinstance(event, Rejection):
            rejected.append(f"{trace.name}:{number}: {event.reason}")
        else:
            lines.append(number)
            events.append(event)
    if rejected:
        more = len(rejected) - REJECTED_SHOWN
        shown = rejected[:REJECTED_SHOWN] + ([f"… and {more:,} more lines"] if more > 0 else [])
        raise BadInput("\n".join(shown), hint="a trace is judged as a whole, or not at all")
    return lines, events


# -- output --------------------------------------------------------------------------------------------------


def _show(judged: _Judged) -> None:
    names = [f"{finding.specification}: {finding.rule}" for finding in judged.report]
    width = max(28, *map(len, names))
    for name, finding in zip(names, judged.report, strict=True):
        verdict = finding.verdict.value
        say(f"{name:<{width}} {paint(verdict, COLOURS[verdict])}{_tally(finding, judged.count(finding))}")
        for violation in finding.violations[:VIOLATIONS_SHOWN]:
            where = ", ".join(map(str, judged.where(violation.indexes)))
            say(f"  {violation.what} ({judged.noun} {where})")
        if (more := judged.count(finding) - VIOLATIONS_SHOWN) > 0:
            say(f"  … and {more:,} more; --json has {_extent(judged, finding)}")
    verdict = judged.report.verdict.value
    say(f"{judged.events:,} {judged.events_noun}: {paint(verdict, 'bold', COLOURS[verdict])}")


def _tally(finding: Finding, count: int) -> str:
    if count:
        return f", {count:,}"
    return f", {finding.open:,} not delivered yet" if finding.open else ""


def _extent(judged: _Judged, finding: Finding) -> str:
    """The share of the rest that the other format has."""
    count = judged.count(finding)
    fits = len(finding.violations) == count or count <= VIOLATIONS_FROM_SPARK
    return "them all" if fits else f"the first {VIOLATIONS_FROM_SPARK:,}"
