"""The pages over HTTP: what they show of a network, who may see them, and that nothing on them can do anything."""

from __future__ import annotations

import asyncio
import html
import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from fairlead.console.views.following import Trail, event_of, follow, outcome
from fairlead.console.views.network import Remote
from fairlead.console.views.shell import VIEWS
from fairlead.model import Notification
from fairlead.network.client import connect
from fairlead_lab.testing.brokers import PATIENCE_S
from fairlead_lab.testing.examined import Examined, broker_with
from fairlead_lab.testing.guarded import token
from fairlead_lab.testing.web import Web

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def post(running: Any, path: str, **fields: str) -> Any:
    return running.ask("POST", f"/console/{path}", urlencode(fields), FORM)


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_a_page(town: Any, view: str) -> None:
    page = town.running.ask("GET", f"/console/{view}")
    assert (page.status, page.media) == (200, "text/html")
    assert f"<h1>{VIEWS[view]}</h1>" in page.body.decode()
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert page.headers["cache-control"] == "no-store"


def test_the_files_of_the_pages_are_served_and_no_others(town: Any) -> None:
    for name, kind in (
        ("console.css", "text/css"),
        ("htmx.min.js", "text/javascript"),
        ("LICENSES.txt", "text/plain"),
    ):
        answer = town.running.ask("GET", f"/console/static/{name}")
        assert (answer.status, answer.media) == (200, kind)
    for name in ("..%2Froutes.py", "nothing.css", "%2e%2e/routes.py"):
        assert town.running.ask("GET", f"/console/static/{name}").status == 404
    assert town.running.ask("GET", "/console").headers["location"] == "/console/"


def test_the_overlay_has_all_brokers_and_links(town: Any) -> None:
    shown = town.running.ask("GET", "/console/overlay.json").json
    assert [each["name"] for each in shown["brokers"]] == ["east", "far", "hub"]
    assert {frozenset((each["one"], each["other"])) for each in shown["links"]} == {
        frozenset(("hub", "east")),
        frozenset(("east", "far")),
    }
    assert all(each["up"] for each in shown["links"])
    assert next(each for each in shown["brokers"] if each["name"] == "far")["subscriptions"] == 3


def test_a_broker_and_a_link_say_why_their_filters_are_there(town: Any) -> None:
    broker = town.running.ask("GET", "/console/broker?name=far").body.decode()
    assert "client ada" in broker
    link = town.running.ask("GET", "/console/link?one=east&other=far").body.decode()
    assert "What goes from east to far" in link
    reasons = "".join(
        town.running.ask("GET", html.unescape(each)).body.decode()
        for each in re.findall(r'hx-get="([^"]+)"', link)
    )
    assert "<li>client bob</li>" in reasons  # the filter is bob's
    assert (
        "client ada: <code>symbol = &quot;IBM&quot; and price &gt; 100</code>" in reasons
    )  # covered by ada's other one
    assert town.running.ask("GET", "/console/broker?name=nobody").status == 200


@pytest.mark.parametrize(
    "event",
    [
        {"symbol": "IBM", "price": 101},
        {"symbol": "IBM", "price": 50},
        {"symbol": "SAP"},
        {"alarm": 1},
        {"x": 1},
    ],
)
def test_those_who_are_said_to_get_it_get_it(town: Any, event: dict[str, Any]) -> None:
    """On a network whose tables are settled, those who get it here are those to whom the brokers deliver it."""
    way = asyncio.run(followed(town.hub.url, Notification.of(event)))
    expected = {who for _, who in way.receivers}
    sent = town.clients["cy"].publish(event)
    got = set()
    for (name, text), queue in town.queues.items():
        if f"c:{name}" in expected and any(
            filter == text and to == f"c:{name}"
            for step in way.steps
            for filter, to, _ in step.answer["matching"]
        ):
            assert queue.get(PATIENCE_S).id == sent.id
            got.add(f"c:{name}")
    assert got == expected
    # A second event, for all of them: whatever else had been delivered would come before it.
    mark = town.clients["cy"].publish({"symbol": "SAP", "price": 1_000, "alarm": 1})
    also = town.clients["cy"].publish({"symbol": "IBM", "price": 1_000})
    for (_, text), queue in town.queues.items():
        first = also if "IBM" in text else mark
        assert queue.get(PATIENCE_S).id == first.id
        if text == "price > 10":
            assert queue.get(PATIENCE_S).id == also.id


async def followed(url: str, event: Notification) -> Trail:
    async with connect(url) as client:
        return await follow(Remote(client, [url], None, None), client.broker, event)


def test_the_way_is_told_broker_by_broker(town: Any) -> None:
    told = post(town.running, "follow", broker="hub", event='{"symbol": "SAP"}').body.decode()
    assert "1 receiver" in told
    assert (
        told.index("published here, goes on to east")
        < told.index("from hub, goes on to far")
        < told.index("ends here")
    )
    assert "no such broker" in post(town.running, "follow", broker="x", event="{}").body.decode()
    assert "not JSON" in post(town.running, "follow", broker="hub", event="{").body.decode()


def test_a_test_event_is_published(town: Any) -> None:
    with town.clients["bob"].subscribe('test = "console"', timeout=PATIENCE_S) as queue:
        assert "acknowledged" in post(town.running, "publish", event='{"test": "console"}').body.decode()
        assert queue.get(PATIENCE_S).producer == "hub/http"
    assert "an event is a JSON object" in post(town.running, "publish", event="[1]").body.decode()


