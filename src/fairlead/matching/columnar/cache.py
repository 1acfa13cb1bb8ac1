"""Kernels are compiled once per machine: the machine code is kept in the user's cache.

The directory is named by the text of this package, so no kernel survives a change of what it was compiled
from. Where the user has no directory that can be written to, a temporary one serves; whoever sets
NUMBA_CACHE_DIR has decided already. Other users of numba in the process keep their settings: ours hold only
while a kernel is declared.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numba

__all__ = ["cache_directory", "kernel"]


def kernel(*signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Declare a kernel; with a signature it is compiled (or found) at once, else at its first call."""

    def declared(function: Callable[..., Any]) -> Any:
        config: Any = numba.config
        before = config.CACHE_DIR
        if not os.environ.get("NUMBA_CACHE_DIR"):
            config.CACHE_DIR = str(cache_directory())
        try:
            if signature:
                with _alone():
                    return numba.jit(*signature, nopython=True, cache=True, nogil=True)(function)  # type: ignore[call-overload]
            return numba.jit(*signature, nopython=True, cache=True, nogil=True)(function)  # type: ignore[call-overload]
        finally:
            config.CACHE_DIR = before

    return declared


@contextmanager
def _alone() -> Iterator[None]:
    """One process of the machine at a time: of many that start together one compiles, the others find it done."""
    with ExitStack() as stack:
        with suppress(ImportError, OSError):  # no such locks here: then each compiles for itself
            from fcntl import LOCK_EX, flock

            flock(stack.enter_context((cache_directory() / "lock").open("wb")), LOCK_EX)
        yield


@cache
def cache_directory() -> Path:
    """The first directory that can be written to: in the user's cache, or in the temporary place."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    digest = blake2b(b"".join(source.read_bytes() for source in sources), digest_size=8).hexdigest()
    homes = [Path(os.environ["XDG_CACHE_HOME"])] if os.environ.get("XDG_CACHE_HOME") else []
    homes += [Path("~/.cache").expanduser(), Path(tempfile.gettempdir()) / f"fairlead-{os.getuid()}"]
    for home in homes:
        directory = home / "fairlead" / f"kernels-{digest}"
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(directory, os.W_OK):
            return directory
    return Path(tempfile.mkdtemp(prefix="fairlead-kernels-"))
