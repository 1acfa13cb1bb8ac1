"""Chaos: brokers are killed, paused and cut off while clients publish and listen, and then the books are balanced.

    accounts    what clients did and saw, and the arithmetic of it
    schedule    what is broken when, by a seed
    proxy       between any two ends: cuts, holds, delays, tears
    processes   brokers that can be killed, and lose what was not synced
    clients     those who publish and listen meanwhile
    harness     a round of it

`python -m fairlead_lab.chaos` runs rounds and writes the table of docs/reliability.md.
"""

from fairlead_lab.chaos.accounts import SPECIFICATIONS, Accounts, Tally

__all__ = ["SPECIFICATIONS", "Accounts", "Tally"]
