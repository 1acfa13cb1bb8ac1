"""The inputs of commands: filters, schemas, extensions, files of lines. `-` is standard input."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from fairlead.errors import BadInput, ExtensionError, FairleadError, FilterSyntaxError, TranslationRefused

if TYPE_CHECKING:
    from fairlead.filters import Filter, Schema

__all__ = [
    "BadInput",
    "add_language_options",
    "filter_lines",
    "language",
    "opened",
    "read_filter",
    "read_text",
]

T = TypeVar("T")


def add_language_options(parser: argparse.ArgumentParser) -> None:
    """The options for schemas and extensions."""
    parser.add_argument("--schema", metavar="FILE", help="the types and attributes that are declared")
    parser.add_argument(
        "--extension",
        metavar="DOTTED_NAME",
        action="append",
        default=[],
        help="load a type with operators, such as mypackage.module:Terms (may be repeated)",
    )


def language(arguments: argparse.Namespace) -> Schema | None:
    """Load the extensions of the options; returns the schema."""
    if arguments.extension:
        from fairlead.filters.extensions import load

        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does: an extension may lie where one works
        for name in arguments.extension:
            load(name)
    if arguments.schema is None:
        return None
    from fairlead.filters.schema import Schema

    return Schema.read(arguments.schema)


def read_filter(
    text: str | Mapping[str, Any], schema: Schema | None, where: str = "", dialect: str = ""
) -> Filter:
    """The filter of a text, in our own language or in a dialect; an error has its location."""
    if dialect:
        from fairlead import dialects

        def translated(given: Any, schema: Schema | None) -> Filter:
            return dialects.read(dialect, given, schema)

        return read_text(translated, text, schema, where)
    from fairlead.filters.language import parse

    return read_text(parse, text, schema, where)


def read_text(
    parse: Callable[[Any, Schema | None], T],
    text: str | Mapping[str, Any],
    schema: Schema | None,
    where: str = "",
) -> T:
    """Parse a text with filters in it; an error has its location."""
    try:
        try:
            return parse(text, schema)
        except (ExtensionError, FilterSyntaxError):
            if not _installed_extensions():
                raise
            return parse(text, schema)
    except TranslationRefused as error:
        raise BadInput(f"{where}: {error}" if where else str(error)) from error
    except FilterSyntaxError as error:
        raise BadInput(f"{where or 'not a filter'}: {error}") from error
    except FairleadError as error:
        raise BadInput(f"{where}: {error}" if where else str(error)) from error


@cache
def _installed_extensions() -> tuple[str, ...]:
    """Load the extensions of installed packages.

    Only where a filter cannot be read without: finding them takes longer than most answers.
    """
    from fairlead.filters.extensions import load_entry_points

    return load_entry_points()


@contextlib.contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The bytes of a file, or of standard input."""
    if path == "-":
        yield sys.stdin.buffer
        return
    with open(path, "rb") as stream:
        yield stream


def filter_lines(path: str) -> Iterator[tuple[int, str]]:
    """The lines of a file of filters with their numbers; blank ones, and those that start with #, are not."""
    with opened(path) as stream:
        for number, raw in enumerate(stream, start=1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                raise BadInput(f"{path}:{number}: not UTF-8: {error.reason}") from None
            if line and not line.startswith("#"):
                yield number, line
