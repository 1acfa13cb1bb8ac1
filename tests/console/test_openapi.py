"""Every operation and every status of the OpenAPI document happens, and is answered as the document says."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from openapi_spec_validator import validate
from openapi_spec_validator.validation.exceptions import OpenAPIValidationError

from fairlead.console import HttpLimits
from fairlead.console.gateway import CONSOLE
from fairlead.console.openapi import DOCUMENT
from fairlead.errors import LogFailed, LogFull
from fairlead.log import identities
from fairlead.log.writer import ROOM_HINT
from fairlead.network import server, sync
from fairlead.network.client import Client, connect
from fairlead.network.ledger import Ledger
from fairlead.network.settings import Limits
from fairlead.security.credentials import bearer
from fairlead.security.settings import Security
from fairlead_lab.testing.guarded import jwks, token
from fairlead_lab.testing.memory import MemoryDisk

EVENT = {"specversion": "1.0", "id": "o1", "source": "/o", "type": "t"}
STRUCTURED = "application/cloudevents+json"


@pytest.fixture(scope="module")
def small(started: Callable[..., Any]) -> Iterator[Any]:
    """A broker that takes one client and calls one that is not there."""
    running = started(
        HttpLimits(patience_s=0.1), limits=Limits(clients=1), links=("fairlead://127.0.0.1:1",), name="small"
    )
    yield running
    running.stop()  # it calls at random times, which would disturb Hypothesis


# -- one call for each status ----------------------------------------------------------------------------------


def _seen_twice(broker: Any) -> Any:
    broker.publish({**EVENT, "id": "twice"}, STRUCTURED)
    return broker.publish({**EVENT, "id": "twice"}, STRUCTURED)


def _never_ending(broker: Any, path: str = "/events") -> Any:
    return broker.ask("POST", path, b"{", {"Content-Type": "application/json", "Content-Length": "9"})


@contextlib.contextmanager
def _occupied(small: Any) -> Any:
    """The one client is there: a stream."""
    small.until(lambda: not small.server.node.clients)
    with small.events("true") as events:
        assert events.status == 200
        yield


def _while_occupied(ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def asked(small: Any) -> Any:
        with _occupied(small):
            return ask(small)

    return asked


def _full(broker: Any) -> Any:
    def full(*_: Any) -> range:
        raise LogFull("there is no room for the log", hint=ROOM_HINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker.server.node.ledger, "publications_of", full)
        return broker.publish({**EVENT, "id": "full"}, STRUCTURED)


def _stream(broker: Any) -> Any:
    with broker.events("true") as events:
        return events


def _socket(filter: str = "true", **query: Any) -> Callable[[Any], Any]:
    def asked(broker: Any) -> Any:
        with broker.socket(filter, **query) as socket:
            return socket

    return asked


def _forgotten(broker: Any) -> Any:
    with broker.events("true", durable="gone"):
        pass
    return broker.ask("DELETE", "/subscriptions/gone")


def _request(
    query: str = "timeout=20s", body: str = '{"type": "price?"}', media: str = "application/json"
) -> Callable[[Any], Any]:
    return lambda broker: broker.ask("POST", f"/requests?{query}", body, {"Content-Type": media})


def _answered(broker: Any) -> Any:
    with (
        sync.connect(broker.server.url, name="pricing") as client,
        client.responding('type = "price?"', lambda request: {"price": 81}),
    ):
        return _request()(broker)


def _unanswered(broker: Any) -> Any:
    with sync.connect(broker.server.url, name="dumb") as client, client.subscribe('type = "price?"'):
        return _request("timeout=10ms")(broker)


def _requested_twice(broker: Any) -> Any:
    body = '{"type": "price?", "producer": "p", "id": "once"}'
    with sync.connect(broker.server.url, name="dumb") as client, client.subscribe('type = "price?"'):
        return [_request("timeout=50ms", body)(broker) for _ in range(2)][1]


def _get(path: str) -> Callable[[Any], Any]:
    return lambda broker: broker.ask("GET", path)


def _twice(method: str, path: str) -> Callable[[Any], Any]:
    """A request with two credentials."""

    def asked(broker: Any) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=20)
        with contextlib.closing(connection):
            connection.putrequest(method, path)
            for _ in range(2):
                connection.putheader("Authorization", EVE["Authorization"])
            connection.endheaders()
            answer = connection.getresponse()
            body, headers = answer.read(), {"content-type": answer.headers["Content-Type"]}
            return SimpleNamespace(status=answer.status, headers=headers, body=body)

    return asked


ELSEWHERE = {"Host": "rebound.example"}
EVE = {"Authorization": str(bearer(token("eve")))}
"""Of a principal that may connect, and nothing else."""


def _as(ask: Callable[[Any, dict[str, str]], Any]) -> Callable[[dict[str, str]], Callable[[Any], Any]]:
    return lambda headers: lambda broker: ask(broker, headers)


def _asking(path: str) -> Callable[[Any, dict[str, str]], Any]:
    return lambda broker, headers: broker.ask("GET", path, headers=headers)


INSPECTING = ("/status", "/tables", "/channels", "/metrics")
CALLS: dict[tuple[str, str, str], tuple[str, Callable[[Any], Any]]] = {
    ("post", "/events", "200"): ("broker", _seen_twice),
    ("post", "/events", "202"): ("broker", lambda broker: broker.publish(EVENT, STRUCTURED)),
    ("post", "/events", "400"): ("broker", lambda broker: broker.publish({}, STRUCTURED)),
    ("post", "/events", "408"): ("small", _never_ending),
    ("post", "/events", "413"): ("broker", lambda broker: broker.publish([{}] * 1_001)),
    ("post", "/events", "415"): ("broker", lambda broker: broker.publish("a", "text/plain")),
    ("post", "/events", "503"): ("small", _while_occupied(lambda small: small.publish({"a": 1}))),
    ("post", "/events", "507"): ("broker", _full),
    ("post", "/requests", "200"): ("broker", _answered),
    ("post", "/requests", "400"): ("broker", _request("timeout=soon")),
    ("post", "/requests", "404"): ("broker", _request()),
    ("post", "/requests", "408"): ("small", lambda small: _never_ending(small, "/requests")),
    ("post", "/requests", "409"): ("broker", _requested_twice),
    ("post", "/requests", "413"): ("broker", _request(body='[{"x": 1}, {"x": 2}]')),
    ("post", "/requests", "415"): ("broker", _request(media="text/plain")),
    ("post", "/requests", "503"): ("small", _while_occupied(_request("timeout=10ms"))),
    ("post", "/requests", "504"): ("broker", _unanswered),
    ("get", "/events", "200"): ("broker", _stream),
    ("get", "/events", "400"): ("broker", _get("/events")),
    ("get", "/events", "409"): ("memory", _get("/events?filter=true&durable=d")),
    ("get", "/events", "503"): ("small", _while_occupied(_get("/events?filter=true"))),
    ("get", "/events/ws", "101"): ("broker", _socket()),
    ("get", "/events/ws", "400"): ("broker", _socket("price >")),
    ("get", "/events/ws", "403"): ("broker", _socket(headers={"Origin": "http://elsewhere.example"})),
    ("get", "/events/ws", "409"): ("memory", _socket(durable="d")),
    ("get", "/events/ws", "426"): ("broker", _get("/events/ws?filter=true")),
    ("get", "/events/ws", "503"): ("small", _while_occupied(_socket())),
    ("delete", "/subscriptions/{name}", "204"): ("broker", _forgotten),
    ("delete", "/subscriptions/{name}", "404"): (
        "broker",
        lambda b: b.ask("DELETE", "/subscriptions/nobody"),
    ),
    ("delete", "/subscriptions/{name}", "503"): (
        "small",
        _while_occupied(lambda small: small.ask("DELETE", "/subscriptions/nobody")),
    ),
    **{
        (method, path, status): (fixture, call)
        for (method, path), call in {
            ("post", "/events"): _as(lambda broker, headers: broker.publish(EVENT, STRUCTURED, **headers)),
            ("post", "/requests"): _as(
                lambda broker, headers: broker.ask(
                    "POST", "/requests", "{}", {"Content-Type": "application/json", **headers}
                )
            ),
            ("get", "/events"): _as(
                lambda broker, headers: broker.ask("GET", "/events?filter=y%3D2", headers=headers)
            ),
            ("delete", "/subscriptions/{name}"): _as(
                lambda broker, headers: broker.ask("DELETE", "/subscriptions/nobody", headers=headers)
            ),
            **{("get", path): _as(_asking(path)) for path in INSPECTING},
            **{("get", path): _as(_asking(f"{path}?filter=y%3D2")) for path in ("/wants", "/offers")},
            ("get", "/retained"): _as(
                lambda broker, headers: broker.ask("GET", "/retained?filter=y%3D2", headers=headers)
            ),
        }.items()
        for status, fixture, call in (
            ("401", "guarded", call({})),
            ("403", "guarded", call(EVE)),
            ("421", "broker", call(ELSEWHERE)),
        )
    },
    **{
        (method, path, "400"): ("guarded", _twice(method.upper(), path.format(name="nobody")))
        for method, path in (
            ("delete", "/subscriptions/{name}"),
            *(("get", path) for path in INSPECTING),
        )
    },
    **{
        ("get", path, status): (fixture, call)
        for path in ("/wants", "/offers")
        for status, fixture, call in (
            ("200", "broker", _get(f"{path}?filter=price%20%3E%201")),
            ("400", "broker", _get(f"{path}?filter=price%20%3E")),
            ("503", "small", _while_occupied(_get(f"{path}?filter=true"))),
        )
    },
    ("get", "/events/ws", "421"): ("broker", _socket(headers=ELSEWHERE)),
    ("get", "/events/ws", "401"): ("guarded", _socket()),
    ("get", "/status", "200"): ("broker", _get("/status")),
    ("get", "/tables", "200"): ("broker", _get("/tables")),
    ("get", "/channels", "200"): ("broker", _get("/channels")),
    ("get", "/retained", "200"): ("broker", _get("/retained?filter=true")),
    ("get", "/retained", "400"): ("broker", _get("/retained")),
    ("get", "/retained", "409"): ("broker", _get(f"/retained?filter={'%20or%20'.join(['x=1'] * 501)}")),
    ("get", "/retained", "503"): ("small", _while_occupied(_get("/retained?filter=true"))),
    ("get", "/healthz", "200"): ("broker", _get("/healthz")),
    ("get", "/readyz", "200"): ("broker", _get("/readyz")),
    ("get", "/readyz", "503"): ("small", _get("/readyz")),
    ("get", "/metrics", "200"): ("broker", _get("/metrics")),
    ("get", "/openapi.json", "200"): ("broker", _get("/openapi.json")),
}


@pytest.fixture(scope="module")
def guarded(started: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A broker with an access policy."""
    path = tmp_path_factory.mktemp("guarded")
    (path / "policy.toml").write_text("[roles.guest]\nmembers = ['eve']\nsubscribe = ['y = 1']\n")
    (path / "keys.json").write_text(jwks())
    security = Security(policy=str(path / "policy.toml"), tokens=str(path / "keys.json"))
    return started(name="guarded", security=security)


