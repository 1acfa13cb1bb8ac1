"""The pipeline: the way of a notification on Spark, on one screen.

    raw ─▶ ingest ─▶ order ─▶ detect ─▶ match ─▶ deliver ─▶ publish ─▶ trace ─▶ audit
             │         │        └─▶ in progress, until the next batch
         rejected      ├─▶ late
                       └─▶ held until the next batch

A run is a sequence of batches; in batch mode there is one. A batch is a pure function of what those before it
have committed and of its own rows, so whatever is repeated, after a crash or for any other reason, gives the
same. Notifications wait in `order` for the watermark, and are matched when they leave it, by the subscriptions
that hold for their place in the order, whenever these came. What patterns find in them joins the stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from fairlead.spark import sources
from fairlead.spark.config import Config, Events
from fairlead.spark.delivery import deliver
from fairlead.spark.detection import detected
from fairlead.spark.frames import to_records
from fairlead.spark.ingestion import notifications
from fairlead.spark.matching import match
from fairlead.spark.ordering import order
from fairlead.spark.output import Manifest, Output
from fairlead.spark.publishing import without_own
from fairlead.spark.work import Work, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Step", "ingested"]


def ingested(spark: SparkSession, config: Config, *, stream: bool = False) -> DataFrame:
    """The rows of all inputs, read or rejected."""
    schema = schema_of(config)
    rows = []
    for events in config.events:
        input = input_of(events, config)
        raw = sources.read_stream(spark, input) if stream else sources.read(spark, input)
        read = sources.ingest_input(raw, input, schema)
        rows.append(read if config.publish is None else without_own(read, config.publish.what))
    if len(rows) == 1 and config.patterns is None:  # composites are records, and what they join has to be
        return rows[0]
    return reduce(lambda one, other: one.unionByName(other), map(to_records, rows))


@dataclass(frozen=True, slots=True)
class Step:
    """What a pipeline does with each batch."""

    config: Config

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Take a batch, unless it is committed: a stream repeats the one that was interrupted."""
        if not Output(self.config.output).is_committed(number):
            self.take(rows, number)

    def take(self, rows: DataFrame, number: int, *, final: bool = False) -> Manifest:
        """Take a batch through all stages; with the `final` one nothing is held back any more."""
        sink = self.config.deliveries
        with Work(self.config, rows.sparkSession, number, final=final) as work:
            subscriptions, patterns = work.asked()
            rows = work.kept(rows)
            seen = work.look(rows)

            ordered = work.kept(
                order(notifications(rows), work.state(), work.watermark, seen.facts, few=work.has_few(seen))
            )
            work.count(ordered)
            released = work.spread(ordered.released)
            found = work.kept(
                detected(released, patterns, work.in_progress(), work.watermark, few=work.has_few(seen))
            )
            found = work.count_found(found)
            matches = match(released, subscriptions, payload=sink.payload)
            if work.has("composites"):
                matches = found.joining(matches, subscriptions, payload=sink.payload)
            told = deliver(matches, sink.buckets)
            deliveries = work.deliver(told)
            work.publish(told, found)

            work.write(
                lambda: work.write_rejected(rows, seen),
                lambda: work.write_late(ordered.late),
                lambda: work.write_trace(ordered.released, found, deliveries, ordered.late),
                lambda: work.write_state(ordered.state, found),
            )
            return work.commit(seen)


def input_of(events: Events, config: Config) -> sources.Input:
    """An input as the configuration has it."""
    return sources.Input(
        path=events.path or "",
        format=events.format,
        name=events.name,
        options=events.options,
        fields=events.fields,
        lift=events.lift,
        max_files=config.stream.max_files,
        lines=events.lines,
        select=events.select,
    )
