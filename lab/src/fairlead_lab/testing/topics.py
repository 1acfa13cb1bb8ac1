"""Topics of a running Kafka, for tests: made, filled, and read as readers of committed records see them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import count
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

__all__ = ["Broker"]

QUIET: Final = {"log_level": "0"}
DEADLINE_S: Final = 300


class Broker:
    """A running Kafka, and topics in it that no other test has."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.settings: dict[str, Any] = {"bootstrap.servers": address, **QUIET}
        self._numbers = count()
        self._admin = AdminClient(self.settings)

    def topic(self, partitions: int = 2) -> str:
        """A new topic."""
        name = f"topic{next(self._numbers)}"
        self._admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
        return name

    def send(self, topic: str, *records: Mapping[str, Any]) -> None:
        """Send records, given as the client's `produce` takes them."""
        producer = Producer(self.settings)
        for each in records:
            producer.produce(topic, **each)
        assert producer.flush(60) == 0

    def committed(self, topic: str) -> list[Any]:
        """All records of a topic that a reader of committed ones sees, partition after partition."""
        consumer = Consumer(
            {
                **self.settings,
                "group.id": "tests",
                "isolation.level": "read_committed",
                "enable.auto.commit": "false",
            }
            | {"auto.offset.reset": "earliest", "enable.partition.eof": "true"}
        )
        try:
            partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
            consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
            found: list[Any] = []
            ends: set[int | None] = set()
            deadline = time.monotonic() + DEADLINE_S
            while len(ends) < len(partitions):
                assert time.monotonic() < deadline
                record = consumer.poll(1.0)
                if record is None:
                    continue
                if record.error() is None:
                    found.append(record)
                else:
                    ends.add(record.partition())
            return sorted(found, key=lambda each: (each.partition(), each.offset()))
        finally:
            consumer.close()
