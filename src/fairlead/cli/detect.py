"""`fairlead detect`: detects patterns and fair subscriptions in a file of events, in order."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeAlias

from fairlead.cli.inputs import add_language_options, filter_lines, language, opened, read_text
from fairlead.cli.terminal import Progress, complain, emit_json, note, paint, say, write_utf8
from fairlead.configuration import suggestion
from fairlead.errors import BadInput, FairleadError, ValueRefused

if TYPE_CHECKING:
    from fairlead.correlation.fair import Choice
    from fairlead.correlation.patterns import Pattern
    from fairlead.correlation.queries import Query, QuerySet, Result
    from fairlead.delivery import OrderedQueue
    from fairlead.filters import Schema
    from fairlead.ingest import Rejection
    from fairlead.model import Notification
    from fairlead.model.order import OrderKey

    Released: TypeAlias = list[tuple[OrderKey, Notification]]

__all__ = ["configure"]

BATCH: Final = 1_000
"""Lines of a file that are read before composites are printed; of standard input, one: a person may wait."""
REJECTED_SHOWN: Final = 5
ID_SHOWN: Final = 12
"""The length up to which an id is shown in full; longer ones are hashes."""
MEMBERS: Final = frozenset(("id", "subscriber", "pattern", "fair", "choice", "from", "until"))
"""The members that a row may have."""
SHAPE: Final = (
    'a pattern looks like {"id": "p1", "subscriber": "ada", "pattern": "A followed by B within 1 hour"}'
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Detect patterns in events. Out come composite events in their total order: when each ended, which "
        "pattern it matches, and the constituents of its steps; and the relations of fair subscriptions, each "
        "after its last event. The events may be in any order; with --lateness they are read as a stream, and "
        "events that arrive later than that are dropped."
    )
    parser.epilog = (
        "Example: fairlead detect --pattern 'A followed by B within 1 hour' --events events.jsonl. "
        "Exit code: 0 when all was read, 2 when a pattern cannot be, 3 when some lines were rejected."
    )
    parser.add_argument(
        "--patterns",
        metavar="P",
        help='JSON lines {"id", "subscriber", "pattern", "from", "until"}, or "fair" and "choice" instead of'
        ' "pattern"; or one pattern per line',
    )
    parser.add_argument(
        "--pattern",
        metavar="TEXT",
        action="append",
        default=[],
        help="a pattern, such as 'spike: A followed by B' (may be repeated)",
    )
    parser.add_argument(
        "--fair",
        metavar="TEXT",
        action="append",
        default=[],
        help="a fair subscription, such as 'pair: A.x < B.y' (may be repeated)",
    )
    parser.add_argument(
        "--events",
        metavar="E",
        help="JSON lines, each a flat record or a CloudEvents 1.0 event; - is standard input",
    )
    parser.add_argument("--json", action="store_true", help='JSON lines {"patterns", "notification"}')
    parser.add_argument(
        "--lateness", metavar="D", help="how much later than a newer event an older one may arrive, as 5s"
    )
    parser.add_argument(
        "--rejected", metavar="FILE", help='write the lines that cannot be read: {"line", "reason", "raw"}'
    )
    parser.add_argument("--lift", action="store_true", help="lift the payload of CloudEvents to the top")
    parser.add_argument("--on", choices=("python", "spark"), default="python", help="where (default: here)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--master", metavar="M", help="Spark's master")
    where.add_argument("--remote", metavar="URL", help="a Spark Connect server")
    parser.add_argument(
        "--explain", metavar="PATTERN", help="print a pattern in its three forms, and nothing else"
    )
    drawn = parser.add_mutually_exclusive_group()
    drawn.add_argument("--dot", action="store_true", help="with --explain: its automaton, for Graphviz")
    drawn.add_argument("--svg", action="store_true", help="with --explain: its automaton, as a drawing")
    add_language_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    schema = language(arguments)
    if arguments.explain is not None:
        _explain(_read(arguments.explain, schema, "--explain"), arguments)
        return 0
    if arguments.dot or arguments.svg:
        raise BadInput("which automaton?", hint="--explain 'A followed by B' --svg")
    _check(arguments)
    queries = list(_queries(arguments, schema))
    if not queries:
        raise BadInput("no pattern is given", hint="--patterns FILE, or --pattern 'A followed by B'")
    return (_on_spark if arguments.on == "spark" else _here)(arguments, queries, schema)


def _check(arguments: argparse.Namespace) -> None:
    if arguments.events is None:
        raise BadInput("in which events?", hint="--events FILE")
    if arguments.patterns == arguments.events == "-":
        raise BadInput("patterns and events cannot both come from standard input")
    if arguments.rejected == "-":
        raise BadInput("--rejected takes a file", hint="standard output is for composites")
    for path in (arguments.patterns, arguments.events):
        if arguments.rejected and path not in (None, "-") and _same_file(arguments.rejected, path):
            raise BadInput(f"--rejected would overwrite {path}, which is read", hint="name another file")


def _same_file(one: str, other: str) -> bool:
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


# -- patterns ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Query:
    """A pattern or a fair subscription, its subscriber, and its validity."""

    id: str
    subscriber: str
    question: Query
    since: int | None = None
    until: int | None = None

    def row(self) -> dict[str, Any]:
        """As a row of a table of patterns."""
        text = str(self.question)
        what = {"pattern": text} if self.is_pattern else {"fair": text, "choice": self.question.choice.value}
        return {"id": self.id, "subscriber": self.subscriber, **what, "from": self.since, "until": self.until}

    @property
    def is_pattern(self) -> bool:
        return self.question.is_pattern


def _queries(arguments: argparse.Namespace, schema: Schema | None) -> Iterator[_Query]:
    """All patterns and fair subscriptions, under distinct ids."""
    seen: dict[str, str] = {}
    for where, query in _read_all(arguments, schema):
        if (first := seen.setdefault(query.id, where)) != where:
            raise BadInput(
                f"{where}: the id {query.id!r} is taken by {first}", hint="ids and names are distinct"
            )
        _remark(where, query.question, schema)
        yield query


def _remark(where: str, question: Query, schema: Schema | None) -> None:
    """Say which steps can take nothing at all."""
    from fairlead.filters.explain import never_matches

    for filter in dict.fromkeys(question.filters):
        if (remark := never_matches(filter, schema)) is not None:
            note(f"{where}: [{filter}]: {remark}")


def _read_all(arguments: argparse.Namespace, schema: Schema | None) -> Iterator[tuple[str, _Query]]:
    for number, text in enumerate(arguments.pattern, start=1):
        where = f"--pattern {number}"
        yield where, _plain(text, schema, where, str(number))
    for number, text in enumerate(arguments.fair, start=len(arguments.pattern) + 1):
        where = f"--fair {number - len(arguments.pattern)}"
        yield where, _named(_read_fair(text, schema, where), str(number))
    if arguments.patterns is None:
        return
    as_json: bool | None = None
    for number, line in filter_lines(arguments.patterns):
        if as_json is None:
            as_json = line.startswith("{")  # no pattern does
        where = f"{arguments.patterns}:{number}"
        read = _from_json if as_json else _plain
        yield where, read(line, schema, where, str(number))


def _plain(text: str, schema: Schema | None, where: str, number: str) -> _Query:
    """A pattern in a line of its own."""
    from fairlead.correlation.queries import Query

    return _named(Query(_read(text, schema, where)), number)


def _named(question: Query, number: str) -> _Query:
    """A pattern from the command line: its id is its name or, without one, its number."""
    return _Query(question.about.name if question.is_public else number, "", question)


def _from_json(line: str, schema: Schema | None, where: str, number: str) -> _Query:
    from fairlead.model.encoding import parse_json

    try:
        given = parse_json(line)
    except ValueRefused as error:
        raise BadInput(f"{where}: {error}", hint=SHAPE) from None
    if not isinstance(given, dict):
        raise BadInput(f"{where}: a JSON object with a pattern in it was expected", hint=SHAPE)
    for member in given.keys() - MEMBERS:  # other keys are allowed, but for near misses of these
        if close := suggestion(member, MEMBERS):
            raise BadInput(f"{where}: no such member: {member!r}{close}", hint=SHAPE)
    question = _question(given, schema, where)
    id = number if given.get("id") is None else given["id"]
    if isinstance(id, bool) or not isinstance(id, str | int):
        raise BadInput(f"{where}: an id is a string or a whole number, not {id!r}")
    subscriber = given.get("subscriber") or ""
    if not isinstance(subscriber, str):
        raise BadInput(f"{where}: a subscriber is a string, not {subscriber!r}")
    since, until = (_time(given.get(name), f"{where}: {name}") for name in ("from", "until"))
    if since is not None and until is not None and since >= until:
        raise BadInput(f"{where}: it would end before it begins")
    return _Query(str(id), subscriber, question, since, until)


def _question(given: dict[str, Any], schema: Schema | None, where: str) -> Query:
    """The pattern, or fair subscription, of a row."""
    from fairlead.correlation.fair import Choice
    from fairlead.correlation.queries import Query

    pattern, fair, choice = (given.get(name) for name in ("pattern", "fair", "choice"))
    if pattern is not None and fair is not None:
        raise BadInput(f"{where}: a row has a pattern or a fair subscription, not both")
    if isinstance(pattern, str):
        if choice is not None:
            raise BadInput(
                f"{where}: a pattern states its selection itself", hint='"choice" goes with "fair"'
            )
        return Query(_read(pattern, schema, where))
    if not isinstance(fair, str):
        raise BadInput(f"{where}: a pattern, or a fair subscription, as text was expected", hint=SHAPE)
    choices = [each.value for each in Choice]
    if choice is not None and choice not in choices:
        raise BadInput(f"{where}: no choice of events: {choice!r}", hint=" or ".join(map(repr, choices)))
    return _read_fair(fair, schema, where, None if choice is None else Choice(choice))


def _read_fair(text: str, schema: Schema | None, where: str, choice: Choice | None = None) -> Query:
    from fairlead.correlation.fair import Choice, parse
    from fairlead.correlation.queries import Query

    return Query(read_text(parse, text, schema, where), choice or Choice.FIRST_RECEIVED)


def _read(text: str, schema: Schema | None, where: str) -> Pattern:
    from fairlead.correlation.patterns import parse

    return read_text(parse, text, schema, where)


def _time(given: Any, where: str) -> int | None:
    from fairlead.model import Instant

    if given is None or (isinstance(given, int) and not isinstance(given, bool)):
        return given
    try:
        return Instant.parse(given).microseconds
    except (AttributeError, FairleadError, TypeError):
        hint = "write 2026-03-02T09:00:00Z, or whole microseconds"
        raise BadInput(f"{where}: not a time: {given!r}", hint=hint) from None


# -- explaining ----------------------------------------------------------------------------------------------


def _explain(pattern: Pattern, arguments: argparse.Namespace) -> None:
    from fairlead.correlation.patterns import Automaton, drawing, render
    from fairlead.correlation.patterns.building import render_python
    from fairlead.correlation.patterns.core import render_core

    if arguments.dot or arguments.svg:
        write_utf8()
        sys.stdout.write((drawing.svg if arguments.svg else drawing.dot)(Automaton(pattern)))
        return
    forms = {"text": render(pattern), "python": render_python(pattern), "core": render_core(pattern)}
    if arguments.json:
        emit_json(forms)
        return
    for name, form in forms.items():
        first, *rest = form.split("\n")
        say(f"{paint(f'{name:<8}', 'dim')}{first}")
        for line in rest:
            say(f"{'':<8}{line}")


# -- detecting -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Tally:
    """The figures of the summary."""

    events: int = 0
    composites: int = 0
    rejected: int = 0
    duplicates: int = 0
    late: int = 0
    failed: int = 0
    given_up: int = 0
    first_rejected: list[str] = field(default_factory=list)
    rejections: TextIO | None = None
    """The destination of rejected lines."""

    def reject(self, source: str, line: int, reason: str, raw: str) -> None:
        from fairlead.model.encoding import format_json

        self.rejected += 1
        if self.rejections is not None:
            self.rejections.write(f"{format_json({'line': line, 'reason': reason, 'raw': raw})}\n")
        elif len(self.first_rejected) < REJECTED_SHOWN:
            self.first_rejected.append(f"{source}:{line}: rejected: {reason}")


def _here(arguments: argparse.Namespace, queries: list[_Query], schema: Schema | None) -> int:
    from fairlead.correlation.queries import QuerySet
    from fairlead.delivery import OrderedQueue
    from fairlead.ingest.jsonlines import read
    from fairlead.matching import engine_named
    from fairlead.model.durations import duration_of
    from fairlead.model.order import BEGINNING, END

    standing = QuerySet(lambda: engine_named("columnar"))
    for each in queries:
        since = BEGINNING if each.since is None else each.since
        until = END if each.until is None else each.until
        standing.add(each.id, each.question, since, until)
    lateness = None if arguments.lateness is None else duration_of(arguments.lateness)
    queue, tally, unnamed = OrderedQueue(lateness or 0), _Tally(), _unnamed(queries)
    write_utf8()
    progress = Progress("events")
    with opened(arguments.events) as stream, _rejections(arguments.rejected) as tally.rejections:
        lines = read(stream, arguments.events, schema, arguments.lift)
        while batch := list(islice(lines, 1 if arguments.events == "-" else BATCH)):
            released = _take(queue, batch, tally, is_stream=lateness is not None)
            if lateness is not None:
                answers = standing.results(released, queue.watermark)
                _print_composites(standing, answers, unnamed, tally, arguments)
            progress.at(tally.events)
    queue.close()
    _print_composites(standing, standing.results(queue.release(), queue.watermark), unnamed, tally, arguments)
    tally.given_up = standing.given_up
    sys.stdout.flush()  # the answers first, then the summary
    progress.done()
    _summarise(tally, len(queries), progress.elapsed_s, arguments)
    return 3 if tally.rejected else 0


def _print_composites(
    standing: QuerySet,
    answers: Iterable[Result],
    unnamed: frozenset[str],
    tally: _Tally,
    arguments: argparse.Namespace,
) -> None:
    """Print the composites up to the watermark, and failures."""
    _show(answers, unnamed, tally, arguments)
    for failure in standing.take_failures():
        tally.failed += 1
        if tally.failed <= REJECTED_SHOWN:
            who = ", ".join(failure.ids)
            complain(f"{who}: a filter failed on the event {failure.notification.id}: {failure.error}")


def _on_spark(arguments: argparse.Namespace, queries: list[_Query], schema: Schema | None) -> int:
    from fairlead.correlation.queries import Result
    from fairlead.model import Notification
    from fairlead.model.encoding import fields_from_json, parse_json
    from fairlead.spark import notifications, order, session
    from fairlead.spark.detection import detect
    from fairlead.spark.ingestion import rejected
    from fairlead.spark.patterns import Patterns
    from fairlead.spark.sources import Input, ingest_input, read

    if arguments.events == "-" or arguments.lateness is not None:
        raise BadInput("Spark reads a file, and all of it", hint="leave out --lateness, and name the file")
    started = Progress("events")
    spark = session(master=arguments.master, remote=arguments.remote)
    input = Input(path=arguments.events, lift=arguments.lift)
    rows = ingest_input(read(spark, input), input, schema).persist()
    patterns = Patterns.read([each.row() for each in queries], schema=schema, extensions=arguments.extension)
    ordered = order(notifications(rows)).persist()
    found = detect(ordered.released, patterns).orderBy("time", "rank", "id")
    tally, unnamed = _Tally(), _unnamed(queries)
    write_utf8()
    for row in found.toLocalIterator():
        composite = Notification.of(fields_from_json(parse_json(row["record"])))
        ids = tuple(sorted(each["id"] for each in row["patterns"]))
        _show([Result(composite, None, ids, is_public=False)], unnamed, tally, arguments)
    with _rejections(arguments.rejected) as tally.rejections:
        for row in rejected(rows).orderBy("file", "line").toLocalIterator():
            tally.reject(arguments.events, row["line"], row["reason"], row["raw"])
    tally.duplicates = ordered.duplicates.count()
    tally.events = notifications(rows).count() - tally.duplicates
    sys.stdout.flush()
    _summarise(tally, len(queries), started.elapsed_s, arguments)
    return 3 if tally.rejected else 0


def _take(
    queue: OrderedQueue,
    batch: list[tuple[int, Notification | Rejection]],
    tally: _Tally,
    *,
    is_stream: bool,
) -> Released:
    """Order a batch of events; unreadable lines are rejected. Returns the released events.

    In a stream, time advances with every line, so lateness does not depend on the size of batches.
    """
    from fairlead.delivery import Arrival
    from fairlead.ingest import Rejection

    released: Released = []
    for number, event in batch:
        if isinstance(event, Rejection):
            tally.reject(event.source, number, event.reason, event.text)
            continue
        arrival = queue.add(event)
        tally.events += arrival is not Arrival.DUPLICATE
        tally.duplicates += arrival is Arrival.DUPLICATE
        tally.late += arrival is Arrival.LATE
        if is_stream:
            released += queue.release()
    return released


@contextlib.contextmanager
def _rejections(path: str | None) -> Iterator[TextIO | None]:
    if path is None:
        yield None
        return
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        yield stream


# -- output --------------------------------------------------------------------------------------------------


def _unnamed(queries: Iterable[_Query]) -> frozenset[str]:
    """The ids of unnamed patterns, by which they are printed."""
    return frozenset(each.id for each in queries if not each.question.is_public)


def _show(
    answers: Iterable[Result], unnamed: frozenset[str], tally: _Tally, arguments: argparse.Namespace
) -> None:
    from fairlead.model.encoding import format_json, notification_to_json

    for answer in answers:
        tally.composites += 1
        if arguments.json:
            found = {"patterns": list(answer.ids), "notification": notification_to_json(answer.notification)}
            sys.stdout.write(f"{format_json(found)}\n")
        else:
            say(_line(answer.notification, answer.ids, unnamed))


def _line(composite: Notification, ids: Iterable[str], unnamed: frozenset[str]) -> str:
    """Its end, its pattern, the events of its steps, and its `giving` values."""
    from fairlead.correlation.fair.relations import PRODUCER as FAIR
    from fairlead.correlation.fair.subscriptions import UNNAMED as RELATION
    from fairlead.correlation.patterns.model import UNNAMED
    from fairlead.model.encoding import encode, format_json
    from fairlead.network.diagnostics import printable

    steps: dict[str, list[str]] = {}
    for each in composite.get("constituents"):
        steps.setdefault(each["step"], []).append(_short(each["id"]))
    name = str(composite.get("type"))
    if nameless := [id for id in ids if id in unnamed]:
        name = ",".join(nameless) + name.removeprefix(RELATION if composite.producer == FAIR else UNNAMED)
    taken = printable(" ".join(f"{step}={','.join(ids)}" for step, ids in steps.items()))
    known = {"type", "id", "producer", "time", "interval", "pattern", "constituents", *steps}
    known |= {"conjunction", "number", "events"} if composite.producer == FAIR else set()
    given = [
        printable(f"{key}={format_json(encode(value))}")
        for key, value in composite.attributes.items()
        if key not in known
    ]
    return "  ".join([str(composite.time or "-"), paint(printable(name), "bold"), taken, *given])


def _short(id: str) -> str:
    return id if len(id) <= ID_SHOWN else f"{id[: ID_SHOWN - 4]}…"


def _summarise(tally: _Tally, patterns: int, elapsed_s: float, arguments: argparse.Namespace) -> None:
    for line in tally.first_rejected:
        complain(line)
    if tally.rejected > len(tally.first_rejected) > 0:
        complain(
            f"… and {tally.rejected - len(tally.first_rejected):,} more; --rejected FILE writes them all"
        )
    kept = f" (see {arguments.rejected})" if arguments.rejected and tally.rejected else ""
    again = f"{tally.duplicates:,} duplicates dropped, " if tally.duplicates else ""
    late = f"{tally.late:,} too late, " if tally.late else ""
    failed = f"{tally.failed:,} failures of filters, " if tally.failed else ""
    given_up = f"{tally.given_up:,} searches given up, " if tally.given_up else ""
    note(
        f"{tally.events:,} events, {patterns:,} patterns, {tally.composites:,} composites, "
        f"{again}{late}{failed}{given_up}{tally.rejected:,} rejected{kept}, {elapsed_s:.2f} s"
    )
