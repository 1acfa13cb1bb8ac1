"""Sessions: the notifications of one conversation have the same attribute `session`, and no component handles ids.

    with session("order-17"):        all that is published here, by whatever code, has session = "order-17"
        with session("payment"):     session = "order-17/payment": a session within it
            ...

A callback runs in the session of the notification that it is called with, so replies and consequences belong to
the session by themselves. It is an attribute: subscribers filter by it, patterns say `same session`.

The session is that of the thread or task. What an event says about `session` itself is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

from fairlead.errors import ValueRefused
from fairlead.filters import And, Attribute, Constraint, Filter, Not, Op, SubjectPattern, parse
from fairlead.model import Notification

__all__ = ["Session", "call", "in_session", "session"]

T = TypeVar("T")

ATTRIBUTE: Final = "session"
_CURRENT: Final[ContextVar[str]] = ContextVar("fairlead_session", default="")


@dataclass(frozen=True, slots=True)
class Session:
    """A session, by its name: a subject whose levels are the sessions around it."""

    name: str

    @property
    def filter(self) -> Filter:
        """The filter for what belongs to the session, or to one within it; without a name, to none."""
        if not self.name:
            return Not(Constraint(Attribute(ATTRIBUTE), Op.EXISTS))
        return Constraint(Attribute(ATTRIBUTE), Op.MATCHES, SubjectPattern(f"{self.name}/**"))

    def within(self, filter: str | Filter) -> Filter:
        """The part of a filter that is about the session."""
        return And((self.filter, parse(filter) if isinstance(filter, str) else filter))


@contextmanager
def session(name: str | Notification) -> Iterator[Session]:
    """Publish within a session, to the end of the block: one of this name, within the session around it; or the
    one of a notification, whatever is around."""
    if isinstance(name, Notification):
        current = _session_of(name)
    else:
        current = "/".join(each for each in (_CURRENT.get(), _checked(name)) if each)
    token = _CURRENT.set(current)
    try:
        yield Session(current)
    finally:
        _CURRENT.reset(token)


def in_session(notification: Notification) -> Notification:
    """The notification as it is published here: with the session, unless it has one."""
    current = _CURRENT.get()
    if not current or ATTRIBUTE in notification.attributes:
        return notification
    return notification.having(ATTRIBUTE, current)


def call(callback: Callable[[Notification], T], notification: Notification) -> T:
    """Call a callback, in the session of the notification that it is called with."""
    joined = _session_of(notification)
    if joined == _CURRENT.get():
        return callback(notification)
    token = _CURRENT.set(joined)
    try:
        return callback(notification)
    finally:
        _CURRENT.reset(token)


def _session_of(notification: Notification) -> str:
    found = notification.get(ATTRIBUTE, "")
    return found if isinstance(found, str) else ""


def _checked(name: str) -> str:
    if not isinstance(name, str) or not name or "*" in name or not all(name.split("/")):
        raise ValueRefused(
            f"no name of a session: {name!r}", hint='a string such as "order-17"; levels are separated by "/"'
        )
    return name
