"""Conditions on one element of a list: `some tags (element > 3)`.

Law: `some x (C)` matches n iff x of n is a set or an array, and C matches some element of it, alone under the name
`element`. A list in the list is opened up, so its elements are elements, too.

    some tags (element prefix "a")                          a list of simple values
    some items (element.price > 3 and element.name = "x")   a list of records: one of them satisfies both
    some items (some element.parts (element.id = 7))        at any depth

It is a filter object whose second argument is the condition, and covers another on the same list if its condition
covers the other's. An element that satisfies one of two conditions satisfies their disjunction, so two merge
perfectly. Two overlap unless one of the conditions can never hold: other elements may satisfy the other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.errors import FilterError
from fairlead.filters.algebra import covers
from fairlead.filters.constraint import Constraint
from fairlead.filters.filter import NOTHING, Filter, Or, Tested, leaves
from fairlead.filters.language import parse
from fairlead.filters.registry import Extension
from fairlead.filters.terms import Attribute, Polynomial
from fairlead.model import Array, Multi, Notification, Record
from fairlead.model.values import check_name

__all__ = ["ELEMENT", "ELEMENTS", "SomeFilter"]

ELEMENT: Final = "element"
"""The name of the element in a condition."""


@dataclass(frozen=True, slots=True, init=False)
class SomeFilter:
    """Some element of the list under an attribute satisfies a condition."""

    attribute: str
    condition: Filter = field(compare=False)
    text: str
    """The condition in its one spelling."""

    def __init__(self, attribute: str, text: str) -> None:
        if not isinstance(attribute, str) or not isinstance(text, str):
            raise FilterError(
                "@some takes the name of a list and a condition", hint="some tags (element > 3)"
            )
        self._fill(attribute, parse(text))

    @classmethod
    def filter(cls, attribute: str, condition: Filter) -> Tested:
        """The filter that some element of the list satisfies a condition."""
        made = cls.__new__(cls)
        made._fill(attribute, condition)
        return Tested("some", made.arguments, made)

    def _fill(self, attribute: str, condition: Filter) -> None:
        for leaf in leaves(condition):
            if not all(name == ELEMENT or name.startswith(f"{ELEMENT}.") for name in _names(leaf)):
                raise FilterError(
                    f"the condition of 'some' is about {ELEMENT}, not about: {leaf}",
                    hint=f"write {ELEMENT} > 3, or {ELEMENT}.price > 3 for the elements' fields",
                )
        object.__setattr__(self, "attribute", check_name(attribute))
        object.__setattr__(self, "condition", condition)
        object.__setattr__(self, "text", str(condition))

    @property
    def arguments(self) -> tuple[str, str]:
        return (self.attribute, self.text)

    def matches(self, notification: Notification) -> bool:
        held = notification.get(self.attribute)
        if not isinstance(held, Multi | Array):
            return False
        return any(
            self.condition.matches(Notification(Record({ELEMENT: element}))) for element in elements_of(held)
        )

    def covers(self, other: SomeFilter) -> bool:
        if covers(NOTHING, other.condition):
            return True
        return self.attribute == other.attribute and covers(self.condition, other.condition)

    def overlaps(self, other: SomeFilter) -> bool:
        return not covers(NOTHING, self.condition) and not covers(NOTHING, other.condition)

    def merge(self, others: Iterable[SomeFilter]) -> SomeFilter | None:
        filters = (self, *others)
        if any(each.attribute != self.attribute for each in filters):
            return None
        merged: SomeFilter = self.filter(self.attribute, Or.of(each.condition for each in filters)).test
        return merged


def elements_of(values: Multi | Array) -> Iterator[Any]:
    """The elements of a list, those of lists in it included."""
    waiting = [iter(values)]
    while waiting:
        for element in waiting[-1]:
            if isinstance(element, Multi | Array):
                waiting.append(iter(element))
                break
            yield element
        else:
            waiting.pop()


def _names(leaf: Filter) -> tuple[str, ...]:
    match leaf:
        case Constraint(term=Attribute(name=name)):
            return (name,)
        case Constraint(term=Polynomial() as polynomial):
            return tuple(polynomial.names)
        case Tested(test=SomeFilter() as inner):
            return (inner.attribute,)
    return ("",)


ELEMENTS: Final = Extension("elements", filters={"some": SomeFilter})
