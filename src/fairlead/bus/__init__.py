"""The embedded bus: publish and subscribe within one process.

It keeps the specification of a simple event system (book 2.5). A subscriber is notified

    only about what matches one of its active subscriptions,
    only about what was published,
    about each notification at most once,
    and about every notification that was published while it was subscribed;

and, with advertisements (book 2.5.4), about nothing that its producer had not advertised.

**Order.** All publications stand in one order, whichever threads they come from, and every subscriber is
notified in that order. A publication is matched when it is published: a later subscription does not see it.
It is handed over by the publishing thread, unless some thread is handing over already: then that one does it.
So a callback may publish, subscribe and unsubscribe; what it publishes is delivered to everybody after what
is being delivered, and no thread waits for another. `flush` waits until all is handed over.

**Ordered.** With `order="ordered"`, notifications are held until the watermark has passed them, and then
delivered in the one total order of all runtimes (`fairlead.model.order`): the same input gives the same
deliveries, to the byte, in whatever order it was published, provided that the disorder stays within the
allowed lateness. What comes later goes to `on_late`. A subscription holds for order keys, from the watermark on.

**Patterns.** `detect` asks for several notifications together: for composite events in the total order of what is
published, or for the relations of a fair subscription (`fairlead.correlation`). Patterns wait for the watermark,
on a live bus too, where all else is delivered at once. Answers are notifications. Those of a pattern with a name
are published: behind what was published at the instant where they end.

**Subscribers.** Subscriptions made under one `subscriber` name are one subscriber's: they share a receiver
(a callback or a queue), and a notification that matches several of them is delivered once, with their ids.
A subscription without that name is a subscriber of its own.

**Log.** With `log="directory"`, what is published is in a log before anybody is notified of it. Subscriptions may
begin in the past, and a `durable` subscriber goes on where it was, in a later process, too.
"""

from __future__ import annotations

from fairlead.bus.bus import Bus
from fairlead.bus.handles import Advertisement, Detection, Subscription
from fairlead.bus.history import DurableStatus, LogFile
from fairlead.bus.receivers import Delivery
from fairlead.bus.statistics import BusStatistics
from fairlead.errors import BusClosed, NotAdvertised, SubscriptionEnded, SubscriptionRefused

__all__ = [
    "Advertisement",
    "Bus",
    "BusClosed",
    "BusStatistics",
    "Delivery",
    "Detection",
    "DurableStatus",
    "LogFile",
    "NotAdvertised",
    "Subscription",
    "SubscriptionEnded",
    "SubscriptionRefused",
]
