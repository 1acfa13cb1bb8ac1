"""One cell of the table: one contender with n patterns of one shape, in a process of its own.

    a contender's speed counts    iff    its matches are those of the definition

The contender first gives its matches on some of the events, which are compared with those of the reference
detector for a few patterns and, for all patterns, with those of another contender. Then it is timed, pass by pass,
over as many events as it can do within its patience.
`python -m fairlead_lab.bench.correlation_cell` reads a task and writes a cell.

Rates are in seconds of a core, so that a busy machine does not show; contenders have one thread. Latency is from
handing over the batch with the last constituent to having the composite in hand. State is what is
held of matches in progress: nodes of a graph, or partial matches that are written out.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, islice
from random import Random
from statistics import quantiles
from typing import Any, Final, Protocol, TypeAlias

from fairlead.correlation import fair, patterns
from fairlead.correlation.kernel import Detected
from fairlead.correlation.patterns import Detector, Occurrence
from fairlead.matching.columnar import Columnar
from fairlead.model import Instant, Notification
from fairlead.model.order import OrderKey
from fairlead_lab.bench.cell import Disagreement
from fairlead_lab.bench.harness import MEASURED, NOT_RUN, WRONG, as_json
from fairlead_lab.bench.peers.chains import Chain, Event, Step
from fairlead_lab.bench.runner import Patience, Spread, TooSlow, spread_of
from fairlead_lab.correlation.fair import reference as fair_reference
from fairlead_lab.correlation.patterns import reference

__all__ = [
    "CHAINS",
    "CONTENDERS",
    "DEFINITION",
    "FAIRLEAD",
    "MODES",
    "SEARCH",
    "SHAPES",
    "CorrelationCell",
    "CorrelationTask",
    "StateRow",
    "measure",
    "measure_state",
    "notifications",
    "pattern_texts",
]

FAIRLEAD, CHAINS, SEARCH, DEFINITION = "fairlead", "chains", "search", "definition"
MODES: Final = {"batch": "in batches", "one": "one at a time"}
SHAPES: Final = {
    "C1": "A followed by B followed by C, same sensor; all patterns alike",
    "C1-apart": "the same, each pattern with a constant of its own",
    "C1-half": "the same, each pattern with a bound of its own that half of all A pass",
    "C2": "A followed by 1 or more B followed by C, same sensor; all alike",
    "C2-apart": "the same, each pattern with a constant of its own",
    "C3-A": "fair: comparisons between neighbours, 2 to 4 types",
    "C3-B": "fair: a bound for each type, 2 to 4 types",
    "C3-C": "fair: a comparison for pairs of 4 types",
    "C3-D": "fair: disjunctions of comparisons, 2 to 4 types",
}
CONTENDERS: Final = {
    shape: (FAIRLEAD, SEARCH, DEFINITION) if shape.startswith("C3") else (FAIRLEAD, CHAINS, DEFINITION)
    for shape in SHAPES
}
WEIGHTS: Final = {"C1": (1, 1, 1), "C2": (15, 80, 5)}
"""The frequencies of A, B and C; with iteration, a run of B is a long one."""
LEVELS: Final = 1_000
"""So many values of the constant by which patterns differ."""
SPACING_US: Final = 1_000
WINDOW_S: Final = 10
TYPES: Final = 4
ATTRIBUTES: Final = "abc"
VALUE_MAX: Final = 1_000
BOUNDS: Final = range(250, 501, 50)
FIRST_PASS: Final = 50
"""A slow contender begins with so many events, and goes on to twice as many for as long as it may."""
ORACLE_EVENTS: Final = {"C1": 1_000, "C2": 400, "C3": 24}
ORACLE_PATTERNS: Final = 3
CHECK_STEPS: Final = {"C1": 200_000, "C2": 20_000, "C3": 500}
"""So many pairs of an event and a pattern are put to the other contender, or those of the oracle's events."""

