"""`fairlead simulate`: routing between brokers, algorithms side by side, with what each costs.

A file with `kind = "fair"` compares the ways to establish the order that fair correlation needs. One with
`kind = "detection"` compares policies for the detection of composite events: `cli/simulate_detection.py`; one with
`kind = "scopes"` the architectures of scopes: `cli/simulate_scopes.py`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from fairlead.cli.inputs import BadInput
from fairlead.cli.terminal import Progress, complain, emit_json, note, say
from fairlead.errors import NotInstalled, SimulationFailed

if TYPE_CHECKING:
    from fairlead.audit.fair.run import FairRun
    from fairlead_lab.bench.tables import Grid
    from fairlead_lab.simulation import Cell, Results, Row, Scenario, Simulation
    from fairlead_lab.simulation.fair import FairCell, FairResults, FairRow
    from fairlead_lab.simulation.tracing import Tracer

__all__ = ["configure", "refuse_location", "spark_for"]

HEADS: Final = (
    "algorithm",
    "table",
    "largest",
    "admin",
    "forwards",
    "spurious",
    "busiest",
    "hops",
    "delay ms",
    "p99",
    "deliveries",
)
LEGEND: Final = (
    "table: entries per broker, and of the largest. admin: messages about filters so far. forwards, spurious: "
    "per publication.\nbusiest: messages that one broker handles for publications, in % of these."
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.description = (
        "Simulate an overlay of brokers as a scenario says: at each number of subscriptions, what the routing "
        "tables hold and what publications cost. The same seed is the same run, on any machine. A file with "
        'kind = "fair" compares ways to establish an order for fair correlation, one with kind = "detection" '
        'policies for the detection of patterns, one with kind = "scopes" architectures of scopes.'
    )
    parser.epilog = (
        "Example: fairlead simulate examples/simulation/small.toml --algorithm identity covering --out results. "
        "Exit code: 1 when a run delivers the wrong things or breaks the specification."
    )
    parser.add_argument("scenario", metavar="FILE", type=Path, help="the scenario, in TOML")
    parser.add_argument("--algorithm", metavar="A", nargs="+", help="the algorithms, instead of the file's")
    parser.add_argument("--seed", metavar="N", type=_count(0), help="the seed, instead of the file's")
    parser.add_argument("--seeds", metavar="N", type=_count(1), help="run so many seeds, one after the other")
    parser.add_argument(
        "--subscriptions",
        metavar="N",
        nargs="+",
        type=_count(1),
        help="the checkpoints, instead of the file's",
    )
    parser.add_argument(
        "--brokers", metavar="N", nargs="+", type=_count(1), help="the sizes of the overlay, likewise"
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="keep the figures and their curves there")
    parser.add_argument("--json", action="store_true", help="write the rows as JSON, one in each line")
    parser.add_argument(
        "--trace", metavar="FILE", type=Path, help="write what happens, for `fairlead audit`; one run only"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="check every state against the specification of routing, or what was delivered by that of fairness",
    )
    parser.add_argument(
        "--console",
        metavar="HOST:PORT",
        nargs="?",
        const="127.0.0.1:0",
        help="show the scenario in the browser, at an address of this machine that is printed: drag the time, see "
        "messages travel, break links",
    )
    parser.add_argument(
        "--stabilise",
        action="store_true",
        help="with [leases]: damage the state of all brokers, and measure how long they take to recover",
    )
    parser.add_argument("--on", choices=("spark",), help="run the algorithms, sizes and seeds on Spark")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--master", metavar="M", help="Spark's master, with --on spark")
    where.add_argument("--remote", metavar="URL", help="a Spark Connect server, likewise")
    parser.set_defaults(run=run)


def _count(least: int) -> Any:
    def read(text: str) -> int:
        try:
            number = int(text.replace(",", "").replace("_", ""))
        except ValueError:
            number = -1
        if number < least:
            raise argparse.ArgumentTypeError(f"not a whole number from {least} on: {text!r}")
        return number

    return read


def run(arguments: argparse.Namespace) -> int:
    """Simulate, show and keep; the exit code."""
    from fairlead_lab.simulation import Scenario, cells_of
    from fairlead_lab.simulation.detection import is_detection
    from fairlead_lab.simulation.fair import is_fair
    from fairlead_lab.simulation.scopes import is_scopes

    if is_detection(arguments.scenario):
        from fairlead_lab.cli.simulate_detection import run_detection

        return run_detection(arguments)
    if is_scopes(arguments.scenario):
        from fairlead_lab.cli.simulate_scopes import run_scopes

        return run_scopes(arguments)
    if is_fair(arguments.scenario):
        return _run_fair(arguments)
    scenario = Scenario.read(arguments.scenario, arguments.algorithm).changed(
        algorithms=arguments.algorithm, subscriptions=arguments.subscriptions, seed=arguments.seed
    )
    sizes = tuple(dict.fromkeys(arguments.brokers or ()))
    if arguments.console is not None:
        return _show_console(arguments.console, scenario.changed(brokers=sizes[0]) if sizes else scenario)
    for size in sizes:
        scenario.changed(brokers=size)  # what cannot be is said before anything runs
    seeds = range(scenario.seed, scenario.seed + (arguments.seeds or 1))
    cells = cells_of(scenario, brokers=sizes, seeds=seeds)
    _refuse(arguments, scenario, cells)
    _make_room(arguments)
    if arguments.stabilise:
        from fairlead_lab.cli.simulate_stabilising import run_stabilising

        tracers: list[Tracer] = []
        watch = None if arguments.trace is None else _traced(arguments.trace, tracers)
        try:
            return run_stabilising(arguments, scenario, cells, watch)
        finally:
            for tracer in tracers:
                tracer.close()
    started = time.monotonic()
    try:
        simulated = _on_spark if arguments.on else _here
        results = simulated(arguments, scenario, cells)
    except SimulationFailed as failure:
        complain(str(failure))
        return 1
    if arguments.out is not None:
        from fairlead_lab.simulation.plots import draw_curves

        _keep(results, arguments.out, draw_curves)
    if arguments.json:
        for row in results.rows:
            emit_json(row.to_json())
    else:
        _show(results, len(seeds))
        note(f"{len(cells)} run{'s' * (len(cells) > 1)}, {time.monotonic() - started:.1f} s")
        if arguments.check:
            note(f"every state kept the specification of routing{_unjudged(scenario)}")
        if arguments.trace is not None:
            _note_promises(arguments.trace, scenario, cells[0].algorithm)
    return 0


def _show_console(listen: str, scenario: Scenario) -> int:
    """Serve the scenario's page until Ctrl-C."""
    from fairlead.network.addresses import Address

    try:
        from fairlead.console.views.standalone import check_address
        from fairlead.console.views.standalone import run as run_console
        from fairlead_lab.console.simulator import part
    except ModuleNotFoundError:
        raise NotInstalled.extra("The console", "console") from None

    def ready(url: str) -> None:
        say(url)
        sys.stdout.flush()

    address = Address.parse(listen)
    check_address(address)
    run_console((), address, ready, parts=[part(scenario)])
    return 0


