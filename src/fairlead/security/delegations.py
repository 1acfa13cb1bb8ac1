"""Delegations that principals make while a broker runs, and the file that keeps them."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from fairlead.errors import FairleadError, PolicyError
from fairlead.filters import Filter, parse
from fairlead.filters.language import render
from fairlead.security.files import SharedFile
from fairlead.security.policy import Delegation
from fairlead.security.rights import ACTIONS

__all__ = ["MOST", "Delegations"]

MOST: Final = 1_000
"""The number of delegations that one principal may have made at once."""


class Delegations(SharedFile[Delegation]):
    """The delegations of a file, or of this process alone."""

    NAME: ClassVar[str] = "delegations"

    def add(self, delegation: Delegation, now: int) -> None:
        """Keep a delegation, in place of one of the same giver and id; those that have ended are forgotten.

        PolicyError, where its giver has made too many.
        """

        def change(kept: list[Delegation]) -> list[Delegation]:
            left = [each for each in kept if not _is_same(each, delegation.by, delegation.id)]
            left = [each for each in left if each.until is None or each.until > now]
            if sum(each.by == delegation.by for each in left) >= MOST:
                raise PolicyError(f"{delegation.by} has made {MOST:,} delegations already")
            return [*left, delegation]

        self._change(change)

    def remove(self, by: str, id: str) -> None:
        """End a delegation."""
        self._change(lambda kept: [each for each in kept if not _is_same(each, by, id)])

    @staticmethod
    def _to_json(entry: Delegation) -> dict[str, Any]:
        grants = {action: [render(each) for each in some] for action, some in entry.grants.items() if some}
        return {"id": entry.id, "by": entry.by, "to": entry.to, **grants, "until_us": entry.until}

    @staticmethod
    def _from_json(given: dict[str, Any]) -> Delegation:
        grants: dict[str, tuple[Filter, ...]] = {}
        try:
            for action in ACTIONS:
                grants[action] = tuple(parse(str(each)) for each in given.get(action, ()))
        except FairleadError as error:
            raise PolicyError(f"the delegation {given.get('id')}: {error}") from None
        until = given["until_us"]
        return Delegation(
            str(given["by"]),
            str(given["to"]),
            grants,
            None if until is None else int(until),
            str(given["id"]),
        )


def _is_same(delegation: Delegation, by: str, id: str) -> bool:
    return (delegation.by, delegation.id) == (by, id)
