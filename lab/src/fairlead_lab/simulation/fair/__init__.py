"""Fair correlation in the simulator.

network     processes in virtual time, with crashes, and with the time that work takes
sharing     clients that are fed the same compute it once
scenario    the evaluation as a file says it
evaluation  throughput and latency of the ways to establish an order
plots       the same as curves
"""

from fairlead_lab.simulation.fair.evaluation import FairCell, FairResults, FairRow, evaluate, fair_cells
from fairlead_lab.simulation.fair.network import FREE, Costs, FairRecord, FairSimulation, OrderedEvent
from fairlead_lab.simulation.fair.scenario import SYSTEMS, FairScenario, is_fair

__all__ = [
    "FREE",
    "SYSTEMS",
    "Costs",
    "FairCell",
    "FairRecord",
    "FairResults",
    "FairRow",
    "FairScenario",
    "FairSimulation",
    "OrderedEvent",
    "evaluate",
    "fair_cells",
    "is_fair",
]
