"""The files of a micro-batch of a stream: Spark writes them into the checkpoint before the batch begins.

    offsets/N      the offset of each source behind micro-batch N
    sources/I/K    the files of the source I between the offsets K - 1 and K, with their times of change

Spark takes files by their times of change, and lists a local directory in any order, so `max_files` can divide
files of one millisecond between batches, the later rows first. While such a tie is not read to its end, the
watermark stays (`is_within_a_tie`): then no row of it is late because of another. HDFS and object stores list
files by name; there the name decides.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from glob import iglob
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from pyarrow import fs  # type: ignore[import-untyped]

from fairlead.errors import PipelineError
from fairlead.spark.combinations import PATTERN, URI
from fairlead.spark.config import EVENT_FILES, Config, Events
from fairlead.spark.storage import Directory, as_path, reached

__all__ = ["Arrival", "arrivals", "empty_documents", "is_within_a_tie"]

LISTING: Final = frozenset({"pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"})
"""Options of Spark's with which a directory's own names do not tell what will be read."""
HEADER: Final = 2
"""So many lines of a file of offsets come before those of the sources."""


class Arrival(NamedTuple):
    """A file that a micro-batch takes."""

    uri: str
    time_ms: int

    @property
    def path(self) -> str:
        """The path, without the escapes of a URI."""
        return as_path(unquote(self.uri))


def arrivals(checkpoint: str, number: int) -> list[list[Arrival]]:
    """The files of a micro-batch, for each source of its stream; none where nothing is written down."""
    directory = Directory(checkpoint)
    now, before = _offsets(directory, number), _offsets(directory, number - 1)
    taken: list[list[Arrival]] = []
    for source, offset in enumerate(now):
        since = before[source] if source < len(before) else None
        first = 0 if since is None else since + 1
        span = () if offset is None else range(first, offset + 1)
        taken.append([each for step in span for each in _logged(directory, source, step)])
    return taken


def is_within_a_tie(config: Config, checkpoint: str, number: int) -> bool:
    """Whether a micro-batch ends between files with the same time of change."""
    if not any(map(_is_local, config.events)):
        return False
    for source, (events, taken) in enumerate(zip(config.events, arrivals(checkpoint, number), strict=False)):
        # A batch with fewer files has taken all that there were.
        if len(taken) < config.stream.max_files or not _is_local(events):
            continue
        newest = max(each.time_ms for each in taken)
        tied = _changed_at(events.path or "", newest).difference(each.path for each in taken)
        if tied and tied.difference(each.path for each in _all_logged(checkpoint, source)):
            return True
    return False


def empty_documents(config: Config, checkpoint: str, number: int) -> dict[str, list[str]]:
    """Per input of XML the files of a micro-batch that have no bytes: Spark plans nothing for them."""
    wanted = [each.format == "xml" and not each.lines for each in config.events]
    if not any(wanted):
        return {}
    found = zip(config.events, wanted, arrivals(checkpoint, number), strict=False)
    return {events.name: _empty(taken) for events, is_wanted, taken in found if is_wanted and _empty(taken)}


# -- the checkpoint ------------------------------------------------------------------------------------------


def _offsets(directory: Directory, number: int) -> list[int | None]:
    """The offset of each source behind a micro-batch; None for those that are not files, or have none yet."""
    name = f"offsets/{number}"
    if number < 0 or not directory.exists(name):
        return []
    lines = directory.read(name).decode().splitlines()[HEADER:]
    said = [json.loads(line) if line.startswith("{") else {} for line in lines]
    return [each.get("logOffset") for each in said]


def _logged(directory: Directory, source: int, offset: int) -> list[Arrival]:
    for name in (f"sources/{source}/{offset}", f"sources/{source}/{offset}.compact"):
        if directory.exists(name):
            rows = _rows(directory, name)
            return [Arrival(row["path"], row["timestamp"]) for row in rows if row["batchId"] == offset]
    return []


def _all_logged(checkpoint: str, source: int) -> list[Arrival]:
    """The files that all micro-batches so far have taken: every tenth list has those before it, too."""
    directory = Directory(checkpoint)
    names = [name for name in directory.names(f"sources/{source}") if name[:1].isdecimal()]
    rows = (row for name in names for row in _rows(directory, f"sources/{source}/{name}"))
    return [Arrival(row["path"], row["timestamp"]) for row in rows]


def _rows(directory: Directory, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in directory.read(name).decode().splitlines()[1:]]


# -- the files -----------------------------------------------------------------------------------------------


def _is_local(events: Events) -> bool:
    """Whether an input is files of this machine, all that are there under its path."""
    return (
        events.format in EVENT_FILES
        and events.path is not None
        and not (URI.match(events.path) and not events.path.startswith("file:"))
        and not LISTING & {name.lower() for name in events.options}
    )


def _changed_at(path: str, time_ms: int) -> set[str]:
    """The files under a path that have a time of change."""
    place = as_path(path)
    pattern = place if PATTERN.search(place) else os.path.join(place, "*")
    found = set()
    for each in iglob(pattern):
        if os.path.basename(each).startswith("_"):  # with a dot they are not among them anyway
            continue
        try:
            status = os.stat(each)
        except OSError:
            continue
        if status.st_mtime_ns // 1_000_000 == time_ms and os.path.isfile(each):
            found.add(each)
    return found


def _empty(taken: Iterable[Arrival]) -> list[str]:
    return [each.uri for each in taken if _is_empty(each)]


def _is_empty(arrival: Arrival) -> bool:
    try:
        system, path = reached(arrival.path if arrival.uri.startswith("file:") else arrival.uri)
        info = system.get_file_info(path)
    except (OSError, ValueError, PipelineError):
        return False
    return bool(info.type == fs.FileType.File and not info.size)
