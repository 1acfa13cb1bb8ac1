"""The rule `policy` of scoped systems: deliveries are those that transmission policies choose (book 6.5).

In a trace that says it is `ordered`, policies are asked again about every publication, in the total order: who is
notified, about which version, at which order time, is what they choose, and nothing else is. Other traces are not
about one order, so the law of each policy is judged alone: exactly one of n, the k largest, the next of a chain,
not before a delay has passed, behind a release, at most so many in a window.

Without an order a publication is judged where every subscription that matches it is certain: in effect and not
ended later, or not there. Where patterns or conditions subscribe, which a trace has as filters, nothing is judged:
they compete for what policies choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple, Protocol, TypeAlias

from fairlead.audit.choices import Law, Limit, Replay, Walk, Walks
from fairlead.audit.history import Delivered, History, Period, Publication
from fairlead.audit.report import Violation
from fairlead.matching import Engine
from fairlead.model import Notification, Record
from fairlead.model.order import Identity, OrderKey, identity_of
from fairlead.scopes.graph import Scope, ScopeGraph
from fairlead.scopes.policies import Hold, Rate, Traverse

__all__ = ["GraphsOf", "has_policies", "is_notice", "policy_violations"]

CHOICES_MAX: Final = 2_000
"""So many ways through the choices of one publication are tried; with more, it is not judged."""
Sight: TypeAlias = tuple[str, str]
"""A component and the tag of a version."""


class GraphsOf(Protocol):
    """The graphs of a trace."""

    @property
    def is_ordered(self) -> bool:
        """Whether the trace says that its notifications are in the total order."""

    def judging(self, publication: Publication) -> ScopeGraph:
        """The graph that a publication is judged by."""

    def changes_between(self, one: int, other: int) -> bool:
        """Whether the graph changes between two indexes."""


def has_policies(graph: ScopeGraph) -> bool:
    """Whether a graph has a transmission policy."""
    return any(_chooses(graph, name) for name in graph.special)


def _chooses(graph: ScopeGraph, name: str) -> bool:
    node = graph.node(name)
    if node.publishing:
        return True
    return isinstance(node, Scope) and bool(
        node.delivery or node.internal or node.traverse is not Traverse.BROADCAST
    )


def is_notice(publication: Publication) -> bool:
    """Whether it tells the members of a scope that the scope goes."""
    about = publication.event.notification
    return (about.producer, about.get("type"), about.get("change")) == ("scopes", "scope", "destroyed")


def policy_violations(history: History, graphs: GraphsOf, engine: Engine[int]) -> list[Violation]:
    """The deliveries that policies did not choose, and those that they chose and that are missing."""
    if any(period.ready is None and period.over is None for period in history.subscriptions):
        return []
    policies = _Policies(history, graphs, engine)
    return list(policies.in_order() if graphs.is_ordered else policies.by_law())


class _Expected(NamedTuple):
    version: Notification
    time: int


class _Policies:
    def __init__(self, history: History, graphs: GraphsOf, engine: Engine[int]) -> None:
        self._history, self._graphs, self._engine = history, graphs, engine
        self._about: dict[Identity, list[Delivered]] = {}
        for each in history.notifications:
            self._about.setdefault(each.identity, []).append(each)
        self._matching: dict[Record, list[Period]] = {}

    def _periods(self, version: Notification) -> list[Period]:
        found = self._matching.get(version.attributes)
        if found is None:
            if len(self._matching) > CHOICES_MAX:
                self._matching.clear()
            numbers = self._engine.match(version)
            found = [self._history.subscriptions[number] for number in numbers]
            self._matching[version.attributes] = found
        return found

    def _walks(self, publication: Publication, decide: Replay | Law) -> Walks:
        index, key = publication.index, publication.key
        n = publication.event.notification
        known: dict[Record, set[str]] = {}

        def matched(version: Notification) -> set[str]:
            if version.attributes not in known:
                known[version.attributes] = {
                    period.declared.component
                    for period in self._periods(version)
                    if _is_valid(period, index, key)
                }
            return known[version.attributes]

        origin = str(n.get("scope")) if is_notice(publication) else None
        return Walks(self._graphs.judging(publication), n, matched, decide, key, origin)

    # -- in the total order

    def in_order(self) -> Iterator[Violation]:
        """Ask all policies again, publication by publication in the order of their keys."""
        replay = Replay()
        expected: dict[Identity, dict[Sight, _Expected]] = {}
        publications = sorted(self._history.publications.values(), key=lambda each: each.key)
        for publication in publications:
            walks = self._walks(publication, replay)
            arrived = [(walks, replay.take(walks)), *replay.released]
            replay.released.clear()
            for walked, found in arrived:
                sights = expected.setdefault(identity_of(walked.published), {})
                for sight, ways in found.items():
                    time = min(walk.time for walk in ways)
                    if sight not in sights or time < sights[sight].time:
                        sights[sight] = _Expected(ways[0].version, time)
        for publication in publications:
            yield from self._compared(publication, expected[publication.event.identity])

    def _compared(self, publication: Publication, expected: dict[Sight, _Expected]) -> Iterator[Violation]:
        told: set[Sight] = set()
        for each in self._about.get(publication.event.identity, ()):
            sight = (each.component, each.version)
            told.add(sight)
            time = each.key_of(publication).time
            places = tuple(sorted((publication.index, each.index)))
            if sight not in expected:
                yield Violation(f"{each.component} was notified about {each}, {_OTHERS}", places)
            elif time != expected[sight].time:
                moved = f"at the order time {time}, where policies say {expected[sight].time}"
                yield Violation(f"{each.component} was notified about {each} {moved}", places)
        for (component, tag), (version, time) in sorted(expected.items()):
            key = replace(publication.key, time=time)
            own = [period for period in self._periods(version) if period.declared.component == component]
            lasts = any(period.over is None and _holds_at(period, key) for period in own)
            if (component, tag) not in told and lasts and self._history.ended:
                what = f"{component} was never notified about {publication}, {_CHOSEN}"
                yield Violation(what, (publication.index,))

    # -- by law

    def by_law(self) -> Iterator[Violation]:
        """Look for choices that the laws of policies allow and that explain what was delivered."""
        releases: dict[tuple[str, str, int], list[int]] = {}
        limited: list[tuple[Limit, Publication, Delivered]] = []
        for publication in self._history.publications.values():
            if not has_policies(self._graphs.judging(publication)):
                continue
            violation, used = self._judged(publication, releases)
            limited += used
            if violation is not None:
                yield violation
        yield from self._too_many(limited)
        yield from self._not_released(limited, releases)

    def _judged(
        self, publication: Publication, releases: dict[tuple[str, str, int], list[int]]
    ) -> tuple[Violation | None, list[tuple[Limit, Publication, Delivered]]]:
        delivered = {
            (each.component, each.version): each
            for each in self._about.get(publication.event.identity, ())
            if each.index > publication.index
        }
        turns: tuple[int, ...] | None = ()
        reason = ""
        for _ in range(CHOICES_MAX):
            assert turns is not None
            law = Law(turns)
            walks = self._walks(publication, law)
            found = walks.run()
            for slot in law.releases:
                releases.setdefault(slot, []).append(publication.index)
            if not self._is_certain(publication, walks, found):
                return None, []
            why = self._unexplained(publication, found, delivered)
            if not why:
                own = _limits(found, delivered) if not law.options else []
                return None, [(limit, publication, each) for limit, each in own]
            reason = reason or why
            turns = law.next_turns
            if turns is None:
                places = sorted({publication.index, *(each.index for each in delivered.values())})
                return Violation(f"{publication}: {reason}", tuple(places)), []
        return None, []

    def _is_certain(self, publication: Publication, walks: Walks, found: dict[Sight, list[Walk]]) -> bool:
        """Whether it is known which subscriptions policies have chosen among."""
        index = publication.index
        ways = [walk for group in found.values() for walk in group]
        governed = any(each.traverse is not Traverse.BROADCAST for each in walks.graph.scopes)
        if governed and any(walk.limits for walk in ways):
            return False
        versions = [walks.published, *(version for walk in ways for version in walk.versions)]
        return all(
            period.begun > index
            or (period.over is not None and period.over < index)
            or (period.over is None and period.ready is not None and period.ready < index)
            for version in {each.attributes: each for each in versions}.values()
            for period in self._periods(version)
        )

    def _unexplained(
        self,
        publication: Publication,
        found: dict[Sight, list[Walk]],
        delivered: dict[Sight, Delivered],
    ) -> str:
        """The part of the deliveries that a choice does not explain; empty where it explains all."""
        for sight, each in delivered.items():
            if sight not in found:
                return f"{each.component} was notified, {_OTHERS}"
            if each.key_of(publication).time < min(walk.time for walk in found[sight]):
                return f"{each.component} was notified before its delay had passed"
        owed = [sight for sight, ways in found.items() if not all(walk.limits for walk in ways)]
        missing = sorted(sight for sight in owed if sight not in delivered)
        if missing and self._history.ended:
            return f"{missing[0][0]} was never notified, {_CHOSEN}"
        return ""

    def _too_many(self, limited: Iterable[tuple[Limit, Publication, Delivered]]) -> Iterator[Violation]:
        """The deliveries that a rate limit should not have let pass."""
        passed: dict[Limit, list[tuple[Publication, Delivered]]] = {}
        for limit, publication, each in limited:
            if isinstance(limit.policy.choice, Rate):
                passed.setdefault(limit, []).append((publication, each))
        for limit, those in passed.items():
            rate = limit.policy.choice
            assert isinstance(rate, Rate)
            times = [publication.key.time for publication, _ in those]
            if times != sorted(times):
                continue  # the order in which they came to the policy is not known
            for number in range(rate.limit, len(those)):
                if times[number] - times[number - rate.limit] < rate.window_us:
                    publication, each = those[number]
                    what = f"{each.component} was notified about {each}, above the rate of {limit.slot[0]}"
                    yield Violation(what, tuple(sorted((publication.index, each.index))))

    def _not_released(
        self,
        limited: Iterable[tuple[Limit, Publication, Delivered]],
        releases: dict[tuple[str, str, int], list[int]],
    ) -> Iterator[Violation]:
        """The deliveries before a release of what was to be held."""
        for limit, publication, each in limited:
            if not isinstance(limit.policy.choice, Hold):
                continue
            released = any(publication.index < at < each.index for at in releases.get(limit.slot, ()))
            if not released and not self._graphs.changes_between(publication.index, each.index):
                what = f"{each.component} was notified about {each}, which {limit.slot[0]} holds"
                yield Violation(what, tuple(sorted((publication.index, each.index))))


_OTHERS: Final = "though policies choose others"
_CHOSEN: Final = "for which policies choose it"


def _limits(
    found: dict[Sight, list[Walk]], delivered: dict[Sight, Delivered]
) -> Iterator[tuple[Limit, Delivered]]:
    """The policies that must have let pass what was delivered."""
    for sight, each in delivered.items():
        for limit in frozenset.intersection(*(walk.limits for walk in found[sight])):
            yield limit, each


def _holds_at(period: Period, key: OrderKey) -> bool:
    since = period.declared.since
    return (since is None or since <= key) and (period.until is None or key < period.until)


def _is_valid(period: Period, index: int, key: OrderKey) -> bool:
    """Whether a subscription concerns a publication; with order keys, wherever it is in the trace."""
    begun = period.begun < index or period.declared.since is not None
    return begun and _holds_at(period, key) and (period.over is None or period.over > index)
