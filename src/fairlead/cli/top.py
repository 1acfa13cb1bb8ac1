"""`fairlead top`: rates and backlogs of brokers, live."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fairlead.cli.connecting import add_connection_options, seconds, surveyed
from fairlead.cli.terminal import emit_json, say
from fairlead.errors import BadInput

if TYPE_CHECKING:
    from fairlead.network.survey import Seen, Survey

__all__ = ["configure"]

Row: TypeAlias = tuple[str, ...]

RATES: Final = ("published", "received", "delivered", "relayed", "dropped")
"""The counters that are shown as rates per second."""
HEADS: Final = ("pub/s", "recv/s", "deliv/s", "relay/s", "drop/s")
"""All fit into 80 columns, with their values."""
BROKERS: Final = ("broker", *HEADS, "clients", "subs", "queue", "log")
QUEUES: Final = ("broker", "queue", "state", "behind", "in flight")
READING: Final = "reading"
"""The inflow of a connection that nothing stops: `network.inflow` has the others."""
UNITS: Final = (" ", "k", "M", "G", "T")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.description = (
        "Show what a broker, or with --all its whole network, is doing: rates, subscriptions, links and durable"
        " subscribers with what waits for them. Ctrl-C ends it."
    )
    parser.epilog = (
        "Example: fairlead top --all --every 2s. "
        "Exit code, with --once or --json: 0 when all brokers answered, 1 when one did not."
    )
    parser.add_argument(
        "--all", action="store_true", help="all brokers that it is linked with, over others, too"
    )
    parser.add_argument("--once", action="store_true", help="show it once; rates are those of one interval")
    parser.add_argument(
        "--json", action="store_true", help="the status of the brokers, once, as one JSON object"
    )
    parser.add_argument("--every", metavar="D", type=seconds, default=1.0, help="the interval (default: 1s)")
    add_connection_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.every <= 0:
        raise BadInput("an interval is longer than nothing", hint="--every 2s")
    if arguments.json:
        seen = _survey(arguments)
        emit_json(seen.to_json())
        return 0 if seen.is_complete else 1
    before, asked = _survey(arguments), time.monotonic()
    with _screen(arguments.once) as show:
        while True:
            time.sleep(arguments.every)
            after, elapsed_s, asked = _survey(arguments), time.monotonic() - asked, time.monotonic()
            show(_brokers(before, after, elapsed_s), _queues(after), _remarks(after))
            if arguments.once:
                return 0 if after.is_complete else 1
            before = after


def _survey(arguments: argparse.Namespace) -> Survey:
    return surveyed(arguments, whole=arguments.all)


# -- figures -------------------------------------------------------------------------------------------------


def _brokers(before: Survey, after: Survey, elapsed_s: float) -> list[Row]:
    return [_broker(before.brokers.get(name), seen, elapsed_s) for name, seen in after.brokers.items()]


def _broker(before: Seen | None, after: Seen, elapsed_s: float) -> Row:
    status = after.status
    if status is None:
        return (after.name, after.problem)
    earlier = before.status["counters"] if before is not None and before.status is not None else {}
    counters = status["counters"]
    # A broker that was started again has counted from the beginning.
    rates = [max(counters[name] - earlier.get(name, 0), 0) / elapsed_s if earlier else 0 for name in RATES]
    log = "-" if status["log"] is None else f"{_short(status['log']['bytes'])}B"
    figures = [status["clients"] - 1, status["subscriptions"], status["queued"]]
    return (after.name, *map(_figure, rates), *map(_figure, figures), log)


def _queues(survey: Survey) -> list[Row]:
    """The queues of neighbours and of durable subscribers, and the links that others wait for."""
    queues = [
        (name, f"{kind} {to}", _state(queue), _figure(queue["behind"]), _figure(queue["in_flight"]))
        for name, seen in survey.brokers.items()
        if seen.status is not None
        for kind, queues in (("link to", seen.status["links"]), ("durable", seen.status["durables"]))
        for to, queue in queues.items()
    ]
    return [*queues, *((each.broker, f"link to {each.other}", "waits", "-", "-") for each in survey.waits)]


def _remarks(survey: Survey) -> list[str]:
    """Blocked connections and what blocks them; links that are down, why, and since when."""
    told = [(name, seen.status) for name, seen in survey.brokers.items() if seen.status is not None]
    slow = [
        f"{name}: {_waiting(status['blocked'])} for {', '.join(waited_for)}"
        for name, status in told
        if status["blocked"] and (waited_for := _waited_for(status))
    ]
    stopped = [
        f"{name}: {_clients(count)} {inflow}"
        for name, status in told
        for inflow, count in sorted(status.get("inflow", {}).items())
        if inflow != READING
    ]
    down = [
        f"{name}: the link to {to} is down since {link['since']}: {link['reason']}"
        for name, status in told
        for to, link in status["links"].items()
        if link.get("reason")
    ]
    return [
        *slow,
        *stopped,
        *down,
        *(f"{each.broker}: the link to {each.other} {each}" for each in survey.waits),
    ]


def _waiting(count: int) -> str:
    return "1 connection waits" if count == 1 else f"{count:,} connections wait"


def _clients(count: int) -> str:
    return "1 client is" if count == 1 else f"{count:,} clients are"


def _waited_for(status: dict[str, Any]) -> list[str]:
    """The destinations that block publishers."""
    links = [f"the link to {name}" for name, link in status["links"].items() if link["full"]]
    return [*links, *status["blocking"]]


def _state(queue: dict[str, Any]) -> str:
    """The state of the outflow to a destination; and of the inflow from it, if something stops that."""
    inflow = queue.get("inflow", "")
    return queue["outflow"] if inflow in ("", READING) else f"{queue['outflow']}; {inflow}"


def _figure(number: float) -> str:
    """A number in at most five characters, up to a thousand million millions."""
    return f"{number:,.0f}" if number < 9_999.5 else _short(number)


def _short(number: float) -> str:
    for unit in UNITS[:-1]:
        if number < 999.5:
            digits = 1 if unit.strip() and number < 9.95 else 0
            return f"{number:.{digits}f} {unit}".replace("  ", " ")
        number /= 1_000
    return f"{number:,.0f} {UNITS[-1]}"


# -- the screen ----------------------------------------------------------------------------------------------

Show: TypeAlias = Callable[[list[Row], list[Row], list[str]], None]


@contextlib.contextmanager
def _screen(once: bool) -> Iterator[Show]:
    """The output: updated in place on a terminal with rich, otherwise appended."""
    if once or not sys.stdout.isatty():
        yield _print
        return
    try:
        from rich.console import Group
        from rich.live import Live
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        yield _print
        return

    def table(head: Row, rows: list[Row], texts: int) -> Table:
        made = Table(box=None, header_style="bold")
        for at, name in enumerate(head):
            # On narrow terminals, names are cut, never headings or numbers.
            made.add_column(
                name, justify="left" if at < texts else "right", no_wrap=at >= texts, min_width=len(name)
            )
        for row in rows:
            made.add_row(*row)
        return made

    with Live(screen=True, auto_refresh=False) as live:

        def show(brokers: list[Row], queues: list[Row], remarks: list[str]) -> None:
            tables = (table(BROKERS, brokers, 1), "", table(QUEUES, queues, 3), "")
            live.update(Group(*tables, *map(Text, remarks)), refresh=True)

        yield show


def _print(brokers: list[Row], queues: list[Row], remarks: list[str]) -> None:
    below = ["", *_lines(QUEUES, queues, 3)] if queues else []
    for line in [*_lines(BROKERS, brokers, 1), *below, *(["", *remarks] if remarks else [])]:
        say(line)
    sys.stdout.flush()


def _lines(head: Row, rows: list[Row], texts: int) -> Iterator[str]:
    """A table as text: the first columns from the left, the others from the right."""
    whole = [row for row in (head, *rows) if len(row) == len(head)]
    widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
    for row in (head, *rows):
        if len(row) < len(head):  # a broker that did not respond, and why
            yield "  ".join(row)
            continue
        cells = zip(row, widths, strict=True)
        yield "  ".join(
            cell.ljust(width) if at < texts else cell.rjust(width) for at, (cell, width) in enumerate(cells)
        ).rstrip()
