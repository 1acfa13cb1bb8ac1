"""A seeded attacker of TLS: it asks brokers for less of it, and passes for a broker with none, or with another's.

It connects to a broker's ports for the protocol and for HTTPS, in clear, with old versions of TLS, with weak
ciphers, with certificates that nobody trusts; and it has clients call a port of its own that answers in clear, or
with a certificate of its own. The books have each connection that was accepted, and each credential that was seen.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import ssl
import threading
import warnings
from collections.abc import Callable
from random import Random
from typing import Any, Final

from fairlead.errors import FairleadError
from fairlead.network import sync, wire
from fairlead.network.addresses import Tls
from fairlead.security.credentials import bearer
from fairlead_lab.testing.attacker import Books
from fairlead_lab.testing.guarded import token
from fairlead_lab.testing.web import Web

__all__ = ["TlsAttack"]

PATIENCE_S: Final = 20.0
OLD: Final = (ssl.TLSVersion.SSLv3, ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1)
WEAK: Final = ("aNULL:@SECLEVEL=0", "eNULL:@SECLEVEL=0", "LOW:EXP:RC4:3DES:@SECLEVEL=0")
STATUS: Final = b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: %s\r\n\r\n"


class TlsAttack:
    """One attack on a broker with a certificate of the principal `root`, which vouches for itself, as `trusted`
    has; `forged` is one of the same name that vouches for itself, too."""

    def __init__(self, web: Web, trusted: Tls, forged: Tls, seed: int) -> None:
        self._web, self._trusted, self._forged, self._random = web, trusted, forged, Random(seed)
        self.books = Books()

    def run(self, tries: int) -> Books:
        """Try so many times."""
        for _ in range(tries):
            attempt = self._random.choice(self._ATTEMPTS)
            self.books.tried[attempt.__name__] += 1
            attempt(self)
        return self.books

    # -- a client that wants less ------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Connect with some certificate, some version and some ciphers."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        weakness = self._random.choice(("", "", *OLD, *WEAK))
        with contextlib.suppress(ssl.SSLError, ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # old versions are what this is about
            if weakness in OLD:
                context.set_ciphers("ALL:@SECLEVEL=0")
                context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
                context.maximum_version = ssl.TLSVersion(weakness)
            elif weakness:
                context.maximum_version = ssl.TLSVersion.TLSv1_2
                context.set_ciphers(str(weakness))
        shown = self._random.choice((None, self._trusted, self._forged))
        if shown is not None:
            assert shown.certificate is not None
            context.load_cert_chain(shown.certificate, shown.key)
        credentials = self._random.choice((str(bearer(token("root"))), "", str(bearer(token("root") + "x"))))
        is_accepted, is_strong = self._try(credentials, context)
        if is_accepted:
            proven = credentials.endswith("x") is False and (bool(credentials) or shown is self._trusted)
            allowed = is_strong and proven and shown is not self._forged
            what = (weakness, None if shown is None else shown.certificate, bool(credentials))
            self.books.check("connection", allowed=allowed, details=what)
        else:
            self.books.came["refusal"] += 1

    def _in_clear(self) -> None:
        """Speak in clear where TLS is spoken, perhaps behind what looks like TLS."""
        before = self._random.choice(
            (b"", b"", b"\x16\x03\x00\x00\x04", b"\x15\x03\x01\x00\x02\x01\x00", b"\x16")
        )
        is_accepted, _ = self._try(str(bearer(token("root"))), None, before)
        self.books.check("speech in clear", allowed=not is_accepted, details=before)

    def _try(
        self, credentials: str, context: ssl.SSLContext | None, before: bytes = b""
    ) -> tuple[bool, bool]:
        """Whether a request is accepted, at one of the two ports, and whether the connection is a strong one."""
        is_http = self._random.random() < 0.5
        port = self._web.port if is_http else int(self._web.server.url.rpartition(":")[2])
        hello = wire.Hello(wire.VERSION, "client", life="x", authorization=credentials, is_made_up=True)
        request = STATUS % credentials.encode() if is_http else wire.control(hello)
        with contextlib.suppress(OSError), _talk(port, context) as talking:
            talking.sendall(before + request)
            if not isinstance(talking, ssl.SSLSocket):
                talking.shutdown(socket.SHUT_WR)
            received = _some_of(talking, is_http=is_http)
            is_strong = isinstance(talking, ssl.SSLSocket) and _is_strong(talking)
            if is_http:
                return received.startswith(b"HTTP/1.1 200"), is_strong
            frames = wire.Frames().feed(received) if received else []
            return any(_is_welcome(*each) for each in frames), is_strong
        return False, False

    # -- a broker that is none -----------------------------------------------------------------------------------

    def _strip(self) -> None:
        """Have a client call a port that answers in clear, or with a certificate of its own."""
        secret = token("root", jti=os.urandom(4).hex())
        context = None
        if self._random.random() < 0.5:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            assert self._forged.certificate is not None
            context.load_cert_chain(self._forged.certificate, self._forged.key)
        with _Pretender(context) as pretender:
            url = f"fairleads://localhost:{pretender.port}"
            tls = Tls(authority=self._trusted.authority)
            with (
                contextlib.suppress(FairleadError),
                sync.connect(url, credentials=bearer(secret), tls=tls, patience=0.05),
            ):
                self.books.check("trust in a pretender", allowed=False, details=context)
        seen = secret.encode() in pretender.received
        self.books.check("call of a pretender", allowed=not seen, details=context)

    _ATTEMPTS: Final[tuple[Callable[[TlsAttack], None], ...]] = (*(_connect,) * 16, *(_in_clear,) * 6, _strip)


class _Pretender:
    """A port that passes for a broker: it takes what comes, and answers with a welcome."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context, self.received = context, b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> _Pretender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(PATIENCE_S)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.settimeout(PATIENCE_S)
            with contextlib.suppress(OSError), _secured(connection, self._context) as talking:
                talking.sendall(wire.control(wire.Welcome(wire.VERSION, "hub", "root")))
                while data := talking.recv(1 << 16):
                    self.received += data


def _talk(port: int, context: ssl.SSLContext | None) -> contextlib.closing[socket.socket]:
    """A connection to a port of this machine, over TLS, if there is a context."""
    plain = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    return _secured(plain, context, server_hostname="localhost")


def _secured(
    plain: socket.socket, context: ssl.SSLContext | None, server_hostname: str | None = None
) -> contextlib.closing[socket.socket]:
    """A connection, over TLS, if there is a context; it is closed where TLS fails."""
    if context is None:
        return contextlib.closing(plain)
    try:
        is_server = server_hostname is None
        secured = context.wrap_socket(plain, server_side=is_server, server_hostname=server_hostname)
    except BaseException:
        plain.close()
        raise
    return contextlib.closing(secured)


def _some_of(connection: Any, *, is_http: bool) -> bytes:
    """The first answer."""
    if is_http:
        response = http.client.HTTPResponse(connection)
        with contextlib.suppress(http.client.HTTPException):
            response.begin()
            return f"HTTP/1.1 {response.status}".encode()
        return b""
    received: bytes = connection.recv(1 << 16)
    return received


def _is_welcome(kind: int, payload: bytes) -> bool:
    return kind == wire.CONTROL and isinstance(wire.parse_control(payload), wire.Welcome)


def _is_strong(secured: ssl.SSLSocket) -> bool:
    """Whether a connection is what a broker may accept."""
    cipher = secured.cipher()
    return (
        secured.version() in ("TLSv1.2", "TLSv1.3")
        and cipher is not None
        and cipher[2] >= 128
        and not {"NULL", "3DES"} & {*cipher[0].split("-")}
    )
