"""M9: the sample's subscriptions and events, every operator of the language as people write it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from fairlead.filters.filter import Filter
from fairlead.filters.language import parse
from fairlead.ingest import jsonlines
from fairlead.model import Notification
from fairlead.spark.sample import Day, Market, Wishes
from fairlead_lab.matching.shapes import Shape

__all__ = ["MIXTURE"]

EVENTS: Final = 100_000
"""A day of the sample; a pool takes of it what it needs."""


def _filters(size: int, rng: Random) -> Iterator[Filter]:
    return map(parse, Wishes(Market.open(Random("market")), rng).texts(size))


def _notifications(size: int, rng: Random) -> Iterator[Notification]:
    for _, read in jsonlines.read(Day(Market.open(Random("market")), rng).lines(EVENTS)):
        assert isinstance(read, Notification), read
        yield read


MIXTURE: Final[dict[str, Shape]] = {
    "M9": Shape("M9", "a mixture as people write it", _filters, _notifications)
}
