"""The frame of every page: its head, the list of views, and what several views are made of."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from fairlead import __version__
from fairlead.errors import FairleadError, FilterSyntaxError
from fairlead.markup import Child, Markup, tag
from fairlead.markup import text as text_of

__all__ = [
    "VIEWS",
    "badge",
    "counted",
    "editor",
    "empty",
    "fault",
    "form",
    "inquiry",
    "page",
    "picture",
    "preformatted",
    "section",
    "table",
]

VIEWS: Final = {
    "": "Overlay",
    "follow": "Follow",
    "try": "Try",
    "compare": "Compare",
    "subscriptions": "Subscriptions",
    "patterns": "Patterns",
    "scopes": "Scopes",
}
"""The views, by their paths below `/console`."""
_SETTINGS: Final = (
    '{"includeIndicatorStyles":false,"allowEval":false,"selfRequestsOnly":true,"historyCacheSize":0}'
)
"""The settings of htmx that the policy of content allows: no styles and no code of its own making."""


def page(
    view: str,
    *content: Child,
    views: Mapping[str, str] = VIEWS,
    scripts: Sequence[str] = (),
    styles: Sequence[str] = (),
    remark: str = "",
) -> str:
    """A page; `scripts` and `styles` are files below `/console/static`, or paths of their own."""
    title = views[view]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="htmx-config", content=_SETTINGS),
        tag("title", f"{title} · Fairlead"),
        tag("link", rel="icon", href="data:,"),
        # Cytoscape.js adds a style of its own unless there is an element of this name.
        tag(
            "link", rel="stylesheet", href="/console/static/console.css", id="__________cytoscape_stylesheet"
        ),
        *(tag("link", rel="stylesheet", href=_path_of(each)) for each in styles),
        *(
            tag("script", Markup(""), src=_path_of(each), defer=True)
            for each in ("htmx.min.js", "console.js", *scripts)
        ),
    )
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag(
            "header",
            tag("a", "Fairlead", href="/console", class_="name"),
            tag("nav", *(_entry(path, name, view) for path, name in views.items()), aria_label="Views"),
            class_="top",
        ),
        tag(
            "main",
            tag("h1", title),
            tag("p", remark, class_="remark", role="note") if remark else None,
            *content,
            id="content",
            tabindex=-1,
        ),
        tag("footer", f"Fairlead {__version__}"),
        data_view=view or "overlay",
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _path_of(file: str) -> str:
    return file if file.startswith("/") else f"/console/static/{file}"


def _entry(path: str, name: str, view: str) -> Markup:
    return tag(
        "a",
        name,
        href=f"/console/{path}".rstrip("/"),
        aria_current="page" if path == view else None,
    )


def section(title: str, *content: Child, note: Child = None, **attributes: str) -> Markup:
    """A part of a page under a heading."""
    return tag(
        "section",
        tag("h2", title),
        tag("p", note, class_="note") if note else None,
        *content,
        **attributes,
    )


def empty(text: Child) -> Markup:
    """A place where nothing is, and why."""
    return tag("p", text, class_="empty")


def badge(text: str, tone: str) -> Markup:
    """A word that says how something is: `good`, `warn`, `bad` or `idle`."""
    return tag("span", text, class_=f"badge {tone}")


def table(
    heads: Sequence[str], rows: Iterable[Sequence[Child]], *, numbers: Sequence[int] = (), caption: str
) -> Markup:
    """A table; the columns of numbers are aligned to the right."""

    def kind(column: int) -> str | None:
        return "num" if column in numbers else None

    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag(
                "thead",
                tag("tr", *(tag("th", each, scope="col", class_=kind(at)) for at, each in enumerate(heads))),
            ),
            tag(
                "tbody",
                *(
                    tag("tr", *(tag("td", cell, class_=kind(at)) for at, cell in enumerate(row)))
                    for row in rows
                ),
            ),
        ),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def editor(
    name: str, label: str, value: str = "", *, rows: int = 3, completes: bool = False, hint: str = ""
) -> Markup:
    """A field for text, with its label; `completes`: what may be written next is offered."""
    return tag(
        "div",
        tag("label", label, for_=name),
        tag(
            "textarea",
            Markup(_escaped(value)),
            id=name,
            name=name,
            rows=rows,
            spellcheck="false",
            autocapitalize="off",
            autocomplete="off",
            data_completes="yes" if completes else None,
            aria_describedby=f"{name}-hint" if hint else None,
        ),
        tag("p", hint, class_="hint", id=f"{name}-hint") if hint else None,
        class_="field",
    )


def inquiry(path: str, *content: Child, answer: str = "answer") -> Markup:
    """A form that is answered while somebody writes, with the answer beside it."""
    place = tag("div", Markup(""), id=answer, aria_live="polite")
    return tag("div", tag("div", form(path, answer, *content, live=True)), tag("div", place), class_="beside")


def _escaped(value: str) -> str:
    return "\n" + escape(value)  # the first newline of a textarea is not part of it


def form(path: str, target: str, *content: Child, live: bool = False) -> Markup:
    """A form whose answer is shown in an element of the page; `live`: while somebody writes."""
    trigger = "submit, load, input delay:250ms, change" if live else "submit"
    return tag(
        "form",
        *content,
        hx_post=f"/console/{path}",
        hx_target=f"#{target}",
        hx_trigger=trigger,
        hx_sync="this:replace",
        method="post",
        action=f"/console/{path}",
    )


def fault(error: FairleadError, text: str = "") -> Markup:
    """An error, and where in a text it is: the line with a caret below it, as on the command line."""
    message, _, hint = str(error).partition("\n  hint: ")
    if not isinstance(error, FilterSyntaxError):
        said = (tag("p", line) for line in message.split("\n"))
        return tag("div", *said, tag("p", f"Hint: {hint}") if hint else None, class_="fault", role="alert")
    lines = text.split("\n")
    line = lines[error.line - 1] if error.line <= len(lines) else ""
    return tag(
        "div",
        tag("p", str(error).split("\n", 1)[0]),
        preformatted(f"{line}\n{' ' * (error.column - 1)}^"),
        tag("p", f"Hint: {error.hint}") if error.hint else None,
        class_="fault",
        role="alert",
    )


def preformatted(given: str) -> Markup:
    """Text with its line breaks."""
    return tag("pre", Markup("\n".join(map(text_of, given.split("\n")))), tabindex=0)


def counted(number: int, what: str, several: str = "") -> str:
    """A number of things."""
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def picture(svg: str, alternative: str) -> Markup:
    """A drawing, as an image: it has styles of its own, and no way to do anything."""
    source = "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()
    return tag(
        "div",
        tag("img", src=source, alt=alternative),
        class_="picture",
        tabindex=0,
        role="region",
        aria_label=alternative,
    )
