"""Webhooks: a durable subscriber whose notifications are posted to a URL, each signed, one after the other.

    Laws
    A notification is accepted when the receiver has answered it with success, or it has failed so often that it is
    dead; no other one is posted before.
    Each attempt has the same id, so a receiver can tell that one comes again, and a signature over id, time and
    body.

The body is a CloudEvent. Id, timestamp and signature are those of Standard Webhooks: HMAC-SHA256 over
`id.timestamp.body`, in Base64. Before the first one, the receiver is asked whether it wants any, as the webhooks
of CloudEvents have it (`OPTIONS`). A receiver that answers with 410 has ended it; one that says `Retry-After` is
asked again then, and others after longer and longer times.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from typing import Any, Final, NamedTuple, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from fairlead.console.cloudevents import STRUCTURED, text_of
from fairlead.errors import NetworkError
from fairlead.model import Notification

__all__ = ["Answer", "Posted", "Sink", "Webhook", "ask", "signature"]

PATIENCE_S: Final = 30.0
FIRST_S, LONGEST_S = 1.0, 600.0
"""The first time to wait before an attempt is repeated, which doubles, and the longest one."""
GONE: Final = 410
ORIGIN, ALLOWED = "WebHook-Request-Origin", "WebHook-Allowed-Origin"


class Answer(NamedTuple):
    """The answer of a receiver; the status 0: there was none, and why."""

    status: int
    headers: Mapping[str, str]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Sink:
    """The URL that notifications are posted to, and the secret that signs them; an empty one signs none."""

    url: str
    secret: bytes = b""
    origin: str = "fairlead"

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise NetworkError(f"{self.url}: notifications are posted to an http:// or https:// URL")


class Posted(NamedTuple):
    """The outcome of posting a notification."""

    is_accepted: bool
    attempts: int
    reason: str = ""
    has_ended: bool = False
    """Whether the receiver wants nothing any longer."""


class Taken(Protocol):
    """A delivery, as the synchronous client has it."""

    @property
    def notification(self) -> Notification: ...

    def accept(self) -> None: ...

    def reject(self, *, again: bool, reason: str) -> None: ...

    def renew(self) -> None: ...


class _Straight(HTTPRedirectHandler):
    """Follows nobody: a notification is for the URL that was given."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        return None


def ask(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
    """Send a request to a receiver."""
    request = Request(url, body, dict(headers), method=method)
    try:
        with build_opener(_Straight).open(request, timeout=PATIENCE_S) as answer:
            return Answer(answer.status, _lower(answer.headers))
    except HTTPError as error:
        with error:
            return Answer(error.code, _lower(error.headers), str(error.reason))
    except (OSError, URLError, HTTPException) as error:
        return Answer(0, {}, str(getattr(error, "reason", error)) or type(error).__name__)


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def signature(secret: bytes, id: str, timestamp: int, body: bytes) -> str:
    """The signature of a body, as Standard Webhooks has it."""
    signed = hmac.new(secret, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


class Webhook:
    """The posting of one subscriber's notifications. `clock` is in seconds, `wait` waits for some."""

    def __init__(
        self,
        sink: Sink,
        *,
        attempts_max: int,
        clock: Callable[[], float],
        wait: Callable[[float], object],
        send: Callable[[str, str, Mapping[str, str], bytes | None], Answer] = ask,
    ) -> None:
        self.sink, self._attempts_max = sink, attempts_max
        self._clock, self._wait, self._send = clock, wait, send

    def check(self) -> None:
        """Ask the receiver whether it wants notifications; NetworkError: it does not say so."""
        answer = self._send("OPTIONS", self.sink.url, {ORIGIN: self.sink.origin}, None)
        allowed = [each.strip() for each in answer.headers.get(ALLOWED.lower(), "").split(",")]
        if not 200 <= answer.status < 300 or not {"*", self.sink.origin} & {*allowed}:
            said = f"status {answer.status}" if answer.status else answer.reason
            raise NetworkError(
                f"{self.sink.url} does not allow webhooks of {self.sink.origin!r} ({said})",
                hint=f"it answers OPTIONS with {ALLOWED}: {self.sink.origin}; --unasked leaves the question out",
            )

    def post(self, delivery: Taken) -> Posted:
        """Post a delivery until the receiver has it, or it is dead; it is then settled, unless the receiver has
        ended it all."""
        body = text_of(delivery.notification).encode()
        wait_s = FIRST_S
        for attempt in range(1, self._attempts_max + 1):
            answer = self._send("POST", self.sink.url, self._headers(delivery.notification, body), body)
            if 200 <= answer.status < 300:
                delivery.accept()
                return Posted(True, attempt)
            reason = f"{answer.status} {answer.reason}".strip() if answer.status else answer.reason
            if answer.status == GONE:
                return Posted(False, attempt, reason, has_ended=True)
            if attempt < self._attempts_max:
                delivery.renew()
                self._wait(_retry_after(answer) or wait_s)
                wait_s = min(2 * wait_s, LONGEST_S)
        delivery.reject(again=True, reason=f"{self.sink.url}: {reason}")  # the only attempt that it has
        return Posted(False, self._attempts_max, reason)

    def run(self, deliveries: Iterator[Taken]) -> Iterator[Posted]:
        """Post one after the other, until there are none, or the receiver wants none."""
        for delivery in deliveries:
            posted = self.post(delivery)
            yield posted
            if posted.has_ended:
                return

    def _headers(self, notification: Notification, body: bytes) -> dict[str, str]:
        id = f"{quote(notification.producer, safe='')}/{quote(notification.id or '', safe='')}"
        headers = {"Content-Type": STRUCTURED, ORIGIN: self.sink.origin, "webhook-id": id}
        if self.sink.secret:
            now = int(self._clock())
            headers["webhook-timestamp"] = str(now)
            headers["webhook-signature"] = signature(self.sink.secret, id, now, body)
        return headers


def _retry_after(answer: Answer) -> float | None:
    """The seconds after which a receiver wants to be asked again, at most the longest time."""
    given = answer.headers.get("retry-after", "").strip()
    return min(float(given), LONGEST_S) if given.isdecimal() and given != "0" else None
