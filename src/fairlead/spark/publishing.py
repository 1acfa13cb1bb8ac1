"""Publish: what a pipeline makes goes back into the network, each once, and in order.

    publish(deliveries, "fairlead://localhost:7400")

Notifications, and composites among them, are published as they are. A delivery is a notification about another:

    {"type": "delivery", "subscriber": "ada", "subscriptions": ["s1", "s4"],
     "key": {"time": …, "producer": "p", "sequence": 3, "id": "7"}, "notification": {…}}

Its producer is the subscriber's own, `deliveries/ada`, and its id a hash of what is delivered: a batch that is
repeated publishes the same again, and the broker knows it. All of one producer go through one task, in the total
order, so who listens gets a subscriber's deliveries in the order in which files have them. A task is done when
the broker has all of its notifications in the log. What a pipeline publishes, it does not read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import reduce
from hashlib import blake2b
from operator import or_
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import functions as F

from fairlead.correlation.patterns.composites import PRODUCER as COMPOSITES
from fairlead.model import Instant, Notification
from fairlead.model.encoding import format_json
from fairlead.model.values import Record
from fairlead.network import sync
from fairlead.network.addresses import Tls
from fairlead.spark.detection import stream_of
from fairlead.spark.doors import BLANK
from fairlead.spark.frames import (
    ATTRIBUTES,
    DELIVERY,
    KEY,
    RECORD,
    VERSION,
    decode,
    notifications_in,
    ranked,
    records_in,
)
from fairlead.telemetry import TRACEPARENT, TRACESTATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["TYPE", "check_broker", "delivered", "publish", "without_own"]

TYPE: Final = "delivery"
DELIVERIES: Final = "deliveries/"
"""With this the producers of deliveries begin."""
EVERYTHING: Final = "true"
AHEAD: Final = 2_000
"""So many may be on their way before the first of them is known to be safe."""
PATIENCE: Final = 10.0
"""So many seconds a broker that goes away is waited for."""
AT_FIRST: Final = 2.0
"""And so many one that has to be there before anything is read."""


def publish(frame: DataFrame, url: str, tls: Tls | None = None) -> int:
    """Publish each row, a delivery or a notification, at a broker; returns how many, when all are in its log.

    The files of certificates are read by the workers. Whatever has been published before, under the same
    producer and id, the broker leaves at that.
    """
    if _is_deliveries(frame.columns):
        together = frame.repartition("subscriber").sortWithinPartitions(*ranked(frame))
    else:
        rows = stream_of(frame, several=False)
        together = rows.repartition("producer").sortWithinPartitions("time", "start", "pattern", *KEY[1:])
    counted = together.mapInArrow(_Publishing(url, tls), "published bigint")
    return int(counted.agg(F.coalesce(F.sum("published"), F.lit(0))).collect()[0][0])


def without_own(rows: DataFrame, what: Collection[str]) -> DataFrame:
    """Ingested rows, with a blank for each that a pipeline published itself: `deliveries`, `composites`.

    Whoever publishes where it reads would else take its own words for news, and have more to say on them.
    """
    own = {
        "deliveries": F.col("producer").startswith(DELIVERIES),
        "composites": F.col("producer") == F.lit(COMPOSITES),
    }
    is_own = reduce(or_, (own[each] for each in what))
    blank = F.when(F.col("reason").isNull() & is_own, F.lit(BLANK)).otherwise(F.col("reason"))
    return rows.withColumn("reason", blank)


def check_broker(url: str, tls: Tls | None = None) -> None:
    """ConnectionEnded, or BrokerRefused, where nothing could be published."""
    with sync.connect(url, tls=tls, patience=AT_FIRST):
        pass


def delivered(
    subscriber: str,
    key: tuple[int, str, int | None, str],
    subscriptions: list[str],
    attributes: Record | None = None,
    version: str = "",
) -> Notification:
    """The notification about a delivery; `attributes` are those of what is delivered."""
    time, producer, _, id = key
    told: dict[str, Any] = {
        "type": TYPE,
        "subscriber": subscriber,
        "subscriptions": subscriptions,
        "key": {name: value for name, value in zip(KEY, key, strict=True) if value is not None},
    }
    if attributes is not None:
        told["notification"] = attributes
        # It is in the trace of OpenTelemetry's that the notification is in.
        told |= {name: attributes[name] for name in (TRACEPARENT, TRACESTATE) if name in attributes}
    identity = [producer, id]
    if version:
        told["version"] = version
        identity.append(version)
    digest = blake2b(format_json(identity).encode(), digest_size=16).hexdigest()
    return Notification(Record(told), digest, f"{DELIVERIES}{subscriber}", Instant(time))


def _is_deliveries(columns: list[str]) -> bool:
    return set(DELIVERY) <= set(columns)


@dataclass(frozen=True, slots=True)
class _Publishing:
    """The work of a task: publish its rows in their order, and wait until they are safe."""

    url: str
    tls: Tls | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        published = 0
        rows = (each for batch in batches for each in _published(batch))
        if (first := next(rows, None)) is not None:  # a task without rows bothers nobody
            with sync.connect(self.url, tls=self.tls, patience=PATIENCE) as client:
                if client.status()["advertisements"]:
                    client.advertise(EVERYTHING)
                waiting: deque[Future[Notification]] = deque([client.publishing(first)])
                for row in rows:
                    if len(waiting) >= AHEAD:
                        waiting.popleft().result()
                        published += 1
                    waiting.append(client.publishing(row))
                for each in waiting:
                    each.result()
                    published += 1
        yield pa.RecordBatch.from_pydict({"published": pa.array([published], pa.int64())})


def _published(batch: pa.RecordBatch) -> Iterator[Notification]:
    """The notifications that are published of the rows of a batch."""
    if not _is_deliveries(batch.schema.names):
        yield from notifications_in(batch)
        return
    subscribers, *keys, subscriptions = (batch.column(name).to_pylist() for name in DELIVERY)
    contents: list[Record | None] = [None] * batch.num_rows
    if RECORD in batch.schema.names or ATTRIBUTES in batch.schema.names:
        contents = [decode(record, "", None, None, None).attributes for record in records_in(batch)]
    versions = [""] * batch.num_rows
    if VERSION in batch.schema.names:
        versions = batch.column(VERSION).to_pylist()
    for subscriber, key, ids, content, version in zip(
        subscribers, zip(*keys, strict=True), subscriptions, contents, versions, strict=True
    ):
        yield delivered(subscriber, key, ids, content, version)
