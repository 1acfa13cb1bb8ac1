"""The console in a real browser: by mouse and keyboard, light and dark, wide and narrow.

Every view opens without a word in the browser's log, asks no other host for anything, and axe finds nothing that
would keep anybody from using it. Its pictures are compared with those of the documentation, with a tolerance:
fonts differ from machine to machine, and what is out of place shows at a glance.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image, ImageChops, ImageStat
from playwright.sync_api import Browser, Page, expect, sync_playwright

from fairlead.console.views.shell import VIEWS
from fairlead_lab.testing.brokers import PATIENCE_S

ROOT = Path(__file__).parents[3]
PICTURES = ROOT / "docs" / "images" / "console"
WIDE, NARROW = (1_000, 760), (400, 800)
PATIENCE_MS = PATIENCE_S * 1_000
DIFFERENT_MAX = 0.03
"""How much of the brightness of a picture may be elsewhere."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = subprocess.run([ROOT / "scripts" / "chromium"], check=True, capture_output=True, text=True)
    with sync_playwright() as playwright:
        # Tests run as root in containers, where Chromium's own sandbox is not to be had.
        made = playwright.chromium.launch(executable_path=found.stdout.strip(), args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def opened(browser: Browser, town: Any) -> Iterator[Callable[..., Page]]:
    """`opened(view, size, scheme)`: a page of which nothing bad is heard while it is open."""
    heard: list[str] = []
    here = f"http://127.0.0.1:{town.running.port}"
    contexts = []

    def open(view: str = "", size: tuple[int, int] = WIDE, scheme: Any = "light") -> Page:
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
        page.goto(f"{here}/console/{view}")
        if view == "":
            page.wait_for_selector("#brokers tbody tr:nth-child(3)")
        if view in ("try", "compare", "patterns", "scopes"):
            page.wait_for_selector("#answer h2")
        if view == "subscriptions":
            page.wait_for_selector("#found table")
        return page

    yield open
    for context in contexts:
        context.close()
    assert not heard


def usable(page: Page) -> None:
    """Nothing keeps anybody from using a page, and it is no wider than the window."""
    found = Axe().run(page)
    assert not [(each["id"], each["nodes"][0]["html"]) for each in found.response["violations"]]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_usable_when_dark_and_narrow(opened: Callable[..., Page], view: str) -> None:
    usable(opened(view, NARROW, "dark"))


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_usable_and_looks_as_in_the_documentation(
    opened: Callable[..., Page], view: str, request: pytest.FixtureRequest, golden: object
) -> None:
    page = opened(view)
    usable(page)
    taken = Image.open(BytesIO(page.screenshot())).convert("RGB")
    path = PICTURES / f"{view or 'overlay'}.png"
    if request.config.getoption("--golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        taken.save(path, optimize=True)
    known = Image.open(path).convert("RGB")
    assert known.size == taken.size
    assert difference(known, taken) < DIFFERENT_MAX


def difference(one: Image.Image, other: Image.Image) -> float:
    """How different two pictures are, seen from afar: 0 for equal ones, 1 for black and white."""
    size = (one.width // 20, one.height // 20)
    apart = ImageChops.difference(one.resize(size), other.resize(size))
    return max(ImageStat.Stat(apart).rms) / 255


def test_a_picture_of_another_view_is_told_apart() -> None:
    """The tolerance is for fonts, and not for what stands elsewhere."""
    taken = {view: Image.open(PICTURES / f"{view or 'overlay'}.png").convert("RGB") for view in VIEWS}
    for one in VIEWS:
        for other in VIEWS:
            assert (difference(taken[one], taken[other]) < DIFFERENT_MAX) == (one == other), (one, other)


def place_of(page: Page, element: str) -> Any:
    """Where a broker or a link is in the picture."""
    return page.evaluate(f"(() => {{ const {{ x, y }} = overlay.{element}; return {{ x, y }}; }})()")


def test_a_broker_and_a_link_are_chosen_by_mouse(opened: Callable[..., Page]) -> None:
    page = opened()
    page.locator("#graph").click(position=place_of(page, "getElementById('far').renderedPosition()"))
    page.wait_for_selector("#details h2:has-text('far')")
    assert "client ada" in page.inner_text("#details")
    page.evaluate("scrollTo(0, 0)")
    page.locator("#graph").click(position=place_of(page, "edges()[0].renderedMidpoint()"))
    page.wait_for_selector("#details h2:has-text('–')")
    assert "What goes from" in page.inner_text("#details")


def test_a_broker_is_chosen_by_keyboard(opened: Callable[..., Page]) -> None:
    page = opened()
    page.wait_for_selector("#brokers button")
    page.focus("#find")
    page.keyboard.type("eas")
    expect(page.locator("#brokers button")).to_have_count(1, timeout=PATIENCE_MS)
    page.keyboard.press("Tab")  # the table, which can be scrolled
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#details h2:has-text('east')")
    assert page.evaluate("document.activeElement.textContent") == "east"


def test_a_filter_is_written_by_keyboard_with_what_is_offered(opened: Callable[..., Page]) -> None:
    page = opened("try")
    page.fill("#text", "")
    page.focus("#text")
    for typed, wanted in (("sy", "symbol"), ("", "="), (' "IBM" a', "and"), ("pr", "price")):
        page.keyboard.type(typed)
        page.wait_for_selector(f"#text-choices li[data-text='{wanted}']")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
    page.keyboard.type("= 97")
    page.keyboard.press("Escape")
    page.wait_for_selector("#answer h2:has-text('1 of 3 events match')")
    assert page.input_value("#text") == 'symbol = "IBM" and price = 97'


def test_what_is_offered_is_for_the_text_as_it_stands(opened: Callable[..., Page]) -> None:
    """An offer for an earlier text is gone with the next key, and one that comes late is not shown."""
    page = opened("try")
    page.fill("#text", "")
    page.focus("#text")
    page.keyboard.type("s")
    page.wait_for_selector("#text-choices li[data-text='symbol']")
    late: list[Any] = []
    # Playwright notes on a handler that it is one, which a method of a list does not let it do.
    page.route("**/console/complete", lambda route: late.append(route))  # noqa: PLW0108
    page.keyboard.type("y")
    assert page.is_hidden("#text-choices")
    page.keyboard.type("m")
    with page.expect_response("**/console/complete"):
        late[0].continue_()
    assert page.is_hidden("#text-choices")
    late[1].continue_()
    page.wait_for_selector("#text-choices li[data-text='symbol']")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.input_value("#text") == "symbol "


def test_an_error_has_its_caret(opened: Callable[..., Page]) -> None:
    page = opened("try")
    page.fill("#text", "price >")
    page.wait_for_selector("#answer .fault pre")
    assert page.inner_text("#answer pre").splitlines() == ["price >", "       ^"]


def test_live_events_are_taken_and_a_test_event_is_published(opened: Callable[..., Page]) -> None:
    page = opened("try")
    page.click("#listen")
    page.wait_for_selector("#listening:has-text('waiting')")
    page.fill("#event", '{"symbol": "LIVE", "price": 1}')
    page.click("button:text-is('Publish')")
    page.wait_for_selector("#published .badge")
    page.fill("#text", 'symbol = "LIVE"')
    page.wait_for_selector("#answer h2:has-text('1 of 1 events match')")
    page.click("#listen")
    assert page.get_attribute("#listen", "aria-pressed") == "false"


def test_a_notification_is_followed(opened: Callable[..., Page]) -> None:
    page = opened("follow")
    page.select_option("#broker", "hub")
    page.fill("#event", '{"symbol": "SAP"}')
    page.click("button:has-text('Follow')")
    page.wait_for_selector("#outcome .hops")
    assert [each.split()[0] for each in page.locator("#outcome .hops h3").all_inner_texts()] == [
        "hub",
        "east",
        "far",
    ]
    assert "client bob" in page.inner_text("#outcome")


def test_subscriptions_are_searched_while_one_writes(opened: Callable[..., Page]) -> None:
    page = opened("subscriptions")
    page.select_option("#how", "covering")
    page.fill("#text", "price = 20")
    page.wait_for_selector("#found caption:has-text('1 found')")
    assert "price > 10" in page.inner_text("#found")


def test_filters_are_compared_while_one_writes(opened: Callable[..., Page]) -> None:
    page = opened("compare")
    page.fill("#second", "price < 5")
    page.wait_for_selector("#answer h2:has-text('is disjoint from')")
