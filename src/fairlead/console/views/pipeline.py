"""A run of a pipeline, while it goes on and afterwards: the page that the report is, saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fairlead.console.views.beside import Beside
from fairlead.console.views.routes import file_response, page_response, part_response
from fairlead.console.views.shell import badge, empty
from fairlead.console.views.standalone import Part
from fairlead.errors import FairleadError
from fairlead.markup import Child, Markup, joined, tag
from fairlead.spark.report import content, style, summary
from fairlead.spark.report.numbers import duration
from fairlead.spark.watching import Standing, Watch

__all__ = ["VIEWS", "pipeline_part", "routes", "run", "status"]

VIEWS: Final = {"pipeline": "Pipeline"}
EVERY: Final = "every 2s"
LOOK_S: Final = 60.0
"""The first look at an output with many batches reads all of them."""
STYLE: Final = "/console/pipeline/report.css"


def routes(
    watch: Watch, check: Callable[[Request], object], listed: Mapping[str, str], at: Callable[[], str] = str
) -> list[Route]:
    """The routes of the view of one output; `at` is the batch and the stage, where it runs in this process."""
    beside = Beside(LOOK_S)

    async def look() -> Standing | FairleadError:
        try:
            return await beside.run(watch.look)
        except (FairleadError, OSError) as error:
            return error if isinstance(error, FairleadError) else FairleadError(str(error))

    async def page(request: Request) -> Response:
        check(request)
        standing = await look()
        whole = joined(status(standing, at(), datetime.now(UTC)), run(standing))
        return page_response("pipeline", whole, views=listed, styles=(STYLE,), scripts=("pipeline.js",))

    async def now(request: Request) -> Response:
        check(request)
        return part_response(status(await look(), at(), datetime.now(UTC)))

    async def standing(request: Request) -> Response:
        check(request)
        found = await look()
        if _version(found) == request.query_params.get("known"):
            return Response(status_code=204)
        return part_response(run(found))

    async def styled(_: Request) -> Response:
        return file_response("report.css", style())

    return [
        Route("/pipeline", page),
        Route("/pipeline/now", now),
        Route("/pipeline/run", standing),
        Route("/pipeline/report.css", styled),
    ]


def pipeline_part(output: str, at: Callable[[], str] = str) -> Part:
    """The view of a pipeline's output; `at` is the batch and the stage, where it runs in this process."""
    watch = Watch(output)
    return Part(VIEWS, lambda check, listed: routes(watch, check, listed, at))


def _version(standing: Standing | FairleadError) -> str:
    return standing.version if isinstance(standing, Standing) else "none"


def status(standing: Standing | FairleadError, at: str, now: datetime) -> Markup:
    """One line: what the run is doing, and when the last batch was committed."""
    committed = standing.committed_at if isinstance(standing, Standing) else None
    ago = None if committed is None else duration(max((now - committed).total_seconds(), 0))
    said: tuple[Child, ...]
    if at:
        said = (badge("runs", "good"), " ", at)
    elif isinstance(standing, Standing) and standing.is_over:
        outcome = standing.report.facts.outcome
        said = (badge(outcome, "good" if outcome == "finished" else "idle"),)
    else:
        said = (badge("no report yet", "idle"),)
    last = f" · last batch committed {ago} ago" if ago else None
    return tag(
        "p", *said, last, id="now", hx_get="/console/pipeline/now", hx_trigger=EVERY, hx_swap="outerHTML"
    )


def run(standing: Standing | FairleadError) -> Markup:
    """The committed batches as the report shows them; the element asks for more while it is looked at."""
    if isinstance(standing, Standing):
        shown = joined(
            tag("h2", standing.report.facts.title),
            summary(standing.report),
            content(standing.report),
        )
    else:
        shown = empty(f"Nothing is committed: {standing}")
    return tag(
        "div",
        shown,
        id="run",
        hx_get=f"/console/pipeline/run?{urlencode({'known': _version(standing)})}",
        hx_trigger=EVERY,
        hx_swap="outerHTML",
    )
