"""Changes of the scope graph of a network, by those who may change all of it, or administer some scopes.

Changes are notifications of the producer `scopes` (`rules.integrated`). They are decided about at the broker
of the administrator, by their statements.
"""

from __future__ import annotations

from typing import Final

from fairlead.errors import FairleadError, Forbidden
from fairlead.filters import Filter, parse
from fairlead.model import Notification
from fairlead.rules.rule import Refusal
from fairlead.scopes.language import parse_statements
from fairlead.scopes.touching import ANYTHING, touched
from fairlead.security import Rights

__all__ = ["ANSWERS", "CHANGE", "refuse_change"]

CHANGE: Final = "scope change"
"""The type of changes, and of what brokers say about them."""
ANSWERS: Final[Filter] = parse(f'type = "{CHANGE}" and exists taken')
"""The answers of brokers that have taken a change: those who may make changes get them."""


def refuse_change(rights: Rights, notification: Notification) -> Refusal | None:
    """Why somebody may not publish a change of the scope graph, if that is so."""
    if rights.allows("scopes"):
        return None
    who, text = rights.principal.name, notification.get("text")
    if not isinstance(text, str):
        return Refusal(f"{who} may not publish that", error=Forbidden)
    try:
        names = touched(parse_statements(text))
    except FairleadError as error:
        return Refusal(f"the statements cannot be read: {error}")
    for name in names:
        if not _administers(rights, name):
            what = "all scopes" if name == ANYTHING else repr(name)
            return Refusal(f"{who} does not administer {what}", error=Forbidden)
    return None


def _administers(rights: Rights, name: str) -> bool:
    if name == ANYTHING:
        return ANYTHING in rights.names.get("administers", ())
    return rights.owns("administers", name)
