"""A network of three brokers, of which one serves HTTP, with subscribers; and the console of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fairlead.network import sync
from fairlead_lab.testing.brokers import PATIENCE_S, Brokers

WANTED = {
    "ada": ['symbol = "IBM" and price > 100', "price > 10"],
    "bob": ['symbol = "SAP"'],
    "cy": ["exists alarm"],
}


class Town:
    """A line of brokers: hub (with HTTP), east, far; ada and bob are at far, cy at hub, the desk at east."""

    def __init__(self, running: Any, brokers: Brokers) -> None:
        self.running = running
        self.hub = running.server
        self.east = brokers.start("east", links=(self.hub.url,))
        self.far = brokers.start("far", links=(self.east.url,))
        self._stack = contextlib.ExitStack()
        self.clients = {
            name: self._stack.enter_context(sync.connect(server.url, name=name))
            for name, server in (("ada", self.far), ("bob", self.far), ("cy", self.hub))
        }
        self.queues = {
            (name, text): self._stack.enter_context(self.clients[name].subscribe(text, timeout=PATIENCE_S))
            for name, texts in WANTED.items()
            for text in texts
        }

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(scope="package")
def town(started: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    running = started(None, name="hub")
    with Brokers() as brokers:
        made = Town(running, brokers)
        yield made
        made.close()
