"""Detection of composite events in the simulator.

network     publishers, subscribers and mobile detectors as clients of simulated brokers
scenario    a comparison of policies as a file says it
runs        traffic, delay, load, errors and survival of each
plots       the same as bars
"""

from fairlead_lab.simulation.detection.network import CompositeReceived, DetectionNetwork
from fairlead_lab.simulation.detection.runs import (
    DetectionResults,
    DetectionRow,
    compare_detection,
    detect_in_order,
)
from fairlead_lab.simulation.detection.scenario import DetectionScenario, is_detection

__all__ = [
    "CompositeReceived",
    "DetectionNetwork",
    "DetectionResults",
    "DetectionRow",
    "DetectionScenario",
    "compare_detection",
    "detect_in_order",
    "is_detection",
]
