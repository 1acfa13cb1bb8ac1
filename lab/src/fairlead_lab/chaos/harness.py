"""A round of chaos: five brokers, clients on all of them, faults by a seed; then all heals, and one does the sums.

Everything that passes between two brokers, or a client and its broker, passes through a proxy. All clients are in
this process, so what they do and see has one order.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from fairlead.audit import Verdict, audit, format_event
from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.network import wire
from fairlead.network.client import Client, connect
from fairlead_lab.chaos.accounts import SPECIFICATIONS, Accounts, Tally
from fairlead_lab.chaos.clients import Producer, Subscriber
from fairlead_lab.chaos.processes import BrokerProcess, pressure, truncate_unsynced
from fairlead_lab.chaos.proxy import Proxy
from fairlead_lab.chaos.schedule import Fault, schedule

__all__ = ["Round", "RoundReport"]

TREE: Final = {"b0": "", "b1": "b0", "b2": "b1", "b3": "b1", "b4": "b3"}
"""The brokers, each with the one it calls."""
PRODUCERS: Final = {"p0": "b0", "p1": "b2", "p2": "b3", "p3": "b4"}
DURABLES: Final[dict[str, tuple[str, tuple[str, ...], float]]] = {
    "d0": ("b4", ("x >= 0",), 0.0),
    "d1": ("b0", ("x >= 50",), 0.0),
    "d2": ("b2", ('region = "north"', "x < 10"), 0.0),
    "d3": ("b1", ('x >= 25 and region = "south"',), 0.005),
    "d4": ("b3", ("x in {1, 2, 3, 5, 8, 13, 21, 34, 55, 89}",), 0.0),
}
"""Durable subscribers: where they are, what they ask for, and how long they take over each."""
LISTENERS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "l0": ("b0", ('region = "west"',)),
    "l1": ("b4", ("x >= 90",)),
}
"""Subscribers without a promise."""
LATE: Final = ("d1", "d4")
"""Those who subscribe when the faults have begun."""
QUIET_S: Final = 120.0
"""After so long without coming to rest something hangs."""
LOOK_S: Final = 0.05
LINKED_S: Final = 5.0
"""The time a link may take to be up again before a copy of a broker is run."""
FORGED: Final = wire.checked(
    wire.relay(
        2**61,
        wire.NO_STAMP,
        pack(Notification.of({"id": "forged", "producer": "nobody", "x": 50, "region": "north"})),
    )
)
"""A relay that is well-formed, with an offset far beyond the log's end."""


@dataclass(frozen=True, slots=True)
class RoundReport:
    """The result of a round."""

    seed: int
    tally: Tally
    verdict: Verdict
    faults: Counter[str] = field(default_factory=Counter)
    cut_bytes: int = 0
    """The number of bytes cut off the logs' unsynced ends."""
    replayed: int = 0
    """The number of publications that came again and were known, as far as those brokers tell that were not
    killed since."""
    healed_s: float = 0.0
    """From the last fault to quiet."""

    @property
    def holds(self) -> bool:
        """Whether both witnesses say so."""
        return self.tally.holds and self.verdict is Verdict.HOLDS


