"""The keys of a file, declared once: as annotations of the fields that hold their values.

    @dataclass(frozen=True)
    class Order:
        lateness_us: Annotated[int, Key("how late a row may come", DURATION, at="lateness")] = 0
        final: Annotated[bool, Key("the end of the input releases everything")] = False

    @dataclass(frozen=True)
    class Pipeline:
        name: Annotated[str, Key("the name of the run")]
        order: Order = Order()

This is the format of a file with a key `name` at its top and a table `[order]`. All else follows from that:

    name in the file     the field's, or `at`: `every_ms`, `retention.time` for a key of another table, `fair.` for
                         the field's own name there
    type and check       `kind`; text, Booleans, lists of texts and literals follow from the field's type
    default              the field's; a key without one is required, unless `shown` says what is used instead
    documentation        the default and the meaning, a row of the file's reference in docs
    fingerprint          `counts`: ALWAYS, where it is not the default (SET), or NEVER
    table                a field whose class has keys; `X | None` is optional, `tuple[X, ...]` a list of tables

`file_of` gives the format, which `Reading` reads by; `made` the fields of the value; `written` the tables again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from inspect import get_annotations
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
)

from fairlead.configuration.values import Kind, Reader, flag, one_of, plain, text, texts

__all__ = [
    "ALWAYS",
    "NEVER",
    "SET",
    "Counts",
    "Format",
    "Key",
    "Off",
    "Row",
    "Table",
    "Tables",
    "file_of",
    "made",
    "written",
]


class Counts(Enum):
    """Whether a key is part of the fingerprint."""

    ALWAYS = "always"
    SET = "where it is not the default"
    """For a key that is added to a format: outputs from before it have the same fingerprint still."""
    NEVER = "never"


ALWAYS, SET, NEVER = Counts


@dataclass(frozen=True, slots=True)
class Key:
    """The declaration of a key, or of a table (then only `at` and `counts` mean something)."""

    meaning: str
    kind: Kind | Reader | None = None
    at: str = ""
    shown: str = ""
    """The default in words, where it is not a value that the file could have."""
    counts: Counts = ALWAYS
    public: Reader = plain
    """The part of the written value that may be shown: without passwords."""


@dataclass(frozen=True, slots=True)
class Off:
    """A flag beside a key: `memory = true` excludes `data`."""

    name: str
    meaning: str


class Row(NamedTuple):
    """A key with all that follows from its declaration."""

    field: str
    kind: Kind
    meaning: str
    default: Any = None
    shown: str = ""
    required: bool = False
    bare: bool = False
    """Whether the field has no default."""
    off: bool = False
    """Whether this is the flag that says that the field has no value."""
    counts: Counts = ALWAYS
    public: Reader = plain

    @property
    def default_text(self) -> str:
        """The default, as the documentation has it."""
        if self.required or self.shown:
            return self.shown or "required"
        if self.default in (None, (), {}):
            return "none"
        value = self.kind.write(self.default)
        return f"`{value if isinstance(value, str) else json.dumps(value)}`"


class Table(NamedTuple):
    """The keys of a table."""

    rows: Mapping[str, Row]
    required: bool = False
    several: bool = False
    """Whether there may be a list of such tables."""


Format: TypeAlias = Mapping[str, Table]
"""The tables of a file; the keys above the first table are those of the table without a name."""
Tables: TypeAlias = Mapping[str, Any]
"""The values that a file gives: of each table its keys, or a list of them where there are several."""


class _Part(NamedTuple):
    """A field that is a table of its own."""

    field: str
    table: str
    kind: Any
    rows: Mapping[str, Row]
    several: bool
    default: Any
    """MISSING: the table is required."""
    counts: Counts


def file_of(kind: type) -> Format:
    """The format of the files that are read as values of this class."""
    own, parts = _declared(kind)
    tables = {name: Table(rows, bool(name) and _any_required(rows)) for name, rows in own.items()}
    for part in parts:
        rows = {**part.rows, **own[part.table]}
        tables[part.table] = Table(rows, part.default is MISSING, part.several)
    return tables


def _any_required(rows: Mapping[str, Row]) -> bool:
    return any(row.required for row in rows.values())


def made(kind: type, tables: Tables) -> dict[str, Any]:
    """The fields of a value of this class: those that the tables give, and None for others without a default."""
    own, parts = _declared(kind)
    given: dict[str, Any] = {}
    for table, rows in own.items():
        given |= _given(rows, tables.get(table, {}))
    for part in parts:
        if (said := tables.get(part.table)) is None:
            if part.default is MISSING:
                given[part.field] = None
        elif part.several:
            given[part.field] = tuple(part.kind(**_given(part.rows, each)) for each in said)
        elif isinstance(part.default, part.kind):
            given[part.field] = replace(part.default, **_given(part.rows, said))
        else:
            given[part.field] = part.kind(**_given(part.rows, said))
    return given


def _given(rows: Mapping[str, Row], said: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of these keys."""
    values = {
        row.field: said.get(name) for name, row in rows.items() if not row.off and (name in said or row.bare)
    }
    off = {row.field: None for name, row in rows.items() if row.off and said.get(name)}
    return values | off


