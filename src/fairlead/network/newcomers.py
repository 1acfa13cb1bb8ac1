"""New links, over which nothing but probes goes until it is known that they close no cycle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fairlead.model import Instant
from fairlead.network import wire
from fairlead.network.barriers import BarrierKey, Barriers
from fairlead.network.ledger import Linked
from fairlead.network.link_sessions import LinkSession
from fairlead.network.reports import Absent

__all__ = ["Absence", "Newcomer", "Newcomers"]

SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Absence:
    """Why a link is not up, and since when, in microseconds."""

    reason: str
    since: int

    def to_json(self) -> Absent:
        """For the status of the broker."""
        return {"reason": self.reason, "since": str(Instant(self.since // SECOND_US * SECOND_US))}


@dataclass(slots=True)
class Newcomer:
    """A new link: one of its sides, or both, did not have it before."""

    session: LinkSession
    linked: Linked
    said: wire.Hello | wire.Welcome
    since: int
    probe: BarrierKey | None = None


class Newcomers:
    """The new links of one broker, the earliest first."""

    def __init__(self, broker: str, barriers: Barriers) -> None:
        self._broker, self._barriers = broker, barriers
        self._newcomers: dict[str, Newcomer] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._newcomers

    def __iter__(self) -> Iterator[Newcomer]:
        return iter(self._newcomers.values())

    def get(self, name: str) -> Newcomer | None:
        """The new link to this broker, if there is one."""
        return self._newcomers.get(name)

    def add(self, newcomer: Newcomer) -> None:
        """One more; probes go over it from now on."""
        name = newcomer.session.name
        self._newcomers[name], self._barriers.new[name] = newcomer, newcomer.session

    def remove(self, name: str) -> None:
        """The link is new no longer, or has ended."""
        self._newcomers.pop(name, None)
        self._barriers.new.pop(name, None)

    @property
    def sessions(self) -> Mapping[str, LinkSession]:
        """Their connections."""
        return self._barriers.new

    def unsure(self) -> dict[str, Absence]:
        """The brokers whose new link may still close a cycle, each with the reason."""
        absences = {}
        for name, newcomer in self._newcomers.items():
            if newcomer.session.opened:
                waits = f": all brokers behind {name} are being checked"
            else:
                away = self._barriers.away_for(name, self._broker)
                waits = f": {', '.join(away)} cannot be reached" if away else ""
            absences[name] = Absence(f"it is not known yet whether it closes a cycle{waits}", newcomer.since)
        return absences
