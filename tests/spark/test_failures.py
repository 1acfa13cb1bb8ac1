"""Whatever stops Spark is said in one message, in classic mode and over Connect; the exceptions are real."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from fairlead.errors import FairleadError, FilterSyntaxError, PipelineError, SparkUnavailable
from fairlead.spark.delivery import send
from fairlead.spark.failures import CONNECTORS, reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Provocation = Callable[["SparkSession", Path], object]


def raised(provoke: Callable[[], object]) -> BaseException:
    try:
        provoke()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


# -- what workers run: made within functions, so that they are shipped by value ------------------------------


def raising(error: Exception) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            raise error
        yield from ()

    return work


def dying() -> Callable[[Iterator[Any]], Iterator[Any]]:
    def work(batches: Iterator[Any]) -> Iterator[Any]:
        import os

        os._exit(3)
        yield from batches

    return work


def writing_to_a_full_disk() -> Callable[[Iterator[Any]], Iterator[Any]]:
    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            with open("/dev/full", "w") as full:
                full.write("x" * 100_000)
            yield batch

    return work


def in_worker(work: Callable[[Iterator[Any]], Iterator[Any]]) -> Provocation:
    return lambda spark, _: spark.range(2).mapInArrow(work, "id long").count()


def in_batch_of_stream(step: Callable[[DataFrame], object]) -> Provocation:
    """A streaming query whose batches are handled so."""

    def provoke(spark: SparkSession, tmp: Path) -> object:
        query = (
            spark.readStream.text(str(lines(tmp)))
            .writeStream.foreachBatch(lambda frame, _: step(frame))
            .option("checkpointLocation", str(tmp / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        return query.awaitTermination()

    return provoke


def fail(error: Exception) -> object:
    raise error


def fill_the_disk() -> object:
    with open("/dev/full", "wb", buffering=0) as full:
        return full.write(b"x")


def lines(tmp: Path) -> Path:
    (tmp / "lines").mkdir()
    (tmp / "lines" / "a.txt").write_text("a\nb\n")
    return tmp / "lines"


def write_twice(spark: SparkSession, tmp: Path) -> None:
    for _ in range(2):
        spark.range(1).write.parquet(str(tmp / "out"))


def clash(spark: SparkSession, tmp: Path, **options: str) -> None:
    for part, column in ((1, "id"), (2, "cast(id as string) id")):
        spark.range(2).selectExpr(column).coalesce(1).write.parquet(str(tmp / "in" / f"part={part}"))
    spark.read.options(**options).parquet(str(tmp / "in")).collect()


def read_what_is_no_parquet(spark: SparkSession, tmp: Path) -> None:
    (tmp / "a.parquet").write_text("this is no Parquet at all")
    spark.read.parquet(str(tmp / "a.parquet")).collect()


def read_what_vanishes(spark: SparkSession, tmp: Path) -> None:
    spark.range(2).write.parquet(str(tmp / "in"))
    frame = spark.read.parquet(str(tmp / "in"))
    shutil.rmtree(tmp / "in")
    frame.collect()


def read_an_empty_directory(spark: SparkSession, tmp: Path) -> None:
    (tmp / "empty").mkdir()
    spark.read.parquet(str(tmp / "empty")).collect()


OURS = PipelineError("subscriptions.jsonl:7012: not a filter", hint="mend it")

CASES: dict[str, tuple[Provocation, str]] = {
    "a worker raises an error of ours": (
        in_worker(raising(OURS)),
        r"subscriptions\.jsonl:7012: not a filter\n  hint: mend it",
    ),
    "a worker raises anything else": (
        in_worker(raising(ValueError("the seventh\nline"))),
        r"Spark failed: ValueError: the seventh",
    ),
    "a worker is denied": (
        in_worker(raising(PermissionError(13, "Permission denied", "/data/secret"))),
        r"/data/secret: permission denied\n  hint: .*the right to read.*",
    ),
    "a worker dies": (
        in_worker(dying()),
        r"a worker process died; .*memory.*\n  hint: fewer workers .*again.*",
    ),
    "a worker writes to a full disk": (
        in_worker(writing_to_a_full_disk()),
        r"the disk is full\n  hint: make room, then run it again.*",
    ),
    "a path does not exist": (
        lambda spark, tmp: spark.read.parquet(f"{tmp}/nowhere").count(),
        r"TMP/nowhere: no such file or directory\n  hint: .*where the pipeline file is",
    ),
    "a pattern finds nothing": (
        lambda spark, tmp: spark.read.text(f"{tmp}/*.none").count(),
        r"TMP/\*\.none: no such file or directory\n  hint: .*",
    ),
    "a stream's path does not exist": (
        lambda spark, tmp: spark.readStream.text(f"{tmp}/nowhere"),
        r"TMP/nowhere: no such file or directory\n  hint: .*",
    ),
    "an output exists": (write_twice, r"TMP/out: exists already\n  hint: name another output, or remove it"),
    "an output cannot be created": (
        lambda spark, _: spark.range(1).write.parquet("/proc/nowhere"),
        r"/proc/nowhere: cannot be created\n  hint: .*may Spark's workers write there\?",
    ),
    "files clash": (
        clash,
        r"TMP/in/part=2/\S+: column 'id' is BINARY here and bigint in other files\n  hint: .*\[\[events\]\]",
    ),
    "files clash when they are merged": (
        lambda spark, tmp: clash(spark, tmp, mergeSchema="true"),
        r'the files of an input disagree: "STRUCT<id: BIGINT.*>" and "STRUCT<id: STRING.*>"\n  hint: .*',
    ),
    "a file is of another format": (
        read_what_is_no_parquet,
        r"TMP/a\.parquet: cannot be read: damaged, or of another format\n  hint: .*",
    ),
    "a file vanishes": (read_what_vanishes, r"TMP/in/\S+: the file vanished while it was read\n  hint: .*"),
    "a directory is empty": (read_an_empty_directory, r"there is no Parquet file in an input.*\n  hint: .*"),
    "Avro's connector is missing": (
        lambda spark, _: spark.read.format("avro").load("nowhere").count(),
        r"Spark has no connector for 'avro'\n"
        r'  hint: .*"spark\.jars\.packages" = "org\.apache\.spark:spark-avro_2\.13:4\.3\.\d+".*',
    ),
    "another connector is missing": (
        lambda spark, _: spark.read.format("parqet").load("/").count(),
        r"Spark has no connector for 'parqet'\n  hint: is it spelled right\?.*",
    ),
    "a file system is missing": (
        lambda spark, _: spark.read.text("s3a://bucket/events").count(),
        r"Spark has no connector for 's3a'\n  hint: .*org\.apache\.hadoop:hadoop-aws:VERSION.*",
    ),
    "a table does not exist": (
        lambda spark, _: spark.table("nowhere.t").count(),
        r"there is no table nowhere\.t",
    ),
    "a database does not exist": (
        lambda spark, _: spark.range(1).write.saveAsTable("nowhere.t"),
        r"there is no database spark_catalog\.nowhere\n  hint: .*",
    ),
    "a column does not exist": (
        lambda spark, _: spark.range(1).select("nope"),
        r"Spark failed: \[UNRESOLVED_COLUMN.*with name `nope` cannot be resolved\. Did you mean.*\[`id`\]\.",
    ),
    "a batch of a stream raises an error of ours": (
        in_batch_of_stream(lambda _: fail(OURS)),
        r"subscriptions\.jsonl:7012: not a filter\n  hint: mend it",
    ),
    "a batch of a stream raises anything else": (
        in_batch_of_stream(lambda _: fail(ValueError("no such thing"))),
        r"Spark failed: ValueError: no such thing",
    ),
    "a worker of a stream raises an error of ours": (
        in_batch_of_stream(lambda frame: frame.mapInArrow(raising(OURS), "value string").count()),
        r"subscriptions\.jsonl:7012: not a filter\n  hint: mend it",
    ),
    "a worker of a stream dies": (
        in_batch_of_stream(lambda frame: frame.mapInArrow(dying(), "value string").count()),
        r"a worker process died.*\n  hint: .*",
    ),
    "a batch of a stream finds no path": (
        in_batch_of_stream(lambda frame: frame.sparkSession.read.parquet("/nowhere").count()),
        r"/nowhere: no such file or directory\n  hint: .*",
    ),
    "a batch of a stream meets a full disk": (
        in_batch_of_stream(lambda _: fill_the_disk()),
        r"the disk is full\n  hint: .*",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_stops_spark_is_said_in_one_message(spark: SparkSession, tmp_path: Path, case: str) -> None:
    provoke, expected = CASES[case]
    found = reason(raised(lambda: provoke(spark, tmp_path)))
    assert isinstance(found, FairleadError)
    said = str(found).replace(str(tmp_path), "TMP")
    assert re.fullmatch(expected, said), said
    assert len(said.splitlines()) <= 2


def test_an_error_of_ours_comes_back_from_a_worker_as_it_was_raised(spark: SparkSession) -> None:
    def work(batches: Iterator[Any]) -> Iterator[Any]:
        from fairlead.filters import parse

        for batch in batches:
            parse("price >")
            yield batch

    found = reason(raised(lambda: spark.range(1).mapInArrow(work, "id long").count()))
    assert type(found) is FilterSyntaxError
    assert str(found) == str(raised(lambda: __import__("fairlead").parse("price >")))


# -- what cannot be provoked everywhere ----------------------------------------------------------------------


class Py4JJavaError(Exception):
    """Looks like py4j's, with words that were recorded."""


