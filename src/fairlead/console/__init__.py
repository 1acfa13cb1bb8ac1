"""HTTP in front of a broker: publish and subscribe with CloudEvents 1.0, and look at how it is.

The law: who publishes over HTTP is answered as any client is, when the publication is safe in the log, and who
subscribes gets what any client gets.

    serving      HTTP on the broker's own event loop
    gateway      the routes, what is checked and what is answered
    cloudevents  events in requests, and events that go out
    desk         a client of the broker, in its own process
    feeds        what a stream has asked for, and what comes of it
    streams      server-sent events, WebSockets
    websockets   the protocol of WebSockets
    metrics      figures for Prometheus
    openapi      the description that the tests hold all this to
    problems     why something is refused

There is no authentication in it: who can reach the port can publish and subscribe. Let it listen where only those
are who may, or put a proxy before it that knows who they are.
"""

from fairlead.console.gateway import Gateway, HttpLimits
from fairlead.console.serving import Serving, serve

__all__ = ["Gateway", "HttpLimits", "Serving", "serve"]
