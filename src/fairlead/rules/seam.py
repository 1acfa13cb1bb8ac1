"""One object decides about every notification: whether it is admitted, and where it goes.

The steps at which a publication enters, the same on the live bus, the ordered bus and at brokers:

    offered ─▶ the producer is another's ────▶ refused
       │
       ├─▶ its identity is known ────────────▶ duplicate
       │
       ├─▶ a rule refuses it ────────────────▶ refused
       │
       └─▶ its identity is remembered ───────▶ admitted, with a producer and an id

A duplicate is a duplicate whatever the rules say now: the first one was admitted, and its publisher asks again
because it missed the answer. What is refused is not remembered: it may be published again. A client that may not
publish under a producer gets one answer, so that it cannot find out which ids there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, Protocol

from fairlead.channels import Channel, Channels
from fairlead.channels.waiting import Standing
from fairlead.errors import Forbidden
from fairlead.filters.filter import EVERYTHING, Filter
from fairlead.model import Notification
from fairlead.model.encoding import content_hash
from fairlead.model.order import Identity
from fairlead.rules.cells import Cells, Keys
from fairlead.rules.rule import Form, Refusal, Route, Rule

__all__ = ["IdentityMemory", "Keys", "Seam"]

NONE: Final[frozenset[str]] = frozenset()
NO_CHANNELS: Final = Channels()
PART_HINT: Final = "a pattern over a part of the events means something else: write the part into the pattern"


class IdentityMemory(Protocol):
    """The identities that a runtime remembers: `LatestIdentities`, or those of an ordered bus."""

    def __contains__(self, identity: Identity, /) -> bool: ...

    def take(self, notification: Notification, digest: str | None = None) -> Notification | None:
        """The notification with an id, which is remembered from now on; None where it was seen before."""
        ...


class Seam:
    """The questions, over a routing function and rules."""

    __slots__ = (
        *(
            "_admitting",
            "_cells",
            "_counting",
            "_declaring",
            "_disclosing",
            "_disowning",
            "_forming",
            "_granting",
            "_hiding",
            "_intercepting",
            "_marking",
        ),
        *("_narrowing", "_resolving", "_route", "_shaping", "channels", "learns_from", "rules"),
    )

    def __init__(self, route: Callable[[Notification, str], Route], rules: Iterable[Rule] = ()) -> None:
        self._route = route
        self._cells = Cells()
        """The values that the filters of the routing function tell apart."""
        self.rules = tuple(rules)
        self._intercepting = [each for each in self.rules if type(each).intercept is not Rule.intercept]
        self._admitting = [each for each in self.rules if type(each).admit is not Rule.admit]
        self._disowning = [each for each in self.rules if type(each).disown is not Rule.disown]
        self._shaping = [each for each in self.rules if type(each).form is not Rule.form]
        self._narrowing = [each for each in self.rules if type(each).narrow is not Rule.narrow]
        self._counting = [each for each in self.rules if type(each).published is not Rule.published]
        self._hiding = [each for each in self.rules if type(each).hidden is not Rule.hidden]
        self._granting = [each for each in self.rules if type(each).grant is not Rule.grant]
        self._resolving = [each for each in self.rules if type(each).resolve is not Rule.resolve]
        self._disclosing = [each for each in self.rules if type(each).disclose is not Rule.disclose]
        self._declaring = [each for each in self.rules if type(each).declare is not Rule.declare]
        self._forming = [each for each in self.rules if type(each).forms is not Rule.forms]
        self._marking = [each for each in self.rules if type(each).mark is not Rule.mark]
        self.channels = next((rule.channels for rule in self.rules if rule.channels is not None), NO_CHANNELS)
        """The channels that give notifications their quality of service."""
        self.learns_from = tuple(each.learns_from.encode() for each in self.rules if each.learns_from)
        """Each notification that rules learn from has one of these texts in its bytes."""
        for each in self._counting:
            if not each.depends.volatile:
                raise TypeError(f"{type(each).__name__} counts publications, and is not volatile")

    # -- about notifications ----------------------------------------------------------------------------------

    def intercept(self, who: str, notification: Notification) -> Notification | Refusal | None:
        """A client's publication as hooks want it, before all else; why it is refused; None: it is withheld."""
        for rule in self._intercepting:
            answer = rule.intercept(who, notification)
            if answer is None or isinstance(answer, Refusal):
                return answer
            notification = answer
        return notification

    def admit(self, who: str, notification: Notification, now: int) -> Notification | Refusal:
        """A client's publication as it is admitted, with a producer; or why it is not."""
        if not notification.producer:
            notification = replace(notification, producer=who)
        if self._disowning and (disowned := self.disown(who, notification.producer, now)) is not None:
            return disowned
        for rule in self._shaping:
            notification = rule.form(who, notification, now)
        for rule in self._admitting:
            refusal = rule.admit(who, notification, now)
            if refusal is not None:
                return refusal
        return notification

    def disown(self, who: str, producer: str, now: int) -> Refusal | None:
        """Why a client may not publish under a producer, whatever it publishes; None where it may."""
        for rule in self._disowning:
            refusal = rule.disown(who, producer, now)
            if refusal is not None:
                return refusal
        return None

    def route(self, notification: Notification, source: str) -> Route:
        """The destinations of a notification from a neighbour, or from a client if the source is empty."""
        forms = self._forms(notification, source) if self._forming else None
        if forms is not None:
            return self._route_of(forms, source, self._route)
        route = self._route(notification, source)
        return self.narrow(route, notification, source) if self._narrowing else route

    @property
    def changed_at(self) -> int:
        """Routes of records of the log from this offset on are those of now."""
        return max([rule.changed_at for rule in self._forming], default=0)

    def route_of_record(self, notification: Notification, source: str, offset: int) -> Route:
        """The route of a record of the log, by the state that the rules had there."""
        with self._judging_at(offset):
            return self.route(notification, source)

    def delivered_to(
        self,
        client: str,
        notification: Notification,
        source: str,
        offset: int,
        matching: Callable[[Notification], tuple[str, ...]],
    ) -> Route:
        """The part of such a route that is about one client, by its subscriptions of now."""

        def mine(form: Notification, source: str) -> Route:
            ids = matching(form)
            return Route((), ((client, ids),) if ids else ())

        with self._judging_at(offset):
            forms = self._forms(notification, source) or [Form(notification)]
            return self._route_of(forms, source, mine)

    @contextmanager
    def _judging_at(self, offset: int) -> Iterator[None]:
        for rule in self._forming:
            rule.judge_at(offset)
        try:
            yield
        finally:
            for rule in self._forming:
                rule.judge_at(None)

    def _forms(self, notification: Notification, source: str) -> Sequence[Form] | None:
        found = (rule.forms(notification, source) for rule in self._forming)
        return next((each for each in found if each is not None), None)

    def _route_of(
        self,
        forms: Sequence[Form],
        source: str,
        route_of: Callable[[Notification, str], Route],
    ) -> Route:
        neighbours: dict[str, None] = {}
        clients: list[tuple[str, tuple[str, ...]]] = []
        versions: list[tuple[str, tuple[str, ...], Notification]] = []
        for matched, delivered in forms:
            route = route_of(matched, source)
            if self._narrowing:
                route = self.narrow(route, matched, source)
            neighbours.update(dict.fromkeys(route.neighbours))
            if delivered is None:
                clients += route.clients
            else:
                versions += [(client, ids, delivered) for client, ids in route.clients]
        return Route(tuple(neighbours), tuple(clients), tuple(versions))

    @property
    def narrows(self) -> bool:
        """Whether some rule may narrow a route."""
        return bool(self._narrowing)

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        """The rest of a route that was not computed by `route`, after the rules have narrowed it."""
        for rule in self._narrowing:
            route = rule.narrow(route, notification, source)
        return route

    def mark(self, notification: Notification, now: int) -> Notification:
        """A publication that was taken, with what rules decide about it once, for all brokers."""
        for rule in self._marking:
            notification = rule.mark(notification, now)
        return notification

    def foresee(self, notification: Notification, now: int) -> Notification:
        """A publication as `mark` would leave it if it came now; nothing is decided by that. Pure."""
        for rule in self._marking:
            notification = rule.foresee(notification, now)
        return notification

    def forms(self, notification: Notification, source: str) -> Sequence[Form]:
        """The forms of a notification that are matched with routing entries. Pure."""
        found = self._forms(notification, source) if self._forming else None
        return [Form(notification)] if found is None else found

    def expires(self, notification: Notification) -> int | None:
        """The instant from which on a notification is handed to nobody for the first time, in microseconds; None:
        it does not expire. Pure: it is marked where the notification is published."""
        return self.channels.expires(notification)

    def held_until(self, notification: Notification, now: int) -> int | None:
        """The instant until which a publication that was taken is held where it was published, in microseconds;
        None: it goes on at once."""
        return self.channels.held_until(notification, now) if self.channels.hold else None

    def standing(self, notification: Notification) -> Standing:
        """The standing of a notification among all that waits with it for a subscriber. Pure, as `expires` is."""
        return self.channels.standing(notification)

    def channel(self, notification: Notification) -> Channel | None:
        """The channel that a notification is in: its quality of service. Pure, and the same at every broker."""
        return self.channels.of(notification)

    def learn(self, notification: Notification, offset: int) -> bool:
        """A notification is about to be routed: rules whose state follows from it learn; whether that changes
        routing entries."""
        changed = [rule.learn(notification, offset) for rule in self.rules if rule.learns_from]
        return any(changed)

    @property
    def declares(self) -> bool:
        """Whether routing entries may be other than the subscriptions they are for."""
        return bool(self._declaring)

    def declare(self, who: str, filter: Filter) -> Filter:
        """The routing entry of a client's subscription."""
        for rule in self._declaring:
            filter = rule.declare(who, filter)
        return filter

    def undeclare(self, entry: Filter) -> Filter:
        """The subscription that a routing entry is for, or a wider filter."""
        for rule in self._declaring:
            entry = rule.undeclare(entry)
        return entry

    def reaches(self, who: str, entry: Filter) -> bool:
        """Whether notifications of a client can come to the subscriber of a routing entry at all."""
        return all(rule.reaches(who, entry) for rule in self._declaring)

    # -- what clients request ----------------------------------------------------------------------------------

    @property
    def grants(self) -> bool:
        """Whether some rule may narrow, or refuse, what clients subscribe to and advertise."""
        return bool(self._granting)

    @property
    def grant_version(self) -> tuple[int, ...]:
        """The version of the grants: they hold as long as it stays the same."""
        return tuple([rule.version for rule in self._granting])

    def grant(self, who: str, action: str, filter: Filter, now: int) -> Filter | Refusal:
        """The part of a filter that a client is granted when it subscribes (`subscribe`) or advertises
        (`advertise`).

        The answer matches nothing that the filter does not. It holds until `grant_version` changes.
        """
        for rule in self._granting:
            granted = rule.grant(who, action, filter, now)
            if isinstance(granted, Refusal):
                return granted
            filter = granted
        return filter

    def refuse_part(self, who: str, filters: Iterable[Filter], now: int) -> Refusal | None:
        """The reason to refuse a pattern with these filters: its subscriber may see a part of what they match.

        None where all of it is granted. Over a part, a pattern would mean something else.
        """
        if hidden := self.hidden(who):
            names = ", ".join(map(repr, sorted(hidden)))
            reason = f"{who} may not read {names}, and a pattern reads whole notifications"
            return Refusal(reason, error=Forbidden)
        if self.withholds(who, now):
            reason = f"what {who} gets depends on predicates of its roles, and a pattern reads whole streams"
            return Refusal(reason, PART_HINT, Forbidden)
        for filter in filters if self.grants else ():
            granted = self.grant(who, "subscribe", filter, now)
            if isinstance(granted, Refusal):
                return granted
            if granted != filter:
                return Refusal(f"{who} may subscribe to a part of {filter} only", PART_HINT, Forbidden)
        return None

    def withholds(self, who: str, now: int) -> bool:
        """Whether a rule may keep something from a subscriber that its subscriptions match."""
        return any(rule.withholds(who, now) for rule in self._narrowing)

    def refuse_reading(self, who: str, names: Iterable[str]) -> Refusal | None:
        """The reason to refuse a condition that looks at these attributes: some are hidden from its subscriber."""
        hidden = self.hidden(who)
        read = [name for name in sorted(names) if name.partition(".")[0] in hidden] if hidden else []
        reason = f"{who} may not read {', '.join(map(repr, read))}"
        return Refusal(reason, error=Forbidden) if read else None

    def resolve(self, filter: Filter) -> Filter:
        """A filter of the same text that decides about more, by what this broker or bus knows beyond its text."""
        for rule in self._resolving:
            filter = rule.resolve(filter)
        return filter

    @property
    def resolves(self) -> bool:
        """Whether some rule knows more than the text of filters."""
        return bool(self._resolving)

    def hidden(self, who: str) -> frozenset[str]:
        """The attributes that a subscriber does not get to see. The answer holds until `version` changes."""
        return frozenset().union(*[rule.hidden(who) for rule in self._hiding]) if self._hiding else NONE

    # -- what neighbours may know --------------------------------------------------------------------------------

    @property
    def restricts(self) -> bool:
        """Whether some rule may keep a notification from a neighbour."""
        return bool(self._narrowing or self._forming or self._disclosing)

    def discloses_all(self, neighbour: str) -> bool:
        """Whether a neighbour may know every filter."""
        return not self._disclosing or self.disclose(neighbour, EVERYTHING) == EVERYTHING

    def disclose(self, neighbour: str, filter: Filter) -> Filter:
        """The part of a subscription or an advertisement that a neighbour is told of."""
        for rule in self._disclosing:
            filter = rule.disclose(neighbour, filter)
        return filter

    # -- the first steps of a publication ----------------------------------------------------------------------

    def take(
        self,
        who: str,
        notification: Notification,
        identities: IdentityMemory,
        now: int,
        digest: str | None = None,
    ) -> Notification | Refusal | None:
        """A client's publication with its identity, which is remembered; why it is refused; or None: a duplicate.

        Every admitted notification has a producer and an id, so that it can be told from all others. One without
        an id gets one from its `digest`, which is the same for equal records.
        """
        id = notification.id
        identity: Any = (notification.producer or who, id)
        if id is not None and identity in identities:
            return self.disown(who, identity[0], now)
        admitted = self.admit(who, notification, now)
        if isinstance(admitted, Refusal):
            return admitted
        if id is None and digest is None:
            digest = content_hash(admitted)
        identified = identities.take(admitted, digest)
        if identified is not None and self._counting:
            self.count(who, identified, now)
        return identified

    def count(self, who: str, notification: Notification, now: int) -> None:
        """A new publication was admitted: rules that count publications do so."""
        for rule in self._counting:
            rule.published(who, notification, now)

    def objection(self, who: str, notification: Notification, now: int) -> Refusal | None:
        """The reason to refuse a publication that was admitted earlier, if there is one now. Volatile rules are
        not consulted again."""
        refusals = (
            rule.admit(who, notification, now)
            for rule in self._admitting
            if rule.decides_again or not rule.depends.volatile
        )
        return self.disown(who, notification.producer, now) or next(filter(None, refusals), None)

    # -- what may be remembered --------------------------------------------------------------------------------

    def look_at(self, filter: Filter) -> None:
        """One more filter of the routing function decides where notifications go."""
        self._cells.add(filter)

    @property
    def admits_all(self) -> bool:
        """Whether no rule ever refuses a publication."""
        return not self._admitting and not self._disowning

    @property
    def version(self) -> tuple[int, ...]:
        """The version of the rules: remembered answers hold as long as it and the routing table stay the same."""
        rules = self.rules
        if len(rules) == 1:  # it is asked for with every publication
            return (rules[0].version,)
        return tuple([rule.version for rule in rules]) if rules else ()

    def is_plain_enough(self, source: str) -> bool:
        """Whether producer, id and plain fields are all that is needed to decide about what comes from there.

        Then several may be decided together, by what is remembered. Otherwise each is asked about by itself.
        """
        return not self.rules or not any(
            rule.depends_for(source).volatile for rule in self._concerned(source)
        )

    def remembered_as(self, source: str) -> str:
        """The source under which answers about a client's publications are remembered; empty if no rule
        distinguishes clients."""
        return source if self._tells_sources_apart else ""

    def keys(self, source: str) -> Keys | None:
        """All that the answers about notifications from one source depend on; None: too much to remember.

        This is the one place where the keys of remembered answers are made.
        """
        if not self.is_plain_enough(source):
            return None
        depends = [rule.depends_for(source) for rule in self._concerned(source)]
        cells = Cells.joined(self._cells, *(each.cells for each in depends)).keys()
        if cells is None:
            return None
        producer, id = any(each.producer for each in depends), any(each.id for each in depends)
        return cells.with_parts(producer=producer, id=id) if producer or id else cells

    def _concerned(self, source: str) -> list[Rule]:
        """The rules that the answers about what comes from there depend on.

        A rule that narrows is among them whatever it says of the source: routes are not asked for by client.
        """
        return [rule for rule in self.rules if not source or rule in self._narrowing or rule.concerns(source)]

    @property
    def _tells_sources_apart(self) -> bool:
        return any(rule.depends.source or type(rule).concerns is not Rule.concerns for rule in self.rules)
