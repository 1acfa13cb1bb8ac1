"""Writes what pySigma makes of correlations of Sigma.

    python -m fairlead_lab.dialects.pysigma > tests/corpus/pysigma.json

It takes pySigma, which the tests do without: they read the file. Correlations are drawn at random from a seed. The
answer is null where pySigma refuses one.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from random import Random
from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # it has no types of its own
from sigma.collection import SigmaCollection  # type: ignore[import-not-found]
from sigma.exceptions import SigmaError  # type: ignore[import-not-found]

__all__ = ["main"]

CASES: Final = 200
ID: Final = "4f1d0c80-6d2b-4a58-9a0d-5a6f0a1b2c01"
SELECTIONS: Final = {
    "failed": {"EventID": 4625},
    "passed": {"EventID": 4624},
    "privileged": {"Privileges|contains": "Debug"},
}
RULES: Final = [
    {
        "title": name,
        "name": name,
        **({"id": ID} if name == "failed" else {}),
        "logsource": {"product": "windows"},
        "detection": {"selection": selection, "condition": "selection"},
    }
    for name, selection in SELECTIONS.items()
]
TYPES: Final = ("event_count", "value_count", "temporal", "temporal_ordered", "unheard")


def _drawn(random: Random) -> dict[str, Any]:
    """A correlation at random; some are wrong."""
    type, named = random.choice(TYPES), [*SELECTIONS, *([ID] if random.random() < 0.2 else [])]
    rules = random.sample(named, random.randrange(1, 4))
    made: dict[str, Any] = {
        "type": type,
        "rules": [each for each in rules if each != ID or "failed" not in rules],
        "timespan": random.choice(["5m", "30s", "2h", "1d", "3w", "5x", "m"]),
    }
    if by := random.sample(["user", "client"], random.randrange(3)):
        made["group-by"] = by
    if type.endswith("count"):
        made["condition"] = {random.choice(["gte", "gt", "gte", "over"]): random.randrange(1, 6)}
        if type == "value_count" and random.random() < 0.9:
            made["condition"]["field"] = "host"
    return made


def _answer(correlation: dict[str, Any]) -> dict[str, Any] | None:
    """The parts of a correlation that pySigma reads."""
    text = yaml.safe_dump_all([*RULES, {"title": "found", "name": "found", "correlation": correlation}])
    try:
        [rule] = [each for each in SigmaCollection.from_yaml(text).rules if hasattr(each, "timespan")]
    except SigmaError:
        return None
    answer = {
        "type": rule.type.name.lower(),
        "rules": [each.reference for each in rule.rules],
        "seconds": rule.timespan.seconds,
        "group_by": list(rule.group_by or []),
    }
    if rule.type.name.endswith("COUNT"):
        condition = rule.condition
        answer |= {"op": condition.op.name.lower(), "count": condition.count, "field": condition.fieldref}
    return answer


def main() -> None:
    """Write the rules, and each correlation with its answer."""
    random = Random(7)
    cases: list[dict[str, Any]] = []
    while len(cases) < CASES:
        if (drawn := _drawn(random)) not in [each["correlation"] for each in cases]:
            cases.append({"correlation": drawn, "answer": _answer(drawn)})
    made = {"of": f"pySigma {version('pysigma')}", "rules": RULES, "cases": cases}
    print(json.dumps(made, separators=(",", ":")))


if __name__ == "__main__":
    main()
