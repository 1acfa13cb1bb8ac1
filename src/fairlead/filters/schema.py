"""The schema: which types there are, and what attributes may hold.

    # a comment
    type Timed
    abstract type Instrument             no notification is of this type itself
    type StockQuote: Instrument, Timed   a lattice: parents are declared anywhere in the file
    price: int                           whole numbers only; 20.0 is whole
    note: string?                        null is allowed
    position.x: number

The lattice is closed: `type is T` means that `type` is one of finitely many names. A value outside its
attribute's declared domain is refused at the door (`admit`), so the relations between filters may rely on
it. What is not declared is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from fairlead.errors import FilterError, SchemaError, ValueRefused
from fairlead.filters.terms import quote_name, unquote_step
from fairlead.model import (
    ABSENT,
    Array,
    Instant,
    Kind,
    Multi,
    Notification,
    Record,
    Tuple,
    check_name,
    kind_of,
    number_of,
)

__all__ = ["Declared", "Schema"]


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared values of an attribute: one kind, where `integer` only whole ones, perhaps null."""

    kind: Kind
    integer: bool = False
    nullable: bool = False

    def __str__(self) -> str:
        return ("int" if self.integer else self.kind.value) + ("?" if self.nullable else "")

    def admits(self, value: Any) -> bool:
        """Whether a value lies in the domain."""
        kind = kind_of(value)
        if kind is Kind.NULL:
            return self.nullable
        return kind is self.kind and not (self.integer and not isinstance(number_of(value), int))


KINDS: Final = {
    "int": Declared(Kind.NUMBER, integer=True),
    **{
        kind.value: Declared(kind)
        for kind in (
            Kind.NUMBER,
            Kind.STRING,
            Kind.BOOLEAN,
            Kind.TIME,
            Kind.BYTES,
            Kind.SET,
            Kind.POINT,
            Kind.INTERVAL,
            Kind.RECTANGLE,
            Kind.RECORD,
            Kind.TUPLE,
            Kind.ARRAY,
        )
    },
    "any": None,
}
"""The kinds that a schema can declare; None where anything goes."""

ALIASES: Final = {"float": "number", "decimal": "number", "bool": "boolean", "timestamp": "time"}

