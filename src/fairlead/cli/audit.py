"""`fairlead audit`: does a trace keep the specification? Each violation comes with the lines that prove it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fairlead.cli.inputs import add_language_options, language, opened
from fairlead.cli.terminal import emit_json, paint, say
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.audit import Event, Finding, Report
    from fairlead.filters import Schema

__all__ = ["configure"]

SPECIFICATIONS = ("simple", "fifo", "causal", "total", "advertisements", "all")
REJECTED_SHOWN = 5
VIOLATIONS_SHOWN = 10
COLOURS = {"holds": "green", "open": "yellow", "violated": "red"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Judge a trace, which the bus, the simulator, the network and the pipeline can write, by the "
        "specification of event systems. A violation is told with the lines of the trace that prove it. What is "
        "missing from a trace that has not ended is open: it may still come."
    )
    parser.epilog = (
        "Example: fairlead audit trace.jsonl --spec fifo. "
        "Exit code: 0 when nothing is violated, 1 when something is, 2 when the trace cannot be read."
    )
    parser.add_argument("trace", metavar="TRACE", help="JSON lines; - is standard input")
    parser.add_argument(
        "--spec",
        metavar="NAME",
        choices=SPECIFICATIONS,
        default="all",
        help=f"{', '.join(SPECIFICATIONS[:-1])}, or all (default); all takes advertisements in place of simple "
        "where somebody advertises",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_language_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fairlead.audit import TraceRefused, Verdict, audit

    lines, events = _read(arguments.trace, language(arguments))
    named = () if arguments.spec == "all" else (arguments.spec,)
    try:
        report = audit(events, *named)
    except TraceRefused as error:
        raise BadInput(f"{arguments.trace}: {error}") from None
    if arguments.json:
        emit_json(_jsonable(report, lines))
    else:
        _show(report, lines, len(events))
    return 1 if report.verdict is Verdict.VIOLATED else 0


def _read(path: str, schema: Schema | None) -> tuple[list[int], list[Event]]:
    """The events of a trace and the lines they stand in; BadInput where a line is no event."""
    from fairlead.audit import read
    from fairlead.ingest import Rejection

    lines: list[int] = []
    events: list[Event] = []
    rejected: list[str] = []
    with opened(path) as stream:
        for number, event in read(stream, path, schema):
            if isinstance(event, Rejection):
                rejected.append(f"{path}:{number}: {event.reason}")
            else:
                lines.append(number)
                events.append(event)
    if rejected:
        more = len(rejected) - REJECTED_SHOWN
        shown = rejected[:REJECTED_SHOWN] + ([f"… and {more:,} more lines"] if more > 0 else [])
        raise BadInput("\n".join(shown), hint="a trace is judged as a whole, or not at all")
    return lines, events


def _jsonable(report: Report, lines: list[int]) -> dict[str, Any]:
    """The report, with the lines of the file in place of the places in the trace."""
    jsonable = report.jsonable()
    for finding in jsonable["findings"]:
        for violation in finding["violations"]:
            violation["lines"] = [lines[place] for place in violation.pop("places")]
    return jsonable


def _show(report: Report, lines: list[int], events: int) -> None:
    for finding in report:
        verdict = finding.verdict.value
        name = f"{finding.specification}: {finding.rule}"
        say(f"{name:<28} {paint(verdict, COLOURS[verdict])}{_count(finding)}")
        for violation in finding.violations[:VIOLATIONS_SHOWN]:
            where = ", ".join(str(lines[place]) for place in violation.places)
            say(f"  {violation.what} (lines {where})")
        if len(finding.violations) > VIOLATIONS_SHOWN:
            say(f"  … and {len(finding.violations) - VIOLATIONS_SHOWN:,} more; --json has them all")
    verdict = report.verdict.value
    say(f"{events:,} events: {paint(verdict, 'bold', COLOURS[verdict])}")


def _count(finding: Finding) -> str:
    if finding.violations:
        return f", {len(finding.violations):,}"
    return f", {finding.open:,} not delivered yet" if finding.open else ""
