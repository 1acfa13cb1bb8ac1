"""Failures of Spark, each in one message: what went wrong, where, and what to do.

An error of Fairlead's own that a worker raised keeps its words. Anything else that is common has a row in
`CASES`; the rest is told by the one sentence in it that is not a stack trace. Spark's exceptions are known by
where their classes come from and read as text, which is the same in classic mode and over Connect, whatever
wraps them: a job, a stage, a streaming query. So nothing of Spark is imported here.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from traceback import walk_tb
from typing import Final, NamedTuple

from fairlead import errors
from fairlead.errors import FairleadError, PipelineError, SparkUnavailable

__all__ = ["connector", "reason"]

CONNECTORS: Final = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "avro": "org.apache.spark:spark-avro_2.13:{spark}",
    "delta": "io.delta:delta-spark_2.13:VERSION",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:VERSION",
    "s3a": "org.apache.hadoop:hadoop-aws:VERSION",
    "abfss": "org.apache.hadoop:hadoop-azure:VERSION",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:VERSION",
}
"""The package that Spark has to fetch before it knows a format, or paths of a scheme."""

RESUME: Final = "then run it again: it continues after the last committed batch"


def reason(error: BaseException) -> FairleadError | None:
    """The error that a user should see; None where the error is neither Spark's nor the system's."""
    if isinstance(error, FairleadError):
        return error
    if not _is_sparks(error):
        return _of_system(error) if isinstance(error, OSError) else None
    text = JVM_GONE if isinstance(error, ConnectionError) else _text(error)
    if (ours := _raised_by_us(text)) is not None:
        return ours
    for case in CASES:
        if (found := case.pattern.search(text)) is not None:
            return case.error(found)
    return PipelineError(f"Spark failed: {_last_of_traceback(text) or _first_sentence(text)}")


def _is_sparks(error: BaseException) -> bool:
    if isinstance(error, ConnectionError):  # the system's own, where PySpark finds nobody at the other end
        frames = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
        return any(name.startswith("py4j.") for name in frames)
    return any(each.__module__.split(".")[0] in ("grpc", "py4j", "pyspark") for each in type(error).__mro__)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # PySpark asks the JVM for its words, and that may be what is gone
        return f"{type(error).__name__}: {JVM_GONE}"


# -- errors of ours ----------------------------------------------------------------------------------------

# What Spark puts behind the words of an exception.
END: Final = (
    r"(?=\n? ?SQLSTATE: |\n+JVM stacktrace|\n\tat |\n=== |\n\nDuring handling|\n\nThe above exception|\n*\Z)"
)
OURS: Final = re.compile(rf"^(?:\w+\.)*?fairlead\.[\w.]*?(\w+): (.*?){END}", re.MULTILINE | re.DOTALL)


def _raised_by_us(text: str) -> FairleadError | None:
    """The last error of Fairlead's own in the tracebacks of a text."""
    found = OURS.findall(text)
    if not found:
        return None
    name, said = found[-1]
    message, _, hint = said.rstrip().partition("\n  hint: ")
    kind = getattr(errors, name, PipelineError)
    return kind(message, hint=hint or None)


# -- tracebacks and sentences ------------------------------------------------------------------------------

TRACEBACK: Final = "Traceback (most recent call last):"
WRAPPERS: Final = re.compile(
    r"\[STREAM_FAILED\] .*? terminated with exception: |\[FOREACH_BATCH_USER_FUNCTION_ERROR\] .*? Reason: "
    r"|An error occurred while calling [\w.]+\.\s*:? ?|Job aborted due to stage failure: .*?\): "
    r"|^\([\w.$]+\) |^[\w.$]+(?:Exception|Error): ",
    re.DOTALL | re.MULTILINE,
)


def _last_of_traceback(text: str) -> str | None:
    """The end of the last traceback in a text: the exception that was raised, on one line."""
    _, found, trace = text.rpartition(TRACEBACK)
    if not found:
        return None
    lines = re.split(END, trace)[0].splitlines()
    said = [line for line in lines if line and not line[0].isspace()]
    return said[0].strip() if said else None


def _first_sentence(text: str) -> str:
    """The first line that says something, without what wraps it."""
    stripped = text.strip()
    while (shorter := WRAPPERS.sub("", stripped, count=1).strip()) not in ("", stripped):
        stripped = shorter
    line = re.split(END, stripped)[0].strip().splitlines()
    return line[0].strip() if line else "it gives no reason"


# -- the common cases --------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A kind of failure: how it is recognised, and its message."""

    pattern: re.Pattern[str]
    error: Callable[[re.Match[str]], FairleadError]


