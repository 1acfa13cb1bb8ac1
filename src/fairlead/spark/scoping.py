"""Scopes: visibility for whole batches of notifications.

    OpenedScopes.visibility(rows, …)   of each pair of a row and a subscriber, whether this one may see it

Visibility is computed for the graph, a column of bits for each scope (`fairlead.scopes.sliced`), not for rows, and
the worker that matches narrows what it has matched (`fairlead.spark.matcher`). The graph may change: a change with
SINCE holds for order times from there on, and the rows of a batch are divided by the graphs that hold for them. A
subscription belongs to the component that its subscriber's name says.

That is for notifications which filters alone decide about. Those that can come to a mapping or a policy are
decided about by `fairlead.spark.versions`. Where rules change the graph, so are those that may trigger one; the
others are then judged by the graphs that the rules have made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.audit.trace import ScopeChanged
from fairlead.errors import FairleadError, PipelineError, ScopeError
from fairlead.filters import Filter, Schema
from fairlead.filters.naming import Attributes
from fairlead.ingest import Rejection
from fairlead.matching.columnar import Columnar
from fairlead.model import Instant, Notification
from fairlead.model.order import BEGINNING, OrderKey
from fairlead.scopes import (
    DEFAULT,
    Policy,
    ScopeGraph,
    ScopePlan,
    Scopes,
    System,
    Traverse,
    parse_statements,
    print_statements,
)
from fairlead.scopes.graph import Outsiders
from fairlead.scopes.language.statements import Alter, Rule, Statement
from fairlead.scopes.mappings import IDENTITY
from fairlead.scopes.policies import Choice, Delay, Hold, One, Own, Rate
from fairlead.scopes.running import Changed, Running, is_ruled
from fairlead.scopes.sliced import Bits, Positions, Sliced, SlicedBatch
from fairlead.scopes.states import restore_states
from fairlead.spark.frames import ATTRIBUTES, KEY, RECORD, notifications_in
from fairlead.spark.scanning import columns_in

if TYPE_CHECKING:
    from fairlead.spark.config import Config

__all__ = [
    "POLICIES",
    "SCOPE_CHANGES",
    "ChangedScopes",
    "Components",
    "Epoch",
    "Made",
    "OpenedScopes",
    "Plain",
    "ScopeText",
    "Sees",
    "Visibility",
    "check_patterns",
    "check_rules",
    "encoded",
    "made_in",
    "order_times",
    "scopes_of",
    "with_made",
]

POLICIES: Final = "policies"
"""The table of the state with the states of policies of scopes, and the changes that rules have made, as text."""
SCOPE_CHANGES: Final = "changes"
"""The table of the state with the changes of the scope graph so far, as text."""
_EVENTS: Final = frozenset({"pub", "con", "join", "leave"})
"""The events that rules of batches act on."""
_MORE_THAN_FILTERS: Final = re.compile(r"\b(MAP|POLICY|TRAVERSE)\b", re.IGNORECASE)
_KEPT: Final = 4
Made: TypeAlias = tuple[str, tuple[Any, ...]]
"""A change that a rule has made, as text, and the order key that it holds behind."""
Applied: TypeAlias = tuple[Statement, OrderKey, bool]
"""A change, its order key, and whether it holds right behind that."""


@dataclass(frozen=True, slots=True)
class ScopeText:
    """A scope graph and its changes as text, which goes to workers."""

    text: str
    outsiders: str = "default"
    schema: Schema | None = None
    changing: bool = False
    """Whether changes may come while a stream runs."""
    made: tuple[Made, ...] = ()
    """The changes that rules have made so far, each right behind an order key."""

    @classmethod
    def of(cls, scopes: Scopes | ScopeText, schema: Schema | None = None) -> ScopeText:
        """The text of a scope graph; PipelineError where it cannot be evaluated for batches."""
        if isinstance(scopes, Scopes):
            statements = scopes.statements
            scopes = cls(print_statements(statements), scopes.outsiders, schema)
            scopes._open(statements)
        try:
            scopes.opened.check()
        except ScopeError as error:
            raise PipelineError(f"scopes: {error}") from error
        return scopes

    def events(self) -> list[ScopeChanged]:
        """The graph and its changes, as a trace has them."""
        statements = parse_statements(self.text, self.schema)
        about: dict[str, Any] = {
            "text": print_statements([each for each in statements if each.since is None])
        }
        about["ordered"] = True
        if self.outsiders != DEFAULT:
            about["outsiders"] = self.outsiders
        changes = sorted(self.opened.changes, key=lambda change: change[1].rank)
        return [ScopeChanged("graph", about), *(_change_event(*each) for each in changes)]

    def changed(
        self, before: str, texts: Iterable[tuple[str, str]], watermark: int, *, has_patterns: bool = False
    ) -> ChangedScopes:
        """This graph with the changes of earlier batches, and with those in files, by name and text.

        A change without SINCE, and one whose time the watermark has passed, holds from the watermark on. A
        statement that cannot be read or applied is rejected, and changes nothing; so is one that cannot stand
        beside patterns, where there are some.
        """
        known = replace(self, text=f"{self.text}\n{before}", changing=True)
        applied: list[Applied] = []
        running = known.opened.running(changed=_appending(applied))
        accepted: list[Statement] = []
        events: list[ScopeChanged] = []
        rejections: list[Rejection] = []
        for file, text in texts:
            try:
                statements = parse_statements(text, self.schema)
            except FairleadError as error:
                rejections.append(Rejection(file, None, str(error).partition("\n")[0], text))
                continue
            for statement in statements:
                dated = statement
                since = None if statement.since is None else statement.since.microseconds
                if watermark != BEGINNING and (since is None or since < watermark):
                    dated = replace(statement, since=Instant(watermark))
                applied.clear()
                try:
                    running.change([dated])
                    if running.ruled:
                        check_rules(running.timeline.systems)
                    if has_patterns:
                        _check_beside(running.timeline.systems)
                except ScopeError as error:
                    shown = print_statements([statement])
                    rejections.append(Rejection(file, None, str(error).partition("\n")[0], shown))
                    opened = replace(known, text=_joined(known.text, accepted)).opened
                    running = opened.running(changed=_appending(applied))
                else:
                    accepted.append(dated)
                    events += (_change_event(*each) for each in applied if dated.since is not None)
        scopes = replace(known, text=_joined(known.text, accepted))
        return ChangedScopes(scopes, _joined(before, accepted), tuple(events), tuple(rejections))

    @property
    def opened(self) -> OpenedScopes:
        """The graph, prepared; a process prepares it once."""
        return _OPENED.get(self) or self._open(None)

    def _open(self, statements: Sequence[Statement] | None) -> OpenedScopes:
        """Prepare it; its statements are read unless they are given."""
        if self not in _OPENED:
            while len(_OPENED) >= _KEPT:
                del _OPENED[next(iter(_OPENED))]
            _OPENED[self] = OpenedScopes(self, statements)
        return _OPENED[self]


@dataclass(frozen=True, slots=True)
class ChangedScopes:
    """The scope graph of a batch, with the changes that have come since the batch before."""

    scopes: ScopeText
    changes: str = ""
    """All changes so far, as text: they are a part of what the batch leaves to the next one."""
    events: tuple[ScopeChanged, ...] = ()
    """Those that are new, as a trace has them."""
    rejections: tuple[Rejection, ...] = ()
    fired: tuple[ScopeChanged, ...] = ()
    """Those that rules have made in the batch, as a trace has them."""

    def ruled(self, states: str) -> ChangedScopes:
        """The same with the changes that rules have made up to the end of a batch."""
        made = made_in(states)
        new = tuple(
            _change_event(parse_statements(text, self.scopes.schema)[0], OrderKey(*key), True)
            for text, key in made[len(self.scopes.made) :]
        )
        return replace(self, scopes=replace(self.scopes, made=made), fired=new)


def made_in(states: str) -> tuple[Made, ...]:
    """The changes that rules have made, of the states that a batch has left."""
    given = json.loads(states).get("made", []) if states else []
    return tuple((text, tuple(key)) for text, key in given)


def with_made(states: str, made: Iterable[Made]) -> str:
    """The states that a batch leaves, with the changes that rules have made."""
    return json.dumps({**json.loads(states), "made": list(made)}, ensure_ascii=False)


def check_rules(systems: Iterable[System]) -> None:
    """ScopeError where a rule of a graph is not for batches."""
    for system in systems:
        rules = [rule for each in system.deployed.values() for rule in each.rules]
        rules += (rule for each in system.definitions.values() for rule in each.features.rules)
        choices = _choices_of(system.graph)
        for rule in rules:
            if rule.event.kind not in _EVENTS:
                raise ScopeError(
                    f"rules on {rule.event.kind}(…) are not for batches; a bus has them",
                    hint="subscriptions and advertisements of a pipeline have no order among them",
                )
            if rule.event.kind == "con" and any(isinstance(each, Delay | Hold) for each in choices):
                raise ScopeError("rules on con(…) beside DELAY and HOLD are not for batches; a bus has them")


def check_patterns(opened: OpenedScopes) -> None:
    """PipelineError where a graph cannot be evaluated beside patterns."""
    try:
        _check_beside(opened.systems)
    except ScopeError as error:
        raise PipelineError(f"scopes: {error}", hint=error.hint) from error


def _check_beside(systems: Iterable[System]) -> None:
    """ScopeError where a graph has what depends on the order of notifications and composites together."""
    for system in systems:
        is_traversed = any(each.traverse is not Traverse.BROADCAST for each in system.graph.scopes)
        if _choices_of(system.graph) or is_traversed or is_ruled(system):
            raise ScopeError(
                "policies and rules beside patterns are not for batches; a bus has them",
                hint="they would choose among composites while these are detected; interfaces, mappings and "
                "changes stand beside patterns",
            )


def _choices_of(graph: ScopeGraph) -> list[Choice]:
    """The choices of all policies of a graph."""
    policies: list[Policy] = []
    for component in graph.components:
        policies += component.publishing
    for scope in graph.scopes:
        policies += (*scope.publishing, *scope.delivery, *scope.internal)
    return [policy.choice for policy in policies]


def _appending(applied: list[Applied]) -> Changed:
    def append(statement: Statement, key: OrderKey | None, behind: bool) -> None:
        applied.append((statement, key or OrderKey.first_at(BEGINNING), behind))

    return append


def _joined(text: str, statements: Sequence[Statement]) -> str:
    return "\n".join(each for each in (text, print_statements(statements)) if each)


def _change_event(statement: Statement, key: OrderKey, behind: bool) -> ScopeChanged:
    """A change with its order key, as a trace has it."""
    text = print_statements([replace(statement, since=None)])
    about: dict[str, Any] = {"text": text, "from": [key.time, key.producer, key.sequence, key.id]}
    return ScopeChanged("alter", about | ({"behind": True} if behind else {}))


_OPENED: Final[dict[ScopeText, OpenedScopes]] = {}


def scopes_of(config: Config) -> ScopeText | None:
    """The scope graph that a pipeline's file names."""
    if config.scopes is None:
        return None
    schema = None if config.schema is None else Schema.read(config.schema)
    path, outsiders = config.scopes.path, config.scopes.outsiders
    try:
        return _text_read(path, Path(path).read_bytes(), outsiders, schema)
    except PipelineError:
        raise
    except (FairleadError, OSError) as error:
        raise PipelineError(f"scopes: {path}: {error}") from error


