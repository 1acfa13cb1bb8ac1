"""The boundary of a broker: what each connection may do, by the principal that it acts for.

Every request of a client passes here, and every link. A broker without a policy has a guard that lets everything
pass. A client acts for the principal that its credentials proved when it connected; a durable subscriber, for the
one that subscribed last, over restarts, too. When the policy changes, or credentials expire, what was granted is
decided about once more, and clients that may not be connected any longer are disconnected.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from fairlead.broker import Broker
from fairlead.broker.messages import Grant
from fairlead.errors import FairleadError, FilterError, Forbidden
from fairlead.filters.filter import NOTHING, Filter
from fairlead.filters.language import render
from fairlead.network import wire
from fairlead.network.addresses import Address
from fairlead.network.calling import Clock
from fairlead.network.client_sessions import ClientSession
from fairlead.network.link_sessions import LinkSession
from fairlead.network.reports import SecurityStatus
from fairlead.rules.access import Access, access_in
from fairlead.rules.sealing import sealing_in
from fairlead.rules.trust import trust_in
from fairlead.security import AccessPolicy, Decision, Delegation, Principal, Rights
from fairlead.security.credentials import INTERNAL
from fairlead.security.delegations import Delegations
from fairlead.security.policy import OwnedType
from fairlead.security.principals import ANONYMOUS, NOBODY, SEPARATOR
from fairlead.security.records import DecisionLog
from fairlead.security.rights import ACTIONS, ADMINISTRATOR, all_rights, name_of_administrator
from fairlead.security.types import DeclaredTypes

if TYPE_CHECKING:
    from fairlead.filters.schema import Schema
    from fairlead.security.sealing import Sealer
    from fairlead.security.sealing.tunnels import Tunnel

__all__ = ["Guard"]

WITHOUT: Final = " without credentials: a certificate, a token or a password"
COUNTED_US: Final = 10_000_000
"""The time after which the number of a client's publications is recorded again, at least."""
MOMENTS: Final = ("exp", "iat", "nbf")
"""Claims that are about one token: they are not written down."""
log: Final = logging.getLogger(__name__)


