"""HTML in which nothing that came from outside can be anything but text.

Whatever is not `Markup` is escaped, and cut to a length that a page can bear, where it enters a tag: there is
no place at which one could forget it.
"""

from __future__ import annotations

import re
from html import escape
from typing import Final, TypeAlias

__all__ = ["Child", "Markup", "joined", "shortened", "tag", "text"]


class Markup(str):
    """HTML that was made here."""

    __slots__ = ()


Child: TypeAlias = str | int | None

# What cannot be seen, cannot be written as UTF-8, or turns around how the text beside it is read.
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
TEXT_MAX: Final = 400
_ALONE: Final = frozenset({"br", "input", "link", "meta"})
"""Elements of HTML that have no content."""
_VOID: Final = _ALONE | {"path", "line", "rect", "circle"}


def text(given: str) -> Markup:
    """Text as it is to be seen; what cannot be seen is shown as filters spell it, `\\u{a}`."""
    return Markup(escape(_UNSEEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", given)))


def shortened(given: str, length_max: int = TEXT_MAX) -> str:
    """The text, or its beginning with an ellipsis."""
    return given if len(given) <= length_max else given[: length_max - 1] + "…"


def tag(name: str, /, *children: Child, **attributes: str | int | float | bool | None) -> Markup:
    """An element. None is left out, of children as of attributes; `class_` is written as class."""
    written = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{text(_number(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID and not children:
        return Markup(f"<{name}{written}>" if name in _ALONE else f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: Child) -> Markup:
    """One after the other."""
    return Markup(
        "".join(
            each
            if isinstance(each, Markup)
            else text(shortened(each) if isinstance(each, str) else f"{each:,}")
            for each in children
            if each is not None
        )
    )


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-") if key != "viewBox" else key


def _number(value: str | float) -> str:
    """Coordinates to a hundredth: a picture needs no more, and files stay small and equal."""
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
