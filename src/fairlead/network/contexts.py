"""TLS: who shows which certificate, and whose are believed."""

from __future__ import annotations

import ssl

from fairlead.errors import NetworkError
from fairlead.network.addresses import Tls

__all__ = ["client_context", "server_context"]


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
