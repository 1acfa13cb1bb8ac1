"""Every example in the documentation runs, and shows what really happens.

The fenced blocks of README.md and docs/ are tests, named by file and line. CONTRIBUTING.md states the
conventions; in short, per page and from top to bottom:

    python    runs in the page's one namespace; with `>>>` the shown results are compared
    console   `$ command` runs in the page's own directory and prints what stands below it; what it leaves running
              is ended with the page
    filter    one filter per line, each of which parses, prints, and parses back to an equal filter
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

# Languages of blocks that are only looked at. One that is in neither table is a slip of the pen.
SHOWN = {"", "ebnf", "json", "make", "mermaid", "sh", "sql", "text", "toml", "xml"}
# They would install, or start this very test again; in a `sh` block they are shown and not run.
NOT_RUN = {"apt-get", "git", "make", "pip", "sudo"}
# On these pages a port that begins with 74, as brokers have, stands for one that is free.
NETWORKED = {
    "docs/coming-from.md",
    "docs/mobility.md",
    "docs/mqtt.md",
    "docs/network.md",
    "docs/secured-network.md",
    "docs/security.md",
    "docs/service.md",
}
PORT = re.compile(r"\b74\d\d\b")
PATIENCE_S = 600  # one that starts Spark takes its time on a busy machine


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `line` is the line of its opening fence."""

    page: str
    line: int
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block, what it shows, and the exit code it states."""

    line: int
    script: str
    shown: tuple[str, ...]
    exit_code: int


@dataclass(slots=True)
class Page:
    """The running state of one page: its directory, its namespace, and how many of its blocks have run."""

    blocks: list[Block]
    directory: Path
    namespace: dict[str, object] = field(default_factory=lambda: {"__name__": "__main__"})
    done: int = 0
    ports: dict[str, str] = field(default_factory=dict)

    def run_up_to(self, block: Block) -> None:
        """Run a block after those before it, each once, so that a block can also be tested alone."""
        position = self.blocks.index(block)
        for earlier in self.blocks[self.done : position]:
            self.done += 1
            with contextlib.suppress(Exception):  # its own test reports it
                run(earlier, self)
        self.done = max(self.done, position + 1)
        run(block, self)

    def port(self, shown: str) -> str:
        """The port that one on the page stands for."""
        if shown not in self.ports:
            with socket.create_server(("127.0.0.1", 0)) as probe:
                self.ports[shown] = str(probe.getsockname()[1])
        return self.ports[shown]

    def end(self) -> None:
        """End the processes that are still running: they have the page's directory as their home."""
        mark = f"HOME={self.directory}".encode()
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in environ.read_bytes().split(b"\0"):
                    os.kill(int(environ.parent.name), signal.SIGTERM)


FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<language>[^\s`]*)[^`]*")


def blocks_of(page: str, text: str) -> Iterator[Block]:
    """The fenced blocks of a page; a longer fence encloses shorter ones, as in CommonMark."""
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        opening = FENCE.fullmatch(line)
        if opening is None:
            continue
        indent, fence, body = len(opening["indent"]), opening["fence"], []
        for _, inner in lines:
            stripped = inner.strip()
            if len(stripped) >= len(fence) and set(stripped) == {fence[0]}:
                break
            body.append(inner[min(indent, len(inner) - len(inner.lstrip(" "))) :])
        else:
            raise AssertionError(f"{page}:{number}: the block is not closed")
        yield Block(page, number, opening["language"], "".join(f"{each}\n" for each in body))


def run(block: Block, page: Page) -> None:
    if block.page in NETWORKED:
        block = replace(block, text=PORT.sub(lambda found: page.port(found[0]), block.text))
    with contextlib.chdir(page.directory):
        RUNNERS[block.language](block, page)


def run_python(block: Block, page: Page) -> None:
    name = f"{block.page}:{block.line}"
    if re.search(r"^>>> ", block.text, re.MULTILINE):
        test = doctest.DocTestParser().get_doctest(block.text, {}, name, block.page, block.line)
        test.globs = page.namespace
        report: list[str] = []
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append, clear_globs=False)
        if report:
            raise AssertionError("".join(report))
    else:
        # Blank lines in front make the line numbers of a traceback those of the page.
        exec(compile("\n" * block.line + block.text, block.page, "exec", dont_inherit=True), page.namespace)


