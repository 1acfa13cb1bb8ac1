"""Writes the answers of an engine as JSON lines: `python -m fairlead_lab.dialects eventbridge`."""

from __future__ import annotations

import argparse
import json
import sys
from random import Random

from fairlead_lab.dialects import ENGINES, answers, drawn, picked

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("dialect", choices=sorted(ENGINES))
parser.add_argument("--rows", type=int, default=500, help="how many lines are drawn at random (default: 500)")
parser.add_argument("--seed", type=int, default=1)
arguments = parser.parse_args()

cases = drawn(arguments.dialect, Random(arguments.seed), arguments.rows * 40)
given = answers(ENGINES[arguments.dialect], [*cases, *picked(arguments.dialect)])
rows = list(zip([*cases, *picked(arguments.dialect)], given, strict=True))
chosen = [
    row
    for wanted in (True, False)
    for row in [each for each in rows[: len(cases)] if each[1] is wanted][: arguments.rows // 2]
]
for case, matches in [*chosen, *rows[len(cases) :]]:
    line = {"text": case.text, "event": case.event, "matches": matches}
    sys.stdout.write(f"{json.dumps(line, ensure_ascii=False, separators=(',', ':'))}\n")
