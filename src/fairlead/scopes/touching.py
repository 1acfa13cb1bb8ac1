"""The names that statements are about: whoever may change all of them may make the statements.

A statement that puts a component into a scope is about both, for from then on the scope sees what the
component publishes. What cannot be told from the statement alone is `ANYTHING`: `*`, the members of a scope, and
rules, which act on components that are known later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from fairlead.scopes.language.statements import (
    STAR,
    Alter,
    Define,
    Deploy,
    DropScope,
    Features,
    Join,
    Leave,
    Selection,
    Statement,
)

__all__ = ["ANYTHING", "touched"]

ANYTHING: Final = STAR.name
"""Among the names of statements: they may change any scope."""


def touched(statements: Iterable[Statement]) -> list[str]:
    """The scopes and components that statements change, each once, in their order."""
    return list(dict.fromkeys(name for each in statements for name in _touched(each)))


def _touched(statement: Statement) -> Iterator[str]:
    match statement:
        case Define(name, selections, features) | Alter(name, _, selections, features):
            yield from (name, *_of_parts(selections, features))
        case Deploy(name, instance, selections, features):
            yield from (name, instance or name, *_of_parts(selections, features))
        case DropScope(name):
            yield name
        case Join(component, scope):
            yield from (scope, component or ANYTHING)
        case Leave(_, scope):  # its members see less, and others nothing more
            yield scope


def _of_parts(selections: Iterable[Selection], features: Features) -> Iterator[str]:
    for selection in selections:
        for source in selection.sources:
            yield ANYTHING if source.depth else source.name
    if features.rules:
        yield ANYTHING
