"""Kafka, for real: from a topic and into a topic, each delivery once, whatever is killed in between.

A broker in KRaft mode serves all of these tests; `tests/conftest.py` keeps them on one worker, so it starts once.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from io import BytesIO
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import KafkaError, KafkaException

from fairlead.errors import KafkaFailed, PipelineError
from fairlead.kafka.writing import Sent, Writer, check_topic
from fairlead.spark import Config, Pipeline, small
from fairlead.spark.output import Attempt
from fairlead_lab.servers import kafka, registry
from fairlead_lab.servers.jars import fetched
from fairlead_lab.testing.topics import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEADLINE_S = 300
EVENTS = 60
BATCH = 40
"""So many records a micro-batch takes: there are two."""
SUBSCRIPTIONS = [
    {"id": f"s{number}", "subscriber": f"u{number % 4}", "filter": f"x >= {number % 5}"}
    for number in range(8)
]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with kafka.running(tmp_path_factory.mktemp("kafka")) as address:
        yield Broker(address)


@pytest.fixture(scope="session")
def connected(spark: SparkSession) -> SparkSession:
    """The session, with Spark's connector."""
    for jar in fetched("spark-kafka"):
        spark.sql(f"ADD JAR '{jar}'")
    return spark


def events(rng: Random) -> list[dict[str, Any]]:
    """Events in the order of their times, which are unlike."""
    return [
        {"id": str(number), "producer": f"p{number % 3}", "time": 1_000 * number, "x": rng.randint(0, 5)}
        for number in range(EVENTS)
    ]


def wanted(published: list[dict[str, Any]]) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """What each subscriber gets, and for which subscriptions, by the definition."""
    got = defaultdict(list)
    for event in published:
        asked = defaultdict(list)
        for each in SUBSCRIPTIONS:
            if event["x"] >= int(each["filter"].removeprefix("x >= ")):
                asked[each["subscriber"]].append(each["id"])
        for subscriber, ids in asked.items():
            got[subscriber].append((event["id"], tuple(ids)))
    return dict(got)


def delivered(records: list[Any]) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """What each subscriber got from a topic, in its order."""
    got = defaultdict(list)
    for record in records:
        line = json.loads(record.value())
        assert record.key().decode() == line["subscriber"]
        assert dict(record.headers())["id"].decode() == line["id"]
        got[line["subscriber"]].append((line["id"], tuple(line["subscriptions"])))
    return dict(got)


class Prepared(NamedTuple):
    """A pipeline from a topic with events into a topic, and what is to come of it."""

    config: dict[str, Any]
    target: str
    wanted: dict[str, list[tuple[str, tuple[str, ...]]]]


@pytest.fixture
def prepared(broker: Broker, tmp_path: Path) -> Prepared:
    published, source, target = events(Random(7)), broker.topic(), broker.topic(3)
    broker.send(
        source,
        *({"value": json.dumps(each), "partition": int(each["id"]) % 2} for each in published),
    )
    (tmp_path / "subscriptions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in SUBSCRIPTIONS))
    return Prepared(_config(broker, tmp_path, source, target), target, wanted(published))


def _config(broker: Broker, path: Path, source: str, target: str, **more: Any) -> dict[str, Any]:
    servers = {"kafka.bootstrap.servers": broker.address}
    read = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(BATCH)}
    return {
        "name": "kafka",
        "mode": "stream",
        "output": str(path / "out"),
        "events": {"format": "kafka", "options": servers | read},
        "subscriptions": {"path": str(path / "subscriptions.jsonl")},
        "order": {"lateness": "10ms", "final": True},
        "deliveries": {"format": "kafka", "buckets": 3, "options": servers | {"topic": target}},
        "stream": {"available": True},
        **more,
    }


