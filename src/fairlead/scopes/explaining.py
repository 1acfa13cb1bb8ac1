"""Why a notification reaches a component, or what stops it: edge by edge, along every delivery path.

With scopes that are closed unless they say otherwise, the first question is why nothing arrived.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fairlead.errors import ScopeError
from fairlead.filters import Filter
from fairlead.filters.explain import explain as explain_filter
from fairlead.model import Notification
from fairlead.model.encoding import fields_to_json, format_json
from fairlead.model.order import event_time
from fairlead.scopes.interfaces import Crossing, Edge
from fairlead.scopes.mappings import MappingFailed, apply
from fairlead.scopes.paths import paths_between
from fairlead.scopes.plan import ScopePlan
from fairlead.scopes.sights import tag_of

__all__ = ["Passage", "Route", "SightExplanation", "explain"]


@dataclass(frozen=True, slots=True)
class Passage:
    """One edge of a path: what came to it, and what left it or why nothing did."""

    source: str
    target: str
    outward: bool
    before: Notification
    after: Notification | None
    reason: str

    @property
    def mapped(self) -> bool:
        """Whether the edge changed the notification."""
        return self.after is not None and tag_of(self.after, self.before) != ""

    def __str__(self) -> str:
        arrow = "up" if self.outward else "down"
        head = f"{self.source} {arrow} to {self.target}"
        if self.after is None:
            return f"{head}: stopped by {self.reason}"
        if not self.mapped:
            return f"{head}: passed"
        return f"{head}: passed, mapped to {_shown(self.after)}"

    def to_json(self) -> dict[str, Any]:
        """The passage as JSON has it."""
        found: dict[str, Any] = {
            "from": self.source,
            "to": self.target,
            "direction": "up" if self.outward else "down",
            "passed": self.after is not None,
        }
        if self.after is None:
            found["stopped_by"] = self.reason
        elif self.mapped:
            found["mapped_to"] = _content(self.after)
        return found


@dataclass(frozen=True, slots=True)
class Route:
    """One delivery path, followed as far as the notification gets."""

    path: tuple[str, ...]
    passages: tuple[Passage, ...]

    @property
    def arrives(self) -> bool:
        """Whether the notification gets to the end."""
        return all(passage.after is not None for passage in self.passages)


@dataclass(frozen=True, slots=True)
class SightExplanation:
    """Whether a component sees a notification, and the paths that prove it."""

    publisher: str
    target: str
    seen: bool
    routes: tuple[Route, ...]
    notes: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """The explanation as text; of paths that stop, the one that gets farthest comes first."""
        verdict = "sees it" if self.seen else "does not see it"
        yield f"{self.target} {verdict}"
        for route in self.routes:
            yield f"  by {' - '.join(route.path)}"
            yield from (f"    {passage}" for passage in route.passages)
        yield from (f"  {note}" for note in self.notes)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_json(self) -> dict[str, Any]:
        """The explanation as JSON has it."""
        return {
            "from": self.publisher,
            "to": self.target,
            "seen": self.seen,
            "paths": [
                {
                    "path": list(route.path),
                    "arrives": route.arrives,
                    "edges": [each.to_json() for each in route.passages],
                }
                for route in self.routes
            ],
            "notes": list(self.notes),
        }


def explain(
    plan: ScopePlan, notification: Notification, target: str, *, publisher: str | None = None
) -> SightExplanation:
    """Why a component sees what another one publishes, or not; subscriptions are taken to match everything."""
    source = notification.producer if publisher is None else publisher
    reached = plan.reach(notification, lambda _: (target,), origin=source)
    seen = any(sight.component == target for sight in reached.sights)
    routes = [_followed(plan, path, notification) for path in paths_between(plan.graph, source, target)]
    routes.sort(key=lambda route: (not route.arrives, -len(route.passages)))
    notes = []
    if source == target:
        notes.append("a component sees what it publishes")
    elif not routes:
        notes.append(f"no scope that carries contains both {source} and {target}")
    elif not seen and any(route.arrives for route in routes):
        notes.append("the interfaces let it pass, and a policy chose others, delays it or holds it")
    start = event_time(notification)
    delays = [sight.time - start for sight in reached.sights if sight.time > start]
    notes += (f"a policy delays it by {delay} microseconds" for delay in delays)
    notes += (f"{failure.where}: {failure.reason}" for failure in reached.failures)
    return SightExplanation(source, target, seen, tuple(routes), tuple(notes))


def _followed(plan: ScopePlan, path: tuple[str, ...], notification: Notification) -> Route:
    passages: list[Passage] = []
    at: Notification | None = notification
    for source, target in pairwise(path):
        if at is None:
            break
        outward = target in plan.graph.superscopes(source) if not passages or passages[-1].outward else False
        member, scope = (source, target) if outward else (target, source)
        parent = next(each for each in plan.parents(member) if each.scope == scope)
        passage = _passage(parent.edge, parent.outward if outward else parent.inward, at, outward=outward)
        passages.append(passage)
        at = passage.after
    return Route(path, tuple(passages))


def _passage(edge: Edge, crossing: Crossing, given: Notification, *, outward: bool) -> Passage:
    ends = (edge.member, edge.scope) if outward else (edge.scope, edge.member)
    side = "output" if outward else "input"

    def stopped(reason: str) -> Passage:
        return Passage(*ends, outward, given, None, reason)

    at: Notification | None = given
    for stage, gates in enumerate((crossing.before, crossing.after)):
        assert at is not None
        for gate in gates:
            if not gate.filter.matches(at):
                return stopped(
                    f"the {_gate_name(gate.interface, side)} of {gate.owner}: {_why(gate.filter, at)}"
                )
        if stage == 0 and crossing.steps:
            try:
                at = apply(crossing.steps, at)
            except MappingFailed as error:
                return stopped(str(error))
            if at is None:
                return stopped("the mapping of the edge")
    return Passage(*ends, outward, given, at, "")


def _gate_name(interface: str, side: str) -> str:
    if interface.startswith("imposed"):
        return f"{side} {interface}"
    return f"{interface} {side}"


def _why(filter: Filter, notification: Notification) -> str:
    text = str(filter)
    if text == "false":
        return "closed"
    return f"{text} {explain_filter(filter, notification).verdict}"


def _content(notification: Notification) -> Any:
    try:
        return fields_to_json(notification.attributes)
    except (ScopeError, ValueError):
        return repr(notification.attributes)


def _shown(notification: Notification) -> str:
    content = _content(notification)
    return content if isinstance(content, str) else format_json(content)
