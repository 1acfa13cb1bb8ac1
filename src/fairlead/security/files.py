"""Files of secrets and rights: only their owner reads them, and they are written all at once."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from fairlead.errors import KeyringError

__all__ = ["write_private"]


def write_private(path: str | Path, jsonable: Any) -> None:
    """Write JSON to a file that only its owner can read, all of it or nothing."""
    beside = Path(f"{path}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(jsonable, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(descriptor)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise KeyringError(f"{path}: cannot be written: {error.strerror}") from None
