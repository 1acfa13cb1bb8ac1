"""What tests of the network share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from fairlead_lab.testing.brokers import PATIENCE_S, Brokers


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with Brokers() as made:
        yield made


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    """Wait for a condition, with a deadline."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"

    return wait