def run_console(block: Block, page: Page) -> None:
    for command in commands_of(block):
        place = f"{block.page}:{command.line}"
        assert command.script.split()[0] not in NOT_RUN, (
            f"{place}: show this in a `sh` block, which is not run"
        )
        ran = subprocess.run(
            ["bash", "-c", command.script],
            env=environment(page),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=False,
        )
        real = [line.rstrip() for line in ran.stdout.splitlines()]
        if not agrees(command.shown, real):
            changes = difflib.unified_diff(command.shown, real, "shown", "real", lineterm="")
            raise AssertionError("\n".join([f"{place}: $ {command.script}", *changes]))
        assert ran.returncode == command.exit_code, f"{place}: exit code {ran.returncode}\n{ran.stdout}"


def run_filter(block: Block, page: Page) -> None:
    from fairlead.filters import parse

    for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
        text = line.strip()
        if text and not text.startswith("#"):
            parsed = parse(text)
            assert parse(str(parsed)) == parsed, f"{block.page}:{number}: {text} prints as {parsed}"


RUNNERS: dict[str, Callable[[Block, Page], None]] = {
    "console": run_console,
    "filter": run_filter,
    "python": run_python,
}

EXIT_CODE = re.compile(r"# exit code (\d+)")
HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")


def commands_of(block: Block) -> Iterator[Command]:
    """The commands of a console block, each with its here-document and its lines continued by a backslash."""
    lines = block.text.splitlines()
    at = 0
    while at < len(lines):
        start = at
        assert lines[at].startswith("$ "), (
            f"{block.page}:{block.line + 1 + at}: output without a command above it"
        )
        script = [lines[at].removeprefix("$ ")]
        at += 1
        while script[-1].endswith("\\") and at < len(lines):
            script.append(lines[at])
            at += 1
        if (heredoc := HEREDOC.search(script[-1])) is not None:
            while script[-1] != heredoc[2] and at < len(lines):
                script.append(lines[at])
                at += 1
        shown = []
        while at < len(lines) and not lines[at].startswith("$ "):
            shown.append(lines[at].rstrip())
            at += 1
        while shown and not shown[-1]:
            shown.pop()
        stated = EXIT_CODE.fullmatch(shown[-1]) if shown else None
        if stated is not None:
            shown.pop()
        code = int(stated[1]) if stated is not None else 0
        yield Command(block.line + 1 + start, "\n".join(script), tuple(shown), code)


def agrees(shown: tuple[str, ...], real: list[str]) -> bool:
    """Whether the output is the one shown, where a line `...` stands for any number of lines."""
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in real)) is not None


def environment(page: Page) -> dict[str, str]:
    """What a reader's terminal has, less what differs from one reader to the next."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    keep = {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
    # Unbuffered, so that both streams come in the order in which a terminal would show them.
    fixed = {"PYTHONUNBUFFERED": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC", "NO_COLOR": "1", "COLUMNS": "100"}
    # Kernels are compiled once for all pages, as they are once on a reader's machine.
    keep["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    if "7400" in page.ports:
        keep["FAIRLEAD_BROKER"] = f"127.0.0.1:{page.ports['7400']}"  # what the page shows is the default
    return {"PATH": path, "HOME": str(page.directory), **fixed, **keep}


def examples() -> Iterator[Block]:
    for path in PAGES:
        yield from blocks_of(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))


EXAMPLES = [block for block in examples() if block.language in RUNNERS]


@pytest.fixture(scope="session")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Page]]:
    """The pages by name, each with a directory of its own that holds a copy of `examples/`."""
    pages: dict[str, Page] = {}

    def page(name: str) -> Page:
        if name not in pages:
            directory = tmp_path_factory.mktemp("page")
            if (ROOT / "examples").is_dir():
                shutil.copytree(ROOT / "examples", directory / "examples")
            pages[name] = Page([block for block in EXAMPLES if block.page == name], directory)
        return pages[name]

    yield page
    for each in pages.values():
        each.end()


@pytest.mark.parametrize(
    "block",
    [pytest.param(block, id=f"{block.page}:{block.line}") for block in EXAMPLES],
)
def test_the_example_runs_and_shows_what_happens(block: Block, page_of: Callable[[str], Page]) -> None:
    page_of(block.page).run_up_to(block)


def test_every_block_says_a_language_that_is_run_or_only_shown() -> None:
    strange = [block for block in examples() if block.language not in RUNNERS.keys() | SHOWN]
    assert [f"{block.page}:{block.line}: {block.language}" for block in strange] == []


def run_page(text: str, directory: Path) -> None:
    page = Page([block for block in blocks_of("page.md", text) if block.language in RUNNERS], directory)
    for block in page.blocks:
        page.run_up_to(block)


GOOD = """
Text.

