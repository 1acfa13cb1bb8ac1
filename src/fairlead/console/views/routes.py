"""The pages below `/console`, and the right that each needs.

Who reads and compares texts needs no more than to connect; whatever shows brokers, clients or filters needs the
right `inspect`; publishing and handing out dead letters need what the broker asks of any client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias, TypeVar
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fairlead.console.problems import Problem
from fairlead.console.views import following, overlay, patterns, scopes, subscriptions, trial
from fairlead.console.views.network import Network
from fairlead.console.views.shell import fault, page
from fairlead.console.views.trying import choices, compared, events_in, names_in, reading
from fairlead.errors import AccessRefused, BrokerRefused, ConnectionEnded, FairleadError
from fairlead.markup import Markup
from fairlead.model.encoding import format_json, parse_json

__all__ = ["Access", "views"]

T = TypeVar("T")
Access: TypeAlias = Callable[[Request, str], Awaitable[Network]]
"""The network as the one who asks may see it, given a right; Problem."""
Body: TypeAlias = Callable[[Request], Awaitable[bytes]]

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""All that a page may load: files of this process, and no others."""
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
KINDS: Final = {".css": "text/css", ".js": "text/javascript", ".txt": "text/plain"}
BUSY_MAX: Final = 2
"""So many texts are looked at at once, beside the event loop; others wait."""


def views(access: Access, body: Body) -> list[Route]:
    """The routes below `/console`."""
    served = _Views(access, body)
    return [
        Route("/", served.overlay),
        Route("/overlay.json", served.graph),
        Route("/brokers/{name}", served.broker),
        Route("/links/{one}/{other}", served.link),
        Route("/follow", served.follow, methods=["GET", "POST"]),
        Route("/try", served.trial, methods=["GET", "POST"]),
        Route("/complete", served.complete, methods=["POST"]),
        Route("/publish", served.publish, methods=["POST"]),
        Route("/compare", served.compare, methods=["GET", "POST"]),
        Route("/subscriptions", served.subscriptions),
        Route("/subscriptions/results", served.results),
        Route("/subscriptions/durables", served.durables),
        Route("/redrive", served.redrive, methods=["POST"]),
        Route("/patterns", served.patterns, methods=["GET", "POST"]),
        Route("/scopes", served.scopes, methods=["GET", "POST"]),
        Route("/static/{name}", served.static),
    ]


