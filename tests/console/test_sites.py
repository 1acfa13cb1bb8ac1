"""Pages of other sites neither read nor change anything; a name that leads here is not ours because it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairlead.network.settings import Address

BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}
DURABLE = "/events?filter=true&durable=inbox"
APP = "https://app.example.org"


@pytest.fixture(scope="module")
def named(started: Callable[..., Any]) -> Any:
    """A broker that is known by names, and has a site beside."""
    return started(origins=(APP,), hosts=("hub.example", "*.internal"), listen=Address("127.0.0.1", 0))


def status(broker: Any, path: str, method: str = "HEAD", **headers: str) -> int:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    answer: int = broker.ask(method, path, headers=given).status
    return answer


def own(broker: Any) -> str:
    return f"http://127.0.0.1:{broker.port}"


@pytest.mark.parametrize(
    ("headers", "is_taken"),
    [
        pytest.param({}, True, id="a program"),
        pytest.param({"Sec-Fetch-Site": "cross-site"}, False, id="an image of another site"),
        pytest.param({"Sec-Fetch-Site": "same-site"}, False, id="a page at another port"),
        pytest.param({"Sec-Fetch-Site": "same-origin", **BROWSER}, True, id="a page of its own"),
        pytest.param({"Sec-Fetch-Site": "none", **BROWSER}, True, id="somebody who entered the address"),
        pytest.param(BROWSER, False, id="a browser that does not say for whom"),
        pytest.param({**BROWSER, "Referer": "http://evil.example/x"}, False, id="and for another site"),
        pytest.param({**BROWSER, "Referer": "OWN/page"}, True, id="and for a page of its own"),
        pytest.param({**BROWSER, "Referer": f"{APP}/page"}, True, id="and for a page of the site beside"),
        pytest.param({**BROWSER, "Authorization": "Bearer x"}, True, id="with a token"),
        pytest.param(
            {**BROWSER, "Authorization": "Basic eDp4"}, False, id="with a password, which browsers add"
        ),
        pytest.param({"Origin": "null"}, False, id="a sandboxed frame"),
        pytest.param({"Origin": APP, "Sec-Fetch-Site": "cross-site"}, True, id="the site beside"),
    ],
)
def test_a_durable_subscription_is_read_by_no_page_of_another_site(
    named: Any, headers: dict[str, str], is_taken: bool
) -> None:
    given = {name: value.replace("OWN", own(named)) for name, value in headers.items()}
    assert status(named, DURABLE, **given) == (200 if is_taken else 403)
    assert not named.server.node.durables


def test_a_page_of_another_site_opens_no_stream_and_a_user_may(named: Any) -> None:
    assert status(named, "/events?filter=true", **BROWSER) == 200
    assert status(named, "/events?filter=true", Sec_Fetch_Site="cross-site") == 403
    assert status(named, "/events?filter=true", Origin="http://evil.example") == 403


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("localhost", True),
        ("127.0.0.1:1", True),
        ("[::1]:8080", True),
        ("10.1.2.3", True),
        ("HUB.example:80", True),
        ("a.internal", True),
        ("app.example.org", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("hub.example.evil.example:80", False),
        ("[::1", False),
        ("internal", False),
    ],
)
def test_a_request_for_another_host_is_misdirected(named: Any, host: str, is_known: bool) -> None:
    for method, path in (("HEAD", "/events?filter=true"), ("GET", "/status"), ("GET", "/metrics")):
        got = status(named, path, method, Host=host, Origin=f"http://{host}")
        assert (got == 200) == is_known
        assert is_known or got in (400, 421)
    posted = named.ask("POST", "/events", "{}", {"Host": host, "Content-Type": "application/json"}).status
    assert (posted == 202) == is_known


def test_health_is_told_under_any_name(named: Any) -> None:
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert status(named, path, "GET", Host="evil.example") == 200
