"""Filters in the pattern languages of the peers, where these say exactly the same; nothing is approximated.

    a peer's rule matches an event    iff    the filter matches the notification

A dialect is a table from operators to patterns. What is not in it, or would mean something else over there, is
Inexpressible, with the reason that the benchmark's table shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from fairlead.filters.constraint import Constraint, Op, Range
from fairlead.filters.filter import And, Filter
from fairlead.filters.terms import Attribute
from fairlead.model import Multi, Notification
from fairlead.model.encoding import fields_to_json

__all__ = ["HYPERMATCH", "QUAMINA", "RULER", "Dialect", "Inexpressible"]

Pattern: TypeAlias = Callable[[Any], Any]
"""From an operand to what a peer writes for it."""


class Inexpressible(Exception):
    """A filter that a peer has no pattern for; the message says what of it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The form in which one peer writes rules and events."""

    patterns: Mapping[Op, Pattern]
    event: Callable[[Notification], Any]

    def rule(self, filter: Filter) -> dict[str, Any]:
        """The rule of a filter: a conjunction of constraints, at most one on each attribute."""
        written: dict[str, Any] = {}
        for part in filter.parts if isinstance(filter, And) else (filter,):
            name, pattern = self._condition(part)
            if name in written:
                raise Inexpressible("two conditions on one attribute")
            written[name] = pattern
        return written

    def _condition(self, part: Filter) -> tuple[str, Any]:
        if not isinstance(part, Constraint):
            raise Inexpressible("or and not around conditions")
        if not isinstance(part.term, Attribute) or "." in part.term.name:
            raise Inexpressible("conditions on anything but plain attributes")
        if part.op not in self.patterns:
            raise Inexpressible(f"the operator {part.op.value!r}")
        return part.term.name, self.patterns[part.op](part.operand)


# -- what operands may be ----------------------------------------------------------------------------------


def _text(operand: Any) -> str:
    if not isinstance(operand, str):
        raise Inexpressible(f"{type(operand).__name__} as the operand of an operator on strings")
    return operand


def _literal(operand: Any) -> str:
    """A text in which a wildcard pattern sees nothing special."""
    text = _text(operand)
    if set(text) & {"*", "\\"}:
        raise Inexpressible("a star or a backslash within a wildcard pattern")
    return text


def _folded(operand: Any) -> str:
    """A text that means the same where case is ignored and numbers are texts."""
    text = str(operand) if isinstance(operand, int) and not isinstance(operand, bool) else _text(operand)
    if text != text.lower():
        raise Inexpressible("capital letters: case is ignored")
    return text


def _scalar(operand: Any) -> str | int:
    """A value that is written as itself."""
    if isinstance(operand, int) and not isinstance(operand, bool):
        return operand
    return _text(operand)


def _numeric(operand: Range) -> list[dict[str, Any]]:
    low, high = ">=" if operand.low_closed else ">", "<=" if operand.high_closed else "<"
    return [{"numeric": [low, _number(operand.low), high, _number(operand.high)]}]


def _number(bound: Any) -> float:
    """A bound that JSON writes exactly."""
    if isinstance(bound, bool) or not isinstance(bound, int | float | Decimal):
        raise Inexpressible("ranges of anything but numbers")
    if isinstance(bound, Decimal):
        near = float(bound)
        if Decimal(repr(near)) != bound:
            raise Inexpressible("numbers with more digits than a float has")
        return near
    return bound


def _texts(operand: Multi) -> list[str]:
    return [_text(each) for each in operand]


def _equals(operand: Iterable[Any]) -> list[dict[str, str]]:
    return [{"equals": _folded(each)} for each in operand]


# -- the dialects ------------------------------------------------------------------------------------------


def _as_json(notification: Notification) -> dict[str, Any]:
    return fields_to_json(notification.attributes)


def _as_properties(notification: Notification) -> list[dict[str, Any]]:
    return [
        {"Path": name, "Values": [_as_text(each) for each in (value if isinstance(value, list) else [value])]}
        for name, value in _as_json(notification).items()
    ]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


RULER: Final = Dialect(
    {
        Op.EQ: lambda operand: [_scalar(operand)],
        Op.NE: lambda operand: [{"anything-but": [_text(operand)]}],
        Op.IN: _texts,
        Op.IN_RANGE: _numeric,
        Op.PREFIX: lambda operand: [{"prefix": _text(operand)}],
        Op.SUFFIX: lambda operand: [{"suffix": _text(operand)}],
        Op.SUBSTRING: lambda operand: [{"wildcard": f"*{_literal(operand)}*"}],
    },
    _as_json,
)
"""Event Ruler: a list of alternatives for each attribute."""
QUAMINA: Final = Dialect(
    {
        Op.EQ: lambda operand: [_scalar(operand)],
        Op.NE: lambda operand: [{"anything-but": [_text(operand)]}],
        Op.IN: _texts,
        Op.PREFIX: lambda operand: [{"shellstyle": f"{_literal(operand)}*"}],
        Op.SUFFIX: lambda operand: [{"shellstyle": f"*{_literal(operand)}"}],
        Op.SUBSTRING: lambda operand: [{"shellstyle": f"*{_literal(operand)}*"}],
    },
    _as_json,
)
"""Quamina: much the same, without numeric ranges."""
HYPERMATCH: Final = Dialect(
    {
        Op.EQ: lambda operand: {"equals": _folded(operand)},
        Op.NE: lambda operand: {"anythingBut": _equals([operand])},
        Op.IN: lambda operand: {"anyOf": _equals(operand)},
        Op.SUPERSET: lambda operand: {"allOf": _equals(operand)},
        Op.PREFIX: lambda operand: {"prefix": _folded(operand)},
        Op.SUFFIX: lambda operand: {"suffix": _folded(operand)},
        Op.SUBSTRING: lambda operand: {"wildcard": f"*{_folded(_literal(operand))}*"},
    },
    _as_properties,
)
"""Hypermatch: strings and lists of strings only, case ignored, and lists that contain several values."""
