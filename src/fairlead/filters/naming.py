"""The attributes that filters name."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead.filters.constraint import Constraint, Extended, Op
from fairlead.filters.filter import And, Filter, Not, Or
from fairlead.filters.terms import Attribute, Inspector, Length, Polynomial, Position

__all__ = ["Attributes"]


class Attributes:
    """The attributes that filters name, and whether some filter reads the whole notification."""

    def __init__(self, names: Iterable[str] = (), is_whole: bool = False) -> None:
        self.names, self.is_whole = set(names), is_whole

    @classmethod
    def of(cls, *filters: Filter) -> Attributes:
        """Those that these filters name."""
        found = cls()
        for filter in filters:
            found.add(filter)
        return found

    def add(self, filter: Filter) -> None:
        """One more filter."""
        match filter:
            case And(parts) | Or(parts):
                for part in parts:
                    self.add(part)
            case Not(part):
                self.add(part)
            case Constraint(Attribute(name) | Inspector(name), op, operand):
                self.names.add(name)
                self.is_whole |= op is Op.EXTENDED or isinstance(operand, Extended)
            case Constraint(Polynomial() as term):
                self.names |= term.names
            case Constraint(Position() | Length()):
                self.names.add("tuple")
            case _:
                self.is_whole = True

    def reading(self, protected: Iterable[str]) -> list[str]:
        """Those of some attributes that the filters read, or may read, in full or in part."""
        roots = {name.partition(".")[0] for name in self.names}
        return sorted(each for each in protected if self.is_whole or each in roots)
