"""Types that clients declare: every broker of the network comes to know whose they are.

A declaration is kept where it was made, and told over all links; each broker passes on what is new to it. A
neighbour that connects is told all of them, before anything else. So brokers that were apart agree again once
they are linked. A broker that handles nothing of a type is not told of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from fairlead.broker import Broker
from fairlead.errors import FilterError, Forbidden, ProtocolError, ValueRefused
from fairlead.filters import NOTHING, Constraint, Filter, Op
from fairlead.filters.terms import Attribute
from fairlead.network import wire
from fairlead.network.client_sessions import ClientSession
from fairlead.network.destinations import Link
from fairlead.network.guard import Guard
from fairlead.network.reports import TypeStatus
from fairlead.security.policy import filter_of_type
from fairlead.security.principals import ANONYMOUS
from fairlead.security.types import DeclaredType

__all__ = ["OwnedTypes"]

log: Final = logging.getLogger(__name__)
WITHOUT_POLICY: Final = "there is no policy here: everybody may do everything"
REVISION_MAX: Final = 1 << 62
"""Later than any time; a revision beyond it could not be replaced."""


class OwnedTypes:
    """The declared types of a broker: `guard` decides by them, the links tell neighbours of them."""

    def __init__(self, broker: Broker, guard: Guard, links: Mapping[str, Link]) -> None:
        self._broker, self._guard, self._links = broker, guard, links

    def declare(self, session: ClientSession, given: DeclaredType, now: int) -> None:
        """A client's principal declares a type, or alters its own; Forbidden, in the same words whether nobody
        may do that or another owns it. FilterError, ValueRefused: it cannot be such a type."""
        policy, principal = self._guard.policy, self._guard.principal(session.client)
        if policy is None:
            raise Forbidden(WITHOUT_POLICY)
        if not given.name.isprintable():
            raise ValueRefused("the name of a type has printable characters only")
        before = self._guard.declared.named(given.name)
        revision = max(now, 0 if before is None else before.revision + 1)
        made = replace(given, owner=principal.name, revision=revision)
        allowed = principal.name != ANONYMOUS
        try:
            allowed = allowed and policy.may_declare(principal, made.owned(policy.schema), now)
        except FilterError:
            if self._guard.owns_type(session, given.name, now):
                raise
            allowed = False  # what types there are is not for everybody
        reason = f"you may not declare the type {given.name!r}"
        self._guard.check_type(session, "declare", _of(given.name), allowed=allowed, reason=reason, now=now)
        self._take([made], "", now)

    def remove(self, session: ClientSession, name: str, now: int) -> None:
        """Remove a type that a client's principal has declared; that of another takes the right to manage."""
        if self._guard.policy is None:
            raise Forbidden(WITHOUT_POLICY)
        known, principal = self._guard.declared.named(name), self._guard.principal(session.client)
        may_manage = self._guard.allows(session, "manage", now)
        is_own = known is not None and known.owner == principal.name  # also once more, after a lost answer
        allowed = is_own or (known is not None and not known.is_removed and may_manage)
        reason = f"there is no type {name!r} of yours"
        self._guard.check_type(session, "remove", _of(name), allowed=allowed, reason=reason, now=now)
        assert known is not None
        revision = max(now, known.revision + 1)
        self._take([DeclaredType(name, known.owner, revision=revision, is_removed=True)], "", now)

    def hear(self, neighbour: str, message: wire.Types, now: int) -> None:
        """A neighbour tells of types. ProtocolError where they are none."""
        self._take([_read(each) for each in message.types], neighbour, now)

    def introduce(self, neighbour: str) -> None:
        """Tell a neighbour that is connected of all types that it handles something of."""
        self._tell(neighbour, self._guard.declared.all)

    def read_anew(self) -> None:
        """Tell all neighbours: what the file has now, or what they may know now, may be new to them."""
        for neighbour in self._links:
            self.introduce(neighbour)

    def report(self) -> list[TypeStatus]:
        """The declared types, by name."""
        return [
            TypeStatus(
                name=each.name,
                owner=each.owner,
                subscribe=[*each.subscribe],
                publish=[*each.publish],
                form=[*each.form],
            )
            for each in self._guard.declared.all
            if not each.is_removed
        ]

    def _take(self, declared: list[DeclaredType], source: str, now: int) -> None:
        before = {each.name: each for each in self._guard.declared.all}
        taken = self._guard.declared.take(declared)
        if not taken:
            return
        for each in taken:
            other = before.get(each.name)
            if other is not None and not other.is_removed and other.owner != each.owner:
                log.warning("the type %r is %s's now, and was %s's", each.name, each.owner, other.owner)
        self._guard.decide_anew(now)
        for neighbour in self._links:
            if neighbour != source:
                self._tell(neighbour, taken)

    def _tell(self, neighbour: str, declared: Iterable[DeclaredType]) -> None:
        disclose, session = self._broker.seam.disclose, self._links[neighbour].session
        told = [_text(each) for each in declared if disclose(neighbour, self._all_of(each.name)) != NOTHING]
        if told and session is not None:
            session.tell(wire.Types(told))

    def _all_of(self, name: str) -> Filter:
        """All of a type, with those below it where there is a schema that has it."""
        schema = self._broker.catalogue.schema
        return _of(name) if schema is None or name not in schema.types else filter_of_type(name, schema)


def _of(name: str) -> Filter:
    return Constraint(Attribute("type"), Op.EQ, name)


def _text(each: DeclaredType) -> wire.TypeText:
    filters = [*each.subscribe], [*each.publish], [*each.form]
    return each.name, each.owner, each.revision, each.is_removed, *filters


def _read(text: wire.TypeText) -> DeclaredType:
    name, owner, revision, is_removed, subscribe, publish, form = text
    if not name or len(name.encode()) > wire.NAME_MAX or not 0 <= revision <= REVISION_MAX:
        raise ProtocolError("a type has a name and a revision")
    filters = tuple(subscribe), tuple(publish), tuple(form)
    return DeclaredType(name, owner, *filters, revision=revision, is_removed=is_removed)
