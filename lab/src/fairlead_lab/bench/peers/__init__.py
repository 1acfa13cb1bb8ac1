"""Peers: matchers of other makers on the same subscriptions and events, where they can say the same.

They are no dependencies. Small drivers, kept beside this file as text, are built in the user's cache with the
tools that are there; what is missing makes a row that says `absent` and why. A driver reads JSON texts and parses
each event as it matches it, since that is what the peers' users call; the mode `json` of the production engine
does the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from fairlead_lab.bench.cell import MEMORY_N_MIN, Cell, Disagreement, agree, oracle_sample
from fairlead_lab.bench.harness import MEASURED, NOT_RUN, WRONG
from fairlead_lab.bench.peers.dialects import HYPERMATCH, QUAMINA, RULER, Dialect, Inexpressible
from fairlead_lab.bench.runner import spread_of
from fairlead_lab.matching.shapes import SHAPES

if TYPE_CHECKING:
    from fairlead_lab.bench.matching import Plan

__all__ = ["ABSENT", "PEERS", "Absent", "Peer", "measure_peers"]

ABSENT: Final = "absent"
RESOURCES: Final = Path(__file__).parent
BUILD_S: Final = 300
PEER_N_MAX: Final = 100_000
SEED: Final = 1


class Absent(Exception):
    """A peer that cannot be had here; the message says why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A matcher of another maker: its language, the sources of its driver, how to build and to run it."""

    name: str
    dialect: Dialect
    sources: tuple[str, ...]
    tools: tuple[str, ...]
    build: Callable[[Path], None]
    command: tuple[str, ...]
    """Runs in the directory it was built in."""


def measure_peers(plan: Plan, peers: Sequence[Peer] | None = None) -> Iterator[Cell]:
    """A cell for each peer, shape and size, whether or not there is anything to measure."""
    for peer in PEERS if peers is None else peers:
        try:
            directory = _built(peer)
        except Absent as absent:
            yield from (
                Cell(shape, _sizes(plan, shape)[0], peer.name, ABSENT, str(absent)) for shape in plan.shapes
            )
            continue
        for shape in plan.shapes:
            for n in _sizes(plan, shape):
                cell = _measured(peer, directory, shape, n, plan)
                yield cell
                if cell.status != MEASURED:  # with more subscriptions it will not get better
                    break


def _sizes(plan: Plan, shape: str) -> list[int]:
    """Up to 100,000, unless sizes were asked for."""
    return [n for n in plan.sizes_for(shape) if plan.sizes or n <= PEER_N_MAX]


# -- building ----------------------------------------------------------------------------------------------


def _built(peer: Peer) -> Path:
    """The directory with the driver, which is built at most once for each version of its sources."""
    for tool in peer.tools:
        if shutil.which(tool) is None:
            raise Absent(f"{tool} is not installed")
    texts = [(RESOURCES / source).read_bytes() for source in peer.sources]
    key = hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "fairlead" / "peers"
    directory = home / f"{peer.name}-{key}"
    if directory.is_dir():
        return directory
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as unfinished:
        building = Path(unfinished) / "build"
        building.mkdir()
        for source, text in zip(peer.sources, texts, strict=True):
            (building / Path(source).name).write_bytes(text)
        peer.build(building)
        building.rename(directory)
    return directory


def _call(directory: Path, *command: str) -> None:
    try:
        run = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Absent(f"{command[0]} took longer than {BUILD_S} s") from None
    if run.returncode != 0:
        said = [line.strip() for line in f"{run.stdout}\n{run.stderr}".splitlines() if line.strip()]
        reason = said[-1].rpartition(": ")[2][:200] if said else run.returncode
        raise Absent(f"{' '.join(command[:2])} failed: {reason}")


def _build_ruler(directory: Path) -> None:
    _call(directory, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib")
    _call(directory, "javac", "-cp", "lib/*", "-d", "classes", "Driver.java")


def _build_go(module: str) -> Callable[[Path], None]:
    def build(directory: Path) -> None:
        _call(directory, "go", "mod", "init", "fairlead.bench/driver")
        _call(directory, "go", "get", f"{module}@latest")
        _call(directory, "go", "build", "-o", "driver", ".")

    return build


# -- running -----------------------------------------------------------------------------------------------


def _measured(peer: Peer, directory: Path, shape: str, n: int, plan: Plan) -> Cell:
    blank = Cell(shape, n, peer.name, NOT_RUN)
    if shape == "M8":
        return _because(blank, "the driver does not change rules while it matches")
    notifications = list(islice(SHAPES[shape].notifications(n, Random(SEED + 1)), plan.pool))
    sample = notifications[: oracle_sample(n, plan.pool)]
    expected: list[list[int]] = [[] for _ in sample]
    with tempfile.TemporaryDirectory(prefix="fairlead-peer-") as scratch:
        rules, events = Path(scratch) / "rules.jsonl", Path(scratch) / "events.jsonl"
        try:
            with rules.open("w", encoding="utf-8") as stream:
                for id, filter in enumerate(SHAPES[shape].filters(n, Random(SEED))):
                    stream.write(f"{json.dumps(peer.dialect.rule(filter))}\n")
                    for notification, ids in zip(sample, expected, strict=True):
                        if filter.matches(notification):
                            ids.append(id)
        except Inexpressible as reason:
            return _because(blank, f"cannot be expressed: {reason}")
        with events.open("w", encoding="utf-8") as stream:
            stream.writelines(f"{json.dumps(peer.dialect.event(each))}\n" for each in notifications)
        options = (plan.rounds, plan.slice_s, len(sample), plan.patience_s)
        command = [*peer.command, str(rules), str(events), *map(str, options)]
        limit_s = 3 * plan.patience_s + 4 * (plan.rounds + 4) * plan.slice_s + 60
        try:
            run = subprocess.run(
                command, cwd=directory, capture_output=True, text=True, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired:
            return _because(blank, f"too slow: stopped after {limit_s:,.0f} s")
    if run.returncode != 0:
        said = run.stderr.strip().splitlines() or [f"exit code {run.returncode}"]
        return _because(blank, f"failed: {said[0][:200]}")
    return _cell(blank, json.loads(run.stdout.strip().splitlines()[-1]), expected)


def _cell(blank: Cell, answer: dict[str, Any], expected: list[list[int]]) -> Cell:
    """The figures of a driver, once its answers are those of the oracle."""
    if "too_slow" in answer:
        return _because(blank, f"too slow: {answer['too_slow']}")
    try:
        agree(blank.engine, answer["found"], expected)
    except Disagreement as wrong:
        return Cell(blank.shape, blank.n, blank.engine, WRONG, str(wrong))
    return Cell(
        blank.shape,
        blank.n,
        blank.engine,
        MEASURED,
        rates={"json": spread_of(answer["rates"])},
        fill_s=answer["fill_s"],
        bytes_each=answer["bytes"] / blank.n if blank.n >= MEMORY_N_MIN else None,
        matches_each=sum(map(len, expected)) / len(expected),
        checked=len(expected),
    )


def _because(blank: Cell, reason: str) -> Cell:
    return Cell(blank.shape, blank.n, blank.engine, NOT_RUN, reason)


JAVA: Final = ("java", "-Xmx6g", "-XX:+UseSerialGC", "-cp", f"lib/*{os.pathsep}classes", "Driver")
"""One core for all: a collector that works beside the matching would be a second one."""

PEERS: Final = (
    Peer(
        "ruler",
        RULER,
        ("ruler/pom.xml", "ruler/Driver.java"),
        ("mvn", "javac", "java"),
        _build_ruler,
        JAVA,
    ),
    Peer(
        "quamina",
        QUAMINA,
        ("golang/driver.go", "golang/quamina.go"),
        ("go",),
        _build_go("quamina.net/go/quamina"),
        ("env", "GOMAXPROCS=1", "./driver"),
    ),
    Peer(
        "hypermatch",
        HYPERMATCH,
        ("golang/driver.go", "golang/hypermatch.go"),
        ("go",),
        _build_go("github.com/SchwarzIT/hypermatch"),
        ("env", "GOMAXPROCS=1", "./driver"),
    ),
)
