"""Delivery: who is notified about what, once, and in which order.

deliveries   one delivery per subscriber and notification, and its one byte form
watermark    how far the stream has come
ordered      hold until the watermark, release in the total order; what is late goes to its own channel
fifo         hand over at once, in each producer's own order
validity     for which part of the order a subscription holds

In `ordered` mode all runtimes give the same bytes; in `live` mode the same set per subscriber and the same
order per producer.
"""

from fairlead.delivery.deliveries import Delivery, deliveries_of
from fairlead.delivery.fifo import ProducerQueues
from fairlead.delivery.ordered import Arrival, Late, OrderedQueue
from fairlead.delivery.validity import Validity
from fairlead.delivery.watermark import Watermark

__all__ = [
    "Arrival",
    "Delivery",
    "Late",
    "OrderedQueue",
    "ProducerQueues",
    "Validity",
    "Watermark",
    "deliveries_of",
]
