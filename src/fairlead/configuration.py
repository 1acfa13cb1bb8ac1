"""Reads configuration files: a file is read and checked as a whole, and all its errors are reported at once.

    KEYS: Format = {
        "": {"name": Key(text, "what it is called", required=True)},
        "order": {"final": Key(flag, "the end of the input releases everything", False)},
    }
    reading = Reading(KEYS)
    name = reading.top(given)["name"]
    final = reading.table("order", given.get("order", {}))["final"]
    if reading.problems:
        raise all_of(reading.problems, "alerts.toml", PipelineError)

A file format is a value: each table with its keys, how each is read, its default and its meaning.
A wrong value is reported with its table and key; the default takes its place, and reading continues.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from fairlead.errors import FairleadError

__all__ = [
    "Format",
    "Key",
    "Reading",
    "Wrong",
    "all_of",
    "count",
    "expected",
    "flag",
    "listed",
    "one_of",
    "read_toml",
    "some_of",
    "suggestion",
    "text",
    "texts",
]


class Key(NamedTuple):
    """A key of the file: how its value is read, its default, and its meaning."""

    read: Callable[[Any], Any]
    """The value, or `Wrong`."""
    meaning: str
    default: Any = None
    shown: str = ""
    """The default in words, where it is not as it is written in the file."""
    required: bool = False


Format: TypeAlias = Mapping[str, Mapping[str, Key]]
"""The tables of a file; the keys above the first table form the table without a name."""


# -- reading one value -------------------------------------------------------------------------------------


class Wrong(Exception):
    """A value that its key cannot have, in words."""


NOUNS: Final = {
    bool: "a Boolean",
    str: "a string",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


def expected(what: str, given: Any) -> Wrong:
    """What to raise where a value is of another type than its key's."""
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


def suggestion(given: str, known: Iterable[str]) -> str:
    """What a misspelt name was meant to be, as the end of a sentence; nothing where nothing is close."""
    names = list(known)
    close = get_close_matches(given, names, n=1) or get_close_matches(given.lower(), names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def listed(names: Iterable[str]) -> str:
    """One, two or three."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


# -- reading a file ----------------------------------------------------------------------------------------


def read_toml(path: str | Path, error: type[FairleadError], hint: str) -> dict[str, Any]:
    """The tables of a file, or this error; the hint is for those who are new to TOML."""
    try:
        content = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        raise error(f"{path}: not UTF-8 ({bad.reason} at byte {bad.start + 1})") from None
    except OSError as bad:
        raise error(f"{path}: cannot be read ({bad.strerror})") from None
    try:
        return tomllib.loads(content)
    except tomllib.TOMLDecodeError as bad:
        raise error(f"{path}: not TOML: {bad}", hint=hint) from None


class Reading:
    """One pass over the tables of a file. Errors are collected, and defaults take the place of wrong values."""

    def __init__(self, keys: Format) -> None:
        self._keys = keys
        self._tables = tuple(name for name in keys if name)
        self.problems: list[str] = []
        self.unsound: set[str] = set()
        """The tables with errors: rules across their keys are not checked."""

    def wrong(self, table: str, place: str, problem: str) -> None:
        """Record an error and its location."""
        self.problems.append(f"{place}: {problem}")
        self.unsound.add(table)

    def top(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values above the first table, by key."""
        return self.table("", {key: value for key, value in given.items() if key not in self._tables})

    def table(self, name: str, given: Any, label: str | None = None) -> dict[str, Any]:
        """The values of a table by key, the defaults among them."""
        label = (f"[{name}]" if name else "") if label is None else label
        keys = self._keys[name]
        values = {key: each.default for key, each in keys.items()}
        if not isinstance(given, Mapping):
            place = label.removesuffix(":")
            self.wrong(name, place, str(expected(f"a table {place}", given)))
            return values
        for key in given:
            if key not in keys:
                is_table = not name and isinstance(given[key], Mapping)
                place = f"[{key}]" if is_table else f"{label} {key}".strip()
                there_are = (
                    f"; there are {', '.join(f'[{each}]' for each in self._tables)}" if is_table else ""
                )
                meant = self._elsewhere(key, name) or there_are
                self.wrong(name, place, f"no such {'table' if is_table else 'key'}{meant}")
        for key, each in keys.items():
            if key in given:
                try:
                    values[key] = each.read(given[key])
                except Wrong as wrong:
                    self.wrong(name, f"{label} {key}".strip(), str(wrong))
            elif each.required:
                self.wrong(name, f"{label} {key}".strip(), f"missing: {each.meaning}")
        return values

    def required(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a table that has to be there."""
        if name in given:
            return self.table(name, given[name])
        self.wrong(name, f"[{name}]", "the table is missing")
        return {key: each.default for key, each in self._keys[name].items()}

    def _elsewhere(self, key: str, table: str) -> str:
        """What a key that its table does not have was meant to be."""
        keys = self._keys[table]
        here = keys if table else (*keys, *self._tables)
        anywhere = {name for keys in self._keys.values() for name in keys}
        best = get_close_matches(key.lower(), sorted({*here, *anywhere}), n=1)
        if best and best[0] in here and (close := suggestion(key, here)):
            return close
        for name in get_close_matches(key.lower(), sorted(anywhere), n=1):
            homes = [home for home, keys in self._keys.items() if name in keys]
            meant = "it" if name == key else repr(name)
            if "" in homes:
                return f"; {meant} stands at the top of the file, above the first table"
            return f"; {meant} belongs in {listed([f'[{home}]' for home in homes])}"
        return ""


def all_of(problems: Sequence[str], source: str, error: type[FairleadError]) -> FairleadError:
    """One error that names all that is wrong with a file."""
    if len(problems) == 1:
        return error(f"{source}: {problems[0]}")
    return error("\n  ".join([f"{source}: {len(problems)} problems", *problems]))
