"""Comparisons of two attributes, of whatever kind: `@compare("low", "<", "high")`.

Law: `@compare("a", op, "b")` matches n iff a and b of n have values of one kind that filters compare, other
than null, and `op` holds between them, as it does between a value and an operand. So it is false where one of
them is absent, and `!=` is true of values of one kind only.

Numbers can be compared with a sum, `low < high`, which relations know more of; strings, times and the like
cannot. A bare name to the right of `=` stays refused: it is nearly always a string without its quotes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairlead.errors import FilterError
from fairlead.filters.constraint import COMPARED, compare
from fairlead.filters.filter import Tested
from fairlead.filters.operators import Op
from fairlead.filters.registry import Extension
from fairlead.model import Kind, Notification, kind_of
from fairlead.model.values import check_name

__all__ = ["COMPARISONS", "ComparisonFilter"]

_OPS: Final = {op.value: op for op in COMPARED}
_TURNED: Final = {Op.GT: Op.LT, Op.GE: Op.LE}
"""Greater is written as less, with the sides exchanged: equal filters have equal arguments."""
_COVERED: Final = {Op.LE: frozenset({Op.LT}), Op.NE: frozenset({Op.LT})}
"""The comparisons that each covers besides itself. `<=` does not cover `=`, which also holds between Booleans
or sets."""


@dataclass(frozen=True, slots=True, init=False)
class ComparisonFilter:
    """Two attributes have values of one kind, and compare as required."""

    one: str
    op: Op
    other: str

    def __init__(self, one: str, sign: str, other: str) -> None:
        if not all(isinstance(each, str) for each in (one, sign, other)) or sign not in _OPS:
            raise FilterError(
                f"@compare takes two names and one of {' '.join(_OPS)} between them",
                hint='@compare("low", "<", "high")',
            )
        op = _OPS[sign]
        if op in _TURNED or (op in (Op.EQ, Op.NE) and other < one):
            one, op, other = other, _TURNED.get(op, op), one
        object.__setattr__(self, "one", check_name(one))
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "other", check_name(other))

    @classmethod
    def filter(cls, one: str, op: Op, other: str) -> Tested:
        """The filter that two attributes compare as required."""
        made = cls(one, op.value, other)
        return Tested("compare", made.arguments, made)

    @property
    def arguments(self) -> tuple[str, str, str]:
        return (self.one, self.op.value, self.other)

    def matches(self, notification: Notification) -> bool:
        value, other = notification.get(self.one), notification.get(self.other)
        kind = kind_of(value)
        return kind is not Kind.NULL and kind is kind_of(other) and compare(self.op, value, other)

    def covers(self, other: ComparisonFilter) -> bool:
        if self == other:
            return True
        if other.op not in _COVERED.get(self.op, frozenset()):
            return False
        pair = (other.one, other.other)
        return pair == (self.one, self.other) or (self.op is Op.NE and pair == (self.other, self.one))

    def overlaps(self, other: ComparisonFilter) -> bool:
        ops = {self.op, other.op}
        if {self.one, self.other} != {other.one, other.other}:
            return True
        if (self.one, self.other) != (other.one, other.other) and ops <= {Op.LT, Op.LE}:
            return ops == {Op.LE}  # a < b and b <= a
        return ops not in ({Op.EQ, Op.NE}, {Op.EQ, Op.LT})


COMPARISONS: Final = Extension("comparisons", filters={"compare": ComparisonFilter})
