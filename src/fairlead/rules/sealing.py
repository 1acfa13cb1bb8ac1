"""The rule of sealed attributes (book 8.1.4): what has to be sealed is sealed, and keys decide about sealed
predicates.

A publication is refused with an attribute in clear that has to be sealed, under other classes than its annotation
names, or with a key whose time is over. A broker that has the keys also refuses what does not open, and decides
about sealed predicates by the content; one that has none forwards what may match.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fairlead.errors import Forbidden
from fairlead.filters import Filter
from fairlead.model import Notification
from fairlead.rules.rule import Depends, Refusal, Rule

if TYPE_CHECKING:
    from fairlead.security.sealing import Sealer

__all__ = ["Sealing", "sealing_in"]


class Sealing(Rule):
    """The annotations of a policy, with the keys that a broker or a bus has."""

    depends = Depends(volatile=True)

    def __init__(self, sealer: Sealer) -> None:
        self.sealer = sealer

    def renew(self, sealer: Sealer) -> None:
        """Seal by other annotations from now on, and open with more keys. Filters are bound to the keyring that
        is."""
        for epoch in sealer.keyring:
            self.sealer.keyring.add(epoch, sealer.keyring.secret(epoch), sealer.keyring.since(epoch) or 0)
        self.sealer.annotations, self.sealer.grace_us = sealer.annotations, sealer.grace_us

    def admit(self, who: str, notification: Notification, now: int) -> Refusal | None:
        reason = self.sealer.objection(notification, now)
        return None if reason is None else Refusal(reason, error=Forbidden)

    def resolve(self, filter: Filter) -> Filter:
        return self.sealer.bind(filter)


def sealing_in(rules: Iterable[Rule]) -> Sealing | None:
    """The rule of sealed attributes, if there is one."""
    return next((each for each in rules if isinstance(each, Sealing)), None)
