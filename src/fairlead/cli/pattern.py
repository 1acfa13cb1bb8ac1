"""`fairlead pattern …`: patterns of other languages in ours."""

from __future__ import annotations

import argparse
import sys

from fairlead.cli.terminal import emit_json, say

__all__ = ["configure"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's own commands."""
    parser.description = "Patterns of other languages in ours; `fairlead detect` detects them."
    parser.epilog = "Example: fairlead pattern translate --from sigma - < correlation.yml"
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    help = "a pattern of another language in ours; exit code 2 where it cannot be said"
    translate = verbs.add_parser("translate", help=help, description=f"{help[0].upper()}{help[1:]}.")
    translate.epilog = "Example: fairlead pattern translate --from match_recognize - < query.sql"
    translate.add_argument(
        "--from", metavar="NAME", dest="dialect", required=True, help="match_recognize or sigma"
    )
    translate.add_argument("pattern", metavar="TEXT", help="the pattern; - reads standard input")
    translate.add_argument("--json", action="store_true", help="answer in JSON")
    translate.set_defaults(run=_translate)


def _translate(arguments: argparse.Namespace) -> int:
    from fairlead.dialects import patterns

    text = sys.stdin.read() if arguments.pattern == "-" else arguments.pattern
    found = patterns.read(arguments.dialect, text)
    if arguments.json:
        emit_json({"pattern": str(found), "hash": found.hash})
    else:
        say(str(found))
    return 0
