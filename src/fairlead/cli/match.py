"""`fairlead match`: matches events against subscriptions. JSON lines out, in the order of the events."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO

from fairlead.cli.inputs import add_language_options, filter_lines, language, opened, read_filter
from fairlead.cli.terminal import Progress, complain, note, write_utf8
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.filters import Schema
    from fairlead.ingest import Fields, Rejection
    from fairlead.matching import Engine
    from fairlead.model import Instant, Notification
    from fairlead.model.order import Identity, LatestIdentities

__all__ = ["configure"]

BATCH = 1_000
"""Lines of a file that are matched at once; from standard input, one: a person may wait."""
REJECTED_SHOWN = 5
TIMES_LOOKED_AT = 1_000
REMEMBERED = 1_000_000
"""The number of identities remembered to recognise duplicates."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        'Match events against subscriptions. Out come JSON lines {"event": id, "subscription": id} in the '
        "order of the events; an event without an id is named by its line number."
    )
    parser.epilog = (
        "Example: fairlead match --subscriptions subscriptions.txt --events events.jsonl. "
        "Exit code: 0 when all was read, 3 when some lines were rejected."
    )
    parser.add_argument(
        "--subscriptions",
        metavar="S",
        required=True,
        help='JSON lines {"id", "subscriber", "filter"}, or one filter per line, whose number is its id',
    )
    parser.add_argument(
        "--events",
        metavar="E",
        required=True,
        help="JSON lines, each a flat record or a CloudEvents 1.0 event; - is standard input",
    )
    parser.add_argument(
        "--dialect",
        metavar="NAME",
        default="",
        help="the language of subscriptions that name none, such as cesql (default: fairlead)",
    )
    parser.add_argument(
        "--engine", metavar="NAME", default="columnar", help="the matching engine (default: columnar)"
    )
    parser.add_argument(
        "--rejected", metavar="FILE", help='write the lines that cannot be read: {"line", "reason", "raw"}'
    )
    parser.add_argument("--lift", action="store_true", help="lift the payload of CloudEvents to the top")
    parser.add_argument(
        "--time",
        metavar="FORM",
        default="",
        help="how times are written: s, ms, us or ns since 1970, or fields such as '%%d.%%m.%%Y %%H:%%M' "
        "(default: RFC 3339, or microseconds)",
    )
    add_language_options(parser)
    parser.set_defaults(run=run)


@dataclass(slots=True)
class _Tally:
    """The figures of the summary."""

    events: int = 0
    matches: int = 0
    rejected: int = 0
    duplicates: int = 0
    conflicts: int = 0
    times: list[Instant] = field(default_factory=list)
    """The first few: to tell whether they were written in another unit."""
    first_rejected: list[str] = field(default_factory=list)


def run(arguments: argparse.Namespace) -> int:
    from fairlead.ingest.jsonlines import read
    from fairlead.matching import engine_named
    from fairlead.model.order import LatestIdentities

    if arguments.subscriptions == arguments.events == "-":
        raise BadInput("subscriptions and events cannot both come from standard input")
    _check_rejected(arguments)
    engine = engine_named(arguments.engine)
    schema, fields = language(arguments), _fields(arguments)
    count = _subscribe(engine, arguments.subscriptions, schema, arguments.dialect)
    identities, tally = LatestIdentities(REMEMBERED), _Tally()
    standing = _standing(arguments, schema, fields) if os.path.isfile(arguments.events) else {}
    write_utf8()
    progress = Progress("events")
    with opened(arguments.events) as stream, _rejections(arguments.rejected) as rejections:
        lines = read(stream, arguments.events, schema, arguments.lift, fields)
        while batch := list(islice(lines, 1 if arguments.events == "-" else BATCH)):
            _match(engine, _undisputed(batch, standing, tally), identities, tally, rejections)
            progress.at(tally.events)
    sys.stdout.flush()  # the answers first, then the summary
    progress.done()
    _summarise(tally, count, progress.elapsed_s, arguments)
    return 3 if tally.rejected else 0


