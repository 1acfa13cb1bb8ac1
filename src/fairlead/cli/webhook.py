"""`fairlead webhook`: post what a durable subscriber gets to a URL."""

from __future__ import annotations

import argparse
import base64
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairlead.cli.connecting import add_connection_options, connected
from fairlead.cli.inputs import read_filter
from fairlead.cli.terminal import complain, note
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.network.sync import Delivery, Subscription

__all__ = ["configure"]

PREFIX: Final = b"whsec_"
"""The beginning of a secret that is written as Standard Webhooks has it."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Post notifications to a URL, as CloudEvents, one after the other. The durable subscriber keeps what waits"
        " while this does not run, or the receiver does not answer; what fails too often is a dead letter."
    )
    parser.epilog = (
        "Example: fairlead webhook 'price > 100' --durable shop --to https://shop.example/hook --secret-file key. "
        "Exit code: 0 when it has ended, 1 when the receiver wants nothing any longer (410)."
    )
    parser.add_argument("filter", metavar="FILTER", help="what to post")
    parser.add_argument("--to", metavar="URL", required=True, help="where it is posted")
    parser.add_argument("--durable", metavar="NAME", required=True, help="the durable subscriber")
    parser.add_argument("--secret-file", metavar="FILE", help="the secret that signs each one")
    parser.add_argument(
        "--lease", metavar="D", help="end the subscriber when nobody was there for it for so long"
    )
    parser.add_argument(
        "--attempts-max", metavar="N", type=int, default=10, help="so many attempts (default: 10)"
    )
    parser.add_argument(
        "--unasked", action="store_true", help="do not ask the receiver first whether it wants any"
    )
    parser.add_argument("-n", metavar="N", type=int, dest="most", help="end after so many")
    add_connection_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fairlead.console.webhook import Sink, Webhook

    if arguments.attempts_max < 1:
        raise BadInput("--attempts-max is at least 1")
    filter = read_filter(arguments.filter, None)
    with connected(arguments) as client:
        sink = Sink(arguments.to, _secret(arguments.secret_file), client.name)
        webhook = Webhook(sink, attempts_max=arguments.attempts_max, clock=time.time, wait=time.sleep)
        if not arguments.unasked:
            webhook.check()
        subscription = client.subscribe(
            filter, durable=arguments.durable, attempts_max=1, lease=arguments.lease
        )
        note(f"posting to {sink.url}: {filter}, durable as {arguments.durable}")
        with subscription:
            for posted in webhook.run(_deliveries(subscription, arguments.most)):
                if not posted.is_accepted:
                    complain(f"not taken after {posted.attempts:,} attempts: {posted.reason}")
                if posted.has_ended:
                    client.forget(arguments.durable)
                    return 1
    return 0


def _deliveries(subscription: Subscription, most: int | None) -> Iterator[Delivery]:
    for posted in count():
        if posted == most:
            return
        yield subscription.delivery()


def _secret(path: str | None) -> bytes:
    if path is None:
        return b""
    try:
        secret = Path(path).read_bytes().strip()
    except OSError as error:
        raise BadInput(f"--secret-file: {error}") from None
    if not secret:
        raise BadInput(f"--secret-file: {path} is empty")
    if not secret.startswith(PREFIX):
        return secret
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        raise BadInput(f"--secret-file: {path}: after whsec_, a secret is Base64") from None
