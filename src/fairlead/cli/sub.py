"""`fairlead sub`: subscribe, and print what is delivered."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from fairlead.cli.connecting import add_connection_options, connected, now, seconds
from fairlead.cli.inputs import read_filter, read_text
from fairlead.cli.terminal import complain, emit_json, note, paint, say
from fairlead.errors import BadInput, SubscriptionEnded, ValueRefused

if TYPE_CHECKING:
    from fairlead.model import Notification
    from fairlead.network.sync import Client, Detection, Subscription

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Subscribe to what a filter matches, and print it as it is delivered. A durable subscriber misses nothing"
        " while it is away: under its name it goes on where it was. What has been printed is accepted."
    )
    parser.epilog = (
        "Example: fairlead sub --filter 'price > 100' -n 10. "
        "Exit code: 0 when so many have come, 1 when none came for as long as --timeout says."
    )
    parser.add_argument("--filter", metavar="TEXT", help="what is wanted (default: everything)")
    parser.add_argument("-n", metavar="N", type=int, dest="most", help="stop after so many")
    parser.add_argument(
        "--timeout", metavar="D", type=seconds, help="stop when nothing has come for so long, as 10s"
    )
    parser.add_argument(
        "--durable", metavar="NAME", default="", help="as the durable subscriber of this name"
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="begin with what was published then: 2026-03-02T09:00:00Z, or 10m (ago)",
    )
    parser.add_argument(
        "--policy", choices=("drop", "block", "disconnect"), default="", help="if this is too slow"
    )
    parser.add_argument(
        "--pattern", metavar="TEXT", help="composite events, as in 'A followed by B within 1 hour'"
    )
    parser.add_argument(
        "--lateness",
        metavar="D",
        default="0s",
        help="with --pattern: how late an older event may come, as 5s",
    )
    parser.add_argument(
        "--clock", action="store_true", help="with --pattern: time passes by the clock where nothing comes"
    )
    parser.add_argument("--json", action="store_true", help="JSON lines, as `fairlead pub` reads them")
    parser.add_argument("--forget", metavar="NAME", help="end a durable subscriber, and do nothing else")
    add_connection_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    clock = now if arguments.clock else None
    with connected(arguments, policy=arguments.policy, clock=clock) as client:
        if arguments.forget is not None:
            client.forget(arguments.forget)
            note(f"{arguments.forget} is forgotten at {client.broker}")
            return 0
        with _asked(client, arguments) as asked:
            return _show(asked, arguments)


def _check(arguments: argparse.Namespace) -> None:
    if arguments.most is not None and arguments.most < 1:
        raise BadInput(f"one or more, not {arguments.most}", hint="-n 10")
    if arguments.pattern is not None and (arguments.filter is not None or arguments.durable):
        raise BadInput(
            "a pattern says itself what it is about, and is not durable", hint="--since goes with it"
        )


def _asked(client: Client, arguments: argparse.Namespace) -> Subscription | Detection:
    since = _since(arguments.since)
    if arguments.pattern is not None:
        from fairlead.correlation.patterns import parse

        pattern = read_text(parse, arguments.pattern, None, "--pattern")
        detection = client.detect(pattern, lateness=arguments.lateness, since=since)
        note(f"detecting at {client.broker}: {pattern}")
        return detection
    filter = read_filter(arguments.filter or "true", None, "--filter")
    subscription = client.subscribe(filter, durable=arguments.durable, since=since)
    who = f", durable as {arguments.durable}" if arguments.durable else ""
    note(f"subscribed at {client.broker}: {filter}{who}")
    return subscription


def _since(given: str | None) -> int | None:
    if given is None:
        return None
    from fairlead.correlation.patterns.durations import duration_of
    from fairlead.errors import FairleadError
    from fairlead.model import Instant

    try:
        return Instant.parse(given).microseconds
    except ValueRefused:
        pass
    try:
        return now().microseconds - duration_of(given)
    except FairleadError:
        raise BadInput(
            f"--since: neither a time nor a duration: {given!r}", hint="2026-03-02T09:00:00Z, or 10m"
        ) from None


def _show(asked: Subscription | Detection, arguments: argparse.Namespace) -> int:
    dropped = 0
    for shown in count():
        if shown == arguments.most:
            break
        try:
            notification = asked.get(arguments.timeout)
        except TimeoutError:
            return 0 if shown else 1
        except SubscriptionEnded:
            break
        if asked.dropped > dropped:
            complain(f"{asked.dropped - dropped:,} left out: this was too slow")
            dropped = asked.dropped
        if arguments.json:
            emit_json(_record(notification))
        else:
            say(_line(notification))
        sys.stdout.flush()
    return 0


def _record(notification: Notification) -> dict[str, Any]:
    """As a flat record, with the envelope in it."""
    from fairlead.model.encoding import fields_to_json

    envelope = {"id": notification.id, "producer": notification.producer}
    return {**envelope, **fields_to_json(notification.attributes)}


def _line(notification: Notification) -> str:
    fields = " ".join(_fields(_record(notification)))
    return f"{paint(f'{notification.producer}/{notification.id}', 'dim')}  {fields}"


def _fields(record: dict[str, Any]) -> Iterator[str]:
    from fairlead.model.encoding import format_json

    for name, value in record.items():
        if name not in ("id", "producer"):
            yield f"{paint(name, 'bold')}={format_json(value)}"
