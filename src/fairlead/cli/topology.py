"""`fairlead topology`: the network that a broker belongs to, drawn, with its routing tables."""

from __future__ import annotations

import argparse
import sys

from fairlead.cli.connecting import add_connection_options, surveyed
from fairlead.cli.terminal import emit_json, speaks_unicode, write_utf8

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Draw the network that a broker belongs to: it reports its neighbours, these report theirs,"
        " and so on."
    )
    parser.epilog = (
        "Example: fairlead topology --tables. "
        "Exit code: 0 when the network is whole, 1 when a broker cannot be reached or a link is down or too many."
    )
    parser.add_argument("--tables", action="store_true", help="with the routing tables")
    drawn = parser.add_mutually_exclusive_group()
    drawn.add_argument("--dot", action="store_true", help="for Graphviz")
    drawn.add_argument("--svg", action="store_true", help="as a picture")
    drawn.add_argument("--json", action="store_true", help="one JSON object")
    add_connection_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from fairlead.network import drawing

    seen = surveyed(arguments, tables=arguments.tables)
    if arguments.json:
        emit_json(seen.to_json())
    elif arguments.dot or arguments.svg:
        write_utf8()
        draw = drawing.svg if arguments.svg else drawing.dot
        sys.stdout.write(draw(seen, tables=arguments.tables))
    else:
        plain = not speaks_unicode(sys.stdout)
        sys.stdout.write(drawing.text(seen, tables=arguments.tables, plain=plain))
    return 0 if seen.is_whole else 1
