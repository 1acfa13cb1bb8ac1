"""Parts: subscriptions compiled to immutable files that are named by their content.

    DIGEST.filters          the engine's index
    DIGEST.subscriptions    by ordinal: id, subscriber, from, until, rank of the id, code of the subscriber;
                            it names the two others, so its own name stands for all three
    DIGEST.texts            the filters as they were written; matching does without

A process that has a file under its name need not be sent it, and maps it into memory: opening takes no time, and
processes on one machine share it. A file that is not whole, or of another version, is refused by name.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray
from pyarrow import fs

from fairlead.errors import DamagedIndex, FairleadError
from fairlead.filters import Filter, Schema, parse
from fairlead.filters.naming import Attributes
from fairlead.matching.columnar import Columnar
from fairlead.model.order import BEGINNING, END
from fairlead.spark.placement import ANYWHERE
from fairlead.spark.storage import reached

__all__ = [
    "CHUNK",
    "TABLE",
    "VERSION",
    "Content",
    "Part",
    "Subscription",
    "Table",
    "compiled",
    "keep",
    "located",
    "mapped",
    "parsed",
    "single",
    "table_of",
    "with_about",
]

VERSION: Final = 2
"""Of the files of a part and of the description of subscriptions."""
TABLE: Final = ".subscriptions"
_TEXTS: Final = ".texts"
_METADATA: Final = b"fairlead"
CHUNK: Final = 1 << 16
"""So many rows are looked at as Python objects at a time."""


# -- files -------------------------------------------------------------------------------------------------


def _is_remote(directory: str) -> bool:
    return "://" in directory and not directory.startswith("file://")


def _path(directory: str) -> Path:
    return Path(directory.removeprefix("file://"))


@cache
def _copies() -> Path:
    """The directory where this process keeps copies of files that it cannot map where they are."""
    return Path(tempfile.mkdtemp(prefix="fairlead-index-"))


def located(directory: str, name: str) -> Path:
    """A file of an index, where this process can map it: in its directory, as shipped by Spark, or a copy."""
    if not _is_remote(directory):
        path = _path(directory) / name
        if path.exists():
            return path
    elif (copy := _copies() / name).exists():
        return copy
    shipped = _shipped(name)
    if shipped is not None:
        return shipped
    if _is_remote(directory):
        system, inner = reached(f"{directory.rstrip('/')}/{name}")
        if system.get_file_info(inner).type == fs.FileType.File:
            aside = _copies() / f".{name}"
            fs.copy_files(inner, str(aside), system, fs.LocalFileSystem())
            return aside.replace(_copies() / name)
    raise DamagedIndex(
        f"the compiled subscriptions in {directory} miss the file {name}",
        hint="compile them anew from the subscriptions",
    )


def _shipped(name: str) -> Path | None:
    from pyspark import SparkFiles

    try:
        path = Path(SparkFiles.get(name))
    except Exception:  # outside of a worker there may be nothing to ask
        return None
    return path if path.exists() else None


def keep(directory: str, suffix: str, table: pa.Table) -> str:
    """Write a table under the name of its content; the name."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    content = sink.getvalue()
    name = blake2b(content, digest_size=32).hexdigest() + suffix
    home = _copies() if _is_remote(directory) else _path(directory)
    home.mkdir(parents=True, exist_ok=True)
    if not (home / name).exists():
        with tempfile.NamedTemporaryFile(dir=home, prefix=".", delete=False) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            except BaseException:
                os.unlink(file.name)
                raise
        os.replace(file.name, home / name)
    _publish(directory, name)
    return name


def _publish(directory: str, name: str) -> None:
    """Copy a file of ours to a directory that is elsewhere."""
    if _is_remote(directory):
        system, inner = reached(directory)
        system.create_dir(inner, recursive=True)
        if system.get_file_info(f"{inner}/{name}").type == fs.FileType.NotFound:
            fs.copy_files(str(_copies() / name), f"{inner}/{name}.aside", fs.LocalFileSystem(), system)
            system.move(f"{inner}/{name}.aside", f"{inner}/{name}")


@lru_cache(maxsize=256)
def mapped(directory: str, name: str) -> pa.Table:
    """A table of ours, mapped into memory; one that is not whole, or of another version, is a DamagedIndex."""
    path = located(directory, name)
    with pa.memory_map(str(path)) as file:
        content = file.read_buffer()
    if blake2b(content, digest_size=32).hexdigest() != name.partition(".")[0]:
        raise DamagedIndex(
            f"{path} is damaged: its content does not have the digest it is named by",
            hint="compile it anew from the subscriptions",
        )
    table = pa.ipc.open_file(content).read_all()
    version = _about(table).get("version")
    if version != VERSION:
        raise DamagedIndex(
            f"{path} has version {version} of the format, this program reads {VERSION}",
            hint="compile it anew from the subscriptions",
        )
    return table


def _about(table: pa.Table) -> dict[str, Any]:
    about: dict[str, Any] = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}"))
    return about


def with_about(table: pa.Table, **about: Any) -> pa.Table:
    described = json.dumps({"version": VERSION, **about}, sort_keys=True)
    return table.replace_schema_metadata({_METADATA: described.encode()})


# -- parts -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """Some subscriptions, compiled: `name` is the digest of their table, which names the other files.

    `bucket`: where they are placed; `size`: of what a worker maps, in bytes; `number`: which of the parts of some
    subscriptions it is, for two may have the same content.
    """

    name: str
    directory: str
    count: int
    size: int
    bucket: int = ANYWHERE
    number: int = 0
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Table:
    """The table of a part: by ordinal, whose the filters are and when they are valid."""

    ids: pa.Array
    subscribers: pa.Array
    since: NDArray[np.int64]
    until: NDArray[np.int64]
    requested: pa.Array
    ranks: NDArray[np.int32]
    """The place of the id in the order of ids; of equal ids the same."""
    codes: NDArray[np.int32]
    """The place of the subscriber in the order of subscribers."""
    filters: str
    """The engine's file."""
    texts: str
    attributes: tuple[str, ...]
    """All attributes that filters name."""
    is_whole: bool
    """Whether some filter looks at more than that."""

    def __len__(self) -> int:
        return len(self.ids)


