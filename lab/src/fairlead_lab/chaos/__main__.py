"""`python -m fairlead_lab.chaos`: rounds of chaos, one seed after the other, and a table of what they gave."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from fairlead_lab.chaos.accounts import Tally
from fairlead_lab.chaos.harness import Round, RoundReport
from fairlead_lab.chaos.schedule import FAULTS

__all__ = ["main"]

BEGIN: Final = "<!-- chaos: written by make chaos -->"
END: Final = "<!-- end of chaos -->"
ROUND_S: Final = 15.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run rounds until the time is over; 1 if one of them does not hold."""
    given = _parser().parse_args(arguments)
    began, reports = time.monotonic(), []
    for seed in _seeds(given.seed, given.rounds):
        if given.rounds is None and time.monotonic() - began >= given.seconds:
            break
        directory = Path(given.keep or tempfile.mkdtemp(prefix="fairlead-chaos-")) / f"seed-{seed}"
        report = run(seed, directory, given.round_seconds)
        if report is None or not report.holds:
            return 1
        reports.append(report)
        print(f"seed {seed}: {report.tally}; quiet after {report.healed_s:.1f} s", flush=True)
        if given.keep is None:
            shutil.rmtree(directory.parent)
    if given.write is not None:
        write(given.write, reports, given.round_seconds)
    return 0


def run(seed: int, directory: Path, seconds: float) -> RoundReport | None:
    """One round; what went wrong is printed, with how to see it again."""
    report: RoundReport | None = None
    try:
        report = asyncio.run(Round(seed, directory, seconds).run())
    except (TimeoutError, RuntimeError) as error:
        print(f"seed {seed}: {error}", file=sys.stderr)
    if report is None or not report.holds:
        if report is not None:
            print(f"seed {seed}: {report.tally}\naudit: {report.verdict.value}", file=sys.stderr)
        again = f"python -m fairlead_lab.chaos --seed {seed} --rounds 1 --round-seconds {seconds:g}"
        print(f"trace and logs: {directory}\nagain: {again}", file=sys.stderr, flush=True)
    return report


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fairlead_lab.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first round (default: 1)")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to go on (default: 600)")
    parser.add_argument("--rounds", type=int, help="so many rounds, however long they take")
    parser.add_argument("--round-seconds", type=float, default=ROUND_S, help="how long faults go on in one")
    parser.add_argument("--keep", metavar="DIR", help="keep traces and logs here")
    parser.add_argument(
        "--write", metavar="FILE", type=Path, help="write the table between its marks in a page"
    )
    return parser


def _seeds(first: int, rounds: int | None) -> Iterator[int]:
    seed = first
    while rounds is None or seed < first + rounds:
        yield seed
        seed += 1


# -- the table -----------------------------------------------------------------------------------------------


def write(page: Path, reports: list[RoundReport], seconds: float) -> None:
    """Put the table into the page, in place of the one that is there."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: there is no place for the table, {BEGIN} … {END}")
    page.write_text(f"{before}{BEGIN}\n{table(reports, seconds)}\n{END}{after}", encoding="utf-8")


def table(reports: list[RoundReport], seconds: float) -> str:
    """The table of a run, in Markdown."""
    tally = sum((report.tally for report in reports), Tally())
    faults = {kind: sum(report.faults[kind] for report in reports) for kind in FAULTS}
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    rows: list[tuple[str, object]] = [
        ("date", time.strftime("%Y-%m-%d", time.gmtime())),
        ("machine", f"{os.cpu_count()} cores, {system}"),
        ("rounds", f"{len(reports)}, with {seconds:g} s of faults each"),
        ("seeds", f"{reports[0].seed} to {reports[-1].seed}" if reports else "none"),
        ("published", tally.published),
        ("acknowledged", tally.acknowledged),
        ("delivered", tally.delivered),
        ("**lost**", tally.lost),
        ("**duplicated**", tally.duplicated),
        ("**misdelivered**", tally.misdelivered),
        ("**out of order**", tally.out_of_order),
        ("missed by best-effort subscribers", tally.missed),
        ("delivered again after a subscriber's crash", tally.repeated),
        ("publications that came again and were known", sum(report.replayed for report in reports)),
        ("bytes of unsynced logs cut off", sum(report.cut_bytes for report in reports)),
        (
            "longest time from the last fault to quiet",
            f"{max((r.healed_s for r in reports), default=0):.1f} s",
        ),
    ]
    lines = ["| what | count |", "| --- | ---: |", *(f"| {what} | {_shown(count)} |" for what, count in rows)]
    lines += ["", "| fault | times | what happens |", "| --- | ---: | --- |"]
    lines += [f"| {kind} | {faults[kind]:,} | {meaning} |" for kind, meaning in FAULTS.items()]
    return "\n".join(lines)


def _shown(count: object) -> str:
    return f"{count:,}" if isinstance(count, int) else str(count)


if __name__ == "__main__":
    sys.exit(main())
