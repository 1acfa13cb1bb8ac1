"""Admission of records: what the rules of a bus say of publications, asked where records are read.

Admission.refusal(…)    why a record is rejected, and whether its text may be kept
Admission.asks…(…)      the rows that have to be asked about one by one; the others pass by column
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from fairlead.errors import ValueRefused
from fairlead.filters.schema import Schema
from fairlead.model import Notification
from fairlead.spark.access import policy_of
from fairlead.spark.advertising import Advertised, advertised_of
from fairlead.spark.sealing import Seals, seals_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fairlead.spark.config import Config

__all__ = ["Admission", "Objection", "admission_of"]


class Objection(NamedTuple):
    """The reason for which a record is rejected."""

    error: ValueRefused
    is_secret: bool = False
    """Whether its text has in clear what has to be sealed: then it is not kept."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The advertisements of producers, and the attributes that have to be sealed."""

    advertised: Advertised | None = None
    seals: Seals | None = None

    def objection(self, notification: Notification) -> Objection | None:
        """Why a notification is not published; None where it is."""
        refused = None if self.seals is None else self.seals.refusal(notification)
        if refused is not None:
            return Objection(refused, is_secret=True)
        refused = None if self.advertised is None else self.advertised.refusal(notification)
        return None if refused is None else Objection(refused)

    def asks(self, producers: pa.Array, records: pa.Array | pa.RecordBatch) -> NDArray[np.bool_]:
        """The rows to be asked about one by one: of producers that have advertised, or with a sealed attribute."""
        found = np.zeros(len(producers), np.bool_)
        if self.advertised is not None:
            found |= np.asarray(pc.is_in(producers, value_set=self.advertised.producers))
        if self.seals is not None and isinstance(records, pa.RecordBatch):
            found |= self.seals.concerned_columns(records)
        elif self.seals is not None:
            found |= self.seals.concerned(records)
        return found


def admission_of(config: Config, schema: Schema | None) -> Admission | None:
    """The admission of a pipeline; None where everybody may publish anything."""
    advertised = advertised_of(config, schema)
    seals = None
    if config.security is not None:
        seals = seals_of(policy_of(config, schema), config.security.keys)
    return None if advertised is None and seals is None else Admission(advertised, seals)
