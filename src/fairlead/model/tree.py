"""Notifications as trees of elements: what path filters select from (book 3.1.3).

The root is the one element named `notification`. Each element has attributes, whose names are distinct, and
children, whose names need not be. A record becomes a tree thus: a value that is not a record or an array is
an attribute; a record is a child of that name; an array gives one child of its name per record in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairlead.model.values import Array, Record

__all__ = ["ROOT", "Element", "tree_of"]

ROOT: Final = "notification"


@dataclass(frozen=True, slots=True)
class Element:
    """An element: its name, its attributes and its children in document order."""

    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """A dict: compared, but not hashed."""
    children: tuple[Element, ...] = ()

    def walk(self) -> Iterator[tuple[tuple[str, ...], Element]]:
        """Every element with its path from the root, in document order."""
        stack: list[tuple[tuple[str, ...], Element]] = [((self.name,), self)]
        while stack:
            path, element = stack.pop()
            yield path, element
            stack.extend(((*path, child.name), child) for child in reversed(element.children))


def tree_of(record: Record, name: str = ROOT) -> Element:
    """The tree of a record, its root named `name`."""
    attributes: dict[str, Any] = {}
    children: list[Element] = []
    for step, value in record.items():
        if isinstance(value, Record):
            children.append(tree_of(value, step))
        elif isinstance(value, Array):
            children.extend(tree_of(item, step) for item in value.items if isinstance(item, Record))
        else:
            attributes[step] = value
    return Element(name, attributes, tuple(children))
