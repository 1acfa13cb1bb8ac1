"""Bit sets: byte strings read as sets of bits (siena-x, section 7.1).

    x set<= x"0f"      every bit of x is one of these
    x set>= x"0f"      x has all of these bits
    x set~ x"0f"       x has one of these bits

A shorter byte string is extended with zeros, so x"0f" and x"0f00" are one set, though they are two values:
`=` and `!=` tell them apart. There is no longest byte string, so beyond any literal there is a bit that a
value may have. With that every covering and every overlap among the three operators is decided exactly; the
report leaves all but three of the nine pairs open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fairlead.errors import FilterError
from fairlead.filters.constraint import Constraint, Extended, Op
from fairlead.filters.extensions.relations import kinds_of
from fairlead.filters.registry import Extension, ExtensionBase, Literal
from fairlead.model import Kind

__all__ = ["BIT_SETS", "BitSetOperator", "bits_of"]

WITHIN: Final = "set<="
HAVING: Final = "set>="
MEETING: Final = "set~"

_BYTES: Final = frozenset({Kind.BYTES})


def bits_of(value: bytes) -> int:
    """The set as an integer; bit 8i + j is bit j of byte i, so zeros at the end add nothing."""
    return int.from_bytes(value, "little")


def _bytes_of(bits: int) -> bytes:
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


# In each row a is the set of the operator that is asked, b that of the constraint it is compared with.
_HOLDS: Final[dict[str, Callable[[int, int], bool]]] = {
    WITHIN: lambda value, a: not value & ~a,
    HAVING: lambda value, a: not a & ~value,
    MEETING: lambda value, a: bool(value & a),
}
_COVERS: Final[dict[tuple[str, str], Callable[[int, int], bool]]] = {
    (WITHIN, WITHIN): lambda a, b: not b & ~a,
    (WITHIN, HAVING): lambda a, b: False,  # a value may have further bits, in a or not
    (WITHIN, MEETING): lambda a, b: not b,
    (HAVING, WITHIN): lambda a, b: not a,  # the empty set is within every set
    (HAVING, HAVING): lambda a, b: not a & ~b,
    # Values that meet b need have no bit in common, unless b is a single bit, or empty and met by none.
    (HAVING, MEETING): lambda a, b: not a or not b or (a == b and b.bit_count() == 1),
    (MEETING, WITHIN): lambda a, b: False,
    (MEETING, HAVING): lambda a, b: bool(a & b),
    (MEETING, MEETING): lambda a, b: not b & ~a,
}
_OVERLAPS: Final[dict[tuple[str, str], Callable[[int, int], bool]]] = {
    (WITHIN, WITHIN): lambda a, b: True,
    (WITHIN, HAVING): lambda a, b: not b & ~a,
    (WITHIN, MEETING): lambda a, b: bool(a & b),
    (HAVING, WITHIN): lambda a, b: not a & ~b,
    (HAVING, HAVING): lambda a, b: True,
    (HAVING, MEETING): lambda a, b: bool(b),
    (MEETING, WITHIN): lambda a, b: bool(a & b),
    (MEETING, HAVING): lambda a, b: bool(a),
    (MEETING, MEETING): lambda a, b: bool(a) and bool(b),
}


@dataclass(frozen=True, slots=True)
class BitSetOperator(ExtensionBase):
    """One of the three operators."""

    name: str
    kinds: frozenset[Kind] = _BYTES

    def check(self, literal: Literal, /) -> None:
        if not isinstance(literal, bytes):
            raise FilterError(f"{self.name!r} takes bytes, not {literal!r}", hint=f'{self.name} x"0f"')

    def holds(self, value: Any, literal: Literal, /) -> bool:
        if not isinstance(value, bytes) or not isinstance(literal, bytes):
            return False
        return _HOLDS[self.name](bits_of(value), bits_of(literal))

    def covers(self, one: Constraint, other: Constraint, /) -> bool:
        a, b = _decoded(one), _decoded(other)
        if a is not None and b is not None:
            return _COVERS[a[0], b[0]](a[1], b[1])
        if b is not None:
            return b == (MEETING, 0)
        # Every set is that of infinitely many byte strings: what excludes but some of them leaves all sets.
        return a == (HAVING, 0) and kinds_of(other) <= _BYTES

    def overlaps(self, one: Constraint, other: Constraint, /) -> bool:
        a, b = _decoded(one), _decoded(other)
        if a is not None and b is not None:
            return _OVERLAPS[a[0], b[0]](a[1], b[1])
        return (MEETING, 0) not in (a, b)

    def merge(self, one: Constraint, other: Constraint, /) -> Constraint | None:
        """To meet a or b is to meet their union. No other two bit sets have a constraint for their union."""
        a, b = _decoded(one), _decoded(other)
        if a is None or b is None or (a[0], b[0]) != (MEETING, MEETING):
            return None
        return Constraint(one.term, Op.EXTENDED, Extended(MEETING, _bytes_of(a[1] | b[1])))


def _decoded(constraint: Constraint) -> tuple[str, int] | None:
    match constraint.operand:
        case Extended(operator=operator, literal=bytes() as literal) if operator in _HOLDS:
            return operator, bits_of(literal)
        case _:
            return None


BIT_SETS: Final = Extension("bit sets", tuple(map(BitSetOperator, (WITHIN, HAVING, MEETING))))
