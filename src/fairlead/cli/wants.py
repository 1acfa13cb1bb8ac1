"""`fairlead wants`: what of a filter others subscribe to."""

from __future__ import annotations

import argparse
from contextlib import closing

from fairlead.cli.connecting import add_connection_options, connected
from fairlead.cli.terminal import emit_json, say
from fairlead.delivery.discovery import Discovered, What
from fairlead.filters import render

__all__ = ["configure", "configure_question"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Print what of a filter others subscribe to, one filter a line, without their names: what is worth"
        " publishing."
    )
    parser.epilog = (
        "Example: fairlead wants 'type = \"Quote\"'. Exit code: 0 when something of it is wanted, 1 when nothing"
        " is."
    )
    configure_question(parser, "wants")


def configure_question(parser: argparse.ArgumentParser, what: What) -> None:
    """Add the options that `wants` and `offers` have in common."""
    parser.add_argument("filter", metavar="FILTER", nargs="?", default="true", help="default: everything")
    parser.add_argument("--watch", action="store_true", help="print the answer again whenever it changes")
    parser.add_argument("--json", action="store_true", help="one JSON record for each answer")
    add_connection_options(parser)
    parser.set_defaults(run=run, what=what)


def run(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client, closing(client.watch(arguments.what, arguments.filter)) as answers:
        for answer in answers:
            emit_json(answer.to_json()) if arguments.json else _show(answer, arguments.what)
            if not arguments.watch:
                break
    return 0 if answer else 1


def _show(answer: Discovered, what: What) -> None:
    if not answer.known:
        say("not known: the brokers route without advertisements")
    elif not answer.filters:
        say("nothing of it is wanted" if what == "wants" else "nothing of it is offered")
    for each in answer.filters:
        say(render(each) + ("" if answer.exact else "  (or less)"))
