"""The command line: `fairlead COMMAND …`, one module per command.

    0    done
    1    the answer is no
    2    bad input: an error that says what, where and what to do
    3    done, but some lines of the input were rejected
    130  interrupted
    141  the reader of the output has closed it

Every command imports what it needs when it runs, so that small commands start at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from fairlead.cli.terminal import complain
from fairlead.errors import FairleadError, NotInstalled

__all__ = ["complete_parser", "main"]

COMMANDS: Final = {
    "filter": "check, relate, merge, explain and simplify filters",
    "match": "match a file of events against a file of subscriptions",
    "detect": "detect patterns in a file of events: composite events out",
    "pattern": "translate patterns of other languages: MATCH_RECOGNIZE and Sigma correlations",
    "run": "run a pipeline on Spark: events in, deliveries out, in batch or as a stream",
    "broker": "run a broker, check its file, change its links, back up its log",
    "network": "run a whole network of brokers on one machine",
    "pub": "publish events to a broker",
    "bridge": "pass records of Kafka on to brokers, or notifications on to Kafka",
    "sub": "subscribe at a broker, and print deliveries",
    "request": "publish a request, and print the replies",
    "webhook": "post what a durable subscriber gets to a URL, signed",
    "wants": "what of a filter others subscribe to, now or whenever it changes",
    "offers": "what of a filter others advertise, now or whenever it changes",
    "redrive": "hand out the dead deliveries of a durable subscriber again",
    "top": "watch what brokers are doing, live",
    "topology": "draw the network of brokers, with its routing tables",
    "console": "show a network of brokers in the browser, and try filters, patterns and scopes",
    "scope": "check, draw, explain and compare scope graphs: which component sees which notifications",
    "policy": "check an access policy: roles, and what they may publish and subscribe to",
    "keys": "the keys of sealed attributes: rotate, share and take them",
    "audit": "check the trace of a run against the specification",
    "completion": "print the completions of a shell: bash, zsh or fish",
    "demo": "run a pipeline on Spark over sample data, with a report",
    "tour": "show the subscription language on the embedded bus",
}
"""The product's commands, each in the module of its name, which is imported only to run it."""

LABORATORY: Final = {
    "simulate": "simulate routing between brokers: algorithms side by side, with their costs",
    "bench": "measure, side by side with alternatives",
}
"""Commands of the distribution `fairlead-lab`, which offers them in the entry-point group `fairlead.commands`."""

EXTRAS: Final = {
    **dict.fromkeys(("numba", "numpy", "pyarrow"), "fast"),
    **dict.fromkeys(("pandas", "pyspark"), "spark"),
    **dict.fromkeys(("starlette", "uvicorn"), "console"),
    **dict.fromkeys(("cryptography", "jwt"), "security"),
    **dict.fromkeys(("confluent_kafka", "fastavro"), "kafka"),
    "psycopg": "postgres",
}
"""The libraries that a command may need, and the extra that each comes with."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    try:
        given = sys.argv[1:] if argv is None else list(argv)
        arguments = _parser(given[:1]).parse_args(given)
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse has printed its help or its complaint
        return stop.code if isinstance(stop.code, int) else 0
    except BrokenPipeError:
        # The interpreter flushes once more at exit: into the void.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRAS:
            raise
        complain(str(NotInstalled.extra(f"{library}, which this needs,", EXTRAS[library])))
        return 2
    except FairleadError as error:
        complain(str(error))
        return 2
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        return 2
    return code


def complete_parser() -> argparse.ArgumentParser:
    """The parser with the options of all commands, those of other distributions included."""
    from importlib.metadata import entry_points

    return _parser([*COMMANDS, *entry_points(group="fairlead.commands").names])


def _parser(wanted: Sequence[str]) -> argparse.ArgumentParser:
    """The parser, with the options of the command that is wanted."""
    parser = argparse.ArgumentParser(
        prog="fairlead",
        description="A distributed event-based system: filters, matching, delivery.",
        epilog="Example: fairlead filter relate 'price > 10' 'price in [20, 30]'",
    )
    parser.add_argument("--version", action=_Version, help="print the version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, help in COMMANDS.items():
        command = commands.add_parser(name, help=help)
        if name in wanted:
            import_module(f"fairlead.cli.{name}").configure(command)
    if (
        not COMMANDS.keys() >= set(wanted) or not wanted
    ):  # metadata of distributions is slow to read: only where it matters
        _add_offered(commands, wanted)
    return parser


def _add_offered(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], wanted: Sequence[str]
) -> None:
    """Add the commands that other distributions offer in the entry-point group `fairlead.commands`."""
    from importlib.metadata import entry_points

    offered = entry_points(group="fairlead.commands")
    for name in wanted:
        if name in LABORATORY and name not in offered.names:
            raise FairleadError(f"`fairlead {name}` is part of the laboratory: pip install fairlead-lab")
    for entry in sorted(offered, key=lambda entry: entry.name):
        if (
            entry.name in COMMANDS
        ):  # of a laboratory that is older than the product, which has the command now
            continue
        command = commands.add_parser(entry.name, help=LABORATORY.get(entry.name))
        if entry.name in wanted:
            entry.load().configure(command)


class _Version(argparse.Action):
    """Looks the version up on demand."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from fairlead import __version__

        print(f"fairlead {__version__}")
        parser.exit()
