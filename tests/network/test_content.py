"""Over brokers and sockets content is delivered as it was published: to the letter of its numbers and names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairlead.ingest import Rejection, records
from fairlead.network import sync

PATIENCE_S = 20.0
TEXTS = (
    '{"n": 0, "location": [52.5, 13.4], "readings": [3, 1, 3, 2]}',
    '{"n": 1, "price": 10.10, "size": 1e3, "none": -0, "exact": 0.12345678901234567890, "plain": 10.5}',
    '{"time": "2026-03-02T10:00:00.250+01:00", "n": 2, "http.method": "GET", "a": {"z": 1, "b": [[2, 1]]}}',
    '{"n": 3, "long": 123456789012345678901234567890, "t": {"$time": "2026-03-02T10:00:00+01:00"}}',
)


def read(text: str) -> Any:
    """All that a JSON text says: names in their order, numbers as they are spelled."""
    return json.loads(
        text,
        object_pairs_hook=tuple,
        parse_float=lambda text: ("number", text),
        parse_int=lambda text: ("number", text),
    )


def test_content_passes_two_brokers_and_a_log_as_it_was_published(brokers: Any, tmp_path: Path) -> None:
    near = brokers.start("near", tmp_path)
    far = brokers.start("far", tmp_path, links=(near.url,))
    with (
        sync.connect(near.url, name="desk") as producer,
        sync.connect(far.url) as consumer,
        consumer.subscribe("n >= 0", durable="d") as durable,
    ):
        for text in TEXTS:
            found = records.read(text)
            assert not isinstance(found, Rejection)
            producer.publish(found)
        for text in TEXTS:
            assert read(durable.get(PATIENCE_S).to_json()) == read(text)
        producer.publish({"n": 4, "tags": ["b", "a", "b"], "http.method": "GET"})
        notification = durable.get(PATIENCE_S)
        assert notification.to_json() == '{"n":4,"tags":["b","a","b"],"http.method":"GET"}'
        assert list(notification.get("tags")) == ["b", "a", "b"]