def _standing(
    arguments: argparse.Namespace, schema: Schema | None, fields: Fields
) -> dict[Identity, tuple[int, set[int]]]:
    """Of identities with copies of different content: the line of the copy that stands, and of those in conflict.

    A file is read again where an identity stands in it twice. The first pass looks at nothing but the names.
    """
    from fairlead.ingest import records
    from fairlead.ingest.jsonlines import content_of
    from fairlead.model import Notification
    from fairlead.model.order import copy_rank, identity_of

    with opened(arguments.events) as stream:
        repeated = _repeated(stream)
    copies: dict[Identity, list[tuple[tuple[int, bytes, bytes], int]]] = {}
    if repeated:
        with opened(arguments.events) as stream:
            for number, line in enumerate(stream, start=1):
                if _name_of(line) not in repeated:
                    continue
                event = records.read(
                    content_of(line, number), schema=schema, lift=arguments.lift, fields=fields
                )
                if isinstance(event, Notification) and event.id is not None:
                    copies.setdefault(identity_of(event), []).append((copy_rank(event), number))
    standing: dict[Identity, tuple[int, set[int]]] = {}
    for identity, each in copies.items():
        least, line_of = min(each)
        if any(rank != least for rank, _ in each):
            others = {number for rank, number in each if rank[1] != least[1]}
            standing[identity] = line_of, others
    return standing


def _repeated(stream: Iterable[bytes]) -> set[int]:
    """The names, as hashes, that stand in more than one line among the latest."""
    seen: dict[int, None] = {}
    repeated: set[int] = set()
    for line in stream:
        name = _name_of(line)
        if name is None:
            continue
        if name in seen:
            repeated.add(name)
        else:
            seen[name] = None
            if len(seen) > REMEMBERED:
                del seen[next(iter(seen))]
    return repeated


def _name_of(line: bytes) -> int | None:
    """A hash of producer and id, the same for copies of one notification; None where a line has no id."""
    import msgspec

    try:
        given = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if "id" not in given:
        return None
    whose = given.get("source", b"") if "specversion" in given else given.get("producer", b"")
    return hash((bytes(given["id"]).strip(b'"'), bytes(whose).strip(b'"')))


def _undisputed(
    batch: list[tuple[int, Notification | Rejection]],
    standing: dict[Identity, tuple[int, set[int]]],
    tally: _Tally,
) -> list[tuple[int, Notification | Rejection]]:
    """The batch without the copies that another one of the same identity stands for."""
    if not standing:
        return batch
    from fairlead.ingest import Rejection
    from fairlead.model.order import identity_of

    left: list[tuple[int, Notification | Rejection]] = []
    for number, event in batch:
        if not isinstance(event, Rejection) and event.id is not None:
            stands, others = standing.get(identity_of(event), (number, set()))
            if stands != number:
                tally.conflicts += number in others
                tally.duplicates += number not in others
                continue
        left.append((number, event))
    return left


def _fields(arguments: argparse.Namespace) -> Fields:
    from fairlead.errors import ValueRefused
    from fairlead.ingest import Fields, Times
    from fairlead.ingest.records import STANDARD

    try:
        return Fields(times=Times(arguments.time)) if arguments.time else STANDARD
    except ValueRefused as error:
        raise BadInput(f"--time: {error}") from None


def _match(
    engine: Engine[Any],
    batch: list[tuple[int, Notification | Rejection]],
    identities: LatestIdentities,
    tally: _Tally,
    rejections: TextIO | None,
) -> None:
    from fairlead.model import Notification
    from fairlead.model.encoding import format_json

    events: list[tuple[int, Notification]] = []
    for number, event in batch:
        if isinstance(event, Notification):
            if event.id is None or identities.take(event) is not None:
                events.append((number, event))
            else:
                tally.duplicates += 1
            continue
        tally.rejected += 1
        if rejections is not None:
            rejections.write(f"{format_json({'line': number, 'reason': event.reason, 'raw': event.text})}\n")
        elif len(tally.first_rejected) < REJECTED_SHOWN:
            tally.first_rejected.append(f"{event.source}:{number}: rejected: {event.reason}")
    tally.events += len(events)
    if len(tally.times) < TIMES_LOOKED_AT:
        tally.times += [each.time for _, each in events if each.time is not None]
    found = engine.match_batch([event for _, event in events])
    for (number, event), ids in zip(events, found, strict=True):
        label = number if event.id is None else event.content["id"]
        for id in ids:
            sys.stdout.write(f"{format_json({'event': label, 'subscription': id})}\n")
        tally.matches += len(ids)


