"""Public names are chosen: every package lists them, sorted, in `__all__`, and every one exists."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {"fairlead": ROOT / "src", "fairlead_lab": ROOT / "lab" / "src"}
PACKAGES = sorted(
    ".".join(path.parent.relative_to(source).parts)
    for name, source in SOURCES.items()
    for path in (source / name).rglob("__init__.py")
)


def rank(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest, each by name: the order that ruff (RUF022) keeps."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2), name


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_lists_its_public_names_in_order_and_has_them(package: str) -> None:
    module = importlib.import_module(package)
    assert hasattr(module, "__all__"), f"{package}/__init__.py has no __all__"
    names = list(module.__all__)
    assert names == sorted(set(names), key=rank)
    assert [name for name in names if not hasattr(module, name)] == []