def _path(found: str) -> str:
    """A path as a person writes it."""
    return re.sub(r"^file:/+", "/", found.strip("'\"").rstrip(".")).partition("/_temporary")[0]


def _full(where: str) -> PipelineError:
    return PipelineError(f"the disk is full{where}", hint=f"make room, {RESUME}")


def _denied(path: str) -> PipelineError:
    return PipelineError(
        f"{path}: permission denied",
        hint="Spark's workers need the right to read the inputs and write the output",
    )


def connector(name: str, where: str = "") -> PipelineError:
    """The package for a format or scheme that Spark does not include."""
    coordinate = CONNECTORS.get(name.lower())
    if coordinate is None:
        hint = 'is it spelled right? A connector is added in [spark] settings, under "spark.jars.packages"'
    else:
        try:
            spark = version("pyspark")
        except PackageNotFoundError:
            spark = "VERSION"
        hint = f'[spark] settings = {{ "spark.jars.packages" = "{coordinate.format(spark=spark)}" }}'
    return PipelineError(f"{where}Spark has no connector for {name!r}", hint=hint)


JVM_GONE: Final = "Spark's Java process has ended"
SCHEMES: Final = {"s3a": "s3a", "azurebfs": "abfss", "gcs": "gs"}
"""The packages of Hadoop's file systems, by the scheme they are for."""


def _case(pattern: str, error: Callable[[re.Match[str]], FairleadError]) -> Case:
    return Case(re.compile(pattern, re.DOTALL), error)