Py4JJavaError.__module__ = "py4j.protocol"


CALLING = "An error occurred while calling o296.parquet.\n: "
ABORTED = (
    f"{CALLING}org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed, "
    "most recent failure: Lost task 0.0 in stage 3.0 (TID 6) (host executor driver): "
)
STACK = "\n\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)\n\t... 23 more\n"


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (
            f"{CALLING}SparkException: [TASK_WRITE_FAILED] Task failed while writing rows to file:/data/out. "
            f"SQLSTATE: 58030{STACK}Caused by: java.io.IOException: No space left on device{STACK}",
            "the disk is full at /data/out",
        ),
        (
            f"{ABORTED}java.io.FileNotFoundException: /data/a.csv (Permission denied){STACK}",
            "/data/a.csv: permission denied",
        ),
        (f"{ABORTED}java.lang.OutOfMemoryError: Java heap space{STACK}", "Spark ran out of memory"),
        (
            f"{ABORTED}org.apache.spark.SparkException: Python worker failed to connect back.{STACK}",
            "a Python worker did not start in time",
        ),
        (
            f"{ABORTED}Traceback (most recent call last):\nModuleNotFoundError: No module named 'fairlead'{STACK}",
            "Spark's workers have no module 'fairlead'",
        ),
        (f"{ABORTED}java.lang.IllegalStateException: odd{STACK}", "Spark failed: odd"),
        (f"{CALLING}java.lang.IllegalStateException: odd{STACK}", "Spark failed: odd"),
        ("", "Spark failed: it gives no reason"),
    ],
)
def test_recorded_words_are_understood(recorded: str, expected: str) -> None:
    found = reason(Py4JJavaError(recorded))
    assert found is not None
    assert str(found).splitlines()[0] == expected


