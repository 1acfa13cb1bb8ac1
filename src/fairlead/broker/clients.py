"""The local clients of a broker, and what each has declared under which id."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from fairlead.filters.filter import Filter
from fairlead.routing import Catalogue

__all__ = ["Client", "Clients", "Declared"]


@dataclass(slots=True)
class Declared:
    """Filters under ids. Other brokers learn the set of filters, not the ids (book 2.5.2)."""

    by_id: dict[str, Filter] = field(default_factory=dict)
    by_filter: dict[Filter, dict[str, None]] = field(default_factory=dict)
    requested: dict[str, Filter] = field(default_factory=dict)
    """Those that were narrowed, as they were requested."""

    def refusal(self, id: str, filter: Filter) -> str | None:
        """Why a filter cannot be declared under an id; None where it can, or is already."""
        if self.requested.get(id, self.by_id.get(id, filter)) != filter:
            return f"the id {id!r} is taken"
        return None

    def add(self, id: str, filter: Filter) -> bool:
        """Declare a filter; whether it is the first of its kind."""
        ids = self.by_filter.setdefault(filter, {})
        is_first = not ids
        self.by_id[id] = filter
        ids[id] = None
        return is_first

    def remove(self, id: str) -> tuple[Filter, bool] | None:
        """Take a filter back, and whether it was the last of its kind; None where there is none under the id."""
        filter = self.by_id.pop(id, None)
        self.requested.pop(id, None)
        if filter is None:
            return None
        ids = self.by_filter[filter]
        del ids[id]
        if not ids:
            del self.by_filter[filter]
        return filter, not ids


@dataclass(slots=True)
class Client:
    """A client's subscriptions and advertisements."""

    subscriptions: Declared = field(default_factory=Declared)
    advertisements: Declared = field(default_factory=Declared)


class Clients:
    """The clients of a broker, and whose subscriptions match a notification."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._clients: dict[str, Client] = {}
        self._numbers: dict[str, dict[int, dict[str, None]]] = {}
        self._matched: dict[str, set[str]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._clients

    def __iter__(self) -> Iterator[str]:
        return iter(self._clients)

    def __getitem__(self, name: str) -> Client:
        return self._clients[name]

    def join(self, name: str) -> Client:
        """Connect a client, or return the one of this name that is connected."""
        return self._clients.setdefault(name, Client())

    def leave(self, name: str) -> None:
        """Forget a client."""
        for id in list(self._clients[name].subscriptions.by_id):
            self.unsubscribe(name, id)
        del self._clients[name]
        self._numbers.pop(name, None)
        self._matched.pop(name, None)

    def subscribe(self, name: str, id: str, filter: Filter) -> bool:
        """Record a subscription of a connected client. True if it is the client's first one to this filter."""
        is_first = self._clients[name].subscriptions.add(id, filter)
        interest = self._catalogue.interest(filter)
        number = self._catalogue.retain(interest) if is_first else self._catalogue.number(interest)
        self._numbers.setdefault(name, {}).setdefault(number, {})[id] = None
        return is_first

    def unsubscribe(self, name: str, id: str) -> tuple[Filter, bool] | None:
        """Forget a subscription: its filter, and whether it was the last to it; None where there is none."""
        client = self._clients.get(name)
        removed = None if client is None else client.subscriptions.remove(id)
        if removed is not None:
            self._matched.get(name, set()).discard(id)
            filter, is_last = removed
            own, number = self._numbers[name], self._catalogue.number(self._catalogue.interest(filter))
            del own[number][id]
            if is_last:
                del own[number]
                self._catalogue.release(self._catalogue.interest(filter))
        return removed

    def matching(self, name: str, numbers: Set[int]) -> tuple[str, ...]:
        """The ids of a client's subscriptions whose filters have these numbers, sorted."""
        own = self._numbers.get(name, {})
        return tuple(sorted(id for number in numbers & own.keys() for id in own[number]))

    def note(self, name: str, ids: tuple[str, ...]) -> None:
        """A notification has matched these subscriptions of a client."""
        known = self._matched.get(name)
        if known is None:
            self._matched[name] = set(ids)
        else:
            known.update(ids)

    def has(self, name: str, filter: Filter) -> bool:
        """Whether a client has subscribed to a filter."""
        return name in self._clients and filter in self._clients[name].subscriptions.by_filter

    def has_matched(self, name: str, filter: Filter) -> bool:
        """Whether any notification has matched a client's filter since it was subscribed to here."""
        known = self._matched.get(name)
        return known is not None and not known.isdisjoint(self._clients[name].subscriptions.by_filter[filter])
