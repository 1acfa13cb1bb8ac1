"""The tests of the laws share `laws.py`, which pytest's import mode would not find."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
