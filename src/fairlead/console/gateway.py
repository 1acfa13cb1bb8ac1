"""The routes of a broker's HTTP interface."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from fairlead.console.answers import Health, Published, Readiness
from fairlead.console.cloudevents import event_of, notifications_in
from fairlead.console.desk import Desk
from fairlead.console.feeds import Feed, Wanted, retained_filter
from fairlead.console.metrics import TEXT_FORMAT, Requests, exposition
from fairlead.console.openapi import DOCUMENT, OPERATIONS
from fairlead.console.problems import Problem
from fairlead.console.requesting import Terms, replies
from fairlead.console.sites import Sites
from fairlead.console.streams import EVENT_STREAM, EventStream, converse
from fairlead.console.views import Network, Within, views
from fairlead.console.views.network import surveys_within
from fairlead.console.views.routes import check_site
from fairlead.delivery.discovery import WHAT, What
from fairlead.errors import (
    AccessRefused,
    BrokerRefused,
    ConnectionEnded,
    Forbidden,
    NotAuthenticated,
    ProtocolError,
)
from fairlead.log.writer import ROOM_HINT
from fairlead.model import Notification
from fairlead.model.encoding import format_json
from fairlead.model.packed import pack, unpack
from fairlead.network import wire
from fairlead.network.server import Server, micros
from fairlead.security import Principal
from fairlead.security.principals import NOBODY

__all__ = ["HANDLERS", "Gateway", "HttpLimits"]

METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "POST"})
ANSWERS: Final = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})
"""The messages of an application that answer a request."""
CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="fairlead", Basic realm="fairlead"'}
PEER: Final = "peer certificate"
"""The key under which the state of a connection has the certificate of the other side."""
CONSOLE: Final = "/console"
ROUTES: Final = frozenset(path for path, _ in OPERATIONS) | {CONSOLE}


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """The limits of HTTP."""

    body_bytes: int = 1 << 20
    receiving_bytes: int = 64 << 20
    """Of all requests that are still being received."""
    batch: int = 1_000
    """The most events of one request."""
    streams: int = 1_000
    agents: int = 100
    """The number of principals that may have a session between their requests."""
    connections: int = 2_000
    """All connections: more than streams, so that health and metrics always respond."""
    headers_s: float = 10.0
    """The time a connection may take to send the headers of a request: silent ones are closed."""
    patience_s: float = 30.0
    """The time a request may take to arrive, and to be acknowledged."""
    message_bytes: int = 1 << 20
    """The longest message of a client on a WebSocket."""
    ping_s: float = 20.0
    """The interval of pings to a client on a WebSocket; one that does not respond for as long is
    disconnected."""
    beat_s: float = 15.0
    """After so long without an event a stream of server-sent events shows that it is alive."""


class Gateway:
    """An application (ASGI) in front of a running broker."""

    def __init__(self, server: Server, limits: HttpLimits | None = None) -> None:
        self.server, self.limits = server, limits or HttpLimits()
        self.requests = Requests()
        self._sites = Sites(server.settings)
        self._desks: set[Desk] = set()
        self._agents: dict[tuple[Any, ...], Desk] = {}
        """The client session of each principal, for requests that are no streams; the latest last."""
        self._opening = asyncio.Lock()
        self._receiving = 0
        self._surveys = surveys_within(server)
        self.app = Starlette(
            routes=[
                Route("/events", self._events, methods=["GET", "POST"]),
                Route("/events/ws", self._no_socket, methods=["GET"]),
                WebSocketRoute("/events/ws", self._socket),
                Route("/requests", self._request, methods=["POST"]),
                Route("/subscriptions/{name:path}", self._forget, methods=["DELETE"]),
                *(Route(f"/{what}", self._discovered(what)) for what in WHAT),
                Route("/status", self._status),
                Route("/tables", self._tables),
                Route("/channels", self._channels),
                Route("/retained", self._retained),
                Route("/healthz", self._health),
                Route("/readyz", self._readiness),
                Route("/metrics", self._guarded_metrics),
                Route("/openapi.json", self._description),
                Route(CONSOLE, self._console),
                Mount(CONSOLE, routes=views(self._view, self._body)),
            ],
            middleware=[
                Middleware(_Counted, requests=self.requests),
                *_cross_origin(server.settings.origins),
            ],
            exception_handlers=HANDLERS,
        )
        self.health = Starlette(
            routes=[
                Route("/healthz", self._health),
                Route("/readyz", self._readiness),
                Route("/metrics", self._metrics),
            ],
            exception_handlers=HANDLERS,
        )
        """Health and metrics alone, for a listener of their own."""

    def close(self) -> None:
        """End all streams, with a `bye` event."""
        for desk in list(self._desks):
            desk.close()
        for agent in list(self._agents.values()):
            agent.leave()

    # -- principals --------------------------------------------------------------------------------------------

    async def _principal(self, request: HTTPConnection, right: str = "connect") -> Principal:
        """The principal of a request, which has a right; Problem 401 or 403."""
        authentication, guard = self.server.authentication, self.server.node.guard
        if not guard.is_on:
            return NOBODY
        given = request.headers.getlist("authorization")
        if len(given) > 1:
            raise Problem(400, "a request has one Authorization")
        authorization = given[0] if given else ""
        try:
            if authentication.is_slow(authorization):
                principal = await authentication.check_beside(authorization)
            else:
                principal = authentication.principal(authorization, request.scope.get("state", {}).get(PEER))
        except NotAuthenticated as error:
            raise Problem.of(401, error, headers=CHALLENGE) from None
        try:
            guard.check_principal(principal, right, micros())
        except Forbidden as error:
            if principal == NOBODY:
                raise Problem(401, "credentials are needed", headers=CHALLENGE) from None
            raise Problem.of(403, error) from None
        return principal

    # -- events ------------------------------------------------------------------------------------------------

    async def _events(self, request: Request) -> Response:
        is_durable = "durable" in request.query_params
        self._sites.check_page(request, is_durable=is_durable)
        principal = await self._principal(request)
        if request.method == "POST":
            return await self._publish(request, principal)
        wanted = Wanted.of(request.query_params.multi_items(), request.headers.get("last-event-id", ""))
        if request.method == "HEAD":
            return Response(headers={"Content-Type": EVENT_STREAM})
        return EventStream(self._opened(wanted, principal), beat_s=self.limits.beat_s)

    async def _publish(self, request: Request, principal: Principal) -> Response:
        body = await self._body(request)
        found = notifications_in(request.headers.items(), body, most=self.limits.batch)
        notifications = [self._identified(each, principal) for each in found]
        self._check_sizes(notifications)
        try:
            async with self._acting(principal) as agent:
                repeated = await agent.publish(notifications)
        except AccessRefused as error:
            raise Problem.of(403, error) from None
        except BrokerRefused as error:
            raise Problem.of(507 if ROOM_HINT in str(error) else 503, error) from None
        except (ConnectionEnded, TimeoutError):
            raise Problem(
                503,
                "not acknowledged in time; it may be in the log or not: publish it again under the same id",
                headers={"Retry-After": "1"},
            ) from None
        duplicates = sum(repeated)
        published: Published = {
            "accepted": len(repeated) - duplicates,
            "duplicates": duplicates,
            "events": [
                {"id": str(each.id), "source": each.producer, "duplicate": known}
                for each, known in zip(notifications, repeated, strict=True)
            ],
        }
        return _json(published, 202 if published["accepted"] or not repeated else 200)

    async def _request(self, request: Request) -> Response:
        self._sites.check_page(request)
        principal = await self._principal(request)
        terms = Terms.of(request.query_params.multi_items(), self.limits.patience_s)
        found = notifications_in(request.headers.items(), await self._body(request), most=1)
        if len(found) != 1:
            raise Problem(400, "a request is one event")
        event = self._identified(found[0], principal)
        self._check_sizes([event])
        if len(self._desks) >= self.limits.streams:
            raise Problem(503, "too many requests and streams are open", headers={"Retry-After": "1"})
        desk = self._desk("", principal)
        self._desks.add(desk)
        try:
            came = [event_of(each) for each in await replies(desk, event, terms)]
        finally:
            self._desks.discard(desk)
            desk.leave()
        return _json(came[0] if terms.enough is None else came)

    async def _body(self, request: Request) -> bytes:
        most = self.limits.body_bytes
        too_large = Problem(413, f"a request of more than {most:,} bytes")
        if (length := request.headers.get("content-length", "")).isdecimal() and int(length) > most:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.patience_s):
                async for chunk in request.stream():
                    body += chunk
                    self._receiving += len(chunk)
                    if len(body) > most:
                        raise too_large
                    if self._receiving > self.limits.receiving_bytes:
                        raise Problem(503, "too much is being sent at once", headers={"Retry-After": "1"})
        except TimeoutError:
            raise Problem(408, "the request did not end in time", headers={"Connection": "close"}) from None
        except ClientDisconnect:
            raise Problem(400, "the client disconnected before its request ended") from None
        finally:
            self._receiving -= len(body)
        return bytes(body)

    def _identified(self, notification: Notification, principal: Principal) -> Notification:
        """With a producer and an id: the response has both, so that the client can publish it again under them."""
        if not notification.producer:
            is_known = self.server.node.guard.is_on
            producer = principal.name if is_known else f"{self.server.settings.name}/http"
            notification = replace(notification, producer=producer)
        return notification if notification.id is not None else replace(notification, id=uuid.uuid4().hex)

    def _check_sizes(self, notifications: list[Notification]) -> None:
        """Refuse records larger than a frame: they could not be passed on to a neighbour."""
        most = self.server.node.limits.frame_bytes
        for index, notification in enumerate(notifications):
            if len(wire.publish(0, pack(notification))) > most:
                raise Problem(413, f"an event of more than {most:,} bytes", index=index)

    @asynccontextmanager
    async def _acting(self, principal: Principal) -> AsyncIterator[Desk]:
        """The client session for all requests of a principal over HTTP; TimeoutError after a while.

        While it is blocked, another one takes over: other publications must not wait.
        """
        key = (principal.name, principal.via, principal.token, principal.until)
        async with asyncio.timeout(self.limits.patience_s):
            async with self._opening:
                agent = self._agents.pop(key, None)
                if agent is None or agent.ended is not None or agent.session.inflow.is_blocked:
                    self._let_go_of(principal.name)
                    agent = self._desk("", principal)
                    if self.server.settings.advertisements is not None:
                        # Publications over HTTP are not known in advance. Not everybody may publish.
                        with suppress(AccessRefused):
                            await agent.request(lambda number: wire.Advertise(number, "http", "true"))
                self._agents[key] = agent
                self._let_idle_go()
            try:
                yield agent
            except (TimeoutError, asyncio.CancelledError):
                if agent.session.inflow.is_blocked:
                    agent.leave()  # no caller waits for its response any longer
                raise
            finally:
                if agent is not self._agents.get(key) and not agent.is_busy:
                    agent.leave()

    def _let_go_of(self, name: str) -> None:
        """A principal with new credentials has the one session, which counts among its connections."""
        for key, agent in list(self._agents.items()):
            if key[0] == name and not agent.is_busy:
                del self._agents[key]
                agent.leave()

    def _let_idle_go(self) -> None:
        """Only the latest principals have a session that waits for more."""
        for key, agent in list(self._agents.items())[: -self.limits.agents]:
            if not agent.is_busy:
                del self._agents[key]
                agent.leave()

    def _desk(self, policy: str, principal: Principal) -> Desk:
        try:
            return Desk(self.server, policy, principal)
        except ProtocolError as error:
            raise Problem.of(503, error, headers={"Retry-After": "1"}) from None

    @contextmanager
    def _opened(self, wanted: Wanted, principal: Principal) -> Iterator[Feed]:
        """A feed, for as long as its stream is open."""
        if len(self._desks) >= self.limits.streams:
            raise Problem(
                503, f"{self.limits.streams:,} streams are open already", headers={"Retry-After": "1"}
            )
        desk = self._desk(wanted.policy, principal)
        self._desks.add(desk)
        self.requests.streams = len(self._desks)
        try:
            yield Feed(self.server, desk, wanted)
        finally:
            self._desks.discard(desk)
            self.requests.streams = len(self._desks)
            desk.leave()

    async def _socket(self, socket: WebSocket) -> None:
        try:
            self._sites.check_page(socket)
            principal = await self._principal(socket)
            wanted = Wanted.of(socket.query_params.multi_items())
            if wanted.durable and wanted.after:
                raise Problem(
                    400, "a durable subscriber continues after the last event it accepted: leave out 'after'"
                )
            await converse(socket, self._opened(wanted, principal))
        except Problem as problem:
            await socket.send_denial_response(problem.response())

    async def _no_socket(self, request: Request) -> Response:
        self._sites.check_page(request)
        await self._principal(request)
        Wanted.of(request.query_params.multi_items())
        raise Problem(
            426,
            "this is a WebSocket: request an upgrade",
            headers={"Upgrade": "websocket", "Connection": "Upgrade"},
        )

    # -- the broker --------------------------------------------------------------------------------------------

    async def _forget(self, request: Request) -> Response:
        name = request.path_params["name"]
        self._sites.check_page(request)
        principal = await self._principal(request)
        try:
            async with self._acting(principal) as agent:
                await agent.request(lambda number: wire.Unsubscribe(number, "", name))
        except AccessRefused as error:
            raise Problem.of(403, error) from None
        except BrokerRefused as error:
            raise Problem.of(404, error) from None
        except (ConnectionEnded, TimeoutError):
            raise Problem(503, "not answered in time", headers={"Retry-After": "1"}) from None
        return Response(status_code=204)

    def _discovered(self, what: What) -> Callable[[Request], Awaitable[Response]]:
        """The answer to a question about what others want, or offer."""

        async def answer(request: Request) -> Response:
            self._sites.check_host(request)
            principal = await self._principal(request)
            given = request.query_params
            if [name for name, _ in given.multi_items()] != ["filter"]:
                raise Problem(400, "a filter is needed, and nothing else; 'true' is about everything")
            try:
                async with self._acting(principal) as agent:
                    found = await agent.request(lambda number: wire.Discover(number, what, given["filter"]))
            except AccessRefused as error:
                raise Problem.of(403, error) from None
            except BrokerRefused as error:
                raise Problem.of(400, error) from None
            except (ConnectionEnded, TimeoutError):
                raise Problem(503, "not answered in time", headers={"Retry-After": "1"}) from None
            return _json(found)

        return answer

    async def _status(self, request: Request) -> Response:
        self._sites.check_host(request)
        await self._principal(request, "inspect")
        return _json(self.server.node.status())

    async def _tables(self, request: Request) -> Response:
        self._sites.check_host(request)
        await self._principal(request, "inspect")
        return _json(self.server.node.tables())

    async def _channels(self, request: Request) -> Response:
        self._sites.check_host(request)
        await self._principal(request, "inspect")
        return _json(self.server.node.channels())

    async def _retained(self, request: Request) -> Response:
        self._sites.check_page(request)
        principal = await self._principal(request)
        filter = retained_filter(request.query_params.multi_items())
        desk = self._desk("", principal)
        try:
            async with asyncio.timeout(self.limits.patience_s):
                packed = await desk.retained(filter)
        except BrokerRefused as error:
            raise Problem.of(403 if isinstance(error, AccessRefused) else 409, error) from None
        except (ConnectionEnded, TimeoutError):
            raise Problem(503, "not answered in time", headers={"Retry-After": "1"}) from None
        finally:
            desk.leave()
        return _json([event_of(unpack(each)) for each in packed])

    async def _health(self, request: Request) -> Response:
        answer: Health = {"status": "ok"}
        return _json(answer)

    async def _readiness(self, request: Request) -> Response:
        results = readiness(self.server)
        return _json(results, 200 if results["ready"] else 503)

    async def _guarded_metrics(self, request: Request) -> Response:
        self._sites.check_host(request)
        await self._principal(request, "inspect")
        return await self._metrics(request)

    async def _metrics(self, request: Request) -> Response:
        return Response(exposition(self.server, self.requests), media_type=TEXT_FORMAT)

    async def _description(self, request: Request) -> Response:
        return _json(DOCUMENT)

    # -- the console -------------------------------------------------------------------------------------------

    async def _console(self, request: Request) -> Response:
        return RedirectResponse(f"{CONSOLE}/")

    async def _view(self, request: Request, right: str) -> Network:
        """The network as the principal of a request may see it."""
        check_site(self._sites, request)
        principal = await self._principal(request, right)
        return Within(
            self.server,
            self._surveys,
            lambda: self._acting(principal),
            lambda notification: self._test_event(notification, principal),
            lambda name: Desk(self.server, principal=principal, name=name),
        )

    def _test_event(self, notification: Notification, principal: Principal) -> Notification:
        """An event of the console, with the limits of any other that comes over HTTP."""
        identified = self._identified(notification, principal)
        self._check_sizes([identified])
        return identified


def readiness(server: Server) -> Readiness:
    """Whether a broker is ready, and if not, what is missing."""
    node, failed = server.node, server.failure.done()
    links = {name: link.session is not None and link.ready for name, link in node.links.items()}
    calling = node.neighbourhood.calling
    waiting: dict[str, Mapping[str, Any]] = {
        **{name: calling.of_link(name) or {} for name, is_up in links.items() if not is_up},
        **calling.waiting(),
    }
    links |= dict.fromkeys(waiting, False)
    is_full = node.ledger is not None and node.ledger.is_full
    log: Literal["open", "full", "failed", "none"] = (
        "failed" if failed else "none" if node.ledger is None else "full" if is_full else "open"
    )
    is_listening = server.is_listening and not node.operations.is_draining
    answer: Readiness = {
        "ready": is_listening and log in ("open", "none") and all(links.values()),
        "listening": is_listening,
        "log": log,
        "links": links,
    }
    if waiting:
        answer["waiting"] = {
            name: {"reason": each.get("reason", ""), "since": each.get("since", "")}
            for name, each in waiting.items()
        }
    if failed:
        answer["reason"] = str(server.failure.result())
    return answer


def _cross_origin(origins: tuple[str, ...]) -> list[Middleware]:
    """The middleware that lets browsers show answers to pages of these sites."""
    if not origins:
        return []
    headers = ["Authorization", "Content-Type", "Last-Event-ID"]
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["DELETE", "GET", "POST"],
            allow_headers=headers,
        )
    ]


def _json(content: Any, status: int = 200) -> Response:
    return Response(format_json(content), status_code=status, media_type="application/json")


async def _problem_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response()


async def _ended_response(request: Request, error: Exception) -> Response:
    return Problem(503, str(error)).response()


async def _framework_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers) if error.headers else None
    return Problem(
        error.status_code, f"{request.method} {request.url.path}: {error.detail}", headers=headers
    ).response()


class _Counted:
    """Counts responses by route, never by path: paths are unbounded."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app, self._requests = app, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if message["type"] in ANSWERS:
                path, method = scope.get("path", ""), scope.get("method", "GET")
                route = _route_of(path)
                key = (
                    method if method in METHODS else "other",
                    route if route in ROUTES else "other",
                    message.get("status", 101),
                )
                self._requests.answered[key] += 1
            await send(message)

        await self._app(scope, receive, counted)


def _route_of(path: str) -> str:
    """The route that a path is counted under."""
    if path.startswith("/subscriptions/"):
        return "/subscriptions/{name}"
    return CONSOLE if path.startswith(f"{CONSOLE}/") else path


HANDLERS: Final[dict[Any, Any]] = {
    Problem: _problem_response,
    ConnectionEnded: _ended_response,
    HTTPException: _framework_response,
}
