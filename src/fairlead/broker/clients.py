"""The local clients of a broker, and what each has declared under which id."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from fairlead.filters.filter import Filter
from fairlead.routing import Catalogue

__all__ = ["Client", "Clients", "Declared"]


@dataclass(slots=True)
class Declared:
    """Filters under ids; a filter is there once (book 2.5.2: what a client subscribes to is a set)."""

    by_id: dict[str, Filter] = field(default_factory=dict)
    by_filter: dict[Filter, str] = field(default_factory=dict)

    def refusal(self, id: str, filter: Filter) -> str | None:
        """Why a filter cannot be declared under an id; None where it can, or is already."""
        if id in self.by_id:
            same = self.by_id[id] == filter
            return None if same else f"the id {id!r} is taken"
        if filter in self.by_filter:
            return f"this filter is there already, under the id {self.by_filter[filter]!r}"
        return None

    def add(self, id: str, filter: Filter) -> bool:
        """Declare a filter; whether it is new."""
        if id in self.by_id:
            return False
        self.by_id[id] = filter
        self.by_filter[filter] = id
        return True

    def remove(self, id: str) -> Filter | None:
        """Take a filter back; None where there is none under the id."""
        filter = self.by_id.pop(id, None)
        if filter is not None:
            del self.by_filter[filter]
        return filter


@dataclass(slots=True)
class Client:
    """A client's subscriptions and advertisements."""

    subscriptions: Declared = field(default_factory=Declared)
    advertisements: Declared = field(default_factory=Declared)


class Clients:
    """Who is here, and whose subscriptions match."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._clients: dict[str, Client] = {}
        self._numbers: dict[str, dict[int, str]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._clients

    def __iter__(self) -> Iterator[str]:
        return iter(self._clients)

    def __getitem__(self, name: str) -> Client:
        return self._clients[name]

    def join(self, name: str) -> Client:
        """The client of that name, who is here from now on."""
        return self._clients.setdefault(name, Client())

    def leave(self, name: str) -> None:
        """Forget a client."""
        for id in list(self._clients[name].subscriptions.by_id):
            self.unsubscribe(name, id)
        del self._clients[name]

    def subscribe(self, name: str, id: str, filter: Filter) -> None:
        """Note a new subscription of a client who is here."""
        self._clients[name].subscriptions.add(id, filter)
        self._numbers.setdefault(name, {})[self._catalogue.hold(self._catalogue.interest(filter))] = id

    def unsubscribe(self, name: str, id: str) -> Filter | None:
        """Forget a subscription; None where there is none under the id."""
        client = self._clients.get(name)
        filter = None if client is None else client.subscriptions.remove(id)
        if filter is not None:
            del self._numbers[name][self._catalogue.release(self._catalogue.interest(filter))]
        return filter

    def matching(self, name: str, numbers: Set[int]) -> tuple[str, ...]:
        """The ids of a client's subscriptions whose filters have these numbers, sorted."""
        own = self._numbers.get(name, {})
        return tuple(sorted(own[number] for number in numbers & own.keys()))
