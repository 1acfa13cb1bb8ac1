"""`fairlead bench`: measure, side by side with what one would use instead."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.inputs import BadInput
from fairlead.cli.terminal import note, say, write_utf8

if TYPE_CHECKING:
    from fairlead.bench.cell import Cell
    from fairlead.bench.matching import Plan, Report
    from fairlead.bench.tables import Grid

__all__ = ["configure"]

UNITS: Final = {"k": 1_000, "m": 1_000_000}
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the benchmarks."""
    parser.description = "Measure Fairlead, side by side with what one would use instead."
    parser.epilog = "Example: fairlead bench matching --quick --shape M1 M4"
    benchmarks = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    _configure_matching(benchmarks.add_parser("matching", help="matching engines on the shapes M1 to M8"))


def _configure_matching(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Measure the matching engines on the shapes M1 to M8. Each engine first answers like the oracle; what is "
        "too slow is reported as such."
    )
    parser.epilog = (
        "Example: fairlead bench matching --shape M1 M5 --n 1k 100k --engine columnar brute --out results. "
        "Exit code: 1 when an engine answered otherwise than the oracle."
    )
    parser.add_argument(
        "--shape", metavar="M", nargs="+", help="the shapes (default: all); M4 is all of M4-…"
    )
    parser.add_argument(
        "--n", metavar="N", nargs="+", type=_count, help="numbers of subscriptions, such as 10k or 1M"
    )
    parser.add_argument(
        "--engine", metavar="NAME", nargs="+", help="the engines, or classes as module:Class (default: all)"
    )
    parser.add_argument("--rounds", metavar="R", type=_count, help="rounds for each figure")
    parser.add_argument(
        "--patience", metavar="S", type=float, help="seconds for a slow engine to fill, and to match"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes and short rounds: a few minutes")
    parser.add_argument("--peers", action="store_true", help="also Event Ruler, Quamina and Hypermatch")
    parser.add_argument("--json", action="store_true", help="write everything as JSON")
    parser.add_argument("--markdown", action="store_true", help="write the tables as Markdown")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="keep the JSON, the tables and the plot there"
    )
    parser.add_argument(
        "--from", metavar="FILE", type=Path, dest="source", help="show a run that --out kept; measure nothing"
    )
    parser.add_argument(
        "--update", metavar="PAGE", type=Path, help=f"replace what stands between {BEGIN} and {END}"
    )
    parser.set_defaults(run=run_matching)


def _count(text: str) -> int:
    """A number of at least one, such as 500, 10k or 1M."""
    digits, unit = (text[:-1], UNITS[text[-1].lower()]) if text[-1:].lower() in UNITS else (text, 1)
    try:
        count = int(digits.replace(",", "").replace("_", "")) * unit
    except ValueError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"not a number such as 500, 10k or 1M: {text!r}")
    return count


def run_matching(arguments: argparse.Namespace) -> int:
    report = _kept(arguments.source) if arguments.source else _measured(_plan(arguments))
    if arguments.out is not None:
        _keep(report, arguments.out)
    if arguments.update is not None:
        _update(arguments.update, report.markdown())
    write_utf8()
    if arguments.json:
        json.dump(report.to_json(), sys.stdout, indent=1)
        say()
    elif arguments.markdown:
        sys.stdout.write(report.markdown())
    else:
        _show(report)
    return 1 if report.wrong else 0


def _plan(arguments: argparse.Namespace) -> Plan:
    from fairlead.bench.matching import Plan, shapes_named

    given: dict[str, Any] = {"peers": arguments.peers}
    if arguments.shape:
        given["shapes"] = tuple(shapes_named(arguments.shape))
    if arguments.n:
        given["sizes"] = tuple(sorted(set(arguments.n)))
    if arguments.engine:
        given["engines"] = tuple(dict.fromkeys(arguments.engine))
    if arguments.rounds:
        given["rounds"] = arguments.rounds
    if arguments.patience:
        given["patience_s"] = arguments.patience
    return Plan.short(**given) if arguments.quick else Plan(**given)


def _measured(plan: Plan) -> Report:
    from fairlead.bench.matching import run

    return run(plan, _tell)


def _tell(cell: Cell) -> None:
    """A line for each cell as it is done: a run takes minutes."""
    from fairlead.bench.tables import compact, sized

    rates = ", ".join(f"{mode} {compact(spread.median)}/s" for mode, spread in cell.rates.items())
    note(f"{cell.shape:<12} {sized(cell.n):>5}  {cell.engine:<10} {rates or f'{cell.status}: {cell.reason}'}")


# -- what is kept ------------------------------------------------------------------------------------------


def _kept(path: Path) -> Report:
    from fairlead.bench.matching import Report

    try:
        return Report.read(path)
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: not the JSON of a benchmark", hint="--out writes such a file") from error


def _keep(report: Report, directory: Path) -> None:
    from fairlead.bench.plot import PlotUnavailable, draw

    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report.to_json(), indent=1)
    (directory / "matching.json").write_text(f"{text}\n", encoding="utf-8")
    (directory / "matching.md").write_text(report.markdown(), encoding="utf-8")
    try:
        draw(report, directory / "matching.png")
    except PlotUnavailable as missing:  # a run of minutes is not thrown away for a picture
        note(str(missing))
    note(f"kept in {directory}")


def _update(page: Path, tables: str) -> None:
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BadInput(f"{page}: no place for tables", hint=f"mark it with {BEGIN} and {END}")
    page.write_text(f"{before}{begin}\n{tables}{end}{after}", encoding="utf-8")


# -- what is shown -----------------------------------------------------------------------------------------


def _show(report: Report) -> None:
    for line in report.facts():
        say(line)
    for grid in report.grids():
        say()
        if not (sys.stdout.isatty() and _show_rich(grid)):
            say(grid.plain())


def _show_rich(grid: Grid) -> bool:
    """Draw a table for a terminal; False where the library for it is not installed."""
    try:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(title=Text(grid.title, style="bold"), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for place, head in enumerate(grid.heads):
        table.add_column(head, justify="left" if place in grid.left else "right", overflow="fold")
    for row in grid.rows:
        style = "bold" if "columnar" in row else "dim" if any("not run" in text for text in row) else ""
        table.add_row(*(Text(text) for text in row), style=style)
    Console().print(table)
    return True
