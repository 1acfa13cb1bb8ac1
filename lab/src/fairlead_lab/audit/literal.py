"""The specifications as the book writes them: temporal formulas over states, for small traces.

A state is what the components have subscribed to, advertised and published so far, and the action that comes
next (book 2.5.1, Tables 2.3 and 2.5). Free variables are quantified over what the trace mentions, so the size
of a formula grows quickly; `specifications` has programs for the same properties, which are tested against
these formulas.

A trace that has ended stands still for ever: a lasso. One that has not is a prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import Any, Final

from fairlead.audit import Verdict
from fairlead.audit.orders import key_rank, number_rank
from fairlead.audit.trace import (
    Advertised,
    Ended,
    Event,
    Notified,
    Published,
    Ready,
    Subscribed,
    Unadvertised,
    Unsubscribed,
)
from fairlead.model.order import Identity, OrderKey, causes_of
from fairlead_lab.audit.formulas import (
    Atom,
    Formula,
    Lasso,
    Prefix,
    always,
    eventually,
    exists,
    following,
    for_all,
    judge,
)

__all__ = ["FORMULAS", "State", "World", "first_only", "obligations", "states_of", "trace_of", "world_of"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A subscription in S_Y or an advertisement in A_X, with what is known about it by now."""

    number: int
    declared: Subscribed | Advertised
    until: OrderKey | None
    ready: bool
    active: bool = True
    """Whether an `unsub` or `unadv` would end it; one with an order key ends it and leaves it valid below."""

    def admits(self, publication: Published) -> bool:
        """Whether a notification matches, and its order key is valid."""
        since, key = self.declared.since, publication.key
        valid = (since is None or since <= key) and (self.until is None or key < self.until)
        return valid and self.declared.filter.matches(publication.notification)


@dataclass(frozen=True, slots=True)
class State:
    """The specification variables, and the action that is executed next; None where nothing happens any more."""

    index: int
    action: Event | None
    entries: tuple[Entry, ...] = ()
    published: frozenset[Identity] = frozenset()
    announced: tuple[Advertised, ...] = ()
    """All advertisements so far, those included that have ended."""

    def after(self) -> State:
        """The state that the action leads to, its own action aside."""
        state = replace(self, index=self.index + 1)
        match self.action:
            case Published():
                return replace(state, published=self.published | {self.action.identity})
            case Subscribed():
                return replace(state, entries=self._begun(self.action))
            case Advertised():
                entries = self._begun(self.action)
                announced = self.announced if entries is self.entries else (*self.announced, self.action)
                return replace(state, entries=entries, announced=announced)
            case Unsubscribed(component, id, until):
                return replace(state, entries=self._ended(Subscribed, component, id, until))
            case Unadvertised(component, id, until):
                return replace(state, entries=self._ended(Advertised, component, id, until))
            case Ready(component, id, advertisement):
                kind = Advertised if advertisement else Subscribed
                return replace(
                    state,
                    entries=tuple(
                        replace(each, ready=True) if _is(each, kind, component, id) else each
                        for each in self.entries
                    ),
                )
            case _:
                return state

    def _begun(self, declared: Subscribed | Advertised) -> tuple[Entry, ...]:
        if any(_is(each, type(declared), declared.component, declared.id) for each in self.entries):
            return self.entries
        return (*self.entries, Entry(self.index, declared, declared.until, declared.ready))

    def _ended(self, kind: type, component: str, id: str, until: OrderKey | None) -> tuple[Entry, ...]:
        kept = []
        for each in self.entries:
            if not _is(each, kind, component, id):
                kept.append(each)
            elif until is not None:
                least = until if each.until is None else min(until, each.until)
                kept.append(replace(each, until=least, active=False))
        return tuple(kept)

    def entry(self, number: int) -> Entry | None:
        return next((each for each in self.entries if each.number == number), None)

    def __str__(self) -> str:
        return "rest" if self.action is None else f"{self.action}"


def _is(entry: Entry, kind: type, component: str, id: str) -> bool:
    declared = entry.declared
    return entry.active and type(declared) is kind and (declared.component, declared.id) == (component, id)


