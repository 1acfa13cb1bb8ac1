"""What the pages say that a message says, a message says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OWN = re.compile(r"'[^']*'|a subscription has no |FILE:LINE:|No module named .*|\bparquet\b|…")
"""The parts of a quoted message that are an example's own."""


@pytest.fixture(scope="module")
def words() -> str:
    """All texts of the code; those that go over several lines are put together."""
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    return re.sub(r"""["']\s*\n\s*f?["']""", "", code)


def test_every_message_under_troubleshooting_is_one_of_the_code(words: str) -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text("utf-8")
    table = page.partition("| it says | then |")[2].partition("| no message, but")[0]
    messages = [
        message
        for row in table.splitlines()
        if row.startswith("| ")
        for message in re.findall(r"`([^`]+)`", row.split("|")[1])
    ]
    assert len(messages) > 30
    for message in messages:
        for part in map(str.strip, OWN.split(message)):
            assert len(part) < 6 or part in words, f"no message says {part!r}"
