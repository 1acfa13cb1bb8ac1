"""`/metrics` is in Prometheus' text format, follows its conventions, and has a bounded number of lines."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.console.metrics import COUNTERS, Requests, exposition
from fairlead.network.histograms import Histogram
from fairlead.network.sessions import Counters

LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')
SAMPLE = re.compile(
    rf"(?P<name>[a-z_]+)(?:\{{(?P<labels>{LABEL.pattern}(?:,{LABEL.pattern})*)\}})? (?P<value>-?[0-9.e+-]+)"
)


def parsed(text: str) -> dict[str, tuple[str, dict[tuple[tuple[str, str], ...], float]]]:
    """Kind and samples of each metric; AssertionError where the format is not kept."""
    assert text.endswith("\n")
    found: dict[str, tuple[str, dict[tuple[tuple[str, str], ...], float]]] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in found, "a metric's lines stand together"
            assert len(line.split(" ", 3)[3]) > 5
            hash_, type_, typed, kind = next(lines).split(" ")
            assert (hash_, type_, typed) == ("#", "TYPE", name)
            found[name] = (kind, {})
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample is not None, line
        family = sample["name"]
        if family not in found:  # of a histogram
            family = family.rpartition("_")[0]
            assert found[family][0] == "histogram"
        kind, samples = found[family]
        labels = tuple(LABEL.findall(sample["labels"] or ""))
        if kind == "histogram":
            labels = (("", sample["name"].rpartition("_")[2]), *labels)
        assert labels not in samples
        samples[labels] = float(sample["value"])
    return found


def test_the_format_and_the_conventions_are_kept(broker: Any) -> None:
    broker.publish({"a": 1})
    answer = broker.ask("GET", "/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = parsed(answer.body.decode())
    for name, (kind, samples) in found.items():
        assert name.startswith(("fairlead_", "process_"))
        assert name.endswith("_total") == (kind == "counter")
        assert kind in ("counter", "gauge", "histogram")
        assert all(
            {label for label, _ in labels}
            <= {"", "le", "neighbour", "reason", "since", "code", "method", "route", "version"}
            for labels in samples
        )
    assert found["fairlead_published_total"][1][()] >= 1
    assert found["fairlead_log_bytes"][1][()] > 0
    assert found["process_resident_memory_bytes"][1][()] > 1 << 20
    assert found["process_cpu_seconds_total"][1][()] > 0
    assert found["fairlead_disk_free_bytes"][1][()] > 0
    for each in ("fairlead_log_sync_seconds", "fairlead_acknowledgement_seconds"):
        samples = found[each][1]
        counts = [value for labels, value in samples.items() if labels[0] == ("", "bucket")]
        assert counts == sorted(counts)
        assert counts[-1] == samples[(("", "count"),)] > 0
        assert samples[(("", "sum"),)] > 0
    answered = found["fairlead_http_requests_total"][1]
    assert answered[("code", "202"), ("method", "POST"), ("route", "/events")] >= 1


def test_everything_that_a_node_counts_is_told() -> None:
    assert set(COUNTERS) == set(Counters.__slots__)


def test_paths_methods_clients_and_filters_make_no_lines_of_their_own(broker: Any) -> None:
    with broker.events("true"):
        before = len(broker.ask("GET", "/metrics").body.splitlines())
        for n in range(20):
            broker.ask("GET", f"/nowhere/{n}")
            broker.ask(f"METHOD{n}", "/status")
        with broker.events("a = 1"), broker.socket("b = 2"):
            text = broker.ask("GET", "/metrics").body.decode()
    assert len(text.splitlines()) <= before + 4
    assert 'route="other"' in text


def test_streams_are_counted_while_they_are_open(broker: Any) -> None:
    def streams() -> float:
        return parsed(broker.ask("GET", "/metrics").body.decode())["fairlead_http_streams"][1][()]

    broker.until(lambda: broker.serving.gateway.requests.streams == 0)
    with broker.events("true"), broker.socket("true"):
        assert streams() == 2
    broker.until(lambda: broker.serving.gateway.requests.streams == 0)
    assert streams() == 0


def test_a_neighbour_may_be_called_anything() -> None:
    class Server:
        sync_seconds = acknowledgement_seconds = Histogram()

        class settings:
            data = None

        class node:
            @staticmethod
            def status() -> dict[str, Any]:
                link = {"connected": True, "behind": 3, "in_flight": 1, "reason": "gone", "since": "now"}
                return {
                    "counters": dict.fromkeys(COUNTERS, 0),
                    "clients": 0,
                    "queued": 3,
                    "queued_bytes": 99,
                    "memory": {"budget": 10, "used": 5, "peak": 7, "ended": 1},
                    "draining": True,
                    "blocking": ["slow"],
                    "blocked": 2,
                    "subscriptions": 0,
                    "routing_entries": 0,
                    "durables": {
                        "d": {"connected": True, "behind": 9},
                        "e": {"connected": False, "behind": 2},
                    },
                    "log": None,
                    "links": {'a "b"\\\n': link},
                }

    found = parsed(exposition(Server(), Requests()))  # type: ignore[arg-type]
    assert found["fairlead_link_behind_records"][1] == {(("neighbour", r"a \"b\"\\\n"),): 3}
    assert found["fairlead_blocked_connections"][1][()] == 2
    assert found["fairlead_queued_bytes"][1][()] == 99
    assert found["fairlead_memory_ended_total"][1][()] == 1
    [down] = found["fairlead_link_down_info"][1]
    assert down[1:] == (("reason", "gone"), ("since", "now"))
    assert found["fairlead_durable_behind_records_max"][1][()] == 9
    assert found["fairlead_durable_subscribers_connected"][1][()] == 1
    assert "fairlead_log_bytes" not in found


@given(st.lists(st.floats(0, 20), max_size=30))
def test_a_histogram_counts_what_is_at_most_each_bound(observed: list[float]) -> None:
    histogram = Histogram((0.5, 1.0, 10.0))
    for each in observed:
        histogram.observe(each)
    assert histogram.cumulative == [
        (bound, sum(each <= bound for each in observed)) for bound in (0.5, 1.0, 10.0)
    ]
    assert histogram.count == len(observed)
    assert histogram.sum == pytest.approx(sum(observed))
