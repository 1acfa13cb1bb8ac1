"""The objects of a bus with scopes that users hold: a component, and the administration of the scope graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from fairlead.bus.handles import Advertisement, Detection, Subscription
from fairlead.bus.requesting import Answer, Replies
from fairlead.errors import ScopeError
from fairlead.filters.filter import Filter
from fairlead.model import Instant, Notification
from fairlead.scopes import ScopeGraph, parse_statements
from fairlead.scopes.explaining import SightExplanation, explain
from fairlead.scopes.language.statements import DropScope, Join, Leave, Statement

if TYPE_CHECKING:
    from fairlead.bus.bus import Bus
    from fairlead.scopes.running import Running
    from fairlead.typed import Typed

__all__ = ["BusComponent", "BusScopes"]

T = TypeVar("T")


class BusComponent:
    """A component of a bus: what it publishes has its name, what it subscribes to is delivered under its name.

    `bus.component("desk").publish({...})` is `bus.publish({..., "producer": "desk"})`, and no other producer can
    be named: visibility hangs on it. A component with the attribute `relays` may publish for others.
    """

    __slots__ = ("_bus", "name")

    def __init__(self, bus: Bus, name: str) -> None:
        self._bus = bus
        self.name = name

    def publish(self, event: Mapping[str, Any] | tuple[Any, ...] | Notification) -> Notification | None:
        """Publish a notification as this component."""
        notification = Notification.of(event)
        if not notification.producer:
            notification = replace(notification, producer=self.name)
        elif notification.producer != self.name and not self._relays():
            raise ScopeError(
                f"{self.name} cannot publish as {notification.producer}",
                hint="leave the producer out; a component with the attribute `relays` may name others",
            )
        return self._bus.publish(notification)

    def subscribe(self, filter: str | Filter, *args: Any, **options: Any) -> Subscription:
        """Subscribe as this component; the arguments are those of `Bus.subscribe`."""
        return self._bus.subscribe(filter, *args, subscriber=self.name, **options)

    def of(self, cls: type[T]) -> Typed[T]:
        """This component for instances of a class, as `Bus.of` has it."""
        from fairlead.typed import Typed

        return Typed(self, cls, self._bus._schema)

    def detect(self, pattern: Any, *args: Any, **options: Any) -> Detection:
        """Ask for a pattern as this component; the arguments are those of `Bus.detect`."""
        return self._bus.detect(pattern, *args, subscriber=self.name, **options)

    def request(self, event: Mapping[str, Any] | Notification, **options: Any) -> Notification:
        """Request as this component; the options are those of `Bus.request`."""
        return self._bus.request(event, producer=self.name, subscriber=self.name, **options)

    def requests(self, event: Mapping[str, Any] | Notification, **options: Any) -> Replies:
        """Request as this component; the options are those of `Bus.requests`."""
        return self._bus.requests(event, producer=self.name, subscriber=self.name, **options)

    def respond(self, filter: str | Filter, answer: Answer, **options: Any) -> Subscription:
        """Reply to requests as this component; the options are those of `Bus.respond`."""
        return self._bus.respond(filter, answer, subscriber=self.name, **options)

    def advertise(self, filter: str | Filter) -> Advertisement:
        """Announce what this component will publish."""
        return self._bus.advertise(filter, self.name)

    def _relays(self) -> bool:
        scoped = self._bus._scoped
        return scoped is None or bool(scoped.running.system.graph.node(self.name).attributes.get("relays"))

    def __repr__(self) -> str:
        return f"<component {self.name!r}>"


class BusScopes:
    """The scope graph of a bus, and its changes while notifications flow.

    A change stands in the one order of the bus: a notification is judged by the graph at its own place. On a live
    bus a change holds for what is published after it, on an ordered one from an order time on: `since`, or the
    watermark where that is later.
    """

    __slots__ = ("_bus",)

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    @property
    def graph(self) -> ScopeGraph:
        """The graph behind all changes."""
        with self._bus._lock:
            return self._running.system.graph

    @property
    def _running(self) -> Running:
        if self._bus._scoped is None:
            raise ScopeError("the bus has no scopes", hint="Bus(scopes=Scopes.read(…))")
        return self._bus._scoped.running

    def join(self, component: str, scope: str, *, since: Instant | None = None) -> None:
        """Make a component a member of a scope."""
        self.apply([Join(component, scope, since)])

    def leave(self, component: str, scope: str, *, since: Instant | None = None) -> None:
        """End a component's membership in a scope."""
        self.apply([Leave(component, scope, since)])

    def drop(self, scope: str, *, since: Instant | None = None) -> None:
        """Take a scope out of the graph. Its members are notified first; in no other scope they are isolated."""
        self.apply([DropScope(scope, since)])

    def alter(self, text: str) -> None:
        """Apply statements of the scope graph language, all of them or, where one is refused, none."""
        self.apply(parse_statements(text, self._bus._schema))

    def apply(self, statements: Iterable[Statement]) -> None:
        """Apply statements, all of them or, where one is refused, none."""
        self._bus._change_scopes(tuple(statements))

    def visible(self, one: str, other: str) -> bool:
        """Whether some scope contains both, interfaces aside."""
        return self.graph.visible(one, other)

    def explain(self, event: Mapping[str, Any] | Notification, to: str) -> SightExplanation:
        """Why a component would see a notification now, or what stops it."""
        with self._bus._lock:
            plan = self._running.plan_at(None)
        return explain(plan, Notification.of(event), to)
