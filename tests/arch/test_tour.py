"""The tour of the code names files and functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOUR = ROOT / "docs" / "tour-of-the-code.md"
LINK = re.compile(r"\[`([\w./]+)`\]\(([^)#]+\.py)\)")
LINKS = sorted(set(LINK.findall(TOUR.read_text(encoding="utf-8"))))


def defined_in(path: Path) -> set[str]:
    """The classes and functions of a module, methods as `Class.method`."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            functions = (
                each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            names.update(f"{node.name}.{each.name}" for each in functions)
    return names


@pytest.mark.parametrize(("name", "link"), LINKS)
def test_the_tour_names_what_the_linked_file_defines(name: str, link: str) -> None:
    path = (TOUR.parent / link).resolve()
    names = {str(path.relative_to(ROOT)), path.name, *defined_in(path)} if path.is_file() else set()
    assert name in names, f"docs/tour-of-the-code.md names {name}, which {link} does not define: update it"


def test_there_are_links() -> None:
    assert len(LINKS) > 30
