"""Request and reply between those who do not name each other.

A request is a publication with the attribute `reply`, a reply one with the attribute `re`:

    request   {"type": "price?", "symbol": "IBM", "reply": {"to": TOKEN}}
    reply     {"price": 81, "re": {"to": TOKEN, "producer": "", "id": "…"}}

The token stands for one requester and says nothing about it: it is random. Whoever replies copies it. So a
requester subscribes to the filter `re.to = TOKEN` once, before its first request, and to nothing else.

    Laws
    A reply that is handed out belongs to an open request of its requester; to a request that is not open, none is.
    The reply of one responder to one request has one identity: made again, it is a duplicate.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from fairlead.errors import ValueRefused
from fairlead.model import Notification
from fairlead.model.order import Identity, identity_of

__all__ = ["IS_REQUEST", "OpenRequests", "replies_to", "reply_of", "request_of"]

REPLY: Final = "reply"
RE: Final = "re"
IS_REQUEST: Final = "exists reply.to"
"""The filter that requests match, and nothing else."""

Event = Mapping[str, Any] | tuple[Any, ...] | Notification


def replies_to(token: str) -> str:
    """The filter that the replies to a requester match."""
    return f're.to = "{token}"'


def request_of(event: Event, token: str) -> Notification:
    """An event as a request whose replies go to a token; without an id it gets one, so that it can be repeated."""
    notification = Notification.of(event)
    request = _with(notification, REPLY, {"to": token})
    return request if request.id is not None else replace(request, id=secrets.token_hex(16))


def reply_of(request: Notification, content: Event, responder: str, producer: str = "") -> Notification:
    """The reply of a responder to a request."""
    asked = request.attributes[REPLY]
    about = {"to": asked["to"], "producer": request.producer, "id": request.id}
    reply = _with(Notification.of(content), RE, about)
    if reply.id is None:
        named = json.dumps([request.producer, request.id, responder], ensure_ascii=True)
        reply = replace(reply, id=hashlib.sha256(named.encode()).hexdigest()[:32])
    return reply if reply.producer else replace(reply, producer=producer)


class OpenRequests:
    """The requests of one requester that wait for replies. Whoever uses it holds a lock."""

    __slots__ = ("_open", "token")

    def __init__(self) -> None:
        self.token: Final = secrets.token_hex(16)
        self._open: dict[Identity, Callable[[Notification], object]] = {}

    def open(self, request: Notification, tell: Callable[[Notification], object]) -> None:
        """Have `tell` called with each reply to a request, until it is closed."""
        identity = identity_of(request)
        if identity in self._open:
            raise ValueRefused(
                f"a request with the id {request.id!r} is open", hint="leave the id out: a request gets one"
            )
        self._open[identity] = tell

    def close(self, request: Notification) -> None:
        """Take no more replies to a request."""
        self._open.pop(identity_of(request), None)

    def take(self, reply: Notification) -> bool:
        """Hand a reply to the request that it belongs to; False where none such is open."""
        about = reply.attributes.get(RE)
        if not isinstance(about, Mapping) or about.get("to") != self.token:
            return False
        producer, id = about.get("producer"), about.get("id")
        if not isinstance(producer, str) or not isinstance(id, str):
            return False
        tell = self._open.get(Identity(producer, id))
        if tell is None:
            return False
        tell(reply)
        return True

    def __len__(self) -> int:
        return len(self._open)


def _with(notification: Notification, name: str, value: Mapping[str, Any]) -> Notification:
    if name in notification.attributes:
        raise ValueRefused(
            f"the attribute `{name}` says where replies belong", hint="give the attribute another name"
        )
    attributes = {**notification.attributes, name: value}
    return replace(notification, attributes=Notification.of(attributes).attributes)
