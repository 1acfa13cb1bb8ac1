"""Filters: stateless Boolean functions of notifications (book 3.1.2).

    F matches n          Constraint, And, Or, Not, Tested
    N(F)                 the notifications that match F; relations compare these sets (see `algebra`)

`not` is Boolean: `not (x = 5)` matches a notification without x, `x != 5` does not. `EVERYTHING` is the empty
conjunction, `NOTHING` the empty disjunction. Nesting is bounded, so no function here can exhaust the stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.errors import FilterError
from fairlead.filters.printing import text_of
from fairlead.model import Key, Notification, key_of, value_of

__all__ = ["DEPTH_MAX", "EVERYTHING", "NOTHING", "And", "Filter", "Not", "Or", "Tested"]

DEPTH_MAX: Final = 200
"""The depth to which `and`, `or` and `not` may nest."""


def _depth_above(parts: Iterable[Filter]) -> int:
    depth = 1 + max((getattr(part, "depth", 0) for part in parts), default=0)
    if depth > DEPTH_MAX:
        raise FilterError(f"a filter nested more than {DEPTH_MAX} levels deep")
    return depth


class Filter:
    """A filter. Built by `parse`, or with `&`, `|` and `~` from others."""

    __slots__ = ()

    def matches(self, notification: Notification) -> bool:
        """Whether the notification satisfies the filter."""
        raise NotImplementedError(f"{type(self).__name__} must say what matches")

    def __and__(self, other: Filter) -> Filter:
        return And.of((self, other))

    def __or__(self, other: Filter) -> Filter:
        return Or.of((self, other))

    def __invert__(self) -> Filter:
        return Not(self)

    def __str__(self) -> str:
        return text_of(self)


@dataclass(frozen=True, slots=True)
class _Joined(Filter):
    """The common base of `and` and `or`: their parts, in the order given."""

    parts: tuple[Filter, ...]
    depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _depth_above(self.parts))

    @classmethod
    def of(cls, parts: Iterable[Filter]) -> Filter:
        """The join of the parts: nested joins of the same sort are flattened, a single part is itself."""
        flat: list[Filter] = []
        for part in parts:
            if type(part) is cls:
                flat.extend(part.parts)
            else:
                flat.append(part)
        return flat[0] if len(flat) == 1 else cls(tuple(flat))


@dataclass(frozen=True, slots=True)
class And(_Joined):
    """All parts match."""

    def matches(self, notification: Notification) -> bool:
        return all(part.matches(notification) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or(_Joined):
    """Some part matches."""

    def matches(self, notification: Notification) -> bool:
        return any(part.matches(notification) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not(Filter):
    """The part does not match."""

    part: Filter
    depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _depth_above((self.part,)))

    def matches(self, notification: Notification) -> bool:
        return not self.part.matches(notification)


@dataclass(frozen=True, slots=True)
class Tested(Filter):
    """A filter object: it tests notifications itself, and brings its own covering and merging (book 3.1.4).

    `name` is the name its class is registered under, `arguments` what it was made from, so that it can be
    written and read back: `@quotes("IBM", "SAP")`.
    """

    name: str
    arguments: tuple[Any, ...] = field(compare=False)
    test: Any = field(compare=False, repr=False)
    key: tuple[Key, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", tuple(key_of(value_of(argument)) for argument in self.arguments))

    def matches(self, notification: Notification) -> bool:
        return bool(self.test.matches(notification))


EVERYTHING: Final = And(())
NOTHING: Final = Or(())


def leaves(filter: Filter) -> Iterator[Filter]:
    """Every constraint and filter object in a filter, from left to right."""
    stack = [filter]
    while stack:
        node = stack.pop()
        match node:
            case And(parts) | Or(parts):
                stack.extend(reversed(parts))
            case Not(part):
                stack.append(part)
            case _:
                yield node
