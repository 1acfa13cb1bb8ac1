"""The demo's sample: the same seed writes the same bytes, and what it says of them is so."""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from fairlead.correlation.patterns import Detector, Occurrence
from fairlead.correlation.patterns import parse as parse_pattern
from fairlead.filters import parse
from fairlead.ingest import Rejection
from fairlead.ingest.records import read
from fairlead.matching import engine_named
from fairlead.model import Notification
from fairlead.model.order import END, OrderKey, causes_of
from fairlead.spark.config import Config
from fairlead.spark.sample import BREAKS, DAY, FILES, OPENING, SUBSCRIPTIONS_MAX, Sample, write_sample

SECOND = 1_000_000
LATENESS = 5 * SECOND


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return write_sample(tmp_path_factory.mktemp("sample"), events=20_000, subscriptions=2_000)


@pytest.fixture(scope="module")
def arrivals(sample: Sample) -> list[Notification | Rejection]:
    """Every line, in the order of arrival."""
    files = sorted((sample.directory / "events").iterdir())
    assert len(files) == FILES
    return [read(line) for file in files for line in file.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def readable(arrivals: list[Notification | Rejection]) -> list[Notification]:
    return [each for each in arrivals if isinstance(each, Notification)]


@pytest.fixture(scope="module")
def subscriptions(sample: Sample) -> list[dict[str, str]]:
    return [json.loads(line) for line in (sample.directory / "subscriptions.jsonl").read_text().splitlines()]


def digest(directory: Path) -> str:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    content = b"".join(f"{path.relative_to(directory)} ".encode() + path.read_bytes() for path in files)
    return sha256(content).hexdigest()


def test_the_same_seed_writes_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("one", 5), ("same", 5), ("other", 6)):
        write_sample(tmp_path / name, events=500, subscriptions=50, seed=seed)
    assert digest(tmp_path / "one") == digest(tmp_path / "same") != digest(tmp_path / "other")


def test_writing_it_again_replaces_it(tmp_path: Path) -> None:
    write_sample(tmp_path, events=500, subscriptions=50, seed=5)
    first = digest(tmp_path)
    write_sample(tmp_path, events=300, subscriptions=30, seed=5)
    write_sample(tmp_path, events=500, subscriptions=50, seed=5)
    assert digest(tmp_path) == first


@pytest.mark.parametrize(("events", "subscriptions"), [(0, 0), (1, 1), (37, 4), (200, 7)])
def test_small_ones_are_whole_as_well(tmp_path: Path, events: int, subscriptions: int) -> None:
    sample = write_sample(tmp_path, events=events, subscriptions=subscriptions)
    lines = b"".join(file.read_bytes() for file in (tmp_path / "events").iterdir()).splitlines()
    assert len(lines) == events + sample.duplicates + sample.broken
    assert len((tmp_path / "subscriptions.jsonl").read_text().splitlines()) == subscriptions


def test_it_holds_as_many_events_duplicates_and_broken_lines_as_it_says(
    sample: Sample, arrivals: list[Notification | Rejection], readable: list[Notification]
) -> None:
    identities = Counter((each.producer, each.id) for each in readable)
    assert (sample.events, sample.duplicates, sample.broken) == (20_000, 20, 20)
    assert len(identities) == sample.events
    assert sum(count - 1 for count in identities.values()) == sample.duplicates
    assert len(arrivals) - len(readable) == sample.broken


@pytest.mark.parametrize("number", range(len(BREAKS)))
def test_no_broken_line_can_be_read(number: int, sample: Sample) -> None:
    lines = (sample.directory / "events" / "07.jsonl").read_bytes().splitlines()
    good = [line for line in lines if isinstance(read(line), Notification)]
    assert all(isinstance(read(BREAKS[number](line)), Rejection) for line in good)


