"""Groups: what is detected together on Spark, for one key after the other.

    _Group           what all have: what concerns them, and which key it goes to
    PatternGroup     patterns with the same `same`: a `Detector` runs over the rows of each key
    FairGroup        conjunctions of fair subscriptions: a `RelationDetector` runs over the rows, in order

Law: of its rows, batch by batch, with what is in progress handed on, a group finds what one `QuerySet` finds that
is asked the same and given the same order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from fairlead.correlation.fair import Relation, Subscription
from fairlead.correlation.fair.relations import PRODUCER as FAIR
from fairlead.correlation.kernel import Detected
from fairlead.correlation.occurrences import Occurrence, Rank
from fairlead.correlation.patterns import Composite, Detector
from fairlead.correlation.patterns.composites import PRODUCER
from fairlead.correlation.patterns.model import Part, Within, atoms, beginnings
from fairlead.correlation.relating import FairQuery, Related, RelationDetector
from fairlead.filters import Filter
from fairlead.matching.columnar import Columnar
from fairlead.matching.columnar.arrow import notifications_of
from fairlead.model import ABSENT, Kind, Notification, key_of, kind_of
from fairlead.model.encoding import canonical, format_json, parse_json
from fairlead.model.order import BEGINNING, END
from fairlead.model.versions import version_in
from fairlead.spark.frames import RANK, RECORD, encode
from fairlead.spark.patterns import Automaton, Correlation, PatternRow, Patterns, marked

__all__ = ["RANK_TYPES", "FairGroup", "Group", "Ints", "PatternGroup", "Row", "composed", "is_plain"]

PORTION: Final = 10_000
"""About so many rows are detected at a time, of as many keys as that takes; a longer key in pieces."""
RANK_TYPES: Final = {
    "start": "bigint",
    "pattern": "string",
    "producer": "string",
    "sequence": "bigint",
    "id": "string",
    "conjunction": "string",
    "number": "bigint",
}
"""By what things stand at an instant: events by their keys; behind them composites, by their start and the hash of
their pattern, or the conjunction of which they are a public relation; a relation for those who asked right behind
what completes it, by its conjunction and number."""
KEYS_MAX: Final = 1 << 16
"""For so many keys a group knows their numbers."""
ALWAYS: Final = (1 << 63) - 1
"""A window without an end."""

Ints: TypeAlias = NDArray[np.integer[Any]]


class Row(NamedTuple):
    """A row for a key: something new or, under the name of an automaton, what that has in progress."""

    group: int
    key: int
    occurrence: Occurrence | None
    automaton: str | None = None
    alarm: int | None = None
    progress: str = ""

    @property
    def sort_key(self) -> tuple[int, int, int]:
        """The order of rows: partial matches before all new notifications."""
        return self.group, self.key, BEGINNING if self.occurrence is None else self.occurrence.end


class Group(ABC):
    """A group of automata that are evaluated together, on a level."""

    same: tuple[str, ...] = ()
    """The names whose values tell keys apart."""
    window: int = ALWAYS
    """For how long, in microseconds, what began with a notification may look at others."""

    def __init__(self, number: int, automata: Sequence[Automaton | Correlation], patterns: Patterns) -> None:
        self.number = number
        self.names = tuple(each.name for each in automata)
        self.types = frozenset(type for each in automata for type in each.types)
        self.component = automata[0].component
        """The component that asks for all of it, where scopes say what each one sees."""
        self._patterns = patterns
        self._numbers: dict[tuple[Any, ...], int] = {}

    @abstractmethod
    def filters(self) -> set[Filter]:
        """The filters on single notifications."""

    def beginnings(self) -> set[Filter]:
        """The filters among them that a match can begin with."""
        return self.filters()

    @abstractmethod
    def detect(self, rows: Iterable[Row], bound: int, payload: bool) -> Iterator[dict[str, Any]]:
        """The composites in the rows of keys, key after key, and the partial matches at the end."""

    def accepts(self, batch: pa.RecordBatch) -> bool:
        """Whether rows can be looked at as columns, by `composites_in`."""
        return False

    def composites_in(
        self, rows: pa.RecordBatch, engine: Columnar[int], numbers: dict[Filter, int], payload: bool
    ) -> Iterator[pa.RecordBatch | list[dict[str, Any]]]:
        """The composites in the rows of whole keys, up to the end of time. NotComparable if that takes objects."""
        raise NotImplementedError(f"{type(self).__name__} looks at rows one by one")

    def subscribers(self, numbers: Iterable[int], time: int) -> list[tuple[str, str]]:
        """The ids and subscribers of those pattern rows that are valid at a time."""
        rows: Iterable[PatternRow] = (self._patterns.rows[number] for number in numbers)
        return sorted({(row.id, row.subscriber) for row in rows if time < row.until})

    def key_of(self, notification: Notification) -> int | None:
        """A number that equal values share; None where the notification is in no stream of the group."""
        if not self.same:
            return 0
        values = [notification.get(name) for name in self.same]
        if any(value is ABSENT or kind_of(value) is Kind.NAN for value in values):
            return None
        key = tuple(map(key_of, values))
        number = self._numbers.get(key)
        if number is None:
            if len(self._numbers) >= KEYS_MAX:
                self._numbers.clear()
            # The detector tells keys apart itself: two may well share a number.
            encoded = canonical({str(at): value for at, value in enumerate(values)})
            number = int.from_bytes(blake2b(encoded, digest_size=8).digest(), signed=True)
            self._numbers[key] = number
        return number

    def keys_in(self, attributes: pa.RecordBatch, rows: Ints) -> tuple[Ints, Ints]:
        """The rows that are in a stream of the group, and their keys: `key_of` of each, by column."""
        if not self.same:
            return rows, np.zeros(len(rows), np.int64)
        some = attributes.take(pa.array(rows))
        if not all(
            name in some.schema.names and is_plain(some.schema.field(name).type) for name in self.same
        ):
            firsts = every = np.arange(len(rows))
        else:
            codes = np.zeros(len(rows), np.int64)
            for name in self.same:
                encoded = some.column(name).dictionary_encode("encode")
                codes = codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy()
                _, codes = np.unique(codes, return_inverse=True)
            _, firsts, every = np.unique(codes, return_index=True, return_inverse=True)
        found = [self.key_of(each) for each in notifications_of(some.take(pa.array(firsts, pa.int64())))]
        there = np.array([key is not None for key in found], np.bool_)[every]
        keys = np.array([key or 0 for key in found], np.int64)[every]
        return rows[there], keys[there]


class PatternGroup(Group):
    """Patterns with the same `same`."""

    def __init__(
        self, number: int, same: tuple[str, ...], automata: Sequence[Automaton], patterns: Patterns
    ) -> None:
        super().__init__(number, automata, patterns)
        self.same = same
        self.window = max(_window(each.pattern.body) for each in automata)
        self._automata = tuple(automata)
        self._detectors: dict[bool, Detector] = {}

    def filters(self) -> set[Filter]:
        """The filters of its atoms, and their domains."""
        return {
            filter
            for automaton in self._automata
            for atom in atoms(automaton.pattern.body)
            for filter in (atom.filter, atom.domain)
            if filter is not None
        }

    def beginnings(self) -> set[Filter]:
        """The filters of the first steps; all, where something looks back: what is to come may ask for it."""
        if any(automaton.pattern.lookback for automaton in self._automata):
            return self.filters()
        firsts = (atom for automaton in self._automata for atom in beginnings(automaton.pattern.body))
        return {atom.filter for atom in firsts if atom.filter is not None}

    def _detector(self, *, remembers: bool) -> Detector:
        """The detector, made once, without anything in progress."""
        detector = self._detectors.get(remembers)
        if detector is None:
            detector = self._detectors[remembers] = Detector(Columnar[int](), remembers=remembers)
            for automaton in self._automata:
                for number in automaton.rows:
                    pattern = self._patterns.pattern(self._patterns.rows[number])
                    detector.add(str(number), pattern, automaton.since)
        detector.clear()
        return detector

    def detect(self, rows: Iterable[Row], bound: int, payload: bool) -> Iterator[dict[str, Any]]:
        detector = self._detector(remembers=bound != END)
        keys: dict[Rank, int] = {}
        for portion in _portions(rows):
            new = [(row.key, row.occurrence) for row in portion.rows if row.occurrence is not None]
            waking = {row.key for row in portion.rows if row.automaton is None or _rings(row, bound)}
            resumed = []
            for row in portion.rows:
                if row.automaton is None:
                    continue
                if portion.is_long or row.key in waking:
                    resumed.append(row)
                elif bound != END:
                    yield _in_progress(row.automaton, row.key, row.alarm, row.progress)
            if resumed:
                detector.resume(_joined(resumed, keys))
            for key, occurrence in new:
                keys[occurrence.rank] = key
                detector.feed(occurrence)
            if portion.goes_on:
                yield from self._composites(detector.advance(new[-1][1].end) if new else (), payload)
                continue
            yield from self._composites(detector.advance(bound), payload)
            if bound != END:
                yield from _left(detector.snapshot(), keys, marked(self.component))
            detector.clear()
            keys.clear()

    def _composites(self, found: Iterable[Detected[Composite]], payload: bool) -> Iterator[dict[str, Any]]:
        """Composites that somebody asks for when they end, each once."""
        for rank, same in groupby(found, key=lambda each: each.composite.rank):
            several = list(same)
            composite = several[0].composite
            if subscribers := self.subscribers(
                (int(id) for each in several for id in each.ids), composite.end
            ):
                yield composed(composite, rank[-1], subscribers, payload)


def _window(part: Part) -> int:
    """The greatest distance of the end of a match from that of its first element."""
    return part.duration if isinstance(part, Within) else ALWAYS


class FairGroup(Group):
    """Conjunctions of fair subscriptions: all see one stream, in the total order.

    A conjunction begins with the first event of its types, with what it held before or with nothing. So what one
    holds that has nothing new to look at is not read, and stays as it is.
    """

    def __init__(self, number: int, correlations: Sequence[Correlation], patterns: Patterns) -> None:
        super().__init__(number, correlations, patterns)
        self._correlations = {each.name: each for each in correlations}
        self._called: dict[str, dict[str, list[int]]] = {each.name: {} for each in correlations}
        """The rows that ask for a conjunction, by the name that they give it."""
        for each in correlations:
            for row in each.rows:
                name = patterns.question(patterns.rows[row]).about.name
                self._called[each.name].setdefault(name, []).append(row)

    def filters(self) -> set[Filter]:
        return {
            filter for each in self._correlations.values() for filter in each.conjunction.filters.values()
        }

    def detect(self, rows: Iterable[Row], bound: int, payload: bool) -> Iterator[dict[str, Any]]:
        detector = RelationDetector(Columnar[int]())
        for each in self._correlations.values():
            query = FairQuery(Subscription.of([each.conjunction]), each.choice)
            detector.add(each.name, query, each.since)
        for sort_key, several in groupby(rows, key=attrgetter("sort_key")):
            progress = []
            for row in several:
                if row.occurrence is not None:
                    detector.feed(row.occurrence)
                elif row.automaton in self._correlations:
                    progress.append({"query": row.automaton, "state": row.progress})
            if progress:
                detector.resume({"bound": BEGINNING, "held": [], "progress": progress})
            yield from self._relations(detector.advance(min(sort_key[2] + 1, bound)), payload)
        if bound != END:
            for each in detector.snapshot()["progress"]:
                if self.subscribers(self._correlations[each["query"]].rows, bound):
                    yield _in_progress(each["query"], 0, None, each["state"])

    def _relations(self, detected: Iterable[Detected[Related]], payload: bool) -> Iterator[dict[str, Any]]:
        """Relations that somebody asks for, under each name once."""
        for last, several in groupby(detected, key=lambda each: each.composite.last):
            called: dict[str, tuple[Relation, list[int]]] = {}
            for each in several:
                for name, numbers in self._called[each.ids[0]].items():
                    relation = each.composite.relation.called(name)
                    called.setdefault(relation.id, (relation, []))[1].extend(numbers)
            for id, (relation, asking) in called.items():
                if subscribers := self.subscribers(asking, last.end):
                    yield (_published if relation.is_public else _related)(
                        relation, id, last, subscribers, payload
                    )


class _Portion(NamedTuple):
    rows: list[Row]
    is_long: bool = False
    """Whether all of it is of one key, of which there are more rows than are taken at a time."""
    goes_on: bool = False
    """Whether there is more of that key."""


def _portions(rows: Iterable[Row]) -> Iterator[_Portion]:
    """Rows, of which those of a key come together, in portions: whole keys, or pieces of a long one."""
    whole: list[Row] = []
    for _, run in groupby(rows, key=attrgetter("key")):
        take = partial(islice, run, PORTION)
        piece = list(take())
        if whole and len(whole) + len(piece) > PORTION:
            yield _Portion(whole)
            whole = []
        if len(piece) < PORTION:
            whole += piece
            continue
        while len(piece) == PORTION:
            yield _Portion(piece, is_long=True, goes_on=True)
            piece = list(take())
        yield _Portion(piece, is_long=True)
    if whole:
        yield _Portion(whole)


def _rings(row: Row, bound: int) -> bool:
    return row.alarm is not None and row.alarm < bound


# -- what is in progress -----------------------------------------------------------------------------------


def _joined(rows: Iterable[Row], keys: dict[Rank, int]) -> dict[str, Any]:
    """The progress of rows as the state of one detector; the keys of what was seen are noted."""
    numbers: dict[Rank, int] = {}
    occurrences: list[Any] = []
    progress = []
    kept: dict[str, Any] = {}
    bound = BEGINNING
    for row in rows:
        kept = parse_json(row.progress)
        bound = max(bound, kept["bound"])
        own = []
        for each in kept["occurrences"]:
            rank: Any = tuple(each[0])
            keys[rank] = row.key
            number = numbers.setdefault(rank, len(occurrences))
            if number == len(occurrences):
                occurrences.append(each)
            own.append(number)
        progress += [_renumbered(each, own) for each in kept["progress"]]
    return {**kept, "bound": bound, "occurrences": occurrences, "progress": progress}


def _left(kept: Mapping[str, Any], keys: Mapping[Rank, int], ending: str) -> Iterator[dict[str, Any]]:
    """The state of a detector in rows: one for each automaton and key, with what that has seen. Names of automata
    have the ending."""
    occurrences = kept["occurrences"]
    for each in kept["progress"]:
        numbers = dict.fromkeys([*each["seen"], *chain.from_iterable(each.get("before", {}).values())])
        own = {number: at for at, number in enumerate(numbers)}
        alone = {
            **kept,
            "occurrences": [occurrences[number] for number in own],
            "progress": [_renumbered(each, own)],
        }
        automaton = f"{each['pattern']}@{each['since'][0]}{ending}"
        key = keys[tuple(occurrences[next(iter(own))][0])]
        yield _in_progress(automaton, key, each["alarm"], format_json(alone))


def _renumbered(progress: Mapping[str, Any], numbers: Mapping[int, int] | Sequence[int]) -> dict[str, Any]:
    """The progress of a pattern under other numbers of its occurrences."""
    before = {step: [numbers[each] for each in found] for step, found in progress.get("before", {}).items()}
    seen = {"seen": [numbers[each] for each in progress["seen"]]}
    return {**progress, **seen, **({"before": before} if before else {})}


def _in_progress(automaton: str, key: int, alarm: int | None, progress: str) -> dict[str, Any]:
    return {"automaton": automaton, "key": key, "alarm": alarm, "progress": progress}


# -- what was found ----------------------------------------------------------------------------------------


def composed(
    composite: Composite, id: str, subscribers: Iterable[tuple[str, str]], payload: bool
) -> dict[str, Any]:
    """A composite as a row."""
    return {
        "time": composite.end,
        "producer": PRODUCER,
        "id": id,
        "event_time": composite.end,
        RECORD: encode(composite.notification()) if payload else None,
        "type": composite.type,
        "interval": {"start": composite.start, "end": composite.end},
        "constituents": [_named(step, each.notification) for step, each in composite.constituents],
        "pattern": composite.pattern.hash,
        "patterns": [{"id": name, "subscriber": subscriber} for name, subscriber in subscribers],
        "is_public": composite.is_public,
        RANK: _rank(composite.start, composite.pattern.hash, PRODUCER, None, id),
    }


def _related(
    relation: Relation, id: str, last: Occurrence, subscribers: Iterable[tuple[str, str]], payload: bool
) -> dict[str, Any]:
    """A relation as a row; it stands right behind what has completed it."""
    _, start, is_composite, whose, *_ = last.rank
    event, interval, text = last.notification, relation.interval, relation.conjunction.text
    behind = (start, whose, event.producer) if is_composite else (None, None, whose)
    return {
        "time": last.end,
        "producer": FAIR,
        "id": id,
        "event_time": None if interval is None else interval[1].microseconds,
        RECORD: encode(relation.notification()) if payload else None,
        "type": relation.name,
        "interval": interval
        and dict(zip(("start", "end"), (each.microseconds for each in interval), strict=True)),
        "constituents": [_named(*each) for each in relation.constituents],
        "pattern": text,
        "patterns": [{"id": name, "subscriber": subscriber} for name, subscriber in subscribers],
        "is_public": False,
        RANK: _rank(*behind, event.sequence, version_in(event.id)[0], text, relation.number),
    }


def _published(
    relation: Relation, id: str, last: Occurrence, subscribers: Iterable[tuple[str, str]], payload: bool
) -> dict[str, Any]:
    """A public relation as a row; it stands among composites."""
    rank = _rank(Related(relation, last).start, relation.conjunction.text, FAIR, None, id)
    return {**_related(relation, id, last, subscribers, payload), "is_public": True, RANK: rank}


def _rank(*given: str | int | None) -> dict[str, str | int | None]:
    return dict(zip(RANK_TYPES, given, strict=False))


def _named(step: str, one: Notification) -> dict[str, Any]:
    time = None if one.time is None else one.time.microseconds
    return {"step": step, "producer": one.producer, "id": version_in(one.id)[0], "time": time}


def is_plain(type: pa.DataType) -> bool:
    """Whether equal values of a type are equal for Arrow, too."""
    return bool(pa.types.is_string(type) or pa.types.is_integer(type) or pa.types.is_boolean(type))
