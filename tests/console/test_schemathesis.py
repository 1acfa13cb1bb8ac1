"""Requests that are made of the OpenAPI document, right and wrong ones, are answered as the document says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import requests
import schemathesis  # type: ignore[import-not-found,unused-ignore]
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from schemathesis.checks import (  # type: ignore[import-not-found,unused-ignore]
    positive_data_acceptance,
)

from fairlead.console.openapi import DOCUMENT
from fairlead.console.streams import EVENT_STREAM
from fairlead.security.credentials import bearer
from fairlead_lab.testing.guarded import token
from fairlead_lab.testing.web import Web

PATIENCE_S: Final = 20
EXAMPLES: Final = 30 if settings.default.max_examples <= 100 else 2_000
SCHEMA: Final = schemathesis.openapi.from_dict(DOCUMENT)
UNDECIDED: Final = [positive_data_acceptance]
"""A schema cannot say which texts are filters, nor which records are notifications: 400 is documented for them."""


@SCHEMA.parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=[*HealthCheck], deadline=None)
def test_every_answer_is_as_the_document_says(case: Any, broker: Any) -> None:
    _check(case, f"http://127.0.0.1:{broker.port}")


CREDENTIALS: Final[dict[str, dict[str, str]]] = {
    **{name: {"Authorization": str(bearer(token(name)))} for name in ("ada", "nyse", "root", "stranger")},
    "forged": {"Authorization": str(bearer(token("root", key=b"another key of thirty-two bytes!")))},
    "none": {},
}
FREE: Final = {"/healthz", "/readyz", "/openapi.json"}
"""What needs no credentials."""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    made = Web(tmp_path_factory.mktemp("web"))
    yield made
    made.close()


@SCHEMA.given(who=st.sampled_from(sorted(CREDENTIALS)))
@SCHEMA.parametrize()
@settings(max_examples=EXAMPLES // 2, suppress_health_check=[*HealthCheck], deadline=None)
def test_every_answer_under_a_policy_is_as_the_document_says(case: Any, who: str, web: Web) -> None:
    """Whoever asks. Those who prove nothing, or may do nothing, get nothing that needs some right."""
    status = _check(case, f"http://127.0.0.1:{web.port}", CREDENTIALS[who])
    if case.operation.path not in FREE and who in ("stranger", "forged", "none"):
        assert 400 <= status < 500, (who, case.operation.path, status)


def _check(case: Any, url: str, headers: Mapping[str, str] | None = None) -> int:
    arguments = case.as_transport_kwargs(base_url=url)
    arguments["headers"] = {**(arguments.get("headers") or {}), **(headers or {})}
    with (
        requests.Session() as session,
        contextlib.closing(session.request(**arguments, stream=True, timeout=PATIENCE_S)) as response,
    ):
        if response.headers.get("content-type", "").startswith(EVENT_STREAM):
            response._content = b""  # it would never end
        case.validate_response(response, excluded_checks=UNDECIDED)
        return int(response.status_code)


def test_an_answer_that_the_document_does_not_have_is_found(broker: Any) -> None:
    document = {**DOCUMENT, "paths": {"/status": {"get": {"responses": {"204": {"description": "nothing"}}}}}}
    operation = schemathesis.openapi.from_dict(document)["/status"]["GET"]
    with pytest.raises(BaseException, match="Undocumented"):
        _check(operation.Case(), f"http://127.0.0.1:{broker.port}")
