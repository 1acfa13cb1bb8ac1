"""HTTP in front of a broker: publish and subscribe with CloudEvents 1.0; health, metrics, OpenAPI; the console.

The law: a publication over HTTP is acknowledged as any other, when its record is synced, and a subscriber over
HTTP receives what any other client receives.

    serving      HTTP on the broker's own event loop
    gateway      the routes, their checks and responses
    cloudevents  events in requests and responses
    desk         a client of the broker, in its own process
    feeds        the subscription of one stream, and its events
    streams      server-sent events, WebSockets
    websockets   the protocol of WebSockets
    metrics      figures for Prometheus
    families     their text format
    pipelines    those of a running pipeline
    openapi      the description that the tests check all this against
    problems     refusals
    views        the console in the browser

A request acts for the principal of its `Authorization` header or certificate, by the broker's access policy.
Without a policy every program that reaches the port can publish and subscribe.
"""

from fairlead.console.gateway import Gateway, HttpLimits
from fairlead.console.serving import Serving, serve

__all__ = ["Gateway", "HttpLimits", "Serving", "serve"]