Match: TypeAlias = tuple[int, tuple[str, ...]]
"""The number of a pattern, and the ids of what it took."""


@dataclass(frozen=True, slots=True)
class CorrelationTask:
    """One measurement to make."""

    shape: str
    n: int
    contender: str
    events: int = 100_000
    rounds: int = 5
    batch: int = 1_000
    sensors: int = 100
    patience_s: float = 5.0
    """For a pass; who cannot do all events in it, does as many as it can."""
    seed: int = 1


@dataclass(frozen=True, slots=True)
class CorrelationCell:
    """One measurement, or why there is none."""

    shape: str
    n: int
    contender: str
    status: str
    reason: str = ""
    events: int = 0
    """The number of events in a pass."""
    rates: dict[str, Spread] = field(default_factory=dict)
    """Events per second of a core, by mode."""
    latency_ms: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Half of the matches, and 99 in 100, were there after so many milliseconds."""
    matches_each: float | None = None
    """Matches for an event, counted for every pattern."""
    distinct_each: float | None = None
    """The same, where what several patterns ask for alike is counted once."""
    state_max: int | None = None
    """The most that was held of matches in progress, looked at after each batch."""
    checked: int = 0
    """On how many events the matches were compared with the definition's."""
    cpu_share: float | None = None
    """The share of the measured time for which the process had a core; well below 1, the machine was busy."""


# -- the workload ------------------------------------------------------------------------------------------


def notifications(shape: str, sensors: int, random: Random) -> Iterator[Notification]:
    """The events of a shape, a millisecond apart."""
    number = 0
    while True:
        if shape.startswith("C3"):
            content: dict[str, Any] = {"type": f"T{number % TYPES + 1}"}
            content |= {name: random.randint(0, VALUE_MAX) for name in ATTRIBUTES}
        else:
            [type] = random.choices("ABC", WEIGHTS[shape[:2]])
            sensor = f"s{random.randrange(sensors)}"
            content = {"type": type, "sensor": sensor, "level": random.randrange(LEVELS)}
        yield Notification.of(
            {
                **content,
                "id": f"e{number}",
                "producer": content["type"],
                "sequence": number,
                "time": Instant(number * SPACING_US),
            }
        )
        number += 1


def pattern_texts(shape: str, n: int, random: Random) -> list[str]:
    """n patterns of a shape; alike, or apart: each with a constant, or comparisons, of its own."""
    if shape.startswith("C3"):
        return [_fair(shape[-1], number, random) for number in range(n)]
    repeated = "1 or more " if shape.startswith("C2") else ""
    return [
        f"A{_queries(shape, number)} followed by {repeated}B followed by C within {WINDOW_S} s, same sensor"
        for number in range(n)
    ]


def _queries(shape: str, number: int) -> str:
    """The filter of a pattern on A; bounds lie about the middle, so many patterns take the same events."""
    if shape.endswith("half"):
        return f"[level >= {_bound(number)}]"
    return f"[level = {number % LEVELS}]" if shape.endswith("apart") else ""


def _bound(number: int) -> int:
    return LEVELS // 4 + number % (LEVELS // 2)


def _fair(setup: str, number: int, random: Random) -> str:
    """A subscription of the paper's evaluation; those of 4, 3 and 2 types come in turns."""
    level = TYPES - number % (TYPES - 1)
    neighbours = [(one, one + 1) for one in range(1, level)]
    match setup:
        case "A":
            return " and ".join(_compared(*each, random) for each in neighbours)
        case "B":
            return " and ".join(f"T{one}.a < {random.choice(BOUNDS)}" for one in range(1, level + 1))
        case "C":
            pairs = list(combinations(range(1, TYPES + 1), 2))
            return _compared(*pairs[number % len(pairs)], random)
        case _:
            return " or ".join(_compared(*each, random) for each in neighbours)


