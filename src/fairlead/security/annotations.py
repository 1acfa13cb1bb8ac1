"""The key classes of an attribute, in disjunctive normal form: `police & training | fire & training`.

An attribute is sealed under one alternative, or under several; whoever has all keys of one of them opens it. The
alternative `plain` lets it be published as it is. A subtype may remove alternatives that it inherits, and add
none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fairlead.errors import PolicyError
from fairlead.filters.schema import Schema
from fairlead.model import Notification

__all__ = ["ANY_TYPE", "PLAIN", "Alternative", "Annotation", "Annotations", "classes_text"]

Alternative: TypeAlias = frozenset[str]
"""Key classes that are needed together."""
PLAIN: Final[Alternative] = frozenset()
PLAIN_WORD: Final = "plain"
ANY_TYPE: Final = "*"
"""In place of a type: for notifications of every type, and of none."""
_CLASS: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_ENVELOPE: Final = frozenset({"id", "producer", "time", "sequence", "type"})


def classes_text(alternative: Alternative) -> str:
    """An alternative as users write it."""
    return " & ".join(sorted(alternative)) or PLAIN_WORD


@dataclass(frozen=True, slots=True)
class Annotation:
    """The alternatives of one attribute."""

    alternatives: frozenset[Alternative]

    @classmethod
    def parse(cls, text: str) -> Annotation:
        """The annotation that a text denotes; PolicyError."""
        alternatives = []
        for part in text.split("|"):
            names = [name.strip() for name in part.split("&")]
            if names == [PLAIN_WORD]:
                alternatives.append(PLAIN)
                continue
            for name in names:
                if not _CLASS.fullmatch(name) or name == PLAIN_WORD:
                    raise PolicyError(
                        f"{text!r}: {name!r} is no key class", hint="police & training | fire & training"
                    )
            alternatives.append(frozenset(names))
        return cls(frozenset(alternatives))

    def __str__(self) -> str:
        return " | ".join(sorted(map(classes_text, self.alternatives)))

    @property
    def classes(self) -> frozenset[str]:
        """The classes that occur."""
        return frozenset().union(*self.alternatives)

    def refines(self, other: Annotation) -> bool:
        """Whether a subtype may have this one where it inherits the other: it adds no alternative."""
        return self.alternatives <= other.alternatives


@dataclass(frozen=True)
class Annotations:
    """By type, the annotations of attributes; those of `*` hold for every type that has none of its own."""

    types: Mapping[str, Mapping[str, Annotation]] = field(default_factory=dict)
    schema: Schema | None = None
    signed: frozenset[str] = frozenset()
    """The classes under which a producer seals only what it signs."""
    publics: Mapping[str, str] = field(default_factory=dict)
    """By producer, the public key that its signatures are checked with."""
    tokens: frozenset[str] = frozenset()
    """The classes whose values have tokens, by which programs without the keys see which are equal."""

    def __post_init__(self) -> None:
        if problems := [*self._problems()]:
            raise PolicyError("; ".join(problems))

    @classmethod
    def of(cls, given: Mapping[str, Mapping[str, str]], schema: Schema | None = None) -> Annotations:
        """The annotations of tables `TYPE: {attribute: alternatives}`; PolicyError."""
        return cls(
            {
                type: {name: Annotation.parse(text) for name, text in table.items()}
                for type, table in given.items()
            },
            schema,
        )

    def _problems(self) -> Iterator[str]:
        for type, table in self.types.items():
            for name in table:
                if name in _ENVELOPE or "." in name:
                    yield f"[sealed.{type}] {name}: an attribute of a record was expected, not of its envelope"
            for parent in self._supertypes(type):
                inherited = self.types.get(parent, {})
                for name, annotation in table.items():
                    if name in inherited and not annotation.refines(inherited[name]):
                        known = f"{inherited[name]}, which it inherits from {parent}"
                        yield f"[sealed.{type}] {name}: {annotation} adds an alternative to {known}"

    def _supertypes(self, type: str) -> list[str]:
        """The types above one, nearest first; the one for every type last."""
        found: list[str] = []
        if self.schema is not None and self.schema.has_types and type in self.schema.types:
            ahead = [*self.schema.parents(type)]
            for each in ahead:
                if each not in found:
                    found.append(each)
                    ahead.extend(self.schema.parents(each))
        return found if type == ANY_TYPE else [*found, ANY_TYPE]

    def of_type(self, type: object) -> dict[str, Annotation]:
        """The annotations of the attributes of a type, inherited ones included."""
        name = type if isinstance(type, str) else ANY_TYPE
        tables = [self.types.get(each, {}) for each in (name, *self._supertypes(name))]
        merged: dict[str, Annotation] = {}
        for table in reversed(tables):
            merged.update(table)
        return merged

    def of_notification(self, notification: Notification) -> dict[str, Annotation]:
        """The annotations of the attributes of a notification."""
        return self.of_type(notification.get("type", None))

    def alternatives(self, attribute: str) -> frozenset[Alternative]:
        """All alternatives of an attribute, over all types; `PLAIN` where some type has none of it."""
        given = [table[attribute] for table in self.types.values() if attribute in table]
        found = frozenset().union(*(each.alternatives for each in given)) if given else frozenset({PLAIN})
        return found if attribute in self.types.get(ANY_TYPE, {}) else found | {PLAIN}

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that some type seals."""
        return frozenset(name for table in self.types.values() for name in table)

    @property
    def classes(self) -> frozenset[str]:
        """The classes that occur."""
        every: Iterable[Annotation] = (each for table in self.types.values() for each in table.values())
        return frozenset().union(*(each.classes for each in every))
