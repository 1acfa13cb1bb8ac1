"""The authentication and the access policy of a broker: `[security]` in its file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fairlead.configuration import PATH, Key, count
from fairlead.errors import NotInstalled, PolicyError
from fairlead.security.credentials import Authenticator, Tokens, bearer
from fairlead.security.passwords import Passwords
from fairlead.security.policy import AccessPolicy

if TYPE_CHECKING:
    from fairlead.security.sealing import Sealer

__all__ = ["Security"]


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
    log: Annotated[
        str | None, Key("the file that decisions are appended to", PATH, shown="none: they are not recorded")
    ] = None
    insecure: Annotated[
        bool, Key("to listen beyond this machine without a policy is meant: no warning is given")
    ] = False

    def problem(self) -> str:
        """The missing settings; empty if it is complete."""
        if self.policy is None and (self.passwords or self.tokens or self.log or self.keys):
            return "passwords, tokens, keys and a log of decisions mean nothing without a `policy`"
        return ""

    def read_policy(self) -> AccessPolicy | None:
        """The policy as the file has it now; PolicyError."""
        return None if self.policy is None else AccessPolicy.read(self.policy)

    def sealer(self, policy: AccessPolicy) -> Sealer | None:
        """Seals and opens by the policy and the keyring as it is now; None where nothing is sealed.
        KeyringError."""
        if not policy.sealed.types:
            return None
        try:
            from fairlead.security.sealing import Keyring, Sealer
        except ImportError as error:
            raise NotInstalled.extra("sealing", "security") from error
        keyring = Keyring() if self.keys is None else Keyring.read(self.keys)
        return Sealer(policy.sealed, keyring, policy.grace_us)

    def authenticator(self) -> Authenticator:
        """The verifier of credentials, from the files as they are now. PolicyError if they cannot be read."""
        tokens = None
        if self.tokens is not None:
            tokens = Tokens.read(
                self.tokens, audience=self.audience, issuer=self.issuer, leeway_s=self.leeway_seconds
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
