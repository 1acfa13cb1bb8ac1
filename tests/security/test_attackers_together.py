"""All attackers, one after the other: 140,000 tries over the protocol, MQTT, HTTP, WebSockets and TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from fairlead.network.addresses import Tls
from fairlead_lab.testing.attacker import Attack, Books
from fairlead_lab.testing.brokers import self_signed
from fairlead_lab.testing.http_attacker import POLICY_TEXT, HttpAttack
from fairlead_lab.testing.mqtt_attacker import MqttAttack
from fairlead_lab.testing.tls_attacker import TlsAttack
from fairlead_lab.testing.web import Web
from fairlead_lab.testing.wide_attacker import WideAttack

TRIES: Final = {
    "protocol": 60_000,
    "wide": 40_000,
    "mqtt": 20_000,
    "http": 12_000,
    "https": 4_000,
    "tls": 4_000,
}
STEP: Final = 2_000


@pytest.fixture
def attackers(tmp_path: Path, certificate: Tls) -> dict[str, Callable[[int], Books]]:
    """By way, an attack of so many tries with a seed, on a broker of its own."""

    def web(name: str, policy: str, tls: Tls | None) -> Web:
        path = tmp_path / name
        path.mkdir()
        return Web(path, policy, tls=tls)

    def http(seed: int) -> Books:
        made = web(f"http{seed}", POLICY_TEXT, None)
        try:
            return HttpAttack(made, seed).run(STEP)
        finally:
            made.close()

    def https(seed: int) -> Books:
        made = web(f"https{seed}", POLICY_TEXT, certificate)
        try:
            context = ssl.create_default_context(cafile=certificate.authority)
            return HttpAttack(made, seed, context).run(STEP)
        finally:
            made.close()

    def tls(seed: int) -> Books:
        made = web(f"tls{seed}", POLICY_TEXT, certificate)
        try:
            return TlsAttack(made, certificate, self_signed(tmp_path / f"tls{seed}", "root"), seed).run(STEP)
        finally:
            made.close()

    return {
        "protocol": lambda seed: Attack(seed).run(STEP),
        "wide": lambda seed: WideAttack(seed).run(STEP),
        "mqtt": lambda seed: MqttAttack(tmp_path / f"mqtt{seed}", seed).run(STEP),
        "http": http,
        "https": https,
        "tls": tls,
    }


@pytest.mark.soak
def test_more_than_a_hundred_thousand_tries_and_nothing_wrong(
    attackers: dict[str, Callable[[int], Books]],
) -> None:
    tried, wrong = 0, []
    for way, tries in TRIES.items():
        for seed in range(tries // STEP):
            books = attackers[way](seed)
            tried += books.tried.total()
            wrong += [(way, seed, each) for each in books.wrong]
            print(way, seed, tried, len(wrong), flush=True)
    assert wrong == []
    assert tried >= 140_000