def test_a_java_process_that_is_gone_is_named() -> None:
    class Gone(Py4JJavaError):
        def __str__(self) -> str:
            raise ConnectionRefusedError(111, "Connection refused")

    Gone.__module__ = "pyspark.errors.exceptions.captured"
    found = reason(Gone())
    assert isinstance(found, SparkUnavailable)
    assert "Java process has ended" in str(found)


def test_a_refused_connection_is_sparks_only_where_spark_made_it() -> None:
    refused = "def connect(): raise ConnectionRefusedError(111, 'Connection refused')"
    for module, kind in (("py4j.clientserver", SparkUnavailable), ("callbacks", type(None))):
        scope: dict[str, Any] = {"__name__": module}
        exec(refused, scope)
        assert type(reason(raised(scope["connect"]))) is kind


def test_what_the_system_refuses_on_this_side_is_told_as_well() -> None:
    full = raised(fill_the_disk)
    assert str(reason(full)).startswith("the disk is full")
    assert str(reason(PermissionError(13, "Permission denied", "/x"))).startswith("/x: permission denied")
    gone = FileNotFoundError(2, "No such file or directory", "/x")
    assert str(reason(gone)) == "/x: no such file or directory"


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), OSError(5, "Input/output error")])
def test_errors_of_others_are_not_explained_away(error: Exception) -> None:
    assert reason(error) is None


def test_a_callback_that_raises_is_named_with_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(deliveries: object, batch: int) -> None:
        raise KeyError("price")

    monkeypatch.setitem(sys.modules, "callback_of_a_test", SimpleNamespace(fails=fails))
    with pytest.raises(
        PipelineError, match=r"callback_of_a_test:fails failed with batch 7: KeyError: 'price'"
    ):
        send(cast("DataFrame", None), 7, "callback", callback="callback_of_a_test:fails")


def test_an_error_of_ours_is_its_own_reason() -> None:
    assert reason(OURS) is OURS


