"""Overlays of brokers in one process and in virtual time: the same seed is the same run, on any machine.

network      brokers, links and the time
delays       how long messages take
faults       what can go wrong
scenario     a run as a file says it
algorithms   the ways to route that a scenario can name
workload     what clients do, and what they must get for it
metrics      what it costs
runs         from a scenario to rows of figures, and comparisons
plots        the rows as curves
tracing      a run as a trace that can be audited
checking     every state of a run against the specification
forests      the same where there are several trees
"""

from fairlead_lab.simulation.delays import Delay
from fairlead_lab.simulation.faults import NO_FAULTS, Crash, Faults, Partition
from fairlead_lab.simulation.metrics import Metrics, Row
from fairlead_lab.simulation.network import Observer, Simulation
from fairlead_lab.simulation.runs import Cell, Results, cells_of, compare, run
from fairlead_lab.simulation.scenario import Scenario

__all__ = [
    "NO_FAULTS",
    "Cell",
    "Crash",
    "Delay",
    "Faults",
    "Metrics",
    "Observer",
    "Partition",
    "Results",
    "Row",
    "Scenario",
    "Simulation",
    "cells_of",
    "compare",
    "run",
]