class Guard:
    """Asks the access policy, and records its decisions.

    `regrant` grants anew what a client has subscribed to, `redisclose` tells neighbours what they may know now.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        clients: Mapping[str, ClientSession],
        links: Mapping[str, LinkSession],
        regrant: Callable[[str, int], None],
        redisclose: Callable[[int], None],
        clock: Clock,
    ) -> None:
        self._access: Access | None = access_in(broker.seam.rules)
        self._trust, self._redisclose = trust_in(broker.seam.rules), redisclose
        self._broker, self._clients, self._links, self._regrant = broker, clients, links, regrant
        self._clock = clock
        self._principals: dict[str, Principal] = {}
        """Those of links, by the neighbour's name."""
        self._acting: defaultdict[str, set[str]] = defaultdict(set)
        """By principal, the connected clients that act for it."""
        self._decided_by = 0 if self._access is None else self._access.decided
        self._counted_at = 0
        self.records = DecisionLog()
        self.delegations = Delegations()
        """The delegations that principals have made by calls. The driver says in which file they are kept."""
        self.declared = DeclaredTypes()
        """The types that principals have declared by calls. The driver says in which file they are kept."""
        self.decided: list[Callable[[int], None]] = []
        """They are called when clients may have other rights than before, when their subscriptions were granted
        anew."""
        self.is_exposed = False
        """Whether programs on other machines can do everything here. The driver's to say."""
        self.brokers: Sequence[str] | None = None
        """Patterns of the names of brokers that may be neighbours; None: any."""
        self.addresses: Sequence[str] | None = None
        """Patterns of the addresses that clients may have this broker call; None: any."""

    def status(self) -> SecurityStatus:
        """For the status of the broker."""
        return {
            "policy": "" if self._access is None else self._access.policy.fingerprint,
            "exposed": self.is_exposed,
            "log_failed": self.records.failed,
        }

    @property
    def is_on(self) -> bool:
        """Whether there is a policy."""
        return self._access is not None

    @property
    def policy(self) -> AccessPolicy | None:
        """The policy in force."""
        return None if self._access is None else self._access.policy

    # -- connections -------------------------------------------------------------------------------------------

    def name_for(self, name: str, principal: Principal, now: int, *, is_made_up: bool) -> str:
        """The name that a client gets; Forbidden where it may not connect, or not under that name."""
        if self._access is None:
            return name
        rights = self._rights(principal, now)
        allowed = rights.allows("connect")
        reason = "you may not connect" + (WITHOUT if principal.name == ANONYMOUS else "")
        self._check(name, rights, "connect", allowed=allowed, reason=reason, now=now)
        most, own = rights.limits.get("connections"), self._acting[principal.name]
        name = name_of_administrator(name, principal)
        is_made_up = is_made_up and not name.startswith(ADMINISTRATOR)
        if is_made_up:
            name = f"{principal.name}{SEPARATOR}{name}"
        if most is not None and f"c:{name}" not in own and len(own) >= most:
            reason = f"{principal.name} has {most:,} connections already"
            self._check(name, rights, "connect", allowed=False, reason=reason, now=now)
        if is_made_up:
            return name
        owned = rights.owns("clients", name)
        self._check(name, rights, "name", allowed=owned, reason=f"the name {name!r} is not yours", now=now)
        return name

    def check_neighbour(self, name: str) -> None:
        """Forbidden where no broker of this name may be a neighbour, whoever it is."""
        if self.brokers is not None and not any(fnmatchcase(name, each) for each in self.brokers):
            reason = f"a broker {name!r} is not linked here: [security] brokers does not list it"
            now = self._clock.now
            if self._access is not None:
                rights = self._rights(NOBODY, now)
                self._check(name, rights, "link", allowed=False, reason=reason, now=now)
            raise Forbidden(reason)

    def check_address(self, url: str) -> None:
        """Forbidden where clients may not have this broker call an address; NetworkError: it is none."""
        address = str(Address.parse(url))
        if self.addresses is not None and not any(fnmatchcase(address, each) for each in self.addresses):
            raise Forbidden(f"{address} is not called from here: [security] links does not list it")

    def check_link(self, name: str, principal: Principal, now: int) -> None:
        """Forbidden where a principal may not be a neighbour of this name."""
        self.check_neighbour(name)
        if self._access is not None:
            rights = self._rights(principal, now)
            allowed = rights.allows("link") and name == principal.name
            reason = f"a broker {name!r} is not linked with {principal.name}'s credentials"
            self._check(name, rights, "link", allowed=allowed, reason=reason, now=now)
            self._principals[name] = principal

    def bind(self, client: str, principal: Principal, now: int) -> None:
        """A client, or a durable subscriber, acts for this principal from now on.

        A subscriber that is away outlives the credentials of its client; its rights end with the policy only.
        """
        if client.startswith("d:"):
            principal = replace(principal, until=None)
        if self._access is not None:
            self._access.bind(client, principal, now, self._fixed(principal))
            if client.startswith("c:"):
                self._acting[principal.name].add(client)

    def unbind(self, client: str) -> None:
        """It has gone."""
        if self._access is not None:
            name = self.principal(client).name
            self._acting[name].discard(client)
            if not self._acting[name]:
                del self._acting[name]
            self._access.unbind(client)

    def principal(self, client: str) -> Principal:
        """For whom a client acts."""
        return NOBODY if self._access is None else self._access.principal(client)

    def renew(self, session: ClientSession, principal: Principal, now: int) -> None:
        """A client shows new credentials; Forbidden where they are another principal's."""
        if self._access is None:
            return
        own = principal.name == self.principal(session.client).name
        rights, reason = self._access.rights(session.client, now), "these credentials are another principal's"
        self._check(session.client, rights, "authenticate", allowed=own, reason=reason, now=now)
        self.bind(session.client, principal, now)
        for durable in session.durables.values():
            self.bind(durable.client, principal, now)
        self._look_at(session, now, has_changed=session.client in self._access.take_changed())

    def unauthenticated(self, reason: str) -> None:
        """Credentials were not accepted: record that. Whose they claimed to be is not known, and not recorded."""
        if self._access is not None and self.records.is_open:
            now, decision = self._clock.now, Decision("authenticate", "refused", None, None, (), reason)
            self.records.add("", self._rights(NOBODY, now), decision, self._access.policy, now)

    def check_principal(self, principal: Principal, right: str, now: int) -> None:
        """Forbidden, unless a principal has one of the rights: over HTTP, before there is a client."""
        if self._access is not None:
            rights = self._rights(principal, now)
            reason = f"you may not {right}"
            self._check("http", rights, right, allowed=rights.allows(right), reason=reason, now=now)

    # -- requests ----------------------------------------------------------------------------------------------

    def check(self, session: ClientSession, right: str, now: int) -> None:
        """Forbidden, unless a client has one of the rights."""
        if self._access is not None:
            rights = self._access.rights(session.client, now)
            allowed, reason = rights.allows(right), f"you may not {right}"
            self._check(session.client, rights, right, allowed=allowed, reason=reason, now=now)

    def check_subscriptions(self, session: ClientSession, now: int) -> None:
        """Forbidden, if the clients of a principal have as many subscriptions as it may have."""
        if self._access is None:
            return
        rights = self._access.rights(session.client, now)
        most, name = rights.limits.get("subscriptions"), rights.principal.name
        if most is not None and sum(map(self._count, self._acting[name])) >= most:
            reason = f"{name} has {most:,} subscriptions already"
            self._check(session.client, rights, "subscribe", allowed=False, reason=reason, now=now)

    def check_filter(self, session: ClientSession, text: str, now: int) -> None:
        """Forbidden, if the text of a filter is longer than a principal's may be."""
        if self._access is None:
            return
        rights = self._access.rights(session.client, now)
        most = rights.limits.get("filter_bytes")
        if most is not None and len(text.encode()) > most:
            reason = f"a filter of {rights.principal.name} has at most {most:,} bytes"
            self._check(session.client, rights, "subscribe", allowed=False, reason=reason, now=now)

    def backlog_of(self, client: str, now: int) -> int | None:
        """The number of records of the log that may wait for a durable subscriber; None: any number."""
        return None if self._access is None else self._access.rights(client, now).limits.get("backlog")

    def _count(self, client: str) -> int:
        """The number of a client's subscriptions and advertisements, durable ones included."""
        session, own = self._clients[client.removeprefix("c:")], self._broker.clients[client]
        durable = sum(len(each.subscriptions) for each in session.durables.values())
        return len(own.subscriptions.by_id) + len(own.advertisements.by_id) + durable

    def check_durable(self, session: ClientSession, name: str, now: int, *, manage: bool = False) -> None:
        """Forbidden, unless a durable name is a client's own; in the same words whether or not it is in use."""
        if self._access is not None:
            rights = self._access.rights(session.client, now)
            owned = rights.owns("durables", name) or (manage and rights.allows("manage"))
            reason = f"the durable name {name!r} is not yours"
            self._check(session.client, rights, "durable", allowed=owned, reason=reason, now=now)

    def granted(self, client: str, action: str, requested: Filter, now: int) -> None:
        """A client has requested this: record the decision."""
        if self._access is not None and self.records.is_open:
            rights = self._access.rights(client, now)
            self.records.add(client, rights, rights.may(action, requested, now), self._access.policy, now)

    def visible(self, client: str, filter: Filter, now: int, action: str = "subscribe") -> Filter:
        """The part of a filter that a client may subscribe to, or publish."""
        if self._access is None:
            return filter
        granted = self._access.rights(client, now).may(action, filter, now).granted
        return NOTHING if granted is None else granted

    def inform(self, session: ClientSession, grant: Grant) -> None:
        """Send a client the filter that it got, where the policy lets clients know."""
        if self._access is not None and self._access.policy.tell:
            session.tell(wire.Granted(grant.id, render(grant.filter), grant.advertisement))

    def listened(self, session: ClientSession, filter: Filter, now: int, right: str = "publish") -> Filter:
        """The filter whose subscribers a client may learn of: only of notifications that it may publish; and whose
        producers: only of those that it may subscribe to."""
        if self._access is None:
            return filter
        rights = self._access.rights(session.client, now)
        decision = rights.may(right, filter, now)
        self.records.add(session.client, rights, replace(decision, action="listen"), self._access.policy, now)
        if decision.granted is None:
            raise Forbidden(decision.reason)
        return decision.granted

    @property
    def now(self) -> int:
        """The time by the clock of the broker."""
        return self._clock.now

    def count(self, session: ClientSession, now: int) -> None:
        """Record how many publications of a client were admitted since that was recorded."""
        if session.admitted and self._access is not None and self.records.is_open:
            rights = self._access.rights(session.client, now)
            self.records.count(session.client, rights, session.admitted, self._access.policy, now)
        session.admitted = 0

    def refused(self, client: str, reason: str) -> None:
        """A publication of a client was refused: record that."""
        if self._access is not None and self.records.is_open:
            decision = Decision("publish", "refused", None, None, (), reason)
            now = self._clock.now
            rights = self._access.rights(client, now)
            self.records.add(client, rights, decision, self._access.policy, now)

    def _check(
        self, client: str, rights: Rights, action: str, *, allowed: bool, reason: str, now: int
    ) -> None:
        if self._access is not None and self.records.is_open:
            outcome: Any = "granted" if allowed else "refused"
            decision = Decision(action, outcome, None, None, (), "" if allowed else reason)
            self.records.add(client, rights, decision, self._access.policy, now)
        if not allowed:
            raise Forbidden(reason)

    def _rights(self, principal: Principal, now: int) -> Rights:
        assert self._access is not None
        return self._fixed(principal) or self._access.policy.rights(principal, now)

    @staticmethod
    def _fixed(principal: Principal) -> Rights | None:
        """The broker's own clients may do everything."""
        return all_rights(principal) if principal.via == INTERNAL else None

    # -- changes -----------------------------------------------------------------------------------------------

    def delegate(self, session: ClientSession, delegation: Delegation, now: int) -> None:
        """A client's principal gives another one a part of its rights; Forbidden, where it may not."""
        if self._access is None:
            raise Forbidden("there is no policy here: everybody may do everything")
        policy, principal = self._access.policy, self.principal(session.client)
        delegation = replace(delegation, by=principal.name)
        given, to = delegation.grants, Principal(delegation.to).name
        every = [(action, each) for action in ACTIONS for each in given[action]]
        allowed = (
            ANONYMOUS not in (principal.name, to)
            and principal.name != to
            and not policy.is_revoked(principal)
            and bool(every)
            and all(any(policy.delegable(delegation, *each, now)) for each in every)
        )
        self._delegating(session, allowed=allowed, reason=f"you may not delegate that to {to}", now=now)
        self.delegations.add(delegation, now)
        self.decide_by(policy.of_file(), now)

    def undelegate(self, session: ClientSession, by: str, id: str, now: int) -> None:
        """End a delegation; Forbidden, where it is another's, in the same words as where there is none."""
        if self._access is None:
            raise Forbidden("there is no policy here: everybody may do everything")
        rights = self._access.rights(session.client, now)
        own = self.principal(session.client).name
        by = by or own
        is_known = any((each.by, each.id) == (by, id) for each in self.delegations.all)
        allowed = is_known and (by == own or rights.allows("manage"))
        self._delegating(session, allowed=allowed, reason=f"there is no delegation {id!r} of yours", now=now)
        self.delegations.remove(by, id)
        self.decide_by(self._access.policy.of_file(), now)

    def _delegating(self, session: ClientSession, *, allowed: bool, reason: str, now: int) -> None:
        assert self._access is not None
        rights = self._access.rights(session.client, now)
        self._check(session.client, rights, "delegate", allowed=allowed, reason=reason, now=now)

    def allows(self, session: ClientSession, right: str, now: int) -> bool:
        """Whether a client has a right; that is not recorded."""
        return self._access is None or self._access.rights(session.client, now).allows(right)

    def owns_type(self, session: ClientSession, name: str, now: int) -> bool:
        """Whether a client's roles let it declare a type of this name."""
        return self._access is None or self._access.rights(session.client, now).owns("types", name)

    def check_type(
        self, session: ClientSession, action: str, type: Filter, *, allowed: bool, reason: str, now: int
    ) -> None:
        """Record the decision about a declaration of a type; Forbidden where it is refused."""
        assert self._access is not None
        if self.records.is_open:
            rights = self._access.rights(session.client, now)
            outcome: Any = "granted" if allowed else "refused"
            decision = Decision(action, outcome, type, None, (), "" if allowed else reason)
            self.records.add(session.client, rights, decision, self._access.policy, now)
        if not allowed:
            raise Forbidden(reason)

    def decide_anew(self, now: int) -> None:
        """Decide by the same policy, and by what principals have decided by calls since."""
        if self._access is not None:
            self.decide_by(self._access.policy.of_file(), now)

    def _declared(self, schema: Schema | None) -> Iterator[OwnedType]:
        """The declared types. What cannot be read any longer is nobody's but its owner's."""
        for each in self.declared.all:
            if each.is_removed or (schema is not None and each.name not in schema.types):
                continue  # where the schema has no such type, there are no notifications of it
            try:
                yield each.owned(schema)
            except FilterError as error:
                log.error("the type %r of %s cannot be read: %s", each.name, each.owner, error)
                closed = replace(each, subscribe=("false",), publish=(), form=())
                yield closed.owned(schema)

    def decide_by(self, policy: AccessPolicy, now: int, tunnel: Tunnel | None = None) -> None:
        """Decide by another policy from now on, about connections and subscriptions that there are, too.

        What principals have delegated and declared by calls stays.
        """
        if self._access is not None:
            policy = policy.declaring(*self._declared(policy.schema))
            self._access.decide_by(policy.delegating(*self.delegations.all), now)
            if self._trust is not None:
                before = self._trust.version
                self._trust.decide_by(policy, tunnel)
                if self._trust.version != before:
                    self._access.all_changed()
                self._redisclose(now)
            self.tick(now)

    def seal_by(self, sealer: Sealer) -> None:
        """Take up the annotations of a policy and the keys of a keyring that were read anew."""
        rule = sealing_in(self._broker.seam.rules)
        if rule is not None:
            rule.renew(sealer)

    def tick(self, now: int) -> None:
        """From time to time: what credentials and hours have ended, ends."""
        access = self._access
        if access is None:
            return
        if now - self._counted_at >= COUNTED_US:
            self._counted_at = now
            for session in self._clients.values():
                self.count(session, now)
        self.records.flush(now)
        access.expire(now)
        if access.decided == self._decided_by:
            return
        self._decided_by = access.decided
        changed = access.take_changed()
        for session in list(self._clients.values()):
            self._look_at(session, now, has_changed=session.client in changed)
        for client in list(self._broker.clients):
            self._reconsider(client, now)
        for follow in self.decided:
            follow(now)
        for name, link in list(self._links.items()):
            principal = self._principals.get(name)
            if principal is not None and not self._rights(principal, now).allows("link"):
                link.end(f"the rights of {principal.name} have ended")

    def _look_at(self, session: ClientSession, now: int, *, has_changed: bool) -> None:
        """Disconnect a client that may not be connected; what waits for one whose rights are others is dropped."""
        assert self._access is not None
        rights, reason = self._access.rights(session.client, now), "your rights have ended"
        if not rights.allows("connect"):
            with suppress(Forbidden):  # which records it
                self._check(session.client, rights, "connect", allowed=False, reason=reason, now=now)
            session.end(reason, is_final=True)
        elif has_changed:
            session.drop_backlog()

    def _reconsider(self, client: str, now: int) -> None:
        """Grant a client what the rules say now of its subscriptions, and record what has changed."""
        own = self._broker.clients[client]
        declared = (("subscribe", own.subscriptions), ("advertise", own.advertisements))
        before = [{**each.by_id} for _, each in declared] if self.records.is_open else [{}, {}]
        self._regrant(client, now)
        for (action, each), held in zip(declared, before, strict=True):
            for id, filter in [*held.items()]:
                if each.by_id.get(id, filter) != filter:
                    self.granted(client, action, each.requested.get(id, each.by_id[id]), now)


def principal_to_json(principal: Principal) -> str:
    """A principal as the log of a broker has it: with what conditions may be about, without when it expires."""
    claims = {name: value for name, value in principal.claims.items() if name not in MOMENTS}
    return json.dumps(
        {"name": principal.name, "claims": claims, "via": principal.via, "token": principal.token}
    )


def principal_from_json(text: str) -> Principal:
    """The principal of such a text; nobody where it is none."""
    try:
        given = json.loads(text)
        return Principal(given["name"], given["claims"], given["via"], None, given["token"])
    except (ValueError, KeyError, TypeError, FairleadError):
        return NOBODY
