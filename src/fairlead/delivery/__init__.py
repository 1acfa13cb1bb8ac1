"""Delivery: each subscriber receives each matching notification once, in a defined order.

deliveries   one delivery per subscriber and notification, and its one byte form
watermark    the time up to which a stream is complete
ordered      buffer until the watermark, release in the total order; late notifications go to their own channel
validity     the interval of order keys for which a subscription is valid

In `ordered` mode all runtimes give the same bytes; in `live` mode the same set per subscriber and the same
order per producer.
"""

from fairlead.delivery.deliveries import DeliveryRecord, deliveries_of
from fairlead.delivery.ordered import Arrival, Late, OrderedQueue
from fairlead.delivery.validity import Validity
from fairlead.delivery.watermark import Watermark

__all__ = [
    "Arrival",
    "DeliveryRecord",
    "Late",
    "OrderedQueue",
    "Validity",
    "Watermark",
    "deliveries_of",
]
