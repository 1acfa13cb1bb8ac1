"""The rights of a principal at a time, and the decision about each of its requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias

from fairlead.errors import FilterError
from fairlead.filters import EVERYTHING, NOTHING, And, Filter, Or, covers, overlaps, simplify
from fairlead.filters.naming import Attributes
from fairlead.filters.schema import Schema
from fairlead.model import Notification
from fairlead.security.candidates import Candidates, plainly_covers, texts_of
from fairlead.security.forms import Form
from fairlead.security.predicates import Predicate, Request
from fairlead.security.principals import SEPARATOR, Principal

__all__ = ["ACTIONS", "LIMITS", "NAMES", "RIGHTS", "Action", "Decision", "Grant", "Rights", "all_rights"]

Action: TypeAlias = Literal["subscribe", "publish", "advertise"]
ACTIONS: Final[tuple[Action, ...]] = ("subscribe", "publish", "advertise")
"""The actions that a filter limits."""
RIGHTS: Final = {
    "connect": "connect as a client",
    "link": "connect as a broker, under one's own name",
    "inspect": "read the status, the routing tables and the durable subscribers of a broker",
    "manage": "end connections, drain a broker, make and end its links, end any durable subscriber",
    "scopes": "change the scope graph",
}
"""The rights that a principal has or has not."""
SCOPES: Final = "scopes"
"""The producer of changes of the scope graph (`rules.integrated.CHANGES`)."""


ADMINISTRATOR: Final = f"{SCOPES}{SEPARATOR}"
"""The beginning of the names of administrators' clients; the principal's name follows."""


def is_of_scopes(name: str) -> bool:
    """Whether clients of this name change the scope graph: administrators, and the followers of brokers."""
    return is_administrator(name) or name.startswith(f"{SCOPES}@")


def is_administrator(name: str) -> bool:
    """Whether clients of this name are administrators of the scope graph, who publish as `SCOPES`."""
    return name == SCOPES or name.startswith(ADMINISTRATOR)


def name_of_administrator(name: str, principal: Principal) -> str:
    """The name of an administrator's client, with the principal's: nobody else's connection has that."""
    own = f"{ADMINISTRATOR}{principal.name}"
    if not name.startswith(ADMINISTRATOR) or name == own or name.startswith(f"{own}{SEPARATOR}"):
        return name
    return f"{own}{SEPARATOR}{name.removeprefix(ADMINISTRATOR)}"


