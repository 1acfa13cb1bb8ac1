"""Writers: filters as conditions of other languages, which their readers then verify.

    Conditions.text(filter)   AND, OR and NOT over what a language says of one attribute
    glob_of(expression)       a regular expression as texts and wildcards, where it is that much

A logic of three values has no `not`: where a comparison is unknown, its negation is, too. So the negation of a
leaf is the leaf negated, or the attribute not there.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from fairlead.errors import TranslationRefused
from fairlead.filters.constraint import Constraint, Op
from fairlead.filters.filter import EVERYTHING, NOTHING, And, Filter, Not, Or, Tested
from fairlead.filters.regexes import BLOCK, IGNORING_CASE
from fairlead.filters.terms import Attribute

__all__ = ["Conditions", "Glob", "Wildcard", "constrained", "glob_of"]


class Wildcard(Enum):
    """A part of a pattern that is no text."""

    ANY = ".*"
    ONE = "."


class Glob(NamedTuple):
    """A text with wildcards."""

    parts: tuple[str | Wildcard, ...]
    ignores_case: bool

    @property
    def text(self) -> str | None:
        """The text, where there are no wildcards."""
        return "".join(map(str, self.parts)) if not any(map(_is_wild, self.parts)) else None


def _is_wild(part: str | Wildcard) -> bool:
    return isinstance(part, Wildcard)


_SIGNS: Final = re.compile(
    r"\\(?P<escaped>\W)|(?P<any>\.\*)|(?P<one>\.(?![+?{]))|(?P<plain>[^\\|*+?{}()\[\].^$])", re.S
)


def glob_of(expression: str) -> Glob | None:
    """An expression as texts and wildcards; None where there is more in it."""
    if expression.startswith(BLOCK):
        return None
    ignores_case = expression.startswith(IGNORING_CASE)
    parts: list[str | Wildcard] = []
    at = len(IGNORING_CASE) * ignores_case
    while at < len(expression):
        found = _SIGNS.match(expression, at)
        if found is None:
            return None
        if found.lastgroup in ("any", "one"):
            parts.append(Wildcard(found[0]))
        elif parts and isinstance(parts[-1], str):
            parts[-1] += found[found.lastgroup or 0]
        else:
            parts.append(found[found.lastgroup or 0])
        at = found.end()
    return Glob(tuple(parts), ignores_case)


def constrained(filter: Filter) -> str | None:
    """The attribute that a constraint is about; None for other filters."""
    if isinstance(filter, Constraint) and isinstance(filter.term, Attribute):
        return filter.term.name
    return None


class Conditions(ABC):
    """A language of conditions with AND, OR and NOT, in which what is missing is unknown or an error."""

    language: str
    """The language, as an error says it."""
    everything = "TRUE"
    nothing = "FALSE"

    def __init__(self, *, guards: bool = False) -> None:
        """`guards`: of what is one of several, it is said first that the attribute is there."""
        self._guards = guards

    @abstractmethod
    def leaf(self, constraint: Constraint, name: str) -> str:
        """A constraint on an attribute."""

    @abstractmethod
    def present(self, name: str) -> str:
        """An attribute is there, and not null."""

    @abstractmethod
    def absent(self, name: str) -> str:
        """An attribute is not there, or null."""

    def object(self, test: Tested) -> str:
        """A filter object."""
        raise self.refused(test)

    def refused(self, filter: Filter) -> TranslationRefused:
        """The error that a filter cannot be said."""
        return TranslationRefused(f"{self.language} cannot say: {filter}")

    def text(self, filter: Filter) -> str:
        """A condition, which may mean something else where the language differs."""
        return self._text(filter, frozenset(), alone=True)

    def _text(self, filter: Filter, there: frozenset[str], *, alone: bool) -> str:
        if filter == EVERYTHING:
            return self.everything
        if filter == NOTHING:
            return self.nothing
        match filter:
            case And(parts):
                return self._all(parts, there)
            case Or(parts):
                text = " OR ".join(self._text(part, there, alone=False) for part in parts)
                return text if alone else f"({text})"
            case Not(part):
                return self._not(part, there, alone=alone)
            case Constraint():
                name = self._named(filter)
                text = self.leaf(filter, name)
                guarded = self._guards and not alone and name not in there
                return f"{self.present(name)} AND {text}" if guarded else text
            case Tested():
                return self.object(filter)
        raise self.refused(filter)

    def _named(self, filter: Filter) -> str:
        name = constrained(filter)
        if name is None:
            raise self.refused(filter)
        return name

    def _all(self, parts: tuple[Filter, ...], there: frozenset[str]) -> str:
        present = dict.fromkeys(_present_in(parts))
        known = there | {*present}
        rest = [part for part in parts if not _says_present(part, present)]
        said = {name for part in rest for name in _names_negated(part)}
        texts = [self.present(name) for name in present if name not in said or self._guards]
        texts += [self._text(part, known, alone=not isinstance(part, Or)) for part in rest]
        return " AND ".join(texts)

    def _not(self, part: Filter, there: frozenset[str], *, alone: bool) -> str:
        match part:
            case And(parts) if len({*_present_in(parts)}) == 1 and len(parts) == 2:
                return self.absent(next(_present_in(parts)))
            case And(parts):
                return self._text(Or.of(Not(each) for each in parts), there, alone=alone)
            case Or(parts):
                text = self._text(And.of(Not(each) for each in parts), there, alone=alone)
                return text if alone else f"({text})"
            case Not(inner):
                return self._text(inner, there, alone=alone)
        name = self._named(part)
        assert isinstance(part, Constraint)
        negated = f"NOT ({self.leaf(part, name)})"
        if name in there:
            return negated
        text = f"{self.absent(name)} OR {negated}"
        return text if alone else f"({text})"


def _present_in(parts: tuple[Filter, ...]) -> Iterator[str]:
    """The attributes of which parts say that they exist, and are not null."""
    for part in parts:
        match part:
            case Constraint(term=Attribute(name), op=Op.EXISTS) if any(
                _is_null(each, name) for each in parts
            ):
                yield name


def _is_null(part: Filter, name: str) -> bool:
    match part:
        case Not(Constraint(term=Attribute(other), op=Op.EQ, operand=None)):
            return other == name
    return False


def _says_present(part: Filter, names: dict[str, None]) -> bool:
    match part:
        case Constraint(term=Attribute(name), op=Op.EXISTS):
            return name in names
        case Not(Constraint(term=Attribute(name), op=Op.EQ, operand=None)):
            return name in names
    return False


def _names_negated(part: Filter) -> Iterator[str]:
    match part:
        case Not(Constraint(term=Attribute(name))):
            yield name
