"""`fairlead pub`: publish events, from the command line, files or standard input."""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fairlead.cli.connecting import add_connection_options, add_sealing_options, connected, now
from fairlead.cli.inputs import opened, read_filter
from fairlead.cli.terminal import Progress, complain, emit_json, note
from fairlead.errors import BadInput, BrokerRefused, ValueRefused

if TYPE_CHECKING:
    from fairlead.ingest import Rejection
    from fairlead.model import Notification
    from fairlead.network.sync import Client, Source

__all__ = ["configure", "event_of"]

_Event: TypeAlias = "tuple[str, Notification | Rejection]"

IN_FLIGHT_MAX: Final = 2_000
"""The number of events that may wait for their acknowledgement."""
SHOWN: Final = 5


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Publish events, and wait until the broker has them in its log. An event is given as name=value …, where a"
        " value is JSON or else a string, or as a JSON object; without one, JSON lines are read from --events, or"
        " from standard input."
    )
    parser.epilog = (
        "Example: fairlead pub symbol=IBM price=168.5. "
        "Exit code: 0 when all is published, 3 when some of it was rejected or refused."
    )
    parser.add_argument("event", metavar="EVENT", nargs="*", help="name=value …, or JSON objects")
    parser.add_argument(
        "--events",
        metavar="FILE",
        action="append",
        default=[],
        help="JSON lines, each a flat record or a CloudEvents 1.0 event; - is standard input (may be repeated)",
    )
    parser.add_argument("--producer", metavar="NAME", help="the producer of events that name none themselves")
    parser.add_argument(
        "--no-wait", action="store_true", help="best effort: not logged, nothing is waited for"
    )
    parser.add_argument(
        "--advertise",
        metavar="FILTER",
        help="advertise this filter first, where the brokers require it",
    )
    parser.add_argument(
        "--atomic",
        action="store_true",
        help="publish all events together, or none: also through a power failure, and on a full disk",
    )
    parser.add_argument(
        "--on-demand",
        metavar="FILTER",
        help="take the next event only while somebody listens to something that this filter matches",
    )
    parser.add_argument("--stamp", action="store_true", help="what has no time gets that of publishing")
    parser.add_argument("--lift", action="store_true", help="lift the payload of CloudEvents to the top")
    parser.add_argument(
        "--json", action="store_true", help='JSON lines {"producer", "id"} of what is published'
    )
    add_connection_options(parser)
    add_sealing_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fairlead.ingest import Rejection

    if arguments.event and arguments.events:
        raise BadInput("an event on the command line, and files of events", hint="leave out one of both")
    if arguments.atomic and arguments.no_wait:
        raise BadInput("--atomic waits for the broker's log", hint="leave out --no-wait")
    events = _given(arguments) if arguments.event else _read(arguments)
    progress = Progress("events")
    with (
        connected(arguments, arguments.producer, clock=now if arguments.stamp else None) as client,
        ExitStack() as running,
    ):
        publisher = _Publisher(client, arguments)
        if arguments.advertise is not None:
            client.advertise(read_filter(arguments.advertise, None, "--advertise"))
        if arguments.on_demand is not None:
            demand = client.source(read_filter(arguments.on_demand, None, "--on-demand"))
            events = _while_wanted(iter(events), running.enter_context(demand))
        try:
            for where, event in events:
                if isinstance(event, Rejection):
                    publisher.reject(where, event.reason)
                else:
                    publisher.put(where, event)
                progress.at(publisher.published)
            publisher.finish()
        finally:
            progress.done()
            publisher.summarise()
    return 3 if publisher.rejected else 0


def _while_wanted(events: Iterator[_Event], source: Source) -> Iterator[_Event]:
    """The events, each taken when somebody listens."""
    while True:
        source.wanted()
        try:
            event = next(events)
        except StopIteration:
            return
        yield event


