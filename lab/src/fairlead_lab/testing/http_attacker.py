"""A seeded client that tries everything over HTTP, as every principal and as none; with books of the outcome.

It speaks with a broker over sockets, as bytes: forged and expired tokens, producers and durable names of others,
requests hidden in requests, paths that climb, headers that proxies believe, pages of other sites. What may happen
is plain Python (`attacker.Allowed`), and the broker's log is compared with it in the end.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final
from urllib.parse import quote, urlencode

import jwt

from fairlead.errors import FairleadError
from fairlead.model import Notification
from fairlead_lab.testing.attacker import (
    DURABLES,
    FILTERS,
    MEMBERS,
    NAMES,
    POLICY,
    READS,
    SYMBOLS,
    WRITES,
    Allowed,
    Books,
)
from fairlead_lab.testing.guarded import KEY, token
from fairlead_lab.testing.web import PASSWORD, Web

__all__ = ["POLICY_TEXT", "HttpAttack"]

POLICY_TEXT: Final = "\n".join(
    f"[roles.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in role.items())
    for name, role in POLICY["roles"].items()
)
"""The policy of the attack as a file."""
PATIENCE_S: Final = 20.0
STREAMS_MAX: Final = 6
TOKENS: Final = MEMBERS[:-1]
STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})")
EVIL: Final = (
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Host": "evil.example"},
    {"Host": "evil.example", "Origin": "http://evil.example"},
)
"""Headers that a browser sends for pages of other sites."""
PROXIES: Final = (
    {"X-Forwarded-User": "root"},
    {"X-Remote-User": "root"},
    {"X-Original-URL": "/status"},
    {"X-Rewrite-URL": "/status"},
    {"X-HTTP-Method-Override": "DELETE"},
    {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1;proto=https"},
    {"X-SSL-Client-S-DN": "CN=root", "X-Client-Cert": "root"},
    {"Proxy-Authorization": "Basic cm9vdDpyb290"},
    {"Cookie": "user=root; session=root"},
)
"""Headers that proxies set, and a client may not."""
PATHS: Final = (
    "/console",
    "/console/",
    "/console/overlay",
    "/console/subscriptions",
    "/console/subscriptions/results?text=IBM&how=text",
    "/console/durables",
    "/console/scopes",
    "/console/scopes/live",
    "/console/../console/durables",
    "/channels",
    "/status",
    "/tables",
    "/metrics",
    "//status",
    "/status/",
    "/%73tatus",
    "/./status",
    "/events/../status",
    "/healthz/../status",
    "/healthz/..%2fstatus",
    "/subscriptions/../status",
    "/STATUS",
    "/status;x=1",
    "/status%00",
    "/status%20",
    "http://127.0.0.1/status",
    "http://root@127.0.0.1/tables",
    "/../../../../etc/passwd",
    "/..%2f..%2f..%2fetc%2fpasswd",
    "/subscriptions/..%2f..%2f..%2fetc%2fpasswd",
)
OPEN_PAGES: Final = ("/console/scopes",)
"""Pages for everybody who may connect: what they have of the network comes by other requests."""
BYE: Final = re.compile(rb'event: bye|{"bye"')
"""The end of a stream, over a connection that may go on."""
TELLING: Final = re.compile(rb'"policy"|"subscriptions"|fairlead_|root:x:|"advertisements"')
"""Texts that only those who may inspect get to see, and files of the machine."""


@dataclass
class _Stream:
    """A stream that is open: whose it is, and what it asked for."""

    principal: str
    filter: str
    durable: str
    connection: socket.socket
    received: bytes = b""


@dataclass
class _Answer:
    status: int
    body: bytes = b""
    others: list[int] = field(default_factory=list)
    """The statuses of further answers on the same connection."""


class HttpAttack:
    """One attack, which a seed decides about, on a broker whose policy is `POLICY_TEXT`; over TLS with a context.

    Requests are hidden in others without TLS only: that takes connections that are closed in one direction.
    """

    def __init__(self, web: Web, seed: int, context: ssl.SSLContext | None = None) -> None:
        self._web, self._random, self._context = web, Random(seed), context
        self._attempts = [each for each in self._ATTEMPTS if context is None or each.__name__ != "_smuggle"]
        self.books, self.allowed = Books(), Allowed()
        self._policy = web.server.node.guard.policy
        self._streams: list[_Stream] = []
        self._published: list[tuple[str, str]] = []
        self._number = 0
        self._seed = seed
        self._tokens = {name: token(name, jti=f"{name}-1") for name in TOKENS}

    def run(self, tries: int) -> Books:
        """Try so many times, then read the log."""
        try:
            for _ in range(tries):
                attempt = self._random.choice(self._attempts)
                self.books.tried[attempt.__name__] += 1
                attempt(self)
                self._look()
        finally:
            for each in self._streams:
                each.connection.close()
            self._streams.clear()
            self._change_policy(nobody=True)
        for notification in self._web.published():
            self._check_published(notification)
        return self.books

    # -- who --------------------------------------------------------------------------------------------------

    def _credentials(self) -> tuple[str, list[str]]:
        """The principal that a request acts for, if any; and its Authorization headers."""
        name = self._random.choice(TOKENS)
        shown = self._tokens[name]
        if self._random.random() < 0.75:
            return name, [f"{self._random.choice(('Bearer', 'bearer', 'BEARER '))} {shown}"]
        return self._random.choice(
            (
                lambda: ("", []),
                lambda: ("", [f"Bearer {token(name, lasts_s=-1)}"]),
                lambda: ("", [f"Bearer {token(name, key=b'another key of thirty-two bytes!')}"]),
                lambda: ("", [f"Bearer {token(name, aud='another')}"]),
                lambda: ("", [f"Bearer {token(name, nbf=time.time() + 600)}"]),
                lambda: ("", [f"Bearer {_unsigned(name)}"]),
                lambda: ("", [f"Bearer {_without_expiry(name)}"]),
                lambda: ("", [f"Bearer {_other_subject(shown, 'root')}"]),
                lambda: ("", [f"Bearer {shown[:-2]}"]),
                lambda: ("", [f"Internal {shown}"]),
                lambda: ("", [f"Basic {b64encode(f'{name}:{shown}'.encode()).decode()}"]),
                lambda: ("", [f"Bearer {shown}", f"Bearer {self._tokens['root']}"]),
                lambda: ("ada", [f"Basic {b64encode(f'ada:{PASSWORD}'.encode()).decode()}"]),
            )
        )()

    def _page(self) -> dict[str, str]:
        """Headers that say too much: often none, sometimes those of another site's page."""
        chance = self._random.random()
        if chance < 0.1:
            return self._random.choice(EVIL)
        return self._random.choice(PROXIES) if chance < 0.3 else {}

    def _is_evil(self, page: Mapping[str, str]) -> bool:
        """Whether such a request is refused. With TLS, the certificate has shown whose host it is."""
        is_of_another_site = "Origin" in page or "Sec-Fetch-Site" in page
        return is_of_another_site or (self._context is None and bool(page.get("Host")))

    # -- what -------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        who, credentials = self._credentials()
        page = self._page()
        events = [self._event(who) for _ in range(self._random.choice((1, 1, 1, 2, 3)))]
        path, media, body, headers = self._random.choice(
            (self._as_records, self._as_structured, self._as_batch, self._as_binary)
        )(events)
        answer = self._ask("POST", path, credentials, {"Content-Type": media, **headers, **page}, body)
        if answer.status in (200, 202):
            allowed = not self._is_evil(page) and all(self._may_write(who, each) for each in events)
            self.books.check("publication", allowed=allowed, details=(who, page, events))
            self._published += [(str(each.get("producer", who)), str(each["id"])) for each in events]
            del self._published[:-50]

    def _event(self, who: str) -> dict[str, Any]:
        self._number += 1
        event: dict[str, Any] = {
            "id": f"{self._seed}-{self._number}",
            "symbol": self._random.choice((*SYMBOLS, *SYMBOLS, {"nested": "IBM"}, None)),
            "by": who,
            "n": self._random.choice((1, 4, 1 << 70)),
        }
        if who in WRITES and self._random.random() < 0.6:
            return {**event, "symbol": self._random.choice(tuple(WRITES[who])), "n": 1}
        if self._random.random() < 0.4:
            event["producer"] = self._random.choice(tuple(filter(str.isprintable, filter(None, NAMES))))
        if self._random.random() < 0.1:
            event["type"] = "scope change"
        return event

    def _as_records(self, events: list[dict[str, Any]]) -> tuple[str, str, str, dict[str, str]]:
        return "/events", "application/json", json.dumps(events), {}

    def _as_structured(self, events: list[dict[str, Any]]) -> tuple[str, str, str, dict[str, str]]:
        del events[1:]
        return "/events", "application/cloudevents+json", json.dumps(_cloud_event(events[0])), {}

    def _as_batch(self, events: list[dict[str, Any]]) -> tuple[str, str, str, dict[str, str]]:
        content = json.dumps([_cloud_event(each) for each in events])
        return "/events", "application/cloudevents-batch+json", content, {}

    def _as_binary(self, events: list[dict[str, Any]]) -> tuple[str, str, str, dict[str, str]]:
        del events[1:]
        given = _cloud_event(events[0])
        data = given.pop("data")
        headers = {f"ce-{name}": quote(str(value), safe="~ ") for name, value in given.items()}
        return "/events", "application/json", json.dumps(data), headers

    def _guess(self) -> None:
        """Try an identity that was published, to learn that it was."""
        if not self._published:
            return
        producer, id = self._random.choice(self._published)
        who, credentials = self._credentials()
        event = {"id": id, "producer": producer, "symbol": "IBM", "by": who, "n": 1}
        answer = self._ask(
            "POST", "/events", credentials, {"Content-Type": "application/json"}, json.dumps(event)
        )
        if b'"duplicate": true' in answer.body or b'"duplicate":true' in answer.body:
            owns = self.allowed.owns(who, "producers", producer)
            self.books.check("duplicate", allowed=owns, details=(who, producer, id))

    def _subscribe(self) -> None:
        who, credentials = self._credentials()
        page = self._page()
        text = self._random.choice((*FILTERS, "true", "true", "true", 'symbol = "IBM"'))
        durable = self._random.choice(("",) * len(DURABLES) + DURABLES)
        query = {"filter": text, **({"durable": durable} if durable else {})}
        if self._random.random() < 0.2:
            query["since"] = "1970-01-01T00:00:00Z"
        is_socket = self._random.random() < 0.3
        headers = dict(page)
        if is_socket:
            headers |= {
                "Upgrade": "websocket",
                "Connection": "Upgrade",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": b64encode(bytes(16)).decode(),
            }
        path = f"/events{'/ws' if is_socket else ''}?{urlencode(query, quote_via=quote)}"
        connection = self._connect()
        connection.sendall(_request("GET", path, credentials, headers))
        head, rest = _head_of(connection)
        if _status_of(head) not in (101, 200):
            connection.close()
            return
        owns = not durable or self.allowed.owns(who, "durables", durable)
        allowed = not self._is_evil(page) and owns and self.allowed.connect(who)
        self.books.check("stream", allowed=allowed, details=(who, page, query))
        connection.setblocking(False)
        self._streams.append(_Stream(who, text, durable, connection, rest))
        if len(self._streams) > STREAMS_MAX:
            self._streams.pop(0).connection.close()

    def _forget(self) -> None:
        who, credentials = self._credentials()
        page = self._page()
        name = self._random.choice((*DURABLES, "../desk", "%2e%2e/desk", "desk/", "desk?x=1", "/desk"))
        before = self._durables()
        answer = self._ask("DELETE", f"/subscriptions/{name}", credentials, page)
        ended = before - self._durables()
        if answer.status == 204:
            allowed = not self._is_evil(page) and self.allowed.connect(who)
            self.books.check("forgetting", allowed=allowed, details=(who, name))
            for each in ended:
                owns = who == "root" or self.allowed.owns(who, "durables", each)
                self.books.check("end of a durable subscriber", allowed=owns, details=(who, each))
        elif any(not each.startswith("c:") for each in ended):
            self.books.check(
                "end of a durable subscriber", allowed=False, details=(who, ended, answer.status)
            )

    def _inspect(self) -> None:
        who, credentials = self._credentials()
        page = self._page()
        if self._random.random() < 0.2:
            who, credentials = "root", [f"Bearer {self._tokens['root']}"]
        path = self._random.choice(PATHS)
        answer = self._ask(self._random.choice(("GET", "GET", "HEAD", "POST")), path, credentials, page)
        if TELLING.search(answer.body) or (
            answer.status == 200 and "/console" in path and path not in OPEN_PAGES
        ):
            allowed = (
                who == "root"
                and self.allowed.connect(who)
                and not self._is_evil({"Host": page.get("Host", "")})
            )
            self.books.check("inspection", allowed=allowed, details=(who, path, page))

    def _discover(self) -> None:
        """Learn what others want and offer, and what is retained; hand out dead letters, change scopes."""
        who, credentials = self._credentials()
        page = self._page()
        what = self._random.choice(("wants", "offers", "retained"))
        query = urlencode({"filter": self._random.choice(FILTERS)}, quote_via=quote)
        answer = self._ask("GET", f"/{what}?{query}", credentials, page)
        if answer.status == 200:
            known = WRITES if what == "wants" else READS
            allowed = (
                who in known
                and self.allowed.connect(who)
                and not self._is_evil({"Host": page.get("Host", "")})
            )
            self.books.check("discovery", allowed=allowed, details=(who, what, page))
        path, form = self._random.choice(
            (
                ("/console/redrive", {"name": self._random.choice(DURABLES)}),
                ("/console/scopes/apply", {"change": "JOIN eve TO Desk", "known": "0 "}),
                ("/console/scopes/draft", {"change": "JOIN eve TO Desk"}),
                ("/console/publish", {"event": json.dumps(self._event(who))}),
            )
        )
        headers = {"Content-Type": "application/x-www-form-urlencoded", **page}
        answer = self._ask("POST", path, credentials, headers, urlencode(form))
        if answer.status == 200:
            # Whoever may connect may try to publish: the log has what came of it.
            may = self.allowed.connect(who) if "publish" in path else who == "root"
            allowed = may and self.allowed.connect(who) and not self._is_evil(page)
            self.books.check("form", allowed=allowed, details=(who, path, page))

    def _smuggle(self) -> None:
        """Hide a request of another principal's, or a publication, in the body of one that is allowed."""
        who, credentials = self._credentials()
        event = json.dumps({**self._event("eve"), "by": "eve", "producer": "nyse"})
        hidden = _request("POST", "/events", [], {"Content-Type": "application/json"}, event)
        first = json.dumps({**self._event(who), "symbol": "IBM"})
        chunk = f"{len(first):x}\r\n{first}\r\n0\r\n\r\n".encode()
        length = ("Content-Length", str(len(first)))
        chunked = ("Transfer-Encoding", "chunked")
        fields, body = self._random.choice(
            (
                ([length, chunked], chunk + hidden),
                ([chunked, length], chunk + hidden),
                ([("Content-Length", "0"), length], first.encode() + hidden),
                ([("Content-Length", "+1")], first.encode() + hidden),
                ([("Transfer-Encoding", "xchunked")], chunk + hidden),
                ([("Transfer-Encoding", "chunked, identity")], chunk + hidden),
                ([(" Content-Length", "5"), length], first.encode() + hidden),
                ([("X", "a\r\n Content-Length: 5"), length], first.encode() + hidden),
                ([length, ("X", "a\nAuthorization: Bearer x")], first.encode() + hidden),
                ([length], first.encode() + hidden),
                (
                    [chunked],
                    f"{len(first):x};a=b\r\n{first}\r\n0\r\nAuthorization: x\r\n\r\n".encode() + hidden,
                ),
            )
        )
        head = _head("POST", "/events", credentials, {"Content-Type": "application/json"}, fields)
        with contextlib.closing(self._connect()) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(head + body)
                connection.shutdown(socket.SHUT_WR)
            answered = _rest_of(connection)
        statuses = [int(each) for each in STATUS.findall(answered)]
        self.books.check("hidden request", allowed=statuses[1:2] not in ([200], [202]), details=statuses)

    def _replay(self) -> None:
        """Revoke a token by its id, show it again, and get a new one."""
        name = self._random.choice(TOKENS)
        shown = self._tokens[name]
        self.allowed.revoked = set()
        self._decide(f"token:{name}-1")
        answer = self._ask("GET", "/events?filter=true", [f"Bearer {shown}"], {}, stream=True)
        self.books.check("replay", allowed=answer.status in (401, 403), details=(name, answer.status))
        self._decide()

    def _change_policy(self, *, nobody: bool = False) -> None:
        """Revoke somebody, or nobody. From this moment on it holds."""
        revoked = (
            ""
            if nobody
            else self._random.choice(("", "", *TOKENS[:2], *(each.principal for each in self._streams)))
        )
        self.allowed.revoked = {revoked} - {""}
        self._decide(*self.allowed.revoked)
        for stream in list(self._streams):
            if stream.principal in self.allowed.revoked:
                self._streams.remove(stream)
                self._ends(stream)

    def _ends(self, stream: _Stream) -> None:
        """The stream of somebody without rights ends; what had been sent before may be in it."""
        with contextlib.closing(stream.connection) as connection:
            connection.settimeout(PATIENCE_S)
            try:
                while not BYE.search(stream.received) and (data := connection.recv(1 << 16)):
                    stream.received += data
                ended = True
            except TimeoutError:
                ended = False
            except ConnectionError:
                ended = True
        self.books.check("end of a stream", allowed=ended, details=stream.principal)

    def _decide(self, *revoked: str) -> None:
        assert self._policy is not None
        policy = self._policy.revoking(*revoked)
        self._web.do(lambda: self._web.server.node.guard.decide_by(policy, time.time_ns() // 1_000))

    _ATTEMPTS: Final[tuple[Callable[[HttpAttack], None], ...]] = (
        *(_publish,) * 10,
        *(_subscribe,) * 4,
        *(_forget,) * 2,
        *(_inspect,) * 4,
        *(_smuggle,) * 2,
        *(_discover,) * 2,
        _guess,
        _replay,
        _change_policy,
    )

    # -- what came of it --------------------------------------------------------------------------------------

    def _may_write(self, who: str, event: Mapping[str, Any]) -> bool:
        producer = str(event.get("producer", who))
        return self.allowed.write(who, producer, event["symbol"])

    def _check_published(self, notification: Notification) -> None:
        """Of whatever is in the log, `by` is the principal whose credentials were shown."""
        fields = _fields_of(notification)
        by, symbol = str(fields.get("by")), fields.get("symbol")
        allowed = self.allowed.write(by, notification.producer, symbol)
        self.books.check("record", allowed=allowed, details=(by, notification))

    def _look(self) -> None:
        for stream in list(self._streams):
            ended = False
            try:
                while data := stream.connection.recv(1 << 16):
                    stream.received += data
                ended = True
            except (BlockingIOError, ssl.SSLWantReadError):
                pass
            except OSError:
                ended = True
            ended = ended or BYE.search(stream.received) is not None
            for event in _events_in(stream):
                self._delivered(stream, event)
            if ended:
                stream.connection.close()
                self._streams.remove(stream)

    def _delivered(self, stream: _Stream, event: Mapping[str, Any]) -> None:
        """Something came over a stream. The policy may have changed since: who may read it ever is asked."""
        content = {**event, **(event["data"] if isinstance(event.get("data"), dict) else {})}
        reads = Allowed().read(stream.principal, content.get("symbol"))
        self.books.check("delivery", allowed=reads, details=(stream.principal, stream.filter, content))

    def _durables(self) -> set[str]:
        return {name for name, each in self._web.server.node.durables.items() if not each.ends}

    # -- over the wire ----------------------------------------------------------------------------------------

    def _connect(self) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", self._web.port), PATIENCE_S)
        if self._context is None:
            return plain
        return self._context.wrap_socket(plain, server_hostname="localhost")

    def _ask(
        self,
        method: str,
        path: str,
        credentials: list[str],
        headers: Mapping[str, str],
        body: str = "",
        *,
        stream: bool = False,
    ) -> _Answer:
        with contextlib.closing(self._connect()) as connection:
            connection.sendall(_request(method, path, credentials, {"Connection": "close", **headers}, body))
            if stream:
                return _Answer(_status_of(_head_of(connection)[0]))
            answered = _rest_of(connection)
        head, _, content = answered.partition(b"\r\n\r\n")
        return _Answer(_status_of(head), content)


# -- requests --------------------------------------------------------------------------------------------------


def _head(
    method: str,
    path: str,
    credentials: list[str],
    headers: Mapping[str, str],
    fields: list[tuple[str, str]],
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1"]
    if "Host" not in headers:
        lines.append("Host: 127.0.0.1")
    lines += [f"Authorization: {each}" for each in credentials]
    lines += [f"{name}: {value}" for name, value in (*headers.items(), *fields)]
    return "\r\n".join([*lines, "", ""]).encode()


def _request(
    method: str, path: str, credentials: list[str], headers: Mapping[str, str], body: str = ""
) -> bytes:
    content = body.encode()
    length = [("Content-Length", str(len(content)))] if content else []
    return _head(method, path, credentials, headers, length) + content


def _head_of(connection: socket.socket) -> tuple[bytes, bytes]:
    """The head of an answer, and what came behind it."""
    received = b""
    while b"\r\n\r\n" not in received and (data := connection.recv(1 << 16)):
        received += data
    head, _, rest = received.partition(b"\r\n\r\n")
    return head, rest


def _rest_of(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(1 << 16):
            received += data
    return received


def _status_of(head: bytes) -> int:
    found = STATUS.match(head)
    return 0 if found is None else int(found[1])


def _events_in(stream: _Stream) -> Iterator[dict[str, Any]]:
    """The events of a stream, whether they came as lines or in frames: an object each."""
    decoder = json.JSONDecoder()
    while True:
        start = stream.received.find(b'{"specversion"')
        if start < 0:
            del_before = max(0, len(stream.received) - 32)
            stream.received = stream.received[del_before:]
            return
        try:
            text = stream.received[start:].decode("utf-8", "replace")
            event, end = decoder.raw_decode(text)
        except ValueError:
            stream.received = stream.received[start:]
            return
        yield event
        stream.received = stream.received[start + len(text[:end].encode()) :]


def _cloud_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """The same as a CloudEvent: what is limited stays at the top."""
    given = {
        "specversion": "1.0",
        "source": event.get("producer") or event["by"] or "x",
        "type": event.get("type", "quote"),
    }
    top = {"id": event["id"], "by": event["by"] or "nobody"}
    if isinstance(event["symbol"], str):
        top["symbol"] = event["symbol"]
    if "producer" not in event:
        event["producer"] = given["source"]  # type: ignore[index]
    return {**given, **top, "data": {"n": event["n"]}}


def _fields_of(notification: Notification) -> dict[str, Any]:
    with contextlib.suppress(FairleadError):
        return {name: notification.get(name) for name in ("by", "symbol")}
    return {}


# -- credentials that are none ---------------------------------------------------------------------------------


def _claims(name: str) -> dict[str, Any]:
    return {"sub": name, "aud": "fairlead", "exp": time.time() + 600}


def _unsigned(name: str) -> str:
    return jwt.encode(_claims(name), "", "none", headers={"kid": "one"})


def _without_expiry(name: str) -> str:
    claims = _claims(name)
    del claims["exp"]
    return jwt.encode(claims, KEY, "HS256", headers={"kid": "one"})


def _other_subject(shown: str, name: str) -> str:
    """A token with another subject under the signature of the first one."""
    head, _, signature = shown.split(".")
    body = urlsafe_b64encode(json.dumps(_claims(name)).encode()).decode().rstrip("=")
    return f"{head}.{body}.{signature}"
