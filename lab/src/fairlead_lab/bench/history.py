"""A small benchmark that is kept over time: a row of figures for each commit that somebody measured.

`python -m fairlead_lab.bench.history FILE` measures for about half a minute, adds a row to FILE and prints the
change against the latest row of a machine like this one. Figures are items per second of processor time, the
median of several rounds: less exact than `fairlead bench`, and less dependent on what else the machine does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import fairlead as fl
from fairlead.matching import engine_named
from fairlead_lab.bench.runner import Rounds, machine, rates, spread_of
from fairlead_lab.matching.shapes import SHAPES

__all__ = ["FIGURES", "Row", "append", "measure", "read", "shown"]

ROUNDS: Final = Rounds(count=7, slice_s=0.4)
ITEMS: Final = 2_000
ALIKE: Final = ("cpu", "cores", "python")
"""Rows that agree in these are compared with one another."""

Work = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Row:
    """The measurement, its machine and its commit; `commit` ends with `+` where files were changed and not
    committed.
    """

    commit: str
    machine: Mapping[str, Any]
    figures: Mapping[str, float]


def _parse(rng: Random) -> Work:
    texts = [str(filter) for filter in SHAPES["M3"].filters(ITEMS, rng)]
    return lambda count: [fl.parse(text) for text in texts[:count]]


def _covers(rng: Random) -> Work:
    filters = list(SHAPES["M1"].filters(ITEMS + 1, rng))
    return lambda count: [fl.covers(filters[at], filters[at + 1]) for at in range(count)]


def _match(engine: str, shape: str, filters: int) -> Callable[[Random], Work]:
    def made(rng: Random) -> Work:
        matcher = engine_named(engine)
        matcher.add_many(enumerate(SHAPES[shape].filters(filters, rng)))
        stream = SHAPES[shape].notifications(filters, rng)
        notifications = [next(stream) for _ in range(ITEMS)]
        return lambda count: [matcher.match(notification) for notification in notifications[:count]]

    return made


def _publish(rng: Random) -> Work:
    bus = fl.Bus()
    for number in range(100):
        bus.subscribe(f"symbol = {number} and price > 50", lambda delivery: None)
    events = [{"symbol": rng.randrange(100), "price": rng.randrange(100)} for _ in range(ITEMS)]

    def work(count: int) -> None:
        for event in events[:count]:
            bus.publish(event)

    return work


def _detect(rng: Random) -> Work:
    events = [
        {
            "type": "Quote",
            "symbol": rng.randrange(20),
            "price": rng.randrange(100),
            "time": fl.Instant(at * 1_000_000),
        }
        for at in range(ITEMS)
    ]

    def work(count: int) -> None:
        with fl.Bus(order="ordered") as bus:
            bus.detect(
                "Quote as low followed by Quote as high within 1 minute, same symbol, high.price > low.price"
            )
            for event in events[:count]:
                bus.publish(event)

    return work


FIGURES: Final[dict[str, Callable[[Random], Work]]] = {
    "parse": _parse,
    "covers": _covers,
    "match, brute, 100 filters": _match("brute", "M1", 100),
    "match, 1,000 filters": _match("columnar", "M1", 1_000),
    "match, 10,000 filters": _match("columnar", "M1", 10_000),
    "match, 10,000 filters with negation": _match("columnar", "M5", 10_000),
    "publish on a bus, 100 subscriptions": _publish,
    "detect a pattern of two": _detect,
}
"""The measurements, by name: from a seeded generator to work on the first so many items."""


def measure(rounds: Rounds = ROUNDS, names: Sequence[str] = tuple(FIGURES)) -> Row:
    """Measure; the same seed gives the same work each time."""
    figures = {}
    for name in names:
        work = FIGURES[name](Random(name))
        work(ITEMS)  # loads, compiles and fills what is remembered
        figures[name] = round(spread_of(rates(work, ITEMS, rounds)).median, 1)
    return Row(_commit(), machine(), figures)


def _commit() -> str:
    def git(*arguments: str) -> str:
        run = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
        )
        return run.stdout.strip() if run.returncode == 0 else ""

    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + (
        "+" if git("status", "--porcelain", "-uno") else ""
    )


def read(path: Path) -> list[Row]:
    """The rows of a file, the oldest first; none where there is no file yet."""
    if not path.exists():
        return []
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def append(path: Path, row: Row) -> list[Row]:
    """Add a row to a file, a line each; the rows before it."""
    before = read(path)
    lines = ",\n".join(json.dumps(asdict(each), ensure_ascii=False) for each in [*before, row])
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return before


def shown(row: Row, before: Sequence[Row]) -> str:
    """A row as text, each figure with its change against the latest row of a machine like this one."""
    alike = [each for each in before if all(each.machine[key] == row.machine[key] for key in ALIKE)]
    lines = []
    for name, figure in row.figures.items():
        old = alike[-1].figures.get(name) if alike else None
        change = f"{figure / old - 1:+8.1%}" if old else ""
        lines.append(f"{name:<40} {figure:>12,.0f} /s {change}".rstrip())
    against = (
        f"against {alike[-1].commit}, {alike[-1].machine['date']}"
        if alike
        else "the first on a machine like this"
    )
    return "\n".join([f"{row.commit}, {against}", *lines])


if __name__ == "__main__":
    measured = measure()
    print(shown(measured, append(Path(sys.argv[1]), measured)))
