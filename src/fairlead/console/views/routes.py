"""The pages below `/console`, and the right that each needs.

Who reads and compares texts needs no more than to connect; whatever shows brokers, clients or filters needs the
right `inspect`; publishing and handing out dead letters need what the broker asks of any client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Mapping
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fairlead.console.problems import Problem
from fairlead.console.sites import Sites
from fairlead.console.views import following, overlay, patterns, scopes, subscriptions, trial
from fairlead.console.views.beside import Beside
from fairlead.console.views.network import Network
from fairlead.console.views.shell import VIEWS, fault, page
from fairlead.console.views.trying import choices, compared, events_in, names_in, reading
from fairlead.errors import AccessRefused, BrokerRefused, ConnectionEnded, FairleadError
from fairlead.markup import Markup
from fairlead.model.encoding import format_json, parse_json

__all__ = [
    "Access",
    "check_site",
    "file_response",
    "files_of",
    "form_of",
    "json_response",
    "page_response",
    "part_response",
    "views",
]

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
FIELDS_MAX: Final = 20
SEARCH_S: Final = 20.0
"""For so long tables are searched."""
PAGES: Final = frozenset(f"/console/{view}" for view in VIEWS)
"""The paths of whole pages, to which any page may have a link."""


def views(access: Access, body: Body, listed: Mapping[str, str] = VIEWS) -> list[Route]:
    """The routes below `/console`; `listed` are the views that there are, these and others."""
    served = _Views(access, body, listed)
    return [
        Route("/", served.overlay),
        Route("/overlay.json", served.graph),
        Route("/broker", served.broker),
        Route("/link", served.link),
        Route("/reasons", served.reasons),
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
        Route("/scopes/live", served.scopes_live),
        Route("/scopes/draft", served.scopes_draft, methods=["POST"]),
        Route("/scopes/apply", served.scopes_apply, methods=["POST"]),
        *files_of("fairlead.console.views"),
    ]


async def form_of(request: Request, body: Body) -> dict[str, str]:
    """The fields of a form. Problem."""
    try:
        given = (await body(request)).decode()
    except UnicodeDecodeError:
        raise Problem(400, "a form is text in UTF-8") from None
    # Browsers send line breaks of two characters.
    try:
        fields = parse_qsl(given, keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        raise Problem(400, f"a form of more than {FIELDS_MAX} fields") from None
    return {name: value.replace("\r\n", "\n") for name, value in fields}


def files_of(package: str, path: str = "/static") -> list[Route]:
    """The route of the files in the folder `static` of a package."""

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        folder = files(package).joinpath("static")
        if name not in {each.name for each in folder.iterdir()}:
            raise Problem(404, f"there is no file {name!r}")
        return file_response(name, folder.joinpath(name).read_bytes())

    return [Route(f"{path}/{{name}}", static)]


def file_response(name: str, content: bytes | str) -> Response:
    """A file that pages load."""
    kind = KINDS["." + name.rpartition(".")[2]]
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
    return Response(content, media_type=f"{kind}; charset=utf-8", headers=headers)


class _Views:
    """The pages. Texts are looked at by threads beside the event loop, a few at a time."""

    def __init__(self, access: Access, body: Body, listed: Mapping[str, str]) -> None:
        self._access, self._body, self._listed = access, body, listed
        self._texts = Beside()
        self._network = Beside(SEARCH_S)

    def _page(self, view: str, content: Markup, **others: Any) -> Response:
        return page_response(view, content, views=self._listed, **others)

    async def _form(self, request: Request) -> dict[str, str]:
        return await form_of(request, self._body)

    # -- the network ------------------------------------------------------------------------------------------

    async def overlay(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        return self._page(
            "", overlay.overlay(), scripts=("cytoscape.min.js", "overlay.js"), remark=network.remark
        )

    async def graph(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        survey = await network.survey()
        return json_response(await self._network.run(lambda: overlay.graph(survey)))

    async def broker(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        return part_response(await overlay.broker(network, request.query_params.get("name", "")))

    async def link(self, request: Request) -> Response:
        network, query = await self._access(request, "inspect"), request.query_params
        return part_response(await overlay.link(network, query.get("one", ""), query.get("other", "")))

    async def reasons(self, request: Request) -> Response:
        network, query = await self._access(request, "inspect"), request.query_params
        asked = (query.get(name, "") for name in ("at", "beside", "text"))
        return part_response(await overlay.reasons(network, *asked))

    async def follow(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        survey = await network.survey()
        if request.method != "POST":
            asked = following.question(sorted(survey.brokers), survey.first)
            return self._page("follow", asked, remark=network.remark)
        given = await self._form(request)
        start = given.get("broker", "")
        if start not in survey.brokers:
            return part_response(fault(FairleadError("there is no such broker any more")))
        try:
            event = following.event_of(given.get("event", ""), given.get("producer", ""))
        except FairleadError as error:
            return part_response(fault(error))
        trail = await following.follow(network, start, event, given.get("who", "").strip())
        return part_response(following.outcome(trail))

    # -- texts ------------------------------------------------------------------------------------------------

    async def trial(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        if request.method != "POST":
            return self._page("try", trial.trial(), scripts=("try.js",))
        given = await self._form(request)

        def answered() -> Markup:
            read = reading(given.get("text", ""), network.schema, given.get("dialect", ""))
            return trial.answer(read, events_in(given.get("events", ""), read.filter))

        return part_response(await self._texts.run(answered))

    async def complete(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        given = await self._form(request)

        def answered() -> list[dict[str, object]]:
            declared = () if network.schema is None else network.schema.attributes
            names = dict.fromkeys([*names_in(events_in(given.get("events", ""))), *declared])
            return trial.completion(
                choices(given.get("before", ""), names, network.schema, given.get("dialect", ""))
            )

        return json_response(await self._texts.run(answered))

    async def compare(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        if request.method != "POST":
            return self._page("compare", trial.compare(), scripts=("try.js",))
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

        return part_response(await self._texts.run(answered))

    async def patterns(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        if request.method != "POST":
            return self._page("patterns", patterns.patterns())
        given = await self._form(request)
        text = given.get("text", "")

        def answered() -> Markup:
            try:
                found: patterns.Detected | FairleadError = patterns.detected(
                    text, given.get("events", ""), network.schema, until=_until(given.get("until", ""))
                )
            except FairleadError as error:
                found = error
            return patterns.answer(text, found)

        return part_response(await self._texts.run(answered))

    async def scopes(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        if request.method != "POST":
            return self._page("scopes", scopes.scopes())
        given = await self._form(request)
        return part_response(await self._texts.run(lambda: scopes.answer(given, network.schema)))

    async def _scopes_in_force(self, network: Network) -> dict[str, Any]:
        async with network.asking((await network.survey()).first) as ask:
            return await ask("scopes")

    async def scopes_live(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        try:
            report = await self._scopes_in_force(network)
            return part_response(await self._texts.run(lambda: scopes.live(report, network.schema)))
        except FairleadError as error:
            return part_response(fault(error))

    async def scopes_draft(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        given = await self._form(request)
        try:
            report = await self._scopes_in_force(network)
            return part_response(await self._texts.run(lambda: scopes.draft(report, given, network.schema)))
        except FairleadError as error:
            return part_response(fault(error))

    async def scopes_apply(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        given = await self._form(request)
        try:
            if given.get("known", "") != scopes.version(await self._scopes_in_force(network)):
                said = "the graph has changed since: look at what the draft changes now"
                return part_response(fault(FairleadError(said)))
            return part_response(scopes.applied(await network.change_scopes(given.get("change", ""))))
        except FairleadError as error:
            return part_response(fault(error))

    # -- subscribers ------------------------------------------------------------------------------------------

    async def subscriptions(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        shown = subscriptions.searching(_query(request.query_params))
        return self._page("subscriptions", shown, scripts=("try.js",), remark=network.remark)

    async def results(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        query = _query(request.query_params)
        if query.text.strip() and query.how in ("covering", "covered"):
            # Where it cannot be read, or not in time, no broker has to try.
            read = await self._texts.run(lambda: reading(query.text, network.schema))
            if read.error is not None:
                return part_response(fault(read.error, query.text))
        return part_response(subscriptions.answer(await subscriptions.search(network, query), query))

    async def durables(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        return part_response(subscriptions.backlogs(await network.backlogs()))

    async def redrive(self, request: Request) -> Response:
        network = await self._access(request, "inspect")
        name = (await self._form(request)).get("name", "")
        try:
            told = await network.redrive(name)
            remark = f"{name}: {told.get('redriven', 0):,} handed out again, {told.get('gone', 0):,} are gone"
        except (AccessRefused, BrokerRefused, ConnectionEnded, TimeoutError) as error:
            remark = f"{name}: {str(error) or 'not answered in time'}"
        return part_response(subscriptions.backlogs(await network.backlogs(), remark))

    async def publish(self, request: Request) -> Response:
        network = await self._access(request, "connect")
        text = (await self._form(request)).get("event", "")
        try:
            event = parse_json(text)
            if not isinstance(event, Mapping):
                raise FairleadError("an event is a JSON object")
            return part_response(trial.published(await network.publish(event)))
        except FairleadError as error:
            return part_response(fault(error))
        except TimeoutError:
            return part_response(
                fault(FairleadError("not acknowledged in time; it may be in the log or not"))
            )


def check_site(sites: Sites, request: Request, pages: Container[str] = PAGES) -> None:
    """Refuse what a page of another site asks for; whole pages may be linked to from anywhere. Problem."""
    if request.method in ("GET", "HEAD") and request.url.path in pages:
        sites.check_host(request)
    else:
        sites.check_page(request)


def _query(given: Mapping[str, str]) -> subscriptions.Query:
    hows: dict[str, subscriptions.How] = {each: each for each in subscriptions.HOWS}
    whose: Literal["clients", "all"] = "all" if given.get("whose") == "all" else "clients"
    at, listed, looked = (_count(given.get(name, "")) for name in ("at", "listed", "looked"))
    return subscriptions.Query(
        given.get("text", ""),
        hows.get(given.get("how", ""), "text"),
        whose,
        given.get("broker", ""),
        at,
        listed,
        looked,
    )


def _until(text: str) -> int | None:
    return _count(text) if text.strip() else None


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def page_response(view: str, content: Markup, **others: Any) -> Response:
    """A whole page."""
    return Response(page(view, content, **others), media_type="text/html; charset=utf-8", headers=HEADERS)


def part_response(content: Markup) -> Response:
    """A part of a page."""
    return Response(content, media_type="text/html; charset=utf-8", headers=HEADERS)


def json_response(content: Any) -> Response:
    """An answer for a page's own code."""
    return Response(format_json(content), media_type="application/json", headers=HEADERS)
