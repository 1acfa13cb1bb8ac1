"""The authentication and the access policy of a broker: `[security]` in its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fairlead.configuration import PATH, Key, count
from fairlead.errors import NotInstalled, PolicyError
from fairlead.security.annotations import Annotations
from fairlead.security.credentials import Authenticator, Tokens, bearer
from fairlead.security.issuers import RemoteKeys, unsafe_url
from fairlead.security.passwords import Passwords
from fairlead.security.policy import AccessPolicy

if TYPE_CHECKING:
    from fairlead.filters.schema import Schema
    from fairlead.security.sealing import Keyring, Sealer
    from fairlead.security.sealing.tunnels import Tunnel

__all__ = ["Security", "sealer_of"]


def sealer_of(annotations: Annotations, keys: str | Keyring | None, grace_us: Mapping[str, int]) -> Sealer:
    """Seals and opens by annotations and a keyring, or one as its file is now; without either, it has no keys.

    KeyringError; NotInstalled without the library that seals.
    """
    try:
        from fairlead.security.sealing import Keyring, Sealer
    except ImportError as error:
        raise NotInstalled.extra("sealing", "security") from error
    if not isinstance(keys, Keyring):
        keys = Keyring() if keys is None else Keyring.read(keys)
    return Sealer(annotations, keys, grace_us)


@dataclass(frozen=True, slots=True)
class Security:
    """The keys of `[security]`."""

    policy: Annotated[
        str | None,
        Key("the access policy: who may do what", PATH, shown="none: everybody may do everything"),
    ] = None
    passwords: Annotated[
        str | None, Key("the file of passwords, written by `fairlead policy password`", PATH)
    ] = None
    tokens: Annotated[
        str | None, Key("the JWK set with the keys that tokens are signed with, each with its `alg`", PATH)
    ] = None
    tokens_url: Annotated[
        str | None,
        Key(
            "the https:// address where an issuer publishes the keys of its tokens (a JWK set); they are fetched"
            " anew from time to time, and when a token names one that is not known",
            shown="none",
        ),
    ] = None
    tokens_refresh_seconds: Annotated[
        int, Key("how long keys from there hold before they are fetched anew", count(10, 86_400))
    ] = 300
    audience: Annotated[str, Key("the audience that a token has to name")] = "fairlead"
    issuer: Annotated[str | None, Key("the issuer that a token has to name", shown="any")] = None
    leeway_seconds: Annotated[
        int, Key("how far the clocks of issuers may be behind or ahead", count(0, 3_600))
    ] = 0
    credentials: Annotated[
        str | None,
        Key(
            "a file with the token that this broker shows to the brokers it calls",
            PATH,
            shown="its certificate",
        ),
    ] = None
    brokers: Annotated[
        tuple[str, ...] | None,
        Key(
            "names, or patterns with `*`, of the brokers that may be neighbours",
            shown="any; in the file of a network, those in it",
        ),
    ] = None
    links: Annotated[
        tuple[str, ...] | None,
        Key(
            "addresses, or patterns with `*` such as `fairlead://10.0.7.*:7400`, that clients may have this broker"
            " call (`fairlead broker link`)",
            shown="any",
        ),
    ] = None
    keys: Annotated[
        str | None,
        Key(
            "the keyring of this broker, written by `fairlead keys`: it matches sealed attributes that it opens",
            PATH,
            shown="none: it forwards what may match",
        ),
    ] = None
    identity: Annotated[
        str | None,
        Key(
            'the identity of this broker, written by `fairlead keys identity`: with `untrusted = "seal"` in the'
            " policy, it seals for other brokers and opens what they sealed",
            PATH,
            shown="none",
        ),
    ] = None
    delegations: Annotated[
        str | None,
        Key(
            "the file that keeps the delegations that principals make by a call; brokers may share it",
            PATH,
            shown="none: they end with the broker",
        ),
    ] = None
    types: Annotated[
        str | None,
        Key(
            "the file that keeps the types that principals declare by a call; brokers may share it",
            PATH,
            shown="none: they end with the broker, unless a neighbour knows them",
        ),
    ] = None
    log: Annotated[
        str | None, Key("the file that decisions are appended to", PATH, shown="none: they are not recorded")
    ] = None
    insecure: Annotated[
        bool, Key("to listen beyond this machine without a policy is meant: no warning is given")
    ] = False

    def problem(self) -> str:
        """The missing settings; empty if it is complete."""
        if self.tokens_url is not None and (problem := unsafe_url(self.tokens_url)):
            return f"tokens_url: {problem}"
        given = (
            self.passwords,
            self.tokens,
            self.tokens_url,
            self.log,
            self.keys,
            self.delegations,
            self.types,
        )
        if self.policy is None and any(given):
            return (
                "passwords, tokens, keys, delegations, types and a log of decisions mean nothing without a"
                " `policy`"
            )
        return ""

    def read_policy(self, schema: Schema | None = None) -> AccessPolicy | None:
        """The policy as the file has it now; PolicyError."""
        return None if self.policy is None else AccessPolicy.read(self.policy, schema)

    def sealer(self, policy: AccessPolicy) -> Sealer | None:
        """Seals and opens by the policy and the keyring as it is now; None where nothing is sealed.
        KeyringError."""
        return None if not policy.sealed.types else sealer_of(policy.sealed, self.keys, policy.grace_us)

    def tunnel(self, policy: AccessPolicy, broker: str) -> Tunnel | None:
        """Seals for other brokers, and opens what they sealed; None where the policy does not have that.
        PolicyError, KeyringError."""
        if not policy.trust.seals:
            return None
        try:
            from fairlead.security.sealing.sharing import Identity
            from fairlead.security.sealing.tunnels import Tunnel
        except ImportError as error:
            raise NotInstalled.extra("sealing", "security") from error
        if self.identity is None:
            raise PolicyError(
                'untrusted = "seal": this broker has no identity', hint="[security] identity names its file"
            )
        return Tunnel(broker, Identity.read(self.identity), policy.trust.publics)

    def authenticator(self, remote: RemoteKeys | None = None) -> Authenticator:
        """The verifier of credentials, from the files as they are now. PolicyError if they cannot be read.

        `remote` are the keys of the issuer that are known already.
        """
        if self.tokens_url is None:
            remote = None
        elif remote is None or remote.url != self.tokens_url:
            remote = RemoteKeys(self.tokens_url, self.tokens_refresh_seconds)
        keys = {} if self.tokens is None else Tokens.keys_in(self.tokens)
        tokens = None
        if keys or remote is not None:
            tokens = Tokens(
                keys,
                audience=self.audience,
                issuer=self.issuer,
                leeway_s=self.leeway_seconds,
                remote=remote,
            )
        return Authenticator(tokens, None if self.passwords is None else Passwords.read(self.passwords))

    def own_credentials(self) -> str:
        """The credentials that this broker shows to others. PolicyError if they cannot be read."""
        if self.credentials is None:
            return ""
        try:
            with open(self.credentials, encoding="utf-8") as file:
                return bearer(file.read())
        except OSError as error:
            raise PolicyError(f"{self.credentials}: cannot be read: {error.strerror}") from None
