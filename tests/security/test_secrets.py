"""Planted secrets are in nothing that a broker and its clients write, say, or show in the list of processes."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import mqtt5

from fairlead.security.passwords import write_entry
from fairlead_lab.testing.guarded import POLICY, jwks, token

PASSWORD = "planted-5d1c"
CONTENT = "planted-content-77"
BROKER = """
name = "hub"
listen = "127.0.0.1:0"
data = "data"
[security]
policy = "policy.toml"
passwords = "passwords"
tokens = "keys.json"
log = "access.jsonl"
"""


def processes() -> str:
    """The command lines of all processes of this machine, as `ps` shows them."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(each.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:  # it has ended
            continue
    return "\n".join(found)


def look_elsewhere(said: str, secret: str) -> None:
    """Visit the broker's pages and its MQTT, with the right credentials and with wrong ones."""
    shown = b64encode(f"nyse:{PASSWORD}".encode()).decode()
    http = re.search(r"http://([\d.]+):(\d+)", said)
    mqtt = re.search(r"mqtt://([\d.]+):(\d+)", said)
    assert http is not None
    assert mqtt is not None
    for credentials in (f"Bearer {secret}", f"Bearer {secret}x", f"Basic {shown}", f"Basic {shown}x"):
        for path in ("/console", "/console/scopes", "/status", f"/events?filter={CONTENT}", "/metrics"):
            connection = HTTPConnection(http[1], int(http[2]), timeout=30)
            connection.request(
                "POST" if "events" in path else "GET", path, headers={"Authorization": credentials}
            )
            answer = connection.getresponse().read().decode("utf-8", "replace")
            assert PASSWORD not in answer
            assert secret not in answer
            connection.close()
    for name, password in (
        ("nyse", PASSWORD),
        ("nyse", f"{PASSWORD}x"),
        (None, secret),
        (None, f"{secret}x"),
    ):
        packet = mqtt5.ConnectPacket("phone", username=name, password=password.encode(), clean_start=True)
        published = mqtt5.PublishPacket("quotes", CONTENT.encode(), qos=mqtt5.QoS(1), packet_id=1)
        with socket.create_connection((mqtt[1], int(mqtt[2])), 30) as connected:
            connected.sendall(packet.write() + published.write() + mqtt5.DisconnectPacket().write())
            while connected.recv(1 << 16):
                pass


def test_planted_secrets_are_nowhere_after_a_whole_run_of_processes(
    tmp_path: Path, until: Callable[[Callable[[], object]], None]
) -> None:
    secret, jwk = token("ada"), jwks()
    write_entry(tmp_path / "passwords", "nyse", PASSWORD)
    for name, text in (
        ("broker.toml", BROKER),
        ("policy.toml", POLICY),
        ("keys.json", jwk),
        ("ada.token", secret),
    ):
        (tmp_path / name).write_text(text)
    seen: list[str] = []
    started: list[subprocess.Popen[bytes]] = []
    fairlead = [sys.executable, "-m", "fairlead"]

    def start(name: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        with open(tmp_path / f"{name}.said", "wb") as said:
            made = subprocess.Popen(
                [*fairlead, *words],
                cwd=tmp_path,
                stdout=said,
                stderr=said,
                env={**os.environ, **environment},
            )
        started.append(made)
        return made

    def said(name: str) -> str:
        return (tmp_path / f"{name}.said").read_text()

    def ends(name: str, *words: str, **environment: str) -> int:
        made = start(name, *words, **environment)
        while made.poll() is None:
            seen.append(processes())
            time.sleep(0.1)
        return made.returncode

    try:
        start("hub", "broker", "run", "-c", "broker.toml", "--verbose", "--http", ":0", "--mqtt", ":0")
        until(lambda: "listens at" in said("hub") and "http://" in said("hub") and "mqtt://" in said("hub"))
        url = said("hub").partition("fairlead://")[2].split(",")[0].split()[0]
        at = ("-b", f"fairlead://{url}")
        start("sub", "sub", *at, "--token-file", "ada.token", "--durable", "desk-1", "-n", "1", "true")
        until(lambda: "subscribed" in said("sub"))
        right, wrong = {"FAIRLEAD_PASSWORD": PASSWORD}, {"FAIRLEAD_PASSWORD": f"{PASSWORD}x"}
        assert ends("pub", "pub", *at, "--user", "nyse", "symbol=IBM", **right) == 0
        assert ends("refused", "pub", *at, "--user", "nyse", f"symbol={CONTENT}", **right) == 3
        assert ends("wrong", "pub", *at, "--user", "nyse", "symbol=IBM", **wrong) == 2
        look_elsewhere(said("hub"), secret)
        assert ends("inspect", "top", "--once", *at, "--token-file", "ada.token") == 2
        assert started[1].wait(30) == 0
    finally:
        for each in started:
            each.terminate()
            each.wait(30)
    assert any("--durable desk-1" in each for each in seen)  # so the list is one of those processes
    kept = {"keys.json", "ada.token"}
    written = {
        str(file.relative_to(tmp_path)): file.read_bytes()
        for file in tmp_path.rglob("*")
        if file.is_file() and file.name not in kept
    }
    assert {"access.jsonl", "hub.said", "wrong.said"} <= written.keys()
    for hidden in (PASSWORD, secret, secret.split(".")[2]):
        assert not [name for name, text in written.items() if hidden.encode() in text]
        assert not any(hidden in each for each in seen)
    for name in ("access.jsonl", "hub.said"):  # what a client says itself is its own
        assert CONTENT.encode() not in written[name]