def test_what_comes_from_users_is_text(town: Any) -> None:
    bad = "<img src=x onerror=alert(1)>"
    for path, fields in (
        ("try", {"text": f'a = "{bad}"', "events": json.dumps({"a": bad})}),
        ("compare", {"first": f'a = "{bad}"', "second": bad}),
        ("patterns", {"text": f"p: {bad}"}),
        ("scopes", {"text": f"DEFINE SCOPE {bad}"}),
        ("follow", {"broker": "hub", "event": json.dumps({"symbol": bad})}),
    ):
        assert bad not in post(town.running, path, **fields).body.decode()
    assert (
        bad not in town.running.ask("GET", f"/console/subscriptions?{urlencode({'text': bad})}").body.decode()
    )


def test_pages_of_other_sites_do_nothing(town: Any) -> None:
    other = {**FORM, "Origin": "https://evil.example.org"}
    for path in ("publish", "redrive", "try"):
        assert town.running.ask("POST", f"/console/{path}", "event={}", other).status == 403
    renamed = {"Host": "evil.example.org"}
    assert town.running.ask("GET", "/console/overlay.json", headers=renamed).status == 421
    foreign = {"Sec-Fetch-Site": "cross-site"}
    for path in ("overlay.json", "broker?name=far", "subscriptions/results?how=covering&text=x"):
        assert town.running.ask("GET", f"/console/{path}", headers=foreign).status == 403
    assert town.running.ask("GET", "/console/try", headers=foreign).status == 200  # a link to a page


def test_completion_knows_the_attributes_of_events(town: Any) -> None:
    found = post(town.running, "complete", before="pri", events='{"price": 1}').json
    assert found == [{"text": "price", "replaced": 3, "kind": "attribute"}]


# -- rights ----------------------------------------------------------------------------------------------------


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    made = Web(tmp_path)
    yield made
    made.close()


def test_rights_hold_for_every_view(web: Web) -> None:
    inspecting = (
        "",
        "overlay.json",
        "broker?name=b",
        "link?one=a&other=b",
        "reasons?at=a&beside=b&text=x",
        "scopes/live",
        "follow",
        "subscriptions",
        "subscriptions/results",
        "subscriptions/durables",
    )
    for path in (*inspecting, "try", "compare", "patterns", "scopes"):
        assert web.status("GET", f"/console/{path}") == 401
    for path in inspecting:
        assert web.status("GET", f"/console/{path}", "ada") == 403
        assert web.status("GET", f"/console/{path}", "root") == 200
    for path in ("try", "compare", "patterns", "scopes"):
        assert web.status("GET", f"/console/{path}", "ada") == 200


def test_a_test_event_is_published_as_whoever_asks(web: Web) -> None:
    def published(who: str) -> str:
        body = urlencode({"event": '{"symbol": "IBM"}'})
        headers = {**FORM, "Authorization": f"Bearer {token(who)}"}
        connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=PATIENCE_S)
        connection.request("POST", "/console/publish", body, headers)
        answer = connection.getresponse().read().decode()
        connection.close()
        return answer

    assert "acknowledged" in published("nyse")
    assert 'class="fault"' in published("ada")
    assert [each.producer for each in web.published()] == ["nyse"]


def test_a_broker_with_a_policy_shows_itself_alone(web: Web) -> None:
    with web.request("GET", "/console/", "root") as page:
        assert "shows itself alone" in page.read().decode()


# -- brokers that cannot be asked --------------------------------------------------------------------------------


def test_a_broker_that_is_not_seen_is_named() -> None:
    network = Examined(broker_with([("x = 1", "b")]))
    shown = outcome(asyncio.run(follow(network, "a", Notification.of({"x": 1}))))  # type: ignore[arg-type]
    assert "Nobody gets it at the brokers that are seen." in shown
    assert "It goes on to b, of which nothing is known here." in shown


def test_an_event_is_followed_as_it_would_be_published() -> None:
    event = event_of('{"producer": "nyse", "x": 1}')
    assert (event.producer, event.id) == ("nyse", "followed")
    assert "id" not in event_of('{"x": 1}').attributes


# -- odd input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("try", {"text": "a = 1", "dialect": "nope"}),
        ("try", {"text": "detection:\n  a: &x [1]\n  b: *x\n  condition: a", "dialect": "sigma"}),
        ("try", {"text": 'detection: {a: {b: !!int "x"}, condition: a}', "dialect": "sigma"}),
        ("try", {"text": "detection: " + 1_000 * "[", "dialect": "sigma"}),
        ("patterns", {"text": "p: A", "events": '{"type": "A"}'}),
        ("scopes", {"text": "DEFINE SCOPE s AS ALL FROM a", "source": "a", "target": "b", "event": "{"}),
        ("follow", {"broker": "hub", "event": ""}),
    ],
)
def test_odd_input_has_an_answer(town: Any, path: str, fields: dict[str, str]) -> None:
    assert post(town.running, path, **fields).status in (200, 422)  # 422: it takes too long


def test_what_is_too_deep_or_too_much_is_refused(town: Any) -> None:
    deep = "$" + 400 * "[?@.a" + 400 * "]"
    assert post(town.running, "try", text=deep, dialect="jsonpath").status == 413
    assert town.running.ask("POST", "/console/try", 200 * "a=1&", FORM).status == 400
    assert town.running.ask("GET", f"/console/subscriptions?at={5_000 * '9'}").status == 200
