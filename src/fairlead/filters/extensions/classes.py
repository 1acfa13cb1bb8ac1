"""Filter objects: filters that are written in Python, and bring their own covering and merging (book 3.1.4).

    @filter_object("quotes")
    class QuoteFilter:
        def __init__(self, *symbols): self.arguments = tuple(sorted(set(symbols)))
        def matches(self, notification): return notification.get("symbol") in self.arguments
        def covers(self, other): return set(self.arguments) >= set(other.arguments)

Then `@quotes("IBM", "SAP")` is a filter in the language, and `as_filter(QuoteFilter("IBM", "SAP"))` the same
in Python. Law: making an object from the `arguments` of another makes an equal filter, so filters can be
written and read back.

One class comes with Fairlead: `@instance("quote", "shop.quotes.Quote")` accepts notifications whose object
under `quote` is of that class or of a subclass.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from fairlead.errors import ExtensionError, FairleadError, FilterError
from fairlead.filters.filter import Tested
from fairlead.filters.registry import Extension, filter_class, register_filter, registered_filters
from fairlead.model import Kind, Notification, kind_of, value_of

__all__ = ["CLASSES", "FilterObject", "InstanceFilter", "as_filter", "filter_object", "make", "merge_objects"]


class FilterObject(Protocol):
    """An instance of a filter class. It may also have `overlaps(other)` and `merge(others)`.

    `overlaps` says False only if certainly no notification matches both; `merge` gives a filter object of
    the same class that matches what any of them matches and nothing else, or None. Others are always of the
    same class.
    """

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments in canonical form: equal filters have equal arguments."""
        ...

    def matches(self, notification: Notification, /) -> bool:
        """Whether the notification satisfies the filter."""
        ...

    def covers(self, other: Any, /) -> bool:
        """Every notification that matches the other matches this one; True only if certain."""
        ...


C = TypeVar("C", bound=type)


def filter_object(name: str) -> Callable[[C], C]:
    """Register the decorated class under a name, so that `@name(...)` in a filter makes an object of it."""

    def registered(class_: C) -> C:
        register_filter(name, class_)
        return class_

    return registered


def make(name: str, arguments: Iterable[Any]) -> Tested:
    """The filter that `@name(arguments)` denotes, or an error with the reason why there is none."""
    class_ = filter_class(name)
    try:
        test = class_(*map(value_of, arguments))
        return Tested(name, tuple(test.arguments), test)
    except FairleadError:
        raise
    except (AttributeError, TypeError, ValueError) as problem:
        raise FilterError(f"@{name} cannot be made from these arguments: {problem}") from problem


def as_filter(test: FilterObject) -> Tested:
    """A filter object as a filter."""
    for name, class_ in registered_filters().items():
        if type(test) is class_:
            return Tested(name, tuple(test.arguments), test)
    raise ExtensionError(
        f"{type(test).__qualname__} is not registered", hint="decorate it with @filter_object(name)"
    )


def merge_objects(filters: Iterable[Tested]) -> Tested | None:
    """The filter that matches what any of these matches and nothing else, or None. All are of one class."""
    one, *others = filters
    merge = getattr(one.test, "merge", None)
    if merge is None or any(other.name != one.name for other in others):
        return None
    merged = merge([other.test for other in others])
    return None if merged is None else Tested(one.name, tuple(merged.arguments), merged)


# -- class filters -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, init=False)
class InstanceFilter:
    """The object under an attribute is an instance of one of the named classes, or of a subclass (book Fig.
    3.11).

    A class is known by its dotted name, which is looked for among the classes of the object. Nothing is
    imported: a subscription must not be able to run code. Where a class is not loaded, `covers` knows it by
    name only.

    The book merges all direct subclasses of a class to "all subclasses of it". In Python a subclass can be
    added at any time, and would be let in by that; so the merger names the classes that it was made of,
    less those that another covers.
    """

    attribute: str
    classes: tuple[str, ...]

    def __init__(self, attribute: str, *classes: str) -> None:
        if not classes or not all(isinstance(each, str) and each for each in (attribute, *classes)):
            raise FilterError(
                "@instance takes the name of an attribute and those of classes",
                hint='@instance("quote", "shop.quotes.Quote")',
            )
        object.__setattr__(self, "attribute", attribute)
        object.__setattr__(self, "classes", tuple(sorted(set(classes))))

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.attribute, *self.classes)

    def matches(self, notification: Notification) -> bool:
        held = notification.get(self.attribute)
        return kind_of(held) is Kind.OBJECT and not self._lineage(type(held)).isdisjoint(self.classes)

    def covers(self, other: InstanceFilter) -> bool:
        return self.attribute == other.attribute and all(
            not _lineage_of(each).isdisjoint(self.classes) for each in other.classes
        )

    def merge(self, others: Iterable[InstanceFilter]) -> InstanceFilter | None:
        filters = (self, *others)
        if any(each.attribute != self.attribute for each in filters):
            return None
        classes = {name for each in filters for name in each.classes}
        kept = {name for name in classes if not (_lineage_of(name) - {name}) & classes}
        return InstanceFilter(self.attribute, *kept)

    @staticmethod
    def _lineage(class_: type) -> frozenset[str]:
        return frozenset(f"{each.__module__}.{each.__qualname__}" for each in class_.__mro__)


def _lineage_of(dotted_name: str) -> frozenset[str]:
    """The names of a class and of all it derives from; of a class that is not loaded, its own."""
    module_name = dotted_name
    while module_name:
        module_name, _, _ = module_name.rpartition(".")
        found: Any = sys.modules.get(module_name)
        if found is None:
            continue
        for step in dotted_name[len(module_name) + 1 :].split("."):
            found = getattr(found, step, None)
        if isinstance(found, type) and f"{found.__module__}.{found.__qualname__}" == dotted_name:
            return InstanceFilter._lineage(found)
    return frozenset({dotted_name})


CLASSES: Final = Extension("classes", filters={"instance": InstanceFilter})
