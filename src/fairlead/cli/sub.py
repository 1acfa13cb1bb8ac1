"""`fairlead sub`: subscribe, and print what is delivered."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.connecting import add_connection_options, add_sealing_options, connected, now, seconds
from fairlead.cli.inputs import add_language_options, language, read_filter, read_text
from fairlead.cli.terminal import complain, emit_json, note, paint, say
from fairlead.errors import BadInput, SubscriptionEnded, ValueRefused

if TYPE_CHECKING:
    from fairlead.channels import Missed
    from fairlead.conditions import Condition
    from fairlead.filters.filter import Filter
    from fairlead.filters.schema import Schema
    from fairlead.model import Notification
    from fairlead.network.sync import Client, Detection, HostedDetection, Subscription

__all__ = ["configure", "line_of", "record_of"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Subscribe to what a filter matches, and print it as it is delivered. A durable subscriber misses nothing"
        " while it is away: under its name it continues where it was. What has been printed is accepted."
    )
    parser.epilog = (
        "Example: fairlead sub 'price > 100' -n 10. "
        "Exit code: 0 when so many were delivered, 1 when --timeout has passed without a delivery."
    )
    parser.add_argument("wanted", metavar="FILTER", nargs="?", help="what is wanted (default: everything)")
    parser.add_argument("--filter", metavar="TEXT", help="the same, as an option")
    parser.add_argument("-n", metavar="N", type=int, dest="most", help="stop after so many")
    parser.add_argument(
        "--timeout", metavar="D", type=seconds, help="stop when nothing was delivered for so long, as 10s"
    )
    parser.add_argument("--durable", metavar="NAME", help="as the durable subscriber of this name")
    parser.add_argument(
        "--shared",
        action="store_true",
        help="with --durable: each notification goes to one of those who subscribe under the name",
    )
    parser.add_argument(
        "--per", metavar="ATTRIBUTE", help="with --shared: what has one value of it stays with one of them"
    )
    parser.add_argument(
        "--attempts-max",
        metavar="N",
        type=int,
        help="with --durable: what was rejected, or not accepted in time, so often is a dead letter",
    )
    parser.add_argument(
        "--lease",
        metavar="D",
        help="with --durable: it ends when nobody has been there for it for so long, as 10min",
    )
    parser.add_argument(
        "--accept-within", metavar="D", type=seconds, help="with --durable: else it comes again, as 30s"
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="begin with what was published then: 2026-03-02T09:00:00Z, or 10m (ago)",
    )
    parser.add_argument(
        "--policy", choices=("drop", "block", "disconnect"), help="if this is too slow (default: drop)"
    )
    parser.add_argument(
        "--pattern",
        metavar="TEXT",
        help="composite events, as in 'A followed by B within 1 hour'; events need a time (`pub --stamp`), which"
        " passes with newer ones, or with --clock",
    )
    parser.add_argument(
        "--fair",
        metavar="TEXT",
        help="the relations of a fair subscription, as in 'A.x < B.y'; in event time, too",
    )
    parser.add_argument(
        "--hosted",
        action="store_true",
        help="with --pattern or --fair: a detector at a broker finds them, the same for all who ask for the same",
    )
    parser.add_argument(
        "--ordered",
        action="store_true",
        help="in the one total order, as an ordered bus delivers; --since is then a time of events",
    )
    parser.add_argument(
        "--until", metavar="TIME", help="with --ordered: end with the events before that time"
    )
    parser.add_argument(
        "--backfill",
        metavar="TIME",
        help="with --ordered: begin with what was published then, as --since does without",
    )
    parser.add_argument(
        "--context",
        metavar="FILTER",
        help="with --ordered: what else has a say in the order, because others follow it; 'true' is everything",
    )
    parser.add_argument(
        "--lateness",
        metavar="D",
        help="with --ordered, --pattern or --fair: how late an older event may arrive, as 5s (default: 0s)",
    )
    parser.add_argument(
        "--clock",
        action="store_true",
        help="with --ordered, --pattern or --fair: time passes by the clock while no event arrives",
    )
    parser.add_argument(
        "--retained",
        choices=("send", "only", "no"),
        help="the values that channels retain: first, alone, or not at all (default: send)",
    )
    parser.add_argument(
        "--on",
        metavar="CONDITION",
        help="only what a condition lets pass, as in 'celsius changes by 1, per room'",
    )
    parser.add_argument(
        "--want",
        metavar="QUALITY",
        help="be refused where channels offer less, as in 'order=producer, deadline=10s, durability=logged'",
    )
    parser.add_argument(
        "--missed",
        action="store_true",
        help="say where a channel's deadline has passed, and nothing has come",
    )
    parser.add_argument("--json", action="store_true", help="JSON lines, as `fairlead pub` reads them")
    parser.add_argument(
        "--forget",
        metavar="NAME",
        help="end a durable subscriber, or with a filter its subscription to that, and do nothing else",
    )
    add_language_options(parser)
    add_connection_options(parser)
    add_sealing_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    schema = language(arguments)
    filter = _checked(arguments, schema)
    clock = now if arguments.clock else None
    with connected(arguments, policy=arguments.policy or "", clock=clock, schema=schema) as client:
        if arguments.forget is not None:
            client.forget(arguments.forget, filter)
            what = arguments.forget if filter is None else f"{arguments.forget}: {filter}"
            note(f"{what} is forgotten at {client.broker}")
            return 0
        if arguments.retained == "only":
            found = client.retained("true" if filter is None else filter)
            for each in found[: arguments.most]:
                _print(each, as_json=arguments.json)
            return 0 if found else 1
        with _subscribed(client, filter, schema, arguments) as query:
            return _show(query, arguments)


APART: Final = {
    "forget": (
        "durable",
        "since",
        "pattern",
        "fair",
        "policy",
        "most",
        "timeout",
        "lateness",
        "clock",
        "json",
        "shared",
        "ordered",
        "retained",
        "hosted",
        "on",
        "want",
        "missed",
    ),
    "hosted": ("lateness", "clock", "shared"),
    "pattern": ("filter", "wanted", "durable", "fair", "ordered", "retained", "on", "want", "missed"),
    "fair": ("filter", "wanted", "durable", "ordered", "retained", "on", "want", "missed"),
    "on": ("shared",),
    "retained": ("since", "shared", "ordered"),
    "ordered": ("shared", "attempts_max", "accept_within"),
    "durable": ("policy",),
}
"""Options that exclude each other."""
WITH: Final = {
    "lateness": ("ordered", "pattern", "fair"),
    "clock": ("ordered", "pattern", "fair"),
    "hosted": ("pattern", "fair"),
    "until": ("ordered",),
    "backfill": ("ordered",),
    "context": ("ordered",),
    "shared": ("durable",),
    "per": ("shared",),
    "attempts_max": ("durable",),
    "accept_within": ("durable",),
    "lease": ("durable",),
}
"""Options that require others."""
OPTIONS: Final = {
    "most": "-n",
    "wanted": "a filter",
    "filter": "a filter",
    "attempts_max": "--attempts-max",
    "accept_within": "--accept-within",
}
WHY: Final = {
    "forget": "it ends a durable subscriber, and nothing else is done",
    "pattern": "it takes no filter, and is durable with --hosted only; --since can be combined with it",
    "fair": "it takes no filter, and is durable with --hosted only; --since can be combined with it",
    "hosted": "lateness and clock are the host's, which all share: [detection] of broker.toml",
    "retained": "what comes of the past, or is shared, comes without what is retained",
    "on": "a condition is about all that is delivered, and a member of a shared subscriber gets a part",
    "durable": "what waits for it waits in the log, however slow it is",
    "ordered": "what comes again, or is shared, is not in the total order",
}


def _checked(arguments: argparse.Namespace, schema: Schema | None) -> Filter | None:
    """The filter of the arguments, if any; BadInput for an invalid one."""
    given = {name for name, value in vars(arguments).items() if value is not None and value is not False}
    for name, others in APART.items():
        for other in others:
            if {name, other} <= given and (other != "durable" or name == "forget" or "hosted" not in given):
                raise BadInput(f"{_option(name)} and {_option(other)} do not go together", hint=WHY[name])
    for name, others in WITH.items():
        if name in given and given.isdisjoint(others):
            raise BadInput(f"{_option(name)} goes with {' or '.join(map(_option, others))} only")
    for name in ("durable", "forget"):
        if name in given and not getattr(arguments, name).strip():
            raise BadInput(f"--{name}: the name is empty", hint=f"--{name} desk")
    if arguments.most is not None and arguments.most < 1:
        raise BadInput(f"one or more, not {arguments.most}", hint="-n 10")
    if {"wanted", "filter"} <= given:
        raise BadInput("two filters", hint="write one: 'price > 100 and volume > 5'")
    if not {"wanted", "filter"} & given:
        return None
    text, where = (arguments.wanted, "FILTER") if "wanted" in given else (arguments.filter, "--filter")
    if not text.strip():
        raise BadInput(f"{where}: it is empty", hint="leave it out, and everything is wanted")
    return read_filter(text, schema, where)


def _option(name: str) -> str:
    return OPTIONS.get(name, f"--{name}")


def _subscribed(
    client: Client, filter: Filter | None, schema: Schema | None, arguments: argparse.Namespace
) -> Subscription | Detection | HostedDetection:
    since = _since(arguments.since)
    if arguments.pattern is not None or arguments.fair is not None:
        from fairlead.correlation import fair, patterns

        query: patterns.Pattern | fair.Subscription
        if arguments.fair is not None:
            query = read_text(fair.parse, arguments.fair, schema, "--fair")
        else:
            query = read_text(patterns.parse, arguments.pattern, schema, "--pattern")
        if arguments.hosted:
            hosted = client.hosted(query, durable=arguments.durable or "", since=since)
            note(f"{hosted.host} detects for {client.broker}: {query}")
            return hosted
        detection = client.detect(query, lateness=arguments.lateness or "0s", since=since)
        note(f"detecting at {client.broker}: {query}")
        return detection
    wanted = read_filter("true", None) if filter is None else filter
    subscription = client.subscribe(
        wanted,
        durable=arguments.durable or "",
        since=since,
        timeout=arguments.patience,
        shared=arguments.shared,
        per=arguments.per or "",
        attempts_max=arguments.attempts_max or 0,
        accept_within=arguments.accept_within,
        lease=arguments.lease,
        order="ordered" if arguments.ordered else "live",
        lateness=(arguments.lateness or "0s") if arguments.ordered else 0,
        until=_since(arguments.until, "--until"),
        backfill=_since(arguments.backfill, "--backfill"),
        context=None if arguments.context is None else read_filter(arguments.context, schema, "--context"),
        retained=arguments.retained or "send",
        on=None if arguments.on is None else read_text(_condition, arguments.on, None, "--on"),
        want=arguments.want,
        on_missed=_tell_missed if arguments.missed else None,
    )
    # A later response implies that the broker has processed the subscription.
    links = {} if subscription.is_installed else client.status()["links"]
    who = f", durable as {arguments.durable}" if arguments.durable else ""
    note(f"subscribed at {client.broker}: {wanted}{who}")
    if subscription.narrowed:
        note(f"narrowed by its access policy to {subscription.granted}")
    for gap in subscription.gaps:
        complain(f"something is missing of the time since then: {gap}")
    if not subscription.is_installed:
        away = [name for name, link in links.items() if not link["connected"]]
        who = ", ".join(away) or "a broker behind the neighbours"
        complain(f"{who} cannot be reached, and will know of it when it is back")
    return subscription


def _tell_missed(missed: Missed) -> None:
    key = " ".join(f"{name}={value}" for name, value in missed.key.items())
    note(f"missed in {missed.channel}: {key or 'nothing'} since {missed.since}")


def _condition(text: str, schema: Schema | None) -> Condition:
    from fairlead.conditions import parse

    return parse(text)


def _since(given: str | None, option: str = "--since") -> int | None:
    if given is None:
        return None
    from fairlead.errors import FairleadError
    from fairlead.model import Instant
    from fairlead.model.durations import duration_of

    try:
        return Instant.parse(given).microseconds
    except ValueRefused:
        pass
    try:
        return now().microseconds - duration_of(given)
    except FairleadError:
        raise BadInput(
            f"{option}: neither a time nor a duration: {given!r}", hint="2026-03-02T09:00:00Z, or 10m"
        ) from None


def _show(query: Subscription | Detection | HostedDetection, arguments: argparse.Namespace) -> int:
    dropped = 0
    for shown in count():
        if shown == arguments.most:
            break
        try:
            notification = query.get(arguments.timeout)
        except TimeoutError:
            return 0 if shown else 1
        except SubscriptionEnded:
            break
        if query.dropped > dropped:
            complain(f"{query.dropped - dropped:,} left out: this was too slow")
            dropped = query.dropped
        _print(notification, as_json=arguments.json)
    return 0


def _print(notification: Notification, *, as_json: bool) -> None:
    if as_json:
        emit_json(record_of(notification))
    else:
        say(line_of(notification))
    sys.stdout.flush()


def record_of(notification: Notification) -> dict[str, Any]:
    """The content as it was published; identity behind it, where it does not have one. A CloudEvent has."""
    record = notification.content
    if record.get("specversion") == "1.0" and record.get("source") == notification.producer:
        return record
    record.setdefault("id", notification.id)
    record.setdefault("producer", notification.producer)
    return record


def line_of(notification: Notification) -> str:
    """A notification as a line for people."""
    from fairlead.network.diagnostics import printable

    fields = " ".join(_fields(record_of(notification)))
    identity = printable(f"{notification.producer}/{notification.id}")
    return f"{paint(identity, 'dim')}  {fields}"


def _fields(record: dict[str, Any]) -> Iterator[str]:
    from fairlead.model.encoding import format_json
    from fairlead.network.diagnostics import printable

    for name, value in record.items():
        if name not in ("id", "producer"):
            yield f"{paint(printable(name), 'bold')}={printable(format_json(value))}"
