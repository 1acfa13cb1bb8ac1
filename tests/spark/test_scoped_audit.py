"""The audit of scoped systems on Spark says what the plain one says, in one piece and spread over tasks."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from fairlead.audit import Event, Notified, audit
from fairlead.bus import Bus
from fairlead.scopes import Scopes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = """
DEFINE SCOPE Market AS ALL FROM Desk, exchange
  INTERNAL POLICY ONE BY TURN WHEN (x = 3)
DEFINE SCOPE Desk AS ALL FROM ada, bob INTERFACES INPUT(0), OUTPUT(x > 1) MAP OUTWARD { y = x * 2, DROP x }
"""


def trace_of_a_run() -> list[Event]:
    trace: list[Event] = []
    bus = Bus(scopes=Scopes.parse(TEXT), trace=trace.append)
    for name in ("ada", "bob", "exchange", "eve"):
        bus.component(name).subscribe("exists x or exists y", lambda _: None)
    for number in range(60):
        bus.component(("ada", "bob", "eve")[number % 3]).publish({"id": str(number), "x": number % 4})
        if number == 30:
            bus.scopes.join("eve", "Desk")
    bus.close()
    return trace


def test_spark_finds_what_the_plain_program_finds(spark: SparkSession) -> None:
    from fairlead.spark.auditing import audit as audit_on_spark
    from fairlead.spark.trace import frame_of

    trace, random = trace_of_a_run(), Random(1)
    told = [place for place, event in enumerate(trace) if isinstance(event, Notified)]
    broken = list(trace)
    for place in random.sample(told, 6):
        event = broken[place]
        assert isinstance(event, Notified)
        broken[place] = replace(event, component="exchange" if event.component != "exchange" else "ada")
    for events in (trace, broken):
        plain = {
            (finding.rule, violation.what, violation.indexes)
            for finding in audit(events, "scoped")
            for violation in finding.violations
        }
        assert bool(plain) is (events is broken)
        for small in (0, len(events)):
            found = audit_on_spark(frame_of(spark, events), "scoped", small=small, shown=1_000).report
            assert plain == {
                (finding.rule, violation.what, violation.indexes)
                for finding in found
                for violation in finding.violations
            }
