"""`fairlead console`: a network of brokers in the browser."""

from __future__ import annotations

import argparse
import sys

from fairlead.cli.connecting import add_connection_options, brokers_of, credentials_of, tls_of
from fairlead.cli.terminal import say
from fairlead.errors import NotInstalled

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Show a network of brokers in the browser: the overlay with rates and queues, why a filter is at a link,"
        " the way of a notification, subscriptions, patterns and scopes; and try filters against live events. It"
        " acts with your credentials, and answers only at the address that it prints, which has a key. Ctrl-C ends"
        " it. A broker with HTTP serves the same at /console."
    )
    parser.epilog = "Example: fairlead console -b fairlead://hub.example.org --open; of a run: --pipeline out"
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default="127.0.0.1:0",
        help="where it is served (default: 127.0.0.1 and a free port)",
    )
    parser.add_argument("--open", action="store_true", help="open it in a browser")
    parser.add_argument(
        "--pipeline",
        metavar="DIR",
        help="show the pipeline whose output this is, during a run and afterwards; without -b, it alone",
    )
    add_connection_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fairlead.network.addresses import Address

    try:
        from fairlead.console.views.standalone import check_address
        from fairlead.console.views.standalone import run as run_console
    except ModuleNotFoundError:
        raise NotInstalled.extra("The console", "console") from None
    address = Address.parse(arguments.listen)
    check_address(address)
    parts = []
    if arguments.pipeline is not None:
        from fairlead.console.views.pipeline import pipeline_part

        parts.append(pipeline_part(arguments.pipeline))

    def ready(url: str) -> None:
        say(url)
        sys.stdout.flush()
        if arguments.open:
            import webbrowser

            webbrowser.open(url)

    run_console(
        [] if parts and not arguments.brokers else brokers_of(arguments),
        address,
        ready,
        tls=tls_of(arguments),
        patience=arguments.patience,
        credentials=credentials_of(arguments),
        parts=parts,
    )
    return 0
