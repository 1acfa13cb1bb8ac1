"""The console in a real browser: by mouse and keyboard, light and dark, wide and narrow.

Every view opens without a word in the browser's log, asks no other host for anything, and axe finds nothing that
would keep anybody from using it. Its pictures are compared with those of the documentation, with a tolerance:
fonts differ from machine to machine, and what is out of place shows at a glance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from fairlead.console.views.shell import VIEWS
from fairlead.console.views.standalone import served
from fairlead.network.addresses import Address
from fairlead_lab.console.simulator import part
from fairlead_lab.simulation import Scenario
from fairlead_lab.testing import browser as browsing
from fairlead_lab.testing.brokers import PATIENCE_S
from fairlead_lab.testing.browser import (
    DIFFERENT_MAX,
    NARROW,
    PATIENCE_MS,
    PICTURES,
    WIDE,
    chromium,
    difference,
    looks_as_documented,
    usable,
)
from fairlead_lab.testing.sources import ROOT


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture
def opened(browser: Browser, town: Any) -> Iterator[Callable[..., Page]]:
    """`opened(view, size, scheme)`: a page of the console that is there as a whole."""
    with browsing.opened(browser, f"http://127.0.0.1:{town.running.port}") as open:

        def whole(view: str = "", size: tuple[int, int] = WIDE, scheme: Any = "light") -> Page:
            page = open(f"/console/{view}", size, scheme)
            if view == "":
                page.wait_for_selector("#brokers tbody tr:nth-child(3)")
            if view in ("try", "compare", "patterns", "scopes"):
                page.wait_for_selector("#answer h2")
            if view == "scopes":
                page.wait_for_selector("#live .empty")
            if view == "subscriptions":
                page.wait_for_selector("#found table")
            return page

        yield whole


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_usable_when_dark_and_narrow(opened: Callable[..., Page], view: str) -> None:
    usable(opened(view, NARROW, "dark"))


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_usable_and_looks_as_in_the_documentation(
    opened: Callable[..., Page], view: str, request: pytest.FixtureRequest, golden: object
) -> None:
    page = opened(view)
    usable(page)
    looks_as_documented(page, view or "overlay", golden=request.config.getoption("--golden"))


def test_a_picture_of_another_view_is_told_apart() -> None:
    """The tolerance is for fonts, and not for what stands elsewhere."""
    names = [path.stem for path in PICTURES.glob("*.png")]
    assert len(names) >= len(VIEWS)
    taken = {name: Image.open(PICTURES / f"{name}.png").convert("RGB") for name in names}
    for one in names:
        for other in names:
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
    page.locator("#details table").last.scroll_into_view_if_needed()
    page.wait_for_selector("#details td li")  # the subscriptions for which a filter is there


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
    page.fill("#text", "")
    page.select_option("#how", "never")
    page.wait_for_selector("#found caption:has-text('found'), #found .empty")


def test_filters_are_compared_while_one_writes(opened: Callable[..., Page]) -> None:
    page = opened("compare")
    page.fill("#second", "price < 5")
    page.wait_for_selector("#answer h2:has-text('is disjoint from')")


def test_dead_letters_are_handed_out_again(opened: Callable[..., Page], town: Any) -> None:
    client = town.clients["cy"]
    with client.subscribe("exists job", durable="worker", attempts_max=1) as jobs:
        client.publish({"job": 7})
        jobs.delivery(timeout=PATIENCE_S).reject(again=True, reason="cannot be read")
        client.publish({"job": 8})
        jobs.delivery(timeout=PATIENCE_S).accept()
        page = opened("subscriptions")
        page.click("[aria-label='Retry dead letters of worker']")
        page.wait_for_selector("#durables [role=status]:has-text('worker: 1 handed out again, 0 are gone')")
        again = jobs.delivery(timeout=PATIENCE_S)
        assert (again.notification.get("job"), again.attempt) == (7, 1)
        again.accept()
    client.forget("worker")


def test_a_pattern_shows_what_is_in_progress(opened: Callable[..., Page]) -> None:
    page = opened("patterns")
    page.fill("#until", "1")
    page.wait_for_selector("#answer h2:has-text('1 match in progress')")
    assert page.locator("#answer svg .open").count() == 1
    usable(page)


def test_completion_is_in_the_chosen_language(opened: Callable[..., Page]) -> None:
    page = opened("try")
    page.select_option("#dialect", "sql")
    page.fill("#text", "price > 100 ")
    page.focus("#text")
    page.keyboard.press("End")
    page.keyboard.press("Control+Space")
    page.wait_for_selector("#text-choices li[data-text='AND']")


# -- the simulator -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulator() -> Iterator[str]:
    scenario = Scenario.read(ROOT / "examples" / "simulation" / "small.toml", None)
    with served([part(scenario)], Address("127.0.0.1", 0)) as url:
        yield url


def test_a_link_of_a_simulation_is_broken_and_heals(
    browser: Browser, simulator: str, request: pytest.FixtureRequest, golden: object
) -> None:
    """By keyboard: the time is moved, a link breaks, deliveries are missing, and it is taken back."""
    here, _, address = simulator.partition("/console")
    with browsing.opened(browser, here) as open:
        narrow = open(f"/console{address}", NARROW, "dark")
        narrow.wait_for_selector("#state:has-text('arrived')")
        usable(narrow)
        page = open(f"/console{address}")
        page.wait_for_selector("#state:has-text('All 55 deliveries arrived')")
        usable(page)
        page.focus("#time")
        page.keyboard.press("Home")
        expect(page.locator("#now")).to_contain_text("0.0 ms of")
        assert "the first publication is at" in page.inner_text("#publications")
        for _ in range(4):
            page.keyboard.press("PageUp")
        page.select_option("#link", label="B1 – B2")
        page.focus("#break button")
        page.keyboard.press("Enter")
        page.wait_for_selector("#state:has-text('are missing')")
        assert "B1 – B2 broken from" in page.inner_text("#faults")
        assert page.evaluate("overlay.edges('[tone = \"bad\"]').length") == 1
        page.click("#show")
        page.wait_for_selector("#details caption:has-text('routing entries')")
        page.evaluate("scrollTo(0, 0)")
        looks_as_documented(page, "simulator", golden=request.config.getoption("--golden"))
        page.click("#faults button")
        page.wait_for_selector("#state:has-text('All 55 deliveries arrived')")
        page.click("#play")
        shown = page.inner_text("#now")
        expect(page.locator("#now")).not_to_have_text(shown)
        page.click("#play")
        assert page.get_attribute("#play", "aria-pressed") == "false"
