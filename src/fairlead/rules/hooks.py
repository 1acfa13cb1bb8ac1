"""Interceptors around publishing, subscribing and delivering, below the interface that components use.

A hook is an object with some of these methods; `Hook` has them all, and changes nothing.

    publishing(notification, who)    the notification as it is published; None: it is withheld; an error refuses it
    subscribing(filter, who)         the filter, or a narrower one; an error refuses the subscription
    delivering(notification, who)    the notification as this subscriber gets it, or None: it does not get it

Hooks are called in their order on the way in, and in the opposite order on the way out. `publishing` comes before
schema, matching and log: what is logged is what it returned. It must not change producer and id where both were
given, or a notification that is published again would be another one. `delivering` comes after matching, and must
be pure: what comes again asks it again. An error in it is counted, and the notification is delivered as it was;
with `strict` set, it is not delivered.

    Law
    With hooks that change nothing, all is as without hooks.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from fairlead.errors import FairleadError, ValueRefused
from fairlead.filters.algebra import covers
from fairlead.filters.filter import Filter
from fairlead.model import Notification
from fairlead.rules.rule import Depends, Refusal, Route, Rule

__all__ = ["Delivering", "Hook", "Hooks", "Publishing", "Subscribing", "load_hook"]

log: Final = logging.getLogger(__name__)

SLOW_S: Final = 0.01
"""A hook of a broker that takes longer is named in the log: everybody waits for it."""
VOLATILE: Final = Depends(volatile=True)


class Hook:
    """A hook that changes nothing, to be subclassed."""

    strict: bool = False
    """Whether an error in `delivering` keeps the notification from the subscriber."""

    def publishing(self, notification: Notification, who: str) -> Notification | None:
        """A notification as it is published by a client; None: it is withheld."""
        return notification

    def subscribing(self, filter: Filter, who: str) -> Filter:
        """The filter of a subscription as it is made, or a narrower one."""
        return filter

    def delivering(self, notification: Notification, who: str) -> Notification | None:
        """A notification as a subscriber gets it; None: it does not. Pure."""
        return notification


class Hooks:
    """The hooks of one bus or broker, in their order, and the rules that call them."""

    def __init__(self, hooks: Iterable[Any]) -> None:
        self.each = tuple(hooks)
        self.withheld = 0
        """The number of publications that hooks have withheld, and of deliveries,"""
        self.failed = 0
        """and of errors in `delivering`."""
        self._slow: set[int] = set()
        self._publishing = self._having("publishing")
        self._subscribing = self._having("subscribing")
        self._delivering = self._having("delivering")[::-1]

    def _having(self, name: str) -> list[tuple[Any, Callable[..., Any]]]:
        """The hooks that do something at this place."""
        return [
            (each, getattr(each, name))
            for each in self.each
            if callable(getattr(each, name, None))
            and getattr(type(each), name, None) is not getattr(Hook, name)
        ]

    @property
    def delivers(self) -> bool:
        """Whether some hook is asked about deliveries."""
        return bool(self._delivering)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of the seam that call these hooks when something is published or subscribed to."""
        publishing = (Publishing(self),) if self._publishing else ()
        return (*publishing, *((Subscribing(self),) if self._subscribing else ()))

    @property
    def broker_rules(self) -> tuple[Rule, ...]:
        """The same, with deliveries: a broker's routes say who gets what."""
        return (*self.rules, *((Delivering(self),) if self._delivering else ()))

    def publishing(self, given: Notification, who: str) -> Notification | Refusal | None:
        """A publication as hooks want it; why it is refused; None: it is withheld."""
        notification: Any = given
        for hook, call in self._publishing:
            try:
                notification = self._timed(hook, call, notification, who)
            except FairleadError as error:
                return Refusal(str(error), error=type(error))
            except Exception as error:
                return Refusal(f"the hook {_name(hook)} failed: {_said(error)}")
            if notification is None:
                self.withheld += 1
                return None
            if not isinstance(notification, Notification):
                return Refusal(
                    f"the hook {_name(hook)} returned {type(notification).__name__}, no Notification"
                )
        is_known = given.id is not None
        if is_known and (notification.producer, notification.id) != (given.producer, given.id):
            return Refusal("a hook changed producer or id: published again, it would be another notification")
        assert isinstance(notification, Notification)
        return notification

    def subscribing(self, given: Filter, who: str) -> Filter | Refusal:
        """The filter of a subscription as hooks want it; or why it is refused."""
        filter: Any = given
        for hook, call in self._subscribing:
            try:
                filter = self._timed(hook, call, filter, who)
            except FairleadError as error:
                return Refusal(str(error), error=type(error))
            except Exception as error:
                return Refusal(f"the hook {_name(hook)} failed: {_said(error)}")
            if not isinstance(filter, Filter) or not covers(given, filter):
                return Refusal(f"the hook {_name(hook)} may narrow a subscription, and returned {filter}")
        assert isinstance(filter, Filter)
        return filter

    def delivering(self, given: Notification, who: str) -> Notification | None:
        """A notification as a subscriber gets it; None: it does not."""
        notification = given
        for hook, call in self._delivering:
            try:
                shown = self._timed(hook, call, notification, who)
            except Exception:
                self.failed += 1
                log.exception("the hook %s failed on a delivery to %s", _name(hook), who)
                if getattr(hook, "strict", False):
                    return None
                continue
            if shown is None:
                return None
            notification = shown
        return notification

    def _timed(self, hook: Any, call: Callable[..., Any], about: Any, who: str) -> Any:
        began = time.perf_counter()
        answer = call(about, who)
        if time.perf_counter() - began > SLOW_S and id(hook) not in self._slow:
            self._slow.add(id(hook))
            log.warning(
                "the hook %s took more than %d ms: everybody waits for it", _name(hook), SLOW_S * 1000
            )
        return answer


