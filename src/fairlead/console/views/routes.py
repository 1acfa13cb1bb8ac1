"""The pages below `/console`, and the right that each needs.

Who reads and compares texts needs no more than to connect; whatever shows brokers, clients or filters needs the
right `inspect`; publishing and handing out dead letters need what the broker asks of any client.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fairlead.console.problems import Problem
from fairlead.console.sites import Sites
from fairlead.console.views import following, overlay, patterns, scopes, subscriptions, trial
from fairlead.console.views.network import Network
from fairlead.console.views.shell import VIEWS, fault, page
from fairlead.console.views.trying import choices, compared, events_in, names_in, reading
from fairlead.errors import AccessRefused, BrokerRefused, ConnectionEnded, FairleadError
from fairlead.markup import Markup
from fairlead.model.encoding import format_json, parse_json

__all__ = ["Access", "check_site", "views"]

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
WAITING_MAX: Final = 20
"""So many wait; more are refused."""
FIELDS_MAX: Final = 20
PAGES: Final = frozenset(f"/console/{view}" for view in VIEWS)
"""The paths of whole pages, to which any page may have a link."""


def views(access: Access, body: Body) -> list[Route]:
    """The routes below `/console`."""
    served = _Views(access, body)
    return [
        Route("/", served.overlay),
        Route("/overlay.json", served.graph),
        Route("/broker", served.broker),
        Route("/link", served.link),
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
        self._texts = _Beside()
        self._network = _Beside()

    async def _form(self, request: Request) -> dict[str, str]:
        try:
            given = (await self._body(request)).decode()
        except UnicodeDecodeError:
            raise Problem(400, "a form is text in UTF-8") from None
        # Browsers send line breaks of two characters.
        try:
            fields = parse_qsl(given, keep_blank_values=True, max_num_fields=FIELDS_MAX)
        except ValueError:
            raise Problem(400, f"a form of more than {FIELDS_MAX} fields") from None
        return {name: value.replace("\r\n", "\n") for name, value in fields}

    # -- the network ------------------------------------------------------------------------------------------

    async def overlay(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        return _page("", overlay.overlay(), scripts=("cytoscape.min.js", "overlay.js"), remark=network.remark)

    async def graph(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        survey = await network.survey()
        return _json(await self._network.run(lambda: overlay.graph(survey)))

    async def broker(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        survey = await network.survey(tables=True)
        name = request.query_params.get("name", "")
        return _part(await self._network.run(lambda: overlay.broker(survey, name)))

    async def link(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        survey, query = await network.survey(tables=True), request.query_params
        one, other = query.get("one", ""), query.get("other", "")
        return _part(await self._texts.run(lambda: overlay.link(survey, one, other, network.schema)))

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
                event = following.event_of(given.get("event", ""))
            except FairleadError as error:
                return fault(error)
            return following.outcome(following.follow(survey, start, event, network.schema), survey)

        return _part(await self._texts.run(answered))

    # -- texts ------------------------------------------------------------------------------------------------

    async def trial(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        if request.method != "POST":
            return _page("try", trial.trial(), scripts=("try.js",))
        given = await self._form(request)

        def answered() -> Markup:
            read = reading(given.get("text", ""), network.schema, given.get("dialect", ""))
            return trial.answer(read, events_in(given.get("events", ""), read.filter))

        return _part(await self._texts.run(answered))

    async def complete(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        given = await self._form(request)

        def answered() -> list[dict[str, object]]:
            declared = () if network.schema is None else network.schema.attributes
            names = dict.fromkeys([*names_in(events_in(given.get("events", ""))), *declared])
            return trial.completion(choices(given.get("before", ""), names, network.schema))

        return _json(await self._texts.run(answered))

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

        return _part(await self._texts.run(answered))

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

        return _part(await self._texts.run(answered))

    async def scopes(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        if request.method != "POST":
            return _page("scopes", scopes.scopes())
        given = await self._form(request)
        return _part(await self._texts.run(lambda: scopes.answer(given, network.schema)))

    # -- subscribers ------------------------------------------------------------------------------------------

    async def subscriptions(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        shown = subscriptions.searching(_query(request.query_params))
        return _page("subscriptions", shown, scripts=("try.js",), remark=network.remark)

    async def results(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        query = _query(request.query_params)
        survey = await network.survey(tables=True)
        found = await self._network.run(lambda: subscriptions.search(survey, query, network.schema))
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


class _Beside:
    """Work beside the event loop, on threads that end with the process; a few at a time."""

    def __init__(self) -> None:
        self._busy = asyncio.Semaphore(BUSY_MAX)
        self._waiting = 0

    async def run(self, work: Callable[[], T]) -> T:
        """The result of some work; Problem, where too much is waiting or a text is too deeply nested."""
        if self._waiting >= WAITING_MAX:
            raise Problem(503, "too many texts are being looked at", headers={"Retry-After": "1"})
        self._waiting += 1
        try:
            async with self._busy:
                return await _on_a_thread(work)
        except RecursionError:
            raise Problem(413, "this is too deeply nested") from None
        finally:
            self._waiting -= 1


def _on_a_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """The future result of some work on a daemon thread, which a process that stops does not wait for."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if result.done():
            return
        if error is not None:
            result.set_exception(error)
        else:
            result.set_result(cast(T, value))

    def run() -> None:
        outcome: tuple[T | None, BaseException | None]
        try:
            outcome = work(), None
        except BaseException as error:
            outcome = None, error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="fairlead-console", daemon=True).start()
    return result


def check_site(sites: Sites, request: Request) -> None:
    """Refuse what a page of another site asks for; whole pages may be linked to from anywhere. Problem."""
    if request.method in ("GET", "HEAD") and request.url.path in PAGES:
        sites.check_host(request)
    else:
        sites.check_page(request)


def _query(given: Mapping[str, str]) -> subscriptions.Query:
    hows: dict[str, Literal["text", "covering", "covered"]] = {"covering": "covering", "covered": "covered"}
    whose: Literal["clients", "all"] = "all" if given.get("whose") == "all" else "clients"
    page = given.get("page", "1")
    return subscriptions.Query(
        given.get("text", ""),
        hows.get(given.get("how", ""), "text"),
        whose,
        int(page) if page.isdecimal() and len(page) < 7 and int(page) else 1,
    )


def _page(view: str, content: Markup, **others: Any) -> Response:
    return Response(page(view, content, **others), media_type="text/html; charset=utf-8", headers=HEADERS)


def _part(content: Markup) -> Response:
    return Response(content, media_type="text/html; charset=utf-8", headers=HEADERS)


def _json(content: Any) -> Response:
    return Response(format_json(content), media_type="application/json", headers=HEADERS)
