"""Rules of scopes: what changes follow from an event (UPDATE ON … IF … DO …, book 6.6.3).

A rule sees what is visible in its scope. The condition is a filter over what the event brings: the notification
under the name that the rule gives it, the component that triggered it under `component`, the scope under `scope`.
Rules with CREATE NOW stand in definitions, and see what is visible in the superscopes that the definition names;
instances are called `name#1`, `name#2`, and so on.

`consequences` is a function of the system before the event: the event itself goes by the old graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from fairlead.errors import ScopeError
from fairlead.filters import EVERYTHING, Filter, covers
from fairlead.model import ABSENT, Notification, Record
from fairlead.model.order import OrderKey
from fairlead.scopes.evaluation import Evaluation
from fairlead.scopes.language.statements import (
    Action,
    Alter,
    Create,
    Define,
    Deploy,
    Event,
    Join,
    Leave,
    Reference,
    Rule,
    Selection,
    Source,
    Statement,
)
from fairlead.scopes.plan import ScopePlan
from fairlead.scopes.system import System

__all__ = ["DEPTH_MAX", "Trigger", "consequences", "memberships"]

DEPTH_MAX: Final = 100
"""The length of a chain of rules that trigger one another."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """The trigger of a rule: a publication or consumption, a subscription or advertisement, a join or leave."""

    kind: str
    component: str
    notification: Notification | None = None
    filter: Filter | None = None
    scope: str | None = None


def consequences(system: System, trigger: Trigger, key: OrderKey | None = None) -> list[Statement]:
    """The changes that rules make of an event, in order; those that follow from these changes included."""
    found: list[Statement] = []
    pending = [(trigger, 1)]
    while pending:
        event, depth = pending.pop(0)
        for statement in _triggered(system, event, key):
            if depth > DEPTH_MAX:
                raise ScopeError(f"rules trigger one another more than {DEPTH_MAX} times: {trigger.kind}")
            try:
                after = system.apply(statement)
            except ScopeError:  # what a rule asks for may be there already, or gone
                continue
            if after == system:
                continue
            pending += ((each, depth + 1) for each in memberships(system, after))
            system = after
            found.append(statement)
    return found


def memberships(before: System, after: System) -> Iterator[Trigger]:
    """The joins and leaves that a change was."""
    if before.graph is after.graph:
        return
    old = {(edge.member, edge.scope) for edge in before.graph.edges}
    new = {(edge.member, edge.scope) for edge in after.graph.edges}
    for kind, pairs in (("leave", old - new), ("join", new - old)):
        yield from (Trigger(kind, member, scope=scope) for member, scope in sorted(pairs))


def _triggered(system: System, trigger: Trigger, key: OrderKey | None) -> list[Statement]:
    """The statements of all rules that an event triggers, by scope and by number."""
    statements: list[Statement] = []
    for name in sorted(system.deployed):
        for rule in system.deployed[name].rules:
            if not any(isinstance(action, Create) for action in rule.actions):
                statements += _fired(system, rule, name, (name,), trigger, key)
    for name in sorted(system.definitions):
        definition: Define = system.definitions[name]
        homes = tuple(
            source.name
            for selection in definition.selections
            if selection.superscopes
            for source in selection.sources
            if system.graph.is_scope(source.name)
        )
        for rule in definition.features.rules:
            if any(isinstance(action, Create) for action in rule.actions):
                statements += _fired(system, rule, name, homes, trigger, key)
    return statements


def _fired(  # noqa: PLR0917  # one call has all that a rule may look at
    system: System, rule: Rule, owner: str, homes: tuple[str, ...], trigger: Trigger, key: OrderKey | None
) -> Iterator[Statement]:
    for version in _events(system, rule.event, homes, trigger, key):
        if rule.condition != EVERYTHING and not rule.condition.matches(
            _context(system, rule, owner, trigger, version)
        ):
            continue
        for number, action in enumerate(rule.actions):
            yield _statement(system, action, owner, trigger, version, number)
        return


def _events(
    system: System, event: Event, homes: tuple[str, ...], trigger: Trigger, key: OrderKey | None
) -> Iterator[Notification | None]:
    """The versions that a rule's event matches, in the scopes that the rule looks at; None for other events."""
    if event.kind != trigger.kind:
        return
    graph = system.graph
    match event.kind:
        case "pub":
            assert trigger.notification is not None
            for scope in homes:
                for version in _visible_in(system, trigger.notification, scope, key):
                    if event.filter.matches(version):
                        yield version
        case "con":
            assert trigger.notification is not None
            inside = any(scope in graph.superscopes(trigger.component) for scope in homes)
            if inside and event.filter.matches(trigger.notification):
                yield trigger.notification
        case "join" | "leave":
            if event.component in ("*", trigger.component) and event.scope in ("*", trigger.scope):
                yield None
        case _:
            assert trigger.filter is not None
            inside = any(scope in graph.above(trigger.component) for scope in homes)
            if inside and covers(event.filter, trigger.filter):
                yield None


def _visible_in(
    system: System, notification: Notification, scope: str, key: OrderKey | None
) -> list[Notification]:
    """The versions of a notification that are visible in a scope."""
    evaluation = Evaluation(ScopePlan(system.graph), notification, lambda _: (), key, {})
    evaluation.publish(notification.producer, None)
    return evaluation.versions_in(scope)


def _context(
    system: System, rule: Rule, owner: str, trigger: Trigger, version: Notification | None
) -> Notification:
    """The notification that a condition is about."""
    fields: dict[str, Any] = {"component": system.graph.node(trigger.component).attributes}
    if system.graph.is_scope(owner):
        fields["scope"] = system.graph.node(owner).attributes
    if version is not None and rule.event.ident is not None:
        fields[rule.event.ident] = version.attributes
    return Notification(Record(fields))


def _statement(  # noqa: PLR0917  # one call has all that an action may name
    system: System, action: Action, owner: str, trigger: Trigger, version: Notification | None, number: int
) -> Statement:
    match action:
        case Join(component, scope):
            return Join(trigger.component if component is None else component, scope)
        case Leave(component, scope):
            return Leave(trigger.component if component is None else component, scope)
        case Create(include, ident):
            instance = f"{owner}#{_next_number(system, owner) + number}"
            members = (Selection((Source(trigger.component),), ident=ident),) if include else ()
            return Deploy(owner, instance, members)
        case Alter():
            values = tuple(
                (name, _value(system, value, trigger, version)) for name, value in action.features.attributes
            )
            kept = tuple((name, value) for name, value in values if value is not ABSENT)
            return replace(action, features=replace(action.features, attributes=kept))


def _next_number(system: System, definition: str) -> int:
    prefix = f"{definition}#"
    numbers = [int(name[len(prefix) :]) for name in system.graph.names if name.startswith(prefix)]
    return 1 + max(numbers, default=0)


def _value(system: System, value: Any, trigger: Trigger, version: Notification | None) -> Any:
    if not isinstance(value, Reference):
        return value
    if value.of == "component":
        return system.graph.node(trigger.component).attributes.lookup(value.attribute)
    return ABSENT if version is None else version.get(value.attribute)
