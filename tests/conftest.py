"""What all tests share: Hypothesis's profiles, the `soak` marker, and golden files.

`HYPOTHESIS_PROFILE=default` gives the same examples on every run, so that a red test is red for everyone;
`soak` draws many at random, and remembers in `.hypothesis/` what failed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

GOLDEN = Path(__file__).parent / "golden"
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
SHARING = ("tests/spark/test_kafka.py", "tests/spark/test_kill.py", "tests/spark/test_sample.py")
"""Files whose tests share something that takes long to make."""

# No limits of time, neither `deadline` nor `too_slow`: a busy machine is not a failing test.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", UNTIMED, max_examples=100, derandomize=True)
settings.register_profile("soak", UNTIMED, max_examples=5_000, derandomize=False, print_blob=True)
settings.load_profile(PROFILE)

# Tests start Spark often, each time for little: the quick compiler, with room for what it makes, and the plain
# collector halve what that takes. A variable, because child processes are to have it too.
JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Xms1g"
os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden", action="store_true", help="write the golden files anew, run only their tests"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def wanted(item: pytest.Item) -> bool:
        if config.getoption("--golden"):
            return not {"golden", "generated"}.isdisjoint(getattr(item, "fixturenames", ()))
        return PROFILE == "soak" or item.get_closest_marker("soak") is None

    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = [item for item in items if wanted(item)]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each test where there is room, but on one worker what builds on one another, or shares what takes long."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith("tests/docs/"):
                return nodeid.rpartition(":")[0]  # the examples of a page
            if "over_connect" in nodeid:
                return "connect"
            return next((each for each in SHARING if nodeid.startswith(each)), nodeid)

    return Together(config, log)


@pytest.fixture
def generated(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """`generated(path, text)`: the text equals the file; with `--golden` it becomes that file."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        where = path.relative_to(GOLDEN.parents[1])
        assert path.exists(), f"{where} is missing: `make golden` writes it"
        assert text == path.read_text(encoding="utf-8"), (
            f"{where} is not current: `make golden` writes it anew"
        )

    return compare


@pytest.fixture
def golden(generated: Callable[[Path, str], None]) -> Callable[[str, str], None]:
    """`golden(name, text)`: the text equals `tests/golden/NAME`; with `--golden` it becomes that file."""
    return lambda name, text: generated(GOLDEN / name, text)
