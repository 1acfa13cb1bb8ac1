"""MQTT 3.1.1 and 5 in front of a broker: every client of MQTT is a client.

The law: a publication over MQTT is acknowledged as any other, when its record is synced, and a subscriber over
MQTT receives what any other client receives.

    serving      the listener, on the broker's own event loop
    connection   one connection: packets on the one side, frames of the broker on the other
    sessions     what a client has for longer than a connection
    flow         packet ids and acknowledgements: a state machine without input and output
    mapping      topics and payloads as notifications, and back
    codec        packets as bytes

A connection acts for the principal of its user name and password, token or certificate, by the broker's access
policy. Without a policy every program that reaches the port can publish and subscribe.
"""

from fairlead.mqtt.serving import Listener, Serving, serve

__all__ = ["Listener", "Serving", "serve"]
