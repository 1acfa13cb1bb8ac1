"""The access policy: a file with roles, delegations and revocations.

[roles.trader]
members = ["ada", "spiffe://acme/desk/*"]
requires = ["employee"]
when = 'via = "certificate"'
subscribe = ['type = "Quote" and exchange = "XETRA"']
producers = ["{name}-algo"]

[[delegations]]
by = "ada"
to = "bob"
subscribe = ['symbol = "IBM"']
until = "2027-01-01T00:00:00Z"

[brokers.hub]
handles = ['type = "Quote"']

[keys.police]
members = ["ada", "hub"]
grace_seconds = 600

[sealed.Accident]
location = "plain | police | fire"
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fairlead.configuration import (
    Format,
    Key,
    Kind,
    Reading,
    Table,
    count,
    file_of,
    made,
    one_of,
    parsed,
    read_toml,
    some_of,
    suggestion,
)
from fairlead.errors import FairleadError, PolicyError
from fairlead.filters import NOTHING, And, Constraint, Filter, Not, Op, Or, covers, parse, simplify
from fairlead.filters.filter import leaves
from fairlead.filters.language import render
from fairlead.filters.naming import Attributes
from fairlead.filters.schema import Schema
from fairlead.filters.terms import Attribute, quote_name
from fairlead.model import Instant
from fairlead.security.annotations import Annotation, Annotations
from fairlead.security.forms import ENVELOPE, Form
from fairlead.security.predicates import Predicate
from fairlead.security.principals import ANONYMOUS, HOUR_US, Principal
from fairlead.security.rights import ACTIONS, LATER_NAMES, LIMITS, NAMES, RIGHTS, Grant, Rights
from fairlead.security.trust import ALL_TRUSTED, UNTRUSTED, BrokerTrust, Untrusted

__all__ = ["POLICY_FILE", "AccessPolicy", "Delegation", "KeyClass", "OwnedType", "Role", "filter_of_type"]

FORMAT: Final = 1
"""The version of the file's format."""
TOKEN: Final = "token:"
"""Before the id of a token that is revoked."""
OWN_NAME: Final = "{name}"
EVERY_ATTRIBUTE: Final = "*"
_TIMED: Final = frozenset({"hour", "weekday"})

_most: Final = count(1, 1 << 50)
_INSTANT: Final = Kind(parsed(Instant.parse, "an instant such as 2027-01-01T00:00:00Z"), str)


@dataclass(frozen=True, slots=True)
class _Top:
    """The keys above the first table."""

    version: Annotated[int, Key("the version of the file's format", count(1, FORMAT))] = FORMAT
    tell: Annotated[
        bool,
        Key("clients learn to which filter a request was narrowed, and that one is refused"),
    ] = True
    revoked: Annotated[
        tuple[str, ...],
        Key("principals, by name, and tokens, as `token:ID`, that have no rights whatever the roles say"),
    ] = ()
    untrusted: Annotated[
        Untrusted,
        Key(
            "a subscription to which no way of trusted brokers leads from some broker: `refuse` it; `cut`: have"
            " the network in pieces for it; or `seal` what has to pass through other brokers",
            one_of(*UNTRUSTED),
        ),
    ] = "refuse"
    protected: Annotated[
        tuple[str, ...],
        Key(
            "attributes that subscribers do not get, and cannot subscribe by, unless a role lets them read these"
        ),
    ] = ()


@dataclass(frozen=True, slots=True)
class _Limited:
    """The filters that limit actions, as text."""

    subscribe: Annotated[
        tuple[str, ...], Key("filters: subscriptions are narrowed to what one of them matches")
    ] = ()
    publish: Annotated[
        tuple[str, ...], Key("filters: publications that none of them matches are refused")
    ] = ()
    advertise: Annotated[
        tuple[str, ...], Key("filters that advertisements are narrowed to", shown="those of `publish`")
    ] = ()


