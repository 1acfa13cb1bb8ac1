"""What tests of security share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.network.addresses import Tls
from fairlead_lab.testing.brokers import Brokers, self_signed, wait_until
from fairlead_lab.testing.guarded import Guarded


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with Brokers() as made:
        yield made


@pytest.fixture
def until() -> Callable[[Callable[[], object]], None]:
    return wait_until


@pytest.fixture
def guarded(brokers: Brokers, tmp_path: Path) -> Guarded:
    return Guarded(brokers, tmp_path)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """A certificate of the principal `root` that vouches for itself."""
    return self_signed(tmp_path_factory.mktemp("tls"), "root")
