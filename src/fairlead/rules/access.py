"""The rule of the access policy (book 8.1.4): what clients publish, subscribe to and advertise is limited.

A publication outside of the limits of its client, or under a producer that is not the client's, is refused. A
subscription or an advertisement is narrowed to what the client may have. Whose rights a client has is `bind`'s to
say: on a broker, the principal that its credentials prove; on a bus, a name is a principal unless it is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import structs

from fairlead.errors import Forbidden
from fairlead.filters import NOTHING, Filter
from fairlead.model import Notification
from fairlead.model.letters import died_in
from fairlead.rules.administration import ANSWERS, refuse_change
from fairlead.rules.rule import Depends, Refusal, Route, Rule
from fairlead.security import AccessPolicy, Decision, Principal, Rights
from fairlead.security.principals import NOBODY
from fairlead.security.rights import SCOPES, Grant, is_administrator, is_of_scopes

__all__ = ["Access", "access_in", "by_name", "client_name", "nobody"]

KNOWN_MAX: Final = 10_000
"""The number of rights of names that are not bound that are remembered."""
_DEPENDS: Final = Depends(producer=True, source=True)
_UNKNOWN: Final = Depends(producer=True, source=True, volatile=True)


def by_name(client: str) -> Principal:
    """On a bus: a component is the principal of its name."""
    return Principal(client) if client else NOBODY


def nobody(client: str) -> Principal:
    """On a broker: a client whose credentials are not known has none."""
    return NOBODY


class Access(Rule):
    """An access policy, for the clients of a bus or a broker.

    On a bus `principal_of` is `by_name`. On a broker it is `nobody`: a client is bound when it has connected.
    """

    decides_again = True

    def __init__(self, policy: AccessPolicy, principal_of: Callable[[str], Principal] = by_name) -> None:
        self._policy, self._principal_of = policy, principal_of
        self._bound: dict[str, Principal] = {}
        self._fixed: dict[str, Rights] = {}
        self._rights: dict[str, Rights] = {}
        self._depends_on: dict[str, tuple[Rights, Depends]] = {}
        """The dependencies of answers, by client: they are asked for with every batch of publications."""
        self._now = 0
        """The latest time that was asked about."""
        self.version = 0
        self.decided = 0
        """The number of changes of the rights of clients that there are: by another policy, or by
        themselves."""
        self._changed: set[str] = set()
        """The clients whose rights are others since that was asked."""

    # -- who ---------------------------------------------------------------------------------------------------

    def bind(self, client: str, principal: Principal, now: int, fixed: Rights | None = None) -> None:
        """A client acts for this principal from now on; with fixed rights, whatever the policy says."""
        if self._bound.get(client) == principal:
            return
        before = self._rights.get(client)
        self._bound[client] = principal
        self._forget(client)
        if fixed is not None:
            self._fixed[client] = fixed
        self._compare(client, before, self.rights(client, now))

    def principal(self, client: str) -> Principal:
        """The principal that a client acts for."""
        return self._bound.get(client) or self._principal_of(client)

    def unbind(self, client: str) -> None:
        """A client has gone."""
        if self._bound.pop(client, None) is not None:
            self._fixed.pop(client, None)
            self._changed.discard(client)
            self._forget(client)

    def _forget(self, client: str) -> None:
        self._rights.pop(client, None)
        self._depends_on.pop(client, None)
        self.version += 1

    @property
    def policy(self) -> AccessPolicy:
        """The policy in force."""
        return self._policy

    def decide_by(self, policy: AccessPolicy, now: int) -> None:
        """Decide by another policy from now on."""
        before = {**self._rights}
        self._policy = policy
        self._rights.clear()
        self.version += 1
        self.decided += 1
        for client in self._bound:
            self._compare(client, before.get(client), self.rights(client, now))

    def _compare(self, client: str, before: Rights | None, after: Rights) -> None:
        if before is not None and not before.is_same_as(after):
            self._changed.add(client)

    def take_changed(self) -> set[str]:
        """The bound clients whose rights are others than when this was asked last."""
        changed, self._changed = self._changed, set()
        return changed

    def all_changed(self) -> None:
        """Something else than the policy of principals has changed what every client may have."""
        self._changed.update(self._bound)

    def expire(self, now: int) -> None:
        """Let rights end whose time has come: credentials expire, delegations and hours end."""
        for client, rights in list(self._rights.items()):
            if rights.until is not None and now >= rights.until:
                self.rights(client, now)

    def rights(self, client: str, now: int) -> Rights:
        """The rights of a client at a time."""
        self._now = max(self._now, now)
        rights = self._rights.get(client)
        if rights is not None and (rights.until is None or now < rights.until):
            return rights
        if rights is not None:
            self.version += 1  # what is remembered was decided by what has ended
            self.decided += 1
        elif len(self._rights) >= KNOWN_MAX + len(self._bound):
            self._rights.clear()
            self.version += 1
        fixed = self._fixed.get(client)
        made = self._policy.rights(self.principal(client), now) if fixed is None else fixed
        name = client_name(client)
        if is_administrator(name) and made.owns("clients", name):
            made = made.granting("subscribe", Grant(SCOPES, ANSWERS))
        if client in self._bound:
            self._compare(client, rights, made)
        self._rights[client] = made
        return made

    def limits(self, client: str) -> Mapping[str, int]:
        """The rights of a client, as far as they are known."""
        rights = self._rights.get(client)
        return {} if rights is None else rights.limits

    def hidden(self, who: str) -> frozenset[str]:
        if not self._policy.protected:
            return self._policy.protected
        return self.rights(who, self._now).hidden

    # -- what --------------------------------------------------------------------------------------------------

    @property
    def depends(self) -> Depends:
        return _UNKNOWN if self._policy.has_predicates else _DEPENDS

    def depends_for(self, source: str) -> Depends:
        if not source or self._policy.has_predicates:
            return self.depends
        rights = self._rights.get(source)
        if rights is None or rights.names.get("administers") or (self._policy.has_forms and rights.forms):
            return _UNKNOWN  # statements are no cells, and what is published is another notification
        held = self._depends_on.get(source)
        if held is None or held[0] is not rights:
            filters = (each.filter for each in rights.grants["publish"])
            held = (rights, Depends.on(filters=filters, producer=True, source=True))
            self._depends_on[source] = held
        return held[1]

    def disown(self, who: str, producer: str, now: int) -> Refusal | None:
        # A client publishes under the name that it has connected with, too: the name was checked then.
        is_own = producer in (who, client_name(who)) and not is_of_scopes(producer)
        if is_own or self.rights(who, now).owns("producers", producer):
            return None
        return Refusal(f"the producer {producer!r} is not yours", error=Forbidden)

    def form(self, who: str, notification: Notification, now: int) -> Notification:
        if not self._policy.has_forms or is_of_scopes(notification.producer):
            return notification
        rights = self.rights(who, now)
        return rights.formed(notification, now) if rights.forms else notification

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        rights = self.rights(who, now)
        if is_of_scopes(notification.producer):
            return refuse_change(rights, notification)
        if not rights.may_publish(notification, now):
            return Refusal(f"{rights.principal.name} may not publish that", error=Forbidden)
        return None

    def decide(self, who: str, action: str, filter: Filter, now: int) -> Decision:
        """The decision about a subscription or an advertisement of a client."""
        return self.rights(who, now).may(action, filter, now)

    def withholds(self, who: str, now: int) -> bool:
        return self._policy.has_predicates and any(
            each.predicates for each in self.rights(who, now).grants["subscribe"]
        )

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        died = died_in(notification)
        if died is None and not self._policy.has_predicates:
            return route
        shown = tuple(
            each
            for each in route.clients
            if self._may_get(each[0], notification) and (died is None or self._may_see(each[0], died))
        )
        return route if len(shown) == len(route.clients) else structs.replace(route, clients=shown)

    def _may_get(self, client: str, notification: Notification) -> bool:
        """Whether predicates let a client have what its subscription matches. Changes of scopes have no limits."""
        if is_of_scopes(notification.producer):
            return True
        return self.rights(client, self._now).may_get(notification, self._now)

    def _may_see(self, client: str, died: Notification) -> bool:
        """Whether a client may have all of what a dead letter is about."""
        rights = self.rights(client, self._now)
        return rights.may_get(died, self._now) and died.without(rights.hidden) is died

    def grant(self, who: str, action: str, filter: Filter, now: int) -> Filter | Refusal:
        decision = self.decide(who, action, filter, now)
        if decision.granted is not None:
            return decision.granted
        return Refusal(decision.reason, error=Forbidden) if self._policy.tell else NOTHING


def client_name(client: str) -> str:
    """The name of a client of a broker: `c:desk` and `d:desk` are both `desk`."""
    return client[2:] if client[:2] in ("c:", "d:") else client


def access_in(rules: Iterable[Rule]) -> Access | None:
    """The rule of the access policy, if there is one."""
    return next((each for each in rules if isinstance(each, Access)), None)
