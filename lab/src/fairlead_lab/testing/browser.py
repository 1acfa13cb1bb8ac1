"""The console in a real browser: what every page has to be, and its picture.

    with chromium() as browser, opened(browser, "http://127.0.0.1:7480") as open:
        page = open("/console/try")
        usable(page)

A page logs nothing, asks no other host for anything, and axe finds nothing that would keep anybody from using it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from PIL import Image, ImageChops, ImageStat
from playwright.sync_api import Browser, Page, sync_playwright

from fairlead_lab.testing.brokers import PATIENCE_S
from fairlead_lab.testing.sources import ROOT

__all__ = [
    "DIFFERENT_MAX",
    "NARROW",
    "PATIENCE_MS",
    "PICTURES",
    "WIDE",
    "chromium",
    "difference",
    "looks_as_documented",
    "opened",
    "usable",
]

PICTURES: Final = ROOT / "docs" / "images" / "console"
WIDE, NARROW = (1_000, 760), (400, 800)
PATIENCE_MS: Final = PATIENCE_S * 1_000
DIFFERENT_MAX: Final = 0.03
"""The share of the brightness of a picture that may be elsewhere: fonts differ from machine to machine."""


SAME_MAX: Final = 0.003
"""A picture that differs by no more stays as it is: the documentation is built on many machines."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Chromium; it is installed where there is none."""
    found = subprocess.run([ROOT / "scripts" / "chromium"], check=True, capture_output=True, text=True)
    with sync_playwright() as playwright:
        # Tests run as root in containers, where Chromium's own sandbox is not to be had.
        made = playwright.chromium.launch(executable_path=found.stdout.strip(), args=["--no-sandbox"])
        try:
            yield made
        finally:
            made.close()


@contextmanager
def opened(browser: Browser, here: str) -> Iterator[Callable[..., Page]]:
    """`open(path, size, scheme)`: pages of a server, of which nothing bad is heard while they are open."""
    heard: list[str] = []
    contexts = []

    def open(path: str, size: tuple[int, int] = WIDE, scheme: Any = "light") -> Page:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith((here, "data:")) else heard.append(request.url),
        )
        page.goto(f"{here}{path}")
        return page

    try:
        yield open
    finally:
        for context in contexts:
            context.close()
    assert not heard, heard


def usable(page: Page) -> None:
    """Nothing keeps anybody from using a page, and it is no wider than the window."""
    found = Axe().run(page)
    assert not [(each["id"], each["nodes"][0]["html"]) for each in found.response["violations"]]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def looks_as_documented(page: Page, name: str, *, golden: bool) -> None:
    """The window is that of the documentation's picture, with a tolerance; `golden`: it becomes the picture."""
    taken = Image.open(BytesIO(page.screenshot())).convert("RGB")
    path: Path = PICTURES / f"{name}.png"
    if golden and (not path.exists() or difference(Image.open(path).convert("RGB"), taken) > SAME_MAX):
        path.parent.mkdir(parents=True, exist_ok=True)
        taken.save(path, optimize=True)
    known = Image.open(path).convert("RGB")
    assert known.size == taken.size
    assert difference(known, taken) < DIFFERENT_MAX


def difference(one: Image.Image, other: Image.Image) -> float:
    """The difference of two pictures, seen from afar: 0 for equal ones, 1 for black and white."""
    size = (one.width // 20, one.height // 20)
    apart = ImageChops.difference(one.resize(size), other.resize(size))
    return float(max(ImageStat.Stat(apart).rms)) / 255