def _unjudged(scenario: Scenario) -> str:
    """The specifications that were not judged, where there are several trees."""
    from fairlead_lab.simulation.algorithms import ALGORITHMS

    trees = not all(ALGORITHMS[name].in_order for name in scenario.routing.algorithms)
    if scenario.routing.batch_us and (trees or not scenario.topology().is_acyclic):
        return "; what is forwarded was not looked at, since with batch_ms it waits"
    return ""


def _note_promises(trace: Path, scenario: Scenario, algorithm: str) -> None:
    """By what a trace can be judged: by what was promised."""
    from fairlead_lab.simulation.algorithms import ALGORITHMS

    way = ALGORITHMS[algorithm]
    advertises = way.advertises or scenario.routing.advertisements is not None
    promised = ["advertisements" if advertises else "simple", *(["fifo"] if way.in_order else [])]
    commands = [f"fairlead audit {trace} --spec {each}" for each in promised]
    note(f"judge the trace with: {', '.join(commands)}")
    if not way.in_order:
        note(f"fifo is no promise of {algorithm}: what one producer publishes goes along several trees")


def _refuse(arguments: argparse.Namespace, scenario: Scenario, cells: Sequence[Cell]) -> None:
    """Refuse options that do not go together."""
    if arguments.stabilise != bool(scenario.leases.refresh_us):
        raise BadInput(
            "--stabilise needs the table [leases] of a scenario"
            if arguments.stabilise
            else "the scenario has leases, which only --stabilise measures"
        )
    if arguments.stabilise and (arguments.check or arguments.on):
        raise BadInput("--stabilise judges every state itself, and runs here: without --check and --on")
    if arguments.check:
        _refuse_check(scenario)
    if arguments.trace is not None and (len(cells) > 1 or arguments.on):
        raise BadInput(
            f"a trace is of one run, and these are {len(cells)}" if len(cells) > 1 else "--trace runs here",
            hint="name one algorithm, one size and one seed, without --on spark",
        )
    refuse_location(arguments)


