"""`fairlead demo`: a day on the market through a pipeline on Spark, with a report to look at.

The sample is made from a seed: the same seed gives the same events, subscriptions and deliveries.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.run import COLOURS, run_pipeline
from fairlead.cli.terminal import paint, say, speaks_unicode
from fairlead.errors import BadInput, FairleadError
from fairlead.model import ABSENT

if TYPE_CHECKING:
    from fairlead.spark.desks import Border
    from fairlead.spark.sample import Sample
    from fairlead.spark.showcase import Busiest, Example
    from fairlead.spark.summary import Summary

__all__ = ["configure"]

DIRECTORY: Final = "fairlead-demo"
MARK: Final = ".fairlead-demo"
"""The file that marks a directory of the demo: it may be written anew."""
WIDTH: Final = 96


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "A day on the market: quotes, orders, trades, news and weather for ten thousand subscriptions and some "
        "patterns, through a pipeline on Spark, in about a minute. Shows who got what and why, what a pattern "
        "found, what scopes let through between two desks, the audit's verdict, and a report."
    )
    parser.epilog = "Example: fairlead demo --events 5000 --out /tmp/demo"
    parser.add_argument("--seed", metavar="N", type=int, default=74, help="what the sample is drawn from")
    parser.add_argument(
        "--events", metavar="N", type=_count, default=10_000, help="how many events (default: 10000)"
    )
    parser.add_argument(
        "--subscriptions", metavar="N", type=_count, default=10_000, help="how many (default: 10000)"
    )
    parser.add_argument(
        "--out", metavar="DIR", default=DIRECTORY, help=f"where to write it all (default: {DIRECTORY})"
    )
    parser.set_defaults(run=run)


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"at least one, not {count}")
    return count


def run(arguments: argparse.Namespace) -> int:
    from fairlead.spark.config import Config
    from fairlead.spark.sample import write_sample
    from fairlead.spark.sessions import check_installed

    check_installed()
    directory = _fresh(Path(arguments.out))
    started = time.monotonic()
    sample = write_sample(
        directory, events=arguments.events, subscriptions=arguments.subscriptions, seed=arguments.seed
    )
    _show_sample(sample, time.monotonic() - started)
    _heading("The pipeline")
    config = Config.read(sample.pipeline)
    try:
        from fairlead.spark.desks import border_crossed, write_desks
        from fairlead.spark.running import Pipeline
        from fairlead.spark.showcase import busiest, examples

        pipeline = Pipeline(config)
        summary, stopped = run_pipeline(pipeline, config)
        _show_run(summary)
        if stopped and not summary.finished:
            say(f"  stopped; fairlead run {sample.pipeline} goes on from here")
            return 130
        _show_busiest(busiest(pipeline, 3), sample)
        deliveries, composites = _distinct(examples(pipeline, 3), sample)
        _show_examples(deliveries, _filters(sample))
        _show_composites(composites, sample)
        desks = Pipeline(Config.read(write_desks(directory)), pipeline.spark)
        desks.run()
        _show_border(border_crossed(desks), directory)
    except Exception as error:
        from fairlead.spark.failures import reason

        raise reason(error) or FairleadError(f"unexpected {type(error).__name__}: {error}") from error
    _show_where(summary, sample)
    return 1 if summary.violated else 0


def _fresh(directory: Path) -> Path:
    """A directory to write to: a new one, or that of an earlier demo."""
    if directory.exists() and any(directory.iterdir()):
        if not (directory / MARK).exists():
            raise BadInput(f"{directory} exists, and is not that of a demo", hint="name another with --out")
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / MARK).touch()
    return directory


def _heading(text: str) -> None:
    rule = "─" if speaks_unicode(sys.stdout) else "-"
    say()
    say(paint(f"{rule * 2} {text} {rule * max(2, 74 - len(text))}", "bold"))


def _show_sample(sample: Sample, seconds: float) -> None:
    _heading("A day on the market")
    say(
        f"  {sample.events:,} events, {sample.duplicates:,} of them twice, some out of order, a few far too late, "
        f"and {sample.broken:,} lines that cannot be read"
    )
    say(f"  {sample.subscriptions:,} subscriptions of {sample.subscribers:,} persons, for instance")
    with open(sample.directory / "subscriptions.jsonl", encoding="utf-8") as lines:
        for line, _ in zip(lines, range(5), strict=False):
            row = json.loads(line)
            say(f"    {paint(row['subscriber'], 'cyan')}: {_cut(row['filter'])}")
    say(paint(f"  written to {sample.directory} in {seconds:.1f} s", "dim"))


def _show_run(summary: Summary) -> None:
    say(
        f"  {summary.read:,} rows in {summary.batches} batches, {summary.seconds:.0f} s with the start of Spark, "
        f"the audit and the report"
    )
    say(f"  {paint(f'{summary.deliveries:,}', 'green')} deliveries, in order and once")
    say(
        f"  {paint(f'{summary.composites:,}', 'green')} composite events, detected by {summary.patterns} patterns"
    )
    say(
        f"  {summary.rejected:,} rows rejected, {summary.duplicates:,} duplicates dropped, "
        f"{summary.late:,} on the late channel"
    )
    verdicts = (
        f"{name} {paint(verdict, COLOURS.get(verdict, 'dim'))}" for name, verdict in summary.verdicts.items()
    )
    say(f"  audit: {', '.join(verdicts)}")


def _show_busiest(found: Busiest, sample: Sample) -> None:
    persons = {row["subscriber"] for of in ("subscriptions", "patterns") for row in _rows(sample, of)}
    most = ", ".join(f"{paint(name, 'cyan')} {count:,}" for name, count in found.first)
    nothing = len(persons) - found.reached
    say(f"  most went to {most or 'nobody'}; {nothing:,} of {len(persons):,} persons and desks got nothing")


def _show_examples(found: list[Example], filters: dict[str, str]) -> None:
    from fairlead.filters import parse
    from fairlead.filters.explain import explain

    _heading("Three deliveries, and why")
    ascii_only = not speaks_unicode(sys.stdout)
    for example in found:
        name = paint(example.subscriber, "cyan")
        say(f"  {name} received, through {', '.join(example.subscriptions)}:")
        say(f"    {_cut(example.text)}")
        for id in example.subscriptions[:1]:
            for line in explain(parse(filters[id]), example.notification).lines(ascii=ascii_only, depth=3):
                say(f"  {line}")


def _distinct(found: list[Example], sample: Sample) -> tuple[list[Example], list[Example]]:
    """Deliveries of notifications, and those of composites."""
    patterns = {row["id"] for row in _rows(sample, "patterns")}
    composites = [each for each in found if patterns & set(each.subscriptions)]
    return [each for each in found if each not in composites], composites


def _show_composites(composites: list[Example], sample: Sample) -> None:
    """Show the composites of a pattern: its text, then what was taken, one by one."""
    from fairlead.spark.report import CompositeExample

    texts = {row["id"]: row["pattern"] for row in _rows(sample, "patterns")}
    mark, wait = ("●", "○") if speaks_unicode(sys.stdout) else ("*", "o")
    for example in composites:
        id = next(id for id in example.subscriptions if id in texts)
        found = CompositeExample.of(example.notification, id)
        _heading("A pattern, and a composite")
        say(f"  {paint(example.subscriber, 'cyan')} subscribed to the pattern {id}:")
        for line in wrap(texts[id], WIDTH, break_long_words=False):
            say(f"    {line}")
        took = timedelta(seconds=(found.end - found.start) // 1_000_000)
        say(f"  and received a {paint(found.type, 'green')}, whose events span {took}:")
        for each in found.constituents:
            what = f"{each.type}: {each.about}"
            say(
                f"    {paint(mark, 'green')} {_clock(each.time)}  {paint(f'{each.step:<8}', 'cyan')} {_cut(what)}"
            )
        if found.waited:
            say(f"    {wait} {_clock(found.end)}  {paint('time is over', 'dim')}")


def _show_border(border: Border, directory: Path) -> None:
    """Show who got which orders by the scopes of the desks, and an order on both sides of a border."""
    _heading("Two desks, and a border between currencies")
    counts = ", ".join(f"{paint(name, 'cyan')} {count:,}" for name, count in sorted(border.counts.items()))
    say(f"  all three subscribed to all orders; scopes let through: {counts or 'nothing'}")
    if border.published is None or border.outside is None:
        return
    for whom, seen in (("desk-frankfurt", border.published), ("clearing", border.outside)):
        shown = {name: seen.get(name) for name in ("symbol", "side", "quantity", "limit", "usd")}
        content = ", ".join(f"{name} {value}" for name, value in shown.items() if value is not ABSENT)
        say(f"    {paint(f'{whom:<14}', 'cyan')} {content}")
    for line in border.explained(directory, "desk-tokyo"):
        say(f"    {_cut(line)}")
    say(paint(f"  the graph is {directory / 'desks.scopes'}; fairlead scope show draws it", "dim"))


def _clock(microseconds: int) -> str:
    return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%H:%M:%S}"


def _filters(sample: Sample) -> dict[str, str]:
    return {row["id"]: row["filter"] for row in _rows(sample, "subscriptions")}


def _rows(sample: Sample, of: str) -> list[dict[str, Any]]:
    with open(sample.directory / f"{of}.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _show_where(summary: Summary, sample: Sample) -> None:
    _heading("To look at")
    say(f"  report      {summary.report}")
    say(f"  deliveries  {summary.output}/deliveries")
    say(
        paint(f"  the pipeline is {sample.pipeline}; with another output: fairlead run … --output DIR", "dim")
    )


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
