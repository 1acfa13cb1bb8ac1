"""SparkSessions: local by default, quiet by default, with clear errors if something is missing.

Nothing here, nor in any stage, touches the SparkContext or the JVM, so that all of it runs over Spark Connect.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, TextIO

from fairlead.errors import SparkUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkUnavailable", "check_installed", "is_remote", "session"]

# What every query of ours relies on. All are settings of the session, so a Connect server accepts them too.
SESSION_SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # Batches of 10,000 to 60,000 rows serve the matching kernel best; a query may set its own before it runs.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # Spark 4.1 and later take a union for partitioned as its parts are, which under adaptive execution goes wrong:
    # "Can't zip RDDs with unequal numbers of partitions", or rows of one group in two partitions.
    "spark.sql.unionOutputPartitioning": "false",
}

# What a Spark in this very process may have besides. Nobody looks at its web page, and its ports stay here.
LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.ui.enabled": "false",
}

# PySpark repeats an error on stderr through these loggers, as JSON with a stack trace, before it raises it.
TALKATIVE_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")

JAVA_HINT = (
    "install Java 17 or newer (on Debian: sudo apt-get install openjdk-17-jre-headless), "
    "or set JAVA_HOME to the one you have"
)


def session(
    master: str | None = None,
    remote: str | None = None,
    app_name: str = "fairlead",
    quiet: bool = True,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session that runs already, or a new one: on `master`, over Connect at `remote`, or `local[*]`.

    Where spark-submit or the environment has chosen a master already, that choice stands. `settings` are
    Spark's own and win over ours. `quiet` sends what Spark writes to stderr to a file that goes with the
    process; what fails is raised in any case.
    """
    if master is not None and remote is not None:
        raise SparkUnavailable(
            f"both a master ({master}) and a Connect address ({remote}) are given",
            hint="a Connect server has a master of its own: name one of the two",
        )
    pyspark_sql = _pyspark()
    if quiet:
        _quieten_python()

    if remote is None and "SPARK_REMOTE" not in os.environ:
        return _classic(pyspark_sql, master, app_name, quiet, settings or {})
    builder = pyspark_sql.builder if remote is None else pyspark_sql.builder.remote(remote)
    try:
        return _with_settings(builder, {**SESSION_SETTINGS, **(settings or {})}).getOrCreate()
    except Exception as error:
        where = remote or os.environ["SPARK_REMOTE"]
        raise SparkUnavailable(
            f"no Spark Connect server answers at {where}: {_first_line(error)}",
            hint="the address has the form sc://HOST:PORT, and the server's version must be that of pyspark",
        ) from error


def check_installed() -> None:
    """Check that PySpark is installed, before anything is written. Otherwise SparkUnavailable."""
    _pyspark()


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is one over Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _classic(
    spark: type[SparkSession], master: str | None, app_name: str, quiet: bool, settings: Mapping[str, str]
) -> SparkSession:
    running = spark.getActiveSession() is not None
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if master is None and not submitted:
        master = os.environ.get("MASTER", "local[*]")
    ours: dict[str, str] = {"spark.app.name": app_name, **SESSION_SETTINGS}
    if master is not None:
        ours["spark.master"] = master
        if master.startswith("local"):
            ours |= LOCAL_SETTINGS
            # Spark would take the first python3 on PATH for its workers; they need this one's packages.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if quiet:
        ours |= {"spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false"}
    builder = _with_settings(spark.builder, {**ours, **settings})
    if running or submitted:
        return builder.getOrCreate()

    _check_java()
    with tempfile.TemporaryFile() as noise:
        try:
            if not quiet:
                return builder.getOrCreate()
            with _stderr_into(noise):
                return builder.getOrCreate()
        except Exception as error:
            raise _not_started(master or "", error, noise) from error


def _with_settings(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def _pyspark() -> type[SparkSession]:
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkUnavailable(
            f"PySpark is not installed here ({error})", hint="pip install 'fairlead[spark]'"
        ) from error
    return SparkSession


def _quieten_python() -> None:
    from pyspark.logger import PySparkLogger

    for name in TALKATIVE_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_not_from_py4j)


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    """Whether a record is somebody else's.

    py4j logs the traceback of a lost JVM with the root logger, and then raises the error, too.
    """
    return Path(record.pathname).parent.name != "py4j"


def _check_java() -> None:
    """Look for Java where Spark's own start script will; that script's message would not say what to do."""
    home = os.environ.get("JAVA_HOME")
    if home:
        if not os.access(Path(home, "bin", "java"), os.X_OK):
            raise SparkUnavailable(f"Spark needs Java, and JAVA_HOME={home} has no bin/java", hint=JAVA_HINT)
    elif shutil.which("java") is None:
        raise SparkUnavailable("Spark needs Java, and there is none on PATH", hint=JAVA_HINT)


@contextmanager
def _stderr_into(file: IO[bytes]) -> Iterator[None]:
    """Processes started within write their stderr to `file`, then and later; what this one says is still heard.

    No setting of Spark's does this: the JVM warns of incubator modules, and the start script of host names,
    before any configuration of a log is read.
    """
    sys.stderr.flush()
    kept, spoken = os.dup(2), sys.stderr
    try:
        with _speaking_through(kept, spoken):
            os.dup2(file.fileno(), 2)
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextmanager
def _speaking_through(handle: int, spoken: TextIO) -> Iterator[None]:
    """Send standard error through this object; one that somebody has replaced stays as it is."""
    try:
        replaced = spoken.fileno() != 2
    except (AttributeError, OSError, ValueError):
        replaced = True
    if replaced:
        yield
        return
    # Never closed: another thread may be about to write to it when standard error is back.
    sys.stderr = beside = open(os.dup(handle), "w", 1, spoken.encoding, spoken.errors)  # noqa: SIM115
    _BESIDE.append(beside)
    try:
        yield
    finally:
        sys.stderr = spoken


_BESIDE: list[TextIO] = []


def _not_started(master: str, error: Exception, noise: IO[bytes]) -> SparkUnavailable:
    noise.seek(0)
    said = noise.read().decode(errors="replace")
    if "UnsupportedClassVersionError" in said or "Unrecognized option: --add-modules" in said:
        return SparkUnavailable("Spark needs Java 17 or newer, and this one is older", hint=JAVA_HINT)
    causes = [line for line in said.splitlines() if "Exception" in line or "rror" in line]
    # 'Exception in thread "main" org.apache.spark.SparkException: Master must …': the sentence is what helps.
    reason = causes[0].rpartition("Exception: ")[2].strip() if causes else _first_line(error)
    return SparkUnavailable(
        f"Spark does not start on {master}: {reason}",
        hint="--verbose, or [spark] quiet = false, shows all its messages",
    )


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