```python
x = 6 * 7
assert x == 42
```

```python
>>> x + 1
43
>>> print("a b c")
a ... c
```

1. In a list:

   ```console
   $ cat > names.txt <<'EOF'
   Ada
   $ is not a prompt here
   EOF
   $ head -n 1 \\
       names.txt
   Ada
   ```

````text
```python
never run
```
````

```console
$ seq 5; echo problem >&2; exit 3
1
...
5
problem
# exit code 3

$ echo done
done
```

```python
from pathlib import Path
assert Path("names.txt").read_text().startswith("Ada")
```
"""


def test_a_page_runs_from_top_to_bottom_in_one_namespace_and_one_directory(tmp_path: Path) -> None:
    run_page(GOOD, tmp_path)
    assert (tmp_path / "names.txt").read_text() == "Ada\n$ is not a prompt here\n"


def test_a_block_alone_runs_those_before_it_first(tmp_path: Path) -> None:
    page = Page(
        list(blocks_of("page.md", "```python\nx = 1\n```\n```python\nassert x == 1\n```\n")), tmp_path
    )
    page.run_up_to(page.blocks[1])
    assert page.done == 2


def test_what_a_page_leaves_running_is_ended(tmp_path: Path) -> None:
    page = Page(
        list(blocks_of("page.md", "```console\n$ sleep 600 > out 2>&1 & echo $! > pid\n```\n")), tmp_path
    )
    page.run_up_to(page.blocks[0])
    pid = int((tmp_path / "pid").read_text())
    page.end()
    deadline = time.monotonic() + PATIENCE_S
    while is_running(pid):
        assert time.monotonic() < deadline


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


WRONG = {
    "an assertion": ("```python\nassert 1 == 2\n```", ""),
    "a result": ("```python\n>>> 1 + 1\n3\n```", "Expected:\n    3\nGot:\n    2"),
    "a line of output": ("```console\n$ echo a\nb\n```", "page.md:2: $ echo a"),
    "output not shown": ("```console\n$ echo a\n```", "+a"),
    "output not there": ("```console\n$ true\na\n```", "-a"),
    "an exit code not stated": ("```console\n$ exit 1\n```", "page.md:2: exit code 1"),
    "an exit code stated": ("```console\n$ true\n# exit code 1\n```", "page.md:2: exit code 0"),
    "no command": ("```console\na\n```", "page.md:2: output without a command"),
    "a command that is not run": ("```console\n$ make test\n```", "page.md:2: show this in a `sh` block"),
    "no end": ("```python\nx = 1", "page.md:1: the block is not closed"),
}


@pytest.mark.parametrize(("text", "complaint"), WRONG.values(), ids=WRONG.keys())
def test_an_example_that_does_not_show_what_happens_fails(text: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as caught:
        run_page(text, tmp_path)
    assert complaint in str(caught.value)


def test_a_traceback_names_the_line_of_the_page(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_page("Text.\n\n```python\nx = 0\n1 / x\n```\n", tmp_path)
    assert (caught.traceback[-1].lineno + 1, str(caught.traceback[-1].path)[-7:]) == (5, "page.md")
