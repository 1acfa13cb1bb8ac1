"""A run of fair correlation as text: JSON lines, one object per step, with the version and the kind first.

    {"v":1,"step":"subscribe","process":"ada","time":0,"subscription":"A.x < B.y"}
    {"v":1,"step":"establish","process":"ada","time":1}
    {"v":1,"step":"multicast","process":"p","time":2,"event":{"id":"1","producer":"p","attributes":{…}}}
    {"v":1,"step":"deliver","process":"ada","time":3,"conjunction":"A.x < B.y","relation":[["p","1"],["p","2"]]}
    {"v":1,"step":"unsubscribe","process":"ada","time":4}
    {"v":1,"step":"crash","process":"bob","time":5}
    {"v":1,"step":"end"}

A relation names its events, as producer and id, where a line above has them; an event that no line above has, or
has with another content, is written in full: an incorrect run can be written, too. A run is finished
iff `end` is its last line.

Law: `read` returns the steps that were given to `write`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from fairlead.audit.fair.run import (
    Crashed,
    Delivered,
    Established,
    FairRun,
    Multicast,
    Step,
    Subscribed,
    Unsubscribed,
)
from fairlead.audit.trace import Ended
from fairlead.correlation.fair import Conjunction, Subscription, parse
from fairlead.errors import FairleadError, TraceRefused, ValueRefused
from fairlead.filters import Schema
from fairlead.ingest import Rejection
from fairlead.model import Notification
from fairlead.model.encoding import format_json, notification_from_json, notification_to_json, parse_json
from fairlead.model.order import Identity, identity_of

__all__ = ["VERSION", "is_fair", "read", "run_of", "write"]

VERSION: Final = 1


# -- writing -----------------------------------------------------------------------------------------------------


def write(run: FairRun) -> Iterator[str]:
    """The lines of a run, without their newlines; ValueRefused where an event or a filter has no text form."""
    writer = _Writer()
    for step in run.steps:
        kind = _KINDS[type(step)]
        jsonable = {"process": step.process, "time": step.time, **writer.rest(step)}
        yield format_json({"v": VERSION, "step": kind, **jsonable})
    if run.finished:
        yield format_json({"v": VERSION, "step": "end"})


class _Writer:
    """The events of the lines above."""

    def __init__(self) -> None:
        self._multicasts: dict[Identity, Notification] = {}
        self._texts: dict[Conjunction, str] = {}

    def rest(self, step: Step) -> dict[str, Any]:
        match step:
            case Subscribed():
                return {"subscription": str(step.subscription)}
            case Multicast():
                self._multicasts.setdefault(identity_of(step.event), step.event)
                return {"event": notification_to_json(step.event)}
            case Delivered():
                if step.conjunction not in self._texts:
                    self._texts[step.conjunction] = str(step.conjunction)
                relation = [self._named(event) for event in step.relation]
                return {"conjunction": self._texts[step.conjunction], "relation": relation}
            case _:
                return {}

    def _named(self, event: Notification) -> Any:
        identity = identity_of(event)
        return list(identity) if self._multicasts.get(identity) == event else notification_to_json(event)


# -- reading -----------------------------------------------------------------------------------------------------


def is_fair(line: bytes | str) -> bool:
    """Whether a line is of such a run, and not of a trace: it has a step instead of an event."""
    try:
        jsonable = parse_json(line)
    except ValueRefused:
        return False
    return isinstance(jsonable, dict) and "step" in jsonable


def read(
    stream: Iterable[bytes | str], source: str = "run", schema: Schema | None = None
) -> Iterator[tuple[int, Step | Ended | Rejection]]:
    """The step of each line, or why there is none, with the line's number; blank lines are skipped."""
    reader = _Reader(schema)
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        try:
            yield number, reader.step(parse_json(line))
        except FairleadError as error:
            refused = error if isinstance(error, ValueRefused) else ValueRefused(str(error))
            yield number, Rejection.of(refused, line, source=source, line=number)


