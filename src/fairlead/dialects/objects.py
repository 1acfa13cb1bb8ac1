"""Filter objects that evaluate an expression of a dialect: `@cesql("LENGTH(subject) > size")`.

A dialect makes one of whatever no constraint of ours states. It matches exactly what the expression accepts
in its own system, is asked in Python, notification by notification, and covers another iff their texts are
the same. The registry finds these classes by name, so brokers, workers and clients read such filters without
being told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Final

from fairlead.errors import FilterError
from fairlead.filters.extensions.classes import as_filter
from fairlead.filters.filter import Tested
from fairlead.filters.registry import Extension
from fairlead.model import Notification

__all__ = [
    "EXPRESSIONS",
    "CesqlExpression",
    "Evaluated",
    "JmsExpression",
    "JsonPathQuery",
    "Keywords",
]


@dataclass(frozen=True, slots=True, init=False)
class Evaluated:
    """An expression of a dialect, whose module compiles it with `evaluator(text)`."""

    language: ClassVar[str]
    text: str
    _accepts: Callable[[Notification], bool] = field(compare=False, repr=False)

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise FilterError(f"@{self.language} takes the text of an expression")
        module: Any = import_module(f"fairlead.dialects.{self.language}")
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "_accepts", module.evaluator(text))

    @classmethod
    def filter(cls, text: str) -> Tested:
        """The filter that a notification satisfies an expression."""
        return as_filter(cls(text))

    @property
    def arguments(self) -> tuple[str]:
        return (self.text,)

    def __reduce__(self) -> tuple[type, tuple[str]]:
        return (type(self), (self.text,))

    def matches(self, notification: Notification) -> bool:
        return self._accepts(notification)

    def covers(self, other: Evaluated) -> bool:
        return self.text == other.text


class CesqlExpression(Evaluated):
    """An expression of CloudEvents SQL that is true, without an error."""

    __slots__ = ()
    language = "cesql"


class JmsExpression(Evaluated):
    """A selector of JMS that is true."""

    __slots__ = ()
    language = "jms"


class JsonPathQuery(Evaluated):
    """A query of RFC 9535 that selects something."""

    __slots__ = ()
    language = "jsonpath"


class Keywords(Evaluated):
    """A text in any case that occurs in some value of the notification: the keywords of Sigma."""

    __slots__ = ()
    language = "sigma"


EXPRESSIONS: Final = Extension(
    "dialects",
    filters={
        "cesql": CesqlExpression,
        "jms": JmsExpression,
        "jsonpath": JsonPathQuery,
        "keywords": Keywords,
    },
)
