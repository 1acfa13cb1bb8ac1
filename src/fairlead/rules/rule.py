"""A rule refuses publications and narrows routes, and declares what its answers depend on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from msgspec import Struct

from fairlead.channels import Channels
from fairlead.errors import FairleadError, ValueRefused
from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.rules.cells import Cells

__all__ = ["Depends", "Form", "Refusal", "Route", "Rule"]


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
    """The destinations of a notification at one broker, or on one bus."""

    neighbours: tuple[str, ...]
    clients: tuple[tuple[str, tuple[str, ...]], ...]
    """The clients it is delivered to, each with the sorted ids of its subscriptions that match."""
    versions: tuple[tuple[str, tuple[str, ...], Notification], ...] = ()
    """The clients to which it is delivered in another form than it travels in, each with that form. A client may
    get several."""

    def without_clients(self) -> Route:
        """The neighbours alone."""
        return Route(self.neighbours, ())


class Form(NamedTuple):
    """A form of a notification that is matched with routing entries."""

    matched: Notification
    """The notification with all that entries are about."""
    delivered: Notification | None = None
    """The notification as clients get it; None where that is as it travels."""


@dataclass(frozen=True, slots=True)
class Depends:
    """The inputs that the answers of a rule depend on, besides the rule's own state, which `version` numbers."""

    cells: Cells = field(default_factory=Cells)
    """The attributes it reads, and which of their values it tells apart."""
    producer: bool = False
    id: bool = False
    source: bool = False
    """The publisher (`admit`), or the neighbour from which the notification comes (`narrow`)."""
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
        """A dependency on these attributes, and on the distinctions that these filters make."""
        cells = Cells()
        for name in attributes:
            cells.add_attribute(name)
        for filter in filters:
            cells.add(filter)
        return cls(cells, producer, id, source, volatile)


_NOTHING: Final = Depends()


class Rule:
    """A rule of the seam. This base class admits everything and leaves every route as it is.

    A rule overrides some of `admit`, `disown` and `narrow`, and declares in `depends` what they look at. One that
    narrows subscriptions and advertisements when they are made overrides `grant`; one that hides some of them from
    a neighbour, `disclose`; one that leaves attributes out of deliveries, `hidden`.

    A rule may also say more of routing entries than filters do. It then overrides `declare`, the entry of a
    subscription, and `forms`, the forms of a notification that entries are matched with; where something has to be
    decided once for all brokers, `mark`; and where its state follows from notifications, `learn`.
    """

    decides_again: bool = False
    """Whether `admit` decides once more when an ordered bus releases a publication, though the rule is volatile.
    Others that are volatile have decided for good."""
    version: int = 0
    """Changes whenever an answer may change though the question is the same."""

    @property
    def depends(self) -> Depends:
        """The inputs that the answers depend on."""
        return _NOTHING

    def intercept(self, who: str, notification: Notification) -> Notification | Refusal | None:
        """A publication as it is published; why it is refused; None: it is withheld. It keeps its identity."""
        return notification

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        """Why this client may not publish this at this time, in microseconds; None where it may. Pure."""
        return None

    def form(self, who: str, notification: Notification, now: int) -> Notification:
        """A client's publication in the form in which it is published. Pure; a form of a form is that form.

        A rule that has forms says of those clients that it is `volatile` (`depends_for`).
        """
        return notification

    def disown(self, who: str, producer: str, now: int) -> Refusal | None:
        """Why this client may not publish under this producer, whatever it publishes; None where it may. Pure.

        It is asked before duplicates are searched for: the answer does not depend on what has been published.
        """
        return None

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        """The route without the destinations that must not get the notification. Pure.

        The notification is in the form that routing entries were matched with (`forms`).
        `source` is the neighbour it comes from, and empty where a client published it here: a log does not know
        which client did, and a rule that has to know asks for the producer.
        """
        return route

    def grant(self, who: str, action: str, filter: Filter, now: int) -> Filter | Refusal:
        """The part of a filter that a client is granted when it subscribes or advertises, or a refusal. Pure."""
        return filter

    def disclose(self, neighbour: str, filter: Filter) -> Filter:
        """The part of a subscription or an advertisement that a neighbour is told of; NOTHING: none of it. Pure.

        A rule that leaves something of `EVERYTHING` out hides it from that neighbour, and removes the neighbour
        from the routes of what it does not know of (`narrow`).
        """
        return filter

    def declare(self, who: str, filter: Filter) -> Filter:
        """The routing entry of a client's subscription, in all tables: what `forms` of notifications match. Pure.

        It changes only where `version` does.
        """
        return filter

    def undeclare(self, entry: Filter) -> Filter:
        """The filter of a routing entry without what `declare` has added, or a wider one. Pure."""
        return entry

    def reaches(self, who: str, entry: Filter) -> bool:
        """Whether notifications of a client can come to the subscriber of a routing entry at all. Pure."""
        return True

    def forms(self, notification: Notification, source: str) -> Sequence[Form] | None:
        """The forms of a notification that are matched with routing entries; None: the notification itself.
        Pure."""
        return None

    def mark(self, notification: Notification, now: int) -> Notification:
        """An admitted publication with what is decided about it at the publisher's broker, for all brokers."""
        return notification

    def foresee(self, notification: Notification, now: int) -> Notification:
        """A publication as `mark` would leave it if it came now. Pure: nothing is counted, no turn is taken."""
        return self.mark(notification, now)

    channels: Channels | None = None
    """The channels that give notifications their quality of service, where the rule has them."""

    learns_from: str = ""
    """A text in every notification that the rule learns from; empty where it learns from none."""

    def learn(self, notification: Notification, offset: int) -> bool:
        """A notification is about to be routed that has this text; whether answers have changed with it.

        `offset` is that of the next record in the broker's log.
        """
        return False

    @property
    def changed_at(self) -> int:
        """Answers about records of the log from this offset on are those of now."""
        return 0

    def judge_at(self, offset: int | None) -> None:
        """Answer as of a record of the log, until this is called with None."""

    def attach(self, entries: Callable[[Notification], Iterable[Filter]]) -> None:
        """The rule holds at a broker: `entries` are the routing entries there that a form matches."""

    def resolve(self, filter: Filter) -> Filter:
        """A filter of the same text that decides about more, by what is known here beyond its text: keys. Pure."""
        return filter

    def hidden(self, who: str) -> frozenset[str]:
        """The attributes that a subscriber does not get to see, by the rights that it has now. Pure."""
        return frozenset()

    def withholds(self, who: str, now: int) -> bool:
        """Whether `narrow` may keep something from a subscriber that its subscriptions match. Pure."""
        return False

    def depends_for(self, source: str) -> Depends:
        """The inputs that the answers about one client's publications depend on: `depends`, or less."""
        return self.depends

    def concerns(self, source: str) -> bool:
        """Whether the rule may ever refuse what comes from this client or neighbour."""
        return True

    def published(self, who: str, notification: Notification, now: int) -> None:
        """A new publication was admitted. A rule that counts publications does so here, and is `volatile`."""
