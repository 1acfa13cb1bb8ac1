"""One value of a file: how it is read, and how it is written.

A reader is a function from what TOML has to the value of a key; it raises `Wrong` for what the key cannot have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, TypeAlias

from fairlead.errors import FairleadError

__all__ = [
    "PATH",
    "Kind",
    "Reader",
    "Wrong",
    "count",
    "expected",
    "flag",
    "listed",
    "number",
    "one_of",
    "parsed",
    "plain",
    "quoted",
    "some_of",
    "suggestion",
    "text",
    "texts",
]

Reader: TypeAlias = Callable[[Any], Any]


class Wrong(Exception):
    """A value that its key cannot have, in words."""


def plain(value: Any) -> Any:
    """A value as TOML and JSON have it, where it is one of theirs."""
    return [plain(each) for each in value] if isinstance(value, tuple) else value


class Kind(NamedTuple):
    """The notation of a key's values in a file: `write` is the inverse of `read`."""

    read: Reader
    """The value, or `Wrong`."""
    write: Callable[[Any], Any] = plain


NOUNS: Final = {
    bool: "a Boolean",
    str: "a string",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


def expected(what: str, given: Any) -> Wrong:
    """The error for a value of another type than its key's."""
    noun = NOUNS.get(type(given), "a date or time")
    return Wrong(f"{what} was expected, not {noun} ({json.dumps(given, default=str)[:40]})")


def text(given: Any) -> str:
    """A string with something in it."""
    if not isinstance(given, str):
        raise expected("a string", given)
    if not given.strip():
        raise Wrong("it is empty")
    return given


def texts(given: Any) -> tuple[str, ...]:
    """A list of strings, each with something in it."""
    if not isinstance(given, list | tuple):
        raise expected("a list of strings", given)
    return tuple(map(text, given))


def flag(given: Any) -> bool:
    """True or false."""
    if not isinstance(given, bool):
        raise expected("true or false", given)
    return given


def count(least: int, most: int) -> Callable[[Any], int]:
    """A whole number between these two, or one of them."""

    def read(given: Any) -> int:
        if isinstance(given, bool) or not isinstance(given, int):
            raise expected("a whole number", given)
        if not least <= given <= most:
            raise Wrong(f"a whole number from {least:,} to {most:,} was expected, not {given:,}")
        return given

    return read


def number(least: float, most: float) -> Callable[[Any], float]:
    """A number between these two, or one of them."""

    def read(given: Any) -> float:
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise expected(f"a number from {least} to {most}", given)
        if not least <= given <= most:
            raise Wrong(f"a number from {least} to {most} was expected, not {given}")
        return float(given)

    return read


def parsed(parse: Callable[[str], Any], what: str = "a string") -> Reader:
    """A reader that applies this function to the text; its errors become those of the key."""

    def read(given: Any) -> Any:
        if not isinstance(given, str):
            raise expected(what, given)
        try:
            return parse(text(given))
        except FairleadError as error:
            raise Wrong(str(error).replace("\n  hint: ", "; ")) from None

    return read


def one_of(*names: str) -> Callable[[Any], str]:
    """One of these names."""

    def read(given: Any) -> str:
        name = text(given)
        if name not in names:
            raise Wrong(f"{listed(names)} was expected, not {name!r}{suggestion(name, names)}")
        return name

    return read


def some_of(*names: str) -> Callable[[Any], tuple[str, ...]]:
    """A list of these names; each counts once."""
    one = one_of(*names)
    return lambda given: tuple(dict.fromkeys(map(one, texts(given))))


PATH: Final = Kind(text)
"""The name of a file or a directory; a relative one begins at the directory of the file that it is written in."""


def suggestion(given: str, known: Iterable[str]) -> str:
    """The name that a misspelt one is closest to, as the end of a sentence; empty if none is close."""
    names = list(known)
    close = get_close_matches(given, names, n=1) or get_close_matches(given.lower(), names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def quoted(names: Iterable[str]) -> str:
    """The names as documentation has them."""
    return ", ".join(f"`{name}`" for name in names)


def listed(names: Iterable[str]) -> str:
    """One, two or three."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
