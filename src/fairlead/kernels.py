"""Kernels are compiled once per machine: the machine code is in the user's cache.

The directory is named by the text that a kernel is compiled from: that of its module or, in a package that is
called `kernels`, of the package above that. So no kernel survives a change. The directory belongs to the user
alone; a user without a home that can be written to gets a temporary one.
A user who sets NUMBA_CACHE_DIR has decided already. Other users of numba in the process keep their settings:
ours hold only while a kernel is declared.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

__all__ = ["LIBRARIES", "cache_directory", "is_fast", "kernel"]

LIBRARIES: Final = ("numba", "numpy", "pyarrow")
"""The libraries that kernels and their arrays need: those of the extra `fast`."""


@cache
def is_fast() -> bool:
    """Whether kernels can be compiled here."""
    return all(find_spec(library) is not None for library in LIBRARIES)


def kernel(
    *signature: Any, inline: bool = False, counted: bool = False, by_address: bool = False
) -> Callable[[Callable[..., Any]], Any]:
    """Declare a kernel; with a signature it is compiled, or loaded, at once, else at its first call.

    `inline`: it becomes part of the kernels that call it, whatever its size. `counted`: it allocates arrays or
    returns some, so references to arrays are counted. The others borrow what their callers hold: in a loop that
    hands arrays on, counting would take most of the time. `by_address`: it is called as a function of C is, with
    addresses instead of arrays, which numba takes longer to look at than some kernels to run.
    """

    import numba
    from numba.core.compiler_lock import global_compiler_lock

    def declared(function: Callable[..., Any]) -> Any:
        # The setting of the directory and the registries of numba are those of all threads.
        with global_compiler_lock:
            config: Any = numba.config
            before = config.CACHE_DIR
            directory = cache_directory(function.__code__.co_filename)
            if not os.environ.get("NUMBA_CACHE_DIR"):
                config.CACHE_DIR = str(directory)
            made: Any
            if by_address:
                made = numba.cfunc(signature[0], cache=True)
            else:
                options = {
                    "nopython": True,
                    "cache": True,
                    "nogil": True,
                    "forceinline": inline,
                    "_nrt": counted,
                }
                made = numba.jit(*signature, **options)  # type: ignore[call-overload]
            try:
                with _alone(directory) if signature else nullcontext():
                    return made(function)
            finally:
                config.CACHE_DIR = before

    return declared


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One process of the machine at a time: of many that start together one compiles, the others find it done."""
    with ExitStack() as stack:
        with suppress(ImportError, OSError):  # no such locks here: then each compiles for itself
            from fcntl import LOCK_EX, flock

            flock(stack.enter_context((directory / "lock").open("wb")), LOCK_EX)
        yield


@cache
def cache_directory(module: str) -> Path:
    """The directory of the compiled kernels of a file: in the user's cache, else below the temporary directory.

    numba runs what it loads from here. So the directory belongs to this user alone, and one that somebody else
    owns or can write to is passed over, whatever its name.
    """
    package = Path(module).parent
    sources = sorted(package.parent.rglob("*.py")) if package.name == "kernels" else [Path(module)]
    digest = blake2b(b"".join(source.read_bytes() for source in sources), digest_size=8).hexdigest()
    homes = [Path(os.environ["XDG_CACHE_HOME"])] if os.environ.get("XDG_CACHE_HOME") else []
    homes.append(Path("~/.cache").expanduser())
    for home in homes:
        with suppress(OSError):
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory := _private(home / "fairlead", f"kernels-{digest}"):
            return directory
    shared = Path(tempfile.gettempdir()) / f"fairlead-{os.geteuid()}"
    return _private(shared, f"kernels-{digest}") or Path(tempfile.mkdtemp(prefix="fairlead-kernels-"))


def _private(parent: Path, name: str) -> Path | None:
    """A directory that this user owns and only this user can write to, made where it is missing; None if refused.

    The parent must be such a directory as well: who can write to it could exchange what lies in it.
    """
    directory = parent / name
    try:
        for each in (parent, directory):
            with suppress(FileExistsError):
                each.mkdir(mode=0o700)
            status = each.lstat()  # a link is none of ours, wherever it leads
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return None
    except OSError:
        return None
    return directory if os.access(directory, os.W_OK | os.X_OK) else None