def states_of(events: Sequence[Event]) -> list[State]:
    """The states of a trace, one for each action, and one more behind the last."""
    states = [State(0, events[0] if events else None)]
    for action in (*events[1:], None)[: len(events)]:
        states.append(replace(states[-1].after(), action=action))
    return states


def trace_of(events: Sequence[Event]) -> Lasso | Prefix:
    """A trace that stands still where it has ended, and is open where it has not."""
    states = states_of(events)
    if events and isinstance(events[-1], Ended):
        return Lasso(tuple(states[:-1]), (states[-1],))
    return Prefix(tuple(states))  # the last one does nothing: an internal action may always come in between


@dataclass(frozen=True, slots=True)
class World:
    """The domains of the variables: all that a trace mentions."""

    components: tuple[str, ...]
    publications: dict[Identity, Published]
    identities: tuple[Identity, ...]
    entries: dict[int, Subscribed | Advertised]


def world_of(events: Sequence[Event]) -> World:
    """The domains of a trace."""
    publications = {each.identity: each for each in events if isinstance(each, Published)}
    notified = [each for each in events if isinstance(each, Notified)]
    begun = [each for each in events if isinstance(each, Subscribed | Advertised)]
    components = {
        *(each.component for each in publications.values()),
        *(each.component for each in notified),
        *(each.component for each in begun),
    }
    entries = {entry.number: entry.declared for state in states_of(events) for entry in state.entries}
    return World(
        tuple(sorted(components)),
        publications,
        tuple(sorted({*publications, *(each.identity for each in notified)})),
        entries,
    )


def first_only(events: Iterable[Event]) -> list[Event]:
    """The trace without repeated notifications: the orders are judged by the first ones."""
    seen: set[tuple[str, Identity]] = set()
    kept: list[Event] = []
    for event in events:
        if isinstance(event, Notified):
            if (event.component, event.identity) in seen:
                continue
            seen.add((event.component, event.identity))
        kept.append(event)
    return kept


# -- atoms -------------------------------------------------------------------------------------------------


def _notify(component: str, identity: Identity) -> Formula:
    return Atom(
        f"notify({component}, {identity.id})",
        lambda state: (
            isinstance(state.action, Notified)
            and (state.action.component, state.action.identity) == (component, identity)
        ),
    )


def _pub(identity: Identity) -> Formula:
    return Atom(
        f"pub({identity.producer}, {identity.id})",
        lambda state: isinstance(state.action, Published) and state.action.identity == identity,
    )


def _published(identity: Identity) -> Formula:
    return Atom(f"{identity.id} ∈ P", lambda state: identity in state.published)


def _matched(kind: type[Subscribed] | type[Advertised], component: str, publication: Published) -> Formula:
    variable = "S" if kind is Subscribed else "A"
    return Atom(
        f"{publication.identity.id} ∈ N({variable}_{component})",
        lambda state: any(
            type(each.declared) is kind and each.declared.component == component and each.admits(publication)
            for each in state.entries
        ),
    )


def _unrestricted(publication: Published) -> Formula:
    """A producer that has not advertised for this order key yet may publish everything."""
    return Atom(
        f"{publication.component} has not advertised",
        lambda state: (
            not any(
                each.component == publication.component
                and (each.since is None or each.since <= publication.key)
                for each in state.announced
            )
        ),
    )


def _valid(number: int, publication: Published) -> Formula:
    """The subscription or advertisement is in force, and admits the notification."""

    def holds(state: State) -> bool:
        entry = state.entry(number)
        return entry is not None and entry.admits(publication)

    return Atom(f"F{number} ∈ S, {publication.identity.id} ∈ N(F{number})", holds)


def _ready(number: int) -> Formula:
    def holds(state: State) -> bool:
        entry = state.entry(number)
        return entry is not None and entry.ready

    return Atom(f"F{number} is ready", holds)


# -- simple event systems (Definitions 2.5 and 2.9) --------------------------------------------------------