def written(value: object, *, public: bool = False, counting: bool = False) -> dict[str, Any]:
    """The tables that read as this value: without secrets if they are to be public; or those that count."""
    kind: type = type(value)
    own, parts = _declared(kind)
    tables: dict[str, Any] = {}
    for table, rows in own.items():
        target = tables.setdefault(table, {}) if table and rows else tables
        for name, row in rows.items():
            held = getattr(value, row.field)
            if counting and (row.counts is NEVER or (row.counts is SET and held == row.default)):
                continue
            if row.off:
                target[name] = held is None
            else:
                shown = None if held is None else row.kind.write(held)
                target[name] = row.public(shown) if public and shown is not None else shown
    for part in parts:
        held = getattr(value, part.field)
        if counting and (part.counts is NEVER or (part.counts is SET and held == part.default)):
            continue
        options = {"public": public, "counting": counting}
        if part.several:
            tables[part.table] = [written(each, **options) for each in held]
        elif held is not None:
            tables[part.table] = written(held, **options) | tables.get(part.table, {})
    in_order = {table: tables.pop(table) for table in own if table in tables}
    return tables | in_order


# -- from a class to its keys --------------------------------------------------------------------------------


@cache
def _declared(kind: Any) -> tuple[dict[str, dict[str, Row]], tuple[_Part, ...]]:
    """The keys of a class by table, and its fields that are tables."""
    hints = _hints(kind)
    own: dict[str, dict[str, Row]] = {"": {}}
    parts: list[_Part] = []
    for field in fields(kind):
        hint, *marks = get_args(hints[field.name]) if _is_marked(hints[field.name]) else [hints[field.name]]
        held, optional, several = _unwrapped(hint)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        key = next((mark for mark in marks if isinstance(mark, Key)), None)
        if _has_keys(held) and (key is None or key.kind is None):
            table, counts = (key.at or field.name, key.counts) if key else (field.name, ALWAYS)
            rows = _declared(held)[0][""]
            if isinstance(default, held):  # its values are the defaults, not those of the class
                rows = {name: _with_default(row, default) for name, row in rows.items()}
            own.setdefault(table, {})  # in the order of the fields
            parts.append(_Part(field.name, table, held, rows, several, default, counts))
        elif key is not None:
            table, _, name = key.at.rpartition(".")
            rows = own.setdefault(table, {})
            reader = key.kind or _kind_of(hint, held)
            rows[name or field.name] = Row(
                field.name,
                reader if isinstance(reader, Kind) else Kind(reader),
                key.meaning,
                None if default is MISSING else default,
                key.shown,
                default is MISSING and not key.shown and not optional,
                default is MISSING,
                counts=key.counts,
                public=key.public,
            )
            for mark in marks:
                if isinstance(mark, Off):
                    rows[mark.name] = Row(
                        field.name, Kind(flag), mark.meaning, False, off=True, counts=key.counts
                    )
    return own, tuple(parts)


def _with_default(row: Row, holder: Any) -> Row:
    return row if row.off else row._replace(default=getattr(holder, row.field), required=False, bare=False)


def _hints(kind: Any) -> dict[str, Any]:
    """The annotations of a class, evaluated in its module, so that functions in them find its names."""
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        hints |= get_annotations(base, globals=vars(sys.modules[base.__module__]), locals={}, eval_str=True)
    return hints


def _is_marked(hint: Any) -> bool:
    return get_origin(hint) is Annotated


def _has_keys(kind: Any) -> bool:
    return is_dataclass(kind) and any(_is_marked(hint) for hint in _hints(kind).values())


def _unwrapped(hint: Any) -> tuple[Any, bool, bool]:
    """X of `X`, `X | None` and `tuple[X, ...]`; whether it may be None; whether there may be several."""
    if get_origin(hint) in (Union, UnionType):
        others = [each for each in get_args(hint) if each is not NoneType]
        return (others[0] if len(others) == 1 else hint), NoneType in get_args(hint), False
    if get_origin(hint) is tuple and get_args(hint)[1:] == (...,):
        return get_args(hint)[0], False, True
    return hint, False, False


_KINDS: Final[Mapping[Any, Reader]] = {bool: flag, str: text, tuple[str, ...]: texts}


def _kind_of(hint: Any, held: Any) -> Reader:
    """The reader that follows from a type."""
    if get_origin(held) is Literal:
        return one_of(*get_args(held))
    return _KINDS[hint if hint in _KINDS else held]