@pytest.fixture(scope="module")
def memory(started: Callable[..., Any]) -> Any:
    return started(data=None)


def documented() -> set[tuple[str, str, str]]:
    return {
        (method, path, status)
        for path, operations in DOCUMENT["paths"].items()
        for method, operation in operations.items()
        for status in operation["responses"]
    }


def test_there_is_a_call_for_every_status_of_every_operation() -> None:
    assert CALLS.keys() == documented()


@pytest.mark.parametrize(
    ("method", "path", "status"), [pytest.param(*key, id=" ".join(key)) for key in CALLS]
)
def test_it_is_answered_as_the_document_says(
    method: str, path: str, status: str, request: pytest.FixtureRequest
) -> None:
    fixture, call = CALLS[method, path, status]
    answer = call(request.getfixturevalue(fixture))
    assert str(answer.status) == status
    described = DOCUMENT["paths"][path][method]["responses"][status].get("content", {})
    if not described:
        assert status in ("101", "204")
        return
    [(media, content)] = described.items()
    if hasattr(answer, "body"):
        assert (answer.headers["content-type"].partition(";")[0]) == media
        if media.endswith("json"):
            check(json.loads(answer.body), content["schema"])
    else:
        assert answer.media == media


def test_every_answer_is_documented(request: pytest.FixtureRequest) -> None:
    """What brokers counted in all tests of this file, or of the whole directory, is in the document."""
    for fixture in ("broker", "small", "memory"):
        answered = request.getfixturevalue(fixture).serving.gateway.requests.answered
        assert answered
        undocumented = {
            (method, path, status)
            for method, path, status in answered
            if path != CONSOLE
            and (method.replace("HEAD", "GET").lower(), path, str(status)) not in documented()
        }
        assert {status for _, _, status in undocumented} <= {404, 405}


