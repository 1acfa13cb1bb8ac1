"""Brokers with an access policy, and clients of theirs by token."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any, Final

import jwt

from fairlead.network import sync
from fairlead.network.server import Server
from fairlead.security.credentials import bearer
from fairlead.security.settings import Security
from fairlead_lab.testing.brokers import PATIENCE_S, Brokers

__all__ = ["KEY", "POLICY", "Guarded", "jwks", "token"]

KEY: Final = b"a key for tests of 32 bytes long"
POLICY: Final = """
[roles.trader]
members = ["ada", "bob"]
subscribe = ['symbol = "IBM"']
durables = ["desk-*"]

[roles.exchange]
members = ["nyse"]
publish = ['symbol in {"IBM", "SAP"}']
producers = ["nyse-2"]

[roles.operator]
members = ["root"]
allow = ["connect", "inspect", "manage"]
clients = ["operator"]

[roles.brokers]
members = ["b", "east"]
allow = ["link"]
"""


def token(name: str, *, key: bytes = KEY, lasts_s: float = 600, **claims: Any) -> str:
    """A token of a principal, signed with this key."""
    given = {"sub": name, "aud": "fairlead", "exp": time.time() + lasts_s, **claims}
    return jwt.encode(given, key, "HS256", headers={"kid": "one"})


def jwks(key: bytes = KEY) -> str:
    """A JWK set with one shared key."""
    encoded = base64.urlsafe_b64encode(key).decode().rstrip("=")
    return json.dumps({"keys": [{"kty": "oct", "k": encoded, "kid": "one", "alg": "HS256"}]})


class Guarded:
    """Brokers with a policy in a directory, and clients of theirs by token."""

    def __init__(self, brokers: Brokers, path: Path) -> None:
        self.brokers, self.path = brokers, path
        self.write(POLICY)
        (path / "keys.json").write_text(jwks())

    def write(self, policy: str) -> None:
        """Write the policy."""
        (self.path / "policy.toml").write_text(policy)

    def start(self, name: str = "b", *, logged: bool = True, **more: Any) -> Server:
        """A broker with the policy; `keys` are further keys of `[security]`."""
        files = {"policy": "policy.toml", "tokens": "keys.json", "log": "access.jsonl"}
        keys: dict[str, Any] = {key: str(self.path / file) for key, file in files.items()}
        security = Security(**keys, **more.pop("keys", {}))
        return self.brokers.start(name, self.path if logged else None, security=security, **more)

    def client(
        self, server: Server, principal: str | None, name: str | None = None, **more: Any
    ) -> sync.Client:
        """A client that acts for a principal, or for nobody."""
        credentials = None if principal is None else bearer(token(principal, **more))
        return sync.connect(server.url, name=name, credentials=credentials, patience=PATIENCE_S)

    def reload(self, server: Server, policy: str) -> None:
        """Write another policy, and have a broker read it, as the operator."""
        self.write(policy)
        with self.client(server, "root", "operator") as root:
            root.reload()

    def decisions(self) -> list[dict[str, Any]]:
        """The entries in the log of decisions."""
        return [json.loads(line) for line in (self.path / "access.jsonl").read_text().splitlines()]
