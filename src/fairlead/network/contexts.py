"""TLS: the certificates that brokers and clients show and trust. Refused certificates are logged."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairlead.errors import NetworkError
from fairlead.network.addresses import Tls

__all__ = ["Refusals", "client_context", "load_certificates", "names_in", "server_context"]

log: Final = logging.getLogger(__name__)

AGAIN_S: Final = 60.0
REASONS_MAX: Final = 1_000
NO_CERTIFICATE: Final = "PEER_DID_NOT_RETURN_A_CERTIFICATE"


class Refusals:
    """Log refused certificates, once a minute per reason: a refused client calls again and again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._reported: dict[str, float] = {}

    def tell(self, reason: str) -> None:
        """A connection is refused for this reason."""
        now = self._clock()
        if now >= self._reported.get(reason, now):
            if len(self._reported) >= REASONS_MAX:
                self._reported.clear()
            self._reported[reason] = now + AGAIN_S
            log.warning("a connection is refused: %s", reason)


def server_context(tls: Tls, refusals: Refusals | None = None, *, asks: bool = False) -> ssl.SSLContext:
    """The TLS context of a broker's server. Certificates that it does not trust are reported to `refusals`.

    With an authority it `asks` clients for a certificate, which they may show: it says for whom they act.
    """
    context = _trusting(ssl.Purpose.CLIENT_AUTH, tls.authority)
    load_certificates(context, tls)
    if refusals is not None:
        context.sslobject_class = _watched(refusals)
    if asks and tls.authority is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
    if tls.mutual:
        if tls.authority is None:
            raise NetworkError("mutual TLS without an authority: nobody's certificate would be believed")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(tls: Tls | None) -> ssl.SSLContext:
    """The TLS context of a client, or of a broker that calls another one."""
    context = _trusting(ssl.Purpose.SERVER_AUTH, None if tls is None else tls.authority)
    if tls is not None:
        load_certificates(context, tls)
    return context


def names_in(certificate: Mapping[str, Any] | None) -> set[str]:
    """The names in a certificate, as `ssl` returns it: the CN of its subject, and its DNS names."""
    shown = certificate or {}
    subject = {name for pairs in shown.get("subject", ()) for key, name in pairs if key == "commonName"}
    return subject | {name for kind, name in shown.get("subjectAltName", ()) if kind == "DNS"}


def _watched(refusals: Refusals) -> type[ssl.SSLObject]:
    """Event loops end a connection whose handshake fails, and say nothing: so it is said here."""

    class Watched(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except ssl.SSLCertVerificationError as error:
                refusals.tell(f"its certificate is not trusted: {error.verify_message}")
                raise
            except ssl.SSLError as error:
                if error.reason == NO_CERTIFICATE:
                    refusals.tell("it shows no certificate")
                raise

    return Watched


def _trusting(purpose: ssl.Purpose, authority: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(purpose, cafile=authority)
        context.minimum_version = ssl.TLSVersion.TLSv1_2  # whatever the system's configuration allows
        return context
    except (OSError, ssl.SSLError) as error:
        raise NetworkError(f"{authority}: not a file of certificates: {error}") from None


def load_certificates(context: ssl.SSLContext, tls: Tls) -> None:
    """Show this certificate on new connections, and trust the authority's; NetworkError if a file is none."""
    if tls.authority is not None:
        try:
            context.load_verify_locations(cafile=tls.authority)
        except (OSError, ssl.SSLError) as error:
            raise NetworkError(f"{tls.authority}: not a file of certificates: {error}") from None
    if tls.certificate is not None:
        try:
            context.load_cert_chain(tls.certificate, tls.key)
        except (OSError, ssl.SSLError) as error:
            raise NetworkError(f"{tls.certificate}: not a certificate with its key: {error}") from None
