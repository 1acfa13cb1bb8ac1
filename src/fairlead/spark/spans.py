"""The OpenTelemetry spans of a pipeline: one for each committed batch, with its stages, and one for each delivered
notification that names a trace.

A batch is about many traces, so it is a trace of its own, which the spans of its notifications link to. Those are
in the traces of their publishers: from the beginning of the batch to its commit, with all subscribers. They are
read from the files of deliveries; other sinks have the spans of batches alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from fairlead.spark.frames import ATTRIBUTES, RECORD
from fairlead.spark.output import Manifest, Output
from fairlead.spark.storage import Directory
from fairlead.telemetry import TRACEPARENT, TRACESTATE, parent_of

if TYPE_CHECKING:
    from fairlead.spark.config import Config
    from fairlead.spark.summary import Batch
    from fairlead.telemetry import Spans

__all__ = ["BatchSpans"]

DELIVERIES: Final = "deliveries"
NOTIFICATIONS_MAX: Final = 1_000
"""The notifications of a batch that have spans."""


class BatchSpans:
    """The spans of the batches of a pipeline, as these are committed."""

    def __init__(self, config: Config, spans: Spans) -> None:
        self._config, self._spans = config, spans

    def took(self, batch: Batch) -> None:
        """A batch is committed."""
        output = Output(self._config.output)
        manifest = output.manifest(batch.number)
        end = round(datetime.fromisoformat(manifest.finished_at).timestamp() * 1e6)
        start = end - round(manifest.seconds * 1e6)
        context = self._batch(batch, manifest, start, end)
        for (producer, id), (names, subscribers) in self._traced(output, manifest).items():
            attributes = {
                "messaging.message.id": id,
                "fairlead.producer": producer,
                "fairlead.subscribers": sorted(subscribers),
                **self._own(batch),
            }
            parent = parent_of(names)
            if parent is not None:
                self._spans.record(
                    "deliver", start, end, parent=parent, links=[context], attributes=attributes
                )

    def _own(self, batch: Batch) -> dict[str, str | int]:
        return {"fairlead.pipeline": self._config.name, "fairlead.batch": batch.number}

    def _batch(self, batch: Batch, manifest: Manifest, start: int, end: int) -> Any:
        """The span of a batch, and below it one for each stage."""
        counts = ("read", "rejected", "duplicates", "late", "released", "held", "deliveries", "composites")
        attributes: dict[str, str | int] = {f"fairlead.{name}": getattr(batch, name) for name in counts}
        with self._spans.recording("batch", start, end, attributes=self._own(batch) | attributes) as (
            context,
            below,
        ):
            since = start
            for stage, seconds in manifest.stages.items():
                until = min(since + round(seconds * 1e6), end)
                self._spans.record(stage, since, until, parent=below)
                since = until
        return context

    def _traced(
        self, output: Output, manifest: Manifest
    ) -> dict[tuple[str, str], tuple[dict[str, Any], set[str]]]:
        """The delivered notifications that name a trace, with what they name and their subscribers."""
        found: dict[tuple[str, str], tuple[dict[str, Any], set[str]]] = {}
        if not self._config.deliveries.payload or DELIVERIES not in manifest.channels:
            return found
        [path] = output.paths(DELIVERIES, [manifest])
        for subscriber, producer, id, content in _named(Directory(path), self._config.deliveries.format):
            if (producer, id) not in found and len(found) >= NOTIFICATIONS_MAX:
                continue
            names = {name: content.get(name) for name in (TRACEPARENT, TRACESTATE)}
            found.setdefault((producer, id), (names, set()))[1].add(subscriber)
        return found


def _named(files: Directory, format: str) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Of the deliveries in some files, those of notifications that may name a trace: subscriber, producer, id, and
    content."""
    for name, _ in files.files():
        if format == "json":
            for line in files.read(name).splitlines():
                if TRACEPARENT.encode() in line:
                    row = json.loads(line)
                    yield row["subscriber"], row["producer"], row["id"], row["notification"]
        elif format == "parquet":
            with files.open(name) as file:
                yield from _named_in(pq.ParquetFile(file))


def _named_in(file: Any) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    schema = file.schema_arrow
    columns = ["subscriber", "producer", "id"]
    if RECORD in schema.names:
        for batch in file.iter_batches(columns=[*columns, RECORD]):
            some = batch.filter(pc.match_substring(batch.column(RECORD), TRACEPARENT))
            for row in some.to_pylist():
                yield row["subscriber"], row["producer"], row["id"], json.loads(row[RECORD])
    elif ATTRIBUTES in schema.names and schema.field(ATTRIBUTES).type.get_field_index(TRACEPARENT) >= 0:
        names = [f"{ATTRIBUTES}.{TRACEPARENT}"]
        if schema.field(ATTRIBUTES).type.get_field_index(TRACESTATE) >= 0:
            names.append(f"{ATTRIBUTES}.{TRACESTATE}")
        for batch in file.iter_batches(columns=[*columns, *names]):
            for row in batch.to_pylist():
                if row[ATTRIBUTES] and row[ATTRIBUTES][TRACEPARENT]:
                    yield row["subscriber"], row["producer"], row["id"], row[ATTRIBUTES]