@pytest.mark.parametrize("path", ["driver", "jobs"])
def test_from_topic_to_topic_each_delivery_arrives_once_and_in_order(
    connected: SparkSession, broker: Broker, prepared: Prepared, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path == "jobs":  # as for a batch that is not small
        monkeypatch.setattr(small, "collected", lambda *_: None)
        prepared.config["events"]["options"]["maxOffsetsPerTrigger"] = str(EVENTS)
    pipeline = Pipeline(Config.of(prepared.config), connected)
    assert any("in transactions" in line for line in pipeline.plan())
    summary = pipeline.run()
    assert summary.batches >= (2 if path == "driver" else 1)
    assert delivered(broker.committed(prepared.target)) == prepared.wanted
    assert summary.deliveries == sum(map(len, prepared.wanted.values()))


class Moment(NamedTuple):
    """A method that ends the process in its place, from its second call on or at once."""

    owner: type
    method: str
    calls: int


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(Moment(Attempt, "commit", 0), id="before-the-manifest"),
        pytest.param(Moment(Writer, "write", 1), id="between-two-buckets"),
    ],
)
def test_a_batch_that_is_repeated_writes_only_what_is_not_there(
    connected: SparkSession,
    broker: Broker,
    prepared: Prepared,
    moment: Moment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, calls = getattr(moment.owner, moment.method), count()

    def crashing(*given: Any, **named: Any) -> Any:
        if next(calls) < moment.calls:
            return real(*given, **named)
        raise PipelineError("crashed")

    with monkeypatch.context() as patched:
        patched.setattr(moment.owner, moment.method, crashing)
        with pytest.raises(PipelineError, match="crashed"):
            Pipeline(Config.of(prepared.config), connected).run()
    assert broker.committed(prepared.target)  # they are there, and the output does not know
    Pipeline(Config.of(prepared.config), connected).run()
    assert delivered(broker.committed(prepared.target)) == prepared.wanted


@pytest.mark.soak
def test_after_a_kill_in_the_middle_nothing_is_lost_and_nothing_there_twice(
    connected: SparkSession, broker: Broker, prepared: Prepared
) -> None:
    _killed(broker, prepared)
    Pipeline(Config.of(prepared.config), connected).run()
    assert delivered(broker.committed(prepared.target)) == prepared.wanted


def _killed(broker: Broker, prepared: Prepared) -> None:
    """Run a pipeline in a process, and kill it when the first records are there."""
    path = Path(prepared.config["output"]).with_name("pipeline.json")
    path.write_text(json.dumps(prepared.config))
    jars = ",".join(map(str, fetched("spark-kafka")))
    program = (
        "import json, sys; from fairlead.spark import Config, Pipeline, session;"
        f"spark = session(master='local[1]', settings={{'spark.jars': {jars!r}}});"
        "Pipeline(Config.of(json.load(open(sys.argv[1]))), spark).run()"
    )
    command = [sys.executable, "-c", program, str(path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    deadline = time.monotonic() + DEADLINE_S
    while not broker.committed(prepared.target):
        assert process.poll() is None, (process.communicate()[0] or b"").decode()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=DEADLINE_S)


def test_a_writer_that_another_has_replaced_writes_nothing_more(broker: Broker) -> None:
    topic = broker.topic(1)
    with Writer(broker.settings, "same") as old:
        old.write([Sent(topic, b"1")], topic, 1)
        with Writer(broker.settings, "same") as new:
            assert new.position(topic) == 1
            with pytest.raises(KafkaFailed):
                old.write([Sent(topic, b"twice")], topic, 2)
            new.write([Sent(topic, b"2", b"key", (("h", b"v"),)), Sent(topic, None, b"key")], topic, 2)
            assert new.position(topic) == 2
    found = broker.committed(topic)
    assert [each.value() for each in found] == [b"1", b"2", None]
    assert (found[1].key(), found[1].headers()) == (b"key", [("h", b"v")])


DYING = """
import sys
from fairlead.kafka.writing import Sent, Writer

address, topic = sys.argv[1:]

def records():
    for number in range(100):
        yield Sent(topic, str(number).encode())
    writer._producer.flush()
    print("half", flush=True)
    sys.stdin.read()

with Writer({"bootstrap.servers": address}, "dying") as writer:
    writer.write(records(), topic, 1)
"""


def test_a_writer_that_is_killed_inside_a_transaction_has_written_nothing(broker: Broker) -> None:
    topic = broker.topic(1)
    command = [sys.executable, "-c", DYING, broker.address, topic]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.kill()
    with Writer(broker.settings, "dying") as writer:
        assert writer.position(topic) == 0
        writer.write([Sent(topic, b"whole")], topic, 1)
    assert [each.value() for each in broker.committed(topic)] == [b"whole"]


def test_a_coordinator_that_moves_is_asked_again(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, moves = broker.topic(1), [KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))]

    class Moving:
        def __init__(self, group: Any) -> None:
            self.committed = lambda *given, **named: (
                raised(moves.pop()) if moves else group.committed(*given, **named)
            )
            self.close = group.close

    def raised(error: Exception) -> None:
        raise error

    with Writer(broker.settings, "moving") as writer:
        monkeypatch.setattr(writer, "_group", Moving(writer._group))
        assert writer.position(topic) == 0
        assert not moves


def test_a_transaction_that_fails_leaves_neither_records_nor_a_place(broker: Broker) -> None:
    topic = broker.topic(1)

    def records() -> Iterator[Sent]:
        yield Sent(topic, b"half")
        raise ValueError("no more")

    with Writer(broker.settings, "failing") as writer:
        with pytest.raises(ValueError, match="no more"):
            writer.write(records(), topic, 1)
        assert writer.position(topic) == 0
        with pytest.raises(KafkaFailed, match="large"):
            writer.write([Sent(topic, b"x" * 2_000_000)], topic, 1)
        assert writer.write([Sent(topic, b"whole")], topic, 1) == 1
    assert [each.value() for each in broker.committed(topic)] == [b"whole"]


def test_what_is_wrong_with_a_sink_is_said_before_anything_runs(
    connected: SparkSession, broker: Broker, prepared: Prepared
) -> None:
    sink = prepared.config["deliveries"]
    missing = {**sink, "options": {**sink["options"], "topic": "nowhere"}}
    with pytest.raises(KafkaFailed, match="Kafka has no topic 'nowhere'"):
        Pipeline(Config.of({**prepared.config, "deliveries": missing}), connected).plan()
    assert check_topic(broker.settings, prepared.target) == 3


# -- more than JSON ----------------------------------------------------------------------------------------------

AVRO = {
    "type": "record",
    "name": "Quote",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "symbol", "type": "string"},
        {"name": "price", "type": ["null", "double"]},
    ],
}
DELIVERY = {
    "type": "record",
    "name": "Delivery",
    "fields": [
        {"name": "subscriber", "type": "string"},
        {"name": "id", "type": "string"},
        {"name": "producer", "type": "string"},
        {"name": "time", "type": "long"},
        {"name": "sequence", "type": ["null", "long"], "default": None},
        {"name": "subscriptions", "type": {"type": "array", "items": "string"}},
    ],
}


