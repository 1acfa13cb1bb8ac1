"""`/openapi.json`: the HTTP interface as OpenAPI 3.1.

The law: every operation and every status in it happens, as the tests show, and nothing happens that is not in it.
"""

from __future__ import annotations

from typing import Any, Final

from fairlead import __version__
from fairlead.console.cloudevents import BATCH, RECORD, STRUCTURED
from fairlead.console.problems import PROBLEM_JSON
from fairlead.network.settings import POLICIES

__all__ = ["DOCUMENT"]

Schema = dict[str, Any]


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(
    required: dict[str, Schema], optional: dict[str, Schema] | None = None, *, more: bool = False
) -> Schema:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
        "additionalProperties": more,
    }


def _map_of(schema: Schema) -> Schema:
    return {"type": "object", "additionalProperties": schema}


def _list_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


_TEXT: Final[Schema] = {"type": "string"}
_SOME: Final[Schema] = {"type": "string", "minLength": 1}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_FLAG: Final[Schema] = {"type": "boolean"}


def _answer(description: str, schema: Schema | None = None, media: str = "application/json") -> Schema:
    content = {} if schema is None else {"content": {media: {"schema": schema}}}
    return {"description": description, **content}


def _problem(description: str) -> Schema:
    return _answer(description, _ref("Problem"), PROBLEM_JSON)


def _parameter(
    name: str, description: str, schema: Schema, *, where: str = "query", required: bool = False
) -> Schema:
    return {"name": name, "in": where, "required": required, "description": description, "schema": schema}


