"""Every relative link in the pages leads to a file that exists, and to a heading that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "template.md"),
]
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
BLOCK = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1`*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def prose_of(page: Path) -> str:
    """The text of a page without its fenced blocks."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    anchors: set[str] = set()
    for heading in HEADING.findall(prose_of(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = 0
        while (f"{anchor}-{number}" if number else anchor) in anchors:
            number += 1
        anchors.add(f"{anchor}-{number}" if number else anchor)
    return anchors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_the_page_leads_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose_of(page)):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        has_anchor = not anchor or (target.is_file() and anchor in anchors_of(target))
        if not (target.exists() and has_anchor):
            broken.append(link)
    assert broken == []


def test_a_link_to_a_heading_that_is_not_there_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `two`, three\n\n```text\n# not a heading\n```\n\n# One two three\n")
    assert anchors_of(page) == {"one-two-three", "one-two-three-1"}