def refuse_location(arguments: argparse.Namespace) -> None:
    """Refuse the location of a Spark that nothing runs on."""
    if (arguments.master or arguments.remote) and not arguments.on:
        raise BadInput("--master and --remote say where Spark is", hint="they go with --on spark")


def _make_room(arguments: argparse.Namespace) -> None:
    """Find out before anything runs whether the output can be written."""
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.trace is not None:
        arguments.trace.write_text("", encoding="utf-8")


# -- running -----------------------------------------------------------------------------------------------


def _refuse_check(scenario: Scenario) -> None:
    if scenario.loses:
        raise BadInput("--check is for runs without faults: what was lost on purpose would be found")
    if scenario.ring.changes:
        raise BadInput("--check is for rings that stay: a broker that has failed unnoticed would be found")


def _here(arguments: argparse.Namespace, scenario: Scenario, cells: Sequence[Cell]) -> Results:
    from fairlead_lab.simulation import Results

    rows: list[Row] = []
    tracers: list[Tracer] = []
    try:
        for number, cell in enumerate(cells, start=1):
            progress = Progress(
                f"steps of {cell.algorithm} with seed {cell.seed}, run {number} of {len(cells)}"
            )
            try:
                rows += cell.run(
                    scenario,
                    check=arguments.check,
                    watch=None if arguments.trace is None else _traced(arguments.trace, tracers),
                    progress=progress.at,
                )
            finally:
                progress.done()
    finally:
        for tracer in tracers:
            tracer.close()
    return Results(scenario, tuple(rows))


def _traced(path: Path, tracers: list[Tracer]) -> Any:
    def watch(simulation: Simulation) -> None:
        from fairlead_lab.simulation.tracing import Tracer

        tracers.append(Tracer(simulation, path))

    return watch


def _on_spark(arguments: argparse.Namespace, scenario: Scenario, cells: Sequence[Cell]) -> Results:
    from fairlead_lab.spark.sweeps import sweep

    return sweep(spark_for(arguments), scenario, cells, check=arguments.check)


def spark_for(arguments: argparse.Namespace) -> Any:
    """The session that the options name."""
    from fairlead.spark.sessions import session

    return session(master=arguments.master, remote=arguments.remote)


# -- telling -----------------------------------------------------------------------------------------------


def _keep(results: Results | FairResults, directory: Path, draw: Callable[[Any, Path], object]) -> None:
    (directory / "results.json").write_text(results.json(), encoding="utf-8")
    (directory / "results.csv").write_text(results.csv(), encoding="utf-8")
    draw(results, directory)
    note(f"kept in {directory}")


