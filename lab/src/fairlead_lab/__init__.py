"""Fairlead's laboratory: what the project experiments, measures and checks with, apart from what users run.

A module here has the path of the part of `fairlead` that it belongs to. The laboratory imports the product, the
product never imports the laboratory; commands and engines are found through entry points. A module graduates into
the product when a runtime calls it.

simulation    brokers in virtual time: scenarios, faults, metrics, plots
bench         measurements, side by side with alternatives
chaos         brokers as processes under faults, with accounts of what was lost
matching      engines of the literature, beside the product's `brute` and `columnar`
routing       algorithms that only the simulator drives: cyclic, multicast, gossip, Bloom filters of links
overlay       the ring, rendezvous nodes
broker        brokers of the simulator: rendezvous, the order of fair correlation, mobile detectors
correlation   definitions as programs, decomposition of patterns
audit         specifications as temporal formulas, the specification of routing
spark         the sample and the showcase of the demo, the baseline, sweeps of simulations
plotting      what the plots share
testing       worlds, nodes, a disk that loses its power: what the project's own tests are made of
cli           `fairlead simulate`, `fairlead bench`, `fairlead demo`
"""

from __future__ import annotations

__all__: list[str] = []
