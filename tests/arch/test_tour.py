"""The tour of the code and ARCHITECTURE.md name files, classes and functions that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from fairlead_lab.testing.sources import ROOT, all_modules, tree_of

PRODUCT, LABORATORY = ROOT / "src" / "fairlead", ROOT / "lab" / "src"
TOUR = ROOT / "docs" / "tour-of-the-code.md"
LINK = re.compile(r"\[`([\w./]+)`\]\(([^)#]+\.py)\)")
LINKS = sorted(set(LINK.findall(TOUR.read_text(encoding="utf-8"))))

PAGE = re.sub(r"```.*?```", "", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), flags=re.DOTALL)
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", PAGE)))
PATHS = [each for each in QUOTED if re.fullmatch(r"[\w/]+\.(py|md)|\w+(/\w+)+", each)]
NAMES = [each for each in QUOTED if re.fullmatch(r"[A-Z]\w+(\.\w+)?", each)]
"""Classes, their methods, and constants; functions without a class are words of the language, too."""
PLACED = sorted(set(re.findall(r"`([\w.]+)` (?:of |in |\()`([\w/]+/\w+\.py)`", PAGE)))


@cache
def defined_in(path: Path) -> set[str]:
    """The classes, functions and constants of a module, methods as `Class.method`."""
    names: set[str] = set()
    for node in tree_of(path).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            functions = (
                each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            names.update(f"{node.name}.{each.name}" for each in functions)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names.update(each.id for each in targets if isinstance(each, ast.Name))
    return names


def file_named(path: str) -> Path | None:
    """The file or folder that ARCHITECTURE.md means: a bare file name is that of a module of the product."""
    bases = (ROOT, PRODUCT, LABORATORY)
    exact = (base / path for base in bases if (base / path).exists())
    bare = (each for each in PRODUCT.rglob(path)) if "/" not in path else iter(())
    return next(exact, None) or next(bare, None)


@cache
def all_defined() -> frozenset[str]:
    return frozenset().union(*(defined_in(path) for path in all_modules().values()))


def is_defined(name: str) -> bool:
    """Whether some module defines a class, a method of a class, or a constant."""
    return name in all_defined()


@pytest.mark.parametrize(("name", "link"), LINKS)
def test_the_tour_names_what_the_linked_file_defines(name: str, link: str) -> None:
    path = (TOUR.parent / link).resolve()
    names = {str(path.relative_to(ROOT)), path.name, *defined_in(path)} if path.is_file() else set()
    assert name in names, f"docs/tour-of-the-code.md names {name}, which {link} does not define: update it"


@pytest.mark.parametrize("path", PATHS)
def test_architecture_names_files_that_exist(path: str) -> None:
    assert file_named(path) is not None, f"ARCHITECTURE.md names {path}, which does not exist: update it"


@pytest.mark.parametrize("name", NAMES)
def test_architecture_names_what_some_module_defines(name: str) -> None:
    assert is_defined(name), f"ARCHITECTURE.md names {name}, which no module defines: update it"


@pytest.mark.parametrize(("name", "path"), PLACED)
def test_architecture_names_what_that_file_defines(name: str, path: str) -> None:
    found = file_named(path)
    assert found is not None
    assert name in defined_in(found), f"ARCHITECTURE.md names {name} in {path}: update it"


def test_there_are_links_and_names() -> None:
    assert len(LINKS) > 30
    assert len(PATHS) > 80
    assert len(NAMES) > 30
    assert len(PLACED) > 8


@pytest.mark.parametrize("name", ["CACHED_KEYS", "Seam.asks", "NoSuchClass"])
def test_a_name_that_is_gone_is_seen(name: str) -> None:
    assert not is_defined(name)
    assert name not in defined_in(PRODUCT / "rules" / "seam.py")


@pytest.mark.parametrize("path", ["simulation/algorithms.py", "definition.py", "rules/rate.py"])
def test_a_file_that_is_gone_is_seen(path: str) -> None:
    assert file_named(path) is None
