"""Delivery over HTTP: server-sent events, and WebSockets.

Over server-sent events a client cannot accept. An event of a durable subscriber counts as accepted when
something else has been sent after it and the connection still existed: so the last events before a lost
connection are delivered again. A client that resumes with the last id it received (browsers do, by themselves)
gets everything after it. That is at least once. Over a WebSocket the client accepts explicitly.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from fairlead.console.feeds import ControlEvent, Event, Feed
from fairlead.errors import ConnectionEnded, FairleadError, ValueRefused
from fairlead.model.durations import seconds_of
from fairlead.model.encoding import format_json, parse_json

__all__ = ["EventStream", "converse"]

EVENT_STREAM: Final = "text/event-stream"
GOING_AWAY, POLICY_VIOLATION = 1001, 1008


class EventStream(Response):
    """Server-sent events of a feed, for as long as the client stays."""

    def __init__(self, opened: AbstractContextManager[Feed], *, beat_s: float) -> None:
        super().__init__(
            headers={"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )
        del self.headers["content-length"]
        self._opened, self._beat_s = opened, beat_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._opened as feed:
            await _until_one_ends(
                lambda gone: self._stream(feed, send, gone),
                lambda: _disconnected(receive),
            )

    async def _stream(self, feed: Feed, send: Send, gone: asyncio.Future[None]) -> None:
        await feed.open()
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        others = "" if feed.is_installed else "; a broker that cannot be reached will know when it is back"
        await _write(send, f": subscribed{others}\n\n")
        sent: list[int] = []
        try:
            while True:
                outgoing: list[Event | ControlEvent] = []
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._beat_s):
                        outgoing = await feed.next()
                await _write(send, "".join(map(_event_text, outgoing)) or ": \n\n")
                if gone.done():
                    return
                feed.accept(sent)
                sent = [each.offset for each in outgoing if isinstance(each, Event)]
                if not feed.is_durable:
                    feed.accept(sent)
                    sent = []
        except ConnectionEnded as error:
            bye = _event_text(ControlEvent("bye", {"reason": str(error)}))
            await send({"type": "http.response.body", "body": bye.encode()})


def _event_text(each: Event | ControlEvent) -> str:
    if isinstance(each, ControlEvent):
        return f"event: {each.what}\ndata: {format_json(each.content)}\n\n"
    return f"id: {each.id}\ndata: {each.text}\n\n" if each.id else f"data: {each.text}\n\n"


async def _write(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _until_one_ends(
    work: Callable[[asyncio.Future[None]], Coroutine[Any, Any, None]],
    end: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """Run both until one has ended, and end the other; `work` is notified when the other has."""
    gone = asyncio.ensure_future(end())
    working = asyncio.ensure_future(work(gone))
    try:
        await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in (working, gone):
            each.cancel()
        await asyncio.wait([working, gone])
    for each in (working, gone):
        if not each.cancelled():
            each.result()


# -- WebSockets ------------------------------------------------------------------------------------------------


async def converse(socket: WebSocket, opened: AbstractContextManager[Feed]) -> None:
    """Deliver the events of a feed over a WebSocket, and read the client's responses."""
    await socket.receive()  # that it connects
    try:
        with opened as feed:
            await _until_one_ends(lambda _: _deliver(socket, feed), lambda: _hear(socket, feed))
    except _Misunderstood as error:
        with contextlib.suppress(WebSocketDisconnect):
            await socket.close(POLICY_VIOLATION, str(error))
    except WebSocketDisconnect:
        pass


class _Misunderstood(ValueRefused):
    """A client sent an unknown message."""


async def _deliver(socket: WebSocket, feed: Feed) -> None:
    await feed.open()
    await socket.accept()
    try:
        while True:
            for each in await feed.next():
                await socket.send_text(_message_text(each))
                if isinstance(each, Event) and not feed.is_durable:
                    feed.accept([each.offset])
    except ConnectionEnded as error:
        await socket.send_text(_message_text(ControlEvent("bye", {"reason": str(error)})))
        await socket.close(GOING_AWAY, str(error))


def _message_text(each: Event | ControlEvent) -> str:
    if isinstance(each, ControlEvent):
        return format_json({each.what: each.content})
    head = f'"id":"{each.id}",' if each.id else ""
    if each.attempt > 1:
        head += f'"attempt":{each.attempt},'
    if each.retained:
        head += '"retained":true,'
    return f'{{{head}"event":{each.text}}}'


async def _hear(socket: WebSocket, feed: Feed) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        _understand(message.get("text"), feed)


def _understand(text: str | None, feed: Feed) -> None:
    if text is None:
        raise _Misunderstood("messages are text, not bytes")
    try:
        said = parse_json(text)
    except ValueRefused as error:
        raise _Misunderstood(str(error)) from None
    match said:
        case {"accept": str(id), **others} if not others:
            feed.accept([_offset(feed, id)])
        case {"accept": [*ids], **others} if not others:
            feed.accept([_offset(feed, id) for id in ids])
        case {"reject": str(id), **others} if others.keys() <= {"again", "after", "reason"}:
            after, reason = others.get("after"), others.get("reason", "")
            again = others.get("again") is True or after is not None
            delay = _delay(after)
            feed.reject(_offset(feed, id), again=again, after_us=delay, reason=str(reason))
        case {"renew": str(id), **others} if not others:
            feed.renew(_offset(feed, id))
        case _:
            raise _Misunderstood(
                'send {"accept": id}, {"accept": [id, …]}, {"reject": id, "again": true, "after": "5s"} or'
                ' {"renew": id}'
            )


def _delay(given: Any) -> int:
    """A delay in microseconds."""
    try:
        seconds = seconds_of(given, "a delay")
    except FairleadError as error:
        raise _Misunderstood(str(error)) from None
    return 0 if seconds is None else round(seconds * 1_000_000)


def _offset(feed: Feed, id: Any) -> int:
    offset = feed.offset_of(id) if isinstance(id, str) else None
    if offset is None:
        raise _Misunderstood(f"no event has the id {id!r:.40}")
    return offset
