"""The access policy of a pipeline: subscriptions are narrowed when they are read, contents masked before delivery.

    Gate.entries(…)    rows of subscriptions, each with the filter that its subscriber is granted
    Gate.patterns(…)   rows of patterns whose subscribers may see all of what they are about
    masked(…)          deliveries without the attributes that their subscribers do not get to see

Subscribers are principals by their names. A pipeline has no clock but the order, so a policy with hours, or with
delegations that end, is refused. What is in typed columns is masked by expressions; of a record, which is text, by
workers, and those rows only that have such an attribute.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import functions as F

from fairlead.correlation.queries import Query
from fairlead.errors import FairleadError, Forbidden, PipelineError
from fairlead.filters.language import parse, render
from fairlead.filters.schema import Schema
from fairlead.ingest import Rejection
from fairlead.model import Instant, Notification
from fairlead.model.encoding import parse_json
from fairlead.rules import Refusal, Route, Seam
from fairlead.rules.access import Access
from fairlead.security import AccessPolicy, Decision, Principal, Rights
from fairlead.security.records import line_of
from fairlead.spark.entries import Entry, read_entry, rejection_of
from fairlead.spark.frames import ATTRIBUTES, PUBLISHED, RECORD, decode
from fairlead.spark.parts import Part, Subscription, table_of
from fairlead.spark.patterns import query_in
from fairlead.spark.sealing import Seals, seals_of
from fairlead.spark.subscriptions import Subscriptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from fairlead.spark.config import Config, SecuritySource

__all__ = ["Gate", "Masks", "mask_of", "masked", "masks_of", "policy_of", "rights_of"]

HIDDEN: Final = "hidden"
"""The column of deliveries with the attributes that their subscriber does not get to see."""
_TABLE: Final = pa.schema([("subscriber", pa.string()), (HIDDEN, pa.list_(pa.string()))])


def policy_of(config: Config, schema: Schema | None) -> AccessPolicy | None:
    """The access policy of a pipeline; None where there is none. PipelineError where it needs a clock."""
    if config.security is None:
        return None
    policy = AccessPolicy.read(config.security.policy, schema)
    timed = [f"[roles.{role.name}] when" for role in policy.roles if role.is_timed]
    timed += ["[[delegations]] until" for each in policy.delegations if each.until is not None]
    if config.security.mask == "sealed" and config.security.keys is None:
        raise PipelineError(
            '[security] mask = "sealed" needs keys', hint="name the file that `fairlead keys rotate` writes"
        )
    if policy.has_predicates:
        raise PipelineError(
            f"{config.security.policy}: [roles] predicates: functions of requests decide where clients are",
            hint="write the limit as a filter, or leave the role out of the policy of a pipeline",
        )
    if timed:
        raise PipelineError(
            f"{config.security.policy}: {timed[0]}: a pipeline has no clock but the order of its events",
            hint="leave hours, weekdays and the ends of delegations out of the policy of a pipeline",
        )
    return policy


# -- subscriptions -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Gate:
    """The decisions about the subscriptions that a batch reads."""

    policy: AccessPolicy
    schema: Schema | None = None
    lines: list[dict[str, Any]] = field(default_factory=list)
    """The decisions, as a log of decisions has them."""
    rejections: list[tuple[str, Rejection]] = field(default_factory=list)
    """The refused rows, with their table: `subscriptions` of which nothing is granted, `patterns` over a
    part."""
    _rights: dict[str, Rights] = field(default_factory=dict)
    _seam: Seam = field(init=False)

    def __post_init__(self) -> None:
        self._seam = Seam(lambda notification, source: Route((), ()), [Access(self.policy)])

    def entries(self, given: Iterable[Entry]) -> Iterator[Entry]:
        """The rows with the filters that are granted. What cannot be read is left to whoever reads it."""
        for entry in given:
            try:
                row = read_entry(entry)
                requested = parse(row.filter, self.schema) if isinstance(row, Subscription) else None
            except FairleadError:
                requested = None
            if requested is None:
                yield entry
                continue
            assert isinstance(row, Subscription)
            rights = self._of(row.subscriber)
            decision = rights.may("subscribe", requested)
            self.lines.append(line_of(row.id, rights, decision, self.policy))
            if decision.granted is None:
                self.rejections.append(("subscriptions", rejection_of(entry, Forbidden(decision.reason))))
            elif decision.granted == requested:
                yield entry
            else:
                narrowed = {"id": row.id, "subscriber": row.subscriber, "filter": render(decision.granted)}
                yield Entry(entry.location, {**narrowed, "from": row.since, "until": row.until})

    def patterns(self, given: Iterable[Entry]) -> Iterator[Entry]:
        """The rows of patterns and fair subscriptions that their subscribers may see all of, as on a bus."""
        for entry in given:
            try:
                asked = query_in(entry, self.schema)
            except FairleadError:
                asked = None
            if asked is None:
                yield entry
                continue
            row, query = asked
            refusal, rights = self._refusal(row.subscriber, query), self._of(row.subscriber)
            roles = self.roles(row.subscriber, query) if refusal is None else ()
            decision = Decision("detect", "granted", None, None, roles)
            if refusal is not None:
                decision = Decision("detect", "refused", None, None, reason=refusal.reason)
            line = line_of(row.id, rights, decision, self.policy)
            self.lines.append(
                {**line, "requested": row.text, "granted": row.text if refusal is None else None}
            )
            if refusal is None:
                yield entry
            else:
                self.rejections.append(("patterns", rejection_of(entry, refusal.exception())))

    def roles(self, subscriber: str, query: Query) -> tuple[str, ...]:
        """The roles by which a subscriber may see all that a pattern is about."""
        rights = self._of(subscriber)
        granted = (rights.may("subscribe", each).roles for each in query.filters)
        return tuple(sorted(frozenset(chain.from_iterable(granted))))

    def _refusal(self, subscriber: str, query: Query) -> Refusal | None:
        try:
            return self._seam.refuse_part(subscriber, query.filters, 0)
        except FairleadError as error:  # a name that no principal can have
            return Refusal(str(error), error=Forbidden)

    def _of(self, subscriber: str) -> Rights:
        rights = self._rights.get(subscriber)
        if rights is None:
            rights = self._rights[subscriber] = rights_of(self.policy, subscriber)
        return rights

    def written(self, batch: int, now: int) -> bytes:
        """The decisions as lines of JSON."""
        about = {"time": str(Instant(now)), "batch": batch}
        return b"".join(
            f"{json.dumps({**about, **each}, ensure_ascii=False)}\n".encode() for each in self.lines
        )


def rights_of(policy: AccessPolicy, subscriber: str) -> Rights:
    """The rights of a subscriber, who is a principal by its name."""
    try:
        return policy.rights(Principal(subscriber))
    except FairleadError:  # a name that no principal can have
        return Rights(Principal("nobody"), (), frozenset(), {}, {}, hidden=policy.protected)


# -- what is delivered ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Masks:
    """The attributes that subscribers do not get to see, by subscriber; `usual` holds for all others."""

    usual: tuple[str, ...]
    others: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> frozenset[str]:
        """All attributes that somebody does not get to see."""
        return frozenset(self.usual).union(*self.others.values())


def mask_of(
    policy: AccessPolicy | None, subscriptions: Subscriptions, security: SecuritySource | None
) -> Callable[[DataFrame], DataFrame] | None:
    """The function that leaves hidden attributes out of deliveries, or seals them; None where everybody sees
    everything."""
    masks = masks_of(policy, subscriptions)
    seals = None
    if security is not None and security.mask == "sealed":
        seals = seals_of(policy, security.keys)
    return None if masks is None else partial(masked, masks=masks, seals=seals)


def masks_of(policy: AccessPolicy | None, subscriptions: Subscriptions) -> Masks | None:
    """The attributes that are hidden from subscribers; None where everybody sees everything."""
    if policy is None or not policy.protected:
        return None
    usual = tuple(sorted(policy.protected))
    others = {
        name: hidden
        for part in subscriptions.parts
        for name, hidden in _hidden_in(_Policy(policy), part)
        if hidden != usual
    }
    return Masks(usual, others)


@dataclass(frozen=True, slots=True)
class _Policy:
    """A policy by its fingerprint, to be remembered by."""

    policy: AccessPolicy = field(compare=False)
    fingerprint: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", self.policy.fingerprint)


@lru_cache(maxsize=64)
def _hidden_in(policy: _Policy, part: Part) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The subscribers of a part, each with what is hidden from it: of a part, which never changes, once."""
    names = pc.unique(table_of(part).subscribers).to_pylist()
    return tuple((name, tuple(sorted(rights_of(policy.policy, name).hidden))) for name in names)