@lru_cache(maxsize=_KEPT)
def _text_read(path: str, content: bytes, outsiders: Outsiders, schema: Schema | None) -> ScopeText:
    """The text of a file with this content: a stream asks for it with each batch, and reading it takes longer."""
    return ScopeText.of(Scopes.read(path, schema, outsiders=outsiders), schema)


@dataclass(frozen=True, slots=True)
class Plain:
    """Record batches in; the rows that filters alone decide about out, or with `special` the others."""

    scopes: ScopeText
    special: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            special = self.scopes.opened.is_special(batch)
            those = special if self.special else ~special
            yield batch if those.all() else batch.filter(pa.array(those))


class Components:
    """Those who subscribe, by number. Their positions in a graph are computed once."""

    def __init__(self, names: pa.Array) -> None:
        self._names = names
        self._positions: dict[int, tuple[Epoch, Positions]] = {}

    def positions(self, epoch: Epoch) -> Positions:
        """The position of each."""
        found = self._positions.get(id(epoch))
        if found is None:
            while len(self._positions) >= _KEPT:
                del self._positions[next(iter(self._positions))]
            found = self._positions[id(epoch)] = (
                epoch,
                epoch.sliced.positions(self._names.fill_null("").to_pylist()),
            )
        return found[1]

    def samples(self, epoch: Epoch) -> dict[int, str]:
        """The positions that there are, each with the name of a component there."""
        positions, first = np.unique(self.positions(epoch), return_index=True)
        names = self._names.take(pa.array(first)).fill_null("").to_pylist()
        return dict(zip(positions.tolist(), names, strict=True))

    def numbers_of(self, names: Any) -> NDArray[np.int64]:
        """The numbers of those among some names; -1 for those who do not subscribe."""
        found: NDArray[np.int64] = pc.index_in(names, value_set=self._names).fill_null(-1).to_numpy()
        return found