class Publishing(Rule):
    """Has hooks look at each publication."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def depends_for(self, source: str) -> Depends:
        return VOLATILE if source.startswith("c:") else Depends()

    def intercept(self, who: str, notification: Notification) -> Notification | Refusal | None:
        return self._hooks.publishing(notification, _client(who))


class Subscribing(Rule):
    """Has hooks narrow subscriptions when they are made."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def grant(self, who: str, action: str, filter: Filter, now: int) -> Filter | Refusal:
        return self._hooks.subscribing(filter, _client(who)) if action == "subscribe" else filter


class Delivering(Rule):
    """Has hooks look at each delivery to a broker's own clients."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    @property
    def depends(self) -> Depends:
        return VOLATILE

    def narrow(self, route: Route, notification: Notification, source: str) -> Route:
        if not route.clients and not route.versions:
            return route
        clients: list[tuple[str, tuple[str, ...]]] = []
        versions: list[tuple[str, tuple[str, ...], Notification]] = []
        forms = [(client, ids, notification) for client, ids in route.clients]
        for client, ids, form in forms:
            shown = self._hooks.delivering(form, _client(client))
            if shown is form:
                clients.append((client, ids))
            elif shown is not None:
                versions.append((client, ids, shown))
        for client, ids, form in route.versions:
            shown = self._hooks.delivering(form, _client(client))
            if shown is not None:
                versions.append((client, ids, shown))
        return Route(route.neighbours, tuple(clients), tuple(versions))


def load_hook(name: str) -> Any:
    """The hook of this name, "module:Object"; a class is called without arguments. ValueRefused: there is none."""
    module, separator, rest = name.partition(":")
    if not separator or not module or not rest:
        raise ValueRefused(f"the hook {name!r} is not written as module:Object")
    try:
        found: Any = importlib.import_module(module)
        for part in rest.split("."):
            found = getattr(found, part)
        return found() if isinstance(found, type) else found
    except Exception as error:
        raise ValueRefused(f"the hook {name!r} cannot be loaded: {_said(error)}") from error


def _client(who: str) -> str:
    """A client as hooks know it: by its name, or by that of a durable subscriber."""
    return who[2:] if who[1:2] == ":" else who


def _name(hook: Any) -> str:
    return type(hook).__name__


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
