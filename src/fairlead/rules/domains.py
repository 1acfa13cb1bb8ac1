"""The rule of the schema: what is published lies in the domains that the schema declares.

Law: brokers refuse what a bus with the same schema refuses, with the same words, and everything else goes on as
the bus would deliver it. A declared time that was published as text is a time for all filters behind the border:
the publisher's broker reads it once (`mark`), and the text is what subscribers get.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fairlead.errors import ValueRefused
from fairlead.filters.schema import Schema
from fairlead.model import Kind, Notification
from fairlead.rules.cells import Cells
from fairlead.rules.rule import Depends, Refusal, Rule

__all__ = ["Domains"]

CLIENT: Final = "c:"
"""The beginning of a client's name; neighbours are asked about by their own names."""
_NOTHING: Final = Depends()


class Domains(Rule):
    """A value outside of its attribute's declared domain, or an unknown type, is refused at the border."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._depends = Depends(_cells(schema))
        declared = {name: schema.domain(name) for name in schema.attributes if name != "time"}
        reads_times = any(each is not None and each.kind is Kind.TIME for each in declared.values())
        # A text that is read as a time goes on in another form than it came in, so each is looked at by itself.
        self._of_clients = replace(self._depends, volatile=True) if reads_times else self._depends

    @property
    def depends(self) -> Depends:
        return self._depends

    def depends_for(self, source: str) -> Depends:
        if source.startswith(CLIENT):
            return self._of_clients
        return _NOTHING if source else self._depends  # what neighbours send has passed a border

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        try:
            self.schema.admit(notification)
        except ValueRefused as error:
            return Refusal(str(error))  # its hint is in it
        return None

    def mark(self, notification: Notification, now: int) -> Notification:
        return self.schema.admit(notification)


def _cells(schema: Schema) -> Cells:
    """The distinctions that the schema makes between plain notifications: they have nothing below attributes."""
    cells = Cells()
    if schema.has_types:
        cells.add_attribute("type")
    for name in schema.attributes:
        domain = schema.domain(name)
        if (
            domain is not None and "." not in name and name != "time"
        ):  # a plain notification has a time, or none
            cells.add_domain(name, domain.kind, integer=domain.integer)
    return cells
