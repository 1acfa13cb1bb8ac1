"""Records the trace of a runtime that delivers at once."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Final, TextIO

from fairlead.audit.trace import (
    Advertised,
    Ended,
    Event,
    Language,
    Notified,
    Published,
    ScopeChanged,
    Subscribed,
    Unadvertised,
    Unsubscribed,
    format_event,
)
from fairlead.delivery import Validity
from fairlead.filters.filter import Filter
from fairlead.filters.language import render
from fairlead.filters.schema import Schema
from fairlead.model import Notification
from fairlead.model.encoding import notification_to_json
from fairlead.model.order import OrderKey, identity_of
from fairlead.scopes import DEFAULT, Scopes, System, print_statements
from fairlead.scopes.describing import statements_of
from fairlead.scopes.language.statements import Alter, Define, Deploy, DropScope, Join, Leave, Statement

__all__ = ["Recorder"]

log: Final = logging.getLogger(__name__)


_CHANGES: Final = {
    Define: "define",
    Deploy: "create",
    DropScope: "destroy",
    Join: "join",
    Leave: "leave",
    Alter: "alter",
}


class Recorder:
    """Records events, one at a time, in a file or by calling a function with each. Thread-safe.

    The caller records an event under the lock that orders such events, so that the trace has their order. A
    function that is called for each event must therefore not call the runtime.

    If an event cannot be recorded (a full disk, a function that raises), that is logged and the trace stops
    there, without an end; the runtime continues.
    """

    def __init__(
        self, target: str | os.PathLike[str] | Callable[[Event], object], schema: Schema | None = None
    ) -> None:
        self._lock = threading.Lock()
        self._stream: TextIO | None = None
        self._call: Callable[[Event], object] | None = None
        self._advertisements: dict[tuple[str, Filter], str] = {}
        self._advertisements_made = 0
        self._schema, self._is_begun = schema, False
        if callable(target):
            self._call = target
        else:
            self._stream = open(target, "w", encoding="utf-8", newline="\n")  # noqa: SIM115 (until the end)

    def check(self, thing: Notification | Filter) -> None:
        """ValueRefused or FilterError where a file cannot hold it: before it happens, not when it has."""
        if self._stream is not None:
            notification_to_json(thing) if isinstance(thing, Notification) else render(thing)

    def published(self, notification: Notification, key: OrderKey | None = None) -> None:
        self.record(Published(notification, key or OrderKey.of(notification)))

    def subscribed(self, subscriber: str, id: str, filter: Filter, validity: Validity) -> None:
        self.record(Subscribed(subscriber, id, filter, validity.since, validity.until))

    def answering(self, subscriber: str, id: str, filter: Filter, validity: Validity) -> None:
        """Record a subscription to a pattern, or with a condition: the filter alone does not decide what is
        delivered.

        So the subscription never becomes ready: a delivery must match, and a match need not be delivered.
        """
        self.record(Subscribed(subscriber, id, filter, validity.since, validity.until, ready=False))

    def unsubscribed(self, subscriber: str, id: str, until: OrderKey | None = None) -> None:
        self.record(Unsubscribed(subscriber, id, until))

    def advertised(self, producer: str, filter: Filter) -> None:
        self._advertisements_made += 1
        id = self._advertisements[producer, filter] = f"a{self._advertisements_made}"
        self.record(Advertised(producer, id, filter))

    def unadvertised(self, producer: str, filter: Filter) -> None:
        self.record(Unadvertised(producer, self._advertisements.pop((producer, filter))))

    def notified(
        self,
        subscriber: str,
        notification: Notification,
        subscriptions: tuple[str, ...],
        version: str = "",
        order: int | None = None,
    ) -> None:
        self.record(Notified(subscriber, identity_of(notification), subscriptions, version, order))

    def scoped(self, scopes: Scopes | System, *, ordered: bool = False) -> None:
        """Record the scope graph that a run starts with; `ordered` where it decides in the total order."""
        statements = scopes.statements if isinstance(scopes, Scopes) else statements_of(scopes.graph)
        about: dict[str, Any] = {"text": print_statements(statements)}
        about |= {"ordered": True} if ordered else {}
        if (
            outsiders := (scopes.system if isinstance(scopes, Scopes) else scopes).graph.outsiders
        ) != DEFAULT:
            about["outsiders"] = outsiders
        self.record(ScopeChanged("graph", about))

    def scope_changed(
        self, statement: Statement, since: OrderKey | None = None, behind: bool = False
    ) -> None:
        """Record a change of the scope graph, at its index or from an order key on."""
        about: dict[str, Any] = {"text": print_statements([statement])}
        if since is not None:
            about["from"] = [since.time, since.producer, since.sequence, since.id]
            about |= {"behind": True} if behind else {}
        self.record(ScopeChanged(_CHANGES[type(statement)], about))

    def ended(self) -> None:
        """End the trace: everything has been delivered."""
        self.record(Ended())
        self.stop()

    def stop(self) -> None:
        """Nothing more is recorded; where the trace has no end yet, it stays without one."""
        with self._lock:
            self._stop()

    def flush(self) -> None:
        """Hand what is recorded to the operating system."""
        with self._lock:
            try:
                if self._stream is not None:
                    self._stream.flush()
            except OSError:
                log.exception("the trace stops: an event could not be recorded")
                self._stop()

    def record(self, event: Event) -> None:
        """Record any event; the methods above are for the common ones."""
        with self._lock:
            try:
                if not self._is_begun:
                    self._is_begun = True
                    if (language := Language.spoken(self._schema)) is not None:
                        self._write(language)
                self._write(event)
            except Exception:
                log.exception("the trace stops: an event could not be recorded")
                self._stop()

    def _write(self, event: Event) -> None:
        if self._stream is not None:
            self._stream.write(f"{format_event(event)}\n")
        elif self._call is not None:
            self._call(event)

    def _stop(self) -> None:
        stream, self._stream, self._call = self._stream, None, None
        if stream is not None:
            try:
                stream.close()
            except OSError:  # the buffer does not fit either
                log.exception("the trace is not complete")
