"""The plot of the pipeline benchmark: throughput against a join, stages of a batch, latency of a stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from fairlead_lab.bench.jobs import FAIRLEAD, LOOP, LOOP_N, NEXT_N
from fairlead_lab.bench.pipeline import LOOP_TIMES, NEXT_TIMES, Report
from fairlead_lab.bench.plot import COLOURS, tick
from fairlead_lab.bench.tables import brief, sized
from fairlead_lab.plotting import pyplot, save

__all__ = ["draw"]

COLOUR: Final = {FAIRLEAD: COLOURS["columnar"], LOOP: COLOURS["brute"]}
WARNING: Final = COLOURS["ruler"]
GREY: Final = "#555555"


def draw(report: Report, path: Path) -> None:
    """Write the plot of a report as a PNG: a panel for each part that was measured."""
    drawing = pyplot()
    panels: list[Callable[[Any, Report], None]] = []
    if report.jobs:
        panels.append(_jobs)
    if report.sampled is not None:
        panels.append(_stages)
    if report.paces:
        panels.append(_paces)
    figure, axes = drawing.subplots(
        1, max(1, len(panels)), figsize=(5.2 * max(1, len(panels)) + 0.4, 4.6), squeeze=False
    )
    for panel, fill in zip(axes[0], panels, strict=False):
        fill(panel, report)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
        panel.set_axisbelow(True)
    machine = report.machine
    figure.suptitle("On Spark", fontsize=15, weight="bold")
    where = f"{machine['cpu']}, {machine['cores']} cores, {machine['date'][:10]}"
    figure.text(0.5, 0.885, where, ha="center", color=GREY)
    figure.tight_layout(rect=(0, 0, 1, 0.9))
    save(figure, [path])


def _jobs(panel: Any, report: Report) -> None:
    """Rates against n; the bars span the slowest to the fastest round, and the goals are marked."""
    for contender in (LOOP, FAIRLEAD):
        jobs = sorted((job for job in report.jobs if job.contender == contender), key=lambda job: job.n)
        spreads = [job.rate for job in jobs]
        low = [each.median - each.min for each in spreads]
        high = [each.max - each.median for each in spreads]
        panel.errorbar(
            [job.n for job in jobs],
            [each.median for each in spreads],
            yerr=[low, high],
            color=COLOUR[contender],
            marker="o",
            linewidth=2.0,
            capsize=3,
            label=contender if contender == FAIRLEAD else f"{contender} join",
        )
        for job, each in zip(jobs, spreads, strict=True):
            times = report.times(job)
            text = "" if times is None or contender == LOOP else f"{brief(times.median)}×"
            panel.annotate(
                text, (job.n, each.median), xytext=(7, 6), textcoords="offset points", color=COLOUR[contender]
            )
    loop = report.job(LOOP, LOOP_N)
    if loop is not None:
        for n, times_asked in ((LOOP_N, LOOP_TIMES), (NEXT_N, NEXT_TIMES)):
            rate = loop.rate.median * times_asked
            panel.plot(n, rate, marker="_", markersize=28, color="#333333", linestyle="none")
            panel.annotate(
                f"goal {times_asked}×",
                (n, rate),
                xytext=(0, -11),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
    sizes = sorted({job.n for job in report.jobs})
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(sizes[0] / 2, sizes[-1] * 2.6)
    panel.set_xticks(sizes, [sized(n) for n in sizes])
    panel.xaxis.minorticks_off()
    panel.yaxis.set_major_formatter(lambda value, _: tick(value))
    panel.grid(True, which="major", color="#E4E4E4", linewidth=0.7)
    panel.set_title("M1, Parquet to pairs: rows per second against n", fontsize=10, loc="left")
    panel.legend(frameon=False, loc="center right")


def _stages(panel: Any, report: Report) -> None:
    """The seconds of each stage of a batch, the first on top."""
    sampled = report.sampled
    assert sampled is not None
    names = [*sampled.stages][::-1]
    seconds = [sampled.seconds(name).median for name in names]
    panel.barh(names, seconds, color=COLOUR[FAIRLEAD], height=0.62)
    for place, each in enumerate(seconds):
        panel.annotate(
            f"{brief(each)} s",
            (each, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    panel.set_xlim(0, max(seconds) * 1.18)
    panel.tick_params(axis="y", length=0)
    panel.set_xlabel("seconds")
    rate = sampled.rows / sampled.seconds().median
    title = f"The demo's pipeline in batch: {sampled.rows:,} rows, {brief(rate)} rows/s"
    panel.set_title(title, fontsize=10, loc="left")


def _paces(panel: Any, report: Report) -> None:
    """Latency against the rate; what fell behind is marked."""
    paces = [pace for pace in report.paces if pace.latency_s]
    rates = [pace.rows_per_s for pace in paces]
    for style, name, figures in (
        ("-", "median", [pace.median_s for pace in paces]),
        ("--", "99 in 100", [pace.p99_s for pace in paces]),
    ):
        panel.plot(rates, figures, style, color=COLOUR[FAIRLEAD], marker="o", linewidth=1.8, label=name)
    behind = [pace for pace in paces if not pace.keeps_up]
    if behind:
        panel.plot(
            [pace.rows_per_s for pace in behind],
            [pace.median_s for pace in behind],
            linestyle="none",
            marker="X",
            markersize=11,
            color=WARNING,
            label="falls behind",
            zorder=4,
        )
    panel.set_xscale("log")
    panel.set_xticks(rates, [sized(rate) for rate in rates])
    panel.xaxis.minorticks_off()
    panel.set_yscale("log")
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" else "")
    panel.set_xlabel("rows per second")
    panel.set_ylabel("seconds")
    panel.grid(True, which="major", color="#E4E4E4", linewidth=0.7)
    panel.set_title("Streaming: from the arrival of a file to its commit", fontsize=10, loc="left")
    panel.legend(frameon=False, loc="upper left")
