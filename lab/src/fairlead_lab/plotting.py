"""What every plot of the laboratory shares: the library, set to draw without a display, and files that repeat."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["pyplot", "save"]


def pyplot() -> Any:
    """The library that draws; it is imported only to draw."""
    matplotlib = import_module("matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "fairlead"
    return import_module("matplotlib.pyplot")


def save(figure: Any, paths: Iterable[Path]) -> list[Path]:
    """Write a figure to files, their formats by their names, and close it; the files.

    Without a date in it, the same figure is the same file.
    """
    written = list(paths)
    for path in written:
        metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, dpi=130, metadata=metadata)
    pyplot().close(figure)
    return written