class Sees(Protocol):
    """The visibility of the rows of a batch."""

    def sees(self, rows: NDArray[np.int64], components: Components, whose: NDArray[np.int64]) -> Bits:
        """Of each pair of a row and the number of a component, whether this one may see it."""


class Visibility:
    """The visibility of the rows of a batch, each by the graph at its own order time."""

    def __init__(
        self, rows: pa.RecordBatch, parts: Sequence[tuple[Epoch, NDArray[np.int64], SlicedBatch]]
    ) -> None:
        self._rows, self._parts = rows, parts
        self._publishers: tuple[Components, NDArray[np.int64]] | None = None

    def sees(self, rows: NDArray[np.int64], components: Components, whose: NDArray[np.int64]) -> Bits:
        """Of each pair of a row and the number of a component, whether this one may see it."""
        seen = np.zeros(len(rows), np.bool_)
        for epoch, those, sliced in self._parts:
            positions = components.positions(epoch)[whose]
            if len(those) == self._rows.num_rows:
                seen = sliced.sees(rows, positions)
                continue
            own = np.full(self._rows.num_rows, -1, np.int64)
            own[those] = np.arange(len(those))
            pairs = np.flatnonzero(own[rows] >= 0)
            seen[pairs] = sliced.sees(own[rows[pairs]], positions[pairs])
        seen |= self._published_by(components)[rows] == whose
        return seen

    def _published_by(self, components: Components) -> NDArray[np.int64]:
        """The publisher of each row, who sees it in any case."""
        if self._publishers is None or self._publishers[0] is not components:
            producers = pc.fill_null(self._rows.column("producer"), "")
            self._publishers = (components, components.numbers_of(producers))
        return self._publishers[1]


