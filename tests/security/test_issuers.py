"""The keys of an issuer of tokens are fetched from its URL, and rotate; a broker asks for them now and then."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from fairlead.errors import BrokerRefused, NotAuthenticated, PolicyError
from fairlead.network import sync
from fairlead.security import issuers
from fairlead.security.credentials import Authenticator, Tokens, bearer
from fairlead.security.issuers import AGAIN_S, RemoteKeys, fetched, public_keys, unsafe_url
from fairlead.security.settings import Security
from fairlead_lab.testing.guarded import Guarded

KEYS = {name: Ed25519PrivateKey.generate() for name in ("old", "new", "stranger")}


def jwk(name: str, **more: Any) -> dict[str, Any]:
    public: Any = jwt.algorithms.OKPAlgorithm.to_jwk(KEYS[name].public_key(), as_dict=True)
    return {**public, "kid": name, **more}


def published(*names: str) -> bytes:
    return json.dumps({"keys": [jwk(each) for each in names]}).encode()


def token(name: str, key: str, kid: str = "", **claims: Any) -> str:
    given = {"sub": name, "aud": "fairlead", "exp": time.time() + 600, **claims}
    return jwt.encode(given, KEYS[key], "EdDSA", headers={"kid": kid or key})


class Issuer:
    """What is at the URL, when it was asked, and the time."""

    def __init__(self, content: bytes | OSError) -> None:
        self.content, self.asked, self.now = content, 0, 0.0
        self.keys = RemoteKeys("https://issuer", 300, fetch=self.fetch, clock=lambda: self.now)
        self.tokens = Tokens({}, audience="fairlead", remote=self.keys)
        self.authenticator = Authenticator(self.tokens)

    def fetch(self, url: str) -> bytes:
        self.asked += 1
        if isinstance(self.content, OSError):
            raise self.content
        return self.content

    def accepts(self, shown: str) -> bool:
        """As a broker does: the keys are fetched where the token's is not known."""
        authorization = bearer(shown)
        if self.authenticator.is_slow(authorization):
            self.keys.look()
        try:
            return self.authenticator.principal(authorization, None, time.time_ns() // 1_000).name == "ada"
        except NotAuthenticated:
            return False


def test_a_key_that_is_not_known_is_fetched_and_one_that_was_removed_verifies_nothing() -> None:
    issuer = Issuer(published("old"))
    assert issuer.accepts(token("ada", "old"))
    issuer.content = published("old", "new")
    issuer.now += AGAIN_S
    assert issuer.accepts(token("ada", "new"))
    assert issuer.accepts(token("ada", "old"))
    assert issuer.asked == 2
    issuer.content = published("new")
    issuer.now += 300
    assert issuer.keys.is_due
    issuer.keys.look()
    assert issuer.accepts(token("ada", "new"))
    assert not issuer.accepts(token("ada", "old"))
    assert not issuer.keys.is_due


def test_tokens_that_name_any_key_have_an_issuer_asked_once_in_a_while() -> None:
    issuer = Issuer(published("old"))
    for number in range(1_000):
        assert not issuer.accepts(token("ada", "stranger", f"kid-{number}"))
    assert issuer.asked == 1
    assert not issuer.accepts(token("ada", "stranger", "old"))  # another's signature under a known id


def test_a_failure_changes_nothing() -> None:
    issuer = Issuer(published("old"))
    assert issuer.accepts(token("ada", "old"))
    for content in (OSError("down"), b"{", b"[]", b'{"keys": []}', b'{"keys": [1, {"kty": "RSA"}]}'):
        issuer.content = content
        issuer.now += 1_000
        assert not issuer.keys.look()
        assert issuer.accepts(token("ada", "old"))
        assert not issuer.keys.is_due  # not at once
        issuer.now += AGAIN_S
        assert issuer.keys.is_due


def test_public_keys_alone_are_taken_each_with_one_algorithm() -> None:
    rsa = generate_private_key(65_537, 2_048)
    private: Any = jwt.algorithms.RSAAlgorithm.to_jwk(rsa, as_dict=True)
    public: Any = jwt.algorithms.RSAAlgorithm.to_jwk(rsa.public_key(), as_dict=True)
    given = [
        {"kty": "oct", "k": "c2VjcmV0" * 10, "kid": "shared", "alg": "HS256"},
        {**private, "kid": "private"},
        {**public, "kid": "encrypts", "use": "enc"},
        {**public, "kid": "mixed", "alg": "HS256"},
        {**public, "kid": "none", "alg": "none"},
        {**public, "kid": "rsa"},
        {**public, "kid": "pss", "alg": "PS512", "use": "sig"},
        jwk("old"),
    ]
    found = {
        name: key.algorithm_name for name, key in public_keys(json.dumps({"keys": given}).encode(), "here")
    }
    assert found == {"rsa": "RS256", "pss": "PS512", "old": "EdDSA"}
    with pytest.raises(PolicyError, match="a JWK set with public keys was expected"):
        [*public_keys(json.dumps({"keys": given[:5]}).encode(), "here")]


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/keys",
        "file:///etc/passwd",
        "ftp://127.0.0.1",
        "https://",
        "keys.json",
        "http://[",
    ],
)
def test_keys_are_not_fetched_from_where_others_could_put_theirs(url: str) -> None:
    assert unsafe_url(url)
    with pytest.raises(OSError):  # noqa: PT011
        fetched(url)
    assert Security(policy="p", tokens_url=url).problem().startswith("tokens_url: ")