def run_of(steps: Iterable[Step | Ended]) -> FairRun:
    """The run of such steps; TraceRefused for steps after its end."""
    taken: list[Step] = []
    finished = False
    for index, step in enumerate(steps):
        if finished:
            raise TraceRefused(f"step {index}: the run has steps after its end")
        if isinstance(step, Ended):
            finished = True
        else:
            taken.append(step)
    return FairRun(tuple(taken), finished)


class _Reader:
    """Reads objects into steps: equal texts become one subscription, and names the events of earlier lines."""

    def __init__(self, schema: Schema | None) -> None:
        self._schema = schema
        self._multicasts: dict[Identity, Notification] = {}
        self._subscriptions: dict[str, Subscription] = {}

    def step(self, jsonable: Any) -> Step | Ended:
        if not isinstance(jsonable, dict):
            raise ValueRefused("a step of a run is a JSON object")
        given = dict(jsonable)
        if (version := _take(given, "v", int)) != VERSION:
            raise ValueRefused(f"a run of version {version!r}: version {VERSION} can be read")
        kind = _take(given, "step", str)
        if kind not in self._READERS:
            known = ", ".join(self._READERS)
            raise ValueRefused(f"a step of an unknown kind: {kind!r}", hint=f"known: {known}")
        step = self._READERS[kind](self, given)
        if given:
            raise ValueRefused(f"{', '.join(map(repr, given))}: not part of {kind!r}")
        return step

    def _subscribe(self, given: dict[str, Any]) -> Step:
        process, time = _base(given)
        return Subscribed(process, self._subscription(_take(given, "subscription", str)), time)

    def _multicast(self, given: dict[str, Any]) -> Step:
        process, time = _base(given)
        event = notification_from_json(_take(given, "event", dict))
        self._multicasts.setdefault(identity_of(event), event)
        return Multicast(process, event, time)

    def _deliver(self, given: dict[str, Any]) -> Step:
        process, time = _base(given)
        conjunctions = self._subscription(_take(given, "conjunction", str)).conjunctions
        if len(conjunctions) != 1:
            raise ValueRefused("a relation is delivered for one conjunction")
        relation = tuple(self._event(each) for each in _take(given, "relation", list))
        return Delivered(process, conjunctions[0], relation, time)

    def _subscription(self, text: str) -> Subscription:
        if text not in self._subscriptions:
            self._subscriptions[text] = parse(text, self._schema)
        return self._subscriptions[text]

    def _event(self, jsonable: Any) -> Notification:
        match jsonable:
            case [str(producer), str(id)]:
                event = self._multicasts.get(Identity(producer, id))
                if event is None:
                    raise ValueRefused(
                        f"no line above has the event {id!r} of {producer!r}",
                        hint="an event that was not multicast before is in a relation in full",
                    )
                return event
            case _:
                return notification_from_json(jsonable)

    _READERS: Final[dict[str, Callable[[_Reader, dict[str, Any]], Step | Ended]]] = {
        "subscribe": _subscribe,
        "establish": lambda _, given: Established(*_base(given)),
        "multicast": _multicast,
        "deliver": _deliver,
        "unsubscribe": lambda _, given: Unsubscribed(*_base(given)),
        "crash": lambda _, given: Crashed(*_base(given)),
        "end": lambda _, given: Ended(),
    }


def _base(given: dict[str, Any]) -> tuple[str, float]:
    return _take(given, "process", str), _take(given, "time", int | float)


def _take(given: dict[str, Any], name: str, kind: Any) -> Any:
    value = given.pop(name, ...)
    if value is ...:
        raise ValueRefused(f"the step has no {name!r}")
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueRefused(f"not a value of {name!r}: {value!r}")
    return value


_KINDS: Final[dict[type, str]] = {
    Subscribed: "subscribe",
    Established: "establish",
    Multicast: "multicast",
    Delivered: "deliver",
    Unsubscribed: "unsubscribe",
    Crashed: "crash",
}