SCHEMAS: Final[dict[str, Schema]] = {
    "CloudEvent": _object(
        {"specversion": {"const": "1.0"}, "id": _SOME, "source": _SOME, "type": _SOME},
        {"time": _TEXT, "sequence": _TEXT, "datacontenttype": _TEXT, "data": {}, "data_base64": _TEXT},
        more=True,
    ),
    "Record": {"type": "object"},
    "Published": _object(
        {
            "accepted": _COUNT,
            "duplicates": _COUNT,
            "events": _list_of(_object({"id": _TEXT, "source": _TEXT, "duplicate": _FLAG})),
        }
    ),
    "Problem": _object(
        {"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT},
        {"index": _COUNT},
    ),
    "Health": _object({"status": {"const": "ok"}}),
    "Readiness": _object(
        {
            "ready": _FLAG,
            "listening": _FLAG,
            "log": {"enum": ["open", "full", "failed", "none"]},
            "links": _map_of(_FLAG),
        },
        {"reason": _TEXT, "waiting": _map_of(_object({"reason": _TEXT, "since": _TEXT}))},
    ),
    "Status": _object(
        {
            "broker": _TEXT,
            "clients": _COUNT,
            "subscriptions": _COUNT,
            "routing_entries": _COUNT,
            "advertisements": _FLAG,
            "counters": _map_of(_COUNT),
            "log": {
                "oneOf": [
                    {"type": "null"},
                    _object(
                        {"first": _COUNT, "end": _COUNT, "synced": _COUNT, "bytes": _COUNT, "full": _FLAG}
                    ),
                ]
            },
            "links": _map_of(
                _object(
                    {
                        "connected": _FLAG,
                        "ready": _FLAG,
                        "behind": _COUNT,
                        "unconfirmed": _COUNT,
                        "url": _TEXT,
                    },
                    more=True,
                )
            ),
            "waiting": _map_of(_object({"neighbour": _TEXT, "reason": _TEXT, "since": _TEXT})),
            "durables": _map_of(
                _object({"connected": _FLAG, "behind": _COUNT, "unconfirmed": _COUNT}, more=True)
            ),
        },
        more=True,
    ),
    "Tables": _object(
        {
            "broker": _TEXT,
            "neighbours": _list_of(_TEXT),
            "subscriptions": _list_of(_list_of(_TEXT)),
            "advertisements": _list_of(_list_of(_TEXT)),
        },
        more=True,
    ),
}

_STREAM: Final = [
    _parameter("filter", "what to deliver, in the filter language", _SOME, required=True),
    _parameter("durable", "the name of a durable subscriber, who misses nothing while away", _TEXT),
    _parameter("since", "begin with what was published then: RFC 3339, or microseconds since 1970", _TEXT),
    _parameter("after", "begin after the event with this id, as Last-Event-ID says it", _TEXT),
    _parameter("policy", "best effort: what happens when the reader is slow", {"enum": list(POLICIES)}),
]
_STREAM_PROBLEMS: Final = {
    "400": _problem("the filter, or another parameter, means nothing"),
    "409": _problem("the broker does not take this subscription: it keeps no log, for instance"),
    "503": _problem("too many streams are open, or the broker takes no more clients"),
}

DOCUMENT: Final[Schema] = {
    "openapi": "3.1.0",
    "info": {
        "title": "Fairlead",
        "version": __version__,
        "description": "Publish and subscribe, with CloudEvents 1.0 over HTTP.",
    },
    "paths": {
        "/events": {
            "post": {
                "operationId": "publish",
                "summary": "Publish events; they are answered when they are safe in the broker's log",
                "requestBody": {
                    "required": True,
                    "content": {
                        STRUCTURED: {"schema": _ref("CloudEvent")},
                        BATCH: {"schema": _list_of(_ref("CloudEvent"))},
                        RECORD: {"schema": {"oneOf": [_ref("Record"), _list_of(_ref("Record"))]}},
                        "*/*": {"schema": {}},
                    },
                },
                "responses": {
                    "200": _answer("all of it had been published before", _ref("Published")),
                    "202": _answer("it is in the log, and on its way", _ref("Published")),
                    "400": _problem("no event can be read from it; of a batch nothing is taken"),
                    "408": _problem("the request did not end in time"),
                    "413": _problem("the request, or an event in it, is too large"),
                    "415": _problem("events do not come in this form"),
                    "503": _problem("not acknowledged in time, or too much at once; publish it again"),
                    "507": _problem("the broker's disk is full; nothing was taken"),
                },
            },
            "get": {
                "operationId": "subscribe",
                "summary": "Server-sent events: each has a CloudEvent as its data and its offset as its id",
                "parameters": [
                    *_STREAM,
                    _parameter("Last-Event-ID", "the last event that was seen", _TEXT, where="header"),
                ],
                "responses": {
                    "200": _answer("events, until either side ends it", _TEXT, "text/event-stream"),
                    **_STREAM_PROBLEMS,
                },
            },
        },
        "/events/ws": {
            "get": {
                "operationId": "converse",
                "summary": "A WebSocket that delivers events, and on which a durable subscriber accepts them",
                "parameters": _STREAM,
                "responses": {
                    "101": _answer("the WebSocket is open"),
                    **_STREAM_PROBLEMS,
                    "403": _problem("a page of another site has asked"),
                    "426": _problem("this is a WebSocket: ask for an upgrade"),
                },
            }
        },
        "/subscriptions/{name}": {
            "delete": {
                "operationId": "forget",
                "summary": "Forget a durable subscriber",
                "parameters": [
                    _parameter("name", "its name", _SOME, where="path", required=True),
                ],
                "responses": {
                    "204": _answer("nothing is kept for it any longer"),
                    "404": _problem("there is no such durable subscriber"),
                    "503": _problem("the broker takes no more clients"),
                },
            }
        },
        "/status": {
            "get": {
                "operationId": "status",
                "summary": "How the broker is, in figures",
                "responses": {"200": _answer("the figures", _ref("Status"))},
            }
        },
        "/tables": {
            "get": {
                "operationId": "tables",
                "summary": "The routing tables: filters, each with where it leads",
                "responses": {"200": _answer("the tables", _ref("Tables"))},
            }
        },
        "/healthz": {
            "get": {
                "operationId": "health",
                "summary": "Whether the process answers",
                "responses": {"200": _answer("it does", _ref("Health"))},
            }
        },
        "/readyz": {
            "get": {
                "operationId": "readiness",
                "summary": "Whether the broker listens, its log is open and all its links are connected",
                "responses": {
                    "200": _answer("it is ready", _ref("Readiness")),
                    "503": _answer("it is not, and what is missing", _ref("Readiness")),
                },
            }
        },
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "summary": "Figures in Prometheus' text format",
                "responses": {"200": _answer("the figures", _TEXT, "text/plain")},
            }
        },
        "/openapi.json": {
            "get": {
                "operationId": "description",
                "summary": "This document",
                "responses": {"200": _answer("it", {"type": "object"})},
            }
        },
    },
    "components": {"schemas": SCHEMAS},
}
