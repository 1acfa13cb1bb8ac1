"""The oldest Spark that Fairlead runs on passes tests of every part: stages, streams, audit, report, tables."""

from __future__ import annotations

import subprocess
import sys

from fairlead_lab.servers.sparks import OLDEST, environment

CHOSEN = (
    "tests/spark/test_tables.py",
    "tests/spark/test_report.py::test_the_busiest_subscribers_are_those_that_got_most",
    "tests/spark/test_same_meaning.py::test_bus_batch_and_stream_deliver_the_same_bytes[0]",
)

# PySpark 4.0 leaves the sockets that it collects rows through to the collector of garbage.
LENIENT = ("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")


def test_the_oldest_spark_passes_tests_of_every_part() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *LENIENT, *CHOSEN]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment(OLDEST))
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert "passed" in done.stdout
