"""The format of a file, by what it begins with and by its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead.errors import ValueRefused

__all__ = ["HEAD_BYTES", "format_of", "format_of_all"]

HEAD_BYTES: Final = 256
"""The number of bytes of a file that `format_of` looks at."""
_MAGIC: Final = {b"PAR1": "parquet", b"ORC": "orc", b"Obj\x01": "avro"}
_SUFFIXES: Final = {
    "parquet": "parquet",
    "orc": "orc",
    "avro": "avro",
    "csv": "csv",
    "tsv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "xml": "xml",
    "txt": "text",
    "log": "text",
}
_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")


def format_of(name: str, head: bytes = b"") -> str | None:
    """The format of a file with this name that begins with these bytes; None if it is unknown."""
    for magic, format in _MAGIC.items():
        if head.startswith(magic):
            return format
    plain = name.lower()
    for suffix in _COMPRESSED:
        plain = plain.removesuffix(suffix)
    by_name = _SUFFIXES.get(plain.rpartition(".")[2] if "." in plain else "")
    if by_name not in (None, "text"):
        return by_name
    match head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]:
        case b"{":
            return "json"
        case b"<":
            return "xml"
        case _:
            return by_name


def format_of_all(files: Iterable[tuple[str, bytes]]) -> str | None:
    """The one format of the files of a directory, each with its name and its first bytes.

    Files whose names begin with _ or . do not count, nor do empty ones. ValueRefused where the formats differ.
    """
    found: dict[str, str] = {}
    for name, head in files:
        base = name.rpartition("/")[2]
        if base.startswith(("_", ".")) or not head:
            continue
        if (format := format_of(base, head)) is not None:
            found.setdefault(format, base)
    if len(found) > 1:
        listed = ", ".join(f"{format} ({name})" for format, name in sorted(found.items()))
        raise ValueRefused(f"files of different formats: {listed}", hint="say which format is meant")
    return next(iter(found), None)
