"""Filters as values: compare them, merge them, and explain why one does not match.

True
overlaps
price in [20, 40]
does not match: price is 9, not > 10
"""

import fairlead as fl

print(fl.covers(fl.parse("price > 10"), fl.parse("price in [20, 30]")))
print(fl.relate(fl.parse("price > 10"), fl.parse("price < 20")).name)

merger = fl.merge([fl.parse("price in [20, 30]"), fl.parse("price in [25, 40]")])
assert merger is not None
print(merger.filter)

print(fl.explain(fl.parse("price > 10"), fl.Notification.of({"price": 9})).verdict)
