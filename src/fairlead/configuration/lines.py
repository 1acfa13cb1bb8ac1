"""The lines of keys in a file of TOML, for its errors: the parser of the standard library does not say them."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["Lines"]

_LOCATION: Final = re.compile(
    r"(?:\[\[(?P<several>.+?)\]\](?: (?P<number>\d+):)?|\[(?P<table>.+?)\])? ?(?P<key>[^\s:\[\]]+)?:"
)
"""The beginning of an error: `[table] key:`, `[[table]] 2: key:`, `[table]:` or `key:`."""
_KEY: Final = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w.-]+))\s*=""")
_LONG: Final = ('"""', "'''")


class Lines:
    """The line of each table and key of a file."""

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, int, str], int] = {}
        table, seen = "", Counter[str]()
        for number, line in _code(text):
            name = _header(line)
            if name is not None:
                table = name
                seen[table] += 1
                self._lines.setdefault((table, seen[table], ""), number)
            elif found := _KEY.match(line):
                key = next(each for each in found.groups() if each is not None)
                self._lines.setdefault((table, seen[table], key), number)

    @classmethod
    def of(cls, path: str | Path) -> Lines:
        """The lines of a file."""
        return cls(Path(path).read_bytes().decode("utf-8-sig"))

    def of_problem(self, problem: str) -> int | None:
        """The line that an error is about: that of its key or, where the key is missing, of its table."""
        found = _LOCATION.match(problem)
        if found is None:
            return None
        table = found["several"] or found["table"] or ""
        number = int(found["number"] or 1) if table else 0
        key = found["key"] or ""
        return self._lines.get((table, number, key)) or self._lines.get((table, number, ""))


def _code(text: str) -> Iterator[tuple[int, str]]:
    """The lines that do not begin within a long string."""
    within = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not within:
            yield number, line
        for mark in _LONG:
            if within in ("", mark) and line.count(mark) % 2:
                within = "" if within else mark


def _header(line: str) -> str | None:
    """The name of the table that a line begins; None where it begins none."""
    if not line.lstrip().startswith("["):
        return None
    try:
        given = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    names = []
    while given:
        ((name, inner),) = given.items()
        names.append(name)
        given = inner[0] if isinstance(inner, list) else inner
    return ".".join(names)
