"""A file of passwords, hashed with scrypt: a line `name:scrypt:N:r:p:salt:hash` for each principal."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from fairlead.errors import PolicyError
from fairlead.security.principals import ANONYMOUS, Principal

__all__ = ["Passwords", "entry", "write_entry"]

COST: Final = (1 << 15, 8, 1)
"""N, r and p: 32 MiB and about 80 ms for each attempt."""
MEMORY_MAX: Final = 1 << 27
SALT_BYTES: Final = 16
KNOWN_MAX: Final = 1_000


class _Hash(NamedTuple):
    cost: tuple[int, int, int]
    salt: bytes
    hash: bytes

    @classmethod
    def of(cls, password: str, cost: tuple[int, int, int] = COST) -> _Hash:
        salt = secrets.token_bytes(SALT_BYTES)
        return cls(cost, salt, _scrypt(password, cost, salt))

    @classmethod
    def parse(cls, text: str) -> _Hash:
        scheme, n, r, p, salt, hash = text.split(":")
        if scheme != "scrypt":
            raise ValueError(scheme)
        cost = (int(n), int(r), int(p))
        if 128 * cost[0] * cost[1] > MEMORY_MAX:
            raise ValueError(text)
        return cls(cost, base64.b64decode(salt, validate=True), base64.b64decode(hash, validate=True))

    def __str__(self) -> str:
        encoded = ":".join(base64.b64encode(each).decode() for each in (self.salt, self.hash))
        return f"scrypt:{':'.join(map(str, self.cost))}:{encoded}"

    def is_of(self, password: str) -> bool:
        return hmac.compare_digest(_scrypt(password, self.cost, self.salt), self.hash)


def _scrypt(password: str, cost: tuple[int, int, int], salt: bytes) -> bytes:
    n, r, p = cost
    return hashlib.scrypt(
        password.encode(), salt=salt, n=n, r=r, p=p, maxmem=MEMORY_MAX + (1 << 20), dklen=32
    )


def entry(name: str, password: str) -> str:
    """The line of a principal."""
    _check_name(name)
    return f"{name}:{_Hash.of(password)}"


def write_entry(path: str | Path, name: str, password: str | None) -> None:
    """Set the password of a principal in a file, which only its owner can read; None removes it."""
    file = Path(path)
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    others = [line for line in lines if line.partition(":")[0] != name]
    new = [] if password is None else [entry(name, password)]
    beside = file.with_name(f"{file.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as written:
        written.write("".join(f"{line}\n" for line in (*others, *new)))
        written.flush()
        os.fsync(written.fileno())
    beside.replace(file)


def _check_name(name: str) -> None:
    Principal(name)
    if ":" in name or name == ANONYMOUS:
        raise PolicyError(f"{name!r} cannot have a password: a name without a colon was expected")


class Passwords:
    """The passwords of a file. A name that is not there takes as long as one that is."""

    def __init__(
        self, hashes: dict[str, _Hash], random: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        self._hashes = hashes
        self._nobody = _Hash(COST, random(SALT_BYTES), random(32))
        self._key = random(32)
        self._known: OrderedDict[bytes, None] = OrderedDict()
        """Passwords that were right lately, keyed by a hash that is of no use elsewhere: over HTTP each
        request has one."""

    @classmethod
    def read(cls, path: str | Path) -> Passwords:
        """The passwords of a file; PolicyError names the line that is none."""
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise PolicyError(f"{path}: cannot be read: {error}") from None
        hashes: dict[str, _Hash] = {}
        for number, line in enumerate(lines, start=1):
            if not line.strip() or line.startswith("#"):
                continue
            name, _, hash = line.partition(":")
            try:
                _check_name(name)
                hashes[name] = _Hash.parse(hash)
            except ValueError:
                hint = "`fairlead policy password NAME` writes such lines"
                raise PolicyError(f"{path}: line {number} is no name with a hash", hint=hint) from None
        return cls(hashes)

    def is_known(self, name: str, password: str) -> bool:
        """Whether a password was right lately, which takes no time."""
        return self._mark(name, password) in self._known

    def check(self, name: str, password: str) -> bool:
        """Whether a password is right. This takes a while, on purpose."""
        mark = self._mark(name, password)
        if mark in self._known:
            return True
        is_right = self._hashes.get(name, self._nobody).is_of(password) and name in self._hashes
        if is_right:
            self._known[mark] = None
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        return is_right

    def _mark(self, name: str, password: str) -> bytes:
        return hmac.digest(self._key, f"{name}:{password}".encode(), "sha256")
