"""What tests of the network share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.network.addresses import Tls
from fairlead_lab.testing.brokers import Brokers, self_signed, wait_until


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with Brokers() as made:
        yield made


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    return wait_until


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def renewable(tmp_path: Path) -> Callable[[str], Tls]:
    """Writes a certificate for a name, each time over the one before."""
    return lambda name: self_signed(tmp_path, name)
