"""The rule of trust (book 8.1.4): a broker is told, sent and asked only what it handles.

Of the notifications of its clients a broker refuses those that it does not handle itself; of their subscriptions
and advertisements it grants what it handles. A neighbour is sent what it handles (`narrow`), and is told of
filters what it handles (`disclose`). Where the links of the network are known, a subscription for which some
broker has no trusted way is refused, with the reason; or, with `untrusted = "cut"`, the network is in pieces for
it.

Changes of the scope graph go to every broker that follows them, whatever it handles.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairlead.errors import Forbidden
from fairlead.filters import NOTHING, Filter, covers, parse
from fairlead.filters.simplify import meet
from fairlead.model import Notification
from fairlead.rules.integrated import CHANGE
from fairlead.rules.rule import Depends, Refusal, Route, Rule
from fairlead.security import AccessPolicy
from fairlead.security.rights import is_of_scopes
from fairlead.security.trust import Links

__all__ = ["Trust", "trust_in"]

_OF_SCOPES: Final = parse(f'type = "{CHANGE}"')


class Trust(Rule):
    """The trust of a policy, as one broker has to observe it; `links` are those of the whole network, if known."""

    def __init__(self, broker: str, policy: AccessPolicy, links: Links | None = None) -> None:
        self.broker, self._links = broker, links
        self.version = 0
        self._set(policy)

    def _set(self, policy: AccessPolicy) -> None:
        self._trust, self._tell = policy.trust, policy.tell
        self._limits: dict[str, Filter] = {}
        limits = [each for filters in self._trust.handles.values() for each in filters]
        self._depends = Depends.on(filters=limits, producer=bool(self._trust.handles))

    def decide_by(self, policy: AccessPolicy) -> None:
        """Decide by another policy from now on."""
        if policy.trust != self._trust or policy.tell != self._tell:
            self._set(policy)
            self.version += 1

    @property
    def depends(self) -> Depends:
        return self._depends

    def handles(self, broker: str, notification: Notification) -> bool:
        """Whether a broker handles a notification."""
        return is_of_scopes(notification.producer) or self._limit(broker).matches(notification)

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        if self.handles(self.broker, notification):
            return None
        return Refusal(f"the broker {self.broker} is not trusted with that", error=Forbidden)

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        handling = tuple(each for each in route.neighbours if self.handles(each, notification))
        return route if len(handling) == len(route.neighbours) else Route(handling, route.clients)

    def disclose(self, neighbour: str, filter: Filter) -> Filter:
        if covers(_OF_SCOPES, filter):
            return filter
        return meet(filter, self._limit(neighbour), self._trust.schema)

    def grant(self, who: str, action: str, filter: Filter, now: int) -> Filter | Refusal:
        granted = self.disclose(self.broker, filter)
        if granted == NOTHING and filter != NOTHING:
            return self._refusal(f"the broker {self.broker} is not trusted with that")
        is_held = (
            action == "subscribe" and self._trust.untrusted == "refuse" and not covers(_OF_SCOPES, granted)
        )
        if self._links is not None and is_held:
            apart = self._trust.apart(self._links, self.broker, granted)
            if apart:
                return self._refusal(
                    f"no way of trusted brokers leads from {' and '.join(apart)} to {self.broker} for that"
                )
        return granted

    def _refusal(self, reason: str) -> Filter | Refusal:
        return Refusal(reason, error=Forbidden) if self._tell else NOTHING

    def _limit(self, broker: str) -> Filter:
        limit = self._limits.get(broker)
        if limit is None:
            limit = self._limits[broker] = self._trust.limit(broker)
        return limit


def trust_in(rules: Iterable[Rule]) -> Trust | None:
    """The rule of trust, if there is one."""
    return next((each for each in rules if isinstance(each, Trust)), None)
