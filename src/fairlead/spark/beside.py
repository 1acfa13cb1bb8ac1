"""Patterns beside scopes: what the components that ask see, and who sees what their patterns find.

    released ─▶ Watching ─▶ detect, a level ─▶ Answering ─┬─▶ deliveries
                                ▲                         ▼
                                └───────────────── the level above

Law: with the same graph, patterns and notifications, the composites and relations that a pipeline delivers are
those of the ordered bus, however the order was cut into batches.

What a component asks for is detected apart from what others ask for, over the versions that it sees. Rows that
filters alone decide about are narrowed where they are routed to patterns (`fairlead.spark.detection`). Of others
`Watching` makes a row for each version, with the components that see it. Of what a level has found, `Answering`
makes one composite for all who asked for it. A public one comes from each of them, goes into their scopes, and
may become versions there; patterns of the level above see these.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.errors import ScopeError
from fairlead.matching.columnar import Columnar
from fairlead.model import Notification
from fairlead.model.order import BEGINNING, OrderKey
from fairlead.model.versions import as_version
from fairlead.scopes import ScopePlan
from fairlead.scopes.running import Running
from fairlead.spark.frames import RECORD, VERSION, decode, encode, notifications_in
from fairlead.spark.matcher import RECEIVERS, subscribers_of
from fairlead.spark.patterns import Patterns
from fairlead.spark.scoping import ScopeText
from fairlead.spark.subscriptions import Subscriptions

__all__ = ["ANSWERED", "SEERS", "Answering", "Beside", "Watching"]

SEERS: Final = "seers"
"""The components that see a row; null where filters alone decide, and nobody has asked yet."""
ANSWERED: Final = {
    VERSION: "string",
    RECEIVERS: "array<struct<subscriber:string,subscriptions:array<string>>>",
    SEERS: "array<string>",
}
"""The columns of what was found that say who gets it, and which components see it."""
_TOGETHER: Final = 1_000
"""So many composites are matched with subscriptions together."""
_KEPT: Final = 4
log: Final = logging.getLogger(__name__)

Row = dict[str, Any]


class Beside(NamedTuple):
    """The scopes of a batch, and those who subscribe."""

    scopes: ScopeText
    targets: tuple[Subscriptions, ...]
    since: int = BEGINNING
    """The watermark of the batch before."""


# -- who asks ------------------------------------------------------------------------------------------------


class _Askers:
    """The components that ask for patterns: those with an atom that matches may complete something."""

    def __init__(self, patterns: Patterns) -> None:
        patterns.load()
        self._engine: Columnar[tuple[str, int]] = Columnar()
        for number, row in enumerate(patterns.rows):
            for at, filter in enumerate(patterns.question(row).filters):
                self._engine.add((row.subscriber, number << 20 | at), filter)

    def match(self, version: Notification) -> set[str]:
        """The components that may do something with a version."""
        return {name for name, _ in self._engine.match(version)}


_ASKERS: Final[dict[str, _Askers]] = {}


def _askers_of(patterns: Patterns) -> _Askers:
    found = _ASKERS.get(patterns.fingerprint)
    if found is None:
        while len(_ASKERS) >= _KEPT:
            del _ASKERS[next(iter(_ASKERS))]
        found = _ASKERS[patterns.fingerprint] = _Askers(patterns)
    return found


class _Sight(NamedTuple):
    """A version, and the components that see it."""

    version: Notification
    tag: str
    components: list[str]


def _sights(
    plan: ScopePlan,
    notification: Notification,
    key: OrderKey,
    origins: Iterable[str],
    matched: Callable[[Notification], Collection[str]],
) -> list[_Sight]:
    """The versions of a notification, what was published first, with those who see what comes from somewhere."""
    found: dict[str, _Sight] = {"": _Sight(notification, "", [])}
    for origin in origins:
        for sight in plan.reach(notification, matched, key=key, origin=origin).sights:
            known = found.setdefault(sight.tag, _Sight(sight.notification, sight.tag, []))
            if sight.component not in known.components:
                known.components.append(sight.component)
    return [found[tag] for tag in sorted(found)]


# -- what patterns look at ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Watching:
    """Record batches of the stream in; a row for each version out, with the components that see it."""

    scopes: ScopeText
    patterns: Patterns

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        opened, askers = self.scopes.opened, _askers_of(self.patterns)
        running = opened.running()
        for batch in batches:
            special = opened.is_special(batch)
            plain = batch.filter(pa.array(~special))
            if plain.num_rows:
                yield _with_seers(plain, pa.nulls(plain.num_rows, pa.list_(pa.string())))
            if special.any():
                yield _versions(batch.filter(pa.array(special)), running, askers)

    def notices(self, since: int, bound: int) -> Iterator[Row]:
        """The notices of scopes that go between two watermarks, as rows of the stream."""
        askers = _askers_of(self.patterns)
        for each in self.scopes.opened.notices:
            if not since <= each.key.time < bound:
                continue
            for sight in _sights(each.plan, each.notification, each.key, [each.scope], askers.match):
                if sight.components:
                    yield {
                        "time": each.key.time,
                        "producer": each.key.producer,
                        "id": as_version(each.notification, sight.tag).id,
                        RECORD: encode(sight.version),
                        SEERS: sight.components,
                    }


def _versions(batch: pa.RecordBatch, running: Running, askers: _Askers) -> pa.RecordBatch:
    """The versions of notifications that can come to a mapping."""
    rows: list[int] = []
    ids: list[str | None] = []
    records: list[str] = []
    seers: list[list[str]] = []
    keys = zip(
        *(batch.column(name).to_pylist() for name in ("time", "producer", "sequence", "id")), strict=True
    )
    given = batch.column(RECORD).to_pylist()
    for row, (notification, parts) in enumerate(zip(notifications_in(batch), keys, strict=True)):
        key = OrderKey(*parts)
        try:
            found = _sights(running.plan_at(key), notification, key, [notification.producer], askers.match)
        except ScopeError:  # too many paths: who decides about deliveries logs it
            continue
        for sight in found:
            if sight.components:
                rows.append(row)
                ids.append(as_version(notification, sight.tag).id)
                records.append(encode(sight.version) if sight.tag else given[row])
                seers.append(sight.components)
    made = batch.take(pa.array(rows, pa.int64()))
    for name, column in (("id", ids), (RECORD, records)):
        at = made.schema.get_field_index(name)
        made = made.set_column(at, made.schema.field(at), pa.array(column, pa.string()))
    return _with_seers(made, pa.array(seers, pa.list_(pa.string())))


def _with_seers(batch: pa.RecordBatch, seers: pa.Array) -> pa.RecordBatch:
    return batch.append_column(SEERS, seers)


# -- who gets what was found ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answering:
    """Record batches of what a level has found in, sorted by `id`; the same out, each composite once, with
    receivers.

    A public composite has a row for each of its versions. What is in progress stays as it is.
    """

    beside: Beside
    patterns: Patterns
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        running = self.beside.scopes.opened.running()
        askers = _askers_of(self.patterns)
        kept: list[pa.RecordBatch] = []
        composites = _merged(self._composites(batches, kept))
        while some := list(islice(composites, _TOGETHER)):
            yield pa.RecordBatch.from_pylist(list(self._answers(some, running, askers)), self.schema)
            yield from kept
            kept.clear()
        yield from kept

    def _composites(self, batches: Iterable[pa.RecordBatch], kept: list[pa.RecordBatch]) -> Iterator[Row]:
        for batch in batches:
            is_composite = batch.column("automaton").is_null()
            rest = batch.filter(pc.invert(is_composite))
            if rest.num_rows:
                columns = [
                    rest.column(field.name)
                    if field.name in rest.schema.names
                    else pa.nulls(rest.num_rows, field.type)
                    for field in self.schema
                ]
                kept.append(pa.RecordBatch.from_arrays(columns, schema=self.schema))
            yield from batch.filter(is_composite).to_pylist()

    def _answers(self, rows: Sequence[Row], running: Running, askers: _Askers) -> Iterator[Row]:
        """The rows of composites, with those who get them."""
        public = [row for row in rows if row["is_public"]]
        contents = [
            decode(row[RECORD], row["producer"], row["id"], row["event_time"], None) for row in public
        ]
        matching = subscribers_of(self.beside.targets, contents, [row["time"] for row in public])
        numbers = {row["id"]: number for number, row in enumerate(public)}
        for row in rows:
            asked: dict[str, list[str]] = {}
            for each in row["patterns"]:
                asked.setdefault(each["subscriber"], []).append(each["id"])
            if not row["is_public"]:
                seers = sorted(asked) if row["producer"] == PRODUCER else []
                yield {**row, VERSION: "", RECEIVERS: _receivers(asked), SEERS: seers}
                continue
            at = numbers[row["id"]]
            plan = running.plan_at(OrderKey(row["time"], row["producer"], None, row["id"]))
            yield from self._published(row, asked, (contents[at], matching[at]), plan, askers)

    def _published(
        self,
        row: Row,
        asked: dict[str, list[str]],
        given: tuple[Notification, dict[str, list[str]]],
        plan: ScopePlan,
        askers: _Askers,
    ) -> Iterator[Row]:
        """The versions of a public composite: it comes from all who asked for it."""
        notification, matching = given
        key = OrderKey(row["time"], row["producer"], None, row["id"])
        answers = {notification.attributes: matching}

        def matched(version: Notification) -> Collection[str]:
            if version.attributes not in answers:
                [answers[version.attributes]] = subscribers_of(self.beside.targets, [version], [key.time])
            return {*answers[version.attributes], *askers.match(version)}

        try:
            found = _sights(plan, notification, key, sorted(asked), matched)
        except ScopeError as error:  # too many paths: those who asked get it, and nobody else
            log.error("nobody else sees %s of %s: %s", notification.id, notification.producer, error)
            found = [_Sight(notification, "", [])]
        for sight in found:
            ids = answers.get(sight.version.attributes, {})
            receivers = {name: ids[name] for name in sight.components if name in ids}
            if not sight.tag:
                receivers = {
                    name: [*asked.get(name, ()), *receivers.get(name, ())] for name in {**asked, **receivers}
                }
            record = encode(sight.version) if sight.tag else row[RECORD]
            told = {VERSION: sight.tag, RECEIVERS: _receivers(receivers), SEERS: sorted(sight.components)}
            yield {**row, RECORD: record, **told}


def _merged(rows: Iterable[Row]) -> Iterator[Row]:
    """Composites, each once, with all who asked for it; those of one id come together."""
    last: Row | None = None
    for row in rows:
        if last is not None and last["id"] == row["id"]:
            together = [*last["patterns"], *row["patterns"]]
            last["patterns"] = sorted(together, key=itemgetter("id", "subscriber"))
            last["is_public"] |= row["is_public"]
            continue
        if last is not None:
            yield last
        last = row
    if last is not None:
        yield last


def _receivers(names: dict[str, list[str]]) -> list[Row]:
    return [{"subscriber": name, "subscriptions": sorted({*names[name]})} for name in sorted(names)]