class Epoch:
    """A graph, with its filters in an engine."""

    def __init__(self, graph: ScopeGraph) -> None:
        lenient = replace(graph, outsiders="isolated") if graph.outsiders == "refused" else graph
        self.plan = ScopePlan(lenient)
        self.sliced = Sliced(self.plan)
        self.graph = graph

    @cached_property
    def engine(self) -> Columnar[int]:
        engine: Columnar[int] = Columnar()
        engine.add_many(enumerate(self.sliced.filters))
        return engine

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attributes that filters name."""
        attributes = Attributes()
        for filter in self.sliced.filters:
            attributes.add(filter)
        return tuple(sorted(attributes.names))

    def sliced_batch(
        self, rows: pa.RecordBatch, columns: pa.RecordBatch | None, notifications: Sequence[Notification] = ()
    ) -> SlicedBatch:
        """The visibility of rows, whose attributes are columns, or are read from the notifications."""
        producers, codes = encoded(rows.column("producer"))
        return self.sliced.batch(
            self.sliced.positions(producers)[codes], self._passed(rows, columns, notifications)
        )

    def _passed(
        self, rows: pa.RecordBatch, columns: pa.RecordBatch | None, notifications: Sequence[Notification]
    ) -> dict[Filter, Bits]:
        """For each filter, which rows match it."""
        filters = self.sliced.filters
        found = np.zeros((len(filters), rows.num_rows), np.bool_)
        if filters and columns is not None:
            matches = self.engine.match_arrow(columns, lambda row: notifications_in(rows.slice(row, 1))[0])
            ids = np.asarray(matches.ids, np.int64)
            at = np.repeat(np.arange(rows.num_rows), np.diff(matches.starts))
            found[ids[matches.ordinals], at] = True
        elif filters:
            for row, numbers in enumerate(self.engine.match_batch(notifications)):
                found[numbers, row] = True
        return dict(zip(filters, found, strict=True))


class OpenedScopes:
    """The graphs of a text, each from an order time on."""

    def __init__(self, scopes: ScopeText, statements: Sequence[Statement] | None = None) -> None:
        if statements is None:
            statements = parse_statements(scopes.text, scopes.schema)
        start = System.of((each for each in statements if each.since is None), scopes.outsiders)  # type: ignore[arg-type]
        self._start, self._changing = start, scopes.changing
        self.changes: list[Applied] = []
        """Changes with their order keys, and those that rules make of them."""
        running = Running(start, changed=_appending(self.changes))
        self.notices = sorted(
            running.change([each for each in statements if each.since is not None]), key=attrgetter("key")
        )
        """The notices to the members of scopes that are dropped."""
        self.is_ruled = running.ruled
        """Whether rules may change the graph."""
        self._more_than_filters = bool(_MORE_THAN_FILTERS.search(scopes.text))
        timeline = running.timeline
        for text, key in scopes.made:
            [statement] = parse_statements(text, scopes.schema)
            timeline = timeline.changed(statement, OrderKey(*key), behind=True)
        self._timeline = timeline
        self.systems = [start, *timeline.systems]
        """The graphs in use, one after another."""
        self._times = np.array([BEGINNING, *(change.key.time for change in timeline.changes)], np.int64)
        self._behind = frozenset(change.key.time for change in timeline.changes if change.behind)
        self._epochs: dict[int, Epoch] = {}

    def running(self, states: str = "", changed: Changed | None = None) -> Running:
        """The graphs in use, with the states of policies that an earlier batch has left."""
        running = Running(self._start, changed=changed)
        running.resume(self._timeline)
        if states:
            restore_states(running, states)
        return running

    def check(self) -> None:
        """ScopeError where rules are not for batches."""
        check_rules(self.systems)

    @cached_property
    def _triggers(self) -> Columnar[int]:
        """The filters of rules on notifications."""
        engine: Columnar[int] = Columnar()
        engine.add_many(enumerate(self._trigger_filters))
        return engine

    @cached_property
    def _trigger_filters(self) -> list[Filter]:
        rules = (
            rule
            for system in self.systems
            for rule in (
                *(rule for each in system.deployed.values() for rule in each.rules),
                *(rule for each in system.definitions.values() for rule in each.features.rules),
            )
        )
        found = dict.fromkeys(nested.event.filter for rule in rules for nested in _with_nested(rule))
        return list(found)

    @cached_property
    def _trigger_names(self) -> tuple[str, ...]:
        attributes = Attributes()
        for filter in self._trigger_filters:
            attributes.add(filter)
        return tuple(sorted(attributes.names))

    @cached_property
    def has_mappings(self) -> bool:
        """Whether some graph has a mapping: then a notification may have several versions."""
        return any(edge.mapping != IDENTITY for system in self.systems for edge in system.graph.edges)

    @cached_property
    def _choices(self) -> list[Choice]:
        """The choices of the policies of all graphs."""
        return [each for system in self.systems for each in _choices_of(system.graph)]

    @cached_property
    def has_policies(self) -> bool:
        """Whether some graph has a policy."""
        return bool(self._choices) or any(
            scope.traverse is not Traverse.BROADCAST
            for system in self.systems
            for scope in system.graph.scopes
        )

    @cached_property
    def has_states(self) -> bool:
        """Whether some policy has a state, so that notifications have to be taken in their order."""
        return any(
            isinstance(each, Rate | Hold | Own) or (isinstance(each, One) and each.in_turn)
            for each in self._choices
        )

    @cached_property
    def is_filters_only(self) -> bool:
        """Whether filters alone decide about every notification, and no scope is dropped."""
        return not (self._changing or self.is_ruled or self.has_mappings or self.has_policies or self.notices)

    @cached_property
    def _releases_at_changes(self) -> bool:
        """Whether a change may release what a policy holds, with whatever notification comes next."""
        return len(self.systems) > 1 and any(isinstance(each, Hold) for each in self._choices)

    def is_special(self, batch: pa.RecordBatch) -> Bits:
        """The rows that may come to a mapping or a policy, or trigger a rule."""
        if self._releases_at_changes or (self.is_ruled and self._more_than_filters):
            return np.ones(batch.num_rows, np.bool_)
        if self.is_ruled:
            return self._may_trigger(batch)
        special = np.zeros(batch.num_rows, np.bool_)
        for epoch, those in self.parts(batch):
            producers, codes = encoded(batch.column("producer").take(pa.array(those)))
            relevant = np.array([bool(epoch.plan.relevant(name)) for name in producers], np.bool_)
            if relevant.any():
                special[those] = relevant[codes]
        return special

    def _may_trigger(self, batch: pa.RecordBatch) -> Bits:
        """The rows that a rule may act on, in graphs of filters alone: their content is what was published."""
        found = np.zeros(batch.num_rows, np.bool_)
        names = set(batch.column("producer").unique().to_pylist())
        if self._trigger_filters and batch.num_rows:
            if RECORD in batch.schema.names:
                columns, sure = columns_in(batch.column(RECORD), self._trigger_names)
            else:
                struct, sure = batch.column(ATTRIBUTES), np.ones(batch.num_rows, np.bool_)
                columns = pa.RecordBatch.from_arrays(struct.flatten(), [field.name for field in struct.type])
            rows = batch.filter(pa.array(sure))
            matches = self._triggers.match_arrow(
                columns.filter(pa.array(sure)), lambda row: notifications_in(rows.slice(row, 1))[0]
            )
            found[sure] = np.diff(matches.starts) > 0
            if not sure.all():
                rest = notifications_in(batch.filter(pa.array(~sure)))
                found[~sure] = [bool(numbers) for numbers in self._triggers.match_batch(rest)]
        scopes = {name for system in self.systems for name in names if system.graph.is_scope(name or "")}
        if scopes:  # what a scope publishes by itself is evaluated one by one
            found |= pc.is_in(batch.column("producer"), value_set=pa.array(sorted(scopes))).to_numpy(False)
        return found

    def plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that filters alone decide about."""
        if self.is_filters_only:
            return batch
        special = self.is_special(batch)
        return batch.filter(pa.array(~special)) if special.any() else batch

    def _epoch(self, number: int) -> Epoch:
        if number not in self._epochs:
            self._epochs[number] = Epoch(self.systems[number].graph)
        return self._epochs[number]

    def parts(self, batch: pa.RecordBatch) -> Iterator[tuple[Epoch, NDArray[np.int64]]]:
        """The rows that are judged by each graph."""
        if len(self.systems) == 1:
            yield self._epoch(0), np.arange(batch.num_rows)
            return
        times = order_times(batch)
        numbers = np.searchsorted(self._times, times, side="right") - 1
        if self._behind:  # a change right behind a notification holds for a part of an instant
            ties = np.flatnonzero(np.isin(times, list(self._behind)))
            keys = (batch.take(pa.array(ties)).column(name).to_pylist() for name in KEY)
            for row, *key in zip(ties.tolist(), *keys, strict=True):
                numbers[row] = self._timeline.number_at(OrderKey(*key))
        for number in np.unique(numbers).tolist():
            yield self._epoch(number), np.flatnonzero(numbers == number)

    def names(self, rows: pa.RecordBatch) -> set[str]:
        """The attributes that decide about rows."""
        return {name for epoch, _ in self.parts(rows) for name in epoch.names}

    def visibility(
        self, rows: pa.RecordBatch, columns: pa.RecordBatch | None, notifications: Sequence[Notification] = ()
    ) -> Visibility:
        """The visibility of rows. Their `names` are among the columns; without columns, notifications are read."""
        parts = []
        for epoch, those in self.parts(rows):
            if len(those) == rows.num_rows:
                parts.append((epoch, those, epoch.sliced_batch(rows, columns, notifications)))
                continue
            at = pa.array(those)
            own = None if columns is None else columns.take(at)
            some = [notifications[row] for row in those.tolist()] if columns is None else ()
            parts.append((epoch, those, epoch.sliced_batch(rows.take(at), own, some)))
        return Visibility(rows, parts)

    def scopes_of(self, batch: pa.RecordBatch) -> pa.Array:
        """The scopes in which each row is visible, by name."""
        names: list[str] = []
        at, what = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for epoch, those in self.parts(batch):
            part = batch if len(those) == batch.num_rows else batch.take(pa.array(those))
            scopes = [each.name for each in epoch.graph.scopes if not each.abstract]
            for name, bits in _visible_in(part, epoch, scopes):
                rows = np.flatnonzero(bits)
                if len(rows):
                    at.append(those[rows])
                    what.append(np.full(len(rows), len(names)))
                    names.append(name)
        rows, numbers = np.concatenate(at), np.concatenate(what)
        ranks = np.empty(len(names), np.int64)
        ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        order = np.lexsort((ranks[numbers] if len(numbers) else numbers, rows))
        offsets = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=batch.num_rows)))).astype(
            np.int32
        )
        values = pa.array(names, pa.string()).take(pa.array(numbers[order]))
        return pa.ListArray.from_arrays(pa.array(offsets), values)