def test_disorder_stays_within_two_seconds_but_for_the_late_ones(
    sample: Sample, readable: list[Notification]
) -> None:
    newest, behind = 0, []
    for each in readable:
        assert each.time is not None
        assert OPENING - SECOND <= each.time.microseconds < OPENING + DAY
        newest = max(newest, each.time.microseconds)
        behind.append(newest - each.time.microseconds)
    again = sample.duplicates  # what comes again comes up to a second later
    assert sum(delay > 2 * SECOND for delay in behind) <= sample.late + again
    assert 0 < sum(delay > LATENESS for delay in behind) <= sample.late
    assert sum(delay > 0 for delay in behind) > len(behind) / 20, "there is disorder to mend"


def test_each_producer_numbers_what_it_sends(readable: list[Notification]) -> None:
    numbers: dict[str, set[int | None]] = {}
    for each in readable:
        numbers.setdefault(each.producer, set()).add(each.sequence)
    assert len(numbers) == 9
    assert all(found == set(range(1, len(found) + 1)) for found in numbers.values())


def test_a_trade_names_an_order_that_was_sent_before_it(readable: list[Notification]) -> None:
    by_identity = {(each.producer, each.id): each for each in readable}
    trades = [each for each in readable if each.get("type") == "Trade"]
    assert trades
    for trade in trades:
        [cause] = causes_of(trade)
        order = by_identity[cause]
        assert order.get("type") == "Order"
        assert order.get("symbol") == trade.get("symbol")
        assert order.sequence is not None
        assert trade.sequence is not None
        assert order.sequence < trade.sequence


def test_people_have_one_to_twenty_subscriptions(sample: Sample, subscriptions: list[dict[str, str]]) -> None:
    owned = Counter(each["subscriber"] for each in subscriptions)
    assert len({each["id"] for each in subscriptions}) == len(subscriptions) == 2_000
    assert len(owned) == sample.subscribers == 400
    assert max(owned.values()) <= SUBSCRIPTIONS_MAX
    assert len(set(owned.values())) > 5, "some want more than others"


def test_most_subscriptions_match_something_and_the_hopeless_ones_nothing(
    sample: Sample, readable: list[Notification], subscriptions: list[dict[str, str]]
) -> None:
    engine = engine_named("counting")
    for each in subscriptions[:300]:
        engine.add(each["id"], parse(each["filter"]))
    for each in subscriptions:
        parse(each["filter"])
    matched = Counter(id for each in readable[::4] for id in engine.match(each))
    assert sample.never > 20
    assert 100 < len(matched) < 300
    assert all(not _is_hopeless(each["filter"]) for each in subscriptions if each["id"] in matched)


def _is_hopeless(text: str) -> bool:
    foreign = tuple(f'issuer = "{country}"' for country in ("AR", "CH", "GR"))
    return any(word in text for word in (".OLD", "Auction", "sports/", "superset", *foreign))


def test_each_pattern_finds_something_in_a_day_of_the_demo_s_size(tmp_path: Path) -> None:
    write_sample(tmp_path, events=10_000, subscriptions=1)
    files = sorted((tmp_path / "events").iterdir())
    lines = (read(line) for file in files for line in file.read_bytes().splitlines())
    detector = Detector(engine_named("columnar"))
    for line in (tmp_path / "patterns.jsonl").read_text().splitlines():
        row = json.loads(line)
        detector.add(row["id"], parse_pattern(row["pattern"]))
    for each in {(each.producer, each.id): each for each in lines if isinstance(each, Notification)}.values():
        detector.feed(Occurrence.of(each, OrderKey.of(each)))
    found = Counter(id for each in detector.advance(END) for id in each.ids)
    assert found.keys() == {"p-slide", "p-rally", "p-silent"}
    assert max(found.values()) < 200, "a pattern picks out what is rare"


def test_the_pipeline_is_one_that_can_run(sample: Sample) -> None:
    config = Config.read(sample.pipeline)
    assert config.mode == "stream"
    assert config.order.lateness_us == LATENESS
    assert config.events[0].path == str(sample.directory / "events")
    assert config.subscriptions.path == str(sample.directory / "subscriptions.jsonl")
    assert config.patterns is not None
    assert config.patterns.path == str(sample.directory / "patterns.jsonl")
