"""The tests of benchmarks share `bench_reports.py`, which pytest would not find."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
