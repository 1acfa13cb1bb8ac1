"""An index as a file: written once, named by its content, mapped into memory by any number of processes.

    16 bytes    what it is, and the version of the format
    32 bytes    the digest of all that follows; also its name
     8 bytes    the length of the header
    header      JSON: columns, opaque filters, and where each array lies
    arrays      each on a multiple of 64 bytes

Same filters in the same order, same bytes, same name: a worker that has the file need not be sent it. Opaque
filters are kept as text and read back by the language under the schema that the index was made with, whose
fingerprint is kept as well; columns by name. Ids are strings or whole numbers.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fairlead.errors import DamagedIndex, SchemaError, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Attribute, Inspector, Length, Polynomial, Position
from fairlead.matching.columnar.base import Base
from fairlead.matching.columnar.derived import Coordinate, Pair, Tree
from fairlead.matching.columnar.ids import Ids, Strings, Wholes, ids_of
from fairlead.matching.columnar.index import Index
from fairlead.matching.columnar.layout import SECTIONS

__all__ = ["load", "save"]

MAGIC: Final = b"fairlead index"
VERSION: Final = 7
SUFFIX: Final = ".filters"
_ALIGNED: Final = 64
_DIGEST: Final = 32
_ARRAYS: Final = ("directory", "ints", "reals", "pool")


def save(base: Base, directory: Path, schema: Schema | None = None) -> Path:
    """Write a base into a directory, under the name of its content; nothing is written twice."""
    index = base.index
    arrays: dict[str, NDArray[Any]] = {name: getattr(index, name) for name in _ARRAYS}
    header: dict[str, Any] = {
        "byteorder": sys.byteorder,
        "sections": len(SECTIONS),
        "schema": _fingerprint(schema),
        "columns": [_column_json(term) for term in index.columns],
        "opaques": [str(filter) for filter in index.opaques],
        "ids": _listed("ids", base.ids, arrays),
        "destinations": None
        if base.destinations is None
        else _listed("destinations", base.destinations, arrays),
    }
    at = 0
    header["arrays"] = {}
    for name, array in arrays.items():
        header["arrays"][name] = [array.dtype.str, at, len(array)]
        at = _aligned(at + array.nbytes)
    text = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    digest = blake2b(digest_size=_DIGEST)
    for part in _parts(text, arrays):
        digest.update(part)
    path = directory / f"{digest.hexdigest()}{SUFFIX}"
    if path.exists():
        return path
    directory.mkdir(parents=True, exist_ok=True)
    # Written aside and renamed: a reader never sees half a file under its name.
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".", delete=False) as file:
        try:
            file.write(MAGIC + VERSION.to_bytes(2, "big") + digest.digest())
            for part in _parts(text, arrays):
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)
    return path


def load(
    path: Path,
    schema: Schema | None = None,
    *,
    verify: bool = True,
    resolve: Callable[[Filter], Filter] | None = None,
) -> Base:
    """Map a file into memory, or DamagedIndex; without `verify`, its digest is taken on trust.

    What the index asks of filter objects is asked as `resolve` has them.
    """
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except ValueError:
        raise DamagedIndex(f"{path} is empty") from None
    return _opened(path, mapped, schema, verify, resolve or (lambda filter: filter))


def _opened(
    path: Path,
    mapped: mmap.mmap,
    schema: Schema | None,
    verify: bool,
    resolve: Callable[[Filter], Filter],
) -> Base:
    start = len(MAGIC) + 2
    if mapped[: len(MAGIC)] != MAGIC:
        raise DamagedIndex(f"{path} is no index of filters")
    version = int.from_bytes(mapped[len(MAGIC) : start], "big")
    if version != VERSION:
        raise DamagedIndex(
            f"{path} has version {version} of the format, this program reads {VERSION}",
            hint="make the index anew from the subscriptions",
        )
    whole = memoryview(mapped)
    body = start + _DIGEST
    if len(mapped) < body + 8 or (
        verify and blake2b(whole[body:], digest_size=_DIGEST).digest() != mapped[start:body]
    ):
        raise DamagedIndex(f"{path} is damaged: its content does not have the digest it was written with")
    length = int.from_bytes(mapped[body : body + 8], "big")
    try:
        header = json.loads(mapped[body + 8 : body + 8 + length])
    except ValueError:
        raise DamagedIndex(f"{path} is damaged: its header cannot be read") from None
    if header["byteorder"] != sys.byteorder or header["sections"] != len(SECTIONS):
        raise DamagedIndex(f"{path} was written by another machine or version")
    if header["schema"] != _fingerprint(schema):
        raise SchemaError(
            f"{path} was made under {'another schema' if header['schema'] else 'no schema'}",
            hint="open it under the schema it was saved with, or make it anew from the subscriptions",
        )
    first = _aligned(body + 8 + length)
    arrays = {
        name: np.frombuffer(mapped, np.dtype(dtype), count, first + at)
        for name, (dtype, at, count) in header["arrays"].items()
    }
    index = Index(
        [_column_of(each) for each in header["columns"]],
        [resolve(parse(text, schema)) for text in header["opaques"]],
        *(arrays[name] for name in _ARRAYS),
    )
    destinations = header["destinations"]
    return Base(
        index,
        _sequence("ids", header["ids"], arrays),
        None if destinations is None else _sequence("destinations", destinations, arrays),
    )


def _fingerprint(schema: Schema | None) -> str | None:
    return None if schema is None else schema.fingerprint


def _aligned(at: int) -> int:
    return -(-at // _ALIGNED) * _ALIGNED


def _parts(header: bytes, arrays: dict[str, NDArray[Any]]) -> Iterator[Any]:
    """The pieces that are written behind the digest, one by one."""
    head = len(header).to_bytes(8, "big") + header
    at = len(MAGIC) + 2 + _DIGEST + len(head)
    yield head + bytes(_aligned(at) - at)
    for array in arrays.values():
        yield array.data.cast("B") if len(array) else b""
        yield bytes(_aligned(array.nbytes) - array.nbytes)


# -- columns and ids ---------------------------------------------------------------------------------------


def _column_json(term: Any) -> list[Any]:
    match term:
        case Attribute(name):
            return ["attribute", name]
        case Position(index):
            return ["position", index]
        case Inspector(name, method):
            return ["method", name, method]
        case Polynomial(monomials):
            return ["polynomial", [[list(names), coefficient] for names, coefficient in monomials]]
        case Coordinate(shape, axis):
            return ["coordinate", _column_json(shape), axis]
        case Tree():
            return ["tree"]
        case Pair(one, other, is_ordered):
            return ["pair", one, other, is_ordered]
        case _:
            return ["length"]


def _column_of(given: list[Any]) -> Any:
    match given:
        case ["attribute", name]:
            return Attribute(name)
        case ["position", index]:
            return Position(index)
        case ["method", name, method]:
            return Inspector(name, method)
        case ["polynomial", monomials]:
            return Polynomial(tuple((tuple(names), coefficient) for names, coefficient in monomials))
        case ["coordinate", shape, axis]:
            return Coordinate(_column_of(shape), axis)
        case ["tree"]:
            return Tree()
        case ["pair", one, other, is_ordered]:
            return Pair(one, other, is_ordered)
        case _:
            return Length()


def _listed(name: str, items: Sequence[Any], arrays: dict[str, NDArray[Any]]) -> Any:
    """The stored form of a list of ids: numbers and strings as arrays, a mixture of them and None in the
    header.
    """
    items = items if isinstance(items, Ids) else ids_of(items)
    if isinstance(items, Wholes):
        arrays[f"{name} numbers"] = items.numbers
        return "numbers"
    if set(map(type, items)) == {str}:
        encoded = [item.encode() for item in items]
        starts = np.zeros(len(items) + 1, np.int64)
        np.cumsum([len(item) for item in encoded], out=starts[1:])
        arrays[f"{name} starts"] = starts
        arrays[f"{name} letters"] = np.frombuffer(b"".join(encoded), np.uint8)
        return "strings"
    for item in items:
        if type(item) not in (int, str, type(None)):
            raise ValueRefused(
                f"{item!r} among the {name} cannot be stored in a file",
                hint="the ids and destinations of a saved index are strings or whole numbers",
            )
    return list(items)


def _sequence(name: str, stored: Any, arrays: dict[str, NDArray[Any]]) -> Ids:
    if stored == "numbers":
        return Wholes(arrays[f"{name} numbers"])
    if stored == "strings":
        return Strings(arrays[f"{name} starts"], arrays[f"{name} letters"])
    return ids_of(stored)
