"""From credentials to principals: certificates, tokens, passwords. A principal is what credentials prove.

Credentials travel as the header `Authorization` of HTTP has them, in the first message of a connection, too:
`Bearer TOKEN`, or `Basic` with a name and a password in base64. What is wrong with them is not said in detail, and
they are in no message, log or representation.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairlead.errors import FairleadError, NotAuthenticated, NotInstalled, PolicyError
from fairlead.security.passwords import Passwords
from fairlead.security.principals import ANONYMOUS, NOBODY, Principal

if TYPE_CHECKING:
    from jwt import PyJWK

    from fairlead.security.issuers import RemoteKeys

__all__ = ["Authenticator", "Credentials", "Secret", "Tokens", "basic", "bearer", "certificate_principal"]

ALGORITHMS: Final = frozenset(
    {
        "EdDSA",
        "ES256",
        "ES384",
        "ES512",
        "HS256",
        "HS384",
        "HS512",
        "PS256",
        "PS384",
        "PS512",
        "RS256",
        "RS384",
        "RS512",
    }
)
SECRET_BITS_MIN: Final = 256
"""A shared key with fewer bits can be found by trying."""
REFUSED: Final = "the credentials are not accepted"


class Secret(str):
    """A text that shows itself in no representation."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret(…)"


Credentials = str | Callable[[], str]
"""The value of an `Authorization` header, or a function that gives it anew for each connection."""


def bearer(token: str) -> Secret:
    """Credentials with a token."""
    return Secret(f"Bearer {token.strip()}")


def basic(name: str, password: str) -> Secret:
    """Credentials with a password."""
    return Secret(f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}")


@dataclass(frozen=True, slots=True)
class _Internal:
    """Credentials of a broker with itself, new for each process."""

    secret: Secret

    @property
    def authorization(self) -> Secret:
        return Secret(f"Internal {self.secret}")