@dataclass(frozen=True, slots=True)
class _RoleTable(_Limited):
    """The keys of `[roles.NAME]`."""

    members: Annotated[
        tuple[str, ...],
        Key("the principals who have it: names, or patterns with `*`; `anonymous` is named by itself"),
    ] = ()
    requires: Annotated[tuple[str, ...], Key("roles that have to be active for it to be active")] = ()
    when: Annotated[
        str | None,
        Key("a filter on the principal: `name`, `via`, `claims.…`, `hour`, `weekday`", shown="always"),
    ] = None
    allow: Annotated[
        tuple[str, ...], Key(f"what it allows besides: {', '.join(RIGHTS)}", some_of(*RIGHTS))
    ] = ("connect",)
    producers: Annotated[
        tuple[str, ...],
        Key("patterns of producers under which its members publish, besides their own names"),
    ] = ()
    clients: Annotated[
        tuple[str, ...], Key("patterns of names under which they connect, besides their own")
    ] = ()
    durables: Annotated[
        tuple[str, ...], Key("patterns of durable names that are theirs, besides their own")
    ] = ()
    types: Annotated[
        tuple[str, ...], Key("patterns of types that they may declare, and then own (`fairlead policy type`)")
    ] = ()
    administers: Annotated[
        tuple[str, ...],
        Key("patterns of scopes and components that they may change, besides their own component"),
    ] = ()
    reads: Annotated[
        tuple[str, ...], Key("protected attributes that its members get to see; `*` stands for all of them")
    ] = ()
    predicates: Annotated[
        tuple[str, ...],
        Key("functions of requests, as `module:function(arguments)`, that what it grants depends on, too"),
    ] = ()
    project: Annotated[
        tuple[str, ...] | None,
        Key(
            "attributes: what its members publish by it has these alone, besides"
            " id, producer, time, sequence and type",
            shown="all",
        ),
    ] = None
    publish_as: Annotated[
        str | None, Key("the type that what its members publish by it has", shown="as they give it")
    ] = None
    delegate: Annotated[bool, Key("its members may delegate what it grants")] = False
    connections: Annotated[
        int | None, Key("how many connections each of its members may have", _most, shown="no limit")
    ] = None
    subscriptions: Annotated[
        int | None,
        Key("how many subscriptions and advertisements each of them may have", _most, shown="no limit"),
    ] = None
    filter_bytes: Annotated[
        int | None, Key("how long the text of a filter of theirs may be", _most, shown="no limit")
    ] = None
    backlog: Annotated[
        int | None,
        Key(
            "how many records of the log may wait for each of their durable subscribers; older ones are dropped",
            _most,
            shown="no limit",
        ),
    ] = None
    publications_per_second: Annotated[
        int | None,
        Key("how many notifications each of them may publish in a second", _most, shown="no limit"),
    ] = None
    bytes_per_second: Annotated[int | None, Key("and how many bytes of them", _most, shown="no limit")] = None


@dataclass(frozen=True, slots=True)
class _DelegationTable(_Limited):
    """The keys of `[[delegations]]`."""

    by: Annotated[str, Key("the principal who gives")] = ""
    to: Annotated[str, Key("the principal who gets")] = ""
    until: Annotated[Instant | None, Key("when it ends", _INSTANT, shown="never")] = None


