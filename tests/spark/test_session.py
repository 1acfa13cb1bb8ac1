"""The way to a SparkSession: it works on its own and over Connect, says nothing, and says what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from fairlead.errors import FairleadError
from fairlead.spark import SparkUnavailable, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Ends by saying which Python the workers ran: a function sent to them works with what is installed here.
CLIENT = """
import sys
import pyarrow as pa
from fairlead.spark import session

spark = session({arguments})

def executable(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({{"python": [sys.executable] * batch.num_rows}})

found = spark.range(4).mapInArrow(executable, "python string").distinct().collect()
print([row.python for row in found])
spark.stop()
"""


def client(arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CLIENT.format(arguments=arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **environment},
    )


def test_a_function_over_arrow_batches_runs_in_the_workers(spark: SparkSession) -> None:
    def double(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"id": [2 * each.as_py() for each in batch.column(0)]})

    assert [row.id for row in spark.range(3).mapInArrow(double, "id long").orderBy("id").collect()] == [
        0,
        2,
        4,
    ]


def test_asking_again_gives_the_session_that_runs(spark: SparkSession) -> None:
    assert session(master="local[2]") is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_new_session_works_and_writes_nothing_to_stderr() -> None:
    run = client('master="local[1]", settings={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}')
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.strip() == f"[{sys.executable!r}]"


def test_the_same_works_over_connect(connect_url: str) -> None:
    run = client(f"remote={connect_url!r}")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.strip() == f"[{sys.executable!r}]"


def test_a_missing_java_is_named_with_what_to_do(tmp_path: Path) -> None:
    for environment, place in (
        ({"JAVA_HOME": str(tmp_path)}, f"JAVA_HOME={tmp_path} has no bin/java"),
        ({"JAVA_HOME": "", "PATH": str(tmp_path)}, "there is none on PATH"),
    ):
        run = client("", **environment)
        last = run.stderr.strip().splitlines()[-2:]
        assert run.returncode == 1
        assert place in last[0]
        assert "install Java 17" in last[1]


def test_a_wrong_master_gives_sparks_own_reason_in_one_line() -> None:
    run = client('master="nowhere"')
    assert run.returncode == 1
    assert "SparkUnavailable: Spark does not start on nowhere: Master must" in run.stderr


def test_a_master_and_a_connect_address_exclude_each_other() -> None:
    with pytest.raises(SparkUnavailable, match="name one of the two") as refused:
        session(master="local[1]", remote="sc://127.0.0.1:1")
    assert isinstance(refused.value, FairleadError)


STARTING = """
import os, sys, tempfile, threading
from fairlead.spark.sessions import _stderr_into

with tempfile.TemporaryFile() as noise:
    with _stderr_into(noise):
        os.system("echo noise >&2")
        speaker = threading.Thread(target=lambda: print("stopping", file=sys.stderr))
        speaker.start()
        speaker.join()
    print("started", file=sys.stderr)
    noise.seek(0)
    assert noise.read() == b"noise\\n"
"""


def test_while_spark_starts_it_is_silent_and_we_are_heard() -> None:
    run = subprocess.run([sys.executable, "-c", STARTING], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "stopping\nstarted\n")


LOSING = """
import logging, os, socket, struct, sys, threading
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from fairlead.spark import sessions

sessions._quieten_python()
listening = socket.create_server(("127.0.0.1", 0))

def reset():
    connection, _ = listening.accept()
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    listening.close()

threading.Thread(target=reset, daemon=True).start()
java = JavaParameters(port=listening.getsockname()[1], auto_convert=True)
try:
    ClientServer(java, PythonParameters(port=0)).jvm.java.lang.System.currentTimeMillis()
except Exception as error:
    print(type(error).__name__)
logging.error("heard")
sys.stdout.flush()
os._exit(0)  # py4j listens in a thread that does not end by itself
"""


def test_a_jvm_that_is_lost_is_raised_and_not_logged() -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOSING], capture_output=True, text=True, check=False, timeout=120
    )
    assert (run.returncode, run.stderr) == (0, "ERROR:root:heard\n")
    assert run.stdout.strip().endswith("Error")
