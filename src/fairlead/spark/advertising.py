"""Advertisements of a pipeline: a producer that has advertised publishes nothing else (book 2.5.4).

    Advertised.read(path, format)   rows of `producer` and `filter`
    advertised.refusal(…)           why a record is rejected, as on the bus: it matches nothing of its producer's

All of them hold from the beginning to the end, so the rule is asked where records are read. A producer without
advertisements may publish anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa  # type: ignore[import-untyped]

from fairlead.errors import FairleadError, PipelineError, ValueRefused
from fairlead.filters import Filter, Schema, parse
from fairlead.model import Notification
from fairlead.model.encoding import parse_json
from fairlead.rules import Advertisements, Refusal
from fairlead.spark.entries import Entry, Noun, SubscriptionsInput, entries, without_location
from fairlead.spark.subscriptions import load_extension

if TYPE_CHECKING:
    from fairlead.spark.config import Config

__all__ = ["Advertised", "advertised_of"]

ADVERTISEMENT: Final = Noun("advertisement", "filter", ("producer",))
ROWS: Final = pa.schema([(name, pa.string()) for name in ("producer", "id", "filter")])
NOT_ADVERTISED: Final = "its producer has advertised nothing that this matches: "


@dataclass(frozen=True, slots=True)
class Advertised:
    """The advertisements of producers, as text for the workers."""

    filters: tuple[tuple[str, str], ...]
    """Producers with a filter each, sorted; a producer may have several."""
    schema: Schema | None = None
    extensions: tuple[str, ...] = ()

    @classmethod
    def read(
        cls, path: str, format: str, *, schema: Schema | None = None, extensions: Sequence[str] = ()
    ) -> Advertised:
        """The advertisements of a file; PipelineError names the first row that is none."""
        for name in extensions:
            load_extension(name)
        found = set()
        for entry in entries(SubscriptionsInput(path, format), None, ("producer", "filter"), ADVERTISEMENT):
            try:
                producer, text = _advertisement(entry)
                parse(text, schema)
            except FairleadError as error:
                raise PipelineError(f"{entry.location}: {without_location(error)}") from error
            found.add((producer, text))
        return cls(tuple(sorted(found)), schema, tuple(extensions))

    @property
    def producers(self) -> pa.Array:
        """The producers with advertisements, each once."""
        return pa.array(sorted({producer for producer, _ in self.filters}), pa.string())

    def refusal(self, notification: Notification) -> ValueRefused | None:
        """Why a notification is not published; None where it is."""
        refusal = _rule(self).admit(notification.producer, notification, 0)
        return None if refusal is None else ValueRefused(refusal.reason)

    def table(self) -> pa.Table:
        """The advertisements as a trace has them: producer, id and filter."""
        rows = [
            {"producer": producer, "id": f"a{number:06}", "filter": text}
            for number, (producer, text) in enumerate(self.filters, start=1)
        ]
        return pa.Table.from_pylist(rows, schema=ROWS)


def advertised_of(config: Config, schema: Schema | None) -> Advertised | None:
    """The advertisements of a pipeline; None where everybody may publish anything."""
    if config.advertisements is None:
        return None
    source = config.advertisements
    return Advertised.read(source.path, source.format, schema=schema, extensions=config.extensions)


@lru_cache(maxsize=4)
def _rule(advertised: Advertised) -> Advertisements:
    """The rule of the bus and of brokers, over the filters, which are parsed once in a process."""
    for name in advertised.extensions:
        load_extension(name)
    filters: dict[str, list[Filter]] = {}
    for producer, text in advertised.filters:
        filters.setdefault(producer, []).append(parse(text, advertised.schema))
    return Advertisements(filters.get, _refusal)


def _refusal(producer: str, notification: Notification) -> Refusal:
    return Refusal(f"{NOT_ADVERTISED}{producer!r}")


def _advertisement(entry: Entry) -> tuple[str, str]:
    """Producer and filter of a row, or a FairleadError."""
    content = entry.content
    if isinstance(content, FairleadError):
        raise content
    row = parse_json(content) if isinstance(content, str | bytes) else content
    if not isinstance(row, Mapping):
        raise ValueRefused("an advertisement is a JSON object")
    for name in ("producer", "filter"):
        if not isinstance(row.get(name), str):
            raise ValueRefused(f"an advertisement has a {name!r}, which is text")
    for name in ("from", "until"):
        if row.get(name) is not None:
            raise ValueRefused(
                f"an advertisement has no {name!r}: it holds for the whole run",
                hint="run a pipeline for each period, with an output of its own",
            )
    return row["producer"], row["filter"]
