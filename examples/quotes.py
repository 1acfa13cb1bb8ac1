"""Subscribe with a filter, publish records, read the matches.

IBM 101.5
SAP 140
"""

import fairlead as fl

bus = fl.Bus()
with bus.subscribe('symbol in {"IBM", "SAP"} and price > 100') as quotes:
    bus.publish({"symbol": "IBM", "price": 101.5})
    bus.publish({"symbol": "IBM", "price": 99})
    bus.publish({"symbol": "SUN", "price": 300})
    bus.publish({"symbol": "SAP", "price": 140})

for quote in quotes:  # the subscription has ended: the loop ends when all is read
    print(quote.get("symbol"), quote.get("price"))
