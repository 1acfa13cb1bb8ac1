"""The common base of the extents of all kinds of values.

A piece is a set of values of one kind: the numbers above 10, the strings with prefix "Foo". Pieces of one
kind form a Boolean algebra, so every question about constraints on one attribute has one answer:

    A covers B      iff  B and not A is empty
    A overlaps B    iff  A and B is not empty
    A identical B   iff  each covers the other
    A merged with B  is  A or B

Laws, for every kind: `v in a & b` iff `v in a and v in b`; `v in a | b` iff `v in a or v in b`; `v in ~a` iff
`v not in a`; `a.witness()` is a member of `a`, or None exactly when `a` is empty.

A piece may give up on a question whose answer would cost too much: it raises `Undecided`, and whoever asked
answers soundly (covers: no, overlaps: yes).
"""

from __future__ import annotations

from typing import Any, Protocol, Self

__all__ = ["Piece"]


class Piece(Protocol):
    """A set of values of one kind."""

    def __and__(self, other: Self, /) -> Self: ...
    def __or__(self, other: Self, /) -> Self: ...
    def __invert__(self) -> Self: ...
    def __contains__(self, value: Any, /) -> bool: ...

    def is_empty(self) -> bool:
        """No value of the kind is a member."""
        ...

    def is_full(self) -> bool:
        """Every value of the kind is a member."""
        ...

    def covers(self, other: Self, /) -> bool:
        """Every member of `other` is a member."""
        ...

    def witness(self) -> Any | None:
        """A member, the simplest at hand, or None where there is none."""
        ...