def _summarise(tally: _Tally, subscriptions: int, elapsed_s: float, arguments: argparse.Namespace) -> None:
    for line in tally.first_rejected:
        complain(line)
    if tally.rejected > len(tally.first_rejected) > 0:
        complain(
            f"… and {tally.rejected - len(tally.first_rejected):,} more; --rejected FILE writes them all"
        )
    from fairlead.ingest.times import suspected_unit

    if not arguments.time and (unit := suspected_unit(tally.times)) is not None:
        year = str(tally.times[0])[:4]
        complain(f"the times look like {unit}, and were read as microseconds, in {year}: --time {unit}")
    kept = f" (see {arguments.rejected})" if arguments.rejected and tally.rejected else ""
    again = f"{tally.duplicates:,} duplicates dropped, " if tally.duplicates else ""
    if tally.conflicts:
        again += f"{tally.conflicts:,} copies with other content dropped, "
    note(
        f"{tally.events:,} events, {subscriptions:,} subscriptions, {tally.matches:,} matches, "
        f"{again}{tally.rejected:,} rejected{kept}, {elapsed_s:.2f} s"
    )


def _check_rejected(arguments: argparse.Namespace) -> None:
    """The rejected lines go to a file of their own."""
    if arguments.rejected == "-":
        raise BadInput("--rejected takes a file", hint="standard output is for the matches")
    for path in (arguments.subscriptions, arguments.events):
        if arguments.rejected and path != "-" and _same_file(arguments.rejected, path):
            raise BadInput(f"--rejected would overwrite {path}, which is read", hint="name another file")


def _same_file(one: str, other: str) -> bool:
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


@contextlib.contextmanager
def _rejections(path: str | None) -> Iterator[TextIO | None]:
    if path is None:
        yield None
        return
    with open(path, "w", encoding="utf-8", newline="\n") as stream:
        yield stream


# -- subscriptions -----------------------------------------------------------------------------------------


def _subscribe(engine: Engine[Any], path: str, schema: Schema | None, dialect: str = "") -> int:
    """Add all subscriptions of a file to the engine; how many there are."""
    from fairlead.model import key_of

    lines = filter_lines(path)
    seen: dict[Any, int] = {}
    as_json: bool | None = None
    for number, line in lines:
        if as_json is None:
            as_json = _is_subscription(line)
        where = f"{path}:{number}"
        id, text, named = _subscription(line, where, number) if as_json else (number, line, "")
        if (first := seen.setdefault(key_of(id), number)) != number:
            raise BadInput(f"{where}: the id {id!r} is taken by line {first}", hint="ids are distinct")
        engine.add(id, read_filter(text, schema, where, named or dialect))
    return len(seen)


def _is_subscription(line: str) -> bool:
    """Whether a line is an object with a filter in it. No filter of ours begins with a brace, but patterns do."""
    from fairlead.errors import ValueRefused
    from fairlead.model.encoding import parse_json

    if not line.startswith("{"):
        return False
    try:
        given = parse_json(line)
    except ValueRefused:
        return True  # which is reported as such
    return "filter" in given or "id" in given


def _subscription(line: str, where: str, number: int) -> tuple[Any, str | Mapping[str, Any], str]:
    """The id, the filter and the dialect of a subscription in JSON."""
    from fairlead.errors import ValueRefused
    from fairlead.model.encoding import parse_json

    shape = 'a subscription looks like {"id": "s1", "subscriber": "ada", "filter": "price > 10"}'
    try:
        given = parse_json(line)
    except ValueRefused as error:
        raise BadInput(f"{where}: {error}", hint=shape) from None
    if not isinstance(given, dict) or not isinstance(given.get("filter"), str | dict):
        raise BadInput(f"{where}: a JSON object with a filter in it was expected", hint=shape)
    id = given.get("id")
    if id is None:
        id = number
    if isinstance(id, bool) or not isinstance(id, str | int):
        raise BadInput(f"{where}: an id is a string or a whole number, not {id!r}")
    for name in ("subscriber", "dialect"):
        if not isinstance(given.get(name), str | None):
            raise BadInput(f"{where}: a {name} is a string, not {given[name]!r}")
    return id, given["filter"], given.get("dialect") or ""
