"""The laboratory's view of the console: a scenario of the simulator, played.

playing    a run with faults, and its recording
simulator  the view
"""
