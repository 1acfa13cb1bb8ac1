"""`fairlead request`: publish a request, and print the replies."""

from __future__ import annotations

import argparse

from fairlead.cli.connecting import add_connection_options, connected, seconds
from fairlead.cli.pub import event_of
from fairlead.cli.sub import line_of, record_of
from fairlead.cli.terminal import complain, emit_json, say
from fairlead.errors import NobodyListens

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Publish a request, and print the replies that come in time. Who replies is not named: whoever subscribes"
        " to such requests, and answers."
    )
    parser.epilog = (
        "Example: fairlead request type='price?' symbol=IBM --timeout 2s. "
        "Exit code: 0 when a reply came, 1 when none did in time, or nobody listens."
    )
    parser.add_argument("event", metavar="EVENT", nargs="+", help="a JSON object, or name=value …")
    parser.add_argument(
        "--timeout", metavar="D", type=seconds, default=5.0, help="wait so long (default: 5s)"
    )
    parser.add_argument(
        "-n", metavar="N", type=int, dest="enough", default=1, help="so many replies are enough"
    )
    parser.add_argument("--json", action="store_true", help="JSON lines")
    add_connection_options(parser)
    parser.set_defaults(run=run, lift=False)


def run(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        try:
            replies = client.requests(event_of(arguments), timeout=arguments.timeout, enough=arguments.enough)
        except NobodyListens as error:
            complain(str(error))
            return 1
    for reply in replies:
        if arguments.json:
            emit_json(record_of(reply))
        else:
            say(line_of(reply))
    return 0 if replies else 1
