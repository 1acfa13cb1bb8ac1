"""The specification of scoped event systems, with interfaces, mappings, policies and changes (book 6.2 to 6.5).

    subscribed   a component is notified only about versions that one of its subscriptions matches
    published    only about what was published before
    once         at most once about each version of a notification
    visible      only about versions that a delivery path brings to it: up, then down, no component twice, each
                 edge by its effective interface, in the graph at the publication's place (Def. 6.3, 6.6)
    liveness     about every version that such a path brings to it and that matches a subscription which has taken
                 effect and stays, as long as it stays visible; where every path leads over a policy, which may
                 choose somebody else, nothing is owed
    policy       about what transmission policies choose: as they choose in the total order or, where a trace is
                 not about one order, as the law of each policy allows (`fairlead.audit.policies`)

The formula of the book for liveness holds of every run in which something was once invisible; meant is: always,
if the subscription and the visibility stay from here on, every notification from here on is delivered.

A change of the graph with an order key holds for notifications with that key or a larger one, wherever they are in
the trace; without, from its index on. Paths are followed here step by step, by a program of its own: what the
runtimes evaluate (`fairlead.scopes.plan`) is what this judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from fairlead.audit.history import Delivered, History, Publication
from fairlead.audit.policies import has_policies, is_notice, policy_violations
from fairlead.audit.report import Finding, Violation
from fairlead.audit.trace import ScopeChanged
from fairlead.errors import ScopeError, TraceRefused
from fairlead.matching import Engine, engine_named
from fairlead.model import Notification, Record
from fairlead.model.order import Identity, OrderKey
from fairlead.scopes import ScopeGraph, Scopes, System, parse_statements
from fairlead.scopes.graph import Scope
from fairlead.scopes.interfaces import Crossing, effective
from fairlead.scopes.mappings import IDENTITY, MappingFailed
from fairlead.scopes.policies import Traverse
from fairlead.scopes.sights import tag_of
from fairlead.scopes.timeline import Timeline

__all__ = ["RULES", "Graphs", "Paths", "of_policies", "of_publications", "scoped"]

RULES: Final = ("subscribed", "published", "once", "visible", "liveness", "policy")
_PATHS_MAX: Final = 100_000


class _Step(NamedTuple):
    """The way of a version to a component: what it has left upwards, and whether no policy had a choice."""

    trail: frozenset[str]
    is_owed: bool


class Paths:
    """All delivery paths of one notification in one graph, followed step by step."""

    def __init__(self, graph: ScopeGraph, notification: Notification) -> None:
        self._graph, self._published = graph, notification
        self._contents: dict[Record, Notification] = {notification.attributes: notification}
        # Without mappings a path that meets a component twice can be shortened: it need not be known.
        self._tracks = any(edge.mapping != IDENTITY for edge in graph.edges)
        self._up: dict[str, set[tuple[Record, _Step]]] = {}
        self._down: dict[str, set[tuple[Record, _Step]]] = {}
        self._steps = 0
        self._climb(notification.producer)

    def versions(self, component: str) -> dict[str, tuple[Notification, bool]]:
        """The versions that come to a component, by tag, and whether each is owed to it."""
        if component == self._published.producer:
            return {"": (self._published, self._is_own_owed(component))}
        found: dict[str, tuple[Notification, bool]] = {}
        for content, way in self._below(component):
            version = self._contents[content]
            tag = tag_of(version, self._published)
            found[tag] = (version, way.is_owed or (tag in found and found[tag][1]))
        return found

    def all_versions(self, components: Iterable[str]) -> dict[Record, Notification]:
        """Every version that comes to one of the components."""
        found = {self._published.attributes: self._published}
        for component in components:
            for version, _ in self.versions(component).values():
                found.setdefault(version.attributes, version)
        return found

    def _is_own_owed(self, component: str) -> bool:
        """A component sees its own, unless internal policies let it compete."""
        scopes = [edge.scope for edge in self._graph.carrying(component)]
        return not any(self._graph.scope(scope).internal for scope in scopes)

    def _climb(self, producer: str) -> None:
        graph, start = self._graph, (self._published.attributes, _Step(frozenset(), True))
        if graph.is_scope(producer):
            self._up[producer] = {start}
            order = graph.above(producer)
        else:
            self._leave(producer, {start})
            order = graph.above(*(edge.scope for edge in graph.carrying(producer)))
        for scope in order:  # members first
            self._leave(scope, self._up.get(scope, set()))

    def _leave(self, name: str, arrived: set[tuple[Record, _Step]]) -> None:
        chooses = bool(self._graph.node(name).publishing)
        for edge in self._graph.carrying(name):
            outward = effective(self._graph, edge).outward
            for content, way in arrived:
                crossed = self._cross(outward, content)
                if crossed is not None:
                    trail = way.trail | {name} if self._tracks else way.trail
                    passed = _Step(trail, way.is_owed and not chooses)
                    self._add(self._up, edge.scope, crossed, passed)

    def _below(self, name: str) -> set[tuple[Record, _Step]]:
        """The versions that come down to a component or scope."""
        if name not in self._down:
            for scope in reversed(self._graph.above(name)):  # superscopes first: calls do not nest deeply
                if scope != name:
                    self._fill(scope)
            self._fill(name)
        return self._down[name]

    def _fill(self, name: str) -> None:
        if name in self._down:
            return
        self._down[name] = set()
        graph = self._graph
        if graph.is_scope(name) and not graph.carries(name):
            return
        for edge in graph.carrying(name):
            scope: Scope = graph.scope(edge.scope)
            inward = effective(graph, edge).inward
            incoming = bool(scope.delivery) or scope.traverse is not Traverse.BROADCAST
            for arrived, turns, chooses in (
                (self._up.get(scope.name, ()), True, bool(scope.internal)),
                (self._down.get(scope.name, ()), False, incoming),
            ):
                for content, way in arrived:
                    if name in way.trail or name == self._published.producer:
                        continue
                    crossed = self._cross(inward, content)
                    if crossed is not None:
                        trail = way.trail | {scope.name} if turns and self._tracks else way.trail
                        self._add(self._down, name, crossed, _Step(trail, way.is_owed and not chooses))

    def _cross(self, crossing: Crossing, content: Record) -> Record | None:
        try:
            crossed = crossing.pass_on(self._contents[content])
        except MappingFailed:  # it lets nothing pass
            return None
        if crossed is None:
            return None
        self._contents.setdefault(crossed.attributes, crossed)
        return crossed.attributes

    def _add(
        self, into: dict[str, set[tuple[Record, _Step]]], name: str, content: Record, way: _Step
    ) -> None:
        into.setdefault(name, set()).add((content, way))
        self._steps += 1
        if self._steps > _PATHS_MAX:
            raise TraceRefused(f"more than {_PATHS_MAX} delivery paths lead from {self._published.producer}")


class Graphs:
    """The scope graph of a trace at every point: by index, or by order key where changes have one."""

    def __init__(self, changes: Iterable[tuple[int, ScopeChanged]]) -> None:
        self.by_index: list[tuple[int, System]] = []
        self._timeline: Timeline | None = None
        self.is_ordered = False
        """Whether the trace says that notifications were decided about in the total order."""
        for index, change in changes:
            try:
                self._apply(index, change)
            except ScopeError as error:
                raise TraceRefused(f"event {index}: {error}") from None

    def _apply(self, index: int, change: ScopeChanged) -> None:
        about = change.about
        if change.change == "graph":
            scopes = Scopes(parse_statements(about["text"]), about.get("outsiders", "default"))
            self.by_index.append((index, scopes.system))
            self._timeline = Timeline(scopes.system)
            self.is_ordered = bool(about.get("ordered"))
            return
        if self._timeline is None:
            raise TraceRefused(f"event {index}: a scope changes before there is a graph")
        [statement] = parse_statements(about["text"])
        if "from" in about:
            self._timeline = self._timeline.changed(
                statement, OrderKey(*about["from"]), behind=bool(about.get("behind"))
            )
        else:
            self.by_index.append((index, self.by_index[-1][1].apply(statement)))

    def at(self, index: int, key: OrderKey) -> ScopeGraph | None:
        """The graph that a publication is judged by; None if the trace has no scopes."""
        if self._timeline is not None and self._timeline.changes:
            return _lenient(self._timeline.at(key).graph)
        return next((_lenient(system.graph) for at, system in reversed(self.by_index) if at < index), None)

    def judging(self, publication: Publication) -> ScopeGraph:
        """The graph that a publication is judged by; a notice about a scope, by the last one that has it."""
        index, key = publication.index, publication.key
        found = self.at(index, key)
        if found is not None and is_notice(publication):
            scope = str(publication.event.notification.get("scope"))
            return next((each for each in self._before(index, key) if each.is_scope(scope)), found)
        return ScopeGraph.of() if found is None else found

    def _before(self, index: int, key: OrderKey) -> Iterator[ScopeGraph]:
        """The graphs up to a publication, the latest first."""
        timeline = self._timeline
        if timeline is None or not timeline.changes:
            yield from (_lenient(system.graph) for at, system in reversed(self.by_index) if at < index)
            return
        for change, system in zip(reversed(timeline.changes), reversed(timeline.systems), strict=True):
            if change.key <= key:
                yield _lenient(system.graph)
        yield _lenient(timeline.start.graph)

    @property
    def have_policies(self) -> bool:
        """Whether some graph has a transmission policy."""
        systems = [system for _, system in self.by_index]
        if self._timeline is not None:
            systems += self._timeline.systems
        return any(has_policies(each.graph) for each in systems)

    def changes_between(self, one: int, other: int) -> bool:
        """Whether the graph changes between two indexes."""
        return any(one < at < other for at, _ in self.by_index)

    def after(self, index: int) -> Iterator[ScopeGraph]:
        """The graphs that follow an index, if changes have indexes."""
        return (_lenient(system.graph) for at, system in self.by_index if at > index)


def _lenient(graph: ScopeGraph) -> ScopeGraph:
    return replace(graph, outsiders="isolated") if graph.outsiders == "refused" else graph


def scoped(history: History, engine: str) -> list[Finding]:
    """The findings of the specification."""
    return [*of_publications(history, engine), of_policies(history, engine)]


def of_publications(history: History, engine: str) -> list[Finding]:
    """The findings of the rules that are about one publication and the notifications about it."""
    return _Judge(history, engine).findings()


def of_policies(history: History, engine: str) -> Finding:
    """The finding of the rule `policy`, which is about all publications together."""
    graphs = Graphs(history.scope_changes)
    found: list[Violation] = []
    if graphs.have_policies:
        found = policy_violations(history, graphs, _engine_of(history, engine))
    return Finding("scoped", "policy", tuple(sorted(found, key=lambda each: each.indexes)))


def _engine_of(history: History, name: str) -> Engine[int]:
    """The filters of all subscriptions, by number."""
    engine: Engine[int] = engine_named(name)
    engine.add_many((number, period.declared.filter) for number, period in enumerate(history.subscriptions))
    return engine


class _Judge:
    """Each publication is checked once, with all deliveries of it."""

    def __init__(self, history: History, engine: str) -> None:
        self._history = history
        self._graphs = Graphs(history.scope_changes)
        self._violations: dict[str, list[Violation]] = {rule: [] for rule in RULES if rule != "policy"}
        self._open = 0
        self._engine = _engine_of(history, engine)
        self._everybody = sorted({period.declared.component for period in history.subscriptions})

    def findings(self) -> list[Finding]:
        about: dict[Identity, list[Delivered]] = {}
        for each in self._history.notifications:
            about.setdefault(each.identity, []).append(each)
        for publication in self._history.publications.values():
            self._judge(publication, about.pop(publication.event.identity, []))
        for unpublished in about.values():
            self._once(unpublished)
            for each in unpublished:
                what = f"{each.component} was notified about {each}, which nobody published"
                self._violations["published"].append(Violation(what, (each.index,)))
        return [
            Finding(
                "scoped",
                rule,
                tuple(sorted(violations, key=lambda each: each.indexes)),
                self._open if rule == "liveness" else 0,
            )
            for rule, violations in self._violations.items()
        ]

    def _judge(self, publication: Publication, delivered: list[Delivered]) -> None:
        self._once(delivered)
        graph = self._graphs.at(publication.index, publication.key)
        if graph is None:
            graph = System(ScopeGraph.of()).graph  # nobody said anything of scopes: everybody is in one
        paths = Paths(graph, publication.event.notification)
        self._safety(publication, delivered, paths)
        self._liveness(publication, delivered, paths)

    def _once(self, delivered: list[Delivered]) -> None:
        for each in delivered:
            if each.first != each.index:
                what = f"{each.component} was notified about {each} again"
                self._violations["once"].append(Violation(what, (each.first, each.index)))

    def _safety(self, publication: Publication, delivered: list[Delivered], paths: Paths) -> None:
        for each in delivered:
            places = tuple(sorted((publication.index, each.index)))
            if each.index < publication.index:
                what = f"{each.component} was notified about {each} before it was published"
                self._violations["published"].append(Violation(what, places))
            if publication.event.component in _UNSCOPED:
                continue  # composites and notices come from those who asked, whom the trace does not name
            found = paths.versions(each.component).get(each.version)
            if found is None:
                which = f"version {each.version} of {each}" if each.version else f"{each}"
                what = f"{each.component} was notified about {which}, which is not visible to it"
                self._violations["visible"].append(Violation(what, places))
                continue
            key = each.key_of(publication)
            numbers = self._engine.match(found[0])
            own = [self._history.subscriptions[number] for number in numbers]
            if not any(
                period.declared.component == each.component and period.holds(each.index, key)
                for period in own
            ):
                what = f"{each.component} was notified about {each} without a subscription that matches it"
                self._violations["subscribed"].append(Violation(what, places))

    def _liveness(self, publication: Publication, delivered: list[Delivered], paths: Paths) -> None:
        if publication.event.component in _UNSCOPED:
            return
        index, key = publication.index, publication.key
        reached = {(each.component, each.version) for each in delivered if each.index > index}
        missing: dict[tuple[str, str], int] = {}
        for version in paths.all_versions(self._everybody).values():
            tag = tag_of(version, publication.event.notification)
            for number in self._engine.match(version):
                period = self._history.subscriptions[number]
                component = period.declared.component
                if (component, tag) in reached or (component, tag) in missing or not period.binds(index, key):
                    continue
                found = paths.versions(component).get(tag)
                if found is not None and found[1]:
                    missing[component, tag] = period.begun
        for (component, tag), begun in missing.items():
            if not all(
                (found := Paths(graph, publication.event.notification).versions(component).get(tag))
                and found[1]
                for graph in self._graphs.after(index)
            ):
                continue  # it did not stay visible
            if not self._history.ended:
                self._open += 1
                continue
            what = f"{component} was never notified about {publication}, which is visible to it and matches"
            self._violations["liveness"].append(Violation(what, tuple(sorted((begun, index)))))


_UNSCOPED: Final = frozenset({"patterns", "fair", "scopes"})
