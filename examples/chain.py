"""A callback that publishes: for every subscriber, its publication follows the notification it was called with.

log: order 1
log: order 2
log: invoice 1
log: invoice 2
"""

import fairlead as fl

bus = fl.Bus()


def bill(order: fl.Notification) -> None:
    bus.publish({"kind": "invoice", "number": order.get("number")})


def log(notification: fl.Notification) -> None:
    print("log:", notification.get("kind"), notification.get("number"))
    if notification.get("kind") == "order" and notification.get("number") == 1:
        bus.publish({"kind": "order", "number": 2})


bus.subscribe("exists kind", log)
bus.subscribe('kind = "order"', bill)
bus.publish({"kind": "order", "number": 1})