def _compared(one: int, other: int, random: Random) -> str:
    sign = random.choice("<>")
    return f"T{one}.{random.choice(ATTRIBUTES)} {sign} T{other}.{random.choice(ATTRIBUTES)}"


# -- contenders --------------------------------------------------------------------------------------------


class Contender(Protocol):
    """Patterns that are made anew for each pass over events."""

    def start(self) -> None:
        """Forget everything but the patterns."""

    def feed(self, first: int, last: int) -> Sequence[Any]:
        """The composites that events complete, by their numbers, in the form that is quickest to have."""

    def matches(self, results: Iterable[Any]) -> Iterator[Match]:
        """The same, written out for every pattern."""

    @property
    def state(self) -> int | None:
        """The size of the matches in progress; None where that cannot be said."""


class _Detecting:
    """Fairlead's detector."""

    def __init__(self, texts: Sequence[str], events: Sequence[Notification]) -> None:
        self._patterns = {str(number): patterns.parse(text) for number, text in enumerate(texts)}
        self._occurrences = [Occurrence.of(each, OrderKey.of(each)) for each in events]
        self.start()

    def start(self) -> None:
        self._detector = Detector(Columnar())
        for id, pattern in self._patterns.items():
            self._detector.add(id, pattern)

    def feed(self, first: int, last: int) -> Sequence[Any]:
        feed, batch = self._detector.feed, self._occurrences[first:last]
        for occurrence in batch:
            feed(occurrence)
        return self._detector.advance(batch[-1].end + 1)

    def matches(self, results: Iterable[Any]) -> Iterator[Match]:
        for each in results:
            ids = tuple(occurrence.notification.id for _, occurrence in each.composite.constituents)
            yield from ((int(id), ids) for id in each.ids)

    @property
    def state(self) -> int | None:
        return self._detector.nodes


class _Chains:
    """A chain for each pattern, in the style of other evaluators in Python."""

    def __init__(self, shape: str, n: int, events: Sequence[Notification]) -> None:
        self._shape, self._n = shape, n
        self._events: list[Event] = [
            {name: each.get(name) for name in ("id", "type", "sensor", "level")}
            | {"number": number, "time": number * SPACING_US}
            for number, each in enumerate(events)
        ]
        self.start()

    def start(self) -> None:
        self._chains = [chain_of(self._shape, number) for number in range(self._n)]

    def feed(self, first: int, last: int) -> Sequence[Any]:
        chains = list(enumerate(self._chains))
        return [
            (number, match)
            for event in self._events[first:last]
            for number, chain in chains
            if (match := chain.feed(event)) is not None
        ]

    def matches(self, results: Iterable[Any]) -> Iterator[Match]:
        for number, match in results:
            yield number, tuple(event["id"] for event in match)

    @property
    def state(self) -> int | None:
        return sum(each.partial_matches for each in self._chains)


def chain_of(shape: str, number: int) -> Chain:
    """A pattern of C1 or C2 as a chain."""
    test: Callable[[Event], bool] | None = None
    if shape.endswith("apart"):
        level = number % LEVELS

        def test(event: Event) -> bool:
            return bool(event["level"] == level)
    elif shape.endswith("half"):
        bound = _bound(number)

        def test(event: Event) -> bool:
            return bool(event["level"] >= bound)

    steps = Step("A", test), Step("B", repeated=shape.startswith("C2")), Step("C")
    return Chain(steps, WINDOW_S * 1_000_000, "sensor")


class _Definition:
    """The reference detector: the definition of patterns as a program, over all events at once."""

    def __init__(self, texts: Sequence[str], events: Sequence[Notification]) -> None:
        self._patterns = list(map(patterns.parse, texts))
        self._occurrences = [Occurrence.of(each, OrderKey.of(each)) for each in events]

    def start(self) -> None:
        pass

    def feed(self, first: int, last: int) -> Sequence[Any]:
        stream = self._occurrences[first:last]
        return [
            (number, composite)
            for number, pattern in enumerate(self._patterns)
            for composite in reference.detect(pattern, stream)
        ]

    def matches(self, results: Iterable[Any]) -> Iterator[Match]:
        for number, composite in results:
            yield number, tuple(occurrence.notification.id for _, occurrence in composite.constituents)

    @property
    def state(self) -> int | None:
        return None


