"""Transactions that hold the position of what they write.

A transaction has records for topics and, as the committed offset of a consumer group of its own, their position:
a batch's number, or a position in a broker's log. Both are there, or neither. Whoever begins again
under the same name first ends what another had under way, asks for the position, and goes on behind it.

Exactly once, as long as the group's offset is kept (`offsets.retention.minutes` of the brokers, a week unless
set), and for those who read with `isolation.level=read_committed`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from fairlead.errors import KafkaFailed

__all__ = ["Position", "Sent", "Writer", "check_topic", "client_settings", "guarded", "quiet"]

PATIENCE_S: Final = 60.0
AGAIN_S: Final = 0.1
PREFIX: Final = "kafka."


class Sent(NamedTuple):
    """A record for a topic; without a value it is a tombstone."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int = -1
    """By its key, unless it is given."""


class Position(NamedTuple):
    """The position of what a transaction has written, and a text that its writer keeps beside it."""

    at: int
    beside: str = ""


def client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The settings of a client among options: those that begin with `kafka.`, without that."""
    return {name.removeprefix(PREFIX): value for name, value in options.items() if name.startswith(PREFIX)}


def check_topic(settings: Mapping[str, str], topic: str) -> int:
    """The number of partitions of a topic; KafkaFailed where Kafka cannot be reached or has no such topic."""
    from confluent_kafka.admin import AdminClient

    from_there = guarded(lambda: AdminClient(quiet(settings)).list_topics(timeout=PATIENCE_S / 6))
    found = from_there.topics.get(topic)  # of all: a question after one topic may make it
    if found is None:
        raise KafkaFailed(f"Kafka has no topic {topic!r}", hint="create it first")
    return len(found.partitions)


class Writer:
    """A writer of transactions under a name; another under the same name ends this one."""

    def __init__(self, settings: Mapping[str, str], name: str) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        self._name, self._settings = name, settings
        # Keys go to partitions as Java's clients have it.
        wanted = {
            "partitioner": "murmur2_random",
            "linger.ms": "5",
            **quiet(settings),
            "transactional.id": name,
            "enable.idempotence": "true",
        }
        self._producer = guarded(lambda: Producer(wanted))
        guarded(lambda: self._producer.init_transactions(PATIENCE_S))
        self._group = guarded(
            lambda: Consumer({**quiet(settings), "group.id": name, "enable.auto.commit": "false"})
        )
        self._at = TopicPartition

    def position(self, topic: str) -> int:
        """The position behind which to go on, 0 where nothing has been written."""
        return self.held(topic).at

    def held(self, topic: str) -> Position:
        """The position, with the text beside it."""
        [found] = guarded(lambda: self._group.committed([self._at(topic, 0)], timeout=PATIENCE_S))
        if found.error is not None:
            raise KafkaFailed(f"Kafka does not say where {self._name!r} stands: {found.error.str()}")
        return Position(max(0, int(found.offset)), found.metadata or "")

    def write(self, records: Iterable[Sent], topic: str, position: int, beside: str = "") -> int:
        """Write records and the position (kept with a topic), together or not at all; their number."""
        producer, failed, count = self._producer, [], 0

        def failing(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(error)

        guarded(producer.begin_transaction)
        try:
            for each in records:
                count += 1
                self._produce(each, failing)
            marked = [self._at(topic, 0, position, beside)]
            guarded(
                lambda: producer.send_offsets_to_transaction(
                    marked, self._group.consumer_group_metadata(), PATIENCE_S
                )
            )
            guarded(lambda: producer.commit_transaction(PATIENCE_S))
        except BaseException:
            _aborted(producer)
            raise
        if failed:
            raise KafkaFailed(f"Kafka has not taken a record: {failed[0].str()}")
        return count

    def _produce(self, each: Sent, then: Callable[[Any, Any], None]) -> None:
        fixed = {} if each.partition < 0 else {"partition": each.partition}
        while True:
            try:
                self._producer.produce(
                    each.topic,
                    value=each.value,
                    key=each.key,
                    headers=list(each.headers),
                    on_delivery=then,
                    **fixed,
                )
            except BufferError:
                self._producer.poll(1.0)
                continue
            except Exception as error:
                raise KafkaFailed(f"Kafka refuses a record for {each.topic!r}: {error}") from error
            self._producer.poll(0)
            return

    def close(self) -> None:
        """End it; what was not committed is not there."""
        self._group.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _aborted(producer: Any) -> None:
    from confluent_kafka import KafkaException

    try:
        producer.abort_transaction(PATIENCE_S)
    except KafkaException:
        return  # the next one under this name ends it


def guarded(do: Callable[[], Any]) -> Any:
    """Answer of Kafka's client, or KafkaFailed with its words; what passes is asked again for a while."""
    from confluent_kafka import KafkaError, KafkaException

    passing = {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
    }
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return do()
        except KafkaException as error:
            [reason, *_] = error.args
            if (reason.retriable() or reason.code() in passing) and time.monotonic() < deadline:
                time.sleep(AGAIN_S)
                continue
            raise KafkaFailed(f"Kafka: {reason.str()}", hint="is kafka.bootstrap.servers right?") from error


def quiet(settings: Mapping[str, str]) -> dict[str, Any]:
    return {"log_level": "0", **settings}