def test_every_connector_has_a_full_coordinate() -> None:
    assert all(
        re.fullmatch(r"[\w.]+:[\w.-]+:\S+", each.format(spark="4.3.0")) for each in CONNECTORS.values()
    )


# -- over Connect --------------------------------------------------------------------------------------------

CLIENT = """
import json, socket, sys, threading, time
from pathlib import Path

from fairlead.spark.failures import reason
from fairlead.spark.sessions import session

tests, url, tmp = sys.argv[1:]
sys.path.insert(0, tests)
import test_failures
import pyspark.cloudpickle
pyspark.cloudpickle.register_pickle_by_value(test_failures)  # the server does not know this module


def told(provoke):
    try:
        provoke()
    except Exception as error:
        return reason(error)


def say(name, provoke):
    found = told(provoke)
    print(json.dumps([name, type(found).__name__, str(found)]), flush=True)


class Cable:
    '''A wire to the server that can be cut.'''

    def __init__(self, host, port):
        self.target, self.ends = (host, port), []
        self.door = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.door.accept()
            except OSError:
                return
            far = socket.create_connection(self.target)
            self.ends += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    @staticmethod
    def carry(one, other):
        try:
            while octets := one.recv(65536):
                other.sendall(octets)
        except OSError:
            pass

    def cut(self):
        self.door.shutdown(socket.SHUT_RDWR)
        self.door.close()
        for end in self.ends:
            end.shutdown(socket.SHUT_RDWR)


host, _, port = url.removeprefix("sc://").partition(":")
cable = Cable(host, int(port))
spark = session(remote=f"sc://127.0.0.1:{cable.door.getsockname()[1]}")
for number, name in enumerate(test_failures.OVER_CONNECT):
    directory = Path(tmp, str(number))
    directory.mkdir()
    say(name, lambda: test_failures.CASES[name][0](spark, directory))

# The server gives the process that handles batches ten seconds to start, which a busy machine may not have.
deadline, number = time.monotonic() + 200, 0
while True:
    directory, number = Path(tmp, f"stream{number}"), number + 1
    directory.mkdir()
    found = told(lambda: test_failures.CASES[test_failures.STREAMED][0](spark, directory))
    if "did not start in time" not in str(found) or time.monotonic() > deadline:
        break
print(json.dumps([test_failures.STREAMED, type(found).__name__, str(found)]), flush=True)

from pyspark.sql.connect.client.retries import DefaultPolicy
# By default it waits for minutes.
spark.client.set_retry_policies([DefaultPolicy(max_retries=1, initial_backoff=1)])
cable.cut()
say("the server is gone", lambda: spark.range(1).count())
import os
os._exit(0)  # a session whose server is gone does not end well
"""
OVER_CONNECT = (
    "a worker raises an error of ours",
    "a worker raises anything else",
    "a worker dies",
    "a worker writes to a full disk",
    "a path does not exist",
    "an output exists",
    "files clash",
    "Avro's connector is missing",
    "a table does not exist",
)
STREAMED = "a batch of a stream raises an error of ours"


def test_over_connect_the_same_is_said(connect_url: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", CLIENT, Path(__file__).parent, connect_url, tmp_path],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    told = {name: (kind, said) for name, kind, said in map(json.loads, run.stdout.splitlines())}
    assert told.pop("the server is gone")[0] == "SparkUnavailable"
    assert told.keys() == {*OVER_CONNECT, STREAMED}
    for number, (name, (kind, said)) in enumerate(told.items()):
        assert kind == "PipelineError", (name, said)
        assert re.fullmatch(CASES[name][1], said.replace(f"{tmp_path}/{number}", "TMP")), (name, said)


def test_a_table_format_for_another_spark_is_said_to_be_one() -> None:
    """Delta Lake 4.0.0 with Spark 4.3.0, as they say it."""
    from py4j.protocol import Py4JError

    said = (
        "An error occurred while calling o54.save.\n"
        ": com.google.common.util.concurrent.ExecutionError: java.lang.NoClassDefFoundError: "
        "org/apache/spark/sql/catalyst/expressions/TimeAdd\n"
        "\tat com.google.common.cache.LocalCache$Segment.get(LocalCache.java:2075)\n"
    )
    told = reason(Py4JError(said))
    assert isinstance(told, PipelineError)
    assert "a library beside Spark is for another version of it: org/apache/spark/sql/" in str(told)
    assert "spark.jars.packages" in str(told)
