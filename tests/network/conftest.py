"""What tests of the network share."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.network.addresses import Tls
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


def self_signed(directory: Path, name: str = "hub") -> Tls:
    """A certificate that vouches for itself, for this name and localhost."""
    shown, key = directory / "certificate.pem", directory / "key.pem"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,DNS:east"]
    subprocess.run(
        ["openssl", "req", "-x509", *kind, *subject, "-keyout", key, "-out", shown],
        check=True,
        capture_output=True,
    )
    return Tls(str(shown), str(key), str(shown))


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return self_signed(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def renewable(tmp_path: Path) -> Callable[[str], Tls]:
    """Writes a certificate for a name, each time over the one before."""
    return lambda name: self_signed(tmp_path, name)
