"""Types that principals declare while a broker runs: whose they are, and what their owners leave to others.

Of two declarations of one type, the one of the higher revision holds, at every broker and in every file. So
brokers may learn of them in any order, over any links, and come to the same. A type that was removed leaves an
entry that says so, for brokers that were away.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

from fairlead.errors import FilterError, PolicyError
from fairlead.filters import parse
from fairlead.filters.schema import Schema
from fairlead.security.files import SharedFile
from fairlead.security.policy import OwnedType

__all__ = ["MOST", "DeclaredType", "DeclaredTypes"]

MOST: Final = 1_000
"""The number of types that one principal may have declared, with those that are removed."""


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """A principal's declaration of a type, with the filters as texts, as `[types.NAME]` of a policy has them."""

    name: str
    owner: str
    subscribe: tuple[str, ...] = ()
    publish: tuple[str, ...] = ()
    form: tuple[str, ...] = ()
    revision: int = 0
    """When it was declared, in microseconds; above the revision that it replaces."""
    is_removed: bool = False

    def owned(self, schema: Schema | None) -> OwnedType:
        """The type as a policy has it; FilterError where the schema has no such type, or a filter is none."""
        if schema is not None and self.name not in schema.types:
            raise FilterError(
                f"the schema has no type {self.name!r}",
                hint="the types of a network are those of its schema; this call says whose they are",
            )
        filters = {
            name: tuple(parse(each, schema) for each in texts)
            for name, texts in (("subscribe", self.subscribe), ("publish", self.publish), ("form", self.form))
        }
        return OwnedType.of(self.name, (self.owner,), **filters, schema=schema, is_declared=True)

    @property
    def _rank(self) -> tuple[Any, ...]:
        """An order of all declarations of one type, by which every broker takes the same one."""
        return (
            self.revision,
            self.is_removed,
            self.owner,
            self.subscribe,
            self.publish,
            self.form,
        )

    def replaces(self, other: DeclaredType | None) -> bool:
        """Whether it holds, and the other declaration of the type does not."""
        return other is None or self._rank > other._rank


class DeclaredTypes(SharedFile[DeclaredType]):
    """The declared types of a file, or of this process alone."""

    NAME: ClassVar[str] = "types"

    def named(self, name: str) -> DeclaredType | None:
        """The declaration of a type, or of its removal."""
        return next((each for each in self.all if each.name == name), None)

    def take(self, declared: Iterable[DeclaredType]) -> list[DeclaredType]:
        """Keep those that replace what is known; these.

        PolicyError, where an owner has too many. Of one's removed types the oldest are forgotten.
        """
        taken: list[DeclaredType] = []

        def change(kept: list[DeclaredType]) -> list[DeclaredType]:
            by_name = {each.name: each for each in kept}
            for each in declared:
                if each.replaces(by_name.get(each.name)):
                    by_name[each.name] = each
                    taken.append(each)
            for owner in dict.fromkeys(each.owner for each in taken):
                _make_room(by_name, owner)
            return sorted(by_name.values(), key=_name)

        self._change(change)
        return taken

    @staticmethod
    def _to_json(entry: DeclaredType) -> dict[str, Any]:
        return asdict(entry)

    @staticmethod
    def _from_json(given: dict[str, Any]) -> DeclaredType:
        texts = {name: tuple(map(str, given[name])) for name in ("subscribe", "publish", "form")}
        return DeclaredType(
            str(given["name"]),
            str(given["owner"]),
            **texts,
            revision=int(given["revision"]),
            is_removed=bool(given["is_removed"]),
        )


def _make_room(by_name: dict[str, DeclaredType], owner: str) -> None:
    own = [each for each in by_name.values() if each.owner == owner]
    removed = sorted((each for each in own if each.is_removed), key=_revision)
    beyond = len(own) - MOST
    if beyond > len(removed):
        raise PolicyError(f"{owner} has declared {MOST:,} types already")
    for each in removed[: max(0, beyond)]:
        del by_name[each.name]


def _name(declared: DeclaredType) -> str:
    return declared.name


def _revision(declared: DeclaredType) -> int:
    return declared.revision
