"""Names that once meant several things each do not come back: docs/glossary.md has the words to use instead.

    told, asked, found, kept, placed, place, way

They are refused in public identifiers: modules, classes, functions, methods, their parameters, fields, constants;
and in all names of functions, classes and attributes, private ones too.

A docstring opens with a noun or a verb, not with What, Who, Which, Where or How. That holds for the strings below
constants and attributes, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import pytest

from fairlead_lab.testing.sources import all_modules, nodes_of, tree_of

REFUSED = frozenset({"told", "asked", "found", "kept", "placed", "place", "places", "way", "ways"})
OPENINGS = re.compile(r"(What|Who|Whom|Whose|Which|Where|How|Whoever|Whatever)\b")
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


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


def defined_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names of all functions, classes and attributes, private ones too."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def docstrings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The docstrings of a module, of all its classes, functions and methods, and of constants and attributes."""
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


def refused_names(tree: ast.Module, nodes: Iterable[ast.AST]) -> set[str]:
    names = {name for name in public_names(tree) if is_public(name)} | {*defined_names(nodes)}
    return {name for name in names if is_refused(name)}


def vague_docstrings(nodes: Iterable[ast.AST]) -> list[str]:
    return [text.split("\n")[0] for text in docstrings(nodes) if OPENINGS.match(text)]


def test_public_names_are_of_the_glossary() -> None:
    refused = {}
    for module, path in all_modules().items():
        stem = {path.stem} if is_refused(path.stem) else set()
        refused[module] = refused_names(tree_of(path), nodes_of(path)) | stem
    assert {module: names for module, names in refused.items() if names} == {}


def test_docstrings_open_with_a_noun_or_a_verb() -> None:
    vague = {module: vague_docstrings(nodes_of(path)) for module, path in all_modules().items()}
    assert {module: texts for module, texts in vague.items() if texts} == {}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def told(): ...", {"told"}),
        ("def _told(found): ...", {"_told"}),
        ("class Asked:\n    kept: int\n    _found = 1", {"Asked", "kept"}),
        (
            "class A:\n    def __init__(self, place):\n        self.places = self._way = place",
            {"place", "places", "_way"},
        ),
        ("ERRORS_KEPT = 1\nfoundation = 2\naway = always = 3", {"ERRORS_KEPT"}),
        ("async def send(*, asked_by): ...", {"asked_by"}),
    ],
)
def test_a_refused_name_is_seen_wherever_it_is_public(source: str, names: set[str]) -> None:
    tree = ast.parse(source)
    assert refused_names(tree, ast.walk(tree)) == names


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ('"""What is sent."""', ["What is sent."]),
        ('"""Whether it is sent: where, and how."""', []),
        ('class A:\n    """A."""\n    def b(self):\n        """How b is.\n\n        More."""', ["How b is."]),
        ('def _private():\n    """Who knows."""', ["Who knows."]),
        ('class _A:\n    def b(self):\n        """Which one."""', ["Which one."]),
        ('if True:\n    def f():\n        """Where f is."""', ["Where f is."]),
        ('A = 1\n"""How many there are."""', ["How many there are."]),
        ('class A:\n    b: int\n    """What b is."""\n    c: int\n    """The c."""', ["What b is."]),
        ('class A:\n    def b(self):\n        self.c = 1\n        """Who has c."""', ["Who has c."]),
    ],
)
def test_a_vague_docstring_is_seen_wherever_it_is(source: str, texts: list[str]) -> None:
    assert vague_docstrings(ast.walk(ast.parse(source))) == texts