class _Correlating:
    """Fairlead's correlator of fair subscriptions."""

    def __init__(self, texts: Sequence[str], events: Sequence[Notification]) -> None:
        self._subscriptions = list(map(fair.parse, texts))
        self._events = events
        self.start()

    def start(self) -> None:
        self._correlator: fair.Correlator[int] = fair.Correlator(Columnar())
        for number, subscription in enumerate(self._subscriptions):
            self._correlator.add(number, subscription)

    def feed(self, first: int, last: int) -> Sequence[Any]:
        feed = self._correlator.feed
        return [result for event in self._events[first:last] for result in feed(event)]

    def matches(self, results: Iterable[Any]) -> Iterator[Match]:
        for number, relation in results:
            yield number, tuple(event.id for event in relation.events)

    @property
    def state(self) -> int | None:
        return None


class _FairDefinition:
    """Each conjunction by itself, over all events at once: by the definition, or by the paper's search."""

    def __init__(
        self, deliver: Callable[..., Iterable[Any]], texts: Sequence[str], events: Sequence[Notification]
    ) -> None:
        self._deliver, self._events = deliver, events
        self._subscriptions = list(map(fair.parse, texts))

    def start(self) -> None:
        pass

    def feed(self, first: int, last: int) -> Sequence[Any]:
        events = self._events[first:last]
        return [
            (number, relation)
            for number, subscription in enumerate(self._subscriptions)
            for conjunction in subscription.conjunctions
            for _, relation in self._deliver(conjunction, events)
        ]

    def matches(self, results: Iterable[Any]) -> Iterator[Match]:
        for number, relation in results:
            yield number, tuple(event.id for event in relation)

    @property
    def state(self) -> int | None:
        return None


STEPWISE: Final = frozenset({FAIRLEAD, CHAINS})
"""The contenders that are fed event by event; the others take all at once, so nothing is told of their latency."""


def made(shape: str, contender: str, texts: Sequence[str], events: Sequence[Notification]) -> Contender:
    """A contender with its patterns and the events that it will be fed."""
    match contender, shape.startswith("C3"):
        case "fairlead", False:
            return _Detecting(texts, events)
        case "chains", False:
            return _Chains(shape, len(texts), events)
        case "definition", False:
            return _Definition(texts, events)
        case "fairlead", True:
            return _Correlating(texts, events)
        case "search", True:
            return _FairDefinition(fair_reference.figure_1, texts, events)
        case "definition", True:
            return _FairDefinition(fair_reference.deliveries, texts, events)
    raise LookupError(f"{contender} does not evaluate {shape}")


# -- measuring ---------------------------------------------------------------------------------------------


def measure(task: CorrelationTask) -> CorrelationCell:
    """The cell of a task."""
    try:
        return _Measuring(task).cell()
    except TooSlow:
        reason = f"too slow: more than {task.patience_s:g} s for {FIRST_PASS} events"
        return CorrelationCell(task.shape, task.n, task.contender, NOT_RUN, reason)
    except Disagreement as wrong:
        return CorrelationCell(task.shape, task.n, task.contender, WRONG, str(wrong))


