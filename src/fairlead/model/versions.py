"""Versions of a notification, as patterns take them: each under an id of its own.

    as_version(notification, tag)    what a component of a scope sees, told apart from other versions by its id
    version_in(id)                   the id that was published, and the tag of the version

Law: what is made of a version is identified by that version. So a composite of what one component sees is not
taken for a composite of what another one sees, which may have other content.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from fairlead.model.notification import Notification

__all__ = ["VERSION_MARK", "as_version", "is_version", "version_in"]

VERSION_MARK: Final = "\0version "
"""The text between the id of a notification and the tag of a version."""
_MARKED: Final = re.compile(rf"(.*){VERSION_MARK}([0-9a-f]{{16}})", re.DOTALL)


def as_version(notification: Notification, tag: str) -> Notification:
    """A version that mappings of scopes made, under an id that says so; without a tag, what was published."""
    return replace(notification, id=f"{notification.id or ''}{VERSION_MARK}{tag}") if tag else notification


def is_version(id: str | None) -> bool:
    """Whether an id is that of a version that mappings made."""
    return id is not None and VERSION_MARK in id and _MARKED.fullmatch(id) is not None


def version_in(id: str | None) -> tuple[str | None, str]:
    """The id of the notification that was published, and the tag of its version, empty if it is that one."""
    found = None if id is None or VERSION_MARK not in id else _MARKED.fullmatch(id)
    return (id, "") if found is None else (found[1], found[2])
