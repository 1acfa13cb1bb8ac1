"""The pipeline: the way of a notification on Spark, on one screen.

    raw ─▶ ingest ─▶ order ─▶ detect ─▶ match, scope ─▶ deliver ─▶ publish ─▶ trace ─▶ audit
             │         │        └─▶ in progress, until the next batch
         rejected      ├─▶ late
                       └─▶ held until the next batch

A run is a sequence of batches; in batch mode there is one. A batch is a pure function of what those before it
have committed and of its own rows, so whatever is repeated, after a crash or for any other reason, gives the
same. Notifications wait in `order` for the watermark, and are matched when they leave it, by the subscriptions
that hold for their place in the order, whenever these came. What patterns find in them joins the stream.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final

from fairlead.spark import small, sources, writing
from fairlead.spark.asking import demand, schema_of
from fairlead.spark.batch import Batch, Progress, Written
from fairlead.spark.config import Config, Events
from fairlead.spark.delivery import deliver
from fairlead.spark.detection import detected
from fairlead.spark.doors import TextDoor
from fairlead.spark.frames import to_records
from fairlead.spark.matching import deliveries_of, matched
from fairlead.spark.output import Manifest, Output
from fairlead.spark.publishing import without_own
from fairlead.spark.scoping import narrowed, scopes_of
from fairlead.spark.subscriptions import Changed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Step", "given", "ingested", "raw_input"]

FEW_DELIVERED: Final = 1_000
"""The deliveries of so few are sorted and written by one task."""


def given(spark: SparkSession, config: Config, *, stream: bool = False) -> DataFrame:
    """What a pipeline takes: the raw records of its only input, where these are text; else the rows of all inputs.

    Where raw records are few, `Step` ingests them in the driver.
    """
    input = raw_input(config)
    if input is None:
        return ingested(spark, config, stream=stream)
    raw = sources.read_stream(spark, input) if stream else sources.read(spark, input)
    sources.ingest_input(raw, input, schema_of(config))  # what stands against it is said before anything runs
    return raw


def raw_input(config: Config) -> sources.Input | None:
    """The only input, where its records are text, and all of them are taken."""
    if len(config.events) > 1 or config.publish is not None:
        return None
    input = input_of(config.events[0], config)
    return None if input.is_typed else input


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
    progress: Progress = field(default_factory=Progress, compare=False)
    ahead: Changed | None = None
    """Subscriptions that were read before a stream began, for its first batch."""

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Take a batch, unless it is committed: a stream repeats the one that was interrupted."""
        if not Output(self.config.output).is_committed(number):
            self.take(rows, number)

    def take(self, rows: DataFrame, number: int, *, final: bool = False) -> Manifest:
        """Take a batch, of rows or of raw records, through all stages; behind the `final` one nothing is held."""
        given, rows = rows, self._ingested(rows)
        sink, traced = self.config.deliveries, self.config.audit.trace
        with Batch(self.config, rows.sparkSession, number, final=final, progress=self.progress) as batch:
            batch.at("subscribe")
            asked = demand(self.config, batch.spark, number, batch.last, self.ahead)

            batch.at("ingest")
            rows, door = batch.not_ahead(rows), self._door(given)
            few = small.collected(batch, asked, rows if door is None else given, door)
            if few is not None:
                return small.take(batch, asked, rows, few)
            rows = batch.kept(rows)
            seen = batch.look(rows)
            bounds = batch.bounds(seen)

            batch.at("order")
            ordered, outcomes = batch.ordered(rows, seen, bounds)
            batch.check_late(outcomes, seen)
            released = outcomes.spread(ordered.released)

            batch.at("detect" if asked.patterns else "match")
            few = batch.has_few(seen)
            found = batch.kept(
                detected(released, asked.patterns, batch.in_progress(), bounds.watermark, few=few)
            )
            found, composites = batch.count_composites(found)

            batch.at("match")
            scopes = scopes_of(self.config)
            received = matched(
                released, asked.subscriptions, payload=sink.payload or traced or scopes is not None
            )
            if scopes is not None:
                received = narrowed(received, scopes)
            if traced:
                received = batch.kept(received)
            deliveries = deliveries_of(received, payload=sink.payload)
            if composites.found:
                deliveries = found.joining(deliveries, asked.subscriptions, payload=sink.payload)
            tasks = 1 if outcomes["released"] + composites.found < FEW_DELIVERED else None
            delivered = deliver(deliveries, sink.buckets, tasks)
            if self.config.publish is not None:
                delivered = batch.kept(delivered)
            count = writing.write_deliveries(
                batch, delivered, some=bool(outcomes["released"] or composites.found)
            )

            batch.at("publish")
            published = writing.publish_all(batch, delivered, found, composites)

            batch.at("trace")
            late = ordered.late if outcomes["late"] else None
            public = writing.public_composites(found, asked.subscriptions) if composites.found else None
            events = outcomes["released"] + composites.found + count
            unread, delayed, told, held, remembered = writing.at_once(
                lambda: writing.write_rejected(batch, rows, seen, asked),
                lambda: writing.write_late(batch, ordered.late, outcomes["late"]),
                lambda: writing.write_trace(
                    batch, asked, received, composites=public, late=late, events=events
                ),
                lambda: writing.write_state(batch, ordered.state, found, outcomes, composites),
                lambda: writing.write_remembered(batch, ordered, outcomes),
            )
            written = Written(
                {"deliveries": count, "late": delayed, "rejected": unread.number, "trace": told},
                unread.reasons,
                published,
                held,
                remembered,
            )

            batch.at("commit")
            return batch.commit(
                demand=asked,
                seen=seen,
                bounds=bounds,
                outcomes=outcomes,
                composites=composites,
                written=written,
            )

    def _ingested(self, given: DataFrame) -> DataFrame:
        """The rows of what is given."""
        input = self._raw_input(given)
        return given if input is None else sources.ingest_input(given, input, schema_of(self.config))

    def _door(self, given: DataFrame) -> TextDoor | None:
        """What makes rows of the raw records that are given; None where they are rows."""
        input = self._raw_input(given)
        return None if input is None else sources.door_of(input, schema_of(self.config))

    def _raw_input(self, given: DataFrame) -> sources.Input | None:
        return None if "reason" in given.columns else raw_input(self.config)


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
