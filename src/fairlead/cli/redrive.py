"""`fairlead redrive`: hand out the dead deliveries of a durable subscriber again."""

from __future__ import annotations

import argparse

from fairlead.cli.connecting import add_connection_options, connected
from fairlead.cli.terminal import emit_json, say

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Have a broker hand out again what a durable subscriber has failed on too often. What the log has no more"
        " is gone; its dead letters may still be read."
    )
    parser.epilog = (
        "Example: fairlead redrive work. "
        "Exit code: 0 when something is handed out again, 1 when nothing was dead, or all of it is gone."
    )
    parser.add_argument("name", metavar="NAME", help="the durable subscriber")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_connection_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    with connected(arguments) as client:
        answer = client.redrive(arguments.name)
    if arguments.json:
        emit_json(answer)
    else:
        say(f"{arguments.name}: {answer['redriven']:,} handed out again, {answer['gone']:,} gone")
    return 0 if answer["redriven"] else 1
