"""The floor: what one would write on Spark by hand, and the whole pipeline as a multiple of it.

    a figure of the pipeline    =    its time / the floor's, on the same rows, in the same round

The floor reads JSON lines, parses them with `from_json`, drops duplicates by (producer, id), makes as many rows of
each notification as it has deliveries, and writes them with the line as payload, sorted by (bucket, subscriber,
order key), to Parquet in 16 buckets. It matches nothing, holds nothing back, commits nothing and audits nothing:
nobody gets below it on Spark. The first run of each contender in a session is cold, and told apart.

Beside seconds stand the seconds of cores: where others are at work on the machine, these say more.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from fairlead_lab.bench.cores import Round, ratios, timed
from fairlead_lab.bench.jobs import CHUNK, Plan, Tell, notifications
from fairlead_lab.bench.runner import Spread, spread_of
from fairlead_lab.spark.floor import SUBSCRIBERS, floor

if TYPE_CHECKING:
    from fairlead.spark.config import Config

__all__ = ["AUDITED", "FLOOR", "GOALS", "LARGE", "LARGE_S", "Floor", "measure_floor"]

FLOOR: Final = "the floor"
LARGE: Final = "M1, large"
PIPELINE, AUDITED = "pipeline", "with trace and audit"
GOALS: Final = {PIPELINE: 2.0, AUDITED: 4.0, "with patterns and report, too": 5.0}
"""The goals, warm, in multiples of the floor."""
LARGE_S: Final = 60.0
"""The goal for a million events against 100,000 subscriptions, audited."""
BEGINNING_US: Final = 1_700_000_000_000_000


@dataclass(frozen=True, slots=True)
class Floor:
    """The contenders on one workload, round by round."""

    workload: str
    rows: int
    subscriptions: int
    deliveries: int
    rounds: dict[str, tuple[Round, ...]] = field(default_factory=dict)
    """Of each contender; the first round is the cold one."""

    def times(self, contender: str, cpu: bool = False) -> Spread | None:
        """The factor between a contender's time and the floor's, warm; in seconds, or in seconds of cores."""
        found = ratios(self.rounds[contender], self.rounds[FLOOR], cpu=cpu)
        return spread_of(found) if found else None

    def cold(self, contender: str) -> float:
        return self.rounds[contender][0].seconds / self.rounds[FLOOR][0].seconds


def measure_floor(spark: Any, plan: Plan, directory: Path, tell: Tell) -> tuple[list[Floor], list[str]]:
    """The floor and the pipeline on the demo's sample and on M1; and what was not as it must be."""
    problems: list[str] = []
    found = []
    for name, config in (("the demo's sample", _sample(plan, directory)), ("M1", _m1(plan, directory))):
        measured = _Measuring(spark, name, config, directory / "floor-out", problems)
        found.append(measured.measured(plan, _contenders(config), tell))
    if plan.large:
        large = replace(plan, events=plan.large_events, subscriptions=plan.large_subscriptions)
        config = _m1(large, directory / "large")
        measured = _Measuring(spark, LARGE, config, directory / "floor-out", problems)
        found.append(measured.measured(large, {AUDITED: config}, tell))
    return found, problems


def _sample(plan: Plan, directory: Path) -> Config:
    from fairlead.spark.config import Config
    from fairlead.spark.sample import write_sample

    sample = write_sample(directory / "floor-sample", events=plan.events, subscriptions=plan.subscriptions)
    return replace(Config.read(sample.pipeline), mode="batch")


def _m1(plan: Plan, directory: Path) -> Config:
    """M1 as JSON lines, with a pipeline for it."""
    from fairlead.spark.config import Config
    from fairlead_lab.matching.shapes import SHAPES

    home = directory / "floor-m1"
    (home / "events").mkdir(parents=True)
    for start in range(0, plan.events, CHUNK):
        rows = notifications(start, min(plan.events, start + CHUNK)).to_pylist()
        lines = (json.dumps({**row, "time": BEGINNING_US + int(row["id"])}) for row in rows)
        (home / "events" / f"{start:09}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    asked = SHAPES["M1"].filters(plan.subscriptions, Random(1))
    with (home / "subscriptions.jsonl").open("w", encoding="utf-8") as file:
        for number, filter in enumerate(asked):
            row = {"id": f"s{number}", "subscriber": f"u{number % SUBSCRIBERS}", "filter": str(filter)}
            file.write(f"{json.dumps(row)}\n")
    (home / "pipeline.toml").write_text(
        'name = "M1"\nmode = "batch"\noutput = "out"\n[events]\npath = "events"\nformat = "json"\n'
        '[subscriptions]\npath = "subscriptions.jsonl"\n'
        '[audit]\nspecifications = ["simple", "fifo", "causal", "total", "ordered"]\n'
    )
    return Config.read(home / "pipeline.toml")


def _contenders(config: Config) -> dict[str, Config]:
    """The pipeline with more and more to do."""
    bare = replace(config.audit, specifications=(), trace=False)
    found = {
        PIPELINE: replace(config, patterns=None, report=False, audit=bare),
        AUDITED: replace(config, patterns=None, report=False),
    }
    if config.patterns is not None:
        found["with patterns and report, too"] = config
    return found


@dataclass(slots=True)
class _Measuring:
    """The contenders on one workload, as they run."""

    spark: Any
    name: str
    config: Config
    output: Path
    problems: list[str]
    rows: int = 0
    deliveries: int = 0

    def measured(self, plan: Plan, contenders: Mapping[str, Config], tell: Tell) -> Floor:
        rounds: dict[str, list[Round]] = {}
        # Who comes first pays for what all need; how many deliveries there are is known behind the pipeline.
        work: dict[str, Callable[[], None]] = {
            name: partial(self._run, own) for name, own in contenders.items()
        }
        work[FLOOR] = self._floor
        for number in range(plan.sample_rounds + 1):
            for contender, once in work.items():
                took = timed(once)
                rounds.setdefault(contender, []).append(took)
                shutil.rmtree(self.output)
                cold = "" if number else ", cold"
                tell(f"{self.name}: {contender} {took.seconds:.1f} s, {took.cpu_s or 0:.1f} s of cores{cold}")
        taken = {contender: tuple(each) for contender, each in rounds.items()}
        return Floor(self.name, self.rows, plan.subscriptions, self.deliveries, taken)

    def _run(self, config: Config) -> None:
        from fairlead.spark.running import Pipeline

        summary = Pipeline(replace(config, output=str(self.output)), self.spark).run()
        self.rows, self.deliveries = summary.read, self.deliveries or summary.deliveries
        if wrong := [each for each, verdict in summary.verdicts.items() if verdict != "holds"]:
            self.problems.append(f"{self.name}: {', '.join(wrong)} does not hold")

    def _floor(self) -> None:
        events = str(self.config.events[0].path)
        floor(self.spark, events, str(self.output), self.deliveries / max(1, self.rows))