class Round:
    """One round, in a directory of its own."""

    def __init__(self, seed: int, directory: Path, seconds: float) -> None:
        self.seed, self.directory, self.seconds = seed, directory, seconds
        self.accounts = Accounts()
        self._rng = Random(seed)
        self._brokers: dict[str, BrokerProcess] = {}
        self._proxies: dict[str, Proxy] = {}
        self._producers: dict[str, Producer] = {}
        self._subscribers: dict[str, Subscriber] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._happened: Counter[str] = Counter()
        self._cut_bytes = 0
        self._observers: dict[str, Client] = {}

    async def run(self) -> RoundReport:
        """Set up, break, heal, judge. TimeoutError if it does not come to rest."""
        self.directory.mkdir(parents=True, exist_ok=True)
        over = asyncio.Event()
        publishing: list[asyncio.Task[None]] = []
        try:
            await self._set_up()
            publishing = [asyncio.create_task(each.run(over)) for each in self._producers.values()]
            await self._break(self.schedule())
            over.set()
            began = time.monotonic()
            await self._heal()
            await asyncio.wait_for(asyncio.gather(*publishing), QUIET_S)
            replayed = await asyncio.wait_for(self._quiet(), QUIET_S)
            healed = time.monotonic() - began
        except TimeoutError:
            raise TimeoutError(f"no rest after {QUIET_S:.0f} s: {await self._restless()}") from None
        finally:
            for task in publishing:
                task.cancel()
            await self._tear_down()
            self._write_trace()
        report = audit(self.accounts.trace(), *SPECIFICATIONS)
        return RoundReport(
            self.seed,
            self.accounts.tally(),
            report.verdict,
            self._happened,
            self._cut_bytes,
            replayed,
            healed,
        )

    def schedule(self) -> list[Fault]:
        """The faults of this round."""
        return schedule(
            self.seed,
            self.seconds,
            brokers=list(TREE),
            links=[_link(name) for name, called in TREE.items() if called],
            producers=list(PRODUCERS),
            subscribers=[*DURABLES, *LISTENERS],
            callers=[name for name, called in TREE.items() if called],
        )

    # -- beginning and end -------------------------------------------------------------------------------------

    async def _set_up(self) -> None:
        for name, called in TREE.items():
            links = []
            if called:
                links = [f"fairlead://127.0.0.1:{await self._proxy(_link(name), called)}"]
            self._brokers[name] = BrokerProcess(name, self.directory, links)
        await asyncio.gather(*(broker.start() for broker in self._brokers.values()))
        for name, broker in self._brokers.items():
            self._observers[name] = connect(broker.url, name=f"observer-{name}", patience=None)
        await asyncio.gather(*(each.open() for each in self._observers.values()))
        await asyncio.wait_for(self._linked(), QUIET_S)
        for name, at in PRODUCERS.items():
            await self._proxy(name, at)
            rng = Random(f"{self.seed} {name}")
            self._producers[name] = Producer(name, self._proxies[name], self.accounts, rng)
        for name, (at, filters, pace) in DURABLES.items():
            await self._proxy(name, at)
            self._subscribers[name] = Subscriber(
                name, self._proxies[name], self.accounts, filters, durable=True, pace_s=pace
            )
        for name, (at, filters) in LISTENERS.items():
            await self._proxy(name, at)
            self._subscribers[name] = Subscriber(
                name, self._proxies[name], self.accounts, filters, durable=False
            )
        early = [each for name, each in self._subscribers.items() if name not in LATE]
        for subscriber in early:
            subscriber.start()
        await asyncio.wait_for(asyncio.gather(*(each.installed.wait() for each in early)), QUIET_S)

    async def _proxy(self, name: str, to: str) -> int:
        proxy = self._proxies[name] = Proxy(
            self._brokers[to].port, Random(f"{self.seed} {name}"), is_framed="-" in name
        )
        await proxy.start()
        return proxy.port

    async def _linked(self) -> None:
        while not all(
            len(status["links"]) == _degree(name) and all(each["ready"] for each in status["links"].values())
            for name, status in (await self._statuses()).items()
        ):
            await asyncio.sleep(LOOK_S)

    async def _tear_down(self) -> None:
        for subscriber in self._subscribers.values():
            await subscriber.crash()
        clients: list[Producer | Client] = [*self._producers.values(), *self._observers.values()]
        closing = [asyncio.create_task(each.close()) for each in clients]
        await asyncio.wait(closing, timeout=5.0)
        for proxy in self._proxies.values():
            await proxy.stop()
        await asyncio.gather(*(broker.stop() for broker in self._brokers.values()))

    def _write_trace(self) -> None:
        with (self.directory / "trace.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(f"{format_event(event)}\n" for event in self.accounts.trace())

    # -- faults ------------------------------------------------------------------------------------------------

    async def _break(self, faults: list[Fault]) -> None:
        began = asyncio.get_running_loop().time()
        late = [asyncio.create_task(self._come_late(name)) for name in LATE]
        await asyncio.gather(*late, *(self._inflict(fault, began) for fault in faults))

    async def _come_late(self, name: str) -> None:
        await asyncio.sleep(self.seconds / 4)
        async with self._lock(name):
            if not self._subscribers[name].lives:
                self._subscribers[name].start()

    def _lock(self, target: str) -> asyncio.Lock:
        """One at a time for one target: who is down cannot be paused."""
        return self._locks.setdefault(target, asyncio.Lock())

    async def _inflict(self, fault: Fault, began: float) -> None:
        await asyncio.sleep(max(0.0, began + fault.at_s - asyncio.get_running_loop().time()))
        async with self._lock(fault.target):
            self._happened[fault.kind] += 1
            self.accounts.fault(fault.kind, target=fault.target, seconds=round(fault.seconds, 3))
            await getattr(self, f"_inflict_{fault.kind}")(fault)
            self.accounts.fault("mended", target=fault.target)

    async def _inflict_kill(self, fault: Fault, *, truncate: bool = False) -> None:
        broker = self._brokers[fault.target]
        await broker.kill()
        if truncate:
            self._cut_bytes += truncate_unsynced(broker.data, self._rng)
        await asyncio.sleep(fault.seconds / 3)
        await broker.start()

    async def _inflict_truncate(self, fault: Fault) -> None:
        await self._inflict_kill(fault, truncate=True)

    async def _inflict_restore(self, fault: Fault) -> None:
        broker = self._brokers[fault.target]
        await broker.kill()
        broker.restore()
        await asyncio.sleep(fault.seconds / 3)
        await broker.start()

    async def _inflict_pressure(self, fault: Fault) -> None:
        with pressure(self._brokers[fault.target].port):
            await asyncio.sleep(fault.seconds)

    async def _inflict_pause(self, fault: Fault) -> None:
        broker = self._brokers[fault.target]
        broker.pause()
        await asyncio.sleep(fault.seconds)
        broker.resume()

    async def _inflict_partition(self, fault: Fault) -> None:
        self._proxies[fault.target].part()
        await self._mend(fault)

    async def _inflict_hold(self, fault: Fault) -> None:
        self._proxies[fault.target].hold()
        await self._mend(fault)

    async def _inflict_delay(self, fault: Fault) -> None:
        self._proxies[fault.target].delay(fault.seconds / 20)
        await self._mend(fault)

    async def _inflict_tear(self, fault: Fault) -> None:
        self._proxies[fault.target].tear()
        await self._mend(fault)

    async def _inflict_silence(self, fault: Fault) -> None:
        self._proxies[fault.target].silence()
        await self._mend(fault)

    async def _inflict_flip(self, fault: Fault) -> None:
        self._proxies[fault.target].flip()
        await self._mend(fault)

    async def _inflict_forge(self, fault: Fault) -> None:
        self._proxies[fault.target].forge(FORGED)
        await self._mend(fault)

    async def _inflict_clone(self, fault: Fault) -> None:
        """While the broker is connected with the one it calls: only then is it known who is the copy."""
        name, called = fault.target, TREE[fault.target]
        async with self._lock(_link(name)), self._lock(called):
            if await self._is_linked(called, name):
                clone = self._brokers[name].clone(Path(tempfile.mkdtemp(prefix="clone-", dir=self.directory)))
                await clone.start()
                await asyncio.sleep(fault.seconds)
                await clone.kill()
                await clone.stop()

    async def _is_linked(self, broker: str, neighbour: str) -> bool:
        """Whether a link is up, within a while."""
        for _ in range(round(LINKED_S / LOOK_S)):
            with contextlib.suppress(TimeoutError):
                status = await asyncio.wait_for(self._observers[broker].status(), LINKED_S)
                if status["links"].get(neighbour, {}).get("ready"):
                    return True
            await asyncio.sleep(LOOK_S)
        return False

    async def _mend(self, fault: Fault) -> None:
        await asyncio.sleep(fault.seconds)
        self._proxies[fault.target].heal()

    async def _inflict_leave(self, fault: Fault) -> None:
        subscriber = self._subscribers[fault.target]
        await subscriber.leave()
        await asyncio.sleep(fault.seconds)
        subscriber.start()

    async def _inflict_crash(self, fault: Fault) -> None:
        subscriber = self._subscribers[fault.target]
        await subscriber.crash()
        subscriber.start()

    async def _heal(self) -> None:
        for proxy in self._proxies.values():
            proxy.heal()
        for broker in self._brokers.values():
            broker.resume()
            if not broker.runs:
                await broker.start()

    # -- quiet -------------------------------------------------------------------------------------------------

    async def _quiet(self) -> int:
        """Return when nothing is under way, twice in a row, and nothing has come in between; what was replayed."""
        before: object = None
        while True:
            statuses = await self._statuses()
            for name, subscriber in self._subscribers.items():
                if subscriber.failure is not None:
                    raise RuntimeError(f"{name} does not listen any longer: {subscriber.failure!r}")
            if self._restless_in(statuses):
                before = None
            else:
                now = {name: status["counters"] for name, status in statuses.items()}
                if now == before:
                    return sum(each["duplicates"] for each in now.values())
                before = now
            await asyncio.sleep(LOOK_S)

    async def _statuses(self) -> dict[str, dict[str, Any]]:
        answers = await asyncio.gather(*(client.status() for client in self._observers.values()))
        return dict(zip(self._observers, answers, strict=True))

    async def _restless(self) -> str:
        try:
            statuses = await asyncio.wait_for(self._statuses(), 5.0)
        except TimeoutError:
            return "a broker does not answer"
        return "; ".join(self._restless_in(statuses)) or "publications are not answered"

    def _restless_in(self, statuses: dict[str, dict[str, Any]]) -> list[str]:
        found = []
        for name, status in statuses.items():
            for to, link in status["links"].items():
                if not link["ready"] or link["behind"] or link["in_flight"]:
                    found.append(f"{name} is not through with {to}: {link}")
            for durable, each in status["durables"].items():
                if not each["connected"] or each["behind"] or each["in_flight"]:
                    found.append(f"{name} is not through with {durable}: {each}")
        for name, subscriber in self._subscribers.items():
            if not subscriber.installed.is_set():
                found.append(f"{name} is not subscribed")
        return found


def _link(name: str) -> str:
    return f"{name}-{TREE[name]}"


def _degree(name: str) -> int:
    return bool(TREE[name]) + sum(called == name for called in TREE.values())
