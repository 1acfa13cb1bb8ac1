"""The cost of an access policy: publications and subscriptions at a node, in turns with one that has no policy.

    python -m fairlead_lab.bench.policies

Processor time of nodes without sockets and without a log. In each round every variant does the same, in an order
that rotates, so that whatever else the machine does meets all alike. The ratio of a round is to the node without a
policy in the same round: the median of all rounds is told, with the middle half of them.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from fairlead.broker import Broker, Settings
from fairlead.model import Notification
from fairlead.model.packed import pack
from fairlead.network import wire
from fairlead.network.client_sessions import ClientSession
from fairlead.network.node import Node
from fairlead.routing import STRATEGIES
from fairlead.rules.access import Access, nobody
from fairlead.security import AccessPolicy, Principal

__all__ = ["VARIANTS", "measured"]

MANY: Final = 10_000
BATCH, BATCHES, LONE, SUBSCRIPTIONS = 100, 100, 3_000, 200
SYMBOLS: Final = tuple(f"S{number}" for number in range(50))
Said = list[tuple[int, bytes]]


def _one() -> dict[str, Any]:
    return {"all": {"members": ["ada"], "publish": ["price > 0"], "subscribe": ["price > 0"]}}


def _roles() -> dict[str, Any]:
    others = {
        f"r{number}": {"members": [f"p{number}"], "publish": [f'symbol = "T{number}"'], "subscribe": ["true"]}
        for number in range(MANY - 1)
    }
    return {**_one(), **others}


def _filters() -> dict[str, Any]:
    symbols = [*SYMBOLS, *(f"T{number}" for number in range(MANY - len(SYMBOLS)))]
    rules = [f'symbol = "{each}" and price > 0' for each in symbols]
    return {"all": {"members": ["ada"], "publish": rules, "subscribe": rules}}


VARIANTS: Final[Mapping[str, Callable[[], dict[str, Any]] | None]] = {
    "no policy": None,
    "one role": _one,
    "10,000 roles": _roles,
    "10,000 filters of one": _filters,
}


class _Peer:
    """A connection that takes everything."""

    def write(self, data: bytes) -> None:
        """It is gone."""

    def buffered(self) -> int:
        return 0

    def close(self) -> None:
        """It has ended."""

    pause = resume = close


class _Bench:
    """A node, one client that publishes, and one that gets what costs more than 500."""

    def __init__(self, policy: AccessPolicy | None) -> None:
        rules = [] if policy is None else [Access(policy, nobody)]
        self.node = Node(Broker("hub", Settings(STRATEGIES["covering"](0.1)), rules=rules), None, life="1")
        self.number = 0
        self.publisher, self.subscriber = self._client("ada"), self._client("ada~2")
        self.say(self.subscriber, [wire.control(wire.Subscribe(1, "s", 'symbol = "S1" and price > 500'))])

    def _client(self, name: str) -> ClientSession:
        hello = wire.Hello(wire.VERSION, "client", name, life="x", log="", routing="filters")
        session = self.node.greet(_Peer(), hello, 1, Principal("ada"))
        assert isinstance(session, ClientSession)
        return session

    def said(self, frames: list[bytes]) -> Said:
        return [*wire.Frames().feed(b"".join(frames))]

    def say(self, session: ClientSession, frames: list[bytes]) -> None:
        self.hear(session, self.said(frames))

    def hear(self, session: ClientSession, said: Said) -> None:
        self.node.receive(session, said, 2)
        self.node.flush()

    def publications(self, price: int, count: int, *, numbered: bool) -> list[bytes]:
        frames = []
        for _ in range(count):
            self.number += 1
            symbol = "S1" if price > 500 else SYMBOLS[self.number % 50]
            content = Notification.of({"symbol": symbol, "price": price + self.number % 90})
            packed = pack(replace(content, id=f"{self.number}", producer="ada"))
            frames.append(wire.publish(self.number if numbered else 0, packed))
        return frames


def _in_batches(price: int, *, numbered: bool) -> Callable[[_Bench], float]:
    def run(bench: _Bench) -> float:
        batches = [bench.said(bench.publications(price, BATCH, numbered=numbered)) for _ in range(BATCHES)]
        begin = time.process_time()
        for each in batches:
            bench.hear(bench.publisher, each)
        return (time.process_time() - begin) / BATCH / BATCHES

    return run


def _alone(price: int, *, numbered: bool) -> Callable[[_Bench], float]:
    def run(bench: _Bench) -> float:
        every = [bench.said([each]) for each in bench.publications(price, LONE, numbered=numbered)]
        begin = time.process_time()
        for each in every:
            bench.hear(bench.publisher, each)
        return (time.process_time() - begin) / LONE

    return run


def _subscribing(bench: _Bench) -> float:
    bench.number += SUBSCRIPTIONS
    every = [
        bench.said(
            [
                wire.control(
                    wire.Subscribe(
                        each + 2, f"q{each}", f'symbol = "{SYMBOLS[each % 50]}" and price > {each}'
                    )
                )
            ]
        )
        for each in range(bench.number, bench.number + SUBSCRIPTIONS)
    ]
    begin = time.process_time()
    for each in every:
        bench.hear(bench.subscriber, each)
    taken = (time.process_time() - begin) / SUBSCRIPTIONS
    for number in range(bench.number, bench.number + SUBSCRIPTIONS):
        bench.say(bench.subscriber, [wire.control(wire.Unsubscribe(number, f"q{number}"))])
    return taken


WORK: Final[Mapping[str, Callable[[_Bench], float]]] = {
    "a publication that a client gets, in batches of 100": _in_batches(501, numbered=False),
    "the same that comes alone": _alone(501, numbered=False),
    "a publication that nobody gets, acknowledged, in batches": _in_batches(1, numbered=True),
    "the same, best effort": _in_batches(1, numbered=False),
    "a publication that nobody gets, best effort, that comes alone": _alone(1, numbered=False),
    "a subscription to one symbol and a price": _subscribing,
}


def measured(rounds: int = 21) -> dict[str, dict[str, tuple[float, float, float, float]]]:
    """By work and variant: the median time in seconds, and the quartiles of the ratios."""
    policies = {
        name: None if roles is None else AccessPolicy.of({"roles": roles()})
        for name, roles in VARIANTS.items()
    }
    return {work: _compared(run, policies, rounds) for work, run in WORK.items()}


def _compared(
    run: Callable[[_Bench], float], policies: Mapping[str, AccessPolicy | None], rounds: int
) -> dict[str, tuple[float, float, float, float]]:
    """One kind of work, at nodes of its own."""
    benches = {name: _Bench(policy) for name, policy in policies.items()}
    times: dict[str, list[float]] = {name: [] for name in benches}
    names = [*benches]
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for number in range(rounds + 1):
            first = number % len(names)
            for name in (*names[first:], *names[:first]):
                taken = run(benches[name])
                if number:  # the first one fills what is remembered
                    times[name].append(taken)
            gc.collect()
    finally:
        gc.enable()
        gc.unfreeze()
    return {name: _summary(each, times["no policy"]) for name, each in times.items()}


def _summary(own: list[float], base: list[float]) -> tuple[float, float, float, float]:
    low, middle, high = statistics.quantiles([one / other for one, other in zip(own, base, strict=True)], n=4)
    return statistics.median(own), low, middle, high


def main() -> None:
    """Print the table."""
    for work, each in measured(int(sys.argv[1]) if len(sys.argv) > 1 else 21).items():
        print(work)
        for name, (taken, low, middle, high) in each.items():
            print(f"    {name:24} {taken * 1e6:8.2f} us   {middle:.3f} ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