def test_nothing_is_answered_elsewhere_and_that_is_a_problem_too(broker: Any) -> None:
    for method, path, status in [("GET", "/", 404), ("PUT", "/events", 405), ("POST", "/status", 405)]:
        answer = broker.ask(method, path)
        assert answer.status == status
        check(answer.json, DOCUMENT["components"]["schemas"]["ProblemDetails"])
    assert set(broker.ask("PUT", "/events").headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


def test_every_route_is_in_the_document(broker: Any) -> None:
    routes = {route.path.replace("{name:path}", "{name}") for route in broker.serving.gateway.app.routes}
    assert routes - {CONSOLE} == DOCUMENT["paths"].keys()  # pages are for people


def test_the_document_says_what_is_served(broker: Any) -> None:
    assert broker.ask("GET", "/openapi.json").json == json.loads(json.dumps(DOCUMENT))


# -- how it is -------------------------------------------------------------------------------------------------


def test_a_broker_is_ready_when_all_its_links_are_connected_and_says_which_are_not(
    broker: Any, started: Callable[..., Any], small: Any
) -> None:
    nobody = "fairlead://127.0.0.1:1"
    small.until(lambda: "refused" in small.server.node.status()["waiting"][nobody]["reason"])
    told = small.ask("GET", "/readyz").json
    assert told.pop("waiting")[nobody]["since"].endswith("Z")
    assert told == {"ready": False, "listening": True, "log": "open", "links": {nobody: False}}
    linked = started(links=(broker.server.url,), name="linked")
    linked.until(lambda: "b" in linked.server.node.links and linked.server.node.links["b"].ready)
    assert linked.ask("GET", "/readyz").json["links"] == {"b": True}
    linked.stop()
    broker.until(lambda: broker.server.node.links["linked"].session is None)
    told = broker.ask("GET", "/readyz").json
    assert told["links"] == {"linked": False}
    assert told["waiting"]["linked"]["reason"] == "the connection is lost"
    broker.wait(_unlink(broker))
    assert broker.ask("GET", "/readyz").status == 200


async def _unlink(broker: Any) -> None:
    async with connect(broker.server.url) as client:
        await client.unlink("linked")


def test_a_broker_whose_disk_is_full_is_not_ready_until_forget_and_retention_have_made_room(
    started: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = MemoryDisk(room=300_000)
    monkeypatch.setattr(identities, "RETRY_US", 0)
    monkeypatch.setattr(server, "RESERVE_BYTES", 10_000)
    monkeypatch.setattr(server, "Ledger", partial(Ledger, disk=disk, segment_bytes=30_000))
    running = started(name="full", keep_bytes=60_000)
    running.wait(_with_client(running, _subscribe_and_leave))
    text, ids = "x" * 2_000, count()

    def published(text: str) -> int:
        answer = running.publish({**EVENT, "id": f"f{next(ids)}", "text": text}, STRUCTURED)
        assert answer.status in (202, 507)
        return int(answer.status)

    assert running.ask("GET", "/readyz").status == 200
    while published(text) == 202:
        pass
    disk.room = disk.used()
    while published("") == 202:
        pass
    answer = running.ask("GET", "/readyz")
    assert (answer.status, answer.json["log"]) == (503, "full")
    assert running.ask("GET", "/status").json["log"]["full"]
    running.wait(_with_client(running, lambda client: client.forget("dead")))
    running.until(lambda: not running.server.node.ledger.is_full)
    assert running.ask("GET", "/readyz").status == 200
    assert published(text) == 202


async def _subscribe_and_leave(client: Client) -> None:
    async with client.subscribe("true", durable="dead"):
        pass


async def _with_client(running: Any, work: Callable[[Client], Awaitable[None]]) -> None:
    async with connect(running.server.url) as client:
        await work(client)


def test_a_broker_whose_log_has_failed_is_not_ready_and_says_why(started: Callable[..., Any]) -> None:
    running = started()
    running.do(lambda: running.server.failure.set_result(LogFailed("the disk is gone")))
    answer = running.ask("GET", "/readyz")
    assert (answer.status, answer.json["log"], answer.json["reason"]) == (503, "failed", "the disk is gone")
    assert running.ask("GET", "/healthz").status == 200


# -- the document itself ---------------------------------------------------------------------------------------


def test_the_document_is_openapi() -> None:
    validate(json.loads(json.dumps(DOCUMENT)))


def test_what_is_no_openapi_is_found() -> None:
    broken = json.loads(json.dumps(DOCUMENT))
    del broken["paths"]["/status"]["get"]["responses"]["200"]["description"]
    with pytest.raises(OpenAPIValidationError):
        validate(broken)
    dangling = json.loads(json.dumps(DOCUMENT).replace("schemas/Status", "schemas/Stauts"))
    with pytest.raises(Exception, match="Stauts"):
        validate(dangling)


def check(given: Any, schema: dict[str, Any]) -> None:
    """ValidationError if a value is not what a schema of the document says."""
    Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(given)


def holds(given: Any, schema: dict[str, Any]) -> bool:
    try:
        check(given, schema)
    except ValidationError:
        return False
    return True


def test_an_answer_that_is_not_as_the_document_says_is_found() -> None:
    problem = {"$ref": "#/components/schemas/ProblemDetails"}
    good = {"type": "a", "title": "b", "status": 400, "detail": "c"}
    assert holds(good, problem)
    for wrong in ({**good, "status": "400"}, {**good, "more": 1}, {"type": "a"}, [], {**good, "index": -1}):
        assert not holds(wrong, problem)
    log = DOCUMENT["components"]["schemas"]["Status"]["properties"]["log"]
    assert holds(None, log)
    assert not holds({"first": 0}, log)
