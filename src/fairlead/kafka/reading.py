"""Records of topics for a group of readers: each is taken again until the group has committed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from fairlead.errors import KafkaFailed
from fairlead.kafka.records import Taken
from fairlead.kafka.writing import guarded, quiet

__all__ = ["Reader"]


class Reader:
    """A member of a group, which reads some partitions of its topics, committed records only."""

    def __init__(self, settings: Mapping[str, str], group: str, topics: Sequence[str]) -> None:
        from confluent_kafka import Consumer

        wanted = {
            "auto.offset.reset": "earliest",
            **quiet(settings),
            "group.id": group,
            "enable.auto.commit": "false",
            "enable.auto.offset.store": "false",
            "isolation.level": "read_committed",
        }
        self._consumer = guarded(lambda: Consumer(wanted))
        self._consumer.subscribe(list(topics))

    def take(self, limit: int, timeout_s: float) -> list[Taken]:
        """The next records, at most so many, when there are any; none where none come in time."""
        from confluent_kafka import KafkaError

        found = guarded(lambda: self._consumer.consume(limit, timeout_s))
        failed = [each.error() for each in found if each.error() is not None]
        if serious := [each for each in failed if each.code() != KafkaError._PARTITION_EOF]:
            raise KafkaFailed(f"Kafka: {serious[0].str()}")
        records = [each for each in found if each.error() is None]
        for each in records:
            self._consumer.store_offsets(message=each)
        return [_taken(each) for each in records]

    def commit(self) -> None:
        """Commit all that was taken: the group does not take it again."""
        from confluent_kafka import KafkaError, KafkaException

        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise KafkaFailed(f"Kafka: {error.args[0].str()}") from error

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _taken(record: Any) -> Taken:
    kind, time_ms = record.timestamp()
    return Taken(
        record.topic(),
        record.partition(),
        record.offset(),
        record.value(),
        record.key(),
        None if kind == 0 else 1_000 * time_ms,
        record.headers() or (),
    )
