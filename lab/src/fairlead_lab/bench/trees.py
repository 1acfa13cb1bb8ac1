"""Two source trees side by side: the processor time of brokers for each delivery, under the same load.

    python -m fairlead_lab.bench.trees BEFORE [AFTER] [--rounds N] [--rows throughput,line] [--messages N]

BEFORE and AFTER are checkouts, for example worktrees of git; AFTER is this one by default. For each row of `bench
network` the brokers of both run at once, idle but for the one that is measured, and take turns: a pair of figures
is of one moment. The figure is the processor time of all brokers of a row, user and system, by the number of
deliveries: what else the machine does moves it far less than it moves a rate.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from fairlead.network.addresses import HOST, free_ports

__all__ = ["ROWS", "Broker", "Row", "Tree", "measure"]

READY_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Row:
    """A row of `bench network`: the protocol of the load, subscribers, further subscriptions, brokers."""

    protocol: str = "fairlead"
    subscribers: int = 1
    others: int = 0
    brokers: int = 1
    changes: tuple[tuple[str, int], ...] = ()


ROWS: Final[dict[str, Row]] = {
    "throughput": Row(),
    "throughput, 10k further": Row(others=10_000),
    "throughput, 10 subscribers": Row(subscribers=10),
    "varied, 10k further": Row("fairlead-varied", others=10_000),
    "varied, line of five": Row("fairlead-varied", others=10_000, brokers=5),
    "latency, 10k further": Row(others=10_000, changes=(("rate", 5_000),)),
    "durable": Row("fairlead-durable", changes=(("window", 1_000),)),
    "line of five": Row(brokers=5),
}


@dataclass(frozen=True, slots=True)
class Tree:
    """A checkout: its modules are imported by the interpreter that runs this."""

    path: Path

    @property
    def environment(self) -> dict[str, str]:
        sources = (self.path / "src", self.path / "lab" / "src")
        return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sources))}

    @property
    def is_one_package(self) -> bool:
        """Whether the laboratory is still a part of the product, and one client may subscribe without a limit."""
        return (self.path / "src" / "fairlead" / "network" / "load.py").exists()

    @property
    def load(self) -> str:
        """The module that generates load."""
        return "fairlead.network.load" if self.is_one_package else "fairlead_lab.bench.load"

    def settings(self, directory: Path) -> list[str]:
        """The options of a broker whose clients may have all the further subscriptions of a row."""
        if self.is_one_package:
            return []
        path = directory / "broker.toml"
        path.write_text("[limits]\nsubscriptions = 1_000_000\n", encoding="utf-8")
        return ["-c", str(path)]


class Broker:
    """The brokers of a row from one tree, and the generator of load that is connected to them."""

    def __init__(self, stack: ExitStack, tree: Tree, row: Row, directory: Path) -> None:
        self._row = row
        self._brokers: list[subprocess.Popen[bytes]] = []
        ports = free_ports([HOST] * row.brokers)
        settings = tree.settings(directory)
        for number, port in enumerate(ports):
            name = f"broker-{number}"
            command = ["-m", "fairlead", "broker", "run", "--name", name, *settings]
            command += ["--listen", f"{HOST}:{port}"]
            is_durable = row.protocol == "fairlead-durable"
            command += ["--data", str(directory / name)] if is_durable else ["--memory"]
            command += ["--link", f"fairlead://{HOST}:{ports[number - 1]}"] if number else []
            log = stack.enter_context((directory / f"{name}.log").open("wb"))
            self._brokers.append(_started(stack, tree, command, stdout=log, stderr=log))
        spec = {
            "protocol": row.protocol,
            "publish_port": ports[0],
            "subscribe_port": ports[-1],
            "subscribers": row.subscribers,
            "others": row.others,
        }
        deadline = time.monotonic() + READY_S
        while True:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._load = _started(stack, tree, ["-m", tree.load], **pipes)
            if self._answer(spec):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the brokers of {tree.path} do not answer")

    def _answer(self, given: dict[str, Any]) -> dict[str, float]:
        assert self._load.stdin is not None
        assert self._load.stdout is not None
        with suppress(BrokenPipeError):
            self._load.stdin.write(json.dumps(given).encode() + b"\n")
            self._load.stdin.flush()
        line = self._load.stdout.readline()
        return json.loads(line) if line else {}

    def cost_us(self, messages: int) -> float:
        """The processor time that the brokers take for a delivery, in microseconds."""
        before = self._processor_s()
        measured = self._answer({"messages": messages, **dict(self._row.changes)})
        return (self._processor_s() - before) * 1e6 / measured["delivered"]

    def _processor_s(self) -> float:
        """The processor time of all threads of the brokers (`/proc/PID/task/*/schedstat` counts nanoseconds)."""
        threads = (each for broker in self._brokers for each in Path(f"/proc/{broker.pid}/task").iterdir())
        return sum(int((each / "schedstat").read_text(encoding="ascii").split()[0]) for each in threads) / 1e9


def _started(stack: ExitStack, tree: Tree, command: list[str], **pipes: Any) -> subprocess.Popen[bytes]:
    process = stack.enter_context(subprocess.Popen([sys.executable, *command], env=tree.environment, **pipes))
    stack.callback(process.kill)
    return process


def measure(trees: Sequence[Tree], row: Row, rounds: int, messages: int) -> Iterator[list[float]]:
    """The cost of a delivery in each tree, round by round; the first round warms up, and is not yielded."""
    with tempfile.TemporaryDirectory(prefix="fairlead-trees-") as directory, ExitStack() as stack:
        brokers = []
        for number, tree in enumerate(trees):
            own = Path(directory, str(number))
            own.mkdir()
            brokers.append(Broker(stack, tree, row, own))
        for number in range(rounds + 1):
            turn = range(len(brokers)) if number % 2 else reversed(range(len(brokers)))
            costs = {each: brokers[each].cost_us(messages) for each in turn}
            if number:
                yield [costs[each] for each in range(len(brokers))]


def _main() -> None:
    parser = argparse.ArgumentParser(description="Two source trees side by side, by processor time.")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=Path(__file__).parents[4])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rows", default=";".join(ROWS), help="names of rows, with ';' between them")
    given = parser.parse_args()
    print("| row | before, µs | after, µs | change |\n| --- | --- | --- | --- |")
    trees = [Tree(given.before.resolve()), Tree(given.after.resolve())]
    for name in given.rows.split(";"):
        row = ROWS[name]
        messages = max(1_000, given.messages // row.subscribers)
        pairs = list(measure(trees, row, given.rounds, messages))
        change = median(after / before for before, after in pairs) - 1
        before, after = (median(each) for each in zip(*pairs, strict=True))
        print(f"| {name} | {before:.1f} | {after:.1f} | {change:+.0%} |", flush=True)


if __name__ == "__main__":
    _main()
