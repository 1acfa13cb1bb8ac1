"""`POST /requests`: replies to this request, or why there are none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead import sync
from fairlead.delivery import requesting
from fairlead.model import Notification

RECORD = "application/json"


def ask(broker: Any, query: str = "timeout=20s", **fields: Any) -> Any:
    body = json.dumps({"type": "price?", **fields})
    return broker.ask("POST", f"/requests?{query}", body, {"Content-Type": RECORD})


def test_the_answer_is_the_first_reply_or_as_many_as_are_enough(broker: Any) -> None:
    with (
        sync.connect(broker.server.url, name="one") as one,
        sync.connect(broker.server.url, name="two") as two,
        one.responding('type = "price?"', lambda request: {"price": 81, "about": str(request.get("symbol"))}),
    ):
        answer = ask(broker, symbol="IBM")
        assert (answer.status, answer.json["data"]["price"], answer.json["data"]["about"]) == (
            200,
            81,
            "IBM",
        )
        assert [each["data"]["price"] for each in ask(broker, "timeout=20s&enough=1").json] == [81]
        with two.responding('type = "price?"', lambda request: {"price": 82}):
            answer = ask(broker, "timeout=20s&enough=2")
            assert sorted(each["data"]["price"] for each in answer.json) == [81, 82]


def test_nobody_who_listens_and_nobody_who_replies_are_told_apart(broker: Any) -> None:
    assert (ask(broker).status, "nobody listens" in ask(broker).json["detail"]) == (404, True)
    with sync.connect(broker.server.url, name="dumb") as dumb, dumb.subscribe('type = "price?"'):
        assert ask(broker, "timeout=10ms").status == 504


def test_a_reply_to_another_request_is_not_in_the_answer(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(request: Notification, *arguments: Any) -> Notification:
        reply = made(request, *arguments)
        return reply.marked("re", {**reply.attributes["re"], "id": "another"})

    made = requesting.reply_of
    with sync.connect(broker.server.url, name="one") as one:
        monkeypatch.setattr("fairlead.network.requesting.reply_of", wrong)
        with one.responding('type = "price?"', lambda request: {"price": 81}):
            assert ask(broker, "timeout=200ms").status == 504


@pytest.mark.parametrize(
    "query",
    ["timeout=soon", "timeout=0s", "timeout=1h", "enough=0", "enough=x", "other=1", "enough=1&enough=2"],
)
def test_a_parameter_that_means_nothing_is_refused(broker: Any, query: str) -> None:
    assert ask(broker, query).status == 400


def test_a_request_is_one_event_without_a_reply_of_its_own(broker: Any) -> None:
    several = broker.ask("POST", "/requests", '[{"x": 1}, {"x": 2}]', {"Content-Type": RECORD})
    assert several.status in (400, 413)
    assert ask(broker, reply={"to": "me"}).status == 400
