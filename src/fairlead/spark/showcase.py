"""A few deliveries of a run, to be shown: the busiest of each producer, so that they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from fairlead.errors import PipelineError
from fairlead.model import Notification
from fairlead.spark.frames import KEY, RECORD, decode

if TYPE_CHECKING:
    from fairlead.spark.running import Pipeline

__all__ = ["Example", "examples"]


@dataclass(frozen=True, slots=True)
class Example:
    """A delivery with its content, also as text."""

    subscriber: str
    notification: Notification
    subscriptions: tuple[str, ...]
    text: str


def examples(pipeline: Pipeline, count: int) -> list[Example]:
    """Some deliveries, one per producer: those that most of a subscriber's subscriptions matched."""
    deliveries = pipeline.output.read(pipeline.spark)
    if deliveries is None:
        return []
    if RECORD not in deliveries.columns:
        raise PipelineError("the deliveries have no content to show", hint="payload = true keeps it")
    shown = F.struct("subscriber", *KEY, "subscriptions", RECORD)
    busiest = F.min_by(shown, F.struct(-F.size("subscriptions"), *KEY, "subscriber"))
    found = deliveries.groupBy("producer").agg(busiest.alias("busiest")).orderBy("producer").limit(count)
    return [
        Example(
            row.subscriber,
            decode(row.record, row.producer, row.id, None, row.sequence),
            tuple(row.subscriptions),
            row.record,
        )
        for (row,) in found.select("busiest").collect()
    ]