@dataclass(frozen=True, slots=True)
class _BrokerTable:
    """The keys of `[brokers.NAME]`."""

    handles: Annotated[
        tuple[str, ...],
        Key("filters: what one of them matches, the broker may see; nothing else reaches it"),
    ] = ()
    public: Annotated[
        str | None,
        Key(
            'its public key, as `fairlead keys identity` prints it: with `untrusted = "seal"`, others seal for it',
            shown="none",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class _KeysTable:
    """The keys of `[keys.CLASS]`."""

    members: Annotated[
        tuple[str, ...], Key("the principals and brokers that are given the keys of the class")
    ] = ()
    grace_seconds: Annotated[
        int, Key("how long a key that was replaced is accepted for what is published", count(0, 31_536_000))
    ] = 600
    signed: Annotated[
        bool, Key("producers sign what they seal under the class; `[producers.NAME]` has their public keys")
    ] = False
    match: Annotated[
        Literal["keys", "tokens"],
        Key(
            "who decides about sealed values: those who have the `keys`, or also, for `=` and `in`, brokers"
            " without them, by `tokens` that tell which values are equal",
            one_of("keys", "tokens"),
        ),
    ] = "keys"


@dataclass(frozen=True, slots=True)
class _ProducerTable:
    """The keys of `[producers.NAME]`."""

    public: Annotated[
        str | None,
        Key(
            "its public key, as `fairlead keys identity` prints it, with which its signatures are checked",
            shown="required",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class _TypeTable:
    """The keys of `[types.NAME]`."""

    owners: Annotated[
        tuple[str, ...], Key("the principals whose type it is: names, or patterns with `*`")
    ] = ()
    subscribe: Annotated[
        tuple[str, ...],
        Key("filters: of this type, others get what one of them matches", shown="what their roles grant"),
    ] = ()
    publish: Annotated[
        tuple[str, ...],
        Key("filters: of this type, others publish and advertise what one of them matches", shown="nothing"),
    ] = ()
    form: Annotated[
        tuple[str, ...],
        Key("filters: what is published of this type matches one of them, whoever publishes it", shown="any"),
    ] = ()


POLICY_FILE: Final[Format] = {
    **file_of(_Top),
    "roles": Table(file_of(_RoleTable)[""].rows),
    "delegations": Table(file_of(_DelegationTable)[""].rows, several=True),
    "types": Table(file_of(_TypeTable)[""].rows),
    "brokers": Table(file_of(_BrokerTable)[""].rows),
    "keys": Table(file_of(_KeysTable)[""].rows),
    "producers": Table(file_of(_ProducerTable)[""].rows),
    "sealed": Table({}),
}
"""`policy.toml`. There is a table `[roles.NAME]` for each role, `[types.NAME]` for each type that has owners,
`[brokers.NAME]` for each broker, `[keys.CLASS]` for each key class, `[producers.NAME]` for each producer who
signs; `[sealed.TYPE]` has the classes of each sealed
attribute of a type."""


@dataclass(frozen=True, slots=True)
class Role:
    """The rights of its members while the role is active."""

    name: str
    members: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    when: Filter | None = None
    allow: frozenset[str] = frozenset({"connect"})
    grants: Mapping[str, tuple[Filter, ...]] = field(default_factory=dict)
    """By action, the filters that limit it."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By kind of name, the patterns of those that belong to its members."""
    delegate: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)
    reads: frozenset[str] = frozenset()
    """The protected attributes that its members get to see."""
    predicates: tuple[Predicate, ...] = ()
    """Functions of requests that what it grants depends on, too."""
    form: Form | None = None
    """The form in which its members publish by it."""

    @property
    def is_timed(self) -> bool:
        """Whether its condition is about the time."""
        constraints = () if self.when is None else leaves(self.when)
        return any(_TIMED & _attributes(each) for each in constraints)

    def has_member(self, principal: Principal) -> bool:
        """Whether a principal is one of its members."""
        if principal.name == ANONYMOUS:
            return ANONYMOUS in self.members
        return any(fnmatchcase(principal.name, each) for each in self.members)


@dataclass(frozen=True, slots=True)
class Delegation:
    """A principal gives another one a part of what it may do itself. What is delegated cannot be delegated on."""

    by: str
    to: str
    grants: Mapping[str, tuple[Filter, ...]]
    until: int | None = None
    id: str = ""
    """Its name among those that its giver has made by a call; empty: it is in the policy's file."""


@dataclass(frozen=True, slots=True)
class KeyClass:
    """The members of a key class, and for how long a replaced key is accepted."""

    members: tuple[str, ...] = ()
    grace_us: int = 600_000_000
    signed: bool = False
    """Whether producers sign what they seal under it."""
    match: str = "keys"
    """Whether brokers without the keys decide about equality, by `tokens`."""


@dataclass(frozen=True, slots=True)
class OwnedType:
    """A type that belongs to somebody, who decides about it. What roles grant to others is met with its limits."""

    name: str
    owners: tuple[str, ...] = ()
    limits: Mapping[str, Filter] = field(default_factory=dict)
    """By action, what others may do: all that is not of the type, and what its owners leave them."""
    form: Filter | None = None
    """The limit of everybody's publications: all that is not of the type, and what has its form."""
    members: frozenset[str] = frozenset()
    """The values of `type` that it stands for: with a schema, those below it, too."""
    is_declared: bool = False
    """Whether it was declared by a call; else it is in the policy's file."""

    @classmethod
    def of(
        cls,
        name: str,
        owners: tuple[str, ...],
        *,
        subscribe: Sequence[Filter],
        publish: Sequence[Filter],
        form: Sequence[Filter],
        schema: Schema | None,
        is_declared: bool = False,
    ) -> OwnedType:
        """The type with its limits as filters. Without any to subscribe by, others get what their roles grant."""
        others = Not(filter_of_type(name, schema))
        limits = {
            **({"subscribe": Or.of((others, *subscribe))} if subscribe else {}),
            **dict.fromkeys(("publish", "advertise"), Or.of((others, *publish))),
        }
        members = frozenset({name}) if schema is None else schema.type_members(name)
        return cls(name, owners, limits, Or.of((others, *form)) if form else None, members, is_declared)

    def is_owner(self, principal: Principal) -> bool:
        """Whether the type belongs to a principal."""
        return principal.name != ANONYMOUS and any(fnmatchcase(principal.name, each) for each in self.owners)


@dataclass(frozen=True)
class AccessPolicy:
    """Roles, delegations, revocations, and the trust of brokers. Nothing is granted that no active role grants."""

    roles: tuple[Role, ...] = ()
    delegations: tuple[Delegation, ...] = ()
    revoked: frozenset[str] = frozenset()
    tell: bool = True
    schema: Schema | None = None
    trust: BrokerTrust = ALL_TRUSTED
    keys: Mapping[str, KeyClass] = field(default_factory=dict)
    sealed: Annotations = field(default_factory=Annotations)
    protected: frozenset[str] = frozenset()
    """The attributes that only those get to see whose roles say so."""
    types: tuple[OwnedType, ...] = ()

    def __post_init__(self) -> None:
        if problems := [*_contradictions(self.roles), *_unprotectable(self.protected, self.roles)]:
            raise PolicyError("; ".join(problems))

    # -- the file ----------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | Path, schema: Schema | None = None) -> AccessPolicy:
        """The policy of a file; PolicyError names all that is wrong with it."""
        given = read_toml(path, PolicyError, "see docs/security.md for the file's form")
        return cls.of(given, schema, source=str(path), file=path)

    @classmethod
    def of(
        cls,
        given: Mapping[str, Any],
        schema: Schema | None = None,
        *,
        source: str = "the policy",
        file: str | Path | None = None,
    ) -> AccessPolicy:
        """The policy of the tables of such a file; of a `file`, errors have the lines."""
        reading = Reading(POLICY_FILE)
        top = _Top(**made(_Top, {"": reading.top(given)}))
        filters = _Filters(reading, schema)
        roles = tuple(_roles(reading, given.get("roles", {}), filters))
        delegations = tuple(_delegations(reading, given.get("delegations", []), filters))
        if not reading.problems:
            for problem in _contradictions(roles):
                reading.wrong("roles", "[roles]", problem)
            for problem in _unprotectable(top.protected, roles):
                reading.wrong("", "protected", problem)
        keys = _keys(reading, given.get("keys", {}))
        sealed = _sealed(reading, given.get("sealed", {}), keys, schema)
        sealed = replace(
            sealed,
            signed=frozenset(name for name, each in keys.items() if each.signed),
            publics=_producers(reading, given.get("producers", {})),
            tokens=frozenset(name for name, each in keys.items() if each.match == "tokens"),
        )
        trust = _trust(reading, given.get("brokers", {}), filters, top.untrusted)
        types = tuple(_types(reading, given.get("types", {}), filters))
        reading.check(source, PolicyError, file=file)
        return cls(
            roles,
            delegations,
            frozenset(top.revoked),
            top.tell,
            schema,
            trust,
            keys,
            sealed,
            frozenset(top.protected),
            types,
        )

    @cached_property
    def fingerprint(self) -> str:
        """The same for policies that decide alike by their text."""
        deciding: list[Any] = [
            self.tell,
            sorted(self.revoked),
            [_shown(each) for each in self.roles],
            [_shown(each) for each in self.delegations],
        ]
        if self.trust.handles:  # so that policies without it are called as before
            handles = {name: [render(each) for each in some] for name, some in self.trust.handles.items()}
            deciding += [self.trust.untrusted, handles]
            if self.trust.publics:
                deciding.append(dict(self.trust.publics))
        if self.keys or self.sealed.types:
            deciding += [
                {name: _shown_class(each) for name, each in self.keys.items()},
                {
                    type: {name: str(each) for name, each in of.items()}
                    for type, of in self.sealed.types.items()
                },
            ]
        if self.sealed.publics:
            deciding.append({"producers": dict(self.sealed.publics)})
        if self.protected:
            deciding.append({"protected": sorted(self.protected)})
        if self.types:
            deciding.append({"types": [_shown(each) for each in self.types]})
        text = json.dumps(deciding)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def grace_us(self) -> dict[str, int]:
        """By key class, for how many microseconds a key that was replaced is accepted."""
        return {name: each.grace_us for name, each in self.keys.items()}

    # -- changes -----------------------------------------------------------------------------------------------

    def revoking(self, *names: str) -> AccessPolicy:
        """The policy with these principals, or tokens as `token:ID`, revoked, too."""
        return replace(self, revoked=self.revoked | {*names})

    def delegating(self, *delegations: Delegation) -> AccessPolicy:
        """The policy with these delegations, too."""
        return replace(self, delegations=(*self.delegations, *delegations))

    def declaring(self, *types: OwnedType) -> AccessPolicy:
        """The policy with these types, too."""
        return replace(self, types=(*self.types, *types))

    def of_file(self) -> AccessPolicy:
        """The policy without the delegations and the types that were made by calls."""
        return replace(
            self,
            delegations=tuple(each for each in self.delegations if not each.id),
            types=tuple(each for each in self.types if not each.is_declared),
        )

    # -- what principals may do --------------------------------------------------------------------------------

    def rights(self, principal: Principal, now: int = 0) -> Rights:
        """The rights of a principal at a time, in microseconds."""
        active = self.active(principal, now)
        names = {
            kind: tuple(
                dict.fromkeys(
                    each.replace(OWN_NAME, _literal(principal.name))
                    for role in active
                    for each in role.names.get(kind, ())
                )
            )
            for kind in NAMES
        }
        grants: dict[str, tuple[Grant, ...]] = {
            action: tuple(
                Grant(role.name, each, role.predicates, role.form if action == "publish" else None)
                for role in active
                for each in role.grants.get(action, ())
            )
            for action in ACTIONS
        }
        if not self.is_revoked(principal):
            for action in ACTIONS:
                grants[action] += tuple(self._delegated(principal, action, now))
        for action in ACTIONS if self.types else ():
            grants[action] = tuple(self._owned(principal, action, grants[action]))
        return Rights(
            principal,
            tuple(role.name for role in active),
            frozenset().union(*(role.allow for role in active)),
            grants,
            names,
            _most_generous(active),
            self._until(principal, now),
            self.schema,
            self._hidden(active),
        )

    def _owned(self, principal: Principal, action: str, grants: Iterable[Grant]) -> Iterator[Grant]:
        """The grants within what the owners of types leave to a principal, and the forms of types."""
        limits = [
            each.limits[action]
            for each in self.types
            if action in each.limits and not each.is_owner(principal)
        ]
        if action != "subscribe":
            limits += [each.form for each in self.types if each.form is not None]
        for grant in grants:
            part = simplify(And.of((grant.filter, *limits)), self.schema) if limits else grant.filter
            if part != NOTHING:
                yield replace(grant, filter=part)

    def may_declare(self, principal: Principal, type: OwnedType, now: int) -> bool:
        """Whether a principal may declare a type, or declare it anew: a role lets it, and of the types that have
        notifications in common with it none is another's."""
        return self.rights(principal, now).owns("types", type.name) and all(
            each.is_owner(principal) for each in self.types if each.members & type.members
        )

    def _hidden(self, active: Iterable[Role]) -> frozenset[str]:
        """The protected attributes that none of these roles reads."""
        if not self.protected:
            return self.protected
        read = frozenset().union(*(role.reads for role in active))
        return frozenset() if EVERY_ATTRIBUTE in read else self.protected - read

    def active(self, principal: Principal, now: int = 0) -> tuple[Role, ...]:
        """The roles that are active for a principal: it is a member, their condition and all they require hold."""
        if self.is_revoked(principal) or (principal.until is not None and now >= principal.until):
            return ()
        facts = principal.facts(now)
        active: dict[str, Role] = {}
        for number in self._candidates(principal):
            role = self._in_order[number]
            if (
                all(each in active for each in role.requires)
                and role.has_member(principal)
                and (role.when is None or role.when.matches(facts))
            ):
                active[role.name] = role
        return tuple(active.values())

    def is_revoked(self, principal: Principal) -> bool:
        """Whether a principal, or its token, is revoked."""
        return principal.name in self.revoked or (
            bool(principal.token) and f"{TOKEN}{principal.token}" in self.revoked
        )

    def _delegated(self, principal: Principal, action: str, now: int) -> Iterator[Grant]:
        """The grants that others have delegated to a principal, each within what they may do now by roles
        that let them.

        Of those who give, only the name is known here: what they may do by claims is not delegated.
        """
        for each in self._delegations_to.get(principal.name, ()):
            for given in each.grants.get(action, ()):
                parts = self.delegable(each, action, given, now)
                for part in self._owned(Principal(each.by), action, parts) if self.types else parts:
                    yield replace(part, role=f"{each.by}'s delegation")

    def delegable(self, delegation: Delegation, action: str, given: Filter, now: int) -> Iterator[Grant]:
        """The parts of a filter of a delegation that its giver may give at a time, each with the role by which."""
        if delegation.until is not None and now >= delegation.until:
            return
        for role in self.active(Principal(delegation.by), now):
            for limit in role.grants.get(action, ()) if role.delegate else ():
                is_within = covers(limit, given, self.schema)
                part = given if is_within else simplify(And.of((given, limit)), self.schema)
                if part != NOTHING:
                    yield Grant(role.name, part, role.predicates, role.form if action == "publish" else None)

    def _until(self, principal: Principal, now: int) -> int | None:
        """When the rights of a principal may change by themselves."""
        ends = [principal.until, *(each.until for each in self._delegations_to.get(principal.name, ()))]
        later = [each for each in ends if each is not None and each > now]
        if self._is_timed:
            later.append((now // HOUR_US + 1) * HOUR_US)
        return min(later, default=None)

    # -- for many roles ----------------------------------------------------------------------------------------

    @cached_property
    def has_predicates(self) -> bool:
        """Whether some role depends on functions of requests."""
        return any(role.predicates for role in self.roles)

    @cached_property
    def has_forms(self) -> bool:
        """Whether members of some role publish in another form than they give."""
        return any(role.form is not None for role in self.roles)

    @cached_property
    def _is_timed(self) -> bool:
        return any(role.is_timed for role in self.roles)

    @cached_property
    def _in_order(self) -> tuple[Role, ...]:
        """Each role behind those that it requires."""
        by_name = {role.name: role for role in self.roles}
        order = TopologicalSorter({role.name: role.requires for role in self.roles}).static_order()
        return tuple(by_name[name] for name in order)

    @cached_property
    def _by_member(self) -> tuple[dict[str, list[int]], list[int]]:
        """By the name of a member, the numbers of roles; and of those with patterns."""
        named: dict[str, list[int]] = {}
        patterns: list[int] = []
        for number, role in enumerate(self._in_order):
            if any(_is_pattern(each) for each in role.members):
                patterns.append(number)
            else:
                for each in role.members:
                    named.setdefault(each, []).append(number)
        return named, patterns

    def _candidates(self, principal: Principal) -> list[int]:
        named, patterns = self._by_member
        return sorted({*named.get(principal.name, ()), *patterns})

    @cached_property
    def _delegations_to(self) -> dict[str, list[Delegation]]:
        by_name: dict[str, list[Delegation]] = {}
        for each in self.delegations:
            by_name.setdefault(each.to, []).append(each)
        return by_name

    # -- what looks wrong --------------------------------------------------------------------------------------

    def warnings(self) -> list[str]:
        """Entries that are valid but probably mistakes: roles without members, filters that match nothing."""
        found = [f"[roles.{role.name}]: it has no members" for role in self.roles if not role.members]
        for role in self.roles:
            for action, filters in role.grants.items():
                found += [
                    f"[roles.{role.name}] {action}: nothing matches {render(each)}"
                    for each in filters
                    if simplify(each, self.schema) == NOTHING
                ]
        for each in self.delegations:
            if not any(role.delegate and role.has_member(Principal(each.by)) for role in self.roles):
                found.append(f"[[delegations]]: {each.by} has no role that may delegate")
        for name, filters in self.trust.handles.items():
            if simplify(Or.of(filters), self.schema) == NOTHING:
                found.append(f"[brokers.{name}]: it handles nothing")
        return found


# -- reading ---------------------------------------------------------------------------------------------------


class _Filters:
    """Reads the filters of a file, and collects what is wrong with them."""

    def __init__(self, reading: Reading, schema: Schema | None) -> None:
        self._reading, self.schema = reading, schema

    def read(self, table: str, key: str, label: str, text: str, schema: bool = True) -> Filter | None:
        try:
            return parse(text, self.schema if schema else None)
        except FairleadError as error:
            self._reading.wrong(table, f"{label} {key}", str(error))
            return None

    def all(self, table: str, key: str, label: str, texts: Iterable[str]) -> tuple[Filter, ...]:
        read = (self.read(table, key, label, each) for each in texts)
        return tuple(each for each in read if each is not None)

    def grants(self, table: str, label: str, limited: _Limited) -> dict[str, tuple[Filter, ...]]:
        read: dict[str, tuple[Filter, ...]] = {
            action: self.all(table, action, label, getattr(limited, action)) for action in ACTIONS
        }
        read["advertise"] = read["advertise"] or read["publish"]
        return read


def filter_of_type(name: str, schema: Schema | None) -> Filter:
    """The filter for all of a type, with those below it where there is a schema; FilterError: it has none such."""
    flat = Constraint(Attribute("type"), Op.EQ, name)
    return flat if schema is None else parse(f"type is {quote_name(name)}", schema)


def _roles(reading: Reading, given: Any, filters: _Filters) -> Iterator[Role]:
    if not isinstance(given, Mapping):
        reading.wrong("roles", "[roles]", "a table [roles.NAME] for each role was expected")
        return
    for name, table in given.items():
        label = f"[roles.{name}]"
        role = _RoleTable(**made(_RoleTable, {"": reading.table("roles", table, label)}))
        when = None if role.when is None else filters.read("roles", "when", label, role.when, schema=False)
        yield Role(
            name,
            role.members,
            role.requires,
            when,
            frozenset(role.allow),
            filters.grants("roles", label, role),
            {kind: names for kind in NAMES if (names := getattr(role, kind)) or kind not in LATER_NAMES},
            role.delegate,
            {each: limit for each in LIMITS if (limit := getattr(role, each)) is not None},
            frozenset(role.reads),
            tuple(_predicates(reading, label, role.predicates)),
            _form(reading, label, role, filters.schema),
        )


def _form(reading: Reading, label: str, role: _RoleTable, schema: Schema | None) -> Form | None:
    """The form in which members of a role publish; its filters of publications are about that."""
    if role.project is None and role.publish_as is None:
        return None
    kept = None if role.project is None else frozenset(role.project)
    if kept is not None:
        for name in sorted(each for each in kept if "." in each):
            reading.wrong(
                "roles", f"{label} project", f"{name!r} is a name with dots: name {name.split('.')[0]!r}"
            )
        for text in role.publish:
            with suppress(FairleadError):  # which is said elsewhere
                read = Attributes.of(parse(text, schema))
                beyond = sorted({each.split(".")[0] for each in read.names} - kept - ENVELOPE)
                if read.is_whole or beyond:
                    what = ", ".join(map(repr, beyond)) or "whole notifications"
                    reading.wrong(
                        "roles", f"{label} publish", f"{text} reads {what}, which `project` leaves out"
                    )
    if role.publish_as is not None and schema is not None and role.publish_as not in schema.types:
        problem = f"the schema has no type {role.publish_as!r}{suggestion(role.publish_as, schema.types)}"
        reading.wrong("roles", f"{label} publish_as", problem)
    return Form(kept, role.publish_as)


def _predicates(reading: Reading, label: str, texts: Iterable[str]) -> Iterator[Predicate]:
    for text in texts:
        try:
            yield Predicate.parse(text)
        except PolicyError as error:
            reading.wrong("roles", f"{label} predicates", str(error))


def _types(reading: Reading, given: Any, filters: _Filters) -> Iterator[OwnedType]:
    if not isinstance(given, Mapping):
        reading.wrong("types", "[types]", "a table [types.NAME] for each type was expected")
        return
    for name, table in given.items():
        label = f"[types.{name}]"
        read = _TypeTable(**made(_TypeTable, {"": reading.table("types", table, label)}))
        if not read.owners:
            reading.wrong("types", f"{label} owners", "missing: the principals whose type it is")
        try:
            yield OwnedType.of(
                name,
                read.owners,
                subscribe=filters.all("types", "subscribe", label, read.subscribe),
                publish=filters.all("types", "publish", label, read.publish),
                form=filters.all("types", "form", label, read.form),
                schema=filters.schema,
            )
        except FairleadError as error:
            reading.wrong("types", label, str(error))


def _delegations(reading: Reading, given: Any, filters: _Filters) -> Iterator[Delegation]:
    for number, table in enumerate(given if isinstance(given, list) else [given], start=1):
        label = f"[[delegations]] {number}:"
        read = _DelegationTable(**made(_DelegationTable, {"": reading.table("delegations", table, label)}))
        for key in ("by", "to"):
            if not getattr(read, key):
                reading.wrong("delegations", f"{label} {key}", "missing: the name of a principal")
        until = None if read.until is None else read.until.microseconds
        yield Delegation(read.by, read.to, filters.grants("delegations", label, read), until)


def _trust(reading: Reading, given: Any, filters: _Filters, untrusted: Untrusted) -> BrokerTrust:
    if not isinstance(given, Mapping):
        reading.wrong("brokers", "[brokers]", "a table [brokers.NAME] for each broker was expected")
        return ALL_TRUSTED
    handles: dict[str, tuple[Filter, ...]] = {}
    publics: dict[str, str] = {}
    for name, table in given.items():
        label = f"[brokers.{name}]"
        broker = _BrokerTable(**made(_BrokerTable, {"": reading.table("brokers", table, label)}))
        read = (filters.read("brokers", "handles", label, text) for text in broker.handles)
        handles[name] = tuple(each for each in read if each is not None)
        if broker.public is not None:
            publics[name] = broker.public
        elif untrusted == "seal" and handles[name]:
            problem = 'with untrusted = "seal", each broker that handles something has a public key'
            reading.wrong("brokers", f"{label} public", problem)
    return BrokerTrust(handles, untrusted, filters.schema, publics)


def _keys(reading: Reading, given: Any) -> dict[str, KeyClass]:
    if not isinstance(given, Mapping):
        reading.wrong("keys", "[keys]", "a table [keys.CLASS] for each key class was expected")
        return {}
    classes: dict[str, KeyClass] = {}
    for name, table in given.items():
        read = _KeysTable(**made(_KeysTable, {"": reading.table("keys", table, f"[keys.{name}]")}))
        classes[name] = KeyClass(read.members, read.grace_seconds * 1_000_000, read.signed, read.match)
    return classes


def _producers(reading: Reading, given: Any) -> dict[str, str]:
    """By producer, its public key."""
    if not isinstance(given, Mapping):
        reading.wrong("producers", "[producers]", "a table [producers.NAME] for each producer was expected")
        return {}
    publics = {}
    for name, table in given.items():
        label = f"[producers.{name}]"
        read = _ProducerTable(**made(_ProducerTable, {"": reading.table("producers", table, label)}))
        if read.public is None:
            reading.wrong("producers", f"{label} public", "missing: what `fairlead keys identity` prints")
        else:
            publics[name] = read.public
    return publics


def _sealed(reading: Reading, given: Any, keys: Mapping[str, KeyClass], schema: Schema | None) -> Annotations:
    """The annotations of sealed attributes; their classes have to be listed."""
    expected = "a table [sealed.TYPE] was expected: an attribute, and its key classes as text"
    if not isinstance(given, Mapping) or not all(isinstance(each, Mapping) for each in given.values()):
        reading.wrong("sealed", "[sealed]", expected)
        return Annotations()
    if not all(isinstance(text, str) for table in given.values() for text in table.values()):
        reading.wrong("sealed", "[sealed]", expected)
        return Annotations()
    for type, table in given.items():
        for name, text in table.items():
            try:
                Annotation.parse(text)
            except PolicyError as error:
                reading.wrong("sealed", f"[sealed.{type}] {name}", str(error))
    if "sealed" in reading.unsound:
        return Annotations()
    try:
        annotations = Annotations.of(given, schema)
    except PolicyError as error:
        for problem in str(error).split("; ["):  # each names its place
            reading.problems.append(problem if problem.startswith("[") else f"[{problem}")
        return Annotations()
    for name in sorted(annotations.classes - {*keys}):
        reading.wrong("sealed", "[sealed]", f"there is no [keys.{name}]{suggestion(name, keys)}")
    return annotations


def _most_generous(roles: Iterable[Role]) -> dict[str, int]:
    """Of each limit, the largest that an active role sets; a role that sets none neither limits nor frees."""
    most: dict[str, int] = {}
    for role in roles:
        for name, limit in role.limits.items():
            most[name] = max(limit, most.get(name, 0))
    return most


def _contradictions(roles: Iterable[Role]) -> Iterator[str]:
    """Why roles cannot be together: a name twice, an unknown requirement, a cycle."""
    known = Counter(role.name for role in roles)
    yield from (f"two roles are named {name}" for name, times in known.items() if times > 1)
    unknown = False
    for role in roles:
        for each in role.requires:
            if each not in known:
                unknown = True
                yield f"{role.name} requires {each}, which is no role{suggestion(each, known)}"
    if not unknown:
        try:
            TopologicalSorter({role.name: role.requires for role in roles}).prepare()
        except CycleError as error:
            yield f"roles require one another in a cycle: {' - '.join(error.args[1])}"


def _unprotectable(protected: Iterable[str], roles: Iterable[Role]) -> Iterator[str]:
    """Why attributes cannot be protected, or are not."""
    known = set(protected)
    for name in sorted(known & ENVELOPE):
        yield f"{name!r} is not hidden from anybody: it is how notifications are known"
    yield from (
        f"{name!r} is a name with dots: protect {name.split('.')[0]!r}" for name in known if "." in name
    )
    for role in roles:
        for name in sorted(role.reads - known - {EVERY_ATTRIBUTE}):
            yield f"{role.name} reads {name!r}, which is not protected{suggestion(name, known)}"


def _attributes(constraint: Filter) -> frozenset[str]:
    term = getattr(constraint, "term", None)
    return frozenset({term.name}) if isinstance(term, Attribute) else frozenset()


def _is_pattern(member: str) -> bool:
    return any(each in member for each in "*?[")


def _literal(name: str) -> str:
    """A name as a pattern that nothing else matches."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in name)


def _shown_class(value: KeyClass) -> list[Any]:
    more = [value.signed, value.match]
    return [value.members, value.grace_us, *(more if more != [False, "keys"] else [])]


def _shown_form(form: Form) -> dict[str, Any]:
    return {"project": None if form.project is None else sorted(form.project), "as": form.publish_as}


def _shown(value: Role | Delegation | OwnedType) -> list[Any]:
    """The deciding part of the policy, as JSON."""
    if isinstance(value, OwnedType):
        limits = {action: render(each) for action, each in value.limits.items()}
        return [value.name, value.owners, limits, *([] if value.form is None else [render(value.form)])]
    grants = {action: [render(each) for each in filters] for action, filters in value.grants.items()}
    match value:
        case Role():
            when = None if value.when is None else render(value.when)
            return [
                value.name,
                value.members,
                value.requires,
                when,
                sorted(value.allow),
                grants,
                dict(value.names),
                value.delegate,
                dict(value.limits),
                sorted(value.reads),
                *([[each.text for each in value.predicates]] if value.predicates else []),
                *([] if value.form is None else [_shown_form(value.form)]),
            ]
        case Delegation():
            return [value.by, value.to, grants, value.until, *([value.id] if value.id else [])]
