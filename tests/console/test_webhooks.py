"""Webhooks: each is posted once at a time, signed, until the receiver has it, or it is dead."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead import sync
from fairlead.cli import main
from fairlead.cli.webhook import _secret
from fairlead.console.webhook import Answer, Sink, Webhook, signature
from fairlead.errors import BadInput, NetworkError
from fairlead.model import Notification

URL = "https://shop.example/hook"


@dataclass
class Delivery:
    """A delivery that notes what becomes of it."""

    notification: Notification
    became: list[str] = field(default_factory=list)

    def accept(self) -> None:
        self.became.append("accepted")

    def reject(self, *, again: bool, reason: str) -> None:
        self.became.append(f"rejected {reason}")

    def renew(self) -> None:
        self.became.append("renewed")


@dataclass
class Receiver:
    """Answers as it was told, and notes what comes and when."""

    answers: list[Answer]
    now: float = 1_000.0
    came: list[tuple[float, str, Mapping[str, str], bytes | None]] = field(default_factory=list)

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        self.came.append((self.now, method, headers, body))
        return self.answers.pop(0) if self.answers else Answer(204, {})

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def webhook(self, attempts_max: int = 4, secret: bytes = b"") -> Webhook:
        sink = Sink(URL, secret)
        return Webhook(
            sink, attempts_max=attempts_max, clock=lambda: self.now, wait=self.wait, send=self.send
        )


def delivery(x: int = 1) -> Delivery:
    return Delivery(Notification.of({"x": x, "producer": "p q", "id": f"{x}"}))


@given(st.lists(st.sampled_from([0, 200, 204, 429, 500, 503]), max_size=12), st.integers(1, 4))
def test_one_is_posted_until_it_is_taken_or_dead_and_then_the_next(statuses: list[int], most: int) -> None:
    receiver = Receiver([Answer(status, {}) for status in statuses])
    deliveries = [delivery(x) for x in range(5)]
    posted = [*receiver.webhook(most).run(iter(deliveries))]
    left = [*statuses]
    expected = []
    for _ in deliveries:
        tried = 0
        while tried < most:
            tried += 1
            status = left.pop(0) if left else 204
            if status in (200, 204):
                break
        expected.append((status in (200, 204), tried))
    assert [(each.is_accepted, each.attempts) for each in posted] == expected
    for each, (is_accepted, _) in zip(deliveries, expected, strict=True):
        ends = [end for end in each.became if end != "renewed"]
        assert [end.partition(" ")[0] for end in ends] == ["accepted" if is_accepted else "rejected"]
    order = [json.loads(body or b"")["id"] for _, _, _, body in receiver.came]
    assert order == sorted(order)


def test_attempts_are_ever_further_apart_and_as_the_receiver_says() -> None:
    receiver = Receiver([Answer(500, {}), Answer(0, {}, "refused"), Answer(503, {"retry-after": "7"})])
    receiver.webhook().post(delivery())
    assert [at - 1_000 for at, *_ in receiver.came] == [0, 1, 3, 10]
    far = Receiver([Answer(429, {"retry-after": "100000"})])
    far.webhook().post(delivery())
    assert [at - 1_000 for at, *_ in far.came] == [0, 600]


def test_a_signature_is_over_id_time_and_body_and_the_id_stays() -> None:
    receiver = Receiver([Answer(500, {})])
    receiver.webhook(secret=b"key").post(delivery())
    ids = set()
    for at, _, headers, body in receiver.came:
        assert body is not None
        ids.add(headers["webhook-id"])
        signed = f"p%20q/1.{int(at)}.".encode() + body
        wanted = base64.b64encode(hmac.new(b"key", signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{wanted}"
        assert headers["webhook-timestamp"] == str(int(at))
    assert ids == {"p%20q/1"}
    assert signature(b"key", "1", 1, b"a") != signature(b"key", "1", 1, b"b")
    unsigned = Receiver([])
    unsigned.webhook().post(delivery())
    assert "webhook-signature" not in unsigned.came[0][2]


def test_a_receiver_that_is_gone_ends_it_and_the_delivery_is_not_settled() -> None:
    receiver = Receiver([Answer(410, {}, "Gone")])
    first, second = delivery(1), delivery(2)
    [posted] = receiver.webhook().run(iter([first, second]))
    assert (posted.has_ended, first.became, second.became) == (True, [], [])


def test_a_receiver_says_first_whether_it_wants_any() -> None:
    for answer in (
        Answer(200, {"webhook-allowed-origin": "*"}),
        Answer(204, {"webhook-allowed-origin": "fairlead"}),
    ):
        Receiver([answer]).webhook().check()
    for refused in (Answer(200, {}), Answer(404, {"webhook-allowed-origin": "*"}), Answer(0, {}, "no route")):
        with pytest.raises(NetworkError, match="does not allow webhooks of 'fairlead'"):
            Receiver([refused]).webhook().check()
    with pytest.raises(NetworkError, match="http:// or https://"):
        Sink("file:///etc/passwd")


def test_a_secret_is_as_it_is_or_as_the_standard_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for written, secret in [("key\n", b"key"), ("whsec_" + base64.b64encode(b"key").decode(), b"key")]:
        path.write_text(written)
        assert _secret(str(path)) == secret
    for written in ("", "whsec_?"):
        path.write_text(written)
        with pytest.raises(BadInput, match="--secret-file"):
            _secret(str(path))
    with pytest.raises(BadInput, match="--secret-file"):
        _secret(str(tmp_path / "nothing"))
    assert _secret(None) == b""


# -- over sockets ----------------------------------------------------------------------------------------------


@pytest.fixture
def shop() -> Iterator[Any]:
    """A receiver that fails on the first try of each, and redirects what it does not know."""

    class Handler(BaseHTTPRequestHandler):
        def do_OPTIONS(self) -> None:
            self.send_response(200)
            self.send_header("WebHook-Allowed-Origin", "*")
            self.end_headers()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.came.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]
            self.send_response(307 if self.path == "/elsewhere" else 204)
            if self.path == "/elsewhere":
                self.send_header("Location", "/hook")
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.came = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_command_posts_what_a_durable_subscriber_gets(
    broker: Any, shop: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text("secret\n")
    at = f"http://127.0.0.1:{shop.server_port}"
    command = ["webhook", "exists hooked", "--durable", "hook", "-b", broker.server.url, "--lease", "1h"]
    with sync.connect(broker.server.url, name="shop") as client:
        with client.subscribe("exists hooked", durable="hook", attempts_max=1):
            pass
        for x in (1, 2):
            client.publish({"hooked": x})
        assert main([*command, "--to", f"{at}/hook", "--secret-file", str(tmp_path / "key"), "-n", "2"]) == 0
        bodies = [json.loads(body) for _, _, body in shop.came]
        assert [each["data"]["hooked"] for each in bodies] == [1, 2]
        headers = {name.lower(): value for name, value in shop.came[0][1].items()}
        signed = signature(
            b"secret", headers["webhook-id"], int(headers["webhook-timestamp"]), shop.came[0][2]
        )
        assert headers["webhook-signature"] == signed
        client.publish({"hooked": 3})
        with client.subscribe('type = "dead" and subscriber = "hook"') as letters:
            ended = [*command, "--to", f"{at}/elsewhere", "--attempts-max", "1", "-n", "1"]
            assert main(ended) == 0
            letter = letters.get(20)
        assert (letter.get("notification.hooked"), "307" in str(letter.get("reason"))) == (3, True)
        assert shop.came[-1][0] == "/elsewhere", "a redirect is not followed"
        client.forget("hook")
    assert "not taken after 1 attempts: 307" in capsys.readouterr().err