def _show(results: Results, seeds: int) -> None:
    for grid in _grids(results, seeds):
        say(grid.plain())
        say()
    say(LEGEND)
    if results.scenario.capacity:
        worst = max(results.rows, key=lambda row: row.queue_max)
        dropped = sum(row.dropped for row in results.rows)
        say(
            f"With a capacity: {worst.queue_max:,} messages waited for {worst.queue_at or 'nothing'} at most, "
            f"with {worst.algorithm}; {dropped:,} notifications were dropped."
        )
    if results.scenario.loses:
        missing, unasked = (
            sum(getattr(row, name) for row in results.rows) for name in ("missing", "unasked")
        )
        say(f"With faults: {missing:,} deliveries are missing, {unasked:,} were not asked for.")
    for line in _shares_missed(results):
        say(line)
    sys.stdout.flush()


def _shares_missed(results: Results) -> Iterator[str]:
    """Of algorithms that deliver with a probability, what they missed."""
    from fairlead_lab.routing.epidemic import miss_probability
    from fairlead_lab.simulation.algorithms import ALGORITHMS

    if results.scenario.loses:
        return
    for brokers in dict.fromkeys(row.brokers for row in results.rows):
        for name in dict.fromkeys(row.algorithm for row in results.rows):
            own = [row for row in results.rows if (row.algorithm, row.brokers) == (name, brokers)]
            wanted = sum(row.missing + row.deliveries for row in own)
            if not ALGORITHMS[name].complete and wanted:
                missed = sum(row.missing for row in own) / wanted
                formula = miss_probability(brokers, results.scenario.routing.fanout)
                yield f"{name} missed {missed:.2%} of the deliveries; {formula:.2%} by the formula."


def _grids(results: Results, seeds: int) -> Iterator[Grid]:
    """A table for each checkpoint: the algorithms below one another, which is how they are compared."""
    from fairlead_lab.bench.tables import Grid

    places = dict.fromkeys((row.brokers, row.subscriptions) for row in results.rows)
    for brokers, subscriptions in places:
        own = [row for row in results.rows if (row.brokers, row.subscriptions) == (brokers, subscriptions)]
        title = f"{brokers:,} brokers, {own[0].topology}; {subscriptions:,} subscriptions"
        algorithms = dict.fromkeys(row.algorithm for row in own)
        yield Grid(
            title if seeds == 1 else f"{title}; medians of {seeds} seeds",
            HEADS,
            tuple(_line(name, [row for row in own if row.algorithm == name]) for name in algorithms),
        )


def _line(algorithm: str, rows: Sequence[Row]) -> tuple[str, ...]:
    from fairlead_lab.bench.tables import brief

    def middle(value: Any) -> float:
        return float(median(value(row) for row in rows))

    def each(name: str) -> Any:
        return lambda row: getattr(row, name) / max(1, row.publications)

    def far(text: str) -> str:
        return text if any(row.deliveries for row in rows) else "-"

    return (
        algorithm,
        brief(middle(lambda row: row.entries_mean)),
        f"{middle(lambda row: row.entries_max):,.0f}",
        f"{middle(lambda row: row.admin_messages):,.0f}",
        brief(middle(each("forwards"))),
        brief(middle(each("spurious"))),
        f"{middle(each('load_max')):.0%}",
        far(f"{middle(lambda row: row.hops_median):g}"),
        far(brief(middle(lambda row: row.delay_us_median / 1_000))),
        far(brief(middle(lambda row: row.delay_us_p99 / 1_000))),
        f"{middle(lambda row: row.deliveries):,.0f}",
    )


# -- fair correlation --------------------------------------------------------------------------------------

