"""`/openapi.json`: the HTTP interface as OpenAPI 3.1, made of operations and of the types of requests and answers.

The law: every operation and every status in it happens, as the tests show, and nothing happens that is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from fairlead import __version__
from fairlead.console.answers import (
    CloudEvent,
    DiscoveredFilters,
    Health,
    ProblemDetails,
    Published,
    QuestionParameters,
    Readiness,
    Record,
    RequestParameters,
    RetainedParameters,
    StreamParameters,
)
from fairlead.console.cloudevents import BATCH, RECORD, STRUCTURED
from fairlead.console.problems import PROBLEM_JSON
from fairlead.network.reports import ChannelReport, Status, Tables

__all__ = ["DOCUMENT", "OPERATIONS"]

REFERENCE: Final = "#/components/schemas/{name}"
JSON, EVENT_STREAM, TEXT = "application/json", "text/event-stream", "text/plain"


class Answer(NamedTuple):
    """An answer to a request; one without a type has no content."""

    description: str
    type: Any = None
    media: str = JSON


class Operation(NamedTuple):
    """The operation of a method at a path."""

    id: str
    summary: str
    answers: Mapping[int, Answer]
    query: Any = None
    """The type of its query."""
    others: Iterable[Mapping[str, Any]] = ()
    """Parameters elsewhere."""
    body: Mapping[str, Any] | None = None
    """The types of its content, by media type."""


def _problems(**statuses: str) -> dict[int, Answer]:
    return {int(name[1:]): Answer(text, ProblemDetails, PROBLEM_JSON) for name, text in statuses.items()}


_UNKNOWN: Final = _problems(_401="there is an access policy, and no credentials that it accepts")
_DENIED: Final = _UNKNOWN | _problems(
    _400="a header that decides, such as Authorization or Host, is there twice",
    _403="the access policy, or the site of the page, does not allow it",
    _421="the request is for another host: `[http] hosts` does not list it",
)
_STREAM_PROBLEMS: Final = _DENIED | _problems(
    _400="the filter, or another parameter, means nothing",
    _409="the broker refuses this subscription: it has no log, for instance",
    _503="too many streams are open, or the broker takes no more clients",
)

CREDENTIALS: Final[dict[str, dict[str, str]]] = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "a token of the issuer that `[security] tokens` of the broker trusts",
    },
    "password": {
        "type": "http",
        "scheme": "basic",
        "description": "a name and its password in `[security] passwords` of the broker",
    },
    "certificate": {
        "type": "mutualTLS",
        "description": "a certificate of the `[tls] authority` of the broker",
    },
}
"""The credentials that a broker with an access policy takes."""

OPERATIONS: Final[Mapping[tuple[str, str], Operation]] = {
    ("/events", "post"): Operation(
        "publish",
        "Publish events; the broker answers when they are synced in its log",
        {
            200: Answer("all of it had been published before", Published),
            202: Answer("it is in the broker's log", Published),
            **_DENIED,
            **_problems(
                _400="no event can be read from it; of a batch nothing is taken",
                _408="the request did not end in time",
                _413="the request, or an event in it, is too large",
                _415="events have another form",
                _503="not acknowledged in time, or too much at once; publish it again",
                _507="the broker's disk is full; nothing was taken",
            ),
        },
        body={STRUCTURED: CloudEvent, BATCH: list[CloudEvent], RECORD: Record | list[Record], "*/*": Any},
    ),
    ("/events", "get"): Operation(
        "subscribe",
        "Server-sent events: each has a CloudEvent as its data and its offset as its id",
        {200: Answer("events, until either side ends it", str, EVENT_STREAM), **_STREAM_PROBLEMS},
        StreamParameters,
        [
            {
                "name": "Last-Event-ID",
                "in": "header",
                "description": "the last event that was seen",
                "schema": {"type": "string"},
            }
        ],
    ),
    ("/events/ws", "get"): Operation(
        "converse",
        "A WebSocket that delivers events, and on which a durable subscriber accepts them",
        {
            101: Answer("the WebSocket is open"),
            **_STREAM_PROBLEMS,
            **_problems(_426="this is a WebSocket: request an upgrade"),
        },
        StreamParameters,
    ),
    ("/requests", "post"): Operation(
        "request",
        "Send an event as a request, best effort, and get the replies to it",
        {
            200: Answer("the first reply; an array of replies, where `enough` is given", CloudEvent),
            **_DENIED,
            **_problems(
                _400="no event can be read from it, or a parameter means nothing",
                _404="nobody listens: it was not published",
                _408="the request did not end in time",
                _409="the broker refuses it",
                _413="the request is too large",
                _415="events have another form",
                _503="too many are open, or the broker takes no more clients",
                _504="no reply has come in time",
            ),
        },
        RequestParameters,
        body={STRUCTURED: CloudEvent, RECORD: Record, "*/*": Any},
    ),
    ("/subscriptions/{name}", "delete"): Operation(
        "forget",
        "Forget a durable subscriber",
        {
            204: Answer("the broker retains nothing for it any longer"),
            **_DENIED,
            **_problems(_404="there is no such durable subscriber", _503="the broker takes no more clients"),
        },
        others=[
            {
                "name": "name",
                "in": "path",
                "required": True,
                "description": "its name",
                "schema": {"type": "string", "minLength": 1},
            }
        ],
    ),
    **{
        (f"/{what}", "get"): Operation(
            what,
            f"What of a filter others {verb}, without their names",
            {
                200: Answer("the filters", DiscoveredFilters),
                **_DENIED,
                **_problems(
                    _400="the filter, or another parameter, means nothing",
                    _503="the broker takes no more clients",
                ),
            },
            QuestionParameters,
        )
        for what, verb in (("wants", "subscribe to"), ("offers", "advertise"))
    },
    ("/status", "get"): Operation(
        "status", "How the broker is, in figures", {200: Answer("the figures", Status), **_DENIED}
    ),
    ("/tables", "get"): Operation(
        "tables",
        "The routing tables: filters, each with where it leads",
        {200: Answer("the tables", Tables), **_DENIED},
    ),
    ("/channels", "get"): Operation(
        "channels",
        "The channels: which quality of service notifications have, by their content",
        {200: Answer("the channels, the first that matches counts", list[ChannelReport]), **_DENIED},
    ),
    ("/retained", "get"): Operation(
        "retained",
        "The values that channels retain, at all brokers, in the order of their publication",
        {
            200: Answer("the values that the filter matches", list[CloudEvent]),
            **_DENIED,
            **_problems(
                _400="no filter, or not a filter",
                _409="the broker does not take the filter",
                _503="not answered in time, or the broker takes no more clients",
            ),
        },
        RetainedParameters,
    ),
    ("/healthz", "get"): Operation("health", "Whether the process answers", {200: Answer("it does", Health)}),
    ("/readyz", "get"): Operation(
        "readiness",
        "Whether the broker listens, its log is open and all its links are connected",
        {200: Answer("it is ready", Readiness), 503: Answer("it is not, and what is missing", Readiness)},
    ),
    ("/metrics", "get"): Operation(
        "metrics", "Figures in Prometheus' text format", {200: Answer("the figures", str, TEXT), **_DENIED}
    ),
    ("/openapi.json", "get"): Operation("description", "This document", {200: Answer("it", dict[str, Any])}),
}


def _document() -> dict[str, Any]:
    types = [CloudEvent, *(a.type for each in OPERATIONS.values() for a in each.answers.values() if a.type)]
    _, components = msgspec.json.schema_components(types, ref_template=REFERENCE)
    for name, schema in components.items():
        schema["additionalProperties"] = name == CloudEvent.__name__
    paths: dict[str, Any] = {}
    for (path, method), operation in OPERATIONS.items():
        paths.setdefault(path, {})[method] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fairlead",
            "version": __version__,
            "description": "Publish and subscribe, with CloudEvents 1.0 over HTTP.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": CREDENTIALS},
    }


def _described(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {"operationId": operation.id, "summary": operation.summary}
    if parameters := [*_parameters(operation.query), *operation.others]:
        described["parameters"] = parameters
    if operation.answers.keys() >= _UNKNOWN.keys():  # without a policy, nobody needs credentials
        described["security"] = [{}, *({name: []} for name in CREDENTIALS)]
    if operation.body is not None:
        content = {media: {"schema": _schema(kind)} for media, kind in operation.body.items()}
        described["requestBody"] = {"required": True, "content": content}
    described["responses"] = {
        str(status): {"description": answer.description}
        | ({"content": {answer.media: {"schema": _schema(answer.type)}}} if answer.type else {})
        for status, answer in operation.answers.items()
    }
    return described


def _schema(kind: Any) -> Any:
    [schema], _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return schema


def _parameters(query: Any) -> Iterable[dict[str, Any]]:
    """The fields of a type as parameters of a query, the required ones first."""
    if query is None:
        return
    _, components = msgspec.json.schema_components([query], ref_template=REFERENCE)
    declared = components[query.__name__]
    for name in query.__annotations__:
        schema = dict(declared["properties"][name])
        description, required = schema.pop("description"), name in declared["required"]
        yield {
            "name": name,
            "in": "query",
            "required": required,
            "description": description,
            "schema": schema,
        }


DOCUMENT: Final = _document()
