"""Requests and answers over HTTP, as types. The OpenAPI document is made of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypeAlias, TypedDict

from msgspec import Meta

from fairlead.dialects import NAMES, OWN
from fairlead.network.reports import Absent, Count
from fairlead.network.settings import POLICIES

__all__ = [
    "CloudEvent",
    "DiscoveredFilters",
    "Health",
    "ProblemDetails",
    "Published",
    "PublishedEvent",
    "QuestionParameters",
    "Readiness",
    "Record",
    "RequestParameters",
    "RetainedParameters",
    "StreamParameters",
]

Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Record: TypeAlias = dict[str, Any]


class StreamParameters(TypedDict):
    """The parameters of a stream, in its query."""

    filter: Annotated[str, Meta(min_length=1, description="what to deliver, in the filter language")]
    dialect: NotRequired[
        Annotated[
            str,
            Meta(
                description="the language of the filter, where it is not ours",
                extra_json_schema={"enum": [OWN, *NAMES]},
            ),
        ]
    ]
    durable: NotRequired[
        Annotated[str, Meta(description="the name of a durable subscriber, which misses nothing while away")]
    ]
    shared: NotRequired[
        Annotated[
            str,
            Meta(
                description="with durable: each event goes to one of those who stream under the name",
                extra_json_schema={"enum": ["1"]},
            ),
        ]
    ]
    per: NotRequired[
        Annotated[
            str, Meta(description="with shared: what has one value of this attribute goes to one of them")
        ]
    ]
    attempts_max: NotRequired[
        Annotated[
            str,
            Meta(description="with durable: what fails so often is a dead letter, of the type dead"),
        ]
    ]
    accept_within: NotRequired[
        Annotated[
            str, Meta(description="with durable: what is not accepted in this time comes again, as 30s")
        ]
    ]
    lease: NotRequired[
        Annotated[
            str,
            Meta(description="with durable: it ends when nobody has been there for it for so long, as 10min"),
        ]
    ]
    on: NotRequired[
        Annotated[
            str,
            Meta(
                description="only what this condition lets pass, as in `celsius changes by 1, per room`; its"
                " history begins with the stream"
            ),
        ]
    ]
    want: NotRequired[
        Annotated[
            str,
            Meta(
                description="the least quality of service that channels have to offer, as in"
                " `order=producer, deadline=10s, durability=logged`"
            ),
        ]
    ]
    since: NotRequired[
        Annotated[
            str, Meta(description="begin with what was published then: RFC 3339, or microseconds since 1970")
        ]
    ]
    after: NotRequired[
        Annotated[str, Meta(description="begin after the event with this id, as in Last-Event-ID")]
    ]
    retained: NotRequired[
        Annotated[
            str,
            Meta(
                description="whether the values come first that channels retain; by default they do, unless the"
                " stream begins in the past or is shared",
                extra_json_schema={"enum": ["send", "no"]},
            ),
        ]
    ]
    policy: NotRequired[
        Annotated[
            str,
            Meta(
                description="best effort: what happens when the reader is slow",
                extra_json_schema={"enum": list(POLICIES)},
            ),
        ]
    ]


class RequestParameters(TypedDict):
    """The parameters of a request for replies."""

    timeout: NotRequired[
        Annotated[str, Meta(description="how long to wait for replies, such as 2s, which is the default")]
    ]
    enough: NotRequired[
        Annotated[str, Meta(description="how many replies are enough; the answer is then an array")]
    ]


class QuestionParameters(TypedDict):
    """The parameters of a question about what others want, or offer."""

    filter: Annotated[str, Meta(min_length=1, description="what the question is about")]


class DiscoveredFilters(TypedDict):
    """The part of a filter that others want, or offer: what one of these filters matches."""

    question: str
    filters: list[str]
    exact: bool
    known: bool


class RetainedParameters(TypedDict):
    """The parameters of a question about retained values, in its query."""

    filter: Annotated[str, Meta(min_length=1, description="which values, in the filter language")]
    dialect: NotRequired[
        Annotated[
            str,
            Meta(
                description="the language of the filter, where it is not ours",
                extra_json_schema={"enum": [OWN, *NAMES]},
            ),
        ]
    ]


class CloudEvent(TypedDict):
    """A CloudEvent 1.0; it may have further attributes."""

    specversion: Literal["1.0"]
    id: Text
    source: Text
    type: Text
    time: NotRequired[str]
    sequence: NotRequired[str]
    datacontenttype: NotRequired[str]
    data: NotRequired[Any]
    data_base64: NotRequired[str]


class PublishedEvent(TypedDict):
    """An event of a request."""

    id: str
    source: str
    duplicate: bool


class Published(TypedDict):
    """The outcome of the events of a request."""

    accepted: Count
    duplicates: Count
    events: list[PublishedEvent]


class ProblemDetails(TypedDict):
    """Why a request has no effect (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    index: NotRequired[Count]
    """The number of the event within its batch."""


class Health(TypedDict):
    """The process answers."""

    status: Literal["ok"]


class Readiness(TypedDict):
    """Whether a broker is ready, and if not, what is missing."""

    ready: bool
    listening: bool
    log: Literal["open", "full", "failed", "none"]
    links: dict[str, bool]
    waiting: NotRequired[dict[str, Absent]]
    reason: NotRequired[str]