def _subscribed(world: World) -> Formula:
    return _for_published(world, lambda y, n: always(_notify(y, n.identity) >> _matched(Subscribed, y, n)))


def _was_published(world: World) -> Formula:
    return _for_any(world, lambda y, n: always(_notify(y, n) >> _published(n)))


def _once(world: World) -> Formula:
    return _for_any(world, lambda y, n: always(_notify(y, n) >> following(always(~_notify(y, n)))))


def _advertised(world: World) -> Formula:
    def formula(y: str, n: Published) -> Formula:
        allowed = _matched(Advertised, n.component, n) | _unrestricted(n)
        return always((_pub(n.identity) & ~allowed) >> always(~_notify(y, n.identity)))

    return _for_published(world, formula)


def obligations(events: Sequence[Event], *, advertisements: bool) -> dict[tuple[str, Identity], Verdict]:
    """The verdict on each notification that may have to be delivered, for each component.

    The book's liveness (2.2, 2.7) lets some finite time pass until a subscription has effect, which no finite
    trace can contradict. With `ready` the moment is in the trace, and that is what is judged here:

        pub(X, n) ∧ F ready ∧ □(F ∈ S_Y ∧ n ∈ N(F)) ⇒ ◇notify(Y, n)

    at the place of the publication. A subscription from an order key on need not stand before it: then the
    condition, at the beginning of the trace, is ◇(F ∈ S_Y) ∧ □(F ∈ S_Y ⇒ □(F ∈ S_Y ∧ n ∈ N(F))).
    """
    world, trace = world_of(events), trace_of(events)
    found: dict[tuple[str, Identity], Verdict] = {}
    for index, event in enumerate(events):
        if not isinstance(event, Published):
            continue
        announced = _advertisement_binds(world, trace, event, index) if advertisements else Verdict.HOLDS
        for number, declared in world.entries.items():
            if not isinstance(declared, Subscribed):
                continue
            binds = min(_binds(number, declared, event, trace, index), announced, key=_ASCENDING.index)
            if binds is not Verdict.VIOLATED:
                told = judge(eventually(_notify(declared.component, event.identity)), trace, index)
                verdict = max(_ASCENDING[2 - _ASCENDING.index(binds)], told, key=_ASCENDING.index)
                slot = (declared.component, event.identity)
                found[slot] = min(verdict, found.get(slot, verdict), key=_ASCENDING.index)
    return found


_ASCENDING: Final = (Verdict.VIOLATED, Verdict.OPEN, Verdict.HOLDS)


def _binds(
    number: int, declared: Subscribed | Advertised, publication: Published, trace: Lasso | Prefix, index: int
) -> Verdict:
    """Whether a subscription or an advertisement counts for what is published at a place."""
    valid = _valid(number, publication)
    if declared.since is None:
        return judge(_ready(number) & always(valid), trace, index)
    known = Atom(f"F{number} ∈ S", lambda state: state.entry(number) is not None)
    return judge(eventually(known) & always(known >> always(valid)), trace)


def _advertisement_binds(world: World, trace: Lasso | Prefix, publication: Published, index: int) -> Verdict:
    own = [
        _binds(number, declared, publication, trace, index)
        for number, declared in world.entries.items()
        if isinstance(declared, Advertised) and declared.component == publication.component
    ]
    return max(own, key=_ASCENDING.index, default=Verdict.HOLDS)


# -- orders (Definitions 2.6, 2.7 and 2.8) -----------------------------------------------------------------


def _pairs(world: World) -> Iterable[tuple[Identity, Identity]]:
    return permutations(world.identities, 2)


def _in_turn(*steps: Formula) -> Formula:
    """◇[a ∧ ◇[b ∧ …]]: one step after the other."""
    first, *rest = steps
    return eventually(first & _in_turn(*rest) if rest else first)


def _fifo(world: World) -> Formula:
    def formula(pair: tuple[Identity, Identity]) -> Formula:
        one, two = pair
        backwards = exists(world.components, lambda y: _in_turn(_notify(y, two), _notify(y, one)))
        return _in_turn(_pub(one), _pub(two)) >> ~backwards

    return for_all((pair for pair in _pairs(world) if pair[0].producer == pair[1].producer), formula)


