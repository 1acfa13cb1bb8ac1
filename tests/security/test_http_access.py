"""HTTP, server-sent events and WebSockets act for the principal of a request; other sites' pages do nothing."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from fairlead.network.addresses import Tls
from fairlead.security.credentials import basic, bearer
from fairlead_lab.testing.brokers import PATIENCE_S
from fairlead_lab.testing.guarded import POLICY, token
from fairlead_lab.testing.web import PASSWORD, Web

IBM = {"symbol": "IBM", "id": "1"}


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    made = Web(tmp_path, origins=("https://app.example.org",))
    yield made
    made.close()


def stream(filter: str, **query: str) -> str:
    return f"/events?{urlencode({'filter': filter, **query})}"


def test_a_request_acts_for_the_principal_of_its_credentials(web: Web) -> None:
    assert web.status("POST", "/events", "nyse", body=IBM) == 202
    assert web.status("POST", "/events", body=IBM) == 401
    assert web.status("POST", "/events", "ada", body={**IBM, "id": "2"}) == 403
    assert web.status("POST", "/events", "nyse", body={"symbol": "SUN"}) == 403
    assert web.status("POST", "/events", "nyse", body={**IBM, "id": "3", "producer": "xetra"}) == 403
    assert web.server.node.counters.published == 1


def test_the_producer_over_http_is_the_principal(web: Web) -> None:
    with web.request("POST", "/events", "nyse", body=IBM) as answer:
        assert json.load(answer)["events"][0]["source"] == "nyse"


def test_a_stream_is_narrowed(web: Web) -> None:
    with web.request("GET", stream("true"), "ada") as events:
        assert events.status == 200
        web.status("POST", "/events", "nyse", body={"symbol": "SAP", "id": "1"})
        web.status("POST", "/events", "nyse", body={"symbol": "IBM", "id": "2"})
        lines: list[str] = []
        while not lines or not lines[-1].startswith("data:"):
            lines.append(events.readline().decode())
        assert json.loads(lines[-1].removeprefix("data: "))["id"] == "2"
    assert web.status("GET", stream('symbol = "SAP"'), "ada") == 403
    assert web.status("GET", stream("true", durable="other"), "ada") == 403
    assert web.status("DELETE", "/subscriptions/other", "ada") == 403


def test_passwords_are_accepted_over_http_too(web: Web) -> None:
    for _ in range(3):
        assert web.status("HEAD", stream("true"), Authorization=str(basic("ada", "correct horse"))) == 200
    with web.request("GET", stream("true"), Authorization=str(basic("ada", "wrong"))) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith("Bearer ")


def test_two_authorizations_are_none(web: Web) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.putrequest("GET", "/status")
        for principal in ("root", "ada"):
            connection.putheader("Authorization", str(bearer(token(principal))))
        connection.endheaders()
        assert connection.getresponse().status == 400


def test_what_inspects_takes_the_right_and_health_does_not(web: Web) -> None:
    for path in ("/status", "/tables", "/metrics"):
        assert [web.status("GET", path, each) for each in (None, "ada", "root")] == [401, 403, 200]
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert web.status("GET", path) == 200


def test_pages_of_other_sites_neither_post_nor_delete(web: Web) -> None:
    for origin, status in (
        ("https://evil.example.org", 403),
        ("null", 403),
        ("https://app.example.org", 202),
        (f"http://127.0.0.1:{web.port}", 202),
    ):
        body = {"symbol": "IBM", "id": origin}
        assert web.status("POST", "/events", "nyse", body=body, Origin=origin) == status
    assert web.status("DELETE", "/subscriptions/desk-1", "ada", Origin="https://evil.example.org") == 403


def test_a_site_that_may_is_answered_so_that_browsers_show_it(web: Web) -> None:
    ours = "https://app.example.org"
    for origin, allowed in ((ours, ours), ("https://evil.example.org", None)):
        with web.request("GET", "/healthz", Origin=origin) as answer:
            assert answer.headers.get("Access-Control-Allow-Origin") == allowed
    with web.request(
        "OPTIONS",
        "/events",
        Origin="https://app.example.org",
        Access_Control_Request_Method="POST",
        Access_Control_Request_Headers="authorization",
    ) as answer:
        assert answer.status == 200


def test_a_stream_ends_when_its_principal_is_revoked(web: Web, tmp_path: Path) -> None:
    with web.request("GET", stream("true"), "ada") as events:
        assert events.status == 200
        (tmp_path / "policy.toml").write_text('revoked = ["ada"]\n' + POLICY)
        web.do(web.server.reload)
        assert b"your rights have ended" in events.read()
    assert web.status("GET", stream("true"), "ada") == 403


def test_a_certificate_is_a_principal_over_https(tmp_path: Path, certificate: Tls) -> None:
    web = Web(tmp_path, tls=certificate)
    try:
        context = ssl.create_default_context(cafile=certificate.authority)
        with web.request("GET", "/status", context=context) as answer:
            assert answer.status == 401
        assert certificate.certificate is not None
        context = ssl.create_default_context(cafile=certificate.authority)
        context.load_cert_chain(certificate.certificate, certificate.key)
        with web.request("GET", "/status", context=context) as answer:
            assert answer.status == 200
    finally:
        web.close()


def test_over_tls_a_page_in_clear_is_no_page_of_this_host(tmp_path: Path, certificate: Tls) -> None:
    web = Web(tmp_path, tls=certificate)
    try:
        context = ssl.create_default_context(cafile=certificate.authority)
        for scheme, status in (("https", 202), ("http", 403)):
            headers = {"Host": "hub.example", "Origin": f"{scheme}://hub.example"}
            body = {"symbol": "IBM", "price": 1}
            assert web.status("POST", "/events", "nyse", body=body, context=context, **headers) == status
    finally:
        web.close()


def test_a_planted_secret_is_nowhere_after_a_whole_run_over_http(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    web = Web(tmp_path, access_log=True, log_level="debug")
    shown = token("ada", jti="planted")
    credentials = [str(bearer(shown)), str(basic("ada", PASSWORD))]
    credentials += [f"{each}x" for each in credentials] + [f"Unknown {shown}"]
    seen: list[str] = []
    try:
        for given in credentials:
            for method, path in (
                ("HEAD", stream("true", durable="desk-1")),
                ("POST", "/events"),
                ("DELETE", "/subscriptions/desk-1"),
                ("GET", "/status"),
                ("GET", f"/nowhere/{quote(given)[:3]}"),
            ):
                body = IBM if method == "POST" else None
                with web.request(method, path, body=body, Authorization=given) as answer:
                    seen += [str(answer.headers), answer.read().decode()]
        for path in ("/status", "/tables", "/metrics", "/openapi.json"):
            with web.request("GET", path, "root") as answer:
                seen.append(answer.read().decode())
    finally:
        web.close()
    (tmp_path / "keys.json").unlink()
    written = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert "desk-1" in caplog.text
    assert b"ada" in written
    for hidden in (PASSWORD, credentials[1].partition(" ")[2], shown, shown.split(".")[2]):
        assert hidden not in caplog.text
        assert hidden not in "".join(seen)
        assert hidden.encode() not in written


LIMITED = """
[roles.few]
members = ["ada"]
subscribe = ["true"]
publish = ["true"]
connections = 3
subscriptions = 2
filter_bytes = 40
publications_per_second = 50
bytes_per_second = 3000

