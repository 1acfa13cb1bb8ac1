"""Every connection is an open file, and the log needs some: so connections never take the last ones.

A broker that could not open the next file of its log could not go on; one that takes no more connections for a
while goes on for all others.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["FILES_BESIDE", "file_limits", "room_for_connections"]

FILES_BESIDE: Final = 1_000
"""The number of files a broker may need beside the connections of its clients."""
SHARE_BESIDE: Final = 4
"""The share of files that are left to the broker where the system allows few: one in so many."""


def file_limits() -> tuple[int, int] | None:
    """The soft and the hard limit of open files of this process; None if the system has none."""
    try:
        import resource
    except ImportError:  # a system without such limits
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return tuple(sys.maxsize if each == resource.RLIM_INFINITY else each for each in (soft, hard))  # type: ignore[return-value]


def room_for_connections() -> int:
    """The number of connections that leaves enough files for all else."""
    limits = file_limits()
    if limits is None:
        return sys.maxsize
    return limits[0] - min(FILES_BESIDE, limits[0] // SHARE_BESIDE)