def _causal(world: World) -> Formula:
    """For every chain n_1 … n_k. A link is a notification, or the producer's own order, or a declared cause."""
    published = [each for each in world.identities if each in world.publications]
    chains = (chain for k in range(2, len(published) + 1) for chain in permutations(published, k))

    def formula(chain: tuple[Identity, ...]) -> Formula:
        backwards = exists(world.components, lambda y: _in_turn(_notify(y, chain[-1]), _notify(y, chain[0])))
        return _chain(world, chain) >> ~backwards

    return for_all(chains, formula)


def _chain(world: World, chain: tuple[Identity, ...]) -> Formula:
    """◇[pub(C_1, n_1) ∧ ◇[notify(C_2, n_1) ∧ ◇[pub(C_2, n_2) ∧ … ]]]."""
    if len(chain) == 1:
        return eventually(_pub(chain[0]))
    one, two = chain[:2]
    rest = _chain(world, chain[1:])
    links = eventually(_notify(two.producer, one) & rest)
    if one.producer == two.producer or one in causes_of(world.publications[two].notification):
        links = links | rest
    return eventually(_pub(one) & links)


def _agreement(world: World) -> Formula:
    def formula(each: tuple[tuple[Identity, Identity], tuple[str, str]]) -> Formula:
        (one, two), (c, d) = each
        return _in_turn(_notify(c, one), _notify(c, two)) >> ~_in_turn(_notify(d, two), _notify(d, one))

    return for_all(product(_pairs(world), permutations(world.components, 2)), formula)


def _one_order(world: World) -> Formula:
    """Some order of all notifications is contradicted by nobody."""

    def unbroken(order: tuple[Identity, ...]) -> Formula:
        backwards = ((two, one) for index, one in enumerate(order) for two in order[index + 1 :])
        return for_all(
            product(backwards, world.components),
            lambda each: ~_in_turn(_notify(each[1], each[0][0]), _notify(each[1], each[0][1])),
        )

    return exists(permutations(world.identities), unbroken)


def _ascending(rank: Callable[[OrderKey], Any], *, own: bool) -> Callable[[World], Formula]:
    """Nobody is notified about two and then about one where one has the smaller rank; `own`: of one producer."""

    def formula(world: World) -> Formula:
        ranks = {identity: rank(each.key) for identity, each in world.publications.items()}
        pairs = (
            (one, two)
            for one, two in permutations([each for each, found in ranks.items() if found is not None], 2)
            if ranks[one] < ranks[two] and (one.producer == two.producer or not own)
        )
        return for_all(
            product(pairs, world.components),
            lambda each: ~_in_turn(_notify(each[1], each[0][1]), _notify(each[1], each[0][0])),
        )

    return formula


def _for_published(world: World, formula: Callable[[str, Published], Formula]) -> Formula:
    pairs = product(world.components, world.publications.values())
    return for_all(pairs, lambda each: formula(*each))


def _for_any(world: World, formula: Callable[[str, Identity], Formula]) -> Formula:
    return for_all(product(world.components, world.identities), lambda each: formula(*each))


FORMULAS: Final[dict[tuple[str, str], Callable[[World], Formula]]] = {
    ("simple", "subscribed"): _subscribed,
    ("simple", "published"): _was_published,
    ("simple", "once"): _once,
    ("advertisements", "subscribed"): _subscribed,
    ("advertisements", "published"): _was_published,
    ("advertisements", "once"): _once,
    ("advertisements", "advertised"): _advertised,
    ("fifo", "order"): _fifo,
    ("causal", "order"): _causal,
    ("total", "agreement"): _agreement,
    ("total", "one order"): _one_order,
    ("ordered", "key"): _ascending(key_rank, own=False),
    ("ordered", "sequence"): _ascending(number_rank, own=True),
}
"""The safety properties, by specification and rule; liveness is judged by `obligations`."""
