"""Sealed attributes of a pipeline: records are admitted, and sealed predicates decided, where the keys are.

    Seals.refusal(…)    why a record is rejected, as on a bus: an attribute is not sealed as the policy says
    binding_of(keys)    sealed predicates in filters, decided with the keys of a file

Keys travel in no plan, task or manifest: the name of their file does, and each worker reads it. Nothing is opened
but in the memory of the process that looks; what is written is sealed as it came. A file of keys that changes is
read again, and keys are added to those that there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from fairlead.errors import ValueRefused
from fairlead.filters import Filter
from fairlead.filters.schema import Schema
from fairlead.model import Notification
from fairlead.rules.sealing import Sealing
from fairlead.security.annotations import Annotations
from fairlead.security.settings import sealer_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fairlead.security import AccessPolicy
    from fairlead.security.sealing import Sealer

__all__ = ["Seals", "binding_of", "renew_keys", "seals_of"]


@dataclass(frozen=True, slots=True)
class Seals:
    """The annotations of a policy as text, and the name of the file with the keys: all that workers are told."""

    annotations: tuple[tuple[str, str, str], ...]
    """Types, attributes, and the alternatives of key classes that each is sealed under."""
    keys: str | None = None
    schema: Schema | None = None
    signed: tuple[str, ...] = ()
    """The classes under which producers seal only what they sign."""
    publics: tuple[tuple[str, str], ...] = ()
    """Producers, and the public keys of their signatures."""
    tokens: tuple[str, ...] = ()
    """The classes whose values have tokens."""

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that some type seals."""
        return tuple(sorted({name for _, name, _ in self.annotations}))

    def refusal(self, notification: Notification) -> ValueRefused | None:
        """Why a notification is not published; None where it is. A pipeline has no clock, so no key is too old."""
        renew_keys(self.keys)
        reason = _sealer(self).objection(notification, None)
        return None if reason is None else ValueRefused(reason)

    def concealed(self, notification: Notification, names: frozenset[str]) -> Notification:
        """The notification with these attributes sealed as far as annotations and keys allow; others are left
        out."""
        renew_keys(self.keys)
        return _sealer(self).concealed(notification, names)

    def concerned_columns(self, columns: pa.RecordBatch) -> NDArray[np.bool_]:
        """The rows of typed columns that have a sealed attribute."""
        found = np.zeros(columns.num_rows, np.bool_)
        for name, column in zip(columns.schema.names, columns.columns, strict=True):
            if name.partition(".")[0] in self.names:
                found |= column.is_valid().to_numpy(zero_copy_only=False)
        return found

    def concerned(self, texts: pa.Array) -> NDArray[np.bool_]:
        """The records in JSON that may have a sealed attribute: text that is escaped may stand for any other."""
        found = pc.match_substring(texts, "\\u")
        for name in self.names:
            found = pc.or_(found, pc.match_substring(texts, name))
        return np.asarray(found.fill_null(False))


def seals_of(policy: AccessPolicy | None, keys: str | None) -> Seals | None:
    """The sealed attributes of a policy, with the keys of a file; None where nothing is sealed."""
    if policy is None or not policy.sealed.types:
        return None
    annotations = (
        (type, name, str(each)) for type, table in policy.sealed.types.items() for name, each in table.items()
    )
    sealed = policy.sealed
    return Seals(
        tuple(sorted(annotations)),
        keys,
        sealed.schema,
        tuple(sorted(sealed.signed)),
        tuple(sorted(sealed.publics.items())),
        tuple(sorted(sealed.tokens)),
    )


class _Keys:
    """The keys of a file, in this process: they are added to while it runs, and filters are bound to them."""

    def __init__(self, path: str | None) -> None:
        self._path, self._stamp = path, _stamp(path)
        self.rule: Final = Sealing(sealer_of(Annotations(), path, {}))

    def renew(self) -> None:
        """Add the keys that the file has by now."""
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self.rule.renew(sealer_of(Annotations(), self._path, {}))
            self._stamp = stamp


def _stamp(path: str | None) -> tuple[int, ...]:
    """The marks of a file that differ when it was written anew; none where there is no file."""
    try:
        found = None if path is None else os.stat(path)
    except OSError:  # whoever reads it says so
        return ()
    return () if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=8)
def _held(keys: str | None) -> _Keys:
    return _Keys(keys)


@lru_cache(maxsize=8)
def _sealer(seals: Seals) -> Sealer:
    """The annotations with the keys of this process, made once."""
    types: dict[str, dict[str, str]] = {}
    for type, name, text in seals.annotations:
        types.setdefault(type, {})[name] = text
    annotations = replace(
        Annotations.of(types, seals.schema),
        signed=frozenset(seals.signed),
        publics=dict(seals.publics),
        tokens=frozenset(seals.tokens),
    )
    return sealer_of(annotations, _held(seals.keys).rule.sealer.keyring, {})


def binding_of(keys: str) -> Callable[[Filter], Filter]:
    """The function that has sealed predicates of a filter decided with the keys of a file."""
    return _held(keys).rule.resolve


def renew_keys(keys: str | None) -> None:
    """Add the keys of a file, if it has changed. KeyringError where it cannot be read."""
    _held(keys).renew()
