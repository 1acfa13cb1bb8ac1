"""Delegations that principals make while a broker runs, and the file that keeps them.

Several brokers may name one file: each takes up what the others write when it looks at the file again.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from fairlead.errors import FairleadError, PolicyError
from fairlead.filters import Filter, parse
from fairlead.filters.language import render
from fairlead.security.files import write_private
from fairlead.security.policy import Delegation
from fairlead.security.rights import ACTIONS

__all__ = ["MOST", "Delegations"]

FORMAT: Final = 1
MOST: Final = 1_000
"""The number of delegations that one principal may have made at once."""


class Delegations:
    """The delegations of a file, or of this process alone. PolicyError: the file cannot be read."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self.all: tuple[Delegation, ...] = ()
        self.read()

    def read(self) -> None:
        """Read the file again."""
        if self._path is not None and Path(self._path).exists():
            try:
                given = json.loads(Path(self._path).read_text(encoding="utf-8"))
                if given["format"] != FORMAT:
                    raise PolicyError(f"{self._path}: format {given['format']} is not known here")
                self.all = tuple(_from_json(each) for each in given["delegations"])
            except OSError as error:
                raise PolicyError(f"{self._path}: cannot be read: {error.strerror}") from None
            except (ValueError, KeyError, TypeError, AttributeError):
                raise PolicyError(f"{self._path}: this is no file of delegations") from None

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

    def _change(self, change: Callable[[list[Delegation]], list[Delegation]]) -> None:
        with nullcontext() if self._path is None else _alone(f"{self._path}.lock"):
            self.read()
            changed = tuple(change([*self.all]))
            if self._path is not None:
                write_private(
                    self._path, {"format": FORMAT, "delegations": [_to_json(each) for each in changed]}
                )
            self.all = changed


def _is_same(delegation: Delegation, by: str, id: str) -> bool:
    return (delegation.by, delegation.id) == (by, id)


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """No other process changes the file meanwhile."""
    try:
        with open(path, "a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise PolicyError(f"{path}: cannot be written: {error.strerror}") from None


def _to_json(delegation: Delegation) -> dict[str, Any]:
    grants = {action: [render(each) for each in some] for action, some in delegation.grants.items() if some}
    return {
        "id": delegation.id,
        "by": delegation.by,
        "to": delegation.to,
        **grants,
        "until_us": delegation.until,
    }


def _from_json(given: dict[str, Any]) -> Delegation:
    grants: dict[str, tuple[Filter, ...]] = {}
    try:
        for action in ACTIONS:
            grants[action] = tuple(parse(str(each)) for each in given.get(action, ()))
    except FairleadError as error:
        raise PolicyError(f"the delegation {given.get('id')}: {error}") from None
    until = given["until_us"]
    return Delegation(
        str(given["by"]), str(given["to"]), grants, None if until is None else int(until), str(given["id"])
    )
