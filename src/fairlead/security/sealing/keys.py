"""Keys by class and epoch. A class begins another epoch when its key is rotated; who is not given the new key is
out.

The keys of several classes together make one key, which none of them alone gives: HKDF over all of them, in the
order of their names.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NoReturn, TypeAlias

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fairlead.errors import KeyringError
from fairlead.security.files import write_private

__all__ = ["EQUALITY", "REPEATING", "SEALING", "TOKENS", "Epoch", "Epochs", "Keyring"]

KEY_BYTES: Final = 32
Epoch: TypeAlias = tuple[str, int]
"""A class and the number of one of its keys, from 1."""
Epochs: TypeAlias = tuple[Epoch, ...]
"""One key of each class of an alternative, by the names of the classes."""
SEALING: Final = "sealing"
TOKENS: Final = "predicates"
REPEATING: Final = "repeating"
EQUALITY: Final = "equality"
"""The purpose of a derived key: values, predicates, values that are sealed to the same bytes each time, or
tokens of values."""
_FORMAT: Final = 1


class Keyring:
    """The keys that one program has. It has no representation of them, and cannot be pickled."""

    def __init__(self) -> None:
        self._secrets: dict[Epoch, bytes] = {}
        self._since: dict[Epoch, int] = {}
        self._derived: dict[tuple[Epochs, str], bytes] = {}
        self.version = 0
        """The number of its changes."""

    def __repr__(self) -> str:
        return f"Keyring({', '.join(f'{name}:{epoch}' for name, epoch in sorted(self._secrets))})"

    def __reduce__(self) -> NoReturn:
        raise KeyringError("a keyring is not pickled: programs elsewhere load their own")

    def __iter__(self) -> Iterator[Epoch]:
        return iter(sorted(self._secrets))

    def __contains__(self, epoch: object) -> bool:
        return epoch in self._secrets

    @property
    def classes(self) -> frozenset[str]:
        """The classes of which it has a key."""
        return frozenset(name for name, _ in self._secrets)

    def add(self, epoch: Epoch, secret: bytes, since: int) -> bool:
        """Add a key that holds since a time, in microseconds; whether it was new. KeyringError: another one is
        known."""
        if len(secret) != KEY_BYTES or epoch[1] < 1:
            raise KeyringError(
                f"{epoch[0]}:{epoch[1]}: a key has {KEY_BYTES} bytes, and epochs are counted from 1"
            )
        known = self._secrets.get(epoch)
        if known is not None:
            if not secrets.compare_digest(known, secret):
                raise KeyringError(f"{epoch[0]}:{epoch[1]}: there is another key of this epoch")
            return False
        self._secrets[epoch], self._since[epoch] = secret, since
        self.version += 1
        return True

    def rotate(self, name: str, now: int) -> Epoch:
        """Begin a new epoch of a class, with a new key; a class that is not known begins with its first."""
        epoch = (name, max((number for each, number in self._secrets if each == name), default=0) + 1)
        self.add(epoch, secrets.token_bytes(KEY_BYTES), now)
        return epoch

    def latest(self, name: str) -> Epoch:
        """The last epoch of a class; KeyringError where none is known."""
        epochs = [each for each in self._secrets if each[0] == name]
        if not epochs:
            raise KeyringError(
                f"there is no key of the class {name!r}", hint=f"there are {sorted(self.classes)}"
            )
        return max(epochs)

    def since(self, epoch: Epoch) -> int | None:
        """When an epoch began; None where it is not known."""
        return self._since.get(epoch)

    def replaced_at(self, epoch: Epoch) -> int | None:
        """When the next epoch of its class began; None where that is not known."""
        later = [
            since for (name, number), since in self._since.items() if name == epoch[0] and number > epoch[1]
        ]
        return min(later, default=None)

    def opens(self, epochs: Iterable[Epoch]) -> bool:
        """Whether it has all of these keys."""
        return all(each in self._secrets for each in epochs)

    def derived(self, epochs: Epochs, purpose: str, length: int) -> bytes | None:
        """The key of these classes together, for a purpose; None where one of their keys is not there."""
        known = self._derived.get((epochs, purpose))
        if known is None and self.opens(epochs) and epochs:
            info = json.dumps([purpose, epochs], ensure_ascii=False).encode()
            material = b"".join(self._secrets[each] for each in epochs)
            known = HKDF(hashes.SHA256(), length, salt=b"fairlead", info=info).derive(material)
            self._derived[epochs, purpose] = known
        return known

    def secret(self, epoch: Epoch) -> bytes:
        """A key, to be handed to a member of its class."""
        try:
            return self._secrets[epoch]
        except KeyError:
            raise KeyringError(f"there is no key {epoch[0]}:{epoch[1]}") from None

    # -- the file ----------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | Path) -> Keyring:
        """The keys of a file; KeyringError, which never quotes it."""
        ring = cls()
        try:
            given = json.loads(Path(path).read_text(encoding="utf-8"))
            if given["format"] != _FORMAT:
                raise KeyringError(f"{path}: format {given['format']} is not known here")
            for each in given["keys"]:
                ring.add((str(each["class"]), int(each["epoch"])), _bytes(each["key"]), int(each["since"]))
        except OSError as error:
            raise KeyringError(f"{path}: cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise KeyringError(f"{path}: this is no keyring") from None
        return ring

    def write(self, path: str | Path) -> None:
        """Write the file anew, for its owner only."""
        keys = [
            {"class": name, "epoch": number, "since": self._since[name, number], "key": _text(secret)}
            for (name, number), secret in sorted(self._secrets.items())
        ]
        write_private(path, {"format": _FORMAT, "keys": keys})


def _text(secret: bytes) -> str:
    return base64.b64encode(secret).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
