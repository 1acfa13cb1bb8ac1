"""PostgreSQL, for real: from a table by JDBC and into a table, each delivery once, whatever ends a run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from fairlead.errors import PipelineError
from fairlead.spark import Config, Pipeline
from fairlead.spark.output import Attempt
from fairlead.spark.postgres import COLUMNS, POSITIONS, _Writing, write
from fairlead_lab.servers import postgres
from fairlead_lab.servers.jars import fetched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 20
SUBSCRIPTIONS = [{"id": f"s{n}", "subscriber": f"u{n}", "filter": f"x >= {n}"} for n in range(5)]


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with postgres.running() as options:
        yield options


@pytest.fixture
def database(server: dict[str, str]) -> Iterator[psycopg.Connection[Any]]:
    """A connection that commits at once; the table `got` is there and empty."""
    with psycopg.connect(**server, autocommit=True) as connection:
        connection.execute(POSITIONS)
        connection.execute("DROP TABLE IF EXISTS got")
        yield connection


def _line(number: int) -> dict[str, Any]:
    line = {"subscriber": "u", "time": number, "producer": "p", "sequence": None, "id": str(number)}
    return {
        "bucket": 0,
        "value": json.dumps(line | {"subscriptions": ["s"], "notification": {"price": 1.10}}),
    }


def _make(database: psycopg.Connection[Any]) -> None:
    database.execute(f"CREATE TABLE got ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})")


def _number(database: psycopg.Connection[Any]) -> int:
    return int(database.execute("SELECT count(*) FROM got").fetchone()[0])  # type: ignore[index]


def test_a_bucket_of_a_batch_is_written_once_by_whoever_comes_first(
    server: dict[str, str], database: psycopg.Connection[Any]
) -> None:
    _make(database)
    writing = _Writing("once", 3, "got", server)
    with ThreadPoolExecutor(4) as threads:
        told = list(threads.map(lambda _: writing.bucket(0, map(_line, range(50))), range(8)))
    assert told == [50] * 8
    assert _number(database) == 50
    assert _Writing("once", 2, "got", server).bucket(0, map(_line, range(9))) == 9  # a batch before it
    assert _number(database) == 50
    assert _Writing("once", 4, "got", server).bucket(0, map(_line, range(9))) == 9
    assert _number(database) == 59


def test_the_content_is_the_text_that_was_published(
    server: dict[str, str], database: psycopg.Connection[Any]
) -> None:
    _make(database)
    text = '{"price": 1.10, "name": "a\\tb\\u20ac", "n": 12345678901234567890}'
    row = dict(_line(1))
    row["value"] = row["value"].replace('{"price": 1.1}', text)
    _Writing("content", 0, "got", server).bucket(0, iter([row]))
    [found] = database.execute("SELECT notification::text, subscriptions, batch FROM got").fetchall()
    assert found == (text, ["s"], 0)


def test_a_writer_that_is_killed_inside_a_transaction_has_written_nothing(
    server: dict[str, str], database: psycopg.Connection[Any]
) -> None:
    _make(database)
    program = (
        "import json, os, signal, sys; from fairlead.spark.postgres import _Writing\n"
        "def rows(row):\n"
        "    for _ in range(10_000): yield row\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "options, row = map(json.loads, sys.argv[1:])\n"
        "_Writing('killed', 0, 'got', options).bucket(0, rows(row))\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, json.dumps(server), json.dumps(_line(1))], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert _number(database) == 0
    assert (
        _Writing("killed", 0, "got", server).bucket(0, map(_line, range(7))) == 7
    )  # it waits for no dead one
    assert _number(database) == 7


def _config(path: Path, server: Mapping[str, str], **deliveries: Any) -> Config:
    (path / "subscriptions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in SUBSCRIPTIONS))
    address = f"jdbc:postgresql://{server['host']}:{server['port']}/{server['dbname']}"
    read = {"url": address, "dbtable": "events", "user": server["user"], "driver": "org.postgresql.Driver"}
    return Config.of(
        {
            "name": "postgres",
            "output": str(path / "out"),
            "events": {"format": "jdbc", "options": read},
            "subscriptions": {"path": str(path / "subscriptions.jsonl")},
            "deliveries": {"format": "postgres", "table": "got", "options": dict(server), "buckets": 3}
            | deliveries,
            "report": False,
        }
    )


@pytest.fixture
def configured(tmp_path: Path, server: dict[str, str]) -> Config:
    return _config(tmp_path, server)


@pytest.fixture(scope="module")
def connected(spark: SparkSession) -> SparkSession:
    """The session, with the driver of JDBC."""
    for jar in fetched("postgresql"):
        spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.mark.parametrize("moment", ["before-the-manifest", "between-two-buckets"])
def test_from_table_to_table_a_batch_that_is_repeated_is_there_once(
    connected: SparkSession,
    configured: Config,
    database: psycopg.Connection[Any],
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database.execute("DROP TABLE IF EXISTS events")
    database.execute(
        "CREATE TABLE events AS SELECT n::text AS id, 'p' AS producer, n * 1000 AS time, n % 5 AS x "
        f"FROM generate_series(0, {EVENTS - 1}) AS n"
    )
    pipeline = Pipeline(configured, connected)
    assert any("got, in transactions" in line for line in pipeline.plan())
    with monkeypatch.context() as patched:
        if moment == "before-the-manifest":
            patched.setattr(Attempt, "commit", _crash)
        else:
            patched.setattr("fairlead.spark.postgres.write", _write_one_bucket)
        with pytest.raises(PipelineError, match="crashed"):
            pipeline.run()
    assert _number(database)  # there is something, and the output does not know
    summary = Pipeline(configured, connected).run()
    found = database.execute("SELECT subscriber, id FROM got").fetchall()
    wanted = Counter((f"u{n}", str(each)) for each in range(EVENTS) for n in range(5) if each % 5 >= n)
    assert Counter(found) == wanted
    assert summary.deliveries == sum(wanted.values())


def _crash(*_: Any, **__: Any) -> None:
    raise PipelineError("crashed")


def _write_one_bucket(deliveries: Any, batch: Any) -> int:
    write(deliveries.where(deliveries.bucket == deliveries.agg({"bucket": "min"}).collect()[0][0]), batch)
    raise PipelineError("crashed")


def test_what_is_wrong_with_a_sink_is_said_before_anything_runs(
    connected: SparkSession, server: dict[str, str], database: psycopg.Connection[Any], tmp_path: Path
) -> None:
    database.execute("CREATE TABLE got (id text)")
    database.execute("CREATE TABLE IF NOT EXISTS events (id text)")
    with pytest.raises(PipelineError, match="lacks the columns subscriber, time"):
        Pipeline(_config(tmp_path, server), connected).plan()
    with pytest.raises(PipelineError, match=r"PostgreSQL: .*refused"):
        Pipeline(_config(tmp_path, server, options=server | {"port": "1"}), connected).plan()
