"""Spark judges a run of fair correlation as the plain program does, finding by finding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairlead.audit import Verdict
from fairlead.audit.fair import PROPERTIES, Delivered, FairRun
from fairlead.audit.fair import audit_fair as plain_audit
from fairlead.audit.fair.files import write
from fairlead.cli import main
from fairlead.spark.fair_auditing import audit_fair
from fairlead_lab.simulation.fair import FairCell, FairScenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def run() -> FairRun:
    """Few subscribers that share subscriptions; some join late."""
    fair = {"setup": "B", "effort": 100, "variants": 1, "joins": 2}
    scenario = FairScenario.of({"kind": "fair", "fair": fair})
    found: list[FairRun] = []
    FairCell("B", "faidecs", 3, 5).run(scenario, lambda _, run: found.append(run))
    return found[0]


def broken(run: FairRun) -> FairRun:
    """Without a delivery, with one twice, and with two exchanged."""
    steps = list(run.steps)
    own = [index for index, step in enumerate(steps) if isinstance(step, Delivered)]
    last = [index for index in own if steps[index].process == "subscriber 2"][-2:]
    steps[last[0]], steps[last[1]] = steps[last[1]], steps[last[0]]
    steps.append(steps[own[0]])
    del steps[own[-1]]
    return FairRun(tuple(steps), run.finished)


def test_spark_finds_what_the_plain_program_finds(spark: SparkSession, run: FairRun) -> None:
    right, wrong = audit_fair(spark, run), audit_fair(spark, broken(run))
    assert (right, right.verdict) == (plain_audit(run), Verdict.HOLDS)
    assert (wrong, wrong.verdict) == (plain_audit(broken(run)), Verdict.VIOLATED)
    assert len(right.findings) == len(PROPERTIES)
    assert len(wrong.violated()) >= 2
    one = audit_fair(spark, run, "covering agreement")
    assert one == plain_audit(run, "covering agreement")


def test_the_command_judges_it_on_spark(
    spark: SparkSession, run: FairRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, each, code in (("right", run, 0), ("wrong", broken(run), 1)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(f"{line}\n" for line in write(each)))
        assert main(["audit", str(path), "--on", "spark"]) == code
        on_spark = capsys.readouterr().out
        assert main(["audit", str(path), "--on", "python"]) == code
        assert capsys.readouterr().out == on_spark


def test_a_property_that_is_none_is_refused(spark: SparkSession, run: FairRun) -> None:
    with pytest.raises(ValueError, match="no such property: fairness"):
        audit_fair(spark, run, "fairness")