CASES: Final = (
    _case(
        r"(?:writing rows to (?P<path>\S+)\. SQLSTATE.*?)?(?:No space left on device|Disk quota exceeded)",
        lambda found: _full(f" at {_path(found['path'])}" if found["path"] else ""),
    ),
    _case(
        r"Mkdirs failed to create (?P<path>\S+)",
        lambda found: PipelineError(
            f"{_path(found['path'])}: cannot be created",
            hint="does its parent exist, and may Spark's workers write there?",
        ),
    ),
    _case(
        r"Permission denied: (?P<path>'[^']+')|(?P<java>\S+) \((?:Permission denied|Read-only file system)\)",
        lambda found: _denied(_path(found["path"] or found["java"])),
    ),
    _case(
        r"AccessControlException: (?P<said>[^\n]+)|(?P<plain>Permission denied)",
        lambda found: _denied(found["said"] or "a file"),
    ),
    _case(
        r"OutOfMemoryError|GC overhead limit exceeded|UNABLE_TO_ACQUIRE_MEMORY",
        lambda found: PipelineError(
            "Spark ran out of memory",
            hint='give it more: [spark] settings = { "spark.driver.memory" = "4g" }, on a cluster '
            '"spark.executor.memory"',
        ),
    ),
    _case(
        r"(?:NoClassDefFoundError|NoSuchMethodError|NoSuchFieldError|AbstractMethodError|"
        r"IncompatibleClassChangeError): '?(?P<missing>[^\n']*org[./]apache[./]spark[^\n']*)",
        lambda found: PipelineError(
            f"a library beside Spark is for another version of it: {found['missing'].strip()} is missing",
            hint="connectors and tables lag behind Spark: name those for yours in spark.jars.packages, or install"
            " the PySpark that they are for, such as 4.0 (docs/connectors.md)",
        ),
    ),
    _case(
        r"Python worker exited unexpectedly|ExecutorLostFailure|Container killed|exited with exit code 137",
        lambda found: PipelineError(
            "a worker process died; mostly it was out of memory, and the system ended it",
            hint='fewer workers (master = "local[1]") or smaller batches ([stream] max_files) need less; '
            + RESUME.removeprefix("then "),
        ),
    ),
    _case(
        r"Python worker failed to connect back",
        lambda found: PipelineError(
            "a Python worker did not start in time",
            hint=f"the machine is busy, or PYSPARK_PYTHON names a Python without pyspark; mend that, {RESUME}",
        ),
    ),
    _case(
        r"ModuleNotFoundError: No module named '(?P<name>[\w.]+)'",
        lambda found: PipelineError(
            f"Spark's workers have no module {found['name']!r}",
            hint="PYSPARK_PYTHON names a Python that has Fairlead, and what callbacks and extensions need, on "
            "every worker",
        ),
    ),
    _case(
        r"\[PATH_NOT_FOUND\] Path does not exist: (?P<path>.+?)\. SQLSTATE",
        lambda found: PipelineError(
            f"{_path(found['path'])}: no such file or directory",
            hint="relative paths begin where the pipeline file is",
        ),
    ),
    _case(
        r"\[PATH_ALREADY_EXISTS\] Path (?P<path>.+?) already exists",
        lambda found: PipelineError(
            f"{_path(found['path'])}: exists already", hint="name another output, or remove it"
        ),
    ),
    _case(
        r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] Encountered error while reading file (?P<path>\S+)\. ",
        lambda found: PipelineError(
            f"{_path(found['path'])}: the file vanished while it was read",
            hint="inputs stay until the run has ended",
        ),
    ),
    _case(
        r"\[FAILED_READ_FILE\.PARQUET_COLUMN_DATA_TYPE_MISMATCH\] Encountered error while reading file "
        r"(?P<path>\S+)\. .*?column \[(?P<column>[^\]]*)\]. "
        r"Expected Spark type (?P<type>.+?), actual Parquet type (?P<other>\S+)\. SQLSTATE",
        lambda found: PipelineError(
            f"{_path(found['path'])}: column {found['column']!r} is {found['other']} here and {found['type']} in "
            "other files",
            hint="files with other columns are an input of their own: [[events]]",
        ),
    ),
    _case(
        r"\[CANNOT_MERGE_SCHEMAS\].*?Initial schema:\s+(?P<one>\S[^\n]*)\n[^\n]*\n(?P<other>.+?)\. SQLSTATE",
        lambda found: PipelineError(
            f"the files of an input disagree: {found['one']} and {found['other']}",
            hint="files with other columns are an input of their own: [[events]]",
        ),
    ),
    _case(
        r"Illegal Parquet type: \w+ \(TIMESTAMP\(NANOS,\w+\)\)",
        lambda found: PipelineError(
            "a Parquet file has times in nanoseconds, and instants are whole microseconds",
            hint='write it again in microseconds (pandas: coerce_timestamps="us"); or take the numbers, with '
            '[spark] settings = { "spark.sql.legacy.parquet.nanosAsLong" = "true" }, and divide in `select`',
        ),
    ),
    _case(
        r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (?P<path>\S+)\. ",
        lambda found: PipelineError(
            f"{_path(found['path'])}: cannot be read: damaged, or of another format",
            hint="check the input's format",
        ),
    ),
    _case(
        r"\[UNABLE_TO_INFER_SCHEMA\] Unable to infer schema for (?P<format>\w+)",
        lambda found: PipelineError(
            f"there is no {found['format']} file in an input, or none with a schema",
            hint="an empty directory has no columns; is it the right path?",
        ),
    ),
    _case(
        r"Failed to find (?:the )?data source: (?P<name>[^\s]+?)\. ", lambda found: connector(found["name"])
    ),
    _case(
        r"Class org\.apache\.hadoop\.fs\.(?P<package>\w+)\.\w+ not found",
        lambda found: connector(SCHEMES.get(found["package"], found["package"])),
    ),
    _case(r"No FileSystem for scheme \"(?P<name>[\w.+-]+)\"", lambda found: connector(found["name"])),
    _case(
        r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view (?P<name>\S+) cannot be found",
        lambda found: PipelineError(f"there is no table {found['name'].replace('`', '')}"),
    ),
    _case(
        r"\[SCHEMA_NOT_FOUND\] The schema (?P<name>\S+) cannot be found",
        lambda found: PipelineError(
            f"there is no database {found['name'].replace('`', '')}",
            hint="create it, or name another in [deliveries]",
        ),
    ),
    _case(
        r"StatusCode\.UNAVAILABLE|failed to connect to all addresses|\[RETRIES_EXCEEDED\]|INVALID_HANDLE\.SESSION",
        lambda found: SparkUnavailable(
            "the Spark Connect server has ended", hint=f"start it again, {RESUME}"
        ),
    ),
    _case(
        rf"{JVM_GONE}|Answer from Java side is empty|Error while (?:sending|receiving)|Py4JNetworkError"
        r"|trying to connect to the Java server",
        lambda found: SparkUnavailable(
            f"{JVM_GONE}; mostly it was out of memory, and the system ended it",
            hint=f"give it more room, {RESUME}",
        ),
    ),
)
"""The common failures; the first row that fits is told."""


def _of_system(error: OSError) -> FairleadError | None:
    """The error of the operating system on this side: the driver writes, too."""
    where = "" if error.filename is None else str(error.filename)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(f" at {where}" if where else "")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return _denied(where or "a file")
    if error.errno == errno.ENOENT and where:
        return PipelineError(f"{where}: no such file or directory")
    return None
