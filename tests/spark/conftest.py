"""What the Spark tests share: one SparkSession for them all, and a Connect server for those that ask for one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fairlead_lab.servers.jars import fetched
from fairlead_lab.servers.sparks import OLDEST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tests run many small queries, most of them once: to compile them takes longer than to interpret them. What runs
# in processes of its own, Connect's server among it, compiles. (How Java runs, `tests/conftest.py` says.)
QUICK = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}


# Delta Lake and Iceberg lag behind Spark: their tests run with the oldest one, which `test_oldest.py` starts.
IS_OLDEST = version("pyspark") == OLDEST
collect_ignore = ["test_oldest.py"] if IS_OLDEST else ["test_tables.py"]


def with_tables(directory: Path) -> dict[str, str]:
    """The settings of a Spark that knows tables of Delta Lake, and those of Iceberg in the catalog `ice`."""
    return {
        "spark.jars": ",".join(str(jar) for name in ("delta", "iceberg") for jar in fetched(name)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(directory / "ice"),
    }


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from fairlead.spark import session

    directory = tmp_path_factory.mktemp("warehouse")
    warehouse = {"spark.sql.warehouse.dir": str(directory)} | (with_tables(directory) if IS_OLDEST else {})
    running = session(master="local[2]", app_name="fairlead-tests", settings=QUICK | warehouse)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def connect_url() -> Iterator[str]:
    """A Connect server on loopback, in a process of its own: it shares neither memory nor modules with us.

    A process that has a classic session cannot have one over Connect: run the client in a child process.
    """
    import pyspark

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    server_class = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [str(submit), "--master", "local[2]", "--class", server_class]
    command += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    with tempfile.TemporaryFile() as log:
        # spark-submit ends in exec, so the process that is started here is the server itself.
        server = subprocess.Popen(
            [*command, "spark-internal"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
        try:
            deadline = time.monotonic() + 120
            while not _listens(port):
                if server.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    pytest.fail("the Connect server did not start:\n" + log.read().decode(errors="replace"))
                time.sleep(0.05)
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=60)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