[roles.many]
members = ["bob"]
subscribe = ["true"]
publish = ["true"]
"""


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Web]:
    made = Web(tmp_path, LIMITED)
    yield made
    made.close()


def test_requests_with_ever_new_tokens_are_one_connection_of_their_principal(limited: Web) -> None:
    def publish(id: str) -> int:
        body = {"id": id}
        with limited.request(
            "POST", "/events", body=body, Authorization=f"Bearer {token('ada', jti=id)}"
        ) as answer:
            return answer.status

    assert {publish(f"{number}") for number in range(8)} == {202}


def test_the_limits_of_a_principal_hold_over_http_and_others_are_unharmed(limited: Web) -> None:
    long = "/events?filter=" + "x%20%3D%201%20or%20" * 10 + "true"
    with contextlib.ExitStack() as open:

        def stream(who: str, path: str = "/events?filter=true") -> int:
            return open.enter_context(limited.request("GET", path, who)).status

        assert limited.status("POST", "/events", "ada", body={"id": "1"}) == 202
        assert stream("ada", long) != 200
        assert [stream("ada") for _ in range(2)] == [200, 200]
        assert stream("ada") != 200
        assert [stream("bob"), stream("bob", long)] == [200, 200]
        assert limited.status("POST", "/events", "ada", body={"id": "2", "x": "y" * 4_000}) != 202
        assert limited.status("POST", "/events", "bob", body={"id": "3", "x": "y" * 4_000}) == 202
        statuses = [limited.status("POST", "/events", "ada", body={"id": f"n{each}"}) for each in range(20)]
        assert statuses[0] == 202
