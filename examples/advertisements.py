"""Advertisements: a producer declares what it will publish, and may publish nothing else.

sensor-1 may publish: celsius in [-40, 60]
21.5
not delivered: 400
"""

import fairlead as fl

bus = fl.Bus()
bus.advertise("celsius in [-40, 60]", producer="sensor-1")
for advertisement in bus.advertisements:
    print(f"{advertisement.producer} may publish: {advertisement.filter}")

bus.subscribe("exists celsius", lambda reading: print(reading.get("celsius")))
bus.publish({"producer": "sensor-1", "celsius": 21.5})
try:
    bus.publish({"producer": "sensor-1", "celsius": 400})
except fl.NotAdvertised:
    print("not delivered: 400")