class _Publisher:
    """Publishes event by event, with many in flight, and counts the outcomes."""

    def __init__(self, client: Client, arguments: argparse.Namespace) -> None:
        self._client, self._arguments = client, arguments
        self._in_flight: deque[tuple[str, Future[Notification]]] = deque()
        self._together: list[Notification] = []
        """The events that are published as a whole, or not at all."""
        self._answered = self.rejected = 0

    @property
    def published(self) -> int:
        """The number of notifications that have been published here, and not before."""
        return self._answered - self._client.duplicates

    def put(self, where: str, event: Notification) -> None:
        if self._arguments.atomic:
            self._together.append(event)
            return
        if self._arguments.no_wait:
            try:
                self._count(self._client.send(event))
            except ValueRefused as error:
                self.reject(where, str(error))
            return
        self._in_flight.append((where, self._client.publishing(event)))
        while len(self._in_flight) > IN_FLIGHT_MAX or (self._in_flight and self._in_flight[0][1].done()):
            self._settle()

    def finish(self) -> None:
        """Wait until all is acknowledged."""
        if self._together and not self.rejected:
            with self._client.transaction() as transaction:
                published = [transaction.publish(each) for each in self._together]
            for each in published:
                self._count(each)
        while self._in_flight:
            self._settle()

    def _settle(self) -> None:
        where, publishing = self._in_flight[0]
        try:
            self._count(publishing.result())
        except (BrokerRefused, ValueRefused) as error:
            self.reject(where, str(error))
        self._in_flight.popleft()

    def _count(self, published: Notification) -> None:
        self._answered += 1
        if self._arguments.json:
            emit_json({"producer": published.producer, "id": published.id})

    def reject(self, where: str, reason: str) -> None:
        """It is not published."""
        self.rejected += 1
        if self.rejected <= SHOWN:
            complain(f"{where}: rejected: {reason}")

    def summarise(self) -> None:
        """Report the outcomes, also after an interruption."""
        unknown = 0
        for _, publishing in self._in_flight:
            if publishing.done() and not publishing.cancelled() and publishing.exception() is None:
                self._count(publishing.result())
            else:
                unknown += 1
        if self.rejected > SHOWN:
            complain(f"… and {self.rejected - SHOWN:,} more")
        if self._together and not self._answered:
            complain("nothing was published: all of it is, or nothing")
        how = "sent" if self._arguments.no_wait else "published"
        known = self._client.duplicates
        also = f", {known:,} published before" if known else ""
        also += f", {unknown:,} not acknowledged" if unknown else ""
        note(f"{self.published:,} {how}, {self.rejected:,} rejected{also}")


# -- events --------------------------------------------------------------------------------------------------


def _read(arguments: argparse.Namespace) -> Iterator[tuple[str, Notification | Rejection]]:
    """The events of files, each with its location."""
    from fairlead.ingest.jsonlines import read

    for path in arguments.events or ["-"]:
        with opened(path) as stream:
            for number, event in read(stream, path, lift=arguments.lift):
                yield f"{path}:{number}", event


def _given(arguments: argparse.Namespace) -> list[tuple[str, Notification | Rejection]]:
    """The events of the command line: objects, or one of names and values."""
    from fairlead.ingest.records import read
    from fairlead.model.encoding import format_json

    texts: list[str] = arguments.event
    if not any(text.lstrip().startswith("{") for text in texts):
        texts = [format_json(dict(map(_named, texts)))]
    return [
        (f"event {number}", read(text, source="the command line", lift=arguments.lift))
        for number, text in enumerate(texts, start=1)
    ]


def event_of(arguments: argparse.Namespace) -> Notification:
    """The one event of the command line; BadInput for none, or several."""
    from fairlead.ingest import Rejection

    (_, event), *others = _given(arguments)
    if isinstance(event, Rejection):
        raise BadInput(event.reason)
    if others:
        raise BadInput("several events", hint="one JSON object, or name=value …")
    return event


def _named(text: str) -> tuple[str, Any]:
    from fairlead.model.encoding import parse_json

    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadInput(f"neither name=value nor a JSON object: {text!r}", hint="as in symbol=IBM price=168.5")
    try:
        return name, parse_json(value)
    except ValueRefused:
        return name, value
