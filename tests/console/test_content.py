"""Over HTTP, too, content is delivered as it was published: to the letter of its numbers and names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead.console.cloudevents import BATCH, STRUCTURED


def read(text: str | bytes) -> Any:
    """All that a JSON text says: names in their order, numbers as they are spelled."""
    return json.loads(
        text,
        object_pairs_hook=tuple,
        parse_float=lambda text: ("number", text),
        parse_int=lambda text: ("number", text),
    )


EVENTS = [
    f'{{"specversion": "1.0", "id": "{id}", "source": "/s", "type": "as-published", {rest}}}'
    for id, rest in enumerate(
        (
            '"data": {"location": [52.5, 13.4], "readings": [3, 1, 3, 2], "price": 10.10, "size": 1e3}',
            '"sequence": "0012", "time": "2026-03-02T10:00:00.250+01:00", "data": {"a.b": 1, "a": {"c": -0}}',
            '"data_base64": "3q2+7w=="',
            '"data": 0.12345678901234567890, "subject": "x"',
        )
    )
]
RECORD = '{"kind": "plain", "z": [2, 1, 2], "price": 10.10, "http.status": 2e2, "id": "r1", "producer": "p"}'


def test_events_and_records_come_out_as_they_went_in(broker: Any) -> None:
    headers = {"Content-Type": BATCH}
    with broker.events('type = "as-published"') as stream, broker.socket('type = "as-published"') as socket:
        answer = broker.ask("POST", "/events", f"[{', '.join(EVENTS)}]", headers)
        assert answer.status < 300, answer.body
        for event in EVENTS:
            assert read(stream.next()["data"]) == read(event)
            opcode, payload = socket.frame()
            assert opcode == 1
            assert dict(read(payload))["event"] == read(event)


@pytest.mark.parametrize("media", [STRUCTURED, "application/json"])
def test_a_record_is_the_data_of_its_event(broker: Any, media: str) -> None:
    text = RECORD if media != STRUCTURED else EVENTS[0].replace('"0"', '"once more"')
    filter = 'kind = "plain"' if media != STRUCTURED else 'id = "once more"'
    with broker.events(filter) as stream:
        assert broker.ask("POST", "/events", text, {"Content-Type": media}).status < 300
        delivered = read(stream.next()["data"])
        assert (dict(delivered)["data"] if media != STRUCTURED else delivered) == read(text)