class _Views:
    """The pages. Texts are looked at by threads beside the event loop, a few at a time."""

    def __init__(self, access: Access, body: Body) -> None:
        self._access, self._body = access, body
        self._busy = asyncio.Semaphore(BUSY_MAX)

    async def _beside(self, work: Callable[[], T]) -> T:
        async with self._busy:
            return await asyncio.to_thread(work)

    async def _form(self, request: Request) -> dict[str, str]:
        try:
            given = (await self._body(request)).decode()
        except UnicodeDecodeError:
            raise Problem(400, "a form is text in UTF-8") from None
        # Browsers send line breaks of two characters.
        return {name: value.replace("\r\n", "\n") for name, value in parse_qsl(given, keep_blank_values=True)}

    # -- the network ------------------------------------------------------------------------------------------

    async def overlay(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        return _page("", overlay.overlay(), scripts=("cytoscape.min.js", "overlay.js"), remark=network.remark)

    async def graph(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        survey = await network.survey()
        return _json(await self._beside(lambda: overlay.graph(survey)))

    async def broker(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        survey = await network.survey(tables=True)
        return _part(overlay.broker(survey, request.path_params["name"]))

    async def link(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        survey, ends = await network.survey(tables=True), request.path_params
        return _part(
            await self._beside(lambda: overlay.link(survey, ends["one"], ends["other"], network.schema))
        )

    async def follow(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        survey = await network.survey(tables=True)
        if request.method != "POST":
            asked = following.question(sorted(survey.brokers), survey.first)
            return _page("follow", asked, remark=network.remark)
        given = await self._form(request)
        start = given.get("broker", "")
        if start not in survey.brokers:
            return _part(fault(FairleadError("there is no such broker any more")))

        def answered() -> Markup:
            try:
                event = scopes.event_of(given.get("event", ""), "console")
                if event is None:
                    raise FairleadError("an event is a JSON object")
            except FairleadError as error:
                return fault(error)
            return following.outcome(following.follow(survey, start, event, network.schema))

        return _part(await self._beside(answered))

    # -- texts ------------------------------------------------------------------------------------------------

    async def trial(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        if request.method != "POST":
            return _page("try", trial.trial(), scripts=("try.js",))
        given = await self._form(request)

        def answered() -> Markup:
            read = reading(given.get("text", ""), network.schema, given.get("dialect", ""))
            return trial.answer(read, events_in(given.get("events", ""), read.filter))

        return _part(await self._beside(answered))

    async def complete(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        given = await self._form(request)

        def answered() -> list[dict[str, object]]:
            declared = () if network.schema is None else network.schema.attributes
            names = dict.fromkeys([*names_in(events_in(given.get("events", ""))), *declared])
            return trial.completion(choices(given.get("before", ""), names, network.schema))

        return _json(await self._beside(answered))

    async def compare(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        if request.method != "POST":
            return _page("compare", trial.compare(), scripts=("try.js",))
        given = await self._form(request)

        def answered() -> Markup:
            first, second = (
                reading(given.get(name, ""), network.schema, given.get(f"{name}_dialect", ""))
                for name in ("first", "second")
            )
            found = None
            if first.filter is not None and second.filter is not None:
                found = compared(first.filter, second.filter, network.schema)
            return trial.comparison(first, second, found)

        return _part(await self._beside(answered))

    async def patterns(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        if request.method != "POST":
            return _page("patterns", patterns.patterns())
        given = await self._form(request)
        text = given.get("text", "")

        def answered() -> Markup:
            try:
                found: patterns.Detected | FairleadError = patterns.detected(
                    text, given.get("events", ""), network.schema
                )
            except FairleadError as error:
                found = error
            return patterns.answer(text, found)

        return _part(await self._beside(answered))

    async def scopes(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        if request.method != "POST":
            return _page("scopes", scopes.scopes())
        given = await self._form(request)
        return _part(await self._beside(lambda: scopes.answer(given, network.schema)))

    # -- subscribers ------------------------------------------------------------------------------------------

    async def subscriptions(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        shown = subscriptions.searching(_query(request.query_params))
        return _page("subscriptions", shown, scripts=("try.js",), remark=network.remark)

    async def results(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        query = _query(request.query_params)
        survey = await network.survey(tables=True)
        found = await self._beside(lambda: subscriptions.search(survey, query, network.schema))
        return _part(subscriptions.answer(found, query))

    async def durables(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        return _part(subscriptions.backlogs(await network.backlogs()))

    async def redrive(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        name = (await self._form(request)).get("name", "")
        try:
            told = await network.redrive(name)
            remark = f"{name}: {told.get('redriven', 0):,} handed out again, {told.get('gone', 0):,} are gone"
        except (AccessRefused, BrokerRefused, ConnectionEnded, TimeoutError) as error:
            remark = f"{name}: {str(error) or 'not answered in time'}"
        return _part(subscriptions.backlogs(await network.backlogs(), remark))

    async def publish(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        text = (await self._form(request)).get("event", "")
        try:
            event = parse_json(text)
            if not isinstance(event, Mapping):
                raise FairleadError("an event is a JSON object")
            return _part(trial.published(await network.publish(event)))
        except FairleadError as error:
            return _part(fault(error))
        except TimeoutError:
            return _part(fault(FairleadError("not acknowledged in time; it may be in the log or not")))

    # -- files ------------------------------------------------------------------------------------------------

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        folder = files("fairlead.console.views").joinpath("static")
        if name not in {each.name for each in folder.iterdir()}:
            raise Problem(404, f"there is no file {name!r}")
        kind = KINDS["." + name.rpartition(".")[2]]
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
        return Response(
            folder.joinpath(name).read_bytes(), media_type=f"{kind}; charset=utf-8", headers=headers
        )


def _query(given: Mapping[str, str]) -> subscriptions.Query:
    hows: dict[str, Literal["text", "covering", "covered"]] = {"covering": "covering", "covered": "covered"}
    whose: Literal["clients", "all"] = "all" if given.get("whose") == "all" else "clients"
    page = given.get("page", "1")
    return subscriptions.Query(
        given.get("text", ""),
        hows.get(given.get("how", ""), "text"),
        whose,
        int(page) if page.isdecimal() and 0 < int(page) < 1_000_000 else 1,
    )


def _page(view: str, content: Markup, **others: Any) -> Response:
    return Response(page(view, content, **others), media_type="text/html; charset=utf-8", headers=HEADERS)


def _part(content: Markup) -> Response:
    return Response(content, media_type="text/html; charset=utf-8", headers=HEADERS)


def _json(content: Any) -> Response:
    return Response(format_json(content), media_type="application/json", headers=HEADERS)