_KIND_WORDS: Final = frozenset({*KINDS, *ALIASES, *(kind.value for kind in Kind)})
"""The words that `is` and the schema read as kinds, so no type may have such a name."""


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A lattice of types and the domains of attributes; two schemas are equal iff they declare the same.

    `types` gives each type its parents, `abstract` names those that no notification is of itself, and
    `attributes` gives dotted names the words of the file, such as `"int"` or `"string?"`.
    """

    types: Mapping[str, Iterable[str]] = field(default_factory=dict)
    abstract: Iterable[str] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = field(init=False, repr=False)
    """A hash over all that is declared; it travels with indexes and links, where a mismatch is refused."""
    _abstract: frozenset[str] = field(init=False, repr=False)
    _children: Mapping[str, tuple[str, ...]] = field(init=False, repr=False)
    _domains: Mapping[str, Declared | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        types = {name: tuple(sorted(_distinct(name, parents))) for name, parents in self.types.items()}
        abstract = frozenset(self.abstract)
        domains = {name: _declared(name, word) for name, word in self.attributes.items()}
        _check_types(types, abstract)
        _check_attributes(domains)
        children: dict[str, list[str]] = {name: [] for name in types}
        for name in sorted(types):
            for parent in types[name]:
                children[parent].append(name)
        words = {name: str(domain) if domain else "any" for name, domain in domains.items()}
        self._set("types", MappingProxyType(types))
        self._set("abstract", abstract)
        self._set("_abstract", abstract)
        self._set("attributes", MappingProxyType(words))
        self._set("_children", {name: tuple(below) for name, below in children.items()})
        self._set("_domains", domains)
        self._set("fingerprint", blake2b(str(self).encode(), digest_size=16).hexdigest())

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """The schema in a file."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise SchemaError(f"{path}: not UTF-8 ({error.reason} at byte {error.start + 1})") from None
        except OSError as error:
            raise SchemaError(f"{path}: cannot be read ({error.strerror})") from None
        return cls.parse(text, source=str(path))

    @classmethod
    def parse(cls, text: str, source: str = "schema") -> Schema:
        """The schema that a text declares."""
        types: dict[str, tuple[str, ...]] = {}
        abstract: set[str] = set()
        attributes: dict[str, str] = {}
        lines: dict[tuple[str, str], int] = {}
        for number, line in enumerate(text.split("\n"), start=1):
            try:
                declaration = _read_line(line)
                if declaration is None:
                    continue
                what, name, words = declaration
                first = lines.setdefault(("attribute" if what == "attribute" else "type", name), number)
                if first != number:
                    raise SchemaError(f"{name!r} is declared twice, first in line {first}")
                if what == "attribute":
                    (attributes[name],) = words
                else:
                    types[name] = words
                if what == "abstract type":
                    abstract.add(name)
            except SchemaError as error:
                raise _located(error, source, number) from None
        try:
            return cls(types, abstract, attributes)
        except _Misdeclared as error:
            raise _located(error, source, lines[error.what, error.name]) from None

    # -- types ---------------------------------------------------------------------------------------------

    @property
    def has_types(self) -> bool:
        """Whether any type is declared."""
        return bool(self.types)

    def parents(self, name: str) -> tuple[str, ...]:
        """The types that a type was declared with, sorted."""
        return tuple(self.types[self._known(name)])

    def direct_subtypes(self, name: str) -> tuple[str, ...]:
        """The types that were declared with this one as a parent, sorted."""
        return self._children[self._known(name)]

    def is_subtype(self, name: str, of: str) -> bool:
        """Whether a type is another one or lies below it."""
        self._known(of)
        return of in self._reached(self._known(name), self.types)

    def type_members(self, name: str) -> frozenset[str]:
        """The values of `type` for which `type is name` holds: the type and all below it, without the abstract
        ones."""
        return frozenset(self._reached(self._known(name), self._children)) - self._abstract

    def _known(self, name: str) -> str:
        if name not in self.types:
            raise FilterError(f"no type is named {name!r} in the schema", hint=_suggestion(name, self.types))
        return name

    @staticmethod
    def _reached(start: str, steps: Mapping[str, Iterable[str]]) -> set[str]:
        reached, stack = {start}, [start]
        while stack:
            fresh = set(steps[stack.pop()]) - reached
            reached |= fresh
            stack.extend(fresh)
        return reached

    # -- attributes ----------------------------------------------------------------------------------------

    def domain(self, name: str) -> Declared | None:
        """The declared values of the attribute under a dotted name, or None if it may have any."""
        return self._domains.get(name)

    @property
    def concrete(self) -> frozenset[str]:
        """The types that notifications can be of: what the attribute `type` can be, where types are declared."""
        return frozenset(self.types) - self._abstract

    def admit(self, notification: Notification) -> Notification:
        """The notification, if every declared attribute that it has lies in its domain, or ValueRefused.

        A declared time that is still a string is read as one; an empty list is an empty array where that is
        declared (JSON cannot tell it from an empty set).
        """
        self._admit_type(notification)
        attributes = notification.attributes
        for name, domain in self._domains.items():
            value = attributes.lookup(name)
            if domain is None or value is ABSENT or domain.admits(value):
                continue
            attributes = _with(attributes, name.split("."), _brought_into(domain, name, value))
        if attributes is notification.attributes:
            return notification
        content = notification.written()
        return replace(notification, attributes=attributes).published_as(content[1] or content[0])

    def _admit_type(self, notification: Notification) -> None:
        name = notification.get("type")
        if not self.types or name is ABSENT:
            return
        if not isinstance(name, str):
            raise ValueRefused(f"the attribute 'type' names a type of the schema, not {_shown(name)}")
        if name not in self.types:
            raise ValueRefused(f"the schema has no type {name!r}", hint=_suggestion(name, self.types))
        if name in self._abstract:
            below = sorted(self.type_members(name))
            raise ValueRefused(
                f"no notification is of the abstract type {name!r} itself",
                hint=f"its concrete subtypes are {', '.join(below)}" if below else None,
            )

    # -- renderings ----------------------------------------------------------------------------------------

    def __str__(self) -> str:
        """The text of a file that declares the same, in one order for equal schemas."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for name in sorted(self.types):
            parents = ", ".join(map(quote_name, self.types[name]))
            word = "abstract type" if name in self._abstract else "type"
            yield f"{word} {quote_name(name)}" + (f": {parents}" if parents else "")
        for name in sorted(self.attributes):
            yield f"{quote_name(name)}: {self.attributes[name]}"

    def show(self) -> str:
        """The lattice as a tree, subtypes indented below each parent, then the attributes.

        A type with several parents stands below each of them, and its own subtypes below the first.
        """
        lines: list[str] = []
        opened: set[str] = set()
        stack = [(name, "", 0) for name in sorted(self.types, reverse=True) if not self.types[name]]
        while stack:
            name, above, depth = stack.pop()
            others = [parent for parent in self.types[name] if parent != above]
            below = self._children[name]
            marks = [
                *(["abstract"] if name in self._abstract else []),
                *([f"also below {', '.join(others)}"] if others else []),
                *(["its subtypes stand above"] if below and name in opened else []),
            ]
            lines.append("  " * depth + name + (f"  ({'; '.join(marks)})" if marks else ""))
            if name not in opened:
                opened.add(name)
                stack.extend((each, name, depth + 1) for each in reversed(below))
        lines += [f"{quote_name(name)}: {self.attributes[name]}" for name in sorted(self.attributes)]
        return "\n".join(lines)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[type[Schema], tuple[Any, ...]]:
        return Schema, (dict(self.types), self.abstract, dict(self.attributes))


# -- checking declarations ---------------------------------------------------------------------------------


class _Misdeclared(SchemaError):
    """An error in the declaration of one name, whose line the reader of a file knows."""

    def __init__(self, what: str, name: str, problem: str, hint: str | None = None) -> None:
        super().__init__(problem, hint=hint)
        self.what, self.name = what, name


def _located(error: SchemaError, source: str, line: int) -> SchemaError:
    problem = str(error).partition("\n  hint: ")[0]
    return SchemaError(f"{source}, line {line}: {problem}", hint=error.hint)


def _distinct(name: str, parents: Iterable[str]) -> list[str]:
    if isinstance(parents, str):
        raise _Misdeclared(
            "type", name, f"the parents of {name!r} are a list of names", hint=f"[{parents!r}]"
        )
    listed = list(parents)
    for parent in listed:
        if listed.count(parent) > 1:
            raise _Misdeclared("type", name, f"{name!r} names its parent {parent!r} twice")
    return listed


def _declared(name: str, word: str) -> Declared | None:
    base = word.removesuffix("?")
    base = ALIASES.get(base, base)
    if base not in KINDS:
        raise _Misdeclared(
            "attribute",
            name,
            f"{name!r} is declared as {word!r}, which is no kind of value",
            _suggestion(base, {*KINDS, *ALIASES}) or f"the kinds are {', '.join(KINDS)}",
        )
    domain = KINDS[base]
    return domain and replace(domain, nullable=word.endswith("?"))


def _check_types(types: Mapping[str, tuple[str, ...]], abstract: frozenset[str]) -> None:
    for name, parents in types.items():
        _check_word("type", name)
        if name in _KIND_WORDS:
            raise _Misdeclared("type", name, f"a type cannot be named {name!r}, which is a kind of value")
        for parent in parents:
            if parent not in types:
                raise _Misdeclared(
                    "type", name, f"{name!r} has an unknown parent {parent!r}", _suggestion(parent, types)
                )
    for name in sorted(abstract - types.keys()):
        raise SchemaError(f"{name!r} is declared abstract but is no type", hint=_suggestion(name, types))
    try:
        TopologicalSorter(types).prepare()
    except CycleError as error:
        cycle = error.args[1][::-1]  # from a type to its parent
        raise _Misdeclared("type", cycle[0], f"a type above itself: {' -> '.join(cycle)}") from None


def _check_attributes(domains: Mapping[str, Declared | None]) -> None:
    for name in domains:
        _check_word("attribute", name)
        steps = name.split(".")
        for length in range(1, len(steps)):
            parent = ".".join(steps[:length])
            above = domains.get(parent)
            if above is not None and above.kind is not Kind.RECORD:
                raise _Misdeclared(
                    "attribute", name, f"{name!r} lies within {parent!r}, which is declared as {above}"
                )
    time = domains.get("time")
    if time is not None and time.kind is not Kind.TIME:
        raise _Misdeclared(
            "attribute", "time", f"'time' is when a notification happened, so it cannot be declared as {time}"
        )


def _check_word(what: str, name: str) -> None:
    try:
        check_name(name)
    except ValueRefused as error:
        raise _Misdeclared(what, name, f"not a name: {name!r}", error.hint) from None
    if "\n" in name or "\r" in name:
        raise _Misdeclared(what, name, f"a name with a line break in it: {name!r}")


def _suggestion(name: str, known: Iterable[str]) -> str | None:
    close = get_close_matches(name, sorted(known), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(close)}?" if close else None


# -- reading lines -----------------------------------------------------------------------------------------

_STEP = r"(?:[^\W\d]\w*|`(?:[^`\\]|\\.)+`)"
_NAME = rf"{_STEP}(?:\.{_STEP})*"
_END = r"\s*(?:\#.*)?"
_TYPE_LINE: Final = re.compile(
    rf"\s*(abstract\s+)?type\s+({_NAME})\s*(?::\s*({_NAME}(?:\s*,\s*{_NAME})*))?{_END}"
)
_ATTRIBUTE_LINE: Final = re.compile(rf"\s*({_NAME})\s*:\s*([^\s\#]+){_END}")
_BLANK_LINE: Final = re.compile(_END)


def _read_line(line: str) -> tuple[str, str, tuple[str, ...]] | None:
    """The declaration on a line (type, abstract type or attribute), its name, and the parents or the kind."""
    if _BLANK_LINE.fullmatch(line):
        return None
    if found := _TYPE_LINE.fullmatch(line):
        abstract, name, parents = found.groups()
        listed = tuple(map(_unquoted, re.findall(_NAME, parents or "")))
        return "abstract type" if abstract else "type", _unquoted(name), listed
    if found := _ATTRIBUTE_LINE.fullmatch(line):
        return "attribute", _unquoted(found[1]), (found[2],)
    raise SchemaError(
        f"cannot be read: {line.strip()[:80]}",
        hint="write `type Name: Parent`, `abstract type Name` or `name: kind`; "
        "a name that is not a plain word is written in backquotes",
    )


def _unquoted(name: str) -> str:
    """A dotted name without its backquotes."""
    steps = []
    for step in re.findall(_STEP, name):
        plain = unquote_step(step[1:-1]) if step.startswith("`") else step
        if "." in plain:
            raise SchemaError(f"a step of a name with a dot in it: {step}")
        steps.append(plain)
    return ".".join(steps)


# -- admission ---------------------------------------------------------------------------------------------


def _brought_into(domain: Declared, name: str, value: Any) -> Any:
    """A value that is not in its domain as the value of the domain that was meant, or ValueRefused."""
    if domain.kind is Kind.TIME and isinstance(value, str):
        try:
            return Instant.parse(value)
        except ValueRefused as error:
            raise ValueRefused(f"{name!r} is declared as {domain}: {error}") from None
    if isinstance(value, Multi) and not value and domain.kind in (Kind.ARRAY, Kind.TUPLE):
        return Array(()) if domain.kind is Kind.ARRAY else Tuple(())
    raise ValueRefused(f"{name!r} is declared as {domain}, which {_shown(value)} is not")


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        return "a huge value"
    return text if len(text) <= 80 else f"{text[:80]}…"


def _with(record: Record, steps: list[str], value: Any) -> Record:
    """The record with another value in the place that these steps lead to."""
    first, *rest = steps
    return Record({**record, first: _with(record[first], rest, value) if rest else value})
