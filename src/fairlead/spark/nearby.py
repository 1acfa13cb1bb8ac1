"""Rows from tasks on this machine, through files: where there are many, the heap of the JVM should not hold them.

    is_nearby(spark)                    whether tasks write files that this process can read, and it has the memory
    rows_nearby(raw, door, limits)      the rows that a door makes of raw records; None where they are too many

Law: the rows are those that the door makes of the same records in this process. All cores read records and go
through the door; what comes here is mapped from files, and stays on the disk as long as nobody looks at it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

import pyarrow as pa  # type: ignore[import-untyped]

from fairlead.spark.doors import TextDoor
from fairlead.spark.sessions import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Leaving", "Limits", "is_nearby", "memory_of_machine", "rows_nearby"]

MEMORY_MIN: Final = 8 << 30
"""A million rows need 3 GB in this process, beside the JVM and the workers."""
_GROUP: Final = Path("/sys/fs/cgroup/memory.max")
_LEFT: Final = "name string, rows bigint, bytes bigint"


class Limits(NamedTuple):
    """The most that is to come here."""

    rows: int
    bytes: int


def is_nearby(spark: SparkSession) -> bool:
    """Whether tasks run on this machine, so that they have its files, and its memory is large enough."""
    return (
        not is_remote(spark)
        and (spark.conf.get("spark.master") or "").startswith("local")
        and memory_of_machine() >= MEMORY_MIN
    )


def memory_of_machine(group: Path = _GROUP) -> int:
    """The bytes of memory that processes have here: the machine's, or the container's where that is said."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        said = group.read_text(encoding="ascii").strip()
    except OSError:
        return found
    return min(found, int(said)) if said.isdigit() else found


def rows_nearby(raw: DataFrame, door: TextDoor, limits: Limits) -> list[pa.RecordBatch] | None:
    """The rows that a door makes of raw records; None where they are more than the limits say."""
    with tempfile.TemporaryDirectory(prefix="fairlead-") as directory:
        left = raw.mapInArrow(Leaving(door, directory, limits), _LEFT).collect()
        if (
            sum(each["rows"] for each in left) > limits.rows
            or sum(each["bytes"] for each in left) > limits.bytes
        ):
            return None
        return [batch for each in left for batch in _mapped(Path(directory) / each["name"])]


def _mapped(path: Path) -> Iterator[pa.RecordBatch]:
    """The record batches of a file, which may be removed: what is mapped stays."""
    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
        yield from (reader.get_batch(number) for number in range(reader.num_record_batches))


@dataclass(frozen=True, slots=True)
class Leaving:
    """Record batches of raw records in, the name of a file with their rows out: it runs in the workers."""

    door: TextDoor
    directory: str
    limits: Limits

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = self.door(batches)
        first = next(rows, None)
        if first is None:
            return
        name, count, size = f"{uuid4().hex}.arrow", first.num_rows, first.nbytes
        path = str(Path(self.directory) / name)
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, first.schema) as writer:
            writer.write_batch(first)
            for batch in rows:
                if count > self.limits.rows or size > self.limits.bytes:
                    break
                writer.write_batch(batch)
                count, size = count + batch.num_rows, size + batch.nbytes
        yield pa.RecordBatch.from_pydict({"name": [name], "rows": [count], "bytes": [size]})
