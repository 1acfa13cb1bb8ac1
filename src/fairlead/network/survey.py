"""A survey of a network of brokers: the status of a broker, of its neighbours, of theirs, and so on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from fairlead.errors import FairleadError
from fairlead.network.addresses import Tls
from fairlead.network.arguments import addresses_of
from fairlead.network.client import connect

if TYPE_CHECKING:
    from fairlead.security.credentials import Credentials

__all__ = ["Seen", "Survey", "Wait", "around", "survey", "surveyed"]

Link: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """A broker with its status, or with the reason why there is none."""

    name: str
    url: str
    status: dict[str, Any] | None = None
    tables: dict[str, Any] | None = None
    problem: str = ""

    def link(self, neighbour: str) -> dict[str, Any]:
        """The status of its link to a neighbour, as far as it knows."""
        found: dict[str, Any] = {} if self.status is None else self.status["links"].get(neighbour, {})
        return found


@dataclass(frozen=True, slots=True)
class Wait:
    """A link that is not up yet: with which broker, as far as is known, why, and since when."""

    broker: str
    other: str
    reason: str
    since: str

    def __str__(self) -> str:
        return f"waits since {self.since}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Survey:
    """The brokers of a network by name, the one where the survey began first."""

    brokers: dict[str, Seen]

    @property
    def first(self) -> str:
        """The broker where it started."""
        return next(iter(self.brokers))

    @property
    def links(self) -> tuple[Link, ...]:
        """The links of the network, each once."""
        found: dict[frozenset[str], Link] = {}
        for name, seen in self.brokers.items():
            for neighbour in sorted(() if seen.status is None else seen.status["links"]):
                if neighbour in self.brokers:
                    found.setdefault(frozenset((name, neighbour)), (name, neighbour))
        return tuple(found.values())

    def children(self) -> dict[str, list[str]]:
        """The children of each broker, in the tree that begins with the first."""
        neighbours: dict[str, list[str]] = {name: [] for name in self.brokers}
        for a, b in self.links:
            neighbours[a].append(b)
            neighbours[b].append(a)
        found: dict[str, list[str]] = {name: [] for name in self.brokers}
        ahead = [self.first]
        placed = {self.first}
        for name in ahead:
            found[name] = [each for each in neighbours[name] if each not in placed]
            placed.update(found[name])
            ahead += found[name]
        return found

    def beside(self) -> tuple[Link, ...]:
        """The links that are not in that tree: they close cycles, or are further ways, where those may be."""
        within = {frozenset((name, each)) for name, below in self.children().items() for each in below}
        return tuple(link for link in self.links if frozenset(link) not in within)

    @property
    def is_cyclic(self) -> bool:
        """Whether there may be several ways between two brokers."""
        return any(seen.status is not None and seen.status.get("cyclic") for seen in self.brokers.values())

    def is_up(self, a: str, b: str) -> bool:
        """Whether two neighbours are connected, by the status of those that answered."""
        told = [link["connected"] for link in (self.brokers[a].link(b), self.brokers[b].link(a)) if link]
        return bool(told) and all(told)

    def why_down(self, a: str, b: str) -> str:
        """The reason why two neighbours are not connected, and since when, from the one that knows more."""
        told = [self.brokers[a].link(b), self.brokers[b].link(a)]
        known = [each for each in told if each.get("reason")]
        if not known:
            return ""
        # Who calls the other one can tell more than that it is gone.
        best = max(known, key=lambda each: (bool(each["url"]), each["since"]))
        return f" since {best['since']}: {best['reason']}"

    @property
    def absent(self) -> dict[str, str]:
        """The brokers that are away, or cannot be reached from a neighbour, and why."""
        down = {link: self.why_down(*link) for link in self.links if not self.is_up(*link)}
        found = {name: seen.problem for name, seen in self.brokers.items() if seen.status is None}
        for (one, other), why in down.items():
            found.setdefault(other if one not in found else one, f"not connected{why}")
        return found

    @property
    def waits(self) -> tuple[Wait, ...]:
        """The links that are not there yet."""
        names = {seen.url: name for name, seen in self.brokers.items()}
        return tuple(
            Wait(name, each["neighbour"] or names.get(url, url), each["reason"], each["since"])
            for name, seen in self.brokers.items()
            for url, each in ({} if seen.status is None else seen.status.get("waiting", {})).items()
        )

    @property
    def is_complete(self) -> bool:
        """Whether all brokers answer."""
        return all(seen.status is not None for seen in self.brokers.values())

    @property
    def is_whole(self) -> bool:
        """Whether all brokers answer, and all links are up and may be there, and none is waited for."""
        links = all(self.is_up(*link) for link in self.links)
        return self.is_complete and links and (self.is_cyclic or not self.beside()) and not self.waits

    def to_json(self) -> dict[str, Any]:
        """The survey as JSON."""
        return {
            "brokers": {
                name: {
                    "url": seen.url,
                    **({"problem": seen.problem} if seen.status is None else {"status": seen.status}),
                    **({} if seen.tables is None else {"tables": seen.tables}),
                }
                for name, seen in self.brokers.items()
            },
            "links": self.links,
        }


@dataclass(frozen=True, slots=True)
class _Asking:
    """Questions to brokers: what is asked, and as whom."""

    tables: bool
    tls: Tls | None
    patience: float
    credentials: Credentials | None

    async def seen(self, url: str | Sequence[str]) -> Seen:
        """A broker, as it answers."""
        tls = self.tls if all(each.secure for each in addresses_of(url)) else None
        async with connect(url, tls=tls, patience=self.patience, credentials=self.credentials) as client:
            status = await client.status()
            tables = await client.tables() if self.tables else None
            return Seen(status["broker"], str(client.address), status, tables)

    async def reached(self, name: str, url: str) -> Seen:
        """A broker that another one has named, or why it is not seen."""
        if not url:
            return Seen(name, url, problem="where it listens is not known")
        try:
            seen = await self.seen(url)
        except FairleadError as error:
            return Seen(name, url, problem=str(error).partition("\n")[0])
        return seen if seen.name == name else Seen(name, url, problem=f"{seen.name!r} answers at {url}")


def survey(
    url: str | Sequence[str],
    *,
    whole: bool = True,
    tables: bool = False,
    tls: Tls | None = None,
    patience: float = 5.0,
    credentials: Credentials | None = None,
) -> Survey:
    """Ask the broker at this address and, for the whole network, its neighbours, theirs, and so on.

    Of several addresses, the first broker that can be reached is asked.

    If the first one cannot be asked, that is an error; of the others it is noted. All are shown the same
    credentials.
    """
    return asyncio.run(
        surveyed(url, whole=whole, tables=tables, tls=tls, patience=patience, credentials=credentials)
    )


async def surveyed(
    url: str | Sequence[str],
    *,
    whole: bool = True,
    tables: bool = False,
    tls: Tls | None = None,
    patience: float = 5.0,
    credentials: Credentials | None = None,
) -> Survey:
    """The same, on an event loop."""
    asking = _Asking(tables, tls, patience, credentials)
    first = await asking.seen(url)
    return await _around(first, asking) if whole else Survey({first.name: first})


async def around(
    first: Seen,
    *,
    tables: bool = False,
    tls: Tls | None = None,
    patience: float = 5.0,
    credentials: Credentials | None = None,
) -> Survey:
    """The network around a broker that has been asked."""
    return await _around(first, _Asking(tables, tls, patience, credentials))


async def _around(first: Seen, asking: _Asking) -> Survey:
    found = {first.name: first}
    ahead = _unknown(first, found)
    while ahead:
        answers = await asyncio.gather(*(asking.reached(*each) for each in ahead.items()))
        found |= dict(zip(ahead, answers, strict=True))
        ahead = {name: url for seen in answers for name, url in _unknown(seen, found).items()}
    return Survey(found)


def _unknown(seen: Seen, found: dict[str, Seen]) -> dict[str, str]:
    links = {} if seen.status is None else seen.status["links"]
    return {name: link["url"] for name, link in sorted(links.items()) if name not in found}
