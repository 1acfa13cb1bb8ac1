"""The rule of trust (book 8.1.4): a broker is told, sent and asked only what it handles.

Of the notifications of its clients a broker refuses those that it does not handle itself; of their subscriptions
and advertisements it grants what it handles. A neighbour is sent what it handles (`narrow`), and is told of
filters what it handles (`disclose`). Where the links of the network are known, a subscription for which some
broker has no trusted way is refused, with the reason; or, with `untrusted = "cut"`, the network is in pieces for
it.

With `untrusted = "seal"`, what has to pass through a broker that does not handle it is sealed where it is
published, for all brokers that handle it (`sealing.tunnels`). The others see its type, its producer and its id.
They are told the types that are wanted behind them, and no more of a filter that they do not handle.

Changes of the scope graph go to every broker that follows them, whatever it handles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from fairlead.errors import Forbidden
from fairlead.filters import NOTHING, And, Constraint, Filter, Not, Op, Or, covers, parse, simplify
from fairlead.filters.projection import projected, with_leaves
from fairlead.filters.simplify import meet
from fairlead.filters.terms import Attribute
from fairlead.model import Notification
from fairlead.model.letters import died_in
from fairlead.rules.integrated import CHANGE
from fairlead.rules.rule import Depends, Form, Refusal, Route, Rule
from fairlead.security import AccessPolicy
from fairlead.security.rights import is_of_scopes
from fairlead.security.trust import SEALED, Links

if TYPE_CHECKING:
    from fairlead.security.sealing.tunnels import Tunnel

__all__ = ["Trust", "trust_in"]

_OF_SCOPES: Final = parse(f'type = "{CHANGE}"')
_IS_SEALED: Final = Constraint(Attribute(SEALED), Op.EXISTS)
_IN_CLEAR: Final = frozenset({"type", SEALED})
"""The attributes that every broker on the way may know."""


class Trust(Rule):
    """The trust of a policy, as one broker has to observe it; `links` are those of the whole network, if known.
    `tunnel` seals, where the policy says so."""

    def __init__(
        self, broker: str, policy: AccessPolicy, links: Links | None = None, tunnel: Tunnel | None = None
    ) -> None:
        self.broker, self._links = broker, links
        self.version = 0
        self._set(policy, tunnel)

    def _set(self, policy: AccessPolicy, tunnel: Tunnel | None) -> None:
        self._trust, self._tell, self._tunnel = policy.trust, policy.tell, tunnel
        self._limits: dict[str, Filter] = {}
        limits = [each for filters in self._trust.handles.values() for each in filters]
        self._depends = Depends.on(
            filters=limits, producer=bool(self._trust.handles), volatile=self._trust.seals
        )

    def decide_by(self, policy: AccessPolicy, tunnel: Tunnel | None = None) -> None:
        """Decide by another policy from now on."""
        if policy.trust != self._trust or policy.tell != self._tell:
            self._set(policy, tunnel)
            self.version += 1

    @property
    def depends(self) -> Depends:
        return self._depends

    def handles(self, broker: str, notification: Notification) -> bool:
        """Whether a broker handles a notification, and of a dead letter what it is about."""
        if is_of_scopes(notification.producer):
            return True
        limit, died = self._limit(broker), died_in(notification)
        return limit.matches(notification) and (died is None or limit.matches(died))

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        if SEALED in notification.attributes:
            return Refusal(f"the attribute {SEALED} is of brokers alone", error=Forbidden)
        if self.handles(self.broker, notification):
            return None
        return Refusal(f"the broker {self.broker} is not trusted with that", error=Forbidden)

    def mark(self, notification: Notification, now: int) -> Notification:
        if self._tunnel is None or is_of_scopes(notification.producer):
            return notification
        handling = [each for each in self._trust.handles if self.handles(each, notification)]
        return notification if self._connects(handling) else self._tunnel.seal(notification, handling)

    def _connects(self, handling: Sequence[str]) -> bool:
        """Whether ways of these brokers lead to each of them; where links are not known, any broker may be on the
        way."""
        if self._links is None:
            return len(handling) == len(self._trust.handles)
        reached = {self.broker: None}
        ahead = [self.broker]
        for near in ahead:
            new = [far for far in self._links.get(near, ()) if far in handling and far not in reached]
            reached.update(dict.fromkeys(new))
            ahead += new
        return all(each in reached for each in handling if each in self._links)

    def forms(self, notification: Notification, source: str) -> Sequence[Form] | None:
        if self._tunnel is None or SEALED not in notification.attributes:
            return None
        opened = self._tunnel.opened(notification)
        return None if opened is None else [Form(opened, opened), Form(notification)]

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        if SEALED in notification.attributes:  # others may pass it on; clients get what was opened
            return route.without_clients()
        handling = tuple(each for each in route.neighbours if self.handles(each, notification))
        return route if len(handling) == len(route.neighbours) else Route(handling, route.clients)

    def disclose(self, neighbour: str, filter: Filter) -> Filter:
        schema, limit = self._trust.schema, self._limit(neighbour)
        if covers(_OF_SCOPES, filter) or (self._trust.seals and covers(limit, filter, schema)):
            return filter
        handled = meet(self._in_clear(filter), limit, schema)
        if not self._trust.seals:
            return handled
        sealed = And.of((_IS_SEALED, projected(filter, _IN_CLEAR)))
        return simplify(Or.of((handled, sealed)), schema)

    def _in_clear(self, filter: Filter) -> Filter:
        """The part of a filter that is about notifications in clear."""
        if not self._trust.seals:
            return filter
        return with_leaves(
            filter,
            lambda leaf: NOTHING if leaf == _IS_SEALED else Not(NOTHING) if leaf == Not(_IS_SEALED) else leaf,
        )

    def grant(self, who: str, action: str, filter: Filter, now: int) -> Filter | Refusal:
        granted = filter
        if not covers(_OF_SCOPES, filter):
            granted = meet(filter, self._limit(self.broker), self._trust.schema)
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
