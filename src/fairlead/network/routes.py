"""Whom a notification concerns, remembered by what the filters look at.

What a broker's filters decide depends on the attributes that they name, and on nothing else. So two notifications
that agree in those go the same way, and the way need be looked for only once: `Routes` keeps it by these
attributes' values and types, as long as the routing tables do not change. That serves notifications of plain
values, of which most streams consist; where a filter looks at more than named attributes (a path, a filter object,
a tuple), or the values hardly ever come again, every notification is matched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

from fairlead.errors import ValueRefused
from fairlead.filters.constraint import Constraint
from fairlead.filters.filter import Filter, leaves
from fairlead.filters.terms import Attribute, Polynomial
from fairlead.model import Instant

__all__ = ["Names", "Routes", "is_plain", "names_in"]

T = TypeVar("T")

SPECIAL: Final[dict[str, Callable[[Any], bool]]] = {
    "id": lambda value: type(value) is str,
    "producer": lambda value: type(value) is str,
    "sequence": lambda value: type(value) is int,
    "time": lambda value: type(value) is str and _is_time(value),
    "tuple": lambda value: False,
}
"""The names under which not every plain value may stand, and which may."""
NAMES_MAX: Final = 16
"""Values of more attributes than this are not likely to come again together."""
ROUTES_MAX: Final = 10_000
TRIED: Final = 4_096
"""After so many notifications it is looked at whether remembering has been worth it."""


def names_in(filters: Iterable[Filter]) -> frozenset[str] | None:
    """The attributes that the filters look at; None if they look at anything else."""
    names: set[str] = set()
    for filter in filters:
        for leaf in leaves(filter):
            match leaf:
                case Constraint(term=Attribute(name)) if "." not in name:
                    names.add(name)
                case Constraint(term=Polynomial() as term) if not any("." in name for name in term.names):
                    names |= term.names
                case _:
                    return None
    return frozenset(names)


def _is_time(text: str) -> bool:
    try:
        Instant.parse(text)
    except ValueRefused:
        return False
    return True


class Plain:
    """Whether fields of plain values are plain: named by single words, so that nothing is left to be checked."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: set[str] = set()

    def __call__(self, fields: dict[str, Any]) -> bool:
        return self._known.issuperset(fields) or self._look_at(fields)

    def _look_at(self, fields: dict[str, Any]) -> bool:
        special = SPECIAL.keys() & fields.keys()
        return all(self._is_plain(name) for name in fields if name not in special) and all(
            SPECIAL[name](fields[name]) for name in special
        )

    def _is_plain(self, name: str) -> bool:
        if not name or not name.isascii() or "." in name:
            return False
        if len(self._known) < ROUTES_MAX:
            self._known.add(name)
        return True


is_plain: Final = Plain()


class Names:
    """What filters look at, as they come. A filter that goes takes nothing away: looking at more does no harm."""

    def __init__(self) -> None:
        self.names: frozenset[str] | None = frozenset()

    def add(self, filter: Filter) -> None:
        """One more filter."""
        if self.names is None:
            return
        names = names_in([filter])
        if names is None:
            self.names = None
        elif not names <= self.names:
            self.names |= names


class Routes(Generic[T]):
    """The routes of plain fields, each found by `find` once."""

    def __init__(self) -> None:
        self._routes: dict[Any, T] = {}
        self._key: Callable[[dict[str, Any]], Any] | None = None
        self._hits = self._misses = 0

    def forget(self, names: frozenset[str] | None) -> None:
        """The tables have changed: the filters look at these attributes now; None: at other things, too."""
        self._routes.clear()
        self._hits = self._misses = 0
        self._key = None if names is None or len(names) > NAMES_MAX else _key_of(sorted(names))

    def of(self, fields: dict[str, Any], find: Callable[..., T], *given: Any) -> T:
        """The route of plain fields; if it is not remembered, what `find` finds for what is given."""
        if self._key is None:
            return find(*given)
        key = self._key(fields)
        route = self._routes.get(key)
        if route is not None:
            self._hits += 1
            return route
        self._misses += 1
        if self._misses > TRIED and self._misses > 3 * self._hits:
            self._key = None  # until the tables change
            self._routes.clear()
            return find(*given)
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        route = self._routes[key] = find(*given)
        return route


def _key_of(names: list[str]) -> Callable[[dict[str, Any]], Any]:
    """What tells fields apart that filters over these names tell apart: 1, 1.0 and True are three things."""
    if len(names) == 1:
        [name] = names

        def of_one(fields: dict[str, Any]) -> Any:
            value = fields.get(name, Ellipsis)
            return value if type(value) is str else (type(value), value)

        return of_one

    def of_many(fields: dict[str, Any]) -> Any:
        values = [fields.get(name, Ellipsis) for name in names]
        return (*values, *map(type, values))

    return of_many
