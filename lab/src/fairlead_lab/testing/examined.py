"""One broker without sockets, and what it says of its tables: for tests of searches and of their pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from fairlead.broker import Broker
from fairlead.broker.messages import Admin, Subscribe
from fairlead.filters.language import parse
from fairlead.model.encoding import format_json
from fairlead.network.examining import Examination
from fairlead.network.settings import BrokerSettings, Limits
from fairlead.network.survey import Seen, Survey

__all__ = ["Examined", "broker_with"]


def broker_with(entries: Iterable[tuple[str, str]], name: str = "a", **settings: Any) -> Broker:
    """A broker with these routing entries: of clients (`c:`), durable subscribers (`d:`) and neighbours."""
    made = BrokerSettings(name, **settings).broker()
    for number, (text, destination) in enumerate(entries):
        filter = parse(text)
        if destination[1:2] == ":":
            made.handle(Subscribe(destination, str(number), filter), 0)
        else:
            if destination not in made.links:
                made.subscriptions.add_neighbour(destination)
                made.links[destination] = None  # type: ignore[assignment]  # no link: nothing is sent
            made.handle(Admin(destination, (made.catalogue.interest(filter),)), 0)
    return made


class Examined:
    """A network of one broker, as the views ask it."""

    schema = None
    remark = ""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        router: Any = SimpleNamespace(version=0)
        self.examination = Examination(broker, router, {}, Limits(), is_logged=False, clock=lambda: 0)

    async def survey(self) -> Survey:
        """The broker alone."""
        status = {"links": {name: {"url": ""} for name in self.broker.links}, "log": None}
        return Survey({self.broker.name: Seen(self.broker.name, "", status)})

    @asynccontextmanager
    async def asking(self, broker: str) -> AsyncIterator[Any]:
        """Ask the broker."""
        assert broker == self.broker.name

        async def ask(what: str, **about: Any) -> Any:
            return getattr(self.examination, what)(format_json(about))

        yield ask

    def all(self, **query: Any) -> list[tuple[str, str]]:
        """All rows of a search, piece by piece."""
        found, at, over = [], 0, False
        while not over:
            piece = self.examination.find(format_json({"at": at, **query}))
            found += [(text, to) for text, to in piece["rows"]]
            at, over = piece["at"], piece["over"]
        return found
