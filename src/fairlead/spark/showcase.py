"""A few deliveries of a run, to be shown: the busiest of each producer, so that they differ.

Who publishes composite events is such a producer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.errors import PipelineError
from fairlead.model import Notification
from fairlead.spark.frames import KEY, RECORD, decode

if TYPE_CHECKING:
    from fairlead.spark.running import Pipeline

__all__ = ["Busiest", "Example", "busiest", "examples"]


@dataclass(frozen=True, slots=True)
class Example:
    """A delivery with its content, also as text."""

    subscriber: str
    notification: Notification
    subscriptions: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Busiest:
    """The subscriber with the most deliveries, and their number; and the number of subscribers that got any."""

    first: tuple[tuple[str, int], ...] = ()
    reached: int = 0


def busiest(pipeline: Pipeline, count: int) -> Busiest:
    """The subscribers that got most, in one look at the deliveries."""
    deliveries = pipeline.output.read(pipeline.spark)
    if deliveries is None:
        return Busiest()
    rows = (
        deliveries.groupBy("subscriber")
        .agg(F.count("*").alias("got"))
        .withColumn("reached", F.count("*").over(Window.partitionBy(F.lit(True))))
        .orderBy(F.desc("got"), "subscriber")
        .limit(count)
        .collect()
    )
    return Busiest(tuple((row.subscriber, row.got) for row in rows), rows[0].reached if rows else 0)


def examples(pipeline: Pipeline, count: int) -> list[Example]:
    """Some deliveries, one per producer: those that most of a subscriber's subscriptions matched.

    Where patterns found something, a composite is the last of them, beside the others.
    """
    deliveries = pipeline.output.read(pipeline.spark)
    if deliveries is None:
        return []
    if RECORD not in deliveries.columns:
        raise PipelineError("the deliveries have no content to show", hint="payload = true keeps it")
    told = F.struct("subscriber", *KEY, "subscriptions", RECORD)
    busiest = F.min_by(told, F.struct(-F.size("subscriptions"), *KEY, "subscriber"))
    others = F.col("producer") != PRODUCER
    found = deliveries.groupBy("producer").agg(busiest.alias("busiest")).orderBy(others, "producer")
    shown = [
        Example(
            row.subscriber,
            decode(row.record, row.producer, row.id, None, row.sequence),
            tuple(row.subscriptions),
            row.record,
        )
        for (row,) in found.select("busiest").limit(count + 1).collect()
    ]
    composites = [each for each in shown if each.notification.producer == PRODUCER]
    return [each for each in shown if each not in composites][:count] + composites