class _Measuring:
    """The work on one cell."""

    def __init__(self, task: CorrelationTask) -> None:
        self._task = task
        self._texts = pattern_texts(task.shape, task.n, Random(task.seed))
        stream = notifications(task.shape, task.sensors, Random(task.seed + 1))
        self._events = list(islice(stream, task.events))
        self._contender = made(task.shape, task.contender, self._texts, self._events)

    def cell(self) -> CorrelationCell:
        task = self._task
        gc.collect()
        gc.freeze()  # the collector need not walk what is there to stay
        events = self._affordable()
        checked = self._compare(events)
        rates: dict[str, Spread] = {}
        latency: dict[str, tuple[float, float]] = {}
        clock, cpu = time.perf_counter(), time.process_time()
        watched = self._watched(next(iter(self._batches().values())), events)
        for mode, batch in self._batches().items():
            rates[mode] = spread_of([events / self._pass(batch, events) for _ in range(task.rounds)])
            if task.contender in STEPWISE:
                delays = self._watched(batch, events).delays
                if len(delays) > 1:
                    latency[mode] = _percentiles(delays)
        share = (time.process_time() - cpu) / (time.perf_counter() - clock)
        return CorrelationCell(
            task.shape,
            task.n,
            task.contender,
            MEASURED,
            events=events,
            rates=rates,
            latency_ms=latency,
            matches_each=watched.matches / events,
            distinct_each=watched.results / events,
            state_max=watched.state_max,
            checked=checked,
            cpu_share=share,
        )

    def _batches(self) -> dict[str, int]:
        """The modes of a contender, with the events of a batch."""
        task = self._task
        if task.contender not in STEPWISE:
            return {"batch": task.events}
        if task.contender == FAIRLEAD and not task.shape.startswith("C3"):
            return {"batch": task.batch, "one": 1}
        return {"one": 1}

    def _pass(self, batch: int, events: int) -> float:
        """Seconds of a core for a pass over the first so many events, however many others ask for the core."""
        self._contender.start()
        feed = self._contender.feed
        started = time.process_time()
        for first in range(0, events, batch):
            feed(first, min(first + batch, events))
        return time.process_time() - started

    def _affordable(self) -> int:
        """The number of events that a pass within the patience takes in; TooSlow where it takes in next to
        none.
        """
        events = min(FIRST_PASS, self._task.events)
        patience = Patience(self._task.patience_s)
        batch = next(iter(self._batches().values()))
        with patience.waiting():
            took = self._pass(batch, events)
        while 3 * took < self._task.patience_s and events < self._task.events:
            further = min(2 * events, self._task.events)
            try:
                with patience.waiting():
                    took = self._pass(batch, further)
            except TooSlow:
                break
            events = further
        return events

    def _watched(self, batch: int, events: int) -> _Watched:
        """A pass that looks at every batch: when matches were there, how many, and what was held."""
        watched = _Watched()
        self._contender.start()
        for first in range(0, events, batch):
            started = time.perf_counter()
            last = min(first + batch, events)
            results = self._contender.feed(first, last)
            took = time.perf_counter() - started
            watched.delays += [took] * len(results)
            watched.results += len(results)
            watched.matches += sum(map(_queries_of, results))
            looked_at = last % self._task.batch == 0 or last == events
            if looked_at and (state := self._contender.state) is not None:
                watched.state_max = max(watched.state_max or 0, state)
        return watched

    def _compare(self, events: int) -> int:
        """Hold the matches against the definition's, and all patterns' against another contender's."""
        task = self._task
        few = min(events, ORACLE_EVENTS[task.shape[:2]])
        some = min(task.n, ORACLE_PATTERNS)
        wanted = self._matches_of(made(task.shape, DEFINITION, self._texts[:some], self._events), few)
        for mode, batch in self._batches().items():
            own = [each for each in self._matches(batch, few) if each[0] < some]
            _agree(f"{task.contender}, {MODES[mode]}, against the definition", own, wanted)
        others = FAIRLEAD if task.contender != FAIRLEAD else CONTENDERS[task.shape][1]
        many = max(few, min(events, CHECK_STEPS[task.shape[:2]] // task.n))
        wanted = self._matches_of(made(task.shape, others, self._texts, self._events), many)
        for mode, batch in self._batches().items():
            _agree(f"{task.contender}, {MODES[mode]}, against {others}", self._matches(batch, many), wanted)
        return few

    def _matches(self, batch: int, events: int) -> list[Match]:
        self._contender.start()
        parts = (self._contender.feed(at, min(at + batch, events)) for at in range(0, events, batch))
        return [match for results in parts for match in self._contender.matches(results)]

    def _matches_of(self, contender: Contender, events: int) -> list[Match]:
        return list(contender.matches(contender.feed(0, events)))


@dataclass(slots=True)
class _Watched:
    delays: list[float] = field(default_factory=list)
    """Seconds from the feeding of its last batch to the match, once for each."""
    results: int = 0
    matches: int = 0
    state_max: int | None = None


def _queries_of(result: Any) -> int:
    """For how many patterns a match was found."""
    return len(result.ids) if isinstance(result, Detected) else 1


def _percentiles(delays: Sequence[float]) -> tuple[float, float]:
    cuts = quantiles(delays, n=100, method="inclusive")
    return cuts[49] * 1e3, cuts[98] * 1e3


def _agree(who: str, results: Iterable[Match], wanted: Iterable[Match]) -> None:
    """Nothing, if the matches are those wanted, each as often; otherwise how many are not."""
    got, want = sorted(results), sorted(wanted)
    if got != want:
        missing, more = len(set(want) - set(got)), len(set(got) - set(want))
        raise Disagreement(
            f"{who}: {len(got)} matches, not {len(want)}; {missing} are missing, {more} too many"
        )


# -- state -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StateRow:
    """The parts of an iteration in progress."""

    pattern: str
    events: int
    nodes: int
    """The number of nodes that the detector holds."""
    matches: str
    """The number of matches in progress that they stand for; a number of any size."""
    written_out: int | None
    """The number of partial matches that a chain holds for the same; None where there are too many."""
    first_ms: float
    """To complete them and have the first hundred."""


STATE: Final = {
    "1 or more B": "A followed by 1 or more B followed by C within 1 hour, taking all, limit 100",
    "1 or more (hot B or B)": (
        "A followed by 1 or more (B[level >= 0] as hot or B) followed by C within 1 hour, taking all, limit 100"
    ),
}
"""The second has two ways to take each B, so with each the matches in progress double."""
WRITTEN_OUT_MAX: Final = 400


def measure_state(sizes: Sequence[int]) -> list[StateRow]:
    """A and B in turns, so many in all, before any C: what is held of the matches in progress."""
    return [_state(name, size) for name in STATE for size in sizes]


def _state(name: str, size: int) -> StateRow:
    events = [
        Notification.of({"type": "AB"[number % 2], "level": 0, "id": f"e{number}", "time": Instant(number)})
        for number in range(size)
    ]
    detector = Detector(Columnar())
    detector.add("p", patterns.parse(STATE[name]))
    for event in events:
        detector.feed(Occurrence.of(event, OrderKey.of(event)))
    detector.advance(size)
    extent = detector.extent
    written_out = None
    if name == "1 or more B" and size <= WRITTEN_OUT_MAX:
        chain = Chain([Step("A"), Step("B", repeated=True), Step("C")], size, "level")
        for number, event in enumerate(events):
            chain.feed({"type": event.get("type"), "level": 0, "number": number, "time": number})
        written_out = chain.partial_matches
    last = Notification.of({"type": "C", "level": 0, "id": "last", "time": Instant(size)})
    started = time.perf_counter()
    detector.feed(Occurrence.of(last, OrderKey.of(last)))
    detector.advance(size + 1)
    took = (time.perf_counter() - started) * 1e3
    return StateRow(name, size, extent.nodes, str(extent.matches), written_out, took)


# -- as a process ------------------------------------------------------------------------------------------


def main() -> None:
    """Read a task from standard input, write what came of it to standard output."""
    given = json.load(sys.stdin)
    if "state" in given:
        answer: Any = [asdict(row) for row in measure_state(given["state"])]
    else:
        answer = as_json(measure(CorrelationTask(**given)))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