LIMITS: Final = (
    "connections",
    "subscriptions",
    "filter_bytes",
    "backlog",
    "publications_per_second",
    "bytes_per_second",
)
FEW: Final = 8
"""So many grants are gone through one by one."""
NAMES: Final = ("producers", "clients", "durables", "administers", "types")
"""The kinds of names that belong to principals: those of `administers` are scopes and components."""
LATER_NAMES: Final = ("administers", "types")
"""Of these kinds a role has an entry only where it names some, so that policies without are called as before."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The grant of one role for one action: all notifications that a filter matches."""

    role: str
    filter: Filter
    predicates: tuple[Predicate, ...] = ()
    """Functions of requests that have to hold, too."""
    form: Form | None = None
    """The form in which it lets publish; None: as it is given."""

    def concerns(self, request: Request) -> bool:
        """Whether the predicates hold for a request."""
        return all(each.holds(request) for each in self.predicates)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a request, and the roles that it is based on."""

    action: str
    outcome: Literal["granted", "narrowed", "refused"]
    requested: Filter | None
    granted: Filter | None
    roles: tuple[str, ...] = ()
    reason: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether nothing of the request is granted."""
        return self.outcome == "refused"


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of a principal. They hold `until` a time, or as long as the policy does."""

    principal: Principal
    roles: tuple[str, ...]
    allowed: frozenset[str]
    grants: Mapping[str, tuple[Grant, ...]]
    """By action."""
    names: Mapping[str, tuple[str, ...]]
    """By kind of name, the patterns of those that belong to the principal, besides its own."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """The limits on the principal's use, by the names of `LIMITS`."""
    until: int | None = None
    """When they may change though the policy does not, in microseconds."""
    schema: Schema | None = None
    hidden: frozenset[str] = frozenset()
    """The attributes that the principal does not get to see."""
    _candidates: dict[str, Candidates] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By action, the index of its grants, where there are many."""
    _latest: dict[str, Decision] = field(default_factory=dict, init=False, repr=False, compare=False)
    """By action, the latest decision that follows from these rights and the request alone: a request is decided
    about when it is prepared, when it is carried out, and when that is recorded."""

    def may(self, action: str, requested: Filter, now: int = 0) -> Decision:
        """The decision about a subscription, an advertisement or a kind of publications.

        A request is met with the limit, never replaced by it. Where it is not known whether the limit covers the
        request, the decision is `narrowed`, and what is granted is the same.

        A request that reads a hidden attribute is refused: what it matches would say what is in it. A limit may
        read hidden attributes, for its author decides about that.
        """
        latest = self._latest.get(action)
        if latest is not None and latest.requested is requested:
            return latest
        decision, is_lasting = self._decided(action, requested, now)
        if is_lasting:
            self._latest[action] = decision
        return decision

    def _decided(self, action: str, requested: Filter, now: int) -> tuple[Decision, bool]:
        """A decision, and whether it would be the same at any time."""
        if self.hidden and action == "subscribe" and (read := Attributes.of(requested).reading(self.hidden)):
            reason = f"{self.principal.name} may not read {', '.join(map(repr, read))}"
            return Decision(action, "refused", requested, None, (), reason), True
        texts = texts_of(requested)
        grants = self._concerned(action, requested, texts)
        is_lasting = not any(each.predicates for each in grants)
        if not is_lasting:
            request = Request(self.principal, action, now, filter=requested)
            grants = [each for each in grants if each.concerns(request)]
        return self._within(action, requested, grants, texts), is_lasting

    def _within(
        self, action: str, requested: Filter, grants: Sequence[Grant], texts: Mapping[str, frozenset[str]]
    ) -> Decision:
        """The part of a request within some grants."""
        schema = self.schema
        covering = next(
            (each for each in grants if plainly_covers(each.filter, requested, texts)), None
        ) or next((each for each in grants if covers(each.filter, requested, schema)), None)
        if covering is not None:
            return Decision(action, "granted", requested, requested, (covering.role,))
        # What is left of one is seen when it is simplified.
        partial = [each for each in grants if len(grants) == 1 or overlaps(each.filter, requested, schema)]
        if not partial:
            return self._refused(action, requested)
        limit = Or.of(dict.fromkeys(each.filter for each in partial))
        if len(partial) > 1 and covers(limit, requested, schema):
            return Decision(action, "granted", requested, requested, _roles(partial))
        try:
            granted = simplify(And.of((requested, limit)), schema)
        except FilterError as error:
            return Decision(action, "refused", requested, None, (), f"it cannot be narrowed: {error}")
        if granted == NOTHING:
            return self._refused(action, requested)
        return Decision(action, "narrowed", requested, granted, _roles(partial))

    def _concerned(
        self, action: str, requested: Filter, texts: Mapping[str, frozenset[str]]
    ) -> Sequence[Grant]:
        """The grants that may overlap a request."""
        grants = self.grants.get(action, ())
        if len(grants) <= FEW:
            return grants
        if (index := self._candidates.get(action)) is None:
            labelled = ((None if each.predicates else each.role, each.filter) for each in grants)
            index = self._candidates[action] = Candidates(labelled)
        found = index.of(requested, texts)
        return [
            each if each.filter is filter else replace(each, filter=filter)
            for each, filter in ((grants[number], filter) for number, filter in found)
        ]

    def _refused(self, action: str, requested: Filter) -> Decision:
        acting = f"as {', '.join(self.roles)}" if self.roles else "without a role"
        reason = f"{self.principal.name} may not {action} to that {acting}"
        return Decision(action, "refused", requested, None, (), reason.replace("publish to", "publish"))

    def may_publish(self, notification: Notification, now: int = 0, *, as_given: bool = False) -> bool:
        """Whether a notification lies within the limit of publications, in the form of the role that says so; or
        `as_given`, by a role that says nothing of forms."""
        return any(
            self._holds(each, "publish", notification, now)
            for each in self.grants["publish"]
            if each.form is None or (not as_given and each.form.of(notification) is notification)
        )

    @property
    def forms(self) -> bool:
        """Whether something is published in another form than it is given in."""
        return any(each.form is not None for each in self.grants["publish"])

    def formed(self, notification: Notification, now: int = 0) -> Notification:
        """A notification in the form in which it is published: as it is given, where some role lets publish that;
        else in the form of the first role that lets publish it so."""
        if self.may_publish(notification, now, as_given=True):
            return notification
        for each in self.grants["publish"]:
            if each.form is not None:
                formed = each.form.of(notification)
                if self._holds(each, "publish", formed, now):
                    return formed
        return notification  # it is refused

    def may_get(self, notification: Notification, now: int = 0) -> bool:
        """Whether a notification that a granted subscription matches is delivered, by the predicates of roles."""
        return any(self._holds(each, "deliver", notification, now) for each in self.grants["subscribe"])

    def _holds(self, grant: Grant, action: str, notification: Notification, now: int) -> bool:
        return grant.filter.matches(notification) and (
            not grant.predicates or grant.concerns(Request(self.principal, action, now, notification))
        )

    def is_same_as(self, other: Rights) -> bool:
        """Whether the other rights allow the same, whoever has them, and however long either of them holds."""
        return replace(self, until=other.until, principal=other.principal) == other

    def granting(self, action: str, grant: Grant) -> Rights:
        """The same rights, with one more grant."""
        return replace(self, grants={**self.grants, action: (*self.grants.get(action, ()), grant)})

    def allows(self, right: str) -> bool:
        """Whether some active role has one of the `RIGHTS`."""
        return right in self.allowed

    def owns(self, kind: str, name: str) -> bool:
        """Whether a producer, the name of a client, a durable name or a scope belongs to the principal.

        Its own name does, all that begin with its name and a tilde do, and those of its roles.
        """
        own = self.principal.name
        if kind in NAMES and is_of_scopes(name):
            is_their_name = name == SCOPES and kind in ("clients", "producers")
            if kind == "clients" and name.startswith(ADMINISTRATOR):
                is_their_name = name == name_of_administrator(name, self.principal)
            return self.allows("scopes") or (is_their_name and bool(self.names.get("administers")))
        return (
            name == own
            or name.startswith(f"{own}{SEPARATOR}")
            or any(fnmatchcase(name, each) for each in self.names.get(kind, ()))
        )


def all_rights(principal: Principal) -> Rights:
    """The rights of a broker's own clients: everything."""
    everything = (Grant("the broker itself", EVERYTHING),)
    return Rights(
        principal,
        ("the broker itself",),
        frozenset(RIGHTS),
        dict.fromkeys(ACTIONS, everything),
        dict.fromkeys(NAMES, ("*",)),
        {},
    )


def _roles(grants: Iterable[Grant]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.role for each in grants))
