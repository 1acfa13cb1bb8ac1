"""The specification of scoped systems over a trace of any length: publications are judged by themselves.

Every rule of `fairlead.audit.scoped` but one is about one publication and the notifications about it, in a graph
and with subscriptions that the whole trace declares. So publications are spread over tasks by their identities,
each task has all declarations, and the plain program judges there. The rule `policy` is about all publications
together, since a choice depends on those before it: where a graph has policies, one task judges it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import functions as F

from fairlead.audit.history import History
from fairlead.audit.report import Finding
from fairlead.audit.scoped import RULES, Graphs, of_policies, of_publications

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from fairlead.spark.history import Language

__all__ = ["scoped"]

PUBLICATIONS_PER_TASK: Final = 20_000
_DECLARED: Final = "rule string, what string, indexes array<bigint>, open boolean"
_FOUND: Final = pa.schema(
    [
        ("rule", pa.string()),
        ("what", pa.string()),
        ("indexes", pa.list_(pa.int64())),
        ("open", pa.bool_()),
    ]
)


def scoped(trace: DataFrame, publications: int, language: Language) -> dict[str, DataFrame]:
    """The violations of scoped systems, by rule."""
    shares = max(1, ceil(publications / PUBLICATIONS_PER_TASK))
    own = F.col("event").isin("pub", "notify")
    share = F.pmod(F.xxhash64("producer", "id"), F.lit(shares)).cast("int")
    every = trace.sparkSession.range(shares).select(F.col("id").cast("int").alias("share"))
    spread = trace.where(own).withColumn("share", share)
    declared = trace.where(~own).crossJoin(F.broadcast(every))

    def judge(trace: pa.Table) -> pa.Table:
        return _judged(language, trace, of_publications)

    def judge_policies(trace: pa.Table) -> pa.Table:
        return _judged(language, trace, lambda history, engine: [of_policies(history, engine)])

    found = spread.unionByName(declared).groupBy("share").applyInArrow(judge, _DECLARED)
    if _has_policies(trace, language):
        together = (
            trace.withColumn("share", F.lit(0)).groupBy("share").applyInArrow(judge_policies, _DECLARED)
        )
        found = found.unionByName(together)
    return {rule: found.where(F.col("rule") == rule).drop("rule") for rule in RULES}


def _has_policies(trace: DataFrame, language: Language) -> bool:
    changes = language.events(trace.where(F.col("event") == "scope").orderBy("index").toArrow())
    return Graphs(History.of(changes).scope_changes).have_policies


def _judged(
    language: Language, trace: pa.Table, judge: Callable[[History, str], Sequence[Finding]]
) -> pa.Table:
    events = trace.drop_columns(["share"]).sort_by("index")
    indexes = events.column("index").to_pylist()
    rows = []
    for finding in judge(History.of(language.events(events)), "columnar"):
        for violation in finding.violations:
            proof = [indexes[at] for at in violation.indexes]
            rows.append({"rule": finding.rule, "what": violation.what, "indexes": proof, "open": False})
        if not finding.violations:
            rows += [{"rule": finding.rule, "what": None, "indexes": [], "open": True}] * finding.open
    return pa.Table.from_pylist(rows, schema=_FOUND)
