"""Reads a file as a whole: errors are collected with their table and key, and reported at once."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from fairlead.configuration.keys import Format, file_of, made
from fairlead.configuration.lines import Lines
from fairlead.configuration.values import PATH, Wrong, expected, listed, suggestion
from fairlead.errors import FairleadError

__all__ = ["Reading", "all_of", "read_toml", "small_tables"]


def read_toml(path: str | Path, error: type[FairleadError], hint: str) -> dict[str, Any]:
    """The tables of a file, or this error; the hint is for users who are new to TOML."""
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
    """One pass over the tables of a file. It returns the values that are given and right, and collects errors."""

    def __init__(self, format: Format, resolve: Callable[[str], str] = str) -> None:
        self._format = format
        self._resolve = resolve
        """Resolves a path in the file."""
        self._names = tuple(name for name in format if name)
        self.problems: list[str] = []
        self.unsound: set[str] = set()
        """The tables with errors: rules across their keys are not checked."""

    def wrong(self, table: str, location: str, problem: str) -> None:
        """Record an error and its location, once."""
        if (sentence := f"{location}: {problem}") not in self.problems:
            self.problems.append(sentence)
        self.unsound.add(table)

    def tables(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all tables; a list of such for a table of which there may be several."""
        read: dict[str, Any] = {"": self.top(given)}
        for name in self._names:
            table = self._format[name]
            if name not in given:
                if table.required:
                    self.wrong(name, f"[[{name}]]" if table.several else f"[{name}]", "the table is missing")
            elif table.several:
                read[name] = self.several(name, given[name])
            else:
                read[name] = self.table(name, given[name])
        return read

    def several(self, name: str, given: Any) -> list[dict[str, Any]]:
        """The tables of a list; [name] is a list of one."""
        if not isinstance(given, list | tuple):
            return [self.table(name, given)]
        if not given:
            self.wrong(name, f"[[{name}]]", "there is none")
        return [self.table(name, each, f"[[{name}]] {at}:") for at, each in enumerate(given, start=1)]

    def top(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values above the first table, by key."""
        return self.table("", {key: value for key, value in given.items() if key not in self._names})

    def table(self, name: str, given: Any, label: str | None = None) -> dict[str, Any]:
        """The values of a table by key: those that are given, and paths that hold without that."""
        label = (f"[{name}]" if name else "") if label is None else label
        if not isinstance(given, Mapping):
            location = label.removesuffix(":")
            self.wrong(name, location, str(expected(f"a table {location}", given)))
            return {}
        rows = self._format[name].rows
        for key in given:
            if key not in rows:
                is_table = not name and isinstance(given[key], Mapping)
                location = f"[{key}]" if is_table else f"{label} {key}".strip()
                there_are = (
                    f"; there are {', '.join(f'[{each}]' for each in self._names)}" if is_table else ""
                )
                meant = self._elsewhere(key, name) or there_are
                self.wrong(name, location, f"no such {'table' if is_table else 'key'}{meant}")
        values: dict[str, Any] = {}
        for key, row in rows.items():
            location = f"{label} {key}".strip()
            if key in given:
                try:
                    value = row.kind.read(given[key])
                except Wrong as wrong:
                    self.wrong(name, location, str(wrong))
                    continue
                values[key] = self._resolve(value) if row.kind is PATH else value
                if row.off and value:
                    for other in (each for each in given if each in rows and each != key):
                        if rows[other].field == row.field:
                            problem = f"with {key} = true it means nothing; leave out one of the two"
                            self.wrong(name, f"{label} {other}".strip(), problem)
            elif row.kind is PATH and row.default is not None:
                values[key] = self._resolve(row.default)
            elif row.required:
                self.wrong(name, location, f"missing: {row.meaning}")
        return values

    def _elsewhere(self, key: str, table: str) -> str:
        """The table that a misplaced key was meant for."""
        rows = self._format[table].rows
        here = rows if table else (*rows, *self._names)
        anywhere = {name for table in self._format.values() for name in table.rows}
        best = get_close_matches(key.lower(), sorted({*here, *anywhere}), n=1)
        if best and best[0] in here and (close := suggestion(key, here)):
            return close
        for name in get_close_matches(key.lower(), sorted(anywhere), n=1):
            homes = [home for home, table in self._format.items() if name in table.rows]
            meant = "it" if name == key else repr(name)
            if "" in homes:
                return f"; {meant} belongs at the top of the file, above the first table"
            return f"; {meant} belongs in {listed([f'[{home}]' for home in homes])}"
        return ""

    def check(
        self,
        source: str,
        error: type[FairleadError],
        further: Iterable[str] = (),
        file: str | Path | None = None,
    ) -> None:
        """Raise one error that names all that is wrong, if anything is; of a `file`, with the lines."""
        if problems := [*self.problems, *further]:
            raise all_of(problems, source, error, None if file is None else Lines.of(file))


def all_of(
    problems: Sequence[str], source: str, error: type[FairleadError], lines: Lines | None = None
) -> FairleadError:
    """One error that names all that is wrong with a file, with the lines where these are known."""
    at = [None if lines is None else lines.of_problem(each) for each in problems]
    if len(problems) == 1:
        return error(f"{source}{'' if at[0] is None else f':{at[0]}'}: {problems[0]}")
    told = (each if line is None else f"line {line}: {each}" for each, line in zip(problems, at, strict=True))
    return error("\n  ".join([f"{source}: {len(problems)} problems", *told]))


def small_tables(kind: type, example: str) -> Callable[[Any], tuple[Any, ...]]:
    """A list of tables, each a value of this class, as the value of one key."""

    def read(given: Any) -> tuple[Any, ...]:
        if not isinstance(given, list):
            raise expected(f"a list such as [{example}]", given)
        reading = Reading(file_of(kind))
        tables = [reading.table("", each, f"{at}:") for at, each in enumerate(given, start=1)]
        if reading.problems:
            raise Wrong(f"{'; '.join(reading.problems)} (as in {example})")
        try:
            return tuple(kind(**made(kind, {"": each})) for each in tables)
        except FairleadError as error:
            raise Wrong(str(error)) from None

    return read