def masked(deliveries: DataFrame, masks: Masks, seals: Seals | None = None) -> DataFrame:
    """Deliveries with contents that have nothing in them that their subscribers do not get to see: it is left out,
    or, with `seals`, sealed under the classes that the policy names. A typed column holds no sealed values."""
    hidden = _with_hidden(deliveries, masks)
    if ATTRIBUTES in deliveries.columns:
        return hidden.withColumn(ATTRIBUTES, _typed(deliveries, masks)).drop(HIDDEN)
    if RECORD not in deliveries.columns:
        return deliveries
    if PUBLISHED not in deliveries.columns:
        hidden = hidden.withColumn(PUBLISHED, F.lit(None).cast("string"))
    shown = hidden.mapInArrow(Masker(tuple(sorted(masks.names)), seals), hidden.schema)
    return shown.drop(HIDDEN)


def _with_hidden(deliveries: DataFrame, masks: Masks) -> DataFrame:
    usual = F.array(*map(F.lit, masks.usual)).cast("array<string>")
    if not masks.others:
        return deliveries.withColumn(HIDDEN, usual)
    rows = pa.Table.from_pylist(
        [{"subscriber": name, HIDDEN: list(names)} for name, names in masks.others.items()], schema=_TABLE
    )
    others = F.broadcast(deliveries.sparkSession.createDataFrame(rows))
    joined = deliveries.join(others, "subscriber", "left")
    return joined.select(*deliveries.columns, F.coalesce(HIDDEN, usual).alias(HIDDEN))


