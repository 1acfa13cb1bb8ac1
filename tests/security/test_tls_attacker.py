"""Whoever asks for less TLS, or shows another certificate, gets nothing; a broker or a client with a hole is
caught."""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from fairlead.network import contexts
from fairlead.network.addresses import Tls
from fairlead_lab.testing.brokers import self_signed
from fairlead_lab.testing.tls_attacker import TlsAttack
from fairlead_lab.testing.web import Web

TRIES = 5_000 if settings.default.max_examples > 100 else 150  # more in a soak
HAPPENS = {"connection", "refusal", "speech in clear", "call of a pretender"}


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """Another certificate of the same name."""
    return self_signed(tmp_path_factory.mktemp("forged"), "root")


@pytest.fixture
def start(tmp_path: Path, certificate: Tls) -> Iterator[Callable[[], Web]]:
    started: list[Web] = []

    def one() -> Web:
        started.append(Web(tmp_path, tls=certificate))
        return started[-1]

    yield one
    for each in started:
        each.close()


def test_nobody_gets_less_than_tls_and_no_credentials_are_seen(
    start: Callable[[], Web], certificate: Tls, forged: Tls
) -> None:
    books = TlsAttack(start(), certificate, forged, 0).run(TRIES)
    assert books.wrong == []
    assert books.came.keys() == HAPPENS


def _lax(purpose: ssl.Purpose, authority: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(purpose, cafile=authority)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
    return context


def _trustful(purpose: ssl.Purpose, authority: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(purpose, cafile=authority)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize("hole", [_lax, _trustful])
def test_a_hole_is_caught(
    start: Callable[[], Web],
    certificate: Tls,
    forged: Tls,
    hole: Callable[[ssl.Purpose, str | None], ssl.SSLContext],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contexts, "_trusting", hole)
    attack = TlsAttack(start(), certificate, forged, 1)
    assert any(attack.run(100).wrong for _ in range(10))
