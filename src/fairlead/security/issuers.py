"""The keys of an issuer of tokens, as it publishes them at a URL (a JWK set); they rotate while brokers run.

    Laws
    What was fetched last and could be read holds; a failure changes nothing.
    Tokens that name a key which is not known have the keys fetched, at most once in `AGAIN_S`, whoever shows them.
    Only public keys are taken, each with one algorithm.

An issuer publishes a new key some time before it signs with it, so the keys are fetched from time to time; one
that does not is asked when its first new token comes. `fetched` alone opens a connection.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from fairlead.errors import NotInstalled, PolicyError

if TYPE_CHECKING:
    from jwt import PyJWK

__all__ = ["RemoteKeys", "fetched", "public_keys", "unsafe_url"]

log: Final = logging.getLogger(__name__)

AGAIN_S: Final = 10.0
"""The time between two fetches, at least."""
PATIENCE_S: Final = 5.0
"""The time that an issuer may take for its answer."""
BYTES_MAX: Final = 1 << 20
KEYS_MAX: Final = 1_000
ALGORITHMS: Final[Mapping[tuple[object, object], tuple[str, ...]]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""By type and curve, the algorithms of public keys; the first one is that of a key that names none."""


class RemoteKeys:
    """The keys at a URL. Any thread may ask for one; those that fetch take turns."""

    def __init__(
        self,
        url: str,
        every_s: float,
        *,
        fetch: Callable[[str], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url, self._every_s = url, every_s
        self._fetch, self._clock = fetch or fetched, clock
        self._keys: dict[str, PyJWK] = {}
        """It is replaced as a whole."""
        self._looked_at = self._taken = float("-inf")
        self._lock = threading.Lock()
        """Held while it is decided who fetches."""

    def get(self, kid: str) -> PyJWK | None:
        """The key of this id, if it is known."""
        return self._keys.get(kid)

    @property
    def is_due(self) -> bool:
        """Whether it is time to fetch the keys anew."""
        now = self._clock()
        return now - self._looked_at >= AGAIN_S and now - self._taken >= self._every_s

    def may_know(self, kid: str) -> bool:
        """Whether a key that is not known may be found by fetching now."""
        return kid not in self._keys and self._clock() - self._looked_at >= AGAIN_S

    def look(self) -> bool:
        """Fetch the keys, unless somebody just has; whether there are new ones. It takes as long as the issuer."""
        with self._lock:
            if self._clock() - self._looked_at < AGAIN_S:
                return False
            self._looked_at = self._clock()
        try:
            self._keys = dict(public_keys(self._fetch(self.url), self.url))
        except (OSError, HTTPException, PolicyError) as error:
            log.warning("the keys of %s cannot be read, those of before hold: %s", self.url, error)
            return False
        self._taken = self._clock()
        return True


def public_keys(content: bytes, source: str) -> Iterator[tuple[str, PyJWK]]:
    """The keys of a JWK set that verify signatures, with their ids; PolicyError where there are none."""
    try:
        from jwt import PyJWK
        from jwt.exceptions import PyJWTError
    except ModuleNotFoundError:
        raise NotInstalled.extra("tokens", "security") from None
    try:
        given = json.loads(content)
    except ValueError:
        raise PolicyError(f"{source}: it is not JSON") from None
    keys = given.get("keys") if isinstance(given, dict) else None
    found = 0
    for each in (keys if isinstance(keys, list) else [])[:KEYS_MAX]:
        algorithm = _algorithm_of(each) if isinstance(each, dict) else None
        if algorithm is None:
            continue
        try:
            key = PyJWK(each, algorithm)
        except (PyJWTError, ValueError, TypeError):
            continue
        found += 1
        yield str(each.get("kid", "")), key
    if not found:
        raise PolicyError(f"{source}: a JWK set with public keys was expected")


def _algorithm_of(key: Mapping[str, Any]) -> str | None:
    """The one algorithm of a public key for signatures; None: it is no such key."""
    able = ALGORITHMS.get((key.get("kty"), key.get("crv")))
    if able is None or key.get("use", "sig") != "sig" or "d" in key:
        return None
    algorithm = key.get("alg", able[0])
    return algorithm if algorithm in able else None


def unsafe_url(url: str) -> str:
    """Why keys are not fetched from an address: somebody could put others in their place. Empty: they are."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "it is no URL"
    if parts.scheme == "https" and host:
        return ""
    if parts.scheme == "http" and (host == "localhost" or _is_loopback(host)):
        return ""
    return "an https:// URL was expected, or http:// within this machine"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class _Careful(HTTPRedirectHandler):
    """Follows an issuer to addresses that are as safe."""

    def redirect_request(  # noqa: PLR0917  (as the library calls it)
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Any:
        if problem := unsafe_url(newurl):
            raise URLError(f"it leads elsewhere: {problem}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetched(url: str) -> bytes:
    """The content at a URL; OSError."""
    if problem := unsafe_url(url):
        raise OSError(problem)
    request = Request(url, headers={"Accept": "application/json"})
    with build_opener(_Careful).open(request, timeout=PATIENCE_S) as answer:
        content: bytes = answer.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise OSError(f"more than {BYTES_MAX:,} bytes")
    return content