NOT_FAIR: Final = ("seeds", "brokers")
FAIR_LEGEND: Final = (
    "throughput: events that a subscriber of the level delivers in a second. latency: from the multicast of an "
    "event to its\ndelivery. Both relative to ordered merging with 10 subscribers and two types in setup A."
)


def _run_fair(arguments: argparse.Namespace) -> int:
    from fairlead.audit.fair import files
    from fairlead.audit.fair.judging import audit_fair
    from fairlead_lab.simulation.fair import FairScenario, evaluate
    from fairlead_lab.simulation.fair.evaluation import fair_cells
    from fairlead_lab.simulation.fair.plots import draw_fair

    scenario = FairScenario.read(arguments.scenario).changed(
        systems=arguments.algorithm, subscribers=arguments.subscriptions, seed=arguments.seed
    )
    for option in NOT_FAIR:
        if getattr(arguments, option):
            raise BadInput(f"--{option} is for routing, and {arguments.scenario} is about fair correlation")
    if arguments.trace is not None and (count := len(fair_cells(scenario))) > 1:
        raise BadInput(
            f"a trace is of one run, and these are {count}",
            hint="one of types = [2] in the file, --algorithm token and --subscriptions 10",
        )
    if arguments.on and (arguments.check or arguments.trace is not None):
        raise BadInput("--check and --trace of fair correlation run here", hint="without --on spark")
    refuse_location(arguments)
    _make_room(arguments)
    started = time.monotonic()
    progress = Progress("runs of fair correlation")

    violated: list[str] = []

    def advance(_: FairCell, number: int, __: int) -> None:
        progress.at(number)

    def watch(cell: FairCell, run: FairRun) -> None:
        if arguments.check:
            for finding in audit_fair(run).findings:
                violated.extend(f"{cell}: {finding.rule}: {each.what}" for each in finding.violations[:1])
        if arguments.trace is not None:
            with arguments.trace.open("w", encoding="utf-8") as trace:
                trace.writelines(f"{line}\n" for line in files.write(run))

    try:
        if arguments.on:
            from fairlead_lab.spark.sweeps import sweep_fair

            results = sweep_fair(spark_for(arguments), scenario)
        else:
            results = evaluate(scenario, advance, watch if arguments.check or arguments.trace else None)
    except SimulationFailed as failure:
        complain(str(failure))
        return 1
    finally:
        progress.done()
    if arguments.out is not None:
        _keep(results, arguments.out, draw_fair)
    for each in violated:
        complain(each)
    if arguments.json:
        for row in results.rows:
            emit_json(row.to_json())
        return int(bool(violated))
    for grid in _fair_grids(results):
        say(grid.plain())
        say()
    say(FAIR_LEGEND)
    note(f"{time.monotonic() - started:.1f} s")
    if arguments.check and not violated:
        note(f"all properties of fair correlation hold, in {len(fair_cells(scenario))} runs")
    if arguments.trace is not None:
        note(f"judge the trace with: fairlead audit {arguments.trace}")
    return int(bool(violated))


def _fair_grids(results: FairResults) -> Iterator[Grid]:
    """A table for each number of types and of subscribers: the systems below one another, level by level."""
    from fairlead_lab.bench.tables import Grid

    for types, subscribers in dict.fromkeys((row.types, row.subscribers) for row in results.rows):
        own = [row for row in results.rows if (row.types, row.subscribers) == (types, subscribers)]
        yield Grid(
            f"setup {results.scenario.setup}, {types} types, {subscribers:,} subscribers",
            ("system", "level", "events/s", "throughput", "latency ms", "latency"),
            tuple(_fair_line(row) for row in own),
        )


def _fair_line(row: FairRow) -> tuple[str, ...]:
    from fairlead_lab.bench.tables import brief

    return (
        row.system,
        str(row.level),
        brief(row.throughput),
        f"{row.throughput_relative:.1%}",
        brief(row.latency_ms),
        f"{row.latency_relative:.0%}",
    )
