"""The reference of every configuration file is made of the declarations of its keys; `make golden` writes it anew.

A page has `<!-- keys: module:name [table] -->`, the table of keys, and `<!-- end of keys -->`. Without the name of
a table, all keys of the file are in one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from fairlead.configuration import Format, file_of
from fairlead.network.settings import COMMON

DOCS = Path(__file__).parents[2] / "docs"
MARK = re.compile(r"(<!-- keys: ([\w.]+):(\w+)(?: \[(\w*)\])? -->\n).*?(<!-- end of keys -->)", re.DOTALL)
PAGES = sorted(page for page in DOCS.glob("*.md") if MARK.search(page.read_text(encoding="utf-8")))
FILES = {
    "fairlead.network.overlay:OVERLAY_FILE",
    "fairlead.network.settings:BrokerSettings",
    "fairlead.security.policy:POLICY_FILE",
    "fairlead.spark.config:Config",
    "fairlead_lab.simulation.detection.scenario:DetectionScenario",
    "fairlead_lab.simulation.fair.scenario:FairScenario",
    "fairlead_lab.simulation.scenario:Scenario",
    "fairlead_lab.simulation.scopes:ScopesScenario",
}


def format_named(module: str, name: str) -> Format:
    """The format of a file, by the class of its values or by itself."""
    held = getattr(import_module(module), name)
    return file_of(held) if isinstance(held, type) else held


def reference(file: Format, table: str | None) -> str:
    """The keys of a table, or all of them."""
    rows = ["| key | default | means |", "| --- | --- | --- |"]
    for name in file if table is None else [table]:
        brackets = f"[[{name}]]" if file[name].several else f"[{name}]"
        label = f"`{brackets}` " if table is None and name else ""
        rows += [
            f"| {label}`{key}` | {row.default_text} | {row.meaning} |" for key, row in file[name].rows.items()
        ]
    return "\n".join(rows)


def made_anew(page: str) -> str:
    def block(found: re.Match[str]) -> str:
        start, module, name, table, end = found.groups()
        return f"{start}\n{reference(format_named(module, name), table)}\n\n{end}"

    return MARK.sub(block, page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_every_key_with_its_default_and_meaning(
    page: Path, generated: Callable[[Path, str], None]
) -> None:
    generated(page, made_anew(page.read_text(encoding="utf-8")))


def test_every_table_of_every_file_is_on_a_page() -> None:
    documented: dict[str, list[str | None]] = {}
    for page in PAGES:
        for _, module, name, table, _ in MARK.findall(page.read_text(encoding="utf-8")):
            documented.setdefault(f"{module}:{name}", []).append(table)
    assert documented.keys() == FILES
    for name, tables in documented.items():
        # A table whose keys its users choose has none to list, and may be left out.
        file = format_named(*name.split(":"))
        known, empty = set(file), {table for table, each in file.items() if not each.rows}
        if name.endswith("OVERLAY_FILE"):  # those that brokers have in common are documented with a broker's
            known -= {*COMMON, "channels"}
        assert len(tables) == 1 or {*tables} | empty == known | empty, name