def _typed(deliveries: DataFrame, masks: Masks) -> Column:
    """The typed content, null where a column is hidden: null is absent."""
    names = deliveries.schema[ATTRIBUTES].dataType.fieldNames()  # type: ignore[attr-defined]
    columns = []
    for name in names:
        column, root = F.col(ATTRIBUTES).getField(name), name.partition(".")[0]
        if root in masks.names:
            column = F.when(~F.array_contains(HIDDEN, root), column)
        columns.append(column.alias(name))
    return F.struct(*columns)


@dataclass(frozen=True, slots=True)
class Masker:
    """Record batches of deliveries in; the same out, with records from which hidden attributes are left out, or in
    which they are sealed."""

    names: tuple[str, ...]
    seals: Seals | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = self._rows(batch)
            if not len(rows):
                yield batch
                continue
            record, published = batch.column(RECORD).to_pylist(), batch.column(PUBLISHED).to_pylist()
            hidden = batch.column(HIDDEN).to_pylist()
            producers, ids = batch.column("producer").to_pylist(), batch.column("id").to_pylist()
            for row in rows:
                seal = None if self.seals is None else partial(_sealed, self.seals, producers[row], ids[row])
                record[row] = _shown(record[row], published[row], frozenset(hidden[row]), seal)
                published[row] = None
            made = {RECORD: pa.array(record, pa.string()), PUBLISHED: pa.array(published, pa.string())}
            columns = [made.get(name, batch.column(name)) for name in batch.schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _rows(self, batch: pa.RecordBatch) -> list[int]:
        """The rows that may have something to hide: text that is escaped may stand for any other."""
        text = pc.coalesce(batch.column(RECORD), "")
        found = pc.match_substring(text, "\\u")
        for name in self.names:
            found = pc.or_(found, pc.match_substring(text, name))
        found = pc.or_(found, pc.starts_with(text, "["))  # it has a document
        found = pc.and_(found, pc.greater(pc.list_value_length(batch.column(HIDDEN)), 0))
        rows: list[int] = pc.indices_nonzero(found).to_pylist()
        return rows


def _sealed(
    seals: Seals, producer: str, id: str, notification: Notification, names: frozenset[str]
) -> Notification:
    """A content with some attributes sealed, if possible: who opens them finds producer and id in it."""
    read = Notification.read(notification.content)
    if notification.document is not None or (read.producer, read.id) != (producer, id):
        return notification.without(names)
    return seals.concealed(read, names)


def _shown(
    record: str,
    published: str | None,
    hidden: frozenset[str],
    seal: Callable[[Notification, frozenset[str]], Notification] | None = None,
) -> str:
    """The content of a notification without some attributes, as a subscriber of a bus gets it, or with those
    sealed."""
    notification = decode(record, "", None, None, None)
    if published is not None:
        notification = notification.published_as(parse_json(published), read_as=parse_json(record))
    shown = notification.without(hidden)
    if seal is not None and shown is not notification:
        shown = seal(notification, hidden)
    if shown is notification:
        return record if published is None else published
    return shown.to_json()