@pytest.fixture(scope="session")
def schemas() -> Iterator[str]:
    with registry.running() as url:
        yield url


def register(url: str, subject: str, schema: Mapping[str, Any]) -> int:
    request = Request(
        f"{url}/subjects/{subject}/versions", json.dumps({"schema": json.dumps(schema)}).encode()
    )
    with urlopen(request) as answer:
        return int(json.load(answer)["id"])


def avro(number: int, schema: Mapping[str, Any], fields: Mapping[str, Any]) -> bytes:
    from fastavro import parse_schema, schemaless_writer

    written = BytesIO()
    schemaless_writer(written, parse_schema(dict(schema)), dict(fields))
    return struct.pack(">bI", 0, number) + written.getvalue()


def test_avro_in_and_out_with_keys_headers_and_tombstones(
    connected: SparkSession, broker: Broker, schemas: str, tmp_path: Path
) -> None:
    from fastavro import parse_schema, schemaless_reader

    source, target = broker.topic(1), broker.topic(1)
    number = register(schemas, f"{source}-value", AVRO)
    written = register(schemas, f"{target}-value", DELIVERY)
    quote = {"id": "a", "time": 1_000, "symbol": "IBM", "price": 101.5}
    broker.send(
        source,
        {"value": avro(number, AVRO, quote), "key": "IBM", "headers": [("feed", b"nyse")]},
        {"value": avro(number, AVRO, {**quote, "id": "b", "price": None}), "key": "IBM"},
        {"value": None, "key": "SAP"},
        {"value": b"no Avro", "key": "SAP"},
        {"value": struct.pack(">bI", 0, number) + b"\2a", "key": "SAP"},
        {"value": struct.pack(">bI", 0, 999) + b"\2a", "key": "SAP"},
    )
    asked = [
        {"id": "priced", "subscriber": "ada", "filter": 'price > 100 and at.headers.feed = "nyse"'},
        {"id": "gone", "subscriber": "bob", "filter": 'at.tombstone = true and at.key = "SAP"'},
    ]
    (tmp_path / "subscriptions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in asked))
    config = _config(broker, tmp_path, source, target)
    config["events"] |= {"encoding": "avro", "registry": schemas, "about": "at", "tombstones": "keep"}
    config["deliveries"] |= {"encoding": "avro", "registry": schemas, "payload": False}
    summary = Pipeline(Config.of(config), connected).run()
    assert (summary.read, summary.rejected) == (6, 3), summary.reasons
    found = []
    for record in broker.committed(target):
        assert struct.unpack_from(">bI", record.value()) == (0, written)
        found.append(schemaless_reader(BytesIO(record.value()[5:]), parse_schema(DELIVERY), None))
    assert [(each["subscriber"], each["subscriptions"]) for each in found] == [
        ("ada", ["priced"]),
        ("bob", ["gone"]),
    ]
