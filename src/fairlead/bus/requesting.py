"""Requests of a bus and the replies to them (`fairlead.delivery.requesting`).

A requester has one standing subscription to its replies. Its deliveries are those of its subscriber, and go to the
open requests instead of to its callback or queue.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

from fairlead.delivery.requesting import IS_REQUEST, Event, OpenRequests, replies_to, reply_of, request_of
from fairlead.errors import NoReply, RequestRefused
from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.model import Notification
from fairlead.model.durations import seconds_of

if TYPE_CHECKING:
    from fairlead.bus.bus import Bus
    from fairlead.bus.handles import Subscription

__all__ = ["Answer", "Replies", "Requester", "Timeout", "responding"]

Answer: TypeAlias = Callable[[Notification], Event | None]
Timeout: TypeAlias = float | str | timedelta | None


class Replies:
    """The replies to a request, as they come: iterate over them, until enough have come or the time is over.

    As a context manager it is closed when the block ends. A reply that comes later is nobody's.
    """

    __slots__ = ("_came", "_changed", "_deadline", "_enough", "_left", "_requester", "_timeout", "request")

    def __init__(
        self, requester: Requester, request: Notification, timeout: Timeout, enough: int | None
    ) -> None:
        if enough is not None and enough < 1:
            raise RequestRefused(f"at least one reply is enough, not {enough}")
        self._requester = requester
        self.request = request
        self._timeout = seconds_of(timeout, "a timeout")
        self._deadline = None if self._timeout is None else time.monotonic() + self._timeout
        self._left = enough
        self._came: deque[Notification] = deque()
        self._changed = threading.Condition()
        self._enough = False

    def get(self) -> Notification:
        """The next reply; NoReply where none comes in time."""
        reply = next(self, None)
        if reply is not None:
            return reply
        raise NoReply(
            f"no reply within {self._timeout:g} s"
            if self._timeout is not None
            else "no reply: the request is closed",
            hint="a subscription matches the request, but nobody replied in time",
        )

    def close(self) -> None:
        """Take no more replies."""
        self._requester.close(self.request)
        with self._changed:
            self._enough = True
            self._changed.notify_all()

    def _tell(self, reply: Notification) -> None:
        with self._changed:
            if self._enough:
                return
            self._came.append(reply)
            if self._left is not None:
                self._left -= 1
                self._enough = self._left == 0
            self._changed.notify_all()
        if self._enough:
            self._requester.close(self.request)

    def __iter__(self) -> Iterator[Notification]:
        return self

    def __next__(self) -> Notification:
        with self._changed:
            left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            self._changed.wait_for(lambda: self._came or self._enough, left)
            if self._came:
                return self._came.popleft()
        self.close()
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Requester:
    """A subscriber of a bus that requests: its token, its standing subscription, its open requests."""

    __slots__ = ("_bus", "_lock", "_open", "subscription")

    def __init__(self, bus: Bus, subscriber: str | None) -> None:
        self._bus = bus
        self._lock = threading.RLock()  # re-entrant: enough replies close their request
        self._open = OpenRequests()
        self.subscription: Subscription = bus._subscribe_to_replies(
            replies_to(self._open.token), self._take, subscriber
        )

    def request(self, event: Event, timeout: Timeout, enough: int | None) -> Replies:
        """Publish a request; its replies."""
        replies = Replies(self, request_of(event, self._open.token), timeout, enough)
        with self._lock:
            self._open.open(replies.request, replies._tell)
        try:
            if self._bus._publish(replies.request, is_request=True) is None:
                raise RequestRefused(
                    f"a notification with the id {replies.request.id!r} was published before",
                    hint="leave the id out: a request gets one",
                )
        except BaseException:
            replies.close()
            raise
        return replies

    def close(self, request: Notification) -> None:
        """Take no more replies to a request."""
        with self._lock:
            self._open.close(request)

    def _take(self, reply: Notification) -> None:
        with self._lock:
            self._open.take(reply)


def responding(
    bus: Bus, filter: Filter, answer: Answer, subscriber: str | None, id: str | None
) -> tuple[Filter, Callable[[Notification], None]]:
    """The filter that a responder subscribes to, and its callback."""
    responder = id or subscriber or f"responder-{next(bus._responders)}"

    def respond(request: Notification) -> None:
        content = answer(request)
        if content is not None:
            bus.publish(reply_of(request, content, responder, subscriber or ""))

    return parse(IS_REQUEST) & filter, respond
