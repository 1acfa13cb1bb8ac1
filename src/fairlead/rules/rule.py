"""A rule refuses publications and narrows routes, and declares what its answers depend on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from msgspec import Struct

from fairlead.errors import FairleadError, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.rules.cells import Cells

__all__ = ["Depends", "Refusal", "Route", "Rule"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a publication has no effect."""

    reason: str
    hint: str | None = None
    error: type[FairleadError] = ValueRefused

    def exception(self) -> FairleadError:
        """The refusal as an exception, for callers in the same process."""
        return self.error(self.reason, hint=self.hint)


class Route(Struct, frozen=True):
    """Where a notification goes from one broker, or on one bus."""

    neighbours: tuple[str, ...]
    clients: tuple[tuple[str, tuple[str, ...]], ...]
    """The clients it is delivered to, each with the sorted ids of its subscriptions that match."""


@dataclass(frozen=True, slots=True)
class Depends:
    """What the answers of a rule depend on, besides the state of the rule itself, which its `version` numbers."""

    cells: Cells = field(default_factory=Cells)
    """The attributes it reads, and which of their values it tells apart."""
    producer: bool = False
    id: bool = False
    source: bool = False
    """Who publishes (`admit`), or from which neighbour the notification comes (`narrow`)."""
    volatile: bool = False
    """The time, or what was published before: the answer is never remembered."""

    @classmethod
    def on(
        cls,
        *attributes: str,
        filters: Iterable[Filter] = (),
        producer: bool = False,
        id: bool = False,
        source: bool = False,
        volatile: bool = False,
    ) -> Self:
        """On these attributes, and on what these filters tell apart."""
        cells = Cells()
        for name in attributes:
            cells.add_attribute(name)
        for filter in filters:
            cells.add(filter)
        return cls(cells, producer, id, source, volatile)


_NOTHING: Final = Depends()


class Rule:
    """One rule; as it stands, it admits everything and leaves every route as it is.

    A rule overrides `admit`, `narrow` or both, and declares in `depends` what they look at.
    """

    version: int = 0
    """Changes whenever an answer may change though the question is the same."""

    @property
    def depends(self) -> Depends:
        """What the answers depend on."""
        return _NOTHING

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        """Why this client may not publish this at this time, in microseconds; None where it may. Pure."""
        return None

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        """The route without those who must not get the notification. Pure.

        `source` is the neighbour it comes from, and empty where a client published it here: a log does not know
        which client did, and a rule that has to know asks for the producer.
        """
        return route

    def concerns(self, source: str) -> bool:
        """Whether the rule may ever refuse what comes from this client or neighbour."""
        return True

    def published(self, who: str, notification: Notification, now: int) -> None:
        """A new publication was admitted. A rule that counts publications does so here, and is `volatile`."""
