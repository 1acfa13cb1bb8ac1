"""The console as a process of its own, for a broker elsewhere: `fairlead console`.

It acts with the credentials of whoever started it. So it answers those alone who know the key in the address that
it prints; a browser keeps that key as a cookie, which pages of other sites cannot use.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from hmac import compare_digest
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead.console.cloudevents import text_of
from fairlead.console.gateway import CONSOLE, HANDLERS
from fairlead.console.problems import Problem
from fairlead.console.serving import listen
from fairlead.console.sites import Sites
from fairlead.console.views.network import Network, Remote
from fairlead.console.views.routes import check_site, views
from fairlead.errors import AccessRefused, FairleadError
from fairlead.network.addresses import Address, Tls
from fairlead.network.client import Client, connect
from fairlead.network.settings import BrokerSettings, http_url
from fairlead.security.credentials import Credentials

__all__ = ["application", "run", "serve"]

COOKIE: Final = "fairlead-console"
"""The cookie, with the port: a browser sends the cookies of a machine to all its ports."""
BODY_MAX: Final = 1 << 20


def run(urls: Sequence[str], address: Address, ready: Callable[[str], None], **options: Any) -> None:
    """Serve the console on an event loop of its own, until the process is interrupted."""
    asyncio.run(serve(urls, address, ready, **options))


async def serve(
    urls: Sequence[str],
    address: Address,
    ready: Callable[[str], None],
    *,
    tls: Tls | None = None,
    patience: float = 5.0,
    credentials: Credentials | None = None,
) -> None:
    """Serve the console until the process is interrupted; `ready` is called with the address to open."""
    async with connect(urls, policy="drop", tls=tls, patience=patience, credentials=credentials) as client:
        key = secrets.token_urlsafe(24)
        listening = listen(address)
        port = listening.getsockname()[1]
        app = application(Remote(client, urls, tls, credentials), client, key, f"{COOKIE}-{port}")
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        ready(f"{http_url(address._replace(port=port))}{CONSOLE}/?key={key}")
        await uvicorn.Server(config).serve(sockets=[listening])


def application(network: Network, client: Client, key: str, cookie: str = COOKIE) -> Starlette:
    """The console of one user, who knows the key; the cookie has it afterwards."""
    sites = Sites(BrokerSettings())

    async def access(request: Request, _: str) -> Network:
        check_site(sites, request)
        return network

    async def home(_: Request) -> Response:
        return RedirectResponse(f"{CONSOLE}/")

    async def live(request: Request) -> Response:
        sites.check_page(request)
        return StreamingResponse(_live(client), media_type="text/event-stream")

    return Starlette(
        routes=[
            Route("/", home),
            Route(CONSOLE, home),
            Route("/events", live),
            Mount(CONSOLE, routes=views(access, _body)),
        ],
        middleware=[Middleware(_Locked, key=key, cookie=cookie)],
        exception_handlers={**HANDLERS, FairleadError: _refused, TimeoutError: _late},
    )


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, FairleadError)
    return Problem.of(403 if isinstance(error, AccessRefused) else 503, error).response()


async def _late(_: Request, __: Exception) -> Response:
    return Problem(503, "the broker has not answered in time").response()


async def _live(client: Client) -> AsyncIterator[str]:
    """Notifications from now on, as server-sent events."""
    async with client.subscribe("true") as notifications:
        yield ": subscribed\n\n"
        async for notification in notifications:
            yield f"data: {text_of(notification)}\n\n"


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_MAX:
            raise Problem(413, f"a request of more than {BODY_MAX:,} bytes")
    return bytes(body)


class _Locked:
    """Lets those in who know the key: from the address that was printed, and then from the cookie."""

    def __init__(self, app: ASGIApp, key: str, cookie: str) -> None:
        self._app, self._key, self._cookie = app, key, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        if self._is_key(request.query_params.get("key", "")):
            answer: Response = RedirectResponse(request.url.path, status_code=303)
            answer.set_cookie(self._cookie, self._key, httponly=True, samesite="strict", path="/")
            answer.headers["Referrer-Policy"] = "no-referrer"
        elif self._is_key(request.cookies.get(self._cookie, "")):
            await self._app(scope, receive, send)
            return
        else:
            answer = Problem(403, "open the address that `fairlead console` has printed").response()
        await answer(scope, receive, send)

    def _is_key(self, given: str) -> bool:
        return compare_digest(given.encode(), self._key.encode())
