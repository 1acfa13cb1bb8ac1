"""TLS: who shows which certificate, and whose are believed."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from fairlead.errors import NetworkError
from fairlead.network.addresses import Tls

__all__ = ["client_context", "names_in", "server_context"]


def server_context(tls: Tls) -> ssl.SSLContext:
    """How a broker shows who it is."""
    context = _trusting(ssl.Purpose.CLIENT_AUTH, tls.authority)
    _load(context, tls)
    if tls.mutual:
        if tls.authority is None:
            raise NetworkError("mutual TLS without an authority: nobody's certificate would be believed")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(tls: Tls | None) -> ssl.SSLContext:
    """How whoever calls makes sure of whom it has called, and shows who it is."""
    context = _trusting(ssl.Purpose.SERVER_AUTH, None if tls is None else tls.authority)
    if tls is not None:
        _load(context, tls)
    return context


def names_in(certificate: Mapping[str, Any] | None) -> set[str]:
    """Whom a certificate, as `ssl` tells it, is for: the CN of its subject, and its DNS names."""
    shown = certificate or {}
    subject = {name for pairs in shown.get("subject", ()) for key, name in pairs if key == "commonName"}
    return subject | {name for kind, name in shown.get("subjectAltName", ()) if kind == "DNS"}


def _trusting(purpose: ssl.Purpose, authority: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(purpose, cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise NetworkError(f"{authority}: not a file of certificates: {error}") from None


def _load(context: ssl.SSLContext, tls: Tls) -> None:
    if tls.certificate is not None:
        try:
            context.load_cert_chain(tls.certificate, tls.key)
        except (OSError, ssl.SSLError) as error:
            raise NetworkError(f"{tls.certificate}: not a certificate with its key: {error}") from None
