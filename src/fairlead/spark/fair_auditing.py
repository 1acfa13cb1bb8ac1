"""The properties of fair correlation, judged on Spark: each property of a run is a task of its own.

    audit_fair(spark, run)    the report of `fairlead.audit.fair.audit_fair`, finding by finding

A property compares the processes of a run with each other, so a task reads the whole run; the properties do not
depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]

from fairlead.audit.fair import PROPERTIES, FairRun
from fairlead.audit.fair import audit_fair as plain_audit
from fairlead.audit.fair.files import read, run_of, write
from fairlead.audit.report import Finding, Report, Violation
from fairlead.errors import TraceRefused
from fairlead.filters import Schema
from fairlead.ingest import Rejection
from fairlead.model.encoding import format_json, parse_json
from fairlead.spark.frames import few_rows
from fairlead.spark.subscriptions import load_extension

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["audit_fair"]

RUN: Final = pa.schema([("run", pa.large_string())])
PROPERTY: Final = pa.schema([("number", pa.int64()), ("property", pa.string())])
FINDING: Final = pa.schema([("number", pa.int64()), ("finding", pa.string())])


def audit_fair(
    spark: SparkSession,
    run: FairRun,
    *properties: str,
    schema: Schema | None = None,
    extensions: Sequence[str] = (),
) -> Report:
    """Judge a run by the properties that are named; by all of them where none is."""
    asked = properties or tuple(PROPERTIES)
    if unknown := set(asked) - set(PROPERTIES):
        raise ValueError(f"no such property: {', '.join(sorted(unknown))}")
    text = few_rows(spark, [("\n".join(write(run)),)], RUN)
    tasks = text.crossJoin(few_rows(spark, list(enumerate(asked)), PROPERTY)).repartition(len(asked))
    judge = _Judging(schema, tuple(extensions))
    rows = tasks.mapInArrow(judge, "number bigint, finding string").collect()
    return Report(tuple(_finding(row.finding) for row in sorted(rows, key=lambda row: row.number)))


@dataclass(frozen=True, slots=True)
class _Judging:
    """The work of a task: record batches of runs with a property in, record batches of findings out."""

    schema: Schema | None
    extensions: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for name in self.extensions:
            load_extension(name)
        for batch in batches:
            findings = [_text(self._judged(row["run"], row["property"])) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_arrays([batch.column("number"), pa.array(findings)], schema=FINDING)

    def _judged(self, text: str, property: str) -> Finding:
        steps = []
        for number, step in read(text.splitlines(), schema=self.schema):
            if isinstance(step, Rejection):
                raise TraceRefused(f"line {number}: {step.reason}")
            steps.append(step)
        [finding] = plain_audit(run_of(steps), property)
        return finding


def _text(finding: Finding) -> str:
    violations = [[each.what, list(each.indexes)] for each in finding.violations]
    return format_json([finding.specification, finding.rule, violations, finding.open])


def _finding(text: str) -> Finding:
    specification, rule, violations, open = parse_json(text)
    return Finding(
        specification, rule, tuple(Violation(what, tuple(places)) for what, places in violations), open
    )
