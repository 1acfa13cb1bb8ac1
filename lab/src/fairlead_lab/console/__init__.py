"""The laboratory's view of the console: a scenario of the simulator, played.

playing    a run with faults, and its recording
simulator  the view
"""

from fairlead_lab.console.playing import Broken, Damaged, Play, Recording
from fairlead_lab.console.simulator import part

__all__ = ["Broken", "Damaged", "Play", "Recording", "part"]
