"""The console as a process of its own, for brokers elsewhere, a pipeline, a simulation: `fairlead console`.

It acts with the credentials of whoever started it. So it answers those alone who know the key in the address that
it prints; a browser keeps that key as a cookie, which pages of other sites cannot use.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
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
from fairlead.console.views.routes import check_site, files_of, views
from fairlead.console.views.shell import VIEWS
from fairlead.errors import AccessRefused, BadInput, FairleadError
from fairlead.network.addresses import Address, Tls
from fairlead.network.client import Client, connect
from fairlead.network.settings import BrokerSettings, http_url
from fairlead.security.credentials import Credentials

__all__ = [
    "Part",
    "application",
    "body_of",
    "check_address",
    "network_part",
    "run",
    "serve",
    "served",
]

COOKIE: Final = "fairlead-console"
"""The cookie, with the port: a browser sends the cookies of a machine to all its ports."""
BODY_MAX: Final = 1 << 20
SITES: Final = Sites(BrokerSettings())
"""Pages of this machine alone."""


@dataclass(frozen=True, slots=True)
class Part:
    """Views of the console: their names by path, and their routes below `/console`.

    `routes` is given what checks a request and the names of all views, of this part and of the others.
    """

    views: Mapping[str, str]
    routes: Callable[[Callable[[Request], object], Mapping[str, str]], list[Route]]
    beside: Sequence[Route] = ()
    """Routes that are not below `/console`."""


def network_part(
    client: Client, urls: Sequence[str], tls: Tls | None = None, credentials: Credentials | None = None
) -> Part:
    """The views of a network elsewhere, as the owner of the credentials sees it."""
    network = Remote(client, urls, tls, credentials)

    def routes(check: Callable[[Request], object], listed: Mapping[str, str]) -> list[Route]:
        async def access(request: Request, _: str) -> Network:
            check(request)
            return network

        return views(access, body_of, listed)

    async def live(request: Request) -> Response:
        SITES.check_page(request)
        return StreamingResponse(_live(client), media_type="text/event-stream")

    return Part(VIEWS, routes, (Route("/events", live),))


def check_address(address: Address) -> None:
    """Refuse an address that others could reach. BadInput."""
    if not address.is_loopback or address.secure:
        raise BadInput(
            "the console is for this machine: it acts with your credentials, in clear",
            hint="--listen 127.0.0.1:7490; a broker with HTTP and TLS serves the console to others",
        )


# -- serving -------------------------------------------------------------------------------------------------


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
    parts: Sequence[Part] = (),
) -> None:
    """Serve the console until the process is interrupted; `ready` is called with the address to open.

    Without brokers it has the other `parts` alone.
    """
    async with AsyncExitStack() as stack:
        if urls:
            connecting = connect(urls, policy="drop", tls=tls, patience=patience, credentials=credentials)
            client = await stack.enter_async_context(connecting)
            parts = (network_part(client, urls, tls, credentials), *parts)
        server, listening, url = _prepared(parts, address)
        ready(url)
        await server.serve(sockets=[listening])


@contextmanager
def served(parts: Sequence[Part], address: Address) -> Iterator[str]:
    """Serve parts of the console in a thread while the block runs; the address to open."""
    server, listening, url = _prepared(parts, address)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listening])), name="fairlead-console", daemon=True
    )
    thread.start()
    try:
        yield url
    finally:
        server.should_exit = True
        thread.join()


def _prepared(parts: Sequence[Part], address: Address) -> tuple[uvicorn.Server, socket.socket, str]:
    key = secrets.token_urlsafe(24)
    listening = listen(address)
    port = listening.getsockname()[1]
    config = uvicorn.Config(
        application(parts, key, f"{COOKIE}-{port}"),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    url = f"{http_url(address._replace(port=port))}{CONSOLE}/?key={key}"
    return uvicorn.Server(config), listening, url


def application(parts: Sequence[Part], key: str, cookie: str = COOKIE) -> Starlette:
    """The console of one user, who knows the key; the cookie has it afterwards."""
    listed = {path: name for part in parts for path, name in part.views.items()}
    pages = frozenset(f"{CONSOLE}/{view}" for view in listed)

    def check(request: Request) -> None:
        check_site(SITES, request, pages)

    async def home(_: Request) -> Response:
        return RedirectResponse(f"{CONSOLE}/{next(iter(listed))}")

    routes = [route for part in parts for route in part.routes(check, listed)]
    if "" not in listed:
        routes = [Route("/", home), *routes, *files_of("fairlead.console.views")]
    return Starlette(
        routes=[
            Route("/", home),
            Route(CONSOLE, home),
            *(route for part in parts for route in part.beside),
            Mount(CONSOLE, routes=routes),
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


async def body_of(request: Request) -> bytes:
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
