"""Changes from the change feed of a Delta table, whose rows are subscriptions or patterns.

A table that is watched has one range of versions for each batch, such as `PATH@8-9`: what the commits 8 and 9 have
changed. A range that begins with 0 is the table as its last version has it. A version never changes, so a batch
that is repeated reads the same, and a new run over the same input has only to ask for the same ranges.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fairlead.errors import PipelineError, ValueRefused
from fairlead.spark.entries import Entry, Location, Noun, frame_rows
from fairlead.spark.storage import Directory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from fairlead.spark.config import PatternsSource

__all__ = ["Versions", "changes_of", "has_feed", "latest", "next_of", "ranges_of", "rows_in"]

DELTA: Final = "delta"
LOG: Final = "_delta_log"
COMMIT: Final = re.compile(r"\A(\d{20})\.(?:json|checkpoint\..+)\Z")
"""The files of a table's log that say of a version that it is there."""
RANGE: Final = re.compile(r"\A(?P<table>.+)@(?P<first>\d+)-(?P<last>\d+)\Z", re.DOTALL)
GONE: Final = ("update_preimage", "delete")
"""The kinds of rows in a feed that a commit took away."""
FEED: Final = "delta.enableChangeDataFeed"


class Versions(NamedTuple):
    """The versions of a table whose changes a batch takes; from 0: the table as the last one has it."""

    table: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.table}@{self.first}-{self.last}"

    @classmethod
    def read(cls, name: str) -> Versions | None:
        """The versions that a change is named by; None if it is a file."""
        found = RANGE.match(name)
        return found and cls(found["table"], int(found["first"]), int(found["last"]))


def has_feed(source: PatternsSource) -> bool:
    """Whether changes are those of a table, and not files."""
    return source.watch and source.format == DELTA


def latest(table: str) -> int:
    """The latest version of a table, as its log has it. PipelineError where there is no table."""
    found = [int(match[1]) for name in Directory(table).names(LOG) if (match := COMMIT.match(name))]
    if not found:
        raise PipelineError(
            f'{table} is no Delta table, and with format = "delta" the changes of one are watched',
            hint="path is the directory of the table, with _delta_log in it",
        )
    return max(found)


def ranges_of(source: PatternsSource, names: Iterable[str]) -> list[Versions]:
    """Of the names of changes those of a source, in order."""
    table = Directory(source.path).uri
    found = (each for name in names if (each := Versions.read(name)) is not None)
    return sorted(each for each in found if each.table == table)


def next_of(source: PatternsSource, taken: Iterable[str]) -> list[str]:
    """The versions of a table that come behind those that have been taken: at most one range."""
    first = max((each.last + 1 for each in ranges_of(source, taken)), default=0)
    last = latest(source.path)
    return [str(Versions(Directory(source.path).uri, first, last))] if first <= last else []


def rows_in(versions: Versions, source: PatternsSource, spark: SparkSession, noun: Noun) -> Iterator[Entry]:
    """The rows of a range as changes: those that a commit added or altered, and endings of those it removed."""
    table, first, last = versions
    _check(table, spark)
    reader = spark.read.format(DELTA).options(**source.options)
    rows: Iterable[tuple[int, str, Mapping[str, Any]]]
    if first == 0:
        frame = reader.option("versionAsOf", str(last)).load(table)
        rows = ((last, "insert", row) for row in frame_rows(frame, table, ("id", noun.text), noun))
    else:
        feed = reader.option("readChangeFeed", "true")
        frame = feed.option("startingVersion", str(first)).option("endingVersion", str(last)).load(table)
        rows = _fed(frame, table, noun)
    for version, changes in _by_version(rows):
        yield from changes_of(Location(f"{table}@{version}"), changes)


Change = tuple[str, Mapping[str, Any]]


def _fed(frame: DataFrame, table: str, noun: Noun) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    kinds = ("_commit_version", "_change_type")
    for row in frame_rows(frame, table, ("id", noun.text), noun, extra=kinds):
        version, kind = (row[name] for name in kinds)
        yield version, kind, {name: value for name, value in row.items() if name not in kinds}


def _by_version(rows: Iterable[tuple[int, str, Mapping[str, Any]]]) -> list[tuple[int, list[Change]]]:
    found: dict[int, list[Change]] = defaultdict(list)
    for version, kind, row in rows:
        found[version].append((kind, row))
    return sorted(found.items())


def changes_of(location: Location, changes: Sequence[Change]) -> Iterator[Entry]:
    """The changes in a commit. A row that it took away and put back as it was has not changed."""
    before = {_text(row) for kind, row in changes if kind in GONE}
    added = sorted(((_text(row), row) for kind, row in changes if kind not in GONE), key=itemgetter(0))
    there = {row["id"] for _, row in added}
    seen = set()
    for text, row in added:
        if row["id"] in seen:
            yield Entry(location, ValueRefused(f"the table has two rows with the id {row['id']!r}"))
        elif text not in before:
            yield Entry(location, row)
        seen.add(row["id"])
    gone = {row["id"] for kind, row in changes if kind in GONE} - there
    yield from (Entry(location, {"id": id}) for id in sorted(gone, key=str))


def _text(row: Mapping[str, Any]) -> str:
    return repr(sorted(row.items()))


def _check(table: str, spark: SparkSession) -> None:
    """Check that a table has a feed: without one, what changes later could not be read."""
    [answer] = spark.sql(f"SHOW TBLPROPERTIES delta.`{table}` ('{FEED}')").collect()
    if answer["value"] != "true":
        raise PipelineError(
            f"the table {table} has no change feed, and its changes are watched",
            hint=f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ({FEED} = true)",
        )