def _with_nested(rule: Rule) -> Iterator[Rule]:
    """A rule, and those that its changes bring along."""
    yield rule
    for action in rule.actions:
        if isinstance(action, Alter):
            for each in action.features.rules:
                yield from _with_nested(each)


def _visible_in(batch: pa.RecordBatch, epoch: Epoch, scopes: Sequence[str]) -> Iterator[tuple[str, Bits]]:
    """Scopes, each with the rows that are visible in it."""
    if RECORD not in batch.schema.names:
        struct = batch.column(ATTRIBUTES)
        columns = pa.RecordBatch.from_arrays(struct.flatten(), [field.name for field in struct.type])
        yield from epoch.sliced_batch(batch, columns).visible(*scopes).items()
        return
    columns, sure = columns_in(batch.column(RECORD), epoch.names)
    rows = batch.filter(pa.array(sure))
    found = epoch.sliced_batch(rows, columns.filter(pa.array(sure))).visible(*scopes)
    others = batch.filter(pa.array(~sure))
    again = epoch.sliced_batch(others, None, notifications_in(others)).visible(*scopes)
    for name in scopes:
        bits = np.zeros(batch.num_rows, np.bool_)
        bits[sure], bits[~sure] = found[name], again[name]
        yield name, bits


def order_times(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """The order times of rows."""
    name = "time" if "time" in batch.schema.names else "event_time"
    times: NDArray[np.int64] = pc.fill_null(batch.column(name), 0).to_numpy()
    return times


def encoded(names: Any) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct names, and the number of each."""
    coded = pc.dictionary_encode(pc.fill_null(names, ""))
    if isinstance(coded, pa.ChunkedArray):
        coded = coded.combine_chunks()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)