def table_of(part: Part) -> Table:
    """The table of a part."""
    if part.version != VERSION:
        raise DamagedIndex(
            f"compiled subscriptions of version {part.version}, this program reads {VERSION}",
            hint="compile them anew from the subscriptions",
        )
    table = mapped(part.directory, part.name + TABLE)
    about = _about(table)
    columns = {name: single(table.column(name)) for name in table.column_names}
    return Table(
        columns["id"],
        columns["subscriber"],
        columns["from"].to_numpy(),
        columns["until"].to_numpy(),
        columns["asked"],
        columns["rank"].to_numpy(),
        columns["code"].to_numpy(),
        about["filters"],
        about["texts"],
        tuple(about["attributes"]),
        about["whole"],
    )


def single(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


class Subscription(NamedTuple):
    """A subscription: filter, subscriber, and the order times for which it holds."""

    id: str
    subscriber: str
    filter: str
    since: int | None = None
    until: int | None = None
    requested: int | None = None
    """The requested `since`, where it was moved to the watermark; BEGINNING where nothing was said."""


class Content(NamedTuple):
    """The columns of subscriptions that are being compiled."""

    ids: pa.Array
    subscribers: pa.Array
    texts: pa.Array
    since: NDArray[np.int64]
    until: NDArray[np.int64]
    requested: pa.Array

    def picked(self, at: NDArray[Any]) -> Content:
        positions = pa.array(at)
        return Content(
            self.ids.take(positions),
            self.subscribers.take(positions),
            self.texts.take(positions),
            self.since[at],
            self.until[at],
            self.requested.take(positions),
        )

    @classmethod
    def joined(cls, contents: Sequence[Content]) -> Content:
        ids, subscribers, texts, since, until, requested = zip(*contents, strict=True)
        return cls(
            pa.concat_arrays(ids),
            pa.concat_arrays(subscribers),
            pa.concat_arrays(texts),
            np.concatenate(since),
            np.concatenate(until),
            pa.concat_arrays(requested),
        )

    @classmethod
    def of(cls, rows: Sequence[Subscription]) -> Content:
        ids, subscribers, texts, since, until, requested = zip(*rows, strict=True) if rows else ((),) * 6
        return cls(
            pa.array(ids, pa.string()),
            pa.array(subscribers, pa.string()),
            pa.array(texts, pa.string()),
            np.array([BEGINNING if each is None else each for each in since], np.int64),
            np.array([END if each is None else each for each in until], np.int64),
            pa.array(requested, pa.int64()),
        )


def _ranks(names: pa.Array) -> NDArray[np.int32]:
    """The place of each name in the order of the distinct ones, by code point."""
    if not len(names):
        return np.empty(0, np.int32)
    encoded = names.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    positions = np.empty(len(order), np.int32)
    positions[order] = np.arange(len(order), dtype=np.int32)
    ranks: NDArray[np.int32] = positions[encoded.indices.to_numpy()]
    return ranks


def parsed(
    texts: pa.Array, schema: Schema | None, check: Callable[[int, FairleadError], None] | None = None
) -> Iterator[tuple[int, Filter]]:
    """The filters of texts, one by one, with their indexes.

    One that cannot be read is told to `check`, and raised where there is none.
    """
    for start in range(0, len(texts), CHUNK):
        for at, text in enumerate(texts[start : start + CHUNK].to_pylist(), start):
            try:
                yield at, parse(text, schema)
            except FairleadError as error:
                if check is None:
                    raise
                check(at, error)


def compiled(
    content: Content,
    directory: str,
    schema: Schema | None,
    bucket: int = ANYWHERE,
    *,
    onto: Part | None = None,
    check: Callable[[int, FairleadError], None] | None = None,
) -> Part:
    """The part of these subscriptions, written; `onto` is a part whose filters are the first of them already."""
    attributes = Attributes()
    first = 0
    engine: Columnar[int] = Columnar(schema=schema)
    if onto is not None:
        table = table_of(onto)
        first, attributes = len(table), Attributes(table.attributes, table.is_whole)
        engine = Columnar.open(located(onto.directory, table.filters), schema)

    refused = None if check is None else lambda row, error: check(first + row, error)
    engine.add_texts(content.texts[first:], seen=attributes.add, refused=refused)
    if len(engine) < len(content.ids):  # some were not read, and whoever checks will say so
        return Part("", directory, 0, 0)
    home = _copies() if _is_remote(directory) else _path(directory)
    saved = engine.save(home)
    _publish(directory, saved.name)
    texts = keep(directory, _TEXTS, with_about(pa.table({"filter": content.texts})))
    table = pa.table(
        {
            "id": content.ids,
            "subscriber": content.subscribers,
            "from": content.since,
            "until": content.until,
            "asked": content.requested,
            "rank": _ranks(content.ids),
            "code": _ranks(content.subscribers),
        }
    )
    about = {
        "filters": saved.name,
        "texts": texts,
        "attributes": sorted(attributes.names),
        "whole": attributes.is_whole,
        "schema": None if schema is None else schema.fingerprint,
    }
    kept = keep(directory, TABLE, with_about(table, **about))
    size = saved.stat().st_size + located(directory, kept).stat().st_size
    return Part(kept.removesuffix(TABLE), directory, len(content.ids), size, bucket)
