"""Composite events in a network of brokers: detectors that are clients of brokers, and move (book 7.5).

messages    heartbeats, probes and states: what they tell each other over the notification service
stability   detection policies: when an event may be consumed
mobile      detectors and sources as state machines
policies    distribution policies: the design space, and Table 7.1
directory   from subscriptions to actions: instantiate, delegate, migrate, destroy
"""

from fairlead_lab.broker.detection.directory import (
    Action,
    Delegate,
    Destroy,
    Directory,
    Instantiate,
    Migrate,
    Publisher,
)
from fairlead_lab.broker.detection.mobile import MobileDetector, Phase, Source, Specification
from fairlead_lab.broker.detection.policies import (
    CENTRALISED,
    POLICIES,
    TABLE_7_1,
    Decomposition,
    DistributionPolicy,
    Locality,
    Reuse,
)
from fairlead_lab.broker.detection.stability import Consume, DetectionPolicy, Stability

__all__ = [
    "CENTRALISED",
    "POLICIES",
    "TABLE_7_1",
    "Action",
    "Consume",
    "Decomposition",
    "Delegate",
    "Destroy",
    "DetectionPolicy",
    "Directory",
    "DistributionPolicy",
    "Instantiate",
    "Locality",
    "Migrate",
    "MobileDetector",
    "Phase",
    "Publisher",
    "Reuse",
    "Source",
    "Specification",
    "Stability",
]
