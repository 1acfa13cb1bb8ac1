"""A sample report of each benchmark, measured by nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from fairlead_lab.bench import correlation, matching, network, pipeline
from fairlead_lab.bench.cell import Cell
from fairlead_lab.bench.cores import Round
from fairlead_lab.bench.correlation_cell import CHAINS, FAIRLEAD, SEARCH, CorrelationCell, StateRow
from fairlead_lab.bench.correlation_spark import JOINS, SparkJob
from fairlead_lab.bench.floor import AUDITED, FLOOR, LARGE, Floor
from fairlead_lab.bench.harness import MEASURED, NOT_RUN
from fairlead_lab.bench.jobs import LOOP, Index, Job, Pace, Sampled
from fairlead_lab.bench.network import LINE, MOSQUITTO, NATS
from fairlead_lab.bench.runner import spread_of

MACHINE: Final = {
    "date": "2030-01-02T03:04:05+00:00",
    "cpu": "Abacus",
    "cores": 2,
    "memory_gb": 8.0,
    "load": [0.1, 0.2, 0.3],
    "system": "Linux",
    "python": "CPython 3.11",
    "versions": {"fairlead": "0.1.0"},
}


# -- matching ----------------------------------------------------------------------------------------------


def matching_cell(shape: str, n: int, engine: str, one: float = 100.0, **values: Any) -> Cell:
    spread = spread_of([one * 0.9, one, one * 1.1])
    return replace(Cell(shape, n, engine, MEASURED, rates={"one": spread}, fill_s=n * 1e-5), **values)


def matching_report(*cells: Cell) -> matching.Report:
    return matching.Report(dict(MACHINE), {"rounds": 3, "slice_s": 0.1}, list(cells))


def matching_sample() -> matching.Report:
    cells = [matching_cell("M1", n, engine) for n in (1_000, 100_000) for engine in ("columnar", "brute")]
    return matching_report(*cells, Cell("M1", 1_000, "poset", NOT_RUN, "too slow"))


# -- pipeline ----------------------------------------------------------------------------------------------


def pipeline_job(contender: str, n: int, *rates: float, rows: int = 1_000, pairs: int = 100) -> Job:
    return Job(contender, n, rows, pairs, tuple(Round(rows / rate, 2 * rows / rate) for rate in rates))


def pipeline_report(*jobs: Job) -> pipeline.Report:
    settings = {
        "loop_n": 10_000,
        "loop_rows": 1_000,
        "rounds": 3,
        "files_per_s": 4.0,
        "stream_s": 30.0,
        "stream_n": 10_000,
    }
    machine = {**MACHINE, "master": "local[*]"}
    return pipeline.Report(machine, settings, {"session": 5.0}, list(jobs), [Index(10_000, 1.5, 2_000_000)])


def pipeline_sample() -> pipeline.Report:
    report = pipeline_report(
        pipeline_job(LOOP, 10_000, 400.0, 500.0, 450.0),
        pipeline_job(FAIRLEAD, 10_000, 100_000.0, 100_000.0, 100_000.0, rows=10_000, pairs=1_000),
        pipeline_job(FAIRLEAD, 100_000, 90_000.0, 80_000.0, 85_000.0, rows=10_000, pairs=10_000),
    )
    report.floors = [
        Floor(
            workload, 1_000, 100, 50, {FLOOR: (Round(9.0, 4.0), floor), AUDITED: (Round(9.0, 4.0), audited)}
        )
        for workload, floor, audited in (
            ("M1", Round(2.0, 3.0), Round(6.0, 3.0)),
            (LARGE, Round(20.0, 30.0), Round(70.0, 60.0)),
        )
    ]
    report.sampled = Sampled(1_000, 100, 50, {"ingest": (1.0, 2.0), "match": (1.0, 1.0)}, 9.0)
    report.paces = [
        Pace(1_000, 4.0, 3_000, 5, (0.5, 0.6, 0.5)),
        Pace(5_000, 4.0, 15_000, 5, (1.0, 2.0, 3.0), unfinished=2),
    ]
    return report


# -- correlation -------------------------------------------------------------------------------------------


def correlation_cell(
    shape: str, n: int, contender: str, *rates: float, matches: float = 0.1
) -> CorrelationCell:
    mode = "batch" if contender == FAIRLEAD else "one"
    return CorrelationCell(
        shape,
        n,
        contender,
        MEASURED,
        events=1_000,
        rates={mode: spread_of(rates)},
        latency_ms={mode: (1.5, 2.5)},
        matches_each=matches,
        distinct_each=matches,
        state_max=12,
        checked=100,
        cpu_share=0.9,
    )


def correlation_sample() -> correlation.Report:
    settings = {
        "events": 1_000,
        "sensors": 10,
        "patience_s": 5.0,
        "fairlead_patience_s": 20.0,
        "rounds": 3,
        "batch": 100,
    }
    return correlation.Report(
        dict(MACHINE),
        settings,
        [
            correlation_cell("C1", 1, FAIRLEAD, 240_000.0, 250_000.0, 260_000.0),
            correlation_cell("C1", 1, CHAINS, 25_000.0),
            correlation_cell("C1", 1_000, FAIRLEAD, 250_000.0, matches=100.0),
            correlation_cell("C1-apart", 1, FAIRLEAD, 300_000.0, matches=0.001),
            correlation_cell("C1-apart", 1_000, FAIRLEAD, 100_000.0, matches=1.0),
            CorrelationCell("C3-A", 1, SEARCH, NOT_RUN, "too slow"),
        ],
        [
            StateRow("1 or more B", 10, 15, "20", 20, 0.5),
            StateRow("1 or more B", 100, 150, str(2**80), None, 5.0),
        ],
        [
            SparkJob("C1", 1, FAIRLEAD, 1_000, 7, (1.0, 2.0), (0.5, 0.5)),
            SparkJob("C1", 1, JOINS, 1_000, 7, (10.0, 40.0), (2.0, 2.0)),
            SparkJob("C2", 1, FAIRLEAD, 1_000, 7, (1.0, 2.0)),
            SparkJob("C2", 1, JOINS, 1_000, 7, (4.0, 8.0)),
        ],
    )


# -- network -----------------------------------------------------------------------------------------------


def network_sample() -> network.Report:
    def cell(part: str, who: str, *rates: float, others: int = 0, brokers: int = 1) -> network.Cell:
        return network.Cell(part, who, 1, others, brokers, [*rates], [50.0, 60.0], [90.0, 90.0])

    missing = network.Cell("latency", NATS, 1, 10_000, missing="nats-server is not installed")
    return network.Report(
        dict(MACHINE),
        {"rate": 5_000, "rounds": 2},
        [
            cell("throughput", FAIRLEAD, 200.0, 90.0, others=10_000),
            cell("throughput", MOSQUITTO, 100.0, 100.0, others=10_000),
            cell("latency", FAIRLEAD, 1.0, 1.0, others=10_000),
            network.Cell("latency", MOSQUITTO, 1, 10_000, 1, [1.0, 1.0], [20.0, 20.0], [90.0, 90.0]),
            missing,
            cell("durable", FAIRLEAD, 50.0, 70.0),
            cell("durable", NATS, 10.0, 10.0),
            cell("line", FAIRLEAD, 100.0, 100.0),
            cell("line", FAIRLEAD, 60.0, 60.0, brokers=LINE),
        ],
    )


SAMPLES: Final = {
    "matching": matching_sample,
    "pipeline": pipeline_sample,
    "correlation": correlation_sample,
    "network": network_sample,
}
