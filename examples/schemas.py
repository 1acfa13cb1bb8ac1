"""A schema: types with subtypes, and attributes whose values are checked on publication.

StockQuote 20
refused: 20.5
"""

import fairlead as fl

schema = fl.Schema.parse(
    """
    abstract type Quote
    type StockQuote: Quote
    type News
    price: int
    """
)
bus = fl.Bus(schema)
bus.subscribe("type is Quote", lambda quote: print(quote.get("type"), quote.get("price")))
bus.publish({"type": "StockQuote", "price": 20})
bus.publish({"type": "News", "topic": "weather"})
try:
    bus.publish({"type": "StockQuote", "price": 20.5})
except fl.ValueRefused:
    print("refused: 20.5")
