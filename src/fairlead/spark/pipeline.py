"""The pipeline: the stages of a notification on Spark, on one screen.

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

from fairlead.kafka import Reading
from fairlead.spark import small, sources, versions, writing
from fairlead.spark.access import mask_of
from fairlead.spark.admission import admission_of
from fairlead.spark.arrivals import empty_documents
from fairlead.spark.asking import demand, schema_of
from fairlead.spark.batch import Batch, Progress, Written
from fairlead.spark.config import Config, Events
from fairlead.spark.delivery import deliver
from fairlead.spark.detection import detected
from fairlead.spark.doors import TextDoor
from fairlead.spark.frames import to_records
from fairlead.spark.identities import Identities
from fairlead.spark.matching import deliveries_of
from fairlead.spark.output import Manifest, Output
from fairlead.spark.publishing import without_own
from fairlead.spark.subscriptions import Changed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Step", "given", "ingested", "raw_input"]

FEW_DELIVERED: Final = 1_000
"""The deliveries of so few are sorted and written by one task."""


def given(spark: SparkSession, config: Config, *, stream: bool = False) -> DataFrame:
    """The input of a pipeline: the raw records of its only input, if these are text; else the rows of
    all inputs.

    Where raw records are few, `Step` ingests them in the driver.
    """
    input = raw_input(config)
    if input is None:
        return ingested(spark, config, stream=stream)
    raw = sources.read_stream(spark, input) if stream else sources.read(spark, input)
    _rows_of(raw, input, config)  # what stands against it is said before anything runs
    return raw


def raw_input(config: Config) -> sources.Input | None:
    """The only input, where its records are text, and all of them are taken."""
    if len(config.events) > 1 or config.publish is not None:
        return None
    input = input_of(config.events[0], config)
    return None if input.is_typed else input


def ingested(spark: SparkSession, config: Config, *, stream: bool = False) -> DataFrame:
    """The rows of all inputs, read or rejected."""
    rows = []
    for events in config.events:
        input = input_of(events, config)
        raw = sources.read_stream(spark, input) if stream else sources.read(spark, input)
        read = _rows_of(raw, input, config)
        rows.append(read if config.publish is None else without_own(read, config.publish.what))
    # Composites are records, and what they join has to be; so is what is opened, which is bound to its identity.
    if len(rows) == 1 and config.patterns is None and not _seals(config):
        return rows[0]
    return reduce(lambda one, other: one.unionByName(other), map(to_records, rows))


def _seals(config: Config) -> bool:
    """Whether some attribute has to be sealed."""
    admission = admission_of(config, schema_of(config))
    return admission is not None and admission.seals is not None


def _rows_of(raw: DataFrame, input: sources.Input, config: Config) -> DataFrame:
    """The rows of raw records of an input."""
    schema = schema_of(config)
    return sources.ingest_input(raw, input, schema, admission_of(config, schema))


@dataclass(frozen=True, slots=True)
class Step:
    """The step that a pipeline takes with each batch."""

    config: Config
    progress: Progress = field(default_factory=Progress, compare=False)
    ahead: Changed | None = None
    """Subscriptions that were read before a stream began, for its first batch."""
    identities: Identities = field(default_factory=Identities, compare=False)

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Take a batch, unless it is committed: a stream repeats the one that was interrupted."""
        if not Output(self.config.output).is_committed(number):
            self.take(self._with_empty_documents(rows, number), number)

    def take(self, rows: DataFrame, number: int, *, final: bool = False) -> Manifest:
        """Take a batch, of rows or of raw records, through all stages; behind the `final` one nothing is held."""
        given, rows = rows, self._ingested(rows)
        sink, traced, audited = self.config.deliveries, self.config.audit.trace, self.config.audits_grants
        with Batch(
            self.config,
            rows.sparkSession,
            number,
            final=final,
            progress=self.progress,
            identities=self.identities,
        ) as batch:
            batch.at("subscribe")
            asked = demand(self.config, batch.spark, number, batch.last, self.ahead)

            batch.at("ingest")
            rows, door = batch.not_ahead(rows), self._door(given)
            few = small.collected(batch, asked, rows if door is None else given, door)
            if few is not None:
                return small.take(batch, asked, rows, few)
            rows = batch.persist(rows)
            seen = batch.look(rows)
            bounds = batch.bounds(seen)

            batch.at("order")
            ordered, outcomes = batch.ordered(rows, seen, bounds)
            batch.check_late(outcomes, seen)
            released = outcomes.spread(ordered.released)

            batch.at("detect" if asked.patterns else "match")
            few = batch.has_few(seen)
            found = batch.persist(
                detected(
                    released,
                    asked.patterns,
                    batch.in_progress(),
                    bounds.watermark,
                    few=few,
                    beside=batch.beside(asked),
                )
            )
            found, composites = batch.count_composites(found)

            batch.at("match")
            content = sink.payload or traced or audited
            decided = batch.decided(released, asked, bounds)
            asked = asked if decided is None else asked.ruled(decided)
            received = versions.received(
                released, asked.subscriptions, asked.scopes, decided, content=content
            )
            if traced or audited:
                received = batch.persist(received)
            mask = mask_of(asked.policy, asked.subscriptions, self.config.security)
            deliveries = deliveries_of(received, payload=sink.payload, mask=mask)
            if composites.detected:
                deliveries = found.joining(deliveries, asked.subscriptions, payload=sink.payload, mask=mask)
            tasks = 1 if outcomes["released"] + composites.detected < FEW_DELIVERED else None
            delivered = deliver(deliveries, sink.buckets, tasks)
            if self.config.publish is not None:
                delivered = batch.persist(delivered)
            some = bool(outcomes["released"] or composites.detected or decided)
            count = writing.write_deliveries(batch, delivered, some=some)

            batch.at("publish")
            published = writing.publish_all(batch, delivered, found, composites)

            batch.at("trace")
            late = ordered.late if outcomes["late"] else None
            public = writing.public_composites(found, asked.subscriptions) if composites.detected else None
            events = outcomes["released"] + composites.detected + count
            unread, delayed, granted, told, held, remembered = writing.at_once(
                lambda: writing.write_rejected(batch, rows, seen, asked),
                lambda: writing.write_late(batch, ordered.late, outcomes["late"]),
                lambda: writing.write_grants(batch, asked, received, found, composites),
                lambda: writing.write_trace(
                    batch, asked, received, composites=public, late=late, events=events
                ),
                lambda: writing.write_state(
                    batch, ordered.state, found, outcomes, composites, decided, asked.scoping
                ),
                lambda: writing.write_remembered(batch, ordered, outcomes),
            )
            written = Written(
                {
                    "deliveries": count,
                    "grants": granted,
                    "late": delayed,
                    "rejected": unread.number,
                    "trace": told,
                },
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

    def _with_empty_documents(self, given: DataFrame, number: int) -> DataFrame:
        """A micro-batch with those of its files of XML that Spark leaves out, since they have no bytes."""
        for name, files in empty_documents(
            self.config, Output(self.config.output).checkpoint, number
        ).items():
            [events] = (each for each in self.config.events if each.name == name)
            missing = sources.documents(given.sparkSession, files)
            if "reason" in given.columns:
                input = input_of(events, self.config)
                missing = to_records(_rows_of(missing, input, self.config))
            given = given.unionByName(missing)
        return given

    def _ingested(self, given: DataFrame) -> DataFrame:
        """The rows of what is given."""
        input = self._raw_input(given)
        return given if input is None else _rows_of(given, input, self.config)

    def _door(self, given: DataFrame) -> TextDoor | None:
        """The door that makes rows of the raw records that are given; None where they are rows."""
        input = self._raw_input(given)
        if input is None:
            return None
        schema = schema_of(self.config)
        return sources.door_of(input, schema, admission_of(self.config, schema))

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
        kafka=Reading(events.encoding, events.registry, events.about, events.tombstones),
    )