class Tokens:
    """Signed tokens (JWT), by the public or shared keys of a JWK set.

    A key has one algorithm, its `alg`: a token that names another one is refused. A token has a subject, an expiry
    and the audience.
    """

    def __init__(
        self,
        keys: Mapping[str, PyJWK],
        *,
        audience: str,
        issuer: str | None = None,
        leeway_s: float = 0,
        remote: RemoteKeys | None = None,
    ) -> None:
        self._keys, self._audience, self._issuer, self._leeway_s = keys, audience, issuer, leeway_s
        self.remote = remote
        """Further keys, which an issuer publishes."""

    @staticmethod
    def keys_in(path: str | Path) -> dict[str, PyJWK]:
        """The keys of a file; PolicyError says what is wrong with it."""
        try:
            from jwt import PyJWK
            from jwt.exceptions import PyJWTError
        except ModuleNotFoundError:
            raise NotInstalled.extra("tokens", "security") from None
        try:
            given = json.loads(Path(path).read_bytes())
        except (OSError, ValueError) as error:
            reason = (
                getattr(error, "strerror", None) or "it is not JSON"
            )  # which may have the key in its text
            raise PolicyError(f"{path}: cannot be read: {reason}") from None
        keys: dict[str, PyJWK] = {}
        for number, each in enumerate(given.get("keys", ()) if isinstance(given, dict) else (), start=1):
            algorithm = each.get("alg") if isinstance(each, dict) else None
            if algorithm not in ALGORITHMS:
                raise PolicyError(f"{path}: key {number} has no `alg` of {', '.join(sorted(ALGORITHMS))}")
            if algorithm.startswith("HS") and len(str(each.get("k", ""))) * 6 < SECRET_BITS_MIN:
                raise PolicyError(f"{path}: key {number} has fewer than {SECRET_BITS_MIN} bits")
            try:
                keys[str(each.get("kid", ""))] = PyJWK(each, algorithm)
            except (PyJWTError, ValueError, TypeError):
                raise PolicyError(f"{path}: key {number} is no key for {algorithm}") from None
        if not keys:
            raise PolicyError(f"{path}: a JWK set was expected", hint='{"keys": [{"kty": …, "alg": …}]}')
        return keys

    def may_know_more(self, token: str) -> bool:
        """Whether the key that a token names is not known, and may be found by looking at the issuer now."""
        import jwt

        if self.remote is None:
            return False
        try:
            kid = str(jwt.get_unverified_header(token).get("kid", ""))
        except jwt.PyJWTError:
            return False
        return kid not in self._keys and self.remote.may_know(kid)

    def _key(self, kid: str) -> PyJWK:
        """The key of an id; KeyError."""
        found = self._keys.get(kid) or (None if self.remote is None else self.remote.get(kid))
        if found is None:
            raise KeyError(kid)
        return found

    def principal(self, token: str, now: int) -> Principal:
        """The principal of a token that is valid now; NotAuthenticated."""
        import jwt

        try:
            key = self._key(str(jwt.get_unverified_header(token).get("kid", "")))
            # The time is passed in: expiry and the times before it are checked below.
            claims: dict[str, Any] = jwt.decode(
                token,
                key=key,
                algorithms=[key.algorithm_name],
                audience=self._audience,
                issuer=self._issuer,
                options={
                    "require": ["exp", "sub", "aud", *(["iss"] if self._issuer else [])],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
            until = round((float(claims["exp"]) + self._leeway_s) * 1e6)
            begins = max(float(claims.get(each, 0)) for each in ("nbf", "iat")) - self._leeway_s
            if not begins * 1e6 <= now < until or claims["sub"] == ANONYMOUS:
                raise NotAuthenticated(REFUSED)
            return Principal(claims["sub"], claims, "token", until, str(claims.get("jti", "")))
        except (jwt.PyJWTError, KeyError, ValueError, TypeError, OverflowError):
            raise NotAuthenticated(REFUSED) from None


class Authenticator:
    """Turns what a connection shows into a principal, once."""

    def __init__(self, tokens: Tokens | None = None, passwords: Passwords | None = None) -> None:
        self._tokens, self._passwords = tokens, passwords
        self._internal = _Internal(Secret(secrets.token_urlsafe(32)))

    @property
    def own(self) -> Secret:
        """Credentials that only this process has, for its own clients."""
        return self._internal.authorization

    def take_keys_of(self, other: Authenticator) -> None:
        """Check by the tokens and passwords of another one from now on."""
        self._tokens, self._passwords = other._tokens, other._passwords

    def is_slow(self, authorization: str) -> bool:
        """Whether it takes long to check these: a password that has not been right lately, or a token whose key is
        to be fetched first."""
        if self.may_know_more(authorization):
            return True
        if self._passwords is None:
            return False
        pair = _pair(authorization)
        return pair is not None and not self._passwords.is_known(*pair)

    @property
    def remote(self) -> RemoteKeys | None:
        """The keys that an issuer publishes, if there is one."""
        return None if self._tokens is None else self._tokens.remote

    def may_know_more(self, authorization: str) -> bool:
        """Whether these are a token whose key may be found at its issuer."""
        scheme, _, rest = authorization.partition(" ")
        is_token = scheme.lower() == "bearer" and self._tokens is not None
        return is_token and self._tokens is not None and self._tokens.may_know_more(rest.strip())

    def principal(
        self, authorization: str, certificate: Mapping[str, Any] | None, now: int, own: str = ""
    ) -> Principal:
        """The principal of these credentials; NotAuthenticated where they are wrong. None at all: nobody.

        `own` is the name of the broker itself, which its own clients have.
        """
        if not authorization:
            return NOBODY if not certificate else certificate_principal(certificate)
        scheme, _, rest = authorization.partition(" ")
        match scheme.lower():
            case "bearer" if self._tokens is not None:
                return self._tokens.principal(rest.strip(), now)
            case "basic" if self._passwords is not None:
                pair = _pair(authorization)
                if pair is not None and self._passwords.check(*pair):
                    return Principal(pair[0], via="password")
            case "internal" if hmac.compare_digest(
                authorization.encode("utf-8", "surrogatepass"), self.own.encode()
            ):
                return Principal(own, via=INTERNAL)
        raise NotAuthenticated(REFUSED)


INTERNAL: Final = "broker"
"""The name of a broker's own clients."""


def _pair(authorization: str) -> tuple[str, str] | None:
    """Name and password."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, password) if colon else None


def certificate_principal(certificate: Mapping[str, Any]) -> Principal:
    """The principal of a certificate, as `ssl` has it: its first URI, common name, or DNS name."""
    others: dict[str, list[str]] = {}
    for kind, name in certificate.get("subjectAltName", ()):
        others.setdefault(kind.lower(), []).append(name)
    common = [name for pairs in certificate.get("subject", ()) for key, name in pairs if key == "commonName"]
    names = [*others.get("uri", ()), *common, *others.get("dns", ())]
    claims = {kind: names for kind, names in others.items() if kind in ("dns", "uri")}
    try:
        principal = Principal(names[0] if names else "", claims, "certificate")
    except FairleadError:
        raise NotAuthenticated("the certificate is for no principal") from None
    if principal.name == ANONYMOUS:
        raise NotAuthenticated("the certificate is for no principal")
    return principal
