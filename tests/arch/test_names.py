"""Names that once meant several things each do not come back: docs/glossary.md has the words to use instead.

    told, asked, found, kept, placed, place, way

They are refused in public identifiers: modules, classes, functions, methods, their parameters, fields, constants.
`NOT_YET` lists the packages that still have such names; it only ever gets shorter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "src" / "fairlead", ROOT / "lab" / "src" / "fairlead_lab")
REFUSED = frozenset({"told", "asked", "found", "kept", "placed", "place", "places", "way", "ways"})
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
NOT_YET = (
    "lab/src/fairlead_lab/audit/",
    "lab/src/fairlead_lab/broker/",
    "lab/src/fairlead_lab/simulation/",
    "lab/src/fairlead_lab/testing/",
    "src/fairlead/audit/",
    "src/fairlead/broker/",
    "src/fairlead/bus/",
    "src/fairlead/configuration/",
    "src/fairlead/matching/columnar/",
    "src/fairlead/network/",
    "src/fairlead/scopes/",
    "src/fairlead/spark/",
)


def is_refused(name: str) -> bool:
    """Whether one of the words that a name is made of is refused."""
    return any(word.lower() in REFUSED for word in WORD.findall(name))


def is_public(name: str) -> bool:
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def public_names(tree: ast.AST) -> Iterator[str]:
    """The public identifiers that a module, class or branch defines."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef(name=name, args=args) | ast.AsyncFunctionDef(name=name, args=args):
                if is_public(name):
                    yield name
                    yield from (each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs))
                    if name == "__init__":
                        yield from attributes(node)
            case ast.ClassDef(name=name):
                if is_public(name):
                    yield name
                    yield from public_names(node)
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (each.id for each in targets if isinstance(each, ast.Name))
            case ast.If() | ast.Try():
                yield from public_names(node)


def attributes(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def refused_names(source: str) -> set[str]:
    names = public_names(ast.parse(source))
    return {name for name in names if is_public(name) and is_refused(name)}


def modules() -> list[str]:
    paths = (path.relative_to(ROOT).as_posix() for source in SOURCES for path in source.rglob("*.py"))
    return sorted(path for path in paths if not path.startswith(NOT_YET))


@pytest.mark.parametrize("module", modules())
def test_public_names_are_of_the_glossary(module: str) -> None:
    path = ROOT / module
    stem = {path.stem} if is_refused(path.stem) else set()
    assert refused_names(path.read_text(encoding="utf-8")) | stem == set()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def told(): ...", {"told"}),
        ("def _told(found): ...", set()),
        ("class Asked:\n    kept: int\n    _found = 1", {"Asked", "kept"}),
        (
            "class A:\n    def __init__(self, place):\n        self.places = self._way = place",
            {"place", "places"},
        ),
        ("ERRORS_KEPT = 1\nfoundation = 2\naway = always = 3", {"ERRORS_KEPT"}),
        ("async def send(*, asked_by): ...", {"asked_by"}),
    ],
)
def test_a_refused_name_is_seen_wherever_it_is_public(source: str, names: set[str]) -> None:
    assert refused_names(source) == names
