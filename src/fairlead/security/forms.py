"""The form in which members of a role publish: with some attributes alone, as another type.

    [roles.ambulance]
    publish = ['type = "Accident"']
    project = ["place"]                # an attribute that is not listed is left out at the door
    publish_as = "Accident"            # and what they publish is of this type, such as one above theirs

Laws:

- What is published has no attribute that the form does not name, but those by which notifications are known.
- A form of a form is that form. Limits look at forms: at what is published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fairlead.model import Notification

__all__ = ["ENVELOPE", "Form"]

ENVELOPE: Final = frozenset({"id", "producer", "time", "sequence", "type"})
"""Attributes by which notifications are known: they are in every form, and are not hidden from anybody."""


@dataclass(frozen=True, slots=True)
class Form:
    """The attributes that are published, and the type; None: all of them, the type as it is."""

    project: frozenset[str] | None = None
    publish_as: str | None = None

    def of(self, notification: Notification) -> Notification:
        """A notification in this form."""
        if self.project is not None:
            notification = notification.only(self.project | ENVELOPE)
        if self.publish_as is not None and notification.get("type") != self.publish_as:
            notification = notification.marked("type", self.publish_as)
        return notification
