"""For mkdocs: a link from a page to a file outside of docs/ leads to the repository."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any

LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    docs = Path(config["docs_dir"])

    def target(found: re.Match[str]) -> str:
        path = normpath(join(docs.name, dirname(page.file.src_uri), found[2]))
        if path.startswith(f"{docs.name}/") or not (docs.parent / path).exists():
            return found[0]
        kind = "tree" if (docs.parent / path).is_dir() else "blob"
        return f"{found[1]}{config['repo_url']}/{kind}/main/{path}"

    return LINK.sub(target, markdown)