_algorithm_of = issuers._algorithm_of


def _shared_too(key: Any) -> str | None:
    return "HS256" if key["kty"] == "oct" else _algorithm_of(key)


MUTANTS: list[tuple[str, Callable[[], None], Callable[[pytest.MonkeyPatch], None]]] = [
    (
        "fetches for every token",
        test_tokens_that_name_any_key_have_an_issuer_asked_once_in_a_while,
        lambda patch: patch.setattr(issuers, "AGAIN_S", 0.0),
    ),
    (
        "takes shared keys",
        test_public_keys_alone_are_taken_each_with_one_algorithm,
        lambda patch: patch.setattr(issuers, "_algorithm_of", _shared_too),
    ),
    (
        "keeps what it has had",
        test_a_key_that_is_not_known_is_fetched_and_one_that_was_removed_verifies_nothing,
        lambda patch: patch.setattr(RemoteKeys, "is_due", True),
    ),
]


@pytest.mark.parametrize(("law", "mutate"), [pytest.param(*each[1:], id=each[0]) for each in MUTANTS])
def test_a_mutant_is_caught(
    law: Callable[[], None], mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        law()


# -- live ------------------------------------------------------------------------------------------------------


class Served:
    """An issuer that answers over HTTP, within this machine."""

    def __init__(self) -> None:
        self.content, self.asked = published("old"), 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                if self.path == "/elsewhere":
                    self.send_response(302)
                    self.send_header("Location", "http://issuer.example/keys")
                    self.end_headers()
                    return
                self.send_response(200)
                self.end_headers()
                self.wfile.write(outer.content)

            def log_message(self, *given: Any) -> None:
                """It says nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/keys"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def issuer() -> Iterator[Served]:
    made = Served()
    yield made
    made.close()


def test_an_issuer_does_not_lead_elsewhere(issuer: Served) -> None:
    with pytest.raises(OSError, match="leads elsewhere"):
        fetched(issuer.url.replace("/keys", "/elsewhere"))


def test_a_broker_takes_tokens_by_the_keys_that_its_issuer_publishes(
    guarded: Guarded, issuer: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuers, "AGAIN_S", 0.0)
    server = guarded.start(keys={"tokens_url": issuer.url})

    def connects(shown: str) -> bool:
        try:
            with sync.connect(server.url, credentials=bearer(shown), patience=1) as client:
                return client.name.startswith("ada~")
        except BrokerRefused:
            return False

    assert connects(token("ada", "old"))
    assert not connects(token("ada", "stranger"))
    issuer.content = published("new")
    assert connects(token("ada", "new"))
    assert not connects(token("ada", "old"))
    from fairlead_lab.testing.guarded import token as of_file

    assert connects(of_file("ada"))  # the keys of the file hold beside them
